/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MATCH_H
#define RING_MATCH_H

/* The inline part of matching, for polls. The rest, and how matching works, is in ring_match.c. */

#include "ring_pvt.h"

void ring_oplist_del(struct ring_oplist *list, struct leat_op *op);
/* The slow path of ring_find_recv(): a RECV names this peer, or the FIFO is empty. */
struct leat_op *ring_find_recv_slow(struct ring_ep *rep, struct ring_link *link);
/* Find the receive for a message of this peer with this tag; leave it posted. @return NULL: none */
struct leat_op *ring_find_trecv(struct ring_ep *rep, struct ring_link *link, uint64_t tag);
/* Add an unexpected message to the lists of notes; the message stays in its slot. */
void ring_note_add(struct ring_ep *rep, struct ring_link *link, const struct ring_slot *slot,
		   uint64_t nr, int kind, uint64_t tag);

void ring_fifo_trim(struct ring_ep *rep);

/* Find the receive for an untagged message of this peer; leave it posted. @return NULL: none */
static inline struct leat_op *
ring_find_recv(struct ring_ep *rep, struct ring_link *link)
{
	if (likely(link->recvs.head == NULL && rep->recv_head != rep->recv_tail))
		return rep->recvs[rep->recv_head & rep->recv_mask].op;
	return ring_find_recv_slow(rep, link);
}

/* Remove a receive, which ring_find_recv() found, from its list. */
static inline void
ring_take_recv(struct ring_ep *rep, struct ring_link *link, struct leat_op *op)
{
	if (likely(op->peer == LEAT_PEER_ANY)) {
		rep->recv_head++;
		if (unlikely(rep->recv_gaps > 0))
			ring_fifo_trim(rep);
	} else {
		ring_oplist_del(&link->recvs, op);
	}
}

static inline void
ring_take_trecv(struct ring_ep *rep, struct ring_link *link, struct leat_op *op)
{
	ring_oplist_del(op->peer == LEAT_PEER_ANY ? &rep->trecvs : &link->trecvs, op);
}

static inline bool
ring_tag_fits(const struct leat_op *op, uint64_t tag)
{
	return ((op->tag ^ tag) & ~op->ignore) == 0;
}

/* Return the place that a slot's field "next" names. A value out of range is masked into range. */
static inline uint32_t
ring_rx_place(const struct ring_link *link, uint16_t place)
{
	return RING_FOREIGN ? place & link->rx_mask : place;
}

/*
 * Find len bytes in the producer's buffer. at is their address, or with RING_FOREIGN their offset.
 * @return NULL: they are not all in the buffer, a violation, which is not recorded yet
 */
static inline const void *
ring_rx_find(const struct ring_link *link, uint64_t at, uint64_t len)
{
#if RING_FOREIGN
	return ring_moves_bytes(&link->moves, at, len);
#else
	RTE_SET_USED(link);
	RTE_SET_USED(len);
	return (const void *)(uintptr_t)at;
#endif
}

/* As ring_rx_find(), but record a violation. */
static inline const void *
ring_rx_bytes(struct ring_ep *rep, struct ring_link *link, uint64_t at, uint64_t len)
{
	const void *bytes = ring_rx_find(link, at, len);

	if (RING_FOREIGN && unlikely(bytes == NULL))
		ring_violation(rep, link, "a message's bytes are not in its buffer");
	return bytes;
}

/* Is this a valid head of a message? head is the caller's copy, which no peer can change. */
static inline bool
ring_head_sane(const struct ring_ep *rep, uint64_t head)
{
#if RING_FOREIGN
	const uint32_t flags = RING_HEAD_FLAGS(head), type = RING_HEAD_TYPE(head);
	const uint64_t len = RING_HEAD_LEN(head);

	if (len > RING_MAX_MSG || (ring_head_inline(head) && len > RING_INLINE_MAX))
		return false;
	if (type == LEAT_OP_SEND || type == LEAT_OP_TSEND)
		return rep->datagram ||
		       ((flags & RING_F_ACK) != 0) != ((flags & (RING_F_INLINE | RING_F_BUF)) != 0);
	return !rep->datagram && type >= LEAT_OP_WRITE && type < LEAT_OP_TYPES &&
	       (flags & RING_F_ACK) != 0;
#else
	RTE_SET_USED(rep);
	RTE_SET_USED(head);
	return true;
#endif
}

/*
 * Return the word of a slot where the payload or its address begins, after the immediate if there
 * is one.
 */
static inline const uint64_t *
ring_payload(const struct ring_slot *slot, uint64_t head)
{
	return &slot->w[(RING_HEAD_FLAGS(head) & RING_F_IMM) != 0 ? 1 : 0];
}

/* Read the address or offset of a payload, once: a foreign peer may change it meanwhile. */
static inline uint64_t
ring_payload_at(const struct ring_slot *slot, uint64_t head)
{
	return __atomic_load_n(ring_payload(slot, head), __ATOMIC_RELAXED);
}

#if RING_FOREIGN
/* Copy a message from the sender's buffer, which both sides map. @return as ring_fetch() */
static inline int
ring_fetch_shared(struct leat_ep *ep, struct ring_link *link, const struct ring_slot *slot,
		  uint64_t head, uint64_t nr, const struct leat_op *op)
{
	struct ring_ep *rep = ep->drv;
	const uint64_t len = RING_HEAD_LEN(head);
	const void *src = ring_share_bytes(rep, link, ring_payload_at(slot, head), len);

	if (unlikely(src == NULL))
		return -ECONNRESET;
	ring_copy_large(op->buf, src, len);
	rep->copy_left -= (int64_t)len;
	if (unlikely(!ring_share_still(link)))
		return -ECONNRESET;
	ring_ack(link, nr, 0, len);
	return 0;
}

/*
 * Fetch a payload that does not lie in its slot: copy it out of the connection's buffer or of
 * shared memory, or ask the sender for it in chunks.
 * @return 0: copied, or too long for the receive; RING_GO: the bytes come later; -ECONNRESET: the
 * sender broke the protocol, or takes the message back because it closes
 */
static inline int
ring_fetch(struct leat_ep *ep, struct ring_link *link, const struct ring_slot *slot, uint64_t head,
	   uint64_t nr, struct leat_op *op)
{
	struct ring_ep *rep = ep->drv;
	uint64_t len = RING_HEAD_LEN(head);
	const void *src;

	if ((RING_HEAD_FLAGS(head) & RING_F_BUF) == 0) {
		if (len > op->size) {
			ring_ack(link, nr, 0, len);
			return 0;
		}
		if ((RING_HEAD_FLAGS(head) & RING_F_SHARED) != 0)
			return ring_fetch_shared(ep, link, slot, head, nr, op);
		ring_move_recv(ep, link, nr, len, op);
		return RING_GO;
	}
	if (len > op->size)
		return 0;
	src = ring_rx_bytes(rep, link, ring_payload_at(slot, head), len);
	if (unlikely(src == NULL))
		return -ECONNRESET;
	ring_copy_large(op->buf, src, len);
	rep->copy_left -= (int64_t)len;
	return 0;
}
#else
/* Copy a large message, which was claimed, from the sender's buffer, and ack it. @return 0 */
static inline int
ring_fetch(struct leat_ep *ep, struct ring_link *link, const struct ring_slot *slot, uint64_t head,
	   uint64_t nr, const struct leat_op *op)
{
	struct ring_ep *rep = ep->drv;
	uint64_t len = RING_HEAD_LEN(head);

	if (len > 0 && len <= op->size) {
		ring_copy_large(op->buf, (const void *)(uintptr_t)*ring_payload(slot, head), len);
		rep->copy_left -= (int64_t)len;
	}
	ring_ack(link, nr, 0, len);
	return 0;
}
#endif

/*
 * Fill and finish a receive that was already removed from its list. The message is inline or
 * claimed, or it is a WRITE_IMM's notice.
 */
static inline void
ring_deliver(struct leat_ep *ep, struct ring_link *link, const struct ring_slot *slot,
	     uint64_t head, uint64_t nr, uint64_t tag, struct leat_op *op)
{
	uint64_t len = RING_HEAD_LEN(head);
	int status = 0, fetched;

	op->src = link->id;
	if (unlikely(RING_HEAD_TYPE(head) == LEAT_OP_WRITE_IMM)) {
		op->oflags = LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN;
		op->imm = slot->w[1];
		leat_op_finish(ep, op, 0, len);
		return;
	}
	if ((RING_HEAD_FLAGS(head) & RING_F_IMM) != 0) {
		op->oflags = LEAT_OP_F_IMM;
		op->imm = slot->w[0];
	}
	if (op->type == LEAT_OP_TRECV)
		op->tag_in = tag;
	if (unlikely(len > op->size))
		status = -EMSGSIZE;
	if (likely((RING_HEAD_FLAGS(head) & RING_F_INLINE) != 0)) {
		if (likely(status == 0))
			ring_copy_small(op->buf, ring_payload(slot, head), len);
	} else {
		fetched = ring_fetch(ep, link, slot, head, nr, op);
		if (fetched > 0)
			return;
		if (unlikely(fetched < 0))
			status = fetched;
	}
	leat_op_finish(ep, op, status, len);
}

#endif /* RING_MATCH_H */
