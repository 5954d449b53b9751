/* SPDX-License-Identifier: BSD-3-Clause */

/* Posting: ibv_post_send for messages, the operations of struct ibv_qp_ex for READ. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim.h"

/** Of a READ, as the device has it. */
#define READ_SGES 1

static struct sim_qp *
qp_of(struct ibv_qp_ex *ex)
{
	return (struct sim_qp *)ex;
}

/* A place in the send queue. NULL: all are taken. Under the QP's lock. */
static struct sim_wqe *
new_wqe(struct sim_qp *qp)
{
	struct sim_wqe *wqe = TAILQ_FIRST(&qp->free);

	if (wqe == NULL || atomic_load(&qp->nb_outstanding) >= qp->sq_depth)
		return NULL;
	TAILQ_REMOVE(&qp->free, wqe, next);
	memset(wqe, 0, sizeof(*wqe));
	return wqe;
}

static uint64_t
bytes_of(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

/* What libefa refuses before the device sees it. Return 0, or an errno. */
static int
check(const struct sim_qp *qp, const struct ibv_send_wr *wr)
{
	unsigned int other = wr->send_flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_INLINE);

	if (qp->ibv.state != IBV_QPS_RTS || wr->opcode != IBV_WR_SEND || other != 0 ||
	    wr->num_sge < 0 || (!(wr->send_flags & IBV_SEND_SIGNALED) && !qp->signal_all))
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE)
		return bytes_of(wr) > qp->max_inline ? EINVAL : 0;
	return (uint32_t)wr->num_sge > qp->max_send_sge ? EINVAL : 0;
}

static void
fill(struct sim_wqe *wqe, const struct ibv_send_wr *wr)
{
	wqe->wr_id = wr->wr_id;
	wqe->opcode = IBV_WR_SEND;
	wqe->ah = (struct sim_ah *)wr->wr.ud.ah;
	wqe->qpn = wr->wr.ud.remote_qpn & 0xffff;
	wqe->qkey = wr->wr.ud.remote_qkey;
	wqe->inlined = wr->send_flags & IBV_SEND_INLINE;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (!wqe->inlined) {
			wqe->sge[wqe->nb++] = *sge;
		} else if (sge->length > 0) {
			memcpy(wqe->data + wqe->inline_len, (const void *)(uintptr_t)sge->addr,
			       sge->length);
			wqe->inline_len += sge->length;
		}
	}
}

int
sim_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;
	struct sim_wqe *wqe;
	int err = 0;

	if (!sim_mine(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	pthread_mutex_lock(&qp->lock);
	for (; wr != NULL; wr = wr->next) {
		err = check(qp, wr);
		wqe = err == 0 ? new_wqe(qp) : NULL;
		if (wqe == NULL) {
			err = err == 0 ? ENOMEM : err;
			*bad = wr;
			break;
		}
		fill(wqe, wr);
		sim_send(qp, wqe);
	}
	pthread_mutex_unlock(&qp->lock);
	return err;
}

/* ---- struct ibv_qp_ex: READ ---- */

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context))
		return;
	pthread_mutex_lock(&qp->lock);
	qp->open = NULL;
	qp->open_error = 0;
}

static void
wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context))
		return;
	if (qp->ibv.state != IBV_QPS_RTS ||
	    (!(ex->wr_flags & IBV_SEND_SIGNALED) && !qp->signal_all))
		qp->open_error = EINVAL;
	else if (qp->open != NULL)
		qp->open_error = EOPNOTSUPP; /* the provider starts and completes each */
	if (qp->open_error != 0)
		return;
	qp->open = new_wqe(qp);
	if (qp->open == NULL) {
		qp->open_error = ENOMEM;
		return;
	}
	qp->open->wr_id = ex->wr_id;
	qp->open->opcode = IBV_WR_RDMA_READ;
	qp->open->rkey = rkey;
	qp->open->remote = remote;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ex, size_t nb, const struct ibv_sge *sge)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context) || qp->open == NULL)
		return;
	if (nb > READ_SGES) {
		qp->open_error = EINVAL;
		return;
	}
	qp->open->nb = (uint32_t)nb;
	if (nb > 0)
		memcpy(qp->open->sge, sge, nb * sizeof(*sge));
}

static void
wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void
wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context) || qp->open == NULL)
		return;
	qp->open->ah = (struct sim_ah *)ah;
	qp->open->qpn = qpn & 0xffff;
	qp->open->qkey = qkey;
}

static void
abandon(struct sim_qp *qp)
{
	if (qp->open != NULL)
		TAILQ_INSERT_HEAD(&qp->free, qp->open, next);
	qp->open = NULL;
}

static int
wr_complete(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);
	int err;

	if (!sim_mine(ex->qp_base.context))
		return EIO;
	err = qp->open_error;
	if (err == 0 && (qp->open == NULL || qp->open->ah == NULL))
		err = EINVAL;
	if (err != 0)
		abandon(qp);
	else
		sim_send(qp, qp->open);
	qp->open = NULL;
	pthread_mutex_unlock(&qp->lock);
	return err;
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context))
		return;
	abandon(qp);
	pthread_mutex_unlock(&qp->lock);
}

void
sim_post_ops(struct sim_qp *qp, uint64_t flags)
{
	if (!(flags & IBV_QP_EX_WITH_RDMA_READ))
		return;
	qp->ex.wr_start = wr_start;
	qp->ex.wr_rdma_read = wr_rdma_read;
	qp->ex.wr_set_sge = wr_set_sge;
	qp->ex.wr_set_sge_list = wr_set_sge_list;
	qp->ex.wr_set_ud_addr = wr_set_ud_addr;
	qp->ex.wr_complete = wr_complete;
	qp->ex.wr_abort = wr_abort;
}
