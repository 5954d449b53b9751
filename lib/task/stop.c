/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When the reactor stops, tasks that are left are cancelled, so that what they wait for ends; they
 * have until the reactor's deadline to clean up.
 */

#include <stdio.h>

#include <leat_error.h>
#include <leat_log.h>

#include "task_pvt.h"

/* Lines of the tree in the log. */
#define SHOWN 100

static void
on_line(void *arg, const char *line)
{
	const struct leat_tasks *ts = arg;

	LEAT_LOG(WARNING, task, "%s: %s", leat_reactor_name(ts->reactor), line);
}

int
task_quiesce(void *arg, char *what, size_t len)
{
	struct leat_tasks *ts = arg;
	uint32_t i, left = 0;

	for (i = 0; i < ts->nb_stacks; i++) {
		struct leat_task *t = &ts->blocks[i];

		if (t->state == LEAT_TASK_FREE || t->state == LEAT_TASK_DONE)
			continue;
		left++;
		if (!ts->stopping)
			(void)task_cancel(t);
	}
	/* It asks for words at the end only; a stop after that one cancels anew. */
	ts->stopping = what == NULL;
	if (left == 0 || what == NULL)
		return left > 0;
	/* The deadline of the stop has passed: these are named. */
	snprintf(what, len, "%u tasks that have not ended", left);
	if (leat_tasks_show(ts, SHOWN, on_line, ts) < 0)
		LEAT_LOG(WARNING, task, "%s", leat_err_msg());
	return 1;
}
