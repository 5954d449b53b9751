/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The telemetry requests /leat/msgs and /leat/msg, from another thread, while the test drives the
 * contexts or does not.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "msg_pair.h"
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

/* @return the number of an end's context */
static unsigned int
id_of(const struct end *e)
{
	const char *answer = ask("/leat/msgs");
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

static void
test_counters(void **state)
{
	struct leat_msg_req tx[40], rx[2];
	struct leat_msg_conn *c;
	char in[2][8], cmd[64], value[LEAT_ADDR_MAX + 2];
	const char *answer;
	int i;

	(void)state;
	c = connected(NULL);
	recv1(b.accepted, &rx[0], in[0], 8);
	recv1(c, &rx[1], in[1], 8);
	for (i = 0; i < 40; i++)
		send1(c, &tx[i], "abc", 4);
	drive_until(b.nb_back == 1 && a.nb_back == 32);
	snprintf(cmd, sizeof(cmd), "/leat/msg,%u", id_of(&a));
	answer = ask(cmd);
	expect(answer, "driven", "\"yes\"");
	expect(answer, "conns", "1");
	expect(answer, "max_conns", "8");
	expect(answer, "0", "{");
	snprintf(value, sizeof(value), "\"%s\"", addr);
	expect(answer, "peer", value);
	expect(answer, "state", "\"OPEN\"");
	expect(answer, "mode", "\"leat\"");
	expect(answer, "recvs", "1");
	/* All credits are used up. */
	expect(answer, "credits", "0");
	expect(answer, "sends", "8");
	expect(answer, "queued", "8");
	expect(strstr(answer, "\"peer\""), "sent_bytes", "128");
	snprintf(cmd, sizeof(cmd), "/leat/msg,%u", id_of(&b));
	answer = ask(cmd);
	expect(strstr(answer, "\"peer\""), "recv_bytes", "4");
	assert_null(telemetry_find(answer, "held", "0"));
	/* No connection is in the slots from 1 on. */
	snprintf(cmd, sizeof(cmd), "/leat/msg,%u,1", id_of(&a));
	assert_null(strstr(ask(cmd), "\"peer\""));
	assert_int_equal(leat_msg_cancel(&rx[1]), 0);
	assert_int_equal(leat_msg_close(c, 0), 0);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1 && b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

static void
test_bad_questions(void **state)
{
	static const char *const cmds[] = {
		"/leat/msg",	   "/leat/msg,x",	"/leat/msg,0,x",
		"/leat/msg,99999", "/leat/msg,0,70000", "/leat/msg,-1",
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(cmds); i++)
		assert_null(strstr(ask(cmds[i]), "\"conns\""));
}

/* A question about a context that no thread drives ends after a while, with "driven": "no". */
static void
test_not_driven(void **state)
{
	char cmd[64];
	const char *answer;

	(void)state;
	snprintf(cmd, sizeof(cmd), "/leat/msg,%u", id_of(&a));
	answer = telemetry_ask(sock, cmd);
	expect(answer, "driven", "\"no\"");
	assert_null(strstr(answer, "\"conns\""));
	/* When the context is driven again, it answers. */
	expect(ask(cmd), "driven", "\"yes\"");
}

static bool over;
static unsigned int first; /* ask for this context, and for some with higher numbers */

static void *
ask_on(void *arg)
{
	unsigned int *answers = arg, n = 0;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		char cmd[64];

		snprintf(cmd, sizeof(cmd), "/leat/msg,%u", first + n++ % 8 * 8);
		if (strstr(telemetry_ask(sock, cmd), "\"yes\"") != NULL)
			__atomic_fetch_add(answers, 1, __ATOMIC_RELAXED);
		(void)telemetry_ask(sock, "/leat/msgs");
	}
	return NULL;
}

/* Contexts come and go, some while a request about them waits for its answer. */
static void
test_while_changing(void **state)
{
	unsigned int answers = 0, i, k;
	pthread_t thread;

	(void)state;
	over = false;
	first = id_of(&a);
	assert_int_equal(pthread_create(&thread, NULL, ask_on, &answers), 0);
	for (i = 0; i < 50 || __atomic_load_n(&answers, __ATOMIC_RELAXED) < 5; i++) {
		struct leat_msg *more[32];

		for (k = 0; k < RTE_DIM(more); k++) {
			const struct leat_msg_conf conf = { .max_conns = 1, .credits = 2 };

			more[k] = leat_msg_create(a.ep, &conf);
			assert_non_null(more[k]);
		}
		for (k = 0; k < 20; k++) {
			end_drive(&a);
			end_drive(&b);
		}
		for (k = 0; k < RTE_DIM(more); k++)
			assert_int_equal(leat_msg_destroy(more[k]), 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		end_drive(&a);
		end_drive(&b);
	}
}

static int
start(void **state)
{
	static char prog[] = "test_msg_telemetry", pci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char log[] = "--log-level=leat.*:warning", ring[] = "--vdev=" PAIR_RING;
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
		CASE(test_bad_questions),
		CASE(test_not_driven),
		CASE(test_while_changing),
	};

	return cmocka_run_group_tests_name("telemetry", tests, start, stop);
}
