/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rank and size that a launcher passes to its processes in environment variables. Launchers have no
 * other interface, so this is the only file of leat's libraries that reads the environment.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous_pvt.h"

/*
 * The innermost launcher comes first: mpirun in a Slurm job passes on Slurm's variables. Slurm's
 * size is the number of tasks of the step, not SLURM_NTASKS, which is set in a batch script as
 * well, although the script itself is not a rank.
 */
static const struct {
	const char *name;
	const char *rank;
	const char *size;
} launchers[] = {
	{ "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
	{ "mpiexec (PMI)", "PMI_RANK", "PMI_SIZE" },
	{ "srun (Slurm)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" },
};

/* Read a variable. Return 1: set; 0: not set; -EINVAL: it is not a number below max. */
static int
number(const char *var, uint32_t max, uint32_t *out)
{
	const char *val = getenv(var);
	uint64_t n = 0;
	size_t i;

	if (val == NULL)
		return 0;
	for (i = 0; val[i] >= '0' && val[i] <= '9' && n < max; i++)
		n = 10 * n + (uint64_t)(val[i] - '0');
	if (i == 0 || val[i] != '\0' || n >= max)
		return leat_err(
			EINVAL,
			"rendezvous: the launcher's %s is '%.20s', not a number below %" PRIu32,
			var, val, max);
	*out = (uint32_t)n;
	return 1;
}

int
rendezvous_launcher_get(struct rendezvous_launcher *l)
{
	const char *space = getenv("PMIX_NAMESPACE");
	unsigned int i;
	int ret;

	*l = (struct rendezvous_launcher){ 0 };
	ret = number("PMIX_RANK", LEAT_RENDEZVOUS_RANKS_MAX, &l->pmix_rank);
	if (ret < 0)
		return ret;
	l->pmix = ret > 0 && space != NULL && space[0] != '\0';

	for (i = 0; i < RTE_DIM(launchers); i++) {
		ret = number(launchers[i].rank, LEAT_RENDEZVOUS_RANKS_MAX, &l->rank);
		if (ret > 0)
			ret = number(launchers[i].size, LEAT_RENDEZVOUS_RANKS_MAX + 1, &l->size);
		if (ret < 0)
			return ret;
		if (ret == 0)
			continue;
		if (l->rank >= l->size)
			return leat_err(EINVAL,
					"rendezvous: %s says rank %" PRIu32 " of %" PRIu32
					" (%s, %s)",
					launchers[i].name, l->rank, l->size, launchers[i].rank,
					launchers[i].size);
		l->name = launchers[i].name;
		return 0;
	}
	return 0;
}
