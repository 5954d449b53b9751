/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_H
#define BENCH_H

/*
 * What the benchmarks share: arguments, pinning, interleaved repeats, medians, and the result line that
 * devtools/bench reads.
 *
 * A benchmark measures variants, leat and one or more references, in turn:
 *
 *     repeat 0:  leat ref    repeat 1:  ref leat    repeat 2:  leat ref   ...
 *
 * Repeats are short (milliseconds) and many, and those during which a measuring thread was pushed off its CPU
 * are left out, if enough others remain. The result is the median of the repeats, and for a ratio the median of
 * the ratios of each repeat, so that what changes slowly (frequency, temperature, neighbours) cancels out.
 */

#include <stdbool.h>
#include <stdint.h>

#define BENCH_VARIANTS_MAX 4
#define BENCH_REPEATS_MAX 1001
/* Fewer undisturbed repeats than this, and all are taken, with a note. */
#define BENCH_REPEATS_MIN 7

/* Exit status of a benchmark that can't run here; its last line says why. */
#define BENCH_SKIP 77

struct bench_args {
	bool smoke;	  /* only see that it works: few short repeats */
	uint32_t repeats; /* 0: the benchmark's own number */
	uint32_t most;	  /* repeats, 0: BENCH_REPEATS_MAX; not an option */
	double seconds;	  /* of each table of results; default 2 */
	int argc;	  /* what is left, for EAL: argv[0], then the arguments */
	char **argv;
};

/* Reads the options (--smoke, --repeats N, --seconds S, --realtime), takes them out; ends the program on --help and errors. */
void bench_args(struct bench_args *args, int argc, char **argv);

/* Takes "name value" out of what is left. @return the value, def without it */
const char *bench_option(struct bench_args *args, const char *name, const char *def);

/* Says why the benchmark can't run here and ends the program. */
void bench_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Says what went wrong and ends the program. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Number of the nth CPU that this program may use, -1 if there are fewer. Ask before pinning. */
int bench_cpu(unsigned int nth);
/* Pins the calling thread. */
void bench_pin(int cpu);

/*
 * To be called by each measuring thread before it measures: with --realtime it gets a real-time priority. (Not
 * earlier: threads that EAL makes would inherit it.)
 */
void bench_thread_ready(void);

/* CPU-independent clock, ns. */
uint64_t bench_ns(void);
/* How often the calling thread was pushed off its CPU so far. */
uint64_t bench_pushed_off(void);
/*
 * Leaves the CPU to others for ns (less than a second), or until the other end of fd (a socket) is closed; -1: no fd.
 * @return false if it is closed
 */
bool bench_rest(int fd, uint64_t ns);
/* Another process that takes part in the measurement; its CPU time is not "others". */
void bench_process_add(int pid);
/* How often its main thread was pushed off its CPU so far. */
uint64_t bench_pushed_off_of(int pid);
/* Keeps a value from being optimised away. */
#define BENCH_USE(x) __asm__ volatile("" : : "r,m"(x) : "memory")

/* The repeats of some variants. */
struct bench_table {
	unsigned int nb_variants;
	uint32_t nb_repeats;
	uint32_t nb_clean; /* undisturbed ones */
	bool all;	   /* too few of them: all were taken */
	double v[BENCH_VARIANTS_MAX][BENCH_REPEATS_MAX];
	bool disturbed[BENCH_REPEATS_MAX];
	double others; /* share of the CPUs' time that other programs used, or the hypervisor */
};

/*
 * One repeat of a variant.
 * @param[out] disturbed set to true if a measuring thread was pushed off its CPU
 * @return what it measured, per op
 */
typedef double (*bench_fn)(void *arg, unsigned int variant, bool *disturbed);

/*
 * Measures: one repeat of each variant to learn how long they take, then as many as fit the time (at least 7,
 * or args->repeats). cpus: those on which it runs, for their load.
 */
void bench_measure(struct bench_table *t, const struct bench_args *args, unsigned int nb_variants,
		   bench_fn fn, void *arg, const int *cpus, unsigned int nb_cpus);

/* Adds the repeats of another table, measured by another process for example, as far as there is room. */
void bench_append(struct bench_table *t, const struct bench_table *more);

/* Median of a variant over the repeats taken. */
double bench_median(const struct bench_table *t, unsigned int variant);
/* Median of the repeats' ratios, differences. */
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
	const char *name; /* of the target, e.g. "ring-lat-vs-line" */
	const char *unit;
	enum bench_kind kind;
	double target;		      /* 0: none */
	unsigned int leat, reference; /* variants */
	const char *note;	      /* optional */
};

/* Prints a result's line. */
void bench_report(const struct bench_table *t, const struct bench_result *r);

#endif /* BENCH_H */
