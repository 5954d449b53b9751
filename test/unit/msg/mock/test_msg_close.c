/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Leat mode: a connection is closed right after its first messages. The other side may not know yet
 * that the connection is up, so this side sends a ping, and disconnects only after the answer.
 */

#include <errno.h>
#include <string.h>

#include <leat_time.h>

#include "msg_mock.h"

#define TIMEOUT_US 5000

static volatile uint64_t clock_now;

enum { PING = 2, PONG = 3 };

/* Fill in a control message that gives credit for two messages, from first_id on. */
static void
control(uint8_t ctrl[16], uint8_t kind, uint32_t first_id)
{
	const uint32_t credit = rte_cpu_to_le_32(first_id + 2);
	const uint32_t granted = rte_cpu_to_le_32(first_id);

	memset(ctrl, 0, 16);
	memcpy(ctrl, &credit, sizeof(credit));
	memcpy(ctrl + 4, &granted, sizeof(granted));
	ctrl[8] = kind;
}

/* Open a connection, and send a message, which the device completes. */
static struct leat_msg_conn *
one_sent(struct mm *mm, struct leat_msg_req *req, uint32_t first_id)
{
	struct leat_msg_conn *c;

	mm_open_with(mm, 2, 1);
	c = mm_open_leat(mm, first_id);
	mm_send(c, req, "bye", 3);
	mm_sent(mm, 0, MM_TAG(1, MM_THERE, first_id), mm_in,
		mm_head(3, first_id + 2, first_id, "bye"));
	mm_drive(mm);
	return c;
}

/* Close, and check that a ping is sent, and the peer stays connected while no answer comes. */
static void
close_asks(struct mm *mm, struct leat_msg_conn *c, uint32_t first_id)
{
	uint8_t ping[16];

	control(ping, PING, first_id);
	assert_int_equal(leat_msg_close(c, TIMEOUT_US), 0);
	mm_drive(mm);
	mm_sent(mm, 0, MM_TAG(3, MM_THERE, first_id), ping, sizeof(ping));
	mm_drive(mm);
	mm_drive(mm);
	assert_int_equal(leat_ep_peer_state(mm->ep, 0), LEAT_PEER_UP);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
}

static void
closed(struct mm *mm, int status)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(mm->ev.status, status);
	mm->nb_ev[LEAT_MSG_CLOSED] = 0;
	mm_close(mm, NULL, 0);
}

/* The peer answers, and the connection closes cleanly, also where ids wrap. */
static void
test_answered(void **state)
{
	static const uint32_t first[] = { 0, 7, UINT32_MAX };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(first); i++) {
		struct leat_msg_req req;
		uint8_t pong[16];
		struct mm mm;
		struct leat_msg_conn *c = one_sent(&mm, &req, first[i]);

		close_asks(&mm, c, first[i]);
		control(pong, PONG, first[i]);
		mm_arrive(&mm, 0, MM_TAG(3, mm_base(0), first[i]), pong, sizeof(pong));
		mm_drive(&mm);
		closed(&mm, 0);
	}
}

/* If no answer to the ping comes, the close waits for its time limit: -ETIMEDOUT. */
static void
test_silent(void **state)
{
	struct leat_msg_req req;
	struct mm mm;
	struct leat_msg_conn *c = one_sent(&mm, &req, 0);

	(void)state;
	clock_now = 1000000;
	leat_clock_mock_set(&clock_now);
	close_asks(&mm, c, 0);
	clock_now += leat_us_to_cycles(TIMEOUT_US + 1);
	mm_drive(&mm);
	closed(&mm, -ETIMEDOUT);
	leat_clock_mock_set(NULL);
}

/* No ping goes to a peer from which a message has come, nor to one to which nothing was sent. */
static void
test_not_asked(void **state)
{
	struct leat_msg_req req, rx;
	struct leat_msg_conn *c;
	struct leat_op *credit;
	struct mm mm;
	char buf[8];

	(void)state;
	c = one_sent(&mm, &req, 0);
	mm_recv(c, &rx, buf, sizeof(buf));
	mm_arrive(&mm, 0, MM_TAG(1, mm_base(0), 0), mm_in, mm_head(2, 2, 0, "hi"));
	mm_drive(&mm);
	assert_int_equal(rx.status, 0);
	/*
	 * The context returns the credit of the received message at once; the device completes that
	 * send.
	 */
	credit = mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, 0));
	assert_non_null(credit);
	mm_finish(&mm, credit, 0, 0);
	assert_int_equal(leat_msg_close(c, TIMEOUT_US), 0);
	mm_drive(&mm);
	closed(&mm, 0);

	mm_open_with(&mm, 2, 1);
	c = mm_open_leat(&mm, 0);
	assert_int_equal(leat_msg_close(c, TIMEOUT_US), 0);
	mm_drive(&mm);
	closed(&mm, 0);
}

/*
 * If the device can't accept, the reason of a rejection can't be sent. The request is rejected
 * without the reason, and the peer id is free again.
 */
static void
test_reject_without_reason(void **state)
{
	struct leat_event ev;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	assert_non_null(leat_peer_request(mm.ep, "there:2", mm_hello, sizeof(mm_hello)));
	assert_int_equal(leat_ep_events(mm.ep, &ev, 1), 1);
	mock.accept_ret = -ENOMEM;
	assert_int_equal(leat_msg_reject(mm.m, &ev, "no room"), 0);
	assert_int_equal(mock.nb_accept, 1);
	assert_int_equal(mock.nb_reject, 1);
	assert_int_equal(leat_ep_peer_state(mm.ep, ev.peer), LEAT_PEER_FREE);
	mm_close(&mm, NULL, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_not_asked),
		cmocka_unit_test(test_reject_without_reason),
	};

	return cmocka_run_group_tests_name("msg_close", tests, mm_start, mm_stop);
}
