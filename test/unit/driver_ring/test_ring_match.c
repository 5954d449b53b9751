/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Matching: the order of receives and of unexpected messages, also when some of either are
 * cancelled; random ops against a model; keys of regions.
 */

#include "ring_test.h"

#include <errno.h>
#include <string.h>

#include <leat_error.h>

/* Receives that name a peer and receives that do not: the one posted first takes the message. */
static void
directed_and_any(void **state)
{
	struct leat_op r[6], s[6];
	uint64_t in[6], out[6];
	struct ring_pair p;
	int i;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	for (i = 0; i < 6; i++) {
		r[i] = ring_test_recv(&in[i], 8);
		if (i == 1 || i == 2 || i == 4)
			r[i].peer = p.pb;
		ring_test_post(p.b, &r[i]);
	}
	/* one receive of each kind is cancelled */
	assert_int_equal(leat_op_cancel(p.b, &r[2]), 0);
	assert_int_equal(leat_op_cancel(p.b, &r[3]), 0);
	for (i = 0; i < 6; i++) {
		out[i] = (uint64_t)i;
		s[i] = ring_test_send(p.pa, &out[i], 8);
		ring_test_post(p.a, &s[i]);
	}
	for (i = 0; i < 6; i++) {
		assert_ptr_equal(ring_test_wait(p.b), &r[i]);
		assert_int_equal(r[i].status, i == 2 || i == 3 ? -ECANCELED : 0);
	}
	assert_int_equal(in[0], 0);
	assert_int_equal(in[1], 1);
	assert_int_equal(in[4], 2);
	assert_int_equal(in[5], 3);
	for (i = 0; i < 6; i++)
		assert_ptr_equal(ring_test_wait(p.a), &s[i]);
	/* messages 4 and 5 found no receive and wait: the older one is taken first */
	for (i = 4; i < 6; i++) {
		ring_test_post(p.b, &r[i]);
		assert_ptr_equal(ring_test_wait(p.b), &r[i]);
		assert_int_equal(in[i], i);
		assert_int_equal(r[i].src, p.pb);
	}
	ring_pair_close(&p);
}

/*
 * Each tagged message goes to the receive that was posted first among those that match, with or
 * without a peer, with or without ignored bits.
 */
static void
tags(void **state)
{
	/*
	 * Receives r[i], tags of the messages s[i], and the receive that takes each message; -1:
	 * none.
	 */
	static const struct {
		uint64_t tag, ignore;
		bool named;
	} want[] = {
		{ 0x10, 0, false },	 { 0x20, 0xf, true },  { 0x20, 0, false },
		{ 0, UINT64_MAX, true }, { 0x20, 0xf, false },
	};
	static const uint64_t sent[] = { 0x20, 0x20, 0x21, 0x10, 0x77 };
	static const int taken_by[] = { 1, 2, 3, 0, -1 };
	struct leat_op r[5], s[5];
	uint64_t in[5], out[5];
	struct ring_pair p;
	int i;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	for (i = 0; i < 5; i++) {
		r[i] = ring_test_recv(&in[i], 8);
		r[i].type = LEAT_OP_TRECV;
		r[i].tag = want[i].tag;
		r[i].ignore = want[i].ignore;
		r[i].queue = LEAT_QUEUE_NONE;
		if (want[i].named)
			r[i].peer = p.pb;
		ring_test_post(p.b, &r[i]);
	}
	for (i = 0; i < 5; i++) {
		out[i] = (uint64_t)i;
		s[i] = ring_test_send(p.pa, &out[i], 8);
		s[i].type = LEAT_OP_TSEND;
		s[i].tag = sent[i];
		ring_test_post(p.a, &s[i]);
	}
	for (i = 0; i < 5; i++)
		assert_ptr_equal(ring_test_wait(p.a), &s[i]);
	for (i = 0; i < 4; i++) {
		struct leat_op *op = &r[taken_by[i]];

		assert_ptr_equal(ring_test_wait(p.b), op);
		assert_int_equal(op->status, 0);
		assert_int_equal(op->tag_in, sent[i]);
		assert_int_equal(*(uint64_t *)op->buf, i);
	}
	/* 0x77 waits, since r[4] does not match it; the next 0x20 overtakes it. */
	ring_test_post(p.a, &s[0]);
	assert_ptr_equal(ring_test_wait(p.a), &s[0]);
	assert_ptr_equal(ring_test_wait(p.b), &r[4]);
	assert_int_equal(r[4].tag_in, 0x20);
	ring_test_post(p.b, &r[3]);
	assert_ptr_equal(ring_test_wait(p.b), &r[3]);
	assert_int_equal(r[3].tag_in, 0x77);
	ring_pair_close(&p);
}

/* Large sends that are unexpected and then cancelled give their slots back, without a receive. */
static void
cancelled_unexpected(void **state)
{
	static char big[1000], into[1000];
	struct leat_op s[16], more, r;
	struct ring_pair p;
	int i, round;

	(void)state;
	ring_pair_open(&p, SHALLOW, NULL);
	for (round = 0; round < 5; round++) {
		for (i = 0; i < 16; i++) {
			s[i] = ring_test_send(p.pa, big, sizeof(big));
			s[i].queue = LEAT_QUEUE_NONE;
			if (i % 2 == 1)
				s[i].type = LEAT_OP_TSEND;
			ring_test_post(p.a, &s[i]);
		}
		(void)leat_ep_poll(p.b, NULL, 0);
		for (i = 15; i >= 0; i--) {
			assert_int_equal(leat_op_cancel(p.a, &s[i]), 0);
			assert_ptr_equal(ring_test_wait(p.a), &s[i]);
			assert_int_equal(s[i].status, -ECANCELED);
		}
		more = ring_test_send(p.pa, big, sizeof(big));
		{
			struct leat_op *op = &more;

			assert_int_equal(leat_ep_post(p.a, &op, 1), 0);
		}
		(void)leat_ep_events(p.b, NULL, 0);
		ring_test_post(p.a, &more);
		/* in odd rounds the send is cancelled before the receiver polls, then repeated */
		if (round % 2 == 1) {
			assert_int_equal(leat_op_cancel(p.a, &more), 0);
			assert_ptr_equal(ring_test_wait(p.a), &more);
			assert_int_equal(more.status, -ECANCELED);
			ring_test_post(p.a, &more);
		}
		r = ring_test_recv(into, sizeof(into));
		ring_test_post(p.b, &r);
		assert_ptr_equal(ring_test_wait(p.b), &r);
		assert_int_equal(r.status, 0);
		assert_ptr_equal(ring_test_wait(p.a), &more);
		assert_int_equal(more.status, 0);
	}
	ring_pair_close(&p);
}

/*
 * WRITE_IMM without a receive: the data is placed and acked; the notice waits in order with the
 * messages.
 */
static void
write_imm_unexpected(void **state)
{
	uint64_t mem[4] = { 0 }, value = 9, word = 5, in[2] = { 0 };
	struct leat_op w, s, r[2];
	struct leat_rkey key;
	struct ring_pair p;
	struct leat_mr *mr;
	int i;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	mr = leat_mr_register(p.b, mem, sizeof(mem), LEAT_MR_REMOTE_WRITE);
	assert_non_null(mr);
	assert_int_equal(leat_mr_rkey(mr, mem, sizeof(mem), &key), 0);
	w = ring_test_send(p.pa, &value, 8);
	w.type = LEAT_OP_WRITE_IMM;
	w.raddr = key.addr + 8;
	w.rkey = key.key;
	w.imm = UINT64_MAX - 1;
	s = ring_test_send(p.pa, &word, 8);
	ring_test_post(p.a, &w);
	ring_test_post(p.a, &s);
	assert_ptr_equal(ring_test_wait2(p.a, p.b), &w);
	assert_int_equal(w.status, 0);
	assert_int_equal(mem[1], 9);
	assert_ptr_equal(ring_test_wait(p.a), &s);
	for (i = 0; i < 2; i++) {
		r[i] = ring_test_recv(&in[i], 8);
		ring_test_post(p.b, &r[i]);
		assert_ptr_equal(ring_test_wait(p.b), &r[i]);
	}
	assert_int_equal(r[0].oflags, LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN);
	assert_int_equal(r[0].imm, UINT64_MAX - 1);
	assert_int_equal(r[0].len, 8);
	assert_int_equal(in[0], 0);
	assert_int_equal(r[1].oflags, 0);
	assert_int_equal(in[1], 5);
	assert_int_equal(leat_mr_deregister(mr), 0);
	ring_pair_close(&p);
}

/*
 * A key is invalid once its region is deregistered, even if a new region takes the old one's place
 * in the table.
 */
static void
stale_keys(void **state)
{
	uint64_t mem = 1, value = 2;
	struct leat_rkey key[40];
	struct ring_pair p;
	struct leat_mr *mr;
	struct leat_op w;
	int i, k;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	for (i = 0; i < 40; i++) {
		mr = leat_mr_register(p.b, &mem, 8, LEAT_MR_REMOTE_WRITE);
		assert_non_null(mr);
		assert_int_equal(leat_mr_rkey(mr, &mem, 8, &key[i]), 0);
		for (k = 0; k <= i; k++) {
			w = ring_test_send(p.pa, &value, 8);
			w.type = LEAT_OP_WRITE;
			w.raddr = key[k].addr;
			w.rkey = key[k].key;
			ring_test_post(p.a, &w);
			assert_ptr_equal(ring_test_wait2(p.a, p.b), &w);
			assert_int_equal(w.status, k == i ? 0 : -EACCES);
		}
		assert_int_equal(leat_mr_deregister(mr), 0);
	}
	ring_pair_close(&p);
}

/* ---- random ops against a model ---- */

#define MSGS 3000
#define SLOTS 24 /* limit of posted receives */
#define KINDS 2

struct msg {
	uint64_t nr;
	size_t size;
	int kind;
	uint64_t tag;
};

static struct model {
	struct msg sent[MSGS]; /* unmatched messages, oldest first */
	uint32_t nb_sent;
	struct leat_op *posted[SLOTS]; /* posted receives, oldest first */
	uint32_t nb_posted;
} m;

static uint64_t out[MSGS][32], in[SLOTS][32];
static struct leat_op sends[MSGS], recvs[SLOTS];

static bool
model_fits(const struct leat_op *r, const struct msg *msg)
{
	if ((r->type == LEAT_OP_TRECV) != (msg->kind == 1))
		return false;
	return msg->kind == 0 || ((r->tag ^ msg->tag) & ~r->ignore) == 0;
}

static void
model_unpost(uint32_t i)
{
	m.nb_posted--;
	memmove(&m.posted[i], &m.posted[i + 1], (m.nb_posted - i) * sizeof(m.posted[0]));
}

/* Check that a completed receive has taken the oldest message that it matches. */
static void
model_check(struct leat_op *r)
{
	uint64_t nr = *(uint64_t *)r->buf;
	uint32_t i;

	for (i = 0; i < m.nb_sent && !model_fits(r, &m.sent[i]); i++)
		;
	assert_true(i < m.nb_sent);
	assert_int_equal(m.sent[i].nr, nr);
	assert_int_equal(m.sent[i].size, r->len);
	assert_memory_equal(r->buf, out[nr], r->len);
	m.nb_sent--;
	memmove(&m.sent[i], &m.sent[i + 1], (m.nb_sent - i) * sizeof(m.sent[0]));
	for (i = 0; m.posted[i] != r; i++)
		assert_true(i < m.nb_posted);
	model_unpost(i);
}

static void
take_all(struct ring_pair *p, uint32_t *sends_back)
{
	struct leat_op *ops[8];
	uint16_t i, n;

	do {
		n = leat_ep_poll(p->b, ops, 8);
		for (i = 0; i < n; i++) {
			if (ops[i]->status == 0)
				model_check(ops[i]);
		}
	} while (n > 0);
	while ((n = leat_ep_poll(p->a, ops, 8)) > 0) {
		for (i = 0; i < n; i++)
			assert_int_equal(ops[i]->status, 0);
		*sends_back += n;
	}
}

static void
post_recv(struct ring_pair *p, uint64_t *seed)
{
	struct leat_op *r = NULL;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		if (recvs[i].state == 0) {
			r = &recvs[i];
			break;
		}
	}
	if (r == NULL)
		return;
	*r = ring_test_recv(in[i], sizeof(in[i]));
	r->queue = LEAT_QUEUE_NONE;
	if (test_random(seed) % 2 == 0)
		r->peer = p->pb;
	if (test_random(seed) % 2 == 0) {
		r->type = LEAT_OP_TRECV;
		r->tag = test_random(seed) % 4;
		r->ignore = test_random(seed) % 4;
	}
	m.posted[m.nb_posted++] = r;
	ring_test_post(p->b, r);
}

/*
 * Each receive takes the oldest message that matches, whatever arrived, was posted or was cancelled
 * in between.
 */
static void
random_ones(void **state)
{
	uint64_t seed = 12345;
	uint32_t sent = 0, back = 0, i;
	struct ring_pair p;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	while (sent < MSGS) {
		struct leat_op *s = &sends[sent];
		struct msg *msg = &m.sent[m.nb_sent];

		switch (test_random(&seed) % 8) {
		case 0:
		case 1:
		case 2:
			for (i = 0; i < 32; i++)
				out[sent][i] = sent;
			msg->nr = sent;
			msg->size = 8 + test_random(&seed) % 248;
			msg->kind = (int)(test_random(&seed) % KINDS);
			msg->tag = test_random(&seed) % 4;
			*s = ring_test_send(p.pa, out[sent], msg->size);
			if (msg->kind == 1) {
				s->type = LEAT_OP_TSEND;
				s->tag = msg->tag;
			}
			if (leat_ep_post(p.a, &s, 1) == 1) {
				sent++;
				m.nb_sent++;
			}
			break;
		case 3:
			if (m.nb_posted > 0) {
				i = (uint32_t)(test_random(&seed) % m.nb_posted);
				if (leat_op_cancel(p.b, m.posted[i]) == 0)
					model_unpost(i);
			}
			break;
		case 4:
			take_all(&p, &back);
			break;
		default:
			post_recv(&p, &seed);
			break;
		}
	}
	/* post receives for all remaining messages */
	for (i = 0; back < MSGS && i < 100 * MSGS; i++) {
		post_recv(&p, &seed);
		take_all(&p, &back);
		if (m.nb_posted > SLOTS / 2 && leat_op_cancel(p.b, m.posted[0]) == 0)
			model_unpost(0);
		take_all(&p, &back);
	}
	assert_int_equal(back, MSGS);
	while (m.nb_posted > 0) {
		assert_int_equal(leat_op_cancel(p.b, m.posted[0]), 0);
		model_unpost(0);
	}
	take_all(&p, &back);
	ring_pair_close(&p);
}

/*
 * Many receives are cancelled, in all orders, which leaves gaps to be closed while others are
 * posted.
 */
static void
gaps(void **state)
{
	static struct leat_op r[64];
	static uint64_t got[64];
	struct leat_ep_conf conf = { .rx_depth = 64 };
	uint64_t word, seed = 99;
	struct ring_pair p;
	struct leat_op s, *op;
	uint32_t i, k, round;

	(void)state;
	ring_pair_open(&p, PLAIN, &conf);
	for (round = 0; round < 200; round++) {
		uint32_t left = 0;

		for (i = 0; i < 64; i++) {
			r[i] = ring_test_recv(&got[i], 8);
			r[i].queue = LEAT_QUEUE_NONE;
			ring_test_post(p.b, &r[i]);
		}
		/*
		 * each cancelled receive makes room for another one at the end, so that gaps move
		 * through the list
		 */
		for (k = 0; k < 100; k++) {
			i = (uint32_t)(test_random(&seed) % 64);
			assert_int_equal(leat_op_cancel(p.b, &r[i]), 0);
			assert_ptr_equal(ring_test_wait(p.b), &r[i]);
			assert_int_equal(r[i].status, -ECANCELED);
			ring_test_post(p.b, &r[i]);
		}
		for (i = 0; i < 64; i++) {
			if (round % 3 == 0 || test_random(&seed) % 2 == 0) {
				left++;
				continue;
			}
			assert_int_equal(leat_op_cancel(p.b, &r[round % 2 == 0 ? i : 63 - i]), 0);
			assert_non_null(ring_test_wait(p.b));
		}
		for (k = 0; k < left; k++) {
			word = k;
			s = ring_test_send(p.pa, &word, 8);
			ring_test_post(p.a, &s);
			assert_ptr_equal(ring_test_wait(p.a), &s);
			op = ring_test_wait(p.b);
			assert_int_equal(op->status, 0);
			assert_int_equal(*(uint64_t *)op->buf, k);
		}
		assert_int_equal(leat_ep_inflight(p.b), 0);
	}
	ring_pair_close(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directed_and_any),
		cmocka_unit_test(tags),
		cmocka_unit_test(cancelled_unexpected),
		cmocka_unit_test(write_imm_unexpected),
		cmocka_unit_test(stale_keys),
		cmocka_unit_test(random_ones),
		cmocka_unit_test(gaps),
	};

	return cmocka_run_group_tests(tests, ring_test_start, ring_test_stop);
}
