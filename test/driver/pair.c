/* SPDX-License-Identifier: BSD-3-Clause */

/* Pairs and trios of connected endpoints, and common actions on them. */

#include "ct.h"

/* A device may buffer smaller messages before the receiver has posted a receive. */
#define BIG_MIN (UINT64_C(1) << 20)

void
ct_pair_open(struct ct_pair *p, const struct ct_conf *ca, const struct ct_conf *cb)
{
	p->a = ct_near(0);
	p->b = ct_far(0);
	ct_open(&p->a, ca);
	ct_open(&p->b, cb);
	ct_listen(&p->b, p->addr);
	ct_connect(&p->a, &p->b, p->addr, &p->pa, &p->pb);
}

void
ct_pair_close(struct ct_pair *p)
{
	ct_finish(&p->a);
	ct_finish(&p->b);
}

void
ct_trio_open(struct ct_trio *t, const struct ct_conf *ca)
{
	t->a = ct_near(0);
	t->b = ct_far(0);
	t->c = ct_far(1);
	ct_open(&t->a, ca);
	ct_open(&t->b, NULL);
	ct_open(&t->c, NULL);
	ct_listen(&t->a, t->addr);
	ct_connect(&t->b, &t->a, t->addr, &t->ab, &t->pb);
	ct_connect(&t->c, &t->a, t->addr, &t->ac, &t->pc);
}

void
ct_trio_close(struct ct_trio *t)
{
	ct_finish(&t->a);
	ct_finish(&t->b);
	ct_finish(&t->c);
}

void
ct_traffic(struct ct_side *from, uint16_t to_peer, struct ct_side *to, uint32_t count,
	   uint64_t size, uint64_t size_max, uint64_t seed)
{
	struct ct_spec spec = {
		.type = LEAT_OP_RECV,
		.peer = LEAT_PEER_ANY,
		.count = count,
		.size = size,
		.size_max = size_max,
		.seed = seed,
		.check = CT_DATA,
		.window = 64,
	};
	int rx, tx;

	rx = ct_stream(to, &spec);
	spec.type = LEAT_OP_SEND;
	spec.peer = to_peer;
	tx = ct_stream(from, &spec);
	ct_wait_ok(from, tx, count);
	ct_wait_ok(to, rx, count);
}

void
ct_datagrams(struct ct_side *from, uint16_t to_peer, struct ct_side *to, uint32_t count,
	     uint64_t size, uint64_t size_max, uint64_t seed)
{
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = count,
			     .bufsize = ct.info.max_msg,
			     .check = CT_SELF },
		       s = { .type = LEAT_OP_SEND,
			     .peer = to_peer,
			     .count = count,
			     .size = size,
			     .size_max = size_max,
			     .seed = seed };
	int rx = ct_stream(to, &r);
	struct ct_result res;
	uint32_t rounds = 0;

	ct_wait_posted(to, rx, count);
	do {
		CT_CHECK(rounds++ < 40, "%s: of datagrams sent %u times only %u of %u came",
			 to->what, rounds - 1, res.done, count);
		ct_wait_ok(from, ct_stream(from, &s), s.count);
		ct_try_wait(to, rx, count, 200 * ct.slow, &res);
		s.count = count - res.done;
	} while (s.count > 0);
	ct_wait_ok(to, rx, count);
}

void
ct_pair_works(struct ct_pair *p)
{
	if (ct.type == LEAT_EP_DATAGRAM) {
		ct_datagrams(&p->a, p->pa, &p->b, 10, 8, 8000, 0x7001);
		ct_datagrams(&p->b, p->pb, &p->a, 10, 8, 8000, 0x7002);
		return;
	}
	ct_traffic(&p->a, p->pa, &p->b, 10, 8, 8000, 0x7001);
	ct_traffic(&p->b, p->pb, &p->a, 10, 8, 8000, 0x7002);
}

uint64_t
ct_big(void)
{
	if (ct.info.max_msg < BIG_MIN)
		ct_skip("a message of %" PRIu64 " B, the largest, may leave without its receiver",
			ct.info.max_msg);
	return RTE_MIN(ct.info.max_msg, UINT64_C(32) << 20);
}

int
ct_pair_big_sends(struct ct_pair *p, uint32_t count, uint64_t timeout_us)
{
	struct ct_spec s = { .type = LEAT_OP_SEND,
			     .count = count,
			     .size = ct_big(),
			     .seed = 3,
			     .timeout_us = timeout_us };

	ct_pair_open(p, NULL, NULL);
	ct_pair_works(p); /* a device may refuse posts until the peer has answered once */
	ct_freeze(&p->b, true);
	s.peer = p->pa;
	return ct_stream(&p->a, &s);
}

uint32_t
ct_access(void)
{
	uint32_t access = 0;

	access |= (ct.info.ops & R) != 0 ? LEAT_MR_REMOTE_READ : 0;
	access |= (ct.info.ops & (W | WI)) != 0 ? LEAT_MR_REMOTE_WRITE : 0;
	access |= (ct.info.ops & (FA | CS)) != 0 ? LEAT_MR_REMOTE_ATOMIC : 0;
	return access;
}

unsigned int
ct_sizes(uint64_t *sizes, unsigned int max)
{
	uint64_t in = ct.info.inline_max;
	const uint64_t want[] = {
		0,	1,    7,    8,	  in > 0 ? in - 1 : 0, in,
		in + 1, 4095, 4096, 4097, UINT64_C(1) << 20,   UINT64_C(64) << 20
	};
	unsigned int i, k, n = 0;

	for (i = 0; i < RTE_DIM(want) && n < max; i++) {
		if (want[i] > ct.info.max_msg)
			continue;
		for (k = 0; k < n && sizes[k] != want[i]; k++)
			;
		if (k == n)
			sizes[n++] = want[i];
	}
	return n;
}
