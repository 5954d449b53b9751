/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Leat mode: a small message that comes alone, and its answer. All cases run with the fast path of
 * msg_fast.h and without it, and must have the same outcome.
 */

#include <string.h>

#include "msg_mock.h"
#include "msg_pvt.h"

static struct mm mm;
static struct leat_msg_conn *conns[2], *c;
static uint64_t base;
static uint32_t next_in; /* id of the next message from the other side */
static struct leat_msg_req rx[4], tx[4];
static char in[4][16];

/* Open two connections, with two credits each. Four receives wait on the first. */
static int
setup(bool slow)
{
	unsigned int i;

	mm_open(&mm);
	mm.m->slow = slow;
	c = conns[0] = mm_open_leat(&mm, 0);
	conns[1] = mm_open_leat(&mm, 0);
	base = mm_base(0);
	next_in = 0;
	for (i = 0; i < 4; i++)
		mm_recv(c, &rx[i], in[i], sizeof(in[i]));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	return 0;
}

static int
setup_fast(void **state)
{
	(void)state;
	return setup(false);
}

static int
setup_slow(void **state)
{
	(void)state;
	return setup(true);
}

static int
teardown(void **state)
{
	(void)state;
	mm_close(&mm, conns, 2);
	return 0;
}

/*
 * Poll the device once, which must give n ops, and pass them to the context. Do not poll the
 * context.
 */
static void
process(uint16_t n)
{
	struct leat_op *ops[8];

	assert_int_equal(leat_ep_poll(mm.ep, ops, RTE_DIM(ops)), n);
	assert_int_equal(leat_msg_process(mm.m, ops, n), 0);
}

static void
arrives(const char *text, uint32_t credit)
{
	const uint64_t n = mm_head(strlen(text), credit, 0, text);

	mm_arrive(&mm, 0, MM_TAG(1, base, next_in++), mm_in, n);
}

/* Check that exactly that request came back. */
static void
gives(const struct leat_msg_req *req)
{
	struct leat_msg_req *back[8];

	assert_int_equal(leat_msg_poll(mm.m, back, RTE_DIM(back)), 1);
	assert_ptr_equal(back[0], req);
	assert_int_equal(req->status, 0);
}

/* A short message comes alone, and the application gets it. */
static void
comes(const char *text, uint32_t credit)
{
	const unsigned int i = next_in;

	arrives(text, credit);
	process(1);
	gives(&rx[i]);
	assert_int_equal(rx[i].len, strlen(text));
	assert_memory_equal(in[i], text, strlen(text));
}

static void
counted(uint64_t received, uint64_t bytes)
{
	struct leat_msg_stats stats;

	leat_msg_stats_get(mm.m, &stats);
	assert_int_equal(stats.received, received);
	assert_int_equal(stats.recv_bytes, bytes);
}

static unsigned int
heads_posted(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < CREDITS; i++)
		n += mm_posted(0, LEAT_OP_TRECV, MM_TAG(1, base, next_in + i)) != NULL;
	return n;
}

static void
test_counters(void **state)
{
	(void)state;
	comes("8 bytes.", 2);
	counted(1, 8);
	mm_drive(&mm);
	counted(1, 8);
	comes("and then sixteen", 2);
	counted(2, 24);
	mm_drive(&mm);
	counted(2, 24);
}

/* If the application sends nothing and polls again, the slot's receive is posted again. */
static void
test_idle(void **state)
{
	struct leat_msg_req *back[2];

	(void)state;
	comes("8 bytes.", 2);
	assert_int_equal(heads_posted(), CREDITS - 1);
	assert_int_equal(leat_msg_poll(mm.m, back, 2), 0);
	assert_int_equal(heads_posted(), CREDITS);
}

/*
 * Several messages come, one by one, before the application takes a request: it gets all of them.
 */
static void
test_stream(void **state)
{
	struct leat_msg_req *back[4];
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		arrives("8 bytes.", 2);
		process(1);
		counted(i + 1, 8 * (i + 1));
	}
	assert_int_equal(leat_msg_poll(mm.m, back, 2), 2);
	assert_int_equal(leat_msg_poll(mm.m, back, 2), 1);
	mm_drive(&mm);
	assert_int_equal(heads_posted(), CREDITS);
}

/* Check that the second and the third request come back, and that the third has these contents. */
static void
gives_two(const char *third)
{
	struct leat_msg_req *back[4];

	assert_int_equal(leat_msg_poll(mm.m, back, RTE_DIM(back)), 2);
	assert_ptr_equal(back[0], &rx[1]);
	assert_ptr_equal(back[1], &rx[2]);
	assert_memory_equal(in[2], third, strlen(third));
}

/* After a message that came alone, two messages come at once: both are received. */
static void
test_burst(void **state)
{
	(void)state;
	comes("8 bytes.", 2);
	arrives("first of two", 2);
	arrives("the second one", 2);
	process(2);
	counted(3, 8 + 12 + 14);
	gives_two("the second one");
}

/* Of two messages the second comes first: it is received after the first. */
static void
test_overtaken(void **state)
{
	struct leat_msg_req *back[1];

	(void)state;
	comes("8 bytes.", 2);
	next_in = 2;
	arrives("came first", 2);
	process(1);
	assert_int_equal(leat_msg_poll(mm.m, back, 1), 0);
	next_in = 1;
	arrives("came late", 2);
	process(1);
	counted(3, 8 + 9 + 10);
	gives_two("came first");
}

/* The answer goes at once, with the credit that came with the question. */
static void
test_answer(void **state)
{
	static const uint8_t answer[] = { 8, 0, 0, 0, 0,   0,	0,   0,	  CREDITS, 0,	0,   0,
					  0, 0, 0, 0, 'a', 'n', 's', 'w', 'e',	   'r', '0', '0' };

	(void)state;
	mm_send(c, &tx[0], "answer00", 8);
	mm_send(c, &tx[1], "answer01", 8);
	mm_sent(&mm, 0, MM_TAG(1, MM_THERE, 0), answer, sizeof(answer));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	comes("question", 3);
	mm_send(c, &tx[2], "answer02", 8);
	assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 2)));
	gives(&tx[2]);
	/* No credit is left. */
	mm_send(c, &tx[3], "answer03", 8);
	assert_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 3)));
	/* A send that waits for credit goes as soon as credit comes. */
	arrives("question", 4);
	process(1);
	assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 3)));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 4);
	counted(2, 16);
}

/* A large answer, and small ones after it, take the general path. */
static void
test_answer_large(void **state)
{
	static char data[1000];

	(void)state;
	comes("question", 3);
	mm_send(c, &tx[0], data, sizeof(data));
	mm_send(c, &tx[1], "answer01", 8);
	mm_send(c, &tx[2], "answer02", 8);
	assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 2)));
	counted(1, 8);
	/* Close without draining: the large message is lost. */
	assert_int_equal(leat_msg_close(c, 0), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 6);
	conns[0] = mm_open_leat(&mm, 0);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

/* If the device is full when the answer is posted, the answer is sent later. */
static void
test_answer_refused(void **state)
{
	(void)state;
	mm_send(conns[1], &tx[1], "in the way", 10);
	gives(&tx[1]);
	comes("question", 3);
	mock.tx_max = 1;
	mm_send(c, &tx[0], "answer00", 8);
	counted(1, 8);
	assert_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0)));
	mock.tx_max = 0;
	mm_drive(&mm);
	assert_non_null(mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0)));
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_ptr_equal(mm.back[0], &tx[0]);
}

/* The next message comes on another connection, and is received there. */
static void
test_other_connection(void **state)
{
	struct leat_msg_req other;
	char buf[16];
	uint64_t n;

	(void)state;
	mm_recv(conns[1], &other, buf, sizeof(buf));
	mm_drive(&mm);
	comes("8 bytes.", 2);
	n = mm_head(9, 2, 0, "elsewhere");
	mm_arrive(&mm, 1, MM_TAG(1, mm_base(1), 0), mm_in, n);
	process(1);
	gives(&other);
	counted(2, 17);
	mm_drive(&mm);
	assert_int_equal(heads_posted(), CREDITS);
}

static void
test_cancel(void **state)
{
	(void)state;
	comes("8 bytes.", 2);
	assert_int_equal(leat_msg_cancel(&rx[2]), 0);
	assert_int_equal(leat_msg_cancel(&rx[1]), 0);
	arrives("for the last one", 2);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_ptr_equal(mm.back[0], &rx[1]);
	assert_ptr_equal(mm.back[1], &rx[2]);
	assert_ptr_equal(mm.back[2], &rx[3]);
	assert_int_equal(rx[2].status, -ECANCELED);
	assert_memory_equal(in[3], "for the last one", 16);
	counted(2, 24);
}

static void
test_close(void **state)
{
	(void)state;
	comes("8 bytes.", 2);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	counted(1, 8);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(mm.nb_back, 3);
	conns[0] = mm_open_leat(&mm, 0);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

/*
 * The connection was closed and has ended: messages that arrived and were not processed are
 * dropped.
 */
static void
over_and_closed(int status)
{
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 3);
	assert_int_equal(rx[1].status, status);
	counted(1, 8);
	conns[0] = mm_open_leat(&mm, 0);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

static void
test_drained(void **state)
{
	struct leat_msg_event ev;

	(void)state;
	comes("8 bytes.", 2);
	arrives("too late", 2);
	assert_int_equal(leat_msg_close(c, 0), 0);
	assert_int_equal(leat_msg_events(mm.m, &ev, 1), 0); /* ends the connection */
	over_and_closed(-ECANCELED);
}

static void
test_gone_and_closed(void **state)
{
	struct leat_event ev;

	(void)state;
	comes("8 bytes.", 2);
	arrives("too late", 2);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	mm_peer_ends(&mm, 0, -ECONNRESET);
	assert_int_equal(leat_ep_events(mm.ep, &ev, 1), 1);
	assert_true(leat_msg_handle_event(mm.m, &ev));
	over_and_closed(-ECONNRESET);
}

/* The peer dies: received messages stay received, and all other requests come back. */
static void
test_gone(void **state)
{
	unsigned int i;

	(void)state;
	comes("8 bytes.", 2);
	mm_peer_ends(&mm, 0, -ECONNRESET);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.nb_back, 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(mm.back[i]->status, -ECONNRESET);
	counted(1, 8);
}

/*
 * A message that carries credit out of range, or a grant of an unsent message, is not delivered.
 * The connection and all its requests end with -EPROTO.
 */
static void
hostile(uint32_t credit, uint32_t granted)
{
	const uint64_t n = mm_head(8, credit, granted, "8 bytes.");
	unsigned int i;

	mm_arrive(&mm, 0, MM_TAG(1, base, next_in), mm_in, n);
	process(1);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 1);
	assert_int_equal(mm.ev.status, -EPROTO);
	assert_int_equal(mm.nb_back, 4 - next_in);
	for (i = 0; i < mm.nb_back; i++)
		assert_int_equal(mm.back[i]->status, -EPROTO);
	counted(next_in, 8 * next_in);
}

static void
test_hostile_credit(void **state)
{
	(void)state;
	hostile(LEAT_MSG_CREDITS_MAX + 1, 0);
}

static void
test_hostile_credit_far(void **state)
{
	(void)state;
	hostile(0x7fffffff, 0);
}

static void
test_hostile_grant(void **state)
{
	(void)state;
	hostile(2, 1);
}

/* The largest valid credit is accepted, and so are older values, which may come late. */
static void
test_credit_limits(void **state)
{
	(void)state;
	mm_send(c, &tx[0], "8 bytes.", 8);
	gives(&tx[0]);
	comes("8 bytes.", 1 + LEAT_MSG_CREDITS_MAX);
	comes("8 bytes.", 2);
	comes("8 bytes.", (uint32_t)-100);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	hostile(1 + LEAT_MSG_CREDITS_MAX + 1, 1);
}

/*
 * The fast path keeps to the peer's eager_max and max_size: a message above eager_max is sent as a
 * large one, and one above max_size fails.
 */
static void
test_limits(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	uint8_t hello[MM_HELLO_LEN];
	const struct leat_op *op[2];
	uint16_t peer;

	(void)state;
	assert_int_equal(leat_msg_close(conns[1], 0), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 1);
	memcpy(hello, mm_hello, sizeof(hello));
	hello[24] = 8; /* eager_max */
	conns[1] = mm_connect(&mm, &conf, hello, sizeof(hello));
	mm_send(conns[1], &tx[0], "8 bytes.", 8);
	mm_send(conns[1], &tx[1], "and then sixteen", 16);
	gives(&tx[0]);
	peer = leat_msg_conn_peer(conns[1]);
	op[0] = mm_posted(peer, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 0));
	op[1] = mm_posted(peer, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 1));
	assert_true(op[0] != NULL && op[0]->size == 16 + 8);
	assert_true(op[1] != NULL && op[1]->size == 16); /* the head of a large message */

	assert_int_equal(leat_msg_close(conns[1], 0), 0);
	mm_drive(&mm);
	mm_drive(&mm);
	assert_int_equal(mm.nb_ev[LEAT_MSG_CLOSED], 2);
	memcpy(hello, mm_hello, sizeof(hello));
	hello[16] = 8; /* max_size */
	hello[20] = 0;
	conns[1] = mm_connect(&mm, &conf, hello, sizeof(hello));
	mm.nb_back = 0;
	mm_send(conns[1], &tx[0], "8 bytes.", 8);
	mm_send(conns[1], &tx[1], "and then sixteen", 16);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(tx[0].status, 0);
	assert_int_equal(tx[1].status, -EMSGSIZE);
	mm.nb_ev[LEAT_MSG_CLOSED] = 0;
}

/* Check that the cases take the path that they are meant to test, fast or general. */
static void
test_way(void **state)
{
	(void)state;
	assert_int_equal(c->fast, !mm.m->slow);
	comes("8 bytes.", 2);
	assert_int_equal(c->rx_next != NULL, 1);
}

int
main(void)
{
#define CASES(way)                                                                                 \
	cmocka_unit_test_setup_teardown(test_counters, setup_##way, teardown),                     \
		cmocka_unit_test_setup_teardown(test_idle, setup_##way, teardown),                 \
		cmocka_unit_test_setup_teardown(test_stream, setup_##way, teardown),               \
		cmocka_unit_test_setup_teardown(test_burst, setup_##way, teardown),                \
		cmocka_unit_test_setup_teardown(test_overtaken, setup_##way, teardown),            \
		cmocka_unit_test_setup_teardown(test_answer, setup_##way, teardown),               \
		cmocka_unit_test_setup_teardown(test_answer_large, setup_##way, teardown),         \
		cmocka_unit_test_setup_teardown(test_answer_refused, setup_##way, teardown),       \
		cmocka_unit_test_setup_teardown(test_other_connection, setup_##way, teardown),     \
		cmocka_unit_test_setup_teardown(test_cancel, setup_##way, teardown),               \
		cmocka_unit_test_setup_teardown(test_close, setup_##way, teardown),                \
		cmocka_unit_test_setup_teardown(test_drained, setup_##way, teardown),              \
		cmocka_unit_test_setup_teardown(test_gone_and_closed, setup_##way, teardown),      \
		cmocka_unit_test_setup_teardown(test_gone, setup_##way, teardown),                 \
		cmocka_unit_test_setup_teardown(test_hostile_credit, setup_##way, teardown),       \
		cmocka_unit_test_setup_teardown(test_hostile_grant, setup_##way, teardown),        \
		cmocka_unit_test_setup_teardown(test_hostile_credit_far, setup_##way, teardown),   \
		cmocka_unit_test_setup_teardown(test_credit_limits, setup_##way, teardown),        \
		cmocka_unit_test_setup_teardown(test_limits, setup_##way, teardown),               \
		cmocka_unit_test_setup_teardown(test_way, setup_##way, teardown)
	const struct CMUnitTest tests[] = { CASES(fast), CASES(slow) };

	return cmocka_run_group_tests_name("msg_fast", tests, mm_start, mm_stop);
}
