/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings and measurements of endpoints, over a driver that does what the test says. */

#include <leat_error.h>
#include <leat_fabric.h>

#include "fabric_pvt.h"
#include "mock_driver.h"
#include "peer_tune.h"
#include "tune_drive.h"

#define OPS 32

static volatile uint64_t clock_now;
static struct leat_op ops[OPS];

static struct leat_ep *
ep_new(void)
{
	struct leat_ep_conf conf = { .name = "ep",
				     .ops = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP),
				     .tx_depth = OPS,
				     .rx_depth = OPS,
				     .max_peers = 4 };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);

	memset(ops, 0, sizeof(ops));
	return ep;
}

static struct leat_tune_object *
tune_of(struct leat_ep *ep)
{
	return ep->ctrl->tune;
}

static void
ep_end(struct leat_ep *ep)
{
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(mock_nb_eps, 0);
}

static int
serve(struct leat_ep *ep)
{
	assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
	return tune_answer(tune_of(ep));
}

static int
set(struct leat_ep *ep, const char *name, const char *value)
{
	int ret = tune_ask(tune_of(ep), name, value, NULL);

	return ret < 0 ? ret : serve(ep);
}

static void
peer_up(struct leat_ep *ep)
{
	struct leat_event ev;

	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), 0);
	leat_peer_up(ep, &ep->peers[0], NULL, 0);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 1);
}

/* Post n ops of a type, from ops[first] on, as one burst. */
static void
post(struct leat_ep *ep, unsigned int type, unsigned int first, uint16_t n)
{
	struct leat_op *burst[OPS];
	uint16_t i;

	for (i = 0; i < n; i++) {
		burst[i] = &ops[first + i];
		burst[i]->type = (uint8_t)type;
		burst[i]->peer = type == LEAT_OP_RECV ? LEAT_PEER_ANY : 0;
	}
	assert_int_equal(leat_ep_post(ep, burst, n), n);
}

static uint16_t
poll_all(struct leat_ep *ep)
{
	struct leat_op *done[OPS];

	return leat_ep_poll(ep, done, OPS);
}

static void
test_settings_of_the_program(void **state)
{
	const struct endpoint_tune_settings *s;
	struct endpoint_tune_report rep;
	struct leat_ep *ep = ep_new();

	(void)state;
	assert_non_null(ep);
	s = tune_current(tune_of(ep));
	assert_int_equal(s->tx_depth, OPS);
	assert_int_equal(s->rx_depth, OPS);
	assert_int_equal(s->max_peers, 4);
	assert_int_equal(s->latency_sample, 0);
	assert_int_equal(s->inline_max, -1);
	assert_int_equal(s->signal_interval, 0);
	tune_report(tune_of(ep), &rep);
	assert_string_equal(rep.device, "fabric_mock0");
	assert_string_equal(rep.provider, "mock");
	assert_int_equal(rep.inline_effective, 64);
	assert_int_equal(rep.signal_effective, 0);
	assert_int_equal(tune_ask(tune_of(ep), "tx_depth", "3", NULL), -EPERM);
	ep_end(ep);
}

/*
 * Sizes in the file replace the program's, as far as the device allows. The other settings apply
 * as well.
 */
static void
test_settings_of_a_file(void **state)
{
	const struct endpoint_tune_settings *s;
	struct leat_ep *ep;

	(void)state;
	tune_file_begin("endpoint.ep.tx_depth = 5000\n"
			"endpoint.ep.rx_depth = automatic\n"
			"endpoint.ep.max_peers = 9\n"
			"endpoint.*.inline_max = 1000\n"
			"endpoint.ep.latency_sample = 2\n");
	ep = ep_new();
	assert_non_null(ep);
	s = tune_current(tune_of(ep));
	assert_int_equal(s->tx_depth, 1024);
	assert_int_equal(s->rx_depth, 8);
	assert_int_equal(s->max_peers, 9);
	assert_int_equal(s->inline_max, 64);
	assert_int_equal(s->latency_sample, 2);
	assert_int_equal(ep->nb_peers, 9);
	assert_int_equal(ep->tx_room, 1024);
	assert_int_equal(ep->rx_room, 8);
	assert_int_equal(ep->depth, 1032);
	assert_true(ep->sampled);
	ep_end(ep);
	tune_file_end();

	tune_file_begin("endpoint.ep.signal_interval = 4\n");
	assert_null(ep_new());
	assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "mock"));
	assert_int_equal(mock_nb_eps, 0);
	tune_file_end();
}

static void
test_options(void **state)
{
	struct leat_ep *ep = ep_new();

	(void)state;
	assert_int_equal(set(ep, "inline_max", "20"), 0);
	assert_int_equal(mock.inline_max, 20);
	assert_int_equal(ep->ctrl->set.inline_max, 20);
	/* The value is clamped to the device's limit, and the answer gives the value in effect. */
	assert_int_equal(set(ep, "inline_max", "4096"), 0);
	assert_int_equal(mock.inline_max, 64);
	assert_int_equal(ep->ctrl->set.inline_max, 64);
	assert_int_equal(set(ep, "inline_max", "0"), 0);
	assert_int_equal(mock.inline_max, 0);
	assert_int_equal(set(ep, "inline_max", "automatic"), 0);
	assert_int_equal(mock.inline_max, 64);
	assert_int_equal(ep->ctrl->set.inline_max, -1);

	/* The device can't choose which sends are signaled: an interval is refused. */
	assert_int_equal(set(ep, "inline_max", "7"), 0);
	assert_int_equal(set(ep, "signal_interval", "8"), -EOPNOTSUPP);
	assert_non_null(strstr(tune_text(tune_of(ep)), "mock"));
	assert_int_equal(set(ep, "signal_interval", "automatic"), 0);
	assert_int_equal(tune_ask(tune_of(ep), "inline_max", "9", "signal_interval", "8",
				  "latency_sample", "1", NULL),
			 0);
	assert_int_equal(serve(ep), -EOPNOTSUPP);
	assert_int_equal(mock.inline_max, 7);
	assert_int_equal(ep->ctrl->set.inline_max, 7);
	assert_int_equal(ep->ctrl->inline_effective, 7);
	assert_int_equal(ep->ctrl->set.latency_sample, 0);
	assert_false(ep->sampled);

	mock_signal = true;
	assert_int_equal(set(ep, "signal_interval", "200"), 0);
	assert_int_equal(mock.signal_interval, 32);
	assert_int_equal(ep->ctrl->set.signal_interval, 32);
	mock_signal = false;
	ep_end(ep);
}

/*
 * Every third op is timed, whatever the bursts; comments behind the posts give the indices of these
 * ops. A timed op that failed is not counted.
 */
static void
test_sample_counts(void **state)
{
	struct endpoint_tune_report rep;
	struct leat_ep *ep = ep_new();
	leat_post_fn post_fn = ep->post;
	leat_poll_fn poll_fn = ep->poll;
	unsigned int i;

	(void)state;
	peer_up(ep);
	/* An op in flight when sampling is switched on is not timed. */
	post(ep, LEAT_OP_SEND, 30, 1);
	assert_int_equal(set(ep, "latency_sample", "3"), 0);
	assert_ptr_not_equal(ep->post, post_fn);
	assert_ptr_equal(ep->drv_post, post_fn);
	clock_now = 1000000;
	post(ep, LEAT_OP_SEND, 0, 4);  /* 2 */
	post(ep, LEAT_OP_RECV, 4, 5);  /* 5, 8 */
	post(ep, LEAT_OP_WRITE, 9, 7); /* 11, 14 */
	clock_now += 5000;
	while (mock.nb_ops > 0)
		mock_finish(ep, 0, mock.ops[0] == &ops[11] ? -EIO : 0, 8);
	assert_int_equal(poll_all(ep), 17);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.latency_send.count, 1);
	assert_int_equal(rep.latency_recv.count, 2);
	assert_int_equal(rep.latency_write.count, 1);
	assert_int_equal(rep.latency_read.count, 0);
	assert_int_equal(rep.latency_recv.sum, 2 * leat_cycles_to_ns(5000));
	assert_int_equal(rep.latency_recv.bucket[leat_tune_bucket(leat_cycles_to_ns(5000))], 2);

	/* Ops that are done before the poll are READY when the poll begins; each is timed. */
	assert_int_equal(set(ep, "latency_sample", "1"), 0);
	for (i = 0; i < 10; i++) {
		post(ep, LEAT_OP_SEND, i, 1);
		mock_finish(ep, 0, 0, 0);
		assert_int_equal(ops[i].state, LEAT_OP_READY);
	}
	clock_now += 100;
	assert_int_equal(poll_all(ep), 10);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.latency_send.count, 11);

	/*
	 * Two ops are being timed when sampling is switched off. One comes back before sampling is
	 * switched on again, the other afterwards: neither is counted.
	 */
	post(ep, LEAT_OP_SEND, 0, 2);
	assert_int_equal(set(ep, "latency_sample", "off"), 0);
	assert_ptr_equal(ep->post, post_fn);
	assert_ptr_equal(ep->poll, poll_fn);
	mock_finish(ep, 0, 0, 0);
	assert_int_equal(poll_all(ep), 1);
	memset(&ops[0], 0, sizeof(ops[0]));
	assert_int_equal(set(ep, "latency_sample", "1"), 0);
	mock_finish(ep, 0, 0, 0);
	assert_int_equal(poll_all(ep), 1);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.latency_send.count, 11);
	ep_end(ep);
}

/* 200 ops are in flight, of which 64 can be timed at once: poll returns all 200. */
static void
test_sample_full(void **state)
{
	struct leat_ep_conf conf = { .rx_depth = 200 };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);
	static struct leat_op many[200];
	struct endpoint_tune_report rep;
	struct leat_op *op;
	unsigned int i, n = 0;

	(void)state;
	assert_non_null(ep);
	assert_int_equal(set(ep, "latency_sample", "1"), 0);
	for (i = 0; i < 200; i++) {
		op = &many[i];
		*op = (struct leat_op){ .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };
		assert_int_equal(leat_ep_post(ep, &op, 1), 1);
	}
	while (mock.nb_ops > 0)
		mock_finish(ep, 0, 0, 0);
	while (leat_ep_poll(ep, &op, 1) == 1)
		assert_ptr_equal(op, &many[n++]);
	assert_int_equal(n, 200);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.latency_recv.count, 64);
	ep_end(ep);
}

static unsigned int nb_other;

static void
other_poll(struct leat_ep *ep)
{
	nb_other++;
	while (mock.nb_ops > 0)
		mock_finish(ep, 0, 0, 8);
}

/*
 * If the driver changes its poll function while ops are timed, sampling stays on. If the endpoint
 * is shut down then, each op is returned.
 */
static void
test_sample_while_it_ends(void **state)
{
	struct endpoint_tune_report rep;
	struct leat_ep *ep = ep_new();
	leat_poll_fn sampled;
	struct leat_op *op = &ops[0];
	unsigned int i;

	(void)state;
	peer_up(ep);
	assert_int_equal(set(ep, "latency_sample", "1"), 0);
	sampled = ep->poll;
	post(ep, LEAT_OP_SEND, 0, 4);
	leat_ep_poll_set(ep, other_poll);
	assert_ptr_equal(ep->poll, sampled);
	assert_int_equal(poll_all(ep), 4);
	assert_int_equal(nb_other, 1);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.latency_send.count, 4);

	post(ep, LEAT_OP_RECV, 0, 8);
	post(ep, LEAT_OP_SEND, 8, 2);
	assert_int_equal(leat_ep_shutdown(ep, 1000), 0);
	assert_int_equal(leat_ep_post(ep, &op, 1), 0);
	/* Sampling is switched off and on again during the shutdown: post still refuses ops. */
	assert_int_equal(set(ep, "latency_sample", "off"), 0);
	op = &ops[20];
	assert_int_equal(leat_ep_post(ep, &op, 1), 0);
	assert_int_equal(rte_errno, ESHUTDOWN);
	assert_int_equal(set(ep, "latency_sample", "1"), 0);
	assert_int_equal(leat_ep_post(ep, &op, 1), 0);
	assert_int_equal(rte_errno, ESHUTDOWN);
	for (i = 0; i < 3; i++)
		(void)leat_ep_events(ep, NULL, 0);
	assert_int_equal(poll_all(ep), 10);
	(void)leat_ep_events(ep, NULL, 0);
	assert_int_equal(ep->ctrl->state, LEAT_EP_SHUT);
	assert_int_equal(poll_all(ep), 0);
	assert_int_equal(set(ep, "latency_sample", "off"), 0);
	assert_int_equal(set(ep, "latency_sample", "1"), -ESHUTDOWN);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.state, ENDPOINT_TUNE_STATE_SHUT);
	assert_int_equal(leat_ep_destroy(ep), 0);
}

static void
test_report(void **state)
{
	char name[LEAT_TUNE_OBJECT_NAME_MAX];
	struct endpoint_tune_report rep;
	struct leat_ep *ep = ep_new();
	struct peer_tune_report peer;

	(void)state;
	assert_int_equal(leat_ep_listen(ep, ":0"), 0);
	assert_int_equal(tune_row(tune_of(ep), 0, name, &peer), 0);
	peer_up(ep);
	post(ep, LEAT_OP_SEND, 0, 3);
	post(ep, LEAT_OP_RECV, 3, 2);
	mock_finish(ep, 1, 0, 100);
	assert_int_equal(poll_all(ep), 0);
	tune_report(tune_of(ep), &rep);
	assert_true(rep.listening);
	assert_int_equal(rep.state, ENDPOINT_TUNE_STATE_OPEN);
	assert_int_equal(rep.peers, 1);
	assert_int_equal(rep.posted, 5);
	assert_int_equal(rep.returned, 0);
	assert_int_equal(rep.inflight, 5);
	assert_int_equal(rep.held_back, 1);
	assert_int_equal(rep.held_back_now, 1);
	assert_int_equal(rep.tx_bytes, 100);
	assert_int_equal(tune_row(tune_of(ep), 0, name, &peer), 1);
	assert_string_equal(name, "peer0");
	assert_string_equal(peer.address, "there:1");
	assert_int_equal(peer.state, PEER_TUNE_STATE_UP);
	assert_int_equal(peer.posted, 3);
	assert_int_equal(peer.inflight, 2);
	assert_int_equal(peer.held_back_now, 1);
	assert_int_equal(tune_row(tune_of(ep), 3, name, &peer), 0);
	assert_int_equal(tune_row(tune_of(ep), 4, name, &peer), -1);
	mock_finish(ep, 0, 0, 100);
	mock_finish(ep, 0, 0, 100);
	assert_int_equal(poll_all(ep), 3);
	tune_report(tune_of(ep), &rep);
	assert_int_equal(rep.returned, 3);
	assert_int_equal(rep.inflight, 2);
	assert_int_equal(rep.held_back_now, 0);
	assert_int_equal(tune_row(tune_of(ep), 0, name, &peer), 1);
	assert_int_equal(peer.inflight, 0);
	assert_int_equal(peer.returned, 3);
	ep_end(ep);
}

static int
start(void **state)
{
	static char prog[] = "test", nopci[] = "--no-pci", dev[] = "--vdev=fabric_mock0";
	static char notel[] = "--no-telemetry", notune[] = "--no-tune";
	char *argv[] = { prog, nopci, notel, notune, dev, NULL };

	(void)state;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	clock_now = 1000000;
	leat_clock_mock_set(&clock_now);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settings_of_the_program),
		cmocka_unit_test(test_settings_of_a_file),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_sample_counts),
		cmocka_unit_test(test_sample_full),
		cmocka_unit_test(test_sample_while_it_ends),
		cmocka_unit_test(test_report),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
