/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The leading task of a process, on its first lcore. It leads the nodes through the phases of a
 * run, in step with the other processes:
 *
 *     open nodes -- connect -- MEET start -- run -- MEET done -- gather -- MEET end -- close
 */

#include <stdlib.h>
#include <string.h>

#include <rte_random.h>

#include <leat_error.h>
#include <leat_histogram.h>
#include <leat_scope.h>
#include <leat_task_call.h>

#include "lead.h"

/* Time for all nodes to close: sessions and endpoints take a second or two each. */
#define CLOSE_US (8 * RB_US)

/* Have all nodes reached this state, or a later one? */
static bool
nodes_are(struct rb_bench *b, const void *state)
{
	uint16_t i;

	for (i = 0; i < b->nb_nodes; i++) {
		if (rb_node_state(b->nodes[i]) < *(const enum rb_node_state *)state)
			return false;
	}
	return true;
}

static int
nodes_call(struct rb_bench *b, int (*fn)(void *node))
{
	int ret = 0, err;
	uint16_t i;

	for (i = 0; i < b->nb_nodes && ret == 0; i++) {
		err = leat_task_call(b->nodes[i]->reactor, fn, b->nodes[i], &ret);
		if (err == -ECANCELED) {
			b->interrupted = true;
			return err;
		}
		if (err < 0)
			return rb_fail(b, -err, "lcore %u: %s", i, strerror(-err));
		if (ret < 0)
			(void)rb_fail(b, -ret, "lcore %u: %s", i, b->nodes[i]->why);
	}
	return ret;
}

/* ---- open ---- */

static uint16_t
port_of(const char *addr)
{
	const char *colon = strrchr(addr, ':');

	return colon == NULL ? 0 : (uint16_t)strtoul(colon + 1, NULL, 10);
}

int
rb_lead_open(struct rb_bench *b)
{
	struct rb_rank *self = rb_world_self(&b->world);
	uint16_t i;
	int ret;

	b->phase = RB_SETUP;
	b->nb_ended = 0;
	self->token = (uint32_t)rte_rand();
	for (i = 0; i < self->card.nb_lcores; i++) {
		b->nodes[i] = rb_node_create(b, i);
		if (b->nodes[i] == NULL)
			return rb_fail(b, ENOMEM, "out of memory");
		b->nb_nodes++;
	}
	ret = nodes_call(b, rb_node_open);
	b->rpc = b->nodes[0]->stats;
	for (i = 0; i < b->nb_nodes; i++)
		self->port[i] = port_of(b->nodes[i]->addr);
	return ret;
}

/* ---- run ---- */

static int
connect_all(struct rb_bench *b)
{
	static const enum rb_node_state up = RB_NODE_UP;
	int ret = nodes_call(b, rb_node_connect);

	if (ret == 0)
		ret = rb_wait(b, nodes_are, &up, rb_in(b->o.timeout_us));
	if (ret == -ETIMEDOUT)
		ret = rb_fail(b, ETIMEDOUT,
			      "not all sessions were connected within %.0f s (--timeout)",
			      (double)b->o.timeout_us / (double)RB_US);
	return ret;
}

static void
idle_set(enum leat_idle_policy policy)
{
	const struct leat_idle_conf conf = { .policy = policy };
	unsigned int i;

	for (i = 0; i < leat_app_count(); i++)
		(void)leat_reactor_idle_set(leat_app_reactor(i), &conf);
}

/*
 * Before and after the measurement idle lcores sleep, so that the scheduler of a busy machine gives
 * them a CPU soon when they wake. In the measurement, "--idle auto" spins if each lcore has a CPU
 * to itself, and yields if lcores may share one.
 */
static void
idle_choose(struct rb_bench *b)
{
	enum leat_idle_policy policy = b->o.idle;

	b->crowded = rb_world_crowded(&b->world);
	if (policy == LEAT_IDLE_AUTO && b->crowded)
		policy = LEAT_IDLE_YIELD;
	idle_set(policy);
	b->idle = policy == LEAT_IDLE_AUTO ? LEAT_IDLE_SPIN : policy;
}

static int
watch_all(struct rb_bench *b)
{
	uint32_t i;

	for (i = 0; i < b->link.nb_peers; i++) {
		if (b->link.peers[i].up && rb_link_watch(&b->link.peers[i]) < 0)
			return rb_fail(b, rte_errno, "%s", leat_err_msg());
	}
	return 0;
}

static int
run_nodes(struct rb_bench *b)
{
	static const enum rb_node_state done = RB_NODE_DONE;
	int ret;

	b->phase = RB_RUNNING;
	b->ran = true;
	ret = watch_all(b);
	cpu_load_get(&b->load[0]);
	rb_progress_begin(b);
	if (ret == 0)
		ret = nodes_call(b, rb_node_start);
	if (ret == 0)
		ret = rb_wait(b, nodes_are, &done, UINT64_MAX);
	rb_progress_end(b);
	cpu_load_get(&b->load[1]);
	return ret;
}

/* ---- gather ---- */

static int
node_gather(void *node)
{
	rb_node_gather(node);
	return 0;
}

static void
others_set(const struct rb_bench *b, struct rb_node *n)
{
	double share = -1;

	if (n->where.nb_cpus == 1 && n->used_ns != UINT64_MAX)
		share = cpu_others(&b->load[0], &b->load[1], n->where.cpu, n->used_ns);
	n->tally.others = share < 0 ? -1 : (int32_t)(RTE_MIN(share, 1.0) * 1000);
}

static int
result_create(struct rb_bench *b)
{
	struct rb_rank *self = rb_world_self(&b->world);
	uint16_t i;
	int k;

	self->result = rb_result_create(b->nb_nodes);
	if (self->result == NULL)
		return rb_fail(b, ENOMEM, "out of memory");
	for (i = 0; i < b->nb_nodes; i++) {
		others_set(b, b->nodes[i]);
		self->result->lcore[i] = b->nodes[i]->tally;
		for (k = 0; k < RB_KINDS; k++)
			leat_histogram_merge(self->result->hist[k], b->nodes[i]->hist[k]);
	}
	return 0;
}

int
rb_lead_gather(struct rb_bench *b)
{
	int ret = nodes_call(b, node_gather);

	return ret < 0 ? ret : result_create(b);
}

void
rb_lead_gather_late(struct rb_bench *b)
{
	uint16_t i;

	if (!b->ran || rb_world_self(&b->world)->result != NULL)
		return;
	if (b->load[1].total[0] == 0)
		cpu_load_get(&b->load[1]);
	for (i = 0; i < b->nb_nodes; i++)
		rb_node_gather(b->nodes[i]);
	(void)result_create(b);
}

/* Leave the run. The nodes may be freed from here on: keep the number of their calls. */
static void
leave(struct rb_bench *b)
{
	b->progress.final = rb_live(b);
	b->phase = RB_LEAVING;
}

int
rb_lead_run(struct rb_bench *b)
{
	uint64_t start = rb_in(b->o.timeout_us);
	int ret = connect_all(b);

	if (ret == 0)
		ret = rb_meet(b, RB_MEET_START, NULL, start);
	if (ret == 0) {
		b->small = b->nodes[0]->small;
		idle_choose(b);
		rb_report_head(b);
		ret = run_nodes(b);
	}
	if (ret == 0)
		ret = rb_meet(b, RB_MEET_DONE, NULL, UINT64_MAX);
	if (ret == 0) {
		b->phase = RB_GATHERING;
		ret = rb_lead_gather(b);
	}
	if (ret == 0)
		ret = rb_meet(b, RB_MEET_END, rb_world_self(&b->world)->result, UINT64_MAX);
	if (ret == 0)
		leave(b);
	return ret;
}

/* ---- close ---- */

static int
node_close(void *arg)
{
	struct rb_node *n = arg;
	struct rb_bench *b = n->bench;
	const uint16_t lcore = n->lcore;

	if (rb_node_close(n) == 0)
		/* release: pairs with the acquire in nb_unclosed() */
		__atomic_store_n(&b->nodes[lcore], NULL, __ATOMIC_RELEASE);
	rb_news(b);
	return 0;
}

static int
close_start(void *node)
{
	rb_node_over(node);
	return leat_task_start("close", node_close, node);
}

/* Return the number of nodes that are not closed yet. */
static unsigned int
nb_unclosed(struct rb_bench *b)
{
	unsigned int n = 0;
	uint16_t i;

	for (i = 0; i < b->nb_nodes; i++)
		/* acquire: NULL means that the node's memory was freed */
		n += __atomic_load_n(&b->nodes[i], __ATOMIC_ACQUIRE) != NULL;
	return n;
}

int
rb_lead_close(struct rb_bench *b)
{
	const uint64_t end = rb_in(CLOSE_US);
	unsigned int left;
	uint16_t i;

	leave(b);
	idle_set(LEAT_IDLE_SLEEP);
	for (i = 0; i < b->nb_nodes; i++) {
		if (leat_task_call(b->nodes[i]->reactor, close_start, b->nodes[i], NULL) < 0)
			return -ECANCELED;
	}
	while (nb_unclosed(b) > 0 && leat_now() < end && leat_task_sleep(1000) == 0)
		;
	left = nb_unclosed(b);
	if (left > 0 && leat_task_cancelled())
		return -ECANCELED;
	if (left > 0)
		return rb_fail(b, EBUSY, "%u of %u lcores have not closed within %.0f s", left,
			       b->nb_nodes, (double)CLOSE_US / (double)RB_US);
	b->nb_nodes = 0;
	return 0;
}

int
rb_lead_free(struct rb_bench *b)
{
	int ret = 0;
	uint16_t i;

	for (i = 0; i < b->nb_nodes; i++) {
		if (b->nodes[i] != NULL && rb_node_free(b->nodes[i]) < 0)
			ret = -EBUSY;
	}
	b->nb_nodes = 0;
	if (rb_link_close(&b->link) < 0)
		ret = -EBUSY;
	rb_world_free(&b->world);
	return ret;
}
