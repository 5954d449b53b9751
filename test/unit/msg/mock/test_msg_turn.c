/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Leat mode: small messages that are posted one by one in a turn travel together, and a single one
 * leaves at once. (A turn ends when leat_msg_poll() finds nothing done, or by leat_msg_flush().) A
 * send to the other side may have 64 B, which is four messages of 8 B.
 */

#include <string.h>

#include "msg_mock.h"

static struct mm mm;
static struct leat_msg_conn *conns[2], *c;
static uint64_t base;
static uint32_t next_in; /* id of the next message from the other side */
static struct leat_msg_req rx[8], tx[16];
static char in[8][16];

static int
setup(void **state)
{
	unsigned int i;

	(void)state;
	mm_open_with(&mm, 16, 2);
	c = conns[0] = mm_open_leat(&mm, 0);
	conns[1] = mm_open_leat(&mm, 0);
	base = mm_base(0);
	next_in = 0;
	memset(tx, 0, sizeof(tx));
	for (i = 0; i < 8; i++)
		mm_recv(c, &rx[i], in[i], sizeof(in[i]));
	mm_drive(&mm);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	mm_close(&mm, conns, 2);
	return 0;
}

static void
sends(unsigned int first, unsigned int n)
{
	static char text[] = "8 bytes.";
	unsigned int i;

	for (i = first; i < first + n; i++) {
		struct leat_msg_req *req = &tx[i];

		*req = (struct leat_msg_req){ .buf = text, .size = 8 };
		assert_int_equal(leat_msg_send(c, &req, 1), 1);
	}
}

/* Check that the send with that id has n messages of 8 B; n == 0: that it is not posted. */
static void
together(uint32_t id, unsigned int n)
{
	const struct leat_op *op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, id));

	assert_int_equal(op == NULL ? 0 : op->size, n == 0 ? 0 : 16 + 8 + (n - 1) * 16);
}

/* Let n messages arrive at once. They bring credit for all sends of a test. */
static void
arrive(unsigned int n)
{
	struct leat_op *ops[8];
	unsigned int i;

	for (i = 0; i < n; i++) {
		const uint64_t len = mm_head(8, 100, 0, "8 bytes.");

		mm_arrive(&mm, 0, MM_TAG(1, base, next_in++), mm_in, len);
	}
	assert_int_equal(leat_ep_poll(mm.ep, ops, RTE_DIM(ops)), n);
	assert_int_equal(leat_msg_process(mm.m, ops, (uint16_t)n), 0);
}

/* @return number of requests from leat_msg_poll(), of at most n */
static uint16_t
polls(uint16_t n)
{
	struct leat_msg_req *back[16];

	assert_true(n <= RTE_DIM(back));
	return leat_msg_poll(mm.m, back, n);
}

/*
 * Receive a question and send its answer, as in a conversation of one message at a time. The next
 * send has id 1.
 */
static void
converse(void)
{
	arrive(1);
	assert_int_equal(polls(8), 1);
	sends(0, 1);
	together(0, 0);
	assert_int_equal(polls(8), 1);
	together(0, 1);
	assert_int_equal(polls(8), 0);
}

/*
 * Messages that a client posts in its first turn are sent together when it has nothing else to do.
 */
static void
test_first_turn(void **state)
{
	(void)state;
	sends(0, 4);
	together(0, 0);
	assert_int_equal(polls(8), 4);
	together(0, 4);
}

static void
test_conversation(void **state)
{
	uint32_t i;

	(void)state;
	converse();
	for (i = 1; i < 4; i++) {
		arrive(1);
		assert_int_equal(polls(8), 1);
		sends(i, 1);
		together(i, 1);
		assert_int_equal(polls(8), 1);
	}
}

/* Of three messages in a turn the first leaves at once, as the answer; the other two wait. */
static void
test_more_than_the_answer(void **state)
{
	(void)state;
	converse();
	arrive(1);
	assert_int_equal(polls(8), 1);
	sends(1, 3);
	together(1, 1);
	together(2, 0);
	assert_int_equal(polls(8), 1); /* the first message's send is complete */
	assert_int_equal(polls(8), 2);
	together(2, 2);
}

/* An application that got three messages posts three answers: they leave with the third. */
static void
test_answers(void **state)
{
	(void)state;
	converse();
	arrive(3);
	assert_int_equal(polls(8), 3);
	sends(1, 2);
	together(1, 0);
	sends(3, 1);
	together(1, 3);
	/* Messages after the answers wait for the end of the turn. */
	sends(4, 1);
	together(2, 0);
	assert_int_equal(polls(8), 3);
	together(2, 0);
	assert_int_equal(polls(8), 1);
	together(2, 1);
}

/* If only two of three messages are answered, the answers leave at the end of the turn. */
static void
test_fewer_answers(void **state)
{
	(void)state;
	converse();
	arrive(3);
	assert_int_equal(polls(8), 3);
	sends(1, 2);
	together(1, 0);
	assert_int_equal(polls(8), 2);
	together(1, 2);
}

/* An application takes three messages one by one: the three answers go together, after the last. */
static void
test_one_by_one(void **state)
{
	unsigned int i;

	(void)state;
	converse();
	arrive(3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(polls(1), 1);
		together(1, 0);
		sends(1 + i, 1);
	}
	together(1, 3);
	assert_int_equal(polls(8), 3);
}

/* Messages that fill a send do not wait for more. */
static void
test_full(void **state)
{
	(void)state;
	converse();
	arrive(1);
	assert_int_equal(polls(8), 1);
	sends(1, 6); /* one message at once, then five */
	together(1, 1);
	together(2, 4);
	together(3, 0);
	assert_int_equal(polls(8), 5);
	leat_msg_flush(mm.m);
	together(3, 1);
	assert_int_equal(polls(8), 1);
	leat_msg_flush(mm.m);
	assert_int_equal(polls(8), 0);
}

/* Even if each poll finds requests done, messages wait for at most two such polls. */
static void
test_busy(void **state)
{
	unsigned int i;

	(void)state;
	converse();
	arrive(1);
	assert_int_equal(polls(8), 1);
	sends(1, 2);
	for (i = 0; i < 3; i++) {
		together(2, i < 2 ? 0 : 1);
		arrive(1);
		assert_true(polls(8) > 0);
	}
	together(2, 1);
}

/* Waiting messages also go if the application never takes all completed requests. */
static void
test_busy_one_by_one(void **state)
{
	unsigned int i, k;

	(void)state;
	converse();
	mm_recv(c, &rx[0], in[0], sizeof(in[0]));
	arrive(2);
	assert_int_equal(polls(1), 1);
	sends(1, 1);
	for (i = 0; i < 200 && mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 1)) == NULL; i++) {
		/* Two requests fail at once and one is taken, so that one is always left. */
		for (k = 0; k < 2; k++) {
			struct leat_msg_req *req = &tx[2 + (2 * i + k) % 14];

			if (req->state != 0)
				continue;
			*req = (struct leat_msg_req){ .size = 8 };
			assert_int_equal(leat_msg_send(conns[1], &req, 1), 1);
		}
		assert_int_equal(polls(1), 1);
	}
	together(1, 1);
	while (polls(8) > 0)
		;
}

/* Waiting messages go before a message that is large, or is posted with others. */
static void
test_order(void **state)
{
	struct leat_msg_req *reqs[2] = { &tx[3], &tx[4] };
	static char data[1000];

	(void)state;
	converse();
	arrive(3);
	assert_int_equal(polls(8), 3);
	sends(1, 2);
	tx[3] = tx[4] = (struct leat_msg_req){ .buf = data, .size = 8 };
	assert_int_equal(leat_msg_send(c, reqs, 2), 2);
	together(1, 4);
	sends(5, 1);
	together(2, 0);
	reqs[0] = &tx[6];
	tx[6] = (struct leat_msg_req){ .buf = data, .size = sizeof(data) };
	assert_int_equal(leat_msg_send(c, reqs, 1), 1);
	together(2, 1);
	assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 3)));
	assert_int_equal(polls(8), 5);
	assert_int_equal(leat_msg_close(c, 0), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(tx[6].status, -ETIMEDOUT);
	conns[0] = mm_open_leat(&mm, 0);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

/* A waiting message can be cancelled. */
static void
test_cancel(void **state)
{
	(void)state;
	converse();
	arrive(4);
	assert_int_equal(polls(8), 4);
	sends(1, 3);
	assert_int_equal(leat_msg_cancel(&tx[2]), 0);
	assert_int_equal(polls(8), 3);
	together(1, 2);
	assert_int_equal(tx[1].status, 0);
	assert_int_equal(tx[2].status, -ECANCELED);
	assert_int_equal(tx[3].status, 0);
}

/*
 * The application takes one request per poll, and one more is done each time, so each of these
 * polls leaves a request behind. However many they are, a message that is posted meanwhile waits.
 */
static void
test_one_at_a_time(void **state)
{
	unsigned int i;

	(void)state;
	converse();
	arrive(1);
	assert_int_equal(polls(8), 1);
	sends(1, 2);
	together(1, 1);
	together(2, 0);
	assert_int_equal(leat_msg_cancel(&tx[2]), 0);
	assert_int_equal(polls(1), 1);
	for (i = 0; i < 600; i++) {
		struct leat_msg_req *req = &tx[3 + i % 4];

		sends(3 + i % 4, 1);
		together(2, 0);
		assert_int_equal(leat_msg_cancel(req), 0);
		assert_int_equal(polls(1), 1);
	}
	assert_int_equal(polls(8), 1);
}

/* Closing sends waiting messages. */
static void
test_close(void **state)
{
	const struct leat_op *op;

	(void)state;
	converse();
	arrive(3);
	assert_int_equal(polls(8), 3);
	sends(1, 2);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	assert_int_equal(polls(8), 2);
	together(1, 2);
	op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 1));
	if (op == NULL)
		return;
	mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0)), 0, 24);
	mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 1)), 0, op->size);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(tx[2].status, 0);
	conns[0] = mm_open_leat(&mm, 0);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

/* When the connection ends, messages that wait come back with its status, once. */
static void
test_end(void **state)
{
	(void)state;
	converse();
	arrive(3);
	assert_int_equal(polls(8), 3);
	sends(1, 2);
	mm.nb_back = 0;
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2 + 4);
	assert_int_equal(tx[1].status, -ECONNRESET);
	assert_int_equal(tx[2].status, -ECONNRESET);
}

/* @return the number of posted receives for messages */
static unsigned int
heads(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_TRECV && mock.ops[i]->tag >> 62 == 1;
	return n;
}

/* Let control message number id arrive. */
static void
control(uint32_t id, uint8_t kind)
{
	const uint8_t ctrl[16] = { [0] = 2, [8] = kind };

	mm_arrive(&mm, 0, MM_TAG(3, mm_base(0), id), ctrl, sizeof(ctrl));
	mm_drive(&mm);
}

/*
 * With 256 credits 64 receives are posted at first. Each time the other side asks for more, their
 * number doubles, up to 256.
 */
static void
test_more_receives(void **state)
{
	struct leat_msg_conn *one;
	uint32_t i;

	(void)state;
	mm_open_with(&mm, 256, 1);
	one = mm_open_leat(&mm, 0);
	assert_int_equal(heads(), 64);
	for (i = 0; i < 4; i++) {
		control(i, 4);
		assert_int_equal(heads(), i == 0 ? 128 : 256);
	}
	control(4, 200); /* no such kind exists */
	for (i = 0; i < 8; i++)
		mm_drive(&mm); /* 64 ops at a time come back */
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, -EPROTO);
	mm_close(&mm, &one, 1);
}

/*
 * The other side has 64 receives posted. This side asks for more when its messages have used up
 * these 64, and again when they have used up the next 128.
 */
static void
test_asks_for_more(void **state)
{
	static const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	static struct leat_msg_req reqs[600];
	uint8_t hello[MM_HELLO_LEN];
	const struct leat_op *op;
	unsigned int i, asked = 0, credit, ctrls = 0;

	(void)state;
	memcpy(hello, mm_hello, sizeof(hello));
	hello[6] = 64;
	mm_open_with(&mm, 16, 1);
	c = mm_connect(&mm, &conf, hello, sizeof(hello));
	base = mm_base(0);
	for (i = 0; i < 600; i++) {
		mm_send(c, &reqs[i], "alone", 5);
		if (i >= 64 + 128)
			credit = i >= 64 + 128 + 256 ? i + 256 : 64 + 128 + 256;
		else
			credit = i >= 64 ? 64 + 128 : 64;
		mm_drive(&mm);
		mm.nb_back = 0;
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, asked));
		if (op != NULL) {
			assert_int_equal(((const uint8_t *)op->buf)[8], 4);
			mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(3, MM_THERE, asked)), 0,
				  16);
			asked++;
			assert_true(i == 64 || i == 64 + 128);
		}
		op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, i));
		if (op == NULL) {
			const uint32_t le[4] = { rte_cpu_to_le_32(credit) };

			mm_arrive(&mm, 0, MM_TAG(3, base, ctrls), le, sizeof(le));
			ctrls++;
			mm_drive(&mm);
			mm.nb_back = 0;
		}
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, i)), 0, 21);
	}
	assert_int_equal(asked, 2);
	mm_drive(&mm);
	mm_close(&mm, &c, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_receives),
		cmocka_unit_test(test_asks_for_more),
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		CASE(first_turn),
		CASE(conversation),
		CASE(more_than_the_answer),
		CASE(answers),
		CASE(fewer_answers),
		CASE(one_by_one),
		CASE(full),
		CASE(busy),
		CASE(busy_one_by_one),
		CASE(order),
		CASE(cancel),
		CASE(one_at_a_time),
		CASE(close),
		CASE(end),
	};

	return cmocka_run_group_tests_name("msg_turn", tests, mm_start, mm_stop);
}
