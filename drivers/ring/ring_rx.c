/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll: acks of what was sent, and the slots that arrived.
 *
 *          consumed            rx_head         rx_scan
 *     -------|---- free ----------|- x u u x ----|- next to be looked at ---
 *            (published)             u: unexpected, x: done behind one
 *
 * In order, rx_head and rx_scan move together and no note is touched.
 *
 * Which links a poll looks at. Up to RING_HOT: all of them. With more: the hot set, which are those that last sent or
 * were sent to, then the others in turn, until RING_WINDOW of them had nothing. So an idle poll costs the same for
 * 100 peers as for 10,000, and a cold peer is seen within peers / RING_WINDOW + 1 polls.
 */

#include "ring_fast.h"

void
ring_rx_consume_behind(struct ring_link *link, uint64_t nr)
{
	uint64_t n = link->rx_head;

	link->rx_notes[nr & link->rx_mask].done = 1;
	while (n != link->rx_scan && link->rx_notes[n & link->rx_mask].done != 0)
		link->rx_notes[n++ & link->rx_mask].done = 0;
	link->rx_head = n;
}

/* A large message: found its receive, but its sender may take it back. */
static void
rx_large(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
	 uint64_t head, uint64_t nr, struct leat_op *op)
{
	if (ring_claim(slot)) {
		if (op->type == LEAT_OP_RECV)
			ring_take_recv(rep, link, op);
		else
			ring_take_trecv(rep, link, op);
		ring_deliver(ep, rep, link, slot, head, nr, op);
	}
	ring_rx_consume(link, nr);
}

static void
rx_other(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
	 uint64_t head, uint64_t nr)
{
	struct leat_op *op;

	if (RING_HEAD_TYPE(head) == LEAT_OP_TSEND) {
		op = ring_find_trecv(rep, link, slot->addr);
		if (op == NULL) {
			ring_note_add(rep, link, slot, nr, RING_TAGGED, slot->addr);
			return;
		}
		if (unlikely((RING_HEAD_FLAGS(head) & RING_F_ACK) != 0)) {
			rx_large(ep, rep, link, slot, head, nr, op);
			return;
		}
		ring_take_trecv(rep, link, op);
	} else {
		if (!ring_rma(rep, link, slot, head, nr)) {
			ring_rx_consume(link, nr);
			return;
		}
		op = ring_find_recv(rep, link);
		if (op == NULL) {
			ring_note_add(rep, link, slot, nr, RING_PLAIN, 0);
			return;
		}
		ring_take_recv(rep, link, op);
	}
	ring_deliver(ep, rep, link, slot, head, nr, op);
	ring_rx_consume(link, nr);
}

static __rte_always_inline void
rx_one(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot,
       uint64_t head, uint64_t nr)
{
	struct leat_op *op;

	if (unlikely(RING_HEAD_TYPE(head) != LEAT_OP_SEND)) {
		rx_other(ep, rep, link, slot, head, nr);
		return;
	}
	op = ring_find_recv(rep, link);
	if (unlikely(op == NULL)) {
		ring_note_add(rep, link, slot, nr, RING_PLAIN, 0);
		return;
	}
	if (unlikely((RING_HEAD_FLAGS(head) & RING_F_ACK) != 0)) {
		rx_large(ep, rep, link, slot, head, nr, op);
		return;
	}
	ring_take_recv(rep, link, op);
	ring_deliver(ep, rep, link, slot, head, nr, op);
	ring_rx_consume(link, nr);
}

static __rte_noinline uint32_t
rx_general(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint32_t max)
{
	uint64_t nr = link->rx_scan, first = nr, old_head = link->rx_head;
	struct ring_slot *slot = &link->rx_slots[link->rx_place];
	uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);

	do {
		uint32_t credit = slot->credit;

		link->rx_scan = nr + 1;
		link->rx_place = slot->next;
		rx_one(ep, rep, link, slot, head, nr);
		ring_credit(link, credit);
		nr++;
		slot = &link->rx_slots[link->rx_place];
		/* PUBLISH: pairs with the store in ring_fast.h */
		head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	} while (RING_HEAD_IS(head, nr) && nr - first < max && rep->copy_left > 0);
	if (link->rx_head != old_head)
		ring_rx_publish(link);
	return (uint32_t)(nr - first);
}

/* @return slots handled */
static __rte_always_inline uint32_t
rx_burst(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint32_t max)
{
	/* PUBLISH: pairs with the store in ring_fast.h */
	uint64_t head = __atomic_load_n(&link->rx_slots[link->rx_place].head, __ATOMIC_ACQUIRE);
	uint32_t n;

	if (!RING_HEAD_IS(head, link->rx_scan))
		return 0;
	n = ring_rx_run(ep, rep, link, head, max);
	return likely(n > 0) ? n : rx_general(ep, rep, link, max);
}

void
ring_rx_all(struct leat_ep *ep, struct ring_link *link)
{
	struct ring_ep *rep = ep->drv;

	uint64_t head = __atomic_load_n(&link->rx_slots[link->rx_place].head, __ATOMIC_ACQUIRE);

	rep->copy_left = INT64_MAX;
	if (RING_HEAD_IS(head, link->rx_scan))
		(void)rx_general(ep, rep, link, link->rx_mask + 1);
}

static __rte_always_inline uint32_t
poll_link(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint32_t max)
{
	if (link->tx_unacked > 0)
		ring_acks(ep, link, max);
	return rx_burst(ep, rep, link, max);
}

/*
 * A poll that runs out of room for ops begins with the next link the next time. One that had none from the
 * beginning (limited is false) only drives: its ops wait for the next.
 */
static __rte_noinline void
poll_many(struct leat_ep *ep, struct ring_ep *rep, uint32_t max, bool limited)
{
	uint32_t i, idle = 0, looked = 0, nb_hot = rep->nb_hot;
	struct ring_link *link;

	for (i = 0; i < nb_hot && max > 0; i++) {
		if (rep->hot_start >= nb_hot)
			rep->hot_start = 0;
		(void)poll_link(ep, rep, rep->hot[rep->hot_start++], max);
		if (limited)
			max = leat_ep_room(ep);
	}
	if (max == 0)
		max = 1; /* the hot ones don't shut the others out */
	while (idle < RING_WINDOW && looked < rep->nb_links) {
		if (rep->start >= rep->nb_links)
			rep->start = 0;
		link = rep->links[rep->start++];
		looked++;
		if (link->hot != 0)
			continue;
		if (poll_link(ep, rep, link, max) == 0) {
			idle++;
			continue;
		}
		ring_link_heat(rep, link);
		if (limited && (max = leat_ep_room(ep)) == 0)
			return;
	}
}

void
ring_poll(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;
	uint32_t i, n = rep->nb_links, max = leat_ep_room(ep);
	bool limited = max > 0;

	rep->copy_left = RING_COPY_BUDGET;
	if (unlikely(!limited))
		max = RING_DRIVE_BUDGET;
	if (unlikely(n > RING_HOT)) {
		poll_many(ep, rep, max, limited);
		return;
	}
	for (i = 0; i < n; i++) {
		if (unlikely(rep->start >= n))
			rep->start = 0;
		(void)poll_link(ep, rep, rep->links[rep->start++], max);
		if (limited && (max = leat_ep_room(ep)) == 0)
			return;
	}
}
