/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A key-value service over lib/msg, in leat mode, as a new user writes it, between two lcores: 16
 * requests of 48 B in flight from one client, answers of 80 B. Each completion is handled alone,
 * with one leat_msg_send() per request and per answer. It is compared with
 *
 * - the same service, with the sends of a turn gathered by hand and posted in one call;
 * - 2, 16, 64 and 256 credits: more must not be slower than fewer.
 *
 *     bench-msg-kv [--device fabric_ofi0,provider=tcp] [options, see --help]
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_le.h>
#include <leat_msg.h>

#include "bench_session.h"
#include "lcores.h"

#define IN_FLIGHT 16
#define BURST 32
#define REQUEST 48
#define ANSWER 80
/* Sends and receives of an end: answers may wait for the device while the next requests arrive. */
#define ANSWERS (2 * IN_FLIGHT)

/*
 * DEFAULT and HAND have the same number of credits: the table of credits compares the first four
 * variants, and the other table compares DEFAULT with HAND.
 */
enum { FEW, SOME, DEFAULT, MANY, HAND, VARIANTS };
static const uint16_t credits[VARIANTS] = { 2, 16, 64, 256, 64 };

enum { BY_HAND, BY_CREDITS, TABLES };

struct end {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct leat_msg_conn *c;
	struct leat_msg_req rx[ANSWERS], tx[ANSWERS];
	struct leat_msg_req *idle[ANSWERS]; /* idle requests of tx */
	unsigned int nb_idle;
	uint8_t in[ANSWERS][ANSWER], out[ANSWERS][ANSWER];
	bool by_hand;
	struct leat_msg_req *gathered[ANSWERS], *again[ANSWERS];
	uint16_t nb_gathered, nb_again;
} __attribute__((aligned(LEAT_CACHE_LINE)));

static struct {
	struct lcores l;
	struct bench_args args;
	struct bench_table *tables; /* results of all sessions */
	unsigned int *sessions;	    /* sessions so far, of all processes */
	struct end *end[VARIANTS];  /* two ends of each variant */
	uint64_t n;
	const char *device;
} b;

/* ---- the service ---- */

static void
end_send(struct end *e, struct leat_msg_req *req)
{
	if (e->by_hand)
		e->gathered[e->nb_gathered++] = req;
	else if (unlikely(leat_msg_send(e->c, &req, 1) != 1))
		bench_die("send: %s", leat_err_msg());
}

static void
end_recv(struct end *e, struct leat_msg_req *req)
{
	if (e->by_hand)
		e->again[e->nb_again++] = req;
	else if (unlikely(leat_msg_recv(e->c, &req, 1) != 1))
		bench_die("receive: %s", leat_err_msg());
}

/* End a turn of the loop: post the sends and receives that it gathered (only if by_hand). */
static void
end_turn(struct end *e)
{
	if (e->nb_gathered > 0)
		(void)leat_msg_send(e->c, e->gathered, e->nb_gathered);
	if (e->nb_again > 0)
		(void)leat_msg_recv(e->c, e->again, e->nb_again);
	e->nb_gathered = e->nb_again = 0;
}

static uint64_t
value_of(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* Send a request of size bytes, which begins with its number. */
static void
number_send(struct end *e, uint64_t number, uint64_t size)
{
	struct leat_msg_req *req = e->idle[--e->nb_idle];

	req->size = size;
	leat_put_le64(req->buf, number);
	end_send(e, req);
}

/* Poll for completed requests. @return how many of them are receives; these are in got */
static unsigned int
end_poll(struct end *e, struct leat_msg_req **got)
{
	struct leat_msg_req *done[BURST];
	struct leat_op *ops[BURST];
	unsigned int nb_got = 0;
	uint16_t i, n = leat_ep_poll(e->ep, ops, BURST);

	if (n > 0)
		(void)leat_msg_process(e->m, ops, n);
	n = leat_msg_poll(e->m, done, BURST);
	for (i = 0; i < n; i++) {
		if (unlikely(done[i]->status != 0))
			bench_die("message: %s", strerror(-done[i]->status));
		if (done[i]->recv != 0)
			got[nb_got++] = done[i];
		else
			e->idle[e->nb_idle++] = done[i];
	}
	return nb_got;
}

static void
client(struct end *e, uint64_t n)
{
	struct leat_msg_req *got[BURST];
	uint64_t key = 0, sum = 0, answered = 0;
	unsigned int i, k;

	for (; key < IN_FLIGHT && key < n; key++)
		number_send(e, key, REQUEST);
	end_turn(e);
	while (answered < n || e->nb_idle < ANSWERS) {
		k = end_poll(e, got);
		for (i = 0; i < k; i++) {
			sum += leat_get_le64(got[i]->buf);
			end_recv(e, got[i]);
			if (key < n)
				number_send(e, key++, REQUEST);
		}
		answered += k;
		end_turn(e);
	}
	for (key = 0; key < n; key++)
		sum -= value_of(key);
	if (sum != 0)
		bench_die("wrong values");
}

static void
server(struct end *e, uint64_t n)
{
	struct leat_msg_req *got[BURST];
	unsigned int i, k;

	while (n > 0 || e->nb_idle < ANSWERS) {
		k = end_poll(e, got);
		for (i = 0; i < k; i++) {
			number_send(e, value_of(leat_get_le64(got[i]->buf)), ANSWER);
			end_recv(e, got[i]);
		}
		n -= k;
		end_turn(e);
	}
}

#define SIDES(variant)                                                                             \
	static void client_##variant(uint64_t n)                                                   \
	{                                                                                          \
		client(&b.end[variant][0], n);                                                     \
	}                                                                                          \
	static void server_##variant(uint64_t n)                                                   \
	{                                                                                          \
		server(&b.end[variant][1], n);                                                     \
	}
SIDES(FEW)
SIDES(SOME)
SIDES(DEFAULT)
SIDES(MANY)
SIDES(HAND)

/* ---- start ---- */

static void
end_open(struct end *e, unsigned int variant)
{
	const struct leat_msg_conf conf = { .max_conns = 1, .credits = credits[variant] };
	struct leat_ep_conf ep_conf = { .max_peers = 1 };
	unsigned int i;

	e->by_hand = variant == HAND;
	if (leat_msg_ep_conf(leat_dev_get(0), &conf, &ep_conf) < 0)
		bench_die("%s", leat_err_msg());
	e->ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	if (e->ep == NULL)
		bench_die("%s", leat_err_msg());
	e->m = leat_msg_create(e->ep, &conf);
	if (e->m == NULL)
		bench_die("%s", leat_err_msg());
	for (i = 0; i < ANSWERS; i++) {
		e->rx[i] = (struct leat_msg_req){ .buf = e->in[i], .size = ANSWER };
		e->tx[i] = (struct leat_msg_req){ .buf = e->out[i] };
		e->idle[e->nb_idle++] = &e->tx[i];
	}
}

static void
ends_drive(struct end *ends, unsigned int *up)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_req *none[BURST];
	struct leat_msg_event mev;
	struct leat_event ev;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		(void)end_poll(&ends[i], none);
		while (leat_ep_events(ends[i].ep, &ev, 1) == 1) {
			if (leat_msg_handle_event(ends[i].m, &ev))
				continue;
			ends[i].c = leat_msg_accept(ends[i].m, &ev, &conf);
			if (ends[i].c == NULL)
				bench_die("%s", leat_err_msg());
		}
		while (leat_msg_events(ends[i].m, &mev, 1) == 1) {
			if (mev.type != LEAT_MSG_UP)
				bench_die("connecting: %s", mev.text);
			++*up;
		}
	}
}

static void
connect_ends(unsigned int variant)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct end *ends = aligned_alloc(LEAT_CACHE_LINE, 2 * sizeof(*ends));
	char addr[LEAT_ADDR_MAX];
	unsigned int i, k, up = 0;

	if (ends == NULL)
		bench_die("no memory");
	memset(ends, 0, 2 * sizeof(*ends));
	b.end[variant] = ends;
	for (i = 0; i < 2; i++)
		end_open(&ends[i], variant);
	if (leat_ep_listen(ends[1].ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(ends[1].ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	ends[0].c = leat_msg_connect(ends[0].m, addr, &conf);
	if (ends[0].c == NULL)
		bench_die("%s", leat_err_msg());
	while (up < 2)
		ends_drive(ends, &up);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < ANSWERS; k++)
			end_recv(&ends[i], &ends[i].rx[k]);
		end_turn(&ends[i]);
	}
}

/* ---- measuring ---- */

/* The variants of a table. A session measures variants[first] first. */
struct turn {
	const unsigned int *variants;
	unsigned int n, first;
};

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	const struct turn *t = arg;
	const unsigned int v = t->variants[(variant + t->first) % t->n];
	uint64_t ns;

	/* Warm up: the caches hold the data of the variant that was measured before. */
	(void)lcores_run(&b.l, v, 8 * IN_FLIGHT, true, disturbed);
	ns = lcores_run(&b.l, v, b.n, true, disturbed);
	return (double)b.n * 1e3 / (double)ns;
}

/*
 * Even equal variants differ, by the order in which their endpoints were created and in which they
 * are measured. So each session begins with a different variant.
 */
static void
table(unsigned int which, const unsigned int *variants, unsigned int n)
{
	static struct bench_table measured, one;
	struct turn t = { .variants = variants, .n = n, .first = *b.sessions % n };
	unsigned int i;

	bench_measure(&measured, &b.args, n, measure, &t, b.l.cpus, 2);
	one = measured;
	for (i = 0; i < n; i++)
		memcpy(one.v[(i + t.first) % n], measured.v[i], sizeof(one.v[0]));
	bench_append(&b.tables[which], &one);
}

static void
session(void *arg)
{
	static const struct lcores_variant sides[] = {
		[FEW] = { client_FEW, server_FEW },
		[SOME] = { client_SOME, server_SOME },
		[DEFAULT] = { client_DEFAULT, server_DEFAULT },
		[MANY] = { client_MANY, server_MANY },
		[HAND] = { client_HAND, server_HAND },
	};
	static const unsigned int by_hand[] = { DEFAULT, HAND };
	static const unsigned int by_credits[] = { FEW, SOME, DEFAULT, MANY };
	unsigned int i, v;

	(void)arg;
	if (lcores_init(&b.l, &b.args, b.device) < 0)
		bench_skip("%s", leat_err_msg());
	for (v = 0; v < VARIANTS; v++)
		connect_ends((v + *b.sessions) % VARIANTS);
	lcores_launch(&b.l, sides);
	b.n = b.args.smoke ? 64 : 3000;
	table(BY_HAND, by_hand, RTE_DIM(by_hand));
	table(BY_CREDITS, by_credits, RTE_DIM(by_credits));
	++*b.sessions;
	lcores_join(&b.l);
	for (v = 0; v < VARIANTS; v++) {
		for (i = 0; i < 2; i++)
			(void)leat_ep_shutdown(b.end[v][i].ep, 1000);
		for (i = 0; i < 2; i++)
			(void)leat_ep_close(b.end[v][i].ep, 100000, NULL, NULL);
	}
}

static void
report(const char *device)
{
	char name[64];
	struct bench_result r = {
		.name = name,
		.unit = "Mreq/s",
		.kind = BENCH_RATIO_MIN,
		.target = 0.9,
		.leat = 0,
		.reference = 1,
	};
	unsigned int v;

	snprintf(name, sizeof(name), "kv-%s-alone", device);
	bench_report(&b.tables[BY_HAND], &r);
	/* Allow for the difference that two variants with equal credits show. */
	r.target = 0.85;
	for (v = SOME; v < HAND; v++) {
		snprintf(name, sizeof(name), "kv-%s-credits-%u", device, credits[v]);
		r.leat = v;
		r.reference = v - 1;
		bench_report(&b.tables[BY_CREDITS], &r);
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
	b.sessions = bench_shared(sizeof(*b.sessions));
	bench_sessions(&b.args, session, NULL);
	report(name);
	return 0;
}
