/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_OP_H
#define RB_OP_H

/*
 * Kinds of calls: each has a struct rb_op of functions. All calls of a batch are of one kind:
 *
 *     caller                                      called
 *     prepare   fills in a request        -->     handle   checks it, responds
 *     finish    checks the response       <--
 */

#include "node.h"

struct rb_op {
	const char *name;
	bool oneway;
	/* Fill in a call. c->peer, the buffers and the length c->req.len are set. */
	void (*prepare)(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
	/* Handler of calls of this kind, which is their type; its argument is the node. */
	leat_rpc_handler_fn handle;
	/* Check a call that succeeded. @return false: its response is wrong and was counted */
	bool (*finish)(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
};

extern const struct rb_op rb_op_call, rb_op_oneway, rb_op_long, rb_op_bulk;
extern const struct rb_op *const rb_ops[RB_KINDS];

/* ---- message.c: functions that several kinds use ---- */

/* Write the bytes of a request. */
void rb_request_fill(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
/*
 * Check a request; call->session must not be NULL. Set *key to the request's key.
 * @return 0; -EBADMSG: the request is wrong and was counted
 */
int rb_request_check(struct rb_node *n, const struct leat_rpc_incoming *call, const void *buf,
		     uint32_t len, uint64_t *key);
/* Write a response. @return its length; more than room: nothing was written */
uint32_t rb_response_fill(struct rb_node *n, enum rb_kind kind, void *buf, uint32_t room,
			  uint64_t key);
/* Check the len bytes of a response. @return false: they are wrong and were counted */
bool rb_response_check(struct rb_node *n, const struct rb_call *c, enum rb_kind kind,
		       const void *buf, uint32_t len);

/* Functions of struct rb_op for kinds whose requests are answered with a response. */
void rb_answered_prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind);
int rb_answered_handle(struct leat_rpc_incoming *call, void *node);
bool rb_answered_finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind);

#endif /* RB_OP_H */
