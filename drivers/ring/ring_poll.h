/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_POLL_H
#define RING_POLL_H

/*
 * Which links a poll looks at. Up to RING_HOT: all of them. With more: the hot set, which are those
 * that last sent or were sent to, then the others in turn, until RING_WINDOW of them had nothing.
 * So an idle poll costs the same for 100 peers as for 10,000, and a cold peer is seen within peers
 * / RING_WINDOW + 1 polls.
 *
 * What it does with one of them is a function of the endpoint's type, inlined here.
 */

#include "ring_pvt.h"

/* Looks at a link whose next slot has that head. @return slots handled */
typedef uint32_t (*ring_poll_link_fn)(struct leat_ep *ep, struct ring_ep *rep,
				      struct ring_link *link, uint64_t head);

/* PUBLISH: pairs with ring_tx_publish(). */
static __rte_always_inline uint64_t
ring_rx_head(const struct ring_link *link)
{
	return __atomic_load_n(&link->rx_slot->head, __ATOMIC_ACQUIRE);
}

/*
 * Slots that the rest of this poll may handle on one link; what finds no room for its op waits for
 * the next poll.
 */
static inline uint32_t
ring_rx_max(const struct leat_ep *ep)
{
	return RTE_MAX(leat_ep_room(ep), (uint32_t)RING_DRIVE_BUDGET);
}

/* A poll that runs out of room for ops ends, and the next one begins with the link behind. */
static __rte_always_inline void
ring_poll_few(struct leat_ep *ep, struct ring_ep *rep, ring_poll_link_fn poll_link)
{
	uint32_t i, n = rep->nb_links;

	for (i = 0; i < n; i++) {
		struct ring_link *link;

		if (rep->start >= n)
			rep->start = 0;
		link = rep->links[rep->start++];
		if (poll_link(ep, rep, link, ring_rx_head(link)) > 0 && leat_ep_room(ep) == 0)
			return;
	}
}

static __rte_always_inline void
ring_poll_many(struct leat_ep *ep, struct ring_ep *rep, ring_poll_link_fn poll_link)
{
	uint32_t i, idle = 0, looked = 0, nb_hot = rep->nb_hot;
	struct ring_link *link;

	for (i = 0; i < nb_hot; i++) {
		if (rep->hot_start >= nb_hot)
			rep->hot_start = 0;
		link = rep->hot[rep->hot_start++];
		if (poll_link(ep, rep, link, ring_rx_head(link)) > 0 && leat_ep_room(ep) == 0)
			break; /* but the hot ones don't shut the others out */
	}
	while (idle < RING_WINDOW && looked < rep->nb_links) {
		if (rep->start >= rep->nb_links)
			rep->start = 0;
		link = rep->links[rep->start++];
		looked++;
		if (link->hot != 0)
			continue;
		if (poll_link(ep, rep, link, ring_rx_head(link)) == 0) {
			idle++;
			continue;
		}
		ring_link_heat(rep, link);
		if (leat_ep_room(ep) == 0)
			return;
	}
}

#endif /* RING_POLL_H */
