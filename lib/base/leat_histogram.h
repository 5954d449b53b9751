/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_HISTOGRAM_H
#define LEAT_HISTOGRAM_H

/**
 * @file
 * A log-linear histogram of 64-bit values (nanoseconds, cycles, bytes, ...). It takes every value
 * from 0 to 2^64 - 1. The relative error of a bucket is at most 1/64 (1.6 %). Recording is O(1),
 * without division or allocation. Count, minimum, maximum and mean are exact, since they are not
 * computed from the buckets. So is the standard deviation, if the sum of the squares fits 128 bits.
 *
 * Source of the layout: HdrHistogram (G. Tene) and SPDK's histogram_data.h. A range of values
 * between two powers of two is cut into 64 buckets of equal width:
 *
 * @code
 *	values        0..63   64..127   128..255   256..511  ...  2^63..2^64-1
 *	bucket width    1        1          2          4     ...      2^57
 *	first bucket    0       64        128        192     ...      3712
 * @endcode
 *
 * A histogram belongs to one thread; another thread may merge it once its owner has stopped.
 */

#include <stddef.h>
#include <stdint.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Log2 of the number of buckets per power of two. */
#define LEAT_HISTOGRAM_SHIFT 6
/** Number of buckets of a histogram. */
#define LEAT_HISTOGRAM_BUCKETS ((64 - LEAT_HISTOGRAM_SHIFT + 1) << LEAT_HISTOGRAM_SHIFT)

/** A histogram, about 30 KiB. The fields are private; read them through the functions. */
struct leat_histogram {
	uint64_t count;	     /**< number of values */
	uint64_t min;	     /**< smallest value; UINT64_MAX when empty */
	uint64_t max;	     /**< largest value; 0 when empty */
	uint64_t sum_hi,     /**< sum of the values, upper 64 of 128 bits */
		sum_lo;	     /**< sum of the values, lower 64 bits */
	uint64_t squares_hi, /**< sum of the values' squares, upper 64 of 128 bits, saturating */
		squares_lo;  /**< sum of the values' squares, lower 64 bits */
	uint64_t bucket[LEAT_HISTOGRAM_BUCKETS]; /**< number of values in each bucket */
};

/**
 * Allocate an empty histogram (from libc's heap; EAL is not needed).
 *
 * @return
 *   The histogram, owned by the caller; NULL with rte_errno ENOMEM.
 */
LEAT_API struct leat_histogram *leat_histogram_create(void);

/** Free a histogram; NULL is allowed. */
LEAT_API void leat_histogram_free(struct leat_histogram *h);

/** Remove all values. Also initializes a histogram in the caller's memory. */
LEAT_API void leat_histogram_reset(struct leat_histogram *h);

/** Private: get the index of the bucket that holds `value`. */
static inline unsigned int
leat_histogram_index(uint64_t value)
{
	/* The bit set here makes values below 64 fall into the first range, with shift 0. */
	unsigned int msb = 63 - (unsigned int)__builtin_clzll(value | (1 << LEAT_HISTOGRAM_SHIFT));
	unsigned int shift = msb - LEAT_HISTOGRAM_SHIFT;

	return (shift << LEAT_HISTOGRAM_SHIFT) + (unsigned int)(value >> shift);
}

/** Record a value. */
static inline void
leat_histogram_record(struct leat_histogram *h, uint64_t value)
{
	leat_u128 square = (leat_u128)value * value;
	uint64_t sq_lo = (uint64_t)square;
	uint64_t sq_hi = (uint64_t)(square >> 64);

	h->bucket[leat_histogram_index(value)]++;
	h->count++;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;

	h->sum_hi += __builtin_add_overflow(h->sum_lo, value, &h->sum_lo);
	sq_hi += __builtin_add_overflow(h->squares_lo, sq_lo, &h->squares_lo);
	if (unlikely(__builtin_add_overflow(h->squares_hi, sq_hi, &h->squares_hi)))
		h->squares_hi = UINT64_MAX;
}

/** Add all values of `src` to `dst`, as if they had been recorded there. */
LEAT_API void leat_histogram_merge(struct leat_histogram *dst, const struct leat_histogram *src);

/** Get the number of values. */
LEAT_API uint64_t leat_histogram_count(const struct leat_histogram *h);

/** Get the smallest value, exact; 0 when empty. */
LEAT_API uint64_t leat_histogram_min(const struct leat_histogram *h);

/** Get the largest value, exact; 0 when empty. */
LEAT_API uint64_t leat_histogram_max(const struct leat_histogram *h);

/** Get the sum of the values, exact; UINT64_MAX when it exceeds 64 bits. */
LEAT_API uint64_t leat_histogram_sum(const struct leat_histogram *h);

/** Get the arithmetic mean, from the exact sum; 0 when empty. */
LEAT_API double leat_histogram_mean(const struct leat_histogram *h);

/**
 * Get the standard deviation of the population; 0 when empty. It is computed from the exact sum of
 * squares, or from the buckets if that sum exceeds 128 bits (values above 2^40 recorded 2^48
 * times).
 */
LEAT_API double leat_histogram_stdev(const struct leat_histogram *h);

/**
 * Get a percentile: the smallest value v, to the precision of a bucket, such that at least
 * `percent` per cent of the values are <= v.
 *
 * @param h
 *   The histogram.
 * @param percent
 *   0..100. 0 and less, and NaN, give the minimum; 100 and more give the maximum.
 * @return
 *   The upper end of the bucket, but never outside of minimum..maximum; 0 when empty. At most
 *   1.6 % above the exact percentile, never below it.
 */
LEAT_API uint64_t leat_histogram_percentile(const struct leat_histogram *h, double percent);

/**
 * Callback for a bucket with `count` > 0 values in `low`..`high`, both inclusive.
 *
 * @return
 *   0 to continue; any other value ends the walk.
 */
typedef int (*leat_histogram_cb_t)(uint64_t low, uint64_t high, uint64_t count, void *arg);

/**
 * Walk the buckets that are not empty, in rising order.
 *
 * @return
 *   0, or the callback's value that ended the walk.
 */
LEAT_API int leat_histogram_foreach(const struct leat_histogram *h, leat_histogram_cb_t cb,
				    void *arg);

/** Maximum number of bytes that leat_histogram_pack() writes. */
#define LEAT_HISTOGRAM_PACK_MAX (60 + 10 * LEAT_HISTOGRAM_BUCKETS)

/**
 * Write a histogram as bytes, for another process: 60 bytes, and 10 more for each bucket that is
 * not empty. The format is the same on all machines.
 *
 * @return
 *   Number of bytes, or -ENOSPC.
 */
LEAT_API int leat_histogram_pack(const struct leat_histogram *h, void *buf, size_t len);

/**
 * Read a histogram from bytes of any origin. Impossible buckets are refused, and bytes after the
 * histogram are ignored. Mean and standard deviation are not checked.
 *
 * @param[out] h
 *   The histogram; empty on failure.
 * @param buf
 *   Bytes that leat_histogram_pack() wrote, or that an untrusted sender made up.
 * @param len
 *   Number of bytes at buf.
 * @return
 *   Number of bytes of the histogram, or -EPROTO.
 */
LEAT_API int leat_histogram_unpack(struct leat_histogram *h, const void *buf, size_t len);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_HISTOGRAM_H */
