/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory descriptors, and transfers from and to the memory: see rpc_bulk.h. */

#include <stdio.h>
#include <stdlib.h>

#include <leat_mr.h>
#include <leat_task.h>

#include "rpc_bulk.h"

/* Maximum number of segments of a transfer under way at a time. */
#define AT_ONCE 8

/* ---- descriptors ---- */

bool
rpc_bulk_valid(const struct leat_rpc_req *req)
{
	unsigned int i;

	if (likely((req->flags & LEAT_RPC_BULK) == 0))
		return true;
	if (req->nb_bulk == 0 || req->nb_bulk > LEAT_RPC_BULK_MAX || req->bulk == NULL ||
	    (req->flags & LEAT_RPC_ONEWAY) != 0)
		return false;
	for (i = 0; i < req->nb_bulk; i++) {
		const uint32_t access = req->bulk[i].access;

		if (req->bulk[i].addr == NULL || req->bulk[i].len == 0 || access == 0 ||
		    (access & ~(uint32_t)(LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH)) != 0)
			return false;
	}
	return true;
}

int
rpc_bulk_describe(const struct leat_rpc_session *s, struct leat_rpc_req *req, uint8_t *at)
{
	struct rpc_desc d[LEAT_RPC_BULK_MAX];
	struct leat_rkey rkey;
	unsigned int i;
	int ret;

	for (i = 0; i < req->nb_bulk; i++) {
		const struct leat_rpc_bulk *b = &req->bulk[i];

		d[i] = (struct rpc_desc){ .len = b->len, .access = b->access };
		/* Memory without a key is reached by messages: don't tell the peer its address. */
		if (b->mr == NULL || s->rpc->datagram)
			continue;
		ret = leat_mr_rkey(b->mr, b->addr, b->len, &rkey);
		if (ret < 0)
			return ret;
		d[i].addr = rkey.addr;
		d[i].key = rkey.key;
		d[i].access |= LEAT_RPC_BULK_KEYED;
		req->held = RPC_HELD;
	}
	rpc_descs_put(at, d, req->nb_bulk);
	return 0;
}

bool
rpc_bulk_arrived(struct rpc_handling *h)
{
	struct rpc_desc d[LEAT_RPC_BULK_MAX];
	const int n = rpc_descs_get(h->call.req, h->call.len, d);

	if (n < 0)
		return false;
	h->call.descs = h->call.req;
	h->call.nb_bulk = (uint8_t)n;
	h->call.req = (const uint8_t *)h->call.req + rpc_bulk_len((uint32_t)n);
	h->call.len -= rpc_bulk_len((uint32_t)n);
	return true;
}

/* Read descriptor i of a request. @return false: no such descriptor */
static bool
desc_of(const struct leat_rpc_incoming *call, unsigned int i, struct rpc_desc *desc)
{
	struct rpc_desc d[LEAT_RPC_BULK_MAX];

	if (i >= call->nb_bulk || rpc_descs_get(call->descs, rpc_bulk_len(call->nb_bulk), d) < 0)
		return false;
	*desc = d[i];
	return true;
}

uint64_t
leat_rpc_incoming_bulk(const struct leat_rpc_incoming *call, unsigned int i, uint32_t *access)
{
	struct rpc_desc d = { 0 };

	(void)desc_of(call, i, &d);
	if (access != NULL)
		*access = d.access & ~(uint32_t)LEAT_RPC_BULK_KEYED;
	return d.len;
}

/* ---- segments ---- */

int
rpc_segments_alloc(struct leat_rpc *rpc, uint32_t n)
{
	const size_t each = RTE_ALIGN_CEIL(sizeof(struct rpc_segment), (size_t)LEAT_CACHE_LINE);
	struct rpc_segment *seg = aligned_alloc(LEAT_CACHE_LINE, n * each);
	uint8_t *buf = calloc(n, rpc->packet);
	uint32_t i;

	rpc->segments_base = (uintptr_t)seg;
	rpc->segments_len = n * each;
	rpc->mem_segment_bufs = buf;
	if (seg == NULL || buf == NULL)
		return -ENOMEM;
	memset(seg, 0, n * each);
	rpc->stats.memory += n * (each + rpc->packet);
	for (i = 0; i < n; i++) {
		seg[i].buf = buf + (size_t)i * rpc->packet;
		seg[i].next = rpc->free_segments;
		rpc->free_segments = &seg[i];
	}
	return 0;
}

static void
segment_free(struct rpc_segment *seg)
{
	struct leat_rpc *rpc = seg->t->rpc;

	seg->t = NULL;
	seg->next = rpc->free_segments;
	rpc->free_segments = seg;
}

/* Post the READ or WRITE of a segment. @return false: the endpoint has no room */
static bool
op_post(struct rpc_segment *seg)
{
	const struct rpc_transfer *t = seg->t;
	struct leat_op *op = &seg->op;

	*op = (struct leat_op){
		.type = t->push ? LEAT_OP_WRITE : LEAT_OP_READ,
		.peer = t->ticket->s->peer,
		.buf = t->buf + seg->at,
		.size = seg->len,
		.mr = t->mr,
		.raddr = t->desc.addr + t->off + seg->at,
		.rkey = t->desc.key,
		.queue = LEAT_QUEUE_NONE,
	};
	return leat_ep_post(t->rpc->ep, &op, 1) == 1;
}

void
rpc_segment_completed(struct leat_rpc *rpc, struct leat_op *op)
{
	(void)rpc;
	rpc_segment_done(container_of(op, struct rpc_segment, op), op->status);
}

/* ---- transfers ---- */

static void
wait_add(struct rpc_transfer *t)
{
	struct leat_rpc *rpc = t->rpc;

	if (t->waits)
		return;
	t->waits = true;
	t->next_waiting = NULL;
	if (rpc->waiting == NULL)
		rpc->waiting = t;
	else
		rpc->waiting_tail->next_waiting = t;
	rpc->waiting_tail = t;
}

static void
wait_del(struct rpc_transfer *t)
{
	struct rpc_transfer *prev = NULL, *w = t->rpc->waiting;

	if (!t->waits)
		return;
	t->waits = false;
	for (; w != t; w = w->next_waiting)
		prev = w;
	if (prev == NULL)
		t->rpc->waiting = t->next_waiting;
	else
		prev->next_waiting = t->next_waiting;
	if (t->rpc->waiting_tail == t)
		t->rpc->waiting_tail = prev;
}

/* Remove from its ticket a transfer that has no segments under way. */
static void
unlink_from_ticket(struct rpc_transfer *t)
{
	struct rpc_ticket *ticket = t->ticket;

	wait_del(t);
	rpc_timer_stop(t->rpc, &t->timer);
	if (t->prev == NULL)
		ticket->transfers = t->next;
	else
		t->prev->next = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	t->rpc->stats.transfers--;
	/* leat_rpc_answer() was called while transfers were under way: answer now. */
	if (ticket->transfers == NULL && ticket->answer_deferred)
		leat_rpc_answer(&ticket->call, ticket->status);
}

static bool
is_over(const struct rpc_transfer *t)
{
	return t->nb_out == 0 && (t->status != 0 || t->done == t->len);
}

static void
end_if_over(struct rpc_transfer *t)
{
	const int status = t->status;

	if (t->calling || !is_over(t))
		return;
	unlink_from_ticket(t);
	(void)leat_resource_end(&t->op, status);
}

/* Begin as many segments of a transfer as there is room for. */
static void
transfer_run(struct rpc_transfer *t)
{
	struct leat_rpc *rpc = t->rpc;
	const uint32_t most = t->keyed ? rpc->segment : rpc_bulk_msg_max(t);
	struct rpc_segment *seg;

	t->calling = true;
	while (t->status == 0 && t->issued < t->len && t->nb_out < AT_ONCE) {
		seg = rpc->free_segments;
		if (seg == NULL) {
			wait_add(t);
			break;
		}
		seg->t = t;
		seg->at = t->issued;
		seg->len = (uint32_t)RTE_MIN(t->len - t->issued, (uint64_t)most);
		if (t->keyed && !op_post(seg)) {
			seg->t = NULL;
			wait_add(t);
			break;
		}
		rpc->free_segments = seg->next;
		t->issued += seg->len;
		t->nb_out++;
		if (!t->keyed)
			rpc_bulk_msg_post(seg);
	}
	t->calling = false;
}

void
rpc_transfers_run(struct leat_rpc *rpc)
{
	struct rpc_transfer *t = rpc->waiting, *next;

	rpc->waiting = NULL;
	for (; t != NULL; t = next) {
		next = t->next_waiting;
		t->waits = false;
		/* A transfer that finds no room is queued again, behind the others. */
		transfer_run(t);
		end_if_over(t);
	}
}

void
rpc_segment_done(struct rpc_segment *seg, int status)
{
	struct rpc_transfer *t = seg->t;
	struct leat_rpc *rpc = t->rpc;

	t->nb_out--;
	if (status == 0) {
		t->done += seg->len;
		if (t->push)
			rpc->stats.pushed += seg->len;
		else
			rpc->stats.pulled += seg->len;
		rpc->stats.by_message += t->keyed ? 0 : seg->len;
	} else if (t->status == 0) {
		t->status = status;
	}
	segment_free(seg);
	if (t->calling)
		return;
	/* Transfers that wait for a segment come first: queue this transfer behind them. */
	if (rpc->waiting != NULL)
		wait_add(t);
	else
		transfer_run(t);
	if (is_over(t))
		end_if_over(t);
}

/* Cancel all segments of a transfer. */
static void
segments_cancel(struct rpc_transfer *t)
{
	struct leat_rpc *rpc = t->rpc;
	uintptr_t at = rpc->segments_base;
	const size_t each = RTE_ALIGN_CEIL(sizeof(struct rpc_segment), (size_t)LEAT_CACHE_LINE);

	t->calling = true;
	for (; at < rpc->segments_base + rpc->segments_len && t->nb_out > 0; at += each) {
		struct rpc_segment *seg = (struct rpc_segment *)at;

		if (seg->t != t)
			continue;
		if (t->keyed)
			(void)leat_op_cancel(rpc->ep, &seg->op);
		else
			(void)leat_rpc_cancel(&seg->req);
	}
	t->calling = false;
}

static void
transfer_stop(struct rpc_transfer *t, int status)
{
	if (t->status == 0)
		t->status = status;
	segments_cancel(t);
	end_if_over(t);
}

void
rpc_transfers_end(struct rpc_ticket *ticket, int status)
{
	struct rpc_transfer *t, *next;

	for (t = ticket->transfers; t != NULL; t = next) {
		next = t->next;
		transfer_stop(t, status);
	}
}

static void
transfer_late(struct rpc_timer *timer, uint64_t now)
{
	(void)now;
	transfer_stop(container_of(timer, struct rpc_transfer, timer), -ETIMEDOUT);
}

/* ---- the resource of tasks ---- */

static int
transfer_post(struct leat_resource_op *op)
{
	struct rpc_transfer *t = container_of(op, struct rpc_transfer, op);
	struct rpc_ticket *ticket = t->ticket;

	t->next = ticket->transfers;
	if (t->next != NULL)
		t->next->prev = t;
	ticket->transfers = t;
	t->rpc->stats.transfers++;
	if (ticket->call.deadline != LEAT_RPC_NO_DEADLINE)
		rpc_timer_set(t->rpc, &t->timer, ticket->call.deadline, transfer_late);
	if (t->rpc->waiting != NULL)
		wait_add(t);
	else
		transfer_run(t);
	end_if_over(t);
	return 0;
}

static enum leat_cancel
transfer_cancel(struct leat_resource_op *op)
{
	struct rpc_transfer *t = container_of(op, struct rpc_transfer, op);

	if (t->status == 0)
		t->status = -ECANCELED;
	segments_cancel(t);
	if (t->nb_out > 0)
		return LEAT_CANCEL_WILL;
	unlink_from_ticket(t);
	return LEAT_CANCEL_FREED;
}

static void
transfer_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	const struct rpc_transfer *t = container_of(op, const struct rpc_transfer, op);

	snprintf(text, len,
		 "%" PRIu64 " of %" PRIu64 " B %s a caller's memory, %u segments under way",
		 t->done, t->len, t->push ? "pushed to" : "pulled from", t->nb_out);
}

static const struct leat_resource transfer_resource = {
	.name = "rpc-bulk",
	.post = transfer_post,
	.cancel = transfer_cancel,
	.describe = transfer_describe,
};

static int
transfer(struct leat_rpc_incoming *call, unsigned int i, uint64_t off, void *buf, uint64_t len,
	 struct leat_mr *mr, bool push)
{
	const uint32_t op = LEAT_OP_BIT(push ? LEAT_OP_WRITE : LEAT_OP_READ);
	struct rpc_ticket *ticket = container_of(call, struct rpc_ticket, call);
	struct leat_rpc *rpc;
	struct rpc_transfer t = {
		.ticket = ticket,
		.buf = buf,
		.mr = mr,
		.off = off,
		.len = len,
		.index = (uint8_t)i,
		.push = push,
	};

	/* In a handler, which is not a task, call is no part of a ticket: don't use `ticket`. */
	if (leat_task_current() == NULL)
		return -EPERM;
	rpc = t.rpc = ticket->rpc;
	if (!desc_of(call, i, &t.desc) || (buf == NULL && len > 0))
		return leat_err(EINVAL, "rpc on %s: %s descriptor %u of %u", leat_ep_name(rpc->ep),
				push ? "push to" : "pull from", i, call->nb_bulk);
	if ((t.desc.access & (push ? LEAT_RPC_BULK_PUSH : LEAT_RPC_BULK_PULL)) == 0)
		return -EACCES;
	if (off > t.desc.len || len > t.desc.len - off)
		return -ERANGE;
	if (call->session == NULL)
		return -ENOTCONN;
	if (call->cancelled)
		return -ECANCELED;
	t.keyed = (t.desc.access & LEAT_RPC_BULK_KEYED) != 0 && (rpc->ep->op_mask & op) != 0;
	if (t.keyed && rpc->ep->mr_local && mr == NULL)
		return leat_err(EINVAL, "rpc on %s: the device needs the buffer registered (mr)",
				leat_ep_name(rpc->ep));
	return leat_resource_run(&t.op, &transfer_resource);
}

int
leat_rpc_pull(struct leat_rpc_incoming *call, unsigned int i, uint64_t off, void *buf, uint64_t len,
	      struct leat_mr *mr)
{
	return transfer(call, i, off, buf, len, mr, false);
}

int
leat_rpc_push(struct leat_rpc_incoming *call, unsigned int i, uint64_t off, const void *buf,
	      uint64_t len, struct leat_mr *mr)
{
	return transfer(call, i, off, (void *)(uintptr_t)buf, len, mr, true);
}
