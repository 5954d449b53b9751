/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The endpoint: its limits, its queue pair, and how receives are taken back.
 *
 * Verbs can't recall a receive. But a UD queue pair can be reset without its peers noticing,
 * because there is no connection. Afterwards its receives are posted again, in their old order,
 * except the cancelled ones:
 *
 *     QP  A X B C      cancel X
 *         wait until no send is in flight; then to ERR, which flushes A X B C
 *         to RESET
 *     QP  A B C        X is finished with -ECANCELED
 *
 * Datagrams that arrive meanwhile are lost, as datagrams may be. Sends are not lost: they wait for
 * no peer, so soon none is in flight, and post refuses new ones until the end of the reset. When
 * ibv_modify_qp() to RESET returns, the device has forgotten all requests. ERR comes first because
 * soft-RoCE of some kernels does not survive a reset while datagrams are arriving. The same
 * procedure repairs a queue pair that failed because of a wrong request.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rte_common.h>

#include "verbs_ud.h"

/* us. How long sends in flight and flushing may take; after that the queue pair is reset anyway. */
#define RECALL_US 100000

/* ---- the device ---- */

/* Set the limits: a datagram is one packet, and one queue pair receives them all. */
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

	/* A random Q_Key keeps strangers out; peers learn it when they connect. */
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

/*
 * Post the receives of the ring again, except cancelled ones, which are finished. After
 * ep_quiesce(), finish all of them.
 */
static void
refill(struct vb_ud *u)
{
	uint32_t i = u->rq_head, end = u->rq_tail;
	struct vb_ud_rx_batch b;

	b.n = 0;
	/*
	 * Receives get new numbers. vb_ud_rx_add() writes only to ring entries that this loop has
	 * read.
	 */
	u->rq_head = end;
	for (; i != end; i++) {
		struct leat_op *op = u->rq[i & u->rq_mask];
		const struct leat_mr_piece *p = NULL;

		if (u->e.quiesce || op->state != LEAT_OP_INFLIGHT) {
			leat_op_finish(u->e.ep, op, -ECANCELED, 0);
			continue;
		}
		if (op->size > 0)
			/* the buffer was valid when the op was posted */
			p = leat_mr_find(op->mr, op->buf, op->size);
		vb_ud_rx_add(u, &b, op, p != NULL ? vb_lkey(p) : 0);
	}
	if (b.n > 0)
		vb_ud_rx_flush(u, &b);
}

/* Finish all ops in the queues. */
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
		/*
		 * Handle the requests that completed before the reset. The device no longer uses
		 * the others.
		 */
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
	/* A send completes soon, without waiting for its peer: its deadline needs no action. */
	if (!leat_op_is_recv(op))
		return op->state == LEAT_OP_EXPIRED ? 0 : -EOPNOTSUPP;
	/*
	 * The next poll takes back all receives that are cancelled by then. It recognizes them by
	 * op->state.
	 */
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

/* ---- shutdown ---- */

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
