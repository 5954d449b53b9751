/* SPDX-License-Identifier: BSD-3-Clause */

/* The activity of a reactor: see activity.h. */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "activity.h"
#include "reactor_pvt.h"
#include "ring.h"

/*
 * Return the function of the message that was taken last; 0: no longer known. The message's cell
 * keeps the function until a sender gets the cell for the next round of the ring.
 */
static uintptr_t
message_fn(const struct leat_reactor *r, uint64_t head)
{
	struct reactor_ring *ring = r->ring;
	uint64_t ticket = head - REACTOR_RING_STEP;
	uint64_t next = ticket + REACTOR_RING_STEP * (ring->mask + 1);
	uintptr_t fn = (uintptr_t)RLX_LOAD(reactor_ring_cell(ring, ticket)->fn);

	/* Acquire: read the tail after the cell. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return (int64_t)((RLX_LOAD(ring->tail) & ~REACTOR_RING_CLOSED) - next) <= 0 ? fn : 0;
}

void
reactor_activity_get(const struct leat_reactor *r, struct reactor_activity *a)
{
	uint64_t head = RLX_LOAD(r->ring->head), messages = RLX_LOAD(r->messages);

	memset(a, 0, sizeof(*a));
	a->turns = RLX_LOAD(r->turns);
	a->poller = RLX_LOAD(r->running);
	if (a->poller != NULL) {
		a->kind = REACTOR_IN_POLLER;
		a->count = RLX_LOAD(a->poller->runs);
		return;
	}
	a->fn = (uintptr_t)RLX_LOAD(r->timer_fn);
	if (a->fn != 0) {
		a->kind = REACTOR_IN_TIMER;
		a->count = RLX_LOAD(r->timers);
		return;
	}
	a->count = (head - REACTOR_RING_START) / REACTOR_RING_STEP;
	/* While no message runs, those taken from the ring have been run or dropped. */
	if (a->count != messages + RLX_LOAD(r->dropped)) {
		a->kind = REACTOR_IN_MESSAGE;
		a->fn = message_fn(r, head);
	}
}

static void
function_text(const char *what, uintptr_t fn, char *text, size_t len)
{
	const void *addr = (const void *)fn;
	Dl_info info;

	if (fn == 0 || dladdr(addr, &info) == 0 || info.dli_fname == NULL)
		snprintf(text, len, "a %s", what);
	else if (info.dli_saddr == addr && info.dli_sname != NULL)
		snprintf(text, len, "%s function %s", what, info.dli_sname);
	else
		snprintf(text, len, "%s function 0x%" PRIxPTR " of %s", what,
			 fn - (uintptr_t)info.dli_fbase, info.dli_fname);
}

void
reactor_activity_text(const struct leat_reactor *r, const struct reactor_activity *a, char *text,
		      size_t len)
{
	uint16_t i;

	switch (a->kind) {
	case REACTOR_IN_POLLER:
		snprintf(text, len, "a poller that was removed");
		/* Under the lock the slot stays in use; the name of a used slot does not change. */
		reactor_lock();
		for (i = 0; i < r->max_pollers; i++)
			if (&r->pollers[i] == a->poller && r->pollers[i].used)
				snprintf(text, len, "poller %s", r->pollers[i].name);
		reactor_unlock();
		break;
	case REACTOR_IN_TIMER:
		function_text("timer", a->fn, text, len);
		break;
	case REACTOR_IN_MESSAGE:
		function_text("message", a->fn, text, len);
		break;
	case REACTOR_NOWHERE:
		snprintf(text, len, "nothing");
		break;
	}
}
