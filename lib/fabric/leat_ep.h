/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EP_H
#define LEAT_EP_H

/**
 * @file
 * Endpoints: an lcore posts ops to an endpoint and polls it.
 *
 * An endpoint has one completion queue, a receive side and any number of peers. It belongs to the
 * lcore (thread) that uses it: no call on it takes a lock, and no two threads may call it at once.
 * One thread may create an endpoint and hand it to another, which then makes all further calls.
 *
 *     ep = leat_ep_create(dev, &conf);
 *     leat_ep_connect(ep, "10.0.0.1:7000", NULL);            (or leat_ep_listen)
 *     loop:
 *         leat_ep_post(ep, ops, n)      the fast path: no system call, no lock, no allocation
 *         leat_ep_poll(ep, done, 32)    the fast path
 *         leat_ep_events(ep, ev, 8)     connections, deadlines: every 100 us to 1 ms or so
 *     leat_ep_close(ep, ...)
 *
 * Every driver promises: each accepted op comes back from poll exactly once; the ops of one queue
 * come back in the order in which they were posted; buffers belong to the device from post to poll;
 * a full endpoint accepts fewer ops, at once, and never waits; a failing peer ends that peer's ops
 * with an error and touches no other peer.
 */

#include <stdbool.h>
#include <stdint.h>

#include "leat_common.h"
#include "leat_dev.h"
#include "leat_ep_core.h"
#include "leat_mr.h"
#include "leat_op.h"
#include "leat_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rte_mempool;

/** Longest private data of connect and accept, bytes. */
#define LEAT_EP_PRIV_MAX 256
/** Longest address string, bytes with its terminator. */
#define LEAT_ADDR_MAX 128
/** Longest text of an event, bytes with its terminator. */
#define LEAT_EVENT_TEXT 160
/** Default size of the peer table, in peers; if the device's limit is smaller, that limit. */
#define LEAT_EP_PEERS_DEFAULT 64

/** Configuration of an endpoint. Zeroed means all defaults. */
struct leat_ep_conf {
	const char *name;	/**< name for logs and telemetry; copied; NULL: "epN" */
	enum leat_ep_type type; /**< 0: LEAT_EP_RELIABLE */
	uint32_t ops;	      /**< mask of LEAT_OP_BIT of the ops to be posted, 0: SEND and RECV */
	uint32_t tx_depth;    /**< sends and one-sided ops in flight; 0: device default */
	uint32_t rx_depth;    /**< receives in flight; 0: device default */
	uint16_t max_peers;   /**< size of the peer table, 0: LEAT_EP_PEERS_DEFAULT */
	uint16_t nb_mempools; /**< number of mempools */
	/** mempools to register when the endpoint is created, see leat_ep_mempool_mr() */
	struct rte_mempool **mempools;
	uint32_t mempool_access; /**< rights of the mempools, LEAT_MR_* or-ed; 0: local only */
	/**
	 * create a wait object, see leat_ep_fd(); with one, some libfabric providers spend more
	 * time on each message
	 */
	bool wait;
};

/**
 * Create an endpoint.
 * @return the endpoint, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value is out of the device's range
 *   - EOPNOTSUPP: the device can't do one of the ops or the endpoint type; the message names it and
 *     the reason
 *   - ENOSPC: a limit on the device's objects is reached, the device's own or a cgroup's
 *   - ENOMEM, EIO
 */
LEAT_API struct leat_ep *leat_ep_create(struct leat_dev *dev, const struct leat_ep_conf *conf);

/**
 * Post ops, from ops[0] on, until one is refused.
 *
 * Post refuses an op only for a reason below, and then the rest of the burst as well. A wrong op
 * (bad size, unknown peer, ...) is accepted, and comes back from poll with the reason as its
 * status.
 *
 * @return number of ops accepted. If fewer than n, rte_errno has the reason, and ops[ret] to
 *   ops[n-1] are still the caller's:
 *   - EAGAIN: full; poll, then post again
 *   - EALREADY: ops[ret] is already in flight
 *   - ESHUTDOWN: the endpoint is closed or closing
 */
static inline uint16_t
leat_ep_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	return ep->post(ep, ops, n);
}

/**
 * Drive the endpoint, and return the ops that are done.
 *
 * @param[out] ops room for n pointers; with n 0 (ops may be NULL) poll only drives the endpoint
 * @return number of ops returned. They belong to the caller again.
 */
static inline uint16_t
leat_ep_poll(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t got;

	ep->out = ops;
	ep->out_end = n > 0 ? ops + n : ops; /* ops may be NULL when n is 0 */
	if (__builtin_expect(ep->ready_head != NULL, 0))
		leat_ep_drain_ready(ep);
	ep->poll(ep);
	got = (uint16_t)(ep->out - ops);
	__atomic_store_n(&ep->stats.returned, ep->stats.returned + got, __ATOMIC_RELAXED);
	ep->out = NULL;
	ep->out_end = NULL;
	ep->now = 0;
	return got;
}

/**
 * Ask for an op to end early. The op comes back from poll as always: with -ECANCELED, or with its
 * own result if it completed first. Its buffer is the device's until then.
 *
 * @return
 *   - 0: the device was asked
 *   - -ENOENT: the op is not in flight (never posted, or done and waiting for poll)
 *   - -EALREADY: a cancel was asked for before
 *   - -EOPNOTSUPP: the device can't recall the op, which goes on to its normal end (a deadline
 *     bounds that time)
 */
LEAT_API int leat_op_cancel(struct leat_ep *ep, struct leat_op *op);

/** Events of an endpoint. The events of one peer come in this order. */
enum leat_event_type {
	LEAT_EV_CONNECT_REQ = 0, /**< an endpoint wants to connect: answer with accept or reject */
	LEAT_EV_CONNECTED,	 /**< the peer is up: ops may be posted to it */
	LEAT_EV_CONNECT_FAILED,	 /**< the attempt to connect failed; the peer id is free again */
	/** the peer is down and all its ops are done; the id is free again */
	LEAT_EV_DISCONNECTED,
	LEAT_EV_SHUTDOWN, /**< leat_ep_shutdown() is complete; the event names no peer */
};

/** An event. */
struct leat_event {
	enum leat_event_type type; /**< what happened */
	/** peer id; from the next leat_ep_events() on, a freed id may be used again */
	uint16_t peer;
	/**
	 * 0, or a negative errno. DISCONNECTED: 0 the peer closed cleanly; -ECONNABORTED this side
	 * closed; -ECONNRESET the peer died; -ETIMEDOUT the peer did not answer, or an op that the
	 * device can't recall passed its deadline; -EPROTO the peer broke the protocol; -EIO the
	 * device failed. CONNECT_FAILED: -ETIMEDOUT, -ECONNREFUSED (rejected, or no listener),
	 * -EHOSTUNREACH, -EINVAL, -EPROTO. SHUTDOWN: 0, or -ETIMEDOUT if ops had to be aborted.
	 */
	int status;
	uint16_t priv_len; /**< length of priv, bytes */
	/** CONNECT_REQ, CONNECTED: the other side's private data */
	uint8_t priv[LEAT_EP_PRIV_MAX];
	/** the event in words: peer, operation, cause, what to check */
	char text[LEAT_EVENT_TEXT];
	void *user; /**< leat_conn_params.user of connect or accept; NULL before accept */
};

/**
 * Drive everything that is not on the fast path (connecting, peers' deaths, deadlines of ops,
 * closing), and return events. Makes system calls. The interval between calls is the resolution of
 * all time-outs; a reactor calls it every millisecond or so. One call ends at most 256 of the ops
 * whose deadline has passed; the next calls end the others.
 * @param ep the endpoint
 * @param[out] ev room for n events; with n 0 the call only drives
 * @param n room at ev, in events
 * @return number of events
 */
LEAT_API uint16_t leat_ep_events(struct leat_ep *ep, struct leat_event *ev, uint16_t n);

/**
 * @name Sleeping until something happens
 *
 * Where the device offers it (leat_dev_info.wait), and the endpoint was created with
 * leat_ep_conf.wait, a loop that has nothing to do may sleep in poll(2) or epoll_wait(2):
 *
 *     while leat_ep_poll() returns 0 and the loop has no other work:
 *         leat_ep_arm()         0: poll(fd, POLLIN, until the next leat_ep_events() is due)
 *                               -EAGAIN: don't sleep
 *                               -EBUSY: sleep for a short while only
 *         leat_ep_disarm()      in all three cases
 *     leat_ep_events() if the loop was woken, or after -EAGAIN
 *
 * An event between the last poll and the sleep is not missed: either arm returns -EAGAIN, or the
 * descriptor becomes readable. A reactor does all this by itself: idle policy LEAT_IDLE_BLOCK.
 *
 * Time-outs (of ops, of connecting, of closing) don't wake the loop: it must call leat_ep_events()
 * for them as often as without sleeping, and the interval between calls remains their resolution.
 */
/**@{*/

/**
 * Get the descriptor to wait for; it is readable when something may have happened. It belongs to
 * the endpoint: only wait for it, with POLLIN and level-triggered; it is closed with the endpoint.
 * @return the descriptor; -EOPNOTSUPP: the device offers none; -ENOENT: created without
 *   leat_ep_conf.wait. Both with leat_err_msg()
 */
LEAT_API int leat_ep_fd(const struct leat_ep *ep);

/**
 * Make the descriptor readable from now on when an op completes, a message or a request arrives, or
 * a connection changes; and check whether any of these has happened already.
 * @return
 *   - 0: armed, nothing has happened
 *   - -EAGAIN: something has happened already: poll, take events
 *   - -EBUSY: armed, but work is under way (a post that was refused, say) whose end does not make
 *     the descriptor readable: poll again soon
 *   - -ESHUTDOWN: the endpoint is shut down and nothing comes any more: don't wait for its
 *     descriptor
 *   - -EOPNOTSUPP, -ENOENT: as leat_ep_fd()
 */
LEAT_API int leat_ep_arm(struct leat_ep *ep);

/**
 * Undo leat_ep_arm(). Call it after each leat_ep_arm(), whatever that returned, and after the
 * sleep, before any other call on the endpoint.
 */
LEAT_API void leat_ep_disarm(struct leat_ep *ep);
/**@}*/

/** Options of a connection. Zeroed means all defaults. */
struct leat_conn_params {
	const void *priv;  /**< private data, copied and sent to the other side */
	uint16_t priv_len; /**< length of priv, bytes, at most LEAT_EP_PRIV_MAX */
	/**
	 * connect: how long to try, microseconds, even while nothing listens at the address;
	 * 0: 5 s
	 */
	uint64_t timeout_us;
	void *user; /**< leat_event.user in the events of this peer */
};

/**
 * Listen for peers at "host:port", "[v6]:port" or ":port"; port 0: any free one. Requests arrive as
 * LEAT_EV_CONNECT_REQ. An endpoint listens at one address at most, and may connect to others as
 * well.
 * @return 0; -EADDRINUSE; -EADDRNOTAVAIL; -EINVAL (malformed); -EALREADY (it listens); -EACCES;
 *   -EOPNOTSUPP (nothing can connect to endpoints of this driver); others as bind(2)
 */
LEAT_API int leat_ep_listen(struct leat_ep *ep, const char *addr);

/**
 * Write the address at which the endpoint listens, port filled in.
 * @return 0; -ENOENT: it does not listen; -ENOSPC: len is too small
 */
LEAT_API int leat_ep_listen_addr(struct leat_ep *ep, char *addr, size_t len);

/**
 * Begin to connect to a listening endpoint. Never blocks; the outcome is LEAT_EV_CONNECTED or
 * LEAT_EV_CONNECT_FAILED.
 * @param ep the endpoint
 * @param addr address of the listening endpoint
 * @param params NULL for the defaults
 * @return peer id; -ENOSPC (peer table full); -EINVAL (malformed address, priv too long);
 *   -ESHUTDOWN; -EIO
 */
LEAT_API int leat_ep_connect(struct leat_ep *ep, const char *addr,
			     const struct leat_conn_params *params);

/**
 * Accept a request. LEAT_EV_CONNECTED follows (or DISCONNECTED).
 *
 * The other side may be up first and send at once: its first messages may come back from
 * leat_ep_poll() before LEAT_EV_CONNECTED does, with the peer in leat_op.src. An op posted to the
 * peer before it is up ends with -ENOTCONN: keep a reply until CONNECTED.
 * @param ep the endpoint
 * @param peer peer id of the LEAT_EV_CONNECT_REQ
 * @param params NULL, or data for the other side and the user pointer
 * @return 0; -ENOTCONN if the peer is not, or no longer, asking to connect; -EINVAL; others of the
 *   device. After a failure the request is still open, unless the peer has left: accept it later,
 *   or reject it.
 */
LEAT_API int leat_ep_accept(struct leat_ep *ep, uint16_t peer,
			    const struct leat_conn_params *params);

/** Reject a request. No event follows; the id is free again. @return 0; -ENOTCONN as for accept */
LEAT_API int leat_ep_reject(struct leat_ep *ep, uint16_t peer);

/**
 * End a connection, or an attempt to connect. The peer's ops in flight come back from poll, with
 * -ECONNABORTED, or with their own result if they completed first. Then LEAT_EV_DISCONNECTED
 * follows, or LEAT_EV_CONNECT_FAILED for an attempt.
 * @return 0; -ENOTCONN if there is nothing to end (a request is ended with leat_ep_reject())
 */
LEAT_API int leat_ep_disconnect(struct leat_ep *ep, uint16_t peer);

/** Return the state of a peer id; LEAT_PEER_FREE for ids out of range. */
LEAT_API enum leat_peer_state leat_ep_peer_state(const struct leat_ep *ep, uint16_t peer);

/**
 * Begin to close: nothing more can be posted, receives are cancelled, and sends in flight have
 * timeout_us microseconds to complete. Go on with poll and events until LEAT_EV_SHUTDOWN. When the
 * time is up, the ops still in flight are named in the log and aborted: they come back with
 * -ESHUTDOWN. A further call can make the deadline earlier, not later.
 * @return 0; -EALREADY: the endpoint is closing (an earlier deadline has taken effect) or closed
 */
LEAT_API int leat_ep_shutdown(struct leat_ep *ep, uint64_t timeout_us);

/**
 * Free an endpoint that was shut down. Regions that the caller did not deregister are deregistered,
 * with a warning.
 * @return 0, or -EBUSY with leat_err_msg() naming the ops still in flight: poll until no op comes
 *   back any more
 */
LEAT_API int leat_ep_destroy(struct leat_ep *ep);

/**
 * Shut down, poll and destroy an endpoint in one call. It blocks for at most about timeout_us, and
 * then for as long as the device takes to give back the aborted ops. Events are dropped. If the
 * endpoint is closing already, the earlier one of the two deadlines counts.
 * @param ep the endpoint
 * @param timeout_us time in which ops may end by themselves, microseconds; then they are aborted
 * @param done called with each op that comes back; may be NULL
 * @param arg second argument of done
 * @return
 *   - 0: all ops ended by themselves; the endpoint is destroyed
 *   - -ETIMEDOUT: ops had to be aborted; the endpoint is destroyed
 *   - -EBUSY: the device did not give back the aborted ops within 10 s; the endpoint still exists,
 *     closing, and leat_err_msg() names the ops in flight
 */
LEAT_API int leat_ep_close(struct leat_ep *ep, uint64_t timeout_us,
			   void (*done)(struct leat_op *op, void *arg), void *arg);

/** Return the name of an endpoint. */
LEAT_API const char *leat_ep_name(const struct leat_ep *ep);

/** Return the number of an endpoint, unique in the process, as in telemetry. */
LEAT_API unsigned int leat_ep_id(const struct leat_ep *ep);

/** Check whether an endpoint is of type LEAT_EP_DATAGRAM. */
LEAT_API bool leat_ep_is_datagram(const struct leat_ep *ep);

/** Return the device of an endpoint. */
static inline struct leat_dev *
leat_ep_dev(const struct leat_ep *ep)
{
	return ep->dev;
}

/** Count the ops that are with the device, without the done ones that wait for poll. */
static inline uint32_t
leat_ep_inflight(const struct leat_ep *ep)
{
	return ep->depth - ep->tx_room - ep->rx_room;
}

/** Read the counters. Any thread; each value is a recent one. */
LEAT_API void leat_ep_stats_get(const struct leat_ep *ep, struct leat_ep_stats *stats);

/**
 * Return the send queue of a peer, or for LEAT_PEER_ANY the endpoint's receive queue (to read its
 * counters); NULL if there is none.
 */
LEAT_API struct leat_queue *leat_ep_queue(struct leat_ep *ep, uint16_t peer);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_EP_H */
