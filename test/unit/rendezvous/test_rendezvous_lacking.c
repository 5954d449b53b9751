/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * PMIx's environment is set, but its library lacks functions: opening a rendezvous must fail,
 * instead of running as a single process.
 */

#include "rendezvous_test.h"

/* The stand-in for libpmix, with which this program is linked, defines it. */
const char *PMIx_Get_version(void);

static void
test_lacking(void **state)
{
	const struct leat_rendezvous_conf conf = { 0 };

	(void)state;
	assert_string_equal(PMIx_Get_version(), "lacking 1.0");
	setenv("PMIX_NAMESPACE", "job", 1);
	setenv("PMIX_RANK", "0", 1);
	assert_null(leat_rendezvous_open(&conf));
	assert_int_equal(rte_errno, ELIBACC);
	assert_msg_has("libpmix.so.2 has no PMIx_Init");
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lacking) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
