/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_TASK_H
#define LEAT_RPC_TASK_H

/**
 * @file
 * Remote calls in a reactor and its tasks.
 *
 *     rpc = leat_rpc_open(NULL, NULL, NULL);      the reactor does the loop of leat_rpc.h
 *     leat_ep_listen(leat_rpc_ep(rpc), addr);     or s = leat_rpc_connect(rpc, addr, NULL);
 *
 * One line from a task:
 *
 *     ret = leat_rpc_call(s, LOOKUP, key, key_len, value, sizeof(value), 0);
 *
 * and in batches, of which those requests that go to one peer share a packet:
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
 * Only tasks wait; the reactor's pollers go on: what arrives is handled, each response goes to its
 * request, responses are posted in one burst, and then the tasks run that have all responses.
 * A call is a resource (leat_resource.h): the cancel of its task, or a deadline, ends it at once,
 * and its buffers are the task's again.
 *
 * Thread rules: on the reactor's thread; what waits in its tasks.
 */

#include <leat_common.h>
#include <leat_ep.h>

#include "leat_rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_rpc_batch;

/** Requests of a batch if none are asked for. */
#define LEAT_RPC_BATCH_DEFAULT 16

/** What a reactor does with a context. Zeroed means all defaults. */
struct leat_rpc_reactor_conf {
	/** Takes a LEAT_EV_CONNECT_REQ: leat_rpc_accept() or leat_rpc_refuse(). NULL: accepted as
	 * it is */
	void (*accept)(void *arg, struct leat_rpc *rpc, const struct leat_event *ev);
	/** Takes an event of a session. NULL: a session that ended is closed */
	void (*event)(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev);
	/** Takes requests that were posted by leat_rpc_post(). NULL: they are left to themselves */
	void (*done)(void *arg, struct leat_rpc_req **reqs, uint16_t n);
	/** Takes the application's own ops of the endpoint. NULL: they are dropped */
	void (*ops)(void *arg, struct leat_op **ops, uint16_t n);
	void *arg;
};

/**
 * Have a reactor poll a context and its endpoint. When the reactor stops, tasks may go on calling
 * for a third of its time at most, while they end; then all sessions are closed, as by
 * leat_rpc_close(), and the endpoint is shut down. The stop waits until all sessions are closed and
 * all deferred requests answered, and names those that are not.
 *
 * @param conf NULL for the defaults; copied
 * @return 0; -EALREADY: one does; others of leat_reactor_poller_add()
 */
LEAT_API int leat_rpc_reactor_add(struct leat_reactor *r, struct leat_rpc *rpc,
				  const struct leat_rpc_reactor_conf *conf);

/**
 * Undo leat_rpc_reactor_add(), while the reactor exists; after its end there is nothing to undo.
 * @return 0; -ENOENT; -EPERM: wrong thread
 */
LEAT_API int leat_rpc_reactor_remove(struct leat_rpc *rpc);

/**
 * Create an endpoint, a context on it, and have the calling reactor poll both: leat_ep_create(),
 * leat_rpc_create(), and leat_rpc_reactor_add() in one. The endpoint has room for
 * conf->max_sessions and their credits, does SEND and RECV, and is reliable if the device can; for
 * others create it yourself. Both end with the reactor, and are not to be removed or destroyed
 * before.
 *
 * @param dev name of the device; NULL: the last one of the command line
 * @param conf,on as for the three; NULL: defaults
 * @return the context, or NULL with rte_errno, and leat_err_msg() saying more: EPERM not in a
 *   reactor; ENODEV no such device; others of the three
 */
LEAT_API struct leat_rpc *leat_rpc_open(const char *dev, const struct leat_rpc_conf *conf,
					const struct leat_rpc_reactor_conf *on);

/**
 * Call, and wait for the response; where the session connects again also for that, within the
 * deadline.
 * @param deadline as leat_rpc_req.deadline: absolute, 0: the session's default. The task's own
 * counts, too.
 * @return bytes of the response, or as leat_rpc_req.status; -ECANCELED, -ETIMEDOUT: the task was
 *   cancelled, its deadline passed; -EPERM: not in a task
 */
LEAT_API int leat_rpc_call(struct leat_rpc_session *s, uint8_t type, const void *req, uint32_t len,
			   void *resp, uint32_t room, uint64_t deadline);

/**
 * Post requests, and wait until all are done. When the task is cancelled all that are not are
 * cancelled, and it returns at once; with keys of memory (leat_rpc_bulk) as leat_rpc_cancel() says.
 * @param reqs filled in as for leat_rpc_post(); they are the caller's again when it returns
 * @return 0; -ECANCELED, -ETIMEDOUT: as above; else the status of the first, in the order of the
 * array, that failed; -EINVAL: one of them is posted already, or its session closed: none of these
 * is
 */
LEAT_API int leat_rpc_call_many(struct leat_rpc_req **reqs, uint16_t n);

/**
 * Pull bytes from memory that the caller of a request has described: in a task, until the request
 * is answered. Several may be under way. By READ, in segments, some of them at a time; in messages
 * where there is no READ, or the memory has no key: it makes no difference but in speed.
 *
 * @param call a deferred request (leat_rpc_defer())
 * @param i which descriptor, see leat_rpc_incoming_bulk()
 * @param off first byte of it
 * @param buf where they go; the transfer's until this returns
 * @param mr registered memory that holds buf; needed where leat_dev_info.mr_local
 * @return
 *   - 0: all are there
 *   - -ERANGE: not within the descriptor; -EACCES: it does not allow that; -EINVAL: no such
 *     descriptor, no buffer, no mr
 *   - -ECANCELED: the caller has cancelled the request; or the task was cancelled
 *   - -ETIMEDOUT: the request's deadline passed, or the task's
 *   - -ENOTCONN: the session has ended; others of ops
 *   - -EPERM: not in a task
 */
LEAT_API int leat_rpc_pull(struct leat_rpc_incoming *call, unsigned int i, uint64_t off, void *buf,
			   uint64_t len, struct leat_mr *mr);

/** Push bytes to such memory, by WRITE or in messages. Else as leat_rpc_pull(). */
LEAT_API int leat_rpc_push(struct leat_rpc_incoming *call, unsigned int i, uint64_t off,
			   const void *buf, uint64_t len, struct leat_mr *mr);

/**
 * Create a batch. Any thread; it belongs to the one that uses it.
 * @param max requests, 0: LEAT_RPC_BATCH_DEFAULT
 * @param bytes room for all requests and responses of a batch together; 0: 4096
 * @return it, or NULL with rte_errno ENOMEM
 */
LEAT_API struct leat_rpc_batch *leat_rpc_batch_create(uint16_t max, uint32_t bytes);

/** Free a batch that is not being sent, or NULL. */
LEAT_API void leat_rpc_batch_free(struct leat_rpc_batch *batch);

/** Begin anew: without requests. */
LEAT_API void leat_rpc_batch_clear(struct leat_rpc_batch *batch);

/**
 * Start the next request of a batch.
 * @param max_len most bytes that it may have
 * @param room most bytes of its response
 * @return where its bytes go, 8-byte aligned; NULL with rte_errno ENOSPC: there is no room for it
 */
LEAT_API void *leat_rpc_batch_start(struct leat_rpc_batch *batch, struct leat_rpc_session *s,
				    uint8_t type, uint32_t max_len, uint32_t room);

/** The request that was started last has so many bytes. More than max_len are not taken. */
LEAT_API void leat_rpc_batch_freeze(struct leat_rpc_batch *batch, uint32_t len);

/** Send it, and wait for all responses. @return as leat_rpc_call_many() */
LEAT_API int leat_rpc_batch_send(struct leat_rpc_batch *batch);

/** Number of requests. */
LEAT_API uint16_t leat_rpc_batch_count(const struct leat_rpc_batch *batch);

/**
 * A response.
 * @param i which request, from 0 on
 * @param[out] len its bytes, or a negative errno: the request's status; may be NULL
 * @return it, or NULL if there is none
 */
LEAT_API const void *leat_rpc_batch_response(const struct leat_rpc_batch *batch, uint16_t i,
					     int *len);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_TASK_H */
