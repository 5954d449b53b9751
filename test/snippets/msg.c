/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Code of doc/guide/msg.md, all on one lcore: a server in tasks, and three clients of it: in a
 * task, in callbacks, and in a loop of its own.
 */

/* clang-format off */

#include <stdio.h>

#include <rte_errno.h>

#include <leat_msg_task.h>

static int
client(void *arg)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL); /* the reactor's stop closes it */
	struct leat_msg_conn *c;
	char answer[64];
	int n;

	(void)arg;
	if (net == NULL)
		return -rte_errno;
	n = leat_msg_task_dial(net, "10.0.0.1:7000", 1000000, &c);
	if (n == 0)
		n = leat_msg_task_send(c, "time?", 5);
	if (n == 0)
		n = leat_task_within(5000, leat_msg_task_recv(c, answer, sizeof(answer)));
	if (n < 0)
		return n; /* leat_err_msg(): "recv from 10.0.0.1:7000: Connection timed out" */
	printf("%.*s\n", n, answer);
	return leat_msg_task_close(c, 1000000);
}

#include <leat_app.h>
#include <leat_fabric.h>
#include <leat_msg.h>
#include <leat_msg_reactor.h>
#include <leat_task_event.h>

#include "snippets.h"

#define SIZE 64

/* ---- the server ---- */

static int
session(void *arg)
{
	struct leat_msg_conn *c = (struct leat_msg_conn *)arg;
	char text[SIZE];

	while (leat_msg_task_recv(c, text, sizeof(text)) >= 0) {
		if (leat_msg_task_send(c, "noon", 4) < 0)
			break;
	}
	return leat_msg_task_close(c, 1000000);
}

static int
server(void *arg)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL);
	struct leat_msg_conn *c;

	(void)arg;
	CHECK(net != NULL);

	if (leat_msg_task_listen(net, "10.0.0.1:7000") < 0)
		return -rte_errno;
	while (leat_msg_task_accept(net, &c) == 0)
		if (leat_task_start("session", session, c) < 0)
			(void)leat_msg_task_close(c, 0);

	return 0;
}

/* ---- a context of the program's own ---- */

struct own {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct leat_msg_conn *c;
	struct leat_msg_req req[10];
	struct leat_msg_req *rx[8], *tx[2];
	char buf[10][SIZE];
	struct leat_mr *mr;
	unsigned int answers;
	bool closed;
	struct leat_task_event both;
};

static struct own by_callback, by_loop;

static void
own_buffers(struct own *o)
{
	unsigned int i;

	o->mr = leat_mr_register(o->ep, o->buf, sizeof(o->buf), LEAT_MR_LOCAL);
	CHECK(o->mr != NULL);
	for (i = 0; i < 10; i++) {
		o->req[i].buf = o->buf[i];
		o->req[i].size = i < 8 ? SIZE : 5;
		o->req[i].mr = o->mr;
		if (i < 8)
			o->rx[i] = &o->req[i];
		else
			o->tx[i - 8] = &o->req[i];
	}
}

static struct leat_msg *
own_create(struct own *o, struct leat_ep *ep, const struct leat_msg_conf *conf)
{
	o->ep = ep;
	own_buffers(o);
	o->m = leat_msg_create(ep, conf);
	return o->m;
}

static void
own_done(struct own *o, struct leat_msg_req **reqs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (reqs[i] < &o->req[8] && reqs[i]->status == 0) {
			CHECK(reqs[i]->len == 4 && memcmp(reqs[i]->buf, "noon", 4) == 0);
			o->answers++;
		}
	}
}

static void
own_close(struct own *o)
{
	CHECK(leat_msg_destroy(o->m) == 0);
	CHECK(leat_mr_deregister(o->mr) == 0);
	CHECK(leat_ep_close(o->ep, 1000000, NULL, NULL) == 0);
}

static void
on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now)
{
	struct own *o = (struct own *)arg;

	(void)now;
	own_done(o, reqs, n);
	if (o->answers == 2)
		leat_task_event_set(&o->both);
}

static void
on_event(void *arg, const struct leat_msg_event *ev)
{
	(void)arg;
	CHECK(ev->type != LEAT_MSG_ENDED || ev->status == 0);
}

static void
on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	(void)arg;
	(void)ep;
	/* The endpoint does not listen. */
	CHECK(ev->type != LEAT_EV_CONNECT_REQ);
}

static void
callbacks(struct own *app)
{
	struct leat_msg_req **rx = app->rx, **tx = app->tx;
	struct leat_reactor *r = leat_reactor_self();
	struct leat_dev *dev = leat_dev_get(0);
	struct leat_ep_conf ep_conf;
	struct leat_msg_conn *c;
	struct leat_msg *m;
	struct leat_ep *ep;
	int ret;

	memset(&ep_conf, 0, sizeof(ep_conf));
	/* The block calls own_create(), which also registers the buffers with the new endpoint. */
#define leat_msg_create(ep, conf) own_create(app, ep, conf)

const struct leat_msg_reactor_conf conf = {
	.done = on_done,         /* (arg, reqs, n, now): requests that are done */
	.event = on_event,       /* (arg, ev): UP, ENDED, CLOSED */
	.ep_event = on_ep_event, /* (arg, ep, ev): CONNECT_REQ; leat_msg_accept() */
	.arg = app,
};

leat_msg_ep_conf(dev, NULL, &ep_conf);
ep = leat_ep_create(dev, &ep_conf);
m = leat_msg_create(ep, NULL);
ret = leat_msg_reactor_add(m, r, &conf);
c = leat_msg_connect(m, "10.0.0.1:7000", NULL);
leat_msg_recv(c, rx, 8);         /* arrays of pointers to struct leat_msg_req */
leat_msg_send(c, tx, 2);         /* both before it stands, too */

#undef leat_msg_create
	CHECK(ret == 0);
	CHECK(leat_task_within(60000000, leat_task_event_wait(&app->both)) == 0);
}

/* ---- in a loop ---- */

static void
use(struct leat_msg_req **reqs, uint16_t n)
{
	own_done(&by_loop, reqs, n);
}

static bool
time_for_it(void)
{
	/* Let the server run, which is on the same lcore. */
	CHECK(leat_task_yield() == 0);
	return true;
}

static bool
look_at(const struct leat_msg_event *ev, uint16_t n)
{
	static bool closing;
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (ev[i].type == LEAT_MSG_CLOSED)
			return true;
	}
	if (by_loop.answers == 2 && !closing) {
		closing = true;
		CHECK(leat_msg_close(by_loop.c, 1000000) == 0);
	}
	return false;
}

static void
loop(void)
{
	struct leat_msg_req *done[32];
	struct leat_msg_event mev[8];
	struct leat_ep_conf ep_conf;
	struct leat_op *ops[32];
	struct leat_event ev[8];
	struct leat_msg *m;
	struct leat_ep *ep;
	bool end = false;
	uint16_t i, n;

	memset(&ep_conf, 0, sizeof(ep_conf));
	CHECK(leat_msg_ep_conf(leat_dev_get(0), NULL, &ep_conf) == 0);
	ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	CHECK(ep != NULL);
	m = own_create(&by_loop, ep, NULL);
	CHECK(m != NULL);
	by_loop.c = leat_msg_connect(m, "10.0.0.1:7000", NULL);
	CHECK(by_loop.c != NULL);
	CHECK(leat_msg_recv(by_loop.c, by_loop.rx, 8) == 8);
	CHECK(leat_msg_send(by_loop.c, by_loop.tx, 2) == 2);

while (!end) {
	n = leat_ep_poll(ep, ops, 32);
	if (n > 0)
		(void)leat_msg_process(m, ops, n);      /* leaves what is the application's */
	n = leat_msg_poll(m, done, 32);                 /* requests, with status and len */
	use(done, n);
	if (time_for_it()) {
		n = leat_ep_events(ep, ev, 8);
		for (i = 0; i < n; i++)
			leat_msg_handle_event(m, &ev[i]);
		n = leat_msg_events(m, mev, 8);         /* UP, ENDED, CLOSED */
		end = look_at(mev, n);
	}
}

	own_close(&by_loop);
}

static int
start(void *arg)
{
	int ret;

	(void)arg;
	CHECK(leat_task_start("server", server, NULL) == 0);
	CHECK(leat_task_yield() == 0);
	ret = client(NULL);
	/* On a busy machine 5 ms may have been too little. */
	CHECK(ret == 0 || ret == -ETIMEDOUT);
	callbacks(&by_callback);
	loop();
	leat_app_stop(0);
	return 0;
}

static void
end_of_program(void *arg)
{
	(void)arg;
	own_close(&by_callback);
	printf("done\n");
}

int
main(int argc, char **argv)
{
	struct leat_app app;

	memset(&app, 0, sizeof(app));
	app.start = start;
	app.end = end_of_program;
	return leat_app_run(argc, argv, &app);
}
