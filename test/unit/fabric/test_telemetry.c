/* SPDX-License-Identifier: BSD-3-Clause */

/* The telemetry commands, asked as dpdk-telemetry.py asks them: over the process's UNIX socket. */

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
	mock_finish(ep, 2, 0, 10); /* held back until the others are done */
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

/* How a connection ends, and how its ops are then counted. */
struct end {
	int peer;   /* status of the connection's end */
	int before; /* status of the two ops that come back before the driver reports the end */
	int after;  /* status of the two ops that come back after that report */
	uint64_t errors;
	uint64_t flushed;
};

static void
check_end(const struct end *e)
{
	struct leat_ep_conf conf = { .name = "ending", .max_peers = 2 };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);
	struct leat_op ops[4], *p[4], *back[4];
	char cmd[64], number[32];
	struct leat_event ev[2];
	const char *a;
	int id, i;

	assert_non_null(ep);
	id = leat_ep_connect(ep, "there:1", NULL);
	assert_true(id >= 0);
	leat_peer_up(ep, &ep->peers[id], NULL, 0);
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < 4; i++) {
		ops[i].type = LEAT_OP_SEND;
		ops[i].peer = (uint16_t)id;
		p[i] = &ops[i];
	}
	assert_int_equal(leat_ep_post(ep, p, 4), 4);
	mock_finish(ep, 0, e->before, 0);
	mock_finish(ep, 0, e->before, 0);
	leat_peer_closing(ep, &ep->peers[id], e->peer, "it ends");
	mock_finish(ep, 0, e->after, 0);
	mock_finish(ep, 0, e->after, 0);
	leat_peer_down(ep, &ep->peers[id]);
	assert_int_equal(leat_ep_poll(ep, back, 4), 4);
	assert_int_equal(leat_ep_events(ep, ev, 2), 2);
	snprintf(cmd, sizeof(cmd), "/leat/endpoint,%u", leat_ep_id(ep));
	a = ask(cmd);
	snprintf(number, sizeof(number), "%" PRIu64, e->errors);
	assert_true(has(a, "errors", number));
	snprintf(number, sizeof(number), "%" PRIu64, e->flushed);
	assert_true(has(a, "flushed", number));
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
}

static void
test_clean_end_is_no_error(void **state)
{
	static const struct end ends[] = {
		/* A clean end: ops are flushed, whatever status the driver gave them. */
		{ 0, -ECONNRESET, -ECONNRESET, 0, 4 },
		{ 0, -ENOTCONN, -ECONNABORTED, 0, 4 },
		{ -ECONNABORTED, -ECONNABORTED, -ENOTCONN, 0, 4 },
		{ 0, 0, -ECONNRESET, 0, 2 },
		/* The peer died. */
		{ -ECONNRESET, -ECONNRESET, -ECONNRESET, 4, 0 },
		{ -ETIMEDOUT, -ECONNRESET, -ENOTCONN, 4, 0 },
		{ -ECONNRESET, 0, -ECONNRESET, 2, 0 },
		/* Cancelled. */
		{ -ECONNRESET, -ECANCELED, -ECONNRESET, 2, 2 },
		/* Errors that no end of a connection explains. */
		{ 0, -EIO, -EACCES, 4, 0 },
		{ 0, -EMSGSIZE, -ECONNRESET, 2, 2 },
		{ -ECONNABORTED, -ETIMEDOUT, -ESHUTDOWN, 4, 0 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(ends); i++) {
		print_message("%u\n", i);
		check_end(&ends[i]);
	}
}

static sem_t reading, removed;
static bool in_use, removed_in_use;

/*
 * Called on telemetry's thread while it reads a device: wait 1 s for the device's removal, which
 * must not happen.
 */
static void
informing(void)
{
	struct timespec until;
	int ret;

	__atomic_store_n(&in_use, true, __ATOMIC_RELEASE);
	(void)sem_post(&reading);
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	do
		ret = sem_timedwait(&removed, &until);
	while (ret < 0 && errno == EINTR);
	__atomic_store_n(&in_use, false, __ATOMIC_RELEASE);
}

static void
removing(void)
{
	removed_in_use = __atomic_load_n(&in_use, __ATOMIC_ACQUIRE);
	(void)sem_post(&removed);
}

/* leat_cleanup() waits while telemetry reads a device. This must be the last test. */
static void
test_cleanup_meanwhile(void **state)
{
	static const char cmd[] = "/leat/devices";

	(void)state;
	assert_int_equal(sem_init(&reading, 0, 0), 0);
	assert_int_equal(sem_init(&removed, 0, 0), 0);
	mock_informing = informing;
	mock_removing = removing;
	assert_int_equal(send(sock, cmd, strlen(cmd), 0), (ssize_t)strlen(cmd));
	while (sem_wait(&reading) < 0)
		assert_int_equal(errno, EINTR);
	assert_int_equal(leat_cleanup(), 0);
	assert_false(removed_in_use);
	assert_int_equal(mock_nb_devs, 0);
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
		cmocka_unit_test(test_clean_end_is_no_error),
		cmocka_unit_test(test_cleanup_meanwhile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
