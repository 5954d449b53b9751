/* SPDX-License-Identifier: BSD-3-Clause */

/* How the arguments of leat_init() are split, and which options are added for EAL. */

#include <errno.h>
#include <string.h>

#include <rte_common.h>

#include <leat_error.h>

#include "eal_args.h"
#include "leat_cmocka.h"

/* Count an option among EAL's arguments. */
static unsigned int
count_args(const struct eal_args *s, const char *what)
{
	unsigned int n = 0;
	int i;

	for (i = 0; i < s->eal_argc; i++)
		n += strcmp(s->eal_argv[i], what) == 0;
	return n;
}

static void
split(struct eal_args *s, char *a, char *b)
{
	char *argv[] = { (char *)"prog", (char *)"-m", (char *)"64", a, b, NULL };
	int argc;

	for (argc = 0; argv[argc] != NULL; argc++)
		;
	assert_int_equal(eal_args_split(s, argc, argv, argc), 0);
	assert_null(s->eal_argv[s->eal_argc]);
}

/* No NIC of the machine is probed unless the command line names one. */
static void
test_pci(void **state)
{
	static const char *const named[][2] = {
		{ "-a", "0000:01:00.0" }, { "-a0000:01:00.0", NULL }, { "--allow=01:00.0", NULL },
		{ "--allow", "01:00.0" }, { "-b", "0000:01:00.0" },   { "--block=01:00.0", NULL },
	};
	struct eal_args s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		split(&s, (char *)named[i][0], (char *)named[i][1]);
		assert_int_equal(count_args(&s, "--no-pci"), 0);
		assert_int_equal(count_args(&s, named[i][0]), 1);
		eal_args_free(&s);
	}
	split(&s, NULL, NULL);
	assert_int_equal(count_args(&s, "--no-pci"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--no-pci", NULL);
	assert_int_equal(count_args(&s, "--no-pci"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--allocate", NULL);
	assert_int_equal(count_args(&s, "--no-pci"), 1);
	eal_args_free(&s);
}

/* Devices of leat are removed from EAL's arguments, in both spellings; EAL's devices are not. */
static void
test_devices(void **state)
{
	struct eal_args s;

	(void)state;
	split(&s, (char *)"--vdev=fabric_ring0,depth=16", (char *)"--vdev=net_null0");
	assert_int_equal(s.nb_specs, 1);
	assert_string_equal(s.specs[0], "fabric_ring0,depth=16");
	assert_int_equal(count_args(&s, "--vdev=net_null0"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--vdev", (char *)"fabric_ring1");
	assert_int_equal(s.nb_specs, 1);
	assert_string_equal(s.specs[0], "fabric_ring1");
	assert_int_equal(count_args(&s, "--vdev"), 0);
	eal_args_free(&s);
	/* --vdev without a value is left to EAL, which reports the mistake. */
	split(&s, (char *)"--vdev", NULL);
	assert_int_equal(s.nb_specs, 0);
	assert_int_equal(count_args(&s, "--vdev"), 1);
	eal_args_free(&s);
}

/* Options of settings are removed from EAL's arguments, in both spellings. */
static void
test_settings(void **state)
{
	char *dir[] = { (char *)"prog",		(char *)"--tune-dir", (char *)"d",
			(char *)"--settings=a", (char *)"--settings", (char *)"b",
			(char *)"-m64" };
	char *lacking[][2] = { { (char *)"prog", (char *)"--settings" },
			       { (char *)"prog", (char *)"--settings=" },
			       { (char *)"prog", (char *)"--tune-dir" },
			       { (char *)"prog", (char *)"--tune-dir=" } };
	struct eal_args s;
	size_t i;

	(void)state;
	split(&s, (char *)"--no-tune", (char *)"--no-tuner");
	assert_true(s.no_tune);
	assert_null(s.tune_dir);
	assert_null(s.settings);
	assert_int_equal(count_args(&s, "--no-tune"), 0);
	assert_int_equal(count_args(&s, "--no-tuner"), 1);
	eal_args_free(&s);
	assert_int_equal(eal_args_split(&s, RTE_DIM(dir), dir, RTE_DIM(dir)), 0);
	assert_false(s.no_tune);
	assert_string_equal(s.tune_dir, "d");
	assert_string_equal(s.settings, "b");
	assert_int_equal(count_args(&s, "--tune-dir") + count_args(&s, "d") + count_args(&s, "b"),
			 0);
	assert_int_equal(count_args(&s, "-m64"), 1);
	eal_args_free(&s);
	for (i = 0; i < RTE_DIM(lacking); i++) {
		assert_int_equal(eal_args_split(&s, 2, lacking[i], 2), -EINVAL);
		assert_non_null(strstr(leat_err_msg(), "needs the name"));
		eal_args_free(&s);
	}
}

/*
 * leat adds --in-memory for EAL, unless an option asks for memory that processes share; with
 * --no-huge it adds --no-shconf instead.
 */
static void
test_sharing(void **state)
{
	struct eal_args s;

	(void)state;
	split(&s, (char *)"--file-prefix=x", NULL);
	assert_int_equal(count_args(&s, "--in-memory") + count_args(&s, "--no-shconf"), 0);
	eal_args_free(&s);
	split(&s, (char *)"--no-huge", NULL);
	assert_int_equal(count_args(&s, "--in-memory"), 0);
	assert_int_equal(count_args(&s, "--no-shconf"), 1);
	eal_args_free(&s);
	split(&s, NULL, NULL);
	assert_int_equal(count_args(&s, "--in-memory"), 1);
	eal_args_free(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pci),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_sharing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
