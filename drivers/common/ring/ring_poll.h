/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_POLL_H
#define RING_POLL_H

/*
 * Which links a poll looks at: at all of them if there are at most RING_FEW, otherwise at the links
 * in a queue.
 *
 *     marks on the board  --.
 *     watched links with    +-->  queue: oldest first, each once  -->  looked at
 *       messages or acks  --'               ^                             |
 *                                           `---- if there is more -------'
 *
 * So neither the cost of an idle poll nor the delay until a peer's message is found depends on the
 * number of peers. A peer that sends all the time takes its turn after all others in the queue.
 *
 * How a poll handles one link depends on the endpoint's type: the caller passes a function, which
 * is inlined here. ring_shared.h explains the edges, such as PUBLISH.
 */

#include <rte_prefetch.h>

#include "ring_mark.h"

#define RING_WINDOW 16	 /* watched links that a poll looks at, at most */
#define RING_VAIN 64	 /* a poll ends after this many queued links that yielded no op */
#define RING_UNMARKED 64 /* polls between two looks at an unmarked link: ring_unmarked() */
/*
 * Distance of the prefetch, in links: poll prefetches a link's slot this many links before it
 * handles the link, and the link itself at twice that distance.
 */
#define RING_AHEAD 2

/* Handle a link. head is the head of the link's next slot. @return number of slots handled */
typedef uint32_t (*ring_poll_link_fn)(struct leat_ep *ep, struct ring_ep *rep,
				      struct ring_link *link, uint64_t head);

/* Read the head of a link's next slot. Edge PUBLISH: pairs with ring_tx_publish(). */
static __rte_always_inline uint64_t
ring_rx_head(const struct ring_link *link)
{
	return __atomic_load_n(&link->rx_slot->head, __ATOMIC_ACQUIRE);
}

/*
 * Does a link have messages, chunks or acks to handle? Relaxed loads of the words of edges PUBLISH
 * and ACK suffice, since nothing else is read; polls and ring_acks() load the same words with
 * acquire.
 */
static inline bool
ring_link_ready(const struct ring_link *link)
{
	uint64_t head = __atomic_load_n(&link->rx_slot->head, __ATOMIC_RELAXED);

	if (RING_HEAD_IS(head, link->rx_scan) && !ring_rma_waits(link))
		return true;
#if RING_FOREIGN
	if (unlikely(link->moves.nb > 0) && ring_moves_ready(link))
		return true;
#endif
	if (likely(link->tx_unacked == 0))
		return false;
	head = __atomic_load_n(
		&link->tx_acks[link->tx_ack_head & ring_ack_mask(link->tx_mask)].head,
		__ATOMIC_RELAXED);
	return RING_HEAD_IS(head, link->tx_ack_head);
}

/*
 * Return the number of slots that the rest of this poll may handle on one link: as many as ops fit
 * into this poll's array, but at least RING_DRIVE_BUDGET. Later slots wait for the next poll.
 */
static inline uint32_t
ring_rx_max(const struct leat_ep *ep)
{
	return RTE_MAX(leat_ep_room(ep), (uint32_t)RING_DRIVE_BUDGET);
}

/* Poll all links. If there is no more room for ops, the next poll begins with the next link. */
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

/* ---- many links ---- */

/* Queue the watched links that are ready: their peers are not known to mark them yet. */
static __rte_noinline void
ring_watched(struct ring_ep *rep)
{
	uint32_t i, n = RTE_MIN(rep->nb_watched, (uint32_t)RING_WINDOW);

	for (i = 0; i < n; i++) {
		struct ring_link *link;

		if (rep->start >= rep->nb_watched)
			rep->start = 0;
		link = rep->links[rep->start++];
		if (ring_link_ready(link))
			ring_queue_put(&rep->queue, link->id);
	}
}

/*
 * RING_FOREIGN: any peer can wipe the marks of all other peers off the board. To find their links
 * nevertheless, every RING_UNMARKED polls look at the next link even without a mark.
 */
static __rte_noinline void
ring_unmarked(struct ring_ep *rep)
{
	const struct ring_link *link = rep->links[rep->nb_polls / RING_UNMARKED % rep->nb_links];

	if (ring_link_ready(link))
		ring_queue_put(&rep->queue, link->id);
}

/* A ring_board_fn: queue the links that were marked. */
static __rte_always_inline void
ring_marked(void *arg, uint32_t word, uint64_t marks)
{
	struct ring_queue *q = arg;

	if (RING_FOREIGN) {
		/* A foreign peer may set marks beyond the last link. */
		if (unlikely(word * 64 >= q->nb))
			return;
		if (q->nb - word * 64 < 64)
			marks &= (UINT64_C(1) << (q->nb - word * 64)) - 1;
	}
	marks &= ~q->queued[word];
	q->queued[word] |= marks;
	for (; marks != 0; marks &= marks - 1)
		q->nrs[q->tail++ & q->mask] =
			(uint16_t)(word * 64 + (uint32_t)__builtin_ctzll(marks));
}

static __rte_always_inline struct ring_link *
ring_queue_at(const struct ring_ep *rep, uint32_t i)
{
	const struct ring_queue *q = &rep->queue;

	return &rep->table[q->nrs[(q->head + i) & q->mask]];
}

/* Take the next link from the queue. */
static __rte_always_inline struct ring_link *
ring_queue_take(struct ring_ep *rep)
{
	struct ring_link *link = ring_queue_at(rep, 0);
	struct ring_queue *q = &rep->queue;

	q->head++;
	q->queued[link->id / 64] &= ~(UINT64_C(1) << link->id % 64);
	return link;
}

/*
 * Prefetch for the queued links that poll handles next: the link that is 2 * RING_AHEAD entries
 * ahead in the queue, and the slot of the link that is RING_AHEAD entries ahead. n links are
 * queued.
 */
static __rte_always_inline void
ring_queue_prefetch(const struct ring_ep *rep, uint32_t n)
{
	if (n > 2 * RING_AHEAD) {
		const struct ring_link *link = ring_queue_at(rep, 2 * RING_AHEAD);

		rte_prefetch0(link);
		rte_prefetch0(&link->tx);
	}
	if (n > RING_AHEAD)
		rte_prefetch0(ring_queue_at(rep, RING_AHEAD)->rx_slot);
}

static __rte_always_inline void
ring_poll_many(struct leat_ep *ep, struct ring_ep *rep, ring_poll_link_fn poll_link)
{
	struct ring_queue *q = &rep->queue;
	uint32_t n, vain = 0;

	if (unlikely(rep->nb_watched > 0))
		ring_watched(rep);
	if (RING_FOREIGN && unlikely(++rep->nb_polls % RING_UNMARKED == 0))
		ring_unmarked(rep);
	ring_board_take(rep->board, ring_marked, q);
	for (n = ring_queue_count(q); n > 0 && vain < RING_VAIN; n--) {
		struct leat_op **out = ep->out;
		struct ring_link *link;
		uint32_t slots;

		ring_queue_prefetch(rep, n);
		/* A link that is not up any more receives nothing: see ring_link_rx_off(). */
		link = ring_queue_take(rep);
		if (RING_FOREIGN && unlikely(link->rx_slot == NULL))
			continue; /* a foreign peer marked a link that was never up */
		slots = poll_link(ep, rep, link, ring_rx_head(link));
		if (ring_link_ready(link))
			ring_queue_put(q, link->id);
		if ((slots > 0 && leat_ep_room(ep) == 0) || rep->copy_left <= 0)
			break;
		vain += ep->out == out;
	}
}

#endif /* RING_POLL_H */
