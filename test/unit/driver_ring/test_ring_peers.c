/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One endpoint with 1,000 peers: the next poll sees a message of any of them, and no peer shuts out
 * another.
 */

#include "ring_test.h"

#include <errno.h>
#include <poll.h>

#include <leat_error.h>

#define PEERS 1000
#define NOISY 48

static struct leat_ep *hub, *spoke[PEERS];
static uint16_t at_hub[PEERS],
	at_spoke[PEERS]; /* ids: of spoke i at the hub, and of the hub at spoke i */
static struct leat_op recv[64], tx[PEERS];
static uint64_t in[64], out[PEERS];

static void
post_recv(struct leat_op *r, uint64_t *buf)
{
	*r = ring_test_recv(buf, 8);
	ring_test_post(hub, r);
}

static void
send_from(int i)
{
	struct leat_op *done;

	out[i] = (uint64_t)i;
	tx[i] = ring_test_send(at_spoke[i], &out[i], 8);
	ring_test_post(spoke[i], &tx[i]);
	assert_int_equal(leat_ep_poll(spoke[i], &done, 1), 1);
}

/*
 * Let the peers see that the hub wants marks, and the hub see their answers. By a mark a peer shows
 * the hub which link has messages or acks: see ring_mark.h.
 */
static void
exchange_marks(void)
{
	int i;

	for (i = 0; i < PEERS; i++)
		(void)leat_ep_events(spoke[i], NULL, 0);
	(void)leat_ep_events(hub, NULL, 0);
}

static int
open_all(void **state)
{
	struct leat_ep_conf conf = { .max_peers = PEERS, .ops = LEAT_OP_MASK_ALL };
	struct leat_ep_conf small = { .max_peers = 1, .ops = LEAT_OP_MASK_ALL };
	struct leat_dev_info info;
	int i;

	if (ring_test_start(state) < 0)
		return -1;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(SHALLOW), &info), 0);
	conf.wait = info.wait;
	hub = ring_test_ep(SHALLOW, &conf);
	assert_int_equal(leat_ep_listen(hub, "hub:1"), 0);
	for (i = 0; i < PEERS; i++) {
		spoke[i] = ring_test_ep(SHALLOW, &small);
		ring_test_connect(spoke[i], hub, "hub:1", &at_spoke[i], &at_hub[i]);
	}
	exchange_marks();
	for (i = 0; i < 64; i++)
		post_recv(&recv[i], &in[i]);
	return 0;
}

static int
close_all(void **state)
{
	int i;

	for (i = 0; i < PEERS; i++) {
		if (leat_ep_close(spoke[i], 0, NULL, NULL) < 0)
			return -1;
	}
	if (leat_ep_close(hub, 0, NULL, NULL) < 0)
		return -1;
	return ring_test_stop(state);
}

/* Check that the message of peer i arrives within this number of polls. */
static void
expect_within(int i, int polls)
{
	struct leat_op *op;

	while (leat_ep_poll(hub, &op, 1) == 0)
		assert_true(--polls > 0);
	assert_int_equal(op->status, 0);
	assert_int_equal(op->src, at_hub[i]);
	assert_int_equal(*(uint64_t *)op->buf, i);
	post_recv(op, op->buf);
}

static void
expect(int i)
{
	expect_within(i, 1);
}

/* A message is seen in the next poll, whichever peer sent it. */
static void
anyone(void **state)
{
	int n;

	(void)state;
	for (n = 0; n < PEERS; n++) {
		send_from(n * 379 % PEERS);
		expect(n * 379 % PEERS);
	}
}

/* A message of a peer to which the hub has sent is seen in the next poll, too. */
static void
answer(void **state)
{
	static uint64_t word;
	struct leat_op r, s;
	int i;

	(void)state;
	for (i = 3; i < PEERS; i += 111) {
		r = ring_test_recv(&word, 8);
		ring_test_post(spoke[i], &r);
		s = ring_test_send(at_hub[i], &word, 8);
		ring_test_post(hub, &s);
		assert_ptr_equal(ring_test_wait(hub), &s);
		assert_ptr_equal(ring_test_wait(spoke[i]), &r);
		send_from(i);
		expect(i);
	}
}

static bool
readable(void)
{
	struct pollfd fd = { .fd = leat_ep_fd(hub), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* The hub does not sleep when a peer has sent, and is woken when one sends. */
static void
sleeping(void **state)
{
	struct leat_op *op;
	int i;

	(void)state;
	if (leat_ep_fd(hub) < 0)
		skip();
	for (i = 0; i < PEERS; i += 37) {
		send_from(i);
		assert_int_equal(leat_ep_arm(hub), -EAGAIN);
		leat_ep_disarm(hub);
		expect(i);
		assert_int_equal(leat_ep_poll(hub, &op, 1), 0);
		assert_int_equal(leat_ep_arm(hub), 0);
		assert_false(readable());
		send_from(i);
		assert_true(readable());
		leat_ep_disarm(hub);
		expect(i);
	}
	/*
	 * Three peers have sent, and each poll returns one message: the hub can't sleep while one
	 * is left.
	 */
	for (i = 0; i < 3; i++)
		send_from(i);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_ep_arm(hub), -EAGAIN);
		leat_ep_disarm(hub);
		assert_int_equal(leat_ep_poll(hub, &op, 1), 1);
		post_recv(op, op->buf);
	}
	assert_int_equal(leat_ep_arm(hub), 0);
	leat_ep_disarm(hub);
}

/*
 * NOISY peers send all the time, more of them than one poll looks at: the message of another peer
 * is received within NOISY + 1 polls.
 */
static void
noisy(void **state)
{
	struct leat_op *ops[4];
	bool seen = false;
	int i, k;

	(void)state;
	send_from(PEERS - 1);
	for (k = 0; !seen; k++) {
		uint16_t n;

		/*
		 * Each poll takes all messages of the first peer in the hub's queue, or four of
		 * them; the peer then goes to the end of the queue.
		 */
		assert_true(k <= NOISY);
		for (i = 0; i < NOISY; i++) {
			struct leat_op *op = &tx[i], *done;

			tx[i] = ring_test_send(at_spoke[i], &out[i], 8);
			(void)leat_ep_post(spoke[i], &op, 1);
			(void)leat_ep_poll(spoke[i], &done, 1);
		}
		n = leat_ep_poll(hub, ops, 4);
		for (i = 0; i < n; i++) {
			seen = seen || ops[i]->src == at_hub[PEERS - 1];
			post_recv(ops[i], ops[i]->buf);
		}
	}
	/* the remaining messages: at most the 16 slots of each peer */
	for (k = 0; k < 16 * NOISY; k++) {
		uint16_t n = leat_ep_poll(hub, ops, 4);

		for (i = 0; i < n; i++)
			post_recv(ops[i], ops[i]->buf);
	}
}

/* All peers send at once; each message arrives, once. */
static void
everybody(void **state)
{
	static uint8_t got[PEERS];
	struct leat_op *ops[32];
	int i, k, n, sum = 0;

	(void)state;
	for (i = 0; i < PEERS; i++)
		send_from(i);
	for (k = 0; sum < PEERS; k++) {
		assert_true(k <= PEERS / 32 + 1);
		n = leat_ep_poll(hub, ops, 32);
		for (i = 0; i < n; i++) {
			got[*(uint64_t *)ops[i]->buf]++;
			post_recv(ops[i], ops[i]->buf);
		}
		sum += n;
	}
	for (i = 0; i < PEERS; i++)
		assert_int_equal(got[i], 1);
}

/* A peer whose 16 slots are all full of unexpected messages disturbs no other peer. */
static void
one_is_full(void **state)
{
	struct leat_op s, *p = &s;
	uint64_t word = 1;
	int i;

	(void)state;
	for (i = 0; i < 100; i++) {
		s = ring_test_send(at_spoke[5], &word, 8);
		s.type = LEAT_OP_TSEND;
		if (leat_ep_post(spoke[5], &p, 1) == 0)
			break;
		assert_ptr_equal(ring_test_wait(spoke[5]), &s);
		(void)leat_ep_poll(hub, NULL, 0);
	}
	assert_int_equal(i, 16);
	for (i = 6; i < 40; i++) {
		send_from(i);
		expect(i);
	}
	/* the 16 messages of peer 5 are still there */
	for (i = 0; i < 16; i++) {
		struct leat_op r = ring_test_recv(&word, 8);

		r.type = LEAT_OP_TRECV;
		r.queue = LEAT_QUEUE_NONE;
		ring_test_post(hub, &r);
		assert_ptr_equal(ring_test_wait(hub), &r);
		assert_int_equal(r.src, at_hub[5]);
	}
}

/* Half of the peers close; the others' messages are seen as before. */
static void
half_go(void **state)
{
	struct leat_event ev;
	int i;

	(void)state;
	for (i = 0; i < PEERS; i += 2)
		assert_int_equal(leat_ep_disconnect(spoke[i], at_spoke[i]), 0);
	for (i = 0; i < PEERS / 2; i++) {
		ring_test_event(hub, NULL, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(ev.status, 0);
	}
	for (i = 1; i < PEERS; i += 14) {
		send_from(i);
		expect(i);
	}
}

static void
count(struct leat_op *op, void *arg)
{
	(void)op;
	(*(int *)arg)++;
}

static void
reopen(int i)
{
	struct leat_ep_conf small = { .max_peers = 1, .ops = LEAT_OP_MASK_ALL };

	spoke[i] = ring_test_ep(SHALLOW, &small);
	ring_test_connect(spoke[i], hub, "hub:1", &at_spoke[i], &at_hub[i]);
}

/*
 * A peer dies right after it sent, with an op in flight that no receive takes: its message arrives,
 * and an event reports its end. The next poll sees a message of the peer that connects in its
 * place.
 */
static void
one_dies(void **state)
{
	static char big[10000];
	struct leat_event ev;
	struct leat_op s;
	uint16_t old = at_hub[1];
	int n = 0;

	(void)state;
	send_from(1);
	s = ring_test_send(at_spoke[1], big, sizeof(big));
	s.type = LEAT_OP_TSEND;
	ring_test_post(spoke[1], &s);
	assert_int_equal(leat_ep_close(spoke[1], 1000, count, &n), -ETIMEDOUT);
	assert_int_equal(n, 1);
	expect(1);
	ring_test_event(hub, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, -ECONNRESET);
	assert_int_equal(ev.peer, old);
	reopen(1);
	send_from(1);
	expect(1);
}

/*
 * All peers but a few (left) close. The hub wants no marks any more, and looks at each remaining
 * peer in every poll. Then the others connect again, with new ids, and the hub wants marks again.
 * Messages that were sent before such a change, and not yet polled, are still there.
 */
static void
few_and_many(void **state)
{
	struct leat_event ev;
	int i, left;

	(void)state;
	for (i = 0; i < PEERS; i += 2) {
		assert_int_equal(leat_ep_close(spoke[i], 0, NULL, NULL), 0);
		reopen(i);
	}
	for (left = 4; left < 10; left += 2) {
		send_from(1);
		for (i = left; i < PEERS; i++) {
			assert_int_equal(leat_ep_close(spoke[i], 0, NULL, NULL), 0);
			ring_test_event(hub, NULL, LEAT_EV_DISCONNECTED, &ev);
			assert_int_equal(ev.status, 0);
		}
		expect(1);
		send_from(3);
		/* Let the peers see that the hub wants no marks. */
		for (i = 0; i < left; i++)
			(void)leat_ep_events(spoke[i], NULL, 0);
		expect(3);
		/*
		 * The hub wants marks again. Each poll looks at 16 of the peers that have not seen
		 * this yet.
		 */
		for (i = PEERS - 1; i >= left; i--) {
			reopen(i);
			send_from(i % left);
			expect_within(i % left, 2);
		}
		/*
		 * A message that was sent before its peer set any mark is still received after the
		 * hub has begun to rely on the peer's marks.
		 */
		send_from(2);
		exchange_marks();
		expect(2);
		for (i = 0; i < PEERS; i++) {
			send_from(i);
			expect(i);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anyone),	cmocka_unit_test(answer),
		cmocka_unit_test(sleeping),	cmocka_unit_test(noisy),
		cmocka_unit_test(everybody),	cmocka_unit_test(one_is_full),
		cmocka_unit_test(half_go),	cmocka_unit_test(one_dies),
		cmocka_unit_test(few_and_many),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
