/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Histograms as bytes, little-endian:
 *
 *     0       8     16    24        40            56     60
 *     +-------+-----+-----+---------+-------------+------+---------------+------
 *     | count | min | max | sum     | squares     | n    | index, count  | ...   n times
 *     +-------+-----+-----+---------+-------------+------+---------------+------
 *       8       8     8     lo 8 hi 8  lo 8 hi 8    4      2, 8
 *
 * n is the number of buckets that are not empty; index and count of each follow, in rising order.
 */

#include <errno.h>
#include <stdbool.h>

#include "leat_error.h"
#include "leat_histogram.h"
#include "leat_le.h"

#define HEAD 60u
#define BUCKET 10u

_Static_assert(LEAT_HISTOGRAM_PACK_MAX == HEAD + BUCKET * LEAT_HISTOGRAM_BUCKETS,
	       "the drawing above is right");

int
leat_histogram_pack(const struct leat_histogram *h, void *buf, size_t len)
{
	uint8_t *p = buf, *at = p + HEAD;
	unsigned int i, n = 0;

	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++)
		n += h->bucket[i] != 0;
	if (len < HEAD + n * (size_t)BUCKET)
		return leat_err(ENOSPC, "histogram: %u B are needed to pack it, there are %zu",
				HEAD + n * BUCKET, len);
	leat_put_le64(p, h->count);
	leat_put_le64(p + 8, h->min);
	leat_put_le64(p + 16, h->max);
	leat_put_le64(p + 24, h->sum_lo);
	leat_put_le64(p + 32, h->sum_hi);
	leat_put_le64(p + 40, h->squares_lo);
	leat_put_le64(p + 48, h->squares_hi);
	leat_put_le32(p + 56, n);
	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++) {
		if (h->bucket[i] == 0)
			continue;
		leat_put_le16(at, (uint16_t)i);
		leat_put_le64(at + 2, h->bucket[i]);
		at += BUCKET;
	}
	return (int)(at - p);
}

/*
 * Read n buckets. @return false: they are not in order, out of range, or inconsistent with count,
 * min, max
 */
static bool
buckets_get(struct leat_histogram *h, const uint8_t *at, uint32_t n)
{
	unsigned int first = 0, last = 0;
	uint64_t count, sum = 0;
	uint32_t i, index;

	for (i = 0; i < n; i++, at += BUCKET) {
		index = leat_get_le16(at);
		count = leat_get_le64(at + 2);
		if (index >= LEAT_HISTOGRAM_BUCKETS || (i > 0 && index <= last) || count == 0 ||
		    __builtin_add_overflow(sum, count, &sum))
			return false;
		if (i == 0)
			first = index;
		last = index;
		h->bucket[index] = count;
	}
	if (sum != h->count)
		return false;
	return n == 0 || (leat_histogram_index(h->min) == first &&
			  leat_histogram_index(h->max) == last && h->min <= h->max);
}

int
leat_histogram_unpack(struct leat_histogram *h, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint32_t n;

	leat_histogram_reset(h);
	if (len < HEAD)
		return leat_err(EPROTO, "histogram: packed in %zu B", len);
	n = leat_get_le32(p + 56);
	if (n > LEAT_HISTOGRAM_BUCKETS || (len - HEAD) / BUCKET < n)
		return leat_err(EPROTO, "histogram: %u buckets packed in %zu B", n, len);
	if (n > 0) {
		h->count = leat_get_le64(p);
		h->min = leat_get_le64(p + 8);
		h->max = leat_get_le64(p + 16);
		h->sum_lo = leat_get_le64(p + 24);
		h->sum_hi = leat_get_le64(p + 32);
		h->squares_lo = leat_get_le64(p + 40);
		h->squares_hi = leat_get_le64(p + 48);
	}
	if (!buckets_get(h, p + HEAD, n)) {
		leat_histogram_reset(h);
		return leat_err(EPROTO, "histogram: its packed buckets can't be");
	}
	return (int)(HEAD + n * BUCKET);
}
