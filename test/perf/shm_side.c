/* SPDX-License-Identifier: BSD-3-Clause */

/* See shm_side.h. */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>

#include <leat_error.h>

#include "shm_side.h"

#define WAIT_NS UINT64_C(20000000000)

static const struct {
	uint32_t size, nb_sends, nb_recvs;
} kinds[LINK_KINDS] = {
	[LINK_LAT] = { 8, 1, 8 },
	/*
	 * The window is just large enough to keep both sides busy: its buffers stay in the
	 * first-level caches.
	 */
	[LINK_RATE] = { LINK_RATE_WORDS * 8, 64, 256 },
	[LINK_BULK] = { LINK_BULK_SIZE, LINK_BULK_WINDOW, LINK_BULK_WINDOW },
};

/* ---- opening ---- */

static void *
alloc(size_t n, size_t size)
{
	size_t len = RTE_ALIGN_CEIL(n * size, (size_t)128);
	void *p = aligned_alloc(128, len);

	if (p == NULL)
		bench_die("out of memory");
	memset(p, 0, len);
	return p;
}

static struct leat_op *
make_ops(const struct link *l, unsigned int kind, uint8_t type, uint32_t n, char *mem,
	 size_t stride)
{
	struct leat_op *ops = alloc(n, sizeof(*ops));
	uint32_t i;

	for (i = 0; i < n; i++)
		ops[i] = (struct leat_op){ .type = type,
					   .peer = LEAT_PEER_ANY,
					   .buf = mem + i * stride,
					   .size = kinds[kind].size,
					   .mr = l->mr };
	return ops;
}

static void
open_memory(struct link *l, unsigned int kind)
{
	const uint32_t nb = kinds[kind].nb_sends + kinds[kind].nb_recvs;
	size_t len = LINK_BULK_MEM, stride = LINK_BULK_STRIDE;
	char *sends, *recvs;

	if (kind != LINK_BULK) {
		stride = RTE_ALIGN_CEIL(kinds[kind].size, (uint32_t)LEAT_CACHE_LINE);
		len = nb * stride;
	}
	l->mem = rte_zmalloc(NULL, len, 128);
	if (l->mem == NULL)
		bench_die("out of memory");
	sends = recvs = l->mem;
	if (kind != LINK_BULK)
		recvs = sends + kinds[kind].nb_sends * stride;
	l->nb_sends = kinds[kind].nb_sends;
	l->nb_recvs = kinds[kind].nb_recvs;
	l->sends = make_ops(l, kind, LEAT_OP_SEND, l->nb_sends, sends, stride);
	l->recvs = make_ops(l, kind, LEAT_OP_RECV, l->nb_recvs, recvs, stride);
	if (kind != LINK_BULK)
		return;
	l->target = rte_zmalloc(NULL, LINK_LINES * sizeof(*l->target), 128);
	if (l->target == NULL)
		bench_die("out of memory");
	l->add = make_ops(l, kind, LEAT_OP_FETCH_ADD, 1, l->mem, 0);
	l->add->size = sizeof(uint64_t);
	l->add->operand = 1;
	l->mr = leat_mr_register(l->ep, l->target, LINK_LINES * sizeof(*l->target),
				 LEAT_MR_REMOTE_ATOMIC);
	if (l->mr == NULL)
		bench_die("%s", leat_err_msg());
}

void
link_open(struct link *l, const char *device, unsigned int kind)
{
	struct leat_ep_conf conf = { .max_peers = 4 };
	struct leat_dev *dev = leat_dev_by_name(device);
	struct leat_dev_info info;

	memset(l, 0, sizeof(*l));
	if (dev == NULL || leat_dev_info_get(dev, &info) < 0)
		bench_die("no device %s", device);
	if (info.mr_local)
		bench_skip("%s needs its buffers registered, which this benchmark does not do",
			   device);
	if (kind == LINK_RATE) {
		conf.tx_depth = kinds[kind].nb_sends;
		conf.rx_depth = kinds[kind].nb_recvs;
	} else if (kind == LINK_BULK) {
		conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
			   LEAT_OP_BIT(LEAT_OP_FETCH_ADD);
	}
	l->ep = leat_ep_create(dev, &conf);
	if (l->ep == NULL)
		bench_die("%s", leat_err_msg());
	open_memory(l, kind);
}

void
link_listen(struct link *l, char *addr)
{
	if (leat_ep_listen(l->ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(l->ep, addr, LEAT_ADDR_MAX) < 0)
		bench_die("%s", leat_err_msg());
}

/* Drive both links until l has an event of that type. @return the peer */
static uint16_t
expect(struct link *l, struct link *other, enum leat_event_type type)
{
	uint64_t start = bench_ns();
	struct leat_event ev;

	for (;;) {
		(void)leat_ep_poll(l->ep, NULL, 0);
		if (leat_ep_events(l->ep, &ev, 1) == 1) {
			if (ev.type != type)
				bench_die("connecting: %s", ev.text);
			return ev.peer;
		}
		if (other != NULL) {
			(void)leat_ep_poll(other->ep, NULL, 0);
			(void)leat_ep_events(other->ep, NULL, 0);
		}
		if (bench_ns() - start > WAIT_NS)
			bench_die("connecting: no answer");
		sched_yield();
	}
}

void
link_connect(struct link *l, const char *addr)
{
	int ret = leat_ep_connect(l->ep, addr, NULL);

	if (ret < 0)
		bench_die("%s", leat_err_msg());
	l->peer = (uint16_t)ret;
}

void
link_accept(struct link *l, struct link *other)
{
	l->peer = expect(l, other, LEAT_EV_CONNECT_REQ);
	if (leat_ep_accept(l->ep, l->peer, NULL) < 0)
		bench_die("%s", leat_err_msg());
}

void
link_connected(struct link *l, struct link *other)
{
	(void)expect(l, other, LEAT_EV_CONNECTED);
}

static __rte_always_inline void
post(struct link *l, struct leat_op *op)
{
	if (unlikely(leat_ep_post(l->ep, &op, 1) != 1))
		bench_die("can't post a %s", leat_op_type_name(op->type));
}

void
link_start(struct link *l)
{
	uint32_t i;

	for (i = 0; i < l->nb_sends; i++)
		l->sends[i].peer = l->peer;
	if (l->add != NULL)
		l->add->peer = l->peer;
	for (i = 0; i < l->nb_recvs; i++)
		post(l, &l->recvs[i]);
}

struct leat_rkey
link_target(const struct link *l)
{
	struct leat_rkey rkey;

	if (leat_mr_rkey(l->mr, l->target, LINK_LINES * sizeof(*l->target), &rkey) < 0)
		bench_die("%s", leat_err_msg());
	return rkey;
}

void
link_events(struct link *l)
{
	(void)leat_ep_events(l->ep, NULL, 0);
}

void
link_close(struct link *l)
{
	(void)leat_ep_shutdown(l->ep, 100000);
	if (l->mr != NULL)
		(void)leat_mr_deregister(l->mr);
	(void)leat_ep_close(l->ep, 100000, NULL, NULL);
	rte_free(l->target);
	free(l->add);
	free(l->recvs);
	free(l->sends);
	rte_free(l->mem);
}

/* ---- half round trips ---- */

static __rte_always_inline void
check(const struct leat_op *op)
{
	if (unlikely(op->status != 0))
		bench_die("%s failed: %s", leat_op_type_name(op->type), strerror(-op->status));
}

/* Poll until the last send has completed and a message has arrived. @return the message's RECV */
static __rte_always_inline struct leat_op *
wait_message(struct link *l, bool *sent)
{
	struct leat_op *done[4], *recv = NULL;
	uint16_t i, n;

	while (recv == NULL || !*sent) {
		n = leat_ep_poll(l->ep, done, 4);
		for (i = 0; i < n; i++) {
			check(done[i]);
			if (done[i]->type == LEAT_OP_RECV)
				recv = done[i];
			else
				*sent = true;
		}
	}
	return recv;
}

void
link_lat_first(struct link *l, uint64_t n)
{
	struct leat_op *recv = NULL;
	bool sent = true;
	uint64_t i;

	for (i = 0; i < n; i++) {
		*(uint64_t *)l->sends[0].buf = i;
		sent = false;
		post(l, &l->sends[0]);
		/* Repost the last receive after the send: off the critical path. */
		if (likely(recv != NULL))
			post(l, recv);
		recv = wait_message(l, &sent);
		if (unlikely(*(uint64_t *)recv->buf != i))
			bench_die("wrong message");
	}
	if (recv != NULL)
		post(l, recv);
}

void
link_lat_second(struct link *l, uint64_t n)
{
	struct leat_op *recv, *done;
	bool sent = true;

	while (n-- > 0) {
		recv = wait_message(l, &sent);
		*(uint64_t *)l->sends[0].buf = *(uint64_t *)recv->buf;
		sent = false;
		post(l, &l->sends[0]);
		post(l, recv);
	}
	while (!sent)
		sent = leat_ep_poll(l->ep, &done, 1) == 1;
}

/* ---- one way ---- */

static __rte_always_inline void
fill(uint64_t *w, uint64_t value)
{
	unsigned int i;

	for (i = 0; i < LINK_RATE_WORDS; i++)
		w[i] = value + i;
}

static __rte_always_inline uint64_t
read_all(const uint64_t *w)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < LINK_RATE_WORDS; i++)
		sum += w[i];
	return sum;
}

uint64_t
link_rate_sum(uint64_t n)
{
	return LINK_RATE_WORDS * (n * (n - 1) / 2) +
	       n * (LINK_RATE_WORDS * (LINK_RATE_WORDS - 1) / 2);
}

/* Poll until free_ops, a stack of completed sends, has at least `want`. @return how many it has */
static __rte_always_inline unsigned int
reclaim(struct link *l, struct leat_op **free_ops, unsigned int have, unsigned int want)
{
	unsigned int i, n;

	do {
		n = leat_ep_poll(l->ep, &free_ops[have], (uint16_t)(l->nb_sends - have));
		for (i = 0; i < n; i++)
			check(free_ops[have + i]);
		have += n;
	} while (have < want);
	return have;
}

static __rte_always_inline void
send_all(struct link *l, uint64_t n, unsigned int burst, bool touch)
{
	struct leat_op *free_ops[64];
	unsigned int i, have, sent;
	uint64_t value = 0;

	for (have = 0; have < l->nb_sends; have++)
		free_ops[have] = &l->sends[have];
	while (value < n) {
		if (have < burst)
			have = reclaim(l, free_ops, have, burst);
		have -= burst;
		for (i = 0; i < burst; i++, value++) {
			if (touch)
				fill(free_ops[have + i]->buf, value);
		}
		for (sent = 0; sent < burst;) {
			sent += leat_ep_post(l->ep, &free_ops[have + sent],
					     (uint16_t)(burst - sent));
			if (unlikely(sent < burst))
				(void)leat_ep_poll(l->ep, NULL, 0);
		}
	}
	(void)reclaim(l, free_ops, have, l->nb_sends);
}

static __rte_always_inline uint64_t
receive_all(struct link *l, uint64_t n, bool touch)
{
	struct leat_op *done[LINK_BURST];
	uint64_t got = 0, sum = 0;
	uint16_t i, k;

	while (got < n) {
		k = leat_ep_poll(l->ep, done, LINK_BURST);
		for (i = 0; i < k; i++) {
			check(done[i]);
			if (touch)
				sum += read_all(done[i]->buf);
		}
		if (k > 0 && unlikely(leat_ep_post(l->ep, done, k) != k))
			bench_die("can't post receives");
		got += k;
	}
	return sum;
}

static __rte_noinline void
rate_bursts(struct link *l, uint64_t n)
{
	send_all(l, n, LINK_BURST, true);
}

static __rte_noinline void
rate_singly(struct link *l, uint64_t n)
{
	send_all(l, n, 1, true);
}

void
link_rate_first(struct link *l, uint64_t n, unsigned int burst)
{
	if (burst == 1)
		rate_singly(l, n);
	else
		rate_bursts(l, n);
}

uint64_t
link_rate_second(struct link *l, uint64_t n)
{
	return receive_all(l, n, true);
}

void
link_bulk_first(struct link *l, uint64_t n)
{
	send_all(l, n, 1, false);
}

void
link_bulk_second(struct link *l, uint64_t n)
{
	(void)receive_all(l, n, false);
}

/* ---- FETCH_ADD ---- */

void
link_add_first(struct link *l, const struct leat_rkey *target, uint64_t n)
{
	struct leat_op *done;

	l->add->raddr = target->addr;
	l->add->rkey = target->key;
	while (n-- > 0) {
		post(l, l->add);
		while (leat_ep_poll(l->ep, &done, 1) == 0)
			;
		check(done);
	}
}

uint64_t
link_add_owned_first(struct link *l, const struct leat_rkey *target, struct link_turns *turns,
		     uint64_t n)
{
	uint64_t start, ns = 0, *old = l->add->buf;
	struct leat_op *done;
	uint32_t i;

	l->add->rkey = target->key;
	*old = 0;
	for (; n > 0; n -= LINK_LINES) {
		link_turn_wait(turns, 0);
		start = bench_ns();
		for (i = 0; i < LINK_LINES; i++) {
			l->add->raddr =
				target->addr + link_line_next(i, *old) * sizeof(struct link_line);
			post(l, l->add);
			while (leat_ep_poll(l->ep, &done, 1) == 0)
				;
			check(done);
		}
		ns += bench_ns() - start;
		link_turn_end(turns, 0);
	}
	return ns;
}

void
link_lines_write(struct link_line *lines, struct link_turns *turns, uint64_t n)
{
	uint32_t i;

	for (; n > 0; n -= LINK_LINES) {
		link_turn_wait(turns, 1);
		for (i = 0; i < LINK_LINES; i++)
			__atomic_store_n(&lines[i].v, 0, __ATOMIC_RELAXED);
		link_turn_end(turns, 1);
	}
}

void
link_add_second(struct link *l, const uint32_t *stop, uint32_t seq)
{
	/* pairs with the store that the first side makes once it has all answers */
	while (__atomic_load_n(stop, __ATOMIC_ACQUIRE) != seq)
		(void)leat_ep_poll(l->ep, NULL, 0);
}
