/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 2: poll returns the ops of one queue in the order in which they were posted. The node
 * checks it for every op of every test; these tests try to make hardware complete ops in a
 * different order.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

/* Small messages are sent after a large one: the large send completes first, and arrives first. */
static void
small_behind_large(void)
{
	struct ct_spec big = { .count = 1, .seed = 1, .check = CT_DATA },
		       small = { .count = 30, .size = 8, .seed = 100, .check = CT_DATA };
	uint64_t limit = leat_now() + leat_us_to_cycles(UINT64_C(20000000) * ct.slow);
	struct ct_result rb, rs;
	struct ct_pair p;
	int rx1, rx2, t1, t2;
	unsigned int i;

	big.size = RTE_MIN(4 * MIB, ct.info.max_msg);
	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 4; i++) {
		big.type = small.type = LEAT_OP_RECV;
		big.peer = small.peer = LEAT_PEER_ANY;
		rx1 = ct_stream(&p.b, &big);
		rx2 = ct_stream(&p.b, &small);
		big.type = small.type = LEAT_OP_SEND;
		big.peer = small.peer = p.pa;
		t1 = ct_stream(&p.a, &big);
		ct_wait_posted(&p.a, t1, 1);
		t2 = ct_stream(&p.a, &small);
		do {
			ct_pump();
			ct_result(&p.a, t2, &rs);
			ct_result(&p.a, t1, &rb);
			CT_CHECK(rs.done == 0 || rb.done == 1,
				 "a small send came back before the large one");
			CT_CHECK(leat_now() < limit, "%u large and %u small sends came back",
				 rb.done, rs.done);
		} while (rs.done < 30);
		ct_wait_ok(&p.a, t1, 1);
		ct_wait_ok(&p.b, rx1, 1);
		ct_wait_ok(&p.b, rx2, 30);
	}
	ct_pair_close(&p);
}

/* Ops of all types on one queue complete in the order of posting. */
static void
mixed_types(uint32_t queue)
{
	static const uint8_t types[] = { LEAT_OP_WRITE,	    LEAT_OP_SEND,  LEAT_OP_READ,
					 LEAT_OP_FETCH_ADD, LEAT_OP_TSEND, LEAT_OP_CMP_SWAP };
	const uint32_t n = ct_scaled(150);
	struct leat_rkey rk = { 0 };
	struct ct_pair p;
	int st[RTE_DIM(types)];
	unsigned int i, k = 0;

	ct_pair_open(&p, NULL, NULL);
	if (ct_access() != 0)
		(void)ct_mr(&p.b, MIB, ct_access(), 3, &rk);
	for (i = 0; i < RTE_DIM(types); i++) {
		struct ct_spec s = { .type = types[i],
				     .peer = p.pa,
				     .count = n,
				     .size = 0,
				     .size_max = types[i] == LEAT_OP_READ ? 300000 : 60000,
				     .seed = 500 + i,
				     .queue = queue };
		bool msg = types[i] == LEAT_OP_SEND || types[i] == LEAT_OP_TSEND;

		if ((ct.info.ops & LEAT_OP_BIT(types[i])) == 0)
			continue;
		if (msg) {
			struct ct_spec r = s;

			r.type = types[i] == LEAT_OP_SEND ? LEAT_OP_RECV : LEAT_OP_TRECV;
			r.peer = LEAT_PEER_ANY;
			r.queue = CT_Q_NONE;
			r.check = CT_DATA;
			(void)ct_stream(&p.b, &r);
		} else {
			s.raddr = rk.addr;
			s.rkey = rk.key;
			if (types[i] >= LEAT_OP_FETCH_ADD) {
				s.size = 8;
				s.size_max = 0;
			}
		}
		st[k++] = ct_stream(&p.a, &s);
	}
	for (i = 0; i < k; i++)
		ct_wait_ok(&p.a, st[i], n);
	ct_pair_close(&p);
}

static void
mixed_types_send_queue(void)
{
	mixed_types(CT_Q_DEFAULT);
}

static void
mixed_types_own_queue(void)
{
	mixed_types(CT_Q_OWN + 1);
}

static void
mixed_types_no_queue(void)
{
	mixed_types(CT_Q_NONE);
}

static struct ct_spec
trecv(uint64_t tag, uint32_t queue)
{
	return (struct ct_spec){ .type = LEAT_OP_TRECV,
				 .peer = LEAT_PEER_ANY,
				 .count = 1,
				 .size = 64,
				 .tag = tag,
				 .seed = tag,
				 .queue = queue,
				 .check = CT_DATA };
}

static void
tsend(struct ct_pair *p, uint64_t tag)
{
	struct ct_spec s = {
		.type = LEAT_OP_TSEND,
		.peer = p->pa,
		.count = 1,
		.size = 64,
		.tag = tag,
		.seed = tag,
	};

	CT_EQ(ct_one(&p->a, &s, NULL), 0, "tsend");
}

/*
 * A receive that has its message is held back until the older receive of its queue completes; a
 * receive on no queue is not held back.
 */
static void
held_and_not_held(uint32_t queue)
{
	const struct leat_queue *q;
	struct leat_queue_stats st;
	struct ct_result res;
	struct ct_side near;
	struct ct_pair p;
	struct ct_spec s;
	uint64_t since;
	int rx1, rx2;
	uint16_t tmp;

	/* Use the near side, in this thread, as the receiver: the test can read its counters. */
	ct_pair_open(&p, NULL, NULL);
	near = p.b;
	p.b = p.a;
	p.a = near;
	tmp = p.pa;
	p.pa = p.pb;
	p.pb = tmp;
	s = trecv(1, queue);
	rx1 = ct_stream(&p.b, &s);
	s = trecv(2, queue);
	rx2 = ct_stream(&p.b, &s);
	tsend(&p, 2);
	if (queue == CT_Q_NONE) {
		ct_wait_ok(&p.b, rx2, 1);
		ct_result(&p.b, rx1, &res);
		CT_EQ(res.done, 0, "receives that got no message and came back");
		tsend(&p, 1);
		ct_wait_ok(&p.b, rx1, 1);
		ct_pair_close(&p);
		return;
	}
	q = queue == CT_Q_DEFAULT ? leat_ep_queue(ct_node(&p.b)->ep, LEAT_PEER_ANY)
				  : &ct_node(&p.b)->queues[queue - CT_Q_OWN];
	CT_UNTIL((leat_queue_stats_get(q, &st), st.held_now > 0), "nothing is held back");
	since = leat_now();
	ct_pump_us(5000);
	ct_result(&p.b, rx2, &res);
	CT_EQ(res.done, 0, "younger receives that came back before the older one");
	since = leat_cycles_to_ns(leat_now() - since);
	tsend(&p, 1);
	ct_wait_ok(&p.b, rx1, 1);
	ct_wait_ok(&p.b, rx2, 1);
	leat_queue_stats_get(q, &st);
	CT_EQ(st.posted, 2, "posted on the queue");
	CT_EQ(st.returned, 2, "returned by the queue");
	CT_EQ(st.held, 1, "held back");
	CT_EQ(st.held_now, 0, "held back now");
	/* held_max_ns is measured in coarse units, so half of the true time is accepted. */
	CT_CHECK(st.held_max_ns >= since / 2, "held back for %" PRIu64 " ns, it was %" PRIu64,
		 st.held_max_ns, since);
	ct_pair_close(&p);
}

static void
held_in_receive_queue(void)
{
	held_and_not_held(CT_Q_DEFAULT);
}

static void
held_in_own_queue(void)
{
	held_and_not_held(CT_Q_OWN);
}

static void
not_held_without_queue(void)
{
	held_and_not_held(CT_Q_NONE);
}

/* Ops of one own queue (CT_Q_OWN) are not held back by ops of another. */
static void
queues_are_independent(void)
{
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int a1, b1, b2;

	ct_pair_open(&p, NULL, NULL);
	s = trecv(1, CT_Q_OWN);
	a1 = ct_stream(&p.b, &s);
	s = trecv(2, CT_Q_OWN + 1);
	b1 = ct_stream(&p.b, &s);
	s = trecv(3, CT_Q_OWN + 1);
	b2 = ct_stream(&p.b, &s);
	tsend(&p, 2);
	tsend(&p, 3);
	ct_wait_ok(&p.b, b1, 1);
	ct_wait_ok(&p.b, b2, 1);
	ct_result(&p.b, a1, &res);
	CT_EQ(res.done, 0, "receives of the other queue");
	tsend(&p, 1);
	ct_wait_ok(&p.b, a1, 1);
	ct_pair_close(&p);
}

/*
 * One queue holds sends to two peers. While the older one, to b, waits for a receive, the younger
 * ones, to c, arrive, but poll does not return them.
 */
static void
queue_over_two_peers(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 1, .queue = CT_Q_OWN, .seed = 1 },
		       r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = 4,
			     .bufsize = 64,
			     .queue = CT_Q_NONE };
	struct ct_result res;
	struct ct_trio t;
	int big, small, rx, rxb;

	ct_trio_open(&t, NULL);
	/* The large message has no receive yet. */
	s.peer = t.pb;
	s.size = ct_big();
	big = ct_stream(&t.a, &s);
	ct_wait_posted(&t.a, big, 1);
	s.peer = t.pc;
	s.size = 8;
	s.count = 4;
	small = ct_stream(&t.a, &s);
	rx = ct_stream(&t.c, &r);
	ct_wait_ok(&t.c, rx, 4);
	ct_pump_us(5000);
	ct_result(&t.a, big, &res);
	if (res.done == 0) {
		ct_result(&t.a, small, &res);
		CT_EQ(res.done, 0, "younger sends that came back before the older one");
	}
	r.bufsize = ct_big();
	r.count = 1;
	rxb = ct_stream(&t.b, &r);
	ct_wait_ok(&t.b, rxb, 1);
	ct_wait_ok(&t.a, big, 1);
	ct_wait_ok(&t.a, small, 4);
	ct_trio_close(&t);
}

/* Bad ops in the middle of a queue fail at once, but poll returns them in the order of posting. */
static void
failed_in_the_middle(void)
{
	struct ct_spec good = { .type = LEAT_OP_SEND, .count = 3, .queue = CT_Q_OWN },
		       bad = { .type = LEAT_OP_SEND,
			       .count = 2,
			       .size = 64,
			       .queue = CT_Q_OWN,
			       .bad = CT_BAD_NOBUF },
		       r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .count = 3 };
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;
	int g, b, rx;

	good.size = r.size = RTE_MIN(2 * MIB, ct.info.max_msg);
	ct_pair_open(&p, NULL, NULL);
	good.peer = bad.peer = p.pa;
	for (i = 0; i < 3; i++) {
		g = ct_stream(&p.a, &good);
		ct_wait_posted(&p.a, g, 3);
		b = ct_stream(&p.a, &bad);
		ct_pump_us(1000);
		rx = ct_stream(&p.b, &r);
		ct_wait(&p.a, b, 2, &res);
		CT_EQ(ct_status_count(&res, -EINVAL), 2, "bad ops");
		ct_result(&p.a, g, &res);
		CT_EQ(res.done, 3, "ops posted before the bad ones that came back before them");
		ct_wait_ok(&p.a, g, 3);
		ct_wait_ok(&p.b, rx, 3);
	}
	ct_pair_close(&p);
}

/* Poll returns receives cancelled in the middle of a queue in the order of posting. */
static void
cancelled_in_the_middle(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .count = 9, .size = 100 },
		       s = { .type = LEAT_OP_SEND, .count = 1, .size = 100 };
	struct ct_result res;
	struct ct_pair p;
	int rx;

	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.b, &r);
	ct_wait_posted(&p.b, rx, 9);
	CT_EQ(ct_cancel(&p.b, rx, 3, 6, NULL), 3, "cancels");
	ct_pump_us(10000);
	ct_result(&p.b, rx, &res);
	CT_EQ(res.done, 0, "cancelled receives that overtook older ones");
	s.peer = p.pa;
	s.count = 3;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 3);
	ct_wait(&p.b, rx, 6, &res);
	CT_EQ(res.last_idx, 5, "last one to come back");
	CT_EQ(res.last_status, -ECANCELED, "its status");
	CT_EQ(ct_status_count(&res, -ECANCELED), 3, "cancelled");
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 3);
	ct_wait(&p.b, rx, 9, &res);
	CT_EQ(res.ok, 6, "receives that got a message");
	ct_pair_close(&p);
}

/* Messages of one peer arrive in the order in which they were sent, whatever their sizes. */
static void
messages_arrive_in_order(void)
{
	static const uint64_t limits[] = { 64, 5000, 70000, 600000 };
	struct ct_pair p;
	unsigned int i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < RTE_DIM(limits); i++)
		ct_traffic(&p.a, p.pa, &p.b, ct_scaled(limits[i] > 100000 ? 100 : 1000), 0,
			   limits[i], i * 100000);
	ct_pair_close(&p);
}

/* A poll for one op at a time returns the same ops in the same order as a poll for many. */
static void
poll_one_by_one(void)
{
	const uint32_t n = RTE_MIN(ct_scaled(100), ct.info.rx_depth);
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .size = 4,
			     .size_max = 400,
			     .seed = 3,
			     .check = CT_DATA },
		       s;
	struct ct_pair p;
	struct ct_node *node;
	uint32_t i = 0;
	uint16_t got;
	int rx, tx;

	r.count = n;
	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.a, &r);
	ct_wait_posted(&p.a, rx, n);
	ct_freeze(&p.a, true);
	s = r;
	s.type = LEAT_OP_SEND;
	s.peer = p.pb;
	tx = ct_stream(&p.b, &s);
	node = ct_node(&p.a);
	while (i < n) {
		CT_UNTIL((got = ct_node_poll(node, 1)) > 0, "only %u of %u ops came back", i, n);
		i += got;
	}
	CT_EQ(i, n, "ops that came back one by one");
	ct_freeze(&p.a, false);
	ct_wait_ok(&p.a, rx, n);
	ct_wait_ok(&p.b, tx, n);
	ct_pair_close(&p);
}

const struct ct_test ct_tests_order[] = {
	{ .name = "order.small_behind_large", .fn = small_behind_large, .ops = SR },
	{ .name = "order.mixed_types_send_queue", .fn = mixed_types_send_queue, .ops = SR },
	{ .name = "order.mixed_types_own_queue", .fn = mixed_types_own_queue, .ops = SR },
	{ .name = "order.mixed_types_no_queue", .fn = mixed_types_no_queue, .ops = SR },
	{ .name = "order.held_in_receive_queue", .fn = held_in_receive_queue, .ops = TSR },
	{ .name = "order.held_in_own_queue", .fn = held_in_own_queue, .ops = TSR },
	{ .name = "order.not_held_without_queue", .fn = not_held_without_queue, .ops = TSR },
	{ .name = "order.queues_are_independent", .fn = queues_are_independent, .ops = TSR },
	{ .name = "order.queue_over_two_peers", .fn = queue_over_two_peers, .ops = SR },
	{ .name = "order.failed_in_the_middle", .fn = failed_in_the_middle, .ops = SR },
	{ .name = "order.cancelled_in_the_middle", .fn = cancelled_in_the_middle, .ops = SR },
	{ .name = "order.messages_arrive_in_order", .fn = messages_arrive_in_order, .ops = SR },
	{ .name = "order.poll_one_by_one", .fn = poll_one_by_one, .ops = SR },
	{ .name = NULL },
};
