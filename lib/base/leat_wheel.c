/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "leat_wheel.h"

#define TICK_SHIFT_MAX 56U

_Static_assert(LEAT_WHEEL_SLOTS % 64 == 0, "the bitmap has whole words");

void
leat_wheel_init(struct leat_wheel *w, uint64_t tick_cycles, uint64_t now)
{
	unsigned int shift = tick_cycles > 1 ? 63 - (unsigned int)__builtin_clzll(tick_cycles) : 0;

	memset(w, 0, sizeof(*w));
	w->shift = RTE_MIN(shift, TICK_SHIFT_MAX);
	w->tick = now >> w->shift;
	w->next = UINT64_MAX;
	w->expired_tail = &w->expired;
}

/* First slot at or after `from` (circular) whose bit is set, as its distance from `from`;
 * LEAT_WHEEL_SLOTS when there is none. */
static unsigned int
next_occupied(const struct leat_wheel *w, unsigned int from)
{
	unsigned int dist = 0;

	while (dist < LEAT_WHEEL_SLOTS) {
		unsigned int s = (from + dist) % LEAT_WHEEL_SLOTS;
		uint64_t bits = w->occupied[s / 64] >> (s % 64);

		if (bits != 0)
			return RTE_MIN(dist + (unsigned int)__builtin_ctzll(bits),
				       (unsigned int)LEAT_WHEEL_SLOTS);
		dist += 64 - s % 64;
	}
	return LEAT_WHEEL_SLOTS;
}

/* Move what has expired from slot `s` to the expired list; the earliest expiry of what stays
 * lowers *first. */
static void
walk_slot(struct leat_wheel *w, unsigned int s, uint64_t now, uint64_t *first)
{
	struct leat_wheel_node *node = w->slot[s];

	while (node != NULL) {
		struct leat_wheel_node *next = node->next;

		if (node->expiry <= now) {
			*node->pprev = next;
			if (next != NULL)
				next->pprev = node->pprev;
			node->next = NULL;
			node->pprev = w->expired_tail;
			*w->expired_tail = node;
			w->expired_tail = &node->next;
		} else if (node->expiry < *first) {
			*first = node->expiry;
		}
		node = next;
	}
	if (w->slot[s] == NULL)
		w->occupied[s / 64] &= ~(UINT64_C(1) << (s % 64));
}

unsigned int
leat_wheel_run_slots(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb, void *arg,
		     unsigned int max)
{
	uint64_t end = RTE_MAX(now >> w->shift, w->tick);
	uint64_t first = UINT64_MAX;
	unsigned int span, off, n;

	/*
	 * Take out everything that has expired before the first callback, so that callbacks may
	 * do what they like with the slots. After a jump of a turn or more every slot is walked
	 * once. The slot of `end` itself is walked too and stays the current one: its tick is
	 * not over.
	 */
	span = (unsigned int)RTE_MIN(end - w->tick + 1, (uint64_t)LEAT_WHEEL_SLOTS);
	for (off = 0; off < span; off++) {
		unsigned int from = (unsigned int)((w->tick + off) % LEAT_WHEEL_SLOTS);

		off += next_occupied(w, from);
		if (off >= span)
			break;
		walk_slot(w, (unsigned int)((w->tick + off) % LEAT_WHEEL_SLOTS), now, &first);
	}
	w->tick = end;

	/* What stayed in the slots just walked is known exactly; of the others only the start of
	 * the tick in which the first of them is walked next. */
	off = next_occupied(w, (unsigned int)((end + 1) % LEAT_WHEEL_SLOTS));
	if (off < LEAT_WHEEL_SLOTS - 1)
		first = RTE_MIN(first, (end + 1 + off) << w->shift);
	w->next = first;

	for (n = 0; n < max && w->expired != NULL; n++) {
		struct leat_wheel_node *node = w->expired;

		leat_wheel_del(w, node);
		cb(node, arg);
	}
	if (w->expired != NULL)
		w->next = RTE_MIN(w->next, w->expired->expiry);
	return n;
}
