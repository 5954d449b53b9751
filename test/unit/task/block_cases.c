/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Ways out of leat_scope_block(), leat_task_within_block() and leat_task_masked_block().
 * block_cases_cxx.cc includes this file.
 */

#include <errno.h>
#include <stddef.h>

#include <leat_scope.h>
#include <leat_task.h>

#include "leave_cases.h"

#define LONG_US 1000000

static int
sleeps_long(void *arg)
{
	int *ended = (int *)arg;
	int ret = leat_task_sleep(LONG_US);

	++*ended;
	return ret;
}

static int
ends(void *arg)
{
	int *ended = (int *)arg;

	++*ended;
	return 0;
}

static int
fails(void *arg)
{
	(void)arg;
	return -EIO;
}

/* ---- a scope ---- */

static int
scope_by_end(void)
{
	int ended = 0, result = 1;

	leat_scope_block(s, &result) {
		if (result != 0)
			return -1;
		leat_scope_branch(&s, "a", ends, &ended, NULL);
		leat_scope_branch(&s, "b", ends, &ended, NULL);
	}
	return result == 0 ? ended : -1;
}

static int
scope_by_end_without_result(void)
{
	int ended = 0;

	leat_scope_block(s, NULL)
		leat_scope_branch(&s, "a", ends, &ended, NULL);
	return ended;
}

static int
scope_by_policy(void)
{
	int ended = 0, result = 1;

	leat_scope_block(s, &result) {
		leat_scope_policy_set(&s, LEAT_SCOPE_FIRST_FAILURE);
		leat_scope_branch(&s, "long", sleeps_long, &ended, NULL);
		leat_scope_branch(&s, "fails", fails, NULL, NULL);
	}
	return ended == 1 ? result : -1;
}

static int
scope_by_deadline(void)
{
	int ended = 0, result = 1;

	leat_task_within_block(10) {
		leat_scope_block(s, &result)
			leat_scope_branch(&s, "long", sleeps_long, &ended, NULL);
	}
	return ended == 1 ? result : -1;
}

/* A return from inside the block: the branches have ended when the function returns. */
static int
leaves_by_return(int *ended)
{
	leat_scope_block(s, NULL) {
		leat_scope_branch(&s, "long", sleeps_long, ended, NULL);
		leat_task_sleep(1);
		leat_scope_branch(&s, "not begun", sleeps_long, ended, NULL);
		if (*ended == 0)
			return 7;
	}
	return -1;
}

static int
scope_by_return(void)
{
	int ended = 0;
	int ret = leaves_by_return(&ended);

	return ret * 10 + ended;
}

static int
scope_by_break(void)
{
	int ended = 0, result = 1, i;

	for (i = 0; i < 5; i++) {
		leat_scope_block(s, &result) {
			leat_scope_branch(&s, "long", sleeps_long, &ended, NULL);
			leat_task_sleep(1);
			break;
		}
		if (result != -ECANCELED || ended != i + 1)
			return -1;
	}
	return i;
}

static int
scope_by_continue(void)
{
	int ended = 0, result = 1;

	leat_scope_block(s, &result) {
		leat_scope_branch(&s, "a", ends, &ended, NULL);
		if (ended == 0)
			continue;
		return -1;
	}
	return result == 0 ? ended : -1;
}

static int
scope_by_goto(void)
{
	int ended = 0;

	leat_scope_block(s, NULL) {
		leat_scope_block(t, NULL) {
			leat_scope_branch(&s, "outer", sleeps_long, &ended, NULL);
			leat_scope_branch(&t, "inner", sleeps_long, &ended, NULL);
			leat_task_sleep(1);
			goto out;
		}
	}
	return -1;
out:
	return ended;
}

/* Leave the block by break before any branch was started: the result of the scope is 0. */
static int
scope_by_break_without_branches(void)
{
	int result = 1;

	leat_scope_block(s, &result)
		break;
	return result;
}

/* A scope waits twice inside its block; the end of the block waits for the third round. */
static int
scope_waits_by_itself(void)
{
	int ended = 0, result = 1, i;

	leat_scope_block(s, &result) {
		for (i = 0; i < 2; i++) {
			leat_scope_branch(&s, "fails", fails, NULL, NULL);
			leat_scope_branch(&s, "ends", ends, &ended, NULL);
			if (leat_scope_wait(&s) != 0 || leat_scope_failure(&s, NULL) != -EIO)
				return -1;
		}
		leat_scope_branch(&s, "ends", ends, &ended, NULL);
	}
	return result == 0 ? ended : -1;
}

static int
scope_waited_and_left(void)
{
	int ended = 0, result = 5;

	leat_scope_block(s, &result) {
		leat_scope_branch(&s, "ends", ends, &ended, NULL);
		result = leat_scope_wait(&s) + 50;
		break;
	}
	return result + ended;
}

/* ---- a limit ---- */

static int
limit_by_end(void)
{
	int ret = 0;

	leat_task_within_block(10)
		ret = leat_task_sleep(LONG_US);
	return ret;
}

static int
limit_by_return(void)
{
	leat_task_within_block(10) {
		leat_task_within_block(LONG_US)
			return leat_task_sleep(LONG_US);
	}
	return -1;
}

/* break leaves only the block of the limit: the loop around it goes on. */
static int
limit_by_break(void)
{
	uint64_t outer = leat_task_deadline();
	int i, n = 0;

	for (i = 0; i < 5; i++) {
		leat_task_within_block(LONG_US) {
			if (i == 3)
				break;
			n++;
		}
		if (leat_task_deadline() != outer)
			return -1;
	}
	return n;
}

static int
limit_by_goto(void)
{
	leat_task_within_block(LONG_US) {
		if (leat_task_sleep(0) == 0)
			goto out;
	}
	return -1;
out:
	return 9;
}

/* The argument is evaluated once. */
static int
limit_once(void)
{
	uint64_t us = 10;
	int blocks = 0;

	leat_task_within_block(us++)
		blocks++;
	return blocks * 100 + (int)us;
}

/* ---- a mask ---- */

static int
mask_in_limit(void)
{
	int ret = -1;

	leat_task_within_block(0) {
		leat_task_masked_block()
			ret = leat_task_sleep(10);
		if (ret == 0)
			ret = leat_task_sleep(10);
	}
	return ret;
}

static int
mask_by_return(void)
{
	leat_task_masked_block() {
		if (leat_task_sleep(1) == 0)
			return 12;
	}
	return -1;
}

#ifdef __cplusplus
static int
leaves_by_exception(int *ended)
{
	int result = 1;

	leat_task_within_block(LONG_US) {
		leat_scope_block(s, &result) {
			leat_scope_branch(&s, "long", sleeps_long, ended, NULL);
			leat_task_sleep(1);
			throw 14;
		}
	}
	return result;
}

static int
by_exception(void)
{
	int ended = 0;

	try {
		return leaves_by_exception(&ended);
	} catch (int thrown) {
		return thrown * 10 + ended;
	}
}
#define CASES block_cases_cxx
#else
#define CASES block_cases_c
#endif

const struct leave_case CASES[] = {
	{ "scope: end", scope_by_end, 2 },
	{ "scope: end without result", scope_by_end_without_result, 1 },
	{ "scope: policy", scope_by_policy, -EIO },
	{ "scope: deadline", scope_by_deadline, -ETIMEDOUT },
	{ "scope: return", scope_by_return, 72 },
	{ "scope: break", scope_by_break, 5 },
	{ "scope: continue", scope_by_continue, 1 },
	{ "scope: goto", scope_by_goto, 2 },
	{ "scope: break without branches", scope_by_break_without_branches, 0 },
	{ "scope: waits by itself", scope_waits_by_itself, 3 },
	{ "scope: waited and left", scope_waited_and_left, 51 },
	{ "limit: end", limit_by_end, -ETIMEDOUT },
	{ "limit: return", limit_by_return, -ETIMEDOUT },
	{ "limit: break", limit_by_break, 4 },
	{ "limit: goto", limit_by_goto, 9 },
	{ "limit: once", limit_once, 111 },
	{ "mask: in a limit", mask_in_limit, -ETIMEDOUT },
	{ "mask: return", mask_by_return, 12 },
#ifdef __cplusplus
	{ "exception", by_exception, 141 },
#endif
	{ NULL, NULL, 0 },
};
