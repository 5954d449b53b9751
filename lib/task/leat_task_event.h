/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_EVENT_H
#define LEAT_TASK_EVENT_H

/**
 * @file
 * An event that tasks of one reactor wait for: something has happened, and that remains so until it
 * is reset.
 *
 * Thread rules: as for tasks. From other threads set it with leat_reactor_call().
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_task_event_waiter;

/** An event. Zeroed means not set. While tasks wait for it, it must not move. */
struct leat_task_event {
	struct leat_task_event_waiter *first; /**< private: the waits, in this order */
	struct leat_task_event_waiter *last;
	bool is_set; /**< private */
};

/** It has happened: all tasks that wait become ready, in the order in which they came. */
LEAT_API void leat_task_event_set(struct leat_task_event *ev);

/** It has not happened: tasks that come now wait. */
static inline void
leat_task_event_reset(struct leat_task_event *ev)
{
	ev->is_set = false;
}

/** Has it happened? */
static inline bool
leat_task_event_is_set(const struct leat_task_event *ev)
{
	return ev->is_set;
}

/**
 * Wait until it has happened.
 *
 * @return
 *   0; -ECANCELED: cancelled; -ETIMEDOUT: the task's deadline; -EPERM: not in a task.
 */
LEAT_API int leat_task_event_wait(struct leat_task_event *ev);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_EVENT_H */
