/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The life of a link: pending, up, closing, down.
 *
 * Closing. From the moment a side closes it claims nothing more, and it takes back (recalls) every
 * op of its own that the other side has not claimed. What the other side has claimed it is copying
 * right now: that op ends with the result of the copy, so the link stays, polled for acks only,
 * until they are in. Since a claim never outlives the call that made it this takes no longer than
 * the copy.
 */

#include <stdlib.h>

#include "ring_mark.h"

/* Where a link looks that receives nothing: number 0 is never published here. Read only. */
static struct ring_slot nothing;

static void
rx_off(struct ring_link *link)
{
	link->rx_slots = &nothing;
	link->rx_mask = 0;
	link->rx_slot = &nothing;
	link->rx_scan = 0;
}

struct ring_link *
ring_link_new(struct ring_ep *rep, struct leat_peer *peer, struct ring_conn *conn, uint8_t side,
	      enum ring_link_state state)
{
	struct ring_link *link = &rep->table[peer->id];
	int k;

	memset(link, 0, sizeof(*link));
	link->id = peer->id;
	link->peer = peer;
	link->conn = conn;
	link->side = side;
	link->state = (uint8_t)state;
	for (k = 0; k < RING_KINDS; k++)
		TAILQ_INIT(&link->unexpected[k]);
	rx_off(link);
	TAILQ_INSERT_TAIL(&rep->pending, link, pending);
	return link;
}

void
ring_link_free(struct ring_link *link)
{
	ring_conn_put(link->conn);
	free(link->addr);
	link->wake = NULL;
	link->state = RING_LINK_FREE;
}

void
ring_link_up(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;
	struct ring_conn *conn = link->conn;
	struct ring_dir *tx = &conn->dir[link->side], *rx = &conn->dir[link->side ^ 1];

	link->tx_slots = tx->slots;
	link->tx = (struct ring_cursor){ .slot = tx->slots, .nr = RING_FIRST, .next = 1 };
	link->tx_seen = RING_FIRST;
	link->tx_ack_head = link->rx_ack_tail = LEAT_CURSOR_START;
	link->tx_acks = tx->acks;
	link->tx_ops = tx->ops;
	link->tx_consumed = &tx->consumed;
	link->tx_mask = tx->mask;
	link->tx_nr = tx->nr;
	link->buf = tx->buf;
	link->rx_long = conn->mtu[link->side ^ 1] > rep->mtu;
	link->rx_slots = rx->slots;
	link->rx_slot = rx->slots;
	link->rx_scan = link->rx_head = RING_FIRST;
	link->rx_acks = rx->acks;
	link->rx_notes = rx->notes;
	link->rx_consumed = &rx->consumed;
	link->rx_mask = rx->mask;
	link->recalls_seen = LEAT_CURSOR_START;
	if (conn->mbox[link->side ^ 1]->fd >= 0) {
		link->wake = conn->mbox[link->side ^ 1];
		/* Not if it is closed. */
		if (ep->drv_post == ring_post)
			leat_ep_post_set(ep, ring_post_waking);
		else if (ep->drv_post == ring_datagram_post)
			leat_ep_post_set(ep, ring_datagram_post_waking);
	}
	link->state = RING_LINK_UP;
	link->may_send = rep->can_send;
	ring_marks_up(rep, link);
	rep->rescan = true; /* it may have closed again already */
	leat_peer_up(ep, link->peer, conn->priv[link->side ^ 1], conn->priv_len[link->side ^ 1]);
}

static void
report_closed(struct ring_link *link, enum ring_closed closed)
{
	struct ring_conn *conn = link->conn;
	struct ring_mbox *other = conn->mbox[link->side ^ 1];

	/*
	 * CLOSED: every claim, ack and slot of this side is before it; pairs with links_progress()
	 */
	__atomic_store_n(&conn->side[link->side].closed, (uint32_t)closed, __ATOMIC_RELEASE);
	if (other != NULL)
		ring_bell(other);
}

/* Takes back what the other side has not claimed. */
static void
recall_all(struct leat_ep *ep, struct ring_link *link, int err)
{
	uint64_t n, end = link->tx.nr;
	struct leat_op *op;

	for (n = end - (link->tx_mask + 1); link->tx_unacked > 0 && n != end; n++) {
		op = link->tx_ops[n & link->tx_mask];
		if (op != NULL && ring_recall(link, op))
			leat_op_finish(ep, op, err, 0);
	}
}

void
ring_link_try_down(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;
	struct leat_peer *peer = link->peer;

	ring_acks(ep, link, UINT32_MAX);
	if (link->tx_unacked > 0)
		return;
	rep->nb_closing--;
	ring_marks_remove(rep, link);
	ring_link_free(link);
	ring_marks_down(rep);
	leat_peer_down(ep, peer);
}

void
ring_link_close(struct leat_ep *ep, struct ring_link *link, enum ring_closed closed, int err)
{
	struct ring_ep *rep = ep->drv;

	rx_off(link);
	ring_note_drop_all(rep, link);
	ring_recvs_end_link(ep, link, err);
	ring_acks(ep, link, UINT32_MAX);
	recall_all(ep, link, err);
	link->state = RING_LINK_CLOSING;
	link->may_send = false;
	rep->nb_refused -= link->tx_refused;
	link->tx_refused = false;
	rep->nb_closing++;
	report_closed(link, closed);
	ring_link_try_down(ep, link);
}

/* A link that is not up yet. */
static void
link_abandon(struct ring_ep *rep, struct ring_link *link, enum ring_closed closed)
{
	(void)ring_conn_decide(link->conn,
			       link->side == 0 ? RING_CONN_ABANDONED : RING_CONN_REJECTED);
	report_closed(link, closed); /* matters if it was accepted */
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
}

void
ring_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link = &rep->table[peer->id];

	leat_peer_closing(ep, peer, status, text);
	switch ((enum ring_link_state)link->state) {
	case RING_LINK_UP:
		ring_link_close(ep, link, RING_BYE, -ECONNABORTED);
		break;
	case RING_LINK_FREE:
	case RING_LINK_CLOSING:
		break;
	case RING_LINK_CONNECTING:
	case RING_LINK_REQUESTED:
	case RING_LINK_ACCEPTED:
		link_abandon(rep, link, RING_BYE);
		leat_peer_down(ep, peer);
		break;
	}
}

void
ring_links_abort(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;
	uint32_t i;

	for (i = rep->nb_links; i-- > 0;) {
		struct ring_link *link = rep->links[i];

		if (link->state != RING_LINK_UP)
			continue;
		leat_peer_closing(ep, link->peer, -ECONNABORTED, "the endpoint was aborted here");
		ring_link_close(ep, link, RING_DEAD, -ESHUTDOWN);
	}
}

void
ring_links_free(struct ring_ep *rep, enum ring_closed closed)
{
	struct ring_link *link, *next;

	for (link = TAILQ_FIRST(&rep->pending); link != NULL; link = next) {
		next = TAILQ_NEXT(link, pending);
		link_abandon(rep, link, closed);
	}
	while (rep->nb_links > 0) {
		link = rep->links[rep->nb_links - 1];
		if (link->state == RING_LINK_UP)
			report_closed(link, closed);
		ring_marks_remove(rep, link);
		ring_link_free(link);
	}
}
