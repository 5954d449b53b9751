/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One endpoint with 1,000 peers: how many polls until one of them is seen, and that none shuts out
 * another.
 */

#include "ring_test.h"

#include <stdlib.h>

#include <leat_error.h>

#define PEERS 1000
#define HOT 16
#define WINDOW 16
/* Polls until each link was looked at once; see ring_poll.h. */
#define BOUND (PEERS / WINDOW + 2)

static struct leat_ep *hub, *spoke[PEERS];
static uint16_t at_hub[PEERS],
	at_spoke[PEERS]; /* ids: of spoke i at the hub, of the hub at spoke i */
static struct leat_op recv[64], tx[PEERS];
static uint64_t in[64], out[PEERS];

static void
post_recv(struct leat_op *r, uint64_t *buf)
{
	*r = ring_test_recv(buf, 8);
	ring_test_post(hub, r);
}

static void
tell(int i)
{
	struct leat_op *done;

	out[i] = (uint64_t)i;
	tx[i] = ring_test_send(at_spoke[i], &out[i], 8);
	ring_test_post(spoke[i], &tx[i]);
	assert_int_equal(leat_ep_poll(spoke[i], &done, 1), 1);
}

static int
open_all(void **state)
{
	struct leat_ep_conf conf = { .max_peers = PEERS, .ops = LEAT_OP_MASK_ALL };
	struct leat_ep_conf small = { .max_peers = 1, .ops = LEAT_OP_MASK_ALL };
	int i;

	if (ring_test_start(state) < 0)
		return -1;
	hub = ring_test_ep(SHALLOW, &conf);
	assert_int_equal(leat_ep_listen(hub, "hub:1"), 0);
	for (i = 0; i < PEERS; i++) {
		spoke[i] = ring_test_ep(SHALLOW, &small);
		ring_test_connect(spoke[i], hub, "hub:1", &at_spoke[i], &at_hub[i]);
	}
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

/* A cold peer's message is seen within the bound, whoever it is. */
static void
cold(void **state)
{
	struct leat_op *op = NULL;
	int i, k, n, worst = 0;

	(void)state;
	for (n = 0; n < 150; n++) {
		i = n * 379 % PEERS;
		tell(i);
		for (k = 1; leat_ep_poll(hub, &op, 1) == 0; k++)
			assert_true(k <= BOUND);
		if (k > worst)
			worst = k;
		assert_int_equal(op->src, at_hub[i]);
		assert_int_equal(*(uint64_t *)op->buf, i);
		post_recv(op, op->buf);
	}
	/* it is no accident: most are not in the first window */
	assert_true(worst > BOUND / 4);
}

/* Who just spoke, or was spoken to, is seen at once. */
static void
hot(void **state)
{
	static uint64_t word;
	struct leat_op *op = NULL, r, s;
	int i, k;

	(void)state;
	for (i = 0; i < HOT; i++) {
		tell(i * 50);
		for (k = 0; leat_ep_poll(hub, &op, 1) == 0; k++)
			assert_true(k <= BOUND);
		post_recv(op, op->buf);
	}
	for (i = HOT - 4; i < HOT; i++) {
		tell(i * 50);
		assert_int_equal(leat_ep_poll(hub, &op, 1), 1);
		assert_int_equal(op->src, at_hub[i * 50]);
		post_recv(op, op->buf);
	}
	for (i = 3; i < PEERS; i += 111) {
		r = ring_test_recv(&word, 8);
		ring_test_post(spoke[i], &r);
		s = ring_test_send(at_hub[i], &word, 8);
		ring_test_post(hub, &s);
		assert_ptr_equal(ring_test_wait(hub), &s);
		assert_ptr_equal(ring_test_wait(spoke[i]), &r);
		tell(i);
		assert_int_equal(leat_ep_poll(hub, &op, 1), 1);
		assert_int_equal(op->src, at_hub[i]);
		post_recv(op, op->buf);
	}
}

/* Peers that never stop, more than one poll takes, do not keep a cold one from being seen. */
static void
noisy(void **state)
{
	struct leat_op *ops[4];
	bool seen = false;
	int i, k;

	(void)state;
	tell(PEERS - 1);
	for (k = 0; !seen; k++) {
		uint16_t n;

		assert_true(k <= 8 * BOUND);
		for (i = 0; i < 3 * HOT; i++) {
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
	/* what is left */
	for (k = 0; k < 20 * BOUND; k++) {
		uint16_t n = leat_ep_poll(hub, ops, 4);

		for (i = 0; i < n; i++)
			post_recv(ops[i], ops[i]->buf);
	}
}

/* All speak at once; each message comes, once. */
static void
everybody(void **state)
{
	static uint8_t got[PEERS];
	struct leat_op *ops[32];
	int i, k, n, sum = 0;

	(void)state;
	for (i = 0; i < PEERS; i++)
		tell(i);
	for (k = 0; sum < PEERS; k++) {
		assert_true(k <= 2 * BOUND);
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

/* A peer with unexpected messages up to its limit disturbs no other. */
static void
one_is_full(void **state)
{
	struct leat_op s, *op, *p = &s;
	uint64_t word = 1;
	int i, k;

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
		tell(i);
		for (k = 0; leat_ep_poll(hub, &op, 1) == 0; k++)
			assert_true(k <= BOUND);
		assert_int_equal(op->src, at_hub[i]);
		post_recv(op, op->buf);
	}
	/* they are all still there, and in order with those of others */
	for (i = 0; i < 16; i++) {
		struct leat_op r = ring_test_recv(&word, 8);

		r.type = LEAT_OP_TRECV;
		r.queue = LEAT_QUEUE_NONE;
		ring_test_post(hub, &r);
		assert_ptr_equal(ring_test_wait(hub), &r);
		assert_int_equal(r.src, at_hub[5]);
	}
}

/* Half of them go; the others are heard as before. */
static void
half_go(void **state)
{
	struct leat_event ev;
	struct leat_op *op;
	int i, k;

	(void)state;
	for (i = 0; i < PEERS; i += 2)
		assert_int_equal(leat_ep_disconnect(spoke[i], at_spoke[i]), 0);
	for (i = 0; i < PEERS / 2; i++) {
		ring_test_event(hub, NULL, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(ev.status, 0);
	}
	for (i = 1; i < PEERS; i += 14) {
		tell(i);
		for (k = 0; leat_ep_poll(hub, &op, 1) == 0; k++)
			assert_true(k <= BOUND);
		assert_int_equal(op->src, at_hub[i]);
		post_recv(op, op->buf);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cold),	       cmocka_unit_test(hot),
		cmocka_unit_test(noisy),       cmocka_unit_test(everybody),
		cmocka_unit_test(one_is_full), cmocka_unit_test(half_go),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
