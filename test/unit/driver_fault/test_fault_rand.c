/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random numbers: the generator yields the numbers of its authors' code, so that a seed means the
 * same for ever; the distributions have the shapes that their names say. The heap of delayed ops is
 * tested here, too.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_cmocka.h>

#include "fault_pvt.h"

#define DRAWS 200000

/* Values of the authors' code: xoshiro from the state {1, 2, 3, 4}, splitmix from seed 1234567. */
static void
reference_values(void **state)
{
	static const uint64_t xoshiro[] = { 11520, 0, 1509978240, UINT64_C(1215971899390074240) };
	static const uint64_t splitmix[] = { UINT64_C(6457827717110365317),
					     UINT64_C(3203168211198807973),
					     UINT64_C(9817491932198370423) };
	struct fault_rand r = { { 1, 2, 3, 4 } };
	uint64_t x = 1234567;
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(xoshiro); i++)
		assert_true(fault_rand_next(&r) == xoshiro[i]);
	for (i = 0; i < RTE_DIM(splitmix); i++)
		assert_true(fault_splitmix(&x) == splitmix[i]);
}

/*
 * Seed, endpoint and kind of fault are not interchangeable: the same numbers in a different order
 * give a different sequence.
 */
static void
streams_differ(void **state)
{
	uint64_t seen[64];
	unsigned int n = 0, i, j;
	struct fault_rand r;

	(void)state;
	for (i = 0; i < 64; i++) {
		fault_rand_init(&r, i & 3, (i >> 2) & 3, (i >> 4) & 3);
		seen[n++] = fault_rand_next(&r);
		for (j = 0; j + 1 < n; j++)
			assert_true(seen[j] != seen[n - 1]);
	}
	fault_rand_init(&r, 2, 1, 3);
	assert_true(fault_rand_next(&r) == seen[2 + (1 << 2) + (3 << 4)]);
}

static void
chances(void **state)
{
	struct fault_rand r;
	unsigned int i, hits = 0;

	(void)state;
	fault_rand_init(&r, 1, 1, 1);
	for (i = 0; i < DRAWS; i++) {
		assert_true(fault_rand_hit(&r, FAULT_ALWAYS));
		assert_false(fault_rand_hit(&r, 0));
		hits += fault_rand_hit(&r, FAULT_ALWAYS / 20);
	}
	/* 5 % of the draws hit; the range has ten standard deviations on both sides */
	assert_in_range(hits, DRAWS / 20 - 1000, DRAWS / 20 + 1000);
}

static uint64_t
draw_many(const struct fault_dist *d, uint64_t *min, uint64_t *max, unsigned int *below_mean)
{
	struct fault_rand r;
	uint64_t sum = 0, v, mean;
	unsigned int i, pass;

	*min = UINT64_MAX;
	*max = 0;
	*below_mean = 0;
	for (pass = 0; pass < 2; pass++) {
		mean = sum / DRAWS;
		fault_rand_init(&r, 42, 1, 1);
		for (i = 0; i < DRAWS; i++) {
			v = fault_dist_draw(d, &r);
			sum += pass == 0 ? v : 0;
			*min = RTE_MIN(*min, v);
			*max = RTE_MAX(*max, v);
			*below_mean += pass == 1 && v < mean;
		}
	}
	return sum / DRAWS;
}

static void
shapes(void **state)
{
	struct fault_dist d = { .shape = FAULT_RANGE, .lo = 10, .hi = 19 };
	uint64_t min, max, mean;
	unsigned int below;

	(void)state;
	mean = draw_many(&d, &min, &max, &below);
	assert_int_equal(min, 10);
	assert_int_equal(max, 19);
	assert_in_range(mean, 14, 15);

	d = (struct fault_dist){ .shape = FAULT_RANGE, .lo = 7, .hi = 7 };
	(void)draw_many(&d, &min, &max, &below);
	assert_int_equal(min, 7);
	assert_int_equal(max, 7);

	/*
	 * 1 - 1/e = 63 % are below the mean; the largest of all draws is about 12 times the mean.
	 */
	d = (struct fault_dist){ .shape = FAULT_EXP, .lo = 100000, .hi = 100000 };
	mean = draw_many(&d, &min, &max, &below);
	assert_in_range(mean, 98500, 101500);
	assert_in_range(below, DRAWS / 100 * 62, DRAWS / 100 * 64);
	assert_in_range(max, 800000, 2300000);
	assert_true(min < 100);

	/*
	 * The range is ten doublings wide, and each doubling has a tenth of the values. So the
	 * mean, about 15,300, lies in the eighth doubling, and more than 70 % of the values are
	 * below it.
	 */
	d = (struct fault_dist){ .shape = FAULT_TAIL, .lo = 100, .hi = 102399 };
	mean = draw_many(&d, &min, &max, &below);
	assert_int_equal(min, 100);
	assert_in_range(max, 90000, 102399);
	assert_in_range(mean, 14500, 16500);
	assert_true(below > DRAWS / 100 * 70);

	d = (struct fault_dist){ .shape = FAULT_NEVER };
	(void)draw_many(&d, &min, &max, &below);
	assert_int_equal(max, 0);
}

/* The largest and smallest times, in cycles of a fast machine, cause no overflow. */
static void
extremes(void **state)
{
	const uint64_t huge = UINT64_C(60000000) * 5000;
	struct fault_dist d = { .shape = FAULT_EXP, .lo = huge };
	struct fault_rand r;
	unsigned int i;

	(void)state;
	fault_rand_init(&r, 3, 1, 1);
	for (i = 0; i < DRAWS; i++)
		assert_true(fault_dist_draw(&d, &r) < 23 * huge);
	d = (struct fault_dist){ .shape = FAULT_TAIL, .lo = 0, .hi = huge };
	for (i = 0; i < DRAWS; i++)
		assert_in_range(fault_dist_draw(&d, &r), 1, huge);
	d = (struct fault_dist){ .shape = FAULT_RANGE, .lo = 0, .hi = UINT64_MAX - 1 };
	for (i = 0; i < 100; i++)
		assert_true(fault_dist_draw(&d, &r) < UINT64_MAX);
}

/*
 * The heap yields the same ops as a linear search for the smallest, even when entries are removed
 * from its middle.
 */
static void
heap(void **state)
{
	enum { N = 300, STEPS = 20000 };
	static struct fault_op ops[N];
	struct fault_op *in[N] = { NULL }, *place[N] = { NULL }, *gone;
	struct fault_heap h = { .op = place };
	struct fault_rand r;
	unsigned int i, k, n = 0, used = 0, min;

	(void)state;
	fault_rand_init(&r, 9, 1, 1);
	for (i = 0; i < STEPS; i++) {
		if (n < N && (n == 0 || fault_rand_below(&r, 100) < 52)) {
			for (k = 0; k + 1 < N && ops[k].where != FAULT_FREE; k++)
				;
			ops[k].where = FAULT_MIXED;
			ops[k].key = fault_rand_below(&r, 40);
			ops[k].nr = ++used;
			in[n++] = &ops[k];
			fault_heap_push(&h, &ops[k]);
		} else {
			/* Mostly remove the smallest. */
			gone = fault_rand_below(&r, 3) == 0 ? in[fault_rand_below(&r, n)] : h.op[0];
			for (k = 0; k + 1 < n && in[k] != gone; k++)
				;
			fault_heap_remove(&h, gone);
			gone->where = FAULT_FREE;
			in[k] = in[--n];
		}
		assert_int_equal(h.nb, n);
		for (k = 0, min = 0; k < n; k++) {
			if (in[k]->key < in[min]->key ||
			    (in[k]->key == in[min]->key && in[k]->nr < in[min]->nr))
				min = k;
			assert_ptr_equal(h.op[in[k]->at], in[k]);
		}
		if (n > 0)
			assert_ptr_equal(h.op[0], in[min]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference_values), cmocka_unit_test(streams_differ),
		cmocka_unit_test(chances),	    cmocka_unit_test(shapes),
		cmocka_unit_test(extremes),	    cmocka_unit_test(heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
