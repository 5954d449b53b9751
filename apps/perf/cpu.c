/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Where a thread runs, and who else runs there. Numbers of a busy-polling program are worth
 * something only if each side has a CPU to itself; this is where leat-perf finds out.
 */

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

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

/* Same for all processes under one kernel, in containers too: CPU numbers mean the same there. */
static uint64_t
host_id(void)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	char buf[64] = "";
	size_t i;

	if (!read_line("/proc/sys/kernel/random/boot_id", buf, sizeof(buf)))
		(void)gethostname(buf, sizeof(buf) - 1); /* may lack its end */
	for (i = 0; buf[i] != '\0'; i++)
		h = (h ^ (uint8_t)buf[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return h;
}

/* "0,2-5" */
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
perf_cpu_card(struct perf_card *card)
{
	cpu_set_t set;

	affinity(&set);
	card->host = host_id();
	card->nb_cpus = (uint32_t)CPU_COUNT(&set);
	card->cpu = first_cpu(&set);
	cpu_list(&set, card->cpus, sizeof(card->cpus));
}

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* user nice system idle iowait irq softirq steal */
static void
parse_stat(struct perf_cpu_load *l, const char *line)
{
	uint64_t v[8] = { 0 };
	unsigned int cpu, i;

	if (sscanf(line,
		   "cpu%u %" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64
		   "%" SCNu64 "%" SCNu64,
		   &cpu, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) < 5 ||
	    cpu >= PERF_CPUS)
		return;
	for (i = 0; i < 8; i++)
		l->total[cpu] += v[i];
	l->busy[cpu] = l->total[cpu] - v[3] - v[4];
}

void
perf_cpu_load_get(struct perf_cpu_load *l)
{
	struct rusage ru;
	char line[256];
	FILE *f;

	memset(l, 0, sizeof(*l));
	l->thread = pthread_self();
	l->thread_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	l->process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (getrusage(RUSAGE_THREAD, &ru) == 0)
		l->preempted = (uint64_t)ru.ru_nivcsw;
	f = fopen("/proc/stat", "re");
	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL)
		parse_stat(l, line);
	(void)fclose(f);
}

double
perf_cpu_others(const struct perf_cpu_load *from, const struct perf_cpu_load *to, uint32_t cpu)
{
	double hz = (double)sysconf(_SC_CLK_TCK);
	double busy, own, total;

	/* Jiffies are coarse: below some 10 of them nothing can be said. */
	if (cpu >= PERF_CPUS || hz <= 0 || to->total[cpu] < from->total[cpu] + 10)
		return -1;
	total = (double)(to->total[cpu] - from->total[cpu]) / hz;
	busy = (double)(to->busy[cpu] - from->busy[cpu]) / hz;
	own = pthread_equal(from->thread, to->thread) ? (double)(to->thread_ns - from->thread_ns)
						      : (double)(to->process_ns - from->process_ns);
	own /= 1e9;
	return busy <= own ? 0 : (busy - own) / total;
}

bool
perf_cpu_shared(const struct perf_card *a, const struct perf_card *b)
{
	if (a->host != b->host)
		return false;
	if (a->nb_cpus == 1 && b->nb_cpus == 1)
		return a->cpu == b->cpu;
	return true; /* at least one floats: nobody knows */
}

static void
warn_governor(uint32_t cpu)
{
	char path[96], gov[32];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
	if (read_line(path, gov, sizeof(gov)) && strcmp(gov, "powersave") == 0)
		perf_msg("warning: CPU %u runs with the governor 'powersave'; 'performance' gives "
			 "steadier numbers",
			 cpu);
}

static void
warn_load(const struct perf_card *mine, const struct perf_cpu_load *since)
{
	struct perf_cpu_load now;
	unsigned int run, cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	char line[128];
	double share;

	perf_cpu_load_get(&now);
	share = perf_cpu_others(since, &now, mine->cpu);
	if (mine->nb_cpus == 1 && share > PERF_BUSY_SHARE)
		perf_msg("warning: others use CPU %u, too (%.0f %% of it)", mine->cpu, share * 100);
	/* "0.00 0.01 0.05 2/345 6789": the 2 counts us */
	if (read_line("/proc/loadavg", line, sizeof(line)) &&
	    sscanf(line, "%*s %*s %*s %u/", &run) == 1 && run > cpus)
		perf_msg("warning: the machine is busy: %u threads want to run on %u CPUs", run,
			 cpus);
}

void
perf_cpu_warn(const struct perf_card *mine, const struct perf_card *other,
	      const struct perf_cpu_load *since)
{
	if (mine->nb_cpus > 1)
		perf_msg("warning: not pinned: this side may run on CPUs %s (EAL's -l pins)",
			 mine->cpus);
	if (other->nb_cpus > 1)
		perf_msg("warning: not pinned: the other side may run on CPUs %s", other->cpus);
	if (mine->nb_cpus == 1 && other->nb_cpus == 1 && perf_cpu_shared(mine, other))
		perf_msg("warning: both sides run on CPU %u: the numbers are those of the "
			 "scheduler (EAL's -l chooses)",
			 mine->cpu);
	warn_governor(mine->cpu);
	if (other->host == mine->host && other->cpu != mine->cpu)
		warn_governor(other->cpu);
	warn_load(mine, since);
}
