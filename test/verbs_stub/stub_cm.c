/* SPDX-License-Identifier: BSD-3-Clause */

/* rdma_cm: every connect is accepted at once, though there is no peer. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stub_pvt.h"

#define QUEUE 64

struct stub_channel {
	struct rdma_event_channel ch;
	struct rdma_cm_event queue[QUEUE];
	uint32_t head, tail;
};

struct stub_id {
	struct rdma_cm_id id;
	struct ibv_context ctx; /* only its device is used */
};

static struct stub_channel *
channel_of(struct rdma_event_channel *ch)
{
	return (struct stub_channel *)ch;
}

void
stub_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct stub_channel *ch = channel_of(id->channel);
	struct rdma_cm_event *ev = &ch->queue[ch->tail++ % QUEUE];

	memset(ev, 0, sizeof(*ev));
	ev->id = id;
	ev->event = type;
	ev->status = status;
	ev->param.conn.responder_resources = 16;
	ev->param.conn.initiator_depth = 16;
}

void
stub_request(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) != 0)
		abort();
	(void)rdma_bind_addr(id, NULL); /* can't fail */
	stub_cm_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct stub_channel *ch = calloc(1, sizeof(*ch));

	if (ch == NULL)
		return NULL;
	ch->ch.fd = eventfd(0, EFD_CLOEXEC);
	return &ch->ch;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	(void)close(ch->fd); /* can't lose data: nothing was written */
	free(channel_of(ch));
}

int
rdma_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	struct stub_channel *s = channel_of(ch);

	/* Drop the events of ids that were destroyed. */
	while (s->head != s->tail && s->queue[s->head % QUEUE].id == NULL)
		s->head++;
	if (s->head == s->tail) {
		errno = EAGAIN;
		return -1;
	}
	*ev = &s->queue[s->head++ % QUEUE];
	return 0;
}

int
rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	(void)ev;
	return 0;
}

int
rdma_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context,
	       enum rdma_port_space ps)
{
	struct stub_id *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -1;
	s->id.channel = ch;
	s->id.context = context;
	s->id.ps = ps;
	*id = &s->id;
	sim.ids++;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	struct stub_channel *ch = channel_of(id->channel);
	uint32_t i;

	for (i = ch->head; i != ch->tail; i++) {
		if (ch->queue[i % QUEUE].id == id)
			ch->queue[i % QUEUE].id = NULL;
	}
	free(id);
	sim.ids--;
	return 0;
}

/* Every local address belongs to sim0; with sim.no_device, to no device. */
int
rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct stub_id *s = (struct stub_id *)id;

	(void)addr;
	if (sim.no_device)
		return 0;
	s->ctx.device = ibv_get_device_list(NULL)[0];
	id->verbs = &s->ctx;
	id->port_num = 1;
	return 0;
}

/* Addresses with port 7000 are reached through sim0, all others through sim1. */
int
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct stub_id *s = (struct stub_id *)id;
	int nr = ((struct sockaddr_in *)dst)->sin_port == htobe16(7000) ? 0 : 1;

	(void)src;
	(void)timeout_ms;
	s->ctx.device = ibv_get_device_list(NULL)[nr];
	id->verbs = &s->ctx;
	id->port_num = 1;
	stub_cm_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int
rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	stub_cm_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int
rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)param;
	stub_cm_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	return 0;
}

int
rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int
rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	attr->path_mtu = IBV_MTU_4096;
	attr->timeout = 17; /* not the value that the driver sets */
	*mask = IBV_QP_STATE | (attr->qp_state == IBV_QPS_RTS ? STUB_RTS_MASK : 0);
	return 0;
}

int
rdma_disconnect(struct rdma_cm_id *id)
{
	stub_cm_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	return 0;
}
