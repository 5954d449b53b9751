/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_FAST_H
#define MSG_FAST_H

/*
 * Leat mode: the fast path of a small message that is alone, as in a conversation. These functions
 * do in one step what tx.c, rx.c and arrive.c do step by step, over slots and lists. If a condition
 * does not hold they return false without having done anything, and the caller takes the slow path.
 *
 *     step      function             condition
 *     post      msg_fast_send()      no message waits before it; there is credit, and a free slot
 *     sent      msg_fast_sent()      no message waits for the slot
 *     arrived   msg_fast_arrived()   it is the next message, and the oldest request waits for one
 *
 * They exist because small messages are measurably slower without them (doc/guide/msg.md). A
 * connection uses them while c->fast is true. test_msg_fast.c runs the same cases with and without
 * them.
 */

#include <leat_ep_pvt.h>

#include "msg_pvt.h"

/* ---- steps shared with the slow path ---- */

/* tx.c: check a send that travels alone. @return as msg_req_check() */
int msg_alone_check(const struct leat_msg_conn *c, const struct leat_msg_req *req);

/* Write a head, with the credit and the grants that travel with it. */
static inline void
msg_head_put(const struct leat_msg_conn *c, uint8_t *buf, uint64_t len)
{
	struct msg_head head = {
		.len = rte_cpu_to_le_64(len),
		.credit = rte_cpu_to_le_32(c->rx_post),
		.granted = rte_cpu_to_le_32(c->rx_data),
	};

	memcpy(buf, &head, sizeof(head));
}

static inline void
msg_head_sent(struct leat_msg_conn *c)
{
	c->rx_told = c->rx_post;
	c->grant = false;
}

/* Check a send. @return 0, or the status with which it fails; the connection goes on */
static inline int
msg_req_check(const struct leat_msg_conn *c, const struct leat_msg_req *req)
{
	if (unlikely((req->flags & MSG_F_ALONE) != 0))
		return msg_alone_check(c, req);
	if (unlikely(req->size > c->tx_max))
		return -EMSGSIZE;
	if (unlikely(req->size > 0 && req->buf == NULL))
		return -EINVAL;
	if (unlikely(req->size > c->eager_max && req->mr == NULL && c->ep->mr_local))
		return -EINVAL;
	return 0;
}

static inline bool
msg_may_begin(const struct leat_msg_conn *c)
{
	if (c->mode == LEAT_MSG_LEAT && (int32_t)(c->tx_credit - c->tx_next) <= 0)
		return false;
	return c->tx_next - c->tx_done <= c->tx_mask &&
	       (msg_tx_slot(c, c->tx_next)->flags & (MSG_OP_OUT | MSG_DATA_OUT)) == 0;
}

/* Free slot s, of which every message was delivered to a request. */
static inline void
msg_delivered(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id)
{
	s->flags = 0;
	c->bulk = false;
	c->rx_bind = c->rx_data = c->rx_done = id + 1;
	c->rx_next = &msg_rx_slot(c, id + 1)->op;
	/* Messages behind this one may have arrived before it. */
	if (unlikely(c->rx_post - c->rx_done <= c->rx_window / 2 || c->rx_arrived > 0)) {
		c->rx_next = NULL;
		msg_work(c);
	} else {
		msg_later(c);
	}
}

/* ---- the fast path ---- */

/*
 * Send one small message that need not wait for the end of the turn. Fields that the device does
 * not need are stored after the post.
 */
static __rte_always_inline bool
msg_fast_send(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	const uint64_t len = req->size;
	const uint32_t id = c->tx_next;
	struct msg_slot *s;
	struct leat_op *op;

	if (unlikely(!c->fast || c->no_fast_send || c->sendq.head != NULL ||
		     (req->state | req->flags) != 0 || len > c->eager_max ||
		     msg_turn_holds(c->m, c) || msg_req_check(c, req) < 0 || !msg_may_begin(c)))
		return false;
	leat_ep_post_soon(c->ep, c->peer);
	s = msg_tx_slot(c, id);
	msg_head_put(c, s->buf, len);
	msg_copy(s->buf + MSG_HEAD_LEN, req->buf, len);
	op = &s->op;
	op->peer = c->peer;
	op->tag = msg_tag(MSG_TAG_MSG, c->tx_base, id);
	op->size = MSG_HEAD_LEN + len;
	if (unlikely(leat_ep_post(c->ep, &op, 1) == 0))
		return false;
	c->hold_turn = c->m->turn;
	msg_head_sent(c);
	s->flags = MSG_EAGER | MSG_POSTED | MSG_OP_OUT;
	c->tx_out++;
	c->tx_next = c->tx_post = c->tx_done = id + 1;
	c->stats.eager++;
	c->stats.sent++;
	c->stats.sent_bytes += len;
	req->conn = c;
	req->recv = 0;
	req->status = 0;
	req->len = len;
	msg_give(c->m, req);
	msg_slot_prefetch(msg_tx_slot(c, id + 1));
	return true;
}

/*
 * Complete the send of a small message whose request was given back before. Load s->kind alone, not
 * together with s->flags: if s->flags has just been stored, a load of both can't be forwarded from
 * that store, and waits until the store has left the core's store buffer.
 */
static __rte_always_inline bool
msg_fast_sent(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	if (__atomic_load_n(&s->kind, __ATOMIC_RELAXED) != MSG_SLOT_TX || !c->fast ||
	    s->flags != (MSG_EAGER | MSG_POSTED | MSG_OP_OUT) || op->status != 0 ||
	    (c->sendq.head != NULL && c->tx_held == 0))
		return false;
	s->flags = MSG_EAGER | MSG_POSTED;
	c->tx_out--;
	return true;
}

/* Deliver the next message if it is small and alone in its send; op is c->rx_next. */
static __rte_always_inline bool
msg_fast_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	struct leat_msg_req *req = c->recvq.head;
	const uint64_t len = op->len - MSG_HEAD_LEN;
	struct msg_head head;
	uint32_t credit, granted;

	if (unlikely(!c->fast || op->status != 0 || op->len < MSG_HEAD_LEN || req == NULL ||
		     req != c->recvq.begin ||
		     (req->next != NULL && req->next->state >= MSG_REQ_CANCELLED)))
		return false;
	memcpy(&head, s->buf, sizeof(head));
	credit = rte_le_to_cpu_32(head.credit);
	granted = rte_le_to_cpu_32(head.granted);
	if (unlikely(rte_le_to_cpu_64(head.len) != len || len > c->max_size || len > req->size ||
		     (req->buf == NULL && len > 0) || !msg_tx_credit_right(c, credit, granted)))
		return false;
	msg_copy(req->buf, s->buf + MSG_HEAD_LEN, len);
	msg_list_give_first(c->m, &c->recvq, req, len);
	c->rx_out--;
	c->stats.received++;
	c->stats.recv_bytes += len;
	msg_delivered(c, s, c->rx_done);
	/* The numbers were checked above, so this can't fail. */
	(void)msg_tx_credit(c, credit, granted);
	return true;
}

#endif /* MSG_FAST_H */
