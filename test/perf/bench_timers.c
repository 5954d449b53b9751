/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of a timer while a million others are idle, and while there is no other: start and stop,
 * as for the deadline of an op that completes in time, and the check of the wheel in each idle
 * turn. No lcore, no EAL.
 */

#include <sys/mman.h>

#include <leat_wheel.h>

#include "bench.h"

#define MILLION 1000000U
/* Timers in flight at a time, like a window of ops. */
#define WINDOW 64
/* A microsecond in cycles of a clock of 2 GHz, and a tick of 32 us. */
#define US UINT64_C(2000)
#define TICK (32 * US)
#define START (UINT64_C(1) << 47)

enum { BESIDE, ALONE, VARIANTS };

static struct {
	struct leat_wheel wheel[VARIANTS];
	struct leat_wheel_node window[VARIANTS][WINDOW];
	struct leat_wheel_node *idle;
	uint64_t now[VARIANTS];
	uint32_t rounds, turns;
	unsigned int fired;
} b;

static void
on_timer(struct leat_wheel_node *node, void *arg)
{
	(void)arg;
	b.fired++;
	/* This idle timer fired: start it again, for another minute. */
	leat_wheel_add(&b.wheel[BESIDE], node, node->expiry + 60000 * 1000 * US);
}

/* Start a million timers that expire in 30 to 90 s, as idle timeouts do. */
static void
prepare(void)
{
	uint64_t x = 88172645463325252;
	unsigned int i;

	for (i = 0; i < VARIANTS; i++) {
		b.now[i] = START;
		leat_wheel_init(&b.wheel[i], TICK, START);
	}
	b.idle = mmap(NULL, MILLION * sizeof(*b.idle), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.idle == MAP_FAILED)
		bench_die("no memory for a million timers");
	for (i = 0; i < MILLION; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		leat_wheel_add(&b.wheel[BESIDE], &b.idle[i],
			       START + 30000 * 1000 * US + x % (60000 * 1000 * US));
	}
}

static void
turn(unsigned int variant)
{
	b.now[variant] += US / 10;
	(void)leat_wheel_run(&b.wheel[variant], b.now[variant], on_timer, NULL, 64);
}

/* Start a window of deadlines of 10 ms, run one turn, and stop them, long before they expire. */
static double
start_stop(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start = bench_ns(), ns;
	struct leat_wheel_node *node = b.window[variant];
	uint32_t i, k;

	(void)arg;
	for (i = 0; i < b.rounds; i++) {
		for (k = 0; k < WINDOW; k++)
			leat_wheel_add(&b.wheel[variant], &node[k],
				       b.now[variant] + 10000 * US + k);
		turn(variant);
		for (k = 0; k < WINDOW; k++)
			leat_wheel_del(&b.wheel[variant], &node[k]);
	}
	ns = bench_ns() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)ns / ((double)b.rounds * WINDOW);
}

static double
idle_turn(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start = bench_ns(), ns;
	uint32_t i;

	(void)arg;
	for (i = 0; i < b.turns; i++)
		turn(variant);
	ns = bench_ns() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)ns / b.turns;
}

int
main(int argc, char **argv)
{
	static const struct bench_result results[] = {
		{ "timer-start-stop", "ns", BENCH_DIFF_MAX, 5, BESIDE, ALONE, NULL },
		{ "timer-idle-turn", "ns", BENCH_DIFF_MAX, 2, BESIDE, ALONE, NULL },
	};
	static struct bench_table t;
	struct bench_args args;
	int cpu;

	bench_args(&args, argc, argv);
	cpu = bench_cpu(0);
	bench_pin(cpu);
	bench_thread_ready();
	b.rounds = args.smoke ? 20 : 1000;
	b.turns = args.smoke ? 1000 : 200000;
	prepare();
	bench_measure(&t, &args, VARIANTS, start_stop, NULL, &cpu, 1);
	bench_report(&t, &results[0]);
	bench_measure(&t, &args, VARIANTS, idle_turn, NULL, &cpu, 1);
	bench_report(&t, &results[1]);
	(void)munmap(b.idle, MILLION * sizeof(*b.idle));
	return 0;
}
