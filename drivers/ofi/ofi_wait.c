/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The wait object: one epoll set per endpoint, to sleep on.
 *
 *     leat_ep_fd() -> epoll set -> descriptor of the provider's CQ -> its sockets
 *                               -> descriptor of the address exchange -> its sockets
 *
 * The provider's descriptor only becomes readable if fi_trywait() succeeded before.
 *
 * Which providers of libfabric 1.17 have such a descriptor, with manual progress:
 *
 *     tcp;ofi_rxm   yes: an epoll set with the sockets of all connections, including those that are
 *                   still connecting
 *     shm           no: fi_cq_open(FI_WAIT_FD) returns FI_ENOSYS; a waiter can only yield
 *     sockets       no: fi_control(FI_GETWAIT) returns FI_ENOSYS, since no thread
 *                   would move the data
 *     efa           no: fi_cq_open() accepts FI_WAIT_NONE only
 *     udp;ofi_rxd   no: like sockets
 *
 * Other providers (net gives a descriptor) were not tried: for them the driver offers no wait
 * object.
 */

#include <sys/epoll.h>
#include <unistd.h>

#include "ofi_pvt.h"

static int
add(struct ofi_ep *e, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(e->wait_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

int
ofi_wait_open(struct ofi_ep *e)
{
	int fd = -1, ret;

	ret = fi_control(&e->cq->fid, FI_GETWAIT, &fd);
	if (ret != 0)
		return leat_err(EIO,
				"%s: create endpoint: fi_control(FI_GETWAIT) (provider %s): %s",
				e->dev->name, e->info->fabric_attr->prov_name, fi_strerror(-ret));
	e->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	ret = e->wait_fd < 0 ? -errno : add(e, fd);
	if (ret == 0)
		ret = add(e, leat_exchange_fd(e->exchange));
	if (ret == 0)
		return 0;
	ofi_wait_close(e);
	return leat_err(-ret, "%s: create endpoint: epoll set of its wait object: %s%s",
			e->dev->name, strerror(-ret),
			ret == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

void
ofi_wait_close(struct ofi_ep *e)
{
	if (e->wait_fd >= 0)
		(void)close(e->wait_fd);
	e->wait_fd = -1;
}

int
ofi_ep_fd(const struct leat_ep *ep)
{
	return ofi_of(ep)->wait_fd;
}

int
ofi_ep_arm(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);
	struct fid *fids[] = { &e->cq->fid };
	int ret;

	if (e->exchange_more)
		return -EAGAIN;
	/*
	 * No descriptor reports what these wait for: a notice waits for a receive, its carrier for
	 * a poll, and proofs continue in timed steps.
	 */
	if (e->closing || e->notice_count > 0 || e->nb_proving > 0 || e->nb_stated > 0)
		return -EBUSY;
	/* This also drives the provider. */
	ret = fi_trywait(e->fabric, fids, 1);
	if (ret == 0) {
		/*
		 * While the provider connects, and while it is full, its descriptor does not report
		 * when to post again.
		 */
		ret = e->refused ? -EBUSY : 0;
		e->refused = false;
		return ret;
	}
	if (ret != -FI_EAGAIN)
		LEAT_LOG(DEBUG, driver, "%s: fi_trywait: %s", e->dev->name, fi_strerror(-ret));
	return ret == -FI_EAGAIN ? -EAGAIN : -EBUSY;
}

/* Nothing to do: the descriptor is level-triggered, and polling removes what made it readable. */
void
ofi_ep_disarm(struct leat_ep *ep)
{
	RTE_SET_USED(ep);
}
