/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints in a reactor, over a driver that does what the test says. */

#include <stdlib.h>

#include <rte_common.h>

#include <leat_fabric.h>

#include "mock_driver.h"
#include "reactor_test.h"

struct app {
	struct leat_ep *ep;
	struct leat_reactor *r;
	struct leat_poller *p;
	unsigned int calls, ops, events, shutdowns;
	int last_status;
	uint64_t now;
	bool remove_on_ops, remove_on_event;
};

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct app *a = arg;
	uint16_t i;

	assert_ptr_equal(ep, a->ep);
	assert_in_range(n, 1, LEAT_EP_BURST);
	a->calls++;
	a->ops += n;
	a->now = now;
	for (i = 0; i < n; i++)
		a->last_status = ops[i]->status;
	if (a->remove_on_ops)
		assert_int_equal(leat_poller_remove(a->p), 0);
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct app *a = arg;

	assert_ptr_equal(ep, a->ep);
	a->events++;
	if (ev->type == LEAT_EV_SHUTDOWN)
		a->shutdowns++;
	if (a->remove_on_event) {
		assert_int_equal(leat_poller_remove(a->p), 0);
		assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
		a->ep = NULL;
	}
}

#define OPS 100

static struct leat_op ops[OPS];

static void
app_init(struct app *a)
{
	struct leat_ep_conf conf = { .name = "the-ep",
				     .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV),
				     .tx_depth = OPS,
				     .rx_depth = OPS,
				     .max_peers = 2 };

	memset(a, 0, sizeof(*a));
	memset(ops, 0, sizeof(ops));
	a->r = test_reactor("r");
	a->ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(a->ep);
	a->p = leat_reactor_ep_add(a->r, a->ep, on_ops, on_event, a);
	assert_non_null(a->p);
	assert_string_equal(leat_poller_name(a->p), "the-ep");
}

static void
post_recvs(struct app *a, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct leat_op *op = &ops[i];

		op->type = LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		assert_int_equal(leat_ep_post(a->ep, &op, 1), 1);
	}
}

static void
app_end(struct app *a)
{
	assert_int_equal(leat_reactor_destroy(a->r), 0);
	assert_int_equal(leat_ep_close(a->ep, 0, NULL, NULL), 0);
}

static void
test_ep_bursts(void **state)
{
	struct app a;
	unsigned int i;

	(void)state;
	app_init(&a);
	assert_int_equal(leat_reactor_turn(a.r), 0);
	post_recvs(&a, 70);
	for (i = 0; i < 70; i++)
		mock_finish(a.ep, 0, 0, 8);
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.ops, LEAT_EP_BURST);
	assert_int_equal(a.now, test_clock);
	test_turns(a.r, 2);
	assert_int_equal(a.calls, 3);
	assert_int_equal(a.ops, 70);
	test_turns(a.r, 10);
	assert_int_equal(a.calls, 3);
	app_end(&a);
}

/*
 * The reactor reads events in its first turn and then every millisecond, but not while the poller
 * is paused.
 */
static void
test_ep_events(void **state)
{
	struct app a;
	unsigned int i, before;

	(void)state;
	app_init(&a);
	test_turns(a.r, 1);
	assert_int_equal(mock.nb_progress, 1);
	for (i = 0; i < 1000; i++) {
		test_clock += 10 * US;
		test_turns(a.r, 1);
	}
	assert_in_range(mock.nb_progress, 10, 11);

	assert_int_equal(leat_ep_connect(a.ep, "there:1", NULL), 0);
	leat_peer_up(a.ep, &a.ep->peers[0], NULL, 0);
	test_clock += 1 * MS;
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.events, 1);

	assert_int_equal(leat_poller_pause(a.p), 0);
	before = mock.nb_progress;
	test_clock += 100 * MS;
	test_turns(a.r, 10);
	assert_int_equal(mock.nb_progress, before);
	assert_int_equal(leat_poller_resume(a.p), 0);
	test_turns(a.r, 1);
	assert_int_equal(mock.nb_progress, before + 1);
	app_end(&a);
}

static void
test_ep_removed_by_itself(void **state)
{
	struct app a;

	(void)state;
	app_init(&a);
	a.remove_on_ops = true;
	post_recvs(&a, 40);
	while (mock.nb_ops > 0)
		mock_finish(a.ep, 0, 0, 8);
	test_turns(a.r, 5);
	assert_int_equal(a.calls, 1);
	app_end(&a);

	/* on_event() removes the poller, and closes the endpoint. */
	app_init(&a);
	a.remove_on_event = true;
	assert_int_equal(leat_ep_connect(a.ep, "there:1", NULL), 0);
	leat_peer_up(a.ep, &a.ep->peers[0], NULL, 0);
	test_clock += 1 * MS;
	test_turns(a.r, 5);
	assert_null(a.ep);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
}

/* Receives are cancelled and come back before the reactor stops. */
static void
test_ep_stop(void **state)
{
	struct app a;
	bool paused;

	(void)state;
	for (paused = false;; paused = true) {
		app_init(&a);
		post_recvs(&a, 80);
		test_turns(a.r, 10);
		if (paused)
			assert_int_equal(leat_poller_pause(a.p), 0);
		leat_reactor_stop(a.r, 1000000);
		assert_int_equal(test_turns_until_stopped(a.r), -ESHUTDOWN);
		assert_int_equal(a.ops, 80);
		assert_int_equal(a.last_status, -ECANCELED);
		assert_int_equal(a.shutdowns, 1);
		assert_int_equal(leat_ep_destroy(a.ep), 0);
		assert_int_equal(leat_reactor_destroy(a.r), 0);
		if (paused)
			break;
	}
}

static void
post_send(struct app *a)
{
	struct leat_op *op = &ops[0];

	assert_int_equal(leat_ep_connect(a->ep, "there:1", NULL), 0);
	leat_peer_up(a->ep, &a->ep->peers[0], NULL, 0);
	op->type = LEAT_OP_SEND;
	op->peer = 0;
	assert_int_equal(leat_ep_post(a->ep, &op, 1), 1);
}

/*
 * A send that doesn't complete is aborted early enough to come back before the stop's deadline; the
 * application gets LEAT_EV_SHUTDOWN.
 */
static void
test_ep_stop_aborts(void **state)
{
	struct app a;

	(void)state;
	app_init(&a);
	post_send(&a);
	leat_reactor_stop(a.r, 100000);
	assert_int_equal(test_turns_until_stopped(a.r), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), "the-ep"));
	assert_non_null(strstr(leat_err_msg(), "aborted"));
	assert_int_equal(a.ops, 1);
	assert_int_equal(a.last_status, -ESHUTDOWN);
	assert_int_equal(a.shutdowns, 1);
	assert_int_equal(leat_ep_destroy(a.ep), 0);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
}

/*
 * A stop without a deadline has shut the endpoint down, then a second one sets a deadline: the send
 * is aborted before that deadline. A third one with a later deadline changes nothing.
 */
static void
test_ep_stop_sooner(void **state)
{
	struct app a;
	uint64_t begin;

	(void)state;
	app_init(&a);
	post_send(&a);
	leat_reactor_stop(a.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	test_turns(a.r, 10);
	test_clock += 1000 * MS;
	test_turns(a.r, 10);
	assert_int_equal(mock.nb_quiesce, 1);
	assert_int_equal(a.ops, 0);

	begin = test_clock;
	leat_reactor_stop(a.r, 100000);
	test_turns(a.r, 1);
	leat_reactor_stop(a.r, 1000000);
	assert_int_equal(test_turns_until_stopped(a.r), -ETIMEDOUT);
	assert_in_range(test_clock - begin, 87 * MS, 90 * MS);
	assert_non_null(strstr(leat_err_msg(), "aborted"));
	assert_int_equal(a.ops, 1);
	assert_int_equal(a.last_status, -ESHUTDOWN);
	assert_int_equal(a.shutdowns, 1);
	assert_int_equal(mock.nb_quiesce, 1);
	assert_int_equal(leat_ep_destroy(a.ep), 0);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
}

/* A stop also shortens a shutdown that the application began itself. */
static void
test_ep_stop_after_shutdown(void **state)
{
	struct app a;

	(void)state;
	app_init(&a);
	post_send(&a);
	assert_int_equal(leat_ep_shutdown(a.ep, UINT64_MAX), 0);
	leat_reactor_stop(a.r, 100000);
	assert_int_equal(test_turns_until_stopped(a.r), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), "aborted"));
	assert_int_equal(a.ops, 1);
	assert_int_equal(leat_ep_destroy(a.ep), 0);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
}

/*
 * If the device completes no op, the reactor stops at its deadline, and the error names what is
 * left.
 */
static void
test_ep_stop_stuck(void **state)
{
	struct app a;
	uint64_t start = test_clock;

	(void)state;
	app_init(&a);
	post_send(&a);
	mock.keep_on_abort = true;
	leat_reactor_stop(a.r, 100000);
	assert_int_equal(test_turns_until_stopped(a.r), -ETIMEDOUT);
	assert_in_range(test_clock - start, 100 * MS, 101 * MS);
	assert_non_null(strstr(leat_err_msg(), "the-ep"));
	assert_non_null(strstr(leat_err_msg(), "1 ops in flight"));
	assert_int_equal(a.ops, 0);
	mock_finish(a.ep, 0, -ESHUTDOWN, 0);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
	assert_int_equal(leat_ep_close(a.ep, 0, NULL, NULL), -ETIMEDOUT);
}

/* A reactor whose endpoint the application has already shut down stops cleanly. */
static void
test_ep_already_shut(void **state)
{
	struct app a;

	(void)state;
	app_init(&a);
	assert_int_equal(leat_ep_shutdown(a.ep, 1000), 0);
	test_clock += 1 * MS;
	test_turns(a.r, 5);
	assert_int_equal(a.shutdowns, 1);
	leat_reactor_stop(a.r, 1000);
	assert_int_equal(test_turns_until_stopped(a.r), -ESHUTDOWN);
	assert_int_equal(leat_ep_destroy(a.ep), 0);
	assert_int_equal(leat_reactor_destroy(a.r), 0);
}

static struct {
	unsigned int calls, left, released;
	uint64_t until;
} drained;

/*
 * The drain callback: during a stop the reactor asks it whether ops are left, before the endpoint
 * is shut down.
 */
static int
on_drain(void *arg, uint64_t until)
{
	const struct app *a = arg;

	assert_int_equal(a->shutdowns, 0);
	drained.calls++;
	drained.until = until;
	return drained.left > 0 && --drained.left > 0;
}

static void
on_release(void *arg)
{
	const struct app *a = arg;

	assert_non_null(a->ep);
	drained.released++;
}

static void
drain_init(struct app *a, unsigned int left)
{
	memset(&drained, 0, sizeof(drained));
	drained.left = left;
	app_init(a);
	assert_int_equal(leat_poller_drain_set(a->p, on_drain), 0);
	assert_int_equal(leat_poller_release_set(a->p, on_release), 0);
	post_recvs(a, 1);
}

static void
test_ep_drain(void **state)
{
	struct test_poller t = { .ret = 0 };
	uint64_t begin;
	struct app a;

	(void)state;
	/* The endpoint comes to rest by itself. */
	drain_init(&a, 10);
	leat_reactor_stop(a.r, 1000000);
	assert_int_equal(test_turns_until_stopped(a.r), -ESHUTDOWN);
	assert_int_equal(drained.calls, 10);
	assert_int_equal(a.shutdowns, 1);
	assert_int_equal(drained.released, 0);
	app_end(&a);
	assert_int_equal(drained.released, 1);

	/*
	 * An endpoint that does not come to rest by itself is shut down after three quarters of the
	 * stop's 1000 us, so that the reactor still stops in time.
	 */
	drain_init(&a, UINT_MAX);
	begin = test_clock;
	leat_reactor_stop(a.r, 1000);
	assert_int_equal(test_turns_until_stopped(a.r), -ESHUTDOWN);
	assert_in_range(drained.until, begin + 740 * US, begin + 800 * US);
	assert_in_range(test_clock, begin + 750 * US, begin + 1 * MS + 50 * US);
	app_end(&a);

	/*
	 * In a stop with a time of 0 the callback is asked once; in one without a deadline, until
	 * no ops are left.
	 */
	drain_init(&a, UINT_MAX);
	leat_reactor_stop(a.r, 0);
	(void)test_turns_until_stopped(a.r);
	assert_int_equal(drained.calls, 1);
	app_end(&a);
	drain_init(&a, 20);
	leat_reactor_stop(a.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(test_turns_until_stopped(a.r), -ESHUTDOWN);
	assert_int_equal(drained.calls, 20);
	assert_int_equal(drained.until, UINT64_MAX);

	/*
	 * Only the poller of an endpoint can have a drain callback. No release callback is called
	 * for a poller that the program removed.
	 */
	test_poller_add(a.r, &t, "other", 0);
	assert_int_equal(leat_poller_drain_set(t.p, on_drain), -EINVAL);
	assert_int_equal(leat_poller_remove(a.p), 0);
	assert_int_equal(leat_reactor_events_us(a.r), 1000);
	app_end(&a);
	assert_int_equal(drained.released, 0);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_ep_bursts),
		CASE(test_ep_events),
		CASE(test_ep_removed_by_itself),
		CASE(test_ep_stop),
		CASE(test_ep_stop_aborts),
		CASE(test_ep_stop_sooner),
		CASE(test_ep_stop_after_shutdown),
		CASE(test_ep_stop_stuck),
		CASE(test_ep_already_shut),
		CASE(test_ep_drain),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
