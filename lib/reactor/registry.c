/* SPDX-License-Identifier: BSD-3-Clause */

/* The list of all reactors of the process, and a check for more running reactors than CPUs. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <rte_lcore.h>

#include <leat_cursor.h>
#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct leat_reactor *reactors[LEAT_REACTOR_MAX];

struct reactor_attn reactor_attns[LEAT_REACTOR_MAX] = {
	[0 ... LEAT_REACTOR_MAX - 1] = { .stop_count = LEAT_CURSOR_START },
};

/* A default mutex that the calling thread does not hold: locking can't fail. */
void
reactor_lock(void)
{
	(void)pthread_mutex_lock(&lock);
}

void
reactor_unlock(void)
{
	(void)pthread_mutex_unlock(&lock);
}

struct leat_reactor *
reactor_registry_get(unsigned int id)
{
	return id < LEAT_REACTOR_MAX ? reactors[id] : NULL;
}

int
reactor_registry_add(struct leat_reactor *r)
{
	unsigned int i;

	reactor_lock();
	for (i = 0; i < LEAT_REACTOR_MAX && reactors[i] != NULL; i++)
		;
	if (i < LEAT_REACTOR_MAX) {
		r->id = i;
		r->attn = &reactor_attns[i];
		RLX_STORE(r->attn->word, ATTN_NONE);
		RLX_STORE(r->attn->stop_us, LEAT_REACTOR_STOP_NO_DEADLINE);
		r->stop_seen = RLX_LOAD(r->attn->stop_count);
		reactors[i] = r;
	}
	reactor_unlock();
	if (i == LEAT_REACTOR_MAX)
		return leat_err(ENOSPC, "%s: there are %d reactors already", r->name,
				LEAT_REACTOR_MAX);
	return 0;
}

/*
 * Decide for each running reactor whether it is crowded: the CPUs on which it may run are fewer
 * than the reactors that may run on any of them. (This is exact for pinned lcores, with one CPU
 * each, and for loops that float over the same CPUs. With partly overlapping sets of CPUs, it can
 * call a reactor crowded that is not, which is the safe error.)
 */
static void
count_cpus(void)
{
	unsigned int i, j;

	for (i = 0; i < LEAT_REACTOR_MAX; i++) {
		struct leat_reactor *r = reactors[i];
		int loops = 0;

		if (r == NULL || !r->cpus_known)
			continue;
		for (j = 0; j < LEAT_REACTOR_MAX; j++) {
			cpu_set_t both;

			if (reactors[j] == NULL || !reactors[j]->cpus_known)
				continue;
			CPU_AND(&both, &r->cpus, &reactors[j]->cpus);
			loops += CPU_COUNT(&both) > 0;
		}
		RLX_STORE(r->crowded, (uint32_t)(loops > CPU_COUNT(&r->cpus)));
	}
}

/*
 * Log the idle policy: at INFO in the first run under auto, else at DEBUG, since a reactor may be
 * run many times.
 */
static void
report_run(struct leat_reactor *r, int loops)
{
	uint32_t policy = RLX_LOAD(r->idle_req);
	bool news = policy == LEAT_IDLE_AUTO && !r->policy_reported;
	const char *what = leat_idle_policy_name(policy);
	char where[32] = "no lcore";

	if (policy == LEAT_IDLE_AUTO)
		what = RLX_LOAD(r->crowded) ? "yield (auto: more loops than CPUs)"
					    : "spin (auto: a CPU for each loop)";
	if (r->lcore != LCORE_ID_ANY)
		snprintf(where, sizeof(where), "lcore %u", r->lcore);
	rte_log(news ? RTE_LOG_INFO : RTE_LOG_DEBUG, (uint32_t)leat_logtype_reactor,
		"leat/reactor: %s: runs on %s (CPUs: %d, loops of this program: %d), idle: %s\n",
		r->name, where, CPU_COUNT(&r->cpus), loops, what);
	r->policy_reported |= news;
}

void
reactor_registry_enter(struct leat_reactor *r)
{
	unsigned int i;
	int loops = 0;

	reactor_lock();
	CPU_ZERO(&r->cpus);
	r->cpus_known = sched_getaffinity(0, sizeof(r->cpus), &r->cpus) == 0;
	count_cpus();
	for (i = 0; i < LEAT_REACTOR_MAX; i++)
		loops += reactors[i] != NULL && reactors[i]->cpus_known;
	reactor_unlock();

	/*
	 * sched_getaffinity() failed, because the machine has more CPUs than a cpu_set_t holds:
	 * assume that there are enough for all loops.
	 */
	if (!r->cpus_known)
		RLX_STORE(r->crowded, 0);
	report_run(r, loops);
}

void
reactor_registry_leave(struct leat_reactor *r)
{
	reactor_lock();
	r->cpus_known = false;
	count_cpus();
	reactor_unlock();
}

void
reactor_registry_del(struct leat_reactor *r)
{
	reactor_lock();
	reactors[r->id] = NULL;
	count_cpus();
	reactor_unlock();
}
