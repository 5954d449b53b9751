/* SPDX-License-Identifier: BSD-3-Clause */

/* The buffers and ops of a side; side.h has a drawing. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_malloc.h>
#include <rte_mempool.h>

#include <leat_error.h>

#include "side.h"

/* Maximum number of bytes of all buffers of one kind, unless a single buffer is larger. */
#define BUDGET (UINT64_C(256) << 20)
/* Ops of a ping-pong. More than 1, since the next send may be posted before the last completes. */
#define LAT_TX 4
#define LAT_RX 8

/* Sends for control messages, each with a buffer. */
#define CTL_TX 2

int
perf_mem_open(struct perf_side *s, const struct perf_side_conf *conf)
{
	static int number;
	char name[RTE_MEMPOOL_NAMESIZE];
	uint32_t need = CTL_TX + PERF_CTL_RX + LAT_TX + LAT_RX;

	if (conf->mbufs < need)
		return perf_fail(s, EINVAL, "--mbufs %u is too small: at least %u are needed",
				 conf->mbufs, need);
	snprintf(name, sizeof(name), "perf%d", __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED));
	s->buf_size = (uint32_t)RTE_ALIGN_CEIL(conf->mbuf_size, LEAT_CACHE_LINE);
	s->nb_bufs = conf->mbufs;
	s->arena_eal = conf->eal_memory;
	s->pool = rte_mempool_create(name, s->nb_bufs, s->buf_size, 0, 0, NULL, NULL, NULL, NULL,
				     SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (s->pool == NULL)
		return perf_fail(
			s, rte_errno,
			"no memory for %u buffers of %u B: %s (--mbufs, --mbuf-size, EAL's "
			"-m)",
			s->nb_bufs, s->buf_size, rte_strerror(rte_errno));
	s->bufs = calloc(s->nb_bufs, sizeof(*s->bufs));
	s->ctl_tx = rte_zmalloc(NULL, CTL_TX * sizeof(*s->ctl_tx), LEAT_CACHE_LINE);
	if (s->bufs == NULL || s->ctl_tx == NULL ||
	    rte_mempool_get_bulk(s->pool, s->bufs, s->nb_bufs) < 0) {
		free(s->bufs);
		s->bufs = NULL;
		perf_mem_close(s, false);
		return perf_fail(s, ENOMEM, "out of memory for %u buffers", s->nb_bufs);
	}
	return 0;
}

int
perf_mem_unregister(struct perf_side *s)
{
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(PERF_US);
	struct leat_op *done[PERF_POLL];

	if (s->arena_mr == NULL)
		return 0;
	while (leat_mr_deregister(s->arena_mr) < 0) {
		if (rte_rdtsc() > end)
			return perf_fail(s, EBUSY, "the device keeps the memory: %s",
					 leat_err_msg());
		(void)leat_ep_poll(s->ep, done, RTE_DIM(done));
		(void)leat_ep_events(s->ep, NULL, 0);
		sched_yield();
	}
	s->arena_mr = NULL;
	return 0;
}

static void
ops_free(struct perf_side *s)
{
	rte_free(s->tx);
	rte_free(s->rx);
	free(s->txp);
	free(s->rx_wait);
	s->tx = s->rx = NULL;
	s->txp = s->rx_wait = NULL;
	s->tx_cap = s->rx_cap = 0;
}

/* @return NULL: out of memory */
static void *
arena_alloc(const struct perf_side *s, uint64_t len)
{
	void *p;

	if (s->arena_eal)
		return rte_zmalloc(NULL, len, 1u << 21);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, len, MADV_HUGEPAGE); /* on failure the arena has small pages */
	return p;
}

static void
arena_free(const struct perf_side *s, void *p, uint64_t len)
{
	if (s->arena_eal)
		rte_free(p);
	else if (p != NULL)
		(void)munmap(p, len);
}

void
perf_mem_close(struct perf_side *s, bool leak)
{
	/* A device may still write to the memory. */
	if (leak)
		return;
	ops_free(s);
	rte_free(s->ctl_tx);
	s->ctl_tx = NULL;
	arena_free(s, s->arena, s->arena_len);
	s->arena = NULL;
	if (s->bufs != NULL)
		rte_mempool_put_bulk(s->pool, s->bufs, s->nb_bufs);
	free(s->bufs);
	s->bufs = NULL;
	rte_mempool_free(s->pool);
	s->pool = NULL;
}

/* Return the bytes from one buffer to the next. */
static uint64_t
stride_of(uint64_t size)
{
	if (size == 0)
		return LEAT_CACHE_LINE;
	return size < 4096 ? RTE_ALIGN_CEIL(size, (uint64_t)LEAT_CACHE_LINE)
			   : RTE_ALIGN_CEIL(size, UINT64_C(4096));
}

uint64_t
perf_remote_len(const struct perf_run *run)
{
	if (perf_is_message(run->op))
		return 0;
	return run->window *
	       (run->op >= LEAT_OP_FETCH_ADD ? PERF_WORD_STRIDE : stride_of(run->size));
}

uint32_t
perf_window_fit(uint64_t size, uint32_t window)
{
	uint64_t fit = BUDGET / stride_of(size);

	if (fit == 0)
		fit = 1;
	return window < fit ? window : (uint32_t)fit;
}

/* The ops and buffers that a run needs on this side. */
struct need {
	uint32_t tx, ctl_rx, rx;
	uint64_t tx_size, rx_size;
	bool tx_pool, rx_pool;
	uint64_t remote, total; /* bytes of the remote slots, and of the whole arena */
};

/* Do the data need receives that no control message can complete: tagged ones, or lib/msg's? */
static bool
own_receives(const struct perf_run *r)
{
	return r->op == LEAT_OP_TSEND || r->op == PERF_OP_MSG;
}

static void
count_ops(const struct perf_side *s, struct need *n)
{
	const struct perf_run *r = &s->run;
	bool closed = r->test == PERF_LAT && !r->open;
	bool message = perf_is_message(r->op);
	bool imm = r->op == LEAT_OP_WRITE_IMM;
	bool answers = message ? r->test == PERF_LAT : closed && (imm || r->op == LEAT_OP_WRITE);

	n->tx = s->server && !answers ? 0 : closed ? perf_window_fit(r->size, LAT_TX) : r->window;
	/* The server receives messages and notices of WRITE_IMMs, the client only the answers. */
	if ((message || imm) && (s->server || answers))
		n->rx = closed ? LAT_RX : 2 * r->window + PERF_CTL_RX;
	/* Control messages can use untagged receives for data as well. */
	n->ctl_rx = n->rx > 0 && !own_receives(r) ? 0 : PERF_CTL_RX;
	n->tx_size = r->size;
	n->rx_size = imm || r->size < WIRE_LEN_ALT ? WIRE_LEN_ALT : r->size;
	n->tx_pool = n->tx_size <= s->buf_size;
	n->rx_pool = n->rx_size <= s->buf_size;
	if (!n->rx_pool && n->rx > 0)
		n->rx = perf_window_fit(n->rx_size, n->rx);
}

/*
 * Reduce the number of receives to the device's limit. Fail if it leaves no receive for data beside
 * those for control messages.
 */
static int
fit_depth(struct perf_side *s, struct need *n)
{
	uint32_t depth = s->info.rx_depth;

	if (n->rx == 0)
		n->ctl_rx = RTE_MIN(n->ctl_rx, depth);
	else if (n->ctl_rx >= depth)
		return perf_fail(s, ENOBUFS,
				 "%s has room for %u receives: --op %s needs at least %u (rx= of "
				 "--vdev)",
				 s->info.name, depth, perf_op_name(s->run.op), n->ctl_rx + 1);
	else
		n->rx = RTE_MIN(n->rx, depth - n->ctl_rx);
	return 0;
}

/*
 * Reduce the number of receives to the limits of device and mempool. Fail if there are too few
 * receives, or too few buffers for the window.
 */
static int
fit_ops(struct perf_side *s, struct need *n)
{
	const struct perf_run *r = &s->run;
	uint32_t must = n->rx_pool ? RTE_MIN(n->rx, r->window + 1) : 0;
	uint32_t used;
	int ret = fit_depth(s, n);

	if (ret < 0)
		return ret;
	used = CTL_TX + n->ctl_rx + (n->tx_pool ? n->tx : 0);
	if (used + must > s->nb_bufs)
		return perf_fail(s, ENOBUFS,
				 "--mbufs %u is too small: a window of %u at %" PRIu64
				 " B needs %u buffers on this side",
				 s->nb_bufs, r->window, r->size, used + must);
	if (n->rx_pool && used + n->rx > s->nb_bufs)
		n->rx = s->nb_bufs - used;
	n->remote = perf_remote_len(r);
	n->total = n->remote;
	if (!n->tx_pool)
		n->total += n->tx * stride_of(n->tx_size);
	if (!n->rx_pool)
		n->total += n->rx * stride_of(n->rx_size);
	return 0;
}

static uint32_t
arena_access(const struct perf_side *s)
{
	uint32_t access = LEAT_MR_LOCAL;

	if ((s->info.ops & LEAT_OP_BIT(LEAT_OP_READ)) != 0)
		access |= LEAT_MR_REMOTE_READ;
	if ((s->info.ops & (LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM))) != 0)
		access |= LEAT_MR_REMOTE_WRITE;
	if ((s->info.ops & PERF_OPS_ATOMIC) != 0)
		access |= LEAT_MR_REMOTE_ATOMIC;
	return access;
}

static int
arena_ensure(struct perf_side *s, uint64_t len)
{
	void *p;

	if (len <= s->arena_len)
		return 0;
	if (s->arena != NULL) {
		if (perf_mem_unregister(s) < 0)
			return -EBUSY;
		arena_free(s, s->arena, s->arena_len);
		s->arena = NULL;
		s->arena_len = 0;
	}
	len = RTE_ALIGN_CEIL(len, UINT64_C(2) << 20);
	p = arena_alloc(s, len);
	if (p == NULL)
		return perf_fail(s, ENOMEM, "no memory for buffers of %" PRIu64 " B%s", len,
				 s->arena_eal ? " (EAL's -m)" : "");
	s->arena_mr = leat_mr_register(s->ep, p, len, arena_access(s));
	if (s->arena_mr == NULL) {
		/* Keep no arena: a listener refuses this run, but can serve smaller runs. */
		arena_free(s, p, len);
		return perf_fail(s, rte_errno, "%s", leat_err_msg());
	}
	s->arena = p;
	s->arena_len = len;
	return 0;
}

static int
arrays_ensure(struct perf_side *s, uint32_t tx, uint32_t rx)
{
	if (tx > s->tx_cap || rx > s->rx_cap) {
		tx = RTE_MAX(tx, s->tx_cap);
		rx = RTE_MAX(rx, s->rx_cap);
		ops_free(s);
		/* one more of each: an allocation of 0 bytes may return NULL */
		s->tx = rte_zmalloc(NULL, (tx + 1) * sizeof(*s->tx), LEAT_CACHE_LINE);
		s->rx = rte_zmalloc(NULL, (rx + 1) * sizeof(*s->rx), LEAT_CACHE_LINE);
		s->txp = calloc(2 * tx + 1, sizeof(struct leat_op *));
		s->rx_wait = calloc(rx + 1, sizeof(struct leat_op *));
		if (s->tx == NULL || s->rx == NULL || s->txp == NULL || s->rx_wait == NULL) {
			ops_free(s);
			return perf_fail(s, ENOMEM, "no memory for %u ops (EAL's -m)", tx + rx);
		}
		s->tx_cap = tx;
		s->rx_cap = rx;
	}
	memset(s->tx, 0, s->tx_cap * sizeof(*s->tx));
	memset(s->rx, 0, s->rx_cap * sizeof(*s->rx));
	return 0;
}

static void
make_tx(struct perf_side *s, const struct need *n, uint8_t *mem, uint32_t first_buf)
{
	const struct perf_run *r = &s->run;
	uint32_t i;

	for (i = 0; i < n->tx; i++) {
		struct leat_op *op = &s->tx[i];

		op->type = r->op == PERF_OP_MSG ? LEAT_OP_TSEND : (uint8_t)r->op;
		op->peer = s->peer;
		op->size = r->size;
		op->buf = n->tx_pool ? s->bufs[first_buf + i] : mem + i * stride_of(n->tx_size);
		op->mr = n->tx_pool ? s->pool_mr : s->arena_mr;
		if (op->type == LEAT_OP_TSEND)
			op->tag = r->seed;
		s->txp[i] = op;
		s->txp[n->tx + i] = op;
	}
	s->nb_tx = n->tx;
}

static void
make_rx(struct perf_side *s, const struct need *n, uint8_t *mem, uint32_t first_buf)
{
	uint32_t i;

	s->nb_rx = n->ctl_rx + n->rx;
	for (i = 0; i < s->nb_rx; i++) {
		struct leat_op *op = &s->rx[i];
		bool ctl = i < n->ctl_rx, pool = ctl || n->rx_pool;

		op->type = !ctl && own_receives(&s->run) ? LEAT_OP_TRECV : LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		op->tag = op->type == LEAT_OP_TRECV ? s->run.seed : 0;
		op->size = ctl ? WIRE_LEN_ALT : n->rx_size;
		op->buf = pool ? s->bufs[first_buf++]
			       : mem + (i - n->ctl_rx) * stride_of(n->rx_size);
		op->mr = pool ? s->pool_mr : s->arena_mr;
		/* In a queue, a control receive would hold back the data received after it. */
		op->queue = ctl ? LEAT_QUEUE_NONE : NULL;
	}
	s->nb_rx_wait = 0;
}

static void
make_ctl(struct perf_side *s)
{
	uint32_t i;

	for (i = 0; i < CTL_TX; i++) {
		s->ctl_tx[i].type = LEAT_OP_SEND;
		s->ctl_tx[i].peer = s->peer;
		s->ctl_tx[i].buf = s->bufs[i];
		s->ctl_tx[i].mr = s->pool_mr;
	}
}

int
perf_mem_prepare(struct perf_side *s)
{
	uint8_t *mem;
	struct need n = { 0 };
	int ret;

	perf_tune_carry(s);
	count_ops(s, &n);
	ret = fit_ops(s, &n);
	if (ret == 0)
		ret = arena_ensure(s, n.total);
	if (ret == 0)
		ret = arrays_ensure(s, n.tx, n.rx + n.ctl_rx);
	if (ret < 0)
		return ret;
	s->size = s->run.size;
	s->remote = s->arena;
	s->remote_stride = s->run.op >= LEAT_OP_FETCH_ADD ? PERF_WORD_STRIDE
							  : stride_of(s->run.size);
	mem = s->arena == NULL ? NULL : s->arena + n.remote;
	make_ctl(s);
	make_tx(s, &n, mem, CTL_TX);
	if (!n.tx_pool && n.tx > 0)
		mem += n.tx * stride_of(n.tx_size);
	make_rx(s, &n, mem, CTL_TX + (n.tx_pool ? n.tx : 0));
	s->seq = 0;
	s->count = 0;
	s->checked = 0;
	memset(&s->errors, 0, sizeof(s->errors));
	perf_tune_limits(s);
	return s->run.op == PERF_OP_MSG ? perf_msg_prepare(s) : 0;
}

int
perf_mem_rkey(struct perf_side *s, struct leat_rkey *rkey)
{
	uint64_t len = perf_remote_len(&s->run);

	memset(rkey, 0, sizeof(*rkey));
	if (len == 0)
		return 0;
	if (leat_mr_rkey(s->arena_mr, s->remote, len, rkey) < 0)
		return perf_fail(s, rte_errno, "%s", leat_err_msg());
	return 0;
}

void
perf_mem_set_remote(struct perf_side *s)
{
	uint32_t i;

	if (perf_is_message(s->run.op))
		return;
	for (i = 0; i < s->nb_tx; i++) {
		s->tx[i].raddr = s->there.addr + (i % s->run.window) * s->remote_stride;
		s->tx[i].rkey = s->there.key;
	}
}
