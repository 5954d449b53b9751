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
 * Since 1.1 hiredis leaves reading and writing to a table of functions: only connecting is
 * different then. 0.14 has no such table. There hiredis formats the commands and parses the
 * replies, and what is between is here.
 *
 *     synchronous                                     asynchronous
 *       redisCommand()                                  redisAsyncCommand(): to obuf, watch WRITABLE
 *         write: obuf -> leat_stream_write()            turn: WRITABLE: write; nothing left:
 *         read: leat_reactor_turn() until READABLE              watch READABLE only
 *               leat_stream_read() -> reader            turn: READABLE: read, call back
 *
 * Synchronous calls drive the reactor while they wait, and everything else on it goes on. In a task
 * of the reactor they make the task wait. From callbacks they fail: a callback can't wait.
 *
 * Thread rules: all on the thread that drives the reactor.
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
 * timeout: for the connection, and for each wait of each command; NULL: 5 s for the connection,
 * none for commands. redisSetTimeout() of hiredis is for sockets and fails; valkeySetTimeout()
 * works.
 *
 * Returns NULL: no memory. Else look at err and errstr, as after redisConnect().
 */
redisContext *leat_redis_connect(struct leat_reactor *r, struct leat_stream_net *net,
				 const char *addr, const struct timeval *timeout);

#if LEAT_REDIS_HOOKS

/*
 * Begin to connect. Commands may be given at once. Callbacks are called from turns of the reactor.
 * Returns and timeout as above.
 */
redisAsyncContext *leat_redis_async_connect(struct leat_reactor *r, struct leat_stream_net *net,
					    const char *addr, const struct timeval *timeout);

#else

/* As the functions of hiredis without "leat_". Its redisAppendCommand() works as it is. */
void *leat_redis_command(redisContext *c, const char *format, ...);
void *leat_redis_vcommand(redisContext *c, const char *format, va_list ap);
int leat_redis_get_reply(redisContext *c, void **reply);
void leat_redis_free(redisContext *c);

/* What redisAsyncContext is in hiredis' async.h, which does not go together with this one. */
struct leat_redis_async {
	int err;
	const char *errstr; /* "" when there is no error */
	void *data;	    /* the program's */
	struct leat_redis_link *link;
};

typedef void leat_redis_callback(struct leat_redis_async *ac, void *reply, void *arg);
typedef void leat_redis_status(const struct leat_redis_async *ac, int status);

/*
 * As hiredis' functions. Commands have no time-out, and there is no subscribing: a reply without a
 * command ends the connection. A context frees itself when its connection ends: commands that wait
 * are called back with NULL.
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

/* For a program that is to be the same with all three libraries. */
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
 * For the adapter: wait until one of LEAT_STREAM_* is the case. timeout_us 0: as long as it takes.
 * Returns 0; -ETIMEDOUT; -EBUSY, -EPERM: from a callback; others as leat_reactor_turn().
 */
int leat_redis_wait(struct leat_reactor *r, struct leat_stream *s, uint32_t want,
		    uint64_t timeout_us);

/* Microseconds of a timeval; NULL: none. At least 1, since 0 is none. */
uint64_t leat_redis_us(const struct timeval *tv, uint64_t none);

/* Set err and errstr. status: 0: the server has closed; else a negative errno. Returns -1. */
int leat_redis_fail(redisContext *c, const struct leat_stream *s, int status);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_HIREDIS_H */
