/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Where a poller is: in reactor.active, in the reactor's wheel, in both, or in neither.
 *
 *     each turn        active      run_pollers() in reactor.c calls it
 *     with a period    wheel       poller_tick() calls it
 *     endpoint         both        active for its ops, the wheel for its events
 *     paused, failed   neither     (it leaves active at the end of the turn)
 */

#include <errno.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

static void
set_state(struct leat_poller *p, enum leat_poller_state state)
{
	RLX_STORE(p->state, (uint32_t)state);
}

/* Call a poller from the wheel, and count its cycles. */
static void
poller_tick(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct leat_poller *p = arg;
	struct leat_reactor *r = p->reactor;
	uint64_t cycles;
	int rc;

	(void)timer;
	RLX_ADD(r->hk_cycles, reactor_lap(r));
	RLX_STORE(r->running, p);
	rc = p->fn(p->arg, now);
	RLX_STORE(r->running, NULL);
	RLX_STORE(r->timer_fn, NULL);
	RLX_ADD(p->runs, 1);
	cycles = reactor_lap(r);
	if (rc == 0) {
		RLX_ADD(p->idle_cycles, cycles);
		RLX_ADD(r->idle_cycles, cycles);
		return;
	}
	r->worked = 1;
	RLX_ADD(p->busy_runs, 1);
	RLX_ADD(p->busy_cycles, cycles);
	RLX_ADD(r->busy_cycles, cycles);
	if (rc < 0)
		reactor_poller_failed(p, rc);
}

/* Take a slot, and fill it in. Telemetry doesn't see it before reactor_poller_publish(). */
struct leat_poller *
reactor_poller_new(struct leat_reactor *r, const char *name, leat_poller_fn fn, void *arg)
{
	struct leat_poller *p = NULL;
	unsigned int i;

	if (reactor_owned(r, "add a poller") < 0)
		return NULL;
	for (i = 0; i < r->max_pollers; i++)
		if (!r->pollers[i].used) {
			p = &r->pollers[i];
			break;
		}
	if (p == NULL) {
		leat_err(ENOSPC, "%s: add %s: all %u pollers are taken; see max_pollers", r->name,
			 name, r->max_pollers);
		return NULL;
	}

	/* Take the lock: telemetry reads `used` of all slots. */
	reactor_lock();
	memset(p, 0, sizeof(*p));
	reactor_unlock();
	p->fn = fn;
	p->arg = arg;
	p->reactor = r;
	reactor_name_copy(p->name, name);
	leat_timer_init(&p->timer, poller_tick, p);
	return p;
}

static void
poller_start(struct leat_poller *p)
{
	struct leat_reactor *r = p->reactor;

	set_state(p, LEAT_POLLER_WAITING);
	r->block_stale = true;
	/* If a poller is added within a turn, the reactor calls that poller before it idles. */
	r->again |= leat_reactor_self() == r;
	if (p->period != 0) {
		leat_timer_start_at(r, &p->timer, leat_time_add(leat_now(), p->period));
		p->timer.period = p->period;
		return;
	}
	if (reactor_poller_is_ep(p))
		reactor_ep_events_start(p);
	/* A poller that was paused and resumed in the same turn is still in active. */
	if (!p->in_active) {
		r->active[r->nb_active++] = p;
		p->in_active = true;
	}
}

void
reactor_poller_publish(struct leat_poller *p)
{
	reactor_lock();
	p->used = true;
	reactor_unlock();
	poller_start(p);
}

struct leat_poller *
leat_reactor_poller_add(struct leat_reactor *r, const char *name, leat_poller_fn fn, void *arg,
			uint64_t period_us)
{
	struct leat_poller *p;

	if (name == NULL || fn == NULL) {
		leat_err(EINVAL, "%s: add a poller: no name or no function", r->name);
		return NULL;
	}
	p = reactor_poller_new(r, name, fn, arg);
	if (p == NULL)
		return NULL;
	if (period_us != 0)
		p->period = RTE_MAX(leat_us_to_cycles(period_us), UINT64_C(1));
	reactor_poller_publish(p);
	return p;
}

/*
 * Remove from active the pollers that are not called any more, and free the slots of removed ones.
 */
void
reactor_pollers_compact(struct leat_reactor *r)
{
	uint32_t i, n = 0;

	for (i = 0; i < r->nb_active; i++) {
		struct leat_poller *p = r->active[i];

		if (p->state == LEAT_POLLER_WAITING)
			r->active[n++] = p;
		else
			p->in_active = false;
	}
	r->nb_active = n;

	reactor_lock();
	for (i = 0; i < r->max_pollers; i++)
		if (r->pollers[i].state == LEAT_POLLER_UNREGISTERED)
			r->pollers[i].used = false;
	reactor_unlock();
	r->dirty = 0;
}

/*
 * Take a poller out of the wheel now, and out of active now or, within a turn, at the turn's end.
 */
static void
deactivate(struct leat_poller *p, enum leat_poller_state state)
{
	struct leat_reactor *r = p->reactor;

	leat_timer_stop(&p->timer);
	reactor_block_forget(p);
	set_state(p, state);
	r->dirty = 1;
	if (leat_reactor_self() == r)
		/* Within a turn: housekeeping, now due, removes the poller from r->active. */
		r->due = 0;
	else
		reactor_pollers_compact(r);
}

int
leat_poller_remove(struct leat_poller *p)
{
	int ret = reactor_owned(p->reactor, "remove a poller");

	if (ret < 0)
		return ret;
	deactivate(p, LEAT_POLLER_UNREGISTERED);
	return 0;
}

int
leat_poller_pause(struct leat_poller *p)
{
	int ret = reactor_owned(p->reactor, "pause a poller");

	if (ret < 0)
		return ret;
	if (p->state != LEAT_POLLER_WAITING)
		return leat_err(EALREADY, "%s: pause %s: it is %s", p->reactor->name, p->name,
				leat_poller_state_name(p->state));
	deactivate(p, LEAT_POLLER_PAUSED);
	return 0;
}

int
leat_poller_resume(struct leat_poller *p)
{
	int ret = reactor_owned(p->reactor, "resume a poller");

	if (ret < 0)
		return ret;
	if (p->state != LEAT_POLLER_PAUSED && p->state != LEAT_POLLER_FAILED)
		return leat_err(EALREADY, "%s: resume %s: it is %s", p->reactor->name, p->name,
				leat_poller_state_name(p->state));
	RLX_STORE(p->error, 0);
	poller_start(p);
	return 0;
}

void
reactor_poller_failed(struct leat_poller *p, int rc)
{
	/* If the poller removed or paused itself before it failed, it is not called any more. */
	if (p->state != LEAT_POLLER_WAITING)
		return;
	LEAT_LOG(ERR, reactor, "%s: poller %s failed: %s (%d); it is not called any more",
		 p->reactor->name, p->name, rte_strerror(-rc), rc);
	RLX_STORE(p->error, rc);
	deactivate(p, LEAT_POLLER_FAILED);
}

int
leat_poller_quiesce_set(struct leat_poller *p, leat_poller_quiesce_fn quiesce)
{
	int ret = reactor_owned(p->reactor, "set quiesce of a poller");

	if (ret < 0)
		return ret;
	p->quiesce = quiesce;
	return 0;
}

int
leat_poller_release_set(struct leat_poller *p, leat_poller_release_fn release)
{
	int ret = reactor_owned(p->reactor, "set release of a poller");

	if (ret < 0)
		return ret;
	p->release = release;
	return 0;
}

/* A release function may use the reactor's name in an error, but nothing else of the reactor. */
void
reactor_pollers_release(struct leat_reactor *r)
{
	unsigned int i;

	for (i = 0; i < r->max_pollers; i++) {
		struct leat_poller *p = &r->pollers[i];

		if (!p->used || p->state == LEAT_POLLER_UNREGISTERED || p->release == NULL)
			continue;
		p->release(reactor_poller_is_ep(p) ? p->ep.arg : p->arg);
	}
}

int
leat_poller_local_set(struct leat_poller *p)
{
	int ret = reactor_owned(p->reactor, "set a poller local");

	if (ret < 0)
		return ret;
	p->local = true;
	p->reactor->block_stale = true;
	return 0;
}

int
leat_poller_ready_set(struct leat_poller *p, leat_poller_ready_fn ready)
{
	int ret = reactor_owned(p->reactor, "set ready of a poller");

	if (ret < 0)
		return ret;
	p->ready = ready;
	p->reactor->has_ready = true;
	return 0;
}

enum leat_poller_state
leat_poller_state(const struct leat_poller *p)
{
	uint32_t state = RLX_LOAD(p->state);

	/* RUNNING is not stored per call: that would be two more stores per poller and turn. */
	if (state == LEAT_POLLER_WAITING && RLX_LOAD(p->reactor->running) == p)
		return LEAT_POLLER_RUNNING;
	return state;
}

const char *
leat_poller_state_name(unsigned int state)
{
	static const char *const names[] = {
		[LEAT_POLLER_UNREGISTERED] = "UNREGISTERED",
		[LEAT_POLLER_WAITING] = "WAITING",
		[LEAT_POLLER_RUNNING] = "RUNNING",
		[LEAT_POLLER_PAUSED] = "PAUSED",
		[LEAT_POLLER_FAILED] = "FAILED",
	};

	return state < RTE_DIM(names) ? names[state] : "?";
}

int
leat_poller_error(const struct leat_poller *p)
{
	return RLX_LOAD(p->error);
}

const char *
leat_poller_name(const struct leat_poller *p)
{
	return p->name;
}

void
leat_poller_stats_get(const struct leat_poller *p, struct leat_poller_stats *stats)
{
	stats->runs = RLX_LOAD(p->runs);
	stats->busy_runs = RLX_LOAD(p->busy_runs);
	stats->busy_cycles = RLX_LOAD(p->busy_cycles);
	stats->idle_cycles = RLX_LOAD(p->idle_cycles);
}
