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
 *	ret = leat_task_send(ep, peer, buf, len, mr, 1000000);
 *	if (ret == 0)
 *		n = leat_task_recv(ep, peer, buf, size, mr, NULL, 1000000);
 * @endcode
 *
 * Ops of any type, several at a time:
 *
 * @code
 *	struct leat_op op = { .type = LEAT_OP_TSEND, .peer = peer, .buf = buf, .size = len };
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
#include <leat_mr.h>
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

/**
 * @name One op, with a time limit
 *
 * The time counts from the call, whatever it waits for: room in the endpoint first, then the op.
 * When it is up the op is recalled, and the call returns when the device has let go of the buffer.
 * What a device can't recall (leat_dev_info.cancel_send says whether it can recall a send) ends
 * with its connection, see LEAT_OP_F_DEADLINE. A limit around the call (leat_task_within()) counts
 * as well, and never ends a connection.
 *
 * All of them return
 *
 * - -ETIMEDOUT: the time was up: the limit given, or one around it
 * - -ECANCELED: the task was cancelled
 * - -EPERM: not in a task
 * - others as leat_op.status, and as leat_ep_post() refuses an op
 *
 * and post the op on no queue: it comes back when it is done, whatever was posted before.
 *
 * @param mr
 *   Registered memory that holds buf, as leat_op.mr; NULL where the device needs none.
 * @param timeout_us
 *   Microseconds; 0: nothing is posted, and -ETIMEDOUT returned; LEAT_TASK_FOREVER: no limit.
 */
/**@{*/

/** Send a message. @return 0: it was sent; or see above */
LEAT_API int leat_task_send(struct leat_ep *ep, uint16_t peer, const void *buf, uint64_t len,
			    struct leat_mr *mr, uint64_t timeout_us);

/**
 * Receive a message. An immediate that comes with it is not told; for these leat_task_op_run().
 *
 * @param peer
 *   From which, or LEAT_PEER_ANY.
 * @param[out] sender
 *   Gets leat_op.src, for any result >= 0; may be NULL.
 * @return
 *   Bytes received; -EMSGSIZE: longer than size; -EBADMSG: not a message, but the notice of a
 *   peer's WRITE_IMM; or see above.
 */
LEAT_API int64_t leat_task_recv(struct leat_ep *ep, uint16_t peer, void *buf, uint64_t size,
				struct leat_mr *mr, uint16_t *sender, uint64_t timeout_us);

/**
 * Write to memory of the peer.
 *
 * @param rkey, offset
 *   The memory, as the peer told it, and where in it.
 * @return
 *   0; -ERANGE: not inside that memory; or see above.
 */
LEAT_API int leat_task_write(struct leat_ep *ep, uint16_t peer, const void *buf, uint64_t len,
			     struct leat_mr *mr, const struct leat_rkey *rkey, uint64_t offset,
			     uint64_t timeout_us);

/** Read from memory of the peer. @return as leat_task_write() */
LEAT_API int leat_task_read(struct leat_ep *ep, uint16_t peer, void *buf, uint64_t len,
			    struct leat_mr *mr, const struct leat_rkey *rkey, uint64_t offset,
			    uint64_t timeout_us);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_OP_H */
