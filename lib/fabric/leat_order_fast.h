/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ORDER_FAST_H
#define LEAT_ORDER_FAST_H

/**
 * @file
 * For drivers: runs of ops through the ordering layer. A run does to ops, queue and endpoint what
 * leat_op_check(), leat_op_start() and leat_op_finish() do op by op; but it writes queue and
 * endpoint once per run. An op that needs further steps ends the run, and goes through those calls,
 * with the same outcome.
 *
 * Two kinds of drivers have runs. The driver of a NIC that completes in order finishes its sends
 * with leat_op_finish_sent(). A driver that moves data through shared memory copies a small send
 * when it is posted, and copies a message straight into the receive that it meets. Its runs take
 * plain ops only (leat_op_is_plain()), and each is a loop and a call that ends it:
 *
 *     post, sends to one peer          post, receives of any peer     poll, from one peer
 *       nothing is on its sendq          n <= ep->rx_room               recvq holds nothing back
 *       for each: copy,                  for each: keep the op,         for each: copy,
 *         leat_op_run_sent()               leat_op_run_recv()             leat_op_run_received()
 *       leat_op_run_sent_end()           leat_op_run_recv_end()         leat_op_run_received_end()
 *
 * Thread rules: everything on the endpoint's own thread.
 */

#include <assert.h>

#include "leat_order.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Do leat_op_finish() with status 0 and full length for n ops that were sent to one peer, in the
 * order of sending; the first is ring[from & mask]. For devices that complete in order: the ring
 * holds all sends to the peer that are with the device. Updates endpoint and queue once for all the
 * ops. Stops before an op that is not on the default queue, has a deadline, or finds no room in the
 * output of poll. While the send queue holds ops back, finishes none.
 * @return how many of the n ops were finished; the caller finishes the next one with
 *   leat_op_finish()
 */
static inline uint32_t
leat_op_finish_sent(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *const *ring,
		    uint32_t mask, uint32_t from, uint32_t n)
{
	uint32_t i, end = from + RTE_MIN(n, (uint32_t)leat_ep_room(ep));
	uint64_t bytes = 0, rx_bytes = 0;
	struct leat_queue *q = &peer->sendq;
	struct leat_op **out = ep->out;

	if (unlikely(q->held_now != 0))
		return 0;
	for (i = from; i != end; i++) {
		struct leat_op *op = ring[i & mask];

		/* As nothing is held, an op on the send queue is its oldest. */
		if (unlikely(op->queue != NULL || (op->flags & LEAT_OP_F_DEADLINE) != 0))
			break;
		bytes += op->size;
		if (unlikely(op->type >= LEAT_OP_READ))
			rx_bytes += op->size;
		op->status = 0;
		op->len = op->size;
		op->state = LEAT_OP_IDLE;
		*out++ = op;
	}
	n = i - from;
	if (unlikely(n == 0))
		return 0;
	q->head = leat_queue_next(q, ring[(i - 1) & mask]);
	ep->out = out;
	ep->tx_room += n;
	LEAT_STAT_ADD(q->nb_returned, n);
	LEAT_STAT_ADD(ep->stats.tx_bytes, bytes - rx_bytes);
	if (unlikely(rx_bytes > 0))
		LEAT_STAT_ADD(ep->stats.rx_bytes, rx_bytes);
	return n;
}

/**
 * Check whether an op is idle, of this type, without flags, on its default queue, and with a
 * buffer. The fields are loaded byte by byte: poll stored the state just before, and the core can't
 * forward that store to a wider load, which would wait until the store has left the store buffer.
 */
static __rte_always_inline bool
leat_op_is_plain(const struct leat_op *op, uint8_t type)
{
	return op->type == type && (op->flags | op->state) == 0 && op->queue == NULL &&
	       (op->buf != NULL || op->size == 0);
}

/**
 * Start and finish a plain send whose data the driver copied; poll returns it as successful.
 * @param last the op before it in this run, or NULL
 */
static __rte_always_inline void
leat_op_run_sent(struct leat_op *op, struct leat_op *last)
{
	op->oflags = 0;
	op->state = LEAT_OP_READY;
	op->status = 0;
	op->len = op->size;
	if (last != NULL)
		last->q_next = op;
}

/**
 * End a run of n > 0 sends, from first to last, to a peer whose send queue is empty: the next poll
 * returns them.
 * @param bytes sum of their sizes
 */
static __rte_always_inline void
leat_op_run_sent_end(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *first,
		     struct leat_op *last, uint16_t n, uint64_t bytes)
{
	last->q_next = NULL;
	if (ep->ready_head == NULL)
		ep->ready_head = first;
	else
		ep->ready_tail->q_next = first;
	ep->ready_tail = last;
	ep->nb_ready += n;
	LEAT_STAT_ADD(ep->stats.tx_bytes, bytes);
	LEAT_STAT_ADD(peer->sendq.nb_posted, n);
	LEAT_STAT_ADD(peer->sendq.nb_returned, n);
}

/** Start a plain receive of any peer. The caller made sure that there is room for it. */
static __rte_always_inline void
leat_op_run_recv(struct leat_ep *ep, struct leat_op *op)
{
	op->oflags = 0;
	op->state = LEAT_OP_INFLIGHT;
	op->src = LEAT_PEER_ANY;
	leat_queue_link(&ep->recvq, op);
}

/** End a run of n receives. */
static __rte_always_inline void
leat_op_run_recv_end(struct leat_ep *ep, uint16_t n)
{
	ep->rx_room -= n;
	LEAT_STAT_ADD(ep->recvq.nb_posted, n);
}

/**
 * Finish the oldest op of a receive queue that holds nothing back. The caller puts it into the
 * output of poll, which has room.
 */
static __rte_always_inline void
leat_op_run_received(struct leat_queue *q, struct leat_op *op, uint16_t src, uint64_t len)
{
	op->state = LEAT_OP_IDLE;
	op->status = 0;
	op->src = src;
	op->len = len;
	q->head = leat_queue_next(q, op);
}

/**
 * End a run of n receives.
 * @param out the entry of poll's output after the last of them
 * @param bytes sum of their lengths
 */
static __rte_always_inline void
leat_op_run_received_end(struct leat_ep *ep, struct leat_op **out, uint32_t n, uint64_t bytes)
{
	ep->out = out;
	ep->rx_room += n;
	LEAT_STAT_ADD(ep->stats.rx_bytes, bytes);
	LEAT_STAT_ADD(ep->recvq.nb_returned, n);
}

#ifndef __cplusplus
static_assert(LEAT_OP_IDLE == 0, "see leat_op_is_plain()");
#endif

#ifdef __cplusplus
}
#endif

#endif /* LEAT_ORDER_FAST_H */
