/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Wait objects: the descriptor is the exchange's, and a peer makes it readable by a NOTE.
 *
 *     owner                                   peers
 *     asleep = number of the sleep            publish a slot, an ack, a chunk
 *     fence                                   fence
 *     anything to poll? then don't sleep      asleep, and no NOTE for this sleep yet? send a NOTE
 *     wait for the descriptor
 *
 * As in drivers/ring the owner executes both fences, by membarrier(2): here by the command that
 * reaches all processes that have registered for it, as each process with endpoints does. An
 * endpoint with a wait object refuses peers whose process can't register.
 */

#include "ring_fast.h"
#include "shm_pvt.h"

int
shm_ep_fd(const struct leat_ep *ep)
{
	return leat_exchange_fd(shm_of(ep)->exchange);
}

void
ring_link_wake_now(const struct ring_link *link)
{
	struct ring_conn *conn = link->conn;
	const uint32_t sleep = __atomic_load_n(link->asleep, __ATOMIC_RELAXED);

	if (sleep == 0 || sleep == conn->woken || conn->id == 0)
		return;
	conn->woken = sleep;
	/* A connection that has ended meanwhile needs no note. */
	(void)leat_exchange_note(conn->se->exchange, conn->id);
}

int
shm_ep_arm(struct leat_ep *ep)
{
	struct shm_ep *se = shm_of(ep);

	if (++se->nb_sleeps == 0)
		se->nb_sleeps = 1; /* 0: awake */
	__atomic_store_n((uint32_t *)se->asleep.mem, se->nb_sleeps, __ATOMIC_SEQ_CST);
	if (!ring_fence_all())
		return -EBUSY;
	if (se->exchange_more || se->ring.rescan)
		return -EAGAIN;
	return ring_links_idle(&se->ring);
}

void
shm_ep_disarm(struct leat_ep *ep)
{
	/* shm_progress() handles the events that made the descriptor readable. */
	__atomic_store_n((uint32_t *)shm_of(ep)->asleep.mem, 0, __ATOMIC_RELAXED);
}
