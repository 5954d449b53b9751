/* SPDX-License-Identifier: BSD-3-Clause */

/* Queue pairs: SRD and UD. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_host.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool used[SIM_DEVICES][SIM_QPS];

void
sim_qp_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD)
		memset(used, 0, sizeof(used));
	sim_fork_lock(&lock, when);
}

void
sim_qp_forget(struct sim_qp *qp)
{
	munmap(qp->inbox, qp->inbox->bytes);
	qp->inbox = NULL;
}

static uint32_t
power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Take the lowest free index, so that QP numbers are reused soon. SIM_QPS: none is free. */
static unsigned int
take_index(unsigned int device)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < sim_config.max_qp && used[device][i]; i++)
		;
	if (i == sim_config.max_qp)
		i = SIM_QPS;
	else
		used[device][i] = true;
	pthread_mutex_unlock(&lock);
	return i;
}

static void
give_index(unsigned int device, unsigned int index)
{
	pthread_mutex_lock(&lock);
	used[device][index] = false;
	pthread_mutex_unlock(&lock);
}

static int
check(const struct ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL || attr->send_cq == NULL ||
	    attr->recv_cq == NULL || attr->srq != NULL)
		return EINVAL;
	if (attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & IBV_QP_EX_WITH_RDMA_READ && !sim_config.read)
		return EOPNOTSUPP;
	/* rq-depth counts buffers, SIM_SGES for each receive of the provider: an upper bound. */
	if (attr->cap.max_send_wr > sim_config.sq_depth ||
	    attr->cap.max_recv_wr > sim_config.rq_depth || attr->cap.max_send_sge > SIM_SGES ||
	    attr->cap.max_recv_sge > SIM_SGES || attr->cap.max_inline_data > SIM_INLINE)
		return EINVAL;
	return 0;
}

static int
queues_init(struct sim_qp *qp, const struct ibv_qp_cap *cap)
{
	qp->sq_depth = cap->max_send_wr;
	qp->rq_depth = power_of_two(cap->max_recv_wr == 0 ? 1 : cap->max_recv_wr);
	qp->wqes = calloc(qp->sq_depth, sizeof(*qp->wqes));
	qp->rqes = calloc(qp->rq_depth, sizeof(*qp->rqes));
	if (qp->wqes == NULL || qp->rqes == NULL)
		return ENOMEM;
	TAILQ_INIT(&qp->free);
	TAILQ_INIT(&qp->held);
	for (uint32_t i = 0; i < qp->sq_depth; i++)
		TAILQ_INSERT_TAIL(&qp->free, &qp->wqes[i], next);
	qp->inbox = sim_inbox_create(qp);
	return qp->inbox == NULL ? errno : 0;
}

struct ibv_qp *
sim_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, bool datagram)
{
	struct sim_qp *qp;
	int err;

	if (!sim_usable(context))
		return NULL;
	err = check(attr);
	if (err != 0) {
		errno = err;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (qp == NULL)
		return NULL;
	qp->device = sim_context_of(context)->device;
	qp->index = take_index(qp->device->index);
	if (qp->index == SIM_QPS) {
		free(qp);
		sim_count(SIM_STAT_REFUSED, 1);
		errno = ENOMEM;
		return NULL;
	}
	qp->pd = (struct sim_pd *)attr->pd;
	qp->send_cq = (struct sim_cq *)attr->send_cq;
	qp->recv_cq = (struct sim_cq *)attr->recv_cq;
	qp->datagram = datagram;
	qp->signal_all = attr->sq_sig_all != 0;
	qp->max_send_sge = attr->cap.max_send_sge;
	qp->max_recv_sge = attr->cap.max_recv_sge;
	qp->max_inline = attr->cap.max_inline_data;
	qp->wake_ns = UINT64_MAX;
	qp->ibv.context = context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = attr->pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_num = sim_qp_number(qp->index);
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = attr->qp_type;
	err = queues_init(qp, &attr->cap);
	if (err != 0) {
		give_index(qp->device->index, qp->index);
		free(qp->rqes);
		free(qp->wqes);
		free(qp);
		errno = err;
		return NULL;
	}
	pthread_mutex_init(&qp->lock, NULL);
	pthread_mutex_init(&qp->rq_lock, NULL);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		sim_post_ops(qp, attr->send_ops_flags);
	qp->pd->nb_objects++;
	qp->send_cq->nb_qps++;
	qp->recv_cq->nb_qps++;
	pthread_mutex_lock(&qp->recv_cq->poll_lock);
	LIST_INSERT_HEAD(&qp->recv_cq->receivers, qp, next_receiver);
	pthread_mutex_unlock(&qp->recv_cq->poll_lock);
	pthread_mutex_lock(&qp->send_cq->poll_lock);
	LIST_INSERT_HEAD(&qp->send_cq->senders, qp, next_sender);
	pthread_mutex_unlock(&qp->send_cq->poll_lock);
	sim_thread_add(qp);
	(void)sim_object_add(SIM_OBJ_QP, UINT64_MAX); /* take_index() has checked the limit */
	return &qp->ibv;
}

SIM_API struct ibv_qp *
efadv_create_qp_ex(struct ibv_context *ibvctx, struct ibv_qp_init_attr_ex *attr_ex,
		   struct efadv_qp_init_attr *efa_attr, uint32_t inlen)
{
	if (inlen < sizeof(*efa_attr) || efa_attr->comp_mask != 0 ||
	    attr_ex->qp_type != IBV_QPT_DRIVER ||
	    efa_attr->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD) {
		errno = EINVAL;
		return NULL;
	}
	return sim_qp_create(ibvctx, attr_ex, false);
}

SIM_API struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &((struct sim_qp *)qp)->ex;
}

/*
 * May a QP change from one state to another? RESET is not supported: the provider destroys QPs
 * instead.
 */
static bool
may_go(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR || from == IBV_QPS_RTS;
	case IBV_QPS_ERR:
		return true;
	default:
		return false;
	}
}

SIM_API int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct sim_qp *own = (struct sim_qp *)qp;
	int err = 0;

	if (!sim_mine(qp->context))
		return EIO;
	pthread_mutex_lock(&own->lock);
	pthread_mutex_lock(&own->rq_lock);
	if (attr_mask & IBV_QP_STATE && !may_go(qp->state, attr->qp_state)) {
		err = EINVAL;
		goto unlock;
	}
	if (attr_mask & IBV_QP_RNR_RETRY)
		own->rnr_retry = attr->rnr_retry;
	if (attr_mask & IBV_QP_QKEY)
		own->inbox->qkey = attr->qkey;
	if (!(attr_mask & IBV_QP_STATE))
		goto unlock;
	qp->state = attr->qp_state;
	own->inbox->open = attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS;
	if (attr->qp_state == IBV_QPS_ERR) {
		sim_send_flush(own);
		sim_recv_flush(own);
	}
unlock:
	pthread_mutex_unlock(&own->rq_lock);
	pthread_mutex_unlock(&own->lock);
	return err;
}

/* Remove a QP from its CQs, with those of its completions that the program has not polled. */
static void
detach(struct sim_qp *qp)
{
	struct sim_cq *send = qp->send_cq, *recv = qp->recv_cq;

	pthread_mutex_lock(&recv->poll_lock);
	LIST_REMOVE(qp, next_receiver);
	recv->next = NULL;
	sim_cq_forget(recv, qp);
	pthread_mutex_unlock(&recv->poll_lock);
	pthread_mutex_lock(&send->poll_lock);
	LIST_REMOVE(qp, next_sender);
	sim_cq_forget(send, qp);
	pthread_mutex_unlock(&send->poll_lock);
	recv->nb_qps--;
	send->nb_qps--;
}

SIM_API int
ibv_destroy_qp(struct ibv_qp *qp)
{
	struct sim_qp *own = (struct sim_qp *)qp;

	if (sim_mine(qp->context)) {
		/* Held sends are lost with the QP. */
		sim_thread_del(own);
		sim_send_drop(own);
		detach(own);
		sim_inbox_destroy(own->device->index, own->index, own->inbox);
		give_index(own->device->index, own->index);
		own->pd->nb_objects--;
		sim_object_del(SIM_OBJ_QP);
	}
	pthread_mutex_destroy(&own->lock);
	pthread_mutex_destroy(&own->rq_lock);
	free(own->rqes);
	free(own->wqes);
	free(own);
	return 0;
}
