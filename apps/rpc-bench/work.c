/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The tasks that call. Each task builds a batch of requests to nodes that it chooses at random,
 * posts it, and sleeps until all responses have arrived:
 *
 *     claim --> build --> post ~~~ asleep ~~~> complete --> check, count --> claim ...
 *                          ^                     |
 *                          `--- refused: busy ---'
 *
 * All tasks of a node claim their batches from one counter, so that the node makes exactly the
 * requested number of calls. The measurement begins with the first batch after the warm-up.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_histogram.h>
#include <leat_mr.h>
#include <leat_rpc_task.h>
#include <leat_scope.h>
#include <leat_task.h>

#include "bench.h"
#include "content.h"
#include "op.h"

/* Pause before a refused request is posted again, us, if the peer has not named a pause. */
#define BUSY_US 100u
/* Number of batches without a sleep after which a task yields to other tasks. */
#define UNWAITED_MAX 8u

struct rb_worker {
	struct rb_node *node;
	uint64_t random;
	uint32_t unwaited;
	struct leat_rpc_req **list;
	uint8_t *mem;	    /* buffers of all requests and responses */
	struct leat_mr *mr; /* --bulk: registration of mem */
	struct rb_call calls[];
};

struct batch {
	enum rb_kind kind;
	uint16_t n;
	bool measured;
	uint64_t begin; /* cycles: when it began; open loop: when it was due */
};

/* ---- measurement ---- */

static void
measure_begin(struct rb_node *n, uint64_t now)
{
	leat_rpc_stats_get(n->rpc, &n->stats);
	rb_tally_begin(&n->tally, &n->stats);
	n->first = n->last = now;
	n->measuring = true;
	/* In an open loop the schedule ends the measurement. */
	if (n->plan->duration_us != 0 && n->interval == 0)
		n->until = leat_time_add(now, leat_us_to_cycles(n->plan->duration_us));
}

static void
measure_end(struct rb_node *n)
{
	if (!n->measuring)
		return;
	n->measuring = false;
	leat_rpc_stats_get(n->rpc, &n->stats);
	rb_tally_end(&n->tally, &n->stats);
	n->tally.elapsed_ns = leat_cycles_to_ns(n->last - n->first);
}

void
rb_node_gather(struct rb_node *n)
{
	struct cpu_used used;
	uint32_t i;

	measure_end(n);
	if (n->rpc == NULL)
		return;
	for (i = 0; i < n->nb_peers; i++) {
		if (n->peers[i].session == NULL ||
		    n->bench->world.ranks[rb_node_rank(n->peers[i].node)].lost)
			n->tally.cut += n->peers[i].failed;
		else
			n->tally.failed += n->peers[i].failed;
		n->peers[i].failed = 0;
	}
	leat_rpc_stats_get(n->rpc, &n->stats);
	n->tally.late = n->stats.late;
	n->tally.refused = n->stats.refused;
	cpu_used_get(&used);
	n->used_ns = UINT64_MAX;
	if (pthread_equal(used.thread, n->used.thread)) {
		n->used_ns = cpu_own_ns(&n->used, &used);
		n->tally.preempted = used.preempted - n->used.preempted;
	}
}

/* ---- a batch ---- */

static enum rb_kind
kind_choose(const struct rb_plan *p, uint64_t random)
{
	uint32_t at = (uint32_t)(((random >> 32) * 100) >> 32);
	int k;

	for (k = 0; k < RB_KINDS - 1 && at >= p->percent[k]; k++)
		at -= p->percent[k];
	return (enum rb_kind)k;
}

/* Wait until the window has room for a batch; it always has if no call is under way. */
static bool
room_wait(struct rb_node *n)
{
	int ret = 0;

	n->nb_waiting++;
	while (ret == 0 && !n->over && n->outstanding > 0 &&
	       n->outstanding + n->set.batch > n->set.window) {
		leat_task_event_reset(&n->room);
		ret = leat_task_event_wait(&n->room);
	}
	n->nb_waiting--;
	return ret == 0;
}

static void
outstanding_add(struct rb_node *n, uint32_t calls)
{
	__atomic_store_n(&n->outstanding, n->outstanding + calls, __ATOMIC_RELAXED);
}

static bool
claim(struct rb_worker *w, struct batch *bt)
{
	struct rb_node *n = w->node;
	uint64_t left;

	if (n->interval > 0 && leat_task_sem_wait(&n->due) < 0)
		return false;
	if (unlikely(n->outstanding + n->set.batch > n->set.window) && !room_wait(n))
		return false;
	left = n->goal - n->claimed;
	if (n->over || n->nb_alive == 0 || left == 0) {
		/* Wake the next task that waits, so that it ends as well. */
		if (n->interval > 0)
			(void)leat_task_sem_post(&n->due);
		return false;
	}
	/* A batch is warm-up or measured as a whole: the last one of the warm-up may be shorter. */
	bt->measured = n->claimed >= n->warmup;
	if (!bt->measured)
		left = n->warmup - n->claimed;
	bt->n = (uint16_t)RTE_MIN((uint64_t)n->set.batch, left);
	n->claimed += bt->n;
	outstanding_add(n, bt->n);
	if (n->interval > 0)
		bt->begin = rb_pace_due(n, n->nb_begun++);
	return true;
}

static void
build(struct rb_worker *w, struct batch *bt)
{
	struct rb_node *n = w->node;
	const struct rb_op *op;
	uint64_t random;
	uint16_t i;

	bt->kind = kind_choose(n->plan, rb_random(&w->random));
	op = rb_ops[bt->kind];
	for (i = 0; i < bt->n; i++) {
		struct rb_call *c = &w->calls[i];

		random = rb_random(&w->random);
		c->peer = n->alive[((random & UINT32_MAX) * n->nb_alive) >> 32];
		c->req.session = c->peer->session;
		c->req.type = (uint8_t)bt->kind;
		c->req.len = rb_size_pick(&n->plan->req[bt->kind], random * RB_GOLDEN);
		c->bulk_out = c->bulk_in = 0;
		op->prepare(n, c, bt->kind);
		w->list[i] = &c->req;
	}
}

/*
 * Collect the calls of a batch that were refused for lack of room, to be posted again. Set *us to
 * the pause before that. @return their number
 */
static uint16_t
refused(struct rb_worker *w, uint16_t n, uint64_t *us)
{
	uint16_t i, k = 0;

	*us = 0;
	for (i = 0; i < n; i++) {
		struct leat_rpc_req *req = w->list[i];
		struct rb_call *c = container_of(req, struct rb_call, req);

		/* Of --bulk also post again calls that the handler refused for lack of a ticket. */
		if (req->status != -EBUSY || (req->refused == 0 && req->type != RB_BULK) ||
		    c->peer->session == NULL)
			continue;
		*us = RTE_MAX(*us, req->busy_us != 0 ? req->busy_us : BUSY_US);
		w->list[k++] = req;
	}
	__atomic_store_n(&w->node->tally.busy, w->node->tally.busy + k, __ATOMIC_RELAXED);
	return k;
}

/* Post the calls in w->list. Post refused calls once more, until no call is refused. */
static void
post(struct rb_worker *w, uint16_t n)
{
	uint16_t i, k;
	uint64_t us;

	while (leat_rpc_call_many(w->list, n) < 0) {
		k = refused(w, n, &us);
		if (k == 0 || leat_task_sleep(us) < 0)
			return;
		/* A session may have ended during the pause: its calls keep their status. */
		for (n = 0, i = 0; i < k; i++) {
			struct rb_call *c = container_of(w->list[i], struct rb_call, req);

			if (c->peer->session == c->req.session)
				w->list[n++] = w->list[i];
		}
		if (n == 0)
			return;
	}
}

static void
failed(struct rb_node *n, const struct rb_call *c, struct rb_tally *t)
{
	const int status = c->req.status;

	if (status == -ECANCELED && leat_task_cancelled())
		return;
	if (status == -ETIMEDOUT && n->plan->deadline_us != 0) {
		t->expired++;
		return;
	}
	/* rb_node_gather() counts the call as failed, or as cut if its session has ended. */
	c->peer->failed++;
	rb_tally_status(t, status);
	switch (status) {
	case -ESHUTDOWN:
	case -ENOTCONN:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EPROTO:
		/* The session is about to end: further calls would fail at once. */
		rb_peer_shun(c->peer);
		break;
	default:
		break;
	}
}

/* Check and count the calls of a batch. @return the number of calls that succeeded */
static uint16_t
count(struct rb_worker *w, const struct batch *bt, uint64_t now)
{
	const struct rb_op *op = rb_ops[bt->kind];
	struct rb_node *n = w->node;
	struct rb_tally *t = &n->tally;
	uint64_t out = 0, in = 0;
	uint16_t i, good = 0;

	for (i = 0; i < bt->n; i++) {
		struct rb_call *c = &w->calls[i];

		if (unlikely(c->req.status < 0)) {
			failed(n, c, t);
		} else if (likely(op->finish(n, c, bt->kind))) {
			good++;
			out += c->req.len + c->bulk_out;
			in += c->req.resp_len + c->bulk_in;
		}
	}
	__atomic_store_n(&t->made, t->made + bt->n, __ATOMIC_RELAXED);
	__atomic_store_n(&n->live, n->live + good, __ATOMIC_RELAXED);
	outstanding_add(n, -(uint32_t)bt->n);
	if (unlikely(n->nb_waiting > 0))
		leat_task_event_set(&n->room);
	leat_tune_histogram_add(&n->latency, leat_cycles_to_ns(now - bt->begin));
	if (!bt->measured)
		return good;
	t->calls[bt->kind] += good;
	t->bytes_out += out;
	t->bytes_in += in;
	n->last = now;
	if (now >= n->until)
		n->over = true;
	if (unlikely(good < bt->n))
		return good;
	t->batches[bt->kind]++;
	leat_histogram_record(n->hist[bt->kind], leat_cycles_to_ns(now - bt->begin));
	return good;
}

/* Open loop: count a batch that began late. */
static void
delay_note(struct rb_node *n, const struct batch *bt, uint64_t now)
{
	uint64_t late = now - bt->begin;

	if ((double)late > n->interval)
		n->tally.delayed++;
	n->tally.delayed_max_ns = RTE_MAX(n->tally.delayed_max_ns, leat_cycles_to_ns(late));
}

static void
run_batch(struct rb_worker *w, struct batch *bt)
{
	struct rb_node *n = w->node;
	uint64_t now;

	build(w, bt);
	now = leat_now();
	if (n->interval == 0)
		bt->begin = now;
	else if (bt->measured)
		delay_note(n, bt, now);
	if (unlikely(bt->measured && !n->measuring))
		measure_begin(n, bt->begin);
	post(w, bt->n);
	/*
	 * The task has slept if the batch had responses. A batch that was one-way, or in which
	 * calls failed, may have completed without a sleep: after UNWAITED_MAX of these the task
	 * yields.
	 */
	if ((count(w, bt, leat_now()) < bt->n || rb_ops[bt->kind]->oneway) &&
	    ++w->unwaited % UNWAITED_MAX == 0)
		(void)leat_task_yield();
}

/* ---- tasks ---- */

static void
node_done(struct rb_node *n)
{
	rb_pace_stop(n);
	if (n->plan->percent[RB_ONEWAY] > 0) {
		rb_flush(n);
		if (n->measuring)
			n->last = leat_now();
	}
	measure_end(n);
	rb_node_state_set(n, RB_NODE_DONE);
}

static int
work(void *arg)
{
	struct rb_worker *w = arg;
	struct rb_node *n = w->node;
	struct batch bt = { 0 };

	while (!leat_task_cancelled() && claim(w, &bt)) {
		run_batch(w, &bt);
		leat_tune_serve(n->tune);
	}
	if (n->nb_workers == 1)
		node_done(n);
	/* Last, since rb_node_close() may free the node from here on. */
	__atomic_store_n(&n->nb_workers, n->nb_workers - 1, __ATOMIC_RELAXED);
	return 0;
}

/* Return the bytes of a worker's memory that a request or response of this size needs. */
static size_t
room(uint32_t size)
{
	return RTE_ALIGN_CEIL((size_t)size, (size_t)8);
}

/*
 * Lay out a worker's buffers; w NULL: only compute their length. All buffers of a kind are
 * together, so that small ones are close to each other. @return bytes
 */
static uint64_t
mem_place(const struct rb_plan *p, struct rb_worker *w)
{
	uint64_t at = 0;
	uint32_t i;
	int k;

	for (k = 0; k < RB_KINDS; k++) {
		for (i = 0; i < p->batch && p->percent[k] > 0; i++) {
			if (w != NULL) {
				w->calls[i].buf[k] = w->mem + at;
				w->calls[i].resp[k] = w->mem + at + room(p->req[k].max);
			}
			at += room(p->req[k].max) + room(p->resp[k].max);
		}
	}
	return at;
}

static uint64_t
mem_size(const struct rb_plan *p)
{
	return RTE_MAX(mem_place(p, NULL), UINT64_C(8));
}

uint64_t
rb_work_memory(const struct rb_plan *p)
{
	return p->tasks * mem_place(p, NULL);
}

static struct rb_worker *
worker_create(struct rb_node *n, uint32_t index)
{
	const struct rb_plan *p = n->plan;
	struct rb_worker *w = calloc(1, sizeof(*w) + p->batch * sizeof(w->calls[0]));

	if (w == NULL)
		return NULL;
	w->node = n;
	w->random = rb_mix(p->seed + ((uint64_t)n->id << 32 | index));
	w->list = calloc(p->batch, sizeof(*w->list));
	w->mem = calloc(1, mem_size(p));
	if (w->list == NULL || w->mem == NULL) {
		free(w->list);
		free(w->mem);
		free(w);
		return NULL;
	}
	(void)mem_place(p, w);
	return w;
}

void
rb_workers_deregister(struct rb_node *n)
{
	uint32_t i;

	for (i = 0; n->workers != NULL && i < n->plan->tasks && n->workers[i] != NULL; i++) {
		struct rb_worker *w = n->workers[i];

		if (w->mr != NULL && leat_mr_deregister(w->mr) < 0)
			rb_msg("lcore %u: %s", n->lcore, leat_err_msg());
		w->mr = NULL;
	}
}

void
rb_workers_free(struct rb_node *n)
{
	uint32_t i;

	for (i = 0; n->workers != NULL && i < n->plan->tasks && n->workers[i] != NULL; i++) {
		free(n->workers[i]->list);
		free(n->workers[i]->mem);
		free(n->workers[i]);
	}
	free(n->workers);
	n->workers = NULL;
}

static int
worker_register(struct rb_node *n, struct rb_worker *w)
{
	int ret = rb_bulk_register(n, w->mem, mem_size(n->plan), &w->mr);
	uint32_t i;

	for (i = 0; i < n->plan->batch; i++)
		w->calls[i].mr = n->one_sided ? w->mr : NULL;
	return ret;
}

static int
workers_start(struct rb_node *n)
{
	const uint32_t tasks = n->plan->tasks;
	char name[32];
	uint32_t i;

	n->workers = calloc(tasks, sizeof(*n->workers));
	for (i = 0; n->workers != NULL && i < tasks; i++) {
		n->workers[i] = worker_create(n, i);
		if (n->workers[i] == NULL)
			break;
	}
	if (n->workers == NULL || i < tasks)
		return rb_node_fail(n, ENOMEM, "no memory for %u tasks", tasks);
	for (i = 0; i < tasks; i++) {
		if (worker_register(n, n->workers[i]) < 0)
			return -EIO;
	}
	for (i = 0; i < tasks; i++) {
		snprintf(name, sizeof(name), "work%u", i);
		if (leat_task_start(name, work, n->workers[i]) < 0)
			return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
		__atomic_store_n(&n->nb_workers, n->nb_workers + 1, __ATOMIC_RELAXED);
	}
	return 0;
}

int
rb_node_start(void *node)
{
	struct rb_node *n = node;
	const struct rb_plan *p = n->plan;
	const struct rb_world *w = &n->bench->world;
	uint64_t calls = rb_world_share(w, n->lcore, p->calls);

	cpu_used_get(&n->used);
	n->until = UINT64_MAX;
	n->spoil = p->corrupt;
	rb_node_state_set(n, RB_NODE_RUNNING);
	if (!rb_world_self(w)->calls || (p->calls != 0 && calls == 0)) {
		rb_node_state_set(n, RB_NODE_DONE);
		return 0;
	}
	n->warmup = p->warmup;
	n->goal = p->calls == 0 ? UINT64_MAX : calls + n->warmup;
	if (p->rate_mhz != 0 && rb_pace_start(n) < 0)
		return -EIO;
	if (rb_tune_start(n) < 0)
		return -EIO;
	return workers_start(n);
}

void
rb_node_over(struct rb_node *n)
{
	n->over = true;
	leat_task_event_set(&n->room);
	if (n->interval > 0)
		(void)leat_task_sem_post(&n->due);
}
