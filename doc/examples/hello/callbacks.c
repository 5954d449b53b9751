/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A complete leat program with callbacks: a client sends hellos, and a server prints them.
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
 *         last RECV: stops the program
 *
 * leat_app_run() starts EAL and the reactors, calls start() on each lcore, and shuts everything
 * down cleanly. An endpoint is used only on the thread of its reactor. Therefore the lcore that
 * finishes set-up last does not connect the client itself: it sends the client's reactor a message
 * that does. (The casts from void * let this file compile as C++, too.)
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

/* The server or the client. The ops and buffers of a side live as long as its endpoint. */
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

/* Report an error and stop the program cleanly. Both lcores call this. */
static void
give_up(const char *what, const char *why)
{
	fprintf(stderr, "callbacks: %s: %s\n", what, why);
	leat_app_stop(LEAT_APP_FAILED);
}

/*
 * Post the ops that are not posted yet: a poller, which removes itself when all are posted.
 *
 * leat_ep_post() never waits: when the device is full it accepts fewer ops than it was given, and
 * this poller posts the others in the next turn of the reactor. From post until poll returns an op,
 * the op and its buffer belong to the device.
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

/* Fill in one op per buffer, and add the poller that posts them. */
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

/* Handle ops that poll returned: up to LEAT_EP_BURST per call, in the order of posting. */
static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct side *s = (struct side *)arg;
	uint16_t i;

	(void)now;
	for (i = 0; i < n; i++) {
		/* While the reactor stops, ops in flight are cancelled or lose their peer. */
		if (ops[i]->status < 0 && leat_reactor_state(s->reactor) == LEAT_REACTOR_STOPPING)
			continue;
		if (ops[i]->status < 0) {
			give_up(leat_ep_name(ep), rte_strerror(-ops[i]->status));
			continue;
		}
		if (s != &server)
			continue;
		/* Do not trust a peer's bytes: the text may lack its terminating zero. */
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

/* Connect the client. Runs on the client's reactor, called by message. */
static void
client_begin(void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < HELLOS; i++)
		snprintf(client.buf[i], SIZE, "hello %u from lcore %u", i + 1, rte_lcore_id());
	/* Connecting never blocks: the outcome is LEAT_EV_CONNECTED or LEAT_EV_CONNECT_FAILED. */
	if (leat_ep_connect(client.ep, address, NULL) < 0)
		give_up("connect", leat_err_msg());
}

static struct leat_dev *
device(void)
{
	return leat_dev_get(leat_dev_count() - 1);
}

/* Open an endpoint of the last device (the default of nets, too) on this lcore's reactor. */
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
	/* Many devices can access only memory that is registered with them. */
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
	/* The reactor has shut the endpoint down; if the reactor never ran, close does it. */
	if (s->ep != NULL && leat_ep_close(s->ep, STOP_US, NULL, NULL) < 0)
		fprintf(stderr, "callbacks: close: ops had to be aborted\n");
}

static int
server_begin(void)
{
	int ret = side_open(&server, "server");

	if (ret < 0)
		return ret;
	/* Receives are posted in the next turn, before the client connects. */
	post_all(&server, LEAT_OP_RECV, LEAT_PEER_ANY);
	ret = leat_ep_listen(server.ep, "127.0.0.1:0"); /* port 0: any free port */
	if (ret == 0)
		ret = leat_ep_listen_addr(server.ep, address, sizeof(address));
	return ret;
}

/* Start this lcore's part: the server on the first lcore, the client on the second, if any. */
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
	/* The lcore that is ready last asks the client's reactor to connect. */
	if (__atomic_add_fetch(&open, 1, __ATOMIC_ACQ_REL) == last + 1)
		ret = leat_reactor_call(leat_app_reactor(last), client_begin, NULL);
	return ret < 0 ? ret : LEAT_APP_STAY; /* callbacks go on until leat_app_stop() */
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
