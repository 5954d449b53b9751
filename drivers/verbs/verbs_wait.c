/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The wait object. An endpoint created with one has a completion channel for both CQs, and an epoll
 * set with three descriptors:
 *
 *     leat_ep_fd() -> epoll set -> completion channel: a completion in a CQ that was armed
 *                               -> asynchronous events: ports, queue pairs, the device
 *                               -> rdma_cm: requests, connections that begin or end
 *
 * An armed CQ reports one completion, the next that comes. So arm both CQs first, then look for
 * completions that came before. Verbs can only look by polling. If this finds completions, they
 * wait in the library for the next poll, and arming fails with -EAGAIN.
 *
 * Each CQ event that was read must be acknowledged, or ibv_destroy_cq() never returns.
 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs_transport.h"

static int
add(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

int
vb_wait_channel(struct vb_ep *e)
{
	errno = 0;
	e->comp = ibv_create_comp_channel(e->ctx);
	if (e->comp == NULL)
		return leat_err(
			errno != 0 ? errno : EIO, "%s: create endpoint: completion channel: %s%s",
			e->dev->name, strerror(errno),
			errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	if (vb_nonblocking(e->comp->fd) < 0)
		return leat_err(EIO, "%s: create endpoint: %s", e->dev->name, strerror(errno));
	return 0;
}

int
vb_wait_open(struct vb_ep *e)
{
	int ret;

	e->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	ret = e->wait_fd < 0 ? -errno : add(e->wait_fd, e->comp->fd);
	if (ret == 0)
		ret = add(e->wait_fd, e->ctx->async_fd);
	if (ret == 0)
		ret = add(e->wait_fd, e->channel->fd);
	if (ret == 0)
		return 0;
	return leat_err(-ret, "%s: create endpoint: epoll set of its wait object: %s%s",
			e->dev->name, strerror(-ret),
			ret == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

void
vb_wait_close(struct vb_ep *e)
{
	int err;

	if (e->wait_fd >= 0)
		(void)close(e->wait_fd);
	err = e->comp != NULL ? ibv_destroy_comp_channel(e->comp) : 0;
	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: destroy completion channel: %s", e->dev->name,
			 strerror(err));
	e->wait_fd = -1;
	e->comp = NULL;
}

int
vb_ep_fd(const struct leat_ep *ep)
{
	return vb_of(ep)->wait_fd;
}

/* Read and acknowledge the CQ events. The loop is short: an armed CQ raises one event. */
static void
take_events(struct vb_ep *e)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(e->comp, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
}

static bool
readable(const struct vb_ep *e)
{
	struct epoll_event ev;

	/* If a signal interrupts the call, return false: the caller's own wait finds the event. */
	return epoll_wait(e->wait_fd, &ev, 1, 0) > 0;
}

/* Is there something to do at a later time, so that vb_progress() must look at the clock? */
static bool
by_the_clock(const struct vb_ep *e)
{
	const struct vb_conn *c;

	if (e->quiesce || e->dev->transport->by_the_clock(e))
		return true;
	TAILQ_FOREACH(c, &e->busy, link) {
		if (c->state == VB_BACKOFF || c->state == VB_ENDING)
			return true;
	}
	return false;
}

int
vb_ep_arm(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	bool starved;
	int err;

	/* Discard events of completions that were polled already: they are no reason to wake. */
	take_events(e);
	err = ibv_req_notify_cq(e->rcq, 0);
	if (err == 0)
		err = ibv_req_notify_cq(e->scq, 0);
	if (err != 0) {
		LEAT_LOG(DEBUG, driver, "%s: ibv_req_notify_cq: %s", e->dev->name, strerror(err));
		return -EBUSY;
	}
	e->dev->transport->look(e);
	if (ep->ready_head != NULL || readable(e))
		return -EAGAIN;
	/* No descriptor reports the arrival of credits. */
	starved = e->starved;
	e->starved = false;
	return starved || by_the_clock(e) ? -EBUSY : 0;
}

void
vb_ep_disarm(struct leat_ep *ep)
{
	take_events(vb_of(ep));
}
