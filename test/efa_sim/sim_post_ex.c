/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The operations of struct ibv_qp_ex: READs, and messages of later releases of libfabric. Work
 * requests between wr_start and wr_complete are on the QP's list `building`, which belongs to the
 * thread that posts.
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim.h"

/** SGEs of a READ, as on the device. */
#define READ_SGES 1

static struct sim_qp *
qp_of(struct ibv_qp_ex *ex)
{
	return (struct sim_qp *)ex;
}

/* Return the work request that is being built. NULL: none, or an earlier call was wrong. */
static struct sim_wqe *
open_of(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context) || qp->open_error != 0)
		return NULL;
	return TAILQ_LAST(&qp->building, sim_wqes);
}

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context))
		return;
	TAILQ_INIT(&qp->building);
	qp->open_error = 0;
}

static struct sim_wqe *
begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct sim_qp *qp = qp_of(ex);
	struct sim_wqe *wqe;

	if (!sim_mine(ex->qp_base.context) || qp->open_error != 0)
		return NULL;
	if (qp->ibv.state != IBV_QPS_RTS ||
	    (!(ex->wr_flags & IBV_SEND_SIGNALED) && !qp->signal_all)) {
		qp->open_error = EINVAL;
		return NULL;
	}
	pthread_mutex_lock(&qp->lock);
	wqe = sim_wqe_new(qp);
	pthread_mutex_unlock(&qp->lock);
	if (wqe == NULL) {
		qp->open_error = ENOMEM;
		return NULL;
	}
	wqe->wr_id = ex->wr_id;
	wqe->opcode = opcode;
	TAILQ_INSERT_TAIL(&qp->building, wqe, next);
	return wqe;
}

static void
wr_send(struct ibv_qp_ex *ex)
{
	(void)begin(ex, IBV_WR_SEND);
}

static void
wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	struct sim_wqe *wqe = begin(ex, IBV_WR_RDMA_READ);

	if (wqe == NULL)
		return;
	wqe->rkey = rkey;
	wqe->remote = remote;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ex, size_t nb, const struct ibv_sge *sge)
{
	struct sim_qp *qp = qp_of(ex);
	struct sim_wqe *wqe = open_of(ex);

	if (wqe == NULL)
		return;
	if (nb > (wqe->opcode == IBV_WR_RDMA_READ ? READ_SGES : qp->max_send_sge)) {
		qp->open_error = EINVAL;
		return;
	}
	wqe->nb = (uint32_t)nb;
	if (nb > 0)
		memcpy(wqe->sge, sge, nb * sizeof(*sge));
}

static void
wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void
wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t nb, const struct ibv_data_buf *bufs)
{
	struct sim_qp *qp = qp_of(ex);
	struct sim_wqe *wqe = open_of(ex);

	if (wqe == NULL)
		return;
	wqe->inlined = true;
	wqe->inline_len = 0;
	for (size_t i = 0; i < nb; i++) {
		if (wqe->opcode == IBV_WR_RDMA_READ ||
		    bufs[i].length > qp->max_inline - wqe->inline_len) {
			qp->open_error = EINVAL;
			return;
		}
		if (bufs[i].length == 0)
			continue;
		memcpy(wqe->data + wqe->inline_len, bufs[i].addr, bufs[i].length);
		wqe->inline_len += (uint32_t)bufs[i].length;
	}
}

static void
wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void
wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sim_wqe *wqe = open_of(ex);

	if (wqe == NULL)
		return;
	wqe->ah = (struct sim_ah *)ah;
	wqe->qpn = qpn & 0xffff;
	wqe->qkey = qkey;
}

/* Drop the requests that are being built. Call under the QP's lock. */
static void
abandon(struct sim_qp *qp)
{
	struct sim_wqe *wqe;

	while ((wqe = TAILQ_FIRST(&qp->building)) != NULL) {
		TAILQ_REMOVE(&qp->building, wqe, next);
		TAILQ_INSERT_HEAD(&qp->free, wqe, next);
	}
}

/* Check the work requests. Return 0, or an errno. */
static int
check(const struct sim_qp *qp)
{
	const struct sim_wqe *wqe;

	if (qp->open_error != 0)
		return qp->open_error;
	TAILQ_FOREACH(wqe, &qp->building, next)
		if (wqe->ah == NULL)
			return EINVAL;
	return TAILQ_EMPTY(&qp->building) ? EINVAL : 0;
}

static int
wr_complete(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);
	struct sim_wqe *wqe;
	int err;

	if (!sim_mine(ex->qp_base.context))
		return EIO;
	pthread_mutex_lock(&qp->lock);
	err = check(qp);
	if (err != 0)
		abandon(qp);
	while ((wqe = TAILQ_FIRST(&qp->building)) != NULL) {
		TAILQ_REMOVE(&qp->building, wqe, next);
		sim_send(qp, wqe);
	}
	pthread_mutex_unlock(&qp->lock);
	return err;
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	if (!sim_mine(ex->qp_base.context))
		return;
	pthread_mutex_lock(&qp->lock);
	abandon(qp);
	pthread_mutex_unlock(&qp->lock);
}

void
sim_post_ops(struct sim_qp *qp, uint64_t flags)
{
	TAILQ_INIT(&qp->building);
	qp->ex.wr_start = wr_start;
	qp->ex.wr_set_sge = wr_set_sge;
	qp->ex.wr_set_sge_list = wr_set_sge_list;
	qp->ex.wr_set_inline_data = wr_set_inline_data;
	qp->ex.wr_set_inline_data_list = wr_set_inline_data_list;
	qp->ex.wr_set_ud_addr = wr_set_ud_addr;
	qp->ex.wr_complete = wr_complete;
	qp->ex.wr_abort = wr_abort;
	if (flags & IBV_QP_EX_WITH_SEND)
		qp->ex.wr_send = wr_send;
	if (flags & IBV_QP_EX_WITH_RDMA_READ)
		qp->ex.wr_rdma_read = wr_rdma_read;
}
