/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EP_H
#define LEAT_EP_H

/**
 * @file
 * Endpoints: what an lcore polls.
 *
 * An endpoint has one completion queue, a receive side and any number of peers. It belongs to the
 * lcore (thread) that uses it: no call on it takes a lock, and none may be made from two threads at
 * once. It may be created on one thread and handed to another before its first use there.
 *
 *     ep = leat_ep_create(dev, &conf);
 *     leat_ep_connect(ep, "10.0.0.1:7000", NULL);            (or leat_ep_listen)
 *     loop:
 *         leat_ep_post(ep, ops, n)      the fast path: no system call, no lock, no allocation
 *         leat_ep_poll(ep, done, 32)    the fast path
 *         leat_ep_events(ep, ev, 8)     connections, deadlines: every 100 us to 1 ms or so
 *     leat_ep_close(ep, ...)
 *
 * What every driver promises: each accepted op comes back from poll exactly once; ops of one queue in
 * the order in which they were posted; buffers belong to the device from post to poll; full means that
 * post accepts fewer, at once; a failing peer ends that peer's ops with an error and touches no other.
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

/** Longest data that travel with connect and accept, bytes. */
#define LEAT_EP_PRIV_MAX 256
/** Longest address string, with its terminator. */
#define LEAT_ADDR_MAX 128
/** Longest text of an event, with its terminator. */
#define LEAT_EVENT_TEXT 160
/** Size of the peer table if none is asked for, where the device has as many. */
#define LEAT_EP_PEERS_DEFAULT 64

/** What an endpoint is to be like. Zeroed means all defaults. */
struct leat_ep_conf {
	const char *name;	/**< for logs and telemetry; copied; NULL: "epN" */
	enum leat_ep_type type; /**< 0: LEAT_EP_RELIABLE */
	uint32_t ops;		/**< mask of LEAT_OP_BIT that will be posted, 0: SEND and RECV */
	uint32_t tx_depth;	/**< sends and one-sided ops in flight; 0: device default */
	uint32_t rx_depth;	/**< receives in flight; 0: device default */
	uint16_t max_peers;	/**< size of the peer table, 0: LEAT_EP_PEERS_DEFAULT */
	uint16_t nb_mempools;	/**< number of mempools */
	struct rte_mempool *
		*mempools; /**< registered now, with the access below; see leat_ep_mempool_mr() */
	uint32_t mempool_access; /**< LEAT_MR_* of the mempools, 0: local only */
	bool wait; /**< with a wait object, see leat_ep_fd(); it costs some providers time per message */
};

/**
 * Create an endpoint.
 * @return it, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value out of the device's range
 *   - EOPNOTSUPP: the device can't do one of the ops or the endpoint type; the message names it and why
 *   - ENOSPC: the device's, or a cgroup's, number of objects is used up
 *   - ENOMEM, EIO
 */
LEAT_API struct leat_ep *leat_ep_create(struct leat_dev *dev, const struct leat_ep_conf *conf);

/**
 * Post ops, from ops[0] on, until one finds no room.
 *
 * Post refuses an op only because there is no room for it; the rest of the burst is refused with it. An op
 * that is wrong (bad size, unknown peer, ...) is accepted, and comes back from poll with the reason as its
 * status.
 *
 * @return how many were accepted. If fewer than n, rte_errno tells why, and ops[ret] to ops[n-1] are still
 *   the caller's:
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
 * Drive the endpoint, and take ops that are done.
 *
 * @param[out] ops room for n pointers; n may be 0 (and ops NULL), then it only drives
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
 * Cancel an op: ask for it to end early. It comes back from poll as always: with -ECANCELED, or
 * with its own result if that was faster. Its buffer is the device's until then.
 *
 * @return
 *   - 0: asked
 *   - -ENOENT: it is not in flight (never posted, or done and waiting for poll)
 *   - -EALREADY: asked before
 *   - -EOPNOTSUPP: the device can't recall it; it ends by itself (give the op a deadline to bound that)
 */
LEAT_API int leat_op_cancel(struct leat_ep *ep, struct leat_op *op);

/** Events of an endpoint. For one peer they come in this order. */
enum leat_event_type {
	LEAT_EV_CONNECT_REQ = 0, /**< an endpoint wants to connect: answer with accept or reject */
	LEAT_EV_CONNECTED,	 /**< the peer is up */
	LEAT_EV_CONNECT_FAILED,	 /**< connect ended without; the peer id is free again */
	LEAT_EV_DISCONNECTED, /**< the peer is gone and all its ops are done; the id is free again */
	LEAT_EV_SHUTDOWN,     /**< leat_ep_shutdown() is through; no peer */
};

/** An event. */
struct leat_event {
	enum leat_event_type type;
	uint16_t peer; /**< peer id. A freed id may be given out again from the next leat_ep_events() on */
	/**
	 * 0, or why: DISCONNECTED: 0 the peer closed in order; -ECONNABORTED closed here; -ECONNRESET it died;
	 * -ETIMEDOUT it did not answer, or an op's deadline passed that the device can't recall; -EPROTO it
	 * broke the protocol; -EIO the device failed. CONNECT_FAILED: -ETIMEDOUT, -ECONNREFUSED (rejected, or
	 * no listener), -EHOSTUNREACH, -EINVAL, -EPROTO. SHUTDOWN: 0, or -ETIMEDOUT if ops had to
	 * be aborted.
	 */
	int status;
	uint16_t priv_len;		/**< bytes of priv */
	uint8_t priv[LEAT_EP_PRIV_MAX]; /**< CONNECT_REQ, CONNECTED: data of the other side */
	char text[LEAT_EVENT_TEXT];	/**< for people: peer, operation, cause, what to check */
	void *user;			/**< leat_conn_params.user of the connect */
};

/**
 * Drive what is not on the fast path: connecting, peers' deaths, deadlines of ops, closing. Makes
 * system calls. Their resolution is the interval between calls; a reactor calls it every
 * millisecond or so. A call ends all ops whose deadline has passed, but at most 256 of them: the
 * others follow in the calls after it.
 * @param[out] ev room for n events; n may be 0, then it only drives
 * @return number of events
 */
LEAT_API uint16_t leat_ep_events(struct leat_ep *ep, struct leat_event *ev, uint16_t n);

/**
 * @name Sleeping until something happens
 *
 * Where the device offers it (leat_dev_info.wait), and the endpoint was created with leat_ep_conf.wait, a
 * loop that has nothing to do may sleep in poll(2) or epoll_wait(2):
 *
 *     while leat_ep_poll() and all the rest have nothing to do:
 *         leat_ep_arm()         0: poll(fd, POLLIN, until the next leat_ep_events() is due)
 *                               -EAGAIN: don't sleep
 *                               -EBUSY: sleep for a short while only
 *         leat_ep_disarm()      in all three cases
 *     leat_ep_events() if it was woken, or after -EAGAIN
 *
 * What happens between the last poll and the sleep is not slept through: it makes arm say so, or the descriptor
 * readable. A reactor does all this by itself: idle policy LEAT_IDLE_BLOCK.
 *
 * Time-outs (of ops, of connecting, of closing) don't wake: leat_ep_events() is to be called for them as often as
 * ever, and its interval remains their resolution.
 */
/**@{*/

/**
 * The descriptor to wait for; readable when something may have happened. The endpoint's own: only to be waited
 * for, with POLLIN and level-triggered; it is closed with the endpoint.
 * @return it; -EOPNOTSUPP: the device offers none; -ENOENT: created without leat_ep_conf.wait. Both with
 *   leat_err_msg()
 */
LEAT_API int leat_ep_fd(const struct leat_ep *ep);

/**
 * Make the descriptor readable from now on when an op completes, a message or a request arrives, or
 * a connection changes; and look whether that is so already.
 * @return
 *   - 0: armed, nothing is there
 *   - -EAGAIN: something is there: poll, take events
 *   - -EBUSY: armed, but something is going on (a post that was refused, say) that makes nothing readable when it ends:
 *     look again soon
 *   - -ESHUTDOWN: it is shut down, nothing comes any more: don't wait for its descriptor
 *   - -EOPNOTSUPP, -ENOENT: as leat_ep_fd()
 */
LEAT_API int leat_ep_arm(struct leat_ep *ep);

/** After leat_ep_arm(), whatever that said, and the sleep, before anything else is done with the endpoint. */
LEAT_API void leat_ep_disarm(struct leat_ep *ep);
/**@}*/

/** What goes along with a connection. Zeroed means all defaults. */
struct leat_conn_params {
	const void *priv;    /**< sent to the other side, copied */
	uint16_t priv_len;   /**< at most LEAT_EP_PRIV_MAX */
	uint64_t timeout_us; /**< connect: tries until then (also without a listener), 0: 5 s */
	void *user;	     /**< comes back in the events of this peer */
};

/**
 * Listen for peers at "host:port", "[v6]:port" or ":port"; port 0 takes a free one. Requests arrive
 * as LEAT_EV_CONNECT_REQ. An endpoint listens at one address at most, and may connect to others as
 * well.
 * @return 0; -EADDRINUSE; -EADDRNOTAVAIL; -EINVAL (malformed); -EALREADY (listens); -EACCES;
 *   -EOPNOTSUPP (nothing can connect to endpoints of this driver); others as bind(2)
 */
LEAT_API int leat_ep_listen(struct leat_ep *ep, const char *addr);

/** The address at which it listens, port filled in. @return 0, -ENOENT, or -ENOSPC if len is too small */
LEAT_API int leat_ep_listen_addr(struct leat_ep *ep, char *addr, size_t len);

/**
 * Begin to connect to a listening endpoint. Never blocks; the outcome is LEAT_EV_CONNECTED or
 * LEAT_EV_CONNECT_FAILED.
 * @param params NULL for the defaults
 * @return peer id; -ENOSPC (peer table full); -EINVAL (malformed address, priv too long); -ESHUTDOWN; -EIO
 */
LEAT_API int leat_ep_connect(struct leat_ep *ep, const char *addr,
			     const struct leat_conn_params *params);

/**
 * Accept a request. LEAT_EV_CONNECTED follows (or DISCONNECTED).
 *
 * The other side may be up first and send at once: its first messages may come back from
 * leat_ep_poll() before CONNECTED is here, with the peer in leat_op.src. An op to the peer that is
 * posted before it is up ends with -ENOTCONN: keep an answer until CONNECTED.
 * @param params NULL, or data for the other side and the user pointer
 * @return 0; -ENOTCONN if the peer is not (or no longer) asking; -EINVAL
 */
LEAT_API int leat_ep_accept(struct leat_ep *ep, uint16_t peer,
			    const struct leat_conn_params *params);

/** Reject a request; no event follows, the id is free again. @return 0; -ENOTCONN as for accept */
LEAT_API int leat_ep_reject(struct leat_ep *ep, uint16_t peer);

/**
 * End a connection, or an attempt to connect. The peer's ops in flight come back (with
 * -ECONNABORTED unless they got through), then LEAT_EV_DISCONNECTED (LEAT_EV_CONNECT_FAILED for an
 * attempt).
 * @return 0; -ENOTCONN if there is nothing to end (a request is ended with leat_ep_reject())
 */
LEAT_API int leat_ep_disconnect(struct leat_ep *ep, uint16_t peer);

/** State of a peer id; LEAT_PEER_FREE for ids out of range. */
LEAT_API enum leat_peer_state leat_ep_peer_state(const struct leat_ep *ep, uint16_t peer);

/**
 * Begin to close: nothing more can be posted, receives are cancelled, sends in flight have until
 * the timeout. Go on with poll and events until LEAT_EV_SHUTDOWN. If the time is up, what is still
 * in flight is named in the log, and aborted: it comes back with -ESHUTDOWN.
 * @return 0; -EALREADY: it is closing, or closed
 */
LEAT_API int leat_ep_shutdown(struct leat_ep *ep, uint64_t timeout_us);

/**
 * Free an endpoint that was shut down.
 * @return 0, or -EBUSY with leat_err_msg() naming what is still in flight: poll until nothing comes. Regions that
 *   were not deregistered are, with a warning.
 */
LEAT_API int leat_ep_destroy(struct leat_ep *ep);

/**
 * Shutdown, polling, and destroy in one call. It blocks for at most about timeout_us, and for as long
 * as the device takes to give back what was aborted then. Events are dropped.
 * @param done called with each op that comes back; may be NULL
 * @return
 *   - 0: all ended by itself; the endpoint is gone
 *   - -ETIMEDOUT: ops had to be aborted; the endpoint is gone
 *   - -EBUSY: the device did not give back the aborted ops within 10 s; the endpoint is still there,
 *     closing, and leat_err_msg() names what is in flight
 */
LEAT_API int leat_ep_close(struct leat_ep *ep, uint64_t timeout_us,
			   void (*done)(struct leat_op *op, void *arg), void *arg);

/** Name of an endpoint. */
LEAT_API const char *leat_ep_name(const struct leat_ep *ep);

/** Number of an endpoint, unique in the process, as in telemetry. */
LEAT_API unsigned int leat_ep_id(const struct leat_ep *ep);

/** Is it of type LEAT_EP_DATAGRAM? */
LEAT_API bool leat_ep_is_datagram(const struct leat_ep *ep);

/** Device of an endpoint. */
static inline struct leat_dev *
leat_ep_dev(const struct leat_ep *ep)
{
	return ep->dev;
}

/** Number of ops with the device, not counting those that are done and wait for poll. */
static inline uint32_t
leat_ep_inflight(const struct leat_ep *ep)
{
	return ep->depth - ep->tx_room - ep->rx_room;
}

/** Read the counters; any thread, each value a recent one. */
LEAT_API void leat_ep_stats_get(const struct leat_ep *ep, struct leat_ep_stats *stats);

/** Send queue of a peer, or the endpoint's receive queue for LEAT_PEER_ANY (for its counters); NULL if none. */
LEAT_API struct leat_queue *leat_ep_queue(struct leat_ep *ep, uint16_t peer);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_EP_H */
