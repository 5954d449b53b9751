/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What the ordering layer (leat_op_start(), leat_op_finish()) costs per op: posting and polling a
 * window of ops, with the layer and in a loop that does the same without it (keeps the op, sets its
 * status and length, returns it).
 *
 *     post 256 in bursts of 32
 *     the device completes 32 per poll, in order or shuffled; poll 32 at a time
 *
 * bench-order --count: instructions and cache lines of both loops, see count.h.
 *
 * The ops do not fit into one way of many CPUs' caches. So the loop's speed depends on the
 * addresses of its data: each repeat uses the next of PLACES copies of the data.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_prefetch.h>

#include <leat_ep.h>
#include <leat_order_fast.h>

#include "bench.h"
#include "count.h"

#define WINDOW 256
#define BURST 32
#define AHEAD 4
#define ORDERS 8
#define PEERS 4
#define PLACES 32

/* The simulated device, which both variants use: ops in flight, and the order of completions. */
static struct {
	struct leat_op *flight[WINDOW];
	uint32_t nb_flight;
	uint32_t nb_done;
	const uint16_t *order; /* order of completions in this window */
} dev;

struct place {
	struct leat_ep ep;
	struct leat_peer peers[PEERS];
	struct leat_op ops[WINDOW];
	char gap[4096];
};

static struct place *at; /* the place of this repeat */
static unsigned int next_place;
static struct place places[PLACES];
static uint16_t orders[ORDERS][WINDOW];
static uint32_t rounds = 100;

/* Return the next completed op; prefetch a later one, as a driver does that reads in bursts. */
static __rte_always_inline struct leat_op *
completed(void)
{
	uint32_t ahead = dev.nb_done + AHEAD;

	if (ahead < dev.nb_flight)
		rte_prefetch0(dev.flight[dev.order[ahead]]);
	return dev.flight[dev.order[dev.nb_done++]];
}

/* ---- with the layer ---- */

static uint16_t
layer_post(struct leat_ep *e, struct leat_op **burst, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		dev.flight[dev.nb_flight++] = burst[i];
		leat_op_start(e, burst[i]);
	}
	return leat_ep_post_end(e, n, n);
}

static void
layer_poll(struct leat_ep *e)
{
	uint32_t end = RTE_MIN(dev.nb_done + BURST, dev.nb_flight);

	while (dev.nb_done < end)
		leat_op_finish(e, completed(), 0, 8);
}

/* Post and poll of a driver whose device sends to one peer and completes in order. */

static uint16_t
sent_post(struct leat_ep *e, struct leat_op **burst, uint16_t n)
{
	struct leat_peer *peer = &e->peers[0];
	uint16_t i;

	for (i = 0; i < n; i++) {
		dev.flight[dev.nb_flight++] = burst[i];
		leat_op_start_send(e, peer, burst[i]);
	}
	return leat_ep_post_end(e, n, n);
}

static void
sent_poll(struct leat_ep *e)
{
#ifndef __clang_analyzer__ /* the analyzer assumes NULL after the newest op */
	uint32_t n = RTE_MIN((uint32_t)BURST, dev.nb_flight - dev.nb_done);

	dev.nb_done += leat_op_finish_sent(e, &e->peers[0], dev.flight, WINDOW - 1, dev.nb_done, n);
#else
	(void)e;
#endif
}

static __attribute__((noinline)) void
layer_window(void)
{
	struct leat_op *burst[BURST];
	uint32_t i, k, back;
	uint16_t n;

	for (i = 0; i < WINDOW; i += BURST) {
		for (k = 0; k < BURST; k++)
			burst[k] = &at->ops[i + k];
		n = leat_ep_post(&at->ep, burst, BURST);
		BENCH_USE(n);
	}
	for (back = 0; back < WINDOW; back += n) {
		n = leat_ep_poll(&at->ep, burst, BURST);
		BENCH_USE(burst[0]);
	}
}

/* ---- without ---- */

struct bare {
	uint16_t (*post)(struct bare *b, struct leat_op **burst, uint16_t n);
	void (*poll)(struct bare *b);
	struct leat_op **out;
};

static uint16_t
bare_post(struct bare *b, struct leat_op **burst, uint16_t n)
{
	uint16_t i;

	(void)b;
	for (i = 0; i < n; i++)
		dev.flight[dev.nb_flight++] = burst[i];
	return n;
}

static void
bare_poll(struct bare *b)
{
	uint32_t end = RTE_MIN(dev.nb_done + BURST, dev.nb_flight);

	while (dev.nb_done < end) {
		struct leat_op *op = completed();

		op->status = 0;
		op->len = 8;
		*b->out++ = op;
	}
}

/* As sent_poll(): ops complete in order, each with the length that was posted. */
static void
bare_sent_poll(struct bare *b)
{
	uint32_t i, n = RTE_MIN((uint32_t)BURST, dev.nb_flight - dev.nb_done);

	for (i = 0; i < n; i++) {
		struct leat_op *op = dev.flight[(dev.nb_done + i) & (WINDOW - 1)];

		op->status = 0;
		op->len = op->size;
		*b->out++ = op;
	}
	dev.nb_done += n;
}

static struct bare bare = { .post = bare_post, .poll = bare_poll };

static __attribute__((noinline)) void
bare_window(void)
{
	struct leat_op *burst[BURST];
	uint32_t i, k, back, n;

	for (i = 0; i < WINDOW; i += BURST) {
		for (k = 0; k < BURST; k++)
			burst[k] = &at->ops[i + k];
		n = bare.post(&bare, burst, BURST);
		BENCH_USE(n);
	}
	for (back = 0; back < WINDOW; back += n) {
		bare.out = burst;
		bare.poll(&bare);
		n = (uint32_t)(bare.out - burst);
		BENCH_USE(burst[0]);
	}
}

/* ---- both ---- */

static void
windows(unsigned int variant, uint32_t n)
{
	uint32_t r;

	for (r = 0; r < n; r++) {
		dev.nb_flight = 0;
		dev.nb_done = 0;
		dev.order = orders[r % ORDERS];
		if (variant == 0)
			layer_window();
		else
			bare_window();
	}
}

static double
run(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start;

	(void)arg;
	at = &places[next_place++ / 2 % PLACES]; /* both variants use the same place */
	start = bench_ns();
	windows(variant, rounds);
	start = bench_ns() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)start / (rounds * WINDOW);
}

static void
make_orders(bool shuffled)
{
	uint64_t x = 88172645463325252u;
	uint16_t i, k;

	for (k = 0; k < ORDERS; k++) {
		for (i = 0; i < WINDOW; i++)
			orders[k][i] = i;
		for (i = WINDOW - 1; shuffled && i > 0; i--) {
			uint16_t j, v = orders[k][i];

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			j = (uint16_t)(x % (i + 1u));
			orders[k][i] = orders[k][j];
			orders[k][j] = v;
		}
	}
}

static void
make_place(struct place *p)
{
	uint16_t i;

	p->ep.post = layer_post;
	p->ep.poll = layer_poll;
	p->ep.peers = p->peers;
	p->ep.nb_peers = PEERS;
	p->ep.tx_room = WINDOW;
	p->ep.depth = WINDOW;
	for (i = 0; i < PEERS; i++)
		p->peers[i].state = LEAT_PEER_UP;
	for (i = 0; i < WINDOW; i++) {
		p->ops[i].type = LEAT_OP_SEND;
		p->ops[i].size = 8;
	}
}

/* ---- counting ---- */

static void
count_layer(uint32_t ops, uint32_t burst)
{
	(void)burst;
	windows(0, ops / WINDOW);
}

static void
count_sent(uint32_t ops, uint32_t burst)
{
	at->ep.post = sent_post;
	at->ep.poll = sent_poll;
	count_layer(ops, burst);
	at->ep.post = layer_post;
	at->ep.poll = layer_poll;
}

static void
count_bare(uint32_t ops, uint32_t burst)
{
	(void)burst;
	windows(1, ops / WINDOW);
}

static void
count_bare_sent(uint32_t ops, uint32_t burst)
{
	bare.poll = bare_sent_poll;
	count_bare(ops, burst);
	bare.poll = bare_poll;
}

static int
count(void)
{
	static const struct count_case in_order[] = {
		{
			.name = "in-order",
			.run = { count_layer, count_bare },
			.burst = BURST,
			.ops = ORDERS * WINDOW,
			.line_ops = WINDOW,
			.target = "+80",
			.instr = 118,
			.lines = 1.4,
		},
		{
			.name = "in-order-sent",
			.run = { count_sent, count_bare_sent },
			.burst = BURST,
			.ops = ORDERS * WINDOW,
			.line_ops = WINDOW,
			.target = "+26",
			.instr = 52.2,
			.lines = 1.4,
		},
	};
	static const struct count_case shuffled = {
		.name = "random-256",
		.run = { count_layer, count_bare },
		.burst = BURST,
		.ops = ORDERS * WINDOW,
		.line_ops = WINDOW,
		.instr = 168,
		.lines = 1.4,
	};

	at = &places[0];
	make_orders(false);
	count_cases("order", in_order, RTE_DIM(in_order));
	make_orders(true);
	count_cases("order", &shuffled, 1);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct bench_result in_order = {
		.name = "order-in-order",
		.unit = "ns/op",
		.kind = BENCH_DIFF_MAX,
		.target = 6.5,
		.reference = 1,
	};
	static const struct bench_result shuffled = {
		.name = "order-random-256",
		.unit = "ns/op",
		.kind = BENCH_DIFF_MAX,
		.target = 15,
		.reference = 1,
	};
	static struct bench_table t;
	struct bench_args args;
	uint16_t i;
	int cpu;

	bench_args(&args, argc, argv);
	for (i = 0; i < PLACES; i++)
		make_place(&places[i]);
	if (count_option(&args))
		return count();
	cpu = bench_cpu(1) >= 0 ? bench_cpu(1) : bench_cpu(0);
	bench_pin(cpu);
	if (args.smoke)
		rounds = 2;

	make_orders(false);
	bench_measure(&t, &args, 2, run, NULL, &cpu, 1);
	bench_report(&t, &in_order);
	make_orders(true);
	bench_measure(&t, &args, 2, run, NULL, &cpu, 1);
	bench_report(&t, &shuffled);
	return at->ep.tx_room == WINDOW ? 0 : 1;
}
