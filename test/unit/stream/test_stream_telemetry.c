/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * /leat/streams and /leat/stream: asked by a thread while the reactor of the nets runs turns, or
 * does not.
 */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <leat_ep.h>

#include "stream_pair.h"
#include "telemetry_client.h"

static int sock = -1;

struct question {
	const char *cmd;
	char answer[TELEMETRY_ANSWER_MAX + 1];
	bool answered;
};

static void *
asker(void *arg)
{
	struct question *q = arg;

	snprintf(q->answer, sizeof(q->answer), "%s", telemetry_ask(sock, q->cmd));
	__atomic_store_n(&q->answered, true, __ATOMIC_RELEASE);
	return NULL;
}

static const char *
ask(const char *cmd, bool driven)
{
	static struct question q;
	pthread_t thread;

	q.cmd = cmd;
	q.answered = false;
	assert_int_equal(pthread_create(&thread, NULL, asker, &q), 0);
	while (!__atomic_load_n(&q.answered, __ATOMIC_ACQUIRE)) {
		if (driven)
			pair_turn();
		sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	return q.answer;
}

static void
expect(const char *answer, const char *key, const char *value)
{
	if (telemetry_find(answer, key, value) == NULL)
		fail_msg("%s is not %s in %s", key, value, answer);
}

/* @return the number of a net: nets are numbered in the order in which they were opened */
static unsigned int
id_of(const struct leat_stream_net *net)
{
	const char *answer = ask("/leat/streams", true);
	char value[64], key[16];
	unsigned int id;

	snprintf(value, sizeof(value), "\"%s\"", leat_ep_name(leat_stream_net_ep(net)));
	for (id = 0; id < 100; id++) {
		snprintf(key, sizeof(key), "%u", id);
		if (telemetry_find(answer, key, value) != NULL)
			return id;
	}
	fail_msg("%s is not in %s", value, answer);
	return 0;
}

static void
test_net(void **state)
{
	uint64_t out = 0, in = 0;
	const char *answer;
	char cmd[64];

	(void)state;
	pair_conf.rx_size = LEAT_STREAM_RX_MIN;
	pair_open();
	pair_connect();
	pair_connect();
	pair_until((pair_write(pair.s, &out, 1000 - out), pair_read(pair.c, &in, 300), in == 300));
	snprintf(cmd, sizeof(cmd), "/leat/stream,%u", id_of(pair.client));
	answer = ask(cmd, true);
	expect(answer, "driven", "\"yes\"");
	expect(answer, "mode", "\"compat\"");
	expect(answer, "streams", "2,");
	expect(answer, "connected", "2,");
	expect(answer, "rx_size", "65536,");
	expect(answer, "rx_bytes", "1000,");
	expect(answer, "state", "\"UP\"");
	expect(answer, "side", "\"connected\"");
	expect(answer, "rx_ready", "700,");
	assert_non_null(strstr(answer, "stream0:1"));
	/* The list begins at the given stream. */
	snprintf(cmd, sizeof(cmd), "/leat/stream,%u,2", id_of(pair.client));
	assert_null(strstr(ask(cmd, true), "places"));
	/* While the reactor runs no turns, the net is reported as not driven. */
	snprintf(cmd, sizeof(cmd), "/leat/stream,%u", id_of(pair.client));
	expect(ask(cmd, false), "driven", "\"no\"");
	assert_non_null(strstr(ask("/leat/stream,999", true), "null"));
	assert_non_null(strstr(ask("/leat/stream,x", true), "null"));
	pair_close();
	assert_null(strstr(ask("/leat/streams", false), "ep"));
}

static int
start(void **state)
{
	pair_telemetry = true;
	if (pair_start(state) < 0)
		return -1;
	sock = telemetry_dial();
	return sock < 0 ? -1 : 0;
}

static int
stop(void **state)
{
	(void)close(sock);
	return pair_stop(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_net) };

	return cmocka_run_group_tests(tests, start, stop);
}
