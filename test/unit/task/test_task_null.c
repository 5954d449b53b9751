/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A program passes the NULL of a failed constructor to another function without checking it: that
 * function refuses the call, and rte_errno and leat_err_msg() still say why the constructor failed.
 */

#include <string.h>

#include <leat_task_call.h>
#include <leat_task_op.h>

#include "task_test.h"

static int
sleeper(void *arg)
{
	(void)arg;
	return leat_task_sleep(1000);
}

static void
check_reason(int err, const char *why)
{
	assert_int_equal(rte_errno, err);
	if (strstr(leat_err_msg(), why) == NULL)
		fail_msg("%s", leat_err_msg());
}

/*
 * leat_task_detach(leat_task_spawn()), as doc/guide/tasks.md and the header show it, without room
 * for a task: detach returns -EINVAL, and the error of spawn stays.
 */
static void
test_detach_of_spawn_without_room(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 3 };
	struct leat_tasks_stats s;
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, &conf);
	for (i = 0; i < 3; i++)
		assert_int_equal(leat_task_detach(leat_task_spawn(t.ts, "session", sleeper, NULL)),
				 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_task_detach(leat_task_spawn(t.ts, "session", sleeper, NULL)),
				 -EINVAL);
		check_reason(ENOMEM, "max_tasks");
		test_turns(t.r, 1);
	}
	test_clock += 1000 * US;
	test_turns(t.r, 3);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.tasks, 0);
	assert_int_equal(s.refused, 3);
	assert_int_equal(leat_task_detach(leat_task_spawn(t.ts, "session", sleeper, NULL)), 0);
	test_clock += 1000 * US;
	test_turns(t.r, 200);
	test_clock += 1000 * US;
	test_turns(t.r, 200);
	task_test_end(&t);
}

/*
 * In a task, leat_task_join(leat_task_spawn()) without room for the child is refused in the same
 * way.
 */
static int
spawns_too_many(void *arg)
{
	struct leat_tasks *ts = leat_tasks_self();
	int ret = 77;

	(void)arg;
	assert_int_equal(leat_task_join(leat_task_spawn(ts, "child", sleeper, NULL), &ret),
			 -EINVAL);
	check_reason(ENOMEM, "max_tasks");
	assert_int_equal(ret, 77);
	return leat_task_detach(leat_task_spawn(ts, "child", sleeper, NULL));
}

static void
test_join_of_spawn_without_room(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 1 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", spawns_too_many, NULL)),
			 -EINVAL);
	task_test_end(&t);
}

/*
 * Calls are refused without a struct leat_tasks: its constructor failed, or leat_tasks_self() was
 * called where no reactor runs.
 */
static void
test_no_tasks(void **state)
{
	struct leat_tasks_conf wrong = { .stack_size = 1 };
	struct leat_tasks *ts;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_tasks_destroy(t.ts), 0);
	ts = leat_tasks_create(t.r, &wrong);
	assert_null(ts);
	assert_null(leat_task_spawn(ts, "session", sleeper, NULL));
	check_reason(EINVAL, "spawn session: no tasks");
	assert_null(leat_task_spawn(leat_tasks_self(), NULL, NULL, NULL));
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "session", sleeper, NULL)), -EINVAL);
	check_reason(EINVAL, "spawn session: no tasks");
	assert_null(leat_tasks_create(NULL, NULL));
	assert_null(leat_tasks_ep_add(ts, NULL, NULL, NULL));
	check_reason(EINVAL, "no tasks");
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(t.r), 0);
}

static void
on_line(void *arg, const char *line)
{
	(void)arg;
	fail_msg("%s", line);
}

static void
on_task(void *arg, const struct leat_task *task)
{
	(void)arg;
	fail_msg("%s", leat_task_name(task));
}

static int
calls_no_reactor(void *arg)
{
	(void)arg;
	return leat_task_call(NULL, sleeper, NULL, NULL);
}

/* Functions that read state accept NULL: they return an empty value or -EINVAL. */
static void
test_questions(void **state)
{
	struct leat_task_info info = { .id = 7 };
	struct leat_tasks_stats s = { .tasks = 7 };

	(void)state;
	assert_string_equal(leat_task_name(NULL), "");
	assert_int_equal(leat_task_id(NULL), 0);
	assert_int_equal(leat_task_state(NULL), LEAT_TASK_FREE);
	leat_task_info_get(NULL, &info);
	assert_int_equal(info.id, 0);
	assert_int_equal(leat_task_backtrace(NULL, on_line, NULL), -EINVAL);
	assert_null(leat_tasks_reactor(NULL));
	assert_int_equal(leat_tasks_guard(NULL), LEAT_TASK_GUARD_AUTO);
	leat_tasks_stats_get(NULL, &s);
	assert_int_equal(s.tasks, 0);
	leat_tasks_trim(NULL);
	leat_tasks_each(NULL, on_task, NULL);
	assert_int_equal(leat_tasks_show(NULL, 0, on_line, NULL), -EINVAL);
	assert_int_equal(task_test_run(calls_no_reactor, NULL), -EINVAL);
}

/* A task that has not begun uses no bytes of its stack. */
static void
test_stack_of_one_that_has_not_begun(void **state)
{
	struct leat_task_info info;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "fresh", sleeper, NULL);
	leat_task_info_get(task, &info);
	assert_int_equal(info.state, LEAT_TASK_READY);
	assert_int_equal(info.stack_used, 0);
	assert_int_equal(task_test_join(&t, task), 0);
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_detach_of_spawn_without_room),
		CASE(test_join_of_spawn_without_room),
		CASE(test_no_tasks),
		CASE(test_questions),
		CASE(test_stack_of_one_that_has_not_begun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
