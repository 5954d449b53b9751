/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests and responses: made, and verified. */

#include "content.h"
#include "op.h"

static void
wrong(struct rb_node *n, const struct rb_wrong *w)
{
	if (n->tally.wrong++ == 0)
		n->tally.first = *w;
}

/* Is it the message that is to be spoilt? */
static bool
spoils(struct rb_node *n)
{
	return unlikely(n->spoil > 0) && --n->spoil == 0;
}

static void
spoil(void *buf, uint32_t len)
{
	/* Of an id its node. */
	if (len > 0)
		((uint8_t *)buf)[len > RB_ID_LEN ? len / 2 : len - 1] ^= 0xff;
}

/* Bytes to be written and verified: without --no-check all of them. */
static uint32_t
covered(const struct rb_node *n, uint32_t len)
{
	return likely(n->plan->check) ? len : RTE_MIN(len, RB_ID_LEN);
}

void
rb_request_make(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	const uint32_t len = c->req.len;
	void *buf = c->buf[kind];

	c->id = rb_id(n->id, n->seq++);
	c->key = rb_request_key(c->peer->seed_out[kind], rb_id_cut(c->id, len), len);
	c->req.buf = buf;
	rb_id_put(buf, len, c->id);
	if (len > RB_ID_LEN)
		rb_fill(buf, RB_ID_LEN, covered(n, len), c->key);
	if (rb_ops[kind]->oneway && spoils(n))
		spoil(buf, len);
}

int
rb_request_check(struct rb_node *n, const struct leat_rpc_incoming *call, uint64_t *key)
{
	const struct rb_peer *p = leat_rpc_session_user(call->session);
	const uint64_t id = rb_id_get(call->req, call->len);
	struct rb_wrong w = { .kind = call->type, .from = p->node, .to = n->id, .id = id };
	uint32_t off, len = covered(n, call->len);

	*key = rb_request_key(p->seed_in[call->type], id, call->len);
	n->tally.served++;
	if (unlikely(!n->plan->check))
		return 0;
	if (unlikely(len >= RB_ID_LEN && rb_id_node(id) != p->node)) {
		w.what = RB_WRONG_CALLER;
		w.expected = p->node;
		w.got = rb_id_node(id);
		wrong(n, &w);
		return -EBADMSG;
	}
	if (len <= RB_ID_LEN)
		return 0;
	off = rb_verify(call->req, RB_ID_LEN, len, *key);
	if (likely(off == len))
		return 0;
	w.what = RB_WRONG_BYTE;
	w.offset = off;
	w.expected = rb_content_byte(off, *key);
	w.got = ((const uint8_t *)call->req)[off];
	wrong(n, &w);
	return -EBADMSG;
}

int
rb_response_make(struct rb_node *n, struct leat_rpc_incoming *call, uint64_t key)
{
	const uint32_t len = rb_size_pick(&n->plan->resp[call->type], key);

	/* The plan's largest has room, so the caller's plan is another one. */
	if (unlikely(len > call->room))
		return -EMSGSIZE;
	rb_fill(call->resp, 0, covered(n, len), rb_response_key(key, len));
	call->resp_len = len;
	if (spoils(n))
		spoil(call->resp, len);
	return 0;
}

bool
rb_response_check(struct rb_node *n, const struct rb_call *c, enum rb_kind kind)
{
	const uint32_t len = c->resp_len, end = covered(n, len);
	struct rb_wrong w = { .response = true, .kind = (uint8_t)kind, .id = c->id };
	const uint64_t key = rb_response_key(c->key, len);
	uint32_t off;

	if (unlikely(!n->plan->check))
		return true;
	off = likely(c->req.resp_len == len) ? rb_verify(c->req.resp, 0, end, key) : 0;
	if (likely(off == end && c->req.resp_len == len))
		return true;
	w.from = c->peer->node;
	w.to = n->id;
	if (c->req.resp_len != len) {
		w.what = RB_WRONG_LENGTH;
		w.expected = len;
		w.got = c->req.resp_len;
	} else {
		w.what = RB_WRONG_BYTE;
		w.offset = off;
		w.expected = rb_content_byte(off, key);
		w.got = ((const uint8_t *)c->req.resp)[off];
	}
	wrong(n, &w);
	return false;
}

void
rb_answered_prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	rb_request_make(n, c, kind);
	c->resp_len = rb_size_pick(&n->plan->resp[kind], c->key);
	c->req.resp = c->resp[kind];
	c->req.room = c->resp_len;
	c->req.flags = 0;
}

int
rb_answered_handle(struct leat_rpc_incoming *call, void *node)
{
	struct rb_node *n = node;
	uint64_t key;
	int ret = rb_request_check(n, call, &key);

	return unlikely(ret < 0) ? ret : rb_response_make(n, call, key);
}

bool
rb_answered_finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	return rb_response_check(n, c, kind);
}
