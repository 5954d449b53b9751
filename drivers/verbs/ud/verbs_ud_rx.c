/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receives of datagrams, and poll. A receive is a list of three pieces:
 *
 *     | GRH 40 B | the caller's buffer | the rest |
 *       driver's                         driver's, shared by all receives and never read
 *
 * So the caller does not see the header. And every datagram fits into its receive; one that did not
 * fit would put the queue pair into error. If a datagram reaches the third piece, its op fails with
 * -EMSGSIZE.
 */

#include <endian.h>
#include <errno.h>

#include "verbs_ud.h"

static inline uint8_t *
grh_of(const struct vb_ud *u, uint32_t nr)
{
	return u->grh + (size_t)(nr & u->rq_mask) * VB_GRH_STRIDE;
}

void
vb_ud_rx_flush(struct vb_ud *u, struct vb_ud_rx_batch *b)
{
	struct ibv_recv_wr *wr, *bad = NULL;

	if (unlikely(ibv_post_recv(u->qp, b->wr, &bad) != 0)) {
		/* The queue had room for these receives: a refusal means that the device failed. */
		if (bad == NULL)
			bad = b->wr;
		for (wr = bad; wr != NULL; wr = wr->next)
			u->rq_tail--;
		for (wr = bad; wr != NULL; wr = wr->next)
			leat_op_finish(u->e.ep, u->rq[wr->wr_id & u->rq_mask], -EIO, 0);
	}
	b->n = 0;
}

void
vb_ud_rx_add(struct vb_ud *u, struct vb_ud_rx_batch *b, struct leat_op *op, uint32_t lkey)
{
	uint32_t size = (uint32_t)RTE_MIN(op->size, (uint64_t)u->mtu), n = 1;
	struct ibv_recv_wr *wr;
	struct ibv_sge *sge;

	if (unlikely(u->flushing)) {
		u->rq[u->rq_tail++ & u->rq_mask] = op;
		return;
	}
	if (b->n == VB_BURST)
		vb_ud_rx_flush(u, b);
	wr = &b->wr[b->n];
	sge = b->sge[b->n];
	sge[0] = (struct ibv_sge){ (uintptr_t)grh_of(u, u->rq_tail), VB_GRH, u->lkey };
	if (size > 0)
		sge[n++] = (struct ibv_sge){ (uintptr_t)op->buf, size, lkey };
	if (size < u->mtu)
		sge[n++] = (struct ibv_sge){ (uintptr_t)grh_of(u, 0) +
						     (size_t)(u->rq_mask + 1u) * VB_GRH_STRIDE,
					     u->mtu - size, u->lkey };
	wr->wr_id = u->rq_tail;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = (int)n;
	if (b->n > 0)
		b->wr[b->n - 1].next = wr;
	b->n++;
	u->rq[u->rq_tail++ & u->rq_mask] = op;
}

static inline uint16_t
peer_of(struct vb_ud *u, const struct ibv_wc *wc)
{
	struct vb_sender sender;
	uint16_t peer;

	vb_sender_wc(&sender, wc, grh_of(u, (uint32_t)wc->wr_id));
	peer = vb_sender_find(&u->senders, &sender);
	if (unlikely(peer == LEAT_PEER_ANY && u->nb_silent > 0))
		peer = vb_ud_learn(u, &sender);
	return peer;
}

/* Log a failed completion, and schedule a reset of the queue pair, which has failed as well. */
static void __attribute__((noinline, cold))
failed(struct vb_ud *u, const struct ibv_wc *wc, const char *what)
{
	if (!u->recall)
		LEAT_LOG(WARNING, driver, "%s: endpoint %s: %s: %s (vendor error %#x): %s",
			 u->e.dev->name, leat_ep_name(u->e.ep), what, vb_wc_name(wc->status),
			 wc->vendor_err, vb_wc_hint(wc->status));
	u->recall = true;
}

static inline void
recv_done(struct vb_ud *u, const struct ibv_wc *wc)
{
	struct leat_op *op = u->rq[u->rq_head & u->rq_mask];
	int status = 0;
	uint64_t len;

	/* Flushed receives stay in the ring until refill() or drop() of verbs_ud.c handles them. */
	if (unlikely(u->rq_head == u->rq_tail || (uint32_t)wc->wr_id != u->rq_head ||
		     wc->status == IBV_WC_WR_FLUSH_ERR)) {
		if (wc->status == IBV_WC_WR_FLUSH_ERR) {
			u->recall = true;
			u->flushed++;
		}
		return;
	}
	u->rq_head++;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		failed(u, wc, "receive");
		status = vb_wc_op_status(wc->status, true);
		leat_op_finish(u->e.ep, op, status > 0 ? -EIO : status, 0);
		return;
	}
	op->src = peer_of(u, wc);
	if (unlikely((wc->wc_flags & IBV_WC_WITH_IMM) != 0)) {
		op->oflags |= LEAT_OP_F_IMM;
		op->imm = be32toh(wc->imm_data);
	}
	len = wc->byte_len - VB_GRH; /* the device always counts the GRH, used or not */
	if (unlikely(len > op->size))
		status = -EMSGSIZE;
	leat_op_finish(u->e.ep, op, status, len);
}

void
vb_ud_sq_done(struct vb_ud *u, uint32_t last, int status)
{
	uint32_t n = last - u->sq_head + 1;

	if (unlikely(n > u->sq_tail - u->sq_head))
		return;
	while (n-- > 0) {
		struct leat_op *op = u->sq[u->sq_head++ & u->sq_mask];

		leat_op_finish(u->e.ep, op, status, status == 0 ? op->size : 0);
	}
}

static void __attribute__((noinline, cold)) send_failed(struct vb_ud *u, const struct ibv_wc *wc)
{
	uint32_t nr = (uint32_t)wc->wr_id;
	int status = vb_wc_op_status(wc->status, false);

	if (nr != u->sq_head)
		vb_ud_sq_done(u, nr - 1, 0);
	failed(u, wc, "send");
	vb_ud_sq_done(u, nr, status > 0 ? -EIO : status);
}

static inline int
poll_recv(struct vb_ud *u, int max)
{
	struct ibv_wc wc[VB_BURST];
	int i, n = ibv_poll_cq(u->e.rcq, max, wc);

	for (i = 0; i < n; i++)
		recv_done(u, &wc[i]);
	return n;
}

static inline int
poll_send(struct vb_ud *u, int max)
{
	struct ibv_wc wc[VB_BURST];
	int i, n = ibv_poll_cq(u->e.scq, max, wc);

	for (i = 0; i < n; i++) {
		if (likely(wc[i].status == IBV_WC_SUCCESS))
			vb_ud_sq_done(u, (uint32_t)wc[i].wr_id, 0);
		else
			send_failed(u, &wc[i]);
	}
	return n;
}

void
vb_ud_poll(struct leat_ep *ep)
{
	struct vb_ud *u = vb_ud_of(vb_of(ep));
	uint32_t room = leat_ep_room(ep);
	int max = room == 0 ? VB_DRIVE_BUDGET : (int)RTE_MIN(room, (uint32_t)VB_BURST);

	if (u->rq_head != u->rq_tail)
		(void)poll_recv(u, max);
	if (u->sq_head != u->sq_tail)
		(void)poll_send(u, max);
	if (unlikely(u->recall))
		vb_ud_recall(u, false);
}

void
vb_ud_cq_empty(struct vb_ud *u)
{
	/* The loop is bounded: no requests are posted meanwhile. */
	while (poll_recv(u, VB_BURST) > 0)
		;
	while (poll_send(u, VB_BURST) > 0)
		;
}
