/* SPDX-License-Identifier: BSD-3-Clause */

/* Many peers, and several connections between the same two endpoints. */

#include "ct.h"

#define FARS 8

static void
table_full(void)
{
	struct ct_conf conf = { .max_peers = 2 };
	struct ct_side a = ct_near(0), b[3] = { ct_far(0), ct_far(1), ct_far(2) };
	char addr[LEAT_ADDR_MAX], there[LEAT_ADDR_MAX];
	uint16_t ab[2], ba[2];
	struct leat_event ev;
	uint64_t counts[8];
	unsigned int i;
	int peer;

	ct_open(&a, &conf);
	ct_listen(&a, addr);
	for (i = 0; i < 3; i++)
		ct_open(&b[i], NULL);
	ct_listen(&b[2], there);
	for (i = 0; i < 2; i++)
		ct_connect(&b[i], &a, addr, &ba[i], &ab[i]);
	/* The peer table of a is full: a connect from it or to it must fail. */
	CT_EQ(ct_try_connect(&a, there, NULL, 0, 0, 0), -ENOSPC, "connect with a full table");
	peer = ct_try_connect(&b[2], addr, NULL, 0, 500 * 1000, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&b[2], LEAT_EV_CONNECT_FAILED, (uint16_t)peer, &ev);
	CT_CHECK(ev.status == -ECONNREFUSED || ev.status == -ETIMEDOUT, "status %d: %s", ev.status,
		 ev.text);
	ct_counts(&a, counts);
	CT_EQ(counts[LEAT_EV_CONNECT_REQ], 2, "requests seen");
	ct_traffic(&b[0], ba[0], &a, 20, 1, 5000, 1);
	ct_traffic(&a, ab[1], &b[1], 20, 1, 5000, 2);
	/* A peer that leaves makes room for one other. */
	CT_EQ(ct_disconnect(&b[0], ba[0]), 0, "disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, ab[0], &ev);
	ct_event(&b[0], LEAT_EV_DISCONNECTED, ba[0], &ev);
	ct_connect(&b[2], &a, addr, &ba[0], &ab[0]);
	ct_traffic(&b[2], ba[0], &a, 20, 1, 5000, 3);
	ct_finish(&a);
	for (i = 0; i < 3; i++)
		ct_finish(&b[i]);
}

/*
 * Connect as many peers as the device has room for, up to 1,000, or with less --scale up to 100:
 * all at the same time, and every connect is answered.
 */
static void
thousand_peers(void)
{
	const uint32_t n = RTE_MIN(RTE_MIN(RTE_MAX(ct_scaled(1000), 100u), 1000u),
				   (uint32_t)ct.info.max_peers);
	/*
	 * Per peer a device may have a send queue (verbs), which takes memory and time: keep it
	 * short.
	 */
	struct ct_conf conf = { .max_peers = (uint16_t)n,
				.tx_depth = RTE_MIN(64u, ct.info.tx_depth_max) },
		       fconf = conf;
	struct ct_side a = ct_near(0), b[FARS];
	static uint16_t here[1000], there[1000];
	struct ct_spec s = { .size = 8, .check = CT_DATA };
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	uint64_t counts[8];
	uint32_t i;
	int st, rx;

	fconf.max_peers = (uint16_t)((n + FARS - 1) / FARS);
	ct_open(&a, &conf);
	ct_listen(&a, addr);
	for (i = 0; i < FARS; i++) {
		b[i] = ct_far(i);
		ct_open(&b[i], &fconf);
	}
	for (i = 0; i < n; i++) {
		int peer = ct_try_connect(&b[i % FARS], addr, &i, sizeof(i), 0, i);

		CT_CHECK(peer >= 0, "connect %u: %s", i, ct_err_text());
		there[i] = (uint16_t)peer;
		if (i % 32 == 31)
			ct_event(&b[i % FARS], LEAT_EV_CONNECTED, there[i], &ev);
	}
	for (i = 0; i < n; i++)
		if (i % 32 != 31)
			ct_event(&b[i % FARS], LEAT_EV_CONNECTED, there[i], &ev);
	for (i = 0; i < n; i++) {
		uint32_t which;

		ct_event(&a, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
		CT_CHECK(ev.priv_len == sizeof(which) ||
				 (ct.info.priv_padded && ev.priv_len > sizeof(which)),
			 "%u B of private data", ev.priv_len);
		memcpy(&which, ev.priv, sizeof(which));
		CT_CHECK(which < n, "private data %u", which);
		here[which] = ev.peer;
		ct_event(&a, LEAT_EV_CONNECTED, ev.peer, &ev);
	}
	ct_note("%u peers are connected", n);
	for (i = 0; i < n; i++) {
		s.seed = 10000 + i;
		s.count = 1;
		s.type = LEAT_OP_RECV;
		s.peer = LEAT_PEER_ANY;
		s.check = CT_DATA;
		if (n <= 64 && ct.info.source) {
			s.check |= CT_SRC;
			s.src = here[i];
		}
		rx = -1;
		if (i % 17 == 0 || n <= 64)
			rx = ct_stream(&a, &s);
		if (rx < 0)
			continue;
		s.type = LEAT_OP_SEND;
		s.peer = there[i];
		st = ct_stream(&b[i % FARS], &s);
		ct_wait_ok(&b[i % FARS], st, 1);
		ct_wait_ok(&a, rx, 1);
		if (ct_node(&a)->nb_streams > CT_STREAMS - 4)
			break;
	}
	/* One peer leaves: the others stay. */
	CT_EQ(ct_disconnect(&a, here[n / 2]), 0, "disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, here[n / 2], &ev);
	ct_event(&b[(n / 2) % FARS], LEAT_EV_DISCONNECTED, there[n / 2], &ev);
	ct_pump_us(10000);
	ct_counts(&a, counts);
	CT_EQ(counts[LEAT_EV_DISCONNECTED], 1, "disconnected");
	ct_traffic(&a, here[n - 1], &b[(n - 1) % FARS], 5, 1, 3000, 9);
	ct_finish(&a);
	for (i = 0; i < FARS; i++)
		ct_finish(&b[i]);
}

/*
 * a and b connect to each other at the same time: there are two connections. Both work, and when
 * one ends, the other goes on.
 */
static void
both_ways(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char at_a[LEAT_ADDR_MAX], at_b[LEAT_ADDR_MAX];
	int from_a, from_b;
	struct leat_event ev;
	uint16_t in_a, in_b;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&a, at_a);
	ct_listen(&b, at_b);
	from_a = ct_try_connect(&a, at_b, NULL, 0, 0, 0);
	from_b = ct_try_connect(&b, at_a, NULL, 0, 0, 0);
	CT_CHECK(from_a >= 0 && from_b >= 0, "connect: %s", ct_err_text());
	ct_event(&a, LEAT_EV_CONNECTED, (uint16_t)from_a, &ev);
	ct_event(&b, LEAT_EV_CONNECTED, (uint16_t)from_b, &ev);
	ct_event(&a, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	in_a = ev.peer;
	ct_event(&b, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	in_b = ev.peer;
	CT_CHECK(in_a != from_a && in_b != from_b, "one peer id for two connections");
	ct_traffic(&a, (uint16_t)from_a, &b, 20, 1, 5000, 1);
	ct_traffic(&a, in_a, &b, 20, 1, 5000, 2);
	ct_traffic(&b, (uint16_t)from_b, &a, 20, 1, 5000, 3);
	ct_traffic(&b, in_b, &a, 20, 1, 5000, 4);
	CT_EQ(ct_disconnect(&a, (uint16_t)from_a), 0, "disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, (uint16_t)from_a, &ev);
	ct_event(&b, LEAT_EV_DISCONNECTED, in_b, &ev);
	ct_traffic(&a, in_a, &b, 20, 1, 5000, 5);
	ct_traffic(&b, (uint16_t)from_b, &a, 20, 1, 5000, 6);
	ct_finish(&a);
	ct_finish(&b);
}

/*
 * Of two connections between the same endpoints one ends, while messages of the other wait to be
 * received.
 */
static void
one_of_two_ends(void)
{
	const bool tag = (ct.info.ops & TSR) == TSR;
	struct ct_side a = ct_near(0), b = ct_far(0);
	struct ct_spec s = {
		.count = 40, .size = 1, .size_max = 9000, .seed = 5, .tag = 0xc1, .check = CT_DATA
	};
	struct leat_event ev;
	char addr[LEAT_ADDR_MAX];
	uint16_t ab[2], ba[2];
	unsigned int i;
	int tx, rx;

	ct_open(&a, NULL);
	ct_open(&b, NULL);
	ct_listen(&a, addr);
	for (i = 0; i < 2; i++)
		ct_connect(&b, &a, addr, &ba[i], &ab[i]);
	ct_traffic(&b, ba[0], &a, 5, 1, 1000, 1);
	ct_traffic(&b, ba[1], &a, 5, 1, 1000, 2);
	s.type = tag ? LEAT_OP_TSEND : LEAT_OP_SEND;
	s.peer = ba[1];
	tx = ct_stream(&b, &s);
	ct_pump_us(20000);
	CT_EQ(ct_disconnect(&a, ab[0]), 0, "disconnect");
	ct_event(&a, LEAT_EV_DISCONNECTED, ab[0], &ev);
	ct_event(&b, LEAT_EV_DISCONNECTED, ba[0], &ev);
	s.type = tag ? LEAT_OP_TRECV : LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&a, &s);
	ct_wait_ok(&a, rx, s.count);
	ct_wait_ok(&b, tx, s.count);
	ct_finish(&a);
	ct_finish(&b);
}

/* Each endpoint connects to all others. */
static void
mesh(void)
{
	enum { N = 4 };
	struct ct_side s[N] = { ct_near(0), ct_near(1), ct_far(0), ct_far(1) };
	char addr[N][LEAT_ADDR_MAX];
	uint16_t id[N][N];
	unsigned int i, k;

	for (i = 0; i < N; i++) {
		ct_open(&s[i], NULL);
		ct_listen(&s[i], addr[i]);
	}
	for (i = 0; i < N; i++)
		for (k = i + 1; k < N; k++)
			ct_connect(&s[i], &s[k], addr[k], &id[i][k], &id[k][i]);
	for (i = 0; i < N; i++)
		for (k = 0; k < N; k++)
			if (i != k)
				ct_traffic(&s[i], id[i][k], &s[k], 10, 1, 20000, i * 100 + k);
	for (i = 0; i < N; i++)
		ct_finish(&s[i]);
}

const struct ct_test ct_tests_peers[] = {
	{ .name = "connect.table_full", .fn = table_full, .ops = SR },
	{ .name = "connect.thousand_peers", .fn = thousand_peers, .ops = SR },
	{ .name = "connect.both_ways", .fn = both_ways, .ops = SR },
	{ .name = "connect.one_of_two_ends", .fn = one_of_two_ends, .ops = SR },
	{ .name = "connect.mesh", .fn = mesh, .ops = SR },
	{ .name = NULL },
};
