/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_POLLER_H
#define LEAT_POLLER_H

/**
 * @file
 * Pollers: the functions that a reactor calls in its turns.
 *
 * A reactor calls a poller in each turn, or periodically; the poller looks for work, does a bounded
 * amount of it and returns. It never blocks: everything else on its lcore waits for it.
 *
 *                    add
 *                     |
 *        pause        v        turn
 *     +--------- WAITING <----------> RUNNING ---- returned < 0 ----+
 *     v             ^  ^                  |                         v
 *  PAUSED ----------+  |                  | remove               FAILED
 *        resume        +------------------+-------- resume --------+
 *                                         v
 *     any ------ remove ----------> UNREGISTERED
 *
 * Thread rules: make calls that change a poller on its reactor's thread, or on the thread that sets
 * the reactor up before it runs; from other threads through leat_reactor_call(). Keep these calls
 * off the fast path: they may wait microseconds for a reader of telemetry. leat_poller_state(),
 * leat_poller_error() and leat_poller_stats_get() may be called from any thread, as long as the
 * poller is not removed.
 */

#include <leat_common.h>
#include <leat_ep.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_poller;

/** Longest name of a poller or reactor, with its terminator. Longer ones are cut. */
#define LEAT_REACTOR_NAME_MAX 32

/** Maximum number of ops that an endpoint's poller gets from one leat_ep_poll(). */
#define LEAT_EP_BURST 32

/** States of a poller. */
enum leat_poller_state {
	LEAT_POLLER_UNREGISTERED = 0, /**< removed */
	LEAT_POLLER_WAITING,	      /**< will be called */
	LEAT_POLLER_RUNNING,	      /**< its function is being called right now */
	LEAT_POLLER_PAUSED,	      /**< not called until leat_poller_resume() */
	LEAT_POLLER_FAILED,	      /**< its function returned < 0; not called until resumed */
};

/**
 * Look for work.
 *
 * @param arg
 *   Argument of leat_reactor_poller_add().
 * @param now
 *   The turn's timestamp, cycles of leat_now(): the same for all pollers of the turn.
 * @return
 *   - > 0: worked (any measure, e.g. the number of items)
 *   - 0: there was nothing to do
 *   - < 0: failed, a negative errno. The reactor logs it and does not call the poller again.
 */
typedef int (*leat_poller_fn)(void *arg, uint64_t now);

/**
 * Ask whether a poller has come to rest. Called on the reactor's thread: first when the reactor
 * begins to stop (the poller then begins to finish its work), and again until all pollers of the
 * reactor return 0.
 *
 * @param arg
 *   Argument of leat_reactor_poller_add().
 * @param what, len
 *   If what is not NULL, write there in words what is in flight, e.g. "3 requests to
 *   10.0.0.1:7000".
 * @return
 *   0: nothing is in flight; else work is in flight.
 */
typedef int (*leat_poller_quiesce_fn)(void *arg, char *what, size_t len);

/**
 * Ask whether a poller that is called each turn would find work now. Called on the reactor's
 * thread before it idles; it must be cheap, and change nothing.
 */
typedef bool (*leat_poller_ready_fn)(void *arg);

/** Counters of a poller. */
struct leat_poller_stats {
	uint64_t runs;	      /**< times called */
	uint64_t busy_runs;   /**< times it worked (or failed) */
	uint64_t busy_cycles; /**< cycles of the busy runs */
	/**
	 * Cycles of the idle runs. For pollers called in each turn it is an estimate: only in one
	 * of leat_reactor_conf.housekeeping_turns turns does the reactor read the clock after each
	 * poller, so that the other turns don't pay for it.
	 */
	uint64_t idle_cycles;
};

/**
 * Add a poller. From the next turn on the reactor calls it, after the pollers added before.
 *
 * @param r
 *   The reactor.
 * @param name
 *   For logs and telemetry; copied, with '_' in place of unprintable characters.
 * @param fn
 *   Function that looks for work.
 * @param arg
 *   First argument of fn.
 * @param period_us
 *   Interval between calls of fn, microseconds, with the resolution of a timer. 0: each turn.
 * @return
 *   The poller, or NULL with rte_errno:
 *   - EINVAL: no name or function
 *   - ENOSPC: the reactor has leat_reactor_conf.max_pollers pollers
 *   - EPERM: called on a wrong thread
 */
LEAT_API struct leat_poller *leat_reactor_poller_add(struct leat_reactor *r, const char *name,
						     leat_poller_fn fn, void *arg,
						     uint64_t period_us);

/**
 * Remove a poller. Its function will not be called again; the handle is invalid from now on. May be
 * called from the poller's own function and from those of others.
 *
 * @return
 *   0; -EPERM: called on a wrong thread.
 */
LEAT_API int leat_poller_remove(struct leat_poller *p);

/**
 * Pause a poller: it is not called until resumed.
 * @return 0; -EALREADY: it is not WAITING; -EPERM: wrong thread
 */
LEAT_API int leat_poller_pause(struct leat_poller *p);

/**
 * Resume a paused or failed poller.
 * @return 0; -EALREADY: it is neither; -EPERM: wrong thread
 */
LEAT_API int leat_poller_resume(struct leat_poller *p);

/**
 * Set the function by which a stopping reactor asks whether the poller has come to rest; NULL:
 * none.
 * @return 0; -EPERM: wrong thread
 */
LEAT_API int leat_poller_quiesce_set(struct leat_poller *p, leat_poller_quiesce_fn quiesce);

/** Release the poller's argument at the end of a reactor, see leat_poller_release_set(). */
typedef void (*leat_poller_release_fn)(void *arg);

/**
 * Set the function to call when leat_reactor_destroy() frees the reactor while the poller exists;
 * NULL: none. The function gets the poller's argument (for an endpoint's poller: the argument of
 * its callbacks), on the thread that destroys the reactor. The poller does not exist any more then,
 * and no call on the reactor is allowed. leat_poller_remove() does not call the function.
 * @return 0; -EPERM: wrong thread
 */
LEAT_API int leat_poller_release_set(struct leat_poller *p, leat_poller_release_fn release);

/**
 * Set the function by which the reactor asks, before it pauses, yields, sleeps or blocks, whether
 * the poller has work; NULL: none. For a poller that gets its work from other pollers, timers and
 * messages of its reactor: these may run after the poller in a turn, and return 0 although they
 * gave it work.
 * @return 0; -EPERM: wrong thread
 */
LEAT_API int leat_poller_ready_set(struct leat_poller *p, leat_poller_ready_fn ready);

/**
 * Declare that all work of a poller comes from this reactor's thread (from other pollers, timers
 * and messages), or with a leat_reactor_wake(); so the poller does not keep the reactor from
 * blocking (LEAT_IDLE_BLOCK). A poller, timer or message that brings it work counts as having
 * worked, so another turn follows, which calls the declared poller. If a source of work returns 0
 * although it brought some, use leat_poller_ready_set().
 * @return 0; -EPERM: wrong thread
 */
LEAT_API int leat_poller_local_set(struct leat_poller *p);

/** Return the state of a poller. Any thread. */
LEAT_API enum leat_poller_state leat_poller_state(const struct leat_poller *p);

/** Return the name of a state, as in the enum: "WAITING", ...; "?" for any other value. */
LEAT_API const char *leat_poller_state_name(unsigned int state);

/** Return what a failed poller's function returned; 0 if the poller is not FAILED. Any thread. */
LEAT_API int leat_poller_error(const struct leat_poller *p);

/** Return the name of a poller. */
LEAT_API const char *leat_poller_name(const struct leat_poller *p);

/** Read the counters. Any thread; each value is a recent one. */
LEAT_API void leat_poller_stats_get(const struct leat_poller *p, struct leat_poller_stats *stats);

/** @name Endpoints */
/**@{*/

/**
 * Receive the ops that leat_ep_poll() returned: 1 to LEAT_EP_BURST, in its order. They belong to
 * the application again; the callback may post them.
 *
 * @param arg
 *   Argument of leat_reactor_ep_add().
 * @param ep
 *   The endpoint.
 * @param ops
 *   The ops.
 * @param n
 *   Number of ops.
 * @param now
 *   The turn's timestamp, cycles.
 */
typedef void (*leat_ep_ops_fn)(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n,
			       uint64_t now);

/** Receive an event of an endpoint, also LEAT_EV_SHUTDOWN. The callback may remove the poller. */
typedef void (*leat_ep_event_fn)(void *arg, struct leat_ep *ep, const struct leat_event *ev);

/**
 * Add a poller that polls an endpoint: it calls leat_ep_poll() once per turn, for up to
 * LEAT_EP_BURST ops, and leat_ep_events() every leat_reactor_conf.events_us. The settings ep_burst
 * and ep_budget change how many ops a turn takes, events_us the interval (doc/guide/reactor.md).
 *
 * The endpoint remains the caller's and must outlive the poller. A stopping reactor shuts the
 * endpoint down (leat_ep_shutdown()) so that its ops come back, once the function of
 * leat_poller_drain_set() allows it; to keep an endpoint open, remove its poller before the stop.
 * Call leat_ep_destroy() after leat_poller_remove() or the reactor's end.
 *
 * While the poller is paused nothing drives the endpoint, so its peers may consider it dead.
 *
 * @param r
 *   The reactor.
 * @param ep
 *   The endpoint.
 * @param ops_fn
 *   Gets the ops. NULL: they are dropped (for endpoints on which none is posted).
 * @param event_fn
 *   Gets the events. NULL: they are dropped.
 * @param arg
 *   First argument of ops_fn and event_fn.
 * @return
 *   The poller, named after the endpoint, or NULL with rte_errno as leat_reactor_poller_add().
 */
LEAT_API struct leat_poller *leat_reactor_ep_add(struct leat_reactor *r, struct leat_ep *ep,
						 leat_ep_ops_fn ops_fn, leat_ep_event_fn event_fn,
						 void *arg);

/**
 * Ask whether an endpoint may be shut down. Called on the reactor's thread: first when the reactor
 * begins to stop (the protocol then begins to finish what is in flight), and again in each
 * housekeeping.
 *
 * @param arg
 *   Argument of the endpoint's callbacks.
 * @param until
 *   Time of leat_now() at which the endpoint is shut down whatever is returned; UINT64_MAX: never.
 * @return
 *   0: the endpoint may be shut down; else: not yet.
 */
typedef int (*leat_ep_drain_fn)(void *arg, uint64_t until);

/**
 * Set the function by which a stopping reactor asks whether it may shut the endpoint down; NULL:
 * none. The function gets the argument of the endpoint's callbacks. The endpoint works as before
 * until the function returns 0, or three quarters of the stop's time have passed. For a protocol
 * that says goodbye to its peers.
 *
 * @return
 *   0; -EINVAL: not the poller of an endpoint; -EPERM: wrong thread.
 */
LEAT_API int leat_poller_drain_set(struct leat_poller *p, leat_ep_drain_fn drain);
/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_POLLER_H */
