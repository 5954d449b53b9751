/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_RAND_H
#define FAULT_RAND_H

/*
 * The random numbers behind the faults: xoshiro256** 1.0 (Blackman and Vigna,
 * https://prng.di.unimi.it). splitmix64 fills the generator's state from three inputs:
 *
 *     the device's seed, the endpoint's name or number, the kind of fault
 *
 * Each endpoint has streams of its own, so that one lcore's calls do not change the faults of
 * another. Each kind of fault has a stream of its own, so that, for example, switching refusals on
 * does not change the delays. All arithmetic is on integers, so that a seed gives the same faults
 * on every machine.
 */

#include <stdint.h>

#include <leat_common.h>

struct fault_rand {
	uint64_t s[4];
};

static inline uint64_t
fault_splitmix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline void
fault_rand_init(struct fault_rand *r, uint64_t seed, uint64_t endpoint, uint64_t kind)
{
	uint64_t x = seed;
	unsigned int i;

	/* Mix in one input after the other, so that (1, 2) and (2, 1) give different streams. */
	x = fault_splitmix(&x) ^ endpoint;
	x = fault_splitmix(&x) ^ kind;
	for (i = 0; i < 4; i++)
		r->s[i] = fault_splitmix(&x);
}

static inline uint64_t
fault_rotl(uint64_t x, unsigned int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t
fault_rand_next(struct fault_rand *r)
{
	uint64_t *s = r->s, result = fault_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = fault_rotl(s[3], 45);
	return result;
}

/* Draw a number from 0 to n - 1, n > 0, by multiply and shift; the bias is below n / 2^64. */
static inline uint64_t
fault_rand_below(struct fault_rand *r, uint64_t n)
{
	return (uint64_t)(((leat_u128)fault_rand_next(r) * n) >> 64);
}

/* Draw with a chance in units of 2^-32; 2^32 and more: always true. */
static inline bool
fault_rand_hit(struct fault_rand *r, uint64_t chance)
{
	return (fault_rand_next(r) >> 32) < chance;
}

#endif /* FAULT_RAND_H */
