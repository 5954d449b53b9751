/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_SWITCH_H
#define TASK_SWITCH_H

/*
 * The context switch, in assembly: switch_x86_64.S, switch_aarch64.S. Needs nothing but a C
 * compiler.
 *
 * A suspended context is one pointer, to the struct task_frame that task_switch() has pushed on
 * its stack:
 *
 *     higher addresses   ... frames of the task ...
 *                        return address             |
 *                        callee-saved registers     |  struct task_frame
 *              sp --->   floating-point control     |
 *     lower addresses    (free)
 *
 * The compiler saves all other registers in the caller, since a switch is a function call.
 */

#include <stddef.h>
#include <stdint.h>

/* Registers of a suspended context, as on its stack. devtools/leat-gdb.py uses this name. */
#if defined(__x86_64__)
struct task_frame {
	uint32_t mxcsr;
	uint32_t x87_cw; /* control word in the lower half */
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
 * Suspend the running context, store its pointer in *save, and resume another context. Returns when
 * a context switches back.
 */
void task_switch(void **save, void *resume) __attribute__((visibility("hidden")));

/*
 * Call fn(arg) on the stack of a suspended context, which stays suspended and unchanged. An
 * unwinder sees fn called by the function in which that context is suspended.
 */
void task_call_on(void *context, void (*fn)(void *arg), void *arg)
	__attribute__((visibility("hidden")));

/*
 * Suspend the running context, as task_switch() does, and call fn(arg) on a new stack. fn returns
 * the context to resume then; the stack is not used any more.
 *
 * @param top
 *   Upper end of the stack, a multiple of 16.
 * @param like
 *   Holds the floating-point control that fn gets, see task_control_get().
 */
void task_begin(void **save, void *top, void *(*fn)(void *arg), void *arg,
		const struct task_frame *like) __attribute__((visibility("hidden")));

/* Store the running context's floating-point control in a frame; leave its other fields alone. */
static inline void
task_control_get(struct task_frame *frame)
{
#if defined(__x86_64__)
	uint16_t cw;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(frame->mxcsr), "=m"(cw));
	frame->x87_cw = cw;
#else
	__asm__ volatile("mrs %0, fpcr" : "=r"(frame->fpcr));
#endif
}

#endif /* TASK_SWITCH_H */
