/* SPDX-License-Identifier: BSD-3-Clause */

/* See bare_fi.h. The loops. */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bare_fi_pvt.h"
#include "bench.h"
#include "order.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Reads of an empty CQ between two looks at the clock. */
#define IDLE_READS (UINT32_C(1) << 16)

/* State of a loop: what has completed, and what was noticed while waiting for something else. */
struct loop {
	uint32_t got;	   /* receives completed */
	uint32_t expected; /* in total */
	uint32_t posted;   /* receives posted so far; never more than expected */
	uint32_t nb_tx;	   /* sends in flight that complete */
	uint32_t idle;
	uint64_t idle_since;
};

/* Nothing has come for a while. */
static __attribute__((noinline, cold)) int
idle_check(const struct bare_fi *f, struct loop *l)
{
	uint64_t now = bench_ns();

	l->idle = 0;
	if (!bench_rest(f->fd, ORDER_REST_NS))
		return bare_fi_fail("the other side is gone");
	if (l->idle_since == 0)
		l->idle_since = now;
	if (now - l->idle_since > ORDER_STUCK_NS)
		return bare_fi_fail("nothing comes any more: %u of %u messages, %u sends in flight",
				    l->got, l->expected, l->nb_tx);
	return 0;
}

static __attribute__((noinline, cold)) int
cq_error(struct bare_fi *f, ssize_t ret)
{
	struct fi_cq_err_entry e;

	memset(&e, 0, sizeof(e));
	if (ret == -FI_EAVAIL && fi_cq_readerr(f->cq, &e, 0) == 1)
		return bare_fi_fail("completion with error: %s",
				    fi_strerror(e.err < 0 ? -e.err : e.err));
	return bare_fi_fail("fi_cq_read: %s", fi_strerror((int)-ret));
}

static inline int
post_recv(struct bare_fi *f, struct loop *l, size_t size, uint32_t slot)
{
	ssize_t ret = fi_recv(f->ep, f->rx_buf + slot * f->stride, size, f->rx_desc, FI_ADDR_UNSPEC,
			      &f->rx_ctx[slot]);

	if (unlikely(ret != 0))
		return bare_fi_fail("fi_recv: %s", fi_strerror((int)-ret));
	l->posted++;
	return 0;
}

/* Receives for the start of a loop that expects so many messages. */
static int
post_first(struct bare_fi *f, struct loop *l, size_t size, uint32_t depth, uint32_t expected)
{
	uint32_t i;

	memset(l, 0, sizeof(*l));
	l->expected = expected;
	for (i = 0; i < depth && i < expected; i++) {
		if (post_recv(f, l, size, i) != 0)
			return -1;
	}
	return 0;
}

/* Reads the CQ once. Returns the number of entries, 0 if there are none, or -1. */
static inline int
cq_read(struct bare_fi *f, struct loop *l, struct fi_cq_msg_entry *e)
{
	ssize_t n = fi_cq_read(f->cq, e, BARE_FI_BURST);

	if (likely(n > 0)) {
		l->idle = 0;
		l->idle_since = 0;
		return (int)n;
	}
	if (likely(n == -FI_EAGAIN)) {
		if (unlikely(++l->idle == IDLE_READS))
			return idle_check(f, l);
		return 0;
	}
	return cq_error(f, n);
}

/* ---- round trips: one message is under way at any time -------------------------------------- */

struct lat {
	struct loop l;
	uint32_t busy;	  /* bits: send buffers in flight */
	int32_t consumed; /* receive slot to be posted again, -1: none */
	uint32_t got;	  /* receives completed, not yet waited for */
};

static inline int
lat_drive(struct bare_fi *f, struct lat *t)
{
	struct fi_cq_msg_entry e[BARE_FI_BURST];
	int n = cq_read(f, &t->l, e), i;

	for (i = 0; i < n; i++) {
		if (likely((e[i].flags & FI_RECV) != 0)) {
			t->consumed = (int32_t)((struct fi_context2 *)e[i].op_context - f->rx_ctx);
			t->got++;
			t->l.got++;
		} else {
			t->busy &= ~(UINT32_C(1)
				     << ((struct fi_context2 *)e[i].op_context - f->tx_ctx));
			t->l.nb_tx--;
		}
	}
	return n;
}

static inline int
lat_send(struct bare_fi *f, struct lat *t, size_t size, uint32_t slot, bool inject)
{
	ssize_t ret;

	if (inject) {
		while (unlikely((ret = fi_inject(f->ep, f->tx_buf, size, f->peer)) == -FI_EAGAIN)) {
			if (lat_drive(f, t) < 0)
				return -1;
		}
	} else {
		while (unlikely((t->busy & UINT32_C(1) << slot) != 0)) {
			if (lat_drive(f, t) < 0)
				return -1;
		}
		while (unlikely((ret = fi_send(f->ep, f->tx_buf + slot * f->stride, size,
					       f->tx_desc, f->peer, &f->tx_ctx[slot])) ==
				-FI_EAGAIN)) {
			if (lat_drive(f, t) < 0)
				return -1;
		}
		t->busy |= UINT32_C(1) << slot;
		t->l.nb_tx++;
	}
	return likely(ret == 0) ? 0 : bare_fi_fail("send: %s", fi_strerror((int)-ret));
}

static inline int
lat_repost(struct bare_fi *f, struct lat *t, size_t size)
{
	int32_t slot = t->consumed;

	t->consumed = -1;
	if (unlikely(slot < 0 || t->l.posted == t->l.expected))
		return 0;
	return post_recv(f, &t->l, size, (uint32_t)slot);
}

static inline int
lat_wait(struct bare_fi *f, struct lat *t)
{
	while (t->got == 0) {
		if (unlikely(lat_drive(f, t) < 0))
			return -1;
	}
	t->got = 0;
	return 0;
}

/* Nothing of ours stays in flight. */
static int
lat_end(struct bare_fi *f, struct lat *t)
{
	while (t->busy != 0) {
		if (lat_drive(f, t) < 0)
			return -1;
	}
	return 0;
}

static int
lat_begin(struct bare_fi *f, struct lat *t, size_t size, uint32_t n)
{
	t->busy = 0;
	t->consumed = -1;
	t->got = 0;
	return post_first(f, &t->l, size, 2, n);
}

static int
lat_serve(struct bare_fi *f, struct lat *t, size_t size, uint32_t n)
{
	bool inject = size < f->inject_end;
	uint32_t i;

	for (i = 0; i < n; i++) {
		/* After the last answer nobody drives the provider here: it must be seen to be out. */
		if (unlikely(lat_wait(f, t) != 0 ||
			     lat_send(f, t, size, i & 1, inject && i != n - 1) != 0 ||
			     lat_repost(f, t, size) != 0))
			return -1;
	}
	return lat_end(f, t);
}

static double
lat_run(struct bare_fi *f, struct lat *t, size_t size, uint32_t warm, uint32_t n)
{
	bool inject = size < f->inject_end;
	uint64_t start = 0, end;
	uint32_t i;

	for (i = 0; i < warm + n; i++) {
		if (unlikely(i == warm))
			start = bench_ns();
		if (unlikely(lat_send(f, t, size, i & 1, inject) != 0 ||
			     lat_repost(f, t, size) != 0 || lat_wait(f, t) != 0))
			return -1;
	}
	end = bench_ns();
	if (lat_end(f, t) != 0)
		return -1;
	return (double)(end - start) / (2.0 * n);
}

/* ---- message rate --------------------------------------------------------------------------- */

/* Free send slots; the one used last, which is in the cache, is used next. */
struct tx_slots {
	uint32_t nb_free;
	uint32_t free[];
};

static inline int
rate_tx_drive(struct bare_fi *f, struct loop *l, struct tx_slots *s)
{
	struct fi_cq_msg_entry e[BARE_FI_BURST];
	int n = cq_read(f, l, e), i;

	for (i = 0; i < n; i++) {
		if (likely((e[i].flags & FI_SEND) != 0)) {
			s->free[s->nb_free++] =
				(uint32_t)((struct fi_context2 *)e[i].op_context - f->tx_ctx);
			l->nb_tx--;
		} else {
			l->got++;
		}
	}
	return n;
}

static int
rate_send_injected(struct bare_fi *f, struct loop *l, struct tx_slots *s, size_t size, uint32_t n)
{
	uint32_t sent = 0;
	ssize_t ret;

	while (sent < n) {
		ret = fi_inject(f->ep, f->tx_buf, size, f->peer);
		if (likely(ret == 0))
			sent++;
		else if (unlikely(ret != -FI_EAGAIN))
			return bare_fi_fail("fi_inject: %s", fi_strerror((int)-ret));
		else if (unlikely(rate_tx_drive(f, l, s) < 0))
			return -1;
	}
	return 0;
}

static int
rate_send(struct bare_fi *f, struct loop *l, struct tx_slots *s, size_t size, uint32_t n)
{
	uint32_t sent = 0, slot;
	ssize_t ret;

	while (sent < n) {
		if (likely(s->nb_free > 0)) {
			slot = s->free[s->nb_free - 1];
			ret = fi_send(f->ep, f->tx_buf + slot * f->stride, size, f->tx_desc,
				      f->peer, &f->tx_ctx[slot]);
			if (likely(ret == 0)) {
				s->nb_free--;
				l->nb_tx++;
				sent++;
				continue;
			}
			if (unlikely(ret != -FI_EAGAIN))
				return bare_fi_fail("fi_send: %s", fi_strerror((int)-ret));
		}
		if (unlikely(rate_tx_drive(f, l, s) < 0))
			return -1;
	}
	return 0;
}

/* Sends n messages and waits for the answer that the other side gives after the last one. */
static int
rate_round(struct bare_fi *f, struct tx_slots *s, size_t size, uint32_t n)
{
	struct loop l;

	if (post_first(f, &l, f->max_size, 1, 1) != 0)
		return -1;
	if ((size < f->inject_end ? rate_send_injected(f, &l, s, size, n)
				  : rate_send(f, &l, s, size, n)) != 0)
		return -1;
	while (l.got == 0 || l.nb_tx > 0) {
		if (unlikely(rate_tx_drive(f, &l, s) < 0))
			return -1;
	}
	return 0;
}

static int
rate_serve(struct bare_fi *f, struct loop *l, size_t size, uint32_t n)
{
	struct fi_cq_msg_entry e[BARE_FI_BURST];
	int nb, i;
	ssize_t ret;

	while (l->got < n) {
		nb = cq_read(f, l, e);
		if (unlikely(nb < 0))
			return -1;
		l->got += (uint32_t)nb;
		for (i = 0; i < nb && l->posted < n; i++) {
			if (unlikely(post_recv(f, l, size,
					       (uint32_t)((struct fi_context2 *)e[i].op_context -
							  f->rx_ctx)) != 0))
				return -1;
		}
	}
	/* The answer; its completion says that it is out. */
	while ((ret = fi_send(f->ep, f->tx_buf, 1, f->tx_desc, f->peer, &f->tx_ctx[0])) ==
	       -FI_EAGAIN) {
		if (cq_read(f, l, e) < 0)
			return -1;
	}
	if (ret != 0)
		return bare_fi_fail("fi_send: %s", fi_strerror((int)-ret));
	do
		nb = cq_read(f, l, e);
	while (nb == 0);
	return nb < 0 ? -1 : 0;
}

/* ---- both sides ----------------------------------------------------------------------------- */

int
bare_fi_first(struct bare_fi *f)
{
	struct lat t;
	uint32_t got = 0;

	if (lat_begin(f, &t, f->max_size, 1) != 0)
		return -1;
	/* fi_send even if it could be injected: its completion shows that it is out. */
	while (t.busy == 0) {
		ssize_t ret = fi_send(f->ep, f->tx_buf, 1, f->tx_desc, f->peer, &f->tx_ctx[0]);

		if (ret == 0) {
			t.busy = 1;
			t.l.nb_tx = 1;
		} else if (ret != -FI_EAGAIN) {
			return bare_fi_fail("first message: %s", fi_strerror((int)-ret));
		} else if (lat_drive(f, &t) < 0) {
			return -1;
		}
		got = t.got;
	}
	while (got == 0 || t.busy != 0) {
		if (lat_drive(f, &t) < 0)
			return -1;
		got = t.got;
	}
	return 0;
}

static int
order_send(struct bare_fi *f, uint32_t op, size_t size, uint32_t window, uint32_t n)
{
	struct order o = { .op = op, .n = n, .window = window, .size = size };
	char ready;

	if (size > f->max_size || window > f->nb_slots || n == 0)
		return bare_fi_fail("size %zu or window %u is more than it was opened for", size,
				    window);
	if (send(f->fd, &o, sizeof(o), MSG_NOSIGNAL) != (ssize_t)sizeof(o) ||
	    recv(f->fd, &ready, 1, MSG_WAITALL) != 1)
		return bare_fi_fail("the other side is gone");
	return 0;
}

static uint32_t
warm_up(uint32_t n)
{
	return n / 10 + 1 < 100 ? n / 10 + 1 : 100;
}

double
bare_fi_lat(struct bare_fi *f, size_t size, uint32_t n)
{
	uint32_t warm = warm_up(n);
	struct lat t;

	if (lat_begin(f, &t, size, warm + n) != 0 ||
	    order_send(f, ORDER_LAT, size, 2, warm + n) != 0)
		return -1;
	return lat_run(f, &t, size, warm, n);
}

double
bare_fi_rate(struct bare_fi *f, size_t size, uint32_t window, uint32_t n)
{
	struct tx_slots *s;
	uint64_t start, end;
	double ret = -1;
	uint32_t i;

	if (window == 0)
		window = 1;
	s = malloc(sizeof(*s) + window * sizeof(s->free[0]));
	if (s == NULL)
		return bare_fi_fail("no memory");
	s->nb_free = window;
	for (i = 0; i < window; i++)
		s->free[i] = window - 1 - i;
	/* Warmed up by an order of its own. */
	if (order_send(f, ORDER_RATE, size, window, warm_up(n)) != 0 ||
	    rate_round(f, s, size, warm_up(n)) != 0 ||
	    order_send(f, ORDER_RATE, size, window, n) != 0)
		goto out;
	start = bench_ns();
	if (rate_round(f, s, size, n) != 0)
		goto out;
	end = bench_ns();
	ret = (double)(end - start) / n;
out:
	free(s);
	return ret;
}

int
bare_fi_serve(struct bare_fi *f)
{
	struct order o;
	struct loop l;
	struct lat t;
	ssize_t len;
	int ret;

	while ((len = recv(f->fd, &o, sizeof(o), MSG_WAITALL)) == (ssize_t)sizeof(o)) {
		if (o.size > f->max_size || o.window > f->nb_slots)
			return bare_fi_fail("an order for more than this side was opened for");
		if (o.op == ORDER_LAT)
			ret = lat_begin(f, &t, o.size, o.n);
		else
			ret = post_first(f, &l, o.size, o.window, o.n);
		if (ret != 0 || send(f->fd, "r", 1, MSG_NOSIGNAL) != 1)
			return -1;
		ret = o.op == ORDER_LAT ? lat_serve(f, &t, o.size, o.n)
					: rate_serve(f, &l, o.size, o.n);
		if (ret != 0)
			return -1;
	}
	return len == 0 ? 0 : bare_fi_fail("the other side is gone");
}
