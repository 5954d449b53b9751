/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_QUEUE_H
#define LEAT_QUEUE_H

/**
 * @file
 * A queue: ops posted on it come back from poll in the order in which they were posted, however
 * the hardware completed them, failed and cancelled ones included.
 *
 * It is a singly linked list through the ops themselves, so it has no size, allocates nothing and
 * costs O(1) per op:
 *
 *     post A B C D        head -> A -> B -> C -> D <- tail
 *     C completes         A  B  C* D     C is held: 1 held back
 *     A completes         B  C* D        A is returned
 *     B completes         D              B is returned, and C after it
 *
 * An op that completes as the oldest is returned at once; where completions come in order, nothing
 * is ever held.
 *
 * Each peer has a send queue and each endpoint a receive queue; those are the defaults. A protocol
 * initialises a queue with leat_queue_init() where it wants an order of its own, for instance the
 * tagged receives of one connection. A queue belongs to one endpoint (its lcore) and must outlive
 * the ops posted on it.
 */

#include <stdint.h>
#include <string.h>

#include "leat_common.h"
#include "leat_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Unit of the hold-back times: 2^LEAT_QUEUE_HOLD_SHIFT cycles. The time of one hold is kept in 32
 * bits of this unit: a hold of more than 2^40 cycles (some minutes) is counted too short.
 */
#define LEAT_QUEUE_HOLD_SHIFT 8

/** A FIFO of ops in flight. Initialise with leat_queue_init(); the fields are private. */
struct leat_queue {
	struct leat_op *head; /**< oldest op not yet returned */
	struct leat_op *tail; /**< newest; meaningful while head is not NULL */
	uint64_t nb_posted;   /**< ops ever posted on it */
	uint64_t nb_returned; /**< ops that left it */
	uint64_t held_total;  /**< ops that had to be held back */
	uint64_t held_time; /**< sum of hold-back times, units of 2^LEAT_QUEUE_HOLD_SHIFT cycles */
	uint32_t held_now;  /**< ops held back at this moment */
	uint32_t held_max;  /**< longest hold-back time, same unit */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/** Initialise an empty queue. A queue that still has ops on it must not be initialised again. */
static inline void
leat_queue_init(struct leat_queue *q)
{
	memset(q, 0, sizeof(*q));
}

/** Count the ops on the queue: posted, and neither returned by poll nor ready for the next poll. */
static inline uint64_t
leat_queue_count(const struct leat_queue *q)
{
	return q->nb_posted - q->nb_returned;
}

/** Counters of a queue. */
struct leat_queue_stats {
	uint64_t posted;   /**< ops ever posted */
	uint64_t returned; /**< ops returned in order */
	uint64_t held;	   /**< ops that completed before an older one and were held back */
	uint64_t held_now; /**< ops that are held back now */
	/**
	 * mean time held, ns (over the ops that were held); resolution: see LEAT_QUEUE_HOLD_SHIFT
	 */
	uint64_t held_avg_ns;
	uint64_t held_max_ns; /**< longest time held, ns */
};

/** Read the counters. Any thread; each value is a recent one. */
LEAT_API void leat_queue_stats_get(const struct leat_queue *q, struct leat_queue_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_QUEUE_H */
