/* SPDX-License-Identifier: BSD-3-Clause */

/* Stack overflows, limits of tasks and stacks, the watchdog, and stops that tasks hold up. */

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_log.h>

#include "task_pvt.h"
#include "log_test.h"
#include "task_test.h"

#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static int
nothing(void *arg)
{
	(void)arg;
	return 0;
}

static int
sleeper(void *arg)
{
	return leat_task_sleep(*(uint64_t *)arg);
}

/* Recurse until the address of a frame is below the limit. */
static int __attribute__((noinline)) dive(uintptr_t limit)
{
	volatile char frame[160];
	int i;

	for (i = 0; i < 160; i++)
		frame[i] = 0x55;
	if ((uintptr_t)__builtin_frame_address(0) >= limit)
		frame[0] = (char)dive(limit);
	return frame[0];
}

/* Dive *arg bytes below the top of the stack. */
static int
diver(void *arg)
{
	const struct leat_task *t = leat_task_current();
	uintptr_t top = (uintptr_t)task_stack_top(&t->ts->stacks, t->index);

	(void)dive(top - *(size_t *)arg);
	(void)leat_task_yield();
	return 0;
}

/*
 * Overflow a task's stack in a child process, which is expected to die.
 * @return the wait status of the child; text gets the standard error of the child
 */
static int
overflow_in_child(enum leat_task_guard guard, bool handler, char *text, size_t len)
{
	struct leat_tasks_conf conf = { .stack_size = 16384, .guard = guard };
	/*
	 * With a canary the overflow ends just outside the stack, before it reaches other memory.
	 */
	size_t depth = guard == LEAT_TASK_GUARD_CANARY ? 20480 + 4096 : 1000000, ok = 0;
	int status, fds[2];
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct task_test t;

		if (dup2(fds[1], STDERR_FILENO) < 0)
			_exit(1);
		/* Replace the handler that cmocka has installed. */
		(void)signal(SIGSEGV, handler ? _exit : SIG_DFL);
		task_test_begin(&t, &conf);
		(void)task_test_spawn(&t, "neighbour", diver, &ok);
		(void)task_test_spawn(&t, "deep-diver", diver, &depth);
		test_turns(t.r, 3);
		_exit(0);
	}
	close(fds[1]);
	while (got < len - 1 && (n = read(fds[0], text + got, len - 1 - got)) > 0)
		got += (size_t)n;
	text[got] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
check_overflow(enum leat_task_guard guard)
{
	char text[65536];
	int status;

	status = overflow_in_child(guard, false, text, sizeof(text));
	if (strstr(text, "stack overflow in task deep-diver (2) of r: ") == NULL)
		fail_msg("status %x, it said: %s", (unsigned int)status, text);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	/* The application's handler is called after leat's. */
	status = overflow_in_child(guard, true, text, sizeof(text));
	assert_non_null(strstr(text, "stack overflow in task deep-diver (2) of r: "));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGSEGV);
}

/* @return whether the kernel supports guard markers */
static bool
has_markers(void)
{
	struct leat_tasks_conf conf = { .guard = LEAT_TASK_GUARD_MARKER };
	struct leat_reactor *r = test_reactor("r");
	struct leat_tasks *ts = leat_tasks_create(r, &conf);
	bool has = ts != NULL;

	if (!has)
		assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	return has;
}

static void
test_overflow_marker(void **state)
{
	(void)state;
	if (!has_markers()) {
		print_message("skipped: the kernel has no MADV_GUARD_INSTALL\n");
		skip();
	}
	check_overflow(LEAT_TASK_GUARD_MARKER);
}

static void
test_overflow_page(void **state)
{
	(void)state;
	check_overflow(LEAT_TASK_GUARD_PAGE);
}

static void
test_overflow_canary(void **state)
{
	(void)state;
	if (SANITIZED) {
		print_message("skipped: frames are larger with a sanitizer\n");
		skip();
	}
	check_overflow(LEAT_TASK_GUARD_CANARY);
}

/* A fault that is not an overflow goes to the default handler, and is not reported as overflow. */
static int
wild(void *arg)
{
	*(volatile int *)arg = 1;
	return 0;
}

static void
test_other_fault(void **state)
{
	char text[65536];
	int status, fds[2];
	ssize_t n, got = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		void *mem = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct task_test t;

		if (dup2(fds[1], STDERR_FILENO) < 0)
			_exit(1);
		(void)signal(SIGSEGV, SIG_DFL);
		task_test_begin(&t, NULL);
		(void)task_test_spawn(&t, "wild", wild, mem);
		test_turns(t.r, 1);
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + got, sizeof(text) - 1 - (size_t)got)) > 0)
		got += n;
	text[got] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_null(strstr(text, "leat/task"));
}

/* leat's SIGSEGV handler is removed when the last struct leat_tasks is destroyed. */
static void
test_handler_restored(void **state)
{
	struct sigaction before, now;
	struct task_test t;

	(void)state;
	assert_int_equal(sigaction(SIGSEGV, NULL, &before), 0);
	task_test_begin(&t, NULL);
	assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
	assert_true(now.sa_sigaction != before.sa_sigaction);
	task_test_end(&t);
	assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
	assert_true(now.sa_sigaction == before.sa_sigaction);
}

/* Beyond max_tasks, tasks are refused until one of the existing tasks is joined. */
static void
test_limit(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 10 };
	struct leat_task *task[10];
	struct leat_tasks_stats s;
	uint64_t us = 1000;
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, &conf);
	for (i = 0; i < 10; i++)
		task[i] = task_test_spawn(&t, "sleeper", sleeper, &us);
	assert_null(leat_task_spawn(t.ts, "eleventh", sleeper, &us));
	assert_int_equal(rte_errno, ENOMEM);
	assert_non_null(strstr(leat_err_msg(), "max_tasks"));
	test_turns(t.r, 2);
	assert_null(leat_task_spawn(t.ts, "eleventh", sleeper, &us));
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.refused, 2);
	/* A task takes room until it is joined: its end alone makes no room for "eleventh". */
	test_clock += 1000 * US;
	test_turns(t.r, 3);
	assert_null(leat_task_spawn(t.ts, "eleventh", sleeper, &us));
	assert_int_equal(task_test_join(&t, task[3]), 0);
	task[3] = task_test_spawn(&t, "eleventh", sleeper, &us);
	for (i = 0; i < 10; i++)
		assert_int_equal(task_test_join(&t, task[i]), 0);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.tasks, 0);
	assert_int_equal(s.stacks, 10);
	task_test_end(&t);
}

#define ROUNDS (SANITIZED ? 20000 : 1000000)

static int
spawn_and_join(void *arg)
{
	int i, ret;

	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		struct leat_task *c = leat_task_spawn(leat_tasks_self(), "c", nothing, NULL);

		if (c == NULL || leat_task_join(c, &ret) < 0 || ret != 0)
			return -1;
	}
	return 0;
}

/* A million tasks, one after another, need two stacks. */
static void
test_million(void **state)
{
	struct leat_tasks_stats s;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", spawn_and_join, NULL)), 0);
	leat_tasks_stats_get(t.ts, &s);
	assert_int_equal(s.spawned, ROUNDS + 1);
	assert_int_equal(s.stacks, 2);
	assert_int_equal(s.tasks, 0);
	task_test_end(&t);
}

#define MANY (SANITIZED ? 500 : 100000)

static void
check_page(void *arg, const struct leat_task *task)
{
	struct leat_task_info info;

	leat_task_info_get(task, &info);
	assert_int_equal(info.state, LEAT_TASK_WAITING);
	assert_in_range(info.stack_used, 64, 4096);
	/* The peak is one page. (A sanitizer's frames are larger.) */
	if (!SANITIZED)
		assert_int_equal(info.stack_peak, sysconf(_SC_PAGESIZE));
	++*(unsigned int *)arg;
}

/* 100,000 tasks suspended at a time, each with one page of its stack in memory. */
static void
check_many(enum leat_task_guard guard)
{
	struct leat_tasks_conf conf = { .max_tasks = MANY, .guard = guard };
	struct leat_task **task = calloc(MANY, sizeof(struct leat_task *));
	unsigned int i, seen = 0;
	uint64_t us = 1000000;
	struct task_test t;

	assert_non_null(task);
	task_test_begin(&t, &conf);
	for (i = 0; i < MANY; i++)
		task[i] = task_test_spawn(&t, "sleeper", sleeper, &us);
	test_turns(t.r, MANY / 256 + 2);
	leat_tasks_each(t.ts, check_page, &seen);
	assert_int_equal(seen, MANY);
	test_clock += us * US;
	for (i = 0; i < MANY; i++)
		assert_int_equal(task_test_join(&t, task[i]), 0);
	task_test_end(&t);
	free(task);
}

static void
test_many(void **state)
{
	(void)state;
	check_many(LEAT_TASK_GUARD_AUTO);
}

/*
 * On a kernel without guard markers, LEAT_TASK_GUARD_AUTO gives most of so many stacks a canary.
 * Here all stacks have one, on any kernel.
 */
static void
test_many_canaries(void **state)
{
	(void)state;
	check_many(LEAT_TASK_GUARD_CANARY);
}

/*
 * The peak use of a stack is measured. leat_tasks_trim() returns the stack's memory to the system.
 */
static void
test_trim(void **state)
{
	struct leat_task_info info;
	struct leat_task *d;
	size_t depth = 30000;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	d = task_test_spawn(&t, "diver", diver, &depth);
	test_turns(t.r, 1);
	leat_task_info_get(d, &info);
	assert_in_range(info.stack_peak, 30000, 36000 + (SANITIZED ? 8192 : 0));
	assert_true(info.stack_used < 4096 || SANITIZED);
	assert_int_equal(task_test_join(&t, d), 0);
	leat_tasks_trim(t.ts);
	depth = 0;
	d = task_test_spawn(&t, "diver", diver, &depth);
	test_turns(t.r, 1);
	leat_task_info_get(d, &info);
	assert_in_range(info.stack_peak, 4096, 8192);
	assert_int_equal(task_test_join(&t, d), 0);
	task_test_end(&t);
}

/* This task calls the watchdog's scan while it runs, with the time that the watchdog shall see. */
static int
hog(void *arg)
{
	const uint64_t ms = 1000000;
	struct leat_tasks_stats s;

	(void)arg;
	task_watch_scan(1 * ms);
	task_watch_scan(100 * ms);
	leat_tasks_stats_get(leat_tasks_self(), &s);
	assert_int_equal(s.hogs, 0);
	task_watch_scan(101 * ms);
	/* The task is reported only once. */
	task_watch_scan(1000 * ms);
	leat_tasks_stats_get(leat_tasks_self(), &s);
	assert_int_equal(s.hogs, 1);
	/* After each yield the watchdog counts from 0 again: here it never comes to 100 ms. */
	assert_int_equal(leat_task_yield(), 0);
	task_watch_scan(1001 * ms);
	assert_int_equal(leat_task_yield(), 0);
	task_watch_scan(1101 * ms);
	task_watch_scan(1200 * ms);
	leat_tasks_stats_get(leat_tasks_self(), &s);
	assert_int_equal(s.hogs, 1);
	return 0;
}

static void
test_hog(void **state)
{
	struct task_test t;

	(void)state;
	log_begin();
	task_test_begin(&t, NULL);
	/* The watchdog's own thread must not look at these tasks. */
	task_watch_del(t.ts);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "glutton", hog, NULL)), 0);
	task_watch_add(t.ts);
	task_test_end(&t);
	log_end();
	assert_non_null(strstr(logged, "task glutton (1) has been running for 100 ms"));
	log_free();
}

/* Run without a yield until the watchdog's thread, with the real clock, reports this task. */
static int
endless(void *arg)
{
	struct leat_tasks_stats s;

	(void)arg;
	do {
		leat_tasks_stats_get(leat_tasks_self(), &s);
	} while (s.hogs == 0);
	return 0;
}

static void
test_watchdog(void **state)
{
	struct leat_tasks_conf conf = { .hog_us = 2000 };
	struct task_test t;

	(void)state;
	leat_clock_mock_set(NULL);
	log_begin();
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "endless", endless, NULL)), 0);
	task_test_end(&t);
	log_end();
	assert_non_null(strstr(logged, "task endless (1) has been running for "));
	log_free();
}

/* For test_stop_names(): a task "family" joins its child; the parent of "orphan" has ended. */
static int
stubborn(void *arg)
{
	/* Mask the cancel of this task. */
	leat_task_current()->masked = 1;
	return leat_task_sleep(*(uint64_t *)arg);
}

static int
family(void *arg)
{
	struct leat_task *c = leat_task_spawn(leat_tasks_self(), "child", stubborn, arg);

	assert_non_null(c);
	leat_task_current()->masked = 1;
	return leat_task_join(c, NULL);
}

static int
orphan_maker(void *arg)
{
	struct leat_task *c = leat_task_spawn(leat_tasks_self(), "orphan", stubborn, arg);

	assert_non_null(c);
	return leat_task_detach(c);
}

/* A stop whose deadline passes logs the tasks that have not ended, and keeps them. */
static void
test_stop_names(void **state)
{
	struct leat_task *f, *o;
	uint64_t us = 1000000;
	struct task_test t;

	(void)state;
	log_begin();
	task_test_begin(&t, NULL);
	f = task_test_spawn(&t, "family", family, &us);
	o = task_test_spawn(&t, "maker", orphan_maker, &us);
	assert_int_equal(task_test_join(&t, o), 0);
	leat_reactor_stop(t.r, 1000);
	assert_int_equal(test_turns_until_stopped(t.r), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), "poller tasks: 3 tasks that have not ended"));
	assert_int_equal(leat_tasks_destroy(t.ts), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), "3 have not ended, e.g. family (1), WAITING"));
	log_end();
	assert_non_null(strstr(logged, "leat/task: r: family (1) WAITING in join child (3) since"));
	assert_non_null(strstr(logged, "leat/task: r:   child (3) WAITING in sleep"));
	assert_non_null(strstr(logged, "leat/task: r: orphan (4) WAITING in sleep"));
	log_free();

	/* When the reactor runs again, the tasks go on where they were. */
	test_clock += us * US;
	leat_reactor_stop(t.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_task_state(f), LEAT_TASK_WAITING);
	assert_int_equal(leat_reactor_run(t.r), 0);
	assert_int_equal(leat_task_join(f, NULL), 0);
	task_test_end(&t);
}

/* Tasks that do not mask their cancel end during the stop. */
static void
test_stop_cancels(void **state)
{
	uint64_t us = 1000000000;
	struct leat_task *s;
	struct task_test t;
	int ret;

	(void)state;
	task_test_begin(&t, NULL);
	s = task_test_spawn(&t, "sleeper", sleeper, &us);
	test_turns(t.r, 1);
	leat_reactor_stop(t.r, 1000);
	assert_int_equal(test_turns_until_stopped(t.r), -ESHUTDOWN);
	assert_int_equal(leat_task_join(s, &ret), 0);
	assert_int_equal(ret, -ECANCELED);
	task_test_end(&t);
}

#define SHOWN_MAX 1024

static void
on_line(void *arg, const char *line)
{
	task_test_append(arg, SHOWN_MAX, line);
	task_test_append(arg, SHOWN_MAX, "\n");
}

/* The tree shows each of 364 tasks once, below its parent. */
static int
grow(void *arg)
{
	int depth = *(int *)arg, next = depth - 1, i;
	struct leat_task *c[3] = { NULL };

	for (i = 0; i < 3 && depth > 0; i++) {
		c[i] = leat_task_spawn(leat_tasks_self(), "leaf", grow, &next);
		assert_non_null(c[i]);
	}
	if (depth == 0)
		return leat_task_sleep(1000);
	for (i = 0; i < 3; i++)
		assert_int_equal(leat_task_join(c[i], NULL), 0);
	return 0;
}

static void
test_tree(void **state)
{
	struct task_node *nodes;
	struct leat_task *g;
	char text[SHOWN_MAX] = "";
	int depth = 5, i, n;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	g = task_test_spawn(&t, "tree", grow, &depth);
	test_turns(t.r, 10);
	n = task_tree(t.ts, &nodes);
	assert_int_equal(n, 1 + 3 + 9 + 27 + 81 + 243);
	assert_int_equal(nodes[0].depth, 0);
	for (i = 1; i < n; i++) {
		int k = i - 1;

		/* The parent is the nearest task before it that is one level up. */
		while (nodes[k].depth >= nodes[i].depth)
			k--;
		assert_true(nodes[k].id == nodes[i].parent);
		assert_int_equal(nodes[k].depth + 1, nodes[i].depth);
	}
	free(nodes);
	assert_int_equal(leat_tasks_show(t.ts, 2, NULL, NULL), -EINVAL);
	assert_int_equal(leat_tasks_show(t.ts, 2, on_line, text), n);
	assert_non_null(strstr(text, "tree (1) WAITING in join leaf (2) since "));
	assert_non_null(strstr(text, "\n  leaf (2) WAITING in join leaf ("));
	assert_non_null(strstr(text, "... and 362 more\n"));
	assert_int_equal(task_test_join(&t, g), 0);
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_overflow_marker),
		CASE(test_overflow_page),
		CASE(test_overflow_canary),
		CASE(test_other_fault),
		CASE(test_handler_restored),
		CASE(test_limit),
		CASE(test_million),
		CASE(test_many),
		CASE(test_many_canaries),
		CASE(test_trim),
		CASE(test_hog),
		CASE(test_watchdog),
		CASE(test_stop_names),
		CASE(test_stop_cancels),
		CASE(test_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
