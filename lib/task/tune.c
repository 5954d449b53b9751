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

	(void)changed;
	/*
	 * leat_tune_add() calls this for a settings file; later the control thread does, maybe
	 * before leat_tasks_create() has called task_watch_add().
	 */
	task_watch_set(ts, want->hog_us);
	leat_reactor_long_turns_set(ts->reactor, want->hog_us == LEAT_TASK_HOG_NEVER);
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
	/* Before the control thread may change it. */
	leat_reactor_long_turns_set(ts->reactor, ts->hog_us == LEAT_TASK_HOG_NEVER);
	ts->tune = leat_tune_add(&conf);
	return ts->tune != NULL ? 0 : -rte_errno;
}
