/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Plain mode: a payload's receive that is posted early, which is before the message's length has
 * arrived; over the mock driver.
 */

#include <errno.h>
#include <string.h>

#include "msg_mock.h"

static const struct leat_msg_conn_conf plain = { .mode = LEAT_MSG_PLAIN };

/* Open a connection with a receive of 8 B, and check that the receive of its payload is posted. */
static struct leat_msg_conn *
open_early(struct mm *mm, struct leat_msg_req *req, char *buf)
{
	struct leat_msg_conn *c;
	struct leat_op *op;

	mm_open(mm);
	c = mm_connect(mm, &plain, NULL, 0);
	mm_recv(c, req, buf, 8);
	mm_drive(mm);
	op = mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0));
	assert_non_null(op);
	assert_ptr_equal(op->buf, buf);
	assert_int_equal(op->size, 8);
	assert_int_equal(op->ignore, 0);
	return c;
}

/* Let the device give back the first payload's receive, which was cancelled. */
static void
give_back(struct mm *mm)
{
	struct leat_op *op = mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0));

	assert_non_null(op);
	assert_int_equal(op->state, LEAT_OP_CANCEL);
	mm_finish(mm, op, -ECANCELED, 0);
}

static void
back_with(const struct mm *mm, unsigned int i, const struct leat_msg_req *req, int status,
	  const char *text)
{
	assert_int_equal(mm->nb_back, i + 1);
	assert_ptr_equal(mm->back[i], req);
	assert_int_equal(req->status, status);
	assert_int_equal(req->len, strlen(text));
	if (text[0] != '\0')
		assert_memory_equal(req->buf, text, strlen(text));
}

static void
test_orders(void **state)
{
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	char buf[8];
	struct mm mm;

	(void)state;
	c = open_early(&mm, &req, buf);
	mm_arrive64(&mm, 0, LEN_TAG(0), 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_arrive(&mm, 0, DATA_TAG(0), "one", 3);
	mm_drive(&mm);
	back_with(&mm, 0, &req, 0, "one");

	/* While no request waits, no payload's receive is posted early. With a request one is. */
	mm_drive(&mm);
	assert_null(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1)));
	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(1), "two", 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	mm_arrive64(&mm, 0, LEN_TAG(1), 3);
	mm_drive(&mm);
	back_with(&mm, 1, &req, 0, "two");

	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	mm_arrive64(&mm, 0, LEN_TAG(2), 8);
	mm_arrive(&mm, 0, DATA_TAG(2), "together", 8);
	mm_drive(&mm);
	back_with(&mm, 2, &req, 0, "together");
	mm_close(&mm, &c, 1);
}

/*
 * A payload's receive is posted early only for the oldest waiting request, and only if that has a
 * buffer.
 */
static void
test_which(void **state)
{
	struct leat_msg_req req[4];
	struct leat_msg_conn *c;
	char buf[2][8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	mm_recv(c, &req[0], NULL, 8);
	mm_recv(c, &req[1], buf[0], 8);
	mm_recv(c, &req[2], buf[1], 8);
	mm_recv(c, &req[3], NULL, 0);
	mm_drive(&mm);
	assert_int_equal(mock.nb_ops, CREDITS);
	assert_int_equal(leat_msg_cancel(&req[0]), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mock.nb_ops, CREDITS);
	mm_arrive64(&mm, 0, LEN_TAG(0), 2);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_ptr_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0))->buf, buf[0]);
	assert_int_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0))->size, 2);
	assert_null(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1))); /* only one is posted early */
	mm_arrive(&mm, 0, DATA_TAG(0), "11", 2);
	mm_drive(&mm);
	back_with(&mm, 1, &req[1], 0, "11");
	mm_drive(&mm);
	assert_ptr_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1))->buf, buf[1]);
	mm_arrive64(&mm, 0, LEN_TAG(1), 2);
	mm_arrive(&mm, 0, DATA_TAG(1), "22", 2);
	mm_drive(&mm);
	back_with(&mm, 2, &req[2], 0, "22");
	mm_drive(&mm);
	assert_null(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(2)));
	mm_close(&mm, &c, 1);
}

/* The early receive is no larger than max_size. */
static void
test_limit(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN, .max_size = 5 };
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &conf, NULL, 0);
	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	assert_int_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0))->size, 5);
	mm_close(&mm, &c, 1);
}

/* If a message has no payload, its request comes back when the device has returned the buffer. */
static void
test_zero(void **state)
{
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	char buf[8];
	struct mm mm;

	(void)state;
	c = open_early(&mm, &req, buf);
	mock.keep_on_cancel = true;
	mm_arrive64(&mm, 0, LEN_TAG(0), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	give_back(&mm);
	mm_drive(&mm);
	back_with(&mm, 0, &req, 0, "");

	/*
	 * After a message without a payload, no payload's receive is posted early for the next
	 * request.
	 */
	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	assert_null(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1)));
	mm_arrive64(&mm, 0, LEN_TAG(1), 2);
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(1), "22", 2);
	mm_drive(&mm);
	back_with(&mm, 1, &req, 0, "22");
	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(2)));
	mock.keep_on_cancel = false;
	mm_close(&mm, &c, 1);
}

/*
 * The payload comes before its length, or after it, and its size is not the announced length: the
 * connection and the request end with this status.
 */
static void
hostile(int status, uint64_t length, const void *data, uint64_t len)
{
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	unsigned int first;
	char buf[8];
	struct mm mm;

	for (first = 0; first < 2; first++) {
		c = open_early(&mm, &req, buf);
		mock.keep_on_cancel = true;
		if (first == 0)
			mm_arrive64(&mm, 0, LEN_TAG(0), length);
		mm_arrive(&mm, 0, DATA_TAG(0), data, len);
		mm_drive(&mm);
		mm_drive(&mm);
		mock.keep_on_cancel = false;
		if (first == 1) {
			assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
			mm_arrive64(&mm, 0, LEN_TAG(0), length);
		}
		mm_drive(&mm);
		mm_drive(&mm);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
		assert_int_equal(mm.ev.status, status);
		assert_int_equal(mm.nb_back, 1);
		assert_int_equal(req.status, status);
		mm_close(&mm, &c, 1);
	}
}

static void
test_hostile(void **state)
{
	(void)state;
	hostile(-EMSGSIZE, UINT64_C(1) << 63, "x", 1);
	hostile(-EPROTO, 8, "too long", 9);
	hostile(-EPROTO, 4, "longer", 6);
	hostile(-EPROTO, 6, "less", 4);
	hostile(-EPROTO, 6, "", 0);
	hostile(-EPROTO, 0, "none", 4);
}

/*
 * A request is cancelled when nothing of its message has arrived. It comes back when the device has
 * returned its buffer, and the message goes to the next request.
 */
static void
test_cancel(void **state)
{
	struct leat_msg_req req[2];
	struct leat_msg_conn *c;
	char buf[2][8];
	struct mm mm;

	(void)state;
	c = open_early(&mm, &req[0], buf[0]);
	mm_recv(c, &req[1], buf[1], 8);
	mock.keep_on_cancel = true;
	assert_int_equal(leat_msg_cancel(&req[0]), 0);
	assert_int_equal(leat_msg_cancel(&req[0]), -ENOENT);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	give_back(&mm);
	mm_drive(&mm);
	back_with(&mm, 0, &req[0], -ECANCELED, "");
	assert_int_equal(leat_msg_cancel(&req[0]), -ENOENT);
	/* The message goes to the next request. */
	mm_drive(&mm);
	assert_ptr_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0))->buf, buf[1]);
	mm_arrive64(&mm, 0, LEN_TAG(0), 4);
	mm_arrive(&mm, 0, DATA_TAG(0), "next", 4);
	mm_drive(&mm);
	back_with(&mm, 1, &req[1], 0, "next");
	mock.keep_on_cancel = false;
	mm_close(&mm, &c, 1);
}

/*
 * The length arrives while the device still has the cancelled request's buffer. If the payload
 * arrives in that buffer the request gets the message, else the next request does.
 */
static void
test_cancel_while_length_arrives(void **state)
{
	struct leat_msg_req req[2];
	struct leat_msg_stats stats;
	struct leat_msg_conn *c;
	char buf[2][8];
	struct mm mm;
	int faster;

	(void)state;
	for (faster = 0; faster < 2; faster++) {
		c = open_early(&mm, &req[0], buf[0]);
		mm_recv(c, &req[1], buf[1], 8);
		mock.keep_on_cancel = true;
		assert_int_equal(leat_msg_cancel(&req[0]), 0);
		mm_arrive64(&mm, 0, LEN_TAG(0), 4);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 0);
		leat_msg_stats_get(mm.m, &stats);
		assert_int_equal(stats.held, 1);
		if (faster == 1) {
			mm_arrive(&mm, 0, DATA_TAG(0), "fast", 4);
			mm_drive(&mm);
			back_with(&mm, 0, &req[0], 0, "fast");
		} else {
			give_back(&mm);
			mm_drive(&mm);
			back_with(&mm, 0, &req[0], -ECANCELED, "");
			assert_ptr_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0))->buf, buf[1]);
			mm_arrive(&mm, 0, DATA_TAG(0), "slow", 4);
			mm_drive(&mm);
			back_with(&mm, 1, &req[1], 0, "slow");
		}
		leat_msg_stats_get(mm.m, &stats);
		assert_int_equal(stats.held, 0);
		mock.keep_on_cancel = false;
		mm_close(&mm, &c, 1);
	}
}

/*
 * If the payload arrives before its receive is cancelled, or before the cancel takes effect, the
 * request gets the message.
 */
static void
test_cancel_too_late(void **state)
{
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	char buf[8];
	struct mm mm;

	(void)state;
	c = open_early(&mm, &req, buf);
	mock.keep_on_cancel = true;
	assert_int_equal(leat_msg_cancel(&req), 0);
	mm_arrive(&mm, 0, DATA_TAG(0), "one", 3);
	mm_drive(&mm);
	assert_int_equal(leat_msg_cancel(&req), -EOPNOTSUPP);
	mm_arrive64(&mm, 0, LEN_TAG(0), 3);
	mm_drive(&mm);
	back_with(&mm, 0, &req, 0, "one");

	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(1), "two", 3);
	/* the payload has arrived, and is not yet polled */
	assert_int_equal(leat_msg_cancel(&req), -EOPNOTSUPP);
	mm_drive(&mm);
	assert_int_equal(leat_msg_cancel(&req), -EOPNOTSUPP);
	mm_arrive64(&mm, 0, LEN_TAG(1), 3);
	mm_drive(&mm);
	back_with(&mm, 1, &req, 0, "two");

	/* If the device can't give the receive back, the cancel is refused. */
	mm_recv(c, &req, buf, 8);
	mm_drive(&mm);
	mock.can_cancel = false;
	assert_int_equal(leat_msg_cancel(&req), -EOPNOTSUPP);
	mock.can_cancel = true;
	mm_close(&mm, &c, 1);
}

/*
 * The peer ends: whole messages are received, a cancelled request gets -ECANCELED, and all others
 * get the peer's status.
 */
static void
test_end(void **state)
{
	enum { NOTHING, CANCELLED, LENGTH_0, PAYLOAD, CASES } what;
	struct leat_msg_req req;
	struct leat_msg_conn *c;
	struct leat_op *op;
	char buf[8];
	struct mm mm;

	(void)state;
	for (what = NOTHING; what < CASES; what++) {
		c = open_early(&mm, &req, buf);
		mock.keep_on_cancel = true;
		op = mm_posted(0, LEAT_OP_TRECV, DATA_TAG(0));
		if (what == CANCELLED)
			assert_int_equal(leat_msg_cancel(&req), 0);
		else if (what == LENGTH_0)
			mm_arrive64(&mm, 0, LEN_TAG(0), 0);
		else if (what == PAYLOAD)
			mm_arrive(&mm, 0, DATA_TAG(0), "lost", 4);
		mm_drive(&mm);
		leat_peer_closing(mm.ep, &mm.ep->peers[0], -ECONNRESET, "it died");
		while (mock.nb_ops > (what == PAYLOAD ? 0 : 1)) {
			mm_finish(&mm, mock.ops[0] != op ? mock.ops[0] : mock.ops[1], -ECONNRESET,
				  0);
			mm_drive(&mm);
		}
		if (what != PAYLOAD) {
			assert_int_equal(mm.nb_back, 0);
			mm_finish(&mm, op, -ECONNRESET, 0);
		}
		leat_peer_down(mm.ep, &mm.ep->peers[0]);
		mm_drive(&mm);
		mm_drive(&mm);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
		assert_int_equal(mm.ev.status, -ECONNRESET);
		back_with(&mm, 0, &req,
			  what == CANCELLED  ? -ECANCELED
			  : what == LENGTH_0 ? 0
					     : -ECONNRESET,
			  "");
		mock.keep_on_cancel = false;
		mm_close(&mm, &c, 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_which),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_while_length_arrives),
		cmocka_unit_test(test_cancel_too_late),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests_name("msg_early", tests, mm_start, mm_stop);
}
