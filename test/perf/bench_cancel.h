/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_CANCEL_H
#define BENCH_CANCEL_H

#include <leat_task.h>

#include "bench.h"

/*
 * Measure task-cancel and task-race, two results of bench_task.c, in its tasks and on its CPU.
 */
void bench_cancel(const struct bench_args *args, struct leat_tasks *ts, int cpu);

#endif /* BENCH_CANCEL_H */
