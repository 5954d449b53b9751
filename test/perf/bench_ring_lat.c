/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Half round trip of 8 bytes between two lcores:
 *     leat    SEND and RECV over the ring device, in a loop as an application has it
 *     line    the bare exchange of cache lines: each side writes one and spins on the other's
 *     ring    a pointer through two rte_rings, single producer and consumer
 */

#include <rte_ring.h>

#include "lcores.h"

enum { LEAT, LINE, RING, VARIANTS };

#define RECVS 8

static struct {
	struct lcores l;
	uint32_t n; /* round trips per repeat */
	struct rte_ring *to[2];
	struct {
		uint64_t v __attribute__((aligned(128)));
	} line[2];
	struct side {
		uint64_t out, in[RECVS];
		struct leat_op send __attribute__((aligned(128)));
		struct leat_op recv[RECVS];
	} side[2];
} b;

/* ---- bare ---- */

static void
line_first(uint64_t n)
{
	uint64_t i, base = b.line[0].v;

	for (i = base + 1; i <= base + n; i++) {
		__atomic_store_n(&b.line[0].v, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&b.line[1].v, __ATOMIC_ACQUIRE) != i)
			;
	}
}

static void
line_second(uint64_t n)
{
	uint64_t i, base = b.line[1].v;

	for (i = base + 1; i <= base + n; i++) {
		while (__atomic_load_n(&b.line[0].v, __ATOMIC_ACQUIRE) != i)
			;
		__atomic_store_n(&b.line[1].v, i, __ATOMIC_RELEASE);
	}
}

/* ---- rte_ring ---- */

static void
ring_first(uint64_t n)
{
	void *p;

	while (n-- > 0) {
		while (rte_ring_sp_enqueue(b.to[1], &b) != 0)
			;
		while (rte_ring_sc_dequeue(b.to[0], &p) != 0)
			;
		BENCH_USE(p);
	}
}

static void
ring_second(uint64_t n)
{
	void *p;

	while (n-- > 0) {
		while (rte_ring_sc_dequeue(b.to[1], &p) != 0)
			;
		while (rte_ring_sp_enqueue(b.to[0], p) != 0)
			;
	}
}

/* ---- leat ---- */

static void
prepare(unsigned int i)
{
	struct side *s = &b.side[i];
	struct leat_op *op;
	unsigned int k;

	s->send = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = b.l.peer[i], .buf = &s->out, .size = 8
	};
	for (k = 0; k < RECVS; k++) {
		op = &s->recv[k];
		*op = (struct leat_op){
			.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = &s->in[k], .size = 8
		};
		if (leat_ep_post(b.l.ep[i], &op, 1) != 1)
			bench_die("can't post a receive");
	}
}

/* Poll until the last send has completed and a message has arrived. @return the message's RECV */
static __rte_always_inline struct leat_op *
wait_message(struct leat_ep *ep, bool *sent)
{
	struct leat_op *done[4], *recv = NULL;
	uint16_t i, n;

	while (recv == NULL || !*sent) {
		n = leat_ep_poll(ep, done, 4);
		for (i = 0; i < n; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("op failed: %d", done[i]->status);
			if (done[i]->type == LEAT_OP_RECV)
				recv = done[i];
			else
				*sent = true;
		}
	}
	return recv;
}

static __rte_always_inline void
post(struct leat_ep *ep, struct leat_op *op)
{
	if (unlikely(leat_ep_post(ep, &op, 1) != 1))
		bench_die("can't post");
}

static void
leat_first(uint64_t n)
{
	struct leat_ep *ep = b.l.ep[0];
	struct side *s = &b.side[0];
	struct leat_op *recv = NULL;
	bool sent = true;
	uint64_t i;

	for (i = 0; i < n; i++) {
		s->out = i;
		sent = false;
		post(ep, &s->send);
		/* Repost the last receive after the send: off the critical path. */
		if (likely(recv != NULL))
			post(ep, recv);
		recv = wait_message(ep, &sent);
		if (unlikely(*(uint64_t *)recv->buf != i))
			bench_die("wrong message");
	}
	if (recv != NULL)
		post(ep, recv);
}

static void
leat_second(uint64_t n)
{
	struct leat_ep *ep = b.l.ep[1];
	struct side *s = &b.side[1];
	struct leat_op *recv, *done;
	bool sent = true;

	while (n-- > 0) {
		recv = wait_message(ep, &sent);
		s->out = *(uint64_t *)recv->buf;
		sent = false;
		post(ep, &s->send);
		post(ep, recv);
	}
	while (!sent)
		sent = leat_ep_poll(ep, &done, 1) == 1;
}

/* ---- measurement ---- */

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	(void)arg;
	return (double)lcores_run(&b.l, variant, b.n, false, disturbed) / (2.0 * b.n);
}

int
main(int argc, char **argv)
{
	static const struct lcores_variant variants[] = {
		[LEAT] = { leat_first, leat_second },
		[LINE] = { line_first, line_second },
		[RING] = { ring_first, ring_second },
	};
	static const struct bench_result results[] = {
		{ "ring-lat-line", "ns", BENCH_RATIO_MAX, 1.5, LEAT, LINE, NULL },
		{ "ring-lat-rte_ring", "ns", BENCH_RATIO_MAX, 0.75, LEAT, RING, NULL },
	};
	const struct leat_ep_conf conf = { .name = NULL };
	static struct bench_table t;
	struct bench_args args;
	unsigned int i;

	bench_args(&args, argc, argv);
	lcores_start(&b.l, &args, &conf);
	b.n = args.smoke ? 50 : 2000;
	for (i = 0; i < 2; i++) {
		b.to[i] = rte_ring_create(i == 0 ? "bench0" : "bench1", 256, SOCKET_ID_ANY,
					  RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (b.to[i] == NULL)
			bench_die("can't make a ring");
		prepare(i);
	}
	lcores_launch(&b.l, variants);
	bench_measure(&t, &args, VARIANTS, measure, NULL, b.l.cpus, 2);
	for (i = 0; i < RTE_DIM(results); i++)
		bench_report(&t, &results[i]);
	lcores_join(&b.l);
	for (i = 0; i < 2; i++)
		rte_ring_free(b.to[i]);
	lcores_stop(&b.l);
	return 0;
}
