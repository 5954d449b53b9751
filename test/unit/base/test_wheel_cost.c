/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of the wheel, counted in steps (LEAT_WHEEL_STEPS in leat_wheel.h), with a million
 * timers, and for a loop that sleeps.
 */

#include "leat_cmocka.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <leat_wheel.h>

/* In cycles at 2 GHz; a tick is 32 us. */
#define US UINT64_C(2000)
#define MS (1000 * US)
#define S (1000 * MS)
#define TICK (32 * US)
#define START ((UINT64_C(1) << 47) - 5 * S)
#define MILLION 1000000U
#define BURST 200000U
/* Timers per run, as in the reactor. */
#define PER_RUN 64

static struct leat_wheel wheel;
static struct leat_wheel_node *many;
static struct leat_wheel_node probe;
static uint64_t now, late_max, seed;
static unsigned int fired, probes;

static int
setup(void **state)
{
	(void)state;
	many = mmap(NULL, MILLION * sizeof(*many), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(many, MAP_FAILED);
	memset(&probe, 0, sizeof(probe));
	now = START;
	leat_wheel_init(&wheel, TICK, now);
	late_max = 0;
	fired = 0;
	probes = 0;
	seed = 13;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return munmap(many, MILLION * sizeof(*many));
}

static void
on_timer(struct leat_wheel_node *node, void *arg)
{
	(void)arg;
	late_max = RTE_MAX(late_max, now - node->expiry);
	if (node == &probe) {
		probes++;
		leat_wheel_add(&wheel, &probe, node->expiry + MS);
		return;
	}
	fired++;
}

static unsigned int
run(void)
{
	return leat_wheel_run(&wheel, now, on_timer, NULL, PER_RUN);
}

static void
add_many(unsigned int n, uint64_t from, uint64_t range)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		leat_wheel_add(&wheel, &many[i], now + from + test_random(&seed) % range);
}

/*
 * Distant timers are not even read while a timer of 1 ms fires beside them. The test makes their
 * memory unreadable meanwhile.
 */
static void
test_far_timers_are_not_touched(void **state)
{
	size_t size = MILLION * sizeof(*many);
	uint64_t end = now + 900 * MS;

	(void)state;
	add_many(MILLION, 30 * S, S);
	leat_wheel_add(&wheel, &probe, now + MS);
	assert_int_equal(mprotect(many, size, PROT_NONE), 0);
	for (; now < end; now += 5 * US)
		run();
	assert_int_equal(mprotect(many, size, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(fired, 0);
	assert_in_range(probes, 899, 900);
	assert_in_range(late_max, 0, 5 * US);
}

/* A timer moves at most once per level until it fires, whatever the number of runs. */
static void
test_a_life_is_a_few_steps(void **state)
{
	const unsigned int n = 100000;
	uint64_t end = now + 33 * S;

	(void)state;
	add_many(n, 30 * S, S);
	for (; now < end; now += 10 * US)
		run();
	assert_int_equal(fired, n);
	assert_in_range(late_max, 0, 10 * US);
	/*
	 * Per timer: a step on each of three levels, and a visit of the slot from which it fires.
	 */
	assert_in_range(wheel.steps, n, 5 * n);
}

/*
 * Timers that are postponed again and again, as idle timeouts of connections are, cost no step at
 * all.
 */
static void
test_pushed_back(void **state)
{
	unsigned int i, n = 10000, round;

	(void)state;
	add_many(n, 30 * S, 1);
	for (round = 0; round < 200; round++) {
		now += MS;
		run();
		for (i = 0; i < n; i++)
			leat_wheel_add(&wheel, &many[i], now + 30 * S);
	}
	assert_int_equal(fired, 0);
	assert_int_equal(wheel.steps, 0);
	assert_int_equal(leat_wheel_count(&wheel), n);
}

/*
 * Let BURST timers expire within `range` cycles of each other. No run takes more than its limit of
 * steps, and `probe`, a timer of 1 ms, is at most 10 us late before the burst expires.
 */
static void
burst(uint64_t range)
{
	uint64_t expiry = now + 2500 * MS;
	unsigned int runs = 0;

	add_many(BURST, 2500 * MS, range);
	leat_wheel_add(&wheel, &probe, now + MS);
	while (fired < BURST) {
		uint64_t steps = wheel.steps;

		assert_true(run() <= PER_RUN);
		assert_in_range(wheel.steps - steps, 0, 2 * LEAT_WHEEL_STEPS);
		if (now < expiry)
			assert_in_range(late_max, 0, 10 * US);
		now += leat_wheel_due(&wheel) <= now ? US : 10 * US;
		runs++;
	}
	assert_in_range(wheel.steps, 0, 6 * BURST);
	/* A run fires PER_RUN timers and takes 1 us. Nothing else delays the last timer. */
	assert_in_range(late_max, 0, (uint64_t)BURST / PER_RUN * 2 * US);
	assert_in_range(runs, BURST / PER_RUN, 2 * MILLION);
}

static void
test_burst_in_a_slot(void **state)
{
	(void)state;
	burst(S);
}

static void
test_burst_in_a_tick(void **state)
{
	(void)state;
	burst(TICK);
}

static void
test_burst_at_once(void **state)
{
	(void)state;
	burst(1);
}

/*
 * When the clock jumps by hours over a million timers, runs stay bounded, and timers fire in the
 * order of ticks.
 */
static uint64_t last_tick;

static void
in_order(struct leat_wheel_node *node, void *arg)
{
	(void)arg;
	assert_true(node->expiry >> wheel.shift >= last_tick);
	last_tick = node->expiry >> wheel.shift;
	fired++;
}

static void
test_jump(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < MILLION; i++)
		leat_wheel_add(&wheel, &many[i], now + (test_random(&seed) >> (20 + i % 40)));
	last_tick = 0;
	now += UINT64_C(1) << 44;
	while (leat_wheel_due(&wheel) <= now) {
		uint64_t steps = wheel.steps;

		(void)leat_wheel_run(&wheel, now, in_order, NULL, PER_RUN);
		assert_in_range(wheel.steps - steps, 0, 2 * LEAT_WHEEL_STEPS);
	}
	assert_int_equal(fired, MILLION);
}

/*
 * After a run that reached its limit, leat_wheel_late() is true only if expired timers may be left,
 * not if there are only timers to sort.
 */
static void
test_late(void **state)
{
	unsigned int runs, i, expired = 0;

	(void)state;
	assert_false(leat_wheel_late(&wheel, now));
	add_many(BURST, 3 * MS, 20 * MS);
	assert_false(leat_wheel_late(&wheel, now));
	now += 10 * MS;
	for (i = 0; i < BURST; i++)
		expired += many[i].expiry <= now;
	for (runs = 0; leat_wheel_late(&wheel, now); runs++)
		run();
	assert_int_equal(fired, expired);
	/*
	 * Each timer was sorted at most once, and visited once more if its tick is the present one.
	 */
	assert_in_range(runs, expired / PER_RUN, expired / PER_RUN + BURST / LEAT_WHEEL_STEPS + 2);

	/* No timer expires here. Many runs only sort the slots ahead, so the wheel is not late. */
	add_many(BURST, 40 * MS, 20 * MS);
	fired = 0;
	for (now += MS; run() == 0 && leat_wheel_due(&wheel) > now; now += 100 * US)
		;
	assert_int_equal(leat_wheel_due(&wheel), 0);
	assert_false(leat_wheel_late(&wheel, now));
}

/* A loop that sleeps until leat_wheel_next() wakes once per expiry while timers are few. */
static void
test_sleeper_wakes_once(void **state)
{
	static const uint64_t delays[] = { 100 * S,    3 * US,	       MS, 40 * S, 3600 * S,
					   40 * S + 1, 365 * 86400 * S };
	unsigned int i, wakes = 0;

	(void)state;
	for (i = 0; i < RTE_DIM(delays); i++) {
		leat_wheel_add(&wheel, &many[i], now + delays[i]);
		/* A deleted timer does not wake the loop. */
		leat_wheel_add(&wheel, &many[100], now + delays[i] / 2);
		leat_wheel_del(&wheel, &many[100]);
	}
	while (leat_wheel_count(&wheel) > 0) {
		now = leat_wheel_next(&wheel);
		assert_int_equal(run(), 1);
		assert_int_equal(late_max, 0);
		wakes++;
	}
	assert_int_equal(wakes, RTE_DIM(delays));
}

/*
 * With many timers in a slot the loop also wakes to sort them, at most once per level. After such a
 * wake-up it may need several runs.
 */
static void
test_sleeper_among_many(void **state)
{
	const unsigned int n = 100000;
	unsigned int wakes = 0, runs = 0;

	(void)state;
	add_many(n, 100 * S, 1);
	while (fired < n) {
		uint64_t next = leat_wheel_next(&wheel);

		if (next > now) {
			now = next;
			wakes++;
		}
		run();
		runs++;
	}
	assert_int_equal(late_max, 0);
	assert_in_range(wakes, 1, LEAT_WHEEL_LEVELS);
	assert_in_range(runs, n / PER_RUN, 5 * n / PER_RUN);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_far_timers_are_not_touched),
		CASE(test_a_life_is_a_few_steps),
		CASE(test_pushed_back),
		CASE(test_burst_in_a_slot),
		CASE(test_burst_in_a_tick),
		CASE(test_burst_at_once),
		CASE(test_jump),
		CASE(test_late),
		CASE(test_sleeper_wakes_once),
		CASE(test_sleeper_among_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
