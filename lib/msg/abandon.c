/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Requests that are given up by the task that waits for them.
 *
 * A request that has begun ends as if its deadline had passed (timeout.c), which may end the
 * connection. But it does not wait for the requests before it, since the same slow peer may hold
 * them up: it is unlinked from the middle of its list.
 *
 *     QUEUED     given back with -ECANCELED, at once
 *     STARTED    ended if possible; otherwise tried again whenever the connection runs
 *     FINISHED   given back with the status that it got
 *
 * If the device has the payload's op, the request waits until the device has returned the op, and
 * with it the buffer.
 */

#include <errno.h>

#include "msg_pvt.h"

static struct msg_list *
list_of(struct leat_msg_conn *c, const struct leat_msg_req *req)
{
	return req->recv != 0 ? &c->recvq : &c->sendq;
}

/* Give a request back at once, even if requests before it are not done. */
static void
give_now(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	struct msg_list *list = list_of(c, req);
	struct leat_msg_req *prev = NULL, *r;

	for (r = list->head; r != req; r = r->next) {
		if (r == NULL)
			return;
		prev = r;
	}
	if (list->begin == req)
		list->begin = req->next;
	if (list->tail == req)
		list->tail = prev;
	if (prev == NULL)
		list->head = req->next;
	else
		prev->next = req->next;
	msg_give(c->m, req);
}

/* Try to end a request. @return false: it can't be ended yet */
static bool
end_now(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	if (req->state == MSG_REQ_QUEUED)
		msg_req_finish(req, -ECANCELED, 0);
	/* A started request on an ended connection comes back with the connection's status. */
	else if (req->state == MSG_REQ_STARTED && c->state == MSG_OPEN)
		msg_expire_begun(req);
	if (req->state < MSG_REQ_CANCELLED)
		return false;
	give_now(c, req);
	return true;
}

/* End the abandoned requests of a list, if possible. @return true: at least one is left */
static bool
list_run(struct leat_msg_conn *c, struct msg_list *list)
{
	struct leat_msg_req *req, *next;
	bool left = false;

	for (req = list->head; req != NULL; req = next) {
		next = req->next;
		if (req->abandoned != 0 && !end_now(c, req))
			left = true;
	}
	msg_list_give(c->m, list);
	return left;
}

void
msg_abandoned_run(struct leat_msg_conn *c)
{
	const bool recvs = list_run(c, &c->recvq), sends = list_run(c, &c->sendq);

	c->abandoned = recvs || sends;
}

int
msg_req_abandon(struct leat_msg_req *req)
{
	struct leat_msg_conn *c = req->conn;

	/* A request of leat_msg_send_many(), and its parts, can't be given up. */
	if (c == NULL || (req->flags & MSG_F_PART) != 0)
		return -EOPNOTSUPP;
	if (req->state == MSG_REQ_IDLE || req->state == MSG_REQ_DONE)
		return -ENOENT;
	req->abandoned = 1;
	if (end_now(c, req)) {
		msg_list_give(c->m, list_of(c, req));
		return 0;
	}
	c->abandoned = true;
	msg_work(c);
	return 0;
}

void
msg_abandoned_back(struct leat_msg_req *req)
{
	if (req->conn != NULL)
		leat_wheel_del(&req->conn->m->wheel, &req->timer);
	req->abandoned = 0;
	/*
	 * Replace any failure: if giving up this request ended the connection, the request has the
	 * connection's status, but to its task it was cancelled.
	 */
	if (req->status < 0)
		req->status = -ECANCELED;
}
