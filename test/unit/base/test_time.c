/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_cmocka.h"

#include <pthread.h>
#include <time.h>

#include <leat_time.h>

static uint64_t
monotonic_ns(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

#define THREADS 4

static pthread_barrier_t barrier;

static void *
first_use(void *arg)
{
	uint64_t *hz = arg;

	pthread_barrier_wait(&barrier);
	*hz = leat_us_to_cycles(US_PER_S);
	return NULL;
}

/*
 * Must be the first test, because the factors must not be computed yet: several threads need them
 * at once, and each gets the right ones.
 */
static void
test_first_use_by_several_threads(void **state)
{
	pthread_t thread[THREADS];
	uint64_t hz[THREADS];
	int i;

	(void)state;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, first_use, &hz[i]), 0);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_true(hz[i] > UINT64_C(100000000) && hz[i] < UINT64_C(10000000000));
	}
	assert_int_equal(pthread_barrier_destroy(&barrier), 0);
}

static void
test_measured_rate(void **state)
{
	uint64_t outer0, inner0, tsc0, outer, inner, tsc;

	(void)state;
	/*
	 * EAL is not initialized, so the rate was measured. A span of one clock lies between two
	 * spans of the other clock, even if this thread loses the CPU between the readings.
	 */
	assert_int_equal(rte_get_tsc_hz(), 0);
	outer0 = monotonic_ns();
	tsc0 = leat_now();
	inner0 = monotonic_ns();
	do {
		inner = monotonic_ns() - inner0;
	} while (inner < 50000000);
	tsc = leat_cycles_to_ns(leat_now() - tsc0);
	outer = monotonic_ns() - outer0;
	assert_true(tsc <= outer + outer / 10);
	assert_true(tsc + tsc / 10 >= inner);
}

static void
test_real_conversions(void **state)
{
	uint64_t hz = leat_hz(), us, back;

	(void)state;
	assert_int_equal(leat_us_to_cycles(0), 0);
	assert_int_equal(leat_cycles_to_ns(0), 0);
	/*
	 * After a conversion from us to cycles and back, the difference is at most the rounding of
	 * both conversions.
	 */
	for (us = 1; us < UINT64_C(1) << 40; us = us * 7 + 3) {
		back = leat_cycles_to_ns(leat_us_to_cycles(us));
		assert_true(back <= us * 1000 + us / 1000000 + 1);
		assert_true(back + us / 1000000 + 1 + NS_PER_S / hz + 1 >= us * 1000);
	}
}

static void
test_mock_clock(void **state)
{
	volatile uint64_t clock = 12345;
	uint64_t before, after;

	(void)state;
	leat_clock_mock_set(&clock);
	assert_int_equal(leat_now(), 12345);
	clock += 10;
	assert_int_equal(leat_now(), 12355);
	clock = 0;
	assert_int_equal(leat_now(), 0);

	/* At the mock clock's rate, a cycle is a nanosecond. */
	assert_int_equal(leat_hz(), LEAT_CLOCK_MOCK_HZ);
	assert_int_equal(leat_us_to_cycles(1), 1000);
	assert_int_equal(leat_us_to_cycles(UINT64_C(3600000000)), UINT64_C(3600000000000));
	assert_int_equal(leat_cycles_to_ns(1), 1);
	assert_int_equal(leat_cycles_to_ns(UINT64_MAX), UINT64_MAX);
	/* Init under a mock clock keeps its rate. */
	leat_time_init();
	assert_int_equal(leat_hz(), LEAT_CLOCK_MOCK_HZ);

	leat_clock_mock_set(NULL);
	before = rte_rdtsc();
	after = leat_now();
	assert_true(after >= before);
	/* The measured rate again, within the rounding of the conversions. */
	assert_in_range(leat_us_to_cycles(US_PER_S), leat_hz() - leat_hz() / 100000000,
			leat_hz() + leat_hz() / 100000000);
}

static void
test_saturation(void **state)
{
	volatile uint64_t clock = 0;

	(void)state;
	leat_clock_mock_set(&clock);
	assert_int_equal(leat_us_to_cycles(UINT64_MAX), UINT64_MAX);
	assert_int_equal(leat_us_to_cycles(UINT64_MAX / 1000), UINT64_MAX / 1000 * 1000);
	assert_int_equal(leat_us_to_cycles(UINT64_MAX / 1000 + 1), UINT64_MAX);
	leat_clock_mock_set(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_use_by_several_threads),
		cmocka_unit_test(test_measured_rate),
		cmocka_unit_test(test_real_conversions),
		cmocka_unit_test(test_mock_clock),
		cmocka_unit_test(test_saturation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
