/* SPDX-License-Identifier: BSD-3-Clause */

/* Scopes in the situations of real programs, and their results. */

#include "scope_test.h"

#define SECOND (1000 * MS)

/* ---- cancel one ---- */

static int
cancel_one(void *arg)
{
	struct leat_scope s;
	struct canceller c;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	canceller_start(&s, &c, NULL);
	worker_start(&s, &w, 2);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(c.result, 0);
	assert_int_equal(w.results[0], -ECANCELED);
	assert_int_equal(w.h.posts, 1);
	return 0;
}

/* ---- cancel two unrelated scopes ---- */

static int
cancel_one_of_two_scopes(void *arg)
{
	struct nest n[2];
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < 2; i++)
		nest_start(&s, &n[i]);
	/*
	 * A branch of each nested scope cancels its own scope, and not the scope of the other nest.
	 */
	assert_int_equal(leat_scope_wait(&s), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(n[i].c.result, 0);
		assert_int_equal(n[i].w.h.cancels, 1);
		assert_int_equal(n[i].result, 0);
		assert_false(n[i].cancelled);
	}
	return 0;
}

/* ---- two waits on one object ---- */

static int
wait_event(void *arg)
{
	return leat_task_event_wait(arg);
}

static int
set_event(void *arg)
{
	task_test_yield();
	task_test_yield();
	leat_task_event_set(arg);
	return 0;
}

struct shared {
	struct leat_task_event ev;
	int ret[2];
};

static int
shared_scope(void *arg)
{
	struct shared *sh = arg;
	struct leat_scope s;
	struct canceller c;
	unsigned int i;

	leat_scope_init(&s);
	for (i = 0; i < 2; i++)
		assert_int_equal(leat_scope_branch(&s, "wait", wait_event, &sh->ev, &sh->ret[i]),
				 0);
	canceller_start(&s, &c, NULL);
	return leat_scope_wait(&s);
}

static int
cancel_two_on_one_object(void *arg)
{
	struct shared sh = { .ret = { 1, 1 } };
	struct leat_scope s;
	int before, after;

	(void)arg;
	/*
	 * The two waiters of shared_scope(), in the middle of the event's list, are cancelled;
	 * "before" and "after" get the event.
	 */
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "before", wait_event, &sh.ev, &before), 0);
	assert_int_equal(leat_scope_branch(&s, "scope", shared_scope, &sh, NULL), 0);
	assert_int_equal(leat_scope_branch(&s, "after", wait_event, &sh.ev, &after), 0);
	assert_int_equal(leat_scope_branch(&s, "set", set_event, &sh.ev, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(sh.ret[0], -ECANCELED);
	assert_int_equal(sh.ret[1], -ECANCELED);
	assert_int_equal(before, 0);
	assert_int_equal(after, 0);
	return 0;
}

/* ---- 64 branches, all of which cancel at once ---- */

#define CROWD 64

static int
cancel_64_at_once(void *arg)
{
	struct canceller c[CROWD];
	unsigned int i, ok = 0, exist = 0;
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < CROWD; i++)
		canceller_start(&s, &c[i], NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	for (i = 0; i < CROWD; i++) {
		ok += c[i].result == 0;
		exist += c[i].result == -EEXIST;
		/* All branches are cancelled, except the one whose cancel was first. */
		assert_int_equal(c[i].cancelled, c[i].result != 0);
	}
	assert_int_equal(ok, 1);
	assert_int_equal(exist, CROWD - 1);
	return 0;
}

/* ---- a receive that completes after 1 s cancels a sleep of 10 s ---- */

static int
timer_10s(void *arg)
{
	(void)arg;
	return leat_task_sleep(10000000);
}

static int
receive_then_break(void *arg)
{
	int ret = leat_task_event_wait(arg);

	leat_scope_break(ret);
}

static int
timer_against_receive(void *arg)
{
	int timer = 1, receive = 1;
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "timer", timer_10s, NULL, &timer), 0);
	assert_int_equal(leat_scope_branch(&s, "receive", receive_then_break, arg, &receive), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(timer, -ECANCELED);
	assert_int_equal(receive, 0);
	return 0;
}

static void
arrives(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)now;
	leat_task_event_set(arg);
}

static void
test_timer_of_10s_against_receive_of_1s(void **state)
{
	struct leat_task_event message = { .is_set = false };
	uint64_t begin = test_clock;
	struct leat_timer timer;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	leat_timer_init(&timer, arrives, &message);
	leat_timer_start(t.r, &timer, 1000000);
	task = task_test_spawn(&t, "main", timer_against_receive, &message);
	while (leat_task_state(task) != LEAT_TASK_DONE) {
		test_turns(t.r, 1);
		test_clock += MS;
		assert_true(test_clock < begin + 2 * SECOND);
	}
	assert_true(test_clock >= begin + SECOND && test_clock <= begin + SECOND + 5 * MS);
	assert_int_equal(leat_task_join(task, NULL), 0);
	task_test_end(&t);
}

/* ---- results ---- */

static int
return_it(void *arg)
{
	return *(int *)arg;
}

static int
fail_second(void *arg)
{
	task_test_yield();
	return *(int *)arg;
}

static int
results_and_first_failure(void *arg)
{
	int give[5] = { 0, 42, -ENOENT, -EIO, 7 }, got[5];
	struct leat_scope s;
	const char *name;
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_failure(&s, &name), 0);
	assert_string_equal(name, "");
	/* The failure that came first in time counts, not that of the branch added first. */
	for (i = 0; i < 5; i++)
		assert_int_equal(leat_scope_branch(&s,
						   i == 2   ? "late"
						   : i == 3 ? "early"
							    : "fine",
						   i == 2 ? fail_second : return_it, &give[i],
						   &got[i]),
				 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	for (i = 0; i < 5; i++)
		assert_int_equal(got[i], give[i]);
	assert_int_equal(leat_scope_failure(&s, &name), -EIO);
	assert_string_equal(name, "early");
	return 0;
}

static int
cancelled_is_no_failure(void *arg)
{
	struct leat_scope s;
	struct canceller c;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	canceller_start(&s, &c, NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(w.ret, -ECANCELED);
	assert_int_equal(leat_scope_failure(&s, NULL), 0);
	return 0;
}

static int
empty_scope(void *arg)
{
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_wait(&s), 0);
	return 0;
}

static int
no_function(void *arg)
{
	struct leat_scope s;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	assert_int_equal(leat_scope_branch(&s, "none", NULL, NULL, NULL), -EINVAL);
	/* A branch that had not begun never runs. */
	assert_int_equal(leat_scope_wait(&s), -EINVAL);
	assert_false(w.ended);
	assert_int_equal(w.ret, -ECANCELED);
	return 0;
}

/* ---- a branch for which there is no room ---- */

static int
no_room(void *arg)
{
	struct worker w[4];
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < 3; i++)
		worker_start(&s, &w[i], 1);
	assert_int_equal(leat_scope_branch(&s, "much", worker_main, &w[3], &w[3].ret), -ENOMEM);
	/*
	 * Every further branch is refused, too, because one branch of the scope is missing already.
	 */
	assert_int_equal(leat_scope_branch(&s, "more", worker_main, &w[3], NULL), -ENOMEM);
	assert_int_equal(leat_scope_wait(&s), -ENOMEM);
	for (i = 0; i < 3; i++)
		assert_false(w[i].ended);
	assert_int_equal(w[3].ret, -ECANCELED);
	return 0;
}

static void
test_no_room_for_a_branch(void **state)
{
	const struct leat_tasks_conf conf = { .max_tasks = 4 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", no_room, NULL)), 0);
	task_test_end(&t);
}

/* ---- which task may use a scope ---- */

static int
wrong_task(void *arg)
{
	assert_int_equal(leat_scope_wait(arg), -EPERM);
	return 0;
}

static int
only_the_parent_waits(void *arg)
{
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "wrong", wrong_task, &s, NULL), 0);
	return leat_scope_wait(&s);
}

/*
 * Runs when all branches have ended and the parent is ready, but has not run yet. The parent would
 * not wait for a further branch, so the branch is refused.
 */
static int
branch_after_the_end(void *arg)
{
	struct worker *w = arg;

	assert_true(w->ended);
	assert_int_equal(leat_scope_branch(w->scope, "late", wrong_task, NULL, NULL), -EPERM);
	return 0;
}

static int
no_branch_after_the_end(void *arg)
{
	struct leat_scope s;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 0);
	w.scope = &s;
	assert_int_equal(leat_task_start("late", branch_after_the_end, &w), 0);
	return leat_scope_wait(&s);
}

static void
test_outside_of_tasks(void **state)
{
	struct leat_task_event ev = { .is_set = true };
	struct leat_task_mask_state mask;
	struct leat_scope s;

	(void)state;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "x", wrong_task, NULL, NULL), -EPERM);
	assert_int_equal(leat_scope_wait(&s), -EPERM);
	assert_int_equal(leat_scope_cancel_siblings(), -EINVAL);
	assert_int_equal(leat_task_start("x", wrong_task, NULL), -EPERM);
	assert_int_equal(leat_task_event_wait(&ev), -EPERM);
	assert_false(leat_task_cancelled());
	leat_task_mask(&mask);
	leat_task_unmask(&mask);
}

/* ---- leat_task_within ---- */

static int
slow(void *arg)
{
	*(int *)arg = leat_task_sleep(1000);
	return *(int *)arg;
}

static int
slow_branches(struct leat_scope *s, int *ret)
{
	leat_scope_init(s);
	assert_int_equal(leat_scope_branch(s, "slow", slow, ret, NULL), 0);
	return leat_scope_wait(s);
}

/* @return the result of a scope's only branch, after waiting for the scope */
static int
slow_branch(void)
{
	struct leat_scope s;
	int ret;

	(void)slow_branches(&s, &ret);
	return ret;
}

static int
within(void *arg)
{
	struct leat_task_event ev = { .is_set = false };
	struct leat_task_mask_state mask;
	uint64_t begin = test_clock;
	struct leat_scope s;
	int ret;

	(void)arg;
	assert_int_equal(leat_task_within(100, leat_task_event_wait(&ev)), -ETIMEDOUT);
	assert_true(test_clock >= begin + 100 * US && test_clock < begin + 110 * US);
	assert_int_equal(leat_task_within(1000, leat_task_sleep(10)), 0);
	assert_int_equal(leat_task_within(0, leat_task_sleep(10)), -ETIMEDOUT);
	/* The earliest deadline counts. */
	assert_int_equal(leat_task_within(10, leat_task_within(1000, leat_task_event_wait(&ev))),
			 -ETIMEDOUT);
	assert_int_equal(leat_task_within(1000, leat_task_within(10, leat_task_event_wait(&ev))),
			 -ETIMEDOUT);
	/* A time limit around a scope cancels the scope's branches. */
	assert_int_equal(leat_task_within(10, slow_branches(&s, &ret)), -ETIMEDOUT);
	assert_int_equal(ret, -ECANCELED);
	assert_int_equal(leat_task_within(10, slow_branch()), -ETIMEDOUT);
	/* After these time limits the task has no deadline. */
	assert_int_equal(leat_task_sleep(1), 0);
	assert_int_equal(leat_task_deadline(), LEAT_TASK_NO_DEADLINE);
	/* The deadline has no effect inside a mask, so that there is time to clean up. */
	leat_task_deadline_set(leat_now());
	assert_int_equal(leat_task_sleep(1), -ETIMEDOUT);
	leat_task_mask(&mask);
	assert_int_equal(leat_task_sleep(1), 0);
	assert_int_equal(leat_task_within(5, leat_task_event_wait(&ev)), -ETIMEDOUT);
	leat_task_unmask(&mask);
	assert_int_equal(leat_task_sleep(1), -ETIMEDOUT);
	leat_task_deadline_set(LEAT_TASK_NO_DEADLINE);
	return 0;
}

/* ---- the stop of a reactor cancels all tasks, whatever they wait for ---- */

static int
until_stopped(void *arg)
{
	struct nest *n = arg;
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "nest", quiet_nest_main, n, NULL), 0);
	return leat_scope_wait(&s);
}

static void
test_stop_cancels_scopes(void **state)
{
	struct leat_task *task;
	struct task_test t;
	struct nest n;
	int ret;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "main", until_stopped, &n);
	test_turns(t.r, 3);
	assert_int_equal(n.w.h.posts, 1);
	leat_reactor_stop(t.r, 1000000);
	assert_int_equal(test_turns_until_stopped(t.r), -ESHUTDOWN);
	assert_int_equal(n.w.h.cancels, 1);
	assert_int_equal(n.w.ret, -ECANCELED);
	assert_int_equal(n.result, -ECANCELED);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, -ECANCELED);
	task_test_end(&t);
}

RULE(test_cancel_one, cancel_one)
RULE(test_cancel_two_unrelated, cancel_one_of_two_scopes)
RULE(test_cancel_two_on_one_object, cancel_two_on_one_object)
RULE(test_cancel_64_branches_at_once, cancel_64_at_once)
RULE(test_results_and_first_failure, results_and_first_failure)
RULE(test_cancelled_is_no_failure, cancelled_is_no_failure)
RULE(test_empty_scope, empty_scope)
RULE(test_no_function, no_function)
RULE(test_only_the_parent_waits, only_the_parent_waits)
RULE(test_no_branch_after_the_end, no_branch_after_the_end)
RULE(test_within, within)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cancel_one),
		TEST(test_cancel_two_unrelated),
		TEST(test_cancel_two_on_one_object),
		TEST(test_cancel_64_branches_at_once),
		TEST(test_timer_of_10s_against_receive_of_1s),
		TEST(test_results_and_first_failure),
		TEST(test_cancelled_is_no_failure),
		TEST(test_empty_scope),
		TEST(test_no_function),
		TEST(test_no_room_for_a_branch),
		TEST(test_only_the_parent_waits),
		TEST(test_no_branch_after_the_end),
		TEST(test_outside_of_tasks),
		TEST(test_within),
		TEST(test_stop_cancels_scopes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
