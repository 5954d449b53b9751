/* SPDX-License-Identifier: BSD-3-Clause */

#include <rte_common.h>

#include "reactor_pvt.h"

/* Maximum number of timers fired in one turn; the others wait for the next. */
#define TIMERS_PER_TURN 64

struct round {
	struct leat_reactor *r;
	uint64_t now;
};

static void
timer_queue(struct leat_reactor *r, struct leat_timer *timer, uint64_t expiry)
{
	timer->reactor = r;
	leat_wheel_add(&r->wheel, &timer->node, expiry);
	if (expiry < r->due)
		r->due = expiry;
}

void
leat_timer_start_at(struct leat_reactor *r, struct leat_timer *timer, uint64_t expiry)
{
	timer->period = 0;
	timer_queue(r, timer, expiry);
}

void
leat_timer_start(struct leat_reactor *r, struct leat_timer *timer, uint64_t delay_us)
{
	leat_timer_start_at(r, timer, leat_time_add(leat_now(), leat_us_to_cycles(delay_us)));
}

void
leat_timer_start_periodic(struct leat_reactor *r, struct leat_timer *timer, uint64_t period_us)
{
	timer->period = RTE_MAX(leat_us_to_cycles(period_us), leat_us_to_cycles(1));
	timer_queue(r, timer, leat_time_add(leat_now(), timer->period));
}

void
leat_timer_stop(struct leat_timer *timer)
{
	if (leat_timer_active(timer))
		leat_wheel_del(&timer->reactor->wheel, &timer->node);
}

static void
on_expiry(struct leat_wheel_node *node, void *arg)
{
	struct leat_timer *timer = container_of(node, struct leat_timer, node);
	const struct round *round = arg;
	struct leat_reactor *r = round->r;

	/* Queue a periodic timer before its call, which may stop, move or free the timer. */
	if (timer->period != 0) {
		uint64_t next = leat_time_add(node->expiry, timer->period);

		if (next <= round->now)
			next = leat_time_add(round->now, timer->period);
		leat_wheel_add(&r->wheel, node, next);
	}
	RLX_STORE(r->timer_fn, timer->fn);
	timer->fn(timer, timer->arg, round->now);
	if (RLX_LOAD(r->timer_fn) == NULL)
		return;
	r->worked = 1;
	RLX_ADD(r->timers, 1);
	RLX_ADD(r->busy_cycles, reactor_lap(r));
}

void
reactor_timers_run(struct leat_reactor *r, uint64_t now)
{
	struct round round = { .r = r, .now = now };

	(void)leat_wheel_run(&r->wheel, now, on_expiry, &round, TIMERS_PER_TURN);
	RLX_STORE(r->timer_fn, NULL);
}
