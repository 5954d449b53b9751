/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * hiredis 0.14 over a leat stream. hiredis formats commands into a context's obuf, and parses the
 * bytes that its reader is fed. Since 0.14 has no hooks, this file moves both between context and
 * stream.
 *
 *     redisAppendCommand() -> obuf -> leat_stream_write()
 *     leat_stream_borrow() -> reader -> redisGetReplyFromReader()
 */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#ifdef __cplusplus
extern "C" { /* missing in sds.h */
#endif
#include <hiredis/sds.h>
#ifdef __cplusplus
}
#endif

#include "leat_hiredis.h"

#define CONNECT_US 5000000

/* The state of a context: the privdata of its reader. */
struct leat_redis_link {
	struct leat_reactor *reactor;
	struct leat_stream *stream;
	uint64_t timeout_us; /* of each wait; 0: no limit */
	redisContext *c;

	/* Fields of asynchronous contexts. */
	struct leat_redis_async ac;
	struct pending *head, **tail; /* commands that wait for their replies */
	leat_redis_status *on_connect, *on_disconnect;
	bool up;	    /* connected, and the program was told */
	bool in_callback;   /* a callback runs: free the context only when it has returned */
	bool freeing;	    /* the program frees the context, or its connection ends */
	bool disconnecting; /* the program disconnects: end when all replies have come */
};

/* A command without a reply yet, and its callback. */
struct pending {
	struct pending *next;
	leat_redis_callback *fn;
	void *arg;
};

static struct leat_redis_link *
link_of(const redisContext *c)
{
	return (struct leat_redis_link *)c->reader->privdata;
}

/* Write from obuf. Returns 1 if bytes are left, 0 if none are, or -1 with err and errstr. */
static int
send_some(redisContext *c)
{
	struct leat_redis_link *l = link_of(c);
	size_t len = sdslen(c->obuf);
	ssize_t n = len > 0 ? leat_stream_write(l->stream, c->obuf, len) : 0;

	if (n < 0 && n != -EAGAIN)
		return leat_redis_fail(c, l->stream, (int)n);
	if (n > 0)
		sdsrange(c->obuf, (int)n, -1);
	return sdslen(c->obuf) > 0;
}

/* Feed the reader with bytes that have arrived. Returns 0, or -1 with err and errstr. */
static int
receive_some(redisContext *c)
{
	struct leat_redis_link *l = link_of(c);
	const void *data;
	ssize_t n = leat_stream_borrow(l->stream, &data);

	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return leat_redis_fail(c, l->stream, (int)n);
	if (redisReaderFeed(c->reader, (const char *)data, (size_t)n) != REDIS_OK ||
	    leat_stream_give_back(l->stream, (size_t)n) < 0)
		return leat_redis_fail(c, l->stream, -ENOMEM);
	return 0;
}

/* Create a context and begin to connect its stream. Returns NULL if out of memory; check err. */
static redisContext *
context(struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
	const struct timeval *timeout)
{
	struct leat_redis_link *l = (struct leat_redis_link *)calloc(1, sizeof(*l));
	redisContext *c = redisConnectFd(-1);

	if (l == NULL || c == NULL) {
		free(l);
		redisFree(c);
		return NULL;
	}
	l->reactor = r;
	l->timeout_us = leat_redis_us(timeout, 0);
	l->c = c;
	l->tail = &l->head;
	c->reader->privdata = l;
	l->stream = leat_stream_connect(net, addr, leat_redis_us(timeout, CONNECT_US));
	if (l->stream == NULL)
		leat_redis_fail(c, NULL, -rte_errno);
	return c;
}

void
leat_redis_free(redisContext *c)
{
	struct leat_redis_link *l;

	if (c == NULL)
		return;
	l = link_of(c);
	if (l->stream != NULL) /* the reactor still sends what was written */
		leat_stream_close(l->stream, 0);
	free(l);
	redisFree(c);
}

/*
 * Synchronous.
 */

redisContext *
leat_redis_connect(struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
		   const struct timeval *timeout)
{
	redisContext *c = context(r, net, addr, timeout);
	struct leat_redis_link *l;
	int ret;

	if (c == NULL || c->err != 0)
		return c;
	l = link_of(c);
	/* leat_stream_connect() has its own time-out. A stream that failed is WRITABLE as well. */
	ret = leat_redis_wait(r, l->stream, LEAT_STREAM_WRITABLE, 0);
	if (ret == 0)
		ret = leat_stream_error(l->stream);
	if (ret < 0)
		leat_redis_fail(c, l->stream, ret);
	return c;
}

/*
 * Read replies even while commands are left to write: a server whose replies are not read stops
 * reading commands, and both sides would wait for each other.
 */
int
leat_redis_get_reply(redisContext *c, void **reply)
{
	struct leat_redis_link *l = link_of(c);
	void *got = NULL;
	int ret, more;

	for (;;) {
		if (c->err != 0 || redisGetReplyFromReader(c, &got) == REDIS_ERR)
			return REDIS_ERR;
		if (got != NULL)
			break;
		more = send_some(c);
		if (more < 0)
			return REDIS_ERR;
		/* A stream is WRITABLE nearly always: wait for it only while obuf is not empty. */
		ret = leat_redis_wait(l->reactor, l->stream,
				      LEAT_STREAM_READABLE | (more ? LEAT_STREAM_WRITABLE : 0),
				      l->timeout_us);
		if (ret < 0) {
			leat_redis_fail(c, l->stream, ret);
			return REDIS_ERR;
		}
		if (receive_some(c) < 0)
			return REDIS_ERR;
	}
	if (reply != NULL)
		*reply = got;
	else
		freeReplyObject(got);
	return REDIS_OK;
}

void *
leat_redis_vcommand(redisContext *c, const char *format, va_list ap)
{
	void *reply = NULL;

	if (redisvAppendCommand(c, format, ap) != REDIS_OK ||
	    leat_redis_get_reply(c, &reply) != REDIS_OK)
		return NULL;
	return reply;
}

void *
leat_redis_command(redisContext *c, const char *format, ...)
{
	void *reply;
	va_list ap;

	va_start(ap, format);
	reply = leat_redis_vcommand(c, format, ap);
	va_end(ap);
	return reply;
}

/*
 * Asynchronous.
 */

/* Call back, and free, the oldest command without a reply. Returns whether there was one. */
static bool
call_back(struct leat_redis_link *l, void *reply)
{
	struct pending *p = l->head;

	if (p == NULL)
		return false;
	l->head = p->next;
	if (l->head == NULL)
		l->tail = &l->head;
	l->in_callback = true;
	if (p->fn != NULL)
		p->fn(&l->ac, reply, p->arg);
	l->in_callback = false;
	free(p);
	return true;
}

/* End the connection: fail all commands, tell the program, and free the context. */
static void
destroy(struct leat_redis_link *l)
{
	l->freeing = true; /* refuse commands that callbacks give */
	while (call_back(l, NULL))
		;
	if (l->up && l->on_disconnect != NULL) {
		l->in_callback = true;
		l->on_disconnect(&l->ac, l->c->err == 0 ? REDIS_OK : REDIS_ERR);
	}
	leat_redis_free(l->c);
}

static void
copy_error(struct leat_redis_link *l)
{
	l->ac.err = l->c->err;
	l->ac.errstr = l->c->errstr;
}

/* Whether the context must be destroyed: on the program's wish, or since its connection ended. */
static bool
must_end(const struct leat_redis_link *l)
{
	return l->freeing || l->c->err != 0 ||
	       (l->disconnecting && l->head == NULL && sdslen(l->c->obuf) == 0);
}

/* Call back for each complete reply. Returns 0, or -1 with err and errstr. */
static int
replies(struct leat_redis_link *l)
{
	void *reply = NULL;

	while (!l->freeing) {
		if (redisGetReplyFromReader(l->c, &reply) != REDIS_OK)
			return -1;
		if (reply == NULL)
			return 0;
		if (!call_back(l, reply)) { /* no command: "too many clients", say */
			leat_redis_fail(l->c, l->stream, -EPROTO);
			freeReplyObject(reply);
			return -1;
		}
		freeReplyObject(reply);
	}
	return 0;
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct leat_redis_link *l = (struct leat_redis_link *)arg;
	int more = 0;

	(void)ready; /* read and write are tried anyway */
	if (!l->up) {
		int ret = leat_stream_error(s);

		if (ret < 0) {
			leat_redis_fail(l->c, s, ret);
			copy_error(l);
		}
		l->in_callback = true;
		if (l->on_connect != NULL)
			l->on_connect(&l->ac, ret < 0 ? REDIS_ERR : REDIS_OK);
		l->in_callback = false;
		l->up = ret == 0;
	}
	if (!must_end(l) && receive_some(l->c) == 0 && replies(l) == 0 && !must_end(l))
		more = send_some(l->c);
	copy_error(l);
	if (must_end(l))
		destroy(l);
	else /* a stream is WRITABLE nearly always: watch for it only while obuf is not empty */
		leat_stream_watch(s, LEAT_STREAM_READABLE | (more ? LEAT_STREAM_WRITABLE : 0),
				  on_ready, l);
}

struct leat_redis_async *
leat_redis_async_connect(struct leat_reactor *r, struct leat_stream_net *net, const char *addr,
			 const struct timeval *timeout)
{
	redisContext *c = context(r, net, addr, timeout);
	struct leat_redis_link *l;

	if (c == NULL)
		return NULL;
	l = link_of(c);
	l->ac.link = l;
	copy_error(l);
	if (l->stream != NULL)
		leat_stream_watch(l->stream, LEAT_STREAM_WRITABLE, on_ready, l);
	return &l->ac;
}

int
leat_redis_async_on_connect(struct leat_redis_async *ac, leat_redis_status *fn)
{
	ac->link->on_connect = fn;
	return REDIS_OK;
}

int
leat_redis_async_on_disconnect(struct leat_redis_async *ac, leat_redis_status *fn)
{
	ac->link->on_disconnect = fn;
	return REDIS_OK;
}

int
leat_redis_async_command(struct leat_redis_async *ac, leat_redis_callback *fn, void *arg,
			 const char *format, ...)
{
	struct leat_redis_link *l = ac->link;
	struct pending *p;
	va_list ap;
	int ret;

	if (l->freeing || l->disconnecting || l->c->err != 0)
		return REDIS_ERR;
	p = (struct pending *)malloc(sizeof(*p));
	if (p == NULL)
		return REDIS_ERR;
	va_start(ap, format);
	ret = redisvAppendCommand(l->c, format, ap);
	va_end(ap);
	if (ret != REDIS_OK) {
		free(p);
		return REDIS_ERR;
	}
	p->next = NULL;
	p->fn = fn;
	p->arg = arg;
	*l->tail = p;
	l->tail = &p->next;
	if (l->up)
		leat_stream_watch(l->stream, LEAT_STREAM_READABLE | LEAT_STREAM_WRITABLE, on_ready,
				  l);
	return REDIS_OK;
}

void
leat_redis_async_disconnect(struct leat_redis_async *ac)
{
	struct leat_redis_link *l = ac->link;

	l->disconnecting = true;
	if (!l->in_callback && must_end(l))
		destroy(l);
}

void
leat_redis_async_free(struct leat_redis_async *ac)
{
	struct leat_redis_link *l = ac->link;

	l->freeing = true;
	if (!l->in_callback)
		destroy(l);
}
