/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_PATTERN_H
#define CT_PATTERN_H

/*
 * The data of the tests. Word j of a pattern with seed s is mix(s ^ j * GOLDEN): no two places of
 * one pattern, and no two patterns, look alike, so a lost, duplicate, shifted or foreign byte
 * shows. mix() can be inverted, so that the first word of a message tells which message it is.
 *
 * mix() is the finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom
 * Number Generators, 2014), with D. Stafford's constants.
 */

#include <stdint.h>
#include <string.h>

#define CT_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t
ct_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint64_t
ct_unmix(uint64_t x)
{
	x ^= x >> 31 ^ x >> 62;
	x *= UINT64_C(0x319642b2d24d8ec3);
	x ^= x >> 27 ^ x >> 54;
	x *= UINT64_C(0x96de1b173f119089);
	return x ^ x >> 30 ^ x >> 60;
}

static inline uint64_t
ct_word(uint64_t seed, uint64_t j)
{
	return ct_mix(seed ^ j * CT_GOLDEN);
}

/* Return the next number of a sequence; any state is valid. */
static inline uint64_t
ct_random(uint64_t *state)
{
	*state += CT_GOLDEN;
	return ct_mix(*state);
}

static inline uint8_t
ct_byte(uint64_t seed, uint64_t pos)
{
	return (uint8_t)(ct_word(seed, pos >> 3) >> (pos & 7) * 8);
}

/* Write bytes [off, off + len) of the pattern to buf. */
static inline void
ct_fill(void *buf, uint64_t len, uint64_t seed, uint64_t off)
{
	uint8_t *p = buf;
	uint64_t w;

	for (; len > 0 && (off & 7) != 0; len--)
		*p++ = ct_byte(seed, off++);
	for (; len >= 8; len -= 8, off += 8, p += 8) {
		w = ct_word(seed, off >> 3);
		memcpy(p, &w, 8);
	}
	for (; len > 0; len--)
		*p++ = ct_byte(seed, off++);
}

/* @return the offset in buf of the first wrong byte, or -1 */
static inline int64_t
ct_verify(const void *buf, uint64_t len, uint64_t seed, uint64_t off)
{
	const uint8_t *start = buf, *p = buf, *end = p + len;
	uint64_t w, want;

	while (p < end) {
		if ((off & 7) == 0 && end - p >= 8) {
			want = ct_word(seed, off >> 3);
			memcpy(&w, p, 8);
			if (w == want) {
				p += 8;
				off += 8;
				continue;
			}
		}
		if (*p != ct_byte(seed, off))
			return p - start;
		p++;
		off++;
	}
	return -1;
}

#endif /* CT_PATTERN_H */
