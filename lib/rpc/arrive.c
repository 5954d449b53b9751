/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets that came. Whatever is in them is looked at before it is used; what can't be is a
 * violation, and ends the session of the peer it came from.
 *
 *     receive --> session: token, epoch, credit? --> CONNECTING: kept until it is up
 *                                                `-> OPEN: items --> receive is posted again
 */

#include "rpc_pvt.h"

/* The session of the peer that the device names, if it does. */
static struct leat_rpc_session *
session_of_peer(const struct leat_rpc *rpc, uint16_t src)
{
	return src < rpc->ep->nb_peers ? rpc->by_peer[src].s : NULL;
}

/* @return 0 and the session, or a violation */
static int
session_find(struct leat_rpc *rpc, const struct rpc_head *h, uint16_t src,
	     struct leat_rpc_session **found)
{
	const uint32_t place = (uint32_t)h->token;
	struct leat_rpc_session *s;

	if (place >= rpc->max_sessions)
		return LEAT_RPC_BAD_TOKEN;
	s = &rpc->sessions[place];
	if (s->token != h->token || s->state == RPC_FREE ||
	    (src != LEAT_PEER_ANY && s->peer != src))
		return LEAT_RPC_BAD_TOKEN;
	*found = s;
	return s->epoch == h->epoch ? 0 : LEAT_RPC_BAD_EPOCH;
}

static int
item_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data)
{
	switch (m->kind) {
	case RPC_REQUEST:
		return rpc_request_arrived(s, m, data);
	case RPC_RESPONSE:
		return rpc_response_arrived(s, m, data);
	case RPC_CANCEL:
		return rpc_cancel_arrived(s, m);
	default:
		rpc_fail(s, -(int)m->aux, "the other side ended the session: %s",
			 strerror((int)m->aux));
		return 0;
	}
}

void
rpc_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, const struct rpc_head *h)
{
	const uint8_t *at = (const uint8_t *)r->op.buf + RPC_HEAD_LEN;
	size_t left = r->op.len - RPC_HEAD_LEN;
	struct rpc_item m;
	uint32_t i;
	int bad;

	bad = rpc_credit_take(s, h->credit);
	for (i = 0; bad == 0 && i < h->count; i++) {
		bad = rpc_item_get(at, left, &m);
		if (unlikely(bad != 0))
			break;
		bad = item_arrived(s, &m, at + RPC_ITEM_LEN);
		if (unlikely(s->state != RPC_OPEN))
			return;
		at += rpc_item_len(m.len);
		left -= rpc_item_len(m.len);
	}
	if (unlikely(bad == 0 && left > 0))
		bad = LEAT_RPC_TRUNCATED;
	if (unlikely(bad != 0))
		rpc_violation(s->rpc, s, bad);
	else
		rpc_work(s); /* there may be credit now, or some to be told */
}

static void
early_add(struct leat_rpc_session *s, struct rpc_recv *r)
{
	r->next = NULL;
	if (s->early == NULL)
		s->early = r;
	else
		s->early_tail->next = r;
	s->early_tail = r;
}

/* @return true: the receive is kept */
static bool
packet_arrived(struct leat_rpc *rpc, struct rpc_recv *r)
{
	struct leat_rpc_session *s = session_of_peer(rpc, r->op.src);
	struct rpc_head h;
	int bad;

	rpc->stats.packets_received++;
	bad = rpc_head_get(r->op.buf, r->op.len, &h);
	if (likely(bad == 0))
		bad = session_find(rpc, &h, r->op.src, &s);
	/* What was on its way when the session ended here is no violation. */
	if (unlikely(s != NULL && s->state >= RPC_ENDING))
		return false;
	if (likely(bad == 0)) {
		s->rx_got++;
		if (unlikely((int32_t)(s->rx_got - s->rx_told) > 0))
			bad = LEAT_RPC_OVERRUN;
	}
	if (unlikely(bad != 0)) {
		rpc_violation(rpc, s, bad);
		return false;
	}
	r->s = s;
	r->token = s->token;
	if (unlikely(s->state == RPC_CONNECTING)) {
		early_add(s, r);
		return true;
	}
	rpc_arrived(s, r, &h);
	return false;
}

void
rpc_recv_back(struct leat_rpc *rpc, struct rpc_recv *r)
{
	r->s = NULL;
	if (unlikely(r->op.status != 0)) {
		if (r->op.status == -ECANCELED || r->op.status == -ESHUTDOWN)
			return;
		if (r->op.status == -EMSGSIZE)
			rpc_violation(rpc, session_of_peer(rpc, r->op.src), LEAT_RPC_OVERSIZE);
	} else if (packet_arrived(rpc, r)) {
		return;
	}
	rpc_recv_repost(rpc, r);
}
