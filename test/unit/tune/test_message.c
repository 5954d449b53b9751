/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and reports encoded as messages, and decoded: every type, random values, arbitrary
 * bytes.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include <leat_cmocka.h>
#include <leat_error.h>
#include <leat_le.h>

#include "every_tune.h"
#include "tune_schema.h"

static const struct leat_tune_schema *const schema = &every_tune_schema;
#define NB EVERY_TUNE_NB_SETTINGS
#define ALL ((UINT64_C(1) << NB) - 1)

static const struct leat_tune_field *
field(enum every_tune_setting i)
{
	return &schema->settings[i];
}

static void
defaults_fit(void **state)
{
	struct every_tune_settings in, out;
	uint8_t buf[1024];

	(void)state;
	assert_int_equal(schema->settings_size, 88);
	assert_int_equal(schema->settings_c_size, sizeof(in));
	memcpy(&in, schema->defaults, sizeof(in));
	assert_true(in.enabled);
	assert_int_equal(in.batch, 32);
	assert_int_equal(in.window, 0);
	assert_int_equal(in.shift, -5);
	assert_true(in.ratio == 0.25);
	assert_int_equal(in.policy, EVERY_TUNE_POLICY_SPIN);
	assert_string_equal(in.label, "Gr\303\274 ?? \"x\"");

	memset(buf, 0xee, sizeof(buf));
	leat_tune_pack(schema, true, &in, buf);
	assert_int_equal(buf[schema->settings_size], 0xee);
	memset(&out, 0, sizeof(out));
	assert_int_equal(leat_tune_unpack(schema, buf, schema->settings_size, ALL, &out), 0);
	assert_int_equal(leat_tune_check(schema, &out, ALL, true), 0);
	assert_true(out.enabled);
	assert_int_equal(out.batch, in.batch);
	assert_int_equal(out.shift, in.shift);
	assert_true(out.ratio == in.ratio);
	assert_string_equal(out.label, in.label);
	assert_int_equal(out.high_ns, in.high_ns);
}

/* Each value is at the place, and in the form, that the header documents. */
static void
bytes_are_as_documented(void **state)
{
	struct every_tune_settings s = { .enabled = true,
					 .batch = 0x102,
					 .shift = -2,
					 .ratio = 1.0,
					 .policy = 3,
					 .label = "ab" };
	static const uint8_t label[16] = "ab";
	uint8_t buf[88];

	(void)state;
	leat_tune_pack(schema, true, &s, buf);
	assert_memory_equal(buf, "\1\0\0\0\0\0\0\0", 8);
	assert_memory_equal(buf + 8, "\2\1\0\0\0\0\0\0", 8);
	assert_memory_equal(buf + 24, "\376\377\377\377\377\377\377\377", 8);
	assert_memory_equal(buf + 32, "\0\0\0\0\0\0\360\77", 8);
	assert_memory_equal(buf + 40, "\3\0\0\0\0\0\0\0", 8);
	assert_memory_equal(buf + 48, label, 16);
}

static void
report_has_every_kind(void **state)
{
	struct every_tune_report r = {
		.turns = UINT64_MAX,
		.busy_ns = 1,
		.depth = -3,
		.load = 0.5,
		.up = true,
		.policy = EVERY_TUNE_POLICY_2ND,
		.peer = "10.0.0.1",
	};
	uint8_t buf[2048];
	unsigned int i;

	(void)state;
	assert_true(schema->reports_size <= sizeof(buf));
	leat_tune_histogram_add(&r.latency, 40);
	leat_tune_histogram_add(&r.latency, UINT64_C(60000000000));
	leat_tune_pack(schema, false, &r, buf);
	assert_int_equal(leat_get_le64(buf), UINT64_MAX);
	assert_int_equal(leat_get_le64(buf + 8), 1);
	assert_int_equal((int64_t)leat_get_le64(buf + 16), -3);
	assert_true(tune_bits_to_real(leat_get_le64(buf + 24)) == 0.5);
	assert_int_equal(leat_get_le64(buf + 32), 1);
	assert_int_equal(leat_get_le64(buf + 40), 3);
	assert_string_equal((const char *)buf + 48, "10.0.0.1");
	assert_int_equal(leat_get_le64(buf + 88), 2);
	assert_int_equal(leat_get_le64(buf + 96), UINT64_C(60000000040));
	for (i = 0; i < LEAT_TUNE_BUCKETS; i++)
		assert_int_equal(leat_get_le64(buf + 104 + 8 * (size_t)i),
				 i == leat_tune_bucket(40) || i == LEAT_TUNE_BUCKETS - 1);
	assert_int_equal(schema->reports_size, 104 + 8 * LEAT_TUNE_BUCKETS);
}

/* A string without a terminator in C is terminated in the message. */
static void
string_is_ended(void **state)
{
	struct every_tune_settings s;
	uint8_t buf[88];

	(void)state;
	memcpy(&s, schema->defaults, sizeof(s));
	memset(s.label, 'x', sizeof(s.label));
	leat_tune_pack(schema, true, &s, buf);
	assert_int_equal(buf[48 + 11], 'x');
	assert_memory_equal(buf + 48 + 12, "\0\0\0\0", 4);
}

/* ---- bytes that are not a message ---- */

static void
refuse(const uint8_t *buf, size_t len, uint64_t mask, int error, const char *word)
{
	struct every_tune_settings before, s;

	memset(&s, 0x5a, sizeof(s));
	memcpy(&before, &s, sizeof(s));
	assert_int_equal(leat_tune_unpack(schema, buf, len, mask, &s), error);
	assert_memory_equal(&s, &before, sizeof(s));
	if (strstr(leat_err_msg(), word) == NULL)
		fail_msg("'%s' is not in '%s'", word, leat_err_msg());
}

/*
 * Check that v is refused as the value of setting i, and ignored if the mask does not name this
 * setting.
 */
static void
refuse_value(enum every_tune_setting i, uint64_t v, int error)
{
	struct every_tune_settings s;
	uint8_t buf[88];

	leat_tune_pack(schema, true, schema->defaults, buf);
	leat_put_le64(buf + field(i)->offset, v);
	refuse(buf, sizeof(buf), ALL, error, field(i)->name);
	refuse(buf, sizeof(buf), UINT64_C(1) << i, error, field(i)->name);
	memcpy(&s, schema->defaults, sizeof(s));
	assert_int_equal(leat_tune_unpack(schema, buf, sizeof(buf), ALL & ~(UINT64_C(1) << i), &s),
			 0);
}

static void
values_are_checked(void **state)
{
	(void)state;
	refuse_value(EVERY_TUNE_ENABLED, 2, -EINVAL);
	refuse_value(EVERY_TUNE_ENABLED, UINT64_C(1) << 32 | 1, -EINVAL);
	refuse_value(EVERY_TUNE_BATCH, 0, -ERANGE);
	refuse_value(EVERY_TUNE_BATCH, 4097, -ERANGE);
	refuse_value(EVERY_TUNE_BATCH, UINT64_C(1) << 32 | 1, -ERANGE);
	refuse_value(EVERY_TUNE_BATCH, UINT64_MAX, -ERANGE);
	refuse_value(EVERY_TUNE_WINDOW, 7, -ERANGE);
	refuse_value(EVERY_TUNE_WINDOW, UINT64_MAX, -ERANGE);
	refuse_value(EVERY_TUNE_RATIO, tune_real_to_bits((double)NAN), -ERANGE);
	refuse_value(EVERY_TUNE_RATIO, tune_real_to_bits((double)INFINITY), -ERANGE);
	refuse_value(EVERY_TUNE_RATIO, tune_real_to_bits(-0.5), -ERANGE);
	refuse_value(EVERY_TUNE_RATIO, tune_real_to_bits(1000000.5), -ERANGE);
	refuse_value(EVERY_TUNE_POLICY, 4, -EINVAL);
	refuse_value(EVERY_TUNE_POLICY, UINT64_MAX, -EINVAL);
}

static void
special_values_are_values(void **state)
{
	struct every_tune_settings s = { .batch = 77 };
	uint8_t buf[88];

	(void)state;
	leat_tune_pack(schema, true, schema->defaults, buf);
	leat_put_le64(buf + field(EVERY_TUNE_WINDOW)->offset, UINT32_MAX);
	leat_put_le64(buf + field(EVERY_TUNE_SHIFT)->offset, INT64_MAX);
	leat_put_le64(buf + field(EVERY_TUNE_RATIO)->offset, tune_real_to_bits(-1.0));
	assert_int_equal(leat_tune_unpack(schema, buf, sizeof(buf), ALL, &s), 0);
	assert_int_equal(s.window, UINT32_MAX);
	assert_int_equal(s.shift, INT64_MAX);
	assert_true(s.ratio == -1.0);
	/* settings that the mask does not name keep their values */
	s.batch = 77;
	assert_int_equal(leat_tune_unpack(schema, buf, sizeof(buf), 0, &s), 0);
	assert_int_equal(s.batch, 77);
}

static void
shape_is_checked(void **state)
{
	uint8_t buf[96] = { 0 };
	size_t len, label = field(EVERY_TUNE_LABEL)->offset;

	(void)state;
	for (len = 0; len <= sizeof(buf); len++)
		if (len != 88)
			refuse(buf, len, 0, -EPROTO, "every");
	leat_tune_pack(schema, true, schema->defaults, buf);
	refuse(buf, 88, UINT64_C(1) << NB, -EPROTO, "mask");
	refuse(buf, 88, UINT64_C(1) << 63, -EPROTO, "mask");
	memset(buf + label, 'x', 13);
	refuse(buf, 88, ALL, -EPROTO, "label");
	memset(buf + label, 'x', 16);
	refuse(buf, 88, ALL, -EPROTO, "label");
	memset(buf + label + 3, 0, 13);
	buf[label + 15] = 1;
	refuse(buf, 88, ALL, -EPROTO, "label");
	buf[label + 15] = 0;
	buf[label + 2] = 0xc3;
	refuse(buf, 88, ALL, -EINVAL, "UTF-8");
}

/*
 * Random bytes, mostly near to a message: accepted ones hold only values that the description
 * allows.
 */
static void
hostile_bytes(void **state)
{
	uint64_t seed = 20, mask;
	unsigned int round, i, n, taken = 0;
	struct every_tune_settings s;
	uint8_t buf[88], again[88];

	(void)state;
	for (round = 0; round < 200000; round++) {
		leat_tune_pack(schema, true, schema->defaults, buf);
		n = (unsigned int)(test_random(&seed) % 4);
		for (i = 0; i < n; i++)
			buf[test_random(&seed) % sizeof(buf)] = (uint8_t)test_random(&seed);
		mask = test_random(&seed) & ALL;
		memcpy(&s, schema->defaults, sizeof(s));
		if (leat_tune_unpack(schema, buf, sizeof(buf), mask, &s) < 0)
			continue;
		taken++;
		assert_true(s.batch >= 1 && s.batch <= 4096);
		assert_true(s.window == 0 || s.window == UINT32_MAX ||
			    (s.window >= 8 && s.window <= 4096));
		assert_true(s.ratio == -1.0 || (s.ratio >= 0.125 && s.ratio <= 1e6));
		assert_true(s.policy < 4);
		assert_non_null(memchr(s.label, 0, sizeof(s.label)));
		assert_true(s.low_ns <= 1000000 && s.high_ns <= 1000000);
		leat_tune_pack(schema, true, &s, again);
		for (i = 0; i < NB; i++)
			if ((mask >> i & 1) != 0)
				assert_memory_equal(again + schema->settings[i].offset,
						    buf + schema->settings[i].offset,
						    schema->settings[i].size);
	}
	assert_in_range(taken, 10000, 190000);
}

static void
texts(void **state)
{
	static const char *const right[] = { "",
					     "a",
					     "\303\274",
					     "\342\202\254",
					     "\360\237\230\200",
					     "\364\217\277\277",
					     "\357\277\275" };
	static const char *const wrong[] = { "a\nb",
					     "\033[m",
					     "\177",
					     "\302\233",
					     "\200",
					     "\300\200",
					     "\301\277",
					     "\303",
					     "\303(",
					     "\340\237\277",
					     "\355\240\200",
					     "\342\202",
					     "\360\217\277\277",
					     "\364\220\200\200",
					     "\365\200\200\200",
					     "\377" };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(right); i++)
		assert_true(tune_is_text(right[i], strlen(right[i])));
	for (i = 0; i < RTE_DIM(wrong); i++)
		assert_false(tune_is_text(wrong[i], strlen(wrong[i])));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_fit),
		cmocka_unit_test(bytes_are_as_documented),
		cmocka_unit_test(report_has_every_kind),
		cmocka_unit_test(string_is_ended),
		cmocka_unit_test(values_are_checked),
		cmocka_unit_test(special_values_are_values),
		cmocka_unit_test(shape_is_checked),
		cmocka_unit_test(hostile_bytes),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests_name("tune message", tests, NULL, NULL);
}
