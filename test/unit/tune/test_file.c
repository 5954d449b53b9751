/* SPDX-License-Identifier: BSD-3-Clause */

/* The settings file: which lines are refused, and how an object gets its settings. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_tune.h>

#include "leat_cmocka.h"
#include "worker_tune.h"

static char path[] = "/tmp/leat-test-file-XXXXXX";

static void
write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int
start(const char *text)
{
	const struct leat_tune_start_conf conf = { .settings = path, .off = true };

	write_file(text);
	return leat_tune_start(&conf);
}

static int
refuse_checked(void *arg, void *want, uint64_t changed)
{
	const struct worker_tune_settings *s = want;

	*(uint64_t *)arg |= changed;
	return s->checked ? leat_err(EOPNOTSUPP, "it can't check") : 0;
}

static uint64_t applied;

static struct leat_tune_object *
add(const char *name, struct worker_tune_settings *s)
{
	const struct leat_tune_conf conf = {
		.schema = &worker_tune_schema,
		.name = name,
		.settings = s,
		.apply = refuse_checked,
		.arg = &applied,
	};

	applied = 0;
	memcpy(s, worker_tune_schema.defaults, sizeof(*s));
	return leat_tune_add(&conf);
}

static void
values_of_matching_lines_hold(void **state)
{
	struct worker_tune_settings s;
	struct leat_tune_object *o;

	(void)state;
	assert_int_equal(start("# a comment\n"
			       "\n"
			       "worker.*.batch = 64\n"
			       "  worker.w1.batch = 128   # a later line holds\n"
			       "worker.mode = \"slow\"\n"
			       "worker.w[12].slots = 99\n"
			       "worker.w1.low = 5\n"
			       "worker.w1.high = 6\n"),
			 0);
	o = add("w0", &s);
	assert_non_null(o);
	assert_int_equal(s.batch, 64);
	assert_int_equal(s.mode, WORKER_TUNE_MODE_SLOW);
	assert_int_equal(s.slots, 64);
	assert_int_equal(s.low, 10);
	assert_int_equal(applied, 1 << WORKER_TUNE_BATCH | 1 << WORKER_TUNE_MODE);
	leat_tune_del(o);
	o = add("w1", &s);
	assert_non_null(o);
	assert_int_equal(s.batch, 128);
	assert_int_equal(s.slots, 99);
	assert_int_equal(s.low, 5);
	assert_int_equal(s.high, 6);
	leat_tune_del(o);
	leat_tune_stop();
}

static void
specials_and_former_names_are_known(void **state)
{
	struct worker_tune_settings s;
	struct leat_tune_object *o;

	(void)state;
	assert_int_equal(start("worker.batch_size = automatic\n"), 0);
	o = add("w0", &s);
	assert_non_null(o);
	assert_int_equal(s.batch, 0);
	leat_tune_del(o);
	leat_tune_stop();
}

static void
a_wrong_line_ends_the_start(void **state)
{
	/* Files with a wrong line, its number, and a word of the error message. */
	static const struct {
		const char *text, *line, *word;
	} wrong[] = {
		{ "worker.w0.batch\n", ":1:", "SETTING" },
		{ "\nbatch = 1\n", ":2:", "SETTING" },
		{ "worker. = 1\n", ":1:", "SETTING" },
		{ "worker..batch = 8\n", ":1:", "SETTING" },
		{ "workr.w0.batch = 8\n", ":1:", "worker" },
		{ "worker.w0.bach = 8\n", ":1:", "batch" },
		{ "worker.w0.batch = \n", ":1:", "batch" },
		{ "worker.w0.batch = 7\n", ":1:", "8 to 1024" },
		{ "worker.w0.batch = 1025\n", ":1:", "8 to 1024" },
		{ "worker.w0.batch = 99999999999999999999999\n", ":1:", "batch" },
		{ "worker.w0.batch = 8x\n", ":1:", "batch" },
		{ "worker.w0.batch = \"8\n", ":1:", "SETTING" },
		{ "worker.w0.mode = quick\n", ":1:", "fast" },
		{ "worker.w0.ratio = 1.5\n", ":1:", "ratio" },
		{ "worker.w0.ratio = nan\n", ":1:", "ratio" },
		{ "worker.w0.checked = maybe\n", ":1:", "checked" },
		{ "worker.w0.mode = fast\nworker.w0.mode = fst\n", ":2:", "fast" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(start(wrong[i].text), -EINVAL);
		if (strstr(leat_err_msg(), wrong[i].line) == NULL ||
		    strstr(leat_err_msg(), wrong[i].word) == NULL)
			fail_msg("'%s' gave '%s'", wrong[i].text, leat_err_msg());
	}
}

static void
a_line_without_end_is_refused(void **state)
{
	char text[4096];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(start(text), -EINVAL);
	assert_non_null(strstr(leat_err_msg(), ":1:"));
}

static void
a_file_that_is_not_there_is_named(void **state)
{
	const struct leat_tune_start_conf conf = { .settings = "/nonexistent/x", .off = true };

	(void)state;
	assert_int_equal(leat_tune_start(&conf), -ENOENT);
	assert_non_null(strstr(leat_err_msg(), "/nonexistent/x"));
}

static void
half_of_a_group_is_refused_when_the_object_comes(void **state)
{
	struct worker_tune_settings s;

	(void)state;
	assert_int_equal(start("worker.w0.low = 50\n"), 0);
	assert_null(add("w0", &s));
	assert_int_equal(rte_errno, EINVAL);
	assert_non_null(strstr(leat_err_msg(), ":1:"));
	assert_non_null(strstr(leat_err_msg(), "high"));
	assert_int_equal(applied, 0);
	leat_tune_stop();
}

static void
an_empty_range_is_refused_when_the_object_comes(void **state)
{
	struct worker_tune_settings s;

	(void)state;
	assert_int_equal(start("worker.w0.low = 50\nworker.w0.high = 40\n"), 0);
	assert_null(add("w0", &s));
	assert_int_equal(rte_errno, EINVAL);
	leat_tune_stop();
}

static void
what_the_component_refuses_keeps_it_from_coming(void **state)
{
	struct worker_tune_settings s;
	struct leat_tune_object *o;

	(void)state;
	assert_int_equal(start("worker.w0.checked = true\n"), 0);
	assert_null(add("w0", &s));
	assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "it can't check"));
	/* The object's name and record are free again. */
	o = add("w1", &s);
	assert_non_null(o);
	leat_tune_del(o);
	leat_tune_stop();
}

static int
setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int
teardown(void **state)
{
	(void)state;
	return unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_matching_lines_hold),
		cmocka_unit_test(specials_and_former_names_are_known),
		cmocka_unit_test(a_wrong_line_ends_the_start),
		cmocka_unit_test(a_line_without_end_is_refused),
		cmocka_unit_test(a_file_that_is_not_there_is_named),
		cmocka_unit_test(half_of_a_group_is_refused_when_the_object_comes),
		cmocka_unit_test(an_empty_range_is_refused_when_the_object_comes),
		cmocka_unit_test(what_the_component_refuses_keeps_it_from_coming),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
