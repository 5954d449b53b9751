/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Queue pairs. The driver creates and moves them itself, not rdma_cm, so that they can belong to
 * the endpoint's own context. The connection manager provides the attributes (rdma_init_qp_attr()).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_rc.h"

/* 0.64 ms: how long a sender waits after its message met no receive. */
#define MIN_RNR_TIMER 12

/* ---- QP number -> peer: open addressing, at most a quarter full ---- */

static inline uint32_t
hash(const struct vb_ep *e, uint32_t qpn)
{
	return (qpn * 2654435761u >> 8) & e->qpn_mask;
}

uint16_t
vb_qpn_find(const struct vb_ep *e, uint32_t qpn)
{
	uint32_t i;

	for (i = hash(e, qpn); e->qpns[i].qpn != 0; i = (i + 1) & e->qpn_mask) {
		if (e->qpns[i].qpn == qpn)
			return e->qpns[i].peer;
	}
	return LEAT_PEER_ANY;
}

void
vb_qpn_add(struct vb_ep *e, uint32_t qpn, uint16_t peer)
{
	uint32_t i;

	e->last_qpn = 0;
	for (i = hash(e, qpn); e->qpns[i].qpn != 0; i = (i + 1) & e->qpn_mask)
		;
	e->qpns[i].qpn = qpn;
	e->qpns[i].peer = peer;
}

void
vb_qpn_del(struct vb_ep *e, uint32_t qpn)
{
	uint32_t i, k;

	e->last_qpn = 0;
	for (i = hash(e, qpn); e->qpns[i].qpn != qpn; i = (i + 1) & e->qpn_mask) {
		if (e->qpns[i].qpn == 0)
			return;
	}
	e->qpns[i].qpn = 0;
	/* Close the gap: move up the rows after it that would no longer be found. */
	for (k = (i + 1) & e->qpn_mask; e->qpns[k].qpn != 0; k = (k + 1) & e->qpn_mask) {
		uint32_t home = hash(e, e->qpns[k].qpn);

		if (((k - home) & e->qpn_mask) < ((k - i) & e->qpn_mask))
			continue;
		e->qpns[i] = e->qpns[k];
		e->qpns[k].qpn = 0;
		i = k;
	}
}

/* ---- queue pairs ---- */

int
vb_qp_create(struct vb_ep *e, struct vb_conn *c)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = c,
		.send_cq = e->scq,
		.recv_cq = e->rcq,
		.srq = e->srq,
		.cap = { .max_send_wr = e->tx_depth,
			 .max_send_sge = 1,
			 .max_inline_data = e->dev->inline_max },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};

	if (e->rxqs != NULL) {
		attr.cap.max_recv_wr = e->rxqs->nb;
		attr.cap.max_recv_sge = 1;
		if (c->rxq == NULL && vb_rxq_open(e, c) < 0)
			return -rte_errno;
		if (e->dev->rules.own_requests) /* for READs after WRITEs, and for credits */
			attr.cap.max_send_wr = 2 * e->tx_depth + 1;
	}
	if (c->sq == NULL) {
		c->mask = rte_align32pow2(e->tx_depth) - 1;
		c->sq = calloc(c->mask + 1u, sizeof(struct leat_op *));
		if (c->sq == NULL)
			return leat_err(ENOMEM, "%s: queue pair: out of memory", e->dev->name);
	}
#ifdef VB_HAVE_WR_API
	if (e->dev->wr_api) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = e->dev->wr_ops;
	}
#endif
	errno = 0;
	c->qp = ibv_create_qp_ex(e->ctx, &attr);
	if (c->qp == NULL)
		return vb_qp_failed(e->dev, "a queue pair", errno != 0 ? errno : EIO);
#ifdef VB_HAVE_WR_API
	c->qpx = e->dev->wr_api ? ibv_qp_to_qp_ex(c->qp) : NULL;
#endif
	c->qpn = c->qp->qp_num;
	c->head = c->tail = LEAT_CURSOR_START;
	c->unsignaled = 0;
	c->tag = (uint32_t)e->tags++ << 16 | c->index;
	e->nb_qps++;
	vb_qpn_add(e, c->qpn, c->index);
	return 0;
}

static int
move(struct vb_conn *c, struct ibv_qp_attr *attr, int mask, const char *to)
{
	int err = ibv_modify_qp(c->qp, attr, mask);

	if (err == 0)
		return 0;
	return leat_err(err, "%s: queue pair to %s: %s", c->e->dev->name, to, strerror(err));
}

static int
ask(struct vb_conn *c, struct ibv_qp_attr *attr, int *mask, enum ibv_qp_state state, const char *to)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (rdma_init_qp_attr(c->id, attr, mask) == 0)
		return 0;
	return leat_err(errno, "%s: attributes of a queue pair in %s: %s", c->e->dev->name, to,
			strerror(errno));
}

int
vb_qp_init(struct vb_conn *c)
{
	struct ibv_qp_attr attr;
	int mask, ret = ask(c, &attr, &mask, IBV_QPS_INIT, "INIT");

	if (ret < 0)
		return ret;
	attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_WRITE;
	if ((c->e->dev->ops & VB_OPS_ATOMIC) != 0)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	ret = move(c, &attr, mask | IBV_QP_ACCESS_FLAGS, "INIT");
	return ret < 0 || c->e->rxqs == NULL ? ret : vb_rxq_start(c->e, c);
}

int
vb_qp_connect(struct vb_conn *c)
{
	const struct vb_args *a = &c->e->dev->args;
	struct ibv_qp_attr attr;
	int mask, ret;

	c->reads = c->init_rd_atom > 0;
	if (c->e->dev->rules.kernel_qp)
		return 0;
	ret = ask(c, &attr, &mask, IBV_QPS_RTR, "RTR");
	if (ret < 0)
		return ret;
	/* The connection manager's value would be 655 ms. */
	attr.min_rnr_timer = MIN_RNR_TIMER;
	attr.max_dest_rd_atomic = c->rd_atom;
	if (a->mtu != 0 && (int)attr.path_mtu > vb_mtu_enum(a->mtu))
		attr.path_mtu = (enum ibv_mtu)vb_mtu_enum(a->mtu);
	ret = move(c, &attr, mask, "RTR");
	if (ret == 0)
		ret = ask(c, &attr, &mask, IBV_QPS_RTS, "RTS");
	if (ret < 0)
		return ret;
	attr.timeout = (uint8_t)a->timeout;
	attr.retry_cnt = (uint8_t)a->retry;
	attr.rnr_retry = (uint8_t)a->rnr_retry;
	attr.max_rd_atomic = c->init_rd_atom;
	return move(c, &attr, mask, "RTS");
}

void
vb_qp_error(struct vb_conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err;

	if (c->qp == NULL)
		return;
	err = ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: queue pair to ERR: %s", c->e->dev->name,
			 strerror(err));
}

void
vb_qp_destroy(struct vb_conn *c)
{
	int err;

	if (c->qp == NULL) {
		vb_rxq_close(c->e, c);
		return;
	}
	err = ibv_destroy_qp(c->qp);
	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: destroy queue pair %u: %s", c->e->dev->name, c->qpn,
			 strerror(err));
	vb_rxq_close(c->e, c);
	vb_qpn_del(c->e, c->qpn);
	c->e->nb_qps--;
	c->qp = NULL;
	c->qpx = NULL;
	c->qpn = 0;
	/*
	 * Handle the completions of the flushed buffers: the CQ must have room for the next queue
	 * pair's completions.
	 */
	if (c->e->rxqs != NULL)
		vb_rc_cq_empty(c->e);
}
