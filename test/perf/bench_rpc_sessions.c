/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of lib/rpc, 32 B each way, over 10,000 sessions of one endpoint, compared with
 * 10 sessions. One lcore runs the client of all sessions, another the server. Calls are posted in
 * bursts of 16, each to the next session, with 64 in flight.
 *
 *     bench-rpc-sessions [--device fabric_ring0,type=datagram] [options, see --help]
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc.h>

#include "bench_session.h"
#include "lcores.h"

enum { MANY, FEW, VARIANTS };

#define SESSIONS 10000
#define SIZE 32
#define BURST 16
#define WINDOW 64
#define POLLED 32
#define TYPE 1

static const unsigned int counts[VARIANTS] = { [MANY] = SESSIONS, [FEW] = 10 };

/* One end of a variant. */
struct end {
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	uint64_t handled;
	unsigned int up;
};

static struct {
	struct lcores l;
	struct bench_args args;
	struct bench_table *table;
	uint64_t n;
	struct end end[VARIANTS][2];
	struct leat_rpc_session *s[VARIANTS][SESSIONS];
	unsigned int next[VARIANTS];
	struct leat_rpc_req reqs[WINDOW];
	uint8_t out[WINDOW][SIZE], in[WINDOW][SIZE];
	const char *device;
} b;

static int
handler(struct leat_rpc_incoming *call, void *arg)
{
	struct end *e = arg;

	memcpy(call->resp, call->req, SIZE);
	call->resp_len = SIZE;
	e->handled++;
	return 0;
}

static __rte_always_inline uint16_t
end_poll(struct end *e, struct leat_rpc_req **done)
{
	struct leat_op *ops[POLLED];
	uint16_t k = leat_ep_poll(e->ep, ops, POLLED);

	if (k > 0)
		(void)leat_rpc_process(e->rpc, ops, k);
	return leat_rpc_poll(e->rpc, done, POLLED);
}

static __rte_always_inline void
client(unsigned int v, uint64_t n)
{
	struct leat_rpc_req *idle[WINDOW], *done[POLLED];
	unsigned int i, nb_idle, next = b.next[v];
	uint64_t posted = 0, got = 0;
	uint16_t k;

	for (nb_idle = 0; nb_idle < WINDOW; nb_idle++)
		idle[nb_idle] = &b.reqs[nb_idle];
	while (got < n) {
		while (nb_idle >= BURST && posted < n) {
			nb_idle -= BURST;
			for (i = 0; i < BURST; i++) {
				idle[nb_idle + i]->session = b.s[v][next];
				next = next + 1 == counts[v] ? 0 : next + 1;
			}
			if (unlikely(leat_rpc_post(&idle[nb_idle], BURST) != BURST))
				bench_die("can't post");
			posted += BURST;
		}
		k = end_poll(&b.end[v][0], done);
		for (i = 0; i < k; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("call failed: %d", done[i]->status);
			idle[nb_idle++] = done[i];
		}
		got += k;
	}
	b.next[v] = next;
}

static void
server(unsigned int v, uint64_t n)
{
	struct leat_rpc_req *done[POLLED];
	struct end *e = &b.end[v][1];
	struct leat_rpc_stats stats;

	for (e->handled = 0; e->handled < n;)
		(void)end_poll(e, done);
	/* Some responses wait for credit, which comes with the client's packets. */
	do {
		(void)end_poll(e, done);
		leat_rpc_stats_get(e->rpc, &stats);
	} while (stats.tx_packets > 0);
}

#define SIDES(variant)                                                                             \
	static void first_##variant(uint64_t n)                                                    \
	{                                                                                          \
		client(variant, n);                                                                \
	}                                                                                          \
	static void second_##variant(uint64_t n)                                                   \
	{                                                                                          \
		server(variant, n);                                                                \
	}
SIDES(MANY)
SIDES(FEW)

/* ---- start ---- */

static void
end_open(struct end *e)
{
	struct leat_ep_conf conf = { .max_peers = SESSIONS + 2, .rx_depth = 32768, .tx_depth = 64 };
	const struct leat_rpc_conf rpc_conf = { .max_sessions = SESSIONS,
						.packet = 256,
						.slots = 8 };
	struct leat_dev_info info;

	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		bench_die("%s", leat_err_msg());
	if ((info.ep_types & 1u << LEAT_EP_RELIABLE) == 0)
		conf.type = LEAT_EP_DATAGRAM;
	e->ep = leat_ep_create(leat_dev_get(0), &conf);
	if (e->ep == NULL)
		bench_die("%s", leat_err_msg());
	e->rpc = leat_rpc_create(e->ep, &rpc_conf);
	if (e->rpc == NULL || leat_rpc_handler_set(e->rpc, TYPE, handler, e, SIZE) < 0)
		bench_die("%s", leat_err_msg());
}

static void
end_drive(struct end *e)
{
	struct leat_rpc_req *none[POLLED];
	struct leat_rpc_event rev;
	struct leat_event ev;

	(void)end_poll(e, none);
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type != LEAT_EV_CONNECT_REQ)
			(void)leat_rpc_handle_event(e->rpc, &ev);
		else if (leat_rpc_accept(e->rpc, &ev, NULL) == NULL)
			bench_die("%s", leat_err_msg());
	}
	while (leat_rpc_events(e->rpc, &rev, 1) == 1) {
		if (rev.type != LEAT_RPC_UP)
			bench_die("connecting: %s", rev.text);
		e->up++;
	}
}

static void
connect_ends(unsigned int v)
{
	const struct leat_rpc_session_conf conf = { .deadline_us = LEAT_RPC_NO_DEADLINE };
	struct end *c = &b.end[v][0], *s = &b.end[v][1];
	char addr[LEAT_ADDR_MAX];
	unsigned int i;

	end_open(c);
	end_open(s);
	if (leat_ep_listen(s->ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(s->ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	for (i = 0; i < counts[v]; i++) {
		b.s[v][i] = leat_rpc_connect(c->rpc, addr, &conf);
		if (b.s[v][i] == NULL)
			bench_die("%s", leat_err_msg());
		while (i % 100 == 99 && (c->up < i || s->up < i)) {
			end_drive(c);
			end_drive(s);
		}
	}
	while (c->up < counts[v] || s->up < counts[v]) {
		end_drive(c);
		end_drive(s);
	}
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	(void)arg;
	return (double)b.n * 1e3 / (double)lcores_run(&b.l, variant, b.n, true, disturbed);
}

static void
session(void *arg)
{
	static const struct lcores_variant sides[] = {
		[MANY] = { first_MANY, second_MANY },
		[FEW] = { first_FEW, second_FEW },
	};
	static struct bench_table one;
	unsigned int i, v;

	(void)arg;
	if (lcores_init(&b.l, &b.args, b.device) < 0)
		bench_skip("%s", leat_err_msg());
	for (v = 0; v < VARIANTS; v++)
		connect_ends(v);
	for (i = 0; i < WINDOW; i++)
		b.reqs[i] = (struct leat_rpc_req){
			.type = TYPE, .buf = b.out[i], .len = SIZE, .resp = b.in[i], .room = SIZE
		};
	b.n = b.args.smoke ? 640 : 40000;
	lcores_launch(&b.l, sides);
	bench_measure(&one, &b.args, VARIANTS, measure, NULL, b.l.cpus, 2);
	bench_append(b.table, &one);
	lcores_join(&b.l);
	for (v = 0; v < VARIANTS; v++) {
		for (i = 0; i < 2; i++)
			(void)leat_ep_shutdown(b.end[v][i].ep, 1000);
		for (i = 0; i < 2; i++)
			(void)leat_ep_close(b.end[v][i].ep, 100000, NULL, NULL);
	}
}

int
main(int argc, char **argv)
{
	const struct bench_result r = {
		.name = "rpc-sessions-10000",
		.unit = "Mcalls/s",
		.kind = BENCH_RATIO_MIN,
		.target = 0.7,
		.leat = MANY,
		.reference = FEW,
	};

	bench_args(&b.args, argc, argv);
	b.device = bench_option(&b.args, "--device", "fabric_ring0");
	b.table = bench_shared(sizeof(*b.table));
	bench_sessions(&b.args, session, NULL);
	bench_report(b.table, &r);
	return 0;
}
