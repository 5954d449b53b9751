/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections. libfabric's RDM endpoints have none: an address is enough. So the addresses are exchanged
 * over TCP (leat_exchange.h), and that connection, kept open, tells of the other side's end.
 *
 *     UP --the exchange says BYE, or breaks, or we disconnect--> ENDING
 *
 *     ENDING   the peer's receives are cancelled; what the provider completes, completes
 *       |      ... all ops came back, or EFA_GRACE_US later the rest is finished without the provider
 *       v
 *     address out of the AV (now, or when that is safe), leat_peer_down()
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "efa_pvt.h"

#define EVENTS 4
#define SWEEP_US 20000
/* When an op fails, its peer's death may not be known yet; so long is waited for it. */
#define BROKEN_US 50000

static struct efa_peer *
mine(struct efa_ep *e, const struct leat_peer *peer)
{
	return &e->peers[peer->id];
}

static void
reset(struct efa_peer *p)
{
	free(p->pending);
	memset(p, 0, sizeof(*p));
}

static int
kind_of(const struct efa_ep *e, char *buf, size_t len)
{
	/* Both sides must speak through the same provider. */
	return snprintf(buf, len, "efa/%s", e->info->fabric_attr->prov_name);
}

int
efa_conn_init(struct efa_ep *e, const struct leat_ep_conf *conf)
{
	char kind[LEAT_OOB_KIND_MAX];
	struct leat_oob_conf oc = {
		.name = leat_ep_name(e->ep),
		.kind = kind,
		.max_conns = (uint16_t)RTE_MIN((uint32_t)conf->max_peers + 16, 32768u),
		.linger = true,
	};

	(void)kind_of(e, kind, sizeof(kind));
	e->oob = leat_oob_create(&oc);
	return e->oob != NULL ? 0 : -rte_errno;
}

void
efa_conn_fini(struct efa_ep *e)
{
	uint16_t i;

	leat_oob_destroy(e->oob);
	e->oob = NULL;
	for (i = 0; i < e->ep->nb_peers; i++)
		reset(&e->peers[i]);
}

int
efa_listen(struct leat_ep *ep, const char *addr)
{
	return leat_oob_listen(efa_of(ep)->oob, addr);
}

int
efa_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	return leat_oob_listen_addr(efa_of(ep)->oob, addr, len);
}

static struct leat_oob_data
own_data(const struct efa_ep *e, const struct leat_conn_params *params)
{
	return (struct leat_oob_data){
		.blob = e->raw,
		.blob_len = e->raw_len,
		.priv = params->priv,
		.priv_len = params->priv_len,
	};
}

int
efa_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	    const struct leat_conn_params *params)
{
	struct efa_ep *e = efa_of(ep);
	struct leat_oob_data data = own_data(e, params);
	int ret = leat_oob_connect(e->oob, addr, params->timeout_us, &data, peer);

	if (ret < 0)
		return ret;
	mine(e, peer)->conn = ret;
	mine(e, peer)->state = EFA_PEER_CONNECTING;
	return 0;
}

/* The address goes into the AV. */
static int
learn(struct efa_ep *e, struct leat_peer *peer, const void *raw, uint16_t len)
{
	struct efa_peer *p = mine(e, peer);
	int ret = efa_av_get(e, raw, len, peer->id, &p->addr);

	if (ret < 0)
		return ret;
	peer->drv_word = p->addr->fi;
	return 0;
}

static void
forget(struct efa_ep *e, struct leat_peer *peer)
{
	struct efa_peer *p = mine(e, peer);

	if (p->addr != NULL)
		efa_av_put(e, p->addr, peer->id);
	reset(p);
}

int
efa_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct efa_ep *e = efa_of(ep);
	struct leat_oob_data data = own_data(e, params);
	struct efa_peer *p = mine(e, peer);
	char why[LEAT_EVENT_TEXT];
	int ret;

	ret = learn(e, peer, p->pending, p->pending_len);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		(void)leat_oob_reject(e->oob, p->conn, why);
		leat_peer_closing(ep, peer, ret, why);
		forget(e, peer);
		leat_peer_down(ep, peer);
		return 0;
	}
	ret = leat_oob_accept(e->oob, p->conn, &data, peer);
	if (ret < 0) {
		/* Withdrawn meanwhile: the event that says so is on its way. */
		efa_av_put(e, p->addr, peer->id);
		p->addr = NULL;
	}
	return ret;
}

void
efa_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct efa_ep *e = efa_of(ep);

	(void)leat_oob_reject(e->oob, mine(e, peer)->conn, "rejected");
	forget(e, peer);
}

static void
cancel_directed(struct efa_ep *e, struct efa_slot *s, void *arg)
{
	const struct leat_peer *peer = arg;

	if (s->state == EFA_SLOT_RX && s->peer == peer->id)
		efa_slot_cancel(e, s);
}

/* Takes what has arrived before the end of the connection. */
static void
drive(struct efa_ep *e)
{
	unsigned int i;

	for (i = 0; i < 8; i++)
		efa_cq_drive(e, EFA_CQ_BURST);
}

static void
begin_end(struct efa_ep *e, struct leat_peer *peer, int status, const char *text, bool dead)
{
	struct efa_peer *p = mine(e, peer);
	uint64_t now = leat_now();

	if (p->state == EFA_PEER_ENDING)
		return;
	p->conn = 0;
	p->state = EFA_PEER_ENDING;
	p->status = status == 0 ? -ECONNRESET : status;
	p->dead = dead;
	p->deadline = now + leat_us_to_cycles(EFA_GRACE_US);
	p->recv_deadline = now + leat_us_to_cycles(dead ? EFA_GRACE_US : EFA_GRACE_RECV_US);
	e->nb_ending++;
	if (!dead)
		drive(e);
	leat_peer_closing(e->ep, peer, status, text);
	efa_slots_foreach(e, cancel_directed, peer);
}

void
efa_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct efa_ep *e = efa_of(ep);
	struct efa_peer *p = mine(e, peer);

	p->closed = p->conn;
	if (p->conn > 0)
		(void)leat_oob_close(e->oob, p->conn, text);
	p->conn = 0;
	if (p->state == EFA_PEER_UP) {
		begin_end(e, peer, status, text, false);
		return;
	}
	leat_peer_closing(ep, peer, status, text);
	forget(e, peer);
	leat_peer_down(ep, peer);
}

static void
finish_one(struct efa_ep *e, struct efa_slot *s, void *arg)
{
	const struct leat_peer *peer = arg;
	const struct efa_peer *p = mine(e, peer);

	if (s->peer != peer->id)
		return;
	if (s->state == EFA_SLOT_LIMBO) {
		/* With its peer alive, what a one-sided op asked for is the likeliest cause. */
		efa_slot_finish(e, s,
				!p->dead && s->op->type >= LEAT_OP_WRITE ? -EACCES : p->status, 0);
		return;
	}
	if (leat_now() < p->deadline && !p->gone)
		return;
	/* The provider may still be writing to the buffer. */
	if ((s->state == EFA_SLOT_RX || s->op->type == LEAT_OP_READ) &&
	    leat_now() < p->recv_deadline)
		return;
	efa_slot_orphan(e, s, p->status);
}

/*
 * What it sent, and nobody received. Nothing but the address tells messages of one connection from those of another,
 * so with others to the same endpoint it is left to the last one, unless that endpoint is gone with all of them.
 */
static void
drain(struct efa_ep *e, const struct efa_peer *p)
{
	if (p->dead && (e->quirks & EFA_Q_AV_CUTS) != 0)
		efa_av_drain_dead(e, p->addr);
	else if (p->addr->refs == 1)
		(void)efa_av_drain(e, p->addr);
}

static void
ending_step(struct efa_ep *e, struct leat_peer *peer, uint64_t now)
{
	bool shm = (e->quirks & EFA_Q_SHM) != 0;
	struct efa_peer *p = mine(e, peer);

	if (shm && leat_peer_inflight(peer) > 0)
		p->gone = efa_shm_gone(p->addr);
	if (leat_peer_inflight(peer) > 0 &&
	    (now >= p->deadline || p->broken_deadline != 0 || p->gone))
		efa_slots_foreach(e, finish_one, peer);
	/* What is left may write to buffers here: READs that were not answered. */
	if (leat_peer_inflight(peer) > 0 && now >= p->deadline && (e->quirks & EFA_Q_AV_CUTS) != 0)
		efa_av_cut(e, p->addr, peer->id);
	if (p->gone && p->addr->orphans > 0)
		efa_shm_answer(e, p->addr);
	if (leat_peer_inflight(peer) > 0)
		return;
	/* Until it has heard of it the other side goes on sending, and that must not be taken for the next one's. */
	if (p->closed > 0 && !e->closing && leat_oob_lingers(e->oob, p->closed))
		return;
	if (!e->closing)
		drain(e, p);
	if (p->parting > 0)
		(void)leat_oob_close(e->oob, p->parting, NULL);
	e->nb_ending--;
	forget(e, peer);
	leat_peer_down(e->ep, peer);
}

static struct leat_peer *
peer_of_conn(struct efa_ep *e, const struct leat_oob_event *ev)
{
	uint16_t i;

	if (ev->user != NULL)
		return ev->user;
	for (i = 0; i < e->ep->nb_peers; i++) {
		if (e->peers[i].conn == ev->conn)
			return &e->ep->peers[i];
	}
	return NULL;
}

static void
on_request(struct efa_ep *e, const struct leat_oob_event *ev)
{
	char kind[LEAT_OOB_KIND_MAX], why[LEAT_OOB_TEXT_MAX];
	struct leat_peer *peer;
	struct efa_peer *p;
	void *raw;

	(void)kind_of(e, kind, sizeof(kind));
	if (strcmp(kind, ev->kind) != 0) {
		snprintf(why, sizeof(why), "this side is %s, the other %s", kind, ev->kind);
		(void)leat_oob_reject(e->oob, ev->conn, why);
		return;
	}
	raw = malloc(ev->blob_len + 1u);
	peer = raw == NULL ? NULL : leat_peer_request(e->ep, ev->addr, ev->priv, ev->priv_len);
	if (peer == NULL) {
		free(raw);
		(void)leat_oob_reject(e->oob, ev->conn, "no room for another peer");
		return;
	}
	memcpy(raw, ev->blob, ev->blob_len);
	p = mine(e, peer);
	p->conn = ev->conn;
	p->state = EFA_PEER_CONNECTING;
	p->pending = raw;
	p->pending_len = ev->blob_len;
}

static void
on_connected(struct efa_ep *e, const struct leat_oob_event *ev)
{
	struct leat_peer *peer = peer_of_conn(e, ev);
	char kind[LEAT_OOB_KIND_MAX], why[LEAT_EVENT_TEXT];
	struct efa_peer *p;
	int ret = 0;

	if (peer == NULL)
		return;
	p = mine(e, peer);
	if (p->addr == NULL) {
		/* We connected: now we know who answers. */
		(void)kind_of(e, kind, sizeof(kind));
		if (strcmp(kind, ev->kind) != 0)
			ret = leat_err(EPROTO, "%s: the other side is %s, this one %s", ev->addr,
				       ev->kind, kind);
		else
			ret = learn(e, peer, ev->blob, ev->blob_len);
	}
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		(void)leat_oob_close(e->oob, ev->conn, why);
		forget(e, peer);
		leat_peer_failed(e->ep, peer, ret, why);
		return;
	}
	p->state = EFA_PEER_UP;
	leat_peer_up(e->ep, peer, ev->priv, ev->priv_len);
}

static void
on_down(struct efa_ep *e, const struct leat_oob_event *ev)
{
	struct leat_peer *peer = peer_of_conn(e, ev);
	struct efa_peer *p;

	if (peer == NULL)
		return;
	p = mine(e, peer);
	if (p->state == EFA_PEER_UP) {
		begin_end(e, peer, ev->status, ev->text, ev->status != 0);
		p->parting = ev->status == 0 ? ev->conn : 0;
		return;
	}
	if (p->state != EFA_PEER_CONNECTING)
		return;
	forget(e, peer);
	if (ev->type == LEAT_OOB_FAILED) {
		leat_peer_failed(e->ep, peer, ev->status, ev->text);
	} else {
		leat_peer_closing(e->ep, peer, ev->status, ev->text);
		leat_peer_down(e->ep, peer);
	}
}

static void
exchange(struct efa_ep *e, uint64_t now)
{
	struct leat_oob_event ev[EVENTS];
	unsigned int i, n;

	n = leat_oob_poll(e->oob, now, ev, EVENTS);
	e->oob_more = n == EVENTS;
	for (i = 0; i < n; i++) {
		switch (ev[i].type) {
		case LEAT_OOB_REQUEST:
			on_request(e, &ev[i]);
			break;
		case LEAT_OOB_CONNECTED:
			on_connected(e, &ev[i]);
			break;
		default:
			on_down(e, &ev[i]);
			break;
		}
	}
}

void
efa_conn_broken(struct efa_ep *e, uint16_t peer)
{
	const struct efa_addr *a = e->peers[peer].addr;
	uint64_t deadline = leat_now() + leat_us_to_cycles(BROKEN_US);
	uint16_t i;

	/* The others to the same endpoint have lost messages with it, perhaps without an op that failed. */
	for (i = 0; i < e->ep->nb_peers; i++) {
		struct efa_peer *p = &e->peers[i];

		if (i != peer &&
		    (p->addr != a || p->state != EFA_PEER_UP || (e->quirks & EFA_Q_SHM) != 0))
			continue;
		if (p->broken_deadline == 0)
			p->broken_deadline = deadline;
	}
	e->broken = true;
	if ((e->quirks & EFA_Q_DRAIN_EMPTY) != 0 && !e->closing)
		e->ep->poll = efa_poll_broken;
}

static void
finish_refused(struct efa_ep *e, struct efa_slot *s, void *arg)
{
	const struct leat_peer *peer = arg;

	if (s->peer == peer->id && s->state == EFA_SLOT_LIMBO)
		efa_slot_finish(e, s, -EACCES, 0);
}

/* The other side is alive, only the provider's connection to it is not. */
static void
broken_step(struct efa_ep *e, struct leat_peer *peer, uint64_t now)
{
	struct efa_peer *p = mine(e, peer);
	char text[LEAT_EVENT_TEXT];

	if (p->state != EFA_PEER_UP || now < p->broken_deadline)
		return;
	if ((e->quirks & EFA_Q_SHM) != 0) {
		/* There is no connection that could be lost: the op was refused, and that is all. */
		p->broken_deadline = 0;
		efa_slots_foreach(e, finish_refused, peer);
		return;
	}
	snprintf(text, sizeof(text),
		 "%s: provider %s lost its connection: was a remote key wrong or withdrawn?",
		 leat_peer_addr(e->ep, peer), e->info->fabric_attr->prov_name);
	p->closed = p->conn;
	if (p->conn > 0)
		(void)leat_oob_close(e->oob, p->conn, text);
	begin_end(e, peer, -ECONNRESET, text, false);
}

void
efa_progress(struct leat_ep *ep, uint64_t now)
{
	struct efa_ep *e = efa_of(ep);
	bool look;
	uint16_t i;

	exchange(e, now);
	if ((e->quirks & EFA_Q_PEEKS) != 0 && !e->closing)
		efa_window_step(e, now);
	look = e->nb_ending > 0 || e->broken;
	e->broken = false;
	for (i = 0; look && i < ep->nb_peers; i++) {
		if (e->peers[i].broken_deadline != 0)
			broken_step(e, &ep->peers[i], now);
		if (e->peers[i].state == EFA_PEER_ENDING)
			ending_step(e, &ep->peers[i], now);
		e->broken |= e->peers[i].broken_deadline != 0;
	}
	if (!e->broken && ep->poll == efa_poll_broken)
		ep->poll = efa_poll;
	if (e->nb_unused > 0 && now >= e->sweep_at && !e->closing) {
		e->sweep_at = now + leat_us_to_cycles(SWEEP_US);
		efa_av_sweep(e);
	}
}
