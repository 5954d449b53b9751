/* SPDX-License-Identifier: BSD-3-Clause */

/* Signal handlers, and those waits and writes that end when a signal arrives. */

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"

FILE *ct_out;

static volatile sig_atomic_t stopped;
static const int asking[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
static sigset_t asking_set;

/* The first signal asks for an orderly end; a second one ends the process. */
static void
on_signal(int sig)
{
	stopped = sig;
}

static int
catch_one(int sig, void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = (int)SA_RESETHAND }, was;

	(void)sigemptyset(&sa.sa_mask);
	if (sigaction(sig, NULL, &was) != 0)
		return -errno;
	/* nohup, or a shell's background job: the parent wants the signal ignored. */
	if (was.sa_handler == SIG_IGN && (sig == SIGINT || sig == SIGHUP))
		return 0;
	return sigaction(sig, &sa, NULL) != 0 ? -errno : 0;
}

int
ct_catch_signals(void)
{
	unsigned int i;
	int ret;

	(void)sigemptyset(&asking_set);
	for (i = 0; i < sizeof(asking) / sizeof(asking[0]); i++) {
		(void)sigaddset(&asking_set, asking[i]);
		ret = catch_one(asking[i], on_signal);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int
ct_stopped(void)
{
	return stopped;
}

uint64_t
ct_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

int
ct_poll(int fd, short events, uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / CT_NS_PER_S), (long)(ns % CT_NS_PER_S) };
	struct pollfd p = { .fd = fd, .events = events };
	sigset_t before;
	int ret;

	/*
	 * The signals are blocked except inside ppoll(): none can come between the check of
	 * `stopped` and the wait.
	 */
	if (sigprocmask(SIG_BLOCK, &asking_set, &before) != 0)
		return -errno;
	ret = stopped != 0 ? -EINTR
			   : ppoll(&p, 1, ns == LEAT_CHANNEL_FOREVER ? NULL : &ts, &before);
	if (ret == -1)
		ret = -errno;
	if (sigprocmask(SIG_SETMASK, &before, NULL) != 0)
		return -errno;
	return ret;
}

/*
 * Write in pieces of PIPE_BUF: a pipe that poll() reports writable accepts that much at once. So a
 * signal that comes between poll and write is noticed before the next piece.
 */
static ssize_t
write_stdout(void *cookie, const char *buf, size_t size)
{
	size_t done = 0;
	ssize_t n;
	int ret;

	(void)cookie;
	while (done < size) {
		ret = ct_poll(STDOUT_FILENO, POLLOUT, LEAT_CHANNEL_FOREVER);
		if (ret < 0) {
			errno = -ret;
			break;
		}
		n = write(STDOUT_FILENO, buf + done,
			  size - done < PIPE_BUF ? size - done : PIPE_BUF);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

int
ct_open_stdout(void)
{
	static char buf[1 << 16];

	ct_out = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_stdout });
	if (ct_out == NULL)
		return -errno;
	return setvbuf(ct_out, buf, _IOFBF, sizeof(buf)) != 0 ? -EIO : 0;
}

uint64_t
ct_end(uint64_t timeout_ns)
{
	uint64_t now = ct_now_ns();

	return timeout_ns > LEAT_CHANNEL_FOREVER - now ? LEAT_CHANNEL_FOREVER : now + timeout_ns;
}

uint64_t
ct_slice(uint64_t end)
{
	uint64_t now;

	if (end == LEAT_CHANNEL_FOREVER)
		return CT_SLICE_NS;
	now = ct_now_ns();
	if (now >= end)
		return 0;
	return end - now < CT_SLICE_NS ? end - now : CT_SLICE_NS;
}
