/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_TEST_H
#define TASK_TEST_H

/*
 * A reactor with tasks. The test calls leat_reactor_turn() itself, and only the test advances the
 * clock.
 */

#include <errno.h>

#include <leat_scope.h>
#include <leat_task.h>

#include "../reactor/reactor_test.h"

struct task_test {
	struct leat_reactor *r;
	struct leat_tasks *ts;
};

static inline void
task_test_begin(struct task_test *t, const struct leat_tasks_conf *conf)
{
	t->r = test_reactor("r");
	t->ts = leat_tasks_create(t->r, conf);
	if (t->ts == NULL)
		fail_msg("%s", leat_err_msg());
}

static inline void
task_test_end(struct task_test *t)
{
	assert_int_equal(leat_tasks_destroy(t->ts), 0);
	assert_int_equal(leat_reactor_destroy(t->r), 0);
}

static inline struct leat_task *
task_test_spawn(struct task_test *t, const char *name, leat_task_fn fn, void *arg)
{
	struct leat_task *task = leat_task_spawn(t->ts, name, fn, arg);

	if (task == NULL)
		fail_msg("%s", leat_err_msg());
	return task;
}

/*
 * Turn until the task has ended; each turn takes 1 us.
 * @return the task's result
 */
static inline int
task_test_join(struct task_test *t, struct leat_task *task)
{
	unsigned int i;
	int ret;

	for (i = 0; i < 1000000 && leat_task_state(task) != LEAT_TASK_DONE; i++) {
		test_turns(t->r, 1);
		test_clock += US;
	}
	assert_int_equal(leat_task_join(task, &ret), 0);
	return ret;
}

/* Yield, and check the result: -ECANCELED if the task was cancelled before or during the yield. */
static inline void
task_test_yield(void)
{
	int ret = leat_task_yield();

	assert_int_equal(ret, leat_task_cancelled() ? -ECANCELED : 0);
}

/* Append the string `more` to the string in `text`, a buffer of `size` bytes. */
static inline void
task_test_append(char *text, size_t size, const char *more)
{
	size_t len = strlen(text);

	assert_true(len + strlen(more) < size);
	memcpy(text + len, more, strlen(more) + 1);
}

/*
 * Run fn as a task of a new reactor.
 * @return the result of fn
 */
static inline int
task_test_run(leat_task_fn fn, void *arg)
{
	struct task_test t;
	int ret;

	task_test_begin(&t, NULL);
	ret = task_test_join(&t, task_test_spawn(&t, "main", fn, arg));
	task_test_end(&t);
	return ret;
}

#endif /* TASK_TEST_H */
