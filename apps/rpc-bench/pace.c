/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The open loop: batches are due at fixed moments, whether or not earlier ones have completed.
 *
 *     due      |     |     |     |     |     |
 *     begun    x     x           xxx   x     x       a stall: two begin late
 *     latency  ---   ---   --------                  counted from the time it was due
 *
 * A closed loop would begin nothing during the stall, and so would count the stall once (G. Tene
 * calls this coordinated omission). A poller checks each turn whether a batch is due, and wakes a
 * task for it. While all tasks are busy, the batch waits.
 */

#include <leat_error.h>
#include <leat_poller.h>

#include "bench.h"

static uint64_t
batches(const struct rb_node *n, uint64_t calls)
{
	return calls / n->plan->batch + (calls % n->plan->batch != 0);
}

static int
pace(void *arg, uint64_t now)
{
	struct rb_node *n = arg;
	int made = 0;

	/* Read the clock: the turn's timestamp was taken when the turn began. */
	(void)now;
	now = leat_now();
	while (n->nb_due < n->nb_batches && rb_pace_due(n, n->nb_due) <= now) {
		n->nb_due++;
		made++;
		(void)leat_task_sem_post(&n->due);
	}
	if (unlikely(now > n->give_up && !n->over)) {
		n->tally.unsent = n->nb_batches - n->nb_begun;
		rb_node_over(n);
	}
	/* All batches are due and claimed: wake the tasks that still wait for one, to end them. */
	if (unlikely(n->nb_due == n->nb_batches && n->claimed == n->goal && !n->over))
		rb_node_over(n);
	return made;
}

int
rb_pace_start(struct rb_node *n)
{
	const struct rb_plan *p = n->plan;
	const struct rb_world *w = &n->bench->world;
	const uint32_t callers = rb_world_callers(w);
	const double rate = (double)p->rate_mhz / 1000 / callers; /* calls/s of this lcore */
	uint64_t span, calls = n->goal - n->warmup;

	if (n->goal == UINT64_MAX)
		calls = RTE_MAX((uint64_t)(rate * (double)p->duration_us / (double)RB_US),
				UINT64_C(1));
	/* The warm-up takes half a second at most. */
	n->warmup = RTE_MIN(n->warmup, (uint64_t)(rate / 2));
	n->goal = n->warmup + calls;
	leat_task_sem_init(&n->due, 0, "a batch to be due");
	n->interval = (double)leat_hz() * p->batch / rate;
	n->nb_batches = batches(n, n->warmup) + batches(n, calls);
	/* Shift the schedule of each lcore, so that the lcores' batches are not due at once. */
	n->schedule = leat_now() +
		      (uint64_t)(n->interval * ((double)(n->id % callers) / (double)callers));
	/* Give up when the schedule has been over for as long as it lasted, but at least 1 s. */
	span = (uint64_t)RTE_MIN((double)n->nb_batches * n->interval, (double)(UINT64_MAX >> 2));
	n->give_up = n->schedule + span + RTE_MAX(leat_hz(), span);
	n->pacer = leat_reactor_poller_add(n->reactor, "pace", pace, n, 0);
	return n->pacer != NULL ? 0 : rb_node_fail(n, rte_errno, "%s", leat_err_msg());
}

void
rb_pace_stop(struct rb_node *n)
{
	if (n->pacer != NULL)
		(void)leat_poller_remove(n->pacer);
	n->pacer = NULL;
}
