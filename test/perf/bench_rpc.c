/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls of lib/rpc, 32 B each way, compared with bare SENDs of the same bytes with the
 * same window, between two lcores: the round trip of one call, and calls per second in batches.
 *
 *     bench-rpc [--device fabric_ofi0,provider=shm] [--addr 127.0.0.1:0] [--only rate-11] [options]
 *
 * There are two bare variants. Both send messages as long as lib/rpc's packets, and get as many
 * bytes back. SENDS sends the same buffers again and again, and neither side reads them: between
 * lcores their bytes move only the first time. BYTES does the work of a program that uses the
 * bytes: the client writes 32 B per call, the server copies them to its answer, and the client
 * copies them out. Each variant has endpoints of its own. Where their memory lies makes a
 * difference, so everything is measured in several sessions (bench_session.h).
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc.h>

#include "bench_session.h"
#include "lcores.h"

enum { RPC, SENDS, BYTES, VARIANTS };
enum { LAT, RATE1, RATE3, RATE11, TABLES };

#define SIZE 32
#define HEAD 16 /* bytes of the head of a packet */
#define ITEM 16 /* bytes of the head of each call in it */
#define BATCH_MAX 11
#define WINDOW 16 /* batches in flight */
#define BURST 32
#define TYPE 1

/* What each table of results measures. */
static const struct {
	const char *name;
	const char *unit;
	unsigned int batch, window;
	uint64_t repeat, few; /* calls of a repeat (some ms); few: with --smoke, or a slow device */
	enum bench_kind kind;
	double target, target_slow; /* for ring; for devices whose messages take microseconds */
} tables[TABLES] = {
	[LAT] = { "lat", "ns", 1, 1, 1000, 64, BENCH_RATIO_MAX, 1.35, 1.25 },
	[RATE1] = { "rate-1", "Mcalls/s", 1, WINDOW, 16000, 64, BENCH_RATIO_MIN, 0, 0.8 },
	[RATE3] = { "rate-3", "Mcalls/s", 3, WINDOW, 24000, 96, BENCH_RATIO_MIN, 0.5, 0.8 },
	[RATE11] = { "rate-11", "Mcalls/s", 11, WINDOW, 44000, 352, BENCH_RATIO_MIN, 0.7, 0.8 },
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
	struct bench_table *tables; /* results of all sessions */
	unsigned int table;
	uint64_t n;
	struct end *end[VARIANTS][2];
	const char *device, *addr, *only;
	bool slow; /* a slow device: shorter repeats */
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

/* State of a bare side. free: sends to post. due: completed receives, to be posted again. */
struct bare {
	struct end *e;
	bool bytes;
	struct leat_op *free[WINDOW], *due[WINDOW];
	unsigned int nb_free, nb_due;
};

static __rte_always_inline void
bare_start(struct bare *s, struct end *e, bool bytes)
{
	s->e = e;
	s->bytes = bytes;
	s->nb_due = 0;
	for (s->nb_free = 0; s->nb_free < tables[b.table].window; s->nb_free++)
		s->free[s->nb_free] = &e->send[s->nb_free];
}

/* @return where the bytes of call k are in a packet */
static __rte_always_inline uint8_t *
bare_call(const struct leat_op *op, unsigned int k)
{
	return (uint8_t *)op->buf + HEAD + k * (ITEM + SIZE) + ITEM;
}

/* The server copies the bytes of a request to its answer. */
static __rte_always_inline void
bare_answer(struct leat_op *send, const struct leat_op *recv)
{
	unsigned int k;

	for (k = 0; k < tables[b.table].batch; k++)
		memcpy(bare_call(send, k), bare_call(recv, k), SIZE);
}

/* The client writes the bytes of a request. */
static __rte_always_inline void
bare_ask(struct bare *s, struct leat_op *send)
{
	const struct batch *batch = &s->e->batches[send - s->e->send];
	unsigned int k;

	for (k = 0; k < tables[b.table].batch; k++)
		memcpy(bare_call(send, k), batch->out[k], SIZE);
}

/* The client copies the bytes of an answer out. */
static __rte_always_inline void
bare_take(struct bare *s, const struct leat_op *recv)
{
	struct batch *batch = &s->e->batches[recv - s->e->recv];
	unsigned int k;

	for (k = 0; k < tables[b.table].batch; k++)
		memcpy(batch->in[k], bare_call(recv, k), SIZE);
}

/* Post n of the free sends, in one burst. @return how many the endpoint accepted */
static __rte_always_inline unsigned int
bare_post(struct bare *s, unsigned int n)
{
	unsigned int k;

	k = leat_ep_post(s->e->ep, &s->free[s->nb_free - n], (uint16_t)n);
	if (unlikely(k < n))
		memmove(&s->free[s->nb_free - n], &s->free[s->nb_free - n + k],
			(n - k) * sizeof(s->free[0]));
	s->nb_free -= k;
	return k;
}

/* @return the number of received packets; they are in s->due */
static __rte_always_inline unsigned int
bare_poll(struct bare *s)
{
	struct leat_op *done[BURST];
	unsigned int before = s->nb_due;
	uint16_t i, k;

	k = leat_ep_poll(s->e->ep, done, BURST);
	for (i = 0; i < k; i++) {
		if (unlikely(done[i]->status != 0))
			bench_die("op failed: %d", done[i]->status);
		if (done[i]->type == LEAT_OP_RECV)
			s->due[s->nb_due++] = done[i];
		else
			s->free[s->nb_free++] = done[i];
	}
	return s->nb_due - before;
}

static __rte_always_inline void
bare_repost(struct bare *s, unsigned int from, unsigned int n)
{
	if (n > 0 && unlikely(leat_ep_post(s->e->ep, &s->due[from], (uint16_t)n) != n))
		bench_die("can't post receives");
}

/* Each answer allows the client to send the next request. */
static __rte_always_inline void
bare_client(struct end *e, uint64_t n, bool bytes)
{
	const unsigned int window = tables[b.table].window;
	uint64_t packets = n / tables[b.table].batch, left = packets, got = 0;
	unsigned int i, m, due;
	struct bare s;

	bare_start(&s, e, bytes);
	due = (unsigned int)RTE_MIN((uint64_t)window, left);
	left -= due;
	while (got < packets || s.nb_free < window) {
		m = RTE_MIN(due, s.nb_free);
		if (m > 0) {
			for (i = 0; bytes && i < m; i++)
				bare_ask(&s, s.free[s.nb_free - m + i]);
			due -= bare_post(&s, m);
		}
		m = bare_poll(&s);
		for (i = 0; bytes && i < m; i++)
			bare_take(&s, s.due[i]);
		bare_repost(&s, 0, m);
		s.nb_due = 0;
		got += m;
		m = (unsigned int)RTE_MIN((uint64_t)m, left);
		left -= m;
		due += m;
	}
}

/* Answer received packets first, then post their receives again. */
static __rte_always_inline void
bare_server(struct end *e, uint64_t n, bool bytes)
{
	uint64_t got = 0, packets = n / tables[b.table].batch;
	struct bare s;
	unsigned int i, m;

	bare_start(&s, e, bytes);
	while (got < packets || s.nb_due > 0 || s.nb_free < tables[b.table].window) {
		got += bare_poll(&s);
		m = RTE_MIN(s.nb_due, s.nb_free);
		if (m == 0)
			continue;
		for (i = 0; bytes && i < m; i++)
			bare_answer(s.free[s.nb_free - m + i], s.due[i]);
		m = bare_post(&s, m);
		bare_repost(&s, 0, m);
		s.nb_due -= m;
		memmove(&s.due[0], &s.due[m], s.nb_due * sizeof(s.due[0]));
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
	struct leat_rpc_stats stats;

	for (n -= n % tables[b.table].batch, e->handled = 0; e->handled < n;)
		(void)rpc_poll(e, done);
	/* Some answers wait for room, or for credit, which comes with the client's packets. */
	do {
		(void)rpc_poll(e, done);
		leat_rpc_stats_get(e->rpc, &stats);
	} while (stats.tx_packets > 0);
}

static void
side(unsigned int variant, unsigned int i, uint64_t n)
{
	struct end *e = b.end[variant][i];

	if (variant == RPC)
		i == 0 ? rpc_client(e, n) : rpc_server(e, n);
	else if (variant == SENDS)
		i == 0 ? bare_client(e, n, false) : bare_server(e, n, false);
	else
		i == 0 ? bare_client(e, n, true) : bare_server(e, n, true);
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
SIDES(SENDS)
SIDES(BYTES)

/* ---- start ---- */

static void
end_open(unsigned int variant, unsigned int i)
{
	struct leat_ep_conf conf = { .max_peers = 2 };
	const struct leat_rpc_conf rpc_conf = { .max_sessions = 1,
						.slots = BATCH_MAX * WINDOW,
						.credits = 24 };
	struct end *e = calloc(1, sizeof(*e));
	struct leat_dev_info info;
	unsigned int k, m;

	if (e == NULL)
		bench_die("no memory");
	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		bench_die("%s", leat_err_msg());
	if ((info.ep_types & 1u << LEAT_EP_RELIABLE) == 0)
		conf.type = LEAT_EP_DATAGRAM;
	b.end[variant][i] = e;
	e->ep = leat_ep_create(leat_dev_get(0), &conf);
	if (e->ep == NULL)
		bench_die("%s", leat_err_msg());
	if (variant != RPC)
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
	if (leat_ep_listen(server->ep, b.addr) < 0 ||
	    leat_ep_listen_addr(server->ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	if (variant != RPC) {
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

/* Register a buffer; NULL where the device needs no registration. */
static struct leat_mr *
registered(struct end *e, void *buf, size_t len)
{
	struct leat_mr *mr = NULL;

	if (e->ep->mr_local) {
		mr = leat_mr_register(e->ep, buf, len, LEAT_MR_LOCAL);
		if (mr == NULL)
			bench_die("%s", leat_err_msg());
	}
	return mr;
}

static void
bare_buffers(struct end *e)
{
	const size_t len = 4096ul * WINDOW;
	struct leat_mr *out_mr, *in_mr;
	uint8_t *out, *in;
	unsigned int k;

	out = aligned_alloc(4096, len);
	in = aligned_alloc(4096, len);
	if (out == NULL || in == NULL)
		bench_die("no memory");
	memset(out, 0x5a, len);
	memset(in, 0, len);
	out_mr = registered(e, out, len);
	in_mr = registered(e, in, len);
	for (k = 0; k < WINDOW; k++) {
		const size_t at = (size_t)k * (4096 - 64);

		e->send[k].buf = out + at;
		e->send[k].mr = out_mr;
		e->recv[k] = (struct leat_op){ .type = LEAT_OP_RECV,
					       .peer = LEAT_PEER_ANY,
					       .buf = in + at,
					       .size = 2048,
					       .mr = in_mr };
		op_post(e, &e->recv[k]);
	}
}

static void
init(void)
{
	unsigned int i, k;

	if (lcores_init(&b.l, &b.args, b.device) < 0)
		bench_skip("%s", leat_err_msg());
	for (k = 0; k < VARIANTS; k++) {
		connect_ends(k);
		for (i = 0; k != RPC && i < 2; i++)
			bare_buffers(b.end[k][i]);
	}
}

static void
prepare(void)
{
	unsigned int i, k, v;

	for (v = SENDS; v < VARIANTS; v++) {
		for (i = 0; i < 2; i++) {
			struct end *e = b.end[v][i];

			for (k = 0; k < WINDOW; k++)
				e->send[k] = (struct leat_op){ .type = LEAT_OP_SEND,
							       .peer = e->peer,
							       .buf = e->send[k].buf,
							       .mr = e->send[k].mr,
							       .size = bare_bytes() };
		}
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
		.target = b.slow ? tables[b.table].target_slow : tables[b.table].target,
		.leat = RPC,
	};

	snprintf(name, sizeof(name), "rpc-%s-%s", device, tables[b.table].name);
	r.reference = SENDS;
	bench_report(t, &r);
	snprintf(name, sizeof(name), "rpc-%s-%s-bytes", device, tables[b.table].name);
	r.reference = BYTES;
	bench_report(t, &r);
}

static bool
left_out(void)
{
	return b.only[0] != '\0' && strcmp(b.only, tables[b.table].name) != 0;
}

/* Measure all tables once. */
static void
session(void *arg)
{
	static const struct lcores_variant sides[] = {
		[RPC] = { first_RPC, second_RPC },
		[SENDS] = { first_SENDS, second_SENDS },
		[BYTES] = { first_BYTES, second_BYTES },
	};
	static struct bench_table one;
	unsigned int i, v;

	(void)arg;
	init();
	lcores_launch(&b.l, sides);
	for (b.table = 0; b.table < TABLES; b.table++) {
		if (left_out())
			continue;
		b.n = b.args.smoke || b.slow ? tables[b.table].few : tables[b.table].repeat;
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

/* "ring", or the name of the provider or protocol below the driver: "tcp", "ud". */
static void
device_name(char *name, size_t len)
{
	const char *provider = strstr(b.device, "provider=");

	b.slow = strncmp(b.device, "fabric_ring", strlen("fabric_ring")) != 0;
	if (provider != NULL)
		snprintf(name, len, "%.*s", (int)strcspn(provider + 9, ",;"), provider + 9);
	else if (b.slow)
		snprintf(name, len, "%s", strstr(b.device, "qp=ud") != NULL ? "ud" : "rc");
	else
		snprintf(name, len, "%s",
			 strstr(b.device, "type=datagram") != NULL ? "ring-datagram" : "ring");
}

int
main(int argc, char **argv)
{
	char name[32];

	bench_args(&b.args, argc, argv);
	b.device = bench_option(&b.args, "--device", "fabric_ring0");
	b.addr = bench_option(&b.args, "--addr", "127.0.0.1:0");
	b.only = bench_option(&b.args, "--only", "");
	device_name(name, sizeof(name));
	b.tables = bench_shared(TABLES * sizeof(*b.tables));
	bench_sessions(&b.args, session, NULL);
	for (b.table = 0; b.table < TABLES; b.table++)
		if (!left_out())
			report(&b.tables[b.table], name);
	return 0;
}
