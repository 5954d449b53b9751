/* SPDX-License-Identifier: BSD-3-Clause */

/* A net on an endpoint of the mock driver, whose failures the test chooses. */

#include <errno.h>

#include <leat_msg_task.h>
#include <leat_reactor.h>
#include <leat_task.h>

#include "msg_mock.h"
#include "msg_net.h"

static struct leat_reactor *reactor;

static int
in_task(void *arg)
{
	int (*fn)(void) = *(int (**)(void))arg;
	int ret = fn();

	leat_reactor_stop(reactor, 1000000);
	return ret;
}

/* Run fn as a task of a new reactor; it must return 0. */
static void
run(int (*fn)(void))
{
	struct leat_tasks *ts;

	reactor = leat_reactor_create(NULL);
	assert_non_null(reactor);
	ts = leat_tasks_create(reactor, NULL);
	assert_non_null(ts);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "test", in_task, &fn)), 0);
	assert_int_equal(leat_reactor_run(reactor), 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(reactor), 0);
}

static int
close_twice(void)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL);
	static uint8_t memory[64];

	assert_non_null(net);
	net->m->mr = leat_mr_register(net->ep, memory, sizeof(memory), LEAT_MR_LOCAL);
	assert_non_null(net->m->mr);
	mock.mr_busy = 1;
	assert_int_equal(leat_msg_net_close(net, 0), -EBUSY);
	assert_int_equal(leat_msg_net_close(net, 0), 0);
	assert_int_equal(mock_nb_eps, 0);
	return 0;
}

/*
 * While the device uses the memory of a net, the net can't be closed. It is not freed, and the next
 * call closes it; AddressSanitizer checks that this call uses nothing that the first one has freed.
 */
static void
test_close_busy(void **state)
{
	(void)state;
	run(close_twice);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_busy),
	};

	return cmocka_run_group_tests_name("msg_net", tests, mm_start, mm_stop);
}
