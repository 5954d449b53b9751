/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_WHEEL_H
#define LEAT_WHEEL_H

/**
 * @file
 * A hierarchical timer wheel: O(1) add, delete and re-add, no allocation, no division. It belongs
 * to one thread.
 *
 * Source: G. Varghese and A. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7,
 * with levels that overlap so that a slot can be sorted ahead of its time.
 *
 * Time is divided into ticks. A slot of level l is 32^l ticks wide, and each level has 64 slots, so
 * that a level reaches twice as far as one slot of the level above it:
 *
 * @code
 *	tick 32 us    slot       reach
 *	level 0       32 us      2 ms       |-|-|-|-|-|-|-|
 *	level 1        1 ms     66 ms       |        |        |        |        |   ...
 *	level 2       33 ms    2.1 s
 *	level 3      1.05 s     67 s
 *	level 4      33.6 s     36 min      ... up to 13 levels: the whole range of 64 bits
 * @endcode
 *
 * A timer is queued in the lowest level that reaches its expiry, in the slot of the expiry. Above
 * level 0, this slot is at least two slots after the present one (the slot of the present tick). As
 * soon as it is the next slot, it is sorted: its timers are moved down a level, some in each run:
 *
 * @code
 *	level l    |  present  | is sorted | later one |    the runs sort the next slot in the
 *	level l-1  |||||||||||||^^^^^^^^^^^|                time that one slot lasts
 * @endcode
 *
 * So a timer moves at most once per level, a run does a bounded amount of work however many timers
 * expire together, and a timer is in level 0 before its tick has come. Each level has a bitmap of
 * its slots, so finding the next slot that holds timers takes one look at each level, however far
 * away the slot is.
 *
 * A timer fires when `expiry <= now`, exact to the cycle (not rounded to ticks), in the first run
 * with such a `now`. The tick length only determines how many timers a run looks at. Good ticks are
 * 1/100 to 1/10 of the shortest usual timeout.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Slots of a level: as many as a word has bits. */
#define LEAT_WHEEL_SLOTS 64
/** Log2 of the ratio of slot widths of two adjacent levels. */
#define LEAT_WHEEL_BITS 5
/** Number of levels that reach from any 64-bit tick to any later one: 6 + 12 * 5 bits. */
#define LEAT_WHEEL_LEVELS 13

/**
 * Maximum number of steps of a run, besides firing timers. A step moves a timer to a lower level,
 * handles a slot, or looks at a timer of the present tick that has not expired. Each step is short
 * unless it misses the cache.
 */
#define LEAT_WHEEL_STEPS 256

/** A link of a list, circular with its head. The fields are private. */
struct leat_wheel_link {
	struct leat_wheel_link *next; /**< link after this one */
	struct leat_wheel_link *prev; /**< link before this one; NULL: not queued */
};

/**
 * A timer, part of its owner's object. Zeroed means not queued. While it is queued the wheel owns
 * it, and it must not move.
 */
struct leat_wheel_node {
	struct leat_wheel_link link; /**< private: place in a slot's list */
	uint64_t expiry;	     /**< time at which it fires, cycles */
};

/** A wheel. Its fields are private. It must not move after leat_wheel_init(). */
struct leat_wheel {
	uint64_t next;	    /**< time before which a run has nothing to do; UINT64_MAX when empty */
	uint64_t tick;	    /**< present tick; slots of earlier ticks are empty */
	uint64_t here;	    /**< first expiry in the slot of the present tick; 0: unknown */
	unsigned int shift; /**< a tick is 1 << shift cycles */
	unsigned int count; /**< timers queued, the expired ones included */
	unsigned int levels; /**< number of levels in use; they reach any tick of 64 - shift bits */
	uint64_t steps;	     /**< steps so far, see LEAT_WHEEL_STEPS: the cost of the wheel */
	/**
	 * Timers whose tick has come, taken from their slots. Their callbacks are still to be
	 * called, in the order of this list.
	 */
	struct leat_wheel_link due;
	/** Slots that hold timers, a word per level and a bit per slot. */
	uint64_t occupied[LEAT_WHEEL_LEVELS];
	/** Heads of the slots' lists of timers, level by level. */
	struct leat_wheel_link slot[LEAT_WHEEL_LEVELS * LEAT_WHEEL_SLOTS];
};

/**
 * Callback for each expired timer. The timer is out of the wheel by then: it may be added again or
 * freed, and any other timer may be added or deleted.
 */
typedef void (*leat_wheel_cb_t)(struct leat_wheel_node *node, void *arg);

/**
 * Initialize an empty wheel.
 *
 * @param[out] w
 *   The wheel, in memory of the caller.
 * @param tick_cycles
 *   Length of a tick, 1..2^56 cycles; rounded down to a power of two, 0 is taken as 1.
 * @param now
 *   The present time, in cycles.
 */
LEAT_API void leat_wheel_init(struct leat_wheel *w, uint64_t tick_cycles, uint64_t now);

/** Private: do the work of leat_wheel_run() when there is some. */
LEAT_API unsigned int leat_wheel_run_slots(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb,
					   void *arg, unsigned int max);

/** Check whether a timer is queued: added, and neither deleted nor fired. */
static inline bool
leat_wheel_queued(const struct leat_wheel_node *node)
{
	return node->link.prev != NULL;
}

/** Get the number of timers queued. */
static inline unsigned int
leat_wheel_count(const struct leat_wheel *w)
{
	return w->count;
}

/** Private: get the lowest level that reaches a tick, which is not before the present one. */
static inline unsigned int
leat_wheel_level(const struct leat_wheel *w, uint64_t tick)
{
	/* A distance of up to 6 bits is in level 0; each further 5 bits add a level. */
	unsigned int bit = 63 - (unsigned int)__builtin_clzll((tick - w->tick) | 32);
	unsigned int level = (bit - 1) / LEAT_WHEEL_BITS;
	unsigned int down = level * LEAT_WHEEL_BITS;

	return level + ((tick >> down) - (w->tick >> down) >= LEAT_WHEEL_SLOTS);
}

/**
 * Delete a timer; its callback will not be called. Without effect when the timer is not queued.
 * `node` must be zeroed or have been in this wheel only.
 */
static inline void
leat_wheel_del(struct leat_wheel *w, struct leat_wheel_node *node)
{
	struct leat_wheel_link *next = node->link.next, *prev = node->link.prev;

	if (prev == NULL)
		return;
	prev->next = next;
	next->prev = prev;
	node->link.next = NULL;
	node->link.prev = NULL;
	if (next == prev) {
		/* The list is now empty. prev is its head: that of a slot's list, or w->due. */
		size_t s = ((uintptr_t)prev - (uintptr_t)w->slot) / sizeof(*prev);

		if (s < LEAT_WHEEL_LEVELS * LEAT_WHEEL_SLOTS)
			w->occupied[s / LEAT_WHEEL_SLOTS] &=
				~(UINT64_C(1) << (s % LEAT_WHEEL_SLOTS));
	}
	if (--w->count == 0)
		w->next = UINT64_MAX;
}

/** Delete all timers; their callbacks will not be called. Looks at each slot. */
LEAT_API void leat_wheel_clear(struct leat_wheel *w);

/** Private: change the expiry of a queued timer if it stays in its slot. */
static inline bool
leat_wheel_keep(struct leat_wheel *w, struct leat_wheel_node *node, uint64_t expiry)
{
	uint64_t tick = expiry >> w->shift, old = node->expiry >> w->shift;
	unsigned int level;

	/* A timer that is due already, or in this tick, must be queued anew. */
	if (old <= w->tick)
		return false;
	/*
	 * The timer is queued in this level or a higher one. If both expiries lie in one slot of
	 * this level, they lie in one slot of each higher level, too.
	 */
	level = leat_wheel_level(w, old);
	if (((tick ^ old) >> (level * LEAT_WHEEL_BITS)) != 0)
		return false;
	node->expiry = expiry;
	if (expiry < w->next && level == 0)
		w->next = expiry;
	return true;
}

/**
 * Add a timer, or move it if it is queued already. A move that keeps the timer in its slot costs
 * next to nothing, so that each message can postpone an idle timeout.
 *
 * @param expiry
 *   Time to fire, in cycles. The past is allowed and means the next run; a timer added by a
 *   callback never fires in the run that called the callback. UINT64_MAX never fires.
 */
static inline void
leat_wheel_add(struct leat_wheel *w, struct leat_wheel_node *node, uint64_t expiry)
{
	uint64_t tick = expiry >> w->shift, event = expiry, n;
	struct leat_wheel_link *head, *last;
	unsigned int level, down;

	if (leat_wheel_queued(node)) {
		if (leat_wheel_keep(w, node, expiry))
			return;
		leat_wheel_del(w, node);
	}
	if (tick < w->tick)
		tick = w->tick;
	level = leat_wheel_level(w, tick);
	down = level * LEAT_WHEEL_BITS;
	n = tick >> down;
	head = &w->slot[level * LEAT_WHEEL_SLOTS + n % LEAT_WHEEL_SLOTS];
	last = head->prev;

	node->expiry = expiry;
	node->link.next = head;
	node->link.prev = last;
	last->next = &node->link;
	head->prev = &node->link;

	w->occupied[level] |= UINT64_C(1) << (n % LEAT_WHEEL_SLOTS);
	w->count++;
	/* A slot of a higher level is sorted while the slot before it is the present one. */
	if (level > 0)
		event = ((n - 1) << down) << w->shift;
	if (event < w->next)
		w->next = event;
	if (tick == w->tick && expiry < w->here)
		w->here = expiry;
}

/**
 * Set the wheel's time without firing timers. Useful after a long sleep, before timers are added: a
 * wheel that knows the time puts them into finer slots. Not from a callback.
 */
static inline void
leat_wheel_advance(struct leat_wheel *w, uint64_t now)
{
	uint64_t tick = now >> w->shift;

	/* Before w->next, the present tick passes and enters only empty slots. */
	if (now < w->next && tick > w->tick) {
		w->tick = tick;
		w->here = 0;
	}
}

/**
 * Fire expired timers: each timer is removed, then its callback is called. Timers of an earlier
 * tick fire before those of a later one; within a tick the order is undefined.
 *
 * Costs one comparison while nothing can have expired. `now` may jump by any amount; if it goes
 * back, only timers that expire by the new `now` fire. Not from a callback.
 *
 * @param now
 *   The present time, in cycles.
 * @param max
 *   Largest number of callbacks; further expired timers stay queued for the next run. If max is
 *   less than UINT32_MAX, all other work is bounded, too, by LEAT_WHEEL_STEPS: after a jump, or
 *   when thousands of timers expire in one tick, a run may call back fewer than max although more
 *   have expired. Then leat_wheel_late() is true, and leat_wheel_due() says that the next run is
 *   due at once.
 * @return
 *   Number of callbacks called.
 */
static inline unsigned int
leat_wheel_run(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb, void *arg, unsigned int max)
{
	if (likely(now < w->next)) {
		leat_wheel_advance(w, now);
		return 0;
	}
	return leat_wheel_run_slots(w, now, cb, arg, max);
}

/**
 * Get the time at which the next leat_wheel_run() has something to do, in cycles, even if that is
 * only sorting; UINT64_MAX when the wheel is empty. Never later than the first expiry. For a loop
 * that is awake, since it costs only one load; a loop that sleeps uses leat_wheel_next().
 */
static inline uint64_t
leat_wheel_due(const struct leat_wheel *w)
{
	return w->next;
}

/**
 * Check whether the last run may have left expired timers because it reached its bound; the next
 * run continues with them. A wheel that only has to sort future timers is not late.
 *
 * @param now
 *   The present time, in cycles.
 */
static inline bool
leat_wheel_late(const struct leat_wheel *w, uint64_t now)
{
	return now >= w->next &&
	       (w->due.next != &w->due || w->here <= now || w->tick < now >> w->shift);
}

/**
 * Get the time until which a loop may sleep, in cycles; UINT64_MAX when the wheel is empty. Never
 * later than the first expiry, and equal to it when few timers are near it. If many are, the loop
 * wakes up once more for each level by which they must be moved down. The cost is a look at each
 * level.
 */
LEAT_API uint64_t leat_wheel_next(const struct leat_wheel *w);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_WHEEL_H */
