/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process with workers, for tests of agents: each worker is a thread with an object, which it
 * serves in each turn. The process needs no EAL. It prints "ready", and ends cleanly at SIGTERM or
 * SIGINT. At SIGUSR1 the first worker removes its object, and adds it again.
 */

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <leat_error.h>
#include <leat_tune.h>

#include "item_tune.h"
#include "worker_tune.h"

#define WORKERS_MAX 64

struct worker {
	struct worker_tune_settings set;
	struct leat_tune_object *tune;
	pthread_t thread;
	uint64_t calls, turns, applied;
	struct leat_tune_histogram latency;
	unsigned int index;
	bool started;
};

static struct {
	const char *dir, *settings;
	unsigned int workers, rows, hang_ms, spare;
	bool churn, spin;
} opt = { .workers = 2 };

static struct worker workers[WORKERS_MAX];
static bool stop, renew;

static uint64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int
apply(void *arg, void *want, uint64_t changed)
{
	struct worker_tune_settings *s = want;
	struct worker *w = arg;

	if ((changed & (1U << WORKER_TUNE_CHECKED)) != 0 && s->checked)
		return leat_err(EOPNOTSUPP, "worker%u can't check", w->index);
	s->batch -= s->batch % 8;
	__atomic_store_n(&w->applied, w->applied + 1, __ATOMIC_RELAXED);
	return 0;
}

static void
report(void *arg, void *to)
{
	struct worker_tune_report *r = to;
	const struct worker *w = arg;

	r->calls = __atomic_load_n(&w->calls, __ATOMIC_RELAXED);
	r->turns = __atomic_load_n(&w->turns, __ATOMIC_RELAXED);
	r->applied = __atomic_load_n(&w->applied, __ATOMIC_RELAXED);
	r->load = (double)(r->turns % 100) / 100;
	snprintf(r->state, sizeof(r->state), "%s", r->turns == 0 ? "new" : "working");
	leat_tune_histogram_read(&r->latency, &w->latency);
}

static int
row(void *arg, uint32_t i, struct leat_tune_row *to)
{
	struct item_tune_report *r = to->report;
	const struct worker *w = arg;

	if (i >= opt.rows)
		return -1;
	/* A free row, like that of a peer that disconnected. */
	if (i % 5 == 3)
		return 0;
	snprintf(to->name, sizeof(to->name), "item%u", i);
	r->count = __atomic_load_n(&w->turns, __ATOMIC_RELAXED) + i;
	return 1;
}

static struct leat_tune_object *
add(struct worker *w, const char *name)
{
	const struct leat_tune_conf conf = {
		.schema = &worker_tune_schema,
		.name = name,
		.settings = &w->set,
		.apply = apply,
		.report = report,
		/*
		 * Every other worker reports on its own thread, the others on the control thread.
		 */
		.report_on_owner = w->index % 2 == 0,
		.row = row,
		.row_schema = &item_tune_schema,
		.arg = w,
	};

	return leat_tune_add(&conf);
}

static void
turn(struct worker *w)
{
	uint64_t begin = now_ns();

	__atomic_store_n(&w->calls, w->calls + w->set.batch, __ATOMIC_RELAXED);
	__atomic_store_n(&w->turns, w->turns + 1, __ATOMIC_RELAXED);
	leat_tune_serve(w->tune);
	if (!opt.spin)
		(void)sched_yield();
	leat_tune_histogram_add(&w->latency, now_ns() - begin);
}

static void *
work(void *arg)
{
	uint64_t hang_at = opt.hang_ms == 0 ? UINT64_MAX : now_ns() + opt.hang_ms * 1000000ULL;
	struct leat_tune_object *extra;
	struct worker *w = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		/* The last worker hangs: it serves nothing any more. */
		if (w->index == opt.workers - 1 && now_ns() >= hang_at) {
			(void)sched_yield();
			continue;
		}
		turn(w);
		if (w->index == 0 && __atomic_exchange_n(&renew, false, __ATOMIC_RELAXED)) {
			leat_tune_del(w->tune);
			w->tune = add(w, "w0");
			if (w->tune == NULL)
				abort();
		}
		if (opt.churn && w->turns % 64 == 0) {
			extra = add(w, "churn");
			if (extra == NULL)
				abort();
			leat_tune_serve(extra);
			leat_tune_del(extra);
		}
	}
	return NULL;
}

static int
start_worker(struct worker *w, unsigned int i)
{
	char name[16];

	w->index = i;
	memcpy(&w->set, worker_tune_schema.defaults, sizeof(w->set));
	snprintf(name, sizeof(name), "w%u", i);
	w->tune = add(w, name);
	if (w->tune == NULL)
		return -1;
	w->started = i < opt.workers && pthread_create(&w->thread, NULL, work, w) == 0;
	return w->started || i >= opt.workers ? 0 : -1;
}

static void
parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tune-dir", required_argument, NULL, 'd' },
		{ "settings", required_argument, NULL, 's' },
		{ "workers", required_argument, NULL, 'w' },
		{ "rows", required_argument, NULL, 'r' },
		{ "hang", required_argument, NULL, 'h' },
		{ "spare", required_argument, NULL, 'x' },
		{ "churn", no_argument, NULL, 'c' },
		{ "spin", no_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'd':
			opt.dir = optarg;
			break;
		case 's':
			opt.settings = optarg;
			break;
		case 'w':
			opt.workers = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'r':
			opt.rows = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'h':
			opt.hang_ms = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'x':
			opt.spare = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'c':
			opt.churn = true;
			break;
		case 'p':
			opt.spin = true;
			break;
		default:
			exit(2);
		}
	}
	if (opt.workers < 1 || opt.workers + opt.spare > WORKERS_MAX)
		exit(2);
}

int
main(int argc, char **argv)
{
	struct leat_tune_start_conf conf = { .program = "test-process" };
	int ret = EXIT_SUCCESS, sig;
	unsigned int i;
	sigset_t set;

	parse(argc, argv);
	conf.dir = opt.dir;
	conf.settings = opt.settings;
	if (leat_tune_start(&conf) < 0) {
		fprintf(stderr, "%s\n", leat_err_msg());
		return EXIT_FAILURE;
	}
	/* Block these signals in all workers: sigwait() below receives them. */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGUSR1);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Spare workers have an object that no thread serves. */
	for (i = 0; i < opt.workers + opt.spare && ret == EXIT_SUCCESS; i++) {
		if (start_worker(&workers[i], i) < 0) {
			fprintf(stderr, "%s\n", leat_err_msg());
			ret = EXIT_FAILURE;
		}
	}
	if (ret == EXIT_SUCCESS) {
		printf("ready\n");
		(void)fflush(stdout);
		while (sigwait(&set, &sig) == 0 && sig == SIGUSR1)
			__atomic_store_n(&renew, true, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < WORKERS_MAX; i++) {
		if (workers[i].started)
			(void)pthread_join(workers[i].thread, NULL);
		leat_tune_del(workers[i].tune);
	}
	leat_tune_stop();
	return ret;
}
