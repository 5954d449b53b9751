/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Arrivals: heads, lengths and payloads. Control messages go to ctrl.c.
 *
 * What arrives is checked before it is used: an announced length is compared with the limit and
 * with the bytes that came, and a wrong one ends the connection. The usual small message goes from
 * here to its request in one step; others are recorded in their slots, and rx.c processes them.
 */

#include <errno.h>

#include "msg_fast.h"

static void __rte_cold
too_long(struct leat_msg_conn *c, uint32_t id, uint64_t len)
{
	msg_fail(c, -EMSGSIZE, "message %#x has %" PRIu64 " B, the limit is %" PRIu64, id, len,
		 c->max_size);
}

void
msg_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id, uint64_t len)
{
	msg_work(c);
	c->rx_next = NULL;
	s->id = id;
	s->len = len;
	s->flags |= MSG_ARRIVED;
	if (++c->rx_arrived > c->stats.held_max)
		c->stats.held_max = c->rx_arrived;
}

/* Give the oldest request its message, and give back this request and cancelled ones behind it. */
static inline void
give_oldest(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len)
{
	msg_list_give_first(c->m, &c->recvq, req, len);
	msg_list_give(c->m, &c->recvq);
	c->stats.received++;
	c->stats.recv_bytes += len;
}

/*
 * Deliver the eager messages of a slot, if they are the next ones and requests wait for them.
 * @return false: at least one of them was not delivered
 */
static inline bool
deliver(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id)
{
	if (unlikely(id != c->rx_done || id != c->rx_bind || c->state != MSG_OPEN ||
		     msg_rx_in_turn(c)))
		return false;
	do {
		struct leat_msg_req *req = c->recvq.head;
		const uint64_t len = s->len;

		if (unlikely(req == NULL || req != c->recvq.begin || len > req->size ||
			     (req->buf == NULL && len > 0)))
			return false;
		msg_copy(req->buf, s->buf + s->off, len);
		give_oldest(c, req, len);
	} while (unlikely(msg_eager_next(s)));
	msg_delivered(c, s, id);
	msg_slot_prefetch(msg_rx_slot(c, id + 1));
	return true;
}

/*
 * Check the small messages behind the first one of a send, before the first is delivered.
 * @return false: the connection ended
 */
static bool
check_behind(struct leat_msg_conn *c, const struct msg_slot *s, uint32_t id, uint64_t len)
{
	const uint8_t *p = s->buf + MSG_HEAD_LEN + len;
	uint64_t left = s->op.len - MSG_HEAD_LEN - len;

	while (left > 0) {
		len = left < MSG_NEXT_LEN ? UINT64_MAX : leat_get_le64(p);
		if (unlikely(left < MSG_NEXT_LEN || len > left - MSG_NEXT_LEN)) {
			msg_fail(c, -EPROTO,
				 "message %#x: %" PRIu64 " B behind it are not a valid message", id,
				 left);
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

/* Check a message whose head has flags, which is alone in its send, and record it in its slot. */
static __rte_noinline void
flagged_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id,
		const struct msg_head *head)
{
	const uint64_t all = rte_le_to_cpu_64(head->len), len = all & ~MSG_LEN_FLAGS;
	const uint64_t came = s->op.len - MSG_HEAD_LEN;
	const bool fragment = (all & MSG_LEN_FRAGMENT) != 0, eager = len <= c->eager_max;

	if (unlikely(len > c->max_size)) {
		too_long(c, id, len);
		return;
	}
	if (unlikely(fragment ? came > len : came != (eager ? len : 0))) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B announced, %" PRIu64 " B came", id,
			 len, came);
		return;
	}
	if (unlikely(!msg_tx_credit(c, rte_le_to_cpu_32(head->credit),
				    rte_le_to_cpu_32(head->granted))))
		return;
	s->off = MSG_HEAD_LEN;
	if (fragment)
		s->flags |= MSG_FRAGMENT | MSG_EAGER;
	else if (eager)
		s->flags |= MSG_EAGER;
	if ((all & MSG_LEN_ANSWER) != 0)
		s->flags |= MSG_ANSWER;
	msg_arrived(c, s, id, len);
}

static inline void
head_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id)
{
	const uint64_t came = s->op.len - MSG_HEAD_LEN;
	struct msg_head head;
	uint64_t len;
	bool eager;

	if (unlikely(s->op.len < MSG_HEAD_LEN)) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B are not a valid head", id,
			 s->op.len);
		return;
	}
	if (unlikely(c->peer_ended && (int32_t)(id - c->rx_end) >= 0)) {
		msg_end_passed(c, id, c->rx_end);
		return;
	}
	memcpy(&head, s->buf, sizeof(head));
	len = rte_le_to_cpu_64(head.len);
	if (unlikely((len & MSG_LEN_FLAGS) != 0)) {
		flagged_arrived(c, s, id, &head);
		return;
	}
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
	msg_arrived(c, s, id, s->len);
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
	if (unlikely(len > c->max_size))
		too_long(c, id, len);
	else if (likely((to->flags & MSG_EARLY) != 0))
		msg_early_length(c, to, len);
	else
		msg_arrived(c, to, id, len);
}

/*
 * Plain mode: finish a message whose payload has come, if it is the only one that has a request.
 * @return false: another message has a request or waits for one; nothing was done
 */
static inline bool
deliver_whole(struct leat_msg_conn *c, struct msg_slot *s)
{
	struct leat_msg_req *req = s->req;

	if (unlikely(c->mode != LEAT_MSG_PLAIN || c->state != MSG_OPEN || s->id != c->rx_done ||
		     c->rx_bind - c->rx_done != 1 || req != c->recvq.head || c->rx_arrived > 0))
		return false;
	give_oldest(c, req, s->len);
	/* With any_id the slot's op may be posted for another message: keep MSG_OP_OUT. */
	s->flags &= MSG_OP_OUT;
	c->rx_done++;
	if (unlikely(msg_rx_free(c) >= c->rx_window / 2))
		msg_work(c);
	else
		msg_later(c);
	return true;
}

void
msg_payload_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	if (unlikely((s->flags & (MSG_DROP | MSG_EXPIRED)) != 0)) {
		msg_drop_arrived(c, s, op);
		return;
	}
	/*
	 * An early receive came back without data. It is not needed, because the message has no
	 * payload.
	 */
	if (unlikely(s->len == 0 && op->status != 0 && op->status != -EMSGSIZE)) {
		s->flags |= MSG_DONE;
		msg_work(c);
		if (op->status != -ECANCELED)
			msg_op_failed(c, op);
		return;
	}
	if (unlikely(c->mode == LEAT_MSG_LEAT && op->status == 0 && op->len == 0)) {
		msg_drop_given_up(c, s);
		return;
	}
	if (unlikely(op->status == -EMSGSIZE || (op->status == 0 && op->len != s->len))) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B announced, %s came", s->id, s->len,
			 op->status == 0 && op->len < s->len ? "fewer" : "more");
		return;
	}
	if (unlikely(op->status != 0)) {
		msg_op_failed(c, op);
		return;
	}
	if (likely(deliver_whole(c, s)))
		return;
	s->flags |= MSG_DONE;
	msg_work(c);
}

static __rte_noinline void
rx_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	c->rx_out--;
	if (unlikely(c->state != MSG_OPEN))
		msg_work(c);
	if (op == &s->data) {
		s->flags &= (uint16_t)~MSG_DATA_OUT;
		if (unlikely((s->flags & MSG_EARLY) != 0))
			msg_early_complete(c, s, op);
		else
			msg_payload_arrived(c, s, op);
		return;
	}
	s->flags &= (uint16_t)~MSG_OP_OUT;
	if (likely(op->status == 0 && c->mode == LEAT_MSG_LEAT)) {
		head_arrived(c, s, msg_rx_id(c, op->tag));
		return;
	}
	if (unlikely(op->status == -EMSGSIZE))
		msg_fail(c, -EPROTO, "message %#x: its head or length is too long",
			 c->mode == LEAT_MSG_LEAT ? msg_rx_id(c, op->tag) : (uint32_t)op->tag);
	else if (unlikely(op->status != 0))
		msg_op_failed(c, op);
	else
		length_arrived(c, s);
}

/* ---- ops that came back ---- */

static __rte_noinline void
op_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	if (s->kind == MSG_SLOT_RX) {
		rx_complete(c, s, op);
	} else if (s->kind == MSG_SLOT_TX) {
		msg_tx_complete(c, s, op);
	} else {
		msg_work(c);
		msg_ctrl_complete(c, s, op);
	}
}

uint16_t
leat_msg_process(struct leat_msg *m, struct leat_op **ops, uint16_t n)
{
	uint16_t i, rest = 0;

	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];
		struct leat_msg_conn *c;
		struct msg_slot *s;

		if (unlikely((uintptr_t)op - m->slots_base >= m->slots_len)) {
			ops[rest++] = op;
			continue;
		}
		s = op->user;
		c = s->conn;
		if (unlikely(op == c->rx_next ? !msg_fast_arrived(c, s, op)
					      : !msg_fast_sent(c, s, op)))
			op_complete(c, s, op);
	}
	if (m->work != NULL)
		msg_run(m);
	return rest;
}
