/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The loop: a connection of the endpoint to itself, whose empty messages take receives out of the
 * SRQ (see verbs_rc_rx.c). It is created when the first receive is to be taken back.
 *
 * The sending queue pair does not wait for receives (rnr_retry 0): a message that finds the SRQ
 * empty fails, and certainly took no receive. Afterwards both queue pairs are useless, and are
 * created again.
 */

#include <errno.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_rc.h"

#define DEPTH 16
#define WAIT_MIN_US 500
#define WAIT_MAX_US 64000

static struct ibv_qp *
create_qp(struct vb_ep *e, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->scq,
		.recv_cq = e->rcq,
		.srq = srq,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (srq == NULL)
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 1;
	return ibv_create_qp(e->pd, &attr);
}

static int
connect_to(struct vb_ep *e, struct ibv_qp *qp, uint32_t dest)
{
	const struct vb_dev *d = e->dev;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = d->port };
	int err;

	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err != 0)
		return err;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = d->pattr.active_mtu;
	attr.dest_qp_num = dest;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.port_num = d->port;
	attr.ah_attr.dlid = d->pattr.lid;
	if (d->pattr.link_layer == IBV_LINK_LAYER_ETHERNET ||
	    (d->pattr.flags & IBV_QPF_GRH_REQUIRED) != 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = d->sgid.gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)d->gid;
		attr.ah_attr.grh.hop_limit = 64;
	}
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (err != 0)
		return err;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 0;
	attr.max_rd_atomic = 1;
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void
destroy_qp(struct vb_ep *e, struct ibv_qp *qp)
{
	int err = qp != NULL ? ibv_destroy_qp(qp) : 0;

	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: destroy queue pair: %s", e->dev->name, strerror(err));
}

void
vb_loop_close(struct vb_ep *e)
{
	struct vb_loop *l = &e->loop;

	destroy_qp(e, l->tx);
	destroy_qp(e, l->rx);
	l->tx = l->rx = NULL;
	l->inflight = l->untaken = 0;
	if (l->state != VB_LOOP_UNABLE)
		l->state = VB_LOOP_NONE;
}

int
vb_loop_open(struct vb_ep *e)
{
	struct vb_loop *l = &e->loop;
	int err;

	if (l->state == VB_LOOP_UNABLE)
		return -EOPNOTSUPP;
	if (l->state != VB_LOOP_NONE)
		return 0;
	errno = 0;
	l->tx = create_qp(e, NULL);
	l->rx = l->tx == NULL ? NULL : create_qp(e, e->srq);
	if (l->rx == NULL) {
		err = errno != 0 ? errno : EIO;
	} else {
		l->tx_qpn = l->tx->qp_num;
		l->rx_qpn = l->rx->qp_num;
		err = connect_to(e, l->rx, l->tx_qpn);
		if (err == 0)
			err = connect_to(e, l->tx, l->rx_qpn);
	}
	if (err == 0) {
		l->state = VB_LOOP_READY;
		if (l->wait_us == 0)
			l->wait_us = WAIT_MIN_US;
		return 0;
	}
	vb_loop_close(e);
	l->state = VB_LOOP_UNABLE;
	LEAT_LOG(WARNING, driver,
		 "%s: endpoint %s: device %s can't be connected to itself (%s): receives can't be "
		 "cancelled",
		 e->dev->name, leat_ep_name(e->ep), ibv_get_device_name(e->dev->ibdev),
		 strerror(err));
	return -EOPNOTSUPP;
}

static void
loop_failed(struct vb_ep *e)
{
	struct vb_loop *l = &e->loop;

	if (l->state != VB_LOOP_READY)
		return;
	l->state = VB_LOOP_FAILED;
	l->again = leat_now() + leat_us_to_cycles(l->wait_us);
	l->wait_us = RTE_MIN(2 * l->wait_us, (uint32_t)WAIT_MAX_US);
}

void
vb_loop_send(struct vb_ep *e, uint32_t n)
{
	struct vb_loop *l = &e->loop;
	struct ibv_send_wr wr[DEPTH], *bad = NULL;
	uint32_t i;

	n = RTE_MIN(n, DEPTH - l->inflight);
	if (n == 0)
		return;
	memset(wr, 0, n * sizeof(wr[0]));
	for (i = 0; i < n; i++) {
		wr[i].wr_id = VB_LOOP_WR_ID;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	if (ibv_post_send(l->tx, wr, &bad) != 0) {
		n = bad == NULL ? 0 : (uint32_t)(bad - wr);
		loop_failed(e);
	}
	l->inflight += n;
	l->untaken += n;
	l->mark = e->posts;
}

void
vb_loop_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	struct vb_loop *l = &e->loop;

	if (l->tx == NULL || wc->qp_num != l->tx_qpn || l->inflight == 0)
		return;
	l->inflight--;
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		l->wait_us = WAIT_MIN_US;
		return;
	}
	/* A message that failed took no receive. */
	l->untaken--;
	if (wc->status == IBV_WC_WR_FLUSH_ERR || l->state != VB_LOOP_READY)
		return;
	loop_failed(e);
	if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		l->empty = e->posts == l->mark;
	else
		LEAT_LOG(WARNING, driver, "%s: endpoint %s: taking receives back: %s: %s",
			 e->dev->name, leat_ep_name(e->ep), vb_wc_name(wc->status),
			 vb_wc_hint(wc->status));
}

void
vb_loop_progress(struct vb_ep *e, uint64_t now)
{
	struct vb_loop *l = &e->loop;

	if (l->empty && l->inflight == 0 && !e->dead) {
		l->empty = false;
		vb_rc_cq_empty(e); /* handle the receives taken before the SRQ was empty */
		if (e->posts == l->mark)
			vb_rx_refill(e);
		vb_rx_step(e);
	}
	if (l->state != VB_LOOP_FAILED || now < l->again || l->inflight > 0 || e->dead)
		return;
	vb_rc_cq_empty(e); /* handle the receives that the loop's messages took */
	vb_loop_close(e);
	if (e->drain && vb_loop_open(e) == 0)
		vb_rx_step(e);
}
