/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Wait objects: an endpoint that asked for one has an eventfd in its mailbox, so that its owner can
 * sleep until a peer does something.
 *
 *     owner                                   peers
 *     asleep = 1                              publish a slot, an ack, ring the bell
 *     fence                                   fence
 *     anything to poll? then don't sleep      asleep? then asleep = 0, write to the eventfd
 *     wait for the eventfd
 *
 * With a fence on both sides, the owner sees what the peer published, or the peer sees that the
 * owner sleeps. A fence at the peer would cost time for each message, in vain while no owner
 * sleeps. So the owner, which has the time, executes both fences: membarrier(2) makes every CPU
 * that runs a thread of this process execute one. The peer is left with one load, from a line that
 * is written only when the owner sleeps.
 */

#include <sys/eventfd.h>
#include <unistd.h>

#include "ring_inside.h"
#include "ring_fast.h"
#include "ring_poll.h"

int
ring_wait_open(struct ring_mbox *mbox)
{
	mbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (mbox->fd < 0)
		return leat_err(errno, "create endpoint: eventfd: %s%s", strerror(errno),
				errno == EMFILE ? "; raise the limit of open files (ulimit -n)"
						: "");
	return 0;
}

int
ring_ep_fd(const struct leat_ep *ep)
{
	return ring_inside_of(ep)->mbox->fd;
}

void
ring_wake_now(struct ring_mbox *mbox)
{
	static const uint64_t one = 1;

	if (__atomic_exchange_n(&mbox->asleep, 0, __ATOMIC_RELAXED) == 0)
		return;
	/* The write can only fail because the eventfd is readable already. */
	if (write(mbox->fd, &one, sizeof(one)) < 0)
		LEAT_LOG(DEBUG, driver, "ring: wake-up: %s", strerror(errno));
}

void
ring_link_wake_now(const struct ring_link *link)
{
	ring_wake_now(link->conn->mbox[link->side ^ 1]);
}

static bool
pending_ready(const struct ring_ep *rep)
{
	const struct ring_link *link;

	TAILQ_FOREACH(link, &rep->pending, pending) {
		if (link->state == RING_LINK_ACCEPTED)
			return true;
	}
	return false;
}

int
ring_ep_arm(struct leat_ep *ep)
{
	struct ring_inside *in = ring_inside_of(ep);
	struct ring_ep *rep = &in->ring;

	__atomic_store_n(&in->mbox->asleep, 1, __ATOMIC_SEQ_CST);
	if (!ring_fence_all())
		return -EBUSY;
	if (__atomic_load_n(&in->mbox->bell, __ATOMIC_RELAXED) != in->bell_seen || rep->rescan ||
	    pending_ready(rep))
		return -EAGAIN;
	return ring_links_idle(rep);
}

void
ring_ep_disarm(struct leat_ep *ep)
{
	struct ring_inside *in = ring_inside_of(ep);
	uint64_t count;

	__atomic_store_n(&in->mbox->asleep, 0, __ATOMIC_RELAXED);
	/*
	 * A peer that read 1 from `asleep` before this store may write to fd after this read. Then
	 * the next sleep ends at once.
	 */
	if (read(in->mbox->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		LEAT_LOG(DEBUG, driver, "ring: eventfd: %s", strerror(errno));
}
