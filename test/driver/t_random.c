/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random load: depths, types, sizes, queues and windows are drawn from the seed. Each test is
 * short, so that many seeds can be tried (--seeds).
 */

#include "ct.h"

#define FLOWS 4	  /* tagged flows, in each direction */
#define MEM 40000 /* bytes of memory for each one-sided stream */
#define PER_SIDE (2 * FLOWS + 8)

static uint64_t rnd;

static uint32_t
draw(uint32_t lo, uint32_t hi)
{
	return lo + (uint32_t)(ct_random(&rnd) % (hi - lo + 1));
}

/* Mostly small sizes, a few that can't be copied when posted, very few that are large. */
static uint64_t
draw_size(void)
{
	static const uint64_t max[] = { 8, 64, 64, 200, 200, 3000, 20000, 200000 };

	return RTE_MIN(draw(0, (uint32_t)max[draw(0, RTE_DIM(max) - 1)]), ct.info.max_msg);
}

struct load {
	struct ct_side *from, *to;
	uint16_t peer; /* the sender's id for the receiving side */
	int tx[PER_SIDE], rx[PER_SIDE];
	uint32_t tx_count[PER_SIDE], rx_count[PER_SIDE];
	unsigned int nb_tx, nb_rx;
	bool whole; /* no message will be lost */
};

static void
tx_start(struct load *l, const struct ct_spec *s)
{
	l->tx_count[l->nb_tx] = s->count;
	l->tx[l->nb_tx++] = ct_stream(l->from, s);
}

static uint32_t
draw_queue(void)
{
	static const uint32_t queues[] = { CT_Q_DEFAULT, CT_Q_DEFAULT, CT_Q_NONE, CT_Q_OWN,
					   CT_Q_OWN + 1 };

	return queues[draw(0, RTE_DIM(queues) - 1)];
}

/*
 * One flow of messages, and its receives. Messages arrive in the order of sending, whatever the
 * sends' queue. No flow waits for another: receives of different flows are on different queues, and
 * the windows of all flows together fit into rx_depth.
 */
static void
flow(struct load *l, bool tagged, uint32_t nr)
{
	struct ct_spec s = { .count = draw(1, 25),
			     .size = l->whole ? draw_size() : 8 + draw_size() / 2,
			     .seed = ct.seed * 1000 + nr,
			     .tag = nr,
			     .window = draw(1, 4),
			     .check = l->whole ? CT_DATA : CT_SELF };

	s.size_max = draw(0, 1) == 0 ? 0 : s.size + draw_size();
	if (s.size_max > ct.info.max_msg)
		s.size_max = 0;
	if (tagged)
		s.check |= CT_TAG;
	s.type = tagged ? LEAT_OP_TRECV : LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	s.queue = tagged ? (draw(0, 1) == 0 ? CT_Q_NONE : CT_Q_OWN + 2 + nr % FLOWS) : CT_Q_DEFAULT;
	/*
	 * Receives on no queue complete in any order, but each with the message of its own number.
	 */
	l->rx_count[l->nb_rx] = s.count;
	l->rx[l->nb_rx++] = ct_stream(l->to, &s);
	s.type = tagged ? LEAT_OP_TSEND : LEAT_OP_SEND;
	s.peer = l->peer;
	s.queue = draw_queue();
	s.window = draw(1, 40);
	tx_start(l, &s);
}

/* A stream of one-sided ops, in memory of its own. */
static void
onesided(struct load *l, uint8_t type)
{
	uint32_t count = draw(1, 20);
	struct ct_spec s = { .type = type,
			     .peer = l->peer,
			     .count = count,
			     .seed = ct.seed * 77 + type,
			     .window = draw(1, 40),
			     .queue = draw_queue(),
			     .operand = 3 };
	struct leat_rkey rk;

	if ((ct.info.ops & LEAT_OP_BIT(type)) == 0)
		return;
	s.size = type >= LEAT_OP_FETCH_ADD ? 8 : draw(0, MEM / count);
	/* The region's pattern has the stream's seed: reads are checked against it. */
	(void)ct_mr(l->to, MEM, ct_access(), type == LEAT_OP_READ ? s.seed : 0, &rk);
	s.raddr = rk.addr;
	s.rkey = rk.key;
	if (type < LEAT_OP_FETCH_ADD)
		s.rstride = s.size;
	if (type == LEAT_OP_READ)
		s.check = CT_DATA;
	if (type == LEAT_OP_FETCH_ADD) {
		s.compare = ct_word(0, 0);
		s.check = CT_OLD;
	}
	tx_start(l, &s);
}

static void
load_start(struct load *l, struct ct_side *from, uint16_t peer, struct ct_side *to, bool whole)
{
	bool tagged = (ct.info.ops & TSR) == TSR;
	uint32_t i, n = tagged ? draw(0, FLOWS) : 0;

	*l = (struct load){ .from = from, .to = to, .peer = peer, .whole = whole };
	flow(l, false, 0);
	for (i = 1; i <= n; i++)
		flow(l, true, i);
	if (draw(0, 1) == 0)
		onesided(l, LEAT_OP_WRITE);
	if (draw(0, 1) == 0)
		onesided(l, LEAT_OP_READ);
	if (draw(0, 1) == 0)
		onesided(l, LEAT_OP_FETCH_ADD);
}

static void
load_end(struct load *l)
{
	unsigned int i;

	for (i = 0; i < l->nb_tx; i++)
		ct_wait_ok(l->from, l->tx[i], l->tx_count[i]);
	for (i = 0; i < l->nb_rx; i++)
		ct_wait_ok(l->to, l->rx[i], l->rx_count[i]);
}

/*
 * After cut_off() has ended the connection: each op must complete, with success or a status that
 * fits, and each message that arrived must be whole, though earlier messages may be missing.
 */
static void
load_cut(struct load *l)
{
	struct ct_result res;
	unsigned int i;

	for (i = 0; i < l->nb_tx; i++) {
		ct_wait(l->from, l->tx[i], l->tx_count[i], &res);
		CT_CHECK(res.wrong == 0, "%s", res.text);
		CT_ONLY(&res, "sends and one-sided ops", -ECONNRESET, -ECONNABORTED, -ENOTCONN,
			-EACCES);
	}
	for (i = 0; i < l->nb_rx; i++) {
		(void)ct_recall(l->to, l->rx[i], &res);
		CT_CHECK(res.wrong == 0, "%s", res.text);
		CT_ONLY(&res, "receives", -ECANCELED, -ECONNRESET, -ECONNABORTED);
	}
}

static void
open_pair(struct ct_pair *p)
{
	struct ct_conf ca = { .tx_depth = RTE_MIN(draw(16, 64), ct.info.tx_depth_max),
			      .rx_depth = RTE_MIN(draw(24, 64), ct.info.rx_depth_max) },
		       cb = { .tx_depth = RTE_MIN(draw(16, 64), ct.info.tx_depth_max),
			      .rx_depth = RTE_MIN(draw(24, 64), ct.info.rx_depth_max) };

	ct_pair_open(p, &ca, &cb);
}

static void
all_arrives(void)
{
	struct load ab, ba;
	struct ct_pair p;

	rnd = ct.seed;
	open_pair(&p);
	load_start(&ab, &p.a, p.pa, &p.b, true);
	load_start(&ba, &p.b, p.pb, &p.a, true);
	load_end(&ab);
	load_end(&ba);
	ct_pair_close(&p);
}

/* One side disconnects under load; no message of the old connection may reach a new one. */
static void
cut_off(void)
{
	struct load ab, ba;
	struct ct_pair p;
	uint32_t i, n;

	rnd = ct.seed + 1;
	open_pair(&p);
	load_start(&ab, &p.a, p.pa, &p.b, false);
	load_start(&ba, &p.b, p.pb, &p.a, false);
	n = draw(0, 60);
	for (i = 0; i < n; i++)
		ct_pump();
	if (draw(0, 1) == 0)
		CT_EQ(ct_disconnect(&p.a, p.pa), 0, "disconnect");
	else
		CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, NULL);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	load_cut(&ab);
	load_cut(&ba);
	ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

const struct ct_test ct_tests_random[] = {
	{ .name = "random.all_arrives", .fn = all_arrives, .ops = SR },
	{ .name = "random.cut_off", .fn = cut_off, .ops = SR },
	{ .name = NULL },
};
