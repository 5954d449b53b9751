/* SPDX-License-Identifier: BSD-3-Clause */

/* Load, fork and exit. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_host.h"

#define EXIT_LEAKS 99

uint32_t sim_nb_forks;

/* Take the modules' locks in the lock order; releasing them needs no order. */
static void
fork_all(enum sim_fork when)
{
	sim_host_fork(when);
	sim_device_fork(when);
	sim_thread_fork(when);
	sim_mr_fork(when);
	sim_peer_fork(when);
	sim_ah_fork(when);
	sim_qp_fork(when);
}

static void
before_fork(void)
{
	fork_all(SIM_FORK_PREPARE);
}

static void
in_parent(void)
{
	fork_all(SIM_FORK_PARENT);
}

/* The child becomes another host when it opens a device itself, and counts its own events. */
static void
in_child(void)
{
	sim_nb_forks++;
	fork_all(SIM_FORK_CHILD);
	sim_stats_reset();
}

/* Not a constructor: with -z initfirst it would run before the environment is set. */
void
sim_init(void)
{
	sim_config_read();
	if (pthread_atfork(before_fork, in_parent, in_child) != 0) {
		fprintf(stderr, "efa-sim: pthread_atfork: out of memory\n");
		_Exit(2);
	}
}

/* Linked with -z initfirst: this destructor is the last of all, after libfabric's. */
__attribute__((destructor)) static void
fini(void)
{
	uint64_t left;

	if (sim_host_arena() == NULL)
		return; /* a program without a device, such as a shell */
	sim_host_stop();
	left = sim_stats_report();
	if (left > 0 && sim_config.leaks) {
		fprintf(stderr, "efa-sim: %llu objects are left at exit, see the counters\n",
			(unsigned long long)left);
		_exit(EXIT_LEAKS);
	}
}
