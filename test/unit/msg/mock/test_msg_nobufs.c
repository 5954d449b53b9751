/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A connection ends while a message that has arrived waits for a buffer, and the pool is empty: its
 * sends come back at once, and its receives within LEAT_MSG_NOBUFS_US, whether a buffer comes or
 * not. The test controls the pool and the clock.
 */

#include <errno.h>
#include <string.h>

#include <rte_mempool.h>

#include "msg_mock.h"

#define NB_BUFS 3
#define US 1000 /* cycles of the mock clock */
#define WAIT ((uint64_t)LEAT_MSG_NOBUFS_US * US)

static struct mm mm;
static struct leat_msg_conn *c;
static struct rte_mempool *pool;
static void *taken[NB_BUFS];
static unsigned int nb_taken;
static struct leat_msg_req rx[4], tx[3];
static char big[2000];
static uint64_t clock_now;

static void
take_all(void)
{
	while (rte_mempool_get(pool, &taken[nb_taken]) == 0)
		nb_taken++;
}

static void
give_back(void)
{
	rte_mempool_put(pool, taken[--nb_taken]);
}

/*
 * Open a connection on which two messages have arrived and wait for a buffer, while three receives
 * and three sends are posted.
 */
static int
setup(void **state)
{
	const uint8_t *hello = mm_hello;
	struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	unsigned int i;
	uint64_t base, n;

	(void)state;
	pool = rte_mempool_create("nobufs", NB_BUFS, 64, 0, 0, NULL, NULL, NULL, NULL,
				  SOCKET_ID_ANY, 0);
	assert_non_null(pool);
	nb_taken = 0;
	take_all();
	clock_now = 1000000 * US;
	leat_clock_mock_set(&clock_now);
	mm_open(&mm);
	conf.mempool = pool;
	c = mm_connect(&mm, &conf, hello, MM_HELLO_LEN);
	base = mm_base(0);
	for (i = 0; i < 3; i++)
		mm_recv(c, &rx[i], NULL, 64);
	n = mm_head(3, 2, 0, "one");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	n = mm_head(3, 2, 0, "two");
	mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
	/*
	 * One send waits for its grant, one that was copied waits after it, and one waits for
	 * credit.
	 */
	mm_send(c, &tx[0], big, sizeof(big));
	mm_send(c, &tx[1], "small", 5);
	mm_send(c, &tx[2], "later", 5);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	return 0;
}

static int
teardown(void **state)
{
	const unsigned int open = mm.nb_ev[LEAT_MSG_CLOSED] > 0 ? 0 : 1;

	(void)state;
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
	mm_close(&mm, &c, open);
	while (nb_taken > 0)
		give_back();
	leat_clock_mock_set(NULL);
	rte_mempool_free(pool);
	return 0;
}

/* Check that the three sends of setup() came back, in order, from mm.back[from] on. */
static void
sends_back(unsigned int from, int status)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		assert_ptr_equal(mm.back[from + i], &tx[i]);
		assert_int_equal(tx[i].status, status);
	}
}

/* If no buffer ever comes, the sends don't wait, and the receives wait for a limited time. */
static void
never(int status, int req_status)
{
	struct leat_msg_stats stats;

	mm_peer_ends(&mm, 0, status);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	sends_back(0, req_status);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, status);
	clock_now += WAIT - 1;
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	clock_now += 1;
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	assert_ptr_equal(mm.back[3], &rx[0]);
	assert_ptr_equal(mm.back[4], &rx[1]);
	assert_ptr_equal(mm.back[5], &rx[2]);
	assert_int_equal(rx[0].status, -ENOBUFS);
	assert_null(rx[0].buf);
	assert_int_equal(rx[1].status, req_status);
	assert_int_equal(rx[2].status, req_status);
	/* Both messages were dropped: rx[3] gets neither, though there is a buffer now. */
	give_back();
	mm_recv(c, &rx[3], NULL, 64);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 7);
	assert_int_equal(rx[3].status, req_status);
	leat_msg_stats_get(mm.m, &stats);
	assert_int_equal(stats.held, 0);
	assert_int_equal(stats.received, 0);
}

static void
test_never_dead(void **state)
{
	(void)state;
	never(-ECONNRESET, -ECONNRESET);
}

static void
test_never_closed_there(void **state)
{
	(void)state;
	never(0, -ENOTCONN);
}

/*
 * When a message gets a buffer, the time limit begins again for the next message, since only the
 * time without a buffer is limited.
 */
static void
test_in_time(void **state)
{
	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	clock_now += WAIT - 1;
	give_back();
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	assert_ptr_equal(mm.back[3], &rx[0]);
	assert_int_equal(rx[0].status, 0);
	assert_memory_equal(rx[0].buf, "one", 3);
	clock_now += WAIT - 1;
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	rte_mempool_put(pool, rx[0].buf);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	assert_memory_equal(rx[1].buf, "two", 3);
	rte_mempool_put(pool, rx[1].buf);
	assert_int_equal(rx[2].status, -ECONNRESET);
}

/*
 * The context is not driven until long after the time limit. If a buffer is free then, the message
 * is delivered.
 */
static void
test_late_but_there(void **state)
{
	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	clock_now += 100 * WAIT;
	give_back();
	mm_drive(&mm);
	assert_int_equal(rx[0].status, 0);
	rte_mempool_put(pool, rx[0].buf);
	mm_drive(&mm);
	assert_int_equal(rx[1].status, 0);
	assert_int_equal(mm.nb_back, 6);
	rte_mempool_put(pool, rx[1].buf);
}

/* A receive that is posted long after the end waits for its full time, from its posting on. */
static void
test_posted_later(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(leat_msg_cancel(&rx[i]), 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	mm_peer_ends(&mm, 0, 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	sends_back(3, -ENOTCONN);
	clock_now += 100 * WAIT;
	mm_recv(c, &rx[0], NULL, 64);
	mm_drive(&mm);
	clock_now += WAIT - 1;
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	give_back();
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 7);
	assert_int_equal(rx[0].status, 0);
	rte_mempool_put(pool, rx[0].buf);
}

/*
 * Check that after a close all requests come back within `turns` turns, since none of them waits
 * for a buffer.
 */
static void
closed(unsigned int turns)
{
	while (turns-- > 0)
		mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 1);
}

static void
test_close_after_end(void **state)
{
	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	closed(2);
	sends_back(0, -ECONNRESET);
}

static void
test_close(void **state)
{
	(void)state;
	assert_int_equal(leat_msg_close(c, 0), 0);
	closed(3);
	assert_int_equal(tx[0].status, -ETIMEDOUT);
	assert_int_equal(rx[0].status, -ETIMEDOUT);
}

static void
test_close_with_time(void **state)
{
	(void)state;
	assert_int_equal(leat_msg_close(c, 1000), 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	clock_now += 1000 * US;
	closed(3);
	assert_int_equal(tx[0].status, -ETIMEDOUT);
}

/* A close with the longest possible time to drain waits until the peer ends. */
static void
test_close_without_limit(void **state)
{
	(void)state;
	assert_int_equal(leat_msg_close(c, UINT64_MAX), 0);
	mm_drive(&mm);
	clock_now += 100 * WAIT;
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 0);
	mm_peer_ends(&mm, 0, -ECONNRESET);
	closed(3);
	sends_back(0, -ECONNRESET);
}

/*
 * The peer dies while this side closes the connection and the endpoint is shut down: the requests
 * come back with -ESHUTDOWN.
 */
static void
test_ends_meet(void **state)
{
	struct leat_event ev = { .type = LEAT_EV_SHUTDOWN };

	(void)state;
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	mm_peer_ends(&mm, 0, -ECONNRESET);
	assert_false(leat_msg_handle_event(mm.m, &ev));
	closed(3);
	sends_back(0, -ESHUTDOWN);
}

static void
test_end_twice(void **state)
{
	struct leat_event ev = { .type = LEAT_EV_SHUTDOWN };

	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_false(leat_msg_handle_event(mm.m, &ev));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	clock_now += WAIT;
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
}

/*
 * Receives that wait for a buffer after the connection's end can be cancelled. Then the message
 * goes to the next receive.
 */
static void
test_cancel_after_end(void **state)
{
	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	assert_int_equal(leat_msg_cancel(&rx[0]), 0);
	assert_int_equal(leat_msg_cancel(&rx[1]), 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 5);
	assert_int_equal(rx[0].status, -ECANCELED);
	give_back();
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	assert_int_equal(rx[2].status, 0);
	assert_memory_equal(rx[2].buf, "one", 3);
	rte_mempool_put(pool, rx[2].buf);
}

/* Sends that are posted after the end don't wait, either. */
static void
test_send_after_end(void **state)
{
	struct leat_msg_req more;

	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	mm_send(c, &more, "more", 4);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	assert_int_equal(more.status, -ECONNRESET);
}

/* LEAT_MSG_ENDED is reported only after the application has taken all sends that came back. */
static void
test_event_after_sends(void **state)
{
	struct leat_msg_req *back[4];
	struct leat_msg_event mev;
	struct leat_op *ops[64];
	struct leat_event ev;
	uint16_t n, i;

	(void)state;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	n = leat_ep_poll(mm.ep, ops, RTE_DIM(ops));
	assert_int_equal(leat_msg_process(mm.m, ops, n), 0);
	while (leat_ep_events(mm.ep, &ev, 1) == 1)
		(void)leat_msg_handle_event(mm.m, &ev);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_msg_poll(mm.m, back, 1), 1);
		assert_ptr_equal(back[0], &tx[i]);
		assert_int_equal(leat_msg_events(mm.m, &mev, 1), i == 2);
	}
	assert_int_equal(mev.type, LEAT_MSG_ENDED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_never_dead),
		CASE(test_never_closed_there),
		CASE(test_in_time),
		CASE(test_late_but_there),
		CASE(test_posted_later),
		CASE(test_close_after_end),
		CASE(test_close),
		CASE(test_close_with_time),
		CASE(test_close_without_limit),
		CASE(test_ends_meet),
		CASE(test_end_twice),
		CASE(test_cancel_after_end),
		CASE(test_send_after_end),
		CASE(test_event_after_sends),
	};

	return cmocka_run_group_tests_name("msg_nobufs", tests, mm_start, mm_stop);
}
