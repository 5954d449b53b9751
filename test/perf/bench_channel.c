/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The channel between two processes, one writer and one reader, beside what is in the same memory and does the
 * same:
 *     rate      frames of 64 bytes, header included, singly and 32 at a time; rte_ring with elements of 64 bytes,
 *               single producer and consumer
 *     latency   half of a round trip through two channels; two cache lines that are written and polled, as many as
 *               a frame has with its mark
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <leat_channel.h>

#include "bench.h"
#include "pair.h"

#define BURST 32
#define ELEM 64
#define PAYLOAD (ELEM - LEAT_CHANNEL_HEADER)
#define BUFFER (256 << 10)

enum what { LEAT, REF, NB }; /* of each table */
enum table { SINGLE, BULK, LAT, TABLES };

static struct shared {
	struct pair pair;
	struct {
		uint64_t data[8] __attribute__((aligned(128)));
		uint64_t flag __attribute__((aligned(128)));
	} line[2];
	uint32_t bad __attribute__((aligned(128)));
} * sh;

static struct leat_channel *ch[2];
static struct rte_ring *ring;
static uint64_t frames[TABLES];

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
write_leat(uint64_t n, unsigned int burst)
{
	static uint8_t data[PAYLOAD] __attribute__((aligned(64)));
	struct leat_channel_frame f[BURST];
	unsigned int i;
	int ret;

	for (i = 0; i < BURST; i++)
		f[i] = (struct leat_channel_frame){ .data = data, .len = PAYLOAD, .type = 1 };
	while (n > 0) {
		if (burst == 1)
			ret = leat_channel_send(ch[0], 1, 0, data, PAYLOAD) == 0;
		else
			ret = leat_channel_send_burst(ch[0], f,
						      n < burst ? (unsigned int)n : burst);
		if (ret > 0)
			n -= (uint64_t)ret;
	}
}

static void
read_leat(uint64_t n, unsigned int burst)
{
	struct leat_channel_frame f[BURST];
	int i, ret;

	while (n > 0) {
		ret = leat_channel_peek(ch[0], f, burst);
		if (ret < 0) {
			if (ret != -EAGAIN)
				sh->bad = 1;
			continue;
		}
		for (i = 0; i < ret; i++)
			BENCH_USE(*(uint64_t *)f[i].data);
		n -= (uint64_t)ret;
		(void)leat_channel_consume(ch[0]);
	}
}

static void
write_ring(uint64_t n, unsigned int burst)
{
	static uint8_t data[BURST][ELEM] __attribute__((aligned(64)));

	while (n > 0)
		n -= rte_ring_sp_enqueue_bulk_elem(ring, data, ELEM, burst, NULL);
}

static void
read_ring(uint64_t n, unsigned int burst)
{
	static uint8_t data[BURST][ELEM] __attribute__((aligned(64)));
	unsigned int i, got;

	while (n > 0) {
		got = rte_ring_sc_dequeue_burst_elem(ring, data, ELEM, burst, NULL);
		for (i = 0; i < got; i++)
			BENCH_USE(*(uint64_t *)data[i]);
		n -= got;
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

/* Each side's part. */
static void
work(bool first, enum table t, enum what what, uint64_t n)
{
	static uint64_t v;
	uint64_t end = v + n;

	if (t == LAT && what == LEAT) {
		while (n-- > 0) {
			if (first)
				send_one(ch[0]);
			recv_one(ch[first]);
			if (!first)
				send_one(ch[1]);
		}
	} else if (t == LAT) {
		while (v++ < end) {
			if (first)
				line_send(0, v);
			line_recv(first, v);
			if (!first)
				line_send(1, v);
		}
		v = end;
	} else if (what == LEAT) {
		(first ? write_leat : read_leat)(n, t == BULK ? BURST : 1);
	} else {
		(first ? write_ring : read_ring)(n, t == BULK ? BURST : 1);
	}
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	enum table t = *(enum table *)arg;
	uint64_t start, took;

	start = bench_ns();
	pair_start(&sh->pair, t * NB + variant, frames[t]);
	work(true, t, variant, frames[t]);
	*disturbed = pair_end(&sh->pair);
	took = bench_ns() - start;
	if (sh->bad != 0)
		bench_die("the reader: %s", leat_channel_error());
	return (double)took / (double)frames[t] / (t == LAT ? 2 : 1);
}

static void
second(int cpu)
{
	uint32_t what;

	bench_pin(cpu);
	bench_thread_ready();
	while ((what = pair_wait(&sh->pair)) != PAIR_QUIT) {
		work(false, what / NB, what % NB, sh->pair.arg);
		pair_done(&sh->pair);
	}
	_exit(0);
}

static void
attach(void *mem[2], uint64_t bytes)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ch[i] = leat_channel_attach(mem[i], bytes, NULL, NULL);
		if (ch[i] == NULL)
			bench_die("%s", leat_channel_error());
	}
}

int
main(int argc, char **argv)
{
	const struct leat_channel_conf conf = { .size = BUFFER,
						.notify = LEAT_CHANNEL_NOTIFY_NONE };
	static const char *const names[TABLES] = { "channel-rate", "channel-rate-32",
						   "channel-lat" };
	static const double targets[TABLES] = { 100, 25, 1.6 };
	uint64_t bytes = leat_channel_bytes(&conf);
	static struct bench_table t;
	struct bench_args args;
	struct bench_result r;
	int cpus[2];
	void *mem[2];
	enum table i;
	char note[64];
	pid_t pid;

	bench_args(&args, argc, argv);
	cpus[0] = bench_cpu(0);
	cpus[1] = bench_cpu(1);
	if (cpus[1] < 0)
		bench_skip("two CPUs are needed");
	sh = shared_memory(sizeof(*sh));
	for (i = 0; i < 2; i++) {
		mem[i] = shared_memory(bytes);
		if (leat_channel_format(mem[i], bytes, &conf) != 0)
			bench_die("%s", leat_channel_error());
	}
	ring = shared_memory((size_t)rte_ring_get_memsize_elem(ELEM, BUFFER / ELEM));
	if (rte_ring_init(ring, "bench", BUFFER / ELEM, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
		bench_die("rte_ring_init");
	frames[SINGLE] = args.smoke ? 1000 : 50000;
	frames[BULK] = args.smoke ? 1024 : 32 * 5000;
	frames[LAT] = args.smoke ? 50 : 5000;
	pid = fork();
	if (pid < 0)
		bench_die("can't fork");
	attach(mem, bytes);
	if (pid == 0)
		second(cpus[1]);
	bench_process_add(pid);
	bench_pin(cpus[0]);
	bench_thread_ready();
	for (i = 0; i < TABLES; i++) {
		bench_measure(&t, &args, NB, measure, &i, cpus, 2);
		snprintf(note, sizeof(note), "rte_ring %.3g ns", bench_median(&t, REF));
		r = (struct bench_result){ names[i], "ns", BENCH_ABS_MAX, targets[i],
					   LEAT,     REF,  note };
		if (i == LAT) {
			r.kind = BENCH_RATIO_MAX;
			r.note = NULL;
		}
		bench_report(&t, &r);
	}
	pair_start(&sh->pair, PAIR_QUIT, 0);
	if (waitpid(pid, NULL, 0) != pid)
		bench_die("waitpid");
	leat_channel_close(ch[0]);
	leat_channel_close(ch[1]);
	return 0;
}
