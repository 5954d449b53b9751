/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_SCOPE_H
#define LEAT_SCOPE_H

/**
 * @file
 * Structured concurrency: a function starts branches and waits until all have ended.
 *
 * @code
 *	static int timer(void *arg)   { leat_task_sleep(1000000); leat_pbreak(0); }
 *	static int receive(void *arg) { ... leat_pbreak(ret); }
 *	static int send(void *arg)    { ... if (ret < 0) leat_pbreak(ret); return 0; }
 *
 *	struct leat_scope s;
 *	int got;
 *
 *	leat_scope_init(&s);
 *	leat_pbranch(&s, "timer", timer, req, NULL);
 *	leat_pbranch(&s, "receive", receive, req, &got);
 *	leat_pbranch(&s, "send", send, req, NULL);
 *	ret = leat_pwait(&s);
 * @endcode
 *
 * A branch is a task of the same reactor. It may wait for branches of its own, to any depth, and it
 * may cancel its siblings:
 *
 *     parent ---- leat_pwait() ----+-- timer
 *     not cancelled                +-- receive ---- leat_pwait() --+-- x   cancelled by send
 *                                  |   cancelled by send           `-- y   cancelled by send
 *                                  `-- send: leat_pcancel()
 *                                      not cancelled
 *
 * The signal of a cancel reaches each branch of the scope exactly once, whatever it does at that
 * moment: the flag is set, leat_task_cancelled(), and the operation it waits in is asked to end.
 * The flag stays: what the branch starts from then on fails at once with -ECANCELED, so that it soon
 * comes to its end. Cancel waits for none of that. A buffer of a cancelled operation is in use until
 * the operation ended, and leat_pwait() returns only after all branches.
 *
 * doc/guide/cancel.md has the rules, one by one. From "Aesop: Expressing Concurrency in
 * High-Performance System Software", D. Kimpe et al., 2012.
 *
 * Thread rules: as for tasks.
 */

#include <leat_common.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A set of branches, usually on the stack of the function that waits for them. Set up with
 * leat_scope_init(); the fields are private.
 */
struct leat_scope {
	struct leat_task *parent; /**< waits for the branches */
	struct leat_task *first;  /**< branches that have not ended, in the order of their start */
	struct leat_task **last;
	void *wait; /**< the parent's; NULL: it does not wait yet */
	uint32_t nb_live;
	bool cancelled; /**< the signal was sent: here, or from above */
	bool outer;	/**< from above */
	int refused;	/**< why not all branches were started */
	int failure;
	char failed[LEAT_TASK_NAME_MAX];
};

/** Make an empty scope. Its branches will be waited for by the calling task. */
LEAT_API void leat_scope_init(struct leat_scope *s);

/**
 * Start a branch: a task that runs when the caller waits. For the task that made the scope, before
 * leat_pwait(), and for branches of the scope, and those below them, while it runs.
 *
 * In a scope that was cancelled it is born cancelled: it runs, and what it starts is refused.
 *
 * The result need not be looked at: when a branch can't be started the whole scope is cancelled,
 * what had not begun never does, and leat_pwait() returns the reason.
 *
 * @param name
 *   As for leat_task_spawn().
 * @param[out] ret
 *   Gets what fn returned; may be NULL. -ECANCELED until it has ended.
 * @return
 *   - 0
 *   - -ENOMEM: there are leat_tasks_conf.max_tasks (or that was so for an earlier one)
 *   - -ECANCELED, -ETIMEDOUT: by the task that made the scope: it is cancelled, its deadline has
 *     passed: nothing was started
 *   - -EINVAL: no name or function
 *   - -EPERM: not in a task of that reactor, or the scope has ended
 */
LEAT_API int leat_pbranch(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg,
			  int *ret);

/**
 * Wait until all branches have ended. A scope to which branches were added must be waited for,
 * by the task that made it, before it goes out of use. Afterwards leat_scope_init() makes a new one
 * of it.
 *
 * To the branch that calls it, it is an operation like others: it may be cancelled from outside, and
 * then cancels its own branches.
 *
 * @return
 *   - 0: all have ended, whatever they returned
 *   - -ECANCELED, -ETIMEDOUT: cancelled from outside, at the caller's deadline; all have ended
 *   - -ENOMEM, -EINVAL: a branch could not be started; the others have ended
 *   - -EPERM: not by the task that made the scope
 */
LEAT_API int leat_pwait(struct leat_scope *s);

/**
 * The first branch that failed: returned < 0, other than -ECANCELED because it was cancelled.
 *
 * @param[out] name
 *   Its name, "" if none did; valid as long as the scope. May be NULL.
 * @return
 *   What it returned; 0: none failed.
 */
LEAT_API int leat_scope_failure(const struct leat_scope *s, const char **name);

/**
 * Cancel the other branches of the scope that the caller is a branch of, and what is below them.
 * Never waits. Neither the caller nor the function that waits for the scope is cancelled by it.
 *
 * @return
 *   - 0: delivered
 *   - -EEXIST: another branch of this scope, or of an enclosing one, did so before
 *   - -EINVAL: the caller is not a branch (a lonely one is none)
 */
LEAT_API int leat_pcancel(void);

/** End this branch, and the waiting for the others: cancel them and return ret. */
#define leat_pbreak(ret)                                                                           \
	do {                                                                                       \
		int leat_pbreak_ret = (ret);                                                       \
                                                                                                   \
		(void)leat_pcancel();                                                              \
		return leat_pbreak_ret;                                                            \
	} while (0)

/**
 * Start a lonely branch: detached, nobody waits for it, no cancel reaches it, and it can cancel
 * nobody. (It may have scopes of its own.)
 *
 * @return
 *   0; -ENOMEM, -EINVAL as for leat_pbranch(); -EPERM: the reactor has no tasks.
 */
LEAT_API int leat_lonely(const char *name, leat_task_fn fn, void *arg);

/** Has the calling task been cancelled? A mask makes no difference. False outside of tasks. */
LEAT_API bool leat_task_cancelled(void);

/** What leat_task_mask() has to restore. Private. */
struct leat_task_mask {
	uint64_t deadline;
	bool masked;
};

/**
 * Mask the signal and the deadline, so that the calling task can wait while it cleans up: in here
 * its operations are neither refused nor ended early. A deadline may be set anew. Masks nest.
 * Nothing happens outside of tasks.
 *
 * @code
 *	struct leat_task_mask mask;
 *
 *	leat_task_mask(&mask);
 *	... say goodbye ...
 *	leat_task_unmask(&mask);
 * @endcode
 */
LEAT_API void leat_task_mask(struct leat_task_mask *mask);

/** Restore what was before leat_task_mask(). A signal that came meanwhile counts from here on. */
LEAT_API void leat_task_unmask(const struct leat_task_mask *mask);

/**
 * Have a time limit around anything that waits: whatever it waits for is cancelled then.
 *
 * @code
 *	ret = leat_within(1000, leat_task_event_wait(&ev));
 *	ret = leat_within(5000, exchange(conn, req));
 * @endcode
 *
 * What ends in time, or can't be stopped any more, has its own result; so a message that arrived is
 * never lost. Limits nest, the earliest counts.
 *
 * @param us
 *   Microseconds. 0: what would wait is refused.
 * @param ...
 *   An expression, evaluated once: 0 or more, or a negative errno.
 * @return
 *   Its value; -ETIMEDOUT: it was too late.
 */
#define leat_within(us, ...)                                                                       \
	__extension__({                                                                            \
		struct leat_within leat_within_;                                                   \
                                                                                                   \
		leat_within_begin(&leat_within_, us);                                              \
		leat_within_end(&leat_within_, __VA_ARGS__);                                       \
	})

/** What leat_within() has to restore. Private. */
struct leat_within {
	uint64_t outer;
	uint64_t when;
};

/** Private: the two ends of leat_within(). */
LEAT_API void leat_within_begin(struct leat_within *w, uint64_t us);
LEAT_API int leat_within_end(const struct leat_within *w, int ret);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SCOPE_H */
