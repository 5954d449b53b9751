/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ORDER_FAST_H
#define LEAT_ORDER_FAST_H

/**
 * @file
 * For drivers: runs of ops through the ordering layer. What a function here does to op, queue and
 * endpoint is what those of leat_order.h do, op by op; but queue and endpoint are written once per
 * run. Whatever is out of the ordinary ends a run, and goes the general way.
 *
 * Thread rules: everything on the endpoint's own thread.
 */

#include "leat_order.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * For devices that complete in order: leat_op_finish() with status 0 and full length of ops that
 * were sent to one peer, ring[from & mask] the oldest. It does at once for all of them what endpoint
 * and queue have to be told, and ends before an op that needs more than that: on a queue of the
 * caller's, with a deadline, not the oldest of its queue, or without room in the output of poll.
 * @return how many of the n were finished; the next one is leat_op_finish()'s
 */
static inline uint32_t
leat_op_finish_sent(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *const *ring,
		    uint32_t mask, uint32_t from, uint32_t n)
{
	struct leat_op **out = ep->out, **end = ep->out_end;
	uint64_t tx_bytes = 0, rx_bytes = 0;
	struct leat_queue *q = &peer->sendq;
	struct leat_op *head = q->head;
	uint32_t i;

	if (unlikely(q->held_now != 0))
		return 0;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ring[(from + i) & mask];

		if (unlikely(op != head || op->queue != NULL || out >= end ||
			     (op->flags & LEAT_OP_F_DEADLINE) != 0))
			break;
		head = leat_queue_next(q, op);
		if (unlikely(op->type >= LEAT_OP_READ))
			rx_bytes += op->size;
		else
			tx_bytes += op->size;
		op->status = 0;
		op->len = op->size;
		op->state = LEAT_OP_IDLE;
		*out++ = op;
	}
	q->head = head;
	ep->out = out;
	ep->tx_room += i;
	LEAT_STAT_ADD(q->nb_returned, i);
	LEAT_STAT_ADD(ep->stats.tx_bytes, tx_bytes);
	if (unlikely(rx_bytes > 0))
		LEAT_STAT_ADD(ep->stats.rx_bytes, rx_bytes);
	return i;
}

#ifdef __cplusplus
}
#endif

#endif /* LEAT_ORDER_FAST_H */
