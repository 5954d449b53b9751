/* SPDX-License-Identifier: BSD-3-Clause */

/* Events of sessions, passed to the application by a reactor. */

#include <string.h>

#include "rpc_tasks.h"

static int
setup(void **state)
{
	(void)pair_setup(state);
	return tasks_setup(state);
}

static struct {
	struct leat_rpc_session *closed[2];
	struct leat_rpc_session *again; /* opened when the first session is closed */
	unsigned int nb_ended, nb_closed;
} two;

static void
on_event_again(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev)
{
	(void)arg;
	two.nb_ended += ev->type == LEAT_RPC_ENDED;
	if (ev->type != LEAT_RPC_CLOSED)
		return;
	if (two.nb_closed < RTE_DIM(two.closed))
		two.closed[two.nb_closed] = ev->session;
	if (two.nb_closed++ == 0)
		two.again = leat_rpc_connect(rpc, addr, NULL);
}

/*
 * Two sessions are closed in one turn. A callback that connects in the first of these events does
 * not get the object of the session that the second event is about.
 */
static void
test_connect_before_closed(void **state)
{
	const struct leat_rpc_reactor_conf conf = { .event = on_event_again };

	(void)state;
	memset(&two, 0, sizeof(two));
	assert_int_equal(leat_rpc_reactor_remove(a.rpc), 0);
	assert_int_equal(leat_rpc_reactor_add(r, a.rpc, &conf), 0);
	assert_int_equal(leat_rpc_close(sb[0], 0), 0);
	assert_int_equal(leat_rpc_close(sb[1], 0), 0);
	turn_until(two.nb_ended == 2);
	assert_int_equal(leat_rpc_close(sa[0], 0), 0);
	assert_int_equal(leat_rpc_close(sa[1], 0), 0);
	turn_until(two.nb_closed == 2);
	assert_ptr_equal(two.closed[0], sa[0]);
	assert_ptr_equal(two.closed[1], sa[1]);
	assert_non_null(two.again);
	assert_ptr_not_equal(two.again, sa[1]);
	/* The teardown closes this session. */
	sa[0] = two.again;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_connect_before_closed, setup, tasks_teardown),
	};

	return cmocka_run_group_tests_name("rpc-events", tests, pair_start, pair_stop);
}
