/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <leat_error.h>

#include "talk.h"

#define CONNECT_US 5000000
#define STOP_US 1000000
#define ARGS_MAX 64

struct side client, server;

static leat_task_fn client_fn;
static int result = 1;

/*
 * Post one op and wait for it. The op may be a local variable: the wait ends only when the device
 * has returned the op, also after a cancel.
 */
static int
talk_op(struct side *s, enum leat_op_type type, uint16_t peer, struct message *m)
{
	struct leat_op op, *ops[] = { &op };

	memset(&op, 0, sizeof(op));
	op.type = (uint8_t)type;
	op.peer = peer;
	op.buf = m;
	op.size = sizeof(*m);
	op.mr = s->mr;
	return leat_task_op_run(s->ep, ops, 1);
}

int
talk_send(struct side *s)
{
	return talk_op(s, LEAT_OP_SEND, s->peer, &s->out);
}

int
talk_receive(struct side *s)
{
	return talk_op(s, LEAT_OP_RECV, LEAT_PEER_ANY, &s->in);
}

/* Answer requests, except one in eight, until the reactor stops, which cancels this task. */
static int
server_task(void *arg)
{
	int ret = leat_task_event_wait(&server.connected);

	(void)arg;
	while (ret == 0 || (ret < 0 && !leat_task_cancelled())) {
		ret = talk_receive(&server);
		if (ret < 0 || server.in.id % 8 == 7)
			continue;
		server.out.id = server.in.id;
		snprintf(server.out.text, sizeof(server.out.text), "answer %llu",
			 (unsigned long long)server.in.id);
		ret = talk_send(&server);
	}
	return 0;
}

static int
connect_and_talk(void)
{
	char address[LEAT_ADDR_MAX];
	int ret;

	if (leat_ep_listen(server.ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(server.ep, address, sizeof(address)) < 0 ||
	    leat_ep_connect(client.ep, address, NULL) < 0)
		return -rte_errno;
	ret = leat_task_within(CONNECT_US, leat_task_event_wait(&client.connected));
	if (ret < 0) {
		leat_err(-ret, "connect to %s: no answer", address);
		return ret;
	}
	return client_fn(NULL);
}

static int
client_task(void *arg)
{
	(void)arg;
	result = connect_and_talk();
	leat_reactor_stop(leat_reactor_self(), STOP_US);
	return 0;
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct side *s = (struct side *)arg;

	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		if (leat_ep_accept(ep, ev->peer, NULL) < 0) {
			fprintf(stderr, "accept: %s\n", leat_err_msg());
			(void)leat_ep_reject(ep, ev->peer);
		}
		break;
	case LEAT_EV_CONNECTED:
		s->peer = ev->peer;
		leat_task_event_set(&s->connected);
		break;
	case LEAT_EV_CONNECT_FAILED:
		fprintf(stderr, "%s\n", ev->text);
		break;
	case LEAT_EV_DISCONNECTED:
	case LEAT_EV_SHUTDOWN:
		break;
	}
}

/* Open an endpoint of the last device: a fault device comes after the device that it wraps. */
static int
side_open(struct side *s, struct leat_tasks *ts, const char *name)
{
	struct leat_ep_conf conf;

	memset(&conf, 0, sizeof(conf));
	conf.name = name;
	s->ep = leat_ep_create(leat_dev_get(leat_dev_count() - 1), &conf);
	if (s->ep == NULL)
		return -rte_errno;
	s->mr = leat_mr_register(s->ep, s, sizeof(*s), LEAT_MR_LOCAL);
	if (s->mr == NULL || leat_tasks_ep_add(ts, s->ep, on_event, s) == NULL)
		return -rte_errno;
	return 0;
}

static void
side_close(struct side *s)
{
	if (s->mr != NULL && leat_mr_deregister(s->mr) < 0)
		fprintf(stderr, "%s\n", leat_err_msg());
	if (s->ep != NULL && leat_ep_close(s->ep, STOP_US, NULL, NULL) < 0)
		fprintf(stderr, "close: ops had to be aborted\n");
}

static int
start(struct leat_tasks *ts, const char *name, leat_task_fn fn)
{
	struct leat_task *task = leat_task_spawn(ts, name, fn, NULL);

	return task != NULL ? leat_task_detach(task) : -rte_errno;
}

static int
talk(struct leat_reactor *r)
{
	struct leat_tasks *ts = leat_tasks_create(r, NULL);
	int ret;

	if (ts == NULL)
		return -rte_errno;
	ret = side_open(&server, ts, "server");
	if (ret == 0)
		ret = side_open(&client, ts, "client");
	if (ret == 0)
		ret = start(ts, "server", server_task);
	if (ret == 0)
		ret = start(ts, "client", client_task);
	if (ret == 0)
		ret = leat_reactor_run(r); /* until client_task stops it */
	if (leat_tasks_destroy(ts) < 0)
		return -EBUSY;
	return ret == 0 ? result : ret;
}

static int
run(void)
{
	struct leat_reactor *r = leat_reactor_create(NULL);
	int ret;

	if (r == NULL)
		return -rte_errno;
	ret = talk(r);
	if (ret < 0)
		fprintf(stderr, "%s\n", leat_err_msg());
	/* Destroy the reactor before its endpoints: it must not poll a closed endpoint. */
	if (leat_reactor_destroy(r) < 0)
		return -EBUSY;
	side_close(&client);
	side_close(&server);
	return ret;
}

int
talk_run(int argc, char **argv, leat_task_fn main_task)
{
	static char ring[] = "--vdev=fabric_ring0";
	char *args[ARGS_MAX + 1];
	bool device = false;
	int i, ret;

	/* The ring device, unless the command line names another. */
	for (i = 0; i < argc && i < ARGS_MAX - 1; i++) {
		args[i] = argv[i];
		device |= strncmp(argv[i], "--vdev=fabric_", 14) == 0;
	}
	if (!device)
		args[i++] = ring;
	args[i] = NULL;

	client_fn = main_task;
	if (leat_init(i, args) < 0) {
		fprintf(stderr, "%s\n", leat_err_msg());
		return 1;
	}
	ret = run();
	if (leat_cleanup() < 0) {
		fprintf(stderr, "%s\n", leat_err_msg());
		return 1;
	}
	return ret != 0;
}
