/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_SIDES_H
#define PERF_SIDES_H

/* The sides of a run of the program, and the lcores they are on. */

#include "perf.h"

struct perf_sides {
	int argc;
	char **argv; /* all of the command line */
	struct perf_options o;
	struct perf_cpu_start start;
	struct leat_dev *dev;
	struct perf_self self;
	int client_code, server_code; /* PERF_EXIT_OK of a side that is not here */
};

/* Chooses the device. On the main thread; negative after a message. */
int perf_sides_begin(struct perf_sides *r);
/* Runs the calling lcore's side to its end, if it has one. */
void perf_sides_lcore(struct perf_sides *r);
/* The exit code, when all lcores are through. */
int perf_sides_code(const struct perf_sides *r);

#endif /* PERF_SIDES_H */
