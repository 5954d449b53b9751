/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A scope that has ended is used again, without leat_scope_init(): its last round must have no
 * effect on the next.
 */

#include "scope_test.h"

#define ROUNDS 5

/* How a round ends, after which the next one must be clean. */
enum ending {
	BY_ITSELF,
	BY_CANCEL,     /* a branch cancelled its siblings */
	BY_DEADLINE,   /* the deadline of the waiting task passed */
	BY_FAILURE,    /* a branch returned an error */
	BY_NO_ROOM,    /* there was no room for a branch */
	BY_MISUSE,     /* a branch was added without a function */
	BY_ROUND_LATE, /* no branch could be started: the deadline had passed */
	ENDINGS,
};

static int
fails(void *arg)
{
	(void)arg;
	return -EIO;
}

static int
sleeps(void *arg)
{
	(void)arg;
	return leat_task_sleep(1000000);
}

/* Add branches until there is no room, and check that one more is refused, too. */
static void
fill(struct leat_scope *s)
{
	while (leat_scope_branch(s, "fill", sleeps, NULL, NULL) == 0)
		;
	assert_int_equal(leat_scope_branch(s, "one more", sleeps, NULL, NULL), -ENOMEM);
}

static void
end_round(struct leat_scope *s, enum ending how)
{
	struct canceller c;
	struct worker w;
	int ret = 1;

	switch (how) {
	case BY_CANCEL:
		worker_start(s, &w, 1);
		canceller_start(s, &c, NULL);
		assert_int_equal(leat_scope_wait(s), 0);
		assert_int_equal(c.result, 0);
		assert_true(w.cancelled);
		break;
	case BY_DEADLINE:
		worker_start(s, &w, 1);
		assert_int_equal(leat_task_within(10, leat_scope_wait(s)), -ETIMEDOUT);
		assert_true(w.cancelled);
		break;
	case BY_FAILURE:
		assert_int_equal(leat_scope_branch(s, "fails", fails, NULL, &ret), 0);
		assert_int_equal(leat_scope_wait(s), 0);
		assert_int_equal(ret, -EIO);
		assert_int_equal(leat_scope_failure(s, NULL), -EIO);
		break;
	case BY_NO_ROOM:
		fill(s);
		assert_int_equal(leat_scope_wait(s), -ENOMEM);
		break;
	case BY_MISUSE:
		assert_int_equal(leat_scope_branch(s, "none", NULL, NULL, NULL), -EINVAL);
		assert_int_equal(leat_scope_wait(s), -EINVAL);
		break;
	case BY_ROUND_LATE:
		assert_int_equal(leat_task_within(0,
						  leat_scope_branch(s, "late", sleeps, NULL, NULL)),
				 -ETIMEDOUT);
		assert_int_equal(leat_scope_wait(s), -ETIMEDOUT);
		break;
	case BY_ITSELF:
	case ENDINGS:
		assert_int_equal(leat_scope_wait(s), 0);
		break;
	}
}

/*
 * Run rounds that must be clean: their branches are not born cancelled, and a cancel in them is
 * delivered, as in a new scope.
 */
static void
clean_round(struct leat_scope *s)
{
	const char *name = NULL;
	struct canceller c;
	struct worker w;
	struct nest n;

	worker_start(s, &w, 0);
	assert_int_equal(leat_scope_wait(s), 0);
	assert_false(w.cancelled);
	assert_int_equal(leat_scope_failure(s, &name), 0);
	assert_string_equal(name, "");
	/* Once more, with two branches that wait, and one that cancels. */
	worker_start(s, &w, 2);
	nest_start(s, &n);
	canceller_start(s, &c, &w);
	assert_int_equal(leat_scope_wait(s), 0);
	assert_int_equal(c.result, 0);
	assert_int_equal(w.h.posts, 1);
	assert_int_equal(w.h.cancels, 1);
	assert_int_equal(w.results[0], -ECANCELED);
	/* It is not specified whether c or n.c, in the scope of n, cancels first. */
	assert_true(n.c.result == 0 || n.c.result == -EEXIST);
	/* Another wait without a branch returns at once. */
	assert_int_equal(leat_scope_wait(s), 0);
}

static int
reuse(void *arg)
{
	struct leat_scope s;
	unsigned int i, how, before;

	(void)arg;
	leat_scope_init(&s);
	for (before = 0; before < ENDINGS; before++)
		for (how = 0; how < ENDINGS; how++)
			for (i = 0; i < ROUNDS; i++) {
				end_round(&s, (enum ending)before);
				end_round(&s, (enum ending)how);
				clean_round(&s);
			}
	return 0;
}

static void
test_reuse(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 50 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", reuse, NULL)), 0);
	task_test_end(&t);
}

/*
 * A cancelled task uses its scope again: branches and waits of later rounds are refused as well,
 * except in a mask.
 */
static int
reuse_when_cancelled(void *arg)
{
	struct leat_scope *s = arg;
	struct leat_task_mask_state mask;
	struct worker w;

	leat_scope_init(s);
	worker_start(s, &w, 1);
	assert_int_equal(leat_scope_wait(s), -ECANCELED);
	assert_true(w.cancelled);
	assert_int_equal(leat_scope_branch(s, "refused", sleeps, NULL, NULL), -ECANCELED);
	assert_int_equal(leat_scope_wait(s), -ECANCELED);
	leat_task_mask(&mask);
	clean_round(s);
	leat_task_unmask(&mask);
	assert_int_equal(leat_scope_branch(s, "refused", sleeps, NULL, NULL), -ECANCELED);
	return leat_scope_wait(s);
}

static int
cancelled_from_outside(void *arg)
{
	struct leat_scope outer, inner;
	struct canceller c;
	int ret = 1;

	(void)arg;
	leat_scope_init(&outer);
	assert_int_equal(leat_scope_branch(&outer, "reuses", reuse_when_cancelled, &inner, &ret),
			 0);
	canceller_start(&outer, &c, NULL);
	assert_int_equal(leat_scope_wait(&outer), 0);
	assert_int_equal(ret, -ECANCELED);
	return 0;
}

RULE(test_reuse_when_cancelled, cancelled_from_outside)

/* Use a scope of another task: each call is refused at once. */
static int
use_of_another(void *arg)
{
	assert_int_equal(leat_scope_branch(arg, "stray", fails, NULL, NULL), -EPERM);
	assert_int_equal(leat_scope_wait(arg), -EPERM);
	return 0;
}

static int
ended_scope_of_another(void *arg)
{
	struct leat_task *task;
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	end_round(&s, BY_CANCEL);
	task = leat_task_spawn(leat_tasks_self(), "stray", use_of_another, &s);
	return leat_task_join(task, NULL);
}

RULE(test_ended_scope_of_another_task, ended_scope_of_another)

/*
 * A scope whose task and struct leat_tasks no longer exist: calls with this scope must not access
 * either of them.
 */
static struct leat_scope static_scope;

static int
make_static(void *arg)
{
	leat_scope_init(&static_scope);
	end_round(&static_scope, BY_CANCEL);
	return arg != NULL;
}

static void
test_scope_outlives_its_task(void **state)
{
	struct task_test t;

	(void)state;
	assert_int_equal(task_test_run(make_static, NULL), 0);
	task_test_begin(&t, NULL);
	/* The task "other" makes sure that "stray" is not at the address of the first task. */
	(void)task_test_spawn(&t, "other", sleeps, NULL);
	assert_int_equal(
		task_test_join(&t, task_test_spawn(&t, "stray", use_of_another, &static_scope)), 0);
	leat_reactor_stop(t.r, 1000);
	assert_int_equal(test_turns_until_stopped(t.r), -ESHUTDOWN);
	task_test_end(&t);
}

/* Outside of tasks, every use of a scope is refused. */
static void
test_outside_of_tasks(void **state)
{
	(void)state;
	assert_int_equal(use_of_another(&static_scope), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reuse),
		TEST(test_reuse_when_cancelled),
		TEST(test_ended_scope_of_another_task),
		TEST(test_scope_outlives_its_task),
		TEST(test_outside_of_tasks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
