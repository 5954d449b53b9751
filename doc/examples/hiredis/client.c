/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A client of Redis or Valkey over RDMA, or any other leat device, with hiredis' own calls.
 *
 *	make && ./client --vdev=fabric_verbs0 -- 10.0.0.1:6379
 *	./client --vdev=fabric_ring0 -- --self		with a server in the same process, no NIC
 *
 * The server is a Valkey with RDMA, or leat-redis-gateway with any server behind it. The client
 * writes only keys "leat-example:...", and deletes them in the end.
 *
 *     redisCommand()          SET, GET, INCR: a value with zero bytes in it, and a value longer
 *                             than the peer's window
 *     redisAppendCommand()    a pipeline of 100 SET, GET, DEL
 *     redisAsyncCommand()     1000 INCR, 16 at a time, from callbacks in turns of the reactor
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_addr.h>
#include <leat_error.h>
#include <leat_fabric.h>

#define LEAT_REDIS_NAMES
#include "leat_hiredis.h"
#include "responder.h"

#define PIPELINE 100
#define ASYNC 1000
#define ASYNC_DEPTH 16
#define LONG_VALUE (3U << 20)
#define STOP_US 1000000

static const struct timeval timeout = { 5, 0 };
static struct leat_reactor *reactor;
static struct leat_stream_net *net;

/* Check that the reply is this integer, and free it. Returns 0 or -EBADMSG. */
static int
integer_is(redisContext *c, redisReply *r, long long want)
{
	int ret = r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == want;

	if (!ret)
		fprintf(stderr, "client: expected %lld, got %s\n", want,
			r == NULL		       ? c->errstr
			: r->type == REDIS_REPLY_ERROR ? r->str
						       : "something else");
	freeReplyObject(r);
	return ret ? 0 : -EBADMSG;
}

/* Check that the reply is these len bytes, and free it. Returns 0 or -EBADMSG. */
static int
text_is(redisContext *c, redisReply *r, const void *want, size_t len)
{
	int ret = r != NULL && (r->type == REDIS_REPLY_STATUS || r->type == REDIS_REPLY_STRING) &&
		  r->len == len && memcmp(r->str, want, len) == 0;

	if (!ret)
		fprintf(stderr, "client: expected %zu bytes, got %s\n", len,
			r == NULL		       ? c->errstr
			: r->type == REDIS_REPLY_ERROR ? r->str
						       : "something else");
	freeReplyObject(r);
	return ret ? 0 : -EBADMSG;
}

/* Run commands one by one, each waiting for its reply. */
static int
commands(redisContext *c)
{
	static const char value[] = "zero \0 and\r\nline";
	char *big = (char *)malloc(LONG_VALUE);
	size_t i;
	int ret;

	if (big == NULL)
		return -ENOMEM;
	for (i = 0; i < LONG_VALUE; i++)
		big[i] = (char)(i * 2654435761U >> 13);

#define ASK(...) ((redisReply *)redisCommand(c, __VA_ARGS__))
	freeReplyObject(ASK("DEL %s", "leat-example:n"));
	ret = text_is(c, ASK("PING"), "PONG", 4);
	if (ret == 0)
		ret = text_is(c, ASK("SET %s %b", "leat-example:v", value, sizeof(value)), "OK", 2);
	if (ret == 0)
		ret = text_is(c, ASK("GET %s", "leat-example:v"), value, sizeof(value));
	if (ret == 0)
		ret = integer_is(c, ASK("INCR %s", "leat-example:n"), 1);
	if (ret == 0)
		ret = integer_is(c, ASK("INCR %s", "leat-example:n"), 2);
	if (ret == 0)
		ret = text_is(c, ASK("SET %s %b", "leat-example:v", big, (size_t)LONG_VALUE), "OK",
			      2);
	if (ret == 0)
		ret = text_is(c, ASK("GET %s", "leat-example:v"), big, LONG_VALUE);
	if (ret == 0)
		ret = integer_is(c, ASK("DEL %s", "leat-example:v"), 1);
	if (ret == 0)
		ret = integer_is(c, ASK("DEL %s", "leat-example:n"), 1);
	if (ret == 0)
		printf("commands: set, get, incr, del: right\n");
#undef ASK
	free(big);
	return ret;
}

/* Return the value of a key of the pipeline, valid until the next call. */
static const char *
value_of(int key, size_t len)
{
	static char value[16384];

	memset(value, 'v', len);
	snprintf(value, len, "value %d", key);
	return value;
}

/* Write many commands, then read their replies. */
static int
pipeline(redisContext *c)
{
	const size_t len = 16384;
	redisReply *r;
	int i, ret = 0;

	for (i = 0; i < PIPELINE; i++) {
		if (redisAppendCommand(c, "SET leat-example:%d %b", i, value_of(i, len), len) !=
			    REDIS_OK ||
		    redisAppendCommand(c, "GET leat-example:%d", i) != REDIS_OK ||
		    redisAppendCommand(c, "DEL leat-example:%d", i) != REDIS_OK)
			return -ENOMEM;
	}
	for (i = 0; i < 3 * PIPELINE && ret == 0; i++) {
		r = NULL;
		if (redisGetReply(c, (void **)&r) != REDIS_OK)
			r = NULL;
		if (i % 3 == 0)
			ret = text_is(c, r, "OK", 2);
		else if (i % 3 == 1)
			ret = text_is(c, r, value_of(i / 3, len), len);
		else
			ret = integer_is(c, r, 1);
	}
	if (ret == 0)
		printf("pipeline: %d commands: right\n", 3 * PIPELINE);
	return ret;
}

/*
 * Asynchronous commands: on each reply send the next one, until ASYNC were sent.
 */

static int asked, answered, wrong;
static bool ended;

static void on_reply(redisAsyncContext *ac, void *reply, void *arg);

static void
ask(redisAsyncContext *ac)
{
	if (asked < ASYNC &&
	    redisAsyncCommand(ac, on_reply, NULL, "INCR %s", "leat-example:async") == REDIS_OK)
		asked++;
}

static void
on_deleted(redisAsyncContext *ac, void *reply, void *arg)
{
	(void)arg;
	if (reply != NULL)
		redisAsyncDisconnect(ac);
}

static void
on_reply(redisAsyncContext *ac, void *reply, void *arg)
{
	const redisReply *r = (const redisReply *)reply;

	(void)arg;
	if (r == NULL) { /* the connection has ended */
		if (!ended)
			fprintf(stderr, "client: %s\n", ac->errstr);
		ended = true;
		return;
	}
	answered++;
	wrong += r->type != REDIS_REPLY_INTEGER || r->integer != answered;
	ask(ac);
	if (answered == ASYNC)
		redisAsyncCommand(ac, on_deleted, NULL, "DEL %s", "leat-example:async");
}

static void
on_end(const redisAsyncContext *ac, int status)
{
	if (status != REDIS_OK && !ended)
		fprintf(stderr, "client: %s\n", ac->errstr);
	ended = true;
}

static int
async(const char *addr)
{
	redisAsyncContext *ac = leat_redis_async_connect(reactor, net, addr, &timeout);
	int i, ret = 0;

	if (ac == NULL || ac->err != 0) {
		fprintf(stderr, "client: %s\n", ac != NULL ? ac->errstr : "no memory");
		if (ac != NULL)
			redisAsyncFree(ac);
		return -EIO;
	}
	redisAsyncSetDisconnectCallback(ac, on_end);
	redisAsyncCommand(ac, NULL, NULL, "DEL %s", "leat-example:async");
	for (i = 0; i < ASYNC_DEPTH; i++)
		ask(ac);
	while (!ended && ret >= 0) { /* most programs call leat_reactor_run() */
		ret = leat_reactor_turn(reactor);
		if (ret == 0)
			sched_yield();
	}
	if (ret < 0 || answered != ASYNC || wrong > 0) {
		fprintf(stderr, "client: async: %d replies, %d wrong\n", answered, wrong);
		return -EBADMSG;
	}
	printf("async: %d replies in order\n", answered);
	return 0;
}

static int
talk(const char *addr)
{
	redisContext *c = leat_redis_connect(reactor, net, addr, &timeout);
	int ret = -EIO;

	if (c == NULL || c->err != 0)
		fprintf(stderr, "client: %s\n", c != NULL ? c->errstr : "no memory");
	else
		ret = commands(c);
	if (ret == 0)
		ret = pipeline(c);
	redisFree(c);
	return ret < 0 ? ret : async(addr);
}

/* Stop the reactor cleanly, then destroy it and close the nets. */
static int
stop(bool self)
{
	int ret;

	leat_reactor_stop(reactor, STOP_US);
	do
		ret = leat_reactor_turn(reactor);
	while (ret >= 0);
	ret = ret == -ESHUTDOWN ? 0 : ret;
	if (leat_reactor_destroy(reactor) < 0)
		return -rte_errno;
	if (leat_stream_net_close(net) < 0 || (self && responder_close() < 0))
		return -rte_errno;
	return ret;
}

static int
run(const char *addr)
{
	bool self = strcmp(addr, "--self") == 0;
	struct leat_reactor_conf conf;
	char own[LEAT_ADDR_MAX];
	int ret = 0;

	memset(&conf, 0, sizeof(conf));
	conf.idle.policy = LEAT_IDLE_YIELD; /* as leat_redis_wait() does */
	reactor = leat_reactor_create(&conf);
	net = reactor != NULL ? leat_stream_net_open(reactor, NULL) : NULL;
	if (net == NULL)
		return -rte_errno;
	if (self)
		ret = responder_open(reactor, own, sizeof(own));
	if (ret == 0)
		ret = talk(self ? own : addr);
	return stop(self) < 0 ? -rte_errno : ret;
}

int
main(int argc, char **argv)
{
	int n = leat_init(argc, argv);

	if (n < 0 || argc - n != 2) {
		fprintf(stderr, "usage: client [EAL arguments] -- ADDRESS|--self\n");
		if (n < 0)
			fprintf(stderr, "client: %s\n", leat_err_msg());
		return 2;
	}
	if (run(argv[n + 1]) < 0) {
		fprintf(stderr, "client: failed: %s\n", leat_err_msg());
		return 1;
	}
	return leat_cleanup() < 0;
}
