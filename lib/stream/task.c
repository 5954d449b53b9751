/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls for tasks: they wait where the calls of leat_stream.h return -EAGAIN. */

#include <leat_task.h>

#include "leat_stream_task.h"
#include "stream_pvt.h"

static int
in_task(const struct leat_stream_net *net, const char *what)
{
	if (leat_task_current() != NULL && leat_reactor_self() == net->r)
		return 0;
	return leat_err(EPERM, "%s: %s: not in a task of its reactor", net->name, what);
}

int
leat_stream_task_wait(struct leat_stream *s, uint32_t want)
{
	int ret = in_task(s->net, "wait for a stream");
	bool released;

	if (ret < 0)
		return ret;
	if (s->ready != NULL)
		return leat_err(EBUSY, "stream %s: it is watched", s->addr);
	return stream_wait(s, want, &released);
}

int
leat_stream_task_connect(struct leat_stream_net *net, const char *addr, uint64_t timeout_us,
			 struct leat_stream **to)
{
	struct leat_stream *s;
	bool released;
	int ret = in_task(net, "connect a stream");

	if (ret < 0)
		return ret;
	s = leat_stream_connect(net, addr, timeout_us);
	if (s == NULL)
		return -rte_errno;
	ret = stream_wait(s, LEAT_STREAM_WRITABLE, &released);
	if (released)
		return leat_err(-ret, "connect %s: the net was closed", addr);
	if (ret > 0)
		ret = s->state == STREAM_UP ? 0 : s->error;
	if (ret == 0 && s->state != STREAM_UP)
		ret = -ECONNABORTED;
	if (ret == 0) {
		*to = s;
		return 0;
	}
	ret = leat_err(-ret, "%s: connect %s: %s", net->name, addr,
		       s->why[0] != '\0' ? s->why : strerror(-ret));
	leat_stream_abort(s);
	return ret;
}

ssize_t
leat_stream_task_read(struct leat_stream *s, void *buf, size_t len)
{
	ssize_t n;
	int ret;

	while ((n = leat_stream_read(s, buf, len)) == -EAGAIN) {
		ret = leat_stream_task_wait(s, LEAT_STREAM_READABLE);
		if (ret < 0)
			return ret;
	}
	return n;
}

ssize_t
leat_stream_task_read_all(struct leat_stream *s, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = leat_stream_task_read(s, (uint8_t *)buf + got, len - got);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

ssize_t
leat_stream_task_write(struct leat_stream *s, const void *buf, size_t len)
{
	size_t put = 0;

	while (put < len) {
		ssize_t n = leat_stream_write(s, (const uint8_t *)buf + put, len - put);

		if (n == -EAGAIN)
			n = leat_stream_task_wait(s, LEAT_STREAM_WRITABLE);
		else if (n > 0)
			put += (size_t)n;
		if (n < 0)
			return n;
	}
	return (ssize_t)len;
}

/* ---- without a copy ---- */

struct task_out {
	struct leat_stream_out out;
	struct leat_resource_op op;
	struct leat_stream *s;
};

static void
out_done(struct leat_stream_out *out, int status)
{
	struct task_out *t = container_of(out, struct task_out, out);

	(void)leat_resource_end(&t->op, status);
}

/* Post the send. Not called if the task was cancelled before: nothing is sent then. */
static int
out_post(struct leat_resource_op *op)
{
	struct task_out *t = container_of(op, struct task_out, op);

	return leat_stream_send(t->s, &t->out);
}

/* No cancel: the device uses the buffer until the send completes. */
static const struct leat_resource out_resource = {
	.name = "send of a stream",
	.post = out_post,
};

int
leat_stream_task_send(struct leat_stream *s, const void *buf, size_t len, struct leat_mr *mr)
{
	struct task_out t = {
		.out = { .buf = buf, .len = len, .mr = mr, .done = out_done },
		.s = s,
	};
	int ret = in_task(s->net, "send on a stream");

	return ret < 0 ? ret : leat_resource_run(&t.op, &out_resource);
}
