/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages between two endpoints of the ring device, driven by one thread: how connections begin
 * and end, and both formats.
 */

#include <string.h>

#include <rte_mempool.h>

#include "msg_pair.h"

#define BIG (1u << 20)

static uint8_t big_tx[BIG], big_rx[BIG];

/* Messages that are posted before the other side has seen the connection request are delivered. */
static void
test_before_up(void **state)
{
	struct leat_msg_req tx[2], rx[2];
	struct leat_msg_conn *c;
	char buf[2][8];

	(void)state;
	c = leat_msg_connect(a.m, addr, NULL);
	assert_non_null(c);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_AUTO);
	send1(c, &tx[0], "one", 3);
	send1(c, &tx[1], "two", 3);
	drive_until(b.accepted != NULL);
	recv1(b.accepted, &rx[0], buf[0], 8);
	recv1(b.accepted, &rx[1], buf[1], 8);
	drive_until(a.nb_back == 2 && b.nb_back == 2);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_LEAT);
	assert_int_equal(leat_msg_conn_mode(b.accepted), LEAT_MSG_LEAT);
	assert_memory_equal(buf[0], "one", 3);
	assert_memory_equal(buf[1], "two", 3);
	close_both(c);
}

/*
 * One side sends and closes before the other side has seen that the connection is up: the other
 * side still receives the message, after the end.
 */
static void
test_sent_and_closed(void **state)
{
	struct leat_msg_req tx, rx;
	struct leat_msg_conn *c;
	unsigned int i;
	char buf[8];

	(void)state;
	c = leat_msg_connect(a.m, addr, NULL);
	assert_non_null(c);
	drive_until(b.accepted != NULL);
	for (i = 0; a.nb_ev[LEAT_MSG_UP] == 0 && i < PAIR_TURNS; i++)
		end_drive(&a);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP], 1);
	send1(c, &tx, "bye", 3);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	for (i = 0; i < 1000; i++)
		end_drive(&a);
	assert_int_equal(a.nb_ev[LEAT_MSG_CLOSED], 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1 && b.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.ev.status, 0);
	recv1(b.accepted, &rx, buf, sizeof(buf));
	drive_until(b.nb_back == 1);
	assert_int_equal(rx.status, 0);
	assert_int_equal(rx.len, 3);
	assert_memory_equal(buf, "bye", 3);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

/* If no endpoint listens at the address, posted requests come back with -ECONNREFUSED. */
static void
test_connect_fails(void **state)
{
	const struct leat_msg_conn_conf conf = { .timeout_us = 1000 };
	struct leat_msg_conn *c = leat_msg_connect(a.m, "nobody:1", &conf);
	struct leat_msg_req tx, rx;
	char buf[8];

	(void)state;
	assert_non_null(c);
	send1(c, &tx, "x", 1);
	recv1(c, &rx, buf, 8);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_int_equal(a.nb_back, 2);
	assert_int_equal(tx.status, -ECONNREFUSED);
	assert_int_equal(rx.status, -ECONNREFUSED);
	assert_int_equal(leat_msg_close(c, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
}

static void
test_close_while_connecting(void **state)
{
	struct leat_msg_conn *c = leat_msg_connect(a.m, "nobody:1", NULL);
	struct leat_msg_req tx;

	(void)state;
	send1(c, &tx, "x", 1);
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(tx.status, -ECANCELED);
	assert_int_equal(a.nb_ev[LEAT_MSG_UP] + a.nb_ev[LEAT_MSG_ENDED], 0);
}

/* A close first sends all queued messages, even more than there are credits, and large ones. */
static void
drain(enum leat_msg_mode mode)
{
	const struct leat_msg_conn_conf conf = { .mode = mode };
	static struct leat_msg_req tx[40], rx[40];
	struct leat_msg_conn *c = connected(&conf);
	unsigned int i;

	memset(big_tx, 0xa5, BIG);
	for (i = 0; i < 40; i++)
		send1(c, &tx[i], big_tx, i % 8 == 0 ? BIG : i);
	if (mode == LEAT_MSG_LEAT)
		assert_int_equal(leat_msg_close(c, 10000000), 0);
	for (i = 0; i < 40; i++)
		recv1(b.accepted, &rx[i], big_rx, BIG);
	/*
	 * In plain mode a send may complete before b has a receive for it, so close only when b has
	 * all messages.
	 */
	if (mode == LEAT_MSG_PLAIN) {
		drive_until(b.nb_back == 40);
		assert_int_equal(leat_msg_close(c, 10000000), 0);
	}
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1 && b.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.ev.status, 0);
	assert_int_equal(b.ev.status, 0);
	assert_int_equal(b.nb_back, 40);
	for (i = 0; i < 40; i++) {
		assert_ptr_equal(a.back[i], &tx[i]);
		assert_ptr_equal(b.back[i], &rx[i]);
		assert_int_equal(rx[i].status, 0);
		assert_int_equal(rx[i].len, i % 8 == 0 ? BIG : i);
	}
	assert_memory_equal(big_rx, big_tx, BIG);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

static void
test_drain_leat(void **state)
{
	(void)state;
	drain(LEAT_MSG_LEAT);
}

static void
test_drain_plain(void **state)
{
	(void)state;
	drain(LEAT_MSG_PLAIN);
}

/*
 * If the other side never receives, credits bound the number of messages sent, and the close ends
 * at its time limit.
 */
static void
test_drain_times_out(void **state)
{
	static struct leat_msg_req tx[200];
	struct leat_msg_conn *c = connected(NULL);
	struct leat_msg_stats stats;
	unsigned int i, done = 0;

	(void)state;
	for (i = 0; i < 200; i++)
		send1(c, &tx[i], "x", 1);
	leat_msg_stats_get(a.m, &stats);
	drive_until(a.nb_back == stats.credits);
	assert_int_equal(leat_msg_close(c, 2000), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(a.ev.status, -ETIMEDOUT);
	assert_int_equal(a.nb_back, 200);
	for (i = 0; i < 200; i++) {
		assert_ptr_equal(a.back[i], &tx[i]);
		done += tx[i].status == 0;
		assert_true(tx[i].status == 0 || tx[i].status == -ETIMEDOUT);
	}
	assert_int_equal(done, stats.credits);
	leat_msg_stats_get(b.m, &stats);
	assert_int_equal(stats.held, stats.credits);
	drive_until(b.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
	leat_msg_stats_get(b.m, &stats);
	assert_int_equal(stats.held, 0);
}

static void
test_mempool(void **state)
{
	struct rte_mempool *mp =
		rte_mempool_create("msg", 3, 4096, 0, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
	struct leat_msg_conn_conf conf = { .mempool = mp };
	struct leat_msg_req tx[4], rx[4];
	struct leat_msg_conn *c;
	unsigned int i;

	(void)state;
	assert_non_null(mp);
	c = connected(&conf);
	for (i = 0; i < 4; i++) {
		recv1(b.accepted, &rx[i], NULL, 4096);
		send1(c, &tx[i], big_tx, 3000 + i);
	}
	drive_until(b.nb_back == 3 && rte_mempool_avail_count(mp) == 0);
	for (i = 0; i < 3; i++) {
		assert_memory_equal(rx[i].buf, big_tx, 3000 + i);
		rte_mempool_put(mp, rx[i].buf);
	}
	drive_until(b.nb_back == 4);
	rte_mempool_put(mp, rx[3].buf);
	close_both(c);
	rte_mempool_free(mp);
}

/*
 * If the listener is in plain mode, the connection is in plain mode on both sides. A listener that
 * accepts only leat mode refuses a connector in plain mode.
 */
static void
test_modes(void **state)
{
	struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_PLAIN };
	struct leat_msg_conn *c;

	(void)state;
	b.conf.mode = LEAT_MSG_PLAIN;
	c = leat_msg_connect(a.m, addr, NULL);
	drive_until(a.nb_ev[LEAT_MSG_UP] == 1 && b.nb_ev[LEAT_MSG_UP] == 1);
	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_PLAIN);
	assert_int_equal(leat_msg_conn_mode(b.accepted), LEAT_MSG_PLAIN);
	close_both(c);
	b.conf.mode = LEAT_MSG_LEAT;
	c = leat_msg_connect(a.m, addr, &conf);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_int_equal(leat_msg_close(c, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
}

/* leat_msg_open() on a peer that the application itself connected. */
static void
test_open(void **state)
{
	struct leat_msg_conn *c;
	struct leat_msg_req tx, rx;
	char buf[8];
	int peer = leat_ep_connect(a.ep, addr, NULL);

	(void)state;
	assert_true(peer >= 0);
	c = leat_msg_open(a.m, (uint16_t)peer, NULL);
	assert_non_null(c);
	assert_null(leat_msg_open(a.m, (uint16_t)peer, NULL));
	assert_int_equal(rte_errno, EALREADY);
	assert_null(leat_msg_open(a.m, (uint16_t)(peer + 1), NULL));
	assert_int_equal(rte_errno, ENOTCONN);
	drive_until(a.nb_ev[LEAT_MSG_UP] == 1 && b.nb_ev[LEAT_MSG_UP] == 1);
	recv1(b.accepted, &rx, buf, 8);
	send1(c, &tx, "hello", 5);
	drive_until(b.nb_back == 1);
	assert_int_equal(rx.len, 5);
	close_both(c);
}

/*
 * Receives behind the oldest one are cancelled. They get no message, and come back in the order of
 * posting.
 */
static void
cancel_behind(enum leat_msg_mode mode)
{
	const struct leat_msg_conn_conf conf = { .mode = mode };
	struct leat_msg_conn *c = connected(&conf);
	struct leat_msg_req tx[2], rx[4];
	char buf[4][8];
	unsigned int i;

	for (i = 0; i < 4; i++)
		recv1(b.accepted, &rx[i], buf[i], 8);
	end_drive(&b);
	assert_int_equal(leat_msg_cancel(&rx[1]), 0);
	assert_int_equal(leat_msg_cancel(&rx[2]), 0);
	send1(c, &tx[0], "first", 5);
	drive_until(b.nb_back == 3 && a.nb_back == 1);
	send1(c, &tx[1], "next", 4);
	drive_until(b.nb_back == 4 && a.nb_back == 2);
	for (i = 0; i < 4; i++) {
		assert_ptr_equal(b.back[i], &rx[i]);
		assert_int_equal(rx[i].status, i == 1 || i == 2 ? -ECANCELED : 0);
	}
	assert_memory_equal(buf[0], "first", 5);
	assert_memory_equal(buf[3], "next", 4);
	close_both(c);
}

static void
test_cancel_behind_leat(void **state)
{
	(void)state;
	cancel_behind(LEAT_MSG_LEAT);
}

static void
test_cancel_behind_plain(void **state)
{
	(void)state;
	cancel_behind(LEAT_MSG_PLAIN);
}

#define CANCEL_RX 6
#define CANCEL_TX 4

/*
 * Receives are cancelled at random while messages arrive, each with its number. Requests come back
 * in the order of posting, once each, and no message is lost or comes twice.
 */
static void
cancel_random(enum leat_msg_mode mode)
{
	const struct leat_msg_conn_conf conf = { .mode = mode };
	struct leat_msg_conn *c = connected(&conf);
	struct leat_msg_req tx[CANCEL_TX], rx[CANCEL_RX];
	uint64_t random = 1, out[CANCEL_TX][2], in[CANCEL_RX][2], sent = 0, got = 0, posted = 0,
		 back = 0, sent_back = 0;
	bool asked[CANCEL_RX] = { false };
	unsigned int i, turns, nb_cancelled = 0;

	for (turns = 0; got < 20000; turns++) {
		assert_true(turns < 1000000);
		if (sent - sent_back < CANCEL_TX && test_random(&random) % 3 != 0) {
			uint64_t *p = out[sent % CANCEL_TX];

			p[0] = p[1] = sent;
			/* Messages of 0, 8 and 16 bytes. */
			send1(c, &tx[sent % CANCEL_TX], p, sent % 3 * 8);
			sent++;
		}
		if (posted - back < CANCEL_RX && test_random(&random) % 3 != 0) {
			i = posted++ % CANCEL_RX;
			asked[i] = false;
			recv1(b.accepted, &rx[i], in[i], 16);
		}
		if (posted > back && test_random(&random) % 4 == 0) {
			i = (unsigned int)((back + test_random(&random) % (posted - back)) %
					   CANCEL_RX);
			if (leat_msg_cancel(&rx[i]) == 0) {
				assert_false(asked[i]);
				asked[i] = true;
			}
		}
		/* leat_msg_events(), which does all pending work, is called only now and then. */
		end_poll(&b, (uint16_t)(1 + test_random(&random) % 3));
		end_poll(&a, (uint16_t)(1 + test_random(&random) % 3));
		if (turns % 64 == 0) {
			end_drive(&b);
			end_drive(&a);
		}
		for (i = 0; i < b.nb_back; i++) {
			const unsigned int k = back++ % CANCEL_RX;

			assert_ptr_equal(b.back[i], &rx[k]);
			if (rx[k].status == -ECANCELED) {
				assert_true(asked[k]);
				nb_cancelled++;
				continue;
			}
			assert_int_equal(rx[k].status, 0);
			assert_true(!asked[k] || mode == LEAT_MSG_PLAIN);
			assert_int_equal(rx[k].len, got % 3 * 8);
			if (rx[k].len > 0)
				assert_int_equal(in[k][rx[k].len / 8 - 1], got);
			got++;
		}
		sent_back += a.nb_back;
		a.nb_back = b.nb_back = 0;
	}
	assert_true(nb_cancelled > 1000);
	close_both(c);
	assert_int_equal(b.nb_back, posted - back);
}

static void
test_cancel_random_leat(void **state)
{
	(void)state;
	cancel_random(LEAT_MSG_LEAT);
}

static void
test_cancel_random_plain(void **state)
{
	(void)state;
	cancel_random(LEAT_MSG_PLAIN);
}

/* Connections use the same slots again and again, while one connection stays up. */
static void
test_many(void **state)
{
	struct leat_msg_conn *keep = connected(NULL), *keep_b = b.accepted, *c;
	struct leat_msg_req tx, rx, ktx, krx;
	char buf[8], kbuf[8];
	unsigned int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		a.nb_back = b.nb_back = 0;
		b.accepted = NULL;
		c = leat_msg_connect(a.m, addr, NULL);
		assert_non_null(c);
		send1(c, &tx, &i, sizeof(i));
		drive_until(b.accepted != NULL);
		recv1(b.accepted, &rx, buf, 8);
		recv1(keep_b, &krx, kbuf, 8);
		send1(keep, &ktx, &i, sizeof(i));
		drive_until(b.nb_back == 2 && a.nb_back == 2);
		assert_memory_equal(buf, &i, sizeof(i));
		assert_memory_equal(kbuf, &i, sizeof(i));
		close_both(c);
		b.nb_ev[LEAT_MSG_CLOSED] = 0;
	}
	b.accepted = keep_b;
	close_both(keep);
}

/* When an endpoint is shut down, its connections end, and their requests come back. */
static void
test_shutdown(void **state)
{
	struct leat_msg_conn *c = connected(NULL);
	struct leat_msg_req rx;
	char buf[8];

	(void)state;
	recv1(c, &rx, buf, 8);
	assert_int_equal(leat_ep_shutdown(a.ep, 1000), 0);
	drive_until(a.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(a.nb_back, 1);
	assert_true(rx.status < 0);
	assert_int_equal(leat_msg_destroy(a.m), -EBUSY);
	assert_int_equal(leat_msg_close(c, 0), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(leat_msg_destroy(a.m), 0);
	assert_int_equal(leat_ep_destroy(a.ep), 0);
	end_open(&a, PAIR_RING, MAX_CONNS);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_before_up, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_sent_and_closed, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_connect_fails, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_close_while_connecting, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(test_drain_leat, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_drain_plain, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_drain_times_out, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_mempool, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_modes, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_open, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_behind_leat, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_behind_plain, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_random_leat, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_random_plain, pair_setup,
						pair_teardown),
		cmocka_unit_test_setup_teardown(test_many, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_shutdown, pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests_name("msg_ring", tests, pair_start, pair_stop);
}
