/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The open loop: requests are due at fixed moments, whether or not earlier ones are answered.
 *
 *     due      |     |     |     |     |     |
 *     sent     x     x           xxx   x     x       a stall: two are sent late
 *     latency  ---   ---   --------                  counted from the time it was due
 *
 * A closed loop would send nothing during the stall, and so would count the stall once (G. Tene
 * calls this coordinated omission). A poller checks each turn whether a request is due, and hands
 * it to the client that has waited longest. While all clients have plan.pipeline requests under
 * way, the request waits.
 */

#include <leat_error.h>
#include <leat_poller.h>
#include <leat_time.h>

#include "bench.h"

/* Maximum number of requests handed out in one turn. */
#define BURST 64

static inline uint64_t
due_at(const struct redb_worker *w, uint64_t i)
{
	/*
	 * Compute from the start each time, so that rounding errors do not add up. A double is
	 * exact up to 2^53 cycles, about a month.
	 */
	return w->begin + (uint64_t)((double)i * w->interval);
}

/* End the step, and count the requests that are due and were not sent. */
static void
give_up(struct redb_worker *w, uint64_t now)
{
	const double due = ((double)RTE_MIN(now, w->end) - (double)w->begin) / w->interval;
	const uint64_t nb_due = RTE_MIN((uint64_t)due + 1, w->goal);

	w->tally.unsent = nb_due > w->claimed ? nb_due - w->claimed : 0;
	redb_worker_stop(w);
}

static int
pace(void *arg, uint64_t now)
{
	struct redb_worker *w = arg;
	const bool was_over = w->over;
	struct redb_client *c;
	uint64_t due, late;
	int made = 0;

	/* Read the clock: the turn's timestamp was taken when the turn began. */
	now = leat_now();
	while (made < BURST && !w->over && w->claimed < w->goal) {
		due = due_at(w, w->claimed);
		c = TAILQ_FIRST(&w->idle);
		if (due > now || due >= w->end || c == NULL)
			break;
		late = now - due;
		w->tally.delayed += (double)late > w->interval;
		w->tally.delayed_max_ns = RTE_MAX(w->tally.delayed_max_ns, leat_cycles_to_ns(late));
		/* Move c to the end, so that the first client has always waited longest. */
		TAILQ_REMOVE(&w->idle, c, link);
		TAILQ_INSERT_TAIL(&w->idle, c, link);
		redb_client_take(c, due);
		made++;
	}
	if (unlikely(was_over || w->claimed == w->goal))
		redb_worker_stop(w);
	/* If the step's time ended in the loop above, redb_worker_claim() refused a request. */
	else if (unlikely(w->over || now >= w->end || now >= w->give_up))
		give_up(w, leat_now());
	return made;
}

int
redb_pace_start(struct redb_worker *w)
{
	const double rate = (double)w->step->rate_mhz / 1000 / w->nb; /* of this lcore */
	double span;

	w->interval = (double)leat_hz() / rate;
	/* The lcores' requests are due one after another, not all at once. */
	w->begin += (uint64_t)(w->interval * w->index / w->nb);
	/* With a number of requests: give up after twice their scheduled time, plus 1 s. */
	span = w->goal == UINT64_MAX ? 0 : (double)w->goal * w->interval;
	span = RTE_MIN(span, (double)(UINT64_MAX >> 3));
	w->give_up = w->goal == UINT64_MAX ? UINT64_MAX : w->begin + 2 * (uint64_t)span + leat_hz();
	w->pacer = leat_reactor_poller_add(w->reactor, "pace", pace, w, 0);
	return w->pacer != NULL ? 0 : -rte_errno;
}

void
redb_pace_stop(struct redb_worker *w)
{
	if (w->pacer != NULL)
		(void)leat_poller_remove(w->pacer);
	w->pacer = NULL;
}
