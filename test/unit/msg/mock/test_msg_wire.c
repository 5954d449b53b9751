/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The bytes of long messages' fragments, of a receiver's answers to LEAT_MSG_F_DELIVERED, and of
 * the end of sending (leat_msg_shutdown()), over the mock driver.
 */

#include <errno.h>
#include <string.h>

#include "msg_mock.h"

/* Send 65 B in two fragments, since the other side takes 64 B at a time, and ask for an answer. */
static void
test_sent(void **state)
{
	/* first: 65 B left, fragment; last: 1 B left, fragment, asks for an answer */
	static const uint8_t first[80] = { 65, [7] = 2, [8] = 4, [16 ... 79] = 'x' };
	static const uint8_t last[17] = { 1, [7] = 3, [8] = 4, [16] = 'y' };
	/* the end of sending, at id 2 */
	static const uint8_t end[16] = { 4, [8] = 6, [12] = 2 };
	/* answers: all messages before id 1 were delivered; all before id 2 */
	static const uint8_t answer[2][16] = { { 2, [8] = 5, [12] = 1 }, { 2, [8] = 5, [12] = 2 } };
	static char x[64];
	char y = 'y';
	struct iovec iov[2] = { { x, sizeof(x) }, { &y, 1 } };
	struct leat_msg_req tx = { .iov = iov, .nb_iov = 2 }, *req = &tx;
	struct leat_msg_conn *c;
	uint64_t base;
	struct mm mm;

	(void)state;
	memset(x, 'x', sizeof(x));
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	tx.flags = LEAT_MSG_F_IOV | LEAT_MSG_F_DELIVERED;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	assert_int_equal(leat_msg_shutdown(c), 0);
	mm_drive(&mm);
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 0), first, sizeof(first));
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 1), last, sizeof(last));
	mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), end, sizeof(end));
	mm_drive(&mm);
	mm_arrive(&mm, 0, MM_TAG(3, base, 0), answer[0], 16);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_arrive(&mm, 0, MM_TAG(3, base, 1), answer[1], 16);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_int_equal(tx.status, 0);
	assert_int_equal(tx.len, 65);
	mm_close(&mm, &c, 1);
}

/* A message in two fragments arrives, then a second message that its sender gives up. */
static void
test_received(void **state)
{
	static const uint8_t first[20] = { 5, [7] = 2, [8] = 2, [16] = 'a', 'b', 'c', 'd' };
	static const uint8_t last[17] = { 1, [7] = 3, [8] = 2, [16] = 'e' };
	static const uint8_t none[16] = { 1, [7] = 2, [8] = 2 };
	static const uint8_t end[16] = { 2, [8] = 6, [12] = 4 };
	static const uint8_t answer[16] = { 6, [4] = 2, [8] = 5, [12] = 2 };
	struct leat_msg_req rx[3];
	struct leat_msg_conn *c;
	const uint8_t *bytes;
	struct leat_op *op;
	char buf[3][8];
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_recv(c, &rx[0], buf[0], 8);
	mm_recv(c, &rx[1], buf[1], 8);
	mm_recv(c, &rx[2], buf[2], 8);
	/* The end arrives first, and the second fragment before the first one. */
	mm_arrive(&mm, 0, MM_TAG(3, base, 0), end, sizeof(end));
	mm_arrive(&mm, 0, MM_TAG(1, base, 1), last, sizeof(last));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), first, sizeof(first));
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_int_equal(rx[0].len, 5);
	assert_memory_equal(buf[0], "abcde", 5);
	op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, 0));
	assert_non_null(op);
	if (op == NULL)
		return;
	/* The credit in the answer is the number of receives posted so far. */
	bytes = op->buf;
	assert_memory_equal(bytes + 4, answer + 4, 12);
	mm_finish(&mm, op, 0, 16);
	mm_arrive(&mm, 0, MM_TAG(1, base, 2), first, sizeof(first));
	mm_arrive(&mm, 0, MM_TAG(1, base, 3), none, sizeof(none));
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(rx[1].status, -ETIMEDOUT);
	assert_int_equal(rx[1].len, 5);
	assert_int_equal(rx[2].status, -ENODATA);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_SHUTDOWN], 1);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_received),
	};

	return cmocka_run_group_tests_name("msg_wire", tests, mm_start, mm_stop);
}
