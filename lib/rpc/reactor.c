/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A context in a reactor. The endpoint's poller processes completed ops, runs handlers, and posts
 * responses. The context's own poller ends requests whose deadline has passed, and resumes sessions
 * that had no room to send. A reactor that has a context never blocks, since no descriptor would
 * wake it at the deadline of a request.
 */

#include <stdio.h>

#include <leat_reactor.h>
#include <leat_task.h>

#include "leat_rpc_task.h"
#include "rpc_pvt.h"

#define BURST 32
#define EVENTS 4
/* Time for tasks and sessions to end, if the stop has no deadline, us. */
#define DRAIN_US 3000000

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct leat_rpc *rpc = arg;

	(void)ep;
	(void)now;
	n = leat_rpc_process(rpc, ops, n);
	if (n > 0 && rpc->on.ops != NULL)
		rpc->on.ops(rpc->on.arg, ops, n);
}

/*
 * Pass events to the application one by one: once LEAT_RPC_CLOSED is taken, a callback that
 * connects may get the object of the closed session, so the application must have that event before
 * any other callback runs.
 */
static void
events_take(struct leat_rpc *rpc)
{
	struct leat_rpc_event ev;

	while (leat_rpc_events(rpc, &ev, 1) == 1) {
		if (rpc->on.event != NULL)
			rpc->on.event(rpc->on.arg, rpc, &ev);
		else if (ev.type == LEAT_RPC_ENDED)
			(void)leat_rpc_close(ev.session, 0);
	}
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct leat_rpc *rpc = arg;

	(void)ep;
	if (ev->type != LEAT_EV_CONNECT_REQ)
		(void)leat_rpc_handle_event(rpc, ev);
	else if (rpc->drain_at != 0)
		/* The stop would close a new session with its first requests in flight. */
		leat_rpc_refuse(rpc, ev, -ESHUTDOWN);
	else if (rpc->on.accept != NULL)
		rpc->on.accept(rpc->on.arg, rpc, ev);
	else if (leat_rpc_accept(rpc, ev, NULL) == NULL)
		LEAT_LOG(NOTICE, rpc, "%s", leat_err_msg());
	events_take(rpc);
}

static int
poll_once(void *arg, uint64_t now)
{
	struct leat_rpc_req *reqs[BURST];
	struct leat_rpc *rpc = arg;
	uint16_t n;

	(void)now;
	n = leat_rpc_poll(rpc, reqs, BURST);
	if (unlikely(n > 0 && rpc->on.done != NULL))
		rpc->on.done(rpc->on.arg, reqs, n);
	if (unlikely(rpc->events != NULL))
		events_take(rpc);
	return n;
}

void
rpc_reactor_turn(struct leat_rpc *rpc)
{
	struct leat_op *ops[BURST];
	struct leat_event ev[EVENTS];
	uint16_t i, n;

	n = leat_ep_poll(rpc->ep, ops, BURST);
	if (n > 0)
		on_ops(rpc, rpc->ep, ops, n, 0);
	n = leat_ep_events(rpc->ep, ev, EVENTS);
	for (i = 0; i < n; i++) {
		if (ev[i].type == LEAT_EV_CONNECT_REQ)
			/* This fails only if the peer has left. */
			(void)leat_ep_reject(rpc->ep, ev[i].peer);
		else
			(void)leat_rpc_handle_event(rpc, &ev[i]);
	}
	(void)poll_once(rpc, 0);
}

static bool
poll_ready(void *arg)
{
	const struct leat_rpc *rpc = arg;

	return rpc->work != NULL || rpc->done.head != NULL || rpc->events != NULL;
}

/*
 * Close all sessions when the reactor stops. Each is closed cleanly while the endpoint still
 * works; otherwise packets with the device would wait for receives that the other side has already
 * cancelled. Tasks may still make calls while they end, for a third of the time until `until`. A
 * further stop can move `until` to an earlier time, and these times with it.
 */
static int
drain(void *arg, uint64_t until)
{
	const struct leat_tasks *ts = leat_tasks_self();
	const uint64_t now = leat_now();
	struct leat_rpc *rpc = arg;
	struct leat_tasks_stats stats = { 0 };
	const uint64_t left = until == UINT64_MAX ? leat_us_to_cycles(DRAIN_US)
						  : until - RTE_MIN(until, now);
	const uint64_t at = leat_time_add(now, left / 3);
	uint32_t i;

	/* With the same `until`, `at` grows from call to call: keep the time of the first. */
	if (rpc->drain_at == 0 || at < rpc->drain_at)
		rpc->drain_at = at;
	if (ts != NULL)
		leat_tasks_stats_get(ts, &stats);
	if (stats.tasks > 0 && now < rpc->drain_at && rpc->nb_open > 0)
		return 1;
	/* Keep an eighth of the time, so that sessions with unanswered requests still end
	 * cleanly. */
	for (i = 0; i < rpc->max_sessions; i++) {
		struct leat_rpc_session *s = &rpc->sessions[i];

		/* A stop without a deadline does not shorten the application's own closes. */
		if (!s->closing || until != UINT64_MAX)
			rpc_close_by(s, leat_time_add(now, left - left / 8));
	}
	return rpc->nb_open > 0;
}

static int
quiesce(void *arg, char *what, size_t len)
{
	struct leat_rpc *rpc = arg;

	/* This stop ends here; a later one has its own drain_at. */
	if (what != NULL)
		rpc->drain_at = 0;
	if (rpc->nb_open == 0 && rpc->stats.tickets == 0)
		return 0;
	if (what != NULL && rpc_tickets_name(rpc, NULL, what, len) == 0)
		snprintf(what, len, "%u sessions", rpc->nb_open);
	return 1;
}

static void
on_release(void *arg)
{
	struct leat_rpc *rpc = arg;

	rpc->ep_poller = rpc->poller = NULL;
	if (rpc->opened)
		rpc_open_release(rpc);
}

int
leat_rpc_reactor_add(struct leat_reactor *r, struct leat_rpc *rpc,
		     const struct leat_rpc_reactor_conf *conf)
{
	int ret;

	if (rpc->ep_poller != NULL)
		return leat_err(EALREADY, "rpc on %s: a reactor polls it already",
				leat_ep_name(rpc->ep));
	rpc->ep_poller = leat_reactor_ep_add(r, rpc->ep, on_ops, on_event, rpc);
	if (rpc->ep_poller == NULL)
		return -rte_errno;
	rpc->poller = leat_reactor_poller_add(r, "rpc", poll_once, rpc, 0);
	if (rpc->poller == NULL) {
		int err = rte_errno;

		(void)leat_poller_remove(rpc->ep_poller);
		rpc->ep_poller = NULL;
		return -err;
	}
	ret = leat_poller_drain_set(rpc->ep_poller, drain);
	if (ret == 0)
		ret = leat_poller_quiesce_set(rpc->poller, quiesce);
	if (ret == 0)
		ret = leat_poller_ready_set(rpc->poller, poll_ready);
	if (ret == 0)
		ret = leat_poller_release_set(rpc->poller, on_release);
	if (ret < 0) {
		(void)leat_rpc_reactor_remove(rpc);
		return ret;
	}
	/* If the stop of an earlier reactor did not come to its end, drain_at is still set. */
	rpc->drain_at = 0;
	rpc->on = conf != NULL ? *conf : (struct leat_rpc_reactor_conf){ 0 };
	return 0;
}

int
leat_rpc_reactor_remove(struct leat_rpc *rpc)
{
	int ret;

	if (rpc->ep_poller == NULL)
		return -ENOENT;
	ret = leat_poller_remove(rpc->ep_poller);
	if (ret == 0)
		ret = leat_poller_remove(rpc->poller);
	if (ret == 0)
		rpc->ep_poller = rpc->poller = NULL;
	return ret;
}
