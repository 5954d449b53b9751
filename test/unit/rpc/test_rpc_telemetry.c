/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The telemetry requests /leat/rpcs and /leat/rpc, from another thread, while the test drives the
 * contexts or does not.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "rpc_pair.h"
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

/* Ask while both contexts are driven. */
static const char *
ask(const char *cmd)
{
	static struct question q;
	pthread_t thread;

	q.cmd = cmd;
	q.answered = false;
	assert_int_equal(pthread_create(&thread, NULL, asker, &q), 0);
	while (!__atomic_load_n(&q.answered, __ATOMIC_ACQUIRE)) {
		end_drive(&a);
		end_drive(&b);
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

static void
expect_n(const char *answer, const char *key, uint64_t value)
{
	char text[2][24];

	/*
	 * Match the delimiter too: the value alone would also match a number that begins with it.
	 */
	snprintf(text[0], sizeof(text[0]), "%" PRIu64 ",", value);
	snprintf(text[1], sizeof(text[1]), "%" PRIu64 "}", value);
	if (telemetry_find(answer, key, text[0]) == NULL &&
	    telemetry_find(answer, key, text[1]) == NULL)
		fail_msg("%s is not %" PRIu64 " in %s", key, value, answer);
}

/* @return the number of an end's context */
static unsigned int
id_of(const struct end *e)
{
	const char *answer = ask("/leat/rpcs");
	char value[64];
	unsigned int id;

	snprintf(value, sizeof(value), "\"%s\"", leat_ep_name(e->ep));
	for (id = 0; id < 1000; id++) {
		char key[16];

		snprintf(key, sizeof(key), "%u", id);
		if (telemetry_find(answer, key, value) != NULL)
			return id;
	}
	fail_msg("%s is not in %s", value, answer);
	return 0;
}

/* On a busy machine the context may have answered too late: ask again. */
static const char *
ask_driven(const char *cmd)
{
	struct patience wait = { 0 };
	const char *answer;

	do
		answer = ask(cmd);
	while (telemetry_find(answer, "driven", "\"no\"") != NULL && patience_left(&wait));
	return answer;
}

static const char *
ask_of(const struct end *e)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "/leat/rpc,%u", id_of(e));
	return ask_driven(cmd);
}

static void
test_counters(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req = { .session = s, .type = LATER };
	char cmd[64], value[LEAT_ADDR_MAX + 2], resp[8];
	const char *answer;
	unsigned int i;

	(void)state;
	for (i = 0; i < 7; i++)
		assert_int_equal(call(s, ECHO, "x", 1, resp, 8), 1);
	assert_int_equal(call(s, NONE, NULL, 0, NULL, 0), -ENOSYS);
	post1(&req);
	drive_until(b.nb_later == 1);
	answer = ask_of(&a);
	expect(answer, "driven", "\"yes\"");
	expect_n(answer, "posted", 9);
	expect_n(answer, "done", 8);
	expect_n(answer, "sessions", 1);
	expect_n(answer, "max_sessions", stats_of(&a).max_sessions);
	expect_n(answer, "memory", stats_of(&a).memory);
	expect_n(answer, "transfers", 0);
	expect_n(answer, "tx_packets", 0);
	/* Violations are counted by name. */
	for (i = 1; i < LEAT_RPC_VIOLATIONS; i++) {
		char name[32], *at;

		snprintf(name, sizeof(name), "%s", leat_rpc_violation_name(i));
		while ((at = strchr(name, ' ')) != NULL)
			*at = '_';
		expect_n(answer, name, 0);
	}
	expect(answer, "0", "{");
	snprintf(value, sizeof(value), "\"%s\"", addr);
	expect(answer, "peer", value);
	expect(answer, "state", "\"OPEN\"");
	expect(answer, "accepted", "\"no\"");
	expect_n(answer, "requests", 1);
	assert_null(strstr(answer, "\"why\""));

	answer = ask_of(&b);
	expect_n(answer, "handled", 8);
	expect_n(answer, "refused", 1);
	expect_n(answer, "tickets", 1);
	expect(answer, "accepted", "\"yes\"");
	expect_n(answer, "handling", 1);
	/* No session is in the slots from 1 on. */
	snprintf(cmd, sizeof(cmd), "/leat/rpc,%u,1", id_of(&b));
	assert_null(strstr(ask_driven(cmd), "\"peer\""));

	leat_rpc_answer(b.later[--b.nb_later], 0);
	b.closes = true;
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	assert_null(strstr(ask_of(&a), "\"places\""));
}

/* A session without a connection shows the reason. */
static void
test_down(void **state)
{
	const struct leat_rpc_session_conf conf = { .reconnect_min_us = 10000000,
						    .reconnect_max_us = 10000000 };
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, &conf), *other;
	const struct leat_rpc_req req = { .session = s,
					  .type = ECHO,
					  .deadline = LEAT_RPC_NO_DEADLINE };
	struct leat_rpc_req reqs[3];
	char value[LEAT_ADDR_MAX + 2];
	const char *answer, *at;
	unsigned int i;

	(void)state;
	assert_non_null(s);
	drive_until(a.nb_ev[LEAT_RPC_UP] == 1 && b.nb_ev[LEAT_RPC_UP] == 1);
	expect_n(ask_of(&a), "tries", 1);
	b.closes = true;
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_DOWN] == 1 && leat_rpc_session_peer(s) == LEAT_PEER_ANY);
	for (i = 0; i < 3; i++) {
		reqs[i] = req;
		post1(&reqs[i]);
	}
	answer = ask_of(&a);
	expect(answer, "state", "\"DOWN\"");
	expect_n(answer, "requests", 3);
	expect_n(answer, "status", 0);
	snprintf(value, sizeof(value), "\"%s\"", addr);
	expect(answer, "peer", value);
	assert_non_null(strstr(answer, "\"why\""));
	at = strstr(answer, "\"wait_us\"");
	assert_non_null(at);
	assert_in_range(strtoull(strchr(at, ':') + 1, NULL, 10), 1, 10000000);
	assert_int_equal(leat_rpc_close(s, 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && reqs[2].state == 0);

	/* A session that has ended shows the reason until it is closed. */
	other = leat_rpc_connect(a.rpc, "nowhere:1",
				 &(const struct leat_rpc_session_conf){ .timeout_us = 1000 });
	assert_non_null(other);
	drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1);
	answer = ask_of(&a);
	expect(answer, "state", "\"OVER\"");
	snprintf(value, sizeof(value), "%d,", -ECONNREFUSED);
	expect(answer, "status", value);
	assert_non_null(strstr(answer, "nowhere:1"));
	assert_int_equal(leat_rpc_close(other, 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
}

/* There are more sessions than one answer shows: a request may name the first slot to show. */
static int
setup_many(void **state)
{
	pair_ep_conf.max_peers = 100;
	pair_ep_conf.rx_depth = 1024;
	pair_conf.packet = 256;
	return pair_setup(state);
}

static void
test_places(void **state)
{
	struct leat_rpc_session *s[60];
	const unsigned int id = id_of(&a);
	const char *answer = "";
	unsigned int i, seen = 0;
	char cmd[64], key[16];

	(void)state;
	for (i = 0; i < RTE_DIM(s); i++)
		s[i] = connected();
	for (i = 0; i < RTE_DIM(s); i++) {
		if (i % 20 == 0) {
			snprintf(cmd, sizeof(cmd), "/leat/rpc,%u,%u", id, i);
			answer = ask_driven(cmd);
		}
		snprintf(key, sizeof(key), "%u", i);
		seen += telemetry_find(answer, key, "{") != NULL;
	}
	assert_int_equal(seen, RTE_DIM(s));
	a.closes = b.closes = true;
	for (i = 0; i < RTE_DIM(s); i++)
		assert_int_equal(leat_rpc_close(s[i], 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
}

static void
test_bad_questions(void **state)
{
	static const char *const cmds[] = {
		"/leat/rpc",	   "/leat/rpc,x",	"/leat/rpc,0,x",
		"/leat/rpc,99999", "/leat/rpc,0,70000", "/leat/rpc,-1",
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(cmds); i++)
		assert_null(strstr(ask(cmds[i]), "\"posted\""));
}

/* A question about a context that no thread drives ends after a while, with "driven": "no". */
static void
test_not_driven(void **state)
{
	char cmd[64];
	const char *answer;

	(void)state;
	snprintf(cmd, sizeof(cmd), "/leat/rpc,%u", id_of(&a));
	answer = telemetry_ask(sock, cmd);
	expect(answer, "driven", "\"no\"");
	assert_null(strstr(answer, "\"posted\""));
	/* Once both contexts are driven, the request is answered. */
	expect(ask_driven(cmd), "driven", "\"yes\"");
}

static bool over;
static unsigned int first; /* ask for this context, and for some with higher numbers */

static void *
ask_on(void *arg)
{
	unsigned int *answers = arg, n = 0;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		char cmd[64];

		snprintf(cmd, sizeof(cmd), "/leat/rpc,%u", first + n++ % 8 * 4);
		if (strstr(telemetry_ask(sock, cmd), "\"yes\"") != NULL)
			__atomic_fetch_add(answers, 1, __ATOMIC_RELAXED);
		(void)telemetry_ask(sock, "/leat/rpcs");
	}
	return NULL;
}

/*
 * Contexts come and go, some while a request about them waits for its answer; sessions and calls of
 * the other contexts go on.
 */
static void
test_while_changing(void **state)
{
	struct leat_ep *ep = leat_ep_create(leat_dev_by_name(PAIR_RING), NULL);
	struct leat_rpc_session *s = connected();
	unsigned int answers = 0, i, k;
	struct leat_rpc *more[16];
	struct leat_op *ops[32];
	pthread_t thread;
	char resp[8];

	(void)state;
	assert_non_null(ep);
	over = false;
	first = id_of(&a);
	assert_int_equal(pthread_create(&thread, NULL, ask_on, &answers), 0);
	for (i = 0; i < 50 || __atomic_load_n(&answers, __ATOMIC_RELAXED) < 5; i++) {
		const struct leat_rpc_conf conf = { .max_sessions = 1,
						    .credits = 4,
						    .max_msg = 4096 };

		for (k = 0; k < RTE_DIM(more); k++) {
			more[k] = leat_rpc_create(ep, &conf);
			assert_non_null(more[k]);
		}
		assert_int_equal(call(s, ECHO, "x", 1, resp, 8), 1);
		for (k = 0; k < 8 * RTE_DIM(more); k++)
			(void)leat_rpc_poll(more[k % RTE_DIM(more)], NULL, 0);
		sched_yield();
		for (k = 0; k < RTE_DIM(more); k++) {
			while (leat_rpc_destroy(more[k]) < 0)
				(void)leat_ep_poll(ep, ops, 32);
		}
	}
	assert_int_equal(leat_ep_close(ep, 100000, NULL, NULL), 0);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		end_drive(&a);
		end_drive(&b);
		sched_yield();
	}
	b.closes = true;
	assert_int_equal(leat_rpc_close(s, 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
}

static int
start(void **state)
{
	static char prog[] = "test_rpc_telemetry", pci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char log[] = "--log-level=leat.*:error", ring[] = "--vdev=" PAIR_RING;
	char *argv[] = { prog, pci, l, zero, log, ring, NULL };

	(void)state;
	if (leat_init(6, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	sock = telemetry_dial();
	return sock < 0 ? -1 : 0;
}

static int
stop(void **state)
{
	(void)state;
	(void)close(sock);
	return leat_cleanup();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_counters),
		CASE(test_down),
		cmocka_unit_test_setup_teardown(test_places, setup_many, pair_teardown),
		CASE(test_bad_questions),
		CASE(test_not_driven),
		CASE(test_while_changing),
	};

	return cmocka_run_group_tests_name("rpc-telemetry", tests, start, stop);
}
