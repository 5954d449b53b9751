/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sending. A peer to which something may be sent is on the endpoint's todo list. If the device has
 * no room for an op to it, the peer is on the refused list, from which each poll tries a few peers
 * again. The peer's replies and ops are built into segments as far as credits and free segments
 * allow, in this order:
 *
 *     replies | streams | pending | CREDIT, if credits are due that no header before it returned
 *
 * Segments go to the device in bursts. One-sided ops except WRITE_IMM need no credit. They go after
 * the segments built so far, ahead of TSENDs that wait for credits. So a WRITE and a SEND posted
 * after it arrive in this order. On a device that keeps the order of writes the layer keeps it as
 * well, since one-sided ops wait behind a pending SEND or WRITE_IMM.
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
	if (p->queued != TAGS_Q_NONE)
		return;
	p->queued = TAGS_Q_TODO;
	TAILQ_INSERT_TAIL(&e->todo, p, link);
}

static void
dequeue(struct tags_ep *e, struct tags_peer *p)
{
	if (p->queued == TAGS_Q_TODO)
		TAILQ_REMOVE(&e->todo, p, link);
	else if (p->queued == TAGS_Q_REFUSED)
		TAILQ_REMOVE(&e->refused, p, link);
	p->queued = TAGS_Q_NONE;
}

/* ---- building ---- */

static inline bool
is_onesided(const struct tags_iop *iop)
{
	return iop->op.type != LEAT_OP_SEND;
}

/* Return the list from which the next segment is taken, or NULL: there is no free segment. */
static inline struct tags_iop_list *
free_segs(struct tags_ep *e, struct tags_peer *p)
{
	if (likely(!STAILQ_EMPTY(&p->place->free)))
		return &p->place->free;
	if (unlikely(STAILQ_EMPTY(&e->shared) || p->in_use >= TAGS_SENDS))
		return NULL;
	return &e->shared;
}

static inline void
seg_put(struct tags_ep *e, struct tags_iop *iop)
{
	struct tags_iop_list *list = iop->place != NULL ? &iop->place->free : &e->shared;

	iop->peer->in_use--;
	STAILQ_INSERT_HEAD(list, iop, link);
}

/* Build a segment; the caller knows that one is free. */
static void
build(struct tags_ep *e, struct tags_peer *p, struct tags_hdr *h, struct tags_tx *tx,
      const void *payload, uint32_t bytes)
{
	struct tags_iop_list *list = free_segs(e, p);
	struct tags_iop *iop = STAILQ_FIRST(list);
	unsigned int c = tags_kind_class(h->kind);
	uint32_t hdr_len = tags_hdr_len(h->flags);
	uint8_t *buf = iop->op.buf;

	STAILQ_REMOVE_HEAD(list, link);
	p->in_use++;
	h->seq = p->tx_seq++;
	h->token = p->token;
	memcpy(h->done, p->done, sizeof(h->done));
	memcpy(p->returned, p->done, sizeof(p->returned));
	tags_hdr_build(buf, h);
	if (bytes > 0)
		rte_memcpy(buf + hdr_len, payload, bytes);
	iop->op.size = hdr_len + bytes;
	iop->op.peer = p->id;
	iop->peer = p;
	iop->tx = tx;
	if (tx != NULL) {
		tx->nb_inflight++;
		tx->sent += bytes;
	}
	if (c < TAGS_CLASSES)
		p->sent[c]++;
	STAILQ_INSERT_TAIL(&p->built, iop, link);
}

/* Is the op one of those that leat_dev_info.write_order keeps in order? TSENDs are not. */
static inline bool
is_ordered(const struct tags_tx *tx)
{
	return tx->op->type != LEAT_OP_TSEND;
}

static void
pending_add(struct tags_peer *p, struct tags_tx *tx)
{
	tx->state = TAGS_TX_PENDING;
	TAILQ_INSERT_TAIL(&p->pending, tx, link);
	p->nb_ordered += is_ordered(tx);
}

static void
pending_del(struct tags_peer *p, struct tags_tx *tx)
{
	TAILQ_REMOVE(&p->pending, tx, link);
	p->nb_ordered -= is_ordered(tx);
}

/* Check whether an op uses up a bounce buffer of the peer. */
static inline bool
needs_credit(const struct leat_op *op)
{
	return op->type <= LEAT_OP_TSEND || op->type == LEAT_OP_WRITE_IMM;
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
build_pending(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx)
{
	const struct leat_op *op = tx->op;
	struct tags_hdr h = { .kind = TAGS_EAGER, .total = op->size };

	pending_del(p, tx);
	if (unlikely(!needs_credit(op))) {
		build_onesided(p, tx);
		return;
	}
	if (unlikely(op->type == LEAT_OP_WRITE_IMM)) {
		p->sent[TAGS_C_MSG]++;
		build_onesided(p, tx);
		if (e->notice_token)
			tx->onesided.op.imm = tags_notice_imm(p->token, op->imm);
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
credit_due(const struct tags_ep *e, const struct tags_peer *p)
{
	unsigned int c;

	for (c = 0; c < TAGS_CLASSES; c++)
		if ((uint16_t)(p->done[c] - p->returned[c]) >= (e->window[c] + 1) / 2)
			return true;
	return false;
}

enum built { BUILT, NOTHING, NO_SEGMENT };

static enum built
build_next(struct tags_ep *e, struct tags_peer *p)
{
	bool reply = !TAILQ_EMPTY(&p->replies) && credits(p, TAGS_C_REPLY) > 0;
	bool data = !TAILQ_EMPTY(&p->streams) && credits(p, TAGS_C_DATA) > 0;
	struct tags_tx *first = TAILQ_FIRST(&p->pending);
	bool pending = first != NULL && (credits(p, TAGS_C_MSG) > 0 || !needs_credit(first->op));
	struct tags_hdr h = { .kind = TAGS_CREDIT };

	if (!reply && !data && !pending && !credit_due(e, p))
		return NOTHING;
	if (unlikely(free_segs(e, p) == NULL))
		return NO_SEGMENT;
	if (reply)
		build_reply(e, p, TAILQ_FIRST(&p->replies));
	else if (data)
		build_data(e, p, TAILQ_FIRST(&p->streams));
	else if (pending)
		build_pending(e, p, first);
	else
		build(e, p, &h, NULL, NULL, 0);
	return BUILT;
}

/* ---- posting to the device ---- */

/* Collect the next ops for the device; one-sided ops must not take the room meant for segments. */
static uint16_t
gather(const struct tags_ep *e, const struct tags_peer *p, struct leat_op **ops)
{
	uint32_t room = e->onesided_max - e->nb_onesided;
	struct tags_iop *iop;
	uint16_t n = 0;

	STAILQ_FOREACH(iop, &p->built, link) {
		if (unlikely(is_onesided(iop)) && room-- == 0)
			break;
		ops[n++] = &iop->op;
		if (n == TAGS_BURST)
			break;
	}
	return n;
}

/* Post the built ops. @return false if the device has no room for all of them */
static bool
flush(struct tags_ep *e, struct tags_peer *p)
{
	struct leat_op *ops[TAGS_BURST];
	uint16_t i, n, took;

	/*
	 * Post bounce buffers first: the headers return credits for these buffers, so the device
	 * must have them before it has the headers.
	 */
	tags_repost(e);
	while (!STAILQ_EMPTY(&p->built)) {
		n = gather(e, p, ops);
		took = n > 0 ? leat_ep_post(e->inner, ops, n) : 0;
		for (i = 0; i < took; i++) {
			if (unlikely(is_onesided(STAILQ_FIRST(&p->built))))
				e->nb_onesided++;
			STAILQ_REMOVE_HEAD(&p->built, link);
		}
		if (unlikely(took < n || n == 0))
			return false;
	}
	return true;
}

/* Send BYE. @return false if it has to wait for the device */
static bool
send_bye(struct tags_ep *e, struct tags_peer *p)
{
	struct tags_hdr h = { .kind = TAGS_BYE };

	if (!p->bye_built) {
		const struct tags_iop_list *list = free_segs(e, p);

		p->bye_iop = list != NULL ? STAILQ_FIRST(list) : NULL;
		p->starved = p->bye_iop == NULL;
		p->bye_built = p->bye_iop != NULL;
		if (p->bye_built)
			build(e, p, &h, NULL, NULL, 0);
	}
	return flush(e, p);
}

/* Send whatever may be sent. @return false if something has to wait for the device */
static bool
send_all(struct tags_ep *e, struct tags_peer *p)
{
	enum built what;
	unsigned int n;

	if (unlikely(p->leaving))
		return p->state == TAGS_P_ACCEPTED || send_bye(e, p);
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
	p->starved = what == NO_SEGMENT;
	return true;
}

void
tags_todo_run(struct tags_ep *e)
{
	TAILQ_HEAD(, tags_peer) now = TAILQ_HEAD_INITIALIZER(now);
	struct tags_peer *p;
	unsigned int i;

	/*
	 * Try only some of the refused peers, since trying all in each poll would slow down the
	 * other peers.
	 */
	for (i = 0; i < TAGS_RETRIES && (p = TAILQ_FIRST(&e->refused)) != NULL; i++) {
		TAILQ_REMOVE(&e->refused, p, link);
		TAILQ_INSERT_TAIL(&now, p, link);
	}
	TAILQ_CONCAT(&now, &e->todo, link);
	while ((p = TAILQ_FIRST(&now)) != NULL) {
		TAILQ_REMOVE(&now, p, link);
		p->queued = TAGS_Q_NONE;
		if (likely(send_all(e, p)))
			continue;
		/*
		 * Building a reply frees a buffer, which may have put the peer on the todo list.
		 * Take it off that list.
		 */
		dequeue(e, p);
		p->queued = TAGS_Q_REFUSED;
		TAILQ_INSERT_TAIL(&e->refused, p, link);
	}
}

/* ---- ops of the caller ---- */

void
tags_tx_add(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx, struct leat_op *op)
{
	op->drv_ctx = tx;
	tx->op = op;
	tx->peer = p;
	tx->sent = 0;
	tx->nb_inflight = 0;
	tx->status = 0;
	if (needs_credit(op) || unlikely(e->write_order && p->nb_ordered > 0))
		pending_add(p, tx);
	else
		build_onesided(p, tx);
	tags_todo(e, p);
}

static void
tx_free(struct tags_ep *e, struct tags_tx *tx)
{
	tx->op = NULL;
	tx->state = TAGS_TX_FREE;
	TAILQ_INSERT_HEAD(&e->free_tx, tx, link);
}

/* Finish the caller's op. tx is on no list. */
static void
tx_finish(struct tags_ep *e, struct tags_tx *tx, int status, uint64_t len)
{
	struct leat_op *op = tx->op;

	tx->op = NULL;
	if (tx->nb_inflight == 0)
		tx_free(e, tx);
	leat_op_finish(e->outer, op, status, len);
}

static void
tx_check(struct tags_ep *e, struct tags_tx *tx)
{
	if (tx->nb_inflight > 0)
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

	/* An op that failed or was recalled used no receive of the peer: take its credit back. */
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
		tags_peer_check(e, p);
	/* The completion made room, so let the peer try again. */
	if (unlikely(p->starved || p->queued == TAGS_Q_REFUSED)) {
		p->starved = false;
		dequeue(e, p);
		tags_todo(e, p);
	}
	if (unlikely(is_onesided(iop))) {
		e->nb_onesided--;
		onesided_done(e, tx, status, iop->op.len);
		return;
	}
	seg_put(e, iop);
	if (unlikely(iop == p->bye_iop)) {
		p->bye_iop = NULL;
		p->bye_sent = true;
		tags_peer_bye_done(e, p);
	}
	if (tx != NULL) {
		tx->nb_inflight--;
		if (unlikely(status < 0) && tx->status == 0)
			tx->status = status == -EMSGSIZE ? -EREMOTEIO : status;
		tx_check(e, tx);
	}
	/*
	 * A send usually fails because the connection is ending. Then the event to come has the
	 * reason. It also fails when a peer that has said BYE does not wait for this side's BYE.
	 * End the connection only in other cases.
	 */
	if (unlikely(status < 0) && p->state == TAGS_P_UP && !p->bye &&
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
		pending_del(p, tx);
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
	return ret == -ENOENT || ret == -EALREADY ? 0 : ret; /* 0: the op is coming back already */
}

/* ---- answers and credits of the peer ---- */

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
		return "it answered a message that waits for no answer";
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
	if (p->state != TAGS_P_ACCEPTED && !send_bye(e, p))
		tags_todo(e, p);
}

static void
drop_list(struct tags_ep *e, struct tags_tx_list *list, int status)
{
	struct tags_tx *tx, *next;

	for (tx = TAILQ_FIRST(list); tx != NULL; tx = next) {
		next = TAILQ_NEXT(tx, link);
		if (tx->state == TAGS_TX_ONESIDED)
			continue; /* the device has the op, and will give it back */
		TAILQ_REMOVE(list, tx, link);
		tx_finish(e, tx, tx->status != 0 ? tx->status : status, 0);
	}
}

void
tags_tx_drop(struct tags_ep *e, struct tags_peer *p, int status)
{
	struct tags_iop_list built = STAILQ_HEAD_INITIALIZER(built);
	struct tags_iop *iop;

	/*
	 * Built segments hold copies and already have their seq, so they are sent, and BYE follows.
	 */
	STAILQ_CONCAT(&built, &p->built);
	while ((iop = STAILQ_FIRST(&built)) != NULL) {
		STAILQ_REMOVE_HEAD(&built, link);
		if (is_onesided(iop))
			onesided_done(e, iop->tx, status, 0);
		else
			STAILQ_INSERT_TAIL(&p->built, iop, link);
	}
	drop_list(e, &p->pending, status);
	p->nb_ordered = 0;
	drop_list(e, &p->begun, status);
	drop_list(e, &p->streams, status);
}

void
tags_tx_stop(struct tags_ep *e, struct tags_peer *p, int status)
{
	struct tags_iop *iop;

	tags_tx_drop(e, p, status);
	dequeue(e, p);
	p->starved = false;
	while ((iop = STAILQ_FIRST(&p->built)) != NULL) {
		struct tags_tx *tx = iop->tx;

		STAILQ_REMOVE_HEAD(&p->built, link);
		seg_put(e, iop);
		if (iop == p->bye_iop)
			p->bye_iop = NULL;
		if (tx == NULL)
			continue;
		tx->nb_inflight--;
		tx_check(e, tx);
	}
}
