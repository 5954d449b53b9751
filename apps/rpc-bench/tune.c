/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of a calling lcore: rpc_bench.toml. Each task serves them after a
 * batch; a poller serves them as well, for times in which no batch completes.
 */

#include <leat_error.h>
#include <leat_poller.h>

#include "bench.h"

#define BIT(setting) (UINT64_C(1) << (setting))
#define SERVE_US 1000

#define RLX_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	struct rpc_bench_tune_settings *want = wanted;
	struct rb_node *n = arg;

	if ((changed & BIT(RPC_BENCH_TUNE_BATCH)) != 0 && n->interval > 0)
		return leat_err(EOPNOTSUPP, "an open loop (--rate) has its batches planned");
	want->batch = RTE_MIN(want->batch, n->plan->batch);
	want->window = RTE_MAX(want->window, want->batch);
	/* Wake the tasks that wait for room in the window: they check it again. */
	leat_task_event_set(&n->room);
	return 0;
}

static void
report(void *arg, void *to)
{
	struct rpc_bench_tune_report *rep = to;
	const struct rb_node *n = arg;
	uint64_t made = RLX_LOAD(n->tally.made), live = RLX_LOAD(n->live);

	rep->outstanding = RLX_LOAD(n->outstanding);
	rep->tasks = RLX_LOAD(n->nb_workers);
	rep->calls = live;
	/* A batch may complete between the reads of made and live: then live can be larger. */
	rep->failed = made - RTE_MIN(made, live);
	rep->busy = RLX_LOAD(n->tally.busy);
	leat_tune_histogram_read(&rep->latency, &n->latency);
}

static int
serve(void *arg, uint64_t now)
{
	struct rb_node *n = arg;

	(void)now;
	leat_tune_serve(n->tune);
	return 0;
}

int
rb_tune_start(struct rb_node *n)
{
	struct leat_tune_conf conf = {
		.schema = &rpc_bench_tune_schema,
		.settings = &n->set,
		.apply = apply,
		.report = report,
		.arg = n,
	};
	char name[32];

	snprintf(name, sizeof(name), "lcore%u", n->lcore);
	conf.name = name;
	n->set.batch = n->plan->batch;
	n->set.window = n->plan->tasks * n->plan->batch;
	n->tune = leat_tune_add(&conf);
	if (n->tune == NULL)
		return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
	n->server = leat_reactor_poller_add(n->reactor, "settings", serve, n, SERVE_US);
	return n->server != NULL ? 0 : rb_node_fail(n, rte_errno, "%s", leat_err_msg());
}

void
rb_tune_stop(struct rb_node *n)
{
	if (n->server != NULL)
		(void)leat_poller_remove(n->server);
	n->server = NULL;
}

void
rb_tune_free(struct rb_node *n)
{
	leat_tune_del(n->tune);
	n->tune = NULL;
}
