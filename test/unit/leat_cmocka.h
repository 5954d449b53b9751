/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_CMOCKA_H
#define LEAT_CMOCKA_H

/* cmocka.h requires these headers before it, in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * A small random number generator (xorshift64*, G. Marsaglia and S. Vigna). The same first state
 * gives the same sequence in each run, on each machine. The state must not be 0.
 */
static inline uint64_t
test_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}

#endif /* LEAT_CMOCKA_H */
