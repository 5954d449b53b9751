/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of lib/rpc, 32 B there and 32 B back, beside bare SENDs of the same bytes at the
 * same window, between two lcores: the round trip of one call, and calls per second in batches.
 *
 *     bench-rpc [--device fabric_ofi0,provider=shm] [options, see --help]
 *
 * The bare side sends what a packet of lib/rpc would be, of as many bytes, and gets as many back;
 * neither side looks into it. Each variant has endpoints of its own; where their memory lies is a
 * matter of luck, so all of it is done in several sessions.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc.h>

#include "bench_session.h"
#include "lcores.h"

enum { RPC, BARE, VARIANTS };
enum { LAT, RATE1, RATE3, RATE11, TABLES };

#define SIZE 32
#define HEAD 16 /* of a packet, and of an item */
#define ITEM 24
#define BATCH_MAX 11
#define WINDOW 16 /* batches on the way */
#define BURST 32
#define TYPE 1

static const struct {
	const char *name;
	const char *unit;
	unsigned int batch, window;
	uint64_t repeat, few; /* calls of a repeat: some milliseconds; with --smoke */
	enum bench_kind kind;
	double target;
} tables[TABLES] = {
	[LAT] = { "lat", "ns", 1, 1, 1000, 64, BENCH_RATIO_MAX, 1.35 },
	[RATE1] = { "rate-1", "Mcalls/s", 1, WINDOW, 16000, 64, BENCH_RATIO_MIN, 0 },
	[RATE3] = { "rate-3", "Mcalls/s", 3, WINDOW, 24000, 96, BENCH_RATIO_MIN, 0.5 },
	[RATE11] = { "rate-11", "Mcalls/s", 11, WINDOW, 44000, 352, BENCH_RATIO_MIN, 0.7 },
};

struct batch {
	struct leat_rpc_req reqs[BATCH_MAX];
	struct leat_rpc_req *list[BATCH_MAX];
	unsigned int left;
	uint8_t out[BATCH_MAX][SIZE], in[BATCH_MAX][SIZE];
};

/* One end of a variant. */
struct end {
	struct leat_ep *ep;
	uint16_t peer;
	struct leat_rpc *rpc;
	struct leat_rpc_session *s;
	uint64_t handled;
	struct batch batches[WINDOW];
	struct leat_op send[WINDOW], recv[WINDOW];
};

static struct {
	struct lcores l;
	struct bench_args args;
	struct bench_table *tables; /* of all sessions */
	unsigned int table;
	uint64_t n;
	struct end *end[VARIANTS][2];
	uint8_t *out[2], *in[2];
	const char *device;
} b;

static unsigned int
bare_bytes(void)
{
	return HEAD + tables[b.table].batch * (ITEM + SIZE);
}

/* ---- bare ---- */

static __rte_always_inline void
op_post(struct end *e, struct leat_op *op)
{
	while (unlikely(leat_ep_post(e->ep, &op, 1) != 1))
		(void)leat_ep_poll(e->ep, NULL, 0);
}

/* Sends that are back, and so many that are due: posted in one burst. */
struct bare {
	struct leat_op *free[WINDOW];
	unsigned int nb_free, due;
};

static __rte_always_inline void
bare_start(struct bare *s, struct end *e)
{
	for (s->nb_free = 0, s->due = 0; s->nb_free < tables[b.table].window; s->nb_free++)
		s->free[s->nb_free] = &e->send[s->nb_free];
}

static __rte_always_inline void
bare_send(struct bare *s, struct end *e)
{
	const unsigned int n = RTE_MIN(s->due, s->nb_free);
	unsigned int k;

	if (n == 0)
		return;
	k = leat_ep_post(e->ep, &s->free[s->nb_free - n], (uint16_t)n);
	if (unlikely(k < n))
		memmove(&s->free[s->nb_free - n], &s->free[s->nb_free - n + k],
			(n - k) * sizeof(s->free[0]));
	s->nb_free -= k;
	s->due -= k;
}

/* @return packets that came; their receives are posted again, in one burst */
static __rte_always_inline unsigned int
bare_poll(struct bare *s, struct end *e)
{
	struct leat_op *done[BURST], *recvs[BURST];
	uint16_t i, k, m = 0;

	k = leat_ep_poll(e->ep, done, BURST);
	for (i = 0; i < k; i++) {
		if (unlikely(done[i]->status != 0))
			bench_die("op failed: %d", done[i]->status);
		if (done[i]->type == LEAT_OP_RECV)
			recvs[m++] = done[i];
		else
			s->free[s->nb_free++] = done[i];
	}
	if (m > 0 && unlikely(leat_ep_post(e->ep, recvs, m) != m))
		bench_die("can't post receives");
	return m;
}

/* Each packet that comes back lets the next one go. */
static void
bare_client(struct end *e, uint64_t n)
{
	uint64_t left = n / tables[b.table].batch, got = 0, packets = left;
	struct bare s;
	unsigned int m;

	bare_start(&s, e);
	s.due = (unsigned int)RTE_MIN((uint64_t)s.nb_free, left);
	left -= s.due;
	while (got < packets || s.nb_free < tables[b.table].window) {
		bare_send(&s, e);
		m = bare_poll(&s, e);
		got += m;
		m = (unsigned int)RTE_MIN((uint64_t)m, left);
		left -= m;
		s.due += m;
	}
}

static void
bare_server(struct end *e, uint64_t n)
{
	uint64_t got = 0, packets = n / tables[b.table].batch;
	struct bare s;
	unsigned int m;

	bare_start(&s, e);
	while (got < packets || s.due > 0 || s.nb_free < tables[b.table].window) {
		m = bare_poll(&s, e);
		got += m;
		s.due += m;
		bare_send(&s, e);
	}
}

/* ---- rpc ---- */

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
rpc_poll(struct end *e, struct leat_rpc_req **done)
{
	struct leat_op *ops[BURST];
	uint16_t k = leat_ep_poll(e->ep, ops, BURST);

	if (k > 0)
		(void)leat_rpc_process(e->rpc, ops, k);
	return leat_rpc_poll(e->rpc, done, BURST);
}

static __rte_always_inline void
batch_post(struct batch *batch)
{
	const uint16_t n = (uint16_t)tables[b.table].batch;

	batch->left = n;
	if (unlikely(leat_rpc_post(batch->list, n) != n))
		bench_die("can't post");
}

static void
rpc_client(struct end *e, uint64_t n)
{
	const unsigned int window = tables[b.table].window;
	uint64_t posted = 0, got = 0, batches = n / tables[b.table].batch;
	struct leat_rpc_req *done[BURST];
	uint16_t i, k;

	for (; posted < window && posted < batches; posted++)
		batch_post(&e->batches[posted]);
	while (got < batches) {
		k = rpc_poll(e, done);
		for (i = 0; i < k; i++) {
			struct batch *batch = done[i]->user;

			if (unlikely(done[i]->status != 0))
				bench_die("call failed: %d", done[i]->status);
			if (--batch->left > 0)
				continue;
			got++;
			if (posted < batches) {
				posted++;
				batch_post(batch);
			}
		}
	}
}

static void
rpc_server(struct end *e, uint64_t n)
{
	struct leat_rpc_req *done[BURST];

	for (n -= n % tables[b.table].batch, e->handled = 0; e->handled < n;)
		(void)rpc_poll(e, done);
	/* What found no room. */
	(void)rpc_poll(e, done);
}

static void
side(unsigned int variant, unsigned int i, uint64_t n)
{
	struct end *e = b.end[variant][i];

	if (variant == RPC)
		i == 0 ? rpc_client(e, n) : rpc_server(e, n);
	else
		i == 0 ? bare_client(e, n) : bare_server(e, n);
}

#define SIDES(variant)                                                                             \
	static void first_##variant(uint64_t n)                                                    \
	{                                                                                          \
		side(variant, 0, n);                                                               \
	}                                                                                          \
	static void second_##variant(uint64_t n)                                                   \
	{                                                                                          \
		side(variant, 1, n);                                                               \
	}
SIDES(RPC)
SIDES(BARE)

/* ---- start ---- */

static void
end_open(unsigned int variant, unsigned int i)
{
	const struct leat_ep_conf conf = { .max_peers = 2 };
	const struct leat_rpc_conf rpc_conf = { .max_sessions = 1, .slots = BATCH_MAX * WINDOW };
	struct end *e = calloc(1, sizeof(*e));
	unsigned int k, m;

	if (e == NULL)
		bench_die("no memory");
	b.end[variant][i] = e;
	e->ep = leat_ep_create(leat_dev_get(0), &conf);
	if (e->ep == NULL)
		bench_die("%s", leat_err_msg());
	if (variant == BARE)
		return;
	e->rpc = leat_rpc_create(e->ep, &rpc_conf);
	if (e->rpc == NULL || leat_rpc_handler_set(e->rpc, TYPE, handler, e, SIZE) < 0)
		bench_die("%s", leat_err_msg());
	for (k = 0; k < WINDOW; k++) {
		struct batch *batch = &e->batches[k];

		for (m = 0; m < BATCH_MAX; m++) {
			batch->list[m] = &batch->reqs[m];
			batch->reqs[m] = (struct leat_rpc_req){ .type = TYPE,
								.buf = batch->out[m],
								.len = SIZE,
								.resp = batch->in[m],
								.room = SIZE,
								.user = batch };
		}
	}
}

static void
end_drive(unsigned int variant, struct end *e, unsigned int *up)
{
	struct leat_rpc_req *none[BURST];
	struct leat_rpc_event rev;
	struct leat_event ev;

	if (variant == RPC)
		(void)rpc_poll(e, none);
	else
		(void)leat_ep_poll(e->ep, NULL, 0);
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ && variant == RPC) {
			e->s = leat_rpc_accept(e->rpc, &ev, NULL);
			if (e->s == NULL)
				bench_die("%s", leat_err_msg());
		} else if (ev.type == LEAT_EV_CONNECT_REQ) {
			e->peer = ev.peer;
			if (leat_ep_accept(e->ep, ev.peer, NULL) < 0)
				bench_die("%s", leat_err_msg());
		} else if (variant == RPC) {
			(void)leat_rpc_handle_event(e->rpc, &ev);
		} else if (ev.type == LEAT_EV_CONNECTED) {
			++*up;
		} else {
			bench_die("connecting: %s", ev.text);
		}
	}
	while (variant == RPC && leat_rpc_events(e->rpc, &rev, 1) == 1) {
		if (rev.type != LEAT_RPC_UP)
			bench_die("connecting: %s", rev.text);
		++*up;
	}
}

static void
connect_ends(unsigned int variant)
{
	struct end *client, *server;
	char addr[LEAT_ADDR_MAX];
	unsigned int k, m, up = 0;
	int ret;

	end_open(variant, 0);
	end_open(variant, 1);
	client = b.end[variant][0];
	server = b.end[variant][1];
	if (leat_ep_listen(server->ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(server->ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	if (variant == BARE) {
		ret = leat_ep_connect(client->ep, addr, NULL);
		client->peer = (uint16_t)ret;
	} else {
		client->s = leat_rpc_connect(client->rpc, addr, NULL);
		ret = client->s == NULL ? -1 : 0;
	}
	if (ret < 0)
		bench_die("%s", leat_err_msg());
	while (up < 2) {
		end_drive(variant, client, &up);
		end_drive(variant, server, &up);
	}
	for (k = 0; variant == RPC && k < WINDOW; k++) {
		for (m = 0; m < BATCH_MAX; m++)
			client->batches[k].reqs[m].session = client->s;
	}
}

static void
init(void)
{
	const size_t len = 4096ul * WINDOW;
	unsigned int i, k;

	if (lcores_init(&b.l, &b.args, b.device) < 0)
		bench_skip("%s", leat_err_msg());
	for (k = 0; k < VARIANTS; k++)
		connect_ends(k);
	for (i = 0; i < 2; i++) {
		struct end *e = b.end[BARE][i];

		b.out[i] = aligned_alloc(4096, len);
		b.in[i] = aligned_alloc(4096, len);
		if (b.out[i] == NULL || b.in[i] == NULL)
			bench_die("no memory");
		memset(b.out[i], 0x5a, len);
		memset(b.in[i], 0, len);
		for (k = 0; k < WINDOW; k++) {
			e->recv[k] = (struct leat_op){ .type = LEAT_OP_RECV,
						       .peer = LEAT_PEER_ANY,
						       .buf = b.in[i] + (size_t)k * (4096 - 64),
						       .size = 2048 };
			op_post(e, &e->recv[k]);
		}
	}
}

static void
prepare(void)
{
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		struct end *e = b.end[BARE][i];

		for (k = 0; k < WINDOW; k++)
			e->send[k] = (struct leat_op){ .type = LEAT_OP_SEND,
						       .peer = e->peer,
						       .buf = b.out[i] + (size_t)k * (4096 - 64),
						       .size = bare_bytes() };
	}
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t ns;

	(void)arg;
	if (b.table == LAT)
		(void)lcores_run(&b.l, variant, 2 * WINDOW, true, disturbed);
	ns = lcores_run(&b.l, variant, b.n, true, disturbed);
	if (b.table == LAT)
		return (double)ns / (double)b.n;
	return (double)b.n * 1e3 / (double)ns;
}

static void
report(const struct bench_table *t, const char *device)
{
	char name[64];
	struct bench_result r = {
		.name = name,
		.unit = tables[b.table].unit,
		.kind = tables[b.table].kind,
		.target = tables[b.table].target,
		.leat = RPC,
		.reference = BARE,
	};

	snprintf(name, sizeof(name), "rpc-%s-%s", device, tables[b.table].name);
	bench_report(t, &r);
}

/* All tables once. */
static void
session(void *arg)
{
	static const struct lcores_variant sides[] = {
		[RPC] = { first_RPC, second_RPC },
		[BARE] = { first_BARE, second_BARE },
	};
	static struct bench_table one;
	unsigned int i, v;

	(void)arg;
	init();
	lcores_launch(&b.l, sides);
	for (b.table = 0; b.table < TABLES; b.table++) {
		b.n = b.args.smoke ? tables[b.table].few : tables[b.table].repeat;
		b.n -= b.n % tables[b.table].batch;
		prepare();
		bench_measure(&one, &b.args, VARIANTS, measure, NULL, b.l.cpus, 2);
		bench_append(&b.tables[b.table], &one);
	}
	lcores_join(&b.l);
	for (v = 0; v < VARIANTS; v++) {
		for (i = 0; i < 2; i++)
			(void)leat_ep_shutdown(b.end[v][i]->ep, 1000);
		for (i = 0; i < 2; i++)
			(void)leat_ep_close(b.end[v][i]->ep, 100000, NULL, NULL);
	}
}

int
main(int argc, char **argv)
{
	const char *name;

	bench_args(&b.args, argc, argv);
	b.device = bench_option(&b.args, "--device", "fabric_ring0");
	name = strstr(b.device, "provider=");
	name = name != NULL ? name + strlen("provider=") : "ring";
	b.tables = bench_shared(TABLES * sizeof(*b.tables));
	bench_sessions(&b.args, session, NULL);
	for (b.table = 0; b.table < TABLES; b.table++)
		report(&b.tables[b.table], name);
	return 0;
}
