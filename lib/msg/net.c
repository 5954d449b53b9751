/* SPDX-License-Identifier: BSD-3-Clause */

/* Nets, each an endpoint and a message context in one object: open, close, memory regions. */

#include <errno.h>
#include <stdlib.h>

#include <leat_dev.h>
#include <leat_log.h>

#include "msg_net.h"

/* Number of peers beyond max_conns, for connection requests that are about to be rejected. */
#define MORE_PEERS 4
/* leat_ep_close(): time limit for an endpoint that has no connections, us. */
#define CLOSE_US 1000000

static struct leat_dev *
find_dev(const char *name)
{
	struct leat_dev *dev;

	if (name != NULL) {
		dev = leat_dev_by_name(name);
		if (dev == NULL)
			leat_err(ENODEV, "messages: no device %s", name);
		return dev;
	}
	if (leat_dev_count() == 0) {
		leat_err(ENODEV, "messages: no device; see --vdev");
		return NULL;
	}
	return leat_dev_get(leat_dev_count() - 1);
}

static int
ep_open(struct leat_msg_net *net, const struct leat_msg_conf *msg, const struct leat_reactor *r)
{
	struct leat_ep_conf conf = { .name = net->conf.name };
	struct leat_dev *dev = find_dev(net->conf.dev);
	struct leat_idle_conf idle;
	struct leat_dev_info info;
	int ret;

	if (dev == NULL || leat_dev_info_get(dev, &info) < 0)
		return -rte_errno;
	conf.max_peers = (uint16_t)RTE_MIN(net->conf.max_conns + MORE_PEERS, (int)info.max_peers);
	ret = leat_msg_ep_conf(dev, msg, &conf);
	if (ret < 0)
		return ret;
	leat_reactor_idle_get(r, &idle);
	conf.wait = idle.policy == LEAT_IDLE_BLOCK && info.wait;
	net->ep = leat_ep_create(dev, &conf);
	return net->ep != NULL ? 0 : -rte_errno;
}

static int
socks_create(struct leat_msg_net *net)
{
	unsigned int i;

	net->socks = calloc(net->conf.max_conns, sizeof(*net->socks));
	if (net->socks == NULL)
		return leat_err(ENOMEM, "messages: no memory for %u connections",
				net->conf.max_conns);
	for (i = net->conf.max_conns; i > 0; i--) {
		struct sock *s = &net->socks[i - 1];

		s->net = net;
		s->next = net->free;
		net->free = s;
	}
	return 0;
}

/* Free the net itself, after its context and its endpoint. */
static void
net_free(struct leat_msg_net *net)
{
	free(net->socks);
	free(net);
}

/* Free a net without connections. @return 0; -EBUSY, or another failure: the net is not freed */
static int
net_destroy(struct leat_msg_net *net)
{
	unsigned int i;
	int ret = leat_msg_destroy(net->m);

	if (ret < 0) {
		/* The call may have detached the context from its reactor before it failed. */
		net->below = net->m->below;
		return ret;
	}
	net->m = NULL;
	net->below = NULL;
	for (i = 0; i < net->nb_regions; i++) {
		if (leat_mr_deregister(net->regions[i].mr) < 0)
			LEAT_LOG(WARNING, msg, "%s", leat_err_msg());
	}
	net->nb_regions = 0;
	ret = net->ep == NULL ? 0 : leat_ep_close(net->ep, CLOSE_US, NULL, NULL);
	if (ret == -EBUSY)
		return ret;
	net_free(net);
	return 0;
}

/* Free the net of a reactor that was destroyed. The reactor's stop has reported the sends left. */
static void
on_release(void *arg)
{
	struct leat_msg_net *net = arg;

	if (net_destroy(net) < 0)
		LEAT_LOG(ERR, msg, "%s", leat_err_msg());
}

static int
net_start(struct leat_msg_net *net, struct leat_reactor *r)
{
	const struct leat_msg_reactor_conf below = {
		.done = net_on_done,
		.event = net_on_conn_event,
		.ep_event = net_on_ep_event,
		.arg = net,
	};
	const struct leat_msg_conf conf = {
		.max_conns = net->conf.max_conns,
		.credits = net->conf.credits,
		.eager_max = net->conf.eager_max,
	};
	int ret;

	ret = ep_open(net, &conf, r);
	if (ret == 0)
		ret = socks_create(net);
	if (ret < 0)
		return ret;
	net->m = leat_msg_create(net->ep, &conf);
	if (net->m == NULL)
		return -rte_errno;
	ret = leat_msg_reactor_add(net->m, r, &below);
	if (ret < 0)
		return ret;
	net->below = net->m->below;
	net->below->release = on_release;
	return 0;
}

struct leat_msg_net *
leat_msg_net_open(const struct leat_msg_net_conf *conf)
{
	struct leat_reactor *r = leat_reactor_self();
	struct leat_msg_net *net;

	if (leat_task_current() == NULL || r == NULL) {
		leat_err(EPERM, "messages: open a net: not in a task");
		return NULL;
	}
	if (leat_reactor_state(r) == LEAT_REACTOR_STOPPING) {
		leat_err(ECANCELED, "messages: open a net: %s stops", leat_reactor_name(r));
		return NULL;
	}
	net = calloc(1, sizeof(*net));
	if (net == NULL) {
		leat_err(ENOMEM, "messages: open a net: no memory");
		return NULL;
	}
	if (conf != NULL)
		net->conf = *conf;
	if (net->conf.max_conns == 0)
		net->conf.max_conns = LEAT_MSG_NET_CONNS;
	if (net->conf.backlog == 0)
		net->conf.backlog = net->conf.max_conns;
	net->queue_end = &net->queue;
	if (net_start(net, r) < 0) {
		char why[256];
		int err = rte_errno;

		snprintf(why, sizeof(why), "%s", leat_err_msg());
		if (net_destroy(net) < 0)
			LEAT_LOG(ERR, msg, "%s", leat_err_msg());
		leat_err(err, "%s", why);
		return NULL;
	}
	/* The caller may free these strings after the call. */
	net->conf.dev = net->conf.name = NULL;
	return net;
}

struct leat_msg *
leat_msg_net_msg(const struct leat_msg_net *net)
{
	return net->m;
}

/* ---- closing ---- */

static int
closed_post(struct leat_resource_op *op)
{
	struct net_wait *w = container_of(op, struct net_wait, op);

	if (w->net->m->nb_open == 0)
		return leat_resource_end(op, 0);
	net_wait_add(&w->net->closes, w);
	return 0;
}

static enum leat_cancel
closed_cancel(struct leat_resource_op *op)
{
	net_wait_remove(container_of(op, struct net_wait, op));
	return LEAT_CANCEL_FREED;
}

static const struct leat_resource closed_resource = {
	.name = "close of a net",
	.post = closed_post,
	.cancel = closed_cancel,
};

static int
close_running(struct leat_msg_net *net, uint64_t timeout_us)
{
	struct net_wait w = { .net = net };
	unsigned int i;
	int ret;

	if (leat_task_current() == NULL)
		return leat_err(EPERM, "messages on %s: close a net: not in a task",
				leat_ep_name(net->ep));
	leat_msg_task_unlisten(net);
	net->closing = true;
	for (i = 0; i < net->conf.max_conns; i++) {
		struct sock *s = &net->socks[i];

		if (s->state == SOCK_FREE)
			continue;
		s->state = SOCK_CLOSING;
		/* -EALREADY: a task has begun to close it. */
		(void)leat_msg_close(s->conn, timeout_us);
	}
	net->below->soon = true;
	/*
	 * A task whose wait has ended uses the net and its connections once more when it runs. It
	 * must run before this task frees the net. Tasks that are ready before this task resumes
	 * from the yield run first. So do tasks that become ready later, since all of them do
	 * before the last connection is closed, which ends the wait below.
	 */
	ret = leat_task_yield();
	return ret < 0 ? ret : leat_resource_run(&w.op, &closed_resource);
}

int
leat_msg_net_close(struct leat_msg_net *net, uint64_t timeout_us)
{
	bool left = false;
	int ret = 0;

	if (net == NULL)
		return 0;
	if (net->below != NULL && net->below->r != NULL &&
	    leat_reactor_state(net->below->r) != LEAT_REACTOR_STOPPED) {
		ret = close_running(net, timeout_us);
		left = net->left;
		/* If this task was cancelled, the net is freed with the reactor. */
		if (ret < 0)
			return ret;
	}
	ret = net_destroy(net);
	if (ret == 0 && left)
		ret = leat_err(ETIMEDOUT,
			       "close a net: the time was up before all messages were sent");
	return ret;
}

/* ---- memory ---- */

int
leat_msg_net_register(struct leat_msg_net *net, void *addr, size_t len)
{
	struct net_region *region = &net->regions[net->nb_regions];

	if (!net->ep->mr_local)
		return 0;
	if (net->nb_regions == LEAT_MSG_NET_REGIONS)
		return leat_err(ENOSPC, "messages on %s: %u regions are registered",
				leat_ep_name(net->ep), LEAT_MSG_NET_REGIONS);
	region->mr = leat_mr_register(net->ep, addr, len, LEAT_MR_LOCAL);
	if (region->mr == NULL)
		return -rte_errno;
	region->addr = (uintptr_t)addr;
	region->len = len;
	net->nb_regions++;
	return 0;
}

struct leat_mr *
net_region_find(const struct leat_msg_net *net, const void *buf, size_t len)
{
	const uintptr_t addr = (uintptr_t)buf;
	unsigned int i;

	for (i = 0; i < net->nb_regions; i++) {
		const struct net_region *region = &net->regions[i];

		if (addr >= region->addr && addr - region->addr <= region->len &&
		    region->len - (addr - region->addr) >= len)
			return region->mr;
	}
	return NULL;
}
