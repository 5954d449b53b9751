/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_UNIT_STEPPER_H
#define TEST_UNIT_STEPPER_H

/*
 * A child that is run instruction by instruction while its parent looks at the memory both write to, to
 * be killed at a chosen one.
 *
 *     child                              parent
 *     stepper_here()   -- stops -->      stepper_reached(): true
 *     the call under test                stepper_step() until something is seen in the memory, or
 *     stepper_here()                     it says that the child came here; stepper_kill()
 *
 * How many instructions a call takes may differ from run to run: the kernel's clock page is read
 * again when it changes meanwhile. Signals from outside, SIGSTOP and SIGCONT above all, are kept
 * from the child.
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

/* The signal of stepper_here(), which the parent sees and the child never gets. */
#define STEPPER_MARK SIGUSR2

/* Child. @return false: this process may not be traced */
static inline bool
stepper_here(bool first)
{
	if (first && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		return false;
	return raise(STEPPER_MARK) == 0;
}

/* Parent, with the child stopped: why it stopped, as a signal. */
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

/* @return false: it came to the next stepper_here() */
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
	/* A stop that was under way may be told first. */
	do {
		assert_int_equal(waitpid(pid, &st, 0), pid);
	} while (!WIFSIGNALED(st));
}

/*
 * Parent. May processes be traced here at all? And can they be stepped: where a lock is taken with a load and a
 * store that must not be interrupted, it never succeeds step by step.
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
