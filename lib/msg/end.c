/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How connections end.
 *
 *     failure, or the peer's end     OPEN ----------> ENDING --------> OVER          LEAT_MSG_ENDED
 *     leat_msg_close()                    (drain)             (1)       |
 *                                                                    free (2)     LEAT_MSG_CLOSED
 *
 * (1) when the device has returned all ops, which may use buffers of the requests until then, and
 *     the peer's last event was seen. In OVER all sends are given back; receives first get the
 *     messages that have arrived, and may wait for buffers that come back with the sends.
 * (2) when leat_msg_close() was called, and every request was given out.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <leat_driver.h>

#include "msg_pvt.h"

/* Recall receives that name no peer, since the device does not end them when the peer ends. */
static void
recall(struct leat_msg_conn *c)
{
	uint32_t i;

	if (c->recv_peer != LEAT_PEER_ANY)
		return;
	for (i = 0; i <= c->mask; i++) {
		struct msg_slot *s = &c->rx[i];

		/*
		 * A cancel fails only if the receive has got its message already: then the receive
		 * completes by itself.
		 */
		if ((s->flags & MSG_OP_OUT) != 0)
			(void)leat_op_cancel(c->ep, &s->op);
		if ((s->flags & MSG_DATA_OUT) != 0)
			(void)leat_op_cancel(c->ep, &s->data);
	}
	for (i = 0; i < MSG_CTRL; i++) {
		if ((c->ctrl_rx[i].flags & MSG_OP_OUT) != 0)
			(void)leat_op_cancel(c->ep, &c->ctrl_rx[i].op);
	}
}

/* Change from state CONNECTING or OPEN to ENDING. */
static void
leave(struct leat_msg_conn *c)
{
	c->state = MSG_ENDING;
	c->draining = false;
	c->rx_next = NULL;
	c->fast = false;
}

/* Disconnect. The peer's last event follows, or has come already. */
static void
end(struct leat_msg_conn *c)
{
	leave(c);
	if (!c->peer_closed)
		(void)leat_ep_disconnect(c->ep, c->peer);
	recall(c);
	msg_work(c);
}

static const char *
peer_addr(const struct leat_msg_conn *c)
{
	return c->peer < c->ep->nb_peers ? leat_peer_addr(c->ep, &c->ep->peers[c->peer]) : "?";
}

void
msg_fail(struct leat_msg_conn *c, int status, const char *fmt, ...)
{
	size_t len = sizeof(c->text);
	va_list ap;
	int n;

	if (c->state >= MSG_ENDING)
		return;
	if (!c->status_final) {
		n = snprintf(c->text, len, "%s: ", peer_addr(c));
		va_start(ap, fmt);
		if (n > 0 && (size_t)n < len)
			vsnprintf(c->text + n, len - (size_t)n, fmt, ap);
		va_end(ap);
		c->status = status;
		c->status_final = true;
	}
	c->m->stats.ended_errors++;
	end(c);
}

/*
 * If the peer is ending, its last event will say why, and the connection waits for that event. If
 * the peer is up, the device failed a single op. Then a message is missing, so this side ends the
 * connection.
 */
void
msg_op_failed(struct leat_msg_conn *c, const struct leat_op *op)
{
	if (c->state != MSG_OPEN)
		return;
	if (leat_ep_peer_state(c->ep, c->peer) == LEAT_PEER_UP) {
		msg_fail(c, op->status, "%s of %" PRIu64 " B: %s", leat_op_type_name(op->type),
			 op->size, strerror(-op->status));
		return;
	}
	leave(c);
	recall(c);
	msg_work(c);
}

/* Compose a text that has the peer's address once, though texts of some drivers contain it. */
static void
peer_text(struct leat_msg_conn *c, int status, const char *text)
{
	const char *addr = peer_addr(c);

	if (status == 0)
		snprintf(c->text, sizeof(c->text), "closed by %s", addr);
	else if (strstr(text, addr) != NULL)
		snprintf(c->text, sizeof(c->text), "%s", text);
	else if (snprintf(c->text, sizeof(c->text), "%s: %s", addr, text) >= (int)sizeof(c->text))
		memcpy(c->text + sizeof(c->text) - sizeof("..."), "...", sizeof("..."));
}

void
msg_peer_closed(struct leat_msg_conn *c, int status, const char *text)
{
	if (c->peer_closed)
		return;
	c->peer_closed = true;
	if (c->peer < c->ep->nb_peers && c->m->by_peer[c->peer] == c)
		c->m->by_peer[c->peer] = NULL;
	if (!c->status_final) {
		c->status_final = true;
		c->status = status;
		peer_text(c, status, text);
	}
	if (c->state < MSG_ENDING) {
		leave(c);
		recall(c);
	}
	msg_work(c);
}

void
msg_ending(struct leat_msg_conn *c)
{
	if (!c->peer_closed || c->tx_out + c->rx_out > 0)
		return;
	c->state = MSG_OVER;
	msg_tx_finish(c);
	if (!c->closing)
		c->pending |= 1u << LEAT_MSG_ENDED;
	msg_over(c);
}

/*
 * Sends are given back first, and at once, because they may hold the buffers for which receives
 * wait, as in an echo server. If connections share a pool, other connections need these buffers,
 * too.
 */
void
msg_over(struct leat_msg_conn *c)
{
	int status = c->status;
	struct leat_msg_req *req;

	if (status == 0)
		status = c->closing ? -ECANCELED : -ENOTCONN;
	for (req = c->sendq.head; req != NULL; req = req->next) {
		if (req->state < MSG_REQ_CANCELLED)
			msg_req_finish(req, status, 0);
	}
	c->sendq.begin = NULL;
	msg_list_give(c->m, &c->sendq);
	msg_rx_over(c, status);
}

/*
 * Leat mode: were messages sent to a peer from which nothing has come yet? Then the peer may not
 * know that the connection is up, and may have no receives for the messages: a disconnect could be
 * faster than its first receives. The peer is pinged. Whatever comes from it is an answer, because
 * a peer sends nothing before it has posted its receives.
 */
static bool
ping_unheard(struct leat_msg_conn *c)
{
	if (c->mode != LEAT_MSG_LEAT || c->drain_deadline == 0 || c->tx_next == c->first_id ||
	    msg_heard(c))
		return false;
	if (!c->drain_pinged) {
		c->drain_pinged = true;
		c->ctrl_due |= 1u << MSG_CTRL_PING;
		msg_work(c);
	}
	return true;
}

void
msg_drain(struct leat_msg_conn *c)
{
	bool unsent = c->state == MSG_OPEN && (c->sendq.head != NULL || c->tx_out > 0);

	if (unsent || (c->state == MSG_OPEN && ping_unheard(c))) {
		if (leat_now() < c->drain_deadline)
			return;
		c->status = -ETIMEDOUT;
		snprintf(c->text, sizeof(c->text),
			 unsent ? "closed here, and some messages to %s were not sent in time"
				: "closed here, and %s did not say in time that it listens",
			 peer_addr(c));
	} else if (!c->status_final) {
		snprintf(c->text, sizeof(c->text), "closed here, to %s", peer_addr(c));
	}
	/* The connection ends because it was closed here, whatever the peer's last event says. */
	c->status_final = true;
	end(c);
}

int
leat_msg_close(struct leat_msg_conn *c, uint64_t timeout_us)
{
	if (c->closing || c->state == MSG_FREE)
		return -EALREADY;
	c->closing = c->no_sends = c->no_fast_send = true;
	c->end_due = false;
	c->fast = false;
	c->pending &=
		(uint8_t) ~(1u << LEAT_MSG_UP | 1u << LEAT_MSG_SHUTDOWN | 1u << LEAT_MSG_ENDED);
	msg_work(c);
	switch (c->state) {
	case MSG_CONNECTING:
		snprintf(c->text, sizeof(c->text), "closed here before %s answered", peer_addr(c));
		c->status_final = true;
		end(c);
		break;
	case MSG_OPEN:
		c->draining = true;
		c->drain_deadline =
			timeout_us == 0 ? 0
					: leat_time_add(leat_now(), leat_us_to_cycles(timeout_us));
		break;
	default:
		break;
	}
	return 0;
}

/* ---- events ---- */

bool
leat_msg_handle_event(struct leat_msg *m, const struct leat_event *ev)
{
	struct leat_msg_conn *c;
	uint16_t i;

	if (ev->type == LEAT_EV_SHUTDOWN) {
		for (i = 0; i < m->max_conns; i++) {
			if (m->conns[i].state != MSG_FREE)
				msg_peer_closed(&m->conns[i], -ESHUTDOWN,
						"the endpoint was shut down");
		}
		return false;
	}
	if (ev->type == LEAT_EV_CONNECT_REQ || ev->peer >= m->ep->nb_peers)
		return false;
	c = m->by_peer[ev->peer];
	if (c == NULL)
		return msg_reject_event(m, ev);
	if (ev->type == LEAT_EV_CONNECTED)
		msg_conn_up(c, ev);
	else
		msg_peer_closed(c, ev->status, ev->text);
	return true;
}

static void
event_fill(struct leat_msg_event *ev, enum leat_msg_event_type type, struct leat_msg_conn *c)
{
	ev->type = type;
	ev->conn = c;
	ev->user = c->user;
	ev->status = type < LEAT_MSG_ENDED ? 0 : c->status;
	snprintf(ev->text, sizeof(ev->text), "%s", type < LEAT_MSG_ENDED ? "" : c->text);
}

/*
 * Has leat_msg_poll() given out all sends of a connection that are done, and, if recvs is set, all
 * receives?
 */
static bool
given_out(const struct leat_msg_conn *c, bool recvs)
{
	const struct leat_msg_req *req;

	for (req = c->m->done.head; req != NULL; req = req->next) {
		if (req->conn == c && (recvs || req->recv == 0))
			return false;
	}
	return true;
}

uint16_t
msg_conn_events(struct leat_msg_conn *c, struct leat_msg_event *ev, uint16_t n)
{
	uint16_t got = 0;

	if (c->draining)
		msg_drain(c);
	if (c->pending == 0 && !c->closing)
		return 0;
	if (got < n && (c->pending & 1u << LEAT_MSG_UP) != 0) {
		c->pending &= (uint8_t) ~(1u << LEAT_MSG_UP);
		event_fill(&ev[got++], LEAT_MSG_UP, c);
	}
	if (got < n && (c->pending & 1u << LEAT_MSG_SHUTDOWN) != 0 && given_out(c, true)) {
		c->pending &= (uint8_t) ~(1u << LEAT_MSG_SHUTDOWN);
		event_fill(&ev[got++], LEAT_MSG_SHUTDOWN, c);
	}
	if (got < n && (c->pending & 1u << LEAT_MSG_ENDED) != 0 && c->sendq.head == NULL &&
	    given_out(c, false)) {
		c->pending &= (uint8_t) ~(1u << LEAT_MSG_ENDED);
		event_fill(&ev[got++], LEAT_MSG_ENDED, c);
	}
	if (got < n && c->closing && c->state == MSG_OVER && !c->in_work && c->recvq.head == NULL &&
	    c->sendq.head == NULL && given_out(c, true)) {
		event_fill(&ev[got++], LEAT_MSG_CLOSED, c);
		msg_conn_free(c);
	}
	return got;
}

void
msg_events_begin(struct leat_msg *m)
{
	msg_timeouts(m);
	if (leat_ask_pending(&m->asked))
		msg_telemetry_answer(m);
	leat_tune_serve(m->tune);
}

uint16_t
leat_msg_events(struct leat_msg *m, struct leat_msg_event *ev, uint16_t n)
{
	uint16_t i, got = 0;

	msg_events_begin(m);
	for (i = 0; i < m->max_conns && m->nb_open > 0; i++) {
		struct leat_msg_conn *c = &m->conns[i];

		if (c->state != MSG_FREE)
			got = (uint16_t)(got + msg_conn_events(c, &ev[got], (uint16_t)(n - got)));
	}
	return got;
}
