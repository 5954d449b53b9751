/* SPDX-License-Identifier: BSD-3-Clause */

/* Lists of sizes, for --size. */

#include <stdlib.h>
#include <string.h>

#include "../common/num.h"
#include "perf.h"

static int
append(uint64_t **sizes, uint32_t *n, uint64_t v)
{
	uint64_t *more;

	if (*n >= PERF_SIZES_MAX) {
		perf_msg("--size: more than %d sizes", PERF_SIZES_MAX);
		return -EINVAL;
	}
	more = realloc(*sizes, (*n + 1) * sizeof(**sizes));
	if (more == NULL) {
		perf_msg("--size: out of memory");
		return -ENOMEM;
	}
	*sizes = more;
	more[(*n)++] = v;
	return 0;
}

/* Append a, 2a, 4a, ... up to b, and b itself even if doubling misses it. */
static int
sweep(uint64_t a, uint64_t b, uint64_t **sizes, uint32_t *n)
{
	int ret;

	for (;;) {
		ret = append(sizes, n, a);
		if (ret < 0 || a == b)
			return ret;
		a = a == 0 ? 1 : a * 2;
		if (a > b)
			a = b;
	}
}

/* Parse a size. item: the text that error messages quote. */
static int
one_size(const char *s, size_t len, const char *item, size_t item_len, uint64_t *v)
{
	int ret = num_parse_size_of(s, len, PERF_SIZE_MAX, v);

	if (ret == -ERANGE)
		perf_msg("--size: '%.*s' is more than 4G", (int)item_len, item);
	else if (ret < 0)
		perf_msg("--size: '%.*s' is not a size (8, 4K, 1M, a list 8,4K or a range 1-1M)",
			 (int)item_len, item);
	return ret;
}

int
perf_parse_sizes(const char *s, uint64_t **sizes, uint32_t *n)
{
	size_t len, dash;
	uint64_t a, b;
	int ret;

	for (;;) {
		len = strcspn(s, ",");
		dash = strcspn(s, ",-");
		ret = one_size(s, dash, s, len, &a);
		if (ret < 0)
			return ret;
		b = a;
		if (s[dash] == '-') {
			ret = one_size(s + dash + 1, len - dash - 1, s, len, &b);
			if (ret < 0)
				return ret;
			if (b < a) {
				perf_msg("--size: the range '%.*s' ends below its beginning",
					 (int)len, s);
				return -EINVAL;
			}
		}
		ret = sweep(a, b, sizes, n);
		if (ret < 0 || s[len] == '\0')
			return ret;
		s += len + 1;
	}
}
