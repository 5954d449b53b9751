/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting for other processes, with a limit for all waits together. The clock is CLOCK_MONOTONIC,
 * since the thread sleeps; not the cycles of polling loops.
 */

#include <errno.h>
#include <time.h>

#include "rendezvous_pvt.h"

uint64_t
rendezvous_now(void)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t
rendezvous_until(const struct leat_rendezvous *rv, uint64_t timeout_us)
{
	uint64_t until;

	if (__builtin_add_overflow(rendezvous_now(), timeout_us, &until))
		until = UINT64_MAX;
	return RTE_MIN(until, rv->limit);
}

bool
rendezvous_canceled(const struct leat_rendezvous *rv)
{
	return rv->cancel != NULL && *rv->cancel != 0;
}

int
rendezvous_pause(struct leat_rendezvous *rv, uint64_t until)
{
	uint64_t now = rendezvous_now(), us;
	struct timespec ts;

	if (rendezvous_canceled(rv))
		return -ECANCELED;
	if (now >= until)
		return -ETIMEDOUT;
	us = RTE_MIN(rv->pause_us, until - now);
	ts = (struct timespec){ .tv_sec = (time_t)(us / 1000000),
				.tv_nsec = (long)(us % 1000000) * 1000 };
	/* A signal may end the sleep early: then the caller only checks its condition sooner. */
	(void)nanosleep(&ts, NULL);
	rv->pause_us = RTE_MIN(2 * rv->pause_us, RENDEZVOUS_PAUSE_MAX_US);
	return 0;
}
