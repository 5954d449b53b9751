/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between processes of leat-rpc-bench, also with hostile bytes; and the contents of calls.
 */

#include "leat_cmocka.h"

#include <stdlib.h>
#include <string.h>

#include <leat_histogram.h>

#include "content.h"
#include "wire.h"

/* tally.c calls this function for the names of kinds. */
const char *
rb_kind_name(enum rb_kind kind)
{
	(void)kind;
	return "call";
}

static struct rb_hello
sample(void)
{
	struct rb_hello h = { .rank = 1, .nb_ranks = 3 };
	int k;

	h.card = (struct rb_card){ .host = 7, .pid = 8, .nb_lcores = 2 };
	h.card.lcore[0].cpu = 3;
	h.card.lcore[0].nb_cpus = h.card.lcore[1].nb_cpus = 1;
	snprintf(h.card.name, sizeof(h.card.name), "machine");
	h.plan = (struct rb_plan){ .tasks = 16,
				   .batch = 3,
				   .calls = 1000,
				   .seed = 0x1122334455667788,
				   .check = true,
				   .credits = 64 };
	h.plan.percent[RB_CALL] = 99;
	h.plan.percent[RB_LONG] = 1;
	for (k = 0; k < RB_KINDS; k++) {
		h.plan.req[k] = (struct rb_sizes){ 2, 4096, { { 8, 32 }, { 4096, 4096 } } };
		h.plan.resp[k] = (struct rb_sizes){ 1, 32, { { 32, 32 } } };
	}
	return h;
}

static void
test_hellos_survive_the_wire(void **state)
{
	struct rb_hello h = sample(), got;
	uint8_t buf[RB_HELLO_MAX];
	int n = rb_hello_put(&h, buf, sizeof(buf));

	(void)state;
	assert_in_range(n, 1, sizeof(buf));
	assert_int_equal(rb_hello_get(buf, (size_t)n, &got), 0);
	assert_memory_equal(&got, &h, sizeof(h));
	assert_int_equal(rb_hello_get(buf, (size_t)n - 1, &got), -EPROTO);
	assert_int_equal(rb_hello_get(buf, (size_t)n + 1, &got), -EPROTO);
	assert_int_equal(rb_hello_put(&h, buf, (size_t)n - 1), -ENOSPC);
	assert_int_equal(rb_hello_put(&h, buf, sizeof(buf)), n);
	buf[4]++;
	assert_int_equal(rb_hello_get(buf, (size_t)n, &got), -EPROTONOSUPPORT);
	buf[0]++;
	assert_int_equal(rb_hello_get(buf, (size_t)n, &got), -EPROTO);
}

static void
test_the_largest_fits(void **state)
{
	struct rb_hello h = sample();
	uint8_t buf[RB_HELLO_MAX];
	struct rb_nodes n = { .nb_lcores = RB_LCORES_MAX }, got;
	uint32_t i;
	int k;

	(void)state;
	h.card.nb_lcores = RB_LCORES_MAX;
	for (k = 0; k < RB_KINDS; k++) {
		h.plan.req[k].n = h.plan.resp[k].n = RB_SIZES_MAX;
		for (i = 0; i < RB_SIZES_MAX; i++)
			h.plan.req[k].item[i].hi = h.plan.req[k].item[i].lo = i;
	}
	assert_in_range(rb_hello_put(&h, buf, sizeof(buf)), 1, RB_HELLO_MAX);
	assert_in_range(rb_welcome_put(&h.card, buf, RB_WELCOME_MAX), 1, RB_WELCOME_MAX);
	for (i = 0; i < RB_LCORES_MAX; i++)
		n.port[i] = (uint16_t)(i + 1);
	k = rb_nodes_put(&n, buf, RB_NODES_MAX);
	assert_in_range(k, 1, RB_NODES_MAX);
	assert_int_equal(rb_nodes_get(buf, (size_t)k, &got), 0);
	assert_memory_equal(&got, &n, sizeof(n));
	buf[6] = buf[7] = 0; /* a port of 0 */
	assert_int_equal(rb_nodes_get(buf, (size_t)k, &got), -EPROTO);
}

/* Change every byte of a hello: it must be refused, or still describe a valid plan and card. */
static void
test_hostile_hellos(void **state)
{
	struct rb_hello h = sample(), got;
	uint8_t buf[RB_HELLO_MAX];
	uint64_t rnd = 1, percent;
	int i, k, n = rb_hello_put(&h, buf, sizeof(buf));
	unsigned int round;

	(void)state;
	for (round = 0; round < 200000; round++) {
		i = (int)(rb_random(&rnd) % (unsigned int)n);
		buf[i] ^= (uint8_t)(rb_random(&rnd) | 1);
		if (rb_hello_get(buf, (size_t)n, &got) == 0) {
			assert_in_range(got.plan.tasks, 1, RB_TASKS_MAX);
			assert_in_range(got.plan.batch, 1, RB_BATCH_MAX);
			assert_in_range(got.card.nb_lcores, 1, RB_LCORES_MAX);
			assert_true(got.rank < got.nb_ranks && got.nb_ranks <= RB_RANKS_MAX);
			assert_true(strlen(got.card.name) < sizeof(got.card.name));
			for (percent = 0, k = 0; k < RB_KINDS; k++) {
				percent += got.plan.percent[k];
				assert_true(got.plan.req[k].max <= RB_SIZE_MAX);
				assert_true(rb_size_pick(&got.plan.req[k], rb_random(&rnd)) <=
					    got.plan.req[k].max);
			}
			assert_int_equal(percent, 100);
		}
		if (round % 4 == 3)
			(void)rb_hello_put(&h, buf, sizeof(buf));
	}
}

static struct rb_result *
sample_result(void)
{
	struct rb_result *r = rb_result_create(2);

	assert_non_null(r);
	r->lcore[0].calls[RB_CALL] = 11;
	r->lcore[1].calls[RB_LONG] = 12;
	r->lcore[1].cut = 13;
	r->lcore[1].errors[ECONNRESET] = 14;
	r->lcore[1].others = -1;
	r->lcore[0].first = (struct rb_wrong){ RB_WRONG_BYTE, true, RB_LONG, 1, 2, 3, 4, 5, 6 };
	leat_histogram_record(r->hist[RB_CALL], 1000);
	leat_histogram_record(r->hist[RB_LONG], 2000);
	return r;
}

static void
test_results(void **state)
{
	struct rb_result *r = sample_result(), *got;
	uint8_t *buf = malloc(RB_RESULT_MAX);
	int k, n;

	(void)state;
	assert_non_null(buf);
	n = rb_result_put(r, buf, RB_RESULT_MAX);
	assert_in_range(n, 1, RB_RESULT_MAX);
	got = rb_result_get(buf, (size_t)n);
	assert_non_null(got);
	assert_memory_equal(got->lcore, r->lcore, 2 * sizeof(*r->lcore));
	for (k = 0; k < RB_KINDS; k++)
		assert_memory_equal(got->hist[k], r->hist[k], sizeof(*r->hist[k]));
	rb_result_free(got);
	assert_null(rb_result_get(buf, (size_t)n - 1));
	assert_int_equal(rb_result_put(r, buf, (size_t)n - 1), -ENOSPC);
	rb_result_free(r);

	/* The largest result. */
	r = rb_result_create(RB_LCORES_MAX);
	assert_non_null(r);
	for (n = 0; n < RB_LCORES_MAX; n++)
		memset(r->lcore[n].errors, 1, sizeof(r->lcore[n].errors));
	for (k = 0; k < RB_KINDS; k++) {
		for (n = 0; n < LEAT_HISTOGRAM_BUCKETS; n++)
			r->hist[k]->bucket[n] = 1;
	}
	assert_in_range(rb_result_put(r, buf, RB_RESULT_MAX), 1, RB_RESULT_MAX);
	rb_result_free(r);
	free(buf);
}

static void
test_hostile_results(void **state)
{
	struct rb_result *r = sample_result(), *got;
	static uint8_t buf[16384], bad[16384];
	uint64_t rnd = 1;
	unsigned int round;
	int n = rb_result_put(r, buf, sizeof(buf));

	(void)state;
	assert_in_range(n, 1, sizeof(buf));
	for (round = 0; round < 100000; round++) {
		memcpy(bad, buf, sizeof(bad));
		bad[rb_random(&rnd) % (unsigned int)n] ^= (uint8_t)(rb_random(&rnd) | 1);
		bad[rb_random(&rnd) % 8] ^= (uint8_t)(rb_random(&rnd) % 2);
		got = rb_result_get(bad, (size_t)n);
		if (got != NULL)
			assert_in_range(got->nb_lcores, 1, RB_LCORES_MAX);
		rb_result_free(got);
	}
	rb_result_free(r);
}

/* ---- contents ---- */

/* Filled contents are valid; a changed byte is found where it is. */
static void
test_contents(void **state)
{
	uint8_t buf[80], guard = 0xa5;
	uint32_t len, off, i;
	uint64_t key;

	(void)state;
	for (len = 0; len <= 64; len++) {
		for (off = 0; off <= len; off += 8) {
			key = rb_mix(len * 100 + off);
			memset(buf, guard, sizeof(buf));
			rb_fill(buf, off, len, key);
			for (i = 0; i < sizeof(buf); i++)
				assert_int_equal(buf[i], i >= off && i < len
								 ? rb_content_byte(i, key)
								 : guard);
			assert_int_equal(rb_verify(buf, off, len, key), len);
			for (i = off; i < len; i++) {
				buf[i] ^= 0x10;
				assert_int_equal(rb_verify(buf, off, len, key), i);
				buf[i] ^= 0x10;
			}
		}
	}
}

/* Two calls that differ in anything have different contents, in each word. */
static void
test_contents_differ(void **state)
{
	const uint64_t seed = rb_content_seed(1, 2, 3, 0), id = rb_id(2, 5);
	const uint64_t keys[] = {
		rb_request_key(seed, id, 32),
		rb_request_key(seed, rb_id(2, 6), 32),
		rb_request_key(seed, id, 40),
		rb_request_key(rb_content_seed(1, 2, 3, 1), id, 32),
		rb_request_key(rb_content_seed(1, 2, 4, 0), id, 32),
		rb_request_key(rb_content_seed(1, 3, 2, 0), id, 32),
		rb_request_key(rb_content_seed(2, 2, 3, 0), id, 32),
		rb_response_key(rb_request_key(seed, id, 32), 32),
		rb_response_key(rb_request_key(seed, id, 32), 40),
		rb_response_key(rb_request_key(seed, rb_id(2, 6), 32), 32),
	};
	size_t i, k;
	uint32_t w;

	(void)state;
	for (i = 0; i < RTE_DIM(keys); i++) {
		for (k = 0; k < RTE_DIM(keys); k++) {
			for (w = 0; w < 100 && i != k; w++)
				assert_true(keys[i] != keys[k] + w * RB_GOLDEN);
		}
	}
	assert_int_equal(rb_id_node(id), 2);
	assert_int_equal(rb_id_seq(id), 5);
	assert_int_equal(rb_id_cut(id, 8), id);
	assert_int_equal(rb_id_cut(0x1122334455667788, 3), 0x667788);
	assert_int_equal(rb_id_cut(id, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hellos_survive_the_wire),
		cmocka_unit_test(test_the_largest_fits),
		cmocka_unit_test(test_hostile_hellos),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_hostile_results),
		cmocka_unit_test(test_contents),
		cmocka_unit_test(test_contents_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
