/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connecting, and the periodic look at what changed.
 *
 *     connector                        conn->state            acceptor
 *     connect: conn, dir[0], link      REQUEST  ---mbox--->   progress: link, CONNECT_REQ
 *     (no listener: try again,                                 accept: dir[1], UP, bell
 *      until the timeout)              REQUEST -> UP           progress: up
 *     progress: up                     REQUEST -> REJECTED     reject
 *     timeout, disconnect              REQUEST -> ABANDONED    progress: closing, down
 */

#include <stdlib.h>

#include "ring_mark.h"

/* One zeroed piece. Of datagrams there are no acks, nothing waits for them, and none is kept. */
static int
dir_init(struct ring_dir *dir, const struct ring_ep *rep)
{
	uint32_t nb = rep->tx_depth, nb_acked = rep->datagram ? 0 : nb;
	size_t acks = nb_acked * sizeof(struct ring_ack),
	       notes = nb_acked * sizeof(struct ring_note);
	size_t slots = nb * sizeof(struct ring_slot), ops = nb_acked * sizeof(struct leat_op *);
	size_t nrs = nb * sizeof(uint64_t);
	char *p;

	/*
	 * lines of different writers stay apart, and apart from what the allocator puts around
	 * them
	 */
	dir->mem = calloc(1, slots + acks + notes + ops + nrs + 4 * 128);
	if (dir->mem == NULL)
		return leat_err(ENOMEM, "ring: connection of %u slots: out of memory", nb);
	if (rep->mtu > rep->inline_max && ring_buf_init(&dir->buf, nb, rep->mtu) < 0) {
		free(dir->mem);
		dir->mem = NULL;
		return -ENOMEM;
	}
	p = RTE_PTR_ALIGN_CEIL(dir->mem, 128);
	dir->slots = (struct ring_slot *)p;
	p += slots;
	dir->acks = (struct ring_ack *)p;
	p = RTE_PTR_ALIGN_CEIL(p + acks, 128);
	dir->notes = (struct ring_note *)p;
	p = RTE_PTR_ALIGN_CEIL(p + notes, 128);
	dir->ops = (struct leat_op **)p;
	dir->nr = (uint64_t *)(p + ops);
	/*
	 * Never filled: consumed long ago (it is compared as signed), and what a head of 0 would
	 * mean (see ring_tx_advance()).
	 */
	memset(dir->nr, 0xff, nrs);
	/* The only one whose head of 0 would be that of an ack to come. */
	if (nb_acked > 0)
		dir->acks[nb - 1].head = 1;
	dir->consumed = RING_FIRST;
	dir->recalls = LEAT_CURSOR_START;
	dir->mask = nb - 1;
	return 0;
}

static void
dir_free(struct ring_dir *dir)
{
	ring_buf_free(&dir->buf);
	free(dir->mem);
}

void
ring_conn_put(struct ring_conn *conn)
{
	/* release: this side is done with it; acquire: the last one sees that the other is, too */
	if (__atomic_sub_fetch(&conn->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	dir_free(&conn->dir[0]);
	dir_free(&conn->dir[1]);
	ring_mbox_put(conn->mbox[0]);
	ring_mbox_put(conn->mbox[1]);
	free(conn);
}

bool
ring_conn_decide(struct ring_conn *conn, enum ring_conn_state state)
{
	uint32_t expected = RING_CONN_REQUEST;

	/* STATE: release the acceptor's direction and private data to the connector */
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
conn_new(struct ring_ep *rep, const struct leat_conn_params *params)
{
	struct ring_conn *conn = aligned_alloc(128, sizeof(*conn));

	if (conn == NULL) {
		leat_err(ENOMEM, "ring: connect: out of memory");
		return NULL;
	}
	memset(conn, 0, sizeof(*conn));
	if (dir_init(&conn->dir[0], rep) < 0) {
		free(conn);
		return NULL;
	}
	conn->refs = 1;
	conn->datagram = rep->datagram;
	conn->mtu[0] = rep->mtu;
	/* The acceptor will go by it, or answer that it goes by another one. */
	conn->side[0].want = conn->side[1].marks = rep->want;
	conn->mbox[0] = rep->mbox;
	ring_mbox_get(rep->mbox);
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
	struct ring_link *link;

	if (ring_name_check(addr, "connect") < 0)
		return -EINVAL;
	conn = conn_new(rep, params);
	if (conn == NULL)
		return -ENOMEM;
	link = ring_link_new(rep, peer, conn, 0, RING_LINK_CONNECTING);
	link->addr = strdup(addr);
	if (link->addr == NULL) {
		TAILQ_REMOVE(&rep->pending, link, pending);
		ring_link_free(link);
		return leat_err(ENOMEM, "ring: connect %s: out of memory", addr);
	}
	conn->side[0].peer = peer->id;
	link->deadline = leat_time_add(leat_now(), leat_us_to_cycles(params->timeout_us));
	link->sent = ring_name_send(addr, conn);
	return 0;
}

int
ring_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link = &rep->table[peer->id];
	struct ring_conn *conn = link->conn;

	if (conn->dir[1].mem == NULL && dir_init(&conn->dir[1], rep) < 0)
		return -ENOMEM;
	conn->mtu[1] = rep->mtu;
	conn->side[1].want = conn->side[0].marks = rep->want;
	set_priv(conn, 1, params);
	/* If it was abandoned meanwhile the next progress says so. */
	if (ring_conn_decide(conn, RING_CONN_UP)) {
		link->state = RING_LINK_ACCEPTED;
		ring_bell(conn->mbox[0]);
	}
	return 0;
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
		conn->side[1].peer = peer->id;
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

	snprintf(text, sizeof(text), "connect %s: %s", link->addr, why);
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
	leat_peer_failed(ep, peer, status, text);
}

static void
connecting(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t now)
{
	struct ring_conn *conn = link->conn;

	if (!link->sent)
		link->sent = ring_name_send(link->addr, conn);
	/* STATE: pairs with ring_conn_decide() of the acceptor */
	switch (__atomic_load_n(&conn->state, __ATOMIC_ACQUIRE)) {
	case RING_CONN_UP:
		TAILQ_REMOVE(&rep->pending, link, pending);
		ring_link_up(ep, link);
		return;
	case RING_CONN_REJECTED:
		connect_failed(ep, rep, link, -ECONNREFUSED,
			       "rejected, or its peer table is full, or it closed, or its "
			       "endpoints are of another type");
		return;
	default:
		break;
	}
	/* Accepted at the last moment: the next call sees it. */
	if (now < link->deadline || !ring_conn_decide(conn, RING_CONN_ABANDONED))
		return;
	if (link->sent) {
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
			ring_link_up(ep, link);
			break;
		case RING_LINK_FREE:
		case RING_LINK_UP:
		case RING_LINK_CLOSING:
			break;
		}
	}
}

static void
peer_closed(struct leat_ep *ep, struct ring_link *link, enum ring_closed how)
{
	/* What was published before it closed and fits receives is still taken. */
	ring_rx_all(ep, link);
	if (how == RING_BYE)
		leat_peer_closing(ep, link->peer, 0, "the peer disconnected");
	else
		leat_peer_closing(ep, link->peer, -ECONNRESET, "the peer's endpoint was aborted");
	ring_link_close(ep, link, RING_BYE, -ECONNRESET);
}

/* Downwards: a link that goes is replaced by the last one. */
static void
links_progress(struct leat_ep *ep, struct ring_ep *rep)
{
	uint32_t i, how, recalls;

	for (i = rep->nb_links; i-- > 0;) {
		struct ring_link *link = rep->links[i];

		if (link->state != RING_LINK_UP)
			continue;
		/* CLOSED: pairs with ring_link_close() of the other side */
		how = __atomic_load_n(&link->conn->side[link->side ^ 1].closed, __ATOMIC_ACQUIRE);
		/* A datagram endpoint's end is not reported; what is sent to it is lost. */
		if (how != RING_OPEN && !rep->datagram) {
			peer_closed(ep, link, (enum ring_closed)how);
			continue;
		}
		recalls =
			__atomic_load_n(&link->conn->dir[link->side ^ 1].recalls, __ATOMIC_RELAXED);
		if (recalls != link->recalls_seen) {
			link->recalls_seen = recalls;
			ring_note_purge(rep, link);
		}
		ring_marks_progress(rep, link, how != RING_OPEN);
	}
}

static void
closing_progress(struct leat_ep *ep, struct ring_ep *rep)
{
	uint32_t i;

	for (i = rep->nb_links; i-- > 0;) {
		if (rep->links[i]->state == RING_LINK_CLOSING)
			ring_link_try_down(ep, rep->links[i]);
	}
}

void
ring_progress(struct leat_ep *ep, uint64_t now)
{
	struct ring_ep *rep = ep->drv;
	struct ring_conn *conn;
	/* BELL: pairs with ring_bell(); taken first, what comes later rings again */
	uint32_t bell = __atomic_load_n(&rep->mbox->bell, __ATOMIC_ACQUIRE);
	bool rung = bell != rep->bell_seen;

	rep->bell_seen = bell;
	while (rung && (conn = ring_mbox_take(rep->mbox)) != NULL)
		take_request(ep, rep, conn);
	if (!TAILQ_EMPTY(&rep->pending))
		pending_progress(ep, rep, now);
	if (rung || rep->rescan) {
		rep->rescan = false;
		links_progress(ep, rep);
	}
	if (rep->nb_closing > 0)
		closing_progress(ep, rep);
}
