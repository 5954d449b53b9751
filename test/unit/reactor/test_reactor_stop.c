/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stopping a reactor from another thread, a poller, a message, a timer or a signal handler. Tests
 * of endpoints that stop are in test_reactor_ep.c.
 */

#include <signal.h>

#include "reactor_test.h"

static void
test_nothing_to_wait_for(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller p = { .ret = 1 };

	(void)state;
	test_poller_add(r, &p, "p", 0);
	test_turns(r, 10);
	assert_int_equal(leat_reactor_wait(r), -EDEADLK);
	leat_reactor_stop(r, 1000000);
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_STOPPED);
	assert_int_equal(leat_reactor_turn(r), -ESHUTDOWN);
	assert_int_equal(leat_reactor_turn(r), -ESHUTDOWN);
	assert_int_equal(p.calls, 11);
	assert_int_equal(leat_reactor_wait(r), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/*
 * leat_reactor_run() on this thread returns if the reactor was stopped before, or when a poller, a
 * message or a timer stops it.
 */
static int
stopping_poller(void *arg, uint64_t now)
{
	(void)now;
	leat_reactor_stop(arg, LEAT_REACTOR_STOP_NO_DEADLINE);
	return 0;
}

static void
stopping_message(void *arg)
{
	leat_reactor_stop(arg, LEAT_REACTOR_STOP_NO_DEADLINE);
}

static void
stopping_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)now;
	leat_reactor_stop(arg, LEAT_REACTOR_STOP_NO_DEADLINE);
}

static int
nested_run(void *arg, uint64_t now)
{
	struct leat_reactor *r = arg;

	(void)now;
	assert_int_equal(leat_reactor_run(r), -EBUSY);
	assert_int_equal(leat_reactor_turn(r), -EBUSY);
	assert_int_equal(leat_reactor_destroy(r), -EBUSY);
	assert_int_equal(leat_reactor_wait(r), -EDEADLK);
	leat_reactor_stop(r, 0);
	return 0;
}

static void
test_run(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct leat_poller *p;
	struct leat_timer timer;

	(void)state;
	assert_int_equal(leat_reactor_wait(r), 0);
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_null(leat_reactor_self());

	p = leat_reactor_poller_add(r, "stop", stopping_poller, r, 0);
	assert_non_null(p);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(leat_poller_remove(p), 0);

	/*
	 * A stopped reactor refuses the message; a reactor that has not run yet accepts it, and is
	 * stopped by it.
	 */
	assert_int_equal(leat_reactor_call(r, stopping_message, r), -ESHUTDOWN);
	assert_int_equal(leat_reactor_destroy(r), 0);
	r = test_reactor("r");
	assert_int_equal(leat_reactor_call(r, stopping_message, r), 0);
	assert_int_equal(leat_reactor_run(r), 0);

	leat_timer_init(&timer, stopping_timer, r);
	leat_timer_start(r, &timer, 0);
	assert_int_equal(leat_reactor_run(r), 0);

	p = leat_reactor_poller_add(r, "nested", nested_run, r, 0);
	assert_non_null(p);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_STOPPED);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
on_signal(int sig)
{
	(void)sig;
	leat_reactor_stop_all(1000000);
}

static int
raising_poller(void *arg, uint64_t now)
{
	(void)now;
	if (++*(unsigned int *)arg == 100)
		assert_int_equal(raise(SIGUSR1), 0);
	return 0;
}

/* A signal handler stops all reactors; one created afterwards is not affected. */
static void
test_signal(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;
	struct leat_reactor *r[2] = { test_reactor("a"), test_reactor("b") }, *later;
	unsigned int n = 0;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &sa, &old), 0);
	assert_non_null(leat_reactor_poller_add(r[0], "raise", raising_poller, &n, 0));
	test_turns(r[1], 1);
	assert_int_equal(leat_reactor_run(r[0]), 0);
	assert_int_equal(n, 100);
	assert_int_equal(leat_reactor_turn(r[1]), 0);
	assert_int_equal(leat_reactor_turn(r[1]), -ESHUTDOWN);
	later = test_reactor("c");
	test_turns(later, 100);
	assert_int_equal(leat_reactor_destroy(later), 0);
	assert_int_equal(leat_reactor_destroy(r[0]), 0);
	assert_int_equal(leat_reactor_destroy(r[1]), 0);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

struct work {
	unsigned int left; /* calls until the poller is quiet */
	unsigned int asked;
};

static int
work_poll(void *arg, uint64_t now)
{
	struct work *w = arg;

	(void)now;
	if (w->asked == 0 || w->left == 0)
		return 0;
	w->left--;
	return 1;
}

static int
work_quiesce(void *arg, char *what, size_t len)
{
	struct work *w = arg;

	w->asked++;
	if (what != NULL)
		snprintf(what, len, "%u things", w->left);
	return w->left != 0;
}

static void
test_quiesce(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct work a = { .left = 500 }, b = { .left = 3 };
	struct leat_poller *p;

	(void)state;
	p = leat_reactor_poller_add(r, "a", work_poll, &a, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	p = leat_reactor_poller_add(r, "b", work_poll, &b, 10);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	test_turns(r, 100);
	assert_int_equal(a.left, 500);
	leat_reactor_stop(r, 1000000);
	test_turns(r, 1);
	assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_STOPPING);
	assert_int_equal(test_turns_until_stopped(r), -ESHUTDOWN);
	assert_int_equal(a.left, 0);
	assert_int_equal(b.left, 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_deadline(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct work a = { .left = UINT32_MAX }, b = { .left = 0 };
	struct leat_poller *p;
	uint64_t start;

	(void)state;
	p = leat_reactor_poller_add(r, "never", work_poll, &a, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	p = leat_reactor_poller_add(r, "soon", work_poll, &b, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	test_turns(r, 10);
	start = test_clock;
	leat_reactor_stop(r, 5000);
	assert_int_equal(test_turns_until_stopped(r), -ETIMEDOUT);
	assert_in_range(test_clock - start, 5 * MS, 6 * MS);
	assert_non_null(strstr(leat_err_msg(), "never"));
	assert_non_null(strstr(leat_err_msg(), "things"));
	rte_errno = 0;
	assert_int_equal(leat_reactor_wait(r), -ETIMEDOUT);
	assert_int_equal(rte_errno, ETIMEDOUT);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* A second stop moves the deadline only if that makes the deadline earlier. */
static void
test_second_stop(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct work a = { .left = UINT32_MAX };
	struct leat_poller *p;
	uint64_t start;

	(void)state;
	p = leat_reactor_poller_add(r, "never", work_poll, &a, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	test_turns(r, 1000);
	start = test_clock;
	leat_reactor_stop(r, 1000);
	leat_reactor_stop(r, 500000);
	assert_int_equal(test_turns_until_stopped(r), -ETIMEDOUT);
	assert_in_range(test_clock - start, 1 * MS, 2 * MS);
	assert_int_equal(leat_reactor_destroy(r), 0);

	r = test_reactor("r");
	p = leat_reactor_poller_add(r, "never", work_poll, &a, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, work_quiesce), 0);
	leat_reactor_stop(r, 0);
	test_turns(r, 1);
	assert_int_equal(leat_reactor_turn(r), -ETIMEDOUT);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_nothing_to_wait_for),
		CASE(test_run),
		CASE(test_signal),
		CASE(test_quiesce),
		CASE(test_deadline),
		CASE(test_second_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
