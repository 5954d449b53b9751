/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls with which a task posts one op and waits for it (leat_task_send() and the like), over the
 * mock driver: their results, and how exactly they keep time limits.
 */

#include <leat_fabric.h>
#include <leat_task_op.h>

#include "mock_driver.h"
#include "task_pvt.h"
#include "task_test.h"

struct one_test {
	struct task_test t;
	struct leat_ep *ep;
	uint16_t peer;
	uint64_t timeout_us;
	uint64_t took; /* duration of the call, cycles */
	int64_t ret;
	uint16_t sender;
	char buf[16];
};

static void
begin(struct one_test *o, uint16_t depth)
{
	struct leat_ep_conf conf = { .name = "the-ep",
				     .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
					    LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_READ),
				     .tx_depth = depth,
				     .rx_depth = 4,
				     .max_peers = 2 };
	int peer;

	memset(o, 0, sizeof(*o));
	task_test_begin(&o->t, NULL);
	o->ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(o->ep);
	assert_non_null(leat_tasks_ep_add(o->t.ts, o->ep, NULL, NULL));
	peer = leat_ep_connect(o->ep, "mock:1", NULL);
	assert_true(peer >= 0);
	o->peer = (uint16_t)peer;
	leat_peer_up(o->ep, &o->ep->peers[peer], NULL, 0);
}

static void
end(struct one_test *o)
{
	assert_int_equal(mock.nb_ops, 0);
	assert_int_equal(leat_tasks_destroy(o->t.ts), 0);
	assert_int_equal(leat_reactor_destroy(o->t.r), 0);
	assert_int_equal(leat_ep_close(o->ep, 0, NULL, NULL), 0);
}

static int
send_one(void *arg)
{
	struct one_test *o = arg;
	uint64_t since = test_clock;

	o->ret = leat_task_send(o->ep, o->peer, o->buf, sizeof(o->buf), NULL, o->timeout_us);
	o->took = test_clock - since;
	/* The call has removed the deadline that it set. */
	assert_true(leat_task_deadline() == LEAT_TASK_NO_DEADLINE);
	return 0;
}

static int
recv_one(void *arg)
{
	struct one_test *o = arg;
	uint64_t since = test_clock;

	o->sender = 77;
	o->ret = leat_task_recv(o->ep, LEAT_PEER_ANY, o->buf, sizeof(o->buf), NULL, &o->sender,
				o->timeout_us);
	o->took = test_clock - since;
	return 0;
}

static int
write_one(void *arg)
{
	struct leat_rkey rkey = { .addr = 0x1000, .len = 100, .key = 7 };
	struct one_test *o = arg;
	unsigned int before = mock.nb_posted;

	assert_int_equal(leat_task_write(o->ep, o->peer, o->buf, 16, NULL, &rkey, 85, 100),
			 -ERANGE);
	assert_int_equal(leat_task_read(o->ep, o->peer, o->buf, 1, NULL, &rkey, 101, 100), -ERANGE);
	assert_int_equal(leat_task_read(o->ep, o->peer, o->buf, 2, NULL, &rkey, UINT64_MAX, 100),
			 -ERANGE);
	assert_int_equal(mock.nb_posted, before);
	o->ret = leat_task_write(o->ep, o->peer, o->buf, 16, NULL, &rkey, 84, o->timeout_us);
	return (int)leat_task_read(o->ep, o->peer, o->buf, 16, NULL, &rkey, 0, o->timeout_us);
}

static void
test_results(void **state)
{
	struct leat_task *task;
	struct one_test o;

	(void)state;
	begin(&o, 4);
	assert_int_equal(leat_task_send(o.ep, o.peer, o.buf, 1, NULL, 100), -EPERM);
	o.timeout_us = 1000;
	task = task_test_spawn(&o.t, "send", send_one, &o);
	test_turns(o.t.r, 1);
	assert_int_equal(mock.ops[0]->size, sizeof(o.buf));
	assert_ptr_equal(mock.ops[0]->queue, LEAT_QUEUE_NONE);
	mock_finish(o.ep, 0, -EIO, 0);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -EIO);

	o.timeout_us = LEAT_TASK_FOREVER;
	task = task_test_spawn(&o.t, "recv", recv_one, &o);
	test_turns(o.t.r, 1);
	mock.ops[0]->src = 1;
	mock_finish(o.ep, 0, 0, 11);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, 11);
	assert_int_equal(o.sender, 1);

	/* A receive that reports a peer's WRITE_IMM has no message: -EBADMSG. */
	task = task_test_spawn(&o.t, "recv", recv_one, &o);
	test_turns(o.t.r, 1);
	mock.ops[0]->oflags = LEAT_OP_F_WRITTEN;
	mock_finish(o.ep, 0, 0, 11);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -EBADMSG);

	task = task_test_spawn(&o.t, "write", write_one, &o);
	test_turns(o.t.r, 1);
	assert_int_equal(mock.ops[0]->type, LEAT_OP_WRITE);
	assert_int_equal(mock.ops[0]->raddr, 0x1000 + 84);
	assert_int_equal(mock.ops[0]->rkey, 7);
	mock_finish(o.ep, 0, 0, 16);
	test_turns(o.t.r, 2);
	assert_int_equal(o.ret, 0);
	assert_int_equal(mock.ops[0]->type, LEAT_OP_READ);
	assert_int_equal(mock.ops[0]->raddr, 0x1000);
	mock_finish(o.ep, 0, -EACCES, 0);
	assert_int_equal(task_test_join(&o.t, task), -EACCES);
	end(&o);
}

static void
test_limits(void **state)
{
	struct leat_task *task;
	struct one_test o;

	(void)state;
	begin(&o, 4);
	/* With a limit of 0, nothing is posted. */
	o.timeout_us = 0;
	task = task_test_spawn(&o.t, "send", send_one, &o);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -ETIMEDOUT);
	assert_int_equal(mock.nb_posted, 0);

	o.timeout_us = 100;
	task = task_test_spawn(&o.t, "recv", recv_one, &o);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -ETIMEDOUT);
	assert_int_equal(o.sender, 77);
	assert_in_range(o.took, 100 * US, 105 * US);
	assert_int_equal(mock.nb_disconnect, 0);

	task = task_test_spawn(&o.t, "recv", recv_one, &o);
	test_turns(o.t.r, 1);
	assert_int_equal(task_cancel(task), 0);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -ECANCELED);
	end(&o);
}

/* The time waiting for room counts: the limit does not begin again when the op is posted. */
static void
test_limit_with_wait_for_room(void **state)
{
	struct leat_task *first, *task;
	struct one_test o, f;
	unsigned int i;

	(void)state;
	begin(&o, 1);
	f = o;
	f.timeout_us = LEAT_TASK_FOREVER;
	o.timeout_us = 100;
	first = task_test_spawn(&o.t, "first", send_one, &f);
	task = task_test_spawn(&o.t, "send", send_one, &o);
	for (i = 0; i < 60; i++) {
		test_turns(o.t.r, 1);
		test_clock += US;
	}
	assert_int_equal(mock.nb_posted, 1);
	mock_finish(o.ep, 0, 0, 16);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(mock.nb_posted, 2);
	assert_int_equal(o.ret, -ETIMEDOUT);
	assert_in_range(o.took, 100 * US, 105 * US);
	assert_int_equal(task_test_join(&o.t, first), 0);
	assert_int_equal(f.ret, 0);

	/* The time limit passes before there is room: the op is never posted. */
	first = task_test_spawn(&o.t, "first", send_one, &f);
	task = task_test_spawn(&o.t, "send", send_one, &o);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(mock.nb_posted, 3);
	assert_int_equal(o.ret, -ETIMEDOUT);
	assert_in_range(o.took, 100 * US, 105 * US);
	mock_finish(o.ep, 0, 0, 16);
	assert_int_equal(task_test_join(&o.t, first), 0);
	end(&o);
}

static int
send_within(void *arg)
{
	struct one_test *o = arg;

	o->ret = leat_task_within(50, leat_task_send(o->ep, o->peer, o->buf, 1, NULL, 100000));
	return 0;
}

/*
 * The time limit of a call passes, and the device can't recall the op: the call ends the
 * connection, and thereby the op.
 */
static void
test_not_recalled(void **state)
{
	struct leat_task *task;
	struct one_test o;
	unsigned int i;

	(void)state;
	begin(&o, 4);
	mock.can_cancel = false;
	/* A time limit around the call, by leat_task_within(), ends no connection. */
	task = task_test_spawn(&o.t, "within", send_within, &o);
	for (i = 0; i < 5000; i++) {
		test_turns(o.t.r, 1);
		test_clock += US;
	}
	assert_int_equal(mock.nb_disconnect, 0);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	mock_finish(o.ep, 0, 0, 1);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, 0);

	o.timeout_us = 5000;
	task = task_test_spawn(&o.t, "send", send_one, &o);
	assert_int_equal(task_test_join(&o.t, task), 0);
	assert_int_equal(o.ret, -ETIMEDOUT);
	assert_int_equal(mock.nb_disconnect, 1);
	assert_int_equal(mock.disconnect_status, -ETIMEDOUT);
	/*
	 * The call ends at its limit of 5000 us or later, by at most the time between two reads of
	 * the endpoint's events.
	 */
	assert_in_range(o.took, 5000 * US, 7500 * US);
	end(&o);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_results),
		CASE(test_limits),
		CASE(test_limit_with_wait_for_room),
		CASE(test_not_recalled),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
