/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

/*
 * The physical and virtual addresses of a process's data make it faster or slower until it ends,
 * and some variants more than others. Results that depend on this are measured in several sessions,
 * each a process of its own.
 */

#include <stddef.h>

#include "bench.h"

/* Allocate memory, zeroed, that processes forked later share. */
void *bench_shared(size_t len);

#define BENCH_SESSIONS 7

/*
 * Call session in BENCH_SESSIONS processes, one after the other, each with its share of the time
 * and the repeats of args; with --smoke in one process only. Sessions store results in memory of
 * bench_shared(), with bench_append(). End the program if a session fails.
 */
void bench_sessions(struct bench_args *args, void (*session)(void *arg), void *arg);

#endif /* BENCH_SESSION_H */
