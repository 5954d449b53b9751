/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A side that asks for leat mode never sends a byte in plain mode. If the peer does not speak leat
 * mode, the connection ends without having been up, and posted requests come back with the reason.
 */

#include <errno.h>
#include <string.h>

#include "msg_pair.h"

#define NB 40
#define LARGE 100000

static struct leat_msg_req tx[NB], rx[NB], brx[NB];
static uint8_t out[LARGE], in[LARGE], there[LARGE];

/*
 * Post sends of several sizes, and receives with and without a buffer, before the other side's mode
 * is known.
 */
static void
post_all(struct leat_msg_conn *c)
{
	static const uint32_t sizes[] = { 0, 8, 3, LARGE, 16, 2000, 3000, 0 };
	unsigned int i;

	for (i = 0; i < NB; i++) {
		send1(c, &tx[i], out, sizes[i % RTE_DIM(sizes)]);
		recv1(c, &rx[i], i % 3 == 0 ? NULL : in, i % 3 == 0 ? 0 : LARGE);
	}
}

/*
 * Check that all requests came back with this status: the sends in order, and the receives in
 * order.
 */
static void
all_back(int status)
{
	unsigned int i, sends = 0, recvs = 0;

	assert_int_equal(a.nb_back, 2 * NB);
	for (i = 0; i < 2 * NB; i++) {
		const struct leat_msg_req *req = a.back[i];

		assert_int_equal(req->status, status);
		assert_int_equal(req->len, 0);
		if (req->recv)
			assert_ptr_equal(req, &rx[recvs++]);
		else
			assert_ptr_equal(req, &tx[sends++]);
	}
}

/* Check that the other side, which was up, has received nothing. */
static void
nothing_arrived(void)
{
	struct leat_msg_stats stats;
	unsigned int i;

	for (i = 0; i < NB; i++) {
		recv1(b.accepted, &brx[i], there, LARGE);
		end_drive(&b);
	}
	drive_until(b.nb_back == NB);
	for (i = 0; i < NB; i++) {
		assert_ptr_equal(b.back[i], &brx[i]);
		assert_true(brx[i].status < 0);
	}
	leat_msg_stats_get(b.m, &stats);
	assert_int_equal(stats.received, 0);
	assert_int_equal(stats.held_max, 0);
	leat_msg_stats_get(a.m, &stats);
	assert_int_equal(stats.sent, 0);
	assert_int_equal(stats.sent_bytes, 0);
}

static void
plain_listener(bool early_receives)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, &conf);

	assert_non_null(c);
	b.conf.mode = LEAT_MSG_PLAIN;
	post_all(c);
	drive_until(b.accepted != NULL);
	if (early_receives)
		recv1(b.accepted, &brx[0], there, LARGE);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
	assert_int_equal(a.ev.status, -EPROTONOSUPPORT);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_AUTO);
	drive_until(a.nb_back == 2 * NB);
	all_back(-EPROTONOSUPPORT);
	/* Requests that are posted later come back with -EPROTONOSUPPORT, too. */
	a.nb_back = 0;
	post_all(c);
	drive_until(a.nb_back == 2 * NB);
	all_back(-EPROTONOSUPPORT);
	drive_until(b.nb_ev[LEAT_MSG_ENDED] == 1);
	if (early_receives) {
		drive_until(b.nb_back == 1);
		assert_true(brx[0].status < 0);
		b.nb_back = 0;
	}
	nothing_arrived();
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
	close_both(c);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
}

static void
test_plain_listener(void **state)
{
	(void)state;
	plain_listener(false);
}

static void
test_plain_listener_receives(void **state)
{
	(void)state;
	plain_listener(true);
}

/*
 * A connection is closed, with time to drain, before it is up. There is nothing to drain, so all
 * requests come back with -ECANCELED.
 */
static void
test_closed_before(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, &conf);

	(void)state;
	assert_non_null(c);
	b.conf.mode = LEAT_MSG_PLAIN;
	post_all(c);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP] + a.nb_ev[LEAT_MSG_ENDED], 0);
	all_back(-ECANCELED);
	if (b.accepted == NULL)
		return;
	nothing_arrived();
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

/* The slot of a refused connection is used again, by a connection that is not refused. */
static void
test_again(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_conn *c, *first;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		plain_listener(i == 1);
		memset(a.nb_ev, 0, sizeof(a.nb_ev));
		memset(b.nb_ev, 0, sizeof(b.nb_ev));
		b.accepted = NULL;
		a.nb_back = b.nb_back = 0;
	}
	first = connected(&conf);
	post_all(first);
	c = first;
	for (i = 0; i < NB; i++)
		recv1(b.accepted, &brx[i], there, LARGE);
	drive_until(b.nb_back == NB);
	for (i = 0; i < NB; i++)
		assert_int_equal(brx[i].status, 0);
	close_both(c);
}

/* A connector that leaves the mode open gets plain mode, and all its messages arrive. */
static void
test_auto(void **state)
{
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, NULL);
	unsigned int i;

	(void)state;
	assert_non_null(c);
	b.conf.mode = LEAT_MSG_PLAIN;
	post_all(c);
	drive_until(b.accepted != NULL);
	for (i = 0; i < NB; i++)
		recv1(b.accepted, &brx[i], there, LARGE);
	drive_until(b.nb_back == NB);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 1);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_PLAIN);
	for (i = 0; i < NB; i++) {
		assert_ptr_equal(b.back[i], &brx[i]);
		assert_int_equal(brx[i].status, 0);
		assert_int_equal(brx[i].len, tx[i].size);
	}
	close_both(c);
}

/* If a listener accepts only leat mode, the requests of a connector in plain mode fail. */
static void
test_leat_listener(void **state)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN };
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, &conf);

	(void)state;
	assert_non_null(c);
	b.conf.mode = LEAT_MSG_LEAT;
	post_all(c);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 0);
	assert_null(b.accepted);
	assert_int_equal(b.nb_ev[LEAT_MSG_UP], 0);
	drive_until(a.nb_back == 2 * NB);
	all_back(-ECONNREFUSED);
	assert_int_equal(leat_msg_close(c, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
}

/*
 * Sends that the listener posts after it accepts, but before the connection is up, arrive, whether
 * the connector asks for LEAT_MSG_AUTO or LEAT_MSG_LEAT.
 */
static void
test_acceptor_sends(void **state)
{
	static const enum leat_msg_mode modes[] = { LEAT_MSG_AUTO, LEAT_MSG_LEAT };
	struct leat_event ev;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(modes); i++) {
		const struct leat_msg_conn_conf conf = { .mode = modes[i] };
		const struct leat_msg_conn_conf leat = { .mode = LEAT_MSG_LEAT };
		struct leat_msg_conn *c = leat_msg_connect(a.m, addr, &conf);
		char buf[8] = { 0 };
		unsigned int turns;

		assert_non_null(c);
		recv1(c, &rx[0], buf, 8);
		for (turns = 0; leat_ep_events(b.ep, &ev, 1) == 0; turns++) {
			assert_true(turns < PAIR_TURNS);
			end_drive(&a);
		}
		assert_int_equal(ev.type, LEAT_EV_CONNECT_REQ);
		b.accepted = leat_msg_accept(b.m, &ev, &leat);
		assert_non_null(b.accepted);
		send1(b.accepted, &tx[0], "early", 5);
		drive_until(a.nb_back == 1 && b.nb_back == 1);
		assert_memory_equal(buf, "early", 5);
		assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_LEAT);
		close_both(c);
		a.nb_back = b.nb_back = 0;
	}
}

#define BOTH(f)                                                                                    \
	cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown),                             \
	{                                                                                          \
#f "_fault", f, pair_setup_fault, pair_teardown, NULL                              \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_plain_listener), BOTH(test_plain_listener_receives),
		BOTH(test_closed_before),  BOTH(test_again),
		BOTH(test_auto),	   BOTH(test_leat_listener),
		BOTH(test_acceptor_sends),
	};

	return cmocka_run_group_tests_name("msg_refused", tests, pair_start_fault, pair_stop);
}
