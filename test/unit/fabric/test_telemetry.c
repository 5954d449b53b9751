/* SPDX-License-Identifier: BSD-3-Clause */

/* The telemetry commands, asked as dpdk-telemetry.py asks them: over the process's UNIX socket. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "mock_driver.h"

#define ANSWER_MAX 16384

/*
 * Other programs may run side by side, each with a socket of its own: dpdk_telemetry.v2, then :1, :2, ... Ours is the one
 * that tells our pid.
 */
static int
dial(unsigned int n)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char hello[ANSWER_MAX], pid[32];
	ssize_t len;
	int fd;

	if (n == 0)
		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/dpdk_telemetry.v2",
			 rte_eal_get_runtime_dir());
	else
		snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/dpdk_telemetry.v2:%u",
			 rte_eal_get_runtime_dir(), n);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0) {
		len = recv(fd, hello, sizeof(hello) - 1, 0);
		if (len > 0) {
			hello[len] = '\0';
			snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)getpid());
			if (strstr(hello, pid) != NULL)
				return fd;
			snprintf(pid, sizeof(pid), "\"pid\": %d,", (int)getpid());
			if (strstr(hello, pid) != NULL)
				return fd;
		}
	}
	close(fd);
	return -1;
}

static int sock = -1;

static const char *
ask(const char *cmd)
{
	static char answer[ANSWER_MAX];
	ssize_t len;

	assert_int_equal(send(sock, cmd, strlen(cmd), 0), (ssize_t)strlen(cmd));
	len = recv(sock, answer, sizeof(answer) - 1, 0);
	assert_true(len > 0);
	answer[len] = '\0';
	return answer;
}

static bool
has(const char *answer, const char *key, const char *value)
{
	char text[160];

	/* newer versions put no blank behind the colon */
	snprintf(text, sizeof(text), "\"%s\":%s", key, value);
	if (strstr(answer, text) != NULL)
		return true;
	snprintf(text, sizeof(text), "\"%s\": %s", key, value);
	if (strstr(answer, text) != NULL)
		return true;
	print_error("no %s in %s\n", text, answer);
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
	unsigned int n;

	(void)state;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	for (n = 0; n < 64 && sock < 0; n++)
		sock = dial(n);
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
