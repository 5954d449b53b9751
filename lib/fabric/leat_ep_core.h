/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EP_CORE_H
#define LEAT_EP_CORE_H

/**
 * @file
 * Layout of an endpoint, by cache lines. It is in a header only so that post and poll can be
 * inlined. Applications use leat_ep.h and touch no field.
 *
 *     line 0   post, poll and what a send needs          rarely written
 *     line 1   output of poll, room, ready list           written by each burst
 *     line 2   the receive queue's head and tail
 *     ...      counters, then everything that is not on the fast path
 */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_common.h"
#include "leat_op.h"
#include "leat_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_dev;
struct leat_ep;
struct leat_ep_ctrl;

/** Driver's post: accepts ops from ops[0] on, and returns how many it has accepted. */
typedef uint16_t (*leat_post_fn)(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
/** Driver's function that leat's own protocols call shortly before they post a small op. */
typedef void (*leat_post_soon_fn)(struct leat_ep *ep, uint16_t peer);
/** Driver's poll: finishes completed ops, at most about leat_ep_room() of them. */
typedef void (*leat_poll_fn)(struct leat_ep *ep);

/** State of a peer. */
enum leat_peer_state {
	LEAT_PEER_FREE = 0,   /**< an unused entry of the peer table */
	LEAT_PEER_CONNECTING, /**< leat_ep_connect() called, outcome not known yet */
	LEAT_PEER_REQUESTED,  /**< CONNECT_REQ raised, not answered yet */
	LEAT_PEER_ACCEPTED,   /**< answered, not up yet */
	LEAT_PEER_UP,	      /**< ops may be posted */
	LEAT_PEER_CLOSING,    /**< ending: its ops are coming back */
	LEAT_PEER_DOWN,	      /**< ended; freed once the application has taken its last event */
};

/** The part of a peer that the fast path uses. */
struct leat_peer {
	struct leat_queue sendq; /**< default queue of the sends and one-sided ops to the peer */
	void *drv;		 /**< private to the driver */
	uint64_t drv_word;	 /**< private to the driver, e.g. an address handle */
	uint32_t nb_off_queue;	 /**< ops with this peer in leat_op.peer, in flight, not on sendq */
	uint16_t id;		 /**< index in the table */
	uint8_t state;		 /**< enum leat_peer_state */
	uint8_t ev_pending;	 /**< events not delivered yet, bits 1 << enum leat_event_type */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/** Counters; written by the owner with relaxed stores, read by any thread. */
struct leat_ep_stats {
	uint64_t posted;    /**< ops accepted */
	uint64_t returned;  /**< ops returned by poll */
	uint64_t refused;   /**< ops that post did not accept, mostly since the device was full */
	uint64_t errors;    /**< ops that came back with a status < 0, not counted in flushed */
	uint64_t tx_bytes;  /**< bytes of successful SEND, TSEND, WRITE, WRITE_IMM */
	uint64_t rx_bytes;  /**< bytes of successful RECV, TRECV, READ and atomics */
	uint64_t cancelled; /**< cancels asked for */
	uint64_t expired;   /**< ops whose deadline passed */
	/**
	 * Ops that came back undone because they were cancelled, or because their connection ended
	 * cleanly, closed by either side.
	 */
	uint64_t flushed;
};

/** An endpoint. */
struct leat_ep {
	leat_post_fn post;	     /**< what leat_ep_post() calls */
	leat_poll_fn poll;	     /**< what leat_ep_poll() calls */
	leat_post_soon_fn post_soon; /**< what leat_ep_post_soon() calls; may be NULL */
	void *drv;		     /**< private to the driver */
	struct leat_peer *peers;     /**< table of nb_peers */
	uint64_t max_msg;	     /**< largest message and one-sided op, bytes */
	uint32_t op_mask;	     /**< types that may be posted */
	uint16_t nb_peers;	     /**< size of the peer table */
	uint8_t mr_local;	     /**< leat_dev_info.mr_local, of this endpoint */
	uint8_t directed_recv;	     /**< leat_dev_info.directed_recv, of this endpoint */
	struct leat_ep_ctrl *ctrl;   /**< everything off the fast path */

	/* line 1 */
	struct leat_op **out
		__attribute__((aligned(LEAT_CACHE_LINE))); /**< where poll puts the next op */
	struct leat_op **out_end;   /**< end of the array of the poll under way */
	struct leat_op *ready_head; /**< done ops that the next poll returns first */
	struct leat_op *ready_tail; /**< last op of the ready list */
	uint32_t tx_room;	    /**< sends and one-sided ops that may still be posted */
	uint32_t rx_room;	    /**< receives that may still be posted */
	uint32_t depth;		    /**< tx_room + rx_room when nothing is in flight */
	uint32_t nb_ready;	    /**< length of the ready list */
	uint64_t now; /**< time of the poll under way; 0 until leat_ep_now() was called in it */

	/* line 2 */
	struct leat_queue recvq; /**< default queue of RECV and TRECV */

	struct leat_ep_stats stats; /**< counters */
	struct leat_dev *dev;	    /**< the endpoint's device */

	/**
	 * The driver's post. post in line 0 is the same, or, while ops are timed (sample.c), a
	 * function of the library that calls this one.
	 */
	leat_post_fn drv_post;
	leat_poll_fn drv_poll; /**< the driver's poll; for poll in line 0 see drv_post */
	uint8_t sampled;       /**< ops are timed */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/**
 * Count the ops that are with the device and have the peer in leat_op.peer: those of the peer's
 * send queue, and those counted in nb_off_queue.
 */
static inline uint32_t
leat_peer_inflight(const struct leat_peer *peer)
{
	const struct leat_queue *q = &peer->sendq;

	return (uint32_t)(q->nb_posted - q->nb_returned) - q->held_now + peer->nb_off_queue;
}

#ifndef __cplusplus
static_assert(offsetof(struct leat_op, tag) == LEAT_CACHE_LINE, "first line of an op");
static_assert(offsetof(struct leat_op, dl) == 2 * LEAT_CACHE_LINE, "second line of an op");
static_assert(sizeof(struct leat_op) == 3 * LEAT_CACHE_LINE, "an op is three lines");
static_assert(sizeof(struct leat_queue) == LEAT_CACHE_LINE, "a queue is one line");
static_assert(sizeof(struct leat_peer) == 2 * LEAT_CACHE_LINE, "a peer is two lines");
static_assert(offsetof(struct leat_ep, out) == LEAT_CACHE_LINE, "first line of an endpoint");
static_assert(offsetof(struct leat_ep, recvq) == 2 * LEAT_CACHE_LINE, "second line of an endpoint");
static_assert(offsetof(struct leat_ep, stats) == 3 * LEAT_CACHE_LINE, "third line of an endpoint");
#endif

/** Move ready ops to the output of the poll that is under way. */
LEAT_API void leat_ep_drain_ready(struct leat_ep *ep);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_EP_CORE_H */
