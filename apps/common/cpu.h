/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CPU_H
#define CPU_H

/*
 * Where a thread runs, and what else runs there. Measurements of a busy-polling program mean
 * something only if each loop has a CPU to itself: these functions find out.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_MAX 1024
/* Warn when other threads use more than this share of a CPU. */
#define CPU_BUSY_SHARE 0.2

/* The CPUs that a thread may run on. */
struct cpu_where {
	uint64_t host; /* identifies the machine */
	uint32_t nb_cpus;
	uint32_t cpu;  /* the lowest CPU that the thread may run on */
	char cpus[32]; /* "0,2-5" */
};

/* Jiffies since boot that each CPU was busy, and in total; 0 for a CPU that does not exist. */
struct cpu_load {
	uint64_t busy[CPU_MAX], total[CPU_MAX];
};

/* The CPU time that a thread and its process have used. */
struct cpu_used {
	pthread_t thread;
	uint64_t thread_ns, process_ns;
	uint64_t preempted; /* involuntary context switches of the thread */
};

/* Fill in w, or u, for the calling thread. */
void cpu_where_get(struct cpu_where *w);
void cpu_used_get(struct cpu_used *u);

void cpu_load_get(struct cpu_load *l);

/*
 * CPU time used between two readings, ns: of the thread if both readings are of one thread, else of
 * the process.
 */
uint64_t cpu_own_ns(const struct cpu_used *from, const struct cpu_used *to);

/*
 * Return the share of a CPU's time between two readings, 0 to 1, that other programs used: the busy
 * time less own_ns, which is this program's. -1: unknown CPU, or the readings are too close
 * together.
 */
double cpu_others(const struct cpu_load *from, const struct cpu_load *to, uint32_t cpu,
		  uint64_t own_ns);

/* Can the two threads run on the same CPU? */
bool cpu_shared(const struct cpu_where *a, const struct cpu_where *b);

/* Is the CPU's frequency governor "powersave"? */
bool cpu_saves_power(uint32_t cpu);

/* Count the runnable threads of the machine; 0: unknown. */
unsigned int cpu_runnable(void);

#endif /* CPU_H */
