/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages to a reactor, and getting the attention of its owner, the thread that runs it.
 *
 *     sender                                owner
 *     ring: put message                     turn ends: word != NONE?
 *     word = WORK  --------(A)----------->    word: exchange for NONE, ring: take messages
 *
 *                                           no poller worked, it wants to sleep:
 *     word = WORK, it was ASLEEP:           word: compare NONE, exchange for ASLEEP   (B)
 *       futex wake  ---------------------->   futex wait while ASLEEP, then NONE
 *
 * (A) is a release, the owner's exchange an acquire: the owner sees the message. (B) fails if a
 * sender came first; if the owner came first, that sender finds ASLEEP and wakes the owner. So the
 * owner never sleeps while a message waits. (An owner that blocks stores BLOCKED, and an eventfd
 * wakes it: block.c.)
 *
 * (A) may also be a leat_reactor_wake() without a message. Then the owner runs one more turn before
 * it sleeps, in which its pollers find what the other thread did.
 *
 * A reactor that stops closes the ring (ring.h) and runs the accepted messages: a message is run,
 * or its sender was refused. Only a reactor that is destroyed without having stopped has messages
 * left; it drops them, and calls their drop functions where the senders gave one.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_error.h>

#include "reactor_pvt.h"
#include "ring.h"

struct reactor_ring *
reactor_messages_new(const struct leat_reactor *r, uint32_t count)
{
	uint32_t size = rte_align32pow2(count);
	size_t bytes = sizeof(struct reactor_ring) + (size_t)size * sizeof(struct reactor_message);

	struct reactor_ring *ring;

	ring = aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(bytes, (size_t)LEAT_CACHE_LINE));
	if (ring == NULL) {
		leat_err(ENOMEM, "%s: no memory for %u messages", r->name, size);
		return NULL;
	}
	memset(ring, 0, sizeof(*ring));
	reactor_ring_init(ring, size);
	return ring;
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

int
leat_reactor_call_drop(struct leat_reactor *r, leat_reactor_message_fn fn,
		       leat_reactor_message_fn drop, void *arg)
{
	/* The message may stop and destroy the reactor at once; attn is static and stays valid. */
	struct reactor_attn *attn = r->attn;
	uint64_t ticket;
	int ret;

	if (fn == NULL)
		return leat_err(EINVAL, "%s: call: no function", r->name);
	ret = reactor_ring_reserve(r->ring, &ticket);
	/* No error message: formatting it would slow a sender that retries. */
	if (unlikely(ret < 0)) {
		rte_errno = -ret;
		return ret;
	}
	reactor_ring_publish(r->ring, ticket, fn, drop, arg);
	reactor_attn_kick(attn);
	return 0;
}

int
leat_reactor_call(struct leat_reactor *r, leat_reactor_message_fn fn, void *arg)
{
	return leat_reactor_call_drop(r, fn, NULL, arg);
}

void
leat_reactor_wake(struct leat_reactor *r)
{
	struct reactor_attn *attn = r->attn;

	/* Release: the owner sees the work that its pollers are to find. */
	__atomic_store_n(&attn->turn, 1, __ATOMIC_RELEASE);
	reactor_attn_kick(attn);
}

/*
 * Run the waiting messages, at most as many as the ring holds: messages that send messages must not
 * keep the turn from ending.
 */
unsigned int
reactor_messages_run(struct leat_reactor *r)
{
	uint64_t done, max = r->ring->mask + 1;
	struct reactor_message m;

	for (done = 0; done < max && reactor_ring_take(r->ring, &m); done++)
		m.fn(m.arg);
	if (done == 0)
		return 0;
	RLX_ADD(r->messages, done);
	/* There may be more: run them in the next turn. */
	if (unlikely(done == max))
		reactor_attn_kick(r->attn);
	return (unsigned int)done;
}

/*
 * Take the next message of a closed ring. If its sender has a ticket, but has not published the
 * message yet, wait. @return false: the ring is empty
 */
static bool
take_last(struct leat_reactor *r, struct reactor_message *m)
{
	while (reactor_ring_count(r->ring) > 0) {
		if (reactor_ring_take(r->ring, m))
			return true;
		reactor_sys->yield();
	}
	return false;
}

void
reactor_messages_close(struct leat_reactor *r)
{
	struct reactor_message m;

	reactor_ring_close(r->ring);
	while (take_last(r, &m)) {
		m.fn(m.arg);
		RLX_ADD(r->messages, 1);
	}
}

void
reactor_messages_open(struct leat_reactor *r)
{
	reactor_ring_open(r->ring);
}

unsigned int
reactor_messages_drop(struct leat_reactor *r)
{
	struct reactor_message m;
	unsigned int lost = 0;

	reactor_ring_close(r->ring);
	while (take_last(r, &m)) {
		if (m.drop != NULL)
			m.drop(m.arg);
		else
			lost++;
		RLX_ADD(r->dropped, 1);
	}
	return lost;
}

unsigned int
reactor_messages_waiting(const struct leat_reactor *r)
{
	return (unsigned int)reactor_ring_count(r->ring);
}
