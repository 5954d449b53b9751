/* SPDX-License-Identifier: BSD-3-Clause */

/* Reordering and delay: the window is kept, and the order depends on the seed alone. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define NB 4000
#define DEPTH 4096

/* The numbers of the messages, in the order of their arrival. */
struct order {
	uint32_t nb;
	uint32_t number[NB];
};

static void
take(struct ep *ep, struct order *order)
{
	struct comp comp;

	while (comp_poll(ep, &comp)) {
		CHECK_EQUAL(comp.status, ST_OK);
		if (comp.opcode != IBV_WC_RECV)
			continue;
		memcpy(&order->number[order->nb], ep->mem + comp.wr_id * 16, 4);
		order->nb++;
	}
}

/*
 * Send NB messages from an endpoint to itself. If `all` is set, wait until all have arrived;
 * otherwise return without the last ones, which wait for later posts.
 */
static void
run(struct order *order, bool all)
{
	struct ep_options options = { .qkey = 1, .sends = 1024, .recvs = DEPTH };
	struct host host;
	struct ibv_ah *ah;
	struct ep ep;
	uint64_t until;

	host_open(&host, 0);
	ep_open(&ep, &host, &options);
	ah = ah_open(&host, &host.gid);
	order->nb = 0;
	for (uint32_t i = 0; i < NB; i++)
		CHECK_EQUAL(post_recv(&ep, i, i * 16, 4), 0);
	for (uint32_t i = 0; i < NB; i++) {
		struct ibv_sge sge = { (uintptr_t)&i, 4, 0 };

		while (post_send_sges(&ep, i, ah, &ep.addr, &sge, 1, IBV_SEND_INLINE) == ENOMEM)
			take(&ep, order);
	}
	take(&ep, order);
	until = now_ns() + 30000000000ull;
	while (all && order->nb < NB) {
		CHECK(now_ns() < until);
		take(&ep, order);
	}
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

/*
 * Every message must be overtaken by fewer than window others, and arrive at most once. Return how
 * many were overtaken; *most: the largest number of messages that overtook one.
 */
static uint32_t
check_window(const struct order *order, uint32_t window, uint32_t *most)
{
	static bool seen[NB];
	uint32_t nb = 0;

	*most = 0;
	for (uint32_t i = 0; i < order->nb; i++) {
		uint32_t before = 0;

		CHECK(order->number[i] < NB && !seen[order->number[i]]);
		seen[order->number[i]] = true;
		for (uint32_t j = 0; j < i; j++)
			before += order->number[j] > order->number[i];
		CHECK(before < window);
		nb += before > 0;
		*most = before > *most ? before : *most;
	}
	/* A message that has not arrived was overtaken by all later ones that have. */
	for (uint32_t n = 0; n < NB; n++) {
		uint32_t later = 0;

		if (seen[n])
			continue;
		for (uint32_t j = 0; j < order->nb; j++)
			later += order->number[j] > n;
		CHECK(later < window);
	}
	return nb;
}

static struct order order, other;

/* Fewer than `size` messages overtake each one. Only later posts release them: hold-us is 10 s. */
static void
window(uint32_t size)
{
	uint32_t nb, most;

	run(&order, false);
	CHECK(order.nb > NB - size); /* the others wait for later posts */
	nb = check_window(&order, size, &most);
	/* If size is 4, about a fifth of the messages is overtaken; if it is larger, more. */
	CHECK(nb > NB / 8);
	CHECK(most >= size / 2);
	CHECK_EQUAL(counter("held"), NB);
	CHECK_EQUAL(counter("overtaken"), nb);
}

static void
window_4(void)
{
	window(4);
}

static void
window_64(void)
{
	window(64);
}

static void
window_1000(void)
{
	window(1000);
}

static void
in_order(void)
{
	run(&order, true);
	for (uint32_t i = 0; i < NB; i++)
		CHECK_EQUAL(order.number[i], i);
	CHECK_EQUAL(counter("overtaken"), 0);
}

/* Each message takes a random time, and yet they arrive in order. */
static void
delayed_in_order(void)
{
	in_order();
	CHECK_EQUAL(counter("held"), NB);
}

static void
delayed(void)
{
	uint32_t nb, most;

	run(&order, true);
	CHECK_EQUAL(order.nb, NB);
	nb = check_window(&order, 16, &most);
	CHECK(nb > 0 && most > 1);
	CHECK_EQUAL(counter("overtaken"), nb);
}

static void
tell_order(int fd, void *seed)
{
	char config[128];

	snprintf(config, sizeof(config), "leaks=1,reorder=64,hold-us=10000000,seed=%d",
		 *(const int *)seed);
	CHECK(setenv("EFA_SIM", config, 1) == 0);
	run(&order, true);
	put(fd, &order, sizeof(order));
}

static void
order_of_seed(int seed, struct order *to)
{
	struct child child;

	child_start(&child, tell_order, &seed);
	get(child.fd, to, sizeof(*to));
	child_end(&child);
}

static void
seeds(void)
{
	order_of_seed(1, &order);
	for (int seed = 1; seed <= 20; seed++) {
		order_of_seed(seed, &other);
		CHECK((seed == 1) == (memcmp(&order, &other, sizeof(order)) == 0));
	}
}

/* A program that polls and finds nothing must not wait hold-us (10 s), and the window is kept. */
static void
polled_in_vain(void)
{
	uint64_t begin = now_ns();
	uint32_t nb, most;

	run(&order, true);
	CHECK_EQUAL(order.nb, NB);
	nb = check_window(&order, 64, &most);
	CHECK(nb > NB / 8);
	CHECK(now_ns() - begin < 8000000000ull);
}

/* Post and never poll: the emulator's thread must send the messages within hold-us. */
static void
silent(int fd, void *arg)
{
	struct addr to;
	struct host host;
	struct ibv_ah *ah;
	struct ep ep;
	char byte;

	(void)arg;
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	get(fd, &to, sizeof(to));
	ah = ah_open(&host, &to.gid);
	for (uint64_t i = 0; i < 20; i++) {
		CHECK_EQUAL(post_send(&ep, i, ah, &to, 0, 8), 0);
		put(fd, &byte, 1);
		get(fd, &byte, 1);
	}
	CHECK_EQUAL(counter("held"), 20);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQUAL(comp_expect(&ep, ST_OK), i);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
held_no_longer(void)
{
	struct child child;
	struct host host;
	struct ep ep;

	child_start(&child, silent, NULL);
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	put(child.fd, &ep.addr, sizeof(ep.addr));
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t begin = now_ns();
		char byte;

		CHECK_EQUAL(post_recv(&ep, i, 0, 8), 0);
		get(child.fd, &byte, 1);
		CHECK_EQUAL(comp_expect(&ep, ST_OK), i);
		/* hold-us is 20 ms; the rest is for a busy machine. */
		CHECK(now_ns() - begin < 5000000000ull);
		put(child.fd, &byte, 1);
	}
	child_end(&child);
	ep_close(&ep);
	host_close(&host);
}

const struct test tests_order[] = {
	{ .name = "in-order", .run = in_order },
	{ .name = "window-4", .config = "reorder=4,hold-us=10000000", .run = window_4 },
	{ .name = "window-64", .config = "reorder=64,hold-us=10000000", .run = window_64 },
	{ .name = "window-1000", .config = "reorder=1000,hold-us=10000000", .run = window_1000 },
	{ .name = "delay-in-order", .config = "delay-us=2000", .run = delayed_in_order },
	{ .name = "delay-window", .config = "delay-us=2000,reorder=16", .run = delayed },
	{ .name = "seeds", .run = seeds },
	{
		.name = "polled-in-vain",
		.config = "reorder=64,hold-us=10000000",
		.run = polled_in_vain,
	},
	{ .name = "held-no-longer", .config = "reorder=1000,hold-us=20000", .run = held_no_longer },
	{ 0 },
};
