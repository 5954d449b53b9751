/* SPDX-License-Identifier: BSD-3-Clause */

/* See leat_fi.h. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "bare_fi.h"
#include "leat_fi.h"
#include "order.h"

#define BURST 32
/* Empty polls between two looks at the clock. */
#define IDLE_POLLS (1u << 16)

struct leat_fi {
	struct leat_ep *ep;
	struct leat_op *tx, *rx; /* window of each */
	struct leat_op **free;	 /* sends that are ours */
	uint32_t nb_free;
	uint32_t window;
	uint32_t got;		  /* receives that came back and were not looked at */
	uint32_t expected;	  /* in this measurement, */
	uint32_t posted;	  /* of these */
	struct leat_op *consumed; /* receive to be posted again */
	uint32_t idle;
	uint64_t idle_since;
	uint16_t peer;
	int fd;
	size_t stride, inline_max;
	uint8_t *map;
	struct leat_mr *mr;
};

/* ---- the loops ---- */

static __attribute__((noinline, cold)) void
idle_check(struct leat_fi *f)
{
	uint64_t now = bench_ns();

	f->idle = 0;
	(void)leat_ep_events(f->ep, NULL, 0);
	if (!bench_rest(f->fd, ORDER_REST_NS))
		bench_die("leat's other side is gone");
	if (f->idle_since == 0)
		f->idle_since = now;
	if (now - f->idle_since > ORDER_STUCK_NS)
		bench_die(
			"nothing comes any more: %u of %u receives posted, %u of %u sends are back",
			f->posted, f->expected, f->nb_free, f->window);
}

/* Polls once. @return receives that came back, in done */
static inline uint16_t
drive(struct leat_fi *f, struct leat_op **done)
{
	struct leat_op *ops[BURST];
	uint16_t i, n, nb_recv = 0;

	n = leat_ep_poll(f->ep, ops, BURST);
	if (n == 0) {
		if (unlikely(++f->idle == IDLE_POLLS))
			idle_check(f);
		return 0;
	}
	f->idle = 0;
	f->idle_since = 0;
	for (i = 0; i < n; i++) {
		if (unlikely(ops[i]->status != 0))
			bench_die("%s failed: %s", leat_op_type_name(ops[i]->type),
				  strerror(-ops[i]->status));
		if (ops[i]->type == LEAT_OP_RECV)
			done[nb_recv++] = ops[i];
		else
			f->free[f->nb_free++] = ops[i];
	}
	return nb_recv;
}

static void
post_first(struct leat_fi *f, size_t size, uint32_t depth, uint32_t expected)
{
	struct leat_op *op;
	uint32_t i;

	f->expected = expected;
	f->posted = 0;
	f->got = 0;
	f->consumed = NULL;
	for (i = 0; i < f->window; i++) {
		f->tx[i].size = size;
		f->rx[i].size = size;
		/* As the bare loop: what is copied when posted comes from one buffer. */
		f->tx[i].buf = f->map + (size <= f->inline_max ? 0 : i * f->stride);
	}
	for (i = 0; i < depth && i < expected; i++) {
		op = &f->rx[i];
		if (leat_ep_post(f->ep, &op, 1) != 1)
			bench_die("can't post a receive");
		f->posted++;
	}
}

static inline void
lat_drive(struct leat_fi *f)
{
	struct leat_op *done[BURST];
	uint16_t n = drive(f, done);

	if (n > 0) {
		f->consumed = done[n - 1];
		f->got += n;
	}
}

/* Sends, and posts the consumed receive again behind it, in one burst. */
static inline void
lat_send(struct leat_fi *f)
{
	struct leat_op *ops[2];
	uint16_t n = 1, done = 0;

	while (unlikely(f->nb_free == 0))
		lat_drive(f);
	ops[0] = f->free[--f->nb_free];
	if (likely(f->consumed != NULL && f->posted < f->expected)) {
		ops[n++] = f->consumed;
		f->posted++;
	}
	f->consumed = NULL;
	for (;;) {
		done += leat_ep_post(f->ep, ops + done, (uint16_t)(n - done));
		if (likely(done == n))
			return;
		lat_drive(f);
	}
}

static inline void
lat_wait(struct leat_fi *f)
{
	while (f->got == 0)
		lat_drive(f);
	f->got = 0;
}

/* All sends are ours again. */
static void
lat_end(struct leat_fi *f)
{
	while (f->nb_free < f->window)
		lat_drive(f);
}

static double
lat_first(struct leat_fi *f, uint32_t warm, uint32_t n)
{
	uint64_t start = 0, end;
	uint32_t i;

	for (i = 0; i < warm + n; i++) {
		if (unlikely(i == warm))
			start = bench_ns();
		lat_send(f);
		lat_wait(f);
	}
	end = bench_ns();
	lat_end(f);
	return (double)(end - start) / (2.0 * n);
}

static void
lat_second(struct leat_fi *f, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		lat_wait(f);
		lat_send(f);
	}
	lat_end(f);
}

/* Sends n messages and waits for the answer that the other side gives after the last one. */
static void
rate_first(struct leat_fi *f, uint32_t window, uint32_t n)
{
	uint32_t sent = 0, keep = f->window - window;
	struct leat_op *done[BURST];
	uint16_t k, took;

	while (sent < n) {
		k = (uint16_t)RTE_MIN(RTE_MIN(f->nb_free - keep, BURST), n - sent);
		took = 0;
		if (k > 0) {
			took = leat_ep_post(f->ep, &f->free[f->nb_free - k], k);
			sent += took;
			/* The accepted ones were the first of these; the rest moves down. */
			if (unlikely(took < k))
				memmove(&f->free[f->nb_free - k], &f->free[f->nb_free - k + took],
					(size_t)(k - took) * sizeof(f->free[0]));
			f->nb_free -= took;
		}
		if (took < k || f->nb_free == keep)
			f->got += drive(f, done);
	}
	while (f->got == 0 || f->nb_free < f->window)
		f->got += drive(f, done);
}

static void
rate_second(struct leat_fi *f, uint32_t n)
{
	struct leat_op *done[BURST], *answer;
	uint32_t got = 0;
	uint16_t k, again;

	while (got < n) {
		k = drive(f, done);
		got += k;
		again = (uint16_t)RTE_MIN(k, n - f->posted);
		if (again > 0 && unlikely(leat_ep_post(f->ep, done, again) != again))
			bench_die("can't post receives");
		f->posted += again;
	}
	answer = f->free[--f->nb_free];
	answer->size = 1;
	while (leat_ep_post(f->ep, &answer, 1) != 1)
		(void)drive(f, done);
	while (f->nb_free < f->window)
		(void)drive(f, done);
}

/* ---- orders ---- */

static void
tell(struct leat_fi *f, uint32_t op, size_t size, uint32_t window, uint32_t n)
{
	struct order o = { .op = op, .n = n, .window = window, .size = size };
	char ready;

	(void)leat_ep_events(f->ep, NULL, 0);
	if (send(f->fd, &o, sizeof(o), MSG_NOSIGNAL) != (ssize_t)sizeof(o) ||
	    recv(f->fd, &ready, 1, MSG_WAITALL) != 1)
		bench_die("leat's second side is gone");
}

/* The second side may need this one's provider to be driven before its last sends are done. */
static void
wait_done(struct leat_fi *f)
{
	struct leat_op *none[BURST];
	ssize_t ret;
	char done;

	while ((ret = recv(f->fd, &done, 1, MSG_DONTWAIT)) != 1) {
		if (ret == 0 || (errno != EAGAIN && errno != EINTR))
			bench_die("leat's second side is gone");
		(void)drive(f, none);
	}
}

static uint32_t
warm_up(uint32_t n)
{
	return n / 10 + 1;
}

double
leat_fi_lat(struct leat_fi *f, size_t size, uint32_t n)
{
	double ns;

	post_first(f, size, 2, warm_up(n) + n);
	tell(f, ORDER_LAT, size, 0, warm_up(n) + n);
	ns = lat_first(f, warm_up(n), n);
	wait_done(f);
	return ns;
}

static double
rate_round(struct leat_fi *f, size_t size, uint32_t window, uint32_t n)
{
	uint64_t start, end;

	post_first(f, size, 1, 1);
	tell(f, ORDER_RATE, size, window, n);
	start = bench_ns();
	rate_first(f, window, n);
	end = bench_ns();
	wait_done(f);
	return (double)(end - start) / n;
}

double
leat_fi_rate(struct leat_fi *f, size_t size, uint32_t window, uint32_t n)
{
	(void)rate_round(f, size, window, warm_up(n));
	return rate_round(f, size, window, n);
}

void
leat_fi_serve(struct leat_fi *f)
{
	struct order o;
	char c = 1;

	bench_thread_ready();
	while (recv(f->fd, &o, sizeof(o), MSG_WAITALL) == (ssize_t)sizeof(o)) {
		(void)leat_ep_events(f->ep, NULL, 0);
		post_first(f, o.size, o.op == ORDER_LAT ? 2 : o.window, o.n);
		if (send(f->fd, &c, 1, MSG_NOSIGNAL) != 1)
			break;
		if (o.op == ORDER_LAT)
			lat_second(f, o.n);
		else
			rate_second(f, o.n);
		if (send(f->fd, &c, 1, MSG_NOSIGNAL) != 1)
			break;
	}
}

/* ---- opening ---- */

static void
start_leat(const struct leat_fi_conf *conf, bool first)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    no_telemetry[] = "--no-telemetry";
	static char lcores[64], vdev[128];
	char *argv[64];
	int i, n = 0;

	snprintf(lcores, sizeof(lcores), "--lcores=%d@%d", first ? 0 : 1, conf->cpu);
	snprintf(vdev, sizeof(vdev), "--vdev=fabric_efa0,provider=%s,tags=1%s", conf->provider,
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
expect(struct leat_fi *f, enum leat_event_type type)
{
	uint64_t start = bench_ns();
	struct leat_event ev;

	for (;;) {
		(void)leat_ep_poll(f->ep, NULL, 0);
		if (leat_ep_events(f->ep, &ev, 1) == 1) {
			if (ev.type != type)
				bench_die("connecting: %s", ev.text);
			return ev.peer;
		}
		if (bench_ns() - start > ORDER_STUCK_NS)
			bench_die("connecting: no answer");
		/* The other one may want the CPU: this is not the measurement. */
		if (!bench_rest(f->fd, ORDER_REST_NS))
			bench_die("connecting: leat's other side is gone");
	}
}

static void
connect_first(struct leat_fi *f)
{
	char addr[LEAT_ADDR_MAX];
	int ret;

	if (recv(f->fd, addr, sizeof(addr), MSG_WAITALL) != (ssize_t)sizeof(addr))
		bench_die("leat's second side is gone");
	ret = leat_ep_connect(f->ep, addr, NULL);
	if (ret < 0)
		bench_die("%s", leat_err_msg());
	f->peer = expect(f, LEAT_EV_CONNECTED);
}

static void
connect_second(struct leat_fi *f)
{
	char addr[LEAT_ADDR_MAX] = "";

	if (leat_ep_listen(f->ep, "127.0.0.1:0") < 0 ||
	    leat_ep_listen_addr(f->ep, addr, sizeof(addr)) < 0)
		bench_die("%s", leat_err_msg());
	if (send(f->fd, addr, sizeof(addr), MSG_NOSIGNAL) != (ssize_t)sizeof(addr))
		bench_die("leat's first side is gone");
	f->peer = expect(f, LEAT_EV_CONNECT_REQ);
	if (leat_ep_accept(f->ep, f->peer, NULL) < 0)
		bench_die("%s", leat_err_msg());
	(void)expect(f, LEAT_EV_CONNECTED);
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
make_ops(struct leat_fi *f)
{
	uint32_t i;

	f->mr = leat_mr_register(f->ep, f->map, 2 * f->window * f->stride, LEAT_MR_LOCAL);
	if (f->mr == NULL)
		bench_die("%s", leat_err_msg());
	f->tx = alloc(f->window, sizeof(*f->tx));
	f->rx = alloc(f->window, sizeof(*f->rx));
	f->free = alloc(f->window, sizeof(f->free[0]));
	for (i = 0; i < f->window; i++) {
		f->tx[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					     .peer = f->peer,
					     .buf = f->map + i * f->stride,
					     .mr = f->mr };
		f->rx[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .buf = f->map + (f->window + i) * f->stride,
					     .mr = f->mr };
		f->free[f->nb_free++] = &f->tx[f->window - 1 - i];
	}
}

struct leat_fi *
leat_fi_open(const struct leat_fi_conf *conf, int fd, bool first)
{
	struct leat_ep_conf ep_conf = { .max_peers = 4 };
	struct leat_dev_info info;
	struct leat_fi *f;

	start_leat(conf, first);
	f = alloc(1, sizeof(*f));
	f->fd = fd;
	f->window = conf->window;
	f->stride = BARE_FI_STRIDE(conf->max_size);
	f->map = conf->mem;
	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		bench_die("no device");
	f->inline_max = info.inline_max;
	f->ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	if (f->ep == NULL)
		bench_die("%s", leat_err_msg());
	if (first)
		connect_first(f);
	else
		connect_second(f);
	make_ops(f);
	return f;
}

size_t
leat_fi_inline_max(const struct leat_fi *f)
{
	return f->inline_max;
}

void
leat_fi_close(struct leat_fi *f)
{
	(void)close(f->fd);
	(void)leat_mr_deregister(f->mr);
	(void)leat_ep_close(f->ep, 1000000, NULL, NULL);
	free(f->free);
	free(f->rx);
	free(f->tx);
	free(f);
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
}
