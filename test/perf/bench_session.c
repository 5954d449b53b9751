/* SPDX-License-Identifier: BSD-3-Clause */

/* See bench_session.h. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_session.h"

void *
bench_shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE,
		       -1, 0);

	if (p == MAP_FAILED)
		bench_skip("no memory: %zu B to share", len);
	return p;
}

void
bench_sessions(struct bench_args *args, void (*session)(void *arg), void *arg)
{
	const unsigned int n = args->smoke ? 1 : BENCH_SESSIONS;
	unsigned int i;
	int status;
	pid_t pid;

	args->seconds /= n;
	args->repeats = (args->repeats + n - 1) / n;
	args->most = BENCH_REPEATS_MAX / n; /* so that the repeats of all sessions fit one table */
	for (i = 0; i < n; i++) {
		fflush(NULL);
		pid = fork();
		if (pid < 0)
			bench_die("can't fork");
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			session(arg);
			exit(0);
		}
		if (waitpid(pid, &status, 0) < 0)
			bench_die("can't wait for a session");
		/* The session has printed the reason. */
		if (WIFEXITED(status) && WEXITSTATUS(status) == BENCH_SKIP)
			_exit(BENCH_SKIP);
		if (status != 0)
			bench_die("a session failed");
	}
}
