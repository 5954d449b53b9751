/* SPDX-License-Identifier: BSD-3-Clause */

/* Mistakes that debug builds report, with the task and the code address of the call. */

#include <semaphore.h>

#include <leat_task_sync.h>

#include "log_test.h"
#include "task_pvt.h"
#include "task_test.h"

#if defined(TASK_ASAN)
#define ASAN true
#else
#define ASAN false
#endif

/* Check that one line was logged, with all these words in this order. */
static void
assert_logged(const char *const *words)
{
	const char *at = logged, *line = strchr(logged, '\n');

	if (line == NULL || line[1] != '\0')
		fail_msg("not one line: %s", logged);
	for (; *words != NULL; words++) {
		at = strstr(at, *words);
		if (at == NULL) {
			fail_msg("no \"%s\" in: %s", *words, logged);
			return;
		}
		at += strlen(*words);
	}
}

#define ASSERT_LOGGED(...) assert_logged((const char *const[]){ __VA_ARGS__, NULL })

/* Code addresses in this program, as reports print them. */
#define HERE "test_task_debug+0x"

/* ---- another thread ---- */

struct foreign {
	struct leat_task_sem sem;
	struct leat_task *waiter;
	sem_t running, done;
};

static int
wait_for_sem(void *arg)
{
	return leat_task_sem_wait(&((struct foreign *)arg)->sem);
}

static int
nothing(void *arg)
{
	(void)arg;
	return 3;
}

/* Drive the reactor, and wait while the main thread makes its mistake. */
static void *
owner_main(void *arg)
{
	struct foreign *f = arg;
	struct task_test t;
	int ret = 1;

	task_test_begin(&t, NULL);
	leat_task_sem_init(&f->sem, 0, "gate");
	f->waiter = task_test_spawn(&t, "waiter", wait_for_sem, f);
	test_turns(t.r, 2);
	(void)sem_post(&f->running);
	(void)sem_wait(&f->done);
	test_turns(t.r, 2);
	assert_int_equal(leat_task_join(f->waiter, &ret), 0);
	assert_int_equal(ret, 0);
	task_test_end(&t);
	return NULL;
}

static void
test_wrong_thread(void **state)
{
	struct leat_tasks *ts;
	struct foreign f;
	pthread_t owner;

	(void)state;
	assert_int_equal(sem_init(&f.running, 0, 0), 0);
	assert_int_equal(sem_init(&f.done, 0, 0), 0);
	assert_int_equal(pthread_create(&owner, NULL, owner_main, &f), 0);
	assert_int_equal(sem_wait(&f.running), 0);
	ts = f.waiter->ts;

	log_begin();
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "stray", nothing, NULL)), 0);
	log_end();
	if (strstr(logged, "r: wrong thread: spawn, called at ") == NULL ||
	    strstr(logged, "r: wrong thread: detach, called at ") == NULL)
		fail_msg("%s", logged);
	log_free();

	/* The post is reported, and still wakes the waiter, as in a release build. */
	log_begin();
	assert_int_equal(leat_task_sem_post(&f.sem), 0);
	log_end();
	ASSERT_LOGGED("r: wrong thread: semaphore, called at ", HERE, "by no task");
	log_free();

	/* A join by another thread is refused, and reported. */
	log_begin();
	assert_int_equal(leat_task_join(f.waiter, NULL), -EPERM);
	log_end();
	ASSERT_LOGGED("r: wrong thread: join, called at ", HERE);
	log_free();
	assert_int_equal(sem_post(&f.done), 0);
	assert_int_equal(pthread_join(owner, NULL), 0);
	assert_int_equal(sem_destroy(&f.running), 0);
	assert_int_equal(sem_destroy(&f.done), 0);
}

/* ---- scopes ---- */

static struct leat_scope *left;

static int
branch(void *arg)
{
	left = leat_task_current()->scope;
	return leat_task_sleep(*(uint64_t *)arg);
}

static __rte_noinline void
leave_scope(uint64_t *us)
{
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "a", branch, us, NULL), 0);
}

/* Leave a scope so deep in the stack that later calls of the caller do not overwrite it. */
static __rte_noinline void
leave_scope_deep(uint64_t *us)
{
	volatile char room[16384];

	room[0] = 1;
	leave_scope(us);
	room[1] = room[0];
}

static int
returns_from_function(void *arg)
{
	uint64_t us = 5;

	leave_scope_deep(&us);
	log_begin();
	assert_int_equal(leat_task_sleep(1), 0);
	log_end();
	/* The scope, far below this frame, is still intact: its branches can end. */
	assert_int_equal(leat_scope_wait(left), 0);
	(void)arg;
	return 0;
}

static void
test_scope_left_by_function(void **state)
{
	(void)state;
	if (ASAN) {
		/*
		 * With the sanitizer the scope is not on the task's stack, and is freed when its
		 * function returns.
		 */
		skip();
		return;
	}
	assert_int_equal(task_test_run(returns_from_function, NULL), 0);
	ASSERT_LOGGED("r: task main (1) returned from a function without leat_scope_wait()", HERE);
	log_free();
}

static struct leat_scope static_scope;

static int
ends_with_scope(void *arg)
{
	leat_scope_init(&static_scope);
	assert_int_equal(leat_scope_branch(&static_scope, "a", branch, arg, NULL), 0);
	return 7;
}

static void
test_scope_left_by_task(void **state)
{
	struct leat_tasks_stats stats;
	uint64_t us = 100;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	log_begin();
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "leaver", ends_with_scope, &us)),
			 7);
	log_end();
	ASSERT_LOGGED("r: task leaver (1) ended without leat_scope_wait()", HERE);
	log_free();
	do {
		test_turns(t.r, 1);
		test_clock += US;
		leat_tasks_stats_get(t.ts, &stats);
	} while (stats.tasks > 0);
	task_test_end(&t);
}

static int
sets_up_again(void *arg)
{
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "a", branch, arg, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	/* A scope that has ended may be used again with or without leat_scope_init(). */
	assert_int_equal(leat_scope_branch(&s, "a", branch, arg, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "a", branch, arg, NULL), 0);
	/* The branch has ended, but leat_scope_wait() was not called. */
	assert_int_equal(leat_task_sleep(1000), 0);
	leat_scope_init(&s);
	return 0;
}

static void
test_scope_set_up_again(void **state)
{
	uint64_t us = 10;

	(void)state;
	log_begin();
	assert_int_equal(task_test_run(sets_up_again, &us), 0);
	log_end();
	ASSERT_LOGGED("r: task main (1) sets up a scope again, at ", HERE,
		      "without leat_scope_wait()", HERE);
	log_free();
}

/* ---- join ---- */

static void
test_joined_twice(void **state)
{
	struct leat_task *a, *b, *c;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	a = task_test_spawn(&t, "a", nothing, NULL);
	b = task_test_spawn(&t, "b", nothing, NULL);
	assert_int_equal(task_test_join(&t, b), 3);
	assert_int_equal(task_test_join(&t, a), 3);
	/* The next task does not get the block of the task that ended last. */
	b = task_test_spawn(&t, "b", nothing, NULL);
	assert_ptr_not_equal(a, b);
	log_begin();
	assert_int_equal(leat_task_join(a, NULL), -EINVAL);
	log_end();
	ASSERT_LOGGED("r: task a (1) is joined twice: at ", HERE, "before that at ", HERE);
	log_free();
	assert_int_equal(task_test_join(&t, b), 3);

	c = task_test_spawn(&t, "c", nothing, NULL);
	assert_int_equal(leat_task_detach(c), 0);
	test_turns(t.r, 2);
	log_begin();
	assert_int_equal(leat_task_join(c, NULL), -EINVAL);
	log_end();
	ASSERT_LOGGED("r: task c (4) is joined at ", HERE, "it was detached, and has ended");
	log_free();
	task_test_end(&t);
}

/*
 * The block of an ended task is not reused at once, unless all other blocks are in use: so the
 * program can still have max_tasks tasks.
 */
static void
test_rest(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = TASK_DEBUG_REST + 2 };
	struct leat_task *tasks[TASK_DEBUG_REST + 2];
	struct task_test t;
	unsigned int i, n;

	(void)state;
	task_test_begin(&t, &conf);
	for (n = 0; n < 3; n++) {
		for (i = 0; i < conf.max_tasks; i++)
			tasks[i] = task_test_spawn(&t, NULL, nothing, NULL);
		assert_null(leat_task_spawn(t.ts, NULL, nothing, NULL));
		for (i = 0; i < conf.max_tasks; i++)
			assert_int_equal(task_test_join(&t, tasks[i]), 3);
	}
	task_test_end(&t);
}

/* ---- mutex ---- */

struct locks {
	struct leat_task_mutex a, b;
};

static int
ends_with_mutex(void *arg)
{
	struct locks *l = arg;

	assert_int_equal(leat_task_mutex_lock(&l->a), 0);
	assert_int_equal(leat_task_mutex_trylock(&l->b), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_mutex_unlock(&l->a), 0);
	return 0;
}

/* Get the mutex a when ends_with_mutex() unlocks it, and end without unlocking it. */
static int
ends_with_given(void *arg)
{
	struct locks *l = arg;

	assert_int_equal(leat_task_mutex_lock(&l->a), 0);
	return 0;
}

static void
test_mutex(void **state)
{
	struct leat_task *first, *second;
	struct task_test t;
	struct locks l;

	(void)state;
	leat_task_mutex_init(&l.a, "mutex-a");
	leat_task_mutex_init(&l.b, "mutex-b");
	task_test_begin(&t, NULL);
	log_begin();
	first = task_test_spawn(&t, "first", ends_with_mutex, &l);
	second = task_test_spawn(&t, "second", ends_with_given, &l);
	assert_int_equal(task_test_join(&t, first), 0);
	assert_int_equal(task_test_join(&t, second), 0);
	log_end();
	if (strstr(logged, "r: task first (1) ended with mutex mutex-b, which it locked at ") ==
		    NULL ||
	    strstr(logged, "r: task second (2) ended with mutex mutex-a, which it locked at ") ==
		    NULL ||
	    strstr(logged, HERE) == NULL)
		fail_msg("%s", logged);
	log_free();
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_wrong_thread),
		CASE(test_scope_left_by_function),
		CASE(test_scope_left_by_task),
		CASE(test_scope_set_up_again),
		CASE(test_joined_twice),
		CASE(test_rest),
		CASE(test_mutex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
