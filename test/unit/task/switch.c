/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Test the context switch without DPDK, so that the switch of another processor can be
 * cross-compiled and run under an emulator. On failure the program prints the condition and exits
 * with 1.
 */

#include <fenv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "task_switch.h"

#define STACK 65536
#define SWITCHES 100000

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct co {
	char stack[STACK] __attribute__((aligned(64)));
	void *here;  /* the context that switched to this one */
	void *there; /* this context */
	unsigned int number;
	unsigned int rounds;
	int mode; /* rounding mode */
};

static struct co co[3];

static void
resume(struct co *c)
{
	task_switch(&c->here, c->there);
}

static __attribute__((noinline)) void
suspend(struct co *c)
{
	task_switch(&c->there, c->here);
}

/*
 * In registers_*.S: fill the callee-saved registers with values made from v, switch, and add up the
 * registers.
 * @return 6 v if the switch has preserved the registers
 */
uint64_t with_registers(void **save, void *resume, uint64_t v);

static void *
registers(void *arg)
{
	struct co *c = arg;
	uint64_t v;

	for (v = 0; v < c->rounds; v++)
		CHECK(with_registers(&c->there, c->here, 1000 * v + c->number) ==
		      6 * (1000 * v + c->number));
	return c->here;
}

static void
test_registers(const struct task_frame *control)
{
	uint64_t v;
	int i;

	for (i = 0; i < 3; i++) {
		co[i].number = (unsigned int)i;
		co[i].rounds = SWITCHES;
		task_begin(&co[i].here, co[i].stack + STACK, registers, &co[i], control);
	}
	for (v = 1; v < SWITCHES; v++)
		for (i = 0; i < 3; i++)
			CHECK(with_registers(&co[i].here, co[i].there, v << 32) == 6 * (v << 32));
	for (i = 0; i < 3; i++)
		resume(&co[i]);
}

static volatile double one = 1, minus = -1, three = 3;

static void *
rounding(void *arg)
{
	struct co *c = arg;

	CHECK(fegetround() == FE_TONEAREST);
	CHECK(((uintptr_t)__builtin_frame_address(0) & 15) == 0);
	CHECK(fesetround(c->mode) == 0);
	suspend(c);
	CHECK(fegetround() == c->mode);
	CHECK((one / three < -(minus / three)) == (c->mode == FE_DOWNWARD));
	suspend(c);
	/* This context ends with the rounding mode c->mode; main() resumes with its own mode. */
	return c->here;
}

static void
test_rounding(const struct task_frame *control)
{
	static const int modes[] = { FE_DOWNWARD, FE_TONEAREST, FE_UPWARD };
	int i, k;

	for (i = 0; i < 3; i++)
		co[i].mode = modes[i];
	/* A context begins with the rounding mode of `control`, whatever mode its creator has. */
	CHECK(fesetround(FE_UPWARD) == 0);
	for (i = 0; i < 3; i++) {
		task_begin(&co[i].here, co[i].stack + STACK, rounding, &co[i], control);
		CHECK(fegetround() == FE_UPWARD);
	}
	CHECK(fesetround(FE_TONEAREST) == 0);
	for (k = 0; k < 2; k++)
		for (i = 0; i < 3; i++) {
			resume(&co[i]);
			CHECK(fegetround() == FE_TONEAREST);
		}
}

/* The frames that an unwinder finds on the stack of a suspended context. */
static struct {
	uintptr_t ip[32];
	unsigned int n;
} trace;

static _Unwind_Reason_Code
on_frame(struct _Unwind_Context *context, void *arg)
{
	(void)arg;
	if (trace.n == 32)
		return _URC_END_OF_STACK;
	trace.ip[trace.n++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static void
unwind(void *arg)
{
	CHECK(arg == &trace);
	_Unwind_Backtrace(on_frame, NULL);
}

static uintptr_t inner_ip, outer_ip; /* return addresses of inner() and outer() */

static __attribute__((noinline)) void
inner(struct co *c)
{
	inner_ip = (uintptr_t)__builtin_return_address(0);
	suspend(c);
	__asm__ volatile("");
}

static __attribute__((noinline)) void
outer(struct co *c)
{
	outer_ip = (uintptr_t)__builtin_return_address(0);
	inner(c);
	__asm__ volatile("");
}

static void *
deep(void *arg)
{
	struct co *c = arg;

	outer(c);
	__asm__ volatile("");
	return c->here;
}

static bool
seen(uintptr_t ip)
{
	unsigned int i;

	for (i = 0; i < trace.n; i++)
		if (trace.ip[i] == ip)
			return true;
	return false;
}

static void
test_unwind(const struct task_frame *control)
{
	struct co *c = &co[0];

	task_begin(&c->here, c->stack + STACK, deep, c, control);
	task_call_on(c->there, unwind, &trace);
	CHECK(seen(inner_ip));
	CHECK(seen(outer_ip));
	/* The trace ends where the context began. */
	CHECK(trace.n < 16);
	/* The unwinder has left the stack unchanged: the context can resume. */
	resume(c);
}

int
main(void)
{
	struct task_frame control;

	task_control_get(&control);
	test_registers(&control);
	test_rounding(&control);
	test_unwind(&control);
	return 0;
}
