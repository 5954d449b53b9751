/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A context that a reactor drives, with three pollers:
 *
 *     endpoint's poller   passes ops (on_ops) and events (on_ep_event) to the context
 *     "msg"               gives out requests, then events, if there may be some
 *     "msg events"        every events_us (leat_reactor_events_us()): events, deadlines
 *
 * The second poller runs after the first in each turn, so requests that were done in a turn are
 * given out in that turn. All its work comes from the endpoint, or from calls on the reactor's
 * thread, so it does not keep the reactor from blocking. Connections that wait for a buffer of a
 * mempool or for room in the endpoint are tried again at least every events_us.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_driver.h>
#include <leat_log.h>
#include <leat_task.h>

#include "msg_below.h"

/* Maximum number of bursts of requests given out in a turn; other pollers wait meanwhile. */
#define BURSTS 4
/* Maximum number of events of the endpoint taken at once. */
#define EVENTS 8
/* Time for tasks to end before connections are closed, if the stop has no deadline, us. */
#define TASKS_US 1000000
/* leat_msg_destroy(): time for posted requests to come back, us. */
#define DESTROY_US 1000000

/* ---- turns ---- */

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct msg_below *b = arg;

	n = leat_msg_process(b->m, ops, n);
	if (n == 0 || b->conf.ops == NULL)
		return;
	b->calling = true;
	b->conf.ops(b->conf.arg, ep, ops, n, now);
	b->calling = false;
}

static void
on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct msg_below *b = arg;

	b->soon = true;
	if (leat_msg_handle_event(b->m, ev))
		return;
	if (b->conf.ep_event != NULL) {
		b->calling = true;
		b->conf.ep_event(b->conf.arg, ep, ev);
		b->calling = false;
	} else if (ev->type == LEAT_EV_CONNECT_REQ) {
		/* This fails only if the peer has left. */
		(void)leat_ep_reject(ep, ev->peer);
	}
}

/* Give out requests that are done. @return their number */
static int
give_requests(struct msg_below *b, uint64_t now)
{
	struct leat_msg_req *reqs[LEAT_MSG_BURST];
	int total = 0, bursts = BURSTS;
	uint16_t n;

	do {
		n = leat_msg_poll(b->m, reqs, LEAT_MSG_BURST);
		if (n == 0)
			break;
		b->conf.done(b->conf.arg, reqs, n, now);
		total += n;
	} while (n == LEAT_MSG_BURST && --bursts > 0);
	return total;
}

/*
 * Give out events of connections, one by one: once LEAT_MSG_CLOSED is taken, a callback that
 * connects may get the object of the closed connection, so the application must have that event
 * before any other callback runs. @return their number
 */
static int
give_events(struct msg_below *b)
{
	struct leat_msg *m = b->m;
	struct leat_msg_event ev;
	int total = 0;
	uint16_t i;

	msg_events_begin(m);
	for (i = 0; i < m->max_conns && m->nb_open > 0; i++) {
		struct leat_msg_conn *c = &m->conns[i];

		while (c->state != MSG_FREE && msg_conn_events(c, &ev, 1) == 1) {
			if (b->conf.event != NULL)
				b->conf.event(b->conf.arg, &ev);
			total++;
		}
	}
	return total;
}

static int
on_turn(void *arg, uint64_t now)
{
	struct msg_below *b = arg;
	int n;

	b->calling = true;
	n = give_requests(b, now);
	if (unlikely(n == 0 && b->soon)) {
		b->soon = false;
		n = give_events(b);
		/* A connection may have further events once its requests were given out. */
		b->soon |= n > 0;
	}
	b->calling = false;
	/* Pollers that ran before this one have posted their messages: send those that wait. */
	if (b->m->held)
		leat_msg_flush(b->m);
	return n;
}

static int
on_tick(void *arg, uint64_t now)
{
	struct msg_below *b = arg;
	int n;

	(void)now;
	b->calling = true;
	n = give_events(b);
	b->calling = false;
	return n;
}

/* Would a turn find work? */
static bool
ready(void *arg)
{
	const struct msg_below *b = arg;
	const struct leat_msg *m = b->m;

	return m->done.head != NULL || m->later != NULL || m->held || b->soon ||
	       (m->work != NULL && !m->starved);
}

/* ---- stop ---- */

const char *
msg_conn_addr(const struct leat_msg_conn *c)
{
	if (c->peer_closed || c->peer >= c->ep->nb_peers)
		return "?";
	return leat_peer_addr(c->ep, &c->ep->peers[c->peer]);
}

static unsigned int
count_sends(const struct leat_msg_conn *c)
{
	const struct leat_msg_req *req;
	unsigned int n = 0;

	for (req = c->sendq.head; req != NULL; req = req->next)
		n++;
	return n > 0 ? n : c->tx_out;
}

/* Note the sends that are left, and end the draining of all connections. */
static void
cut_sends(struct msg_below *b)
{
	unsigned int i, n, first = 0, others = 0;
	const char *addr = "?";

	for (i = 0; i < b->m->max_conns; i++) {
		struct leat_msg_conn *c = &b->m->conns[i];

		if (c->state != MSG_OPEN || !c->draining)
			continue;
		n = count_sends(c);
		if (n > 0 && first == 0) {
			first = n;
			addr = msg_conn_addr(c);
		} else if (n > 0) {
			others++;
		}
		c->drain_deadline = 0;
		msg_work(c);
	}
	if (first > 0 && others > 0)
		snprintf(b->left, sizeof(b->left), "%u sends to %s, and some to %u others", first,
			 addr, others);
	else if (first > 0)
		snprintf(b->left, sizeof(b->left), "%u sends to %s", first, addr);
}

/* Begin to close all connections, including those opened since the stop began. */
static void
close_all(struct msg_below *b)
{
	unsigned int i;

	for (i = 0; i < b->m->max_conns; i++) {
		struct leat_msg_conn *c = &b->m->conns[i];

		/* No timeout here: cut_sends() ends the draining of all connections at once. */
		if (c->state != MSG_FREE && !c->closing)
			(void)leat_msg_close(c, UINT64_MAX);
		if (c->state != MSG_FREE && b->cut && c->drain_deadline != 0) {
			c->drain_deadline = 0;
			msg_work(c);
		}
	}
	b->soon = true;
}

/* Do tasks of the reactor still run, and have time left to use their connections? */
static bool
tasks_left(const struct msg_below *b, uint64_t now, uint64_t until)
{
	const struct leat_tasks *ts = leat_tasks_self();
	struct leat_tasks_stats stats;
	uint64_t limit;

	if (ts == NULL || b->m->nb_open == 0)
		return false;
	limit = until == UINT64_MAX ? leat_us_to_cycles(TASKS_US)
				    : (until - RTE_MIN(until, b->stop_at)) / 3;
	if (now - b->stop_at >= limit)
		return false;
	leat_tasks_stats_get(ts, &stats);
	return stats.tasks > 0;
}

static int
drain(void *arg, uint64_t until)
{
	const uint64_t now = leat_now();
	struct msg_below *b = arg;
	uint64_t time;

	if (b->stop_at == 0)
		b->stop_at = now;
	if (tasks_left(b, now, until))
		return 1;
	time = until - RTE_MIN(until, b->stop_at);
	if (!b->cut && until != UINT64_MAX && now - b->stop_at >= time - time / 6) {
		close_all(b);
		cut_sends(b);
		b->cut = true;
	}
	close_all(b);
	return b->m->nb_open > 0;
}

static int
quiesce(void *arg, char *what, size_t len)
{
	struct msg_below *b = arg;
	unsigned int i, open = b->m->nb_open;
	const char *addr = "?";

	if (what == NULL)
		return open > 0 || b->m->done.head != NULL;
	/* This stop ends here; a later call belongs to another stop. */
	b->stop_at = 0;
	b->cut = false;
	if (b->left[0] != '\0') {
		snprintf(what, len, "%s", b->left);
		b->left[0] = '\0';
		return 1;
	}
	for (i = 0; i < b->m->max_conns && open > 0; i++) {
		if (b->m->conns[i].state != MSG_FREE) {
			addr = msg_conn_addr(&b->m->conns[i]);
			break;
		}
	}
	if (open > 0)
		snprintf(what, len, "%u connections that are not closed, one to %s", open, addr);
	return open > 0;
}

/* ---- attach, detach, destroy ---- */

static void
on_release(void *arg)
{
	struct msg_below *b = arg;

	b->r = NULL;
	b->ep_poller = b->poller = b->ticker = NULL;
	if (b->release != NULL)
		b->release(b->conf.arg);
}

static int
pollers_remove(struct msg_below *b)
{
	struct leat_poller *all[] = { b->ep_poller, b->poller, b->ticker };
	unsigned int i;
	int ret = 0;

	for (i = 0; i < RTE_DIM(all) && ret == 0; i++) {
		if (all[i] != NULL)
			ret = leat_poller_remove(all[i]);
	}
	if (ret == 0)
		b->ep_poller = b->poller = b->ticker = NULL;
	return ret;
}

static int
pollers_add(struct msg_below *b)
{
	struct leat_reactor *r = b->r;
	int ret;

	b->ep_poller = leat_reactor_ep_add(r, b->m->ep, on_ops, on_ep_event, b);
	if (b->ep_poller == NULL)
		return -rte_errno;
	b->poller = leat_reactor_poller_add(r, "msg", on_turn, b, 0);
	if (b->poller == NULL)
		return -rte_errno;
	b->ticker = leat_reactor_poller_add(r, "msg events", on_tick, b, leat_reactor_events_us(r));
	if (b->ticker == NULL)
		return -rte_errno;
	ret = leat_poller_drain_set(b->ep_poller, drain);
	if (ret == 0)
		ret = leat_poller_quiesce_set(b->poller, quiesce);
	if (ret == 0)
		ret = leat_poller_ready_set(b->poller, ready);
	if (ret == 0)
		ret = leat_poller_local_set(b->poller);
	if (ret == 0)
		ret = leat_poller_release_set(b->poller, on_release);
	return ret;
}

int
leat_msg_reactor_add(struct leat_msg *m, struct leat_reactor *r,
		     const struct leat_msg_reactor_conf *conf)
{
	struct msg_below *b;
	int ret;

	if (conf == NULL || conf->done == NULL)
		return leat_err(EINVAL, "messages on %s: no function for requests",
				leat_ep_name(m->ep));
	if (m->below != NULL)
		return leat_err(EALREADY, "messages on %s: attached to a reactor already",
				leat_ep_name(m->ep));
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return leat_err(ENOMEM, "messages on %s: no memory", leat_ep_name(m->ep));
	b->m = m;
	b->r = r;
	b->conf = *conf;
	ret = pollers_add(b);
	if (ret < 0) {
		/*
		 * On this thread the removal can't fail, so leat_err_msg() keeps the text of ret.
		 */
		(void)pollers_remove(b);
		free(b);
		return ret;
	}
	/* Messages and events may have come before the context was attached. */
	b->soon = true;
	m->below = b;
	return 0;
}

int
leat_msg_reactor_remove(struct leat_msg *m)
{
	struct msg_below *b = m->below;
	int ret;

	if (b == NULL)
		return leat_err(ENOENT, "messages on %s: not attached to a reactor",
				leat_ep_name(m->ep));
	if (b->calling)
		return leat_err(EBUSY, "messages on %s: removed in a callback",
				leat_ep_name(m->ep));
	ret = pollers_remove(b);
	if (ret < 0)
		return ret;
	m->below = NULL;
	free(b);
	return 0;
}

/*
 * Close all connections, and drive the endpoint until they are closed, since no reactor drives it
 * any more. @return 0; -EBUSY: the device keeps ops for longer than DESTROY_US
 */
static int
finish(struct msg_below *b)
{
	const uint64_t limit = leat_time_add(leat_now(), leat_us_to_cycles(DESTROY_US));
	struct leat_op *ops[LEAT_EP_BURST];
	struct leat_event ev[EVENTS];
	struct leat_msg *m = b->m;
	uint16_t i, n;

	b->cut = true;
	/* A callback that connects again, as many do when a connection ends, must not succeed. */
	m->ending = true;
	while (m->nb_open > 0) {
		close_all(b);
		n = leat_ep_poll(m->ep, ops, LEAT_EP_BURST);
		if (n > 0)
			on_ops(b, m->ep, ops, n, leat_now());
		n = leat_ep_events(m->ep, ev, EVENTS);
		for (i = 0; i < n; i++)
			on_ep_event(b, m->ep, &ev[i]);
		(void)on_turn(b, leat_now());
		if (leat_now() > limit)
			return leat_err(EBUSY,
					"messages on %s: the device did not give back what %u "
					"connections have posted",
					leat_ep_name(m->ep), m->nb_open);
	}
	return 0;
}

int
msg_below_destroy(struct leat_msg *m)
{
	struct msg_below *b = m->below;
	enum leat_reactor_state state;
	int ret = 0;

	if (b == NULL)
		return 0;
	if (b->calling)
		return leat_err(EBUSY, "messages on %s: destroyed in a callback",
				leat_ep_name(m->ep));
	state = b->r != NULL ? leat_reactor_state(b->r) : LEAT_REACTOR_STOPPED;
	/* The reactor drives the connections: leat_msg_destroy() reports them as open. */
	if (m->nb_open > 0 && (state == LEAT_REACTOR_RUNNING || state == LEAT_REACTOR_STOPPING))
		return 0;
	if (b->r != NULL)
		ret = pollers_remove(b);
	if (ret == 0) {
		b->r = NULL;
		ret = finish(b);
	}
	if (ret < 0)
		return ret;
	m->below = NULL;
	free(b);
	return 0;
}
