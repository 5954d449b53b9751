/* SPDX-License-Identifier: BSD-3-Clause */

/* ibv_post_send: messages. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim.h"

struct sim_wqe *
sim_wqe_new(struct sim_qp *qp)
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

/* Check what libefa refuses before the device sees it. Return 0, or an errno. */
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
		wqe = err == 0 ? sim_wqe_new(qp) : NULL;
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
