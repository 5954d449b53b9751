/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_IDLE_H
#define LEAT_IDLE_H

/**
 * @file
 * What a reactor does after a turn in which nothing happened.
 *
 *     policy   latency of the next event         costs
 *     spin     none                              the CPU, and its SMT sibling's speed
 *     pause    some 10 to 50 ns                  the CPU
 *     yield    a system call, and what the       the CPU when no other thread wants it
 *              other loops on this CPU take
 *     sleep    up to sleep_max_us                little
 *     block    a wake-up by the kernel, some     next to nothing
 *              10 to 50 us
 *
 * A spinning loop on a CPU that another loop needs is a catastrophe: each waits whole time slices
 * for the other. So the default, auto, spins only where each running reactor of this process has a
 * CPU of its own to run on, and yields where not; and it yields as well as long as the kernel keeps
 * taking the CPU away (another process spins there), which it looks at every 50 ms.
 *
 * Messages (leat_reactor_call()) and leat_reactor_stop() wake a sleeping or blocked reactor at once;
 * timers bound its sleep.
 *
 * Block waits for the wait objects of the reactor's endpoints (leat_ep_fd()), and for its
 * descriptors (leat_fd.h). Each endpoint needs one: a device that offers it (leat_dev_info.wait),
 * and leat_ep_conf.wait. With an endpoint that has none, or
 * a poller that is called each turn (no period), the reactor sleeps as by policy sleep instead, and says
 * so once, with the poller's name. Time-outs of endpoints don't wake: every
 * leat_reactor_conf.events_us it wakes for them; more of it saves wake-ups.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;

/** Idle policies. */
enum leat_idle_policy {
	LEAT_IDLE_AUTO = 0, /**< spin or yield, chosen from the machine */
	LEAT_IDLE_SPIN,	    /**< go on at once */
	LEAT_IDLE_PAUSE,    /**< one pause instruction */
	LEAT_IDLE_YIELD,    /**< let other threads run: sched_yield(2) */
	LEAT_IDLE_SLEEP,    /**< spin for spin_us, then sleep in steps growing from min to max */
	LEAT_IDLE_BLOCK,    /**< spin for spin_us, then sleep until something happens */
	LEAT_IDLE_POLICIES, /**< number of policies */
};

/** Idle policy and its bounds. Zeroed means all defaults. */
struct leat_idle_conf {
	enum leat_idle_policy policy;
	uint32_t spin_us;      /**< sleep, block: idle time before the first sleep, us; 0: 50 */
	uint32_t sleep_min_us; /**< sleep: first step, us; each further one doubles; 0: 10 */
	uint32_t sleep_max_us; /**< sleep: longest step, us, up to 1,000,000; 0: 250 */
};

/** "auto", "spin", "pause", "yield", "sleep", "block"; "?" for any other value. */
LEAT_API const char *leat_idle_policy_name(unsigned int policy);

/** Policy of that name, or -EINVAL with leat_err_msg() listing the names. */
LEAT_API int leat_idle_policy_parse(const char *name);

/**
 * Change the idle policy. Any thread, at any time; takes effect within a turn, also in a reactor
 * that sleeps.
 *
 * @param conf
 *   As for leat_reactor_create(): zeros mean defaults.
 * @return
 *   0; -EINVAL: unknown policy, or min > max, or max > 1 s.
 */
LEAT_API int leat_reactor_idle_set(struct leat_reactor *r, const struct leat_idle_conf *conf);

/** The configured policy, with defaults filled in. Any thread. */
LEAT_API void leat_reactor_idle_get(const struct leat_reactor *r, struct leat_idle_conf *conf);

/**
 * What the reactor does now: never LEAT_IDLE_AUTO, but what that came to; and LEAT_IDLE_SLEEP where
 * LEAT_IDLE_BLOCK was asked for and can't be. Any thread.
 */
LEAT_API enum leat_idle_policy leat_reactor_idle_effective(const struct leat_reactor *r);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_IDLE_H */
