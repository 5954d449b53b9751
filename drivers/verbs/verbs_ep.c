/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints: opening, and the ways in which they end.
 *
 *     shutdown   quiesce: receives complete, sends continue
 *                time limit of the shutdown passed: abort
 *     destroy    close
 *
 * The queues are the transport's. An abort destroys them: only then does the device stop using
 * their buffers.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_common.h>

#include "verbs_transport.h"

/* Entries of each CQ for the driver's own requests, in addition to those for ops. */
#define CQ_SPARE 32

int
vb_qp_failed(const struct vb_dev *d, const char *what, int err)
{
	struct rlimit lim = { 0 };

	if (err == EAGAIN)
		return leat_err(
			ENOSPC,
			"%s: device %s: create %s: %s: the cgroup's limit of RDMA objects "
			"(rdma.max: raise hca_object) or the device's %d queue pairs, %d CQs, "
			"%d SRQs are used up",
			d->name, ibv_get_device_name(d->ibdev), what, strerror(err), d->attr.max_qp,
			d->attr.max_cq, d->attr.max_srq);
	(void)getrlimit(RLIMIT_MEMLOCK, &lim);
	if (err == ENOMEM && lim.rlim_cur != RLIM_INFINITY)
		return leat_err(
			ENOMEM,
			"%s: device %s: create %s: %s: the limit of locked memory is %llu KiB "
			"(ulimit -l: raise it), the device's limits are %d queue pairs, %d "
			"CQs, %d SRQs ('rdma resource' counts those in use)",
			d->name, ibv_get_device_name(d->ibdev), what, strerror(err),
			(unsigned long long)lim.rlim_cur / 1024, d->attr.max_qp, d->attr.max_cq,
			d->attr.max_srq);
	return leat_err(
		err == ENOMEM || err == EINVAL || err == EOPNOTSUPP ? err : EIO,
		"%s: device %s: create %s: %s; the device's limits are %d queue pairs of %d "
		"requests, %d CQs of %d, %d SRQs of %d ('rdma resource' counts those in use)",
		d->name, ibv_get_device_name(d->ibdev), what, strerror(err), d->attr.max_qp,
		d->attr.max_qp_wr, d->attr.max_cq, d->attr.max_cqe, d->attr.max_srq,
		d->attr.max_srq_wr);
}

int
vb_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -1 : 0;
}

static int
open_verbs(struct vb_ep *e, const struct vb_cqes *cqes, bool wait)
{
	const struct vb_dev *d = e->dev;

	e->ctx = ibv_open_device(d->ibdev);
	if (e->ctx == NULL)
		return leat_err(EIO, "%s: create endpoint: open device %s: %s", d->name,
				ibv_get_device_name(d->ibdev), strerror(errno));
	if (vb_nonblocking(e->ctx->async_fd) < 0)
		return leat_err(EIO, "%s: create endpoint: %s", d->name, strerror(errno));
	e->pd = ibv_alloc_pd(e->ctx);
	if (e->pd == NULL)
		return vb_qp_failed(d, "a protection domain", errno);
	if (wait && vb_wait_channel(e) < 0)
		return -rte_errno;
	/*
	 * The CQs need room for a completion of each request: when a queue pair fails, all its
	 * requests complete. The transport has set cqes to the largest numbers of completions.
	 */
	e->scq = vb_cq_create(d, e->ctx, cqes->send + CQ_SPARE, e->comp, &e->scqx);
	if (e->scq == NULL)
		return vb_qp_failed(d, "the send CQ", errno);
	e->rcq = vb_cq_create(d, e->ctx, cqes->recv + CQ_SPARE, e->comp, &e->rcqx);
	if (e->rcq == NULL)
		return vb_qp_failed(d, "the receive CQ", errno);
	return 0;
}

static int
open_cm(struct vb_ep *e)
{
	errno = 0;
	e->channel = rdma_create_event_channel();
	if (e->channel == NULL)
		return leat_err(errno != 0 ? errno : EIO,
				"%s: create endpoint: rdma_cm: %s: is the module rdma_ucm loaded, "
				"may /dev/infiniband/rdma_cm be opened?",
				e->dev->name, strerror(errno));
	if (vb_nonblocking(e->channel->fd) < 0)
		return leat_err(EIO, "%s: create endpoint: %s", e->dev->name, strerror(errno));
	return 0;
}

#define LOG_FAILED(e, what, call)                                                                  \
	do {                                                                                       \
		int err_ = (call);                                                                 \
		if (err_ != 0)                                                                     \
			LEAT_LOG(ERR, driver, "%s: " what ": %s", (e)->dev->name,                  \
				 strerror(err_ < 0 ? errno : err_));                               \
	} while (0)

static void
ep_free(struct vb_ep *e)
{
	e->dev->transport->close(e);
	if (e->channel != NULL)
		rdma_destroy_event_channel(e->channel);
	if (e->rcq != NULL)
		LOG_FAILED(e, "destroy receive CQ", ibv_destroy_cq(e->rcq));
	if (e->scq != NULL)
		LOG_FAILED(e, "destroy send CQ", ibv_destroy_cq(e->scq));
	vb_wait_close(e);
	if (e->pd != NULL)
		LOG_FAILED(e, "free PD", ibv_dealloc_pd(e->pd));
	if (e->ctx != NULL)
		LOG_FAILED(e, "close device", ibv_close_device(e->ctx));
	free(e->conns);
	free(e);
}

int
vb_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct vb_dev *d = leat_dev_drv(ep->dev);
	const struct vb_transport *t = d->transport;
	size_t size = RTE_CACHE_LINE_ROUNDUP(t->ep_size);
	struct vb_ep *e = aligned_alloc(LEAT_CACHE_LINE, size);
	struct vb_cqes cqes;
	int err;

	if (e == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory",
				leat_dev_name(ep->dev));
	memset(e, 0, size);
	e->ep = ep;
	e->dev = d;
	e->tx_depth = conf->tx_depth;
	e->rx_depth = conf->rx_depth;
	e->inline_max = e->dev->inline_max;
	e->signal = e->dev->args.signal;
	e->nb_peers = conf->max_peers;
	e->posts = LEAT_CURSOR_START;
	e->tags = (uint16_t)LEAT_CURSOR_START;
	e->wait_fd = -1;
	e->read_sinks = e->dev->rules.sink_open && (conf->ops & LEAT_OP_BIT(LEAT_OP_READ)) != 0;
	TAILQ_INIT(&e->busy);
	if (t->alloc(e, &cqes) < 0 || open_verbs(e, &cqes, conf->wait) < 0 || open_cm(e) < 0 ||
	    t->open(e) < 0 || (conf->wait && vb_wait_open(e) < 0)) {
		err = rte_errno;
		ep_free(e);
		rte_errno = err;
		return -err;
	}
	ep->drv = e;
	ep->post = t->post;
	ep->poll = t->poll;
	ep->mr_local = true;
	ep->directed_recv = false;
	return 0;
}

void
vb_ep_quiesce(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);

	e->quiesce = true;
	e->dev->transport->quiesce(e);
}

int
vb_ep_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct vb_ep *e = vb_of(ep);

	return e->dev->transport->cancel(e, op);
}

/*
 * Change an option of an endpoint. The inline limit is at most dev->inline_max, for which queue
 * pairs were created. Any signal interval is correct: the last send of a list is always signaled.
 */
int
vb_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	struct vb_ep *e = vb_of(ep);
	bool automatic = *value == LEAT_EP_OPTION_AUTO;

	switch (option) {
	case LEAT_EP_OPTION_INLINE_MAX:
		e->inline_max = RTE_MIN(*value, e->dev->inline_max);
		*value = e->inline_max;
		return 0;
	case LEAT_EP_OPTION_SIGNAL_INTERVAL:
		e->signal = automatic ? e->dev->args.signal
				      : RTE_MIN(*value, (uint32_t)VB_SIGNAL_MAX);
		*value = e->signal;
		return 0;
	}
	return leat_err(EOPNOTSUPP, "%s: unknown option", leat_ep_name(ep));
}

void
vb_poll_dead(struct leat_ep *ep)
{
	RTE_SET_USED(ep);
}

void
vb_ep_abort(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);

	e->dev->transport->teardown(e, -ESHUTDOWN, -ESHUTDOWN);
}

void
vb_ep_close(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	struct vb_conn *c;
	uint32_t i;

	e->dev->transport->teardown(e, -ESHUTDOWN, -ESHUTDOWN);
	for (i = 0; i < e->nb_peers; i++) {
		c = e->conns[i];
		if (c != NULL && c->connected)
			(void)rdma_disconnect(c->id); /* fails if c has ended already */
		if (c != NULL)
			vb_conn_free(c);
	}
	while ((c = TAILQ_FIRST(&e->busy)) != NULL)
		vb_conn_free(c);
	if (e->listener != NULL)
		LOG_FAILED(e, "destroy listener", rdma_destroy_id(e->listener));
	ep_free(e);
	ep->drv = NULL;
}
