/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_SWITCH_H
#define BENCH_SWITCH_H

/* The context switch of tasks, compared with simpler switches, for bench-task. */

#include "bench.h"

/* Measure and report the time of a switch. */
void bench_switch(const struct bench_args *args, int cpu);

/* Count instructions and cache lines of a switch, see count.h. */
void bench_switch_count(void);

#endif /* BENCH_SWITCH_H */
