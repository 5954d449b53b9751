/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages that are dropped while their connection goes on, over the mock driver. */

#include <errno.h>
#include <string.h>

#include "msg_mock.h"

static const struct leat_msg_conn_conf plain = { .mode = LEAT_MSG_PLAIN };

/* Let a control message arrive that gives credit up to id 2. */
static void
ctrl_arrives(struct mm *mm, uint64_t base, uint32_t id, uint8_t granted, uint8_t kind,
	     uint8_t reason, uint8_t arg)
{
	uint8_t ctrl[16] = { 2, 0, 0, 0, granted, 0, 0, 0, kind, reason, 0, 0, arg };

	mm_arrive(mm, 0, MM_TAG(3, base, id), ctrl, sizeof(ctrl));
	mm_drive(mm);
}

/* Check that the next message is received as if nothing had been dropped. */
static void
goes_on(struct mm *mm, struct leat_msg_conn *c, uint64_t base, uint32_t id)
{
	struct leat_msg_req rx;
	char buf[8];
	uint64_t n = mm_head(2, 2, 0, "ok");
	unsigned int back = mm->nb_back;

	mm_recv(c, &rx, buf, sizeof(buf));
	mm_arrive(mm, 0, MM_TAG(1, base, id), mm_in, n);
	mm_drive(mm);
	assert_int_equal(mm->nb_back, back + 1);
	assert_ptr_equal(mm->back[back], &rx);
	assert_int_equal(rx.status, 0);
	assert_memory_equal(buf, "ok", 2);
	assert_int_equal(mm->nb_ev[LEAT_MSG_ENDED], 0);
}

/*
 * A small message that is too long for its request is dropped, whether it is alone or among others
 * in one send, and whether the request is posted before (first == 1) or after the message comes.
 */
static void
test_small(void **state)
{
	struct leat_msg_conn_stats stats;
	struct leat_msg_req rx[4];
	struct leat_msg_conn *c;
	char buf[4][8];
	unsigned int first;
	uint64_t base, n;
	struct mm mm;

	(void)state;
	for (first = 0; first < 2; first++) {
		unsigned int i;

		mm_open(&mm);
		c = mm_open_leat(&mm, 0);
		base = mm_base(0);
		for (i = 0; first == 1 && i < 4; i++)
			mm_recv(c, &rx[i], buf[i], 4);
		memset(buf, '.', sizeof(buf));
		n = mm_head(5, 2, 0, "fives");
		mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
		n = mm_head(3, 2, 0, "one");
		memcpy(mm_in + n, "\5\0\0\0\0\0\0\0fives\2\0\0\0\0\0\0\0ok", 8 + 5 + 8 + 2);
		mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n + 8 + 5 + 8 + 2);
		mm_drive(&mm);
		for (i = 0; first == 0 && i < 4; i++)
			mm_recv(c, &rx[i], buf[i], 4);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 4);
		for (i = 0; i < 4; i++) {
			assert_ptr_equal(mm.back[i], &rx[i]);
			assert_int_equal(rx[i].status, i % 2 == 0 ? -EMSGSIZE : 0);
		}
		assert_int_equal(rx[0].len, 5);
		assert_memory_equal(buf[0], "........", 8);
		assert_memory_equal(buf[1], "one.....", 8);
		assert_int_equal(rx[2].len, 5);
		assert_memory_equal(buf[3], "ok......", 8);
		leat_msg_conn_stats_get(c, &stats);
		assert_int_equal(stats.dropped, 2);
		assert_int_equal(stats.received, 2);
		goes_on(&mm, c, base, 2);
		mm_close(&mm, &c, 1);
	}
}

/*
 * A large message is dropped. The control message that reports the drop has the bytes of `drop`.
 * Later messages don't wait for the sender's answer.
 */
static void
test_large(void **state)
{
	/*
	 * credit to id 4; granted to id 1, since a receive of 0 B is posted for the payload; drop
	 * of message 0, since it was too long
	 */
	static const uint8_t drop[16] = { 4, 0, 0, 0, 1, 0, 0, 0, 1, 1 };
	struct leat_msg_req rx[2];
	struct leat_msg_conn *c;
	static char buf[2][120];
	unsigned int real;
	uint64_t base, n;
	struct mm mm;

	(void)state;
	for (real = 0; real < 2; real++) {
		struct leat_op *op;

		mm_open(&mm);
		c = mm_open_leat(&mm, 0);
		base = mm_base(0);
		mm_recv(c, &rx[0], buf[0], 98);
		mm_recv(c, &rx[1], buf[1], 99);
		n = mm_head(99, 2, 0, "");
		mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
		mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 1);
		assert_ptr_equal(mm.back[0], &rx[0]);
		assert_int_equal(rx[0].status, -EMSGSIZE);
		assert_int_equal(rx[0].len, 99);
		op = mm_posted(0, LEAT_OP_TRECV, MM_TAG(2, base, 0));
		assert_non_null(op);
		if (op == NULL)
			return;
		assert_int_equal(op->size, 0);
		mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), drop, sizeof(drop));
		mm_drive(&mm);
		/* The payload of the next message overtakes that of the dropped one. */
		memset(mm_in, 'z', 99);
		mm_arrive(&mm, 0, MM_TAG(2, base, 1), mm_in, 99);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2);
		assert_int_equal(rx[1].status, 0);
		assert_memory_equal(buf[1], mm_in, 99);
		goes_on(&mm, c, base, 2);
		/*
		 * The sender answers the drop with an empty payload; or (real) its payload, which
		 * was in flight, arrives.
		 */
		op->len = 0;
		mm_finish(&mm, op, real ? -EMSGSIZE : 0, real ? 99 : 0);
		mm_drive(&mm);
		mm_drive(&mm);
		assert_int_equal(mm_count(LEAT_OP_TRECV), CREDITS + 2);
		goes_on(&mm, c, base, 3);
		mm_close(&mm, &c, 1);
	}
}

/*
 * The other side drops a large message of this side. The send comes back with -EMSGSIZE, and an
 * empty payload is sent.
 */
static void
test_sent_in_vain(void **state)
{
	static char data[2][70];
	struct leat_msg_req tx[3];
	struct leat_msg_conn *c;
	struct leat_op *op;
	unsigned int i;
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	for (i = 0; i < 2; i++) {
		mm_send(c, &tx[i], data[i], sizeof(data[i]));
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, i));
		assert_non_null(op);
		mm_finish(&mm, op, 0, 16);
	}
	/*
	 * The second control message arrives before the first, and has no effect until the first
	 * has arrived, too.
	 */
	ctrl_arrives(&mm, base, 1, 2, 0, 0, 0);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	ctrl_arrives(&mm, base, 0, 1, 1, 1, 0);
	assert_int_equal(mm.nb_back, 1);
	assert_ptr_equal(mm.back[0], &tx[0]);
	assert_int_equal(tx[0].status, -EMSGSIZE);
	mm_sent(&mm, 0, MM_TAG(2, MM_THERE, 0), "", 0);
	mm_sent(&mm, 0, MM_TAG(2, MM_THERE, 1), data[1], sizeof(data[1]));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(tx[1].status, 0);
	/* This drop comes too late, after the payload was sent, and changes nothing. */
	ctrl_arrives(&mm, base, 2, 2, 1, 1, 1);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	mm_close(&mm, &c, 1);
}

/*
 * The device reports to the sender that the receive was too small, by -EMSGSIZE or -EREMOTEIO:
 * tx[0] fails, and tx[1] does not.
 */
static void
test_device_tells(void **state)
{
	static const int status[] = { -EMSGSIZE, -EREMOTEIO };
	struct leat_msg_req tx[2];
	struct leat_msg_conn *c;
	struct leat_op *op;
	unsigned int i;
	struct mm mm;

	(void)state;
	for (i = 0; i < RTE_DIM(status); i++) {
		mm_open(&mm);
		c = mm_connect(&mm, &plain, NULL, 0);
		mm_send(c, &tx[0], "one", 3);
		mm_send(c, &tx[1], "two", 3);
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, LEN_TAG(0)), 0, 8);
		op = mm_posted(0, LEAT_OP_TSEND, DATA_TAG(0));
		assert_non_null(op);
		mm_finish(&mm, op, status[i], 0);
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, LEN_TAG(1)), 0, 8);
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, DATA_TAG(1)), 0, 3);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2);
		assert_int_equal(tx[0].status, -EMSGSIZE);
		assert_int_equal(tx[1].status, 0);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mm_close(&mm, &c, 1);
	}
}

/*
 * Plain mode: a payload that is too long for its request is received into a buffer of 0 bytes, or,
 * if its receive was posted early, into the request's buffer, and cut off. In both cases the
 * request gets -EMSGSIZE, and the next message is received.
 */
static void
test_plain(void **state)
{
	struct leat_msg_req rx[2];
	struct leat_msg_conn *c;
	char buf[2][16];
	unsigned int i;
	struct mm mm;

	(void)state;
	for (i = 0; i < 4; i++) {
		const bool early = (i & 1) != 0, length_first = (i & 2) != 0;

		mm_open(&mm);
		c = mm_connect(&mm, &plain, NULL, 0);
		memset(buf, '.', sizeof(buf));
		if (early)
			mm_recv(c, &rx[0], buf[0], 4);
		mm_drive(&mm);
		if (!early || length_first)
			mm_arrive64(&mm, 0, LEN_TAG(0), 5);
		mm_drive(&mm);
		if (!early)
			mm_recv(c, &rx[0], buf[0], 4);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, early ? 0 : 1);
		assert_int_equal(mm_meets(0, DATA_TAG(0))->size, early ? 4 : 0);
		mm_arrive(&mm, 0, DATA_TAG(0), "fives", 5);
		mm_drive(&mm);
		if (early && !length_first)
			mm_arrive64(&mm, 0, LEN_TAG(0), 5);
		mm_drive(&mm);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 1);
		assert_int_equal(rx[0].status, -EMSGSIZE);
		assert_int_equal(rx[0].len, 5);
		assert_memory_equal(buf[0] + 4, "............", 12);
		mm_recv(c, &rx[1], buf[1], 4);
		mm_arrive64(&mm, 0, LEN_TAG(1), 2);
		mm_drive(&mm);
		mm_arrive(&mm, 0, DATA_TAG(1), "ok", 2);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2);
		assert_int_equal(rx[1].status, 0);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mm_close(&mm, &c, 1);
	}
}

/* rx[0] has no buffer, and can get none: it fails, and the message goes to rx[1]. */
static void
test_no_buffer(void **state)
{
	struct leat_msg_req rx[2];
	struct leat_msg_conn *c;
	uint64_t base, n;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_recv(c, &rx[0], NULL, 8);
	mm_recv(c, &rx[1], buf, 8);
	n = mm_head(2, 2, 0, "ok");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(rx[0].status, -EINVAL);
	assert_int_equal(rx[1].status, 0);
	assert_memory_equal(buf, "ok", 2);
	mm_close(&mm, &c, 1);
}

/*
 * A message is dropped, and its sender ends before it answers the drop. Messages that arrived after
 * the dropped one can be received after the connection's end.
 */
static void
test_ends_meanwhile(void **state)
{
	struct leat_msg_req rx[3];
	struct leat_msg_conn *c;
	char buf[8];
	uint64_t base, n;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_recv(c, &rx[0], buf, 8);
	n = mm_head(99, 2, 0, "");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	n = mm_head(2, 2, 0, "ok");
	mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
	mm_drive(&mm);
	assert_int_equal(rx[0].status, -EMSGSIZE);
	mm_peer_ends(&mm, 0, 0);
	mm_drive(&mm);
	mm_recv(c, &rx[1], buf, 8);
	mm_recv(c, &rx[2], buf, 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(rx[1].status, 0);
	assert_memory_equal(buf, "ok", 2);
	assert_int_equal(rx[2].status, -ENOTCONN);
	mm_close(&mm, &c, 1);
}

/* An impossible drop ends the connection. */
static void
test_hostile(void **state)
{
	/* kind, reason, message: 0 is small and not yet done, 1 is large, 2 was not sent */
	static const uint8_t wrong[][3] = {
		{ 1, 1, 0 }, { 1, 1, 2 }, { 1, 0, 1 }, { 1, 3, 1 }, { 1, 1, 200 }, { 200, 0, 0 },
	};
	static char data[70];
	struct leat_msg_req tx[2];
	struct leat_msg_conn *c;
	unsigned int i;
	struct mm mm;

	(void)state;
	for (i = 0; i < RTE_DIM(wrong); i++) {
		mm_open(&mm);
		c = mm_open_leat(&mm, 0);
		mm_send(c, &tx[1], data, sizeof(data));
		mm_send(c, &tx[0], "small", 5);
		/* The large message was sent first: its id is 0, and that of the small one is 1. */
		ctrl_arrives(&mm, mm_base(0), 0, 0, wrong[i][0], wrong[i][1],
			     wrong[i][2] < 2 ? (uint8_t)(1 - wrong[i][2]) : wrong[i][2]);
		mm_drive(&mm);
		while (mock.nb_ops > 0) {
			mm_finish(&mm, mock.ops[0], -ECONNABORTED, 0);
			mm_drive(&mm);
		}
		mm_drive(&mm);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
		assert_int_equal(mm.ev.status, -EPROTO);
		assert_int_equal(mm.nb_back, 2);
		mm_close(&mm, &c, 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),	       cmocka_unit_test(test_large),
		cmocka_unit_test(test_sent_in_vain),   cmocka_unit_test(test_device_tells),
		cmocka_unit_test(test_plain),	       cmocka_unit_test(test_no_buffer),
		cmocka_unit_test(test_ends_meanwhile), cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("msg_drop", tests, mm_start, mm_stop);
}
