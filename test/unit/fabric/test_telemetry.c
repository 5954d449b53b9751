/* SPDX-License-Identifier: BSD-3-Clause */

/* The telemetry commands, asked as dpdk-telemetry.py asks them: over the process's UNIX socket. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "mock_driver.h"
#include "telemetry_client.h"

static int sock = -1;

static const char *
ask(const char *cmd)
{
	return telemetry_ask(sock, cmd);
}

static bool
has(const char *answer, const char *key, const char *value)
{
	if (telemetry_find(answer, key, value) != NULL)
		return true;
	print_error("no %s: %s in %s\n", key, value, answer);
	return false;
}

static void
test_devices(void **state)
{
	const char *a = ask("/leat/devices");

	(void)state;
	assert_true(has(a, "fabric_mock0", "{"));
	assert_true(has(a, "driver", "\"fabric_mock\""));
	assert_true(has(a, "provider", "\"mock\""));
	assert_true(has(a, "max_msg", "1048576"));
}

static void
test_endpoints(void **state)
{
	struct leat_ep_conf conf = { .name = "watched", .max_peers = 2 };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);
	struct leat_op ops[3], *p[3] = { &ops[0], &ops[1], &ops[2] };
	char cmd[64], id[32];
	const char *a;
	int i;

	(void)state;
	assert_non_null(ep);
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < 3; i++) {
		ops[i].type = LEAT_OP_RECV;
		ops[i].peer = LEAT_PEER_ANY;
	}
	assert_int_equal(leat_ep_post(ep, p, 3), 3);
	mock_finish(ep, 2, 0, 10); /* held back behind the others */
	snprintf(id, sizeof(id), "%u", leat_ep_id(ep));
	a = ask("/leat/endpoints");
	assert_non_null(strstr(a, id));
	snprintf(cmd, sizeof(cmd), "/leat/endpoint,%s", id);
	a = ask(cmd);
	assert_true(has(a, "name", "\"watched\""));
	assert_true(has(a, "device", "\"fabric_mock0\""));
	assert_true(has(a, "posted", "3"));
	assert_true(has(a, "returned", "0"));
	assert_true(has(a, "rx_bytes", "10"));
	assert_true(has(a, "held_back", "1"));
	assert_true(has(a, "held_back_now", "1"));

	assert_non_null(strstr(ask("/leat/endpoint,999"), "null"));
	assert_non_null(strstr(ask("/leat/endpoint,x"), "null"));
	assert_non_null(strstr(ask("/leat/endpoint"), "null"));
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_null(strstr(ask("/leat/endpoints"), id));
}

static int
setup(void **state)
{
	static char prog[] = "test_telemetry", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char dev[] = "--vdev=fabric_mock0";
	char *argv[] = { prog, nopci, l, zero, dev, NULL };

	(void)state;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	sock = telemetry_dial();
	return sock < 0 ? -1 : 0;
}

static int
teardown(void **state)
{
	(void)state;
	close(sock);
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_endpoints),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
