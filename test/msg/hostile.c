/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-hostile EAL-ARGUMENTS -- leat|plain FLOOD
 *
 * A guest that does not use lib/msg sends malformed messages to an endpoint that does. Each case is
 * a new guest. Its connection must end with the right status, or go on where the peer can't see the
 * mistake. A buffer may be allocated only for a length that fits the receive, and the conversation
 * on the same endpoint must go on. The output is TAP. FLOOD is the number of messages that the
 * guest sends while no receive is posted: many times the credits, and no more than the device can
 * keep.
 *
 * test/unit/msg has these cases and more, byte by byte. Here they run over several devices, which
 * differ in where they keep messages without a receive, and in what they do if a receive is too
 * small.
 */

#include <errno.h>
#include <string.h>

#include <rte_byteorder.h>

#include "ends.h"

#define CREDITS 16u
#define FLOOD_MAX 10000u
#define LARGE 50000 /* bytes; too many for the send that carries a message's length */
#define BEFORE 3    /* messages of the bystander between two cases */

static struct end listener, bystander, guest;
static struct talk near = { .begins = true }, far, victim = { .quiet = true, .may_end = true };
static bool plain;

/* The guest's state. */
static int peer;
static bool up, gone;
static uint64_t base; /* base of the tags that the guest sends with */
static struct leat_op ops[FLOOD_MAX + 64];
static uint8_t small[FLOOD_MAX + 64][32], large[LARGE + 8];
static unsigned int nb_ops, flood;

static unsigned int nb_allocs;

static void *
alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	static uint8_t buf[LARGE];

	(void)arg;
	check(len <= sizeof(buf), "%" PRIu64 " B were asked for", len);
	*mr = NULL;
	nb_allocs++;
	return buf;
}

static void
guest_turn(void)
{
	struct leat_op *done[32];
	struct leat_event ev;

	/* The outcome of the guest's ops does not matter. */
	(void)leat_ep_poll(guest.ep, done, RTE_DIM(done));
	while (leat_ep_events(guest.ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECTED) {
			up = true;
			if (plain)
				continue;
			check(ev.priv_len >= 32 && memcmp(ev.priv, "LMSG\4", 5) == 0,
			      "no hello came back");
			memcpy(&base, ev.priv + 8, sizeof(base));
			base = rte_le_to_cpu_64(base) << 16;
		} else {
			gone = true;
		}
	}
}

static void
turn(void)
{
	end_turn(&listener);
	end_turn(&bystander);
	if (guest.ep != NULL)
		guest_turn();
}

/* ---- actions of the guest ---- */

static void
guest_connect(const char *addr)
{
	/*
	 * Hello of version 4: 2 credits, connection 7, messages of up to 2^32 B, up to 64 B in one
	 * send. Then the private data: the guest.
	 */
	static const uint8_t hello[33] = { 'L', 'M', 'S',      'G',	  4,	    0,		 2,
					   0,	7,   [20] = 1, [24] = 64, [28] = 1, [32] = GUEST };
	struct leat_conn_params params = {
		.priv = plain ? &hello[32] : hello,
		.priv_len = plain ? 1 : sizeof(hello),
	};

	nb_ops = 0;
	up = gone = false;
	memset(ops, 0, sizeof(ops));
	end_open(&guest, "guest", NULL);
	peer = leat_ep_connect(guest.ep, addr, &params);
	check(peer >= 0, "connect: %s", leat_err_msg());
	wait_until(turn, up && victim.up);
}

/* Send a tagged message. @return false if the device accepts no more sends */
static bool
put(uint64_t tag, void *buf, uint64_t len)
{
	struct leat_op *op = &ops[nb_ops];
	unsigned int i;

	op->type = LEAT_OP_TSEND;
	op->peer = (uint16_t)peer;
	op->buf = buf;
	op->size = len;
	op->tag = tag;
	for (i = 0; i < 10000; i++) {
		if (leat_ep_post(guest.ep, &op, 1) == 1) {
			nb_ops++;
			return true;
		}
		turn();
	}
	return false;
}

static void
put_small(uint64_t tag, const void *data, uint64_t len)
{
	memcpy(small[nb_ops], data, len);
	check(put(tag, small[nb_ops], len), "the device takes no message");
}

/*
 * Announce a message: send its length. In leat mode `follow` bytes of the message are in the same
 * send.
 */
static void
announce(uint32_t id, uint64_t len, uint64_t follow)
{
	uint8_t buf[32] = { 0 };
	uint64_t le = rte_cpu_to_le_64(len);

	memcpy(buf, &le, 8);
	if (plain) {
		put_small(UINT64_C(1) << 32 | id, buf, 8);
	} else {
		buf[8] = 2; /* as many credits as the guest's hello said */
		put_small(UINT64_C(1) << 62 | base | id, buf, 16 + follow);
	}
}

static void
payload(uint32_t id, uint64_t len)
{
	check(put((plain ? UINT64_C(1) << 33 : UINT64_C(2) << 62 | base) | id, large, len),
	      "the device takes no message");
}

/* ---- cases ---- */

static void
length_of_2_63(void)
{
	announce(0, UINT64_C(1) << 63, 0);
}

static void
longer_than_the_receive(void)
{
	announce(0, LARGE + 1, 0);
}

static void
payload_longer(void)
{
	announce(0, LARGE - 1, 0);
	payload(0, LARGE + 7);
}

static void
payload_shorter(void)
{
	announce(0, LARGE, 0);
	payload(0, LARGE - 1);
}

/* Leat mode: the send has more, or fewer, bytes of the message than the length that it states. */
static void
small_longer(void)
{
	announce(0, 4, 5);
}

static void
small_shorter(void)
{
	announce(0, 4, 3);
}

/* The send that announces a message has a wrong length. */
static void
length_of_5_bytes(void)
{
	put_small((plain ? UINT64_C(1) << 32 : UINT64_C(1) << 62 | base) | 0, "12345", 5);
}

static void
length_of_24_bytes(void)
{
	if (plain)
		put_small(UINT64_C(1) << 32, small[0], 24);
	else
		announce(0, 4, 8); /* the last 4 bytes are too few for a message's length */
}

/*
 * Send a message that is received, then messages whose tags match no receive: in leat mode tags of
 * another connection, in plain mode tags of an unknown kind, with ids from 2^31 on.
 */
static void
garbage_tags(void)
{
	uint32_t i;

	announce(0, 0, 0);
	for (i = 0; i < 64; i++) {
		uint64_t tag = ((uint64_t)i << 58 | UINT64_C(0x3ffff) << 40 | i * 0x9e3779b9u) |
			       UINT64_C(1) << 31;

		put_small(i % 2 == 0 ? tag : (plain ? 0 : base) | tag, "garbage", 7);
	}
}

/*
 * The guest sends beyond its credits. The receiver gave 16 credits (in plain mode: 8 receives), and
 * posts no request.
 */
static void
ignores_credits(void)
{
	uint8_t buf[16] = { 0 };
	uint32_t i;

	buf[8] = 2;
	for (i = 0; i < flood; i++) {
		memcpy(small[nb_ops], buf, sizeof(buf));
		if (!put((plain ? UINT64_C(1) << 32 : UINT64_C(1) << 62 | base) | i, small[nb_ops],
			 plain ? 8 : 16))
			break;
	}
	check(i > CREDITS, "only %u messages could be sent", i);
}

/* Leat mode: give more credit than a receiver can have receives for. */
static void
too_much_credit(void)
{
	uint8_t buf[16] = { [8] = 0xff, [9] = 0xff };

	put_small(UINT64_C(1) << 62 | base, buf, 16);
}

/* ---- table of cases ---- */

static const struct {
	const char *name;
	void (*run)(void);
	bool in_plain, in_leat;
	bool receives; /* the listener posts a receive */
	int status;    /* status with which the connection ends; 0: it goes on */
	unsigned int allocs;
	int req_status; /* status of that receive when the connection goes on */
} cases[] = {
	{ "a length of 2^63", length_of_2_63, true, true, true, -EMSGSIZE, 0, 0 },
	{ "a length of 2^63, and no receive", length_of_2_63, true, true, false, -EMSGSIZE, 0, 0 },
	{ "a message longer than the receive", longer_than_the_receive, true, true, true, 0, 0,
	  -EMSGSIZE },
	{ "a payload longer than announced", payload_longer, true, true, true, -EPROTO, 1, 0 },
	{ "a payload shorter than announced", payload_shorter, true, true, true, -EPROTO, 1, 0 },
	{ "a small message longer than announced", small_longer, false, true, true, -EPROTO, 0, 0 },
	{ "a small message shorter than announced", small_shorter, false, true, true, -EPROTO, 0,
	  0 },
	{ "a length of 5 bytes", length_of_5_bytes, true, true, true, -EPROTO, 0, 0 },
	{ "a length of 24 bytes", length_of_24_bytes, true, true, true, -EPROTO, 0, 0 },
	{ "garbage tags", garbage_tags, true, true, true, 0, 0, 0 },
	{ "a sender that ignores credits", ignores_credits, true, true, false, 0, 0, 0 },
	{ "credit that was not given", too_much_credit, false, true, true, -EPROTO, 0, 0 },
};

static void
run_case(unsigned int nr, const char *addr)
{
	struct leat_msg_req *req = &victim.rx;
	struct leat_msg_stats stats;
	uint64_t talked;

	nb_allocs = 0;
	victim.up = victim.closed = false;
	guest_connect(addr);
	*req = (struct leat_msg_req){ .size = LARGE };
	if (cases[nr].receives)
		check(leat_msg_recv(victim.c, &req, 1) == 1, "recv");
	cases[nr].run();
	talked = near.received;
	if (cases[nr].status != 0) {
		wait_until(turn, victim.closed);
		check(victim.status == cases[nr].status, "%s: ended with %d instead of %d: %s",
		      cases[nr].name, victim.status, cases[nr].status, victim.text);
		check(req->state == 0 && (!cases[nr].receives || req->status == victim.status),
		      "%s: the request did not come back", cases[nr].name);
		wait_until(turn, gone);
	}
	wait_until(turn, near.received >= talked + BEFORE);
	leat_msg_stats_get(listener.m, &stats);
	check(stats.held <= CREDITS && stats.held_max <= CREDITS, "%u messages are held",
	      stats.held);
	check(nb_allocs == cases[nr].allocs, "%s: %u buffers were asked for", cases[nr].name,
	      nb_allocs);
	if (cases[nr].status == 0) {
		check(!victim.ended, "%s: ended: %s", cases[nr].name, victim.text);
		if (cases[nr].receives)
			wait_until(turn, req->state == 0);
		check(req->status == cases[nr].req_status &&
			      req->len == (req->status == 0 ? 0 : LARGE + 1),
		      "%s: the receive has %d", cases[nr].name, req->status);
		check(leat_msg_close(victim.c, 0) == 0, "close");
		wait_until(turn, victim.closed && gone);
	}
	(void)leat_ep_close(guest.ep, 0, NULL, NULL);
	guest.ep = NULL;
	talked = near.received;
	wait_until(turn, near.received >= talked + BEFORE);
}

int
main(int argc, char **argv)
{
	const struct leat_msg_conf conf = { .max_conns = 4, .credits = CREDITS };
	struct leat_msg_stats before, after;
	unsigned int i, done = 0;
	const char *addr;
	int ret = leat_init(argc, argv);

	check(ret >= 0, "leat_init: %s", leat_err_msg());
	argc -= ret;
	argv += ret;
	check(argc == 3, "-- leat|plain FLOOD");
	flood = (unsigned int)atoi(argv[2]);
	check(flood > 4 * CREDITS && flood <= FLOOD_MAX, "%s: from %u to %u", argv[2], 4 * CREDITS,
	      FLOOD_MAX);
	plain = strcmp(argv[1], "plain") == 0;
	listener.conf.mode = plain ? LEAT_MSG_PLAIN : LEAT_MSG_LEAT;
	listener.conf.alloc = alloc;
	listener.conf.max_size = TALK_MAX;
	bystander.conf.mode = listener.conf.mode;
	listener.talks[BYSTANDER] = &far;
	listener.talks[GUEST] = &victim;
	end_open(&listener, "listener", &conf);
	end_open(&bystander, "bystander", &conf);
	leat_msg_stats_get(listener.m, &before);
	addr = end_listen(&listener);
	talk_connect(&bystander, &near, BYSTANDER, addr);
	wait_until(turn, near.received > 0);
	for (i = 0; i < RTE_DIM(cases); i++) {
		if (plain ? !cases[i].in_plain : !cases[i].in_leat)
			continue;
		run_case(i, addr);
		printf("ok %u - %s\n", ++done, cases[i].name);
		(void)fflush(stdout);
	}
	leat_msg_stats_get(listener.m, &after);
	check(after.memory == before.memory && after.conns == 1, "something is left");
	talk_close(&near, &far, turn);
	end_close(&bystander);
	end_close(&listener);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	printf("1..%u\n", done);
	return 0;
}
