/* SPDX-License-Identifier: BSD-3-Clause */

/* Warnings about conditions that may spoil a measurement. */

#include <unistd.h>

#include "perf.h"

void
perf_cpu_start(struct perf_cpu_start *start)
{
	cpu_load_get(&start->load);
	cpu_used_get(&start->used);
}

static void
warn_governor(uint32_t cpu)
{
	if (cpu_saves_power(cpu))
		perf_msg("warning: CPU %u runs with the governor 'powersave'; 'performance' gives "
			 "steadier numbers",
			 cpu);
}

static void
warn_load(const struct perf_card *mine, const struct perf_cpu_start *since)
{
	unsigned int run = cpu_runnable(), cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	struct perf_cpu_start now;
	double share;

	perf_cpu_start(&now);
	share = cpu_others(&since->load, &now.load, mine->at.cpu,
			   cpu_own_ns(&since->used, &now.used));
	if (mine->at.nb_cpus == 1 && share > CPU_BUSY_SHARE)
		perf_msg("warning: others use CPU %u, too (%.0f %% of it)", mine->at.cpu,
			 share * 100);
	if (run > cpus)
		perf_msg("warning: the machine is busy: %u threads want to run on %u CPUs", run,
			 cpus);
}

void
perf_cpu_warn(const struct perf_card *mine, const struct perf_card *other,
	      const struct perf_cpu_start *since)
{
	const struct cpu_where *here = &mine->at, *there = &other->at;

	if (here->nb_cpus > 1)
		perf_msg("warning: not pinned: this side may run on CPUs %s (EAL's -l pins)",
			 here->cpus);
	if (there->nb_cpus > 1)
		perf_msg("warning: not pinned: the other side may run on CPUs %s", there->cpus);
	if (here->nb_cpus == 1 && there->nb_cpus == 1 && cpu_shared(here, there))
		perf_msg("warning: both sides run on CPU %u: the numbers are those of the "
			 "scheduler (EAL's -l chooses)",
			 here->cpu);
	warn_governor(here->cpu);
	if (there->host == here->host && there->cpu != here->cpu)
		warn_governor(there->cpu);
	warn_load(mine, since);
}
