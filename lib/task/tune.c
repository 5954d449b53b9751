/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of the tasks of a reactor, task.toml. The control thread
 * itself applies settings and reads measurements; the reactor's thread takes no part.
 */

#include <rte_errno.h>

#include "task_pvt.h"

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	const struct task_tune_settings *want = wanted;
	struct leat_tasks *ts = arg;
	const uint32_t old = ts->hog_us;

	(void)changed;
	/* Called from leat_tune_add(), for a settings file: the watchdog does not watch ts yet. */
	if (ts->tune == NULL) {
		ts->hog_us = want->hog_us;
		return 0;
	}
	if (old != LEAT_TASK_HOG_NEVER && want->hog_us == LEAT_TASK_HOG_NEVER)
		task_watch_del(ts);
	__atomic_store_n(&ts->hog_us, want->hog_us, __ATOMIC_RELAXED);
	leat_reactor_long_turns_set(ts->reactor, want->hog_us == LEAT_TASK_HOG_NEVER);
	if (want->hog_us == LEAT_TASK_HOG_NEVER)
		return 0;
	if (old == LEAT_TASK_HOG_NEVER)
		task_watch_add(ts);
	else
		task_watch_hasten(ts);
	return 0;
}

static void
report(void *arg, void *to)
{
	struct task_tune_report *rep = to;
	struct leat_tasks_stats s;

	leat_tasks_stats_get(arg, &s);
	rep->spawned = s.spawned;
	rep->refused = s.refused;
	rep->switches = s.switches;
	rep->hogs = s.hogs;
	rep->tasks = s.tasks;
	rep->ready = s.ready;
	rep->stacks = s.stacks;
}

int
task_tune_add(struct leat_tasks *ts)
{
	const struct leat_tune_conf conf = {
		.schema = &task_tune_schema,
		.name = leat_reactor_name(ts->reactor),
		.settings = &ts->set,
		.apply = apply,
		.report = report,
		.ownerless = true,
		.arg = ts,
	};

	ts->set.hog_us = ts->hog_us;
	ts->tune = leat_tune_add(&conf);
	leat_reactor_long_turns_set(ts->reactor, ts->hog_us == LEAT_TASK_HOG_NEVER);
	return ts->tune != NULL ? 0 : -rte_errno;
}
