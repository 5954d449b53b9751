/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_VALUE_H
#define REDB_VALUE_H

/*
 * Contents of values. A key's value is a window of one pool of random bytes. So no value is
 * generated or copied for a request, and any program that knows the seed can verify a value:
 *
 *     pool    |.......[ value of key 1 ].......|
 *             |..[ value of key 2 ]............|
 *
 * The values of 2^16 consecutive keys begin at different places of the pool.
 */

#include <stdint.h>

#define REDB_VALUE_PLACES 65536u

struct redb_values {
	uint8_t *pool; /* size + REDB_VALUE_PLACES bytes */
	uint64_t size; /* bytes of each value */
};

/* splitmix64, by S. Vigna: map a number to one that looks random. */
static inline uint64_t
redb_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Map a random number to one below n, uniformly. */
static inline uint64_t
redb_below(uint64_t random, uint64_t n)
{
	return (uint64_t)(((leat_u128)random * n) >> 64);
}

static inline const uint8_t *
redb_value(const struct redb_values *v, uint64_t key)
{
	/* An odd factor: consecutive keys have different places, far from each other. */
	return v->pool + ((key * 40503u) & (REDB_VALUE_PLACES - 1));
}

/* @return 0 or -ENOMEM */
int redb_values_create(struct redb_values *v, uint64_t size, uint64_t seed);
void redb_values_free(struct redb_values *v);

/* @return the first offset at which data differs from the key's value; UINT64_MAX: it is equal */
uint64_t redb_value_differs(const struct redb_values *v, uint64_t key, const void *data,
			    uint64_t len);

#endif /* REDB_VALUE_H */
