/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of a scope with two branches of which one waits for an event and the other cancels it:
 * two tasks started, four switches, an operation posted and cancelled, two tasks ended. And the
 * cost of a race of two branches, compared with a scope of the same two branches.
 */

#include <errno.h>

#include <leat_error.h>
#include <leat_reactor.h>
#include <leat_scope.h>
#include <leat_task_event.h>
#include <leat_task_race.h>

#include "bench_cancel.h"

static struct {
	struct leat_tasks *ts;
	uint32_t rounds;
	uint64_t ns;
} b;

static int
wait_event(void *arg)
{
	return leat_task_event_wait(arg);
}

static int
cancel(void *arg)
{
	(void)arg;
	return leat_scope_cancel_siblings();
}

static int
fails(void *arg)
{
	(void)arg;
	return -EIO;
}

/* Both branches fail, so neither cancels the other: both run to their end, as in a scope. */
static void
race_round(void)
{
	struct leat_task_branch both[] = {
		{ .fn = fails, .name = "first" },
		{ .fn = fails, .name = "second" },
	};

	if (leat_task_race(both, 2) != -EIO)
		bench_die("a race of two that fail did not fail");
}

static void
scope_round(void)
{
	struct leat_scope s;
	int ret[2];

	leat_scope_init(&s);
	leat_scope_branch(&s, "first", fails, NULL, &ret[0]);
	leat_scope_branch(&s, "second", fails, NULL, &ret[1]);
	if (leat_scope_wait(&s) < 0 || leat_scope_failure(&s, NULL) != -EIO)
		bench_die("a scope of two that fail did not fail");
}

enum { RACE, SCOPE, VARIANTS };

static int
race_rounds(void *arg)
{
	const unsigned int *variant = arg;
	uint64_t start = bench_ns();
	uint32_t i;

	for (i = 0; i < b.rounds; i++)
		if (*variant == RACE)
			race_round();
		else
			scope_round();
	b.ns = bench_ns() - start;
	return 0;
}

static int
rounds(void *arg)
{
	struct leat_task_event ev = { .is_set = false };
	uint64_t start = bench_ns();
	uint32_t i;

	(void)arg;
	for (i = 0; i < b.rounds; i++) {
		struct leat_scope s;
		int waited = 0;

		leat_scope_init(&s);
		leat_scope_branch(&s, "wait", wait_event, &ev, &waited);
		leat_scope_branch(&s, "cancel", cancel, NULL, NULL);
		if (leat_scope_wait(&s) < 0 || waited != -ECANCELED)
			bench_die("a branch that was cancelled returned %d", waited);
	}
	b.ns = bench_ns() - start;
	return 0;
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off();
	struct leat_task *task;

	task = leat_task_spawn(b.ts, "rounds", *(leat_task_fn *)arg, &variant);
	if (task == NULL)
		bench_die("%s", leat_err_msg());
	while (leat_task_state(task) != LEAT_TASK_DONE)
		if (leat_reactor_turn(leat_tasks_reactor(b.ts)) < 0)
			bench_die("the reactor does not turn");
	if (leat_task_join(task, NULL) < 0)
		bench_die("%s", leat_err_msg());
	*disturbed = bench_pushed_off() != pushed;
	return (double)b.ns / b.rounds;
}

void
bench_cancel(const struct bench_args *args, struct leat_tasks *ts, int cpu)
{
	static const struct bench_result result = {
		.name = "task-cancel",
		.unit = "ns",
		.kind = BENCH_ABS_MAX,
		.target = 250,
	};
	static const struct bench_result race = {
		.name = "task-race",
		.unit = "ns",
		.kind = BENCH_DIFF_MAX,
		.target = 150,
		.leat = RACE,
		.reference = SCOPE,
		.note = "beside a scope of the same two branches",
	};
	leat_task_fn fn = rounds;
	static struct bench_table t;

	b.ts = ts;
	b.rounds = args->smoke ? 100 : 10000;
	bench_measure(&t, args, 1, measure, &fn, &cpu, 1);
	bench_report(&t, &result);
	fn = race_rounds;
	bench_measure(&t, args, VARIANTS, measure, &fn, &cpu, 1);
	bench_report(&t, &race);
}
