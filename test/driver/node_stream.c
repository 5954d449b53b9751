/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Streams of ops made by one rule: prepare them, post them in bursts of changing size, check them
 * when they have completed.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <leat_ep_pvt.h>
#include <leat_error.h>
#include <leat_time.h>

#include "node.h"
#include "pattern.h"

uint64_t
ct_stream_size(const struct ct_spec *spec, uint32_t i)
{
	if (spec->size_max == 0)
		return spec->size;
	return spec->size + ct_mix(spec->seed + i + 77) % (spec->size_max - spec->size + 1);
}

static bool
is_recv(unsigned int type)
{
	return type == LEAT_OP_RECV || type == LEAT_OP_TRECV;
}

static bool
is_outbound(unsigned int type)
{
	return type == LEAT_OP_SEND || type == LEAT_OP_TSEND || type == LEAT_OP_WRITE ||
	       type == LEAT_OP_WRITE_IMM;
}

/* @return a free stream or, if none is free, the stream that ended longest ago */
static struct ct_stream *
stream_get(struct ct_node *n)
{
	uint32_t i;

	if (n->nb_streams < CT_STREAMS)
		return &n->streams[n->nb_streams++];
	for (i = 0; i < CT_STREAMS; i++) {
		struct ct_stream *s = &n->streams[n->next_stream++ % CT_STREAMS];

		if (s->res.done == s->spec.count)
			return s;
	}
	return NULL;
}

int
ct_stream_start(struct ct_node *n, const struct ct_spec *spec)
{
	struct ct_stream *s = stream_get(n);

	if (s == NULL)
		return leat_err(ENOSPC, "harness: too many streams");
	memset(s, 0, sizeof(*s));
	s->spec = *spec;
	s->start = leat_now();
	s->cas_next = spec->compare;
	return (int)(s - n->streams);
}

static uint32_t
queue_id(const struct ct_node *n, const struct leat_op *op, uint32_t queue)
{
	if (queue >= CT_Q_OWN)
		return 2 + queue - CT_Q_OWN;
	if (queue == CT_Q_NONE)
		return 0;
	if (is_recv(op->type))
		return 1;
	return op->peer < n->conf.max_peers ? 2u + CT_QUEUES + op->peer : 0;
}

static struct ct_slot *
prepare(struct ct_node *n, struct ct_stream *s)
{
	const struct ct_spec *spec = &s->spec;
	struct ct_slot *slot = n->free_slots;
	uint32_t i = s->made;
	struct leat_op *op;
	uint64_t size;

	if (slot == NULL && n->nb_fresh == n->nb_slots)
		return NULL;
	if (slot == NULL)
		slot = &n->slots[n->nb_fresh];
	op = &slot->op;
	slot->size = ct_stream_size(spec, i);
	size = slot->size;
	if (is_recv(spec->type))
		size = spec->bufsize != 0 ? spec->bufsize : ct_size_max(spec);
	/* An op of more than CT_BUF_MAX must fail, so a small buffer will do. */
	slot->buf = size > 0 ? ct_buf_get(n, size > CT_BUF_MAX ? 64 : size) : NULL;
	if (size > 0 && slot->buf == NULL) {
		ct_node_fault(n, "harness: no buffer of %" PRIu64 " B", size);
		return NULL;
	}
	if (n->free_slots == slot)
		n->free_slots = slot->next;
	else
		n->nb_fresh++;
	if (slot->buf != NULL && is_outbound(spec->type) && size <= CT_BUF_MAX)
		ct_fill(slot->buf->raw + CT_GUARD, size, spec->seed + i, 0);

	op->type = spec->type;
	op->flags = spec->flags;
	op->peer = spec->peer;
	op->buf = slot->buf != NULL ? slot->buf->raw + CT_GUARD : NULL;
	op->size = size;
	op->mr = slot->buf != NULL ? slot->buf->mr : NULL;
	op->tag = is_recv(spec->type) || spec->type == LEAT_OP_TSEND
			  ? spec->tag + i * spec->tag_step
			  : spec->raddr + i * spec->rstride;
	op->ignore = is_recv(spec->type) || spec->type == LEAT_OP_TSEND ? spec->ignore : spec->rkey;
	op->imm = spec->type >= LEAT_OP_FETCH_ADD ? spec->operand : spec->imm + i;
	op->compare = spec->compare;
	op->user = slot;
	if ((spec->check & CT_CASLOOP) != 0) {
		op->compare = s->cas_next;
		op->operand = s->cas_next + 1;
	}
	if (spec->queue == CT_Q_DEFAULT)
		op->queue = NULL;
	else if (spec->queue == CT_Q_NONE)
		op->queue = LEAT_QUEUE_NONE;
	else
		op->queue = &n->queues[spec->queue - CT_Q_OWN];
	if (spec->timeout_us != 0) {
		op->flags |= LEAT_OP_F_DEADLINE;
		op->deadline = leat_now() + leat_us_to_cycles(spec->timeout_us);
	}
	if (spec->bad == CT_BAD_NOBUF)
		op->buf = NULL;
	else if (spec->bad == CT_BAD_NOMR)
		op->mr = NULL;
	else if (spec->bad == CT_BAD_PAST)
		op->deadline = 1;
	if (spec->bad == CT_BAD_PAST)
		op->flags |= LEAT_OP_F_DEADLINE;
	slot->stream = (uint16_t)(s - n->streams);
	slot->idx = i;
	slot->qid = queue_id(n, op, spec->queue);
	slot->where = CT_PREPARED;
	s->made++;
	return slot;
}

/* Compare as bytes, padding included: one object is a copy of the other's bytes. */
static bool
same_bytes(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n) == 0;
}

uint16_t
ct_node_post(struct ct_node *n, struct ct_slot **slots, uint16_t nb)
{
	struct leat_op *ops[CT_BURST];
	uint16_t i, got;

	for (i = 0; i < nb; i++) {
		ops[i] = &slots[i]->op;
		memcpy(&slots[i]->in, &slots[i]->op, sizeof(slots[i]->in));
	}
	/* leat_ep_post_soon() is only a hint: it does no harm, even with a free peer id. */
	if (nb > 0 && n->nb_posted % 2 == 0)
		leat_ep_post_soon(n->ep, ops[0]->peer);
	rte_errno = 0;
	got = leat_ep_post(n->ep, ops, nb);
	if (got > nb) {
		ct_node_fault(n, "post of %u ops says that it accepted %u", nb, got);
		got = nb;
	}
	for (i = 0; i < got; i++) {
		slots[i]->where = CT_POSTED;
		if (slots[i]->qid != 0)
			slots[i]->qseq = n->order[slots[i]->qid].posted++;
		n->nb_posted++;
		n->streams[slots[i]->stream].res.posted++;
	}
	for (; i < nb; i++)
		if (!same_bytes(&slots[i]->in, &slots[i]->op, sizeof(slots[i]->in)))
			ct_node_fault(n, "post refused an op and changed it");
	if (got < nb && rte_errno != EAGAIN && rte_errno != ESHUTDOWN)
		ct_node_fault(n, "post refused an op with rte_errno %d (%s)", rte_errno,
			      strerror(rte_errno));
	return got;
}

bool
ct_stream_pump(struct ct_node *n, struct ct_stream *s)
{
	uint32_t burst, inflight = s->res.posted - s->res.done, want;
	uint16_t got;

	if (s->stalled)
		return false;
	if ((s->spec.check & CT_CASLOOP) != 0) {
		/* One at a time: the next compare value depends on what this op found. */
		if (inflight > 0 || s->res.ok >= s->spec.count)
			return false;
		burst = 1;
	} else {
		burst = 1 + (uint32_t)(ct_random(&n->rnd) % CT_BURST);
		want = s->spec.count - s->made + s->nb_pend;
		burst = RTE_MIN(burst, want);
		if (s->spec.window != 0)
			burst = inflight >= s->spec.window
					? 0
					: RTE_MIN(burst, s->spec.window - inflight);
	}
	while (s->nb_pend < burst) {
		struct ct_slot *slot = prepare(n, s);

		if (slot == NULL)
			break;
		s->pend[s->nb_pend++] = slot;
	}
	burst = RTE_MIN(burst, s->nb_pend);
	if (burst == 0)
		return false;
	got = ct_node_post(n, s->pend, (uint16_t)burst);
	if (got < burst && rte_errno == ESHUTDOWN)
		s->stalled = true;
	s->nb_pend -= got;
	memmove(s->pend, s->pend + got, s->nb_pend * sizeof(s->pend[0]));
	return got > 0;
}

static void __attribute__((format(printf, 3, 4)))
wrong(struct ct_stream *s, const struct ct_slot *slot, const char *fmt, ...)
{
	va_list ap;
	int k;

	if (s->res.wrong++ > 0)
		return;
	k = snprintf(s->res.text, sizeof(s->res.text), "%s %u: ", leat_op_type_name(slot->op.type),
		     slot->idx);
	va_start(ap, fmt);
	vsnprintf(s->res.text + k, sizeof(s->res.text) - (size_t)k, fmt, ap);
	va_end(ap);
}

static bool
check_message(struct ct_node *n, struct ct_stream *s, const struct ct_slot *slot)
{
	const struct ct_spec *spec = &s->spec;
	const struct leat_op *op = &slot->op;
	const uint8_t *data = op->buf;
	uint64_t seed = spec->seed + slot->idx, mask = UINT64_MAX;
	int64_t bad;

	if (n->info.imm_size < 8)
		mask = (UINT64_C(1) << n->info.imm_size * 8) - 1;
	if ((op->oflags & LEAT_OP_F_WRITTEN) != 0) {
		if (op->len != 0 && op->len != slot->size)
			return wrong(s, slot, "%" PRIu64 " B written, expected %" PRIu64, op->len,
				     slot->size),
			       false;
	} else if ((spec->check & CT_SELF) != 0) {
		uint64_t w;

		if (op->len < 8)
			return wrong(s, slot, "%" PRIu64 " B are too short", op->len), false;
		memcpy(&w, data, 8);
		seed = ct_unmix(w);
		s->res.sum += seed;
		s->res.sumsq += seed * seed;
		bad = ct_verify(data, op->len, seed, 0);
		if (bad >= 0)
			return wrong(s, slot,
				     "byte %" PRId64 " of %" PRIu64 " is wrong (seed %" PRIx64 ")",
				     bad, op->len, seed),
			       false;
	} else if ((spec->check & CT_DATA) != 0) {
		if (op->len != slot->size) {
			uint64_t w = 0;

			memcpy(&w, data, op->len >= 8 ? 8 : 0);
			return wrong(s, slot,
				     "%" PRIu64 " B arrived (seed %" PRIx64 "), expected %" PRIu64
				     " (seed %" PRIx64 ")",
				     op->len, op->len >= 8 ? ct_unmix(w) : 0, slot->size, seed),
			       false;
		}
		bad = ct_verify(data, op->len, seed, 0);
		if (bad >= 0) {
			uint64_t w = 0;

			memcpy(&w, data, RTE_MIN(op->len, (uint64_t)8));
			return wrong(s, slot,
				     "byte %" PRId64 " of %" PRIu64 " is wrong (seed %" PRIx64
				     ", expected %" PRIx64 ")",
				     bad, op->len, op->len >= 8 ? ct_unmix(w) : 0, seed),
			       false;
		}
	}
	if ((spec->check & CT_IMM) != 0 &&
	    ((op->oflags & LEAT_OP_F_IMM) == 0 || op->imm != ((spec->imm + slot->idx) & mask)))
		return wrong(s, slot, "imm %" PRIx64 " (flags %x), expected %" PRIx64, op->imm,
			     op->oflags, (spec->imm + slot->idx) & mask),
		       false;
	if ((spec->check & CT_SELF) == 0 && (op->oflags & LEAT_OP_F_IMM) != 0) {
		s->res.sum += op->imm;
		s->res.sumsq += op->imm * op->imm;
	}
	if ((spec->check & CT_TAG) != 0 && op->tag_in != spec->tag + slot->idx * spec->tag_step)
		return wrong(s, slot, "tag %" PRIx64 ", expected %" PRIx64, op->tag_in,
			     spec->tag + slot->idx * spec->tag_step),
		       false;
	if ((spec->check & CT_SRC) != 0 && op->src != spec->src)
		return wrong(s, slot, "src %u, expected %u", op->src, spec->src), false;
	return true;
}

static bool
check_result(struct ct_node *n, struct ct_stream *s, const struct ct_slot *slot)
{
	const struct ct_spec *spec = &s->spec;
	const struct leat_op *op = &slot->op;
	uint64_t old;
	int64_t bad;

	if (is_recv(op->type))
		return check_message(n, s, slot);
	if (op->len != op->size)
		return wrong(s, slot, "len %" PRIu64 ", expected %" PRIu64, op->len, op->size),
		       false;
	if (op->type == LEAT_OP_READ && (spec->check & CT_DATA) != 0) {
		bad = ct_verify(op->buf, op->len, spec->seed,
				spec->off + slot->idx * spec->rstride);
		if (bad >= 0)
			return wrong(s, slot, "byte %" PRId64 " of %" PRIu64 " is wrong", bad,
				     op->len),
			       false;
	}
	if (op->type < LEAT_OP_FETCH_ADD)
		return true;
	memcpy(&old, op->buf, 8);
	s->res.sum += old;
	s->res.sumsq += old * old;
	if ((spec->check & CT_CASLOOP) != 0) {
		bool took = old == slot->in.compare;

		s->cas_next = took ? old + 1 : old;
		return took;
	}
	if ((spec->check & CT_OLD) != 0 && old != spec->compare + slot->idx * spec->operand)
		return wrong(s, slot, "old value %" PRIx64 ", expected %" PRIx64, old,
			     spec->compare + slot->idx * spec->operand),
		       false;
	return true;
}

static void
count_status(struct ct_result *r, int32_t status)
{
	uint32_t i;

	for (i = 0; i < r->nb_stat && r->stat[i].status != status; i++)
		;
	if (i == CT_STATS)
		return;
	if (i == r->nb_stat) {
		r->stat[i].status = status;
		r->stat[i].count = 0;
		r->nb_stat++;
	}
	r->stat[i].count++;
}

void
ct_stream_done(struct ct_node *n, struct ct_slot *slot)
{
	struct ct_stream *s = &n->streams[slot->stream];
	const struct leat_op *op = &slot->op;
	struct ct_result *r = &s->res;

	r->last_ns = leat_cycles_to_ns(leat_now() - s->start);
	if (r->done++ == 0)
		r->first_ns = r->last_ns;
	if (op->status == 0) {
		r->nb_imm += (op->oflags & LEAT_OP_F_IMM) != 0;
		r->nb_written += (op->oflags & LEAT_OP_F_WRITTEN) != 0;
		if (check_result(n, s, slot))
			r->ok++;
	} else {
		count_status(r, op->status);
		if (op->status > 0)
			ct_node_fault(n, "an op came back with status %d", op->status);
	}
	r->last_idx = slot->idx;
	r->last_status = op->status;
	r->last_len = op->len;
	r->last_imm = op->imm;
	r->last_tag = op->tag_in;
	r->last_src = op->src;
	r->last_oflags = op->oflags;
	if (slot->buf != NULL) {
		if (!is_outbound(op->type) && op->size <= CT_BUF_MAX &&
		    !ct_buf_guards_ok(slot->buf, op->size))
			ct_node_fault(n, "%s of %" PRIu64 " B wrote outside of its buffer",
				      leat_op_type_name(op->type), op->size);
		slot->buf->type = op->type;
		slot->buf->status = op->status;
		ct_buf_put(n, slot->buf, op->size > CT_BUF_MAX ? 64 : op->size);
		slot->buf = NULL;
	}
	slot->where = CT_FREE;
	slot->next = n->free_slots;
	n->free_slots = slot;
}
