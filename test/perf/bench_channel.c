/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The channel between processes, compared with simpler means in the same memory:
 *     rate      frames of 64 bytes, header included, singly and 32 at a time. REF: rte_ring with
 *               elements of 64 bytes, in the mode for the same number of producers and consumers
 *     latency   half of a round trip through two channels. REF: two cache lines that are written
 *               and polled, since a frame and the word that publishes it take two lines. OWN: as
 *               REF, and each side also writes and reads a frame of a channel that no other process
 *               uses, whose lines stay in its cache. LEAT - OWN is the cost of what the channel
 *               moves between the CPUs beyond two lines; OWN - REF is the cost of the channel's
 *               instructions
 *
 *     writers  readers   CPU 0    CPU 1
 *     1        1         writer   reader
 *     2        1         reader   writers
 *     1        2         writer   readers
 *
 * Two processes of one side share a CPU, so that two CPUs suffice; the same process has a CPU to
 * itself in all variants. Processes that share a CPU yield it when there is no room, or no frame,
 * for the ring as for the channel; each of them handles half of the frames.
 *
 * bench-channel --count: instructions and cache lines of the rates, see count.h.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <leat_channel.h>

#include "bench.h"
#include "count.h"
#include "pair.h"

#define BURST 32
#define ELEM 64
#define PAYLOAD (ELEM - LEAT_CHANNEL_HEADER)
#define BUFFER (256 << 10)

#define HELPERS_MAX 2

enum what { LEAT, REF, OWN, NB }; /* variants of a table; OWN: only for the latency */

/* What one row measures. */
static const struct table {
	const char *name;
	unsigned int writers, readers; /* 0: a round trip */
	unsigned int burst;
	double target; /* ratio of leat to the reference */
	uint64_t frames, smoke;
} tables[] = {
	{ "channel-rate", 1, 1, 1, 3.5, 50000, 1000 },
	{ "channel-rate-32", 1, 1, BURST, 2.8, 160000, 1024 },
	{ "channel-2w-rate", 2, 1, 1, 0.6, 200000, 1000 },
	{ "channel-2w-rate-32", 2, 1, BURST, 2.6, 640000, 2048 },
	{ "channel-2r-rate", 1, 2, 1, 1.1, 200000, 1000 },
	{ "channel-2r-rate-32", 1, 2, BURST, 3, 640000, 2048 },
	{ "channel-lat", 0, 0, 1, 1.5, 5000, 50 },
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static struct shared {
	struct pair pair[HELPERS_MAX];
	struct {
		uint64_t data[8] __attribute__((aligned(128)));
		uint64_t flag __attribute__((aligned(128)));
	} line[2];
	uint32_t bad __attribute__((aligned(128)));
} * sh;

static const struct leat_channel_conf conf = { .size = BUFFER, .notify = LEAT_CHANNEL_NOTIFY_NONE };
static struct leat_channel *ch[2];
static struct leat_channel *own; /* a channel that only this process uses */
static struct rte_ring *ring;

static void *
shared_memory(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (mem == MAP_FAILED)
		bench_die("mmap of %zu bytes", bytes);
	return mem;
}

static void
write_leat(uint64_t n, unsigned int burst, bool yield)
{
	static uint8_t data[PAYLOAD] __attribute__((aligned(64)));
	struct leat_channel_frame f[BURST];
	unsigned int i;
	int ret;

	for (i = 0; i < burst; i++)
		f[i] = (struct leat_channel_frame){ .data = data, .len = PAYLOAD, .type = 1 };
	while (n > 0) {
		if (burst == 1)
			ret = leat_channel_send(ch[0], 1, 0, data, PAYLOAD) == 0 ? 1 : -EAGAIN;
		else
			ret = leat_channel_send_burst(ch[0], f,
						      n < burst ? (unsigned int)n : burst);
		if (ret > 0)
			n -= (uint64_t)ret;
		else if (yield)
			sched_yield();
	}
}

static void
read_leat(uint64_t n, unsigned int burst, bool yield)
{
	struct leat_channel_frame f[BURST];
	int i, ret;

	while (n > 0) {
		ret = leat_channel_peek(ch[0], f, n < burst ? (unsigned int)n : burst);
		if (ret < 0) {
			if (ret != -EAGAIN)
				sh->bad = 1;
			if (yield)
				sched_yield();
			continue;
		}
		for (i = 0; i < ret; i++)
			BENCH_USE(*(uint64_t *)f[i].data);
		n -= (uint64_t)ret;
		(void)leat_channel_consume(ch[0]);
	}
}

static void
write_ring(uint64_t n, unsigned int burst, bool yield)
{
	static uint8_t data[BURST][ELEM] __attribute__((aligned(64)));
	unsigned int put;

	while (n > 0) {
		put = rte_ring_enqueue_bulk_elem(ring, data, ELEM,
						 n < burst ? (unsigned int)n : burst, NULL);
		n -= put;
		if (put == 0 && yield)
			sched_yield();
	}
}

static void
read_ring(uint64_t n, unsigned int burst, bool yield)
{
	static uint8_t data[BURST][ELEM] __attribute__((aligned(64)));
	unsigned int i, got;

	while (n > 0) {
		got = rte_ring_dequeue_burst_elem(ring, data, ELEM,
						  n < burst ? (unsigned int)n : burst, NULL);
		for (i = 0; i < got; i++)
			BENCH_USE(*(uint64_t *)data[i]);
		n -= got;
		if (got == 0 && yield)
			sched_yield();
	}
}

static void
send_one(struct leat_channel *to)
{
	static uint8_t data[PAYLOAD];

	while (leat_channel_send(to, 1, 0, data, PAYLOAD) != 0)
		;
}

static void
recv_one(struct leat_channel *from)
{
	struct leat_channel_frame f;

	while (leat_channel_peek(from, &f, 1) != 1)
		;
	BENCH_USE(*(uint64_t *)f.data);
	(void)leat_channel_consume(from);
}

static void
line_send(unsigned int i, uint64_t v)
{
	memset(sh->line[i].data, (int)v, sizeof(sh->line[i].data));
	__atomic_store_n(&sh->line[i].flag, v, __ATOMIC_RELEASE); /* pairs with line_recv() */
}

static void
line_recv(unsigned int i, uint64_t v)
{
	while (__atomic_load_n(&sh->line[i].flag, __ATOMIC_ACQUIRE) != v)
		;
	BENCH_USE(sh->line[i].data[0]);
}

static void
round_trips(bool first, enum what what, uint64_t n)
{
	static uint64_t v;
	uint64_t end = v + n;

	if (what == LEAT) {
		while (n-- > 0) {
			if (first)
				send_one(ch[0]);
			recv_one(ch[first]);
			if (!first)
				send_one(ch[1]);
		}
		return;
	}
	while (v++ < end) {
		if (first) {
			if (what == OWN)
				send_one(own);
			line_send(0, v);
		}
		line_recv(first, v);
		if (what == OWN)
			recv_one(own);
		if (!first) {
			if (what == OWN)
				send_one(own);
			line_send(1, v);
		}
	}
	v = end;
}

static unsigned int
nb_helpers(const struct table *t)
{
	return t->writers == 2 || t->readers == 2 ? 2 : 1;
}

/* Do this process's part of a run. first: it has a CPU to itself, and the others share one. */
static void
work(const struct table *t, bool first, enum what what, uint64_t n)
{
	bool yield = !first && nb_helpers(t) == 2;

	if (!first)
		n /= nb_helpers(t);
	if (t->writers == 0)
		round_trips(first, what, n);
	else if (first == (t->writers == 1))
		(what == LEAT ? write_leat : write_ring)(n, t->burst, yield);
	else
		(what == LEAT ? read_leat : read_ring)(n, t->burst, yield);
}

struct run {
	const struct table *table;
	uint64_t frames;
};

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	const struct run *run = arg;
	uint64_t start, took, pushed = bench_pushed_off();
	const struct table *t = run->table;
	unsigned int i;

	start = bench_ns();
	for (i = 0; i < nb_helpers(t); i++)
		pair_start(&sh->pair[i], (uint32_t)(t - tables) * NB + variant, run->frames);
	work(t, true, variant, run->frames);
	*disturbed = false;
	for (i = 0; i < nb_helpers(t); i++)
		*disturbed |= pair_end(&sh->pair[i]);
	/* Two helpers on one CPU always preempt each other: look at this process alone. */
	if (nb_helpers(t) == 2)
		*disturbed = bench_pushed_off() != pushed;
	took = bench_ns() - start;
	if (sh->bad != 0)
		bench_die("a reader: %s", leat_channel_error());
	return (double)took / (double)run->frames / (t->writers == 0 ? 2 : 1);
}

static void
help(struct pair *pair)
{
	uint32_t what;

	while ((what = pair_wait(pair)) != PAIR_QUIT) {
		work(&tables[what / NB], false, what % NB, pair->arg);
		pair_done(pair);
	}
	_exit(0);
}

static struct leat_channel *
attach_one(void *mem, uint64_t bytes)
{
	struct leat_channel *c = leat_channel_attach(mem, bytes, NULL, NULL);

	if (c == NULL)
		bench_die("%s", leat_channel_error());
	return c;
}

/* Attach to the channels in mem; only this process uses mem[2]. */
static void
attach(void *mem[3], uint64_t bytes)
{
	ch[0] = attach_one(mem[0], bytes);
	ch[1] = attach_one(mem[1], bytes);
	own = attach_one(mem[2], bytes);
}

static void
detach(void)
{
	leat_channel_close(ch[0]);
	leat_channel_close(ch[1]);
	leat_channel_close(own);
}

static void
format(void *mem, uint64_t bytes)
{
	if (leat_channel_format(mem, bytes, &conf) != 0)
		bench_die("%s", leat_channel_error());
}

/* Run one row. Its helper processes end with it: they would disturb those of the next row. */
static void
run_table(const struct table *t, const struct bench_args *args, void *mem[3], uint64_t bytes,
	  const int *cpus)
{
	struct run run = { t, args->smoke ? t->smoke : t->frames };
	static struct bench_table results;
	pid_t pid[HELPERS_MAX] = { 0 };
	unsigned int i;

	/*
	 * For two processes on one CPU use rte_ring's RTS modes: in the plain modes, if one of the
	 * two is preempted in the middle of a call, the other waits until it runs again.
	 */
	if (rte_ring_init(ring, "bench", BUFFER / ELEM,
			  (t->writers < 2 ? RING_F_SP_ENQ : RING_F_MP_RTS_ENQ) |
				  (t->readers < 2 ? RING_F_SC_DEQ : RING_F_MC_RTS_DEQ)) != 0)
		bench_die("rte_ring_init");
	memset(sh, 0, sizeof(*sh));
	/*
	 * The children begin on the CPU on which they stay: with --realtime they might not get away
	 * from a CPU on which this process spins.
	 */
	bench_pin(cpus[1]);
	for (i = 0; i < nb_helpers(t); i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			bench_die("can't fork");
		if (pid[i] == 0) {
			mem[2] = shared_memory(bytes);
			format(mem[2], bytes);
			attach(mem, bytes);
			/* A round trip reads own before it writes to own: put a frame there. */
			send_one(own);
			help(&sh->pair[i]);
		}
		bench_process_add(pid[i]);
	}
	bench_pin(cpus[0]);
	attach(mem, bytes);
	memset(&results, 0, sizeof(results));
	bench_measure(&results, args, t->writers == 0 ? NB : OWN, measure, &run, cpus, 2);
	bench_report(&results, &(struct bench_result){ t->name, "ns", BENCH_RATIO_MAX, t->target,
						       LEAT, t->writers == 0 ? OWN : REF, NULL });
	if (t->writers == 0)
		bench_report(&results,
			     &(struct bench_result){ "channel-lat-line", "ns", BENCH_RATIO_MAX, 0,
						     LEAT, REF, NULL });
	for (i = 0; i < nb_helpers(t); i++) {
		pair_start(&sh->pair[i], PAIR_QUIT, 0);
		if (waitpid(pid[i], NULL, 0) != pid[i])
			bench_die("waitpid");
	}
	detach();
}

/* ---- counting: one process writes and reads ---- */

static void
count_leat(uint32_t ops, uint32_t burst)
{
	for (; ops > 0; ops -= RTE_MIN(ops, BURST)) {
		write_leat(RTE_MIN(ops, BURST), burst, false);
		read_leat(RTE_MIN(ops, BURST), burst, false);
	}
}

static void
count_ring(uint32_t ops, uint32_t burst)
{
	for (; ops > 0; ops -= RTE_MIN(ops, BURST)) {
		write_ring(RTE_MIN(ops, BURST), burst, false);
		read_ring(RTE_MIN(ops, BURST), burst, false);
	}
}

static int
count(void *mem[3], uint64_t bytes)
{
	static const struct count_case cases[] = {
		{ "64", { count_leat, count_ring }, 1, 1024, 0, NULL, 664, 22 },
		{ "64x32", { count_leat, count_ring }, BURST, 1024, 0, NULL, 300, 2.2 },
	};

	attach(mem, bytes);
	if (rte_ring_init(ring, "bench", BUFFER / ELEM, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
		bench_die("rte_ring_init");
	count_cases("channel", cases, RTE_DIM(cases));
	if (sh->bad != 0)
		bench_die("the reader: %s", leat_channel_error());
	detach();
	return 0;
}

int
main(int argc, char **argv)
{
	uint64_t bytes = leat_channel_bytes(&conf);
	struct bench_args args;
	bool counting;
	unsigned int i;
	int cpus[2];
	void *mem[3];

	bench_args(&args, argc, argv);
	counting = count_option(&args);
	cpus[0] = bench_cpu(0);
	cpus[1] = bench_cpu(1);
	if (cpus[1] < 0 && !counting)
		bench_skip("two CPUs are needed");
	sh = shared_memory(sizeof(*sh));
	for (i = 0; i < RTE_DIM(mem); i++) {
		mem[i] = shared_memory(bytes);
		format(mem[i], bytes);
	}
	ring = shared_memory((size_t)rte_ring_get_memsize_elem(ELEM, BUFFER / ELEM));
	if (counting)
		return count(mem, bytes);
	bench_thread_ready();
	for (i = 0; i < TABLES; i++)
		run_table(&tables[i], &args, mem, bytes, cpus);
	return 0;
}
