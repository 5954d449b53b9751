/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_WHEEL_H
#define LEAT_WHEEL_H

/**
 * @file
 * A hashed timer wheel: O(1) add and delete, no allocation, no division. One thread's own.
 *
 * Source: G. Varghese and A. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987,
 * scheme 6, with unsorted lists.
 *
 * Time is cut into ticks; a timer hangs in the slot (tick of its expiry) mod 256. Running the
 * wheel walks the slots of the ticks that have passed since the last run and takes out what
 * has expired; timers of a later turn stay.
 *
 * @code
 *	ticks    ... 255 | 256   257   258   259 ... 511 | 512 ...
 *	slot         255 |  0     1     2     3  ... 255 |  0
 *	                         ^tick       ^tick of now
 *	                          |--walked--|
 * @endcode
 *
 * A timer fires when `expiry <= now`, exact to the cycle (not rounded to ticks), in the first
 * run that sees such a `now`. Ticks decide only how much is looked at. Good ticks are 1/100 to
 * 1/10 of a usual timeout.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_WHEEL_SLOTS 256

/**
 * A timer, part of its owner's object. Zeroed means not queued. While it is queued it belongs
 * to the wheel and must not move.
 */
struct leat_wheel_node {
	struct leat_wheel_node *next;
	struct leat_wheel_node **pprev; /**< what points here; NULL: not queued */
	uint64_t expiry;		/**< cycles */
};

/** A wheel. Its fields are private, it must not move after leat_wheel_init(). */
struct leat_wheel {
	uint64_t next;	    /**< nothing expires before this; UINT64_MAX when empty */
	uint64_t tick;	    /**< no slot of an earlier tick holds anything of that tick */
	unsigned int shift; /**< a tick is 1 << shift cycles */
	unsigned int count; /**< timers queued, the expired ones included */
	/** Taken out of their slots, callback still to come, in order. */
	struct leat_wheel_node *expired;
	struct leat_wheel_node **expired_tail;
	/** Slots that may hold something; a bit that is wrongly set is cleared by the next walk. */
	uint64_t occupied[LEAT_WHEEL_SLOTS / 64];
	struct leat_wheel_node *slot[LEAT_WHEEL_SLOTS];
};

/**
 * Called for each expired timer, which is out of the wheel by then: it may be added again or
 * freed, and any other timer may be added or deleted.
 */
typedef void (*leat_wheel_cb_t)(struct leat_wheel_node *node, void *arg);

/**
 * Make an empty wheel.
 *
 * @param tick_cycles
 *   Length of a tick, 1..2^56 cycles; rounded down to a power of two, 0 is taken as 1.
 * @param now
 *   The present, in cycles.
 */
LEAT_API void leat_wheel_init(struct leat_wheel *w, uint64_t tick_cycles, uint64_t now);

/** Private: what leat_wheel_run() does when something may have expired. */
LEAT_API unsigned int leat_wheel_run_slots(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb,
					   void *arg, unsigned int max);

/** Is the timer queued (added, and neither deleted nor fired)? */
static inline bool
leat_wheel_queued(const struct leat_wheel_node *node)
{
	return node->pprev != NULL;
}

/** Number of timers queued. */
static inline unsigned int
leat_wheel_count(const struct leat_wheel *w)
{
	return w->count;
}

/**
 * Take a timer out; its callback will not be called. Nothing happens when it is not queued.
 * `node` must be zeroed or have been in this wheel only.
 */
static inline void
leat_wheel_del(struct leat_wheel *w, struct leat_wheel_node *node)
{
	if (node->pprev == NULL)
		return;
	if (w->expired_tail == &node->next)
		w->expired_tail = node->pprev;
	*node->pprev = node->next;
	if (node->next != NULL)
		node->next->pprev = node->pprev;
	node->next = NULL;
	node->pprev = NULL;
	if (--w->count == 0)
		w->next = UINT64_MAX;
}

/**
 * Add a timer, or move it when it is queued already.
 *
 * @param expiry
 *   When, in cycles. The past is allowed and means the next run; a timer that is added by a
 *   callback never fires in the run that called it. UINT64_MAX never fires.
 */
static inline void
leat_wheel_add(struct leat_wheel *w, struct leat_wheel_node *node, uint64_t expiry)
{
	struct leat_wheel_node **head;
	uint64_t tick = expiry >> w->shift;
	unsigned int s;

	leat_wheel_del(w, node);
	/* The slots behind w->tick are not looked at for a whole turn. */
	if (tick < w->tick)
		tick = w->tick;
	s = (unsigned int)(tick % LEAT_WHEEL_SLOTS);
	head = &w->slot[s];

	node->expiry = expiry;
	node->next = *head;
	node->pprev = head;
	if (*head != NULL)
		(*head)->pprev = &node->next;
	*head = node;

	w->occupied[s / 64] |= UINT64_C(1) << (s % 64);
	w->count++;
	if (expiry < w->next)
		w->next = expiry;
}

/**
 * Fire what has expired: each timer is removed, then its callback is called. Timers of an
 * earlier tick fire before those of a later one; within a tick there is no order.
 *
 * Costs one comparison while nothing can have expired. `now` may jump by any amount; should it
 * go back, nothing fires that it has not reached.
 *
 * @param now
 *   The present, in cycles.
 * @param max
 *   Call back at most this many; the rest stays queued, expired, for the next run.
 * @return
 *   Number of callbacks called.
 */
static inline unsigned int
leat_wheel_run(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb, void *arg, unsigned int max)
{
	if (likely(now < w->next))
		return 0;
	return leat_wheel_run_slots(w, now, cb, arg, max);
}

/**
 * The earliest moment at which something may expire, in cycles; UINT64_MAX when the wheel is
 * empty. It may be earlier than the first expiry (by up to a turn, or because that timer was
 * deleted), never later: a loop may sleep until then.
 */
static inline uint64_t
leat_wheel_next(const struct leat_wheel *w)
{
	return w->next;
}

#ifdef __cplusplus
}
#endif

#endif /* LEAT_WHEEL_H */
