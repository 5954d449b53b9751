/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints of reliable connections: their limits, their parts, and how they end.
 *
 * The device gives up the receives in an SRQ only when the SRQ is destroyed (or one by one, by the
 * method of verbs_rc_rx.c). All queue pairs that use the SRQ must be destroyed first. So an abort
 * destroys queue pairs and SRQ. A quiesce does the same as soon as no send is in flight.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_rc.h"

/* ---- the device ---- */

/* Limit a count of READs to the 8 bits that the connection manager has for it. */
static uint8_t
rd_atom(int offered)
{
	return (uint8_t)RTE_MIN(RTE_MAX(offered, 0), UINT8_MAX);
}

#ifdef VB_HAVE_WR_API
static uint64_t
wr_ops(const struct vb_dev *d)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
		       IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_RDMA_READ;

	if ((d->ops & VB_OPS_ATOMIC) != 0)
		ops |= IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	return ops;
}
#endif

/*
 * Set the limits without an SRQ: the receive CQ must have room for the driver's receive buffers of
 * all peers.
 */
static int
without_srq(struct vb_dev *d)
{
	uint32_t n = d->args.rxbufs;

	if ((int)n > d->attr.max_qp_wr || (int)n > d->attr.max_cqe - VB_CQ_ROOM)
		return leat_err(EINVAL, "%s: rxbufs=%u: device %s offers %d", d->name, n,
				ibv_get_device_name(d->ibdev),
				RTE_MIN(d->attr.max_qp_wr, d->attr.max_cqe - VB_CQ_ROOM));
	d->max_msg = RTE_MIN(d->max_msg, d->args.rxbuf);
	d->max_peers = RTE_MIN(d->max_peers, (uint32_t)(d->attr.max_cqe - VB_CQ_ROOM) / n);
	return 0;
}

static int
rc_limits(struct vb_dev *d)
{
	d->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
		 LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_READ);
	if (!d->rules.no_imm)
		d->ops |= LEAT_OP_BIT(LEAT_OP_WRITE_IMM);
	if (!d->rules.no_atomics &&
	    (d->attr.atomic_cap == IBV_ATOMIC_HCA || d->attr.atomic_cap == IBV_ATOMIC_GLOB))
		d->ops |= VB_OPS_ATOMIC;
	d->rd_atom = rd_atom(d->attr.max_qp_rd_atom);
	d->init_rd_atom = rd_atom(d->attr.max_qp_init_rd_atom);
	d->max_msg = d->pattr.max_msg_sz != 0 ? d->pattr.max_msg_sz : UINT64_C(1) << 30;
	d->max_msg = RTE_MIN(d->max_msg, UINT64_C(1) << 31);
	d->srq = d->args.srq && d->attr.max_srq > 0 && !d->rules.no_loop;
	/* The CQs need VB_CQ_ROOM entries in addition to the depth. */
	d->tx_depth_max = vb_depth_least(d->attr.max_qp_wr - 1, d->attr.max_cqe - VB_CQ_ROOM);
	d->rx_depth_max = VB_DEPTH_MAX;
	d->max_peers = (uint32_t)RTE_MIN(RTE_MAX(d->attr.max_qp - 2, 1), VB_PEERS_MAX);
	if (d->rules.own_requests) {
		d->tx_depth_max = vb_depth_least(d->attr.max_qp_wr / 2 - 1, d->attr.max_cqe / 4);
		d->max_peers = RTE_MIN(d->max_peers, (uint32_t)d->attr.max_cqe / 4);
	}
	d->priv_connect = VB_PRIV_CONNECT;
	d->priv_accept = VB_PRIV_ACCEPT;
#ifdef VB_HAVE_WR_API
	d->wr_ops = wr_ops(d);
#endif
	d->kind = d->srq ? "reliable connections (RC)"
			 : "reliable connections (RC) without a shared receive queue";
	if (!d->srq)
		return without_srq(d);
	d->rx_depth_max = vb_depth_least(d->attr.max_srq_wr, d->attr.max_cqe - VB_CQ_ROOM);
	return 0;
}

static void
rc_info(const struct vb_dev *d, struct leat_dev_info *info)
{
	info->dead_peer_ms = vb_dead_peer_ms(d->args.timeout, d->args.retry);
	info->priv_padded = true;
	info->refusal_ends = d->srq;
}

/* ---- the endpoint ---- */

static int
alloc_tables(struct vb_ep *e)
{
	uint32_t i, qpns = rte_align32pow2(4 * (uint32_t)e->nb_peers + 4);

	e->sw_mask = rte_align32pow2(e->rx_depth) - 1;
	e->sw_head = LEAT_CURSOR_START;
	e->qpn_mask = qpns - 1;
	e->slots = calloc(e->rx_depth, sizeof(*e->slots));
	e->free = calloc(e->rx_depth, sizeof(*e->free));
	e->sw_queue = calloc(e->sw_mask + 1u, sizeof(*e->sw_queue));
	e->qpns = calloc(qpns, sizeof(*e->qpns));
	e->conns = calloc(e->nb_peers, sizeof(struct vb_conn *));
	if (e->slots == NULL || e->free == NULL || e->sw_queue == NULL || e->qpns == NULL ||
	    e->conns == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	for (i = e->rx_depth; i > 0; i--)
		e->free[e->nb_free++] = i - 1;
	return 0;
}

static int
rc_alloc(struct vb_ep *e, struct vb_cqes *cqes)
{
	if (alloc_tables(e) < 0 || vb_rxqs_open(e) < 0)
		return -rte_errno;
	cqes->send = e->tx_depth;
	if (e->dev->rules.own_requests)
		cqes->send += e->tx_depth + e->nb_peers;
	cqes->recv = e->rxqs != NULL ? e->rxqs->nb * e->nb_peers : e->rx_depth;
	return 0;
}

static int
rc_open(struct vb_ep *e)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = e->rx_depth, .max_sge = 1 } };

	if (e->rxqs != NULL)
		return 0;
	e->srq = ibv_create_srq(e->pd, &srq);
	if (e->srq == NULL)
		return vb_qp_failed(e->dev, "a shared receive queue", errno);
	return 0;
}

static void
srq_destroy(struct vb_ep *e)
{
	int err = 0;

	if (e->srq != NULL)
		err = ibv_destroy_srq(e->srq);
	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: destroy SRQ: %s", e->dev->name, strerror(err));
	e->srq = NULL;
}

static void
rc_close(struct vb_ep *e)
{
	srq_destroy(e);
	vb_rxqs_close(e);
	free(e->slots);
	free(e->free);
	free(e->sw_queue);
	free(e->qpns);
}

static void
rc_teardown(struct vb_ep *e, int status, int recv_status)
{
	uint32_t i;

	if (e->dead)
		return;
	vb_rc_cq_empty(e);
	e->dead = true;
	leat_ep_poll_set(e->ep, vb_poll_dead);
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
			vb_rc_sq_done(e, c, c->tail - 1, status);
	}
	vb_rx_drop(e, recv_status);
}

static void
rc_quiesce(struct vb_ep *e)
{
	if (e->ep->tx_room == e->tx_depth)
		rc_teardown(e, -ESHUTDOWN, -ECANCELED);
	else
		/* Sends continue; meanwhile take back the receives that can be taken back. */
		vb_rx_cancel_all(e);
}

static void
rc_progress(struct vb_ep *e, uint64_t now)
{
	vb_loop_progress(e, now);
	if (e->quiesce && !e->dead && e->ep->tx_room == e->tx_depth)
		rc_teardown(e, -ESHUTDOWN, -ECANCELED);
}

static void
rc_look(struct vb_ep *e)
{
	vb_rc_cq_empty(e);
	vb_rx_step(e);
}

static bool
rc_by_the_clock(const struct vb_ep *e)
{
	return e->loop.empty || e->loop.state == VB_LOOP_FAILED;
}

const struct vb_transport vb_rc_transport = {
	.name = "rc",
	.ep_type = LEAT_EP_RELIABLE,
	.qp_type = IBV_QPT_RC,
	.port_space = RDMA_PS_TCP,
	.recv_sge = 1,
	.cq_ex = true,
	.ep_size = sizeof(struct vb_ep),
	.post = vb_rc_post,
	.poll = vb_rc_poll,
	.limits = rc_limits,
	.info = rc_info,
	.alloc = rc_alloc,
	.open = rc_open,
	.close = rc_close,
	.quiesce = rc_quiesce,
	.teardown = rc_teardown,
	.cancel = vb_rx_cancel,
	.progress = rc_progress,
	.device_failed = vb_conns_end,
	.look = rc_look,
	.by_the_clock = rc_by_the_clock,
	.connect = vb_rc_connect,
	.answered = vb_rc_answered,
	.refusal = vb_rc_refusal,
	.left = vb_rc_left,
	.request = vb_rc_request,
	.requested = vb_rc_requested,
	.accept = vb_rc_accept,
	.end = vb_rc_end,
	.ending = vb_rc_ending,
	.release = vb_qp_destroy,
};
