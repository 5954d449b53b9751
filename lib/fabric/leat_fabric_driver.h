/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_FABRIC_DRIVER_H
#define LEAT_FABRIC_DRIVER_H

/**
 * @file
 * For drivers: the table they fill in, and what the fabric library does for them.
 *
 * A driver is a plugin, libleat_driver_NAME.so, whose constructor registers a struct leat_driver.
 *
 * Division of labour. The library keeps the peer table, the ordered queues, deadlines, events, the list of
 * regions, and all argument checking of slow calls. The driver moves data and owns connections. For every op
 * that it takes in its post it calls leat_op_start(), and exactly once, later or at once, leat_op_finish(); the
 * library then sees to the order and to poll's output.
 *
 *     post:  leat_op_admit -> leat_op_check -> (hand to device) -> leat_op_start
 *     poll:  (completion from device) -> leat_op_finish -> held, or out of poll
 *
 * A peer's life, with the driver's calls on the right:
 *
 *     leat_ep_connect() -> connect()      CONNECTING   leat_peer_up() or leat_peer_failed()
 *     somebody connects                   REQUESTED    leat_peer_request()
 *     leat_ep_accept() -> accept()        ACCEPTED     leat_peer_up(), or closing + down
 *                                         UP
 *     it died, said bye, or disconnect()  CLOSING      leat_peer_closing(), then finish its ops,
 *                                         DOWN         then leat_peer_down()
 *
 * Thread rules: everything of an endpoint on its own thread; probe, remove and info on the main thread.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_errno.h>
#include <rte_kvargs.h>

#include "leat_common.h"
#include "leat_dev.h"
#include "leat_dev_list.h"
#include "leat_ep.h"
#include "leat_time.h"
#include "leat_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An argument of a device: `name=value`. */
struct leat_driver_arg {
	const char *name;
	const char *value; /**< what may stand there, e.g. "NAME" or "1..65536" */
	const char *def;   /**< default, for people */
	const char *help;  /**< one line */
};

/** A contiguous piece of a region, registered with the device. */
struct leat_mr_piece {
	void *addr;
	uint64_t len;
	void *desc;    /**< local descriptor, the driver's own */
	uint64_t key;  /**< remote key */
	uint64_t base; /**< remote address of addr */
	void *drv;     /**< the driver's own */
};

/** A region: one piece, or for a mempool one per memory chunk, sorted by address. */
struct leat_mr {
	struct leat_ep *ep;
	struct leat_mr *next;
	const struct rte_mempool *mempool; /**< or NULL */
	uint32_t access;
	uint32_t nb_pieces;
	struct leat_mr_piece piece[];
};

/** What a driver provides. All functions return 0 or a negative errno with leat_err() set unless said otherwise. */
struct leat_driver {
	const char *name;	 /**< "fabric_x"; devices are called fabric_x and digits */
	const char *description; /**< one line */
	const struct leat_driver_arg *args; /**< ends with a NULL name */

	/** Opens a device; the keys were checked. Keeps what it needs in leat_dev_drv_set(). */
	int (*probe)(struct leat_dev *dev, const struct rte_kvargs *kv);
	/** Closes a device without endpoints. */
	void (*remove)(struct leat_dev *dev);
	/** Fills in all but name and driver. */
	void (*info)(const struct leat_dev *dev, struct leat_dev_info *info);
	/**
	 * Tells what is known of a device, or if dev is NULL of all that could be opened here, beginning each with
	 * to->device(). NULL: there is nothing to choose, and nothing more to tell.
	 * @return 0; negative with leat_err(): none is there, and why
	 */
	int (*list)(const struct leat_dev *dev, const struct leat_dev_sink *to);

	/**
	 * Opens an endpoint: sets ep->drv, ep->post, ep->poll, ep->mr_local, ep->directed_recv.
	 * conf is complete (no zeros for defaults) and inside the limits of info; the driver
	 * refuses what only it can know.
	 *
	 * ep->post_soon may be set, too: leat's own protocols call it when all that is left to do
	 * for a small op to a peer (any number) is to fill it in. What a driver fetches for it
	 * comes in the meantime; it changes nothing else.
	 */
	int (*ep_open)(struct leat_ep *ep, const struct leat_ep_conf *conf);
	/** Cancels all receives; they come back soon. Sends go on. */
	void (*ep_quiesce)(struct leat_ep *ep);
	/** Makes every op still in flight come back, at once or in one of the next polls, with -ESHUTDOWN. */
	void (*ep_abort)(struct leat_ep *ep);
	/** Tells the peers, and frees everything. No op is in flight. */
	void (*ep_close)(struct leat_ep *ep);

	/**
	 * Asks the device to end an op early. @return 0: it will be finished (inside this call or later);
	 * -EOPNOTSUPP: can't be recalled.
	 */
	int (*cancel)(struct leat_ep *ep, struct leat_op *op);
	/** Control work; called from leat_ep_events(). */
	void (*progress)(struct leat_ep *ep, uint64_t now);

	int (*listen)(struct leat_ep *ep, const char *addr);
	int (*listen_addr)(struct leat_ep *ep, char *addr, size_t len);
	/** Begins to connect; the outcome is leat_peer_up() or leat_peer_failed(), never inside this call. */
	int (*connect)(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		       const struct leat_conn_params *params);
	int (*accept)(struct leat_ep *ep, struct leat_peer *peer,
		      const struct leat_conn_params *params);
	/** The library frees the peer afterwards. */
	void (*reject)(struct leat_ep *ep, struct leat_peer *peer);
	/**
	 * Ends a peer that is CONNECTING, ACCEPTED or UP: calls leat_peer_closing() with status and text, finishes its
	 * ops (now or later), then calls leat_peer_down().
	 */
	void (*disconnect)(struct leat_ep *ep, struct leat_peer *peer, int status,
			   const char *text);

	/** Registers a piece: fills in desc, key, base, drv. */
	int (*mr_reg)(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
	/** @return 0, or -EBUSY: still used */
	int (*mr_dereg)(struct leat_ep *ep, struct leat_mr_piece *piece);

	/**
	 * Sleeping until something happens; all three, or NULL: not offered. They are called only for endpoints with
	 * leat_ep_conf.wait, which the library refuses where leat_dev_info.wait is not set. Not called any more once
	 * the endpoint is shut down.
	 */
	/** Descriptor to poll for POLLIN, level-triggered; the same from ep_open() to ep_close(), which closes it. */
	int (*fd)(const struct leat_ep *ep);
	/**
	 * From now on what a poll or progress() would find makes the descriptor readable: completions, messages, requests,
	 * connections that change, a peer's death; not time-outs. First announces, then looks: what came before is answered
	 * with -EAGAIN. A spurious wake-up is allowed, a lost one is not.
	 * @return 0: armed, and nothing is there; -EAGAIN: poll and progress() have something to do;
	 *   -EBUSY: armed, but something goes on that makes nothing readable: the caller sleeps for a short while only
	 */
	int (*arm)(struct leat_ep *ep);
	/** Undoes it, and takes what made the descriptor readable if poll and progress() won't. After each arm(). */
	void (*disarm)(struct leat_ep *ep);
};

/**
 * Registers a driver; called from a constructor, so it can only log. The number of the ABI of this header is part
 * of the symbol, so that a plugin built against another one can't be loaded: the loader names the missing symbol.
 */
#define LEAT_DRIVER_REGISTER_FN LEAT_DRIVER_SYMBOL(leat_driver_register_abi, LEAT_DRIVER_ABI)
#define LEAT_DRIVER_SYMBOL(name, abi) LEAT_DRIVER_SYMBOL_(name, abi)
#define LEAT_DRIVER_SYMBOL_(name, abi) name##abi
LEAT_API void LEAT_DRIVER_REGISTER_FN(const struct leat_driver *drv);

/** Makes the constructor that registers a driver. */
#define LEAT_DRIVER_REGISTER(drv)                                                                  \
	static void __attribute__((constructor)) leat_driver_ctor_##drv(void);                     \
	static void leat_driver_ctor_##drv(void)                                                   \
	{                                                                                          \
		LEAT_DRIVER_REGISTER_FN(&drv);                                                     \
	}

/** The driver's own pointer in a device. */
LEAT_API void leat_dev_drv_set(struct leat_dev *dev, void *drv);
LEAT_API void *leat_dev_drv(const struct leat_dev *dev);

/** Value of a key, or NULL. */
static inline const char *
leat_kv_str(const struct rte_kvargs *kv, const char *key)
{
	return kv == NULL ? NULL : rte_kvargs_get(kv, key);
}

/**
 * Value of a key as a whole number, decimal or 0x; *out is left alone if the key is not there.
 * @return 0, or -EINVAL with leat_err() naming key, value and range
 */
LEAT_API int leat_kv_u32(const struct rte_kvargs *kv, const char *key, uint32_t min, uint32_t max,
			 uint32_t *out);

/* ---- peers ---------------------------------------------------------------------------------- */

/**
 * Somebody wants to connect. Raises LEAT_EV_CONNECT_REQ.
 * @param from where it is, for people
 * @return the new peer, or NULL if the table is full (the driver rejects)
 */
LEAT_API struct leat_peer *leat_peer_request(struct leat_ep *ep, const char *from, const void *priv,
					     uint16_t priv_len);

/** A peer is up. Raises LEAT_EV_CONNECTED. */
LEAT_API void leat_peer_up(struct leat_ep *ep, struct leat_peer *peer, const void *priv,
			   uint16_t priv_len);

/** An attempt to connect failed. Raises LEAT_EV_CONNECT_FAILED; the driver forgot the peer already. */
LEAT_API void leat_peer_failed(struct leat_ep *ep, struct leat_peer *peer, int status,
			       const char *text);

/**
 * A peer is ending: ops posted to it from now on come back with -ENOTCONN. The first call's status and text are
 * those of the event; further calls change nothing.
 */
LEAT_API void leat_peer_closing(struct leat_ep *ep, struct leat_peer *peer, int status,
				const char *text);

/** All its ops were finished and the driver forgot it. Raises LEAT_EV_DISCONNECTED (or CONNECT_FAILED before it was up). */
LEAT_API void leat_peer_down(struct leat_ep *ep, struct leat_peer *peer);

/**
 * Is the endpoint inside of one with the tag layer (doc/guide/tags.md)? A driver with an exchange
 * of addresses of its own tells the other side, so that two that do not fit find out when
 * connecting. Its own endpoint; any time.
 */
LEAT_API bool leat_ep_is_inner(const struct leat_ep *ep);

/** Where a peer is, for messages: the address it was connected by, or came from. */
LEAT_API const char *leat_peer_addr(const struct leat_ep *ep, const struct leat_peer *peer);

/* ---- ops: the ordering layer ---------------------------------------------------------------- */

/** Adds to a counter that other threads may read. */
#define LEAT_STAT_ADD(x, n) __atomic_store_n(&(x), (x) + (n), __ATOMIC_RELAXED)

/** Counts an op that failed: as an error, or as flushed. Called by leat_op_finish(). */
LEAT_API void leat_op_count_failed(struct leat_ep *ep, struct leat_peer *peer,
				   int status) __rte_cold;

/** Starts the deadline of an op. */
LEAT_API void leat_op_deadline_start(struct leat_ep *ep, struct leat_op *op);
/** Stops it. */
LEAT_API void leat_op_deadline_stop(struct leat_ep *ep, struct leat_op *op);

/** How many ops poll may still return in this call. */
static inline uint16_t
leat_ep_room(const struct leat_ep *ep)
{
	return (uint16_t)(ep->out_end - ep->out);
}

/** Now. In a poll one timestamp, taken when first needed; outside of one nothing ends its validity. */
static inline uint64_t
leat_ep_now(struct leat_ep *ep)
{
	if (ep->out_end == NULL)
		return leat_now();
	if (ep->now == 0)
		ep->now = leat_now();
	return ep->now;
}

static inline bool
leat_op_is_recv(const struct leat_op *op)
{
	return op->type == LEAT_OP_RECV || op->type == LEAT_OP_TRECV;
}

/**
 * May an op be taken at all? If not sets rte_errno for post.
 * @return false if there is no room or it is in flight
 */
static inline bool
leat_op_admit(struct leat_ep *ep, const struct leat_op *op)
{
	if (unlikely(op->state != LEAT_OP_IDLE)) {
		rte_errno = EALREADY;
		return false;
	}
	if (unlikely((leat_op_is_recv(op) ? ep->rx_room : ep->tx_room) == 0)) {
		rte_errno = EAGAIN;
		return false;
	}
	return true;
}

/*
 * Functions with a last argument `recv` are for loops that have asked leat_op_is_recv() already: with it a constant,
 * half of the work is left.
 */

/** The part of leat_op_check() that asks for the peer. */
static inline int
leat_op_check_peer(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	if (op->peer == LEAT_PEER_ANY && recv)
		return 0;
	if (unlikely(op->peer >= ep->nb_peers || ep->peers[op->peer].state != LEAT_PEER_UP))
		return recv && !ep->directed_recv ? -EOPNOTSUPP : -ENOTCONN;
	return unlikely(recv && !ep->directed_recv) ? -EOPNOTSUPP : 0;
}

/** The part of leat_op_check() that asks for size and memory. */
static inline int
leat_op_check_data(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	if (unlikely(!recv && op->size > ep->max_msg))
		return -EMSGSIZE;
	if (op->size > 0 && unlikely(op->buf == NULL || (ep->mr_local && op->mr == NULL)))
		return -EINVAL;
	if (unlikely(op->type >= LEAT_OP_FETCH_ADD && (op->size != 8 || (op->raddr & 7) != 0)))
		return -EINVAL;
	return 0;
}

/** The part of leat_op_check() that asks for the type. */
static inline int
leat_op_check_type(const struct leat_ep *ep, const struct leat_op *op)
{
	if (unlikely(op->type >= LEAT_OP_TYPES))
		return -EINVAL;
	return unlikely((ep->op_mask & LEAT_OP_BIT(op->type)) == 0) ? -EOPNOTSUPP : 0;
}

/** leat_op_check() of an op that is a receive or not. */
static inline int
leat_op_check_as(const struct leat_ep *ep, const struct leat_op *op, bool recv)
{
	int ret = leat_op_check_type(ep, op);

	if (likely(ret == 0))
		ret = leat_op_check_peer(ep, op, recv);
	return likely(ret == 0) ? leat_op_check_data(ep, op, recv) : ret;
}

/**
 * Is an op right?
 * @return 0, or the negative errno with which it is to be started and finished at once
 */
static inline int
leat_op_check(const struct leat_ep *ep, const struct leat_op *op)
{
	return leat_op_check_as(ep, op, leat_op_is_recv(op));
}

/** Puts an op at the end of a queue. */
static inline void
leat_queue_append(struct leat_queue *q, struct leat_op *op)
{
	if (q->head == NULL)
		q->head = op;
	else
		q->tail->q_next = op;
	q->tail = op;
	LEAT_STAT_ADD(q->nb_posted, 1);
}

/** leat_op_start() of an op that is sent to a peer, which leat_op_check_peer() found. */
static inline void
leat_op_start_send(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *op)
{
	op->state = LEAT_OP_INFLIGHT;
	op->oflags = 0;
	ep->tx_room--;
	if (likely(op->queue == NULL)) {
		leat_queue_append(&peer->sendq, op);
	} else {
		peer->elsewhere++;
		if (op->queue != LEAT_QUEUE_NONE)
			leat_queue_append(op->queue, op);
	}
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_start(ep, op);
}

/** leat_op_start() of an op that is a receive or not. */
static inline void
leat_op_start_as(struct leat_ep *ep, struct leat_op *op, bool recv)
{
	struct leat_peer *peer = op->peer < ep->nb_peers ? &ep->peers[op->peer] : NULL;
	struct leat_queue *q = op->queue;

	op->state = LEAT_OP_INFLIGHT;
	op->oflags = 0;
	if (recv) {
		ep->rx_room--;
		op->src = LEAT_PEER_ANY;
		if (q == NULL)
			q = &ep->recvq;
		if (peer != NULL)
			peer->elsewhere++;
	} else {
		ep->tx_room--;
		if (likely(q == NULL && peer != NULL)) {
			q = &peer->sendq;
		} else {
			if (peer != NULL)
				peer->elsewhere++;
			if (q == NULL)
				q = LEAT_QUEUE_NONE;
		}
	}
	if (likely(q != LEAT_QUEUE_NONE))
		leat_queue_append(q, op);
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_start(ep, op);
}

/** Accepts an op: from here on it is the device's, and must be finished exactly once. */
static inline void
leat_op_start(struct leat_ep *ep, struct leat_op *op)
{
	leat_op_start_as(ep, op, leat_op_is_recv(op));
}

/** Hands a done op to the poll under way, or else to the next one. */
static inline void
leat_op_emit(struct leat_ep *ep, struct leat_op *op)
{
	if (likely(ep->out < ep->out_end)) {
		op->state = LEAT_OP_IDLE;
		*ep->out++ = op;
		return;
	}
	op->state = LEAT_OP_READY;
	op->q_next = NULL;
	if (ep->ready_head == NULL)
		ep->ready_head = op;
	else
		ep->ready_tail->q_next = op;
	ep->ready_tail = op;
	ep->nb_ready++;
}

/** Completed before an older op of its queue: keep it. */
static inline void
leat_queue_hold(struct leat_ep *ep, struct leat_queue *q, struct leat_op *op)
{
	op->state = LEAT_OP_HELD;
	op->held_since = (uint32_t)(leat_ep_now(ep) >> LEAT_QUEUE_HOLD_SHIFT);
	LEAT_STAT_ADD(q->held_total, 1);
	__atomic_store_n(&q->held_now, q->held_now + 1, __ATOMIC_RELAXED);
}

/** The one behind an op on its queue. Only that of the newest has no meaning: post need not clear it. */
static inline struct leat_op *
leat_queue_next(const struct leat_queue *q, const struct leat_op *op)
{
	return op == q->tail ? NULL : op->q_next;
}

/** The oldest op of a queue completed: out with it and with those held behind it. */
static inline void
leat_queue_release(struct leat_ep *ep, struct leat_queue *q, struct leat_op *op)
{
	struct leat_op *next = leat_queue_next(q, op);
	uint32_t held = q->held_now, n = 0;

	leat_op_emit(ep, op);
	/* Nothing held, as when completions come in order: the next op is not even looked at. */
	while (unlikely(n < held) && next != NULL && next->state == LEAT_OP_HELD) {
		uint32_t dt;

		op = next;
		next = leat_queue_next(q, op);
		if (next != NULL)
			__builtin_prefetch(next);
		dt = (uint32_t)(leat_ep_now(ep) >> LEAT_QUEUE_HOLD_SHIFT) - op->held_since;
		LEAT_STAT_ADD(q->held_time, dt);
		if (unlikely(dt > q->held_max))
			__atomic_store_n(&q->held_max, dt, __ATOMIC_RELAXED);
		leat_op_emit(ep, op);
		n++;
	}
	q->head = next;
	LEAT_STAT_ADD(q->nb_returned, n + 1);
	if (n > 0)
		__atomic_store_n(&q->held_now, held - n, __ATOMIC_RELAXED);
}

/** leat_op_finish() of an op that is a receive or not. */
static inline void
leat_op_finish_as(struct leat_ep *ep, struct leat_op *op, int status, uint64_t len, bool recv)
{
	struct leat_peer *peer = op->peer < ep->nb_peers ? &ep->peers[op->peer] : NULL;
	struct leat_queue *q = op->queue;

	/* As in leat_op_start(): what an op says does not change while it is in flight. */
	if (recv) {
		ep->rx_room++;
		if (q == NULL)
			q = &ep->recvq;
		if (peer != NULL)
			peer->elsewhere--;
	} else {
		ep->tx_room++;
		if (likely(q == NULL && peer != NULL)) {
			q = &peer->sendq;
		} else {
			if (peer != NULL)
				peer->elsewhere--;
			if (q == NULL)
				q = LEAT_QUEUE_NONE;
		}
	}
	if (unlikely((op->flags & LEAT_OP_F_DEADLINE) != 0))
		leat_op_deadline_stop(ep, op);
	if (unlikely(status != 0)) {
		if (op->state == LEAT_OP_EXPIRED)
			status = -ETIMEDOUT;
		leat_op_count_failed(ep, peer, status);
	} else if (recv || op->type >= LEAT_OP_READ) {
		LEAT_STAT_ADD(ep->stats.rx_bytes, len);
	} else {
		LEAT_STAT_ADD(ep->stats.tx_bytes, len);
	}
	op->status = status;
	op->len = len;
	if (unlikely(q == LEAT_QUEUE_NONE))
		leat_op_emit(ep, op);
	else if (likely(q->head == op))
		leat_queue_release(ep, q, op);
	else
		leat_queue_hold(ep, q, op);
}

/**
 * The device is done with an op: it will not touch op or buffer again.
 * @param status 0 or a negative errno as in leat_op.status
 * @param len bytes moved
 */
static inline void
leat_op_finish(struct leat_ep *ep, struct leat_op *op, int status, uint64_t len)
{
	leat_op_finish_as(ep, op, status, len, leat_op_is_recv(op));
}

/**
 * For devices that complete in order: leat_op_finish() with status 0 and full length of ops that were sent to one
 * peer, ring[from & mask] the oldest. It does at once for all of them what endpoint and queue have to be told, and
 * ends before an op that needs more than that: on a queue of the caller's, with a deadline, not the oldest of its
 * queue, or without room in the output of poll.
 * @return how many of the n were finished; the next one is leat_op_finish()'s
 */
static inline uint32_t
leat_op_finish_sent(struct leat_ep *ep, struct leat_peer *peer, struct leat_op *const *ring,
		    uint32_t mask, uint32_t from, uint32_t n)
{
	struct leat_op **out = ep->out, **end = ep->out_end;
	uint64_t tx_bytes = 0, rx_bytes = 0;
	struct leat_queue *q = &peer->sendq;
	struct leat_op *head = q->head;
	uint32_t i;

	if (unlikely(q->held_now != 0))
		return 0;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ring[(from + i) & mask];

		if (unlikely(op != head || op->queue != NULL || out >= end ||
			     (op->flags & LEAT_OP_F_DEADLINE) != 0))
			break;
		head = leat_queue_next(q, op);
		if (unlikely(op->type >= LEAT_OP_READ))
			rx_bytes += op->size;
		else
			tx_bytes += op->size;
		op->status = 0;
		op->len = op->size;
		op->state = LEAT_OP_IDLE;
		*out++ = op;
	}
	q->head = head;
	ep->out = out;
	ep->tx_room += i;
	LEAT_STAT_ADD(q->nb_returned, i);
	LEAT_STAT_ADD(ep->stats.tx_bytes, tx_bytes);
	if (unlikely(rx_bytes > 0))
		LEAT_STAT_ADD(ep->stats.rx_bytes, rx_bytes);
	return i;
}

/** For a post: an op that failed leat_op_check() is accepted and done. */
static inline void
leat_op_fail(struct leat_ep *ep, struct leat_op *op, int status)
{
	leat_op_start(ep, op);
	leat_op_finish(ep, op, status, 0);
}

/** At the end of each post: counts what was accepted and what was refused. @return accepted */
static inline uint16_t
leat_ep_post_end(struct leat_ep *ep, uint16_t accepted, uint16_t n)
{
	LEAT_STAT_ADD(ep->stats.posted, accepted);
	if (unlikely(accepted < n))
		LEAT_STAT_ADD(ep->stats.refused, (uint64_t)(n - accepted));
	return accepted;
}

/** The right (LEAT_MR_*) that a one-sided op needs at its target; 0 for the other types. */
static inline uint32_t
leat_op_right(unsigned int type)
{
	static const uint8_t rights[LEAT_OP_TYPES] = {
		0,		       /* SEND */
		0,		       /* RECV */
		0,		       /* TSEND */
		0,		       /* TRECV */
		LEAT_MR_REMOTE_WRITE,  /* WRITE */
		LEAT_MR_REMOTE_WRITE,  /* WRITE_IMM */
		LEAT_MR_REMOTE_READ,   /* READ */
		LEAT_MR_REMOTE_ATOMIC, /* FETCH_ADD */
		LEAT_MR_REMOTE_ATOMIC, /* CMP_SWAP */
	};

	return type < LEAT_OP_TYPES ? rights[type] : 0;
}

/** The piece of a region in which [addr, addr + len) lies, or NULL. */
static inline const struct leat_mr_piece *
leat_mr_find(const struct leat_mr *mr, const void *addr, uint64_t len)
{
	uint32_t lo = 0, hi = mr->nb_pieces;
	const struct leat_mr_piece *p;
	uint64_t off;

	if (unlikely(hi == 0))
		return NULL;
	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) >> 1;

		if ((uintptr_t)mr->piece[mid].addr <= (uintptr_t)addr)
			lo = mid;
		else
			hi = mid;
	}
	p = &mr->piece[lo];
	off = (uintptr_t)addr - (uintptr_t)p->addr;
	return likely(off <= p->len && len <= p->len - off) ? p : NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* LEAT_FABRIC_DRIVER_H */
