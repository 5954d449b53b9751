/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receiving.
 *
 * Receives for the next lengths (plain) or heads (leat) are always posted, each for exactly one id:
 * whatever the device does to the order, a receive can only be met by its own message. In plain mode the
 * lengths may also be received by any of as many equal receives (any_id); the id is in the tag that arrived.
 *
 * What arrived (arrive.c) waits in its slot until there is a request for it. Then an eager message is copied, and the
 * next one in the same slot waits, until there is none; or the payload's receive is posted, of exactly the announced
 * length, which is compared with the request before anything is allocated.
 */

#include <errno.h>

#include <rte_memcpy.h>
#include <rte_mempool.h>

#include "msg_pvt.h"

void __rte_noinline
msg_copy_any(void *dst, const void *src, uint64_t n)
{
	rte_memcpy(dst, src, n);
}

/* ---- posting ---- */

/* @return how many were taken */
static uint16_t
post(struct leat_msg_conn *c, struct leat_op **ops, uint16_t n)
{
	uint16_t k = leat_ep_post(c->ep, ops, n);

	c->rx_out += k;
	if (likely(k == n))
		return k;
	c->stats.refused++;
	if (rte_errno == ESHUTDOWN)
		msg_fail(c, -ESHUTDOWN, "the endpoint is shut down");
	else
		msg_wait(c);
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

/* Posts receives until as many messages as may be are on the way or here. */
static void
fill(struct leat_msg_conn *c)
{
	struct leat_op *ops[MSG_BURST];
	uint32_t free;

	while ((free = msg_rx_free(c)) > 0) {
		uint16_t i, k, n = 0;

		while (n < MSG_BURST && n < free) {
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

void
msg_rx_later(struct leat_msg_conn *c)
{
	if (c->early)
		msg_early_post(c);
	msg_slot_prefetch(msg_rx_slot(c, c->rx_done));
	if (msg_rx_free(c) >= c->batch)
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
		c->ctrl_rx[i].id = c->ctrl_rx_id++;
		post_ctrl(c, &c->ctrl_rx[i]);
	}
	fill(c);
	c->rx_told = c->first_id + c->rx_window;
}

/* ---- requests meet messages ---- */

/*
 * A buffer for a request that has none. It is noted, so that a request that is posted again with it
 * asks for another one: it is as large as this message only. @return false: none now
 */
static bool
buffer_get(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	void *buf;

	if (c->alloc != NULL) {
		buf = c->alloc(c->alloc_arg, len, &req->mr);
		if (buf == NULL)
			return false;
	} else {
		if (rte_mempool_get(c->mempool, &buf) < 0)
			return false;
		req->mr = c->ep->mr_local ? leat_ep_mempool_mr(c->ep, c->mempool) : NULL;
	}
	c->got_buffer = true;
	req->buf = req->given_buf = buf;
	req->given = 1;
	return true;
}

bool
msg_fits(struct leat_msg_conn *c, const struct leat_msg_req *req, uint64_t len)
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
	c->stats.received++;
	c->stats.recv_bytes += len;
}

void
msg_data_recv(struct leat_msg_conn *c, struct msg_slot *s, uint64_t size)
{
	struct leat_op *op = &s->data;

	op->peer = c->recv_peer;
	op->buf = s->req->buf;
	op->mr = s->req->mr;
	op->size = size;
	op->ignore = 0;
	op->tag = c->mode == LEAT_MSG_LEAT ? msg_tag(MSG_TAG_DATA, c->rx_base, s->id)
					   : MSG_PLAIN_DATA | s->id;
}

/* The oldest message that has no request gets one. @return false: there is none of either */
static inline bool
bind(struct leat_msg_conn *c)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);
	struct leat_msg_req *req;
	const uint64_t len = s->len;

	if (c->rx_bind - c->rx_done > c->mask ||
	    (s->flags & (MSG_ARRIVED | MSG_EARLY)) != MSG_ARRIVED)
		return false;
	req = msg_list_begin(&c->recvq);
	if (req == NULL || !msg_fits(c, req, len))
		return false;
	if (unlikely(len > 0 && req->buf == NULL) && !buffer_get(c, req, len)) {
		c->no_buffer = true;
		msg_wait(c);
		return false;
	}
	msg_list_begun(&c->recvq, req);
	if ((s->flags & MSG_EAGER) != 0) {
		msg_copy(req->buf, s->buf + s->off, len);
		received(c, req, len);
		if (msg_eager_next(s))
			return true;
		s->flags |= MSG_DONE;
	}
	c->rx_bind++;
	c->rx_arrived--;
	c->bulk = len >= MSG_BULK && c->mode == LEAT_MSG_LEAT;
	c->early = len > 0 && c->mode == LEAT_MSG_PLAIN;
	if ((s->flags & MSG_EAGER) != 0)
		return true;
	s->req = req;
	if (len == 0) {
		s->flags |= MSG_DONE;
	} else {
		msg_data_recv(c, s, len);
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
	msg_list_give(c->m, &c->recvq);
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
	if (c->mode == LEAT_MSG_LEAT && c->rx_bind == c->rx_done && c->rx_arrived == 0 &&
	    c->state == MSG_OPEN)
		c->rx_next = &msg_rx_slot(c, c->rx_done)->op;
	/* What the application waits for is not kept waiting for receives that are not needed yet. */
	free = msg_rx_free(c);
	if (free >= msg_rx_window(c) / 2)
		fill(c);
	else if (free >= c->batch || c->early)
		msg_later(c);
	if (((c->ctrl_rx[0].flags | c->ctrl_rx[1].flags) & MSG_WANT) != 0 && c->state == MSG_OPEN) {
		if ((c->ctrl_rx[0].flags & MSG_WANT) != 0)
			post_ctrl(c, &c->ctrl_rx[0]);
		if ((c->ctrl_rx[1].flags & MSG_WANT) != 0)
			post_ctrl(c, &c->ctrl_rx[1]);
	}
}

/* Messages that have arrived are for no receive any more. */
static void
drop_arrived(struct leat_msg_conn *c)
{
	c->rx_arrived = 0;
}

/* The oldest receive can't have the oldest message, and comes back with the reason. */
static void
refuse_arrived(struct leat_msg_conn *c, struct leat_msg_req *req, int status)
{
	msg_list_begun(&c->recvq, req);
	msg_req_finish(req, status, 0);
	msg_list_give(c->m, &c->recvq);
	drop_arrived(c);
}

/*
 * Over, and there is no buffer for the oldest message. Its receive waits, since the sends that have
 * just come back may hold the buffers, but not longer than its time: the pool has other users, and
 * may stay empty.
 * @return false: it has waited long enough
 */
static bool
wait_buffer(struct leat_msg_conn *c)
{
	const uint64_t now = leat_now();

	if (c->buffer_deadline == 0)
		c->buffer_deadline = now + leat_us_to_cycles(LEAT_MSG_NOBUFS_US);
	return now < c->buffer_deadline;
}

/* Receives get the messages that have arrived whole. @return false: one waits for a buffer */
static bool
over_bind(struct leat_msg_conn *c)
{
	struct leat_msg_req *req;

	while ((req = msg_list_begin(&c->recvq)) != NULL && c->rx_arrived > 0 &&
	       c->rx_done == c->rx_bind) {
		const struct msg_slot *s = msg_rx_slot(c, c->rx_bind);

		if ((s->flags & MSG_ARRIVED) == 0 || ((s->flags & MSG_EAGER) == 0 && s->len > 0))
			break;
		if (s->len > req->size) {
			refuse_arrived(c, req, -EMSGSIZE);
			break;
		}
		c->no_buffer = false;
		if (bind(c)) {
			c->buffer_deadline = 0;
			c->rx_data = c->rx_bind;
			finish(c);
			continue;
		}
		if (c->no_buffer && wait_buffer(c))
			return false;
		refuse_arrived(c, req, c->no_buffer ? -ENOBUFS : -EMSGSIZE);
	}
	return true;
}

void
msg_rx_over(struct leat_msg_conn *c, int status)
{
	struct leat_msg_req *req;

	finish(c);
	if (!c->closing && !over_bind(c))
		return;
	if (c->recvq.head == NULL)
		return;
	/* Those with half a message, and behind those nothing is a message any more. */
	drop_arrived(c);
	for (req = c->recvq.head; req != NULL; req = req->next) {
		if (req->state == MSG_REQ_CANCELLED)
			continue;
		if (req->state == MSG_REQ_FINISHED) {
			c->stats.received--;
			c->stats.recv_bytes -= req->len;
		}
		msg_req_finish(req, status, 0);
	}
	c->recvq.begin = NULL;
	msg_list_give(c->m, &c->recvq);
}
