/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls of tasks: an echo server and its clients, cancel, deadlines. */

#include <errno.h>
#include <string.h>

#include <leat_error.h>
#include <leat_scope.h>
#include <leat_stream_task.h>
#include <leat_task.h>

#include "stream_pair.h"

#define CLIENTS 8
#define BYTES 200000

static struct leat_tasks *ts;
static unsigned int nb_ended;

static int
echo(void *arg)
{
	struct leat_stream *s = arg;
	char buf[5000];
	ssize_t n;

	while ((n = leat_stream_task_read(s, buf, sizeof(buf))) > 0) {
		n = leat_stream_task_write(s, buf, (size_t)n);
		if (n < 0)
			break;
	}
	leat_stream_close(s, 0);
	nb_ended++;
	return (int)n;
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	(void)arg;
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "echo", echo, s)), 0);
}

static int
setup(void **state)
{
	(void)state;
	pair_conf.rx_size = pair_server_conf.rx_size = LEAT_STREAM_RX_MIN;
	pair_open();
	ts = leat_tasks_create(pair.r, NULL);
	assert_non_null(ts);
	nb_ended = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(leat_stream_net_close(pair.client), 0);
	assert_int_equal(leat_stream_net_close(pair.server), 0);
	pair.client = pair.server = NULL;
	assert_int_equal(leat_tasks_destroy(ts), 0);
	pair_close();
	return 0;
}

static void
echo_server(void)
{
	const struct leat_stream_listener listener = { .accept = on_accept };

	leat_stream_net_close(pair.server);
	pair.server = leat_stream_net_open(pair.r, &pair_server_conf);
	assert_non_null(pair.server);
	assert_int_equal(leat_stream_listen(pair.server, pair.addr, &listener), 0);
}

static int
writer(void *arg)
{
	struct leat_stream *s = arg;
	uint8_t buf[3000];
	uint64_t at = 0;
	size_t i, n;

	while (at < BYTES) {
		n = RTE_MIN(sizeof(buf), BYTES - at);
		for (i = 0; i < n; i++)
			buf[i] = pair_byte(at + i);
		assert_int_equal(leat_stream_task_write(s, buf, n), n);
		at += n;
	}
	while (leat_stream_shutdown(s) == -EAGAIN)
		leat_task_yield();
	return 0;
}

static int
client(void *arg)
{
	struct leat_stream *s;
	struct leat_task *w;
	uint8_t buf[7000];
	uint64_t at = 0;
	ssize_t i, n;

	(void)arg;
	assert_int_equal(leat_stream_task_connect(pair.client, pair.addr, 0, &s), 0);
	w = leat_task_spawn(ts, "writer", writer, s);
	while ((n = leat_stream_task_read(s, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++)
			assert_int_equal(buf[i], pair_byte(at++));
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, BYTES);
	assert_int_equal(leat_task_join(w, NULL), 0);
	leat_stream_close(s, 0);
	nb_ended++;
	return 0;
}

static void
test_echo(void **state)
{
	unsigned int i;

	(void)state;
	echo_server();
	for (i = 0; i < CLIENTS; i++)
		assert_int_equal(leat_task_detach(leat_task_spawn(ts, "client", client, NULL)), 0);
	pair_until(nb_ended == 2 * CLIENTS);
}

static int result;

static int
reader(void *arg)
{
	char c;

	result = (int)leat_stream_task_read(arg, &c, 1);
	nb_ended++;
	return 0;
}

static int
late_reader(void *arg)
{
	char c;

	result = (int)leat_task_within(1000, (int)leat_stream_task_read(arg, &c, 1));
	nb_ended++;
	return 0;
}

/* A cancel or a deadline ends the wait, and does not change the stream. */
static void
test_cancel(void **state)
{
	struct leat_task *t;
	char c = 0;

	(void)state;
	pair_connect();
	t = leat_task_spawn(ts, "reader", reader, pair.c);
	pair_turn();
	(void)leat_task_cancel(t);
	pair_until(nb_ended == 1);
	assert_int_equal(result, -ECANCELED);
	assert_int_equal(leat_task_detach(t), 0);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "late", late_reader, pair.c)), 0);
	pair_until(nb_ended == 2);
	assert_int_equal(result, -ETIMEDOUT);
	/* Two tasks wait for one stream: one gets the byte, the other the end. */
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "r", reader, pair.c)), 0);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "r", reader, pair.c)), 0);
	assert_int_equal(leat_stream_write(pair.s, "x", 1), 1);
	pair_until(nb_ended == 3);
	assert_int_equal(result, 1);
	leat_stream_close(pair.s, 0);
	pair_until(nb_ended == 4);
	assert_int_equal(result, 0);
	assert_int_equal(leat_stream_read(pair.c, &c, 1), 0);
}

static int
connector(void *arg)
{
	struct leat_stream *s = NULL;

	result = leat_stream_task_connect(pair.client, arg, 20000, &s);
	assert_null(s);
	nb_ended++;
	return 0;
}

static void
test_connect_fails(void **state)
{
	static char nowhere[] = "nowhere:1", bad[] = "no port";
	struct leat_stream_net_stats stats;

	(void)state;
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "c", connector, nowhere)), 0);
	pair_until(nb_ended == 1);
	assert_int_equal(result, -ECONNREFUSED);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "c", connector, bad)), 0);
	pair_until(nb_ended == 2);
	assert_int_equal(result, -EINVAL);
	pair_until((leat_stream_net_stats_get(pair.client, &stats), stats.streams == 0));
	/* Outside of a task, the wait is refused. */
	pair_connect();
	assert_int_equal(leat_stream_task_wait(pair.c, LEAT_STREAM_WRITABLE), -EPERM);
}

/* ---- the net is closed, and freed, before a waiting task runs again ---- */

static void
close_client(struct leat_task *t, int expected)
{
	assert_int_equal(leat_stream_net_close(pair.client), 0);
	pair.client = NULL;
	pair_until(nb_ended == 1);
	assert_int_equal(result, expected);
	assert_int_equal(leat_task_detach(t), 0);
}

/* The task waits for its connect: the other side's net has no turn in which to answer. */
static void
test_close_connecting(void **state)
{
	struct leat_task *t;

	(void)state;
	t = leat_task_spawn(ts, "c", connector, pair.addr);
	pair_turn();
	assert_int_equal(nb_ended, 0);
	close_client(t, -ECANCELED);
}

/* The connect is cancelled, and the net is closed before the task runs again. */
static void
test_close_cancelled(void **state)
{
	struct leat_task *t;

	(void)state;
	t = leat_task_spawn(ts, "c", connector, pair.addr);
	pair_turn();
	assert_int_equal(nb_ended, 0);
	(void)leat_task_cancel(t);
	close_client(t, -ECANCELED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_echo, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connect_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_close_connecting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_close_cancelled, setup, teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
