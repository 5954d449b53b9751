/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_HIREDIS_H
#define LEAT_HIREDIS_H

/*
 * hiredis over a leat stream.
 *
 *     library                 file     what a program calls
 *     hiredis 1.1 and later   hooks.c  redisCommand(), redisAsyncCommand(), ...: all of hiredis
 *     libvalkey               hooks.c  valkeyCommand(), ...: all of libvalkey
 *     hiredis 0.14 (Debian)   plain.c  functions of the same shape: leat_redis_command(), ...
 *
 * hiredis 1.1 and later read and write through a table of functions, which hooks.c replaces:
 * programs differ only in how they connect. hiredis 0.14 has no such table. There hiredis formats
 * the commands and parses the replies, and plain.c does all the rest.
 *
 *     synchronous                                  asynchronous
 *       redisCommand()                               redisAsyncCommand(): to obuf, watch WRITABLE
 *         write: obuf -> leat_stream_write()         turn: WRITABLE: write; when obuf is empty,
 *         read: leat_reactor_turn() until READABLE           watch READABLE only
 *               leat_stream_read() -> reader         turn: READABLE: read, call back
 *
 * Synchronous calls turn the reactor while they wait, so that everything else on the reactor goes
 * on. In a task of the reactor they make the task wait. From callbacks they fail: a callback can't
 * wait.
 *
 * Thread rules: call all functions on the thread that drives the reactor.
 */

#include <leat_reactor.h>
#include <leat_stream.h>

#ifdef LEAT_REDIS_VALKEY
#include <valkey/async.h>
#include <valkey/valkey.h>
#include "valkey_names.h"
#define LEAT_REDIS_HOOKS 1
#else
#include <hiredis/hiredis.h>
#if HIREDIS_MAJOR > 1 || (HIREDIS_MAJOR == 1 && HIREDIS_MINOR >= 1)
#include <hiredis/async.h>
#define LEAT_REDIS_HOOKS 1
#else
#define LEAT_REDIS_HOOKS 0
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if !LEAT_REDIS_HOOKS
struct leat_redis_async;
#ifdef LEAT_REDIS_NAMES
#define redisAsyncContext struct leat_redis_async
#endif
#endif

/*
 * Connect, and wait until the connection is up.
 *
 * timeout: of the connection, and of each wait of each command; NULL: 5 s for the connection, no
 * limit for commands. To change it later valkeySetTimeout() works; redisSetTimeout() of hiredis is
 * for sockets only, and fails.
 *
 * Returns NULL if out of memory. Otherwise check err and errstr, as after redisConnect().
 */
redisContext *leat_redis_connect(struct leat_reactor *r, struct leat_stream_net *net,
				 const char *addr, const struct timeval *timeout);

#if LEAT_REDIS_HOOKS

/*
 * Begin to connect. Commands may be given at once. Callbacks are called from turns of the reactor.
 * timeout and the returned value: as for leat_redis_connect().
 */
redisAsyncContext *leat_redis_async_connect(struct leat_reactor *r, struct leat_stream_net *net,
					    const char *addr, const struct timeval *timeout);

#else

/*
 * As hiredis' redisCommand() and so on, for contexts of leat_redis_connect(). redisAppendCommand()
 * of hiredis works unchanged.
 */
void *leat_redis_command(redisContext *c, const char *format, ...);
void *leat_redis_vcommand(redisContext *c, const char *format, va_list ap);
int leat_redis_get_reply(redisContext *c, void **reply);
void leat_redis_free(redisContext *c);

/* In place of redisAsyncContext of hiredis' async.h, which can't be included with this header. */
struct leat_redis_async {
	int err;
	const char *errstr; /* "" when there is no error */
	void *data;	    /* for the program's use */
	struct leat_redis_link *link;
};

typedef void leat_redis_callback(struct leat_redis_async *ac, void *reply, void *arg);
typedef void leat_redis_status(const struct leat_redis_async *ac, int status);

/*
 * As hiredis' functions, with two differences: commands have no time-out, and subscriptions don't
 * work, since a reply without a command ends the connection. A context frees itself when its
 * connection ends: the callbacks of commands without a reply are called with NULL.
 */
struct leat_redis_async *leat_redis_async_connect(struct leat_reactor *r,
						  struct leat_stream_net *net, const char *addr,
						  const struct timeval *timeout);
int leat_redis_async_on_connect(struct leat_redis_async *ac, leat_redis_status *fn);
int leat_redis_async_on_disconnect(struct leat_redis_async *ac, leat_redis_status *fn);
int leat_redis_async_command(struct leat_redis_async *ac, leat_redis_callback *fn, void *arg,
			     const char *format, ...);
void leat_redis_async_disconnect(struct leat_redis_async *ac);
void leat_redis_async_free(struct leat_redis_async *ac);

/* hiredis' names, for programs that are to compile with each of the three libraries. */
#ifdef LEAT_REDIS_NAMES
#define redisCommand leat_redis_command
#define redisGetReply leat_redis_get_reply
#define redisFree leat_redis_free
#define redisAsyncSetConnectCallback leat_redis_async_on_connect
#define redisAsyncSetDisconnectCallback leat_redis_async_on_disconnect
#define redisAsyncCommand leat_redis_async_command
#define redisAsyncDisconnect leat_redis_async_disconnect
#define redisAsyncFree leat_redis_async_free
#endif

#endif

/*
 * For the adapters: wait until the stream has one of the LEAT_STREAM_* bits of want. timeout_us 0:
 * no limit. Returns 0; -ETIMEDOUT; -EBUSY, -EPERM: from a callback; others as leat_reactor_turn().
 */
int leat_redis_wait(struct leat_reactor *r, struct leat_stream *s, uint32_t want,
		    uint64_t timeout_us);

/* Return a timeval in microseconds, at least 1, since 0 means no limit; tv NULL: `none`. */
uint64_t leat_redis_us(const struct timeval *tv, uint64_t none);

/* Set err and errstr. status 0: the server has closed; otherwise a negative errno. Returns -1. */
int leat_redis_fail(redisContext *c, const struct leat_stream *s, int status);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_HIREDIS_H */
