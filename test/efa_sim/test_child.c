/* SPDX-License-Identifier: BSD-3-Clause */

/* Processes that tests start. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static pid_t
start(int *fd, int *others)
{
	int fds[2];
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		/* End with the parent, so that a failed test leaves no process behind. */
		CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		close(fds[0]);
	} else {
		close(fds[1]);
	}
	*fd = fds[0];
	*others = fds[1];
	return pid;
}

void
child_start(struct child *child, void (*run)(int fd, void *arg), void *arg)
{
	int fd;

	child->pid = start(&child->fd, &fd);
	if (child->pid != 0)
		return;
	run(fd, arg);
	exit(0);
}

void
become(const char *name, int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	execl("/proc/self/exe", "efa_sim_test", "--child", name, number, (char *)NULL);
	test_fail(__FILE__, __LINE__, "exec");
}

void
child_exec(struct child *child, const char *name)
{
	int fd;

	child->pid = start(&child->fd, &fd);
	if (child->pid == 0)
		become(name, fd);
}

void
child_end(struct child *child)
{
	int status;

	close(child->fd);
	CHECK(waitpid(child->pid, &status, 0) == child->pid);
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 0);
}

void
child_kill(struct child *child)
{
	int status;

	CHECK(kill(child->pid, SIGKILL) == 0);
	CHECK(waitpid(child->pid, &status, 0) == child->pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(child->fd);
}

void
put(int fd, const void *data, size_t length)
{
	CHECK(send(fd, data, length, MSG_NOSIGNAL) == (ssize_t)length);
}

bool
try_get(int fd, void *data, size_t length)
{
	size_t n = 0;

	while (n < length) {
		ssize_t more = read(fd, (char *)data + n, length - n);

		if (more < 0 && errno == EINTR)
			continue;
		if (more <= 0)
			return false;
		n += (size_t)more;
	}
	return true;
}

void
get(int fd, void *data, size_t length)
{
	if (!try_get(fd, data, length))
		test_fail(__FILE__, __LINE__, "the other process has ended");
}
