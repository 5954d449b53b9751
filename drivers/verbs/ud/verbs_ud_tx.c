/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post datagrams. All go through the same queue pair, regardless of their peers. So the sends of a
 * burst are one list with one doorbell. Every N-th request (argument signal=N) and the last one are
 * signaled.
 *
 * The device completes a send when it has sent the datagram, without waiting for the peer.
 */

#include <endian.h>
#include <errno.h>

#include <rte_prefetch.h>

#include "verbs_ud.h"

struct ud_tx_batch {
	uint32_t n;
	struct leat_op *ops[VB_BURST];
	uint32_t lkey[VB_BURST];
};

static inline bool
goes_inline(const struct vb_ud *u, const struct leat_op *op)
{
	return op->size <= u->e.inline_max;
}

static inline bool
signaled(struct vb_ud *u, bool last)
{
	if (++u->unsignaled < u->e.signal && !last)
		return false;
	u->unsignaled = 0;
	return true;
}

#ifdef VB_HAVE_WR_API
static uint32_t
send_wr(struct vb_ud *u, const struct ud_tx_batch *b)
{
	struct ibv_qp_ex *x = u->qpx;
	uint32_t i;

	ibv_wr_start(x);
	for (i = 0; i < b->n; i++) {
		const struct leat_op *op = b->ops[i];
		const struct vb_dest *to = &u->dest[op->peer];

		x->wr_id = u->sq_tail + i;
		x->wr_flags = signaled(u, i + 1 == b->n) ? IBV_SEND_SIGNALED : 0;
		if (goes_inline(u, op))
			x->wr_flags |= IBV_SEND_INLINE; /* rxe needs the flag with ibv_wr_* */
		if (likely((op->flags & LEAT_OP_F_IMM) == 0))
			ibv_wr_send(x);
		else
			ibv_wr_send_imm(x, htobe32((uint32_t)op->imm));
		ibv_wr_set_ud_addr(x, to->ah, to->qpn, to->qkey);
		if (op->size == 0)
			ibv_wr_set_sge_list(x, 0, NULL);
		else if (goes_inline(u, op))
			ibv_wr_set_inline_data(x, op->buf, op->size);
		else
			ibv_wr_set_sge(x, b->lkey[i], (uintptr_t)op->buf, (uint32_t)op->size);
	}
	return ibv_wr_complete(x) == 0 ? b->n : 0;
}
#endif

/* Post the batch. @return number of sends that the device accepted */
static uint32_t
send_list(struct vb_ud *u, const struct ud_tx_batch *b)
{
	struct ibv_send_wr wr[VB_BURST], *bad = NULL;
	struct ibv_sge sge[VB_BURST];
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		const struct leat_op *op = b->ops[i];
		const struct vb_dest *to = &u->dest[op->peer];

		sge[i] = (struct ibv_sge){ (uintptr_t)op->buf, (uint32_t)op->size, b->lkey[i] };
		wr[i].wr_id = u->sq_tail + i;
		wr[i].next = i + 1 < b->n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = op->size > 0;
		wr[i].send_flags = signaled(u, i + 1 == b->n) ? IBV_SEND_SIGNALED : 0;
		if (goes_inline(u, op))
			wr[i].send_flags |= IBV_SEND_INLINE;
		wr[i].opcode = IBV_WR_SEND;
		if (unlikely((op->flags & LEAT_OP_F_IMM) != 0)) {
			wr[i].opcode = IBV_WR_SEND_WITH_IMM;
			wr[i].imm_data = htobe32((uint32_t)op->imm);
		}
		wr[i].wr.ud.ah = to->ah;
		wr[i].wr.ud.remote_qpn = to->qpn;
		wr[i].wr.ud.remote_qkey = to->qkey;
	}
	if (likely(ibv_post_send(u->qp, wr, &bad) == 0))
		return b->n;
	return bad == NULL ? 0 : (uint32_t)(bad - wr);
}

/*
 * Finish the sends that the device refused although it has room: the queue pair failed and has to
 * be reset.
 */
static void __attribute__((noinline, cold))
refused(struct vb_ud *u, const struct ud_tx_batch *b, uint32_t taken)
{
	u->recall = true;
	for (; taken < b->n; taken++)
		leat_op_finish(u->e.ep, b->ops[taken], -EIO, 0);
}

static void
tx_flush(struct vb_ud *u, struct ud_tx_batch *b)
{
	uint32_t taken, i;

	for (i = 0; i < b->n; i++)
		u->sq[(u->sq_tail + i) & u->sq_mask] = b->ops[i];
#ifdef VB_HAVE_WR_API
	if (likely(u->qpx != NULL))
		taken = send_wr(u, b);
	else
#endif
		taken = send_list(u, b);
	u->sq_tail += taken;
	if (unlikely(taken < b->n))
		refused(u, b, taken);
	b->n = 0;
}

/* Find the local key of an op. @return 0, or the status with which the op must fail */
static inline int
local_key(const struct vb_ud *u, const struct leat_op *op, uint32_t *lkey)
{
	const struct leat_mr_piece *p;

	*lkey = 0;
	if (op->size == 0 || (op->type == LEAT_OP_SEND && goes_inline(u, op)))
		return 0;
	p = leat_mr_find(op->mr, op->buf, op->size);
	if (unlikely(p == NULL))
		return -EINVAL;
	*lkey = vb_lkey(p);
	return 0;
}

uint16_t
vb_ud_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct vb_ud *u = vb_ud_of(vb_of(ep));
	struct vb_ud_rx_batch rx;
	struct ud_tx_batch tx;
	uint32_t lkey = 0;
	uint16_t i;
	int status;

	rx.n = 0;
	tx.n = 0;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if (i + 1 < n)
			rte_prefetch0(ops[i + 1]);
		if (unlikely(!leat_op_admit(ep, op)))
			break;
		status = leat_op_check(ep, op);
		if (likely(status == 0))
			status = likely(u->qp != NULL) ? local_key(u, op, &lkey) : -EIO;
		if (unlikely(status < 0)) {
			leat_op_fail(ep, op, status);
			continue;
		}
		if (op->type == LEAT_OP_RECV) {
			leat_op_start(ep, op);
			vb_ud_rx_add(u, &rx, op, lkey);
			continue;
		}
		/*
		 * New sends wait until receives have been taken back. Taking them back waits only
		 * for sends that are in flight: see verbs_ud.c.
		 */
		if (unlikely(u->recall)) {
			rte_errno = EAGAIN;
			break;
		}
		if (tx.n == VB_BURST)
			tx_flush(u, &tx);
		leat_op_start(ep, op);
		tx.ops[tx.n] = op;
		tx.lkey[tx.n++] = lkey;
	}
	if (tx.n > 0)
		tx_flush(u, &tx);
	if (rx.n > 0)
		vb_ud_rx_flush(u, &rx);
	return leat_ep_post_end(ep, i, n);
}
