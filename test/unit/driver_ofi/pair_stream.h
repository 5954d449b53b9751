/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PAIR_STREAM_H
#define PAIR_STREAM_H

/*
 * stream_send() sends MESSAGES numbers from endpoint a of a pair to b. stream_receive() receives
 * them; until then they wait at b as unexpected messages.
 */

#include "pair.h"

#define MESSAGES 8

struct stream {
	struct leat_op send[MESSAGES], recv[MESSAGES];
	uint64_t out[MESSAGES], in[MESSAGES];
	struct leat_mr *mr_a, *mr_b;
};

static inline void
stream_open(struct stream *s, struct pair *p)
{
	s->mr_a = reg(p->a.ep, s->out, sizeof(s->out), NULL);
	s->mr_b = reg(p->b.ep, s->in, sizeof(s->in), NULL);
}

static inline void
stream_close(struct stream *s)
{
	assert_int_equal(leat_mr_deregister(s->mr_a), 0);
	assert_int_equal(leat_mr_deregister(s->mr_b), 0);
}

/* Send the numbers seed, seed + 1, ... from a to peer; b need not have posted receives. */
static inline void
stream_send(struct stream *s, struct pair *p, uint16_t peer, uint64_t seed)
{
	uint32_t before = p->a.nb_done;
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		s->out[i] = seed + i;
		s->send[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					       .peer = peer,
					       .buf = &s->out[i],
					       .size = sizeof(s->out[i]),
					       .mr = s->mr_a };
		pair_post(p, &p->a, &s->send[i]);
	}
	PAIR_UNTIL(p, p->a.nb_done == before + MESSAGES);
	for (i = 0; i < MESSAGES; i++)
		assert_int_equal(s->send[i].status, 0);
}

/*
 * Receive the numbers seed, seed + 1, ... at b, in this order, from a peer that is up: src, or any
 * if src is LEAT_PEER_ANY.
 */
static inline void
stream_receive(struct stream *s, struct pair *p, uint16_t src, uint64_t seed)
{
	uint32_t before = p->b.nb_done;
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		s->recv[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					       .peer = LEAT_PEER_ANY,
					       .buf = &s->in[i],
					       .size = sizeof(s->in[i]),
					       .mr = s->mr_b };
		pair_post(p, &p->b, &s->recv[i]);
	}
	PAIR_UNTIL(p, p->b.nb_done == before + MESSAGES);
	for (i = 0; i < MESSAGES; i++) {
		assert_int_equal(s->recv[i].status, 0);
		assert_int_equal(s->in[i], seed + i);
		assert_int_equal(leat_ep_peer_state(p->b.ep, s->recv[i].src), LEAT_PEER_UP);
		assert_true(src == LEAT_PEER_ANY || s->recv[i].src == src);
	}
}

#endif /* PAIR_STREAM_H */
