/* SPDX-License-Identifier: BSD-3-Clause */

/* Tasks that wait for ops, over the mock driver: the test decides when each op completes. */

#include <leat_fabric.h>
#include <leat_task_op.h>

#include "mock_driver.h"
#include "task_pvt.h"
#include "task_test.h"

#define OPS 40

struct op_test {
	struct task_test t;
	struct leat_ep *ep;
	struct leat_op op[OPS];
	struct leat_op *ops[OPS];
	uint16_t n;
	int ret[OPS];
	bool done;
};

static void
begin(struct op_test *o, uint16_t n, uint16_t depth)
{
	struct leat_ep_conf conf = { .name = "the-ep",
				     .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV),
				     .tx_depth = OPS,
				     .rx_depth = depth,
				     .max_peers = 2 };
	uint16_t i;

	memset(o, 0, sizeof(*o));
	task_test_begin(&o->t, NULL);
	o->ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(o->ep);
	assert_non_null(leat_tasks_ep_add(o->t.ts, o->ep, NULL, NULL));
	o->n = n;
	for (i = 0; i < OPS; i++) {
		o->op[i].type = LEAT_OP_RECV;
		o->op[i].peer = LEAT_PEER_ANY;
		o->op[i].queue = LEAT_QUEUE_NONE;
		o->ops[i] = &o->op[i];
	}
	mock.can_cancel = true;
}

static void
end(struct op_test *o)
{
	uint16_t i;

	for (i = 0; i < OPS; i++) {
		assert_null(o->op[i].user);
		assert_int_equal(o->op[i].state, LEAT_OP_IDLE);
	}
	assert_int_equal(leat_tasks_destroy(o->t.ts), 0);
	assert_int_equal(leat_reactor_destroy(o->t.r), 0);
	assert_int_equal(leat_ep_close(o->ep, 0, NULL, NULL), 0);
}

static int
wait_one(void *arg)
{
	struct op_test *o = arg;
	int ret;

	assert_int_equal(leat_ep_post(o->ep, o->ops, 1), 1);
	ret = leat_task_op_wait(o->ep, o->ops[0]);
	assert_int_equal(o->op[0].state, LEAT_OP_IDLE);
	return ret;
}

static void
test_wait(void **state)
{
	struct leat_task_info info;
	struct leat_task *task;
	struct op_test o;

	(void)state;
	begin(&o, 1, OPS);
	task = task_test_spawn(&o.t, "one", wait_one, &o);
	test_turns(o.t.r, 10);
	leat_task_info_get(task, &info);
	assert_int_equal(info.state, LEAT_TASK_WAITING);
	assert_string_equal(info.waits, "op recv of the-ep, 1 of 1 to come");
	mock_finish(o.ep, 0, -EIO, 0);
	assert_int_equal(task_test_join(&o.t, task), -EIO);
	/* The same, with an op that succeeds. */
	task = task_test_spawn(&o.t, "one", wait_one, &o);
	test_turns(o.t.r, 1);
	mock_finish(o.ep, 0, 0, 5);
	assert_int_equal(task_test_join(&o.t, task), 0);
	end(&o);
}

static int
wait_later(void *arg)
{
	struct op_test *o = arg;

	assert_int_equal(leat_ep_post(o->ep, o->ops, o->n), o->n);
	while (o->op[0].state != LEAT_OP_IDLE)
		assert_int_equal(leat_task_yield(), 0);
	return leat_task_op_wait_all(o->ep, o->ops, o->n);
}

static int
wait_all(void *arg)
{
	struct op_test *o = arg;

	assert_int_equal(leat_ep_post(o->ep, o->ops, o->n), o->n);
	return leat_task_op_wait_all(o->ep, o->ops, o->n);
}

/* leat_task_op_wait_all() returns when the last op has completed, after any number of turns. */
static void
test_wait_all(void **state)
{
	struct leat_task *task;
	struct op_test o;
	unsigned int i;

	(void)state;
	begin(&o, OPS, OPS);
	task = task_test_spawn(&o.t, "all", wait_all, &o);
	test_turns(o.t.r, 1);
	for (i = OPS; i-- > 0;) {
		assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
		mock_finish(o.ep, i, i == 7 ? -EMSGSIZE : i == 9 ? -EIO : 0, 0);
		test_turns(o.t.r, 2);
	}
	/* The result is the first failure, in the order of the array. */
	assert_int_equal(task_test_join(&o.t, task), -EMSGSIZE);

	/* An op has completed before the wait begins. */
	o.n = 3;
	task = task_test_spawn(&o.t, "later", wait_later, &o);
	test_turns(o.t.r, 1);
	mock_finish(o.ep, 0, 0, 0);
	test_turns(o.t.r, 3);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	assert_int_equal(task_test_join(&o.t, task), 0);
	end(&o);
}

static int
wait_any(void *arg)
{
	struct op_test *o = arg;
	uint16_t left = o->n;
	int i;

	assert_int_equal(leat_task_op_wait_any(o->ep, o->ops, 0), -EINVAL);
	assert_int_equal(leat_ep_post(o->ep, o->ops, o->n), o->n);
	while (left > 0) {
		i = leat_task_op_wait_any(o->ep, o->ops, left);
		assert_in_range(i, 0, left - 1);
		o->ret[o->n - left] = (int)(o->ops[i] - o->op);
		o->ops[i] = o->ops[--left];
	}
	return 0;
}

static void
test_wait_any(void **state)
{
	static const unsigned int which[] = { 3, 0, 1, 0 };
	static const int order[] = { 3, 0, 2, 1 };
	struct leat_task *task;
	struct op_test o;
	unsigned int i;

	(void)state;
	begin(&o, 4, OPS);
	task = task_test_spawn(&o.t, "any", wait_any, &o);
	test_turns(o.t.r, 1);
	for (i = 0; i < 4; i++) {
		assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
		mock_finish(o.ep, which[i], 0, 0);
		test_turns(o.t.r, 2);
		assert_int_equal(o.ret[i], order[i]);
	}
	assert_int_equal(task_test_join(&o.t, task), 0);
	end(&o);
	/* Two ops complete in one turn: the second leat_task_op_wait_any() returns at once. */
	begin(&o, 2, OPS);
	task = task_test_spawn(&o.t, "any", wait_any, &o);
	test_turns(o.t.r, 1);
	mock_finish(o.ep, 1, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	test_turns(o.t.r, 2);
	assert_int_equal(leat_task_state(task), LEAT_TASK_DONE);
	assert_int_equal(task_test_join(&o.t, task), 0);
	end(&o);
}

/* When a task is cancelled, its ops are cancelled, and its wait ends when they have completed. */
static void
test_cancel(void **state)
{
	struct leat_task *task;
	struct op_test o;

	(void)state;
	begin(&o, 3, OPS);
	task = task_test_spawn(&o.t, "all", wait_all, &o);
	test_turns(o.t.r, 1);
	assert_int_equal(task_cancel(task), 0);
	assert_int_equal(task_test_join(&o.t, task), -ECANCELED);

	/* The device can't cancel ops: the wait ends when the ops complete by themselves. */
	mock.can_cancel = false;
	task = task_test_spawn(&o.t, "all", wait_all, &o);
	test_turns(o.t.r, 1);
	assert_int_equal(task_cancel(task), 0);
	test_turns(o.t.r, 10);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	test_turns(o.t.r, 10);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	mock_finish(o.ep, 0, 0, 0);
	assert_int_equal(task_test_join(&o.t, task), 0);

	/* The posted ops of a task that is cancelled before it waits are cancelled at once. */
	mock.can_cancel = true;
	task = task_test_spawn(&o.t, "all", wait_all, &o);
	assert_int_equal(task_cancel(task), 0);
	assert_int_equal(task_test_join(&o.t, task), -ECANCELED);
	end(&o);
}

static int
run_some(void *arg)
{
	struct op_test *o = arg;

	return leat_task_op_run(o->ep, o->ops, o->n);
}

/* leat_task_op_run() posts nothing if the task is already cancelled. */
static void
test_run(void **state)
{
	struct leat_task *task;
	struct op_test o;

	(void)state;
	begin(&o, 3, OPS);
	task = task_test_spawn(&o.t, "run", run_some, &o);
	assert_int_equal(task_cancel(task), 0);
	assert_int_equal(task_test_join(&o.t, task), -ECANCELED);
	assert_int_equal(mock.nb_ops, 0);
	assert_int_equal(o.op[2].status, -ECANCELED);

	end(&o);

	/* There is no room for all ops at once. */
	begin(&o, 3, 2);
	task = task_test_spawn(&o.t, "run", run_some, &o);
	test_turns(o.t.r, 10);
	assert_int_equal(mock.nb_ops, 2);
	mock_finish(o.ep, 0, 0, 0);
	test_turns(o.t.r, 10);
	assert_int_equal(mock.nb_ops, 2);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	assert_int_equal(task_test_join(&o.t, task), 0);
	/* The task is cancelled while it waits for room: it still waits for the posted ops. */
	task = task_test_spawn(&o.t, "run", run_some, &o);
	test_turns(o.t.r, 10);
	mock.can_cancel = false;
	assert_int_equal(task_cancel(task), 0);
	test_turns(o.t.r, 10);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	assert_int_equal(task_test_join(&o.t, task), -ECANCELED);
	assert_int_equal(o.op[2].status, -ECANCELED);
	end(&o);
}

static int
late(void *arg)
{
	struct op_test *o = arg;

	assert_int_equal(leat_ep_post(o->ep, o->ops, o->n), o->n);
	leat_task_deadline_set(test_clock + 100 * US);
	assert_int_equal(leat_task_op_wait_all(o->ep, o->ops, o->n), -ETIMEDOUT);
	assert_int_equal(o->op[0].status, -ECANCELED);
	assert_int_equal(leat_task_op_run(o->ep, o->ops, o->n), -ETIMEDOUT);
	/*
	 * leat_ep_post() ignores the task's deadline, which has passed: the wait still returns one
	 * of these ops.
	 */
	assert_int_equal(leat_ep_post(o->ep, o->ops, o->n), o->n);
	return leat_task_op_wait_any(o->ep, o->ops, o->n);
}

static void
test_deadline(void **state)
{
	struct leat_task *task;
	struct op_test o;

	(void)state;
	begin(&o, 3, OPS);
	task = task_test_spawn(&o.t, "late", late, &o);
	assert_int_equal(task_test_join(&o.t, task), 0);
	test_turns(o.t.r, 3);
	end(&o);
}

/* Only one task may wait for an op. */
static int
wait_too(void *arg)
{
	struct op_test *o = arg;

	return leat_task_op_wait(o->ep, o->ops[1]);
}

static void
test_two(void **state)
{
	struct leat_task *a, *b;
	struct op_test o;

	(void)state;
	begin(&o, 2, OPS);
	assert_int_equal(leat_ep_post(o.ep, o.ops, 2), 2);
	assert_int_equal(leat_task_op_wait(o.ep, o.ops[0]), -EPERM);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	test_turns(o.t.r, 2);
	a = task_test_spawn(&o.t, "all", wait_all, &o);
	b = task_test_spawn(&o.t, "too", wait_too, &o);
	assert_int_equal(task_test_join(&o.t, b), -EBUSY);
	mock_finish(o.ep, 0, 0, 0);
	mock_finish(o.ep, 0, 0, 0);
	assert_int_equal(task_test_join(&o.t, a), 0);
	end(&o);
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_wait), CASE(test_wait_all), CASE(test_wait_any), CASE(test_cancel),
		CASE(test_run),	 CASE(test_deadline), CASE(test_two),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
