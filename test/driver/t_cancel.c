/* SPDX-License-Identifier: BSD-3-Clause */

/* Cancels and deadlines: poll returns the op, with the reason or with the op's own result. */

#include "ct.h"

static struct ct_spec
recv_of(uint8_t type, uint16_t peer, uint32_t count)
{
	return (struct ct_spec){
		.type = type, .peer = peer, .count = count, .size = 1000, .ignore = UINT64_MAX
	};
}

static void
cancel_all(struct ct_pair *p, struct ct_spec r)
{
	struct ct_result res;
	int rx = ct_stream(&p->b, &r);

	ct_wait_posted(&p->b, rx, r.count);
	CT_EQ(ct_cancel(&p->b, rx, 0, r.count, NULL), r.count, "cancels");
	ct_wait(&p->b, rx, r.count, &res);
	CT_EQ(ct_status_count(&res, -ECANCELED), r.count, "cancelled");
	ct_pair_works(p);
}

static void
receives(void)
{
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	cancel_all(&p, recv_of(LEAT_OP_RECV, LEAT_PEER_ANY, 1));
	cancel_all(&p, recv_of(LEAT_OP_RECV, LEAT_PEER_ANY, RTE_MIN(100u, ct.info.rx_depth)));
	if (ct.info.directed_recv)
		cancel_all(&p, recv_of(LEAT_OP_RECV, p.pb, 20));
	if ((ct.info.ops & TSR) == TSR)
		cancel_all(&p, recv_of(LEAT_OP_TRECV, LEAT_PEER_ANY, 20));
	if ((ct.info.ops & TSR) == TSR && ct.info.directed_recv)
		cancel_all(&p, recv_of(LEAT_OP_TRECV, p.pb, 20));
	ct_pair_close(&p);
}

/* leat_op_cancel() returns the documented value in each state of an op. */
static void
answers(void)
{
	static struct leat_op op;
	struct leat_op *list[1] = { &op };
	struct ct_node *n;
	struct ct_pair p;
	unsigned int k;
	int ret;

	ct_pair_open(&p, NULL, NULL);
	n = ct_node(&p.a);
	memset(&op, 0, sizeof(op));
	op.type = LEAT_OP_RECV;
	op.peer = LEAT_PEER_ANY;
	CT_EQ(leat_op_cancel(n->ep, &op), -ENOENT, "cancel of an op that was never posted");
	CT_EQ(leat_ep_post(n->ep, list, 1), 1, "accepted");
	CT_EQ(leat_op_cancel(n->ep, &op), 0, "cancel");
	ret = leat_op_cancel(n->ep, &op);
	CT_CHECK(ret == -EALREADY || ret == -ENOENT, "second cancel: %d", ret);
	for (k = 0; k < 100000000 && leat_ep_poll(n->ep, list, 1) == 0; k++)
		;
	CT_EQ(op.status, -ECANCELED, "status");
	CT_EQ(leat_op_cancel(n->ep, &op), -ENOENT, "cancel of an op that came back");
	/* Post and cancel it again: a completed op can be used like a new one. */
	list[0] = &op;
	CT_EQ(leat_ep_post(n->ep, list, 1), 1, "accepted again");
	CT_EQ(leat_op_cancel(n->ep, &op), 0, "cancel");
	for (k = 0; k < 100000000 && leat_ep_poll(n->ep, list, 1) == 0; k++)
		;
	CT_EQ(op.status, -ECANCELED, "status");
	ct_pair_close(&p);
}

/*
 * Cancel sends that have no receive yet. Sends that the device can't cancel succeed when their
 * receives are posted. None is lost, and none arrives after it has completed with -ECANCELED.
 */
static void
sends(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .check = CT_SELF };
	const uint32_t n = RTE_MAX(ct_scaled(8), 3u);
	uint32_t asked, cant, gone, arrived;
	struct ct_result res;
	struct ct_pair p;
	int tx, rx;

	tx = ct_pair_big_sends(&p, n, 0);
	ct_wait_posted(&p.a, tx, RTE_MIN(n, ct.info.tx_depth));
	asked = ct_cancel(&p.a, tx, 1, n, &cant);
	if (ct.info.cancel_send)
		CT_CHECK(asked > 0 || cant == 0, "cancel_send, and no send can be recalled");
	ct_freeze(&p.b, false);
	ct_pump_us(20000);
	ct_result(&p.a, tx, &res);
	gone = ct_status_count(&res, -ECANCELED);
	arrived = n - gone;
	if (arrived > 0) {
		r.count = arrived;
		r.bufsize = ct_big();
		rx = ct_stream(&p.b, &r);
		ct_wait(&p.a, tx, n, &res);
		/* More sends may have been cancelled before the receives were posted. */
		gone = ct_status_count(&res, -ECANCELED);
		CT_EQ(res.ok + gone, n, "sent or cancelled");
		CT_CHECK(ct_try_wait(&p.b, rx, n - gone, 0, NULL),
			 "messages that were sent did not arrive");
		(void)ct_recall(&p.b, rx, &res);
		CT_EQ(res.ok, n - gone, "messages that arrived whole");
	}
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* Cancels that race with messages: each receive has one outcome, each message one receiver. */
static void
races(void)
{
	const uint32_t rounds = ct_scaled(60), n = RTE_MIN(16u, ct.info.rx_depth);
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .bufsize = 60000,
			     .queue = CT_Q_NONE,
			     .check = CT_SELF },
		       s = { .type = LEAT_OP_SEND, .size = 8, .size_max = 60000 };
	struct ct_result res;
	struct ct_pair p;
	uint32_t i, k;

	r.count = n;
	for (i = 0; i < rounds; i++) {
		uint64_t sum = 0;
		uint32_t got, left;
		int rx, tx;

		if (i % 20 == 0)
			ct_pair_open(&p, NULL, NULL);
		rx = ct_stream(&p.b, &r);
		ct_wait_posted(&p.b, rx, n);
		s.count = n;
		s.seed = i * 1000;
		s.peer = p.pa;
		tx = ct_stream(&p.a, &s);
		for (k = 0; k < i % 20 * 2; k++)
			ct_pump();
		(void)ct_cancel(&p.b, rx, i % 3, n, NULL);
		/* The first i % 3 receives are not cancelled: messages complete them. */
		ct_wait(&p.b, rx, n, &res);
		CT_ONLY(&res, "receives", -ECANCELED);
		got = res.ok;
		sum = res.sum;
		CT_EQ(got + ct_status_count(&res, -ECANCELED), n, "received or cancelled");
		left = n - got;
		if (left > 0) {
			struct ct_spec more = r;

			more.count = left;
			rx = ct_stream(&p.b, &more);
			ct_wait(&p.b, rx, left, &res);
			CT_CHECK(res.ok == left, "%u of %u right: %s", res.ok, left, res.text);
			sum += res.sum;
		}
		ct_wait_ok(&p.a, tx, n);
		CT_EQ(sum, (uint64_t)n * s.seed + (uint64_t)n * (n - 1) / 2,
		      "sum of the messages' seeds");
		if (i % 20 == 19 || i == rounds - 1)
			ct_pair_close(&p);
	}
}

static void
expire(struct ct_pair *p, struct ct_spec r, uint64_t timeout_ms)
{
	struct ct_result res;
	int rx;

	r.timeout_us = timeout_ms * 1000;
	rx = ct_stream(&p->b, &r);
	ct_wait(&p->b, rx, r.count, &res);
	CT_EQ(ct_status_count(&res, -ETIMEDOUT), r.count, "expired");
	CT_CHECK(res.first_ns / 1000000 + 1 >= timeout_ms,
		 "came back after %" PRIu64 " of %" PRIu64 " ms", res.first_ns / 1000000,
		 timeout_ms);
	CT_CHECK(ct_in_time(res.last_ns / 1000000, timeout_ms),
		 "took %" PRIu64 " ms, the deadline was %" PRIu64, res.last_ns / 1000000,
		 timeout_ms);
	ct_pair_works(p);
}

static void
deadline_of_receives(void)
{
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	expire(&p, recv_of(LEAT_OP_RECV, LEAT_PEER_ANY, 1), 20);
	expire(&p, recv_of(LEAT_OP_RECV, LEAT_PEER_ANY, RTE_MIN(200u, ct.info.rx_depth)), 50);
	if (ct.info.directed_recv)
		expire(&p, recv_of(LEAT_OP_RECV, p.pb, 10), 10);
	if ((ct.info.ops & TSR) == TSR)
		expire(&p, recv_of(LEAT_OP_TRECV, LEAT_PEER_ANY, 10), 10);
	ct_pair_close(&p);
}

/* The deadline is already past when the op is posted: post accepts the op, and poll returns it. */
static void
deadline_in_the_past(void)
{
	struct ct_spec r = recv_of(LEAT_OP_RECV, LEAT_PEER_ANY, 10);
	struct ct_result res;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	r.bad = CT_BAD_PAST;
	ct_wait(&p.b, ct_stream(&p.b, &r), 10, &res);
	CT_EQ(ct_status_count(&res, -ETIMEDOUT), 10, "expired");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* An op that completes before its deadline has the same result as without one. */
static void
deadline_met(void)
{
	const uint32_t n = ct_scaled(500);
	struct ct_spec s = { .count = n,
			     .size = 1,
			     .size_max = 10000,
			     .seed = 4,
			     .check = CT_DATA,
			     .window = 32,
			     .timeout_us = 60 * 1000 * 1000 };
	struct ct_pair p;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	s.type = LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &s);
	s.type = LEAT_OP_SEND;
	s.peer = p.pa;
	tx = ct_stream(&p.a, &s);
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	ct_pair_close(&p);
}

/*
 * Sends with a deadline that have no receive complete in time. Either the device cancelled them,
 * and the connection is still up, or it can't cancel them, and the connection ended with
 * -ETIMEDOUT.
 */
static void
deadline_of_sends(void)
{
	const uint32_t n = RTE_MIN(6u, ct.info.tx_depth);
	struct ct_result res;
	struct leat_event ev;
	struct ct_pair p;
	int tx;

	tx = ct_pair_big_sends(&p, n, 100 * 1000);
	ct_wait(&p.a, tx, n, &res);
	/*
	 * On a loaded machine a send may be posted when the others have already ended the
	 * connection.
	 */
	CT_ONLY(&res, "sends without a receive", -ETIMEDOUT, -ENOTCONN);
	CT_CHECK(ct_status_count(&res, -ETIMEDOUT) > 0,
		 "%" PRIu64 " MiB went to a side that does not move", n * ct_big() >> 20);
	CT_CHECK(ct_in_time(res.last_ns / 1000000, 100),
		 "took %" PRIu64 " ms, the deadline was 100", res.last_ns / 1000000);
	ct_freeze(&p.b, false);
	if (ct_peer_state(&p.a, p.pa) == LEAT_PEER_UP) {
		if (res.ok > 0) {
			struct ct_spec r = { .type = LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .count = res.ok,
					     .size = ct_big() };

			ct_wait(&p.b, ct_stream(&p.b, &r), res.ok, NULL);
		}
	} else {
		ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
		CT_EQ(ev.status, -ETIMEDOUT, "status of DISCONNECTED");
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	}
	ct_pair_works(&p);
	ct_pair_close(&p);
}

const struct ct_test ct_tests_cancel[] = {
	{ .name = "cancel.receives", .fn = receives, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "cancel.answers", .fn = answers, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "cancel.sends", .fn = sends, .ops = SR },
	{ .name = "cancel.races_with_messages", .fn = races, .ops = SR },
	{ .name = "cancel.deadline_of_receives",
	  .fn = deadline_of_receives,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "cancel.deadline_in_the_past",
	  .fn = deadline_in_the_past,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "cancel.deadline_met", .fn = deadline_met, .ops = SR },
	{ .name = "cancel.deadline_of_sends", .fn = deadline_of_sends, .ops = SR },
	{ .name = NULL },
};
