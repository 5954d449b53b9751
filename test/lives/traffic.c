/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "traffic.h"

static void
post_recv(struct traffic *t, struct leat_op *op)
{
	*op = (struct leat_op){ .type = LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.buf = t->memory,
				.size = TRAFFIC_MEMORY,
				.mr = t->mr,
				.queue = LEAT_QUEUE_NONE };
	CHECK(leat_ep_post(t->ep, &op, 1) == 1, "receive: %s", leat_err_msg());
}

void
traffic_open(struct traffic *t, struct leat_dev *dev, uint32_t ops, uint64_t seed)
{
	struct leat_ep_conf conf = { .ops = ops, .max_peers = TRAFFIC_PEERS };
	unsigned int i;

	memset(t, 0, sizeof(*t));
	t->ops = ops;
	t->random = seed;
	t->talks = true;
	t->light = LEAT_PEER_ANY;
	t->light_max = TRAFFIC_MEMORY;
	t->memory = rte_malloc(NULL, TRAFFIC_MEMORY, LEAT_CACHE_LINE);
	CHECK(t->memory != NULL, "out of memory");
	t->ep = leat_ep_create(dev, &conf);
	CHECK(t->ep != NULL, "endpoint: %s", leat_err_msg());
	t->mr = leat_mr_register(t->ep, t->memory, TRAFFIC_MEMORY,
				 LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE |
					 LEAT_MR_REMOTE_ATOMIC);
	CHECK(t->mr != NULL, "region: %s", leat_err_msg());
	CHECK(leat_mr_rkey(t->mr, t->memory, TRAFFIC_MEMORY, &t->key) == 0, "%s", leat_err_msg());
	for (i = 0; i < TRAFFIC_RECVS; i++)
		post_recv(t, &t->recv[i]);
}

void
traffic_listen(struct traffic *t)
{
	CHECK(leat_ep_listen(t->ep, "127.0.0.1:0") == 0 &&
		      leat_ep_listen_addr(t->ep, t->addr, sizeof(t->addr)) == 0,
	      "listen: %s", leat_err_msg());
}

uint16_t
traffic_connect(struct traffic *t, const char *addr)
{
	const struct leat_conn_params params = { .priv = &t->key, .priv_len = sizeof(t->key) };
	int peer = leat_ep_connect(t->ep, addr, &params);

	CHECK(peer >= 0 && peer < TRAFFIC_PEERS, "connect: %s", leat_err_msg());
	t->peer[peer].state = TRAFFIC_CONNECTING;
	return (uint16_t)peer;
}

static void
on_event(struct traffic *t, const struct leat_event *ev)
{
	const struct leat_conn_params params = { .priv = &t->key, .priv_len = sizeof(t->key) };
	struct traffic_peer *p;

	if (ev->type == LEAT_EV_SHUTDOWN) {
		t->shut = true;
		return;
	}
	p = &t->peer[ev->peer];
	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		p->state = TRAFFIC_CONNECTING;
		if (leat_ep_accept(t->ep, ev->peer, &params) < 0) {
			/* The peer has ended meanwhile. */
			CHECK(rte_errno == ENOTCONN, "accept: %s", leat_err_msg());
			p->state = TRAFFIC_NONE;
		}
		/* fallthrough */
	case LEAT_EV_CONNECTED:
		if (ev->priv_len == sizeof(p->key))
			memcpy(&p->key, ev->priv, sizeof(p->key));
		if (ev->type == LEAT_EV_CONNECT_REQ)
			break;
		p->done = 0;
		p->state = TRAFFIC_UP;
		t->ups++;
		break;
	case LEAT_EV_DISCONNECTED:
	case LEAT_EV_CONNECT_FAILED:
		p->state = TRAFFIC_NONE;
		t->ends++;
		break;
	default:
		break;
	}
}

static bool
ended(int status)
{
	return status == -ECONNRESET || status == -ECONNABORTED || status == -ENOTCONN;
}

static void
on_done(struct traffic *t, struct leat_op *op)
{
	if (t->closing)
		return;
	if (op->type == LEAT_OP_RECV) {
		/* A receive may fail if its sender ended while the message was arriving. */
		CHECK(op->status == 0 || ended(op->status), "receive: %s", strerror(-op->status));
		t->received += op->status == 0;
		post_recv(t, op);
		return;
	}
	CHECK(op->status == 0 || ended(op->status), "%s of %" PRIu64 " B to peer %u: %s",
	      leat_op_type_name(op->type), op->size, op->peer, strerror(-op->status));
	t->peer[op->peer].done += op->status == 0;
}

static void
post_one(struct traffic *t, uint16_t peer, struct leat_op *op)
{
	static const enum leat_op_type types[] = { LEAT_OP_SEND, LEAT_OP_SEND, LEAT_OP_WRITE,
						   LEAT_OP_READ, LEAT_OP_FETCH_ADD };
	static const uint32_t sizes[] = { 0, 8, 4000, 20000, TRAFFIC_MEMORY };
	enum leat_op_type type = types[test_random(&t->random) % RTE_DIM(types)];

	if ((t->ops & LEAT_OP_BIT(type)) == 0)
		type = LEAT_OP_SEND;
	*op = (struct leat_op){ .type = type,
				.peer = peer,
				.buf = t->memory,
				.size = sizes[test_random(&t->random) % RTE_DIM(sizes)],
				.mr = t->mr };
	if (peer == t->light)
		op->size = RTE_MIN(op->size, t->light_max);
	if (type == LEAT_OP_FETCH_ADD)
		op->size = 8;
	if (type >= LEAT_OP_WRITE) {
		op->raddr = t->peer[peer].key.addr;
		op->rkey = t->peer[peer].key.key;
	}
	if (leat_ep_post(t->ep, &op, 1) != 1)
		CHECK(rte_errno == EAGAIN, "post: %s", leat_err_msg());
}

static void
post_all(struct traffic *t)
{
	uint16_t peer;
	unsigned int i;

	for (peer = 0; peer < TRAFFIC_PEERS; peer++) {
		struct traffic_peer *p = &t->peer[peer];
		unsigned int window = peer == t->light ? 1 : TRAFFIC_WINDOW;

		for (i = 0; i < window && p->state == TRAFFIC_UP; i++) {
			if (p->op[i].state == LEAT_OP_IDLE)
				post_one(t, peer, &p->op[i]);
		}
	}
}

void
traffic_turn(struct traffic *t)
{
	static const struct timespec idle = { .tv_nsec = 50000 };
	struct leat_op *done[32];
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(t->ep, done, RTE_DIM(done));
	for (i = 0; i < n; i++)
		on_done(t, done[i]);
	/* Read events only now and then: it takes system calls. */
	if (t->turns++ % 16 == 0) {
		while (leat_ep_events(t->ep, &ev, 1) == 1)
			on_event(t, &ev);
	}
	if (t->talks)
		post_all(t);
	/*
	 * Sleep instead of yielding: many processes that only yield can starve kernel threads for
	 * minutes.
	 */
	if (n == 0)
		(void)ppoll(NULL, 0, &idle, NULL);
}

bool
traffic_gone(const struct traffic *t, uint16_t peer)
{
	const struct traffic_peer *p = &t->peer[peer];
	unsigned int i;

	for (i = 0; i < TRAFFIC_WINDOW; i++) {
		if (p->op[i].state != LEAT_OP_IDLE)
			return false;
	}
	return p->state == TRAFFIC_NONE;
}

void
traffic_close(struct traffic *t)
{
	t->closing = true;
	t->talks = false;
	CHECK(leat_ep_shutdown(t->ep, 1000000) == 0, "shutdown: %s", leat_err_msg());
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(t), t->shut, "no end of the shutdown");
	/*
	 * EBUSY: an op of a dead peer may still use the region; closing the endpoint then
	 * deregisters it.
	 */
	CHECK(leat_mr_deregister(t->mr) == 0 || rte_errno == EBUSY, "deregister: %s",
	      leat_err_msg());
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(t), leat_ep_destroy(t->ep) == 0, "destroy: %s",
	      leat_err_msg());
	rte_free(t->memory);
}
