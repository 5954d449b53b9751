/* SPDX-License-Identifier: BSD-3-Clause */

/* leat's side of efa_side.h: the ofi driver, with tags that the provider matches. */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "efa_side.h"

struct side {
	const char *name;
	enum efa_what what;
	size_t size;
	struct leat_ep *ep[2];
	struct leat_op op, recv;
	uint16_t peer;
	char *tx, *rx;
	struct leat_mr *mr[2];
	struct leat_rkey rkey;
};

static inline void
post(struct leat_ep *ep, struct leat_op *op)
{
	if (__builtin_expect(leat_ep_post(ep, &op, 1) != 1, 0))
		bench_die("leat: post: %s", leat_err_msg());
}

/* Every op of leat has a completion. */
static inline int
side_post(struct side *s)
{
	post(s->ep[0], &s->op);
	return 0;
}

static inline void
side_recv(struct side *s)
{
	post(s->ep[1], &s->recv);
}

static inline int
side_poll(struct side *s, int end)
{
	struct leat_op *done[4];
	uint16_t i, n = leat_ep_poll(s->ep[end], done, 4);

	for (i = 0; i < n; i++) {
		if (__builtin_expect(done[i]->status != 0, 0))
			bench_die("leat: %s: %s", leat_op_type_name(done[i]->type),
				  strerror(-done[i]->status));
	}
	return n;
}

static void
side_set(struct side *s)
{
	static const uint8_t types[] = {
		[EFA_SEND] = LEAT_OP_SEND, [EFA_TSEND] = LEAT_OP_TSEND, [EFA_READ] = LEAT_OP_READ
	};

	s->op = (struct leat_op){ .type = types[s->what],
				  .peer = s->peer,
				  .buf = s->tx,
				  .size = s->size,
				  .mr = s->mr[0],
				  .tag = 1 };
	if (s->what == EFA_READ) {
		s->op.raddr = s->rkey.addr;
		s->op.rkey = s->rkey.key;
	}
	s->recv = (struct leat_op){ .type = s->what == EFA_TSEND ? LEAT_OP_TRECV : LEAT_OP_RECV,
				    .peer = LEAT_PEER_ANY,
				    .buf = s->rx,
				    .size = s->size,
				    .mr = s->mr[1],
				    .tag = 1 };
}

#include "efa_loop.h"

static uint16_t
expect(struct side *s, int end, enum leat_event_type type)
{
	uint64_t start = bench_ns();
	struct leat_event ev;

	for (;;) {
		(void)leat_ep_poll(s->ep[A], NULL, 0);
		(void)leat_ep_poll(s->ep[B], NULL, 0);
		(void)leat_ep_events(s->ep[1 - end], NULL, 0);
		if (leat_ep_events(s->ep[end], &ev, 1) == 1) {
			if (ev.type != type)
				bench_die("connecting: %s", ev.text);
			return ev.peer;
		}
		if (bench_ns() - start > 20000000000)
			bench_die("connecting: no answer");
	}
}

static void
connect_both(struct side *s)
{
	char addr[LEAT_ADDR_MAX];
	uint16_t peer;

	/* The provider allocates its pools at the first poll, which is slow under callgrind. */
	(void)leat_ep_poll(s->ep[A], NULL, 0);
	(void)leat_ep_poll(s->ep[B], NULL, 0);
	if (leat_ep_listen(s->ep[B], "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(s->ep[B], addr, sizeof(addr)) < 0 ||
	    leat_ep_connect(s->ep[A], addr, NULL) < 0)
		bench_die("%s", leat_err_msg());
	peer = expect(s, B, LEAT_EV_CONNECT_REQ);
	if (leat_ep_accept(s->ep[B], peer, NULL) < 0)
		bench_die("%s", leat_err_msg());
	s->peer = expect(s, A, LEAT_EV_CONNECTED);
	(void)expect(s, B, LEAT_EV_CONNECTED);
}

static void
start_leat(const struct bench_args *args)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    no_telemetry[] = "--no-telemetry", vdev[] = "--vdev=fabric_efa0,tags=1";
	char *argv[64];
	int i, n = 0;

	for (i = 0; i < args->argc && n < 50; i++)
		argv[n++] = args->argv[i];
	argv[n++] = no_pci;
	argv[n++] = no_telemetry;
	argv[n++] = quiet;
	argv[n++] = vdev;
	argv[n] = NULL;
	if (leat_init(n, argv) < 0)
		bench_die("%s", leat_err_msg());
}

static struct side *
side_open(const struct bench_args *args, char *tx, char *rx)
{
	struct leat_ep_conf conf = { .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
					    LEAT_OP_BIT(LEAT_OP_TSEND) |
					    LEAT_OP_BIT(LEAT_OP_TRECV) | LEAT_OP_BIT(LEAT_OP_READ),
				     .max_peers = 4 };
	struct side *s = aligned_alloc(64, (sizeof(*s) + 63) / 64 * 64);
	unsigned int i;

	if (s == NULL)
		bench_die("out of memory");
	memset(s, 0, sizeof(*s));
	start_leat(args);
	s->name = leat_efa.name;
	s->tx = tx;
	s->rx = rx;
	for (i = 0; i < ENDS; i++) {
		s->ep[i] = leat_ep_create(leat_dev_get(0), &conf);
		if (s->ep[i] == NULL)
			bench_die("%s", leat_err_msg());
	}
	s->mr[A] = leat_mr_register(s->ep[A], tx, EFA_MAX, LEAT_MR_LOCAL);
	s->mr[B] = leat_mr_register(s->ep[B], rx, EFA_MAX, LEAT_MR_REMOTE_READ);
	if (s->mr[A] == NULL || s->mr[B] == NULL ||
	    leat_mr_rkey(s->mr[B], rx, EFA_MAX, &s->rkey) < 0)
		bench_die("%s", leat_err_msg());
	connect_both(s);
	return s;
}

static size_t
side_inject_max(struct side *s, size_t max)
{
	struct leat_dev_info info;

	(void)s;
	(void)max;
	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		bench_die("%s", leat_err_msg());
	return info.inline_max;
}

static void
side_close(struct side *s)
{
	unsigned int i;

	for (i = 0; i < ENDS; i++) {
		if (leat_mr_deregister(s->mr[i]) < 0 ||
		    leat_ep_close(s->ep[i], 1000000, NULL, NULL) < 0)
			bench_die("%s", leat_err_msg());
	}
	free(s);
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
}

const struct efa_side leat_efa = {
	.name = "leat",
	.open = side_open,
	.inject_max = side_inject_max,
	.prepare = side_prepare,
	.run = side_run,
	.finish = side_finish,
	.close = side_close,
};
