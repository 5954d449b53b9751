/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages that are dropped while their connection goes on. A message is dropped if it is longer
 * than the receive that it met, or if its send or its receive was given up.
 *
 * The bytes of a small message have arrived, and are skipped. The payload of a large message may be
 * under way, or not sent yet, and needs a receive in both cases. So a receive of 0 bytes is
 * posted, which a device completes with -EMSGSIZE without harm to the connection. In leat mode the
 * drop is also reported to the sender, which then sends a payload of 0 bytes unless it had sent the
 * real one already:
 *
 *     receiver                                       sender
 *     | <------------------ head: length, id 8 ---- |
 *     | receive of 0 B for payload 8                |
 *     | ---- control: drop 8; granted 9 ----------> | its request is done: -EMSGSIZE
 *     | <---------------------- payload 8, 0 B ---- |
 *
 * A sender that gives a message up sends the empty payload unasked. Messages behind the dropped one
 * are sent and received meanwhile; only its slot, and so a credit, stays in use until the empty
 * payload has come.
 */

#include <errno.h>

#include "msg_pvt.h"

int
msg_reason_status(uint8_t reason)
{
	return reason == MSG_REASON_SIZE ? -EMSGSIZE : -ETIMEDOUT;
}

/* ---- receiving ---- */

/* Mark a message as dropped: no request gets any of it. */
static void
mark(struct leat_msg_conn *c, struct msg_slot *s, enum msg_reason reason)
{
	s->flags |= MSG_DROP;
	s->off = reason;
	c->drops++;
	c->stats.dropped++;
	if (c->mode == LEAT_MSG_PLAIN)
		s->flags |= MSG_REPORTED; /* plain mode can't tell the sender */
}

static void
give(struct msg_slot *s)
{
	if (s->req == NULL)
		return;
	msg_req_finish(s->req,
		       s->off == MSG_REASON_TIME ? msg_late_status(s->req)
						 : msg_reason_status((uint8_t)s->off),
		       s->len);
	s->req = NULL;
}

void
msg_drop(struct leat_msg_conn *c, struct msg_slot *s, enum msg_reason reason)
{
	if ((s->flags & MSG_DROP) == 0)
		mark(c, s, reason);
	give(s);
	s->data.peer = c->recv_peer;
	s->data.buf = NULL;
	s->data.mr = NULL;
	s->data.size = 0;
	s->data.ignore = 0;
	s->data.tag = c->mode == LEAT_MSG_LEAT ? msg_tag(MSG_TAG_DATA, c->rx_base, s->id)
					       : MSG_PLAIN_DATA | s->id;
	s->flags |= MSG_WANT;
	msg_work(c);
}

void
msg_drop_early(struct leat_msg_conn *c, struct msg_slot *s)
{
	/* The posted receive has the request's size, so the device cuts the payload off there. */
	mark(c, s, MSG_REASON_SIZE);
}

void
msg_drop_asked(struct leat_msg_conn *c, struct msg_slot *s, uint8_t reason)
{
	s->flags |= MSG_DROP;
	s->off = reason;
	c->drops++;
}

void
msg_drop_given_up(struct leat_msg_conn *c, struct msg_slot *s)
{
	mark(c, s, MSG_REASON_TIME);
	give(s);
	s->flags |= MSG_REPORTED | MSG_DONE;
	msg_work(c);
}

void
msg_drop_run(struct leat_msg_conn *c)
{
	uint32_t id;

	for (id = c->rx_done; id != c->rx_bind; id++) {
		struct msg_slot *s = msg_rx_slot(c, id);
		struct leat_op *op = &s->data;

		if ((s->flags & MSG_DROP) == 0)
			continue;
		if ((s->flags & MSG_WANT) != 0) {
			if (unlikely(leat_ep_post(c->ep, &op, 1) == 0)) {
				msg_post_refused(c);
				return;
			}
			c->rx_out++;
			s->flags = (uint16_t)((s->flags & ~MSG_WANT) | MSG_DATA_OUT);
		}
		if ((s->flags & MSG_REPORTED) == 0)
			c->ctrl_due |= 1u << MSG_CTRL_DROP;
	}
}

void
msg_drop_over(struct leat_msg_conn *c)
{
	uint32_t id;

	for (id = c->rx_done; id != c->rx_bind; id++) {
		struct msg_slot *s = msg_rx_slot(c, id);

		if ((s->flags & MSG_DROP) == 0)
			continue;
		give(s);
		s->flags |= MSG_DONE;
	}
	while (c->rx_data != c->rx_bind && (msg_rx_slot(c, c->rx_data)->flags & MSG_DONE) != 0)
		c->rx_data++;
}

bool
msg_drop_report(const struct leat_msg_conn *c, struct msg_ctrl *ctrl)
{
	uint32_t id;

	for (id = c->rx_done; id != c->rx_bind; id++) {
		const struct msg_slot *s = msg_rx_slot(c, id);

		if ((s->flags & (MSG_DROP | MSG_REPORTED | MSG_WANT)) != MSG_DROP)
			continue;
		ctrl->reason = (uint8_t)s->off;
		ctrl->arg = rte_cpu_to_le_32(id);
		return true;
	}
	return false;
}

void
msg_drop_reported(struct leat_msg_conn *c, uint32_t id)
{
	msg_rx_slot(c, id)->flags |= MSG_REPORTED;
	msg_work(c);
}

static void
drop_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	if (unlikely(op->status == 0 && (op->len != 0 || c->mode == LEAT_MSG_PLAIN))) {
		msg_fail(c, -EPROTO, "message %#x: %" PRIu64 " B announced, %" PRIu64 " B came",
			 s->id, s->len, op->len);
		return;
	}
	if (unlikely(op->status != 0 && op->status != -EMSGSIZE)) {
		msg_op_failed(c, op);
		return;
	}
	give(s);
	s->flags |= MSG_DONE;
	/* The payload has come: report the drop only to a sender that waits for an answer. */
	if ((s->flags & MSG_ANSWER) == 0)
		s->flags |= MSG_REPORTED;
	msg_work(c);
}

void
msg_drop_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	const bool expired = (s->flags & MSG_EXPIRED) != 0;
	const struct leat_msg_req *req = s->req;

	s->flags &= (uint16_t)~MSG_EXPIRED;
	if (expired && op->status == -ECANCELED && c->state == MSG_OPEN) {
		msg_drop(c, s, MSG_REASON_TIME);
		if (req != NULL)
			msg_count_expired(c, req);
	} else if ((s->flags & MSG_DROP) != 0) {
		drop_complete(c, s, op);
	} else {
		msg_payload_arrived(c, s, op); /* the payload was faster than the recall */
	}
}

/* ---- sending ---- */

void
msg_tx_give_up(struct leat_msg_conn *c, struct msg_slot *s, int status)
{
	if (likely(s->req != NULL))
		msg_req_finish(s->req, status, 0);
	s->req = NULL;
	s->count = 0;
	s->data.buf = NULL;
	s->data.mr = NULL;
	s->data.size = 0;
	s->flags |= MSG_DROP;
	msg_work(c);
}

bool
msg_tx_taken_back(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	const struct leat_msg_req *req = s->req;

	if ((s->flags & MSG_EXPIRED) == 0 || op != &s->data)
		return false;
	s->flags &= (uint16_t)~MSG_EXPIRED;
	if (op->status != -ECANCELED || c->state != MSG_OPEN)
		return false;
	/* The payload was granted; now an empty one is posted in its place. */
	s->flags |= MSG_WANT;
	msg_tx_give_up(c, s, msg_late_status(req));
	msg_count_expired(c, req);
	c->tx_large++;
	if ((int32_t)(c->tx_data - s->id) > 0)
		c->tx_data = s->id;
	return true;
}

bool
msg_tx_drop(struct leat_msg_conn *c, uint32_t id, uint8_t reason)
{
	struct msg_slot *s = msg_tx_slot(c, id);
	bool asked;

	if (unlikely(reason < MSG_REASON_SIZE || reason > MSG_REASON_TIME)) {
		msg_fail(c, -EPROTO, "message %#x was dropped for reason %u", id, reason);
		return false;
	}
	/* The send is done, because its payload left before this report of the drop came. */
	if ((int32_t)(id - c->tx_done) < 0 &&
	    (int32_t)(c->tx_done - LEAT_MSG_CREDITS_MAX - id) < 0) {
		msg_answer_lost(c, id, reason);
		return true;
	}
	/* Read the slot, since its request may have been given up, and be the caller's again. */
	asked = (s->flags & MSG_ANSWER) != 0;
	if (unlikely(id - c->tx_done >= c->tx_post - c->tx_done ||
		     ((s->flags & MSG_EAGER) != 0 && !asked))) {
		msg_fail(c, -EPROTO, "message %#x was dropped, which is %s", id,
			 id - c->tx_done >= c->tx_post - c->tx_done ? "not sent" : "small");
		return false;
	}
	if ((s->flags & (MSG_WANT | MSG_DROP)) == MSG_WANT)
		msg_tx_give_up(c, s, msg_reason_status(reason));
	else if (asked && s->req != NULL)
		s->req->lost = reason & 3;
	return true;
}

bool
msg_recv_was_short(const struct leat_msg_conn *c, int status)
{
	/* Some devices report a receive that was too short to the sender, some don't. */
	return (status == -EMSGSIZE || status == -EREMOTEIO) && c->state == MSG_OPEN &&
	       leat_ep_peer_state(c->ep, c->peer) == LEAT_PEER_UP;
}
