/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A net is closed while other tasks are in its calls. Each call returns -ESHUTDOWN, and uses
 * nothing of the net after the net was freed, which AddressSanitizer checks.
 */

#include <leat_task_event.h>

#include "msg_net.h"
#include "msg_task.h"

struct caller {
	struct leat_msg_net *net;
	struct leat_msg_conn *c;
	int ret;
};

static int
in_accept(void *arg)
{
	struct caller *a = arg;

	a->ret = leat_msg_task_accept(a->net, &a->c);
	return 0;
}

static int
in_recv(void *arg)
{
	struct caller *r = arg;
	char in[8];

	r->ret = leat_msg_task_recv(r->c, in, sizeof(in));
	return 0;
}

/* ---- a net without connections, whose close has nothing to wait for ---- */

static int
listener(void *arg)
{
	struct caller a = { .ret = 1 };
	struct msg_task_pair p;
	struct leat_scope s;

	(void)arg;
	pair_open(&p, NULL);
	a.net = p.server;
	leat_scope_init(&s);
	leat_scope_branch(&s, "accept", in_accept, &a, NULL);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_msg_net_close(p.server, TIMEOUT_US), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(a.ret, -ESHUTDOWN);
	assert_null(a.c);
	assert_int_equal(leat_msg_net_close(p.client, TIMEOUT_US), 0);
	return 0;
}

static void
test_accept(void **state)
{
	(void)state;
	msg_task_run(listener, NULL);
}

/* ---- a net whose connection is closed, while a task that received has not run yet ---- */

/*
 * Make the waiting task ready in each turn, before the nets' pollers run. So it runs before the
 * tasks that these pollers make ready.
 */
static int
wake_first(void *arg, uint64_t now)
{
	(void)now;
	leat_task_event_set(arg);
	return 0;
}

static int
in_close(void *arg)
{
	const struct caller *c = arg;

	assert_int_equal(leat_msg_task_close(c->c, TIMEOUT_US), 0);
	return 0;
}

static int
receiver(void *arg)
{
	struct leat_task_event turn = { 0 };
	struct leat_poller *poller;
	struct caller r = { .ret = 1 };
	struct msg_task_pair p;
	struct leat_scope s;

	(void)arg;
	poller = leat_reactor_poller_add(task_run.r, "first", wake_first, &turn, 0);
	assert_non_null(poller);
	pair_open(&p, NULL);
	pair_connect(&p);
	r.c = p.c;
	leat_scope_init(&s);
	leat_scope_branch(&s, "recv", in_recv, &r, NULL);
	assert_int_equal(leat_task_yield(), 0);
	leat_scope_branch(&s, "close", in_close, &r, NULL);
	do {
		turn = (struct leat_task_event){ 0 };
		assert_int_equal(leat_task_event_wait(&turn), 0);
	} while (p.client->m->nb_open > 0);
	assert_int_equal(leat_msg_net_close(p.client, TIMEOUT_US), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(r.ret, -ESHUTDOWN);
	assert_int_equal(leat_poller_remove(poller), 0);
	assert_int_equal(leat_msg_net_close(p.server, TIMEOUT_US), 0);
	return 0;
}

static void
test_recv(void **state)
{
	(void)state;
	msg_task_run(receiver, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_recv),
	};

	return msg_task_groups("waiting forms, net closed", tests, RTE_DIM(tests));
}
