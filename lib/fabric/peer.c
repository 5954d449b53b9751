/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Peers and their events.
 *
 * A peer's pending events are bits in the peer, and a peer with pending events is on a list of the
 * endpoint: there is no queue of events that could fill up, whatever the other side does. A peer is
 * on one list at most: the free list, the list of peers with events, or the list of dead peers
 * (last event delivered).
 */

#include <string.h>

#include "fabric_pvt.h"

/* Relaxed store: other threads read the state. */
static void
set_state(struct leat_peer *peer, enum leat_peer_state state)
{
	__atomic_store_n(&peer->state, (uint8_t)state, __ATOMIC_RELAXED);
}

static struct leat_peer_cold *
cold_of(const struct leat_ep *ep, const struct leat_peer *peer)
{
	return &ep->ctrl->cold[peer->id];
}

void
leat_peer_table_init(struct leat_ep *ep)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	uint16_t i;

	TAILQ_INIT(&c->free_peers);
	TAILQ_INIT(&c->ev_peers);
	TAILQ_INIT(&c->dead_peers);
	for (i = 0; i < ep->nb_peers; i++) {
		ep->peers[i].id = i;
		c->cold[i].peer = &ep->peers[i];
		TAILQ_INSERT_TAIL(&c->free_peers, &c->cold[i], link);
	}
}

/*
 * Write an address that the control thread may be reading: a sequence lock, word by word.
 *
 *     owner                      reader
 *     make seq odd               read seq, acquire (A); if odd, return no address
 *     store words, release (B)   read words, acquire (B)
 *     make seq even, release (A) read seq again; if it changed, return no address
 *
 * A reader that sees one of the new words sees the odd number that was stored before it.
 */
static void
addr_write(struct leat_peer_cold *cold, const char *addr)
{
	char text[LEAT_ADDR_MAX] = "";
	uint64_t word;
	size_t i;

	snprintf(text, sizeof(text), "%s", addr);
	__atomic_store_n(&cold->addr_seq, cold->addr_seq + 1, __ATOMIC_RELAXED);
	for (i = 0; i < sizeof(text); i += sizeof(word)) {
		memcpy(&word, &text[i], sizeof(word));
		__atomic_store_n((uint64_t *)(void *)&cold->addr[i], word, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&cold->addr_seq, cold->addr_seq + 1, __ATOMIC_RELEASE);
}

void
leat_peer_addr_read(const struct leat_ep *ep, const struct leat_peer *peer, char *addr, size_t len)
{
	const struct leat_peer_cold *cold = cold_of(ep, peer);
	uint32_t seq = __atomic_load_n(&cold->addr_seq, __ATOMIC_ACQUIRE);
	char text[LEAT_ADDR_MAX];
	uint64_t word;
	size_t i;

	for (i = 0; i < sizeof(text); i += sizeof(word)) {
		word = __atomic_load_n((const uint64_t *)(const void *)&cold->addr[i],
				       __ATOMIC_ACQUIRE);
		memcpy(&text[i], &word, sizeof(word));
	}
	if ((seq & 1) != 0 || __atomic_load_n(&cold->addr_seq, __ATOMIC_RELAXED) != seq)
		text[0] = '\0';
	snprintf(addr, len, "%s", text);
}

/* Do leat_queue_init() while the control thread may be reading the counters. */
static void
queue_clear(struct leat_queue *q)
{
	q->head = q->tail = NULL;
	__atomic_store_n(&q->nb_posted, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->nb_returned, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->held_total, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->held_time, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->held_now, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&q->held_max, 0, __ATOMIC_RELAXED);
}

static struct leat_peer *
peer_take(struct leat_ep *ep, enum leat_peer_state state, const char *addr)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	struct leat_peer_cold *cold = TAILQ_FIRST(&c->free_peers);
	struct leat_peer *peer;

	if (cold == NULL)
		return NULL;
	TAILQ_REMOVE(&c->free_peers, cold, link);
	peer = cold->peer;
	memset(cold, 0, offsetof(struct leat_peer_cold, addr));
	cold->peer = peer;
	addr_write(cold, addr);
	queue_clear(&peer->sendq);
	peer->drv = NULL;
	peer->drv_word = 0;
	peer->nb_off_queue = 0;
	peer->ev_pending = 0;
	set_state(peer, state);
	__atomic_store_n(&c->nb_used, c->nb_used + 1, __ATOMIC_RELAXED);
	return peer;
}

static void
peer_release(struct leat_ep *ep, struct leat_peer *peer)
{
	struct leat_ep_ctrl *c = ep->ctrl;

	set_state(peer, LEAT_PEER_FREE);
	peer->drv = NULL;
	TAILQ_INSERT_TAIL(&c->free_peers, cold_of(ep, peer), link);
	__atomic_store_n(&c->nb_used, c->nb_used - 1, __ATOMIC_RELAXED);
}

static void
raise_event(struct leat_ep *ep, struct leat_peer *peer, enum leat_event_type type)
{
	if (peer->ev_pending == 0)
		TAILQ_INSERT_TAIL(&ep->ctrl->ev_peers, cold_of(ep, peer), link);
	peer->ev_pending |= (uint8_t)(1u << type);
}

static void
withdraw(struct leat_ep *ep, struct leat_peer *peer, enum leat_event_type type)
{
	uint8_t bit = (uint8_t)(1u << type);

	if ((peer->ev_pending & bit) == 0)
		return;
	peer->ev_pending &= (uint8_t)~bit;
	if (peer->ev_pending == 0)
		TAILQ_REMOVE(&ep->ctrl->ev_peers, cold_of(ep, peer), link);
}

static void
set_priv(struct leat_peer_cold *cold, const void *priv, uint16_t len)
{
	cold->priv_len = len < LEAT_EP_PRIV_MAX ? len : LEAT_EP_PRIV_MAX;
	if (cold->priv_len > 0)
		memcpy(cold->priv, priv, cold->priv_len);
}

/* ---- reports of drivers ---- */

struct leat_peer *
leat_peer_request(struct leat_ep *ep, const char *from, const void *priv, uint16_t priv_len)
{
	struct leat_peer *peer;

	if (ep->ctrl->state != LEAT_EP_OPEN)
		return NULL;
	peer = peer_take(ep, LEAT_PEER_REQUESTED, from);
	if (peer == NULL)
		return NULL;
	set_priv(cold_of(ep, peer), priv, priv_len);
	raise_event(ep, peer, LEAT_EV_CONNECT_REQ);
	return peer;
}

void
leat_peer_up(struct leat_ep *ep, struct leat_peer *peer, const void *priv, uint16_t priv_len)
{
	struct leat_peer_cold *cold = cold_of(ep, peer);

	set_priv(cold, priv, priv_len);
	cold->was_up = true;
	set_state(peer, LEAT_PEER_UP);
	raise_event(ep, peer, LEAT_EV_CONNECTED);
}

/* Count n ops that ended with their connection: flushed if it ended cleanly, else errors. */
static void
count_lost(struct leat_ep *ep, const struct leat_peer_cold *cold, uint32_t n)
{
	if (cold->status == 0 || cold->status == -ECONNABORTED)
		LEAT_STAT_ADD(ep->stats.flushed, n);
	else
		LEAT_STAT_ADD(ep->stats.errors, n);
}

/*
 * When a connection ends, its ops come back with -ECONNRESET, -ECONNABORTED or -ENOTCONN, often
 * before the driver knows the reason of the end. These ops are counted when the driver reports the
 * reason: as flushed if the connection ended cleanly, else as errors.
 */
void
leat_op_count_failed(struct leat_ep *ep, struct leat_peer *peer, int status)
{
	struct leat_peer_cold *cold;

	if (status == -ECANCELED) {
		LEAT_STAT_ADD(ep->stats.flushed, 1);
		return;
	}
	if (peer == NULL || peer->state < LEAT_PEER_UP ||
	    (status != -ECONNRESET && status != -ECONNABORTED && status != -ENOTCONN)) {
		LEAT_STAT_ADD(ep->stats.errors, 1);
		return;
	}
	cold = cold_of(ep, peer);
	if (cold->ending)
		count_lost(ep, cold, 1);
	else
		cold->nb_lost++;
}

void
leat_peer_closing(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	struct leat_peer_cold *cold = cold_of(ep, peer);

	set_state(peer, LEAT_PEER_CLOSING);
	if (cold->ending)
		return;
	cold->ending = true;
	cold->status = status;
	count_lost(ep, cold, cold->nb_lost);
	cold->nb_lost = 0;
	snprintf(cold->text, sizeof(cold->text), "%s", text);
	LEAT_LOG(INFO, fabric, "%s: peer %u: %s", ep->ctrl->name, peer->id, cold->text);
}

void
leat_peer_down(struct leat_ep *ep, struct leat_peer *peer)
{
	struct leat_peer_cold *cold = cold_of(ep, peer);

	if (leat_peer_inflight(peer) > 0)
		LEAT_LOG(ERR, fabric, "%s: peer %u: driver %s ended it with %u ops in flight",
			 ep->ctrl->name, peer->id, ep->ctrl->driver->name,
			 leat_peer_inflight(peer));
	set_state(peer, LEAT_PEER_DOWN);
	peer->drv = NULL;
	if (cold->was_up || cold->req_seen) {
		raise_event(ep, peer, LEAT_EV_DISCONNECTED);
	} else if (cold->ours) {
		raise_event(ep, peer, LEAT_EV_CONNECT_FAILED);
	} else {
		/* The peer ended before its CONNECT_REQ was delivered: deliver no event. */
		withdraw(ep, peer, LEAT_EV_CONNECT_REQ);
		peer_release(ep, peer);
	}
}

void
leat_peer_failed(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	leat_peer_closing(ep, peer, status, text);
	leat_peer_down(ep, peer);
}

const char *
leat_peer_addr(const struct leat_ep *ep, const struct leat_peer *peer)
{
	return cold_of(ep, peer)->addr;
}

/* ---- delivery of events ---- */

void
leat_peer_reap(struct leat_ep *ep)
{
	struct leat_peer_cold *cold;

	while ((cold = TAILQ_FIRST(&ep->ctrl->dead_peers)) != NULL) {
		TAILQ_REMOVE(&ep->ctrl->dead_peers, cold, link);
		peer_release(ep, cold->peer);
	}
}

static void
deliver(struct leat_peer_cold *cold, enum leat_event_type type, struct leat_event *ev)
{
	bool with_priv = type == LEAT_EV_CONNECT_REQ || type == LEAT_EV_CONNECTED;

	ev->type = type;
	ev->peer = cold->peer->id;
	ev->user = cold->user;
	ev->status = 0;
	ev->priv_len = 0;
	if (with_priv) {
		ev->priv_len = cold->priv_len;
		memcpy(ev->priv, cold->priv, cold->priv_len);
		snprintf(ev->text, sizeof(ev->text), "%s %s", cold->addr,
			 type == LEAT_EV_CONNECTED ? "is connected" : "wants to connect");
	} else {
		ev->status = cold->status;
		snprintf(ev->text, sizeof(ev->text), "%s", cold->text);
	}
	if (type == LEAT_EV_CONNECT_REQ)
		cold->req_seen = true;
}

uint16_t
leat_peer_events(struct leat_ep *ep, struct leat_event *ev, uint16_t n)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	struct leat_peer_cold *cold;
	uint16_t got = 0;

	while (got < n && (cold = TAILQ_FIRST(&c->ev_peers)) != NULL) {
		struct leat_peer *peer = cold->peer;
		enum leat_event_type type = (enum leat_event_type)__builtin_ctz(peer->ev_pending);

		deliver(cold, type, &ev[got++]);
		withdraw(ep, peer, type);
		if (type == LEAT_EV_CONNECT_FAILED || type == LEAT_EV_DISCONNECTED)
			TAILQ_INSERT_TAIL(&c->dead_peers, cold, link);
	}
	return got;
}

/* ---- calls of the application ---- */

static int
params_check(const struct leat_ep *ep, const struct leat_conn_params *params)
{
	if (params == NULL)
		return 0;
	if (params->priv_len > LEAT_EP_PRIV_MAX || (params->priv_len > 0 && params->priv == NULL))
		return leat_err(EINVAL, "%s: connect or accept: %u B of private data, more than %d",
				ep->ctrl->name, params->priv_len, LEAT_EP_PRIV_MAX);
	return 0;
}

int
leat_ep_listen(struct leat_ep *ep, const char *addr)
{
	int ret;

	if (ep->ctrl->state != LEAT_EP_OPEN)
		return leat_err(ESHUTDOWN, "%s: listen: the endpoint is closing", ep->ctrl->name);
	if (ep->ctrl->listening)
		return leat_err(EALREADY, "%s: listen: it listens already", ep->ctrl->name);
	if (addr == NULL || strlen(addr) >= LEAT_ADDR_MAX)
		return leat_err(EINVAL, "%s: listen: address missing or longer than %d",
				ep->ctrl->name, LEAT_ADDR_MAX - 1);
	if (ep->ctrl->driver->listen == NULL)
		return leat_err(EOPNOTSUPP, "%s: listen: %s can't be connected to", ep->ctrl->name,
				ep->ctrl->driver->name);
	ret = ep->ctrl->driver->listen(ep, addr);
	__atomic_store_n(&ep->ctrl->listening, ret == 0, __ATOMIC_RELAXED);
	return ret;
}

int
leat_ep_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	if (!ep->ctrl->listening)
		return leat_err(ENOENT, "%s: asked for its address, but it does not listen",
				ep->ctrl->name);
	return ep->ctrl->driver->listen_addr(ep, addr, len);
}

int
leat_ep_connect(struct leat_ep *ep, const char *addr, const struct leat_conn_params *params)
{
	struct leat_conn_params p = { .timeout_us = LEAT_CONNECT_TIMEOUT_US };
	struct leat_peer_cold *cold;
	struct leat_peer *peer;
	int ret;

	if (ep->ctrl->state != LEAT_EP_OPEN)
		return leat_err(ESHUTDOWN, "%s: connect: the endpoint is closing", ep->ctrl->name);
	if (addr == NULL || strlen(addr) >= LEAT_ADDR_MAX)
		return leat_err(EINVAL, "%s: connect: address missing or longer than %d",
				ep->ctrl->name, LEAT_ADDR_MAX - 1);
	if (params_check(ep, params) < 0)
		return -EINVAL;
	if (params != NULL) {
		p = *params;
		if (p.timeout_us == 0)
			p.timeout_us = LEAT_CONNECT_TIMEOUT_US;
	}
	peer = peer_take(ep, LEAT_PEER_CONNECTING, addr);
	if (peer == NULL)
		return leat_err(ENOSPC,
				"%s: connect %s: all %u peers are taken (leat_ep_conf.max_peers)",
				ep->ctrl->name, addr, ep->nb_peers);
	cold = cold_of(ep, peer);
	cold->ours = true;
	cold->user = p.user;
	ret = ep->ctrl->driver->connect(ep, peer, addr, &p);
	if (ret < 0) {
		peer_release(ep, peer);
		return ret;
	}
	return peer->id;
}

static struct leat_peer *
peer_in_state(struct leat_ep *ep, uint16_t id, const char *what, enum leat_peer_state state)
{
	if (id < ep->nb_peers && ep->peers[id].state == state)
		return &ep->peers[id];
	leat_err(ENOTCONN, "%s: %s: peer %u does not ask to connect (any more)", ep->ctrl->name,
		 what, id);
	return NULL;
}

int
leat_ep_accept(struct leat_ep *ep, uint16_t id, const struct leat_conn_params *params)
{
	static const struct leat_conn_params none;
	struct leat_peer *peer = peer_in_state(ep, id, "accept", LEAT_PEER_REQUESTED);
	int ret;

	if (peer == NULL)
		return -ENOTCONN;
	if (params_check(ep, params) < 0)
		return -EINVAL;
	cold_of(ep, peer)->user = params == NULL ? NULL : params->user;
	set_state(peer, LEAT_PEER_ACCEPTED);
	ret = ep->ctrl->driver->accept(ep, peer, params == NULL ? &none : params);
	if (ret < 0 && peer->state == LEAT_PEER_ACCEPTED)
		set_state(peer, LEAT_PEER_REQUESTED);
	return ret;
}

int
leat_ep_reject(struct leat_ep *ep, uint16_t id)
{
	struct leat_peer *peer = peer_in_state(ep, id, "reject", LEAT_PEER_REQUESTED);

	if (peer == NULL)
		return -ENOTCONN;
	ep->ctrl->driver->reject(ep, peer);
	withdraw(ep, peer, LEAT_EV_CONNECT_REQ);
	peer_release(ep, peer);
	return 0;
}

int
leat_ep_disconnect(struct leat_ep *ep, uint16_t id)
{
	char text[LEAT_EVENT_TEXT];
	struct leat_peer *peer;

	if (id >= ep->nb_peers)
		return leat_err(ENOTCONN, "%s: disconnect: no peer %u", ep->ctrl->name, id);
	peer = &ep->peers[id];
	if (peer->state != LEAT_PEER_UP && peer->state != LEAT_PEER_CONNECTING &&
	    peer->state != LEAT_PEER_ACCEPTED)
		return leat_err(ENOTCONN, "%s: disconnect: peer %u is not connected",
				ep->ctrl->name, id);
	snprintf(text, sizeof(text), "%s: disconnected here", cold_of(ep, peer)->addr);
	ep->ctrl->driver->disconnect(ep, peer, -ECONNABORTED, text);
	return 0;
}

enum leat_peer_state
leat_ep_peer_state(const struct leat_ep *ep, uint16_t id)
{
	return id < ep->nb_peers ? (enum leat_peer_state)ep->peers[id].state : LEAT_PEER_FREE;
}
