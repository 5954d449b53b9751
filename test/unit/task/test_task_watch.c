/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The watchdog over work outside of tasks: pollers, timers, messages, events of endpoints. The test
 * calls the watchdog's scan while such work runs, with times that it chooses.
 */

#include <leat_fabric.h>
#include <leat_log.h>
#include <leat_task_op.h>

#include "mock_driver.h"

#include "log_test.h"
#include "task_pvt.h"
#include "task_test.h"

#define NS_PER_MS UINT64_C(1000000)

static uint64_t ns; /* the watchdog's clock */
static unsigned int calls;

static unsigned int
hogs(void)
{
	struct leat_tasks_stats s;

	leat_tasks_stats_get(leat_tasks_self(), &s);
	return (unsigned int)s.hogs;
}

/* Make the watchdog see the caller run for 100 ms and more, and check that it reports this once. */
static void
hog(void)
{
	unsigned int before = hogs();

	task_watch_scan(ns += NS_PER_MS);
	task_watch_scan(ns += 99 * NS_PER_MS);
	assert_int_equal(hogs(), before);
	task_watch_scan(ns += NS_PER_MS);
	/* The caller is reported only once. */
	task_watch_scan(ns += 1000 * NS_PER_MS);
	assert_int_equal(hogs(), before + 1);
	calls++;
}

static int
poller(void *arg, uint64_t now)
{
	(void)now;
	if (*(unsigned int *)arg > 0) {
		(*(unsigned int *)arg)--;
		hog();
	}
	return 0;
}

/* A poller that returns after 60 ms: it must not be reported, however often it is called. */
static int
quick_poller(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	task_watch_scan(ns += 60 * NS_PER_MS);
	return 0;
}

/* The program exports these functions (-rdynamic), so that a report can name them. */
void timer_that_hogs(struct leat_timer *timer, void *arg, uint64_t now);
void message_that_hogs(void *arg);

void
timer_that_hogs(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	(void)now;
	hog();
}

static void
quick_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	(void)now;
	task_watch_scan(ns += 60 * NS_PER_MS);
}

void
message_that_hogs(void *arg)
{
	(void)arg;
	hog();
}

static void
quick_message(void *arg)
{
	(void)arg;
	task_watch_scan(ns += 60 * NS_PER_MS);
}

static void
begin(struct task_test *t)
{
	calls = 0;
	log_begin();
	task_test_begin(t, NULL);
	/* The watchdog's own thread must not look at these tasks. */
	task_watch_del(t->ts);
}

/* End what begin() began. @return how often `text` was logged */
static unsigned int
end(struct task_test *t, const char *text)
{
	unsigned int n = 0;
	const char *at;

	task_watch_add(t->ts);
	task_test_end(t);
	log_end();
	for (at = logged; (at = strstr(at, text)) != NULL; at++)
		n++;
	if (n == 0)
		print_message("logged: %s\n", logged);
	log_free();
	return n;
}

static void
test_poller(void **state)
{
	unsigned int left = 2;
	struct task_test t;

	(void)state;
	begin(&t);
	assert_non_null(leat_reactor_poller_add(t.r, "glutton", poller, &left, 0));
	test_turns(t.r, 4);
	assert_int_equal(calls, 2);
	assert_int_equal(end(&t, "r: poller glutton has been running for 100 ms"), 2);
}

static void
test_periodic_poller(void **state)
{
	unsigned int left = 1;
	struct task_test t;

	(void)state;
	begin(&t);
	assert_non_null(leat_reactor_poller_add(t.r, "periodic", poller, &left, 10));
	test_clock += 20 * US;
	test_turns(t.r, 2);
	assert_int_equal(calls, 1);
	assert_int_equal(end(&t, "r: poller periodic has been running for 100 ms"), 1);
}

static void
test_timer(void **state)
{
	struct leat_timer first, second;
	struct task_test t;

	(void)state;
	begin(&t);
	leat_timer_init(&first, timer_that_hogs, NULL);
	leat_timer_init(&second, timer_that_hogs, NULL);
	leat_timer_start(t.r, &first, 10);
	leat_timer_start(t.r, &second, 10);
	test_clock += 20 * US;
	test_turns(t.r, 2);
	assert_int_equal(calls, 2);
	assert_int_equal(end(&t, "r: timer function timer_that_hogs has been running for 100 ms"),
			 2);
}

static void
test_message(void **state)
{
	struct task_test t;

	(void)state;
	begin(&t);
	assert_int_equal(leat_reactor_call(t.r, message_that_hogs, NULL), 0);
	assert_int_equal(leat_reactor_call(t.r, message_that_hogs, NULL), 0);
	test_turns(t.r, 2);
	assert_int_equal(calls, 2);
	assert_int_equal(
		end(&t, "r: message function message_that_hogs has been running for 100 ms"), 2);
}

/*
 * While this message runs, later messages overwrite its cell in the ring, so the report can't name
 * the function.
 */
static void
message_overwritten(void *arg)
{
	while (leat_reactor_call(arg, quick_message, NULL) == 0)
		;
	hog();
}

static void
test_message_overwritten(void **state)
{
	struct task_test t;

	(void)state;
	begin(&t);
	assert_int_equal(leat_reactor_call(t.r, message_overwritten, t.r), 0);
	test_turns(t.r, 2);
	assert_int_equal(calls, 1);
	assert_int_equal(end(&t, "r: a message has been running for 100 ms"), 1);
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	(void)arg;
	(void)ep;
	if (ev->type == LEAT_EV_CONNECTED)
		hog();
}

static void
test_event(void **state)
{
	struct leat_ep_conf conf = { .name = "the-ep", .max_peers = 2 };
	struct task_test t;
	struct leat_ep *ep;
	int peer;

	(void)state;
	begin(&t);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_non_null(leat_tasks_ep_add(t.ts, ep, on_event, NULL));
	peer = leat_ep_connect(ep, "mock:1", NULL);
	assert_true(peer >= 0);
	leat_peer_up(ep, &ep->peers[peer], NULL, 0);
	test_clock += 2 * MS;
	test_turns(t.r, 2);
	assert_int_equal(calls, 1);
	assert_int_equal(end(&t, "r: poller the-ep has been running for 100 ms"), 1);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
}

/* Much time in many short calls, and time between turns, is not reported. */
static void
test_quick(void **state)
{
	struct leat_tasks_stats s;
	struct leat_timer timer;
	struct task_test t;
	unsigned int i;

	(void)state;
	begin(&t);
	leat_timer_init(&timer, quick_timer, NULL);
	leat_timer_start_periodic(t.r, &timer, 1);
	assert_non_null(leat_reactor_poller_add(t.r, "quick", quick_poller, NULL, 0));
	for (i = 0; i < 10; i++) {
		assert_int_equal(leat_reactor_call(t.r, quick_message, NULL), 0);
		assert_int_equal(leat_reactor_call(t.r, quick_message, NULL), 0);
		test_turns(t.r, 1);
		test_clock += US;
		task_watch_scan(ns += 60 * NS_PER_MS);
		task_watch_scan(ns += 200 * NS_PER_MS);
	}
	leat_timer_stop(&timer);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.hogs, 0);
	LEAT_LOG(INFO, task, "nothing else");
	assert_int_equal(end(&t, "\n"), 1);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_poller),  CASE(test_periodic_poller), CASE(test_timer),
		CASE(test_message), CASE(test_event),		CASE(test_message_overwritten),
		CASE(test_quick),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
