/* SPDX-License-Identifier: BSD-3-Clause */

/* Load, fork and exit. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_host.h"

#define EXIT_LEAKS 99

static void
in_child(void)
{
	/* Objects of the parent stay the parent's; the child counts its own. */
	sim_host_forget();
	sim_stats_reset();
}

/* Not a constructor: with -z initfirst there is no environment yet when those run. */
void
sim_init(void)
{
	sim_config_read();
	if (pthread_atfork(NULL, NULL, in_child) != 0) {
		fprintf(stderr, "efa-sim: pthread_atfork: out of memory\n");
		_Exit(2);
	}
}

/* Linked with -z initfirst: the last of all destructors, behind libfabric's. */
__attribute__((destructor)) static void
fini(void)
{
	uint64_t left;

	if (sim_host_arena() == NULL)
		return; /* a program without a device, as a shell */
	sim_host_stop();
	left = sim_stats_report();
	if (left > 0 && sim_config.leaks) {
		fprintf(stderr, "efa-sim: %llu objects are left at exit, see the counters\n",
			(unsigned long long)left);
		_exit(EXIT_LEAKS);
	}
}
