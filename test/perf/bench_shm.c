/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The shm device compared with others, all on the same two CPUs:
 *
 *     shm      fabric_shm0, between two processes
 *     share    fabric_shm1,share=1: as shm, with memory that both processes have mapped
 *     ring     fabric_ring0, between two lcores of one process
 *     ofi      libfabric's shm (fabric_ofi0,provider=shm,tags=1), between two processes
 *     line     the bare exchange: each process writes a cache line and spins on the other's
 *     memcpy   one copy of the same size by one of the processes
 *     locked   a locked add on a cache line that the other process has just written
 *
 *     CPU 0   first process, main lcore      the first side of every variant
 *     CPU 1   first process, second lcore    the second side of ring
 *             second process                 the second side of the other variants
 *
 * The two second sides on CPU 1 sleep in recv(2) until the first side sends an order.
 *
 *     first side                               second side
 *       order, over its socket        ------>
 *                                     <------    ready
 *       its half                                 its half
 *                                     <------    done
 */

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include <leat_error.h>

#include "bench_session.h"
#include "shm_side.h"

enum { SHM, RING, OFI, SHARE, DEVICES, LINE = DEVICES, MEMCPY, LOCKED };

/* The measurements. */
enum { LAT, RATE_1, RATE_32, BANDWIDTH, ADD, ADD_OWNED, MEASURES };

#define WAIT_NS UINT64_C(20000000000)

static const char *const devices[DEVICES] = { "fabric_shm0", "fabric_ring0", "fabric_ofi0",
					      "fabric_shm1" };

/*
 * What each table of results measures. A repeat has n ops: it is short, so that some repeats fit
 * between two time slices of other programs.
 */
static const struct measure {
	unsigned int nb_variants;
	uint8_t variants[BENCH_VARIANTS_MAX];
	uint8_t kind; /* kind of the links */
	uint32_t n, smoke_n;
} measures[MEASURES] = {
	[LAT] = { 4, { SHM, RING, OFI, LINE }, LINK_LAT, 500, 50 },
	[RATE_1] = { 3, { SHM, RING, OFI }, LINK_RATE, LINK_BURST * 150, LINK_BURST * 10 },
	[RATE_32] = { 3, { SHM, RING, OFI }, LINK_RATE, LINK_BURST * 150, LINK_BURST * 10 },
	[BANDWIDTH] = { 4, { SHM, OFI, MEMCPY, SHARE }, LINK_BULK, 6, 4 },
	[ADD] = { 3, { SHM, RING, OFI }, LINK_BULK, 500, 100 },
	[ADD_OWNED] = { 2, { SHARE, LOCKED }, LINK_BULK, LINK_LINES * 4, LINK_LINES },
};

/* The results. Each compares two variants of a measure, given as indices in its variants[]. */
static const struct {
	unsigned int measure;
	struct bench_result r;
} results[] = {
	{ LAT, { "shm-lat-8-line", "ns", BENCH_RATIO_MAX, 1.6, 0, 3, NULL } },
	{ LAT, { "shm-lat-8-ring", "ns", BENCH_RATIO_MAX, 1.15, 0, 1, NULL } },
	{ LAT, { "shm-lat-8-ofi", "ns", BENCH_RATIO_MAX, 0, 0, 2, NULL } },
	{ RATE_1, { "shm-rate-64-ring", "Mmsg/s", BENCH_RATIO_MIN, 0, 0, 1, NULL } },
	{ RATE_1, { "shm-rate-64-ofi", "Mmsg/s", BENCH_RATIO_MIN, 5, 0, 2, NULL } },
	{ RATE_32, { "shm-rate-64x32-ring", "Mmsg/s", BENCH_RATIO_MIN, 0.9, 0, 1, NULL } },
	{ RATE_32, { "shm-rate-64x32-ofi", "Mmsg/s", BENCH_RATIO_MIN, 5, 0, 2, NULL } },
	{ BANDWIDTH, { "shm-bw-1Mi-ofi", "MB/s", BENCH_RATIO_MIN, 1.0, 0, 1, NULL } },
	{ BANDWIDTH, { "shm-bw-1Mi-memcpy", "MB/s", BENCH_RATIO_MIN, 0, 0, 2, NULL } },
	{ BANDWIDTH, { "shm-share-bw-1Mi-ofi", "MB/s", BENCH_RATIO_MIN, 0, 3, 1, NULL } },
	{ BANDWIDTH, { "shm-share-bw-1Mi-memcpy", "MB/s", BENCH_RATIO_MIN, 0.9, 3, 2, NULL } },
	{ ADD_OWNED, { "shm-share-fetch_add-locked", "ns", BENCH_RATIO_MAX, 1.2, 0, 1, NULL } },
	{ ADD, { "shm-fetch_add-ring", "ns", BENCH_RATIO_MAX, 0, 0, 1, NULL } },
	{ ADD, { "shm-fetch_add-ofi", "ns", BENCH_RATIO_MAX, 0, 0, 2, NULL } },
};

/* The threads of second sides: a process, and an lcore of the first process. */
enum { PROCESS, LCORE, SERVERS };

struct order {
	uint32_t measure, variant;
	uint64_t n;
	uint32_t seq;
	uint32_t pad;
};

/* Memory shared by the processes, besides the buffers. */
struct shared {
	uint32_t ready __attribute__((aligned(128))); /* seq of the order that was begun */
	uint32_t done __attribute__((aligned(128)));  /* seq of the order that is done */
	uint64_t pushed;			      /* bench_pushed_off() of the second side */
	uint64_t sum;				      /* sum of the received words */
	uint32_t stop __attribute__((aligned(128)));  /* ADD: seq of the order to end */
	uint32_t listening;
	char addr[DEVICES][LINK_KINDS][LEAT_ADDR_MAX];
	struct leat_rkey target[DEVICES];
	struct link_line line[2], added[LINK_LINES];
	struct link_turns turns; /* ADD_OWNED */
};

static struct {
	struct bench_args args;
	struct bench_table *tables; /* results of all sessions, one per measure */
	struct shared *shared;
	char *copied[2]; /* MEMCPY */
	char dir[32];	 /* where the endpoints of this session find each other */
	int cpus[2];
	int fd[SERVERS]; /* the first side's ends of the sockets */
	int second_fd[SERVERS];
	struct link links[2][DEVICES][LINK_KINDS];
	uint32_t seq;
	/* the current measurement */
	unsigned int measure;
	uint64_t n;
} b;

static void
spin_until(const uint32_t *word, uint32_t value)
{
	uint64_t start = bench_ns();

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
		if (bench_ns() - start > WAIT_NS)
			bench_die("the other side does not go on");
		sched_yield();
	}
}

/* ---- references ---- */

static void
line_first(uint64_t n)
{
	struct link_line *line = b.shared->line;
	uint64_t i, base = line[0].v;

	for (i = base + 1; i <= base + n; i++) {
		__atomic_store_n(&line[0].v, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&line[1].v, __ATOMIC_ACQUIRE) != i)
			;
	}
}

static void
line_second(uint64_t n)
{
	struct link_line *line = b.shared->line;
	uint64_t i, base = line[1].v;

	for (i = base + 1; i <= base + n; i++) {
		while (__atomic_load_n(&line[0].v, __ATOMIC_ACQUIRE) != i)
			;
		__atomic_store_n(&line[1].v, i, __ATOMIC_RELEASE);
	}
}

static void
copy_all(uint64_t n)
{
	uint64_t i;
	size_t at;

	for (i = 0; i < n; i++) {
		at = i % LINK_BULK_WINDOW * LINK_BULK_STRIDE;
		memcpy(b.copied[1] + at, b.copied[0] + at, LINK_BULK_SIZE);
		BENCH_USE(b.copied[1]);
	}
}

/* See link_add_owned_first(). @return ns of the adds */
static uint64_t
locked_first(uint64_t n)
{
	uint64_t start, ns = 0, old = 0;
	uint32_t i;

	for (; n > 0; n -= LINK_LINES) {
		link_turn_wait(&b.shared->turns, 0);
		start = bench_ns();
		for (i = 0; i < LINK_LINES; i++)
			old = __atomic_fetch_add(&b.shared->added[link_line_next(i, old)].v, 1,
						 __ATOMIC_SEQ_CST);
		ns += bench_ns() - start;
		link_turn_end(&b.shared->turns, 0);
	}
	return ns;
}

/* ---- the second sides ---- */

static struct link *
link_of(unsigned int side, unsigned int variant, unsigned int measure)
{
	return variant < DEVICES ? &b.links[side][variant][measures[measure].kind] : NULL;
}

static void
second_half(const struct order *o)
{
	struct link *l = link_of(1, o->variant, o->measure);

	if (o->variant == LINE)
		line_second(o->n);
	else if (o->variant == LOCKED)
		link_lines_write(b.shared->added, &b.shared->turns, o->n);
	else if (o->variant == MEMCPY)
		return;
	else if (o->measure == LAT)
		link_lat_second(l, o->n);
	else if (o->measure == BANDWIDTH)
		link_bulk_second(l, o->n);
	else if (o->measure == ADD)
		link_add_second(l, &b.shared->stop, o->seq);
	else if (o->measure == ADD_OWNED)
		link_lines_write(l->target, &b.shared->turns, o->n);
	else
		b.shared->sum = link_rate_second(l, o->n);
}

/* Carry out orders until the first side closes the socket. */
static void
serve(int fd)
{
	struct shared *sh = b.shared;
	struct link *l;
	struct order o;

	bench_thread_ready();
	while (recv(fd, &o, sizeof(o), MSG_WAITALL) == (ssize_t)sizeof(o)) {
		l = link_of(1, o.variant, o.measure);
		if (l != NULL)
			link_events(l);
		sh->pushed = bench_pushed_off();
		__atomic_store_n(&sh->ready, o.seq, __ATOMIC_RELEASE);
		second_half(&o);
		sh->pushed = bench_pushed_off();
		__atomic_store_n(&sh->done, o.seq, __ATOMIC_RELEASE);
	}
}

static int
serve_lcore(void *arg)
{
	(void)arg;
	serve(b.second_fd[LCORE]);
	return 0;
}

/* ---- the first side ---- */

/* Run the first side of a variant. @return ns, of the first side alone */
static uint64_t
first_half(unsigned int variant, uint64_t n)
{
	struct link *l = link_of(0, variant, b.measure);
	uint64_t start = bench_ns();

	if (variant == LOCKED)
		return locked_first(n);
	if (b.measure == ADD_OWNED)
		return link_add_owned_first(l, &b.shared->target[variant], &b.shared->turns, n);
	if (variant == LINE)
		line_first(n);
	else if (variant == MEMCPY)
		copy_all(n);
	else if (b.measure == LAT)
		link_lat_first(l, n);
	else if (b.measure == BANDWIDTH)
		link_bulk_first(l, n);
	else if (b.measure == ADD)
		link_add_first(l, &b.shared->target[variant], n);
	else
		link_rate_first(l, n, b.measure == RATE_1 ? 1 : LINK_BURST);
	return bench_ns() - start;
}

/* Wait for the second side, and poll meanwhile: its last op may need this side's provider. */
static void
wait_done(const struct link *l)
{
	const uint64_t start = bench_ns();

	while (__atomic_load_n(&b.shared->done, __ATOMIC_ACQUIRE) != b.seq) {
		if (l != NULL)
			(void)leat_ep_poll(l->ep, NULL, 0);
		if (bench_ns() - start > WAIT_NS)
			bench_die("the second side does not end");
	}
}

static uint64_t
run(unsigned int variant, uint64_t n, bool *disturbed)
{
	const struct order o = { b.measure, variant, n, ++b.seq, 0 };
	const bool both = b.measure == RATE_1 || b.measure == RATE_32 || b.measure == BANDWIDTH;
	const int fd = b.fd[variant == RING ? LCORE : PROCESS];
	struct link *l = link_of(0, variant, b.measure);
	uint64_t start, ns, pushed;

	if (l != NULL)
		link_events(l);
	if (send(fd, &o, sizeof(o), MSG_NOSIGNAL) != (ssize_t)sizeof(o))
		bench_die("the second side is gone");
	spin_until(&b.shared->ready, b.seq);
	pushed = bench_pushed_off() + b.shared->pushed;
	start = bench_ns();
	ns = first_half(variant, n);
	__atomic_store_n(&b.shared->stop, b.seq, __ATOMIC_RELEASE);
	wait_done(l);
	if (both)
		ns = bench_ns() - start;
	*disturbed = bench_pushed_off() + b.shared->pushed != pushed;
	return ns;
}

static double
measure(void *arg, unsigned int i, bool *disturbed)
{
	const unsigned int variant = measures[b.measure].variants[i];
	const double ns = (double)run(variant, b.n, disturbed), n = (double)b.n;

	(void)arg;
	switch (b.measure) {
	case LAT:
		return ns / (2 * n);
	case BANDWIDTH:
		return n * (double)LINK_BULK_SIZE * 1e3 / ns;
	case ADD:
	case ADD_OWNED:
		return ns / n;
	default:
		if (b.shared->sum != link_rate_sum(b.n))
			bench_die("what arrived is not what was sent");
		return n * 1e3 / ns;
	}
}

/* ---- starting ---- */

static void
start_leat(unsigned int side)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    no_telemetry[] = "--no-telemetry", ring[] = "--vdev=fabric_ring0",
		    ofi[] = "--vdev=fabric_ofi0,provider=shm,tags=1";
	static char lcores[64], main_lcore[] = "--main-lcore=0", shm[64], share[64];
	char *argv[64];
	int i, n = 0;

	if (side == 0)
		snprintf(lcores, sizeof(lcores), "--lcores=0@%d,1@%d", b.cpus[0], b.cpus[1]);
	else
		snprintf(lcores, sizeof(lcores), "--lcores=0@%d", b.cpus[1]);
	snprintf(shm, sizeof(shm), "--vdev=fabric_shm0,dir=%s", b.dir);
	snprintf(share, sizeof(share), "--vdev=fabric_shm1,share=1,dir=%s", b.dir);
	for (i = 0; i < b.args.argc && n < 50; i++)
		argv[n++] = b.args.argv[i];
	argv[n++] = lcores;
	argv[n++] = main_lcore;
	argv[n++] = no_pci;
	argv[n++] = no_telemetry;
	argv[n++] = quiet;
	argv[n++] = shm;
	argv[n++] = share;
	argv[n++] = ofi;
	if (side == 0)
		argv[n++] = ring;
	argv[n] = NULL;
	if (leat_init(n, argv) < 0)
		bench_die("%s", leat_err_msg());
}

static void
open_links(unsigned int side, unsigned int device)
{
	unsigned int kind;

	for (kind = 0; kind < LINK_KINDS; kind++) {
		struct link *l = &b.links[side][device][kind];

		link_open(l, devices[device], kind);
		if (side == 1)
			link_listen(l, b.shared->addr[device][kind]);
	}
	if (side == 1)
		b.shared->target[device] = link_target(&b.links[1][device][LINK_BULK]);
}

static void
connect_ring(void)
{
	unsigned int kind;

	open_links(0, RING);
	open_links(1, RING);
	for (kind = 0; kind < LINK_KINDS; kind++) {
		struct link *first = &b.links[0][RING][kind], *second = &b.links[1][RING][kind];

		link_connect(first, b.shared->addr[RING][kind]);
		link_accept(second, first);
		link_connected(second, first);
		link_connected(first, second);
		link_start(first);
		link_start(second);
	}
}

/* Both processes connect in the same order. */
static void
connect_processes(unsigned int side)
{
	static const unsigned int between[] = { SHM, OFI, SHARE };
	unsigned int i, kind;

	for (i = 0; i < RTE_DIM(between); i++)
		open_links(side, between[i]);
	if (side == 1)
		__atomic_store_n(&b.shared->listening, 1, __ATOMIC_RELEASE);
	else
		spin_until(&b.shared->listening, 1);
	for (i = 0; i < RTE_DIM(between); i++) {
		for (kind = 0; kind < LINK_KINDS; kind++) {
			struct link *l = &b.links[side][between[i]][kind];

			if (side == 0)
				link_connect(l, b.shared->addr[between[i]][kind]);
			else
				link_accept(l, NULL);
			link_connected(l, NULL);
			link_start(l);
		}
	}
}

static void
close_links(unsigned int side, unsigned int device)
{
	unsigned int kind;

	for (kind = 0; kind < LINK_KINDS; kind++)
		link_close(&b.links[side][device][kind]);
}

static void
second_process(void)
{
	/* End when the first side ends. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)close(b.fd[PROCESS]);
	start_leat(1);
	connect_processes(1);
	serve(b.second_fd[PROCESS]);
	close_links(1, SHM);
	close_links(1, OFI);
	close_links(1, SHARE);
	_exit(leat_cleanup() < 0 ? 1 : 0);
}

static void
sockets(unsigned int second)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		bench_die("no socket");
	b.fd[second] = fds[0];
	b.second_fd[second] = fds[1];
}

static pid_t
start(void)
{
	pid_t child;

	snprintf(b.dir, sizeof(b.dir), "@leat-bench-%d", (int)getpid());
	sockets(PROCESS);
	fflush(NULL);
	child = fork();
	if (child < 0)
		bench_die("can't fork");
	if (child == 0)
		second_process();
	bench_process_add(child);
	(void)close(b.second_fd[PROCESS]);
	start_leat(0);
	connect_ring();
	connect_processes(0);
	sockets(LCORE);
	if (rte_eal_remote_launch(serve_lcore, NULL, rte_get_next_lcore(-1, 1, 0)) < 0)
		bench_die("can't start the second lcore");
	return child;
}

static void
stop(pid_t child)
{
	int status;

	(void)close(b.fd[LCORE]);
	rte_eal_mp_wait_lcore();
	(void)close(b.fd[PROCESS]);
	close_links(0, RING);
	close_links(1, RING);
	close_links(0, SHM);
	close_links(0, OFI);
	close_links(0, SHARE);
	if (waitpid(child, &status, 0) < 0 || status != 0)
		bench_die("the second process failed");
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
}

/* Run all measures once. */
static void
session(void *arg)
{
	static struct bench_table one;
	pid_t child;

	(void)arg;
	memset(b.shared, 0, sizeof(*b.shared));
	child = start();
	for (b.measure = 0; b.measure < MEASURES; b.measure++) {
		const struct measure *m = &measures[b.measure];

		b.n = b.args.smoke ? m->smoke_n : m->n;
		bench_measure(&one, &b.args, m->nb_variants, measure, NULL, b.cpus, 2);
		bench_append(&b.tables[b.measure], &one);
	}
	stop(child);
}

int
main(int argc, char **argv)
{
	unsigned int i;

	bench_args(&b.args, argc, argv);
	b.cpus[0] = bench_cpu(0);
	b.cpus[1] = bench_cpu(1);
	if (b.cpus[1] < 0)
		bench_skip("needs two CPUs");
	b.shared = bench_shared(sizeof(*b.shared));
	for (i = 0; i < 2; i++)
		b.copied[i] = bench_shared(LINK_BULK_MEM);
	b.tables = bench_shared(MEASURES * sizeof(*b.tables));
	bench_sessions(&b.args, session, NULL);
	for (i = 0; i < RTE_DIM(results); i++)
		bench_report(&b.tables[results[i].measure], &results[i].r);
	return 0;
}
