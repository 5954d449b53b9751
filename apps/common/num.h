/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NUM_H
#define NUM_H

/*
 * Numbers of the command line. Everything that does not fit is refused, nothing wraps around. With
 * a suffix K, M or G. All return 0, -EINVAL (it is none), or -ERANGE.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * "4K", "1048576", "0x100": up to max. Suffixes are powers of 1024; of num_parse_count() of 1000.
 */
int num_parse_size(const char *s, uint64_t max, uint64_t *out);
int num_parse_count(const char *s, uint64_t max, uint64_t *out);
/* The same of the first len characters. */
int num_parse_size_of(const char *s, size_t len, uint64_t max, uint64_t *out);
/* "1.5K": min to max. */
int num_parse_real(const char *s, double min, double max, double *out);

#endif /* NUM_H */
