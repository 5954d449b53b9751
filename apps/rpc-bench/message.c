/* SPDX-License-Identifier: BSD-3-Clause */

/* Write and verify requests and responses. */

#include "content.h"
#include "op.h"

static void
wrong(struct rb_node *n, const struct rb_wrong *w)
{
	if (n->tally.wrong++ == 0)
		n->tally.first = *w;
}

/* Count a message. @return true: --corrupt asks to spoil this message */
static bool
spoils(struct rb_node *n)
{
	return unlikely(n->spoil > 0) && --n->spoil == 0;
}

static void
spoil(void *buf, uint32_t len)
{
	/* Spoil the middle byte. A message of up to 8 bytes is only an id: spoil its last byte. */
	if (len > 0)
		((uint8_t *)buf)[len > RB_ID_LEN ? len / 2 : len - 1] ^= 0xff;
}

/* Return the number of bytes to write and verify: all; with --no-check only the id. */
static uint32_t
covered(const struct rb_node *n, uint32_t len)
{
	return likely(n->plan->check) ? len : RTE_MIN(len, RB_ID_LEN);
}

void
rb_request_fill(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
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
rb_request_check(struct rb_node *n, const struct leat_rpc_incoming *call, const void *buf,
		 uint32_t len, uint64_t *key)
{
	const struct rb_peer *p = leat_rpc_session_user(call->session);
	const uint64_t id = rb_id_get(buf, len);
	struct rb_wrong w = { .kind = call->type, .from = p->node, .to = n->id, .id = id };
	uint32_t off, end = covered(n, len);

	*key = rb_request_key(p->seed_in[call->type], id, len);
	n->tally.served++;
	if (unlikely(!n->plan->check))
		return 0;
	if (unlikely(end >= RB_ID_LEN && rb_id_node(id) != p->node)) {
		w.what = RB_WRONG_CALLER;
		w.expected = p->node;
		w.got = rb_id_node(id);
		wrong(n, &w);
		return -EBADMSG;
	}
	if (end <= RB_ID_LEN)
		return 0;
	off = rb_verify(buf, RB_ID_LEN, end, *key);
	if (likely(off == end))
		return 0;
	w.what = RB_WRONG_BYTE;
	w.offset = off;
	w.expected = rb_content_byte(off, *key);
	w.got = ((const uint8_t *)buf)[off];
	wrong(n, &w);
	return -EBADMSG;
}

uint32_t
rb_response_fill(struct rb_node *n, enum rb_kind kind, void *buf, uint32_t room, uint64_t key)
{
	const uint32_t len = rb_size_pick(&n->plan->resp[kind], key);

	if (unlikely(len > room))
		return len;
	rb_fill(buf, 0, covered(n, len), rb_response_key(key, len));
	if (spoils(n))
		spoil(buf, len);
	return len;
}

bool
rb_response_check(struct rb_node *n, const struct rb_call *c, enum rb_kind kind, const void *buf,
		  uint32_t got)
{
	const uint32_t len = c->resp_len, end = covered(n, len);
	struct rb_wrong w = { .response = true, .kind = (uint8_t)kind, .id = c->id };
	const uint64_t key = rb_response_key(c->key, len);
	uint32_t off;

	if (unlikely(!n->plan->check))
		return true;
	off = likely(got == len) ? rb_verify(buf, 0, end, key) : 0;
	if (likely(off == end && got == len))
		return true;
	w.from = c->peer->node;
	w.to = n->id;
	if (got != len) {
		w.what = RB_WRONG_LENGTH;
		w.expected = len;
		w.got = got;
	} else {
		w.what = RB_WRONG_BYTE;
		w.offset = off;
		w.expected = rb_content_byte(off, key);
		w.got = ((const uint8_t *)buf)[off];
	}
	wrong(n, &w);
	return false;
}

void
rb_answered_prepare(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	rb_request_fill(n, c, kind);
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
	int ret = rb_request_check(n, call, call->req, call->len, &key);

	if (unlikely(ret < 0))
		return ret;
	call->resp_len = rb_response_fill(n, (enum rb_kind)call->type, call->resp, call->room, key);
	if (likely(call->resp_len <= call->room))
		return 0;
	/* call->room fits this plan's largest response: the caller must have a different plan. */
	call->resp_len = 0;
	return -EMSGSIZE;
}

bool
rb_answered_finish(struct rb_node *n, struct rb_call *c, enum rb_kind kind)
{
	return rb_response_check(n, c, kind, c->req.resp, c->req.resp_len);
}
