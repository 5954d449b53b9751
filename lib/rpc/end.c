/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sessions: failure, close, events.
 *
 *     failure, violation, or the peer's end   OPEN ----------> ENDING -----> OVER    LEAT_RPC_ENDED
 *     leat_rpc_close()                             (drained)      |     (1)    |
 *                                                                 |           free  LEAT_RPC_CLOSED
 *                                                                 `-(1)-> DOWN: see rpc_reconnect.h
 *
 * (1) when the device has returned all packets of the session and the peer's last event has
 *     arrived. Requests are given back as soon as the session is ENDING: the device has none of
 *     their buffers.
 */

#include <stdarg.h>
#include <stdio.h>

#include "rpc_dgram.h"
#include "rpc_reconnect.h"

static const char *const violations[LEAT_RPC_VIOLATIONS] = {
	[LEAT_RPC_TRUNCATED] = "truncated",
	[LEAT_RPC_OVERSIZE] = "oversize",
	[LEAT_RPC_BAD_VERSION] = "bad version",
	[LEAT_RPC_BAD_TOKEN] = "bad token",
	[LEAT_RPC_BAD_EPOCH] = "bad epoch",
	[LEAT_RPC_BAD_CREDIT] = "bad credit",
	[LEAT_RPC_BAD_ACK] = "bad acknowledgement",
	[LEAT_RPC_OVERRUN] = "overrun",
	[LEAT_RPC_BAD_KIND] = "bad kind",
	[LEAT_RPC_BAD_FLAGS] = "bad flags",
	[LEAT_RPC_BAD_STATUS] = "bad status",
	[LEAT_RPC_BAD_PIECE] = "bad piece",
	[LEAT_RPC_BAD_SLOT] = "bad slot",
	[LEAT_RPC_SLOT_BUSY] = "slot busy",
	[LEAT_RPC_NUM_PAST] = "number past",
	[LEAT_RPC_NUM_DUPLICATE] = "number duplicate",
	[LEAT_RPC_NUM_FUTURE] = "number future",
	[LEAT_RPC_BAD_BULK] = "bad bulk",
	[LEAT_RPC_UNASKED] = "unasked",
};

const char *
leat_rpc_violation_name(unsigned int violation)
{
	if (violation == 0 || violation >= LEAT_RPC_VIOLATIONS)
		return "?";
	return violations[violation];
}

/*
 * Make a session ENDING: drop packets that were not sent, and give requests back. Requests that
 * have not begun wait if there will be another connection.
 */
static void
session_ending(struct leat_rpc_session *s)
{
	const enum rpc_session_state was = (enum rpc_session_state)s->state;
	struct rpc_recv *r, *next;
	int status = s->status;

	s->state = RPC_ENDING;
	s->fast = false;
	/* If it was closed before it was up, the status of the attempt does not matter. */
	if (status == 0 || (s->closing && was == RPC_CONNECTING))
		status = s->closing ? -ECANCELED : -ENOTCONN;
	rpc_timer_stop(s->rpc, &s->close);
	rpc_timer_stop(s->rpc, &s->expiry);
	s->expires = UINT64_MAX;
	rpc_packets_drop(s);
	if (s->dg != NULL)
		rpc_dgram_stop(s);
	s->will_reconnect = s->reconnect != NULL && rpc_reconnect_plan(s, was);
	rpc_reqs_end(s, status == -ETIMEDOUT && s->closing ? -ECANCELED : status);
	rpc_handlers_end(s);
	for (r = s->early; r != NULL; r = next) {
		next = r->next;
		rpc_recv_repost(s->rpc, r);
	}
	s->early = NULL;
	rpc_work_add(s);
}

static void
status_set(struct leat_rpc_session *s, int status, const char *text)
{
	if (s->status_final)
		return;
	s->status_final = true;
	s->status = status;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

/* End a session from this side. The peer's last event follows, or is on its way already. */
static void
end(struct leat_rpc_session *s)
{
	session_ending(s);
	if (!s->peer_closed)
		(void)leat_ep_disconnect(s->rpc->ep, s->peer);
}

void
rpc_fail(struct leat_rpc_session *s, int status, const char *fmt, ...)
{
	char text[LEAT_EVENT_TEXT];
	va_list ap;

	if (s->state >= RPC_ENDING)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	status_set(s, status, text);
	end(s);
}

void
rpc_violation(struct leat_rpc *rpc, struct leat_rpc_session *s, int violation)
{
	rpc->stats.violations[violation]++;
	if (s == NULL || s->state >= RPC_ENDING)
		return;
	if (s->state == RPC_OPEN) {
		rpc_packets_drop(s);
		rpc_packet_end(s, EPROTO);
	}
	rpc_fail(s, -EPROTO, "peer %u broke the protocol: %s", s->peer,
		 leat_rpc_violation_name((unsigned int)violation));
}

/*
 * End the session because the send of a packet failed. If the peer is ending, do nothing: its last
 * event reports the reason.
 */
void
rpc_op_failed(struct leat_rpc_session *s, const struct leat_op *op)
{
	if (s->state != RPC_OPEN)
		return;
	if (leat_ep_peer_state(s->rpc->ep, s->peer) == LEAT_PEER_UP)
		rpc_fail(s, op->status, "send of %" PRIu64 " B: %s", op->size,
			 strerror(-op->status));
}

static void
peer_closed(struct leat_rpc_session *s, int status, const char *text)
{
	if (s->peer_closed)
		return;
	s->peer_closed = true;
	s->rpc->by_peer[s->peer].s = NULL;
	status_set(s, status, text);
	if (s->state < RPC_ENDING)
		session_ending(s);
	rpc_work_add(s);
}

/* ---- close ---- */

/*
 * Send a last packet with END on a datagram endpoint, where the device does not report a disconnect
 * to the other side.
 * @return true: the END is on its way
 */
static bool
end_send(struct leat_rpc_session *s)
{
	const struct rpc_item m = { .kind = RPC_END };
	uint8_t *at;

	if (s->dg == NULL || s->dg->end_sent)
		return false;
	at = rpc_place(s, RPC_ITEM_LEN, true);
	if (at != NULL) {
		rpc_item_put(at, &m);
		rpc_commit(s, RPC_ITEM_LEN);
		s->dg->end_sent = true;
		rpc_packets_send(s);
	}
	return true;
}

void
rpc_drained(struct leat_rpc_session *s)
{
	/* The session ends because it was closed here: the peer's last event must not set the
	 * status. */
	s->status_final = true;
	end(s);
}

/*
 * Are requests of either side not answered, or packets not sent? A packet in which only the END
 * waits does not count.
 */
static bool
work_left(const struct leat_rpc_session *s)
{
	return s->nb_reqs > 0 || s->nb_handling > 0 ||
	       (s->queued > 0 && (s->dg == NULL || !s->dg->end_sent));
}

/* End a session whose close has no time left. */
static void
close_end(struct leat_rpc_session *s)
{
	char text[LEAT_EVENT_TEXT];
	int status = -ETIMEDOUT;

	if (rpc_tickets_name(s->rpc, s, text, sizeof(text)) > 0) {
		LEAT_LOG(WARNING, rpc, "%s: session with peer %u closes: %s",
			 leat_ep_name(s->rpc->ep), s->peer, text);
	} else if (work_left(s)) {
		snprintf(text, sizeof(text),
			 "%u requests were not answered, and %u packets not sent, when the time "
			 "was up",
			 s->nb_reqs + s->nb_handling, s->queued);
	} else {
		/* 0, or why the session was down before it connected again. */
		status = s->status;
		snprintf(text, sizeof(text), "%s", s->text);
	}
	if (s->dg != NULL && s->state == RPC_OPEN && (!s->dg->end_sent || s->queued > 0)) {
		rpc_packets_drop(s);
		rpc_packet_end(s, 0);
	}
	rpc_fail(s, status, "%s", text);
}

void
rpc_end_run(struct leat_rpc_session *s)
{
	if (s->state == RPC_OPEN && s->closing && s->nb_reqs == 0 && s->nb_handling == 0 &&
	    s->held == 0 && !end_send(s))
		rpc_drained(s);
	if (s->state < RPC_ENDING && s->time_up)
		close_end(s);
	if (s->state != RPC_ENDING || !s->peer_closed || s->held > 0)
		return;
	rpc_reqs_free(s);
	if (s->will_reconnect) {
		rpc_reconnect_pause(s);
		return;
	}
	s->state = RPC_OVER;
	rpc_event_queue(s, s->closing ? LEAT_RPC_CLOSED : LEAT_RPC_ENDED);
}

/*
 * The next rpc_run() ends the session, after it has sent what it can: a session that has nothing
 * left to do must not be reported as timed out because this timer was due before it was run.
 */
static void
close_due(struct rpc_timer *timer, uint64_t now)
{
	struct leat_rpc_session *s = container_of(timer, struct leat_rpc_session, close);

	(void)now;
	s->time_up = true;
	rpc_work_add(s);
}

static void
close_begin(struct leat_rpc_session *s, uint64_t when)
{
	s->closing = true;
	s->fast = false;
	s->pending_events = 0;
	rpc_reconnect_stop(s);
	if (s->state == RPC_OVER)
		rpc_event_queue(s, LEAT_RPC_CLOSED);
	else if (s->state < RPC_ENDING)
		rpc_timer_set(s->rpc, &s->close, s->state == RPC_CONNECTING ? 0 : when, close_due);
	rpc_work_add(s);
}

int
leat_rpc_close(struct leat_rpc_session *s, uint64_t timeout_us)
{
	if (s->closing || s->state == RPC_FREE)
		return -EALREADY;
	close_begin(s,
		    timeout_us == 0 ? 0 : leat_time_add(leat_now(), leat_us_to_cycles(timeout_us)));
	return 0;
}

void
rpc_close_by(struct leat_rpc_session *s, uint64_t when)
{
	if (s->state == RPC_FREE)
		return;
	if (!s->closing)
		close_begin(s, when);
	else if (leat_wheel_queued(&s->close.node) && when < s->close.node.expiry)
		rpc_timer_set(s->rpc, &s->close, when, close_due);
}

/* ---- events ---- */

/*
 * Bits of pending_events, in the order in which the events are given out. If a session goes up and
 * down several times before leat_rpc_events() takes its events, the changes in the middle are
 * merged; the first event and the last state are kept:
 *
 *     UP DOWN UP DOWN UP    becomes    UP DOWN UP_AGAIN
 */
enum {
	UP = 1u << 0,
	DOWN = 1u << 1,
	UP_AGAIN = 1u << 2,
	ENDED = 1u << 3,
	CLOSED = 1u << 4,
};

static unsigned int
event_add(unsigned int pending, enum leat_rpc_event_type type)
{
	switch (type) {
	case LEAT_RPC_UP:
		return pending | ((pending & DOWN) != 0 ? UP_AGAIN : UP);
	case LEAT_RPC_DOWN:
		return (pending & ~UP_AGAIN) | DOWN;
	case LEAT_RPC_ENDED:
		return pending | ENDED;
	default:
		return pending | CLOSED;
	}
}

/* Take the first of the pending events; there is at least one. */
static enum leat_rpc_event_type
event_take(struct leat_rpc_session *s)
{
	static const enum leat_rpc_event_type types[] = {
		LEAT_RPC_UP, LEAT_RPC_DOWN, LEAT_RPC_UP, LEAT_RPC_ENDED, LEAT_RPC_CLOSED,
	};
	const int bit = __builtin_ctz(s->pending_events);

	s->pending_events &= (uint8_t)(s->pending_events - 1);
	/* UP_AGAIN becomes the next UP, which a new DOWN may follow. */
	if (types[bit] == LEAT_RPC_DOWN && (s->pending_events & UP_AGAIN) != 0)
		s->pending_events ^= UP_AGAIN | UP;
	return types[bit];
}

void
rpc_event_queue(struct leat_rpc_session *s, enum leat_rpc_event_type type)
{
	struct leat_rpc *rpc = s->rpc;

	s->pending_events = (uint8_t)event_add(s->pending_events, type);
	if (s->in_events)
		return;
	s->in_events = true;
	s->next_event = NULL;
	if (rpc->events == NULL)
		rpc->events = s;
	else
		rpc->events_tail->next_event = s;
	rpc->events_tail = s;
}

bool
leat_rpc_handle_event(struct leat_rpc *rpc, const struct leat_event *ev)
{
	struct leat_rpc_session *s;
	uint32_t i;

	rpc->now = 0;
	if (ev->type == LEAT_EV_SHUTDOWN) {
		for (i = 0; i < rpc->max_sessions; i++) {
			s = &rpc->sessions[i];
			if (s->state == RPC_FREE)
				continue;
			rpc_reconnect_shutdown(s);
			peer_closed(s, -ESHUTDOWN, "the endpoint was shut down");
		}
		rpc_run(rpc);
		return false;
	}
	if (ev->type == LEAT_EV_CONNECT_REQ || ev->peer >= rpc->ep->nb_peers)
		return false;
	s = rpc->by_peer[ev->peer].s;
	if (s == NULL) {
		/* A connection that was refused, or one of the application's own. */
		const bool refused = rpc->by_peer[ev->peer].refused_until != 0;

		if (ev->type == LEAT_EV_DISCONNECTED)
			rpc->by_peer[ev->peer].refused_until = 0;
		return refused;
	}
	if (ev->type == LEAT_EV_CONNECTED)
		rpc_session_up(s, ev);
	else
		peer_closed(s, ev->status, ev->text);
	rpc_run(rpc);
	return true;
}

static void
event_give(struct leat_rpc_session *s, struct leat_rpc_event *ev)
{
	const char *text = s->text;

	ev->type = event_take(s);
	ev->session = s;
	ev->user = s->user;
	ev->status = s->status;
	if (ev->type == LEAT_RPC_UP) {
		ev->status = 0;
		text = "";
	} else if (ev->type == LEAT_RPC_DOWN) {
		ev->status = s->reconnect->status;
		text = s->reconnect->text;
	}
	snprintf(ev->text, sizeof(ev->text), "%s", text);
	if (ev->type == LEAT_RPC_CLOSED)
		s->drained = true;
}

uint16_t
leat_rpc_events(struct leat_rpc *rpc, struct leat_rpc_event *ev, uint16_t n)
{
	struct leat_rpc_session *s;
	uint16_t got = 0;

	while (got < n && (s = rpc->events) != NULL) {
		if (s->pending_events != 0)
			event_give(s, &ev[got++]);
		if (s->pending_events != 0)
			continue;
		rpc->events = s->next_event;
		s->in_events = false;
		if (s->drained)
			rpc_session_free(s);
	}
	return got;
}
