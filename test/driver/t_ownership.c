/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 3: from post until poll returns the op, its buffer belongs to the device; after that, to
 * the caller alone. The node poisons the buffers of completed ops, and checks the poison later;
 * these tests create the situations in which a device might still write.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

/*
 * All receives of a stream end early, by cancel or deadline. The messages for them arrive
 * afterwards, and must not be written to their buffers.
 */
static void
ended_early(struct ct_pair *p, uint64_t size, uint64_t timeout_us)
{
	const uint32_t n = RTE_MIN(32u, ct.info.rx_depth);
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = n,
			     .size = size,
			     .timeout_us = timeout_us };
	struct ct_result res;
	int rx;

	rx = ct_stream(&p->b, &r);
	ct_wait_posted(&p->b, rx, n);
	if (timeout_us == 0)
		(void)ct_cancel(&p->b, rx, 0, n, NULL);
	ct_wait(&p->b, rx, n, &res);
	CT_EQ(ct_status_count(&res, timeout_us == 0 ? -ECANCELED : -ETIMEDOUT), n, "ended early");
	ct_traffic(&p->a, p->pa, &p->b, n, size, 0, 5);
	ct_traffic(&p->a, p->pa, &p->b, n, size / 2, size, 6);
}

static void
cancelled_receive(void)
{
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	ended_early(&p, 64, 0);
	ended_early(&p, 4096, 0);
	ended_early(&p, 300000, 0);
	ct_pair_close(&p);
}

static void
expired_receive(void)
{
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	ended_early(&p, 64, 3000);
	ended_early(&p, 300000, 3000);
	ct_pair_close(&p);
}

/* The receive of a large message is cancelled when the message was already announced. */
static void
cancelled_while_arriving(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .count = 1 },
		       s = { .type = LEAT_OP_SEND, .count = 1, .seed = 4 };
	struct ct_result res;
	struct ct_pair p;
	unsigned int i, k;
	int rx, tx;

	r.size = s.size = RTE_MIN(4 * MIB, ct.info.max_msg);
	ct_pair_open(&p, NULL, NULL);
	s.peer = p.pa;
	for (i = 0; i < 12; i++) {
		rx = ct_stream(&p.b, &r);
		ct_pump();
		tx = ct_stream(&p.a, &s);
		for (k = 0; k < i * 3; k++)
			ct_pump();
		(void)ct_cancel(&p.b, rx, 0, 1, NULL);
		ct_wait(&p.b, rx, 1, &res);
		CT_ONLY(&res, "receive", -ECANCELED);
		if (res.ok == 0) { /* the message is still there for the next receive */
			r.check = CT_DATA;
			r.seed = 4;
			ct_wait_ok(&p.b, ct_stream(&p.b, &r), 1);
		}
		ct_wait_ok(&p.a, tx, 1);
	}
	ct_pair_close(&p);
}

/*
 * When a send has completed, its buffer may be written: the node poisons it, and the receiver must
 * get the data that the buffer held before.
 */
static void
sent_buffer_is_free(void)
{
	struct ct_spec s = {
		.type = LEAT_OP_SEND, .count = 50, .size = 1, .seed = 7, .check = CT_DATA
	};
	struct ct_pair p;
	unsigned int i;
	int tx, rx;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 3; i++) {
		static const uint64_t max[] = { 64, 4096, 400000 };

		s.size_max = max[i];
		s.type = LEAT_OP_SEND;
		s.peer = p.pa;
		tx = ct_stream(&p.a, &s);
		ct_pump_us(10000);
		s.type = LEAT_OP_RECV;
		s.peer = LEAT_PEER_ANY;
		rx = ct_stream(&p.b, &s);
		ct_wait_ok(&p.b, rx, 50);
		ct_wait_ok(&p.a, tx, 50);
	}
	ct_pair_close(&p);
}

/* After its deregistration a region is not written any more, whatever writes are on their way. */
static void
deregistered_under_fire(void)
{
	const uint64_t len = 2 * MIB;
	struct leat_rkey rk;
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int mr, tx, ret;
	uint32_t before;

	ct_pair_open(&p, NULL, NULL);
	mr = ct_mr(&p.b, len, LEAT_MR_REMOTE_WRITE, 1, &rk);
	/*
	 * An endless stream: however the processes are scheduled, some writes come after the
	 * deregistration.
	 */
	s = (struct ct_spec){ .type = LEAT_OP_WRITE,
			      .peer = p.pa,
			      .count = UINT32_MAX,
			      .size = 100000,
			      .window = 16,
			      .seed = 9,
			      .raddr = rk.addr,
			      .rkey = rk.key };
	tx = ct_stream(&p.a, &s);
	ct_wait(&p.a, tx, 5, NULL);
	CT_UNTIL((ret = ct_mr_dereg(&p.b, mr)) != -EBUSY, "the region is in use for ever");
	CT_EQ(ret, 0, "deregister");
	ct_mr_fill(&p.b, mr, 0, len, 77, 0);
	/* Wait for all writes that were in flight, and for some that began afterwards. */
	ct_result(&p.a, tx, &res);
	before = res.done + s.window;
	ct_wait(&p.a, tx, before, &res);
	CT_CHECK(res.wrong == 0, "%s", res.text);
	before = res.ok;
	ct_wait(&p.a, tx, res.done + 100, &res);
	CT_EQ(res.ok, before, "writes that succeeded, at most before the region was gone");
	ct_mr_check(&p.b, mr, 0, len, 77, 0);
	ct_pump_us(2000);
	ct_mr_check(&p.b, mr, 0, len, 77, 0);
	ct_finish(&p.a);
	ct_finish(&p.b);
}

/* A peer that was disconnected can't write any more, even with a key that is still valid. */
static void
disconnected_peer_under_fire(void)
{
	const uint64_t len = 2 * MIB;
	struct leat_rkey rk;
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int mr, tx;

	ct_pair_open(&p, NULL, NULL);
	mr = ct_mr(&p.b, len, LEAT_MR_REMOTE_WRITE, 1, &rk);
	s = (struct ct_spec){ .type = LEAT_OP_WRITE,
			      .peer = p.pa,
			      .count = 200,
			      .size = 100000,
			      .window = 16,
			      .seed = 9,
			      .raddr = rk.addr,
			      .rkey = rk.key };
	tx = ct_stream(&p.a, &s);
	ct_wait(&p.a, tx, 5, NULL);
	CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	/* Now both sides know that the connection has ended: nothing may be written any more. */
	ct_mr_fill(&p.b, mr, 0, len, 77, 0);
	ct_wait(&p.a, tx, 200, &res);
	CT_ONLY(&res, "writes to the peer that left", -ECONNRESET, -ECONNABORTED, -ENOTCONN);
	ct_pump_us(5000);
	ct_mr_check(&p.b, mr, 0, len, 77, 0);
	ct_finish(&p.a);
	ct_finish(&p.b);
}

/* b disconnects while large messages arrive: the buffers of its failed receives are not written. */
static void
aborted_buffers(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = 8,
			     .size = 300000,
			     .queue = CT_Q_NONE },
		       s = { .type = LEAT_OP_SEND, .count = 8, .size = 300000, .seed = 4 };
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 10; i++) {
		rx = ct_stream(&p.b, &r);
		s.peer = p.pa;
		tx = ct_stream(&p.a, &s);
		ct_pump_us(i * 50);
		CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect");
		ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
		ct_wait(&p.a, tx, 8, &res);
		(void)ct_recall(&p.b, rx, &res);
		CT_ONLY(&res, "receives", -ECANCELED, -ECONNABORTED, -ECONNRESET);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
		ct_pair_works(&p);
	}
	ct_pair_close(&p);
}

const struct ct_test ct_tests_ownership[] = {
	{ .name = "ownership.cancelled_receive", .fn = cancelled_receive, .ops = SR },
	{ .name = "ownership.expired_receive", .fn = expired_receive, .ops = SR },
	{ .name = "ownership.cancelled_while_arriving", .fn = cancelled_while_arriving, .ops = SR },
	{ .name = "ownership.sent_buffer_is_free", .fn = sent_buffer_is_free, .ops = SR },
	{ .name = "ownership.deregistered_under_fire", .fn = deregistered_under_fire, .ops = W },
	{ .name = "ownership.disconnected_peer_under_fire",
	  .fn = disconnected_peer_under_fire,
	  .ops = W },
	{ .name = "ownership.aborted_buffers", .fn = aborted_buffers, .ops = SR },
	{ .name = NULL },
};
