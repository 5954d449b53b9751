/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_UNIT_STEPPER_H
#define TEST_UNIT_STEPPER_H

/*
 * A child that is run instruction by instruction, to be killed at a chosen instruction, while its
 * parent looks at the memory that both write to.
 *
 *     child                              parent
 *     stepper_here()   -- stops -->      stepper_reached(): true
 *     the call under test                stepper_step() until the parent sees what it waits for in
 *     stepper_here()                     the memory, or until stepper_step() says that the child
 *                                        came to stepper_here(); then stepper_kill()
 *
 * How many instructions a call takes may differ from run to run: the child reads the kernel's clock
 * page again when it changes meanwhile. Signals from outside, SIGSTOP and SIGCONT above all, are
 * kept from the child.
 */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leat_cmocka.h"

/* The signal of stepper_here(). The parent sees it; the child never gets it. */
#define STEPPER_MARK SIGUSR2

/*
 * Child: with first set, ask to be traced; then stop for the parent.
 * @return false: this process may not be traced
 */
static inline bool
stepper_here(bool first)
{
	if (first && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		return false;
	return raise(STEPPER_MARK) == 0;
}

/* Parent. @return the signal that stopped the child, whose wait status is st */
static inline int
stepper_why(int st)
{
	if (!WIFSTOPPED(st))
		fail_msg("the child ended: status %#x", (unsigned int)st);
	return WSTOPSIG(st);
}

/* Parent: let the child run until its next stepper_here(). */
static inline void
stepper_resume(pid_t pid)
{
	int st;

	do {
		if (ptrace(PTRACE_CONT, pid, NULL, NULL) != 0)
			fail_msg("PTRACE_CONT: %s", strerror(errno));
		assert_int_equal(waitpid(pid, &st, 0), pid);
	} while (stepper_why(st) != STEPPER_MARK);
}

/* Parent. @return whether the child stopped in stepper_here() */
static inline bool
stepper_reached(pid_t pid)
{
	int st;
	pid_t got = waitpid(pid, &st, WNOHANG);

	assert_true(got == 0 || got == pid);
	if (got == 0)
		return false;
	if (stepper_why(st) != STEPPER_MARK)
		stepper_resume(pid);
	return true;
}

/* Parent: wait for the child's first stepper_here(). */
static inline void
stepper_await(pid_t pid)
{
	int st;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (stepper_why(st) != STEPPER_MARK)
		stepper_resume(pid);
}

/*
 * Parent: run one instruction of the child. @return false: the child is at the next stepper_here()
 */
static inline bool
stepper_step(pid_t pid)
{
	int st;

	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
			fail_msg("PTRACE_SINGLESTEP: %s", strerror(errno));
		assert_int_equal(waitpid(pid, &st, 0), pid);
		if (stepper_why(st) == SIGTRAP)
			return true;
		if (stepper_why(st) == STEPPER_MARK)
			return false;
	}
}

static inline void
stepper_kill(pid_t pid)
{
	int st;

	assert_int_equal(kill(pid, SIGKILL), 0);
	/* A stop that was already under way may be reported before the kill. */
	do {
		assert_int_equal(waitpid(pid, &st, 0), pid);
	} while (!WIFSIGNALED(st));
}

/*
 * Parent. @return whether processes may be traced here, and can be stepped. Single steps break the
 * reservation of processors that acquire a lock with a load and a store (LL/SC), so that the lock
 * is never acquired.
 */
static inline bool
stepper_works(void)
{
#ifdef __x86_64__
	pid_t pid = fork();
	int st;

	if (pid == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
	return pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0;
#else
	return false;
#endif
}

#endif /* TEST_UNIT_STEPPER_H */
