/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Matching. A message goes to the receive that was posted first, of those that it fits. A receive
 * gets the message that arrived first, of those that fit it.
 *
 *     receives    RECV    any peer: any_recvs         one peer: peer->recvs
 *                 TRECV   exact: exact[hash(tag, peer)]   with bits to ignore: wild_recvs
 *
 *     messages    plain: SEND and WRITE_IMM           tagged: also in by_tag[hash(tag)]
 *
 * So a plain message looks at the heads of two lists, and a tagged message at two short lists and
 * at the wildcard receives. An exact TRECV looks at one short list, and a RECV from any peer at the
 * head of one list. A RECV from one peer, or a wildcard TRECV, looks at all waiting messages of its
 * kind, whose number is limited by credits.
 */

#include "tags_pvt.h"

static inline uint32_t
hash(const struct tags_ep *e, uint64_t tag, uint16_t peer)
{
	/* LEAT_PEER_ANY + 1 is 0: for it the hash depends on the tag alone. */
	uint64_t h = (tag ^ (uint64_t)(uint16_t)(peer + 1) << 47) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(h >> 32) & e->hash_mask;
}

static inline bool
sender_fits(const struct leat_op *op, const struct tags_rbuf *b)
{
	return op->peer == LEAT_PEER_ANY || op->peer == b->peer->outer->id;
}

/* ---- a receive looks for a message ---- */

static struct tags_rbuf *
find_tagged(const struct tags_ep *e, const struct leat_op *op)
{
	struct tags_rbuf *b;

	if (op->ignore == 0) {
		TAILQ_FOREACH(b, &e->by_tag[hash(e, op->tag, LEAT_PEER_ANY)], same)
			if (b->hdr.tag == op->tag && sender_fits(op, b))
				return b;
		return NULL;
	}
	TAILQ_FOREACH(b, &e->tagged, link)
		if (((b->hdr.tag ^ op->tag) & ~op->ignore) == 0 && sender_fits(op, b))
			return b;
	return NULL;
}

struct tags_rbuf *
tags_match_message(struct tags_ep *e, const struct leat_op *op)
{
	struct tags_rbuf *b;

	if (op->type == LEAT_OP_TRECV) {
		if (likely(TAILQ_EMPTY(&e->tagged)))
			return NULL;
		b = find_tagged(e, op);
	} else {
		TAILQ_FOREACH(b, &e->plain, link)
			if (sender_fits(op, b))
				break;
	}
	if (b != NULL)
		tags_match_forget(e, b);
	return b;
}

void
tags_match_keep(struct tags_ep *e, struct tags_rbuf *b)
{
	if ((b->hdr.flags & TAGS_F_TAGGED) == 0) {
		TAILQ_INSERT_TAIL(&e->plain, b, link);
		return;
	}
	TAILQ_INSERT_TAIL(&e->tagged, b, link);
	TAILQ_INSERT_TAIL(&e->by_tag[hash(e, b->hdr.tag, LEAT_PEER_ANY)], b, same);
}

void
tags_match_forget(struct tags_ep *e, struct tags_rbuf *b)
{
	if ((b->hdr.flags & TAGS_F_TAGGED) == 0) {
		TAILQ_REMOVE(&e->plain, b, link);
		return;
	}
	TAILQ_REMOVE(&e->tagged, b, link);
	TAILQ_REMOVE(&e->by_tag[hash(e, b->hdr.tag, LEAT_PEER_ANY)], b, same);
}

/* ---- a message looks for a receive ---- */

static struct tags_rx_list *
list_of(struct tags_ep *e, const struct leat_op *op)
{
	if (op->type == LEAT_OP_TRECV)
		return op->ignore == 0 ? &e->exact[hash(e, op->tag, op->peer)] : &e->wild_recvs;
	return op->peer == LEAT_PEER_ANY ? &e->any_recvs
					 : &tags_peer_of(&e->outer->peers[op->peer])->recvs;
}

void
tags_match_wait(struct tags_ep *e, struct tags_rx *rx)
{
	rx->state = TAGS_RX_POSTED;
	rx->seq = e->rx_seq++;
	TAILQ_INSERT_TAIL(list_of(e, rx->op), rx, link);
}

void
tags_match_cancel(struct tags_ep *e, struct tags_rx *rx)
{
	TAILQ_REMOVE(list_of(e, rx->op), rx, link);
}

static inline struct tags_rx *
older(struct tags_rx *a, struct tags_rx *b)
{
	if (a == NULL || b == NULL)
		return a == NULL ? b : a;
	return a->seq < b->seq ? a : b;
}

static struct tags_rx *
find_exact(const struct tags_ep *e, uint64_t tag, uint16_t peer)
{
	struct tags_rx *rx;

	TAILQ_FOREACH(rx, &e->exact[hash(e, tag, peer)], link)
		if (rx->op->tag == tag && rx->op->peer == peer)
			break;
	return rx;
}

static struct tags_rx *
find_wild(const struct tags_ep *e, const struct tags_rbuf *b)
{
	struct tags_rx *rx;

	TAILQ_FOREACH(rx, &e->wild_recvs, link)
		if (((b->hdr.tag ^ rx->op->tag) & ~rx->op->ignore) == 0 && sender_fits(rx->op, b))
			break;
	return rx;
}

struct tags_rx *
tags_match_recv(struct tags_ep *e, const struct tags_rbuf *b)
{
	struct tags_rx *rx;

	if ((b->hdr.flags & TAGS_F_TAGGED) == 0) {
		rx = older(TAILQ_FIRST(&e->any_recvs), TAILQ_FIRST(&b->peer->recvs));
	} else {
		rx = older(find_exact(e, b->hdr.tag, LEAT_PEER_ANY),
			   find_exact(e, b->hdr.tag, b->peer->outer->id));
		rx = older(rx, find_wild(e, b));
	}
	if (rx != NULL)
		tags_match_cancel(e, rx);
	return rx;
}
