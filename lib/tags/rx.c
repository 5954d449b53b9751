/* SPDX-License-Identifier: BSD-3-Clause */

/* Receiving. Everything that a peer sends is checked here before it is used. */

#include <string.h>

#include <rte_memcpy.h>

#include "tags_pvt.h"

void
tags_rbuf_done(struct tags_ep *e, struct tags_rbuf *b)
{
	unsigned int c = tags_kind_class(b->hdr.kind);
	struct tags_peer *p = b->peer;

	if (c < TAGS_CLASSES) {
		p->done[c]++;
		if ((uint16_t)(p->done[c] - p->returned[c]) >= (e->window[c] + 1) / 2)
			tags_todo(e, p);
	}
	TAILQ_INSERT_TAIL(&e->repost, b, link);
}

static void
rx_free(struct tags_ep *e, struct tags_rx *rx)
{
	rx->op = NULL;
	rx->state = TAGS_RX_FREE;
	TAILQ_INSERT_HEAD(&e->free_rx, rx, link);
}

void
tags_rx_finish(struct tags_ep *e, struct tags_rx *rx, int status, uint64_t len)
{
	struct leat_op *op = rx->op;

	rx_free(e, rx);
	leat_op_finish(e->outer, op, status, len);
}

static void
reply(struct tags_ep *e, struct tags_rbuf *b, enum tags_kind kind, uint32_t rid)
{
	b->reply = (uint8_t)kind;
	b->rid = rid;
	TAILQ_INSERT_TAIL(&b->peer->replies, b, link);
	tags_todo(e, b->peer);
}

void
tags_rx_deliver(struct tags_ep *e, struct tags_rx *rx, struct tags_rbuf *b)
{
	const struct tags_hdr *h = &b->hdr;
	struct leat_op *op = rx->op;

	op->src = b->peer->outer->id;
	if (unlikely((h->flags & TAGS_F_IMM) != 0)) {
		op->oflags |= LEAT_OP_F_IMM;
		op->imm = h->imm;
	}
	if (unlikely(b->notice)) {
		op->oflags |= LEAT_OP_F_WRITTEN;
		tags_rbuf_done(e, b);
		tags_rx_finish(e, rx, 0, b->written);
		return;
	}
	if (op->type == LEAT_OP_TRECV)
		op->tag_in = h->tag;
	if (unlikely(h->total > op->size)) {
		if (h->kind == TAGS_FIRST)
			reply(e, b, TAGS_REFUSE, 0);
		else
			tags_rbuf_done(e, b);
		tags_rx_finish(e, rx, -EMSGSIZE, h->total);
		return;
	}
	if (b->bytes > 0)
		rte_memcpy(op->buf, (const uint8_t *)b->op.buf + b->hdr_len, b->bytes);
	if (likely(h->kind == TAGS_EAGER)) {
		tags_rbuf_done(e, b);
		tags_rx_finish(e, rx, 0, h->total);
		return;
	}
	rx->state = TAGS_RX_STREAM;
	rx->sender = b->peer;
	rx->got = b->bytes;
	rx->total = h->total;
	reply(e, b, TAGS_GRANT, (uint32_t)(rx - e->rxs));
}

static void
message(struct tags_ep *e, struct tags_rbuf *b)
{
	struct tags_rx *rx = tags_match_recv(e, b);

	if (likely(rx != NULL))
		tags_rx_deliver(e, rx, b);
	else
		tags_match_keep(e, b);
}

/*
 * Process a DATA segment: the next part of a message that is matched with a receive. @return NULL,
 * or what is wrong with it
 */
static const char *
data(struct tags_ep *e, const struct tags_rbuf *b)
{
	struct tags_rx *rx = b->hdr.id < e->nb_rx ? &e->rxs[b->hdr.id] : NULL;

	if (unlikely(rx == NULL || rx->state != TAGS_RX_STREAM || rx->sender != b->peer))
		return "it sent data for no message";
	if (unlikely(b->hdr.tag != rx->got || b->bytes > rx->total - rx->got))
		return "it sent data that are not the next of their message";
	if (likely(rx->op != NULL))
		rte_memcpy((uint8_t *)rx->op->buf + rx->got,
			   (const uint8_t *)b->op.buf + b->hdr_len, b->bytes);
	rx->got += b->bytes;
	if (rx->got < rx->total)
		return NULL;
	if (likely(rx->op != NULL))
		tags_rx_finish(e, rx, 0, rx->total);
	else
		rx_free(e, rx);
	return NULL;
}

/* Count a segment against the credits that this side gave. @return false: none was left */
static bool
take_credit(const struct tags_ep *e, struct tags_peer *p, unsigned int c)
{
	if (unlikely((uint16_t)(p->got[c] - p->done[c]) >= e->window[c]))
		return false;
	p->got[c]++;
	return true;
}

static const char *
segment(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b)
{
	struct tags_hdr *h = &b->hdr;
	unsigned int c = tags_kind_class(h->kind);
	const char *why;

	if (unlikely(c < TAGS_CLASSES && !take_credit(e, p, c)))
		return "it sent more than it had credits for";
	why = tags_credits(e, p, h);
	if (unlikely(why != NULL))
		return why;
	if (unlikely(p->bye))
		return "it went on after its good-bye";
	if (unlikely(h->kind == TAGS_BYE))
		tags_peer_said_bye(e, p);
	b->hdr_len = tags_hdr_len(h->flags);
	b->bytes = (uint32_t)b->op.len - b->hdr_len;
	b->notice = false;
	if (c == TAGS_C_MSG) {
		message(e, b);
		return NULL;
	}
	if (c == TAGS_C_DATA)
		why = data(e, b);
	else if (c == TAGS_C_REPLY)
		why = tags_tx_granted(e, p, h);
	if (likely(why == NULL))
		tags_rbuf_done(e, b);
	return why;
}

/* Process the notice of a WRITE_IMM: it has no header, and its buffer is empty. */
static const char *
notice(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b)
{
	if (unlikely(!take_credit(e, p, TAGS_C_MSG)))
		return "it sent more than it had credits for";
	memset(&b->hdr, 0, sizeof(b->hdr));
	b->hdr.kind = TAGS_EAGER;
	b->hdr.flags = TAGS_F_IMM;
	b->hdr.imm = b->op.imm;
	b->notice = true;
	b->written = b->op.len;
	b->bytes = 0;
	b->hdr_len = 0;
	message(e, b);
	return NULL;
}

static inline bool
accepts_segments(const struct tags_peer *p)
{
	return p != NULL && (p->state == TAGS_P_UP || p->state == TAGS_P_ACCEPTED) && !p->lost;
}

/*
 * Count a segment whose token is of no present connection. It may have been under way when its
 * connection ended. But a peer that goes on sending such segments does it on purpose.
 * @return like arrived()
 */
static const char *
stale(struct tags_peer *p)
{
	return accepts_segments(p) && ++p->stale > TAGS_STALE_MAX
		       ? "it sent segments with the tokens of other connections"
		       : "";
}

/* Process a segment of a connection that this side ends, where only the peer's BYE matters. */
static void
take_bye(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h)
{
	if (!p->leaving || p->lost)
		return;
	if (h->seq != p->rx_seq++)
		p->lost = true;
	else if (h->kind == TAGS_BYE)
		tags_peer_said_bye(e, p);
}

/*
 * Process a segment of a connection that is UP, or was accepted, if it is the next one of its
 * direction. @return like arrived()
 */
static const char *
in_turn(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b)
{
	uint8_t inner = e->inner->peers[p->id].state;

	if (likely(b->hdr.seq == p->rx_seq)) {
		p->rx_seq++;
		return segment(e, p, b);
	}
	/* A connection that fails loses segments. Its last event will say why it failed. */
	p->lost = inner == LEAT_PEER_CLOSING || inner == LEAT_PEER_DOWN;
	return p->lost ? "" : "a segment is missing";
}

/*
 * Keep a segment of a connection whose CONNECTED is still to come. This happens if the other side
 * was up first, and the device knows its address by another connection that is up. A peer that
 * keeps to its windows never sends more segments than there is room for. If a peer sends more, the
 * excess is dropped, and is found missing later.
 * @return like arrived()
 */
static const char *
early(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b)
{
	uint32_t room = 0;
	unsigned int c;

	for (c = 0; c < TAGS_CLASSES; c++)
		room += e->window[c];
	if (p->nb_early >= room)
		return "";
	p->nb_early++;
	TAILQ_INSERT_TAIL(&p->early, b, link);
	return NULL;
}

/*
 * Process a segment. *sender is the peer that the device names, or NULL; it becomes the segment's
 * peer.
 * @return NULL: the segment's buffer is in use or was freed. Otherwise the caller frees it: "" if
 *   there is nothing to report, else what is wrong with the segment
 */
static const char *
arrived(struct tags_ep *e, struct tags_rbuf *b, struct tags_peer **sender)
{
	const char *why = tags_hdr_parse(b->op.buf, b->op.len, &b->hdr);
	uint64_t place = b->hdr.token & TAGS_TOKEN_PEER;
	struct tags_peer *p;

	if (unlikely(why != NULL))
		return accepts_segments(*sender) ? why : "";
	if (unlikely(place >= e->nb_chunks || e->places[place].token != b->hdr.token ||
		     e->places[place].peer == NULL))
		return stale(*sender);
	*sender = p = e->places[place].peer;
	b->peer = p;
	if (likely(accepts_segments(p)))
		return in_turn(e, p, b);
	if (p->state == TAGS_P_CONNECTING)
		return early(e, p, b);
	if (p->state == TAGS_P_ENDING)
		take_bye(e, p, &b->hdr);
	return "";
}

/* Do arrived() for the notice of a WRITE_IMM. */
static const char *
written(struct tags_ep *e, struct tags_rbuf *b, struct tags_peer **sender)
{
	const uint64_t imm = b->op.imm, place = imm >> 32 & TAGS_TOKEN_PEER;

	if (e->notice_token) {
		if (unlikely(place >= e->nb_chunks || e->places[place].peer == NULL ||
			     tags_notice_imm(e->places[place].token, imm) != imm))
			return stale(*sender);
		*sender = b->peer = e->places[place].peer;
		b->op.imm = imm & UINT32_MAX;
	}
	return accepts_segments(*sender) ? notice(e, *sender, b) : "";
}

/* Handle `why`, the return value of arrived() or written(). */
static void
arrived_as(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b, const char *why)
{
	if (likely(why == NULL))
		return;
	TAILQ_INSERT_TAIL(&e->repost, b, link);
	/*
	 * "" needs no report, because the segment is late, or its connection is ending and the last
	 * event is still to come.
	 */
	if (why[0] != '\0')
		tags_peer_fail(e, p, why);
}

void
tags_rx_early(struct tags_ep *e, struct tags_peer *p)
{
	struct tags_rbuf_list list = TAILQ_HEAD_INITIALIZER(list);
	struct tags_rbuf *b;

	TAILQ_CONCAT(&list, &p->early, link);
	p->nb_early = 0;
	while ((b = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, b, link);
		if (accepts_segments(p))
			arrived_as(e, p, b, in_turn(e, p, b));
		else
			arrived_as(e, p, b, "");
	}
}

void
tags_rx_arrived(struct tags_ep *e, struct tags_rbuf *b)
{
	const struct leat_op *op = &b->op;
	struct tags_peer *p = NULL;
	const char *why;

	if (unlikely(e->aborted))
		return;
	/* The peer that the device names; the token in the segment may name a different one. */
	if (likely(op->src < e->inner->nb_peers))
		p = &e->peers[op->src];
	b->peer = p;
	if (unlikely(op->status < 0))
		why = op->status == -EMSGSIZE && accepts_segments(p) ? "a segment is too long" : "";
	else if (unlikely((op->oflags & LEAT_OP_F_WRITTEN) != 0))
		why = written(e, b, &p);
	else
		why = arrived(e, b, &p);
	arrived_as(e, p, b, why);
}

static void
drop_messages(struct tags_ep *e, struct tags_rbuf_list *list, const struct tags_peer *p)
{
	struct tags_rbuf *b, *next;

	for (b = TAILQ_FIRST(list); b != NULL; b = next) {
		next = TAILQ_NEXT(b, link);
		if (b->peer != p)
			continue;
		tags_match_forget(e, b);
		TAILQ_INSERT_TAIL(&e->repost, b, link);
	}
}

void
tags_rx_drop(struct tags_ep *e, struct tags_peer *p, int status)
{
	uint32_t i;

	drop_messages(e, &e->plain, p);
	drop_messages(e, &e->tagged, p);
	TAILQ_CONCAT(&e->repost, &p->replies, link);
	TAILQ_CONCAT(&e->repost, &p->early, link);
	p->nb_early = 0;
	for (i = 0; i < e->nb_rx; i++) {
		struct tags_rx *rx = &e->rxs[i];

		if (rx->state == TAGS_RX_POSTED && rx->op->peer == p->outer->id) {
			tags_match_cancel(e, rx);
			tags_rx_finish(e, rx, status, 0);
		} else if (rx->state == TAGS_RX_STREAM && rx->sender == p) {
			if (rx->op != NULL)
				tags_rx_finish(e, rx, status, 0);
			else
				rx_free(e, rx);
		}
	}
}

void
tags_rx_drop_all(struct tags_ep *e, int status)
{
	uint32_t i;

	for (i = 0; i < e->nb_rx; i++) {
		struct tags_rx *rx = &e->rxs[i];
		struct leat_op *op = rx->op;

		if (rx->state == TAGS_RX_POSTED) {
			tags_match_cancel(e, rx);
			tags_rx_finish(e, rx, status, 0);
		} else if (rx->state == TAGS_RX_STREAM && op != NULL) {
			/* The rest of its message is dropped when it arrives. */
			rx->op = NULL;
			leat_op_finish(e->outer, op, status, 0);
		}
	}
}
