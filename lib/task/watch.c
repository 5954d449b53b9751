/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The watchdog: a thread that looks at all reactors with tasks now and then, and names a task, a
 * poller, a timer's function or a message that has been running for too long. It reads a few fields
 * of each reactor that each switch and each turn write anyway. So neither a switch nor a call of a
 * poller reads the clock, and the watchdog also finds functions that never return.
 *
 * The thread runs while any reactor's tasks have a hog_us other than LEAT_TASK_HOG_NEVER, on any
 * CPU, with all signals blocked.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <leat_log.h>

#include "task_pvt.h"

#define PERIOD_MIN_US 1000

static uint32_t period_us; /* time between two looks; while the thread runs it only gets shorter */

/*
 * Protects users and thread, and hog_us and watched of all tasks. The watchdog never takes this
 * lock: unwatch() holds it while it joins the watchdog.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static pthread_t thread;
static bool started;

static pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_cond;
static bool stop;

/* Report a poller, timer or message of the reactor that has been running for too long. */
static void
check_reactor(struct leat_tasks *ts, uint64_t ns)
{
	struct task_watch *w = &ts->watch;
	struct reactor_activity now;
	char what[128];

	reactor_activity_get(ts->reactor, &now);
	/* A running task is left to check_task(). */
	if (now.kind == REACTOR_NOWHERE || !reactor_activity_same(&now, &w->activity) ||
	    (now.poller == ts->poller && RLX_LOAD(ts->current) != NULL)) {
		w->activity = now;
		w->activity_since_ns = ns;
		w->activity_reported = false;
		return;
	}
	if (w->activity_reported ||
	    ns - w->activity_since_ns < (uint64_t)RLX_LOAD(ts->hog_us) * 1000)
		return;
	w->activity_reported = true;
	RLX_ADD(ts->hogs, 1);
	reactor_activity_text(ts->reactor, &now, what, sizeof(what));
	LEAT_LOG(WARNING, task,
		 "%s: %s has been running for %" PRIu64
		 " ms without returning: all else on its lcore stands still",
		 leat_reactor_name(ts->reactor), what, (ns - w->activity_since_ns) / 1000000);
}

/* Report a task that has been running for too long. */
static void
check_task(struct leat_tasks *ts, uint64_t ns)
{
	uint64_t switches = RLX_LOAD(ts->switches);
	const struct leat_task *t = RLX_LOAD(ts->current);
	struct task_watch *w = &ts->watch;
	char name[LEAT_TASK_NAME_MAX];
	uint64_t id;
	size_t i;

	if (t == NULL || switches != w->switches) {
		w->switches = switches;
		w->since_ns = ns;
		w->reported = false;
		return;
	}
	if (w->reported || ns - w->since_ns < (uint64_t)RLX_LOAD(ts->hog_us) * 1000)
		return;
	for (i = 0; i < sizeof(name); i++)
		name[i] = RLX_LOAD(t->name[i]);
	name[sizeof(name) - 1] = '\0';
	id = RLX_LOAD(t->id);
	/* After a switch meanwhile, name and id may be those of another task. */
	if (RLX_LOAD(ts->switches) != switches)
		return;
	w->reported = true;
	RLX_ADD(ts->hogs, 1);
	LEAT_LOG(WARNING, task,
		 "%s: task %s (%" PRIu64 ") has been running for %" PRIu64
		 " ms without waiting or yielding: all else on its lcore stands still",
		 leat_reactor_name(ts->reactor), name[0] != '\0' ? name : TASK_UNNAMED, id,
		 (ns - w->since_ns) / 1000000);
}

void
task_watch_scan(uint64_t ns)
{
	unsigned int i;

	task_lock();
	for (i = 0; i < LEAT_REACTOR_MAX; i++) {
		struct leat_tasks *ts = task_registry[i];

		if (ts == NULL || RLX_LOAD(ts->hog_us) == LEAT_TASK_HOG_NEVER)
			continue;
		check_task(ts, ns);
		check_reactor(ts, ns);
	}
	task_unlock();
}

/* Read CLOCK_MONOTONIC. Not leat_now(): a test may replace it by a clock of its own thread. */
static uint64_t
clock_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Sleep for a period. @return false: the watchdog must stop */
static bool
pause_for(uint32_t us)
{
	uint64_t ns = clock_ns() + (uint64_t)us * 1000;
	struct timespec until = { .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };
	bool go;

	(void)pthread_mutex_lock(&stop_lock);
	while (!stop && pthread_cond_timedwait(&stop_cond, &stop_lock, &until) == 0)
		;
	go = !stop;
	(void)pthread_mutex_unlock(&stop_lock);
	return go;
}

static void *
watchdog(void *arg)
{
	do {
		task_watch_scan(clock_ns());
	} while (pause_for(RLX_LOAD(period_us)));
	return arg;
}

static int
start(void)
{
	pthread_condattr_t cattr;
	pthread_attr_t attr;
	sigset_t all, old;
	cpu_set_t cpus;
	unsigned int i;
	int ret;

	ret = pthread_attr_init(&attr);
	if (ret != 0)
		return ret;
	(void)pthread_condattr_init(&cattr);
	(void)pthread_condattr_setclock(&cattr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&stop_cond, &cattr);
	(void)pthread_condattr_destroy(&cattr);
	stop = false;
	/* Allow all CPUs: else the watchdog would share the CPU of the lcore that it watches. */
	CPU_ZERO(&cpus);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &cpus);
	(void)pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	/* The new thread inherits the signal mask. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, &attr, watchdog, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return ret;
}

/* Have the watchdog watch ts, if hog_us asks for it. The caller holds the lock. @return 0; errno */
static int
watch(struct leat_tasks *ts)
{
	uint32_t us = RTE_MAX(ts->hog_us / 2, (uint32_t)PERIOD_MIN_US);
	int ret = 0;

	if (ts->hog_us == LEAT_TASK_HOG_NEVER)
		return 0;
	RLX_STORE(period_us, users == 0 ? us : RTE_MIN(period_us, us));
	if (ts->watched)
		return 0;
	ts->watched = true;
	users++;
	if (!started) {
		ret = start();
		started = ret == 0;
	}
	return ret;
}

/* Undo watch(). The caller holds the lock. */
static void
unwatch(struct leat_tasks *ts)
{
	if (!ts->watched)
		return;
	ts->watched = false;
	if (--users > 0 || !started)
		return;
	(void)pthread_mutex_lock(&stop_lock);
	stop = true;
	(void)pthread_cond_signal(&stop_cond);
	(void)pthread_mutex_unlock(&stop_lock);
	(void)pthread_join(thread, NULL);
	(void)pthread_cond_destroy(&stop_cond);
	started = false;
}

static void
report_start(int err)
{
	if (err != 0)
		LEAT_LOG(WARNING, task, "no thread for the watchdog: %s", strerror(err));
}

bool
task_watch_runs(void)
{
	bool runs;

	(void)pthread_mutex_lock(&lock);
	runs = started;
	(void)pthread_mutex_unlock(&lock);
	return runs;
}

void
task_watch_add(struct leat_tasks *ts)
{
	int ret;

	(void)pthread_mutex_lock(&lock);
	ret = watch(ts);
	(void)pthread_mutex_unlock(&lock);
	report_start(ret);
}

void
task_watch_del(struct leat_tasks *ts)
{
	(void)pthread_mutex_lock(&lock);
	unwatch(ts);
	(void)pthread_mutex_unlock(&lock);
}

void
task_watch_set(struct leat_tasks *ts, uint32_t hog_us)
{
	int ret;

	(void)pthread_mutex_lock(&lock);
	if (hog_us == LEAT_TASK_HOG_NEVER)
		unwatch(ts);
	RLX_STORE(ts->hog_us, hog_us);
	ret = watch(ts);
	(void)pthread_mutex_unlock(&lock);
	report_start(ret);
}
