/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_log.h>

static char *text;
static size_t text_len;
static FILE *stream;

static int
setup(void **state)
{
	(void)state;
	stream = open_memstream(&text, &text_len);
	return stream == NULL ? -1 : rte_openlog_stream(stream);
}

static int
teardown(void **state)
{
	(void)state;
	if (rte_openlog_stream(NULL) != 0 || fclose(stream) != 0)
		return -1;
	free(text);
	return 0;
}

static void
test_prefix_and_newline(void **state)
{
	(void)state;
	LEAT_LOG(ERR, base, "plain");
	LEAT_LOG(WARNING, fabric, "%s %d%%", "args", 7);
	LEAT_LOG(NOTICE, reactor, "%" PRIu64, UINT64_MAX);
	LEAT_LOG(INFO, driver, "info is shown");
	LEAT_LOG(INFO, app, "x");
	assert_int_equal(fflush(stream), 0);
	assert_string_equal(text, "leat/base: plain\n"
				  "leat/fabric: args 7%\n"
				  "leat/reactor: 18446744073709551615\n"
				  "leat/driver: info is shown\n"
				  "leat/app: x\n");
}

static void
test_levels(void **state)
{
	(void)state;
	LEAT_LOG(DEBUG, fabric, "not by default");
	assert_int_equal(fflush(stream), 0);
	assert_int_equal(text_len, 0);

	assert_int_equal(rte_log_set_level_pattern("leat.fabric", RTE_LOG_DEBUG), 0);
	LEAT_LOG(DEBUG, fabric, "now");
	LEAT_LOG(DEBUG, driver, "another type");
	assert_int_equal(rte_log_set_level_pattern("leat.*", RTE_LOG_ERR), 0);
	LEAT_LOG(WARNING, fabric, "not any more");
	LEAT_LOG(WARNING, driver, "not any more");
	LEAT_LOG(ERR, driver, "error");
	assert_int_equal(fflush(stream), 0);
	assert_string_equal(text, "leat/fabric: now\nleat/driver: error\n");
	assert_int_equal(rte_log_set_level_pattern("leat.*", RTE_LOG_INFO), 0);
}

static void
test_types_are_distinct(void **state)
{
	const int types[] = { leat_logtype_base,      leat_logtype_exchange, leat_logtype_fabric,
			      leat_logtype_tags,      leat_logtype_reactor,  leat_logtype_task,
			      leat_logtype_msg,	      leat_logtype_driver,   leat_logtype_app,
			      leat_logtype_rendezvous };
	unsigned int i, j;

	(void)state;
	for (i = 0; i < RTE_DIM(types); i++) {
		assert_true(types[i] >= RTE_LOGTYPE_FIRST_EXT_ID);
		for (j = 0; j < i; j++)
			assert_int_not_equal(types[i], types[j]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_prefix_and_newline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test(test_types_are_distinct),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
