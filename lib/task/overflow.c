/* SPDX-License-Identifier: BSD-3-Clause */

/* Stack overflows, reported by the name of the task. */

#include <signal.h>

#include "task_pvt.h"

void
task_canary_check(struct leat_tasks *ts, const struct leat_task *t)
{
	if (!task_stack_intact(&ts->stacks, t->index))
		(void)raise(SIGSEGV);
}
