/* SPDX-License-Identifier: BSD-3-Clause */

/* Datagram endpoints: ops and buffers. */

#include <poll.h>

#include "datagram.h"

/*
 * Send every size that fits, without and with an immediate. The receive reports the immediate and,
 * if the device can, the source.
 */
static void
every_size(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .count = 1, .imm = 0x1234567 }, r;
	uint64_t sizes[16];
	struct ct_result res;
	struct ct_pair p;
	unsigned int i, n = ct_sizes(sizes, RTE_DIM(sizes) - 1);

	sizes[n++] = ct.info.max_msg;
	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 2 * n; i++) {
		s.size = sizes[i / 2];
		s.seed = 100 + i;
		s.flags = ct.info.send_imm && i % 2 == 1 ? LEAT_OP_F_IMM : 0;
		s.peer = p.pa;
		r = s;
		r.type = LEAT_OP_RECV;
		r.peer = LEAT_PEER_ANY;
		r.flags = 0;
		r.bufsize = sizes[i / 2] + i % 3;
		r.check = CT_DATA | (s.flags != 0 ? CT_IMM : 0);
		if (ct.info.source)
			r.check |= CT_SRC;
		r.src = p.pb;
		send_until_received(&p.a, &p.b, &s, &r, &res);
		CT_CHECK(res.wrong == 0 && res.ok == 1, "%" PRIu64 " B: status %d %s", s.size,
			 res.last_status, res.text);
		CT_EQ(res.nb_imm, s.flags != 0, "immediates");
	}
	ct_pair_close(&p);
}

/*
 * Each side floods the other: each op completes once, sends with success, receives with a whole
 * datagram or cancelled.
 */
static void
conservation(void)
{
	const uint32_t n = ct_scaled(4000), depth = ct.info.rx_depth;
	struct ct_spec r = recv_of(n);
	struct ct_result res;
	struct ct_pair p;
	int ra, rb, ta, tb;
	struct ct_spec sa, sb;

	ct_pair_open(&p, NULL, NULL);
	ra = ct_stream(&p.a, &r);
	rb = ct_stream(&p.b, &r);
	ct_wait_posted(&p.a, ra, RTE_MIN(n, depth));
	ct_wait_posted(&p.b, rb, RTE_MIN(n, depth));
	sa = send_of(p.pa, n, 1000);
	sb = send_of(p.pb, n, 500000);
	ta = ct_stream(&p.a, &sa);
	tb = ct_stream(&p.b, &sb);
	ct_wait_ok(&p.a, ta, n);
	ct_wait_ok(&p.b, tb, n);
	ct_pump_us(20 * MS);
	ct_recall(&p.a, ra, &res);
	CT_ONLY(&res, "receives", -ECANCELED);
	CT_CHECK(res.ok > 0, "of %u datagrams none came", n);
	ct_note("%u of %u datagrams came this way, %s", res.ok, n, "near");
	ct_recall(&p.b, rb, &res);
	CT_ONLY(&res, "receives", -ECANCELED);
	CT_CHECK(res.ok > 0, "of %u datagrams none came", n);
	ct_note("%u of %u datagrams came this way, %s", res.ok, n, "far");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* Datagrams that are too long, among good ones, fail in the order of posting; no other op fails. */
static void
too_long_in_the_middle(void)
{
	const uint32_t n = ct_scaled(400);
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	uint32_t i, bad = 0;
	int tx;

	ct_pair_open(&p, NULL, NULL);
	s = send_of(p.pa, n, 77);
	s.size_max = 2 * ct.info.max_msg;
	s.bad = CT_BAD_LONG;
	for (i = 0; i < n; i++)
		bad += 8 + ct_mix(s.seed + i + 77) % (s.size_max - 7) > ct.info.max_msg;
	tx = ct_stream(&p.a, &s);
	ct_wait(&p.a, tx, n, &res);
	CT_ONLY(&res, "sends of up to twice max_msg", -EMSGSIZE);
	CT_EQ(ct_status_count(&res, -EMSGSIZE), bad, "sends that were too long");
	CT_EQ(res.ok, n - bad, "the others");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* A receive that is too small fails, and nothing behind its buffer is written. */
static void
receive_too_small(void)
{
	const uint64_t max = ct.info.max_msg;
	const uint64_t sizes[][2] = { { 1, 0 },		{ 65, 64 }, { max, max - 1 },
				      { max, max / 2 }, { max, 1 }, { max, 0 } };
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < RTE_DIM(sizes); i++) {
		struct ct_spec s = send_of(p.pa, 1, i), r = recv_of(1);

		if (sizes[i][0] > max)
			continue;
		s.size = sizes[i][0];
		s.size_max = 0;
		r.bufsize = sizes[i][1];
		send_until_received(&p.a, &p.b, &s, &r, &res);
		CT_CHECK(res.last_status == -EMSGSIZE,
			 "a receive of %" PRIu64 " B for %" PRIu64 " B: status %d", sizes[i][1],
			 sizes[i][0], res.last_status);
		CT_CHECK(res.last_len == 0 || res.last_len == sizes[i][0],
			 "len %" PRIu64 " with -EMSGSIZE is neither what arrived nor unknown",
			 res.last_len);
		ct_pair_works(&p);
	}
	ct_pair_close(&p);
}

/*
 * Datagrams to a side that posts no receives: the sender makes progress, and the receiver's memory
 * does not grow.
 */
static void
no_receive(void)
{
	const uint32_t n = ct_scaled(20000);
	uint64_t before, after;
	struct ct_pair p;
	struct ct_spec s;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p);
	before = ct_state(&p.b).val[2];
	s = send_of(p.pa, n, 5);
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), n);
	after = ct_state(&p.b).val[2];
	CT_CHECK(after < before + 64 * 1024, "memory grew by %" PRIu64 " MiB",
		 (after - before) / 1024);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/*
 * Receives are cancelled while datagrams arrive for them: each has one outcome, and a datagram that
 * arrived is whole. The node checks that the device does not write to the buffer of a completed
 * receive any more.
 */
static void
cancel_under_fire(void)
{
	const uint32_t rounds = ct_scaled(40), n = RTE_MIN(32u, ct.info.rx_depth);
	struct ct_spec r = recv_of(n), s;
	uint32_t i, k, came = 0;
	struct ct_result res;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < rounds; i++) {
		int rx, tx;

		r.queue = i % 2 == 0 ? CT_Q_DEFAULT : CT_Q_NONE;
		rx = ct_stream(&p.b, &r);
		ct_wait_posted(&p.b, rx, n);
		s = send_of(p.pa, 4 * n, i * 1000);
		tx = ct_stream(&p.a, &s);
		for (k = 0; k < i % 10; k++)
			ct_pump();
		(void)ct_cancel(&p.b, rx, i % 3, n, NULL);
		ct_wait_ok(&p.a, tx, 4 * n);
		ct_recall(&p.b, rx, &res);
		CT_ONLY(&res, "receives", -ECANCELED);
		CT_EQ(res.ok + ct_status_count(&res, -ECANCELED), n, "received or cancelled");
		came += res.ok;
	}
	ct_note("%u of %u receives had a datagram", came, rounds * n);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* Receives that are not cancelled stay posted, in their order, which the node checks. */
static void
cancel_every_other(void)
{
	const uint32_t n = RTE_MIN(64u, ct.info.rx_depth);
	struct ct_spec r = recv_of(n), s;
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;
	int rx;

	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.b, &r);
	ct_wait_posted(&p.b, rx, n);
	for (i = 1; i < n; i += 2)
		CT_EQ(ct_cancel(&p.b, rx, i, i + 1, NULL), 1, "cancels");
	CT_UNTIL(ct_state(&p.b).val[0] == n - n / 2,
		 "the device keeps receives that are cancelled");
	for (i = 0; i < 40; i++) {
		s = send_of(p.pa, n / 2, i * n);
		ct_wait_ok(&p.a, ct_stream(&p.a, &s), n / 2);
		if (ct_try_wait(&p.b, rx, n, 200 * ct.slow, &res))
			break;
	}
	ct_wait(&p.b, rx, n, &res);
	CT_ONLY(&res, "receives", -ECANCELED);
	CT_EQ(ct_status_count(&res, -ECANCELED), n / 2, "cancelled");
	CT_EQ(res.ok, n - n / 2, "received");
	ct_pair_close(&p);
}

/*
 * A datagram send never waits for a receiver: even a deadline already past when posted ends no
 * connection.
 */
static void
deadline_of_sends(void)
{
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;

	ct_pair_open(&p, NULL, NULL);
	s = send_of(p.pa, 100, 3);
	s.bad = CT_BAD_PAST;
	ct_wait(&p.a, ct_stream(&p.a, &s), 100, &res);
	CT_ONLY(&res, "sends", -ETIMEDOUT);
	CT_EQ(ct_peer_state(&p.a, p.pa), LEAT_PEER_UP, "state");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* Shut down with sends and receives in flight: all complete, those of one queue in its order. */
static void
stop_under_fire(void)
{
	const uint32_t n = ct_scaled(2000);
	struct ct_spec r = recv_of(n), s;
	struct ct_result res;
	struct leat_event ev;
	struct ct_pair p;
	unsigned int i;
	int rx, tx;

	for (i = 0; i < 4; i++) {
		ct_pair_open(&p, NULL, NULL);
		rx = ct_stream(&p.a, &r);
		s = send_of(p.pb, n, 1);
		(void)ct_stream(&p.b, &s);
		s = send_of(p.pa, n, 2);
		tx = ct_stream(&p.a, &s);
		ct_wait_posted(&p.a, tx, n / 4);
		CT_EQ(ct_shutdown(&p.a, UINT64_C(10000000) * ct.slow), 0, "shutdown");
		ct_event(&p.a, LEAT_EV_SHUTDOWN, LEAT_PEER_ANY, &ev);
		CT_EQ(ev.status, 0, "status of SHUTDOWN");
		ct_result(&p.a, tx, &res);
		ct_wait(&p.a, tx, res.posted, &res);
		CT_ONLY(&res, "sends", -ESHUTDOWN);
		ct_result(&p.a, rx, &res);
		ct_wait(&p.a, rx, res.posted, &res);
		CT_ONLY(&res, "receives", -ECANCELED, -ESHUTDOWN);
		CT_EQ(ct_destroy(&p.a), 0, "destroy");
		ct_finish(&p.b);
	}
}

/* Endpoints of the smallest and of the largest size can be created and used. */
static void
limits_work(void)
{
	struct ct_conf conf = { .tx_depth = 1, .rx_depth = 1, .max_peers = 1 };
	struct ct_spec r = recv_of(1), s;
	struct ct_result res;
	struct ct_pair p;
	unsigned int i;

	ct_pair_open(&p, &conf, &conf);
	for (i = 0; i < 20; i++) {
		s = send_of(p.pa, 1, i);
		send_until_received(&p.a, &p.b, &s, &r, &res);
		CT_CHECK(res.ok == 1, "%s", res.text);
	}
	ct_pair_close(&p);
	conf = (struct ct_conf){ .tx_depth = ct.info.tx_depth_max,
				 .rx_depth = ct.info.rx_depth_max,
				 .max_peers = (uint16_t)RTE_MIN(ct.info.max_peers, 4096u) };
	ct_pair_open(&p, &conf, &conf);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/*
 * Drive the node until nothing is left to do, then arm it. @return true: it is armed, and frozen,
 * that is, not driven any more
 */
static bool
asleep(struct ct_node *n)
{
	while (ct_node_step(n))
		;
	ct_node_events(n);
	n->frozen = leat_ep_arm(n->ep) == 0;
	if (!n->frozen)
		leat_ep_disarm(n->ep);
	return n->frozen;
}

/* A datagram wakes an endpoint that sleeps. */
static void
wakes(void)
{
	const struct ct_conf conf = { .wait = 1 };
	struct ct_spec r = recv_of(1), s;
	struct pollfd fd = { .events = POLLIN };
	struct ct_pair p;
	struct ct_node *n;
	unsigned int i, k;
	int rx;

	ct_pair_open(&p, &conf, NULL);
	n = ct_node(&p.a);
	fd.fd = leat_ep_fd(n->ep);
	for (i = 0; i < 10; i++) {
		rx = ct_stream(&p.a, &r);
		ct_wait_posted(&p.a, rx, 1);
		CT_UNTIL(asleep(n), "there is always something to do");
		s = send_of(p.pb, 1, i);
		for (k = 0; k < 40 && poll(&fd, 1, 200) == 0; k++)
			ct_wait_ok(&p.b, ct_stream(&p.b, &s), 1);
		CT_EQ(poll(&fd, 1, 0), 1, "readable descriptors");
		leat_ep_disarm(n->ep);
		n->frozen = false;
		ct_wait_ok(&p.a, rx, 1);
	}
	ct_pair_close(&p);
}

const struct ct_test ct_tests_datagram[] = {
	CT_DATAGRAM_TEST("every_size", every_size),
	CT_DATAGRAM_TEST("conservation", conservation),
	CT_DATAGRAM_TEST("too_long_in_the_middle", too_long_in_the_middle),
	CT_DATAGRAM_TEST("receive_too_small", receive_too_small),
	CT_DATAGRAM_TEST("no_receive", no_receive),
	CT_DATAGRAM_TEST("cancel_under_fire", cancel_under_fire),
	CT_DATAGRAM_TEST("cancel_every_other", cancel_every_other),
	CT_DATAGRAM_TEST("deadline_of_sends", deadline_of_sends),
	CT_DATAGRAM_TEST("stop_under_fire", stop_under_fire),
	CT_DATAGRAM_TEST("limits_work", limits_work),
	CT_DATAGRAM_TEST("wakes", wakes, .caps = CT_CAP_WAIT),
	{ .name = NULL },
};
