/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef REACTOR_ACTIVITY_H
#define REACTOR_ACTIVITY_H

/*
 * What a reactor is in the middle of, for a watchdog in another thread.
 *
 * It reads what the reactor writes anyway: which poller runs, the numbers of turns and of its runs,
 * which tell one call from the next; which timer's function; and how many messages were taken from
 * the ring and not counted as done. Two looks that see the same see the same call, which has not
 * returned in between.
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
	const struct leat_poller *poller; /* may have been removed since: only compared */
	uintptr_t fn;			  /* of a timer or a message; 0: not known any more */
	uint64_t turns;
	uint64_t count; /* runs of the poller, timers, or messages before this one */
};

/* Any thread, while the reactor is not destroyed. */
void reactor_activity_get(const struct leat_reactor *r, struct reactor_activity *a);

static inline bool
reactor_activity_same(const struct reactor_activity *a, const struct reactor_activity *b)
{
	return a->kind == b->kind && a->poller == b->poller && a->fn == b->fn &&
	       a->turns == b->turns && a->count == b->count;
}

/* "poller echo", "timer function on_tick", "message function 0x2f10 of ./server". */
void reactor_activity_text(const struct leat_reactor *r, const struct reactor_activity *a,
			   char *text, size_t len);

#endif /* REACTOR_ACTIVITY_H */
