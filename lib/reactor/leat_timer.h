/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TIMER_H
#define LEAT_TIMER_H

/**
 * @file
 * Timers of a reactor: one-shot and periodic. A timer is part of its owner's object; nothing is
 * allocated.
 *
 * @code
 *	struct conn {
 *		...
 *		struct leat_timer idle;
 *	};
 *
 *	leat_timer_init(&c->idle, on_idle, c);
 *	leat_timer_start(r, &c->idle, 30 * 1000 * 1000);
 * @endcode
 *
 * Resolution: a timer never fires early, and fires in the first turn that ends at or after its
 * expiry (that costs one comparison per turn). So it is late by at most the longest turn; a
 * sleeping reactor wakes up for its timers, which adds the kernel's wake-up latency.
 *
 * Thread rules: a timer belongs to the reactor on which it was started: make all calls on that
 * reactor's thread, or while the reactor is not running; from other threads through
 * leat_reactor_call().
 */

#include <leat_common.h>
#include <leat_wheel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_timer;

/**
 * Called when a timer has expired. It may start, stop and free this timer and any other.
 *
 * @param timer
 *   The timer.
 * @param arg
 *   Argument of leat_timer_init().
 * @param now
 *   Time at which the reactor began to call the expired timers of this turn, cycles of leat_now();
 *   not before the expiry.
 */
typedef void (*leat_timer_fn)(struct leat_timer *timer, void *arg, uint64_t now);

/**
 * A timer. Set up with leat_timer_init(); the fields are private. While started it must not move
 * or be freed. leat_reactor_destroy() stops it.
 */
struct leat_timer {
	struct leat_wheel_node node;  /**< entry in the reactor's timer wheel, with the expiry */
	leat_timer_fn fn;	      /**< callback */
	void *arg;		      /**< argument of fn */
	uint64_t period;	      /**< cycles; 0: one-shot */
	struct leat_reactor *reactor; /**< reactor on which it was last started */
};

/** Initialise a timer. A timer that is started must not be initialised again. */
static inline void
leat_timer_init(struct leat_timer *timer, leat_timer_fn fn, void *arg)
{
	timer->node.link.next = NULL;
	timer->node.link.prev = NULL;
	timer->node.expiry = 0;
	timer->fn = fn;
	timer->arg = arg;
	timer->period = 0;
	timer->reactor = NULL;
}

/** Check whether a timer is started and has not fired. A periodic timer is active until stopped. */
static inline bool
leat_timer_active(const struct leat_timer *timer)
{
	return leat_wheel_queued(&timer->node);
}

/**
 * Start a one-shot timer; an active timer is moved to the new expiry.
 *
 * @param r
 *   The reactor that runs the timer.
 * @param timer
 *   The timer.
 * @param delay_us
 *   Microseconds from now (the clock is read, not the turn's timestamp). 0: at the end of this
 *   turn; when called from a timer, at the end of the next turn.
 */
LEAT_API void leat_timer_start(struct leat_reactor *r, struct leat_timer *timer, uint64_t delay_us);

/** As leat_timer_start(), with an absolute expiry in cycles of leat_now(). */
LEAT_API void leat_timer_start_at(struct leat_reactor *r, struct leat_timer *timer,
				  uint64_t expiry);

/**
 * Start a periodic timer; an active timer is moved to the new expiry. The timer keeps its phase:
 * the n-th expiry is n periods after the start. Expiries that the reactor missed by a period or
 * more are skipped, not made up for, and a new phase begins.
 *
 * @param r
 *   The reactor that runs the timer.
 * @param timer
 *   The timer.
 * @param period_us
 *   Microseconds, > 0 (0 is taken as 1).
 */
LEAT_API void leat_timer_start_periodic(struct leat_reactor *r, struct leat_timer *timer,
					uint64_t period_us);

/** Stop a timer. Does nothing if it is not active. Its callback is not called afterwards. */
LEAT_API void leat_timer_stop(struct leat_timer *timer);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TIMER_H */
