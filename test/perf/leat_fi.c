/* SPDX-License-Identifier: BSD-3-Clause */

/* leat's side of fi_side.h: its driver of libfabric, as an application uses it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "fi_side_pvt.h"

struct side {
	struct fi_loop loop;
	struct leat_ep *ep;
	struct leat_op *tx, *rx; /* arrays of window ops */
	uint16_t peer;
	size_t stride, inline_max;
	uint8_t *map;
	struct leat_mr *mr;
};

static void
side_events(struct side *s)
{
	(void)leat_ep_events(s->ep, NULL, 0);
}

static void
side_prepare(struct side *s, size_t size)
{
	uint32_t i;

	for (i = 0; i < s->loop.window; i++) {
		s->tx[i].size = size;
		s->rx[i].size = size;
		/*
		 * As in the bare loop, messages that are copied when posted come from one buffer.
		 */
		s->tx[i].buf = s->map + (size <= s->inline_max ? 0 : i * s->stride);
	}
}

/* Every send of leat has a completion. */
static inline void
side_complete_all(struct side *s)
{
	(void)s;
}

static inline void
side_again(struct side *s, void **recvs, uint32_t n)
{
	if (unlikely(leat_ep_post(s->ep, (struct leat_op **)recvs, (uint16_t)n) != n))
		bench_die("can't post receives");
}

static void
side_recv(struct side *s, uint32_t i)
{
	void *op = &s->rx[i];

	side_again(s, &op, 1);
}

static inline uint32_t
side_send(struct side *s, uint32_t n)
{
	void **reqs = &s->loop.free[s->loop.nb_free - n];
	uint16_t took = leat_ep_post(s->ep, (struct leat_op **)reqs, (uint16_t)n);

	/* The first `took` were accepted: move the others to the start. */
	if (unlikely(took < n))
		memmove(reqs, reqs + took, (n - took) * sizeof(reqs[0]));
	s->loop.nb_free -= took;
	return took;
}

/* Post the send and the receive in one burst. */
static inline uint32_t
side_answer(struct side *s, void *again, uint32_t n, uint32_t done)
{
	struct leat_op *ops[2] = { s->loop.free[s->loop.nb_free - 1], again };
	uint16_t took = leat_ep_post(s->ep, ops + done, (uint16_t)(n - done));

	if (likely(done == 0 && took > 0))
		s->loop.nb_free--;
	return took;
}

static inline int
side_poll(struct side *s, void **recvs)
{
	struct leat_op *ops[FI_BURST];
	uint16_t i, n = leat_ep_poll(s->ep, ops, FI_BURST);
	int nb_recv = 0;

	if (n == 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (unlikely(ops[i]->status != 0))
			bench_die("%s failed: %s", leat_op_type_name(ops[i]->type),
				  strerror(-ops[i]->status));
		if (ops[i]->type == LEAT_OP_RECV)
			recvs[nb_recv++] = ops[i];
		else
			s->loop.free[s->loop.nb_free++] = ops[i];
	}
	return nb_recv;
}

#include "fi_loop.h"

/* ---- opening ---- */

static void
start_leat(const struct fi_side_conf *conf, bool first)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    no_telemetry[] = "--no-telemetry";
	static char lcores[64], vdev[128];
	char *argv[64];
	int i, n = 0;

	snprintf(lcores, sizeof(lcores), "--lcores=%d@%d", first ? 0 : 1, conf->cpu);
	if (strcmp(conf->provider, "efa") == 0)
		snprintf(vdev, sizeof(vdev), "--vdev=fabric_efa0,tags=1");
	else
		snprintf(vdev, sizeof(vdev), "--vdev=fabric_ofi0,provider=%s,tags=1%s",
			 conf->provider,
			 strncmp(conf->provider, "shm", 3) == 0 ? "" : ",src=127.0.0.1");
	for (i = 0; i < conf->args->argc && n < 50; i++)
		argv[n++] = conf->args->argv[i];
	argv[n++] = lcores;
	argv[n++] = no_pci;
	argv[n++] = no_telemetry;
	argv[n++] = quiet;
	argv[n++] = vdev;
	argv[n] = NULL;
	if (leat_init(n, argv) < 0)
		bench_die("%s", leat_err_msg());
}

static uint16_t
expect(struct side *s, enum leat_event_type type)
{
	uint64_t start = bench_ns();
	struct leat_event ev;

	for (;;) {
		(void)leat_ep_poll(s->ep, NULL, 0);
		if (leat_ep_events(s->ep, &ev, 1) == 1) {
			if (ev.type != type)
				bench_die("connecting: %s", ev.text);
			return ev.peer;
		}
		if (bench_ns() - start > STUCK_NS)
			bench_die("connecting: no answer");
		/* Leave the CPU to the other side: nothing is measured here. */
		if (!bench_rest(s->loop.fd, REST_NS))
			bench_die("connecting: leat's other side is gone");
	}
}

static void
connect_first(struct side *s)
{
	char addr[LEAT_ADDR_MAX];
	int ret;

	if (recv(s->loop.fd, addr, sizeof(addr), MSG_WAITALL) != (ssize_t)sizeof(addr))
		bench_die("leat's second side is gone");
	ret = leat_ep_connect(s->ep, addr, NULL);
	if (ret < 0)
		bench_die("%s", leat_err_msg());
	s->peer = expect(s, LEAT_EV_CONNECTED);
}

static void
connect_second(struct side *s)
{
	char addr[LEAT_ADDR_MAX] = "";

	if (leat_ep_listen(s->ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(s->ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	if (send(s->loop.fd, addr, sizeof(addr), MSG_NOSIGNAL) != (ssize_t)sizeof(addr))
		bench_die("leat's first side is gone");
	s->peer = expect(s, LEAT_EV_CONNECT_REQ);
	if (leat_ep_accept(s->ep, s->peer, NULL) < 0)
		bench_die("%s", leat_err_msg());
	(void)expect(s, LEAT_EV_CONNECTED);
}

static void *
alloc(size_t n, size_t size)
{
	size_t len = RTE_ALIGN_CEIL(n * size, (size_t)LEAT_CACHE_LINE);
	void *p = aligned_alloc(LEAT_CACHE_LINE, len);

	if (p == NULL)
		bench_die("out of memory");
	memset(p, 0, len);
	return p;
}

static void
make_ops(struct side *s)
{
	uint32_t i;

	s->mr = leat_mr_register(s->ep, s->map, 2 * s->loop.window * s->stride, LEAT_MR_LOCAL);
	if (s->mr == NULL)
		bench_die("%s", leat_err_msg());
	s->tx = alloc(s->loop.window, sizeof(*s->tx));
	s->rx = alloc(s->loop.window, sizeof(*s->rx));
	s->loop.free = alloc(s->loop.window, sizeof(s->loop.free[0]));
	for (i = 0; i < s->loop.window; i++) {
		s->tx[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					     .peer = s->peer,
					     .buf = s->map + i * s->stride,
					     .mr = s->mr };
		s->rx[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .buf = s->map + (s->loop.window + i) * s->stride,
					     .mr = s->mr };
		s->loop.free[s->loop.nb_free++] = &s->tx[s->loop.window - 1 - i];
	}
}

static struct side *
side_open(const struct fi_side_conf *conf, int fd, bool first)
{
	struct leat_ep_conf ep_conf = { .max_peers = 4 };
	struct leat_dev_info info;
	struct side *s;

	start_leat(conf, first);
	s = alloc(1, sizeof(*s));
	s->loop.fd = fd;
	s->loop.window = conf->window;
	s->stride = FI_SIDE_STRIDE(conf->max_size);
	s->map = conf->mem;
	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		bench_die("no device");
	s->inline_max = info.inline_max;
	s->ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	if (s->ep == NULL)
		bench_die("%s", leat_err_msg());
	if (first)
		connect_first(s);
	else
		connect_second(s);
	make_ops(s);
	return s;
}

static size_t
side_inline_max(const struct side *s)
{
	return s->inline_max;
}

static void
side_close(struct side *s)
{
	(void)close(s->loop.fd);
	(void)leat_mr_deregister(s->mr);
	(void)leat_ep_close(s->ep, 1000000, NULL, NULL);
	free(s->loop.free);
	free(s->rx);
	free(s->tx);
	free(s);
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
}

const struct fi_side leat_fi = {
	.open = side_open,
	.serve = side_serve,
	.lat = side_lat,
	.rate = side_rate,
	.inline_max = side_inline_max,
	.close = side_close,
};
