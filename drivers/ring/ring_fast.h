/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_FAST_H
#define RING_FAST_H

/*
 * Runs of the commonest ops: small SENDs to one peer, RECVs from any, and the slots of the one that meet the other. They
 * do what leat_op_check(), leat_op_start() and leat_op_finish() do, with the counters of a whole run in one go:
 * with one cache line moving between the cores per message, the bookkeeping is what the rest of the time goes to.
 * Whatever is out of the ordinary ends a run and goes the general way, which has the same outcome.
 */

#include "ring_match.h"

/* ---- where the next message goes ---- */

/*
 * Slots are filled in turn, place by place. But every RING_LAP slots, if what was sent before has been consumed, the
 * producer goes back to place 0: a conversation of few messages stays in few lines, which stay in the first-level
 * caches; taking turns through all of them costs a third more per exchange. So each message says where the next one
 * will be, and the producer keeps the number of the message that each place was filled with last, by which it knows
 * what is free.
 *
 *     place    0 1 2 3 ... 15 16 ...             message n, at tx_place, says tx_next: where n + 1 will be
 *     message  16 17       15
 *              `--<--------'
 *
 * A place may be passed over for long, and the number in its head has 16 bits only: where it could be taken for the
 * message to come, it is cleared before anybody is sent there.
 */
#define RING_LAP 16
static_assert(RING_DEPTH_MIN >= RING_LAP, "place 0 is not the next one");

static inline bool
ring_tx_free(const struct ring_link *link, uint32_t place)
{
	return (int64_t)(link->tx_nr[place] - link->tx_seen) < 0;
}

/* Full; or just a few old messages stand in the way that the others went around. */
static inline uint32_t
ring_tx_over(const struct ring_link *link, uint32_t next)
{
	uint32_t i, over;

	for (i = 1; i <= 2; i++) {
		over = (next + i) & link->tx_mask;
		if (ring_tx_free(link, over))
			return over;
	}
	return next;
}

/* After message tx_tail was published: on to the next one, and where the one after that will be. */
static __rte_always_inline void
ring_tx_advance(struct ring_link *link)
{
	uint64_t nr = link->tx_tail;
	uint32_t place = link->tx_next, next = (place + 1) & link->tx_mask;

	link->tx_nr[link->tx_place] = nr;
	link->tx_tail = nr + 1;
	link->tx_place = place;
	link->tx_slot = &link->tx_slots[place];
	if (unlikely(place % RING_LAP == RING_LAP - 1) && link->tx_seen >= nr)
		next = 0;
	if (unlikely(!ring_tx_free(link, next)))
		next = ring_tx_over(link, next);
	if (unlikely((uint16_t)(nr + 2 - link->tx_nr[next]) == 0))
		__atomic_store_n(&link->tx_slots[next].head, 0, __ATOMIC_RELAXED);
	link->tx_next = next;
}

/* FREE: pairs with ring_rx_publish(). @return true: there is room now */
bool ring_tx_refresh(struct ring_link *link);

static inline bool
ring_tx_room(struct ring_link *link)
{
	return likely(ring_tx_free(link, link->tx_place)) || ring_tx_refresh(link);
}

/* PUBLISH: pairs with the loads in ring_rx.c and ring_rx_run(). The slot is link->tx_slot. */
static __rte_always_inline void
ring_tx_publish(struct ring_link *link, struct ring_slot *slot, uint32_t type, uint32_t flags,
		uint64_t len)
{
	slot->credit = (uint32_t)link->rx_head;
	slot->next = (uint16_t)link->tx_next;
	__atomic_store_n(&slot->head, ring_head(link->tx_tail, type, flags, len), __ATOMIC_RELEASE);
	ring_tx_advance(link);
}

/* FREE, as it came along with a message. */
static inline void
ring_credit(struct ring_link *link, uint32_t credit)
{
	int32_t more = (int32_t)(credit - (uint32_t)link->tx_seen);

	if (more > 0)
		link->tx_seen += (uint32_t)more;
}

/* ---- runs ---- */

/* An idle SEND without flags, to that peer, on its queue? type, flags and state are 0 then. */
static_assert(LEAT_OP_SEND == 0 && LEAT_OP_IDLE == 0, "see ring_send_plain()");

static __rte_always_inline bool
ring_send_plain(const struct leat_op *op, uint16_t peer, uint32_t inline_max)
{
	return (op->type | op->flags | op->state) == 0 && op->peer == peer && op->queue == NULL &&
	       op->size <= inline_max && (op->buf != NULL || op->size == 0);
}

/* Posts SENDs from the front of ops. @return how many */
static __rte_always_inline uint16_t
ring_send_run(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	uint16_t i, id = ops[0]->peer;
	struct leat_peer *peer = &ep->peers[id];
	struct leat_op *last = NULL;
	struct ring_link *link;
	uint64_t bytes = 0;

	/* An older op on the queue would hold these back. */
	if (unlikely(id >= ep->nb_peers || peer->state != LEAT_PEER_UP ||
		     peer->sendq.head != NULL || !rep->can_send))
		return 0;
	link = peer->drv;
	for (i = 0; i < n; i++) {
		struct ring_slot *slot = link->tx_slot;
		struct leat_op *op = ops[i];
		uint64_t len = op->size;

		if (unlikely(!ring_send_plain(op, id, rep->inline_max) || !ring_tx_room(link)))
			break;
		ring_copy_small(&slot->w[0], op->buf, len);
		ring_tx_publish(link, slot, LEAT_OP_SEND, RING_F_INLINE, len);
		bytes += len;
		op->oflags = 0;
		op->state = LEAT_OP_READY;
		op->status = 0;
		op->len = len;
		if (last != NULL)
			last->q_next = op;
		last = op;
	}
	if (unlikely(i == 0))
		return 0;
	last->q_next = NULL;
	if (ep->ready_head == NULL)
		ep->ready_head = ops[0];
	else
		ep->ready_tail->q_next = ops[0];
	ep->ready_tail = last;
	ep->nb_ready += i;
	LEAT_STAT_ADD(ep->stats.tx_bytes, bytes);
	LEAT_STAT_ADD(peer->sendq.nb_posted, i);
	LEAT_STAT_ADD(peer->sendq.nb_returned, i);
	if (unlikely(rep->nb_links > RING_HOT && link->hot == 0))
		ring_link_heat(rep, link);
	return i;
}

/* Posts RECVs for any peer, on the endpoint's queue, from the front of ops. @return how many */
static __rte_always_inline uint16_t
ring_recv_run(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	struct leat_queue *q = &ep->recvq;
	uint32_t tail = rep->recv_tail;
	uint16_t i;

	if (unlikely(rep->nb_unexpected > 0 || rep->recv_gaps > 0 || !rep->can_recv))
		return 0;
	if (unlikely(n > ep->rx_room))
		n = (uint16_t)ep->rx_room;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];
		struct ring_recv *r = &rep->recvs[tail & rep->recv_mask];

		if (unlikely(op->type != LEAT_OP_RECV || (op->flags | op->state) != 0 ||
			     op->peer != LEAT_PEER_ANY || op->queue != NULL ||
			     (op->buf == NULL && op->size > 0)))
			break;
		r->op = op;
		r->seq = rep->recv_seq++;
		tail++;
		op->oflags = 0;
		op->state = LEAT_OP_INFLIGHT;
		op->src = LEAT_PEER_ANY;
		if (q->head == NULL)
			q->head = op;
		else
			q->tail->q_next = op;
		q->tail = op;
	}
	rep->recv_tail = tail;
	ep->rx_room -= i;
	LEAT_STAT_ADD(q->nb_posted, i);
	return i;
}

#define RING_PLAIN_SEND (RING_F_INLINE << 8 | LEAT_OP_SEND)

/*
 * Takes small SENDs from the front of a link's ring, as long as each meets the oldest RECV and there is room for it in
 * this poll. head is that of the first, which is there. @return how many
 */
static __rte_always_inline uint32_t
ring_rx_run(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	uint32_t recv = rep->recv_head, credit = 0, n;
	struct ring_slot *slot = link->rx_slot;
	struct leat_queue *q = &ep->recvq;
	struct leat_op **out = ep->out;
	uint64_t nr = link->rx_scan, bytes = 0;

	/* Something is out of order, or receives name this peer. */
	if (unlikely(link->rx_head != nr || link->recvs[RING_PLAIN].head != NULL ||
		     rep->recv_gaps > 0 || q->held_now > 0))
		return 0;
	do {
		uint64_t len = RING_HEAD_LEN(head);
		struct leat_op *op;

		if (unlikely((uint16_t)(head >> 16) != RING_PLAIN_SEND || recv == rep->recv_tail ||
			     out == ep->out_end))
			break;
		op = rep->recvs[recv & rep->recv_mask].op;
		if (unlikely(q->head != op || op->size < len || op->flags != 0))
			break;
		ring_copy_small(op->buf, &slot->w[0], len);
		op->state = LEAT_OP_IDLE;
		op->status = 0;
		op->src = link->id;
		op->len = len;
		q->head = leat_queue_next(q, op);
		*out++ = op;
		bytes += len;
		recv++;
		nr++;
		credit = slot->credit;
		slot = &link->rx_slots[slot->next];
		/* PUBLISH: pairs with ring_tx_publish() */
		head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	} while (RING_HEAD_IS(head, nr));
	n = recv - rep->recv_head;
	if (unlikely(n == 0))
		return 0;
	link->rx_slot = slot;
	link->rx_scan = nr;
	link->rx_head = nr;
	ring_credit(link, credit);
	ring_rx_publish(link);
	rep->recv_head = recv;
	ep->out = out;
	ep->rx_room += n;
	LEAT_STAT_ADD(ep->stats.rx_bytes, bytes);
	LEAT_STAT_ADD(q->nb_returned, n);
	return n;
}

#endif /* RING_FAST_H */
