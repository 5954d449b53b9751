/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CPU_H
#define CPU_H

/*
 * Where a thread runs, and what else runs there. Numbers of a busy-polling program are worth
 * something only if each loop has a CPU to itself; this is where a program finds out.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_MAX 1024
/* More than this share of a CPU used by others is worth a warning. */
#define CPU_BUSY_SHARE 0.2

/* What a thread may run on. */
struct cpu_where {
	uint64_t host; /* equal on one machine */
	uint32_t nb_cpus;
	uint32_t cpu;  /* the first of them */
	char cpus[32]; /* "0,2-5" */
};

/* Readings of all CPUs, in jiffies; 0 for those that are not there. */
struct cpu_load {
	uint64_t busy[CPU_MAX], total[CPU_MAX];
};

/* A reading of what this thread and its process have used. */
struct cpu_used {
	pthread_t thread;
	uint64_t thread_ns, process_ns;
	uint64_t preempted; /* involuntary switches of the thread */
};

/* Of the calling thread. */
void cpu_where_get(struct cpu_where *w);
void cpu_used_get(struct cpu_used *u);

void cpu_load_get(struct cpu_load *l);

/*
 * CPU time between two readings, ns: of the thread, or if they are of two threads of the process.
 */
uint64_t cpu_own_ns(const struct cpu_used *from, const struct cpu_used *to);

/*
 * Share of a CPU's time that other threads used, beside own_ns of this program's, between two
 * readings, 0..1; -1 if it can't be told.
 */
double cpu_others(const struct cpu_load *from, const struct cpu_load *to, uint32_t cpu,
		  uint64_t own_ns);

/* May the two run on one CPU? */
bool cpu_shared(const struct cpu_where *a, const struct cpu_where *b);

/* Does its governor save power? */
bool cpu_saves_power(uint32_t cpu);

/* Threads of the machine that want to run now; 0 if it can't be told. */
unsigned int cpu_runnable(void);

#endif /* CPU_H */
