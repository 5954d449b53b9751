/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COUNT_H
#define COUNT_H

/*
 * Cases for count-instructions: leat's side and the reference's side of each, in one thread.
 *
 *     static const struct count_case cases[] = {
 *             { "send-64", { leat_send, mbuf_send }, .burst = 1, .ops = 256, .target = "0.9",
 *               .instr = 300, .lines = 9 },
 *     };
 *     count_cases("ring", cases, RTE_DIM(cases));
 *
 * prints the results ring-instr-send-64 and ring-lines-send-64.
 *
 *     instr   instructions per op of a warm run of .ops ops
 *     lines   cache lines of data that one burst touches, divided by its ops. The simulated cache
 *             is emptied first, so that the burst misses once in each line. The stack is left
 *             out: its place in a line differs from run to run, and a loop that polls keeps it in
 *             the cache.
 */

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

enum count_side { COUNT_LEAT, COUNT_REFERENCE, COUNT_SIDES };

/* Do ops operations in bursts, and leave queues and requests in the state they had before. */
typedef void (*count_fn)(uint32_t ops, uint32_t burst);

struct count_case {
	const char *name;
	count_fn run[COUNT_SIDES];
	uint32_t burst;
	uint32_t ops;	    /* ops whose instructions are counted; a multiple of burst */
	uint32_t line_ops;  /* ops whose cache lines are counted; 0: one burst */
	const char *target; /* target for instr, see count-instructions; NULL: none */
	/* Budgets of leat's side per op: if it needs more, the test fails. */
	double instr, lines;
};

/* Remove "--count" from a program's arguments. @return whether it was there */
bool count_option(struct bench_args *args);

/*
 * Run and print all cases. Beforehand touch a known number of lines: count-instructions fails if
 * the simulated cache counts a different number.
 */
void count_cases(const char *subject, const struct count_case *cases, unsigned int n);

#endif /* COUNT_H */
