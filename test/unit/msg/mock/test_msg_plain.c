/* SPDX-License-Identifier: BSD-3-Clause */

/* Plain mode, byte by byte, over the mock driver. */

#include <string.h>

#include "msg_mock.h"

static const struct leat_msg_conn_conf plain = { .mode = LEAT_MSG_PLAIN };

static void
test_send_bytes(void **state)
{
	static const uint8_t len5[8] = { 5 }, len0[8] = { 0 }, len3[8] = { 0x03, 0x02, 0x01 };
	static uint8_t big[0x010203];
	struct leat_msg_req req[3];
	struct leat_msg_conn *c;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_PLAIN);
	mm_send(c, &req[0], "hello", 5);
	mm_send(c, &req[1], NULL, 0);
	mm_send(c, &req[2], big, sizeof(big));
	assert_int_equal(mm_count(LEAT_OP_TSEND), 5);

	/*
	 * Both sends of req[1] and of req[2] complete first; no request comes back before req[0].
	 */
	mm_sent(&mm, 0, 0x200000002, big, sizeof(big));
	mm_sent(&mm, 0, 0x100000002, len3, 8);
	mm_sent(&mm, 0, 0x100000001, len0, 8);
	mm_sent(&mm, 0, 0x200000000, "hello", 5);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	/*
	 * Only the length of req[0] is still being sent. When that send completes, all three
	 * requests come back.
	 */
	mm_sent(&mm, 0, 0x100000000, len5, 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_ptr_equal(mm.back[0], &req[0]);
	assert_ptr_equal(mm.back[1], &req[1]);
	assert_ptr_equal(mm.back[2], &req[2]);
	assert_int_equal(req[2].len, sizeof(big));
	mm_close(&mm, &c, 1);
}

static void
test_recv_any_order(void **state)
{
	struct leat_msg_req req[3];
	struct leat_msg_conn *c;
	char buf[3][8] = { { 0 } };
	struct leat_op *op;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	/* Receives are posted for exactly the next ids, each once. */
	assert_int_equal(mock.nb_ops, CREDITS);
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, LEN_TAG(0)));
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, LEN_TAG(CREDITS - 1)));
	mm_recv(c, &req[0], buf[0], 8);
	mm_recv(c, &req[1], buf[1], 8);
	mm_recv(c, &req[2], buf[2], 8);

	mm_arrive64(&mm, 0, LEN_TAG(2), 0);
	mm_arrive64(&mm, 0, LEN_TAG(1), 3);
	mm_drive(&mm);
	assert_int_equal(mm_count(LEAT_OP_TRECV), CREDITS - 2);
	mm_arrive64(&mm, 0, LEN_TAG(0), 8);
	mm_drive(&mm);
	op = mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1));
	assert_non_null(op);
	assert_int_equal(op->size, 3);
	assert_int_equal(op->ignore, 0);
	mm_arrive(&mm, 0, DATA_TAG(1), "abc", 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_arrive(&mm, 0, DATA_TAG(0), "01234567", 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_ptr_equal(mm.back[0], &req[0]);
	assert_ptr_equal(mm.back[1], &req[1]);
	assert_ptr_equal(mm.back[2], &req[2]);
	assert_memory_equal(buf[0], "01234567", 8);
	assert_memory_equal(buf[1], "abc", 3);
	assert_int_equal(req[1].len, 3);
	assert_int_equal(req[2].len, 0);
	/* The freed slots are posted again. */
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, LEN_TAG(CREDITS + 2)));
	mm_close(&mm, &c, 1);
}

static void
test_any_id(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN, .any_id = true };
	struct leat_msg_req req[2 * CREDITS];
	struct leat_msg_conn *c;
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &conf, NULL, 0);
	for (i = 0; i < mock.nb_ops; i++) {
		assert_int_equal(mock.ops[i]->tag, UINT64_C(1) << 32);
		assert_int_equal(mock.ops[i]->ignore, 0xffffffff);
	}
	for (i = 0; i < 2 * CREDITS; i++)
		mm_recv(c, &req[i], NULL, 0);
	mm_arrive64(&mm, 0, LEN_TAG(1), 0);
	mm_arrive64(&mm, 0, LEN_TAG(3), 0);
	mm_arrive64(&mm, 0, LEN_TAG(0), 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(mm_count(LEAT_OP_TRECV), CREDITS - 1);
	mm_arrive64(&mm, 0, LEN_TAG(2), 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	assert_int_equal(mm_count(LEAT_OP_TRECV), CREDITS);

	/* A length with an impossible id has used up a receive, so the connection must end. */
	mm_arrive64(&mm, 0, LEN_TAG(0xdeadbeef), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, -EPROTO);
	assert_int_equal(mm.nb_back, 2 * CREDITS);
	assert_int_equal(req[4].status, -EPROTO);
	mm_close(&mm, &c, 1);
}

static void
test_wrap(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN, .first_id = 0xfffffffd };
	static const uint32_t ids[6] = { 0xfffffffd, 0xfffffffe, 0xffffffff, 0, 1, 2 };
	struct leat_msg_req tx[6], rx[6];
	struct leat_msg_conn *c;
	uint64_t len1 = rte_cpu_to_le_64(1);
	char buf[6];
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &conf, NULL, 0);
	for (i = 0; i < 6; i++) {
		mm_send(c, &tx[i], "x", 1);
		mm_recv(c, &rx[i], &buf[i], 1);
	}
	for (i = 0; i < 6; i++) {
		mm_sent(&mm, 0, UINT64_C(1) << 32 | ids[i], &len1, 8);
		mm_sent(&mm, 0, UINT64_C(1) << 33 | ids[i], "x", 1);
		mm_arrive64(&mm, 0, LEN_TAG(ids[i]), 1);
		mm_drive(&mm);
		mm_arrive(&mm, 0, DATA_TAG(ids[i]), "x", 1);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2 * i + 2);
		assert_int_equal(rx[i].status, 0);
	}
	mm_close(&mm, &c, 1);
}

/*
 * A wrong length or payload of the other side ends its connection with this status, and the second
 * connection goes on.
 */
static void
hostile(int status, uint64_t length, const void *data, uint64_t len, bool posted)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN, .max_size = 1000 };
	struct leat_msg_req req, other;
	struct leat_msg_conn *c[2];
	char buf[16], obuf[4];
	struct mm mm;

	mm_open(&mm);
	c[0] = mm_connect(&mm, &conf, NULL, 0);
	c[1] = mm_connect(&mm, &conf, NULL, 0);
	mm_recv(c[1], &other, obuf, sizeof(obuf));
	if (posted)
		mm_recv(c[0], &req, buf, sizeof(buf));
	mm_arrive64(&mm, 0, LEN_TAG(0), length);
	mm_drive(&mm);
	if (data != NULL) {
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		mm_arrive(&mm, 0, DATA_TAG(0), data, len);
	}
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_ptr_equal(mm.ev.conn, c[0]);
	assert_int_equal(mm.ev.status, status);
	assert_int_equal(mm.nb_back, posted ? 1 : 0);
	if (posted)
		assert_int_equal(req.status, status);
	assert_int_equal(mock.nb_ops, CREDITS + 1); /* only those of c[1] */
	mm_arrive64(&mm, 1, LEN_TAG(0), 2);
	mm_drive(&mm);
	mm_arrive(&mm, 1, DATA_TAG(0), "ok", 2);
	mm_drive(&mm);
	assert_int_equal(other.status, 0);
	assert_int_equal(other.len, 2);
	mm_close(&mm, c, 2);
}

static void
test_hostile(void **state)
{
	(void)state;
	hostile(-EMSGSIZE, UINT64_C(1) << 63, NULL, 0, false);
	hostile(-EMSGSIZE, UINT64_MAX, NULL, 0, true);
	hostile(-EMSGSIZE, 1001, NULL, 0, false);
	hostile(-EPROTO, 16, "short", 5, true);
	hostile(-EPROTO, 4, "too long", 8, true);
	hostile(-EPROTO, 4, "", 0, true);
}

static void
test_length_of_other_size(void **state)
{
	struct leat_msg_conn *c[2];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c[0] = mm_connect(&mm, &plain, NULL, 0);
	c[1] = mm_connect(&mm, &plain, NULL, 0);
	mm_arrive(&mm, 0, LEN_TAG(0), "1234", 4);
	mm_arrive(&mm, 1, LEN_TAG(0), "123456789", 9);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 2);
	assert_int_equal(mm.ev.status, -EPROTO);
	mm_close(&mm, c, 2);
}

static unsigned int nb_allocs;
static void *give;

static void *
alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	assert_int_equal(len, *(uint64_t *)arg);
	*mr = NULL;
	nb_allocs++;
	return give;
}

static void
test_alloc(void **state)
{
	uint64_t want = 6;
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN,
						 .alloc = alloc,
						 .alloc_arg = &want };
	struct leat_msg_req req[2];
	struct leat_msg_conn *c;
	char mem[8];
	struct mm mm;

	(void)state;
	nb_allocs = 0;
	give = NULL;
	mm_open(&mm);
	c = mm_connect(&mm, &conf, NULL, 0);
	mm_recv(c, &req[0], NULL, 10);
	mm_recv(c, &req[1], NULL, 10);
	mm_drive(&mm);
	assert_int_equal(nb_allocs, 0);
	mm_arrive64(&mm, 0, LEN_TAG(0), 6);
	mm_drive(&mm);
	assert_true(nb_allocs > 0); /* no buffer now: the context asks again */
	give = mem;
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(0), "abcdef", 6);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_ptr_equal(req[0].buf, mem);
	assert_memory_equal(mem, "abcdef", 6);
	/* A message longer than the 10 B of req[1] is dropped, and alloc() is not called. */
	nb_allocs = 0;
	mm_arrive64(&mm, 0, LEN_TAG(1), 11);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(nb_allocs, 0);
	assert_int_equal(req[1].status, -EMSGSIZE);
	assert_null(req[1].buf);
	mm_close(&mm, &c, 1);
}

/* If the connection ends while the device has ops, no request comes back before its ops do. */
static void
test_release(void **state)
{
	struct leat_msg_req tx[2], rx;
	struct leat_msg_conn *c;
	struct leat_op *len, *data;
	struct leat_peer *peer;
	char buf[8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	peer = &mm.ep->peers[0];
	mm_send(c, &tx[0], "abc", 3);
	mm_send(c, &tx[1], "def", 3);
	mm_recv(c, &rx, buf, sizeof(buf));
	len = mm_posted(0, LEAT_OP_TSEND, LEN_TAG(0));
	data = mm_posted(0, LEAT_OP_TSEND, DATA_TAG(0));
	leat_peer_closing(mm.ep, peer, -ECONNRESET, "it died");
	while (mock.nb_ops > 2) {
		struct leat_op *op = mock.ops[0] != len && mock.ops[0] != data	 ? mock.ops[0]
				     : mock.ops[1] != len && mock.ops[1] != data ? mock.ops[1]
										 : mock.ops[2];
		mm_finish(&mm, op, -ECONNRESET, 0);
		mm_drive(&mm);
	}
	assert_int_equal(mm.nb_back, 0);
	mm_finish(&mm, data, 0, 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_finish(&mm, len, -ECONNRESET, 0);
	leat_peer_down(mm.ep, peer);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(mm.ev.type, LEAT_MSG_ENDED);
	assert_int_equal(mm.ev.status, -ECONNRESET);
	assert_string_equal(mm.ev.text, "there:1: it died");
	assert_int_equal(tx[0].status, -ECONNRESET);
	assert_int_equal(rx.status, -ECONNRESET);
	/* Requests that are posted later come back as well. */
	mm_send(c, &tx[0], "abc", 3);
	mm_recv(c, &rx, buf, sizeof(buf));
	assert_int_equal(tx[0].state != 0, 1);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 5);
	mm_close(&mm, &c, 1);
}

/*
 * A connection ends with two messages that no request received: the length of the first has
 * arrived; the length and the payload of the second have. The next connection, in the same slot,
 * gets neither message.
 */
static void
test_place_is_used_again(void **state)
{
	struct leat_msg_req rx[2];
	struct leat_msg_conn *c, *next;
	char buf[2][8];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	mm_recv(c, &rx[0], buf[0], 8);
	mm_recv(c, &rx[1], buf[1], 8);
	mm_arrive64(&mm, 0, LEN_TAG(0), 3);
	mm_arrive64(&mm, 0, LEN_TAG(1), 3);
	mm_arrive64(&mm, 0, LEN_TAG(2), 0);
	mm_drive(&mm);
	mm_arrive(&mm, 0, DATA_TAG(1), "old", 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	assert_int_equal(leat_msg_close(c, 0), 0);
	while (mm.nb_ev[LEAT_MSG_CLOSED] == 0)
		mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);

	/* The next connection gets its own messages only. */
	mm.nb_back = 0;
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
	next = mm_connect(&mm, &plain, NULL, 0);
	assert_ptr_equal(next, c);
	mm_recv(next, &rx[0], buf[0], 8);
	mm_recv(next, &rx[1], buf[1], 8);
	mm_arrive64(&mm, leat_msg_conn_peer(next), LEN_TAG(0), 3);
	mm_arrive64(&mm, leat_msg_conn_peer(next), LEN_TAG(1), 3);
	mm_drive(&mm);
	mm_arrive(&mm, leat_msg_conn_peer(next), DATA_TAG(0), "new", 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_memory_equal(buf[0], "new", 3);
	mm_arrive(&mm, leat_msg_conn_peer(next), DATA_TAG(1), "too", 3);
	mm_recv(next, &rx[0], buf[0], 8);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_memory_equal(buf[1], "too", 3);
	mm_close(&mm, &next, 1);
}

/* One op fails while the peer lives. A message is missing then, so the connection ends. */
static void
test_op_error(void **state)
{
	struct leat_msg_req tx[3];
	struct leat_msg_conn *c;
	uint64_t len1 = rte_cpu_to_le_64(1);
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	mm_send(c, &tx[0], "a", 1);
	mm_send(c, &tx[1], "b", 1);
	mm_send(c, &tx[2], "c", 1);
	mm_sent(&mm, 0, LEN_TAG(0), &len1, 8);
	mm_sent(&mm, 0, DATA_TAG(0), "a", 1);
	mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, DATA_TAG(1)), -EIO, 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(tx[0].status, 0);
	assert_int_equal(tx[1].status, -EIO);
	assert_int_equal(tx[2].status, -EIO);
	assert_int_equal(mm.ev.status, -EIO);
	mm_close(&mm, &c, 1);
}

static void
test_cancel(void **state)
{
	struct leat_msg_req rx[3], tx[CREDITS + 2];
	struct leat_msg_conn *c;
	char buf[3][4];
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	for (i = 0; i < 3; i++)
		mm_recv(c, &rx[i], buf[i], 4);
	mm_arrive64(&mm, 0, LEN_TAG(0), 4);
	mm_drive(&mm);
	/* the message of rx[0] has begun to arrive */
	assert_int_equal(leat_msg_cancel(&rx[0]), -EOPNOTSUPP);
	assert_int_equal(leat_msg_cancel(&rx[1]), 0);
	assert_int_equal(leat_msg_cancel(&rx[1]), -ENOENT);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0); /* rx[1] waits for rx[0] */
	mm_arrive(&mm, 0, DATA_TAG(0), "0000", 4);
	mm_arrive64(&mm, 0, LEN_TAG(1), 4);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_ptr_equal(mm.back[1], &rx[1]);
	assert_int_equal(rx[1].status, -ECANCELED);
	assert_ptr_equal(mm_posted(0, LEAT_OP_TRECV, DATA_TAG(1))->buf, buf[2]);
	assert_int_equal(leat_msg_cancel(&rx[1]), -ENOENT);
	mm_arrive(&mm, 0, DATA_TAG(1), "2222", 4);
	mm_drive(&mm);

	/*
	 * tx[CREDITS] is cancelled before it has begun: it is never sent, and the next send gets
	 * its id.
	 */
	mm.nb_back = 0;
	for (i = 0; i < CREDITS + 2; i++)
		mm_send(c, &tx[i], "", 0);
	assert_int_equal(mm_count(LEAT_OP_TSEND), CREDITS);
	assert_int_equal(leat_msg_cancel(&tx[0]), -EOPNOTSUPP);
	assert_int_equal(leat_msg_cancel(&tx[CREDITS]), 0);
	for (i = 0; i < CREDITS + 1; i++) {
		mm_sent(&mm, 0, LEN_TAG(i), "\0\0\0\0\0\0\0\0", 8);
		mm_drive(&mm);
	}
	assert_int_equal(mm.nb_back, CREDITS + 2);
	for (i = 0; i < CREDITS + 2; i++) {
		assert_ptr_equal(mm.back[i], &tx[i]);
		assert_int_equal(tx[i].status, i == CREDITS ? -ECANCELED : 0);
	}
	mm_close(&mm, &c, 1);
}

/*
 * leat_msg_process() leaves ops of the application alone. Invalid requests come back in the order
 * of posting, with their reasons.
 */
static void
test_beside(void **state)
{
	struct leat_op own = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY }, *ops = &own;
	struct leat_msg_req tx[2], *again = &tx[1];
	struct leat_msg_conn *c;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_connect(&mm, &plain, NULL, 0);
	assert_int_equal(leat_ep_post(mm.ep, &ops, 1), 1);
	mm_send(c, &tx[0], NULL, 10);
	mm_send(c, &tx[1], "", (2u << 20));
	assert_int_equal(leat_msg_send(c, &again, 1), 0);
	assert_int_equal(rte_errno, EALREADY);
	mm_finish(&mm, &own, 0, 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_rest, 1);
	assert_ptr_equal(mm.rest[0], &own);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(tx[0].status, -EINVAL);
	assert_int_equal(tx[1].status, -EMSGSIZE);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

/*
 * The endpoint has room for one send at a time, for which four connections wait. Of 32 sends each
 * connection must get at least 6.
 */
static void
test_room_in_turn(void **state)
{
	struct leat_msg_req tx[4][12];
	struct leat_msg_conn *c[4];
	unsigned int i, k, turn, sent[4] = { 0 };
	struct mm mm;

	(void)state;
	mm_open(&mm);
	mock.tx_max = 1;
	for (i = 0; i < 4; i++)
		c[i] = mm_connect(&mm, &plain, NULL, 0);
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 12; k++)
			mm_send(c[i], &tx[i][k], NULL, 0);
	}
	for (turn = 0; turn < 32; turn++) {
		assert_int_equal(mm_count(LEAT_OP_TSEND), 1);
		for (k = 0; mock.ops[k]->type != LEAT_OP_TSEND; k++)
			;
		sent[mock.ops[k]->peer]++;
		mock_finish(mm.ep, k, 0, 8);
		mm_drive(&mm);
	}
	for (i = 0; i < 4; i++) {
		if (sent[i] < 6)
			fail_msg("connection %u sent %u of %u", i, sent[i], turn);
	}
	mm.nb_back = 0;
	mm_close(&mm, c, 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send_bytes),
		cmocka_unit_test(test_recv_any_order),
		cmocka_unit_test(test_any_id),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_length_of_other_size),
		cmocka_unit_test(test_alloc),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_place_is_used_again),
		cmocka_unit_test(test_op_error),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_room_in_turn),
	};

	return cmocka_run_group_tests_name("msg_plain", tests, mm_start, mm_stop);
}
