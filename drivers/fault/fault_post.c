/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post and cancel.
 *
 * An op that the argument "error" makes fail is not posted below. If it were posted and failed
 * afterwards, the peer could have a message that its sender believes lost. So an injected error is
 * like an error that a device finds before it sends a message or posts a receive.
 *
 * Each op of a burst is posted below by a call of its own, because the fault of the next op may
 * depend on the previous one (its peer stalls, or is dead).
 */

#include "fault_pvt.h"

/*
 * Can an op of this type end with this status? Receives have no remote errors, and only one-sided
 * ops have keys.
 */
static bool
may_fail(const struct leat_op *op, int status)
{
	switch (status) {
	case -EIO:
		return true;
	case -EREMOTEIO:
		return !leat_op_is_recv(op);
	default:
		return leat_op_right(op->type) != 0;
	}
}

/* Find the lower endpoint's region that holds an op's buffer. @return false: there is none */
static bool
map_region(const struct leat_op *op, struct leat_mr **mr)
{
	const struct leat_mr_piece *p;

	*mr = NULL;
	if (op->mr == NULL || op->size == 0)
		return true;
	p = leat_mr_find(op->mr, op->buf, op->size);
	if (unlikely(p == NULL))
		return false;
	*mr = p->drv;
	return true;
}

static struct fault_op *
take_proxy(struct fault_ep *fe, struct leat_op *op, struct leat_mr *mr)
{
	struct fault_op *f = TAILQ_FIRST(&fe->free);
	struct leat_op *low;

	if (f != NULL)
		TAILQ_REMOVE(&fe->free, f, link);
	else
		f = &fe->ops[fe->nb_ops++];
	low = &f->low;
	f->op = op;
	f->peer = op->peer < fe->ep->nb_peers ? &fe->peers[op->peer] : NULL;
	f->src = LEAT_PEER_ANY;
	f->nr = 0;
	f->again = false;
	low->type = op->type;
	low->flags = op->flags & LEAT_OP_F_IMM; /* the upper endpoint handles deadlines */
	low->oflags = 0;
	low->peer = f->peer != NULL ? f->peer->low : LEAT_PEER_ANY;
	low->buf = op->buf;
	low->size = op->size;
	low->queue = LEAT_QUEUE_NONE;
	low->mr = mr;
	low->tag = op->tag;
	low->ignore = op->ignore;
	low->imm = op->imm;
	low->compare = op->compare;
	return f;
}

bool
fault_hand_down(struct fault_ep *fe, struct fault_op *f)
{
	struct leat_op *low = &f->low;

	if (leat_ep_post(fe->low, &low, 1) != 1)
		return false;
	f->where = FAULT_BELOW;
	return true;
}

static bool
refuse(struct fault_ep *fe, const struct leat_op *op)
{
	if (leat_op_is_recv(op)) {
		if (likely(!fault_hit(fe, FAULT_K_REFUSE_RECV, fe->conf.refuse_recv)))
			return false;
		LEAT_STAT_ADD(fe->stats.refused_recv, 1);
	} else {
		if (likely(!fault_hit(fe, FAULT_K_REFUSE, fe->conf.refuse)))
			return false;
		LEAT_STAT_ADD(fe->stats.refused, 1);
	}
	return true;
}

/* Start an op: inject a fault, or post its proxy below. @return false: no room below */
static bool
set_out(struct fault_ep *fe, struct fault_op *f, bool recv)
{
	const struct leat_op *op = f->op;

	if (may_fail(op, fe->conf.error_status) && fault_hit(fe, FAULT_K_ERROR, fe->conf.error)) {
		LEAT_STAT_ADD(fe->stats.failed, 1);
		fault_done(fe, f, fe->conf.error_status, 0);
		return true;
	}
	if (recv || unlikely(f->peer == NULL)) /* only a receive may name no peer */
		return fault_hand_down(fe, f);
	if (fe->datagram && fault_datagram_lose(fe)) {
		fault_done(fe, f, 0, op->size);
		return true;
	}
	fault_stall_draw(fe, f->peer);
	if (f->peer->stalled) {
		fault_wait(fe, f);
		return true;
	}
	return fe->datagram ? fault_datagram_send(fe, f) : fault_hand_down(fe, f);
}

/* Post one op that was checked. @return false: refused, by a fault or by the lower endpoint */
static bool
post_one(struct leat_ep *ep, struct fault_ep *fe, struct leat_op *op, struct leat_mr *mr)
{
	bool recv = leat_op_is_recv(op);
	struct fault_op *f;

	if (refuse(fe, op)) {
		rte_errno = EAGAIN;
		return false;
	}
	f = take_proxy(fe, op, mr);
	if (!set_out(fe, f, recv)) {
		TAILQ_INSERT_HEAD(&fe->free, f, link);
		return false;
	}
	op->drv_ctx = f;
	leat_op_start(ep, op);
	if (!recv && likely(f->peer != NULL))
		fault_peer_count(fe, f->peer);
	return true;
}

uint16_t
fault_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct fault_ep *fe = fault_of(ep);
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];
		struct leat_mr *mr;
		int status;

		if (unlikely(!leat_op_admit(ep, op)))
			break;
		status = leat_op_check(ep, op);
		if (status == 0 && !map_region(op, &mr))
			status = -EINVAL;
		if (unlikely(status < 0)) {
			leat_op_fail(ep, op, status);
			continue;
		}
		if (!post_one(ep, fe, op, mr)) {
			fe->refused = true;
			break;
		}
	}
	return leat_ep_post_end(ep, i, n);
}

int
fault_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct fault_ep *fe = fault_of(ep);
	struct fault_op *f = op->drv_ctx;
	int ret;

	/* A datagram that was sent completes at once, so there is nothing for a deadline to end. */
	if (fe->datagram && !leat_op_is_recv(op) &&
	    (f->where == FAULT_BELOW || f->where == FAULT_SHUFFLED))
		return op->state == LEAT_OP_EXPIRED ? 0 : -EOPNOTSUPP;
	switch ((enum fault_where)f->where) {
	case FAULT_WAITING:
		TAILQ_REMOVE(&f->peer->waiting, f, link);
		f->status = -ECANCELED;
		f->len = 0;
		break;
	case FAULT_BELOW:
		ret = leat_op_cancel(fe->low, &f->low);
		/* -ENOENT: done below, -EALREADY: cancelled before. Poll will return the proxy. */
		return ret == -ENOENT || ret == -EALREADY ? 0 : ret;
	case FAULT_KEPT: /* in this and all later states the op is done: it keeps its result */
		TAILQ_REMOVE(&f->peer->kept, f, link);
		break;
	case FAULT_DELAYED:
		fault_heap_remove(&fe->delayed, f);
		break;
	case FAULT_MIXED:
		fault_heap_remove(&fe->mixed, f);
		break;
	case FAULT_SHUFFLED: /* returned above */
	case FAULT_FREE:
		return -ENOENT;
	}
	fault_release(fe, f);
	return 0;
}
