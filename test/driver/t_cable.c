/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cable between the two sides is pulled and plugged in, and loses packets. These tests apply to
 * devices that answer a peer without being polled: hardware, or a kernel. The command given with
 * --cable acts on the cable:
 *
 *     CMD down     nothing comes through any more when it returns
 *     CMD up       the cable works again
 *     CMD lossy    one packet of 100 is lost, in both directions
 *
 * The near side, a, sends. What b's device reports when its own end of the cable is down is not
 * tested.
 */

#include "ct.h"

static void
cable(const char *what)
{
	char cmd[512];
	int ret;

	snprintf(cmd, sizeof(cmd), "%s %s", ct.cable, what);
	ret = system(cmd); /* NOLINT(cert-env33-c): a shell command is what the option takes */
	CT_EQ(ret, 0, cmd);
}

/* Post all receives at once: an impatient device needs a receive before its message comes. */
static int
receive(struct ct_side *s, uint32_t count)
{
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = count,
			     .size = 1,
			     .size_max = 4000,
			     .seed = 77,
			     .check = CT_DATA };
	int rx = ct_stream(s, &r);

	ct_wait_posted(s, rx, count);
	return rx;
}

static int
send(struct ct_side *s, uint16_t peer, uint32_t count)
{
	struct ct_spec t = { .type = LEAT_OP_SEND,
			     .peer = peer,
			     .count = count,
			     .size = 1,
			     .size_max = 4000,
			     .seed = 77 };

	return ct_stream(s, &t);
}

/* With the verbs driver the event's text must contain wc, the status of the work completion. */
static void
names(const struct leat_event *ev, const char *wc)
{
	if (strcmp(ct.info.driver, "fabric_verbs") == 0)
		CT_CHECK(strstr(ev->text, wc) != NULL, "no %s in '%s'", wc, ev->text);
}

/* The cable is down for a moment: no message is lost, no op fails, the ops only take longer. */
static void
down_for_a_moment(void)
{
	const uint32_t n = 50;
	struct ct_result res;
	struct ct_pair p;
	uint64_t counts[8];
	int tx, rx;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p);
	rx = receive(&p.b, n);
	cable("down");
	tx = send(&p.a, p.pa, n);
	ct_wait_posted(&p.a, tx, n);
	ct_pump_us(50000);
	ct_result(&p.a, tx, &res);
	cable("up");
	CT_EQ(res.done, 0, "messages that came through a cable that is out");
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	ct_counts(&p.a, counts);
	CT_EQ(counts[LEAT_EV_DISCONNECTED], 0, "disconnected");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

static void
down_for_good(void)
{
	const uint32_t n = 50;
	struct leat_event ev;
	struct ct_result res;
	struct ct_pair p;
	uint64_t start;
	uint16_t pa, pb;
	int tx, rx;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p);
	rx = receive(&p.b, n);
	cable("down");
	start = leat_now();
	tx = send(&p.a, p.pa, n);
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	CT_CHECK(ct_in_time(ct_ms_since(start), ct.info.dead_peer_ms),
		 "heard of it after %" PRIu64 " ms, dead_peer_ms is %u", ct_ms_since(start),
		 ct.info.dead_peer_ms);
	ct_wait(&p.a, tx, n, &res);
	cable("up");
	CT_EQ(ev.status, -ECONNRESET, "status of DISCONNECTED");
	names(&ev, "IBV_WC_RETRY_EXC_ERR");
	CT_EQ(ct_status_count(&res, -ECONNRESET), n, "sends that ended with -ECONNRESET");
	/* b's receives for any peer are still posted, and get messages of the new connection. */
	ct_connect(&p.a, &p.b, p.addr, &pa, &pb);
	tx = send(&p.a, pa, n);
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	/* If b's end of the old connection is still up, b's next send finds that it has ended. */
	tx = send(&p.b, p.pb, 1);
	ct_wait(&p.b, tx, 1, &res);
	CT_ONLY(&res, "send to who is gone", -ECONNRESET, -ENOTCONN);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	ct_pair_close(&p);
}

static void
one_sided(struct ct_pair *p, uint8_t type, int mr, const struct leat_rkey *rk, uint32_t count)
{
	const uint64_t size = 20000;
	struct ct_spec s = { .type = type,
			     .peer = p->pa,
			     .count = count,
			     .size = size,
			     .seed = 9,
			     .raddr = rk->addr,
			     .rkey = rk->key,
			     .window = 16 };

	if (type == LEAT_OP_READ) {
		s.seed = 3;
		s.check = CT_DATA;
	} else if (type == LEAT_OP_FETCH_ADD) {
		s.size = 8;
		s.operand = 1;
		s.check = CT_OLD;
		ct_mr_poke(&p->b, mr, 0, 0);
	}
	ct_wait_ok(&p->a, ct_stream(&p->a, &s), count);
	if (type == LEAT_OP_WRITE)
		ct_mr_check(&p->b, mr, 0, size, s.seed + count - 1, 0);
	else if (type == LEAT_OP_FETCH_ADD)
		CT_EQ(ct_mr_peek(&p->b, mr, 0), count, "sum of the additions");
}

/* One packet of a hundred is lost; the messages only take longer. */
static void
lossy(void)
{
	const uint32_t n = ct_scaled(2000);
	struct leat_rkey rk;
	struct ct_pair p;
	int mr;

	ct_pair_open(&p, NULL, NULL);
	mr = ct_mr(&p.b, 20000, ct_access(), 3, &rk);
	cable("lossy");
	ct_traffic(&p.a, p.pa, &p.b, n, 1, 20000, 1);
	ct_traffic(&p.b, p.pb, &p.a, n, 1, 20000, 2);
	one_sided(&p, LEAT_OP_READ, mr, &rk, n);
	one_sided(&p, LEAT_OP_FETCH_ADD, mr, &rk, n);
	one_sided(&p, LEAT_OP_WRITE, mr, &rk, n);
	cable("up");
	ct_pair_close(&p);
}

/*
 * An op of a ends the connection to b: the op completes with `status`, and the event's text
 * contains wc. The ops after it fail with the connection. If kill is set, b is killed instead. c is
 * not disturbed.
 */
static void
ended_by(const struct ct_spec *spec, int status, const char *wc, bool kill)
{
	const uint32_t n = 20, flow = 100;
	struct ct_spec s = *spec;
	struct ct_result res;
	struct leat_event ev;
	struct leat_rkey rk;
	struct ct_trio t;
	int tx, out, in_a, in_c;

	ct_trio_open(&t, NULL);
	(void)ct_mr(&t.b, 20000, ct_access(), 3, &rk);
	in_a = receive(&t.a, flow);
	in_c = receive(&t.c, flow);
	s.peer = t.pb;
	s.count = n;
	s.size = 1000;
	s.raddr = rk.addr;
	s.rkey = kill ? rk.key : rk.key ^ 0x5555;
	tx = ct_stream(&t.a, &s);
	out = send(&t.a, t.pc, flow);
	if (kill)
		ct_kill(&t.b);
	ct_wait(&t.a, tx, n, &res);
	ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, &ev);
	CT_EQ(ev.status, -ECONNRESET, "status of DISCONNECTED");
	if (kill) {
		CT_ONLY(&res, "ops to the killed one", -ECONNRESET, -ENOTCONN);
	} else {
		names(&ev, wc);
		CT_EQ(ct_status_count(&res, status), 1, "ops that it answered so");
		/* Ops posted after the connection ended have -ENOTCONN. */
		CT_EQ(ct_status_count(&res, -ECONNRESET) + ct_status_count(&res, -ENOTCONN), n - 1,
		      "ops behind it");
	}
	ct_wait_ok(&t.a, out, flow);
	ct_wait_ok(&t.c, in_c, flow);
	ct_wait_ok(&t.c, send(&t.c, t.ac, flow), flow);
	ct_wait_ok(&t.a, in_a, flow);
	if (kill) {
		ct_finish(&t.a);
		ct_finish(&t.c);
	} else {
		ct_trio_close(&t);
	}
}

static void
wrong_key(void)
{
	ended_by(&(struct ct_spec){ .type = LEAT_OP_WRITE }, -EACCES, "IBV_WC_REM_ACCESS_ERR",
		 false);
	ended_by(&(struct ct_spec){ .type = LEAT_OP_READ }, -EACCES, "IBV_WC_REM_ACCESS_ERR",
		 false);
}

/* On an impatient device (--impatient) a send to a peer without receives ends the connection. */
static void
no_receives(void)
{
	if (!ct.impatient)
		ct_skip("the device waits for receives without end; see --impatient");
	ended_by(&(struct ct_spec){ .type = LEAT_OP_SEND }, -EREMOTEIO, "IBV_WC_RNR_RETRY_EXC_ERR",
		 false);
}

static void
killed(void)
{
	ended_by(&(struct ct_spec){ .type = LEAT_OP_SEND }, 0, NULL, true); /* waits for receives */
	ended_by(&(struct ct_spec){ .type = LEAT_OP_WRITE }, 0, NULL, true);
	ended_by(&(struct ct_spec){ .type = LEAT_OP_READ }, 0, NULL, true);
}

/* ---- many completions that are not polled ---- */

#define BRIM 512

struct brim {
	struct leat_op tx[BRIM], rx[BRIM];
	struct leat_op *ops[2 * BRIM];
	uint32_t nb_tx, nb_rx; /* depths */
	uint32_t got_tx, got_rx;
};

static void
brim_post(struct leat_ep *ep, struct leat_op *op, uint32_t n, struct leat_op **ops)
{
	struct leat_op more = op[0], *extra = &more;
	uint32_t i, posted = 0;

	for (i = 0; i < n; i++)
		ops[i] = &op[i];
	while (posted < n) {
		uint16_t got = leat_ep_post(ep, &ops[posted], (uint16_t)RTE_MIN(n - posted, 32u));

		CT_CHECK(got > 0, "%s %u of %u is refused", leat_op_type_name(op->type), posted, n);
		posted += got;
	}
	CT_EQ(leat_ep_post(ep, &extra, 1), 0, "ops accepted beyond the depth");
	CT_EQ(rte_errno, EAGAIN, "reason");
}

static void
brim_take(struct brim *b, const struct leat_op *op, uint64_t seed)
{
	uint64_t word;

	CT_EQ(op->status, 0, "status");
	if (op->type == LEAT_OP_SEND) {
		CT_CHECK(op == &b->tx[b->got_tx], "send %td came back as number %u", op - b->tx,
			 b->got_tx);
		b->got_tx++;
		return;
	}
	CT_CHECK(op == &b->rx[b->got_rx], "receive %td came back as number %u", op - b->rx,
		 b->got_rx);
	memcpy(&word, op->buf, sizeof(word));
	CT_CHECK(op->len == sizeof(word) && word == ct_word(seed + b->got_rx, 0),
		 "receive %u has not what was sent", b->got_rx);
	b->got_rx++;
}

/*
 * Post as many sends and receives as the endpoint accepts, and let all complete while the endpoint
 * is not polled: both CQs are as full as they can get. Then poll must return all ops.
 */
static void
to_the_brim(void)
{
	static struct brim b;
	const uint32_t nb_tx = RTE_MIN((uint32_t)BRIM, ct.info.tx_depth_max),
		       nb_rx = RTE_MIN((uint32_t)BRIM, ct.info.rx_depth_max);
	struct ct_conf ca = { .tx_depth = nb_tx, .rx_depth = nb_rx },
		       cb = { .tx_depth = nb_rx, .rx_depth = nb_tx };
	struct ct_spec s = {
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .size = 8, .check = CT_DATA
	};
	struct ct_region *m;
	struct ct_pair p;
	uint32_t i;
	int rx, tx;

	memset(&b, 0, sizeof(b));
	ct_pair_open(&p, &ca, &cb);
	m = &ct_node(&p.a)->regions[ct_mr(&p.a, (nb_tx + nb_rx) * 8, LEAT_MR_LOCAL, 0, NULL)];
	s.count = nb_tx;
	s.seed = 100;
	rx = ct_stream(&p.b, &s);
	ct_wait_posted(&p.b, rx, nb_tx);
	ct_freeze(&p.a, true);
	for (i = 0; i < nb_tx + nb_rx; i++) {
		struct leat_op *op = i < nb_tx ? &b.tx[i] : &b.rx[i - nb_tx];
		uint64_t word = ct_word(s.seed + i, 0);

		op->type = i < nb_tx ? LEAT_OP_SEND : LEAT_OP_RECV;
		op->peer = i < nb_tx ? p.pa : LEAT_PEER_ANY;
		op->buf = m->mem + 8ul * i;
		op->size = 8;
		op->mr = m->mr;
		memcpy(op->buf, &word, sizeof(word));
	}
	brim_post(ct_node(&p.a)->ep, b.rx, nb_rx, b.ops);
	brim_post(ct_node(&p.a)->ep, b.tx, nb_tx, b.ops);
	ct_wait_ok(&p.b, rx, nb_tx);
	s.type = LEAT_OP_SEND;
	s.peer = p.pb;
	s.count = nb_rx;
	s.seed = 5000;
	tx = ct_stream(&p.b, &s);
	ct_wait_ok(&p.b, tx, nb_rx);
	while (b.got_tx < nb_tx || b.got_rx < nb_rx) {
		uint16_t n = 0;

		CT_UNTIL((n = leat_ep_poll(ct_node(&p.a)->ep, b.ops, 32)) > 0,
			 "%u of %u sends and %u of %u receives came back", b.got_tx, nb_tx,
			 b.got_rx, nb_rx);
		for (i = 0; i < n; i++)
			brim_take(&b, b.ops[i], s.seed);
	}
	ct_freeze(&p.a, false);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* ---- connections ---- */

#define CONNS 1000u
#define ROUNDS 10u
#define AT_ONCE 32u

static void
connect_all(struct ct_side *b, const char *addr, uint16_t *peers, uint32_t n)
{
	uint32_t i, up = 0;

	for (i = 0; i < n; i++) {
		int peer = ct_try_connect(b, addr, NULL, 0, 0, 0);

		CT_CHECK(peer >= 0, "connect %u: %s", i, ct_err_text());
		peers[i] = (uint16_t)peer;
		for (; up + AT_ONCE <= i + 1 || (i + 1 == n && up < n); up++)
			ct_event(b, LEAT_EV_CONNECTED, peers[up], NULL);
	}
}

static void
disconnect_all(struct ct_side *b, const uint16_t *peers, uint32_t n)
{
	uint32_t i, down = 0;

	for (i = 0; i < n; i++) {
		CT_EQ(ct_disconnect(b, peers[i]), 0, "disconnect");
		for (; down + AT_ONCE <= i + 1 || (i + 1 == n && down < n); down++)
			ct_event(b, LEAT_EV_DISCONNECTED, peers[down], NULL);
	}
}

/*
 * Ten times open a thousand connections (fewer with less --scale), and end them, one by one or by
 * closing their endpoint. They must leave no peer ids in use, no open files and no memory behind.
 */
static void
thousand_ten_times(void)
{
	const uint32_t n = RTE_MIN(RTE_MIN(RTE_MAX(ct_scaled(CONNS), 20u), CONNS),
				   (uint32_t)ct.info.max_peers);
	/* Small send queues: they take most of a connection's memory. */
	struct ct_conf conf = { .max_peers = (uint16_t)n, .tx_depth = 8 };
	static uint16_t peers[CONNS];
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct ct_rep before, after;
	uint32_t round, i;
	uint16_t seen;

	ct_open(&a, &conf);
	ct_listen(&a, addr);
	memset(&before, 0, sizeof(before));
	for (round = 0; round < ROUNDS; round++) {
		if (round % 2 == 0)
			ct_open(&b, &conf);
		connect_all(&b, addr, peers, n);
		ct_traffic(&b, peers[n / 2], &a, 5, 1, 1000, round);
		if (round % 2 == 0) {
			disconnect_all(&b, peers, n);
		} else {
			ct_finish(&b);
		}
		for (i = 0; i < n; i++)
			ct_event(&a, LEAT_EV_DISCONNECTED, LEAT_PEER_ANY, NULL);
		for (seen = 0; seen < n; seen++)
			ct_wait_free(&a, seen);
		after = ct_state(&a);
		/* Memory may grow in the first two rounds; later ones use the same pages again. */
		if (round == 1)
			before = after;
	}
	ct_note("%u connections %u times; files %" PRIu64 ", memory %" PRIu64 " -> %" PRIu64 " KiB",
		n, ROUNDS, after.val[3], before.val[2], after.val[2]);
	CT_EQ(after.val[3], before.val[3], "open files");
	CT_CHECK(after.val[2] <= before.val[2] + 16384,
		 "memory grew from %" PRIu64 " to %" PRIu64 " KiB", before.val[2], after.val[2]);
	ct_finish(&a);
}

#define CABLE(nm, function, need)                                                                  \
	{                                                                                          \
		.name = "cable." nm, .fn = function, .ops = SR | (need), .caps = CT_CAP_CABLE      \
	}

const struct ct_test ct_tests_cable[] = {
	CABLE("down_for_a_moment", down_for_a_moment, 0),
	CABLE("down_for_good", down_for_good, 0),
	CABLE("lossy", lossy, W | R | FA),
	CABLE("wrong_key", wrong_key, W | R),
	CABLE("no_receives", no_receives, 0),
	{ .name = "cable.killed",
	  .fn = killed,
	  .modes = CT_FORK_MODE,
	  .ops = SR | W | R,
	  .caps = CT_CAP_CABLE },
	CABLE("to_the_brim", to_the_brim, 0),
	CABLE("thousand_ten_times", thousand_ten_times, 0),
	{ .name = NULL },
};
