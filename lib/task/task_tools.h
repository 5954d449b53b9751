/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_TOOLS_H
#define TASK_TOOLS_H

/*
 * What tools are told of stacks, so that they follow a switch. Without them nothing of this is left.
 *
 *     AddressSanitizer   which stack is in use, and where it keeps fake frames
 *     ThreadSanitizer    each task is a fiber of its thread
 *     valgrind           where stacks are
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "task_stack.h"

#if defined(__SANITIZE_ADDRESS__)
#define TASK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TASK_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TASK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TASK_TSAN 1
#endif
#endif

#ifdef TASK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TASK_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef LEAT_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* Does a sanitizer follow the switches? */
#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define TASK_TOOLS 1
#else
#define TASK_TOOLS 0
#endif

/* Of a context: a task's, or the reactor's. */
struct task_tools {
	void *fake_stack; /* AddressSanitizer's, while it does not run */
	void *fiber;	  /* ThreadSanitizer's */
	const void *bottom;
	size_t size;
	struct task_tools *from; /* that switched to it */
};

/* A new context on stack i; what an earlier one left there is forgotten. */
static inline void
task_tools_begin(struct task_tools *t, const struct task_stacks *s, uint32_t i)
{
#ifdef TASK_ASAN
	t->fake_stack = NULL;
	t->bottom = task_stack_bottom(s, i);
	t->size = task_stack_size(s);
	__asan_unpoison_memory_region(t->bottom, t->size);
#endif
#ifdef TASK_TSAN
	if (t->fiber != NULL)
		__tsan_destroy_fiber(t->fiber);
	t->fiber = __tsan_create_fiber(0);
#endif
	(void)t;
	(void)s;
	(void)i;
}

/* A context that does not run any more. */
static inline void
task_tools_end(struct task_tools *t)
{
#ifdef TASK_TSAN
	if (t->fiber != NULL)
		__tsan_destroy_fiber(t->fiber);
	t->fiber = NULL;
#else
	(void)t;
#endif
}

/* In the reactor's context, before it is left for the first task of a turn. */
static inline void
task_tools_thread(struct task_tools *t)
{
#ifdef TASK_TSAN
	t->fiber = __tsan_get_current_fiber();
#else
	(void)t;
#endif
}

/* Right before a switch. last: the context that is left never runs again. */
static inline void
task_tools_leave(struct task_tools *from, struct task_tools *to, bool last)
{
#ifdef TASK_ASAN
	to->from = from;
	__sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom, to->size);
#endif
#ifdef TASK_TSAN
	__tsan_switch_to_fiber(to->fiber, 0);
#endif
	(void)from;
	(void)to;
	(void)last;
}

/* Right after one, in the context that was resumed. */
static inline void
task_tools_enter(struct task_tools *self)
{
#ifdef TASK_ASAN
	/* This is how the stack of the reactor's thread becomes known. */
	__sanitizer_finish_switch_fiber(self->fake_stack, &self->from->bottom, &self->from->size);
#else
	(void)self;
#endif
}

/* A stack that is used for the first time, and the end of all. */
static inline unsigned int
task_tools_stack_add(void *bottom, size_t size)
{
#ifdef LEAT_VALGRIND
	return VALGRIND_STACK_REGISTER(bottom, (char *)bottom + size - 1);
#else
	(void)bottom;
	(void)size;
	return 0;
#endif
}

static inline void
task_tools_stack_del(unsigned int id)
{
#ifdef LEAT_VALGRIND
	VALGRIND_STACK_DEREGISTER(id);
#else
	(void)id;
#endif
}

#endif /* TASK_TOOLS_H */
