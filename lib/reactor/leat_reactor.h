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
 * The reactor reads the clock once per turn, and passes that timestamp to all pollers of the next
 * turn. Housekeeping runs every housekeeping_turns turns, after housekeeping_us at the latest, and
 * at the end of a turn in which a timer expired or a thread called for attention (a message, a
 * stop).
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

/** Maximum number of reactors of a process. */
#define LEAT_REACTOR_MAX 128

/** leat_reactor_stop(): no deadline. */
#define LEAT_REACTOR_STOP_NO_DEADLINE UINT64_MAX

/**
 * Configuration of a reactor. Zeroed means all defaults. A settings file (--settings) replaces
 * these values, and agents change most of them while the reactor runs: doc/guide/reactor.md.
 */
struct leat_reactor_conf {
	const char *name;     /**< copied; NULL: "reactorN" */
	uint16_t max_pollers; /**< maximum number of pollers at a time; 0: 64 */
	uint32_t messages;    /**< room for messages, rounded up to 2^n; 0: 1024, at most 2^20 */
	/** turns from one housekeeping to the next, rounded up to 2^n; 0: 64, at most 65536 */
	uint32_t housekeeping_turns;
	/** longest time between two housekeepings, microseconds; 0: 20, at most 1,000,000 */
	uint32_t housekeeping_us;
	/** interval of leat_ep_events(), microseconds; 0: 1000, at most 1,000,000 */
	uint32_t events_us;
	struct leat_idle_conf idle; /**< idle policy */
};

/** State of a reactor. */
enum leat_reactor_state {
	LEAT_REACTOR_READY = 0, /**< created, not yet running */
	LEAT_REACTOR_RUNNING,
	LEAT_REACTOR_STOPPING, /**< pollers are coming to rest */
	LEAT_REACTOR_STOPPED,  /**< may be run again */
};

/**
 * Counters of a reactor. busy + idle + sleep + housekeeping cycles add up to the time for which it
 * has been running.
 */
struct leat_reactor_stats {
	uint64_t turns;		      /**< turns of the loop */
	uint64_t busy_cycles;	      /**< in pollers that worked, in timers and messages */
	uint64_t idle_cycles;	      /**< in pollers that found nothing, and in the loop itself */
	uint64_t sleep_cycles;	      /**< without the CPU: asleep, blocked or yielded */
	uint64_t housekeeping_cycles; /**< time in housekeeping, without callbacks */
	uint64_t turn_max_cycles;     /**< longest turn, without sleep (but with preemption) */
	uint64_t messages;	      /**< messages run */
	uint64_t timers;	      /**< timers fired */
	uint64_t sleeps;	      /**< times the reactor slept */
	uint64_t yields;	      /**< times it yielded */
	uint64_t blocks;	      /**< times it blocked: the sum of the next three */
	uint64_t wake_events;	      /**< blocks ended by an endpoint or a descriptor */
	uint64_t wake_messages;	      /**< blocks ended by a message, a stop, a new policy */
	/** blocks ended by a timer, by the interval of leat_ep_events(), or by a signal */
	uint64_t wake_timeouts;
};

/**
 * Create a reactor. EAL need not be running.
 *
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The reactor, or NULL with rte_errno:
 *   - EINVAL: a value out of its range
 *   - ENOSPC: LEAT_REACTOR_MAX reactors exist
 *   - ENOMEM
 */
LEAT_API struct leat_reactor *leat_reactor_create(const struct leat_reactor_conf *conf);

/**
 * Free a reactor and its pollers. Timers that are still started are stopped, and never fire: a
 * later leat_timer_stop() has no effect, and they may be started on another reactor. Descriptors
 * that are still added (leat_fd.h) are removed, with a warning. Messages that the reactor never ran
 * (it was not run, or was driven by leat_reactor_turn() and not stopped) are dropped: with a
 * warning, or through the function given to leat_reactor_call_drop(). No other thread may be
 * sending a message.
 *
 * @return
 *   0 (also for NULL), or -EBUSY: the reactor is running (or, with leat_reactor_turn(), in a turn).
 */
LEAT_API int leat_reactor_destroy(struct leat_reactor *r);

/**
 * Run a reactor on the calling thread until it is stopped. The thread is an lcore's, or any thread
 * if nothing that runs on the reactor needs an lcore.
 *
 * @return
 *   - 0: stopped, and every poller came to rest
 *   - -ETIMEDOUT: stopped at the deadline; the log and leat_err_msg() name what was still in flight
 *   - -EBUSY: the reactor is running already, or this thread is inside a reactor
 */
LEAT_API int leat_reactor_run(struct leat_reactor *r);

/**
 * Run a reactor on another lcore.
 *
 * @return
 *   - 0: launched; leat_reactor_wait() returns what leat_reactor_run() would
 *   - -EINVAL: no such lcore, or it is the main lcore
 *   - -EBUSY: the lcore or the reactor is running
 */
LEAT_API int leat_reactor_launch(struct leat_reactor *r, unsigned int lcore);

/**
 * Wait, asleep, until a reactor has stopped. Any thread but the reactor's.
 *
 * @return
 *   The result of leat_reactor_run(); 0 if the reactor was never run; -EDEADLK on its own thread.
 */
LEAT_API int leat_reactor_wait(struct leat_reactor *r);

/**
 * Run one turn on the calling thread. For tests that drive several reactors from one thread, and
 * for programs that have a loop of their own. Always call it from the same thread.
 *
 * @return
 *   - 1: a poller, timer or message worked, or there is work for the next turn; 0: neither
 *   - -ESHUTDOWN: stopped, and every poller came to rest; nothing was done
 *   - -ETIMEDOUT: stopped at the deadline; nothing was done
 *   - -EBUSY: another thread runs the reactor, or this call is from inside a turn
 */
LEAT_API int leat_reactor_turn(struct leat_reactor *r);

/**
 * Stop a reactor. Any thread, any number of times; also before it runs (it then stops in its first
 * turn). Async-signal-safe: call it from the handler of SIGINT.
 *
 * The reactor goes on calling its pollers until each has come to rest: it shuts endpoints down, and
 * asks other pollers (leat_poller_quiesce_set()). Then, or at the deadline, it leaves
 * leat_reactor_run().
 *
 * @param r
 *   The reactor.
 * @param timeout_us
 *   Time until the deadline, us, from the moment the reactor notices the stop (within a turn; at
 *   once when it sleeps). LEAT_REACTOR_STOP_NO_DEADLINE: no deadline. 0: ask each poller once. A
 *   further call can make the deadline earlier, not later.
 */
LEAT_API void leat_reactor_stop(struct leat_reactor *r, uint64_t timeout_us);

/** Call leat_reactor_stop() for all reactors that exist now. Async-signal-safe. */
LEAT_API void leat_reactor_stop_all(uint64_t timeout_us);

/** Return the state of a reactor. Any thread. */
LEAT_API enum leat_reactor_state leat_reactor_state(const struct leat_reactor *r);

/** Return the interval of leat_ep_events(), us: leat_reactor_conf.events_us. Any thread. */
LEAT_API uint32_t leat_reactor_events_us(const struct leat_reactor *r);

/** Return the reactor in whose turn this is called, else NULL. */
LEAT_API struct leat_reactor *leat_reactor_self(void);

/** Return a reactor's number, 0 to LEAT_REACTOR_MAX - 1; numbers are reused. Any thread. */
LEAT_API unsigned int leat_reactor_id(const struct leat_reactor *r);

/** Return the name of a reactor. Any thread. */
LEAT_API const char *leat_reactor_name(const struct leat_reactor *r);

/** A message. Runs on the thread of the reactor to which it was sent, between two turns. */
typedef void (*leat_reactor_message_fn)(void *arg);

/**
 * Send a message: have a reactor call a function. Any thread of this process, the reactor's own
 * included, at any time (the function is called when the reactor runs). Messages of one thread run
 * in the order in which it sent them.
 *
 * A running reactor runs the message at the end of its turn; a sleeping one is woken at once. So a
 * message waits at most for the longest turn, and for the kernel's wake-up latency if the reactor
 * slept. Everything that the sender did before the call is visible to the function.
 *
 * A stopping reactor runs messages until all pollers have come to rest, or until its deadline. Then
 * it refuses new messages, runs those that it has accepted, and leaves; until it is run again it
 * refuses messages.
 *
 * @return
 *   - 0: the function will be called, exactly once (unless the reactor is destroyed without having
 *     been run or stopped)
 *   - -EAGAIN: full: leat_reactor_conf.messages messages are waiting; nothing happened
 *   - -ESHUTDOWN: the reactor has stopped, or is about to; nothing happened
 *   - -EINVAL: no function
 */
LEAT_API int leat_reactor_call(struct leat_reactor *r, leat_reactor_message_fn fn, void *arg);

/**
 * Send a message that is never lost silently. As leat_reactor_call(), but if the reactor is
 * destroyed before it has called fn(arg), leat_reactor_destroy() calls drop(arg) instead, on its
 * caller's thread. Exactly one of fn and drop is called, once.
 */
LEAT_API int leat_reactor_call_drop(struct leat_reactor *r, leat_reactor_message_fn fn,
				    leat_reactor_message_fn drop, void *arg);

/**
 * Have a reactor call its pollers before it sleeps next, and wake it if it sleeps. For work that
 * another thread has put where a poller finds it: everything done before this call is visible to
 * the poller then. Any thread, at any time; it is never refused.
 */
LEAT_API void leat_reactor_wake(struct leat_reactor *r);

/**
 * Check whether the calling thread may make the calls that are for the reactor's thread: it may
 * while no thread runs the reactor, and when the calling thread runs it. Any thread.
 */
LEAT_API bool leat_reactor_owned(const struct leat_reactor *r);

/** Read the counters. Any thread; each value is a recent one. */
LEAT_API void leat_reactor_stats_get(const struct leat_reactor *r,
				     struct leat_reactor_stats *stats);

/**
 * Declare that long turns are normal (on), or not. If they are normal, telemetry counts a long turn
 * as busy time, and does not report the loop as stalled. Off at first; lib/task switches it on
 * while leat_tasks_conf.hog_us is LEAT_TASK_HOG_NEVER. Any thread.
 */
LEAT_API void leat_reactor_long_turns_set(struct leat_reactor *r, bool on);

/** Reset the longest turn: leat_reactor_stats.turn_max_cycles begins again at 0. Any thread. */
LEAT_API void leat_reactor_turn_max_reset(struct leat_reactor *r);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_REACTOR_H */
