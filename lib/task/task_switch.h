/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_SWITCH_H
#define TASK_SWITCH_H

/*
 * The context switch, in assembly: switch_x86_64.S, switch_aarch64.S. Needs nothing but a C
 * compiler.
 *
 * A context that does not run is one pointer, to what task_switch() has pushed on its stack:
 *
 *     higher addresses   ... frames of the task ...
 *                        return address             |
 *                        callee-saved registers     |  struct task_frame
 *              sp --->   floating-point control     |
 *     lower addresses    (free)
 *
 * The other registers are the caller's to save, since a switch is a call.
 */

#include <stddef.h>
#include <stdint.h>

/* What a suspended context has saved, as it lies on the stack. devtools/gdb/leat_gdb.py knows it by
 * this name. */
#if defined(__x86_64__)
struct task_frame {
	uint32_t mxcsr;
	uint32_t x87_cw; /* the lower half */
	uint64_t r15, r14, r13, r12;
	uint64_t rbx, rbp;
	uint64_t rip;
};
#elif defined(__aarch64__)
struct task_frame {
	uint64_t d[8]; /* d8 to d15 */
	uint64_t x19, x20, x21, x22, x23, x24, x25, x26, x27, x28;
	uint64_t x29, x30;
	uint64_t fpcr;
	uint64_t pad;
};
#else
#error "lib/task: no context switch for this processor: see switch_x86_64.S"
#endif

/*
 * Suspend the running context, its pointer goes to *save, and resume another one. It returns when
 * somebody switches back.
 */
void task_switch(void **save, void *resume) __attribute__((visibility("hidden")));

/*
 * Call fn(arg) on the stack of a suspended context, which afterwards is as it was. To an unwinder
 * fn seems to have been called by what that context is suspended in.
 */
void task_call_on(void *context, void (*fn)(void *arg), void *arg)
	__attribute__((visibility("hidden")));

/* Where a new context begins: calls fn(arg), which must not return. */
void task_start(void) __attribute__((visibility("hidden")));

/*
 * A context that will call fn(arg) when it is first resumed.
 *
 * @param top
 *   Upper end of its stack, a multiple of 16.
 */
static inline void *
task_context(void *top, void (*fn)(void *arg), void *arg)
{
#if defined(__x86_64__)
	/* At task_start() the stack pointer is a multiple of 16, as it is before a call. */
	struct task_frame *f = (struct task_frame *)((char *)top - sizeof(*f));
	uint32_t mxcsr;
	uint16_t cw;

	__asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	f->mxcsr = mxcsr;
	f->x87_cw = cw;
	f->r12 = (uint64_t)(uintptr_t)fn;
	f->r13 = (uint64_t)(uintptr_t)arg;
	f->rbp = 0;
	f->rip = (uint64_t)(uintptr_t)task_start;
#else
	struct task_frame *f = (struct task_frame *)((char *)top - sizeof(*f));
	uint64_t fpcr;

	__asm__("mrs %0, fpcr" : "=r"(fpcr));
	f->fpcr = fpcr;
	f->x19 = (uint64_t)(uintptr_t)fn;
	f->x20 = (uint64_t)(uintptr_t)arg;
	f->x29 = 0;
	f->x30 = (uint64_t)(uintptr_t)task_start;
#endif
	return f;
}

#endif /* TASK_SWITCH_H */
