/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TIME_H
#define LEAT_TIME_H

/**
 * @file
 * Time in TSC cycles, and conversions. The conversions multiply by fixed-point factors that are
 * computed once; there is no division on the fast path.
 *
 * A test can replace the clock by a variable (leat_clock_mock_set()): leat_now() then returns that
 * variable, and a cycle is a nanosecond.
 */

#include <rte_cycles.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Cycles per second while a mock clock is set. */
#define LEAT_CLOCK_MOCK_HZ UINT64_C(1000000000)

/** Mock clock: leat_now() reads it instead of the TSC if not NULL. Set by leat_clock_mock_set(). */
LEAT_API extern const volatile uint64_t *leat_clock_mock;

/** Private: fraction bits of leat_time_factors.cycles_per_us. */
#define LEAT_TIME_US_SHIFT 32
/** Private: fraction bits of leat_time_factors.ns_per_cycle. */
#define LEAT_TIME_NS_SHIFT 48

/** Conversion factors; private to the inline functions below. 0 until computed. */
struct leat_time_factors {
	uint64_t hz;		/**< cycles per second */
	uint64_t cycles_per_us; /**< cycles per microsecond, << LEAT_TIME_US_SHIFT */
	uint64_t ns_per_cycle;	/**< nanoseconds per cycle, << LEAT_TIME_NS_SHIFT */
};

/** Private: the conversion factors of the process, set by leat_time_init(). */
LEAT_API extern struct leat_time_factors leat_time_factors;

/**
 * Compute the conversion factors: from the mock clock's rate if one is set, else from EAL's TSC
 * rate, else (before rte_eal_init()) from a measurement against CLOCK_MONOTONIC that takes about
 * 10 ms. leat_init() calls this; the conversions call it if leat_init() did not. Any thread.
 */
LEAT_API void leat_time_init(void);

/**
 * Replace the clock by a variable, or with NULL use the real clock again. For tests; no other
 * thread may use the clock meanwhile.
 *
 * @param cycles
 *   The clock, LEAT_CLOCK_MOCK_HZ cycles per second. It must outlive its use.
 */
LEAT_API void leat_clock_mock_set(const volatile uint64_t *cycles);

/** Get the time, in cycles. Any thread. */
static inline uint64_t
leat_now(void)
{
	const volatile uint64_t *mock = leat_clock_mock;

	if (unlikely(mock != NULL))
		return *mock;
	return rte_rdtsc();
}

/* Several threads may compute a factor on first use. No factor depends on another, and all writers
 * store the same value, so relaxed order is enough. */
static inline uint64_t
leat_time_factor(const uint64_t *factor)
{
	uint64_t f = __atomic_load_n(factor, __ATOMIC_RELAXED);

	if (unlikely(f == 0)) {
		leat_time_init();
		f = __atomic_load_n(factor, __ATOMIC_RELAXED);
	}
	return f;
}

/** Get the number of cycles per second. Any thread. */
static inline uint64_t
leat_hz(void)
{
	return leat_time_factor(&leat_time_factors.hz);
}

/* Return value * factor >> shift, UINT64_MAX if that exceeds 64 bits. */
static inline uint64_t
leat_time_mul(uint64_t value, uint64_t factor, unsigned int shift)
{
	leat_u128 p = ((leat_u128)value * factor) >> shift;

	return likely((p >> 64) == 0) ? (uint64_t)p : UINT64_MAX;
}

/**
 * Convert microseconds to cycles, rounded down (relative error below 1e-9). UINT64_MAX if the
 * result exceeds 64 bits. Any thread.
 */
static inline uint64_t
leat_us_to_cycles(uint64_t us)
{
	return leat_time_mul(us, leat_time_factor(&leat_time_factors.cycles_per_us),
			     LEAT_TIME_US_SHIFT);
}

/**
 * Convert cycles to nanoseconds, rounded down (relative error below 1e-9). UINT64_MAX if the
 * result exceeds 64 bits. Any thread.
 */
static inline uint64_t
leat_cycles_to_ns(uint64_t cycles)
{
	return leat_time_mul(cycles, leat_time_factor(&leat_time_factors.ns_per_cycle),
			     LEAT_TIME_NS_SHIFT);
}

/** Add cycles to a time; UINT64_MAX (never) if the sum exceeds 64 bits. */
static inline uint64_t
leat_time_add(uint64_t time, uint64_t cycles)
{
	uint64_t sum;

	return __builtin_add_overflow(time, cycles, &sum) ? UINT64_MAX : sum;
}

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TIME_H */
