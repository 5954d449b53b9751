/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receiving.
 *
 * Receives for the next lengths (plain) or heads (leat) are always posted, each for exactly one id:
 * whatever the device does to the order, a receive can only be met by its own message. In plain mode the
 * lengths may also be received by any of as many equal receives (any_id); the id is in the tag that arrived.
 *
 * What arrived waits in its slot until there is a request for it. Then an eager message is copied (and the next one
 * in the same slot waits, until there is none), or the payload's receive is posted, of exactly the announced length. An announced length is compared with the
 * limit when it arrives, and with the request before anything is allocated.
 */

#include <errno.h>

#include <rte_memcpy.h>
#include <rte_mempool.h>

#include <leat_le.h>

#include "msg_pvt.h"

/* ---- posting ---- */

/* @return how many were taken */
static uint16_t
post(struct leat_msg_conn *c, struct leat_op **ops, uint16_t n)
{
	uint16_t k = leat_ep_post(c->ep, ops, n);

	c->rx_out += k;
	if (likely(k == n))
		return k;
	c->m->stats.refused++;
	if (rte_errno == ESHUTDOWN)
		msg_fail(c, -ESHUTDOWN, "the endpoint is shut down");
	else
		msg_work(c);
	return k;
}

/* The receive of the next length or head. */
static struct leat_op *
next_recv(struct leat_msg_conn *c, uint32_t id)
{
	struct msg_slot *s;

	if (unlikely(c->any_id)) {
		s = c->idle;
		c->idle = s->next_idle;
		s->op.tag = MSG_PLAIN_LEN;
		s->op.ignore = MSG_ANY_ID;
	} else {
		s = msg_rx_slot(c, id);
		s->op.tag = c->mode == LEAT_MSG_LEAT ? msg_tag(MSG_TAG_MSG, c->rx_base, id)
						     : MSG_PLAIN_LEN | id;
		s->op.ignore = 0;
	}
	s->op.peer = c->recv_peer;
	s->op.size = c->mode == LEAT_MSG_LEAT ? MSG_HEAD_LEN + c->eager_max : sizeof(uint64_t);
	return &s->op;
}

/* Posts receives until rx_window messages may be on the way or here. */
static void
fill(struct leat_msg_conn *c)
{
	struct leat_op *ops[MSG_BURST];

	while (c->rx_post - c->rx_done < c->rx_window) {
		uint16_t i, k, n = 0;

		while (n < MSG_BURST && c->rx_post + n - c->rx_done < c->rx_window) {
			ops[n] = next_recv(c, c->rx_post + n);
			n++;
		}
		k = post(c, ops, n);
		c->rx_post += k;
		for (i = 0; i < n; i++) {
			struct msg_slot *s = ops[i]->user;

			if (i < k) {
				s->flags |= MSG_OP_OUT;
			} else if (c->any_id) {
				s->next_idle = c->idle;
				c->idle = s;
			}
		}
		if (k < n)
			return;
	}
}

/* Messages for which no receive is posted, and might be. */
static inline uint32_t
rx_free(const struct leat_msg_conn *c)
{
	return c->rx_window - (c->rx_post - c->rx_done);
}

void
msg_rx_later(struct leat_msg_conn *c)
{
	if (rx_free(c) >= c->batch)
		fill(c);
}

/* The receive of control message id. */
static void
post_ctrl(struct leat_msg_conn *c, struct msg_slot *s)
{
	struct leat_op *op = &s->op;

	op->peer = c->recv_peer;
	op->size = MSG_CTRL_LEN;
	op->tag = msg_tag(MSG_TAG_CTRL, c->rx_base, s->id);
	op->ignore = 0;
	s->flags = post(c, &op, 1) == 1 ? MSG_OP_OUT : MSG_WANT;
}

void
msg_rx_start(struct leat_msg_conn *c)
{
	uint32_t i;

	/* Nothing is in flight. But what arrived for the last connection in this place, and was not received, is marked. */
	for (i = 0; i <= c->mask; i++)
		c->rx[i].flags = 0;
	c->idle = NULL;
	if (c->any_id) {
		for (i = 0; i < c->rx_window; i++) {
			c->rx[i].next_idle = c->idle;
			c->idle = &c->rx[i];
		}
	}
	for (i = 0; i < MSG_CTRL && c->mode == LEAT_MSG_LEAT; i++) {
		c->ctrl_rx[i].id = i;
		post_ctrl(c, &c->ctrl_rx[i]);
	}
	c->ctrl_rx_id = MSG_CTRL;
	fill(c);
	c->rx_told = c->first_id + c->rx_window;
}

/* ---- requests meet messages ---- */

/* A buffer for a request that has none. @return false: none now */
static bool
buffer_get(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	void *obj;

	if (c->alloc != NULL) {
		req->buf = c->alloc(c->alloc_arg, len, &req->mr);
		return req->buf != NULL;
	}
	if (rte_mempool_get(c->mempool, &obj) < 0)
		return false;
	req->buf = obj;
	req->mr = c->ep->mr_local ? leat_ep_mempool_mr(c->ep, c->mempool) : NULL;
	return true;
}

/* @return false: the connection ends */
static bool
fits(struct leat_msg_conn *c, const struct leat_msg_req *req, uint64_t len)
{
	if (unlikely(len > req->size)) {
		msg_fail(c, -EMSGSIZE, "message %#x has %" PRIu64 " B, the receive takes %" PRIu64,
			 c->rx_bind, len, req->size);
		return false;
	}
	if (unlikely(len > 0 && req->buf == NULL && c->alloc == NULL &&
		     (c->mempool == NULL || len > c->mempool->elt_size))) {
		msg_fail(c, -EMSGSIZE,
			 "message %#x has %" PRIu64
			 " B, the receive has no buffer, and an object of the "
			 "mempool %u B",
			 c->rx_bind, len, c->mempool == NULL ? 0 : c->mempool->elt_size);
		return false;
	}
	return true;
}

/* A request has its message. It goes back when those before it do. */
static inline void
received(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	msg_req_finish(req, 0, len);
	c->m->stats.received++;
	c->m->stats.recv_bytes += len;
}

/* On to the next message in an eager slot, all of which head_arrived() has checked. @return false: there is none */
static inline bool
eager_next(struct msg_slot *s)
{
	const uint64_t end = s->off + s->len;

	if (likely(end == s->op.len))
		return false;
	s->len = leat_get_le64(s->buf + end);
	s->off = (uint32_t)end + MSG_NEXT_LEN;
	return true;
}

/* The oldest message that has no request gets one. @return false: there is none of either */
static inline bool
bind(struct leat_msg_conn *c)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);
	struct leat_msg_req *req;
	const uint64_t len = s->len;

	if (c->rx_bind - c->rx_done >= c->rx_window || (s->flags & MSG_ARRIVED) == 0)
		return false;
	req = msg_list_begin(&c->recvq);
	if (req == NULL || !fits(c, req, len))
		return false;
	if (unlikely(len > 0 && req->buf == NULL) && !buffer_get(c, req, len)) {
		msg_work(c);
		return false;
	}
	msg_list_begun(&c->recvq, req);
	if ((s->flags & MSG_EAGER) != 0) {
		rte_memcpy(req->buf, s->buf + s->off, len);
		received(c, req, len);
		if (eager_next(s))
			return true;
		s->flags |= MSG_DONE;
	}
	c->rx_bind++;
	c->rx_arrived--;
	c->m->stats.held--;
	if ((s->flags & MSG_EAGER) != 0)
		return true;
	s->req = req;
	if (len == 0) {
		s->flags |= MSG_DONE;
	} else {
		s->data.peer = c->recv_peer;
		s->data.buf = req->buf;
		s->data.mr = req->mr;
		s->data.size = len;
		s->data.ignore = 0;
		s->data.tag = c->mode == LEAT_MSG_LEAT ? msg_tag(MSG_TAG_DATA, c->rx_base, s->id)
						       : MSG_PLAIN_DATA | s->id;
		s->flags |= MSG_WANT;
	}
	return true;
}

/* The receives of payloads, in order, so that "all before" can be said to the other side. */
static void
post_data(struct leat_msg_conn *c)
{
	while (c->rx_data != c->rx_bind) {
		struct msg_slot *s = msg_rx_slot(c, c->rx_data);
		struct leat_op *op = &s->data;

		if ((s->flags & MSG_WANT) != 0) {
			if (post(c, &op, 1) == 0)
				return;
			s->flags = (uint16_t)((s->flags & ~MSG_WANT) | MSG_DATA_OUT);
			c->grant = true;
		}
		c->rx_data++;
	}
}

static inline void
finish(struct leat_msg_conn *c)
{
	while (c->rx_done != c->rx_data) {
		struct msg_slot *s = msg_rx_slot(c, c->rx_done);

		if ((s->flags & MSG_DONE) == 0)
			break;
		if ((s->flags & MSG_EAGER) == 0)
			received(c, s->req, s->len);
		/* With any_id its op may be out, for another message. */
		s->flags &= MSG_OP_OUT;
		c->rx_done++;
	}
	msg_list_give(c, &c->recvq);
}

void
msg_rx_run(struct leat_msg_conn *c)
{
	uint32_t free;

	while (bind(c))
		;
	if (c->state != MSG_OPEN)
		return;
	post_data(c);
	finish(c);
	/* What the application waits for is not kept waiting for receives that are not needed yet. */
	free = rx_free(c);
	if (free >= c->rx_window / 2)
		fill(c);
	else if (free >= c->batch)
		msg_later(c);
	if (unlikely((c->ctrl_rx[0].flags | c->ctrl_rx[1].flags) & MSG_WANT) &&
	    c->state == MSG_OPEN) {
		if ((c->ctrl_rx[0].flags & MSG_WANT) != 0)
			post_ctrl(c, &c->ctrl_rx[0]);
		if ((c->ctrl_rx[1].flags & MSG_WANT) != 0)
			post_ctrl(c, &c->ctrl_rx[1]);
	}
}

/* OVER: what has arrived whole still goes to receives, then they get the status. */
void
msg_over_recv(struct leat_msg_conn *c)
{
	struct leat_msg_req *req;
	int status = c->status;

	finish(c);
	while (!c->closing && (req = msg_list_begin(&c->recvq)) != NULL) {
		struct msg_slot *s = msg_rx_slot(c, c->rx_bind);

		if (c->rx_arrived == 0 || c->rx_done != c->rx_bind ||
		    ((s->flags & MSG_EAGER) == 0 && s->len > 0) || s->len > req->size || !bind(c))
			break;
		c->rx_data = c->rx_bind;
		finish(c);
	}
	if (c->in_work) /* waits for a buffer */
		return;
	if (status == 0)
		status = c->closing ? -ECANCELED : -ENOTCONN;
	/* Those with half a message, and behind those nothing is a message any more. */
	for (req = c->recvq.head; req != NULL; req = req->next) {
		if (req->state == MSG_REQ_FINISHED) {
			c->m->stats.received--;
			c->m->stats.recv_bytes -= req->len;
		}
		if (req->state != MSG_REQ_CANCELLED)
			msg_req_finish(req, status, 0);
	}
	c->recvq.begin = NULL;
	msg_list_give(c, &c->recvq);
	for (req = c->sendq.head; req != NULL; req = req->next) {
		if (req->state < MSG_REQ_CANCELLED)
			msg_req_finish(req, status, 0);
	}
	c->sendq.begin = NULL;
	msg_list_give(c, &c->sendq);
}

/* ---- arrivals ---- */

static void __rte_cold
too_long(struct leat_msg_conn *c, uint32_t id, uint64_t len)
{
	msg_fail(c, -EMSGSIZE, "message %#x has %" PRIu64 " B, the limit is %" PRIu64, id, len,
		 c->max_size);
}

static void
arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id, uint64_t len)
{
	msg_work(c);
	s->id = id;
	s->len = len;
	s->flags |= MSG_ARRIVED;
	c->m->stats.held++;
	if (++c->rx_arrived > c->m->stats.held_max)
		c->m->stats.held_max = c->rx_arrived;
}

/*
 * The usual case: eager messages are the next ones, and requests wait for them.
 * @return false: it is not the usual case, or not for all of them
 */
static inline bool
deliver(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id)
{
	uint32_t free;

	if (unlikely(id != c->rx_done || id != c->rx_bind || c->state != MSG_OPEN))
		return false;
	do {
		struct leat_msg_req *req = c->recvq.head;
		const uint64_t len = s->len;

		if (unlikely(req == NULL || req != c->recvq.begin || len > req->size ||
			     (req->buf == NULL && len > 0)))
			return false;
		rte_memcpy(req->buf, s->buf + s->off, len);
		msg_list_give_first(c, &c->recvq, req, len);
		c->m->stats.received++;
		c->m->stats.recv_bytes += len;
	} while (unlikely(eager_next(s)));
	s->flags = 0;
	c->rx_bind = c->rx_data = c->rx_done = id + 1;
	/* Messages behind this one may have arrived before it. */
	free = rx_free(c);
	if (unlikely(free >= c->rx_window / 2 || c->rx_arrived > 0))
		msg_work(c);
	else if (free >= c->batch)
		msg_later(c);
	msg_slot_prefetch(msg_rx_slot(c, id + 1));
	return true;
}

/*
 * What stands behind the first message of a send: more small ones. All are looked at before the first is delivered.
 * @return false: the connection ends
 */
static bool
check_behind(struct leat_msg_conn *c, const struct msg_slot *s, uint32_t id, uint64_t len)
{
	const uint8_t *p = s->buf + MSG_HEAD_LEN + len;
	uint64_t left = s->op.len - MSG_HEAD_LEN - len;

	while (left > 0) {
		len = left < MSG_NEXT_LEN ? UINT64_MAX : leat_get_le64(p);
		if (unlikely(left < MSG_NEXT_LEN || len > left - MSG_NEXT_LEN)) {
			msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B behind it are no message",
				 id, left);
			return false;
		}
		if (unlikely(len > c->max_size)) {
			too_long(c, id, len);
			return false;
		}
		p += MSG_NEXT_LEN + len;
		left -= MSG_NEXT_LEN + len;
	}
	return true;
}

static inline void
head_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id)
{
	const uint64_t came = s->op.len - MSG_HEAD_LEN;
	struct msg_head head;
	uint64_t len;
	bool eager;

	if (unlikely(s->op.len < MSG_HEAD_LEN)) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B are no head", id, s->op.len);
		return;
	}
	memcpy(&head, s->buf, sizeof(head));
	len = rte_le_to_cpu_64(head.len);
	eager = len <= c->eager_max;
	if (unlikely(came < (eager ? len : 0) || (!eager && came > 0))) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B announced, %" PRIu64 " B came", id,
			 len, came);
		return;
	}
	if (unlikely(len > c->max_size)) {
		too_long(c, id, len);
		return;
	}
	if (unlikely(eager && came > len) && !check_behind(c, s, id, len))
		return;
	if (unlikely(!msg_tx_credit(c, rte_le_to_cpu_32(head.credit),
				    rte_le_to_cpu_32(head.granted))))
		return;
	s->len = len;
	s->off = MSG_HEAD_LEN;
	if (likely(eager)) {
		if (likely(deliver(c, s, id)))
			return;
		s->flags |= MSG_EAGER;
	}
	arrived(c, s, id, s->len);
}

static void
length_arrived(struct leat_msg_conn *c, struct msg_slot *s)
{
	uint32_t id = c->any_id ? (uint32_t)s->op.tag_in : (uint32_t)s->op.tag;
	struct msg_slot *to = msg_rx_slot(c, id);
	uint64_t len;

	if (c->any_id) {
		s->next_idle = c->idle;
		c->idle = s;
		if (id - c->rx_done >= c->rx_window || (to->flags & MSG_ARRIVED) != 0) {
			msg_fail(c, -EPROTO, "length of message %#x, when %#x is the next", id,
				 c->rx_bind);
			return;
		}
	}
	if (s->op.len != sizeof(len)) {
		msg_fail(c, -EPROTO, "message %#x: a length of %" PRIu64 " B", id, s->op.len);
		return;
	}
	len = leat_get_le64(s->buf);
	if (len > c->max_size)
		too_long(c, id, len);
	else
		arrived(c, to, id, len);
}

static void
payload_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	if (unlikely(op->status == -EMSGSIZE || (op->status == 0 && op->len != s->len))) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B announced, %s came", s->id, s->len,
			 op->status != 0 ? "more" : "fewer");
		return;
	}
	if (unlikely(op->status != 0)) {
		msg_op_failed(c, op);
		return;
	}
	s->flags |= MSG_DONE;
}

void
msg_rx_back(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	c->rx_out--;
	if (unlikely(c->state != MSG_OPEN))
		msg_work(c);
	if (op == &s->data) {
		msg_work(c);
		s->flags &= (uint16_t)~MSG_DATA_OUT;
		payload_arrived(c, s, op);
		return;
	}
	s->flags &= (uint16_t)~MSG_OP_OUT;
	if (likely(op->status == 0 && c->mode == LEAT_MSG_LEAT)) {
		head_arrived(c, s, (uint32_t)op->tag);
		return;
	}
	msg_work(c);
	if (unlikely(op->status == -EMSGSIZE))
		msg_fail(c, -EPROTO, "message %#x: its head or length is too long",
			 (uint32_t)op->tag);
	else if (unlikely(op->status != 0))
		msg_op_failed(c, op);
	else
		length_arrived(c, s);
}

void
msg_ctrl_back(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	uint32_t le[2];

	if (s->kind == MSG_SLOT_CTRL_TX)
		c->tx_out--;
	else
		c->rx_out--;
	s->flags = 0;
	if (unlikely(op->status == -EMSGSIZE ||
		     (op->status == 0 && op->type == LEAT_OP_TRECV && op->len != MSG_CTRL_LEN))) {
		msg_fail(c, -EPROTO, "a control message that is not %u B long", MSG_CTRL_LEN);
		return;
	}
	if (unlikely(op->status != 0)) {
		msg_op_failed(c, op);
		return;
	}
	if (s->kind == MSG_SLOT_CTRL_TX)
		return;
	memcpy(le, s->buf, sizeof(le));
	if (!msg_tx_credit(c, rte_le_to_cpu_32(le[0]), rte_le_to_cpu_32(le[1])))
		return;
	s->id = c->ctrl_rx_id++;
	if (c->state == MSG_OPEN)
		post_ctrl(c, s);
}
