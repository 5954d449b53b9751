/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ORDER_H
#define LEAT_ORDER_H

/**
 * @file
 * For drivers: the ordering layer, the heart of leat. Ops posted on one queue come back from poll
 * in the order in which they were posted, however the hardware completes them.
 *
 * A queue (leat_queue.h) is a list through the ops, oldest first. A driver reports each op to the
 * layer twice: when the driver accepts the op, and when the hardware is done with it:
 *
 *     post:  leat_op_admit -> leat_op_check -> (hand to the device) -> leat_op_start
 *     poll:  (completion from the device) -> leat_op_finish
 *
 * Four sends to one peer, of which the hardware completes C and B before A (* is done, held back):
 *
 *     calls                head     the queue      tail   poll returns   held_now  held_total
 *     start A, B, C, D       A -> B -> C -> D              -                 0         0
 *     finish C               A -> B -> C* -> D             -                 1         1
 *     finish B               A -> B* -> C* -> D            -                 2         2
 *     finish A               D                             A, B, C           0         2
 *     finish D               (empty)                       D                 0         2
 *
 * If an op is not the oldest, finish marks it as held (LEAT_OP_HELD) and leaves it in its place,
 * without a search. finish of the oldest op returns it and the held ones after it, up to the first
 * op that is still with the device. Each op is linked once, marked at most once and returned once:
 * O(1) per op, no window, no allocation, no limit of its own. Where completions come in order,
 * held_now stays 0, and then finish does not even look at the op after the oldest.
 *
 * held_time and held_max are hold-back times: from the op's own completion to its return, in units
 * of 2^LEAT_QUEUE_HOLD_SHIFT cycles. leat_queue_stats_get() reads them from any thread.
 *
 * Where a finished op goes:
 *
 *     leat_op_finish(A)
 *       |-- queue is LEAT_QUEUE_NONE ------------------------.
 *       |-- A is the oldest of its queue: A, held ones ------+--> leat_op_emit
 *       `-- else: A is held until the oldest one finishes          |-- poll under way, with room:
 *                                                                  |     out, poll returns it
 *                                                                  `-- else: ready list, the
 *                                                                        next poll begins with it
 *
 * Which queue: leat_op.queue; if that is NULL the peer's sendq, for receives the endpoint's recvq.
 * start and finish find the queue by the same rule, since an op's input does not change in between.
 *
 * The state of an op:
 *
 *     IDLE --start--> INFLIGHT --finish--> [HELD] --> [READY] --poll--> IDLE
 *                        `--> CANCEL, EXPIRED --finish---^
 *
 * The layer depends on nothing in leat_driver.h, the contract between library and driver. Runs of
 * many plain ops at once are in leat_order_fast.h.
 *
 * Thread rules: everything on the endpoint's own thread.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_errno.h>

#include "leat_common.h"
#include "leat_ep_core.h"
#include "leat_op.h"
#include "leat_queue.h"
#include "leat_time.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Add to a counter that other threads may read. */
#define LEAT_STAT_ADD(x, n) __atomic_store_n(&(x), (x) + (n), __ATOMIC_RELAXED)

/** Count an op that failed: as an error, or as flushed. Called by leat_op_finish(). */
LEAT_API void leat_op_count_failed(struct leat_ep *ep, struct leat_peer *peer,
				   int status) __rte_cold;

/** Start the deadline of an op. */
LEAT_API void leat_op_deadline_start(struct leat_ep *ep, struct leat_op *op);
/** Stop the deadline of an op. */
LEAT_API void leat_op_deadline_stop(struct leat_ep *ep, struct leat_op *op);

/** Return the number of ops that poll may still return in this call. */
static inline uint16_t
leat_ep_room(const struct leat_ep *ep)
{
	return (uint16_t)(ep->out_end - ep->out);
}

/**
 * Return the present time. Within a poll: one timestamp, taken when first needed. Outside of a
 * poll: a new timestamp at each call, since no later step would discard a stored one.
 */
static inline uint64_t
leat_ep_now(struct leat_ep *ep)
{
	if (ep->out_end == NULL)
		return leat_now();
	if (ep->now == 0)
		ep->now = leat_now();
	return ep->now;
}

static inline bool
leat_op_is_recv(const struct leat_op *op)
{
	return op->type == LEAT_OP_RECV || op->type == LEAT_OP_TRECV;
}

/**
 * Check whether post can accept an op now; if not, set rte_errno for post.
 * @return false: there is no room for the op, or it is in flight
 */
static inline bool
leat_op_admit(struct leat_ep *ep, const struct leat_op *op)
{
	if (unlikely(op->state != LEAT_OP_IDLE)) {
		rte_errno = EALREADY;
		return false;
	}
	if (unlikely((leat_op_is_recv(op) ? ep->rx_room : ep->tx_room) == 0)) {
		rte_errno = EAGAIN;
		return false;
	}
	return true;
}

/*
 * Functions with a last argument `recv` are for callers that know whether the op is a receive, as
 * leat_op_is_recv() tells. If they pass a constant, the compiler drops the code of the other case.
 */

/** Do the checks of leat_op_check() that concern the peer. */
static inline int
leat_op_check_peer(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	if (op->peer == LEAT_PEER_ANY && recv)
		return 0;
	if (unlikely(op->peer >= ep->nb_peers || ep->peers[op->peer].state != LEAT_PEER_UP))
		return recv && !ep->directed_recv ? -EOPNOTSUPP : -ENOTCONN;
	return unlikely(recv && !ep->directed_recv) ? -EOPNOTSUPP : 0;
}

/** Do the checks of leat_op_check() that concern size and memory. */
static inline int
leat_op_check_data(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	if (unlikely(!recv && op->size > ep->max_msg))
		return -EMSGSIZE;
	if (op->size > 0 && unlikely(op->buf == NULL || (ep->mr_local && op->mr == NULL)))
		return -EINVAL;
	if (unlikely(op->type >= LEAT_OP_FETCH_ADD && (op->size != 8 || (op->raddr & 7) != 0)))
		return -EINVAL;
	return 0;
}

/** Do the checks of leat_op_check() that concern the type. */
static inline int
leat_op_check_type(const struct leat_ep *ep, const struct leat_op *op)
{
	if (unlikely(op->type >= LEAT_OP_TYPES))
		return -EINVAL;
	return unlikely((ep->op_mask & LEAT_OP_BIT(op->type)) == 0) ? -EOPNOTSUPP : 0;
}

/** Do leat_op_check() when the caller knows whether the op is a receive. */
static inline int
leat_op_check_as(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	int ret = leat_op_check_type(ep, op);

	if (likely(ret == 0))
		ret = leat_op_check_peer(ep, op, recv);
	return likely(ret == 0) ? leat_op_check_data(ep, op, recv) : ret;
}

/**
 * Check an op.
 * @return 0, or the negative errno to pass to leat_op_fail()
 */
static inline int
leat_op_check(const struct leat_ep *ep, const struct leat_op *op)
{
	return leat_op_check_as(ep, op, leat_op_is_recv(op));
}

/** Put an op at the end of a queue; the caller counts it in nb_posted. */
static inline void
leat_queue_link(struct leat_queue *q, struct leat_op *op)
{
	if (q->head == NULL)
		q->head = op;
	else
		q->tail->q_next = op;
	q->tail = op;
}

/** Put an op at the end of a queue. */
static inline void
leat_queue_append(struct leat_queue *q, struct leat_op *op)
{
	leat_queue_link(q, op);
	LEAT_STAT_ADD(q->nb_posted, 1);
}

/** Do leat_op_start() for a send or one-sided op to a peer that leat_op_check_peer() accepted. */
static inline void
leat_op_start_send(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *op)
{
	op->state = LEAT_OP_INFLIGHT;
	op->oflags = 0;
	ep->tx_room--;
	if (likely(op->queue == NULL)) {
		leat_queue_append(&peer->sendq, op);
	} else {
		peer->nb_off_queue++;
		if (op->queue != LEAT_QUEUE_NONE)
			leat_queue_append(op->queue, op);
	}
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_start(ep, op);
}

/** Do leat_op_start() when the caller knows whether the op is a receive. */
static inline void
leat_op_start_as(struct leat_ep *ep, struct leat_op *op, bool recv)
{
	struct leat_peer *peer = op->peer < ep->nb_peers ? &ep->peers[op->peer] : NULL;
	struct leat_queue *q = op->queue;

	op->state = LEAT_OP_INFLIGHT;
	op->oflags = 0;
	if (recv) {
		ep->rx_room--;
		op->src = LEAT_PEER_ANY;
		if (q == NULL)
			q = &ep->recvq;
		if (peer != NULL)
			peer->nb_off_queue++;
	} else {
		ep->tx_room--;
		if (likely(q == NULL && peer != NULL)) {
			q = &peer->sendq;
		} else {
			if (peer != NULL)
				peer->nb_off_queue++;
			if (q == NULL)
				q = LEAT_QUEUE_NONE;
		}
	}
	if (likely(q != LEAT_QUEUE_NONE))
		leat_queue_append(q, op);
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_start(ep, op);
}

/** Accept an op: from now on it is the device's, and must be finished exactly once. */
static inline void
leat_op_start(struct leat_ep *ep, struct leat_op *op)
{
	leat_op_start_as(ep, op, leat_op_is_recv(op));
}

/** Hand a done op to the poll under way; if there is none, or no room in it, to the next poll. */
static inline void
leat_op_emit(struct leat_ep *ep, struct leat_op *op)
{
	if (likely(ep->out < ep->out_end)) {
		op->state = LEAT_OP_IDLE;
		*ep->out++ = op;
		return;
	}
	op->state = LEAT_OP_READY;
	op->q_next = NULL;
	if (ep->ready_head == NULL)
		ep->ready_head = op;
	else
		ep->ready_tail->q_next = op;
	ep->ready_tail = op;
	ep->nb_ready++;
}

/** Hold back an op that completed before an older op of its queue. */
static inline void
leat_queue_hold(struct leat_ep *ep, struct leat_queue *q, struct leat_op *op)
{
	op->state = LEAT_OP_HELD;
	op->held_since = (uint32_t)(leat_ep_now(ep) >> LEAT_QUEUE_HOLD_SHIFT);
	LEAT_STAT_ADD(q->held_total, 1);
	__atomic_store_n(&q->held_now, q->held_now + 1, __ATOMIC_RELAXED);
}

/**
 * Return the op after an op on its queue. The newest op's q_next has no meaning: post need not
 * clear it.
 */
static inline struct leat_op *
leat_queue_next(const struct leat_queue *q, const struct leat_op *op)
{
	return op == q->tail ? NULL : op->q_next;
}

/** Return a completed op that is the oldest of its queue, and the held ops that follow it. */
static inline void
leat_queue_release(struct leat_ep *ep, struct leat_queue *q, struct leat_op *op)
{
	struct leat_op *next = leat_queue_next(q, op);
	uint32_t held = q->held_now, n = 0;

	leat_op_emit(ep, op);
	/* While nothing is held, as with completions in order, don't touch the next op. */
	while (unlikely(n < held) && next != NULL && next->state == LEAT_OP_HELD) {
		uint32_t dt;

		op = next;
		next = leat_queue_next(q, op);
		if (next != NULL)
			__builtin_prefetch(next);
		dt = (uint32_t)(leat_ep_now(ep) >> LEAT_QUEUE_HOLD_SHIFT) - op->held_since;
		LEAT_STAT_ADD(q->held_time, dt);
		if (unlikely(dt > q->held_max))
			__atomic_store_n(&q->held_max, dt, __ATOMIC_RELAXED);
		leat_op_emit(ep, op);
		n++;
	}
	q->head = next;
	LEAT_STAT_ADD(q->nb_returned, n + 1);
	if (n > 0)
		__atomic_store_n(&q->held_now, held - n, __ATOMIC_RELAXED);
}

/** Do leat_op_finish() when the caller knows whether the op is a receive. */
static inline void
leat_op_finish_as(struct leat_ep *ep, struct leat_op *op, int status, uint64_t len, bool recv)
{
	struct leat_peer *peer = op->peer < ep->nb_peers ? &ep->peers[op->peer] : NULL;
	struct leat_queue *q = op->queue;

	/* As in leat_op_start(): an op's input does not change while it is in flight. */
	if (recv) {
		ep->rx_room++;
		if (q == NULL)
			q = &ep->recvq;
		if (peer != NULL)
			peer->nb_off_queue--;
	} else {
		ep->tx_room++;
		if (likely(q == NULL && peer != NULL)) {
			q = &peer->sendq;
		} else {
			if (peer != NULL)
				peer->nb_off_queue--;
			if (q == NULL)
				q = LEAT_QUEUE_NONE;
		}
	}
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_stop(ep, op);
	if (unlikely(status != 0)) {
		if (op->state == LEAT_OP_EXPIRED)
			status = -ETIMEDOUT;
		leat_op_count_failed(ep, peer, status);
	} else if (recv || op->type >= LEAT_OP_READ) {
		LEAT_STAT_ADD(ep->stats.rx_bytes, len);
	} else {
		LEAT_STAT_ADD(ep->stats.tx_bytes, len);
	}
	op->status = status;
	op->len = len;
	if (unlikely(q == LEAT_QUEUE_NONE))
		leat_op_emit(ep, op);
	else if (likely(q->head == op))
		leat_queue_release(ep, q, op);
	else
		leat_queue_hold(ep, q, op);
}

/**
 * Finish an op: the device is done with it and will not touch op or buffer again.
 * @param status 0 or a negative errno as in leat_op.status
 * @param len bytes moved
 */
static inline void
leat_op_finish(struct leat_ep *ep, struct leat_op *op, int status, uint64_t len)
{
	leat_op_finish_as(ep, op, status, len, leat_op_is_recv(op));
}

/** Accept an op that failed leat_op_check(), and finish it at once. Drivers' post calls it. */
static inline void
leat_op_fail(struct leat_ep *ep, struct leat_op *op, int status)
{
	leat_op_start(ep, op);
	leat_op_finish(ep, op, status, 0);
}

/** Count the accepted and the refused ops at the end of each post. @return accepted */
static inline uint16_t
leat_ep_post_end(struct leat_ep *ep, uint16_t accepted, uint16_t n)
{
	LEAT_STAT_ADD(ep->stats.posted, accepted);
	if (unlikely(accepted < n))
		LEAT_STAT_ADD(ep->stats.refused, (uint64_t)(n - accepted));
	return accepted;
}

#ifdef __cplusplus
}
#endif

#endif /* LEAT_ORDER_H */
