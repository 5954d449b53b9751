/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections of a net: dial, listen, accept, close. */

#include <errno.h>
#include <stdio.h>

#include <leat_driver.h>
#include <leat_log.h>
#include <leat_scope.h>

#include "msg_net.h"

/* ---- tasks that wait ---- */

void
net_wait_add(struct net_waits *list, struct net_wait *w)
{
	w->list = list;
	w->next = NULL;
	w->prev = list->last;
	if (list->last != NULL)
		list->last->next = w;
	else
		list->first = w;
	list->last = w;
}

void
net_wait_remove(struct net_wait *w)
{
	struct net_waits *list = w->list;

	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		list->first = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	else
		list->last = w->prev;
	w->list = NULL;
}

static void
wake(struct net_wait *w, int result)
{
	net_wait_remove(w);
	(void)leat_resource_end(&w->op, result);
}

void
net_wake_all(struct net_waits *list, int result)
{
	while (list->first != NULL)
		wake(list->first, result);
}

/* ---- socks: one for each connection ---- */

static struct sock *
sock_take(struct leat_msg_net *net, enum sock_state state, const char *addr)
{
	struct sock *s = net->free;

	if (s == NULL) {
		leat_err(ENOSPC,
			 "messages on %s: %u connections are open, as many as max_conns allows",
			 leat_ep_name(net->ep), net->conf.max_conns);
		return NULL;
	}
	net->free = s->next;
	s->next = NULL;
	s->conn = NULL;
	s->state = (uint8_t)state;
	s->why[0] = '\0';
	snprintf(s->addr, sizeof(s->addr), "%s", addr);
	return s;
}

static void
sock_give_back(struct sock *s)
{
	s->state = SOCK_FREE;
	s->conn = NULL;
	s->next = s->net->free;
	s->net->free = s;
}

static void
sock_conf(const struct sock *s, struct leat_msg_conn_conf *conf)
{
	const struct leat_msg_net *net = s->net;

	memset(conf, 0, sizeof(*conf));
	conf->mode = net->conf.mode;
	conf->max_size = net->conf.max_size;
	conf->idle_us = net->conf.idle_us;
	conf->answer_us = net->conf.answer_us;
	conf->user = (void *)(uintptr_t)s;
	if (net->ep->mr_local) {
		conf->alloc = net_alloc;
		conf->alloc_arg = (void *)(uintptr_t)s;
	}
}

/* Close a connection that no task uses. */
static void
sock_drop(struct sock *s)
{
	s->state = SOCK_CLOSING;
	(void)leat_msg_close(s->conn, 0);
	s->net->below->soon = true;
}

/* ---- the queue of accept ---- */

static void
queue_add(struct sock *s)
{
	struct leat_msg_net *net = s->net;

	s->state = SOCK_QUEUED;
	s->next = NULL;
	*net->queue_end = s;
	net->queue_end = &s->next;
}

static void
queue_remove(struct sock *s)
{
	struct leat_msg_net *net = s->net;
	struct sock **p = &net->queue;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	if (net->queue_end == &s->next)
		net->queue_end = p;
	net->nb_waiting--;
}

/* Give queued connections to the tasks in accept. */
static void
queue_serve(struct leat_msg_net *net)
{
	while (net->queue != NULL && net->accepts.first != NULL) {
		struct net_wait *w = net->accepts.first;
		struct sock *s = net->queue;

		queue_remove(s);
		s->state = SOCK_OPEN;
		w->sock = s;
		wake(w, 0);
	}
}

/* ---- events ---- */

/* @return text, with the reason why a connection request can't be accepted; NULL: it can be */
static const char *
refusal(const struct leat_msg_net *net, char *text, size_t len)
{
	const char *name = leat_ep_name(net->ep);

	if (net->below->stop_at != 0)
		snprintf(text, len, "%s is stopping", name);
	else if (!net->listening)
		snprintf(text, len, "%s does not listen", name);
	else if (net->nb_waiting >= net->conf.backlog)
		snprintf(text, len, "%u connections wait to be accepted, which is the limit of %s",
			 net->nb_waiting, name);
	else if (net->free == NULL)
		snprintf(text, len, "%u connections are open, which is the limit of %s",
			 net->conf.max_conns, name);
	else
		return NULL;
	return text;
}

static void
on_request(struct leat_msg_net *net, const struct leat_event *ev)
{
	const char *addr = leat_peer_addr(net->ep, &net->ep->peers[ev->peer]);
	struct leat_msg_conn_conf conf;
	char text[LEAT_EVENT_TEXT];
	struct sock *s;

	if (refusal(net, text, sizeof(text)) == NULL) {
		s = sock_take(net, SOCK_COMING, addr); /* refusal() found that one is free */
		sock_conf(s, &conf);
		s->conn = leat_msg_accept(net->m, ev, &conf);
		if (s->conn != NULL) {
			net->nb_waiting++;
			return;
		}
		snprintf(text, sizeof(text), "%s", leat_err_msg());
		sock_give_back(s);
	}
	LEAT_LOG(NOTICE, msg, "%s: %s is rejected: %s", leat_ep_name(net->ep), addr, text);
	/*
	 * A closing net rejects without the text, since leat_msg_reject() would have to wait for
	 * the peer. Both calls fail only if the peer has left.
	 */
	if (net->closing)
		(void)leat_ep_reject(net->ep, ev->peer);
	else
		(void)leat_msg_reject(net->m, ev, text);
}

void
net_on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct leat_msg_net *net = arg;

	(void)ep;
	if (ev->type == LEAT_EV_CONNECT_REQ)
		on_request(net, ev);
	else if (ev->type == LEAT_EV_SHUTDOWN)
		leat_msg_task_unlisten(net);
}

static void
on_up(struct sock *s)
{
	if (s->state == SOCK_DIALING) {
		s->state = SOCK_OPEN;
		net_wake_all(&s->waits, 0);
	} else if (s->state == SOCK_COMING) {
		queue_add(s);
		queue_serve(s->net);
	}
}

static void
on_ended(struct sock *s, const struct leat_msg_event *ev)
{
	snprintf(s->why, sizeof(s->why), "%s", ev->text);
	switch (s->state) {
	case SOCK_DIALING:
		/* The task gets a copy: the sock may be reused before the task runs. */
		if (s->waits.first != NULL)
			snprintf(s->waits.first->why, sizeof(s->why), "%s", ev->text);
		net_wake_all(&s->waits, ev->status < 0 ? ev->status : -ENOTCONN);
		sock_drop(s);
		break;
	case SOCK_COMING:
		s->net->nb_waiting--;
		sock_drop(s);
		break;
	case SOCK_QUEUED:
		/*
		 * Messages have arrived, so leave the connection in the queue: the task that will
		 * accept it can receive them.
		 */
		if (s->conn->rx_arrived > 0)
			break;
		queue_remove(s);
		sock_drop(s);
		break;
	default:
		break;
	}
}

static void
on_closed(struct sock *s, const struct leat_msg_event *ev)
{
	struct leat_msg_net *net = s->net;
	/*
	 * -ETIMEDOUT means that sends were left, unless the connection had ended before: then it
	 * is the reason of that end.
	 */
	const bool left = ev->status == -ETIMEDOUT && s->why[0] == '\0';

	/* In these two states no task has the connection: the reactor's stop has closed it. */
	if (s->state == SOCK_QUEUED)
		queue_remove(s);
	else if (s->state == SOCK_COMING)
		net->nb_waiting--;
	net->left |= net->closing && left;
	while (s->waits.first != NULL) {
		struct net_wait *w = s->waits.first;

		wake(w, w->addr != NULL ? -ESHUTDOWN : left ? -ETIMEDOUT : 0);
	}
	sock_give_back(s);
	if (net->m->nb_open == 0)
		net_wake_all(&net->closes, 0);
}

void
net_on_conn_event(void *arg, const struct leat_msg_event *ev)
{
	struct sock *s = ev->user;

	(void)arg;
	switch (ev->type) {
	case LEAT_MSG_UP:
		on_up(s);
		break;
	case LEAT_MSG_SHUTDOWN: /* receives report it: -ENODATA */
		break;
	case LEAT_MSG_ENDED:
		on_ended(s, ev);
		break;
	case LEAT_MSG_CLOSED:
		on_closed(s, ev);
		break;
	}
}

/*
 * Get the connection that a task waited for. If the reactor's stop began between the wake-up and
 * the task's next turn, the connection may be closed already. Its sock is then free, since a
 * stopping net opens no other connection. @return 0, or -ESHUTDOWN: the connection is closed
 */
static int
sock_conn(const struct sock *s, struct leat_msg_conn **conn)
{
	*conn = s->conn;
	return s->conn == NULL ? -ESHUTDOWN : 0;
}

/* ---- dial ---- */

static int
dial_post(struct leat_resource_op *op)
{
	struct net_wait *w = container_of(op, struct net_wait, op);
	struct leat_msg_conn_conf conf;
	struct sock *s;

	if (w->net->closing || w->net->below->stop_at != 0)
		return leat_err(ESHUTDOWN, "dial %s: %s is closing", w->addr,
				leat_ep_name(w->net->ep));
	s = sock_take(w->net, SOCK_DIALING, w->addr);
	if (s == NULL)
		return -rte_errno;
	sock_conf(s, &conf);
	conf.timeout_us = w->timeout_us;
	s->conn = leat_msg_connect(w->net->m, w->addr, &conf);
	if (s->conn == NULL) {
		sock_give_back(s);
		return -rte_errno;
	}
	w->sock = s;
	net_wait_add(&s->waits, w);
	return 0;
}

/* Stop waiting, and close the connection that is being set up. */
static enum leat_cancel
dial_cancel(struct leat_resource_op *op)
{
	struct net_wait *w = container_of(op, struct net_wait, op);

	net_wait_remove(w);
	if (w->sock->state == SOCK_DIALING)
		sock_drop(w->sock);
	return LEAT_CANCEL_FREED;
}

static void
dial_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	snprintf(text, len, "dial %s", container_of(op, const struct net_wait, op)->addr);
}

static const struct leat_resource dial_resource = {
	.name = "dial",
	.post = dial_post,
	.cancel = dial_cancel,
	.describe = dial_describe,
};

int
leat_msg_task_dial(struct leat_msg_net *net, const char *addr, uint64_t timeout_us,
		   struct leat_msg_conn **conn)
{
	struct net_wait w = { .net = net, .addr = addr, .timeout_us = timeout_us };
	char why[LEAT_EVENT_TEXT] = "";
	int ret;

	*conn = NULL;
	if (addr == NULL)
		return leat_err(EINVAL, "dial: no address");
	w.why = why;
	ret = leat_resource_run(&w.op, &dial_resource);
	if (ret == 0)
		ret = sock_conn(w.sock, conn);
	if (ret < 0 && why[0] != '\0')
		leat_err(-ret, "dial %s: %s", addr, why);
	else if (ret < 0 && (w.sock != NULL || ret == -ECANCELED))
		leat_err(-ret, "dial %s: %s", addr, strerror(-ret));
	return ret;
}

/* ---- listen and accept ---- */

int
leat_msg_task_listen(struct leat_msg_net *net, const char *addr)
{
	int ret;

	if (net->closing)
		return leat_err(ESHUTDOWN, "listen at %s: %s is closing", addr,
				leat_ep_name(net->ep));
	/* leat_msg_task_unlisten() has left the endpoint listening at this address. */
	if (!net->listening && net->addr[0] != '\0' && strcmp(net->addr, addr) == 0) {
		net->listening = true;
		return 0;
	}
	ret = leat_ep_listen(net->ep, addr);
	if (ret < 0)
		return ret;
	snprintf(net->addr, sizeof(net->addr), "%s", addr);
	net->listening = true;
	return 0;
}

int
leat_msg_task_listen_addr(struct leat_msg_net *net, char *addr, size_t len)
{
	return leat_ep_listen_addr(net->ep, addr, len);
}

void
leat_msg_task_unlisten(struct leat_msg_net *net)
{
	unsigned int i;

	if (!net->listening)
		return;
	net->listening = false;
	for (i = 0; i < net->conf.max_conns; i++) {
		struct sock *s = &net->socks[i];

		if (s->state == SOCK_COMING)
			net->nb_waiting--;
		else if (s->state == SOCK_QUEUED)
			queue_remove(s);
		else
			continue;
		sock_drop(s);
	}
	net_wake_all(&net->accepts, -ESHUTDOWN);
}

static int
accept_post(struct leat_resource_op *op)
{
	struct net_wait *w = container_of(op, struct net_wait, op);

	if (!w->net->listening)
		return -ESHUTDOWN;
	net_wait_add(&w->net->accepts, w);
	queue_serve(w->net);
	return 0;
}

static enum leat_cancel
accept_cancel(struct leat_resource_op *op)
{
	net_wait_remove(container_of(op, struct net_wait, op));
	return LEAT_CANCEL_FREED;
}

static void
accept_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	snprintf(text, len, "accept at %s", container_of(op, const struct net_wait, op)->net->addr);
}

static const struct leat_resource accept_resource = {
	.name = "accept",
	.post = accept_post,
	.cancel = accept_cancel,
	.describe = accept_describe,
};

int
leat_msg_task_accept(struct leat_msg_net *net, struct leat_msg_conn **conn)
{
	struct net_wait w = { .net = net };
	int ret = leat_resource_run(&w.op, &accept_resource);

	*conn = NULL;
	if (ret == 0)
		ret = sock_conn(w.sock, conn);
	if (ret < 0)
		leat_err(-ret, "accept at %s: %s", net->addr[0] != '\0' ? net->addr : "no address",
			 ret == -ESHUTDOWN ? "it does not listen" : strerror(-ret));
	return ret;
}

/* ---- close ---- */

static int
close_post(struct leat_resource_op *op)
{
	struct net_wait *w = container_of(op, struct net_wait, op);

	net_wait_add(&w->sock->waits, w);
	return 0;
}

static enum leat_cancel
close_cancel(struct leat_resource_op *op)
{
	net_wait_remove(container_of(op, struct net_wait, op));
	return LEAT_CANCEL_FREED;
}

static void
close_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	snprintf(text, len, "close of %s", container_of(op, const struct net_wait, op)->sock->addr);
}

static const struct leat_resource close_resource = {
	.name = "close",
	.post = close_post,
	.cancel = close_cancel,
	.describe = close_describe,
};

int
leat_msg_task_close(struct leat_msg_conn *c, uint64_t timeout_us)
{
	struct sock *s = sock_of(c);
	struct net_wait w = { .net = s->net, .sock = s };
	char addr[LEAT_ADDR_MAX];
	int ret;

	/* The reactor's stop has closed the connection. */
	if (s->conn != c)
		return 0;
	/* If the connection has ended, and LEAT_MSG_ENDED is still to come, keep its reason. */
	if (c->state >= MSG_ENDING && c->status_final && s->why[0] == '\0')
		snprintf(s->why, sizeof(s->why), "%s", c->text);
	/* -EALREADY: the stop, or another task, has begun to close it. */
	(void)leat_msg_close(c, timeout_us);
	s->state = SOCK_CLOSING;
	s->net->below->soon = true;
	snprintf(addr, sizeof(addr), "%s", s->addr);
	ret = leat_resource_run(&w.op, &close_resource);
	if (ret < 0)
		leat_err(-ret, "close of %s: %s", addr,
			 ret == -ETIMEDOUT ? "the time was up before all messages were sent"
					   : strerror(-ret));
	return ret;
}
