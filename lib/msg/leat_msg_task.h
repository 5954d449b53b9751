/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_MSG_TASK_H
#define LEAT_MSG_TASK_H

/**
 * @file
 * Messages for tasks, with blocking calls like those of a socket.
 *
 * @code
 *	static int
 *	client(void *arg)
 *	{
 *		struct leat_msg_net *net = leat_msg_net_open(NULL);
 *		struct leat_msg_conn *c;
 *		char answer[64];
 *		int ret;
 *
 *		if (net == NULL)
 *			return -rte_errno;
 *		ret = leat_msg_task_dial(net, "10.0.0.1:7000", 1000000, &c);
 *		if (ret == 0)
 *			ret = leat_msg_task_send(c, "hello", 5);
 *		if (ret == 0)
 *			ret = leat_task_within(5000, leat_msg_task_recv(c, answer, 64));
 *		...
 *	}
 * @endcode
 *
 * A *net* is all that a task needs for messages: an endpoint, a message context on it, and their
 * pollers in the task's reactor. A program need not close it: the reactor's stop closes it, and the
 * reactor's destruction frees it. leat_msg_net_close() does both earlier.
 *
 * Calls named leat_msg_task_... suspend only the calling task; other tasks run meanwhile. A cancel
 * of the task ends each of these calls with -ECANCELED, and the task's deadline
 * (leat_task_within(), leat_task_deadline_set()) with -ETIMEDOUT. What then happens:
 *
 *     dial     the attempt ends
 *     accept   connections that come stay for the next accept
 *     send     a message that has not begun is not sent; a small one that has begun is sent, and
 *              the call returns 0
 *     recv     the buffer is the caller's again when the call returns; a message that arrived
 *              before the cancel is returned, a later one is for the next receive
 *     close    the connection goes on closing without the task
 *
 * A call that was cancelled, or whose deadline passed, does not wait for calls before it, even if
 * its message has begun. A large message that is only partly sent or received is dropped, as
 * LEAT_MSG_F_DEADLINE describes: the task at the other side gets -ETIMEDOUT, and the connection
 * goes on. Where that is impossible (a send that has begun in plain mode; a device that can't
 * recall a payload) the connection ends with -ETIMEDOUT, and the call returns when the device has
 * given back the buffer.
 *
 * Several tasks may use one connection. Messages are sent, and are given to receives, in the order
 * in which the tasks made the calls. When the connection has ended, each call returns the reason,
 * but messages that arrived before are received first. One task has to close the connection with
 * leat_msg_task_close(); after that no task may use the connection any more.
 *
 * A client that sends and closes before its listener has seen the connection come up may lose what
 * it sent: it should wait for an answer (doc/guide/msg.md, "Stopping").
 *
 * Buffers may be any memory, stacks included. If the device reaches only registered memory
 * (leat_dev_info.mr_local), a call registers the buffer for its own duration if the message is
 * longer than the eager_max of one of the two sides, or in plain mode. That is slow; memory that
 * leat_msg_net_register() has registered needs no such step.
 *
 * On a failure leat_err_msg() names the call, the peer and the cause.
 *
 * Thread rules: a net and its connections belong to the reactor that runs the task which opened the
 * net.
 */

#include <leat_common.h>
#include <leat_msg.h>
#include <leat_scope.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of connections of a net, if leat_msg_net_conf.max_conns is 0. */
#define LEAT_MSG_NET_CONNS 16

/** Maximum number of regions that leat_msg_net_register() registers in a net. */
#define LEAT_MSG_NET_REGIONS 16

struct leat_msg_net;

/** Configuration of a net. Zeroed means all defaults. */
struct leat_msg_net_conf {
	/**
	 * Name of the device; NULL: the device that was opened last. If one device of the command
	 * line wraps another, as fabric_fault does, the wrapping device is opened last.
	 */
	const char *dev;
	const char *name;   /**< name of the endpoint, for logs and telemetry; NULL: "epN" */
	uint16_t max_conns; /**< maximum connections at a time; 0: LEAT_MSG_NET_CONNS */
	/**
	 * Credits of each connection, see leat_msg_conf; 0: LEAT_MSG_CREDITS_DEFAULT, or the most
	 * that the device has room for.
	 */
	uint16_t credits;
	uint32_t eager_max;	 /**< see leat_msg_conf */
	uint64_t max_size;	 /**< longest message accepted, bytes; 0: leat_dev_info.max_msg */
	enum leat_msg_mode mode; /**< mode of the net's connections */
	/**
	 * Maximum number of connections that are up and wait for leat_msg_task_accept(); further
	 * connectors are rejected, with a text that says so. 0: max_conns.
	 */
	uint16_t backlog;
	/**
	 * Silence after which a peer is pinged, microseconds, as leat_msg_conn_conf.idle_us; if it
	 * does not answer, its connection ends. 0: never; then a call that waits for a hung peer
	 * ends only at its own deadline.
	 */
	uint64_t idle_us;
	uint64_t answer_us; /**< leat_msg_conn_conf.answer_us, microseconds */
};

/**
 * Open a net on the reactor of the calling task.
 *
 * The net has a wait object if the reactor blocks (LEAT_IDLE_BLOCK) and the device offers one.
 *
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The net, or NULL with rte_errno:
 *   - EPERM: not in a task
 *   - ENODEV: no device has that name, or there is no device at all
 *   - ECANCELED: the reactor stops
 *   - others of leat_ep_create(), leat_msg_create() and leat_msg_reactor_add()
 */
LEAT_API struct leat_msg_net *leat_msg_net_open(const struct leat_msg_net_conf *conf);

/**
 * Close a net, and free it.
 *
 * Its listener and its connections are closed; the connections have timeout_us to send what was
 * posted. Waits of other tasks end with -ESHUTDOWN. The call may also be made after the reactor has
 * stopped, outside of tasks: then it does not wait for sends.
 *
 * @return
 *   - 0 (also for NULL): the net is freed
 *   - -ETIMEDOUT: some messages were not sent in time; the net is freed
 *   - -ECANCELED, or -ETIMEDOUT because the task's deadline passed: the net goes on closing, and is
 *     freed with the reactor; it must not be used any more
 *   - -EPERM: the reactor runs, and the caller is not one of its tasks
 *   - -EBUSY: the device does not give back all posted ops, or still uses the memory of the net;
 *     the net is not freed, and may be closed again
 */
LEAT_API int leat_msg_net_close(struct leat_msg_net *net, uint64_t timeout_us);

/** Return the context of a net, for its counters. */
LEAT_API struct leat_msg *leat_msg_net_msg(const struct leat_msg_net *net);

/**
 * Register memory for large messages, for the lifetime of the net; free it only after the net.
 * If leat_dev_info.mr_local is false this is not needed, and does nothing.
 * @return 0; -ENOSPC: LEAT_MSG_NET_REGIONS are registered already; others of leat_mr_register()
 */
LEAT_API int leat_msg_net_register(struct leat_msg_net *net, void *addr, size_t len);

/**
 * Connect to a listener.
 *
 * @param net
 *   The net.
 * @param addr
 *   Address of the listener.
 * @param timeout_us
 *   Time for all attempts, microseconds; while nothing listens at the address they are repeated.
 *   0: 5 s.
 * @param[out] conn
 *   The connection, if 0 is returned; else NULL.
 * @return
 *   0; -ECONNREFUSED, -EHOSTUNREACH and others as leat_event.status of CONNECT_FAILED; -ETIMEDOUT;
 *   -EPROTONOSUPPORT: conf.mode is LEAT_MSG_LEAT, and the peer does not speak it; -ENOSPC:
 *   max_conns connections are open; -EINVAL: malformed address; -ESHUTDOWN: the net is closing, or
 *   the reactor has stopped; -ECANCELED; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_dial(struct leat_msg_net *net, const char *addr, uint64_t timeout_us,
				struct leat_msg_conn **conn);

/**
 * Listen at an address, as leat_ep_listen(), without waiting. A net has one address: after
 * leat_msg_task_unlisten() it can listen again only at the same one.
 * @return 0; others as leat_ep_listen(); -EALREADY: the net has another address, or listens already
 */
LEAT_API int leat_msg_task_listen(struct leat_msg_net *net, const char *addr);

/** Copy the address at which a net listens, port filled in. @return as leat_ep_listen_addr() */
LEAT_API int leat_msg_task_listen_addr(struct leat_msg_net *net, char *addr, size_t len);

/**
 * Stop listening, without waiting. Connections that wait for an accept are closed, calls of
 * leat_msg_task_accept() that wait return -ESHUTDOWN, and further connection requests are rejected.
 * Do nothing if the net does not listen.
 */
LEAT_API void leat_msg_task_unlisten(struct leat_msg_net *net);

/**
 * Wait for a connection from a peer. Several tasks may wait; they get connections in the order of
 * their calls.
 *
 * @param net
 *   The net.
 * @param[out] conn
 *   The connection, if 0 is returned; else NULL.
 * @return
 *   0; -ESHUTDOWN: the net does not listen, or stopped listening, or the reactor has stopped;
 *   -ECANCELED, -ETIMEDOUT; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_accept(struct leat_msg_net *net, struct leat_msg_conn **conn);

/**
 * Send a message, and wait until its buffer may be used again, which does not mean that the peer
 * has the message.
 *
 * @return
 *   0; -ESHUTDOWN: the connection was closed here; -ECANCELED, -ETIMEDOUT; others as
 *   leat_msg_req.status; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_send(struct leat_msg_conn *c, const void *buf, size_t len);

/**
 * Receive a message.
 *
 * @param c
 *   The connection.
 * @param[out] buf
 *   Buffer for the message.
 * @param size
 *   Bytes at buf, at most INT_MAX.
 * @return
 *   The message's length, bytes; -ENOTCONN: the peer has closed, and all it sent was received;
 *   -ESHUTDOWN: the connection was closed here; -ECANCELED, -ETIMEDOUT; others as
 *   leat_msg_req.status; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_recv(struct leat_msg_conn *c, void *buf, size_t size);

/**
 * Close a connection, and wait until it is closed.
 *
 * Posted messages are sent until timeout_us has passed, then the peer is disconnected. The timeout
 * covers the sends only: if the peer does not answer the disconnect, the call lasts until the
 * device gives up on the peer. leat_task_within() bounds the whole call. Receives of other tasks
 * return -ESHUTDOWN. The call is also valid when the connection has ended, and in a task that was
 * cancelled: then the connection goes on closing without the task.
 *
 * @param c
 *   The connection.
 * @param timeout_us
 *   Microseconds; 0: messages that are not sent yet are lost.
 * @return
 *   - 0: closed, by this call or before it by the stop of the reactor
 *   - -ETIMEDOUT: closed, and some messages were not sent
 *   - -ECANCELED, or -ETIMEDOUT because the task's deadline passed: the connection goes on closing
 */
LEAT_API int leat_msg_task_close(struct leat_msg_conn *c, uint64_t timeout_us);

/**
 * @name Bursts
 *
 * Many messages in one call, in their order, with the requests of leat_msg.h. While a task waits
 * for a request the library uses leat_msg_req.user, and sets it to NULL afterwards. The caller sets
 * buf of each request, and mr where leat_msg.h requires it. A task may also post requests with
 * leat_msg_send() or leat_msg_recv() and wait for them later.
 */
/**@{*/

/**
 * Post sends and wait until all have come back.
 * @return 0; else the first status that is not 0, in the order of the array; -ETIMEDOUT in place of
 *   -ECANCELED if the task's deadline ended the wait
 */
LEAT_API int leat_msg_task_send_burst(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				      uint16_t n);

/**
 * Wait until all requests of a connection have come back. If the task is cancelled, the call ends
 * the requests as the calls for one message do, and waits until their buffers are free.
 * @return as leat_msg_task_send_burst(); -EBUSY: another task waits for one of them
 */
LEAT_API int leat_msg_task_wait_all(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				    uint16_t n);

/**
 * Wait until one of the requests has come back. The caller still has to wait for the others, even
 * if the task was cancelled: a cancel asks all requests to end, but the call waits for one only.
 * @return the index of the first request, in the order of the array, that is not posted; -EINVAL: n
 *   is 0; -EBUSY: another task waits for one of them; -EPERM: not in a task
 */
LEAT_API int leat_msg_task_wait_any(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				    uint16_t n);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MSG_TASK_H */
