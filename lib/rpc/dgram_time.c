/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Timers of sessions over datagram endpoints. Delayed acknowledgements have a timer of their own;
 * one timer serves all else:
 *
 *     packets not acknowledged  a probe after rto without progress, then after 2 rto, ...
 *     a response is awaited     a probe after a quarter of silence_us without any packet
 *     idle                      a probe each idle_us
 *     no packet for silence_us, although this side waited for one: the peer is dead
 *
 * Packets seldom move the timer. When it is due, it checks what has happened since it was set.
 */

#include "rpc_dgram.h"

/*
 * rto, the time without acknowledgements before a probe: its value before the first round trip is
 * known, and its minimum. An acknowledgement waits up to ACK_DELAY_US for a packet that can carry
 * it.
 */
#define RTO_FIRST_US 5000
#define RTO_MIN_US 300
#define ACK_DELAY_US 50
/*
 * Parts of silence_us: a peer that owes only a response is probed after silence_us / QUIET; a peer
 * that does not answer is probed at least every silence_us / PROBES. If three of ten packets are
 * lost, a probe or its answer is lost twenty times in a row about once in a million.
 */
#define QUIET 4
#define PROBES 20
#define BACKOFF_MAX 20
/* Unanswered probes after which an END counts as received. */
#define END_PROBES 8

static void timer_due(struct rpc_timer *timer, uint64_t now);
static void ack_due(struct rpc_timer *timer, uint64_t now);

/* ---- round trips ---- */

/* Update the smoothed round trip and rto. Source: RFC 6298, except for the limits. */
void
rpc_dgram_rtt(struct rpc_dgram *dg, uint64_t rtt)
{
	const struct leat_rpc *rpc = dg->s->rpc;
	uint64_t off;

	if (dg->srtt == 0) {
		dg->srtt = rtt;
		dg->rttvar = rtt / 2;
	} else {
		off = rtt > dg->srtt ? rtt - dg->srtt : dg->srtt - rtt;
		dg->rttvar += off / 4;
		dg->rttvar -= dg->rttvar / 4;
		dg->srtt += rtt / 8;
		dg->srtt -= dg->srtt / 8;
		dg->srtt += dg->srtt == 0;
	}
	dg->rto = dg->srtt + 4 * dg->rttvar + leat_us_to_cycles(ACK_DELAY_US);
	dg->rto = RTE_MAX(dg->rto, leat_us_to_cycles(RTO_MIN_US));
	dg->rto = RTE_MIN(dg->rto, rpc->silence / PROBES);
}

/* ---- the timer ---- */

static bool
is_waiting(const struct leat_rpc_session *s)
{
	return s->dg->nb_out > 0 || s->nb_reqs > 0 || s->dg->probing;
}

/* Return the time, cycles, at which the timer is due if no packet arrives or is sent before. */
static uint64_t
due_at(const struct leat_rpc_session *s)
{
	const struct rpc_dgram *dg = s->dg;
	const struct leat_rpc *rpc = s->rpc;
	const uint64_t quiet = RTE_MAX(dg->heard, dg->since);
	uint64_t at;

	if (!is_waiting(s))
		return leat_time_add(dg->heard, rpc->idle);
	if (dg->nb_out > 0 || dg->probing)
		at = dg->probe_at;
	else
		at = leat_time_add(quiet, rpc->silence / QUIET);
	return RTE_MIN(at, leat_time_add(quiet, rpc->silence));
}

static void
timer_set(struct leat_rpc_session *s, uint64_t at)
{
	rpc_timer_set(s->rpc, &s->dg->timer, at, timer_due);
}

static void
probe(struct leat_rpc_session *s, uint64_t now)
{
	struct rpc_dgram *dg = s->dg;
	const uint64_t most = s->rpc->silence / PROBES;

	if (!is_waiting(s))
		dg->since = now;
	dg->probing = true;
	dg->probed_at = now;
	dg->probe_at = now + RTE_MIN(dg->rto << dg->backoff, most);
	if (dg->backoff < BACKOFF_MAX)
		dg->backoff++;
	/* If no packet is free, the next probe will do. */
	if (rpc_dgram_control(s, RPC_H_PROBE, ++dg->probe, -1))
		s->rpc->stats.probes++;
}

static void
timer_due(struct rpc_timer *timer, uint64_t now)
{
	struct rpc_dgram *dg = container_of(timer, struct rpc_dgram, timer);
	struct leat_rpc_session *s = dg->s;
	const struct leat_rpc *rpc = s->rpc;

	/* If the timer is late, this side did not poll, and may have missed packets of the peer:
	 * measure the silence from now on. */
	if (now - timer->node.expiry > rpc->silence / QUIET)
		dg->since = now;
	/*
	 * Don't wait longer for the acknowledgement of the END: the peer may have sent it and left,
	 * and it may have been lost.
	 */
	if (dg->end_sent && dg->backoff >= END_PROBES) {
		rpc_drained(s);
		return;
	}
	if (is_waiting(s) && now - RTE_MAX(dg->heard, dg->since) >= rpc->silence) {
		rpc_fail(s, -EHOSTDOWN, "peer %u: nothing was heard for %" PRIu64 " ms", s->peer,
			 leat_cycles_to_ns(now - RTE_MAX(dg->heard, dg->since)) / 1000000);
		return;
	}
	if (dg->paced && now >= dg->not_before) {
		dg->paced = false;
		rpc_dgram_window_set(s);
	}
	if (due_at(s) <= now)
		probe(s, now);
	timer_set(s, dg->paced ? RTE_MIN(due_at(s), dg->not_before) : due_at(s));
}

void
rpc_dgram_pace(struct leat_rpc_session *s, uint64_t until)
{
	s->dg->paced = true;
	s->dg->not_before = until;
	if (s->dg->timer.node.expiry > until)
		timer_set(s, until);
}

void
rpc_dgram_wait_start(struct leat_rpc_session *s, uint64_t now)
{
	struct rpc_dgram *dg = s->dg;

	if (!dg->probing) {
		dg->since = now;
		dg->probe_at = now + dg->rto;
	}
	if (dg->timer.node.expiry > dg->probe_at)
		timer_set(s, dg->probe_at);
}

void
rpc_dgram_progress(struct leat_rpc_session *s, uint64_t now)
{
	s->dg->probe_at = now + s->dg->rto;
}

/* ---- acknowledging ---- */

static void
ack_send(struct leat_rpc_session *s)
{
	/* If no packet is free, try again later. */
	if (!rpc_dgram_control(s, 0, 0, -1))
		rpc_timer_set(s->rpc, &s->dg->ack_timer,
			      leat_time_add(rpc_now(s->rpc), leat_us_to_cycles(ACK_DELAY_US)),
			      ack_due);
}

static void
ack_due(struct rpc_timer *timer, uint64_t now)
{
	struct rpc_dgram *dg = container_of(timer, struct rpc_dgram, ack_timer);

	(void)now;
	if (dg->unacked > 0)
		ack_send(dg->s);
}

void
rpc_dgram_ack_run(struct leat_rpc_session *s)
{
	struct rpc_dgram *dg = s->dg;

	if (likely(dg->unacked == 0))
		return;
	if (dg->ack_now || dg->unacked >= RPC_DGRAM_ACK_EVERY)
		ack_send(s);
	else if (!leat_wheel_queued(&dg->ack_timer.node))
		rpc_timer_set(s->rpc, &dg->ack_timer,
			      leat_time_add(rpc_now(s->rpc), leat_us_to_cycles(ACK_DELAY_US)),
			      ack_due);
}

/* ---- begin and end ---- */

void
rpc_dgram_time_start(struct leat_rpc_session *s)
{
	const struct leat_rpc *rpc = s->rpc;
	struct rpc_dgram *dg = s->dg;
	const uint64_t now = leat_now();

	dg->heard = dg->since = now;
	dg->probing = false;
	dg->backoff = 0;
	dg->srtt = dg->rttvar = 0;
	dg->rto = RTE_MIN(leat_us_to_cycles(RTO_FIRST_US), rpc->silence / PROBES);
	dg->probe_at = now + dg->rto;
	timer_set(s, due_at(s));
}

void
rpc_dgram_time_stop(struct leat_rpc_session *s)
{
	rpc_timer_stop(s->rpc, &s->dg->timer);
	rpc_timer_stop(s->rpc, &s->dg->ack_timer);
}
