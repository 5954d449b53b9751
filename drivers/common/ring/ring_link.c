/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The states of a link: pending, up, closing, down.
 *
 * Closing. A side that closes claims no more ops, and it takes back (recalls) every op of its own
 * that the peer has not claimed. An op that the peer has claimed is being copied right now and ends
 * with the result of the copy. So the link stays, polled for acks only, until the acks of all
 * claimed ops have arrived. Within a process the call that claims an op also acks it, so this takes
 * no longer than the copy. Between processes the closing side waits for no ack. But if the peer is
 * executing an op on shared memory of this side, it waits until that op has ended (ring_share.h).
 */

#include "ring_fast.h"
#include "ring_mark.h"
#include "ring_poll.h"

/*
 * The slot that a link scans while it must not receive. The link waits for message 0 in it, which
 * never arrives. Read only.
 */
static struct ring_slot nothing;

void
ring_link_rx_off(struct ring_link *link)
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
	ring_link_rx_off(link);
	TAILQ_INSERT_TAIL(&rep->pending, link, pending);
	return link;
}

void
ring_link_up(struct leat_ep *ep, struct ring_link *link, const struct ring_lane *tx,
	     const struct ring_lane *rx)
{
	struct ring_ep *rep = ep->drv;

	link->mine = tx->dir;
	link->theirs = rx->dir;
	link->tx_slots = tx->slots;
	link->tx = (struct ring_cursor){ .slot = tx->slots, .nr = RING_FIRST, .next = 1 };
	link->tx_seen = RING_FIRST;
	link->tx_ack_head = link->rx_ack_tail = LEAT_CURSOR_START;
	link->tx_acks = tx->acks;
	link->tx_ops = tx->ops;
	link->tx_consumed = &tx->dir->consumed;
	link->tx_mask = tx->mask;
	link->tx_nr = tx->nr;
	link->buf = tx->buf;
	link->rx_slots = rx->slots;
	link->rx_slot = rx->slots;
	link->rx_scan = link->rx_head = RING_FIRST;
	link->rx_acks = rx->acks;
	link->rx_notes = rx->notes;
	link->rx_consumed = &rx->dir->consumed;
	link->rx_mask = rx->mask;
#if RING_FOREIGN
	link->moves = (struct ring_moves){
		.tx = (struct ring_chunk *)tx->chunks,
		.tx_mask = tx->chunk_mask,
		.rx = (struct ring_chunk *)rx->chunks,
		.rx_mask = rx->chunk_mask,
		.rx_bytes = rx->bytes,
		.rx_bytes_len = rx->nb_bytes,
		.in = rx->moves,
		.in_mask = rx->mask,
		.put = LEAT_CURSOR_START,
		.seen = LEAT_CURSOR_START,
		.taken = LEAT_CURSOR_START,
	};
#endif
	link->recalls_seen = LEAT_CURSOR_START;
	if (link->asleep != NULL) {
		/* A closed endpoint has the library's own post function, which must stay. */
		if (ep->drv_post == ring_post)
			leat_ep_post_set(ep, ring_post_waking);
		else if (ep->drv_post == ring_datagram_post)
			leat_ep_post_set(ep, ring_datagram_post_waking);
	}
	link->state = RING_LINK_UP;
	link->may_send = rep->can_send;
	ring_marks_up(rep, link);
	rep->rescan = true; /* the peer may have closed already */
#if RING_FOREIGN
	/*
	 * The peer may touch regions from now on: ring_share_withdraw() checks this link as well.
	 */
	__atomic_store_n(&link->mine->closed, RING_UP, __ATOMIC_RELEASE);
#endif
}

/* Take back all ops that the peer has not claimed, and finish them with err. */
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

/*
 * RING_FOREIGN: finish all ops whose bytes move in chunks, and all ops that the peer has claimed,
 * because a foreign peer may never ack them. The peer does not write to the ops' buffers. If it is
 * copying from a shared buffer now, it looks at CLOSED after the copy, and drops the message.
 */
static void
end_moves(struct leat_ep *ep, struct ring_link *link, enum ring_closed closed, int err)
{
#if RING_FOREIGN
	struct leat_op *op;
	uint32_t i;

	__atomic_store_n(&link->mine->closed, (uint32_t)closed, __ATOMIC_RELAXED);
	/* Set CLOSED before buffers are used again; pairs with the peer's ring_share_still(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ring_moves_end(ep, link, err);
	for (i = 0; link->tx_unacked > 0 && i <= link->tx_mask; i++) {
		op = link->tx_ops[i];
		if (op == NULL)
			continue;
		link->tx_ops[i] = NULL;
		link->tx_unacked--;
		leat_op_finish(ep, op, err, 0);
	}
#else
	RTE_SET_USED(ep);
	RTE_SET_USED(link);
	RTE_SET_USED(closed);
	RTE_SET_USED(err);
#endif
}

/* May the peer be in the middle of a one-sided op on a region of this side? */
static bool
touched(const struct ring_link *link)
{
#if RING_FOREIGN
	return ring_share_touched(link) != 0;
#else
	RTE_SET_USED(link);
	return false;
#endif
}

void
ring_link_try_down(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;
	struct leat_peer *peer = link->peer;

	ring_acks(ep, link, UINT32_MAX);
	if (link->tx_unacked > 0 || touched(link))
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

	ring_link_rx_off(link);
	ring_note_drop_all(rep, link);
	ring_recvs_end_link(ep, link, err);
	ring_acks(ep, link, UINT32_MAX);
	recall_all(ep, link, err);
	end_moves(ep, link, closed, err);
	link->state = RING_LINK_CLOSING;
	link->may_send = false;
	rep->nb_refused -= link->tx_refused;
	link->tx_refused = false;
	rep->nb_closing++;
	ring_link_report_closed(link, closed);
	ring_link_try_down(ep, link);
}

void
ring_link_ended(struct leat_ep *ep, struct ring_link *link, int status, const char *text)
{
	ring_rx_all(ep, link);
	leat_peer_closing(ep, link->peer, status, text);
	ring_link_close(ep, link, RING_BYE, -ECONNRESET);
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
		ring_link_abandon(rep, link, status == -ECONNABORTED ? NULL : text);
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
	while (rep->nb_links > 0) {
		struct ring_link *link = rep->links[rep->nb_links - 1];

		if (link->state == RING_LINK_UP)
			ring_link_report_closed(link, closed);
		ring_marks_remove(rep, link);
		ring_link_free(link);
	}
}

void
ring_link_progress(struct ring_ep *rep, struct ring_link *link, bool closed)
{
	uint32_t recalls = __atomic_load_n(&link->theirs->recalls, __ATOMIC_RELAXED);

	if (recalls != link->recalls_seen) {
		link->recalls_seen = recalls;
		ring_note_purge(rep, link);
	}
	ring_marks_progress(rep, link, closed);
}

void
ring_closing_progress(struct leat_ep *ep, struct ring_ep *rep)
{
	uint32_t i;

	/* Downwards: removing a link moves the last link to its index. */
	for (i = rep->nb_links; i-- > 0;) {
		if (rep->links[i]->state == RING_LINK_CLOSING)
			ring_link_try_down(ep, rep->links[i]);
	}
}

static bool
links_ready(const struct ring_ep *rep)
{
	/* A foreign peer might have failed to mark its link: look at all links. */
	uint32_t i, n = rep->many && !RING_FOREIGN ? rep->nb_watched : rep->nb_links;

	if (rep->many && (ring_board_marked(rep->board) || ring_queue_count(&rep->queue) > 0))
		return true;
	for (i = 0; i < n; i++) {
		if (ring_link_ready(rep->links[i]))
			return true;
	}
	return false;
}

int
ring_links_idle(struct ring_ep *rep)
{
	uint32_t i;

	if (links_ready(rep))
		return -EAGAIN;
	/* A peer does not ring BELL when it frees slots: look whether refused posts have room. */
	for (i = 0; rep->nb_refused > 0 && i < rep->nb_links; i++) {
		struct ring_link *link = rep->links[i];

		if (link->tx_refused && ring_tx_room(link, link->tx.place)) {
			link->tx_refused = false;
			rep->nb_refused--;
			return -EAGAIN;
		}
	}
	return rep->nb_refused > 0 ? -EBUSY : 0;
}
