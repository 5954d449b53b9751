/* SPDX-License-Identifier: BSD-3-Clause */

/* The watchdog's setting, and the reports of tasks. */

#include "task_pvt.h"
#include "task_test.h"
#include "tune_drive.h"

static int
set(struct task_test *t, const char *value)
{
	struct tune_object *o = tune_private(t->ts->tune);
	int ret = tune_ask(t->ts->tune, "hog_us", value, NULL);

	if (ret < 0)
		return ret;
	/*
	 * No owner serves this object, so the control thread would apply the change: do its work
	 * here.
	 */
	ret = o->conf.apply(o->conf.arg, o->change_want, o->change_mask);
	memcpy(o->conf.settings, o->change_want, o->conf.schema->settings_c_size);
	return ret;
}

static void
test_hog(void **state)
{
	const struct leat_tasks_conf never = { .hog_us = LEAT_TASK_HOG_NEVER };
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(t.ts->set.hog_us, 100000);
	assert_int_equal(set(&t, "5000"), 0);
	assert_int_equal(t.ts->hog_us, 5000);
	assert_int_equal(set(&t, "never"), 0);
	assert_int_equal(t.ts->hog_us, LEAT_TASK_HOG_NEVER);
	/*
	 * The value "never" has removed these tasks from the watchdog: their end must not do it
	 * again.
	 */
	task_test_end(&t);

	task_test_begin(&t, &never);
	assert_int_equal(set(&t, "7000"), 0);
	assert_int_equal(t.ts->hog_us, 7000);
	assert_int_equal(set(&t, "0"), -ERANGE);
	task_test_end(&t);

	tune_file_begin("task.r.hog_us = 1234\n");
	task_test_begin(&t, &never);
	assert_int_equal(t.ts->hog_us, 1234);
	task_test_end(&t);
	tune_file_end();
}

/*
 * The control thread changes hog_us while leat_tasks_create() is between task_tune_add() and
 * task_watch_add(): the tasks are watched once or not at all, and the watchdog ends with the last
 * tasks that it watches.
 */
static void
test_hog_while_created(void **state)
{
	const struct leat_tasks_conf never = { .hog_us = LEAT_TASK_HOG_NEVER };
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_true(task_watch_runs());
	/* Undo task_watch_add(), make the change, and do it again. */
	task_watch_del(t.ts);
	assert_false(task_watch_runs());
	assert_int_equal(set(&t, "never"), 0);
	task_watch_add(t.ts);
	assert_false(task_watch_runs());
	task_test_end(&t);

	/* The tasks after them start the watchdog, and stop it. */
	task_test_begin(&t, NULL);
	assert_true(task_watch_runs());
	task_test_end(&t);
	assert_false(task_watch_runs());

	task_test_begin(&t, &never);
	assert_false(task_watch_runs());
	assert_int_equal(set(&t, "7000"), 0);
	task_watch_add(t.ts);
	assert_true(task_watch_runs());
	task_test_end(&t);
	assert_false(task_watch_runs());
}

static int
yields(void *arg)
{
	(void)arg;
	return leat_task_yield();
}

static void
test_report(void **state)
{
	struct task_tune_report rep;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "yields", yields, NULL);
	tune_report(t.ts->tune, &rep);
	assert_int_equal(rep.spawned, 1);
	assert_int_equal(rep.tasks, 1);
	assert_int_equal(rep.ready, 1);
	assert_int_equal(task_test_join(&t, task), 0);
	tune_report(t.ts->tune, &rep);
	assert_int_equal(rep.switches, 2);
	assert_int_equal(rep.tasks, 0);
	assert_int_equal(rep.stacks, 1);
	task_test_end(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_hog, test_clock_setup),
		cmocka_unit_test_setup(test_hog_while_created, test_clock_setup),
		cmocka_unit_test_setup(test_report, test_clock_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
