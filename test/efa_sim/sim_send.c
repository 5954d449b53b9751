/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The send queue of a QP. A message leaves the queue (it is sent) when it is posted, or it is held
 * and leaves later.
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
		.sent = true,
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = IBV_WC_SEND, /* also for a READ: the device has one send queue */
		.qp_num = qp->ibv.qp_num,
	};

	sim_ah_release(wqe->ah);
	TAILQ_INSERT_HEAD(&qp->free, wqe, next);
	sim_cq_push(qp->send_cq, &cqe);
}

/* Hold a request until at_ns, or until the QP's seq has reached at_seq. */
static void
hold(struct sim_qp *qp, struct sim_wqe *wqe, uint64_t at_ns, uint64_t at_seq)
{
	struct sim_wqe *before;

	wqe->leave_at_ns = at_ns;
	wqe->leave_at_seq = at_seq;
	/* The list is in the order of posting, also after a request was held again. */
	for (before = TAILQ_LAST(&qp->held, sim_wqes); before != NULL;
	     before = TAILQ_PREV(before, sim_wqes, next))
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

uint32_t
sim_wqe_length(const struct sim_wqe *wqe)
{
	uint32_t length = wqe->inline_len;

	for (uint32_t i = 0; i < wqe->nb; i++)
		length += wqe->sge[i].length;
	return length;
}

/* Count the message as overtaken if one that was posted later has left before it. */
static void
count_overtaken(struct sim_qp *qp, const struct sim_wqe *wqe)
{
	if (wqe->seq < qp->left_seq)
		sim_count(SIM_STAT_OVERTAKEN, 1);
	else
		qp->left_seq = wqe->seq + 1;
}

/* Send a request that is on no list. */
static void
leave(struct sim_qp *qp, struct sim_wqe *wqe, uint64_t now)
{
	enum sim_status status = SIM_LOCAL_UNRESP_REMOTE;

	wqe->ordered = false;
	if (!wqe->unresponsive)
		status = sim_transmit(qp, wqe);

	if (qp->datagram && status >= SIM_REMOTE_BAD_ADDRESS) {
		/* UD: the sender's device knows only that it sent the packet. */
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

/*
 * May the request leave now? Two conditions: its time has come, or enough requests were posted
 * after it; and `oldest`, the oldest ordered request, was posted less than a window (reorder)
 * before it.
 */
static bool
due(const struct sim_qp *qp, const struct sim_wqe *wqe, const struct sim_wqe *oldest, uint64_t now)
{
	if (wqe->leave_at_seq > qp->seq && wqe->leave_at_ns > now)
		return false;
	return !wqe->ordered || oldest == NULL || wqe->seq - oldest->seq < sim_config.reorder;
}

/* Send what is due; compute when to look again. */
static void
release(struct sim_qp *qp, uint64_t now)
{
	struct sim_wqe *wqe, *next, *oldest = NULL;
	uint64_t wake = UINT64_MAX;

	qp->wake_ns = 0; /* hold() need not wake the thread: the loop at the end finds the time */
	for (wqe = TAILQ_FIRST(&qp->held); wqe != NULL; wqe = next) {
		next = TAILQ_NEXT(wqe, next);
		if (due(qp, wqe, oldest, now)) {
			TAILQ_REMOVE(&qp->held, wqe, next);
			leave(qp, wqe, now);
		} else if (wqe->ordered && oldest == NULL) {
			oldest = wqe;
		}
	}
	/*
	 * Requests held past their time wait for the oldest ordered request: its time counts.
	 */
	TAILQ_FOREACH(wqe, &qp->held, next)
		if (wqe->leave_at_ns > now && wqe->leave_at_ns < wake)
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

/* Count the held messages that may leave next: posted less than a window after the oldest. */
static uint64_t
nb_next(const struct sim_qp *qp)
{
	const struct sim_wqe *wqe, *oldest = NULL;
	uint64_t nb = 0;

	TAILQ_FOREACH(wqe, &qp->held, next) {
		if (!wqe->ordered)
			continue;
		if (oldest == NULL)
			oldest = wqe;
		if (wqe->seq - oldest->seq < sim_config.reorder)
			nb++;
	}
	return nb;
}

bool
sim_send_idle(struct sim_qp *qp)
{
	struct sim_wqe *wqe = NULL;
	uint64_t nb, which;

	pthread_mutex_lock(&qp->lock);
	nb = sim_config.delay_us > 0 ? 0 : nb_next(qp);
	if (nb > 0) {
		which = draw(qp) % nb;
		TAILQ_FOREACH(wqe, &qp->held, next)
			if (wqe->ordered && which-- == 0)
				break;
	}
	if (wqe != NULL) {
		TAILQ_REMOVE(&qp->held, wqe, next);
		leave(qp, wqe, sim_now());
	}
	pthread_mutex_unlock(&qp->lock);
	return wqe != NULL;
}

void
sim_send_flush(struct sim_qp *qp)
{
	struct sim_wqe *wqe;

	while ((wqe = TAILQ_FIRST(&qp->held)) != NULL) {
		TAILQ_REMOVE(&qp->held, wqe, next);
		complete(qp, wqe, SIM_FLUSHED);
	}
	qp->wake_ns = UINT64_MAX;
}

void
sim_send_drop(struct sim_qp *qp)
{
	struct sim_wqe *wqe;

	pthread_mutex_lock(&qp->lock);
	TAILQ_FOREACH(wqe, &qp->held, next)
		sim_ah_release(wqe->ah);
	TAILQ_INIT(&qp->held);
	pthread_mutex_unlock(&qp->lock);
}

/* Return why a request fails: it is wrong, or the configuration says so. SIM_OK: neither. */
static enum sim_status
fault(struct sim_qp *qp, const struct sim_wqe *wqe)
{
	uint32_t max = wqe->opcode == IBV_WR_SEND ? (uint32_t)sim_config.mtu : SIM_READ_MAX;

	if (sim_wqe_length(wqe) > max)
		return SIM_LOCAL_BAD_LENGTH;
	if (sim_config.rnr_ppm != 0 && wqe->opcode == IBV_WR_SEND && !qp->datagram &&
	    qp->rnr_retry != RNR_FOR_EVER && sim_chance(draw(qp), sim_config.rnr_ppm)) {
		sim_count(SIM_STAT_INJECTED, 1);
		return SIM_REMOTE_RNR;
	}
	if (sim_config.fail_ppm != 0 && sim_chance(draw(qp), sim_config.fail_ppm)) {
		sim_count(SIM_STAT_INJECTED, 1);
		return (enum sim_status)sim_config.fail;
	}
	return SIM_OK;
}

/*
 * Hold a new request until a random time, or until a random number of requests were posted after
 * it.
 */
static void
hold_first(struct sim_qp *qp, struct sim_wqe *wqe, uint64_t now)
{
	wqe->ordered = true;
	sim_count(SIM_STAT_HELD, 1);
	if (sim_config.delay_us > 0)
		hold(qp, wqe, now + draw(qp) % (sim_config.delay_us * 1000 + 1), UINT64_MAX);
	else
		hold(qp, wqe, now + sim_config.hold_us * 1000,
		     qp->seq + draw(qp) % sim_config.reorder);
}

void
sim_send(struct sim_qp *qp, struct sim_wqe *wqe)
{
	enum sim_status status;
	uint64_t now = sim_now();

	sim_ah_hold(wqe->ah);
	atomic_fetch_add(&qp->nb_outstanding, 1);
	wqe->seq = qp->seq++;
	wqe->retries = qp->rnr_retry;
	status = fault(qp, wqe);
	if (status != SIM_OK) {
		complete(qp, wqe, status);
	} else if (sim_config.reorder > 1 || sim_config.delay_us > 0) {
		hold_first(qp, wqe, now);
		release(qp, now);
	} else {
		leave(qp, wqe, now);
	}
}
