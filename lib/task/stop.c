/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When the reactor stops, tasks that are left are cancelled, so that what they wait for ends; they
 * have until the reactor's deadline to clean up.
 */

#include <stdio.h>

#include "task_pvt.h"

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
	ts->stopping = true;
	if (left > 0 && what != NULL)
		snprintf(what, len, "%u tasks", left);
	return left > 0;
}
