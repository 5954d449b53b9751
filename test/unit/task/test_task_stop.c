/* SPDX-License-Identifier: BSD-3-Clause */

/* The stop of a reactor cancels every task, also tasks that are spawned during the stop. */

#include "stop_test.h"

/* ---- tasks that spawn while the reactor stops ---- */

struct late {
	unsigned int begun;
	unsigned int born_cancelled;
	unsigned int ended; /* waits that returned -ECANCELED */
	unsigned int depth; /* number of tasks still to spawn in a chain, each by the one before */
};

static int
late_main(void *arg)
{
	struct late *l = arg;

	l->begun++;
	l->born_cancelled += leat_task_cancelled();
	l->ended += leat_task_sleep(FOREVER_US) == -ECANCELED;
	if (l->depth == 0)
		return 0;
	l->depth--;
	return leat_task_detach(leat_task_spawn(leat_tasks_self(), "later", late_main, l));
}

static void
check_late(const struct late *l, unsigned int begun, unsigned int born_cancelled)
{
	assert_int_equal(l->begun, begun);
	assert_int_equal(l->ended, begun);
	assert_in_range(l->born_cancelled, born_cancelled, begun);
}

static int
spawn_when_cancelled(void *arg)
{
	assert_int_equal(leat_task_sleep(FOREVER_US), -ECANCELED);
	return leat_task_detach(leat_task_spawn(leat_tasks_self(), "late", late_main, arg));
}

/* A task that cleans up spawns a task, which spawns a task, and so on. */
static void
spawned_in_cleanup(unsigned int depth, unsigned int max_turns)
{
	struct late l = { .depth = depth };
	struct task_test t;

	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "dying", spawn_when_cancelled, &l)),
			 0);
	test_turns(t.r, 2);
	assert_in_range(stop_quietly(&t), 1, max_turns);
	check_late(&l, depth + 1, depth + 1);
	task_test_end(&t);
}

static void
test_spawned_in_cleanup(void **state)
{
	(void)state;
	spawned_in_cleanup(0, 200);
}

static void
test_spawned_nested(void **state)
{
	(void)state;
	spawned_in_cleanup(300, 1000);
}

/*
 * A task that cleans up spawns more tasks at once than existed before. Their blocks come after all
 * blocks that existed when the stop began, so the stop does not look at them.
 */
#define CROWD (SANITIZED ? 500 : 3000)

static int
crowd_maker(void *arg)
{
	struct late *l = arg;
	unsigned int i;

	(void)leat_task_sleep(FOREVER_US);
	for (i = 0; i < CROWD; i++)
		if (leat_task_detach(leat_task_spawn(leat_tasks_self(), "late", late_main, l)) < 0)
			return -1;
	return 0;
}

static void
test_spawned_crowd(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 2 * CROWD };
	struct late l = { 0 };
	struct leat_task *task;
	struct task_test t;
	int ret;

	(void)state;
	task_test_begin(&t, &conf);
	task = task_test_spawn(&t, "maker", crowd_maker, &l);
	test_turns(t.r, 2);
	assert_in_range(stop_quietly(&t), 1, 1000);
	check_late(&l, CROWD, CROWD);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, 0);
	task_test_end(&t);
}

/* A poller that spawns a task in each `every`th turn. */
struct spawner {
	struct leat_tasks *ts;
	struct late late;
	unsigned int every;
	unsigned int calls;
	unsigned int spawned;
};

static int
spawning_poller(void *arg, uint64_t now)
{
	struct spawner *s = arg;

	(void)now;
	if (++s->calls % s->every != 0)
		return 0;
	s->spawned++;
	assert_int_equal(leat_task_detach(leat_task_spawn(s->ts, "late", late_main, &s->late)), 0);
	return 1;
}

static void
check_spawned_by_poller(unsigned int every)
{
	struct spawner s = { .every = every };
	struct task_test t;

	task_test_begin(&t, NULL);
	s.ts = t.ts;
	(void)task_test_spawn(&t, "sleeper", sleep_forever, NULL);
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "sleeper", sleep_forever, NULL)), 0);
	assert_non_null(leat_reactor_poller_add(t.r, "spawner", spawning_poller, &s, 0));
	/* Each task that the poller spawns before the stop sleeps until the stop. */
	test_turns(t.r, 60);
	assert_in_range(stop_quietly(&t), 1, 2000);
	check_late(&s.late, s.spawned, every == 1 ? 16 : 0);
	task_test_end(&t);
}

static void
test_spawned_by_poller(void **state)
{
	unsigned int every;

	(void)state;
	for (every = 1; every < 40; every += every < 4 ? 1 : 9)
		check_spawned_by_poller(every);
}

/* Spawn a task from a message, as another lcore may send it. */
static void
spawning_message(void *arg)
{
	struct spawner *s = arg;

	s->spawned++;
	assert_int_equal(leat_task_detach(leat_task_spawn(s->ts, "late", late_main, &s->late)), 0);
}

static void
test_spawned_by_message(void **state)
{
	struct spawner s = { 0 };
	unsigned int turns = 0;
	struct task_test t;
	int ret = 0;

	(void)state;
	task_test_begin(&t, NULL);
	s.ts = t.ts;
	leat_reactor_stop(t.r, DEADLINE_US);
	for (; turns < 10000 && ret >= 0; turns++) {
		/* Send one message in each turn, until the reactor accepts no more. */
		ret = leat_reactor_call(t.r, spawning_message, &s);
		assert_true(ret == 0 || ret == -ESHUTDOWN);
		ret = leat_reactor_turn(t.r);
		test_clock += 10 * US;
	}
	assert_int_equal(ret, -ESHUTDOWN);
	check_late(&s.late, s.spawned, 0);
	task_test_end(&t);
}

/* ---- clean-up that has to wait ---- */

struct farewell {
	int slept;  /* result of the masked sleep of the task "helper" */
	int joined; /* result of the join of "helper" */
	int branch; /* result of the masked sleep of the branch "masks" */
	int plain;  /* result of the branch "does not", which masks nothing */
	int waited;
};

static int
masked_sleep(void *arg)
{
	struct leat_task_mask_state mask;

	assert_true(leat_task_cancelled());
	leat_task_mask(&mask);
	*(int *)arg = leat_task_sleep(100);
	leat_task_unmask(&mask);
	assert_int_equal(leat_task_sleep(1), -ECANCELED);
	return 0;
}

static int
says_goodbye(void *arg)
{
	struct farewell *f = arg;
	struct leat_task_mask_state mask;
	struct leat_task *helper;
	struct leat_scope s;

	assert_int_equal(leat_task_sleep(FOREVER_US), -ECANCELED);
	leat_task_mask(&mask);
	helper = leat_task_spawn(leat_tasks_self(), "helper", masked_sleep, &f->slept);
	assert_non_null(helper);
	f->joined = leat_task_join(helper, NULL);
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "masks", masked_sleep, &f->branch, NULL), 0);
	assert_int_equal(leat_scope_branch(&s, "does not", sleep_forever, NULL, &f->plain), 0);
	f->waited = leat_scope_wait(&s);
	leat_task_unmask(&mask);
	return 0;
}

/*
 * Tasks that a clean-up spawns can mask their cancel, and then may run until the deadline of the
 * stop.
 */
static void
test_cleanup_may_spawn_and_wait(void **state)
{
	struct farewell f = { .slept = 1, .joined = 1, .branch = 1, .waited = 1 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "polite", says_goodbye, &f)), 0);
	test_turns(t.r, 2);
	assert_in_range(stop_quietly(&t), 20, 400);
	assert_int_equal(f.slept, 0);
	assert_int_equal(f.joined, 0);
	assert_int_equal(f.branch, 0);
	assert_int_equal(f.plain, -ECANCELED);
	assert_int_equal(f.waited, 0);
	task_test_end(&t);
}

/* Spawn a task from a timer, while another task cleans up. */
static void
spawning_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct spawner *s = arg;

	spawning_message(s);
	leat_timer_start_at(leat_tasks_reactor(s->ts), timer, now + (uint64_t)15 * US);
}

static void
test_spawned_by_timer(void **state)
{
	struct farewell f = { 0 };
	struct spawner s = { 0 };
	struct leat_timer timer;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	s.ts = t.ts;
	leat_timer_init(&timer, spawning_timer, &s);
	leat_timer_start_at(t.r, &timer, test_clock + (uint64_t)15 * US);
	/* This task takes 200 us or more to end; meanwhile the timer spawns tasks. */
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "polite", says_goodbye, &f)), 0);
	test_turns(t.r, 1);
	assert_in_range(stop_quietly(&t), 1, 2000);
	leat_timer_stop(&timer);
	check_late(&s.late, s.spawned, 5);
	task_test_end(&t);
}

/* ---- stops that do not complete ---- */

static int
bomb(void *arg)
{
	unsigned int i;

	(void)leat_task_sleep(FOREVER_US);
	/*
	 * Each task spawns two more until there is no room: then spawns are refused, and the tasks
	 * go on.
	 */
	for (i = 0; i < 2; i++)
		(void)leat_task_detach(leat_task_spawn(leat_tasks_self(), "bomb", bomb, arg));
	return 0;
}

static int
chain(void *arg)
{
	(void)leat_task_sleep(FOREVER_US);
	return leat_task_detach(leat_task_spawn(leat_tasks_self(), "chain", chain, arg));
}

/*
 * In each turn some 400 of these tasks spawn others and end. AddressSanitizer maps and unmaps a
 * fake stack for each, which is slow: there the deadline is 50 turns away, not 2000.
 */
#define ENDLESS_US (SANITIZED ? 500 : DEADLINE_US)

static void
check_endless(leat_task_fn fn, const char *name)
{
	struct leat_tasks_conf conf = { .max_tasks = 300 };
	struct leat_tasks_stats s;
	uint64_t begun;
	struct task_test t;
	char why[64];

	task_test_begin(&t, &conf);
	assert_int_equal(leat_task_detach(task_test_spawn(&t, name, fn, NULL)), 0);
	test_turns(t.r, 2);
	begun = test_clock;
	snprintf(why, sizeof(why), "tasks that have not ended, e.g. %s; ", name);
	stop_at_deadline(&t, ENDLESS_US, why);
	assert_non_null(strstr(leat_err_msg(), " spawned since the stop began"));
	/* The stop ends at the deadline, not later. */
	assert_in_range(test_clock - begun, ENDLESS_US * (uint64_t)US,
			(ENDLESS_US + 1000) * (uint64_t)US);
	leat_tasks_stats_get(t.ts, &s);
	assert_in_range(s.tasks, 1, 300);
	assert_int_equal(leat_tasks_destroy(t.ts), -EBUSY);
	assert_true(s.spawned > 300);
	assert_false(t.ts->stopping);
	/* These tasks never end, so the reactor and its tasks can't be destroyed. */
}

static void
test_fork_bomb_is_named(void **state)
{
	(void)state;
	check_endless(bomb, "bomb");
}

static void
test_endless_chain_is_named(void **state)
{
	(void)state;
	check_endless(chain, "chain");
}

/* After a stop that timed out the reactor runs again, and tasks spawned then are not cancelled. */
static int
spawn_and_sleep(void *arg)
{
	struct leat_task *task = leat_task_spawn(leat_tasks_self(), "fresh", sleep_forever, arg);

	/* A task that begins after a stop is not cancelled until the next stop. */
	assert_non_null(task);
	assert_false(leat_task_cancelled());
	return leat_task_detach(task);
}

static void
test_not_cancelled_after_a_stop(void **state)
{
	int slept = 1, fresh = 1;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "stubborn", stubborn, &slept)), 0);
	test_turns(t.r, 2);
	stop_at_deadline(&t, DEADLINE_US, "1 tasks that have not ended, e.g. stubborn");
	assert_null(strstr(leat_err_msg(), "spawned since"));
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "s", spawn_and_sleep, &fresh)), 0);
	test_clock += 2 * DEADLINE_US * (uint64_t)US;
	/*
	 * The stop is requested before the run begins: the first housekeeping of the run cancels
	 * all tasks again.
	 */
	leat_reactor_stop(t.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(t.r), 0);
	assert_int_equal(slept, 0);
	assert_int_equal(fresh, -ECANCELED);
	task_test_end(&t);
}

/* A stop with deadline 0 cancels all tasks, once. */
static void
test_deadline_zero_asks_all(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 10000 };
	struct leat_tasks_stats s;
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, &conf);
	for (i = 0; i < 10000; i++)
		assert_int_equal(
			leat_task_detach(task_test_spawn(&t, "sleeper", sleep_forever, NULL)), 0);
	test_turns(t.r, 10000 / 256 + 2);
	leat_reactor_stop(t.r, 0);
	assert_int_equal(test_turns_until_stopped(t.r), -ETIMEDOUT);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.ready, s.tasks);
	leat_reactor_stop(t.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(t.r), 0);
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_spawned_in_cleanup),
		CASE(test_spawned_nested),
		CASE(test_spawned_crowd),
		CASE(test_spawned_by_poller),
		CASE(test_spawned_by_message),
		CASE(test_spawned_by_timer),
		CASE(test_cleanup_may_spawn_and_wait),
		CASE(test_fork_bomb_is_named),
		CASE(test_endless_chain_is_named),
		CASE(test_not_cancelled_after_a_stop),
		CASE(test_deadline_zero_asks_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
