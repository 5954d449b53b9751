/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post. Consecutive sends of a burst to one peer go out as one list of requests, with one doorbell:
 *
 *     ops  A1 A2 B1 A3      A1 A2 | B1 | A3
 *
 * Every N-th request (argument signal=N) and the last one of a list are signaled. The completion of
 * a signaled request stands for all requests before it. So no op waits for a signal that never
 * comes, and a list of n requests costs about n / N completions, at least one.
 *
 * The send queue always has room: its size is the number of sends that the endpoint may have in
 * flight.
 *
 * Each list takes two steps: accept the valid ops at the front of the burst that go to one peer,
 * then build their requests.
 */

#include <endian.h>
#include <string.h>

#include <rte_prefetch.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_rc.h"

/* Is the op's data sent inline? Not with READ and atomics: their result goes into the buffer. */
static inline bool
goes_inline(const struct vb_ep *e, const struct leat_op *op)
{
	return op->size <= e->inline_max && op->type < LEAT_OP_READ;
}

static inline uint64_t
wr_id(const struct vb_conn *c, uint32_t nr)
{
	return (uint64_t)c->tag << 32 | nr;
}

/* Return the flags of a request; i: number of requests after it in its list. */
static inline unsigned int
wr_flags(const struct vb_ep *e, struct vb_conn *c, const struct leat_op *op, uint32_t i)
{
	unsigned int flags = 0;

	if (unlikely(++c->unsignaled >= e->signal || i == 0)) {
		c->unsignaled = 0;
		flags = IBV_SEND_SIGNALED;
	}
	/* rxe needs the inline flag with ibv_wr_*, too. */
	return goes_inline(e, op) ? flags | IBV_SEND_INLINE : flags;
}

/* ---- ibv_wr_* ---- */

#ifdef VB_HAVE_WR_API
static inline void
build_wr(struct ibv_qp_ex *x, const struct leat_op *op)
{
	uint32_t rkey = (uint32_t)op->rkey;

	switch (op->type) {
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
}

/* Post the newest n ops of the send queue. @return number that the device accepted */
static inline uint32_t
send_wr(const struct vb_ep *e, struct vb_conn *c, uint32_t n, const uint32_t *lkey)
{
	struct ibv_qp_ex *x = c->qpx;
	uint32_t nr = c->tail - n, i = n;

	ibv_wr_start(x);
	while (i-- > 0) {
		const struct leat_op *op = c->sq[nr & c->mask];

		x->wr_id = wr_id(c, nr++);
		x->wr_flags = wr_flags(e, c, op, i);
		if (unlikely(op->type != LEAT_OP_SEND))
			build_wr(x, op);
		else if (likely((op->flags & LEAT_OP_F_IMM) == 0))
			ibv_wr_send(x);
		else
			ibv_wr_send_imm(x, htobe32((uint32_t)op->imm));
		if (unlikely(op->size == 0))
			ibv_wr_set_sge_list(x, 0, NULL);
		else if (x->wr_flags & IBV_SEND_INLINE)
			ibv_wr_set_inline_data(x, op->buf, op->size);
		else
			ibv_wr_set_sge(x, *lkey, (uintptr_t)op->buf, (uint32_t)op->size);
		lkey++;
	}
	return likely(ibv_wr_complete(x) == 0) ? n : 0;
}
#endif

/* ---- ibv_post_send() ---- */

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

/* Post the newest n ops of the send queue. @return number that the device accepted */
static __attribute__((noinline)) uint32_t
send_list(const struct vb_ep *e, struct vb_conn *c, uint32_t n, const uint32_t *lkey)
{
	struct ibv_send_wr wr[VB_BURST + 1], *bad = NULL;
	uint32_t nr = c->tail - n, i;
	struct ibv_sge sge[VB_BURST + 1];

	for (i = 0; i < n; i++) {
		const struct leat_op *op = c->sq[nr & c->mask];

		sge[i].addr = (uintptr_t)op->buf;
		sge[i].length = (uint32_t)op->size;
		sge[i].lkey = lkey[i];
		wr[i].wr_id = wr_id(c, nr++);
		wr[i].next = &wr[i + 1];
		wr[i].sg_list = &sge[i];
		/* iWARP's READ needs a buffer even for 0 B. */
		wr[i].num_sge = op->size > 0 || (e->read_sinks && op->type == LEAT_OP_READ);
		wr[i].send_flags = wr_flags(e, c, op, n - 1 - i);
		build_list(&wr[i], op);
	}
	wr[n - 1].next = NULL;
	if (unlikely(c->credit != NULL && c->reads))
		vb_iwarp_fence(c, wr, n, &sge[n]);
	if (likely(ibv_post_send(c->qp, wr, &bad) == 0))
		return n;
	return bad == NULL ? 0 : RTE_MIN((uint32_t)(bad - wr), n - 1);
}

/* ---- post ---- */

/*
 * Finish the last n ops, whose requests the device refused. The send queue had room for them, so
 * the device, or the queue pair, has failed. The signaled request that ended the list is among the
 * refused ones: accepted requests before them may be left without a signal, and their ops complete
 * only when the connection has ended. So end the connection.
 */
static void __attribute__((noinline, cold)) refused(struct vb_ep *e, struct vb_conn *c, uint32_t n)
{
	uint32_t nr = c->tail - n, end = c->tail;

	c->tail = nr;
	while (nr != end)
		leat_op_finish(e->ep, c->sq[nr++ & c->mask], -EIO, 0);
	vb_conn_end(c, -EIO, "the device refused a send request");
}

/* Check a send or one-sided op. @return 0, or the status with which the op must fail */
static inline int
tx_check(const struct vb_ep *e, const struct vb_conn *c, const struct leat_op *op, uint32_t *lkey)
{
	int ret = leat_op_check_data(e->ep, op, false);

	if (unlikely(ret < 0))
		return ret;
	*lkey = 0;
	if (!goes_inline(e, op) && likely(op->size > 0)) {
		const struct leat_mr_piece *p = leat_mr_find(op->mr, op->buf, op->size);

		if (unlikely(p == NULL))
			return -EINVAL;
		*lkey = vb_lkey(p);
	}
	if (op->type >= LEAT_OP_WRITE) {
		if (unlikely(op->rkey > UINT32_MAX))
			return -EACCES;
		if (unlikely(op->type >= LEAT_OP_READ && !c->reads))
			return -EOPNOTSUPP;
	}
	if (unlikely(c->credit != NULL && (op->flags & LEAT_OP_F_IMM) != 0))
		return -EOPNOTSUPP;
	return 0;
}

/*
 * Post the ops from ops[0] on that are valid and go to the same peer, as one list. @return how many
 * were posted
 */
static __attribute__((noinline)) uint32_t
post_sends(struct vb_ep *e, struct leat_op **ops, uint32_t n)
{
	struct leat_ep *ep = e->ep;
	uint16_t id = ops[0]->peer;
	uint32_t lkey[VB_BURST], i, k;
	struct leat_peer *peer;
	struct vb_conn *c;

	if (unlikely(leat_op_check_peer(ep, ops[0], false) < 0))
		return 0;
	peer = &ep->peers[id];
	c = e->conns[id];
	if (n > VB_BURST)
		n = VB_BURST;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if (i + 1 < n)
			rte_prefetch0(ops[i + 1]);
		if (unlikely(leat_op_is_recv(op) || op->peer != id || op->state != LEAT_OP_IDLE ||
			     ep->tx_room == 0 || leat_op_check_type(ep, op) < 0 ||
			     tx_check(e, c, op, &lkey[i]) < 0))
			break;
		if (unlikely(c->credit != NULL && op->type == LEAT_OP_SEND && !vb_credit_take(c)))
			break;
		c->sq[c->tail++ & c->mask] = op;
		leat_op_start_send(ep, peer, op);
	}
	if (unlikely(i == 0))
		return 0;
#ifdef VB_HAVE_WR_API
	if (likely(c->qpx != NULL))
		k = send_wr(e, c, i, lkey);
	else
#endif
		k = send_list(e, c, i, lkey);
	if (unlikely(k < i))
		refused(e, c, i - k);
	return i;
}

/*
 * Accept and fail an op that is not valid. @return false: the op is not accepted. Either the
 * endpoint has no room for it or it is in flight already, or it is valid and its peer has no buffer
 * for its message.
 */
static bool __attribute__((noinline, cold)) post_wrong(struct vb_ep *e, struct leat_op *op)
{
	uint32_t lkey;
	int ret;

	if (!leat_op_admit(e->ep, op))
		return false;
	ret = leat_op_check(e->ep, op);
	if (ret == 0 && leat_op_is_recv(op))
		ret = -EINVAL; /* the op's region does not contain its buffer */
	else if (ret == 0)
		ret = tx_check(e, e->conns[op->peer], op, &lkey);
	if (ret == 0) {
		rte_errno = EAGAIN; /* the peer has no buffer for the message */
		return false;
	}
	leat_op_fail(e->ep, op, ret);
	return true;
}

uint16_t
vb_rc_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct vb_ep *e = vb_of(ep);
	uint32_t i = 0, k;

	while (i < n) {
		if (leat_op_is_recv(ops[i]))
			k = vb_rx_post(e, &ops[i], n - i);
		else
			k = post_sends(e, &ops[i], n - i);
		i += k;
		if (unlikely(k == 0)) {
			if (!post_wrong(e, ops[i]))
				break;
			i++;
		}
	}
	return leat_ep_post_end(ep, (uint16_t)i, n);
}
