/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_TRACE_H
#define STEPS_TRACE_H

/*
 * How to get a victim to its k-th instruction without a stop at each one before. A victim that goes
 * through is run step by step once, and the address of each instruction noted. All victims are
 * forks of one process, so an instruction has the same address in each.
 *
 *     step                0   1   2   3   4   5   6   7   8 ...
 *     address             a   b   c   b   c   b   c   d   e
 *     passed before       0   0   0   1   1   2   2   0   0
 *
 * To get to step k the victim runs to a breakpoint, an earlier step's address, passes it so often
 * as that step has been passed before, and makes the rest one by one; the step is chosen so that it
 * stops as seldom as can be.
 *
 * A victim that waits for the survivor turns more often or less than the one that was noted: then
 * it is killed at the same instruction in another turn, or is through before.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct steps_trace {
	uint64_t *at;	  /* address of each step */
	uint32_t *anchor; /* of each step: the one whose address gets the breakpoint */
	uint32_t *passed;
	uint32_t *seen; /* steps that others can see the effect of, see steps_watch.h */
	unsigned int nb, room, nb_seen;
};

/* The victim is about to make the next step. @return its address */
uint64_t steps_trace_add(struct steps_trace *t, pid_t pid);
/* Others see the effect of the step that was added last. */
void steps_trace_seen(struct steps_trace *t);
/* All steps were added. */
void steps_trace_end(struct steps_trace *t);
void steps_trace_free(struct steps_trace *t);
/* A breakpoint of the victim's; 0: none. @return false: there can't be */
bool steps_trace_break(pid_t pid, uint64_t at);

#endif /* STEPS_TRACE_H */
