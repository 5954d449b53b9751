/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of leat above the calls of libfabric's provider efa, over the emulated device
 * (test/efa_sim, preloaded): the driver is compared with the same calls without leat, each with two
 * endpoints in this one process and thread.
 *
 *     bench-efa           ns per op
 *     bench-efa --count   run each case once, inside bench_counted(), whose instructions
 *                         count-instructions counts
 *
 * Both sides poll equally often, and the emulator's counters show that the device carried the data.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "efa_side.h"

enum { LEAT, REFERENCE, SIDES };

#define TARGET 1.03

/* clang-format off */
static const struct what {
	const char *name;
	enum efa_what what;
	uint32_t size;
	uint32_t ops;	 /* counted ops */
	/* instructions that leat may add to each op: its present number plus 10 % */
	uint32_t budget;
} whats[] = {
	{ "send-8", EFA_SEND, 8, 256, 790 },
	{ "send-4Ki", EFA_SEND, 4096, 256, 790 },
	{ "send-1Mi", EFA_SEND, EFA_MAX, 16, 790 },
	{ "tagged-8", EFA_TSEND, 8, 256, 790 },
	{ "tagged-4Ki", EFA_TSEND, 4096, 256, 790 },
	{ "tagged-1Mi", EFA_TSEND, EFA_MAX, 16, 790 },
	{ "read-8", EFA_READ, 8, 256, 390 },
	{ "read-4Ki", EFA_READ, 4096, 256, 390 },
	{ "read-1Mi", EFA_READ, EFA_MAX, 16, 390 },
};
/* clang-format on */
#define WHATS (sizeof(whats) / sizeof(whats[0]))

static const struct efa_side *const kinds[SIDES] = { [LEAT] = &leat_efa, [REFERENCE] = &bare_efa };
static struct side *sides[SIDES];
/* Both sides use the same memory. */
static char tx[EFA_MAX] __attribute__((aligned(4096)));
static char rx[EFA_MAX] __attribute__((aligned(4096)));
static uint64_t (*device_counter)(const char *name);

static uint64_t
counter(const char *name)
{
	return device_counter(name);
}

/* Check that the data arrives through the device, and that a READ is a READ of the device. */
static void
check(const struct what *w, unsigned int side)
{
	const bool read = w->what == EFA_READ;
	char *from = read ? rx : tx, *to = read ? tx : rx;
	uint64_t reads = counter("reads"), read_bytes = counter("read_bytes");
	uint64_t sends = counter("sends"), send_bytes = counter("send_bytes");
	uint64_t moved;
	uint32_t i;

	for (i = 0; i < w->size; i++) {
		from[i] = (char)(i * 31 + i / 256 + side + 1);
		to[i] = 0;
	}
	(void)kinds[side]->run(sides[side], 1);
	if (memcmp(tx, rx, w->size) != 0)
		bench_die("%s, %s: wrong data", w->name, kinds[side]->name);
	reads = counter("reads") - reads;
	read_bytes = counter("read_bytes") - read_bytes;
	sends = counter("sends") - sends;
	send_bytes = counter("send_bytes") - send_bytes;
	moved = read ? read_bytes : read_bytes + send_bytes;
	if (moved < w->size || (read ? reads : sends) == 0)
		bench_die("%s, %s: the device has seen %" PRIu64 " sends of %" PRIu64 " B, %" PRIu64
			  " READs of %" PRIu64 " B",
			  w->name, kinds[side]->name, sends, send_bytes, reads, read_bytes);
}

/* callgrind counts in this function: its name is an argument of count-instructions. */
uint64_t bench_counted(const struct what *w, unsigned int side);

__attribute__((noinline)) uint64_t
bench_counted(const struct what *w, unsigned int side)
{
	return kinds[side]->run(sides[side], w->ops);
}

static void
count(const struct what *w)
{
	uint64_t polls[SIDES];
	unsigned int side;

	for (side = 0; side < SIDES; side++) {
		polls[side] = bench_counted(w, side);
		printf("efa-instr-%s %s %u %g %u\n", w->name, kinds[side]->name, w->ops, TARGET,
		       w->budget);
	}
	if (polls[LEAT] != polls[REFERENCE])
		bench_die("%s: leat polls %" PRIu64 " times, the reference %" PRIu64, w->name,
			  polls[LEAT], polls[REFERENCE]);
}

static double
measure(void *arg, unsigned int side, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start = bench_ns();
	const struct what *w = arg;

	(void)kinds[side]->run(sides[side], w->ops);
	start = bench_ns() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)start / w->ops;
}

static void
times(const struct bench_args *args, const struct what *w, int cpu)
{
	static struct bench_table t;
	char name[64];
	struct bench_result r = { .name = name,
				  .unit = "ns",
				  .kind = BENCH_RATIO_MAX,
				  .target = TARGET,
				  .leat = LEAT,
				  .reference = REFERENCE };
	struct what copy = *w;

	snprintf(name, sizeof(name), "efa-time-%s", w->name);
	bench_measure(&t, args, SIDES, measure, &copy, &cpu, 1);
	bench_report(&t, &r);
}

static void
run_case(const struct bench_args *args, const struct what *w, bool counting, int cpu)
{
	unsigned int side;

	for (side = 0; side < SIDES; side++) {
		kinds[side]->prepare(sides[side], w->what, w->size);
		check(w, side);
		/*
		 * Run the same number of ops on both sides, so that work which is done once in
		 * several ops weighs equally.
		 */
		(void)kinds[side]->run(sides[side], w->ops);
	}
	if (counting)
		count(w);
	else
		times(args, w, cpu);
	for (side = 0; side < SIDES; side++)
		kinds[side]->finish(sides[side]);
}

int
main(int argc, char **argv)
{
	struct bench_args args;
	bool counting = false;
	unsigned int i;
	void *symbol;
	int cpu, n;

	bench_args(&args, argc, argv);
	for (n = 1; n < args.argc; n++) {
		if (strcmp(args.argv[n], "--count") != 0)
			continue;
		counting = true;
		memmove(&args.argv[n], &args.argv[n + 1],
			(size_t)(args.argc-- - n) * sizeof(args.argv[0]));
	}
	symbol = dlsym(RTLD_DEFAULT, "efa_sim_counter");
	if (symbol == NULL)
		bench_die("the emulated device is missing: devtools/efa-sim --part-id 0xefa2 %s",
			  argv[0]);
	memcpy(&device_counter, &symbol, sizeof(symbol));
	cpu = bench_cpu(1) >= 0 ? bench_cpu(1) : bench_cpu(0);
	for (i = 0; i < SIDES; i++)
		sides[i] = kinds[i]->open(&args, tx, rx);
	(void)bare_efa.inject_max(sides[REFERENCE], leat_efa.inject_max(sides[LEAT], 0));
	bench_pin(cpu);
	bench_thread_ready();
	args.seconds /= 4; /* the time is per table, and there are several tables */
	for (i = 0; i < WHATS; i++)
		run_case(&args, &whats[i], counting, cpu);
	for (i = SIDES; i > 0; i--)
		kinds[i - 1]->close(sides[i - 1]);
	return 0;
}
