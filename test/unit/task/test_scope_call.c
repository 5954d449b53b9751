/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Races of completion and cancel on two threads: tasks call a function on the reactor of another
 * thread, and a branch cancels these calls after 0 to PATIENT turns. Exactly one wins: either the
 * function is called and leat_task_call() returns 0, or the function is never called and
 * leat_task_call() returns -ECANCELED.
 */

#include <pthread.h>

#include <leat_task_call.h>

#include "scope_test.h"

/* Tasks are slow under the thread sanitizer. */
#ifdef __SANITIZE_THREAD__
#define ROUNDS 300
#else
#define ROUNDS 20000
#endif
#define CALLERS 4
#define PATIENT 8

struct call_race {
	struct leat_reactor *to;
	unsigned int delay;  /* turns until the cancel; PATIENT: from the first call of callee() */
	unsigned int begun;  /* functions that were called */
	int called[CALLERS]; /* written by the other thread */
	int got[CALLERS];
	int ret[CALLERS];
};

struct one_call {
	struct call_race *race;
	unsigned int i;
};

static uint64_t seed = 8;

static int
callee(void *arg)
{
	const struct one_call *c = arg;

	__atomic_fetch_add(&c->race->begun, 1, __ATOMIC_RELAXED);
	return ++c->race->called[c->i];
}

static int
caller(void *arg)
{
	struct one_call *c = arg;

	return leat_task_call(c->race->to, callee, c, &c->race->ret[c->i]);
}

static int
delayed_cancel(void *arg)
{
	const struct call_race *race = arg;
	unsigned int i;

	for (i = 0; i < race->delay; i++) {
		/*
		 * With the delay PATIENT count only the turns after the first call of callee(): so
		 * in some rounds a function is called before the cancel, even on a slow machine.
		 */
		if (race->delay == PATIENT && __atomic_load_n(&race->begun, __ATOMIC_RELAXED) == 0)
			i = 0;
		task_test_yield();
	}
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	return 0;
}

static int
call_races(void *arg)
{
	struct call_race race = { .to = arg };
	struct one_call calls[CALLERS];
	unsigned int won[2] = { 0 };
	struct leat_scope s;
	unsigned int i, j;

	for (i = 0; i < ROUNDS; i++) {
		race.delay = (unsigned int)(test_random(&seed) % (PATIENT + 1));
		race.begun = 0;
		leat_scope_init(&s);
		for (j = 0; j < CALLERS; j++) {
			race.called[j] = 0;
			race.ret[j] = 0;
			calls[j] = (struct one_call){ .race = &race, .i = j };
			assert_int_equal(
				leat_scope_branch(&s, "call", caller, &calls[j], &race.got[j]), 0);
		}
		assert_int_equal(leat_scope_branch(&s, "cancel", delayed_cancel, &race, NULL), 0);
		assert_int_equal(leat_scope_wait(&s), 0);
		/* The scope has ended, so the other thread does not touch `race` now. */
		for (j = 0; j < CALLERS; j++) {
			assert_int_equal(race.got[j], race.called[j] ? 0 : -ECANCELED);
			assert_in_range(race.called[j], 0, 1);
			assert_int_equal(race.ret[j], race.called[j]);
			won[race.called[j]]++;
		}
	}
	print_message("%u calls were cancelled, %u were not\n", won[0], won[1]);
	assert_true(won[0] > 0 && won[1] > 0);
	return 0;
}

static void *
other_thread(void *arg)
{
	return leat_reactor_run(arg) == 0 ? NULL : arg;
}

static void
test_calls_against_cancel(void **state)
{
	struct leat_reactor_conf conf = { .name = "other", .idle.policy = LEAT_IDLE_YIELD };
	struct leat_reactor *other = leat_reactor_create(&conf);
	struct leat_task *task;
	struct task_test t;
	pthread_t thread;
	void *failed;

	(void)state;
	assert_non_null(other);
	conf.name = "caller";
	t.r = leat_reactor_create(&conf);
	assert_non_null(t.r);
	t.ts = leat_tasks_create(t.r, NULL);
	assert_non_null(t.ts);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, other), 0);
	task = task_test_spawn(&t, "main", call_races, other);
	while (leat_task_state(task) != LEAT_TASK_DONE)
		test_turns(t.r, 1);
	assert_int_equal(leat_task_join(task, NULL), 0);
	task_test_end(&t);
	leat_reactor_stop(other, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(leat_reactor_destroy(other), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_against_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
