/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Tasks that wait for requests.
 *
 *     task                                    the context's poller
 *     posts the request, and sets
 *     user = address of its wait | 1
 *     waits                                   the request came back, and user is odd:
 *                                               user = NULL, one request less to wait for
 *     runs again        <------------------     none left
 *
 * The lowest bit of leat_msg_req.user tells a wait from a pointer of the application.
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include <leat_log.h>
#include <leat_scope.h>

#include "msg_net.h"

struct io_wait {
	struct leat_resource_op op;
	struct leat_msg_conn *conn;
	struct leat_msg_req **reqs;
	uint16_t n;
	bool send;	    /* post the requests first, as sends */
	bool recv;	    /* post the requests first, as receives */
	int left;	    /* requests that have to come back before the task goes on */
	void *buf;	    /* recv: the task's buffer, if it lies in no region */
	struct leat_mr *mr; /* region registered for this wait; NULL: none */
};

static inline void *
mark(struct io_wait *w)
{
	return (void *)((uintptr_t)w | 1);
}

static inline struct io_wait *
marked(const struct leat_msg_req *req)
{
	const uintptr_t user = (uintptr_t)req->user;

	return (user & 1) != 0 ? (struct io_wait *)(user - 1) : NULL;
}

static inline bool
posted(const struct leat_msg_req *req)
{
	return req->state != MSG_REQ_IDLE;
}

static int
first_failure(const struct io_wait *w)
{
	uint16_t i;

	for (i = 0; i < w->n; i++) {
		if (!posted(w->reqs[i]) && w->reqs[i]->status < 0)
			return w->reqs[i]->status;
	}
	return 0;
}

void
net_on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now)
{
	uint16_t i;

	(void)arg;
	(void)now;
	for (i = 0; i < n; i++) {
		struct io_wait *w = marked(reqs[i]);

		if (unlikely(reqs[i]->abandoned != 0))
			msg_abandoned_back(reqs[i]);
		if (w == NULL)
			continue;
		reqs[i]->user = NULL;
		if (--w->left == 0)
			(void)leat_resource_end(&w->op, first_failure(w));
	}
}

/* Post the requests, and mark those in flight, so that their return resumes the task. */
static int
io_post(struct leat_resource_op *op)
{
	struct io_wait *w = container_of(op, struct io_wait, op);
	uint16_t i, n = w->n;
	int status = 0;

	if (w->send || w->recv) {
		n = w->send ? leat_msg_send(w->conn, w->reqs, w->n)
			    : leat_msg_recv(w->conn, w->reqs, w->n);
		if (n < w->n)
			status = -rte_errno;
	}
	for (i = 0; i < n; i++) {
		if (posted(w->reqs[i]))
			w->reqs[i]->user = mark(w);
	}
	/*
	 * Don't wait for refused requests. A request that was posted before this call may belong to
	 * another wait, so don't set its status.
	 */
	for (i = n; i < w->n; i++) {
		if (!posted(w->reqs[i]))
			w->reqs[i]->status = status;
		w->left--;
	}
	return w->left > 0 ? 0 : leat_resource_end(op, status);
}

static enum leat_cancel
io_cancel(struct leat_resource_op *op)
{
	const struct io_wait *w = container_of(op, const struct io_wait, op);
	enum leat_cancel ret = LEAT_CANCEL_LATE;
	uint16_t i;

	/* Each request that is given up here comes back. Its status says if it was cancelled. */
	for (i = 0; i < w->n; i++) {
		if (marked(w->reqs[i]) == w && msg_req_abandon(w->reqs[i]) == 0)
			ret = LEAT_CANCEL_ASKED;
	}
	w->conn->m->below->soon = true;
	return ret;
}

static void
io_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	const struct io_wait *w = container_of(op, const struct io_wait, op);
	const char *what = w->reqs[0]->recv != 0 ? "recv from" : "send to";

	if (w->n == 1)
		snprintf(text, len, "%s %s", what, sock_of(w->conn)->addr);
	else
		snprintf(text, len, "%s %s, %d of %u to come", what, sock_of(w->conn)->addr,
			 w->left, w->n);
}

static const struct leat_resource io_resource = {
	.name = "messages",
	.post = io_post,
	.cancel = io_cancel,
	.describe = io_describe,
};

/*
 * Compose the message of a failure. @return ret, but -ESHUTDOWN in place of the -ECANCELED of a
 * closed connection
 */
static int __rte_cold
failed(const struct io_wait *w, const char *what, int ret)
{
	const struct leat_msg_conn *c = w->conn;
	const struct sock *s = sock_of(c);
	const char *why;

	if (ret == -EPERM)
		return ret; /* leat_err() was called before */
	if (ret == -ECANCELED && !leat_task_cancelled())
		ret = -ESHUTDOWN;
	if (ret == -ECANCELED)
		why = "cancelled";
	else if (ret == -ESHUTDOWN)
		why = "the connection was closed here";
	else if (s->conn == c && s->why[0] != '\0' && c->state >= MSG_ENDING)
		why = s->why;
	/* Requests come back before LEAT_MSG_ENDED sets s->why: use the connection's text. */
	else if (s->conn == c && c->state == MSG_OVER && c->status_final)
		why = c->text;
	else
		why = strerror(-ret);
	return leat_err(-ret, "%s %s: %s", what, s->addr, why);
}

/* ---- one message ---- */

static struct leat_mr *
region_for(struct leat_msg_net *net, void *buf, uint64_t len)
{
	struct leat_mr *mr = leat_mr_register(net->ep, buf, len, LEAT_MR_LOCAL);

	if (mr == NULL && !net->mr_failure_logged) {
		net->mr_failure_logged = true;
		LEAT_LOG(WARNING, msg, "%s: a message of %" PRIu64 " B: %s", leat_ep_name(net->ep),
			 len, leat_err_msg());
	}
	return mr;
}

static void
region_end(struct leat_mr *mr)
{
	if (mr != NULL && leat_mr_deregister(mr) < 0)
		LEAT_LOG(ERR, msg, "the buffer of a message stays registered: %s", leat_err_msg());
}

/*
 * Called when a message has come for the oldest receive, and the receive's buffer is not
 * registered. A short message is copied into the buffer. For a long one the buffer is registered;
 * while that fails the receive waits.
 */
void *
net_alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	const struct sock *s = arg;
	struct leat_msg_conn *c = s->conn;
	const struct leat_msg_req *req = msg_list_begin(&c->recvq);
	struct io_wait *w = req != NULL ? marked(req) : NULL;

	if (w == NULL || w->buf == NULL)
		return NULL;
	if (c->mode != LEAT_MSG_LEAT || len > c->eager_max) {
		w->mr = region_for(s->net, w->buf, len);
		if (w->mr == NULL)
			return NULL;
		*mr = w->mr;
	}
	return w->buf;
}

static int
run_one(struct io_wait *w, const char *what)
{
	int ret;

	w->n = 1;
	w->left = 1;
	ret = leat_resource_run(&w->op, &io_resource);
	region_end(w->mr);
	return likely(ret == 0) ? 0 : failed(w, what, ret);
}

int
leat_msg_task_send(struct leat_msg_conn *c, const void *buf, size_t len)
{
	struct leat_msg_req req = { .buf = (void *)(uintptr_t)buf, .size = len }, *reqs = &req;
	struct io_wait w = { .conn = c, .reqs = &reqs, .send = true };

	if (unlikely(c->ep->mr_local && len > 0 &&
		     (c->mode != LEAT_MSG_LEAT || len > c->eager_max))) {
		req.mr = net_region_find(sock_of(c)->net, buf, len);
		if (req.mr == NULL)
			req.mr = w.mr = region_for(sock_of(c)->net, req.buf, len);
		if (req.mr == NULL)
			return -rte_errno;
	}
	return run_one(&w, "send to");
}

int
leat_msg_task_recv(struct leat_msg_conn *c, void *buf, size_t size)
{
	struct leat_msg_req req = { .buf = buf, .size = size }, *reqs = &req;
	struct io_wait w = { .conn = c, .reqs = &reqs, .recv = true };
	int ret;

	if (unlikely(size > INT_MAX))
		return leat_err(EINVAL, "recv from %s: room for %zu B, at most %d",
				sock_of(c)->addr, size, INT_MAX);
	if (unlikely(c->ep->mr_local && size > 0 &&
		     (c->mode != LEAT_MSG_LEAT || size > c->eager_max))) {
		req.mr = net_region_find(sock_of(c)->net, buf, size);
		/* The buffer is registered when a message has come that needs it. */
		if (req.mr == NULL) {
			w.buf = buf;
			req.buf = NULL;
		}
	}
	ret = run_one(&w, "recv from");
	return likely(ret == 0) ? (int)req.len : ret;
}

/* ---- bursts ---- */

/* Wait until `left` requests have come back. @return 0, or a negative errno */
static int
wait_for(struct io_wait *w)
{
	uint16_t i;
	int ret;

	for (i = 0; i < w->n; i++) {
		if (posted(w->reqs[i]) && marked(w->reqs[i]) != NULL)
			return leat_err(EBUSY,
					"wait for messages of %s: another task waits for one",
					sock_of(w->conn)->addr);
	}
	ret = leat_resource_run(&w->op, &io_resource);
	for (i = 0; i < w->n; i++) {
		if (marked(w->reqs[i]) == w)
			w->reqs[i]->user = NULL;
	}
	return ret;
}

int
leat_msg_task_send_burst(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	struct io_wait w = { .conn = c, .reqs = reqs, .n = n, .left = n, .send = true };
	int ret;

	if (n == 0)
		return 0;
	ret = wait_for(&w);
	return ret == 0 ? 0 : failed(&w, "send to", ret);
}

/*
 * Wait for posted requests. Since their buffers are in use, even a task that was cancelled before
 * has to wait: it gives the requests up first, and then waits for them with its cancel masked.
 * @return 0, -EPERM, -EBUSY; -ECANCELED, -ETIMEDOUT: why the requests were given up
 */
static int
wait_posted(struct io_wait *w)
{
	struct leat_task_mask_state mask;
	uint16_t i;
	int ret, why;

	why = wait_for(w);
	if ((why != -ECANCELED && why != -ETIMEDOUT) || w->left <= 0)
		return why;
	for (i = 0; i < w->n; i++)
		(void)msg_req_abandon(w->reqs[i]);
	w->conn->m->below->soon = true;
	leat_task_mask(&mask);
	ret = wait_for(w);
	leat_task_unmask(&mask);
	return ret == -EBUSY || ret == -EPERM ? ret : why;
}

int
leat_msg_task_wait_all(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	struct io_wait w = { .conn = c, .reqs = reqs, .n = n };
	int ret = 0, status;
	uint16_t i;

	for (i = 0; i < n; i++)
		w.left += posted(reqs[i]);
	if (w.left > 0)
		ret = wait_posted(&w);
	if (ret == -EBUSY || ret == -EPERM)
		return ret;
	status = first_failure(&w);
	if (status == -ECANCELED && ret == -ETIMEDOUT)
		status = ret;
	return status == 0 ? 0 : failed(&w, "messages of", status);
}

static int
first_back(struct leat_msg_req **reqs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (!posted(reqs[i]))
			return i;
	}
	return -EAGAIN;
}

int
leat_msg_task_wait_any(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	struct io_wait w = { .conn = c, .reqs = reqs, .n = n, .left = 1 };
	int ret, i;

	if (n == 0)
		return leat_err(EINVAL, "wait for any of no messages");
	i = first_back(reqs, n);
	if (i >= 0)
		return i;
	ret = wait_posted(&w);
	return ret == -EBUSY || ret == -EPERM ? ret : first_back(reqs, n);
}
