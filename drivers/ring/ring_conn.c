/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connect and disconnect, and progress: the periodic look at connections that changed.
 *
 *     connector                        conn->state            acceptor
 *     connect: conn, lane[0], link     REQUEST  ---mbox--->   progress: link, CONNECT_REQ
 *     (no listener: try again,                                 accept: lane[1], UP, bell
 *      until the timeout)              REQUEST -> UP           progress: up
 *     progress: up                     REQUEST -> REJECTED     reject
 *     timeout, disconnect              REQUEST -> ABANDONED    progress: closing, down
 */

#include <stdlib.h>

#include "ring_inside.h"

/* Allocate the lane that a side produces into, in one zeroed piece. */
static int
lane_init(struct ring_conn *conn, int side, const struct ring_ep *rep)
{
	const struct ring_shape shape = { .nb = rep->tx_depth, .datagram = rep->datagram };
	const struct ring_lane_size size = ring_lane_size(&shape);
	struct ring_lane *lane = &conn->lane[side];
	char *mem;

	/* 128 bytes at each end keep the lane off the lines of the allocator's own words. */
	mem = calloc(1, size.shared + size.own + 2 * 128);
	if (mem == NULL)
		return leat_err(ENOMEM, "ring: connection of %u slots: out of memory",
				rep->tx_depth);
	if (rep->mtu > rep->inline_max && ring_buf_init(&lane->buf, rep->tx_depth, rep->mtu) < 0) {
		free(mem);
		return -ENOMEM;
	}
	conn->lane_mem[side] = mem;
	mem = RTE_PTR_ALIGN_CEIL(mem, 128);
	lane->dir = &conn->dir[side];
	ring_lane_place(lane, &shape, mem, mem + size.shared, true);
	return 0;
}

static void
lane_free(struct ring_conn *conn, int side)
{
	ring_buf_free(&conn->lane[side].buf);
	free(conn->lane_mem[side]);
}

void
ring_conn_put(struct ring_conn *conn)
{
	/*
	 * release: this side's uses come before the free; acquire: so do the peer's, if this side
	 * is the last
	 */
	if (__atomic_sub_fetch(&conn->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	lane_free(conn, 0);
	lane_free(conn, 1);
	ring_mbox_put(conn->mbox[0]);
	ring_mbox_put(conn->mbox[1]);
	free(conn);
}

bool
ring_conn_decide(struct ring_conn *conn, enum ring_conn_state state)
{
	uint32_t expected = RING_CONN_REQUEST;

	/* edge STATE: release the acceptor's lane and private data to the connector */
	return __atomic_compare_exchange_n(&conn->state, &expected, (uint32_t)state, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void
ring_conn_reject(struct ring_conn *conn)
{
	if (ring_conn_decide(conn, RING_CONN_REJECTED))
		ring_bell(conn->mbox[0]);
}

static void
set_priv(struct ring_conn *conn, uint8_t side, const struct leat_conn_params *params)
{
	conn->priv_len[side] = params->priv_len;
	if (params->priv_len > 0)
		memcpy(conn->priv[side], params->priv, params->priv_len);
}

static struct ring_conn *
conn_new(struct ring_inside *in, const struct leat_conn_params *params)
{
	const struct ring_ep *rep = &in->ring;
	struct ring_conn *conn = aligned_alloc(128, sizeof(*conn));

	if (conn == NULL) {
		leat_err(ENOMEM, "ring: connect: out of memory");
		return NULL;
	}
	memset(conn, 0, sizeof(*conn));
	if (lane_init(conn, 0, rep) < 0) {
		free(conn);
		return NULL;
	}
	conn->refs = 1;
	conn->datagram = rep->datagram;
	conn->mtu[0] = rep->mtu;
	/*
	 * Write the acceptor's answer to this want (ring_mark.h) in advance. The acceptor itself
	 * answers only later wants.
	 */
	conn->dir[0].want = conn->dir[1].marks = rep->want;
	conn->mbox[0] = in->mbox;
	ring_mbox_get(in->mbox);
	snprintf(conn->connector, sizeof(conn->connector), "ring:%s", leat_ep_name(rep->ep));
	set_priv(conn, 0, params);
	return conn;
}

int
ring_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	     const struct leat_conn_params *params)
{
	struct ring_ep *rep = ep->drv;
	struct ring_conn *conn;

	if (ring_name_check(addr, "connect") < 0)
		return -EINVAL;
	conn = conn_new(ring_inside_of(ep), params);
	if (conn == NULL)
		return -ENOMEM;
	snprintf(conn->addr, sizeof(conn->addr), "%s", addr);
	(void)ring_link_new(rep, peer, conn, 0, RING_LINK_CONNECTING);
	conn->dir[0].peer = peer->id;
	conn->deadline = leat_time_add(leat_now(), leat_us_to_cycles(params->timeout_us));
	conn->sent = ring_name_send(conn->addr, conn);
	return 0;
}

int
ring_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link = &rep->table[peer->id];
	struct ring_conn *conn = link->conn;

	if (conn->lane_mem[1] == NULL && lane_init(conn, 1, rep) < 0)
		return -ENOMEM;
	conn->mtu[1] = rep->mtu;
	conn->dir[1].want = conn->dir[0].marks = rep->want;
	set_priv(conn, 1, params);
	/* If the connector abandoned the request meanwhile, the next progress reports it. */
	if (ring_conn_decide(conn, RING_CONN_UP)) {
		link->state = RING_LINK_ACCEPTED;
		ring_bell(conn->mbox[0]);
	}
	return 0;
}

void
ring_link_free(struct ring_link *link)
{
	ring_conn_put(link->conn);
	link->asleep = NULL;
	link->state = RING_LINK_FREE;
}

void
ring_link_bell(struct ring_link *link)
{
	ring_bell(link->conn->mbox[link->side ^ 1]);
}

void
ring_link_report_closed(struct ring_link *link, enum ring_closed closed)
{
	struct ring_conn *conn = link->conn;
	struct ring_mbox *other = conn->mbox[link->side ^ 1];

	/*
	 * edge CLOSED: every claim, ack and slot of this side comes before it; pairs with
	 * links_progress() of the peer
	 */
	__atomic_store_n(&conn->dir[link->side].closed, (uint32_t)closed, __ATOMIC_RELEASE);
	if (other != NULL)
		ring_bell(other);
}

/* Give up a link that is not up yet, and free it. */
static void
abandon(struct ring_ep *rep, struct ring_link *link, enum ring_closed closed)
{
	(void)ring_conn_decide(link->conn,
			       link->side == 0 ? RING_CONN_ABANDONED : RING_CONN_REJECTED);
	ring_link_report_closed(link, closed); /* tells the peer, if the request was accepted */
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
}

void
ring_link_abandon(struct ring_ep *rep, struct ring_link *link, const char *why)
{
	RTE_SET_USED(why);
	abandon(rep, link, RING_BYE);
}

void
ring_conns_free(struct ring_ep *rep, enum ring_closed closed)
{
	struct ring_link *link, *next;

	for (link = TAILQ_FIRST(&rep->pending); link != NULL; link = next) {
		next = TAILQ_NEXT(link, pending);
		abandon(rep, link, closed);
	}
	ring_links_free(rep, closed);
}

void
ring_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link = &rep->table[peer->id];

	ring_conn_reject(link->conn);
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
}

/* ---- progress ---- */

static void
take_request(struct leat_ep *ep, struct ring_ep *rep, struct ring_conn *conn)
{
	struct leat_peer *peer = NULL;

	if (conn->datagram == rep->datagram)
		peer = leat_peer_request(ep, conn->connector, conn->priv[0], conn->priv_len[0]);
	if (peer != NULL) {
		(void)ring_link_new(rep, peer, conn, 1, RING_LINK_REQUESTED);
		conn->dir[1].peer = peer->id;
	} else {
		ring_conn_reject(conn);
		ring_conn_put(conn);
	}
}

static void
connect_failed(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, int status,
	       const char *why)
{
	struct leat_peer *peer = link->peer;
	char text[LEAT_EVENT_TEXT];

	snprintf(text, sizeof(text), "connect %s: %s", link->conn->addr, why);
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
	leat_peer_failed(ep, peer, status, text);
}

/* Bring a link up. This side acquired or wrote conn->state, so it can read both lanes. */
static void
link_up(struct leat_ep *ep, struct ring_link *link)
{
	const struct ring_ep *rep = ep->drv;
	struct ring_conn *conn = link->conn;
	const int other = link->side ^ 1;

	link->rx_long = conn->mtu[other] > rep->mtu;
	link->mark = conn->dir[other].peer;
	link->their_board = conn->mbox[other]->board;
	if (conn->mbox[other]->fd >= 0)
		link->asleep = &conn->mbox[other]->asleep;
	ring_link_up(ep, link, &conn->lane[link->side], &conn->lane[other]);
	leat_peer_up(ep, link->peer, conn->priv[other], conn->priv_len[other]);
}

static void
connecting(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t now)
{
	struct ring_conn *conn = link->conn;

	if (!conn->sent)
		conn->sent = ring_name_send(conn->addr, conn);
	/* edge STATE: pairs with ring_conn_decide() of the acceptor */
	switch (__atomic_load_n(&conn->state, __ATOMIC_ACQUIRE)) {
	case RING_CONN_UP:
		TAILQ_REMOVE(&rep->pending, link, pending);
		link_up(ep, link);
		return;
	case RING_CONN_REJECTED:
		connect_failed(ep, rep, link, -ECONNREFUSED,
			       "rejected, or its peer table is full, or it closed, or its "
			       "endpoints are of another type");
		return;
	default:
		break;
	}
	/* If ring_conn_decide() fails the acceptor was faster: the next call sees its outcome. */
	if (now < conn->deadline || !ring_conn_decide(conn, RING_CONN_ABANDONED))
		return;
	if (conn->sent) {
		ring_bell(conn->mbox[1]);
		connect_failed(ep, rep, link, -ETIMEDOUT,
			       "no answer in time: does it call leat_ep_events()?");
	} else {
		connect_failed(ep, rep, link, -ECONNREFUSED,
			       "no endpoint of this process listens there");
	}
}

static void
requested(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link)
{
	struct leat_peer *peer = link->peer;

	if (__atomic_load_n(&link->conn->state, __ATOMIC_ACQUIRE) == RING_CONN_REQUEST)
		return;
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
	leat_peer_closing(ep, peer, 0, "it took its request to connect back");
	leat_peer_down(ep, peer);
}

static void
pending_progress(struct leat_ep *ep, struct ring_ep *rep, uint64_t now)
{
	struct ring_link *link, *next;

	for (link = TAILQ_FIRST(&rep->pending); link != NULL; link = next) {
		next = TAILQ_NEXT(link, pending);
		switch ((enum ring_link_state)link->state) {
		case RING_LINK_CONNECTING:
			connecting(ep, rep, link, now);
			break;
		case RING_LINK_REQUESTED:
			requested(ep, rep, link);
			break;
		case RING_LINK_ACCEPTED:
			TAILQ_REMOVE(&rep->pending, link, pending);
			link_up(ep, link);
			break;
		case RING_LINK_FREE:
		case RING_LINK_UP:
		case RING_LINK_CLOSING:
			break;
		}
	}
}

/* Look at all links that are up. Downwards: removing a link moves the last link to its index. */
static void
links_progress(struct leat_ep *ep, struct ring_ep *rep)
{
	uint32_t i, how;

	for (i = rep->nb_links; i-- > 0;) {
		struct ring_link *link = rep->links[i];

		if (link->state != RING_LINK_UP)
			continue;
		/* edge CLOSED: pairs with ring_link_report_closed() of the peer */
		how = __atomic_load_n(&link->theirs->closed, __ATOMIC_ACQUIRE);
		/* The end of a datagram peer is not reported; datagrams sent to it are lost. */
		if (how == RING_OPEN || rep->datagram)
			ring_link_progress(rep, link, how != RING_OPEN);
		else if (how == RING_BYE)
			ring_link_ended(ep, link, 0, "the peer disconnected");
		else
			ring_link_ended(ep, link, -ECONNRESET, "the peer's endpoint was aborted");
	}
}

void
ring_progress(struct leat_ep *ep, uint64_t now)
{
	struct ring_inside *in = ring_inside_of(ep);
	struct ring_ep *rep = &in->ring;
	struct ring_conn *conn;
	/* Edge BELL: pairs with ring_bell(). Read it first: later changes ring again. */
	uint32_t bell = __atomic_load_n(&in->mbox->bell, __ATOMIC_ACQUIRE);
	bool rung = bell != in->bell_seen;

	in->bell_seen = bell;
	while (rung && (conn = ring_mbox_take(in->mbox)) != NULL)
		take_request(ep, rep, conn);
	if (!TAILQ_EMPTY(&rep->pending))
		pending_progress(ep, rep, now);
	if (rung || rep->rescan) {
		rep->rescan = false;
		links_progress(ep, rep);
	}
	if (rep->nb_closing > 0)
		ring_closing_progress(ep, rep);
}
