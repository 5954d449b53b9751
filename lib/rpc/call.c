/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of tasks: a resource that waits for requests.
 *
 *     post: leat_rpc_post() ---> each done request: one_done() --all--> leat_resource_end()
 *     cancel: leat_rpc_cancel() of each request that is not done; nothing writes its buffers any
 *             more, so the wait ends at once: LEAT_CANCEL_FREED
 */

#include <stdio.h>

#include <leat_resource.h>

#include "leat_rpc_task.h"
#include "rpc_pvt.h"

struct rpc_wait {
	struct leat_resource_op op;
	struct leat_rpc_req **reqs;
	uint16_t n;
	uint16_t left; /* requests not done */
	bool posting;
};

static void
one_done(struct leat_rpc_req *req)
{
	struct rpc_wait *w = req->waiter;

	req->done = NULL;
	if (--w->left == 0 && !w->posting)
		(void)leat_resource_end(&w->op, 0);
}

static void
wait_set(struct rpc_wait *w)
{
	uint16_t i;

	w->left = w->n;
	for (i = 0; i < w->n; i++) {
		w->reqs[i]->done = one_done;
		w->reqs[i]->waiter = w;
	}
}

static int
wait_post(struct leat_resource_op *op)
{
	struct rpc_wait *w = container_of(op, struct rpc_wait, op);

	w->posting = true;
	(void)leat_rpc_post(w->reqs, w->n);
	w->posting = false;
	if (w->left == 0)
		(void)leat_resource_end(op, 0);
	return 0;
}

static enum leat_cancel
wait_cancel(struct leat_resource_op *op)
{
	struct rpc_wait *w = container_of(op, struct rpc_wait, op);
	uint16_t i;

	w->posting = true;
	for (i = 0; i < w->n; i++)
		(void)leat_rpc_cancel(w->reqs[i]);
	w->posting = false;
	/* Requests whose memory the other side can reach are not done yet: the wait ends later. */
	return w->left > 0 ? LEAT_CANCEL_WILL : LEAT_CANCEL_FREED;
}

static void
wait_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	const struct rpc_wait *w = container_of(op, const struct rpc_wait, op);
	const struct leat_rpc_session *s = w->reqs[0]->session;

	if (s->state == RPC_OPEN)
		snprintf(text, len, "%u of %u responses from peer %u, the first of type %u",
			 w->left, w->n, s->peer, w->reqs[0]->type);
	else
		snprintf(text, len, "%u of %u responses, no connection, the first of type %u",
			 w->left, w->n, w->reqs[0]->type);
}

static const struct leat_resource call_resource = {
	.name = "rpc",
	.post = wait_post,
	.cancel = wait_cancel,
	.describe = wait_describe,
};

/* Check that leat_rpc_post() will accept all requests; if not, none is to be posted. */
static int
may_post(struct leat_rpc_req **reqs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (reqs[i]->state != 0)
			return leat_err(EINVAL, "rpc: request %u is posted already", i);
		if (reqs[i]->session->closing || reqs[i]->session->state == RPC_FREE)
			return leat_err(EINVAL, "rpc: the session of request %u is closed", i);
		if (reqs[i]->session->rpc != reqs[0]->session->rpc)
			return leat_err(EINVAL, "rpc: request %u is of another context", i);
	}
	return 0;
}

int
leat_rpc_call_many(struct leat_rpc_req **reqs, uint16_t n)
{
	struct rpc_wait w = { .reqs = reqs, .n = n };
	uint16_t i;
	int ret;

	if (n == 0)
		return 0;
	ret = may_post(reqs, n);
	if (ret < 0)
		return ret;
	wait_set(&w);
	ret = leat_resource_run(&w.op, &call_resource);
	if (unlikely(ret < 0)) {
		/*
		 * Either no request was posted, or all were cancelled and have a status of their
		 * own.
		 */
		for (i = 0; i < n; i++) {
			if (reqs[i]->done == NULL)
				continue;
			reqs[i]->done = NULL;
			reqs[i]->status = ret;
			reqs[i]->refused = 1;
		}
		return ret;
	}
	for (i = 0; i < n; i++) {
		if (reqs[i]->status < 0)
			return reqs[i]->status;
	}
	return 0;
}

int
leat_rpc_call(struct leat_rpc_session *s, uint8_t type, const void *buf, uint32_t len, void *resp,
	      uint32_t room, uint64_t deadline)
{
	struct leat_rpc_req req = {
		.session = s,
		.type = type,
		.buf = buf,
		.len = len,
		.resp = resp,
		.room = room,
		.deadline = deadline,
	};
	struct leat_rpc_req *one = &req;
	int ret = leat_rpc_call_many(&one, 1);

	return ret < 0 ? ret : (int)req.resp_len;
}
