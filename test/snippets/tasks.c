/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/tasks.md: a server that echoes, and a client in a thread of its own. */

/* clang-format off */

#include <pthread.h>

#include <leat_fabric.h>
#include <leat_reactor.h>
#include <leat_task_op.h>

#include "snippets.h"

#define SIZE 64

struct conn {
	struct leat_ep *ep;
	struct leat_mr *mr;
	char buf[SIZE];
};

static char addr[LEAT_ADDR_MAX];

static int
echo(void *arg)
{
        struct conn *c = (struct conn *)arg;
        uint16_t from;
        int64_t n;

        do {
                n = leat_task_recv(c->ep, LEAT_PEER_ANY, c->buf, sizeof(c->buf), c->mr, &from,
                                   LEAT_TASK_FOREVER);          /* post it, wait until it is back */
                if (n >= 0)
                        n = leat_task_send(c->ep, from, c->buf, (uint64_t)n, c->mr, 1000000);
        } while (n == 0);
        return (int)n;                                          /* -ECANCELED: the reactor stops */
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	(void)arg;
	if (ev->type == LEAT_EV_CONNECT_REQ)
		CHECK(leat_ep_accept(ep, ev->peer, NULL) == 0);
}

static void
conn_open(struct conn *c, const char *name)
{
	struct leat_ep_conf conf;

	memset(&conf, 0, sizeof(conf));
	conf.name = name;
	conf.max_peers = 2;
	c->ep = leat_ep_create(leat_dev_get(0), &conf);
	CHECK(c->ep != NULL);
	c->mr = leat_mr_register(c->ep, c->buf, sizeof(c->buf), LEAT_MR_LOCAL);
	CHECK(c->mr != NULL);
}

static void
conn_close(struct conn *c)
{
	CHECK(leat_mr_deregister(c->mr) == 0);
	CHECK(leat_ep_close(c->ep, 1000000, NULL, NULL) == 0);
}

/* Sends a message, waits until it is back, and stops the server. */
static void *
client(void *arg)
{
	struct leat_op out, in, *ops[] = { &in, &out }, *done[2];
	struct leat_event ev;
	struct conn c;
	int left = 2;

	conn_open(&c, "client");
	CHECK(leat_ep_connect(c.ep, addr, NULL) >= 0);
	do {
		(void)leat_ep_poll(c.ep, done, 2);
	} while (leat_ep_events(c.ep, &ev, 1) == 0);
	CHECK(ev.type == LEAT_EV_CONNECTED);
	memset(&out, 0, sizeof(out));
	out.type = LEAT_OP_SEND;
	out.peer = ev.peer;
	out.buf = c.buf;
	out.size = 6;
	out.mr = c.mr;
	in = out;
	in.type = LEAT_OP_RECV;
	in.buf = c.buf + SIZE / 2;
	in.size = SIZE / 2;
	memcpy(c.buf, "hello", 6);
	CHECK(leat_ep_post(c.ep, ops, 2) == 2);
	while (left > 0) {
		left -= leat_ep_poll(c.ep, done, 2);
		(void)leat_ep_events(c.ep, &ev, 1);
	}
	CHECK(in.status == 0 && in.len == 6 && strcmp(c.buf + SIZE / 2, "hello") == 0);
	leat_reactor_stop_all(1000000);
	conn_close(&c);
	return arg;
}

int
main(int argc, char **argv)
{
	struct leat_reactor *r;
	struct leat_tasks *ts;
	struct conn conn, *c = &conn;
	struct leat_ep *ep;
	void *app = NULL;
	pthread_t thread;
	int ret;

	CHECK(leat_init(argc, argv) >= 0);
	conn_open(c, "server");
	ep = c->ep;
	CHECK(leat_ep_listen(ep, "127.0.0.1:0") == 0);
	CHECK(leat_ep_listen_addr(ep, addr, sizeof(addr)) == 0);
	CHECK(pthread_create(&thread, NULL, client, NULL) == 0);

r = leat_reactor_create(NULL);
ts = leat_tasks_create(r, NULL);
leat_tasks_ep_add(ts, ep, on_event, app);
if (leat_task_detach(leat_task_spawn(ts, "echo", echo, c)) < 0)
        fprintf(stderr, "%s\n", leat_err_msg());                /* no room: see max_tasks */
ret = leat_reactor_run(r);

	CHECK(ret == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(leat_tasks_destroy(ts) == 0 && leat_reactor_destroy(r) == 0);
	conn_close(c);
	CHECK(leat_cleanup() == 0);
	printf("hello is back\n");
	return 0;
}
