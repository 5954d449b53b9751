/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_TASK_H
#define LEAT_RPC_TASK_H

/**
 * @file
 * Remote calls in a reactor and its tasks.
 *
 *     rpc = leat_rpc_open(NULL, NULL, NULL);      the reactor runs the loop of leat_rpc.h
 *     leat_ep_listen(leat_rpc_ep(rpc), addr);     or s = leat_rpc_connect(rpc, addr, NULL);
 *
 * A single call, in a task:
 *
 *     ret = leat_rpc_call(s, LOOKUP, key, key_len, value, sizeof(value), 0);
 *
 * A batch of calls, where requests to the same peer share packets:
 *
 *     leat_rpc_batch_clear(batch);
 *     for each:
 *         key = leat_rpc_batch_start(batch, s[i], LOOKUP, sizeof(*key), sizeof(*value));
 *         key->... = ...;
 *         leat_rpc_batch_freeze(batch, sizeof(*key));
 *     ret = leat_rpc_batch_send(batch);           sleeps until all responses are in
 *     for each:
 *         value = leat_rpc_batch_response(batch, i, &len);
 *
 * Only tasks wait; the reactor's pollers go on. The pollers handle arrived requests, match
 * responses with their requests, and post responses in one burst; then tasks that have all their
 * responses run. A call is a resource (leat_resource.h): the cancel of its task, or a deadline,
 * ends it at once, and its buffers are the task's again.
 *
 * Thread rules: on the reactor's thread; functions that wait, in its tasks.
 */

#include <leat_common.h>
#include <leat_ep.h>

#include "leat_rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_rpc_batch;

/** Default of leat_rpc_batch_create(), requests. */
#define LEAT_RPC_BATCH_DEFAULT 16

/** Callbacks of a reactor for a context. Zeroed means all defaults. */
struct leat_rpc_reactor_conf {
	/** Called with a LEAT_EV_CONNECT_REQ: must call leat_rpc_accept() or leat_rpc_refuse().
	 * NULL: every request is accepted with the default configuration. Not called while the
	 * reactor stops: requests are refused then. */
	void (*accept)(void *arg, struct leat_rpc *rpc, const struct leat_event *ev);
	/** Called with an event of a session. NULL: a session that ended is closed. */
	void (*event)(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev);
	/** Called with requests of leat_rpc_post() that are done. NULL: they are not reported. */
	void (*done)(void *arg, struct leat_rpc_req **reqs, uint16_t n);
	/** Called with the application's own ops of the endpoint. NULL: they are dropped. */
	void (*ops)(void *arg, struct leat_op **ops, uint16_t n);
	void *arg; /**< first argument of the callbacks */
};

/**
 * Add a context and its endpoint to a reactor, which polls them. When the reactor stops, tasks may
 * still make calls while they end, for at most a quarter of the time until the stop's deadline (1 s
 * if there is none); then all sessions are closed, as by leat_rpc_close(), and the endpoint is shut
 * down. The stop waits until all sessions are closed and all deferred requests answered, and
 * reports those that are not.
 *
 * @param r the reactor
 * @param rpc the context
 * @param conf NULL for the defaults; copied
 * @return 0; -EALREADY: a reactor polls the context; others of leat_reactor_poller_add()
 */
LEAT_API int leat_rpc_reactor_add(struct leat_reactor *r, struct leat_rpc *rpc,
				  const struct leat_rpc_reactor_conf *conf);

/**
 * Remove a context and its endpoint from its reactor. Not needed after the end of the reactor.
 * @return 0; -ENOENT: no reactor polls the context; -EPERM: wrong thread
 */
LEAT_API int leat_rpc_reactor_remove(struct leat_rpc *rpc);

/**
 * Create an endpoint and a context on it, and have the calling reactor poll both: leat_ep_create(),
 * leat_rpc_create(), and leat_rpc_reactor_add() in one. The endpoint has room for
 * conf->max_sessions and their credits, does SEND and RECV, and is reliable if the device can; for
 * an endpoint with other properties use the three calls. leat_reactor_destroy() closes the sessions
 * that are left, and destroys context and endpoint; callbacks may be called until then. Context and
 * endpoint must not be removed or destroyed before.
 *
 * @param dev name of the device; NULL: the last one of the command line
 * @param conf,on as for the three calls; NULL: defaults
 * @return the context, or NULL with rte_errno, and leat_err_msg() saying more: EPERM: not in a
 *   reactor; ENODEV: no such device; others of the three calls
 */
LEAT_API struct leat_rpc *leat_rpc_open(const char *dev, const struct leat_rpc_conf *conf,
					const struct leat_rpc_reactor_conf *on);

/**
 * Call, and wait for the response. On a session that connects again the wait includes the next
 * connection, within the deadline.
 * @param s the session
 * @param type type of the request
 * @param req the request's bytes; NULL if len is 0
 * @param len number of bytes at req
 * @param[out] resp buffer for the response; NULL if room is 0
 * @param room size of resp, bytes
 * @param deadline as leat_rpc_req.deadline: absolute; 0: the session's default. The task's own
 *   deadline applies, too.
 * @return bytes of the response, or as leat_rpc_req.status; -ECANCELED, -ETIMEDOUT: the task was
 *   cancelled, its deadline passed; -EPERM: not in a task
 */
LEAT_API int leat_rpc_call(struct leat_rpc_session *s, uint8_t type, const void *req, uint32_t len,
			   void *resp, uint32_t room, uint64_t deadline);

/**
 * Post requests, and wait until all are done. A cancel of the task cancels those that are not done,
 * and the call returns at once; if requests gave the other side keys of memory (leat_rpc_bulk.mr),
 * it returns when that memory is released, as leat_rpc_cancel() describes.
 * @param reqs filled in as for leat_rpc_post(), of sessions of one context; the caller's again on
 *   return
 * @param n number of requests
 * @return 0; -ECANCELED, -ETIMEDOUT: as for leat_rpc_call(); -EINVAL: a request is posted already,
 *   its session is closed, or it is of another context: none was posted; else the status of the
 *   first request, in the order of the array, that failed
 */
LEAT_API int leat_rpc_call_many(struct leat_rpc_req **reqs, uint16_t n);

/**
 * Pull bytes from memory that the caller of a request has described, and wait until they are there.
 * Call it in a task, before the request is answered; several transfers of one request may be under
 * way. The bytes are read by READs of leat_rpc_conf.segment bytes, several at a time; if the device
 * has no READ, or the memory no key, they are carried in messages. The two ways differ only in
 * speed.
 *
 * @param call a deferred request (leat_rpc_defer())
 * @param i index of the descriptor, see leat_rpc_incoming_bulk()
 * @param off first byte within the described memory
 * @param buf destination; the transfer's until the call returns
 * @param len number of bytes
 * @param mr registered memory that contains buf; needed if leat_dev_info.mr_local is true
 * @return
 *   - 0: all bytes are in buf
 *   - -ERANGE: off and len exceed the described memory; -EACCES: the descriptor does not allow
 *     the transfer; -EINVAL: no such descriptor, no buffer, no mr
 *   - -ECANCELED: the caller has cancelled the request; or the task was cancelled
 *   - -ETIMEDOUT: the deadline of the request, or of the task, passed
 *   - -ENOTCONN: the session has ended; others: as leat_op.status
 *   - -EPERM: not in a task
 */
LEAT_API int leat_rpc_pull(struct leat_rpc_incoming *call, unsigned int i, uint64_t off, void *buf,
			   uint64_t len, struct leat_mr *mr);

/**
 * Push bytes to memory that the caller of a request has described, by WRITEs or in messages. All
 * else is as for leat_rpc_pull().
 */
LEAT_API int leat_rpc_push(struct leat_rpc_incoming *call, unsigned int i, uint64_t off,
			   const void *buf, uint64_t len, struct leat_mr *mr);

/**
 * Create a batch. Any thread; the batch belongs to the thread that uses it.
 * @param max maximum number of requests; 0: LEAT_RPC_BATCH_DEFAULT
 * @param bytes room for all requests and responses of the batch together, bytes; 0: 4096
 * @return the batch, or NULL with rte_errno ENOMEM
 */
LEAT_API struct leat_rpc_batch *leat_rpc_batch_create(uint16_t max, uint32_t bytes);

/** Free a batch that is not being sent. NULL is allowed. */
LEAT_API void leat_rpc_batch_free(struct leat_rpc_batch *batch);

/** Remove all requests from a batch. */
LEAT_API void leat_rpc_batch_clear(struct leat_rpc_batch *batch);

/**
 * Start the next request of a batch.
 * @param batch the batch
 * @param s the session of the request
 * @param type type of the request
 * @param max_len maximum number of bytes of the request
 * @param room maximum number of bytes of its response
 * @return buffer for the request's bytes, 8-byte aligned; NULL with rte_errno ENOSPC: the batch is
 *   full
 */
LEAT_API void *leat_rpc_batch_start(struct leat_rpc_batch *batch, struct leat_rpc_session *s,
				    uint8_t type, uint32_t max_len, uint32_t room);

/** Set the length of the request that was started last, bytes; at most its max_len is used. */
LEAT_API void leat_rpc_batch_freeze(struct leat_rpc_batch *batch, uint32_t len);

/** Send a batch, and wait for all responses. @return as leat_rpc_call_many() */
LEAT_API int leat_rpc_batch_send(struct leat_rpc_batch *batch);

/** Return the number of requests in a batch. */
LEAT_API uint16_t leat_rpc_batch_count(const struct leat_rpc_batch *batch);

/**
 * Return a response.
 * @param batch the batch
 * @param i index of the request, from 0
 * @param[out] len bytes of the response, or the request's status, a negative errno; may be NULL
 * @return the response, or NULL if there is none
 */
LEAT_API const void *leat_rpc_batch_response(const struct leat_rpc_batch *batch, uint16_t i,
					     int *len);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_TASK_H */
