/* SPDX-License-Identifier: BSD-3-Clause */

/* How sessions begin and end, and limits of their number. */

#include <errno.h>
#include <string.h>

#include "rpc_pair.h"

static void
close_all(struct leat_rpc_session *s)
{
	a.closes = b.closes = true;
	assert_int_equal(leat_rpc_close(s, 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
}

/* A request that is posted before the session is up is answered. */
static void
test_before_up(void **state)
{
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, NULL);
	char resp[8];

	(void)state;
	assert_non_null(s);
	assert_int_equal(leat_rpc_session_small(s), 0);
	assert_int_equal(call(s, ECHO, "early", 5, resp, 8), 5);
	assert_memory_equal(resp, "early", 5);
	close_all(s);
}

/* The acceptor's requests arrive before the connector has its LEAT_EV_CONNECTED. */
static void
test_acceptor_first(void **state)
{
	struct leat_rpc_req req = { .type = ECHO, .buf = "x", .len = 1 };
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, NULL);
	struct leat_op *ops[8];
	char resp[8];
	unsigned int i;

	(void)state;
	req.resp = resp;
	req.room = 8;
	while (b.accepted == NULL)
		end_drive(&b);
	req.session = b.accepted;
	post1(&req);
	for (i = 0; i < 1000; i++) {
		uint16_t n = leat_ep_poll(a.ep, ops, 8);

		assert_int_equal(leat_rpc_process(a.rpc, ops, n), 0);
		end_drive(&b);
	}
	drive_until(req.state == 0);
	assert_int_equal(req.status, 0);
	close_all(s);
}

static void
test_connect_fails(void **state)
{
	const struct leat_rpc_session_conf conf = { .timeout_us = 1000 };
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, "nowhere:1", &conf);
	struct leat_rpc_req req = { .session = s, .type = ECHO };

	(void)state;
	post1(&req);
	drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1 && req.state == 0);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_int_equal(req.status, -ECONNREFUSED);
	assert_int_equal(req.refused, 1);
	/* A request posted on a session that has ended is given back. */
	post1(&req);
	drive_until(req.state == 0);
	assert_int_equal(req.status, -ECONNREFUSED);
	assert_int_equal(leat_rpc_close(s, 0), 0);
	assert_int_equal(leat_rpc_post(&(struct leat_rpc_req *){ &req }, 1), 0);
	assert_int_equal(rte_errno, ESHUTDOWN);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1);
}

static void
test_close_while_connecting(void **state)
{
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, "nowhere:1", NULL);
	struct leat_rpc_req req = { .session = s, .type = ECHO };

	(void)state;
	post1(&req);
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && req.state == 0);
	assert_int_equal(req.status, -ECANCELED);
	assert_int_equal(a.nb_ev[LEAT_RPC_UP] + a.nb_ev[LEAT_RPC_ENDED], 0);
}

/*
 * Close a session of e, and leave all the rest to leat_rpc_poll() for a while. The context reads
 * the clock in one of 8 polls: phase is the number of polls before the close.
 */
static void
close_and_poll(struct end *e, struct leat_rpc_session *s, uint64_t timeout_us, unsigned int phase)
{
	const unsigned int closed = e->nb_ev[LEAT_RPC_CLOSED];
	struct leat_rpc_req *done[8];
	unsigned int i;

	for (i = 0; i < phase; i++)
		e->nb_back += leat_rpc_poll(e->rpc, done, 8);
	assert_int_equal(leat_rpc_close(s, timeout_us), 0);
	for (i = 0; i < 8; i++)
		e->nb_back += leat_rpc_poll(e->rpc, done, 8);
	e->ev.status = 1;
	drive_until(e->nb_ev[LEAT_RPC_CLOSED] == closed + 1);
}

/*
 * A close without time, of a session that has nothing left to do, is not reported as timed out,
 * even if leat_rpc_poll() finds that the time is up before any other call runs the session.
 */
static void
test_close_idle(void **state)
{
	unsigned int phase;

	(void)state;
	b.closes = true;
	for (phase = 0; phase < 8; phase++) {
		close_and_poll(&a, connected(), 0, phase);
		assert_int_equal(a.ev.status, 0);
		assert_string_equal(a.ev.text, "");
		drive_until(stats_of(&b).sessions == 0);
	}
}

/* The same for a session without requests that is not connected yet. */
static void
test_close_unconnected(void **state)
{
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, NULL);

	(void)state;
	assert_non_null(s);
	b.closes = true;
	close_and_poll(&a, s, 1000000, 0);
	assert_int_equal(a.ev.status, 0);
	assert_string_equal(a.ev.text, "");
	drive_until(stats_of(&b).sessions == 0);
}

/* An answer that waits to be sent is not dropped by a close without time. */
static void
test_close_answered(void **state)
{
	struct leat_rpc_session *s;
	struct leat_rpc_req req;
	unsigned int phase;

	(void)state;
	a.closes = true;
	for (phase = 0; phase < 8; phase++) {
		s = connected();
		req = (struct leat_rpc_req){ .session = s, .type = LATER };
		post1(&req);
		drive_until(b.nb_later == 1);
		leat_rpc_answer(b.later[--b.nb_later], 0);
		close_and_poll(&b, b.accepted, 0, phase);
		assert_int_equal(b.ev.status, 0);
		drive_until(req.state == 0 && stats_of(&a).sessions == 0);
		assert_int_equal(req.status, 0);
	}
}

/* Close waits for requests in flight in both directions, and refuses new ones. */
static void
test_drain(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req = { .session = s, .type = LATER },
			    back = { .session = b.accepted, .type = LATER },
			    more = { .session = b.accepted, .type = ECHO };

	(void)state;
	post1(&req);
	post1(&back);
	drive_until(a.nb_later == 1 && b.nb_later == 1);
	assert_int_equal(leat_rpc_close(s, 10000000), 0);
	post1(&more);
	drive_until(more.state == 0);
	assert_int_equal(more.status, -ESHUTDOWN);
	assert_int_equal(more.refused, 1);
	leat_rpc_answer(b.later[0], 0);
	b.nb_later = 0;
	drive_until(req.state == 0);
	assert_int_equal(req.status, 0);
	drive(100);
	assert_int_equal(a.nb_ev[LEAT_RPC_CLOSED], 0);
	leat_rpc_answer(a.later[0], 0);
	a.nb_later = 0;
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(a.ev.status, 0);
	assert_int_equal(b.ev.status, 0);
	assert_int_equal(back.status, 0);
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_RPC_CLOSED] == 1);
}

static void
test_drain_timeout(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req = { .session = s, .type = LATER };

	(void)state;
	post1(&req);
	drive_until(b.nb_later == 1);
	assert_int_equal(leat_rpc_close(s, 1000), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && req.state == 0);
	assert_int_equal(a.ev.status, -ETIMEDOUT);
	assert_int_equal(req.status, -ECANCELED);
	(void)leat_rpc_close(b.accepted, 0); /* b may have noticed the end already */
	drive_until(stats_of(&b).sessions == 0);
}

/* The peer's endpoint dies with requests in flight; all requests come back on both sides. */
static void
test_death(void **state)
{
	static struct leat_rpc_req reqs[100];
	struct leat_rpc_session *s = connected();
	unsigned int i;

	(void)state;
	memset(reqs, 0, sizeof(reqs));
	for (i = 0; i < 100; i++) {
		reqs[i].session = i % 2 == 0 ? s : b.accepted;
		reqs[i].type = i % 3 == 0 ? LATER : ECHO;
		post1(&reqs[i]);
	}
	drive(2);
	assert_int_equal(leat_ep_shutdown(b.ep, 0), 0);
	b.closes = true;
	while (stats_of(&b).sessions > 0)
		end_drive(&b);
	end_drive(&b);
	assert_int_equal(b.nb_back, 50);
	for (i = 0; i < b.nb_later; i++) {
		assert_null(b.later[i]->session);
		leat_rpc_answer(b.later[i], 0);
	}
	assert_int_equal(leat_rpc_destroy(b.rpc), 0);
	assert_int_equal(leat_ep_destroy(b.ep), 0);
	a.closes = true;
	while (stats_of(&a).sessions > 0 || a.nb_back < 50)
		end_drive(&a);
	assert_int_equal(stats_of(&a).tx_packets + stats_of(&a).large, 0);
	end_open(&b, PAIR_RING, NULL);
}

/* Drive a, but let leat_rpc_poll() return no requests. */
static void
a_turn(void)
{
	struct leat_op *ops[8];
	struct leat_event ev;
	uint16_t n = leat_ep_poll(a.ep, ops, 8);

	assert_int_equal(leat_rpc_process(a.rpc, ops, n), 0);
	assert_int_equal(leat_rpc_poll(a.rpc, NULL, 0), 0);
	while (leat_ep_events(a.ep, &ev, 1) == 1)
		assert_true(leat_rpc_handle_event(a.rpc, &ev));
	(void)leat_rpc_events(a.rpc, &a.ev, 1);
}

/* A context is not destroyed before leat_rpc_poll() has returned all requests. */
static void
test_destroy_early(void **state)
{
	static struct leat_rpc_req reqs[40];
	struct leat_rpc_req *done[RTE_DIM(reqs)];
	struct leat_rpc_session *s = connected();
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(reqs); i++) {
		reqs[i] = (struct leat_rpc_req){ .session = s, .type = LATER };
		post1(&reqs[i]);
	}
	drive(10);
	b.closes = true;
	assert_int_equal(leat_rpc_close(s, 0), 0);
	while (stats_of(&a).sessions + stats_of(&b).sessions > 0) {
		a_turn();
		end_drive(&b);
	}
	assert_int_equal(a.ev.type, LEAT_RPC_CLOSED);
	for (i = 0; i < 100; i++) {
		assert_int_equal(leat_rpc_destroy(a.rpc), -EBUSY);
		a_turn();
	}
	assert_non_null(strstr(leat_err_msg(), "leat_rpc_poll()"));
	assert_int_equal(leat_rpc_poll(a.rpc, done, RTE_DIM(done)), RTE_DIM(reqs));
	for (i = 0; i < RTE_DIM(reqs); i++) {
		assert_int_equal(reqs[i].state, 0);
		assert_int_equal(reqs[i].status, -ECANCELED);
	}
	assert_int_equal(leat_rpc_destroy(a.rpc), 0);
	assert_int_equal(leat_ep_close(a.ep, 1000000, NULL, NULL), 0);
	end_open(&a, PAIR_RING, NULL);
}

/*
 * A fourth session is refused, and the text gives the limit, 3. After a session was closed on both
 * sides, there is room for another.
 */
static void
test_limit(void **state)
{
	struct leat_rpc_session *s[3], *one_more;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		s[i] = connected();
	assert_null(leat_rpc_connect(a.rpc, addr, NULL));
	assert_int_equal(rte_errno, ENOSPC);
	assert_non_null(strstr(leat_err_msg(), "3 sessions"));
	assert_int_equal(leat_rpc_close(s[0], 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1);
	/* b has not closed its side yet, so it refuses one more session. */
	one_more = leat_rpc_connect(a.rpc, addr, NULL);
	assert_non_null(one_more);
	drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_non_null(strstr(a.ev.text, "has 3 sessions"));
	assert_int_equal(b.nb_refused, 1);
	assert_int_equal(leat_rpc_close(one_more, 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 2);
	b.closes = true;
	assert_int_equal(leat_rpc_close(b.ev.session, 0), 0);
	drive_until(stats_of(&b).sessions == 2);
	s[0] = connected();
	for (i = 0; i < 3; i++)
		assert_int_equal(leat_rpc_close(s[i], 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
}

static int
setup_limit(void **state)
{
	pair_conf.max_sessions = 3;
	return pair_setup(state);
}

/*
 * Impossible configurations are refused at the start, for example more credits in all than
 * receives.
 */
static void
test_conf(void **state)
{
	const struct leat_ep_conf tags = { .ops = LEAT_OP_BIT(LEAT_OP_READ) };
	struct leat_rpc_conf conf = { .max_sessions = 7, .credits = 1000 };
	struct leat_ep *ep;

	(void)state;
	assert_null(leat_rpc_create(a.ep, &conf));
	assert_int_equal(rte_errno, EINVAL);
	conf = (struct leat_rpc_conf){ .max_sessions = 9 };
	assert_null(leat_rpc_create(a.ep, &conf));
	conf = (struct leat_rpc_conf){ .packet = 100 };
	assert_null(leat_rpc_create(a.ep, &conf));
	conf = (struct leat_rpc_conf){ .packet = 1001 };
	assert_null(leat_rpc_create(a.ep, &conf));
	conf = (struct leat_rpc_conf){ .slots = LEAT_RPC_SLOTS_MAX + 1 };
	assert_null(leat_rpc_create(a.ep, &conf));
	conf = (struct leat_rpc_conf){ .max_msg = UINT32_MAX };
	assert_null(leat_rpc_create(a.ep, &conf));
	assert_int_equal(leat_rpc_handler_set(a.rpc, 1, NULL, NULL, (8u << 20) + 1), -EINVAL);
	assert_int_equal(leat_rpc_destroy(NULL), 0);
	assert_string_equal(leat_rpc_violation_name(0), "?");
	assert_string_equal(leat_rpc_violation_name(LEAT_RPC_VIOLATIONS), "?");
	ep = leat_ep_create(leat_dev_by_name(PAIR_RING), &tags);
	assert_non_null(ep);
	assert_null(leat_rpc_create(ep, NULL));
	assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_int_equal(leat_ep_close(ep, 1000, NULL, NULL), 0);
}

/* The application sees the private data of a request, and refuses it with its own reason. */
static void
test_priv(void **state)
{
	const struct leat_rpc_session_conf conf = { .priv = "hello", .priv_len = 5 };
	const struct leat_rpc_session_conf bad = { .priv = "x", .priv_len = 250 };
	struct leat_rpc_session *s;
	struct leat_event ev;
	const void *priv;
	uint16_t len = 0;

	(void)state;
	assert_null(leat_rpc_connect(a.rpc, addr, &bad));
	s = leat_rpc_connect(a.rpc, addr, &conf);
	assert_non_null(s);
	while (leat_ep_events(b.ep, &ev, 1) == 0)
		end_drive(&a);
	priv = leat_rpc_priv(&ev, &len);
	assert_int_equal(len, 5);
	assert_memory_equal(priv, "hello", 5);
	leat_rpc_refuse(b.rpc, &ev, -EACCES);
	drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_non_null(strstr(a.ev.text, strerror(EACCES)));
	close_all(s);
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test, test, setup, pair_teardown, NULL                                            \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(pair_setup, test_before_up),
		on(pair_setup, test_acceptor_first),
		on(pair_setup, test_connect_fails),
		on(pair_setup, test_close_while_connecting),
		on(pair_setup, test_close_idle),
		on(pair_setup, test_close_unconnected),
		on(pair_setup, test_close_answered),
		on(pair_setup, test_drain),
		on(pair_setup, test_drain_timeout),
		on(pair_setup, test_death),
		on(pair_setup_fault, test_death),
		on(pair_setup, test_destroy_early),
		on(setup_limit, test_limit),
		on(pair_setup, test_conf),
		on(pair_setup, test_priv),
		on(pair_setup_dgram, test_before_up),
		on(pair_setup_dgram, test_acceptor_first),
		on(pair_setup_dgram, test_connect_fails),
		on(pair_setup_dgram, test_close_while_connecting),
		on(pair_setup_dgram, test_close_idle),
		on(pair_setup_dgram, test_close_unconnected),
		on(pair_setup_dgram, test_close_answered),
		on(pair_setup_dgram, test_drain),
		on(pair_setup_dgram, test_drain_timeout),
		on(pair_setup_dgram, test_priv),
		on(pair_setup_lossy, test_before_up),
		on(pair_setup_lossy, test_drain),
	};

	return cmocka_run_group_tests_name("rpc-sessions", tests, pair_start, pair_stop);
}
