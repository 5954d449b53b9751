/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Half-close: one side sends nothing more, and goes on to receive.
 *
 * When all sends have begun, the id after the last message is final, and a control message tells it
 * to the peer. The messages and the control message may arrive in any order, so the peer has all
 * messages only when it is done with all ids below that id. Then its other receives come back with
 * -ENODATA, and LEAT_MSG_SHUTDOWN follows.
 */

#include <errno.h>

#include "msg_pvt.h"

int
leat_msg_shutdown(struct leat_msg_conn *c)
{
	if (c->no_sends)
		return -EALREADY;
	if (c->state != MSG_OPEN)
		return leat_err(ENOTCONN, "messages on %s: shutdown of a connection that is not up",
				leat_ep_name(c->ep));
	if (c->mode != LEAT_MSG_LEAT)
		return leat_err(EOPNOTSUPP, "messages on %s: plain mode has no half-close",
				leat_ep_name(c->ep));
	c->no_sends = c->no_fast_send = true;
	c->end_due = true;
	msg_work(c);
	return 0;
}

void
msg_end_run(struct leat_msg_conn *c)
{
	if (c->sendq.begin != NULL || c->tx_frag_left > 0)
		return;
	c->end_due = false;
	c->ctrl_due |= 1u << MSG_CTRL_END;
}

void
msg_end_passed(struct leat_msg_conn *c, uint32_t id, uint32_t end)
{
	msg_fail(c, -EPROTO, "message %#x, after the end of its messages at %#x", id, end);
}

bool
msg_end_arrived(struct leat_msg_conn *c, uint32_t id)
{
	uint32_t i;

	if (unlikely(c->peer_ended || id - c->rx_done > c->mask + 1)) {
		msg_fail(c, -EPROTO, "the end of its messages at %#x, %s", id,
			 c->peer_ended ? "again" : "which has no credit");
		return false;
	}
	for (i = id; (int32_t)(c->rx_post - i) > 0; i++) {
		if (unlikely((msg_rx_slot(c, i)->flags & MSG_ARRIVED) != 0)) {
			msg_end_passed(c, i, id);
			return false;
		}
	}
	c->peer_ended = true;
	c->rx_next = NULL;
	c->rx_end = id;
	msg_work(c);
	return true;
}

void
msg_ended_run(struct leat_msg_conn *c)
{
	struct leat_msg_req *req;

	if (c->rx_done != c->rx_end)
		return;
	if (unlikely(c->rx_frag_left > 0)) {
		msg_fail(c, -EPROTO, "the end of its messages, with %" PRIu64 " B of one missing",
			 c->rx_frag_left);
		return;
	}
	if (!c->end_reported) {
		c->end_reported = true;
		c->pending |= 1u << LEAT_MSG_SHUTDOWN;
	}
	for (req = c->recvq.begin; req != NULL; req = req->next) {
		if (req->state < MSG_REQ_CANCELLED)
			msg_req_finish(req, -ENODATA, 0);
	}
	c->recvq.begin = NULL;
	msg_list_give(c->m, &c->recvq);
}
