/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-rpc-bulk EAL-ARGUMENTS -- [--addr HOST:PORT] [--devices CLIENT,SERVER] [--silence MS]
 *                                [--plain]
 *                                REQUESTS SEED
 *
 * Requests that describe memory, several at a time, between two endpoints that one reactor polls.
 * The server's task pulls a random part of each request's memory, and pushes it back with each byte
 * changed. Some requests are cancelled in the middle; their memory is filled as soon as they have
 * completed, and must then stay unchanged. --plain: the endpoints have no READ and WRITE, so the
 * memory is moved in messages.
 */

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include <leat_mr.h>
#include <leat_reactor.h>
#include <leat_rpc_task.h>
#include <leat_task.h>

#include "common.h"

#define WINDOW 8
#define LONGEST 300000u
#define TYPE 1

/* Body of a request: the part of the memory to pull. */
struct part {
	uint64_t off, len;
};

static struct one {
	struct leat_rpc_req req;
	struct leat_rpc_bulk bulk;
	struct part part;
	uint8_t mem[LONGEST];
	unsigned int fill; /* fill byte of a cancelled request's memory; 0: not cancelled */
} ones[WINDOW];

/*
 * Buffers of the server. Its tasks for cancelled requests may still run for a while, each with a
 * buffer of its own.
 */
#define FAR (8 * WINDOW)

static uint8_t far_mem[FAR][LONGEST];
static bool far_used[FAR];
static struct leat_mr *near_mr, *far_mr;
static struct leat_ep *ep[2];
static struct leat_rpc *rpc[2];
static struct leat_rpc_session *s;
static struct leat_reactor *r;
static struct leat_tasks *ts;
static unsigned int up, done, cancelled, nb_busy;
static bool plain;
static uint64_t seed;
static char addr[LEAT_ADDR_MAX] = "127.0.0.1:0", devices[2][64];
static uint32_t silence_us;

/* xorshift64*, G. Marsaglia and S. Vigna */
static uint64_t
chance(uint64_t n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * UINT64_C(2685821657736338717) >> 11) % n;
}

/* ---- the server ---- */

static int
serve(void *arg)
{
	struct leat_rpc_incoming *call = arg;
	struct part part;
	uint8_t *buf;
	unsigned int i;
	uint64_t k;
	int ret;

	memcpy(&part, call->req, sizeof(part));
	for (i = 0; far_used[i]; i++)
		check(i + 1 < FAR, "more requests than there can be");
	far_used[i] = true;
	buf = far_mem[i];
	ret = leat_rpc_pull(call, 0, part.off, buf, part.len, far_mr);
	for (k = 0; ret == 0 && k < part.len; k++)
		buf[k] = (uint8_t)~buf[k];
	if (ret == 0)
		ret = leat_rpc_push(call, 0, part.off, buf, part.len, far_mr);
	far_used[i] = false;
	leat_rpc_answer(call, ret);
	return 0;
}

static int
on_request(struct leat_rpc_incoming *call, void *arg)
{
	struct leat_rpc_incoming *ticket = leat_rpc_defer(call);

	(void)arg;
	check(ticket != NULL && leat_task_spawn(ts, "serve", serve, ticket) != NULL, "no ticket");
	return LEAT_RPC_DEFERRED;
}

/* ---- the client ---- */

static void
post(struct one *o)
{
	struct leat_rpc_req *req = &o->req;
	uint64_t i;

	for (i = 0; i < LONGEST; i++)
		o->mem[i] = (uint8_t)(i * 13 + (i >> 8));
	o->fill = 0;
	o->part.len = chance(4) == 0 ? chance(LONGEST) : chance(5000);
	o->part.off = chance(LONGEST - o->part.len + 1);
	o->bulk = (struct leat_rpc_bulk){ o->mem, LONGEST, near_mr,
					  LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH };
	*req = (struct leat_rpc_req){ .session = s,
				      .type = TYPE,
				      .flags = LEAT_RPC_BULK,
				      .buf = &o->part,
				      .len = sizeof(o->part),
				      .bulk = &o->bulk,
				      .nb_bulk = 1,
				      .user = o,
				      .deadline = LEAT_RPC_NO_DEADLINE };
	check(leat_rpc_post(&req, 1) == 1, "post");
	nb_busy++;
}

static void
check_done(const struct one *o)
{
	uint64_t i;

	for (i = 0; i < LONGEST; i++) {
		const uint8_t was = (uint8_t)(i * 13 + (i >> 8));
		const bool in = i >= o->part.off && i - o->part.off < o->part.len;

		check(o->mem[i] == (in ? (uint8_t)~was : was), "byte %" PRIu64 " of %" PRIu64, i,
		      o->part.len);
	}
}

static void
check_untouched(const struct one *o)
{
	uint64_t i;

	for (i = 0; o->fill != 0 && i < LONGEST; i++)
		check(o->mem[i] == o->fill, "byte %" PRIu64 " of a cancelled one was written", i);
}

static void
on_done(void *arg, struct leat_rpc_req **reqs, uint16_t n)
{
	uint16_t i;

	(void)arg;
	for (i = 0; i < n; i++) {
		struct one *o = reqs[i]->user;

		nb_busy--;
		done++;
		if (reqs[i]->status == 0) {
			check_done(o);
			continue;
		}
		check(reqs[i]->status == -ECANCELED, "a request: %s", strerror(-reqs[i]->status));
		cancelled++;
		o->fill = 0xa5;
		memset(o->mem, 0xa5, LONGEST);
	}
}

static void
on_event(void *arg, struct leat_rpc *context, const struct leat_rpc_event *ev)
{
	(void)arg;
	(void)context;
	check(ev->status == 0, "the session ended: %s", ev->text);
	up += ev->type == LEAT_RPC_UP;
	if (ev->type == LEAT_RPC_ENDED)
		(void)leat_rpc_close(ev->session, 0);
}

/* ---- start and end ---- */

static struct leat_mr *
registered(struct leat_ep *e, void *mem, size_t len, uint32_t access)
{
	struct leat_mr *mr;

	if (plain && !e->mr_local)
		return NULL;
	mr = leat_mr_register(e, mem, len, plain ? LEAT_MR_LOCAL : access);
	check(mr != NULL, "register: %s", leat_err_msg());
	return mr;
}

static void
end_open(unsigned int i)
{
	const struct leat_rpc_reactor_conf on = { .event = on_event, .done = on_done };
	const struct leat_rpc_conf rpc_conf = { .max_sessions = 2,
						.segment = 16384,
						.silence_us = silence_us };
	struct leat_ep_conf conf = { .max_peers = 3, .type = device_type() };
	struct leat_dev *dev = devices[i][0] != '\0' ? leat_dev_by_name(devices[i])
						     : leat_dev_get(leat_dev_count() - 1);

	if (!plain)
		conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
			   LEAT_OP_BIT(LEAT_OP_READ) | LEAT_OP_BIT(LEAT_OP_WRITE);
	check(dev != NULL, "no device %s", devices[i]);
	ep[i] = leat_ep_create(dev, &conf);
	check(ep[i] != NULL, "endpoint: %s", leat_err_msg());
	rpc[i] = leat_rpc_create(ep[i], &rpc_conf);
	check(rpc[i] != NULL, "rpc: %s", leat_err_msg());
	check(leat_rpc_reactor_add(r, rpc[i], &on) == 0, "reactor: %s", leat_err_msg());
	check(leat_rpc_handler_set(rpc[i], TYPE, on_request, NULL, 8) == 0, "handler");
}

static void
parse(int argc, char **argv, unsigned int *n)
{
	static const struct option options[] = {
		{ "addr", required_argument, NULL, 'a' },
		{ "devices", required_argument, NULL, 'd' },
		{ "silence", required_argument, NULL, 's' },
		{ "plain", no_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			snprintf(addr, sizeof(addr), "%s", optarg);
		else if (c == 's')
			silence_us = 1000 * (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			plain = true;
		else
			check(c == 'd' &&
				      sscanf(optarg, "%63[^,],%63s", devices[0], devices[1]) == 2,
			      "options: --addr, --devices CLIENT,SERVER, --silence MS, --plain");
	}
	check(argc - optind == 2, "-- [OPTIONS] REQUESTS SEED");
	*n = (unsigned int)strtoul(argv[optind], NULL, 10);
	seed = strtoull(argv[optind + 1], NULL, 10) + 1;
}

#define turn_until(cond) wait_until(check(leat_reactor_turn(r) >= 0, "turn"), cond)

static void
work(unsigned int n)
{
	unsigned int posted = 0, i;

	while (done < n) {
		for (i = 0; i < WINDOW && posted < n; i++) {
			struct one *o = &ones[i];

			if (o->req.state != 0 || nb_busy == WINDOW)
				continue;
			check_untouched(o);
			post(o);
			posted++;
		}
		check(leat_reactor_turn(r) >= 0, "turn");
		if (chance(40) == 0)
			(void)leat_rpc_cancel(&ones[chance(WINDOW)].req);
	}
}

static void
drain(unsigned int i)
{
	struct leat_op *ops[32];
	uint16_t n = leat_ep_poll(ep[i], ops, 32);

	check(leat_rpc_process(rpc[i], ops, n) == 0, "an op of no context");
}

static uint32_t
sessions(void)
{
	struct leat_rpc_stats a, b;

	leat_rpc_stats_get(rpc[0], &a);
	leat_rpc_stats_get(rpc[1], &b);
	return a.sessions + b.sessions;
}

int
main(int argc, char **argv)
{
	const struct leat_reactor_conf conf = { .name = "r",
						.idle.policy = LEAT_IDLE_YIELD,
						.events_us = 100 };
	struct leat_rpc_stats st;
	unsigned int i, requests = 0;
	int n;

	n = leat_init(argc, argv);
	check(n >= 0, "leat_init: %s", leat_err_msg());
	parse(argc - n, argv + n, &requests);
	r = leat_reactor_create(&conf);
	check(r != NULL, "reactor: %s", leat_err_msg());
	ts = leat_tasks_create(r, NULL);
	check(ts != NULL, "tasks: %s", leat_err_msg());
	end_open(0);
	end_open(1);
	near_mr = registered(ep[0], ones, sizeof(ones), LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE);
	far_mr = registered(ep[1], far_mem, sizeof(far_mem), LEAT_MR_LOCAL);
	check(leat_ep_listen(ep[1], addr) == 0 &&
		      leat_ep_listen_addr(ep[1], addr, sizeof(addr)) == 0,
	      "listen: %s", leat_err_msg());
	s = leat_rpc_connect(rpc[0], addr, NULL);
	check(s != NULL, "connect: %s", leat_err_msg());
	turn_until(up == 2);
	work(requests);
	/* The server's tasks for cancelled requests may still be running. */
	turn_until((leat_rpc_stats_get(rpc[1], &st), st.tickets == 0));
	for (i = 0; i < WINDOW; i++)
		check_untouched(&ones[i]);
	printf("%u requests, %u cancelled; %" PRIu64 " B pulled, %" PRIu64 " pushed, %" PRIu64
	       " in messages\n",
	       requests, cancelled, st.pulled, st.pushed, st.by_message);
	check(cancelled < requests && (requests < 300 || cancelled > 0), "nothing was cancelled");
	check(plain || (device_type() == LEAT_EP_DATAGRAM) == (st.by_message > 0), "the other way");
	check(leat_rpc_close(s, PATIENCE_US) == 0, "close");
	turn_until(sessions() == 0);
	check((near_mr == NULL || leat_mr_deregister(near_mr) == 0) &&
		      (far_mr == NULL || leat_mr_deregister(far_mr) == 0),
	      "deregister: %s", leat_err_msg());
	for (i = 0; i < 2; i++) {
		check(leat_rpc_reactor_remove(rpc[i]) == 0, "remove");
		wait_until(drain(i), leat_rpc_destroy(rpc[i]) == 0);
	}
	for (i = 0; i < 2; i++)
		(void)leat_ep_close(ep[i], PATIENCE_US, NULL, NULL);
	check(leat_tasks_destroy(ts) == 0 && leat_reactor_destroy(r) == 0, "%s", leat_err_msg());
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	return 0;
}
