/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of a reactor: reactor.toml, poller.toml.
 *
 *     leat_reactor_create()       settings of the program, then those of --settings
 *     housekeeping()              leat_tune_serve(): apply(), on the owner's thread
 *     leat_reactor_idle_set()     any thread: a request; housekeeping copies it to the settings
 *     report, row                 control thread: relaxed loads of what the owner stores anyway
 *
 * Values that a turn needs are derived from the settings here, and kept in the cache lines of a
 * turn: hk_mask, hk_interval, and burst and budget of each endpoint's poller.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_lcore.h>

#include <leat_error.h>
#include <leat_log.h>

#include "activity.h"
#include "poller_tune.h"
#include "reactor_pvt.h"

static_assert(REACTOR_TUNE_IDLE_POLICY_AUTO == (int)LEAT_IDLE_AUTO &&
		      REACTOR_TUNE_IDLE_POLICY_SPIN == (int)LEAT_IDLE_SPIN &&
		      REACTOR_TUNE_IDLE_POLICY_PAUSE == (int)LEAT_IDLE_PAUSE &&
		      REACTOR_TUNE_IDLE_POLICY_YIELD == (int)LEAT_IDLE_YIELD &&
		      REACTOR_TUNE_IDLE_POLICY_SLEEP == (int)LEAT_IDLE_SLEEP &&
		      REACTOR_TUNE_IDLE_POLICY_BLOCK == (int)LEAT_IDLE_BLOCK,
	      "reactor.toml names the policies in their order");

#define BIT(setting) (UINT64_C(1) << (setting))
#define IDLE_BITS                                                                                  \
	(BIT(REACTOR_TUNE_IDLE_POLICY) | BIT(REACTOR_TUNE_SPIN_US) |                               \
	 BIT(REACTOR_TUNE_SLEEP_MIN_US) | BIT(REACTOR_TUNE_SLEEP_MAX_US))

static void
idle_copy(struct reactor_tune_settings *set, const struct leat_idle_conf *idle)
{
	set->idle_policy = (uint32_t)idle->policy;
	set->spin_us = idle->spin_us;
	set->sleep_min_us = idle->sleep_min_us;
	set->sleep_max_us = idle->sleep_max_us;
}

void
reactor_tune_idle_show(struct leat_reactor *r)
{
	struct leat_idle_conf idle;

	leat_reactor_idle_get(r, &idle);
	idle_copy(&r->set, &idle);
	if (r->tune != NULL)
		leat_tune_changed(r->tune);
}

/*
 * Apply the idle settings that changed. The others keep the values that threads have meanwhile
 * requested by leat_reactor_idle_set(), which may differ from *want.
 */
static int
apply_idle(struct leat_reactor *r, struct reactor_tune_settings *want, uint64_t changed)
{
	struct leat_idle_conf idle;
	int ret;

	leat_reactor_idle_get(r, &idle);
	if ((changed & BIT(REACTOR_TUNE_IDLE_POLICY)) != 0)
		idle.policy = (enum leat_idle_policy)want->idle_policy;
	if ((changed & BIT(REACTOR_TUNE_SPIN_US)) != 0)
		idle.spin_us = want->spin_us;
	if ((changed & BIT(REACTOR_TUNE_SLEEP_MIN_US)) != 0)
		idle.sleep_min_us = want->sleep_min_us;
	if ((changed & BIT(REACTOR_TUNE_SLEEP_MAX_US)) != 0)
		idle.sleep_max_us = want->sleep_max_us;
	if ((changed & IDLE_BITS) != 0) {
		ret = reactor_idle_request(r, &idle);
		if (ret < 0)
			return ret;
	}
	idle_copy(want, &idle);
	return 0;
}

void
reactor_tune_derive(struct leat_reactor *r, const struct reactor_tune_settings *set)
{
	RLX_STORE(r->events_interval_us, set->events_us);
	r->hk_mask = set->housekeeping_turns - 1;
	r->hk_interval = leat_us_to_cycles(set->housekeeping_us);
}

/* Give the new values to the pollers of endpoints, which use them at once. */
static void
derive_ep_pollers(struct leat_reactor *r, const struct reactor_tune_settings *set, bool events)
{
	uint32_t i;

	for (i = 0; i < r->max_pollers; i++) {
		struct leat_poller *p = &r->pollers[i];

		if (!p->used || !reactor_poller_is_ep(p))
			continue;
		p->ep.burst = (uint16_t)set->ep_burst;
		p->ep.budget = (uint16_t)set->ep_budget;
		if (events && p->state == LEAT_POLLER_WAITING)
			reactor_ep_events_start(p);
	}
}

/*
 * Apply settings: called in leat_tune_serve(), and by leat_tune_add() for those of --settings. The
 * steps that can fail come first.
 */
static int
apply(void *arg, void *wanted, uint64_t changed)
{
	struct reactor_tune_settings *want = wanted;
	struct leat_reactor *r = arg;
	int ret;

	want->housekeeping_turns = rte_align32pow2(want->housekeeping_turns);
	want->messages = rte_align32pow2(want->messages);
	if ((changed & (BIT(REACTOR_TUNE_MESSAGES) | BIT(REACTOR_TUNE_MAX_POLLERS))) != 0) {
		ret = reactor_resize(r, want->messages, (uint16_t)want->max_pollers);
		if (ret < 0)
			return ret;
	}
	ret = apply_idle(r, want, changed);
	if (ret < 0)
		return ret;
	reactor_tune_derive(r, want);
	derive_ep_pollers(r, want, (changed & BIT(REACTOR_TUNE_EVENTS_US)) != 0);
	return 0;
}

/*
 * Estimate how long the present turn of the reactor has lasted, in cycles: the time since the first
 * call with this number of turns. The turn may have begun earlier, by at most the interval between
 * two calls.
 * Only the control thread calls this, and uses r->stall.
 */
static uint64_t
stalled_cycles(struct leat_reactor *r, enum leat_reactor_state state, uint64_t turns)
{
	uint32_t word = RLX_LOAD(r->attn->word);
	uint64_t now = leat_now();
	bool turning = (state == LEAT_REACTOR_RUNNING || state == LEAT_REACTOR_STOPPING) &&
		       word != ATTN_ASLEEP && word != ATTN_BLOCKED;

	if (!turning || r->stall.since == 0 || r->stall.turns != turns) {
		r->stall.turns = turns;
		r->stall.since = turning ? now : 0;
		return 0;
	}
	return now - r->stall.since;
}

void
leat_reactor_long_turns_set(struct leat_reactor *r, bool on)
{
	RLX_STORE(r->long_turns, on);
}

/*
 * Return the busy cycles, with those of the present turn. The result never decreases, even if a
 * long turn is later counted as idle.
 */
static uint64_t
busy_cycles(struct leat_reactor *r, uint64_t ended, uint64_t stalled)
{
	r->stall.busy = RTE_MAX(r->stall.busy, ended + stalled);
	return r->stall.busy;
}

static void
report(void *arg, void *to)
{
	struct reactor_tune_report *rep = to;
	struct reactor_activity activity;
	struct leat_reactor *r = arg;
	struct leat_reactor_stats s;
	unsigned int lcore = RLX_LOAD(r->lcore);
	uint64_t stalled;
	uint16_t i;

	leat_reactor_stats_get(r, &s);
	reactor_activity_get(r, &activity);
	rep->state = (uint32_t)leat_reactor_state(r);
	/* Between two calls of leat_reactor_turn() the reactor is not stalled. */
	stalled = stalled_cycles(r, (enum leat_reactor_state)rep->state, s.turns);
	if (activity.kind == REACTOR_NOWHERE && RLX_LOAD(r->by_turns))
		stalled = 0;
	rep->lcore = lcore == LCORE_ID_ANY ? -1 : (int64_t)lcore;
	rep->idle_effective = (uint32_t)leat_reactor_idle_effective(r);
	rep->turns = s.turns;
	rep->busy_ns = leat_cycles_to_ns(busy_cycles(r, s.busy_cycles, stalled));
	rep->idle_ns = leat_cycles_to_ns(s.idle_cycles);
	rep->sleep_ns = leat_cycles_to_ns(s.sleep_cycles);
	rep->housekeeping_ns = leat_cycles_to_ns(s.housekeeping_cycles);
	rep->turn_max_ns = (int64_t)leat_cycles_to_ns(s.turn_max_cycles);
	rep->messages = s.messages;
	rep->messages_waiting = (int64_t)reactor_messages_waiting(r);
	rep->timers = s.timers;
	rep->stalled_ns = RLX_LOAD(r->long_turns) ? 0 : (int64_t)leat_cycles_to_ns(stalled);
	reactor_activity_text(r, &activity, rep->running, sizeof(rep->running));
	reactor_lock();
	for (i = 0; i < r->max_pollers; i++)
		rep->pollers += r->pollers[i].used;
	reactor_unlock();
}

static int
row(void *arg, uint32_t i, struct leat_tune_row *row)
{
	struct poller_tune_report *rep = row->report;
	struct leat_reactor *r = arg;
	struct leat_poller_stats s;
	const struct leat_poller *p;
	bool used;

	if (i >= r->max_pollers)
		return -1;
	p = &r->pollers[i];
	/* Under the lock the slot stays in use, and keeps its name. */
	reactor_lock();
	used = p->used;
	if (used) {
		snprintf(row->name, sizeof(row->name), "%s", p->name);
		rep->state = (uint32_t)leat_poller_state(p);
		rep->endpoint = reactor_poller_is_ep(p);
		leat_poller_stats_get(p, &s);
	}
	reactor_unlock();
	if (!used)
		return 0;
	rep->runs = s.runs;
	rep->busy_runs = s.busy_runs;
	rep->busy_ns = leat_cycles_to_ns(s.busy_cycles);
	rep->idle_ns = leat_cycles_to_ns(s.idle_cycles);
	return 1;
}

static void
kick(void *arg)
{
	struct leat_reactor *r = arg;

	reactor_attn_kick(r->attn);
}

int
reactor_tune_add(struct leat_reactor *r)
{
	const struct leat_tune_conf conf = {
		.schema = &reactor_tune_schema,
		.name = r->name,
		.settings = &r->set,
		.apply = apply,
		.report = report,
		.kick = kick,
		.row = row,
		.row_schema = &poller_tune_schema,
		.arg = r,
	};

	r->tune = leat_tune_add(&conf);
	return r->tune != NULL ? 0 : -rte_errno;
}
