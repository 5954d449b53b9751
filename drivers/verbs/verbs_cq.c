/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll.
 *
 * Requests of one queue pair complete in order, so one completion stands for all requests before it
 * that had none of their own. An error is always told, so those before one went well.
 */

#include "verbs_pvt.h"

/* Taken by a poll that has no room for ops. */
#define DRIVE_BUDGET 8

/* What wr_id says of a send: whose it is, and its number. The loop is nobody's. */
#define WR_INDEX(wr_id) ((uint32_t)((wr_id) >> 32))

/* The general way, one by one. */
static void __attribute__((noinline))
sq_done_each(struct vb_ep *e, struct vb_conn *c, uint32_t n, int status)
{
	uint32_t head = c->head;

	c->head += n;
	while (n-- > 0) {
		struct leat_op *op = c->sq[head++ & c->mask];

		leat_op_finish(e->ep, op, status, status == 0 ? op->size : 0);
	}
}

static inline void
sq_done_well(struct vb_ep *e, struct vb_conn *c, uint32_t last)
{
	uint32_t head = c->head, n = last + 1 - head, k;

	if (unlikely(n > c->tail - head))
		return;
	k = leat_ops_sent(e->ep, &e->ep->peers[c->index], c->sq, c->mask, head, n);
	c->head = head + k;
	if (unlikely(k < n))
		sq_done_each(e, c, n - k, 0);
}

void
vb_sq_done(struct vb_ep *e, struct vb_conn *c, uint32_t last, int status)
{
	uint32_t n = last - c->head + 1;

	if (n <= c->tail - c->head)
		sq_done_each(e, c, n, status);
}

static void __attribute__((noinline, cold))
send_failed(struct vb_ep *e, struct vb_conn *c, const struct ibv_wc *wc)
{
	int status = vb_wc_op_status(wc->status, false);
	uint32_t nr = (uint32_t)wc->wr_id;

	if (nr != c->head)
		vb_sq_done(e, c, nr - 1, 0);
	vb_conn_broken(c, wc, false);
	vb_sq_done(e, c, nr, status > 0 ? c->status : status);
}

static inline void
send_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	uint32_t index = WR_INDEX(wc->wr_id);
	struct vb_conn *c;

	if (unlikely(index >= e->nb_peers)) {
		vb_loop_done(e, wc);
		return;
	}
	c = e->conns[index];
	if (unlikely(c == NULL || c->qpn != wc->qp_num))
		return;
	if (likely(wc->status == IBV_WC_SUCCESS))
		sq_done_well(e, c, (uint32_t)wc->wr_id);
	else
		send_failed(e, c, wc);
}

static inline int
poll_recv(struct vb_ep *e, int max)
{
	struct ibv_wc wc[VB_BURST];
	int i, n = ibv_poll_cq(e->rcq, max, wc);

	for (i = 0; i < n; i++)
		vb_rx_done(e, &wc[i]);
	return n;
}

static inline int
poll_send(struct vb_ep *e, int max)
{
	struct ibv_wc wc[VB_BURST];
	int i, n = ibv_poll_cq(e->scq, max, wc);

	for (i = 0; i < n; i++)
		send_done(e, &wc[i]);
	return n;
}

void
vb_poll(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	uint32_t room = leat_ep_room(ep);
	int max = room == 0 ? DRIVE_BUDGET : (int)RTE_MIN(room, (uint32_t)VB_BURST);

	if (e->hw > 0)
		(void)poll_recv(e, max);
	if (ep->tx_room != e->tx_depth || unlikely(e->loop.inflight > 0))
		(void)poll_send(e, max);
	if (unlikely(e->drain))
		vb_rx_step(e);
}

void
vb_cq_empty(struct vb_ep *e)
{
	if (e->dead)
		return;
	/* Bounded: nothing new is posted meanwhile. */
	while (poll_recv(e, VB_BURST) > 0)
		;
	while (poll_send(e, VB_BURST) > 0)
		;
}

void
vb_poll_dead(struct leat_ep *ep)
{
	RTE_SET_USED(ep);
}
