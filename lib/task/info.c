/* SPDX-License-Identifier: BSD-3-Clause */

/* Counters and states of tasks, for leat_tasks_stats_get() and leat_task_info_get(). */

#include <stdio.h>
#include <string.h>

#include "task_pvt.h"

void
leat_tasks_stats_get(const struct leat_tasks *ts, struct leat_tasks_stats *stats)
{
	uint32_t ready;

	memset(stats, 0, sizeof(*stats));
	if (ts == NULL)
		return;
	stats->spawned = RLX_LOAD(ts->next_id);
	stats->refused = RLX_LOAD(ts->refused);
	stats->switches = RLX_LOAD(ts->switches);
	stats->hogs = RLX_LOAD(ts->hogs);
	stats->tasks = RLX_LOAD(ts->nb_tasks);
	stats->stacks = RLX_LOAD(ts->nb_stacks);
	/*
	 * Read readied after switches, so that the difference is not negative. It may be too large
	 * if the reactor ran in between.
	 */
	ready = RLX_LOAD(ts->readied) - TASK_READIED_START - (uint32_t)stats->switches;
	ready += RLX_LOAD(ts->current) != NULL;
	stats->ready = RTE_MIN(ready, stats->tasks);
}

/* Compose leat_task_info.waits. */
static void
describe(const struct task_wait *w, char *text, size_t len)
{
	size_t n = (size_t)snprintf(text, len, "%s", w->type->name);

	if (w->type->describe == NULL || n + 2 > len)
		return;
	text[n++] = ' ';
	text[n] = '\0';
	w->type->describe(w, text + n, len - n);
	for (; text[n] != '\0'; n++)
		text[n] = task_printable(text[n]);
}

void
leat_task_info_get(const struct leat_task *task, struct leat_task_info *info)
{
	const struct task_stacks *s;
	const char *sp;

	memset(info, 0, sizeof(*info));
	if (task == NULL)
		return;
	s = &task->ts->stacks;
	sp = task->sp;
	info->id = task->id;
	info->parent = task->parent;
	snprintf(info->name, sizeof(info->name), "%s", leat_task_name(task));
	info->state = task->state;
	info->since = task->since;
	if (task->state == LEAT_TASK_WAITING)
		describe(task->wait, info->waits, sizeof(info->waits));
	/* A ready task that has not begun has no context yet. */
	if (sp != NULL && (task->state == LEAT_TASK_WAITING || task->state == LEAT_TASK_READY))
		info->stack_used =
			(uint32_t)(task_stack_bottom(s, task->index) + task_stack_size(s) - sp);
	info->stack_peak = task_stack_peak(s, task->index);
}

void
leat_tasks_each(struct leat_tasks *ts, void (*fn)(void *arg, const struct leat_task *task),
		void *arg)
{
	uint32_t i;

	for (i = 0; ts != NULL && i < ts->nb_stacks; i++)
		if (ts->blocks[i].state != LEAT_TASK_FREE)
			fn(arg, &ts->blocks[i]);
}
