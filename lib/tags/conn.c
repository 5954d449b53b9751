/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Peers of the tag layer. Events of the inner endpoint become events of the outer one:
 *
 *     inner                  here                        outer
 *     CONNECT_REQ            hello fits?                 leat_peer_request()
 *     CONNECTED              hello fits?                 leat_peer_up()
 *     CONNECT_FAILED,        segments sent before it     leat_peer_closing(), _down()
 *     DISCONNECTED           are processed first
 *
 * A side that closes cleanly says BYE first, and waits a moment for the other side's BYE, see
 * tags_pvt.h.
 *
 * When this side ends a connection (ENDING), it gives the caller's sends and receives back at once,
 * because the device has only copies of their messages. One-sided ops come back from the device.
 * The outer peer is down only after the inner peer's last event.
 */

#include <string.h>

#include "tags_pvt.h"

/* Longest time for which BYEs may delay the end of a connection, us. */
#define LEAVE_US (500 * 1000)

static void
peer_init(struct tags_peer *p, struct leat_peer *outer, enum tags_peer_state state)
{
	uint16_t id = p->id;
	unsigned int c;

	memset(p, 0, sizeof(*p));
	p->id = id;
	p->outer = outer;
	p->state = (uint8_t)state;
	p->tx_seq = p->rx_seq = TAGS_START;
	for (c = 0; c < TAGS_CLASSES; c++)
		p->sent[c] = p->acked[c] = p->got[c] = p->done[c] = p->returned[c] = TAGS_START;
	TAILQ_INIT(&p->pending);
	TAILQ_INIT(&p->begun);
	TAILQ_INIT(&p->streams);
	STAILQ_INIT(&p->built);
	TAILQ_INIT(&p->replies);
	TAILQ_INIT(&p->early);
	TAILQ_INIT(&p->recvs);
	outer->drv = p;
}

/* Give a peer the free place that tags_mem_grow() returned. */
static void
peer_place(struct tags_ep *e, struct tags_peer *p, struct tags_place *place)
{
	SLIST_REMOVE_HEAD(&e->free_places, link);
	place->peer = p;
	p->place = place;
}

static void
peer_free(struct tags_ep *e, struct tags_peer *p)
{
	if (p->place != NULL) {
		p->place->peer = NULL;
		SLIST_INSERT_HEAD(&e->free_places, p->place, link);
		p->place = NULL;
	}
	p->outer = NULL;
	p->state = TAGS_P_FREE;
}

/* Store the limits that the peer's hello sets. */
static void
peer_limits(const struct tags_ep *e, struct tags_peer *p, const struct tags_hello *h)
{
	unsigned int c;

	for (c = 0; c < TAGS_CLASSES; c++)
		p->window[c] = h->window[c];
	p->segment = RTE_MIN(h->segment, e->segment);
	p->token = h->token;
}

/* ---- disconnect and close ---- */

/* Finish a connection's ops. If `last`, nothing more is sent, not even segments already built. */
static void
drop(struct tags_ep *e, struct tags_peer *p, int status, bool last)
{
	/* -EPROTO is a status of events, not of ops. */
	if (status == 0 || status == -EPROTO)
		status = -ECONNRESET;
	p->state = TAGS_P_ENDING;
	if (last)
		tags_tx_stop(e, p, status);
	else
		tags_tx_drop(e, p, status);
	tags_rx_drop(e, p, status);
}

static void
stop_leaving(struct tags_ep *e, struct tags_peer *p)
{
	if (!p->leaving)
		return;
	p->leaving = false;
	e->nb_leaving--;
}

/* Send a BYE, as the first one or as an answer. */
static void
say_bye(struct tags_ep *e, struct tags_peer *p)
{
	if (!p->leaving) {
		p->leaving = true;
		e->nb_leaving++;
		p->leave_by = leat_time_add(leat_now(), leat_us_to_cycles(LEAVE_US));
	}
	tags_tx_bye(e, p);
	tags_peer_bye_done(e, p);
}

void
tags_peer_close(struct tags_ep *e, struct tags_peer *p, int status)
{
	/* If the device has no room for BYE in time, the other side sees a failure, not a close. */
	if (p->state == TAGS_P_UP && e->inner->peers[p->id].state == LEAT_PEER_UP) {
		drop(e, p, status, false);
		say_bye(e, p);
	}
}

/* Disconnect, since both sides said BYE, or one of them took too long. */
static void
disconnect_peer(struct tags_ep *e, struct tags_peer *p)
{
	struct leat_peer *inner = &e->inner->peers[p->id];

	stop_leaving(e, p);
	tags_tx_stop(e, p, -ECONNRESET); /* frees the BYE, if the device never had room for it */
	if (inner->state == LEAT_PEER_UP && !e->closing)
		e->driver->disconnect(e->inner, inner, -ECONNABORTED, "disconnected here");
}

void
tags_peer_bye_done(struct tags_ep *e, struct tags_peer *p)
{
	/* The side that only answers (not ENDING) waits for its peer to disconnect. */
	if (p->leaving && p->bye && p->bye_sent && p->state == TAGS_P_ENDING)
		disconnect_peer(e, p);
}

void
tags_peer_said_bye(struct tags_ep *e, struct tags_peer *p)
{
	p->bye = true;
	if (p->leaving)
		tags_peer_bye_done(e, p);
	else
		say_bye(e, p);
}

void
tags_peer_end(struct tags_ep *e, struct tags_peer *p, int status, const char *text)
{
	struct leat_peer *inner = &e->inner->peers[p->id];
	bool up;

	if (p->state == TAGS_P_ENDING || p->state == TAGS_P_FREE)
		return;
	up = p->state == TAGS_P_UP && inner->state == LEAT_PEER_UP;
	leat_peer_closing(e->outer, p->outer, status, text);
	if (up && status == -ECONNABORTED) {
		drop(e, p, status, false);
		say_bye(e, p);
		return;
	}
	stop_leaving(e, p);
	drop(e, p, status, true);
	if (inner->state == LEAT_PEER_UP || inner->state == LEAT_PEER_CONNECTING ||
	    inner->state == LEAT_PEER_ACCEPTED)
		e->driver->disconnect(e->inner, inner, status, text);
}

void
tags_peers_leave(struct tags_ep *e, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < e->inner->nb_peers && e->nb_leaving > 0; i++) {
		struct tags_peer *p = &e->peers[i];

		if (p->leaving && now >= p->leave_by)
			disconnect_peer(e, p);
	}
}

void
tags_peer_fail(struct tags_ep *e, struct tags_peer *p, const char *why)
{
	char text[LEAT_EVENT_TEXT];

	snprintf(text, sizeof(text), "%s: tagged messages: %s", leat_peer_addr(e->outer, p->outer),
		 why);
	LEAT_LOG(WARNING, tags, "%s: %s", leat_ep_name(e->outer), text);
	tags_peer_end(e, p, -EPROTO, text);
}

void
tags_peer_check(struct tags_ep *e, struct tags_peer *p)
{
	uint8_t state = e->inner->peers[p->id].state;

	/*
	 * All other steps wait for the connection's last event, because segments that the peer sent
	 * before it, maybe BYE, must be processed first.
	 */
	if (p->state == TAGS_P_UP && (state == LEAT_PEER_CLOSING || state == LEAT_PEER_DOWN))
		p->outer->state = LEAT_PEER_CLOSING;
}

void
tags_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	tags_peer_end(tags_of(ep), tags_peer_of(peer), status, text);
}

/* ---- events ---- */

static void
requested(struct tags_ep *e, struct tags_peer *p, const struct leat_event *ev)
{
	const char *addr = leat_peer_addr(e->inner, &e->inner->peers[p->id]);
	struct leat_peer *outer = NULL;
	struct tags_hello hello;
	const char *why = tags_hello_parse(ev->priv, ev->priv_len, &hello);

	if (why != NULL)
		LEAT_LOG(WARNING, tags, "%s: request of %s rejected: %s", leat_ep_name(e->outer),
			 addr, why);
	else
		outer = leat_peer_request(e->outer, addr, ev->priv + TAGS_HELLO_LEN,
					  hello.priv_len);
	if (outer == NULL) {
		/*
		 * Ignore a failure, which means that the request has ended already, and the peer
		 * with it.
		 */
		(void)leat_ep_reject(e->inner, p->id);
		return;
	}
	peer_init(p, outer, TAGS_P_REQUESTED);
	peer_limits(e, p, &hello);
}

static void
connected(struct tags_ep *e, struct tags_peer *p, const struct leat_event *ev)
{
	struct tags_hello hello;
	const char *why;

	if (p->state == TAGS_P_ACCEPTED) {
		p->state = TAGS_P_UP;
		leat_peer_up(e->outer, p->outer, NULL, 0);
		tags_todo(e, p); /* an answer to the peer's BYE may have waited for UP */
		return;
	}
	if (p->state != TAGS_P_CONNECTING)
		return;
	why = tags_hello_parse(ev->priv, ev->priv_len, &hello);
	if (why != NULL) {
		tags_peer_fail(e, p, why);
		return;
	}
	peer_limits(e, p, &hello);
	p->state = TAGS_P_UP;
	leat_peer_up(e->outer, p->outer, ev->priv + TAGS_HELLO_LEN, hello.priv_len);
	tags_rx_early(e, p);
}

/*
 * Correct the device's status of an end. An end is clean if the peer has said BYE; the device may
 * report a clean end for a process that was killed, and a failure for a peer that left cleanly
 * while segments were on their way to it.
 */
static int
end_status(const struct tags_peer *p, int status)
{
	if (p->bye)
		return 0;
	if (status == 0 && (p->state == TAGS_P_UP || p->state == TAGS_P_ACCEPTED))
		return -ECONNRESET;
	return status;
}

static void
ended(struct tags_ep *e, struct tags_peer *p, const struct leat_event *ev)
{
	struct leat_peer *outer = p->outer;
	uint32_t ready = e->inner->nb_ready, n;
	char text[LEAT_EVENT_TEXT];
	int status;

	/* First process the segments that the peer sent before, and the ops that are done. */
	do {
		n = tags_inner_poll(e);
		ready -= RTE_MIN(ready, n);
	} while (ready > 0 && n > 0);
	if (outer == NULL) {
		peer_free(e, p);
		return;
	}
	status = end_status(p, ev->status);
	if (status == ev->status)
		snprintf(text, sizeof(text), "%s", ev->text);
	else
		snprintf(text, sizeof(text), "%s %s", leat_peer_addr(e->outer, outer),
			 status == 0 ? "disconnected" : "ended without a goodbye: it died");
	leat_peer_closing(e->outer, outer, status, text);
	stop_leaving(e, p);
	drop(e, p, status, true);
	peer_free(e, p);
	leat_peer_down(e->outer, outer);
}

void
tags_events(struct tags_ep *e)
{
	struct leat_event ev[4];
	uint16_t i, n;

	do {
		n = leat_ep_events(e->inner, ev, RTE_DIM(ev));
		for (i = 0; i < n; i++) {
			struct tags_peer *p;

			if (ev[i].peer >= e->inner->nb_peers)
				continue; /* the outer endpoint raises its own SHUTDOWN */
			p = &e->peers[ev[i].peer];
			if (ev[i].type == LEAT_EV_CONNECT_REQ)
				requested(e, p, &ev[i]);
			else if (ev[i].type == LEAT_EV_CONNECTED)
				connected(e, p, &ev[i]);
			else
				ended(e, p, &ev[i]);
		}
	} while (n == RTE_DIM(ev));
	tags_push(e);
}

/* ---- calls of the application ---- */

struct priv {
	uint8_t bytes[LEAT_EP_PRIV_MAX];
	struct leat_conn_params params;
};

/* Build the private data: the hello, then the caller's data. */
static int
priv_build(struct tags_ep *e, struct priv *out, const struct leat_conn_params *params, uint16_t max,
	   const char *what)
{
	struct tags_hello hello = { .priv_len = (uint8_t)params->priv_len, .segment = e->segment };
	const struct tags_place *place;
	unsigned int c;

	if (params->priv_len > max)
		return leat_err(EINVAL,
				"%s: %s: %u B of private data, more than %u (of an endpoint "
				"with tagged ops)",
				leat_ep_name(e->outer), what, params->priv_len, max);
	place = tags_mem_grow(e);
	if (place == NULL)
		return -rte_errno;
	hello.token = place->token;
	for (c = 0; c < TAGS_CLASSES; c++)
		hello.window[c] = (uint8_t)e->window[c];
	tags_hello_build(out->bytes, &hello);
	if (params->priv_len > 0)
		memcpy(out->bytes + TAGS_HELLO_LEN, params->priv, params->priv_len);
	out->params = *params;
	out->params.priv = out->bytes;
	out->params.priv_len = (uint16_t)(TAGS_HELLO_LEN + params->priv_len);
	return 0;
}

int
tags_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	     const struct leat_conn_params *params)
{
	struct tags_ep *e = tags_of(ep);
	struct priv priv;
	int ret;

	ret = priv_build(e, &priv, params, e->priv_connect, "connect");
	if (ret == 0)
		ret = leat_ep_connect(e->inner, addr, &priv.params);
	if (ret < 0)
		return ret;
	peer_init(&e->peers[ret], peer, TAGS_P_CONNECTING);
	peer_place(e, &e->peers[ret], SLIST_FIRST(&e->free_places));
	return 0;
}

int
tags_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct tags_peer *p = tags_peer_of(peer);
	struct tags_ep *e = tags_of(ep);
	struct priv priv;
	int ret;

	ret = priv_build(e, &priv, params, e->priv_accept, "accept");
	if (ret == 0)
		ret = leat_ep_accept(e->inner, p->id, &priv.params);
	if (ret < 0)
		return ret;
	p->state = TAGS_P_ACCEPTED;
	peer_place(e, p, SLIST_FIRST(&e->free_places));
	return 0;
}

void
tags_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct tags_peer *p = tags_peer_of(peer);
	struct tags_ep *e = tags_of(ep);

	p->outer = NULL;
	/*
	 * If the reject fails, the connection has ended already. Its last event is still to come,
	 * finds no outer peer, and frees p.
	 */
	if (leat_ep_reject(e->inner, p->id) == 0)
		peer_free(e, p);
}
