/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A complete leat program of callbacks: a client sends hellos, a server prints them.
 *
 *	make && ./callbacks		both on the ring device
 *	./callbacks -l 0		both on one lcore
 *	./callbacks --vdev=fabric_ofi0,provider=tcp
 *
 *     main lcore                                 second lcore, if there is one
 *       endpoint "server"                          endpoint "client"
 *         listens       <---- connects --------
 *         accepts       -----------------------> connected: posts HELLOS sends
 *         RECVs return  <---- messages --------- SENDs return
 *         all there: stops the program
 *
 * leat_app_run() starts everything, calls start() on each lcore, and ends in order. Everything of
 * an endpoint happens on the thread of its reactor: the server asks the client's by message to
 * begin. (Casts from void * are here so that this is C++, too.)
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_lcore.h>

#include <leat_app.h>
#include <leat_error.h>
#include <leat_fabric.h>

#define HELLOS 5U
#define SIZE 64
#define STOP_US 1000000

/* One side of the conversation. Its ops and buffers live as long as its endpoint. */
struct side {
	struct leat_reactor *reactor;
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_poller *poster;
	uint16_t posted;
	struct leat_op op[HELLOS];
	char buf[HELLOS][SIZE];
};

static struct side server, client;
static char address[LEAT_ADDR_MAX]; /* written by the server before it asks the client to begin */
static unsigned int arrived;

/* Say what went wrong, and end in order. Either side may come here. */
static void
give_up(const char *what, const char *why)
{
	fprintf(stderr, "callbacks: %s: %s\n", what, why);
	leat_app_stop(LEAT_APP_FAILED);
}

/*
 * A poller that lives until all ops are posted. From post until poll returns it, an op and its
 * buffer are the device's. Full means that post takes fewer, at once: the others are for the next
 * turn.
 */
static int
post_rest(void *arg, uint64_t now)
{
	struct side *s = (struct side *)arg;
	struct leat_op *ops[HELLOS];
	uint16_t i, n;

	(void)now;
	for (i = s->posted; i < HELLOS; i++)
		ops[i] = &s->op[i];
	n = leat_ep_post(s->ep, &ops[s->posted], (uint16_t)(HELLOS - s->posted));
	s->posted = (uint16_t)(s->posted + n);
	if (s->posted == HELLOS && leat_poller_remove(s->poster) < 0)
		return -rte_errno;
	return n;
}

/* One op per buffer. */
static void
post_all(struct side *s, enum leat_op_type type, uint16_t peer)
{
	unsigned int i;

	for (i = 0; i < HELLOS; i++) {
		struct leat_op *op = &s->op[i];

		op->type = (uint8_t)type;
		op->peer = peer;
		op->buf = s->buf[i];
		op->size = SIZE;
		op->mr = s->mr;
	}
	s->poster = leat_reactor_poller_add(s->reactor, "post", post_rest, s, 0);
	if (s->poster == NULL)
		give_up("post", leat_err_msg());
}

/* Ops that came back: up to LEAT_EP_BURST in one call, in the order in which they were posted. */
static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct side *s = (struct side *)arg;
	uint16_t i;

	(void)now;
	for (i = 0; i < n; i++) {
		/* The reactor stops: what had not ended was cancelled, or lost its peer. */
		if (ops[i]->status < 0 && leat_reactor_state(s->reactor) == LEAT_REACTOR_STOPPING)
			continue;
		if (ops[i]->status < 0) {
			give_up(leat_ep_name(ep), rte_strerror(-ops[i]->status));
			continue;
		}
		if (s != &server)
			continue;
		/* What comes from a peer is not to be trusted: it may lack its end. */
		printf("%.*s\n", (int)ops[i]->len, (const char *)ops[i]->buf);
		if (++arrived == HELLOS)
			leat_app_stop(LEAT_APP_OK);
	}
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct side *s = (struct side *)arg;

	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		if (leat_ep_accept(ep, ev->peer, NULL) < 0)
			give_up("accept", leat_err_msg());
		break;
	case LEAT_EV_CONNECTED:
		if (s == &client)
			post_all(s, LEAT_OP_SEND, ev->peer);
		break;
	case LEAT_EV_CONNECT_FAILED:
		give_up("connect", ev->text);
		break;
	case LEAT_EV_DISCONNECTED:
	case LEAT_EV_SHUTDOWN:
		break;
	}
}

/* A message to the client's reactor. */
static void
client_begin(void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < HELLOS; i++)
		snprintf(client.buf[i], SIZE, "hello %u from lcore %u", i + 1, rte_lcore_id());
	/* Never blocks: the outcome is an event. */
	if (leat_ep_connect(client.ep, address, NULL) < 0)
		give_up("connect", leat_err_msg());
}

static struct leat_dev *
device(void)
{
	return leat_dev_get(leat_dev_count() - 1);
}

/* An endpoint of the last device, as nets take it, polled by this lcore's reactor. */
static int
side_open(struct side *s, const char *name)
{
	struct leat_ep_conf conf;

	memset(&conf, 0, sizeof(conf)); /* zeros are the defaults */
	conf.name = name;
	s->reactor = leat_reactor_self();
	s->ep = leat_ep_create(device(), &conf);
	if (s->ep == NULL)
		return -rte_errno;
	/* Many devices reach registered memory only. */
	s->mr = leat_mr_register(s->ep, s->buf, sizeof(s->buf), LEAT_MR_LOCAL);
	if (s->mr == NULL || leat_reactor_ep_add(s->reactor, s->ep, on_ops, on_event, s) == NULL)
		return -rte_errno;
	return 0;
}

static void
side_close(struct side *s)
{
	if (s->mr != NULL && leat_mr_deregister(s->mr) < 0)
		fprintf(stderr, "callbacks: %s\n", leat_err_msg());
	/* The reactor has shut it down; close also sees to one that never ran. */
	if (s->ep != NULL && leat_ep_close(s->ep, STOP_US, NULL, NULL) < 0)
		fprintf(stderr, "callbacks: close: ops had to be aborted\n");
}

static int
server_begin(void)
{
	int ret = side_open(&server, "server");

	if (ret < 0)
		return ret;
	/* Posted in the next turn, before the client is connected. Port 0: any that is free. */
	post_all(&server, LEAT_OP_RECV, LEAT_PEER_ANY);
	ret = leat_ep_listen(server.ep, "127.0.0.1:0");
	if (ret == 0)
		ret = leat_ep_listen_addr(server.ep, address, sizeof(address));
	return ret;
}

/* On each lcore: the server on the first, the client on the last of two. */
static int
start(void *arg)
{
	static unsigned int open;
	unsigned int self = (unsigned int)leat_app_index(), last = leat_app_count() > 1 ? 1 : 0;
	int ret = 0;

	(void)arg;
	if (self == 0)
		printf("leat %s, %s\n", leat_version(), leat_dev_name(device()));
	if (self == last)
		ret = side_open(&client, "client");
	if (ret == 0 && self == 0)
		ret = server_begin();
	if (ret < 0 || self > last)
		return ret;
	/* The last one that is through says it to the client. */
	if (__atomic_add_fetch(&open, 1, __ATOMIC_ACQ_REL) == last + 1)
		ret = leat_reactor_call(leat_app_reactor(last), client_begin, NULL);
	return ret < 0 ? ret : LEAT_APP_STAY; /* on by callbacks, until the program is stopped */
}

static void
end(void *arg)
{
	(void)arg;
	side_close(&client);
	side_close(&server);
	printf("%u of %u arrived\n", arrived, HELLOS);
}

int
main(int argc, char **argv)
{
	struct leat_app app;

	memset(&app, 0, sizeof(app)); /* the ring device, unless the command line names another */
	app.start = start;
	app.end = end;
	return leat_app_run(argc, argv, &app);
}
