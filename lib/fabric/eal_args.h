/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EAL_ARGS_H
#define EAL_ARGS_H

/*
 * The arguments of leat_init(), split:
 *
 *     prog -l 0,1 --vdev=fabric_ring0 --no-tune --vdev=net_null0 -- app args
 *          |      |                   |         |                |
 *          EAL    ours                ours      EAL              the application's
 */

#include <stdbool.h>

struct eal_args {
	char **eal_argv;
	int eal_argc;
	const char **specs; /* of our devices, into argv */
	int nb_specs;
	const char *tune_dir; /* as settings, the last one that was given; NULL: none was */
	const char *settings;
	bool no_tune;
	bool memory_said;
	bool no_huge; /* or legacy memory, which EAL treats alike */
	bool multiproc_said;
	bool in_memory_said;
	bool pci_said;
};

/*
 * Splits argv[1] to argv[end - 1], and adds for EAL what was not said: how to do without hugepages,
 * not to share its configuration, and to leave the PCI devices alone. Returns 0, -ENOMEM or -EINVAL
 * (an option without its value) with leat_err(); eal_args_free() either way.
 */
int eal_args_split(struct eal_args *s, int argc, char **argv, int end);
void eal_args_free(struct eal_args *s);

#endif /* EAL_ARGS_H */
