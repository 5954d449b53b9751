/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_DRIVER_H
#define LEAT_DRIVER_H

/**
 * @file
 * For drivers: the contract between the fabric library and a driver: the table that a driver fills
 * in, and the calls by which it reports to the library.
 *
 * A driver is a plugin, libleat_driver_NAME.so, whose constructor registers a struct leat_driver.
 *
 * Division of labour. The library keeps the peer table, the ordered queues, deadlines, events, the
 * list of regions, and all argument checking of slow calls. The driver moves data and owns
 * connections. For every op that its post accepts the driver calls leat_op_start(), and exactly
 * once, later or at once, leat_op_finish() (leat_order.h). The library then brings the ops into
 * order, and has poll return them.
 *
 * A peer's life, with the driver's calls on the right:
 *
 *     leat_ep_connect() -> connect()      CONNECTING   leat_peer_up() or leat_peer_failed()
 *     a remote endpoint connects          REQUESTED    leat_peer_request()
 *     leat_ep_accept() -> accept()        ACCEPTED     leat_peer_up(), or closing + down
 *                                         UP
 *     peer died or closed, disconnect()   CLOSING      leat_peer_closing(), then finish its ops,
 *                                         DOWN         then leat_peer_down()
 *
 * Thread rules: calls on an endpoint come from its own thread; probe, remove and info from the main
 * thread.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_kvargs.h>

#include "leat_common.h"
#include "leat_dev.h"
#include "leat_ep.h"
#include "leat_mr.h"
#include "leat_op.h"
#include "leat_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A contiguous piece of a region, registered with the device. */
struct leat_mr_piece {
	void *addr;    /**< start of the piece */
	uint64_t len;  /**< its length, bytes */
	void *desc;    /**< local descriptor, private to the driver */
	uint64_t key;  /**< remote key */
	uint64_t base; /**< address by which peers reach addr */
	void *drv;     /**< private to the driver */
};

/** A region: one piece, or for a mempool one piece per contiguous range of its memory. */
struct leat_mr {
	struct leat_ep *ep;			    /**< endpoint that owns the region */
	struct leat_mr *next;			    /**< private: next region of the endpoint */
	const struct rte_mempool *mempool;	    /**< the region's mempool; NULL: none */
	uint32_t access;			    /**< rights, LEAT_MR_* or-ed */
	uint32_t nb_pieces;			    /**< number of pieces */
	__extension__ struct leat_mr_piece piece[]; /**< the pieces, by rising address */
};

/** Options of an endpoint that may change while it runs. */
enum leat_ep_option {
	/** largest SEND, TSEND or WRITE that is copied when posted, bytes */
	LEAT_EP_OPTION_INLINE_MAX,
	/** every n-th send of a burst signals its completion; >= 1 */
	LEAT_EP_OPTION_SIGNAL_INTERVAL,
};

/** Value of an option: the driver chooses. */
#define LEAT_EP_OPTION_AUTO UINT32_MAX

/**
 * The functions of a driver. All of them return 0 or a negative errno with leat_err() set unless
 * said otherwise.
 */
struct leat_driver {
	const char *name;	 /**< "fabric_x"; its devices are "fabric_x0", "fabric_x1", ... */
	const char *description; /**< one line */
	const struct leat_driver_arg *args; /**< ends with a NULL name */

	/**
	 * Open a device; the keys were checked. The driver keeps its state by leat_dev_drv_set().
	 */
	int (*probe)(struct leat_dev *dev, const struct rte_kvargs *kv);
	/** Close a device that has no endpoints. */
	void (*remove)(struct leat_dev *dev);
	/** Fill in every field of info but name and driver. */
	void (*info)(const struct leat_dev *dev, struct leat_dev_info *info);
	/**
	 * Report the details of a device, or if dev is NULL those of every device that could be
	 * opened here, beginning each with to->device(). NULL: the driver has no devices to choose
	 * from, and no details to report.
	 * @return 0; negative with leat_err(): there is no device, and why
	 */
	int (*list)(const struct leat_dev *dev, const struct leat_dev_sink *to);

	/**
	 * Open an endpoint: set ep->drv, ep->post, ep->poll, ep->mr_local, ep->directed_recv.
	 * conf is complete (no zeros for defaults) and inside the limits of info; the driver
	 * refuses the values that only it can check.
	 *
	 * ep_open() may also set ep->post_soon. leat's own protocols call it before they fill in a
	 * small op that they will post to a peer (the peer id may be out of range). A driver uses
	 * the time to prefetch what that post touches; the call changes nothing else.
	 */
	int (*ep_open)(struct leat_ep *ep, const struct leat_ep_conf *conf);
	/** Cancel all receives, to be finished soon. Sends go on. */
	void (*ep_quiesce)(struct leat_ep *ep);
	/**
	 * Finish every op still in flight with -ESHUTDOWN, at once or in one of the next polls.
	 */
	void (*ep_abort)(struct leat_ep *ep);
	/**
	 * Make the device touch no memory from now on, whatever peers do. Called once after the
	 * shutdown, before the next region is deregistered: no op is in flight, and ep->poll is not
	 * called any more. NULL: the device touches no memory by then anyway.
	 */
	void (*ep_halt)(struct leat_ep *ep);
	/** Tell the peers that the endpoint ends, and free everything. No op is in flight. */
	void (*ep_close)(struct leat_ep *ep);

	/**
	 * Ask the device to end an op early.
	 * @return 0: it will be finished (inside this call or later); -EOPNOTSUPP: the device can't
	 *   recall it
	 */
	int (*cancel)(struct leat_ep *ep, struct leat_op *op);
	/** Do the work of connections and time-outs; called from leat_ep_events(). */
	void (*progress)(struct leat_ep *ep, uint64_t now);

	/**
	 * Listen at an address, see leat_ep_listen(). A driver has listen, listen_addr, accept and
	 * reject all, or all are NULL: then nothing can connect to its endpoints.
	 */
	int (*listen)(struct leat_ep *ep, const char *addr);
	/**
	 * Write the address at which the endpoint listens, see leat_ep_listen_addr().
	 * @param[out] addr buffer of len bytes, the terminator included
	 */
	int (*listen_addr)(struct leat_ep *ep, char *addr, size_t len);
	/**
	 * Begin to connect; the outcome is leat_peer_up() or leat_peer_failed(), never inside this
	 * call.
	 */
	int (*connect)(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		       const struct leat_conn_params *params);
	/**
	 * Accept a request. The outcome is leat_peer_up(), or leat_peer_closing() and
	 * leat_peer_down().
	 */
	int (*accept)(struct leat_ep *ep, struct leat_peer *peer,
		      const struct leat_conn_params *params);
	/** Reject a request. The library frees the peer afterwards. */
	void (*reject)(struct leat_ep *ep, struct leat_peer *peer);
	/**
	 * End a peer that is CONNECTING, ACCEPTED or UP: call leat_peer_closing() with status and
	 * text, finish its ops (now or later), then call leat_peer_down().
	 */
	void (*disconnect)(struct leat_ep *ep, struct leat_peer *peer, int status,
			   const char *text);

	/**
	 * Register a piece: fill in desc, key, base, drv. NULL together with mr_dereg: the device
	 * needs no registration.
	 */
	int (*mr_reg)(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
	/** Deregister a piece. @return 0, or -EBUSY: the device still uses it */
	int (*mr_dereg)(struct leat_ep *ep, struct leat_mr_piece *piece);

	/*
	 * fd, arm and disarm: sleeping until something happens. All three are NULL if the driver
	 * does not offer this. The library calls them only for endpoints with leat_ep_conf.wait
	 * (such an endpoint is not created if leat_dev_info.wait is false), and only until the
	 * endpoint is shut down.
	 */

	/**
	 * Return the descriptor to poll for POLLIN, level-triggered; the same from ep_open() to
	 * ep_close(), which closes it.
	 */
	int (*fd)(const struct leat_ep *ep);
	/**
	 * Make the descriptor readable, from now on, by everything that a poll or progress() would
	 * find: completions, messages, requests, connections that change, a peer's death; not by
	 * time-outs. Announce the sleep first, then look for work: return -EAGAIN for anything
	 * that came before. A spurious wake-up is allowed, a lost one is not.
	 * @return 0: armed, and there is no work; -EAGAIN: poll and progress() have work to do;
	 *   -EBUSY: armed, but work is under way whose end does not make the descriptor readable:
	 *   the caller sleeps for a short while only
	 */
	int (*arm)(struct leat_ep *ep);
	/**
	 * Undo arm(), and consume whatever made the descriptor readable, unless poll and progress()
	 * will consume it. Called after each arm().
	 */
	void (*disarm)(struct leat_ep *ep);

	/**
	 * Set an option, between a poll and the next post; ops in flight go on as they were posted.
	 * NULL: the driver has no options.
	 * @param[in,out] value in: wanted, or LEAT_EP_OPTION_AUTO; out: the value in force, the
	 *   nearest one that the device can do
	 * @return 0; -EOPNOTSUPP: the device has no such option
	 */
	int (*option)(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value);
};

/**
 * Register a driver. Called from a constructor, so errors are only logged. The ABI number of this
 * header is part of the symbol: a plugin built against another ABI can't be loaded, and the loader
 * names the missing symbol.
 */
#define LEAT_DRIVER_REGISTER_FN LEAT_DRIVER_SYMBOL(leat_driver_register_abi, LEAT_DRIVER_ABI)
/** @cond */
#define LEAT_DRIVER_SYMBOL(name, abi) LEAT_DRIVER_SYMBOL_(name, abi)
#define LEAT_DRIVER_SYMBOL_(name, abi) name##abi
LEAT_API void LEAT_DRIVER_REGISTER_FN(const struct leat_driver *drv);
/** @endcond */

/** Define the constructor that registers a driver. */
#define LEAT_DRIVER_REGISTER(drv)                                                                  \
	static void __attribute__((constructor)) leat_driver_ctor_##drv(void);                     \
	static void leat_driver_ctor_##drv(void)                                                   \
	{                                                                                          \
		LEAT_DRIVER_REGISTER_FN(&drv);                                                     \
	}

/**
 * @name Post and poll of an endpoint
 *
 * ep_open() sets ep->post and ep->poll. A driver that changes them later does it with these calls,
 * and reads its present functions from ep->drv_post and ep->drv_poll: while ops are timed, ep->post
 * and ep->poll are functions of the library.
 * @{
 */
/** Set the driver's post function of an endpoint. Owner thread. */
static inline void
leat_ep_post_set(struct leat_ep *ep, leat_post_fn post)
{
	ep->drv_post = post;
	if (!ep->sampled)
		ep->post = post;
}

/** Set the driver's poll function of an endpoint. Owner thread. */
static inline void
leat_ep_poll_set(struct leat_ep *ep, leat_poll_fn poll)
{
	ep->drv_poll = poll;
	if (!ep->sampled)
		ep->poll = poll;
}
/** @} */

/** Set the driver's own pointer in a device. */
LEAT_API void leat_dev_drv_set(struct leat_dev *dev, void *drv);

/** Return the pointer that leat_dev_drv_set() stored; NULL before its first call. */
LEAT_API void *leat_dev_drv(const struct leat_dev *dev);

/** Return the value of a key, or NULL. */
static inline const char *
leat_driver_arg_str(const struct rte_kvargs *kv, const char *key)
{
	return kv == NULL ? NULL : rte_kvargs_get(kv, key);
}

/**
 * Read the value of a key as a whole number, decimal or 0x; *out is unchanged if the key is absent.
 * @return 0, or -EINVAL with leat_err() naming key, value and range
 */
LEAT_API int leat_driver_arg_u32(const struct rte_kvargs *kv, const char *key, uint32_t min,
				 uint32_t max, uint32_t *out);

/* ---- peers ---------------------------------------------------------------------------------- */

/**
 * Report that a remote endpoint wants to connect. Raises LEAT_EV_CONNECT_REQ.
 * @param ep the endpoint
 * @param from the address of the peer, as text for people
 * @param priv the other side's private data; copied
 * @param priv_len its length, bytes; what exceeds LEAT_EP_PRIV_MAX is cut off
 * @return the new peer, or NULL if the table is full or the endpoint is closing: the driver then
 *   rejects the request
 */
LEAT_API struct leat_peer *leat_peer_request(struct leat_ep *ep, const char *from, const void *priv,
					     uint16_t priv_len);

/** Report that a peer is up. Raises LEAT_EV_CONNECTED. */
LEAT_API void leat_peer_up(struct leat_ep *ep, struct leat_peer *peer, const void *priv,
			   uint16_t priv_len);

/**
 * Report that an attempt to connect failed. Raises LEAT_EV_CONNECT_FAILED. The driver keeps no
 * reference to the peer.
 */
LEAT_API void leat_peer_failed(struct leat_ep *ep, struct leat_peer *peer, int status,
			       const char *text);

/**
 * Report that a peer is ending: ops posted to it from now on come back with -ENOTCONN. The event
 * carries the status and text of the first call; further calls change nothing.
 */
LEAT_API void leat_peer_closing(struct leat_ep *ep, struct leat_peer *peer, int status,
				const char *text);

/**
 * Report that all ops of a peer were finished. Raises LEAT_EV_DISCONNECTED (or
 * LEAT_EV_CONNECT_FAILED before the peer was up). The driver keeps no reference to the peer.
 */
LEAT_API void leat_peer_down(struct leat_ep *ep, struct leat_peer *peer);

/**
 * Check whether the endpoint is the inner one of a layer, such as the tag layer
 * (doc/guide/tags.md). A driver that exchanges addresses by itself sends this result to the other
 * side, so that connecting an endpoint with a layer to one without fails. Owner thread; any time.
 */
LEAT_API bool leat_ep_is_inner(const struct leat_ep *ep);

/** Return a peer's address, for messages: the argument of connect, or of leat_peer_request(). */
LEAT_API const char *leat_peer_addr(const struct leat_ep *ep, const struct leat_peer *peer);

/* ---- pieces of regions ---------------------------------------------------------------------- */

/** Return the right (LEAT_MR_*) that a one-sided op needs at its target; 0 for the other types. */
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

/** Find the piece of a region in which [addr, addr + len) lies; NULL if there is none. */
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

#endif /* LEAT_DRIVER_H */
