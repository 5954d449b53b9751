/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints of two lcores talk to each other, while endpoints are opened and closed on both. Run
 * under ThreadSanitizer, they show that the lcores share no memory without synchronisation.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

static uint32_t
all_access(void)
{
	uint32_t access = 0;

	access |= (ct.info.ops & R) != 0 ? LEAT_MR_REMOTE_READ : 0;
	access |= (ct.info.ops & (W | WI)) != 0 ? LEAT_MR_REMOTE_WRITE : 0;
	access |= (ct.info.ops & (FA | CS)) != 0 ? LEAT_MR_REMOTE_ATOMIC : 0;
	return access;
}

/* Start n ops of each type from one side to the other. @return number of streams */
static unsigned int
start_all(struct ct_side *from, uint16_t peer, struct ct_side *to, const struct leat_rkey *rk,
	  uint32_t n, int *st)
{
	static const uint8_t types[] = { LEAT_OP_SEND, LEAT_OP_TSEND,	  LEAT_OP_WRITE,
					 LEAT_OP_READ, LEAT_OP_FETCH_ADD, LEAT_OP_CMP_SWAP };
	unsigned int i, k = 0;

	for (i = 0; i < RTE_DIM(types); i++) {
		struct ct_spec s = { .type = types[i],
				     .peer = peer,
				     .count = n,
				     .size = 0,
				     .size_max = 9000,
				     .seed = 1000 * i,
				     .window = 64,
				     .queue = CT_Q_NONE };

		if ((ct.info.ops & LEAT_OP_BIT(types[i])) == 0)
			continue;
		if (types[i] == LEAT_OP_SEND || types[i] == LEAT_OP_TSEND) {
			struct ct_spec r = s;

			r.type = types[i] == LEAT_OP_SEND ? LEAT_OP_RECV : LEAT_OP_TRECV;
			r.peer = LEAT_PEER_ANY;
			r.queue = CT_Q_OWN + i;
			r.check = CT_DATA;
			(void)ct_stream(to, &r);
		} else {
			s.raddr = rk->addr;
			s.rkey = rk->key;
			if (types[i] >= LEAT_OP_FETCH_ADD) {
				s.size = 8;
				s.size_max = 0;
			}
		}
		st[k++] = ct_stream(from, &s);
	}
	return k;
}

static void
stress(void)
{
	const uint64_t span = leat_us_to_cycles(UINT64_C(1500000) * RTE_MIN(ct.scale, 400u) / 100);
	const uint32_t n = ct_scaled(2000);
	uint64_t start = leat_now(), rounds = 0;
	struct leat_rkey ra = { 0 }, rb = { 0 };
	int sa[8], sb[8];
	unsigned int i, k;
	struct ct_pair p;

	do {
		ct_pair_open(&p, NULL, NULL);
		if (all_access() != 0) {
			(void)ct_mr(&p.a, MIB, all_access(), 1, &ra);
			(void)ct_mr(&p.b, MIB, all_access(), 1, &rb);
		}
		(void)start_all(&p.a, p.pa, &p.b, &rb, n, sa);
		k = start_all(&p.b, p.pb, &p.a, &ra, n, sb);
		for (i = 0; i < k; i++) {
			ct_wait_ok(&p.a, sa[i], n);
			ct_wait_ok(&p.b, sb[i], n);
		}
		ct_pair_close(&p);
		rounds++;
	} while (leat_now() - start < span);
	ct_note("%" PRIu64 " rounds of %u ops of each type, both ways", rounds, n);
}

/* Endpoints of both lcores open, connect, send and close, while one other connection stays up. */
static void
churn(void)
{
	const uint64_t start = leat_now(), span = leat_us_to_cycles(3000000);
	const uint32_t rounds = ct_scaled(60), n = ct_scaled(5000);
	struct ct_spec s = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = n,
			     .size = 1,
			     .size_max = 5000,
			     .seed = 9,
			     .check = CT_DATA,
			     .window = 32 };
	struct ct_pair p;
	uint32_t i;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.b, &s);
	s.type = LEAT_OP_SEND;
	s.peer = p.pa;
	tx = ct_stream(&p.a, &s);
	for (i = 0; i < rounds && leat_now() - start < span; i++) {
		struct ct_side a = ct_near(1), b = ct_far(1);
		char addr[LEAT_ADDR_MAX];
		uint16_t pa, pb;

		ct_open(&a, NULL);
		ct_open(&b, NULL);
		ct_listen(i % 2 == 0 ? &a : &b, addr);
		if (i % 2 == 0)
			ct_connect(&b, &a, addr, &pb, &pa);
		else
			ct_connect(&a, &b, addr, &pa, &pb);
		ct_traffic(&a, pa, &b, 10, 1, 30000, i);
		if (i % 3 == 0)
			(void)ct_close(&a, 0);
		else
			ct_finish(&a);
		ct_event(&b, LEAT_EV_DISCONNECTED, pb, NULL);
		ct_finish(&b);
	}
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	ct_pair_close(&p);
}

/* Both lcores cancel ops and disconnect at the same time. */
static void
crossing_ends(void)
{
	const uint64_t start = leat_now(), span = leat_us_to_cycles(3000000);
	const uint32_t rounds = ct_scaled(100);
	struct ct_spec s = { .type = LEAT_OP_SEND,
			     .count = 20,
			     .size = 1,
			     .size_max = 400000,
			     .seed = 1 },
		       r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = 10,
			     .bufsize = 400000,
			     .queue = CT_Q_NONE };
	struct ct_result res;
	struct ct_pair p;
	uint32_t i;

	for (i = 0; i < rounds; i++) {
		int ta, tb, ra, rb;
		bool last;

		if (i % 20 == 0)
			ct_pair_open(&p, NULL, NULL);
		else
			ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
		ra = ct_stream(&p.a, &r);
		rb = ct_stream(&p.b, &r);
		s.peer = p.pa;
		ta = ct_stream(&p.a, &s);
		s.peer = p.pb;
		tb = ct_stream(&p.b, &s);
		ct_pump_us(ct_mix(i) % 2000);
		/* Both sides disconnect at once: either may find that the other was faster. */
		(void)ct_disconnect(&p.a, p.pa);
		(void)ct_disconnect(&p.b, p.pb);
		ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
		ct_wait(&p.a, ta, 20, &res);
		CT_ONLY(&res, "sends", -ECONNABORTED, -ECONNRESET, -ENOTCONN);
		ct_wait(&p.b, tb, 20, &res);
		CT_ONLY(&res, "sends", -ECONNABORTED, -ECONNRESET, -ENOTCONN);
		(void)ct_recall(&p.a, ra, &res);
		CT_ONLY(&res, "receives", -ECANCELED, -ECONNABORTED, -ECONNRESET);
		(void)ct_recall(&p.b, rb, &res);
		CT_ONLY(&res, "receives", -ECANCELED, -ECONNABORTED, -ECONNRESET);
		/* A device may take long to end a connection: then run fewer rounds. */
		last = i == rounds - 1 || leat_now() - start > span;
		if (i % 20 == 19 || last)
			ct_pair_close(&p);
		if (last)
			break;
	}
}

const struct ct_test ct_tests_threads[] = {
	{ .name = "threads.stress",
	  .fn = stress,
	  .modes = CT_LCORES_MODE | CT_FORK_MODE,
	  .ops = SR },
	{ .name = "threads.churn", .fn = churn, .modes = CT_LCORES_MODE | CT_FORK_MODE, .ops = SR },
	{ .name = "threads.crossing_ends", .fn = crossing_ends, .ops = SR },
	{ .name = NULL },
};
