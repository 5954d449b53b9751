/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Ids and cursors (msg_pvt.h) far from their first values. Ids have 32 bits and wrap after minutes
 * at full rate. If one of two cursors stands still while the other goes on for ever, their distance
 * passes 2^31, where it turns negative, and 2^32.
 *
 *     with the argument "long": 2^31 messages are really sent, which takes minutes
 */

#include <string.h>

#include "msg_pair.h"
#include "msg_pvt.h"

#define LARGE 5000 /* too large for an eager send: in leat mode it needs a grant */
#define HALF (UINT32_C(1) << 31)

static uint8_t out[LARGE], in[LARGE];
static bool sends_all; /* set by the argument "long" */

/*
 * Move the state of one direction as if n messages, small or empty, had gone that way. None may be
 * in flight.
 */
static void
pass(struct leat_msg_conn *from, struct leat_msg_conn *to, uint32_t n)
{
	const uint64_t ids = to->mode == LEAT_MSG_LEAT ? 0xffff : 0xffffffff; /* id bits of a tag */
	uint32_t i;

	/* n is a multiple of the number of slots, so posted receives stay in their slots. */
	assert_int_equal(n & to->mask, 0);
	assert_int_equal(from->tx_done, from->tx_next);
	assert_int_equal(to->rx_done, to->rx_bind);
	assert_int_equal(to->rx_arrived, 0);
	from->tx_next += n;
	from->tx_post += n;
	from->tx_done += n;
	from->tx_credit += n;
	from->tx_granted += n;
	to->rx_post += n;
	to->rx_bind += n;
	to->rx_data += n;
	to->rx_done += n;
	to->rx_told += n;
	for (i = 0; i <= to->mask; i++) {
		struct msg_slot *s = &to->rx[i];

		s->id += n;
		s->op.tag = (s->op.tag & ~ids) | ((s->op.tag + n) & ids);
		s->data.tag = (s->data.tag & ~ids) | ((s->data.tag + n) & ids);
	}
}

/* Send one message from x to y, and wait until it is received. */
static void
exchange_one(struct end *x, struct leat_msg_conn *cx, struct end *y, struct leat_msg_conn *cy,
	     uint64_t size)
{
	struct leat_msg_req tx, rx;
	uint64_t i;

	for (i = 0; i < size; i++)
		out[i] = (uint8_t)(i * 7 + size);
	memset(in, 0, sizeof(in));
	x->nb_back = y->nb_back = 0;
	recv1(cy, &rx, in, sizeof(in));
	send1(cx, &tx, out, size);
	drive_until(x->nb_back == 1 && y->nb_back == 1);
	assert_int_equal(tx.status, 0);
	assert_int_equal(rx.status, 0);
	assert_int_equal(rx.len, size);
	assert_memory_equal(in, out, size);
}

/* Drive until neither side has a control message left to send. */
static void
drive_controls(struct leat_msg_conn *ca, struct leat_msg_conn *cb)
{
	int i;

	drive_until(ca->tx_out == 0 && cb->tx_out == 0);
	for (i = 0; i < 4; i++) {
		end_drive(&a);
		end_drive(&b);
	}
	drive_until(ca->tx_out == 0 && cb->tx_out == 0);
}

/*
 * Exchange a large message in each direction, skip `laps` small messages in each direction (see
 * pass()), exchange k small messages, and then large ones again.
 */
static void
far_apart(enum leat_msg_mode mode, uint32_t first_id, uint32_t laps, unsigned int k)
{
	const struct leat_msg_conn_conf conf = { .mode = mode, .first_id = first_id };
	struct leat_msg_conn *c = connected(&conf), *d = b.accepted;
	unsigned int i;

	assert_int_equal(leat_msg_conn_mode(c), mode);
	exchange_one(&a, c, &b, d, LARGE);
	exchange_one(&b, d, &a, c, LARGE);
	drive_controls(c, d);
	pass(c, d, laps);
	pass(d, c, laps);
	for (i = 0; i < k; i++) {
		exchange_one(&a, c, &b, d, i % 17);
		exchange_one(&b, d, &a, c, 8);
	}
	for (i = 0; i < 3; i++) {
		exchange_one(&a, c, &b, d, LARGE);
		exchange_one(&b, d, &a, c, LARGE);
		exchange_one(&a, c, &b, d, 3);
	}
	close_both(c);
}

/*
 * laps: numbers of skipped messages around 2^31 and 2^32; with 64 slots, each must be a multiple of
 * 64. more: numbers of small messages that are exchanged next, around 64.
 */
static const uint32_t laps[] = { 0, HALF - 64, HALF, HALF + 64, HALF + (1u << 20), (uint32_t)-64 };
static const unsigned int more[] = { 0, 1, 62, 63, 64, 65 };

static void
all_distances(enum leat_msg_mode mode, uint32_t first_id)
{
	unsigned int i, k;

	for (i = 0; i < RTE_DIM(laps); i++) {
		for (k = 0; k < RTE_DIM(more); k++)
			far_apart(mode, first_id, laps[i], more[k]);
	}
}

static void
test_large_after_small_leat(void **state)
{
	(void)state;
	all_distances(LEAT_MSG_LEAT, 0);
	all_distances(LEAT_MSG_LEAT, HALF - 10);
	all_distances(LEAT_MSG_LEAT, (uint32_t)-10);
}

static void
test_large_after_small_plain(void **state)
{
	(void)state;
	all_distances(LEAT_MSG_PLAIN, 0);
	all_distances(LEAT_MSG_PLAIN, HALF - 10);
	all_distances(LEAT_MSG_PLAIN, (uint32_t)-10);
}

/* The first large message of a connection comes after laps[i] small ones, all from one side. */
static void
test_first_large_is_late(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *c, *d;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(laps); i++) {
		c = connected(&conf);
		d = b.accepted;
		pass(d, c, laps[i]);
		exchange_one(&b, d, &a, c, LARGE);
		exchange_one(&b, d, &a, c, 1);
		exchange_one(&a, c, &b, d, LARGE);
		close_both(c);
	}
}

/* Send a message whose send completes when the other side has received it, and not before. */
static void
delivered(struct leat_msg_conn *c)
{
	struct leat_msg_req tx = { .buf = out, .size = 5, .flags = LEAT_MSG_F_DELIVERED };
	struct leat_msg_req rx, *req = &tx;
	int i;

	a.nb_back = b.nb_back = 0;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	for (i = 0; i < 100; i++) {
		end_drive(&a);
		end_drive(&b);
	}
	assert_int_equal(a.nb_back, 0);
	recv1(b.accepted, &rx, in, sizeof(in));
	drive_until(a.nb_back == 1 && b.nb_back == 1);
	assert_int_equal(tx.status, 0);
	assert_int_equal(rx.status, 0);
	drive_controls(c, b.accepted);
}

/*
 * Skip messages that ask for no answer: laps[i] before the first that asks for one, and laps[k]
 * between two that ask for one.
 */
static void
test_answer_is_late(void **state)
{
	unsigned int i, k;

	(void)state;
	for (i = 0; i < RTE_DIM(laps); i++) {
		for (k = 0; k < RTE_DIM(laps); k++) {
			const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT,
								 .first_id = laps[k] };
			struct leat_msg_conn *c = connected(&conf);

			pass(c, b.accepted, laps[i]);
			delivered(c);
			delivered(c);
			pass(c, b.accepted, laps[k]);
			delivered(c);
			delivered(c);
			close_both(c);
		}
	}
}

/* Large messages wait for their grant while small ones after them complete, across each wrap. */
static void
mixed(enum leat_msg_mode mode, uint32_t first_id)
{
	const struct leat_msg_conn_conf conf = { .mode = mode, .first_id = first_id };
	struct leat_msg_conn *c = connected(&conf);
	static struct leat_msg_req tx[96], rx[96];
	static uint8_t from[96][200], to[96][200];
	struct leat_msg_req *reqs[96];
	unsigned int i, round;

	for (round = 0; round < 4; round++) {
		a.nb_back = b.nb_back = 0;
		for (i = 0; i < 96; i++) {
			memset(from[i], (int)(round * 96 + i), 200);
			tx[i] = (struct leat_msg_req){ .buf = from[i],
						       .size = i % 7 == 0   ? LARGE
							       : i % 5 == 0 ? 200
									    : i % 3 };
			if (tx[i].size == LARGE)
				tx[i].buf = out;
			reqs[i] = &tx[i];
		}
		assert_int_equal(leat_msg_send(c, reqs, 96), 96);
		for (i = 0; i < 96; i++)
			recv1(b.accepted, &rx[i], tx[i].size == LARGE ? in : to[i], tx[i].size);
		drive_until(a.nb_back == 96 && b.nb_back == 96);
		for (i = 0; i < 96; i++) {
			assert_ptr_equal(a.back[i], &tx[i]);
			assert_ptr_equal(b.back[i], &rx[i]);
			assert_int_equal(rx[i].status, 0);
			assert_int_equal(rx[i].len, tx[i].size);
			assert_memory_equal(rx[i].buf, tx[i].buf, tx[i].size);
		}
	}
	close_both(c);
}

static void
test_mixed_leat(void **state)
{
	uint32_t k;

	(void)state;
	for (k = 0; k < 200; k += 23) {
		mixed(LEAT_MSG_LEAT, HALF - k);
		mixed(LEAT_MSG_LEAT, (uint32_t)0 - k);
	}
}

static void
test_mixed_plain(void **state)
{
	uint32_t k;

	(void)state;
	for (k = 0; k < 200; k += 23) {
		mixed(LEAT_MSG_PLAIN, HALF - k);
		mixed(LEAT_MSG_PLAIN, (uint32_t)0 - k);
	}
}

/* Really send the messages that the tests above skip. */
static void
test_all_are_sent(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_req tx, rx, *req;
	struct leat_msg_conn *c;
	uint64_t i, word = 0;

	(void)state;
	if (!sends_all)
		skip();
	c = connected(&conf);
	for (i = 0; i < (uint64_t)HALF + 10; i++) {
		recv1(b.accepted, &rx, &word, 8);
		send1(c, &tx, &i, 8);
		do {
			end_poll(&a, 8);
			end_poll(&b, 8);
		} while (a.nb_back + b.nb_back < 2);
		req = b.back[0];
		assert_ptr_equal(req, &rx);
		if (word != i)
			fail_msg("message %lu is %lu", (unsigned long)i, (unsigned long)word);
		a.nb_back = b.nb_back = 0;
	}
	exchange_one(&a, c, &b, b.accepted, LARGE);
	close_both(c);
}

/*
 * Tests that skip messages change ops that the device has. They run on the ring device only, which
 * keeps pointers to the ops, while the fault device posts ops of its own.
 */
#define RING(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
#define BOTH(f)                                                                                    \
	RING(f),                                                                                   \
	{                                                                                          \
#f "_fault", f, pair_setup_fault, pair_teardown, NULL                              \
	}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RING(test_large_after_small_leat),
		RING(test_large_after_small_plain),
		RING(test_first_large_is_late),
		RING(test_answer_is_late),
		BOTH(test_mixed_leat),
		BOTH(test_mixed_plain),
		RING(test_all_are_sent),
	};

	sends_all = argc > 1 && strcmp(argv[1], "long") == 0;
	return cmocka_run_group_tests_name("msg_wrap", tests, pair_start_fault, pair_stop);
}
