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
 *	ret = leat_task_op_run(ep, ops, 1);	post it, and wait until it is done
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
 * An op comes back when the reactor gets it from leat_ep_poll(): it is done, and belongs to the
 * application again. A wait for ops does not end before the ops have come back, so ops and buffers
 * may be variables of the task. When the task is cancelled, or its deadline passes, the ops it
 * waits for are cancelled (leat_op_cancel()), and the wait ends when they have come back. An op
 * that the device can't recall comes back only when it is done: give it a deadline
 * (LEAT_OP_F_DEADLINE).
 *
 * While a task waits for an op, leat_op.user is reserved; it is NULL afterwards.
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
 * Have the reactor poll an endpoint, as leat_reactor_ep_add() does. Ops that come back wake the
 * tasks that wait for them.
 *
 * @param ts
 *   The tasks.
 * @param ep
 *   The endpoint.
 * @param event_fn
 *   Gets the endpoint's events. NULL: events are dropped.
 * @param arg
 *   First argument of event_fn.
 * @return
 *   The poller, or NULL with rte_errno as leat_reactor_ep_add(); also EINVAL: ts or ep is NULL.
 */
LEAT_API struct leat_poller *leat_tasks_ep_add(struct leat_tasks *ts, struct leat_ep *ep,
					       leat_ep_event_fn event_fn, void *arg);

/**
 * Wait for an op that was posted on an endpoint of leat_tasks_ep_add(). Returns at once for an op
 * that has come back already, or was never posted.
 *
 * @return
 *   - leat_op.status, which is -ECANCELED if the task's cancellation reached the op in time
 *   - -ETIMEDOUT: in place of -ECANCELED, when the task's deadline has cancelled the op
 *   - -EPERM: not in a task
 *   - -EBUSY: another task waits for the op
 */
LEAT_API int leat_task_op_wait(struct leat_ep *ep, struct leat_op *op);

/**
 * Wait until all n ops have come back.
 *
 * @return
 *   As leat_task_op_wait() for the first op, in the order of the array, that failed; else 0.
 */
LEAT_API int leat_task_op_wait_all(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

/**
 * Wait until one of n ops has come back. The caller must still wait for the others. A cancel of the
 * task cancels all n ops; they, too, must be waited for.
 *
 * @return
 *   - the index of the first op, in the order of the array, that is not in flight
 *   - -EINVAL: n is 0
 *   - -EPERM, -EBUSY: as leat_task_op_wait()
 */
LEAT_API int leat_task_op_wait_any(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

/**
 * Post n ops, and wait until all have come back. While the endpoint is full the task yields.
 *
 * The leat_op.status of an op that could not be posted says why: -ECANCELED or -ETIMEDOUT when the
 * task was cancelled, or its deadline passed, before the post; else the rte_errno of
 * leat_ep_post(), negated.
 *
 * @return
 *   As leat_task_op_wait_all().
 */
LEAT_API int leat_task_op_run(struct leat_ep *ep, struct leat_op **ops, uint16_t n);

/**
 * @name One op, with a time limit
 *
 * The time limit counts from the call. It covers the wait for room in the endpoint and the op
 * itself. When the time is up the op is recalled, and the call returns when the device has released
 * the buffer. An op that the device can't recall (leat_dev_info.cancel_send says whether it can
 * recall a send) ends together with its connection, see LEAT_OP_F_DEADLINE. A leat_task_within()
 * around the call limits the time as well, but never ends a connection.
 *
 * All these functions return
 *
 * - -ETIMEDOUT: the time was up: timeout_us, or a leat_task_within() around the call
 * - -ECANCELED: the task was cancelled
 * - -EPERM: not in a task
 * - any other leat_op.status, or the error with which leat_ep_post() refused the op
 *
 * They post the op on no queue: it comes back as soon as it is done, and does not wait for ops that
 * were posted before it.
 *
 * @param mr
 *   Registered memory that holds buf, as leat_op.mr; NULL if the device needs none.
 * @param timeout_us
 *   Microseconds; 0: post nothing, and return -ETIMEDOUT; LEAT_TASK_FOREVER: no limit.
 */
/**@{*/

/** Send a message. @return 0: sent; or see above */
LEAT_API int leat_task_send(struct leat_ep *ep, uint16_t peer, const void *buf, uint64_t len,
			    struct leat_mr *mr, uint64_t timeout_us);

/**
 * Receive a message. Its immediate data is dropped; use leat_task_op_run() to get it.
 *
 * @param ep
 *   The endpoint.
 * @param peer
 *   Peer to receive from, or LEAT_PEER_ANY.
 * @param[out] buf
 *   Buffer for the message.
 * @param size
 *   Its size, bytes.
 * @param mr
 *   Region of buf, see above.
 * @param[out] sender
 *   Gets leat_op.src, for any result >= 0 and for -EBADMSG; may be NULL.
 * @param timeout_us
 *   Time limit, see above.
 * @return
 *   Bytes received; -EMSGSIZE: the message is longer than size; -EBADMSG: not a message, but the
 *   notice of a peer's WRITE_IMM; or see above.
 */
LEAT_API int64_t leat_task_recv(struct leat_ep *ep, uint16_t peer, void *buf, uint64_t size,
				struct leat_mr *mr, uint16_t *sender, uint64_t timeout_us);

/**
 * Write to memory of the peer.
 *
 * @param ep
 *   The endpoint.
 * @param peer
 *   Peer whose memory is written.
 * @param buf
 *   The bytes.
 * @param len
 *   Number of bytes.
 * @param mr
 *   Region of buf, see above.
 * @param rkey, offset
 *   Key of the peer's memory, as received from the peer, and an offset in that memory, bytes.
 * @param timeout_us
 *   Time limit, see above.
 * @return
 *   0; -ERANGE: the bytes from offset on are not all within that memory; or see above.
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
