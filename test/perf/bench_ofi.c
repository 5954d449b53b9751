/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat's ofi driver compared with a bare libfabric loop that makes the same calls, each between two
 * processes, pinned alike: half round trips, or messages per second, of several sizes.
 *
 *     bench-ofi --provider shm|tcp --mode lat|rate [options, see --help]
 *
 *     CPU 0  one process: the first side of both variants
 *     CPU 1  its two children, the second sides; the one that is not measured sleeps
 *
 * The speed of large messages depends much on the physical pages of their buffers. So leat and the
 * bare loop use the same buffers, and windows that fit the CPUs' caches. The providers' own memory
 * varies as well, so everything is measured in several sessions, each with processes and endpoints
 * of its own.
 */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_common.h>

#include "bench_session.h"
#include "fi_side.h"

enum { LEAT, BARE, VARIANTS };

static const struct {
	size_t size;
	const char *name;
	uint32_t window;
} sizes[] = {
	{ 8, "8", 64 },
	{ 4096, "4Ki", 64 },
	{ 65536, "64Ki", 16 },
	{ 1048576, "1Mi", 4 },
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define WINDOW 64
/* Approximate time of one repeat of a variant, ns, and its least number of messages. */
#define REPEAT_NS 5e6
#define REPEAT_MIN 100

static struct {
	struct bench_args args;
	struct bench_table *tables; /* results of all sessions, one per size */
	const char *provider;
	bool rate;
	int cpus[2];
	struct side *side[VARIANTS];
	pid_t child[VARIANTS];
	int fd[VARIANTS];
	void *mem[2]; /* buffers of the first and of the second sides */
	/* The current measurement. */
	size_t size;
	uint32_t window;
	uint32_t n;
} b;

static const struct fi_side *const kinds[VARIANTS] = { [LEAT] = &leat_fi, [BARE] = &bare_fi };

static double
run(unsigned int variant, uint32_t n)
{
	struct side *s = b.side[variant];

	return b.rate ? kinds[variant]->rate(s, b.size, b.window, n)
		      : kinds[variant]->lat(s, b.size, n);
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	pid_t child = b.child[variant];
	uint64_t pushed = bench_pushed_off() + bench_pushed_off_of(child);
	double ns;

	(void)arg;
	ns = run(variant, b.n);
	*disturbed = bench_pushed_off() + bench_pushed_off_of(child) != pushed;
	return b.rate ? 1e3 / ns : ns * 1e-3;
}

/* @return the number of messages in a repeat */
static uint32_t
calibrate(void)
{
	double ns;

	if (b.args.smoke)
		return 4;
	bench_thread_ready();
	ns = run(BARE, 20);
	ns = run(BARE, (uint32_t)(1e6 / ns) + 4);
	return RTE_MAX((uint32_t)(REPEAT_NS / (b.rate ? ns : 2 * ns)), (uint32_t)REPEAT_MIN);
}

/*
 * EAL gives leat's process threads of its own (they sleep), and system calls cost more in a process
 * that has threads: the kernel must count references to the file. The first side is one process for
 * both variants, so the second side of the bare loop gets a sleeping thread, too.
 */
static void *
sleeper(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
	return NULL;
}

static void
second_side(unsigned int variant, int fd, const struct fi_side_conf *first)
{
	struct fi_side_conf conf = *first;
	struct side *s;
	pthread_t thread;

	/* End when the first side ends. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	bench_pin(b.cpus[1]);
	if (variant == BARE && pthread_create(&thread, NULL, sleeper, NULL) != 0)
		bench_die("can't make a thread");
	conf.cpu = b.cpus[1];
	conf.mem = b.mem[1];
	s = kinds[variant]->open(&conf, fd, false);
	kinds[variant]->serve(s);
	kinds[variant]->close(s);
	_exit(0);
}

static void
start(const struct fi_side_conf *conf)
{
	unsigned int variant;
	int fds[2];

	for (variant = 0; variant < VARIANTS; variant++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
			bench_die("no socket");
		fflush(NULL);
		b.child[variant] = fork();
		if (b.child[variant] < 0)
			bench_die("can't fork");
		if (b.child[variant] == 0) {
			/*
			 * Close this copy of the first child's socket: otherwise that child would
			 * not notice when the first side closes it.
			 */
			if (variant > 0)
				(void)close(b.fd[0]);
			(void)close(fds[0]);
			second_side(variant, fds[1], conf);
		}
		(void)close(fds[1]);
		b.fd[variant] = fds[0];
		bench_process_add(b.child[variant]);
	}
	bench_pin(b.cpus[0]);
	b.side[BARE] = bare_fi.open(conf, b.fd[BARE], true);
	b.side[LEAT] = leat_fi.open(conf, b.fd[LEAT], true);
	if (bare_fi.inline_max(b.side[BARE]) != leat_fi.inline_max(b.side[LEAT]))
		printf("injected: bare up to %zu B, leat up to %zu B\n",
		       bare_fi.inline_max(b.side[BARE]), leat_fi.inline_max(b.side[LEAT]));
}

static void
size_result(const struct bench_table *t, unsigned int i)
{
	char name[64];
	struct bench_result r = {
		.name = name,
		.unit = b.rate ? "Mmsg/s" : "us",
		.kind = b.rate ? BENCH_RATIO_MIN : BENCH_RATIO_MAX,
		.target = b.rate ? 0.97 : 1.03,
		.leat = LEAT,
		.reference = BARE,
	};

	snprintf(name, sizeof(name), "ofi-%s-%s-%s", b.rate ? "rate" : "lat", b.provider,
		 sizes[i].name);
	bench_report(t, &r);
}

/* Measure all sizes once. */
static void
session(void *arg)
{
	static struct bench_table one;
	unsigned int i;
	int status;

	start(arg);
	for (i = 0; i < SIZES; i++) {
		b.size = sizes[i].size;
		b.window = sizes[i].window;
		b.n = calibrate();
		bench_measure(&one, &b.args, VARIANTS, measure, NULL, b.cpus, 2);
		bench_append(&b.tables[i], &one);
	}
	leat_fi.close(b.side[LEAT]);
	bare_fi.close(b.side[BARE]);
	for (i = 0; i < VARIANTS; i++) {
		if (waitpid(b.child[i], &status, 0) < 0 || status != 0)
			bench_die("a second side failed");
	}
}

int
main(int argc, char **argv)
{
	struct fi_side_conf conf;
	unsigned int i;

	bench_args(&b.args, argc, argv);
	b.provider = bench_option(&b.args, "--provider", "shm");
	b.rate = strcmp(bench_option(&b.args, "--mode", "lat"), "rate") == 0;
	b.cpus[0] = bench_cpu(0);
	b.cpus[1] = bench_cpu(1);
	if (b.cpus[1] < 0)
		bench_skip("needs two CPUs");
	for (i = 0; i < 2; i++)
		b.mem[i] = bench_shared(FI_SIDE_MEM(sizes[SIZES - 1].size, WINDOW));
	conf = (struct fi_side_conf){
		.provider = b.provider,
		.max_size = sizes[SIZES - 1].size,
		.window = WINDOW,
		.cpu = b.cpus[0],
		.mem = b.mem[0],
		.args = &b.args,
	};
	b.tables = bench_shared(SIZES * sizeof(*b.tables));
	bench_sessions(&b.args, session, &conf);
	for (i = 0; i < SIZES; i++)
		size_result(&b.tables[i], i);
	return 0;
}
