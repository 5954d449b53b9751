/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The waiting calls of leat_msg_task.h. Checked: what each does, which task gets which message, and
 * what a cancel does.
 */

#include <malloc.h>
#include <stdlib.h>

#include "msg_net.h"
#include "msg_task.h"

/* ---- messages ---- */

static int
echo(void *arg)
{
	struct leat_msg_conn *c = arg;
	static uint8_t buf[1 << 20];
	int n;

	while ((n = leat_msg_task_recv(c, buf, sizeof(buf))) >= 0)
		assert_int_equal(leat_msg_task_send(c, buf, (size_t)n), 0);
	return n;
}

static int
sizes(void *arg)
{
	static const int sizes[] = { 0, 1, 8, 100, 2032, 2033, 70000, 1 << 20 };
	static uint8_t out[1 << 20], in[1 << 20];
	struct msg_task_pair p;
	struct leat_task *task;
	unsigned int i;
	int ret;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	task = leat_task_spawn(leat_tasks_self(), "echo", echo, p.s);
	for (i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	for (i = 0; i < RTE_DIM(sizes); i++) {
		memset(in, 0, sizeof(in));
		assert_int_equal(leat_msg_task_send(p.c, out, (size_t)sizes[i]), 0);
		assert_int_equal(leat_msg_task_recv(p.c, in, sizeof(in)), sizes[i]);
		assert_memory_equal(in, out, (size_t)sizes[i]);
	}
	assert_int_equal(leat_msg_task_close(p.c, TIMEOUT_US), 0);
	p.c = NULL;
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, -ENOTCONN);
	pair_close(&p);
	return 0;
}

static void
test_sizes(void **state)
{
	(void)state;
	msg_task_run(sizes, NULL);
}

static void
test_blocking(void **state)
{
	(void)state;
	task_run.idle = LEAT_IDLE_BLOCK;
	msg_task_run(sizes, NULL);
}

struct receiver {
	struct leat_msg_conn *c;
	int ret;
	void *buf;
	size_t size;
	char room[8];
};

static int
receive(void *arg)
{
	struct receiver *r = arg;

	r->ret = leat_msg_task_recv(r->c, r->buf, r->size);
	return 0;
}

/* Make the net's device one that reaches registered memory only: an op without a region fails. */
static void
need_regions(struct leat_msg_net *net)
{
	struct msg_slot *slots = (struct msg_slot *)net->m->slots_base;
	size_t i;

	net->m->mr = leat_mr_register(net->ep, net->m->buffers, malloc_usable_size(net->m->buffers),
				      LEAT_MR_LOCAL);
	assert_non_null(net->m->mr);
	for (i = 0; i < net->m->slots_len / sizeof(*slots); i++)
		slots[i].op.mr = net->m->mr;
	net->ep->mr_local = true;
}

static int
regions(void *arg)
{
	static uint8_t out[1 << 20], in[1 << 20];
	struct msg_task_pair p;
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	need_regions(p.client);
	need_regions(p.server);
	pair_connect(&p);
	for (i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 3 + i / 253);
	/*
	 * A call registers a long message's buffer itself, but from i = 2 on, both buffers lie in
	 * regions of leat_msg_net_register().
	 */
	for (i = 0; i < 4; i++) {
		struct receiver r = { .c = p.s, .buf = in, .size = sizeof(in) };
		struct leat_task *task;
		size_t len = i % 2 == 0 ? sizeof(out) - 100 : 100;
		int ret;

		task = leat_task_spawn(leat_tasks_self(), "receive", receive, &r);
		memset(in, 0, sizeof(in));
		assert_int_equal(leat_msg_task_send(p.c, out + 100, len), 0);
		assert_int_equal(leat_task_join(task, &ret), 0);
		assert_int_equal(r.ret, len);
		assert_memory_equal(in, out + 100, len);
		if (i == 1) {
			assert_int_equal(leat_msg_net_register(p.client, out, sizeof(out)), 0);
			assert_int_equal(leat_msg_net_register(p.server, in, sizeof(in)), 0);
		}
	}
	/* A receive is cancelled before a message came. */
	assert_int_equal(leat_task_within(1000, leat_msg_task_recv(p.c, &i, sizeof(i))),
			 -ETIMEDOUT);
	pair_close(&p);
	return 0;
}

static void
test_regions(void **state)
{
	(void)state;
	msg_task_run(regions, NULL);
}

static int
in_order(void *arg)
{
	struct receiver r[3] = { { 0 } };
	struct msg_task_pair p;
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	leat_scope_init(&s);
	for (i = 0; i < 3; i++) {
		r[i] = (struct receiver){ .c = p.c, .buf = r[i].room, .size = 8 };
		assert_int_equal(leat_scope_branch(&s, "receive", receive, &r[i], NULL), 0);
	}
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_msg_task_send(p.s, "a", 2), 0);
	assert_int_equal(leat_msg_task_send(p.s, "bc", 3), 0);
	assert_int_equal(leat_msg_task_send(p.s, "def", 4), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_string_equal(r[0].room, "a");
	assert_string_equal(r[1].room, "bc");
	assert_string_equal(r[2].room, "def");
	pair_close(&p);
	return 0;
}

static void
test_receives_in_order(void **state)
{
	(void)state;
	msg_task_run(in_order, NULL);
}

#define BURST 100

static int
bursts(void *arg)
{
	struct leat_msg_req tx[BURST], rx[BURST], *txs[BURST], *rxs[BURST];
	uint32_t out[BURST], in[BURST];
	struct msg_task_pair p;
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	memset(tx, 0, sizeof(tx));
	memset(rx, 0, sizeof(rx));
	for (i = 0; i < BURST; i++) {
		out[i] = i;
		tx[i].buf = &out[i];
		rx[i].buf = &in[i];
		tx[i].size = rx[i].size = sizeof(out[i]);
		txs[i] = &tx[i];
		rxs[i] = &rx[i];
	}
	assert_int_equal(leat_msg_recv(p.s, rxs, BURST), BURST);
	assert_int_equal(leat_msg_task_send_burst(p.c, txs, BURST), 0);
	assert_int_equal(leat_msg_task_wait_any(p.s, rxs, BURST), 0);
	assert_int_equal(leat_msg_task_wait_all(p.s, rxs, BURST), 0);
	for (i = 0; i < BURST; i++) {
		assert_int_equal(in[i], i);
		assert_null(rx[i].user);
		assert_null(tx[i].user);
	}
	/*
	 * A cancelled wait returns all its requests, and the next message goes to the next receive.
	 */
	assert_int_equal(leat_msg_recv(p.s, rxs, 2), 2);
	assert_int_equal(leat_task_within(1000, leat_msg_task_wait_all(p.s, rxs, 2)), -ETIMEDOUT);
	assert_int_equal(rx[0].status, -ECANCELED);
	assert_int_equal(rx[1].status, -ECANCELED);
	/* A wait that times out before it began returns all its requests, too. */
	assert_int_equal(leat_msg_recv(p.s, rxs, 2), 2);
	assert_int_equal(leat_task_within(0, leat_msg_task_wait_all(p.s, rxs, 2)), -ETIMEDOUT);
	assert_int_equal(rx[0].state, 0);
	assert_int_equal(leat_msg_task_send_burst(p.c, txs + 7, 1), 0);
	assert_int_equal(leat_msg_task_recv(p.s, &in[0], sizeof(in[0])), 4);
	assert_int_equal(in[0], 7);
	pair_close(&p);
	return 0;
}

static void
test_bursts(void **state)
{
	(void)state;
	msg_task_run(bursts, NULL);
}

/* ---- cancel ---- */

static int
late(void *arg)
{
	struct msg_task_pair p;
	char a[16] = "untouched", b[16];
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	assert_int_equal(leat_task_within(1000, leat_msg_task_recv(p.c, a, sizeof(a))), -ETIMEDOUT);
	assert_non_null(strstr(leat_err_msg(), p.addr));
	assert_int_equal(leat_msg_task_send(p.s, "later", 6), 0);
	assert_int_equal(leat_msg_task_recv(p.c, b, sizeof(b)), 6);
	assert_string_equal(a, "untouched");
	assert_string_equal(b, "later");
	/* Receives time out at any moment. Nevertheless each message is received once, in order. */
	for (i = 0; i < 2000; i++) {
		unsigned int got = UINT_MAX, us = i % 40;
		int ret;

		assert_int_equal(leat_msg_task_send(p.s, &i, sizeof(i)), 0);
		do
			ret = leat_task_within(us++, leat_msg_task_recv(p.c, &got, sizeof(got)));
		while (ret == -ETIMEDOUT && leat_task_yield() == 0);
		assert_int_equal(ret, sizeof(got));
		assert_int_equal(got, i);
	}
	pair_close(&p);
	return 0;
}

static void
test_cancelled_receive(void **state)
{
	(void)state;
	msg_task_run(late, NULL);
}

static int
stalled(void *arg)
{
	const struct leat_msg_net_conf conf = { .credits = 2 };
	static char out[3000];
	struct msg_task_pair p;
	unsigned int n = 0, got = 0;
	int ret;

	(void)arg;
	pair_open(&p, &conf);
	pair_connect(&p);
	/* The other side receives nothing, so in the end a send waits for credit, and times out. */
	do
		ret = leat_task_within(2000, leat_msg_task_send(p.c, &n, sizeof(n)));
	while (ret == 0 && ++n < 1000);
	assert_int_equal(ret, -ETIMEDOUT);
	/* The message that timed out was not sent; those before it were. */
	while (got < n) {
		unsigned int id;

		assert_int_equal(leat_msg_task_recv(p.s, &id, sizeof(id)), sizeof(id));
		assert_int_equal(id, got);
		got++;
	}
	assert_int_equal(leat_task_within(2000, leat_msg_task_recv(p.s, out, sizeof(out))),
			 -ETIMEDOUT);
	pair_close(&p);
	return 0;
}

static void
test_cancelled_send(void **state)
{
	(void)state;
	msg_task_run(stalled, NULL);
}

/* ---- connections ---- */

/* Wait until a net has n connections open, including those that no task has accepted. */
static void
until_conns(struct leat_msg_net *net, unsigned int n)
{
	struct leat_msg_stats stats;

	do {
		assert_int_equal(leat_task_yield(), 0);
		leat_msg_stats_get(leat_msg_net_msg(net), &stats);
	} while (stats.conns != n);
}

static int
dials(void *arg)
{
	const struct leat_msg_net_conf conf = { .max_conns = 2, .backlog = 1 };
	struct leat_msg_conn *c, *more;
	struct msg_task_pair p;

	(void)arg;
	pair_open(&p, &conf);
	assert_int_equal(leat_msg_task_dial(p.client, "nonsense", 0, &c), -EINVAL);
	assert_null(c);
	/* One connection waits for accept; the next is rejected. */
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &p.c), 0);
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &c), -ECONNREFUSED);
	assert_non_null(strstr(leat_err_msg(), p.addr));
	assert_non_null(strstr(leat_err_msg(), "1 connections wait to be accepted"));
	assert_null(c);
	assert_int_equal(leat_msg_task_accept(p.server, &p.s), 0);
	while (leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &c) == -ENOSPC)
		assert_int_equal(leat_task_yield(), 0);
	assert_non_null(c);
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &more), -ENOSPC);
	assert_null(more);
	/* A connection that its client closes before it is accepted is not given to accept. */
	assert_int_equal(leat_msg_task_close(c, TIMEOUT_US), 0);
	until_conns(p.server, 1);
	assert_int_equal(leat_task_within(3000, leat_msg_task_accept(p.server, &more)), -ETIMEDOUT);
	assert_null(more);
	/* An attempt to connect that is cancelled frees its slot. */
	leat_msg_task_unlisten(p.server);
	assert_int_equal(leat_task_within(0, leat_msg_task_dial(p.client, p.addr, 0, &c)),
			 -ETIMEDOUT);
	assert_null(c);
	pair_close(&p);
	return 0;
}

static void
test_dial(void **state)
{
	(void)state;
	msg_task_run(dials, NULL);
}

static int
late_dials(void *arg)
{
	struct msg_task_pair p;
	struct leat_msg_conn *c = NULL;
	unsigned int i, came = 0;

	(void)arg;
	pair_open(&p, NULL);
	/*
	 * Dials time out at any moment. A dial that succeeds gives a connection, and one that fails
	 * leaves none behind.
	 */
	for (i = 0; i < 300; i++) {
		int ret = leat_task_within(i, leat_msg_task_dial(p.client, p.addr, 0, &c));

		if (ret == -ENOSPC) {
			assert_int_equal(leat_task_yield(), 0);
			continue;
		}
		assert_true(ret == 0 || ret == -ETIMEDOUT || ret == -ECONNREFUSED);
		assert_int_equal(ret == 0, c != NULL);
		if (ret == 0) {
			ret = leat_msg_task_close(c, 0);
			/*
			 * The close has no time to wait for the library's own messages in flight.
			 */
			assert_true(ret == 0 || ret == -ETIMEDOUT);
			came++;
		}
	}
	assert_true(came > 0);
	pair_connect(&p);
	pair_close(&p);
	return 0;
}

static void
test_cancelled_dial(void **state)
{
	(void)state;
	msg_task_run(late_dials, NULL);
}

struct acceptor {
	struct leat_msg_net *net;
	struct leat_msg_conn *c;
	int ret;
};

static int
accept_one(void *arg)
{
	struct acceptor *a = arg;

	a->ret = leat_msg_task_accept(a->net, &a->c);
	return 0;
}

static int
listeners(void *arg)
{
	struct acceptor a[2];
	struct msg_task_pair p;
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	leat_scope_init(&s);
	for (i = 0; i < 2; i++) {
		a[i].net = p.server;
		a[i].c = NULL;
		leat_scope_branch(&s, "accept", accept_one, &a[i], NULL);
	}
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &p.c), 0);
	while (a[0].c == NULL)
		assert_int_equal(leat_task_yield(), 0);
	leat_msg_task_unlisten(p.server);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(a[0].ret, 0);
	assert_int_equal(a[1].ret, -ESHUTDOWN);
	assert_null(a[1].c);
	p.s = a[0].c;
	assert_int_equal(leat_msg_task_accept(p.server, &a[1].c), -ESHUTDOWN);
	/* After the unlisten, accepted connections go on, and new requests are rejected. */
	assert_int_equal(leat_msg_task_send(p.c, "x", 1), 0);
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &a[1].c), -ECONNREFUSED);
	assert_non_null(strstr(leat_err_msg(), "does not listen"));
	/* When p.server listens again, a dial succeeds. */
	assert_int_equal(leat_msg_task_listen(p.server, "127.0.0.1:0"), 0);
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &a[1].c), 0);
	pair_close(&p);
	return 0;
}

static void
test_listen(void **state)
{
	(void)state;
	msg_task_run(listeners, NULL);
}

/* After the other side closes, its messages are received; then each call returns the reason. */
static int
other_side_closes(void *arg)
{
	struct leat_msg_stats stats;
	struct msg_task_pair p;
	char buf[8];

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	assert_int_equal(leat_msg_task_send(p.s, "1", 1), 0);
	assert_int_equal(leat_msg_task_send(p.s, "22", 2), 0);
	assert_int_equal(leat_msg_task_close(p.s, TIMEOUT_US), 0);
	p.s = NULL;
	assert_int_equal(leat_msg_task_recv(p.c, buf, sizeof(buf)), 1);
	assert_int_equal(leat_msg_task_recv(p.c, buf, sizeof(buf)), 2);
	assert_int_equal(leat_msg_task_recv(p.c, buf, sizeof(buf)), -ENOTCONN);
	assert_non_null(strstr(leat_err_msg(), p.addr));
	assert_non_null(strstr(leat_err_msg(), "closed by"));
	assert_int_equal(leat_msg_task_send(p.c, buf, 1), -ENOTCONN);
	assert_non_null(strstr(leat_err_msg(), "closed by"));
	assert_int_equal(leat_msg_task_close(p.c, TIMEOUT_US), 0);
	p.c = NULL;
	/*
	 * If the client closes a connection before it is accepted, but after a message arrived,
	 * accept and receive still succeed.
	 */
	assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &p.c), 0);
	assert_int_equal(leat_msg_task_send(p.c, "333", 3), 0);
	do {
		assert_int_equal(leat_task_yield(), 0);
		leat_msg_stats_get(leat_msg_net_msg(p.server), &stats);
	} while (stats.held == 0);
	assert_int_equal(leat_msg_task_close(p.c, TIMEOUT_US), 0);
	p.c = NULL;
	assert_int_equal(leat_msg_task_accept(p.server, &p.s), 0);
	assert_int_equal(leat_msg_task_recv(p.s, buf, sizeof(buf)), 3);
	assert_int_equal(leat_msg_task_recv(p.s, buf, sizeof(buf)), -ENOTCONN);
	pair_close(&p);
	return 0;
}

static void
test_other_side_closes(void **state)
{
	(void)state;
	msg_task_run(other_side_closes, NULL);
}

/* The net is closed while two tasks wait for a message: both get -ESHUTDOWN. */
static int
closed_here(void *arg)
{
	struct receiver r[2] = { { 0 } };
	struct msg_task_pair p;
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	pair_open(&p, NULL);
	pair_connect(&p);
	leat_scope_init(&s);
	for (i = 0; i < 2; i++) {
		r[i] = (struct receiver){ .c = p.c, .buf = r[i].room, .size = 8 };
		leat_scope_branch(&s, "receive", receive, &r[i], NULL);
	}
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_msg_net_close(p.client, TIMEOUT_US), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(r[0].ret, -ESHUTDOWN);
	assert_int_equal(r[1].ret, -ESHUTDOWN);
	/* The server's net can be closed while its connection is still open. */
	assert_int_equal(leat_msg_net_close(p.server, TIMEOUT_US), 0);
	return 0;
}

static void
test_closed_here(void **state)
{
	(void)state;
	msg_task_run(closed_here, NULL);
}

/* ---- many ---- */

static unsigned int nb_many = 500;

static int
serve_many(void *arg)
{
	struct leat_msg_conn *c;
	uint32_t i;
	int ret;

	while ((ret = leat_msg_task_accept(arg, &c)) == 0) {
		assert_int_equal(leat_msg_task_recv(c, &i, sizeof(i)), sizeof(i));
		i++;
		assert_int_equal(leat_msg_task_send(c, &i, sizeof(i)), 0);
		/* The client closes. */
		assert_int_equal(leat_msg_task_recv(c, &i, sizeof(i)), -ENOTCONN);
		assert_int_equal(leat_msg_task_close(c, TIMEOUT_US), 0);
	}
	return ret;
}

static int
many(void *arg)
{
	struct leat_msg_stats stats;
	struct leat_task *server;
	struct msg_task_pair p;
	uint32_t i, answer;
	int ret;

	(void)arg;
	pair_open(&p, NULL);
	server = leat_task_spawn(leat_tasks_self(), "server", serve_many, p.server);
	for (i = 0; i < nb_many; i++) {
		assert_int_equal(leat_msg_task_dial(p.client, p.addr, TIMEOUT_US, &p.c), 0);
		assert_int_equal(leat_msg_task_send(p.c, &i, sizeof(i)), 0);
		assert_int_equal(leat_msg_task_recv(p.c, &answer, sizeof(answer)), sizeof(answer));
		assert_int_equal(answer, i + 1);
		assert_int_equal(leat_msg_task_close(p.c, TIMEOUT_US), 0);
	}
	p.c = NULL;
	leat_msg_stats_get(leat_msg_net_msg(p.client), &stats);
	assert_int_equal(stats.conns, 0);
	assert_int_equal(stats.received, nb_many);
	leat_msg_task_unlisten(p.server);
	assert_int_equal(leat_task_join(server, &ret), 0);
	assert_int_equal(ret, -ESHUTDOWN);
	pair_close(&p);
	return 0;
}

static void
test_many(void **state)
{
	(void)state;
	msg_task_run(many, NULL);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_blocking),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_receives_in_order),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_cancelled_receive),
		cmocka_unit_test(test_cancelled_send),
		cmocka_unit_test(test_dial),
		cmocka_unit_test(test_cancelled_dial),
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_other_side_closes),
		cmocka_unit_test(test_closed_here),
		cmocka_unit_test(test_many),
	};

	if (argc > 1)
		nb_many = (unsigned int)strtoul(argv[1], NULL, 10);
	return msg_task_groups("waiting forms", tests, RTE_DIM(tests));
}
