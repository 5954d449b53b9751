/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_OP_H
#define RB_OP_H

/*
 * Kinds of calls, a row each. A batch is of one kind:
 *
 *     caller                                      called
 *     prepare   fills in a request        -->     handle   checks it, responds
 *     finish    checks the response       <--
 */

#include "node.h"

struct rb_op {
	const char *name;
	bool oneway;
	/* c->peer is chosen, its buffers are there, its length is c->req.len. */
	void (*prepare)(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
	/* Its type is the kind, its argument the node. */
	leat_rpc_handler_fn handle;
	/* It came back with 0. @return false: it is wrong, which was counted */
	bool (*finish)(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
};

extern const struct rb_op rb_op_call, rb_op_oneway, rb_op_long, rb_op_bulk;
extern const struct rb_op *const rb_ops[RB_KINDS];

/* ---- message.c: what kinds have in common ---- */

/* The bytes of a request. */
void rb_request_make(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
/* Is what came right? The session stands. @return 0 and its key, or -EBADMSG, which was counted */
int rb_request_check(struct rb_node *n, const struct leat_rpc_incoming *call, const void *buf,
		     uint32_t len, uint64_t *key);
/* @return the bytes of the response; more than room: nothing was written */
uint32_t rb_response_fill(struct rb_node *n, enum rb_kind kind, void *buf, uint32_t room,
			  uint64_t key);
/* Are these the len bytes that were to come? @return false: no, which was counted */
bool rb_response_check(struct rb_node *n, const struct rb_call *c, enum rb_kind kind,
		       const void *buf, uint32_t len);

/* A request that is answered with a response of its own size: the functions of rb_op. */
void rb_answered_prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
int rb_answered_handle(struct leat_rpc_incoming *call, void *node);
bool rb_answered_finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind);

#endif /* RB_OP_H */
