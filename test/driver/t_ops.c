/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages: every size, tags, immediates, sources. */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

static uint32_t
count_for(uint64_t size)
{
	if (size >= 16 * MIB)
		return ct.scale >= 100 ? 2 : 1;
	return ct_scaled(size >= MIB ? 8 : 50);
}

/* Send count_for() messages of each size, in one direction or in both at once. */
static void
every_size(uint8_t send, uint8_t recv, bool both)
{
	uint64_t sizes[16];
	unsigned int i, k, n = ct_sizes(sizes, RTE_DIM(sizes));
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < n; i++) {
		uint32_t count = count_for(sizes[i]);
		int rx[2], tx[2];

		for (k = 0; k < 2; k++) {
			struct ct_spec spec = { .type = recv,
						.peer = LEAT_PEER_ANY,
						.count = count,
						.size = sizes[i],
						.seed = 1000 * i + 500 * k,
						.tag = k + 1,
						.check = CT_DATA };
			struct ct_side *from = k == 0 ? &p.a : &p.b, *to = k == 0 ? &p.b : &p.a;

			rx[k] = ct_stream(to, &spec);
			spec.type = send;
			spec.peer = k == 0 ? p.pa : p.pb;
			tx[k] = ct_stream(from, &spec);
			if (both && k == 0)
				continue;
			if (both)
				ct_wait_ok(&p.a, tx[0], count);
			ct_wait_ok(from, tx[k], count);
			ct_wait_ok(to, rx[k], count);
			if (both)
				ct_wait_ok(&p.b, rx[0], count);
		}
	}
	ct_pair_close(&p);
}

static void
send_every_size(void)
{
	every_size(LEAT_OP_SEND, LEAT_OP_RECV, false);
}

static void
send_both_ways(void)
{
	every_size(LEAT_OP_SEND, LEAT_OP_RECV, true);
}

static void
tsend_every_size(void)
{
	every_size(LEAT_OP_TSEND, LEAT_OP_TRECV, false);
}

static void
tsend_both_ways(void)
{
	every_size(LEAT_OP_TSEND, LEAT_OP_TRECV, true);
}

static void
random_sizes(void)
{
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	ct_traffic(&p.a, p.pa, &p.b, ct_scaled(3000), 1, 20000, ct.seed);
	ct_traffic(&p.b, p.pb, &p.a, ct_scaled(3000), 1, 20000, ct.seed + 1);
	ct_traffic(&p.a, p.pa, &p.b, ct_scaled(60), 1, MIB, ct.seed + 2);
	ct_pair_close(&p);
}

/* A message is shorter than the buffer of its receive: op.len is the message's length. */
static void
short_message(void)
{
	struct ct_spec spec = { .type = LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.count = 200,
				.size = 1,
				.size_max = 3000,
				.bufsize = 70000,
				.seed = 9,
				.check = CT_DATA };
	struct ct_pair p;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	rx = ct_stream(&p.b, &spec);
	spec.type = LEAT_OP_SEND;
	spec.peer = p.pa;
	tx = ct_stream(&p.a, &spec);
	ct_wait_ok(&p.a, tx, 200);
	ct_wait_ok(&p.b, rx, 200);
	ct_pair_close(&p);
}

/* Receives that are posted after the messages were sent get these messages. */
static void
receive_comes_late(void)
{
	struct ct_spec spec = { .type = LEAT_OP_SEND,
				.count = 40,
				.size = 1,
				.size_max = 200000,
				.seed = 10,
				.check = CT_DATA };
	struct ct_pair p;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	spec.peer = p.pa;
	tx = ct_stream(&p.a, &spec);
	ct_pump_us(5000);
	spec.type = LEAT_OP_RECV;
	spec.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &spec);
	ct_wait_ok(&p.b, rx, 40);
	ct_wait_ok(&p.a, tx, 40);
	ct_pair_close(&p);
}

static struct ct_spec
tagged(uint8_t type, uint16_t peer, uint64_t tag, uint64_t ignore, uint64_t seed)
{
	return (struct ct_spec){ .type = type,
				 .peer = peer,
				 .count = 1,
				 .size = 300,
				 .seed = seed,
				 .tag = tag,
				 .ignore = ignore,
				 .queue = CT_Q_NONE,
				 .check = CT_DATA };
}

/* Messages with four tags, sent in a different order than the receives: each completes its own. */
static void
tag_exact(void)
{
	static const uint64_t tags[] = { 5, UINT64_MAX, UINT64_C(1) << 63, 0 };
	static const unsigned int order[] = { 2, 0, 3, 1 };
	struct ct_pair p;
	struct ct_spec s;
	int rx[4], tx[4];
	unsigned int i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < 4; i++) {
		s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, tags[i], 0, 100 + i);
		s.check |= CT_TAG;
		rx[i] = ct_stream(&p.b, &s);
	}
	for (i = 0; i < 4; i++) {
		s = tagged(LEAT_OP_TSEND, p.pa, tags[order[i]], 0, 100 + order[i]);
		tx[i] = ct_stream(&p.a, &s);
		ct_wait_ok(&p.a, tx[i], 1);
		ct_wait_ok(&p.b, rx[order[i]], 1);
	}
	ct_pair_close(&p);
}

/* Ignored bits of the tag match any value; the receive's tag_in is the whole tag of the message. */
static void
tag_ignore(void)
{
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int rx_low, rx_all;

	ct_pair_open(&p, NULL, NULL);
	s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, UINT64_C(1) << 32, UINT32_MAX, 1);
	rx_low = ct_stream(&p.b, &s);
	s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, 0, UINT64_MAX, 2);
	rx_all = ct_stream(&p.b, &s);
	/* This tag matches only the second receive. */
	s = tagged(LEAT_OP_TSEND, p.pa, (UINT64_C(1) << 33) + 7, 0, 2);
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 1);
	ct_wait_ok(&p.b, rx_all, 1);
	ct_result(&p.b, rx_all, &res);
	CT_EQ(res.last_tag, (UINT64_C(1) << 33) + 7, "tag that arrived");
	s = tagged(LEAT_OP_TSEND, p.pa, (UINT64_C(1) << 32) + 0xabcdef, 0, 1);
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 1);
	ct_wait_ok(&p.b, rx_low, 1);
	ct_result(&p.b, rx_low, &res);
	CT_EQ(res.last_tag, (UINT64_C(1) << 32) + 0xabcdef, "tag that arrived");
	ct_pair_close(&p);
}

/*
 * If two receives match a message, the older receive gets it. If two messages match a receive, it
 * gets the older message.
 */
static void
tag_oldest_first(void)
{
	struct ct_pair p;
	struct ct_spec s;
	int rx1, rx2, tx;

	ct_pair_open(&p, NULL, NULL);
	s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, 0, UINT64_MAX, 21);
	rx1 = ct_stream(&p.b, &s);
	s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, 4, 0, 22);
	rx2 = ct_stream(&p.b, &s);
	s = tagged(LEAT_OP_TSEND, p.pa, 4, 0, 21);
	s.count = 2;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 2);
	ct_wait_ok(&p.b, rx1, 1);
	ct_wait_ok(&p.b, rx2, 1);
	/*
	 * Now the messages arrive before their receives are posted, and must match in the same
	 * order.
	 */
	s.seed = 31;
	tx = ct_stream(&p.a, &s);
	ct_pump_us(2000);
	s = tagged(LEAT_OP_TRECV, LEAT_PEER_ANY, 0, UINT64_MAX, 31);
	s.count = 2;
	ct_wait_ok(&p.b, ct_stream(&p.b, &s), 2);
	ct_wait_ok(&p.a, tx, 2);
	ct_pair_close(&p);
}

/* Tagged and untagged messages do not mix. */
static void
tagged_and_untagged_apart(void)
{
	struct ct_spec s = { .count = 20, .size = 900, .check = CT_DATA };
	struct ct_pair p;
	int trx, rx, ttx, tx;

	ct_pair_open(&p, NULL, NULL);
	s.queue = CT_Q_NONE;
	s.peer = LEAT_PEER_ANY;
	s.type = LEAT_OP_TRECV;
	s.ignore = UINT64_MAX;
	s.seed = 100;
	trx = ct_stream(&p.b, &s);
	s.type = LEAT_OP_RECV;
	s.seed = 200;
	rx = ct_stream(&p.b, &s);
	s.peer = p.pa;
	s.type = LEAT_OP_SEND;
	tx = ct_stream(&p.a, &s);
	s.type = LEAT_OP_TSEND;
	s.seed = 100;
	ttx = ct_stream(&p.a, &s);
	ct_wait_ok(&p.a, tx, 20);
	ct_wait_ok(&p.a, ttx, 20);
	ct_wait_ok(&p.b, rx, 20);
	ct_wait_ok(&p.b, trx, 20);
	ct_pair_close(&p);
}

static void
imm(uint8_t send, uint8_t recv)
{
	struct ct_spec s = { .count = 30,
			     .size = 0,
			     .size_max = 6000,
			     .seed = 5,
			     .imm = UINT64_C(0xfedcba9876543210),
			     .check = CT_DATA | CT_IMM };
	struct ct_result res;
	struct ct_pair p;
	int rx;

	ct_pair_open(&p, NULL, NULL);
	s.type = recv;
	s.peer = LEAT_PEER_ANY;
	rx = ct_stream(&p.b, &s);
	s.type = send;
	s.peer = p.pa;
	s.flags = LEAT_OP_F_IMM;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 30);
	ct_wait_ok(&p.b, rx, 30);
	/* Messages without an immediate follow: their receives must not report one. */
	s.type = recv;
	s.peer = LEAT_PEER_ANY;
	s.flags = 0;
	s.check = CT_DATA;
	rx = ct_stream(&p.b, &s);
	s.type = send;
	s.peer = p.pa;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 30);
	ct_wait(&p.b, rx, 30, &res);
	CT_EQ(res.ok, 30, "messages without an immediate");
	CT_EQ(res.nb_imm, 0, "of them with LEAT_OP_F_IMM");
	CT_EQ(res.nb_written, 0, "of them with LEAT_OP_F_WRITTEN");
	ct_pair_close(&p);
}

static void
send_imm(void)
{
	imm(LEAT_OP_SEND, LEAT_OP_RECV);
}

static void
tsend_imm(void)
{
	imm(LEAT_OP_TSEND, LEAT_OP_TRECV);
}

static struct ct_spec
msg(uint8_t type, uint16_t peer, uint32_t count, uint64_t seed)
{
	return (struct ct_spec){ .type = type,
				 .peer = peer,
				 .count = count,
				 .size = 1,
				 .size_max = 9000,
				 .seed = seed,
				 .check = CT_DATA,
				 .queue = CT_Q_NONE };
}

/* A receive for one peer never gets another peer's message, whether receive or message is first. */
static void
directed(uint8_t send, uint8_t recv)
{
	struct ct_trio t;
	struct ct_spec s;
	int rxb, rxc, tx;

	ct_trio_open(&t, NULL);
	s = msg(recv, t.pc, 20, 300);
	rxc = ct_stream(&t.a, &s);
	s = msg(recv, t.pb, 20, 200);
	rxb = ct_stream(&t.a, &s);
	s = msg(send, t.ab, 20, 200);
	ct_wait_ok(&t.b, ct_stream(&t.b, &s), 20);
	ct_wait_ok(&t.a, rxb, 20);
	s = msg(send, t.ac, 20, 300);
	ct_wait_ok(&t.c, ct_stream(&t.c, &s), 20);
	ct_wait_ok(&t.a, rxc, 20);
	/* Now the message arrives before its receive is posted. */
	s = msg(send, t.ab, 1, 400);
	s.size = s.size_max = 8;
	tx = ct_stream(&t.b, &s);
	ct_pump_us(2000);
	s = msg(recv, t.pc, 1, 500);
	rxc = ct_stream(&t.a, &s);
	s = msg(recv, t.pb, 1, 400);
	s.size = s.size_max = 8;
	ct_wait_ok(&t.a, ct_stream(&t.a, &s), 1);
	ct_wait_ok(&t.b, tx, 1);
	s = msg(send, t.ac, 1, 500);
	ct_wait_ok(&t.c, ct_stream(&t.c, &s), 1);
	ct_wait_ok(&t.a, rxc, 1);
	ct_trio_close(&t);
}

static void
directed_recv(void)
{
	directed(LEAT_OP_SEND, LEAT_OP_RECV);
}

static void
directed_trecv(void)
{
	directed(LEAT_OP_TSEND, LEAT_OP_TRECV);
}

/* src tells which peer sent the message. */
static void
src(void)
{
	struct ct_trio t;
	struct ct_spec s;
	int rx;

	ct_trio_open(&t, NULL);
	s = msg(LEAT_OP_RECV, LEAT_PEER_ANY, 30, 200);
	s.check |= CT_SRC;
	s.src = t.pb;
	rx = ct_stream(&t.a, &s);
	s = msg(LEAT_OP_SEND, t.ab, 30, 200);
	ct_wait_ok(&t.b, ct_stream(&t.b, &s), 30);
	ct_wait_ok(&t.a, rx, 30);
	s = msg(LEAT_OP_RECV, LEAT_PEER_ANY, 30, 300);
	s.check |= CT_SRC;
	s.src = t.pc;
	rx = ct_stream(&t.a, &s);
	s = msg(LEAT_OP_SEND, t.ac, 30, 300);
	ct_wait_ok(&t.c, ct_stream(&t.c, &s), 30);
	ct_wait_ok(&t.a, rx, 30);
	ct_trio_close(&t);
}

/* Two senders at once into receives for any peer: no message is lost or mixed up. */
static void
two_senders(void)
{
	const uint32_t n = ct_scaled(500);
	uint64_t sum = 0;
	struct ct_result res;
	struct ct_trio t;
	struct ct_spec s;
	int rx, tb, tc;
	uint32_t i;

	ct_trio_open(&t, NULL);
	s = msg(LEAT_OP_RECV, LEAT_PEER_ANY, 2 * n, 0);
	s.check = CT_SELF;
	s.bufsize = 9000;
	s.window = 64;
	rx = ct_stream(&t.a, &s);
	s = msg(LEAT_OP_SEND, t.ab, n, 100000);
	s.size = 8;
	tb = ct_stream(&t.b, &s);
	s = msg(LEAT_OP_SEND, t.ac, n, 200000);
	s.size = 8;
	tc = ct_stream(&t.c, &s);
	ct_wait_ok(&t.b, tb, n);
	ct_wait_ok(&t.c, tc, n);
	ct_wait(&t.a, rx, 2 * n, &res);
	CT_CHECK(res.ok == 2 * n, "%u of %u right: %s", res.ok, 2 * n, res.text);
	for (i = 0; i < n; i++)
		sum += 100000 + i + 200000 + i;
	CT_EQ(res.sum, sum, "sum of the seeds of all messages");
	ct_trio_close(&t);
}

const struct ct_test ct_tests_ops[] = {
	{ .name = "ops.send_every_size", .fn = send_every_size, .ops = SR },
	{ .name = "ops.send_both_ways", .fn = send_both_ways, .ops = SR },
	{ .name = "ops.tsend_every_size", .fn = tsend_every_size, .ops = TSR },
	{ .name = "ops.tsend_both_ways", .fn = tsend_both_ways, .ops = TSR },
	{ .name = "ops.random_sizes", .fn = random_sizes, .ops = SR },
	{ .name = "ops.short_message_in_large_buffer", .fn = short_message, .ops = SR },
	{ .name = "ops.receive_comes_late", .fn = receive_comes_late, .ops = SR },
	{ .name = "ops.tag_exact", .fn = tag_exact, .ops = TSR },
	{ .name = "ops.tag_ignore", .fn = tag_ignore, .ops = TSR },
	{ .name = "ops.tag_oldest_first", .fn = tag_oldest_first, .ops = TSR },
	{ .name = "ops.tagged_and_untagged_apart",
	  .fn = tagged_and_untagged_apart,
	  .ops = SR | TSR },
	{ .name = "ops.send_imm", .fn = send_imm, .ops = SR, .caps = CT_CAP_SEND_IMM },
	{ .name = "ops.tsend_imm", .fn = tsend_imm, .ops = TSR, .caps = CT_CAP_SEND_IMM },
	{ .name = "ops.directed_recv", .fn = directed_recv, .ops = SR, .caps = CT_CAP_DIRECTED },
	{ .name = "ops.directed_trecv", .fn = directed_trecv, .ops = TSR, .caps = CT_CAP_DIRECTED },
	{ .name = "ops.src", .fn = src, .ops = SR, .caps = CT_CAP_SOURCE },
	{ .name = "ops.two_senders", .fn = two_senders, .ops = SR },
	{ .name = NULL },
};
