/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receiving.
 *
 * Receives for the next lengths (plain) or heads (leat) are always posted, each for exactly one id.
 * So each is met only by its own message, whatever the order in which the device completes them. In
 * plain mode receives that match any id can be posted instead (any_id); then the id is read from
 * the tag of the message that arrived.
 *
 * A message that arrived (arrive.c) waits in its slot until there is a request for it. An eager
 * message is then copied, and the next one in the same slot waits for the next request. For a large
 * message the payload's receive is posted, of exactly the announced length; the length is compared
 * with the request before any buffer is allocated.
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

/* Post receives. @return how many the endpoint took */
static uint16_t
post(struct leat_msg_conn *c, struct leat_op **ops, uint16_t n)
{
	uint16_t k = leat_ep_post(c->ep, ops, n);

	c->rx_out += k;
	if (likely(k == n))
		return k;
	msg_post_refused(c);
	return k;
}

/* Prepare the receive of the next length or head. */
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

/* Post receives until the window is full. */
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
	if (unlikely(c->peer_ended))
		msg_work(c);
	msg_slot_prefetch(msg_rx_slot(c, c->rx_done));
	if (msg_rx_free(c) >= c->batch)
		fill(c);
}

void
msg_rx_start(struct leat_msg_conn *c)
{
	uint32_t i;

	/*
	 * Nothing is in flight, but the connection that used the slots before may have left the
	 * flags of messages that were never received.
	 */
	for (i = 0; i <= c->mask; i++)
		c->rx[i].flags = 0;
	c->idle = NULL;
	if (c->any_id) {
		for (i = 0; i < c->rx_window; i++) {
			c->rx[i].next_idle = c->idle;
			c->idle = &c->rx[i];
		}
	}
	if (c->mode == LEAT_MSG_LEAT)
		msg_ctrl_start(c);
	fill(c);
	c->rx_told = c->first_id + c->rx_window;
}

/* ---- binding messages to requests ---- */

/*
 * Get a buffer for a request that has none, and store it in given_buf, too. If the request is
 * posted again with that buffer, it gets another one, since this one is only as large as its
 * message. @return false: no buffer is available now
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
msg_fits(const struct leat_msg_conn *c, const struct leat_msg_req *req, uint64_t len)
{
	if (unlikely(len > req->size))
		return false;
	return req->buf != NULL || len == 0 || c->alloc != NULL || c->mempool == NULL ||
	       len <= c->mempool->elt_size;
}

static inline void
received(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	msg_req_finish(req, 0, len);
	c->stats.received++;
	c->stats.recv_bytes += len;
}

void
msg_received(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	received(c, req, len);
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

static __rte_always_inline struct leat_msg_req *
request_take(struct leat_msg_conn *c, uint64_t len, bool *fits)
{
	struct leat_msg_req *req;

	while ((req = msg_list_begin(&c->recvq)) != NULL) {
		*fits = msg_fits(c, req, len);
		if (likely(len == 0 || req->buf != NULL || !*fits))
			break;
		if (c->alloc != NULL || c->mempool != NULL) {
			if (buffer_get(c, req, len))
				break;
			c->no_buffer = true;
			msg_wait(c);
			return NULL;
		}
		/* The request can never get a buffer: fail it, and try the next request. */
		msg_list_begun(&c->recvq, req);
		msg_req_finish(req, -EINVAL, 0);
	}
	if (likely(req != NULL))
		msg_list_begun(&c->recvq, req);
	return req;
}

struct leat_msg_req *
msg_request_take(struct leat_msg_conn *c, uint64_t len, bool *fits)
{
	return request_take(c, len, fits);
}

/*
 * Give the next request to the oldest message that has none. @return false: no such message, or no
 * request or buffer for it; or the connection ended
 */
static inline bool
bind(struct leat_msg_conn *c)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);
	struct leat_msg_req *req;
	const uint64_t len = s->len;
	bool fits;

	if (c->rx_bind - c->rx_done > c->mask ||
	    (s->flags & (MSG_ARRIVED | MSG_EARLY)) != MSG_ARRIVED)
		return false;
	if (unlikely((s->flags & MSG_FRAGMENT) != 0))
		return msg_fragment_bind(c, s);
	if (unlikely(c->rx_frag_left > 0)) {
		msg_fail(c, -EPROTO, "message %#x in the middle of fragments", s->id);
		return false;
	}
	req = request_take(c, len, &fits);
	if (req == NULL)
		return false;
	if ((s->flags & MSG_EAGER) != 0) {
		if (likely(fits)) {
			msg_copy(req->buf, s->buf + s->off, len);
			received(c, req, len);
		} else {
			c->stats.dropped++;
			msg_req_finish(req, -EMSGSIZE, len);
		}
		if (msg_eager_next(s))
			return true;
		s->flags |= MSG_DONE;
		if (unlikely(!fits && (s->flags & MSG_ANSWER) != 0))
			msg_drop_asked(c, s, MSG_REASON_SIZE);
	}
	c->rx_bind++;
	c->rx_arrived--;
	c->bulk = len >= MSG_BULK && c->mode == LEAT_MSG_LEAT;
	c->early = len > 0 && c->mode == LEAT_MSG_PLAIN;
	if ((s->flags & MSG_EAGER) != 0)
		return true;
	s->req = req;
	if (unlikely(!fits)) {
		msg_drop(c, s, MSG_REASON_SIZE);
	} else if (len == 0) {
		s->flags |= MSG_DONE;
	} else {
		msg_data_recv(c, s, len);
		s->flags |= MSG_WANT;
	}
	return true;
}

/* Post the receives of payloads in the order of ids, since a grant covers all ids below it. */
static void
post_data(struct leat_msg_conn *c)
{
	while (c->rx_data != c->rx_bind) {
		struct msg_slot *s = msg_rx_slot(c, c->rx_data);
		struct leat_op *op = &s->data;

		if (unlikely((s->flags & MSG_DROP) != 0)) {
			if ((s->flags & (MSG_WANT | MSG_REPORTED)) != MSG_REPORTED)
				return;
		} else if ((s->flags & MSG_WANT) != 0) {
			if (post(c, &op, 1) == 0)
				return;
			s->flags = (uint16_t)((s->flags & ~MSG_WANT) | MSG_DATA_OUT);
			c->grant = true;
		}
		c->rx_data++;
	}
}

/*
 * Finish requests that have their messages, even if they are behind a dropped message, whose
 * payload may never come.
 */
static void
finish_behind(struct leat_msg_conn *c)
{
	uint32_t id;

	for (id = c->rx_done; id != c->rx_data; id++) {
		struct msg_slot *s = msg_rx_slot(c, id);

		if ((s->flags & (MSG_DONE | MSG_EAGER)) != MSG_DONE || s->req == NULL)
			continue;
		received(c, s->req, s->len);
		s->req = NULL;
	}
}

static inline void
finish(struct leat_msg_conn *c)
{
	while (c->rx_done != c->rx_data) {
		struct msg_slot *s = msg_rx_slot(c, c->rx_done);

		if ((s->flags & MSG_DONE) == 0)
			break;
		if (unlikely((s->flags & MSG_ANSWER) != 0)) {
			/* A drop must be reported before the answer, if the connection is open. */
			if ((s->flags & (MSG_DROP | MSG_REPORTED)) == MSG_DROP &&
			    c->state == MSG_OPEN)
				break;
			c->ctrl_due |= 1u << MSG_CTRL_ANSWER;
		}
		if ((s->flags & MSG_EAGER) == 0 && s->req != NULL)
			received(c, s->req, s->len);
		if (unlikely((s->flags & MSG_DROP) != 0))
			c->drops--;
		/* With any_id the slot's op may be posted for another message: keep MSG_OP_OUT. */
		s->flags &= MSG_OP_OUT;
		c->rx_done++;
	}
	if (unlikely(c->drops > 0))
		finish_behind(c);
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
	if (unlikely(c->drops > 0))
		msg_drop_run(c);
	post_data(c);
	finish(c);
	if (unlikely(c->peer_ended))
		msg_ended_run(c);
	if (unlikely(c->state != MSG_OPEN))
		return;
	if (c->mode == LEAT_MSG_LEAT && c->rx_bind == c->rx_done && c->rx_arrived == 0 &&
	    !msg_rx_in_turn(c))
		c->rx_next = &msg_rx_slot(c, c->rx_done)->op;
	/* Receives that are not needed yet must not delay the message just delivered. */
	free = msg_rx_free(c);
	if (free >= msg_rx_window(c) / 2)
		fill(c);
	else if (free >= c->batch || c->early)
		msg_later(c);
	if (((c->ctrl_rx[0].flags | c->ctrl_rx[1].flags) & MSG_WANT) != 0)
		msg_ctrl_recv(c);
}

/* Forget the messages that have arrived and have no request: no receive gets them any more. */
static void
drop_arrived(struct leat_msg_conn *c)
{
	c->rx_arrived = 0;
}

/* The oldest message gets no buffer: fail its receive, and drop all messages that have arrived. */
static void
refuse_arrived(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	msg_list_begun(&c->recvq, req);
	msg_req_finish(req, -ENOBUFS, 0);
	msg_list_give(c->m, &c->recvq);
	drop_arrived(c);
}

/*
 * State MSG_OVER: wait for a buffer for the oldest message, up to LEAT_MSG_NOBUFS_US. The sends
 * that have just come back may hold the buffers; but the pool has other users, and may stay empty.
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

/*
 * Give receives the messages that have arrived whole. @return false: a receive waits for a buffer
 */
static bool
over_bind(struct leat_msg_conn *c)
{
	struct leat_msg_req *req;

	while (((req = msg_list_begin(&c->recvq)) != NULL || c->rx_frag_left > 0) &&
	       c->rx_arrived > 0 && c->rx_done == c->rx_bind) {
		const struct msg_slot *s = msg_rx_slot(c, c->rx_bind);

		if ((s->flags & MSG_ARRIVED) == 0 || ((s->flags & MSG_EAGER) == 0 && s->len > 0))
			break;
		c->no_buffer = false;
		if (bind(c)) {
			c->buffer_deadline = 0;
			c->rx_data = c->rx_bind;
			finish(c);
			continue;
		}
		/*
		 * Stop if the message is malformed, or if no request is left for which a buffer
		 * could come.
		 */
		if (req == NULL || !c->no_buffer)
			break;
		if (wait_buffer(c))
			return false;
		refuse_arrived(c, req);
	}
	return true;
}

void
msg_rx_over(struct leat_msg_conn *c, int status)
{
	struct leat_msg_req *req;

	if (unlikely(c->drops > 0))
		msg_drop_over(c);
	finish(c);
	if (!c->closing && !over_bind(c))
		return;
	if (c->recvq.head == NULL)
		return;
	/* A receive with half a message fails, and so do all behind it, even with a message. */
	drop_arrived(c);
	for (req = c->recvq.head; req != NULL; req = req->next) {
		if (req->state == MSG_REQ_CANCELLED)
			continue;
		if (req->state == MSG_REQ_FINISHED && req->status == 0) {
			c->stats.received--;
			c->stats.recv_bytes -= req->len;
		}
		msg_req_finish(req, status, 0);
	}
	c->recvq.begin = NULL;
	msg_list_give(c->m, &c->recvq);
}
