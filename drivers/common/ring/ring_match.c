/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Matching of receives and messages, and unexpected messages: those that fit no posted receive.
 *
 * RECVs for any peer are a FIFO of their own (ring_ep.recvs). RECVs that name a peer, and TRECVs,
 * are in lists. A message goes to the receive posted first among those that fit. If a list of this
 * peer and a list for any peer both hold a fitting receive, the older one gets the message. For an
 * untagged message this is O(1). For a tagged message it is a walk, in both lists, over the
 * receives posted before the first fit.
 *
 * A message that fits no receive stays in its slot, and the scan goes on after it. The note of the
 * message is in two lists of its kind (plain or tagged): the endpoint's, for receives from any
 * peer, with the oldest message of all peers first; and the peer's. Invariant: no posted receive
 * fits any unexpected message. So a new message is matched against receives only, and a new receive
 * against unexpected messages only.
 */

#include "ring_match.h"

/* ---- lists of receives ---- */

static void
list_add(struct ring_oplist *list, struct leat_op *op)
{
	struct ring_op *o = ring_op(op);

	o->next = NULL;
	o->prev = list->tail;
	if (list->tail != NULL)
		ring_op(list->tail)->next = op;
	else
		list->head = op;
	list->tail = op;
}

void
ring_oplist_del(struct ring_oplist *list, struct leat_op *op)
{
	struct ring_op *o = ring_op(op);

	if (o->prev != NULL)
		ring_op(o->prev)->next = o->next;
	else
		list->head = o->next;
	if (o->next != NULL)
		ring_op(o->next)->prev = o->prev;
	else
		list->tail = o->prev;
}

static struct leat_op *
list_find(const struct ring_oplist *list, uint64_t tag)
{
	struct leat_op *op;

	for (op = list->head; op != NULL; op = ring_op(op)->next) {
		if (ring_tag_fits(op, tag))
			return op;
	}
	return NULL;
}

static inline bool
in_fifo(const struct leat_op *op)
{
	return op->type == LEAT_OP_RECV && op->peer == LEAT_PEER_ANY;
}

/* Find the list of a receive that is not in the FIFO. */
static struct ring_oplist *
list_of(struct ring_ep *rep, const struct leat_op *op)
{
	struct ring_link *link;

	if (op->peer == LEAT_PEER_ANY)
		return &rep->trecvs;
	link = &rep->table[op->peer];
	return op->type == LEAT_OP_TRECV ? &link->trecvs : &link->recvs;
}

/* ---- the FIFO of RECVs for any peer ---- */

/* Drop gaps at the head of the FIFO, so that the oldest entry is never a gap. */
void
ring_fifo_trim(struct ring_ep *rep)
{
	while (rep->recv_head != rep->recv_tail &&
	       rep->recvs[rep->recv_head & rep->recv_mask].op == NULL) {
		rep->recv_head++;
		rep->recv_gaps--;
	}
}

/* Close the gaps that cancelled receives left. */
static void
fifo_compact(struct ring_ep *rep)
{
	uint32_t i, to = rep->recv_head;

	for (i = rep->recv_head; i != rep->recv_tail; i++) {
		struct ring_recv *r = &rep->recvs[i & rep->recv_mask];

		if (r->op != NULL)
			rep->recvs[to++ & rep->recv_mask] = *r;
	}
	rep->recv_tail = to;
	rep->recv_gaps = 0;
}

static void
fifo_add(struct ring_ep *rep, struct leat_op *op, uint64_t seq)
{
	struct ring_recv *r;

	/* The FIFO has room for all receives that can be posted, so if it is full, it has gaps. */
	if (unlikely(rep->recv_tail - rep->recv_head > rep->recv_mask))
		fifo_compact(rep);
	r = &rep->recvs[rep->recv_tail++ & rep->recv_mask];
	r->op = op;
	r->seq = seq;
}

static void
fifo_del(struct ring_ep *rep, const struct leat_op *op)
{
	uint32_t lo = rep->recv_head, hi = rep->recv_tail;

	/* search from both ends: cancelling all receives, in either order, takes O(1) each */
	for (; lo != hi; lo++) {
		if (rep->recvs[lo & rep->recv_mask].op == op) {
			rep->recvs[lo & rep->recv_mask].op = NULL;
			break;
		}
		if (rep->recvs[--hi & rep->recv_mask].op == op) {
			rep->recvs[hi & rep->recv_mask].op = NULL;
			break;
		}
		if (lo == hi)
			break;
	}
	rep->recv_gaps++;
	ring_fifo_trim(rep);
	while (rep->recv_head != rep->recv_tail &&
	       rep->recvs[(rep->recv_tail - 1) & rep->recv_mask].op == NULL) {
		rep->recv_tail--;
		rep->recv_gaps--;
	}
}

/* ---- matching ---- */

struct leat_op *
ring_find_recv_slow(struct ring_ep *rep, struct ring_link *link)
{
	struct leat_op *own = link->recvs.head;
	const struct ring_recv *any;

	any = rep->recv_head == rep->recv_tail ? NULL
					       : &rep->recvs[rep->recv_head & rep->recv_mask];
	if (any == NULL || (own != NULL && ring_op(own)->seq < any->seq))
		return own;
	return any->op;
}

struct leat_op *
ring_find_trecv(struct ring_ep *rep, struct ring_link *link, uint64_t tag)
{
	struct leat_op *own = list_find(&link->trecvs, tag);
	struct leat_op *any = list_find(&rep->trecvs, tag);

	if (own == NULL || (any != NULL && ring_op(any)->seq < ring_op(own)->seq))
		return any;
	return own;
}

void
ring_recv_remove(struct ring_ep *rep, struct leat_op *op)
{
	if (in_fifo(op))
		fifo_del(rep, op);
	else
		ring_oplist_del(list_of(rep, op), op);
}

/* ---- unexpected messages ---- */

void
ring_note_add(struct ring_ep *rep, struct ring_link *link, const struct ring_slot *slot,
	      uint64_t nr, int kind, uint64_t tag)
{
	struct ring_note *note = &link->rx_notes[nr & link->rx_mask];

	note->link = link;
	note->tag = tag;
	note->place = (uint32_t)(slot - link->rx_slots);
	TAILQ_INSERT_TAIL(&rep->unexpected[kind], note, by_ep);
	TAILQ_INSERT_TAIL(&link->unexpected[kind], note, by_link);
	rep->nb_unexpected++;
}

static void
note_del(struct ring_ep *rep, struct ring_note *note, int kind)
{
	TAILQ_REMOVE(&rep->unexpected[kind], note, by_ep);
	TAILQ_REMOVE(&note->link->unexpected[kind], note, by_link);
	rep->nb_unexpected--;
}

/*
 * Return the number of a note's message: the number in [rx_head, rx_head + slots) that, modulo
 * slots, is the note's index.
 */
static uint64_t
note_nr(const struct ring_note *note)
{
	const struct ring_link *link = note->link;
	uint64_t idx = (uint64_t)(note - link->rx_notes);

	return link->rx_head + ((idx - link->rx_head) & link->rx_mask);
}

static void
note_consume(struct ring_ep *rep, struct ring_note *note, int kind)
{
	struct ring_link *link = note->link;
	uint64_t nr = note_nr(note);

	note_del(rep, note, kind);
	ring_rx_consume(link, nr);
	ring_rx_publish(link);
}

void
ring_note_drop_all(struct ring_ep *rep, struct ring_link *link)
{
	struct ring_note *note;
	int k;

	for (k = 0; k < RING_KINDS; k++) {
		while ((note = TAILQ_FIRST(&link->unexpected[k])) != NULL)
			note_del(rep, note, k);
	}
}

void
ring_note_purge(struct ring_ep *rep, struct ring_link *link)
{
	struct ring_note *note, *next;
	int k;

	for (k = 0; k < RING_KINDS; k++) {
		for (note = TAILQ_FIRST(&link->unexpected[k]); note != NULL; note = next) {
			const struct ring_slot *slot = &link->rx_slots[note->place];
			/* relaxed: the scan of this slot has acquired PUBLISH */
			uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_RELAXED);

			next = TAILQ_NEXT(note, by_link);
			/* Was the op recalled? Only slots with RING_F_ACK have a state. */
			if ((RING_HEAD_FLAGS(head) & RING_F_ACK) != 0 &&
			    __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == RING_RECALLED)
				note_consume(rep, note, k);
		}
	}
}

/* Find the oldest unexpected message that fits a receive, or NULL. */
static struct ring_note *
note_find(struct ring_ep *rep, const struct leat_op *op)
{
	struct ring_link *link;
	struct ring_note *note;

	if (op->peer != LEAT_PEER_ANY) {
		link = &rep->table[op->peer];
		if (op->type == LEAT_OP_RECV)
			return TAILQ_FIRST(&link->unexpected[RING_PLAIN]);
		TAILQ_FOREACH(note, &link->unexpected[RING_TAGGED], by_link) {
			if (ring_tag_fits(op, note->tag))
				break;
		}
		return note;
	}
	if (op->type == LEAT_OP_RECV)
		return TAILQ_FIRST(&rep->unexpected[RING_PLAIN]);
	TAILQ_FOREACH(note, &rep->unexpected[RING_TAGGED], by_ep) {
		if (ring_tag_fits(op, note->tag))
			break;
	}
	return note;
}

/* Match a new receive with an unexpected message. @return false: none fits, post the receive */
static bool
take_unexpected(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	int kind = op->type == LEAT_OP_RECV ? RING_PLAIN : RING_TAGGED;
	struct ring_note *note;

	while ((note = note_find(rep, op)) != NULL) {
		struct ring_link *link = note->link;
		uint64_t nr = note_nr(note);
		struct ring_slot *slot = &link->rx_slots[note->place];
		/* relaxed: the scan of this slot has acquired PUBLISH */
		uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_RELAXED);
		bool mine;

		if (unlikely(!ring_head_sane(rep, head))) {
			ring_violation(rep, link, "a message changed after it was published");
			continue; /* ring_violation() has dropped the link's notes */
		}
		/* Delete the note first: ring_deliver() may find a violation and drop all notes. */
		note_del(rep, note, kind);
		mine = RING_HEAD_TYPE(head) == LEAT_OP_WRITE_IMM ||
		       (RING_HEAD_FLAGS(head) & RING_F_ACK) == 0 || ring_claim(slot);
		if (mine)
			ring_deliver(ep, link, slot, head, nr, note->tag, op);
		if (likely(!ring_violated(link))) {
			ring_rx_consume(link, nr);
			ring_rx_publish(link);
		}
		if (mine)
			return true;
	}
	return false;
}

void
ring_post_recv(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_oplist *list;

	leat_op_start(ep, op);
	if (unlikely(rep->nb_unexpected > 0) && take_unexpected(ep, rep, op))
		return;
	if (likely(in_fifo(op))) {
		fifo_add(rep, op, rep->recv_seq++);
		return;
	}
	list = list_of(rep, op);
	ring_op(op)->seq = rep->recv_seq++;
	list_add(list, op);
}

/* ---- end of receives ---- */

static void
list_end(struct leat_ep *ep, struct ring_oplist *list, int status)
{
	struct leat_op *op;

	while ((op = list->head) != NULL) {
		ring_oplist_del(list, op);
		leat_op_finish(ep, op, status, 0);
	}
}

void
ring_recvs_end_link(struct leat_ep *ep, struct ring_link *link, int status)
{
	list_end(ep, &link->recvs, status);
	list_end(ep, &link->trecvs, status);
#if RING_FOREIGN
	if (link->moves.nb > 0)
		ring_moves_end_recvs(ep, link, status);
#endif
}

void
ring_recvs_end_all(struct leat_ep *ep, struct ring_ep *rep, int status)
{
	uint32_t i;

	while (rep->recv_head != rep->recv_tail) {
		struct leat_op *op = rep->recvs[rep->recv_head++ & rep->recv_mask].op;

		if (op != NULL)
			leat_op_finish(ep, op, status, 0);
	}
	rep->recv_gaps = 0;
	list_end(ep, &rep->trecvs, status);
	for (i = 0; i < rep->nb_links; i++)
		ring_recvs_end_link(ep, rep->links[i], status);
}
