/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H

/*
 * The data of runs with --check, and the errors found in them.
 *
 * Word j of a message is mix(key + j * GOLDEN). The key depends on the run, the direction, the
 * message's number and its size. So a byte that is lost, doubled, moved, or left over from a
 * different message differs from the expected one. mix is the finalizer of SplitMix64 (G. Steele,
 * D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, 2014).
 */

#include <stdbool.h>
#include <stdint.h>

enum perf_dir { PERF_TO_SERVER = 1, PERF_TO_CLIENT = 2, PERF_AT_SERVER = 3 };

enum perf_error_kind {
	PERF_ERR_NONE = 0,
	PERF_ERR_BYTE,	 /* a wrong byte, at offset */
	PERF_ERR_VALUE,	 /* wrong result or memory word of an atomic */
	PERF_ERR_LENGTH, /* wrong length of a message */
	/* wrong immediate of a WRITE_IMM; `expected` is the lowest one that would be right */
	PERF_ERR_IMM,
	PERF_ERR_KINDS,
};

/* The number of errors; all other fields describe the first one. */
struct perf_errors {
	uint64_t count;
	uint64_t seq; /* number of the message, from 0 */
	uint64_t offset, expected, got;
	uint32_t kind;
};

uint64_t perf_key(uint64_t seed, enum perf_dir dir, uint64_t seq, uint64_t size);
void perf_fill(void *buf, uint64_t size, uint64_t key);
/* Return the offset of the first wrong byte, or -1. */
int64_t perf_verify(const void *buf, uint64_t size, uint64_t key);
uint8_t perf_pattern_byte(uint64_t key, uint64_t offset);

void perf_error_add(struct perf_errors *e, enum perf_error_kind kind, uint64_t seq, uint64_t offset,
		    uint64_t expected, uint64_t got);
/* Verify a message, and count an error if a byte is wrong. */
void perf_check(struct perf_errors *e, const void *buf, uint64_t size, uint64_t key, uint64_t seq);

/* Return the value of a slot's word after n atomics changed it. */
uint64_t perf_word(uint64_t seed, uint32_t slot, uint64_t n);
/* Return the number that each atomic adds to its word. */
uint64_t perf_word_step(uint64_t seed);

#endif /* PERF_CHECK_H */
