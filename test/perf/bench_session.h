/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

/*
 * Where in memory a program's data happen to lie, physically and virtually, makes it faster or slower for as long as it
 * runs, one variant more than another. So what depends on that is measured in several sessions, each a process of its own.
 */

#include <stddef.h>

#include "bench.h"

/* Memory that processes forked later share; zeros. */
void *bench_shared(size_t len);

#define BENCH_SESSIONS 7

/*
 * Calls session in so many processes, one after the other, with their share of the time and the repeats of args; with
 * --smoke in one. What they measure goes to memory of bench_shared(), with bench_append(). Ends the program if one of
 * them fails.
 */
void bench_sessions(struct bench_args *args, void (*session)(void *arg), void *arg);

#endif /* BENCH_SESSION_H */
