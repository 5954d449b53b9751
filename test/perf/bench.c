/* SPDX-License-Identifier: BSD-3-Clause */

/* See bench.h. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* A result gets a note if other programs used more than this share of the CPUs' time. */
#define BUSY_SHARE 0.05

static bool realtime;

static void
usage(const char *prog)
{
	printf("usage: %s [--smoke] [--repeats N] [--seconds S] [--realtime] [EAL arguments]\n"
	       "  --smoke      only see that it works: a few short repeats\n"
	       "  --repeats N  repeats of each variant (default: as many as fit the time)\n"
	       "  --seconds S  time for each table of results (default 2)\n"
	       "  --realtime   real-time priority, for a machine that others use too: they get "
	       "nothing\n"
	       "               of the two CPUs meanwhile (needs the right to do so)\n",
	       prog);
}

static double
number(const char *opt, const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end != '\0' || !(v >= 0 && v <= 1e6))
		bench_die("%s: '%s' is not a number from 0 to 1000000", opt, text);
	return v;
}

void
bench_args(struct bench_args *args, int argc, char **argv)
{
	int i, out = 1;

	memset(args, 0, sizeof(*args));
	args->seconds = 2;
	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--smoke") == 0) {
			args->smoke = true;
		} else if (strcmp(argv[i], "--realtime") == 0) {
			realtime = true;
		} else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
			args->repeats = (uint32_t)number("--repeats", argv[++i]);
		} else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
			args->seconds = number("--seconds", argv[++i]);
		} else if (strcmp(argv[i], "--help") == 0) {
			usage(argv[0]);
			exit(0);
		} else {
			argv[out++] = argv[i];
		}
	}
	argv[out] = NULL;
	args->argc = out;
	args->argv = argv;
	if (args->repeats > BENCH_REPEATS_MAX)
		args->repeats = BENCH_REPEATS_MAX;
	if (args->smoke) {
		args->repeats = 2;
		args->seconds = 0;
	}
	/* devtools/bench reads the results while this program goes on. */
	setvbuf(stdout, NULL, _IOLBF, 0);
}

const char *
bench_option(struct bench_args *args, const char *name, const char *def)
{
	const char *value;
	int i;

	for (i = 1; i + 1 < args->argc; i++) {
		if (strcmp(args->argv[i], name) != 0)
			continue;
		value = args->argv[i + 1];
		memmove(&args->argv[i], &args->argv[i + 2],
			(size_t)(args->argc - i - 1) * sizeof(args->argv[0]));
		args->argc -= 2;
		return value;
	}
	return def;
}

void
bench_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(BENCH_SKIP);
}

void
bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	fflush(NULL);
	_exit(1);
}

int
bench_cpu(unsigned int nth)
{
	static cpu_set_t set;
	static bool known;
	int cpu;

	/* Ask only once, before any thread is pinned. */
	if (!known && sched_getaffinity(0, sizeof(set), &set) != 0)
		return -1;
	known = true;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set) && nth-- == 0)
			return cpu;
	}
	return -1;
}

void
bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		bench_die("can't run on CPU %d: %s", cpu, strerror(errno));
}

void
bench_thread_ready(void)
{
	struct sched_param param = { .sched_priority = 10 };

	if (realtime && sched_setscheduler(0, SCHED_FIFO, &param) != 0)
		bench_die("--realtime: %s", strerror(errno));
}

static uint64_t
timespec_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * UINT64_C(1000000000) + (uint64_t)ts->tv_nsec;
}

uint64_t
bench_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
		bench_die("no monotonic clock");
	return timespec_ns(&ts);
}

uint64_t
bench_pushed_off(void)
{
	struct rusage ru;

	if (getrusage(RUSAGE_THREAD, &ru) != 0)
		return 0;
	return (uint64_t)ru.ru_nivcsw;
}

bool
bench_rest(int fd, uint64_t ns)
{
	/*
	 * Ask for no events: data on the socket must not end the sleep. poll() reports a close all
	 * the same.
	 */
	struct pollfd p = { .fd = fd };
	struct timespec ts = { .tv_nsec = (long)ns };

	return ppoll(&p, 1, &ts, NULL) <= 0;
}

/* ---- the machine's load ---- */

/*
 * @return seconds since boot in which the CPUs were not idle, including time that the hypervisor
 * took
 */
static double
cpus_busy(const int *cpus, unsigned int nb_cpus)
{
	unsigned long long v[8], ticks = 0;
	char line[512];
	unsigned int i;
	FILE *f = fopen("/proc/stat", "re");
	int cpu;

	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &v[0],
			   &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 9)
			continue;
		for (i = 0; i < nb_cpus; i++) {
			if (cpus[i] == cpu)
				ticks += v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
		}
	}
	(void)fclose(f);
	return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* @return the time of a CPU clock, s; 0 on failure */
static double
clock_s(clockid_t clock)
{
	struct timespec ts;

	return clock_gettime(clock, &ts) == 0 ? (double)timespec_ns(&ts) * 1e-9 : 0;
}

static pid_t processes[16];
static unsigned int nb_processes;

void
bench_process_add(int pid)
{
	if (nb_processes < sizeof(processes) / sizeof(processes[0]))
		processes[nb_processes++] = pid;
}

static double
own_busy(void)
{
	double s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	clockid_t clock;
	unsigned int i;

	for (i = 0; i < nb_processes; i++) {
		if (clock_getcpuclockid(processes[i], &clock) == 0)
			s += clock_s(clock);
	}
	return s;
}

uint64_t
bench_pushed_off_of(int pid)
{
	unsigned long long n = 0;
	char line[256];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	f = fopen(line, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
			break;
	}
	(void)fclose(f);
	return n;
}

/* ---- repeats ---- */

static void
repeat(struct bench_table *t, uint32_t row, bench_fn fn, void *arg)
{
	unsigned int i;

	t->disturbed[row] = false;
	for (i = 0; i < t->nb_variants; i++) {
		/* Every other repeat runs the variants in reverse order. */
		unsigned int variant = row & 1 ? t->nb_variants - 1 - i : i;
		bool disturbed = false;

		t->v[variant][row] = fn(arg, variant, &disturbed);
		if (disturbed)
			t->disturbed[row] = true;
	}
}

void
bench_measure(struct bench_table *t, const struct bench_args *args, unsigned int nb_variants,
	      bench_fn fn, void *arg, const int *cpus, unsigned int nb_cpus)
{
	double cpu0, own0, cpu1, own1, one, wanted;
	uint64_t start, end;
	uint32_t i, n;

	bench_thread_ready();
	memset(t, 0, sizeof(*t));
	t->nb_variants = nb_variants;
	start = bench_ns();
	repeat(t, 0, fn, arg); /* warms up, and does not count */
	one = (double)(bench_ns() - start) * 1e-9;
	n = args->repeats;
	if (n == 0) {
		const uint32_t most = args->most != 0 ? args->most : BENCH_REPEATS_MAX;

		wanted = args->seconds / (one > 0 ? one : 1e-9);
		n = wanted > most ? most : (uint32_t)wanted;
		if (n < BENCH_REPEATS_MIN)
			n = BENCH_REPEATS_MIN;
	}
	t->nb_repeats = n;

	cpu0 = cpus_busy(cpus, nb_cpus);
	own0 = own_busy();
	start = bench_ns();
	for (i = 0; i < n; i++)
		repeat(t, i, fn, arg);
	end = bench_ns();
	cpu1 = cpus_busy(cpus, nb_cpus);
	own1 = own_busy();

	/*
	 * The kernel counts CPU time in ticks of 10 ms, so the others' share would mean nothing for
	 * a measurement of less than 200 ms.
	 */
	if (end - start > UINT64_C(200000000))
		t->others = ((cpu1 - cpu0) - (own1 - own0)) * 1e9 / (double)(end - start) / nb_cpus;
	if (t->others < 0)
		t->others = 0;
	for (i = 0; i < n; i++)
		t->nb_clean += !t->disturbed[i];
	t->all = t->nb_clean < BENCH_REPEATS_MIN;
}

void
bench_append(struct bench_table *t, const struct bench_table *more)
{
	uint32_t i, k, n = t->nb_repeats + more->nb_repeats;

	if (n > BENCH_REPEATS_MAX)
		n = BENCH_REPEATS_MAX;
	t->nb_variants = more->nb_variants;
	for (i = t->nb_repeats, k = 0; i < n; i++, k++) {
		unsigned int variant;

		for (variant = 0; variant < t->nb_variants; variant++)
			t->v[variant][i] = more->v[variant][k];
		t->disturbed[i] = more->disturbed[k];
		t->nb_clean += !more->disturbed[k];
	}
	if (n > 0)
		t->others = (t->others * t->nb_repeats + more->others * (n - t->nb_repeats)) / n;
	t->nb_repeats = n;
	t->all = t->nb_clean < BENCH_REPEATS_MIN;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* How two variants are combined. */
enum combine { FIRST, RATIO, DIFF };

/* Return the p-quantile (p: 0 to 1) of the repeats. */
static double
quantile(const struct bench_table *t, enum combine how, unsigned int a, unsigned int b, double p)
{
	static double v[BENCH_REPEATS_MAX];
	uint32_t i, n = 0;

	for (i = 0; i < t->nb_repeats; i++) {
		if (t->disturbed[i] && !t->all)
			continue;
		v[n] = t->v[a][i];
		if (how == RATIO)
			v[n] /= t->v[b][i];
		else if (how == DIFF)
			v[n] -= t->v[b][i];
		n++;
	}
	if (n == 0)
		return 0;
	qsort(v, n, sizeof(v[0]), by_value);
	if (n % 2 == 0 && p == 0.5)
		return (v[n / 2 - 1] + v[n / 2]) / 2;
	return v[(uint32_t)(p * (n - 1) + 0.5)];
}

double
bench_median(const struct bench_table *t, unsigned int variant)
{
	return quantile(t, FIRST, variant, 0, 0.5);
}

double
bench_median_ratio(const struct bench_table *t, unsigned int num, unsigned int den)
{
	return quantile(t, RATIO, num, den, 0.5);
}

double
bench_median_diff(const struct bench_table *t, unsigned int a, unsigned int b)
{
	return quantile(t, DIFF, a, b, 0.5);
}

/* ---- results ---- */

void
bench_report(const struct bench_table *t, const struct bench_result *r)
{
	const char *better = r->kind == BENCH_RATIO_MIN ? "higher" : "lower";
	enum combine how = r->kind == BENCH_DIFF_MAX  ? DIFF
			   : r->kind == BENCH_ABS_MAX ? FIRST
						      : RATIO;
	uint32_t taken = t->all ? t->nb_repeats : t->nb_clean;

	printf("{\"name\": \"%s\", \"unit\": \"%s\", \"leat\": %.6g", r->name, r->unit,
	       bench_median(t, r->leat));
	if (r->kind != BENCH_ABS_MAX)
		printf(", \"reference\": %.6g, \"ratio\": %.6g", bench_median(t, r->reference),
		       bench_median_ratio(t, r->leat, r->reference));
	printf(", \"value\": %.6g, \"low\": %.6g, \"high\": %.6g",
	       quantile(t, how, r->leat, r->reference, 0.5),
	       quantile(t, how, r->leat, r->reference, 0.25),
	       quantile(t, how, r->leat, r->reference, 0.75));
	if (r->target != 0)
		printf(", \"target\": %g", r->target);
	printf(", \"better\": \"%s\"", better);
	if (r->kind == BENCH_DIFF_MAX)
		printf(", \"difference\": true");
	if (r->kind == BENCH_ABS_MAX)
		printf(", \"absolute\": true");
	printf(", \"repeats\": %u, \"taken\": %u, \"others\": %.3f", t->nb_repeats, taken,
	       t->others);
	if (r->note != NULL || t->others > BUSY_SHARE || t->all) {
		printf(", \"note\": \"%s", r->note != NULL ? r->note : "");
		if (t->others > BUSY_SHARE)
			printf("%sbusy: others used %.0f %% of the CPUs",
			       r->note != NULL ? "; " : "", t->others * 100);
		if (t->all)
			printf("%sonly %u of %u repeats were undisturbed",
			       r->note != NULL || t->others > BUSY_SHARE ? "; " : "", t->nb_clean,
			       t->nb_repeats);
		printf("\"");
	}
	printf("}\n");
	fflush(stdout);
}
