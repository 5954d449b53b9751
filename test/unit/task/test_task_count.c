/* SPDX-License-Identifier: BSD-3-Clause */

/* How many tasks a stop, a telemetry request, the watchdog and a refused branch look at. */

#include <sys/mman.h>
#include <unistd.h>

#include <leat_task_event.h>

#include "stop_test.h"

/* ---- how many tasks are looked at ---- */

#define MANY (SANITIZED ? 2000 : 100000)

static void
many_begin(struct task_test *t, unsigned int n, leat_task_fn fn, void *arg)
{
	struct leat_tasks_conf conf = { .max_tasks = n, .stack_size = LEAT_TASK_STACK_MIN };
	unsigned int i;

	if (SANITIZED)
		conf.stack_size = 0;
	task_test_begin(t, &conf);
	for (i = 0; i < n; i++)
		assert_int_equal(leat_task_detach(task_test_spawn(t, "session", fn, arg)), 0);
	test_turns(t->r, n / 256 + 2);
}

/* A stop of n tasks takes no more turns than running each of them once does. */
static void
check_many(unsigned int n)
{
	struct leat_tasks_stats s;
	struct task_test t;
	int ret = 0;

	many_begin(&t, n, sleep_forever, &ret);
	/*
	 * The reactor's housekeeping runs every 20 us, in every second turn, and cancels 2048 tasks
	 * each time. A turn runs only 256 tasks, so the bound is n / 256 turns, with some slack.
	 */
	assert_in_range(stop_quietly(&t), 1, n / 256 + 100);
	assert_int_equal(ret, -ECANCELED);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.tasks, 0);
	/* Each task began and was then cancelled: it was switched to twice. */
	assert_int_equal(s.switches, 2 * n);
	task_test_end(&t);
}

static void
test_stop_many(void **state)
{
	(void)state;
	check_many(1);
	check_many(2048);
	check_many(2049);
	check_many(MANY);
}

static void
blocks_protect(const struct task_test *t, int prot)
{
	size_t len = t->ts->max_tasks * sizeof(*t->ts->blocks);

	assert_int_equal(mprotect(t->ts->blocks, len, prot), 0);
}

/*
 * When all tasks have been cancelled, the stop, telemetry and the watchdog look at no task any
 * more. To prove it, the test makes the tasks' control blocks unreadable.
 */
static void
test_questions_look_at_no_task(void **state)
{
	struct leat_tasks_stats s;
	struct task_test t;
	unsigned int i;
	int slept = 1;

	(void)state;
	many_begin(&t, 5000, stubborn, &slept);
	for (i = 0; i < 5; i++)
		assert_true(task_quiesce(t.ts, NULL, 0) > 0);
	blocks_protect(&t, PROT_NONE);
	for (i = 0; i < 100; i++)
		assert_true(task_quiesce(t.ts, NULL, 0) > 0);
	leat_tasks_stats_get(t.ts, &s);
	task_watch_scan(1);
	blocks_protect(&t, PROT_READ | PROT_WRITE);
	assert_int_equal(s.tasks, 5000);
	assert_int_equal(s.ready, 0);
	test_clock += 3 * DEADLINE_US * (uint64_t)US;
	assert_in_range(stop_quietly(&t), 1, 200);
	assert_int_equal(slept, 0);
	task_test_end(&t);
}

/*
 * All tasks are in use: the first leat_scope_branch() that finds no room cancels the scope's other
 * branches, and later calls are refused without a look at any of them. To prove it, only the page
 * of the calling task is readable during the later calls.
 */
static int
asks_for_more(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct task_test *t = arg;
	struct leat_scope s;
	unsigned int i;
	size_t len;

	leat_scope_init(&s);
	while (leat_scope_branch(&s, "branch", sleep_forever, NULL, NULL) == 0)
		;
	len = t->ts->max_tasks * sizeof(*t->ts->blocks) - page;
	assert_int_equal(mprotect((char *)t->ts->blocks + page, len, PROT_NONE), 0);
	for (i = 0; i < 1000; i++)
		assert_int_equal(leat_scope_branch(&s, "more", sleep_forever, NULL, NULL), -ENOMEM);
	assert_int_equal(mprotect((char *)t->ts->blocks + page, len, PROT_READ | PROT_WRITE), 0);
	return leat_scope_wait(&s);
}

static void
test_refused_branches_look_at_no_other(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 2000 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", asks_for_more, &t)),
			 -ENOMEM);
	task_test_end(&t);
}

/* ---- counters of tasks ---- */

struct counts {
	struct leat_task_event go;
	unsigned int ready; /* the number that the next task must see */
};

static int
counting(void *arg)
{
	struct leat_tasks_stats s;
	struct counts *c = arg;

	assert_int_equal(leat_task_event_wait(&c->go), 0);
	leat_tasks_stats_get(leat_tasks_self(), &s);
	/*
	 * Ready are: this task, those that were woken with it and have not run yet, and those that
	 * yielded.
	 */
	assert_int_equal(s.ready, c->ready);
	assert_int_equal(leat_task_yield(), 0);
	leat_tasks_stats_get(leat_tasks_self(), &s);
	assert_int_equal(s.ready, c->ready--);
	return 0;
}

/*
 * leat_tasks_stats.ready is right after spawn, wait, wake, yield and end, and when the counters
 * switches and readied, from which it is computed, wrap.
 */
static void
test_ready_is_counted(void **state)
{
	struct counts c = { .ready = 10 };
	struct leat_tasks_stats s;
	struct leat_task *task[10];
	struct task_test t;
	unsigned int i, round;

	(void)state;
	task_test_begin(&t, NULL);
	/* Each of the two counters wraps in a round of its own. */
	__atomic_store_n(&t.ts->switches, UINT32_MAX - 333,
			 __ATOMIC_RELAXED); /* the watchdog's thread reads it */
	t.ts->readied += (uint32_t)t.ts->switches;
	for (round = 0; round < 100; round++) {
		for (i = 0; i < 10; i++)
			task[i] = task_test_spawn(&t, "counting", counting, &c);
		leat_tasks_stats_get(t.ts, &s);
		assert_int_equal(s.ready, 10);
		test_turns(t.r, 1);
		leat_tasks_stats_get(t.ts, &s);
		assert_int_equal(s.ready, 0);
		leat_task_event_set(&c.go);
		leat_tasks_stats_get(t.ts, &s);
		assert_int_equal(s.ready, 10);
		test_turns(t.r, 1);
		leat_tasks_stats_get(t.ts, &s);
		/* All have yielded. */
		assert_int_equal(s.ready, 10);
		test_turns(t.r, 1);
		leat_tasks_stats_get(t.ts, &s);
		assert_int_equal(s.ready, 0);
		assert_int_equal(s.tasks, 10);
		assert_int_equal(t.ts->nb_done, 10);
		/* Half of the tasks are joined, the others detached after their end. */
		for (i = 0; i < 10; i++)
			assert_int_equal(i & 1 ? leat_task_join(task[i], NULL)
					       : leat_task_detach(task[i]),
					 0);
		assert_int_equal(t.ts->nb_done, 0);
		leat_task_event_reset(&c.go);
		c.ready = 10;
	}
	task_test_end(&t);
}

/* A stop reports only tasks that have not ended, not those that ended and were not joined. */
static void
test_done_are_not_left(void **state)
{
	struct leat_task *task[20];
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, NULL);
	for (i = 0; i < 20; i++)
		task[i] = task_test_spawn(&t, "session", sleep_forever, NULL);
	(void)task_test_spawn(&t, "stubborn", stubborn, &(int){ 0 });
	test_turns(t.r, 1);
	stop_at_deadline(&t, DEADLINE_US, "1 tasks that have not ended, e.g. stubborn");
	assert_int_equal(leat_task_state(task[7]), LEAT_TASK_DONE);
	assert_int_equal(leat_tasks_destroy(t.ts), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), "1 have not ended, e.g. stubborn (21), WAITING"));
	test_clock += 3 * DEADLINE_US * (uint64_t)US;
	leat_reactor_stop(t.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(t.r), 0);
	/* Tasks that were not joined are freed with the reactor's tasks. */
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_stop_many),
		CASE(test_questions_look_at_no_task),
		CASE(test_refused_branches_look_at_no_other),
		CASE(test_ready_is_counted),
		CASE(test_done_are_not_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
