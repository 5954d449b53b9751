/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_STACK_H
#define TASK_STACK_H

/*
 * The stacks of a reactor's tasks: one mapping, reserved as a whole. The kernel provides each page
 * when it is first used.
 *
 *     base                                                                 base + length
 *     | lead | guard | stack 0      | guard | stack 1      | guard | stack 2      |
 *     | page | page  |            <-|       |            <-|       |            <-|
 *            |<----- stride ------->|                     grow down
 *
 * See stack.c for the kinds of guards, and how they keep within the limit of mappings.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_task.h"

/* Bytes at the upper end of each stack, for the canary of the next stack. */
#define TASK_CANARY_SIZE 64

struct task_stacks {
	char *base;
	size_t length;
	size_t page;
	size_t stride;
	uint32_t count;
	uint32_t nb_pages;	    /* the first nb_pages stacks have mprotect() guards */
	uint32_t nb_canaries;	    /* the next nb_canaries stacks have canaries */
	enum leat_task_guard guard; /* kind of guard of the next stack to prepare */
	bool fall_back;		    /* guard changes from pages to canaries when pages run out */
	uint64_t secret;	    /* canaries are derived from it */
	unsigned int *valgrind;	    /* valgrind's ids of the stacks; NULL: not under valgrind */
};

/*
 * Reserve the stacks of a reactor; name: the reactor's, for messages.
 * @return 0, or a negative errno with leat_err()
 */
int task_stacks_init(struct task_stacks *s, const char *name, uint32_t count, size_t size,
		     enum leat_task_guard guard);
/* Release the stacks; used: number of prepared stacks. */
void task_stacks_fini(struct task_stacks *s, uint32_t used);

/*
 * Guard stack i before its first use. To be called in ascending order of i.
 * @return 0, or -ENOMEM with leat_err()
 */
int task_stack_prepare(struct task_stacks *s, uint32_t i);

/* Get the lower end of stack i; its guard is below. */
static inline char *
task_stack_bottom(const struct task_stacks *s, uint32_t i)
{
	return s->base + 2 * s->page + (size_t)i * s->stride;
}

/* Get the size of a stack: bytes from its lower to its upper end. */
static inline size_t
task_stack_size(const struct task_stacks *s)
{
	return s->stride - s->page;
}

/*
 * Get the address of the first frame of stack i. Its offset in the page differs between stacks:
 * else the hottest lines of all tasks would share a few sets of the cache.
 */
static inline char *
task_stack_top(const struct task_stacks *s, uint32_t i)
{
	return task_stack_bottom(s, i) + task_stack_size(s) - TASK_CANARY_SIZE -
	       (size_t)(i % 16) * LEAT_CACHE_LINE;
}

/* Find stack *i in which an address lies; *guard: in the stack's guard. @return false: none */
bool task_stacks_find(const struct task_stacks *s, uintptr_t addr, uint32_t *i, bool *guard);

/* Check the canary below stack i. @return true: intact, or stack i has an mprotect() guard */
bool task_stack_intact(const struct task_stacks *s, uint32_t i);

/* Get the maximum number of bytes of stack i ever in use, in whole pages; 0: unknown. */
uint32_t task_stack_peak(const struct task_stacks *s, uint32_t i);

/* Return the memory of stack i to the system, except for its first page. */
void task_stack_trim(const struct task_stacks *s, uint32_t i);

#endif /* TASK_STACK_H */
