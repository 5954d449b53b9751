/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NUM_H
#define NUM_H

/*
 * Parse numbers of the command line, with an optional suffix K, M or G. Values that overflow or are
 * out of range are refused. All functions return 0, -EINVAL (not a number), or -ERANGE.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * Parse "4K", "1048576" or "0x100", at most max. Suffixes are powers of 1024 in a size, of 1000 in
 * a count.
 */
int num_parse_size(const char *s, uint64_t max, uint64_t *out);
int num_parse_count(const char *s, uint64_t max, uint64_t *out);
/* Parse a size from the first len characters of s. */
int num_parse_size_of(const char *s, size_t len, uint64_t max, uint64_t *out);
/* Parse a real number such as "1.5K", min to max. Suffixes are powers of 1000. */
int num_parse_real(const char *s, double min, double max, double *out);

#endif /* NUM_H */
