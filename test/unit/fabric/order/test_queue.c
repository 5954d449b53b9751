/* SPDX-License-Identifier: BSD-3-Clause */

/* The ordering layer, case by case, on an endpoint whose device completes ops on demand. */

#include <string.h>

#include "leat_cmocka.h"

#include <leat_driver.h>
#include <leat_order.h>
#include <leat_order_fast.h>

#define PEERS 4
#define OPS 16
#define DEPTH 8

static struct {
	struct leat_ep ep;
	struct leat_peer peers[PEERS];
	struct leat_op op[OPS];
	struct leat_op *done[OPS + 1];
	/* ops that the next poll finishes, in this order */
	struct leat_op *script[OPS];
	unsigned int nb_script;
	volatile uint64_t clock;
	char mem[64];
} t;

static uint16_t
dev_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t i;
	int ret;

	for (i = 0; i < n; i++) {
		if (!leat_op_admit(ep, ops[i]))
			break;
		ret = leat_op_check(ep, ops[i]);
		if (ret < 0)
			leat_op_fail(ep, ops[i], ret);
		else
			leat_op_start(ep, ops[i]);
	}
	return leat_ep_post_end(ep, i, n);
}

static void
dev_poll(struct leat_ep *ep)
{
	unsigned int i;

	for (i = 0; i < t.nb_script; i++)
		leat_op_finish(ep, t.script[i], 0, t.script[i]->size);
	t.nb_script = 0;
}

/* Make all ops sends to peer 0; op i sends i + 1 bytes. */
static int
setup(void **state)
{
	unsigned int i;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.clock = 1;
	leat_clock_mock_set(&t.clock);
	t.ep.post = dev_post;
	t.ep.poll = dev_poll;
	t.ep.peers = t.peers;
	t.ep.nb_peers = PEERS;
	t.ep.max_msg = 1024;
	t.ep.op_mask = LEAT_OP_MASK_ALL;
	t.ep.directed_recv = 1;
	t.ep.tx_room = DEPTH;
	t.ep.rx_room = DEPTH;
	t.ep.depth = 2 * DEPTH;
	for (i = 0; i < PEERS; i++) {
		t.peers[i].id = (uint16_t)i;
		t.peers[i].state = i < 2 ? LEAT_PEER_UP : LEAT_PEER_FREE;
	}
	for (i = 0; i < OPS; i++) {
		t.op[i].type = LEAT_OP_SEND;
		t.op[i].buf = t.mem;
		t.op[i].size = i + 1;
	}
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return 0;
}

static void
post(unsigned int first, unsigned int n)
{
	struct leat_op *ops[OPS];
	unsigned int i;

	for (i = 0; i < n; i++)
		ops[i] = &t.op[first + i];
	assert_int_equal(leat_ep_post(&t.ep, ops, (uint16_t)n), n);
}

static void
finish_in_poll(unsigned int i)
{
	t.script[t.nb_script++] = &t.op[i];
}

/* Poll with room for n; the ops that come back must be those numbered in want ("201": 2, 0, 1). */
static void
poll_wants(uint16_t n, const char *want)
{
	char got[OPS + 1];
	uint16_t nb, i;

	memset(t.done, 0, sizeof(t.done));
	nb = leat_ep_poll(&t.ep, t.done, n);
	assert_true(nb <= n);
	for (i = 0; i < nb; i++) {
		assert_int_equal(t.done[i]->state, LEAT_OP_IDLE);
		got[i] = (char)('0' + (t.done[i] - t.op));
	}
	got[nb] = '\0';
	assert_string_equal(got, want);
	for (; i <= OPS; i++)
		assert_null(t.done[i]);
}

/* The example of leat_queue.h. */
static void
test_example(void **state)
{
	struct leat_queue *q = &t.peers[0].sendq;

	(void)state;
	post(0, 4);
	assert_int_equal(leat_queue_count(q), 4);
	finish_in_poll(2);
	poll_wants(OPS, "");
	assert_int_equal(q->held_now, 1);
	finish_in_poll(0);
	poll_wants(OPS, "0");
	finish_in_poll(1);
	poll_wants(OPS, "12");
	assert_int_equal(q->held_now, 0);
	assert_int_equal(q->held_total, 1);
	assert_int_equal(leat_queue_count(q), 1);
	finish_in_poll(3);
	poll_wants(OPS, "3");
	assert_int_equal(leat_queue_count(q), 0);
	assert_null(q->head);
}

static void
test_in_order_holds_nothing(void **state)
{
	unsigned int round, i;

	(void)state;
	for (round = 0; round < 3; round++) {
		post(0, DEPTH);
		for (i = 0; i < DEPTH; i++)
			finish_in_poll(i);
		poll_wants(OPS, "01234567");
	}
	assert_int_equal(t.peers[0].sendq.held_total, 0);
	assert_int_equal(t.peers[0].sendq.nb_returned, 3 * DEPTH);
}

/* Queues don't wait for one another; ops on no queue wait for nothing. */
static void
test_queues_are_apart(void **state)
{
	struct leat_queue own;

	(void)state;
	leat_queue_init(&own);
	t.op[1].peer = 1;
	t.op[2].queue = &own;
	t.op[3].queue = LEAT_QUEUE_NONE;
	t.op[4].type = LEAT_OP_RECV;
	t.op[4].peer = LEAT_PEER_ANY;
	t.op[5].type = LEAT_OP_TRECV;
	t.op[5].peer = 1;
	post(0, 8); /* 0 6 7: peer 0; 1: peer 1; 2: own; 3: none; 4 5: receive queue */
	finish_in_poll(7);
	finish_in_poll(5);
	finish_in_poll(3);
	finish_in_poll(2);
	finish_in_poll(1);
	poll_wants(OPS, "321");
	finish_in_poll(6);
	finish_in_poll(4);
	finish_in_poll(0);
	poll_wants(OPS, "45067");
	assert_int_equal(own.nb_posted, 1);
	assert_int_equal(own.nb_returned, 1);
	assert_int_equal(t.ep.recvq.nb_returned, 2);
	assert_int_equal(t.peers[0].sendq.nb_returned, 3);
	assert_int_equal(t.peers[1].sendq.nb_returned, 1);
}

/* An op that fails inside post comes back after the ops that were in flight before it. */
static void
test_failed_op_keeps_its_place(void **state)
{
	(void)state;
	t.op[1].size = 1025;
	post(0, 3);
	assert_int_equal(t.op[1].state, LEAT_OP_HELD);
	assert_int_equal(leat_ep_inflight(&t.ep), 2);
	finish_in_poll(2);
	poll_wants(OPS, "");
	leat_op_finish(&t.ep, &t.op[0], -EIO, 0);
	poll_wants(OPS, "012");
	assert_int_equal(t.op[0].status, -EIO);
	assert_int_equal(t.op[1].status, -EMSGSIZE);
	assert_int_equal(t.op[2].status, 0);
	assert_int_equal(t.op[2].len, 3);
	assert_int_equal(t.ep.stats.errors, 2);
	assert_int_equal(t.ep.stats.tx_bytes, 3);
}

/* With little room, several polls return the ops in order, also those that complete in between. */
static void
test_output_room(void **state)
{
	(void)state;
	post(0, DEPTH);
	finish_in_poll(3);
	finish_in_poll(2);
	finish_in_poll(1);
	finish_in_poll(0);
	poll_wants(1, "0");
	assert_int_equal(t.ep.nb_ready, 3);
	finish_in_poll(5);
	finish_in_poll(4);
	poll_wants(2, "12");
	poll_wants(0, "");
	assert_int_equal(t.ep.nb_ready, 3);
	finish_in_poll(6);
	poll_wants(4, "3456");
	assert_int_equal(t.ep.nb_ready, 0);
	assert_null(t.ep.ready_head);
	finish_in_poll(7);
	poll_wants(0, "");
	poll_wants(OPS, "7");
	assert_int_equal(t.ep.stats.posted, DEPTH);
	assert_int_equal(t.ep.stats.returned, DEPTH);
}

/* Ops that complete outside of poll, or in a poll without an array, are kept for the next poll. */
static void
test_emit_outside_of_poll(void **state)
{
	(void)state;
	post(0, 3);
	leat_op_finish(&t.ep, &t.op[1], 0, 0);
	leat_op_finish(&t.ep, &t.op[0], 0, 0);
	assert_int_equal(t.op[0].state, LEAT_OP_READY);
	finish_in_poll(2);
	assert_int_equal(leat_ep_poll(&t.ep, NULL, 0), 0);
	assert_int_equal(t.ep.nb_ready, 3);
	poll_wants(2, "01");
	poll_wants(2, "2");
}

/* An op that came back may be posted again at once, unchanged; one that did not, may not. */
static void
test_post_again(void **state)
{
	struct leat_op *op = &t.op[1];

	(void)state;
	post(0, 2);
	finish_in_poll(1);
	poll_wants(OPS, "");
	assert_int_equal(op->state, LEAT_OP_HELD);
	assert_int_equal(leat_ep_post(&t.ep, &op, 1), 0);
	assert_int_equal(rte_errno, EALREADY);
	finish_in_poll(0);
	poll_wants(1, "0");
	assert_int_equal(op->state, LEAT_OP_READY);
	assert_int_equal(leat_ep_post(&t.ep, &op, 1), 0);
	assert_int_equal(rte_errno, EALREADY);
	/* Op 0 is queued after op 1, which has left the queue by now. */
	post(0, 1);
	finish_in_poll(0);
	poll_wants(OPS, "10");
	assert_int_equal(t.ep.stats.refused, 2);
	assert_int_equal(leat_ep_post(&t.ep, &op, 1), 1);
}

static void
test_full(void **state)
{
	struct leat_op *ops[OPS];
	unsigned int i;

	(void)state;
	for (i = 0; i < OPS; i++)
		ops[i] = &t.op[i];
	t.op[2].type = LEAT_OP_RECV;
	/* The burst ends at the first op without room, though the receive side has room. */
	t.op[DEPTH + 2].type = LEAT_OP_RECV;
	assert_int_equal(leat_ep_post(&t.ep, ops, OPS), DEPTH + 1);
	assert_int_equal(rte_errno, EAGAIN);
	assert_int_equal(t.ep.stats.refused, OPS - DEPTH - 1);
	assert_int_equal(t.ep.tx_room, 0);
	assert_int_equal(t.ep.rx_room, DEPTH - 1);
	assert_int_equal(t.op[DEPTH + 1].state, LEAT_OP_IDLE);
	assert_int_equal(leat_ep_post(&t.ep, &ops[DEPTH + 2], 1), 1);
	/* Ops that are held back or ready have left the device: their room is free again. */
	leat_op_finish(&t.ep, &t.op[8], 0, 0);
	assert_int_equal(leat_ep_post(&t.ep, &ops[DEPTH + 1], 2), 1);
	assert_int_equal(leat_ep_post(&t.ep, ops, 0), 0);
}

static void
test_hold_times(void **state)
{
	const uint32_t unit = 1u << LEAT_QUEUE_HOLD_SHIFT;
	struct leat_queue *q = &t.peers[0].sendq;
	struct leat_queue_stats stats;

	(void)state;
	leat_queue_stats_get(q, &stats);
	assert_int_equal(stats.held_avg_ns, 0);
	t.clock = 10 * unit;
	post(0, 4);
	finish_in_poll(2);
	poll_wants(OPS, "");
	t.clock = 25 * unit + unit / 2;
	finish_in_poll(1);
	finish_in_poll(3);
	poll_wants(OPS, "");
	leat_queue_stats_get(q, &stats);
	assert_int_equal(stats.posted, 4);
	assert_int_equal(stats.returned, 0);
	assert_int_equal(stats.held, 3);
	assert_int_equal(stats.held_now, 3);
	assert_int_equal(stats.held_avg_ns, 0);
	t.clock = 100 * unit;
	finish_in_poll(0);
	poll_wants(OPS, "0123");
	leat_queue_stats_get(q, &stats);
	assert_int_equal(stats.returned, 4);
	assert_int_equal(stats.held, 3);
	assert_int_equal(stats.held_now, 0);
	/* held back for 90, 75 and 75 units of cycles; a cycle of the mock clock is a nanosecond */
	assert_int_equal(q->held_time, 240);
	assert_in_range(stats.held_avg_ns, 80 * unit - 1, 80 * unit);
	assert_in_range(stats.held_max_ns, 90 * unit - 1, 90 * unit);
}

/* A hold-back that begins or ends outside of poll is timed by the clock of that moment. */
static void
test_hold_times_outside_of_poll(void **state)
{
	const uint32_t unit = 1u << LEAT_QUEUE_HOLD_SHIFT;
	struct leat_queue *q = &t.peers[0].sendq;

	(void)state;
	post(0, 4);
	t.clock = 10 * unit;
	leat_op_finish(&t.ep, &t.op[1], 0, 0);
	t.clock = 20 * unit;
	leat_op_finish(&t.ep, &t.op[2], 0, 0);
	t.clock = 50 * unit;
	finish_in_poll(0);
	poll_wants(OPS, "012");
	assert_int_equal(q->held_time, 40 + 30);
	assert_int_equal(q->held_max, 40);

	post(0, 1); /* held back until op 3 is done */
	t.clock = 60 * unit;
	leat_op_finish(&t.ep, &t.op[0], 0, 0);
	t.clock = 70 * unit;
	leat_op_finish(&t.ep, &t.op[3], 0, 0);
	assert_int_equal(q->held_time, 40 + 30 + 10);
	poll_wants(OPS, "30");
}

/* held_since has 32 bits and wraps every 7 minutes or so. */
static void
test_hold_time_wraps(void **state)
{
	struct leat_queue *q = &t.peers[0].sendq;

	(void)state;
	t.clock = ((UINT64_C(1) << 32) - 3) << LEAT_QUEUE_HOLD_SHIFT;
	post(0, 2);
	finish_in_poll(1);
	poll_wants(OPS, "");
	t.clock = ((UINT64_C(1) << 32) + 4) << LEAT_QUEUE_HOLD_SHIFT;
	finish_in_poll(0);
	poll_wants(OPS, "01");
	assert_int_equal(q->held_time, 7);
	assert_int_equal(q->held_max, 7);
}

/* A held_time of 2^60 units does not overflow the mean. */
static void
test_hold_stats_large(void **state)
{
	struct leat_queue *q = &t.peers[0].sendq;
	struct leat_queue_stats stats;

	(void)state;
	q->held_total = UINT64_C(1) << 40;
	q->held_time = UINT64_C(1) << 60;
	q->held_max = UINT32_MAX;
	leat_queue_stats_get(q, &stats);
	/* 2^20 units */
	assert_in_range(stats.held_avg_ns, (UINT64_C(1) << (20 + LEAT_QUEUE_HOLD_SHIFT)) - 1,
			UINT64_C(1) << (20 + LEAT_QUEUE_HOLD_SHIFT));
	assert_in_range(stats.held_max_ns, ((uint64_t)UINT32_MAX << LEAT_QUEUE_HOLD_SHIFT) - 1024,
			(uint64_t)UINT32_MAX << LEAT_QUEUE_HOLD_SHIFT);
}

/* leat_op_check() refuses each kind of invalid op, and accepts ops just within each limit. */
static void
test_check(void **state)
{
	const struct leat_op good = { .type = LEAT_OP_SEND, .buf = t.mem, .size = 8 };
	struct leat_op op;
	unsigned int type;

	(void)state;
#define CHECK(expected, ...)                                                                       \
	do {                                                                                       \
		op = good;                                                                         \
		__VA_ARGS__;                                                                       \
		assert_int_equal(leat_op_check(&t.ep, &op), expected);                             \
	} while (0)
	for (type = 0; type < 256; type++)
		CHECK(type < LEAT_OP_TYPES ? 0 : -EINVAL, op.type = (uint8_t)type);
	for (type = 0; type < LEAT_OP_TYPES; type++) {
		t.ep.op_mask = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(type);
		CHECK(-EOPNOTSUPP, op.type = (uint8_t)type);
	}
	t.ep.op_mask = LEAT_OP_MASK_ALL;

	CHECK(0, op.peer = 1);
	CHECK(-ENOTCONN, op.peer = 2);
	CHECK(-ENOTCONN, op.peer = PEERS);
	CHECK(-ENOTCONN, op.peer = LEAT_PEER_ANY);
	CHECK(-ENOTCONN, op.type = LEAT_OP_READ; op.peer = LEAT_PEER_ANY);
	CHECK(0, op.type = LEAT_OP_RECV; op.peer = LEAT_PEER_ANY);
	CHECK(0, op.type = LEAT_OP_TRECV; op.peer = 1);
	CHECK(-ENOTCONN, op.type = LEAT_OP_TRECV; op.peer = 3);
	t.ep.directed_recv = 0;
	CHECK(-EOPNOTSUPP, op.type = LEAT_OP_TRECV; op.peer = 1);
	CHECK(0, op.type = LEAT_OP_TRECV; op.peer = LEAT_PEER_ANY);
	t.peers[0].state = LEAT_PEER_CLOSING;
	CHECK(-ENOTCONN, op.peer = 0);
	t.peers[0].state = LEAT_PEER_UP;

	CHECK(0, op.size = 1024);
	CHECK(-EMSGSIZE, op.size = 1025);
	CHECK(-EMSGSIZE, op.size = UINT64_MAX);
	CHECK(0, op.type = LEAT_OP_RECV; op.peer = LEAT_PEER_ANY; op.size = 1025);
	CHECK(0, op.size = 0; op.buf = NULL);
	CHECK(-EINVAL, op.size = 1; op.buf = NULL);
	t.ep.mr_local = 1;
	CHECK(-EINVAL, op.mr = NULL);
	CHECK(0, op.size = 0);
	CHECK(0, op.mr = (struct leat_mr *)t.mem);
	t.ep.mr_local = 0;

	for (type = LEAT_OP_FETCH_ADD; type <= LEAT_OP_CMP_SWAP; type++) {
		CHECK(0, op.type = (uint8_t)type; op.raddr = 8);
		CHECK(-EINVAL, op.type = (uint8_t)type; op.raddr = 4);
		CHECK(-EINVAL, op.type = (uint8_t)type; op.size = 4);
		CHECK(-EINVAL, op.type = (uint8_t)type; op.size = 0);
	}
	CHECK(0, op.type = LEAT_OP_READ; op.raddr = 4);
#undef CHECK
}

/* The room that an op takes is freed, whatever the op's type and peer, even invalid ones. */
static void
test_accounting(void **state)
{
	unsigned int type, peer;

	(void)state;
	for (type = 0; type < 256; type++) {
		for (peer = 0; peer <= PEERS; peer++) {
			struct leat_op *op = &t.op[0];
			bool recv = type == LEAT_OP_RECV || type == LEAT_OP_TRECV;

			op->type = (uint8_t)type;
			op->peer = peer < PEERS ? (uint16_t)peer : LEAT_PEER_ANY;
			leat_op_start(&t.ep, op);
			assert_int_equal(t.ep.tx_room, recv ? DEPTH : DEPTH - 1);
			assert_int_equal(t.ep.rx_room, recv ? DEPTH - 1 : DEPTH);
			assert_int_equal(leat_ep_inflight(&t.ep), 1);
			if (peer < PEERS)
				assert_int_equal(leat_peer_inflight(&t.peers[peer]), 1);
			leat_op_finish(&t.ep, op, -EIO, 0);
			assert_int_equal(t.ep.tx_room, DEPTH);
			assert_int_equal(t.ep.rx_room, DEPTH);
			assert_int_equal(leat_ep_inflight(&t.ep), 0);
			if (peer < PEERS)
				assert_int_equal(leat_peer_inflight(&t.peers[peer]), 0);
			poll_wants(1, "0");
		}
	}
}

static void
test_mr_find(void **state)
{
	static char mem[1000];
	static char room[sizeof(struct leat_mr) + 4 * sizeof(struct leat_mr_piece)]
		__attribute__((aligned(__alignof__(struct leat_mr))));
	struct leat_mr *mr = (struct leat_mr *)(void *)room;
	unsigned int n, i;

	(void)state;
	/* Pieces of 100 bytes, with gaps of 100 bytes, from offset 100 of mem on. */
	for (n = 1; n <= 4; n++) {
		mr->nb_pieces = n;
		for (i = 0; i < n; i++) {
			mr->piece[i].addr = mem + 100 + 200 * i;
			mr->piece[i].len = 100;
		}
		for (i = 0; i < n; i++) {
			char *start = mr->piece[i].addr;

			assert_ptr_equal(leat_mr_find(mr, start, 100), &mr->piece[i]);
			assert_ptr_equal(leat_mr_find(mr, start, 0), &mr->piece[i]);
			assert_ptr_equal(leat_mr_find(mr, start + 99, 1), &mr->piece[i]);
			assert_ptr_equal(leat_mr_find(mr, start + 100, 0), &mr->piece[i]);
			assert_null(leat_mr_find(mr, start, 101));
			assert_null(leat_mr_find(mr, start - 1, 1));
			assert_null(leat_mr_find(mr, start - 1, 50));
			assert_null(leat_mr_find(mr, start + 99, 2));
			assert_null(leat_mr_find(mr, start + 1, UINT64_MAX));
			assert_null(leat_mr_find(mr, start + 100, 1));
		}
		assert_null(leat_mr_find(mr, NULL, 1));
		assert_null(leat_mr_find(mr, (void *)UINTPTR_MAX, 1));
	}
}

/* ---- runs of ops ---- */

#define RUN 3

static void
sends_by_op(void)
{
	unsigned int i;

	for (i = 0; i < RUN; i++) {
		leat_op_start(&t.ep, &t.op[i]);
		leat_op_finish(&t.ep, &t.op[i], 0, t.op[i].size);
	}
}

static void
sends_as_run(void)
{
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < RUN; i++) {
		assert_true(leat_op_is_plain(&t.op[i], LEAT_OP_SEND));
		leat_op_run_sent(&t.op[i], i > 0 ? &t.op[i - 1] : NULL);
		bytes += t.op[i].size;
	}
	leat_op_run_sent_end(&t.ep, &t.peers[0], &t.op[0], &t.op[RUN - 1], RUN, bytes);
}

static void
recvs_by_op(void)
{
	unsigned int i;

	for (i = 0; i < RUN; i++)
		leat_op_start(&t.ep, &t.op[i]);
	t.ep.out = t.done;
	t.ep.out_end = t.done + OPS;
	for (i = 0; i < RUN - 1; i++) {
		t.op[i].src = 1;
		leat_op_finish(&t.ep, &t.op[i], 0, i);
	}
}

static void
recvs_as_run(void)
{
	struct leat_op **out = t.done;
	uint64_t bytes = 0;
	unsigned int i;

	for (i = 0; i < RUN; i++)
		leat_op_run_recv(&t.ep, &t.op[i]);
	leat_op_run_recv_end(&t.ep, RUN);
	t.ep.out = t.done;
	t.ep.out_end = t.done + OPS;
	for (i = 0; i < RUN - 1; i++) {
		leat_op_run_received(&t.ep.recvq, &t.op[i], 1, i);
		*out++ = &t.op[i];
		bytes += i;
	}
	leat_op_run_received_end(&t.ep, out, RUN - 1, bytes);
}

/* Call run(), and store all state of the layer, except the tail of an empty queue. */
static void
outcome(void (*run)(void), uint8_t type, uint16_t peer, void *to)
{
	unsigned int i;

	setup(NULL);
	for (i = 0; i < RUN; i++) {
		t.op[i].type = type;
		t.op[i].peer = peer;
	}
	run();
	t.peers[0].sendq.tail = NULL;
	memcpy(to, &t, sizeof(t));
}

static void
test_run_is_as_op_by_op(void **state)
{
	static unsigned char one[sizeof(t)], run[sizeof(t)];

	(void)state;
	outcome(sends_by_op, LEAT_OP_SEND, 0, one);
	outcome(sends_as_run, LEAT_OP_SEND, 0, run);
	assert_memory_equal(one, run, sizeof(one));
	outcome(recvs_by_op, LEAT_OP_RECV, LEAT_PEER_ANY, one);
	outcome(recvs_as_run, LEAT_OP_RECV, LEAT_PEER_ANY, run);
	assert_memory_equal(one, run, sizeof(one));
}

static void
test_what_is_plain(void **state)
{
	struct leat_op *op = &t.op[0];
	struct leat_queue own;

	(void)state;
	leat_queue_init(&own);
	assert_true(leat_op_is_plain(op, LEAT_OP_SEND));
	assert_false(leat_op_is_plain(op, LEAT_OP_RECV));
	op->flags = LEAT_OP_F_DEADLINE;
	assert_false(leat_op_is_plain(op, LEAT_OP_SEND));
	op->flags = 0;
	op->state = LEAT_OP_INFLIGHT;
	assert_false(leat_op_is_plain(op, LEAT_OP_SEND));
	op->state = LEAT_OP_IDLE;
	op->queue = &own;
	assert_false(leat_op_is_plain(op, LEAT_OP_SEND));
	op->queue = NULL;
	op->buf = NULL;
	assert_false(leat_op_is_plain(op, LEAT_OP_SEND));
	op->size = 0;
	assert_true(leat_op_is_plain(op, LEAT_OP_SEND));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_example, setup),
		cmocka_unit_test_setup(test_in_order_holds_nothing, setup),
		cmocka_unit_test_setup(test_queues_are_apart, setup),
		cmocka_unit_test_setup(test_failed_op_keeps_its_place, setup),
		cmocka_unit_test_setup(test_output_room, setup),
		cmocka_unit_test_setup(test_emit_outside_of_poll, setup),
		cmocka_unit_test_setup(test_post_again, setup),
		cmocka_unit_test_setup(test_full, setup),
		cmocka_unit_test_setup(test_hold_times, setup),
		cmocka_unit_test_setup(test_hold_times_outside_of_poll, setup),
		cmocka_unit_test_setup(test_hold_time_wraps, setup),
		cmocka_unit_test_setup(test_hold_stats_large, setup),
		cmocka_unit_test_setup(test_check, setup),
		cmocka_unit_test_setup(test_accounting, setup),
		cmocka_unit_test_setup(test_mr_find, setup),
		cmocka_unit_test_setup(test_run_is_as_op_by_op, setup),
		cmocka_unit_test_setup(test_what_is_plain, setup),
	};

	return cmocka_run_group_tests_name("fabric queue", tests, NULL, teardown);
}
