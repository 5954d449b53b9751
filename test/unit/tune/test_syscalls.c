/* SPDX-License-Identifier: BSD-3-Clause */

/* System calls that fail: this program's own epoll_pwait2() and others take the place of libc's. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leat_cmocka.h"
#include "tune_pvt.h"

static char dir[] = "/tmp/leat-test-syscalls-XXXXXX";

/* Errors of these functions; 0: they work. */
static int pwait2_fails, wait_fails;
/* Errors of the next calls of posix_fallocate(), to the first 0. */
static int fallocate_fails[4], nb_fallocate;
static unsigned int waits;

int
epoll_pwait2(int epfd, struct epoll_event *events, int maxevents, const struct timespec *timeout,
	     const sigset_t *ss)
{
	(void)__atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
	if (pwait2_fails != 0) {
		errno = pwait2_fails;
		return -1;
	}
	return (int)syscall(SYS_epoll_pwait2, epfd, events, maxevents, timeout, ss, _NSIG / 8);
}

int
epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	if (wait_fails != 0) {
		errno = wait_fails;
		return -1;
	}
	return (int)syscall(SYS_epoll_pwait, epfd, events, maxevents, timeout, NULL, _NSIG / 8);
}

int
posix_fallocate(int fd, off_t offset, off_t len)
{
	int err = nb_fallocate < (int)RTE_DIM(fallocate_fails) ? fallocate_fails[nb_fallocate] : 0;

	nb_fallocate++;
	return err != 0 ? err : fallocate(fd, 0, offset, len) == 0 ? 0 : errno;
}

static int
start(void)
{
	const struct leat_tune_start_conf conf = { .program = "test", .dir = dir };

	return leat_tune_start(&conf);
}

/* Run the control thread for a second. @return number of times that it waited */
static unsigned int
waits_in_a_second(void)
{
	uint64_t begin, now;
	unsigned int n;

	waits = 0;
	assert_int_equal(start(), 0);
	begin = __atomic_load_n(&tune_block_head()->heartbeat_ns, __ATOMIC_RELAXED);
	do {
		(void)sched_yield();
		now = __atomic_load_n(&tune_block_head()->heartbeat_ns, __ATOMIC_RELAXED);
	} while (now < begin + NS_PER_S);
	n = __atomic_load_n(&waits, __ATOMIC_RELAXED);
	leat_tune_stop();
	return n;
}

/*
 * Old kernels have no epoll_pwait2(), and seccomp filters that don't know it refuse it. The control
 * thread must not run hot then, nor if it can't wait for events at all.
 */
static void
the_control_thread_sleeps(void **state)
{
	static const int errors[] = { 0, ENOSYS, EPERM, EACCES };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(errors); i++) {
		pwait2_fails = errors[i];
		assert_in_range(waits_in_a_second(), 1, 20);
	}
	wait_fails = EPERM;
	assert_in_range(waits_in_a_second(), 1, 500);
	pwait2_fails = 0;
	wait_fails = 0;
}

static void
the_file_of_measurements_is_allocated(void **state)
{
	(void)state;
	/* A signal is no failure. */
	nb_fallocate = 0;
	fallocate_fails[0] = EINTR;
	fallocate_fails[1] = EINTR;
	assert_int_equal(start(), 0);
	assert_int_equal(nb_fallocate, 3);
	leat_tune_stop();
	nb_fallocate = 0;
	fallocate_fails[0] = EDQUOT;
	assert_int_equal(start(), -EDQUOT);
	assert_non_null(strstr(leat_err_msg(), strerror(EDQUOT)));
	fallocate_fails[0] = 0;
}

static int
setup(void **state)
{
	(void)state;
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_control_thread_sleeps),
		cmocka_unit_test(the_file_of_measurements_is_allocated),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
