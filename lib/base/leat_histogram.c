/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leat_error.h"
#include "leat_histogram.h"

#define SUB_BUCKETS (1U << LEAT_HISTOGRAM_SHIFT)

_Static_assert(LEAT_HISTOGRAM_BUCKETS == 3776, "the drawing in leat_histogram.h is right");

struct leat_histogram *
leat_histogram_create(void)
{
	struct leat_histogram *h = malloc(sizeof(*h));

	if (h == NULL) {
		leat_err(ENOMEM, "histogram: can't allocate %zu B", sizeof(*h));
		return NULL;
	}
	leat_histogram_reset(h);
	return h;
}

void
leat_histogram_free(struct leat_histogram *h)
{
	free(h);
}

void
leat_histogram_reset(struct leat_histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

/* Get the values of bucket i: low..high, both inclusive. */
static void
bucket_bounds(unsigned int i, uint64_t *low, uint64_t *high)
{
	unsigned int shift = i < SUB_BUCKETS ? 0 : (i >> LEAT_HISTOGRAM_SHIFT) - 1;

	*low = (uint64_t)(i - (shift << LEAT_HISTOGRAM_SHIFT)) << shift;
	*high = *low + ((UINT64_C(1) << shift) - 1);
}

void
leat_histogram_merge(struct leat_histogram *dst, const struct leat_histogram *src)
{
	uint64_t sq_hi = src->squares_hi;
	unsigned int i;

	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++)
		dst->bucket[i] += src->bucket[i];
	dst->count += src->count;
	dst->min = RTE_MIN(dst->min, src->min);
	dst->max = RTE_MAX(dst->max, src->max);

	dst->sum_hi += src->sum_hi;
	dst->sum_hi += __builtin_add_overflow(dst->sum_lo, src->sum_lo, &dst->sum_lo);
	/* A saturated high half must stay saturated: add no carry to it. */
	if (__builtin_add_overflow(dst->squares_lo, src->squares_lo, &dst->squares_lo) &&
	    sq_hi != UINT64_MAX)
		sq_hi++;
	if (__builtin_add_overflow(dst->squares_hi, sq_hi, &dst->squares_hi))
		dst->squares_hi = UINT64_MAX;
}

uint64_t
leat_histogram_count(const struct leat_histogram *h)
{
	return h->count;
}

uint64_t
leat_histogram_min(const struct leat_histogram *h)
{
	return h->count != 0 ? h->min : 0;
}

uint64_t
leat_histogram_max(const struct leat_histogram *h)
{
	return h->max;
}

uint64_t
leat_histogram_sum(const struct leat_histogram *h)
{
	return h->sum_hi == 0 ? h->sum_lo : UINT64_MAX;
}

static long double
u128_to_ld(uint64_t hi, uint64_t lo)
{
	return ldexpl((long double)hi, 64) + (long double)lo;
}

static long double
mean(const struct leat_histogram *h)
{
	return u128_to_ld(h->sum_hi, h->sum_lo) / (long double)h->count;
}

double
leat_histogram_mean(const struct leat_histogram *h)
{
	return h->count != 0 ? (double)mean(h) : 0.0;
}

static long double
variance_from_buckets(const struct leat_histogram *h)
{
	long double m = mean(h), sum = 0;
	unsigned int i;

	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++) {
		uint64_t low, high;
		long double d;

		if (h->bucket[i] == 0)
			continue;
		bucket_bounds(i, &low, &high);
		d = ((long double)low + (long double)high) / 2 - m;
		sum += d * d * (long double)h->bucket[i];
	}
	return sum / (long double)h->count;
}

double
leat_histogram_stdev(const struct leat_histogram *h)
{
	long double var;

	/* If all values are equal the difference below would be a rounding error, not 0. */
	if (h->count == 0 || h->min == h->max)
		return 0.0;
	if (h->squares_hi == UINT64_MAX) {
		var = variance_from_buckets(h);
	} else {
		long double m = mean(h);

		var = u128_to_ld(h->squares_hi, h->squares_lo) / (long double)h->count - m * m;
	}
	return var > 0 ? (double)sqrtl(var) : 0.0;
}

uint64_t
leat_histogram_percentile(const struct leat_histogram *h, double percent)
{
	uint64_t low, high, rank, seen = 0;
	unsigned int i;

	if (h->count == 0)
		return 0;
	/* Written so that NaN gives the minimum, too. */
	if (!(percent > 0))
		return h->min;
	if (percent >= 100)
		return h->max;

	rank = (uint64_t)ceill((long double)percent / 100 * (long double)h->count);
	if (rank == 0)
		rank = 1;
	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank) {
			bucket_bounds(i, &low, &high);
			return RTE_MAX(RTE_MIN(high, h->max), h->min);
		}
	}
	return h->max;
}

int
leat_histogram_foreach(const struct leat_histogram *h, leat_histogram_cb_t cb, void *arg)
{
	unsigned int i;

	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++) {
		uint64_t low, high;
		int ret;

		if (h->bucket[i] == 0)
			continue;
		bucket_bounds(i, &low, &high);
		ret = cb(low, high, h->bucket[i], arg);
		if (ret != 0)
			return ret;
	}
	return 0;
}
