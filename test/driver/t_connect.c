/* SPDX-License-Identifier: BSD-3-Clause */

/* Connecting: each outcome is reported by an event, in time; private data; all ways to fail. */

#include "ct.h"

/* A peer goes through the documented states, and its events contain its user pointer. */
static void
states(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	uint16_t pb;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_HOLD, NULL, 0);
	peer = ct_try_connect(&a, addr, NULL, 0, 0, 0x1234);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	CT_EQ(ct_peer_state(&a, (uint16_t)peer), LEAT_PEER_CONNECTING, "state after connect");
	ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
	pb = ev.peer;
	CT_EQ(ct_peer_state(&b, pb), LEAT_PEER_REQUESTED, "state when asked");
	CT_EQ(ct_accept(&b, pb, NULL, 0), 0, "accept");
	CT_EQ(ct_accept(&b, pb, NULL, 0), -ENOTCONN, "second accept");
	CT_EQ(ct_reject(&b, pb), -ENOTCONN, "reject after accept");
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	CT_CHECK(ev.user == (void *)0x1234, "user pointer %p", ev.user);
	CT_EQ(ev.status, 0, "status of CONNECTED");
	ct_event(&b, LEAT_EV_CONNECTED, pb, &ev);
	CT_EQ(ct_peer_state(&a, (uint16_t)peer), LEAT_PEER_UP, "state when connected");
	CT_EQ(ct_peer_state(&b, pb), LEAT_PEER_UP, "state when connected");
	CT_EQ(ct_disconnect(&a, (uint16_t)peer), 0, "disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, (uint16_t)peer, &ev);
	CT_EQ(ev.status, -ECONNABORTED, "status of DISCONNECTED here");
	CT_CHECK(ev.user == (void *)0x1234, "user pointer %p", ev.user);
	ct_event(&b, LEAT_EV_DISCONNECTED, pb, &ev);
	CT_EQ(ev.status, 0, "status of DISCONNECTED there");
	ct_wait_free(&a, (uint16_t)peer);
	ct_wait_free(&b, pb);
	CT_EQ(ct_disconnect(&a, (uint16_t)peer), -ENOTCONN, "disconnect of a free id");
	CT_EQ(ct_disconnect(&a, 60000), -ENOTCONN, "disconnect of id 60000");
	CT_EQ(ct_accept(&a, 60000, NULL, 0), -ENOTCONN, "accept of id 60000");
	CT_EQ(ct_peer_state(&a, 60000), LEAT_PEER_FREE, "state of id 60000");
	ct_finish(&a);
	ct_finish(&b);
}

/* Check private data. Some devices don't report their length, and append zeros. */
static void
priv_is(const struct leat_event *ev, const uint8_t *want, uint16_t len, const char *what)
{
	uint16_t i;

	if (ct.info.priv_padded)
		CT_CHECK(ev->priv_len >= len, "%s: %u B of data, expected %u", what, ev->priv_len,
			 len);
	else
		CT_EQ(ev->priv_len, len, what);
	CT_CHECK(memcmp(ev->priv, want, len) == 0, "%s: the data differ", what);
	for (i = len; i < ev->priv_len; i++)
		CT_EQ(ev->priv[i], 0, "byte behind the data");
}

static void
private_data(void)
{
	const uint16_t max = ct.info.priv_connect, max_back = ct.info.priv_accept;
	const uint16_t lens[] = { 0, 1, RTE_MIN(max, 100), max };
	const uint16_t backs[] = { max_back, RTE_MIN(max_back, 100), 1, 0 };
	uint8_t out[LEAT_EP_PRIV_MAX + 1], back[LEAT_EP_PRIV_MAX];
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int i;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	for (i = 0; i < RTE_DIM(lens); i++) {
		ct_fill(out, sizeof(out), 5 + i, 0);
		ct_fill(back, sizeof(back), 50 + i, 0);
		ct_policy(&b, CT_ACCEPT_ALL, back, backs[i]);
		peer = ct_try_connect(&a, addr, out, lens[i], 0, 0);
		CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
		ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
		priv_is(&ev, back, backs[i], "CONNECTED");
		ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		priv_is(&ev, out, lens[i], "CONNECT_REQ");
		ct_event(&b, LEAT_EV_CONNECTED, ev.peer, &ev);
	}
	CT_EQ(ct_try_connect(&a, addr, out, (uint16_t)(max + 1), 0, 0), -EINVAL,
	      "connect with too much data");
	ct_finish(&a);
	ct_finish(&b);
}

static void
rejected(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	uint64_t counts[8];
	unsigned int i;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_REJECT_ALL, NULL, 0);
	for (i = 0; i < 20; i++) {
		peer = ct_try_connect(&a, addr, NULL, 0, 0, 7);
		CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
		ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
		CT_EQ(ev.status, -ECONNREFUSED, "status of CONNECT_FAILED");
		CT_CHECK(ev.user == (void *)7, "user pointer %p", ev.user);
	}
	ct_counts(&b, counts);
	CT_EQ(counts[LEAT_EV_CONNECT_REQ], 20, "requests seen there");
	CT_EQ(counts[LEAT_EV_DISCONNECTED], 0, "events after a reject");
	ct_policy(&b, CT_ACCEPT_ALL, NULL, 0);
	peer = ct_try_connect(&a, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

/* Find an address at which no endpoint listens any more: listen there, then close. */
static void
free_address(char *addr)
{
	struct ct_side tmp = ct_near(7);

	ct_open(&tmp, NULL);
	ct_listen(&tmp, addr);
	ct_finish(&tmp);
}

/* The connect comes first; it succeeds once the other side listens. */
static void
connect_before_listen(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	const char *listen = ct.listen;
	char addr[LEAT_ADDR_MAX], got[LEAT_ADDR_MAX];
	struct leat_event ev;
	int peer;

	if (ct.far_listen != NULL)
		ct_skip("each side has an address of its own");
	free_address(addr);
	ct_open(&a, NULL);
	ct_open(&b, NULL);
	peer = ct_try_connect(&a, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_pump_us(50000);
	CT_EQ(ct_peer_state(&a, (uint16_t)peer), LEAT_PEER_CONNECTING, "state without a listener");
	ct.listen = addr;
	ct_listen(&b, got);
	ct.listen = listen;
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

static void
no_listener(void)
{
	struct ct_side a = ct_near(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	uint64_t start;
	int peer;

	free_address(addr);
	ct_open(&a, NULL);
	start = leat_now();
	peer = ct_try_connect(&a, addr, NULL, 0, 300 * 1000, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
	CT_CHECK(ev.status == -ETIMEDOUT || ev.status == -ECONNREFUSED, "status %d: %s", ev.status,
		 ev.text);
	CT_CHECK(ct_in_time(ct_ms_since(start), 300), "took %" PRIu64 " ms instead of 300",
		 ct_ms_since(start));
	CT_CHECK(strstr(ev.text, strrchr(addr, ':') + 1) != NULL,
		 "the text does not tell where: \"%s\"", ev.text);
	ct_wait_free(&a, (uint16_t)peer);
	ct_finish(&a);
}

/* A connect to a side that listens but never answers ends with -ETIMEDOUT when its time is up. */
static void
no_answer(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int tries = 0;
	uint64_t start;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_HOLD, NULL, 0);
	/*
	 * On a loaded machine the connect may time out before b reads its events: then try again.
	 */
	do {
		CT_CHECK(tries++ < 5, "the other side was never asked");
		start = leat_now();
		peer = ct_try_connect(&a, addr, NULL, 0, 200 * 1000, 0);
		CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
		ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
		CT_EQ(ev.status, -ETIMEDOUT, "status of CONNECT_FAILED");
		CT_CHECK(ct_in_time(ct_ms_since(start), 200), "took %" PRIu64 " ms instead of 200",
			 ct_ms_since(start));
	} while (!ct_try_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, 1000, &ev));
	/* An accept by b comes too late. */
	ct_pump_us(20000);
	if (ct_accept(&b, ev.peer, NULL, 0) == 0)
		ct_event(&b, LEAT_EV_DISCONNECTED, ev.peer, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

/*
 * A connect that is given up, before or after the other side saw the request, ends with
 * CONNECT_FAILED, and later connects work.
 */
static void
given_up(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	unsigned int i;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_HOLD, NULL, 0);
	for (i = 0; i < 10; i++) {
		peer = ct_try_connect(&a, addr, NULL, 0, 0, 0);
		CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
		if (i % 2 == 0)
			ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		CT_EQ(ct_disconnect(&a, (uint16_t)peer), 0, "disconnect while connecting");
		ct_event(&a, LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
		CT_EQ(ev.status, -ECONNABORTED, "status");
	}
	ct_pump_us(20000);
	ct_policy(&b, CT_ACCEPT_ALL, NULL, 0);
	peer = ct_try_connect(&a, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

static void
busy_address(void)
{
	struct ct_side a = ct_near(0), b = ct_near(1);
	char addr[LEAT_ADDR_MAX], small[4];

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	CT_EQ(leat_ep_listen_addr(ct_node(&b)->ep, addr, sizeof(addr)), -ENOENT,
	      "address of an endpoint that does not listen");
	ct_listen(&a, addr);
	CT_EQ(leat_ep_listen(ct_node(&b)->ep, addr), -EADDRINUSE, "listen where another listens");
	CT_CHECK(strstr(leat_err_msg(), strrchr(addr, ':') + 1) != NULL,
		 "the message does not tell where: \"%s\"", leat_err_msg());
	CT_EQ(leat_ep_listen(ct_node(&a)->ep, ct.listen), -EALREADY,
	      "second listen of an endpoint");
	CT_EQ(leat_ep_listen_addr(ct_node(&a)->ep, small, sizeof(small)), -ENOSPC,
	      "room for 4 bytes");
	ct_finish(&a);
	ct_finish(&b);
}

static void
malformed_addresses(void)
{
	static const char *const bad[] = { "",
					   ":",
					   "nonsense",
					   "127.0.0.1",
					   "127.0.0.1:",
					   "127.0.0.1:99999",
					   "127.0.0.1:-1",
					   "127.0.0.1:80x",
					   "[::1",
					   "[::1]",
					   "[::1:80",
					   "127.0.0.1:80:90",
					   "127.0.0.1: 80" };
	char longer[4 * LEAT_ADDR_MAX];
	struct ct_side a = ct_near(0);
	struct ct_node *n;
	unsigned int i;

	ct_open(&a, NULL);
	n = ct_node(&a);
	for (i = 0; i < RTE_DIM(bad); i++) {
		CT_CHECK(leat_ep_listen(n->ep, bad[i]) == -EINVAL,
			 "listen at \"%s\" was not refused", bad[i]);
		CT_CHECK(leat_ep_connect(n->ep, bad[i], NULL) == -EINVAL,
			 "connect to \"%s\" was not refused", bad[i]);
		CT_CHECK(leat_err_msg()[0] != '\0', "no message");
	}
	CT_CHECK(leat_ep_connect(n->ep, "127.0.0.1:0", NULL) == -EINVAL,
		 "connect to port 0 was not refused");
	CT_CHECK(leat_ep_listen(n->ep, NULL) == -EINVAL, "listen at NULL was not refused");
	CT_CHECK(leat_ep_connect(n->ep, NULL, NULL) == -EINVAL, "connect to NULL was not refused");
	memset(longer, '1', sizeof(longer));
	memcpy(longer + sizeof(longer) - 4, ":80", 4);
	CT_CHECK(leat_ep_listen(n->ep, longer) == -EINVAL, "a long address was not refused");
	CT_CHECK(leat_ep_connect(n->ep, longer, NULL) == -EINVAL, "a long address was not refused");
	/* None of these calls uses up a peer id. */
	for (i = 0; i < n->conf.max_peers; i++)
		CT_EQ(leat_ep_peer_state(n->ep, (uint16_t)i), LEAT_PEER_FREE, "state");
	ct_finish(&a);
}

static void
reconnect(void)
{
	const uint32_t n = ct_scaled(100);
	struct leat_event ev;
	struct ct_pair p;
	uint32_t i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < n; i++) {
		struct ct_side *first = i % 2 == 0 ? &p.a : &p.b,
			       *second = i % 2 == 0 ? &p.b : &p.a;
		uint16_t p1 = i % 2 == 0 ? p.pa : p.pb, p2 = i % 2 == 0 ? p.pb : p.pa;

		ct_traffic(&p.a, p.pa, &p.b, 3, 1, 10000, i * 10);
		ct_traffic(&p.b, p.pb, &p.a, 3, 1, 10000, i * 20);
		CT_EQ(ct_disconnect(first, p1), 0, "disconnect");
		ct_event(first, LEAT_EV_DISCONNECTED, p1, &ev);
		CT_EQ(ev.status, -ECONNABORTED, "status on the side that left");
		ct_event(second, LEAT_EV_DISCONNECTED, p2, &ev);
		CT_EQ(ev.status, 0, "status on the other side");
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	}
	ct_pair_close(&p);
}

/*
 * When the connection ends, messages are on their way, or have arrived and have no receive. After
 * DISCONNECTED none of them may complete a receive, though receives for any peer are posted and a
 * new connection is made.
 */
static void
nothing_after_disconnected(void)
{
	static const uint64_t sizes[] = { 16, 3000, 100000, 2000000 };
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 8, .seed = 666 }, r = {
		.type = LEAT_OP_RECV,
		.peer = LEAT_PEER_ANY,
		.count = 5,
		.seed = 42,
		.check = CT_DATA,
	};
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 2 * RTE_DIM(sizes); i++) {
		s.size = RTE_MIN(sizes[i / 2], ct.info.max_msg);
		s.peer = p.pa;
		tx = ct_stream(&p.a, &s);
		ct_pump_us(i % 2 == 0 ? 3000 : 0);
		CT_EQ(ct_disconnect(i % 2 == 0 ? &p.a : &p.b, i % 2 == 0 ? p.pa : p.pb), 0,
		      "disconnect");
		ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
		ct_wait(&p.a, tx, 8, &res);
		r.size = 1000;
		r.type = LEAT_OP_RECV;
		r.peer = LEAT_PEER_ANY;
		rx = ct_stream(&p.b, &r);
		ct_wait_posted(&p.b, rx, 5);
		ct_pump_us(2000);
		ct_result(&p.b, rx, &res);
		CT_CHECK(res.done == 0,
			 "%u messages of %" PRIu64 " B came out of a connection that has ended",
			 res.done, s.size);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
		r.type = LEAT_OP_SEND;
		r.peer = p.pa;
		ct_wait_ok(&p.a, ct_stream(&p.a, &r), 5);
		ct_wait_ok(&p.b, rx, 5);
	}
	ct_pair_close(&p);
}

/*
 * Ops to a peer id that is not connected yet, or whose connection ended, complete with -ENOTCONN.
 */
static void
ops_need_a_connection(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	struct ct_spec s = { .type = LEAT_OP_SEND, .size = 8 };
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	int peer;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_HOLD, NULL, 0);
	peer = ct_try_connect(&a, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	s.peer = (uint16_t)peer;
	CT_EQ(ct_one(&a, &s, NULL), -ENOTCONN, "send while connecting");
	ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
	s.peer = ev.peer;
	CT_EQ(ct_one(&b, &s, NULL), -ENOTCONN, "send before accept");
	CT_EQ(ct_accept(&b, ev.peer, NULL, 0), 0, "accept");
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	CT_EQ(ct_disconnect(&a, (uint16_t)peer), 0, "disconnect");
	s.peer = (uint16_t)peer;
	CT_EQ(ct_one(&a, &s, NULL), -ENOTCONN, "send after disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, (uint16_t)peer, &ev);
	ct_finish(&a);
	ct_finish(&b);
}

const struct ct_test ct_tests_connect[] = {
	{ .name = "connect.states", .fn = states },
	{ .name = "connect.private_data", .fn = private_data, .types = CT_ANY_TYPE },
	{ .name = "connect.rejected", .fn = rejected, .types = CT_ANY_TYPE },
	{ .name = "connect.before_listen", .fn = connect_before_listen, .types = CT_ANY_TYPE },
	{ .name = "connect.no_listener", .fn = no_listener, .types = CT_ANY_TYPE },
	{ .name = "connect.no_answer", .fn = no_answer },
	{ .name = "connect.given_up", .fn = given_up, .types = CT_ANY_TYPE },
	{ .name = "connect.busy_address", .fn = busy_address, .types = CT_ANY_TYPE },
	{ .name = "connect.malformed_addresses", .fn = malformed_addresses, .types = CT_ANY_TYPE },
	{ .name = "connect.reconnect", .fn = reconnect, .ops = SR },
	{ .name = "connect.nothing_after_disconnected",
	  .fn = nothing_after_disconnected,
	  .ops = SR },
	{ .name = "connect.ops_need_a_connection", .fn = ops_need_a_connection, .ops = SR },
	{ .name = NULL },
};
