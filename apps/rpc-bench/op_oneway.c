/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One-way requests, --oneway. A one-way call completes as soon as lib/rpc has accepted it, whether
 * or not it arrives at the peer. So both sides count the calls, and at the end flush.c compares the
 * counts to find lost calls.
 */

#include "op.h"

static void
prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	rb_request_fill(n, c, kind);
	c->resp_len = 0;
	c->req.resp = NULL;
	c->req.room = 0;
	c->req.flags = LEAT_RPC_ONEWAY;
}

static int
handle(struct leat_rpc_incoming *call, void *node)
{
	struct rb_peer *p = leat_rpc_session_user(call->session);
	struct rb_node *n = node;
	uint64_t key;

	p->oneway_got++;
	return rb_request_check(n, call, call->req, call->len, &key);
}

static bool
finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	(void)n;
	(void)kind;
	c->peer->oneway_sent++;
	return true;
}

const struct rb_op rb_op_oneway = {
	.name = "oneway",
	.oneway = true,
	.prepare = prepare,
	.handle = handle,
	.finish = finish,
};
