/* SPDX-License-Identifier: BSD-3-Clause */

/* One-sided ops: every size, immediates, atomics under concurrency. */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

struct target {
	int mr;
	uint64_t len;
	struct leat_rkey rkey;
};

static struct target
expose(struct ct_side *s, uint64_t len, uint32_t access, uint64_t seed)
{
	struct target t = { .len = len };

	t.mr = ct_mr(s, len, access, seed, &t.rkey);
	CT_CHECK(t.rkey.len >= len, "rkey of %" PRIu64 " B tells %" PRIu64, len, t.rkey.len);
	return t;
}

static struct ct_spec
spec_at(uint8_t type, uint16_t peer, const struct target *t, uint64_t size, uint64_t seed)
{
	return (struct ct_spec){ .type = type,
				 .peer = peer,
				 .count = 1,
				 .size = size,
				 .seed = seed,
				 .raddr = t->rkey.addr,
				 .rkey = t->rkey.key };
}

static void
write_every_size(void)
{
	uint64_t sizes[16];
	unsigned int i, n = ct_sizes(sizes, RTE_DIM(sizes));
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < n; i++) {
		struct target t = expose(&p.b, sizes[i] + 100, LEAT_MR_REMOTE_WRITE, 4000 + i);
		struct ct_spec s = spec_at(LEAT_OP_WRITE, p.pa, &t, sizes[i], 100 * i);

		s.raddr += 50;
		CT_EQ(ct_one(&p.a, &s, NULL), 0, "write");
		/* When a WRITE completes, its data are in the target's memory. */
		ct_mr_check(&p.b, t.mr, 50, sizes[i], 100 * i, 0);
		ct_mr_check(&p.b, t.mr, 0, 50, 4000 + i, 0);
		ct_mr_check(&p.b, t.mr, 50 + sizes[i], 50, 4000 + i, 50 + sizes[i]);
		CT_EQ(ct_mr_dereg(&p.b, t.mr), 0, "deregister");
	}
	ct_pair_close(&p);
}

/* Many WRITEs at once to adjacent places: all data land where they belong. */
static void
write_burst(void)
{
	const uint32_t n = ct_scaled(300), size = 1000;
	struct ct_pair p;
	struct target t;
	struct ct_spec s;
	uint32_t i;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, n * (uint64_t)size, LEAT_MR_REMOTE_WRITE, 1);
	s = spec_at(LEAT_OP_WRITE, p.pa, &t, size, 500);
	s.count = n;
	s.rstride = size;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), n);
	for (i = 0; i < n; i++)
		ct_mr_check(&p.b, t.mr, i * (uint64_t)size, size, 500 + i, 0);
	ct_pair_close(&p);
}

static void
read_every_size(void)
{
	uint64_t sizes[16];
	unsigned int i, n = ct_sizes(sizes, RTE_DIM(sizes));
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < n; i++) {
		struct target t = expose(&p.b, sizes[i] + 100, LEAT_MR_REMOTE_READ, 4000 + i);
		struct ct_spec s = spec_at(LEAT_OP_READ, p.pa, &t, sizes[i], 4000 + i);

		s.raddr += 50;
		s.off = 50;
		s.check = CT_DATA;
		CT_EQ(ct_one(&p.a, &s, NULL), 0, "read");
		CT_EQ(ct_mr_dereg(&p.b, t.mr), 0, "deregister");
	}
	ct_pair_close(&p);
}

static void
read_burst(void)
{
	const uint32_t n = ct_scaled(500);
	struct ct_pair p;
	struct target t;
	struct ct_spec s;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, MIB, LEAT_MR_REMOTE_READ, 77);
	s = spec_at(LEAT_OP_READ, p.pa, &t, 3000, 77);
	s.count = n;
	s.rstride = 1001;
	s.check = CT_DATA;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), n);
	ct_pair_close(&p);
}

/* A READ that is posted after a WRITE has completed returns the written data. */
static void
read_after_write(void)
{
	struct ct_pair p;
	struct target t;
	struct ct_spec s;
	uint32_t i;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, MIB, LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE, 1);
	for (i = 0; i < 20; i++) {
		uint64_t size = 1 + ct_mix(i) % 100000;

		s = spec_at(LEAT_OP_WRITE, p.pa, &t, size, 100 + i);
		CT_EQ(ct_one(&p.a, &s, NULL), 0, "write");
		s = spec_at(LEAT_OP_READ, p.pa, &t, size, 100 + i);
		s.check = CT_DATA;
		CT_EQ(ct_one(&p.a, &s, NULL), 0, "read");
	}
	ct_pair_close(&p);
}

/* Both sides write into and read from each other at the same time. */
static void
both_ways(void)
{
	const uint32_t n = ct_scaled(200);
	struct ct_pair p;
	struct target ta, tb;
	struct ct_spec s;
	int wa, wb, ra, rb;
	uint32_t i;

	ct_pair_open(&p, NULL, NULL);
	ta = expose(&p.a, n * 5000, LEAT_MR_REMOTE_WRITE, 1);
	tb = expose(&p.b, n * 5000, LEAT_MR_REMOTE_WRITE, 1);
	s = spec_at(LEAT_OP_WRITE, p.pa, &tb, 5000, 1000);
	s.count = n;
	s.rstride = 5000;
	wa = ct_stream(&p.a, &s);
	s.peer = p.pb;
	s.raddr = ta.rkey.addr;
	s.rkey = ta.rkey.key;
	s.seed = 2000;
	wb = ct_stream(&p.b, &s);
	ct_wait_ok(&p.a, wa, n);
	ct_wait_ok(&p.b, wb, n);
	for (i = 0; i < n; i++) {
		ct_mr_check(&p.b, tb.mr, i * UINT64_C(5000), 5000, 1000 + i, 0);
		ct_mr_check(&p.a, ta.mr, i * UINT64_C(5000), 5000, 2000 + i, 0);
	}
	ta = expose(&p.a, MIB, LEAT_MR_REMOTE_READ, 11);
	tb = expose(&p.b, MIB, LEAT_MR_REMOTE_READ, 12);
	s = spec_at(LEAT_OP_READ, p.pa, &tb, 20000, 12);
	s.count = 40;
	s.rstride = 25000;
	s.check = CT_DATA;
	ra = ct_stream(&p.a, &s);
	s.peer = p.pb;
	s.raddr = ta.rkey.addr;
	s.rkey = ta.rkey.key;
	s.seed = 11;
	rb = ct_stream(&p.b, &s);
	ct_wait_ok(&p.a, ra, 40);
	ct_wait_ok(&p.b, rb, 40);
	ct_pair_close(&p);
}

/*
 * A WRITE_IMM completes one RECV at the target, which reports the immediate; the RECV's buffer
 * keeps its poison.
 */
static void
write_imm_every_size(void)
{
	uint64_t sizes[16];
	unsigned int i, n = ct_sizes(sizes, RTE_DIM(sizes));
	struct ct_result res;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < n; i++) {
		struct target t = expose(&p.b, sizes[i] + 8, LEAT_MR_REMOTE_WRITE, 4000 + i);
		struct ct_spec s = spec_at(LEAT_OP_WRITE_IMM, p.pa, &t, sizes[i], 100 * i);
		struct ct_spec r = { .type = LEAT_OP_RECV,
				     .peer = LEAT_PEER_ANY,
				     .count = 1,
				     .size = sizes[i],
				     .bufsize = 64,
				     .imm = UINT64_C(0x8000000012345678) + i,
				     .check = CT_IMM };
		int rx = ct_stream(&p.b, &r);

		s.imm = UINT64_C(0x8000000012345678) + i;
		CT_EQ(ct_one(&p.a, &s, NULL), 0, "write_imm");
		ct_wait_ok(&p.b, rx, 1);
		ct_result(&p.b, rx, &res);
		CT_EQ(res.nb_written, 1, "receives that tell of a write");
		ct_mr_check(&p.b, t.mr, 0, sizes[i], 100 * i, 0);
		CT_EQ(ct_mr_dereg(&p.b, t.mr), 0, "deregister");
	}
	ct_pair_close(&p);
}

/* WRITE_IMMs that arrive before their RECVs are posted complete these RECVs later. */
static void
write_imm_before_receive(void)
{
	struct ct_result res;
	struct ct_pair p;
	struct target t;
	struct ct_spec s, r = { .type = LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.count = 10,
				.size = 100,
				.imm = 70,
				.check = ct.info.write_order ? CT_IMM : 0 };
	uint64_t i, sum = 0, sumsq = 0;
	int tx, rx;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, 4096, LEAT_MR_REMOTE_WRITE, 1);
	s = spec_at(LEAT_OP_WRITE_IMM, p.pa, &t, 100, 9);
	s.count = 10;
	s.rstride = 100;
	s.imm = 70;
	tx = ct_stream(&p.a, &s);
	ct_pump_us(5000);
	rx = ct_stream(&p.b, &r);
	ct_wait_ok(&p.a, tx, 10);
	ct_wait_ok(&p.b, rx, 10);
	ct_result(&p.b, rx, &res);
	CT_EQ(res.nb_written, 10, "receives that tell of a write");
	for (i = 70; i < 80; i++) {
		sum += i;
		sumsq += i * i;
	}
	CT_EQ(res.sum, sum, "sum of the immediates");
	CT_EQ(res.sumsq, sumsq, "sum of their squares");
	ct_pair_close(&p);
}

/* Messages and WRITE_IMMs complete receives of the same queue: none is lost. */
static void
write_imm_among_messages(void)
{
	const uint32_t n = ct_scaled(100);
	struct ct_result res;
	struct ct_pair p;
	struct target t;
	struct ct_spec s, r = { .type = LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.size = 64,
				.window = 64,
				.check = CT_SELF };
	int tx, tw, rx;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, 64, LEAT_MR_REMOTE_WRITE, 1);
	r.count = 2 * n;
	rx = ct_stream(&p.b, &r);
	s = spec_at(LEAT_OP_WRITE_IMM, p.pa, &t, 64, 9);
	s.count = n;
	tw = ct_stream(&p.a, &s);
	s = (struct ct_spec){
		.type = LEAT_OP_SEND, .peer = p.pa, .count = n, .size = 64, .seed = 1000
	};
	tx = ct_stream(&p.a, &s);
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.a, tw, n);
	ct_wait(&p.b, rx, 2 * n, &res);
	CT_CHECK(res.ok == 2 * n, "%u of %u right: %s", res.ok, 2 * n, res.text);
	CT_EQ(res.nb_written, n, "receives that tell of a write");
	CT_EQ(res.sum, n * UINT64_C(1000) + (uint64_t)n * (n - 1) / 2,
	      "sum of the messages' seeds");
	ct_pair_close(&p);
}

static void
fetch_add(void)
{
	const uint32_t n = ct_scaled(300);
	struct ct_pair p;
	struct target t;
	struct ct_spec s;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, 64, LEAT_MR_REMOTE_ATOMIC, 5);
	ct_mr_poke(&p.b, t.mr, 8, UINT64_MAX - 10);
	s = spec_at(LEAT_OP_FETCH_ADD, p.pa, &t, 8, 0);
	s.raddr += 8;
	s.count = n;
	s.window = 1;
	s.operand = 3;
	s.compare = UINT64_MAX - 10;
	s.check = CT_OLD;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), n);
	CT_EQ(ct_mr_peek(&p.b, t.mr, 8), UINT64_MAX - 10 + 3 * (uint64_t)n, "sum");
	ct_mr_check(&p.b, t.mr, 0, 8, 5, 0);
	ct_mr_check(&p.b, t.mr, 16, 48, 5, 16);
	ct_pair_close(&p);
}

static void
cmp_swap(void)
{
	struct ct_pair p;
	struct target t;
	struct ct_spec s;
	struct ct_result res;

	ct_pair_open(&p, NULL, NULL);
	t = expose(&p.b, 64, LEAT_MR_REMOTE_ATOMIC, 5);
	ct_mr_poke(&p.b, t.mr, 0, 42);
	s = spec_at(LEAT_OP_CMP_SWAP, p.pa, &t, 8, 0);
	s.compare = 41;
	s.operand = 7;
	CT_EQ(ct_one(&p.a, &s, &res), 0, "cmp_swap");
	CT_EQ(res.sum, 42, "old value where it does not compare");
	CT_EQ(ct_mr_peek(&p.b, t.mr, 0), 42, "value where it did not compare");
	s.compare = 42;
	s.operand = UINT64_C(0xdeadbeefcafef00d);
	CT_EQ(ct_one(&p.a, &s, &res), 0, "cmp_swap");
	CT_EQ(res.sum, 42, "old value where it compares");
	CT_EQ(ct_mr_peek(&p.b, t.mr, 0), UINT64_C(0xdeadbeefcafef00d), "value where it compared");
	ct_mr_check(&p.b, t.mr, 8, 56, 5, 8);
	ct_pair_close(&p);
}

/* Two peers add to one word: every value from 0 on is seen as old value exactly once. */
static void
fetch_add_two_peers(void)
{
	const uint32_t n = ct_scaled(400);
	struct ct_result rb, rc;
	uint64_t i, sum = 0, sumsq = 0;
	struct ct_trio t;
	struct target g;
	struct ct_spec s;
	int b, c;

	ct_trio_open(&t, NULL);
	g = expose(&t.a, 8, LEAT_MR_REMOTE_ATOMIC, 5);
	ct_mr_poke(&t.a, g.mr, 0, 0);
	s = spec_at(LEAT_OP_FETCH_ADD, t.ab, &g, 8, 0);
	s.count = n;
	s.operand = 1;
	b = ct_stream(&t.b, &s);
	s.peer = t.ac;
	c = ct_stream(&t.c, &s);
	ct_wait_ok(&t.b, b, n);
	ct_wait_ok(&t.c, c, n);
	ct_result(&t.b, b, &rb);
	ct_result(&t.c, c, &rc);
	for (i = 0; i < 2 * n; i++) {
		sum += i;
		sumsq += i * i;
	}
	CT_EQ(ct_mr_peek(&t.a, g.mr, 0), 2 * n, "final value");
	CT_EQ(rb.sum + rc.sum, sum, "sum of the old values");
	CT_EQ(rb.sumsq + rc.sumsq, sumsq, "sum of their squares");
	ct_trio_close(&t);
}

/* Two peers increment one word by compare and swap until each has succeeded n times. */
static void
cmp_swap_two_peers(void)
{
	const uint32_t n = ct_scaled(100);
	struct ct_trio t;
	struct target g;
	struct ct_spec s;
	int b, c;

	ct_trio_open(&t, NULL);
	g = expose(&t.a, 8, LEAT_MR_REMOTE_ATOMIC, 5);
	ct_mr_poke(&t.a, g.mr, 0, 0);
	s = spec_at(LEAT_OP_CMP_SWAP, t.ab, &g, 8, 0);
	s.count = n;
	s.check = CT_CASLOOP;
	b = ct_stream(&t.b, &s);
	s.peer = t.ac;
	c = ct_stream(&t.c, &s);
	ct_wait(&t.b, b, n, NULL);
	ct_wait(&t.c, c, n, NULL);
	CT_EQ(ct_mr_peek(&t.a, g.mr, 0), 2 * n, "final value");
	ct_trio_close(&t);
}

/* The key of a part of a region gives access to that part. */
static void
rkey_of_a_part(void)
{
	struct ct_pair p;
	struct ct_node *node;
	struct leat_rkey rk;
	struct ct_spec s;
	int mr;

	ct_pair_open(&p, NULL, NULL);
	mr = ct_mr(&p.a, 10000, LEAT_MR_REMOTE_READ, 6, NULL);
	node = ct_node(&p.a);
	CT_EQ(leat_mr_rkey(node->regions[mr].mr, node->regions[mr].mem + 3000, 4000, &rk), 0,
	      "rkey");
	CT_EQ(rk.len, 4000, "length of the part");
	s = (struct ct_spec){ .type = LEAT_OP_READ,
			      .peer = p.pb,
			      .size = 4000,
			      .seed = 6,
			      .off = 3000,
			      .raddr = rk.addr,
			      .rkey = rk.key,
			      .check = CT_DATA };
	CT_EQ(ct_one(&p.b, &s, NULL), 0, "read");
	ct_pair_close(&p);
}

const struct ct_test ct_tests_onesided[] = {
	{ .name = "ops.write_every_size", .fn = write_every_size, .ops = W },
	{ .name = "ops.write_burst", .fn = write_burst, .ops = W },
	{ .name = "ops.read_every_size", .fn = read_every_size, .ops = R },
	{ .name = "ops.read_burst", .fn = read_burst, .ops = R },
	{ .name = "ops.read_after_write", .fn = read_after_write, .ops = W | R },
	{ .name = "ops.onesided_both_ways", .fn = both_ways, .ops = W | R },
	{ .name = "ops.write_imm_every_size", .fn = write_imm_every_size, .ops = WI | SR },
	{ .name = "ops.write_imm_before_receive", .fn = write_imm_before_receive, .ops = WI | SR },
	{ .name = "ops.write_imm_among_messages", .fn = write_imm_among_messages, .ops = WI | SR },
	{ .name = "ops.fetch_add", .fn = fetch_add, .ops = FA },
	{ .name = "ops.cmp_swap", .fn = cmp_swap, .ops = CS },
	{ .name = "ops.fetch_add_two_peers", .fn = fetch_add_two_peers, .ops = FA },
	{ .name = "ops.cmp_swap_two_peers", .fn = cmp_swap_two_peers, .ops = CS },
	{ .name = "ops.rkey_of_a_part", .fn = rkey_of_a_part, .ops = R },
	{ .name = NULL },
};
