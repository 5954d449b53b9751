/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_FAST_H
#define RING_FAST_H

/*
 * Fast paths for runs of the commonest ops: post small SENDs to one peer, post RECVs for any peer,
 * and receive small messages while each matches the oldest RECV. A message moves one cache line
 * between the cores; most of the remaining time goes to the bookkeeping of ops, for which these
 * paths use leat_order_fast.h. ring_shared.h explains the edges, such as PUBLISH and FREE. A plain
 * op is one for which leat_op_is_plain() is true: it has no flags and uses its default queue. All
 * other ops and messages go the general way: through the slower paths of ring_tx.c and ring_rx.c.
 */

#include <rte_prefetch.h>

#include "leat_order_fast.h"

#include "ring_mark.h"
#include "ring_match.h"

/* ---- where the next message goes ---- */

/*
 * A place is the index of a slot. The producer fills slots place by place. But every RING_LAP
 * slots, if all earlier messages have been consumed, it goes back to place 0. So a conversation of
 * few messages uses few cache lines, which stay in the first-level caches; each exchange would take
 * longer if it went through all slots. Therefore each message names the place of the next one, and
 * the producer records for each place the number of the message that it last put there, to know
 * which places are free.
 *
 *     place    0 1 2 3 ... 15 16 ...    message n, at tx.place, names the place of n + 1: tx.next
 *     message  16 17       15
 *              `--<--------'
 *
 * A slot's head holds only the low 16 bits of its message's number. When the producer has skipped a
 * place for many messages, the old head there can have the same 16 bits as the message that will be
 * put there next, and the consumer would take the old message for the new one. In this case the
 * producer replaces the number in the old head by the number before the expected one. It does so
 * before a message names the place to the consumer. (0 would not be safe: it is the number in the
 * head of every 65536th message.)
 */
#define RING_LAP 16
static_assert(RING_DEPTH_MIN >= RING_LAP, "place 0 is not the next one");

static inline bool
ring_tx_free(const struct ring_link *link, uint32_t place)
{
	return (int64_t)(link->tx_nr[place] - link->tx_seen) < 0;
}

/*
 * Choose a place other than `next`, which is not free. Either the ring is full, or `next` holds a
 * message that was not yet consumed when the producer last went back to place 0. There are at most
 * two such messages, in adjacent places: skip them.
 * @return the place, or `next` if no other place is free
 */
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

/*
 * Move the cursor from a message that was filled in to the following message, and choose the place
 * that the following message will name as the next.
 */
static __rte_always_inline void
ring_tx_advance(struct ring_link *link, struct ring_cursor *c)
{
	uint32_t place = c->next, next = (place + 1) & link->tx_mask;
	uint64_t nr = c->nr;

	link->tx_nr[c->place] = nr;
	c->nr = nr + 1;
	c->place = place;
	c->slot = &link->tx_slots[place];
	if (unlikely(place % RING_LAP == RING_LAP - 1) && link->tx_seen >= nr)
		next = 0;
	if (unlikely(!ring_tx_free(link, next)))
		next = ring_tx_over(link, next);
	if (unlikely((uint16_t)(nr + 2 - link->tx_nr[next]) == 0))
		__atomic_store_n(&link->tx_slots[next].head, (uint16_t)(nr + 2), __ATOMIC_RELAXED);
	c->next = next;
}

/*
 * Load dir.consumed anew, as an acquire: edge FREE, pairs with ring_rx_publish().
 * @return true: the place is free now
 */
bool ring_tx_refresh(struct ring_link *link, uint32_t place);

static inline bool
ring_tx_room(struct ring_link *link, uint32_t place)
{
	return likely(ring_tx_free(link, place)) || ring_tx_refresh(link, place);
}

/* Fill in the slot at the cursor, except head and payload. @return the value for the head */
static __rte_always_inline uint64_t
ring_tx_fill(struct ring_link *link, const struct ring_cursor *c, uint32_t type, uint32_t flags,
	     uint64_t len)
{
	c->slot->credit = (uint32_t)link->rx_head;
	c->slot->next = (uint16_t)c->next;
	return ring_head(c->nr, type, flags, len);
}

/* Publish a slot by storing its head: edge PUBLISH, pairs with the loads of slot.head. */
static __rte_always_inline void
ring_tx_store(struct ring_slot *slot, uint64_t head)
{
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
}

/* Fill in the rest of link->tx.slot, which has its payload; publish it, advance the cursor. */
static __rte_always_inline void
ring_tx_publish(struct ring_link *link, uint32_t type, uint32_t flags, uint64_t len)
{
	ring_tx_store(link->tx.slot, ring_tx_fill(link, &link->tx, type, flags, len));
	ring_tx_advance(link, &link->tx);
}

/*
 * Request the cache lines of a slot, which will be written soon, by storing to them. The slot is
 * free, so its content is not read. The core's store buffer holds the stores of few messages and
 * retires them in order, but requests the lines of all stores in it at the same time. So with one
 * store per line first, close together, the lines have arrived by the time the payloads are
 * written. (A prefetch for writing does nothing for a line of which the other core has a copy, on
 * the processors measured.)
 */
static __rte_always_inline void
ring_tx_touch_slot(struct ring_slot *slot, bool second)
{
	*(volatile uint32_t *)&slot->credit = 0;
	if (second)
		*(volatile uint64_t *)&slot->w[RING_WORDS - 1] = 0;
}

#define RING_TOUCH 32 /* slots touched at a time: 64 stores, about a full store buffer */

static __rte_always_inline void
ring_tx_touch(struct ring_link *link, uint32_t n, bool second)
{
	uint32_t i, place = link->tx.place;

	if (n > RING_TOUCH)
		n = RING_TOUCH;
	for (i = 0; i < n && ring_tx_free(link, place); i++) {
		ring_tx_touch_slot(&link->tx_slots[place], second);
		place = (place + 1) & link->tx_mask;
	}
}

/* Apply a message's credit: the value of dir.consumed when the peer sent it (edge FREE). */
static inline void
ring_credit(struct ring_link *link, uint32_t credit)
{
	int32_t more = (int32_t)(credit - (uint32_t)link->tx_seen);

	if (more > 0)
		link->tx_seen += (uint32_t)more;
}

/* ---- where the next message's bytes go, if they are not in its slot ---- */

/*
 * Allocate room in the buffer for len bytes of the message at the cursor, whose slot is free.
 * @return NULL: there is no room
 */
static __rte_always_inline void *
ring_tx_buf(struct ring_link *link, const struct ring_cursor *c, uint32_t len)
{
	struct ring_buf *b = &link->buf;
	void *buf;

	if (unlikely(b->lap >= RING_BUF_LAP)) {
		b->lap = 0;
		(void)ring_tx_refresh(link, c->place);
	}
	buf = ring_buf_take(b, link->tx_seen, c->nr, len);
	if (likely(buf != NULL))
		return buf;
	(void)ring_tx_refresh(link, c->place);
	return ring_buf_take(b, link->tx_seen, c->nr, len);
}

/* Return how a slot names bytes in the buffer: by offset if RING_FOREIGN, otherwise by address. */
static __rte_always_inline uint64_t
ring_tx_buf_at(const struct ring_link *link, const void *buf)
{
	return RING_FOREIGN ? (uint64_t)((const char *)buf - link->buf.mem) : (uintptr_t)buf;
}

/* ---- runs ---- */

static __rte_always_inline bool
ring_send_plain(const struct leat_op *op, uint16_t peer, uint32_t inline_max)
{
	return leat_op_is_plain(op, LEAT_OP_SEND) && op->peer == peer && op->size <= inline_max;
}

static __rte_always_inline bool
ring_recv_plain(const struct leat_op *op)
{
	return leat_op_is_plain(op, LEAT_OP_RECV) && op->peer == LEAT_PEER_ANY;
}

/* Count the ops at the front that are for the peer of ops[0]. */
static __rte_always_inline uint16_t
ring_same_peer(struct leat_op *const *ops, uint16_t n)
{
	uint16_t i;

	for (i = 1; i < n && ops[i]->peer == ops[0]->peer; i++)
		;
	return i;
}

/* Copy a SEND into the slot at the cursor. @return the value for the slot's head */
static __rte_always_inline uint64_t
ring_send_fill(struct ring_link *link, const struct ring_cursor *c, const struct leat_op *op)
{
	uint64_t len = op->size;

	ring_copy_small(&c->slot->w[0], op->buf, len);
	return ring_tx_fill(link, c, LEAT_OP_SEND, RING_F_INLINE, len);
}

/*
 * Maximum number of slots in a group. Several SENDs are posted in groups, and the first slot of a
 * group is published last. The consumer looks only at that first slot, so the lines of the other
 * slots stay in the producer's cache while it writes them. Then the consumer fetches the lines of
 * the whole group at once, because the first slot says how many slots follow. If the producer
 * published each slot at once, the consumer would fetch their lines one after the other, each just
 * after it was written.
 */
#define RING_GROUP 8
static_assert(RING_GROUP - 1 <= RING_MORE_MAX, "fits into the head");

static __rte_always_inline uint16_t
ring_send_groups(struct ring_ep *rep, struct ring_link *link, struct leat_op **ops, uint16_t n,
		 uint64_t *bytes)
{
	struct leat_op *op = ops[0], *last = NULL;
	struct ring_cursor c = link->tx; /* a local copy, kept in registers */
	struct ring_slot *first = NULL;
	uint64_t head, first_head = 0, sum = 0;
	uint16_t i, id = op->peer;
	uint32_t more = 0;

	/*
	 * Count the ops for this peer, so that only lines that will be written are requested. Most
	 * bursts are for one peer, so look at the last op first.
	 */
	if (unlikely(ops[n - 1]->peer != id))
		n = ring_same_peer(ops, n);
	ring_tx_touch(link, n, op->size > RING_FIRST_LINE);
	for (i = 0; i < n; i++) {
		struct ring_slot *slot = c.slot;

		op = ops[i];
		if (unlikely(!ring_send_plain(op, id, rep->inline_max) ||
			     !ring_tx_room(link, c.place)))
			break;
		head = ring_send_fill(link, &c, op);
		ring_tx_advance(link, &c);
		if (first == NULL) {
			first = slot;
			first_head = head;
			more = 0;
		} else {
			ring_tx_store(slot, head);
			if (++more == RING_GROUP - 1) {
				ring_tx_store(first, first_head | ring_head_more(more));
				first = NULL;
			}
		}
		sum += op->size;
		leat_op_run_sent(op, last);
		last = op;
	}
	if (first != NULL)
		ring_tx_store(first, first_head | ring_head_more(more));
	if (unlikely(i == 0))
		return 0;
	link->tx = c;
	*bytes = sum;
	return i;
}

/*
 * Find the link on which plain SENDs to op's peer may be published at once. Read only one line of
 * struct leat_peer, the one with sendq, because link->may_send says whether the peer is up.
 * @return NULL: post the general way
 */
static __rte_always_inline struct ring_link *
ring_send_link(struct leat_ep *ep, const struct ring_ep *rep, const struct leat_op *op)
{
	struct ring_link *link = &rep->table[op->peer];

	/* An older op on the send queue would hold back the completions of these SENDs. */
	if (unlikely(op->peer >= ep->nb_peers || !link->may_send ||
		     ep->peers[op->peer].sendq.head != NULL))
		return NULL;
	return link;
}

/*
 * Account for n published SENDs. The link's mark is set at the end of the post, together with the
 * marks of other links.
 */
static __rte_always_inline void
ring_send_end(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct leat_op **ops,
	      uint16_t n, uint64_t bytes)
{
	leat_op_run_sent_end(ep, &ep->peers[ops[0]->peer], ops[0], ops[n - 1], n, bytes);
	if (unlikely(link->board != NULL))
		ring_marks_add(rep, link);
}

static __rte_always_inline void
ring_send_one_end(struct leat_ep *ep, const struct ring_link *link, struct leat_op *op)
{
	leat_op_run_sent_end(ep, &ep->peers[op->peer], op, op, 1, op->size);
	ring_link_mark(link);
}

/* Post one SEND. @return false: post it the general way */
static __rte_always_inline bool
ring_send_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_link *link = ring_send_link(ep, rep, op);

	if (unlikely(link == NULL || !ring_send_plain(op, op->peer, rep->inline_max)))
		return false;
	if (unlikely(!ring_tx_free(link, link->tx.place)))
		return false;
	ring_tx_store(link->tx.slot, ring_send_fill(link, &link->tx, op));
	ring_tx_advance(link, &link->tx);
	leat_op_run_sent(op, NULL);
	ring_send_one_end(ep, link, op);
	return true;
}

/* Post plain SENDs from the front of ops. @return number posted */
static __rte_always_inline uint16_t
ring_send_run(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	struct ring_link *link = ring_send_link(ep, rep, ops[0]);
	uint64_t bytes = 0;

	if (unlikely(link == NULL))
		return 0;
	n = ring_send_groups(rep, link, ops, n, &bytes);
	if (likely(n > 0))
		ring_send_end(ep, rep, link, ops, n, bytes);
	return n;
}

/* Wake the peers of posted ops, if they sleep. */
static __rte_always_inline void
ring_wake_peers(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	const struct ring_ep *rep = ep->drv;
	uint16_t i, last = LEAT_PEER_ANY;

	for (i = 0; i < n; i++) {
		uint16_t id = ops[i]->peer;

		if (id == last || id >= ep->nb_peers || leat_op_is_recv(ops[i]))
			continue;
		last = id;
		ring_link_wake(&rep->table[id]);
	}
}

/* Can RECVs for any peer be added to the FIFO without a search for unexpected messages? */
static __rte_always_inline bool
ring_recv_simple(const struct ring_ep *rep)
{
	return likely((rep->nb_unexpected | rep->recv_gaps) == 0 && rep->can_recv);
}

static __rte_always_inline void
ring_recv_add(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_recv *r = &rep->recvs[rep->recv_tail++ & rep->recv_mask];

	r->op = op;
	r->seq = rep->recv_seq++;
	leat_op_run_recv(ep, op);
}

/* Post one RECV. @return false: post it the general way */
static __rte_always_inline bool
ring_recv_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	if (unlikely(!ring_recv_simple(rep) || ep->rx_room == 0 || !ring_recv_plain(op)))
		return false;
	ring_recv_add(ep, rep, op);
	leat_op_run_recv_end(ep, 1);
	return true;
}

/* Post RECVs for any peer, on the endpoint's queue, from the front of ops. @return number posted */
static __rte_always_inline uint16_t
ring_recv_run(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	if (unlikely(!ring_recv_simple(rep)))
		return 0;
	if (unlikely(n > ep->rx_room))
		n = (uint16_t)ep->rx_room;
	for (i = 0; i < n && likely(ring_recv_plain(ops[i])); i++)
		ring_recv_add(ep, rep, ops[i]);
	leat_op_run_recv_end(ep, i);
	return i;
}

/* Copy a datagram to dst from src in the producer's buffer. */
static __rte_always_inline void
ring_datagram_copy(struct ring_ep *rep, void *dst, const void *src, uint64_t len)
{
	ring_copy_large(dst, src, len);
	rep->copy_left -= (int64_t)len;
}

#define RING_PLAIN_SEND (RING_F_INLINE << 8 | LEAT_OP_SEND)

/*
 * Receive small SENDs, or datagrams of any size, from the front of a link's ring. Stop when the
 * oldest RECV can't take the next message, or when this poll has no room for another op. head: the
 * head of the first slot, which has arrived.
 * @return number of messages received
 */
static __rte_always_inline uint32_t
ring_rx_run(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head,
	    const bool datagram)
{
	const uint32_t any_size = datagram ? RING_F_INLINE << 8 : 0;
	uint32_t recv = rep->recv_head, credit = 0, n;
	struct ring_slot *slot = link->rx_slot;
	struct leat_queue *q = &ep->recvq;
	struct leat_op **out = ep->out;
	uint64_t nr = link->rx_scan, bytes = 0;

	/*
	 * Leave the messages to the general path if messages or receives are out of order, if
	 * receives name this peer, or if datagrams may be too long.
	 */
	if (unlikely(link->rx_head != nr || link->recvs.head != NULL || rep->recv_gaps > 0 ||
		     q->held_now > 0 || (datagram && link->rx_long)))
		return 0;
	do {
		uint64_t len = RING_HEAD_LEN(head);
		struct leat_op *op;
		uint32_t i;

		/*
		 * Prefetch the other slots of the group, all at once. They are usually in the next
		 * places; otherwise the prefetch is wasted.
		 */
		for (i = 1; unlikely(i <= RING_HEAD_MORE(head)); i++) {
			rte_prefetch0(&slot[i]);
			if (len > RING_FIRST_LINE)
				rte_prefetch0(&slot[i].w[RING_FIRST_LINE / 8]);
		}
		if (unlikely((RING_HEAD_KIND(head) | any_size) != RING_PLAIN_SEND ||
			     recv == rep->recv_tail || out == ep->out_end))
			break;
		if (RING_FOREIGN && unlikely(len > RING_INLINE_MAX && ring_head_inline(head)))
			break;
		op = rep->recvs[recv & rep->recv_mask].op;
		if (op == NULL)
			__builtin_unreachable(); /* recv_gaps is 0: every entry has an op */
		if (unlikely(q->head != op || op->size < len || op->flags != 0))
			break;
		if (datagram && (RING_HEAD_FLAGS(head) & RING_F_INLINE) == 0) {
			const void *src = ring_rx_find(link, ring_payload_at(slot, head), len);

			/* The general path records the violation. */
			if (RING_FOREIGN && unlikely(src == NULL))
				break;
			ring_datagram_copy(rep, op->buf, src, len);
		} else {
			ring_copy_small(op->buf, &slot->w[0], len);
		}
		leat_op_run_received(q, op, link->id, len);
		*out++ = op;
		bytes += len;
		recv++;
		nr++;
		credit = slot->credit;
		slot = &link->rx_slots[ring_rx_place(link, slot->next)];
		/* edge PUBLISH: pairs with ring_tx_publish() */
		head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	} while (RING_HEAD_IS(head, nr) && (!datagram || rep->copy_left > 0));
	n = recv - rep->recv_head;
	if (unlikely(n == 0))
		return 0;
	link->rx_slot = slot;
	link->rx_scan = nr;
	link->rx_head = nr;
	ring_credit(link, credit);
	ring_rx_publish(link);
	rep->recv_head = recv;
	leat_op_run_received_end(ep, out, n, bytes);
	return n;
}

#endif /* RING_FAST_H */
