/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A leat program that talks to a program without leat: to rping of rdma-core.
 *
 *	rping -s -a 10.97.0.2				rping serves
 *	./rping --vdev=fabric_verbs0 -- -c -a 10.97.0.2 -C 10 -v -V
 *
 *	./rping --vdev=fabric_verbs0 -- -s -a 10.97.0.2	this program serves
 *	rping -c -a 10.97.0.2 -C 10 -v -V
 *
 * A foreign peer is like any other: rdma_cm connects, and leat adds no data of its own. talk.c has
 * the protocol. The peer can access only the memory that it needs: of a client, the source may be
 * read and the sink written, each with a key of its own; a server hands out no key.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_reactor.h>

#include "rping.h"

#define PORT "7174"
#define STOP_US 1000000

struct options opt = { .size = 64, .port = PORT };
struct memory mem;
struct leat_ep *ep;
struct session sessions[PEERS];
uint64_t pings;

static struct leat_reactor *reactor;
static struct leat_op recvs[PEERS];
static bool taken; /* a server for one client has its client */
static bool failed;

void
report_error(const char *fmt, ...)
{
	va_list ap;

	fputs("rping: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	failed = true;
}

/* ---- completions and events ---- */

static void
on_ops(void *arg, struct leat_ep *e, struct leat_op **ops, uint16_t n, uint64_t now)
{
	uint16_t i;

	(void)arg;
	(void)now;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];
		struct session *s = &sessions[op->peer % PEERS];

		if (op->type == LEAT_OP_RECV) {
			if (op->status == 0)
				talk_message(op);
			/* Post the receive again; an endpoint that closes refuses it. */
			if (leat_ep_post(e, &op, 1) != 1 && rte_errno != ESHUTDOWN)
				report_error("receive: %s", rte_strerror(rte_errno));
			continue;
		}
		s->in_flight--;
		if (op->status < 0)
			talk_disconnect(s, "%s: %s", leat_op_type_name(op->type),
					rte_strerror(-op->status));
		else
			talk_resume(s);
	}
}

static bool
stopping(void)
{
	return leat_reactor_state(reactor) == LEAT_REACTOR_STOPPING;
}

static void
on_request(uint16_t peer)
{
	struct session *s = &sessions[peer];

	/* A server for one client rejects any other. */
	if (taken) {
		if (leat_ep_reject(ep, peer) < 0 && rte_errno != ENOTCONN)
			report_error("%s", leat_err_msg());
		return;
	}
	memset(s, 0, sizeof(*s));
	s->step = WAIT_SOURCE;
	taken = !opt.persistent;
	if (leat_ep_accept(ep, peer, NULL) == 0)
		return;
	report_error("%s", leat_err_msg());
	s->step = FREE;
	if (leat_ep_reject(ep, peer) < 0 && rte_errno != ENOTCONN)
		report_error("%s", leat_err_msg());
	if (!opt.persistent)
		leat_reactor_stop_all(STOP_US);
}

static void
on_disconnected(struct session *s, const struct leat_event *ev)
{
	/* A client may leave between two pings: the server can't know whether more were to come. */
	bool orderly = opt.client ? s->pings == opt.count && opt.count > 0
				  : s->step == WAIT_SOURCE && !s->has_message;

	if (!orderly && !stopping())
		report_error("in ping %" PRIu64 ": %s%s%s", s->pings, s->why,
			     s->why[0] != '\0' ? "; " : "", ev->text);
	memset(s, 0, sizeof(*s));
	if (!opt.persistent)
		leat_reactor_stop_all(STOP_US);
}

static void
on_event(void *arg, struct leat_ep *e, const struct leat_event *ev)
{
	(void)arg;
	(void)e;
	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		on_request(ev->peer);
		break;
	case LEAT_EV_CONNECTED:
		sessions[ev->peer].up = true;
		if (opt.client)
			talk_begin(&sessions[ev->peer]);
		else
			talk_resume(&sessions[ev->peer]);
		break;
	case LEAT_EV_CONNECT_FAILED:
		report_error("%s", ev->text);
		leat_reactor_stop_all(STOP_US);
		break;
	case LEAT_EV_DISCONNECTED:
		on_disconnected(&sessions[ev->peer], ev);
		break;
	case LEAT_EV_SHUTDOWN:
		break;
	}
}

/* ---- set-up ---- */

static int
ep_open(struct leat_dev *dev)
{
	struct leat_ep_conf conf = { .name = "rping", .rx_depth = PEERS, .max_peers = PEERS };
	struct leat_dev_info info;

	if (leat_dev_info_get(dev, &info) < 0)
		return -rte_errno;
	if (!info.source)
		return leat_err(EOPNOTSUPP, "%s can't tell whom a message is from", info.name);
	conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	if (opt.server)
		conf.ops |= LEAT_OP_BIT(LEAT_OP_READ) | LEAT_OP_BIT(LEAT_OP_WRITE);
	ep = leat_ep_create(dev, &conf);
	if (ep == NULL)
		return -rte_errno;
	mem.msg_mr = leat_mr_register(ep, &mem.msg, sizeof(mem.msg), LEAT_MR_LOCAL);
	if (opt.server) {
		mem.ping_mr = leat_mr_register(ep, mem.ping, sizeof(mem.ping), LEAT_MR_LOCAL);
	} else {
		mem.ping_mr = leat_mr_register(ep, mem.ping[0], opt.size, LEAT_MR_REMOTE_READ);
		mem.sink_mr = leat_mr_register(ep, mem.sink, opt.size, LEAT_MR_REMOTE_WRITE);
	}
	if (mem.msg_mr == NULL || mem.ping_mr == NULL || (opt.client && mem.sink_mr == NULL))
		return -rte_errno;
	return 0;
}

static int
begin(void)
{
	char addr[LEAT_ADDR_MAX];
	struct leat_op *ops[PEERS];
	uint16_t i, peer;
	int ret;

	/* Post receives first: a client may send as soon as it is connected. */
	for (i = 0; i < PEERS; i++) {
		recvs[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .buf = &mem.msg.in[i],
					     .size = sizeof(mem.msg.in[i]),
					     .mr = mem.msg_mr };
		ops[i] = &recvs[i];
	}
	if (leat_ep_post(ep, ops, PEERS) != PEERS)
		return leat_err(rte_errno, "receives: %s", rte_strerror(rte_errno));
	/* As with rping, -a has no port. leat wants an IPv6 address in brackets. */
	snprintf(addr, sizeof(addr), strchr(opt.host, ':') != NULL ? "[%s]:%s" : "%s:%s", opt.host,
		 opt.port);
	if (opt.server) {
		ret = leat_ep_listen(ep, addr);
		if (ret == 0)
			ret = leat_ep_listen_addr(ep, addr, sizeof(addr));
		if (ret == 0) {
			printf("listening at %s\n", addr);
			fflush(stdout);
		}
		return ret;
	}
	ret = leat_ep_connect(ep, addr, NULL);
	if (ret < 0)
		return ret;
	peer = (uint16_t)ret;
	sessions[peer].step = WAIT_READ;
	return 0;
}

static void
run(void)
{
	if (leat_dev_count() == 0) {
		report_error("no device: --vdev=fabric_verbs0 takes the only one, --vdev="
			     "fabric_verbs0,dev=NAME chooses");
		return;
	}
	reactor = leat_reactor_create(NULL);
	if (reactor == NULL || ep_open(leat_dev_get(0)) < 0 ||
	    leat_reactor_ep_add(reactor, ep, on_ops, on_event, NULL) == NULL) {
		report_error("%s", leat_err_msg());
		return;
	}
	if (begin() < 0) {
		report_error("%s", leat_err_msg());
		leat_reactor_stop(reactor, STOP_US); /* close cleanly: receives are posted */
	}
	if (leat_reactor_run(reactor) < 0) /* until stopped; shuts the endpoint down */
		report_error("%s", leat_err_msg());
}

static void
end(void)
{
	/* Destroy the reactor before the endpoint, and deregister memory before the close. */
	if (leat_reactor_destroy(reactor) < 0)
		report_error("the reactor is still running");
	if ((mem.sink_mr != NULL && leat_mr_deregister(mem.sink_mr) < 0) ||
	    (mem.ping_mr != NULL && leat_mr_deregister(mem.ping_mr) < 0) ||
	    (mem.msg_mr != NULL && leat_mr_deregister(mem.msg_mr) < 0))
		report_error("%s", leat_err_msg());
	if (ep != NULL && leat_ep_close(ep, STOP_US, NULL, NULL) < 0)
		report_error("close: ops had to be aborted");
	if (leat_cleanup() < 0)
		report_error("%s", leat_err_msg());
}

static void
usage(FILE *f)
{
	fputs("Usage: rping [EAL OPTION]... --vdev=fabric_verbs0[,dev=NAME] -- -s|-c [OPTION]...\n"
	      "\n"
	      "Plays ping-pong with rping of rdma-core, as its server or its client.\n"
	      "\n"
	      "  -s         serve one client\n"
	      "  -P         serve any number, up to 8 at a time, until Ctrl-C\n"
	      "  -c         be the client\n"
	      "  -a HOST    listen at, connect to; a server's default is any address\n"
	      "  -p PORT    (default: " PORT ")\n"
	      "  -C COUNT   pings; a server expects that many at least (default: any number)\n"
	      "  -S SIZE    client: bytes of a ping, 27 to 65536 (default: 64)\n"
	      "  -V         client: compare what comes back\n"
	      "  -v         print what is read, or comes back\n"
	      "  -h, --help\n"
	      "\n"
	      "Exit code: 0, 1 if something failed or pings were missing, 2 for wrong usage.\n",
	      f);
}

/* Parse a number from min to max, both above 0. Returns 0 when it is none. */
static uint64_t
number(const char *s, uint64_t min, uint64_t max)
{
	char *rest;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &rest, 10);
	return errno != 0 || *s < '0' || *s > '9' || *rest != '\0' || v < min || v > max ? 0 : v;
}

static int
parse(int argc, char **argv)
{
	int c;

	optind = 1;
	while ((c = getopt(argc, argv, "scPa:p:C:S:Vv")) != -1) {
		switch (c) {
		case 'P':
			opt.persistent = true;
			/* fall through */
		case 's':
			opt.server = true;
			break;
		case 'c':
			opt.client = true;
			break;
		case 'a':
			opt.host = optarg;
			break;
		case 'p':
			opt.port = optarg;
			break;
		case 'C':
			opt.count = number(optarg, 1, UINT64_MAX);
			if (opt.count == 0)
				return -EINVAL;
			break;
		case 'S':
			opt.size = (uint32_t)number(optarg, SIZE_LEAST, SIZE_MOST);
			if (opt.size == 0)
				return -EINVAL;
			break;
		case 'V':
			opt.validate = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		default:
			return -EINVAL;
		}
	}
	if (opt.client == opt.server || optind != argc || (opt.client && opt.host == NULL))
		return -EINVAL;
	if (opt.host == NULL)
		opt.host = "";
	return 0;
}

/* Stop cleanly, as without a signal. leat_reactor_stop_all() is async-signal-safe. */
static void
on_signal(int sig)
{
	(void)sig;
	leat_reactor_stop_all(STOP_US);
}

int
main(int argc, char **argv)
{
	int i, ret;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			usage(stdout);
			return 0;
		}
	}
	ret = leat_init(argc, argv);
	if (ret < 0) {
		report_error("%s", leat_err_msg());
		return 1;
	}
	if (parse(argc - ret, argv + ret) < 0) {
		usage(stderr);
		(void)leat_cleanup();
		return 2;
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);

	run();
	end();
	printf("%" PRIu64 " pings\n", pings);
	if (opt.count > 0 && pings < opt.count)
		report_error("%" PRIu64 " were to come", opt.count);
	return failed;
}
