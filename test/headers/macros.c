/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The public macros in use, nested where that makes sense. Only compiled, in C and in C++, with the
 * warnings of this directory.
 */

#include <leat_log.h>
#include <leat_scope.h>
#include <leat_task_event.h>

int macros_limits(struct leat_task_event *ev);
int macros_break(void *arg);

int
macros_limits(struct leat_task_event *ev)
{
	int ret = leat_task_within(100, leat_task_within(10, leat_task_event_wait(ev)));

	leat_task_masked(leat_task_event_wait(ev));
	if (ret < 0)
		ret = leat_task_masked(leat_task_within(5, leat_task_event_wait(ev)));
	if (ret < 0)
		LEAT_LOG(INFO, task, "it is %d", ret);
	LEAT_LOG(INFO, task, "no arguments");
	leat_task_within_block(100) {
		leat_task_masked_block() {
			leat_task_within_block(10) {
				ret = leat_task_event_wait(ev);
			}
		}
	}
	return leat_task_within(10, __extension__({
					if (leat_task_masked(leat_task_yield()) < 0)
						return -1;
					leat_task_event_wait(ev);
				}));
}

int
macros_break(void *arg)
{
	int ret = macros_limits((struct leat_task_event *)arg);

	leat_scope_break(ret);
}
