/* SPDX-License-Identifier: BSD-3-Clause */

/* How the arguments of leat_init() are split, and what EAL is told besides. */

#include <string.h>

#include "eal_args.h"
#include "leat_cmocka.h"

/* How often EAL is told something. */
static unsigned int
told(const struct eal_args *s, const char *what)
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

/* The machine's NICs are left alone unless the command line names one. */
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
		assert_int_equal(told(&s, "--no-pci"), 0);
		assert_int_equal(told(&s, named[i][0]), 1);
		eal_args_free(&s);
	}
	split(&s, NULL, NULL);
	assert_int_equal(told(&s, "--no-pci"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--no-pci", NULL);
	assert_int_equal(told(&s, "--no-pci"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--allocate", NULL);
	assert_int_equal(told(&s, "--no-pci"), 1);
	eal_args_free(&s);
}

/* Devices of leat are not EAL's, in both spellings; those of EAL are. */
static void
test_devices(void **state)
{
	struct eal_args s;

	(void)state;
	split(&s, (char *)"--vdev=fabric_ring0,depth=16", (char *)"--vdev=net_null0");
	assert_int_equal(s.nb_specs, 1);
	assert_string_equal(s.specs[0], "fabric_ring0,depth=16");
	assert_int_equal(told(&s, "--vdev=net_null0"), 1);
	eal_args_free(&s);
	split(&s, (char *)"--vdev", (char *)"fabric_ring1");
	assert_int_equal(s.nb_specs, 1);
	assert_string_equal(s.specs[0], "fabric_ring1");
	assert_int_equal(told(&s, "--vdev"), 0);
	eal_args_free(&s);
	/* Nothing behind it: EAL complains. */
	split(&s, (char *)"--vdev", NULL);
	assert_int_equal(s.nb_specs, 0);
	assert_int_equal(told(&s, "--vdev"), 1);
	eal_args_free(&s);
}

/* What several processes share is the caller's affair. */
static void
test_sharing(void **state)
{
	struct eal_args s;

	(void)state;
	split(&s, (char *)"--file-prefix=x", NULL);
	assert_int_equal(told(&s, "--in-memory") + told(&s, "--no-shconf"), 0);
	eal_args_free(&s);
	split(&s, (char *)"--no-huge", NULL);
	assert_int_equal(told(&s, "--in-memory"), 0);
	assert_int_equal(told(&s, "--no-shconf"), 1);
	eal_args_free(&s);
	split(&s, NULL, NULL);
	assert_int_equal(told(&s, "--in-memory"), 1);
	eal_args_free(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pci),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_sharing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
