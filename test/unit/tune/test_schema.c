/* SPDX-License-Identifier: BSD-3-Clause */

/* The list of schemas, names of settings, and which settings are changed together. */

#include <errno.h>
#include <string.h>

#include <leat_cmocka.h>
#include <leat_error.h>

#include "every_tune.h"
#include "tune_schema.h"

static const struct leat_tune_schema *const schema = &every_tune_schema;
#define BIT(name) (UINT64_C(1) << EVERY_TUNE_##name)

/* The schema's constructor has registered it. */
static void
registered(void **state)
{
	unsigned int i, found = 0;

	(void)state;
	assert_ptr_equal(tune_schema_find("every"), schema);
	assert_null(tune_schema_find("ever"));
	assert_null(tune_schema_find(""));
	for (i = 0; tune_schema_at(i) != NULL; i++)
		found += tune_schema_at(i) == schema;
	assert_int_equal(found, 1);
	assert_int_equal(schema->json_len, strlen(schema->json));
	assert_true(schema->hash != 0);
}

/* Schemas beyond TUNE_SCHEMAS_MAX are not listed. */
static void
too_many(void **state)
{
	static const struct leat_tune_schema more = { .name = "more" };
	unsigned int i;

	(void)state;
	for (i = 0; tune_schema_at(TUNE_SCHEMAS_MAX - 1) == NULL; i++)
		leat_tune_schema_register(&more);
	assert_in_range(i, 1, TUNE_SCHEMAS_MAX - 1);
	leat_tune_schema_register(&more);
	assert_ptr_equal(tune_schema_at(TUNE_SCHEMAS_MAX - 1), &more);
	assert_null(tune_schema_at(TUNE_SCHEMAS_MAX));
	assert_ptr_equal(tune_schema_find("every"), schema);
}

static void
find(const char *name, int want, const char *word)
{
	assert_int_equal(leat_tune_setting_find(schema, name), want);
	if (want < 0 && strstr(leat_err_msg(), word) == NULL)
		fail_msg("'%s' is not in '%s'", word, leat_err_msg());
}

static void
names(void **state)
{
	static const struct leat_tune_schema none = { .name = "none" };
	char longest[300];

	(void)state;
	find("enabled", EVERY_TUNE_ENABLED, NULL);
	find("on", EVERY_TUNE_ENABLED, NULL);
	find("active", EVERY_TUNE_ENABLED, NULL);
	find("lcores", EVERY_TUNE_LCORES, NULL);
	find("btach", -ENOENT, "the nearest is 'batch'");
	find("window_", -ENOENT, "the nearest is 'window'");
	find("high", -ENOENT, "the nearest is 'high_ns'");
	find("", -ENOENT, "nearest");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	find(longest, -ENOENT, "nearest");
	assert_int_equal(leat_tune_setting_find(&none, "batch"), -ENOENT);
	assert_non_null(strstr(leat_err_msg(), "no settings"));
}

static void
distance(void **state)
{
	(void)state;
	assert_int_equal(tune_distance("", ""), 0);
	assert_int_equal(tune_distance("abc", ""), 3);
	assert_int_equal(tune_distance("", "abc"), 3);
	assert_int_equal(tune_distance("kitten", "sitting"), 3);
	assert_int_equal(tune_distance("sitting", "kitten"), 3);
	assert_int_equal(tune_distance("batch", "btach"), 2);
	assert_int_equal(tune_distance("flaw", "lawn"), 2);
}

static void
check(const struct every_tune_settings *s, uint64_t mask, bool starting, int want, const char *word)
{
	assert_int_equal(leat_tune_check(schema, s, mask, starting), want);
	if (want < 0 && strstr(leat_err_msg(), word) == NULL)
		fail_msg("'%s' is not in '%s'", word, leat_err_msg());
}

static void
groups(void **state)
{
	struct every_tune_settings s;

	(void)state;
	memcpy(&s, schema->defaults, sizeof(s));
	check(&s, 0, false, 0, NULL);
	check(&s, BIT(BATCH), false, 0, NULL);
	check(&s, BIT(LOW_NS), false, -EINVAL, "'high_ns' is missing");
	check(&s, BIT(HIGH_NS) | BIT(BATCH), true, -EINVAL, "'low_ns' is missing");
	check(&s, BIT(LOW_NS) | BIT(HIGH_NS), false, 0, NULL);
	s.low_ns = 1001;
	check(&s, BIT(LOW_NS) | BIT(HIGH_NS), false, -EINVAL,
	      "low_ns <= high_ns does not hold for 1001 and 1000");
	s.high_ns = 1001;
	check(&s, BIT(LOW_NS) | BIT(HIGH_NS), false, 0, NULL);
	s.high_ns = 0; /* automatic */
	check(&s, BIT(LOW_NS) | BIT(HIGH_NS), false, 0, NULL);
	s.low_ns = 0;
	s.high_ns = 1;
	check(&s, BIT(LOW_NS) | BIT(HIGH_NS), false, 0, NULL);
	/* settings that do not change are not checked: the program may have set them */
	s.low_ns = 3;
	check(&s, BIT(BATCH), false, 0, NULL);
}

static void
only_at_start(void **state)
{
	(void)state;
	check(schema->defaults, BIT(LCORES), false, -EPERM,
	      "every.lcores takes effect only at start");
	check(schema->defaults, BIT(LCORES), true, 0, NULL);
	check(schema->defaults, BIT(WINDOW), false, 0, NULL);
}

/* Each comparison that a rule can have, of integers and of reals. */
static void
rules(void **state)
{
	struct pair {
		int64_t left, right;
		double real_left, real_right;
	} p = { 0 };
	struct leat_tune_field fields[] = {
		{ .name = "left",
		  .type = LEAT_TUNE_INTEGER,
		  .c_size = 8,
		  .c_offset = offsetof(struct pair, left) },
		{ .name = "right",
		  .type = LEAT_TUNE_INTEGER,
		  .c_size = 8,
		  .c_offset = offsetof(struct pair, right) },
		{ .name = "real_left",
		  .type = LEAT_TUNE_REAL,
		  .c_size = 8,
		  .c_offset = offsetof(struct pair, real_left) },
		{ .name = "real_right",
		  .type = LEAT_TUNE_REAL,
		  .c_size = 8,
		  .c_offset = offsetof(struct pair, real_right) },
	};
	struct leat_tune_group group = { .name = "g", .rule = "left ? right" };
	const struct leat_tune_schema two = { .name = "two",
					      .nb_settings = 4,
					      .settings = fields,
					      .nb_groups = 1,
					      .groups = &group };
	/* Whether the rule holds if left is below, equal to, above right. */
	static const bool holds[][3] = {
		[LEAT_TUNE_LT] = { true, false, false }, [LEAT_TUNE_LE] = { true, true, false },
		[LEAT_TUNE_GT] = { false, false, true }, [LEAT_TUNE_GE] = { false, true, true },
		[LEAT_TUNE_EQ] = { false, true, false }, [LEAT_TUNE_NE] = { true, false, true },
	};
	int compare, i;

	(void)state;
	for (compare = LEAT_TUNE_LT; compare <= LEAT_TUNE_NE; compare++) {
		group.compare = (enum leat_tune_compare)compare;
		for (i = 0; i < 3; i++) {
			p.left = -2 + i;
			p.right = -1;
			p.real_left = 0.25 * i;
			p.real_right = 0.25;
			group.left = 0, group.right = 1, group.mask = 3;
			assert_int_equal(leat_tune_check(&two, &p, 3, false),
					 holds[compare][i] ? 0 : -EINVAL);
			group.left = 2, group.right = 3, group.mask = 12;
			assert_int_equal(leat_tune_check(&two, &p, 12, false),
					 holds[compare][i] ? 0 : -EINVAL);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registered),	 cmocka_unit_test(names),
		cmocka_unit_test(distance),	 cmocka_unit_test(groups),
		cmocka_unit_test(only_at_start), cmocka_unit_test(rules),
		cmocka_unit_test(too_many), /* fills the list: must be last */
	};

	return cmocka_run_group_tests_name("tune schema", tests, NULL, NULL);
}
