/* SPDX-License-Identifier: BSD-3-Clause */

/* A reactor with tasks on each lcore: create all, run them until all have stopped, destroy all. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_lcore.h>

#include <leat_error.h>
#include <leat_log.h>

#include "app_pvt.h"

struct lcore {
	unsigned int id;
	struct leat_reactor *reactor;
	struct leat_tasks *tasks;
	bool launched;
};

static struct {
	const struct leat_app *app;
	struct lcore lcores[LEAT_REACTOR_MAX];
	unsigned int nb;       /* number of lcores; the main lcore is the first of them */
	unsigned int nb_going; /* lcores whose start() runs, or returned LEAT_APP_STAY */
} all;

uint64_t
app_stop_us(void)
{
	return all.app == NULL || all.app->stop_us == 0 ? APP_STOP_US : all.app->stop_us;
}

unsigned int
leat_app_count(void)
{
	return all.nb;
}

struct leat_reactor *
leat_app_reactor(unsigned int index)
{
	return index < all.nb ? all.lcores[index].reactor : NULL;
}

int
leat_app_index(void)
{
	const struct leat_reactor *r = leat_reactor_self();
	unsigned int i;

	for (i = 0; r != NULL && i < all.nb; i++) {
		if (all.lcores[i].reactor == r)
			return (int)i;
	}
	return -1;
}

/* Run start() as the task of an lcore. The lcore that is done last stops the program. */
static int
lcore_main(void *arg)
{
	const struct lcore *l = arg;
	int ret = all.app->start(all.app->arg);

	if (ret < 0) {
		/* A task that ends because a stop cancelled it has not failed. */
		if (leat_reactor_state(l->reactor) == LEAT_REACTOR_STOPPING && ret == -ECANCELED)
			return ret;
		/* leat_err_msg() names the cause, if the program set it. */
		LEAT_LOG(ERR, app, "lcore %u: %s", l->id,
			 leat_err_msg()[0] != '\0' ? leat_err_msg() : strerror(-ret));
		leat_app_stop(LEAT_APP_FAILED);
	} else if (ret != LEAT_APP_STAY) {
		/* acq_rel, so that the lcore that is done last sees all writes of the others */
		if (__atomic_sub_fetch(&all.nb_going, 1, __ATOMIC_ACQ_REL) == 0)
			leat_app_stop(LEAT_APP_OK);
	}
	return ret;
}

/* Start the lcore's task. Runs on the lcore, as the first message of its reactor. */
static void
lcore_begin(void *arg)
{
	struct lcore *l = arg;

	if (leat_task_start("start", lcore_main, l) == 0)
		return;
	LEAT_LOG(ERR, app, "lcore %u: %s", l->id, leat_err_msg());
	leat_app_stop(LEAT_APP_FAILED);
}

/* The reactor is destroyed without having run. There is no task, so there is nothing to undo. */
static void
lcore_dropped(void *arg)
{
	(void)arg;
}

static int
lcore_create(struct lcore *l, unsigned int id)
{
	struct leat_reactor_conf conf = { 0 };
	char name[32];
	int ret;

	if (all.app->reactor != NULL)
		conf = *all.app->reactor;
	snprintf(name, sizeof(name), "lcore%u", id);
	conf.name = name;
	memset(l, 0, sizeof(*l));
	l->id = id;
	l->reactor = leat_reactor_create(&conf);
	if (l->reactor == NULL)
		return -rte_errno;
	l->tasks = leat_tasks_create(l->reactor, all.app->tasks);
	if (l->tasks == NULL)
		return -rte_errno;
	/*
	 * The reactor starts the task when it runs. If another lcore can't be created or launched,
	 * it never runs; a task spawned here would then never end, and could not be destroyed.
	 */
	ret = leat_reactor_call_drop(l->reactor, lcore_begin, lcore_dropped, l);
	return ret < 0 ? leat_err(-ret, "lcore %u: start: %s", id, strerror(-ret)) : 0;
}

int
app_lcores_create(const struct leat_app *app)
{
	unsigned int id;
	int ret;

	memset(&all, 0, sizeof(all));
	all.app = app;
	ret = lcore_create(&all.lcores[all.nb++], rte_get_main_lcore());
	RTE_LCORE_FOREACH_WORKER(id) {
		if (ret == 0 && all.nb == LEAT_REACTOR_MAX)
			ret = leat_err(ENOSPC, "more than %u lcores: choose fewer with -l",
				       LEAT_REACTOR_MAX);
		if (ret < 0)
			break;
		ret = lcore_create(&all.lcores[all.nb++], id);
	}
	all.nb_going = all.nb;
	return ret;
}

static int
stopped(const struct lcore *l, int ret)
{
	if (ret < 0)
		LEAT_LOG(ERR, app, "lcore %u: %s", l->id,
			 ret == -ETIMEDOUT ? "did not come to rest in time, see above"
					   : leat_err_msg());
	return ret;
}

int
app_lcores_run(void)
{
	unsigned int i;
	int ret = 0;

	for (i = 1; i < all.nb && ret == 0; i++) {
		ret = leat_reactor_launch(all.lcores[i].reactor, all.lcores[i].id);
		all.lcores[i].launched = ret == 0;
	}
	if (ret < 0) {
		LEAT_LOG(ERR, app, "%s", leat_err_msg());
		leat_app_stop(LEAT_APP_FAILED);
	}
	ret = stopped(&all.lcores[0], leat_reactor_run(all.lcores[0].reactor));
	for (i = 1; i < all.nb; i++) {
		if (all.lcores[i].launched &&
		    stopped(&all.lcores[i], leat_reactor_wait(all.lcores[i].reactor)) < 0)
			ret = -ETIMEDOUT;
	}
	return ret;
}

int
app_lcores_destroy(void)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < all.nb; i++) {
		struct lcore *l = &all.lcores[i];

		if (leat_tasks_destroy(l->tasks) < 0 || leat_reactor_destroy(l->reactor) < 0) {
			LEAT_LOG(ERR, app, "%s", leat_err_msg());
			ret = -EBUSY;
		}
	}
	if (ret == 0)
		memset(&all, 0, sizeof(all));
	return ret;
}
