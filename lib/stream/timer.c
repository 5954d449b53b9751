/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Time. A stream has one timer, for the earliest of its deadlines. The data path only notes when
 * something happened; the timer looks at these notes when it fires, and starts again for the
 * earliest deadline that is left.
 *
 *     keepalive   sent each keepalive_ms, whatever else goes over the stream: clients wait for it
 *     silence     nothing arrived from the peer
 *     idle        no bytes were sent or received
 *     stall       the device completes no posted op
 *     close       bytes written before a close are still not sent
 *     accept      an accepted client does not come up: without this deadline it would occupy a
 *                 slot until the kernel's connection manager gives up, after a minute or more
 */

#include "stream_pvt.h"

/*
 * A stream ends when the device completes none of its ops for this time, ms. An honest peer that
 * pauses for so long still has a device that accepts writes, so that ops complete.
 */
#define STALL_MS 30000
#define ACCEPT_MS 5000
/* Longest time between two checks of the deadlines, ms. */
#define LATER_MS 60000
/* A timer that fires more than this late, ms, means that the reactor did not poll meanwhile. */
#define LATE_MS 500

static uint64_t
ms_to_cycles(uint32_t ms)
{
	return leat_us_to_cycles((uint64_t)ms * 1000);
}

static uint32_t
keepalive_ms(const struct leat_stream *s)
{
	const struct leat_stream_net_conf *conf = &s->net->conf;
	const uint32_t ms = s->accepted ? conf->keepalive_ms : conf->client_keepalive_ms;

	return ms == LEAT_STREAM_NEVER ? 0 : ms;
}

static uint32_t
silence_ms(const struct leat_stream *s)
{
	const struct leat_stream_net_conf *conf = &s->net->conf;
	const uint32_t ms = s->accepted ? conf->client_silence_ms : conf->silence_ms;

	return ms == LEAT_STREAM_NEVER ? 0 : ms;
}

/* Check whether ms milliseconds have passed since `since`; if not, lower *due to that time. */
static bool
passed(uint64_t since, uint32_t ms, uint64_t now, uint64_t *due)
{
	const uint64_t at = leat_time_add(since, ms_to_cycles(ms));

	if (now >= at)
		return true;
	*due = RTE_MIN(*due, at);
	return false;
}

/* Check the deadlines. @return false: the stream ends */
static bool
look(struct leat_stream *s, uint64_t now, uint64_t *due)
{
	const uint32_t silence = silence_ms(s), idle = s->net->conf.idle_ms;

	if (s->draining && s->close_at <= now) {
		s->aborting = true;
		stream_drain_check(s);
		return false;
	}
	if (s->draining)
		*due = RTE_MIN(*due, s->close_at);
	if (silence != 0 && passed(s->last_heard, silence, now, due)) {
		stream_fail(s, -ETIMEDOUT, "its peer was silent for %u ms", silence);
		return false;
	}
	if (idle != 0 && passed(s->last_data, idle, now, due)) {
		stream_fail(s, -ETIMEDOUT, "no bytes went over it for %u ms", idle);
		return false;
	}
	if (s->tx_flight + s->ctrl_flight > 0 && passed(s->last_progress, STALL_MS, now, due)) {
		stream_fail(s, -ETIMEDOUT, "its device completed no op for %u ms", STALL_MS);
		return false;
	}
	return true;
}

static void
keepalive(struct leat_stream *s, uint64_t now, uint64_t *due)
{
	const uint32_t ms = keepalive_ms(s);

	if (ms == 0)
		return;
	if (now >= s->next_keepalive) {
		s->pending |= PENDING_KEEPALIVE;
		stream_work(s);
		s->next_keepalive = leat_time_add(now, ms_to_cycles(ms));
	}
	*due = RTE_MIN(*due, s->next_keepalive);
}

static void
start(struct leat_stream *s, uint64_t due)
{
	s->timer_due = due;
	leat_timer_start_at(s->net->r, &s->timer, due);
}

/*
 * Restart all periods if the reactor did not run for a while: it has not processed the messages
 * that arrived meanwhile, so the silence is neither the peer's nor the device's fault.
 */
static void
restart_times(struct leat_stream *s, uint64_t now)
{
	if (now >= leat_time_add(s->timer_due, ms_to_cycles(LATE_MS)))
		s->last_heard = s->last_data = s->last_progress = now;
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct leat_stream *s = arg;
	uint64_t due = leat_time_add(now, ms_to_cycles(LATER_MS));

	(void)timer;
	s->net->now = now;
	if (s->state == STREAM_ACCEPTED)
		stream_fail(s, -ETIMEDOUT,
			    "it did not complete the connection after it was accepted");
	restart_times(s, now);
	if (s->state != STREAM_UP || !look(s, now, &due))
		return;
	keepalive(s, now, &due);
	start(s, due);
}

void
stream_timer_up(struct leat_stream *s)
{
	const uint64_t now = leat_now();

	s->last_heard = s->last_data = s->last_progress = now;
	s->next_keepalive = leat_time_add(now, ms_to_cycles(keepalive_ms(s)));
	stream_timer_set(s);
}

void
stream_timer_init(struct leat_stream *s)
{
	leat_timer_init(&s->timer, on_timer, s);
}

void
stream_timer_accepted(struct leat_stream *s)
{
	if (s->net->r != NULL)
		start(s, leat_time_add(leat_now(), ms_to_cycles(ACCEPT_MS)));
}

void
stream_timer_set(struct leat_stream *s)
{
	/* Fire at once: on_timer() computes when the timer is due next. */
	if (s->net->r != NULL)
		start(s, leat_now());
}

void
stream_timer_stop(struct leat_stream *s)
{
	if (s->net->r != NULL)
		leat_timer_stop(&s->timer);
}
