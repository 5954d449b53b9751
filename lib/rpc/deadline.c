/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Deadlines of requests, and timers of sessions.
 *
 * A request posted on the slow path has a timer of its own in the wheel. Requests of the fast
 * path, which are nearly all, share one timer of their session. It is due at their earliest
 * deadline, even if that request was answered meanwhile; then expiry_due() looks through the slots,
 * and sets the timer to the earliest deadline that is left. So a request that is answered in time
 * costs nothing here.
 */

#include "rpc_pvt.h"

/*
 * Maximum number of timers handled in one call. Other timers that are due follow in the next call.
 */
#define AT_ONCE 256
/* One of this many polls reads the clock. */
#define DEADLINE_POLLS 8

void
rpc_deadline_start(struct leat_rpc *rpc, struct leat_rpc_req *req, uint64_t when)
{
	leat_wheel_add(&rpc->wheel, &req->timer, when);
}

static void
req_late(struct leat_wheel_node *node, void *arg)
{
	struct leat_rpc_req *req = container_of(node, struct leat_rpc_req, timer);
	struct leat_rpc *rpc = arg;

	rpc->stats.expired++;
	rpc_req_abandon(req, -ETIMEDOUT);
}

/* ---- requests in slots ---- */

static void
expiry_due(struct rpc_timer *timer, uint64_t now)
{
	struct leat_rpc_session *s = container_of(timer, struct leat_rpc_session, expiry);
	uint64_t next = UINT64_MAX;
	uint16_t i;

	for (i = 0; i < s->nb_slots; i++) {
		struct rpc_tx_slot *ts = &s->tx[i];

		if (ts->state != RPC_TX_WAIT)
			continue;
		if (ts->deadline <= now) {
			s->rpc->stats.expired++;
			rpc_req_abandon(ts->req, -ETIMEDOUT);
		} else {
			next = RTE_MIN(next, ts->deadline);
		}
	}
	s->expires = UINT64_MAX;
	if (next != UINT64_MAX)
		rpc_expiry_set(s, next);
}

void
rpc_expiry_set(struct leat_rpc_session *s, uint64_t when)
{
	s->expires = when;
	rpc_timer_set(s->rpc, &s->expiry, when, expiry_due);
}

/* ---- sessions ---- */

void
rpc_timer_set(struct leat_rpc *rpc, struct rpc_timer *timer, uint64_t when,
	      void (*due)(struct rpc_timer *timer, uint64_t now))
{
	timer->due = due;
	leat_wheel_add(&rpc->timers, &timer->node, when);
}

void
rpc_timer_stop(struct leat_rpc *rpc, struct rpc_timer *timer)
{
	leat_wheel_del(&rpc->timers, &timer->node);
}

static void
timer_due(struct leat_wheel_node *node, void *arg)
{
	struct rpc_timer *timer = container_of(node, struct rpc_timer, node);
	const struct leat_rpc *rpc = arg;

	timer->due(timer, rpc->now);
}

void
rpc_deadlines_run(struct leat_rpc *rpc)
{
	const uint64_t due = leat_wheel_due(&rpc->wheel), sessions = leat_wheel_due(&rpc->timers);
	uint64_t now;

	if (likely(++rpc->polls % DEADLINE_POLLS != 0))
		return;
	if (leat_ask_pending(&rpc->asked))
		rpc_telemetry_answer(rpc);
	leat_tune_serve(rpc->tune);
	if (likely((due & sessions) == UINT64_MAX))
		return;
	now = rpc_now(rpc);
	if (now >= due)
		(void)leat_wheel_run(&rpc->wheel, now, req_late, rpc, AT_ONCE);
	if (unlikely(now >= sessions))
		(void)leat_wheel_run(&rpc->timers, now, timer_due, rpc, AT_ONCE);
}
