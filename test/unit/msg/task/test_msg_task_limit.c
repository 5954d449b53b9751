/* SPDX-License-Identifier: BSD-3-Clause */

/* Time limits and cancels of calls whose message has begun, while the other side stands still. */

#include "msg_net.h"
#include "msg_task.h"

#define BIG (1 << 20)
#define LIMIT_US 5000
/* Limit of a receive whose message is on its way, which can take long on a busy machine. */
#define PATIENCE_US 20000000

static uint8_t out[BIG], in[BIG], more[BIG];

static uint8_t
fill(uint8_t seed)
{
	unsigned int i;

	for (i = 0; i < BIG; i++)
		out[i] = (uint8_t)(i * 7 + i / 251 + seed);
	return seed;
}

/* Keep c from sending payloads, even granted ones, as if the device had MSG_DATA_AHEAD bytes. */
static void
hold(struct leat_msg_conn *c)
{
	c->tx_bytes += MSG_DATA_AHEAD;
}

static void
resume(struct leat_msg_conn *c)
{
	c->tx_bytes -= MSG_DATA_AHEAD;
	msg_work(c);
}

/* A task that makes one call. */
struct call {
	struct leat_msg_conn *c;
	void *buf;
	size_t len;
	bool send;
	int ret;
};

static int
call(void *arg)
{
	struct call *k = arg;

	k->ret = k->send ? leat_msg_task_send(k->c, k->buf, k->len)
			 : leat_msg_task_recv(k->c, k->buf, k->len);
	return 0;
}

static struct leat_task *
start(struct call *k)
{
	struct leat_task *task = leat_task_spawn(leat_tasks_self(), "call", call, k);

	assert_non_null(task);
	return task;
}

static void
join(struct leat_task *task, const struct call *k, int ret)
{
	int got;

	assert_int_equal(leat_task_join(task, &got), 0);
	assert_int_equal(k->ret, ret);
}

/* Check that messages of all sizes pass in both directions. */
static void
works(struct msg_task_pair *p)
{
	struct call k = { .c = p->c, .buf = out, .len = BIG, .send = true };
	struct leat_task *task;

	(void)fill(3);
	task = start(&k);
	assert_int_equal(leat_msg_task_recv(p->s, in, BIG), BIG);
	assert_memory_equal(in, out, BIG);
	join(task, &k, 0);
	k.c = p->s;
	task = start(&k);
	memset(in, 0, BIG);
	assert_int_equal(leat_msg_task_recv(p->c, in, BIG), BIG);
	assert_memory_equal(in, out, BIG);
	join(task, &k, 0);
	assert_int_equal(leat_msg_task_send(p->c, "small", 6), 0);
	assert_int_equal(leat_msg_task_recv(p->s, in, 8), 6);
}

/* A receive whose head has arrived, but whose payload does not come, ends at its limit. */
static int
recv_begun(void *arg)
{
	struct call k, small, behind;
	struct leat_task *sender, *first, *second;
	struct msg_task_pair p;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	hold(p.c);
	k = (struct call){ .c = p.c, .buf = out, .len = BIG, .send = true };
	sender = start(&k);
	memset(in, 0x55, BIG);
	assert_int_equal(leat_task_within(LIMIT_US, leat_msg_task_recv(p.s, in, BIG)), -ETIMEDOUT);
	assert_null(p.s->recvq.head);
	/* The sender's call ends, too. Nothing may be written to `in` from here on. */
	assert_int_equal(leat_task_join(sender, NULL), 0);
	assert_int_equal(k.ret, -ETIMEDOUT);
	resume(p.c);
	memset(in, 0x55, BIG);
	works(&p);

	/* The message after the large one can be received first. */
	hold(p.c);
	sender = start(&k);
	small = (struct call){ .c = p.s, .buf = in, .len = BIG };
	first = start(&small);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_within(LIMIT_US, leat_msg_task_send(p.c, "behind", 7)), 0);
	assert_int_equal(leat_task_within(LIMIT_US, leat_msg_task_recv(p.s, more, 8)), 7);
	assert_string_equal((char *)more, "behind");
	/* The task `second` waits for the next message, and is cancelled. */
	behind = (struct call){ .c = p.s, .buf = more, .len = 8 };
	second = start(&behind);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_cancel(second), 0);
	join(second, &behind, -ECANCELED);
	/* The first receive gets its message nevertheless. */
	resume(p.c);
	join(first, &small, BIG);
	assert_memory_equal(in, out, BIG);
	join(sender, &k, 0);
	works(&p);
	pair_close(&p);
	return 0;
}

static void
test_recv(void **state)
{
	(void)state;
	msg_task_run(recv_begun, NULL);
}

/*
 * A large send that meets no receive ends at its limit, and a small send posted after it completes.
 */
static int
send_begun(void *arg)
{
	struct leat_task *task;
	struct msg_task_pair p;
	struct call large;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	assert_int_equal(leat_task_within(LIMIT_US, leat_msg_task_send(p.c, out, BIG)), -ETIMEDOUT);
	assert_null(p.c->sendq.head);
	/* A receive posted now still meets that message, which its sender gave up. */
	assert_int_equal(leat_msg_task_recv(p.s, in, BIG), -ETIMEDOUT);
	works(&p);
	/* The small message is sent, though the large one does not end. */
	large = (struct call){ .c = p.c, .buf = out, .len = BIG, .send = true };
	task = start(&large);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_within(LIMIT_US, leat_msg_task_send(p.c, "behind", 7)), 0);
	assert_int_equal(leat_task_cancel(task), 0);
	join(task, &large, -ECANCELED);
	assert_int_equal(leat_msg_task_recv(p.s, in, BIG), -ETIMEDOUT);
	assert_int_equal(leat_msg_task_recv(p.s, in, 8), 7);
	assert_string_equal((char *)in, "behind");
	works(&p);
	pair_close(&p);
	return 0;
}

static void
test_send(void **state)
{
	(void)state;
	msg_task_run(send_begun, NULL);
}

/*
 * Large messages are cancelled at any moment. Each is received whole, or fails on both sides, and
 * the connection stays open.
 */
static int
any_moment(void *arg)
{
	unsigned int i, cut = 0;
	struct msg_task_pair p;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	for (i = 0; i < 600; i++) {
		struct call k = { .c = p.c, .buf = out, .len = 100000, .send = true };
		struct leat_task *task;
		int ret;

		(void)fill((uint8_t)i);
		memset(in, 0, 100000);
		task = start(&k);
		ret = leat_task_within(i % 60, leat_msg_task_recv(p.s, in, BIG));
		if (ret >= 0) {
			assert_int_equal(ret, 100000);
			assert_memory_equal(in, out, 100000);
		} else {
			assert_int_equal(ret, -ETIMEDOUT);
			cut++;
			/*
			 * Cancel the send, too. If its message was sent but met no receive, the
			 * receive below takes the message away.
			 */
			ret = leat_task_cancel(task);
			assert_true(ret == 0 || ret == -ESRCH);
			ret = -ETIMEDOUT;
		}
		assert_int_equal(leat_task_join(task, NULL), 0);
		if (ret < 0 && p.c->tx_next != p.s->rx_bind)
			(void)leat_task_within(PATIENCE_US, leat_msg_task_recv(p.s, in, BIG));
		assert_int_equal(p.c->state, MSG_OPEN);
	}
	assert_true(cut > 0);
	works(&p);
	pair_close(&p);
	return 0;
}

static void
test_any_moment(void **state)
{
	(void)state;
	msg_task_run(any_moment, NULL);
}

/* Plain mode: a receive without a message is cancelled, and the connection goes on. */
static int
plain(void *arg)
{
	const struct leat_msg_net_conf conf = { .mode = LEAT_MSG_PLAIN };
	struct msg_task_pair p;
	struct leat_task *task;
	struct call k;

	(void)arg;
	pair_open(&p, &conf);
	pair_connect(&p);
	k = (struct call){ .c = p.c, .buf = in, .len = BIG };
	task = start(&k);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_cancel(task), 0);
	join(task, &k, -ECANCELED);
	works(&p);
	pair_close(&p);
	return 0;
}

static void
test_plain(void **state)
{
	(void)state;
	msg_task_run(plain, NULL);
}

/* If a silent peer does not answer a ping, calls return -ETIMEDOUT. */
static int
silent(void *arg)
{
	const struct leat_msg_net_conf conf = { .idle_us = 20000, .answer_us = 20000 };
	struct msg_task_pair p;

	(void)arg;
	pair_open(&p, &conf);
	pair_connect(&p);
	while (p.s->tx_out > 0)
		assert_int_equal(leat_task_yield(), 0);
	/* Keep the peer from answering, by marking its control message as being sent. */
	p.s->ctrl_tx->flags |= MSG_OP_OUT;
	assert_int_equal(leat_msg_task_recv(p.c, in, BIG), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), "nothing came from it"));
	assert_int_equal(leat_msg_task_send(p.c, "x", 1), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), "nothing came from it"));
	pair_close(&p);
	return 0;
}

static void
test_silent(void **state)
{
	(void)state;
	msg_task_run(silent, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recv),	   cmocka_unit_test(test_send),
		cmocka_unit_test(test_any_moment), cmocka_unit_test(test_plain),
		cmocka_unit_test(test_silent),
	};

	return msg_task_groups("time limits of waiting forms", tests, RTE_DIM(tests));
}
