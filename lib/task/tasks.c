/* SPDX-License-Identifier: BSD-3-Clause */

/* The tasks of a reactor: create, destroy, get, trim. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <leat_error.h>
#include <leat_log.h>

#include "task_pvt.h"

#define TASKS_DEFAULT 1024
#define STACK_DEFAULT (64 * 1024)
#define HOG_US_DEFAULT 100000

struct leat_tasks *task_registry[LEAT_REACTOR_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A default mutex that the calling thread does not hold: locking it can't fail. */
void
task_lock(void)
{
	(void)pthread_mutex_lock(&lock);
}

void
task_unlock(void)
{
	(void)pthread_mutex_unlock(&lock);
}

static void
publish(struct leat_tasks *ts)
{
	task_lock();
	task_overflow_add();
	/* Release: pairs with find() in overflow.c, in which the SIGSEGV handler reads *ts. */
	__atomic_store_n(&task_registry[leat_reactor_id(ts->reactor)], ts, __ATOMIC_RELEASE);
	task_unlock();
	task_watch_add(ts);
	task_telemetry_init();
}

static void
withdraw(struct leat_tasks *ts)
{
	task_lock();
	__atomic_store_n(&task_registry[leat_reactor_id(ts->reactor)], NULL, __ATOMIC_RELEASE);
	task_overflow_del();
	task_unlock();
	task_watch_del(ts);
	/*
	 * Wait for threads in answer() of call.c, which still use ts for a few instructions.
	 * Acquire: pairs with the release at the end of answer().
	 */
	while (__atomic_load_n(&ts->nb_answering, __ATOMIC_ACQUIRE) != 0)
		(void)sched_yield();
}

static int
check_conf(const char *name, const struct leat_tasks_conf *conf)
{
	if (conf->max_tasks > LEAT_TASKS_LIMIT)
		return leat_err(EINVAL, "%s: tasks: max_tasks: %u is more than %u", name,
				conf->max_tasks, LEAT_TASKS_LIMIT);
	if (conf->stack_size != 0 &&
	    (conf->stack_size < LEAT_TASK_STACK_MIN || conf->stack_size > LEAT_TASK_STACK_MAX))
		return leat_err(EINVAL, "%s: tasks: stack_size: %u is not from %u to %u", name,
				conf->stack_size, LEAT_TASK_STACK_MIN, LEAT_TASK_STACK_MAX);
	if ((unsigned int)conf->guard > LEAT_TASK_GUARD_CANARY)
		return leat_err(EINVAL, "%s: tasks: guard: there is no kind %u", name,
				(unsigned int)conf->guard);
	return 0;
}

static void
release(struct leat_tasks *ts)
{
	uint32_t i;

	for (i = 0; i < ts->nb_stacks; i++)
		task_tools_end(&ts->blocks[i].tools);
	task_calls_free(ts);
	task_stacks_fini(&ts->stacks, ts->nb_stacks);
	if (ts->blocks != NULL)
		(void)munmap(ts->blocks, ts->max_tasks * sizeof(*ts->blocks));
	free(ts);
}

static int
configure(struct leat_tasks *ts, const struct leat_tasks_conf *conf)
{
	const char *name = leat_reactor_name(ts->reactor);
	void *blocks;

	ts->max_tasks = conf->max_tasks != 0 ? conf->max_tasks : TASKS_DEFAULT;
	ts->hog_us = conf->hog_us != 0 ? conf->hog_us : HOG_US_DEFAULT;
	task_list_init(&ts->ready);
	task_list_init(&ts->yielded);
	ts->readied = TASK_READIED_START;
	blocks = mmap(NULL, ts->max_tasks * sizeof(*ts->blocks), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (blocks == MAP_FAILED)
		return leat_err(ENOMEM, "%s: tasks: no memory for %u control blocks", name,
				ts->max_tasks);
	ts->blocks = blocks;
	return task_stacks_init(&ts->stacks, name, ts->max_tasks,
				conf->stack_size != 0 ? conf->stack_size : STACK_DEFAULT,
				conf->guard);
}

struct leat_tasks *
leat_tasks_create(struct leat_reactor *r, const struct leat_tasks_conf *conf)
{
	static const struct leat_tasks_conf defaults;
	struct leat_tasks *ts;

	if (conf == NULL)
		conf = &defaults;
	if (r == NULL) {
		leat_err(EINVAL, "tasks: no reactor");
		return NULL;
	}
	if (check_conf(leat_reactor_name(r), conf) < 0)
		return NULL;
	if (task_registry[leat_reactor_id(r)] != NULL) {
		leat_err(EEXIST, "%s: it has tasks already", leat_reactor_name(r));
		return NULL;
	}
	ts = aligned_alloc(LEAT_CACHE_LINE, sizeof(*ts));
	if (ts == NULL) {
		leat_err(ENOMEM, "%s: tasks: no memory", leat_reactor_name(r));
		return NULL;
	}
	memset(ts, 0, sizeof(*ts));
	ts->reactor = r;
	ts->now = leat_now();
	if (configure(ts, conf) < 0) {
		release(ts);
		return NULL;
	}
	ts->poller = leat_reactor_poller_add(r, "tasks", task_poll, ts, 0);
	if (ts->poller == NULL || leat_poller_quiesce_set(ts->poller, task_quiesce) < 0 ||
	    leat_poller_ready_set(ts->poller, task_poll_ready) < 0 ||
	    leat_poller_local_set(ts->poller) < 0) {
		release(ts);
		return NULL;
	}
	if (task_tune_add(ts) < 0) {
		/* A settings file may have been applied. */
		task_watch_del(ts);
		(void)leat_poller_remove(ts->poller);
		release(ts);
		return NULL;
	}
	publish(ts);
	return ts;
}

const struct leat_task *
task_first_left(const struct leat_tasks *ts)
{
	uint32_t i;

	for (i = 0; i < ts->nb_stacks; i++)
		if (ts->blocks[i].state != LEAT_TASK_FREE && ts->blocks[i].state != LEAT_TASK_DONE)
			return &ts->blocks[i];
	return NULL;
}

int
leat_tasks_destroy(struct leat_tasks *ts)
{
	const struct leat_task *left;
	int ret;

	if (ts == NULL)
		return 0;
	if (task_running == ts)
		return leat_err(EPERM, "%s: destroy tasks: called in task %s",
				leat_reactor_name(ts->reactor), leat_task_name(ts->current));
	left = task_nb_left(ts) > 0 ? task_first_left(ts) : NULL;
	if (left != NULL)
		return leat_err(EBUSY,
				"%s: destroy tasks: %u have not ended, e.g. %s (%" PRIu64 "), %s",
				leat_reactor_name(ts->reactor), task_nb_left(ts),
				leat_task_name(left), left->id, leat_task_state_name(left->state));
	ret = leat_poller_remove(ts->poller);
	if (ret < 0)
		return ret;
	/* First wait until no change of hog_us is in task_watch_*() on another thread. */
	leat_tune_del(ts->tune);
	withdraw(ts);
	release(ts);
	return 0;
}

struct leat_tasks *
leat_tasks_self(void)
{
	const struct leat_reactor *r;

	if (task_running != NULL)
		return task_running;
	r = leat_reactor_self();
	return r != NULL ? task_registry[leat_reactor_id(r)] : NULL;
}

struct leat_reactor *
leat_tasks_reactor(const struct leat_tasks *ts)
{
	return ts != NULL ? ts->reactor : NULL;
}

enum leat_task_guard
leat_tasks_guard(const struct leat_tasks *ts)
{
	return ts != NULL ? ts->stacks.guard : LEAT_TASK_GUARD_AUTO;
}

void
leat_tasks_trim(struct leat_tasks *ts)
{
	uint32_t i;

	for (i = 0; ts != NULL && i < ts->nb_stacks; i++)
		if (ts->blocks[i].state == LEAT_TASK_FREE)
			task_stack_trim(&ts->stacks, i);
}
