/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stopping: any thread or a signal handler raises a flag, which the owner (the thread that runs the
 * reactor) sees in its housekeeping.
 *
 *     RUNNING ---- flag ----> STOPPING ---- all quiet, or deadline ----> (run returns) STOPPED
 *                             turns go on, housekeeping asks pollers
 *
 * Before the owner leaves, it closes the ring of messages and runs the accepted ones, so that each
 * sender's message is run or was refused. When these messages bring work (a task is spawned), the
 * owner goes on until that work has ended, or until the deadline.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

#define WHAT_MAX 96

/* Raise the flag that asks the owner to stop. */
static void
ask_to_stop(struct reactor_attn *attn, uint64_t timeout_us)
{
	uint64_t us = RLX_LOAD(attn->stop_us);

	while (timeout_us < us &&
	       !__atomic_compare_exchange_n(&attn->stop_us, &us, timeout_us, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	/* Release: a thread that sees this count also sees stop_us. */
	__atomic_fetch_add(&attn->stop_count, 1, __ATOMIC_RELEASE);
	reactor_attn_kick(attn);
}

void
leat_reactor_stop(struct leat_reactor *r, uint64_t timeout_us)
{
	ask_to_stop(r->attn, timeout_us);
}

void
leat_reactor_stop_all(uint64_t timeout_us)
{
	unsigned int i;

	/*
	 * Raise the flag in slots without a reactor, too: a signal handler must not lock, and
	 * creating a reactor resets its slot.
	 */
	for (i = 0; i < LEAT_REACTOR_MAX; i++)
		ask_to_stop(&reactor_attns[i], timeout_us);
}

int
leat_reactor_wait(struct leat_reactor *r)
{
	unsigned int lcore;
	uint32_t state;

	if (reactor_runs_here(r))
		return leat_err(EDEADLK, "%s: wait: called on its own thread", r->name);
	for (;;) {
		/* Acquire: see the result and all that the reactor did before leave(). */
		state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
		if (state == LEAT_REACTOR_READY)
			return 0;
		if (state == LEAT_REACTOR_STOPPED)
			break;
		reactor_sys->wait(&r->state, state, REACTOR_WAIT_FOREVER);
	}
	/* The lcore may still be returning to EAL: it can't be launched again before that. */
	lcore = r->launched;
	while (lcore != LCORE_ID_ANY && lcore != rte_lcore_id() &&
	       rte_eal_get_lcore_state(lcore) != WAIT)
		(void)sched_yield();
	return r->result < 0 ? leat_err(-r->result, "%s", r->why) : 0;
}

void
reactor_stop_reset(struct leat_reactor *r)
{
	r->result = 0;
	r->stop_deadline = UINT64_MAX;
}

/* Check whether a poller still has work in flight. */
static int
poller_busy(const struct leat_poller *p, char *what, size_t len)
{
	int busy = 0;

	if (reactor_poller_is_ep(p))
		busy = reactor_ep_quiesce(p, what, len);
	if (busy == 0 && p->quiesce != NULL)
		busy = p->quiesce(p->arg, what, len);
	return busy;
}

static bool
present(const struct leat_poller *p)
{
	return p->used && p->state != LEAT_POLLER_UNREGISTERED;
}

static unsigned int
count_busy(struct leat_reactor *r, uint64_t now)
{
	unsigned int i, busy = 0;

	for (i = 0; i < r->max_pollers; i++) {
		struct leat_poller *p = &r->pollers[i];

		if (!present(p))
			continue;
		if (reactor_poller_is_ep(p)) {
			if (reactor_ep_draining(p, now)) {
				busy++;
				continue;
			}
			reactor_ep_stop_begin(p, now);
		}
		if (poller_busy(p, NULL, 0) != 0)
			busy++;
	}
	return busy;
}

static void
note(struct leat_reactor *r, const struct leat_poller *p, const char *what)
{
	LEAT_LOG(WARNING, reactor, "%s: stopped with work in flight: poller %s (%s): %s", r->name,
		 p->name, leat_poller_state_name(p->state), what);
	if (r->result == 0)
		snprintf(r->why, sizeof(r->why), "stop: poller %s: %s", p->name, what);
	r->result = -ETIMEDOUT;
}

/* End the run. Name the pollers that are still busy, or whose endpoint had to abort ops. */
static void
finish(struct leat_reactor *r)
{
	unsigned int i;

	for (i = 0; i < r->max_pollers; i++) {
		struct leat_poller *p = &r->pollers[i];
		char what[WHAT_MAX];

		if (!present(p))
			continue;
		what[0] = '\0';
		if (poller_busy(p, what, sizeof(what)) != 0)
			note(r, p, what[0] != '\0' ? what : "busy");
		else if (reactor_poller_is_ep(p) && p->ep.shutdown_status < 0)
			note(r, p, "its ops had to be aborted");
	}
	r->done = 1;
}

void
reactor_stop_step(struct leat_reactor *r, uint64_t now)
{
	uint32_t count = __atomic_load_n(&r->attn->stop_count, __ATOMIC_ACQUIRE);

	if (count != r->stop_seen) {
		uint64_t us = __atomic_exchange_n(&r->attn->stop_us, LEAT_REACTOR_STOP_NO_DEADLINE,
						  __ATOMIC_RELAXED);

		r->stop_seen = count;
		r->stop_deadline =
			RTE_MIN(r->stop_deadline, leat_time_add(now, leat_us_to_cycles(us)));
		RLX_STORE(r->state, LEAT_REACTOR_STOPPING);
	}
	if (count_busy(r, now) > 0 && now < r->stop_deadline)
		return;
	/* Refuse messages from now on. The accepted ones may bring work once more. */
	reactor_messages_close(r);
	if (count_busy(r, now) == 0 || now >= r->stop_deadline)
		finish(r);
}
