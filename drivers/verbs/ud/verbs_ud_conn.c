/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Peers of datagram endpoints. They connect as in verbs_cm.c, with these differences:
 *
 *     connect   route resolved, request with a hello --> answer --> UP      the id is destroyed
 *     listen    REQUESTED --accept, answer with a welcome--> UP             the id is destroyed
 *
 * Service ID resolution (SIDR) has no third message: the acceptor is up at once, and does not learn
 * whether its answer arrived. If the answer was lost, the kernel of the other side sends the
 * request again, and the acceptor answers again. The number of the attempt tells a repeated request
 * from the request of a new connector.
 *
 * A foreign program (not leat) sends no hello. Its address is known, but its queue pair only from
 * its first datagram on: until then the peer stays ACCEPTED. A foreign program uses the Q_Key that
 * rdma_cm gives to all programs.
 */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "verbs_cm.h"
#include "verbs_ud.h"

/* Reasons for which a request is refused: IBA 12.11.2. */
#define SIDR_UNSUPPORTED 1
#define SIDR_REJECT 2

static_assert(VB_UD_PRIV_CONNECT <= VB_PRIV_ROOM && VB_UD_PRIV_ACCEPT <= VB_PRIV_ROOM,
	      "private data are kept in the connection");

static bool
ethernet(const struct vb_ep *e)
{
	return e->dev->pattr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Convert an address to a GID: with RoCE they are the same. */
static void
addr_to_gid(const struct sockaddr *sa, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (sa->sa_family == AF_INET6) {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
}

/*
 * Find the index of a GID of this side: the GID that the device uses, or a different one, which
 * must be of RoCE v2. @return index; -ENOENT
 */
static int
gid_index(const struct vb_ep *e, const union ibv_gid *gid)
{
	const struct vb_dev *d = e->dev;
	int i, best = -ENOENT;
	struct vb_gid g;

	if (memcmp(gid->raw, d->sgid.gid.raw, 16) == 0)
		return d->gid;
	for (i = 0; i < d->pattr.gid_tbl_len && best < 0; i++) {
		if (vb_gid_get(e->ctx, d->port, i, &g) == 0 && g.roce2 &&
		    memcmp(gid->raw, g.gid.raw, 16) == 0)
			best = i;
	}
	return best;
}

/*
 * Set the address of a peer: sends go there from now on, and datagrams from there are attributed to
 * the peer. @return 0; negative errno with leat_err()
 */
static int
set_dest(struct vb_conn *c, struct ibv_ah_attr *attr, uint32_t qpn, uint32_t qkey)
{
	struct vb_ud *u = vb_ud_of(c->e);
	struct vb_dest *to = &u->dest[c->index];

	if (ethernet(c->e))
		c->ud.sender = (struct vb_sender){ .gid = attr->grh.dgid, .qpn = qpn };
	else
		vb_sender_lid(&c->ud.sender, attr->dlid, qpn);
	errno = 0;
	to->ah = ibv_create_ah(c->e->pd, attr);
	if (to->ah == NULL)
		return leat_err(errno != 0 ? errno : EIO,
				"%s: address handle: %s; the device's limit is %d", c->e->dev->name,
				strerror(errno != 0 ? errno : EIO), c->e->dev->attr.max_ah);
	to->qpn = qpn;
	to->qkey = qkey;
	if (qpn != 0)
		vb_sender_add(&u->senders, &c->ud.sender, c->index);
	else
		u->nb_silent++;
	return 0;
}

void
vb_ud_forget(struct vb_conn *c)
{
	struct vb_ud *u = vb_ud_of(c->e);
	struct vb_dest *to = &u->dest[c->index];
	int err;

	if (c->peer == NULL || to->ah == NULL)
		return;
	if (c->ud.sender.qpn != 0)
		vb_sender_del(&u->senders, &c->ud.sender, c->index);
	else
		u->nb_silent--;
	err = ibv_destroy_ah(to->ah);
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy address handle: %s", c->e->dev->name,
			 strerror(err));
	memset(to, 0, sizeof(*to));
}

static void
up(struct vb_conn *c, const uint8_t *priv, uint16_t len)
{
	vb_cm_drop_id(c);
	vb_conn_state(c, VB_UP);
	leat_peer_up(c->e->ep, c->peer, priv, len);
}

/* ---- connect ---- */

/* Send the request. @return 0; negative errno with leat_err() */
static int
send_request(struct vb_conn *c)
{
	struct vb_ud *u = vb_ud_of(c->e);
	struct vb_ud_hello h = { .qpn = u->qp != NULL ? u->qp->qp_num : 0,
				 .qkey = u->qkey,
				 .lid = ethernet(c->e) ? 0 : c->e->dev->pattr.lid,
				 .priv = c->priv,
				 .priv_len = (uint8_t)c->priv_len };
	struct rdma_conn_param p = { .qp_num = h.qpn };
	uint8_t buf[VB_SIDR_CONNECT];

	if (u->qp == NULL)
		return leat_err(EIO, "%s: the device failed", c->e->dev->name);
	while (c->ud.attempt == 0) /* 0 means none */
		c->ud.attempt = ++u->attempts;
	h.attempt = c->ud.attempt;
	p.private_data = buf;
	p.private_data_len = vb_ud_hello_put(buf, &h);
	if (rdma_connect(c->id, &p) != 0)
		return leat_err(errno, "%s: rdma_connect: %s", c->e->dev->name, strerror(errno));
	return 0;
}

void
vb_ud_connect(struct vb_conn *c)
{
	if (send_request(c) < 0)
		vb_cm_retry_later(c, -EHOSTUNREACH);
	else
		vb_conn_state(c, VB_CONNECTING);
}

void
vb_ud_answered(struct vb_conn *c, const struct vb_cm_event *ev)
{
	const struct rdma_ud_param *p = &ev->ud;
	struct ibv_ah_attr attr = p->ah_attr;
	struct vb_ud_hello h;

	if (c->state != VB_CONNECTING)
		return;
	if (!vb_ud_welcome_get(ev->priv, ev->priv_len, &h)) {
		if (vb_ud_of(c->e)->qkey != RDMA_UDP_QKEY) {
			vb_cm_give_up(
				c, -EPROTO,
				"the other side is not a leat datagram endpoint; to connect to "
				"other programs, set qkey=0x01234567, the Q_Key of rdma_cm");
			return;
		}
		h.qkey = p->qkey;
		h.priv = ev->priv;
		h.priv_len = (uint8_t)ev->priv_len;
	}
	if (!ethernet(c->e))
		attr.is_global = 0;
	if (set_dest(c, &attr, p->qp_num, h.qkey) < 0) {
		vb_cm_give_up(c, -EIO, leat_err_msg());
		return;
	}
	up(c, h.priv, h.priv_len);
}

enum vb_refusal
vb_ud_refusal(const struct vb_ep *e, const struct vb_cm_event *ev)
{
	RTE_SET_USED(e);
	if (ev->type == RDMA_CM_EVENT_UNREACHABLE && ev->status == SIDR_REJECT)
		return VB_REJECTED;
	if (ev->type == RDMA_CM_EVENT_REJECTED || ev->status == SIDR_UNSUPPORTED)
		return VB_NOT_LISTENING;
	return VB_NO_ANSWER;
}

/* ---- listen ---- */

/* Send the answer to a request. @return 0; negative errno */
static int
welcome(struct vb_conn *c, struct rdma_cm_id *id)
{
	struct vb_ud *u = vb_ud_of(c->e);
	struct vb_ud_hello h = { .qkey = u->qkey,
				 .priv = c->priv,
				 .priv_len = (uint8_t)c->priv_len };
	struct rdma_conn_param p = { .qp_num = u->qp->qp_num };
	uint8_t buf[VB_SIDR_ACCEPT];

	if (c->ud.foreign) {
		p.private_data = c->priv;
		p.private_data_len = (uint8_t)c->priv_len;
	} else {
		p.private_data = buf;
		p.private_data_len = vb_ud_welcome_put(buf, &h);
	}
	return rdma_accept(id, &p) == 0 ? 0 : -errno;
}

/*
 * Find the connection that an earlier copy of this request made, or NULL. A sender may have several
 * connections to this endpoint, so compare the number of the attempt as well.
 */
static struct vb_conn *
find_attempt(struct vb_ep *e, const struct vb_sender *sender, const struct vb_ud_hello *h)
{
	const struct vb_sender_map *m = &vb_ud_of(e)->senders;
	struct vb_conn *c;
	uint16_t peer;

	for (peer = vb_sender_find(m, sender); peer != LEAT_PEER_ANY;
	     peer = vb_sender_older(m, sender, peer)) {
		c = e->conns[peer];
		if (c != NULL && c->ud.passive && c->ud.attempt == h->attempt &&
		    c->ud.qkey == h->qkey)
			return c;
	}
	return NULL;
}

/* Answer a repeated request, whose first answer was lost. @return false: it is a new request */
static bool
asked_before(struct vb_ep *e, struct rdma_cm_id *id, const struct vb_ud_hello *h)
{
	struct vb_sender sender;
	struct vb_conn *c;

	if (ethernet(e)) {
		sender.qpn = h->qpn;
		addr_to_gid(rdma_get_peer_addr(id), &sender.gid);
	} else {
		vb_sender_lid(&sender, h->lid, h->qpn);
	}
	c = find_attempt(e, &sender, h);
	if (c == NULL)
		return false;
	if (welcome(c, id) < 0)
		LEAT_LOG(DEBUG, driver, "%s: rdma_accept: %s", e->dev->name, strerror(errno));
	if (rdma_destroy_id(id) != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy rdma_cm id: %s", e->dev->name,
			 strerror(errno));
	return true;
}

/*
 * Fill in h for a request of a program that is not leat, or refuse the request if the Q_Key does
 * not permit it. @return false: refused
 */
static bool
take_foreign(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_ud_hello *h)
{
	if (vb_ud_of(e)->qkey != RDMA_UDP_QKEY || !ethernet(e)) {
		vb_cm_refuse(e, ev->id,
			     "the connector is not a leat datagram endpoint; with RoCE, "
			     "qkey=0x01234567 accepts others too");
		return false;
	}
	*h = (struct vb_ud_hello){ .qkey = RDMA_UDP_QKEY,
				   .priv = ev->priv,
				   .priv_len = (uint8_t)ev->priv_len };
	return true;
}

bool
vb_ud_request(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req)
{
	struct vb_ud_hello *h = &req->hello.ud;

	if (vb_ud_hello_get(ev->priv, ev->priv_len, h) ? asked_before(e, ev->id, h)
						       : !take_foreign(e, ev, h))
		return false;
	req->priv = h->priv;
	req->len = h->priv_len;
	return true;
}

void
vb_ud_requested(struct vb_conn *c, const struct vb_cm_event *ev, const struct vb_request *req)
{
	const struct vb_ud_hello *h = &req->hello.ud;

	RTE_SET_USED(ev);
	c->ud.passive = true;
	c->ud.foreign = h->qpn == 0;
	c->ud.attempt = h->attempt;
	c->ud.qkey = h->qkey;
	c->ud.sender.qpn = h->qpn;
	c->ud.lid = h->lid;
}

static int
address(struct vb_conn *c, struct ibv_ah_attr *attr)
{
	const struct vb_dev *d = c->e->dev;
	union ibv_gid own;
	int index;

	memset(attr, 0, sizeof(*attr));
	attr->port_num = d->port;
	if (!ethernet(c->e)) {
		attr->dlid = c->ud.lid;
		return 0;
	}
	addr_to_gid(rdma_get_local_addr(c->id), &own);
	index = gid_index(c->e, &own);
	if (index < 0)
		return leat_err(EADDRNOTAVAIL, "%s: the request came to an address without a GID",
				d->name);
	attr->is_global = 1;
	addr_to_gid(rdma_get_peer_addr(c->id), &attr->grh.dgid);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = 64;
	attr->grh.traffic_class = d->args.tos > UINT8_MAX ? 0 : (uint8_t)d->args.tos;
	return 0;
}

int
vb_ud_accept(struct vb_conn *c, const struct leat_conn_params *params)
{
	struct leat_peer *peer = c->peer;
	struct vb_ep *e = c->e;
	struct ibv_ah_attr attr;
	char text[LEAT_EVENT_TEXT];
	int ret;

	if (vb_ud_of(e)->qp == NULL)
		return leat_err(EIO, "%s: accept: the device failed", e->dev->name);
	ret = address(c, &attr);
	if (ret == 0)
		ret = set_dest(c, &attr, c->ud.sender.qpn, c->ud.qkey);
	if (ret < 0)
		return ret;
	c->priv_len = params->priv_len;
	if (params->priv_len > 0)
		memcpy(c->priv, params->priv, params->priv_len);
	ret = welcome(c, c->id);
	if (ret < 0) {
		snprintf(text, sizeof(text), "%s: rdma_accept: %s", leat_peer_addr(e->ep, peer),
			 strerror(-ret));
		leat_peer_closing(e->ep, peer, -ECONNRESET, text);
		vb_conn_free(c);
		leat_peer_down(e->ep, peer);
		return 0;
	}
	if (c->ud.foreign) {
		vb_cm_drop_id(c);
		vb_conn_state(c, VB_ACCEPTED);
	} else {
		up(c, NULL, 0);
	}
	return 0;
}

uint16_t
vb_ud_learn(struct vb_ud *u, const struct vb_sender *sender)
{
	struct vb_conn *c;

	TAILQ_FOREACH(c, &u->e.busy, link) {
		if (c->state != VB_ACCEPTED || memcmp(&c->ud.sender.gid, &sender->gid, 16) != 0)
			continue;
		c->ud.sender.qpn = sender->qpn;
		u->nb_silent--;
		u->dest[c->index].qpn = sender->qpn;
		vb_sender_add(&u->senders, sender, c->index);
		up(c, NULL, 0);
		return c->index;
	}
	return LEAT_PEER_ANY;
}

/* ---- the end of a connection ---- */

/*
 * End a connection. The peer is not notified. Datagrams in flight to it are sent soon, without
 * waiting for the peer.
 */
void
vb_ud_end(struct vb_conn *c, int status, const char *text)
{
	struct vb_ud *u = vb_ud_of(c->e);

	if (c->ud.sender.qpn != 0)
		vb_sender_del(&u->senders, &c->ud.sender, c->index);
	vb_conn_state(c, VB_ENDING);
	leat_peer_closing(c->e->ep, c->peer, status, text);
}

void
vb_ud_ending(struct vb_conn *c, uint64_t now)
{
	struct leat_peer *peer = c->peer;
	struct leat_ep *ep = c->e->ep;

	RTE_SET_USED(now);
	if (leat_peer_inflight(peer) > 0)
		return;
	vb_conn_free(c);
	leat_peer_down(ep, peer);
}
