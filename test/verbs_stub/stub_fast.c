/* SPDX-License-Identifier: BSD-3-Clause */

/* Post and poll. Every function that benchmarks count separately has a name stub_*. */

#include <errno.h>
#include <stddef.h>

#include "stub_pvt.h"

static inline void
stub_push(struct stub_cq *cq, uint64_t wr_id, uint32_t opcode, uint32_t status, uint32_t qp_num)
{
	struct stub_cqe *e = &cq->ring[cq->tail & cq->mask];

	if (__builtin_expect(cq->tail - cq->head == cq->size, 0)) {
		sim.overruns++;
		return;
	}
	e->wr_id = wr_id;
	e->status = status;
	e->opcode = opcode;
	e->qp_num = qp_num;
	e->byte_len = 8;
	e->flags = e->imm = 0;
	cq->tail++;
}

/* ---- sends ---- */

static inline void
stub_take(struct stub_qp *q, uint64_t wr_id, uint32_t opcode, uint32_t flags)
{
	if (__builtin_expect(q->error, 0)) {
		stub_push(q->scq, wr_id, opcode, IBV_WC_WR_FLUSH_ERR, q->ex.qp_base.qp_num);
	} else if (__builtin_expect(sim.hold, 0)) {
		q->waiting[q->tail++ & q->mask] = (struct stub_wr){ wr_id, opcode, flags };
	} else if ((flags & IBV_SEND_SIGNALED) != 0) {
		stub_push(q->scq, wr_id, opcode, IBV_WC_SUCCESS, q->ex.qp_base.qp_num);
	}
}

static inline bool
stub_room(struct stub_qp *q)
{
	if (__builtin_expect(sim.room == 0 || q->tail - q->head == q->depth, 0))
		return false;
	sim.room--;
	sim.sends++;
	return true;
}

static int
stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	static const uint8_t opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	};
	struct stub_qp *q = stub_qp_of(qp);

	for (; wr != NULL; wr = wr->next) {
		if (!stub_room(q)) {
			*bad = wr;
			return ENOMEM;
		}
		if ((wr->send_flags & IBV_SEND_INLINE) != 0)
			sim.inlined++;
		stub_take(q, wr->wr_id, opcodes[wr->opcode], wr->send_flags);
	}
	sim.doorbells++;
	return 0;
}

static inline void
stub_wr(struct ibv_qp_ex *x, uint32_t opcode)
{
	struct stub_qp *q = (struct stub_qp *)x;

	q->list[q->nb_list++ % STUB_LIST_MAX] = (struct stub_wr){ x->wr_id, opcode, x->wr_flags };
}

static void
stub_wr_start(struct ibv_qp_ex *x)
{
	((struct stub_qp *)x)->nb_list = 0;
}

static int
stub_wr_complete(struct ibv_qp_ex *x)
{
	struct stub_qp *q = (struct stub_qp *)x;
	uint32_t i, n = q->nb_list;

	/* Accept the whole list or nothing. */
	if (n > STUB_LIST_MAX || n > sim.room || n > q->depth - (q->tail - q->head))
		return ENOMEM;
	for (i = 0; i < n; i++) {
		const struct stub_wr *wr = &q->list[i];

		(void)stub_room(q); /* there is room, as checked above */
		stub_take(q, wr->wr_id, wr->opcode, wr->flags);
	}
	sim.doorbells++;
	return 0;
}

static void
stub_wr_abort(struct ibv_qp_ex *x)
{
	((struct stub_qp *)x)->nb_list = 0;
}

static void
stub_wr_send(struct ibv_qp_ex *x)
{
	stub_wr(x, IBV_WC_SEND);
}

static void
stub_wr_send_imm(struct ibv_qp_ex *x, __be32 imm)
{
	(void)imm;
	stub_wr(x, IBV_WC_SEND);
}

static void
stub_wr_write(struct ibv_qp_ex *x, uint32_t rkey, uint64_t raddr)
{
	(void)rkey;
	(void)raddr;
	stub_wr(x, IBV_WC_RDMA_WRITE);
}

static void
stub_wr_write_imm(struct ibv_qp_ex *x, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	(void)rkey;
	(void)raddr;
	(void)imm;
	stub_wr(x, IBV_WC_RDMA_WRITE);
}

static void
stub_wr_read(struct ibv_qp_ex *x, uint32_t rkey, uint64_t raddr)
{
	(void)rkey;
	(void)raddr;
	stub_wr(x, IBV_WC_RDMA_READ);
}

static void
stub_wr_fetch_add(struct ibv_qp_ex *x, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	(void)rkey;
	(void)raddr;
	(void)add;
	stub_wr(x, IBV_WC_FETCH_ADD);
}

static void
stub_wr_cmp_swp(struct ibv_qp_ex *x, uint32_t rkey, uint64_t raddr, uint64_t compare, uint64_t swap)
{
	(void)rkey;
	(void)raddr;
	(void)compare;
	(void)swap;
	stub_wr(x, IBV_WC_COMP_SWAP);
}

static void
stub_wr_set_sge(struct ibv_qp_ex *x, uint32_t lkey, uint64_t addr, uint32_t len)
{
	(void)x;
	(void)lkey;
	(void)addr;
	(void)len;
}

static void
stub_wr_set_sge_list(struct ibv_qp_ex *x, size_t n, const struct ibv_sge *list)
{
	(void)x;
	(void)n;
	(void)list;
}

static void
stub_wr_set_inline_data(struct ibv_qp_ex *x, void *addr, size_t len)
{
	(void)x;
	(void)addr;
	(void)len;
	sim.inlined++;
}

/* ---- receives ---- */

static inline int
stub_recv_list(struct stub_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr != NULL; wr = wr->next) {
		if (__builtin_expect(rq->tail - rq->head == rq->size || sim.rroom == 0, 0)) {
			if (!sim.no_bad)
				*bad = wr;
			return ENOMEM;
		}
		rq->ring[rq->tail++ & rq->mask] = wr->wr_id;
		sim.rroom--;
		sim.recvs++;
	}
	sim.rdoorbells++;
	return 0;
}

static int
stub_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return stub_recv_list(&stub_srq_of(srq)->rq, wr, bad);
}

static int
stub_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return stub_recv_list(&stub_qp_of(qp)->rq, wr, bad);
}

/* ---- completions ---- */

static int
stub_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct stub_cq *cq = stub_cq_of(ibcq);
	int i;

	sim.polls++;
	for (i = 0; i < n && cq->head != cq->tail; i++, wc++) {
		const struct stub_cqe *e = &cq->ring[cq->head++ & cq->mask];

		wc->wr_id = e->wr_id;
		wc->status = (enum ibv_wc_status)e->status;
		wc->opcode = (enum ibv_wc_opcode)e->opcode;
		wc->vendor_err = 0;
		wc->byte_len = e->byte_len;
		wc->imm_data = e->imm;
		wc->qp_num = e->qp_num;
		wc->wc_flags = e->flags;
	}
	sim.polled += (uint64_t)i;
	return i;
}

static inline struct stub_cqe *
stub_current(struct ibv_cq_ex *ex)
{
	struct stub_cq *cq = (struct stub_cq *)ex;

	return &cq->ring[cq->head & cq->mask];
}

static inline int
stub_show(struct stub_cq *cq)
{
	const struct stub_cqe *e = &cq->ring[cq->head & cq->mask];

	if (cq->head == cq->tail)
		return ENOENT;
	cq->ex.wr_id = e->wr_id;
	cq->ex.status = (enum ibv_wc_status)e->status;
	return 0;
}

static int
stub_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	sim.polls++;
	return attr->comp_mask != 0 ? EINVAL : stub_show((struct stub_cq *)ex);
}

static int
stub_next_poll(struct ibv_cq_ex *ex)
{
	struct stub_cq *cq = (struct stub_cq *)ex;

	/* end_poll() consumes the last completion that was shown. */
	if (cq->head + 1 == cq->tail)
		return ENOENT;
	cq->head++;
	sim.polled++;
	return stub_show(cq);
}

static void
stub_end_poll(struct ibv_cq_ex *ex)
{
	((struct stub_cq *)ex)->head++;
	sim.polled++;
}

static enum ibv_wc_opcode
stub_read_opcode(struct ibv_cq_ex *ex)
{
	return (enum ibv_wc_opcode)stub_current(ex)->opcode;
}

static uint32_t
stub_read_vendor_err(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint32_t
stub_read_byte_len(struct ibv_cq_ex *ex)
{
	return stub_current(ex)->byte_len;
}

static __be32
stub_read_imm_data(struct ibv_cq_ex *ex)
{
	return stub_current(ex)->imm;
}

static uint32_t
stub_read_qp_num(struct ibv_cq_ex *ex)
{
	return stub_current(ex)->qp_num;
}

static unsigned int
stub_read_wc_flags(struct ibv_cq_ex *ex)
{
	return stub_current(ex)->flags;
}

/* ---- tables ---- */

void
stub_fast_ops(struct ibv_context_ops *ops)
{
	ops->post_send = stub_post_send;
	ops->post_recv = stub_post_recv;
	ops->post_srq_recv = stub_post_srq_recv;
	ops->poll_cq = stub_poll_cq;
}

void
stub_fast_cq(struct ibv_cq_ex *ex)
{
	ex->start_poll = stub_start_poll;
	ex->next_poll = stub_next_poll;
	ex->end_poll = stub_end_poll;
	ex->read_opcode = stub_read_opcode;
	ex->read_vendor_err = stub_read_vendor_err;
	ex->read_byte_len = stub_read_byte_len;
	ex->read_imm_data = stub_read_imm_data;
	ex->read_qp_num = stub_read_qp_num;
	ex->read_wc_flags = stub_read_wc_flags;
}

void
stub_fast_qp(struct stub_qp *q)
{
	struct ibv_qp_ex *x = &q->ex;

	x->wr_start = stub_wr_start;
	x->wr_complete = stub_wr_complete;
	x->wr_abort = stub_wr_abort;
	x->wr_send = stub_wr_send;
	x->wr_send_imm = stub_wr_send_imm;
	x->wr_rdma_write = stub_wr_write;
	x->wr_rdma_write_imm = stub_wr_write_imm;
	x->wr_rdma_read = stub_wr_read;
	x->wr_atomic_fetch_add = stub_wr_fetch_add;
	x->wr_atomic_cmp_swp = stub_wr_cmp_swp;
	x->wr_set_sge = stub_wr_set_sge;
	x->wr_set_sge_list = stub_wr_set_sge_list;
	x->wr_set_inline_data = stub_wr_set_inline_data;
}

/* ---- events that tests trigger ---- */

uint32_t
stub_complete(struct ibv_qp *qp, uint32_t n, enum ibv_wc_status status)
{
	struct stub_qp *q = stub_qp_of(qp);
	uint32_t i;

	for (i = 0; i < n && q->head != q->tail; i++) {
		const struct stub_wr *wr = &q->waiting[q->head++ & q->mask];

		if (status != IBV_WC_SUCCESS || (wr->flags & IBV_SEND_SIGNALED) != 0)
			stub_push(q->scq, wr->wr_id, wr->opcode, status, qp->qp_num);
	}
	return i;
}

uint32_t
stub_messages(struct ibv_qp *qp, uint32_t n, uint32_t len)
{
	struct stub_qp *q = stub_qp_of(qp);
	struct stub_rq *rq = q->from;
	uint32_t i;

	for (i = 0; i < n && rq->head != rq->tail; i++) {
		stub_push(q->rcq, rq->ring[rq->head++ & rq->mask], IBV_WC_RECV, IBV_WC_SUCCESS,
			  qp->qp_num);
		q->rcq->ring[(q->rcq->tail - 1) & q->rcq->mask].byte_len = len;
	}
	return i;
}

bool
stub_message_failed(struct ibv_qp *qp, enum ibv_wc_status status)
{
	struct stub_qp *q = stub_qp_of(qp);
	struct stub_rq *rq = q->from;

	if (rq->head == rq->tail)
		return false;
	stub_push(q->rcq, rq->ring[rq->head++ & rq->mask], IBV_WC_RECV, status, qp->qp_num);
	return true;
}

void
stub_completion(struct ibv_cq *cq, uint64_t wr_id, uint32_t qpn, enum ibv_wc_status status)
{
	stub_push(stub_cq_of(cq), wr_id, IBV_WC_SEND, status, qpn);
}
