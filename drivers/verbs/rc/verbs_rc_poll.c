/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll.
 *
 * The requests of a queue pair complete in order. So one completion stands for all requests before
 * it that had no completion of their own. These succeeded, because a failed request always has a
 * completion of its own.
 */

#include <leat_order_fast.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_rc.h"

/*
 * wr_id of a send: the upper 32 bits are the tag of the queue pair, the lower 32 bits the number of
 * the send. The lower 16 bits of a tag are the index of the peer.
 */
#define WR_TAG(wr_id) ((uint32_t)((wr_id) >> 32))
#define WR_INDEX(wr_id) ((uint16_t)((wr_id) >> 32))

/* Finish the n oldest ops of a send queue one by one. */
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
	k = leat_op_finish_sent(e->ep, &e->ep->peers[c->index], c->sq, c->mask, head, n);
	c->head = head + k;
	if (unlikely(k < n))
		sq_done_each(e, c, n - k, 0);
}

void
vb_rc_sq_done(struct vb_ep *e, struct vb_conn *c, uint32_t last, int status)
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

	if (nr != c->head && !e->dev->rules.sent_only)
		vb_rc_sq_done(e, c, nr - 1, 0);
	vb_conn_failed(c, wc, false);
	vb_rc_sq_done(e, c, nr, status > 0 ? c->status : status);
}

static inline struct vb_conn *
conn_of(const struct vb_ep *e, uint64_t wr_id)
{
	uint16_t index = WR_INDEX(wr_id);
	struct vb_conn *c = likely(index < e->nb_peers) ? e->conns[index] : NULL;

	/* The completion may belong to a queue pair that was destroyed. */
	return likely(c != NULL && c->tag == WR_TAG(wr_id)) ? c : NULL;
}

static inline void
send_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	struct vb_conn *c;

	if (unlikely(wc->wr_id == VB_LOOP_WR_ID)) {
		vb_loop_done(e, wc);
		return;
	}
	c = conn_of(e, wc->wr_id);
	if (unlikely(c == NULL)) {
		vb_credit_done(e, wc);
		return;
	}
	if (likely(wc->status == IBV_WC_SUCCESS))
		sq_done_well(e, c, (uint32_t)wc->wr_id);
	else
		send_failed(e, c, wc);
}

static int
poll_recv(struct vb_ep *e, int max)
{
	struct ibv_wc wc[VB_BURST];
	int n;

	if (e->rcqx != NULL)
		n = vb_cq_poll_ex(e->rcqx, max, wc);
	else
		n = ibv_poll_cq(e->rcq, max, wc);
	if (n > 0)
		vb_rx_done(e, wc, n);
	return n;
}

static int
poll_send_plain(struct vb_ep *e, int max)
{
	struct ibv_wc wc[VB_BURST];
	int i, n = ibv_poll_cq(e->scq, max, wc);

	for (i = 0; i < n; i++)
		send_done(e, &wc[i]);
	return n;
}

#ifdef VB_HAVE_CQ_EX
/*
 * Poll the sends. A failed send is handled after ibv_end_poll(), because handling it calls the
 * library.
 */
static int
poll_send_ex(struct vb_ep *e, int max)
{
	struct ibv_cq_ex *ex = e->scqx;
	struct ibv_poll_cq_attr attr = { 0 };
	bool failed = false;
	struct vb_conn *c;
	struct ibv_wc wc;
	int n = 0;

	if (ibv_start_poll(ex, &attr) != 0)
		return 0;
	do {
		n++;
		if (unlikely(ex->status != IBV_WC_SUCCESS || ex->wr_id == VB_LOOP_WR_ID)) {
			vb_cq_read(ex, &wc);
			failed = true;
			break;
		}
		c = conn_of(e, ex->wr_id);
		if (likely(c != NULL))
			sq_done_well(e, c, (uint32_t)ex->wr_id);
	} while (n < max && ibv_next_poll(ex) == 0);
	ibv_end_poll(ex);
	if (unlikely(failed))
		send_done(e, &wc);
	return n;
}
#endif

static inline int
poll_send(struct vb_ep *e, int max)
{
#ifdef VB_HAVE_CQ_EX
	if (e->scqx != NULL)
		return poll_send_ex(e, max);
#endif
	return poll_send_plain(e, max);
}

void
vb_rc_poll(struct leat_ep *ep)
{
	struct vb_ep *e = vb_of(ep);
	int max = leat_ep_room(ep);

	if (max > VB_BURST)
		max = VB_BURST;
	else if (unlikely(max == 0))
		max = VB_DRIVE_BUDGET;

	if (e->rx_posted > 0)
		(void)poll_recv(e, max);
	if (ep->tx_room != e->tx_depth || unlikely(e->loop.inflight + e->grants > 0))
		(void)poll_send(e, max);
	if (unlikely(e->drain))
		vb_rx_step(e);
}

void
vb_rc_cq_empty(struct vb_ep *e)
{
	if (e->dead)
		return;
	/* The loop is bounded: no requests are posted meanwhile. */
	while (poll_recv(e, VB_BURST) > 0)
		;
	while (poll_send(e, VB_BURST) > 0)
		;
}
