/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections. libfabric's RDM endpoints have none: an address is enough. So the two sides exchange
 * addresses over TCP (leat_exchange.h). The TCP connection stays open, and its end shows that the
 * other side has ended.
 *
 *     UP --the exchange says BYE, or breaks, or this side disconnects--> ENDING
 *
 *     ENDING   receives that name the peer are cancelled; the provider completes what it can
 *       |      ... until all ops have completed; after OFI_GRACE_US the driver finishes the rest
 *       v
 *     the address leaves the AV (now, or when that is safe), leat_peer_down()
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ofi_pvt.h"

#define EVENTS 4
#define SWEEP_US 20000
/* us. How long to wait, after an op failed, for the exchange to report that its peer died. */
#define BROKEN_US 50000
/*
 * Before a connection is up, the driver makes at most this many drain passes over the messages of
 * an earlier connection to the same endpoint.
 */
#define DRAIN_PASSES 16

static struct ofi_peer *
drv_peer(struct ofi_ep *e, const struct leat_peer *peer)
{
	return &e->peers[peer->id];
}

static void
reset(struct ofi_peer *p)
{
	free(p->pending);
	memset(p, 0, sizeof(*p));
}

/* Suffix of the kind of an inner endpoint: one that belongs to the library's tag layer. */
#define LAYER "+ltag"

/* Return what to do if only one of two kinds has the tag layer, as text for an error. */
static const char *
advice(const char *a, const char *b)
{
	return (strstr(a, LAYER) == NULL) != (strstr(b, LAYER) == NULL)
		       ? ": give both devices the same tags="
		       : "";
}

static int
kind_of(const struct ofi_ep *e, char *buf, size_t len)
{
	/* Both sides must use the same provider, and must both use the tag layer, or neither. */
	return snprintf(buf, len, "ofi/%s%s", e->info->fabric_attr->prov_name,
			leat_ep_is_inner(e->ep) ? LAYER : "");
}

int
ofi_conn_init(struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	char kind[LEAT_EXCHANGE_KIND_MAX];
	struct leat_exchange_conf oc = {
		.name = leat_ep_name(e->ep),
		.kind = kind,
		.max_conns = (uint16_t)RTE_MIN((uint32_t)conf->max_peers + 16, 32768u),
		.linger = true,
		.prove = true,
		.source_half = (uint16_t)RTE_MAX(conf->max_peers / 2, 4),
		.source_max = (uint16_t)e->dev->per_source,
	};

	(void)kind_of(e, kind, sizeof(kind));
	e->exchange = leat_exchange_create(&oc);
	return e->exchange != NULL ? 0 : -rte_errno;
}

void
ofi_conn_fini(struct ofi_ep *e)
{
	uint16_t i;

	leat_exchange_destroy(e->exchange);
	e->exchange = NULL;
	for (i = 0; i < e->ep->nb_peers; i++)
		reset(&e->peers[i]);
}

int
ofi_listen(struct leat_ep *ep, const char *addr)
{
	return leat_exchange_listen(ofi_of(ep)->exchange, addr);
}

int
ofi_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	return leat_exchange_listen_addr(ofi_of(ep)->exchange, addr, len);
}

/*
 * Fill in the data that this side sends in the exchange. proof has room for OFI_PROOF_LEN bytes.
 * @return 0; negative errno with leat_err()
 */
static int
own_data(const struct ofi_ep *e, const struct leat_peer *peer,
	 const struct leat_conn_params *params, uint8_t *proof, struct leat_exchange_data *data)
{
	int len = ofi_proof_offer(e, peer->id, &e->peers[peer->id].proof, proof);

	if (len < 0)
		return len;
	*data = (struct leat_exchange_data){
		.blob = e->raw,
		.blob_len = e->raw_len,
		.priv = params->priv,
		.priv_len = params->priv_len,
		.proof = proof,
		.proof_len = (uint16_t)len,
	};
	return 0;
}

int
ofi_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	    const struct leat_conn_params *params)
{
	struct ofi_ep *e = ofi_of(ep);
	uint8_t proof[OFI_PROOF_LEN];
	struct leat_exchange_data data;
	int ret = own_data(e, peer, params, proof, &data);

	if (ret == 0)
		ret = leat_exchange_connect(e->exchange, addr, params->timeout_us, &data, peer);
	if (ret < 0)
		return ret;
	drv_peer(e, peer)->conn = ret;
	drv_peer(e, peer)->state = OFI_PEER_CONNECTING;
	return 0;
}

/* Insert the peer's address in the AV. */
static int
learn(struct ofi_ep *e, struct leat_peer *peer, const void *raw, uint16_t len)
{
	struct ofi_peer *p = drv_peer(e, peer);
	int ret = ofi_av_get(e, raw, len, &p->addr);

	if (ret < 0)
		return ret;
	peer->drv_word = p->addr->fi;
	return 0;
}

/* End the proof of a peer's address, whether it is complete or given up. */
static void
stop_proving(struct ofi_ep *e, struct leat_peer *peer)
{
	struct ofi_peer *p = drv_peer(e, peer);

	e->nb_proving -= p->proving;
	p->proving = false;
	ofi_proof_end(e, peer->id, &p->proof);
}

static void
unprove(struct ofi_ep *e, struct leat_peer *peer)
{
	struct ofi_peer *p = drv_peer(e, peer);

	if (!p->proven)
		return;
	p->proven = false;
	ofi_av_unproven(e, p->addr, peer->id);
}

static void
forget(struct ofi_ep *e, struct leat_peer *peer)
{
	struct ofi_peer *p = drv_peer(e, peer);

	stop_proving(e, peer);
	unprove(e, peer);
	if (p->addr != NULL)
		ofi_av_put(e, p->addr, peer->id);
	reset(p);
}

int
ofi_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct ofi_ep *e = ofi_of(ep);
	struct ofi_peer *p = drv_peer(e, peer);
	uint8_t proof[OFI_PROOF_LEN];
	struct leat_exchange_data data;
	char why[LEAT_EVENT_TEXT];
	int ret;

	ret = learn(e, peer, p->pending, p->pending_len);
	if (ret == 0)
		ret = ofi_proof_state(e, peer->id, &p->proof, p->peer_proof, p->peer_proof_len,
				      p->addr);
	if (ret == 0)
		ret = own_data(e, peer, params, proof, &data);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		(void)leat_exchange_reject(e->exchange, p->conn, why);
		leat_peer_closing(ep, peer, ret, why);
		forget(e, peer);
		leat_peer_down(ep, peer);
		return 0;
	}
	ret = leat_exchange_accept(e->exchange, p->conn, &data, peer);
	if (ret < 0) {
		/* The connector withdrew meanwhile: the event that reports it is on its way. */
		stop_proving(e, peer);
		ofi_av_put(e, p->addr, peer->id);
		p->addr = NULL;
	}
	return ret;
}

void
ofi_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct ofi_ep *e = ofi_of(ep);

	(void)leat_exchange_reject(e->exchange, drv_peer(e, peer)->conn, "rejected");
	forget(e, peer);
}

static void
cancel_directed(struct ofi_ep *e, struct ofi_slot *s, void *arg)
{
	const struct leat_peer *peer = arg;

	if (s->state == OFI_SLOT_RX && s->peer == peer->id)
		ofi_slot_cancel(e, s);
}

/* Receive the messages that arrived before the connection ended. */
static void
drive(struct ofi_ep *e)
{
	unsigned int i;

	for (i = 0; i < 8; i++)
		ofi_cq_drive(e, OFI_CQ_BURST);
}

static void
start_ending(struct ofi_ep *e, struct leat_peer *peer, int status, const char *text, bool dead)
{
	struct ofi_peer *p = drv_peer(e, peer);
	uint64_t now = leat_now();

	if (p->state == OFI_PEER_ENDING)
		return;
	unprove(e, peer);
	p->conn = 0;
	p->state = OFI_PEER_ENDING;
	p->status = status == 0 ? -ECONNRESET : status;
	p->dead = dead;
	p->deadline = now + leat_us_to_cycles(OFI_GRACE_US);
	p->recv_deadline = now + leat_us_to_cycles(dead ? OFI_GRACE_US : OFI_GRACE_RECV_US);
	e->nb_ending++;
	if (!dead)
		drive(e);
	leat_peer_closing(e->ep, peer, status, text);
	ofi_slots_foreach(e, cancel_directed, peer);
	if (dead && p->addr->live == 0 && (e->quirks & OFI_Q_AV_CUTS) != 0)
		ofi_drain_begin(e, p->addr);
}

void
ofi_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct ofi_ep *e = ofi_of(ep);
	struct ofi_peer *p = drv_peer(e, peer);

	p->local_close = p->conn;
	/*
	 * -ECONNABORTED: this side merely closed the connection. The other side's own report says
	 * that already, so do not send text.
	 */
	if (p->conn > 0)
		(void)leat_exchange_close(e->exchange, p->conn,
					  status == -ECONNABORTED ? "" : text);
	p->conn = 0;
	if (p->state == OFI_PEER_UP) {
		start_ending(e, peer, status, text, false);
		return;
	}
	leat_peer_closing(ep, peer, status, text);
	forget(e, peer);
	leat_peer_down(ep, peer);
}

static void
finish_one(struct ofi_ep *e, struct ofi_slot *s, void *arg)
{
	const struct leat_peer *peer = arg;
	const struct ofi_peer *p = drv_peer(e, peer);

	if (s->peer != peer->id)
		return;
	if (s->state == OFI_SLOT_LIMBO) {
		/*
		 * If the peer is alive, a wrong key, range or right of a one-sided op is the
		 * likeliest cause.
		 */
		bool key = !p->dead && s->op->type >= LEAT_OP_WRITE && e->dev->prov->status == NULL;

		ofi_slot_finish(e, s, key ? -EACCES : p->status, 0);
		return;
	}
	if (leat_now() < p->deadline)
		return;
	/* The provider may still be writing to the buffer. */
	if ((s->state == OFI_SLOT_RX || s->op->type == LEAT_OP_READ) &&
	    leat_now() < p->recv_deadline)
		return;
	ofi_slot_orphan(e, s, p->status);
}

/*
 * Drain the last messages of a dead peer (ofi_drain.c), then close the provider's connection to it.
 * Messages may still be under way after a silence: perhaps this thread had no processor, or TCP
 * waits for a timeout. Once the connection is closed no more messages can come, but messages that
 * the provider has already read must be drained before the close. The connection stays open while
 * the provider has ops for the dead peer: their answers may be arriving (OFI_Q_READ_TWICE). @return
 * true: done
 */
static bool
close_dead(struct ofi_ep *e, struct leat_peer *peer, uint64_t now)
{
	struct ofi_addr *a = drv_peer(e, peer)->addr;

	if (!ofi_drain_last(e, a))
		return now >= a->drain_end + leat_us_to_cycles(OFI_GRACE_RECV_US);
	ofi_drain_end(e, a);
	if (a->orphans == 0)
		ofi_av_cut(e, a, peer->id);
	return true;
}

/*
 * Drain the messages that the peer sent and this side did not receive (ofi_drain.c). Only the
 * address tells one connection's messages from another's. So do not drain while another connection
 * to the same endpoint is up: that would discard its messages, too. @return true: done
 */
static bool
drained(struct ofi_ep *e, struct leat_peer *peer, uint64_t now)
{
	const struct ofi_peer *p = drv_peer(e, peer);

	if (!p->addr->draining)
		return p->addr->live > 0 || ofi_drain_all(e, p->addr);
	if (!ofi_drain_step(e, p->addr, now))
		return false;
	if (p->dead && p->addr->live == 0 && (e->quirks & OFI_Q_AV_CUTS) != 0)
		return close_dead(e, peer, now);
	return true;
}

static void
ending_step(struct ofi_ep *e, struct leat_peer *peer, uint64_t now)
{
	struct ofi_peer *p = drv_peer(e, peer);

	if (leat_peer_inflight(peer) > 0 && (now >= p->deadline || p->broken_deadline != 0))
		ofi_slots_foreach(e, finish_one, peer);
	/* READs still in flight have no answer: close the connection, so no answer comes later. */
	if (leat_peer_inflight(peer) > 0 && now >= p->deadline && (e->quirks & OFI_Q_AV_CUTS) != 0)
		ofi_av_cut(e, p->addr, peer->id);
	if (leat_peer_inflight(peer) > 0)
		return;
	/*
	 * The other side goes on sending until it has heard of the end. The messages that it sends
	 * until then must not be taken for messages of the next connection.
	 */
	if (p->local_close > 0 && !e->closing && leat_exchange_lingers(e->exchange, p->local_close))
		return;
	if (!e->closing && !drained(e, peer, now))
		return;
	if (p->remote_close > 0)
		(void)leat_exchange_close(e->exchange, p->remote_close, NULL);
	e->nb_ending--;
	forget(e, peer);
	leat_peer_down(e->ep, peer);
}

static struct leat_peer *
peer_of_conn(struct ofi_ep *e, const struct leat_exchange_event *ev)
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
on_request(struct ofi_ep *e, const struct leat_exchange_event *ev)
{
	char kind[LEAT_EXCHANGE_KIND_MAX], why[LEAT_EXCHANGE_TEXT_MAX];
	struct leat_peer *peer;
	struct ofi_peer *p;
	void *raw;

	(void)kind_of(e, kind, sizeof(kind));
	if (strcmp(kind, ev->kind) != 0) {
		snprintf(why, sizeof(why), "this side is %s, the other %s%s", kind, ev->kind,
			 advice(kind, ev->kind));
		(void)leat_exchange_reject(e->exchange, ev->conn, why);
		return;
	}
	raw = malloc(ev->blob_len + 1u);
	peer = raw == NULL ? NULL : leat_peer_request(e->ep, ev->addr, ev->priv, ev->priv_len);
	if (peer == NULL) {
		free(raw);
		(void)leat_exchange_busy(e->exchange, ev->conn, "no room for another peer");
		return;
	}
	memcpy(raw, ev->blob, ev->blob_len);
	p = drv_peer(e, peer);
	p->conn = ev->conn;
	p->state = OFI_PEER_CONNECTING;
	p->pending = raw;
	p->pending_len = ev->blob_len;
	/* ofi_proof_state() refuses proof data of a wrong length. */
	p->peer_proof_len = ev->proof_len;
	memcpy(p->peer_proof, ev->proof, RTE_MIN(ev->proof_len, (uint16_t)OFI_PROOF_LEN));
}

/* Handle a listener's answer to this side's HELLO. */
static int
on_answer(struct ofi_ep *e, struct leat_peer *peer, const struct leat_exchange_event *ev)
{
	struct ofi_peer *p = drv_peer(e, peer);
	char kind[LEAT_EXCHANGE_KIND_MAX];
	int ret;

	/* The listener was busy after its first answer, and this is its second. */
	if (p->addr != NULL) {
		stop_proving(e, peer);
		unprove(e, peer);
		ofi_av_put(e, p->addr, peer->id);
		p->addr = NULL;
	}
	(void)kind_of(e, kind, sizeof(kind));
	if (strcmp(kind, ev->kind) != 0)
		return leat_err(EPROTO, "%s: the other side is %s, this one %s%s", ev->addr,
				ev->kind, kind, advice(kind, ev->kind));
	ret = learn(e, peer, ev->blob, ev->blob_len);
	return ret < 0 ? ret
		       : ofi_proof_state(e, peer->id, &p->proof, ev->proof, ev->proof_len, p->addr);
}

/* End a peer that is not up, and report that to the application. */
static void
give_up(struct ofi_ep *e, struct leat_peer *peer, int status, const char *why)
{
	struct ofi_peer *p = drv_peer(e, peer);

	if (p->conn > 0)
		(void)leat_exchange_close(e->exchange, p->conn, why);
	forget(e, peer);
	leat_peer_failed(e->ep, peer, status, why);
}

static void
on_prove(struct ofi_ep *e, const struct leat_exchange_event *ev)
{
	struct leat_peer *peer = peer_of_conn(e, ev);
	char why[LEAT_EVENT_TEXT];
	struct ofi_peer *p;
	int ret = 0;

	if (peer == NULL)
		return;
	p = drv_peer(e, peer);
	if (peer->state == LEAT_PEER_CONNECTING)
		ret = on_answer(e, peer, ev);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		give_up(e, peer, ret, why);
		return;
	}
	ofi_proof_begin(&p->proof);
	p->proving = true;
	e->nb_proving++;
}

static void
proving_step(struct ofi_ep *e, struct leat_peer *peer, uint64_t now)
{
	struct ofi_peer *p = drv_peer(e, peer);
	char why[LEAT_EVENT_TEXT];
	int ret = ofi_proof_step(e, peer->id, p->addr, &p->proof, now);

	if (ret == 0)
		return;
	e->nb_proving--;
	p->proving = false;
	if (ret < 0) {
		snprintf(why, sizeof(why),
			 "%s: the provider address that the peer named is not its own",
			 leat_peer_addr(e->ep, peer));
		give_up(e, peer, -EPROTO, why);
		return;
	}
	/*
	 * An earlier connection to that endpoint is ending: receives of this connection must not
	 * get its messages.
	 */
	if (p->addr->draining) {
		unsigned int i = 0;

		while (i < DRAIN_PASSES && ofi_drain(e, p->addr) >= OFI_DRAIN_MAX)
			i++;
		if (i == DRAIN_PASSES) {
			snprintf(why, sizeof(why),
				 "%s: an earlier connection left too many messages",
				 leat_peer_addr(e->ep, peer));
			give_up(e, peer, -EPROTO, why);
			return;
		}
		ofi_drain_end(e, p->addr);
	}
	p->proven = true;
	ofi_av_proven(e, p->addr, peer->id);
	/* The connection may have ended meanwhile: the event that reports it is on its way. */
	(void)leat_exchange_proven(e->exchange, p->conn);
}

static void
on_connected(struct ofi_ep *e, const struct leat_exchange_event *ev)
{
	struct leat_peer *peer = peer_of_conn(e, ev);
	struct ofi_peer *p;

	if (peer == NULL)
		return;
	p = drv_peer(e, peer);
	ofi_proof_end(e, peer->id, &p->proof);
	p->state = OFI_PEER_UP;
	leat_peer_up(e->ep, peer, ev->priv, ev->priv_len);
}

static void
on_down(struct ofi_ep *e, const struct leat_exchange_event *ev)
{
	struct leat_peer *peer = peer_of_conn(e, ev);
	struct ofi_peer *p;

	if (peer == NULL)
		return;
	p = drv_peer(e, peer);
	if (p->state == OFI_PEER_UP) {
		start_ending(e, peer, ev->status, ev->text, ev->status != 0);
		p->remote_close = ev->status == 0 ? ev->conn : 0;
		return;
	}
	if (p->state != OFI_PEER_CONNECTING)
		return;
	forget(e, peer);
	if (ev->type == LEAT_EXCHANGE_FAILED) {
		leat_peer_failed(e->ep, peer, ev->status, ev->text);
	} else {
		leat_peer_closing(e->ep, peer, ev->status, ev->text);
		leat_peer_down(e->ep, peer);
	}
}

static void
exchange(struct ofi_ep *e, uint64_t now)
{
	struct leat_exchange_event ev[EVENTS];
	unsigned int i, n;

	n = leat_exchange_poll(e->exchange, now, ev, EVENTS);
	e->exchange_more = n == EVENTS;
	for (i = 0; i < n; i++) {
		switch (ev[i].type) {
		case LEAT_EXCHANGE_REQUEST:
			on_request(e, &ev[i]);
			break;
		case LEAT_EXCHANGE_PROVE:
			on_prove(e, &ev[i]);
			break;
		case LEAT_EXCHANGE_CONNECTED:
			on_connected(e, &ev[i]);
			break;
		default:
			on_down(e, &ev[i]);
			break;
		}
	}
}

void
ofi_conn_broken(struct ofi_ep *e, uint16_t peer)
{
	struct ofi_addr *a = e->peers[peer].addr;
	uint64_t deadline = leat_now() + leat_us_to_cycles(BROKEN_US);
	uint16_t i;

	/*
	 * All other connections to the peer's endpoint have lost messages too, perhaps without a
	 * failed op.
	 */
	for (i = 0; i < e->ep->nb_peers; i++) {
		struct ofi_peer *p = &e->peers[i];

		if (i != peer && (p->addr != a || p->state != OFI_PEER_UP))
			continue;
		if (p->broken_deadline == 0)
			p->broken_deadline = deadline;
	}
	e->broken = true;
	/* Discard the messages that the connection left: no receive may get them. */
	if ((e->quirks & OFI_Q_DRAIN_EMPTY) != 0)
		ofi_drain_soon(e, a);
}

/*
 * End a peer whose provider connection broke, once broken_deadline has passed. The peer is alive:
 * if it had died, the exchange would have reported that by now.
 */
static void
broken_step(struct ofi_ep *e, struct leat_peer *peer, uint64_t now)
{
	struct ofi_peer *p = drv_peer(e, peer);
	char text[LEAT_EVENT_TEXT];

	if (p->state != OFI_PEER_UP || now < p->broken_deadline)
		return;
	ofi_provider_why(e->dev->prov, e->info->fabric_attr->prov_name, p->broken_errno,
			 leat_peer_addr(e->ep, peer), text, sizeof(text));
	p->local_close = p->conn;
	if (p->conn > 0)
		(void)leat_exchange_close(e->exchange, p->conn, text);
	start_ending(e, peer, -ECONNRESET, text, false);
}

void
ofi_progress(struct leat_ep *ep, uint64_t now)
{
	struct ofi_ep *e = ofi_of(ep);
	bool look;
	uint16_t i;

	exchange(e, now);
	if ((e->quirks & OFI_Q_PEEKS) != 0 && !e->closing)
		ofi_window_step(e, now);
	/*
	 * The peer can read this side's statement (ofi_proof.c) only while this side drives the
	 * provider.
	 */
	if (e->nb_proving + e->nb_stated > 0)
		ofi_cq_drive(e, OFI_CQ_BURST);
	look = e->nb_ending + e->nb_proving > 0 || e->broken;
	e->broken = false;
	for (i = 0; look && i < ep->nb_peers; i++) {
		/* A step posts a READ on the provider's endpoint. */
		if (e->peers[i].proving && !e->closing)
			proving_step(e, &ep->peers[i], now);
		if (e->peers[i].broken_deadline != 0)
			broken_step(e, &ep->peers[i], now);
		if (e->peers[i].state == OFI_PEER_ENDING)
			ending_step(e, &ep->peers[i], now);
		e->broken |= e->peers[i].broken_deadline != 0;
	}
	if (e->eq != NULL)
		ofi_event_read(e);
	if (e->nb_unused + e->nb_failed > 0 && now >= e->sweep_at && !e->closing) {
		e->sweep_at = now + leat_us_to_cycles(SWEEP_US);
		ofi_av_sweep(e);
	}
}
