/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Who is alive. A participant is a process: its pid, and when it started, because pids are used again. Both fit
 * one word, so a slot is taken, with its owner's whole identity, in one instruction.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel_pvt.h"

/*
 * State, threads and start time of a process, from its first thread's file: for /proc/PID/stat qemu-user makes
 * something up if it is the own one, with a start time that others don't see. @return false: it can't be read
 */
static bool
read_stat(pid_t pid, char *state, unsigned long *threads, unsigned long long *start)
{
	char path[64], text[1024], *p;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)pid);
	do
		fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return false;
	do
		len = read(fd, text, sizeof(text) - 1);
	while (len < 0 && errno == EINTR);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	/* 1 (comm) S ... : the name may hold anything, so from the last bracket: fields 3, 20, 22 */
	p = strrchr(text, ')');
	return p != NULL &&
	       sscanf(p + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu %*d %llu",
		      state, threads, start) == 3;
}

static uint64_t
who_make(uint64_t pid, uint64_t start)
{
	return start << WHO_PID_BITS | (pid & ((UINT64_C(1) << WHO_PID_BITS) - 1));
}

uint64_t
chan_who_self(void)
{
	unsigned long long start;
	unsigned long threads;
	char state;

	if (!read_stat(getpid(), &state, &threads, &start))
		start = 0; /* not known: its pid must do */
	return who_make((uint64_t)getpid(), start);
}

uint64_t
chan_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

bool
chan_alive(uint64_t who)
{
	pid_t pid = (pid_t)(who & ((UINT64_C(1) << WHO_PID_BITS) - 1));
	unsigned long long start;
	unsigned long threads;
	char state;

	if (pid <= 0)
		return false;
	if (kill(pid, 0) != 0 && errno == ESRCH)
		return false;
	/* Hidden, perhaps: then it passes for the one we mean. */
	if (!read_stat(pid, &state, &threads, &start))
		return true;
	if (who >> WHO_PID_BITS != 0 && who_make((uint64_t)pid, start) != who)
		return false;
	/* Killed, but nobody has waited for it. With other threads it is only the first that ended. */
	return !((state == 'Z' || state == 'X' || state == 'x') && threads <= 1);
}
