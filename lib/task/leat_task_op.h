/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_OP_H
#define LEAT_TASK_OP_H

/**
 * @file
 * Tasks that wait for ops of an endpoint.
 *
 * @code
 *	leat_tasks_ep_add(ts, ep, on_event, app);
 *	...
 *	struct leat_op op = { .type = LEAT_OP_SEND, .peer = peer, .buf = buf, .size = len };
 *	struct leat_op *ops[] = { &op };
 *
 *	ret = leat_task_op_run(ep, ops, 1);	post it, and wait until it came back
 * @endcode
 *
 * or in two steps, to do something else in between:
 *
 * @code
 *	n = leat_ep_post(ep, ops, 8);
 *	...
 *	ret = leat_task_op_wait_all(ep, ops, n);
 * @endcode
 *
 * A wait for ops ends when they came back, and not before: so ops and buffers may be variables of
 * the task. When the task is cancelled, or its deadline passes, the ops it waits for are asked to
 * end (leat_op_cancel()); the wait ends when they have. An op that the device can't recall ends by
 * itself: give it a deadline (LEAT_OP_F_DEADLINE).
 *
 * While a task waits for an op, leat_op.user is not the caller's; it is NULL afterwards.
 *
 * Thread rules: in tasks of the reactor that polls the endpoint.
 */

#include <leat_ep.h>
#include <leat_poller.h>

#include "leat_task.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Have the reactor poll an endpoint, as leat_reactor_ep_add() does: what comes back wakes the tasks
 * that wait for it.
 *
 * @param event_fn
 *   Gets the events. NULL: they are dropped.
 * @return
 *   The poller, or NULL with rte_errno as leat_reactor_ep_add(); EINVAL: ts or ep is NULL, too.
 */
LEAT_API struct leat_poller *leat_tasks_ep_add(struct leat_tasks *ts, struct leat_ep *ep,
					       leat_ep_event_fn event_fn, void *arg);

/**
 * Wait for an op that was posted on an endpoint of leat_tasks_ep_add(). One that has come back
 * already, or was never posted, is not waited for.
 *
 * @return
 *   - leat_op.status, which is -ECANCELED if the task's cancellation got through
 *   - -ETIMEDOUT: instead of -ECANCELED, if it was the task's deadline
 *   - -EPERM: not in a task
 *   - -EBUSY: another task waits for it
 */
LEAT_API int leat_task_op_wait(struct leat_ep *ep, struct leat_op *op);

/**
 * Wait until all of them have come back.
 *
 * @return
 *   As leat_task_op_wait() for the first of them, in the order of the array, that failed; else 0.
 */
LEAT_API int leat_task_op_wait_all(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

/**
 * Wait until one of them has come back. The others are still to be waited for, also when the task
 * was cancelled: all of them were asked to end then.
 *
 * @return
 *   - the index of the first, in the order of the array, that is not in flight
 *   - -EINVAL: n is 0
 *   - -EPERM, -EBUSY: as leat_task_op_wait()
 */
LEAT_API int leat_task_op_wait_any(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

/**
 * Post ops, all of them, and wait until they came back. When the endpoint is full the task yields
 * until there is room.
 *
 * Ops that could not be posted have that reason as their status: -ECANCELED or -ETIMEDOUT, the task
 * was cancelled or its deadline had passed before; others as leat_ep_post() sets rte_errno.
 *
 * @return
 *   As leat_task_op_wait_all().
 */
LEAT_API int leat_task_op_run(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_OP_H */
