/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 6: what happens to one peer, or what that peer does, does not affect other peers. In each
 * test b misbehaves while messages flow between a and c, none of which may be late, lost or failed.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

/*
 * Messages between a and c, both ways. They are tagged if the device has tags, so that b's messages
 * do not match their receives.
 */
struct flow {
	int tx1, rx1, tx2, rx2;
	uint32_t count;
};

static void
flow_start(struct ct_trio *t, struct flow *f, uint32_t count)
{
	bool tag = (ct.info.ops & TSR) == TSR;
	struct ct_spec s = {
		.size = 1, .size_max = 40000, .seed = 5, .tag = 0xc0, .check = CT_DATA, .window = 16
	};

	s.count = f->count = count;
	s.type = tag ? LEAT_OP_TRECV : LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	s.queue = CT_Q_OWN;
	f->rx1 = ct_stream(&t->a, &s);
	f->rx2 = ct_stream(&t->c, &s);
	s.type = tag ? LEAT_OP_TSEND : LEAT_OP_SEND;
	s.queue = CT_Q_DEFAULT;
	s.peer = t->pc;
	f->tx2 = ct_stream(&t->a, &s);
	s.peer = t->ac;
	f->tx1 = ct_stream(&t->c, &s);
}

static void
flow_end(struct ct_trio *t, const struct flow *f)
{
	ct_wait_ok(&t->a, f->tx2, f->count);
	ct_wait_ok(&t->c, f->rx2, f->count);
	ct_wait_ok(&t->c, f->tx1, f->count);
	ct_wait_ok(&t->a, f->rx1, f->count);
	CT_EQ(ct_peer_state(&t->a, t->pc), LEAT_PEER_UP, "state of the other peer");
}

/* b connects and leaves repeatedly, with messages in flight. */
static void
peer_comes_and_goes(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 4, .size = 500000 };
	struct ct_result res;
	struct ct_trio t;
	struct flow f;
	unsigned int i;
	int tx;

	ct_trio_open(&t, NULL);
	flow_start(&t, &f, ct_scaled(2000));
	for (i = 0; i < 10; i++) {
		/* These sends have no receive. */
		s.peer = t.pb;
		tx = ct_stream(&t.a, &s);
		ct_pump_us(500);
		CT_EQ(ct_disconnect(&t.b, t.ab), 0, "disconnect");
		ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, NULL);
		ct_event(&t.b, LEAT_EV_DISCONNECTED, t.ab, NULL);
		ct_wait(&t.a, tx, 4, &res);
		ct_connect(&t.b, &t.a, t.addr, &t.ab, &t.pb);
	}
	flow_end(&t, &f);
	ct_trio_close(&t);
}

/* b is frozen, while sends to b fill up to half of a's tx_depth. */
static void
peer_does_not_move(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .size = 300000, .seed = 1, .check = CT_DATA },
		       r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .size = 300000,
			     .seed = 1,
			     .check = CT_DATA };
	struct ct_trio t;
	struct flow f;
	int tx, rx;

	ct_trio_open(&t, NULL);
	ct_traffic(&t.a, t.pb, &t.b, 5, 1, 1000, 1);
	ct_freeze(&t.b, true);
	s.peer = t.pb;
	s.count = r.count = RTE_MIN(ct.info.tx_depth / 2, RTE_MAX(ct_scaled(64), 8u));
	tx = ct_stream(&t.a, &s);
	ct_pump_us(5000);
	flow_start(&t, &f, ct_scaled(1000));
	flow_end(&t, &f);
	ct_freeze(&t.b, false);
	rx = ct_stream(&t.b, &r);
	ct_wait_ok(&t.a, tx, s.count);
	ct_wait_ok(&t.b, rx, s.count);
	ct_trio_close(&t);
}

/* b breaks every rule of one-sided access, again and again. */
static void
peer_breaks_rules(void)
{
	struct ct_spec s = { .type = LEAT_OP_WRITE, .count = 20, .size = 5000, .window = 4 };
	struct leat_rkey rk;
	struct ct_result res;
	struct ct_trio t;
	struct flow f;
	unsigned int i;
	int mr, tx;

	ct_trio_open(&t, NULL);
	mr = ct_mr(&t.a, 10000, LEAT_MR_REMOTE_WRITE, 9, &rk);
	flow_start(&t, &f, ct_scaled(2000));
	for (i = 0; i < 12; i++) {
		s.peer = t.ab;
		s.raddr = rk.addr + (i % 3 == 0 ? 5001 : 0);
		s.rkey = i % 3 == 0 ? rk.key : rk.key ^ (i + 1);
		if (i % 3 == 2)
			s.raddr = UINT64_MAX - 10;
		tx = ct_stream(&t.b, &s);
		ct_wait(&t.b, tx, 20, &res);
		CT_EQ(res.ok, 0, "writes that break the rules and succeeded");
		if (ct_peer_state(&t.b, t.ab) == LEAT_PEER_UP)
			continue;
		ct_event(&t.b, LEAT_EV_DISCONNECTED, t.ab, NULL);
		ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, NULL);
		ct_connect(&t.b, &t.a, t.addr, &t.ab, &t.pb);
	}
	flow_end(&t, &f);
	ct_mr_check(&t.a, mr, 0, 10000, 9, 0);
	ct_trio_close(&t);
}

/* b sends messages that are longer than a's receives. */
static void
peer_sends_too_much(void)
{
	const uint32_t n = 40;
	struct ct_spec
		s = { .type = LEAT_OP_SEND, .count = n, .size = 1, .size_max = 50000, .seed = 7 },
		r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .count = n, .bufsize = 100 };
	struct ct_result res;
	struct ct_trio t;
	struct flow f;
	int tx, rx;

	ct_trio_open(&t, NULL);
	flow_start(&t, &f, ct_scaled(1000));
	rx = ct_stream(&t.a, &r);
	s.peer = t.ab;
	tx = ct_stream(&t.b, &s);
	if (ct.info.refusal_ends) {
		/* The first message of more than 100 B ends the connection of b. */
		ct_event(&t.b, LEAT_EV_DISCONNECTED, t.ab, NULL);
		ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, NULL);
		(void)ct_recall(&t.a, rx, &res);
		CT_ONLY(&res, "receives that are too small", -EMSGSIZE, -ECONNRESET, -ECANCELED);
		ct_wait(&t.b, tx, n, &res);
		CT_ONLY(&res, "sends that are too long", -EMSGSIZE, -EREMOTEIO, -ECONNRESET,
			-ENOTCONN);
	} else {
		ct_wait(&t.a, rx, n, &res);
		CT_ONLY(&res, "receives that are too small", -EMSGSIZE);
		ct_wait(&t.b, tx, n, &res);
		CT_ONLY(&res, "sends that are too long", -EMSGSIZE, -EREMOTEIO);
	}
	flow_end(&t, &f);
	ct_trio_close(&t);
}

/* b sends messages that have no receive, as many as it can. */
static void
peer_sends_unasked(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND,
			     .count = 100000,
			     .size = 1,
			     .size_max = 20000,
			     .seed = 7,
			     .window = 64 };
	struct ct_trio t;
	struct flow f;

	ct_trio_open(&t, NULL);
	s.peer = t.ab;
	(void)ct_stream(&t.b, &s);
	ct_pump_us(100000);
	flow_start(&t, &f, ct_scaled(500));
	flow_end(&t, &f);
	/* b's sends that are still in flight must not keep any side from closing. */
	ct_trio_close(&t);
}

/* b closes its endpoint without a disconnect, with ops of all kinds in flight. */
static void
peer_closes(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 8, .size = 500000 };
	struct ct_result res;
	struct leat_event ev;
	struct ct_trio t;
	struct flow f;
	int tx;

	ct_trio_open(&t, NULL);
	flow_start(&t, &f, ct_scaled(1000));
	s.peer = t.pb;
	tx = ct_stream(&t.a, &s);
	ct_pump_us(1000);
	(void)ct_close(&t.b, 1000);
	ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, &ev);
	ct_wait(&t.a, tx, 8, &res);
	CT_ONLY(&res, "sends to the peer that closed", -ECONNRESET, -ENOTCONN, -ECONNABORTED);
	flow_end(&t, &f);
	ct_finish(&t.a);
	ct_finish(&t.c);
}

const struct ct_test ct_tests_silence[] = {
	{ .name = "silence.peer_comes_and_goes", .fn = peer_comes_and_goes, .ops = SR | TSR },
	{ .name = "silence.peer_does_not_move", .fn = peer_does_not_move, .ops = SR },
	{ .name = "silence.peer_breaks_rules", .fn = peer_breaks_rules, .ops = SR | W },
	{ .name = "silence.peer_sends_too_much", .fn = peer_sends_too_much, .ops = SR | TSR },
	{ .name = "silence.peer_sends_unasked",
	  .fn = peer_sends_unasked,
	  .ops = SR | TSR,
	  .caps = CT_CAP_BOUNDED },
	{ .name = "silence.peer_closes", .fn = peer_closes, .ops = SR },
	{ .name = NULL },
};
