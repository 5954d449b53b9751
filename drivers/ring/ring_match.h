/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MATCH_H
#define RING_MATCH_H

/* What poll inlines of matching; the rest, and how it works, is in ring_match.c. */

#include "ring_pvt.h"

void ring_oplist_del(struct ring_oplist *list, struct leat_op *op);
/* Some receives name this peer, or none is for any. */
struct leat_op *ring_find_recv_slow(struct ring_ep *rep, struct ring_link *link);
struct leat_op *ring_find_trecv(struct ring_ep *rep, struct ring_link *link, uint64_t tag);
/* Keeps a message for later. */
void ring_note_add(struct ring_ep *rep, struct ring_link *link, const struct ring_slot *slot,
		   uint64_t nr, int kind, uint64_t tag);

void ring_fifo_trim(struct ring_ep *rep);

/* The receive for an untagged message of this peer, still posted; NULL: none. */
static inline struct leat_op *
ring_find_recv(struct ring_ep *rep, struct ring_link *link)
{
	if (likely(link->recvs.head == NULL && rep->recv_head != rep->recv_tail))
		return rep->recvs[rep->recv_head & rep->recv_mask].op;
	return ring_find_recv_slow(rep, link);
}

/* Takes a receive that was found off its list. */
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

/* Where a message's payload, or its address, is. */
static inline const uint64_t *
ring_payload(const struct ring_slot *slot, uint64_t head)
{
	return &slot->w[(RING_HEAD_FLAGS(head) & RING_F_IMM) != 0 ? 1 : 0];
}

/* Copies a large message, that was claimed, straight from the sender's buffer. */
static inline void
ring_fetch(struct ring_ep *rep, struct ring_link *link, const struct ring_slot *slot, uint64_t head,
	   uint64_t nr, const struct leat_op *op)
{
	uint64_t len = RING_HEAD_LEN(head);

	if (len > 0 && len <= op->size) {
		ring_copy_large(op->buf, (const void *)(uintptr_t)*ring_payload(slot, head), len);
		rep->copy_left -= (int64_t)len;
	}
	ring_ack(link, nr, 0, len);
}

/*
 * Fills a receive, which is on no list any more, with a message that is inline or claimed, or a
 * WRITE_IMM's notice.
 */
static inline void
ring_deliver(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link,
	     const struct ring_slot *slot, uint64_t head, uint64_t nr, struct leat_op *op)
{
	uint64_t len = RING_HEAD_LEN(head);
	int status = 0;

	op->src = link->id;
	if (unlikely(RING_HEAD_TYPE(head) == LEAT_OP_WRITE_IMM)) {
		op->oflags = LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN;
		op->imm = slot->w[1];
		leat_op_finish(ep, op, 0, len);
		return;
	}
	if (unlikely(len > op->size))
		status = -EMSGSIZE;
	if (likely((RING_HEAD_FLAGS(head) & RING_F_INLINE) != 0)) {
		if (likely(status == 0))
			ring_copy_small(op->buf, ring_payload(slot, head), len);
	} else {
		ring_fetch(rep, link, slot, head, nr, op);
	}
	if ((RING_HEAD_FLAGS(head) & RING_F_IMM) != 0) {
		op->oflags = LEAT_OP_F_IMM;
		op->imm = slot->w[0];
	}
	if (op->type == LEAT_OP_TRECV)
		op->tag_in = slot->addr;
	leat_op_finish(ep, op, status, len);
}

#endif /* RING_MATCH_H */
