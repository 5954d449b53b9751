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
 * Where the first success or the first failure is to end the others, a policy says so, and the
 * branches need no word of it: leat_scope_policy_set(). From outside, leat_scope_cancel() and
 * leat_task_cancel() give the signal.
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

/** Which branch ends the others, and what leat_scope_wait() returns. */
enum leat_scope_policy {
	/** The branches decide, by leat_scope_cancel_siblings(); the wait returns 0. */
	LEAT_SCOPE_BRANCHES = 0,
	/** None does; the wait returns 0, or the first failure. */
	LEAT_SCOPE_ALL,
	/** The first that returns 0 or more; the wait returns its number. */
	LEAT_SCOPE_FIRST_SUCCESS,
	/** The first that fails; the wait returns 0, or that failure. */
	LEAT_SCOPE_FIRST_FAILURE,
};

/**
 * A set of branches, usually on the stack of the function that waits for them. Set up with
 * leat_scope_init(); the fields are private.
 */
struct leat_scope {
	struct leat_task *parent; /**< waits for the branches */
	struct leat_task *first;  /**< branches that have not ended, in the order of their start */
	struct leat_task **last;
	void *wait; /**< the parent's; NULL: it does not wait yet */
	uint32_t nb_started;
	uint32_t nb_ended;
	uint32_t flags;
	int refused; /**< why not all branches were started */
	int failure;
	int won_ret;
	uint32_t winner;
	leat_task_fn failed_fn; /**< of the branch, if it has no name */
	leat_task_fn won_fn;
	char failed[LEAT_TASK_NAME_MAX];
	char won[LEAT_TASK_NAME_MAX];
	int *block_result; /**< leat_scope_block(): where to */
};

/**
 * Make an empty scope of the policy LEAT_SCOPE_BRANCHES. Its branches will be waited for by the
 * calling task.
 *
 * A scope that was waited for need not be made again: the next leat_scope_branch() of the same task
 * does that, so a retry loop may make it once, before the loop. A scope with branches that have not
 * ended must not be made again.
 */
LEAT_API void leat_scope_init(struct leat_scope *s);

/**
 * Have the first success, or the first failure, of a branch end the others. To be called before the
 * first branch of a round; it counts for the rounds that follow, too.
 *
 * A branch has succeeded when it returns 0 or more, and failed when it returns less, cancelled or
 * not: what a branch that was cancelled got in spite of that is not lost. -ECANCELED because its
 * scope was cancelled is neither. With a policy, -ECANCELED of a branch that leat_task_cancel() has
 * singled out is a failure.
 *
 * Under each policy a branch may cancel its siblings.
 *
 * @return
 *   0; -EINVAL: no such policy; -EBUSY: branches have been started in this round.
 */
LEAT_API int leat_scope_policy_set(struct leat_scope *s, enum leat_scope_policy policy);

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
 * leat_scope_init(): whatever it ended with, it starts clean, with its policy.
 *
 * To the branch that calls it, it is an operation like others: it may be cancelled from outside, and
 * then cancels its own branches.
 *
 * @return
 *   All have ended, and:
 *   - 0 or more: as the policy says; one that branches decide: 0, whatever they returned
 *   - -ECANCELED, -ETIMEDOUT: cancelled from outside: by leat_scope_cancel(), or with the caller
 *     (leat_task_cancelled() tells which); at the caller's deadline. A first success counts more
 *   - -ENOMEM, -EINVAL: a branch could not be started
 *   - what the first branch that failed returned: as the policy says; LEAT_SCOPE_FIRST_SUCCESS:
 *     when none succeeded
 *   - -ENOENT: LEAT_SCOPE_FIRST_SUCCESS: there was no branch
 *
 *   Else -EPERM: not by the task that made the scope.
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
 * The branch that decided, after leat_scope_wait(): the first success or the first failure, as the
 * policy says; where the branches decide, the one that cancelled its siblings.
 *
 * @param[out] name
 *   Its name, "" if there is none; valid until the scope is used again. Where the branches decide
 *   it is that of its function, as leat_task_name() tells it. May be NULL.
 * @param[out] ret
 *   What it returned; may be NULL.
 * @return
 *   Its number, in the order of the starts, from 0 on; -ENOENT: none decided.
 */
LEAT_API int leat_scope_winner(const struct leat_scope *s, const char **name, int *ret);

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

/**
 * Cancel all branches of a scope, and what is below them, from anywhere on the thread of the
 * reactor: the task that made the scope, another task, a poller, a timer, an event, a message of
 * another lcore. Never waits. leat_scope_wait() returns -ECANCELED for it, though the task that
 * waits is not cancelled: its next wait is as good as any. Branches that are started later in this
 * round are born cancelled.
 *
 * A branch of the scope, or a task below one, that calls it is cancelled as well.
 *
 * The scope must exist: only its own task knows for how long that is.
 *
 * @return
 *   - 0: delivered
 *   - -EEXIST: a branch of this scope, an enclosing one or a caller like this one did so before;
 *     the wait returns what it would have. A branch that had cancelled its siblings gets the signal
 *   - -ESRCH: all branches have ended, and it is waited for, or was
 *   - -EINVAL: NULL
 *   - -EPERM: on a wrong thread, see leat_reactor_call(); or no task made the scope
 */
LEAT_API int leat_scope_cancel(struct leat_scope *s);

/**
 * Cancel a task, from anywhere on the thread of its reactor, as leat_scope_cancel(). Never waits.
 * The signal is the same: it reaches the task exactly once, whichever way it comes, and then all
 * branches below it. It goes along scopes only: not to tasks that the task has spawned, or joins.
 *
 * A task that has not begun runs, and is cancelled from its begin. The calling task may cancel
 * itself: what it waits for from then on is refused. A masked one notices after the mask.
 *
 * @param task
 *   It must not have been joined, or ended detached: where it may have, see leat_task_ref_make().
 * @return
 *   - 0: delivered
 *   - -EEXIST: it was cancelled before, by whatever
 *   - -ESRCH: it has ended
 *   - -EINVAL: NULL
 *   - -EPERM: on a wrong thread, see leat_reactor_call()
 */
LEAT_API int leat_task_cancel(struct leat_task *task);

/** Has the calling task been cancelled? A mask makes no difference. False outside of tasks. */
LEAT_API bool leat_task_cancelled(void);

/** What leat_task_mask() has to restore. Private. */
struct leat_task_mask_state {
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
 *	struct leat_task_mask_state mask;
 *
 *	leat_task_mask(&mask);
 *	... say goodbye ...
 *	leat_task_unmask(&mask);
 * @endcode
 */
LEAT_API void leat_task_mask(struct leat_task_mask_state *mask);

/** Restore what was before leat_task_mask(). A signal that came meanwhile counts from here on. */
LEAT_API void leat_task_unmask(const struct leat_task_mask_state *mask);

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
		const struct leat_task_mask_state name LEAT_SCOPE_AT_END(leat_task_unmask) =       \
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
static inline struct leat_task_mask_state
leat_task_mask_begin(void)
{
	struct leat_task_mask_state mask;

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

/**
 * A block with a scope of its own, which waits for its branches at its end: no way out of it leaves
 * them behind.
 *
 * @code
 *	leat_scope_block(s, &ret) {
 *		leat_scope_branch(&s, "receive", receive, req, &got);
 *		if (connect(req) < 0)
 *			return -EIO;
 *		leat_scope_branch(&s, "send", send, req, NULL);
 *	}
 * @endcode
 *
 * At its end it waits as leat_scope_wait(). A block that is left early, by return, break, goto or a
 * C++ exception, has no use for its branches any more: they are cancelled, and waited for. "break"
 * leaves the block and not a loop around it, "continue" goes to its end. In the block the scope is
 * one like others: it may have a policy, be cancelled, and be waited for.
 *
 * @param s
 *   Name of the struct leat_scope, which the block declares.
 * @param result
 *   Gets what leat_scope_wait() returned at the end of the block, -ECANCELED if it was left early
 *   with branches; 0 from its begin on. It must outlive the block. May be NULL.
 */
#define leat_scope_block(s, result) LEAT_SCOPE_BLOCK(LEAT_SCOPE_NAME(leat_block_), s, result)

/** Private: leat_scope_block() with the name of its other variable. */
#define LEAT_SCOPE_BLOCK(name, s, result)                                                          \
	for (struct leat_scope s LEAT_SCOPE_AT_END(leat_scope_block_leave),                        \
	     *name = leat_scope_block_begin(&s, result);                                           \
	     name != NULL; name = leat_scope_block_end(name))

/** Private: the begin of leat_scope_block(), its end (NULL), and the way out of it. */
LEAT_API struct leat_scope *leat_scope_block_begin(struct leat_scope *s, int *result);
LEAT_API struct leat_scope *leat_scope_block_end(struct leat_scope *s);
LEAT_API void leat_scope_block_leave(struct leat_scope *s);

/**
 * A block with a time limit around all that it waits for, as leat_task_within(): what waits in it
 * returns -ETIMEDOUT when it is too late. The limit ends with the block, however it is left.
 *
 * @code
 *	leat_task_within_block(5000) {
 *		ret = say_hello(conn);
 *		if (ret < 0)
 *			return ret;
 *		ret = exchange(conn, req);
 *	}
 * @endcode
 */
#define leat_task_within_block(us)                                                                 \
	LEAT_TASK_BLOCK(struct leat_task_within, leat_task_within_end, leat_task_within_begin(us), \
			LEAT_SCOPE_NAME(leat_block_), LEAT_SCOPE_NAME(leat_once_))

/** A block with the signal and the deadline masked, as leat_task_masked(). */
#define leat_task_masked_block()                                                                   \
	LEAT_TASK_BLOCK(struct leat_task_mask_state, leat_task_unmask, leat_task_mask_begin(),     \
			LEAT_SCOPE_NAME(leat_block_), LEAT_SCOPE_NAME(leat_once_))

/** Private: a block with a variable that is set up before it, and taken down after it. */
#define LEAT_TASK_BLOCK(type, end, begin, name, once)                                              \
	for (const type name LEAT_SCOPE_AT_END(end) = begin, *once = &name; once != NULL;          \
	     once = NULL)

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SCOPE_H */
