/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The control thread. It sleeps in epoll_wait(2) until an agent, an owner that has applied a
 * change, or an object that is added or removed wakes it; at most until the next update of records.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <leat_thread.h>

#include "tune_pvt.h"

#define EVENTS 32
#define NS_PER_MS 1000000
/* Pause of the thread's loop when the thread can't wait for events. */
#define PAUSE_NS 10000000

/* Keys of epoll events that belong to no session; session.c has the keys of sessions. */
#define KEY_WAKE 0
#define KEY_LISTEN 1

static struct {
	int dirfd;
	int epfd;
	int listen_fd;
	char sock[64]; /* name of the socket in the directory */
	bool stop;
	bool running;
	pthread_mutex_t lock; /* protects running */
	pthread_cond_t ended;
} control = {
	.dirfd = -1,
	.epfd = -1,
	.listen_fd = -1,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
};

/* Never closed: an owner may be about to write to it. -1: not created yet. */
static int wake_fd = -1;
static uint32_t woken;

void
tune_control_wake(void)
{
	static const uint64_t one = 1;
	int fd = __atomic_load_n(&wake_fd, __ATOMIC_ACQUIRE);

	/* Write only once until woken_clear(): more writes would not wake the thread any sooner. */
	if (fd < 0 || __atomic_exchange_n(&woken, 1, __ATOMIC_SEQ_CST) != 0)
		return;
	/* Except for EINTR, a failure means that the eventfd is readable already. */
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/*
 * Clear the wake-up. Call this before looking at objects, so that an object that changes later
 * wakes the thread again.
 */
static void
woken_clear(void)
{
	uint64_t n;

	(void)!read(wake_fd, &n, sizeof(n));
	__atomic_store_n(&woken, 0, __ATOMIC_SEQ_CST);
}

/* Wait for events until due. @return their number; 0: none, or they can't be had now */
static int
wait_events(struct epoll_event *ev, uint64_t now, uint64_t due)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t ns = due > now ? due - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };
	int n = epoll_pwait2(control.epfd, ev, EVENTS, &ts, NULL);

	/*
	 * Kernels before 5.11 have only epoll_wait(), and seccomp filters that don't know
	 * epoll_pwait2() refuse it, mostly with EPERM. epoll_wait() takes whole milliseconds:
	 * rounded up.
	 */
	if (n < 0 && errno != EINTR)
		n = epoll_wait(control.epfd, ev, EVENTS, (int)((ns + NS_PER_MS - 1) / NS_PER_MS));
	/* Don't use up a CPU: the loop comes back at once. */
	if (n < 0 && errno != EINTR)
		(void)nanosleep(&pause, NULL);
	return RTE_MAX(n, 0);
}

static void
events(const struct epoll_event *ev, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (ev[i].data.u64 == KEY_WAKE)
			woken_clear();
		else if (ev[i].data.u64 == KEY_LISTEN)
			tune_session_accept(control.listen_fd, control.epfd);
		else
			tune_session_event(ev[i].data.u64, ev[i].events);
	}
}

/* Update records when they are due. @return time of the next update */
static uint64_t
update(uint64_t now, uint64_t due)
{
	struct tune_block_head *h = tune_block_head();
	struct tune_watch watch;
	uint64_t interval;

	tune_session_watch(&watch);
	interval = watch.interval_ns == 0 ? TUNE_INTERVAL_IDLE_NS : watch.interval_ns;
	/* The interval may have become shorter with a new agent. */
	due = RTE_MIN(due, now + interval);
	if (now < due)
		return due;
	tune_report_all(&watch, now);
	__atomic_store_n(&h->interval_ns, interval, __ATOMIC_RELAXED);
	__atomic_store_n(&h->heartbeat_ns, now, __ATOMIC_RELAXED);
	due += interval;
	/* When late by more than an interval, skip the missed updates. */
	return due > now ? due : now + interval;
}

static void *
control_main(void *arg)
{
	struct epoll_event ev[EVENTS];
	uint64_t now, due, next = 0;

	RTE_SET_USED(arg);
	(void)prctl(PR_SET_NAME, "leat-tune", 0, 0, 0);
	while (!__atomic_load_n(&control.stop, __ATOMIC_ACQUIRE)) {
		now = tune_now();
		tune_report_registry();
		tune_session_run_all(now);
		next = update(now, next);
		due = RTE_MIN(next, tune_lease_run(now));
		due = RTE_MIN(due, tune_change_run(now));
		due = RTE_MIN(due, tune_session_due(now));
		events(ev, wait_events(ev, tune_now(), due));
	}
	tune_session_close_all();
	tune_change_free_all();
	tune_lease_free_all();
	pthread_mutex_lock(&control.lock);
	control.running = false;
	pthread_cond_signal(&control.ended);
	pthread_mutex_unlock(&control.lock);
	return NULL;
}

static int
watch_fd(int fd, uint64_t key, uint32_t how)
{
	struct epoll_event ev = { .events = EPOLLIN | how, .data.u64 = key };

	return epoll_ctl(control.epfd, EPOLL_CTL_ADD, fd, &ev) == 0
		       ? 0
		       : leat_err(errno, "tune: epoll: %s", strerror(errno));
}

/* Bind through /proc/self/fd: the path of the directory may exceed sockaddr_un.sun_path. */
static int
listen_at(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	control.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (control.listen_fd < 0)
		return leat_err(errno, "tune: socket: %s", strerror(errno));
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s.sock", control.dirfd, name);
	if (bind(control.listen_fd, (const struct sockaddr *)&sa, sizeof(sa)) != 0)
		return leat_err(errno, "tune: bind a socket in its directory: %s", strerror(errno));
	snprintf(control.sock, sizeof(control.sock), "%s.sock", name);
	if (listen(control.listen_fd, TUNE_SESSIONS) != 0)
		return leat_err(errno, "tune: listen: %s", strerror(errno));
	return 0;
}

static int
wake_open(void)
{
	int fd;

	if (wake_fd >= 0)
		return 0;
	fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fd < 0)
		return leat_err(errno, "tune: eventfd: %s", strerror(errno));
	__atomic_store_n(&wake_fd, fd, __ATOMIC_RELEASE);
	return 0;
}

static void
close_all(void)
{
	if (control.sock[0] != '\0')
		(void)unlinkat(control.dirfd, control.sock, 0);
	control.sock[0] = '\0';
	if (control.listen_fd >= 0)
		(void)close(control.listen_fd);
	if (control.epfd >= 0)
		(void)close(control.epfd);
	control.listen_fd = -1;
	control.epfd = -1;
	control.dirfd = -1;
}

/*
 * In a child of fork(), which has no control thread, close the block, the listening socket and the
 * epoll set. The child must not hold the lock of the block, by which agents know that the parent
 * lives, nor accept agents. The sessions' descriptors stay open in the child.
 */
static void
forked(void)
{
	tune_block_forked();
	__atomic_store_n(&wake_fd, -1, __ATOMIC_RELAXED);
	control.sock[0] = '\0';
	control.running = false;
	close_all();
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void
fork_watch(void)
{
	(void)pthread_atfork(NULL, NULL, forked);
}

static int
open_all(int dirfd, const char *name)
{
	int ret;

	control.dirfd = dirfd;
	control.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (control.epfd < 0)
		return leat_err(errno, "tune: epoll: %s", strerror(errno));
	(void)pthread_once(&fork_once, fork_watch);
	ret = wake_open();
	if (ret == 0)
		ret = listen_at(name);
	if (ret == 0)
		ret = watch_fd(wake_fd, KEY_WAKE, 0);
	if (ret == 0)
		ret = watch_fd(control.listen_fd, KEY_LISTEN, EPOLLET);
	return ret;
}

int
tune_control_start(int dirfd, const char *name)
{
	int ret = open_all(dirfd, name);

	if (ret == 0) {
		control.stop = false;
		control.running = true;
		ret = leat_thread_start(control_main, NULL);
		if (ret < 0)
			(void)leat_err(-ret, "tune: no thread: %s", strerror(-ret));
	}
	if (ret < 0) {
		control.running = false;
		close_all();
	}
	return ret;
}

void
tune_control_stop(void)
{
	if (!control.running)
		return;
	__atomic_store_n(&control.stop, true, __ATOMIC_RELEASE);
	/* Make sure that tune_control_wake() writes, also if a wake-up is pending. */
	__atomic_store_n(&woken, 0, __ATOMIC_SEQ_CST);
	tune_control_wake();
	pthread_mutex_lock(&control.lock);
	while (control.running)
		pthread_cond_wait(&control.ended, &control.lock);
	pthread_mutex_unlock(&control.lock);
	close_all();
}
