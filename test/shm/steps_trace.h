/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_TRACE_H
#define STEPS_TRACE_H

/*
 * Run a victim to its k-th instruction without a stop at each earlier one. One victim is
 * single-stepped to its end, and the address of each instruction is recorded. All victims are forks
 * of one process, so an instruction has the same address in each.
 *
 *     step                0   1   2   3   4   5   6   7   8 ...
 *     address             a   b   c   b   c   b   c   d   e
 *     passed before       0   0   0   1   1   2   2   0   0
 *
 * To reach step k the victim runs to a breakpoint at the address of an earlier step, the anchor,
 * passes it as often as that address was passed before the anchor, and is then single-stepped.
 * The anchor is chosen so that the victim stops as seldom as possible.
 *
 * A victim that waits for the survivor may loop more or less often than the recorded one: it is
 * then killed at the same instruction in a different iteration, or reaches its second mark before
 * that.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct steps_trace {
	uint64_t *at;	  /* address of each step */
	uint32_t *anchor; /* for each step: the step whose address gets the breakpoint */
	uint32_t *passed;
	uint32_t *seen; /* steps whose effect others can see, see steps_watch.h */
	unsigned int nb, room, nb_seen;
};

/* Record the step that the victim makes next. @return its address */
uint64_t steps_trace_add(struct steps_trace *t, pid_t pid);
/* Record that the survivor can see the effect of the step that was added last. */
void steps_trace_seen(struct steps_trace *t);
/* All steps were added: compute `passed` and `anchor`. */
void steps_trace_end(struct steps_trace *t);
void steps_trace_free(struct steps_trace *t);
/* Set a breakpoint of the victim; 0: none. @return false: not possible */
bool steps_trace_break(pid_t pid, uint64_t at);

#endif /* STEPS_TRACE_H */
