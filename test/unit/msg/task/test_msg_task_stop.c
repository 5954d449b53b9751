/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The waiting calls of leat_msg_task.h when the reactor stops. Checked: what each returns, and
 * which messages can still be sent.
 */

#include <rte_pause.h>

#include "msg_net.h"
#include "msg_task.h"

/* ---- each state ---- */

enum state { DIAL, ACCEPT, SEND, RECV, CLOSE, STATES };

static struct {
	struct msg_task_pair p;
	struct leat_msg_conn *stalled; /* a connection whose other side receives nothing */
	struct leat_msg_req reqs[200];
	unsigned int begun;
	int ret[STATES];
} stop;

static int
in_dial(void *arg)
{
	struct leat_msg_conn *c;

	(void)arg;
	stop.begun++;
	stop.ret[DIAL] = leat_msg_task_dial(stop.p.client, "nobody:1", 60000000, &c);
	return 0;
}

static int
in_accept(void *arg)
{
	struct leat_msg_conn *c;

	(void)arg;
	stop.begun++;
	stop.ret[ACCEPT] = leat_msg_task_accept(stop.p.server, &c);
	return 0;
}

static int
in_send(void *arg)
{
	static char out[100];

	(void)arg;
	stop.begun++;
	do
		stop.ret[SEND] = leat_msg_task_send(stop.p.c, out, sizeof(out));
	while (stop.ret[SEND] == 0);
	return 0;
}

static int
in_recv(void *arg)
{
	char in[8];

	(void)arg;
	stop.begun++;
	stop.ret[RECV] = leat_msg_task_recv(stop.p.c, in, sizeof(in));
	/* These calls may fail, since the stop may have closed the connection already. */
	(void)leat_msg_task_send(stop.p.c, in, 1);
	(void)leat_msg_task_close(stop.p.c, 0);
	(void)leat_msg_task_close(stop.p.c, 0);
	return 0;
}

static int
in_close(void *arg)
{
	(void)arg;
	stop.begun++;
	stop.ret[CLOSE] = leat_msg_task_close(stop.stalled, 60000000);
	return 0;
}

static int
each_state(void *arg)
{
	static const leat_task_fn fns[STATES] = { in_dial, in_accept, in_send, in_recv, in_close };
	struct leat_msg_req *reqs[RTE_DIM(stop.reqs)];
	struct leat_msg_conn *c;
	static char out[100];
	unsigned int i;

	(void)arg;
	memset(&stop, 0, sizeof(stop));
	pair_open(&stop.p, NULL);
	pair_connect(&stop.p);
	assert_int_equal(leat_msg_task_dial(stop.p.client, stop.p.addr, 0, &stop.stalled), 0);
	assert_int_equal(leat_msg_task_accept(stop.p.server, &c), 0);
	for (i = 0; i < RTE_DIM(stop.reqs); i++) {
		stop.reqs[i].buf = out;
		stop.reqs[i].size = sizeof(out);
		reqs[i] = &stop.reqs[i];
	}
	assert_int_equal(leat_msg_send(stop.stalled, reqs, RTE_DIM(reqs)), RTE_DIM(reqs));
	for (i = 0; i < STATES; i++) {
		stop.ret[i] = 1;
		assert_int_equal(leat_task_start(NULL, fns[i], NULL), 0);
	}
	while (stop.begun < STATES)
		assert_int_equal(leat_task_yield(), 0);
	return 0;
}

static void
test_each_state(void **state)
{
	unsigned int i;

	(void)state;
	msg_task_run(each_state, NULL);
	for (i = 0; i < STATES; i++) {
		if (stop.ret[i] != -ECANCELED)
			fail_msg("state %u: %d", i, stop.ret[i]);
	}
	/* All requests of leat_msg_send(), for which no task waits, came back. */
	for (i = 0; i < RTE_DIM(stop.reqs); i++)
		assert_int_equal(stop.reqs[i].state, 0);
}

/* ---- messages sent during the stop ---- */

static struct {
	struct msg_task_pair p;
	int said, heard, net;
	char text[16];
} bye;

static int
say_goodbye(void *arg)
{
	char in[8];

	(void)arg;
	assert_int_equal(leat_msg_task_recv(bye.p.c, in, sizeof(in)), -ECANCELED);
	bye.said = leat_task_masked(leat_msg_task_send(bye.p.c, "goodbye", 8));
	/* During the stop no net can be opened, be it in a masked task or not. */
	bye.net = leat_msg_net_open(NULL) == NULL ? -rte_errno : 0;
	return 0;
}

static int
hear_goodbye(void *arg)
{
	(void)arg;
	bye.heard = leat_task_masked(leat_msg_task_recv(bye.p.s, bye.text, sizeof(bye.text)));
	return 0;
}

static int
goodbye(void *arg)
{
	(void)arg;
	memset(&bye, 0, sizeof(bye));
	pair_open(&bye.p, NULL);
	pair_connect(&bye.p);
	assert_int_equal(leat_task_start("says", say_goodbye, NULL), 0);
	assert_int_equal(leat_task_start("hears", hear_goodbye, NULL), 0);
	return leat_task_yield();
}

static void
test_goodbye(void **state)
{
	(void)state;
	msg_task_run(goodbye, NULL);
	assert_int_equal(bye.said, 0);
	assert_int_equal(bye.heard, 8);
	assert_string_equal(bye.text, "goodbye");
	assert_int_equal(bye.net, -ECANCELED);
}

/*
 * This task waits for the other side for ever, with its cancel masked. The stop closes its
 * connection when a quarter of the stop's time is over, which ends the wait.
 */
static int
wait_for_ever(void *arg)
{
	(void)leat_task_masked(leat_msg_task_recv(bye.p.c, bye.text, sizeof(bye.text)));
	bye.heard = 1;
	return arg == NULL ? 0 : -1;
}

static int
for_ever(void *arg)
{
	(void)arg;
	memset(&bye, 0, sizeof(bye));
	pair_open(&bye.p, NULL);
	pair_connect(&bye.p);
	assert_int_equal(leat_task_start("waits", wait_for_ever, NULL), 0);
	return leat_task_yield();
}

static void
test_masked_wait(void **state)
{
	(void)state;
	task_run.stop_us = 400000;
	msg_task_run(for_ever, NULL);
	assert_int_equal(bye.heard, 1);
}

/*
 * If the stop comes while a task closes the client's net, the close ends with -ECANCELED. A third
 * net, which no task uses, is closed by the stop.
 */
static int
close_net(void *arg)
{
	(void)arg;
	bye.net = leat_msg_net_close(bye.p.client, 60000000);
	return 0;
}

static int
net_stops(void *arg)
{
	static struct leat_msg_req reqs[200];
	unsigned int i;

	(void)arg;
	memset(&bye, 0, sizeof(bye));
	memset(reqs, 0, sizeof(reqs));
	pair_open(&bye.p, NULL);
	assert_non_null(leat_msg_net_open(NULL));
	pair_connect(&bye.p);
	/* More sends than there is credit for, so that some wait. */
	for (i = 0; i < RTE_DIM(reqs); i++) {
		struct leat_msg_req *req = &reqs[i];

		req->buf = bye.text;
		req->size = sizeof(bye.text);
		assert_int_equal(leat_msg_send(bye.p.c, &req, 1), 1);
		assert_int_equal(leat_task_yield(), 0);
	}
	assert_int_equal(leat_task_start("closes", close_net, NULL), 0);
	return leat_task_yield();
}

static void
test_net_stops(void **state)
{
	(void)state;
	msg_task_run(net_stops, NULL);
	assert_int_equal(bye.net, -ECANCELED);
}

/* ---- a connection is closed before the task that dialed or accepted it has run ---- */

#define CROWD 3000
#define CROWD_STOP_US 1500000
/* Longer than the quarter of the stop's time after which the nets close their connections. */
#define CROWD_CLOSE_US (CROWD_STOP_US / 3)

static struct {
	struct msg_task_pair p;
	struct leat_msg_conn *c, *s;
	int dialed, accepted;
	bool stopping, over;
} crowd;

static bool
both_open(void)
{
	return crowd.p.client->socks[0].state == SOCK_OPEN &&
	       crowd.p.server->socks[0].state == SOCK_OPEN;
}

/* Once a net has seen the stop, keep the reactor busy until it is time to close connections. */
static void
hold(void)
{
	const uint64_t at = RTE_MAX(crowd.p.client->below->stop_at, crowd.p.server->below->stop_at);

	while (at != 0 && leat_now() - at < leat_us_to_cycles(CROWD_CLOSE_US))
		rte_pause();
}

/*
 * A task of the crowd: so many tasks are ready that those in dial and accept, which become ready
 * when the connection is up, run only some turns later. The first task of the crowd that sees the
 * connection up on both sides stops the reactor.
 */
static int
in_crowd(void *arg)
{
	(void)arg;
	while (!crowd.over) {
		if (!crowd.stopping && both_open()) {
			crowd.stopping = true;
			leat_reactor_stop(task_run.r, CROWD_STOP_US);
		}
		hold();
		(void)leat_task_masked(leat_task_yield());
	}
	return 0;
}

static int
in_crowded_dial(void *arg)
{
	(void)arg;
	crowd.dialed = leat_msg_task_dial(crowd.p.client, crowd.p.addr, TIMEOUT_US, &crowd.c);
	crowd.over = crowd.accepted != 1;
	return 0;
}

static int
in_crowded_accept(void *arg)
{
	(void)arg;
	crowd.accepted = leat_msg_task_accept(crowd.p.server, &crowd.s);
	crowd.over = crowd.dialed != 1;
	return 0;
}

static int
crowded(void *arg)
{
	unsigned int i;

	(void)arg;
	memset(&crowd, 0, sizeof(crowd));
	crowd.dialed = crowd.accepted = 1;
	pair_open(&crowd.p, NULL);
	assert_int_equal(leat_task_start("accepts", in_crowded_accept, NULL), 0);
	assert_int_equal(leat_task_start("dials", in_crowded_dial, NULL), 0);
	for (i = 0; i < CROWD; i++)
		assert_int_equal(leat_task_start(NULL, in_crowd, NULL), 0);
	while (!crowd.over)
		(void)leat_task_masked(leat_task_yield());
	return 0;
}

static void
test_closed_before_it_ran(void **state)
{
	(void)state;
	task_run.max_tasks = CROWD + 8;
	msg_task_run(crowded, NULL);
	assert_int_equal(crowd.dialed, -ESHUTDOWN);
	assert_null(crowd.c);
	assert_int_equal(crowd.accepted, -ESHUTDOWN);
	assert_null(crowd.s);
}

/* ---- the peer is dead ---- */

static int
receive(void *arg)
{
	int *ret = arg;
	char in[8];

	*ret = leat_msg_task_recv(bye.p.s, in, sizeof(in));
	return 0;
}

/*
 * The other side's endpoint disconnects, though its context has not closed the connection. What was
 * sent is received; then each call fails.
 */
static int
dies(void *arg)
{
	int ret[2] = { 1, 1 };
	struct leat_scope s;
	unsigned int i;
	char in[8];

	(void)arg;
	memset(&bye, 0, sizeof(bye));
	pair_open(&bye.p, NULL);
	pair_connect(&bye.p);
	leat_scope_init(&s);
	for (i = 0; i < 2; i++)
		leat_scope_branch(&s, "receive", receive, &ret[i], NULL);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_msg_task_send(bye.p.c, "12", 2), 0);
	assert_int_equal(leat_ep_disconnect(bye.p.client->ep, leat_msg_conn_peer(bye.p.c)), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(ret[0], 2);
	assert_true(ret[1] < 0 && ret[1] != -ECANCELED);
	assert_true(leat_msg_task_recv(bye.p.s, in, sizeof(in)) < 0);
	assert_true(leat_msg_task_send(bye.p.s, in, 1) < 0);
	pair_close(&bye.p);
	return 0;
}

static void
test_other_side_dies(void **state)
{
	(void)state;
	msg_task_run(dies, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_state),	cmocka_unit_test(test_goodbye),
		cmocka_unit_test(test_masked_wait),	cmocka_unit_test(test_net_stops),
		cmocka_unit_test(test_other_side_dies), cmocka_unit_test(test_closed_before_it_ran),
	};

	return msg_task_groups("waiting forms, stopped", tests, RTE_DIM(tests));
}
