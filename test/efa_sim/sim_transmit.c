/* SPDX-License-Identifier: BSD-3-Clause */

/* Deliver requests that leave a send queue: to an inbox, or for a READ from the peer's memory. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sim_host.h"

static void
gather(const struct sim_wqe *wqe, char *to)
{
	if (wqe->inlined)
		memcpy(to, wqe->data, wqe->inline_len);
	for (uint32_t i = 0; i < wqe->nb; i++) {
		if (wqe->sge[i].length > 0)
			memcpy(to, (const void *)(uintptr_t)wqe->sge[i].addr, wqe->sge[i].length);
		to += wqe->sge[i].length;
	}
}

/* Put a message into the inbox of the destination. */
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

/* Count a message; cut the destination's network off after the number that it has configured. */
static void
count_received(struct sim_arena *arena)
{
	uint64_t nb = atomic_fetch_add(&arena->nb_received, 1) + 1;

	if (arena->deaf_after != 0 && nb >= arena->deaf_after)
		arena->deaf = 1;
}

/* Call under the peer's lock. */
static enum sim_status
transmit_to(struct sim_qp *qp, struct sim_wqe *wqe, struct sim_peer *peer, uint32_t length)
{
	struct sim_inbox *inbox;
	enum sim_status status;

	if (!sim_peer_up(peer))
		return SIM_REMOTE_BAD_DEST_QPN; /* the process has ended, and its QPs with it */
	if (peer->arena->deaf || sim_host_arena()->deaf)
		return SIM_LOCAL_UNRESP_REMOTE;
	inbox = sim_peer_inbox(peer, wqe->ah->gid.raw[15], wqe->qpn);
	if (inbox == NULL || !inbox->open)
		return SIM_REMOTE_BAD_DEST_QPN;
	if (wqe->opcode == IBV_WR_RDMA_READ) {
		if (inbox->qkey != wqe->qkey)
			return SIM_REMOTE_BAD_DEST_QPN;
		return sim_peer_read(peer, inbox, wqe);
	}
	status = put(qp, wqe, inbox, length);
	if (status == SIM_OK)
		count_received(peer->arena);
	return status;
}

enum sim_status
sim_transmit(struct sim_qp *qp, struct sim_wqe *wqe)
{
	bool read = wqe->opcode == IBV_WR_RDMA_READ;
	struct sim_peer *peer = wqe->ah->peer;
	uint32_t length = sim_wqe_length(wqe);
	enum sim_status status = SIM_OK;

	if (wqe->ah->destroyed)
		return SIM_LOCAL_INVALID_AH;
	sim_mr_enter();
	for (uint32_t i = 0; i < wqe->nb && status == SIM_OK; i++)
		if (!sim_mr_local(qp->pd, &wqe->sge[i], read ? IBV_ACCESS_LOCAL_WRITE : 0))
			status = SIM_LOCAL_INVALID_LKEY;
	if (status == SIM_OK) {
		pthread_mutex_lock(&peer->lock);
		status = transmit_to(qp, wqe, peer, length);
		pthread_mutex_unlock(&peer->lock);
	}
	sim_mr_leave();
	if (status != SIM_OK)
		return status;
	if (read) {
		sim_count(SIM_STAT_READS, 1);
		sim_count(SIM_STAT_READ_BYTES, length);
	} else {
		sim_count(qp->datagram ? SIM_STAT_DATAGRAMS : SIM_STAT_SENDS, 1);
		sim_count(SIM_STAT_SEND_BYTES, length);
	}
	return SIM_OK;
}
