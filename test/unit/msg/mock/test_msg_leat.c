/* SPDX-License-Identifier: BSD-3-Clause */

/* Leat mode, byte by byte, over the mock driver. */

#include <string.h>

#include "msg_mock.h"

static void
test_eager_bytes(void **state)
{
	/* length 5, credit to id 4 (all receives are posted), nothing granted */
	static const uint8_t m0[] = { 5, 0, 0, 0, 0, 0,	  0,   0,   4,	 0,  0,
				      0, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o' };
	static const uint8_t m1[] = { 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0 };
	struct leat_msg_req tx[3];
	struct leat_msg_conn *c;
	char text[8] = "hello";
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	assert_int_equal(mm_count(LEAT_OP_TRECV), CREDITS + 2);
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, 0)));
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, CREDITS - 1)));
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(3, base, 0)));
	assert_int_equal(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, 0))->ignore, 0);

	mm_send(c, &tx[0], text, 5);
	mm_send(c, &tx[1], NULL, 0);
	mm_send(c, &tx[2], NULL, 0);
	/* tx[0] is copied, so it comes back before its op, but not within leat_msg_send(). */
	assert_int_not_equal(tx[0].state, 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	memset(text, 0, sizeof(text));
	/* With two credits, two of the three messages are sent. */
	assert_int_equal(mm_count(LEAT_OP_TSEND), 2);
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 0), m0, sizeof(m0));
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 1), m1, sizeof(m1));
	mm_drive(&mm);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	/* A control message: credit to id 3, which is one more. */
	mm_arrive(&mm, 0, MM_TAG(3, base, 0), "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	mm_drive(&mm);
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 2), m1, sizeof(m1));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(3, base, 2)));
	mm_close(&mm, &c, 1);
}

/* Append a message to the send in mm_in. @return the number of all bytes */
static uint64_t
behind(uint64_t n, uint64_t len, const char *data)
{
	uint64_t le = rte_cpu_to_le_64(len);

	memcpy(mm_in + n, &le, 8);
	memcpy(mm_in + n + 8, data, strlen(data) + 1);
	return n + 8 + strlen(data);
}

static void
send_together(struct leat_msg_conn *c, struct leat_msg_req *tx, const char *const *text,
	      unsigned int n)
{
	struct leat_msg_req *reqs[8];
	unsigned int i;

	for (i = 0; i < n; i++) {
		tx[i] = (struct leat_msg_req){ .buf = (void *)(uintptr_t)text[i],
					       .size = strlen(text[i]) };
		reqs[i] = &tx[i];
	}
	assert_int_equal(leat_msg_send(c, reqs, (uint16_t)n), n);
}

static void
test_together_bytes(void **state)
{
	/* One send of three messages: a head of 16 B, and 64 B, the most the other side takes. */
	static const uint8_t m0[80] = {
		2,   0,	  0, 0, 0, 0, 0, 0, 4,	0, 0, 0, 0, 0, 0, 0, /* head */
		'a', 'b', /* first message; then an empty message, and one of 46 B */
		0,   0,	  0, 0, 0, 0, 0, 0, 46, 0, 0, 0, 0, 0, 0, 0, [34 ... 79] = 'x',
	};
	static const uint8_t m1[] = { 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'c' };
	static const uint8_t m2[] = { 1, 0, 0, 0,   0, 0, 0, 0, 4, 0, 0, 0, 0,
				      0, 0, 0, '1', 1, 0, 0, 0, 0, 0, 0, 0, '3' };
	static const char *const text[] = {
		"ab",
		"",
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"c",
	};
	static const char *const later[] = { "1", "2", "3" };
	struct leat_msg_req tx[4], tx2[3];
	struct leat_msg_conn *c;
	uint64_t base;
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	send_together(c, tx, text, 4);
	send_together(c, tx2, later, 3); /* without credit: these wait */
	assert_int_equal(mm_count(LEAT_OP_TSEND), 2);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	for (i = 0; i < 4; i++) {
		assert_ptr_equal(mm.back[i], &tx[i]);
		assert_int_equal(tx[i].status, 0);
		assert_int_equal(tx[i].len, strlen(text[i]));
	}
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 0), m0, sizeof(m0));
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 1), m1, sizeof(m1));
	/* One of the waiting sends is cancelled, and the others go without it. */
	assert_int_equal(leat_msg_cancel(&tx2[1]), 0);
	mm_arrive(&mm, 0, MM_TAG(3, base, 0), "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 7);
	for (i = 0; i < 3; i++) {
		assert_ptr_equal(mm.back[4 + i], &tx2[i]);
		assert_int_equal(tx2[i].status, i == 1 ? -ECANCELED : 0);
	}
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 2), m2, sizeof(m2));
	mm_close(&mm, &c, 1);
}

static void
test_recv_together(void **state)
{
	struct leat_msg_req rx[5];
	struct leat_msg_stats stats;
	struct leat_msg_conn *c;
	char buf[5][8];
	uint64_t base, n;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	/* The second send arrives first. Two of the first send's three messages find a request. */
	n = behind(mm_head(4, 2, 0, "four"), 4, "five");
	mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
	mm_recv(c, &rx[0], buf[0], 8);
	mm_recv(c, &rx[1], buf[1], 8);
	n = behind(behind(mm_head(3, 2, 0, "one"), 0, ""), 5, "three");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_memory_equal(buf[0], "one", 3);
	assert_int_equal(rx[1].len, 0);
	leat_msg_stats_get(mm.m, &stats);
	assert_int_equal(stats.held, 2);
	mm_recv(c, &rx[2], buf[2], 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_memory_equal(buf[2], "three", 5);
	mm_recv(c, &rx[3], buf[3], 8);
	mm_drive(&mm);
	assert_memory_equal(buf[3], "four", 4);
	/* The last message can be received after the connection's end. */
	mm_peer_ends(&mm, 0, 0);
	mm_drive(&mm);
	mm_recv(c, &rx[4], buf[4], 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 5);
	assert_int_equal(rx[4].status, 0);
	assert_memory_equal(buf[4], "five", 4);
	mm_recv(c, &rx[0], buf[0], 8);
	mm_drive(&mm);
	assert_int_equal(rx[0].status, -ENOTCONN);
	leat_msg_stats_get(mm.m, &stats);
	assert_int_equal(stats.held, 0);
	assert_int_equal(stats.received, 5);
	assert_int_equal(stats.recv_bytes, 3 + 0 + 5 + 4 + 4);
	mm_close(&mm, &c, 1);
}

/* A message fits into one send, but is longer than the receiver's max_size: its connection ends. */
static void
test_small_limit(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT, .max_size = 4 };
	struct leat_msg_conn *c[2];
	struct leat_msg_req rx[2];
	char buf[2][8];
	uint64_t n;
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	for (i = 0; i < 2; i++) {
		c[i] = mm_connect(&mm, &conf, mm_hello, sizeof(mm_hello));
		mm_recv(c[i], &rx[i], buf[i], 8);
	}
	n = mm_head(5, 2, 0, "three");
	mm_arrive(&mm, 0, MM_TAG(1, mm_base(0), 0), mm_in, n);
	n = behind(mm_head(4, 2, 0, "four"), 5, "seven");
	mm_arrive(&mm, 1, MM_TAG(1, mm_base(1), 0), mm_in, n);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 2);
	assert_int_equal(mm.ev.status, -EMSGSIZE);
	assert_int_equal(rx[0].status, -EMSGSIZE);
	assert_int_equal(rx[1].status, -EMSGSIZE);
	mm_close(&mm, c, 2);
}

static void
test_large_bytes(void **state)
{
	/* length 65, credit to id 4, nothing granted */
	static const uint8_t m0[] = { 65, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t small[] = { 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'x' };
	static uint8_t data[65];
	struct leat_msg_req tx[2];
	struct leat_msg_conn *c;
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_send(c, &tx[0], data, sizeof(data));
	mm_send(c, &tx[1], "x", 1);
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 0), m0, sizeof(m0));
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 1), small, sizeof(small));
	mm_drive(&mm);
	/* tx[1] was sent, but comes back only after tx[0], whose payload waits for its grant. */
	assert_int_equal(mm.nb_back, 0);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	assert_int_equal(leat_msg_cancel(&tx[0]), -EOPNOTSUPP);
	mm_arrive(&mm, 0, MM_TAG(3, base, 0), "\2\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16);
	mm_drive(&mm);
	assert_ptr_equal(mm_posted(0, LEAT_OP_TSEND, MM_TAG(2, MM_THERE, 0))->buf, data);
	mm_sent(&mm, 0, MM_TAG(2, MM_THERE, 0), data, sizeof(data));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_ptr_equal(mm.back[0], &tx[0]);
	mm_close(&mm, &c, 1);
}

static void
test_recv_bytes(void **state)
{
	/* control message: credit for messages up to id 6, payloads granted up to id 3 */
	static const uint8_t ctrl0[16] = { 6, 0, 0, 0, 3 };
	struct leat_msg_req rx[3];
	struct leat_msg_conn *c;
	char small[2][8], big[100];
	uint64_t base, n;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	/* The heads arrive out of order, before a request is posted; no payload arrives. */
	n = mm_head(3, 2, 0, "two");
	mm_arrive(&mm, 0, MM_TAG(1, base, 1), mm_in, n);
	n = mm_head(99, 2, 0, "");
	mm_arrive(&mm, 0, MM_TAG(1, base, 2), mm_in, n);
	n = mm_head(3, 2, 0, "one");
	mm_arrive(&mm, 0, MM_TAG(1, base, 0), mm_in, n);
	mm_drive(&mm);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0); /* no slot was freed */
	mm_recv(c, &rx[0], small[0], 8);
	mm_recv(c, &rx[1], small[1], 8);
	mm_recv(c, &rx[2], big, sizeof(big));
	assert_int_not_equal(rx[0].state, 0);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_memory_equal(small[0], "one", 3);
	assert_memory_equal(small[1], "two", 3);
	assert_int_equal(mm_posted(0, LEAT_OP_TRECV, MM_TAG(2, base, 2))->size, 99);
	assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, 5)));
	mm_sent(&mm, 0, MM_TAG(3, MM_THERE, 0), ctrl0, sizeof(ctrl0));
	memset(mm_in, 'z', 99);
	mm_arrive(&mm, 0, MM_TAG(2, base, 2), mm_in, 99);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_memory_equal(big, mm_in, 99);
	/* One free slot is not worth a control message. */
	assert_int_equal(mm_count(LEAT_OP_TSEND), 0);
	mm_close(&mm, &c, 1);
}

/* Complete control messages from id *next on. @return the last one's credit, else told */
static uint32_t
controls(struct mm *mm, uint32_t *next, uint32_t told)
{
	struct leat_op *op;
	uint32_t le;

	while ((op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, *next))) != NULL) {
		memcpy(&le, op->buf, sizeof(le));
		told = rte_le_to_cpu_32(le);
		mm_finish(mm, op, 0, op->size);
		mm_drive(mm);
		++*next;
	}
	return told;
}

/* After long messages 13 to 16 receives are posted, with new credit; after a small one 64. */
static void
test_window_of_long_ones(void **state)
{
	static uint8_t data[64 << 10];
	uint32_t id, told = 64, next = 0;
	struct leat_msg_conn *c;
	struct leat_msg_req rx;
	uint64_t base, n;
	struct mm mm;

	(void)state;
	mm_open_with(&mm, 64, 1);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	for (id = 0; id < 60; id++) {
		mm_recv(c, &rx, data, sizeof(data));
		n = mm_head(sizeof(data), 2, 0, "");
		mm_arrive(&mm, 0, MM_TAG(1, base, id), mm_in, n);
		mm_drive(&mm);
		told = controls(&mm, &next, told);
		mm_arrive(&mm, 0, MM_TAG(2, base, id), data, sizeof(data));
		mm_drive(&mm);
		mm_drive(&mm);
		told = controls(&mm, &next, told);
		assert_int_equal(mm.nb_back, id + 1);
		assert_true(told > id + 1 && told <= id + 1 + 64);
		n = mm_count(LEAT_OP_TRECV) - 2;
		assert_true(n == 63 - id || (63 - id < 16 && n > 12 && n <= 16));
	}
	mm_recv(c, &rx, data, 1);
	n = mm_head(1, 2, 0, "x");
	mm_arrive(&mm, 0, MM_TAG(1, base, id), mm_in, n);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm_count(LEAT_OP_TRECV), 64 + 2);
	assert_int_equal(controls(&mm, &next, told), id + 1 + 64);
	assert_int_equal(mm.nb_back, id + 1);
	mm_close(&mm, &c, 1);
}

/*
 * Three messages arrive in reverse order, and no other message comes. The first of them, which
 * arrives last, goes straight to its request. The sender has so much credit that no receive needs
 * to be posted. The two other messages must not wait until one is.
 */
static void
test_front_arrives_last(void **state)
{
	static const char *const text[] = { "one", "two", "three" };
	struct leat_msg_req rx[3];
	struct leat_msg_conn *c;
	char buf[3][8];
	uint64_t base;
	struct mm mm;
	unsigned int i;

	(void)state;
	mm_open_with(&mm, 16, 1);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	for (i = 0; i < 3; i++)
		mm_recv(c, &rx[i], buf[i], sizeof(buf[i]));
	for (i = 3; i-- > 0;) {
		uint64_t n = mm_head(strlen(text[i]), 2, 0, text[i]);

		assert_int_equal(mm.nb_back, 0);
		mm_arrive(&mm, 0, MM_TAG(1, base, i), mm_in, n);
		mm_drive(&mm);
	}
	assert_int_equal(mm.nb_back, 3);
	for (i = 0; i < 3; i++) {
		assert_ptr_equal(mm.back[i], &rx[i]);
		assert_int_equal(rx[i].status, 0);
		assert_int_equal(rx[i].len, strlen(text[i]));
		assert_memory_equal(buf[i], text[i], strlen(text[i]));
	}
	mm_close(&mm, &c, 1);
}

static void
test_wrap(void **state)
{
	const uint32_t first = 0xfffffffd;
	struct leat_msg_req tx[8], rx[8];
	struct leat_msg_conn *c;
	uint64_t base, n;
	char buf[8];
	struct mm mm;
	uint32_t i;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, first);
	base = mm_base(0);
	for (i = 0; i < 8; i++) {
		struct leat_op *op;

		mm_recv(c, &rx[i], &buf[i], 1);
		mm_send(c, &tx[i], "x", 1);
		n = mm_head(1, first + i + 2, first, "y");
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, (uint32_t)(first + i)));
		assert_non_null(op);
		mm_finish(&mm, op, 0, op->size);
		mm_arrive(&mm, 0, MM_TAG(1, base, (uint32_t)(first + i)), mm_in, n);
		mm_drive(&mm);
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, (uint32_t)(first + i / 2)));
		if (op != NULL)
			mm_finish(&mm, op, 0, op->size);
		assert_int_equal(mm.nb_back, 2 * i + 2);
		assert_int_equal(rx[i].len, 1);
	}
	mm_close(&mm, &c, 1);
}

/* A message of an ended connection matches no receive, even 2^14 connections later. */
static void
test_old_connection(void **state)
{
	struct leat_msg_conn *c;
	struct leat_op *op;
	struct mm mm;
	uint64_t old;
	unsigned int i;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	old = mm_base(leat_msg_conn_peer(c));
	for (i = 0; i <= 1u << 14; i++) {
		unsigned int kind;

		assert_int_equal(leat_msg_close(c, 0), 0);
		mm.nb_ev[LEAT_MSG_CLOSED] = 0;
		while (mm.nb_ev[LEAT_MSG_CLOSED] == 0)
			mm_drive(&mm);
		assert_ptr_equal(mm_open_leat(&mm, 0), c);
		for (kind = 1; kind <= 3; kind++) {
			op = mm_meets(leat_msg_conn_peer(c), MM_TAG(kind, old, 0));
			if (op != NULL)
				fail_msg("connection %u receives the first one's kind %u", i, kind);
		}
	}
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
	mm_close(&mm, &c, 1);
}

/* Contexts may share an endpoint, so connection numbers go on from one context to the next. */
static void
test_old_context(void **state)
{
	struct leat_msg_conn *c;
	uint64_t old, next;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	old = mm_base(0);
	mm_close(&mm, &c, 1);
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	next = mm_base(0);
	assert_int_equal((next - old) >> 16 & ((UINT64_C(1) << 46) - 1), 1);
	mm_close(&mm, &c, 1);
}

/* Ids wrap at 2^16 in tags, and at 2^32 in heads. */
static void
test_ids_in_tags(void **state)
{
	static const uint32_t firsts[] = { 0xfffe, 0xfffffffe };
	struct leat_msg_req tx[2];
	struct leat_msg_conn *c;
	uint64_t base;
	unsigned int i;
	struct mm mm;

	(void)state;
	for (i = 0; i < RTE_DIM(firsts); i++) {
		mm_open(&mm);
		c = mm_open_leat(&mm, firsts[i]);
		base = mm_base(0);
		assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, 0xfffe)));
		assert_non_null(mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, 1)));
		mm_send(c, &tx[0], NULL, 0);
		mm_drive(&mm);
		mm_send(c, &tx[1], NULL, 0);
		assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0xfffe)));
		assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0xffff)));
		assert_int_equal(mock.ops[mock.nb_ops - 1]->size, 16);
		assert_int_equal(((const uint8_t *)mock.ops[mock.nb_ops - 1]->buf)[10],
				 i == 0 ? 1 : 0);
		mm_close(&mm, &c, 1);
	}
}

static void
test_tags_differ(void **state)
{
	struct leat_msg_conn *c[2], *third;
	uint64_t base[3];
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c[0] = mm_open_leat(&mm, 0);
	c[1] = mm_open_leat(&mm, 0);
	base[0] = mm_base(0);
	base[1] = mm_base(1);
	assert_int_not_equal(base[0], base[1]);
	assert_int_equal(leat_msg_close(c[0], 0), 0);
	while (mm.nb_ev[LEAT_MSG_CLOSED] == 0)
		mm_drive(&mm);
	third = mm_open_leat(&mm, 0);
	assert_ptr_equal(third, c[0]);
	base[2] = mm_base(leat_msg_conn_peer(third));
	assert_int_not_equal(base[0], base[2]);
	assert_int_not_equal(base[1], base[2]);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
	mm_close(&mm, c, 2);
}

static void
broken(const void *data, uint64_t len, unsigned int kind, int status)
{
	struct leat_msg_conn *c[2];
	struct leat_msg_req other;
	char buf[8];
	uint64_t n;
	struct mm mm;

	mm_open(&mm);
	c[0] = mm_open_leat(&mm, 0);
	c[1] = mm_open_leat(&mm, 0);
	mm_recv(c[1], &other, buf, sizeof(buf));
	mm_arrive(&mm, 0, MM_TAG(kind, mm_base(0), 0), data, len);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_ptr_equal(mm.ev.conn, c[0]);
	assert_int_equal(mm.ev.status, status);
	/* Texts about a message name its id, without the other bits of its tag. */
	if (kind == 1 && strstr(mm.ev.text, "credit") == NULL)
		assert_true(strstr(mm.ev.text, ": message 0:") != NULL ||
			    strstr(mm.ev.text, ": message 0 ") != NULL);
	n = mm_head(2, 2, 0, "ok");
	mm_arrive(&mm, 1, MM_TAG(1, mm_base(1), 0), mm_in, n);
	mm_drive(&mm);
	assert_int_equal(other.status, 0);
	assert_int_equal(other.len, 2);
	mm_close(&mm, c, 2);
}

static void
test_hostile(void **state)
{
	uint64_t n;

	(void)state;
	broken("short", 5, 1, -EPROTO);
	n = mm_head(UINT64_C(1) << 63, 2, 0, "");
	broken(mm_in, n, 1, -EMSGSIZE);
	n = mm_head(4, 2, 0, "three");
	broken(mm_in, n, 1, -EPROTO);
	n = mm_head(65, 2, 0, "large, but with bytes");
	broken(mm_in, n, 1, -EPROTO);
	n = mm_head(1, 0x7fff, 0, "x"); /* more credit than possible */
	broken(mm_in, n, 1, -EPROTO);
	n = mm_head(1, 2, 1, "x"); /* grants an unsent message */
	broken(mm_in, n, 1, -EPROTO);
	broken("\2\0\0\0\1\0\0\0", 8, 3, -EPROTO);
	broken("\2\0\0\0", 4, 3, -EPROTO);
	broken("\2\0\0\0\0\0\0\0\0", 9, 3, -EPROTO);
	n = mm_head(64, 2, 0, "");
	memset(mm_in + n, 'x', 112 - n);
	broken(mm_in, 112, 1, -EPROTO);
	/*
	 * After a valid message come, in turn: too few bytes for a length; a length close to 2^64;
	 * and, after a second message, a length of 2^63.
	 */
	n = mm_head(1, 2, 0, "x and so");
	broken(mm_in, n, 1, -EPROTO);
	n = behind(mm_head(1, 2, 0, "x"), 4, "yyy");
	broken(mm_in, n, 1, -EPROTO);
	n = behind(mm_head(1, 2, 0, "x"), UINT64_MAX - 7, "y");
	broken(mm_in, n, 1, -EPROTO);
	n = behind(behind(mm_head(1, 2, 0, "x"), 1, "y"), UINT64_C(1) << 63, "");
	broken(mm_in, n, 1, -EPROTO);
}

static void
test_hello(void **state)
{
	const struct leat_msg_conn_conf must = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *c[3];
	uint8_t bad[sizeof(mm_hello)];
	struct leat_event ev = { .type = LEAT_EV_CONNECTED };
	uint16_t len;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	/* Without the other side's hello the mode is plain, unless conf allows only leat mode. */
	c[0] = mm_connect(&mm, NULL, "hi there", 8);
	assert_int_equal(leat_msg_conn_mode(c[0]), LEAT_MSG_PLAIN);
	c[1] = mm_refused(&mm, &must, NULL, 0);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, -EPROTONOSUPPORT);
	/* A malformed hello, which offers 1 credit. */
	memcpy(bad, mm_hello, sizeof(bad));
	bad[6] = 1;
	c[2] = mm_refused(&mm, NULL, bad, sizeof(bad));
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 2);
	assert_int_equal(mm.ev.status, -EPROTO);

	memcpy(ev.priv, mm_hello, sizeof(mm_hello));
	ev.priv_len = sizeof(mm_hello);
	assert_memory_equal(leat_msg_priv(&ev, &len), "hi", 2);
	assert_int_equal(len, 2);
	ev.priv[4] = 1; /* a version that this side does not speak */
	assert_ptr_equal(leat_msg_priv(&ev, &len), ev.priv);
	assert_int_equal(len, sizeof(mm_hello));
	mm_close(&mm, c, 3);
}

/* After the other side has closed cleanly, messages that arrived can still be received. */
static void
test_received_after_end(void **state)
{
	struct leat_msg_req rx[3];
	struct leat_msg_conn *c;
	char buf[3][8];
	uint64_t n;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	n = mm_head(3, 2, 0, "one");
	mm_arrive(&mm, 0, MM_TAG(1, mm_base(0), 0), mm_in, n);
	n = mm_head(3, 2, 0, "two");
	mm_arrive(&mm, 0, MM_TAG(1, mm_base(0), 1), mm_in, n);
	mm_peer_ends(&mm, 0, 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, 0);
	mm_recv(c, &rx[0], buf[0], 8);
	mm_recv(c, &rx[1], buf[1], 8);
	mm_recv(c, &rx[2], buf[2], 8);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(rx[0].status, 0);
	assert_memory_equal(buf[0], "one", 3);
	assert_memory_equal(buf[1], "two", 3);
	assert_int_equal(rx[2].status, -ENOTCONN);
	mm_close(&mm, &c, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eager_bytes),
		cmocka_unit_test(test_large_bytes),
		cmocka_unit_test(test_together_bytes),
		cmocka_unit_test(test_recv_together),
		cmocka_unit_test(test_small_limit),
		cmocka_unit_test(test_recv_bytes),
		cmocka_unit_test(test_window_of_long_ones),
		cmocka_unit_test(test_front_arrives_last),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_tags_differ),
		cmocka_unit_test(test_old_connection),
		cmocka_unit_test(test_old_context),
		cmocka_unit_test(test_ids_in_tags),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_received_after_end),
	};

	return cmocka_run_group_tests_name("msg_leat", tests, mm_start, mm_stop);
}
