/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of lib/msg, in leat and in plain mode, compared with tagged sends and receives as an
 * application would post them, between two lcores: half round trip of 8 B, messages of 64 B per
 * second with a window of 64, and bandwidth at 1 MiB.
 *
 *     bench-msg [--device fabric_ofi0,provider=shm] [options, see --help]
 *
 * Each variant has endpoints of its own, so that none searches the receives of another. Where their
 * memory lies makes a difference, so everything is measured in several sessions (bench_session.h).
 *
 * bench-msg --count: instructions and cache lines of messages of 8 B in leat mode, both ends in one
 * thread, singly and in bursts; see count.h.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_msg.h>

#include "bench_session.h"
#include "count.h"
#include "lcores.h"

/* TWICE: two tagged sends and nothing else, about the least that a message in plain mode costs. */
enum { LEAT, PLAIN, TAGGED, TWICE, VARIANTS };
enum { LAT, RATE, BW, TABLES, COUNTED = TABLES, TABLES_ALL };

#define WINDOW 64
#define MAX_SIZE (1u << 20)
#define BURST 32
#define BIG_WINDOW 8

/* What each table of results measures. */
static const struct {
	const char *name;
	const char *unit;
	uint64_t size;
	unsigned int window;
	uint64_t repeat, few; /* messages of a repeat (some ms); few: with --smoke */
	enum bench_kind kind;
	double target[2]; /* of leat mode, of plain mode; 0: none */
} tables[TABLES_ALL] = {
	[LAT] = { "lat-8", "ns", 8, 1, 500, 64, BENCH_RATIO_MAX, { 1.4, 2 } },
	[RATE] = { "rate-64", "Mmsg/s", 64, WINDOW, 4000, 64, BENCH_RATIO_MIN, { 0.85, 0 } },
	[BW] = { "bw-1Mi", "MB/s", MAX_SIZE, BIG_WINDOW, 32, 8, BENCH_RATIO_MIN, { 0.97, 0 } },
	[COUNTED] = { .size = 8, .window = WINDOW },
};

/* One end of a variant. */
struct end {
	struct leat_ep *ep;
	uint16_t peer;
	struct leat_msg *m;
	struct leat_msg_conn *c;
	struct leat_op send[WINDOW], recv[WINDOW];
	struct leat_msg_req tx[WINDOW], rx[WINDOW];
	unsigned int recvs; /* posted */
};

static struct {
	struct lcores l;
	struct bench_args args;
	struct bench_table *tables; /* results of all sessions */
	unsigned int table;
	uint64_t n;
	uint16_t credits;
	struct end end[VARIANTS][2];
	uint8_t *out[2], *in[2];
	const char *device;
} b;

static bool
is_tagged(unsigned int variant)
{
	return variant >= TAGGED;
}

/* @return n: this table measures the first n variants */
static unsigned int
variants(unsigned int table)
{
	return table == LAT ? VARIANTS : TWICE;
}

/* ---- tagged ops ---- */

static __rte_always_inline void
op_post(struct end *e, struct leat_op *op)
{
	while (unlikely(leat_ep_post(e->ep, &op, 1) != 1))
		(void)leat_ep_poll(e->ep, NULL, 0);
}

static __rte_always_inline void
sends_post(struct end *e, unsigned int sends)
{
	unsigned int i;

	for (i = 0; i < sends; i++)
		op_post(e, &e->send[i]);
}

/* A message is one tagged send, or two. */
static __rte_always_inline void
tagged_lat(struct end *e, uint64_t n, bool first, unsigned int sends)
{
	unsigned int out = 0, got = 0;
	struct leat_op *done[BURST];
	bool go = first;
	uint16_t i, k;

	while (n > 0 || out > 0 || go) {
		if (go && out == 0) {
			sends_post(e, sends);
			out = sends;
			go = false;
		}
		k = leat_ep_poll(e->ep, done, BURST);
		for (i = 0; i < k; i++) {
			if (done[i]->type == LEAT_OP_TSEND) {
				out--;
				continue;
			}
			if (++got == sends) {
				got = 0;
				n--;
				go = !first || n > 0;
			}
			if (go && out == 0) {
				sends_post(e, sends);
				out = sends;
				go = false;
			}
			op_post(e, done[i]);
		}
	}
}

static void
tagged_out(struct end *e, uint64_t n)
{
	const unsigned int window = tables[b.table].window;
	struct leat_op *free[WINDOW];
	unsigned int i, have = window;
	uint64_t left = n;

	for (i = 0; i < window; i++)
		free[i] = &e->send[i];
	while (left > 0 || have < window) {
		uint16_t want = (uint16_t)RTE_MIN(left,
						  (uint64_t)RTE_MIN(have, (unsigned int)BURST)),
			 k;

		if (want > 0) {
			k = leat_ep_post(e->ep, &free[have - want], want);
			if (unlikely(k < want))
				memmove(&free[have - want], &free[have - want + k],
					(want - k) * sizeof(free[0]));
			have -= k;
			left -= k;
		}
		have += leat_ep_poll(e->ep, &free[have], (uint16_t)(window - have));
	}
}

static void
tagged_in(struct end *e, uint64_t n)
{
	struct leat_op *done[BURST];
	uint16_t i, k;

	while (n > 0) {
		k = leat_ep_poll(e->ep, done, BURST);
		for (i = 0; i < k; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("receive failed: %d", done[i]->status);
		}
		if (k > 0 && leat_ep_post(e->ep, done, k) != k)
			bench_die("can't post receives");
		n -= k;
	}
}

/* ---- messages ---- */

static __rte_always_inline uint16_t
msg_poll(struct end *e, struct leat_msg_req **done, uint16_t n)
{
	struct leat_op *ops[BURST];
	uint16_t k = leat_ep_poll(e->ep, ops, BURST);

	if (k > 0)
		(void)leat_msg_process(e->m, ops, k);
	return leat_msg_poll(e->m, done, n);
}

static void
msg_lat(struct end *e, uint64_t n, bool first)
{
	struct leat_msg_req *done[BURST], *tx = &e->tx[0];
	bool sent = true, go = first;
	uint16_t i, k;

	while (n > 0 || !sent || go) {
		if (go && sent) {
			(void)leat_msg_send(e->c, &tx, 1);
			sent = go = false;
		}
		k = msg_poll(e, done, BURST);
		for (i = 0; i < k; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("message failed: %d", done[i]->status);
			if (done[i]->recv == 0) {
				sent = true;
				continue;
			}
			n--;
			go = !first || n > 0;
			if (go && sent) {
				(void)leat_msg_send(e->c, &tx, 1);
				sent = go = false;
			}
			(void)leat_msg_recv(e->c, &done[i], 1);
		}
	}
}

static void
msg_out(struct end *e, uint64_t n)
{
	const unsigned int window = tables[b.table].window;
	struct leat_msg_req *free[WINDOW];
	unsigned int i, have = window;
	uint64_t left = n;

	for (i = 0; i < window; i++)
		free[i] = &e->tx[i];
	while (left > 0 || have < window) {
		uint16_t want =
			(uint16_t)RTE_MIN(left, (uint64_t)RTE_MIN(have, (unsigned int)BURST));

		if (want > 0) {
			(void)leat_msg_send(e->c, &free[have - want], want);
			have -= want;
			left -= want;
		}
		have += msg_poll(e, &free[have], (uint16_t)(window - have));
	}
}

static void
msg_in(struct end *e, uint64_t n)
{
	struct leat_msg_req *done[BURST];
	uint16_t i, k;

	while (n > 0) {
		k = msg_poll(e, done, BURST);
		for (i = 0; i < k; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("message failed: %d", done[i]->status);
		}
		if (k > 0)
			(void)leat_msg_recv(e->c, done, k);
		n -= k;
	}
	/* Poll once more: the sender may still wait for an acknowledgement. */
	(void)msg_poll(e, done, 0);
}

static void
side(unsigned int variant, unsigned int i, uint64_t n)
{
	struct end *e = &b.end[variant][i];

	if (variant == TAGGED && b.table == LAT)
		tagged_lat(e, n, i == 0, 1);
	else if (variant == TWICE)
		tagged_lat(e, n, i == 0, 2);
	else if (variant == TAGGED)
		i == 0 ? tagged_out(e, n) : tagged_in(e, n);
	else if (b.table == LAT)
		msg_lat(e, n, i == 0);
	else
		i == 0 ? msg_out(e, n) : msg_in(e, n);
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
SIDES(LEAT)
SIDES(PLAIN)
SIDES(TAGGED)
SIDES(TWICE)

/* ---- start ---- */

static void
init(void)
{
	unsigned int i;

	if (lcores_init(&b.l, &b.args, b.device) < 0)
		bench_skip("%s", leat_err_msg());
	for (i = 0; i < 2; i++) {
		b.out[i] = aligned_alloc(4096, MAX_SIZE);
		b.in[i] = aligned_alloc(4096, (size_t)BIG_WINDOW * MAX_SIZE);
		if (b.out[i] == NULL || b.in[i] == NULL)
			bench_die("no memory");
		memset(b.out[i], 0x5a, MAX_SIZE);
		memset(b.in[i], 0, (size_t)BIG_WINDOW * MAX_SIZE);
	}
}

static void
ends_drive(struct end *ends, unsigned int variant, const struct leat_msg_conn_conf *conf,
	   unsigned int *up)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct leat_msg_req *none;
		struct leat_msg_event mev;
		struct leat_event ev;

		if (!is_tagged(variant))
			(void)msg_poll(&ends[i], &none, 0);
		else
			(void)leat_ep_poll(ends[i].ep, NULL, 0);
		while (leat_ep_events(ends[i].ep, &ev, 1) == 1) {
			if (ev.type == LEAT_EV_CONNECT_REQ && is_tagged(variant)) {
				ends[i].peer = ev.peer;
				if (leat_ep_accept(ends[i].ep, ev.peer, NULL) < 0)
					bench_die("%s", leat_err_msg());
			} else if (ev.type == LEAT_EV_CONNECT_REQ) {
				ends[i].c = leat_msg_accept(ends[i].m, &ev, conf);
				if (ends[i].c == NULL)
					bench_die("%s", leat_err_msg());
			} else if (!is_tagged(variant)) {
				(void)leat_msg_handle_event(ends[i].m, &ev);
			} else if (ev.type == LEAT_EV_CONNECTED) {
				++*up;
			} else {
				bench_die("connecting: %s", ev.text);
			}
		}
		while (!is_tagged(variant) && leat_msg_events(ends[i].m, &mev, 1) == 1) {
			if (mev.type != LEAT_MSG_UP)
				bench_die("connecting: %s", mev.text);
			++*up;
		}
	}
}

static void
connect_ends(unsigned int variant)
{
	const struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV), .max_peers = 1
	};
	const struct leat_msg_conn_conf cconf = {
		.mode = variant == LEAT ? LEAT_MSG_LEAT : LEAT_MSG_PLAIN,
	};
	struct end *ends = b.end[variant];
	char addr[LEAT_ADDR_MAX];
	unsigned int i, up = 0;
	int ret;

	for (i = 0; i < 2; i++) {
		ends[i].ep = leat_ep_create(leat_dev_get(0), &conf);
		if (ends[i].ep == NULL)
			bench_die("%s", leat_err_msg());
		ends[i].m = is_tagged(variant)
				    ? NULL
				    : leat_msg_create(ends[i].ep, &(struct leat_msg_conf){
									  .credits = b.credits });
		if (ends[i].m == NULL && !is_tagged(variant))
			bench_die("%s", leat_err_msg());
	}
	if (leat_ep_listen(ends[1].ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(ends[1].ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	if (is_tagged(variant)) {
		ret = leat_ep_connect(ends[0].ep, addr, NULL);
		if (ret < 0)
			bench_die("%s", leat_err_msg());
		ends[0].peer = (uint16_t)ret;
	} else {
		ends[0].c = leat_msg_connect(ends[0].m, addr, &cconf);
		if (ends[0].c == NULL)
			bench_die("%s", leat_err_msg());
	}
	while (up < 2)
		ends_drive(ends, variant, &cconf, &up);
}

/*
 * Post the receives of this table, on both ends. A table leaves all its receives posted: without
 * unprepare() the first messages of the next table would arrive in them.
 */
static void
prepare(unsigned int variant)
{
	const unsigned int t = b.table, window = variant == TWICE ? 2 : tables[t].window;
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		struct end *e = &b.end[variant][i];
		const uint64_t room = t == BW ? MAX_SIZE : 64;

		for (k = 0; k < window || k < e->recvs; k++) {
			struct leat_msg_req *rx = &e->rx[k];

			e->send[k] = (struct leat_op){ .type = LEAT_OP_TSEND,
						       .peer = e->peer,
						       .buf = b.out[i],
						       .size = tables[t].size };
			e->tx[k] = (struct leat_msg_req){ .buf = b.out[i], .size = tables[t].size };
			if (k >= window)
				continue;
			e->recv[k] = (struct leat_op){ .type = LEAT_OP_TRECV,
						       .peer = e->peer,
						       .buf = b.in[i] + k * room,
						       .size = room };
			*rx = (struct leat_msg_req){ .buf = b.in[i] + k * room, .size = room };
			if (is_tagged(variant))
				op_post(e, &e->recv[k]);
			else
				(void)leat_msg_recv(e->c, &rx, 1);
		}
		e->recvs = window;
	}
}

/* Cancel the receives that a table left posted, and wait until they have completed. */
static void
unprepare(unsigned int variant)
{
	struct leat_msg_req *req;
	struct leat_op *op;
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		struct end *e = &b.end[variant][i];

		for (k = 0; k < e->recvs; k++) {
			if (is_tagged(variant))
				(void)leat_op_cancel(e->ep, &e->recv[k]);
			else
				(void)leat_msg_cancel(&e->rx[k]);
		}
		for (k = 0; k < e->recvs;)
			k += is_tagged(variant) ? leat_ep_poll(e->ep, &op, 1)
						: msg_poll(e, &req, 1);
		e->recvs = 0;
	}
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t ns;

	(void)arg;
	/*
	 * The caches hold the data of the variant that was measured before. So warm up with
	 * 2 * WINDOW round trips that are not measured.
	 */
	if (b.table == LAT)
		(void)lcores_run(&b.l, variant, 2 * WINDOW, false, disturbed);
	ns = lcores_run(&b.l, variant, b.n, b.table != LAT, disturbed);
	if (b.table == LAT)
		return (double)ns / (2.0 * (double)b.n);
	/* messages per us, or bytes per us */
	return (double)b.n * 1e3 * (b.table == RATE ? 1 : MAX_SIZE) / (double)ns;
}

static void
report(const struct bench_table *t, const char *device)
{
	static const char *const names[VARIANTS] = { "leat", "plain", "tagged", "twice" };
	char name[64];
	unsigned int v;

	for (v = 0; v < variants(b.table); v++) {
		struct bench_result r = {
			.name = name,
			.unit = tables[b.table].unit,
			.kind = tables[b.table].kind,
			.target = v <= PLAIN ? tables[b.table].target[v] : 0,
			.leat = v,
			.reference = TAGGED,
		};

		if (r.target == 0 && v != TWICE)
			continue;
		snprintf(name, sizeof(name), "msg-%s-%s-%s", device, names[v],
			 tables[b.table].name);
		bench_report(t, &r);
	}
}

/* ---- counting: one thread sends a burst and receives it ---- */

static void
count_leat(uint32_t ops, uint32_t burst)
{
	struct end *from = &b.end[LEAT][0], *to = &b.end[LEAT][1];
	struct leat_msg_req *tx[BURST], *rx[BURST];
	unsigned int i, sent, got;
	uint16_t k;

	for (i = 0; i < burst; i++)
		tx[i] = &from->tx[i];
	for (; ops > 0; ops -= burst) {
		(void)leat_msg_send(from->c, tx, (uint16_t)burst);
		for (sent = got = 0; sent < burst || got < burst; got += k) {
			sent += msg_poll(from, &tx[sent], (uint16_t)(burst - sent));
			k = msg_poll(to, rx, BURST);
			for (i = 0; i < k; i++) {
				if (unlikely(rx[i]->status != 0))
					bench_die("message failed: %d", rx[i]->status);
			}
			if (k > 0)
				(void)leat_msg_recv(to->c, rx, k);
		}
	}
}

static void
count_tagged(uint32_t ops, uint32_t burst)
{
	struct end *from = &b.end[TAGGED][0], *to = &b.end[TAGGED][1];
	struct leat_op *tx[BURST], *rx[BURST];
	unsigned int i, sent, got;
	uint16_t k;

	for (i = 0; i < burst; i++)
		tx[i] = &from->send[i];
	for (; ops > 0; ops -= burst) {
		if (leat_ep_post(from->ep, tx, (uint16_t)burst) != burst)
			bench_die("can't post sends");
		for (sent = got = 0; sent < burst || got < burst; got += k) {
			sent += leat_ep_poll(from->ep, &tx[sent], (uint16_t)(burst - sent));
			k = leat_ep_poll(to->ep, rx, BURST);
			for (i = 0; i < k; i++) {
				if (unlikely(rx[i]->status != 0))
					bench_die("receive failed: %d", rx[i]->status);
			}
			if (k > 0 && leat_ep_post(to->ep, rx, k) != k)
				bench_die("can't post receives");
		}
	}
}

static void
close_ends(unsigned int variant)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		(void)leat_ep_shutdown(b.end[variant][i].ep, 1000);
	for (i = 0; i < 2; i++)
		(void)leat_ep_close(b.end[variant][i].ep, 100000, NULL, NULL);
}

static int
count(void)
{
	static const struct count_case cases[] = {
		{ "leat-8", { count_leat, count_tagged }, 1, 1024, 0, NULL, 1715, 72 },
		{ "leat-8x32", { count_leat, count_tagged }, BURST, 1024, 0, NULL, 307, 6.4 },
	};
	static const unsigned int sides[] = { LEAT, TAGGED };
	unsigned int i;

	init();
	b.table = COUNTED;
	for (i = 0; i < RTE_DIM(sides); i++) {
		connect_ends(sides[i]);
		prepare(sides[i]);
	}
	count_cases("msg", cases, RTE_DIM(cases));
	for (i = 0; i < RTE_DIM(sides); i++) {
		unprepare(sides[i]);
		close_ends(sides[i]);
	}
	return 0;
}

/* Measure all tables once. */
static void
session(void *arg)
{
	static const struct lcores_variant sides[] = {
		[LEAT] = { first_LEAT, second_LEAT },
		[PLAIN] = { first_PLAIN, second_PLAIN },
		[TAGGED] = { first_TAGGED, second_TAGGED },
		[TWICE] = { first_TWICE, second_TWICE },
	};
	static struct bench_table one;
	unsigned int v;

	(void)arg;
	init();
	for (v = 0; v < VARIANTS; v++)
		connect_ends(v);
	lcores_launch(&b.l, sides);
	for (b.table = 0; b.table < TABLES; b.table++) {
		b.n = b.args.smoke ? tables[b.table].few : tables[b.table].repeat;
		for (v = 0; v < variants(b.table); v++)
			prepare(v);
		bench_measure(&one, &b.args, variants(b.table), measure, NULL, b.l.cpus, 2);
		bench_append(&b.tables[b.table], &one);
		for (v = 0; v < variants(b.table); v++)
			unprepare(v);
	}
	lcores_join(&b.l);
	for (v = 0; v < VARIANTS; v++)
		close_ends(v);
}

int
main(int argc, char **argv)
{
	const char *name;
	bool counting;

	bench_args(&b.args, argc, argv);
	counting = count_option(&b.args);
	b.device = bench_option(&b.args, "--device", "fabric_ring0");
	b.credits = (uint16_t)atoi(bench_option(&b.args, "--credits", "0"));
	if (counting)
		return count();
	name = strstr(b.device, "provider=");
	name = name != NULL ? name + strlen("provider=") : "ring";
	b.tables = bench_shared(TABLES * sizeof(*b.tables));
	bench_sessions(&b.args, session, NULL);
	for (b.table = 0; b.table < TABLES; b.table++)
		report(&b.tables[b.table], name);
	return 0;
}
