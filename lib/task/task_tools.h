/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_TOOLS_H
#define TASK_TOOLS_H

/*
 * Calls that tell analysis tools about stacks, so that they can follow a switch. In a build without
 * these tools the functions are empty.
 *
 *     AddressSanitizer   which stack is in use, and where its fake frames are
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

/* 1: a sanitizer follows the switches */
#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define TASK_TOOLS 1
#else
#define TASK_TOOLS 0
#endif

/* State of the tools for one context: a task's, or the reactor's. */
struct task_tools {
	void *fake_stack; /* AddressSanitizer's fake stack, while the context does not run */
	void *fiber;	  /* ThreadSanitizer's fiber for the context */
	const void *bottom;
	size_t size;
	struct task_tools *from; /* context that switched to this one */
};

/* Begin a new context on stack i; forget the tools' state of an earlier context on this stack. */
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

/* Release the tools' state of a context that will not run again. */
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

/* Prepare the reactor's context, before it switches to the first task of a turn. */
static inline void
task_tools_thread(struct task_tools *t)
{
#ifdef TASK_TSAN
	t->fiber = __tsan_get_current_fiber();
#else
	(void)t;
#endif
}

/* Announce a switch, right before it. last: *from is a context that never runs again. */
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

/* Complete a switch, right after it, in the resumed context. */
static inline void
task_tools_enter(struct task_tools *self)
{
#ifdef TASK_ASAN
	/* Also stores the bounds of the reactor thread's stack; no other call returns them. */
	__sanitizer_finish_switch_fiber(self->fake_stack, &self->from->bottom, &self->from->size);
#else
	(void)self;
#endif
}

/* Register a stack before its first use. @return an id for task_tools_stack_del() */
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
