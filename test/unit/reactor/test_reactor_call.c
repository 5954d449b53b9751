/* SPDX-License-Identifier: BSD-3-Clause */

#include <pthread.h>
#include <sched.h>

#include <rte_common.h>

#include "reactor_test.h"

static unsigned int log_nb;
static int log_val[64];

static void
note(void *arg)
{
	if (log_nb < RTE_DIM(log_val))
		log_val[log_nb] = *(int *)arg;
	log_nb++;
}

static int
setup(void **state)
{
	log_nb = 0;
	return test_clock_setup(state);
}

static void
test_in_order(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct leat_reactor_stats s;
	int v[50], i;

	(void)state;
	assert_int_equal(leat_reactor_call(r, NULL, NULL), -EINVAL);
	for (i = 0; i < 50; i++) {
		v[i] = i;
		assert_int_equal(leat_reactor_call(r, note, &v[i]), 0);
	}
	assert_int_equal(log_nb, 0);
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(log_nb, 50);
	for (i = 0; i < 50; i++)
		assert_int_equal(log_val[i], i);
	assert_int_equal(leat_reactor_turn(r), 0);
	/* The message runs in the next turn, not in the next housekeeping. */
	assert_int_equal(leat_reactor_call(r, note, &v[3]), 0);
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(log_nb, 51);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.messages, 51);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_full(void **state)
{
	struct leat_reactor_conf conf = { .messages = 5 };
	struct leat_reactor *r = leat_reactor_create(&conf);
	int v = 0, i;

	(void)state;
	assert_non_null(r);
	/* conf.messages, 5, is rounded up to a power of 2. */
	for (i = 0; i < 8; i++)
		assert_int_equal(leat_reactor_call(r, note, &v), 0);
	rte_errno = 0;
	assert_int_equal(leat_reactor_call(r, note, &v), -EAGAIN);
	assert_int_equal(rte_errno, EAGAIN);
	test_turns(r, 1);
	assert_int_equal(log_nb, 8);
	assert_int_equal(leat_reactor_call(r, note, &v), 0);
	/* A reactor that is destroyed with a message that never ran warns, and leaks nothing. */
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_int_equal(log_nb, 8);
}

struct chain {
	struct leat_reactor *r;
	unsigned int calls;
};

static void
again(void *arg)
{
	static int one = 1;
	struct chain *c = arg;

	c->calls++;
	assert_ptr_equal(leat_reactor_self(), c->r);
	assert_int_equal(leat_reactor_call(c->r, again, c), 0);
	assert_int_equal(leat_reactor_call(c->r, note, &one), 0);
}

/*
 * Messages that send messages to their own reactor: each turn ends nevertheless, and calls the
 * poller.
 */
static void
test_endless(void **state)
{
	struct leat_reactor_conf conf = { .messages = 64, .idle.policy = LEAT_IDLE_SPIN };
	struct leat_reactor *r = leat_reactor_create(&conf);
	struct chain c = { .r = r };
	struct test_poller p = { 0 };

	(void)state;
	assert_non_null(r);
	test_poller_add(r, &p, "p", 0);
	assert_int_equal(leat_reactor_call(r, again, &c), 0);
	test_turns(r, 100);
	assert_int_equal(p.calls, 100);
	assert_true(c.calls >= 100);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

#define RING 4

struct hop {
	struct leat_reactor **r;
	unsigned int at, left;
};

static void
hop(void *arg)
{
	struct hop *h = arg;

	assert_ptr_equal(leat_reactor_self(), h->r[h->at]);
	if (h->left-- == 0)
		return;
	h->at = (h->at + 1) % RING;
	assert_int_equal(leat_reactor_call(h->r[h->at], hop, h), 0);
}

/* A message goes round and round over several reactors. */
static void
test_round(void **state)
{
	struct leat_reactor *r[RING];
	struct hop h = { .r = r, .left = 39 };
	unsigned int i, n;

	(void)state;
	for (i = 0; i < RING; i++)
		r[i] = test_reactor("r");
	assert_int_equal(leat_reactor_call(r[0], hop, &h), 0);
	for (n = 0; n < 10; n++)
		for (i = 0; i < RING; i++)
			test_turns(r[i], 1);
	assert_int_equal(h.left, UINT32_MAX);
	for (i = 0; i < RING; i++)
		assert_int_equal(leat_reactor_destroy(r[i]), 0);
}

#define SENDERS 3
#define MESSAGES 20000

struct sender {
	struct leat_reactor *r;
	pthread_t thread;
	unsigned int number;
	unsigned int next; /* number of the message that receive() must get next from this sender */
	unsigned int wrong;
	struct item {
		struct sender *s;
		unsigned int seq;
	} item[MESSAGES];
};

static unsigned int received;

static void
receive(void *arg)
{
	struct item *i = arg;

	if (i->s->next++ != i->seq)
		i->s->wrong++;
	received++;
}

static void *
sender_main(void *arg)
{
	struct sender *s = arg;
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		s->item[i].s = s;
		s->item[i].seq = i;
		while (leat_reactor_call(s->r, receive, &s->item[i]) == -EAGAIN)
			(void)sched_yield();
	}
	return NULL;
}

/*
 * Several threads send at once to a reactor that sleeps when idle: each thread's messages come in
 * order, none is lost.
 */
static void
test_threads(void **state)
{
	static struct sender s[SENDERS];
	struct leat_reactor_conf conf = {
		.messages = 256,
		.idle = { .policy = LEAT_IDLE_SLEEP, .spin_us = 1, .sleep_max_us = 1000000 },
	};
	struct leat_reactor *r;
	int i;

	(void)state;
	leat_clock_mock_set(NULL);
	received = 0;
	r = leat_reactor_create(&conf);
	assert_non_null(r);
	for (i = 0; i < SENDERS; i++) {
		s[i].r = r;
		assert_int_equal(pthread_create(&s[i].thread, NULL, sender_main, &s[i]), 0);
	}
	while (received < SENDERS * MESSAGES)
		test_turns(r, 1);
	for (i = 0; i < SENDERS; i++) {
		assert_int_equal(pthread_join(s[i].thread, NULL), 0);
		assert_int_equal(s[i].next, MESSAGES);
		assert_int_equal(s[i].wrong, 0);
	}
	test_turns(r, 1);
	assert_int_equal(received, SENDERS * MESSAGES);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_in_order), CASE(test_full),	 CASE(test_endless),
		CASE(test_round),    CASE(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
