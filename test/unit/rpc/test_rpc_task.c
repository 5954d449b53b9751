/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls and batches of tasks, in one reactor that polls both sides. */

#include <errno.h>
#include <string.h>

#include <leat_scope.h>

#include "rpc_tasks.h"

static int
setup(void **state)
{
	(void)pair_setup(state);
	return tasks_setup(state);
}

/* ---- single calls ---- */

static int
calls(void *arg)
{
	static uint8_t big[300000], back[300000];
	char resp[16];
	int i;

	(void)arg;
	for (i = 0; i < 1000; i++)
		assert_int_equal(leat_rpc_call(sa[i % 2], ECHO, "hello", 5, resp, 16, 0), 5);
	assert_memory_equal(resp, "hello", 5);
	memset(big, 0x5a, sizeof(big));
	assert_int_equal(leat_rpc_call(sa[0], ECHO_LARGE, big, sizeof(big), back, sizeof(back), 0),
			 sizeof(big));
	assert_memory_equal(big, back, sizeof(big));
	assert_int_equal(leat_rpc_call(sa[0], NONE, NULL, 0, NULL, 0, 0), -ENOSYS);
	assert_int_equal(leat_rpc_call(sa[0], FAIL, NULL, 0, NULL, 0, 0), -EIO);
	return 7;
}

static void
test_call(void **state)
{
	struct leat_rpc_req *none = NULL;

	(void)state;
	assert_int_equal(run(calls, NULL), 7);
	assert_int_equal(leat_rpc_call(sa[0], ECHO, NULL, 0, NULL, 0, 0), -EPERM);
	assert_int_equal(leat_rpc_call_many(&none, 0), 0);
	assert_int_equal(stats_of(&a).posted, stats_of(&a).done);
}

/*
 * A time limit ends the wait. From then on the buffer is the task's, and no late answer is written
 * to it.
 */
static int
limited(void *arg)
{
	char resp[32];
	int i, ret;

	(void)arg;
	/*
	 * On a busy machine the time may be up before the request has reached its handler: try
	 * again.
	 */
	do {
		ret = leat_task_within(100, leat_rpc_call(sa[0], LATER, "x", 1, resp, 32, 0));
		assert_int_equal(ret, -ETIMEDOUT);
		for (i = 0; i < 1000 && b.nb_later == 0; i++)
			assert_int_equal(leat_task_yield(), 0);
	} while (b.nb_later == 0);
	memset(resp, 0x22, 32);
	memset(b.later[0]->resp, 0xdd, 32);
	b.later[0]->resp_len = 32;
	leat_rpc_answer(b.later[0], 0);
	b.nb_later = 0;
	while (stats_of(&a).late == 0)
		assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(resp[0], 0x22);
	/* The request's own deadline ends the wait, too. */
	ret = leat_rpc_call(sa[0], LATER, "x", 1, resp, 32, leat_now() + leat_us_to_cycles(200));
	assert_int_equal(ret, -ETIMEDOUT);
	return 0;
}

static void
test_limited(void **state)
{
	(void)state;
	assert_int_equal(run(limited, NULL), 0);
}

/*
 * This call races with that of fast(), whose answer comes first: this one is cancelled, and its
 * handler sees that.
 */
static int
slow(void *arg)
{
	(void)arg;
	return leat_rpc_call(sa[0], LATER, "slow", 4, NULL, 0, 0);
}

static int
fast(void *arg)
{
	char resp[16];

	(void)arg;
	leat_scope_break(leat_rpc_call(sa[1], ECHO, "fast", 4, resp, 16, 0));
}

static int
raced(void *arg)
{
	struct leat_scope scope;
	int ret[2];

	(void)arg;
	leat_scope_init(&scope);
	(void)leat_scope_branch(&scope, "slow", slow, NULL, &ret[0]);
	(void)leat_scope_branch(&scope, "fast", fast, NULL, &ret[1]);
	assert_int_equal(leat_scope_wait(&scope), 0);
	assert_int_equal(ret[0], -ECANCELED);
	assert_int_equal(ret[1], 4);
	while (b.nb_later == 0 || !b.later[0]->cancelled)
		assert_int_equal(leat_task_yield(), 0);
	return 0;
}

static void
test_raced(void **state)
{
	(void)state;
	assert_int_equal(run(raced, NULL), 0);
}

/* ---- many calls ---- */

static int
batches(void *arg)
{
	struct leat_rpc_batch *batch = leat_rpc_batch_create(0, 0);
	uint64_t sent = stats_of(&a).packets_sent;
	const uint64_t *resp;
	unsigned int i, round;
	int len;

	(void)arg;
	assert_non_null(batch);
	for (round = 0; round < 100; round++) {
		leat_rpc_batch_clear(batch);
		for (i = 0; i < LEAT_RPC_BATCH_DEFAULT; i++) {
			uint64_t *req = leat_rpc_batch_start(batch, sa[i % 2], ECHO, 32, 32);

			assert_non_null(req);
			req[0] = round * 1000 + i;
			leat_rpc_batch_freeze(batch, 8);
		}
		assert_null(leat_rpc_batch_start(batch, sa[0], ECHO, 8, 8));
		assert_int_equal(leat_rpc_batch_count(batch), LEAT_RPC_BATCH_DEFAULT);
		assert_int_equal(leat_rpc_batch_send(batch), 0);
		for (i = 0; i < LEAT_RPC_BATCH_DEFAULT; i++) {
			resp = leat_rpc_batch_response(batch, (uint16_t)i, &len);
			assert_int_equal(len, 8);
			assert_int_equal(*resp, round * 1000 + i);
		}
	}
	/* The requests of a batch to one session share a packet: 2 sessions, 100 rounds. */
	assert_int_equal(stats_of(&a).packets_sent - sent, 200);
	leat_rpc_batch_clear(batch);
	assert_non_null(leat_rpc_batch_start(batch, sa[0], ECHO, 8, 8));
	assert_non_null(leat_rpc_batch_start(batch, sa[0], FAIL, 8, 8));
	assert_int_equal(leat_rpc_batch_send(batch), -EIO);
	assert_null(leat_rpc_batch_response(batch, 1, &len));
	assert_int_equal(len, -EIO);
	assert_non_null(leat_rpc_batch_response(batch, 0, NULL));
	assert_null(leat_rpc_batch_response(batch, 2, &len));
	assert_null(leat_rpc_batch_start(batch, sa[0], ECHO, UINT32_MAX, UINT32_MAX));
	leat_rpc_batch_free(batch);
	return 0;
}

static void
test_batches(void **state)
{
	(void)state;
	assert_int_equal(run(batches, NULL), 0);
}

/* Eight calls at once, two of which get no answer: the time limit cancels these two. */
static int
many(void *arg)
{
	struct leat_rpc_req reqs[8], *list[8];
	unsigned int i;
	int ret;

	(void)arg;
	memset(reqs, 0, sizeof(reqs));
	for (i = 0; i < 8; i++) {
		reqs[i].session = sa[0];
		reqs[i].type = i < 6 ? ECHO : LATER;
		list[i] = &reqs[i];
	}
	ret = leat_task_within(500, leat_rpc_call_many(list, 8));
	assert_int_equal(ret, -ETIMEDOUT);
	for (i = 0; i < 8; i++) {
		assert_int_equal(reqs[i].state, 0);
		assert_int_equal(reqs[i].status, i < 6 ? 0 : -ECANCELED);
	}
	/* list[0] is in flight already: the call refuses to wait for it. */
	assert_int_equal(leat_rpc_post(list, 1), 1);
	assert_int_equal(leat_rpc_call_many(list, 2), -EINVAL);
	while (nb_done == 0)
		assert_int_equal(leat_task_yield(), 0);
	return 0;
}

static void
test_many(void **state)
{
	(void)state;
	assert_int_equal(run(many, NULL), 0);
}

/* ---- a handler that answers from a task, after a call of its own to its client ---- */

static int
answer(void *arg)
{
	struct leat_rpc_incoming *call = arg;
	int ret;

	ret = leat_rpc_call(call->session, ECHO, call->req, call->len, call->resp, call->room, 0);
	call->resp_len = ret < 0 ? 0 : (uint32_t)ret;
	leat_rpc_answer(call, ret < 0 ? ret : 0);
	return 0;
}

static int
nested(struct leat_rpc_incoming *call, void *arg)
{
	struct leat_rpc_incoming *ticket = leat_rpc_defer(call);

	(void)arg;
	if (ticket == NULL)
		return -EBUSY;
	if (leat_task_detach(leat_task_spawn(ts, "answer", answer, ticket)) < 0)
		leat_rpc_answer(ticket, -ENOMEM);
	return LEAT_RPC_DEFERRED;
}

#define NESTED 50

static int
ask_nested(void *arg)
{
	static uint8_t big[30000], back[30000];
	char resp[16];
	int i;

	(void)arg;
	for (i = 0; i < 200; i++)
		assert_int_equal(leat_rpc_call(sa[i % 2], NESTED, "nested", 6, resp, 16, 0), 6);
	assert_memory_equal(resp, "nested", 6);
	memset(big, 0x77, sizeof(big));
	assert_int_equal(leat_rpc_handler_set(b.rpc, NESTED, nested, NULL, sizeof(big)), 0);
	assert_int_equal(leat_rpc_handler_set(a.rpc, ECHO, NULL, NULL, 0), 0);
	assert_int_equal(leat_rpc_call(sa[0], NESTED, big, sizeof(big), back, sizeof(back), 0),
			 -ENOSYS);
	return 0;
}

static void
test_nested(void **state)
{
	(void)state;
	assert_int_equal(leat_rpc_handler_set(b.rpc, NESTED, nested, NULL, 64), 0);
	assert_int_equal(run(ask_nested, NULL), 0);
	assert_int_equal(stats_of(&b).tickets, 0);
}

/* ---- a session that connects again ---- */

static struct leat_rpc_session *lasting;

/* Calls in flight when the session goes down fail; the next call waits, within its time limit. */
static int
call_again(void *arg)
{
	char resp[16];
	int ret;

	(void)arg;
	ret = leat_rpc_call(lasting, LATER, "x", 1, resp, 16, 0);
	assert_int_equal(ret, -ENOTCONN);
	assert_int_equal(leat_rpc_session_small(lasting), 0);
	forbids = true;
	ret = leat_rpc_call(lasting, ECHO, "x", 1, resp, 16, leat_now() + leat_us_to_cycles(2000));
	assert_int_equal(ret, -ETIMEDOUT);
	ret = leat_task_within(2000, leat_rpc_call(lasting, ECHO, "x", 1, resp, 16, 0));
	assert_int_equal(ret, -ETIMEDOUT);
	forbids = false;
	return leat_rpc_call(lasting, ECHO, "again", 5, resp, 16, 0);
}

static void
test_again(void **state)
{
	const struct leat_rpc_session_conf conf = { .reconnect_min_us = 100,
						    .reconnect_max_us = 1000 };
	struct leat_task_info info;
	struct leat_task *task;
	int ret;

	(void)state;
	/* Without callbacks, the reactor itself closes sessions that have ended, and no others. */
	assert_int_equal(leat_rpc_reactor_remove(a.rpc), 0);
	assert_int_equal(leat_rpc_reactor_add(r, a.rpc, NULL), 0);
	lasting = leat_rpc_connect(a.rpc, addr, &conf);
	assert_non_null(lasting);
	turn_until(nb_accepted == 3 && leat_rpc_session_small(lasting) > 0);
	task = leat_task_spawn(ts, "again", call_again, NULL);
	assert_non_null(task);
	turn_until(b.nb_later == 1);
	leat_task_info_get(task, &info);
	assert_non_null(strstr(info.waits, "1 of 1 responses from peer"));
	assert_int_equal(leat_rpc_close(b.later[0]->session, 0), 0);
	turn_until(forbids);
	turn_until(leat_task_state(task) == LEAT_TASK_WAITING);
	leat_task_info_get(task, &info);
	if (strstr(info.waits, "1 of 1 responses, no connection") == NULL)
		fail_msg("waits for: %s", info.waits);
	turn_until(leat_task_state(task) == LEAT_TASK_DONE);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, 5);
	assert_int_equal(stats_of(&a).reconnects, 1);
	assert_int_equal(leat_rpc_close(lasting, 0), 0);
}

/* The stop of the reactor ends the session. */
static void
test_again_stop(void **state)
{
	const struct leat_rpc_session_conf conf = { .reconnect_min_us = 100 };
	struct leat_rpc_req req = { .type = LATER };
	int ret = 0;

	(void)state;
	forbids = true;
	assert_int_equal(leat_rpc_reactor_remove(a.rpc), 0);
	assert_int_equal(leat_rpc_reactor_add(r, a.rpc, NULL), 0);
	lasting = leat_rpc_connect(a.rpc, addr, &conf);
	assert_non_null(lasting);
	req.session = lasting;
	post1(&req);
	turn_until(stats_of(&a).retries == 3);
	leat_reactor_stop(r, 1000000);
	while (ret >= 0)
		ret = leat_reactor_turn(r);
	assert_int_equal(stats_of(&a).sessions, 0);
	assert_int_equal(req.status, -ECANCELED);
	assert_int_equal(req.refused, 1);
}

/* ---- endpoint and context opened in one call ---- */

static struct leat_rpc_session *opened;

static int
echo_back(struct leat_rpc_incoming *call, void *arg)
{
	(void)arg;
	memcpy(call->resp, call->req, call->len);
	call->resp_len = call->len;
	return 0;
}

static int
open_task(void *arg)
{
	const struct leat_rpc_conf conf = { .max_sessions = 2, .credits = 16 };
	const struct leat_rpc_conf bad = { .max_sessions = 2, .packet = 12 };
	const struct leat_rpc_reactor_conf on = { .event = NULL };
	char resp[16] = "";
	struct leat_rpc *rpc;
	int ret;

	(void)arg;
	assert_null(leat_rpc_open("nothing", NULL, NULL));
	assert_int_equal(rte_errno, ENODEV);
	assert_null(leat_rpc_open("fabric_ring0", &bad, NULL));
	assert_int_equal(rte_errno, EINVAL);
	rpc = leat_rpc_open("fabric_ring0", &conf, &on);
	assert_non_null(rpc);
	assert_int_equal(leat_rpc_handler_set(rpc, ECHO, echo_back, NULL, 0), 0);
	assert_int_equal(leat_ep_listen(leat_rpc_ep(rpc), "127.0.0.1:0"), 0);
	opened = leat_rpc_connect(rpc, addr, NULL);
	assert_non_null(opened);
	ret = leat_rpc_call(opened, ECHO, "open", 5, resp, 16, 0);
	assert_string_equal(resp, "open");
	return ret;
}

/* The context ends with the reactor, and its sessions with it. */
static void
test_open(void **state)
{
	int ret = 0;

	(void)state;
	assert_null(leat_rpc_open(NULL, NULL, NULL));
	assert_int_equal(rte_errno, EPERM);
	assert_int_equal(run(open_task, NULL), 5);
	leat_reactor_stop(r, 1000000);
	while (ret >= 0)
		ret = leat_reactor_turn(r);
	assert_int_equal(ret, -ESHUTDOWN);
}

static int
open_full(void *arg, uint64_t now)
{
	(void)now;
	assert_null(leat_rpc_open("fabric_ring0", NULL, NULL));
	*(int *)arg = rte_errno;
	return 0;
}

/* The error is that of the reactor, although endpoint and context are closed after it. */
static void
test_open_full(void **state)
{
	/* Room for the opener and the poller of the endpoint, but not for that of the context. */
	const struct leat_reactor_conf conf = { .name = "full", .max_pollers = 2 };
	struct leat_reactor *full = leat_reactor_create(&conf);
	int err = 0;

	(void)state;
	assert_non_null(leat_reactor_poller_add(full, "opener", open_full, &err, 0));
	assert_true(leat_reactor_turn(full) >= 0);
	assert_int_equal(err, ENOSPC);
	assert_non_null(strstr(leat_err_msg(), "all 2 pollers are taken"));
	assert_int_equal(leat_reactor_destroy(full), 0);
}

/*
 * A session is open when its reactor is destroyed, after a stop without time or without a stop:
 * leat_reactor_destroy() closes it, and destroys context and endpoint. pair_stop() fails if an
 * endpoint is left.
 */
static void
end_open_left(bool stop)
{
	struct leat_reactor *own = leat_reactor_create(NULL);
	struct leat_tasks *tasks = leat_tasks_create(own, NULL);
	struct leat_task *task;
	uint64_t begin;
	int ret;

	assert_non_null(tasks);
	task = leat_task_spawn(tasks, "open", open_task, NULL);
	assert_non_null(task);
	while (leat_task_state(task) != LEAT_TASK_DONE) {
		assert_true(leat_reactor_turn(own) >= 0);
		assert_true(leat_reactor_turn(r) >= 0);
	}
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, 5);
	if (stop) {
		leat_reactor_stop(own, 0);
		do
			ret = leat_reactor_turn(own);
		while (ret >= 0);
		assert_int_equal(ret, -ETIMEDOUT);
	}
	assert_int_equal(leat_tasks_destroy(tasks), 0);
	begin = leat_now();
	assert_int_equal(leat_reactor_destroy(own), 0);
	/* Less than the limit of 1 s, CLOSE_US of open.c: all sessions and receives have ended. */
	assert_in_range(leat_now() - begin, 0, leat_us_to_cycles(800000));
}

static void
test_open_left(void **state)
{
	(void)state;
	end_open_left(true);
}

static void
test_open_unstopped(void **state)
{
	(void)state;
	end_open_left(false);
}

/* The error of the reactor's stop names unanswered requests. */
static void
test_stop(void **state)
{
	struct leat_rpc_req req = { .session = sa[0], .type = LATER };
	int ret = 0;

	(void)state;
	post1(&req);
	turn_until(b.nb_later == 1);
	/*
	 * Sessions have until 1.05 s: seven eighths of the 1.2 s after which the endpoint is shut
	 * down, three quarters of the stop's time.
	 */
	leat_reactor_stop(r, 1600000);
	while (ret >= 0)
		ret = leat_reactor_turn(r);
	assert_non_null(strstr(leat_err_msg(), "1 requests deferred"));
	assert_int_equal(req.state, 0);
	assert_int_equal(req.status, -ECANCELED);
}

/* ---- stops, and an end outside of the reactor ---- */

static struct end outside;

static void
turn_stopping(void)
{
	turn_until(leat_reactor_state(r) == LEAT_REACTOR_STOPPING);
}

/*
 * Turn until the reactor has stopped, and drive the end outside meanwhile.
 * @return what the last turn returned
 */
static int
turn_out(void)
{
	int ret;

	do {
		ret = leat_reactor_turn(r);
		end_drive(&outside);
	} while (ret >= 0);
	return ret;
}

/* A context whose reactor stops refuses new sessions, and the stop goes on. */
static void
test_stop_refuses(void **state)
{
	struct leat_rpc_req req = { .session = sa[0], .type = LATER };
	int ret = 0;

	(void)state;
	end_open(&outside, PAIR_RING, NULL);
	post1(&req);
	turn_until(b.nb_later == 1);
	leat_reactor_stop(r, 10000000);
	turn_stopping();
	assert_non_null(leat_rpc_connect(outside.rpc, addr, NULL));
	while (ret >= 0 && outside.nb_ev[LEAT_RPC_ENDED] == 0) {
		ret = leat_reactor_turn(r);
		end_drive(&outside);
	}
	assert_int_equal(outside.nb_ev[LEAT_RPC_UP], 0);
	assert_int_equal(outside.ev.status, -ECONNREFUSED);
	assert_int_equal(nb_accepted, 2);
	assert_int_equal(leat_rpc_close(outside.ev.session, 0), 0);
	leat_rpc_answer(b.later[--b.nb_later], 0);
	assert_int_equal(turn_out(), -ESHUTDOWN);
	assert_int_equal(req.status, 0);
	end_close(&outside);
}

/* A further, shorter stop also shortens the close of a session, begun by the first stop. */
static void
test_stop_again(void **state)
{
	struct leat_rpc_req req = { .type = LATER };
	struct leat_rpc_session *s;

	(void)state;
	end_open(&outside, PAIR_RING, NULL);
	outside.closes = true;
	s = leat_rpc_connect(outside.rpc, addr, NULL);
	assert_non_null(s);
	while (outside.nb_ev[LEAT_RPC_UP] == 0 || nb_accepted < 3) {
		assert_true(leat_reactor_turn(r) >= 0);
		end_drive(&outside);
	}
	req.session = sb[(nb_accepted - 1) % RTE_DIM(sb)];
	req.deadline = LEAT_RPC_NO_DEADLINE;
	post1(&req);
	while (outside.nb_later == 0) {
		assert_true(leat_reactor_turn(r) >= 0);
		end_drive(&outside);
	}
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	turn_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 1);
	leat_reactor_stop(r, 1600000);
	assert_int_equal(turn_out(), -ESHUTDOWN);
	/* The close timed out, 0.15 s before the endpoint was shut down. */
	assert_int_equal(req.status, -ECANCELED);
	end_close(&outside);
}

/* A task that ends only when its session has ended. */
static int
stay(void *arg)
{
	(void)arg;
	while (leat_rpc_session_small(sa[0]) > 0)
		(void)leat_task_yield();
	return 0;
}

/* A further, shorter stop also shortens the time in which tasks may make calls. */
static void
test_stop_again_tasks(void **state)
{
	int ret = 0;

	(void)state;
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "stay", stay, NULL)), 0);
	closed_status = 1;
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	turn_stopping();
	leat_reactor_stop(r, 400000);
	while (ret >= 0)
		ret = leat_reactor_turn(r);
	assert_int_equal(ret, -ESHUTDOWN);
	/* The sessions were closed, before the endpoint was shut down. */
	assert_int_equal(closed_status, 0);
}

/*
 * The reactor is stopped in the middle of calls: all calls end cleanly, and the device returns all
 * ops.
 */
static int
caller(void *arg)
{
	unsigned int *calls = arg;
	struct leat_rpc_req reqs[8], *list[8];
	unsigned int i;

	memset(reqs, 0, sizeof(reqs));
	for (i = 0; i < 8; i++) {
		reqs[i].session = sa[i % 2];
		reqs[i].type = ECHO;
		list[i] = &reqs[i];
	}
	while (leat_rpc_call_many(list, 8) == 0)
		++*calls;
	assert_true(leat_task_cancelled());
	return 0;
}

static void
test_stop_in_order(void **state)
{
	unsigned int i, calls = 0;
	int ret = 0;

	(void)state;
	for (i = 0; i < 16; i++)
		assert_int_equal(leat_task_detach(leat_task_spawn(ts, "caller", caller, &calls)),
				 0);
	turn_until(calls > 100);
	leat_reactor_stop(r, 1000000);
	while (ret >= 0)
		ret = leat_reactor_turn(r);
	assert_int_equal(ret, -ESHUTDOWN);
	assert_int_equal(stats_of(&a).sessions + stats_of(&b).sessions, 0);
	assert_int_equal(stats_of(&a).posted, stats_of(&a).done);
}

#define on(test) cmocka_unit_test_setup_teardown(test, setup, tasks_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(test_call),		 on(test_limited),
		on(test_raced),		 on(test_batches),
		on(test_many),		 on(test_nested),
		on(test_stop),		 on(test_stop_in_order),
		on(test_open),		 on(test_again),
		on(test_again_stop),	 on(test_open_left),
		on(test_open_unstopped), on(test_stop_refuses),
		on(test_stop_again),	 on(test_stop_again_tasks),
		on(test_open_full),
	};

	return cmocka_run_group_tests_name("rpc-task", tests, pair_start, pair_stop);
}
