/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reliable connections: what RC adds to verbs_cm.c, and how they end:
 *
 *     connect   route resolved, queue pair, request --> response: queue pair to RTS, "ready" --> UP
 *     listen    REQUESTED --accept: queue pair to RTS, response--> ACCEPTED --"ready"--> UP
 *
 *     UP --a completion failed, or one side disconnects--> ENDING
 *
 *     ENDING   the QP is in error, its requests complete as flushed
 *       |      ... until all are complete, or LIMIT_US passed: QP destroyed, the rest finished
 *       v
 *     ZOMBIE   after leat_peer_down(); waits for the other side's connection manager
 *
 * A peer is reported down only after its QP was destroyed: no message of it arrives later.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_cm.h"
#include "verbs_rc.h"

/* Bytes of private data, with iWARP's hello in front of them. */
#define CM_PRIV (VB_PRIV_ACCEPT + VB_HELLO)
/* Reason of a rejection by the application itself: IBA 12.6.7.2. */
#define REJ_CONSUMER 28
/*
 * us. How long the device may take to complete the requests of a QP in error. After that the QP is
 * destroyed, and the device no longer uses the buffers of the requests.
 */
#define LIMIT_US 2000000
/*
 * us. How long to wait, after all sends have completed, for receives that the QP was using: not
 * every device reports that the QP uses none any more.
 */
#define SETTLE_US 20000
/* us. How long to wait for the answer to a disconnect. */
#define ZOMBIE_US 2000000

/* ---- connect ---- */

/* Set the parameters of connect or accept. buf: CM_PRIV bytes that must live as long as p. */
static void
set_param(const struct vb_conn *c, struct rdma_conn_param *p, const void *priv, uint16_t len,
	  uint8_t *buf)
{
	const struct vb_args *a = &c->e->dev->args;

	memset(p, 0, sizeof(*p));
	if (c->credit != NULL) {
		vb_hello_write(c, buf);
		memcpy(buf + VB_HELLO, len > 0 ? priv : "", len);
		priv = buf;
		len += VB_HELLO;
	}
	p->private_data = len > 0 ? priv : NULL;
	p->private_data_len = (uint8_t)len;
	p->responder_resources = c->rd_atom;
	p->initiator_depth = c->init_rd_atom;
	p->retry_count = (uint8_t)a->retry;
	p->rnr_retry_count = (uint8_t)a->rnr_retry;
	p->srq = c->e->srq != NULL;
	p->qp_num = c->qpn;
}

void
vb_rc_connect(struct vb_conn *c)
{
	uint8_t buf[CM_PRIV];
	struct rdma_conn_param p;

	if (vb_qp_create(c->e, c) < 0 || vb_qp_init(c) < 0) {
		vb_cm_give_up(c, -EIO, leat_err_msg());
		return;
	}
	set_param(c, &p, c->priv, c->priv_len, buf);
	if (rdma_connect(c->id, &p) != 0) {
		vb_cm_retry_later(c, errno == ECONNREFUSED ? -ECONNREFUSED : -EHOSTUNREACH);
		return;
	}
	vb_conn_state(c, VB_CONNECTING);
}

static void
up(struct vb_conn *c, const struct vb_cm_event *ev)
{
	uint16_t hello = 0;

	c->connected = true;
	vb_conn_state(c, VB_UP);
	if (c->credit != NULL && !c->hello.there)
		hello = vb_hello_read(&c->hello, ev->priv, ev->priv_len);
	leat_peer_up(c->e->ep, c->peer, ev->priv + hello, (uint16_t)(ev->priv_len - hello));
	if (c->credit != NULL)
		vb_credit_start(c, &c->hello);
}

static void
responded(struct vb_conn *c, const struct vb_cm_event *ev)
{
	c->rd_atom = RTE_MIN(c->rd_atom, ev->rd_atom);
	c->init_rd_atom = RTE_MIN(c->init_rd_atom, ev->init_rd_atom);
	if (vb_qp_connect(c) < 0) {
		(void)rdma_reject(c->id, NULL, 0); /* destroying the id rejects as well */
		vb_cm_give_up(c, -EIO, leat_err_msg());
		return;
	}
	if (rdma_establish(c->id) != 0) {
		vb_cm_retry_later(c, -ECONNRESET);
		return;
	}
	up(c, ev);
}

/* Handle ESTABLISHED where the kernel has moved the queue pair to RTS already. */
static void
established(struct vb_conn *c, const struct vb_cm_event *ev)
{
	if (vb_qp_connect(c) < 0)
		vb_cm_give_up(c, -EIO, leat_err_msg());
	else
		up(c, ev);
}

void
vb_rc_answered(struct vb_conn *c, const struct vb_cm_event *ev)
{
	if (ev->type == RDMA_CM_EVENT_CONNECT_RESPONSE)
		responded(c, ev);
	else if (c->state == VB_ACCEPTED)
		up(c, ev);
	else if (c->state == VB_CONNECTING && c->e->dev->rules.kernel_qp)
		established(c, ev);
}

enum vb_refusal
vb_rc_refusal(const struct vb_ep *e, const struct vb_cm_event *ev)
{
	struct vb_hello no;
	bool told;

	if (ev->type != RDMA_CM_EVENT_REJECTED)
		return VB_NO_ANSWER;
	told = e->dev->rules.credits ? vb_hello_read(&no, ev->priv, ev->priv_len) > 0
				     : ev->status == REJ_CONSUMER;
	return told ? VB_REJECTED : VB_NOT_LISTENING;
}

/* ---- listen ---- */

bool
vb_rc_request(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req)
{
	uint16_t skip = 0;

	req->hello.rc = (struct vb_hello){ .there = false };
	if (e->dev->rules.credits)
		skip = vb_hello_read(&req->hello.rc, ev->priv, ev->priv_len);
	req->priv = ev->priv + skip;
	req->len = (uint16_t)(ev->priv_len - skip);
	return true;
}

void
vb_rc_requested(struct vb_conn *c, const struct vb_cm_event *ev, const struct vb_request *req)
{
	c->hello = req->hello.rc;
	if (c->e->dev->rules.rd_atom_unset && ev->rd_atom == 0 && ev->init_rd_atom == 0)
		return;
	c->rd_atom = RTE_MIN(c->rd_atom, ev->rd_atom);
	c->init_rd_atom = RTE_MIN(c->init_rd_atom, ev->init_rd_atom);
}

int
vb_rc_accept(struct vb_conn *c, const struct leat_conn_params *params)
{
	struct leat_peer *peer = c->peer;
	struct leat_ep *ep = c->e->ep;
	char text[LEAT_EVENT_TEXT];
	uint8_t buf[CM_PRIV];
	struct rdma_conn_param p;

	if (vb_qp_create(c->e, c) < 0)
		return -rte_errno;
	if (vb_qp_init(c) < 0 || vb_qp_connect(c) < 0) {
		/* If the peer took its request back, the kernel does not provide attributes. */
		snprintf(text, sizeof(text), "%s: accept: %.90s; or the peer withdrew its request",
			 leat_peer_addr(ep, peer), leat_err_msg());
	} else {
		set_param(c, &p, params->priv, params->priv_len, buf);
		if (rdma_accept(c->id, &p) == 0) {
			c->connected = true;
			vb_conn_state(c, VB_ACCEPTED);
			return 0;
		}
		/* The peer took its request back; no event reports that before the accept. */
		snprintf(text, sizeof(text),
			 "%s: the peer withdrew its request to connect, or died: rdma_accept: %s",
			 leat_peer_addr(ep, peer), strerror(errno));
	}
	leat_peer_closing(ep, peer, -ECONNRESET, text);
	vb_conn_free(c);
	leat_peer_down(ep, peer);
	return 0;
}

/* ---- disconnect and the end of a connection ---- */

/*
 * Handle a disconnect by the other side. Either its program disconnected, or its kernel did so
 * after the program died: both look the same. If ops to the peer are in flight, the disconnect is
 * an error.
 */
void
vb_rc_left(struct vb_conn *c)
{
	struct leat_ep *ep = c->e->ep;
	char text[LEAT_EVENT_TEXT];
	bool owes;

	vb_rc_cq_empty(c->e);
	c->disconnect = true;
	if (c->state != VB_UP)
		return; /* a failed completion has ended the connection already */
	owes = c->head != c->tail;
	snprintf(text, sizeof(text), "%s: the peer %s", leat_peer_addr(ep, c->peer),
		 owes ? "closed or died with ops in flight to it" : "disconnected");
	vb_conn_end(c, owes ? -ECONNRESET : 0, text);
}

void
vb_rc_end(struct vb_conn *c, int status, const char *text)
{
	uint64_t now = leat_now();

	/* -EPROTO is a status of connections only, not of ops. */
	c->status = status == 0 || status == -EPROTO ? -ECONNRESET : status;
	c->deadline = now + leat_us_to_cycles(LIMIT_US);
	c->at = 0;
	vb_qp_error(c);
	vb_conn_state(c, VB_ENDING);
	leat_peer_closing(c->e->ep, c->peer, status, text);
	if (c->connected && rdma_disconnect(c->id) != 0)
		c->disconnect = true; /* the other side has also ended the connection */
}

void
vb_conn_failed(struct vb_conn *c, const struct ibv_wc *wc, bool recv)
{
	char text[LEAT_EVENT_TEXT];

	if (c->state == VB_ENDING || c->state == VB_ZOMBIE)
		return;
	LEAT_LOG(WARNING, driver, "%s: endpoint %s: %s: %s: %s (vendor error %#x): %s",
		 c->e->dev->name, leat_ep_name(c->e->ep), leat_peer_addr(c->e->ep, c->peer),
		 recv ? "receive" : "send", vb_wc_name(wc->status), wc->vendor_err,
		 vb_wc_hint(wc->status));
	snprintf(text, sizeof(text), "%s: %s: %s", leat_peer_addr(c->e->ep, c->peer),
		 vb_wc_name(wc->status), vb_wc_hint(wc->status));
	vb_conn_end(c, vb_wc_end_status(wc->status, recv), text);
}

void
vb_rc_ending(struct vb_conn *c, uint64_t now)
{
	struct vb_ep *e = c->e;
	struct leat_peer *peer = c->peer;
	bool late = now >= c->deadline;

	vb_rc_cq_empty(e);
	if (c->qp != NULL && !late) {
		if (c->head != c->tail)
			return;
		if (c->at == 0)
			c->at = now + leat_us_to_cycles(SETTLE_US);
		if (e->rx_posted > 0 && !c->last_wqe && now < c->at)
			return;
		vb_rc_cq_empty(e);
	}
	vb_qp_destroy(c);
	/* Completions of the destroyed QP take room in the CQs that the next QPs need. */
	vb_rc_cq_empty(e);
	if (c->head != c->tail)
		vb_rc_sq_done(e, c, c->tail - 1, c->status);
	vb_conn_detach(c);
	leat_peer_down(e->ep, peer);
	if (!c->connected || c->disconnect) {
		vb_conn_free(c);
		return;
	}
	c->deadline = now + leat_us_to_cycles(ZOMBIE_US);
	vb_conn_state(c, VB_ZOMBIE);
}
