/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests for sessions, on an endpoint of the mock driver whose accept fails. */

#include <errno.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_rpc.h>

#include "leat_cmocka.h"
#include "mock_driver.h"
#include "rpc_wire.h"

static struct leat_ep *ep;
static struct leat_rpc *rpc;

static int
start(void **state)
{
	static char prog[] = "test_rpc", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char dev[] = "--vdev=fabric_mock0", log[] = "--log-level=leat.*:error";
	char *argv[] = { prog, tel, pci, log, dev, NULL };

	(void)state;
	if (leat_init(RTE_DIM(argv) - 1, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

static int
setup(void **state)
{
	const struct leat_ep_conf conf = { .max_peers = 4, .tx_depth = 64, .rx_depth = 256 };
	const struct leat_rpc_conf rconf = { .max_sessions = 1, .credits = 16 };

	(void)state;
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	rpc = leat_rpc_create(ep, &rconf);
	if (rpc == NULL)
		fail_msg("%s", leat_err_msg());
	mock.accept_ret = -ENOMEM;
	return 0;
}

static int
teardown(void **state)
{
	struct leat_op *ops[32];
	unsigned int turns = 0;
	uint16_t n;

	(void)state;
	/* The context's receives come back first. */
	while (leat_rpc_destroy(rpc) == -EBUSY) {
		n = leat_ep_poll(ep, ops, RTE_DIM(ops));
		assert_int_equal(leat_rpc_process(rpc, ops, n), 0);
		assert_true(turns++ < 100);
	}
	return leat_ep_close(ep, 0, NULL, NULL);
}

/* Let a peer ask for a session. @return its request */
static struct leat_event
request(void)
{
	const struct rpc_hello h = {
		.version = RPC_VERSION,
		.slots = 4,
		.features = RPC_FEATURES,
		.token = 77,
		.credits = 16,
		.packet = 4096,
		.max_msg = 1 << 20,
	};
	uint8_t buf[RPC_HELLO_LEN];
	struct leat_event ev;

	rpc_hello_put(buf, &h);
	assert_non_null(leat_peer_request(ep, "there:1", buf, sizeof(buf)));
	assert_int_equal(leat_ep_events(ep, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_CONNECT_REQ);
	return ev;
}

/* The peer is rejected, its id is free again, and the error is that of the accept. */
static void
test_accept_fails(void **state)
{
	const struct leat_event ev = request();
	struct leat_rpc_stats stats;

	(void)state;
	assert_null(leat_rpc_accept(rpc, &ev, NULL));
	assert_int_equal(rte_errno, ENOMEM);
	assert_string_equal(leat_err_msg(), "accept");
	assert_int_equal(mock.nb_accept, 1);
	assert_int_equal(mock.nb_reject, 1);
	assert_int_equal(leat_ep_peer_state(ep, ev.peer), LEAT_PEER_FREE);
	leat_rpc_stats_get(rpc, &stats);
	assert_int_equal(stats.sessions, 0);
}

/* The reason of a refusal can't be sent: the peer is rejected without it. */
static void
test_refuse_fails(void **state)
{
	const struct leat_event ev = request();

	(void)state;
	leat_rpc_refuse(rpc, &ev, -EACCES);
	assert_int_equal(mock.nb_accept, 1);
	assert_int_equal(mock.nb_reject, 1);
	assert_int_equal(leat_ep_peer_state(ep, ev.peer), LEAT_PEER_FREE);
}

/*
 * Once leat_rpc_destroy() has begun, no session is opened; the error says why, and does not blame
 * max_sessions.
 */
static void
test_destroying(void **state)
{
	const struct leat_event ev = request();

	(void)state;
	assert_int_equal(leat_rpc_destroy(rpc), -EBUSY);
	assert_null(leat_rpc_connect(rpc, "there:1", NULL));
	assert_int_equal(rte_errno, ESHUTDOWN);
	assert_non_null(strstr(leat_err_msg(), "destroyed"));
	mock.accept_ret = 0;
	assert_null(leat_rpc_accept(rpc, &ev, NULL));
	assert_int_equal(rte_errno, ESHUTDOWN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_accept_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuse_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroying, setup, teardown),
	};

	return cmocka_run_group_tests_name("rpc-accept", tests, start, stop);
}
