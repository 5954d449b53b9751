/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hiredis 1.1 and later, or libvalkey, over a leat stream, through the libraries' own hooks: the
 * functions of a context (redisContextFuncs), and those by which an asynchronous context asks for
 * events.
 *
 * Contexts are created for a descriptor of the user (REDIS_CONN_USERFD), and given an invalid one,
 * so that the library calls no socket function.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_timer.h>

#include "leat_hiredis.h"

#ifndef LEAT_REDIS_VALKEY
#ifdef __cplusplus
extern "C" { /* missing in sds.h */
#endif
#include <hiredis/sds.h>
#ifdef __cplusplus
}
#endif
#endif

#define CONNECT_US 5000000

/* The state of a context: its privctx. */
struct link {
	struct leat_reactor *reactor;
	struct leat_stream *stream; /* NULL: closed */
	bool fed;		    /* the reader was fed with replies while writing */
	size_t borrowed;	    /* bytes lent to the library by hook_read_zc() */

	/* Fields of asynchronous contexts. */
	redisAsyncContext *ac; /* NULL: the context wants no more events */
	uint32_t want;	       /* LEAT_STREAM_* that the context asked for */
	bool up;	       /* the outcome of connecting was reported */
	bool *freed;	       /* *freed is set if this link is freed while on_ready() runs */
	struct leat_timer timer;
};

/* Return the number of bytes in c->obuf. They may contain zeros, so strlen() would be wrong. */
static size_t
obuf_len(const redisContext *c)
{
#ifndef LEAT_REDIS_VALKEY
	return sdslen(c->obuf);
#else
	/* obuf is a string of sds.h, which libvalkey does not install: its length is before it. */
	const unsigned char *end = (const unsigned char *)c->obuf - 1; /* the flags byte */
	uint64_t l64;
	uint32_t l32;
	uint16_t l16;

	switch (*end & 7) {
	case 0:
		return *end >> 3;
	case 1: /* before the flags: used length, allocated length, of 1, 2, 4 or 8 bytes each */
		return end[-2];
	case 2:
		memcpy(&l16, end - 2 * sizeof(l16), sizeof(l16));
		return l16;
	case 3:
		memcpy(&l32, end - 2 * sizeof(l32), sizeof(l32));
		return l32;
	default:
		memcpy(&l64, end - 2 * sizeof(l64), sizeof(l64));
		return l64;
	}
#endif
}

/* Wait for a LEAT_STREAM_* bit of want, at most for the context's command time-out. */
static int
wait_for(redisContext *c, uint32_t want)
{
	struct link *l = (struct link *)c->privctx;

	return leat_redis_wait(l->reactor, l->stream, want, leat_redis_us(c->command_timeout, 0));
}

/*
 * Wait until a synchronous write can continue, and read replies meanwhile: a server whose replies
 * are not read stops reading commands, and both sides would wait for each other. Returns 0, or -1
 * with err and errstr.
 */
static ssize_t
wait_for_room(redisContext *c)
{
	struct link *l = (struct link *)c->privctx;
	int ret = wait_for(c, LEAT_STREAM_WRITABLE | LEAT_STREAM_READABLE);
	const void *data;
	ssize_t n;

	if (ret < 0)
		return leat_redis_fail(c, l->stream, ret);
	n = leat_stream_borrow(l->stream, &data);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return leat_redis_fail(c, l->stream, (int)n);
	l->fed = true;
	if (redisReaderFeed(c->reader, (const char *)data, (size_t)n) != REDIS_OK ||
	    leat_stream_give_back(l->stream, (size_t)n) < 0)
		return leat_redis_fail(c, l->stream, -ENOMEM);
	return 0;
}

/* Write from obuf. Returns bytes written; 0: none now, call again; -1 with err and errstr. */
static ssize_t
hook_write(redisContext *c)
{
	struct link *l = (struct link *)c->privctx;
	ssize_t n = leat_stream_write(l->stream, c->obuf, obuf_len(c));

	if (n == -EAGAIN)
		return (c->flags & REDIS_BLOCK) != 0 ? wait_for_room(c) : 0;
	return n < 0 ? leat_redis_fail(c, l->stream, (int)n) : n;
}

/*
 * Handle the result *n of leat_stream_borrow() or leat_stream_read(), for both read hooks. Returns
 * true when the hook has to read again; otherwise the hook returns *n.
 */
static bool
must_read_again(redisContext *c, ssize_t *n)
{
	struct link *l = (struct link *)c->privctx;
	int ret = 0;

	if (*n > 0)
		return false;
	if (*n != -EAGAIN) {
		*n = leat_redis_fail(c, l->stream, (int)*n);
		return false;
	}
	*n = 0;
	if ((c->flags & REDIS_BLOCK) == 0 || l->fed) { /* let the library parse what was fed */
		l->fed = false;
		return false;
	}
	ret = wait_for(c, LEAT_STREAM_READABLE);
	if (ret < 0)
		*n = leat_redis_fail(c, l->stream, ret);
	return ret == 0;
}

#ifdef LEAT_REDIS_VALKEY
static ssize_t
hook_read_zc(redisContext *c, char **buf)
{
	struct link *l = (struct link *)c->privctx;
	const void *data = NULL;
	ssize_t n;

	do
		n = leat_stream_borrow(l->stream, &data);
	while (must_read_again(c, &n));
	*buf = (char *)data; /* the library only reads it */
	l->borrowed = n > 0 ? (size_t)n : 0;
	return n;
}

static ssize_t
hook_read_zc_done(redisContext *c)
{
	struct link *l = (struct link *)c->privctx;
	int ret = leat_stream_give_back(l->stream, l->borrowed);

	return ret < 0 ? leat_redis_fail(c, l->stream, ret) : REDIS_OK;
}

/* Nothing to do: the library has set command_timeout, which wait_for() reads. */
static int
hook_set_timeout(redisContext *c, const struct timeval tv)
{
	(void)c;
	(void)tv;
	return REDIS_OK;
}
#endif

static ssize_t
hook_read(redisContext *c, char *buf, size_t len)
{
	struct link *l = (struct link *)c->privctx;
	ssize_t n;

	do
		n = leat_stream_read(l->stream, buf, len);
	while (must_read_again(c, &n));
	return n;
}

static void
link_close(struct link *l)
{
	if (l == NULL || l->stream == NULL)
		return;
	leat_timer_stop(&l->timer);
	leat_stream_close(l->stream, 0); /* the reactor still sends what was written */
	l->stream = NULL;
}

static void
hook_close(redisContext *c)
{
	link_close((struct link *)c->privctx);
}

/* Free the link. redisReconnect() calls this before hook_close(), redisFree() after it. */
static void
hook_free(void *privctx)
{
	struct link *l = (struct link *)privctx;

	if (l == NULL)
		return;
	link_close(l);
	if (l->freed != NULL)
		*l->freed = true;
	free(l);
}

/* async_read and async_write are the library's own: they call read and write of this table. */
static const redisContextFuncs hooks = {
	.close = hook_close,
	.free_privctx = hook_free,
	.async_read = redisAsyncRead,
	.async_write = redisAsyncWrite,
	.read = hook_read,
#ifdef LEAT_REDIS_VALKEY
	.read_zc = hook_read_zc,
	.read_zc_done = hook_read_zc_done,
#endif
	.write = hook_write,
#ifdef LEAT_REDIS_VALKEY
	.set_timeout = hook_set_timeout,
#endif
};

/* Give a new context its hooks, and begin to connect. Returns NULL if it fails (err, errstr). */
static struct link *
attach(redisContext *c, struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
       const struct timeval *timeout)
{
	struct link *l = (struct link *)calloc(1, sizeof(*l));

	c->connection_type = REDIS_CONN_USERFD; /* makes redisReconnect() fail */
	if (l == NULL) {
		leat_redis_fail(c, NULL, -ENOMEM);
		return NULL;
	}
	l->reactor = r;
	l->stream = leat_stream_connect(net, addr, leat_redis_us(timeout, CONNECT_US));
	if (l->stream == NULL) {
		leat_redis_fail(c, NULL, -rte_errno);
		free(l);
		return NULL;
	}
	leat_timer_init(&l->timer, NULL, NULL);
	c->funcs = &hooks;
	c->privctx = l;
	return l;
}

static void
options_set(redisOptions *options, const struct timeval *timeout)
{
	memset(options, 0, sizeof(*options));
	options->type = REDIS_CONN_USERFD;
	options->endpoint.fd = REDIS_INVALID_FD;
	options->connect_timeout = timeout;
	options->command_timeout = timeout;
}

redisContext *
leat_redis_connect(struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
		   const struct timeval *timeout)
{
	redisOptions options;
	redisContext *c;
	struct link *l;
	int ret;

	options_set(&options, timeout);
	c = redisConnectWithOptions(&options);
	if (c == NULL || c->err != 0)
		return c;
	l = attach(c, r, net, addr, timeout);
	if (l == NULL)
		return c;
	/* leat_stream_connect() has its own time-out. A stream that failed is WRITABLE as well. */
	ret = leat_redis_wait(r, l->stream, LEAT_STREAM_WRITABLE, 0);
	if (ret == 0)
		ret = leat_stream_error(l->stream);
	if (ret < 0)
		leat_redis_fail(c, l->stream, ret);
	return c;
}

/*
 * Asynchronous.
 */

static void on_ready(struct leat_stream *s, uint32_t ready, void *arg);

/*
 * Watch the stream for these events. RDMA has no POLLOUT, and a stream is WRITABLE nearly all the
 * time. WRITABLE is therefore watched only while obuf is not empty: hiredis calls addWrite and
 * delWrite for that.
 */
static void
want_set(struct link *l, uint32_t want)
{
	l->want = want;
	if (l->up)
		leat_stream_watch(l->stream, want, on_ready, l);
}

static void
add_read(void *arg)
{
	struct link *l = (struct link *)arg;

	want_set(l, l->want | LEAT_STREAM_READABLE);
}

static void
del_read(void *arg)
{
	struct link *l = (struct link *)arg;

	want_set(l, l->want & ~(uint32_t)LEAT_STREAM_READABLE);
}

static void
add_write(void *arg)
{
	struct link *l = (struct link *)arg;

	want_set(l, l->want | LEAT_STREAM_WRITABLE);
}

static void
del_write(void *arg)
{
	struct link *l = (struct link *)arg;

	want_set(l, l->want & ~(uint32_t)LEAT_STREAM_WRITABLE);
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct link *l = (struct link *)arg;

	(void)timer;
	(void)now;
	redisAsyncHandleTimeout(l->ac);
}

static void
schedule_timer(void *arg, struct timeval tv)
{
	struct link *l = (struct link *)arg;

	leat_timer_start(l->reactor, &l->timer, leat_redis_us(&tv, 0));
}

/* Stop all events of the context: hiredis frees it now or later, and no event may follow. */
static void
cleanup(void *arg)
{
	struct link *l = (struct link *)arg;

	leat_timer_stop(&l->timer);
	leat_stream_watch(l->stream, 0, NULL, NULL);
	l->ac = NULL;
}

/* Report the outcome of connecting, which hiredis would ask the socket for with connect(2). */
static void
connected(struct link *l)
{
	redisAsyncContext *ac = l->ac;
	int ret = leat_stream_error(l->stream), status = ret < 0 ? REDIS_ERR : REDIS_OK;

	l->up = true;
	if (ret < 0) {
		leat_redis_fail(&ac->c, l->stream, ret);
		ac->err = ac->c.err;
		ac->errstr = ac->c.errstr;
	} else {
		ac->c.flags |= REDIS_CONNECTED;
		want_set(l, l->want);
	}
	ac->c.flags |= REDIS_IN_CALLBACK; /* a context freed in onConnect is freed below */
	if (ac->onConnect != NULL)
		ac->onConnect(ac, status);
#ifndef LEAT_REDIS_VALKEY
	if (ac->onConnectNC != NULL)
		ac->onConnectNC(ac, status);
#endif
	ac->c.flags &= ~REDIS_IN_CALLBACK;
	if (ret < 0 || (ac->c.flags & REDIS_FREEING) != 0)
		redisAsyncFree(ac);
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct link *l = (struct link *)arg;
	bool freed = false;

	(void)s;
	l->freed = &freed;
	if (!l->up)
		connected(l);
	/* On CLOSED read as well: the read hook reports the end to hiredis. */
	if (!freed && l->ac != NULL && (ready & (LEAT_STREAM_READABLE | LEAT_STREAM_CLOSED)) != 0)
		redisAsyncHandleRead(l->ac);
	if (!freed && l->ac != NULL && (ready & l->want & LEAT_STREAM_WRITABLE) != 0)
		redisAsyncHandleWrite(l->ac);
	if (!freed)
		l->freed = NULL;
}

redisAsyncContext *
leat_redis_async_connect(struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
			 const struct timeval *timeout)
{
	redisOptions options;
	redisAsyncContext *ac;
	struct link *l;

	options_set(&options, timeout);
	ac = redisAsyncConnectWithOptions(&options);
	if (ac == NULL || ac->err != 0)
		return ac;
	l = attach(&ac->c, r, net, addr, timeout);
	if (l == NULL) {
		ac->err = ac->c.err;
		ac->errstr = ac->c.errstr;
		return ac;
	}
	l->ac = ac;
	leat_timer_init(&l->timer, on_timer, l);
	ac->ev.data = l;
	ac->ev.addRead = add_read;
	ac->ev.delRead = del_read;
	ac->ev.addWrite = add_write;
	ac->ev.delWrite = del_write;
	ac->ev.cleanup = cleanup;
	ac->ev.scheduleTimer = schedule_timer;
	leat_stream_watch(l->stream, LEAT_STREAM_WRITABLE, on_ready, l);
	return ac;
}
