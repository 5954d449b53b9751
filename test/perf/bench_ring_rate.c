/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of 64 bytes from one lcore to another, in bursts of 32:
 *     leat   fill 64 B, post SENDs | poll RECVs, read 64 B, post them again
 *     mbuf   alloc (bulk) and fill 64 B | rte_ring, single producer and consumer |
 *            read 64 B, free (bulk)
 *
 * The mbufs come from a pool as rte_pktmbuf_pool_create() makes it, of a usual size. None of these
 * makes mbufs faster: a smaller pool, a pool over a ring for one producer and one consumer, larger
 * caches, a different size of the rte_ring.
 *
 * bench-ring-rate --count: instructions and cache lines of both sides in one thread, in bursts and
 * singly; see count.h. In bursts leat is compared with a device that does the least possible, and
 * this device with the mbufs.
 */

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "count.h"
#include "lcores.h"

enum { LEAT, MBUF, VARIANTS };

#define BURST 32
#define WORDS 8 /* of 8 bytes */
/* Ops: as few as keep both sides busy, so that they stay in the first-level caches. */
#define SENDS 64
#define RECVS 256
#define RING 1024

struct msg {
	uint64_t w[WORDS];
} __attribute__((aligned(64)));

static struct {
	struct lcores l;
	uint64_t n; /* messages per repeat */
	struct rte_mempool *pool;
	struct rte_ring *ring;
	uint64_t sum[2]; /* sums of the words sent, and of those received */
	struct leat_op send[SENDS], recv[RECVS];
	struct msg out[SENDS], in[RECVS];
} b;

static __rte_always_inline void
fill(struct msg *m, uint64_t value)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		m->w[i] = value + i;
}

static __rte_always_inline uint64_t
read_all(const struct msg *m)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		sum += m->w[i];
	return sum;
}

/* Return the sum of the words that fill() writes to n messages. */
static uint64_t
sum_of(uint64_t n)
{
	uint64_t value, sum = 0;

	for (value = 0; value < n; value++)
		sum += WORDS * value + WORDS * (WORDS - 1) / 2;
	return sum;
}

/* ---- mbufs ---- */

static void
mbuf_first(uint64_t n)
{
	struct rte_mbuf *m[BURST];
	unsigned int i, sent;
	uint64_t value = 0;

	while (value < n) {
		while (rte_pktmbuf_alloc_bulk(b.pool, m, BURST) != 0)
			;
		for (i = 0; i < BURST; i++) {
			m[i]->data_len = sizeof(struct msg);
			m[i]->pkt_len = sizeof(struct msg);
			fill(rte_pktmbuf_mtod(m[i], struct msg *), value++);
		}
		for (sent = 0; sent < BURST;)
			sent += rte_ring_sp_enqueue_burst(b.ring, (void **)&m[sent], BURST - sent,
							  NULL);
	}
}

static void
mbuf_second(uint64_t n)
{
	struct rte_mbuf *m[BURST];
	uint64_t got = 0, sum = 0;
	unsigned int i, k;

	while (got < n) {
		k = rte_ring_sc_dequeue_burst(b.ring, (void **)m, BURST, NULL);
		for (i = 0; i < k; i++)
			rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
		for (i = 0; i < k; i++)
			sum += read_all(rte_pktmbuf_mtod(m[i], struct msg *));
		if (k > 0)
			rte_pktmbuf_free_bulk(m, k);
		got += k;
	}
	b.sum[1] = sum;
}

/* ---- leat ---- */

/* Poll until free, a stack of completed sends, has at least `want` ops. @return how many it has */
static __rte_always_inline unsigned int
reclaim(struct leat_op **free, unsigned int have, unsigned int want)
{
	do {
		have += leat_ep_poll(b.l.ep[0], &free[have], (uint16_t)(SENDS - have));
	} while (have < want);
	return have;
}

static void
leat_first(uint64_t n)
{
	struct leat_op *free[SENDS];
	unsigned int i, have, sent;
	uint64_t value = 0;

	for (have = 0; have < SENDS; have++)
		free[have] = &b.send[have];
	while (value < n) {
		if (have < BURST)
			have = reclaim(free, have, BURST);
		have -= BURST;
		for (i = 0; i < BURST; i++)
			fill(free[have + i]->buf, value++);
		for (sent = 0; sent < BURST;) {
			sent += leat_ep_post(b.l.ep[0], &free[have + sent],
					     (uint16_t)(BURST - sent));
			if (unlikely(sent < BURST))
				(void)leat_ep_poll(b.l.ep[0], NULL, 0);
		}
	}
	(void)reclaim(free, have, SENDS);
}

static void
leat_second(uint64_t n)
{
	struct leat_op *done[BURST];
	uint64_t got = 0, sum = 0;
	uint16_t i, k;

	while (got < n) {
		k = leat_ep_poll(b.l.ep[1], done, BURST);
		for (i = 0; i < k; i++) {
			if (unlikely(done[i]->status != 0))
				bench_die("receive failed: %d", done[i]->status);
			sum += read_all(done[i]->buf);
		}
		if (k > 0 && unlikely(leat_ep_post(b.l.ep[1], done, k) != k))
			bench_die("can't post receives");
		got += k;
	}
	b.sum[1] = sum;
}

static void
prepare(void)
{
	struct leat_op *op;
	unsigned int i;

	for (i = 0; i < SENDS; i++)
		b.send[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					      .peer = b.l.peer[0],
					      .buf = &b.out[i],
					      .size = sizeof(struct msg) };
	for (i = 0; i < RECVS; i++) {
		b.recv[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					      .peer = LEAT_PEER_ANY,
					      .buf = &b.in[i],
					      .size = sizeof(struct msg) };
		op = &b.recv[i];
		if (leat_ep_post(b.l.ep[1], &op, 1) != 1)
			bench_die("can't post receives");
	}
}

/* ---- counting: one thread sends a burst and receives it ---- */

static void
count_leat(uint32_t ops, uint32_t burst)
{
	struct leat_op *send[BURST], *done[BURST];
	uint64_t value = 0, sum = 0;
	unsigned int i, got, back;
	uint16_t k;

	for (; ops > 0; ops -= burst) {
		for (i = 0; i < burst; i++) {
			send[i] = &b.send[i];
			fill(send[i]->buf, value++);
		}
		if (leat_ep_post(b.l.ep[0], send, (uint16_t)burst) != burst)
			bench_die("can't post sends");
		for (got = 0; got < burst; got += k) {
			k = leat_ep_poll(b.l.ep[1], done, BURST);
			for (i = 0; i < k; i++) {
				if (unlikely(done[i]->status != 0))
					bench_die("receive failed: %d", done[i]->status);
				sum += read_all(done[i]->buf);
			}
			if (k > 0 && unlikely(leat_ep_post(b.l.ep[1], done, k) != k))
				bench_die("can't post receives");
		}
		for (back = 0; back < burst; back += k)
			k = leat_ep_poll(b.l.ep[0], send, BURST);
	}
	BENCH_USE(sum);
}

/*
 * The least that a device with leat's interface has to do: it accepts ops, copies each message into
 * a slot and out of it, and returns the ops. It checks nothing, counts nothing, knows one size and
 * one peer, and never runs out of room.
 */

#define SLOTS 64

struct least_slot {
	uint64_t nr;
	struct msg m;
};

static struct least {
	struct least_slot slots[SLOTS];
	struct leat_op *recvs[SLOTS]; /* posted receives, in order */
	struct leat_op *sent[SLOTS];  /* sends that poll has to return */
	uint64_t tx, rx, posted, nb_sent, nb_back;
} least_dev;

static __attribute__((noinline)) uint16_t
least_send(struct least *f, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct least_slot *slot = &f->slots[f->tx % SLOTS];

		memcpy(&slot->m, ops[i]->buf, sizeof(slot->m));
		ops[i]->status = 0;
		ops[i]->len = ops[i]->size;
		f->sent[f->nb_sent++ % SLOTS] = ops[i];
		__atomic_store_n(&slot->nr, ++f->tx, __ATOMIC_RELEASE);
	}
	return n;
}

static __attribute__((noinline)) uint16_t
least_recv(struct least *f, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		f->recvs[f->posted++ % SLOTS] = ops[i];
	return n;
}

static __attribute__((noinline)) uint16_t
least_poll_sent(struct least *f, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n && f->nb_back < f->nb_sent; i++)
		ops[i] = f->sent[f->nb_back++ % SLOTS];
	return i;
}

static __attribute__((noinline)) uint16_t
least_poll(struct least *f, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct least_slot *slot = &f->slots[f->rx % SLOTS];
		struct leat_op *op = f->recvs[f->rx % SLOTS];

		if (__atomic_load_n(&slot->nr, __ATOMIC_ACQUIRE) != f->rx + 1)
			break;
		memcpy(op->buf, &slot->m, sizeof(slot->m));
		op->status = 0;
		op->src = 0;
		op->len = sizeof(slot->m);
		ops[i] = op;
		f->rx++;
	}
	return i;
}

static void
count_least(uint32_t ops, uint32_t burst)
{
	struct leat_op *send[BURST], *done[BURST];
	uint64_t value = 0, sum = 0;
	unsigned int i, got, back;
	uint16_t k;

	for (i = 0; i < burst; i++)
		done[i] = &b.recv[i];
	(void)least_recv(&least_dev, done, (uint16_t)burst);
	for (; ops > 0; ops -= burst) {
		for (i = 0; i < burst; i++) {
			send[i] = &b.send[i];
			fill(send[i]->buf, value++);
		}
		(void)least_send(&least_dev, send, (uint16_t)burst);
		for (got = 0; got < burst; got += k) {
			k = least_poll(&least_dev, done, BURST);
			for (i = 0; i < k; i++) {
				if (unlikely(done[i]->status != 0))
					bench_die("receive failed: %d", done[i]->status);
				sum += read_all(done[i]->buf);
			}
			(void)least_recv(&least_dev, done, k);
		}
		for (back = 0; back < burst; back += k)
			k = least_poll_sent(&least_dev, send, BURST);
	}
	/* Forget the receives that are still posted: the next count posts its own. */
	least_dev.posted = least_dev.rx;
	BENCH_USE(sum);
}

static void
count_mbufs(uint32_t ops, uint32_t burst)
{
	for (; ops > 0; ops -= burst) {
		mbuf_first(burst);
		mbuf_second(burst);
	}
}

static void
count_mbuf(uint32_t ops, uint32_t burst)
{
	uint64_t value = 0, sum = 0;
	struct rte_mbuf *m;

	for (; ops > 0; ops -= burst) {
		m = rte_pktmbuf_alloc(b.pool);
		if (unlikely(m == NULL))
			bench_die("no mbuf");
		m->data_len = sizeof(struct msg);
		m->pkt_len = sizeof(struct msg);
		fill(rte_pktmbuf_mtod(m, struct msg *), value++);
		if (unlikely(rte_ring_sp_enqueue(b.ring, m) != 0) ||
		    unlikely(rte_ring_sc_dequeue(b.ring, (void **)&m) != 0))
			bench_die("the ring is full, or empty");
		sum += read_all(rte_pktmbuf_mtod(m, struct msg *));
		rte_pktmbuf_free(m);
	}
	BENCH_USE(sum);
}

static void
count(void)
{
	static const struct count_case cases[] = {
		{ "send-64", { count_leat, count_mbuf }, 1, 1024, 0, NULL, 590, 37 },
		{ "send-64x32", { count_leat, count_least }, BURST, 1024, 0, "2.4", 338, 7.6 },
		{ "send-64x32-mbuf", { count_leat, count_mbufs }, BURST, 1024, 0, NULL, 338, 7.6 },
		{ "least-64x32-mbuf", { count_least, count_mbufs }, BURST, 1024, 0, NULL, 150, 7 },
	};

	count_cases("ring", cases, RTE_DIM(cases));
}

/* ---- timing ---- */

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t ns = lcores_run(&b.l, variant, b.n, true, disturbed);

	(void)arg;
	if (b.sum[1] != b.sum[0])
		bench_die("what arrived is not what was sent");
	return (double)b.n * 1e3 / (double)ns;
}

int
main(int argc, char **argv)
{
	static const struct lcores_variant variants[] = {
		[LEAT] = { leat_first, leat_second },
		[MBUF] = { mbuf_first, mbuf_second },
	};
	static const struct bench_result result = {
		"ring-rate-mbuf", "Mmsg/s", BENCH_RATIO_MIN, 1.0, LEAT, MBUF, NULL,
	};
	const struct leat_ep_conf conf = { .tx_depth = SENDS, .rx_depth = RECVS };
	static struct bench_table t;
	struct bench_args args;
	bool counting;

	bench_args(&args, argc, argv);
	counting = count_option(&args);
	lcores_start(&b.l, &args, &conf);
	b.n = BURST * (args.smoke ? 20 : 1000);
	b.sum[0] = sum_of(b.n);
	b.ring = rte_ring_create("bench", RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	b.pool = rte_pktmbuf_pool_create("bench", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
					 SOCKET_ID_ANY);
	if (b.ring == NULL || b.pool == NULL)
		bench_die("can't make the ring or the pool of mbufs");
	prepare();
	if (counting) {
		count();
	} else {
		lcores_launch(&b.l, variants);
		bench_measure(&t, &args, VARIANTS, measure, NULL, b.l.cpus, 2);
		bench_report(&t, &result);
		lcores_join(&b.l);
	}
	rte_mempool_free(b.pool);
	rte_ring_free(b.ring);
	lcores_stop(&b.l);
	return 0;
}
