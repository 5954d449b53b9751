/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints, peers, events, regions and closing, over a driver that does what the test says, with a
 * mock clock.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "mock_driver.h"

#define ALL (LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

static volatile uint64_t clock_ns;

static struct leat_ep *
ep_new(void)
{
	struct leat_ep_conf conf = { .name = "ep", .ops = ALL, .max_peers = 4 };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);

	assert_non_null(ep);
	return ep;
}

static void
ep_end(struct leat_ep *ep)
{
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(mock_nb_eps, 0);
}

/* Read events: there must be exactly one, of this type and peer. @return the event */
static struct leat_event
event(struct leat_ep *ep, enum leat_event_type type, uint16_t peer)
{
	struct leat_event ev[4];

	assert_int_equal(leat_ep_events(ep, ev, 4), 1);
	assert_int_equal(ev[0].type, type);
	assert_int_equal(ev[0].peer, peer);
	return ev[0];
}

static uint16_t
peer_up(struct leat_ep *ep)
{
	int id = leat_ep_connect(ep, "there:1", NULL);

	assert_in_range(id, 0, 3);
	leat_peer_up(ep, &ep->peers[id], NULL, 0);
	event(ep, LEAT_EV_CONNECTED, (uint16_t)id);
	return (uint16_t)id;
}

static void
post1(struct leat_ep *ep, struct leat_op *op)
{
	assert_int_equal(leat_ep_post(ep, &op, 1), 1);
}

static struct leat_op *
poll1(struct leat_ep *ep)
{
	struct leat_op *op = NULL;

	return leat_ep_poll(ep, &op, 1) == 1 ? op : NULL;
}

static void
test_create_refuses(void **state)
{
	struct leat_dev *dev = leat_dev_get(0);
	/* Configurations that are refused, with their errno and words of the error message. */
	const struct {
		struct leat_ep_conf conf;
		int err;
		const char *word;
	} cases[] = {
		{ { .type = LEAT_EP_DATAGRAM }, EOPNOTSUPP, "datagram" },
		{ { .ops = LEAT_OP_BIT(LEAT_OP_CMP_SWAP) }, EOPNOTSUPP, "cmp_swap" },
		{ { .ops = 1u << 30 }, EINVAL, "unknown op" },
		{ { .tx_depth = 1025 }, EINVAL, "send depth 1025" },
		{ { .rx_depth = 1025 }, EINVAL, "receive depth 1025" },
		{ { .max_peers = 17 }, EINVAL, "peers 17" },
		{ { .nb_mempools = 1 }, EINVAL, "mempools" },
		{ { .mempool_access = 0x100 }, EINVAL, "access" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(cases); i++) {
		assert_null(leat_ep_create(dev, &cases[i].conf));
		assert_int_equal(rte_errno, cases[i].err);
		assert_non_null(strstr(leat_err_msg(), cases[i].word));
		assert_non_null(strstr(leat_err_msg(), "fabric_mock0"));
	}
	assert_null(leat_ep_create(NULL, NULL));
	assert_int_equal(mock_nb_eps, 0);
}

static void
test_connect_events(void **state)
{
	struct leat_conn_params params = { .priv = "hi", .priv_len = 2, .user = &mock };
	struct leat_ep *ep = ep_new();
	struct leat_event ev;
	int id = leat_ep_connect(ep, "there:1", &params);

	(void)state;
	assert_in_range(id, 0, 3);
	assert_int_equal(leat_ep_peer_state(ep, (uint16_t)id), LEAT_PEER_CONNECTING);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	leat_peer_up(ep, &ep->peers[id], "yes", 3);
	ev = event(ep, LEAT_EV_CONNECTED, (uint16_t)id);
	assert_ptr_equal(ev.user, &mock);
	assert_int_equal(ev.priv_len, 3);
	assert_memory_equal(ev.priv, "yes", 3);
	assert_non_null(strstr(ev.text, "there:1"));

	/*
	 * A disconnect by this side gives one DISCONNECTED event; a second disconnect is refused.
	 */
	assert_int_equal(leat_ep_disconnect(ep, (uint16_t)id), 0);
	ev = event(ep, LEAT_EV_DISCONNECTED, (uint16_t)id);
	assert_int_equal(ev.status, -ECONNABORTED);
	assert_int_equal(leat_ep_disconnect(ep, (uint16_t)id), -ENOTCONN);

	/* A failed attempt gives CONNECT_FAILED, and no other event. */
	id = leat_ep_connect(ep, "nowhere:1", NULL);
	leat_peer_failed(ep, &ep->peers[id], -ECONNREFUSED, "nobody there");
	ev = event(ep, LEAT_EV_CONNECT_FAILED, (uint16_t)id);
	assert_int_equal(ev.status, -ECONNREFUSED);
	assert_string_equal(ev.text, "nobody there");

	/* A connect that the driver refuses at once fails in the call, without an event. */
	mock.connect_ret = -EHOSTUNREACH;
	assert_int_equal(leat_ep_connect(ep, "bad", NULL), -EHOSTUNREACH);
	params.priv_len = LEAT_EP_PRIV_MAX + 1;
	assert_int_equal(leat_ep_connect(ep, "bad", &params), -EINVAL);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	ep_end(ep);
}

static void
test_requests(void **state)
{
	struct leat_ep *ep = ep_new();
	struct leat_event ev, evs[4];
	struct leat_peer *p;

	(void)state;
	p = leat_peer_request(ep, "a:1", "data", 4);
	ev = event(ep, LEAT_EV_CONNECT_REQ, p->id);
	assert_int_equal(ev.priv_len, 4);
	assert_memory_equal(ev.priv, "data", 4);
	assert_int_equal(leat_ep_accept(ep, p->id, NULL), 0);
	assert_int_equal(leat_ep_accept(ep, p->id, NULL), -ENOTCONN);
	leat_peer_up(ep, p, NULL, 0);
	leat_peer_closing(ep, p, -ECONNRESET, "died");
	leat_peer_closing(ep, p, -EIO, "later");
	leat_peer_down(ep, p);
	assert_int_equal(leat_ep_events(ep, evs, 4), 2);
	assert_int_equal(evs[0].type, LEAT_EV_CONNECTED);
	assert_int_equal(evs[1].type, LEAT_EV_DISCONNECTED);
	assert_int_equal(evs[1].status, -ECONNRESET);

	p = leat_peer_request(ep, "b:1", NULL, 0);
	event(ep, LEAT_EV_CONNECT_REQ, p->id);
	assert_int_equal(leat_ep_reject(ep, p->id), 0);
	assert_int_equal(mock.nb_reject, 1);
	assert_int_equal(leat_ep_reject(ep, p->id), -ENOTCONN);
	assert_int_equal(leat_ep_peer_state(ep, p->id), LEAT_PEER_FREE);

	/* A request that was withdrawn before it was seen: no event. */
	p = leat_peer_request(ep, "c:1", NULL, 0);
	leat_peer_closing(ep, p, -ECONNRESET, "went");
	leat_peer_down(ep, p);
	assert_int_equal(leat_ep_events(ep, evs, 4), 0);

	/* A request that was withdrawn after it was seen can't be accepted any more. */
	p = leat_peer_request(ep, "d:1", NULL, 0);
	event(ep, LEAT_EV_CONNECT_REQ, p->id);
	leat_peer_closing(ep, p, -ECONNRESET, "went");
	leat_peer_down(ep, p);
	assert_int_equal(leat_ep_accept(ep, p->id, NULL), -ENOTCONN);
	event(ep, LEAT_EV_DISCONNECTED, p->id);
	ep_end(ep);
}

static void
test_peer_table_is_bounded(void **state)
{
	struct leat_ep *ep = ep_new();
	struct leat_event ev[8];
	int i, id[4];

	(void)state;
	for (i = 0; i < 4; i++)
		id[i] = leat_ep_connect(ep, "there:1", NULL);
	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), -ENOSPC);
	assert_null(leat_peer_request(ep, "x:1", NULL, 0));
	for (i = 0; i < 4; i++)
		leat_peer_failed(ep, &ep->peers[id[i]], -ETIMEDOUT, "no");
	/*
	 * A peer id becomes free in the leat_ep_events() call after the one that returned the event
	 * of the peer's end, not before.
	 */
	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), -ENOSPC);
	assert_int_equal(leat_ep_events(ep, ev, 2), 2);
	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), -ENOSPC);
	assert_int_equal(leat_ep_events(ep, ev, 8), 2);
	assert_in_range(leat_ep_connect(ep, "there:1", NULL), 0, 3);
	assert_in_range(leat_ep_connect(ep, "there:1", NULL), 0, 3);
	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), -ENOSPC);
	ep_end(ep);
}

static void
test_bad_ops_come_back_in_order(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep);
	char buf[16];
	struct leat_op ok = { .type = LEAT_OP_SEND, .peer = peer, .buf = buf, .size = 8 };
	struct leat_op bad[] = {
		{ .type = 99, .peer = peer },
		{ .type = LEAT_OP_CMP_SWAP, .peer = peer, .buf = buf, .size = 8 },
		{ .type = LEAT_OP_SEND, .peer = 3, .buf = buf, .size = 8 },
		{ .type = LEAT_OP_SEND, .peer = 999, .buf = buf, .size = 8 },
		{ .type = LEAT_OP_SEND, .peer = LEAT_PEER_ANY, .buf = buf, .size = 8 },
		{ .type = LEAT_OP_SEND, .peer = peer, .buf = buf, .size = (1 << 20) + 1 },
		{ .type = LEAT_OP_SEND, .peer = peer, .buf = NULL, .size = 8 },
		{ .type = LEAT_OP_FETCH_ADD, .peer = peer, .buf = buf, .size = 4 },
		{ .type = LEAT_OP_FETCH_ADD, .peer = peer, .buf = buf, .size = 8, .raddr = 4 },
		{ .type = LEAT_OP_RECV, .peer = 3, .buf = buf, .size = 8 },
	};
	const int status[] = { -EINVAL,	  -EOPNOTSUPP, -ENOTCONN, -ENOTCONN, -ENOTCONN,
			       -EMSGSIZE, -EINVAL,     -EINVAL,	  -EINVAL,   -ENOTCONN };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		bad[i].queue = leat_ep_queue(ep, peer);
		post1(ep, &ok);
		post1(ep, &bad[i]);
		/* The invalid op waits for the valid one before it. */
		assert_null(poll1(ep));
		mock_finish(ep, 0, 0, 8);
		assert_ptr_equal(poll1(ep), &ok);
		assert_ptr_equal(poll1(ep), &bad[i]);
		assert_int_equal(bad[i].status, status[i]);
		assert_int_equal(leat_ep_inflight(ep), 0);
	}
	ep_end(ep);
}

static void
test_full_and_double_post(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep), i;
	struct leat_ep_stats stats;
	struct leat_op ops[10], *p[10];

	(void)state;
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < 10; i++) {
		ops[i].type = LEAT_OP_SEND;
		ops[i].peer = peer;
		p[i] = &ops[i];
	}
	assert_int_equal(leat_ep_post(ep, p, 0), 0);
	assert_int_equal(leat_ep_post(ep, p, 10), 8);
	assert_int_equal(rte_errno, EAGAIN);
	assert_int_equal(ops[8].state, LEAT_OP_IDLE);
	mock_finish(ep, 0, 0, 0);
	assert_ptr_equal(poll1(ep), &ops[0]);
	assert_int_equal(leat_ep_post(ep, &p[1], 1), 0);
	assert_int_equal(rte_errno, EALREADY);
	assert_int_equal(leat_ep_post(ep, &p[8], 2), 1);
	leat_ep_stats_get(ep, &stats);
	assert_int_equal(stats.posted, 9);
	assert_int_equal(stats.refused, 4);
	while (mock.nb_ops > 0)
		mock_finish(ep, mock.nb_ops - 1, 0, 0);
	for (i = 1; i < 9; i++)
		assert_ptr_equal(poll1(ep), &ops[i]);
	ep_end(ep);
}

static void
test_cancel(void **state)
{
	struct leat_ep *ep = ep_new();
	struct leat_op a = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };
	struct leat_op b = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };

	(void)state;
	assert_int_equal(leat_op_cancel(ep, &a), -ENOENT);
	post1(ep, &a);
	post1(ep, &b);
	assert_int_equal(leat_op_cancel(ep, &b), 0);
	assert_int_equal(leat_op_cancel(ep, &b), -ENOENT); /* done, held back until a is done */
	assert_null(poll1(ep));
	mock.can_cancel = false;
	assert_int_equal(leat_op_cancel(ep, &a), -EOPNOTSUPP);
	mock_finish(ep, 0, 0, 3);
	assert_ptr_equal(poll1(ep), &a);
	assert_ptr_equal(poll1(ep), &b);
	assert_int_equal(a.status, 0);
	assert_int_equal(a.len, 3);
	assert_int_equal(b.status, -ECANCELED);
	ep_end(ep);
}

static void
test_deadlines(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep);
	struct leat_op r = { .type = LEAT_OP_RECV,
			     .flags = LEAT_OP_F_DEADLINE,
			     .peer = LEAT_PEER_ANY };
	struct leat_op s = { .type = LEAT_OP_SEND, .flags = LEAT_OP_F_DEADLINE, .peer = peer };
	struct leat_event ev;

	(void)state;
	r.deadline = clock_ns + 1000000;
	post1(ep, &r);
	clock_ns += 999999;
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	assert_null(poll1(ep));
	clock_ns += 1000001;
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	assert_ptr_equal(poll1(ep), &r);
	assert_int_equal(r.status, -ETIMEDOUT);

	/* An op that is done in time leaves no deadline on the wheel. */
	r.deadline = clock_ns + 1000000;
	post1(ep, &r);
	mock_finish(ep, 0, 0, 1);
	assert_ptr_equal(poll1(ep), &r);
	assert_int_equal(r.status, 0);
	clock_ns += 10000000;
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);

	/* A send that can't be recalled ends its connection. */
	mock.can_cancel = false;
	s.deadline = clock_ns + 1000000;
	post1(ep, &s);
	clock_ns += 2000000;
	assert_int_equal(leat_ep_events(ep, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
	assert_int_equal(ev.status, -ETIMEDOUT);
	assert_non_null(strstr(ev.text, "send"));
	assert_ptr_equal(poll1(ep), &s);
	assert_int_equal(s.status, -ETIMEDOUT);
	ep_end(ep);
}

/*
 * After a long pause each call of leat_ep_events() still expires PER_CALL ops, though the wheel
 * must sort them first. See DEADLINES_PER_RUN in lib/fabric/cancel.c.
 */
static void
test_deadlines_after_silence(void **state)
{
	enum { OPS = 600, PER_CALL = 256 };
	static struct leat_op op[OPS];
	const struct leat_ep_conf conf = { .name = "ep", .max_peers = 4, .rx_depth = OPS };
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);
	unsigned int i, left;

	(void)state;
	assert_non_null(ep);
	memset(op, 0, sizeof(op));
	for (i = 0; i < OPS; i++) {
		op[i].type = LEAT_OP_RECV;
		op[i].flags = LEAT_OP_F_DEADLINE;
		op[i].peer = LEAT_PEER_ANY;
		/* 3 ms to 10 s, in scattered order */
		op[i].deadline = clock_ns + UINT64_C(3000000) +
				 (i * UINT64_C(7919) % OPS) * UINT64_C(16660000);
		post1(ep, &op[i]);
	}
	/* All deadlines but the last have expired: each call ends up to PER_CALL of the ops. */
	clock_ns += UINT64_C(3000000) + (OPS - 1) * UINT64_C(16660000) - 1;
	for (left = OPS - 1; left > 0; left -= RTE_MIN(left, PER_CALL)) {
		uint64_t expired = ep->stats.expired;

		assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
		assert_int_equal(ep->stats.expired - expired, RTE_MIN(left, PER_CALL));
	}
	assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
	assert_int_equal(ep->stats.expired, OPS - 1);
	clock_ns++;
	assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
	assert_int_equal(ep->stats.expired, OPS);
	for (i = 0; i < OPS; i++)
		assert_int_equal(poll1(ep)->status, -ETIMEDOUT);
	ep_end(ep);
}

static void
test_shutdown_drains(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep);
	struct leat_op r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };
	struct leat_op s = { .type = LEAT_OP_SEND, .peer = peer }, *p = &s;
	struct leat_event ev;

	(void)state;
	post1(ep, &r);
	post1(ep, &s);
	assert_int_equal(leat_ep_destroy(ep), -EBUSY);
	assert_int_equal(leat_ep_shutdown(ep, 1000), 0);
	assert_int_equal(leat_ep_shutdown(ep, 1000), -EALREADY);
	assert_int_equal(leat_ep_post(ep, &p, 1), 0);
	assert_int_equal(rte_errno, ESHUTDOWN);
	assert_int_equal(leat_ep_connect(ep, "there:1", NULL), -ESHUTDOWN);
	assert_null(leat_peer_request(ep, "x:1", NULL, 0));
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	assert_ptr_equal(poll1(ep), &r);
	assert_int_equal(r.status, -ECANCELED);
	assert_int_equal(leat_ep_destroy(ep), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), "1 to there:1 (peer"));
	mock_finish(ep, 0, 0, 0);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_SHUTDOWN);
	assert_int_equal(ev.status, 0);
	assert_int_equal(leat_ep_destroy(ep), -EBUSY); /* an op waits to be polled */
	assert_ptr_equal(poll1(ep), &s);
	assert_int_equal(mock.nb_abort, 0);
	assert_int_equal(leat_ep_destroy(ep), 0);
	assert_int_equal(mock_nb_eps, 0);
}

static void
test_shutdown_aborts(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep);
	struct leat_op s = { .type = LEAT_OP_SEND, .peer = peer };
	struct leat_event ev;

	(void)state;
	post1(ep, &s);
	mock.keep_on_abort = true;
	assert_int_equal(leat_ep_shutdown(ep, 1000), 0);
	clock_ns += 1000 * 1000;
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	assert_int_equal(mock.nb_abort, 1);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 0);
	assert_int_equal(mock.nb_abort, 1);
	mock_finish(ep, 0, -ESHUTDOWN, 0);
	assert_int_equal(leat_ep_events(ep, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_SHUTDOWN);
	assert_int_equal(ev.status, -ETIMEDOUT);
	assert_ptr_equal(poll1(ep), &s);
	assert_int_equal(leat_ep_destroy(ep), 0);
}

static void
count_op(struct leat_op *op, void *arg)
{
	assert_int_equal(op->status, -ESHUTDOWN);
	++*(int *)arg;
}

static void
test_close_hands_everything_back(void **state)
{
	struct leat_ep *ep = ep_new();
	uint16_t peer = peer_up(ep);
	struct leat_op ops[8];
	int i, n = 0;

	(void)state;
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < 8; i++) {
		ops[i].type = LEAT_OP_SEND;
		ops[i].peer = peer;
		post1(ep, &ops[i]);
	}
	assert_int_equal(leat_ep_close(ep, 0, count_op, &n), -ETIMEDOUT);
	assert_int_equal(n, 8);
	assert_int_equal(mock_nb_eps, 0);
}

/* While an endpoint closes, a call with an earlier deadline takes effect; a later one does not. */
static void
test_shutdown_sooner(void **state)
{
	struct leat_ep *ep = ep_new();
	struct leat_op s = { .type = LEAT_OP_SEND, .peer = peer_up(ep) };
	int n = 0;

	(void)state;
	post1(ep, &s);
	assert_int_equal(leat_ep_shutdown(ep, UINT64_MAX), 0);
	clock_ns += 1000 * 1000;
	assert_int_equal(leat_ep_shutdown(ep, 1000), -EALREADY);
	assert_int_equal(leat_ep_shutdown(ep, 2000), -EALREADY);
	clock_ns += 999 * 1000;
	assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
	assert_int_equal(mock.nb_abort, 0);
	clock_ns += 1 * 1000;
	assert_int_equal(leat_ep_events(ep, NULL, 0), 0);
	assert_int_equal(mock.nb_abort, 1);
	/* The abort has begun: the time of this call changes nothing. */
	assert_int_equal(leat_ep_close(ep, UINT64_MAX, count_op, &n), -ETIMEDOUT);
	assert_int_equal(n, 1);

	ep = ep_new();
	s = (struct leat_op){ .type = LEAT_OP_SEND, .peer = peer_up(ep) };
	post1(ep, &s);
	assert_int_equal(leat_ep_shutdown(ep, UINT64_MAX), 0);
	assert_int_equal(leat_ep_close(ep, 0, count_op, &n), -ETIMEDOUT);
	assert_int_equal(n, 2);
	assert_int_equal(mock_nb_eps, 0);
}

static void
test_regions(void **state)
{
	struct leat_ep *ep = ep_new();
	struct leat_rkey rkey;
	struct leat_mr *mr, *local;
	char memory[128], *mem = memory + 32;

	(void)state;
	assert_null(leat_mr_register(ep, NULL, 8, 0));
	assert_null(leat_mr_register(ep, mem, 0, 0));
	assert_null(leat_mr_register(ep, mem, SIZE_MAX, 0));
	assert_null(leat_mr_register(ep, mem, 8, 0x1000));
	assert_int_equal(rte_errno, EINVAL);

	mr = leat_mr_register(ep, mem, (size_t)64, LEAT_MR_REMOTE_READ);
	local = leat_mr_register(ep, mem, (size_t)64, LEAT_MR_LOCAL);
	assert_non_null(mr);
	assert_non_null(local);
	assert_int_equal(leat_mr_rkey(mr, mem + 8, 56, &rkey), 0);
	assert_int_equal(rkey.addr, (uintptr_t)mem + 8);
	assert_int_equal(rkey.len, 56);
	assert_int_equal(rkey.key, 0x100);
	assert_int_equal(leat_mr_rkey(mr, mem + 8, 57, &rkey), -ERANGE);
	assert_int_equal(leat_mr_rkey(mr, mem - 1, 1, &rkey), -ERANGE);
	assert_int_equal(leat_mr_rkey(mr, mem + 8, SIZE_MAX, &rkey), -ERANGE);
	assert_int_equal(leat_mr_rkey(local, mem, 8, &rkey), -EACCES);

	mock.mr_fail_after = 2;
	assert_null(leat_mr_register(ep, mem, 8, 0));
	assert_int_equal(rte_errno, ENOMEM);
	mock.mr_busy = 1;
	assert_int_equal(leat_mr_deregister(local), -EBUSY);
	assert_int_equal(leat_mr_deregister(local), 0);
	assert_int_equal(mock.nb_mrs, 1);
	ep_end(ep); /* mr is released with the endpoint */
	assert_int_equal(mock.nb_mrs, 0);
}

static void
test_listen(void **state)
{
	struct leat_ep *ep = ep_new();
	char addr[LEAT_ADDR_MAX], longest[LEAT_ADDR_MAX + 1];

	(void)state;
	memset(longest, 'x', LEAT_ADDR_MAX);
	longest[LEAT_ADDR_MAX] = '\0';
	assert_int_equal(leat_ep_listen_addr(ep, addr, sizeof(addr)), -ENOENT);
	assert_int_equal(leat_ep_listen(ep, longest), -EINVAL);
	mock.listen_ret = -EADDRINUSE;
	assert_int_equal(leat_ep_listen(ep, ":1"), -EADDRINUSE);
	mock.listen_ret = 0;
	assert_int_equal(leat_ep_listen(ep, ":1"), 0);
	assert_int_equal(leat_ep_listen(ep, ":2"), -EALREADY);
	assert_int_equal(leat_ep_listen_addr(ep, addr, sizeof(addr)), 0);
	assert_int_equal(leat_ep_listen_addr(ep, addr, 3), -ENOSPC);
	ep_end(ep);
}

static int
setup(void **state)
{
	static char prog[] = "test_ep", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char dev[] = "--vdev=fabric_mock0";
	char *argv[] = { prog, nopci, l, zero, dev, NULL };

	(void)state;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	clock_ns = 1000000000;
	leat_clock_mock_set(&clock_ns);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_refuses),
		cmocka_unit_test(test_connect_events),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_peer_table_is_bounded),
		cmocka_unit_test(test_bad_ops_come_back_in_order),
		cmocka_unit_test(test_full_and_double_post),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_deadlines_after_silence),
		cmocka_unit_test(test_shutdown_drains),
		cmocka_unit_test(test_shutdown_aborts),
		cmocka_unit_test(test_close_hands_everything_back),
		cmocka_unit_test(test_shutdown_sooner),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_listen),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
