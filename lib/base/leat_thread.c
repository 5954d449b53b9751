/* SPDX-License-Identifier: BSD-3-Clause */

/* Helper threads, for what an lcore's loop must not wait for. */

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "leat_thread.h"

int
leat_thread_start(void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	cpu_set_t cpus;
	pthread_t thread;
	unsigned int i;
	int ret;

	ret = pthread_attr_init(&attr);
	if (ret != 0)
		return -ret;
	CPU_ZERO(&cpus);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &cpus);
	/* If not, it shares the caller's CPU: slower, not wrong. */
	(void)pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	ret = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (ret == 0) {
		/* It inherits the mask. */
		(void)sigfillset(&all);
		(void)pthread_sigmask(SIG_SETMASK, &all, &old);
		ret = pthread_create(&thread, &attr, fn, arg);
		(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	(void)pthread_attr_destroy(&attr);
	return -ret;
}
