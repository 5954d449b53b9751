/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post: one libfabric call per op.
 *
 * The provider owns an op only if the call returned 0. After FI_EAGAIN the caller keeps the op and
 * the rest of the burst. So the driver queues nothing.
 */

#include <rte_prefetch.h>

#include "ofi_read.h"

/*
 * Find the local descriptor of an op's buffer. @return false: the op's region does not contain the
 * buffer
 */
static inline bool
local_desc(const struct ofi_ep *e, const struct leat_op *op, void **desc)
{
	const struct leat_mr_piece *p;

	*desc = NULL;
	if (likely(!e->mr_desc) || op->size == 0)
		return true;
	p = leat_mr_find(op->mr, op->buf, op->size);
	if (unlikely(p == NULL))
		return false;
	*desc = p->desc;
	return true;
}

static inline fi_addr_t
dest_of(const struct leat_ep *ep, const struct leat_op *op)
{
	return ep->peers[op->peer].drv_word;
}

static inline fi_addr_t
src_of(const struct leat_ep *ep, const struct leat_op *op)
{
	return op->peer == LEAT_PEER_ANY ? FI_ADDR_UNSPEC : ep->peers[op->peer].drv_word;
}

static inline __attribute__((always_inline)) ssize_t
post_recv_sink(struct ofi_ep *e, const struct leat_op *op, fi_addr_t src, void *desc0, void *ctx)
{
	struct iovec iov[2] = { { op->buf, op->size }, { e->sink, e->sink_len } };
	void *desc[2] = { desc0, NULL };

	if (op->type == LEAT_OP_RECV)
		return fi_recvv(e->fid, iov, desc, 2, src, ctx);
	return fi_trecvv(e->fid, iov, desc, 2, src, op->tag, op->ignore, ctx);
}

static inline __attribute__((always_inline)) ssize_t
post_recv(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s)
{
	fi_addr_t src = src_of(ep, op);
	ssize_t ret;
	void *desc;

	if (unlikely(!local_desc(e, op, &desc)))
		return -FI_EINVAL;
	s->state = OFI_SLOT_RX;
	if (e->sink_len != 0)
		ret = post_recv_sink(e, op, src, desc, &s->ctx);
	else if (op->type == LEAT_OP_RECV)
		ret = fi_recv(e->fid, op->buf, op->size, desc, src, &s->ctx);
	else
		ret = fi_trecv(e->fid, op->buf, op->size, desc, src, op->tag, op->ignore, &s->ctx);
	/* Some providers return ENOMEM when they are full. */
	return unlikely(ret == -FI_ENOMEM) ? -FI_EAGAIN : ret;
}

static inline __attribute__((always_inline)) ssize_t
post_send(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s)
{
	fi_addr_t dst = dest_of(ep, op);
	void *desc;

	if (unlikely(!local_desc(e, op, &desc)))
		return -FI_EINVAL;
	if (op->type == LEAT_OP_SEND) {
		if (likely((op->flags & LEAT_OP_F_IMM) == 0))
			return fi_send(e->fid, op->buf, op->size, desc, dst, &s->ctx);
		return fi_senddata(e->fid, op->buf, op->size, desc, op->imm & e->imm_mask, dst,
				   &s->ctx);
	}
	if (likely((op->flags & LEAT_OP_F_IMM) == 0))
		return fi_tsend(e->fid, op->buf, op->size, desc, dst, op->tag, &s->ctx);
	return fi_tsenddata(e->fid, op->buf, op->size, desc, op->imm & e->imm_mask, dst, op->tag,
			    &s->ctx);
}

/* Inject a small send: the provider copies the data, and no completion follows. */
static inline __attribute__((always_inline)) ssize_t
inject_send(struct leat_ep *ep, struct ofi_ep *e, const struct leat_op *op)
{
	fi_addr_t dst = dest_of(ep, op);

	if (op->type == LEAT_OP_SEND) {
		if (likely((op->flags & LEAT_OP_F_IMM) == 0))
			return fi_inject(e->fid, op->buf, op->size, dst);
		return fi_injectdata(e->fid, op->buf, op->size, op->imm & e->imm_mask, dst);
	}
	if (likely((op->flags & LEAT_OP_F_IMM) == 0))
		return fi_tinject(e->fid, op->buf, op->size, dst, op->tag);
	return fi_tinjectdata(e->fid, op->buf, op->size, op->imm & e->imm_mask, dst, op->tag);
}

static ssize_t
post_write(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s)
{
	bool imm = op->type == LEAT_OP_WRITE_IMM;
	struct fi_rma_iov rma = { op->raddr, op->size, op->rkey };
	struct iovec iov = { op->buf, op->size };
	struct fi_msg_rma msg;
	void *desc;

	if (unlikely(!local_desc(e, op, &desc)))
		return -FI_EINVAL;
	/* A write of 0 B has nothing to place; with FI_DELIVERY_COMPLETE shm never completes it. */
	if ((e->quirks & (imm ? OFI_Q_WRITE_IMM_DC : OFI_Q_WRITE_DC)) == 0 || op->size == 0) {
		if (!imm)
			return fi_write(e->fid, op->buf, op->size, desc, dest_of(ep, op), op->raddr,
					op->rkey, &s->ctx);
		return fi_writedata(e->fid, op->buf, op->size, desc, op->imm & e->imm_mask,
				    dest_of(ep, op), op->raddr, op->rkey, &s->ctx);
	}
	msg.msg_iov = &iov;
	msg.desc = &desc;
	msg.iov_count = 1;
	msg.addr = dest_of(ep, op);
	msg.rma_iov = &rma;
	msg.rma_iov_count = 1;
	msg.context = &s->ctx;
	msg.data = op->imm & e->imm_mask;
	return fi_writemsg(e->fid, &msg,
			   FI_COMPLETION | FI_DELIVERY_COMPLETE | (imm ? FI_REMOTE_CQ_DATA : 0));
}

static ssize_t
post_read(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s)
{
	ssize_t ret;
	void *desc;

	if (unlikely(!local_desc(e, op, &desc)))
		return -FI_EINVAL;
	ret = fi_read(e->fid, op->buf, op->size, desc, dest_of(ep, op), op->raddr, op->rkey,
		      &s->ctx);
	if (ret == 0 && (e->quirks & OFI_Q_READ_TWICE) != 0)
		ofi_read_mark(s, op);
	return ret;
}

/*
 * Post an atomic. Operands and result are in the slot: the provider may access them after the op
 * was finished.
 */
static ssize_t
post_atomic(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s)
{
	void *desc;

	if (unlikely(!local_desc(e, op, &desc)))
		return -FI_EINVAL;
	s->arg[0] = op->operand;
	s->arg[1] = op->compare;
	if (op->type == LEAT_OP_FETCH_ADD)
		return fi_fetch_atomic(e->fid, &s->arg[0], 1, e->slots_desc, &s->result,
				       e->slots_desc, dest_of(ep, op), op->raddr, op->rkey,
				       FI_UINT64, FI_SUM, &s->ctx);
	return fi_compare_atomic(e->fid, &s->arg[0], 1, e->slots_desc, &s->arg[1], e->slots_desc,
				 &s->result, e->slots_desc, dest_of(ep, op), op->raddr, op->rkey,
				 FI_UINT64, FI_CSWAP, &s->ctx);
}

static inline bool
is_send(const struct leat_op *op)
{
	return op->type == LEAT_OP_SEND || op->type == LEAT_OP_TSEND;
}

static inline __attribute__((always_inline)) ssize_t
post_one(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, struct ofi_slot *s, bool recv)
{
	if (recv)
		return post_recv(ep, e, op, s);
	s->state = OFI_SLOT_TX;
	if (likely(is_send(op)))
		return post_send(ep, e, op, s);
	if (op->type == LEAT_OP_READ)
		return post_read(ep, e, op, s);
	return op->type < LEAT_OP_READ ? post_write(ep, e, op, s) : post_atomic(ep, e, op, s);
}

/*
 * Handle an op that does not simply go to the provider: one with a sealed key to check, a READ of
 * 0 B, a RECV for which a notice waits.
 * @return true: the op was accepted and is finished, perhaps with an error
 */
static bool __attribute__((noinline))
special(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op)
{
	if (op->type >= LEAT_OP_WRITE) {
		int ret = e->sealed ? ofi_mr_key_check(op) : 0;

		if (unlikely(ret < 0)) {
			leat_op_fail(ep, op, ret);
			return true;
		}
		if (op->type == LEAT_OP_READ && op->size == 0 &&
		    (e->quirks & OFI_Q_NO_READ0) != 0) {
			leat_op_fail(ep, op, 0);
			return true;
		}
		return false;
	}
	if (op->type == LEAT_OP_RECV && e->notice_count > 0 && ofi_notice_take(e, op))
		return true;
	return false;
}

static void __attribute__((noinline, cold)) log_no_slot(struct ofi_ep *e)
{
	if (e->full_logged)
		return;
	e->full_logged = true;
	LEAT_LOG(WARNING, driver,
		 "%s: endpoint %s: %u ops of dead peers are stuck in the provider and "
		 "take room; to free them close and reopen the endpoint",
		 e->dev->name, leat_ep_name(e->ep), e->nb_orphans);
}

/*
 * Handle the failure of the libfabric call that posts an op: FI_EAGAIN refuses the op; after any
 * other error the op is accepted, and fails. @return whether it was accepted
 */
static bool __attribute__((noinline, cold))
post_failed(struct leat_ep *ep, struct leat_op *op, ssize_t ret)
{
	if (likely(ret == -FI_EAGAIN)) {
		ofi_of(ep)->refused = true;
		rte_errno = EAGAIN;
		return false;
	}
	leat_op_fail(ep, op, ofi_errno((int)-ret));
	return true;
}

static void __attribute__((noinline, cold))
post_bad(struct leat_ep *ep, struct leat_op *op, int status)
{
	leat_op_fail(ep, op, status);
}

/*
 * May another send to this peer be injected? After inject_run injected sends, sends go through
 * slots until one of them completes: that shows that the provider has sent the injected ones.
 */
static inline bool
may_inject(struct ofi_ep *e, const struct leat_op *op)
{
	struct ofi_peer *p;

	if (likely(e->inject_run == 0))
		return true;
	p = &e->peers[op->peer];
	return p->injected < e->inject_run && ++p->injected != 0;
}

/* Inject a small send; its op is finished on return. @return false: refused */
static inline __attribute__((always_inline)) bool
post_inject(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op)
{
	ssize_t ret = inject_send(ep, e, op);

	if (unlikely(ret != 0))
		return post_failed(ep, op, ret);
	leat_op_start(ep, op);
	leat_op_finish(ep, op, 0, op->size);
	return true;
}

/* Post an op through a slot. @return false: refused */
static inline __attribute__((always_inline)) bool
post_slot(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, bool recv)
{
	struct ofi_slot *s = e->free;
	ssize_t ret;

	if (unlikely(op->type >= e->rma_special || e->notice_count > 0) && special(ep, e, op))
		return true;
	if (unlikely(s == NULL)) {
		log_no_slot(e);
		rte_errno = EAGAIN;
		return false;
	}
	ret = post_one(ep, e, op, s, recv);
	if (unlikely(ret != 0)) {
		s->state = OFI_SLOT_FREE;
		return post_failed(ep, op, ret);
	}
	e->free = s->next;
	s->op = op;
	s->peer = op->peer;
	s->flags = 0;
	s->seq = e->seq++;
	op->drv_ctx = s;
	leat_op_start_as(ep, op, recv);
	if (recv && unlikely(e->track) && op->type == LEAT_OP_RECV)
		ofi_recv_list_add(e, s);
	return true;
}

/*
 * Check and post one op. recv is a constant, which removes half of the branches. @return false:
 * refused
 */
static inline __attribute__((always_inline)) bool
post_as(struct leat_ep *ep, struct ofi_ep *e, struct leat_op *op, bool recv)
{
	int status = leat_op_check_as(ep, op, recv);

	if (unlikely(status < 0)) {
		post_bad(ep, op, status);
		return true;
	}
	if (!recv && op->size < e->inject_end && is_send(op) && may_inject(e, op))
		return post_inject(ep, e, op);
	return post_slot(ep, e, op, recv);
}

uint16_t
ofi_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct ofi_ep *e = ofi_of(ep);
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if (i + 1 < n)
			rte_prefetch0(ops[i + 1]);
		if (unlikely(!leat_op_admit(ep, op)))
			break;
		if (unlikely(!(leat_op_is_recv(op) ? post_as(ep, e, op, true)
						   : post_as(ep, e, op, false))))
			break;
	}
	return leat_ep_post_end(ep, i, n);
}
