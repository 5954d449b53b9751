/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets that arrived. Every field is checked before it is used; an invalid one is a violation,
 * and ends the session of the peer that sent it.
 *
 *     receive --> session: token, epoch, credit? --> CONNECTING: kept until the session is up
 *                                                `-> OPEN: items --> receive is posted again
 */

#include "rpc_credit.h"
#include "rpc_dgram.h"
#include "rpc_fast.h"

/*
 * Find the session of the peer that the device reports as the sender. @return NULL: the device
 * reports none, or the peer has no session
 */
static struct leat_rpc_session *
session_of_peer(const struct leat_rpc *rpc, uint16_t src)
{
	return src < rpc->ep->nb_peers ? rpc->by_peer[src].s : NULL;
}

/* Find the session of a packet. @return 0 and the session, or a violation */
static int
session_find(struct leat_rpc *rpc, const struct rpc_head *h, uint16_t src,
	     struct leat_rpc_session **found)
{
	const uint32_t place = (uint32_t)h->token;
	struct leat_rpc_session *s;

	if (place >= rpc->max_sessions)
		return LEAT_RPC_BAD_TOKEN;
	s = &rpc->sessions[place];
	if (s->token != h->token || s->state == RPC_FREE)
		return LEAT_RPC_BAD_TOKEN;
	/*
	 * Datagrams: src is not compared. It tells only which endpoint sent the packet, and two
	 * endpoints may have several sessions.
	 */
	if (src != LEAT_PEER_ANY && s->peer != src && !rpc->datagram)
		return LEAT_RPC_BAD_TOKEN;
	*found = s;
	return s->epoch == h->epoch ? 0 : LEAT_RPC_BAD_EPOCH;
}

/* Handle an END: the other side ends the session. */
static int
end_arrived(struct leat_rpc_session *s, const struct rpc_item *m)
{
	if (s->dg != NULL)
		/* The peer waits for the acknowledgement of its END: send it at once. */
		(void)rpc_dgram_control(s, 0, 0, -1);
	else if (m->aux == 0)
		/* Over reliable endpoints no END is sent for a clean end: the device reports it. */
		return LEAT_RPC_BAD_STATUS;
	rpc_fail(s, -(int)m->aux, "the other side ended the session%s%s", m->aux != 0 ? ": " : "",
		 m->aux != 0 ? strerror((int)m->aux) : "");
	return 0;
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
		return end_arrived(s, m);
	}
}

/*
 * Fetch the cache lines that responses will fill. The responses are assumed to be as long as their
 * requests, len bytes.
 */
static __rte_always_inline void
responses_touch(struct leat_rpc_session *s, uint32_t len)
{
	if (s->open == NULL && rpc_place(s, RPC_ITEM_LEN, true) != NULL)
		rpc_touch(s->at, s->end, len);
}

void
rpc_items_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, size_t from, bool end_only)
{
	const uint8_t *at = (const uint8_t *)r->op.buf + from, *next = at;
	const uint8_t *const end = (const uint8_t *)r->op.buf + r->op.len;
	struct rpc_item m;
	int bad = 0;

	s->rpc->handling.s = s->rpc->handling.call.session = s;
	if ((size_t)(end - at) >= RPC_TOUCH_MIN && *at == RPC_REQUEST)
		responses_touch(s, (uint32_t)(end - at));
	while (likely(bad == 0) && at < end) {
		if (likely(s->fast && !end_only))
			next = *at == RPC_RESPONSE ? rpc_fast_responses(s, at, end)
						   : rpc_fast_requests(s, at, end);
		if (likely(next != at)) {
			at = next;
			continue;
		}
		bad = rpc_item_get(at, (size_t)(end - at), &m);
		if (bad == 0 && unlikely(end_only && m.kind != RPC_END))
			bad = LEAT_RPC_BAD_KIND;
		if (unlikely(bad != 0))
			break;
		bad = item_arrived(s, &m, at + rpc_item_head_len(&m));
		if (unlikely(s->state != RPC_OPEN))
			return;
		at += rpc_item_full_len(&m);
		next = at;
	}
	if (unlikely(bad != 0))
		rpc_violation(s->rpc, s, bad);
}

void
rpc_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, const struct rpc_head *h)
{
	int bad;

	if (unlikely(s->dg != NULL)) {
		bad = rpc_dgram_arrived(s, r, h);
	} else {
		bad = rpc_credit_take(s, h->credit);
		if (likely(bad == 0))
			rpc_items_arrived(s, r, RPC_HEAD_LEN, false);
	}
	if (unlikely(bad != 0))
		rpc_violation(s->rpc, s, bad);
	else
		rpc_work_add(s); /* there may be new credit, or credits to send */
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

/*
 * Handle a datagram. Anyone may send one, and old ones may arrive late: a packet without the
 * session's token is not from the peer, and must not end the session.
 * @return true: the receive is kept with its packet, and not posted again yet
 */
static bool
datagram_arrived(struct leat_rpc *rpc, struct rpc_recv *r)
{
	struct leat_rpc_session *s = NULL;
	struct rpc_head h;
	int bad;

	bad = rpc_head_get(r->op.buf, r->op.len, &h);
	if (likely(bad == 0))
		bad = session_find(rpc, &h, r->op.src, &s);
	if (unlikely(bad != 0)) {
		rpc->stats.violations[bad]++;
		return false;
	}
	if (unlikely(s->state >= RPC_ENDING))
		return false;
	if (unlikely(s->state != RPC_OPEN)) {
		if (s->dg->nb_early == rpc->credits)
			return false;
		s->dg->nb_early++;
		early_add(s, r);
		return true;
	}
	rpc_arrived(s, r, &h);
	return false;
}

/* Handle a packet. @return true: as datagram_arrived() */
static bool
packet_arrived(struct leat_rpc *rpc, struct rpc_recv *r)
{
	struct leat_rpc_session *s = NULL;
	struct rpc_head h;
	int bad;

	rpc->stats.packets_received++;
	if (unlikely(rpc->datagram))
		return datagram_arrived(rpc, r);
	bad = rpc_head_get(r->op.buf, r->op.len, &h);
	if (likely(bad == 0))
		bad = session_find(rpc, &h, r->op.src, &s);
	if (likely(bad == 0) && unlikely(h.flags != 0))
		bad = LEAT_RPC_BAD_FLAGS;
	if (unlikely(s == NULL))
		s = session_of_peer(rpc, r->op.src);
	/* A packet that was on its way when the session ended here is no violation. */
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
	if (unlikely(s->state != RPC_OPEN)) {
		early_add(s, r);
		return true;
	}
	rpc_arrived(s, r, &h);
	return false;
}

void
rpc_recv_completed(struct leat_rpc *rpc, struct rpc_recv *r)
{
	r->s = NULL;
	if (unlikely(r->op.status != 0)) {
		if (r->op.status == -ECANCELED || r->op.status == -ESHUTDOWN)
			return;
		if (r->op.status == -EMSGSIZE)
			rpc_violation(rpc, rpc->datagram ? NULL : session_of_peer(rpc, r->op.src),
				      LEAT_RPC_OVERSIZE);
	} else if (packet_arrived(rpc, r)) {
		return;
	}
	rpc_recv_repost(rpc, r);
}
