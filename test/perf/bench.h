/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_H
#define BENCH_H

/*
 * Shared by the benchmarks: arguments, pinning, interleaved repeats, medians, and the result line
 * that devtools/bench reads.
 *
 * A benchmark measures variants, leat and one or more references, in turn:
 *
 *     repeat 0:  leat ref    repeat 1:  ref leat    repeat 2:  leat ref   ...
 *
 * Repeats are short (milliseconds) and many. Those in which a measuring thread was preempted are
 * left out, if enough others remain. The result is the median of the repeats, and for a ratio the
 * median of the ratios of each repeat, so that slow changes (frequency, temperature, neighbours)
 * cancel out.
 */

#include <stdbool.h>
#include <stdint.h>

#define BENCH_VARIANTS_MAX 4
#define BENCH_REPEATS_MAX 1001
/* If fewer repeats than this were undisturbed, all are used, and the result has a note. */
#define BENCH_REPEATS_MIN 7

/* Exit status of a benchmark that can't run here; its last line gives the reason. */
#define BENCH_SKIP 77

struct bench_args {
	bool smoke;	  /* only test that the benchmark works: few short repeats */
	uint32_t repeats; /* 0: the benchmark's own number */
	uint32_t most;	  /* the benchmark's limit of repeats per table; 0: BENCH_REPEATS_MAX */
	double seconds;	  /* time for each table of results; default 2 */
	int argc;	  /* the remaining arguments, for EAL: argv[0], then the others */
	char **argv;
};

/*
 * Read the options (--smoke, --repeats N, --seconds S, --realtime), and remove them; end the
 * program on --help and on errors.
 */
void bench_args(struct bench_args *args, int argc, char **argv);

/* Remove "name value" from the remaining arguments. @return the value, or def if it is not there */
const char *bench_option(struct bench_args *args, const char *name, const char *def);

/* Print why the benchmark can't run here, and end the program. */
void bench_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Print what went wrong, and end the program. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/*
 * @return the number of the nth CPU that this program may use, or -1 if there are fewer. Call
 * before pinning.
 */
int bench_cpu(unsigned int nth);
/* Pin the calling thread. */
void bench_pin(int cpu);

/*
 * Called by each measuring thread before it measures: with --realtime the thread gets a real-time
 * priority. (Not earlier: threads that EAL starts would inherit it.)
 */
void bench_thread_ready(void);

/* @return the time of a clock that is the same on all CPUs, ns */
uint64_t bench_ns(void);
/* @return how often the calling thread has been preempted */
uint64_t bench_pushed_off(void);
/*
 * Leave the CPU to other threads for ns (less than a second), or until the other end of fd (a
 * socket) is closed; -1: no fd. @return false if that end is closed
 */
bool bench_rest(int fd, uint64_t ns);
/*
 * Add another process that takes part in the measurement; its CPU time does not count as "others".
 */
void bench_process_add(int pid);
/* @return how often the main thread of process pid has been preempted */
uint64_t bench_pushed_off_of(int pid);
/* Keep a value from being optimised away. */
#define BENCH_USE(x) __asm__ volatile("" : : "r,m"(x) : "memory")

/* The repeats of some variants. */
struct bench_table {
	unsigned int nb_variants;
	uint32_t nb_repeats;
	uint32_t nb_clean; /* undisturbed repeats */
	bool all;	   /* too few repeats were undisturbed, so all were used */
	double v[BENCH_VARIANTS_MAX][BENCH_REPEATS_MAX];
	bool disturbed[BENCH_REPEATS_MAX];
	double others; /* share of the CPUs' time that other programs, or the hypervisor, used */
};

/*
 * Run one repeat of a variant.
 * @param[out] disturbed set to true if a measuring thread was preempted
 * @return the measured value, per op
 */
typedef double (*bench_fn)(void *arg, unsigned int variant, bool *disturbed);

/*
 * Measure: one repeat of each variant to learn how long it takes, then as many as fit the time (at
 * least 7, or args->repeats). cpus: the CPUs on which the benchmark runs; the load that others put
 * on them is measured.
 */
void bench_measure(struct bench_table *t, const struct bench_args *args, unsigned int nb_variants,
		   bench_fn fn, void *arg, const int *cpus, unsigned int nb_cpus);

/* Append the repeats of another table, for example of another process, as far as there is room. */
void bench_append(struct bench_table *t, const struct bench_table *more);

/* @return the median of a variant over the repeats used */
double bench_median(const struct bench_table *t, unsigned int variant);
/* @return the median of the repeats' ratios, or differences. */
double bench_median_ratio(const struct bench_table *t, unsigned int num, unsigned int den);
double bench_median_diff(const struct bench_table *t, unsigned int a, unsigned int b);

/* How the target bounds the result. */
enum bench_kind {
	BENCH_RATIO_MAX, /* leat / reference <= target */
	BENCH_RATIO_MIN, /* leat / reference >= target */
	BENCH_DIFF_MAX,	 /* leat - reference <= target */
	BENCH_ABS_MAX,	 /* leat <= target; no reference */
};

struct bench_result {
	const char *name; /* name of the target, e.g. "ring-lat-vs-line" */
	const char *unit;
	enum bench_kind kind;
	double target;		      /* 0: none */
	unsigned int leat, reference; /* variants */
	const char *note;	      /* optional */
};

/* Print the line of a result. */
void bench_report(const struct bench_table *t, const struct bench_result *r);

#endif /* BENCH_H */
