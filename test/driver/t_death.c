/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process is killed while ops of all kinds are in flight. Its peer gets a DISCONNECTED event
 * within dead_peer_ms, all its ops complete, its traffic with other peers is not disturbed, and it
 * can connect to the process that replaces the killed one.
 *
 *     b (killed) <----> a (here) <----> c (bystander, messages flow all the time)
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

struct scene {
	struct ct_trio t;
	struct leat_rkey ra, rb; /* memory of a, memory of b */
	uint32_t flow;
	int tx1, rx1, tx2, rx2;
	uint64_t killed_at;
};

static void
flow_start(struct scene *sc)
{
	struct ct_spec s = { .type = LEAT_OP_TRECV,
			     .size = 1,
			     .size_max = 40000,
			     .seed = 5,
			     .tag = 0xc0,
			     .check = CT_DATA,
			     .window = 8,
			     .queue = CT_Q_OWN,
			     .peer = LEAT_PEER_ANY };

	s.count = sc->flow = ct_scaled(1000);
	sc->rx1 = ct_stream(&sc->t.a, &s);
	sc->rx2 = ct_stream(&sc->t.c, &s);
	s.type = LEAT_OP_TSEND;
	s.queue = CT_Q_DEFAULT;
	s.peer = sc->t.pc;
	sc->tx2 = ct_stream(&sc->t.a, &s);
	s.peer = sc->t.ac;
	sc->tx1 = ct_stream(&sc->t.c, &s);
}

static void
flow_end(struct scene *sc)
{
	ct_wait_ok(&sc->t.a, sc->tx2, sc->flow);
	ct_wait_ok(&sc->t.c, sc->rx2, sc->flow);
	ct_wait_ok(&sc->t.c, sc->tx1, sc->flow);
	ct_wait_ok(&sc->t.a, sc->rx1, sc->flow);
}

static void
scene_open(struct scene *sc)
{
	memset(sc, 0, sizeof(*sc));
	ct_trio_open(&sc->t, NULL);
	if (ct_access() != 0) {
		(void)ct_mr(&sc->t.a, 8 * MIB, ct_access(), 1, &sc->ra);
		(void)ct_mr(&sc->t.b, 8 * MIB, ct_access(), 2, &sc->rb);
	}
}

static void
kill_b(struct scene *sc)
{
	ct_kill(&sc->t.b);
	sc->killed_at = leat_now();
}

static void
expect_disconnected(struct scene *sc)
{
	struct leat_event ev;
	uint64_t ms;

	ct_event(&sc->t.a, LEAT_EV_DISCONNECTED, sc->t.pb, &ev);
	ms = ct_ms_since(sc->killed_at);
	CT_EQ(ev.status, -ECONNRESET, "status of DISCONNECTED");
	CT_CHECK(ct_in_time(ms, ct.info.dead_peer_ms),
		 "heard of it after %" PRIu64 " ms, dead_peer_ms is %u", ms, ct.info.dead_peer_ms);
}

/*
 * All ops of a stream on a must complete, with success or a reason that fits. When b dies, the
 * kernel may free b's memory before it ends b's connections. A one-sided op then fails with
 * -EACCES, because its key is not valid any more.
 */
static void
check_outcomes(struct scene *sc, int stream, uint8_t type)
{
	struct ct_result res;

	ct_result(&sc->t.a, stream, &res);
	ct_wait(&sc->t.a, stream, res.posted, &res);
	if (type >= LEAT_OP_WRITE && ct.info.provider[0] != '\0')
		CT_ONLY(&res, leat_op_type_name(type), -ECONNRESET, -ENOTCONN, -EACCES);
	else
		CT_ONLY(&res, leat_op_type_name(type), -ECONNRESET, -ENOTCONN);
}

static void
successor(struct scene *sc)
{
	struct ct_trio *t = &sc->t;

	t->b = ct_far(0);
	ct_open(&t->b, NULL);
	ct_connect(&t->b, &t->a, t->addr, &t->ab, &t->pb);
	ct_traffic(&t->b, t->ab, &t->a, 20, 1, 100000, 31);
	ct_traffic(&t->a, t->pb, &t->b, 20, 1, 100000, 32);
}

static void
scene_end(struct scene *sc)
{
	flow_end(sc);
	successor(sc);
	ct_trio_close(&sc->t);
}

static void
idle(void)
{
	struct scene sc;

	scene_open(&sc);
	flow_start(&sc);
	kill_b(&sc);
	expect_disconnected(&sc);
	scene_end(&sc);
}

/* Ops of one type from a to b are in flight; b is killed delay_us after the first has completed. */
static void
ops_to_victim(uint8_t type, uint64_t size, uint32_t count, uint32_t delay_us)
{
	struct ct_spec s = { .type = type, .count = count, .size = size, .seed = 4 }, r = s;
	struct scene sc;
	int st;

	scene_open(&sc);
	flow_start(&sc);
	s.peer = sc.t.pb;
	if (type == LEAT_OP_SEND || type == LEAT_OP_TSEND) {
		r.type = type == LEAT_OP_SEND ? LEAT_OP_RECV : LEAT_OP_TRECV;
		r.peer = LEAT_PEER_ANY;
		(void)ct_stream(&sc.t.b, &r);
	} else {
		s.raddr = sc.rb.addr;
		s.rkey = sc.rb.key;
	}
	st = ct_stream(&sc.t.a, &s);
	ct_wait(&sc.t.a, st, 1, NULL);
	ct_pump_us(delay_us);
	kill_b(&sc);
	expect_disconnected(&sc);
	check_outcomes(&sc, st, type);
	scene_end(&sc);
}

/*
 * As ops_to_victim(), but b posts the ops and a is their target. still: a is not driven until b is
 * dead.
 */
static void
ops_of_victim(uint8_t type, uint64_t size, uint32_t count, uint32_t delay_us, bool still)
{
	struct ct_spec s = { .type = type, .count = count, .size = size, .seed = 4 }, r = s;
	struct ct_result res;
	struct scene sc;
	int rx = -1, st;

	scene_open(&sc);
	flow_start(&sc);
	s.peer = sc.t.ab;
	if (type == LEAT_OP_SEND) {
		r.type = LEAT_OP_RECV;
		r.peer = LEAT_PEER_ANY;
		r.check = CT_DATA;
		rx = ct_stream(&sc.t.a, &r);
	} else {
		s.raddr = sc.ra.addr;
		s.rkey = sc.ra.key;
	}
	st = ct_stream(&sc.t.b, &s);
	ct_wait(&sc.t.b, st, 1, NULL);
	ct_freeze(&sc.t.a, still);
	ct_pump_us(delay_us);
	kill_b(&sc);
	ct_freeze(&sc.t.a, false);
	expect_disconnected(&sc);
	if (rx >= 0) {
		/*
		 * A receive whose message was arriving may have failed; the others, for any peer,
		 * still wait.
		 */
		ct_result(&sc.t.a, rx, &res);
		CT_ONLY(&res, "receives", -ECONNRESET);
		(void)ct_recall(&sc.t.a, rx, &res);
		CT_ONLY(&res, "receives", -ECONNRESET, -ECANCELED);
	}
	scene_end(&sc);
}

static void
large_sends_to_it(void)
{
	ops_to_victim(LEAT_OP_SEND, 2 * MIB, 100, 0);
	ops_to_victim(LEAT_OP_SEND, 60000, 500, 300);
}

static void
small_sends_to_it(void)
{
	ops_to_victim(LEAT_OP_SEND, 64, 50000, 500);
	ops_to_victim(LEAT_OP_SEND, 3000, 20000, 1000);
}

static void
tagged_sends_to_it(void)
{
	ops_to_victim(LEAT_OP_TSEND, MIB, 100, 500);
}

static void
writes_to_it(void)
{
	ops_to_victim(LEAT_OP_WRITE, 2 * MIB, 200, 0);
	ops_to_victim(LEAT_OP_WRITE, 100, 20000, 500);
}

static void
reads_from_it(void)
{
	ops_to_victim(LEAT_OP_READ, 2 * MIB, 200, 0);
	ops_to_victim(LEAT_OP_READ, 100, 20000, 500);
}

static void
atomics_on_it(void)
{
	ops_to_victim(LEAT_OP_FETCH_ADD, 8, 20000, 500);
}

static void
large_sends_from_it(void)
{
	ops_of_victim(LEAT_OP_SEND, 2 * MIB, 100, 0, false);
	ops_of_victim(LEAT_OP_SEND, 60000, 500, 300, false);
}

static void
small_sends_from_it(void)
{
	ops_of_victim(LEAT_OP_SEND, 64, 50000, 500, false);
}

/* The victim leaves as many unreceived messages as the device takes. */
static void
unread_sends_from_it(void)
{
	ops_of_victim(LEAT_OP_SEND, 64, 50000, 20000, true);
}

static void
writes_from_it(void)
{
	ops_of_victim(LEAT_OP_WRITE, 2 * MIB, 200, 0, false);
	ops_of_victim(LEAT_OP_WRITE, 100, 20000, 500, false);
}

static void
reads_by_it(void)
{
	ops_of_victim(LEAT_OP_READ, 2 * MIB, 200, 0, false);
}

/* Receives for the dead peer alone complete; receives for any peer stay posted. */
static void
directed_receives(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV, .count = 10, .size = 500, .queue = CT_Q_NONE };
	struct ct_result res;
	struct scene sc;
	int dir, any;

	scene_open(&sc);
	flow_start(&sc);
	r.peer = sc.t.pb;
	dir = ct_stream(&sc.t.a, &r);
	r.peer = LEAT_PEER_ANY;
	any = ct_stream(&sc.t.a, &r);
	ct_wait_posted(&sc.t.a, dir, 10);
	ct_wait_posted(&sc.t.a, any, 10);
	kill_b(&sc);
	expect_disconnected(&sc);
	ct_wait(&sc.t.a, dir, 10, &res);
	CT_ONLY(&res, "directed receives", -ECONNRESET);
	CT_EQ(res.ok, 0, "directed receives with success");
	ct_result(&sc.t.a, any, &res);
	CT_EQ(res.done, 0, "receives for any peer that came back");
	ct_cancel(&sc.t.a, any, 0, 10, NULL);
	ct_wait(&sc.t.a, any, 10, &res);
	scene_end(&sc);
}

/* Kill at different moments, with ops of all types in flight in both directions. */
static void
any_moment(void)
{
	const uint32_t rounds = ct_scaled(8);
	uint32_t i;

	for (i = 0; i < rounds; i++) {
		struct ct_spec s = { .count = 2000,
				     .size = 1,
				     .size_max = i % 3 == 0 ? 200 : 300000,
				     .seed = i,
				     .queue = CT_Q_NONE };
		struct scene sc;
		struct ct_result res;
		int tx, rd = -1, wr = -1, rx;

		scene_open(&sc);
		flow_start(&sc);
		s.type = LEAT_OP_RECV;
		s.peer = LEAT_PEER_ANY;
		s.window = 64;
		rx = ct_stream(&sc.t.a, &s);
		(void)ct_stream(&sc.t.b, &s);
		s.window = 0;
		s.type = LEAT_OP_SEND;
		s.peer = sc.t.ab;
		(void)ct_stream(&sc.t.b, &s);
		s.peer = sc.t.pb;
		s.window = 64;
		tx = ct_stream(&sc.t.a, &s);
		s.raddr = sc.rb.addr;
		s.rkey = sc.rb.key;
		if ((ct.info.ops & R) != 0) {
			s.type = LEAT_OP_READ;
			rd = ct_stream(&sc.t.a, &s);
		}
		if ((ct.info.ops & W) != 0) {
			s.type = LEAT_OP_WRITE;
			wr = ct_stream(&sc.t.a, &s);
		}
		ct_pump_us(ct_mix(ct.seed + i) % 20000);
		kill_b(&sc);
		expect_disconnected(&sc);
		check_outcomes(&sc, tx, LEAT_OP_SEND);
		if (rd >= 0)
			check_outcomes(&sc, rd, LEAT_OP_READ);
		if (wr >= 0)
			check_outcomes(&sc, wr, LEAT_OP_WRITE);
		ct_result(&sc.t.a, rx, &res);
		CT_ONLY(&res, "receives", -ECONNRESET);
		flow_end(&sc);
		ct_finish(&sc.t.a);
		ct_finish(&sc.t.c);
	}
}

/*
 * The process is killed before it answers a connect; later a connect goes to its old address. Both
 * connects fail.
 */
static void
while_connecting(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int i;
	int peer;

	ct_open(&a, NULL);
	for (i = 0; i < 3; i++) {
		b = ct_far(0);
		ct_open(&b, NULL);
		ct_listen(&b, addr);
		ct_policy(&b, CT_HOLD, NULL, 0);
		peer = ct_try_connect(&a, addr, NULL, 0, 700 * 1000, 0);
		CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
		if (i > 0)
			ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		ct_kill(&b);
		ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
		CT_CHECK(ev.status == -ECONNRESET || ev.status == -ECONNREFUSED ||
				 ev.status == -ETIMEDOUT,
			 "status %d: %s", ev.status, ev.text);
	}
	peer = ct_try_connect(&a, addr, NULL, 0, 300 * 1000, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
	ct_finish(&a);
}

/* The connecting process is killed: before the accept, and after it. */
static void
while_asking(void)
{
	struct ct_side a = ct_near(0), b;
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int i;

	ct_open(&a, NULL);
	ct_listen(&a, addr);
	ct_policy(&a, CT_HOLD, NULL, 0);
	for (i = 0; i < 2; i++) {
		b = ct_far(0);
		ct_open(&b, NULL);
		CT_CHECK(ct_try_connect(&b, addr, NULL, 0, 0, 0) >= 0, "connect: %s",
			 ct_err_text());
		ct_event(&a, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		if (i == 1)
			CT_EQ(ct_accept(&a, ev.peer, NULL, 0), 0, "accept");
		ct_kill(&b);
		ct_pump_us(20000);
		if (i == 0 && ct_accept(&a, ev.peer, NULL, 0) < 0)
			ct_note("accept of a dead peer: %s", ct_err_text());
		ct_event(&a, LEAT_EV_DISCONNECTED, ev.peer, &ev);
		CT_CHECK(ev.status == -ECONNRESET || ev.status == -ETIMEDOUT, "status %d: %s",
			 ev.status, ev.text);
	}
	ct_policy(&a, CT_ACCEPT_ALL, NULL, 0);
	b = ct_far(0);
	ct_open(&b, NULL);
	CT_CHECK(ct_try_connect(&b, addr, NULL, 0, 0, 0) >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

#define FORK(nm, function, need)                                                                   \
	{                                                                                          \
		.name = "death." nm, .fn = function, .modes = CT_FORK_MODE,                        \
		.ops = SR | TSR | (need)                                                           \
	}

const struct ct_test ct_tests_death[] = {
	FORK("idle", idle, 0),
	FORK("large_sends_to_it", large_sends_to_it, 0),
	FORK("small_sends_to_it", small_sends_to_it, 0),
	FORK("tagged_sends_to_it", tagged_sends_to_it, 0),
	FORK("writes_to_it", writes_to_it, W),
	FORK("reads_from_it", reads_from_it, R),
	FORK("atomics_on_it", atomics_on_it, FA),
	FORK("large_sends_from_it", large_sends_from_it, 0),
	FORK("small_sends_from_it", small_sends_from_it, 0),
	FORK("unread_sends_from_it", unread_sends_from_it, 0),
	FORK("writes_from_it", writes_from_it, W),
	FORK("reads_by_it", reads_by_it, R),
	{ .name = "death.directed_receives",
	  .fn = directed_receives,
	  .modes = CT_FORK_MODE,
	  .ops = SR | TSR,
	  .caps = CT_CAP_DIRECTED },
	FORK("any_moment", any_moment, 0),
	FORK("while_connecting", while_connecting, 0),
	FORK("while_asking", while_asking, 0),
	{ .name = NULL },
};
