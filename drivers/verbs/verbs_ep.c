/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints: opening, and the ways to the end.
 *
 *     shutdown   quiesce: receives come back, sends go on
 *     its deadline passed: abort
 *     destroy    close
 *
 * Receives that are in an SRQ come back only when the SRQ is destroyed (or see verbs_rc_rx.c); that
 * needs all queue pairs destroyed first. What is destroyed the device does not touch any more: so
 * that is what an abort does, and a quiesce as soon as no send is in flight.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "ud/verbs_ud.h"

/* Entries in the CQs for the connection of the endpoint to itself. */
#define CQ_SPARE 32

int
vb_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -1 : 0;
}

static int
open_verbs(struct vb_ep *e, bool wait)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = e->rx_depth, .max_sge = 1 } };
	const struct vb_dev *d = e->dev;
	uint32_t recvs = e->rx_depth, more = d->rules.own_requests ? e->tx_depth + e->nb_peers : 0;

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
	 * Every request that is in a queue may end with a completion of its own: when its queue pair
	 * fails they all do. There are no more of them than ops in flight.
	 */
	e->scq = vb_cq_create(d, e->ctx, e->tx_depth + more + CQ_SPARE, e->comp, &e->scqx);
	if (e->scq == NULL)
		return vb_qp_failed(d, "the send CQ", errno);
	if (e->rxqs != NULL)
		recvs = e->rxqs->nb * e->nb_peers;
	e->rcq = vb_cq_create(d, e->ctx, recvs + CQ_SPARE, e->comp, &e->rcqx);
	if (e->rcq == NULL)
		return vb_qp_failed(d, "the receive CQ", errno);
	if (e->ud || e->rxqs != NULL)
		return 0;
	e->srq = ibv_create_srq(e->pd, &srq);
	if (e->srq == NULL)
		return vb_qp_failed(d, "a shared receive queue", errno);
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

static int
alloc_tables(struct vb_ep *e, const struct leat_ep_conf *conf)
{
	uint32_t i, qpns = rte_align32pow2(4 * (uint32_t)conf->max_peers + 4);

	e->soft_mask = rte_align32pow2(e->rx_depth) - 1;
	e->soft_head = LEAT_CURSOR_START;
	e->qpn_mask = qpns - 1;
	e->slots = calloc(e->rx_depth, sizeof(*e->slots));
	e->free = calloc(e->rx_depth, sizeof(*e->free));
	e->soft = calloc(e->soft_mask + 1u, sizeof(*e->soft));
	e->qpns = calloc(qpns, sizeof(*e->qpns));
	e->conns = calloc(conf->max_peers, sizeof(struct vb_conn *));
	if (e->slots == NULL || e->free == NULL || e->soft == NULL || e->qpns == NULL ||
	    e->conns == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	for (i = e->rx_depth; i > 0; i--)
		e->free[e->nb_free++] = i - 1;
	return 0;
}

#define GONE(e, what, call)                                                                        \
	do {                                                                                       \
		int err_ = (call);                                                                 \
		if (err_ != 0)                                                                     \
			LEAT_LOG(ERR, driver, "%s: " what ": %s", (e)->dev->name,                  \
				 strerror(err_ < 0 ? errno : err_));                               \
	} while (0)

static void
srq_destroy(struct vb_ep *e)
{
	if (e->srq != NULL)
		GONE(e, "destroy SRQ", ibv_destroy_srq(e->srq));
	e->srq = NULL;
}

static void
ep_free(struct vb_ep *e)
{
	if (e->ud)
		vb_ud_free(e);
	if (e->channel != NULL)
		rdma_destroy_event_channel(e->channel);
	srq_destroy(e);
	if (e->rcq != NULL)
		GONE(e, "destroy receive CQ", ibv_destroy_cq(e->rcq));
	if (e->scq != NULL)
		GONE(e, "destroy send CQ", ibv_destroy_cq(e->scq));
	vb_wait_close(e);
	vb_rxqs_close(e);
	if (e->pd != NULL)
		GONE(e, "free PD", ibv_dealloc_pd(e->pd));
	if (e->ctx != NULL)
		GONE(e, "close device", ibv_close_device(e->ctx));
	free(e->slots);
	free(e->free);
	free(e->soft);
	free(e->qpns);
	free(e->conns);
	free(e);
}

int
vb_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct vb_dev *d = leat_dev_drv(ep->dev);
	size_t size =
		RTE_CACHE_LINE_ROUNDUP(d->args.ud ? sizeof(struct vb_ud) : sizeof(struct vb_ep));
	struct vb_ep *e = aligned_alloc(LEAT_CACHE_LINE, size);
	int err;

	if (e == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory",
				leat_dev_name(ep->dev));
	memset(e, 0, size);
	e->ep = ep;
	e->dev = d;
	e->ud = d->args.ud;
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
	if ((e->ud ? vb_ud_alloc(e) : alloc_tables(e, conf)) < 0 ||
	    (!e->ud && vb_rxqs_open(e) < 0) || open_verbs(e, conf->wait) < 0 || open_cm(e) < 0 ||
	    (e->ud && vb_ud_open(e) < 0) || (conf->wait && vb_wait_open(e) < 0)) {
		err = rte_errno;
		ep_free(e);
		rte_errno = err;
		return -err;
	}
	ep->drv = e;
	ep->post = e->ud ? vb_ud_post : vb_post;
	ep->poll = e->ud ? vb_ud_poll : vb_poll;
	ep->mr_local = true;
	ep->directed_recv = false;
	return 0;
}

void
vb_ep_teardown(struct vb_ep *e, int status, int recv_status)
{
	uint32_t i;

	if (e->ud) {
		vb_ud_teardown(e, status, recv_status);
		return;
	}
	if (e->dead)
		return;
	vb_cq_empty(e);
	e->dead = true;
	e->ep->poll = vb_poll_dead;
	for (i = 0; i < e->nb_peers; i++) {
		struct vb_conn *c = e->conns[i];

		if (c != NULL)
			vb_qp_destroy(c);
	}
	vb_loop_close(e);
	srq_destroy(e);
	for (i = 0; i < e->nb_peers; i++) {
		struct vb_conn *c = e->conns[i];

		if (c != NULL && c->head != c->tail)
			vb_sq_done(e, c, c->tail - 1, status);
	}
	vb_rx_drop(e, recv_status);
}

void
vb_ep_quiesce(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	uint32_t i;

	if (e->ud) {
		vb_ud_quiesce(e);
		return;
	}
	e->quiesce = true;
	if (ep->tx_room == e->tx_depth) {
		vb_ep_teardown(e, -ESHUTDOWN, -ECANCELED);
		return;
	}
	/* Sends go on; meanwhile what can be done is. */
	for (i = 0; i < e->rx_depth; i++) {
		struct leat_op *op = e->slots[i].op;

		if (op != NULL && !e->slots[i].cancel)
			(void)vb_cancel(ep, op); /* -EOPNOTSUPP: when the sends are through */
	}
}

int
vb_ep_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct vb_ep *e = vb_of(ep);

	return e->ud ? vb_ud_cancel(e, op) : vb_cancel(ep, op);
}

void
vb_ep_abort(struct leat_ep *ep)
{
	vb_ep_teardown(vb_of(ep), -ESHUTDOWN, -ESHUTDOWN);
}

void
vb_ep_close(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	struct vb_conn *c;
	uint32_t i;

	vb_ep_teardown(e, -ESHUTDOWN, -ESHUTDOWN);
	for (i = 0; i < e->nb_peers; i++) {
		c = e->conns[i];
		if (c != NULL && c->connected)
			(void)rdma_disconnect(c->id); /* fails if it has ended by itself */
		if (c != NULL)
			vb_conn_free(c);
	}
	while ((c = TAILQ_FIRST(&e->busy)) != NULL)
		vb_conn_free(c);
	if (e->listener != NULL)
		GONE(e, "destroy listener", rdma_destroy_id(e->listener));
	ep_free(e);
	ep->drv = NULL;
}
