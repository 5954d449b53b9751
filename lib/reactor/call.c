/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages to a reactor, and getting its attention.
 *
 *     sender                                owner
 *     ring: put message                     turn ends: word != NONE?
 *     word = WORK  --------(A)----------->    word: exchange for NONE, ring: take messages
 *
 *                                           nobody worked, it wants to sleep:
 *     word = WORK, it was ASLEEP:           word: compare NONE, exchange for ASLEEP   (B)
 *       futex wake  ---------------------->   futex wait while ASLEEP, then NONE
 *
 * (A) is a release, the owner's exchange an acquire: it sees the message. (B) fails if a sender
 * came first; if the owner came first, that sender finds ASLEEP and wakes it. So no message is
 * slept through. (An owner that blocks says BLOCKED, and is woken by an eventfd: see block.c.)
 *
 * The ring is Dmitry Vyukov's bounded queue (1024cores.net, "Bounded MPMC queue"), with one
 * consumer. Each cell has a number that says whose turn it is:
 *
 *     seq == pos            free for the sender that gets ticket pos
 *     seq == pos + 1        holds message pos
 *     seq == pos + size     free for the next round
 *
 * Why not rte_ring: there a sender waits, spinning, until those before it are done. Senders are any
 * threads, and one of them may have lost its CPU in between, perhaps to the one that spins. Here a
 * sender that is preempted delays the messages behind its own, and nobody spins.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_error.h>

#include "reactor_pvt.h"

struct reactor_message {
	uint64_t seq;
	leat_message_fn fn;
	void *arg;
} __attribute__((aligned(LEAT_CACHE_LINE / 2)));

struct reactor_ring {
	uint64_t mask;
	uint64_t tail __attribute__((aligned(LEAT_CACHE_LINE))); /* next ticket; the senders' */
	uint64_t head __attribute__((aligned(LEAT_CACHE_LINE))); /* next to take; the owner's */
	struct reactor_message cell[] __attribute__((aligned(LEAT_CACHE_LINE)));
};

static_assert(sizeof(struct reactor_message) == LEAT_CACHE_LINE / 2, "two messages in a line");

int
reactor_messages_init(struct leat_reactor *r, uint32_t count)
{
	uint32_t i, size = rte_align32pow2(count);
	size_t bytes = sizeof(struct reactor_ring) + (size_t)size * sizeof(struct reactor_message);

	r->ring = aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(bytes, (size_t)LEAT_CACHE_LINE));
	if (r->ring == NULL)
		return leat_err(ENOMEM, "%s: no memory for %u messages", r->name, size);
	memset(r->ring, 0, sizeof(*r->ring));
	r->ring->mask = size - 1;
	for (i = 0; i < size; i++)
		r->ring->cell[i] = (struct reactor_message){ .seq = i };
	return 0;
}

void
reactor_attn_kick(struct reactor_attn *attn)
{
	uint32_t was = __atomic_exchange_n(&attn->word, ATTN_WORK, __ATOMIC_ACQ_REL);

	if (was == ATTN_ASLEEP)
		reactor_sys->wake(&attn->word);
	else if (was == ATTN_BLOCKED)
		reactor_sys->poke(RLX_LOAD(attn->event) - 1);
}

static bool
ring_put(struct reactor_ring *ring, leat_message_fn fn, void *arg)
{
	uint64_t pos = RLX_LOAD(ring->tail);
	struct reactor_message *m;

	for (;;) {
		uint64_t seq;

		m = &ring->cell[pos & ring->mask];
		/* Acquire (C): the owner is done with what was here. */
		seq = __atomic_load_n(&m->seq, __ATOMIC_ACQUIRE);
		if (seq == pos) {
			/* Relaxed: the ticket orders nothing, the cell's number does. */
			if (__atomic_compare_exchange_n(&ring->tail, &pos, pos + 1, true,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				break;
		} else if ((int64_t)(seq - pos) < 0) {
			return false; /* a round behind: full */
		} else {
			pos = RLX_LOAD(ring->tail); /* another sender was faster */
		}
	}
	m->fn = fn;
	m->arg = arg;
	/* Release (D): the message, and all the sender did before. */
	__atomic_store_n(&m->seq, pos + 1, __ATOMIC_RELEASE);
	return true;
}

static bool
ring_take(struct reactor_ring *ring, leat_message_fn *fn, void **arg)
{
	uint64_t pos = ring->head;
	struct reactor_message *m = &ring->cell[pos & ring->mask];

	/* Acquire (D). */
	if (__atomic_load_n(&m->seq, __ATOMIC_ACQUIRE) != pos + 1)
		return false;
	*fn = m->fn;
	*arg = m->arg;
	/* Release (C). */
	__atomic_store_n(&m->seq, pos + ring->mask + 1, __ATOMIC_RELEASE);
	RLX_STORE(ring->head, pos + 1);
	return true;
}

int
leat_reactor_call(struct leat_reactor *r, leat_message_fn fn, void *arg)
{
	if (fn == NULL)
		return leat_err(EINVAL, "%s: call: no function", r->name);
	/* No text: a sender that retries would spend its time on it. */
	if (!ring_put(r->ring, fn, arg)) {
		rte_errno = EAGAIN;
		return -EAGAIN;
	}
	reactor_attn_kick(r->attn);
	return 0;
}

/*
 * Runs what is there, at most as many as the ring holds: messages that send messages don't keep it.
 */
unsigned int
reactor_messages_run(struct leat_reactor *r)
{
	uint64_t done, max = r->ring->mask + 1;
	leat_message_fn fn;
	void *arg;

	for (done = 0; done < max && ring_take(r->ring, &fn, &arg); done++)
		fn(arg);
	if (done == 0)
		return 0;
	RLX_ADD(r->messages, done);
	/* Is there more? Then in the next turn. */
	if (unlikely(done == max))
		reactor_attn_kick(r->attn);
	return (unsigned int)done;
}

unsigned int
reactor_messages_waiting(const struct leat_reactor *r)
{
	uint64_t head = RLX_LOAD(r->ring->head);
	uint64_t tail = RLX_LOAD(r->ring->tail);

	return (unsigned int)RTE_MIN(tail - head, r->ring->mask + 1);
}
