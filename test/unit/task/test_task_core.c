/* SPDX-License-Identifier: BSD-3-Clause */

/* Spawn, yield, sleep, join, deadlines: the life of a task. */

#include <fenv.h>

#include "task_test.h"

/* The steps of tasks, in the order in which they happen. */
static char trace[256];

static void
note(const char *what)
{
	task_test_append(trace, sizeof(trace), what);
}

static int
setup(void **state)
{
	trace[0] = '\0';
	return test_clock_setup(state);
}

static int
letters(void *arg)
{
	const char *name = arg;
	int i;

	for (i = 0; i < 3; i++) {
		note(name);
		assert_int_equal(leat_task_yield(), 0);
	}
	return name[0];
}

/* A task that yields runs once per turn; tasks take turns in the order of their spawn. */
static void
test_yield(void **state)
{
	static char names[] = { 'a', '\0', 'b', '\0' };
	struct leat_task *a, *b;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	a = task_test_spawn(&t, "a", letters, &names[0]);
	b = task_test_spawn(&t, "b", letters, &names[2]);
	assert_string_equal(trace, "");
	assert_int_equal(leat_task_state(a), LEAT_TASK_READY);
	test_turns(t.r, 1);
	assert_string_equal(trace, "ab");
	test_turns(t.r, 1);
	assert_string_equal(trace, "abab");
	assert_int_equal(leat_reactor_turn(t.r), 1);
	assert_int_equal(leat_reactor_turn(t.r), 1);
	assert_int_equal(leat_reactor_turn(t.r), 0);
	assert_string_equal(trace, "ababab");
	assert_int_equal(leat_task_state(a), LEAT_TASK_DONE);
	assert_int_equal(task_test_join(&t, b), 'b');
	/* A task that has ended, and is not joined, does not prevent leat_tasks_destroy(). */
	task_test_end(&t);
}

static int
child(void *arg)
{
	note("c");
	assert_int_equal(leat_task_sleep(*(uint64_t *)arg), 0);
	note("d");
	return 7;
}

static int
parent(void *arg)
{
	struct leat_task *c = leat_task_spawn(leat_tasks_self(), "child", child, arg);
	int ret = 0;

	assert_non_null(c);
	note("p");
	assert_int_equal(leat_task_join(c, &ret), 0);
	note("q");
	return ret + 1;
}

/* Join returns the task's result, whether the task has ended before or not. */
static void
test_join(void **state)
{
	uint64_t us = 100;
	struct task_test t;
	struct leat_task *p;

	(void)state;
	task_test_begin(&t, NULL);
	p = task_test_spawn(&t, "parent", parent, &us);
	assert_int_equal(leat_task_join(p, NULL), -EPERM);
	test_turns(t.r, 1);
	assert_string_equal(trace, "pc");
	test_clock += 99 * US;
	test_turns(t.r, 100);
	assert_string_equal(trace, "pc");
	test_clock += 1 * US;
	/* The child's timer fires at the end of a turn; child and parent run in the next turn. */
	test_turns(t.r, 2);
	assert_string_equal(trace, "pcdq");
	assert_int_equal(task_test_join(&t, p), 8);
	task_test_end(&t);
}

static int
fine(void *arg)
{
	(void)arg;
	return 3;
}

static int
bad_joins(void *arg)
{
	struct leat_task *t, *self = leat_task_current();
	int ret = 0;

	(void)arg;
	assert_int_equal(leat_task_join(self, NULL), -EDEADLK);
	t = leat_task_spawn(leat_tasks_self(), "fine", fine, NULL);
	assert_non_null(t);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_state(t), LEAT_TASK_DONE);
	assert_int_equal(leat_task_join(t, &ret), 0);
	assert_int_equal(ret, 3);
	assert_int_equal(leat_task_join(t, NULL), -EINVAL);
	t = leat_task_spawn(leat_tasks_self(), "fine", fine, NULL);
	assert_non_null(t);
	assert_int_equal(leat_task_detach(t), 0);
	assert_int_equal(leat_task_join(t, NULL), -EINVAL);
	return 0;
}

static void
test_bad_joins(void **state)
{
	(void)state;
	assert_int_equal(task_test_run(bad_joins, NULL), 0);
}

static int
join_it(void *arg)
{
	return leat_task_join(arg, NULL);
}

/* Only one task may wait for a task; and a task for which another one waits may not be detached. */
static void
test_join_twice(void **state)
{
	struct leat_task *a, *b, *c;
	uint64_t us = 50;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	c = task_test_spawn(&t, "child", child, &us);
	a = task_test_spawn(&t, "a", join_it, c);
	b = task_test_spawn(&t, "b", join_it, c);
	test_turns(t.r, 1);
	assert_int_equal(leat_task_detach(c), -EBUSY);
	assert_int_equal(task_test_join(&t, b), -EBUSY);
	assert_int_equal(task_test_join(&t, a), 0);
	task_test_end(&t);
}

/*
 * After a join that has waited, the block of the joined task no longer refers to the joining task.
 */
static void
test_join_again(void **state)
{
	struct leat_task *a, *c;
	uint64_t us = 50;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	c = task_test_spawn(&t, "child", child, &us);
	a = task_test_spawn(&t, "a", join_it, c);
	assert_int_equal(task_test_join(&t, a), 0);
	assert_int_equal(leat_task_state(c), LEAT_TASK_FREE);
	assert_int_equal(leat_task_join(c, NULL), -EINVAL);
	assert_int_not_equal(leat_task_detach(c), -EBUSY);
	task_test_end(&t);
}

static void
test_detach(void **state)
{
	struct leat_tasks_stats s;
	struct leat_task *c;
	uint64_t us = 10;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	/* The first task is detached before its end, the second task after its end. */
	assert_int_equal(leat_task_detach(task_test_spawn(&t, "child", child, &us)), 0);
	c = task_test_spawn(&t, "fine", fine, NULL);
	test_turns(t.r, 1);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.tasks, 2);
	assert_int_equal(leat_task_detach(c), 0);
	test_clock += 10 * US;
	test_turns(t.r, 2);
	assert_string_equal(trace, "cd");
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.tasks, 0);
	assert_int_equal(s.stacks, 2);
	assert_int_equal(s.spawned, 2);
	task_test_end(&t);
}

static int
nap(void *arg)
{
	uint64_t begin = test_clock;
	int ret = leat_task_sleep(*(uint64_t *)arg);

	assert_true(ret < 0 || test_clock - begin >= *(uint64_t *)arg * US);
	return ret;
}

/* Many tasks sleep for different times: each wakes, and none too early. */
static void
test_sleep(void **state)
{
	struct leat_task *task[100];
	uint64_t us[100];
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, NULL);
	for (i = 0; i < 100; i++) {
		us[i] = (i * 37) % 100;
		task[i] = task_test_spawn(&t, "nap", nap, &us[i]);
	}
	for (i = 0; i < 200; i++) {
		test_turns(t.r, 1);
		test_clock += US;
	}
	for (i = 0; i < 100; i++) {
		assert_int_equal(leat_task_state(task[i]), LEAT_TASK_DONE);
		assert_int_equal(task_test_join(&t, task[i]), 0);
	}
	task_test_end(&t);
}

static int
late(void *arg)
{
	uint64_t us = 1000;
	struct leat_task *c;

	(void)arg;
	assert_true(leat_task_deadline() == LEAT_TASK_NO_DEADLINE);
	assert_true(leat_task_deadline_set(test_clock + 100 * US) == LEAT_TASK_NO_DEADLINE);
	/* The first sleep ends before the deadline, the second one would not. */
	assert_int_equal(leat_task_sleep(50), 0);
	assert_int_equal(leat_task_sleep(1000), -ETIMEDOUT);
	/* The deadline has passed: no wait begins. */
	c = leat_task_spawn(leat_tasks_self(), "nap", nap, &us);
	assert_non_null(c);
	assert_int_equal(leat_task_join(c, NULL), -ETIMEDOUT);
	assert_int_equal(leat_task_sleep(0), -ETIMEDOUT);
	leat_task_deadline_set(LEAT_TASK_NO_DEADLINE);
	assert_int_equal(leat_task_join(c, NULL), 0);
	/* The deadline ends a join that has begun; the same task can then be joined again. */
	c = leat_task_spawn(leat_tasks_self(), "nap", nap, &us);
	assert_non_null(c);
	leat_task_deadline_set(test_clock + 100 * US);
	assert_int_equal(leat_task_join(c, NULL), -ETIMEDOUT);
	leat_task_deadline_set(LEAT_TASK_NO_DEADLINE);
	return leat_task_join(c, NULL);
}

static void
test_deadline(void **state)
{
	(void)state;
	assert_int_equal(task_test_run(late, NULL), 0);
}

/*
 * Outside of tasks, calls that would wait are refused. leat_tasks_create() and leat_task_spawn()
 * refuse bad arguments.
 */
static void
test_outside(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = LEAT_TASKS_LIMIT + 1 };
	struct task_test t;

	(void)state;
	assert_null(leat_tasks_self());
	assert_null(leat_task_current());
	assert_int_equal(leat_task_yield(), -EPERM);
	assert_int_equal(leat_task_sleep(1), -EPERM);
	assert_true(leat_task_deadline_set(1) == LEAT_TASK_NO_DEADLINE);
	assert_int_equal(leat_tasks_destroy(NULL), 0);
	assert_null(leat_tasks_create(NULL, NULL));
	assert_int_equal(rte_errno, EINVAL);
	task_test_begin(&t, NULL);
	assert_null(leat_tasks_create(t.r, NULL));
	assert_int_equal(rte_errno, EEXIST);
	assert_ptr_equal(leat_tasks_reactor(t.ts), t.r);
	assert_null(leat_task_spawn(t.ts, NULL, NULL, NULL));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(leat_task_spawn(t.ts, "x", NULL, NULL));
	assert_int_equal(rte_errno, EINVAL);
	assert_int_equal(leat_tasks_destroy(t.ts), 0);
	assert_null(leat_tasks_create(t.r, &conf));
	assert_int_equal(rte_errno, EINVAL);
	conf = (struct leat_tasks_conf){ .stack_size = LEAT_TASK_STACK_MIN - 1 };
	assert_null(leat_tasks_create(t.r, &conf));
	conf = (struct leat_tasks_conf){ .guard = 77 };
	assert_null(leat_tasks_create(t.r, &conf));
	assert_int_equal(leat_reactor_destroy(t.r), 0);
}

static int
named(void *arg)
{
	struct leat_task *self = leat_task_current();

	(void)arg;
	assert_string_equal(leat_task_name(self), "a_b_c");
	assert_true(leat_task_id(self) == 1);
	assert_ptr_equal(leat_tasks_reactor(leat_tasks_self()), leat_reactor_self());
	leat_task_name_set("a name that is longer than there is room for");
	assert_string_equal(leat_task_name(self), "a name that is longer t");
	return 0;
}

static void
test_name(void **state)
{
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "a\"b\nc", named, NULL)), 0);
	task_test_end(&t);
	assert_string_equal(leat_task_state_name(LEAT_TASK_WAITING), "WAITING");
	assert_string_equal(leat_task_state_name(99), "?");
}

/* Each task keeps its own rounding mode over switches to tasks with different modes. */
static int
rounding(void *arg)
{
	int mode = *(int *)arg;
	/* Volatile, so that the compiler leaves the signs where they are. */
	volatile double one = 1, minus = -1, three = 3, down, up;
	int i;

	assert_int_equal(fegetround(), FE_TONEAREST);
	assert_int_equal(fesetround(mode), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_task_yield(), 0);
		assert_int_equal(fegetround(), mode);
		down = one / three;
		up = minus / three;
		up = -up;
		assert_true(mode == FE_DOWNWARD ? down < up
			    : mode == FE_UPWARD ? down > up
						: down == up);
	}
	return 0;
}

static void
test_rounding(void **state)
{
	static int modes[] = { FE_DOWNWARD, FE_TONEAREST, FE_UPWARD };
	struct leat_task *task[3];
	struct task_test t;
	int i;

	(void)state;
	task_test_begin(&t, NULL);
	for (i = 0; i < 3; i++)
		task[i] = task_test_spawn(&t, "rounding", rounding, &modes[i]);
	for (i = 0; i < 3; i++) {
		assert_int_equal(task_test_join(&t, task[i]), 0);
		assert_int_equal(fegetround(), FE_TONEAREST);
	}
	task_test_end(&t);
}

/* A turn ends after 256 switches, however often tasks wake each other. */
static int
spawner(void *arg)
{
	unsigned int *n = arg;

	for (;;) {
		struct leat_task *c;

		if (*n == 0)
			return 0;
		--*n;
		c = leat_task_spawn(leat_tasks_self(), "fine", fine, NULL);
		assert_non_null(c);
		assert_int_equal(leat_task_join(c, NULL), 0);
	}
}

static void
test_budget(void **state)
{
	struct test_poller p = { 0 };
	unsigned int n = 1280;
	struct leat_task *s;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	test_poller_add(t.r, &p, "p", 0);
	s = task_test_spawn(&t, "spawner", spawner, &n);
	assert_int_equal(task_test_join(&t, s), 0);
	/* Each of the 1280 children takes two switches: at 256 in a turn that is 10 turns. */
	assert_in_range(p.calls, 10, 11);
	task_test_end(&t);
}

static char lines[2048];
static unsigned int nb_lines;

static void
on_line(void *arg, const char *line)
{
	char number[16];

	assert_null(arg);
	snprintf(number, sizeof(number), "#%u 0x", nb_lines++);
	assert_int_equal(strncmp(line, number, strlen(number)), 0);
	task_test_append(lines, sizeof(lines), line);
	task_test_append(lines, sizeof(lines), "\n");
}

/* Where nested() resumes after nested_sleep(). */
static uintptr_t nested_ip;

static int __attribute__((noinline)) nested_sleep(uint64_t us)
{
	int ret;

	nested_ip = (uintptr_t)__builtin_return_address(0);
	ret = leat_task_sleep(us);
	return ret < 0 ? ret : 1;
}

static int
nested(void *arg)
{
	int n = leat_task_backtrace(leat_task_current(), on_line, NULL);

	(void)arg;
	assert_int_equal(n, nb_lines);
	assert_in_range(n, 2, 12);
	return nested_sleep(100) + 1;
}

static void
test_backtrace(void **state)
{
	struct leat_task *b;
	struct task_test t;
	char ip[32];
	int n;

	(void)state;
	nb_lines = 0;
	lines[0] = '\0';
	task_test_begin(&t, NULL);
	b = task_test_spawn(&t, "nested", nested, NULL);
	assert_int_equal(leat_task_backtrace(b, on_line, NULL), -ESRCH);
	test_turns(t.r, 1);
	nb_lines = 0;
	lines[0] = '\0';
	assert_int_equal(leat_task_backtrace(b, NULL, NULL), -EINVAL);
	n = leat_task_backtrace(b, on_line, NULL);
	assert_int_equal(n, nb_lines);
	assert_in_range(n, 4, 12);
	snprintf(ip, sizeof(ip), " 0x%" PRIxPTR " ", nested_ip);
	assert_non_null(strstr(lines, ip));
	/* The backtrace has not disturbed the task b. */
	assert_int_equal(task_test_join(&t, b), 2);
	task_test_end(&t);
}

static int
sleep_for(void *arg)
{
	return leat_task_sleep(*(const uint64_t *)arg);
}

/*
 * A reactor blocks while its task sleeps, and the end of the sleep wakes it. On a busy machine the
 * sleep may be over before the reactor has blocked: then repeat with twice the time.
 */
static void
test_block(void **state)
{
	struct leat_reactor_conf conf = { .name = "r",
					  .idle = { .policy = LEAT_IDLE_BLOCK, .spin_us = 1 } };
	struct leat_reactor_stats s;
	struct task_test t;
	uint64_t begin, us;

	(void)state;
	leat_clock_mock_set(NULL);
	t.r = leat_reactor_create(&conf);
	assert_non_null(t.r);
	t.ts = leat_tasks_create(t.r, NULL);
	assert_non_null(t.ts);
	for (us = 5000, s.blocks = 0; s.blocks == 0 && us < 5000000; us *= 2) {
		begin = leat_now();
		assert_int_equal(task_test_join(&t, task_test_spawn(&t, "fine", sleep_for, &us)),
				 0);
		assert_true(leat_now() - begin >= leat_us_to_cycles(us));
		leat_reactor_stats_get(t.r, &s);
	}
	assert_true(s.blocks > 0);
	assert_int_equal(leat_reactor_idle_effective(t.r), LEAT_IDLE_BLOCK);
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_yield),      CASE(test_join),	      CASE(test_bad_joins),
		CASE(test_join_twice), CASE(test_join_again), CASE(test_detach),
		CASE(test_sleep),      CASE(test_deadline),   CASE(test_outside),
		CASE(test_name),       CASE(test_rounding),   CASE(test_budget),
		CASE(test_backtrace),  CASE(test_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
