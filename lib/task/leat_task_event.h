/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_EVENT_H
#define LEAT_TASK_EVENT_H

/**
 * @file
 * An event that tasks of one reactor wait for. Once set it stays set until it is reset.
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
	struct leat_task_event_waiter *first; /**< private: oldest wait; NULL: none */
	struct leat_task_event_waiter *last;  /**< private: newest wait */
	bool is_set;			      /**< private */
};

/** Set an event. All tasks that wait for it become ready, in the order of their waits. */
LEAT_API void leat_task_event_set(struct leat_task_event *ev);

/** Reset an event. Later calls of leat_task_event_wait() wait. */
static inline void
leat_task_event_reset(struct leat_task_event *ev)
{
	ev->is_set = false;
}

/** Tell whether an event is set. */
static inline bool
leat_task_event_is_set(const struct leat_task_event *ev)
{
	return ev->is_set;
}

/**
 * Wait until an event is set. Returns at once if it is set already.
 *
 * @return
 *   0; -ECANCELED: cancelled; -ETIMEDOUT: the task's deadline has passed; -EPERM: not in a task.
 */
LEAT_API int leat_task_event_wait(struct leat_task_event *ev);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_EVENT_H */
