/* SPDX-License-Identifier: BSD-3-Clause */

/* Promise 7: close drains with a deadline, and names the ops that are still in flight. */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

static void
idle(void)
{
	struct leat_event ev;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	CT_EQ(ct_shutdown(&p.a, 1000000), 0, "shutdown");
	CT_EQ(ct_shutdown(&p.a, 1000000), -EALREADY, "second shutdown");
	ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
	CT_EQ(ev.status, 0, "status of SHUTDOWN");
	CT_EQ(ct_destroy(&p.a), 0, "destroy");
	/* b gets DISCONNECTED, with status 0. */
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	CT_EQ(ev.status, 0, "status of DISCONNECTED there");
	ct_finish(&p.b);
}

/* An endpoint that never connected and never listened can be ended. */
static void
unused(void)
{
	struct leat_event ev;
	struct ct_side a = ct_near(0);

	ct_open(&a, NULL);
	CT_EQ(ct_shutdown(&a, 0), 0, "shutdown");
	ct_event(&a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
	CT_EQ(ct_destroy(&a), 0, "destroy");
	ct_open(&a, NULL);
	CT_EQ(ct_close(&a, 0), 0, "close");
}

/* After shutdown no new op or connection can be started. */
static void
nothing_new(void)
{
	struct leat_op op = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY }, *list[1] = { &op };
	struct ct_node *n;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	n = ct_node(&p.a);
	CT_EQ(ct_shutdown(&p.a, 1000000), 0, "shutdown");
	rte_errno = 0;
	CT_EQ(leat_ep_post(n->ep, list, 1), 0, "accepted after shutdown");
	CT_EQ(rte_errno, ESHUTDOWN, "rte_errno");
	CT_EQ(ct_try_connect(&p.a, p.addr, NULL, 0, 0, 0), -ESHUTDOWN, "connect after shutdown");
	ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, NULL);
	CT_EQ(leat_ep_post(n->ep, list, 1), 0, "accepted after SHUTDOWN");
	CT_EQ(leat_ep_poll(n->ep, list, 1), 0, "poll after SHUTDOWN");
	CT_EQ(ct_destroy(&p.a), 0, "destroy");
	ct_finish(&p.b);
}

/* Shutdown: all receives in flight complete at once, in the order of posting. */
static void
receives_come_back(void)
{
	const uint32_t n = RTE_MIN(100u, ct.info.rx_depth);
	struct ct_spec r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .size = 1000 };
	uint64_t start;
	struct ct_result res;
	struct leat_event ev;
	struct ct_pair p;
	int rx;

	r.count = n;
	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.a, &r);
	ct_wait_posted(&p.a, rx, n);
	start = leat_now();
	/* The timeout is far longer than the receives may take to complete. */
	CT_EQ(ct_shutdown(&p.a, UINT64_C(15000000) * ct.slow), 0, "shutdown");
	ct_wait(&p.a, rx, n, &res);
	ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
	CT_CHECK(ct_in_time(ct_ms_since(start), 0), "receives took %" PRIu64 " ms to come back",
		 ct_ms_since(start));
	CT_EQ(res.ok, 0, "receives with success");
	CT_ONLY(&res, "receives of a closed endpoint", -ECANCELED, -ESHUTDOWN);
	CT_EQ(ev.status, 0, "status of SHUTDOWN");
	CT_EQ(ct_destroy(&p.a), 0, "destroy");
	ct_finish(&p.b);
}

/* Sends in flight complete if the other side posts receives for them in time. */
static void
sends_drain(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 10, .seed = 6, .check = CT_DATA };
	struct ct_result res;
	struct leat_event ev;
	struct ct_pair p;
	int tx, rx;

	s.size = RTE_MIN(MIB, ct.info.max_msg);
	ct_pair_open(&p, NULL, NULL);
	s.peer = p.pa;
	tx = ct_stream(&p.a, &s);
	ct_wait_posted(&p.a, tx, RTE_MIN(10u, ct.info.tx_depth));
	CT_EQ(ct_shutdown(&p.a, UINT64_C(10000000) * ct.slow), 0, "shutdown");
	s.type = LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &s);
	ct_result(&p.a, tx, &res);
	ct_wait_ok(&p.a, tx, res.posted);
	ct_wait_ok(&p.b, rx, res.posted);
	ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
	CT_EQ(ev.status, 0, "status of SHUTDOWN");
	CT_EQ(ct_destroy(&p.a), 0, "destroy");
	ct_finish(&p.b);
}

/* Sends without a receive: shutdown keeps its deadline; until then destroy fails and names them. */
static void
deadline_kept(void)
{
	const uint64_t timeout_ms = 200;
	struct ct_result res;
	struct leat_event ev;
	struct ct_pair p;
	uint64_t start;
	int tx;

	tx = ct_pair_big_sends(&p, 6, 0);
	ct_wait_posted(&p.a, tx, 1);
	ct_pump_us(10000);
	ct_result(&p.a, tx, &res);
	CT_CHECK(res.done < res.posted,
		 "%u messages of %" PRIu64 " MiB went to a side that does not move", res.done,
		 ct_big() >> 20);
	start = leat_now();
	CT_EQ(ct_shutdown(&p.a, timeout_ms * 1000), 0, "shutdown");
	CT_EQ(ct_destroy(&p.a), -EBUSY, "destroy with ops in flight");
	CT_CHECK(strstr(ct_err_text(), "send") != NULL || strstr(ct_err_text(), "flight") != NULL,
		 "destroy does not name what is in flight: \"%s\"", ct_err_text());
	ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
	CT_CHECK(ct_ms_since(start) + 1 >= timeout_ms, "gave up after %" PRIu64 " ms of %" PRIu64,
		 ct_ms_since(start), timeout_ms);
	CT_CHECK(ct_in_time(ct_ms_since(start), timeout_ms),
		 "took %" PRIu64 " ms instead of %" PRIu64, ct_ms_since(start), timeout_ms);
	CT_EQ(ev.status, -ETIMEDOUT, "status of SHUTDOWN");
	ct_wait(&p.a, tx, res.posted, &res);
	CT_ONLY(&res, "sends without a receive", -ESHUTDOWN);
	CT_EQ(ct_destroy(&p.a), 0, "destroy");
	ct_freeze(&p.b, false);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	ct_finish(&p.b);
}

/* leat_ep_close() blocks no longer than its timeout, and says whether all ops completed in time. */
static void
close_in_time(void)
{
	struct ct_pair p;
	uint64_t start;

	ct_wait_posted(&p.a, ct_pair_big_sends(&p, 6, 0), 1);
	ct_pump_us(10000);
	start = leat_now();
	CT_EQ(ct_close(&p.a, 100 * 1000), -ETIMEDOUT, "close with sends without a receive");
	CT_CHECK(ct_in_time(ct_ms_since(start), 100), "took %" PRIu64 " ms instead of 100",
		 ct_ms_since(start));
	ct_freeze(&p.b, false);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	ct_finish(&p.b);
}

/* The address of a side that was closed can be used again at once. */
static void
address_is_free_again(void)
{
	struct ct_side a = ct_near(0);
	char addr[LEAT_ADDR_MAX];
	unsigned int i;

	ct_open(&a, NULL);
	ct_listen(&a, addr);
	for (i = 0; i < 10; i++) {
		ct_finish(&a);
		ct_open(&a, NULL);
		CT_CHECK(leat_ep_listen(ct_node(&a)->ep, addr) == 0, "listen again at %s: %s", addr,
			 leat_err_msg());
	}
	ct_finish(&a);
}

/*
 * An endpoint can be closed while it connects, while a request waits for the endpoint's answer, and
 * while the endpoint accepts a request.
 */
static void
half_connected(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int i;

	for (i = 0; i < 12; i++) {
		ct_open(&a, NULL);
		ct_open(&b, NULL);
		ct_listen(&b, addr);
		ct_policy(&b, i % 2 == 0 ? CT_HOLD : CT_ACCEPT_ALL, NULL, 0);
		CT_CHECK(ct_try_connect(&a, addr, NULL, 0, 0, 0) >= 0, "connect");
		if (i % 2 == 0)
			ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		else
			ct_pump_us(i * 20);
		if (i % 4 < 2) {
			ct_finish(&a);
			ct_finish(&b);
		} else {
			ct_finish(&b);
			ct_finish(&a);
		}
	}
}

const struct ct_test ct_tests_stop[] = {
	{ .name = "stop.idle", .fn = idle },
	{ .name = "stop.unused", .fn = unused, .types = CT_ANY_TYPE },
	{ .name = "stop.nothing_new", .fn = nothing_new, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "stop.receives_come_back",
	  .fn = receives_come_back,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "stop.sends_drain", .fn = sends_drain, .ops = SR },
	{ .name = "stop.deadline_kept", .fn = deadline_kept, .ops = SR },
	{ .name = "stop.close_in_time", .fn = close_in_time, .ops = SR },
	{ .name = "stop.address_is_free_again", .fn = address_is_free_again, .types = CT_ANY_TYPE },
	{ .name = "stop.half_connected", .fn = half_connected, .types = CT_ANY_TYPE },
	{ .name = NULL },
};
