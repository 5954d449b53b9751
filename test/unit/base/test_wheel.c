/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_cmocka.h"

#include <stdlib.h>
#include <string.h>

#include <leat_wheel.h>

#define TICK 1024
#define TURN ((uint64_t)LEAT_WHEEL_SLOTS * TICK) /* a turn: all slots of level 0 */
#define START (UINT64_C(1000) * TURN + 17)
#define ALL UINT32_MAX

struct timer {
	struct leat_wheel_node node;
	unsigned int fired;
	unsigned int order; /* how many timers have fired, this one included */
};

static struct leat_wheel wheel;
static unsigned int fired;

static int
setup(void **state)
{
	(void)state;
	leat_wheel_init(&wheel, TICK, START);
	fired = 0;
	return 0;
}

static void
on_timer(struct leat_wheel_node *node, void *arg)
{
	struct timer *t = container_of(node, struct timer, node);

	assert_false(leat_wheel_queued(node));
	assert_ptr_equal(arg, &wheel);
	t->fired++;
	t->order = ++fired;
}

static unsigned int
run(uint64_t now)
{
	return leat_wheel_run(&wheel, now, on_timer, &wheel, ALL);
}

static void
test_empty(void **state)
{
	(void)state;
	assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
	assert_int_equal(run(START), 0);
	assert_int_equal(run(START + 10 * TURN), 0);
	assert_int_equal(run(UINT64_MAX - 1), 0);
	assert_int_equal(leat_wheel_count(&wheel), 0);
}

/* A timer fires once, exactly in the cycle of its expiry, wherever in a tick that cycle is. */
static void
test_fires_once_at_expiry(void **state)
{
	const uint64_t delays[] = {
		0,	     1,	       TICK - 18, TICK - 17, TICK,	   5 * TICK + 3,
		TURN - TICK, TURN - 1, TURN,	  TURN + 1,  3 * TURN + 5, 1000 * TURN
	};
	struct timer t = { .fired = 0 };
	uint64_t now = START;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(delays); i++) {
		uint64_t expiry = now + delays[i];

		leat_wheel_add(&wheel, &t.node, expiry);
		assert_true(leat_wheel_queued(&t.node));
		assert_true(leat_wheel_next(&wheel) <= expiry);
		if (delays[i] != 0)
			assert_int_equal(run(expiry - 1), 0);
		assert_int_equal(run(expiry), 1);
		assert_int_equal(t.fired, i + 1);
		assert_int_equal(run(expiry + 3 * TURN), 0);
		assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
		now = expiry + 3 * TURN;
	}
}

/*
 * While the clock advances in steps smaller than a tick, for several turns of the wheel, timers
 * fire in time and in order.
 */
static void
test_wraps(void **state)
{
	struct timer t[40];
	uint64_t now;
	unsigned int i;

	(void)state;
	memset(t, 0, sizeof(t));
	for (i = 0; i < RTE_DIM(t); i++)
		leat_wheel_add(&wheel, &t[i].node, START + (i + 1) * TURN / 8);
	for (now = START; now <= START + 5 * TURN; now += TICK / 4 + 1) {
		unsigned int due = (unsigned int)((now - START) * 8 / TURN);

		run(now);
		assert_int_equal(fired, due);
		if (due < RTE_DIM(t))
			assert_true(leat_wheel_next(&wheel) > now);
	}
	run(now);
	for (i = 0; i < RTE_DIM(t); i++) {
		assert_int_equal(t[i].fired, 1);
		assert_int_equal(t[i].order, i + 1);
	}
}

/*
 * When `now` jumps by more than a turn, all expired timers fire, and later timers stay.
 */
static void
test_jump(void **state)
{
	const uint64_t delays[] = {
		10, TURN / 2, TURN + 3, 7 * TURN, 7 * TURN + 2 * TICK, 9 * TURN
	};
	struct timer t[RTE_DIM(delays)];
	unsigned int i;

	(void)state;
	memset(t, 0, sizeof(t));
	for (i = 0; i < RTE_DIM(t); i++)
		leat_wheel_add(&wheel, &t[i].node, START + delays[i]);
	assert_int_equal(run(START + 7 * TURN + TICK), 4);
	for (i = 0; i < RTE_DIM(t); i++)
		assert_int_equal(t[i].fired, i < 4);
	assert_int_equal(leat_wheel_count(&wheel), 2);
	assert_int_equal(run(START + 7 * TURN + 2 * TICK), 1);
	assert_int_equal(run(START + 100 * TURN), 1);
	assert_int_equal(leat_wheel_count(&wheel), 0);
}

/* Timers that expire before the wheel's position fire in the next run, not a turn later. */
static void
test_behind_tick(void **state)
{
	const uint64_t expiries[] = { 0, 1, START - 5 * TURN, START - TICK, START - 1, START };
	struct timer t = { .fired = 0 };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(expiries); i++) {
		leat_wheel_add(&wheel, &t.node, expiries[i]);
		assert_int_equal(leat_wheel_next(&wheel), expiries[i]);
		assert_int_equal(run(START), 1);
		assert_int_equal(t.fired, i + 1);
	}
	/*
	 * The wheel has moved on: a timer whose expiry is before the wheel's new position fires in
	 * the next run, too.
	 */
	assert_int_equal(run(START + 3 * TURN / 2), 0);
	leat_wheel_add(&wheel, &t.node, START + TURN);
	assert_int_equal(run(START + 3 * TURN / 2), 1);
}

static void
test_time_goes_back(void **state)
{
	struct timer a = { .fired = 0 }, b = { .fired = 0 };

	(void)state;
	leat_wheel_add(&wheel, &a.node, START + 10);
	leat_wheel_add(&wheel, &b.node, START + 20 * TICK);
	assert_int_equal(run(START + 10 * TICK), 1);
	leat_wheel_add(&wheel, &a.node, START + 5 * TICK);
	assert_int_equal(run(START + 5 * TICK - 1), 0);
	assert_int_equal(run(START + 5 * TICK), 1);
	assert_int_equal(run(START), 0);
	assert_int_equal(run(START + 20 * TICK), 1);
	assert_int_equal(b.fired, 1);
}

static void
test_delete(void **state)
{
	struct timer t[3];
	unsigned int i;

	(void)state;
	memset(t, 0, sizeof(t));
	/* Deleting a timer that was never added does nothing. */
	leat_wheel_del(&wheel, &t[0].node);
	assert_int_equal(leat_wheel_count(&wheel), 0);

	/*
	 * Delete each of three timers in one slot: the first, the middle and the last of the list.
	 */
	for (i = 0; i < 3; i++) {
		unsigned int j;

		for (j = 0; j < 3; j++)
			leat_wheel_add(&wheel, &t[j].node, START + 100 + j);
		assert_int_equal(leat_wheel_count(&wheel), 3);
		leat_wheel_del(&wheel, &t[i].node);
		assert_false(leat_wheel_queued(&t[i].node));
		leat_wheel_del(&wheel, &t[i].node);
		assert_int_equal(leat_wheel_count(&wheel), 2);
		fired = 0;
		assert_int_equal(run(START + 200), 2);
		assert_int_equal(t[i].fired, i);
	}
	leat_wheel_add(&wheel, &t[0].node, START + 300);
	leat_wheel_del(&wheel, &t[0].node);
	assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
}

static void
test_add_again_moves(void **state)
{
	struct timer t = { .fired = 0 };

	(void)state;
	leat_wheel_add(&wheel, &t.node, START + 5);
	leat_wheel_add(&wheel, &t.node, START + 2 * TURN);
	assert_int_equal(leat_wheel_count(&wheel), 1);
	assert_int_equal(run(START + TURN), 0);
	leat_wheel_add(&wheel, &t.node, START + TURN + 7);
	assert_int_equal(run(START + TURN + 7), 1);
	assert_int_equal(run(START + 5 * TURN), 0);
	assert_int_equal(t.fired, 1);
}

static void
test_never(void **state)
{
	struct timer t = { .fired = 0 };

	(void)state;
	leat_wheel_add(&wheel, &t.node, UINT64_MAX);
	assert_int_equal(run(START + TURN), 0);
	assert_int_equal(run(UINT64_MAX - 1), 0);
	assert_int_equal(leat_wheel_count(&wheel), 1);
	leat_wheel_del(&wheel, &t.node);
	assert_int_equal(leat_wheel_count(&wheel), 0);
}

/*
 * A run calls at most `max` callbacks. The other expired timers fire in the next runs, and can be
 * deleted or moved before that; leat_wheel_next() says that they are due.
 */
static void
test_max(void **state)
{
	struct timer t[10];
	unsigned int i, n = 0;

	(void)state;
	memset(t, 0, sizeof(t));
	for (i = 0; i < 10; i++)
		leat_wheel_add(&wheel, &t[i].node, START + i * TICK);
	assert_int_equal(leat_wheel_run(&wheel, START + TURN, on_timer, &wheel, 0), 0);
	assert_int_equal(leat_wheel_run(&wheel, START + TURN, on_timer, &wheel, 4), 4);
	assert_int_equal(leat_wheel_count(&wheel), 6);
	assert_true(leat_wheel_next(&wheel) <= START + TURN);

	/* Delete the first, the last and a middle one of the waiting timers. */
	leat_wheel_del(&wheel, &t[4].node);
	leat_wheel_del(&wheel, &t[9].node);
	leat_wheel_del(&wheel, &t[6].node);
	assert_int_equal(leat_wheel_count(&wheel), 3);
	/* A waiting timer can also be moved to the future. */
	leat_wheel_add(&wheel, &t[8].node, START + 3 * TURN);
	assert_int_equal(leat_wheel_run(&wheel, START + TURN, on_timer, &wheel, 4), 2);
	assert_int_equal(run(START + 3 * TURN), 1);
	for (i = 0; i < 10; i++)
		n += t[i].fired;
	assert_int_equal(n, 7);
	assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
}

/*
 * Callbacks that change the wheel. Each timer of a group deletes or moves all the others, or
 * itself.
 */
struct meddler {
	struct leat_wheel_node node;
	enum { DEL_OTHERS, MOVE_OTHERS, READD_NOW, READD_LATER, DEL_SELF } what;
	unsigned int fired;
};

static struct meddler group[4];
static uint64_t group_now;

static void
on_meddler(struct leat_wheel_node *node, void *arg)
{
	struct meddler *m = container_of(node, struct meddler, node);
	unsigned int i;

	(void)arg;
	m->fired++;
	switch (m->what) {
	case DEL_OTHERS:
	case MOVE_OTHERS:
		for (i = 0; i < RTE_DIM(group); i++) {
			if (&group[i] == m)
				continue;
			if (m->what == DEL_OTHERS)
				leat_wheel_del(&wheel, &group[i].node);
			else
				leat_wheel_add(&wheel, &group[i].node, group_now + TURN);
		}
		break;
	case READD_NOW:
		leat_wheel_add(&wheel, node, group_now);
		break;
	case READD_LATER:
		leat_wheel_add(&wheel, node, group_now + 5);
		break;
	case DEL_SELF:
		leat_wheel_del(&wheel, node);
		break;
	}
}

static unsigned int
run_group(int what, uint64_t step)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(group); i++) {
		memset(&group[i], 0, sizeof(group[i]));
		group[i].what = what;
		leat_wheel_add(&wheel, &group[i].node, START + i * step);
	}
	group_now = START + RTE_DIM(group) * step;
	return leat_wheel_run(&wheel, group_now, on_meddler, NULL, ALL);
}

static void
test_callback_deletes_others(void **state)
{
	(void)state;
	assert_int_equal(run_group(DEL_OTHERS, 0), 1);
	assert_int_equal(leat_wheel_count(&wheel), 0);
	setup(NULL);
	assert_int_equal(run_group(DEL_OTHERS, TICK), 1);
	assert_int_equal(leat_wheel_count(&wheel), 0);
	assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
}

static void
test_callback_moves_others(void **state)
{
	(void)state;
	assert_int_equal(run_group(MOVE_OTHERS, TICK), 1);
	assert_int_equal(leat_wheel_count(&wheel), 3);
	assert_int_equal(leat_wheel_run(&wheel, group_now + TURN - 1, on_meddler, NULL, ALL), 0);
	assert_int_equal(leat_wheel_run(&wheel, group_now + TURN, on_meddler, NULL, 1), 1);
}

static void
test_callback_deletes_itself(void **state)
{
	(void)state;
	assert_int_equal(run_group(DEL_SELF, 1), RTE_DIM(group));
	assert_int_equal(leat_wheel_count(&wheel), 0);
}

/*
 * A timer that its callback adds again for the present does not fire again in the same run, but in
 * the next one.
 */
static void
test_callback_readds_itself(void **state)
{
	unsigned int i;

	(void)state;
	assert_int_equal(run_group(READD_NOW, 0), RTE_DIM(group));
	assert_true(leat_wheel_next(&wheel) <= group_now);
	for (i = 2; i < 10; i++) {
		assert_int_equal(leat_wheel_run(&wheel, group_now, on_meddler, NULL, ALL),
				 RTE_DIM(group));
		assert_int_equal(group[0].fired, i);
	}
	setup(NULL);
	assert_int_equal(run_group(READD_LATER, 3 * TICK), RTE_DIM(group));
	assert_int_equal(leat_wheel_run(&wheel, group_now + 4, on_meddler, NULL, ALL), 0);
	group_now += 5;
	assert_int_equal(leat_wheel_run(&wheel, group_now, on_meddler, NULL, ALL), RTE_DIM(group));
}

/* A thread that sleeps until leat_wheel_next() is never late, and wakes < 8 times per timer. */
static void
test_sleep_until_next(void **state)
{
	const uint64_t delays[] = { 3, TICK, 50 * TICK + 1, TURN + 9, 6 * TURN, 6 * TURN + 1 };
	struct timer t[RTE_DIM(delays)];
	unsigned int i, wakes = 0;

	(void)state;
	memset(t, 0, sizeof(t));
	for (i = 0; i < RTE_DIM(t); i++)
		leat_wheel_add(&wheel, &t[i].node, START + delays[i]);
	while (leat_wheel_count(&wheel) != 0) {
		uint64_t now = leat_wheel_next(&wheel);

		wakes++;
		run(now);
		for (i = 0; i < RTE_DIM(t); i++)
			assert_int_equal(t[i].fired, START + delays[i] <= now);
	}
	assert_true(wakes < RTE_DIM(t) * 8);
}

static void
test_tick_lengths(void **state)
{
	const uint64_t ticks[] = { 0, 1, 2, 1000, 1ULL << 40, 1ULL << 56, UINT64_MAX };
	struct timer t = { .fired = 0 };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(ticks); i++) {
		leat_wheel_init(&wheel, ticks[i], START);
		leat_wheel_add(&wheel, &t.node, START + 123456);
		assert_int_equal(run(START + 123455), 0);
		assert_int_equal(run(START + 123456), 1);
	}
}

#define RANDOM_TIMERS 500
#define RANDOM_STEPS 20000

/* A cleared wheel is empty, whichever lists held its timers, and can be used again. */
static void
test_clear(void **state)
{
	const uint64_t delays[] = { 0, TICK, TURN, 40 * TURN, 100000 * TURN, UINT64_MAX - START };
	struct timer t[3 + RTE_DIM(delays)];
	unsigned int i;

	(void)state;
	memset(t, 0, sizeof(t));
	leat_wheel_clear(&wheel);
	/* The run fires one timer, and leaves two in the list of those that are due. */
	for (i = 0; i < 3; i++)
		leat_wheel_add(&wheel, &t[i].node, START + 5 * TICK);
	assert_int_equal(leat_wheel_run(&wheel, START + 6 * TICK, on_timer, &wheel, 1), 1);
	for (; i < RTE_DIM(t); i++)
		leat_wheel_add(&wheel, &t[i].node, START + delays[i - 3]);
	assert_int_equal(leat_wheel_count(&wheel), RTE_DIM(t) - 1);
	leat_wheel_clear(&wheel);
	assert_int_equal(leat_wheel_count(&wheel), 0);
	assert_int_equal(leat_wheel_next(&wheel), UINT64_MAX);
	for (i = 0; i < RTE_DIM(t); i++)
		assert_false(leat_wheel_queued(&t[i].node));
	assert_int_equal(run(UINT64_MAX - 1), 0);
	assert_int_equal(fired, 1);

	leat_wheel_init(&wheel, TICK, START);
	leat_wheel_add(&wheel, &t[0].node, START + 40 * TURN);
	leat_wheel_clear(&wheel);
	leat_wheel_add(&wheel, &t[1].node, START + 40 * TURN + TICK);
	assert_int_equal(run(START + 41 * TURN), 1);
	assert_int_equal(t[1].fired + t[0].fired, 2);
}

/* The wheel fires the same timers as the obvious implementation, an array that is searched. */
static void
test_against_model(void **state)
{
	struct timer *t = calloc(RANDOM_TIMERS, sizeof(*t));
	uint64_t *expiry = calloc(RANDOM_TIMERS, sizeof(*expiry));
	uint64_t seed = 99, now = START;
	unsigned int i, step;

	(void)state;
	assert_non_null(t);
	assert_non_null(expiry);
	for (i = 0; i < RANDOM_TIMERS; i++)
		expiry[i] = UINT64_MAX;

	for (step = 0; step < RANDOM_STEPS; step++) {
		unsigned int due = 0, queued = 0, left;
		uint64_t first = UINT64_MAX;

		for (i = 0; i < 4; i++) {
			unsigned int k = (unsigned int)(test_random(&seed) % RANDOM_TIMERS);
			uint64_t r = test_random(&seed);

			if (r % 4 == 0) {
				leat_wheel_del(&wheel, &t[k].node);
				expiry[k] = UINT64_MAX;
			} else {
				/*
				 * From 2^10 cycles before now to 2^22 after it, short distances as
				 * likely as long ones.
				 */
				expiry[k] = now + ((r >> 32) & ((1U << (r >> 8) % 23) - 1)) -
					    (r >> 16) % TICK;
				leat_wheel_add(&wheel, &t[k].node, expiry[k]);
			}
		}
		now += test_random(&seed) % (step % 64 == 0 ? 3 * TURN : 2 * TICK);
		for (i = 0; i < RANDOM_TIMERS; i++) {
			t[i].fired = 0;
			due += expiry[i] <= now;
			queued += expiry[i] != UINT64_MAX;
			first = RTE_MIN(first, expiry[i]);
		}
		assert_int_equal(leat_wheel_count(&wheel), queued);
		assert_true(leat_wheel_next(&wheel) <= first);

		left = due;
		while (left > 0) {
			unsigned int n = leat_wheel_run(&wheel, now, on_timer, &wheel, 3);

			assert_int_equal(n, RTE_MIN(left, 3U));
			left -= n;
		}
		assert_int_equal(run(now), 0);
		for (i = 0; i < RANDOM_TIMERS; i++) {
			assert_int_equal(t[i].fired, expiry[i] <= now);
			if (expiry[i] <= now)
				expiry[i] = UINT64_MAX;
			assert_int_equal(leat_wheel_queued(&t[i].node), expiry[i] != UINT64_MAX);
		}
	}
	free(t);
	free(expiry);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_empty),
		CASE(test_fires_once_at_expiry),
		CASE(test_wraps),
		CASE(test_jump),
		CASE(test_behind_tick),
		CASE(test_time_goes_back),
		CASE(test_delete),
		CASE(test_add_again_moves),
		CASE(test_never),
		CASE(test_max),
		CASE(test_callback_deletes_others),
		CASE(test_callback_moves_others),
		CASE(test_callback_deletes_itself),
		CASE(test_callback_readds_itself),
		CASE(test_sleep_until_next),
		CASE(test_tick_lengths),
		CASE(test_clear),
		CASE(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
