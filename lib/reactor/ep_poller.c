/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdio.h>

#include <leat_ep.h>
#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

/* Maximum number of events of one leat_ep_events(), and of such calls in a row. */
#define EVENTS 4
#define EVENT_ROUNDS 16

/*
 * Poll more bursts, after ops_fn has got a full one. ops_fn may have removed the poller and
 * destroyed the endpoint.
 */
static __rte_noinline int
ep_poll_more(const struct ep_poller *e, uint64_t now)
{
	const struct leat_poller *p = container_of(e, struct leat_poller, ep);
	struct leat_op *ops[LEAT_EP_BURST];
	unsigned int left = e->budget;
	uint16_t n = e->burst;
	int sum = 0;

	while (n == e->burst && --left > 0 && p->state == LEAT_POLLER_WAITING) {
		n = leat_ep_poll(e->ep, ops, e->burst);
		if (n > 0 && e->ops_fn != NULL)
			e->ops_fn(e->arg, e->ep, ops, n, now);
		sum += n;
	}
	return sum;
}

static int
ep_poll(void *arg, uint64_t now)
{
	struct leat_op *ops[LEAT_EP_BURST];
	const struct ep_poller *e = arg;
	uint16_t n;

	/* The setting's range excludes 0. Telling the compiler saves a test in each idle poll. */
	if (e->burst == 0)
		__builtin_unreachable();
	n = leat_ep_poll(e->ep, ops, e->burst);
	if (n == 0)
		return 0;
	if (likely(e->ops_fn != NULL))
		e->ops_fn(e->arg, e->ep, ops, n, now);
	if (unlikely(n == e->burst && e->budget > 1))
		return n + ep_poll_more(e, now);
	return n;
}

/*
 * Pass the endpoint's events to event_fn, which may remove the poller and destroy the endpoint.
 * Called by the timer wheel.
 */
static void
ep_events(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct leat_poller *p = arg;
	struct leat_reactor *r = p->reactor;
	struct leat_event ev[EVENTS];
	unsigned int rounds = EVENT_ROUNDS;
	uint16_t i, n, total = 0;

	(void)timer;
	(void)now;
	RLX_STORE(r->running, p);
	do {
		n = leat_ep_events(p->ep.ep, ev, EVENTS);
		for (i = 0; i < n; i++) {
			if (ev[i].type == LEAT_EV_SHUTDOWN) {
				p->ep.shut = true;
				p->ep.shutdown_status = ev[i].status;
			}
			if (p->ep.event_fn != NULL)
				p->ep.event_fn(p->ep.arg, p->ep.ep, &ev[i]);
			if (p->state == LEAT_POLLER_UNREGISTERED) {
				RLX_STORE(r->running, NULL);
				return;
			}
		}
		total += n;
	} while (n == EVENTS && --rounds > 0);

	RLX_STORE(r->running, NULL);
	/* Without events the endpoint was only driven: count that as housekeeping, not work. */
	if (total == 0) {
		RLX_STORE(r->timer_fn, NULL);
		RLX_ADD(r->hk_cycles, reactor_lap(r));
	}
}

void
reactor_ep_events_start(struct leat_poller *p)
{
	struct leat_reactor *r = p->reactor;

	/* The first call is due at once, so that events that wait already are not delayed. */
	leat_timer_start_at(r, &p->timer, leat_now());
	p->timer.period = leat_us_to_cycles(r->events_interval_us);
}

struct leat_poller *
leat_reactor_ep_add(struct leat_reactor *r, struct leat_ep *ep, leat_ep_ops_fn ops_fn,
		    leat_ep_event_fn event_fn, void *arg)
{
	struct leat_poller *p;

	if (ep == NULL) {
		leat_err(EINVAL, "%s: add an endpoint: there is none", r->name);
		return NULL;
	}
	p = reactor_poller_new(r, leat_ep_name(ep), ep_poll, NULL);
	if (p == NULL)
		return NULL;
	p->arg = &p->ep;
	p->ep.ep = ep;
	p->ep.burst = (uint16_t)r->set.ep_burst;
	p->ep.budget = (uint16_t)r->set.ep_budget;
	p->ep.ops_fn = ops_fn;
	p->ep.event_fn = event_fn;
	p->ep.arg = arg;
	leat_timer_init(&p->timer, ep_events, p);
	reactor_poller_publish(p);
	return p;
}

int
leat_poller_drain_set(struct leat_poller *p, leat_ep_drain_fn drain)
{
	int ret = reactor_owned(p->reactor, "set drain of a poller");

	if (ret < 0)
		return ret;
	if (!reactor_poller_is_ep(p))
		return leat_err(EINVAL, "%s: drain %s: it is no endpoint's poller",
				p->reactor->name, p->name);
	p->drain = drain;
	return 0;
}

bool
reactor_ep_draining(struct leat_poller *p, uint64_t now)
{
	const uint64_t deadline = p->reactor->stop_deadline;
	uint64_t until = UINT64_MAX;

	if (p->drain == NULL || p->ep.asked)
		return false;
	if (deadline != UINT64_MAX)
		until = deadline - (deadline - RTE_MIN(now, deadline)) / 4;
	/*
	 * `until` grows as time passes: keep the end of the drain that the first call computed,
	 * unless a further stop has moved the deadline to an earlier time.
	 */
	if (p->drain_until == 0 || until < p->drain_until)
		p->drain_until = until;
	return p->drain(p->ep.arg, p->drain_until) != 0 && now < p->drain_until;
}

/*
 * Shut the endpoint down, on the first call, and again when a further stop has moved the reactor's
 * deadline to an earlier time. The shutdown gets seven eighths of the time that is left until the
 * deadline. So ops that have to be aborted when the shutdown's time is up still come back before
 * that deadline. A paused poller can't come to rest, so it is resumed.
 */
void
reactor_ep_stop_begin(struct leat_poller *p, uint64_t now)
{
	struct leat_reactor *r = p->reactor;
	uint64_t left, us;
	int ret;

	if (p->ep.asked && r->stop_deadline >= p->ep.asked_until)
		return;
	p->ep.asked = true;
	p->ep.asked_until = r->stop_deadline;
	left = r->stop_deadline - RTE_MIN(now, r->stop_deadline);
	us = r->stop_deadline == UINT64_MAX ? UINT64_MAX
					    : leat_cycles_to_ns(left - left / 8) / 1000;
	if (p->state == LEAT_POLLER_PAUSED && leat_poller_resume(p) < 0)
		LEAT_LOG(WARNING, reactor, "%s: %s", r->name, leat_err_msg());
	ret = leat_ep_shutdown(p->ep.ep, us);
	p->ep.expected |= ret == 0;
	if (ret < 0 && ret != -EALREADY)
		LEAT_LOG(WARNING, reactor, "%s: shutdown of %s: %s", r->name, p->name,
			 leat_err_msg());
}

int
reactor_ep_quiesce(const struct leat_poller *p, char *what, size_t len)
{
	uint32_t inflight = leat_ep_inflight(p->ep.ep);
	uint32_t ready = p->ep.ep->nb_ready;

	if (p->ep.shut && inflight == 0 && ready == 0)
		return 0;
	/*
	 * Without `expected`, the application shut the endpoint down, and may have taken
	 * LEAT_EV_SHUTDOWN itself: don't wait for that event.
	 */
	if (!p->ep.expected && inflight == 0 && ready == 0)
		return 0;
	if (what != NULL)
		snprintf(what, len, "endpoint with %u ops in flight, %u done but not returned",
			 inflight, ready);
	return 1;
}
