/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef REACTOR_RING_H
#define REACTOR_RING_H

/*
 * The ring of messages to a reactor: Dmitry Vyukov's bounded queue (1024cores.net, "Bounded MPMC
 * queue"), with one consumer, that can be closed.
 *
 * A ticket is twice a message's number. The field seq of a cell says which side may use the cell:
 *
 *     seq == ticket               free for the sender that gets the ticket
 *     seq == ticket + 1           holds the message
 *     seq == ticket + 2 * size    free for the next round
 *
 * The lowest bit of the tail says that the ring is closed. A sender gets its ticket by changing
 * the tail, so it gets one or finds the ring closed, never both; and the tail of a closed ring
 * says how many messages there will be once the last sender has published its own.
 *
 * Why not rte_ring: there a sender spins until the senders before it have published their messages.
 * Senders are any threads, and one of them may have lost its CPU before it published, perhaps to
 * the sender that spins. Here a preempted sender only delays the messages after its own.
 */

#include <assert.h>
#include <errno.h>

#include <leat_common.h>

#include "leat_reactor.h"

struct reactor_message {
	uint64_t seq;
	leat_reactor_message_fn fn;
	leat_reactor_message_fn drop; /* may be NULL */
	void *arg;
} __attribute__((aligned(LEAT_CACHE_LINE / 2)));

#define REACTOR_RING_CLOSED UINT64_C(1)
#define REACTOR_RING_STEP 2

/* First ticket: tickets wrap after 200 messages of each reactor, see leat_cursor.h for why. */
#define REACTOR_RING_START (UINT64_MAX + 1 - 200 * REACTOR_RING_STEP)

struct reactor_ring {
	uint64_t mask;
	uint64_t tail __attribute__((aligned(LEAT_CACHE_LINE))); /* next ticket; senders write */
	uint64_t head __attribute__((aligned(LEAT_CACHE_LINE))); /* next to take; owner writes */
	struct reactor_message cell[] __attribute__((aligned(LEAT_CACHE_LINE)));
};

static_assert(sizeof(struct reactor_message) == LEAT_CACHE_LINE / 2, "two messages in a line");

static inline struct reactor_message *
reactor_ring_cell(struct reactor_ring *ring, uint64_t ticket)
{
	return &ring->cell[(ticket / REACTOR_RING_STEP) & ring->mask];
}

static inline void
reactor_ring_init(struct reactor_ring *ring, uint32_t size)
{
	uint64_t ticket = REACTOR_RING_START;
	uint32_t i;

	ring->mask = size - 1;
	ring->tail = ticket;
	ring->head = ticket;
	for (i = 0; i < size; i++, ticket += REACTOR_RING_STEP)
		*reactor_ring_cell(ring, ticket) = (struct reactor_message){ .seq = ticket };
}

/*
 * Reserve a cell. Any thread.
 * @return 0 and a ticket, which the caller must publish; -EAGAIN: full; -ESHUTDOWN: closed
 */
static inline int
reactor_ring_reserve(struct reactor_ring *ring, uint64_t *ticket)
{
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

	for (;;) {
		uint64_t seq;

		if (unlikely(tail & REACTOR_RING_CLOSED))
			return -ESHUTDOWN;
		/* Acquire (C): the owner has read the cell's previous message. */
		seq = __atomic_load_n(&reactor_ring_cell(ring, tail)->seq, __ATOMIC_ACQUIRE);
		if (seq == tail) {
			/* Relaxed: the loads and stores of seq order all other accesses. */
			if (__atomic_compare_exchange_n(&ring->tail, &tail,
							tail + REACTOR_RING_STEP, true,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				break;
		} else if ((int64_t)(seq - tail) < 0) {
			return -EAGAIN; /* the cell still belongs to the previous round */
		} else {
			/* Another sender got this ticket first. */
			tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
		}
	}
	*ticket = tail;
	return 0;
}

static inline void
reactor_ring_publish(struct reactor_ring *ring, uint64_t ticket, leat_reactor_message_fn fn,
		     leat_reactor_message_fn drop, void *arg)
{
	struct reactor_message *m = reactor_ring_cell(ring, ticket);

	/* Relaxed: a watchdog may be reading the function of the cell's previous message. */
	__atomic_store_n(&m->fn, fn, __ATOMIC_RELAXED);
	m->drop = drop;
	m->arg = arg;
	/* Release (D): the message, and everything that the sender did before. */
	__atomic_store_n(&m->seq, ticket + 1, __ATOMIC_RELEASE);
}

/*
 * Take the next message. Owner thread.
 * @return false: there is none, or its sender has not published it yet
 */
static inline bool
reactor_ring_take(struct reactor_ring *ring, struct reactor_message *to)
{
	uint64_t ticket = ring->head;
	struct reactor_message *m = reactor_ring_cell(ring, ticket);

	/* Acquire (D): see the published message. */
	if (__atomic_load_n(&m->seq, __ATOMIC_ACQUIRE) != ticket + 1)
		return false;
	to->fn = m->fn;
	to->drop = m->drop;
	to->arg = m->arg;
	/* Release (C): the message has been read, so a sender may overwrite it. */
	__atomic_store_n(&m->seq, ticket + REACTOR_RING_STEP * (ring->mask + 1), __ATOMIC_RELEASE);
	__atomic_store_n(&ring->head, ticket + REACTOR_RING_STEP, __ATOMIC_RELAXED);
	return true;
}

/*
 * Count the messages accepted and not taken. Any thread; exact for the owner once the ring is
 * closed.
 */
static inline uint64_t
reactor_ring_count(const struct reactor_ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) & ~REACTOR_RING_CLOSED;

	return RTE_MIN((tail - head) / REACTOR_RING_STEP, ring->mask + 1);
}

/* Close the ring: no sender gets a ticket from now on. */
static inline void
reactor_ring_close(struct reactor_ring *ring)
{
	/* Relaxed: a sender that sees the bit is refused, and does nothing else. */
	__atomic_fetch_or(&ring->tail, REACTOR_RING_CLOSED, __ATOMIC_RELAXED);
}

static inline void
reactor_ring_open(struct reactor_ring *ring)
{
	__atomic_fetch_and(&ring->tail, ~REACTOR_RING_CLOSED, __ATOMIC_RELAXED);
}

#endif /* REACTOR_RING_H */
