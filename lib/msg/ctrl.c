/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Control messages (leat mode): credit and grants that no message carries, and reports about
 * messages and the connection (enum msg_ctrl_kind).
 *
 * Sending: each kind that is due has a bit in c->ctrl_due. The device has at most one control
 * message at a time. A control message has one kind; each also carries credit and grant.
 *
 * Receiving: MSG_CTRL receives are posted, each for one id. Control messages are processed in the
 * order of their ids, whatever the order in which the device completes the receives. So the drop of
 * a message is known before an answer covers the message.
 */

#include <errno.h>

#include "msg_pvt.h"

/* ---- sending ---- */

/* Fill in the next control message to be sent. @return false: none is due */
static bool
ctrl_next(struct leat_msg_conn *c, struct msg_ctrl *ctrl)
{
	memset(ctrl, 0, sizeof(*ctrl));
	while (c->ctrl_due != 0) {
		ctrl->kind = (uint8_t)__builtin_ctz(c->ctrl_due);
		if (ctrl->kind == MSG_CTRL_DROP && !msg_drop_report(c, ctrl)) {
			/*
			 * No report is needed, because the payload came before one could be sent.
			 */
			c->ctrl_due &= ~(1u << MSG_CTRL_DROP);
			continue;
		}
		if (ctrl->kind == MSG_CTRL_ANSWER)
			ctrl->arg = rte_cpu_to_le_32(c->rx_done);
		else if (ctrl->kind == MSG_CTRL_END)
			ctrl->arg = rte_cpu_to_le_32(c->tx_next);
		return true;
	}
	ctrl->kind = MSG_CTRL_NUMBERS;
	return c->grant || c->rx_post - c->rx_told >= msg_rx_window(c) / 2;
}

void
msg_ctrl_run(struct leat_msg_conn *c)
{
	struct msg_slot *s = c->ctrl_tx;
	struct leat_op *op = &s->op;
	struct msg_ctrl ctrl;
	uint32_t granted = c->rx_data;

	if (c->mode != LEAT_MSG_LEAT || c->state != MSG_OPEN || (s->flags & MSG_OP_OUT) != 0 ||
	    !ctrl_next(c, &ctrl))
		return;
	/*
	 * The receive of the dropped payload is posted: grant it, so that the peer can send an
	 * empty payload.
	 */
	if (ctrl.kind == MSG_CTRL_DROP && ctrl.arg == rte_cpu_to_le_32(granted))
		granted++;
	ctrl.credit = rte_cpu_to_le_32(c->rx_post);
	ctrl.granted = rte_cpu_to_le_32(granted);
	memcpy(s->buf, &ctrl, sizeof(ctrl));
	op->peer = c->peer;
	op->size = MSG_CTRL_LEN;
	op->tag = msg_tag(MSG_TAG_CTRL, c->tx_base, c->ctrl_tx_id);
	if (unlikely(leat_ep_post(c->ep, &op, 1) == 0)) {
		msg_post_refused(c);
		return;
	}
	s->flags |= MSG_OP_OUT;
	c->tx_out++;
	c->ctrl_tx_id++;
	c->rx_told = c->rx_post;
	c->grant = false;
	c->ctrl_due &= ~(1u << ctrl.kind);
	c->stats.control++;
	if (ctrl.kind == MSG_CTRL_DROP)
		msg_drop_reported(c, rte_le_to_cpu_32(ctrl.arg));
}

/* ---- receiving ---- */

/* Post the receive of a control message. */
static void
post_recv(struct leat_msg_conn *c, struct msg_slot *s)
{
	struct leat_op *op = &s->op;

	op->peer = c->recv_peer;
	op->size = MSG_CTRL_LEN;
	op->tag = msg_tag(MSG_TAG_CTRL, c->rx_base, s->id);
	op->ignore = 0;
	s->flags = MSG_WANT;
	if (unlikely(leat_ep_post(c->ep, &op, 1) == 0)) {
		msg_post_refused(c);
		return;
	}
	s->flags = MSG_OP_OUT;
	c->rx_out++;
}

void
msg_ctrl_recv(struct leat_msg_conn *c)
{
	uint32_t i;

	for (i = 0; i < MSG_CTRL && c->state == MSG_OPEN; i++) {
		if ((c->ctrl_rx[i].flags & MSG_WANT) != 0)
			post_recv(c, &c->ctrl_rx[i]);
	}
}

void
msg_ctrl_start(struct leat_msg_conn *c)
{
	uint32_t i;

	c->ctrl_rx_next = c->ctrl_rx_id;
	for (i = 0; i < MSG_CTRL; i++) {
		c->ctrl_rx[i].id = c->ctrl_rx_id++;
		c->ctrl_rx[i].flags = MSG_WANT;
	}
	msg_ctrl_recv(c);
}

/* Process a control message. @return false: the connection ends */
static bool
ctrl_take(struct leat_msg_conn *c, const struct msg_ctrl *ctrl)
{
	const uint32_t arg = rte_le_to_cpu_32(ctrl->arg);

	if (unlikely(ctrl->kind >= MSG_CTRL_KINDS)) {
		msg_fail(c, -EPROTO, "a control message of kind %u", ctrl->kind);
		return false;
	}
	if (ctrl->kind == MSG_CTRL_PING)
		c->ctrl_due |= 1u << MSG_CTRL_PONG;
	/* The next msg_rx_run() posts the receives. */
	if (ctrl->kind == MSG_CTRL_MORE && c->rx_window <= c->mask)
		c->rx_window *= 2;
	/*
	 * Process a drop before the grant in the same control message; otherwise the grant would
	 * let the payload of the dropped message be sent.
	 */
	if (ctrl->kind == MSG_CTRL_DROP && !msg_tx_drop(c, arg, ctrl->reason))
		return false;
	if (ctrl->kind == MSG_CTRL_ANSWER && !msg_answered(c, arg))
		return false;
	if (ctrl->kind == MSG_CTRL_END && !msg_end_arrived(c, arg))
		return false;
	return msg_tx_credit(c, rte_le_to_cpu_32(ctrl->credit), rte_le_to_cpu_32(ctrl->granted));
}

void
msg_ctrl_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	struct msg_ctrl ctrl;
	uint32_t i;

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
	if (s->kind == MSG_SLOT_CTRL_TX || c->state != MSG_OPEN)
		return;
	s->flags = MSG_ARRIVED;
	for (i = 0; i < MSG_CTRL; i++) {
		s = &c->ctrl_rx[c->ctrl_rx[0].id == c->ctrl_rx_next ? 0 : 1];
		if (s->id != c->ctrl_rx_next || (s->flags & MSG_ARRIVED) == 0)
			break;
		memcpy(&ctrl, s->buf, sizeof(ctrl));
		if (!ctrl_take(c, &ctrl))
			return;
		c->ctrl_rx_next++;
		s->id = c->ctrl_rx_id++;
		s->flags = MSG_WANT;
	}
}
