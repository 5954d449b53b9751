/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdlib.h>

#include <rte_common.h>

#include "reactor_test.h"

struct tick {
	struct leat_timer timer;
	struct leat_reactor *r;
	unsigned int fired;
	uint64_t now;
	enum { NOTHING, STOP_SELF, RESTART, STOP_OTHER, FREE_OTHER } what;
	struct tick *other;
};

static void
on_tick(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct tick *t = arg;

	assert_ptr_equal(timer, &t->timer);
	assert_ptr_equal(leat_reactor_self(), t->r);
	t->fired++;
	t->now = now;
	switch (t->what) {
	case NOTHING:
		break;
	case STOP_SELF:
		leat_timer_stop(timer);
		break;
	case RESTART:
		leat_timer_start(t->r, timer, 5);
		break;
	case STOP_OTHER:
		leat_timer_stop(&t->other->timer);
		break;
	case FREE_OTHER:
		if (t->other != NULL) {
			leat_timer_stop(&t->other->timer);
			free(t->other);
			t->other = NULL;
		}
		break;
	}
}

static void
tick_init(struct tick *t, struct leat_reactor *r)
{
	memset(t, 0, sizeof(*t));
	t->r = r;
	leat_timer_init(&t->timer, on_tick, t);
}

static void
test_one_shot(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct leat_reactor_stats s;
	struct tick t;

	(void)state;
	tick_init(&t, r);
	assert_false(leat_timer_active(&t.timer));
	leat_timer_stop(&t.timer);
	leat_timer_start(r, &t.timer, 1000);
	assert_true(leat_timer_active(&t.timer));
	test_turns(r, 200);
	test_clock += 1000 * US - 1;
	assert_int_equal(leat_reactor_turn(r), 0);
	assert_int_equal(t.fired, 0);
	/*
	 * The timer fires exactly when due, in the very first turn, whatever the interval of
	 * housekeeping.
	 */
	test_clock += 1;
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(t.fired, 1);
	assert_int_equal(t.now, test_clock);
	assert_false(leat_timer_active(&t.timer));
	test_clock += 10000 * US;
	test_turns(r, 100);
	assert_int_equal(t.fired, 1);

	leat_timer_start(r, &t.timer, 0);
	test_turns(r, 1);
	assert_int_equal(t.fired, 2);
	leat_timer_start_at(r, &t.timer, test_clock + 7);
	test_clock += 7;
	test_turns(r, 1);
	assert_int_equal(t.fired, 3);
	/* A timer with an expiry in the past fires in the next turn; one of UINT64_MAX us never. */
	leat_timer_start_at(r, &t.timer, 1);
	test_turns(r, 1);
	assert_int_equal(t.fired, 4);
	leat_timer_start(r, &t.timer, UINT64_MAX);
	test_clock += UINT64_MAX / 2;
	test_turns(r, 70);
	assert_int_equal(t.fired, 4);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.timers, 4);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_move_and_stop(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct tick t;

	(void)state;
	tick_init(&t, r);
	leat_timer_start(r, &t.timer, 100);
	leat_timer_start(r, &t.timer, 300);
	test_clock += 200 * US;
	test_turns(r, 2);
	assert_int_equal(t.fired, 0);
	leat_timer_start(r, &t.timer, 10);
	test_clock += 10 * US;
	test_turns(r, 2);
	assert_int_equal(t.fired, 1);
	leat_timer_start(r, &t.timer, 10);
	leat_timer_stop(&t.timer);
	test_clock += 1000 * US;
	test_turns(r, 2);
	assert_int_equal(t.fired, 1);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_periodic(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	uint64_t start = test_clock;
	struct tick t;
	unsigned int i;

	(void)state;
	tick_init(&t, r);
	leat_timer_start_periodic(r, &t.timer, 1000);
	/* Turns come every 700 us, so the timer fires late, but still once per 1000 us. */
	for (i = 1; i <= 500; i++) {
		test_clock = start + i * 700 * US;
		test_turns(r, 1);
		assert_int_equal(t.fired, i * 700 / 1000);
		assert_true(leat_timer_active(&t.timer));
	}
	/* When ten expiries were missed, the timer is called once, and a new phase begins. */
	test_clock += 10300 * US;
	test_turns(r, 3);
	assert_int_equal(t.fired, 351);
	test_clock += 999 * US;
	test_turns(r, 1);
	assert_int_equal(t.fired, 351);
	test_clock += 1 * US;
	test_turns(r, 1);
	assert_int_equal(t.fired, 352);
	/* leat_timer_start() makes the periodic timer one-shot. */
	leat_timer_start(r, &t.timer, 1);
	test_clock += 5000 * US;
	test_turns(r, 5);
	assert_int_equal(t.fired, 353);
	assert_false(leat_timer_active(&t.timer));
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_from_callbacks(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct tick a, b, *heap = malloc(sizeof(*heap));
	unsigned int i;

	(void)state;
	assert_non_null(heap);
	tick_init(&a, r);
	a.what = STOP_SELF;
	leat_timer_start_periodic(r, &a.timer, 10);
	for (i = 0; i < 5; i++) {
		test_clock += 10 * US;
		test_turns(r, 1);
	}
	assert_int_equal(a.fired, 1);

	tick_init(&a, r);
	a.what = RESTART;
	leat_timer_start(r, &a.timer, 5);
	for (i = 0; i < 5; i++) {
		test_clock += 5 * US;
		test_turns(r, 1);
	}
	assert_int_equal(a.fired, 5);
	leat_timer_stop(&a.timer);

	/* a and b have both expired: the one that fires first stops the other. */
	tick_init(&a, r);
	tick_init(&b, r);
	a.what = b.what = STOP_OTHER;
	a.other = &b;
	b.other = &a;
	leat_timer_start(r, &a.timer, 3);
	leat_timer_start(r, &b.timer, 3);
	test_clock += 5 * US;
	test_turns(r, 3);
	assert_int_equal(a.fired + b.fired, 1);

	tick_init(heap, r);
	tick_init(&a, r);
	a.what = FREE_OTHER;
	a.other = heap;
	leat_timer_start(r, &a.timer, 1);
	leat_timer_start(r, &heap->timer, 100);
	test_clock += 1000 * US;
	test_turns(r, 3);
	assert_int_equal(a.fired, 1);
	assert_null(a.other);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/*
 * More timers expire at once than one turn fires: none is lost, and pollers are called in between.
 */
static void
test_many(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct tick *t = calloc(1000, sizeof(*t));
	struct test_poller p = { 0 };
	unsigned int i, turns = 0;

	(void)state;
	assert_non_null(t);
	test_poller_add(r, &p, "p", 0);
	for (i = 0; i < 1000; i++) {
		tick_init(&t[i], r);
		leat_timer_start(r, &t[i].timer, i / 100);
	}
	test_clock += 1000 * US;
	while (leat_reactor_turn(r) == 1)
		turns++;
	assert_in_range(turns, 1000 / 64, 1000 / 64 + 1);
	assert_int_equal(p.calls, turns + 1);
	for (i = 0; i < 1000; i++)
		assert_int_equal(t[i].fired, 1);
	free(t);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* Each reactor has its own wheel. */
static void
test_two_reactors(void **state)
{
	struct leat_reactor *r[2] = { test_reactor("a"), test_reactor("b") };
	struct tick t[2];

	(void)state;
	tick_init(&t[0], r[0]);
	tick_init(&t[1], r[1]);
	leat_timer_start(r[0], &t[0].timer, 10);
	leat_timer_start(r[1], &t[1].timer, 20);
	test_clock += 30 * US;
	test_turns(r[1], 1);
	assert_int_equal(t[0].fired, 0);
	assert_int_equal(t[1].fired, 1);
	test_turns(r[0], 1);
	assert_int_equal(t[0].fired, 1);
	assert_int_equal(leat_reactor_destroy(r[0]), 0);
	assert_int_equal(leat_reactor_destroy(r[1]), 0);
}

/*
 * A reactor is destroyed with started timers: their owners may stop them, or start them on another
 * reactor, afterwards.
 */
static void
test_outlive_reactor(void **state)
{
	struct leat_reactor *r = test_reactor("gone"), *next = test_reactor("next");
	static const uint64_t delays[] = { 0, 10, 5000, UINT64_MAX };
	struct tick t[2 * RTE_DIM(delays)];
	struct test_poller p = { 0 };
	unsigned int i;

	(void)state;
	test_poller_add(r, &p, "p", 1000);
	for (i = 0; i < RTE_DIM(t); i++) {
		tick_init(&t[i], r);
		leat_timer_start(r, &t[i].timer, delays[i / 2]);
	}
	leat_timer_start_periodic(r, &t[2].timer, 1000);
	assert_int_equal(leat_reactor_destroy(r), 0);
	for (i = 0; i < RTE_DIM(t); i++) {
		assert_false(leat_timer_active(&t[i].timer));
		leat_timer_stop(&t[i].timer);
		t[i].r = next;
		if (i % 2 == 0)
			leat_timer_start(next, &t[i].timer, 1);
	}
	test_clock += 10000 * US;
	test_turns(next, 3);
	for (i = 0; i < RTE_DIM(t); i++)
		assert_int_equal(t[i].fired, i % 2 == 0);
	assert_int_equal(p.calls, 0);
	assert_int_equal(leat_reactor_destroy(next), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_one_shot),	    CASE(test_move_and_stop), CASE(test_periodic),
		CASE(test_from_callbacks),  CASE(test_many),	      CASE(test_two_reactors),
		CASE(test_outlive_reactor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
