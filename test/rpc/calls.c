/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-rpc-calls EAL-ARGUMENTS -- [--ends|--again] [--addr HOST:PORT] [--devices CLIENT,SERVER]
 *                                [--silence MS] CALLS SEED
 *
 * Calls of every kind over several sessions between two endpoints of one thread, both on the last
 * device, or on the named ones: small and long calls, answered at once or later in any order,
 * one-way, cancelled, with deadlines that pass. Every response is checked. Each request must be
 * handled exactly once if its caller got an answer, and at most once if it did not.
 *
 * --ends: the device ends sessions, by ops that fail and peers that die, and a new session replaces
 * each. --again: connections end in this way, and sessions reconnect by themselves.
 */

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "common.h"

#define SESSIONS 3
#define WINDOW 100 /* calls in flight per session */
#define LONGEST 200000
#define LATER_MAX 64

#define SMALL 900 /* fits a packet of any device */

enum { NOW = 1, LATER, ONEWAY, LONG_NOW, LONG_LATER };

struct one {
	struct leat_rpc_req req;
	uint64_t id;
	bool busy;
	uint8_t out[LONGEST], in[LONGEST];
};

struct end {
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct leat_rpc_session *s[SESSIONS];
	unsigned int up, closed;
};

static struct end a, b;
static struct one *ones;
static uint8_t *handled; /* times that each request was handled, by its id */
static uint64_t nb_calls, posted, done, ok, expected_oneway, handled_oneway;
static struct leat_rpc_incoming *later[LATER_MAX];
static unsigned int nb_later;
static uint64_t seed;
static bool ends, again;
static char addr[LEAT_ADDR_MAX] = "127.0.0.1:0";
static char devices[2][64];
static uint32_t silence_us;
static unsigned int nb_ended, nb_down;

/* xorshift64*, G. Marsaglia and S. Vigna */
static uint64_t
chance(uint64_t n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * UINT64_C(2685821657736338717) >> 11) % n;
}

static uint8_t
byte_of(uint64_t id, uint32_t i)
{
	return (uint8_t)(id * 31 + i * 7 + (i >> 9));
}

/* ---- the server ---- */

static uint64_t
note(const struct leat_rpc_incoming *call)
{
	uint64_t id;
	uint32_t i;

	check(call->len >= 8, "a request of %u B", call->len);
	memcpy(&id, call->req, 8);
	check(id < nb_calls && handled[id] == 0, "request %" PRIu64 " is handled again", id);
	handled[id] = 1;
	for (i = 8; i < call->len; i++)
		check(((const uint8_t *)call->req)[i] == byte_of(id, i),
		      "request %" PRIu64 ", byte %u", id, i);
	return id;
}

static void
respond(struct leat_rpc_incoming *call)
{
	uint32_t i;

	for (i = 0; i < call->len; i++)
		((uint8_t *)call->resp)[i] = (uint8_t) ~((const uint8_t *)call->req)[i];
	call->resp_len = call->len;
}

static int
on_now(struct leat_rpc_incoming *call, void *arg)
{
	(void)arg;
	(void)note(call);
	respond(call);
	return 0;
}

static int
on_later(struct leat_rpc_incoming *call, void *arg)
{
	struct leat_rpc_incoming *ticket = nb_later < LATER_MAX ? leat_rpc_defer(call) : NULL;

	(void)arg;
	(void)note(call);
	if (ticket == NULL)
		return -EAGAIN;
	later[nb_later++] = ticket;
	return LEAT_RPC_DEFERRED;
}

static int
on_oneway(struct leat_rpc_incoming *call, void *arg)
{
	(void)arg;
	(void)note(call);
	handled_oneway++;
	return 0;
}

static void
answer_some(bool all)
{
	while (nb_later > 0 && (all || chance(3) == 0)) {
		unsigned int i = (unsigned int)chance(nb_later);
		struct leat_rpc_incoming *call = later[i];

		later[i] = later[--nb_later];
		respond(call);
		leat_rpc_answer(call, 0);
	}
}

/* ---- the client ---- */

static void
give_back(const struct leat_rpc_req *req)
{
	struct one *o = req->user;
	uint32_t i;

	o->busy = false;
	done++;
	switch (req->status) {
	case 0:
		if ((req->flags & LEAT_RPC_ONEWAY) != 0) {
			expected_oneway++;
			return;
		}
		ok++;
		check(req->resp_len == req->len, "%u B of %u", req->resp_len, req->len);
		check(handled[o->id] == 1, "call %" PRIu64 " was not handled", o->id);
		for (i = 0; i < req->resp_len; i++)
			check((o->in[i] ^ o->out[i]) == 0xff, "response %" PRIu64 ", byte %u",
			      o->id, i);
		return;
	case -EBUSY:
		check(handled[o->id] == 0 && req->refused != 0, "busy, and handled");
		return;
	case -ETIMEDOUT:
	case -ECANCELED:
		check(req->refused == 0 || handled[o->id] == 0, "refused, and handled");
		return;
	case -EAGAIN:
		return;
	default:
		check(ends, "call %" PRIu64 ": %s", o->id, strerror(-req->status));
	}
}

static uint32_t
length(void)
{
	switch (chance(20)) {
	case 0:
		return 8 + (uint32_t)chance(LONGEST - 8);
	case 1:
		return 3000 + (uint32_t)chance(3000);
	default:
		return 8 + (uint32_t)chance(200);
	}
}

static void
post_some(void)
{
	struct leat_rpc_req *list[16];
	uint16_t n = 0;
	unsigned int i, tries;
	uint32_t k;

	for (tries = 0; tries < 16 && posted < nb_calls; tries++) {
		struct one *o = &ones[chance(SESSIONS * WINDOW)];

		if (o->busy)
			continue;
		i = (unsigned int)chance(SESSIONS);
		if (a.s[i] == NULL)
			continue;
		o->busy = true;
		o->id = posted++;
		o->req.session = a.s[i];
		o->req.type = (uint8_t)(NOW + chance(3));
		o->req.flags = o->req.type == ONEWAY ? LEAT_RPC_ONEWAY : 0;
		o->req.buf = o->out;
		o->req.len = length();
		if (o->req.len > SMALL && o->req.type != ONEWAY)
			o->req.type = (uint8_t)(o->req.type - NOW + LONG_NOW);
		o->req.resp = o->in;
		o->req.room = LONGEST;
		o->req.user = o;
		o->req.deadline = chance(10) == 0 ? leat_now() + leat_us_to_cycles(chance(2000))
						  : LEAT_RPC_NO_DEADLINE;
		memcpy(o->out, &o->id, 8);
		for (k = 8; k < o->req.len; k++)
			o->out[k] = byte_of(o->id, k);
		list[n++] = &o->req;
	}
	check(leat_rpc_post(list, n) == n, "post");
	if (chance(4) == 0)
		(void)leat_rpc_cancel(&ones[chance(SESSIONS * WINDOW)].req);
}

/* ---- driving both ends ---- */

static void
end_open(struct end *e, const char *name, const char *device)
{
	struct leat_dev *dev = device[0] != '\0' ? leat_dev_by_name(device)
						 : leat_dev_get(leat_dev_count() - 1);
	const struct leat_ep_conf conf = { .name = name,
					   .max_peers = SESSIONS + 1,
					   .type = device_type() };
	const struct leat_rpc_conf rpc_conf = {
		.max_sessions = SESSIONS,
		.max_msg = LONGEST,
		.tickets = 48,
		.slots = 16,
		.silence_us = silence_us,
	};

	check(dev != NULL, "no device %s", device);
	e->ep = leat_ep_create(dev, &conf);
	check(e->ep != NULL, "%s: %s", name, leat_err_msg());
	e->rpc = leat_rpc_create(e->ep, &rpc_conf);
	check(e->rpc != NULL, "%s: %s", name, leat_err_msg());
	check(leat_rpc_handler_set(e->rpc, NOW, on_now, e, SMALL) == 0 &&
		      leat_rpc_handler_set(e->rpc, LATER, on_later, e, SMALL) == 0 &&
		      leat_rpc_handler_set(e->rpc, LONG_NOW, on_now, e, LONGEST) == 0 &&
		      leat_rpc_handler_set(e->rpc, LONG_LATER, on_later, e, LONGEST) == 0 &&
		      leat_rpc_handler_set(e->rpc, ONEWAY, on_oneway, e, 0) == 0,
	      "%s: %s", name, leat_err_msg());
}

static void
end_turn(struct end *e)
{
	struct leat_rpc_req *reqs[32];
	struct leat_rpc_event rev;
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(e->ep, ops, 32);
	check(leat_rpc_process(e->rpc, ops, n) == 0, "an op of no context");
	n = leat_rpc_poll(e->rpc, reqs, 32);
	for (i = 0; i < n; i++)
		give_back(reqs[i]);
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			/* --ends: there may be no room until a session that has ended is closed. */
			check(leat_rpc_accept(e->rpc, &ev, NULL) != NULL || ends, "accept: %s",
			      leat_err_msg());
		} else {
			(void)leat_rpc_handle_event(e->rpc, &ev);
		}
	}
	while (leat_rpc_events(e->rpc, &rev, 1) == 1) {
		check(rev.status == 0 || ends, "a session ended: %s", rev.text);
		e->up += rev.type == LEAT_RPC_UP;
		e->closed += rev.type == LEAT_RPC_CLOSED;
		nb_down += rev.type == LEAT_RPC_DOWN;
		if (rev.type != LEAT_RPC_ENDED)
			continue;
		check(!again || e == &b, "a session gave up: %s", rev.text);
		nb_ended++;
		for (i = 0; i < SESSIONS; i++) {
			if (e->s[i] == rev.session)
				e->s[i] = NULL;
		}
		(void)leat_rpc_close(rev.session, 0);
	}
}

/* Connect a session in place of each that has ended. */
static void
reconnect(void)
{
	const struct leat_rpc_session_conf conf = { .reconnect_min_us = again ? 100 : 0,
						    .reconnect_max_us = again ? 10000 : 0 };
	unsigned int i;

	for (i = 0; i < SESSIONS; i++) {
		if (a.s[i] == NULL)
			a.s[i] = leat_rpc_connect(a.rpc, addr, &conf);
		check(a.s[i] != NULL || ends, "connect: %s", leat_err_msg());
	}
}

static void
turn(void)
{
	end_turn(&a);
	end_turn(&b);
}

static void
end_close(struct end *e)
{
	wait_until(end_turn(e), leat_rpc_destroy(e->rpc) == 0);
	check(leat_ep_close(e->ep, PATIENCE_US, NULL, NULL) == 0, "close: %s", leat_err_msg());
}

static void
work_turn(void)
{
	post_some();
	turn();
	if (ends)
		reconnect();
	answer_some(false);
}

static void
parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ends", no_argument, NULL, 'e' },
		{ "again", no_argument, NULL, 'g' },
		{ "addr", required_argument, NULL, 'a' },
		{ "devices", required_argument, NULL, 'd' },
		{ "silence", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'e')
			ends = true;
		else if (c == 'g')
			ends = again = true;
		else if (c == 'a')
			snprintf(addr, sizeof(addr), "%s", optarg);
		else if (c == 's')
			silence_us = 1000 * (uint32_t)strtoul(optarg, NULL, 10);
		else
			check(c == 'd' &&
				      sscanf(optarg, "%63[^,],%63s", devices[0], devices[1]) == 2,
			      "options: --ends, --again, --addr HOST:PORT, "
			      "--devices CLIENT,SERVER, --silence MS");
	}
	check(argc - optind == 2, "-- [OPTIONS] CALLS SEED");
	nb_calls = strtoull(argv[optind], NULL, 10);
	seed = strtoull(argv[optind + 1], NULL, 10) + 1;
}

int
main(int argc, char **argv)
{
	struct leat_rpc_stats sa, sb;
	unsigned int i;
	int n;

	n = leat_init(argc, argv);
	check(n >= 0, "leat_init: %s", leat_err_msg());
	parse(argc - n, argv + n);
	ones = calloc(SESSIONS * WINDOW, sizeof(*ones));
	handled = calloc(nb_calls, 1);
	check(ones != NULL && handled != NULL, "no memory");
	end_open(&a, "a", devices[0]);
	end_open(&b, "b", devices[1]);
	check(leat_ep_listen(b.ep, addr) == 0 && leat_ep_listen_addr(b.ep, addr, sizeof(addr)) == 0,
	      "listen: %s", leat_err_msg());
	reconnect();
	wait_until(turn(), ends || (a.up == SESSIONS && b.up == SESSIONS));
	while (posted < nb_calls)
		work_turn();
	wait_until((turn(), answer_some(true)), done == nb_calls);
	/* Calls that the client has cancelled may still be deferred by the server. */
	for (i = 0; i < SESSIONS; i++) {
		if (a.s[i] != NULL)
			check(leat_rpc_close(a.s[i], PATIENCE_US) == 0, "close");
		a.s[i] = NULL;
	}
	wait_until((turn(), answer_some(true)),
		   (leat_rpc_stats_get(a.rpc, &sa), sa.sessions == 0) &&
			   (leat_rpc_stats_get(b.rpc, &sb), sb.sessions == 0));
	check(handled_oneway >= expected_oneway || ends, "%" PRIu64 " one-way requests of %" PRIu64,
	      handled_oneway, expected_oneway);
	check(!ends || nb_ended > 0, "no session ended");
	check(!again || nb_down > 0, "no connection ended");
	leat_rpc_stats_get(a.rpc, &sa);
	leat_rpc_stats_get(b.rpc, &sb);
	check(sa.posted == sa.done && sa.tx_packets == 0 && sb.tx_packets == 0 && sa.large == 0 &&
		      sb.large == 0 && sb.tickets == 0,
	      "something is left");
	printf("%" PRIu64 " calls: %" PRIu64 " answered, %" PRIu64 " one-way, %" PRIu64
	       " cancelled, %" PRIu64 " late, %" PRIu64 " busy; %" PRIu64 " packets, %" PRIu64
	       " of them again, %" PRIu64 " probes; %u connections ended, %" PRIu64
	       " came up again\n",
	       nb_calls, ok, expected_oneway, sa.cancelled, sa.expired, sb.busy,
	       sa.packets_sent + sb.packets_sent, sa.retransmissions + sb.retransmissions,
	       sa.probes + sb.probes, again ? nb_down : nb_ended, sa.reconnects);
	end_close(&a);
	end_close(&b);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	free(ones);
	free(handled);
	return 0;
}
