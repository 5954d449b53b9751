/* SPDX-License-Identifier: BSD-3-Clause */

/* The endpoint of control calls, and its sessions. */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc_task.h>

#include "bench.h"

/* Interval between two turns of the endpoint. */
#define TURN_US 1000
#define CLOSE_US RB_US
#define NAP_US 1000
#define PACKET 2048u
#define CREDITS 8u
#define LARGE_MAX 64u

static uint32_t
sessions(const struct rb_link *l)
{
	struct leat_rpc_stats st;

	leat_rpc_stats_get(l->rpc, &st);
	return st.sessions;
}

static void
peer_end(struct rb_link_peer *p, int status, const char *why)
{
	p->session = NULL;
	if (p->ended)
		return;
	p->ended = true;
	p->up = false;
	p->status = status;
	if (!p->left)
		snprintf(p->why, sizeof(p->why), "%s",
			 why[0] != '\0' ? why : "it closed the connection");
	rb_link_calls_reject(p);
	rb_news(p->link->bench);
}

static void
on_event(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev)
{
	struct rb_link_peer *p = ev->user;

	(void)arg;
	(void)rpc;
	switch (ev->type) {
	case LEAT_RPC_UP:
		p->up = true;
		rb_news(p->link->bench);
		break;
	case LEAT_RPC_DOWN: /* only for sessions that reconnect: none here does */
		break;
	case LEAT_RPC_ENDED:
		(void)leat_rpc_close(ev->session, 0);
		peer_end(p, ev->status, ev->text);
		break;
	case LEAT_RPC_CLOSED:
		if (p->session == ev->session)
			peer_end(p, ev->status, ev->text);
		break;
	}
}

static struct rb_link_peer *
place_take(struct rb_link *l)
{
	uint32_t i;

	for (i = 0; i < l->nb_peers; i++) {
		struct rb_link_peer *p = &l->peers[i];

		if (p->link != NULL)
			continue;
		p->link = l;
		p->rank = RB_NO_RANK;
		return p;
	}
	return NULL;
}

static void
on_accept(void *arg, struct leat_rpc *rpc, const struct leat_event *ev)
{
	struct rb_link *l = arg;
	struct leat_rpc_session_conf conf = { .deadline_us = l->bench->o.timeout_us };
	struct rb_link_peer *p = NULL;

	if (l->taking > 0)
		p = place_take(l);
	if (p == NULL) {
		leat_rpc_refuse(rpc, ev, -EBUSY);
		return;
	}
	conf.user = p;
	p->session = leat_rpc_accept(rpc, ev, &conf);
	if (p->session == NULL) {
		rb_msg("a process that connects was not accepted: %s", leat_err_msg());
		memset(p, 0, sizeof(*p));
		return;
	}
	l->taking--;
}

static int
turn(void *arg, uint64_t now)
{
	struct rb_link *l = arg;
	const struct leat_rpc_reactor_conf on = { .accept = on_accept,
						  .event = on_event,
						  .arg = l };

	(void)now;
	return rb_drive(l->ep, l->rpc, &on, &l->shut);
}

static int
ep_open(struct rb_link *l, const char *addr, uint32_t *credits)
{
	struct leat_ep_conf conf = { .name = "link" };
	struct rb_bench *b = l->bench;
	struct leat_dev_info info;

	conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	if (leat_dev_info_for(b->dev, conf.ops, &info) < 0)
		return rb_fail(b, EINVAL, "%s", leat_err_msg());
	if ((info.ep_types & (1u << LEAT_EP_RELIABLE)) == 0)
		conf.type = LEAT_EP_DATAGRAM;
	/* Keep room for up to 8 more peers, so that surplus processes are refused with a reason. */
	conf.max_peers = (uint16_t)RTE_MIN(l->nb_peers + 8, info.max_peers);
	*credits = RTE_MIN(CREDITS, info.rx_depth_max / l->nb_peers);
	conf.rx_depth = *credits * l->nb_peers;
	if (conf.max_peers <= l->nb_peers || *credits < LEAT_RPC_CREDITS_MIN)
		return rb_fail(b, ENOSPC,
			       "%s has %u peers and %u receives: too few for links to "
			       "%u processes",
			       info.name, info.max_peers, info.rx_depth_max, l->nb_peers);
	l->ep = leat_ep_create(b->dev, &conf);
	if (l->ep == NULL)
		return rb_fail(b, rte_errno, "%s", leat_err_msg());
	if (addr != NULL && (leat_ep_listen(l->ep, addr) < 0 ||
			     leat_ep_listen_addr(l->ep, l->addr, sizeof(l->addr)) < 0))
		return rb_fail(b, rte_errno, "%s", leat_err_msg());
	return 0;
}

static int
rpc_open(struct rb_link *l, uint32_t credits)
{
	const struct leat_rpc_conf conf = {
		.max_sessions = l->nb_peers,
		.packet = PACKET,
		.credits = credits,
		.slots = 8,
		.silence_us = (uint32_t)RTE_MIN(RTE_MAX(l->bench->o.timeout_us, UINT64_C(1000)),
						(uint64_t)UINT32_MAX),
		.tickets = 2 * l->nb_peers,
		.max_msg = RB_MEET_MAX,
		.large = RTE_MIN(l->nb_peers + 4, LARGE_MAX),
	};

	l->rpc = leat_rpc_create(l->ep, &conf);
	if (l->rpc == NULL || rb_link_serve(l) < 0)
		return rb_fail(l->bench, rte_errno, "%s", leat_err_msg());
	return 0;
}

int
rb_link_start(struct rb_link *l)
{
	l->poller = leat_reactor_poller_add(leat_reactor_self(), "link", turn, l, TURN_US);
	if (l->poller == NULL)
		return rb_fail(l->bench, rte_errno, "%s", leat_err_msg());
	return 0;
}

int
rb_link_open(struct rb_link *l, struct rb_bench *b, const char *addr, uint32_t nb_peers)
{
	uint32_t credits = 0;
	int ret;

	memset(l, 0, sizeof(*l));
	l->bench = b;
	l->nb_peers = nb_peers;
	l->peers = calloc(nb_peers, sizeof(*l->peers));
	if (l->peers == NULL)
		return rb_fail(b, ENOMEM, "no memory for links to %u processes", nb_peers);
	ret = ep_open(l, addr, &credits);
	return ret < 0 ? ret : rpc_open(l, credits);
}

struct rb_link_peer *
rb_link_connect(struct rb_link *l, uint16_t rank, const char *addr, uint64_t timeout_us)
{
	struct leat_rpc_session_conf conf = { .deadline_us = l->bench->o.timeout_us,
					      .timeout_us = timeout_us };
	struct rb_link_peer *p = place_take(l);

	if (p == NULL) {
		(void)rb_fail(l->bench, ENOSPC, "no room for a link to rank %u", rank);
		return NULL;
	}
	p->rank = rank;
	conf.user = p;
	p->session = leat_rpc_connect(l->rpc, addr, &conf);
	if (p->session == NULL) {
		(void)rb_fail(l->bench, rte_errno, "%s", leat_err_msg());
		memset(p, 0, sizeof(*p));
		return NULL;
	}
	return p;
}

void
rb_link_drop(struct rb_link_peer *p, int status, const char *why)
{
	struct leat_rpc_session *s = p->session;

	peer_end(p, status, why);
	if (s != NULL)
		(void)leat_rpc_close(s, 0);
}

void
rb_link_forget(struct rb_link_peer *p)
{
	memset(p, 0, sizeof(*p));
}

void
rb_link_clear(struct rb_link_peer *p)
{
	struct rb_link *l = p->link;

	rb_link_drop(p, -ECONNABORTED, "it is not needed any more");
	rb_link_unwatch(p);
	while ((l->nb_watching > 0 || sessions(l) > 0) && leat_task_sleep(NAP_US) == 0)
		;
	rb_link_forget(p);
}

struct rb_link_peer *
rb_link_find(struct rb_link *l, uint16_t rank)
{
	uint32_t i;

	for (i = 0; i < l->nb_peers; i++) {
		if (l->peers[i].link != NULL && l->peers[i].rank == rank)
			return &l->peers[i];
	}
	return NULL;
}

/* ---- close ---- */

static void
sessions_close(struct rb_link *l)
{
	uint64_t end = leat_time_add(leat_now(), leat_us_to_cycles(2 * CLOSE_US));
	uint32_t i;

	for (i = 0; i < l->nb_peers; i++) {
		if (l->peers[i].link == NULL)
			continue;
		rb_link_calls_reject(&l->peers[i]);
		if (leat_task_current() != NULL)
			rb_link_unwatch(&l->peers[i]);
		if (l->peers[i].session != NULL)
			(void)leat_rpc_close(l->peers[i].session, CLOSE_US);
	}
	while ((sessions(l) > 0 || (l->nb_watching > 0 && leat_task_current() != NULL)) &&
	       leat_now() < end) {
		(void)turn(l, 0);
		rb_nap();
	}
}

int
rb_link_close(struct rb_link *l)
{
	int ret = 0;

	l->taking = 0;
	/* Remove the poller: from here on this task drives the endpoint. */
	if (l->poller != NULL && leat_task_current() != NULL)
		(void)leat_poller_remove(l->poller);
	l->poller = NULL;
	if (l->rpc != NULL)
		sessions_close(l);
	if (l->ep != NULL)
		ret = rb_shut(l->ep, l->rpc);
	if (ret < 0) {
		rb_msg("links: %s", leat_err_msg());
		return ret;
	}
	free(l->peers);
	memset(l, 0, sizeof(*l));
	return 0;
}
