/* SPDX-License-Identifier: BSD-3-Clause */

/* Tasks that are not joined, tasks without a name, and the result of yield. */

#include "task_pvt.h"
#include "task_test.h"

static int
count(void *arg)
{
	(*(int *)arg)++;
	return 0;
}

/* A poller starts a task in its first turn. */
static int
start_once(void *arg, uint64_t now)
{
	(void)now;
	if (*(int *)arg == 0)
		assert_int_equal(leat_task_start(NULL, count, arg), 0);
	return 0;
}

static int
starter(void *arg)
{
	assert_int_equal(leat_task_start("counter", count, arg), 0);
	assert_int_equal(leat_task_start(NULL, NULL, arg), -EINVAL);
	assert_int_equal(leat_task_start(NULL, count, arg), 0);
	/* Three tasks exist, which is the limit. */
	assert_int_equal(leat_task_start("late", count, arg), -ENOMEM);
	return 0;
}

static void
test_start(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 3 };
	struct leat_tasks_stats stats;
	struct leat_poller *p;
	struct task_test t;
	int n = 0, polled = 0;

	(void)state;
	task_test_begin(&t, &conf);
	/* Not on the reactor's thread: the reactor does not run yet. */
	assert_int_equal(leat_task_start("early", count, &n), -EPERM);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "starter", starter, &n)), 0);
	test_turns(t.r, 2);
	assert_int_equal(n, 2);
	p = leat_reactor_poller_add(t.r, "poller", start_once, &polled, 0);
	assert_non_null(p);
	test_turns(t.r, 2);
	assert_int_equal(polled, 1);
	assert_int_equal(leat_poller_remove(p), 0);
	/* The tasks have ended. */
	leat_tasks_stats_get(t.ts, &stats);
	assert_int_equal(stats.tasks, 0);
	task_test_end(&t);
}

/* The program exports this function (-rdynamic): a task without a name can be named after it. */
int exported_function(void *arg);

int
exported_function(void *arg)
{
	return leat_task_sleep(*(uint64_t *)arg);
}

static int
hidden_function(void *arg)
{
	return leat_task_sleep(*(uint64_t *)arg);
}

static int
names_itself(void *arg)
{
	(void)arg;
	assert_string_equal(leat_task_name(leat_task_current()), "task");
	leat_task_name_set("someone");
	assert_string_equal(leat_task_name(leat_task_current()), "someone");
	leat_task_name_set(NULL);
	assert_string_equal(leat_task_name(leat_task_current()), "task");
	return 0;
}

static int
fails(void *arg)
{
	(void)arg;
	return -EIO;
}

static int
scope_without_names(void *arg)
{
	const char *name = NULL;
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, NULL, exported_function, arg, NULL), 0);
	assert_string_equal(leat_task_name(s.first), "exported_function");
	assert_int_equal(leat_scope_branch(&s, NULL, fails, NULL, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(leat_scope_failure(&s, &name), -EIO);
	assert_string_equal(name, "task");
	return 0;
}

static void
test_no_name(void **state)
{
	struct leat_task *exported, *hidden;
	struct leat_task_info info;
	struct task_test t;
	uint64_t us = 100;

	(void)state;
	task_test_begin(&t, NULL);
	exported = task_test_spawn(&t, NULL, exported_function, &us);
	hidden = task_test_spawn(&t, NULL, hidden_function, &us);
	test_turns(t.r, 1);
	assert_string_equal(leat_task_name(exported), "exported_function");
	assert_string_equal(leat_task_name(hidden), "task");
	leat_task_info_get(exported, &info);
	assert_string_equal(info.name, "exported_function");
	assert_int_equal(task_test_join(&t, exported), 0);
	assert_int_equal(task_test_join(&t, hidden), 0);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "", names_itself, NULL)), 0);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, NULL, scope_without_names, &us)),
			 0);
	task_test_end(&t);
}

struct yielder {
	unsigned int others; /* how often the task b, other(), has run */
	int masked, cancelled, again;
};

static int
other(void *arg)
{
	struct yielder *y = arg;
	int ret;

	do {
		y->others++;
		ret = leat_task_yield();
	} while (ret == 0);
	return ret;
}

static int
yielder(void *arg)
{
	struct yielder *y = arg;
	struct leat_task_mask_state mask;
	unsigned int before;

	assert_int_equal(leat_task_sleep(1000), -ECANCELED);
	leat_task_mask(&mask);
	y->masked = leat_task_yield();
	leat_task_unmask(&mask);
	/* The yield of a cancelled task returns only after the task b has run once. */
	before = y->others;
	y->cancelled = leat_task_yield();
	assert_int_equal(y->others, before + 1);
	y->again = leat_task_yield();
	assert_int_equal(y->others, before + 2);
	return 0;
}

static void
test_yield_when_cancelled(void **state)
{
	struct yielder y = { .others = 0 };
	struct leat_task *a, *b;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	a = task_test_spawn(&t, "a", yielder, &y);
	b = task_test_spawn(&t, "b", other, &y);
	test_turns(t.r, 3);
	assert_int_equal(task_cancel(a), 0);
	assert_int_equal(task_test_join(&t, a), 0);
	assert_int_equal(y.masked, 0);
	assert_int_equal(y.cancelled, -ECANCELED);
	assert_int_equal(y.again, -ECANCELED);
	/* The loop of other() ends, since it checks the result of yield. */
	assert_int_equal(task_cancel(b), 0);
	assert_int_equal(task_test_join(&t, b), -ECANCELED);
	task_test_end(&t);
}

static int
late(void *arg)
{
	uint64_t begin = test_clock;
	int ret;

	(void)arg;
	leat_task_deadline_set(begin + 10 * US);
	do {
		ret = leat_task_yield();
		assert_int_equal(ret, test_clock - begin < 10 * US ? 0 : -ETIMEDOUT);
	} while (ret == 0);
	assert_int_equal(leat_task_yield(), -ETIMEDOUT);
	assert_int_equal(leat_task_masked(leat_task_yield()), 0);
	leat_task_deadline_set(LEAT_TASK_NO_DEADLINE);
	return leat_task_yield();
}

static void
test_yield_when_late(void **state)
{
	(void)state;
	assert_int_equal(task_test_run(late, NULL), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_start),
		CASE(test_no_name),
		CASE(test_yield_when_cancelled),
		CASE(test_yield_when_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
