/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The thread of the library. It sends held requests when their time has come. It also holds the
 * host's up mutex, by which other processes see that this one lives.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim_host.h"

static struct {
	pthread_mutex_t list_lock; /* taken before the lock of a QP */
	LIST_HEAD(, sim_qp) qps;

	pthread_mutex_t lock; /* guards the other fields; taken after the lock of a QP */
	pthread_cond_t cond;
	pthread_t thread;
	bool running, stop;
	_Atomic uint64_t wake_ns; /* changed under lock */
} worker = {
	.list_lock = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake_ns = UINT64_MAX,
};

void
sim_thread_wake(uint64_t at)
{
	if (at >= worker.wake_ns)
		return;
	pthread_mutex_lock(&worker.lock);
	if (at < worker.wake_ns) {
		worker.wake_ns = at;
		pthread_cond_broadcast(&worker.cond);
	}
	pthread_mutex_unlock(&worker.lock);
}

static void
progress(void)
{
	struct sim_qp *qp;
	uint64_t now = sim_now();

	pthread_mutex_lock(&worker.list_lock);
	LIST_FOREACH(qp, &worker.qps, next) {
		sim_send_progress(qp, now);
		sim_thread_wake(qp->wake_ns);
	}
	pthread_mutex_unlock(&worker.list_lock);
}

static void
wait_until(uint64_t ns)
{
	struct timespec until = { .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };

	if (ns == UINT64_MAX)
		pthread_cond_wait(&worker.cond, &worker.lock);
	else
		(void)pthread_cond_timedwait(&worker.cond, &worker.lock, &until);
}

static void *
run(void *arg)
{
	struct sim_arena *arena = arg;

	if (pthread_mutex_lock(&arena->up) != 0)
		abort(); /* cannot fail: the arena is new, and not visible to others yet */
	pthread_mutex_lock(&worker.lock);
	worker.running = true;
	pthread_cond_broadcast(&worker.cond);
	while (!worker.stop) {
		if (worker.wake_ns > sim_now()) {
			wait_until(worker.wake_ns);
			continue;
		}
		worker.wake_ns = UINT64_MAX;
		pthread_mutex_unlock(&worker.lock);
		progress();
		pthread_mutex_lock(&worker.lock);
	}
	pthread_mutex_unlock(&worker.lock);
	pthread_mutex_unlock(&arena->up);
	return NULL;
}

int
sim_thread_start(void)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int err;

	err = pthread_condattr_init(&attr);
	if (err != 0)
		return err;
	err = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (err == 0)
		err = pthread_cond_init(&worker.cond, &attr);
	(void)pthread_condattr_destroy(&attr); /* can't fail */
	if (err != 0)
		return err;
	worker.running = worker.stop = false;
	/* Signals of the program are not delivered to this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&worker.thread, NULL, run, sim_host_arena());
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err != 0)
		return err;
	pthread_mutex_lock(&worker.lock);
	while (!worker.running)
		pthread_cond_wait(&worker.cond, &worker.lock);
	pthread_mutex_unlock(&worker.lock);
	return 0;
}

void
sim_thread_stop(void)
{
	pthread_mutex_lock(&worker.lock);
	worker.stop = true;
	pthread_cond_broadcast(&worker.cond);
	pthread_mutex_unlock(&worker.lock);
	/* EINVAL, ESRCH: the thread has ended, as wanted */
	(void)pthread_join(worker.thread, NULL);
}

void
sim_thread_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD) {
		struct sim_qp *qp;

		LIST_FOREACH(qp, &worker.qps, next)
			sim_qp_forget(qp);
		LIST_INIT(&worker.qps);
		worker.wake_ns = UINT64_MAX;
	}
	sim_fork_lock(&worker.list_lock, when);
	sim_fork_lock(&worker.lock, when);
}

void
sim_thread_add(struct sim_qp *qp)
{
	pthread_mutex_lock(&worker.list_lock);
	LIST_INSERT_HEAD(&worker.qps, qp, next);
	pthread_mutex_unlock(&worker.list_lock);
}

void
sim_thread_del(struct sim_qp *qp)
{
	pthread_mutex_lock(&worker.list_lock);
	LIST_REMOVE(qp, next);
	pthread_mutex_unlock(&worker.list_lock);
}
