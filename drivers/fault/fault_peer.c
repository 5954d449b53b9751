/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections. Calls are passed to the lower endpoint with the peer's lower id; events of the lower
 * endpoint are passed up with the peer's upper id. Completions of a peer that are still delayed are
 * released before the event that ends the peer.
 *
 * A peer that dies. At this side it looks as if the peer's process had been killed: its ops
 * complete with -ECONNRESET, among them perhaps some that are done and not reported yet (the
 * message arrived, the acknowledgement did not), and the event DISCONNECTED has status -ECONNRESET.
 * The peer itself sees an ordinary disconnect: its process lives.
 */

#include "fault_pvt.h"

#define EVENTS 8
/* A call of fault_progress() asks for the lower endpoint's events at most this many times. */
#define ROUNDS 16

static struct fault_peer *
peer_open(struct fault_ep *fe, struct leat_peer *peer, uint16_t low)
{
	struct fault_peer *p = &fe->peers[peer->id];

	p->peer = peer;
	p->low = low;
	p->state = FAULT_PEER_OPEN;
	p->died = false;
	p->stalled = false;
	p->ops = 0;
	p->die_at = 0;
	if (fe->conf.die.shape != FAULT_NEVER && !fe->datagram)
		p->die_at = RTE_MAX(fault_dist_draw(&fe->conf.die, &fe->rand[FAULT_K_DIE]),
				    UINT64_C(1));
	peer->drv = p;
	fe->by_low[low] = p;
	return p;
}

static void
peer_forget(struct fault_ep *fe, struct fault_peer *p)
{
	fe->by_low[p->low] = NULL;
	p->state = FAULT_PEER_NONE;
	p->peer = NULL;
}

/*
 * End a peer's ops, because the peer ends: fail those that were not posted below, and release those
 * that are done below but were kept.
 */
static void
peer_leave(struct fault_ep *fe, struct fault_peer *p, int status)
{
	fault_datagrams_end(fe, p, status);
	fault_stall_end(fe, p, status);
}

/* ---- injected deaths ---- */

/* Fail each send that succeeded and is not reported yet with a chance of 1/2. */
static void
lose_acks(struct fault_ep *fe, const struct fault_peer *p)
{
	uint32_t i;

	for (i = 0; i < fe->nb_ops; i++) {
		struct fault_op *f = &fe->ops[i];

		if (f->peer != p || f->status != 0 ||
		    (f->where != FAULT_KEPT && f->where != FAULT_DELAYED &&
		     f->where != FAULT_MIXED) ||
		    leat_op_is_recv(f->op) || !fault_hit(fe, FAULT_K_DIE, FAULT_ALWAYS / 2))
			continue;
		f->status = -ECONNRESET;
		f->len = 0;
		LEAT_STAT_ADD(fe->stats.lost_acks, 1);
	}
}

static void
die(struct fault_ep *fe, struct fault_peer *p)
{
	struct leat_ep *ep = fe->ep;
	char text[LEAT_EVENT_TEXT];

	snprintf(text, sizeof(text),
		 "%s: dead after %" PRIu64 " ops, by %s,seed=%" PRIu64 " of endpoint %s",
		 leat_peer_addr(ep, p->peer), p->ops, leat_dev_name(ep->dev), fe->conf.seed,
		 leat_ep_name(ep));
	LEAT_STAT_ADD(fe->stats.deaths, 1);
	p->died = true;
	p->state = FAULT_PEER_CLOSING;
	leat_peer_closing(ep, p->peer, -ECONNRESET, text);
	lose_acks(fe, p);
	peer_leave(fe, p, -ECONNRESET);
	/* This fails if the lower peer is ending already; the event of its end comes anyway. */
	(void)leat_ep_disconnect(fe->low, p->low);
}

void
fault_peer_count(struct fault_ep *fe, struct fault_peer *p)
{
	if (++p->ops == p->die_at && p->state == FAULT_PEER_OPEN)
		die(fe, p);
}

void
fault_peers_abort(struct fault_ep *fe)
{
	uint16_t i;

	for (i = 0; i < fe->ep->nb_peers; i++) {
		if (fe->peers[i].state != FAULT_PEER_NONE)
			peer_leave(fe, &fe->peers[i], -ESHUTDOWN);
	}
}

/* ---- events ---- */

static void
requested(struct leat_ep *ep, struct fault_ep *fe, const struct leat_event *ev)
{
	const char *addr = leat_peer_addr(fe->low, &fe->low->peers[ev->peer]);
	struct leat_peer *peer = leat_peer_request(ep, addr, ev->priv, ev->priv_len);

	if (peer != NULL)
		(void)peer_open(fe, peer, ev->peer);
	else
		(void)leat_ep_reject(fe->low, ev->peer); /* fails if the request was withdrawn */
}

static void
ended(struct leat_ep *ep, struct fault_ep *fe, struct fault_peer *p, const struct leat_event *ev)
{
	struct leat_peer *peer = p->peer;

	p->state = FAULT_PEER_CLOSING;
	/* This call has no effect if this endpoint disconnected the peer. */
	leat_peer_closing(ep, peer, ev->status, ev->text);
	/* All proxies of the peer are done below, but perhaps not polled yet. */
	fault_drain(fe);
	peer_leave(fe, p, -ECONNRESET);
	fault_flush(fe, p);
	peer_forget(fe, p);
	leat_peer_down(ep, peer);
}

static void
event(struct leat_ep *ep, struct fault_ep *fe, const struct leat_event *ev)
{
	struct fault_peer *p;

	if (ev->type == LEAT_EV_SHUTDOWN)
		return; /* the lower endpoint was aborted, and all its ops are complete */
	if (ev->type == LEAT_EV_CONNECT_REQ) {
		requested(ep, fe, ev);
		return;
	}
	p = fe->by_low[ev->peer];
	if (p == NULL)
		return; /* a request was rejected here while its peer withdrew it */
	if (ev->type != LEAT_EV_CONNECTED)
		ended(ep, fe, p, ev);
	else if (p->state == FAULT_PEER_OPEN)
		leat_peer_up(ep, p->peer, ev->priv, ev->priv_len);
}

void
fault_progress(struct leat_ep *ep, uint64_t now)
{
	struct fault_ep *fe = fault_of(ep);
	struct leat_event ev[EVENTS];
	unsigned int round;
	uint16_t i, n;

	RTE_SET_USED(now);
	for (round = 0; round < ROUNDS; round++) {
		n = leat_ep_events(fe->low, ev, EVENTS);
		for (i = 0; i < n; i++)
			event(ep, fe, &ev[i]);
		if (n < EVENTS)
			break;
	}
}

/* ---- calls passed to the lower endpoint ---- */

int
fault_listen(struct leat_ep *ep, const char *addr)
{
	return leat_ep_listen(fault_of(ep)->low, addr);
}

int
fault_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	return leat_ep_listen_addr(fault_of(ep)->low, addr, len);
}

int
fault_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	      const struct leat_conn_params *params)
{
	struct fault_ep *fe = fault_of(ep);
	struct leat_conn_params p = *params;
	int low;

	p.user = NULL;
	low = leat_ep_connect(fe->low, addr, &p);
	if (low < 0)
		return low;
	(void)peer_open(fe, peer, (uint16_t)low);
	return 0;
}

int
fault_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct leat_conn_params p = *params;
	const struct fault_peer *fp = peer->drv;

	p.user = NULL;
	return leat_ep_accept(fault_of(ep)->low, fp->low, &p);
}

void
fault_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct fault_ep *fe = fault_of(ep);
	struct fault_peer *p = peer->drv;

	/* This fails if the peer withdrew the request meanwhile; then no end is reported. */
	(void)leat_ep_reject(fe->low, p->low);
	peer_forget(fe, p);
}

void
fault_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct fault_ep *fe = fault_of(ep);
	struct fault_peer *p = peer->drv;

	p->state = FAULT_PEER_CLOSING;
	leat_peer_closing(ep, peer, status, text);
	peer_leave(fe, p, -ECONNABORTED);
	/* This fails if the lower peer is ending already; the event of its end comes anyway. */
	(void)leat_ep_disconnect(fe->low, p->low);
}
