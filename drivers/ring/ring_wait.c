/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sleeping until something happens: an eventfd per endpoint that asked for one, in its mailbox.
 *
 *     owner                                   others
 *     asleep = 1                              publish a slot, an ack, ring the bell
 *     fence                                   fence
 *     anything there? then don't sleep        asleep? then 0, and write to the eventfd
 *     wait for the eventfd
 *
 * One of the two sees what the other did, if there is a fence on both sides. The others' would cost
 * each message some ten nanoseconds, for nothing while no owner sleeps. So the owner, which has the
 * time, does both: membarrier(2) makes every CPU that runs a thread of this process execute a fence.
 * What remains at the others is one load, from a line that is written only when the owner sleeps.
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

/* Of several at a time one writes. */
void
ring_wake_now(struct ring_mbox *mbox)
{
	static const uint64_t one = 1;

	if (__atomic_exchange_n(&mbox->asleep, 0, __ATOMIC_RELAXED) == 0)
		return;
	/* It can only fail because it is readable already. */
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
	/* A side that came before may write after this: then the next sleep ends at once. */
	if (read(in->mbox->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		LEAT_LOG(DEBUG, driver, "ring: eventfd: %s", strerror(errno));
}
