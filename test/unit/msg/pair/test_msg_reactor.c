/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The context of endpoint a is polled by a reactor, which the test turns or runs blocking. b is
 * driven by the test's loop, or by a thread of its own.
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <leat_msg_reactor.h>
#include <leat_reactor.h>
#include <leat_time.h>

#include "msg_pair.h"

static struct {
	struct leat_reactor *r;
	struct leat_msg_req *back[256];
	unsigned int nb_back, nb_ev[LEAT_MSG_CLOSED + 1];
	int status; /* status of the last event */
	unsigned int bursts, op_bursts;
	int destroyed; /* result of leat_msg_destroy() in a callback */
} below;

static void
on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now)
{
	uint16_t i;

	assert_ptr_equal(arg, &below);
	assert_in_range(n, 1, LEAT_MSG_BURST);
	assert_true(now > 0);
	below.bursts++;
	for (i = 0; i < n; i++)
		below.back[below.nb_back++] = reqs[i];
	below.destroyed = leat_msg_destroy(a.m);
}

static void
on_event(void *arg, const struct leat_msg_event *ev)
{
	assert_ptr_equal(arg, &below);
	below.nb_ev[ev->type]++;
	below.status = ev->status;
}

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	(void)arg;
	(void)ops;
	(void)now;
	assert_ptr_equal(ep, a.ep);
	below.op_bursts += n;
}

static const struct leat_msg_reactor_conf conf = {
	.done = on_done,
	.event = on_event,
	.ops = on_ops,
	.arg = &below,
};

static void
begin(enum leat_idle_policy idle, uint32_t events_us)
{
	const struct leat_reactor_conf rc = { .events_us = events_us,
					      .idle = { .policy = idle, .spin_us = 1 } };

	memset(&below, 0, sizeof(below));
	below.r = leat_reactor_create(&rc);
	assert_non_null(below.r);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &conf), 0);
}

/* Turn the reactor and drive b until the condition holds. */
#define turn_until(cond)                                                                           \
	do {                                                                                       \
		unsigned int turns_ = 0;                                                           \
		while (!(cond)) {                                                                  \
			assert_true(leat_reactor_turn(below.r) >= 0);                              \
			end_drive(&b);                                                             \
			if (++turns_ > PAIR_TURNS)                                                 \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

/* Drive b alone until the condition holds. */
#define drive_b_until(cond)                                                                        \
	do {                                                                                       \
		unsigned int turns_ = 0;                                                           \
		while (!(cond)) {                                                                  \
			end_drive(&b);                                                             \
			if (++turns_ > PAIR_TURNS)                                                 \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

static struct leat_msg_conn *
up(void)
{
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, NULL);

	assert_non_null(c);
	turn_until(below.nb_ev[LEAT_MSG_UP] == 1 && b.nb_ev[LEAT_MSG_UP] == 1);
	return c;
}

/*
 * Stop the reactor, while b goes on.
 * @return the result of the last turn
 */
static int
stop(uint64_t us)
{
	int ret;

	leat_reactor_stop(below.r, us);
	do {
		ret = leat_reactor_turn(below.r);
		end_drive(&b);
	} while (ret >= 0);
	return ret;
}

static void
finish_b(void)
{
	if (b.accepted == NULL)
		return;
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_b_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
	b.accepted = NULL;
}

static void
teardown_a(void)
{
	assert_int_equal(leat_reactor_destroy(below.r), 0);
	below.r = NULL;
}

static void
test_callbacks(void **state)
{
	struct leat_op op = { .type = LEAT_OP_TRECV, .peer = LEAT_PEER_ANY, .tag = 5 }, *ops = &op;
	struct leat_msg_req tx[4], rx[2];
	struct leat_msg_conn *c;
	char in[8];
	int i;

	(void)state;
	begin(LEAT_IDLE_SPIN, 0);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &conf), -EALREADY);
	c = up();
	assert_true(leat_msg_conn_mode(c) == LEAT_MSG_LEAT);
	recv1(b.accepted, &rx[0], in, sizeof(in));
	for (i = 0; i < 4; i++)
		send1(c, &tx[i], "abc", 4);
	turn_until(below.nb_back == 4 && b.nb_back == 1);
	assert_in_range(below.bursts, 1, 4);
	assert_string_equal(in, "abc");
	assert_int_equal(below.destroyed, -EBUSY);
	/* An op of the application is passed to on_ops(). */
	op.queue = LEAT_QUEUE_NONE;
	assert_int_equal(leat_ep_post(a.ep, &ops, 1), 1);
	assert_int_equal(leat_op_cancel(a.ep, &op), 0);
	turn_until(below.op_bursts == 1);
	/* The context can't be destroyed while connections are open. */
	assert_int_equal(leat_msg_destroy(a.m), -EBUSY);
	/* Removed from the reactor, and added again: the connection stays up. */
	assert_int_equal(leat_msg_reactor_remove(a.m), 0);
	assert_int_equal(leat_msg_reactor_remove(a.m), -ENOENT);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &conf), 0);
	recv1(c, &rx[1], in, sizeof(in));
	send1(b.accepted, &tx[0], "de", 3);
	turn_until(below.nb_back == 5);
	assert_string_equal(in, "de");
	assert_int_equal(leat_msg_close(c, 1000000), 0);
	turn_until(below.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(stop(1000000), -ESHUTDOWN);
	teardown_a();
	finish_b();
}

/* The stop closes the connections, and the other side gets what was sent. */
static void
test_stop(void **state)
{
	struct leat_msg_req tx[200], rx[200], idle;
	struct leat_msg_conn *c;
	char in[200][8], room[8];
	unsigned int i;

	(void)state;
	begin(LEAT_IDLE_SPIN, 0);
	c = up();
	recv1(c, &idle, room, sizeof(room));
	for (i = 0; i < 200; i++)
		send1(c, &tx[i], "abc", 4);
	leat_reactor_stop(below.r, 5000000);
	assert_true(leat_reactor_turn(below.r) >= 0);
	for (i = 0; i < 200; i++)
		recv1(b.accepted, &rx[i], in[i], sizeof(in[i]));
	assert_int_equal(stop(5000000), -ESHUTDOWN);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(below.nb_back, 201);
	assert_int_equal(idle.status, -ECANCELED);
	for (i = 0; i < 200; i++)
		assert_int_equal(tx[i].status, 0);
	teardown_a();
	/* The context outlives its reactor, and can still be destroyed. */
	assert_int_equal(leat_msg_destroy(a.m), 0);
	a.m = NULL;
	drive_b_until(b.nb_back == 200 && b.nb_ev[LEAT_MSG_ENDED] == 1);
	assert_int_equal(b.ev.status, 0);
	for (i = 0; i < 200; i++)
		assert_int_equal(rx[i].status, 0);
	finish_b();
}

/*
 * If the other side receives nothing, the stop times out, and its error tells the number of sends
 * that are left and their peer.
 */
static void
test_stop_names_sends(void **state)
{
	struct leat_msg_req tx[200];
	static char out[2000];
	struct leat_msg_conn *c;
	char text[LEAT_ADDR_MAX + 32];
	unsigned int i, n;

	(void)state;
	begin(LEAT_IDLE_SPIN, 0);
	c = up();
	for (i = 0; i < 200; i++)
		send1(c, &tx[i], out, sizeof(out));
	turn_until(below.nb_back > 0);
	n = 200 - below.nb_back;
	/* Long enough for a machine that is busy with other work. */
	assert_int_equal(stop(500000), -ETIMEDOUT);
	snprintf(text, sizeof(text), "%u sends to %s", n, addr);
	if (strstr(leat_err_msg(), text) == NULL)
		fail_msg("\"%s\" is not in: %s", text, leat_err_msg());
	assert_int_equal(below.nb_back, 200);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(below.status, -ETIMEDOUT);
	teardown_a();
	finish_b();
}

/* While a stop is in progress the reactor closes the connections, and the context stays. */
static void
test_destroy_in_stop(void **state)
{
	struct leat_msg_req tx[200];
	static char out[2000];
	struct leat_msg_conn *c;
	unsigned int i;

	(void)state;
	begin(LEAT_IDLE_SPIN, 0);
	c = up();
	/* b receives none of these messages, so they keep the stop from ending. */
	for (i = 0; i < 200; i++)
		send1(c, &tx[i], out, sizeof(out));
	leat_reactor_stop(below.r, 500000);
	while (leat_reactor_state(below.r) != LEAT_REACTOR_STOPPING)
		assert_true(leat_reactor_turn(below.r) >= 0);
	assert_int_equal(leat_msg_destroy(a.m), -EBUSY);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 0);
	assert_int_equal(stop(500000), -ETIMEDOUT);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 1);
	assert_int_equal(leat_msg_destroy(a.m), 0);
	a.m = NULL;
	teardown_a();
	finish_b();
}

/* After a reactor is destroyed without a stop, destroying the context cancels its requests. */
static void
test_reactor_gone(void **state)
{
	struct leat_msg_req rx;
	struct leat_msg_conn *c;
	char in[8];

	(void)state;
	begin(LEAT_IDLE_SPIN, 0);
	c = up();
	recv1(c, &rx, in, sizeof(in));
	teardown_a();
	assert_int_equal(below.nb_back, 0);
	assert_int_equal(leat_msg_destroy(a.m), 0);
	a.m = NULL;
	assert_int_equal(below.nb_back, 1);
	assert_int_equal(rx.status, -ECANCELED);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 1);
	drive_b_until(b.nb_ev[LEAT_MSG_ENDED] == 1);
	finish_b();
}

static int reconnect; /* result of leat_msg_connect() in on_event_reconnect() */

static void
on_event_reconnect(void *arg, const struct leat_msg_event *ev)
{
	on_event(arg, ev);
	if (ev->type == LEAT_MSG_CLOSED)
		reconnect = leat_msg_connect(a.m, addr, NULL) == NULL ? -rte_errno : 0;
}

/* While leat_msg_destroy() closes the connections, the event callback can't open a new one. */
static void
test_reactor_gone_reconnect(void **state)
{
	struct leat_msg_reactor_conf again = conf;

	(void)state;
	again.event = on_event_reconnect;
	begin(LEAT_IDLE_SPIN, 0);
	assert_int_equal(leat_msg_reactor_remove(a.m), 0);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &again), 0);
	(void)up();
	reconnect = 1;
	teardown_a();
	assert_int_equal(leat_msg_destroy(a.m), 0);
	a.m = NULL;
	assert_int_equal(reconnect, -ESHUTDOWN);
	assert_int_equal(below.nb_ev[LEAT_MSG_CLOSED], 1);
	drive_b_until(b.nb_ev[LEAT_MSG_ENDED] == 1);
	finish_b();
}

/* What on_event_again() gets after both connections are up. */
static struct {
	struct leat_msg_conn *again; /* connection that it opens at the first event */
	struct leat_msg_event first, second;
	unsigned int nb;
} two;

static void
on_event_again(void *arg, const struct leat_msg_event *ev)
{
	on_event(arg, ev);
	if (ev->type == LEAT_MSG_UP)
		return;
	if (two.nb++ == 0) {
		two.first = *ev;
		two.again = leat_msg_connect(a.m, addr, NULL);
	} else if (two.nb == 2) {
		two.second = *ev;
	}
}

/*
 * In one turn a connection ends, and another one is closed. A callback that connects in the first
 * of these events does not get the object of the connection that the second event is about.
 */
static void
test_connect_before_closed(void **state)
{
	struct leat_msg_conn *c[2], *accepted[2];
	struct leat_msg_reactor_conf again = conf;
	struct leat_event ev;
	unsigned int i;

	(void)state;
	memset(&two, 0, sizeof(two));
	begin(LEAT_IDLE_SPIN, 0);
	assert_int_equal(leat_msg_reactor_remove(a.m), 0);
	again.event = on_event_again;
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &again), 0);
	for (i = 0; i < 2; i++) {
		c[i] = leat_msg_connect(a.m, addr, NULL);
		assert_non_null(c[i]);
		turn_until(below.nb_ev[LEAT_MSG_UP] > i && b.nb_ev[LEAT_MSG_UP] > i);
		accepted[i] = b.accepted;
	}
	/* Let both connections end without the reactor, which then finds both events at once. */
	assert_int_equal(leat_msg_reactor_remove(a.m), 0);
	assert_int_equal(leat_msg_close(accepted[0], 0), 0);
	assert_int_equal(leat_msg_close(c[1], 0), 0);
	for (i = 0; i < PAIR_TURNS && (leat_msg_conn_peer(c[0]) != LEAT_PEER_ANY ||
				       leat_msg_conn_peer(c[1]) != LEAT_PEER_ANY);
	     i++) {
		end_poll(&a, 32);
		while (leat_ep_events(a.ep, &ev, 1) == 1)
			(void)leat_msg_handle_event(a.m, &ev);
		end_drive(&b);
	}
	end_poll(&a, 32);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &again), 0);
	assert_true(leat_reactor_turn(below.r) >= 0);
	assert_int_equal(two.nb, 2);
	assert_ptr_equal(two.first.conn, c[0]);
	assert_int_equal(two.first.type, LEAT_MSG_ENDED);
	assert_ptr_equal(two.second.conn, c[1]);
	assert_int_equal(two.second.type, LEAT_MSG_CLOSED);
	assert_non_null(two.again);
	assert_ptr_not_equal(two.again, c[1]);
	turn_until(below.nb_ev[LEAT_MSG_UP] == 3 && b.nb_ev[LEAT_MSG_UP] == 3);
	assert_int_equal(stop(1000000), -ESHUTDOWN);
	teardown_a();
	assert_int_equal(leat_msg_close(accepted[1], 0), 0);
	assert_int_equal(leat_msg_close(b.accepted, 0), 0);
	drive_b_until(b.nb_ev[LEAT_MSG_CLOSED] == 3);
}

/* ---- blocking ---- */

#define ROUNDS 300

static bool b_ends;

static void *
echo(void *arg)
{
	struct leat_msg_req rx = { 0 }, tx = { 0 }, *p = &rx, *q = &tx;
	char buf[8];

	(void)arg;
	rx.buf = tx.buf = buf;
	rx.size = tx.size = sizeof(buf);
	while (!__atomic_load_n(&b_ends, __ATOMIC_ACQUIRE)) {
		bool was_up = b.nb_ev[LEAT_MSG_UP] == 1;

		end_drive(&b);
		if (!was_up && b.nb_ev[LEAT_MSG_UP] == 1)
			(void)leat_msg_recv(b.accepted, &p, 1);
		while (b.nb_back > 0) {
			const struct leat_msg_req *req = b.back[--b.nb_back];

			if (req->status == 0 && req == &rx)
				(void)leat_msg_send(b.accepted, &q, 1);
			else if (req->status == 0)
				(void)leat_msg_recv(b.accepted, &p, 1);
		}
		if (b.nb_ev[LEAT_MSG_ENDED] == 1 && b.accepted != NULL) {
			(void)leat_msg_close(b.accepted, 0);
			b.accepted = NULL;
		}
	}
	return NULL;
}

static struct leat_msg_conn *talk;
static struct leat_msg_req talk_rx, talk_tx;
static char talk_in[8];
static unsigned int nb_talks;

static void
talk_once(void)
{
	recv1(talk, &talk_rx, talk_in, sizeof(talk_in));
	send1(talk, &talk_tx, "question", 8);
}

static void
on_talk(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now)
{
	uint16_t i;

	(void)arg;
	(void)now;
	for (i = 0; i < n; i++) {
		if (reqs[i] != &talk_rx || reqs[i]->status != 0)
			continue;
		if (++nb_talks < ROUNDS)
			talk_once();
		else
			leat_reactor_stop(below.r, 5000000);
	}
}

static void
on_talk_event(void *arg, const struct leat_msg_event *ev)
{
	(void)arg;
	if (ev->type == LEAT_MSG_UP)
		talk_once();
}

/*
 * The other side's answers wake the blocked reactor, and so do connection events. A wake-up that is
 * lost shows as a wait that lasts a second, the interval of events (wake_timeouts).
 */
static void
test_blocking(void **state)
{
	const struct leat_reactor_conf rc = { .events_us = 1000000,
					      .idle = { .policy = LEAT_IDLE_BLOCK, .spin_us = 1 } };
	const struct leat_msg_reactor_conf talks = { .done = on_talk, .event = on_talk_event };
	struct leat_ep_conf ec = { .wait = true };
	struct leat_reactor_stats stats;
	pthread_t thread;

	(void)state;
	end_close(&a);
	assert_int_equal(leat_msg_ep_conf(leat_dev_by_name(PAIR_RING), NULL, &ec), 0);
	a.ep = leat_ep_create(leat_dev_by_name(PAIR_RING), &ec);
	assert_non_null(a.ep);
	a.m = leat_msg_create(a.ep, NULL);
	assert_non_null(a.m);
	below.r = leat_reactor_create(&rc);
	assert_non_null(below.r);
	assert_int_equal(leat_msg_reactor_add(a.m, below.r, &talks), 0);
	nb_talks = 0;
	b_ends = false;
	assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
	talk = leat_msg_connect(a.m, addr, NULL);
	assert_non_null(talk);
	assert_int_equal(leat_reactor_run(below.r), 0);
	leat_reactor_stats_get(below.r, &stats);
	__atomic_store_n(&b_ends, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(nb_talks, ROUNDS);
	assert_true(stats.blocks > 0);
	assert_in_range(stats.wake_timeouts, 0, 4);
	teardown_a();
	if (b.accepted != NULL)
		finish_b();
	drive_b_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_callbacks),
		CASE(test_stop),
		CASE(test_stop_names_sends),
		CASE(test_destroy_in_stop),
		CASE(test_reactor_gone),
		CASE(test_reactor_gone_reconnect),
		CASE(test_connect_before_closed),
		CASE(test_blocking),
	};

	return cmocka_run_group_tests_name("below a reactor", tests, pair_start, pair_stop);
}
