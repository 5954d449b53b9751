/* SPDX-License-Identifier: BSD-3-Clause */

/* Datagram endpoints: peers. */

#include "datagram.h"

/* A peer's states, from connect to disconnect. When a side disconnects, the other gets no event. */
static void
states(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .size = 8 };
	struct leat_event ev;
	struct ct_pair p;
	unsigned int i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 6; i++) {
		struct ct_side *first = i % 2 == 0 ? &p.a : &p.b,
			       *second = i % 2 == 0 ? &p.b : &p.a;
		uint16_t p1 = i % 2 == 0 ? p.pa : p.pb, p2 = i % 2 == 0 ? p.pb : p.pa;

		CT_EQ(ct_peer_state(&p.a, p.pa), LEAT_PEER_UP, "state when connected");
		CT_EQ(ct_peer_state(&p.b, p.pb), LEAT_PEER_UP, "state when connected");
		ct_pair_works(&p);
		CT_EQ(ct_disconnect(first, p1), 0, "disconnect");
		s.peer = p1;
		CT_EQ(ct_one(first, &s, NULL), -ENOTCONN, "send after disconnect");
		ct_event(first, LEAT_EV_DISCONNECTED, p1, &ev);
		CT_EQ(ev.status, -ECONNABORTED, "status of DISCONNECTED here");
		ct_wait_free(first, p1);
		ct_pump_us(10 * MS);
		CT_EQ(ct_peer_state(second, p2), LEAT_PEER_UP, "state there");
		s.peer = p2;
		CT_EQ(ct_one(second, &s, NULL), 0, "send to one who left");
		CT_EQ(ct_disconnect(second, p2), 0, "disconnect there");
		ct_event(second, LEAT_EV_DISCONNECTED, p2, &ev);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	}
	ct_pair_close(&p);
}

/* Disconnect with sends in flight: they complete before DISCONNECTED, which the node checks. */
static void
disconnect_with_sends(void)
{
	const uint32_t n = ct_scaled(500), rounds = 5;
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	uint32_t i;
	int tx;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < rounds; i++) {
		s = send_of(p.pa, n, i);
		s.queue = i % 2 == 0 ? CT_Q_DEFAULT : CT_Q_NONE;
		tx = ct_stream(&p.a, &s);
		ct_wait_posted(&p.a, tx, 1);
		CT_EQ(ct_disconnect(&p.a, p.pa), 0, "disconnect");
		ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
		ct_wait(&p.a, tx, n, &res);
		CT_ONLY(&res, "sends", -ENOTCONN, -ECONNABORTED);
		CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect there");
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	}
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/*
 * Each received datagram names its sender in src. One from a former peer has LEAT_PEER_ANY as src,
 * or does not arrive.
 */
static void
senders(void)
{
	struct ct_spec r = recv_of(1), s;
	struct ct_result res;
	struct ct_trio t;
	unsigned int i;
	int rx;

	ct_trio_open(&t, NULL);
	r.check |= CT_SRC;
	for (i = 0; i < 10; i++) {
		r.src = i % 2 == 0 ? t.pb : t.pc;
		s = send_of(i % 2 == 0 ? t.ab : t.ac, 1, i);
		send_until_received(i % 2 == 0 ? &t.b : &t.c, &t.a, &s, &r, &res);
		CT_CHECK(res.ok == 1, "%s", res.text);
	}
	CT_EQ(ct_disconnect(&t.a, t.pb), 0, "disconnect");
	ct_event(&t.a, LEAT_EV_DISCONNECTED, t.pb, NULL);
	r.src = LEAT_PEER_ANY;
	r.count = 20;
	rx = ct_stream(&t.a, &r);
	ct_wait_posted(&t.a, rx, 20);
	s = send_of(t.ab, 20, 100);
	ct_wait_ok(&t.b, ct_stream(&t.b, &s), 20);
	ct_pump_us(20 * MS);
	ct_recall(&t.a, rx, &res);
	CT_ONLY(&res, "what a stranger sent", -ECANCELED);
	r.src = t.pc;
	r.count = 1;
	s = send_of(t.ac, 1, 7);
	send_until_received(&t.c, &t.a, &s, &r, &res);
	CT_CHECK(res.ok == 1, "%s", res.text);
	ct_trio_close(&t);
}

/*
 * When a connects to b twice, b has two ids for a. The src of a datagram is either of these ids;
 * when b has disconnected one id, src is the other id.
 */
static void
connected_twice(void)
{
	struct ct_spec r = recv_of(1), s;
	uint16_t pa2, pb2, from, left;
	struct ct_result res;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	ct_connect(&p.a, &p.b, p.addr, &pa2, &pb2);
	CT_CHECK(pa2 != p.pa && pb2 != p.pb, "one id twice");
	s = send_of(p.pa, 1, 5);
	send_until_received(&p.a, &p.b, &s, &r, &res);
	from = res.last_src;
	CT_CHECK(from == p.pb || from == pb2, "src %u, expected %u or %u", from, p.pb, pb2);
	s.peer = pa2;
	send_until_received(&p.a, &p.b, &s, &r, &res);
	CT_CHECK(res.last_src == p.pb || res.last_src == pb2, "src %u, expected %u or %u",
		 res.last_src, p.pb, pb2);
	left = from == p.pb ? pb2 : p.pb;
	CT_EQ(ct_disconnect(&p.b, from), 0, "disconnect");
	ct_event(&p.b, LEAT_EV_DISCONNECTED, from, NULL);
	send_until_received(&p.a, &p.b, &s, &r, &res);
	CT_EQ(res.last_src, left, "src when the other id is gone");
	s = send_of(left, 1, 6);
	send_until_received(&p.b, &p.a, &s, &r, &res);
	ct_pair_close(&p);
}

/* c was closed or killed: sends to c complete with success, and b is not disturbed. */
static void
peer_gone(void)
{
	const uint32_t n = ct_scaled(500);
	struct ct_spec s;
	struct ct_trio t;
	uint16_t peer;

	ct_trio_open(&t, NULL);
	peer = t.pc;
	if (ct.mode == CT_FORK_MODE)
		ct_kill(&t.c);
	else
		ct_finish(&t.c);
	s = send_of(peer, n, 8);
	ct_wait_ok(&t.a, ct_stream(&t.a, &s), n);
	CT_EQ(ct_peer_state(&t.a, peer), LEAT_PEER_UP, "state of one who is gone");
	ct_datagrams(&t.a, t.pb, &t.b, 10, 8, 1000, 1);
	ct_datagrams(&t.b, t.ab, &t.a, 10, 8, 1000, 2);
	CT_EQ(ct_disconnect(&t.a, peer), 0, "disconnect");
	ct_event(&t.a, LEAT_EV_DISCONNECTED, peer, NULL);
	t.c = ct_far(1);
	ct_open(&t.c, NULL);
	ct_connect(&t.c, &t.a, t.addr, &t.ac, &t.pc);
	ct_datagrams(&t.c, t.ac, &t.a, 10, 8, 1000, 3);
	ct_datagrams(&t.a, t.pc, &t.c, 10, 8, 1000, 4);
	ct_trio_close(&t);
}

const struct ct_test ct_tests_datagram_peers[] = {
	CT_DATAGRAM_TEST("states", states),
	CT_DATAGRAM_TEST("disconnect_with_sends", disconnect_with_sends),
	CT_DATAGRAM_TEST("senders", senders, .caps = CT_CAP_SOURCE),
	CT_DATAGRAM_TEST("connected_twice", connected_twice, .caps = CT_CAP_SOURCE),
	CT_DATAGRAM_TEST("peer_gone", peer_gone),
	{ .name = NULL },
};
