/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections over leat's streams. */

#include <string.h>

#include <leat_error.h>
#include <leat_stream.h>

#include "transport.h"

static uint32_t
to_stream(uint32_t ready)
{
	return ((ready & REDB_READABLE) != 0 ? LEAT_STREAM_READABLE : 0u) |
	       ((ready & REDB_WRITABLE) != 0 ? LEAT_STREAM_WRITABLE : 0u);
}

static void
on_stream(struct leat_stream *s, uint32_t is, void *arg)
{
	struct redb_conn *c = arg;
	uint32_t ready = 0;

	(void)s;
	if ((is & LEAT_STREAM_READABLE) != 0)
		ready |= REDB_READABLE;
	if ((is & LEAT_STREAM_WRITABLE) != 0)
		ready |= REDB_WRITABLE;
	if ((is & LEAT_STREAM_CLOSED) != 0)
		ready |= REDB_ENDED;
	c->on_ready(c, ready);
}

static void
attach(struct redb_conn *c, struct leat_stream *s, uint32_t want)
{
	c->t = &redb_stream;
	c->stream = s;
	c->want = want;
	leat_stream_user_set(s, c);
	leat_stream_watch(s, to_stream(want), on_stream, c);
}

static int
str_connect(struct redb_conn *c, const struct redb_addr *a, uint32_t nth, uint64_t timeout_us)
{
	struct leat_stream *s;

	if (nth > 0)
		return -EADDRNOTAVAIL;
	s = leat_stream_connect(c->port->net, a->at, timeout_us);
	if (s == NULL)
		return rte_errno == EAGAIN ? -EIO : -rte_errno;
	attach(c, s, REDB_WRITABLE);
	return 0;
}

static int
str_connected(struct redb_conn *c)
{
	uint32_t is = leat_stream_ready(c->stream);
	int err = leat_stream_error(c->stream);

	if (err < 0)
		return err;
	if ((is & LEAT_STREAM_CLOSED) != 0)
		return -ECONNRESET;
	return (is & LEAT_STREAM_WRITABLE) != 0 ? 0 : -EAGAIN;
}

static ssize_t
str_writev(struct redb_conn *c, const struct iovec *iov, int n)
{
	ssize_t ret = leat_stream_writev(c->stream, iov, n);
	int err = leat_stream_error(c->stream);

	/* -EPIPE does not say why the stream ended. */
	return ret == -EPIPE && err < 0 ? err : ret;
}

static ssize_t
str_borrow(struct redb_conn *c, const void **data)
{
	return leat_stream_borrow(c->stream, data);
}

static void
str_give_back(struct redb_conn *c, size_t n)
{
	(void)leat_stream_give_back(c->stream, n);
}

static void
str_want(struct redb_conn *c, uint32_t ready)
{
	leat_stream_watch(c->stream, to_stream(ready), on_stream, c);
}

static void
str_close(struct redb_conn *c, bool drain)
{
	if (drain)
		leat_stream_close(c->stream, 0);
	else
		leat_stream_abort(c->stream);
	c->stream = NULL;
	c->t = NULL;
}

static const char *
str_why(const struct redb_conn *c, int err)
{
	const char *why = c->stream == NULL ? leat_err_msg() : leat_stream_why(c->stream);

	return why[0] != '\0' ? why : strerror(-err);
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	struct redb_port *p = arg;
	struct redb_conn *c = p->room(p);

	if (c == NULL) {
		leat_stream_abort(s);
		return;
	}
	attach(c, s, 0);
	p->accept(p, c);
}

static int
str_listen(struct redb_port *p, const struct redb_addr *a, char *text, size_t len)
{
	const struct leat_stream_listener listener = { .accept = on_accept, .arg = p };
	int ret = leat_stream_listen(p->net, a->at, &listener);

	return ret < 0 ? ret : leat_stream_listen_addr(p->net, text, len);
}

const struct redb_transport redb_stream = {
	.connect = str_connect,
	.connected = str_connected,
	.writev = str_writev,
	.borrow = str_borrow,
	.give_back = str_give_back,
	.want = str_want,
	.close = str_close,
	.why = str_why,
	.listen = str_listen,
};
