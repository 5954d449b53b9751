/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Plain mode: the receive of the next message's payload is posted before the message's length
 * arrives ("early"). So a payload that follows right behind its length meets the receive, and the
 * device need not keep the payload and copy it later.
 *
 *                 length                    payload
 *     MSG_EARLY ----------> (as any other) ---------> done
 *       |  |  \  payload                    length
 *       |  |   `---------> MSG_DATA_IN ---------> done
 *       |  | cancel               came back                payload was faster
 *       |  `---------> MSG_RECALL ---------> without one   ------------------> MSG_DATA_IN
 *       | length 0                                  came back
 *       `---------> (its receive is not needed) -------------> done
 *
 * The id of the message is rx_bind, and the request is the oldest that waits, if it has a buffer of
 * its own. Only one early receive is posted: with two, cancelling the first request would mean
 * moving the second message to another buffer. The receive is as large as the request, and the
 * bytes that came are compared with the length as always. No early receive is posted while earlier
 * messages are under way, since the length of the next message usually arrives before they are
 * done.
 */

#include <errno.h>

#include "msg_pvt.h"

void
msg_early_post(struct leat_msg_conn *c)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);
	struct leat_op *op = &s->data;
	struct leat_msg_req *req;

	if (c->rx_arrived > 0 || c->rx_done != c->rx_bind || (s->flags & MSG_EARLY) != 0)
		return;
	req = msg_list_begin(&c->recvq);
	if (req == NULL || req->size == 0 || req->buf == NULL ||
	    (req->mr == NULL && c->ep->mr_local))
		return;
	s->req = req;
	s->id = c->rx_bind;
	msg_data_recv(c, s, RTE_MIN(req->size, c->max_size));
	/* If the endpoint has no room the message takes the usual way. */
	if (leat_ep_post(c->ep, &op, 1) == 0)
		return;
	c->rx_out++;
	msg_list_begun(&c->recvq, req);
	s->flags |= MSG_EARLY | MSG_DATA_OUT;
}

/*
 * Bind a message of which both the request and the length are known. From here on it is treated as
 * any other message.
 */
static void
take(struct leat_msg_conn *c, struct msg_slot *s, uint64_t len)
{
	const bool here = (s->flags & MSG_DATA_IN) != 0;

	s->len = len;
	s->flags = (uint16_t)((s->flags & ~(MSG_EARLY | MSG_DATA_IN)) | MSG_ARRIVED);
	if (unlikely(!msg_fits(c, s->req, len)))
		msg_drop_early(c, s);
	c->rx_bind++;
	c->rx_data++;
	/* After a message without a payload, expect the next message to have none either. */
	c->early = len > 0;
	if (unlikely(here))
		msg_payload_arrived(c, s, &s->data);
	else if (unlikely(len == 0))
		/* A payload that comes nevertheless fails the connection. */
		(void)leat_op_cancel(c->ep, &s->data);
}

void
msg_early_length(struct leat_msg_conn *c, struct msg_slot *s, uint64_t len)
{
	if (unlikely((s->flags & MSG_RECALL) != 0))
		msg_arrived(c, s, s->id, len); /* msg_early_complete() finds the request for it */
	else
		take(c, s, len);
}

/*
 * Give the request back without a message. If the message's length has come, the message goes to
 * the next request.
 */
static void
recalled(struct leat_msg_conn *c, struct msg_slot *s)
{
	const bool expired = (s->flags & MSG_EXPIRED) != 0;

	msg_req_finish(s->req, expired ? msg_late_status(s->req) : -ECANCELED, 0);
	msg_count_expired(c, s->req);
	s->req->state = MSG_REQ_CANCELLED;
	s->req = NULL;
	s->flags &= (uint16_t) ~(MSG_EARLY | MSG_RECALL | MSG_EXPIRED);
	msg_list_give(c->m, &c->recvq);
	msg_work(c);
}

void
msg_early_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op)
{
	const bool recall = (s->flags & MSG_RECALL) != 0, arrived = (s->flags & MSG_ARRIVED) != 0;
	bool expired;

	if (unlikely(op->status != 0 && op->status != -EMSGSIZE)) {
		if (recall)
			recalled(c, s);
		if (!recall || op->status != -ECANCELED)
			msg_op_failed(c, op);
		return;
	}
	expired = (s->flags & MSG_EXPIRED) != 0;
	s->flags = (uint16_t)((s->flags & ~(MSG_RECALL | MSG_ARRIVED | MSG_EXPIRED)) | MSG_DATA_IN);
	if (!arrived) {
		/* The deadline has passed, but the length may come soon: try again later. */
		if (unlikely(expired))
			msg_deadline_again(c, s->req);
		return;
	}
	c->rx_arrived--;
	take(c, s, s->len);
}

int
msg_early_cancel(struct leat_msg_conn *c, const struct leat_msg_req *req)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);

	if ((s->flags & MSG_EARLY) == 0 || s->req != req)
		return -EOPNOTSUPP;
	if ((s->flags & MSG_RECALL) != 0)
		return -ENOENT;
	if ((s->flags & MSG_DATA_IN) != 0 || leat_op_cancel(c->ep, &s->data) < 0)
		return -EOPNOTSUPP;
	s->flags |= MSG_RECALL;
	return 0;
}
