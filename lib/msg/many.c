/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One message to many connections. Each connection has a request of its own in its list, the part,
 * and the caller's request comes back when the last part is done.
 */

#include <errno.h>

#include "msg_pvt.h"

int
leat_msg_send_many(struct leat_msg_conn **conns, uint16_t n, struct leat_msg_req *req,
		   struct leat_msg_req *parts)
{
	struct leat_msg *m;
	uint16_t i, sent = 0;

	if (n == 0)
		return -EINVAL;
	m = conns[0]->m;
	if (req->state != MSG_REQ_IDLE)
		return -EALREADY;
	for (i = 0; i < n; i++) {
		if (conns[i]->m != m)
			return leat_err(EINVAL, "messages: connections of more than one context");
		if (parts[i].state != MSG_REQ_IDLE)
			return -EALREADY;
	}
	/* One more than the parts, so that parts refused at once do not complete the request. */
	req->parts_left = n + 1u;
	req->conn = NULL;
	req->recv = 0;
	req->status = 0;
	req->state = MSG_REQ_STARTED;
	for (i = 0; i < n; i++) {
		struct leat_msg_req *part = &parts[i];

		part->buf = req->buf;
		part->size = req->size;
		part->mr = req->mr;
		part->flags = req->flags | MSG_F_PART;
		part->deadline = req->deadline;
		part->iov = req->iov;
		part->nb_iov = req->nb_iov;
		part->whole = req;
		if (leat_msg_send(conns[i], &part, 1) == 1) {
			sent++;
			continue;
		}
		/*
		 * The caller owns a refused part, and may post it as an ordinary request: clear
		 * what marks it as a part.
		 */
		part->status = -rte_errno;
		part->flags &= (uint8_t)~MSG_F_PART;
		part->whole = NULL;
		if (req->status == 0)
			req->status = part->status;
		req->parts_left--;
	}
	req->size = parts[0].size;
	if (--req->parts_left == 0) {
		req->len = req->status == 0 ? req->size : 0;
		msg_give(m, req);
	}
	return sent;
}

void
msg_part_given(struct leat_msg *m, struct leat_msg_req *part)
{
	struct leat_msg_req *req = part->whole;

	leat_wheel_del(&m->wheel, &part->timer);
	part->state = MSG_REQ_IDLE;
	part->flags &= (uint8_t)~MSG_F_PART;
	if (req->status == 0)
		req->status = part->status;
	if (--req->parts_left > 0)
		return;
	req->len = req->status == 0 ? req->size : 0;
	msg_give(m, req);
}
