/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_RACE_H
#define LEAT_TASK_RACE_H

/**
 * @file
 * Several functions at once, in one statement: the first that succeeds, or all.
 *
 * A hedged request with a deadline: the second replica is asked when the first has not answered
 * after 2 ms, or has failed; whichever answers first ends the other; after 20 ms it is over.
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
 * The functions contain no word of cancel. They are branches of a scope (leat_scope.h), so all of
 * them have ended when the call returns, and their arguments may be variables of the caller. A
 * function that gets something to be given back has to see to that when it is cancelled, as any
 * branch; and more than one may have succeeded, see leat_task_branch.ret.
 *
 * Thread rules: as for tasks; in a task.
 */

#include <leat_common.h>
#include <leat_scope.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A function to be run beside others. Zeroed but for fn means: at once, without a name. */
struct leat_task_branch {
	leat_task_fn fn; /**< returns 0 or more, or a negative errno: it failed */
	void *arg;
	/**
	 * Start it so many microseconds after the call; 0: at once. Not less than that of the one
	 * before it in the array.
	 */
	uint64_t after_us;
	const char *name; /**< as for leat_task_spawn(); NULL: none */
	/** [out] What it returned; -ECANCELED if it never ran; -ENOMEM if it could not. */
	int ret;
};

/**
 * Run functions at once, until the first has succeeded: it returned 0 or more. The others are
 * cancelled; those that have not begun never do.
 *
 * When one fails, the next that still waits for its time is started at once.
 *
 * @param b
 *   Set up anew, but for ret, the array may be used again.
 * @return
 *   The index of the first that succeeded; it counts whatever happened after it. Else, when all
 *   have ended:
 *   - -ECANCELED, -ETIMEDOUT: the caller was cancelled, its deadline has passed
 *   - what the first in time that failed returned. One that could not be started has failed with
 *     -ENOMEM: see leat_tasks_conf.max_tasks
 *   - -ENOENT: n is 0
 *
 *   Nothing was started, ret is -ECANCELED:
 *   - -EINVAL: no function; or an after_us is less than the one before it
 *   - -EPERM: not in a task
 */
LEAT_API int leat_task_race(struct leat_task_branch *b, unsigned int n);

/**
 * Run functions at once, until all have ended.
 *
 * @return
 *   0: all have succeeded; otherwise as leat_task_race(). When one can't be started the others are
 *   cancelled.
 */
LEAT_API int leat_task_all(struct leat_task_branch *b, unsigned int n);

/**
 * Run functions as branches of a scope with any policy. The two above are
 * LEAT_SCOPE_FIRST_SUCCESS and LEAT_SCOPE_ALL; with LEAT_SCOPE_FIRST_FAILURE the first that fails
 * ends the others, with LEAT_SCOPE_BRANCHES they do it by themselves.
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
