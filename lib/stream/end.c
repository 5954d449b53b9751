/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How streams end.
 *
 *     failure   stream_fail():        disconnects at once, and keeps the reason
 *     close     leat_stream_close():  sends the bytes written before, and the end of the direction
 *                                     if the peer supports that, then disconnects
 *     peer      its last event:       the bytes that it sent have arrived before the event
 *     stop      of the reactor:       as close, but the application keeps the handle
 *
 * The memory that the peer could write to is deregistered when the device has released the peer;
 * bytes that have arrived can be read until the application closes the stream.
 */

#include <stdarg.h>

#include "stream_pvt.h"

/* Time for the streams to end, us, if the reactor's stop has no deadline. */
#define STOP_US 3000000

static void
disconnect(struct leat_stream *s)
{
	if (s->state >= STREAM_ENDING)
		return;
	s->state = STREAM_ENDING;
	stream_timer_stop(s);
	/* This fails if the peer has ended already: then its last event is on the way. */
	(void)leat_ep_disconnect(s->net->ep, s->peer);
	stream_ready_touch(s);
}

void
stream_fail(struct leat_stream *s, int error, const char *fmt, ...)
{
	struct leat_stream_net *net = s->net;
	char cause[LEAT_EVENT_TEXT];
	va_list ap;

	if (s->state >= STREAM_ENDING)
		return;
	va_start(ap, fmt);
	vsnprintf(cause, sizeof(cause), fmt, ap);
	va_end(ap);
	s->error = error;
	snprintf(s->why, sizeof(s->why), "%.60s: %.90s", s->addr, cause);
	if (error == -EPROTO)
		STREAM_COUNT(net->stats.protocol, 1);
	LEAT_LOG(NOTICE, stream, "%s: stream %" PRIu64 ": %s", net->name, s->id, s->why);
	disconnect(s);
}

void
stream_drain_check(struct leat_stream *s)
{
	if (!s->draining || s->state >= STREAM_ENDING)
		return;
	if (s->state == STREAM_UP && !s->aborting) {
		if ((s->features & STREAM_FEATURE_END) != 0 && !s->shut) {
			s->shut = true;
			s->pending |= PENDING_END;
			stream_work(s);
		}
		if (!stream_tx_empty(s) || (s->pending & PENDING_END) != 0)
			return;
		if (s->end_sent && s->ctrl_flight > 0)
			return;
	}
	if (s->state == STREAM_UP && !stream_tx_empty(s) && !s->dropped) {
		s->cut = true;
		LEAT_LOG(NOTICE, stream,
			 "%s: stream %" PRIu64 " to %s: closed with %" PRIu64 " B not sent",
			 s->net->name, s->id, s->addr, s->tx_head - s->tx_done);
	}
	disconnect(s);
}

static void
drain(struct leat_stream *s, uint64_t at)
{
	if (s->draining && s->close_at <= at)
		return;
	s->draining = true;
	s->close_at = at;
	if (s->state == STREAM_UP)
		stream_timer_set(s);
	else if (s->state < STREAM_UP)
		s->aborting = true;
	stream_work(s);
}

void
stream_down(struct leat_stream *s, int status, const char *text)
{
	struct leat_stream_net *net = s->net;
	const bool ours = s->state == STREAM_ENDING;

	/* The stream never came up here: the application does not know of it. */
	if (!s->known)
		s->released = true;
	stream_timer_stop(s);
	if (ours || s->error < 0) {
		/* s->error and s->why are set already, or the end is a clean one of this side. */
	} else if (status < 0) {
		s->error = status;
		snprintf(s->why, sizeof(s->why), "%s", text);
	} else if ((s->features & STREAM_FEATURE_END) != 0 && s->rx_got != s->rx_end) {
		s->error = -ECONNRESET;
		snprintf(s->why, sizeof(s->why),
			 "%.60s: its connection ended before the end of its bytes", s->addr);
	}
	if (s->state != STREAM_CONNECTING && s->error == 0)
		STREAM_COUNT(net->stats.closed, 1);
	else
		STREAM_COUNT(net->stats.failed, 1);
	s->state = STREAM_OVER;
	net->by_peer[s->peer] = NULL;
	stream_tx_end(s);
	stream_mem_close(s);
	if (s->cut)
		net->cut = true;
	stream_ready_touch(s);
	stream_slot_put(s);
}

static void
release(struct leat_stream *s)
{
	s->released = true;
	s->ready = NULL;
	s->announce = false;
	stream_ready_touch(s);
}

void
leat_stream_close(struct leat_stream *s, uint64_t timeout_us)
{
	if (timeout_us == 0)
		timeout_us = LEAT_STREAM_CLOSE_US;
	release(s);
	drain(s, leat_time_add(leat_now(), leat_us_to_cycles(timeout_us)));
	stream_slot_put(s);
}

void
leat_stream_abort(struct leat_stream *s)
{
	release(s);
	s->draining = s->aborting = true;
	s->dropped = true;
	stream_work(s);
	stream_slot_put(s);
}

int
leat_stream_shutdown(struct leat_stream *s)
{
	if (s->state < STREAM_UP)
		return -EAGAIN;
	if (s->state > STREAM_UP)
		return -EPIPE;
	if (s->shut)
		return -EALREADY;
	if (!s->features_known && !(!s->accepted && s->net->conf.no_features))
		return -EAGAIN;
	if ((s->features & STREAM_FEATURE_END) == 0)
		return leat_err(EOPNOTSUPP, "stream %s: the peer does not know half-closed streams",
				s->addr);
	s->shut = true;
	s->pending |= PENDING_END;
	stream_work(s);
	return 0;
}

/* ---- stop of the reactor, close of the net ---- */

void
stream_close_all(struct leat_stream_net *net, uint64_t at)
{
	uint32_t i;

	for (i = 0; i < net->conf.max_streams; i++) {
		struct leat_stream *s = &net->streams[i];

		if (s->state != STREAM_FREE && s->state < STREAM_ENDING)
			drain(s, at);
	}
}

/* Count the streams whose peers the device has not released. */
static uint32_t
count_left(const struct leat_stream_net *net, const struct leat_stream **first)
{
	uint32_t i, n = 0;

	for (i = 0; i < net->conf.max_streams; i++) {
		const struct leat_stream *s = &net->streams[i];

		if (s->state == STREAM_FREE || s->state == STREAM_OVER)
			continue;
		if (n++ == 0 && first != NULL)
			*first = s;
	}
	return n;
}

/*
 * Lower *time to `at`. The caller computes `at` from the time that is left, so that it grows from
 * call to call: the first value counts, until a further stop with an earlier deadline lowers it.
 */
static void
lower(uint64_t *time, uint64_t at)
{
	if (*time == 0 || at < *time)
		*time = at;
}

/* Check whether the streams may be closed: ask drain() until half of the stop's time is over. */
static bool
may_close(struct leat_stream_net *net, uint64_t now, uint64_t until)
{
	if (net->conf.drain == NULL)
		return true;
	lower(&net->drain_until,
	      until == UINT64_MAX ? until : now + (until - RTE_MIN(until, now)) / 2);
	return net->stop_at != 0 || now >= net->drain_until ||
	       net->conf.drain(net->conf.drain_arg, net->drain_until) == 0;
}

int
stream_net_drain(void *arg, uint64_t until)
{
	struct leat_stream_net *net = arg;
	const uint64_t now = leat_now();
	const uint64_t at = leat_time_add(now, leat_us_to_cycles(net->conf.close_us));
	const uint64_t left = until == UINT64_MAX ? leat_us_to_cycles(STOP_US)
						  : until - RTE_MIN(until, now);

	if (!may_close(net, now, until))
		return 1;
	/* Keep the last eighth of the time for the device to disconnect. */
	lower(&net->stop_at, RTE_MIN(at, leat_time_add(now, left - left / 8)));
	leat_stream_unlisten(net);
	stream_close_all(net, net->stop_at);
	return count_left(net, NULL) > 0;
}

int
stream_net_quiesce(void *arg, char *what, size_t len)
{
	struct leat_stream_net *net = arg;
	const struct leat_stream *first = NULL;
	const uint32_t n = count_left(net, &first);

	if (what == NULL)
		return n > 0;
	/* This stop ends here; a later call belongs to another stop. */
	net->stop_at = net->drain_until = 0;
	if (n > 0)
		snprintf(what, len, "%u streams, one to %s", n, first->addr);
	return n > 0;
}
