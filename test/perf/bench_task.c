/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What tasks cost.
 *
 *     task-switch...   the context switch compared with simpler ones: bench_switch.c
 *     task-spawn-join  a task that does nothing, spawned and joined by another one; it gets a stack
 *                      that was used before
 *     task-cancel      a scope of two branches of which one cancels the other: bench_cancel.c
 *     task-race        a race of two branches compared with a scope of the same: bench_cancel.c
 *     task-stack       memory of the stack of a suspended task, the largest of a thousand
 *
 * bench-task --count: instructions and cache lines of the context switch, see count.h.
 */

#include <stdio.h>
#include <stdlib.h>

#include <leat_error.h>
#include <leat_reactor.h>

#include "bench_cancel.h"
#include "bench_switch.h"
#include "count.h"
#include "task_pvt.h"

#ifndef __x86_64__
int
main(int argc, char **argv)
{
	struct bench_args args;

	bench_args(&args, argc, argv);
	bench_skip("the switches to compare with are written for x86-64");
}
#else

#define TASKS 1000

static struct {
	uint32_t spawns;
	struct leat_reactor *r;
	struct leat_tasks *ts;
	double ns;
} b;

static int
empty(void *arg)
{
	(void)arg;
	return 0;
}

static int
spawner(void *arg)
{
	uint64_t start = bench_ns();
	uint32_t i;

	(void)arg;
	for (i = 0; i < b.spawns; i++) {
		struct leat_task *t = leat_task_spawn(b.ts, "empty", empty, NULL);

		if (t == NULL || leat_task_join(t, NULL) < 0)
			bench_die("%s", leat_err_msg());
	}
	b.ns = (double)(bench_ns() - start) / b.spawns;
	return 0;
}

static void
turn_until_done(const struct leat_task *t)
{
	while (leat_task_state(t) != LEAT_TASK_DONE)
		if (leat_reactor_turn(b.r) < 0)
			bench_die("%s", leat_err_msg());
}

static double
run_spawn(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off();
	struct leat_task *t = leat_task_spawn(b.ts, "spawner", spawner, NULL);

	(void)arg;
	(void)variant;
	if (t == NULL)
		bench_die("%s", leat_err_msg());
	turn_until_done(t);
	if (leat_task_join(t, NULL) < 0)
		bench_die("%s", leat_err_msg());
	*disturbed = bench_pushed_off() != pushed;
	return b.ns;
}

static int
sleeper(void *arg)
{
	(void)arg;
	return leat_task_sleep(UINT32_MAX);
}

static void
look(void *arg, const struct leat_task *task)
{
	struct leat_task_info info;
	uint32_t *peak = arg;

	leat_task_info_get(task, &info);
	if (info.state != LEAT_TASK_WAITING || info.stack_peak == 0)
		bench_die("task %s does not wait, or its stack can't be looked at", info.name);
	*peak = RTE_MAX(*peak, info.stack_peak);
}

static double
run_stack(void *arg, unsigned int variant, bool *disturbed)
{
	uint32_t *peak = arg;

	(void)variant;
	*disturbed = false;
	*peak = 0;
	leat_tasks_each(b.ts, look, peak);
	return *peak;
}

static void
suspend_many(void)
{
	int i;

	for (i = 0; i < TASKS; i++) {
		struct leat_task *t = leat_task_spawn(b.ts, "sleeper", sleeper, NULL);

		if (t == NULL || leat_task_detach(t) < 0)
			bench_die("%s", leat_err_msg());
	}
	for (i = 0; i < TASKS; i++)
		if (leat_reactor_turn(b.r) < 0)
			bench_die("%s", leat_err_msg());
}

int
main(int argc, char **argv)
{
	static const struct bench_result spawn_join = {
		.name = "task-spawn-join",
		.unit = "ns",
		.kind = BENCH_ABS_MAX,
		.target = 60,
	};
	static const struct bench_result stack = {
		.name = "task-stack",
		.unit = "B",
		.kind = BENCH_ABS_MAX,
		.target = 4096,
	};
	const struct leat_reactor_conf conf = { .idle = { .policy = LEAT_IDLE_SPIN } };
	static struct bench_table t;
	struct bench_args args;
	uint32_t peak;
	int cpu;

	bench_args(&args, argc, argv);
	if (count_option(&args)) {
		bench_switch_count();
		return 0;
	}
	cpu = bench_cpu(1) >= 0 ? bench_cpu(1) : bench_cpu(0);
	bench_pin(cpu);
	bench_thread_ready();
	b.spawns = args.smoke ? 1000 : 50000;
	b.r = leat_reactor_create(&conf);
	b.ts = b.r != NULL ? leat_tasks_create(b.r, NULL) : NULL;
	if (b.ts == NULL)
		bench_die("%s", leat_err_msg());

	bench_switch(&args, cpu);
	bench_measure(&t, &args, 1, run_spawn, NULL, &cpu, 1);
	bench_report(&t, &spawn_join);
	bench_cancel(&args, b.ts, cpu);
	suspend_many();
	args.repeats = 1;
	bench_measure(&t, &args, 1, run_stack, &peak, &cpu, 1);
	bench_report(&t, &stack);

	leat_reactor_stop(b.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	while (leat_reactor_turn(b.r) >= 0)
		;
	if (leat_tasks_destroy(b.ts) < 0 || leat_reactor_destroy(b.r) < 0)
		bench_die("%s", leat_err_msg());
	return 0;
}
#endif
