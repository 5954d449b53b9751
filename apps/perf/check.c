/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "check.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static uint64_t
mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t
perf_key(uint64_t seed, enum perf_dir dir, uint64_t seq, uint64_t size)
{
	return mix(mix(mix(seed + (uint64_t)dir) ^ size) ^ seq * GOLDEN);
}

uint8_t
perf_pattern_byte(uint64_t key, uint64_t offset)
{
	return (uint8_t)(mix(key + (offset >> 3) * GOLDEN) >> (offset & 7) * 8);
}

void
perf_fill(void *buf, uint64_t size, uint64_t key)
{
	uint8_t *p = buf;
	uint64_t off, w;

	for (off = 0; off + 8 <= size; off += 8) {
		w = mix(key + (off >> 3) * GOLDEN);
		memcpy(p + off, &w, 8);
	}
	for (; off < size; off++)
		p[off] = perf_pattern_byte(key, off);
}

int64_t
perf_verify(const void *buf, uint64_t size, uint64_t key)
{
	const uint8_t *p = buf;
	uint64_t off, w;

	for (off = 0; off + 8 <= size; off += 8) {
		memcpy(&w, p + off, 8);
		if (w != mix(key + (off >> 3) * GOLDEN))
			break;
	}
	for (; off < size; off++) {
		if (p[off] != perf_pattern_byte(key, off))
			return (int64_t)off;
	}
	return -1;
}

void
perf_error_add(struct perf_errors *e, enum perf_error_kind kind, uint64_t seq, uint64_t offset,
	       uint64_t expected, uint64_t got)
{
	if (e->count++ > 0)
		return;
	e->kind = (uint32_t)kind;
	e->seq = seq;
	e->offset = offset;
	e->expected = expected;
	e->got = got;
}

void
perf_check(struct perf_errors *e, const void *buf, uint64_t size, uint64_t key, uint64_t seq)
{
	int64_t off = perf_verify(buf, size, key);

	if (off >= 0)
		perf_error_add(e, PERF_ERR_BYTE, seq, (uint64_t)off,
			       perf_pattern_byte(key, (uint64_t)off), ((const uint8_t *)buf)[off]);
}

uint64_t
perf_word_step(uint64_t seed)
{
	return mix(seed) | 1;
}

uint64_t
perf_word(uint64_t seed, uint32_t slot, uint64_t n)
{
	return perf_key(seed, PERF_AT_SERVER, slot, 8) + n * perf_word_step(seed);
}
