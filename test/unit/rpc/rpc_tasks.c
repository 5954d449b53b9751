/* SPDX-License-Identifier: BSD-3-Clause */

#include "rpc_tasks.h"

#include <errno.h>

struct leat_reactor *r;
struct leat_tasks *ts;
struct leat_rpc_session *sa[2], *sb[2];
unsigned int nb_accepted, nb_done;
bool forbids;
int closed_status;
static unsigned int nb_up;

static void
on_accept(void *arg, struct leat_rpc *rpc, const struct leat_event *ev)
{
	(void)arg;
	if (forbids)
		leat_rpc_refuse(rpc, ev, -EACCES);
	else
		sb[nb_accepted++ % RTE_DIM(sb)] = leat_rpc_accept(rpc, ev, NULL);
}

static void
on_event(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev)
{
	(void)arg;
	nb_up += ev->type == LEAT_RPC_UP;
	if (ev->type == LEAT_RPC_CLOSED && rpc == a.rpc)
		closed_status = ev->status;
	if (ev->type == LEAT_RPC_ENDED)
		(void)leat_rpc_close(ev->session, 0);
}

static void
on_done(void *arg, struct leat_rpc_req **reqs, uint16_t n)
{
	(void)arg;
	(void)reqs;
	nb_done += n;
}

int
tasks_setup(void **state)
{
	const struct leat_reactor_conf conf = { .name = "r",
						.idle.policy = LEAT_IDLE_SPIN,
						.events_us = 10 };
	const struct leat_rpc_reactor_conf on_a = { .event = on_event, .done = on_done };
	const struct leat_rpc_reactor_conf on_b = { .event = on_event, .accept = on_accept };

	(void)state;
	nb_up = nb_accepted = nb_done = 0;
	forbids = false;
	r = leat_reactor_create(&conf);
	assert_non_null(r);
	assert_int_equal(leat_rpc_reactor_add(r, a.rpc, &on_a), 0);
	assert_int_equal(leat_rpc_reactor_add(r, a.rpc, &on_a), -EALREADY);
	assert_int_equal(leat_rpc_reactor_add(r, b.rpc, &on_b), 0);
	ts = leat_tasks_create(r, NULL);
	assert_non_null(ts);
	sa[0] = leat_rpc_connect(a.rpc, addr, NULL);
	sa[1] = leat_rpc_connect(a.rpc, addr, NULL);
	turn_until(nb_up == 4);
	return 0;
}

int
tasks_teardown(void **state)
{
	(void)leat_rpc_close(sa[0], 0);
	(void)leat_rpc_close(sa[1], 0);
	while (b.nb_later > 0)
		leat_rpc_answer(b.later[--b.nb_later], 0);
	turn_until(stats_of(&a).sessions + stats_of(&b).sessions == 0);
	assert_int_equal(stats_of(&a).tx_packets + stats_of(&b).tx_packets, 0);
	assert_int_equal(leat_rpc_reactor_remove(a.rpc), 0);
	assert_int_equal(leat_rpc_reactor_remove(a.rpc), -ENOENT);
	assert_int_equal(leat_rpc_reactor_remove(b.rpc), 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	return pair_teardown(state);
}

int
run(leat_task_fn fn, void *arg)
{
	struct leat_task *task = leat_task_spawn(ts, "test", fn, arg);
	int ret;

	assert_non_null(task);
	turn_until(leat_task_state(task) == LEAT_TASK_DONE);
	assert_int_equal(leat_task_join(task, &ret), 0);
	return ret;
}
