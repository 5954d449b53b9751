/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections: their states and their end, asynchronous events of the device, progress. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_transport.h"

#define EVENTS_PER_STEP 64

void
vb_conn_state(struct vb_conn *c, enum vb_state state)
{
	bool busy = state != VB_UP;

	c->state = (uint8_t)state;
	if (busy == c->busy)
		return;
	c->busy = busy;
	if (busy)
		TAILQ_INSERT_TAIL(&c->e->busy, c, link);
	else
		TAILQ_REMOVE(&c->e->busy, c, link);
}

struct vb_conn *
vb_conn_new(struct vb_ep *e, struct leat_peer *peer, struct rdma_cm_id *id, enum vb_state state)
{
	struct vb_conn *c = aligned_alloc(LEAT_CACHE_LINE, RTE_CACHE_LINE_ROUNDUP(sizeof(*c)));

	if (c == NULL) {
		leat_err(ENOMEM, "%s: connection: out of memory", e->dev->name);
		return NULL;
	}
	memset(c, 0, sizeof(*c));
	c->e = e;
	c->peer = peer;
	c->index = peer->id;
	c->id = id;
	c->rd_atom = e->dev->rd_atom;
	c->init_rd_atom = e->dev->init_rd_atom;
	e->conns[peer->id] = c;
	peer->drv = c;
	vb_conn_state(c, state);
	return c;
}

void
vb_conn_detach(struct vb_conn *c)
{
	struct vb_ep *e = c->e;

	if (c->peer == NULL)
		return;
	e->conns[c->index] = NULL;
	c->peer->drv = NULL;
	c->peer = NULL;
}

void
vb_conn_free(struct vb_conn *c)
{
	c->e->dev->transport->release(c);
	vb_conn_detach(c);
	if (c->busy)
		TAILQ_REMOVE(&c->e->busy, c, link);
	vb_cm_drop_id(c);
	if (c->lookup != NULL)
		leat_lookup_drop(c->lookup);
	free(c->sq);
	free(c);
}

void
vb_conn_end(struct vb_conn *c, int status, const char *text)
{
	if (c->state != VB_ENDING && c->state != VB_ZOMBIE)
		c->e->dev->transport->end(c, status, text);
}

void
vb_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct vb_conn *c = peer->drv;

	if (c == NULL)
		return;
	if (c->state == VB_UP || c->state == VB_ACCEPTED || c->state == VB_ENDING) {
		vb_conn_end(c, status, text);
		return;
	}
	leat_peer_closing(ep, peer, status, text);
	vb_conn_free(c);
	leat_peer_down(ep, peer);
}

/* ---- asynchronous events of the device ---- */

void
vb_conns_end(struct vb_ep *e, const char *text)
{
	uint32_t i;

	for (i = 0; i < e->nb_peers; i++) {
		struct vb_conn *c = e->conns[i];

		if (c != NULL && (c->state == VB_UP || c->state == VB_ACCEPTED))
			vb_conn_end(c, -EIO, text);
	}
}

static void
qp_event(struct vb_conn *c, const struct ibv_async_event *ev)
{
	char text[LEAT_EVENT_TEXT];

	if (c == NULL)
		return; /* a queue pair of the loop, or of a datagram endpoint */
	switch (ev->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		c->last_wqe = true;
		break;
	case IBV_EVENT_COMM_EST:
		/*
		 * A message arrived before the peer's "ready" (RTU). The message establishes the
		 * connection as well.
		 */
		if (c->state == VB_ACCEPTED && rdma_notify(c->id, IBV_EVENT_COMM_EST) != 0)
			LEAT_LOG(DEBUG, driver, "%s: rdma_notify: %s", c->e->dev->name,
				 strerror(errno));
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		if (c->peer == NULL)
			break;
		snprintf(text, sizeof(text), "%s: queue pair failed: %s",
			 leat_peer_addr(c->e->ep, c->peer), ibv_event_type_str(ev->event_type));
		vb_conn_end(c, ev->event_type == IBV_EVENT_QP_FATAL ? -EIO : -EPROTO, text);
		break;
	default:
		break;
	}
}

static void
async_event(struct vb_ep *e, const struct ibv_async_event *ev)
{
	const char *what = ibv_event_type_str(ev->event_type);
	char text[LEAT_EVENT_TEXT];

	switch (ev->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		qp_event(ev->element.qp->qp_context, ev);
		break;
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		LEAT_LOG(ERR, driver, "%s: endpoint %s: %s: see dmesg", e->dev->name,
			 leat_ep_name(e->ep), what);
		snprintf(text, sizeof(text), "%s: %s: see dmesg",
			 ibv_get_device_name(e->dev->ibdev), what);
		e->dev->transport->device_failed(e, text);
		break;
	case IBV_EVENT_PORT_ERR:
		/* The port may be active again before the retries run out. */
		LEAT_LOG(WARNING, driver, "%s: port %d: %s", e->dev->name, ev->element.port_num,
			 what);
		break;
	default:
		LEAT_LOG(INFO, driver, "%s: %s", e->dev->name, what);
		break;
	}
}

static void
async_events(struct vb_ep *e)
{
	struct ibv_async_event ev;
	unsigned int i;

	for (i = 0; i < EVENTS_PER_STEP && ibv_get_async_event(e->ctx, &ev) == 0; i++) {
		async_event(e, &ev);
		ibv_ack_async_event(&ev);
	}
}

void
vb_progress(struct leat_ep *ep, uint64_t now)
{
	struct vb_ep *e = vb_of(ep);
	struct vb_conn *c, *next;

	vb_cm_events(e);
	if (e->dead)
		return; /* no op is in flight, and vb_ep_close() comes next */
	async_events(e);
	for (c = TAILQ_FIRST(&e->busy); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		switch ((enum vb_state)c->state) {
		case VB_ENDING:
			e->dev->transport->ending(c, now);
			break;
		case VB_ZOMBIE:
			if (c->disconnect || now >= c->deadline)
				vb_conn_free(c);
			break;
		default:
			vb_cm_step(c, now);
			break;
		}
	}
	e->dev->transport->progress(e, now);
}
