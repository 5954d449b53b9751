/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_IDLE_H
#define LEAT_IDLE_H

/**
 * @file
 * What a reactor does after a turn in which no poller worked.
 *
 *     policy   latency of the next event         costs
 *     spin     none                              the CPU, and its SMT sibling's speed
 *     pause    one pause instruction             the CPU
 *     yield    a system call, and the time that  the CPU when no other thread wants it
 *              other loops on this CPU take
 *     sleep    up to sleep_max_us                little
 *     block    a wake-up by the kernel           next to nothing
 *
 * A spinning loop on a CPU that another loop needs is a catastrophe: each waits whole time slices
 * for the other. So the default, auto, spins only where each running reactor of this process has a
 * CPU of its own, and yields otherwise. It also yields while the kernel keeps taking the CPU away
 * (because another process spins there); auto checks that every 50 ms.
 *
 * Messages (leat_reactor_call()) and leat_reactor_stop() wake a sleeping or blocked reactor at
 * once; timers bound its sleep.
 *
 * A reactor that blocks waits for the wait objects of its endpoints (leat_ep_fd()), and for its
 * descriptors (leat_fd.h). Each endpoint needs a wait object: a device that offers one
 * (leat_dev_info.wait), and leat_ep_conf.wait. If an endpoint has none, or if a poller is called
 * each turn (no period, and no leat_poller_local_set()), the reactor sleeps as by policy sleep
 * instead, and logs this once, with the poller's name. It does the same, and logs the error once,
 * if it can't open its epoll set, for example because no descriptor is left. Time-outs of endpoints
 * don't wake a reactor: it wakes up for them every leat_reactor_conf.events_us; a longer interval
 * saves wake-ups.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;

/** Idle policies. */
enum leat_idle_policy {
	LEAT_IDLE_AUTO = 0, /**< spin or yield, chosen from the machine */
	LEAT_IDLE_SPIN,	    /**< begin the next turn at once */
	LEAT_IDLE_PAUSE,    /**< execute one pause instruction */
	LEAT_IDLE_YIELD,    /**< let other threads run: sched_yield(2) */
	LEAT_IDLE_SLEEP,    /**< spin for spin_us, then sleep for sleep_min_us to sleep_max_us */
	LEAT_IDLE_BLOCK,    /**< spin for spin_us, then sleep until something happens */
	LEAT_IDLE_POLICIES, /**< number of policies */
};

/** Idle policy and its bounds. Zeroed means all defaults. */
struct leat_idle_conf {
	enum leat_idle_policy policy; /**< what the reactor does after a turn without work */
	uint32_t spin_us;      /**< sleep, block: idle time before the first sleep, us; 0: 50 */
	uint32_t sleep_min_us; /**< sleep: first sleep, us; then twice as long each time; 0: 10 */
	uint32_t sleep_max_us; /**< sleep: longest sleep, us, up to 1,000,000; 0: 250 */
};

/**
 * Return the name of a policy: "auto", "spin", "pause", "yield", "sleep", "block"; "?" for any
 * other value.
 */
LEAT_API const char *leat_idle_policy_name(unsigned int policy);

/** Return the policy with a name, or -EINVAL with leat_err_msg() listing the names. */
LEAT_API int leat_idle_policy_parse(const char *name);

/**
 * Change the idle policy. Any thread, at any time; takes effect within a turn, also in a sleeping
 * reactor.
 *
 * @param r
 *   The reactor.
 * @param conf
 *   As for leat_reactor_create(): zeros mean defaults.
 * @return
 *   0; -EINVAL: unknown policy, or min > max, or max > 1 s.
 */
LEAT_API int leat_reactor_idle_set(struct leat_reactor *r, const struct leat_idle_conf *conf);

/** Read the configured policy, with defaults filled in. Any thread. */
LEAT_API void leat_reactor_idle_get(const struct leat_reactor *r, struct leat_idle_conf *conf);

/**
 * Return the policy in effect: LEAT_IDLE_SPIN or LEAT_IDLE_YIELD for LEAT_IDLE_AUTO,
 * LEAT_IDLE_SLEEP for a LEAT_IDLE_BLOCK that is not possible. Any thread.
 */
LEAT_API enum leat_idle_policy leat_reactor_idle_effective(const struct leat_reactor *r);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_IDLE_H */
