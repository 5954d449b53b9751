/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/tasks                    reactors that have tasks, and their counters
 *     /leat/tasks,REACTOR            tasks of reactor number REACTOR, in the order of the tree
 *     /leat/tasks,REACTOR,FIRST      the same, from position FIRST on
 *
 * Tasks may change at any moment, so their reactor copies them, in a message:
 *
 *     telemetry's thread                     reactor
 *     asks, waits                 ------->   copies as many tasks as fit into an answer
 *       (at most a second)        <-------   done
 *     writes JSON
 *
 * A reactor that does not answer within a second is blocked, or does not run. Then the answer names
 * the running task, which may be the one that blocks it.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_errno.h>
#include <rte_telemetry.h>

#include <leat_error.h>
#include <leat_log.h>

#include "leat_compat.h"
#include "task_pvt.h"

/* Maximum number of tasks in one answer: DPDK limits answers to 16 KiB. */
#define TASKS_SHOWN 40
#define PATIENCE_S 1

struct shown {
	struct leat_task_info info;
	uint32_t depth;
};

/* A request. The side that drops the last reference frees it: an answer may come too late. */
struct question {
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	unsigned int refs;
	bool done;
	unsigned int reactor;
	uint32_t first;
	int ret; /* number of tasks of the reactor, or a negative errno */
	uint32_t nb_shown;
	struct shown shown[TASKS_SHOWN];
};

static void
question_unref(struct question *q)
{
	unsigned int refs;

	(void)pthread_mutex_lock(&q->lock);
	refs = --q->refs;
	(void)pthread_mutex_unlock(&q->lock);
	if (refs > 0)
		return;
	(void)pthread_cond_destroy(&q->done_cond);
	(void)pthread_mutex_destroy(&q->lock);
	free(q);
}

static int
copy(struct question *q, const struct leat_tasks *ts)
{
	struct task_node *nodes;
	uint32_t i;
	int n;

	n = task_tree(ts, &nodes);
	if (n < 0)
		return n;
	for (i = q->first; i < (uint32_t)n && q->nb_shown < TASKS_SHOWN; i++) {
		struct shown *s = &q->shown[q->nb_shown++];

		leat_task_info_get(&ts->blocks[nodes[i].index], &s->info);
		s->depth = nodes[i].depth;
	}
	free(nodes);
	return n;
}

/* Answer, on the reactor's thread. The reactor's tasks may have been destroyed meanwhile. */
static void
answer(void *arg)
{
	struct question *q = arg;
	const struct leat_tasks *ts = task_registry[q->reactor];

	(void)pthread_mutex_lock(&q->lock);
	q->ret = ts == NULL ? -ENOENT : copy(q, ts);
	q->done = true;
	(void)pthread_cond_signal(&q->done_cond);
	(void)pthread_mutex_unlock(&q->lock);
	question_unref(q);
}

static void
dropped(void *arg)
{
	question_unref(arg);
}

static struct question *
question_new(unsigned int reactor, uint32_t first)
{
	struct question *q = calloc(1, sizeof(*q));
	pthread_condattr_t attr;

	if (q == NULL)
		return NULL;
	q->refs = 1;
	q->reactor = reactor;
	q->first = first;
	(void)pthread_mutex_init(&q->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&q->done_cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	return q;
}

static int
ask(struct question *q)
{
	struct leat_tasks *ts;
	int ret;

	task_lock();
	ts = task_registry[q->reactor];
	q->refs++;
	ret = ts == NULL ? -ENOENT : leat_reactor_call_drop(ts->reactor, answer, dropped, q);
	task_unlock();
	if (ret < 0)
		q->refs--;
	return ret;
}

/* Wait for the answer. @return false: the reactor did not answer in time */
static bool
wait_for(struct question *q)
{
	struct timespec until;
	bool done;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	(void)pthread_mutex_lock(&q->lock);
	while (!q->done && pthread_cond_timedwait(&q->done_cond, &q->lock, &until) == 0)
		;
	done = q->done;
	(void)pthread_mutex_unlock(&q->lock);
	return done;
}

static int
add_task(struct rte_tel_data *tasks, uint32_t place, const struct shown *s, uint64_t now)
{
	struct rte_tel_data *d = rte_tel_data_alloc();
	char key[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	snprintf(key, sizeof(key), "%u", place);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", s->info.id);
	rte_tel_data_add_dict_uint(d, "parent", s->info.parent);
	rte_tel_data_add_dict_uint(d, "depth", s->depth);
	rte_tel_data_add_dict_string(d, "name", s->info.name);
	rte_tel_data_add_dict_string(d, "state", leat_task_state_name(s->info.state));
	if (s->info.waits[0] != '\0')
		rte_tel_data_add_dict_string(d, "waits", s->info.waits);
	rte_tel_data_add_dict_uint(d, "since_us", leat_cycles_to_ns(now - s->info.since) / 1000);
	rte_tel_data_add_dict_uint(d, "stack_used", s->info.stack_used);
	rte_tel_data_add_dict_uint(d, "stack_peak", s->info.stack_peak);
	ret = rte_tel_data_add_dict_container(tasks, key, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

static int
show_answer(struct rte_tel_data *d, const struct question *q)
{
	uint64_t now = leat_now();
	struct rte_tel_data *tasks;
	uint32_t i;
	int ret = 0;

	if (q->ret < 0)
		return q->ret;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "nb_tasks", (uint64_t)q->ret);
	if (q->nb_shown == 0)
		return 0;
	tasks = rte_tel_data_alloc();
	if (tasks == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(tasks);
	/* If memory runs out, the other tasks are left out; nb_tasks counts all tasks. */
	for (i = 0; i < q->nb_shown && ret == 0; i++)
		ret = add_task(tasks, q->first + i, &q->shown[i], now);
	ret = rte_tel_data_add_dict_container(d, "tasks", tasks, 0);
	if (ret < 0)
		rte_tel_data_free(tasks);
	return ret;
}

static int
show_silence(struct rte_tel_data *d, unsigned int reactor)
{
	const struct leat_tasks *ts;
	char name[LEAT_TASK_NAME_MAX] = "";
	const struct leat_task *t;
	size_t i;

	rte_tel_data_start_dict(d);
	task_lock();
	ts = task_registry[reactor];
	t = ts != NULL ? RLX_LOAD(ts->current) : NULL;
	for (i = 0; t != NULL && i < sizeof(name) - 1; i++)
		name[i] = RLX_LOAD(t->name[i]);
	task_unlock();
	rte_tel_data_add_dict_string(d, "error", "the reactor does not answer");
	if (t != NULL)
		rte_tel_data_add_dict_string(d, "running", name[0] != '\0' ? name : TASK_UNNAMED);
	return 0;
}

/* Parse "REACTOR" or "REACTOR,FIRST". */
static int
parse(const char *params, unsigned long *reactor, unsigned long *first)
{
	char *end;

	*first = 0;
	if (*params < '0' || *params > '9')
		return -EINVAL;
	errno = 0;
	*reactor = strtoul(params, &end, 10);
	if (*end == ',' && end[1] >= '0' && end[1] <= '9')
		*first = strtoul(end + 1, &end, 10);
	return errno == 0 && *end == '\0' && *first <= LEAT_TASKS_LIMIT &&
			       *reactor < LEAT_REACTOR_MAX
		       ? 0
		       : -EINVAL;
}

static int
show_reactors(struct rte_tel_data *d)
{
	struct leat_tasks_stats s;
	unsigned int i;
	int ret = 0;

	rte_tel_data_start_dict(d);
	task_lock();
	for (i = 0; i < LEAT_REACTOR_MAX && ret == 0; i++) {
		struct rte_tel_data *one;
		char id[16];

		if (task_registry[i] == NULL)
			continue;
		one = rte_tel_data_alloc();
		if (one == NULL) {
			ret = -ENOMEM;
			break;
		}
		leat_tasks_stats_get(task_registry[i], &s);
		rte_tel_data_start_dict(one);
		rte_tel_data_add_dict_string(one, "reactor",
					     leat_reactor_name(task_registry[i]->reactor));
		rte_tel_data_add_dict_uint(one, "tasks", s.tasks);
		rte_tel_data_add_dict_uint(one, "ready", s.ready);
		rte_tel_data_add_dict_uint(one, "spawned", s.spawned);
		rte_tel_data_add_dict_uint(one, "refused", s.refused);
		rte_tel_data_add_dict_uint(one, "switches", s.switches);
		rte_tel_data_add_dict_uint(one, "hogs", s.hogs);
		rte_tel_data_add_dict_uint(one, "stacks", s.stacks);
		snprintf(id, sizeof(id), "%u", i);
		ret = rte_tel_data_add_dict_container(d, id, one, 0);
		if (ret < 0)
			rte_tel_data_free(one);
	}
	task_unlock();
	return ret;
}

static int
cmd_tasks(const char *cmd, const char *params, struct rte_tel_data *d)
{
	unsigned long reactor, first;
	struct question *q;
	int ret;

	RTE_SET_USED(cmd);
	if (params == NULL || *params == '\0')
		return show_reactors(d);
	if (parse(params, &reactor, &first) < 0)
		return -EINVAL;
	q = question_new((unsigned int)reactor, (uint32_t)first);
	if (q == NULL)
		return -ENOMEM;
	ret = ask(q);
	if (ret == 0)
		ret = wait_for(q) ? show_answer(d, q) : show_silence(d, q->reactor);
	else if (ret == -ESHUTDOWN)
		ret = show_silence(d, q->reactor);
	question_unref(q);
	return ret;
}

static void
register_commands(void)
{
	int ret = rte_telemetry_register_cmd(
		"/leat/tasks", cmd_tasks,
		"Tasks. Parameters: none, or reactor[,place of the first task]");

	if (ret < 0)
		LEAT_LOG(WARNING, task, "telemetry commands are missing: %s", rte_strerror(-ret));
}

void
task_telemetry_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, register_commands);
}
