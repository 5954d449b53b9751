/* SPDX-License-Identifier: BSD-3-Clause */

/* Listening, and the answers to requests. verbs_cm.c handles the later events of a connection. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "verbs_cm.h"

#define BACKLOG 256

int
vb_listen(struct leat_ep *ep, const char *addr)
{
	struct vb_ep *e = vb_of(ep);
	struct sockaddr_storage ss;
	int err, ret;

	ret = vb_addr_listen(e->dev, addr, &ss);
	if (ret < 0)
		return ret;
	if (rdma_create_id(e->channel, &e->listener, NULL, e->dev->transport->port_space) != 0) {
		e->listener = NULL;
		return leat_err(errno, "%s: listen %s: rdma_cm: %s", e->dev->name, addr,
				strerror(errno));
	}
	vb_cm_set_tos(e, e->listener);
	if (rdma_bind_addr(e->listener, (struct sockaddr *)&ss) == 0 &&
	    (e->listener->verbs == NULL || vb_cm_is_ours(e, e->listener)) &&
	    rdma_listen(e->listener, BACKLOG) == 0)
		return 0;
	err = e->listener->verbs != NULL && !vb_cm_is_ours(e, e->listener) ? EADDRNOTAVAIL : errno;
	if (err == ENODEV)
		err = EADDRNOTAVAIL;
	(void)rdma_destroy_id(e->listener); /* can't fail for a new id */
	e->listener = NULL;
	return leat_err(err, "%s: listen %s: %s%s%s", e->dev->name, addr, strerror(err),
			err == EADDRNOTAVAIL ? ": not an address of device " : "",
			err == EADDRNOTAVAIL ? ibv_get_device_name(e->dev->ibdev) : "");
}

int
vb_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	struct vb_ep *e = vb_of(ep);
	char buf[LEAT_ADDR_MAX];

	vb_addr_str(rdma_get_local_addr(e->listener), buf, sizeof(buf));
	if (strlen(buf) >= len)
		return leat_err(ENOSPC, "%s: the address %s takes %zu B", e->dev->name, buf,
				strlen(buf) + 1);
	memcpy(addr, buf, strlen(buf) + 1);
	return 0;
}

void
vb_cm_refuse(struct vb_ep *e, struct rdma_cm_id *id, const char *why)
{
	char addr[LEAT_ADDR_MAX];

	vb_addr_str(rdma_get_peer_addr(id), addr, sizeof(addr));
	LEAT_LOG(INFO, driver, "%s: endpoint %s: request of %s refused: %s", e->dev->name,
		 leat_ep_name(e->ep), addr, why);
	if (vb_cm_send_reject(e, id) != 0)
		LEAT_LOG(DEBUG, driver, "%s: rdma_reject: %s", e->dev->name, strerror(errno));
	if (rdma_destroy_id(id) != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy rdma_cm id: %s", e->dev->name,
			 strerror(errno));
}

void
vb_cm_request(struct vb_ep *e, const struct vb_cm_event *ev)
{
	const struct vb_transport *t = e->dev->transport;
	char addr[LEAT_ADDR_MAX];
	struct vb_request req;
	struct leat_peer *peer;
	struct vb_conn *c;

	ev->id->context = NULL; /* it was inherited from the listener */
	if (!vb_cm_is_ours(e, ev->id)) {
		vb_cm_refuse(e, ev->id, "it came through another device");
		return;
	}
	if (e->dead || e->quiesce) {
		vb_cm_refuse(e, ev->id, "the endpoint is closing");
		return;
	}
	if (!t->request(e, ev, &req))
		return;
	vb_addr_str(rdma_get_peer_addr(ev->id), addr, sizeof(addr));
	peer = leat_peer_request(e->ep, addr, req.priv, req.len);
	if (peer == NULL) {
		vb_cm_refuse(e, ev->id, "no room for another peer");
		return;
	}
	c = vb_conn_new(e, peer, ev->id, VB_REQUESTED);
	if (c == NULL) {
		vb_cm_refuse(e, ev->id, "out of memory");
		leat_peer_closing(e->ep, peer, -ENOMEM, "out of memory for a connection");
		leat_peer_down(e->ep, peer);
		return;
	}
	ev->id->context = c;
	t->requested(c, ev, &req);
}

int
vb_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct vb_ep *e = vb_of(ep);

	if (vb_cm_priv_check(e, "accept", params->priv_len, e->dev->priv_accept) < 0)
		return -EINVAL;
	return e->dev->transport->accept(peer->drv, params);
}

void
vb_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct vb_conn *c = peer->drv;

	(void)vb_cm_send_reject(vb_of(ep),
				c->id); /* fails if the connector took its request back */
	vb_conn_free(c);
}
