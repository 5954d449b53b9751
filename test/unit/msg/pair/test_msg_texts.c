/* SPDX-License-Identifier: BSD-3-Clause */

/* The texts of a connection about its end, its peer and its format. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_log.h>

#include "msg_pair.h"

static FILE *log_file;
static char *logged;
static size_t logged_len;

static void
log_start(void)
{
	log_file = open_memstream(&logged, &logged_len);
	assert_non_null(log_file);
	assert_int_equal(rte_openlog_stream(log_file), 0);
	assert_int_equal(rte_log_set_level(leat_logtype_msg, RTE_LOG_NOTICE), 0);
}

static void
log_stop(void)
{
	assert_int_equal(rte_log_set_level(leat_logtype_msg, RTE_LOG_WARNING), 0);
	assert_int_equal(rte_openlog_stream(NULL), 0);
	assert_int_equal(fclose(log_file), 0);
}

static unsigned int
times(const char *text, const char *part)
{
	unsigned int n = 0;

	for (text = strstr(text, part); text != NULL; text = strstr(text + 1, part))
		n++;
	return n;
}

static void
close_end(struct leat_msg_conn *c, struct end *e)
{
	unsigned int n = e->nb_ev[LEAT_MSG_CLOSED];

	assert_int_equal(leat_msg_close(c, 1000000), 0);
	drive_until(e->nb_ev[LEAT_MSG_CLOSED] == n + 1);
}

/* The text of ENDED and CLOSED names the side that closed, once. */
static void
test_closed_by(void **state)
{
	struct leat_msg_conn *c = connected(NULL);
	char text[LEAT_EVENT_TEXT + 16];

	(void)state;
	assert_int_equal(leat_msg_close(b.accepted, 1000000), 0);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1 && b.nb_ev[LEAT_MSG_CLOSED] == 1);
	snprintf(text, sizeof(text), "closed by %s", addr);
	assert_string_equal(a.ev.text, text);
	assert_int_equal(a.ev.status, 0);
	assert_memory_equal(b.ev.text, "closed here, to ", 16);
	close_end(c, &a);
	assert_string_equal(a.ev.text, text);
}

/*
 * If leat_ep_disconnect() ends the connection, the text is lib/fabric's. It has the peer's name
 * once: the name is added only if the text lacks it.
 */
static void
test_disconnected(void **state)
{
	struct leat_msg_conn *c = connected(NULL);

	(void)state;
	assert_int_equal(leat_ep_disconnect(a.ep, leat_msg_conn_peer(c)), 0);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1 && b.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(times(a.ev.text, addr), 1);
	assert_int_equal(a.ev.status, -ECONNABORTED);
	assert_int_equal(times(b.ev.text, "closed by "), 1);
	close_end(c, &a);
	close_end(b.accepted, &b);
}

/* If one side asks for leat mode, and the other side for plain mode, no byte is sent. */
static void
test_leat_or_nothing(void **state)
{
	const struct leat_msg_conn_conf leat = { .mode = LEAT_MSG_LEAT };
	struct leat_ep_stats before, after;
	struct leat_msg_req tx, rx;
	struct leat_msg_conn *c;
	char buf[8];

	(void)state;
	leat_ep_stats_get(a.ep, &before);
	b.conf.mode = LEAT_MSG_PLAIN;
	c = leat_msg_connect(a.m, addr, &leat);
	assert_non_null(c);
	send1(c, &tx, "secret", 6);
	recv1(c, &rx, buf, 8);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1 && b.nb_ev[LEAT_MSG_ENDED] == 1);
	leat_ep_stats_get(a.ep, &after);
	assert_int_equal(a.ev.status, -EPROTONOSUPPORT);
	assert_int_equal(tx.status, -EPROTONOSUPPORT);
	assert_int_equal(rx.status, -EPROTONOSUPPORT);
	assert_int_equal(after.posted, before.posted);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
	close_end(c, &a);
	close_end(b.accepted, &b);
	/* If the listener b asks for leat mode, and a for plain mode, the connection ends, too. */
	a.nb_ev[LEAT_MSG_ENDED] = 0;
	b.accepted = NULL;
	b.conf.mode = LEAT_MSG_LEAT;
	c = leat_msg_connect(a.m, addr, &(struct leat_msg_conn_conf){ .mode = LEAT_MSG_PLAIN });
	assert_non_null(c);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_null(b.accepted);
	close_end(c, &a);
}

/*
 * The fall-back of LEAT_MSG_AUTO to plain mode is logged, once per connection and with the peer's
 * name.
 */
static void
test_auto(void **state)
{
	struct leat_msg_conn *c;
	unsigned int i;

	(void)state;
	log_start();
	for (i = 0; i < 2; i++) {
		b.conf.mode = LEAT_MSG_PLAIN;
		b.accepted = NULL;
		c = leat_msg_connect(a.m, addr, NULL);
		assert_non_null(c);
		drive_until(a.nb_ev[LEAT_MSG_UP] == i + 1 && b.nb_ev[LEAT_MSG_UP] == i + 1);
		assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_PLAIN);
		assert_int_equal(fflush(log_file), 0);
		assert_int_equal(times(logged, "does not speak leat mode"), i + 1);
		assert_int_equal(times(logged, addr), i + 1);
		close_both(c);
	}
	/* Both speak leat mode: nothing is logged. */
	b.conf.mode = LEAT_MSG_AUTO;
	c = connected(NULL);
	close_both(c);
	assert_int_equal(fflush(log_file), 0);
	assert_int_equal(times(logged, "does not speak leat mode"), 2);
	log_stop();
	free(logged);
}

/*
 * A connection request whose hello says "rejected", which only an answer may say, is not accepted.
 */
static void
test_request_says_rejected(void **state)
{
	/* 2 credits; messages of at most 256 B, eager ones of at most 1 B */
	static const uint8_t hello[LEAT_MSG_HELLO_LEN] = {
		'L', 'M', 'S', 'G', 4, 1, 2, [17] = 1, [24] = 1,
	};
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN,
						 .priv = hello,
						 .priv_len = sizeof(hello) };
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, &conf);

	(void)state;
	assert_non_null(c);
	b.accepted = NULL;
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_null(b.accepted);
	close_end(c, &a);
}

/* The reason of a rejection is printed at the connector, without control characters. */
static void
test_rejected(void **state)
{
	static const enum leat_msg_mode modes[] = { LEAT_MSG_AUTO, LEAT_MSG_LEAT, LEAT_MSG_PLAIN };
	struct leat_msg_conn_conf conf = { 0 };
	struct leat_msg_req tx;
	struct leat_msg_conn *c;
	unsigned int i;

	(void)state;
	b.reject = "no room\n for you";
	for (i = 0; i < RTE_DIM(modes); i++) {
		conf.mode = modes[i];
		b.accepted = NULL;
		c = leat_msg_connect(a.m, addr, &conf);
		assert_non_null(c);
		send1(c, &tx, "x", 1);
		drive_until(a.nb_ev[LEAT_MSG_ENDED] == i + 1);
		assert_int_equal(a.ev.status, -ECONNREFUSED);
		assert_int_equal(tx.status, -ECONNREFUSED);
		assert_int_equal(times(a.ev.text, addr), 1);
		assert_int_equal(times(a.ev.text, "no room? for you"), modes[i] != LEAT_MSG_PLAIN);
		assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
		close_end(c, &a);
	}
	/* The rejected id is free again, and the next request is accepted. */
	b.reject = NULL;
	for (i = 0; i < MAX_CONNS + 2; i++) {
		c = connected(NULL);
		close_both(c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_closed_by, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_disconnected, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_leat_or_nothing, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_auto, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_rejected, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_request_says_rejected, pair_setup,
						pair_teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
