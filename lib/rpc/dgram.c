/* SPDX-License-Identifier: BSD-3-Clause */

/* Numbers of packets, acknowledgements, losses: see rpc_dgram.h. */

#include <stdlib.h>

#include "rpc_dgram.h"

/* Return by how many numbers seq is ahead of `of`; < 0: behind. Numbers wrap. */
static inline int32_t
ahead(uint32_t seq, uint32_t of)
{
	return (int32_t)(seq - of);
}

int
rpc_dgram_alloc(struct leat_rpc *rpc)
{
	const size_t len = (size_t)rpc->max_sessions * sizeof(struct rpc_dgram);
	struct rpc_dgram *dg = calloc(rpc->max_sessions, sizeof(*dg));
	uint32_t i;

	rpc->mem_dgrams = dg;
	if (dg == NULL)
		return -ENOMEM;
	rpc->stats.memory += len;
	for (i = 0; i < rpc->max_sessions; i++) {
		dg[i].s = &rpc->sessions[i];
		rpc->sessions[i].dg = &dg[i];
	}
	return 0;
}

/* ---- sending ---- */

void
rpc_dgram_window_set(struct leat_rpc_session *s)
{
	struct rpc_dgram *dg = s->dg;
	const uint32_t span = s->tx_sent - dg->acked;
	uint32_t most = dg->window, left;

	if (unlikely(dg->cc != NULL)) {
		const float window = dg->cc_state.window;
		uint32_t out = window >= 1 ? (uint32_t)RTE_MIN(window, (float)dg->window) : 1;

		/* The span also counts packets that sack acknowledged: these are not on the way. */
		most = RTE_MIN(most, out + span - dg->nb_out);
		if (dg->paced)
			most = 0;
	}
	left = most > span ? most - span : 0;
	/* One more: rpc_credit_left() subtracts one. */
	s->tx_credit = s->tx_sent + left + 1;
	if (left > 0 && (s->queued > 0 || rpc_any_pending(s) || s->out != NULL))
		rpc_work_add(s);
}

/*
 * Write head and numbers of a packet that is about to be posted; the numbers acknowledge the
 * packets that have arrived.
 */
static void
head_put(struct leat_rpc_session *s, struct rpc_packet *p, uint8_t flags, uint32_t seq,
	 uint64_t now)
{
	struct rpc_dgram *dg = s->dg;
	const struct rpc_head h = {
		.token = s->peer_token,
		.credit = dg->next + s->rpc->credits,
		.epoch = s->peer_epoch,
		.version = RPC_VERSION,
		.flags = flags,
	};
	const struct rpc_numbers n = {
		.seq = seq,
		.ack = dg->next,
		.sack = dg->map,
		.echo = dg->echo,
		.delay = (uint32_t)RTE_MIN(leat_cycles_to_ns(now - RTE_MIN(now, dg->echo_at)),
					   (uint64_t)UINT32_MAX),
	};

	rpc_head_put(p->op.buf, &h);
	rpc_numbers_put(p->op.buf, &n);
	dg->unacked = 0;
	dg->ack_now = false;
}

/*
 * Return the pause after a packet while the window is below 1, cycles: 1 / window round trips, but
 * at most rpc->silence. If the window is 0, negative or NaN, the pause is rpc->silence.
 */
static uint64_t
pause_of(const struct leat_rpc_session *s)
{
	const float window = s->dg->cc_state.window;
	const float longest = (float)s->rpc->silence;
	const float pause = window > 0 ? (float)s->dg->srtt / window : longest;

	return (uint64_t)RTE_MIN(pause, longest);
}

void
rpc_dgram_number(struct leat_rpc_session *s, struct rpc_packet *p)
{
	const uint64_t now = rpc_now(s->rpc);
	struct rpc_dgram *dg = s->dg;

	p->seq = s->tx_sent++;
	p->sent = now;
	p->kept = p->busy = true;
	p->resent = false;
	head_put(s, p, RPC_H_NUMBERED, p->seq, now);
	dg->out[p->seq % RPC_WINDOW_MAX] = p;
	if (dg->nb_out++ == 0)
		rpc_dgram_wait_start(s, now);
	if (unlikely(dg->cc != NULL && !(dg->cc_state.window >= 1))) {
		rpc_dgram_pace(s, leat_time_add(now, pause_of(s)));
		rpc_dgram_window_set(s);
	}
}

bool
rpc_dgram_control(struct leat_rpc_session *s, uint8_t flags, uint32_t seq, int end)
{
	const struct rpc_item m = { .kind = RPC_END, .aux = end > 0 ? (uint32_t)end : 0 };
	struct rpc_packet *p = rpc_packet_take(s);

	if (p == NULL)
		return false;
	head_put(s, p, flags, seq, rpc_now(s->rpc));
	if (end >= 0) {
		rpc_item_put((uint8_t *)p->op.buf + p->op.size, &m);
		p->op.size += RPC_ITEM_LEN;
	}
	if (flags == 0)
		s->rpc->stats.credit_packets++;
	rpc_packet_post(s, p);
	return true;
}

/* ---- sending again ---- */

/*
 * Return the time left for a request, us, for an item that is sent again: the item still has the
 * time that was left when it was first sent. RPC_US_LATE: the request was given back, and must not
 * be executed.
 */
static uint32_t
us_left_now(struct leat_rpc_session *s, const struct rpc_item *m)
{
	const struct rpc_tx_slot *ts = &s->tx[m->slot];

	if (m->slot >= rpc_slots(s) || ts->num != m->num || ts->state != RPC_TX_WAIT)
		return RPC_US_LATE;
	if (ts->deadline != UINT64_MAX)
		return rpc_us_for_wire(s->rpc, ts->deadline);
	return rpc_req_us_left(s->rpc, ts->req);
}

static void
deadlines_renew(struct leat_rpc_session *s, struct rpc_packet *p)
{
	uint8_t *at = (uint8_t *)p->op.buf + RPC_HEAD_LEN + RPC_NUMBERS_LEN;
	uint8_t *const end = (uint8_t *)p->op.buf + p->op.size;
	struct rpc_item m;

	for (; at < end; at += rpc_item_full_len(&m)) {
		/* This side wrote the items, so they are valid. */
		if (rpc_item_get(at, (size_t)(end - at), &m) != 0)
			return;
		if (m.kind != RPC_REQUEST || m.slot == RPC_NO_SLOT)
			continue;
		m.aux = us_left_now(s, &m);
		rpc_item_put(at, &m);
	}
}

static void
send_again(struct leat_rpc_session *s, struct rpc_packet *p, uint64_t now)
{
	deadlines_renew(s, p);
	head_put(s, p, RPC_H_NUMBERED, p->seq, now);
	p->sent = now;
	p->resent = p->busy = true;
	s->rpc->stats.retransmissions++;
	rpc_packet_post(s, p);
}

/*
 * Send lost packets again. A packet counts as lost if it was sent more than a quarter of a round
 * trip before a packet that has arrived: within that time the network may reorder packets.
 */
static void
losses_find(struct leat_rpc_session *s, uint64_t now)
{
	struct rpc_dgram *dg = s->dg;
	const uint64_t slack = dg->srtt / 4;
	bool lost = false;
	uint32_t seq;

	for (seq = dg->acked; seq != s->tx_sent; seq++) {
		struct rpc_packet *p = dg->out[seq % RPC_WINDOW_MAX];

		/* A packet that the device still has is not lost yet. */
		if (p == NULL || p->busy || p->sent + slack >= dg->latest)
			continue;
		send_again(s, p, now);
		lost = true;
	}
	if (lost && dg->cc != NULL && dg->cc->lost != NULL)
		dg->cc->lost(&dg->cc_state, leat_cycles_to_ns(now - dg->cc_start));
}

/* ---- acknowledgements ---- */

static void
packet_acked(struct leat_rpc_session *s, uint32_t seq, uint64_t now)
{
	struct rpc_dgram *dg = s->dg;
	struct rpc_packet **at = &dg->out[seq % RPC_WINDOW_MAX], *p = *at;

	if (p == NULL)
		return;
	*at = NULL;
	dg->nb_out--;
	/* If a packet is acknowledged soon after it was sent again, maybe only its first copy has
	 * arrived: then the time of the second send must not make other packets count as lost. */
	if (!p->resent || now - p->sent >= dg->srtt / 2)
		dg->latest = RTE_MAX(dg->latest, p->sent);
	p->kept = false;
	if (!p->busy)
		rpc_packet_free(s->rpc, p);
}

/*
 * Measure the round trip of the packet named by echo, cycles. @return 0: it is unknown, since the
 * packet was sent twice or is acknowledged already
 */
static uint64_t
rtt_measure(const struct leat_rpc_session *s, const struct rpc_numbers *n, uint64_t now)
{
	const struct rpc_dgram *dg = s->dg;
	const struct rpc_packet *p = dg->out[n->echo % RPC_WINDOW_MAX];
	const uint64_t kept = leat_us_to_cycles(n->delay) / 1000; /* delay is in ns */
	uint64_t rtt;

	if (p == NULL || p->seq != n->echo || p->resent)
		return 0;
	rtt = now - RTE_MIN(now, p->sent);
	return rtt > kept ? rtt - kept : 1;
}

/* Process the acknowledgements in a packet. @return 0, or a violation */
static int
acks_take(struct leat_rpc_session *s, const struct rpc_numbers *n, uint64_t now)
{
	struct rpc_dgram *dg = s->dg;
	const uint32_t out = dg->nb_out, span = s->tx_sent - dg->acked;
	const int32_t more = ahead(n->ack, dg->acked);
	uint64_t bits = n->sack, rtt;

	if (more < 0)
		return 0; /* older than the last acknowledgement processed */
	if ((uint32_t)more > span ||
	    (bits != 0 && (uint32_t)more + 64 - (uint32_t)__builtin_clzll(bits) >= span))
		return LEAT_RPC_BAD_ACK;
	rtt = rtt_measure(s, n, now);
	if (rtt > 0)
		rpc_dgram_rtt(dg, rtt);
	for (; dg->acked != n->ack; dg->acked++)
		packet_acked(s, dg->acked, now);
	for (; bits != 0; bits &= bits - 1)
		packet_acked(s, n->ack + 1 + (uint32_t)__builtin_ctzll(bits), now);
	if (dg->nb_out == out)
		return 0;
	rpc_dgram_progress(s, now);
	if (unlikely(dg->cc != NULL)) {
		dg->cc_state.rtt_ns = leat_cycles_to_ns(dg->srtt);
		dg->cc->acked(&dg->cc_state, rtt > 0 ? leat_cycles_to_ns(rtt) : 0, out - dg->nb_out,
			      leat_cycles_to_ns(now - dg->cc_start));
	}
	if (dg->nb_out > 0 && n->sack != 0)
		losses_find(s, now);
	rpc_dgram_window_set(s);
	if (unlikely(s->closing))
		rpc_work_add(s);
	return 0;
}

/* ---- arriving ---- */

/* Record the number of a packet. @return 0: new; -1: a duplicate; or a violation */
static int
number_take(struct leat_rpc_session *s, uint32_t seq)
{
	struct rpc_dgram *dg = s->dg;
	const int32_t far = ahead(seq, dg->next);
	uint64_t bit;
	unsigned int run;

	dg->unacked++;
	if (far < 0) {
		dg->ack_now = true;
		return -1;
	}
	if ((uint32_t)far >= RTE_MIN(s->rpc->credits, RPC_WINDOW_MAX))
		return LEAT_RPC_OVERRUN;
	if (far == 0) {
		run = dg->map == UINT64_MAX ? 64 : (unsigned int)__builtin_ctzll(~dg->map);
		dg->next += 1 + run;
		dg->map = run >= 63 ? 0 : dg->map >> (run + 1);
		return 0;
	}
	/* There is a gap: acknowledge at once, so that the sender can repeat the lost packets. */
	dg->ack_now = true;
	bit = UINT64_C(1) << (far - 1);
	if ((dg->map & bit) != 0)
		return -1;
	dg->map |= bit;
	return 0;
}

/* Handle a packet without a number: probe, answer or acknowledgement, with no items or an END. */
static int
unnumbered(struct leat_rpc_session *s, const struct rpc_head *h, const struct rpc_numbers *n,
	   size_t left)
{
	struct rpc_dgram *dg = s->dg;

	if (h->flags == RPC_H_PROBE) {
		if (!rpc_dgram_control(s, RPC_H_ANSWER, n->seq, -1))
			dg->ack_now = true;
	} else if (h->flags == RPC_H_ANSWER && n->seq == dg->probe) {
		/* Every packet sent before the probe and not acknowledged by the answer is lost. */
		dg->latest = RTE_MAX(dg->latest, dg->probed_at);
		losses_find(s, rpc_now(s->rpc));
	}
	return left == 0 || left == RPC_ITEM_LEN ? 0 : LEAT_RPC_BAD_KIND;
}

int
rpc_dgram_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, const struct rpc_head *h)
{
	const size_t from = RPC_HEAD_LEN + RPC_NUMBERS_LEN;
	const uint64_t now = rpc_now(s->rpc);
	struct rpc_dgram *dg = s->dg;
	struct rpc_numbers n;
	int bad;

	bad = rpc_numbers_get(r->op.buf, r->op.len, h->flags, &n);
	if (unlikely(bad != 0))
		return bad;
	if (unlikely(h->credit - n.ack != s->peer_credits))
		return LEAT_RPC_BAD_CREDIT;
	dg->heard = now;
	dg->probing = false;
	dg->backoff = 0;
	bad = acks_take(s, &n, now);
	if (unlikely(bad != 0))
		return bad;
	if (unlikely(h->flags != RPC_H_NUMBERED)) {
		bad = unnumbered(s, h, &n, r->op.len - from);
		if (bad == 0 && r->op.len > from)
			rpc_items_arrived(s, r, from, true);
		rpc_work_add(s);
		return bad;
	}
	bad = number_take(s, n.seq);
	rpc_work_add(s); /* to acknowledge the packet */
	if (unlikely(bad < 0)) {
		s->rpc->stats.duplicates++;
		return 0;
	}
	if (unlikely(bad > 0))
		return bad;
	dg->echo = n.seq;
	dg->echo_at = now;
	rpc_items_arrived(s, r, from, false);
	return 0;
}

/* ---- begin and end ---- */

void
rpc_dgram_start(struct leat_rpc_session *s)
{
	const uint64_t now = leat_now();
	struct rpc_dgram *dg = s->dg;

	dg->acked = s->tx_sent;
	dg->nb_out = 0;
	dg->window = RTE_MIN(s->peer_credits, RPC_WINDOW_MAX);
	memset(dg->out, 0, sizeof(dg->out));
	dg->latest = 0;
	dg->next = s->peer_first;
	dg->map = 0;
	dg->echo = s->peer_first - 1;
	dg->echo_at = now;
	dg->unacked = 0;
	dg->ack_now = dg->end_sent = dg->paced = false;
	memset(&dg->cc_state, 0, sizeof(dg->cc_state));
	dg->cc_start = now;
	if (dg->cc != NULL)
		dg->cc->start(&dg->cc_state);
	rpc_dgram_time_start(s);
	rpc_dgram_window_set(s);
}

void
rpc_dgram_stop(struct leat_rpc_session *s)
{
	struct rpc_dgram *dg = s->dg;
	unsigned int i;

	rpc_dgram_time_stop(s);
	for (i = 0; i < RPC_WINDOW_MAX; i++) {
		struct rpc_packet *p = dg->out[i];

		if (p == NULL)
			continue;
		dg->out[i] = NULL;
		p->kept = false;
		if (!p->busy)
			rpc_packet_free(s->rpc, p);
	}
	dg->nb_out = 0;
}
