/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of an idle turn of a reactor with one endpoint, less the cost of the driver's own empty
 * poll. The reactor spins on the second lcore; messages to it read its counter of turns, or make it
 * call the driver's poll in a loop.
 */

#include <leat_error.h>
#include <leat_reactor.h>

#include "lcores.h"

enum { TURN, POLL, VARIANTS };

/* Time for which turns are counted. */
#define TURN_NS UINT64_C(1000000)

static struct {
	struct lcores l;
	struct leat_reactor *r;
	uint32_t polls;
	/* written on the reactor's thread, read when done is set */
	uint64_t ns, turns, pushed;
	uint32_t done;
} b;

static void
read_turns(void *arg)
{
	struct leat_reactor_stats stats;

	(void)arg;
	leat_reactor_stats_get(b.r, &stats);
	b.turns = stats.turns;
	b.pushed = bench_pushed_off();
	b.ns = bench_ns();
	__atomic_store_n(&b.done, 1, __ATOMIC_RELEASE); /* pairs with ask() */
}

static void
poll_loop(void *arg)
{
	struct leat_ep *ep = b.l.ep[1];
	struct leat_op *ops[LEAT_EP_BURST];
	uint64_t start, pushed = bench_pushed_off();
	uint32_t i;

	(void)arg;
	start = bench_ns();
	ep->out = ops;
	ep->out_end = ops + LEAT_EP_BURST;
	for (i = 0; i < b.polls; i++)
		ep->poll(ep);
	ep->out = NULL;
	ep->out_end = NULL;
	b.ns = bench_ns() - start;
	b.pushed = bench_pushed_off() - pushed;
	__atomic_store_n(&b.done, 1, __ATOMIC_RELEASE); /* pairs with ask() */
}

static void
ready(void *arg)
{
	(void)arg;
	bench_thread_ready();
	__atomic_store_n(&b.done, 1, __ATOMIC_RELEASE); /* pairs with ask() */
}

static void
ask(leat_reactor_message_fn fn)
{
	__atomic_store_n(&b.done, 0, __ATOMIC_RELAXED);
	if (leat_reactor_call(b.r, fn, NULL) < 0)
		bench_die("%s", leat_err_msg());
	while (__atomic_load_n(&b.done, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t ns, turns, pushed;

	(void)arg;
	if (variant == POLL) {
		ask(poll_loop);
		*disturbed = b.pushed != 0;
		return (double)b.ns / b.polls;
	}
	ask(read_turns);
	ns = b.ns;
	turns = b.turns;
	pushed = b.pushed;
	/* Sleep rather than loop: activity of this CPU may slow the other one. */
	(void)bench_rest(-1, TURN_NS);
	ask(read_turns);
	*disturbed = b.pushed != pushed;
	if (b.turns == turns)
		bench_die("the reactor does not turn");
	return (double)(b.ns - ns) / (double)(b.turns - turns);
}

int
main(int argc, char **argv)
{
	static const struct bench_result result = {
		"reactor-idle-turn", "ns", BENCH_DIFF_MAX, 20, TURN, POLL, NULL,
	};
	const struct leat_reactor_conf rconf = { .idle = { .policy = LEAT_IDLE_SPIN } };
	const struct leat_ep_conf conf = { .name = NULL };
	static struct bench_table t;
	struct bench_args args;

	bench_args(&args, argc, argv);
	lcores_start(&b.l, &args, &conf);
	b.polls = args.smoke ? 1000 : 50000;
	b.r = leat_reactor_create(&rconf);
	if (b.r == NULL || leat_reactor_ep_add(b.r, b.l.ep[1], NULL, NULL, NULL) == NULL ||
	    leat_reactor_launch(b.r, b.l.worker) < 0)
		bench_die("%s", leat_err_msg());
	ask(ready);
	bench_measure(&t, &args, VARIANTS, measure, NULL, &b.l.cpus[1], 1);
	bench_report(&t, &result);
	leat_reactor_stop(b.r, 1000000);
	if (leat_reactor_wait(b.r) < 0 || leat_reactor_destroy(b.r) < 0)
		bench_die("%s", leat_err_msg());
	lcores_stop(&b.l);
	return 0;
}
