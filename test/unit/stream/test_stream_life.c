/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How streams come and go: limits, callbacks that close streams, thousands of streams, the
 * reactor's stop.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_time.h>

#include "stream_pair.h"

static int
setup(void **state)
{
	(void)state;
	pair_conf.rx_size = pair_server_conf.rx_size = LEAT_STREAM_RX_MIN;
	pair_conf.tx_size = pair_server_conf.tx_size = LEAT_STREAM_TX_MIN;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pair_close();
	return 0;
}

static struct leat_stream_net_stats
stats_of(const struct leat_stream_net *net)
{
	struct leat_stream_net_stats stats;

	leat_stream_net_stats_get(net, &stats);
	return stats;
}

/* ---- limits ---- */

/* A stream for which there is no memory is refused at both sides, and leaves nothing behind. */
static void
test_memory(void **state)
{
	const uint64_t each = LEAT_STREAM_RX_MIN + LEAT_STREAM_TX_MIN;
	struct leat_stream *s;

	(void)state;
	pair_conf.mem_max = 3 * each;
	pair_server_conf.mem_max = 2 * each + each / 2;
	pair_open();
	pair_connect();
	pair_connect();
	s = leat_stream_connect(pair.client, pair.addr, 0);
	assert_non_null(s);
	pair_until((leat_stream_ready(s) & LEAT_STREAM_WRITABLE) != 0);
	assert_int_equal(leat_stream_error(s), -ECONNREFUSED);
	assert_int_equal(stats_of(pair.server).refused, 1);
	assert_int_equal(stats_of(pair.server).mem, 2 * each);
	assert_null(leat_stream_connect(pair.client, pair.addr, 0));
	assert_int_equal(rte_errno, ENOBUFS);
	leat_stream_close(s, 0);
	leat_stream_close(pair.c, 0);
	pair_until(stats_of(pair.client).streams == 1);
	pair_until((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	leat_stream_close(pair.s, 0);
	pair_until(stats_of(pair.server).streams == 1);
	assert_int_equal(stats_of(pair.client).mem, each);
	pair_connect();
}

static void
test_max_streams(void **state)
{
	struct leat_stream *s;

	(void)state;
	pair_conf.max_streams = 3;
	pair_server_conf.max_streams = 1;
	pair_open();
	pair_connect();
	s = leat_stream_connect(pair.client, pair.addr, 0);
	pair_until((leat_stream_ready(s) & LEAT_STREAM_WRITABLE) != 0);
	assert_int_equal(leat_stream_error(s), -ECONNREFUSED);
	assert_non_null(leat_stream_connect(pair.client, pair.addr, 0));
	assert_null(leat_stream_connect(pair.client, pair.addr, 0));
	assert_int_equal(rte_errno, ENOSPC);
}

static void
test_bad_conf(void **state)
{
	static const struct leat_stream_net_conf bad[] = {
		{ .dev = "fabric_none7" },
		{ .dev = PAIR_RING, .rx_size = LEAT_STREAM_RX_MIN - 1 },
		{ .dev = PAIR_RING, .rx_size = LEAT_STREAM_RX_MAX + 1 },
		{ .dev = PAIR_RING, .rx_size = LEAT_STREAM_RX_MIN + 1 },
		{ .dev = PAIR_RING, .tx_size = 1 },
		{ .dev = PAIR_RING, .mode = 7 },
		{ .dev = PAIR_RING, .max_streams = UINT32_MAX },
		{ .dev = PAIR_FAULT, .mode = LEAT_STREAM_MODE_COMPAT },
	};
	static const int errors[] = { ENODEV, EINVAL, EINVAL, EINVAL,
				      EINVAL, EINVAL, EINVAL, EOPNOTSUPP };
	const struct leat_stream_listener none = { 0 };
	unsigned int i;

	(void)state;
	pair_open();
	for (i = 0; i < RTE_DIM(bad); i++) {
		assert_null(leat_stream_net_open(pair.r, &bad[i]));
		assert_int_equal(rte_errno, errors[i]);
		assert_true(strlen(leat_err_msg()) > 10);
	}
	assert_int_equal(leat_stream_listen(pair.client, "x:1", NULL), -EINVAL);
	assert_int_equal(leat_stream_listen(pair.client, "x:1", &none), -EINVAL);
	assert_null(leat_stream_connect(pair.client, "no port", 0));
	assert_int_equal(rte_errno, EINVAL);
	assert_int_equal(stats_of(pair.client).streams, 0);
	assert_int_equal(stats_of(pair.client).mem, 0);
}

/* ---- callbacks ---- */

#define MANY 20

static struct leat_stream *many[MANY];
static unsigned int nb_told, nb_closed;

/*
 * Close this stream and the next; streams closed by another one's callback get no further
 * callbacks.
 */
static void
on_ready_close(struct leat_stream *s, uint32_t ready, void *arg)
{
	uintptr_t i = (uintptr_t)arg;

	assert_ptr_equal(s, many[i]);
	assert_true((ready & LEAT_STREAM_READABLE) != 0);
	nb_told++;
	leat_stream_close(s, 0);
	many[i] = NULL;
	if (i + 1 < MANY && many[i + 1] != NULL) {
		leat_stream_abort(many[i + 1]);
		many[i + 1] = NULL;
	}
}

static void
test_close_in_callback(void **state)
{
	struct leat_stream *clients[MANY];
	uintptr_t i;

	(void)state;
	pair_open();
	for (i = 0; i < MANY; i++) {
		pair_connect();
		clients[i] = pair.c;
		many[i] = pair.s;
		leat_stream_watch(many[i], LEAT_STREAM_READABLE, on_ready_close, (void *)i);
	}
	nb_told = 0;
	for (i = 0; i < MANY; i++)
		assert_int_equal(leat_stream_write(clients[i], "x", 1), 1);
	pair_until(stats_of(pair.server).streams == 0);
	assert_int_equal(nb_told, MANY / 2);
	for (i = 0; i < MANY; i++)
		pair_until((leat_stream_ready(clients[i]) & LEAT_STREAM_CLOSED) != 0);
}

static uint32_t last_ready;

static void
on_ready_count(struct leat_stream *s, uint32_t ready, void *arg)
{
	(void)s;
	(void)arg;
	last_ready = ready;
	nb_told++;
	nb_closed += (ready & LEAT_STREAM_CLOSED) != 0;
}

/*
 * A callback is called in each turn in which the stream is in a watched state, and once for the
 * stream's end.
 */
static void
test_level(void **state)
{
	unsigned int i, before;
	char c;

	(void)state;
	pair_open();
	pair_connect();
	nb_told = nb_closed = 0;
	leat_stream_watch(pair.s, LEAT_STREAM_READABLE, on_ready_count, NULL);
	for (i = 0; i < 100; i++)
		pair_turn();
	assert_int_equal(nb_told, 0);
	assert_int_equal(leat_stream_write(pair.c, "ab", 2), 2);
	pair_until(nb_told >= 10);
	assert_int_equal(last_ready, LEAT_STREAM_READABLE);
	/* Bytes that were not read when the watch changes are not lost. */
	leat_stream_watch(pair.s, 0, on_ready_count, NULL);
	before = nb_told;
	for (i = 0; i < 100; i++)
		pair_turn();
	assert_int_equal(nb_told, before);
	leat_stream_watch(pair.s, LEAT_STREAM_READABLE, on_ready_count, NULL);
	pair_until(nb_told > before);
	assert_int_equal(leat_stream_read(pair.s, &c, 1), 1);
	before = nb_told;
	pair_until(nb_told > before);
	assert_int_equal(leat_stream_read(pair.s, &c, 1), 1);
	leat_stream_watch(pair.s, 0, on_ready_count, NULL);
	leat_stream_close(pair.c, 0);
	pair_until(nb_closed == 1);
	before = nb_told;
	for (i = 0; i < 100; i++)
		pair_turn();
	assert_int_equal(nb_told, before);
	assert_int_equal(leat_stream_read(pair.s, &c, 1), 0);
}

static void
on_ready_net_close(struct leat_stream *s, uint32_t ready, void *arg)
{
	(void)s;
	(void)ready;
	(void)arg;
	nb_told++;
	assert_int_equal(leat_stream_net_close(pair.server), -EBUSY);
}

static void
test_net_close_in_callback(void **state)
{
	(void)state;
	pair_open();
	pair_connect();
	nb_told = 0;
	leat_stream_watch(pair.s, LEAT_STREAM_WRITABLE, on_ready_net_close, NULL);
	pair_until(nb_told > 0);
	leat_stream_watch(pair.s, 0, NULL, NULL);
}

/*
 * The net is closed without a stop of its reactor, and a request to connect arrives during the
 * close: it is refused, and the close does not wait for a stream that the application never closes.
 */
static void
test_connect_during_close(void **state)
{
	const struct leat_stream *late;

	(void)state;
	pair_open();
	pair_connect();
	late = leat_stream_connect(pair.client, pair.addr, 0);
	assert_non_null(late);
	assert_int_equal(leat_stream_net_close(pair.server), 0);
	pair.server = NULL;
	assert_int_equal(pair.nb_accepted, 1);
	pair_until((leat_stream_ready(late) & LEAT_STREAM_CLOSED) != 0);
	assert_int_equal(leat_stream_error(late), -ECONNREFUSED);
}

/* ---- many ---- */

/* 10^4 connects and closes while another stream transfers. */
static void
test_churn(void **state)
{
	struct leat_stream *c, *s;
	unsigned int i;
	uint64_t out = 0, in = 0;

	(void)state;
	pair_open();
	pair_connect();
	c = pair.c;
	s = pair.s;
	for (i = 0; i < 10000; i++) {
		pair.c = leat_stream_connect(pair.client, pair.addr, 0);
		assert_non_null(pair.c);
		if (i % 3 == 0) {
			/* cancelled before it is up */
			leat_stream_abort(pair.c);
		} else {
			pair_until(pair.nb_accepted > 1 || leat_stream_error(pair.c) < 0);
			assert_int_equal(leat_stream_error(pair.c), 0);
			if (i % 3 == 1)
				leat_stream_abort(pair.s);
			leat_stream_close(pair.c, 0);
			if (i % 3 == 2)
				leat_stream_close(pair.s, 0);
			pair.nb_accepted = 1;
		}
		pair_write(c, &out, 5000);
		(void)pair_read(s, &in, SIZE_MAX);
		pair_until(stats_of(pair.client).streams + stats_of(pair.server).streams < 20);
		/*
		 * The server had accepted a request before the client cancelled it: close that
		 * stream here.
		 */
		if (pair.nb_accepted > 1) {
			leat_stream_close(pair.s, 0);
			pair.nb_accepted = 1;
		}
	}
	pair_until((pair_read(s, &in, SIZE_MAX), in == out));
	assert_int_equal(stats_of(pair.server).failed + stats_of(pair.server).closed +
				 stats_of(pair.server).streams,
			 stats_of(pair.server).accepted);
}

/* ---- time ---- */

static uint64_t mock;

static void
later(uint64_t ms)
{
	unsigned int i;

	/*
	 * Small steps: a keepalive that is due must be sent, and arrive, before the next one is
	 * due.
	 */
	for (; ms > 0; ms -= RTE_MIN(ms, UINT64_C(100))) {
		mock += 100 * LEAT_CLOCK_MOCK_HZ / 1000;
		for (i = 0; i < 20; i++) {
			mock += 20000;
			pair_turn();
		}
	}
}

static int
setup_mock(void **state)
{
	mock = LEAT_CLOCK_MOCK_HZ;
	leat_clock_mock_set(&mock);
	return setup(state);
}

static void
mock_connect(void)
{
	pair_open();
	pair.c = leat_stream_connect(pair.client, pair.addr, 0);
	while (pair.nb_accepted == 0 || (leat_stream_ready(pair.c) & LEAT_STREAM_WRITABLE) == 0)
		later(1);
}

static int
teardown_mock(void **state)
{
	leat_clock_mock_set(NULL);
	return teardown(state);
}

/* The server's keepalives, one each 3 s, keep an idle client up. */
static void
test_keepalive(void **state)
{
	(void)state;
	mock_connect();
	later(60000);
	assert_int_equal(leat_stream_error(pair.c), 0);
	assert_int_equal(leat_stream_error(pair.s), 0);
	assert_in_range(stats_of(pair.server).keepalives_sent, 19, 20);
	assert_int_equal(stats_of(pair.client).keepalives_received,
			 stats_of(pair.server).keepalives_sent);
	assert_int_equal(stats_of(pair.client).keepalives_sent, 0);
}

/*
 * A server that sends no keepalives is declared dead after three intervals, 9 s; data count as
 * keepalives.
 */
static void
test_silence(void **state)
{
	unsigned int i;
	char c;

	(void)state;
	pair_server_conf.keepalive_ms = LEAT_STREAM_NEVER;
	mock_connect();
	for (i = 0; i < 5; i++) {
		later(8000);
		assert_int_equal(leat_stream_write(pair.s, "x", 1), 1);
		later(100);
		assert_int_equal(leat_stream_read(pair.c, &c, 1), 1);
	}
	later(8500);
	assert_int_equal(leat_stream_error(pair.c), 0);
	later(1000);
	assert_int_equal(leat_stream_error(pair.c), -ETIMEDOUT);
	assert_non_null(strstr(leat_stream_why(pair.c), "silent"));
	assert_int_equal(leat_stream_read(pair.c, &c, 1), -ETIMEDOUT);
	assert_int_equal(leat_stream_write(pair.c, "x", 1), -EPIPE);
}

/*
 * A loop that stood still for a long time looks at the bytes that arrived meanwhile before it
 * decides that its peer is silent.
 */
static void
test_held_up(void **state)
{
	unsigned int i;

	(void)state;
	mock_connect();
	for (i = 0; i < 3; i++) {
		mock += 60 * LEAT_CLOCK_MOCK_HZ;
		later(2000);
		assert_int_equal(leat_stream_error(pair.c), 0);
		assert_int_equal(leat_stream_error(pair.s), 0);
	}
	later(20000);
	assert_int_equal(leat_stream_error(pair.c), 0);
}

/* A server that expects keepalives keeps a client that sends them, and ends a silent one. */
static void
test_client_silence(void **state)
{
	(void)state;
	pair_server_conf.client_silence_ms = 5000;
	pair_conf.client_keepalive_ms = 2000;
	mock_connect();
	later(20000);
	assert_int_equal(leat_stream_error(pair.s), 0);
	pair_close();
	(void)setup(state);
	mock = LEAT_CLOCK_MOCK_HZ;
	pair_server_conf.client_silence_ms = 5000;
	mock_connect();
	later(6000);
	assert_int_equal(leat_stream_error(pair.s), -ETIMEDOUT);
}

static void
test_idle(void **state)
{
	unsigned int i;

	(void)state;
	pair_server_conf.idle_ms = 4000;
	mock_connect();
	for (i = 0; i < 3; i++) {
		later(3500);
		assert_int_equal(leat_stream_write(pair.c, "x", 1), 1);
	}
	later(3500);
	assert_int_equal(leat_stream_error(pair.s), 0);
	later(1000);
	assert_int_equal(leat_stream_error(pair.s), -ETIMEDOUT);
}

/* Bytes that are unsent when the time of a close is up are dropped; neither side waits longer. */
static void
test_close_deadline(void **state)
{
	uint64_t out = 0;
	unsigned int i;

	(void)state;
	mock_connect();
	for (i = 0; i < 20; i++) {
		pair_write(pair.c, &out, LEAT_STREAM_RX_MIN);
		later(10);
	}
	assert_int_equal(out, LEAT_STREAM_RX_MIN + LEAT_STREAM_TX_MIN);
	leat_stream_close(pair.c, 2000000);
	later(1500);
	assert_int_equal(leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED, 0);
	later(1000);
	assert_true((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	/* The connection ended before the END of the peer's direction: that is no clean end. */
	assert_int_equal(leat_stream_error(pair.s), -ECONNRESET);
}

/* ---- the reactor's stop ---- */

static unsigned int nb_asked;
static uint64_t stop_out, stop_in;

/* The server writes more while the reactor stops. */
static int
drain(void *arg, uint64_t until)
{
	(void)arg;
	(void)until;
	if (++nb_asked == 3)
		pair_write(pair.s, &stop_out, 6);
	return nb_asked < 5;
}

/* The client reads until the end. */
static int
drain_client(void *arg, uint64_t until)
{
	(void)arg;
	(void)until;
	return stop_in < 30006;
}

static void
test_stop(void **state)
{
	int ret;

	(void)state;
	nb_asked = 0;
	stop_out = stop_in = 0;
	pair_server_conf.drain = drain;
	pair_conf.drain = drain_client;
	pair_open();
	pair_connect();
	pair_until((pair_write(pair.s, &stop_out, 30000 - stop_out), stop_out == 30000));
	leat_reactor_stop(pair.r, 5000000);
	while ((ret = leat_reactor_turn(pair.r)) >= 0)
		(void)pair_read(pair.c, &stop_in, 30006 - stop_in);
	assert_int_equal(ret, -ESHUTDOWN);
	assert_int_equal(nb_asked, 5);
	assert_int_equal(stop_in, 30006);
	/* The application still has its handles. */
	assert_int_equal(leat_stream_error(pair.s), 0);
	assert_true((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	leat_stream_close(pair.s, 0);
	assert_int_equal(leat_reactor_destroy(pair.r), 0);
	pair.r = NULL;
}

/* The drain() of both nets: never ready for the end of its streams. */
static int
drain_never(void *arg, uint64_t until)
{
	(void)arg;
	(void)until;
	return 1;
}

/*
 * A stop without a deadline waits for drain(); a further stop with a deadline closes the streams
 * cleanly in time for it.
 */
static void
test_stop_sooner(void **state)
{
	unsigned int i;
	int ret;

	(void)state;
	pair_server_conf.drain = pair_conf.drain = drain_never;
	pair_open();
	pair_connect();
	leat_reactor_stop(pair.r, LEAT_REACTOR_STOP_NO_DEADLINE);
	for (i = 0; i < 3; i++)
		pair_turn();
	assert_int_equal(leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED, 0);
	leat_reactor_stop(pair.r, 200000);
	while ((ret = leat_reactor_turn(pair.r)) >= 0)
		;
	assert_int_equal(ret, -ESHUTDOWN);
	assert_int_equal(leat_stream_error(pair.c), 0);
	assert_int_equal(leat_stream_error(pair.s), 0);
	leat_stream_close(pair.s, 0);
	assert_int_equal(leat_reactor_destroy(pair.r), 0);
	pair.r = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define on(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define timed(f) cmocka_unit_test_setup_teardown(f, setup_mock, teardown_mock)
		on(test_memory),
		on(test_max_streams),
		on(test_bad_conf),
		on(test_close_in_callback),
		on(test_level),
		on(test_net_close_in_callback),
		on(test_connect_during_close),
		on(test_churn),
		timed(test_keepalive),
		timed(test_silence),
		timed(test_client_silence),
		timed(test_held_up),
		timed(test_idle),
		timed(test_close_deadline),
		on(test_stop),
		on(test_stop_sooner),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
