/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receives. Each has a slot, whose number is its wr_id in the shared receive queue (SRQ).
 *
 * Taking receives back. Verbs can't recall a receive that is in an SRQ: only a message takes it
 * out. So the endpoint sends itself messages, over a connection of its own (the loop,
 * verbs_rc_loop.c), until the receives to be taken back have come out:
 *
 *     SRQ  A X B C       cancel X          (A is the oldest)
 *     loop takes A       not cancelled: waits outside    sw_queue  A
 *     loop takes X       done, -ECANCELED
 *     loop takes B, C                                    sw_queue  A B C
 *     SRQ empty: A B C go in again, in their old order
 *
 * Messages of peers may come in between. Each belongs to the oldest receive, but the device does
 * not know the receives that wait outside. Suppose in the picture above a message arrives in B: the
 * driver copies it to A, and B waits outside in A's place. That is the only copy with an SRQ, and
 * it is made only while receives are being taken back.
 *
 * A receive may be in use for a long message when the loop finds the SRQ empty. Receives that were
 * posted after this receive go into the SRQ again at once (vb_rx_refill()); older ones wait until
 * this receive completes.
 */

#include <endian.h>
#include <string.h>

#include <rte_prefetch.h>

#include "verbs_rc.h"

/* Maximum number of loop messages in flight that have not taken a receive yet. */
#define TAKE 8

static inline void
slot_put(struct vb_ep *e, uint32_t s)
{
	e->slots[s].op = NULL;
	e->free[e->nb_free++] = s;
}

/* ---- receives that wait outside of the SRQ, by seq ---- */

static inline uint32_t *
sw_at(struct vb_ep *e, uint32_t i)
{
	return &e->sw_queue[(e->sw_head + i) & e->sw_mask];
}

static void
sw_insert(struct vb_ep *e, uint32_t s)
{
	uint32_t i = e->nb_sw++;

	e->slots[s].srq_posted = false;
	/* Usually the slot goes to the end. */
	for (; i > 0 && e->slots[*sw_at(e, i - 1)].seq > e->slots[s].seq; i--)
		*sw_at(e, i) = *sw_at(e, i - 1);
	*sw_at(e, i) = s;
}

static uint32_t
sw_pop(struct vb_ep *e)
{
	uint32_t s = *sw_at(e, 0);

	e->sw_head++;
	e->nb_sw--;
	return s;
}

static void
sw_remove(struct vb_ep *e, uint32_t s)
{
	uint32_t i;

	for (i = 0; i < e->nb_sw && *sw_at(e, i) != s; i++)
		;
	if (i == e->nb_sw)
		return;
	for (; i + 1 < e->nb_sw; i++)
		*sw_at(e, i) = *sw_at(e, i + 1);
	e->nb_sw--;
}

/* ---- posting to the SRQ ---- */

struct rx_batch {
	uint32_t n;
	struct ibv_recv_wr wr[VB_BURST];
	struct ibv_sge sge[VB_BURST];
};

static inline void
build(struct vb_ep *e, struct rx_batch *b, uint32_t s, const struct leat_op *op, uint32_t lkey)
{
	struct ibv_recv_wr *wr = &b->wr[b->n];
	struct ibv_sge *sge = &b->sge[b->n];

	sge->addr = (uintptr_t)op->buf;
	sge->length = (uint32_t)RTE_MIN(op->size, e->ep->max_msg);
	sge->lkey = lkey;
	wr->wr_id = s;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = op->size > 0;
	if (b->n > 0)
		b->wr[b->n - 1].next = wr;
	b->n++;
	e->slots[s].srq_posted = true;
	e->srq_seq = e->slots[s].seq + 1;
	e->rx_posted++;
}

static void
flush(struct vb_ep *e, struct rx_batch *b)
{
	struct ibv_recv_wr *wr, *bad = NULL;

	e->posts++;
	if (unlikely(ibv_post_srq_recv(e->srq, b->wr, &bad) != 0)) {
		/* The SRQ had room for these receives: a refusal means that the device failed. */
		for (wr = bad == NULL ? b->wr : bad; wr != NULL; wr = wr->next) {
			struct leat_op *op = e->slots[wr->wr_id].op;

			if (e->slots[wr->wr_id].cancel)
				e->nb_cancel--;
			slot_put(e, (uint32_t)wr->wr_id);
			e->rx_posted--;
			leat_op_finish(e->ep, op, -EIO, 0);
		}
	}
	b->n = 0;
}

/*
 * Find the local key of an op's buffer; 0 for op->size 0. @return false: the op's region does not
 * contain the buffer
 */
static inline bool
local_key(const struct leat_op *op, uint32_t *lkey)
{
	const struct leat_mr_piece *p;

	*lkey = 0;
	if (op->size == 0)
		return true;
	p = leat_mr_find(op->mr, op->buf, op->size);
	if (unlikely(p == NULL))
		return false;
	*lkey = vb_lkey(p);
	return true;
}

/* Accept a valid receive. @return false: the op's region does not contain its buffer */
static inline bool
add(struct vb_ep *e, struct rx_batch *b, struct leat_op *op)
{
	struct vb_slot *slot;
	uint32_t s, lkey;

	if (unlikely(!local_key(op, &lkey)))
		return false;
	s = e->free[--e->nb_free];
	slot = &e->slots[s];
	slot->op = op;
	slot->seq = e->seq++;
	slot->cancel = false;
	leat_op_start_as(e->ep, op, true);
	if (unlikely(e->rxqs != NULL)) {
		sw_insert(e, s);
		vb_rxq_match(e);
	} else if (unlikely(e->drain)) {
		sw_insert(e, s);
	} else {
		build(e, b, s, op, lkey);
	}
	return true;
}

uint32_t
vb_rx_post(struct vb_ep *e, struct leat_op **ops, uint32_t n)
{
	struct leat_ep *ep = e->ep;
	struct rx_batch b;
	uint32_t i;

	b.n = 0;
	if (n > VB_BURST)
		n = VB_BURST;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if (i + 1 < n)
			rte_prefetch0(ops[i + 1]);
		if (unlikely(op->type != LEAT_OP_RECV || op->state != LEAT_OP_IDLE ||
			     ep->rx_room == 0 || leat_op_check_as(ep, op, true) < 0 ||
			     !add(e, &b, op)))
			break;
	}
	if (b.n > 0)
		flush(e, &b);
	return i;
}

/* Post the receives of the software queue whose seq is at least `first`. */
static void
sw_post(struct vb_ep *e, uint64_t first)
{
	uint32_t i, n = 0, all = e->nb_sw, lkey;
	struct rx_batch b;

	b.n = 0;
	for (i = 0; i < all; i++) {
		uint32_t s = *sw_at(e, i);

		if (e->slots[s].seq < first) {
			n++; /* older slots stay in the queue */
			continue;
		}
		if (b.n == VB_BURST)
			flush(e, &b);
		/* The op's buffer was valid when the op was posted. */
		(void)local_key(e->slots[s].op, &lkey);
		build(e, &b, s, e->slots[s].op, lkey);
	}
	e->nb_sw = n;
	if (b.n > 0)
		flush(e, &b);
}

/*
 * Recover receives that a queue pair took out of the SRQ and that were not completed before the
 * queue pair was destroyed. Call this when the SRQ is empty and no queue pair exists.
 */
static void
find_lost(struct vb_ep *e)
{
	uint32_t i;

	for (i = 0; i < e->rx_depth; i++) {
		struct vb_slot *slot = &e->slots[i];
		struct leat_op *op = slot->op;

		if (op == NULL || !slot->srq_posted)
			continue;
		e->rx_posted--;
		if (!slot->cancel) {
			sw_insert(e, i);
			continue;
		}
		e->nb_cancel--;
		slot_put(e, i);
		leat_op_finish(e->ep, op, -ECANCELED, 0);
	}
}

void
vb_rx_refill(struct vb_ep *e)
{
	uint64_t first = 0;
	uint32_t i;

	if (e->nb_qps == 0)
		find_lost(e);
	for (i = 0; i < e->rx_depth; i++) {
		const struct vb_slot *slot = &e->slots[i];

		if (slot->op != NULL && slot->srq_posted && slot->seq >= first)
			first = slot->seq + 1;
	}
	sw_post(e, first);
}

void
vb_rx_step(struct vb_ep *e)
{
	uint32_t want;

	if (!e->drain || e->dead)
		return;
	if (e->nb_cancel == 0 &&
	    (e->nb_sw == 0 || e->rx_posted == 0 || e->slots[*sw_at(e, 0)].seq >= e->srq_seq)) {
		sw_post(e, 0);
		e->drain = false;
		return;
	}
	if (e->loop.state != VB_LOOP_READY)
		return;
	want = RTE_MIN(e->rx_posted, (uint32_t)TAKE);
	if (want > e->loop.untaken)
		vb_loop_send(e, want - e->loop.untaken);
}

/* ---- completions ---- */

static inline uint16_t
peer_of(struct vb_ep *e, uint32_t qpn)
{
	if (likely(qpn == e->last_qpn))
		return e->last_peer;
	e->last_peer = vb_qpn_find(e, qpn);
	e->last_qpn = qpn;
	return e->last_peer;
}

/* Handle a receive that the loop took out of the SRQ. */
static void
taken_back(struct vb_ep *e, uint32_t s)
{
	struct vb_slot *slot = &e->slots[s];
	struct leat_op *op = slot->op;

	e->drain = true;
	e->loop.untaken--;
	if (!slot->cancel) {
		sw_insert(e, s);
		return;
	}
	e->nb_cancel--;
	slot_put(e, s);
	leat_op_finish(e->ep, op, -ECANCELED, 0);
}

/*
 * Copy a message that arrived at src to the older receive to which it belongs. @return that
 * receive's status
 */
static int
move_message(struct leat_op *to, const void *src, const struct ibv_wc *wc)
{
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return 0;
	if (wc->byte_len > to->size)
		return -EMSGSIZE;
	if (wc->byte_len > 0)
		memcpy(to->buf, src, wc->byte_len);
	return 0;
}

static inline void
finish(struct vb_ep *e, struct leat_op *op, const struct ibv_wc *wc, int status)
{
	op->src = peer_of(e, wc->qp_num);
	if (unlikely((wc->wc_flags & IBV_WC_WITH_IMM) != 0)) {
		op->oflags |= LEAT_OP_F_IMM;
		op->imm = be32toh(wc->imm_data);
		if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			op->oflags |= LEAT_OP_F_WRITTEN;
	}
	leat_op_finish_as(e->ep, op, status, wc->byte_len, true);
}

void
vb_rx_give(struct vb_ep *e, const struct ibv_wc *wc, const void *data)
{
	uint32_t s = sw_pop(e);
	struct leat_op *op = e->slots[s].op;
	int status = move_message(op, data, wc);

	slot_put(e, s);
	finish(e, op, wc, status);
}

static void __attribute__((noinline, cold))
done_while_draining(struct vb_ep *e, uint32_t s, const struct ibv_wc *wc)
{
	struct vb_slot *slot = &e->slots[s];
	struct leat_op *op = slot->op, *to;
	uint32_t first;
	int status;

	if (e->nb_sw == 0 || e->slots[*sw_at(e, 0)].seq > slot->seq) {
		if (slot->cancel)
			e->nb_cancel--;
		slot_put(e, s);
		finish(e, op, wc, 0);
		return;
	}
	first = sw_pop(e);
	to = e->slots[first].op;
	status = move_message(to, op->buf, wc);
	slot_put(e, first);
	if (slot->cancel) {
		e->nb_cancel--;
		slot_put(e, s);
	} else {
		sw_insert(e, s);
	}
	finish(e, to, wc, status);
	if (slot->op == NULL)
		leat_op_finish(e->ep, op, -ECANCELED, 0);
}

static void __attribute__((noinline, cold))
recv_failed(struct vb_ep *e, uint32_t s, const struct ibv_wc *wc)
{
	struct leat_op *op = e->slots[s].op;
	uint16_t peer = peer_of(e, wc->qp_num);
	struct vb_conn *c = peer < e->nb_peers ? e->conns[peer] : NULL;
	int status = vb_wc_op_status(wc->status, true);

	/*
	 * With rxe this status means that a message was too long. Its other cause, a buffer outside
	 * of its region, can't occur: buffers are checked when they are posted.
	 */
	if (wc->status == IBV_WC_LOC_QP_OP_ERR && e->dev->rxe)
		status = -EMSGSIZE;
	if (e->slots[s].cancel)
		e->nb_cancel--;
	slot_put(e, s);
	if (c != NULL)
		vb_conn_failed(c, wc, true);
	op->src = peer;
	leat_op_finish(e->ep, op, status > 0 ? -ECONNRESET : status, 0);
}

static inline void
done(struct vb_ep *e, const struct ibv_wc *wc)
{
	uint32_t s = (uint32_t)wc->wr_id;
	struct vb_slot *slot;
	struct leat_op *op;

	if (unlikely(s >= e->rx_depth || e->slots[s].op == NULL))
		return; /* wr_id is not the number of a slot in use */
	slot = &e->slots[s];
	e->rx_posted--;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		recv_failed(e, s, wc);
		return;
	}
	if (unlikely(e->loop.rx != NULL && wc->qp_num == e->loop.rx_qpn)) {
		taken_back(e, s);
		return;
	}
	if (unlikely(e->drain)) {
		done_while_draining(e, s, wc);
		return;
	}
	op = slot->op;
	slot_put(e, s);
	finish(e, op, wc, 0);
}

void
vb_rx_done(struct vb_ep *e, const struct ibv_wc *wc, int n)
{
	int i;

	if (unlikely(e->rxqs != NULL)) {
		for (i = 0; i < n; i++)
			vb_rxq_done(e, &wc[i]);
		return;
	}
	for (i = 0; i < n; i++)
		done(e, &wc[i]);
}

/* ---- cancel ---- */

static uint32_t
slot_of(const struct vb_ep *e, const struct leat_op *op)
{
	uint32_t i;

	for (i = 0; i < e->rx_depth && e->slots[i].op != op; i++)
		;
	return i;
}

/* Finish a receive that was already removed from sw_queue. */
static void
canceled(struct vb_ep *e, uint32_t s)
{
	struct leat_op *op = e->slots[s].op;

	slot_put(e, s);
	leat_op_finish(e->ep, op, -ECANCELED, 0);
}

/* Begin to take a receive back from the SRQ. */
static int
recall(struct vb_ep *e, uint32_t s)
{
	if (vb_loop_open(e) < 0)
		return -EOPNOTSUPP;
	e->slots[s].cancel = true;
	e->nb_cancel++;
	e->drain = true;
	vb_rx_step(e);
	return 0;
}

int
vb_rx_cancel(struct vb_ep *e, struct leat_op *op)
{
	uint32_t s;

	if (!leat_op_is_recv(op))
		return -EOPNOTSUPP; /* a request in a send queue can't be recalled */
	s = slot_of(e, op);
	if (s == e->rx_depth)
		return -EOPNOTSUPP;
	if (e->slots[s].srq_posted)
		return recall(e, s);
	sw_remove(e, s);
	canceled(e, s);
	return 0;
}

void
vb_rx_cancel_all(struct vb_ep *e)
{
	uint32_t i;

	while (e->nb_sw > 0)
		canceled(e, sw_pop(e));
	for (i = 0; i < e->rx_depth; i++) {
		if (e->slots[i].op != NULL && !e->slots[i].cancel)
			/* if it fails (-EOPNOTSUPP), vb_rx_drop() finishes the receive */
			(void)recall(e, i);
	}
}

void
vb_rx_drop(struct vb_ep *e, int status)
{
	uint32_t i;

	e->nb_sw = e->nb_cancel = e->rx_posted = 0;
	e->drain = false;
	for (i = 0; i < e->rx_depth; i++) {
		struct leat_op *op = e->slots[i].op;
		bool cancel = e->slots[i].cancel;

		if (op == NULL)
			continue;
		slot_put(e, i);
		leat_op_finish(e->ep, op, cancel ? -ECANCELED : status, 0);
	}
}
