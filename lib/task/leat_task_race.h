/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_RACE_H
#define LEAT_TASK_RACE_H

/**
 * @file
 * Run several functions concurrently, in one call, until one has succeeded or all have ended.
 *
 * A hedged request with a deadline: the second replica is asked when the first has not answered
 * after 2 ms, or has failed; the first answer cancels the other request; after 20 ms both are
 * cancelled.
 *
 * @code
 *	struct leat_task_branch asks[] = {
 *		{ .fn = ask, .arg = &replica[0] },
 *		{ .fn = ask, .arg = &replica[1], .after_us = 2000 },
 *	};
 *
 *	ret = leat_task_within(20000, leat_task_race(asks, 2));
 *	if (ret >= 0)
 *		use(&replica[ret]);
 * @endcode
 *
 *     time  0         2 ms        3 ms
 *     ask 0 |---------------------- cancelled
 *     ask 1           |---------- returns 0: leat_task_race() returns 1
 *
 * The functions need no code for the cancel. They are branches of a scope (leat_scope.h), so all of
 * them have ended when the call returns, and their arguments may be variables of the caller. Like
 * any branch, a function that acquires a resource must release it when it is cancelled; and more
 * than one function may have succeeded, see leat_task_branch.ret.
 *
 * Thread rules: as for tasks; in a task.
 */

#include <leat_common.h>
#include <leat_scope.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A function to run beside others. Zeroed except for fn means: start at once, without a name. */
struct leat_task_branch {
	leat_task_fn fn; /**< returns 0 or more, or a negative errno for a failure */
	void *arg;	 /**< argument of fn */
	/**
	 * Delay of the start, microseconds from the call; 0: start at once. Not less than after_us
	 * of the preceding element of the array.
	 */
	uint64_t after_us;
	const char *name; /**< as for leat_task_spawn(); NULL: no name */
	/** [out] Return value of fn; -ECANCELED: fn never ran; -ENOMEM: it could not be started. */
	int ret;
};

/**
 * Run functions concurrently, until the first has succeeded: it returned 0 or more. The others are
 * cancelled; functions that have not begun never run.
 *
 * When a function fails, the next one that is still delayed starts at once.
 *
 * @param b
 *   The functions. The array can be used again unchanged: each call sets all ret.
 * @param n
 *   Number of elements of b.
 * @return
 *   The index of the first function that succeeded, whatever happened after that. Else, when all
 *   have ended:
 *   - -ECANCELED: the caller was cancelled
 *   - -ETIMEDOUT: the caller's deadline has passed
 *   - the return value of the function that failed first. A function that could not be started has
 *     failed with -ENOMEM: see leat_tasks_conf.max_tasks
 *   - -ENOENT: n is 0
 *
 *   In these cases nothing was started, and all ret are -ECANCELED:
 *   - -EINVAL: a fn is NULL; or an after_us is less than the preceding one
 *   - -EPERM: not in a task
 */
LEAT_API int leat_task_race(struct leat_task_branch *b, unsigned int n);

/**
 * Run functions concurrently, until all have ended.
 *
 * @return
 *   0: all have succeeded; otherwise as leat_task_race(). When a function can't be started the
 *   others are cancelled.
 */
LEAT_API int leat_task_all(struct leat_task_branch *b, unsigned int n);

/**
 * Run functions as branches of a scope with any policy. leat_task_race() uses
 * LEAT_SCOPE_FIRST_SUCCESS, leat_task_all() uses LEAT_SCOPE_ALL. With LEAT_SCOPE_FIRST_FAILURE the
 * first failure cancels the other functions. With LEAT_SCOPE_BRANCHES a function cancels them by
 * leat_scope_cancel_siblings().
 *
 * @return
 *   As leat_scope_wait(), and -EINVAL, -EPERM as leat_task_race().
 */
LEAT_API int leat_task_run(enum leat_scope_policy policy, struct leat_task_branch *b,
			   unsigned int n);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_RACE_H */
