/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_STACK_H
#define TASK_STACK_H

/*
 * The stacks of a reactor's tasks: one mapping, reserved at once, taken by the system page by page
 * when it is used.
 *
 *     base                                                                 base + length
 *     | lead | guard | stack 0      | guard | stack 1      | guard | stack 2      |
 *     | page | page  |            <-|       |            <-|       |            <-|
 *            |<----- stride ------->|                     grow down
 *
 * How a guard page is made that is not one of the process's 65530 mappings, is in stack.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_task.h"

/* Upper end of each stack: the canary of the next one. */
#define TASK_CANARY_SIZE 64

struct task_stacks {
	char *base;
	size_t length;
	size_t page;
	size_t stride;
	uint32_t count;
	uint32_t nb_pages;	    /* guards by mprotect: these come first */
	uint32_t nb_canaries;	    /* then canaries */
	enum leat_task_guard guard; /* of the next one */
	bool fall_back;		    /* may become canaries */
	uint64_t secret;	    /* what canaries are made of */
	unsigned int *valgrind;	    /* its numbers of the stacks; NULL: not under valgrind */
};

/* 0, or a negative errno with leat_err(); name: the reactor's. */
int task_stacks_init(struct task_stacks *s, const char *name, uint32_t count, size_t size,
		     enum leat_task_guard guard);
/* used: stacks that were prepared. */
void task_stacks_fini(struct task_stacks *s, uint32_t used);

/* Before stack i is used for the first time; in ascending order. 0 or -ENOMEM with leat_err(). */
int task_stack_prepare(struct task_stacks *s, uint32_t i);

/* Lower end: what is below is the guard. */
static inline char *
task_stack_bottom(const struct task_stacks *s, uint32_t i)
{
	return s->base + 2 * s->page + (size_t)i * s->stride;
}

/* Bytes from the lower end to the top. */
static inline size_t
task_stack_size(const struct task_stacks *s)
{
	return s->stride - s->page;
}

/*
 * Where its first frame goes. Not the same offset in a page for all: else the hottest lines of all
 * tasks would share a few sets of the cache.
 */
static inline char *
task_stack_top(const struct task_stacks *s, uint32_t i)
{
	return task_stack_bottom(s, i) + task_stack_size(s) - TASK_CANARY_SIZE -
	       (size_t)(i % 16) * LEAT_CACHE_LINE;
}

/* Which stack an address is in or right below; false: none. */
bool task_stacks_find(const struct task_stacks *s, uintptr_t addr, uint32_t *i, bool *guard);

/* Is the canary below stack i intact, if it has one? */
bool task_stack_intact(const struct task_stacks *s, uint32_t i);

/* Bytes of it that were ever used, in whole pages; 0: can't be told. */
uint32_t task_stack_peak(const struct task_stacks *s, uint32_t i);

/* Gives its memory back but for the first page. */
void task_stack_trim(const struct task_stacks *s, uint32_t i);

#endif /* TASK_STACK_H */
