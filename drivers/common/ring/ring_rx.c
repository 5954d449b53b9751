/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll: handle the acks of this side's ops, and scan the slots that have arrived.
 *
 *       dir.consumed           rx_head         rx_scan
 *     -------|---- consumed ------|- u x u x ----|- next slot to scan ---
 *            (published FREE)        u: unexpected, x: consumed after an unexpected message
 *
 * While messages are consumed in order rx_head and rx_scan move together, and no note (struct
 * ring_note) is touched. ring_shared.h explains the edges, such as PUBLISH.
 */

#include <rte_memcpy.h>

#include "ring_fast.h"
#include "ring_poll.h"

/*
 * For small sizes DPDK's copy is faster than the C library's, which begins with an instruction that
 * is slow to start; for large sizes DPDK's copy is slightly slower.
 */
void
ring_copy_large(void *dst, const void *src, size_t n)
{
	if (n <= 2048)
		rte_memcpy(dst, src, n);
	else
		memcpy(dst, src, n);
}

void
ring_rx_consume_behind(struct ring_link *link, uint64_t nr)
{
	uint64_t n = link->rx_head;

	link->rx_notes[nr & link->rx_mask].done = 1;
	while (n != link->rx_scan && link->rx_notes[n & link->rx_mask].done != 0)
		link->rx_notes[n++ & link->rx_mask].done = 0;
	link->rx_head = n;
}

/* Deliver a large message to the receive op, if the sender has not recalled the message. */
static void
rx_large(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
	 uint64_t head, uint64_t nr, uint64_t tag, struct leat_op *op)
{
	if (ring_claim(slot)) {
		if (op->type == LEAT_OP_RECV)
			ring_take_recv(rep, link, op);
		else
			ring_take_trecv(rep, link, op);
		ring_deliver(ep, link, slot, head, nr, tag, op);
	}
	ring_rx_consume(link, nr);
}

/* Handle a TSEND or a one-sided op. @return as rx_one() */
static bool
rx_other(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
	 uint64_t head, uint64_t nr)
{
	enum ring_rma_outcome outcome;
	struct leat_op *op;
	uint64_t tag = 0;

	if (RING_HEAD_TYPE(head) == LEAT_OP_TSEND) {
		tag = slot->addr;
		op = ring_find_trecv(rep, link, tag);
		if (op == NULL) {
			ring_note_add(rep, link, slot, nr, RING_TAGGED, tag);
			return true;
		}
		if (unlikely((RING_HEAD_FLAGS(head) & RING_F_ACK) != 0)) {
			rx_large(ep, rep, link, slot, head, nr, tag, op);
			return true;
		}
		ring_take_trecv(rep, link, op);
	} else {
		outcome = ring_rma(ep, link, slot, head, nr);
		if (outcome == RING_RMA_WAITS)
			return false;
		if (outcome == RING_RMA_DONE) {
			ring_rx_consume(link, nr);
			return true;
		}
		op = ring_find_recv(rep, link);
		if (op == NULL) {
			ring_note_add(rep, link, slot, nr, RING_PLAIN, 0);
			return true;
		}
		ring_take_recv(rep, link, op);
	}
	ring_deliver(ep, link, slot, head, nr, tag, op);
	ring_rx_consume(link, nr);
	return true;
}

/* Handle a message. @return false: scan this message and the later ones again */
static __rte_always_inline bool
rx_one(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
       uint64_t head, uint64_t nr)
{
	struct leat_op *op;

	/*
	 * Reject an invalid head, and a foreign peer that published more messages than there are
	 * slots: it overwrote a message that is not consumed yet.
	 */
	if (unlikely(!ring_head_sane(rep, head) ||
		     (RING_FOREIGN && nr - link->rx_head > link->rx_mask))) {
		ring_violation(rep, link, "it published an invalid message");
		return false;
	}
	if (unlikely(RING_HEAD_TYPE(head) != LEAT_OP_SEND))
		return rx_other(ep, rep, link, slot, head, nr);
	op = ring_find_recv(rep, link);
	if (unlikely(op == NULL)) {
		ring_note_add(rep, link, slot, nr, RING_PLAIN, 0);
		return true;
	}
	if (unlikely((RING_HEAD_FLAGS(head) & RING_F_ACK) != 0)) {
		rx_large(ep, rep, link, slot, head, nr, 0, op);
		return true;
	}
	ring_take_recv(rep, link, op);
	ring_deliver(ep, link, slot, head, nr, 0, op);
	ring_rx_consume(link, nr);
	return true;
}

/* Handle messages one by one; the first one has arrived. @return number of slots handled */
static __rte_noinline uint32_t
rx_general(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint32_t max)
{
	uint64_t nr = link->rx_scan, first = nr, old_head = link->rx_head;
	struct ring_slot *slot = link->rx_slot;
	uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);

	do {
		/* Read both fields first: the producer may fill a consumed slot again. */
		uint32_t credit = slot->credit;
		struct ring_slot *next = &link->rx_slots[ring_rx_place(link, slot->next)];

		link->rx_scan = nr + 1;
		if (unlikely(!rx_one(ep, rep, link, slot, head, nr))) {
			link->rx_scan = nr;
			break;
		}
		if (unlikely(ring_violated(link)))
			break;
		ring_credit(link, credit);
		nr++;
		slot = next;
		/* edge PUBLISH: pairs with ring_tx_publish() */
		head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	} while (RING_HEAD_IS(head, nr) && nr - first < max && rep->copy_left > 0);
	link->rx_slot = slot;
	if (ring_violated(link))
		ring_link_rx_off(link);
	else if (link->rx_head != old_head)
		ring_rx_publish(link);
	return (uint32_t)(nr - first);
}

void
ring_rx_all(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;

	/* At most one message per slot: a foreign peer might go on publishing after it closed. */
	uint32_t n, left = link->rx_mask + 1;

	rep->copy_left = INT64_MAX;
	do {
#if RING_FOREIGN
		ring_moves_take(ep, link);
#endif
		if (ring_violated(link) || !RING_HEAD_IS(ring_rx_head(link), link->rx_scan))
			break;
		n = rx_general(ep, rep, link, left);
		if (n == 0)
			break;
		left -= n;
	} while (left > 0);
}

/*
 * Handle a link's acks, chunks and messages. head is the head of its next slot.
 * @return number of slots handled
 */
static __rte_always_inline uint32_t
poll_link(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	uint32_t n;

	if (link->tx_unacked > 0)
		ring_acks(ep, link, ring_rx_max(ep));
#if RING_FOREIGN
	if (unlikely(link->moves.nb > 0)) {
		ring_moves_run(ep, link);
		if (ring_violated(link))
			return 0;
	}
#endif
	if (!RING_HEAD_IS(head, link->rx_scan))
		return 0;
	/*
	 * After a single SEND an answer may follow: request the line of its slot now, while the
	 * application works. Don't request it after a TSEND: its answer takes longer, and the peer
	 * polls for the answer in the same line, so an early request only delays the answer.
	 */
	if (RING_HEAD_TYPE(head) == LEAT_OP_SEND && RING_HEAD_MORE(head) == 0 &&
	    ring_tx_free(link, link->tx.place))
		ring_tx_touch_slot(link->tx.slot, false);
	n = ring_rx_run(ep, rep, link, head, false);
	return likely(n > 0) ? n : rx_general(ep, rep, link, ring_rx_max(ep));
}

static __rte_noinline void
poll_few(struct leat_ep *ep, struct ring_ep *rep)
{
	ring_poll_few(ep, rep, poll_link);
}

static __rte_noinline void
poll_many(struct leat_ep *ep, struct ring_ep *rep)
{
	ring_poll_many(ep, rep, poll_link);
}

static __rte_noinline void
poll_one(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	(void)poll_link(ep, rep, link, head);
}

void
ring_poll(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link;
	uint64_t head;

	rep->copy_left = RING_COPY_BUDGET;
	if (likely(rep->nb_links == 1)) {
		link = rep->links[0];
		head = ring_rx_head(link);
		if (RING_HEAD_IS(head, link->rx_scan) || link->tx_unacked > 0 || ring_moving(link))
			poll_one(ep, rep, link, head);
	} else if (!rep->many) {
		poll_few(ep, rep);
	} else {
		poll_many(ep, rep);
	}
}
