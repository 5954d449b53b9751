/* SPDX-License-Identifier: BSD-3-Clause */

/* Large messages between processes, in chunks: see ring_move.h. Edges: see ring_shared.h. */

#include "ring_fast.h"

static_assert(offsetof(struct ring_chunk, data) == LEAT_CACHE_LINE, "a head in front of the bytes");

void
ring_violation(struct ring_ep *rep, struct ring_link *link, const char *what)
{
	if (link->moves.violation == NULL)
		link->moves.violation = what;
	/* Notes refer to slots, which ring_link_rx_off() puts out of reach. */
	ring_note_drop_all(rep, link);
	ring_link_rx_off(link);
	rep->rescan = true;
}

/* Make the peer look at the link, because this side has put chunks, or has taken chunks. */
static void
notify_peer(struct ring_link *link)
{
	ring_link_mark(link);
	ring_link_wake(link);
}

/* ---- lists of ops and answers whose bytes are to be put ---- */

static void
out_add(struct ring_moves *m, struct leat_op *op)
{
	struct ring_op *o = ring_op(op);

	o->next = NULL;
	o->prev = m->out_tail;
	if (m->out_tail != NULL)
		ring_op(m->out_tail)->next = op;
	else
		m->out_head = op;
	m->out_tail = op;
}

static void
out_del(struct ring_moves *m, struct leat_op *op)
{
	struct ring_op *o = ring_op(op);

	if (o->prev != NULL)
		ring_op(o->prev)->next = o->next;
	else
		m->out_head = o->next;
	if (o->next != NULL)
		ring_op(o->next)->prev = o->prev;
	else
		m->out_tail = o->prev;
}

static void
answer_add(struct ring_moves *m, struct ring_move *move)
{
	move->next = NULL;
	if (m->answers_tail != NULL)
		m->answers_tail->next = move;
	else
		m->answers = move;
	m->answers_tail = move;
}

static void
answer_pop(struct ring_moves *m)
{
	m->answers->kind = RING_MOVE_NONE;
	m->answers = m->answers->next;
	if (m->answers == NULL)
		m->answers_tail = NULL;
	m->nb--;
}

/* ---- put chunks ---- */

static bool
put_room(const struct ring_link *link)
{
	const struct ring_moves *m = &link->moves;

	/* edge FREE of a chunk: pairs with take_all(); the peer has read the chunk's content */
	return m->put - m->seen <= m->tx_mask ||
	       m->put - __atomic_load_n(&link->mine->chunks_taken, __ATOMIC_ACQUIRE) <= m->tx_mask;
}

static void
put(struct ring_link *link, uint16_t kind, uint64_t nr, const void *from, uint32_t len)
{
	struct ring_moves *m = &link->moves;
	struct ring_chunk *c = &m->tx[m->put & m->tx_mask];

	c->len = len;
	c->id = (uint16_t)nr;
	c->kind = kind;
	memcpy(c->data, from, len);
	/* edge PUBLISH of a chunk: pairs with take_all() */
	__atomic_store_n(&link->mine->chunks_put, ++m->put, __ATOMIC_RELEASE);
}

/* Put the next chunk of the first op in the list. */
static void
put_op(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_moves *m = &link->moves;
	struct leat_op *op = m->out_head;
	struct ring_op *o = ring_op(op);
	const uint64_t n = RTE_MIN(op->size - o->seq, (uint64_t)RING_CHUNK);

	put(link, RING_CHUNK_DATA, o->nr & link->tx_mask, (const char *)op->buf + o->seq,
	    (uint32_t)n);
	o->seq += n;
	if (o->seq < op->size)
		return;
	out_del(m, op);
	m->nb--;
	if (op->type >= LEAT_OP_WRITE)
		return; /* the peer acks a WRITE when it has the bytes */
	link->tx_ops[o->nr & link->tx_mask] = NULL;
	link->tx_unacked--;
	leat_op_finish(ep, op, 0, op->size);
}

/* Put the next chunk of the first answer. Check its region again: it may be deregistered by now. */
static void
put_answer(struct ring_ep *rep, struct ring_link *link)
{
	struct ring_moves *m = &link->moves;
	struct ring_move *a = m->answers;
	const uint64_t n = RTE_MIN(a->len - a->done, (uint64_t)RING_CHUNK);
	int status = ring_region_check(rep, a->key, a->addr + a->done, n, LEAT_MR_REMOTE_READ);

	if (status != 0) {
		ring_ack(link, a->nr, status, 0);
		answer_pop(m);
		return;
	}
	put(link, RING_CHUNK_ANSWER, a->nr & link->moves.in_mask,
	    (const void *)(uintptr_t)(a->addr + a->done), (uint32_t)n);
	a->done += n;
	if (a->done == a->len)
		answer_pop(m);
}

static void
put_all(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;
	struct ring_moves *m = &link->moves;
	uint32_t n;

	m->seen = __atomic_load_n(&link->mine->chunks_taken, __ATOMIC_ACQUIRE);
	for (n = 0; n < RING_CHUNKS_BUDGET; n++) {
		if ((m->out_head == NULL && m->answers == NULL) || m->put - m->seen > m->tx_mask)
			break;
		/* Ops and answers take turns, so that neither waits until the others have ended. */
		m->answer_next = !m->answer_next;
		if (m->answers != NULL && (m->answer_next || m->out_head == NULL))
			put_answer(rep, link);
		else
			put_op(ep, link);
		rep->copy_left -= RING_CHUNK;
	}
	if (n > 0)
		notify_peer(link);
}

/* ---- take chunks ---- */

static bool
take_recv(struct leat_ep *ep, struct ring_link *link, struct ring_move *in, const char *data,
	  uint32_t len)
{
	if (len > in->len - in->done)
		return false;
	memcpy((char *)in->op->buf + in->done, data, len);
	in->done += len;
	if (in->done < in->len)
		return true;
	in->kind = RING_MOVE_NONE;
	link->moves.nb--;
	leat_op_finish(ep, in->op, 0, in->len);
	return true;
}

static void
write_ready(struct ring_move *w, int status)
{
	w->ready = true;
	w->status = status;
}

static bool
take_write(struct ring_ep *rep, struct ring_move *w, const char *data, uint32_t len)
{
	int status;

	if (len > w->len - w->done)
		return false;
	status = ring_region_check(rep, w->key, w->addr + w->done, len, LEAT_MR_REMOTE_WRITE);
	if (status != 0) {
		write_ready(w, status);
		return true;
	}
	memcpy((void *)(uintptr_t)(w->addr + w->done), data, len);
	w->done += len;
	if (w->done == w->len)
		write_ready(w, 0);
	return true;
}

static bool
take_data(struct leat_ep *ep, struct ring_link *link, uint16_t id, const char *data, uint32_t len)
{
	struct ring_moves *m = &link->moves;

	if (m->write.kind == RING_MOVE_WRITE && (m->write.nr & link->moves.in_mask) == id)
		return m->write.ready || take_write(ep->drv, &m->write, data, len);
	/* If no SEND or WRITE in progress has this id, the message was given up: drop the chunk. */
	return m->in[id].kind != RING_MOVE_RECV || take_recv(ep, link, &m->in[id], data, len);
}

static bool
take_answer(struct leat_ep *ep, struct ring_link *link, uint16_t id, const char *data, uint32_t len)
{
	struct leat_op *op = link->tx_ops[id];
	struct ring_op *o;

	if (op == NULL || op->type != LEAT_OP_READ)
		return true; /* the READ was given up: drop the chunk */
	o = ring_op(op);
	if (op->size == 0 || len > op->size - o->seq)
		return false;
	memcpy((char *)op->buf + o->seq, data, len);
	o->seq += len;
	if (o->seq < op->size)
		return true;
	link->tx_ops[id] = NULL;
	link->tx_unacked--;
	link->moves.nb--;
	leat_op_finish(ep, op, 0, op->size);
	return true;
}

/* Take up to max of the chunks that were put. @return false: the peer broke the protocol */
static bool
take_all(struct leat_ep *ep, struct ring_link *link, uint32_t max)
{
	struct ring_moves *m = &link->moves;
	struct ring_ep *rep = ep->drv;
	uint64_t there = __atomic_load_n(&link->theirs->chunks_put, __ATOMIC_ACQUIRE) - m->taken;
	bool ok = there <= (uint64_t)m->rx_mask + 1;
	uint32_t n;

	for (n = 0; ok && n < there && n < max; n++) {
		const struct ring_chunk *c = &m->rx[m->taken & m->rx_mask];
		/* Read each field once: the peer may change it meanwhile. */
		uint32_t len = __atomic_load_n(&c->len, __ATOMIC_RELAXED);
		uint16_t id = __atomic_load_n(&c->id, __ATOMIC_RELAXED);

		if (len > RING_CHUNK)
			ok = false;
		else if (__atomic_load_n(&c->kind, __ATOMIC_RELAXED) == RING_CHUNK_DATA)
			ok = take_data(ep, link, id & (uint16_t)link->moves.in_mask, c->data, len);
		else
			ok = take_answer(ep, link, id & (uint16_t)link->tx_mask, c->data, len);
		rep->copy_left -= (int64_t)len;
		/* edge FREE of a chunk: pairs with put_room() and put_all() of the peer */
		__atomic_store_n(&link->theirs->chunks_taken, ++m->taken, __ATOMIC_RELEASE);
	}
	if (n > 0)
		notify_peer(link);
	if (!ok)
		ring_violation(rep, link, "it sent a chunk that belongs to no message");
	return ok;
}

/* ---- begin, run and end moves ---- */

void
ring_moves_run(struct leat_ep *ep, struct ring_link *link)
{
	if (take_all(ep, link, RING_CHUNKS_BUDGET))
		put_all(ep, link);
}

void
ring_moves_take(struct leat_ep *ep, struct ring_link *link)
{
	(void)take_all(ep, link, UINT32_MAX);
}

bool
ring_moves_ready(const struct ring_link *link)
{
	const struct ring_moves *m = &link->moves;

	if (m->violation != NULL)
		return false;
	if (__atomic_load_n(&link->theirs->chunks_put, __ATOMIC_RELAXED) != m->taken ||
	    m->write.ready)
		return true;
	return (m->out_head != NULL || m->answers != NULL) && put_room(link);
}

void
ring_move_recv(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t len,
	       struct leat_op *op)
{
	struct ring_move *in = &link->moves.in[nr & link->moves.in_mask];

	/* First drop chunks that an earlier message with the same number modulo slots left. */
	if (!take_all(ep, link, UINT32_MAX) || in->kind != RING_MOVE_NONE) {
		ring_violation(ep->drv, link, "it used the number of a message that is under way");
		leat_op_finish(ep, op, -ECONNRESET, 0);
		return;
	}
	*in = (struct ring_move){ .kind = RING_MOVE_RECV, .op = op, .len = len, .nr = nr };
	link->moves.nb++;
	ring_ack(link, nr, RING_GO, 0);
}

bool
ring_move_write(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key,
		uint64_t addr, uint64_t len, int *status)
{
	struct ring_move *w = &link->moves.write;

	if (w->kind == RING_MOVE_NONE) {
		if (!take_all(ep, link, UINT32_MAX))
			return false;
		*w = (struct ring_move){
			.kind = RING_MOVE_WRITE, .key = key, .addr = addr, .len = len, .nr = nr
		};
		link->moves.nb++;
		ring_ack(link, nr, RING_GO, 0);
		return false;
	}
	if (!w->ready)
		return false;
	w->kind = RING_MOVE_NONE;
	w->ready = false;
	link->moves.nb--;
	*status = w->status;
	return true;
}

void
ring_move_read(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key, uint64_t addr,
	       uint64_t len)
{
	struct ring_move *a = &link->moves.in[nr & link->moves.in_mask];

	if (!take_all(ep, link, UINT32_MAX) || a->kind != RING_MOVE_NONE) {
		ring_violation(ep->drv, link, "it used the number of a message that is under way");
		return;
	}
	*a = (struct ring_move){
		.kind = RING_MOVE_READ, .key = key, .addr = addr, .len = len, .nr = nr
	};
	answer_add(&link->moves, a);
	link->moves.nb++;
}

bool
ring_move_start(struct ring_link *link, struct leat_op *op)
{
	struct ring_op *o = ring_op(op);

	if (op->type == LEAT_OP_READ || op->type >= LEAT_OP_FETCH_ADD || op->size == 0 ||
	    o->seq != RING_NOT_REQUESTED)
		return false;
	o->seq = 0;
	out_add(&link->moves, op);
	link->moves.nb++;
	return true;
}

void
ring_move_acked(struct leat_ep *ep, struct ring_link *link, struct leat_op *op, int status)
{
	struct ring_op *o = ring_op(op);

	if (op->type == LEAT_OP_READ) {
		/* Drop a failed READ's chunks: a later op with the same id must not get them. */
		if (status != 0)
			(void)take_all(ep, link, UINT32_MAX);
		link->moves.nb -= op->size > 0;
	} else if (o->seq != RING_NOT_REQUESTED && o->seq < op->size) {
		out_del(&link->moves, op);
		link->moves.nb--;
	}
}

bool
ring_moves_has(const struct ring_link *link, const struct leat_op *op)
{
	uint32_t i;

	for (i = 0; i <= link->moves.in_mask; i++) {
		if (link->moves.in[i].kind == RING_MOVE_RECV && link->moves.in[i].op == op)
			return true;
	}
	return false;
}

void
ring_moves_end_recvs(struct leat_ep *ep, struct ring_link *link, int status)
{
	struct ring_moves *m = &link->moves;
	uint32_t i;

	for (i = 0; m->nb > 0 && i <= link->moves.in_mask; i++) {
		if (m->in[i].kind != RING_MOVE_RECV)
			continue;
		m->in[i].kind = RING_MOVE_NONE;
		m->nb--;
		leat_op_finish(ep, m->in[i].op, status, 0);
	}
}

void
ring_moves_end(struct leat_ep *ep, struct ring_link *link, int status)
{
	struct ring_moves *m = &link->moves;

	ring_moves_end_recvs(ep, link, status);
	while (m->answers != NULL)
		answer_pop(m);
	while (m->out_head != NULL)
		out_del(m, m->out_head);
	m->write.kind = RING_MOVE_NONE;
	m->write.ready = false;
	m->nb = 0;
}
