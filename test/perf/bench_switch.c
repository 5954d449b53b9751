/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of a context switch, and how much each of its guarantees adds. The program switches to
 * and fro between its own stack and another one:
 *
 *     leat    task_switch(): saves six registers and the floating-point control (mxcsr and the x87
 *             control word), and loads the control only if that of the resumed context differs
 *     bare    saves and loads six registers, and nothing else: a task that changes its rounding
 *             changes that of all other tasks
 *     store   bare, and stores the control without ever loading it: what the two store instructions
 *             cost
 *     load    bare, and stores and loads the control at each switch: the simplest switch that
 *             preserves what a function call preserves
 */

#include <rte_common.h>

#include "bench_switch.h"
#include "count.h"
#include "task_switch.h"

#ifdef __x86_64__ /* on other processors bench_task.c skips itself */

enum { LEAT, BARE, STORE, LOAD, SWITCHES };

#define STACK 16384

static struct {
	void *here[SWITCHES], *there[SWITCHES]; /* contexts */
	char stack[SWITCHES][STACK] __attribute__((aligned(64)));
	uint32_t n; /* pairs of switches, to and fro, per repeat */
} b;

/* clang-format off */
#define SWITCH(name, store, load)                                                                  \
	void name##_switch(void **save, void *resume);                                             \
	__asm__("	.text\n"                                                                   \
		"	.balign 64\n"                                                              \
		"	.type " #name "_switch, @function\n"                                       \
		#name "_switch:\n"                                                                 \
		"	pushq %rbp\n"                                                              \
		"	pushq %rbx\n"                                                              \
		"	pushq %r12\n"                                                              \
		"	pushq %r13\n"                                                              \
		"	pushq %r14\n"                                                              \
		"	pushq %r15\n"                                                              \
		store                                                                              \
		"	movq %rsp, (%rdi)\n"                                                       \
		"	movq %rsi, %rsp\n"                                                         \
		load                                                                               \
		"	popq %r15\n"                                                               \
		"	popq %r14\n"                                                               \
		"	popq %r13\n"                                                               \
		"	popq %r12\n"                                                               \
		"	popq %rbx\n"                                                               \
		"	popq %rbp\n"                                                               \
		"	ret\n"                                                                     \
		"	.size " #name "_switch, . - " #name "_switch\n")

#define STORE_CONTROL                                                                              \
		"	leaq -8(%rsp), %rsp\n"                                                     \
		"	stmxcsr (%rsp)\n"                                                          \
		"	fnstcw 4(%rsp)\n"
#define LOAD_CONTROL                                                                               \
		"	ldmxcsr (%rsp)\n"                                                          \
		"	fldcw 4(%rsp)\n"
#define DROP_CONTROL                                                                               \
		"	leaq 8(%rsp), %rsp\n"
/* clang-format on */

SWITCH(bare, "", "");
SWITCH(store, STORE_CONTROL, DROP_CONTROL);
SWITCH(load, STORE_CONTROL, LOAD_CONTROL DROP_CONTROL);

/* Switches of a kind are made in one place, as in lib/task. */
#define LOOPS(kind, NAME, call)                                                                    \
	static __rte_noinline void kind##_to(void **save, void *resume)                            \
	{                                                                                          \
		call(save, resume);                                                                \
	}                                                                                          \
	static void *kind##_there(void *arg)                                                       \
	{                                                                                          \
		for (;;)                                                                           \
			kind##_to(&b.there[NAME], b.here[NAME]);                                   \
		return arg;                                                                        \
	}                                                                                          \
	/* Switch n times to and fro. */                                                           \
	static void kind##_switches(uint32_t n)                                                    \
	{                                                                                          \
		for (; n > 0; n--)                                                                 \
			kind##_to(&b.here[NAME], b.there[NAME]);                                   \
	}                                                                                          \
	static void kind##_count(uint32_t ops, uint32_t burst)                                     \
	{                                                                                          \
		(void)burst;                                                                       \
		kind##_switches(ops / 2);                                                          \
	}

LOOPS(leat, LEAT, task_switch)
LOOPS(bare, BARE, bare_switch)
LOOPS(store, STORE, store_switch)
LOOPS(load, LOAD, load_switch)

static void (*const switches[SWITCHES])(uint32_t n) = {
	[LEAT] = leat_switches,
	[BARE] = bare_switches,
	[STORE] = store_switches,
	[LOAD] = load_switches,
};

static void
make_contexts(void)
{
	static void *(*const there[SWITCHES])(void *) = {
		[BARE] = bare_there,
		[STORE] = store_there,
		[LOAD] = load_there,
	};
	struct task_frame control;
	unsigned int i;

	task_control_get(&control);
	task_begin(&b.here[LEAT], b.stack[LEAT] + STACK - 64, leat_there, NULL, &control);
	for (i = BARE; i < SWITCHES; i++) {
		/* Leave out the topmost word: after a call it would be the return address. */
		char *top = b.stack[i] + STACK - 64 - sizeof(void *);
		struct task_frame *frame = (struct task_frame *)(void *)(top - sizeof(*frame));

		*frame = control;
		frame->rip = (uintptr_t)there[i];
		b.there[i] = i == BARE ? (void *)&frame->r15 : frame;
	}
}

/* Leat's side is the same in each case, and so is its budget. */
#define COUNTED .burst = 2, .ops = 256, .instr = 35.3, .lines = 2

void
bench_switch_count(void)
{
	static const struct count_case cases[] = {
		{
			.name = "switch",
			.run = { leat_count, load_count },
			COUNTED,
			.target = "1.25",
		},
		{
			.name = "switch-store",
			.run = { leat_count, store_count },
			COUNTED,
		},
		{
			.name = "switch-bare",
			.run = { leat_count, bare_count },
			COUNTED,
		},
	};

	make_contexts();
	count_cases("task", cases, RTE_DIM(cases));
}

static double
run(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start = bench_ns();

	(void)arg;
	switches[variant](b.n);
	start = bench_ns() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)start / (2.0 * b.n);
}

void
bench_switch(const struct bench_args *args, int cpu)
{
	static const struct bench_result results[] = {
		{
			.name = "task-switch",
			.unit = "ns",
			.kind = BENCH_RATIO_MAX,
			.target = 1,
			.leat = LEAT,
			.reference = LOAD,
			.note = "beside one that loads the control each time",
		},
		{
			.name = "task-switch-bare",
			.unit = "ns",
			.kind = BENCH_RATIO_MAX,
			.leat = LEAT,
			.reference = BARE,
			.note = "beside one of six registers",
		},
		{
			.name = "task-switch-store",
			.unit = "ns",
			.kind = BENCH_RATIO_MAX,
			.leat = LEAT,
			.reference = STORE,
			.note = "beside one that stores the control",
		},
	};
	static struct bench_table t;
	unsigned int i;

	b.n = args->smoke ? 1000 : 200000;
	make_contexts();
	bench_measure(&t, args, SWITCHES, run, NULL, &cpu, 1);
	for (i = 0; i < RTE_DIM(results); i++)
		bench_report(&t, &results[i]);
}

#endif
