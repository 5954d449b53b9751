/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Wrapping message numbers. A slot's head holds 16 bits of its message's number. A slot may be
 * passed over for long while a conversation uses only the first few (ring_fast.h). When such a slot
 * is filled again, or for the first time, its old head must not be taken for the next message.
 */

#include <string.h>

#include "ring_test.h"

#define LAP 65536 /* messages until the 16 bits of the number wrap */

static struct ring_pair p;

/* Send value from x to y. Before that, y polls and must find no message. */
static void
exchange_one(struct leat_ep *x, uint16_t peer, struct leat_ep *y, uint64_t value)
{
	struct leat_op tx, rx, *op;
	uint64_t in = 0;

	tx = ring_test_send(peer, &value, sizeof(value));
	rx = ring_test_recv(&in, sizeof(in));
	ring_test_post(y, &rx);
	if (leat_ep_poll(y, &op, 1) != 0)
		fail_msg("a message came before number %lu was sent", (unsigned long)value);
	ring_test_post(x, &tx);
	assert_ptr_equal(ring_test_wait(y), &rx);
	assert_int_equal(rx.status, 0);
	assert_int_equal(rx.len, sizeof(value));
	if (in != value)
		fail_msg("message %lu is %lu", (unsigned long)value, (unsigned long)in);
	assert_ptr_equal(ring_test_wait(x), &tx);
	assert_int_equal(tx.status, 0);
}

/*
 * Send n messages from a to b. answers: b answers each of them, as in a conversation; without
 * answers it is a stream.
 * @return number of messages sent so far
 */
static uint64_t
talk(uint64_t sent, uint64_t n, bool answers)
{
	for (; n > 0; n--, sent++) {
		exchange_one(p.a, p.pa, p.b, sent);
		if (answers)
			exchange_one(p.b, p.pb, p.a, sent);
	}
	return sent;
}

static int
setup(void **state)
{
	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ring_pair_close(&p);
	return 0;
}

/*
 * A conversation, then a stream across the wrap of the number, which fills some slots for the first
 * time.
 */
static void
test_first_time(void **state)
{
	unsigned int before, i;

	(void)state;
	for (before = 0; before < 240; before += 3) {
		uint64_t sent = 0;

		if (before > 0) {
			ring_pair_close(&p);
			ring_pair_open(&p, PLAIN, NULL);
		}
		sent = talk(sent, before, true);
		for (i = 0; i < 300; i++)
			sent = talk(sent, 1, false);
	}
}

/* As test_first_time(), but at the next wrap: the conversation has LAP - 40 messages. */
static void
test_first_time_from_0(void **state)
{
	uint64_t sent = talk(0, LAP - 40, true);

	(void)state;
	(void)talk(sent, 300, false);
}

/*
 * In turn, a stream fills the later slots, and a conversation passes them over while the number
 * wraps.
 */
static void
test_laps_later(void **state)
{
	uint64_t sent = 0;
	unsigned int i;

	(void)state;
	sent = talk(sent, 160, true);
	sent = talk(sent, 70, false);
	for (i = 0; i < 3; i++) {
		sent = talk(sent, LAP - 70, true);
		sent = talk(sent, 70, false);
	}
	assert_int_equal(sent, 230 + 3 * LAP);
}

/* Ops that complete by an ack: each waits for the ack of its own message. */
static void
test_acks(void **state)
{
	static char big[2][4096];
	struct leat_op tx, rx;
	unsigned int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		memset(big[0], (int)i, sizeof(big[0]));
		tx = ring_test_send(p.pa, big[0], sizeof(big[0]));
		rx = ring_test_recv(big[1], sizeof(big[1]));
		ring_test_post(p.a, &tx);
		/* No op is acknowledged before its message is received. */
		assert_int_equal(leat_ep_poll(p.a, NULL, 0), 0);
		ring_test_post(p.b, &rx);
		assert_ptr_equal(ring_test_wait2(p.b, p.a), &rx);
		assert_ptr_equal(ring_test_wait2(p.a, p.b), &tx);
		assert_int_equal(tx.status, 0);
		assert_int_equal(rx.status, 0);
		assert_memory_equal(big[0], big[1], sizeof(big[0]));
	}
}

/* The smallest ring, of 16 slots, loses nothing when 1 to 16 messages fill it before each poll. */
static void
test_shallow(void **state)
{
	struct leat_op tx[16], rx[16], *op;
	uint64_t out[16], in[16];
	unsigned int i, round;

	(void)state;
	ring_pair_close(&p);
	ring_pair_open(&p, SHALLOW, NULL);
	for (round = 0; round < 5000; round++) {
		const unsigned int n = 1 + round % 16;

		for (i = 0; i < n; i++) {
			rx[i] = ring_test_recv(&in[i], 8);
			ring_test_post(p.b, &rx[i]);
		}
		for (i = 0; i < n; i++) {
			out[i] = round * 100 + i;
			tx[i] = ring_test_send(p.pa, &out[i], 8);
			ring_test_post(p.a, &tx[i]);
		}
		for (i = 0; i < n; i++) {
			assert_ptr_equal(ring_test_wait(p.b), &rx[i]);
			assert_int_equal(in[i], out[i]);
			assert_ptr_equal(ring_test_wait(p.a), &tx[i]);
		}
		assert_int_equal(leat_ep_poll(p.b, &op, 1), 0);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_first_time), CASE(test_first_time_from_0), CASE(test_laps_later),
		CASE(test_acks),       CASE(test_shallow),
	};

	return cmocka_run_group_tests_name("ring_wrap", tests, ring_test_start, ring_test_stop);
}
