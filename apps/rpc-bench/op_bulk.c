/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Bulk, --bulk: a request has no bytes, but describes two pieces of the caller's memory. A task of
 * the called node pulls one of them and pushes the other:
 *
 *     caller                                     called
 *     buf    contents of a request   -- pull --> verify
 *     resp   contents of a response  <-- push -- write
 *                                    <---------- answer
 *
 * There are as many buffers as lib/rpc lets requests be deferred at a time (tickets), so there is a
 * buffer for each deferred request.
 */

#include <stdlib.h>

#include <leat_error.h>
#include <leat_mr.h>
#include <leat_rpc_task.h>
#include <leat_task.h>

#include "bench.h"
#include "content.h"
#include "op.h"

#define TICKETS_MAX 64u
#define TICKETS_MIN 4u
/* Bytes of a node's buffers. */
#define BUFFERS_MEMORY (256u << 20)

uint32_t
rb_bulk_tickets(const struct rb_plan *p)
{
	const uint32_t max = RTE_MAX(p->req[RB_BULK].max, p->resp[RB_BULK].max);

	if (p->percent[RB_BULK] == 0)
		return 1;
	return RTE_MIN(TICKETS_MAX, RTE_MAX(TICKETS_MIN, BUFFERS_MEMORY / max));
}

int
rb_bulk_register(struct rb_node *n, void *mem, uint64_t len, struct leat_mr **mr)
{
	const uint32_t remote = n->one_sided ? LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE : 0;

	if (n->plan->percent[RB_BULK] == 0)
		return 0;
	*mr = leat_mr_register(n->ep, mem, len, remote);
	return *mr != NULL ? 0 : rb_node_fail(n, rte_errno, "%s", leat_err_msg());
}

int
rb_bulk_open(struct rb_node *n)
{
	const uint32_t nb = rb_bulk_tickets(n->plan);
	struct rb_bulk *b = &n->bulk;
	uint64_t size;
	uint32_t i;

	if (n->plan->percent[RB_BULK] == 0)
		return 0;
	size = RTE_ALIGN_CEIL((uint64_t)RTE_MAX(n->plan->req[RB_BULK].max,
						n->plan->resp[RB_BULK].max),
			      (uint64_t)LEAT_CACHE_LINE);
	b->mem = aligned_alloc(LEAT_CACHE_LINE, size * nb);
	b->free = calloc(nb, sizeof(*b->free));
	if (b->mem == NULL || b->free == NULL)
		return rb_node_fail(n, ENOMEM, "no memory for %u transfers of %" PRIu64 " B", nb,
				    size);
	for (i = 0; i < nb; i++)
		b->free[b->nb_free++] = b->mem + i * size;
	return rb_bulk_register(n, b->mem, size * nb, &b->mr);
}

void
rb_bulk_close(struct rb_node *n)
{
	struct rb_bulk *b = &n->bulk;

	if (b->mr != NULL && leat_mr_deregister(b->mr) < 0)
		rb_msg("lcore %u: %s", n->lcore, leat_err_msg());
	b->mr = NULL;
}

void
rb_bulk_free(struct rb_node *n)
{
	free(n->bulk.mem);
	free(n->bulk.free);
}

/* ---- caller ---- */

static void
prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	rb_request_fill(n, c, kind);
	c->resp_len = rb_size_pick(&n->plan->resp[kind], c->key);
	c->bulk[0] = (struct leat_rpc_bulk){ c->buf[kind], c->req.len, c->mr, LEAT_RPC_BULK_PULL };
	c->bulk[1] =
		(struct leat_rpc_bulk){ c->resp[kind], c->resp_len, c->mr, LEAT_RPC_BULK_PUSH };
	c->bulk_out = c->req.len;
	c->bulk_in = c->resp_len;
	c->req.buf = c->req.resp = NULL;
	c->req.len = c->req.room = 0;
	c->req.flags = LEAT_RPC_BULK;
	c->req.bulk = c->bulk;
	c->req.nb_bulk = 2;
}

static bool
finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	return rb_response_check(n, c, kind, c->resp[kind], c->resp_len);
}

/* ---- called ---- */

static int
transfer(struct rb_node *n, struct leat_rpc_incoming *call, uint8_t *buf)
{
	const uint64_t len = leat_rpc_incoming_bulk(call, 0, NULL);
	const uint64_t room = leat_rpc_incoming_bulk(call, 1, NULL);
	uint32_t resp_len;
	uint64_t key;
	int ret;

	/* Longer than any message of this plan: the caller must have a different plan. */
	if (len > n->plan->req[RB_BULK].max || room > n->plan->resp[RB_BULK].max)
		return -EMSGSIZE;
	ret = leat_rpc_pull(call, 0, 0, buf, len, n->bulk.mr);
	if (ret < 0)
		return ret;
	if (call->session == NULL)
		return -ENOTCONN;
	ret = rb_request_check(n, call, buf, (uint32_t)len, &key);
	if (ret < 0)
		return ret;
	resp_len = rb_response_fill(n, RB_BULK, buf, (uint32_t)room, key);
	return resp_len == room ? leat_rpc_push(call, 1, 0, buf, room, n->bulk.mr) : -EMSGSIZE;
}

static int
serve(void *arg)
{
	struct leat_rpc_incoming *call = arg;
	struct rb_node *n = call->user;
	uint8_t *buf = n->bulk.free[--n->bulk.nb_free];
	int ret = transfer(n, call, buf);

	n->bulk.free[n->bulk.nb_free++] = buf;
	leat_rpc_answer(call, ret);
	return 0;
}

static int
handle(struct leat_rpc_incoming *call, void *node)
{
	struct leat_rpc_incoming *later = leat_rpc_defer(call);

	if (later == NULL)
		return -EBUSY;
	later->user = node;
	if (leat_task_start("bulk", serve, later) < 0)
		leat_rpc_answer(later, -EBUSY);
	return LEAT_RPC_DEFERRED;
}

const struct rb_op rb_op_bulk = {
	.name = "bulk",
	.prepare = prepare,
	.handle = handle,
	.finish = finish,
};
