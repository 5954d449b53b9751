/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls to another reactor: both driven from this thread, then the other one on a thread of its own. */

#include <pthread.h>

#include <leat_task_call.h>

#include "task_pvt.h"
#include "task_test.h"

struct caller {
	struct leat_reactor *to;
	unsigned int called;
	unsigned int count;
};

static int
callee(void *arg)
{
	struct caller *c = arg;

	assert_ptr_equal(leat_reactor_self(), c->to);
	assert_null(leat_task_current());
	return (int)++c->called;
}

static int
call_once(void *arg)
{
	struct caller *c = arg;
	int ret = 0, err;

	err = leat_task_call(c->to, callee, c, &ret);
	return err < 0 ? err : ret;
}

static void
test_call(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct leat_task_info info;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_call(c.to, callee, &c, NULL), -EPERM);
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 5);
	leat_task_info_get(task, &info);
	assert_string_equal(info.waits, "call to other");
	assert_int_equal(c.called, 0);
	test_turns(c.to, 1);
	assert_int_equal(c.called, 1);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	assert_int_equal(task_test_join(&t, task), 1);

	/* To itself. */
	test_turns(c.to, 1);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
	c.to = t.r;
	task = task_test_spawn(&t, "call", call_once, &c);
	assert_int_equal(task_test_join(&t, task), 2);
	task_test_end(&t);
}

/* Cancelled before it has begun it does not begin, but the other side has to come to it. */
static void
test_cancel(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 1);
	assert_int_equal(task_cancel(task), 0);
	test_turns(t.r, 5);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	test_turns(c.to, 1);
	assert_int_equal(task_test_join(&t, task), -ECANCELED);
	assert_int_equal(c.called, 0);

	/* It was called: the cancel comes too late. */
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 1);
	test_turns(c.to, 1);
	assert_int_equal(task_cancel(task), 0);
	assert_int_equal(task_test_join(&t, task), 1);
	task_test_end(&t);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
}

static void
nothing(void *arg)
{
	(void)arg;
}

/* The caller's ring is full: the answer comes all the same. The other's is: the call is refused. */
static void
test_full(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 1);
	while (leat_reactor_call(t.r, nothing, NULL) == 0)
		;
	test_turns(c.to, 1);
	assert_int_equal(task_test_join(&t, task), 1);
	while (leat_reactor_call(c.to, nothing, NULL) == 0)
		;
	task = task_test_spawn(&t, "call", call_once, &c);
	assert_int_equal(task_test_join(&t, task), -EAGAIN);
	test_turns(c.to, 1);
	task_test_end(&t);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
}

static void *
thread_main(void *arg)
{
	struct caller *c = arg;

	return leat_reactor_run(c->to) == 0 ? NULL : arg;
}

static int
add(void *arg)
{
	struct caller *c = arg;

	c->count++;
	return 0;
}

#define CALLS 2000
#define CALLERS 8

static int
call_often(void *arg)
{
	struct caller *c = arg;
	unsigned int i;

	for (i = 0; i < CALLS / CALLERS; i++)
		assert_int_equal(leat_task_call(c->to, add, c, NULL), 0);
	return 0;
}

/* What one thread writes the other one reads; the sanitizer looks at the edges. */
static void
test_threads(void **state)
{
	struct leat_reactor_conf conf = { .name = "other", .idle.policy = LEAT_IDLE_YIELD };
	struct caller c = { .to = leat_reactor_create(&conf) };
	struct leat_task *task[CALLERS];
	unsigned int i;
	struct task_test t;
	pthread_t thread;
	void *failed;

	(void)state;
	assert_non_null(c.to);
	leat_clock_mock_set(NULL);
	conf.name = "caller";
	t.r = leat_reactor_create(&conf);
	assert_non_null(t.r);
	t.ts = leat_tasks_create(t.r, NULL);
	assert_non_null(t.ts);
	assert_int_equal(pthread_create(&thread, NULL, thread_main, &c), 0);
	for (i = 0; i < CALLERS; i++)
		task[i] = task_test_spawn(&t, "call", call_often, &c);
	for (i = 0; i < CALLERS; i++) {
		while (leat_task_state(task[i]) != LEAT_TASK_DONE)
			test_turns(t.r, 1);
		assert_int_equal(leat_task_join(task[i], NULL), 0);
	}
	/* Without a pause: the other one may be about to wake this one. */
	task_test_end(&t);
	leat_reactor_stop(c.to, LEAT_STOP_NO_DEADLINE);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(c.count, CALLS);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_call),
		CASE(test_cancel),
		CASE(test_full),
		CASE(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
