/* SPDX-License-Identifier: BSD-3-Clause */

#include <time.h>

#include <rte_pause.h>

#include "leat_time.h"

/* Length of the TSC measurement when EAL has not made one, nanoseconds. */
#define MEASURE_NS UINT64_C(10000000)

const volatile uint64_t *leat_clock_mock;
struct leat_time_factors leat_time_factors;

static uint64_t
monotonic_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Both clocks are read at both ends, and only their ratio is used. So if this thread is descheduled
 * in between, the measurement takes longer, but is not wrong. */
static uint64_t
measure_hz(void)
{
	uint64_t ns0 = monotonic_ns();
	uint64_t tsc0 = rte_rdtsc();
	uint64_t ns, tsc;

	do {
		rte_pause();
		ns = monotonic_ns() - ns0;
		tsc = rte_rdtsc() - tsc0;
	} while (ns != 0 && ns < MEASURE_NS);

	/* Without a working clock, return a rate that at least keeps the conversions monotonic. */
	if (ns == 0 || tsc == 0)
		return NS_PER_S;
	return (uint64_t)((leat_u128)tsc * NS_PER_S / ns);
}

static void
set_factors(uint64_t hz)
{
	struct leat_time_factors *f = &leat_time_factors;
	leat_u128 us = ((leat_u128)hz << LEAT_TIME_US_SHIFT) / US_PER_S;
	leat_u128 ns = ((leat_u128)NS_PER_S << LEAT_TIME_NS_SHIFT) / hz;

	/* Relaxed: see leat_time_factor(). */
	__atomic_store_n(&f->cycles_per_us, (uint64_t)us, __ATOMIC_RELAXED);
	__atomic_store_n(&f->ns_per_cycle, (uint64_t)ns, __ATOMIC_RELAXED);
	__atomic_store_n(&f->hz, hz, __ATOMIC_RELAXED);
}

void
leat_time_init(void)
{
	uint64_t hz;

	if (leat_clock_mock != NULL) {
		set_factors(LEAT_CLOCK_MOCK_HZ);
		return;
	}
	hz = rte_get_tsc_hz();
	if (hz == 0)
		hz = measure_hz();
	set_factors(hz);
}

void
leat_clock_mock_set(const volatile uint64_t *cycles)
{
	leat_clock_mock = cycles;
	leat_time_init();
}
