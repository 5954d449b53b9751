/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The send queue of a QP: messages leave when they are posted, or are held and leave later.
 *
 *     posted --- held (reorder, delay) ---+--> delivered, completed
 *                   ^                     |
 *                   +--- RNR, retries ----+--> completed with a status
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim_host.h"

#define RNR_FOR_EVER 7 /* rnr_retry, as verbs have it */

static struct sim_qp *
qp_of(struct ibv_qp_ex *ex)
{
	return (struct sim_qp *)ex;
}

static uint64_t
draw(struct sim_qp *qp)
{
	return sim_random(qp->ibv.qp_num, qp->nb_random++);
}

static void
complete(struct sim_qp *qp, struct sim_wqe *wqe, enum sim_status status)
{
	struct sim_cqe cqe = {
		.qp = qp,
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = IBV_WC_SEND, /* of a READ as well: the device has one send queue */
		.qp_num = qp->ibv.qp_num,
	};

	TAILQ_INSERT_HEAD(&qp->free, wqe, next);
	sim_cq_push(qp->send_cq, &cqe);
}

/* Hold it until a time, and as long as fewer than so many have been posted. */
static void
hold(struct sim_qp *qp, struct sim_wqe *wqe, uint64_t at_ns, uint64_t at_seq)
{
	struct sim_wqe *before = NULL;

	wqe->leave_at_ns = at_ns;
	wqe->leave_at_seq = at_seq;
	/* In the order in which they were posted, whatever has put it back. */
	TAILQ_FOREACH_REVERSE(before, &qp->held, sim_wqes, next)
		if (before->seq < wqe->seq)
			break;
	if (before != NULL)
		TAILQ_INSERT_AFTER(&qp->held, before, wqe, next);
	else
		TAILQ_INSERT_HEAD(&qp->held, wqe, next);
	if (at_ns < qp->wake_ns) {
		qp->wake_ns = at_ns;
		sim_thread_wake(at_ns);
	}
}

static uint32_t
length_of(const struct sim_wqe *wqe)
{
	uint32_t length = wqe->inline_len;

	for (uint32_t i = 0; i < wqe->nb; i++)
		length += wqe->sge[i].length;
	return length;
}

static void
gather(const struct sim_wqe *wqe, char *to)
{
	if (wqe->inlined)
		memcpy(to, wqe->data, wqe->inline_len);
	for (uint32_t i = 0; i < wqe->nb; i++) {
		memcpy(to, (const void *)(uintptr_t)wqe->sge[i].addr, wqe->sge[i].length);
		to += wqe->sge[i].length;
	}
}

/* Put it into the inbox of the destination. */
static enum sim_status
put(struct sim_qp *qp, struct sim_wqe *wqe, struct sim_inbox *inbox, uint32_t length)
{
	enum sim_status status = SIM_OK;
	struct sim_slot *slot;
	uint64_t committed;

	if (sim_inbox_lock(inbox) != 0)
		return SIM_REMOTE_BAD_STATUS;
	committed = inbox->committed;
	if (!inbox->open || inbox->qkey != wqe->qkey) {
		status = SIM_REMOTE_BAD_DEST_QPN;
	} else if (atomic_load_explicit(&inbox->posted, memory_order_acquire) == committed) {
		status = SIM_REMOTE_RNR;
	} else {
		slot = sim_inbox_slot(inbox, committed);
		if (slot->room < length) {
			status = SIM_REMOTE_BAD_LENGTH;
		} else {
			slot->length = length;
			slot->src_qp = qp->ibv.qp_num;
			slot->sgid = qp->device->gid;
			gather(wqe, slot->data);
			atomic_store_explicit(&inbox->committed, committed + 1,
					      memory_order_release);
		}
	}
	pthread_mutex_unlock(&inbox->lock);
	return status;
}

static void
count_received(struct sim_arena *arena)
{
	uint64_t nb = atomic_fetch_add(&arena->nb_received, 1) + 1;

	/* Each host has its own faults: only the destination's own EFA_SIM cuts it off. */
	if (arena == sim_host_arena() && sim_config.deaf_after != 0 && nb >= sim_config.deaf_after)
		arena->deaf = 1;
}

/* Under the peer's lock. */
static enum sim_status
transmit_to(struct sim_qp *qp, struct sim_wqe *wqe, struct sim_peer *peer, uint32_t length)
{
	unsigned int device = wqe->ah->gid.raw[15];
	struct sim_inbox *inbox;
	enum sim_status status;

	if (!sim_peer_up(peer))
		return SIM_REMOTE_BAD_DEST_QPN; /* the process is gone, and its QPs with it */
	if (peer->arena->deaf || sim_host_arena()->deaf)
		return SIM_LOCAL_UNRESP_REMOTE;
	inbox = sim_peer_inbox(peer, device, wqe->qpn);
	if (inbox == NULL || !inbox->open)
		return SIM_REMOTE_BAD_DEST_QPN;
	if (wqe->opcode == IBV_WR_RDMA_READ) {
		if (inbox->qkey != wqe->qkey)
			return SIM_REMOTE_BAD_DEST_QPN;
		return sim_peer_read(peer, device, wqe->rkey, wqe->remote, wqe->sge, wqe->nb);
	}
	status = put(qp, wqe, inbox, length);
	if (status == SIM_OK)
		count_received(peer->arena);
	return status;
}

static enum sim_status
transmit(struct sim_qp *qp, struct sim_wqe *wqe)
{
	int access = wqe->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
	struct sim_peer *peer = wqe->ah->peer;
	uint32_t length = length_of(wqe);
	enum sim_status status;

	for (uint32_t i = 0; i < wqe->nb; i++)
		if (!sim_mr_local(qp->pd, &wqe->sge[i], access))
			return SIM_LOCAL_INVALID_LKEY;
	pthread_mutex_lock(&peer->lock);
	status = transmit_to(qp, wqe, peer, length);
	pthread_mutex_unlock(&peer->lock);
	if (status != SIM_OK)
		return status;
	if (wqe->opcode == IBV_WR_RDMA_READ) {
		sim_count(SIM_STAT_READS, 1);
		sim_count(SIM_STAT_READ_BYTES, length);
	} else {
		sim_count(qp->datagram ? SIM_STAT_DATAGRAMS : SIM_STAT_SENDS, 1);
		sim_count(SIM_STAT_SEND_BYTES, length);
	}
	return SIM_OK;
}

/* Has a message that was posted later left before? */
static void
count_overtaken(struct sim_qp *qp, const struct sim_wqe *wqe)
{
	if (wqe->seq < qp->left_seq)
		sim_count(SIM_STAT_OVERTAKEN, 1);
	else
		qp->left_seq = wqe->seq + 1;
}

/* It leaves now. It is on no list. */
static void
leave(struct sim_qp *qp, struct sim_wqe *wqe, uint64_t now)
{
	enum sim_status status = wqe->unresponsive ? SIM_LOCAL_UNRESP_REMOTE : transmit(qp, wqe);

	if (qp->datagram && status >= SIM_REMOTE_BAD_ADDRESS) {
		/* UD: the sender's device knows only that it has sent. */
		sim_count(SIM_STAT_DATAGRAMS_LOST, 1);
		status = SIM_OK;
	}
	if (status == SIM_REMOTE_RNR && wqe->retries > 0) {
		if (wqe->retries != RNR_FOR_EVER)
			wqe->retries--;
		sim_count(SIM_STAT_RNR_RETRIES, 1);
		hold(qp, wqe, now + sim_config.rnr_us * 1000, UINT64_MAX);
		return;
	}
	if (status == SIM_LOCAL_UNRESP_REMOTE && !wqe->unresponsive) {
		wqe->unresponsive = true;
		hold(qp, wqe, now + sim_config.unresp_ms * 1000000, UINT64_MAX);
		return;
	}
	if (status == SIM_OK)
		count_overtaken(qp, wqe);
	complete(qp, wqe, status);
}

/* Send what is due, by time or because enough has been posted behind it. */
static void
release(struct sim_qp *qp, uint64_t now)
{
	struct sim_wqe *wqe = TAILQ_FIRST(&qp->held), *next;
	uint64_t wake = UINT64_MAX;

	qp->wake_ns = 0; /* what is held again in here is seen below */
	for (; wqe != NULL; wqe = next) {
		next = TAILQ_NEXT(wqe, next);
		if (wqe->leave_at_seq > qp->seq && wqe->leave_at_ns > now)
			continue;
		TAILQ_REMOVE(&qp->held, wqe, next);
		leave(qp, wqe, now);
	}
	TAILQ_FOREACH(wqe, &qp->held, next)
		if (wqe->leave_at_ns < wake)
			wake = wqe->leave_at_ns;
	qp->wake_ns = wake;
	if (wake != UINT64_MAX)
		sim_thread_wake(wake);
}

void
sim_send_progress(struct sim_qp *qp, uint64_t now)
{
	if (qp->wake_ns > now)
		return;
	pthread_mutex_lock(&qp->lock);
	if (qp->wake_ns <= now)
		release(qp, now);
	pthread_mutex_unlock(&qp->lock);
}

void
sim_send_flush(struct sim_qp *qp)
{
	struct sim_wqe *wqe;

	pthread_mutex_lock(&qp->lock);
	while ((wqe = TAILQ_FIRST(&qp->held)) != NULL) {
		TAILQ_REMOVE(&qp->held, wqe, next);
		complete(qp, wqe, SIM_FLUSHED);
	}
	qp->wake_ns = UINT64_MAX;
	pthread_mutex_unlock(&qp->lock);
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

static void
post(struct sim_qp *qp, struct sim_wqe *wqe)
{
	bool reorder = sim_config.reorder > 1, delay = sim_config.delay_us > 0;
	uint64_t now = 0;

	atomic_fetch_add(&qp->nb_outstanding, 1);
	wqe->seq = qp->seq++;
	wqe->retries = qp->rnr_retry;
	if (reorder || delay || qp->rnr_retry > 0)
		now = sim_now();
	if (qp->ibv.state != IBV_QPS_RTS) {
		complete(qp, wqe, SIM_FLUSHED);
	} else if (length_of(wqe) > sim_config.mtu && wqe->opcode == IBV_WR_SEND) {
		complete(qp, wqe, SIM_LOCAL_BAD_LENGTH);
	} else if (sim_config.rnr_ppm != 0 && wqe->opcode == IBV_WR_SEND && !qp->datagram &&
		   sim_chance(draw(qp), sim_config.rnr_ppm)) {
		sim_count(SIM_STAT_INJECTED, 1);
		complete(qp, wqe, SIM_REMOTE_RNR);
	} else if (sim_config.fail_ppm != 0 && sim_chance(draw(qp), sim_config.fail_ppm)) {
		sim_count(SIM_STAT_INJECTED, 1);
		complete(qp, wqe, (enum sim_status)sim_config.fail);
	} else if (reorder || delay) {
		uint64_t at_ns = delay ? draw(qp) % (sim_config.delay_us * 1000 + 1) : 0;
		uint64_t at_seq = UINT64_MAX;

		if (reorder) {
			at_seq = delay ? UINT64_MAX : qp->seq + draw(qp) % sim_config.reorder;
			at_ns += sim_config.hold_us * 1000;
		}
		sim_count(SIM_STAT_HELD, 1);
		hold(qp, wqe, now + at_ns, at_seq);
		release(qp, now);
	} else {
		leave(qp, wqe, now);
	}
}

int
sim_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;
	struct sim_wqe *wqe;
	int err = 0;

	pthread_mutex_lock(&qp->lock);
	for (; wr != NULL; wr = wr->next) {
		wqe = NULL;
		if (wr->opcode != IBV_WR_SEND || wr->num_sge < 0 || wr->num_sge > SIM_SGES)
			err = EINVAL;
		else if ((wqe = new_wqe(qp)) == NULL)
			err = ENOMEM;
		if (err != 0) {
			*bad = wr;
			break;
		}
		wqe->wr_id = wr->wr_id;
		wqe->opcode = IBV_WR_SEND;
		wqe->ah = (struct sim_ah *)wr->wr.ud.ah;
		wqe->qpn = wr->wr.ud.remote_qpn & 0xffff;
		wqe->qkey = wr->wr.ud.remote_qkey;
		wqe->nb = (uint32_t)wr->num_sge;
		memcpy(wqe->sge, wr->sg_list, wqe->nb * sizeof(wqe->sge[0]));
		if (wr->send_flags & IBV_SEND_INLINE) {
			if (length_of(wqe) > SIM_INLINE) {
				TAILQ_INSERT_HEAD(&qp->free, wqe, next);
				err = EINVAL;
				*bad = wr;
				break;
			}
			gather(wqe, wqe->data);
			wqe->inline_len = length_of(wqe);
			wqe->inlined = true;
			wqe->nb = 0;
		}
		post(qp, wqe);
	}
	pthread_mutex_unlock(&qp->lock);
	return err;
}

/* ---- struct ibv_qp_ex: READ ---- */

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	pthread_mutex_lock(&qp->lock);
	qp->open = NULL;
	qp->open_error = 0;
}

static void
wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	struct sim_qp *qp = qp_of(ex);

	if (qp->open != NULL) {
		/* The provider starts and completes each; so do we. */
		qp->open_error = EOPNOTSUPP;
		return;
	}
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

	if (qp->open == NULL)
		return;
	if (nb > SIM_SGES) {
		qp->open_error = EINVAL;
		return;
	}
	qp->open->nb = (uint32_t)nb;
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

	if (qp->open == NULL)
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
	int err = qp->open_error;

	if (err == 0 && (qp->open == NULL || qp->open->ah == NULL))
		err = EINVAL;
	if (err != 0)
		abandon(qp);
	else
		post(qp, qp->open);
	qp->open = NULL;
	pthread_mutex_unlock(&qp->lock);
	return err;
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	struct sim_qp *qp = qp_of(ex);

	abandon(qp);
	pthread_mutex_unlock(&qp->lock);
}

void
sim_send_ops(struct sim_qp *qp, uint64_t flags)
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
