/* SPDX-License-Identifier: BSD-3-Clause */

/* Receives that get buffers from alloc, and are posted again; and the counters of a connection. */

#include <stdlib.h>
#include <string.h>

#include "msg_pair.h"

#define BIG 100000u

static uint8_t bytes[BIG];
static unsigned int nb_allocs;
static void *last; /* the buffer that alloc() gave last */

/* Allocate exactly as much as is asked for, so that a sanitizer reports a write beyond it. */
static void *
alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	(void)arg;
	*mr = NULL;
	nb_allocs++;
	last = malloc(len);
	return last;
}

/*
 * Receive small and large messages, each longer than the one before it, into one request: each
 * message gets a new buffer.
 */
static void
again(enum leat_msg_mode mode)
{
	static const uint64_t sizes[] = { 1, 100, 3000, BIG };
	const struct leat_msg_conn_conf conf = { .mode = mode, .alloc = alloc };
	struct leat_msg_conn *c = connected(&conf);
	struct leat_msg_req tx, rx = { .size = BIG }, *req = &rx;
	unsigned int i;

	nb_allocs = 0;
	for (i = 0; i < RTE_DIM(sizes); i++) {
		memset(bytes, (int)i + 1, sizes[i]);
		assert_int_equal(leat_msg_recv(b.accepted, &req, 1), 1);
		send1(c, &tx, bytes, sizes[i]);
		drive_until(a.nb_back == i + 1 && b.nb_back == i + 1);
		assert_int_equal(rx.status, 0);
		assert_int_equal(rx.len, sizes[i]);
		assert_int_equal(rx.size, BIG);
		assert_memory_equal(rx.buf, bytes, sizes[i]);
		assert_int_equal(nb_allocs, i + 1);
		/* rx.buf still has the freed buffer, which the next receive must not use. */
		free(last);
	}
	/* If the test sets rx.buf to its own buffer, the context uses it, and asks for none. */
	rx.buf = bytes;
	assert_int_equal(leat_msg_recv(b.accepted, &req, 1), 1);
	send1(c, &tx, "own", 3);
	drive_until(b.nb_back == i + 1 && a.nb_back == i + 1);
	assert_ptr_equal(rx.buf, bytes);
	assert_memory_equal(bytes, "own", 3);
	assert_int_equal(nb_allocs, i);
	/* Posted again unchanged, the request still uses the test's buffer. */
	assert_int_equal(leat_msg_recv(b.accepted, &req, 1), 1);
	send1(c, &tx, "two", 3);
	drive_until(b.nb_back == i + 2 && a.nb_back == i + 2);
	assert_memory_equal(bytes, "two", 3);
	assert_int_equal(nb_allocs, i);
	close_both(c);
}

static void
test_again_leat(void **state)
{
	(void)state;
	again(LEAT_MSG_LEAT);
}

static void
test_again_plain(void **state)
{
	(void)state;
	again(LEAT_MSG_PLAIN);
}

/*
 * b sends each message back in the request that received it, then frees the buffer. The next
 * receive into that request must get a new buffer.
 */
static void
test_again_echo(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT, .alloc = alloc };
	struct leat_msg_conn *c = connected(&conf);
	struct leat_msg_req tx[2], back[2], rx = { .size = BIG }, *req = &rx;
	unsigned int i;

	(void)state;
	nb_allocs = 0;
	for (i = 0; i < 2; i++) {
		rx.size = BIG;
		assert_int_equal(leat_msg_recv(b.accepted, &req, 1), 1);
		recv1(c, &back[i], bytes, BIG);
		send1(c, &tx[i], bytes, i == 0 ? 1 : BIG);
		drive_until(b.nb_back == 2 * i + 1);
		rx.size = rx.len;
		assert_int_equal(leat_msg_send(b.accepted, &req, 1), 1);
		drive_until(b.nb_back == 2 * i + 2 && a.nb_back == 2 * i + 2);
		free(last);
	}
	assert_int_equal(nb_allocs, 2);
	close_both(c);
}

/* The context's counters keep the counts of a connection that was closed. */
static void
test_counters(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *other = connected(&conf), *other_end = b.accepted;
	struct leat_msg_conn *c = connected(&conf);
	static struct leat_msg_req tx[200], rx[2];
	struct leat_msg_conn_stats s;
	struct leat_msg_stats sum;
	unsigned int i;
	char buf[8];

	(void)state;
	for (i = 0; i < RTE_DIM(tx); i++) {
		send1(c, &tx[i], bytes, 2000);
		end_drive(&a);
		end_drive(&b);
	}
	leat_msg_conn_stats_get(c, &s);
	assert_true(s.sent > 0 && s.sent < RTE_DIM(tx));
	assert_int_equal(s.sent_bytes, s.sent * 2000);
	assert_int_equal(s.eager, s.sent);
	assert_int_equal(s.sends, RTE_DIM(tx) - s.sent);
	assert_int_equal(s.queued, s.sends);
	assert_int_equal(s.credits, 0);
	assert_true(s.stalled > 0);
	leat_msg_conn_stats_get(other, &s);
	assert_int_equal(s.sent + s.received + s.sends + s.recvs + s.held, 0);
	assert_true(s.credits > 0);
	recv1(c, &rx[0], buf, 8);
	recv1(c, &rx[1], buf, 8);
	leat_msg_conn_stats_get(c, &s);
	assert_int_equal(s.recvs, 2);
	leat_msg_stats_get(b.m, &sum);
	assert_true(sum.held > 0);
	assert_int_equal(sum.held, sum.held_max);
	assert_int_equal(leat_msg_close(c, 0), 0);
	assert_int_equal(leat_msg_close(other, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 2 && b.nb_ev[LEAT_MSG_ENDED] == 2);
	leat_msg_stats_get(a.m, &sum);
	assert_true(sum.sent > 0 && sum.sent < RTE_DIM(tx));
	assert_int_equal(sum.conns, 0);
	assert_int_equal(sum.sent_bytes, sum.sent * 2000);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	assert_int_equal(leat_msg_close(other_end, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_again_leat, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_again_plain, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_again_echo, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_counters, pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
