/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_pause.h>

#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

#define NS_PER_MS 1000000

#define SPIN_US_DEFAULT 50
#define SLEEP_MIN_US_DEFAULT 10
#define SLEEP_MAX_US_DEFAULT 250
#define SLEEP_US_LIMIT 1000000

/*
 * Auto: interval between checks of preemptions. Two spinning threads on one CPU preempt each other
 * every few milliseconds, that is several times in a window for each; a thread on a CPU of its own
 * is preempted a few times a second.
 */
#define AUTO_WINDOW_US 50000
#define AUTO_PREEMPTED 4    /* preemptions in one window: yield from now on */
#define AUTO_UNDISTURBED 20 /* windows in a row with one preemption at most: spin again */

static void
sys_wait(uint32_t *word, uint32_t val, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };

	/* The result doesn't matter (wake-up, timeout, signal): the caller rereads the word. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, val,
		      ns == REACTOR_WAIT_FOREVER ? NULL : &ts, NULL, 0);
}

static void
sys_wake(uint32_t *word)
{
	int saved = errno;

	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

static int
sys_block(int epfd, struct epoll_event *ev, int n, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };
	int ret = epoll_pwait2(epfd, ev, n, ns == REACTOR_WAIT_FOREVER ? NULL : &ts, NULL);

	/* Before Linux 5.11: sleep whole milliseconds, rounded down so as not to wake up late. */
	if (ret < 0 && errno == ENOSYS)
		ret = epoll_wait(epfd, ev, n,
				 ns == REACTOR_WAIT_FOREVER
					 ? -1
					 : (int)RTE_MIN(ns / NS_PER_MS, (uint64_t)INT_MAX));
	/* A signal counts as a timeout. */
	return RTE_MAX(ret, 0);
}

static void
sys_poke(int fd)
{
	static const uint64_t one = 1;
	int saved = errno;

	/* Any other failure means that the eventfd is readable already. */
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}

static void
sys_yield(void)
{
	(void)sched_yield();
}

static uint64_t
sys_preemptions(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) == 0 ? (uint64_t)ru.ru_nivcsw : 0;
}

static const struct reactor_sys sys_linux = {
	.wait = sys_wait,
	.wake = sys_wake,
	.block = sys_block,
	.poke = sys_poke,
	.yield = sys_yield,
	.preemptions = sys_preemptions,
};

const struct reactor_sys *reactor_sys = &sys_linux;

static const char *const policy_names[LEAT_IDLE_POLICIES] = {
	[LEAT_IDLE_AUTO] = "auto",   [LEAT_IDLE_SPIN] = "spin",	  [LEAT_IDLE_PAUSE] = "pause",
	[LEAT_IDLE_YIELD] = "yield", [LEAT_IDLE_SLEEP] = "sleep", [LEAT_IDLE_BLOCK] = "block",
};

const char *
leat_idle_policy_name(unsigned int policy)
{
	return policy < LEAT_IDLE_POLICIES ? policy_names[policy] : "?";
}

int
leat_idle_policy_parse(const char *name)
{
	int i;

	for (i = 0; i < LEAT_IDLE_POLICIES; i++)
		if (strcmp(name, policy_names[i]) == 0)
			return i;
	return leat_err(EINVAL,
			"idle policy '%s': not one of auto, spin, pause, yield, sleep, block",
			name);
}

int
reactor_idle_request(struct leat_reactor *r, const struct leat_idle_conf *conf)
{
	uint32_t min = conf->sleep_min_us ? conf->sleep_min_us : SLEEP_MIN_US_DEFAULT;
	uint32_t max = conf->sleep_max_us ? conf->sleep_max_us : SLEEP_MAX_US_DEFAULT;

	/* If only one bound is given, adapt the default of the other so that min <= max. */
	if (conf->sleep_max_us == 0)
		max = RTE_MAX(min, max);
	if (conf->sleep_min_us == 0)
		min = RTE_MIN(min, max);
	if ((unsigned int)conf->policy >= LEAT_IDLE_POLICIES)
		return leat_err(EINVAL, "%s: idle policy %d is unknown", r->name,
				(int)conf->policy);
	if (min > max)
		return leat_err(EINVAL, "%s: sleep of %u to %u us: minimum above maximum", r->name,
				min, max);
	if (max > SLEEP_US_LIMIT)
		return leat_err(EINVAL, "%s: sleep of at most %u us: at most %u us are possible",
				r->name, max, SLEEP_US_LIMIT);

	/* One store each: the owner may see some values a turn before the others. */
	RLX_STORE(r->spin_us, conf->spin_us ? conf->spin_us : SPIN_US_DEFAULT);
	RLX_STORE(r->sleep_min_us, min);
	RLX_STORE(r->sleep_max_us, max);
	RLX_STORE(r->idle_req, (uint32_t)conf->policy);
	return 0;
}

int
reactor_idle_init(struct leat_reactor *r, const struct leat_idle_conf *conf)
{
	int ret = reactor_idle_request(r, conf);

	/*
	 * Auto begins with yield, which is right everywhere, until the CPUs of the thread are
	 * known.
	 */
	if (ret == 0)
		r->effective = conf->policy == LEAT_IDLE_AUTO ? LEAT_IDLE_YIELD : conf->policy;
	return ret;
}

int
leat_reactor_idle_set(struct leat_reactor *r, const struct leat_idle_conf *conf)
{
	int ret = reactor_idle_request(r, conf);

	if (ret < 0)
		return ret;
	RLX_STORE(r->idle_changed, 1U);
	LEAT_LOG(INFO, reactor, "%s: idle policy is now %s", r->name,
		 leat_idle_policy_name(conf->policy));
	reactor_attn_kick(r->attn);
	return 0;
}

void
leat_reactor_idle_get(const struct leat_reactor *r, struct leat_idle_conf *conf)
{
	conf->policy = RLX_LOAD(r->idle_req);
	conf->spin_us = RLX_LOAD(r->spin_us);
	conf->sleep_min_us = RLX_LOAD(r->sleep_min_us);
	conf->sleep_max_us = RLX_LOAD(r->sleep_max_us);
}

enum leat_idle_policy
leat_reactor_idle_effective(const struct leat_reactor *r)
{
	return RLX_LOAD(r->effective);
}

/* Count preemptions: they show that another process runs on the CPU; affinities don't show it. */
static void
look_at_preemptions(struct leat_reactor *r, uint64_t now)
{
	uint64_t count = reactor_sys->preemptions();
	uint64_t n = count - r->auto_count;
	bool first = r->auto_at == 0;

	r->auto_at = leat_time_add(now, leat_us_to_cycles(AUTO_WINDOW_US));
	r->auto_count = count;
	if (first)
		return;
	if (n >= AUTO_PREEMPTED) {
		r->auto_quiet = 0;
		if (r->preempted)
			return;
		r->preempted = 1;
		if (!r->preempted_reported) {
			r->preempted_reported = true;
			LEAT_LOG(INFO, reactor,
				 "%s: another program wants its CPU: idle policy yield meanwhile",
				 r->name);
		}
	} else if (n > 1) {
		r->auto_quiet = 0;
	} else if (r->preempted && ++r->auto_quiet >= AUTO_UNDISTURBED) {
		r->preempted = 0;
		r->auto_quiet = 0;
	}
}

/* Choose the policy in effect from the one configured. Called in housekeeping. */
void
reactor_idle_choose(struct leat_reactor *r, uint64_t now)
{
	uint32_t policy = RLX_LOAD(r->idle_req);

	if (policy == LEAT_IDLE_AUTO) {
		if (unlikely(now >= r->auto_at))
			look_at_preemptions(r, now);
		policy = RLX_LOAD(r->crowded) || r->preempted ? LEAT_IDLE_YIELD : LEAT_IDLE_SPIN;
	} else if (policy == LEAT_IDLE_BLOCK && !reactor_block_possible(r)) {
		policy = LEAT_IDLE_SLEEP;
	}
	if (unlikely(policy != r->effective))
		RLX_STORE(r->effective, policy);
}

bool
reactor_idle_spun(struct leat_reactor *r, uint64_t now)
{
	if (r->idle_since == 0) {
		r->idle_since = now;
		r->step_us = 0;
	}
	if (now - r->idle_since >= leat_us_to_cycles(RLX_LOAD(r->spin_us)))
		return true;
	rte_pause();
	return false;
}

uint64_t
reactor_idle_step(struct leat_reactor *r, uint64_t now)
{
	r->step_us = RTE_MAX(r->step_us, RLX_LOAD(r->sleep_min_us));
	r->step_us = RTE_MIN(r->step_us, RLX_LOAD(r->sleep_max_us));
	return leat_time_add(now, leat_us_to_cycles(r->step_us));
}

static uint64_t
idle_sleep(struct leat_reactor *r, uint64_t now)
{
	uint32_t none = ATTN_NONE, asleep = ATTN_ASLEEP;
	uint64_t until, end;

	if (!reactor_idle_spun(r, now))
		return now;
	until = RTE_MIN(leat_wheel_next(&r->wheel), r->stop_deadline);
	until = RTE_MIN(until, reactor_idle_step(r, now));
	if (until <= now)
		return now;

	/* call.c explains why the owner never sleeps while a message waits. */
	if (!__atomic_compare_exchange_n(&r->attn->word, &none, ATTN_ASLEEP, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return now;
	reactor_sys->wait(&r->attn->word, ATTN_ASLEEP, leat_cycles_to_ns(until - now));
	/* On failure a sender has stored ATTN_WORK: leave it for the next turn's housekeeping. */
	(void)__atomic_compare_exchange_n(&r->attn->word, &asleep, ATTN_NONE, false,
					  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	end = leat_now();
	leat_wheel_advance(&r->wheel, end);
	RLX_ADD(r->sleeps, 1);
	RLX_ADD(r->sleep_cycles, end - now);
	r->step_us *= 2;
	return end;
}

bool
reactor_ready(const struct leat_reactor *r)
{
	uint32_t i;

	if (RLX_LOAD(r->attn->word) != ATTN_NONE)
		return true;
	if (!r->has_ready)
		return false;
	for (i = 0; i < r->nb_active; i++) {
		const struct leat_poller *p = r->active[i];

		if (p->ready != NULL && p->state == LEAT_POLLER_WAITING && p->ready(p->arg))
			return true;
	}
	return false;
}

/* Idle after a turn without work, by any policy but spin. Returns the time at which it ended. */
uint64_t
reactor_idle(struct leat_reactor *r, uint64_t now)
{
	uint64_t end;

	/*
	 * A poller that returned 0 had no work when it was called; another poller, a timer or a
	 * message may have given it work since.
	 */
	if (unlikely(r->again || reactor_ready(r))) {
		/* leat_reactor_turn() clears it itself, after it has read it. */
		if (!r->by_turns)
			r->again = false;
		r->idle_since = 0;
		return now;
	}
	if (r->effective == LEAT_IDLE_PAUSE) {
		rte_pause();
		return now;
	}
	if (r->effective == LEAT_IDLE_BLOCK) {
		/*
		 * Don't block while stopping: a poller that comes to rest does not wake the
		 * reactor, which must ask it again and again.
		 */
		if (RLX_LOAD(r->state) == LEAT_REACTOR_RUNNING && reactor_block_possible(r))
			return reactor_block(r, now);
		return idle_sleep(r, now);
	}
	if (r->effective == LEAT_IDLE_SLEEP)
		return idle_sleep(r, now);
	reactor_sys->yield();
	end = leat_now();
	RLX_ADD(r->yields, 1);
	RLX_ADD(r->sleep_cycles, end - now);
	return end;
}
