/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_SCOPE_H
#define LEAT_SCOPE_H

/**
 * @file
 * Structured concurrency: a function starts branches and waits until all have ended.
 *
 * @code
 *	static int timer(void *arg)   { leat_task_sleep(1000000); leat_scope_break(0); }
 *	static int receive(void *arg) { ... leat_scope_break(ret); }
 *	static int send(void *arg)    { ... if (ret < 0) leat_scope_break(ret); return 0; }
 *
 *	struct leat_scope s;
 *	int got;
 *
 *	leat_scope_init(&s);
 *	leat_scope_branch(&s, "timer", timer, req, NULL);
 *	leat_scope_branch(&s, "receive", receive, req, &got);
 *	leat_scope_branch(&s, "send", send, req, NULL);
 *	ret = leat_scope_wait(&s);
 * @endcode
 *
 * A branch is a task of the same reactor. It may wait for branches of its own, to any depth, and it
 * may cancel its siblings:
 *
 *     parent -- leat_scope_wait() --+-- timer
 *     not cancelled                 |   cancelled by send
 *                                   +-- receive -- leat_scope_wait() --+-- x  cancelled by send
 *                                   |   cancelled by send              `-- y  cancelled by send
 *                                   `-- send: leat_scope_cancel_siblings()
 *                                       not cancelled
 *
 * The signal of a cancel reaches each branch of the scope exactly once, whatever it does at that
 * moment: the flag is set, leat_task_cancelled(), and the operation it waits in is asked to end.
 * The flag stays: what the branch starts from then on fails at once with -ECANCELED, so that it soon
 * comes to its end. Cancel waits for none of that. A buffer of a cancelled operation is in use until
 * the operation ended, and leat_scope_wait() returns only after all branches.
 *
 * doc/guide/cancel.md has the rules, one by one. From "Aesop: Expressing Concurrency in
 * High-Performance System Software", D. Kimpe et al., 2012, whose words for the functions below are
 * pwait, pbranch, pbreak and pcancel.
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
	bool ended;	/**< it was waited for: the next branch makes it anew */
	int refused;	/**< why not all branches were started */
	int failure;
	char failed[LEAT_TASK_NAME_MAX];
};

/**
 * Make an empty scope. Its branches will be waited for by the calling task.
 *
 * A scope that was waited for need not be made again: the next leat_scope_branch() of the same task
 * does that, so a retry loop may make it once, before the loop. A scope with branches that have not
 * ended must not be made again.
 */
LEAT_API void leat_scope_init(struct leat_scope *s);

/**
 * Start a branch: a task that runs when the caller waits. For the task that made the scope, before
 * leat_scope_wait() or, as the first branch of a new round, after it; and for branches of the
 * scope, and those below them, while it runs.
 *
 * In a scope that was cancelled it is born cancelled: it runs, and what it starts is refused.
 *
 * The result need not be looked at: when a branch can't be started the whole scope is cancelled,
 * what had not begun never does, and leat_scope_wait() returns the reason.
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
 *   - -EINVAL: no function
 *   - -EPERM: not in a task of that reactor; or the scope has ended, and the caller is not the task
 *     that made it
 */
LEAT_API int leat_scope_branch(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg,
			       int *ret);

/**
 * Wait until all branches have ended. A scope to which branches were added must be waited for,
 * by the task that made it, before it goes out of use. Afterwards it can be used again, without
 * leat_scope_init(): whatever it ended with, it starts clean.
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
LEAT_API int leat_scope_wait(struct leat_scope *s);

/**
 * The first branch that failed: returned < 0, other than -ECANCELED because it was cancelled.
 *
 * @param[out] name
 *   Its name, "" if none did; valid until the scope is used again. May be NULL.
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
 *   - -EINVAL: the caller is not a branch (a detached task is none)
 */
LEAT_API int leat_scope_cancel_siblings(void);

/** End this branch, and the waiting for the others: cancel them and return ret. */
#define leat_scope_break(ret)                                                                      \
	do {                                                                                       \
		int leat_scope_break_ret = (ret);                                                  \
                                                                                                   \
		(void)leat_scope_cancel_siblings();                                                \
		return leat_scope_break_ret;                                                       \
	} while (0)

/** Has the calling task been cancelled? A mask makes no difference. False outside of tasks. */
LEAT_API bool leat_task_cancelled(void);

/** What leat_task_mask() has to restore. Private. */
struct leat_task_mask {
	uint64_t deadline;
	bool masked;
};

/**
 * Mask the signal and the deadline, so that the calling task can wait while it cleans up: in here
 * its operations are neither refused nor ended early. A deadline may be set anew. Masks nest, and
 * each must be restored on every way out; leat_task_masked() does that by itself. Nothing happens
 * outside of tasks.
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
 * Evaluate an expression with the signal and the deadline masked, see leat_task_mask(). The mask
 * ends with the expression, however it is left: return, break and goto included.
 *
 * @code
 *	leat_task_masked(say_goodbye(conn));
 *	ret = leat_task_masked(leat_task_within(5000, say_goodbye(conn)));
 * @endcode
 *
 * @return
 *   Its value, of any type, or none.
 */
#define leat_task_masked(...) LEAT_TASK_MASKED(LEAT_SCOPE_NAME(leat_mask_), __VA_ARGS__)

/** Private: leat_task_masked() with the name of its variable. */
#define LEAT_TASK_MASKED(name, ...)                                                                \
	__extension__({                                                                            \
		const struct leat_task_mask name LEAT_SCOPE_AT_END(leat_task_unmask) =             \
			leat_task_mask_begin();                                                    \
		__VA_ARGS__;                                                                       \
	})

/** Private: a name that no other expansion of a macro has, so that they nest without shadows. */
#define LEAT_SCOPE_NAME(prefix) LEAT_SCOPE_PASTE(prefix, __COUNTER__)
#define LEAT_SCOPE_PASTE(a, b) LEAT_SCOPE_PASTE_(a, b)
#define LEAT_SCOPE_PASTE_(a, b) a##b

/** Private: call fn with a variable's address when the block of the variable is left. */
#define LEAT_SCOPE_AT_END(fn) __attribute__((unused, cleanup(fn)))

/** Private: leat_task_mask() as a value. */
static inline struct leat_task_mask
leat_task_mask_begin(void)
{
	struct leat_task_mask mask;

	leat_task_mask(&mask);
	return mask;
}

/**
 * Have a time limit around anything that waits: whatever it waits for is cancelled then.
 *
 * @code
 *	ret = leat_task_within(1000, leat_task_event_wait(&ev));
 *	ret = leat_task_within(5000, exchange(conn, req));
 * @endcode
 *
 * What ends in time, or can't be stopped any more, has its own result; so a message that arrived is
 * never lost. Limits nest, the earliest counts. The limit ends with the expression, however it is
 * left: an expression of statements, ({ ... }), may have return, break and goto in it.
 *
 * @param us
 *   Microseconds. 0: what would wait is refused.
 * @param ...
 *   An expression, evaluated once: 0 or more, or a negative errno.
 * @return
 *   Its value; -ETIMEDOUT: it was too late.
 */
#define leat_task_within(us, ...)                                                                  \
	LEAT_TASK_WITHIN(LEAT_SCOPE_NAME(leat_task_within_), us, __VA_ARGS__)

/** Private: leat_task_within() with the name of its variable. */
#define LEAT_TASK_WITHIN(name, us, ...)                                                            \
	__extension__({                                                                            \
		const struct leat_task_within name LEAT_SCOPE_AT_END(leat_task_within_end) =       \
			leat_task_within_begin(us);                                                \
		leat_task_within_result(&name, __VA_ARGS__);                                       \
	})

/** What leat_task_within() has to restore. Private. */
struct leat_task_within {
	uint64_t outer;
	uint64_t when;
};

/** Private: the begin of leat_task_within(), its end however it is left, what its value becomes. */
LEAT_API struct leat_task_within leat_task_within_begin(uint64_t us);
LEAT_API void leat_task_within_end(const struct leat_task_within *w);
LEAT_API int leat_task_within_result(const struct leat_task_within *w, int ret);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SCOPE_H */
