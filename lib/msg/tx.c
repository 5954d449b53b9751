/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sending.
 *
 *     plain         length ->, payload ->                      both at once
 *     leat, small   head and message, and more messages ->     with credit
 *     leat, large   head ->, <- granted, payload ->            the payload meets a posted receive
 *
 * A message begins when its slot is free and, in leat mode, the peer has a receive posted for its
 * head. Ops that the endpoint refuses are posted again, in the same order, by the next
 * leat_msg_process() or leat_msg_poll().
 */

#include <errno.h>

#include "msg_fast.h"

/* ---- requests ---- */

int __rte_noinline
msg_alone_check(const struct leat_msg_conn *c, const struct leat_msg_req *req)
{
	const bool leat = c->mode == LEAT_MSG_LEAT, gather = (req->flags & MSG_F_GATHER) != 0;

	if ((req->flags & LEAT_MSG_F_DELIVERED) != 0 && !leat)
		return -EOPNOTSUPP;
	if (gather)
		return req->size == UINT64_MAX				  ? -EINVAL
		       : req->size > (leat ? c->tx_max : c->m->eager_max) ? -EMSGSIZE
									  : 0;
	if (req->size > 0 && req->buf == NULL)
		return -EINVAL;
	return req->size > c->eager_max && req->mr == NULL && c->ep->mr_local ? -EINVAL : 0;
}

/*
 * Put small messages that wait behind the first one of a send into the same send, as far as they
 * fit. So all messages that an application posts at once, or that waited for credit, share the cost
 * of the send.
 */
static inline void
gather(struct leat_msg_conn *c, struct msg_slot *s)
{
	const uint64_t end = MSG_HEAD_LEN + c->eager_max;
	struct leat_msg_req *req;

	while ((req = msg_list_begin(&c->sendq)) != NULL) {
		const uint64_t len = req->size;
		uint8_t *p = s->buf + s->op.size;

		if (len > c->eager_max || (req->flags & MSG_F_ALONE) != 0 ||
		    s->op.size + MSG_NEXT_LEN + len > end || msg_req_check(c, req) < 0)
			break;
		msg_list_begun(&c->sendq, req);
		leat_put_le64(p, len);
		msg_copy(p + MSG_NEXT_LEN, req->buf, len);
		s->op.size += MSG_NEXT_LEN + len;
		s->count++;
	}
}

static __rte_always_inline void
begin(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	const uint32_t id = c->tx_next++;
	struct msg_slot *s = msg_tx_slot(c, id);
	const uint64_t len = req->size;

	msg_list_begun(&c->sendq, req);
	s->req = req;
	s->id = id;
	s->count = 1;
	s->flags = 0;
	s->op.peer = c->peer;
	if (c->mode == LEAT_MSG_LEAT) {
		msg_head_put(c, s->buf, len);
		msg_head_sent(c);
		s->op.tag = msg_tag(MSG_TAG_MSG, c->tx_base, id);
		s->op.size = MSG_HEAD_LEN;
		if (likely(len <= c->eager_max)) {
			s->op.size += len;
			s->flags = MSG_EAGER;
			if (likely((req->flags & MSG_F_ALONE) == 0)) {
				msg_copy(s->buf + MSG_HEAD_LEN, req->buf, len);
				gather(c, s);
			} else if ((req->flags & MSG_F_GATHER) != 0) {
				msg_gather_copy(req, 0, s->buf + MSG_HEAD_LEN, len);
			} else {
				msg_copy(s->buf + MSG_HEAD_LEN, req->buf, len);
			}
			c->stats.eager += s->count;
			if (s->count >= c->stream)
				c->stream = RTE_MIN(s->count, (uint16_t)MSG_STREAM_MAX);
			else
				c->stream--;
			c->want = c->stream;
			msg_slot_prefetch(msg_tx_slot(c, id + 1));
			return;
		}
		s->data.tag = msg_tag(MSG_TAG_DATA, c->tx_base, id);
		/*
		 * tx_data stands still while there are only small messages. All messages before
		 * this one are done or small, so tx_data may jump to this one.
		 */
		if (c->tx_large++ == 0)
			c->tx_data = id;
	} else {
		uint64_t le = rte_cpu_to_le_64(len);

		memcpy(s->buf, &le, sizeof(le));
		s->op.tag = MSG_PLAIN_LEN | id;
		s->op.size = sizeof(le);
		if (len == 0)
			return;
		s->data.tag = MSG_PLAIN_DATA | id;
	}
	s->data.peer = c->peer;
	s->data.buf = req->buf;
	s->data.mr = req->mr;
	s->data.size = len;
	if (unlikely((req->flags & MSG_F_GATHER) != 0)) {
		/* Plain mode: msg_alone_check() has found that the pieces fit behind the length. */
		s->data.buf = s->buf + MSG_HEAD_LEN;
		s->data.mr = c->m->mr;
		msg_gather_copy(req, 0, s->buf + MSG_HEAD_LEN, len);
	}
	s->flags = MSG_WANT;
}

void __rte_noinline
msg_post_refused(struct leat_msg_conn *c)
{
	c->stats.refused++;
	if (rte_errno == ESHUTDOWN)
		msg_fail(c, -ESHUTDOWN, "the endpoint is shut down");
	else
		msg_wait(c);
}

/*
 * Post ops, and note in their slots that the device has them. @return false: the endpoint did not
 * take all
 */
static bool
post(struct leat_msg_conn *c, struct leat_op **ops, uint16_t n)
{
	uint16_t i, k = leat_ep_post(c->ep, ops, n);

	for (i = 0; i < k; i++) {
		struct msg_slot *s = ops[i]->user;

		if (ops[i] == &s->op)
			s->flags |= MSG_POSTED | MSG_OP_OUT;
		else
			s->flags = (uint16_t)((s->flags & ~MSG_WANT) | MSG_DATA_OUT);
	}
	c->tx_out += k;
	if (likely(k == n))
		return true;
	msg_post_refused(c);
	return false;
}

struct msg_slot *
msg_tx_begin_eager(struct leat_msg_conn *c, uint64_t len)
{
	struct msg_slot *s = msg_tx_slot(c, c->tx_next);

	if (!msg_may_begin(c))
		return NULL;
	s->req = NULL;
	s->id = c->tx_next++;
	s->count = 0;
	s->flags = MSG_EAGER;
	msg_head_put(c, s->buf, len);
	msg_head_sent(c);
	s->op.peer = c->peer;
	s->op.tag = msg_tag(MSG_TAG_MSG, c->tx_base, s->id);
	s->op.size = MSG_HEAD_LEN;
	return s;
}

/* Begin a send that travels alone. @return false: it has to wait */
static __rte_noinline bool
begin_alone(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	struct msg_slot *s = msg_tx_slot(c, c->tx_next);

	if ((req->flags & MSG_F_GATHER) != 0 && req->size > c->eager_max &&
	    c->mode == LEAT_MSG_LEAT)
		return msg_tx_fragments(c, req);
	if (!msg_may_begin(c))
		return false;
	begin(c, req);
	if ((req->flags & LEAT_MSG_F_DELIVERED) != 0)
		msg_answer_ask(req, s);
	return true;
}

/* Post the messages that have begun. @return false: the endpoint refused some */
static bool
post_begun(struct leat_msg_conn *c)
{
	struct leat_op *ops[MSG_BURST];

	while (c->tx_post != c->tx_next) {
		uint32_t id = c->tx_post;
		uint16_t n = 0;
		bool all;

		for (; id != c->tx_next && n < MSG_BURST - 1; id++) {
			struct msg_slot *s = msg_tx_slot(c, id);

			if ((s->flags & MSG_POSTED) == 0)
				ops[n++] = &s->op;
			if (c->mode == LEAT_MSG_PLAIN && (s->flags & MSG_WANT) != 0)
				ops[n++] = &s->data;
		}
		all = post(c, ops, n);
		while (c->tx_post != id) {
			const struct msg_slot *s = msg_tx_slot(c, c->tx_post);

			if ((s->flags & MSG_POSTED) == 0 ||
			    (c->mode == LEAT_MSG_PLAIN && (s->flags & MSG_WANT) != 0))
				break;
			c->tx_post++;
		}
		if (unlikely(!all))
			return false;
	}
	return true;
}

/* Leat mode: post payloads whose receives the peer has granted. @return false: refused */
static bool
post_granted(struct leat_msg_conn *c)
{
	/*
	 * Skip messages that are done: they need no grant, and their slots may hold other messages
	 * by now. tx_data and tx_done are less than credits apart, because tx_data began at a large
	 * message (see begin()), and tx_done passes no message that waits for a grant.
	 */
	if ((int32_t)(c->tx_done - c->tx_data) > 0)
		c->tx_data = c->tx_done;
	while (c->tx_data != c->tx_post && (int32_t)(c->tx_granted - c->tx_data) > 0) {
		struct msg_slot *s = msg_tx_slot(c, c->tx_data);
		struct leat_op *op = &s->data;

		if ((s->flags & MSG_WANT) != 0) {
			if (c->tx_bytes >= MSG_DATA_AHEAD)
				break;
			if (!post(c, &op, 1))
				return false;
			c->tx_bytes += op->size;
			c->tx_large--;
		}
		c->tx_data++;
	}
	return true;
}

/* Finish the requests of a send that is done. Skip cancelled ones between them in the list. */
static inline void
finish(struct leat_msg_conn *c, struct msg_slot *s)
{
	struct leat_msg_req *req = s->req;
	uint16_t n = s->count;

	if (unlikely((s->flags & MSG_DROP) != 0)) {
		if (req != NULL)
			msg_req_finish(req, -EMSGSIZE, 0);
		s->req = NULL;
		return;
	}
	c->stats.sent += n;
	for (; n > 0; req = req->next) {
		if (unlikely(req->state != MSG_REQ_STARTED))
			continue;
		n--;
		if (unlikely((req->flags & MSG_F_ALONE) != 0) && msg_answer_waits(c, req)) {
			c->stats.sent--;
			continue;
		}
		c->stats.sent_bytes += req->size;
		msg_req_finish(req, 0, req->size);
	}
	s->req = NULL;
}

void
msg_tx_finish_early(struct leat_msg_conn *c, struct msg_slot *s)
{
	finish(c, s);
	s->count = 0;
}

void
msg_tx_finish(struct leat_msg_conn *c)
{
	while (c->tx_done != c->tx_post) {
		struct msg_slot *s = msg_tx_slot(c, c->tx_done);

		/*
		 * An eager message was copied into the slot: its request is done once the op is
		 * posted.
		 */
		if ((s->flags & MSG_EAGER) == 0 &&
		    (s->flags & (MSG_OP_OUT | MSG_DATA_OUT | MSG_WANT | MSG_FAILED)) != 0)
			break;
		finish(c, s);
		c->tx_done++;
	}
	msg_list_give(c->m, &c->sendq);
}

/*
 * If a send can't begin for lack of credit, ask the peer for more receives. Ask again only when the
 * peer has posted the receives that were asked for before.
 */
static void
ask_more(struct leat_msg_conn *c)
{
	if (c->tx_more >= LEAT_MSG_CREDITS_MAX || c->mode != LEAT_MSG_LEAT ||
	    c->tx_credit != c->tx_next || c->tx_credit - c->tx_more_at < c->tx_more)
		return;
	c->tx_more *= 2;
	c->tx_more_at = c->tx_credit;
	c->ctrl_due |= 1u << MSG_CTRL_MORE;
	msg_work(c);
}

void
msg_tx_run(struct leat_msg_conn *c)
{
	struct leat_msg_req *req;

	c->nb_held = 0;
	c->tx_held = 0;
	if (c->tx_post != c->tx_next && !post_begun(c))
		return;
	if (c->tx_large > 0 && !post_granted(c))
		return;
	do {
		if (unlikely(c->tx_frag_left > 0 && c->tx_frag == NULL) &&
		    !msg_tx_fragments(c, NULL))
			break;
		while ((req = msg_list_begin(&c->sendq)) != NULL) {
			int status = msg_req_check(c, req);

			if (unlikely(status < 0)) {
				msg_list_begun(&c->sendq, req);
				msg_req_finish(req, status, 0);
				continue;
			}
			if (unlikely((req->flags & MSG_F_ALONE) != 0)) {
				if (begin_alone(c, req))
					continue;
				c->stats.stalled++;
				ask_more(c);
				break;
			}
			if (!msg_may_begin(c)) {
				c->stats.stalled++;
				ask_more(c);
				break;
			}
			begin(c, req);
		}
		if (!post_begun(c))
			break;
		/* Eager messages are done once posted, so slots may be free now. */
		msg_tx_finish(c);
	} while (req != NULL && msg_may_begin(c));
	msg_tx_finish(c);
}

/* ---- one message ---- */

/*
 * Plain mode: send one message at once, if no other send waits. @return false: it can't be sent at
 * once; nothing was done
 */
static bool
send_plain(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	struct leat_op *ops[2];
	struct msg_slot *s;

	if (unlikely(c->state != MSG_OPEN || c->closing || c->sendq.head != NULL ||
		     (req->state | req->flags) != 0 || !msg_may_begin(c) ||
		     msg_req_check(c, req) < 0))
		return false;
	s = msg_tx_slot(c, c->tx_next);
	req->conn = c;
	req->recv = 0;
	msg_list_add(&c->sendq, req);
	begin(c, req);
	ops[0] = &s->op;
	ops[1] = &s->data;
	if (likely(post(c, ops, (s->flags & MSG_WANT) != 0 ? 2 : 1)))
		c->tx_post = c->tx_next;
	return true;
}

/*
 * Queue a small message until the end of the turn, or until the queued messages fill a send.
 * @return false: it may leave now, or is no small message that can wait; nothing was done
 */
static bool
send_held(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	struct leat_msg *m = c->m;
	const uint32_t len = MSG_NEXT_LEN + (uint32_t)req->size;

	if (unlikely(c->state != MSG_OPEN || c->mode != LEAT_MSG_LEAT || c->no_sends ||
		     req->state != MSG_REQ_IDLE || (req->flags & MSG_F_ALONE) != 0 ||
		     req->size > c->eager_max || msg_req_check(c, req) < 0))
		return false;
	/* If no message waits before it, for credit or the turn's end, it may leave at once. */
	if (msg_list_begin(&c->sendq) == NULL && !msg_turn_holds(m, c))
		return false;
	if (c->tx_held + len > c->eager_max)
		msg_tx_run(c);
	if (c->tx_held == 0 && !m->held) {
		m->held = true;
		m->held_turn = m->turn;
	}
	c->tx_held += len;
	req->state = MSG_REQ_QUEUED;
	req->conn = c;
	req->recv = 0;
	msg_list_add(&c->sendq, req);
	if (unlikely(req->flags != 0))
		msg_take_flags(req);
	c->nb_held++;
	if (c->nb_held >= c->want && c->given_turn == m->turn && c->hold_turn != m->turn &&
	    m->cut == 0) {
		c->hold_turn = m->turn;
		msg_tx_run(c);
	} else {
		msg_later(c);
	}
	return true;
}

static __rte_noinline uint16_t
send_any(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	if (n == 1 && (c->mode == LEAT_MSG_PLAIN ? send_plain(c, reqs[0]) : send_held(c, reqs[0])))
		return 1;
	c->hold_turn = c->m->turn;
	return msg_tx_queue(c, reqs, n);
}

uint16_t
leat_msg_send(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	if (likely(n == 1) && likely(msg_fast_send(c, reqs[0])))
		return 1;
	return send_any(c, reqs, n);
}

void
msg_tx_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	c->tx_out--;
	s->flags &= (uint16_t)(op == &s->op ? ~MSG_OP_OUT : ~MSG_DATA_OUT);
	if (op == &s->data && c->mode == LEAT_MSG_LEAT)
		c->tx_bytes -= op->size;
	if (unlikely(op->status != 0 && msg_tx_taken_back(c, s, op))) {
		/* Recalled: an empty payload will be sent in its place. */
	} else if (unlikely(op->status != 0 && op == &s->data &&
			    msg_recv_was_short(c, op->status))) {
		s->flags |= MSG_DROP;
	} else if (unlikely(op->status != 0)) {
		s->flags |= MSG_FAILED;
		msg_op_failed(c, op);
	} else if (!c->draining && c->state == MSG_OPEN) {
		/*
		 * An eager message's request is done already. There is nothing else to do if no
		 * sends are queued, or if the queued sends wait for the end of the turn.
		 */
		if ((s->flags & MSG_EAGER) != 0 && (c->sendq.head == NULL || c->tx_held > 0))
			return;
		if (c->mode == LEAT_MSG_PLAIN && c->sendq.begin == NULL) {
			msg_tx_finish(c); /* no send waits */
			return;
		}
	}
	msg_work(c);
}

/*
 * Let sends use all slots, once the peer has more receives posted than the slots used so far. This
 * changes which slot belongs to an id, so no message may be in flight.
 */
static void
use_all_slots(struct leat_msg_conn *c)
{
	if (c->tx_mask == c->mask || c->tx_done != c->tx_next)
		return;
	c->tx_mask = c->mask;
}

bool
msg_tx_credit(struct leat_msg_conn *c, uint32_t credit, uint32_t granted)
{
	if (unlikely(!msg_tx_credit_right(c, credit, granted))) {
		msg_fail(c, -EPROTO, "credit to %#x and grants to %#x, but the next message is %#x",
			 credit, granted, c->tx_next);
		return false;
	}
	/* An older number may come after a newer one, since completions have no order. */
	if ((int32_t)(credit - c->tx_credit) > 0) {
		c->tx_credit = credit;
		if (unlikely(credit - c->tx_next > c->tx_mask + 1))
			use_all_slots(c);
		if (c->sendq.begin != NULL && c->tx_held == 0)
			msg_work(c);
	}
	if ((int32_t)(granted - c->tx_granted) > 0) {
		c->tx_granted = granted;
		if (c->tx_large > 0)
			msg_work(c);
	}
	return true;
}
