/* SPDX-License-Identifier: BSD-3-Clause */

/* The receive side of a QP: senders fill the slots of its inbox, polling empties them. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim_host.h"

int
sim_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;
	struct sim_inbox *inbox = qp->inbox;
	int err = 0;

	if (!sim_mine(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	pthread_mutex_lock(&qp->rq_lock);
	for (; wr != NULL; wr = wr->next) {
		uint64_t posted = inbox->posted;
		struct sim_rqe *rqe = &qp->rqes[posted & (qp->rq_depth - 1)];
		uint32_t room = 0;

		if (ibv->state == IBV_QPS_RESET || ibv->state == IBV_QPS_ERR || wr->num_sge < 0 ||
		    (uint32_t)wr->num_sge > qp->max_recv_sge)
			err = EINVAL;
		else if (posted - qp->consumed == qp->rq_depth)
			err = ENOMEM;
		if (err != 0) {
			*bad = wr;
			break;
		}
		rqe->wr_id = wr->wr_id;
		rqe->nb = (uint32_t)wr->num_sge;
		for (uint32_t i = 0; i < rqe->nb; i++) {
			rqe->sge[i] = wr->sg_list[i];
			room += wr->sg_list[i].length;
		}
		if (qp->datagram)
			room = room < SIM_UD_GRH ? 0 : room - SIM_UD_GRH;
		sim_inbox_slot(inbox, posted)->room = room;
		atomic_store_explicit(&inbox->posted, posted + 1, memory_order_release);
	}
	pthread_mutex_unlock(&qp->rq_lock);
	return err;
}

/* Copy to the buffers of a receive, beginning at an offset. */
static enum sim_status
scatter(const struct sim_qp *qp, const struct sim_rqe *rqe, const char *data, uint32_t length,
	uint32_t offset)
{
	for (uint32_t i = 0; i < rqe->nb && length > 0; i++) {
		const struct ibv_sge *sge = &rqe->sge[i];
		uint32_t n;

		if (!sim_mr_local(qp->pd, sge, IBV_ACCESS_LOCAL_WRITE))
			return SIM_LOCAL_INVALID_LKEY;
		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		n = sge->length - offset < length ? sge->length - offset : length;
		memcpy((char *)(uintptr_t)sge->addr + offset, data, n);
		data += n;
		length -= n;
		offset = 0;
	}
	return SIM_OK;
}

bool
sim_recv_poll(struct sim_qp *qp, struct sim_cqe *cqe)
{
	struct sim_inbox *inbox = qp->inbox;
	uint32_t offset = qp->datagram ? SIM_UD_GRH : 0;
	const struct sim_slot *slot;
	struct sim_rqe rqe;

	if (atomic_load_explicit(&inbox->committed, memory_order_acquire) == qp->consumed)
		return false;
	pthread_mutex_lock(&qp->rq_lock);
	slot = sim_inbox_slot(inbox, qp->consumed);
	rqe = qp->rqes[qp->consumed & (qp->rq_depth - 1)];
	memset(cqe, 0, sizeof(*cqe));
	cqe->qp = qp;
	cqe->wr_id = rqe.wr_id;
	cqe->opcode = IBV_WC_RECV;
	cqe->qp_num = qp->ibv.qp_num;
	cqe->byte_len = slot->length + offset;
	cqe->src_qp = slot->src_qp;
	cqe->sgid = slot->sgid;
	sim_mr_enter();
	cqe->status = scatter(qp, &rqe, slot->data, slot->length, offset);
	sim_mr_leave();
	sim_count(SIM_STAT_RECVS, 1);
	sim_count(SIM_STAT_RECV_BYTES, slot->length);
	cqe->slid = sim_ah_number(qp->device, &cqe->sgid);
	if (sim_chance(sim_random(qp->ibv.qp_num, ~qp->consumed), sim_config.lose_ah_ppm))
		cqe->slid = SIM_NO_AH;
	qp->consumed++;
	pthread_mutex_unlock(&qp->rq_lock);
	return true;
}

void
sim_recv_flush(struct sim_qp *qp)
{
	struct sim_inbox *inbox = qp->inbox;
	uint64_t first;

	if (sim_inbox_lock(inbox) != 0)
		return;
	/* Messages that have arrived can still be polled; the remaining receives are flushed. */
	first = inbox->committed;
	for (uint64_t i = first; i != inbox->posted; i++) {
		struct sim_cqe cqe = {
			.qp = qp,
			.wr_id = qp->rqes[i & (qp->rq_depth - 1)].wr_id,
			.status = SIM_FLUSHED,
			.opcode = IBV_WC_RECV,
			.qp_num = qp->ibv.qp_num,
		};

		sim_cq_push(qp->recv_cq, &cqe);
	}
	inbox->posted = first;
	pthread_mutex_unlock(&inbox->lock);
}
