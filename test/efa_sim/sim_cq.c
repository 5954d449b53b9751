/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion queues: a ring of completed sends, and the inboxes of receivers. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* Initial head and tail of the ring: they wrap to 0 soon, so that each run tests the wrap. */
#define FIRST (UINT32_MAX - 99)

/* After this many empty polls in a row, idle() sends messages that are held for reordering. */
#define EMPTY_MAX 16

static struct sim_cq *
cq_of(struct ibv_cq_ex *ex)
{
	return (struct sim_cq *)ex;
}

static void
grow(struct sim_cq *cq)
{
	uint32_t size = cq->size * 2;
	struct sim_cqe *ring = malloc(size * sizeof(*ring));

	if (ring == NULL) {
		fprintf(stderr, "efa-sim: out of memory for completions\n");
		abort();
	}
	for (uint32_t i = cq->head; i != cq->tail; i++)
		ring[i & (size - 1)] = cq->ring[i & (cq->size - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
}

void
sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe)
{
	pthread_mutex_lock(&cq->lock);
	if (cq->tail - cq->head == cq->size)
		grow(cq);
	cq->ring[cq->tail++ & (cq->size - 1)] = *cqe;
	atomic_fetch_add(&cq->nb, 1);
	pthread_mutex_unlock(&cq->lock);
}

static bool
pop(struct sim_cq *cq, struct sim_cqe *cqe)
{
	bool found;

	if (atomic_load(&cq->nb) == 0)
		return false;
	pthread_mutex_lock(&cq->lock);
	found = cq->head != cq->tail;
	if (found) {
		*cqe = cq->ring[cq->head++ & (cq->size - 1)];
		atomic_fetch_sub(&cq->nb, 1);
	}
	pthread_mutex_unlock(&cq->lock);
	return found;
}

void
sim_cq_forget(struct sim_cq *cq, const struct sim_qp *qp)
{
	uint32_t kept;

	pthread_mutex_lock(&cq->lock);
	kept = cq->head;
	for (uint32_t i = cq->head; i != cq->tail; i++)
		if (cq->ring[i & (cq->size - 1)].qp != qp)
			cq->ring[kept++ & (cq->size - 1)] = cq->ring[i & (cq->size - 1)];
	atomic_fetch_sub(&cq->nb, cq->tail - kept);
	cq->tail = kept;
	pthread_mutex_unlock(&cq->lock);
}

static bool
receive(struct sim_cq *cq)
{
	struct sim_qp *qp = cq->next, *first;

	if (qp == NULL)
		qp = LIST_FIRST(&cq->receivers);
	first = qp;
	while (qp != NULL) {
		if (sim_recv_poll(qp, &cq->now)) {
			cq->next = LIST_NEXT(qp, next_receiver);
			return true;
		}
		qp = LIST_NEXT(qp, next_receiver);
		if (qp == NULL)
			qp = LIST_FIRST(&cq->receivers);
		if (qp == first)
			break;
	}
	return false;
}

/* Send what is due. The thread does so as well, but wakes late on a busy machine. */
static void
progress(struct sim_cq *cq)
{
	struct sim_qp *qp;
	uint64_t now = 0;

	LIST_FOREACH(qp, &cq->senders, next_sender) {
		if (qp->wake_ns == UINT64_MAX)
			continue;
		if (now == 0)
			now = sim_now();
		sim_send_progress(qp, now);
	}
}

/* There is nothing to poll: send one held message of each QP. Return false if none is held. */
static bool
idle(struct sim_cq *cq)
{
	struct sim_qp *qp;
	bool sent = false;

	LIST_FOREACH(qp, &cq->senders, next_sender)
		if (qp->wake_ns != UINT64_MAX)
			sent |= sim_send_idle(qp);
	return sent;
}

/* Store the next completion in cq->now. ENOENT: there is none. */
static int
next(struct sim_cq *cq)
{
	if (!pop(cq, &cq->now) && !receive(cq))
		return ENOENT;
	if (cq->now.sent)
		atomic_fetch_sub(&cq->now.qp->nb_outstanding, 1);
	sim_count(SIM_STAT_STATUS + cq->now.status, 1);
	cq->ex.wr_id = cq->now.wr_id;
	switch (cq->now.status) {
	case SIM_OK:
		cq->ex.status = IBV_WC_SUCCESS;
		break;
	case SIM_FLUSHED:
		cq->ex.status = IBV_WC_WR_FLUSH_ERR;
		break;
	case SIM_LOCAL_INVALID_LKEY:
		cq->ex.status = IBV_WC_LOC_PROT_ERR;
		break;
	case SIM_LOCAL_BAD_LENGTH:
		cq->ex.status = IBV_WC_LOC_LEN_ERR;
		break;
	case SIM_REMOTE_ABORT:
		cq->ex.status = IBV_WC_REM_ABORT_ERR;
		break;
	case SIM_REMOTE_BAD_DEST_QPN:
		cq->ex.status = IBV_WC_REM_INV_RD_REQ_ERR;
		break;
	case SIM_REMOTE_RNR:
		cq->ex.status = IBV_WC_RNR_RETRY_EXC_ERR;
		break;
	case SIM_REMOTE_BAD_LENGTH:
		cq->ex.status = IBV_WC_REM_INV_REQ_ERR;
		break;
	case SIM_REMOTE_BAD_STATUS:
		cq->ex.status = IBV_WC_BAD_RESP_ERR;
		break;
	case SIM_LOCAL_UNRESP_REMOTE:
		cq->ex.status = IBV_WC_RESP_TIMEOUT_ERR;
		break;
	case SIM_LOCAL_QP_INTERNAL:
	case SIM_LOCAL_INVALID_OP:
	case SIM_LOCAL_INVALID_AH:
		cq->ex.status = IBV_WC_LOC_QP_OP_ERR;
		break;
	default:
		cq->ex.status = IBV_WC_GENERAL_ERR;
	}
	return 0;
}

static int
start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct sim_cq *cq = cq_of(ex);
	int err;

	if (attr->comp_mask != 0)
		return EINVAL;
	if (!sim_mine(ex->context))
		return EIO;
	pthread_mutex_lock(&cq->poll_lock);
	progress(cq);
	err = next(cq);
	cq->nb_empty = err == ENOENT ? cq->nb_empty + 1 : 0;
	if (cq->nb_empty > EMPTY_MAX && idle(cq))
		err = next(cq);
	if (err != 0)
		pthread_mutex_unlock(&cq->poll_lock);
	return err;
}

static int
next_poll(struct ibv_cq_ex *ex)
{
	return next(cq_of(ex));
}

static void
end_poll(struct ibv_cq_ex *ex)
{
	pthread_mutex_unlock(&cq_of(ex)->poll_lock);
}

static enum ibv_wc_opcode
read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.opcode;
}

static uint32_t
read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.status;
}

static uint32_t
read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.byte_len;
}

static uint32_t
read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.qp_num;
}

static uint32_t
read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.src_qp;
}

static uint32_t
read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->now.slid;
}

static unsigned int
read_wc_flags(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint8_t
read_sl(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static int
read_sgid(struct efadv_cq *dv, union ibv_gid *gid)
{
	const struct sim_cq *cq =
		(const struct sim_cq *)((const char *)dv - offsetof(struct sim_cq, dv));

	/* The device reports the SGID only of senders for which it has no AH. */
	if (!cq->sgid || cq->now.slid != SIM_NO_AH)
		return -ENOENT;
	*gid = cq->now.sgid;
	return 0;
}

static struct ibv_cq_ex *
create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr, bool sgid)
{
	struct sim_cq *cq;

	if (!sim_usable(context))
		return NULL;
	if (attr->channel != NULL || attr->comp_mask != 0 ||
	    (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) != 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->cqe == 0 || attr->cqe > SIM_CQES) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (cq == NULL)
		return NULL;
	cq->size = 64;
	cq->head = cq->tail = FIRST;
	cq->ring = malloc(cq->size * sizeof(*cq->ring));
	if (cq->ring == NULL || !sim_object_add(SIM_OBJ_CQ, sim_config.max_cq)) {
		free(cq->ring);
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&cq->poll_lock, NULL);
	pthread_mutex_init(&cq->lock, NULL);
	LIST_INIT(&cq->receivers);
	LIST_INIT(&cq->senders);
	cq->sgid = sgid;
	cq->dv.wc_read_sgid = read_sgid;
	cq->ex.context = context;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.cqe = (int)attr->cqe;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_slid = read_slid;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_sl = read_sl;
	return &cq->ex;
}

struct ibv_cq_ex *
sim_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	return create(context, attr, false);
}

SIM_API struct ibv_cq_ex *
efadv_create_cq(struct ibv_context *ibvctx, struct ibv_cq_init_attr_ex *attr_ex,
		struct efadv_cq_init_attr *efa_attr, uint32_t inlen)
{
	if (inlen < sizeof(*efa_attr) || efa_attr->comp_mask != 0 ||
	    (efa_attr->wc_flags & ~(uint64_t)EFADV_WC_EX_WITH_SGID) != 0) {
		errno = EINVAL;
		return NULL;
	}
	return create(ibvctx, attr_ex, efa_attr->wc_flags & EFADV_WC_EX_WITH_SGID);
}

SIM_API struct efadv_cq *
efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ibvcqx)
{
	return &cq_of(ibvcqx)->dv;
}

SIM_API int
ibv_destroy_cq(struct ibv_cq *cq)
{
	struct sim_cq *own = (struct sim_cq *)cq;
	bool mine = sim_mine(cq->context);

	if (own->nb_qps > 0 && mine)
		return EBUSY;
	pthread_mutex_destroy(&own->poll_lock);
	pthread_mutex_destroy(&own->lock);
	free(own->ring);
	free(own);
	if (mine)
		sim_object_del(SIM_OBJ_CQ);
	return 0;
}
