/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sending. A peer to which something may be sent is on the endpoint's todo list. What it has is made into
 * segments as far as there are credits and free segments, in this order:
 *
 *     replies | streams | pending | CREDIT, if none of those carried what is owed
 *
 * and they go to the device in bursts. One-sided ops need no credit and go at once, but none overtakes
 * what was built before: WRITE, then SEND arrives in this order.
 */

#include <string.h>

#include <rte_memcpy.h>

#include "tags_pvt.h"

static inline uint16_t
credits(const struct tags_peer *p, enum tags_class c)
{
	return (uint16_t)(p->window[c] - (uint16_t)(p->sent[c] - p->acked[c]));
}

void
tags_todo(struct tags_ep *e, struct tags_peer *p)
{
	if (p->todo)
		return;
	p->todo = true;
	TAILQ_INSERT_TAIL(&e->todo, p, link);
}

/* ---- building ---- */

/* There is a free segment. */
static void
build(struct tags_ep *e, struct tags_peer *p, struct tags_hdr *h, struct tags_tx *tx,
      const void *from, uint32_t bytes)
{
	struct tags_iop *iop = STAILQ_FIRST(&e->free_segs);
	unsigned int c = tags_kind_class(h->kind);
	uint8_t *buf = iop->op.buf;

	STAILQ_REMOVE_HEAD(&e->free_segs, link);
	h->seq = p->tx_seq++;
	memcpy(h->done, p->done, sizeof(h->done));
	memcpy(p->told, p->done, sizeof(p->told));
	tags_hdr_build(buf, h);
	if (bytes > 0)
		rte_memcpy(buf + TAGS_HDR_LEN, from, bytes);
	iop->op.size = TAGS_HDR_LEN + bytes;
	iop->op.peer = p->id;
	iop->peer = p;
	iop->tx = tx;
	if (tx != NULL) {
		tx->flying++;
		tx->sent += bytes;
	}
	if (c < TAGS_CLASSES)
		p->sent[c]++;
	STAILQ_INSERT_TAIL(&p->built, iop, link);
}

static void
build_onesided(struct tags_peer *p, struct tags_tx *tx)
{
	const struct leat_op *op = tx->op;
	struct leat_op *in = &tx->onesided.op;

	*in = (struct leat_op){ .type = op->type,
				.peer = p->id,
				.buf = op->buf,
				.size = op->size,
				.queue = LEAT_QUEUE_NONE,
				.mr = op->mr,
				.raddr = op->raddr,
				.rkey = op->rkey,
				.operand = op->operand,
				.compare = op->compare,
				.user = &tx->onesided };
	tx->onesided.peer = p;
	tx->onesided.tx = tx;
	tx->state = TAGS_TX_ONESIDED;
	TAILQ_INSERT_TAIL(&p->begun, tx, link);
	STAILQ_INSERT_TAIL(&p->built, &tx->onesided, link);
}

static void
build_reply(struct tags_ep *e, struct tags_peer *p, struct tags_rbuf *b)
{
	struct tags_hdr h = { .kind = b->reply, .id = b->hdr.id };

	if (b->reply == TAGS_GRANT)
		h.tag = b->rid;
	TAILQ_REMOVE(&p->replies, b, link);
	tags_rbuf_done(e, b);
	build(e, p, &h, NULL, NULL, 0);
}

static void
build_data(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx)
{
	uint64_t left = tx->op->size - tx->sent;
	struct tags_hdr h = { .kind = TAGS_DATA, .id = tx->rid, .tag = tx->sent };

	build(e, p, &h, tx, (const uint8_t *)tx->op->buf + tx->sent,
	      (uint32_t)RTE_MIN(left, (uint64_t)p->segment));
	if (tx->sent == tx->op->size) {
		TAILQ_REMOVE(&p->streams, tx, link);
		tx->state = TAGS_TX_SENT;
		TAILQ_INSERT_TAIL(&p->begun, tx, link);
	}
}

static void
build_message(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx)
{
	const struct leat_op *op = tx->op;
	struct tags_hdr h = { .kind = TAGS_EAGER, .total = op->size };

	TAILQ_REMOVE(&p->pending, tx, link);
	if (unlikely(op->type == LEAT_OP_WRITE_IMM)) {
		p->sent[TAGS_C_MSG]++;
		build_onesided(p, tx);
		return;
	}
	if (op->type == LEAT_OP_TSEND) {
		h.flags = TAGS_F_TAGGED;
		h.tag = op->tag;
	}
	if (unlikely((op->flags & LEAT_OP_F_IMM) != 0)) {
		h.flags |= TAGS_F_IMM;
		h.imm = op->imm & e->imm_mask;
	}
	tx->state = TAGS_TX_SENT;
	if (op->size > p->segment) {
		h.kind = TAGS_FIRST;
		h.id = (uint32_t)(tx - e->txs);
		tx->state = TAGS_TX_ASKED;
	}
	TAILQ_INSERT_TAIL(&p->begun, tx, link);
	build(e, p, &h, tx, op->buf, (uint32_t)RTE_MIN(op->size, (uint64_t)p->segment));
}

static bool
owes(const struct tags_ep *e, const struct tags_peer *p)
{
	unsigned int c;

	for (c = 0; c < TAGS_CLASSES; c++)
		if ((uint16_t)(p->done[c] - p->told[c]) >= (e->window[c] + 1) / 2)
			return true;
	return false;
}

enum built { BUILT, NOTHING, NO_SEGMENT };

static enum built
build_next(struct tags_ep *e, struct tags_peer *p)
{
	bool reply = !TAILQ_EMPTY(&p->replies) && credits(p, TAGS_C_REPLY) > 0;
	bool data = !TAILQ_EMPTY(&p->streams) && credits(p, TAGS_C_DATA) > 0;
	bool message = !TAILQ_EMPTY(&p->pending) && credits(p, TAGS_C_MSG) > 0;
	struct tags_hdr h = { .kind = TAGS_CREDIT };

	if (!reply && !data && !message && !owes(e, p))
		return NOTHING;
	if (unlikely(STAILQ_EMPTY(&e->free_segs)))
		return NO_SEGMENT;
	if (reply)
		build_reply(e, p, TAILQ_FIRST(&p->replies));
	else if (data)
		build_data(e, p, TAILQ_FIRST(&p->streams));
	else if (message)
		build_message(e, p, TAILQ_FIRST(&p->pending));
	else
		build(e, p, &h, NULL, NULL, 0);
	return BUILT;
}

/* ---- to the device ---- */

/* Posts what was built. @return false if the device has no room for all of it */
static bool
flush(struct tags_ep *e, struct tags_peer *p)
{
	struct leat_op *ops[TAGS_BURST];
	struct tags_iop *iop;
	uint16_t i, n, took;

	/* Headers tell of buffers that are free: they are in their place before. */
	tags_repost(e);
	while (!STAILQ_EMPTY(&p->built)) {
		n = 0;
		STAILQ_FOREACH(iop, &p->built, link) {
			ops[n++] = &iop->op;
			if (n == TAGS_BURST)
				break;
		}
		took = leat_ep_post(e->inner, ops, n);
		for (i = 0; i < took; i++)
			STAILQ_REMOVE_HEAD(&p->built, link);
		if (unlikely(took < n))
			return false;
	}
	return true;
}

/* @return false if it has to wait for the device */
static bool
send_bye(struct tags_ep *e, struct tags_peer *p)
{
	struct tags_hdr h = { .kind = TAGS_BYE };

	if (p->leave == NULL) {
		p->leave = STAILQ_FIRST(&e->free_segs);
		if (p->leave == NULL)
			return false;
		build(e, p, &h, NULL, NULL, 0);
	}
	return flush(e, p);
}

/* @return false if something has to wait for the device */
static bool
send_all(struct tags_ep *e, struct tags_peer *p)
{
	enum built what;
	unsigned int n;

	if (unlikely(p->leaving))
		return send_bye(e, p);
	if (unlikely(p->state != TAGS_P_UP))
		return true;
	do {
		n = 0;
		do
			what = build_next(e, p);
		while (what == BUILT && ++n < TAGS_BURST);
		if (!flush(e, p))
			return false;
	} while (what == BUILT);
	return what == NOTHING;
}

void
tags_todo_run(struct tags_ep *e)
{
	TAILQ_HEAD(, tags_peer) now = TAILQ_HEAD_INITIALIZER(now);
	struct tags_peer *p;

	TAILQ_CONCAT(&now, &e->todo, link);
	while ((p = TAILQ_FIRST(&now)) != NULL) {
		TAILQ_REMOVE(&now, p, link);
		p->todo = false;
		if (unlikely(!send_all(e, p)))
			tags_todo(e, p);
	}
}

/* ---- from the caller, and back ---- */

void
tags_tx_add(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx, struct leat_op *op)
{
	op->drv_ctx = tx;
	tx->op = op;
	tx->peer = p;
	tx->sent = 0;
	tx->flying = 0;
	tx->status = 0;
	if (op->type <= LEAT_OP_TSEND || op->type == LEAT_OP_WRITE_IMM) {
		tx->state = TAGS_TX_PENDING;
		TAILQ_INSERT_TAIL(&p->pending, tx, link);
	} else {
		build_onesided(p, tx);
	}
	tags_todo(e, p);
}

static void
tx_free(struct tags_ep *e, struct tags_tx *tx)
{
	tx->op = NULL;
	tx->state = TAGS_TX_FREE;
	TAILQ_INSERT_HEAD(&e->free_tx, tx, link);
}

/* It is on no list. */
static void
tx_finish(struct tags_ep *e, struct tags_tx *tx, int status, uint64_t len)
{
	struct leat_op *op = tx->op;

	tx->op = NULL;
	if (tx->flying == 0)
		tx_free(e, tx);
	leat_op_finish(e->outer, op, status, len);
}

static void
tx_check(struct tags_ep *e, struct tags_tx *tx)
{
	if (tx->flying > 0)
		return;
	if (unlikely(tx->op == NULL)) {
		tx_free(e, tx);
	} else if (tx->state == TAGS_TX_SENT) {
		TAILQ_REMOVE(&tx->peer->begun, tx, link);
		tx_finish(e, tx, tx->status, tx->status == 0 ? tx->op->size : 0);
	}
}

static void
onesided_done(struct tags_ep *e, struct tags_tx *tx, int status, uint64_t len)
{
	struct tags_peer *p = tx->peer;

	/* It was refused, or taken back: no receive was used for it. */
	if (unlikely(status < 0 && tx->op->type == LEAT_OP_WRITE_IMM)) {
		p->sent[TAGS_C_MSG]--;
		if (p->state == TAGS_P_UP)
			tags_todo(e, p);
	}
	TAILQ_REMOVE(&p->begun, tx, link);
	tx_finish(e, tx, status, len);
}

void
tags_tx_done(struct tags_ep *e, struct tags_iop *iop)
{
	struct tags_peer *p = iop->peer;
	struct tags_tx *tx = iop->tx;
	int status = iop->op.status;
	char text[LEAT_EVENT_TEXT];

	if (unlikely(status < 0))
		tags_peer_look(e, p);
	if (tx != NULL && iop == &tx->onesided) {
		onesided_done(e, tx, status, iop->op.len);
		return;
	}
	STAILQ_INSERT_HEAD(&e->free_segs, iop, link);
	if (unlikely(iop == p->leave))
		tags_peer_leave(e, p);
	if (tx != NULL) {
		tx->flying--;
		if (unlikely(status < 0) && tx->status == 0)
			tx->status = status == -EMSGSIZE ? -EREMOTEIO : status;
		tx_check(e, tx);
	}
	/* Mostly it is ending, and the event to come tells why. */
	if (unlikely(status < 0) && p->state == TAGS_P_UP &&
	    e->inner->peers[p->id].state == LEAT_PEER_UP) {
		snprintf(text, sizeof(text), "%s: a segment could not be sent: %s",
			 leat_peer_addr(e->outer, p->outer), strerror(-status));
		tags_peer_end(e, p, -EPROTO, text);
	}
}

int
tags_tx_cancel(struct tags_ep *e, struct tags_tx *tx)
{
	struct tags_peer *p = tx->peer;
	struct tags_iop *iop = &tx->onesided;
	int ret;

	if (tx->state == TAGS_TX_PENDING) {
		TAILQ_REMOVE(&p->pending, tx, link);
		tx_finish(e, tx, -ECANCELED, 0);
		return 0;
	}
	if (tx->state != TAGS_TX_ONESIDED)
		return -EOPNOTSUPP;
	if (iop->op.state == LEAT_OP_IDLE) {
		STAILQ_REMOVE(&p->built, iop, tags_iop, link);
		onesided_done(e, tx, -ECANCELED, 0);
		return 0;
	}
	ret = leat_op_cancel(e->inner, &iop->op);
	return ret == -ENOENT || ret == -EALREADY ? 0 : ret; /* it is coming */
}

/* ---- from the peer ---- */

const char *
tags_credits(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h)
{
	bool some = false;
	unsigned int c;

	for (c = 0; c < TAGS_CLASSES; c++) {
		uint16_t n = (uint16_t)(h->done[c] - p->acked[c]);

		if (unlikely(n > (uint16_t)(p->sent[c] - p->acked[c])))
			return "it returned credits that it never had";
		p->acked[c] = h->done[c];
		some = some || n > 0;
	}
	if (some)
		tags_todo(e, p);
	else if (unlikely(h->kind == TAGS_CREDIT))
		return "it returned no credits";
	return NULL;
}

const char *
tags_tx_granted(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h)
{
	struct tags_tx *tx = h->id < e->nb_tx ? &e->txs[h->id] : NULL;

	if (unlikely(tx == NULL || tx->state != TAGS_TX_ASKED || tx->peer != p))
		return "it answered what it was not asked";
	if (likely(h->kind == TAGS_GRANT)) {
		TAILQ_REMOVE(&p->begun, tx, link);
		tx->state = TAGS_TX_GRANTED;
		tx->rid = (uint32_t)h->tag;
		TAILQ_INSERT_TAIL(&p->streams, tx, link);
		tags_todo(e, p);
		return NULL;
	}
	tx->state = TAGS_TX_SENT;
	tx->status = -EMSGSIZE;
	tx_check(e, tx);
	return NULL;
}

void
tags_tx_bye(struct tags_ep *e, struct tags_peer *p)
{
	p->leaving = true;
	if (!send_bye(e, p))
		tags_todo(e, p);
}

static void
drop_list(struct tags_ep *e, struct tags_tx_list *list, int status)
{
	struct tags_tx *tx, *next;

	for (tx = TAILQ_FIRST(list); tx != NULL; tx = next) {
		next = TAILQ_NEXT(tx, link);
		if (tx->state == TAGS_TX_ONESIDED)
			continue; /* the device's, and comes back */
		TAILQ_REMOVE(list, tx, link);
		tx_finish(e, tx, tx->status != 0 ? tx->status : status, 0);
	}
}

void
tags_tx_drop(struct tags_ep *e, struct tags_peer *p, int status)
{
	struct tags_iop *iop;

	if (p->todo) {
		TAILQ_REMOVE(&e->todo, p, link);
		p->todo = false;
	}
	while ((iop = STAILQ_FIRST(&p->built)) != NULL) {
		struct tags_tx *tx = iop->tx;

		STAILQ_REMOVE_HEAD(&p->built, link);
		if (tx != NULL && iop == &tx->onesided) {
			onesided_done(e, tx, status, 0);
			continue;
		}
		if (tx != NULL)
			tx->flying--;
		STAILQ_INSERT_HEAD(&e->free_segs, iop, link);
	}
	drop_list(e, &p->pending, status);
	drop_list(e, &p->begun, status);
	drop_list(e, &p->streams, status);
}
