/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The endpoint: its limits, its queue pair, and how receives are taken back.
 *
 * Verbs can't recall a receive. A UD queue pair can be reset, though, and no peer notices: there is
 * no connection. What was in it goes in again, in its old order, but for the cancelled:
 *
 *     QP  A X B C      cancel X
 *         no send is in flight any more: to ERR, which flushes A X B C
 *         to RESET
 *     QP  A B C        X comes back
 *
 * Datagrams that come meanwhile are lost, as datagrams may be. Sends are not: they wait for no
 * peer, so that none is in flight soon; new ones are refused until it is over. When ibv_modify_qp()
 * to RESET returns the device has forgotten all; ERR comes first because soft-RoCE of some kernels
 * does not survive a reset with datagrams on their way in. The same mends a queue pair that a wrong
 * request brought down.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rte_common.h>

#include "verbs_ud.h"

/* So long the device has for sends in flight, and for flushing; then it is reset all the same. */
#define RECALL_US 100000

/* ---- the device ---- */

/* A datagram is one packet, and all are received by one queue pair. */
static int
ud_limits(struct vb_dev *d)
{
	if (d->rules.no_datagrams)
		return leat_err(EOPNOTSUPP, "%s: qp=ud: device %s is iWARP, which has no datagrams",
				d->name, ibv_get_device_name(d->ibdev));
	if (d->attr.max_sge < VB_UD_SGE)
		return leat_err(EOPNOTSUPP,
				"%s: qp=ud: device %s has %d pieces per request, %d are needed",
				d->name, ibv_get_device_name(d->ibdev), d->attr.max_sge, VB_UD_SGE);
	d->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	d->port_mtu = vb_mtu_bytes(d->pattr.active_mtu);
	d->max_msg = d->args.mtu != 0 ? RTE_MIN(d->args.mtu, d->port_mtu) : d->port_mtu;
	d->max_peers = (uint32_t)RTE_MIN(RTE_MAX(d->attr.max_ah, 1), VB_PEERS_MAX);
	d->tx_depth_max = vb_depth_least(d->attr.max_qp_wr - 1, d->attr.max_cqe - VB_CQ_ROOM);
	d->rx_depth_max = d->tx_depth_max;
	d->priv_connect = VB_UD_PRIV_CONNECT;
	d->priv_accept = VB_UD_PRIV_ACCEPT;
	d->kind = "datagrams (UD)";
#ifdef VB_HAVE_WR_API
	d->wr_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
#endif
	return 0;
}

static void
ud_info(const struct vb_dev *d, struct leat_dev_info *info)
{
	RTE_SET_USED(d);
	info->dead_peer_ms = 0;
	info->write_order = false;
	info->priv_padded = false;
	info->refusal_ends = false;
}

/* ---- the queue pair ---- */

static int
move(struct vb_ud *u, struct ibv_qp_attr *attr, int mask, const char *to)
{
	int err = ibv_modify_qp(u->qp, attr, mask);

	if (err == 0)
		return 0;
	return leat_err(err, "%s: queue pair to %s: %s", u->e.dev->name, to, strerror(err));
}

static int
to_init(struct vb_ud *u)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = u->e.dev->port,
				    .qkey = u->qkey };

	return move(u, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
}

static int
to_rts(struct vb_ud *u)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int ret = move(u, &attr, IBV_QP_STATE, "RTR");

	attr.qp_state = IBV_QPS_RTS;
	return ret < 0 ? ret : move(u, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

static int
create_qp(struct vb_ud *u)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = u->e.scq,
		.recv_cq = u->e.rcq,
		.cap = { .max_send_wr = u->e.tx_depth,
			 .max_recv_wr = u->e.rx_depth,
			 .max_send_sge = 1,
			 .max_recv_sge = VB_UD_SGE,
			 .max_inline_data = u->e.dev->inline_max },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = u->e.pd,
	};

#ifdef VB_HAVE_WR_API
	if (u->e.dev->wr_api) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = u->e.dev->wr_ops;
	}
#endif
	errno = 0;
	u->qp = ibv_create_qp_ex(u->e.ctx, &attr);
	if (u->qp == NULL)
		return vb_qp_failed(u->e.dev, "a queue pair", errno != 0 ? errno : EIO);
#ifdef VB_HAVE_WR_API
	u->qpx = u->e.dev->wr_api ? ibv_qp_to_qp_ex(u->qp) : NULL;
#endif
	return 0;
}

static void
destroy_qp(struct vb_ud *u)
{
	int err = u->qp != NULL ? ibv_destroy_qp(u->qp) : 0;

	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: destroy queue pair: %s", u->e.dev->name, strerror(err));
	u->qp = NULL;
	u->qpx = NULL;
}

/* ---- the endpoint ---- */

static int
ud_alloc(struct vb_ep *e, struct vb_cqes *cqes)
{
	struct vb_ud *u = vb_ud_of(e);
	size_t scratch;

	u->mtu = e->dev->port_mtu;
	u->sq_mask = rte_align32pow2(e->tx_depth) - 1;
	u->rq_mask = rte_align32pow2(e->rx_depth) - 1;
	u->sq_head = u->sq_tail = u->rq_head = u->rq_tail = LEAT_CURSOR_START;
	u->attempts = LEAT_CURSOR_START;
	scratch = (size_t)(u->rq_mask + 1u) * VB_GRH_STRIDE + u->mtu;
	u->sq = calloc(u->sq_mask + 1u, sizeof(struct leat_op *));
	u->rq = calloc(u->rq_mask + 1u, sizeof(struct leat_op *));
	u->grh = aligned_alloc(4096, RTE_ALIGN_CEIL(scratch, (size_t)4096));
	u->dest = calloc(e->nb_peers, sizeof(*u->dest));
	e->conns = calloc(e->nb_peers, sizeof(struct vb_conn *));
	if (u->sq == NULL || u->rq == NULL || u->grh == NULL || u->dest == NULL ||
	    e->conns == NULL || vb_sender_init(&u->senders, e->nb_peers) < 0)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	memset(u->grh, 0, scratch);
	cqes->send = e->tx_depth;
	cqes->recv = e->rx_depth;
	return 0;
}

static int
ud_open(struct vb_ep *e)
{
	struct vb_ud *u = vb_ud_of(e);
	size_t scratch = (size_t)(u->rq_mask + 1u) * VB_GRH_STRIDE + u->mtu;
	int ret;

	/* No peer has to guess it, and none shall: the Q_Key keeps strangers out. */
	u->qkey = e->dev->args.qkey;
	while (u->qkey == 0) {
		if (getrandom(&u->qkey, sizeof(u->qkey), 0) != sizeof(u->qkey))
			return leat_err(EIO, "%s: create endpoint: getrandom: %s", e->dev->name,
					strerror(errno));
		u->qkey &= INT32_MAX;
	}
	u->mr = ibv_reg_mr(e->pd, u->grh, scratch, IBV_ACCESS_LOCAL_WRITE);
	if (u->mr == NULL)
		return vb_qp_failed(e->dev, "a memory region", errno);
	u->lkey = u->mr->lkey;
	ret = create_qp(u);
	if (ret == 0)
		ret = to_init(u);
	return ret < 0 ? ret : to_rts(u);
}

static void
ud_close(struct vb_ep *e)
{
	struct vb_ud *u = vb_ud_of(e);
	int err;

	destroy_qp(u);
	err = u->mr != NULL ? ibv_dereg_mr(u->mr) : 0;
	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: deregister headers: %s", e->dev->name, strerror(err));
	free(u->sq);
	free(u->rq);
	free(u->grh);
	free(u->dest);
	free(u->senders.rows);
}

/* ---- taking receives back ---- */

/* What is in the queue of receives goes in again, or comes back. */
static void
refill(struct vb_ud *u)
{
	uint32_t i = u->rq_head, end = u->rq_tail;
	struct vb_ud_rx_batch b;

	b.n = 0;
	/* Numbers that are used already are not used again. One goes in where others came out before. */
	u->rq_head = end;
	for (; i != end; i++) {
		struct leat_op *op = u->rq[i & u->rq_mask];
		const struct leat_mr_piece *p = NULL;

		if (u->e.quiesce || op->state != LEAT_OP_INFLIGHT) {
			leat_op_finish(u->e.ep, op, -ECANCELED, 0);
			continue;
		}
		if (op->size > 0)
			p = leat_mr_find(op->mr, op->buf, op->size); /* it was right when posted */
		vb_ud_rx_add(u, &b, op, p != NULL ? vb_lkey(p) : 0);
	}
	if (b.n > 0)
		vb_ud_rx_flush(u, &b);
}

/* All that is in the queues comes back. */
static void
drop(struct vb_ud *u, int status, int recv_status)
{
	if (u->sq_head != u->sq_tail)
		vb_ud_sq_done(u, u->sq_tail - 1, status);
	while (u->rq_head != u->rq_tail) {
		struct leat_op *op = u->rq[u->rq_head++ & u->rq_mask];
		bool asked = op->state != LEAT_OP_INFLIGHT;

		leat_op_finish(u->e.ep, op, asked ? -ECANCELED : recv_status, 0);
	}
	u->recall = u->flushing = false;
}

static void
ud_failed(struct vb_ep *e, const char *text)
{
	struct vb_ud *u = vb_ud_of(e);

	LEAT_LOG(ERR, driver, "%s: endpoint %s: %s", e->dev->name, leat_ep_name(e->ep), text);
	if (e->dead || u->qp == NULL)
		return;
	vb_ud_cq_empty(u);
	destroy_qp(u);
	drop(u, -EIO, -EIO);
	vb_conns_end(e, text);
}

void
vb_ud_recall(struct vb_ud *u, bool force)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int ret = 0;

	if (!u->flushing) {
		if (u->sq_head != u->sq_tail && !force)
			return;
		u->flushing = true;
		u->flush_end = u->rq_tail;
		ret = move(u, &attr, IBV_QP_STATE, "ERR");
	}
	if (ret == 0 && u->flushed != u->flush_end - u->rq_head && !force)
		return;
	attr.qp_state = IBV_QPS_RESET;
	if (ret == 0)
		ret = move(u, &attr, IBV_QP_STATE, "RESET");
	if (ret == 0) {
		/* What was complete before is. The device has let go of all the rest. */
		vb_ud_cq_empty(u);
		if (u->sq_head != u->sq_tail)
			vb_ud_sq_done(u, u->sq_tail - 1, -EIO);
		u->recall = u->flushing = false;
		u->recall_limit = 0;
		u->flushed = u->unsignaled = 0;
		ret = to_init(u);
	}
	if (ret == 0) {
		refill(u); /* before anything can arrive */
		ret = to_rts(u);
	}
	if (ret < 0)
		ud_failed(&u->e, leat_err_msg());
}

static int
ud_cancel(struct vb_ep *e, struct leat_op *op)
{
	/* A send ends by itself, at once: its deadline need not end anything. */
	if (!leat_op_is_recv(op))
		return op->state == LEAT_OP_EXPIRED ? 0 : -EOPNOTSUPP;
	/* The next poll does it, for all that are cancelled by then; their state tells which. */
	vb_ud_of(e)->recall = true;
	return 0;
}

static void
ud_progress(struct vb_ep *e, uint64_t now)
{
	struct vb_ud *u = vb_ud_of(e);

	if (!u->recall)
		return;
	if (u->recall_limit == 0)
		u->recall_limit = now + leat_us_to_cycles(RECALL_US);
	vb_ud_recall(u, now >= u->recall_limit);
}

static void
ud_look(struct vb_ep *e)
{
	struct vb_ud *u = vb_ud_of(e);

	if (u->qp == NULL)
		return;
	vb_ud_cq_empty(u);
	if (u->recall)
		vb_ud_recall(u, false);
}

static bool
ud_by_the_clock(const struct vb_ep *e)
{
	return ((const struct vb_ud *)(const void *)e)->recall;
}

/* ---- the end ---- */

static void
ud_quiesce(struct vb_ep *e)
{
	struct vb_ud *u = vb_ud_of(e);

	if (u->qp == NULL)
		return; /* nothing is in flight */
	u->recall = true;
	vb_ud_recall(u, false);
}

static void
ud_teardown(struct vb_ep *e, int status, int recv_status)
{
	struct vb_ud *u = vb_ud_of(e);

	if (e->dead)
		return;
	if (u->qp != NULL)
		vb_ud_cq_empty(u);
	e->dead = true;
	leat_ep_poll_set(e->ep, vb_poll_dead);
	destroy_qp(u);
	drop(u, status, recv_status);
}

const struct vb_transport vb_ud_transport = {
	.name = "ud",
	.ep_type = LEAT_EP_DATAGRAM,
	.qp_type = IBV_QPT_UD,
	.port_space = RDMA_PS_UDP,
	.recv_sge = VB_UD_SGE,
	.cq_ex = false,
	.ep_size = sizeof(struct vb_ud),
	.post = vb_ud_post,
	.poll = vb_ud_poll,
	.limits = ud_limits,
	.info = ud_info,
	.alloc = ud_alloc,
	.open = ud_open,
	.close = ud_close,
	.quiesce = ud_quiesce,
	.teardown = ud_teardown,
	.cancel = ud_cancel,
	.progress = ud_progress,
	.device_failed = ud_failed,
	.look = ud_look,
	.by_the_clock = ud_by_the_clock,
	.connect = vb_ud_connect,
	.answered = vb_ud_answered,
	.refusal = vb_ud_refusal,
	.request = vb_ud_request,
	.requested = vb_ud_requested,
	.accept = vb_ud_accept,
	.end = vb_ud_end,
	.ending = vb_ud_ending,
	.release = vb_ud_forget,
};
