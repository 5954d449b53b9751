/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_MSG_TASK_H
#define LEAT_MSG_TASK_H

/**
 * @file
 * Messages for tasks: a socket's comfort.
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
 * A *net* is all that messages need below the reactor of a task: an endpoint, a context on it, and
 * their place below the reactor. It is closed when the reactor stops and freed with the reactor, so
 * that a program need not look after it; or by leat_msg_net_close().
 *
 * Calls named leat_msg_task_... wait, as tasks do: other tasks run meanwhile. The cancel of the
 * task and its deadline (leat_task_within(), leat_task_deadline_set()) end each of these waits,
 * with -ECANCELED or -ETIMEDOUT:
 *
 *     dial     the attempt ends
 *     accept   connections that come stay for the next accept
 *     send     a message that has not begun is not sent; a small one that has is, and the
 *              send says 0
 *     recv     its buffer is the caller's again when it returns; a message that was faster than the
 *              cancel is returned, one that comes later is for the next receive
 *     close    it goes on by itself
 *
 * That holds for messages that have begun, too, and for those behind them: a call that is late
 * does not wait for its turn. A large message of which not all has come, or gone, is dropped as by
 * LEAT_MSG_F_DEADLINE: the task at the other side gets -ETIMEDOUT, and the connection goes on.
 * Where it can't (a send that has begun in plain mode; a device that does not take a payload back)
 * the connection ends with -ETIMEDOUT, and the call returns when the device has given back the
 * buffer.
 *
 * A connection may be used by several tasks. Their sends are sent in the order of the calls, and
 * their receives get messages in that order. When it has ended, each call says why, but messages
 * that arrived before are received first. It has to be closed, by one call after which no task may
 * use it any more.
 *
 * A client that sends and closes before its listener has seen the connection come up may lose what
 * it sent: it should wait for an answer (doc/guide/msg.md, "Stopping").
 *
 * Buffers may be any memory, stacks included. Where the device reaches only registered memory
 * (leat_dev_info.mr_local), messages longer than leat_msg_net_conf.eager_max are registered for the
 * time of the call, which is slow; what leat_msg_net_register() was told of is not.
 *
 * On a failure leat_err_msg() names the call, the peer and the cause.
 *
 * Thread rules: a net and its connections belong to the reactor that runs the task which opened it.
 */

#include <leat_common.h>
#include <leat_msg.h>
#include <leat_scope.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Connections of a net, if nothing else was asked for. */
#define LEAT_MSG_NET_CONNS 16

/** Regions of leat_msg_net_register(). */
#define LEAT_MSG_NET_REGIONS 16

struct leat_msg_net;

/** What a net is to be like. Zeroed means all defaults. */
struct leat_msg_net_conf {
	/**
	 * Device; NULL: the last that was opened, so that a device that stands on another one of
	 * the command line, as fabric_fault does, is used with what is below it.
	 */
	const char *dev;
	const char *name;   /**< of the endpoint, for logs and telemetry; NULL: "epN" */
	uint16_t max_conns; /**< connections at a time; 0: LEAT_MSG_NET_CONNS */
	/** Of each connection, see leat_msg_conf; 0: LEAT_MSG_CREDITS_DEFAULT, or the most that the
	 * device has room for. */
	uint16_t credits;
	uint32_t eager_max;	 /**< see leat_msg_conf */
	uint64_t max_size;	 /**< longest message taken; 0: leat_dev_info.max_msg */
	enum leat_msg_mode mode; /**< of its connections */
	/** Connections that stand and wait for leat_msg_task_accept(); what comes beyond that is
	 * rejected, and told so. 0: max_conns. */
	uint16_t backlog;
	/** Ask a peer that was silent for so long, and end the connection if it does not answer:
	 * leat_msg_conn_conf.idle_us. 0: never; then calls wait for a hung peer until their time is
	 * up. */
	uint64_t idle_us;
	uint64_t answer_us; /**< leat_msg_conn_conf.answer_us */
};

/**
 * Open a net below the reactor of the calling task.
 *
 * It has a wait object if the reactor blocks (LEAT_IDLE_BLOCK) and the device offers one.
 *
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The net, or NULL with rte_errno:
 *   - EPERM: not in a task
 *   - ENODEV: there is no such device, or none
 *   - ECANCELED: the reactor stops
 *   - others of leat_ep_create(), leat_msg_create() and leat_msg_reactor_add()
 */
LEAT_API struct leat_msg_net *leat_msg_net_open(const struct leat_msg_net_conf *conf);

/**
 * Close a net: its listener and its connections, which have that time to send what was posted; then
 * free it. Waits of other tasks end with -ESHUTDOWN. Also after the reactor has stopped, outside
 * of tasks and without waiting for sends.
 *
 * @return
 *   - 0 (also for NULL); the net is gone
 *   - -ETIMEDOUT: sends were left; the net is gone
 *   - -ECANCELED, or -ETIMEDOUT with the task's deadline passed: it is closing, and freed with the
 *     reactor; it must not be used any more
 *   - -EPERM: the reactor runs, and this is not in a task of it
 *   - -EBUSY: the device does not give back what was posted
 */
LEAT_API int leat_msg_net_close(struct leat_msg_net *net, uint64_t timeout_us);

/** Context of a net, for counters. */
LEAT_API struct leat_msg *leat_msg_net_msg(const struct leat_msg_net *net);

/**
 * Register memory for large messages, as long as the net exists; it must not be freed before. Not
 * needed where leat_dev_info.mr_local is false; then nothing is done.
 * @return 0; -ENOSPC: LEAT_MSG_NET_REGIONS; others of leat_mr_register()
 */
LEAT_API int leat_msg_net_register(struct leat_msg_net *net, void *addr, size_t len);

/**
 * Connect.
 *
 * @param timeout_us
 *   It is tried until then, also while nothing listens there; 0: 5 s.
 * @param[out] conn
 *   The connection, if 0 is returned; else NULL.
 * @return
 *   0; -ECONNREFUSED, -EHOSTUNREACH and others as leat_event.status of CONNECT_FAILED; -ETIMEDOUT;
 *   -EPROTONOSUPPORT: conf.mode is LEAT_MSG_LEAT, and the other side does not speak it; -ENOSPC:
 *   max_conns are open; -EINVAL: malformed address; -ECANCELED; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_dial(struct leat_msg_net *net, const char *addr, uint64_t timeout_us,
				struct leat_msg_conn **conn);

/**
 * Listen at an address, as leat_ep_listen(); a net listens at one at a time. Does not wait.
 * @return 0; as leat_ep_listen(). After leat_msg_task_unlisten() -EALREADY for another address.
 */
LEAT_API int leat_msg_task_listen(struct leat_msg_net *net, const char *addr);

/** The address at which it listens, port filled in. @return as leat_ep_listen_addr() */
LEAT_API int leat_msg_task_listen_addr(struct leat_msg_net *net, char *addr, size_t len);

/**
 * Listen no more: connections that wait for an accept are closed, tasks that wait in one come back
 * with -ESHUTDOWN, requests are rejected. Does not wait. Nothing happens if it does not listen.
 */
LEAT_API void leat_msg_task_unlisten(struct leat_msg_net *net);

/**
 * Wait for a connection from the other side. Several tasks may do so: the first that came gets it.
 *
 * @param[out] conn
 *   The connection, if 0 is returned; else NULL.
 * @return
 *   0; -ESHUTDOWN: the net does not listen, or any more; -ECANCELED, -ETIMEDOUT; -EPERM: not in a
 *   task.
 */
LEAT_API int leat_msg_task_accept(struct leat_msg_net *net, struct leat_msg_conn **conn);

/**
 * Send a message, and wait until its buffer may be used again. (The other side need not have it
 * then.)
 *
 * @return
 *   0; -ESHUTDOWN: the connection was closed here; -ECANCELED, -ETIMEDOUT; others as
 *   leat_msg_req.status; -EPERM: not in a task.
 */
LEAT_API int leat_msg_task_send(struct leat_msg_conn *c, const void *buf, size_t len);

/**
 * Receive a message.
 *
 * @param size
 *   Bytes at buf, at most INT_MAX.
 * @return
 *   Its length; -ENOTCONN: the other side has closed, and all it sent was received; -ESHUTDOWN: the
 *   connection was closed here; -ECANCELED, -ETIMEDOUT; others as leat_msg_req.status; -EPERM: not
 *   in a task.
 */
LEAT_API int leat_msg_task_recv(struct leat_msg_conn *c, void *buf, size_t size);

/**
 * Close a connection, and wait until that is done: what was posted is sent, until the time is up,
 * then it is disconnected. The time is for the sends; the disconnect takes as long as the device
 * waits for a peer that does not answer it. A task that can not wait for that
 * says so by leat_task_within(). Receives of other tasks come back with -ESHUTDOWN. It may be
 * called when the connection has ended, and by a task that was cancelled: then it goes on by
 * itself.
 *
 * @param timeout_us
 *   0: what was not sent is lost.
 * @return
 *   - 0: closed; or a stop of the reactor did so before
 *   - -ETIMEDOUT: closed, and some was not sent
 *   - -ECANCELED, or -ETIMEDOUT with the task's deadline passed: closing; it goes on by itself
 */
LEAT_API int leat_msg_task_close(struct leat_msg_conn *c, uint64_t timeout_us);

/**
 * @name Bursts
 *
 * For many messages in one call, in their order: requests of leat_msg.h. While a task waits for
 * one, leat_msg_req.user is not the caller's; it is NULL afterwards. Each brings its buffer, and
 * its mr as leat_msg.h says. Posted with leat_msg_send() or leat_msg_recv() they may be waited for
 * later.
 */
/**@{*/

/**
 * Post sends and wait until all have come back.
 * @return 0; else the first status that is not 0, in the order of the array, in which -ECANCELED is
 *   -ETIMEDOUT if it was the task's deadline
 */
LEAT_API int leat_msg_task_send_burst(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				      uint16_t n);

/**
 * Wait until all requests of a connection have come back. Cancelled, it ends them as the
 * calls for one message do, and waits until their buffers are free.
 * @return as leat_msg_task_send_burst(); -EBUSY: another task waits for one of them
 */
LEAT_API int leat_msg_task_wait_all(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				    uint16_t n);

/**
 * Wait until one of them has come back. The others are still to be waited for, also when the task
 * was cancelled: all of them were asked to end then.
 * @return the index of the first, in the order of the array, that is not posted; -EINVAL: n is 0;
 *   -EBUSY; -EPERM
 */
LEAT_API int leat_msg_task_wait_any(struct leat_msg_conn *c, struct leat_msg_req **reqs,
				    uint16_t n);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MSG_TASK_H */
