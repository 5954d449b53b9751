/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_cmocka.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <leat_histogram.h>

static int
setup(void **state)
{
	*state = leat_histogram_create();
	return *state == NULL ? -1 : 0;
}

static int
teardown(void **state)
{
	leat_histogram_free(*state);
	return 0;
}

static void
assert_near(double got, double want, double relative)
{
	if (fabs(got - want) > fabs(want) * relative)
		fail_msg("%.17g is not within %g of %.17g", got, relative, want);
}

static int
none_expected(uint64_t low, uint64_t high, uint64_t count, void *arg)
{
	(void)low;
	(void)high;
	(void)count;
	(void)arg;
	return 1;
}

static void
test_empty(void **state)
{
	struct leat_histogram *h = *state;

	assert_int_equal(leat_histogram_count(h), 0);
	assert_int_equal(leat_histogram_min(h), 0);
	assert_int_equal(leat_histogram_max(h), 0);
	assert_int_equal(leat_histogram_sum(h), 0);
	assert_true(leat_histogram_mean(h) == 0.0);
	assert_true(leat_histogram_stdev(h) == 0.0);
	assert_int_equal(leat_histogram_percentile(h, 50), 0);
	assert_int_equal(leat_histogram_foreach(h, none_expected, NULL), 0);
	leat_histogram_free(NULL);
}

static void
test_single_value(void **state)
{
	const uint64_t values[] = { 0,
				    1,
				    63,
				    64,
				    65,
				    127,
				    128,
				    1000,
				    123456789,
				    UINT64_C(1) << 63,
				    UINT64_MAX - 1,
				    UINT64_MAX };
	struct leat_histogram *h = *state;
	unsigned int i;

	for (i = 0; i < RTE_DIM(values); i++) {
		leat_histogram_reset(h);
		leat_histogram_record(h, values[i]);
		assert_int_equal(leat_histogram_count(h), 1);
		assert_int_equal(leat_histogram_min(h), values[i]);
		assert_int_equal(leat_histogram_max(h), values[i]);
		assert_int_equal(leat_histogram_sum(h), values[i]);
		assert_near(leat_histogram_mean(h), (double)values[i], 1e-15);
		assert_true(leat_histogram_stdev(h) == 0.0);
		/* Percentiles are clamped to minimum..maximum, so with one value they are exact. */
		assert_int_equal(leat_histogram_percentile(h, 0), values[i]);
		assert_int_equal(leat_histogram_percentile(h, 50), values[i]);
		assert_int_equal(leat_histogram_percentile(h, 100), values[i]);
	}
}

struct bucket {
	uint64_t low, high, count;
};

static int
get_bucket(uint64_t low, uint64_t high, uint64_t count, void *arg)
{
	*(struct bucket *)arg = (struct bucket){ low, high, count };
	return 0;
}

static struct bucket
bucket_of(struct leat_histogram *h, uint64_t value)
{
	struct bucket b = { 0, 0, 0 };

	leat_histogram_reset(h);
	leat_histogram_record(h, value);
	assert_int_equal(leat_histogram_foreach(h, get_bucket, &b), 0);
	assert_int_equal(b.count, 1);
	return b;
}

/*
 * The values at both ends of a bucket fall into it. A bucket is adjacent to its neighbours, and its
 * width is at most a 64th of its lowest value, plus 1.
 */
static void
test_buckets_are_seamless(void **state)
{
	struct leat_histogram *h = *state;
	unsigned int buckets = 0;
	uint64_t low = 0;

	for (;;) {
		struct bucket b = bucket_of(h, low), e;

		assert_int_equal(b.low, low);
		assert_true(b.high >= b.low);
		assert_true(b.high - b.low <= b.low / 64);
		e = bucket_of(h, b.high);
		assert_int_equal(e.low, b.low);
		assert_int_equal(e.high, b.high);
		buckets++;
		if (b.high == UINT64_MAX)
			break;
		low = b.high + 1;
	}
	assert_int_equal(buckets, LEAT_HISTOGRAM_BUCKETS);
}

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

#define SAMPLES 20000

/* Percentiles are compared with the exact ones of the sorted samples, over several magnitudes. */
static void
test_accuracy(void **state)
{
	static const double percents[] = { 0.001, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999 };
	struct leat_histogram *h = *state;
	uint64_t *v = calloc(SAMPLES, sizeof(*v));
	uint64_t seed = 42;
	unsigned int i, bits;

	assert_non_null(v);
	for (bits = 4; bits <= 60; bits += 8) {
		long double sum = 0, var = 0, mean;

		leat_histogram_reset(h);
		for (i = 0; i < SAMPLES; i++) {
			/* Log-uniform: as many small samples as large ones. */
			v[i] = test_random(&seed) >> (64 - bits);
			v[i] >>= test_random(&seed) % bits;
			leat_histogram_record(h, v[i]);
			sum += (long double)v[i];
		}
		qsort(v, SAMPLES, sizeof(*v), compare);
		mean = sum / SAMPLES;
		for (i = 0; i < SAMPLES; i++)
			var += ((long double)v[i] - mean) * ((long double)v[i] - mean) / SAMPLES;

		assert_int_equal(leat_histogram_count(h), SAMPLES);
		assert_int_equal(leat_histogram_min(h), v[0]);
		assert_int_equal(leat_histogram_max(h), v[SAMPLES - 1]);
		assert_near(leat_histogram_mean(h), (double)mean, 1e-12);
		assert_near(leat_histogram_stdev(h), (double)sqrtl(var), 1e-9);
		for (i = 0; i < RTE_DIM(percents); i++) {
			size_t rank = (size_t)ceil(percents[i] / 100 * SAMPLES);
			uint64_t exact = v[RTE_MAX(rank, (size_t)1) - 1];
			uint64_t got = leat_histogram_percentile(h, percents[i]);

			assert_true(got >= exact);
			assert_true((double)(got - exact) <= (double)exact * 0.016);
		}
	}
	free(v);
}

static void
test_percentile_ends(void **state)
{
	struct leat_histogram *h = *state;
	uint64_t i;

	for (i = 1; i <= 50; i++)
		leat_histogram_record(h, i);
	assert_int_equal(leat_histogram_percentile(h, 0), 1);
	assert_int_equal(leat_histogram_percentile(h, -1), 1);
	assert_int_equal(leat_histogram_percentile(h, (double)NAN), 1);
	assert_int_equal(leat_histogram_percentile(h, 2), 1);
	assert_int_equal(leat_histogram_percentile(h, 2.0001), 2);
	assert_int_equal(leat_histogram_percentile(h, 50), 25);
	assert_int_equal(leat_histogram_percentile(h, 98), 49);
	assert_int_equal(leat_histogram_percentile(h, 99.99), 50);
	assert_int_equal(leat_histogram_percentile(h, 100), 50);
	assert_int_equal(leat_histogram_percentile(h, 1000), 50);
}

/* A deviation that is small against the mean is exact, since it is not computed from buckets. */
static void
test_stdev_is_exact(void **state)
{
	struct leat_histogram *h = *state;
	unsigned int i;

	for (i = 0; i < 1000; i++)
		leat_histogram_record(h, 1000000 + (i % 2) * 2);
	assert_near(leat_histogram_mean(h), 1000001, 1e-12);
	assert_near(leat_histogram_stdev(h), 1, 1e-6);
}

/* If the sum of squares doesn't fit into 128 bits, the deviation is computed from buckets. */
static void
test_stdev_of_huge_values(void **state)
{
	struct leat_histogram *h = *state;
	struct leat_histogram *twice = leat_histogram_create();
	unsigned int i;

	assert_non_null(twice);
	for (i = 0; i < 1000; i++) {
		leat_histogram_record(h, UINT64_MAX);
		leat_histogram_record(h, UINT64_MAX / 2);
	}
	assert_int_equal(leat_histogram_sum(h), UINT64_MAX);
	assert_near(leat_histogram_mean(h), 0.75 * 0x1p64, 1e-9);
	assert_near(leat_histogram_stdev(h), 0.25 * 0x1p64, 0.05);

	leat_histogram_merge(twice, h);
	leat_histogram_merge(twice, h);
	assert_near(leat_histogram_mean(twice), 0.75 * 0x1p64, 1e-9);
	assert_near(leat_histogram_stdev(twice), 0.25 * 0x1p64, 0.05);
	leat_histogram_free(twice);
}

/* Merged parts equal one histogram that recorded all samples. */
static void
test_merge(void **state)
{
	struct leat_histogram *all = *state;
	struct leat_histogram *part[3], *sum = leat_histogram_create();
	uint64_t seed = 7;
	unsigned int i;

	assert_non_null(sum);
	for (i = 0; i < 3; i++) {
		part[i] = leat_histogram_create();
		assert_non_null(part[i]);
	}
	/* The third part stays empty. */
	for (i = 0; i < 10000; i++) {
		uint64_t v = test_random(&seed) >> (test_random(&seed) % 64);

		leat_histogram_record(all, v);
		leat_histogram_record(part[i % 2], v);
	}
	for (i = 0; i < 3; i++) {
		leat_histogram_merge(sum, part[i]);
		leat_histogram_free(part[i]);
	}
	assert_memory_equal(sum, all, sizeof(*sum));

	/* A merge of two empty histograms is empty. */
	leat_histogram_reset(sum);
	leat_histogram_reset(all);
	leat_histogram_merge(sum, all);
	assert_int_equal(leat_histogram_count(sum), 0);
	leat_histogram_record(sum, 5);
	assert_int_equal(leat_histogram_min(sum), 5);
	leat_histogram_free(sum);
}

struct walk {
	uint64_t last, count;
	unsigned int calls, stop_at;
};

static int
walk_cb(uint64_t low, uint64_t high, uint64_t count, void *arg)
{
	struct walk *w = arg;

	assert_true(w->calls == 0 || low > w->last);
	assert_true(count > 0);
	w->last = high;
	w->count += count;
	return ++w->calls == w->stop_at ? -ECANCELED : 0;
}

static void
test_foreach(void **state)
{
	struct leat_histogram *h = *state;
	struct walk w = { .calls = 0 };
	unsigned int i;

	for (i = 0; i < 100; i++)
		leat_histogram_record(h, UINT64_C(1) << (i % 10 * 6));
	assert_int_equal(leat_histogram_foreach(h, walk_cb, &w), 0);
	assert_int_equal(w.calls, 10);
	assert_int_equal(w.count, 100);

	w = (struct walk){ .stop_at = 3 };
	assert_int_equal(leat_histogram_foreach(h, walk_cb, &w), -ECANCELED);
	assert_int_equal(w.calls, 3);
}

static void
test_packed(void **state)
{
	static uint8_t buf[LEAT_HISTOGRAM_PACK_MAX + 1], again[LEAT_HISTOGRAM_PACK_MAX];
	struct leat_histogram *h = *state, *got = leat_histogram_create();
	unsigned int i;
	int len;

	assert_non_null(got);
	len = leat_histogram_pack(h, buf, sizeof(buf));
	assert_int_equal(len, 60);
	leat_histogram_record(got, 1);
	assert_int_equal(leat_histogram_unpack(got, buf, sizeof(buf)), 60);
	assert_memory_equal(got, h, sizeof(*h));

	for (i = 0; i < 64; i++)
		leat_histogram_record(h, UINT64_MAX >> i);
	len = leat_histogram_pack(h, buf, sizeof(buf));
	assert_int_equal(len, 60 + 64 * 10);
	assert_int_equal(leat_histogram_pack(h, buf, (size_t)len - 1), -ENOSPC);
	assert_int_equal(leat_histogram_unpack(got, buf, (size_t)len), len);
	assert_memory_equal(got, h, sizeof(*h));
	assert_int_equal(leat_histogram_unpack(got, buf, (size_t)len - 1), -EPROTO);
	assert_int_equal(leat_histogram_unpack(got, buf, 59), -EPROTO);
	assert_int_equal(leat_histogram_count(got), 0);

	for (i = 0; i < LEAT_HISTOGRAM_BUCKETS; i++)
		h->bucket[i] += 1;
	h->count += LEAT_HISTOGRAM_BUCKETS;
	h->min = 0;
	len = leat_histogram_pack(h, buf, sizeof(buf));
	assert_int_equal(len, LEAT_HISTOGRAM_PACK_MAX);
	assert_int_equal(leat_histogram_unpack(got, buf, sizeof(buf)), len);
	assert_int_equal(leat_histogram_pack(got, again, sizeof(again)), len);
	assert_memory_equal(again, buf, sizeof(again));
	leat_histogram_free(got);
}

/*
 * leat_histogram_unpack() refuses a packed histogram of two values if its byte at `at` is `byte`.
 */
static void
test_packed_lies(void **state)
{
	static const struct {
		unsigned int at;
		uint8_t byte;
	} lies[] = {
		{ 0, 3 },    /* count */
		{ 8, 4 },    /* min is in another bucket */
		{ 16, 8 },   /* max */
		{ 56, 1 },   /* buckets */
		{ 56, 3 },   /* more buckets than there are bytes for */
		{ 57, 16 },  /* more buckets than a histogram has */
		{ 60, 7 },   /* buckets not in rising order */
		{ 71, 15 },  /* bucket index */
		{ 62, 0 },   /* an empty bucket */
		{ 69, 255 }, /* a count that overflows */
	};
	struct leat_histogram *h = *state, *got = leat_histogram_create();
	uint8_t buf[80], bad[80];
	size_t i;

	assert_non_null(got);
	leat_histogram_record(h, 5);
	leat_histogram_record(h, 7);
	assert_int_equal(leat_histogram_pack(h, buf, sizeof(buf)), sizeof(buf));
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		memcpy(bad, buf, sizeof(bad));
		bad[lies[i].at] = lies[i].byte;
		if (leat_histogram_unpack(got, bad, sizeof(bad)) != -EPROTO)
			fail_msg("lie %zu was believed", i);
		assert_int_equal(leat_histogram_count(got), 0);
	}
	assert_int_equal(leat_histogram_unpack(got, buf, sizeof(buf)), sizeof(buf));
	leat_histogram_free(got);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_empty),
		CASE(test_single_value),
		CASE(test_buckets_are_seamless),
		CASE(test_accuracy),
		CASE(test_percentile_ends),
		CASE(test_stdev_is_exact),
		CASE(test_stdev_of_huge_values),
		CASE(test_merge),
		CASE(test_foreach),
		CASE(test_packed),
		CASE(test_packed_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
