/* SPDX-License-Identifier: BSD-3-Clause */

/* Helper threads, for work that an lcore's loop must not wait for. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "leat_thread.h"
#include "leat_thread_pvt.h"

static cpu_set_t avoided;

void
leat_thread_avoid(unsigned int cpu)
{
	if (cpu < CPU_SETSIZE)
		CPU_SET(cpu, &avoided);
}

static int
create(pthread_attr_t *attr, const cpu_set_t *cpus, void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;

	/* If this fails the thread shares the caller's CPU, which is slower, but not wrong. */
	(void)pthread_attr_setaffinity_np(attr, sizeof(*cpus), cpus);
	return pthread_create(&thread, attr, fn, arg);
}

int
leat_thread_start(void *(*fn)(void *arg), void *arg)
{
	cpu_set_t all_cpus, cpus;
	pthread_attr_t attr;
	sigset_t all, old;
	unsigned int i;
	int ret;

	ret = pthread_attr_init(&attr);
	if (ret != 0)
		return -ret;
	CPU_ZERO(&all_cpus);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &all_cpus);
	CPU_XOR(&cpus, &all_cpus, &avoided);
	ret = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (ret == 0) {
		/* The thread inherits this mask. */
		(void)sigfillset(&all);
		(void)pthread_sigmask(SIG_SETMASK, &all, &old);
		ret = create(&attr, &cpus, fn, arg);
		/* EINVAL: the process has no other CPUs. */
		if (ret == EINVAL)
			ret = create(&attr, &all_cpus, fn, arg);
		(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	(void)pthread_attr_destroy(&attr);
	return -ret;
}
