/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post. What a burst has for one peer goes out as one list of requests, with one doorbell:
 *
 *     ops  A1 A2 B1 A3      A1 A2 | B1 | A3
 *
 * The last request of a list is signaled, and every signal-th: its completion stands for those
 * before it. So nothing waits for a signal that never comes, and a list of n costs about n / signal
 * completions, at least one.
 *
 * There is always room in the send queue: it has as many places as the endpoint has sends in flight.
 */

#include <endian.h>
#include <string.h>

#include <rte_prefetch.h>

#include "verbs_pvt.h"

struct tx_batch {
	struct vb_conn *c;
	uint32_t n;
	struct leat_op *ops[VB_BURST];
	uint32_t lkey[VB_BURST];
};

/* Small ones go with the request. READ and atomics write to their buffer. */
static inline bool
goes_inline(const struct vb_ep *e, const struct leat_op *op)
{
	return op->size <= e->inline_max && op->type < LEAT_OP_READ;
}

static inline uint64_t
wr_id(const struct vb_conn *c, uint32_t nr)
{
	return (uint64_t)c->index << 32 | nr;
}

static inline bool
signaled(const struct vb_ep *e, struct vb_conn *c, bool last)
{
	if (++c->unsignaled < e->signal && !last)
		return false;
	c->unsignaled = 0;
	return true;
}

#ifdef VB_HAVE_WR_API
static inline void
build_wr(struct ibv_qp_ex *x, const struct vb_ep *e, const struct leat_op *op, uint32_t lkey)
{
	uint32_t rkey = (uint32_t)op->rkey;

	switch (op->type) {
	case LEAT_OP_SEND:
		if (likely((op->flags & LEAT_OP_F_IMM) == 0))
			ibv_wr_send(x);
		else
			ibv_wr_send_imm(x, htobe32((uint32_t)op->imm));
		break;
	case LEAT_OP_WRITE:
		ibv_wr_rdma_write(x, rkey, op->raddr);
		break;
	case LEAT_OP_WRITE_IMM:
		ibv_wr_rdma_write_imm(x, rkey, op->raddr, htobe32((uint32_t)op->imm));
		break;
	case LEAT_OP_READ:
		ibv_wr_rdma_read(x, rkey, op->raddr);
		break;
	case LEAT_OP_FETCH_ADD:
		ibv_wr_atomic_fetch_add(x, rkey, op->raddr, op->operand);
		break;
	default:
		ibv_wr_atomic_cmp_swp(x, rkey, op->raddr, op->compare, op->operand);
		break;
	}
	if (op->size == 0)
		ibv_wr_set_sge_list(x, 0, NULL);
	else if (goes_inline(e, op))
		ibv_wr_set_inline_data(x, op->buf, op->size);
	else
		ibv_wr_set_sge(x, lkey, (uintptr_t)op->buf, (uint32_t)op->size);
}

static int
send_wr(struct vb_ep *e, struct vb_conn *c, const struct tx_batch *b)
{
	struct ibv_qp_ex *x = c->qpx;
	uint32_t i;

	ibv_wr_start(x);
	for (i = 0; i < b->n; i++) {
		x->wr_id = wr_id(c, c->tail + i);
		x->wr_flags = signaled(e, c, i + 1 == b->n) ? IBV_SEND_SIGNALED : 0;
		if (goes_inline(e, b->ops[i]))
			x->wr_flags |= IBV_SEND_INLINE; /* rxe wants to be told */
		build_wr(x, e, b->ops[i], b->lkey[i]);
	}
	return ibv_wr_complete(x);
}
#endif

static inline void
build_list(struct ibv_send_wr *wr, const struct leat_op *op)
{
	switch (op->type) {
	case LEAT_OP_SEND:
		wr->opcode = IBV_WR_SEND;
		if (unlikely((op->flags & LEAT_OP_F_IMM) != 0)) {
			wr->opcode = IBV_WR_SEND_WITH_IMM;
			wr->imm_data = htobe32((uint32_t)op->imm);
		}
		break;
	case LEAT_OP_WRITE_IMM:
		wr->imm_data = htobe32((uint32_t)op->imm);
		/* fall through */
	case LEAT_OP_WRITE:
	case LEAT_OP_READ:
		wr->opcode = op->type == LEAT_OP_WRITE	? IBV_WR_RDMA_WRITE
			     : op->type == LEAT_OP_READ ? IBV_WR_RDMA_READ
							: IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->wr.rdma.remote_addr = op->raddr;
		wr->wr.rdma.rkey = (uint32_t)op->rkey;
		break;
	default:
		wr->wr.atomic.remote_addr = op->raddr;
		wr->wr.atomic.rkey = (uint32_t)op->rkey;
		if (op->type == LEAT_OP_FETCH_ADD) {
			wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			wr->wr.atomic.compare_add = op->operand;
		} else {
			wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
			wr->wr.atomic.compare_add = op->compare;
			wr->wr.atomic.swap = op->operand;
		}
		break;
	}
}

/* @return how many were taken */
static uint32_t
send_list(struct vb_ep *e, struct vb_conn *c, const struct tx_batch *b)
{
	struct ibv_send_wr wr[VB_BURST], *bad = NULL;
	struct ibv_sge sge[VB_BURST];
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		const struct leat_op *op = b->ops[i];

		sge[i] = (struct ibv_sge){ (uintptr_t)op->buf, (uint32_t)op->size, b->lkey[i] };
		wr[i].wr_id = wr_id(c, c->tail + i);
		wr[i].next = i + 1 < b->n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = op->size > 0;
		wr[i].send_flags = signaled(e, c, i + 1 == b->n) ? IBV_SEND_SIGNALED : 0;
		if (goes_inline(e, op))
			wr[i].send_flags |= IBV_SEND_INLINE;
		build_list(&wr[i], op);
	}
	if (likely(ibv_post_send(c->qp, wr, &bad) == 0))
		return b->n;
	return bad == NULL ? 0 : (uint32_t)(bad - wr);
}

/*
 * The device did not take requests that it has room for: it, or the queue pair, is gone. Without
 * their last one, those before might not be signaled: all come back when the connection has ended.
 */
static void __attribute__((noinline, cold))
refused(struct vb_ep *e, struct tx_batch *b, uint32_t taken)
{
	struct vb_conn *c = b->c;
	uint32_t i;

	c->tail -= b->n - taken;
	for (i = taken; i < b->n; i++)
		leat_op_finish(e->ep, b->ops[i], -EIO, 0);
	vb_conn_end(c, -EIO, "the device refused a send request");
}

static void
tx_flush(struct vb_ep *e, struct tx_batch *b)
{
	struct vb_conn *c = b->c;
	uint32_t taken, i;

	for (i = 0; i < b->n; i++)
		c->sq[(c->tail + i) & c->mask] = b->ops[i];
#ifdef VB_HAVE_WR_API
	if (likely(c->qpx != NULL))
		taken = likely(send_wr(e, c, b) == 0) ? b->n : 0;
	else
#endif
		taken = send_list(e, c, b);
	c->tail += b->n;
	if (unlikely(taken < b->n))
		refused(e, b, taken);
	b->n = 0;
}

/* @return 0, or the status with which it is done at once */
static inline int
tx_add(struct vb_ep *e, struct tx_batch *b, struct leat_op *op)
{
	struct vb_conn *c = e->conns[op->peer];
	const struct leat_mr_piece *p;
	uint32_t lkey = 0;

	if (op->size > 0 && !goes_inline(e, op)) {
		p = leat_mr_find(op->mr, op->buf, op->size);
		if (unlikely(p == NULL))
			return -EINVAL;
		lkey = vb_lkey(p);
	}
	if (op->type >= LEAT_OP_WRITE) {
		if (unlikely(op->rkey > UINT32_MAX))
			return -EACCES;
		if (unlikely(op->type >= LEAT_OP_READ && !c->reads))
			return -EOPNOTSUPP;
	}
	if (b->n > 0 && (b->c != c || b->n == VB_BURST))
		tx_flush(e, b);
	b->c = c;
	b->ops[b->n] = op;
	b->lkey[b->n++] = lkey;
	leat_op_start(e->ep, op);
	return 0;
}

uint16_t
vb_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct vb_ep *e = vb_of(ep);
	struct vb_rx_batch rx;
	struct tx_batch tx;
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
		if (likely(status == 0)) {
			if (op->type == LEAT_OP_RECV) {
				vb_rx_add(e, &rx, op);
				continue;
			}
			status = tx_add(e, &tx, op);
		}
		if (unlikely(status < 0))
			leat_op_fail(ep, op, status);
	}
	if (tx.n > 0)
		tx_flush(e, &tx);
	if (rx.n > 0)
		vb_rx_flush(e, &rx);
	return leat_post_end(ep, i, n);
}
