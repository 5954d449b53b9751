/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef REACTOR_ACTIVITY_H
#define REACTOR_ACTIVITY_H

/*
 * Which function of the program a reactor is executing, for a watchdog on another thread.
 *
 * The watchdog reads what the reactor writes anyway: the running poller, with the numbers of turns
 * and of the poller's runs, which tell one call from the next; the running timer's function; and
 * the number of messages taken from the ring but not counted as done. Two looks with equal results
 * see the same call, which has not returned in between.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_reactor.h"

enum reactor_activity_kind {
	REACTOR_NOWHERE = 0, /* in no function of the program: idle, housekeeping, not running */
	REACTOR_IN_POLLER,
	REACTOR_IN_TIMER,
	REACTOR_IN_MESSAGE,
};

struct reactor_activity {
	enum reactor_activity_kind kind;
	const struct leat_poller *poller; /* may have been removed: compare, don't follow */
	uintptr_t fn;			  /* function of a timer or a message; 0: no longer known */
	uint64_t turns;
	uint64_t count; /* runs of the poller, timers fired, or messages taken, so far */
};

/* Read the activity. Any thread, while the reactor is not destroyed. */
void reactor_activity_get(const struct leat_reactor *r, struct reactor_activity *a);

static inline bool
reactor_activity_same(const struct reactor_activity *a, const struct reactor_activity *b)
{
	return a->kind == b->kind && a->poller == b->poller && a->fn == b->fn &&
	       a->turns == b->turns && a->count == b->count;
}

/* Write "poller echo", "timer function on_tick", "message function 0x2f10 of ./server". */
void reactor_activity_text(const struct leat_reactor *r, const struct reactor_activity *a,
			   char *text, size_t len);

#endif /* REACTOR_ACTIVITY_H */
