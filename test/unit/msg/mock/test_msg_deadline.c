/* SPDX-License-Identifier: BSD-3-Clause */

/* Deadlines of requests, and silent peers, over the mock driver and a mock clock. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <leat_time.h>

#include "msg_mock.h"

#define LATE_US 1000

static volatile uint64_t clock_now;

static const struct leat_msg_conn_conf plain = { .mode = LEAT_MSG_PLAIN };

static void
pass_us(uint64_t us)
{
	clock_now += leat_us_to_cycles(us);
}

/* Post a request with a deadline in LATE_US. */
static void
post(struct leat_msg_conn *c, struct leat_msg_req *req, void *buf, uint64_t size, bool recv)
{
	memset(req, 0, sizeof(*req));
	req->buf = buf;
	req->size = size;
	req->flags = LEAT_MSG_F_DEADLINE;
	req->deadline = leat_now() + leat_us_to_cycles(LATE_US);
	assert_int_equal(recv ? leat_msg_recv(c, &req, 1) : leat_msg_send(c, &req, 1), 1);
}

/* Let the deadline pass, and let the context handle that, while the device completes nothing. */
static void
expire(struct mm *mm)
{
	pass_us(LATE_US + 1);
	mm_drive(mm);
	mm_drive(mm);
}

static void
back(const struct mm *mm, unsigned int i, const struct leat_msg_req *req, int status, uint64_t len)
{
	assert_int_equal(mm->nb_back, i + 1);
	assert_ptr_equal(mm->back[i], req);
	assert_int_equal(req->status, status);
	assert_int_equal(req->len, len);
	assert_int_equal(req->state, 0);
}

/* Check how many requests of a connection have come back because their deadline passed. */
static void
expired(const struct leat_msg_conn *c, uint64_t n)
{
	struct leat_msg_conn_stats stats;

	leat_msg_conn_stats_get(c, &stats);
	assert_int_equal(stats.expired, n);
}

/* Let the device give back all ops, and check that the connection has ended with this status. */
static void
ended(struct mm *mm, int status)
{
	while (mock.nb_ops > 0) {
		mm_finish(mm, mock.ops[0], -ECONNABORTED, 0);
		mm_drive(mm);
	}
	mm_drive(mm);
	mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm->ev.status, status);
}

/*
 * Requests that expire before they have begun come back in the order of posting. The next message
 * goes to the next request that has not expired.
 */
static void
test_waiting(void **state)
{
	struct leat_msg_req rx[3], tx[5];
	struct leat_msg_conn_stats stats;
	struct leat_msg_conn *c;
	const uint8_t *bytes;
	uint64_t base, n;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	post(c, &rx[0], buf, 8, true);
	mm_recv(c, &rx[1], buf, 8);
	post(c, &rx[2], buf, 8, true);
	/* There are two credits: tx[2] waits. */
	mm_send(c, &tx[0], "0", 1);
	mm_send(c, &tx[1], "1", 1);
	post(c, &tx[2], (void *)(uintptr_t) "2", 1, false);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	mm.nb_back = 0;
	pass_us(LATE_US - 100);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	expire(&mm);
	/* rx[2] has expired, too, but waits for rx[1], which has no deadline. */
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(rx[0].status, -ETIMEDOUT);
	assert_int_equal(tx[2].status, -ETIMEDOUT);
	n = mm_head(1, 3, 0, "x");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	assert_ptr_equal(mm.back[2], &rx[1]);
	assert_int_equal(rx[1].status, 0);
	back(&mm, 3, &rx[2], -ETIMEDOUT, 0);
	leat_msg_conn_stats_get(c, &stats);
	assert_int_equal(stats.expired, 3);
	/* With new credit tx[3] is sent; tx[2], which has expired, is not. */
	mm_send(c, &tx[3], "3", 1);
	bytes = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 2))->buf;
	assert_int_equal(bytes[16], '3');
	mm_close(&mm, &c, 1);
}

/*
 * A request that is done in time leaves no deadline behind: it can be posted again without one, and
 * does not expire.
 */
static void
test_in_time(void **state)
{
	struct leat_msg_req rx, tx, *req = &rx;
	struct leat_msg_conn *c;
	uint64_t base, n;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	post(c, &rx, buf, 8, true);
	post(c, &tx, buf, 1, false);
	n = mm_head(1, 2, 0, "x");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(rx.status, 0);
	assert_int_equal(tx.status, 0);
	rx.flags = 0;
	assert_int_equal(leat_msg_recv(c, &req, 1), 1);
	expire(&mm);
	assert_int_equal(mm.nb_back, 2);
	/*
	 * A send that is complete, but is not yet polled when its deadline passes, comes back with
	 * 0.
	 */
	post(c, &tx, buf, 1, false);
	pass_us(2 * LATE_US);
	assert_int_equal(leat_msg_events(mm.m, &mm.ev, 1), 0);
	mm_drive(&mm);
	back(&mm, 2, &tx, 0, 1);
	mm_close(&mm, &c, 1);
}

/* How the device answers when a payload's op is cancelled. */
enum device { RECALLS, WAS_FASTER, CANNOT };

/*
 * A peer announces a payload, and does not send it before the receive's deadline. The receive
 * expires, unless the payload arrives while its op is being recalled. If the device can't recall
 * the op, the connection ends.
 */
static void
test_announced(void **state)
{
	/* credit to id 4; granted to id 1; drop of message 0, since its time was up */
	static const uint8_t drop[16] = { 4, 0, 0, 0, 1, 0, 0, 0, 1, 2 };
	static const uint8_t grant[16] = { 4, 0, 0, 0, 1 };
	struct leat_msg_req rx, next;
	struct leat_msg_conn *c;
	static char buf[99];
	enum device device;
	uint64_t base, n;
	struct mm mm;

	(void)state;
	for (device = RECALLS; device <= CANNOT; device++) {
		struct leat_op *op;
		char small[8];

		mm_open(&mm);
		c = mm_open_leat(&mm, 0);
		base = mm_base(0);
		post(c, &rx, buf, sizeof(buf), true);
		mm_recv(c, &next, small, 8);
		n = mm_head(99, 2, 0, "");
		mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
		mm_drive(&mm);
		mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), grant, sizeof(grant));
		op = mm_posted(0, LEAT_OP_TRECV, MM_TAG(2, base, 0));
		assert_non_null(op);
		if (op == NULL)
			return;
		mock.can_cancel = device != CANNOT;
		mock.keep_on_cancel = true;
		expire(&mm);
		if (device == CANNOT) {
			ended(&mm, -ETIMEDOUT);
			assert_int_equal(mm.nb_back, 2);
			assert_int_equal(rx.status, -ETIMEDOUT);
			expired(c, 1);
			mm_close(&mm, &c, 1);
			continue;
		}
		/* The device may use the request's buffer until it has given the op back. */
		assert_int_equal(mm.nb_back, 0);
		if (device == WAS_FASTER) {
			mm_finish(&mm, op, 0, 99);
			mm_drive(&mm);
			back(&mm, 0, &rx, 0, 99);
		} else {
			mm_finish(&mm, op, -ECANCELED, 0);
			mm_drive(&mm);
			mm_drive(&mm);
			back(&mm, 0, &rx, -ETIMEDOUT, 99);
			assert_int_equal(mm_posted(0, LEAT_OP_TRECV, MM_TAG(2, base, 0))->size, 0);
			mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 1), drop, sizeof(drop));
		}
		/*
		 * The connection goes on before the sender has answered the drop with an empty
		 * payload.
		 */
		n = mm_head(2, 2, 0, "ok");
		mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
		mm_drive(&mm);
		back(&mm, 1, &next, 0, 2);
		expired(c, device == RECALLS ? 1 : 0);
		if (device == RECALLS)
			mm_arrive(&mm, 0, MM_TAG(2, base, 0), "", 0);
		mm_drive(&mm);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mock.keep_on_cancel = false;
		mm_close(&mm, &c, 1);
	}
}

/*
 * The deadline of a large send passes before its grant comes (i == 0), or while the device has its
 * payload. The send expires, unless the payload was sent while its op was being recalled. If the
 * device can't recall the op, the connection ends.
 */
static void
test_large_send(void **state)
{
	static const uint8_t granted[16] = { 2, 0, 0, 0, 1 };
	struct leat_msg_conn *c;
	static char data[70];
	struct leat_msg_req tx;
	unsigned int i;
	uint64_t base;
	struct mm mm;

	(void)state;
	for (i = 0; i < 4; i++) {
		const enum device device = i == 0 ? RECALLS : (enum device)(i - 1);
		struct leat_op *op;

		mm_open(&mm);
		c = mm_open_leat(&mm, 0);
		base = mm_base(0);
		post(c, &tx, data, sizeof(data), false);
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0)), 0, 16);
		if (i > 0)
			mm_arrive(&mm, 0, MM_TAG(3, base, 0), granted, sizeof(granted));
		mm_drive(&mm);
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(2, MM_THERE, 0));
		assert_true((op != NULL) == (i > 0));
		mock.can_cancel = device != CANNOT;
		mock.keep_on_cancel = true;
		expire(&mm);
		mock.keep_on_cancel = false;
		if (device == CANNOT) {
			ended(&mm, -ETIMEDOUT);
			back(&mm, 0, &tx, -ETIMEDOUT, 0);
			expired(c, 1);
			mm_close(&mm, &c, 1);
			continue;
		}
		if (i == 0) {
			back(&mm, 0, &tx, -ETIMEDOUT, 0);
			mm_arrive(&mm, 0, MM_TAG(3, base, 0), granted, sizeof(granted));
		} else {
			assert_int_equal(mm.nb_back, 0);
			mm_finish(&mm, op, device == RECALLS ? -ECANCELED : 0, 0);
		}
		mm_drive(&mm);
		mm_drive(&mm);
		if (device == RECALLS) {
			back(&mm, 0, &tx, -ETIMEDOUT, 0);
			mm_sent(&mm, 0, MM_TAG(2, MM_THERE, 0), "", 0);
			mm_drive(&mm);
		} else {
			back(&mm, 0, &tx, 0, sizeof(data));
		}
		expired(c, device == RECALLS ? 1 : 0);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mm_close(&mm, &c, 1);
	}
}

/*
 * The sender gives a large message up, and sends an empty payload: the receive gets -ETIMEDOUT, and
 * the connection goes on.
 */
static void
test_given_up(void **state)
{
	struct leat_msg_conn *c;
	struct leat_msg_req rx;
	static char buf[99];
	uint64_t base, n;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_recv(c, &rx, buf, sizeof(buf));
	n = mm_head(99, 2, 0, "");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	mm_arrive(&mm, 0, MM_TAG(2, base, 0), "", 0);
	mm_drive(&mm);
	mm_drive(&mm);
	back(&mm, 0, &rx, -ETIMEDOUT, 99);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

/*
 * Plain mode: a receive's deadline passes when nothing of its message has arrived (i == 0), only
 * the length (1), or only the payload (2). In the last round the deadline of a send passes when the
 * send has begun. In the last two rounds the connection ends.
 */
static void
test_plain(void **state)
{
	struct leat_msg_conn *c;
	struct leat_msg_req req;
	unsigned int i;
	char buf[8];
	struct mm mm;

	(void)state;
	for (i = 0; i < 4; i++) {
		mm_open(&mm);
		c = mm_connect(&mm, &plain, NULL, 0);
		post(c, &req, buf, 8, i < 3);
		mm_drive(&mm);
		if (i == 1)
			mm_arrive64(&mm, 0, LEN_TAG(0), 5);
		if (i == 2)
			mm_arrive(&mm, 0, DATA_TAG(0), "fives", 5);
		mm_drive(&mm);
		expire(&mm);
		if (i >= 2) {
			ended(&mm, -ETIMEDOUT);
			back(&mm, 0, &req, -ETIMEDOUT, 0);
			expired(c, 1);
			mm_close(&mm, &c, 1);
			continue;
		}
		back(&mm, 0, &req, -ETIMEDOUT, i == 0 ? 0 : 5);
		expired(c, 1);
		/*
		 * i == 0: the late message goes to the next receive. i == 1: the expired receive
		 * had its length, so its payload is dropped.
		 */
		mm_recv(c, &req, buf, 8);
		mm_drive(&mm);
		if (i == 0)
			mm_arrive64(&mm, 0, LEN_TAG(0), 5);
		mm_drive(&mm);
		mm_arrive(&mm, 0, DATA_TAG(0), "fives", 5);
		mm_drive(&mm);
		mm_drive(&mm);
		if (i == 1) {
			assert_int_equal(mm.nb_back, 1);
			mm_arrive64(&mm, 0, LEN_TAG(1), 2);
			mm_drive(&mm);
			mm_arrive(&mm, 0, DATA_TAG(1), "ok", 2);
			mm_drive(&mm);
		}
		back(&mm, 1, &req, 0, i == 0 ? 5 : 2);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mm_close(&mm, &c, 1);
	}
}

/*
 * Plain mode: a receive's deadline passes when the device is done with its payload, which is not
 * polled yet. The receive is tried again each ms, and gets the message, so it has not expired.
 */
static void
test_plain_in_time(void **state)
{
	struct leat_msg_conn *c;
	struct leat_msg_req req;
	unsigned int i;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	post(c, &req, buf, 8, true);
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(0), "fives", 5);
	pass_us(LATE_US + 1);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_msg_events(mm.m, &mm.ev, 1), 0);
		pass_us(2000);
	}
	mm_arrive64(&mm, 0, LEN_TAG(0), 5);
	mm_drive(&mm);
	mm_drive(&mm);
	back(&mm, 0, &req, 0, 5);
	expired(c, 0);
	mm_close(&mm, &c, 1);
}

/*
 * 100,000 requests expire together: on average a call of leat_msg_events() handles between 128 and
 * 256 of them.
 */
static void
test_many(void **state)
{
	enum { MANY = 100000 };
	struct leat_msg_req *reqs = calloc(MANY, sizeof(*reqs)), *out[64];
	unsigned int done = 0, calls = 0;
	struct leat_msg_event ev;
	struct leat_msg_conn *c;
	struct mm mm;
	uint16_t i, n;

	(void)state;
	assert_non_null(reqs);
	if (reqs == NULL)
		return;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	for (; done < MANY; done++)
		post(c, &reqs[done], mm_in, 1, true);
	pass_us(10 * LATE_US);
	for (done = 0; done < MANY; calls++) {
		assert_true(calls < 2 * MANY / 256);
		assert_int_equal(leat_msg_events(mm.m, &ev, 1), 0);
		while ((n = leat_msg_poll(mm.m, out, RTE_DIM(out))) > 0) {
			for (i = 0; i < n; i++, done++) {
				assert_ptr_equal(out[i], &reqs[done]);
				assert_int_equal(out[i]->status, -ETIMEDOUT);
			}
		}
	}
	assert_true(calls >= MANY / 256);
	mm_close(&mm, &c, 1);
	free(reqs);
}

/* ---- silent peers ---- */

static const uint8_t ping[16] = { 4, [8] = 2 }, pong[16] = { 4, [8] = 3 };

static struct leat_msg_conn *
open_watched(struct mm *mm)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT,
						 .idle_us = 4000,
						 .answer_us = 10000 };

	mm_open(mm);
	return mm_connect(mm, &conf, mm_hello, sizeof(mm_hello));
}

static void
pass_ms(struct mm *mm, unsigned int n)
{
	while (n-- > 0) {
		pass_us(1000);
		mm_drive(mm);
	}
}

/* A peer that is silent for the idle time gets a ping; if it stays silent, the connection ends. */
static void
test_silent(void **state)
{
	struct leat_msg_conn *c;
	struct mm mm;

	(void)state;
	c = open_watched(&mm);
	pass_ms(&mm, 3);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	pass_ms(&mm, 3);
	mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), ping, sizeof(ping));
	pass_ms(&mm, 8);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	pass_ms(&mm, 5);
	ended(&mm, -ETIMEDOUT);
	assert_non_null(strstr(mm.ev.text, "there:1"));
	mm_close(&mm, &c, 1);
}

/* Any message of the peer counts as the answer to a ping; each time of silence causes one ping. */
static void
test_alive(void **state)
{
	const uint8_t answer[16] = { 2, [8] = 3 };
	struct leat_msg_conn *c;
	uint32_t i;
	struct mm mm;

	(void)state;
	c = open_watched(&mm);
	for (i = 0; i < 3; i++) {
		pass_ms(&mm, 6);
		mm_sent(&mm, 0, MM_TAG(3, MM_THERE, i), ping, sizeof(ping));
		pass_ms(&mm, 7);
		assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
		if (i == 1) {
			uint64_t n = mm_head(2, 2, 0, "ok");

			mm_arrive(&mm, 0, MM_TAG(1, mm_base(0), 0), mm_in, n);
		} else {
			mm_arrive(&mm, 0, MM_TAG(3, mm_base(0), i / 2), answer, sizeof(answer));
		}
		pass_ms(&mm, 1);
	}
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

/* Time in which this side was not driven does not count as the peer's silence. */
static void
test_own_sleep(void **state)
{
	struct leat_msg_conn *c;
	unsigned int i;
	struct mm mm;

	(void)state;
	c = open_watched(&mm);
	for (i = 0; i < 10; i++) {
		pass_us(1000000);
		mm_drive(&mm);
	}
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	pass_ms(&mm, 6);
	mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), ping, sizeof(ping));
	pass_us(1000000);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	pass_ms(&mm, 15);
	ended(&mm, -ETIMEDOUT);
	mm_close(&mm, &c, 1);
}

/* This side answers the ping of a peer that it does not watch. */
static void
test_asked(void **state)
{
	const uint8_t question[16] = { 2, [8] = 2 };
	struct leat_msg_conn *c;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	mm_arrive(&mm, 0, MM_TAG(3, mm_base(0), 0), question, sizeof(question));
	mm_drive(&mm);
	mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), pong, sizeof(pong));
	pass_us(100000000);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

static int
setup(void **state)
{
	(void)state;
	clock_now = 1000000;
	leat_clock_mock_set(&clock_now);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return 0;
}

/*
 * While the device has a large send, a send with LEAT_MSG_F_DELIVERED behind it expires. Then the
 * other side reports, late, that it dropped the expired message. The connection goes on, and the
 * request keeps its -ETIMEDOUT.
 */
static void
test_delivered_dropped_late(void **state)
{
	/* credit to id 2; drop of message 1, since it was too long */
	static const uint8_t drop[16] = { 2, [8] = 1, 1, [12] = 1 };
	static char data[70];
	struct leat_msg_req tx[2], *req = &tx[1];
	struct leat_msg_conn *c;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	mm_send(c, &tx[0], data, sizeof(data));
	tx[1] = (struct leat_msg_req){ .buf = data,
				       .size = 5,
				       .flags = LEAT_MSG_F_DELIVERED | LEAT_MSG_F_DEADLINE,
				       .deadline = leat_now() + leat_us_to_cycles(LATE_US) };
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	mm_drive(&mm);
	expire(&mm);
	mm_arrive(&mm, 0, MM_TAG(3, mm_base(0), 0), drop, sizeof(drop));
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
	assert_int_equal(tx[1].status, -ETIMEDOUT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_announced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_large_send, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_plain_in_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_delivered_dropped_late, setup, teardown),
	};

	return cmocka_run_group_tests_name("msg_deadline", tests, mm_start, mm_stop);
}
