/* SPDX-License-Identifier: BSD-3-Clause */

/* The options of programs that run as several processes, through getopt_long(). */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <leat_cmocka.h>
#include <leat_error.h>

#include "ranks.h"

#define ARGS_MAX 16

static const struct option long_options[] = {
	{ "own", required_argument, NULL, 'o' },
	RANKS_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

/* @return 0, or the result of ranks_option() for the first option that it refused */
static int
parse(struct leat_rendezvous_conf *conf, const char *const *args)
{
	/* Static, since the configuration points to the strings of its arguments. */
	static char copy[ARGS_MAX][32];
	char *argv[ARGS_MAX] = { copy[0] };
	int argc = 1, opt, ret;

	snprintf(copy[0], sizeof(copy[0]), "program");
	for (; args[argc - 1] != NULL; argc++) {
		assert_true(argc < ARGS_MAX - 1);
		snprintf(copy[argc], sizeof(copy[argc]), "%s", args[argc - 1]);
		argv[argc] = copy[argc];
	}
	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:", long_options, NULL)) != -1) {
		assert_true(opt != '?' && opt != ':');
		ret = ranks_option(conf, opt, optarg);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static void
test_taken(void **state)
{
	const char *const all[] = { "--rank",	   "3",		  "--ranks",
				    "16384",	   "--ranks-dir", "/d",
				    "--ranks-job", "j",		  "--ranks-timeout",
				    "1.5",	   "--ranks-how", "file",
				    NULL };
	const char *const list[] = { "--ranks-list", "a:1,b:2", NULL };
	struct leat_rendezvous_conf conf = { 0 };

	(void)state;
	assert_int_equal(parse(&conf, all), 0);
	assert_true(conf.rank_given);
	assert_int_equal(conf.rank, 3);
	assert_int_equal(conf.size, 16384);
	assert_string_equal(conf.dir, "/d");
	assert_string_equal(conf.job, "j");
	assert_int_equal(conf.timeout_us, 1500000);
	assert_int_equal(conf.how, LEAT_RENDEZVOUS_FILE);
	conf = (struct leat_rendezvous_conf){ 0 };
	assert_int_equal(parse(&conf, list), 0);
	assert_string_equal(conf.list, "a:1,b:2");
	assert_false(conf.rank_given);
	assert_int_equal(conf.how, LEAT_RENDEZVOUS_AUTO);
}

static void
test_refused(void **state)
{
	static const struct {
		const char *opt, *val, *text;
	} bad[] = {
		{ "--rank", "x", "--rank: 'x' is not a number" },
		{ "--rank", "", "--rank: '' is not a number" },
		{ "--rank", "-1", "--rank: '-1' is not a number" },
		{ "--rank", "1x", "--rank: '1x' is not a number" },
		{ "--rank", "16384", "--rank: 16384 is out of range (0 to 16383)" },
		{ "--ranks", "0", "--ranks: 0 is out of range (1 to 16384)" },
		{ "--ranks", "99999999999999999999",
		  "--ranks: 99999999999999999999 is out of range (1 to 16384)" },
		{ "--ranks-timeout", "0",
		  "--ranks-timeout: 0 is out of range (0.001 to 86400 seconds)" },
		{ "--ranks-timeout", "1s", "--ranks-timeout: '1s' is not a number of seconds" },
		{ "--ranks-timeout", "nan", "--ranks-timeout: 'nan' is not a number of seconds" },
		{ "--ranks-how", "mpi",
		  "--ranks-how: 'mpi' is not auto, pmix, file, list or alone" },
	};
	struct leat_rendezvous_conf conf = { 0 };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		const char *const args[] = { bad[i].opt, bad[i].val, NULL };

		assert_int_equal(parse(&conf, args), -EINVAL);
		assert_string_equal(leat_err_msg(), bad[i].text);
	}
}

/* ranks_option() leaves options of the program's own to the program. */
static void
test_own(void **state)
{
	const char *const own[] = { "--own", "v", NULL };
	struct leat_rendezvous_conf conf = { 0 };

	(void)state;
	assert_int_equal(parse(&conf, own), -ENOENT);
}

/* The help names each option, and has no line that is too long. */
static void
test_help(void **state)
{
	const char *line, *end;
	const struct option *o;
	char opt[32];

	(void)state;
	for (o = long_options + 1; o->name != NULL; o++) {
		snprintf(opt, sizeof(opt), "\n  --%s ", o->name);
		assert_non_null(strstr(RANKS_HELP, opt));
	}
	for (line = RANKS_HELP; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(end - line <= 100);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
