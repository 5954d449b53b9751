/* SPDX-License-Identifier: BSD-3-Clause */

/* See count.h. */

#include <stdio.h>
#include <string.h>

#include "count.h"

#define LINE 64
#define KNOWN 128u
/* Runs of a case, of which the smallest count is used: some calls also do periodic work. */
#define REPEATS 3
/* Eight times the simulated cache: see count-instructions. */
#define JUNK (1u << 20)
/* More of the stack than a case uses. */
#define STACK 8192

static uint8_t junk[JUNK] __attribute__((aligned(LINE)));
static uint8_t known[KNOWN][LINE] __attribute__((aligned(LINE)));

bool
count_option(struct bench_args *args)
{
	int i, n = 0;
	bool found = false;

	for (i = 0; i < args->argc; i++) {
		if (strcmp(args->argv[i], "--count") == 0)
			found = true;
		else
			args->argv[n++] = args->argv[i];
	}
	args->argc = n;
	return found;
}

/* Prevent clones of a function, which would have different names. clang makes none. */
#if __has_attribute(noclone)
#define NOCLONE __attribute__((noclone))
#else
#define NOCLONE
#endif

/* Callgrind counts in this function only: its name is an argument of count-instructions. */
void bench_counted(count_fn run, uint32_t ops, uint32_t burst);

__attribute__((noinline)) NOCLONE void
bench_counted(count_fn run, uint32_t ops, uint32_t burst)
{
	run(ops, burst);
	__asm__ volatile(""); /* no tail call: callgrind would not see the return */
}

/* Fill the simulated cache with lines that no case uses. */
static __attribute__((noinline)) void
cache_empty(void)
{
	uint32_t i, sum = 0;

	/* Valgrind leaves out a load whose value is not used. */
	for (i = 0; i < JUNK; i += LINE)
		sum += ((volatile uint8_t *)junk)[i];
	BENCH_USE(sum);
}

/* Bring the stack below the caller back into the simulated cache. */
static __attribute__((noinline)) void
stack_touch(void)
{
	uint8_t below[STACK];

	memset(below, 0, sizeof(below));
	BENCH_USE(below);
}

static void
count_lines(count_fn run, uint32_t ops, uint32_t burst)
{
	run(ops, burst);
	cache_empty();
	stack_touch();
	bench_counted(run, ops, burst);
}

/* ---- a known number of lines: one per op ---- */

static void
known_read(uint32_t ops, uint32_t burst)
{
	uint32_t i, sum = 0;

	(void)burst;
	for (i = 0; i < ops; i++)
		sum += *(volatile uint8_t *)&known[i % KNOWN][i % LINE];
	BENCH_USE(sum);
}

static void
known_write(uint32_t ops, uint32_t burst)
{
	uint32_t i;

	(void)burst;
	for (i = 0; i < ops; i++)
		*(volatile uint8_t *)&known[i % KNOWN][i % LINE] = 1;
	/* The lines are in the cache now, and are not counted again. */
	known_read(ops, burst);
}

static void
count_known(void)
{
	count_lines(known_read, KNOWN, 1);
	printf("known-lines leat %u\n", KNOWN);
	count_lines(known_write, KNOWN, 1);
	printf("known-lines reference %u\n", KNOWN);
}

/* ---- cases ---- */

void
count_cases(const char *subject, const struct count_case *cases, unsigned int n)
{
	static const char *const sides[COUNT_SIDES] = { "leat", "reference" };
	unsigned int i, k, side;

	count_known();
	for (i = 0; i < n; i++) {
		const struct count_case *c = &cases[i];
		const uint32_t line_ops = c->line_ops > 0 ? c->line_ops : c->burst;

		for (side = 0; side < COUNT_SIDES; side++) {
			c->run[side](c->ops, c->burst);
			bench_counted(c->run[side], c->ops, c->burst);
			printf("%s-instr-%s %s %u %s =%g\n", subject, c->name, sides[side], c->ops,
			       c->target != NULL ? c->target : "0", c->instr);
			for (k = 0; k < REPEATS; k++) {
				count_lines(c->run[side], line_ops, c->burst);
				printf("%s-lines-%s %s %u 0 =%g\n", subject, c->name, sides[side],
				       line_ops, c->lines);
			}
		}
	}
}
