/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connecting over rdma_cm. The program on the other side need not be leat:
 *
 *     connect   LOOKUP --name--> RESOLVING --address, route--> CONNECTING --response--> UP
 *                                   ^                             | no listener, no answer:
 *                                   |                             | until the time is up
 *                                   `---------- BACKOFF <---------'
 *     listen    REQUESTED --accept--> ACCEPTED --established--> UP
 *
 * Each event is copied and acknowledged before it is handled. Handling it may destroy its id, and
 * rdma_destroy_id() waits until the id's events are acknowledged.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_cm.h"

#define RESOLVE_MS 2000
#define BACKOFF_MIN_US 10000
#define BACKOFF_MAX_US 200000
#define EVENTS_PER_STEP 64

static void
copy_event(struct vb_cm_event *to, const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;

	memset(to, 0, sizeof(*to));
	to->id = ev->id;
	to->listen_id = ev->listen_id;
	to->type = ev->event;
	to->status = ev->status;
	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		/*
		 * rdma_cm has swapped the sender's two counts of READs: responder_resources is how
		 * many READs this side is to answer at a time.
		 */
		if (ev->id->ps == RDMA_PS_UDP) {
			to->ud = ev->param.ud;
			to->ud.private_data = NULL; /* copied below */
		} else {
			to->rd_atom = p->responder_resources;
			to->init_rd_atom = p->initiator_depth;
		}
		/* Both types of parameters begin with the private data and their length. */
		if (p->private_data != NULL)
			to->priv_len = RTE_MIN(p->private_data_len, (uint8_t)UINT8_MAX);
		memcpy(to->priv, p->private_data != NULL ? p->private_data : "", to->priv_len);
		break;
	default:
		break;
	}
}

bool
vb_cm_is_ours(const struct vb_ep *e, const struct rdma_cm_id *id)
{
	return id->verbs != NULL && strcmp(ibv_get_device_name(id->verbs->device),
					   ibv_get_device_name(e->dev->ibdev)) == 0;
}

void
vb_cm_set_tos(struct vb_ep *e, struct rdma_cm_id *id)
{
	uint8_t tos = (uint8_t)e->dev->args.tos;

	if (e->dev->args.tos > UINT8_MAX)
		return;
	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) != 0)
		LEAT_LOG(WARNING, driver, "%s: tos=%u: %s", e->dev->name, tos, strerror(errno));
}

int
vb_cm_priv_check(const struct vb_ep *e, const char *what, uint16_t len, uint16_t max)
{
	if (len <= max)
		return 0;
	return leat_err(EINVAL,
			"%s: %s: %u B of private data: the connection manager of RDMA carries %u",
			e->dev->name, what, len, max);
}

/* Send a rejection. @return 0; -1 with errno: the connector took its request back */
int
vb_cm_send_reject(const struct vb_ep *e, struct rdma_cm_id *id)
{
	uint8_t no[VB_HELLO];

	if (!e->dev->rules.credits)
		return rdma_reject(id, NULL, 0);
	vb_hello_no(no);
	return rdma_reject(id, no, sizeof(no));
}

/* ---- connect ---- */

void
vb_cm_drop_id(struct vb_conn *c)
{
	if (c->id != NULL && rdma_destroy_id(c->id) != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy rdma_cm id: %s", c->e->dev->name,
			 strerror(errno));
	c->id = NULL;
}

void
vb_cm_give_up(struct vb_conn *c, int status, const char *why)
{
	struct leat_peer *peer = c->peer;
	struct leat_ep *ep = c->e->ep;
	char text[LEAT_EVENT_TEXT];

	snprintf(text, sizeof(text), "connect %s: %.120s", leat_peer_addr(ep, peer), why);
	vb_conn_free(c);
	leat_peer_failed(ep, peer, status, text);
}

void
vb_cm_retry_later(struct vb_conn *c, int cause)
{
	c->e->dev->transport->release(c);
	vb_cm_drop_id(c);
	c->cause = cause;
	c->at = leat_now() + leat_us_to_cycles(c->backoff_us);
	c->backoff_us = RTE_MIN(2 * c->backoff_us, (uint32_t)BACKOFF_MAX_US);
	vb_conn_state(c, VB_BACKOFF);
}

/* Look up the host's name. The address was checked, so a failure means too many lookups. */
static void
look_up(struct vb_conn *c)
{
	if (vb_addr_connect(leat_peer_addr(c->e->ep, c->peer), &c->dst, &c->lookup) < 0)
		vb_cm_retry_later(c, -EHOSTUNREACH);
	else
		vb_conn_state(c, VB_LOOKUP);
}

static void
attempt(struct vb_conn *c)
{
	struct vb_ep *e = c->e;

	if (c->dst.ss_family == AF_UNSPEC) {
		look_up(c);
		return;
	}
	vb_conn_state(c, VB_RESOLVING);
	c->rd_atom = e->dev->rd_atom;
	c->init_rd_atom = e->dev->init_rd_atom;
	if (rdma_create_id(e->channel, &c->id, c, e->dev->transport->port_space) != 0) {
		c->id = NULL;
		vb_cm_retry_later(c, -EIO);
		return;
	}
	vb_cm_set_tos(e, c->id);
	if (rdma_resolve_addr(c->id, vb_src_for(e->dev, c->dst.ss_family),
			      (struct sockaddr *)&c->dst, RESOLVE_MS) != 0)
		vb_cm_retry_later(c, -EHOSTUNREACH);
}

static void
looked_up(struct vb_conn *c)
{
	const char *why = NULL;
	char text[LEAT_EVENT_TEXT];

	switch (vb_addr_looked_up(c->e->dev, &c->lookup, &c->dst, &why)) {
	case -EINPROGRESS:
		break;
	case 0:
		attempt(c);
		break;
	case -EAGAIN:
		vb_cm_retry_later(c, -EHOSTUNREACH);
		break;
	default:
		snprintf(text, sizeof(text), "the host's name can't be resolved: %s", why);
		vb_cm_give_up(c, -EHOSTUNREACH, text);
		break;
	}
}

static void
addr_resolved(struct vb_conn *c)
{
	if (!vb_cm_is_ours(c->e, c->id)) {
		vb_cm_give_up(
			c, -EHOSTUNREACH,
			"the route leads through another device: see ip route, dev= and addr=");
		return;
	}
	if (rdma_resolve_route(c->id, RESOLVE_MS) != 0)
		vb_cm_retry_later(c, -EHOSTUNREACH);
}

static void
timed_out(struct vb_conn *c)
{
	if (c->state == VB_LOOKUP) {
		vb_cm_give_up(c, -EHOSTUNREACH, "the host's name was not resolved in time");
		return;
	}
	if (c->state == VB_CONNECTING) {
		vb_cm_give_up(
			c, -ETIMEDOUT,
			"no answer in time: does the other side call leat_ep_events() and accept?");
		return;
	}
	switch (c->cause) {
	case -ECONNREFUSED:
		vb_cm_give_up(c, -ECONNREFUSED, "no program listens there");
		break;
	case -EHOSTUNREACH:
		vb_cm_give_up(
			c, -EHOSTUNREACH,
			"name, address or route can't be resolved: see ip route, ping, rdma link");
		break;
	default:
		vb_cm_give_up(c, -ETIMEDOUT, "no answer in time: host down, or packets filtered?");
		break;
	}
}

void
vb_cm_step(struct vb_conn *c, uint64_t now)
{
	switch ((enum vb_state)c->state) {
	case VB_LOOKUP:
	case VB_RESOLVING:
	case VB_CONNECTING:
	case VB_BACKOFF:
		if (now >= c->deadline)
			timed_out(c);
		else if (c->state == VB_LOOKUP)
			looked_up(c);
		else if (c->state == VB_BACKOFF && now >= c->at)
			attempt(c);
		break;
	default:
		break;
	}
}

int
vb_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	   const struct leat_conn_params *params)
{
	struct vb_ep *e = vb_of(ep);
	struct sockaddr_storage dst = { .ss_family = AF_UNSPEC };
	struct leat_lookup *lookup = NULL;
	struct vb_conn *c;

	if (vb_cm_priv_check(e, "connect", params->priv_len, e->dev->priv_connect) < 0 ||
	    vb_addr_connect(addr, &dst, &lookup) == -EINVAL)
		return -EINVAL;
	c = vb_conn_new(e, peer, NULL, VB_LOOKUP);
	if (c == NULL) {
		if (lookup != NULL)
			leat_lookup_drop(lookup);
		return -ENOMEM;
	}
	c->dst = dst;
	c->lookup = lookup;
	c->deadline = leat_time_add(leat_now(), leat_us_to_cycles(params->timeout_us));
	c->backoff_us = BACKOFF_MIN_US;
	c->cause = -ETIMEDOUT;
	c->priv_len = params->priv_len;
	if (params->priv_len > 0)
		memcpy(c->priv, params->priv, params->priv_len);
	if (lookup == NULL)
		attempt(c);
	return 0;
}

/* ---- events ---- */

/* Handle the failure of an attempt to connect, or of a request to this side. */
static void
failed(struct vb_conn *c, const struct vb_cm_event *ev)
{
	struct leat_peer *peer = c->peer;
	struct leat_ep *ep = c->e->ep;
	char text[LEAT_EVENT_TEXT];

	switch ((enum vb_state)c->state) {
	case VB_RESOLVING:
		vb_cm_retry_later(c, -EHOSTUNREACH);
		break;
	case VB_CONNECTING:
		switch (c->e->dev->transport->refusal(c->e, ev)) {
		case VB_REJECTED:
			vb_cm_give_up(c, -ECONNREFUSED, "rejected, or its peer table is full");
			break;
		case VB_NOT_LISTENING:
			vb_cm_retry_later(c, -ECONNREFUSED);
			break;
		case VB_NO_ANSWER:
			vb_cm_retry_later(c, -ETIMEDOUT);
			break;
		}
		break;
	case VB_REQUESTED:
		snprintf(text, sizeof(text), "%s: the peer withdrew its request to connect",
			 leat_peer_addr(ep, peer));
		leat_peer_closing(ep, peer, -ECONNRESET, text);
		vb_conn_free(c);
		leat_peer_down(ep, peer);
		break;
	case VB_UP:
		/*
		 * For a connection that is up the kernel raises this event when the neighbour's
		 * hardware address is lost, for example while the link is down for a moment. The
		 * connection ends only when the queue pair has no retries left.
		 */
		LEAT_LOG(WARNING, driver, "%s: endpoint %s: %s: out of reach at the moment",
			 c->e->dev->name, leat_ep_name(ep), leat_peer_addr(ep, peer));
		break;
	case VB_ACCEPTED:
		c->disconnect = true;
		snprintf(text, sizeof(text), "%s: the peer left before the connection was up",
			 leat_peer_addr(ep, peer));
		vb_conn_end(c, -ECONNRESET, text);
		break;
	default:
		c->disconnect = true;
		break;
	}
}

static void
disconnected(struct vb_conn *c)
{
	if (c->state == VB_UP)
		c->e->dev->transport->left(c);
	else if (c->state == VB_ENDING || c->state == VB_ZOMBIE)
		c->disconnect = true;
	else
		failed(c, &(struct vb_cm_event){ .type = RDMA_CM_EVENT_UNREACHABLE });
}

static void
on_event(struct vb_ep *e, const struct vb_cm_event *ev)
{
	struct vb_conn *c = ev->id->context;
	char text[LEAT_EVENT_TEXT];

	if (e->dead && ev->type != RDMA_CM_EVENT_CONNECT_REQUEST)
		return; /* vb_ep_close() comes next, and needs no events */
	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		vb_cm_request(e, ev);
		return;
	}
	if (c == NULL)
		return; /* an event of the listener */
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		addr_resolved(c);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		e->dev->transport->connect(c);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		e->dev->transport->answered(c, ev);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		failed(c, ev);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(c);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		c->disconnect = true;
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		snprintf(text, sizeof(text), "device %s was removed",
			 ibv_get_device_name(e->dev->ibdev));
		c->disconnect = true;
		if (c->state == VB_UP || c->state == VB_ACCEPTED)
			vb_conn_end(c, -EIO, text);
		else if (c->state <= VB_BACKOFF)
			vb_cm_give_up(c, -EIO, "the device was removed");
		break;
	default:
		break;
	}
}

void
vb_cm_events(struct vb_ep *e)
{
	struct rdma_cm_event *raw;
	struct vb_cm_event ev;
	unsigned int i;

	for (i = 0; i < EVENTS_PER_STEP && rdma_get_cm_event(e->channel, &raw) == 0; i++) {
		copy_event(&ev, raw);
		if (rdma_ack_cm_event(raw) != 0)
			LEAT_LOG(WARNING, driver, "%s: rdma_ack_cm_event: %s", e->dev->name,
				 strerror(errno));
		LEAT_LOG(DEBUG, driver, "%s: endpoint %s: %s, status %d", e->dev->name,
			 leat_ep_name(e->ep), rdma_event_str(ev.type), ev.status);
		on_event(e, &ev);
	}
}
