/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of settings and telemetry for a loop: a reactor on the second lcore carries messages
 * between two of its endpoints, with 32 in flight:
 *
 *     OFF      without a control thread
 *     ALONE    with a control thread, and no agent
 *     READ     an agent requests all records 1,000 times per second, and reads them
 *     SAMPLED  as READ, and every 64th op is timed
 *
 * The agent is another process, and like the control thread it runs on the other CPU.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_reactor.h>
#include <leat_tune.h>

#include "lcores.h"

enum { OFF, ALONE, READ, SAMPLED, VARIANTS };

#define WINDOW 32
/* Time for which messages are counted. */
#define TURN_NS UINT64_C(50000000)

static struct {
	struct lcores l;
	struct leat_reactor *r;
	struct leat_op tx[WINDOW], rx[2 * WINDOW];
	uint64_t data[WINDOW];
	uint64_t messages; /* counted by the reactor's thread */
	/* written on the reactor's thread, read when done is set */
	uint64_t ns, count, pushed;
	uint32_t done;
	unsigned int variant;
	char dir[64];
	pid_t agent;
	FILE *to, *from;
} b;

static void
repost(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	/* ESHUTDOWN: the benchmark is ending. */
	if (leat_ep_post(ep, ops, n) != n && rte_errno != ESHUTDOWN)
		bench_die("post: %s", rte_strerror(rte_errno));
}

static void
sent(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	(void)arg;
	(void)now;
	if (ops[0]->status != 0)
		return;
	repost(ep, ops, n);
}

static void
received(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	(void)arg;
	(void)now;
	if (ops[0]->status != 0)
		return;
	b.messages += n;
	repost(ep, ops, n);
}

static void
begin(void *arg)
{
	struct leat_op *op;
	unsigned int i;

	(void)arg;
	bench_thread_ready();
	for (i = 0; i < 2 * WINDOW; i++) {
		b.rx[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					    .peer = LEAT_PEER_ANY,
					    .buf = &b.data[i % WINDOW],
					    .size = 8 };
		op = &b.rx[i];
		repost(b.l.ep[1], &op, 1);
	}
	for (i = 0; i < WINDOW; i++) {
		b.tx[i] = (struct leat_op){
			.type = LEAT_OP_SEND, .peer = b.l.peer[0], .buf = &b.data[i], .size = 8
		};
		op = &b.tx[i];
		repost(b.l.ep[0], &op, 1);
	}
	__atomic_store_n(&b.done, 1, __ATOMIC_RELEASE); /* pairs with ask() */
}

static void
look(void *arg)
{
	(void)arg;
	b.count = b.messages;
	b.pushed = bench_pushed_off();
	b.ns = bench_ns();
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

/* ---- variants ---- */

static void
tell_agent(const char *line)
{
	char answer[16];

	if (fprintf(b.to, "%s\n", line) < 0 || fflush(b.to) != 0 ||
	    fgets(answer, sizeof(answer), b.from) == NULL)
		bench_die("the agent has ended");
}

static void
choose(unsigned int variant)
{
	struct leat_tune_start_conf conf = { .program = "bench", .dir = b.dir };

	if (variant == b.variant)
		return;
	tell_agent("off");
	leat_tune_stop();
	b.variant = variant;
	if (variant == OFF)
		return;
	if (leat_tune_start(&conf) < 0)
		bench_die("%s", leat_err_msg());
	if (variant != ALONE)
		tell_agent(variant == SAMPLED ? "0.001 64" : "0.001 off");
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	uint64_t ns, count, pushed;

	(void)arg;
	choose(variant);
	ask(look);
	ns = b.ns;
	count = b.count;
	pushed = b.pushed;
	(void)bench_rest(-1, TURN_NS);
	ask(look);
	*disturbed = b.pushed != pushed;
	if (b.count == count)
		bench_die("no messages");
	return (double)(b.ns - ns) / (double)(b.count - count);
}

/* ---- the agent ---- */

static void
start_agent(const char *python, const char *script)
{
	int in[2], out[2];

	if (pipe(in) != 0 || pipe(out) != 0)
		bench_die("pipe");
	b.agent = fork();
	if (b.agent < 0)
		bench_die("fork");
	if (b.agent == 0) {
		(void)dup2(in[0], STDIN_FILENO);
		(void)dup2(out[1], STDOUT_FILENO);
		(void)close(in[1]);
		(void)close(out[0]);
		(void)execlp(python, python, "-B", script, b.dir, (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	b.to = fdopen(in[1], "w");
	b.from = fdopen(out[0], "r");
	if (b.to == NULL || b.from == NULL)
		bench_die("fdopen");
	bench_process_add(b.agent);
	tell_agent("off");
}

static void
stop_agent(void)
{
	tell_agent("off");
	(void)fclose(b.to);
	(void)fclose(b.from);
	(void)waitpid(b.agent, NULL, 0);
}

/* Start leat without a control thread: the variants that need one start it. */
static void
start(struct bench_args *args)
{
	static const struct leat_ep_conf conf = { .tx_depth = 4 * WINDOW, .rx_depth = 4 * WINDOW };
	const struct leat_reactor_conf rconf = { .idle = { .policy = LEAT_IDLE_SPIN } };
	static char no_tune[] = "--no-tune";
	static char *with[64];
	int i;

	for (i = 0; i < args->argc && i < 62; i++)
		with[i] = args->argv[i];
	with[i++] = no_tune;
	args->argc = i;
	args->argv = with;
	lcores_start(&b.l, args, &conf);
	b.r = leat_reactor_create(&rconf);
	if (b.r == NULL || leat_reactor_ep_add(b.r, b.l.ep[0], sent, NULL, NULL) == NULL ||
	    leat_reactor_ep_add(b.r, b.l.ep[1], received, NULL, NULL) == NULL ||
	    leat_reactor_launch(b.r, b.l.worker) < 0)
		bench_die("%s", leat_err_msg());
	ask(begin);
}

int
main(int argc, char **argv)
{
	static const struct bench_result results[] = {
		{ "tune-alone", "ns", BENCH_RATIO_MAX, 1.005, ALONE, OFF, NULL },
		{ "tune-read-1000", "ns", BENCH_RATIO_MAX, 1.005, READ, OFF, NULL },
		{ "tune-sampled-64", "ns", BENCH_RATIO_MAX, 0, SAMPLED, OFF, NULL },
	};
	static struct bench_table t;
	const char *python, *script;
	struct bench_args args;
	size_t i;

	bench_args(&args, argc, argv);
	python = bench_option(&args, "--python", "python3");
	script = bench_option(&args, "--agent", NULL);
	if (script == NULL)
		bench_skip("needs --agent, the script tune_agent.py");
	snprintf(b.dir, sizeof(b.dir), "/tmp/leat-bench-tune-%d", (int)getpid());
	start_agent(python, script);
	start(&args);
	bench_measure(&t, &args, VARIANTS, measure, NULL, &b.l.cpus[1], 1);
	for (i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		bench_report(&t, &results[i]);
	stop_agent();
	leat_tune_stop();
	(void)rmdir(b.dir);
	leat_reactor_stop(b.r, 1000000);
	if (leat_reactor_wait(b.r) < 0 || leat_reactor_destroy(b.r) < 0)
		bench_die("%s", leat_err_msg());
	lcores_stop(&b.l);
	return 0;
}
