/* SPDX-License-Identifier: BSD-3-Clause */

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"

static bool
read_line(const char *path, char *buf, int len)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (f == NULL)
		return false;
	ok = fgets(buf, len, f) != NULL;
	(void)fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/*
 * Return a number that identifies the running kernel. Two threads can compare their CPU numbers
 * only if they run under the same kernel.
 */
static uint64_t
host_id(void)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	char buf[64] = "";
	size_t i;

	if (!read_line("/proc/sys/kernel/random/boot_id", buf, sizeof(buf)))
		(void)gethostname(buf, sizeof(buf) - 1); /* a long name has no NUL */
	for (i = 0; buf[i] != '\0'; i++)
		h = (h ^ (uint8_t)buf[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return h;
}

/* Write a CPU set as "0,2-5". */
static void
cpu_list(const cpu_set_t *set, char *buf, size_t len)
{
	size_t pos = 0;
	int i, j, n;

	buf[0] = '\0';
	for (i = 0; i < CPU_SETSIZE; i = j + 1) {
		j = i;
		if (!CPU_ISSET(i, set))
			continue;
		while (j + 1 < CPU_SETSIZE && CPU_ISSET(j + 1, set))
			j++;
		if (i == j)
			n = snprintf(buf + pos, len - pos, "%s%d", pos > 0 ? "," : "", i);
		else
			n = snprintf(buf + pos, len - pos, "%s%d-%d", pos > 0 ? "," : "", i, j);
		if (n < 0 || (size_t)n >= len - pos)
			return;
		pos += (size_t)n;
	}
}

static void
affinity(cpu_set_t *set)
{
	CPU_ZERO(set);
	if (pthread_getaffinity_np(pthread_self(), sizeof(*set), set) != 0)
		CPU_SET(0, set);
}

static uint32_t
first_cpu(const cpu_set_t *set)
{
	uint32_t i;

	for (i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, set); i++)
		;
	return i;
}

void
cpu_where_get(struct cpu_where *w)
{
	cpu_set_t set;

	affinity(&set);
	w->host = host_id();
	w->nb_cpus = (uint32_t)CPU_COUNT(&set);
	w->cpu = first_cpu(&set);
	cpu_list(&set, w->cpus, sizeof(w->cpus));
}

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Parse a line "cpuN user nice system idle iowait irq softirq steal" of /proc/stat. */
static void
parse_stat(struct cpu_load *l, const char *line)
{
	uint64_t v[8] = { 0 };
	unsigned int cpu, i;

	if (sscanf(line,
		   "cpu%u %" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64
		   "%" SCNu64 "%" SCNu64,
		   &cpu, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 5 ||
	    cpu >= CPU_MAX)
		return;
	for (i = 0; i < 8; i++)
		l->total[cpu] += v[i];
	l->busy[cpu] = l->total[cpu] - v[3] - v[4];
}

void
cpu_load_get(struct cpu_load *l)
{
	char line[256];
	FILE *f;

	memset(l, 0, sizeof(*l));
	f = fopen("/proc/stat", "re");
	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL)
		parse_stat(l, line);
	(void)fclose(f);
}

void
cpu_used_get(struct cpu_used *u)
{
	struct rusage ru;

	memset(u, 0, sizeof(*u));
	u->thread = pthread_self();
	u->thread_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	u->process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (getrusage(RUSAGE_THREAD, &ru) == 0)
		u->preempted = (uint64_t)ru.ru_nivcsw;
}

uint64_t
cpu_own_ns(const struct cpu_used *from, const struct cpu_used *to)
{
	return pthread_equal(from->thread, to->thread) ? to->thread_ns - from->thread_ns
						       : to->process_ns - from->process_ns;
}

double
cpu_others(const struct cpu_load *from, const struct cpu_load *to, uint32_t cpu, uint64_t own_ns)
{
	double hz = (double)sysconf(_SC_CLK_TCK), own = (double)own_ns / 1e9;
	double busy, total;

	/* Jiffies are coarse: fewer than 10 of them are too few to compute a share. */
	if (cpu >= CPU_MAX || hz <= 0 || to->total[cpu] < from->total[cpu] + 10)
		return -1;
	total = (double)(to->total[cpu] - from->total[cpu]) / hz;
	busy = (double)(to->busy[cpu] - from->busy[cpu]) / hz;
	return busy <= own ? 0 : (busy - own) / total;
}

bool
cpu_shared(const struct cpu_where *a, const struct cpu_where *b)
{
	if (a->host != b->host)
		return false;
	if (a->nb_cpus == 1 && b->nb_cpus == 1)
		return a->cpu == b->cpu;
	return true; /* at least one of the threads is not pinned: its CPU is unknown */
}

bool
cpu_saves_power(uint32_t cpu)
{
	char path[96], gov[32];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
	return read_line(path, gov, sizeof(gov)) && strcmp(gov, "powersave") == 0;
}

unsigned int
cpu_runnable(void)
{
	unsigned int run;
	char line[128];

	/* "0.00 0.01 0.05 2/345 6789": the 2 includes the calling thread */
	if (!read_line("/proc/loadavg", line, sizeof(line)) ||
	    sscanf(line, "%*s %*s %*s %u/", &run) != 1)
		return 0;
	return run;
}
