/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests to connect, on an endpoint of the mock driver. */

#include <errno.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_reactor.h>
#include <leat_stream.h>

#include "leat_cmocka.h"
#include "mock_driver.h"

static int
start(void **state)
{
	static char prog[] = "test_stream", tel[] = "--no-telemetry", pci[] = "--no-pci";
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

static void
on_accept(struct leat_stream *s, void *arg)
{
	(void)s;
	(void)arg;
	fail_msg("a stream came up");
}

/* The device can't accept: the request is rejected, and its stream and peer id are free again. */
static void
test_accept_fails(void **state)
{
	const struct leat_reactor_conf rconf = { .events_us = 1 };
	const struct leat_stream_net_conf conf = { .max_streams = 1 };
	const struct leat_stream_listener listener = { .accept = on_accept };
	struct leat_reactor *r = leat_reactor_create(&rconf);
	struct leat_stream_net_stats stats;
	struct leat_stream_net *net;
	const struct leat_peer *peer;

	(void)state;
	assert_non_null(r);
	net = leat_stream_net_open(r, &conf);
	if (net == NULL)
		fail_msg("%s", leat_err_msg());
	assert_int_equal(leat_stream_listen(net, "here:1", &listener), 0);
	mock.accept_ret = -ENOMEM;
	peer = leat_peer_request(mock.ep, "there:1", NULL, 0);
	assert_non_null(peer);
	while (mock.nb_accept == 0)
		assert_true(leat_reactor_turn(r) >= 0);
	assert_int_equal(mock.nb_reject, 1);
	assert_int_equal(leat_ep_peer_state(mock.ep, peer->id), LEAT_PEER_FREE);
	leat_stream_net_stats_get(net, &stats);
	assert_int_equal(stats.streams, 0);
	assert_int_equal(stats.mem, 0);
	assert_int_equal(stats.failed, 1);
	assert_int_equal(leat_stream_net_close(net), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept_fails),
	};

	return cmocka_run_group_tests_name("stream-accept", tests, start, stop);
}
