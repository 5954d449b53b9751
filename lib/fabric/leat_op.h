/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_OP_H
#define LEAT_OP_H

/**
 * @file
 * An op: the request and its completion in one caller-owned object.
 *
 * The caller fills in the input fields, posts a burst of ops with leat_ep_post(), and gets each of
 * them back from leat_ep_poll() exactly once, with @ref leat_op.status and @ref leat_op.len filled
 * in. From post to poll the op and its buffer belong to the device. Posting allocates nothing: the
 * op carries the room that the ordering layer and the driver need.
 *
 *     caller                       device                          caller
 *     type peer buf size ...  -->  post .......... poll  -->  status len (src imm)
 *       (owns op and buffer)       (owns op and buffer)         (owns op and buffer)
 *
 * Input fields are never changed by post or poll: an op that came back can be posted again as it
 * is. A new op must be zeroed first (an initializer does it), since its private fields must be zero
 * when it is first posted.
 *
 * Thread rules: as for the endpoint it is posted on (one lcore, no locks).
 */

#include <stddef.h>
#include <stdint.h>

#include "leat_common.h"
#include "leat_wheel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_mr;
struct leat_queue;

/** What an op does. */
enum leat_op_type {
	LEAT_OP_SEND,	   /**< message to @ref leat_op.peer, matched with a RECV there */
	LEAT_OP_RECV,	   /**< receives one message, or the notice of one WRITE_IMM */
	LEAT_OP_TSEND,	   /**< message with a tag to the peer, matched with a TRECV there */
	LEAT_OP_TRECV,	   /**< receives one message whose tag fits tag and ignore */
	LEAT_OP_WRITE,	   /**< writes buf to the peer's memory {raddr, rkey} */
	LEAT_OP_WRITE_IMM, /**< WRITE, and completes one RECV of the peer with imm */
	LEAT_OP_READ,	   /**< reads the peer's memory {raddr, rkey} to buf */
	/** atomic on the 8 bytes at raddr: adds operand; the old value goes to buf */
	LEAT_OP_FETCH_ADD,
	/**
	 * atomic on the 8 bytes at raddr: stores operand if the bytes equal compare; the old value
	 * goes to buf in either case
	 */
	LEAT_OP_CMP_SWAP,
	LEAT_OP_TYPES, /**< number of types */
};

/** Bit of an op type, for masks such as leat_ep_conf.ops and leat_dev_info.ops. */
#define LEAT_OP_BIT(type) (1u << (type))

/** Mask of every op type. */
#define LEAT_OP_MASK_ALL (LEAT_OP_BIT(LEAT_OP_TYPES) - 1)

/**
 * Mask of the op types that count against leat_ep_conf.rx_depth; the others count against
 * tx_depth.
 */
#define LEAT_OP_MASK_RECV (LEAT_OP_BIT(LEAT_OP_RECV) | LEAT_OP_BIT(LEAT_OP_TRECV))

/**
 * @name Flags of an op
 * @{
 */
/**
 * In: a SEND or TSEND carries @ref leat_op.imm to the receiver (only where leat_dev_info.send_imm
 * is true). Out: set in @ref leat_op.oflags of a RECV or TRECV whose message or write carried an
 * immediate.
 */
#define LEAT_OP_F_IMM 0x01
/** In: @ref leat_op.deadline is set. */
#define LEAT_OP_F_DEADLINE 0x02
/**
 * Out (RECV): a WRITE_IMM completed it; len is the number of bytes written, 0 if the device doesn't
 * report it.
 */
#define LEAT_OP_F_WRITTEN 0x04
/** @} */

/** In leat_op.peer of RECV and TRECV: any peer. In leat_op.src: the sender is unknown. */
#define LEAT_PEER_ANY UINT16_MAX

/** leat_op.queue: no queue; the op comes back as soon as it is done, even before older ops. */
#define LEAT_QUEUE_NONE ((struct leat_queue *)(uintptr_t)1)

/** Number of private words that a driver has in each op. */
#define LEAT_OP_DRV_WORDS 5

/**
 * A request, and later its completion.
 *
 * The first cache line is all that the ordering layer and a plain send or receive touch; the second
 * holds what the other types need; the third is touched only with a deadline or by the driver.
 */
struct leat_op {
	uint8_t type;	/**< in: enum leat_op_type */
	uint8_t flags;	/**< in: LEAT_OP_F_IMM, LEAT_OP_F_DEADLINE */
	uint8_t oflags; /**< out: LEAT_OP_F_IMM, LEAT_OP_F_WRITTEN */
	uint8_t state;	/**< private: enum leat_op_state; 0 while the op is the caller's */
	/**
	 * out: 0, or a negative errno:
	 * -EINVAL bad op (type, size, alignment); -EOPNOTSUPP type not configured on this endpoint;
	 * -ENOTCONN no such peer or not connected; -EMSGSIZE larger than the device or the
	 * receiver's buffer takes; -ECANCELED cancelled; -ETIMEDOUT deadline passed; -ECONNRESET
	 * peer died; -ECONNABORTED this side disconnected; -ESHUTDOWN endpoint closed; -EACCES
	 * remote key wrong or lacks the right; -ERANGE out of the bounds of the remote memory
	 * (-EACCES where the provider can't tell the two apart); -EREMOTEIO the remote side
	 * reported another error; -EIO the device failed.
	 */
	int32_t status;
	uint16_t peer; /**< in: remote side; RECV, TRECV: LEAT_PEER_ANY or a peer */
	/** out: RECV, TRECV: the sending peer, LEAT_PEER_ANY if the device can't tell it */
	uint16_t src;
	uint32_t held_since; /**< private: when the ordering layer began to hold it, cycles >> 8 */
	void *buf;	     /**< in: local buffer; may be NULL when size is 0 */
	uint64_t size;	     /**< in: bytes to move, or size of the receive buffer; 8 for atomics */
	/** out: bytes moved; with -EMSGSIZE the length of the message that arrived, where known */
	uint64_t len;
	/**
	 * in: NULL for the default (the peer's send queue, or the endpoint's receive queue),
	 * LEAT_QUEUE_NONE, or a queue that the caller has initialised (see leat_queue.h)
	 */
	struct leat_queue *queue;
	/**
	 * in: region that holds buf; required if leat_dev_info.mr_local is true and size > 0
	 */
	struct leat_mr *mr;
	struct leat_op *q_next; /**< private: next on its queue, or in the endpoint's ready list */

	/* second cache line */
	union {
		uint64_t tag;	/**< in: tag of a TSEND; tag that a TRECV waits for */
		uint64_t raddr; /**< in: one-sided: remote address, as from struct leat_rkey */
	};
	union {
		uint64_t ignore; /**< in: TRECV: bits of the tag that need not match */
		uint64_t rkey;	 /**< in: one-sided: remote key, as from struct leat_rkey */
	};
	union {
		/** the immediate; in: of WRITE_IMM, or with LEAT_OP_F_IMM; out: of RECV, TRECV */
		uint64_t imm;
		uint64_t operand; /**< in: FETCH_ADD: addend; CMP_SWAP: new value */
	};
	union {
		uint64_t compare; /**< in: CMP_SWAP: expected value */
		uint64_t tag_in;  /**< out: TRECV: the tag that arrived */
	};
	void *user;	   /**< the caller's; never touched */
	uint64_t deadline; /**< in: with LEAT_OP_F_DEADLINE: absolute, cycles of leat_now() */
	void *drv_ctx;	   /**< private to the driver */

	/* third cache line */
	/** private: entry in the endpoint's wheel of deadlines */
	struct leat_wheel_node dl __attribute__((aligned(LEAT_CACHE_LINE)));
	uint64_t drv[LEAT_OP_DRV_WORDS]; /**< private to the driver */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/** Owner and progress of an op. */
enum leat_op_state {
	LEAT_OP_IDLE = 0, /**< the caller's */
	LEAT_OP_INFLIGHT, /**< the device's */
	LEAT_OP_CANCEL,	  /**< the device's, asked to end early */
	LEAT_OP_EXPIRED,  /**< the device's, asked to end early because its deadline passed */
	LEAT_OP_HELD,	  /**< done, waits for the ops posted before it */
	LEAT_OP_READY,	  /**< done, the next poll returns it */
};

/**
 * Return the name of an op type, as in messages and options: "send", "recv", "tsend", "trecv",
 * "write", "write_imm", "read", "fetch_add", "cmp_swap"; "?" for any other value.
 */
LEAT_API const char *leat_op_type_name(unsigned int type);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_OP_H */
