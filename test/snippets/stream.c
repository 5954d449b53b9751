/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Code of doc/guide/stream.md, on one lcore: a server in callbacks, and a client of it in a
 * task.
 */

/* clang-format off */

#include <leat_app.h>
#include <leat_fabric.h>
#include <leat_stream_task.h>
#include <leat_task.h>

#include "snippets.h"

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	const void *data;
	ssize_t n = leat_stream_borrow(s, &data);       /* no copy: where the peer wrote them */
	ssize_t sent = n > 0 ? leat_stream_write(s, data, (size_t)n) : n;

	(void)ready;
	if (sent > 0)
		leat_stream_give_back(s, (size_t)sent);
	if (sent == n && n > 0)
		leat_stream_watch(s, LEAT_STREAM_READABLE, on_ready, arg);
	else if (n > 0 && (sent > 0 || sent == -EAGAIN))
		leat_stream_watch(s, LEAT_STREAM_WRITABLE, on_ready, arg); /* and read no more until then */
	else if (sent != -EAGAIN)
		leat_stream_close(s, 0);                /* the end, or leat_stream_why() */
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	leat_stream_watch(s, LEAT_STREAM_READABLE, on_ready, arg);
}

static struct leat_stream_net *server_net, *client_net;
static struct leat_stream_listener listener;

static int
serve(struct leat_reactor *r)
{
	struct leat_stream_net *net;
	int ret;

	listener.accept = on_accept;

net = leat_stream_net_open(r, NULL);                    /* an endpoint of the last --vdev, below r */
ret = leat_stream_listen(net, "10.0.0.1:6379", &listener); /* .accept = on_accept */

	CHECK(net != NULL && ret == 0);
	server_net = net;
	return ret;
}

/* Send more than the stream's send buffer holds, and read the echo. */
static void
send_long(struct leat_stream_net *net, struct leat_stream *s)
{
	static char value[300000], back[sizeof(value)];
	struct leat_mr *mr;
	int n;

	memset(value, 'v', sizeof(value));

mr = leat_mr_register(leat_stream_net_ep(net), value, sizeof(value), LEAT_MR_LOCAL);
n = leat_stream_task_send(s, value, sizeof(value), mr); /* until value may be changed again */

	CHECK(mr != NULL && n == 0);
	CHECK(leat_stream_task_read_all(s, back, sizeof(back)) == (ssize_t)sizeof(back));
	CHECK(memcmp(back, value, sizeof(back)) == 0);
	CHECK(leat_mr_deregister(mr) == 0);
}

static int
client(struct leat_stream_net *net)
{
	struct leat_stream *s;
	char answer[64];
	ssize_t n;

n = leat_stream_task_connect(net, "10.0.0.1:6379", 0, &s);
if (n == 0)
	n = leat_stream_task_write(s, "PING\r\n", 6);
if (n > 0)
	n = leat_stream_task_read(s, answer, sizeof(answer));

	CHECK(n == 6 && memcmp(answer, "PING\r\n", 6) == 0);
	send_long(net, s);
	leat_stream_close(s, 0);
	return 0;
}

static int
start(void *arg)
{
	(void)arg;
	CHECK(serve(leat_reactor_self()) == 0);
	client_net = leat_stream_net_open(leat_reactor_self(), NULL);
	CHECK(client_net != NULL && client(client_net) == 0);
	printf("done\n");
	return 0;
}

static void
end_of_program(void *arg)
{
	(void)arg;
	CHECK(leat_stream_net_close(client_net) == 0 && leat_stream_net_close(server_net) == 0);
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
