/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "leat_wheel.h"

#define TICK_SHIFT_MAX 56U
/* Lists of up to this many timers are searched for their first expiry. */
#define SHORT 8

_Static_assert(LEAT_WHEEL_SLOTS == 64, "a level's bitmap is one word");
_Static_assert((LEAT_WHEEL_LEVELS - 1) * LEAT_WHEEL_BITS + 6 >= 64,
	       "the levels reach over 64 bits");

/* The first occupied slot of a level. */
struct first {
	const struct leat_wheel_link *head;
	uint64_t n;    /* number of the slot, counted from tick 0 */
	uint64_t tick; /* first tick of the slot */
	unsigned int level;
	unsigned int off; /* distance from the present slot, in slots */
};

void
leat_wheel_init(struct leat_wheel *w, uint64_t tick_cycles, uint64_t now)
{
	unsigned int shift = tick_cycles > 1 ? 63 - (unsigned int)__builtin_clzll(tick_cycles) : 0;
	unsigned int i;

	memset(w, 0, sizeof(*w));
	w->shift = RTE_MIN(shift, TICK_SHIFT_MAX);
	w->levels = 1;
	while (6 + (w->levels - 1) * LEAT_WHEEL_BITS < 64 - w->shift)
		w->levels++;
	w->tick = now >> w->shift;
	w->next = UINT64_MAX;
	w->due.next = w->due.prev = &w->due;
	for (i = 0; i < LEAT_WHEEL_LEVELS * LEAT_WHEEL_SLOTS; i++)
		w->slot[i].next = w->slot[i].prev = &w->slot[i];
}

static struct leat_wheel_node *
node_of(struct leat_wheel_link *link)
{
	return container_of(link, struct leat_wheel_node, link);
}

static bool
list_empty(const struct leat_wheel_link *head)
{
	return head->next == head;
}

static void
list_clear(struct leat_wheel *w, struct leat_wheel_link *head)
{
	while (!list_empty(head))
		leat_wheel_del(w, node_of(head->next));
}

void
leat_wheel_clear(struct leat_wheel *w)
{
	unsigned int i;

	list_clear(w, &w->due);
	for (i = 0; i < LEAT_WHEEL_LEVELS * LEAT_WHEEL_SLOTS; i++)
		list_clear(w, &w->slot[i]);
}

static struct leat_wheel_link *
slot_of(struct leat_wheel *w, unsigned int level, uint64_t n)
{
	return &w->slot[level * LEAT_WHEEL_SLOTS + n % LEAT_WHEEL_SLOTS];
}

static bool
slot_occupied(const struct leat_wheel *w, unsigned int level, uint64_t n)
{
	return (w->occupied[level] >> (n % LEAT_WHEEL_SLOTS) & 1) != 0;
}

/* Find the first occupied slot of a level. @return false: the level is empty */
static bool
level_first(const struct leat_wheel *w, unsigned int level, struct first *f)
{
	unsigned int down = level * LEAT_WHEEL_BITS, s;
	uint64_t occupied = w->occupied[level];
	uint64_t present = w->tick >> down;

	if (occupied == 0)
		return false;
	/* No slot is further away than 63, so rotate the bitmap: the present slot becomes bit 0. */
	s = (unsigned int)(present % LEAT_WHEEL_SLOTS);
	occupied = occupied >> s | occupied << ((64 - s) % 64);
	f->off = (unsigned int)__builtin_ctzll(occupied);
	f->n = present + f->off;
	f->level = level;
	f->tick = f->n << down;
	f->head = &w->slot[level * LEAT_WHEEL_SLOTS + f->n % LEAT_WHEEL_SLOTS];
	return true;
}

/*
 * Find the first occupied slot of all levels; head NULL: none. If slots of two levels begin at the
 * same tick, return the higher level's, since its timers must first move into the lower level.
 */
static struct first
wheel_first(const struct leat_wheel *w)
{
	struct first f = { .head = NULL }, g;
	unsigned int l;

	for (l = 0; l < w->levels; l++)
		if (level_first(w, l, &g) && (f.head == NULL || g.tick <= f.tick))
			f = g;
	return f;
}

static unsigned int
steps_of(unsigned int max)
{
	return max == UINT32_MAX ? UINT32_MAX : LEAT_WHEEL_STEPS;
}

/* Count a step of a run. @return false: the run has no steps left */
static bool
step(struct leat_wheel *w, unsigned int *left)
{
	if (*left == 0)
		return false;
	if (*left != UINT32_MAX)
		(*left)--;
	w->steps++;
	return true;
}

/* Move the timers of a slot to the levels below. @return false: out of steps before all moved */
static bool
sort_slot(struct leat_wheel *w, unsigned int level, uint64_t n, unsigned int *left)
{
	struct leat_wheel_link *head = slot_of(w, level, n);

	while (!list_empty(head)) {
		struct leat_wheel_node *node = node_of(head->next);

		if (!step(w, left))
			return false;
		leat_wheel_del(w, node);
		leat_wheel_add(w, node, node->expiry);
	}
	return true;
}

/* Move the timers of a level 0 slot, whose tick has come, to the end of w->due. */
static void
slot_to_due(struct leat_wheel *w, uint64_t tick)
{
	struct leat_wheel_link *head = slot_of(w, 0, tick), *due = &w->due;

	head->next->prev = due->prev;
	due->prev->next = head->next;
	head->prev->next = due;
	due->prev = head->prev;
	head->next = head->prev = head;
	w->occupied[0] &= ~(UINT64_C(1) << (tick % LEAT_WHEEL_SLOTS));
}

/*
 * Advance to a tick, handling each slot that begins until then. @return false: out of steps before
 * the tick was reached
 */
static bool
advance_to(struct leat_wheel *w, uint64_t tick, unsigned int *left)
{
	struct first f;

	for (f = wheel_first(w); f.head != NULL && f.tick <= tick; f = wheel_first(w)) {
		if (!step(w, left))
			return false;
		/* Don't go back: a slot that contains the present tick may begin before it. */
		w->tick = RTE_MAX(w->tick, f.tick);
		w->here = 0;
		if (f.level == 0)
			slot_to_due(w, f.tick);
		else if (!sort_slot(w, f.level, f.n, left))
			return false;
	}
	w->tick = tick;
	w->here = UINT64_MAX;
	return true;
}

/*
 * Sort the slot that follows the present one, on each level above 0. @return false: out of steps
 * before all were sorted
 */
static bool
sort_ahead(struct leat_wheel *w, unsigned int *left)
{
	unsigned int l;

	for (l = 1; l < w->levels; l++) {
		uint64_t n = (w->tick >> (l * LEAT_WHEEL_BITS)) + 1;

		if (slot_occupied(w, l, n) && !sort_slot(w, l, n, left))
			return false;
	}
	return true;
}

/* Get the first expiry in a list. @return false: the list is longer than SHORT */
static bool
short_list(const struct leat_wheel_link *head, uint64_t *first)
{
	const struct leat_wheel_link *at;
	unsigned int i = 0;

	*first = UINT64_MAX;
	for (at = head->next; at != head; at = at->next) {
		uint64_t expiry = container_of(at, const struct leat_wheel_node, link)->expiry;

		if (i++ == SHORT)
			return false;
		*first = RTE_MIN(*first, expiry);
	}
	return true;
}

/*
 * Get the first expiry of level 0. If its slot's list is too long to be searched, get the start of
 * the slot's tick, or 0 for the present slot, in which timers may have expired.
 */
static uint64_t
first_expiry(const struct leat_wheel *w)
{
	struct first f;
	uint64_t at;

	if (!level_first(w, 0, &f))
		return UINT64_MAX;
	if (short_list(f.head, &at))
		return at;
	/* The present slot also holds timers that were late when they were added. */
	return f.off == 0 ? 0 : f.tick << w->shift;
}

/* Get the time from which a slot of a higher level is sorted: when the slot before it begins. */
static uint64_t
sort_at(const struct leat_wheel *w, const struct first *f)
{
	return f->off <= 1 ? 0 : ((f->n - 1) << (f->level * LEAT_WHEEL_BITS)) << w->shift;
}

/* Get the time at which the next run has something to do. */
static uint64_t
next_event(const struct leat_wheel *w)
{
	uint64_t next = RTE_MAX(first_expiry(w), RTE_MIN(w->here, (w->tick + 1) << w->shift));
	struct first f;
	unsigned int l;

	for (l = 1; l < w->levels; l++)
		if (level_first(w, l, &f))
			next = RTE_MIN(next, sort_at(w, &f));
	return next;
}

/* Fire the expired timers of w->due; those that have not expired go back into the tick's slot. */
static unsigned int
fire(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb, void *arg, unsigned int max)
{
	unsigned int n = 0, left = steps_of(max);

	while (n < max && !list_empty(&w->due)) {
		struct leat_wheel_node *node = node_of(w->due.next);
		bool expired = node->expiry <= now;

		if (!expired && !step(w, &left))
			break;
		leat_wheel_del(w, node);
		if (expired) {
			cb(node, arg);
			n++;
		} else {
			leat_wheel_add(w, node, node->expiry);
		}
	}
	return n;
}

unsigned int
leat_wheel_run_slots(struct leat_wheel *w, uint64_t now, leat_wheel_cb_t cb, void *arg,
		     unsigned int max)
{
	unsigned int n, left = steps_of(max);
	bool done;
	uint64_t tick;

	now = RTE_MIN(now, UINT64_MAX - 1);
	tick = RTE_MAX(now >> w->shift, w->tick);
	/*
	 * Handle all slots before the first callback, because a timer that a callback adds goes
	 * into a slot, for the next run, and a callback may change any slot.
	 *
	 * While w->due still holds timers of this tick, don't move the timers that went back into
	 * the tick's slot to w->due again. Otherwise runs that reach their bound would look at the
	 * same timers again and again.
	 */
	if (tick == w->tick && w->here != 0 && !list_empty(&w->due) && max != UINT32_MAX)
		done = true;
	else
		done = advance_to(w, tick, &left);
	n = fire(w, now, cb, arg, max);
	done = done && sort_ahead(w, &left) && list_empty(&w->due);
	w->next = done ? next_event(w) : 0;
	return n;
}

uint64_t
leat_wheel_next(const struct leat_wheel *w)
{
	uint64_t next, at;
	struct first f;
	unsigned int l;

	/* If w->next is 0, timers may have expired, or the last run has reached its bound. */
	if (w->next == 0 || w->count == 0)
		return w->next;
	next = first_expiry(w);
	for (l = 1; l < w->levels; l++) {
		if (!level_first(w, l, &f))
			continue;
		if (!short_list(f.head, &at)) {
			next = RTE_MIN(next, sort_at(w, &f));
			continue;
		}
		/*
		 * A slot with few timers need not be sorted before the first of them expires. But
		 * if the slot after it has many timers, sorting those must start when the slot with
		 * few timers begins.
		 */
		next = RTE_MIN(next, at);
		if (slot_occupied(w, l, f.n + 1) &&
		    !short_list(&w->slot[l * LEAT_WHEEL_SLOTS + (f.n + 1) % LEAT_WHEEL_SLOTS], &at))
			next = RTE_MIN(next, f.tick << w->shift);
	}
	/* Neither time is later than the first expiry. */
	return RTE_MAX(next, w->next);
}
