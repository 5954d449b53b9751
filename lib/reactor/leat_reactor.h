/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_REACTOR_H
#define LEAT_REACTOR_H

/**
 * @file
 * Reactors: one poll loop per lcore.
 *
 * @code
 *	r = leat_reactor_create(NULL);
 *	leat_reactor_ep_add(r, ep, on_ops, on_event, app);
 *	leat_reactor_launch(r, lcore);         or, on this lcore: ret = leat_reactor_run(r);
 *	...
 *	leat_reactor_stop(r, 1000000);
 *	ret = leat_reactor_wait(r);
 *	leat_reactor_destroy(r);
 * @endcode
 *
 * A turn:
 *
 *     | poller | poller | poller | now | housekeeping: messages, timers, stop | idle policy |
 *                                       not in each turn                        if no poller worked
 *
 * The clock is read once per turn; that timestamp is passed to all pollers of the next one.
 * Housekeeping comes every housekeeping_turns turns, after housekeeping_us at the latest, and at
 * the end of a turn in which a timer expired or a thread called for attention (a message, a stop).
 *
 * Pollers are in leat_poller.h, timers in leat_timer.h, descriptors in leat_fd.h, idle policies in
 * leat_idle.h.
 *
 * Thread rules: a reactor belongs to the thread that runs it. Functions for any thread say so.
 */

#include <leat_common.h>
#include <leat_idle.h>
#include <leat_poller.h>
#include <leat_timer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;

/** Most reactors of a process. */
#define LEAT_REACTOR_MAX 128

/** leat_reactor_stop(): no deadline. */
#define LEAT_REACTOR_STOP_NO_DEADLINE UINT64_MAX

/**
 * What a reactor is to be like. Zeroed means all defaults. A settings file (--settings) replaces
 * these values, and agents change most of them while it runs: doc/guide/reactor.md.
 */
struct leat_reactor_conf {
	const char *name;     /**< copied; NULL: "reactorN" */
	uint16_t max_pollers; /**< 0: 64 */
	uint32_t messages;    /**< room for messages, rounded up to 2^n; 0: 1024, at most 2^20 */
	uint32_t housekeeping_turns; /**< rounded up to 2^n; 0: 64, at most 65536 */
	uint32_t housekeeping_us;    /**< 0: 20, at most 1,000,000 */
	uint32_t events_us; /**< interval of leat_ep_events(); 0: 1000, at most 1,000,000 */
	struct leat_idle_conf idle;
};

/** Where a reactor is. */
enum leat_reactor_state {
	LEAT_REACTOR_READY = 0, /**< created, not yet running */
	LEAT_REACTOR_RUNNING,
	LEAT_REACTOR_STOPPING, /**< pollers are coming to rest */
	LEAT_REACTOR_STOPPED,  /**< may be run again */
};

/**
 * Counters of a reactor. busy + idle + sleep + housekeeping cycles are the time it has been
 * running.
 */
struct leat_reactor_stats {
	uint64_t turns;
	uint64_t busy_cycles;	      /**< in pollers that worked, in timers and messages */
	uint64_t idle_cycles;	      /**< in pollers that found nothing, and in the loop itself */
	uint64_t sleep_cycles;	      /**< given away: asleep, blocked or yielded */
	uint64_t housekeeping_cycles; /**< in housekeeping, without callbacks */
	uint64_t turn_max_cycles;     /**< longest turn, without sleep (but with preemption) */
	uint64_t messages;	      /**< messages run */
	uint64_t timers;	      /**< timers fired */
	uint64_t sleeps;	      /**< times it slept */
	uint64_t yields;	      /**< times it yielded */
	uint64_t blocks;	      /**< times it blocked; woken by one of: */
	uint64_t wake_events;	      /**< an endpoint or a descriptor */
	uint64_t wake_messages;	      /**< a message, a stop, a new policy */
	uint64_t wake_timeouts;	      /**< a timer, the events of endpoints, or a signal */
};

/**
 * Make a reactor. EAL need not be running.
 *
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The reactor, or NULL with rte_errno:
 *   - EINVAL: a value out of its range
 *   - ENOSPC: there are LEAT_REACTOR_MAX
 *   - ENOMEM
 */
LEAT_API struct leat_reactor *leat_reactor_create(const struct leat_reactor_conf *conf);

/**
 * Free a reactor and its pollers. Timers that are still started are forgotten, descriptors that are
 * still added as well, with a warning (leat_fd.h). Messages that it
 * never ran (it was not run, or driven by leat_reactor_turn() and not stopped) are dropped: with a
 * warning, or as leat_reactor_call_drop() says. No other thread may be sending one.
 *
 * @return
 *   0 (also for NULL), or -EBUSY: it is running (or, with leat_reactor_turn(), in a turn).
 */
LEAT_API int leat_reactor_destroy(struct leat_reactor *r);

/**
 * Run on the calling thread until stopped. That is an lcore, or any thread when nothing that runs
 * on it wants an lcore.
 *
 * @return
 *   - 0: stopped, everything came to rest
 *   - -ETIMEDOUT: stopped at the deadline; what was still in flight is in the log and in
 *     leat_err_msg()
 *   - -EBUSY: it is running already, or this thread is inside a reactor
 */
LEAT_API int leat_reactor_run(struct leat_reactor *r);

/**
 * Run on another lcore.
 *
 * @return
 *   - 0: launched; leat_reactor_wait() gives what leat_reactor_run() returned
 *   - -EINVAL: no such lcore, or it is the main one
 *   - -EBUSY: the lcore or the reactor is running
 */
LEAT_API int leat_reactor_launch(struct leat_reactor *r, unsigned int lcore);

/**
 * Wait, asleep, until a reactor has stopped. Any thread but its own.
 *
 * @return
 *   What leat_reactor_run() returned; 0 when it was never run; -EDEADLK on its own thread.
 */
LEAT_API int leat_reactor_wait(struct leat_reactor *r);

/**
 * Run one turn on the calling thread. For tests, which drive several reactors from one thread, and
 * for programs that have a loop of their own. Always call it from the same thread.
 *
 * @return
 *   - 1: a poller, timer or message worked, or there is work for the next turn; 0: neither
 *   - -ESHUTDOWN: stopped, everything came to rest; nothing was done
 *   - -ETIMEDOUT: stopped at the deadline; nothing was done
 *   - -EBUSY: another thread runs it, or this call is from inside a turn
 */
LEAT_API int leat_reactor_turn(struct leat_reactor *r);

/**
 * Stop a reactor. Any thread, any number of times, before it runs too (it then stops in its first
 * turn). Async-signal-safe: call it from the handler of SIGINT.
 *
 * The reactor goes on running its pollers until each has come to rest: endpoints are shut down,
 * others are asked (leat_poller_quiesce_set()). Then, or at the deadline, it leaves
 * leat_reactor_run().
 *
 * @param timeout_us
 *   Deadline, us from the moment the reactor notices (within a turn; at once when it sleeps).
 *   LEAT_REACTOR_STOP_NO_DEADLINE: none. 0: ask once. A further call can make it earlier, not
 *   later.
 */
LEAT_API void leat_reactor_stop(struct leat_reactor *r, uint64_t timeout_us);

/** leat_reactor_stop() for all reactors that exist now. Async-signal-safe. */
LEAT_API void leat_reactor_stop_all(uint64_t timeout_us);

/** State of a reactor. Any thread. */
LEAT_API enum leat_reactor_state leat_reactor_state(const struct leat_reactor *r);

/** Interval of leat_ep_events(), microseconds: leat_reactor_conf.events_us. Any thread. */
LEAT_API uint32_t leat_reactor_events_us(const struct leat_reactor *r);

/** The reactor whose turn this is called from, else NULL. */
LEAT_API struct leat_reactor *leat_reactor_self(void);

/** Number of a reactor, 0 to LEAT_REACTOR_MAX - 1; numbers are reused. Any thread. */
LEAT_API unsigned int leat_reactor_id(const struct leat_reactor *r);

/** Name of a reactor. Any thread. */
LEAT_API const char *leat_reactor_name(const struct leat_reactor *r);

/** A message. Runs on the thread of the reactor it was sent to, between two turns. */
typedef void (*leat_reactor_message_fn)(void *arg);

/**
 * Have a reactor call a function. Any thread of this process, the reactor's own included, at any
 * time (it is called when the reactor runs). Messages of one thread run in their order.
 *
 * A running reactor runs it at the end of its turn. One that sleeps is woken at once. So it takes
 * at most the longest turn, plus the kernel's wake-up latency (some 50 us) when it slept.
 * Everything the sender did before is visible to the function.
 *
 * A reactor that stops goes on running messages until all has come to rest, or its deadline. Then
 * it refuses new ones, runs those that it has accepted, and leaves; until it is run again it
 * refuses.
 *
 * @return
 *   - 0: will be called, exactly once (unless the reactor is destroyed without having been run or
 *   stopped)
 *   - -EAGAIN: leat_reactor_conf.messages are waiting; nothing happened
 *   - -ESHUTDOWN: it has stopped, or is about to; nothing happened
 *   - -EINVAL: no function
 */
LEAT_API int leat_reactor_call(struct leat_reactor *r, leat_reactor_message_fn fn, void *arg);

/**
 * As leat_reactor_call(), for a sender that must hear of its message in any case: when the reactor
 * is destroyed before it has called fn(arg), leat_reactor_destroy() calls drop(arg) in its place,
 * on its own thread. Exactly one of them is called, once.
 */
LEAT_API int leat_reactor_call_drop(struct leat_reactor *r, leat_reactor_message_fn fn,
				    leat_reactor_message_fn drop, void *arg);

/**
 * Have a reactor call its pollers before it sleeps next, and wake it if it sleeps. For what
 * another thread has put where a poller finds it; everything done before is visible to the poller
 * then. Any thread, at any time; it is never refused.
 */
LEAT_API void leat_reactor_wake(struct leat_reactor *r);

/**
 * May the calling thread make the calls that are for the reactor's thread? It may while no thread
 * runs the reactor, and when it is the one that does. Any thread.
 */
LEAT_API bool leat_reactor_owned(const struct leat_reactor *r);

/** Read the counters. Any thread; each value is a recent one. */
LEAT_API void leat_reactor_stats_get(const struct leat_reactor *r,
				     struct leat_reactor_stats *stats);

/**
 * Tell that turns may take as long as they like, and that this is no fault: in telemetry a long
 * turn is busy time, and not a loop that stands still. Off at first; tasks with
 * leat_tasks_conf.hog_us LEAT_TASK_HOG_NEVER switch it on. Any thread.
 */
LEAT_API void leat_reactor_long_turns_set(struct leat_reactor *r, bool on);

/** Begin the search for the longest turn again. Any thread. */
LEAT_API void leat_reactor_turn_max_reset(struct leat_reactor *r);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_REACTOR_H */
