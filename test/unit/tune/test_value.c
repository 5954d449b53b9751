/* SPDX-License-Identifier: BSD-3-Clause */

/* Values as text: parsing and printing. */

#include <errno.h>
#include <locale.h>
#include <string.h>

#include <leat_cmocka.h>
#include <leat_error.h>

#include "every_tune.h"
#include "tune_schema.h"

static const struct leat_tune_schema *const schema = &every_tune_schema;

static void
take(enum every_tune_setting i, const char *text, const char *printed)
{
	struct every_tune_settings s;
	char buf[64];

	memcpy(&s, schema->defaults, sizeof(s));
	if (leat_tune_parse(schema, i, text, &s) != 0)
		fail_msg("%s", leat_err_msg());
	assert_int_equal(leat_tune_format(schema, i, &s, buf, sizeof(buf)), strlen(printed));
	assert_string_equal(buf, printed);
}

static void
refuse(enum every_tune_setting i, const char *text, int error, const char *word)
{
	struct every_tune_settings s, before;

	memset(&s, 0x5a, sizeof(s));
	memcpy(&before, &s, sizeof(s));
	assert_int_equal(leat_tune_parse(schema, i, text, &s), error);
	assert_memory_equal(&s, &before, sizeof(s));
	if (strstr(leat_err_msg(), word) == NULL)
		fail_msg("'%s' is not in '%s'", word, leat_err_msg());
}

static void
values(void **state)
{
	(void)state;
	take(EVERY_TUNE_ENABLED, "false", "false");
	take(EVERY_TUNE_ENABLED, "true", "true");
	take(EVERY_TUNE_BATCH, "4096", "4096");
	take(EVERY_TUNE_BATCH, "+7", "7");
	take(EVERY_TUNE_WINDOW, "automatic", "automatic");
	take(EVERY_TUNE_WINDOW, "0", "automatic");
	take(EVERY_TUNE_WINDOW, "4294967295", "unlimited");
	take(EVERY_TUNE_SHIFT, "-9223372036854775808", "-9223372036854775808");
	take(EVERY_TUNE_SHIFT, "9223372036854775807", "none");
	take(EVERY_TUNE_RATIO, "0.3", "0.3");
	take(EVERY_TUNE_RATIO, "1e6", "1000000");
	take(EVERY_TUNE_RATIO, "0.30000000000000004", "0.30000000000000004");
	take(EVERY_TUNE_RATIO, "off", "off");
	take(EVERY_TUNE_RATIO, "-1", "off");
	take(EVERY_TUNE_POLICY, "sleep-long", "sleep-long");
	take(EVERY_TUNE_LABEL, "", "");
	take(EVERY_TUNE_LABEL, "\303\274berlang.", "\303\274berlang.");
	take(EVERY_TUNE_LABEL, "123456789012", "123456789012");
}

static void
what_is_no_value(void **state)
{
	(void)state;
	refuse(EVERY_TUNE_ENABLED, "yes", -EINVAL, "true or false");
	refuse(EVERY_TUNE_ENABLED, "", -EINVAL, "true or false");
	refuse(EVERY_TUNE_BATCH, "", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "-", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, " 1", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "1k", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "0x10", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "1+1", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "automatic", -EINVAL, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "0", -ERANGE, "1 to 4096 ops");
	refuse(EVERY_TUNE_BATCH, "99999999999999999999", -ERANGE, "1 to 4096 ops");
	/* The limit that strtoll() returns on overflow is a valid value of this setting. */
	refuse(EVERY_TUNE_SHIFT, "9223372036854775808", -ERANGE, "or none");
	refuse(EVERY_TUNE_SHIFT, "-9223372036854775809", -ERANGE, "or none");
	refuse(EVERY_TUNE_WINDOW, "3", -ERANGE, "8 to 4096 ops, or automatic, or unlimited");
	refuse(EVERY_TUNE_RATIO, "nan", -EINVAL, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_RATIO, "inf", -EINVAL, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_RATIO, "1e999", -EINVAL, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_RATIO, "0,5", -EINVAL, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_RATIO, "0x1p1", -EINVAL, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_RATIO, "0.1", -ERANGE, "0.125 to 1000000, or off");
	refuse(EVERY_TUNE_POLICY, "Spin", -EINVAL, "auto, spin, sleep-long, 2nd");
	refuse(EVERY_TUNE_POLICY, "1", -EINVAL, "auto, spin, sleep-long, 2nd");
	refuse(EVERY_TUNE_LABEL, "1234567890123", -EINVAL, "at most 12 bytes");
	refuse(EVERY_TUNE_LABEL, "\377", -EINVAL, "UTF-8");
	refuse(EVERY_TUNE_LABEL, "a\tb", -EINVAL, "UTF-8 text");
	refuse(EVERY_TUNE_NB_SETTINGS, "1", -EINVAL, "no setting number 10");
}

/* Texts do not depend on the locale. */
static void
comma(void **state)
{
	static const char *const names[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "C.UTF-8" };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(names); i++)
		if (setlocale(LC_ALL, names[i]) != NULL)
			break;
	print_message("locale %s, decimal point '%s'\n", i < RTE_DIM(names) ? names[i] : "C",
		      localeconv()->decimal_point);
	take(EVERY_TUNE_RATIO, "0.5", "0.5");
	refuse(EVERY_TUNE_RATIO, "0,5", -EINVAL, "0.125 to 1000000, or off");
	setlocale(LC_ALL, "C");
}

/* A printed value is parsed as the same value, and is never longer than its buffer. */
static void
random_values(void **state)
{
	struct every_tune_settings s, back;
	uint64_t seed = 3;
	unsigned int i, round;
	char buf[64];
	int n;

	(void)state;
	memset(&back, 0, sizeof(back));
	for (round = 0; round < 50000; round++) {
		memcpy(&s, schema->defaults, sizeof(s));
		s.enabled = (test_random(&seed) & 1) != 0;
		s.batch = 1 + (uint32_t)(test_random(&seed) % 4096);
		s.shift = (int64_t)test_random(&seed);
		s.ratio = 0.125 + (double)(test_random(&seed) >> 11) * 0x1p-53 * 999999.0;
		s.policy = (uint32_t)(test_random(&seed) % 4);
		for (i = 0; i < EVERY_TUNE_NB_SETTINGS; i++) {
			n = leat_tune_format(schema, i, &s, buf, sizeof(buf));
			assert_in_range(n, 0, sizeof(buf) - 1);
			assert_int_equal(leat_tune_parse(schema, i, buf, &back), 0);
		}
		assert_int_equal(back.enabled, s.enabled);
		assert_int_equal(back.batch, s.batch);
		assert_int_equal(back.shift, s.shift);
		assert_true(back.ratio == s.ratio);
		assert_int_equal(back.policy, s.policy);
		assert_string_equal(back.label, s.label);
	}
	buf[0] = buf[4] = 'z';
	assert_int_equal(leat_tune_format(schema, EVERY_TUNE_POLICY, schema->defaults, buf, 4), 4);
	assert_string_equal(buf, "spi");
	assert_int_equal(buf[4], 'z');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(what_is_no_value),
		cmocka_unit_test(comma),
		cmocka_unit_test(random_values),
	};

	return cmocka_run_group_tests_name("tune value", tests, NULL, NULL);
}
