/* SPDX-License-Identifier: BSD-3-Clause */

/* The zygote: see steps_zygote.h. */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lives/traffic.h" /* CHECK */
#include "steps_zygote.h"

#define VICTIMS_MAX 16

static int sock = -1; /* the survivor's end of the socket to the zygote */
static pid_t zygote;
static pid_t waiting[VICTIMS_MAX]; /* the oldest one first */
static unsigned int nb_waiting;
static void (*prepare_victim)(void), (*run_victim)(void);

static void
victim(pid_t survivor, int fd)
{
	sigset_t go;
	int sig;

	(void)close(fd);
	while (getppid() != survivor)
		(void)sched_yield();
	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "victim: prctl: %s", strerror(errno));
	prepare_victim();
	(void)sigemptyset(&go);
	(void)sigaddset(&go, SIGUSR1);
	CHECK(sigwait(&go, &sig) == 0, "victim: sigwait");
	run_victim();
	_exit(1);
}

/* Fork a victim. This returns only in the parent, the helper, which then ends. */
static void
helper(pid_t survivor, int fd)
{
	pid_t pid = fork();

	if (pid == 0)
		victim(survivor, fd);
	CHECK(pid > 0 && send(fd, &pid, sizeof(pid), 0) == sizeof(pid), "zygote: fork: %s",
	      strerror(errno));
}

static void
serve(pid_t survivor, int fd)
{
	sigset_t go;
	char order;
	pid_t pid;

	/* Block SIGUSR1 here, so that threads that EAL creates in a victim inherit the mask. */
	(void)sigemptyset(&go);
	(void)sigaddset(&go, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &go, NULL) == 0, "zygote: signals: %s", strerror(errno));
	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "zygote: prctl: %s", strerror(errno));
	while (recv(fd, &order, 1, 0) == 1) {
		pid = fork();
		if (pid == 0) {
			helper(survivor, fd);
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid, "zygote: %s", strerror(errno));
		/* The victim is the survivor's child by now. */
		CHECK(send(fd, &order, 1, 0) == 1, "zygote: send: %s", strerror(errno));
	}
	_exit(0);
}

/* Ask the zygote for a victim, which then waits until it is chosen. */
static void
add(void)
{
	char order = 1;
	pid_t pid;

	CHECK(send(sock, &order, 1, 0) == 1 && recv(sock, &pid, sizeof(pid), 0) == sizeof(pid) &&
		      recv(sock, &order, 1, 0) == 1,
	      "no answer of the zygote");
	waiting[nb_waiting++] = pid;
}

void
steps_zygote_start(unsigned int victims, void (*prepare)(void), void (*run)(void))
{
	const pid_t survivor = getpid();
	int fds[2];

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 &&
		      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0,
	      "zygote: %s", strerror(errno));
	prepare_victim = prepare;
	run_victim = run;
	zygote = fork();
	CHECK(zygote >= 0, "zygote: fork: %s", strerror(errno));
	if (zygote == 0) {
		(void)close(fds[0]);
		serve(survivor, fds[1]);
	}
	(void)close(fds[1]);
	sock = fds[0];
	CHECK(victims > 0 && victims < VICTIMS_MAX, "%u victims in advance", victims);
	while (nb_waiting < victims)
		add();
}

pid_t
steps_zygote_victim(void)
{
	const pid_t pid = waiting[0];

	add();
	memmove(waiting, waiting + 1, --nb_waiting * sizeof(*waiting));
	CHECK(kill(pid, SIGUSR1) == 0, "a victim that waited is gone: %s", strerror(errno));
	return pid;
}

void
steps_zygote_end(void)
{
	while (nb_waiting > 0) {
		const pid_t pid = waiting[--nb_waiting];

		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid, "victim: %s",
		      strerror(errno));
	}
	CHECK(close(sock) == 0 && waitpid(zygote, NULL, 0) == zygote, "zygote: %s",
	      strerror(errno));
}
