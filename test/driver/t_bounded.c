/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 4: when an endpoint is full, post accepts fewer ops, and returns at once. No memory grows
 * without limit, whatever the other side does.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

/* Memory that a side may use for messages that have no receive, MiB. */
#define GROWTH_MAX 64

/*
 * Post receives until the endpoint is full: post accepts exactly rx_depth ops, and then sets
 * EAGAIN. Cancels make room again.
 */
static void
receives_until_full(void)
{
	struct ct_conf conf = { .rx_depth = RTE_MIN(128u, ct.info.rx_depth_max) };
	struct ct_spec r = {
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .size = 64, .queue = CT_Q_NONE
	};
	struct ct_result res;
	struct ct_pair p;
	int rx;

	r.count = conf.rx_depth + 50;
	ct_pair_open(&p, &conf, NULL);
	rx = ct_stream(&p.a, &r);
	ct_wait_posted(&p.a, rx, conf.rx_depth);
	ct_pump_us(1000);
	ct_result(&p.a, rx, &res);
	CT_EQ(res.posted, conf.rx_depth, "receives accepted");
	/* The node checks that refused posts set EAGAIN. Ops that are cancelled make room again. */
	CT_EQ(ct_cancel(&p.a, rx, 0, 30, NULL), 30, "cancels");
	ct_wait_posted(&p.a, rx, conf.rx_depth + 30);
	ct_pump_us(1000);
	ct_result(&p.a, rx, &res);
	CT_EQ(res.posted, conf.rx_depth + 30, "receives accepted");
	ct_pair_close(&p);
}

/*
 * Post sends that have no receive until the endpoint is full: at most tx_depth of them are in
 * flight. When the other side posts receives, all sends succeed.
 */
static void
sends_until_full(void)
{
	/* All sends together: at most 192 MiB. */
	const uint32_t depth = RTE_MIN(RTE_MAX(ct_scaled(64), 8u), ct.info.tx_depth_max),
		       n = 3 * depth;
	struct ct_conf conf = { .tx_depth = depth };
	struct ct_spec s = { .type = LEAT_OP_SEND,
			     .count = n,
			     .seed = 3,
			     .check = CT_DATA,
			     .size = RTE_MIN(MIB, ct.info.max_msg) };
	struct ct_result res;
	struct ct_pair p;
	int tx, rx;

	ct_pair_open(&p, &conf, NULL);
	ct_pair_works(&p); /* a device may refuse posts until the peer has answered once */
	s.peer = p.pa;
	ct_freeze(&p.b, true);
	tx = ct_stream(&p.a, &s);
	ct_pump_us(50000);
	ct_result(&p.a, tx, &res);
	CT_CHECK(res.posted - res.done <= depth, "%u sends in flight, depth is %u",
		 res.posted - res.done, depth);
	CT_CHECK(res.posted < n, "%u MiB went to a side that does not move", res.done);
	ct_freeze(&p.b, false);
	s.type = LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &s);
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	ct_pair_close(&p);
}

/* Wait until a stream of sends that have no receives makes no progress any more. */
static void
wait_stalled(struct ct_side *s, int tx, struct ct_result *res)
{
	uint32_t before;

	ct_result(s, tx, res);
	do {
		before = res->posted + res->done;
		ct_pump_us(200000);
		ct_result(s, tx, res);
	} while (res->posted + res->done != before);
}

/*
 * As sends_until_full(), but with messages that are copied when posted. The system's socket buffers
 * can take some MiB of them.
 */
static void
small_sends_until_full(void)
{
	const uint32_t n = 4000000;
	struct ct_spec s = { .type = LEAT_OP_SEND,
			     .count = n,
			     .seed = 3,
			     .check = CT_DATA,
			     .size = 32,
			     .window = 256 };
	struct ct_result res;
	struct ct_pair p;
	int tx, rx;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p); /* a device may refuse posts until the peer has answered once */
	s.peer = p.pa;
	ct_freeze(&p.b, true);
	tx = ct_stream(&p.a, &s);
	wait_stalled(&p.a, tx, &res);
	CT_CHECK(res.posted < n, "%u sends to a side that does not move, and still not full", n);
	ct_note("%u messages of 32 B were taken by a side that does not move", res.posted);
	s.count = RTE_MIN(ct_trim(&p.a, tx), 4000u);
	ct_freeze(&p.b, false);
	s.type = LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &s);
	ct_wait_ok(&p.b, rx, s.count);
	/* The remaining sends never get a receive: closing must work all the same. */
	ct_finish(&p.b);
	ct_finish(&p.a);
}

/* If a burst exceeds the room, post accepts its first ops and leaves the other ops unchanged. */
static void
burst_longer_than_room(void)
{
	enum { N = 300 };
	struct ct_conf conf = { .rx_depth = RTE_MIN(64u, ct.info.rx_depth_max) };
	static struct leat_op ops[N], before[N];
	struct leat_op *list[N], *got[64];
	struct ct_node *node;
	struct ct_pair p;
	uint32_t i, seen = 0;
	uint16_t took, c;

	ct_pair_open(&p, &conf, NULL);
	node = ct_node(&p.a);
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < N; i++) {
		ops[i].type = LEAT_OP_RECV;
		ops[i].peer = LEAT_PEER_ANY;
		list[i] = &ops[i];
	}
	memcpy(before, ops, sizeof(ops));
	rte_errno = 0;
	took = leat_ep_post(node->ep, list, N);
	CT_EQ(took, conf.rx_depth, "accepted of a burst of 300");
	CT_EQ(rte_errno, EAGAIN, "rte_errno");
	CT_CHECK(memcmp(&ops[took], &before[took], (N - took) * sizeof(ops[0])) == 0,
		 "an op that was not accepted was changed");
	CT_EQ(leat_ep_post(node->ep, &list[took], 1), 0, "accepted when full");
	for (i = 0; i < took; i++)
		CT_EQ(leat_op_cancel(node->ep, &ops[i]), 0, "cancel");
	ct_freeze(&p.a, true);
	while (seen < took) {
		CT_UNTIL((c = leat_ep_poll(node->ep, got, RTE_DIM(got))) > 0,
			 "only %u of %u receives came back", seen, took);
		for (i = 0; i < c; i++)
			CT_CHECK(got[i] == &ops[seen + i] && got[i]->status == -ECANCELED,
				 "receive %u: status %d", seen + i, got[i]->status);
		seen += c;
	}
	CT_EQ(seen, took, "came back");
	ct_freeze(&p.a, false);
	ct_pair_close(&p);
}

/* A post of 0 ops does nothing, and a poll for 0 ops loses no completed op. */
static void
zero_size_bursts(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = 10,
			     .size = 100,
			     .seed = 1,
			     .check = CT_DATA };
	struct leat_op *none[1] = { NULL };
	struct ct_node *node;
	struct ct_pair p;
	struct ct_spec s;
	unsigned int i;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	node = ct_node(&p.a);
	CT_EQ(leat_ep_post(node->ep, none, 0), 0, "post of nothing");
	CT_EQ(leat_ep_post(node->ep, NULL, 0), 0, "post of nothing");
	CT_EQ(leat_ep_poll(node->ep, NULL, 0), 0, "poll for nothing");
	CT_EQ(leat_ep_events(node->ep, NULL, 0), 0, "no events");
	rx = ct_stream(&p.a, &r);
	ct_wait_posted(&p.a, rx, 10);
	ct_freeze(&p.a, true);
	s = r;
	s.type = LEAT_OP_SEND;
	s.peer = p.pb;
	tx = ct_stream(&p.b, &s);
	for (i = 0; i < 20000; i++) {
		CT_EQ(leat_ep_poll(node->ep, NULL, 0), 0, "poll for nothing");
		CT_EQ(leat_ep_post(node->ep, none, 0), 0, "post of nothing");
		if (i % 16 == 0) /* post may sleep if nothing arrives: drive the other side */
			ct_pump();
	}
	ct_freeze(&p.a, false);
	ct_wait_ok(&p.a, rx, 10);
	ct_wait_ok(&p.b, tx, 10);
	ct_pair_close(&p);
}

/*
 * Messages that have no receive: the sender's posts are refused at some point, and the receiver's
 * memory does not grow by more than GROWTH_MAX.
 */
static void
unexpected(uint64_t size, uint64_t total)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .size = size, .seed = 3, .window = 64 };
	uint64_t before, after;
	struct ct_result res;
	struct ct_trio t;
	int tx;

	ct_trio_open(&t, NULL);
	ct_traffic(&t.b, t.ab, &t.a, 100, size, 0, 1);
	before = ct_state(&t.a).val[2];
	s.peer = t.ab;
	s.count = (uint32_t)(total / size);
	tx = ct_stream(&t.b, &s);
	wait_stalled(&t.b, tx, &res);
	after = ct_state(&t.a).val[2];
	CT_CHECK(after < before + GROWTH_MAX * 1024,
		 "%u messages of %" PRIu64 " B without a receive: memory grew by %" PRIu64 " MiB",
		 res.done, size, (after - before) / 1024);
	ct_note("%u of %u unexpected messages of %" PRIu64 " B were taken, memory grew by %" PRId64
		" KiB",
		res.done, s.count, size, (int64_t)(after - before));
	/* c's messages are tagged, so that b's messages do not match their receives. */
	if ((ct.info.ops & TSR) == TSR) {
		struct ct_spec g = { .type = LEAT_OP_TRECV,
				     .peer = LEAT_PEER_ANY,
				     .count = 50,
				     .size = 200,
				     .seed = 8,
				     .tag = 5,
				     .check = CT_DATA };
		int rx = ct_stream(&t.a, &g);

		g.type = LEAT_OP_TSEND;
		g.peer = t.ac;
		ct_wait_ok(&t.c, ct_stream(&t.c, &g), 50);
		ct_wait_ok(&t.a, rx, 50);
	}
	ct_trio_close(&t);
}

static void
unexpected_small(void)
{
	unexpected(64, 16 * MIB);
}

static void
unexpected_medium(void)
{
	unexpected(RTE_MIN(UINT64_C(4096), ct.info.max_msg), 256 * MIB);
}

static void
unexpected_tagged(void)
{
	struct ct_spec s = { .type = LEAT_OP_TSEND,
			     .count = 65536,
			     .size = 4096,
			     .seed = 3,
			     .tag = 99,
			     .window = 64 };
	uint64_t before, after;
	struct ct_result res;
	struct ct_pair p;
	int tx;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p);
	before = ct_state(&p.b).val[2];
	s.peer = p.pa;
	tx = ct_stream(&p.a, &s);
	wait_stalled(&p.a, tx, &res);
	after = ct_state(&p.b).val[2];
	CT_CHECK(after < before + GROWTH_MAX * 1024,
		 "%u tagged messages without a receive: memory grew by %" PRIu64 " MiB", res.done,
		 (after - before) / 1024);
	ct_pair_close(&p);
}

/* Endpoints that are opened, used and closed leave no memory and no files behind. */
static void
open_close_leaves_nothing(void)
{
	const uint32_t n = ct_scaled(20);
	uint64_t files[2] = { 0 }, rss[2] = { 0 };
	struct ct_rep st;
	struct ct_pair p;
	uint32_t i;

	for (i = 0; i < n + 3; i++) {
		ct_pair_open(&p, NULL, NULL);
		ct_pair_works(&p);
		ct_pair_close(&p);
		if (i == 2) {
			st = ct_state(&p.a);
			files[0] = st.val[3];
			rss[0] = st.val[2];
		}
	}
	st = ct_state(&p.a);
	files[1] = st.val[3];
	rss[1] = st.val[2];
	CT_EQ(files[1], files[0], "open files after as before");
	ct_note("%u endpoints opened and closed: memory grew by %" PRId64 " KiB", n,
		(int64_t)(rss[1] - rss[0]));
	CT_CHECK(rss[1] < rss[0] + 64 * 1024, "memory grew by %" PRIu64 " MiB",
		 (rss[1] - rss[0]) / 1024);
}

const struct ct_test ct_tests_bounded[] = {
	{ .name = "bounded.receives_until_full",
	  .fn = receives_until_full,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "bounded.sends_until_full", .fn = sends_until_full, .ops = SR },
	{ .name = "bounded.small_sends_until_full", .fn = small_sends_until_full, .ops = SR },
	{ .name = "bounded.burst_longer_than_room",
	  .fn = burst_longer_than_room,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "bounded.zero_size_bursts", .fn = zero_size_bursts, .ops = SR },
	{ .name = "bounded.unexpected_small",
	  .fn = unexpected_small,
	  .ops = SR,
	  .caps = CT_CAP_BOUNDED },
	{ .name = "bounded.unexpected_medium",
	  .fn = unexpected_medium,
	  .ops = SR,
	  .caps = CT_CAP_BOUNDED },
	{ .name = "bounded.unexpected_tagged",
	  .fn = unexpected_tagged,
	  .ops = SR | TSR,
	  .caps = CT_CAP_BOUNDED },
	{ .name = "bounded.open_close_leaves_nothing",
	  .fn = open_close_leaves_nothing,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = NULL },
};
