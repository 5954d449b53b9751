/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_task_call() to another reactor. One thread drives both reactors, except in test_threads(),
 * where the other reactor has its own thread.
 */

#include <pthread.h>

#include <leat_scope.h>
#include <leat_task_call.h>

#include "reactor_pvt.h"
#include "task_pvt.h"
#include "task_test.h"

struct caller {
	struct leat_reactor *to;
	int (*fn)(void *arg); /* function to call; NULL: callee() */
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

	err = leat_task_call(c->to, c->fn != NULL ? c->fn : callee, c, &ret);
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

	/* A task calls its own reactor. */
	test_turns(c.to, 1);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
	c.to = t.r;
	task = task_test_spawn(&t, "call", call_once, &c);
	assert_int_equal(task_test_join(&t, task), 2);
	task_test_end(&t);
}

/* A call that is cancelled before its function began ends at once; the function is not called. */
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
	assert_int_equal(task_test_join(&t, task), -ECANCELED);
	assert_int_equal(reactor_messages_waiting(c.to), 1);
	test_turns(c.to, 1);
	assert_int_equal(c.called, 0);

	/* The function was called: the cancel comes too late. */
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

/*
 * The message ring of the caller's reactor is full: the answer still arrives. The message ring of
 * the called reactor is full: the call fails with -EAGAIN.
 */
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

static int
call_within(void *arg)
{
	int ret;

	leat_task_deadline_set(leat_time_add(leat_now(), 100 * US));
	ret = call_once(arg);
	leat_task_deadline_set(LEAT_TASK_NO_DEADLINE);
	return ret;
}

/* The called reactor does not run the message: the call ends at its deadline. */
static void
test_deadline(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "call", call_within, &c)),
			 -ETIMEDOUT);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "call", call_within, &c)),
			 -ETIMEDOUT);
	/*
	 * The message is run after the caller's tasks were destroyed: it does not call the
	 * function.
	 */
	task_test_end(&t);
	test_turns(c.to, 1);
	assert_int_equal(c.called, 0);

	/* The other reactor is destroyed before it runs the message. */
	task_test_begin(&t, NULL);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "call", call_within, &c)),
			 -ETIMEDOUT);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
	task_test_end(&t);
	assert_int_equal(c.called, 0);
}

/*
 * A call to a reactor that has stopped, or is destroyed before it runs, fails with -ESHUTDOWN. A
 * call that was accepted before the stop still succeeds.
 */
static void
test_stopped(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct leat_task_info info;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	/* The function of a call that was accepted before the stop is called. */
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 1);
	leat_reactor_stop(c.to, 0);
	assert_int_equal(test_turns_until_stopped(c.to), -ESHUTDOWN);
	assert_int_equal(task_test_join(&t, task), 1);

	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "call", call_once, &c)),
			 -ESHUTDOWN);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "call", call_within, &c)),
			 -ESHUTDOWN);
	assert_int_equal(leat_reactor_destroy(c.to), 0);

	c.to = test_reactor("never run");
	task = task_test_spawn(&t, "call", call_once, &c);
	test_turns(t.r, 1);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
	/* The wait still names the destroyed reactor. */
	leat_task_info_get(task, &info);
	assert_string_equal(info.waits, "call to never_run");
	assert_int_equal(task_test_join(&t, task), -ESHUTDOWN);
	assert_int_equal(c.called, 1);
	task_test_end(&t);
}

/*
 * The caller's stop reaches its deadline while the called function runs: the caller ends only after
 * the function has returned.
 */
static struct task_test slow_caller;

static int
slow(void *arg)
{
	struct caller *c = arg;

	leat_reactor_stop(slow_caller.r, 0);
	assert_int_equal(test_turns_until_stopped(slow_caller.r), -ETIMEDOUT);
	return (int)++c->called;
}

static void
test_caller_stops_meanwhile(void **state)
{
	struct caller c = { .to = test_reactor("other") };
	struct task_test *t = &slow_caller;

	(void)state;
	task_test_begin(t, NULL);
	c.fn = slow;
	(void)task_test_spawn(t, "call", call_once, &c);
	test_turns(t->r, 1);
	test_turns(c.to, 1);
	assert_int_equal(c.called, 1);
	assert_int_equal(leat_tasks_destroy(t->ts), -EBUSY);
	/* The call's answer waits in the inbox of t->ts; the task ends in the next run. */
	leat_task_detach(leat_task_spawn(t->ts, "end", call_once, &c));
	leat_reactor_stop(t->r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(t->r), 0);
	task_test_end(t);
	assert_int_equal(leat_reactor_destroy(c.to), 0);
}

/*
 * Two reactors whose tasks call each other, stopped at the same time or one after the other, in
 * many orders of their turns: both reactors stop, and each call returns.
 */
#define PAIR_TASKS 4

struct pair {
	struct task_test t[2];
	unsigned int begun, ended, called;
};

struct pair_task {
	struct pair *p;
	unsigned int side;
	bool masked; /* the task goes on calling after it was cancelled */
	bool rests;  /* the task yields after each call */
};

static int
pair_callee(void *arg)
{
	struct pair *p = arg;

	return (int)p->called++;
}

static int
pair_calls(const struct pair_task *pt, unsigned int n)
{
	struct pair *p = pt->p;
	int ret = 0;

	while (n-- > 0 && (ret == 0 || ret == -EAGAIN)) {
		p->begun++;
		ret = leat_task_call(p->t[1 - pt->side].r, pair_callee, p, NULL);
		p->ended++;
		if (ret == 0 && pt->rests)
			(void)leat_task_yield();
	}
	return ret;
}

static int
pair_caller(void *arg)
{
	const struct pair_task *pt = arg;
	int ret = pair_calls(pt, UINT32_MAX);

	assert_true(ret == -ESHUTDOWN || ret == -ECANCELED);
	/* A masked task makes up to three more calls during the stop. */
	if (pt->masked) {
		ret = leat_task_masked(pair_calls(pt, 3));
		assert_true(ret == -ESHUTDOWN || ret == 0);
	}
	return 0;
}

static void
pair_run(uint64_t *seed)
{
	struct pair_task pt[2 * PAIR_TASKS];
	bool over[2] = { false, false };
	struct pair p = { .begun = 0 };
	uint64_t stop_at[2];
	unsigned int i, j;

	for (i = 0; i < 2; i++) {
		task_test_begin(&p.t[i], NULL);
		stop_at[i] = test_random(seed) % 20;
	}
	for (i = 0; i < 2 * PAIR_TASKS; i++) {
		uint64_t r = test_random(seed);

		pt[i] = (struct pair_task){
			.p = &p, .side = i % 2, .masked = r % 5 == 0, .rests = (r & 64) != 0
		};
		leat_task_detach(task_test_spawn(&p.t[i % 2], "caller", pair_caller, &pt[i]));
	}
	for (i = 0; i < 10000 && !(over[0] && over[1]); i++) {
		for (j = 0; j < 2; j++)
			if (i == stop_at[j])
				leat_reactor_stop(p.t[j].r, 1000);
		j = (unsigned int)(test_random(seed) >> 33) % 2;
		if (!over[j]) {
			int ret = leat_reactor_turn(p.t[j].r);

			assert_true(ret >= 0 || (ret == -ESHUTDOWN && i > stop_at[j]));
			over[j] = ret < 0;
		}
	}
	assert_true(over[0] && over[1]);
	assert_int_equal(p.begun, p.ended);
	for (i = 0; i < 2; i++)
		task_test_end(&p.t[i]);
}

static void
test_stop_each_other(void **state)
{
	uint64_t seed = 88;
	unsigned int i;

	(void)state;
	for (i = 0; i < 1000; i++)
		pair_run(&seed);
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

/*
 * The other thread reads plain memory that this one wrote: the thread sanitizer checks that this is
 * no race.
 */
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
	/* The reactor is destroyed at once, even if the other thread is about to wake it. */
	task_test_end(&t);
	leat_reactor_stop(c.to, LEAT_REACTOR_STOP_NO_DEADLINE);
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
		CASE(test_deadline),
		CASE(test_stopped),
		CASE(test_caller_stops_meanwhile),
		CASE(test_stop_each_other),
		CASE(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
