/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_SIDES_H
#define PERF_SIDES_H

/* The sides of this process, and the lcores that they run on. */

#include "perf.h"

struct perf_sides {
	int argc;
	char **argv; /* the whole command line, with EAL's arguments */
	struct perf_options o;
	struct perf_cpu_start start;
	struct leat_dev *dev;
	struct perf_self self;
	int client_code, server_code; /* exit codes; PERF_EXIT_OK if this process lacks the side */
};

/*
 * Choose the device; call on the main thread. @return 0, or a negative errno after printing a
 * message
 */
int perf_sides_begin(struct perf_sides *r);
/* Run the side of the calling lcore to its end, if the lcore has one. */
void perf_sides_lcore(struct perf_sides *r);
/* Return the exit code, once all lcores have finished. */
int perf_sides_code(const struct perf_sides *r);

#endif /* PERF_SIDES_H */
