/* SPDX-License-Identifier: BSD-3-Clause */

/* Device arguments: what each value means, which values are refused, and what the errors say. */

#include <stdio.h>
#include <string.h>

#include <leat_cmocka.h>

#include "fault_pvt.h"

static int
parse(const char *args, struct fault_conf *c)
{
	struct rte_kvargs *kv = rte_kvargs_parse(args, NULL);
	int ret;

	assert_non_null(kv);
	ret = fault_conf_parse(kv, c);
	rte_kvargs_free(kv);
	return ret;
}

static void
defaults(void **state)
{
	struct fault_conf c;

	(void)state;
	assert_int_equal(parse("lower=fabric_ring0", &c), 0);
	assert_int_equal(c.seed, 1);
	assert_int_equal(c.reorder, 0);
	assert_int_equal(c.delay.shape, FAULT_NEVER);
	assert_int_equal(c.refuse, 0);
	assert_int_equal(c.refuse_recv, 0);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.error_status, -EIO);
	assert_int_equal(c.stall, 0);
	assert_int_equal(c.stall_time.lo, 100);
	assert_int_equal(c.stall_time.hi, 1000);
	assert_int_equal(c.die.shape, FAULT_NEVER);
}

static void
values(void **state)
{
	struct fault_conf c;

	(void)state;
	assert_int_equal(parse("seed=0xffffffffffffffff,reorder=4096,delay=1..50,refuse=0.5,"
			       "refuse_recv=0.25,error=1,errno=ERANGE,stall=0.000001,"
			       "stall_time=exp:300,die=tail:10..1000",
			       &c),
			 0);
	assert_true(c.seed == UINT64_MAX);
	assert_int_equal(c.reorder, 4096);
	assert_int_equal(c.delay.shape, FAULT_RANGE);
	assert_int_equal(c.delay.lo, 1);
	assert_int_equal(c.delay.hi, 50);
	assert_int_equal(c.refuse, FAULT_ALWAYS / 2);
	assert_int_equal(c.refuse_recv, FAULT_ALWAYS / 4);
	assert_int_equal(c.error, FAULT_ALWAYS);
	assert_int_equal(c.error_status, -ERANGE);
	assert_int_equal(c.stall, FAULT_ALWAYS / 1000000);
	assert_int_equal(c.stall_time.shape, FAULT_EXP);
	assert_int_equal(c.stall_time.lo, 300);
	assert_int_equal(c.die.shape, FAULT_TAIL);
	assert_int_equal(c.die.lo, 10);
	assert_int_equal(c.die.hi, 1000);

	assert_int_equal(parse("seed=18446744073709551615,delay=7,refuse=0,error=0.0", &c), 0);
	assert_true(c.seed == UINT64_MAX);
	assert_int_equal(c.delay.lo, 7);
	assert_int_equal(c.delay.hi, 7);
	assert_int_equal(c.refuse, 0);
	assert_int_equal(c.error, 0);
	assert_int_equal(parse("delay=0,die=0..0", &c), 0);
	assert_int_equal(c.delay.shape, FAULT_NEVER);
	assert_int_equal(c.die.shape, FAULT_NEVER);
}

static void
refused(void **state)
{
	static const char *const bad[] = {
		"seed=",
		"seed=x",
		"seed=-1",
		"seed=18446744073709551616",
		"reorder=4097",
		"reorder=-1",
		"delay=x",
		"delay=1..",
		"delay=..5",
		"delay=5..1",
		"delay=60000001",
		"delay=1.5",
		"delay=exp:",
		"delay=exp:1..2",
		"delay=tail:",
		"delay=1..60000001",
		"delay=1 ",
		"delay=-1",
		"refuse=1",
		"refuse=0.991",
		"refuse=.5",
		"refuse=0.5x",
		"refuse=0.0000001",
		"refuse=-0.1",
		"refuse_recv=1",
		"error=1.1",
		"error=2",
		"error=x",
		"errno=EPERM",
		"errno=5",
		"stall=1.000001",
		"stall_time=x",
		"die=4000000001",
		"die=99999999999999999999",
	};
	struct fault_conf c;
	char key[32];
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		struct rte_kvargs *kv = rte_kvargs_parse(bad[i], NULL);

		/* An argument that ends with "=" is refused before the driver parses it. */
		if (kv == NULL || kv->pairs[0].value == NULL || kv->pairs[0].value[0] == '\0') {
			rte_kvargs_free(kv);
			continue;
		}
		if (fault_conf_parse(kv, &c) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
		assert_non_null(strstr(leat_err_msg(), key));
		assert_non_null(strstr(leat_err_msg(), "expected"));
		rte_kvargs_free(kv);
	}
}

/*
 * Every key of the driver's list has a value and help, and is parsed: a nonsensical value is
 * refused.
 */
static void
listed(void **state)
{
	const struct leat_driver_arg *a;
	struct fault_conf c;
	char args[64];

	(void)state;
	for (a = fault_args; a->name != NULL; a++) {
		assert_true(a->value[0] != '\0');
		assert_true(a->help[0] != '\0');
		assert_non_null(a->def);
		if (strcmp(a->name, "lower") == 0)
			continue; /* any name is accepted until the device is looked for */
		(void)snprintf(args, sizeof(args), "%s=nonsense", a->name);
		assert_int_equal(parse(args, &c), -EINVAL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(values),
		cmocka_unit_test(refused),
		cmocka_unit_test(listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
