/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EAL_ARGS_H
#define EAL_ARGS_H

/*
 * The arguments of leat_init(), split:
 *
 *     prog -l 0,1 --vdev=fabric_ring0 --no-tune --vdev=net_null0 -- app args
 *          |      |                   |         |                |
 *          EAL    leat's              leat's    EAL              the application's
 */

#include <stdbool.h>

struct eal_args {
	char **eal_argv;
	int eal_argc;
	const char **specs; /* specifications of leat's devices, pointers into argv */
	int nb_specs;
	const char *tune_dir; /* value of the last --tune-dir; NULL: none */
	const char *settings; /* value of the last --settings; NULL: none */
	bool no_tune;
	/* X_given: argv holds an option of kind X, so eal_args_split() adds none */
	bool memory_given;
	bool no_huge; /* --no-huge, or --legacy-mem, which EAL treats alike */
	bool multiproc_given;
	bool in_memory_given;
	bool pci_given;
};

/*
 * Split argv[1] to argv[end - 1], and add the EAL options whose kind the caller did not mention:
 * run without hugepages where there are none, don't share the configuration, leave the PCI devices
 * alone.
 * @return 0, -ENOMEM or -EINVAL (an option without its value) with leat_err(); call eal_args_free()
 *   in either case
 */
int eal_args_split(struct eal_args *s, int argc, char **argv, int end);
void eal_args_free(struct eal_args *s);

#endif /* EAL_ARGS_H */
