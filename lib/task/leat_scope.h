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
 * The signal of a cancel reaches each branch of the scope exactly once, whatever the branch does at
 * that moment: its flag is set (leat_task_cancelled()), and the operation it waits in is asked to
 * end. The flag stays set: each operation that the branch starts from then on fails at once with
 * -ECANCELED, so that the branch soon ends. A cancel returns without waiting for the branches. The
 * buffer of a cancelled operation is in use until the operation has ended, and leat_scope_wait()
 * returns only after all branches have ended.
 *
 * With a policy (leat_scope_policy_set()) the first success or the first failure ends the other
 * branches, and no branch needs to call cancel. From outside the scope, leat_scope_cancel() and
 * leat_task_cancel() send the signal.
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

/** Policy of a scope: which branch decides (ends the others), and the result of the wait. */
enum leat_scope_policy {
	/** A branch ends the others by leat_scope_cancel_siblings(); the wait returns 0. */
	LEAT_SCOPE_BRANCHES = 0,
	/** No branch ends the others; the wait returns 0, or the first failure. */
	LEAT_SCOPE_ALL,
	/** The first branch that returns 0 or more ends the others; the wait returns its number. */
	LEAT_SCOPE_FIRST_SUCCESS,
	/** The first branch that fails ends the others; the wait returns 0, or that failure. */
	LEAT_SCOPE_FIRST_FAILURE,
};

/**
 * A set of branches, usually on the stack of the function that waits for them. Set up with
 * leat_scope_init(); the fields are private.
 */
struct leat_scope {
	struct leat_task *parent; /**< task that waits for the branches */
	struct leat_task *first;  /**< branches that have not ended, in the order of their start */
	struct leat_task **last;  /**< link at which the next branch is added */
	void *wait;		  /**< wait of the parent; NULL: the parent does not wait */
	uint32_t nb_started;	  /**< branches started in this round */
	uint32_t nb_ended;	  /**< branches of this round that have ended */
	uint32_t flags;		  /**< policy, and state bits */
	int refused;		  /**< error of the branch that could not be started */
	int failure;		  /**< return value of the first branch that failed */
	int won_ret;		  /**< return value of the winner, see leat_scope_winner() */
	uint32_t winner;	  /**< number of the winner, from 0 */
	leat_task_fn failed_fn;	  /**< function of the first branch that failed */
	leat_task_fn won_fn;	  /**< function of the winner */
	char failed[LEAT_TASK_NAME_MAX]; /**< name of the first branch that failed */
	char won[LEAT_TASK_NAME_MAX];	 /**< name of the winner */
	int *block_result;		 /**< result argument of leat_scope_block() */
};

/**
 * Set up an empty scope with the policy LEAT_SCOPE_BRANCHES, whose parent is the calling task: only
 * this task may wait for the scope.
 *
 * After leat_scope_wait() the scope needs no new init: the next leat_scope_branch() of the same
 * task begins a new round. So a retry loop may call this once, before the loop. Do not call this
 * for a scope with branches that have not ended.
 */
LEAT_API void leat_scope_init(struct leat_scope *s);

/**
 * Set the policy of a scope, before the first branch of a round. It stays set in the rounds that
 * follow.
 *
 * A branch succeeds when it returns 0 or more, and fails when it returns less. This holds for a
 * cancelled branch as well, so a result that it got in spite of the cancel is not lost. But when
 * the scope was cancelled, -ECANCELED is neither success nor failure. When leat_task_cancel() has
 * cancelled only one branch, -ECANCELED of this branch is a failure if the scope has a policy.
 *
 * Under each policy a branch may cancel its siblings.
 *
 * @return
 *   0; -EINVAL: no such policy; -EBUSY: branches have been started in this round.
 */
LEAT_API int leat_scope_policy_set(struct leat_scope *s, enum leat_scope_policy policy);

/**
 * Start a branch: a task that runs when the caller waits. The parent (the task that set up the
 * scope) may call this before leat_scope_wait(), and after it to begin a new round. While the scope
 * runs, its branches and the tasks below them may call this as well.
 *
 * In a cancelled scope the branch is born cancelled: it runs, but each of its waits is refused.
 *
 * The return value may be ignored: when a branch can't be started the whole scope is cancelled,
 * branches that have not begun never run, and leat_scope_wait() returns the error.
 *
 * @param s
 *   The scope.
 * @param name
 *   As for leat_task_spawn().
 * @param fn
 *   Function of the branch.
 * @param arg
 *   Its argument.
 * @param[out] ret
 *   Gets the return value of fn; may be NULL. -ECANCELED until the branch has ended.
 * @return
 *   - 0
 *   - -ENOMEM: leat_tasks_conf.max_tasks tasks exist
 *   - -ECANCELED, -ETIMEDOUT: the caller is the parent, and was cancelled or its deadline has
 *     passed: nothing was started
 *   - -EINVAL: fn is NULL
 *   - the error of an earlier branch of this round that could not be started
 *   - -EPERM: the caller is not a task of the scope's reactor; or the scope has ended, and the
 *     caller is not its parent
 */
LEAT_API int leat_scope_branch(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg,
			       int *ret);

/**
 * Wait until all branches have ended. Once branches were added to a scope, its parent must call
 * this before the scope goes out of use. Afterwards the scope can be used again, without
 * leat_scope_init(): whatever the round ended with, the next one starts clean and keeps the policy.
 *
 * The wait is an operation like others: when the calling task is cancelled, so are all branches of
 * the scope.
 *
 * @return
 *   All branches have ended, and:
 *   - 0 or more: as the policy says; LEAT_SCOPE_BRANCHES: 0, whatever the branches returned
 *   - -ECANCELED: the scope was cancelled from outside: by leat_scope_cancel(), or together with
 *     the calling task (leat_task_cancelled() tells which)
 *   - -ETIMEDOUT: the deadline of the calling task has passed
 *   - -ENOMEM, -EINVAL: a branch could not be started
 *   - the return value of the first branch that failed, if the policy says so; with
 *     LEAT_SCOPE_FIRST_SUCCESS only when no branch succeeded
 *   - -ENOENT: with LEAT_SCOPE_FIRST_SUCCESS, there was no branch
 *
 *   With LEAT_SCOPE_FIRST_SUCCESS, when a branch has succeeded, its number is returned in place of
 *   any of these errors.
 *
 *   Without waiting: -EPERM: the caller is not the parent of the scope.
 */
LEAT_API int leat_scope_wait(struct leat_scope *s);

/**
 * Get the first branch that failed: it returned < 0. -ECANCELED of a cancelled branch is no
 * failure, with the exception in leat_scope_policy_set().
 *
 * @param s
 *   The scope.
 * @param[out] name
 *   Name of that branch, "" if no branch failed; valid until the scope is used again. May be NULL.
 * @return
 *   Return value of that branch; 0: no branch failed.
 */
LEAT_API int leat_scope_failure(const struct leat_scope *s, const char **name);

/**
 * Get the branch that decided, after leat_scope_wait(): the first success or the first failure, as
 * the policy says; with LEAT_SCOPE_BRANCHES the branch that cancelled its siblings.
 *
 * @param s
 *   The scope.
 * @param[out] name
 *   Its name, "" if no branch decided; valid until the scope is used again. With
 *   LEAT_SCOPE_BRANCHES the name of its function, as leat_task_name() finds it. May be NULL.
 * @param[out] ret
 *   Its return value; may be NULL.
 * @return
 *   Its number, from 0 on, in the order in which branches were started; -ENOENT: no branch decided.
 */
LEAT_API int leat_scope_winner(const struct leat_scope *s, const char **name, int *ret);

/**
 * Cancel the other branches of the caller's scope, and all branches below them. Never waits.
 * Cancels neither the calling branch nor the task that waits for the scope.
 *
 * @return
 *   - 0: delivered
 *   - -EEXIST: the scope was cancelled before: by a branch, from outside, or with an enclosing
 *     scope
 *   - -EINVAL: the caller is not a branch (a detached task is not one either)
 */
LEAT_API int leat_scope_cancel_siblings(void);

/** Cancel the other branches, and return ret from this one. */
#define leat_scope_break(ret)                                                                      \
	do {                                                                                       \
		int leat_scope_break_ret = (ret);                                                  \
                                                                                                   \
		(void)leat_scope_cancel_siblings();                                                \
		return leat_scope_break_ret;                                                       \
	} while (0)

/**
 * Cancel all branches of a scope, and all branches below them. Callers may be anywhere on the
 * thread of the reactor: the parent of the scope, another task, a poller, a timer, an event, a
 * message of another lcore. Never waits. leat_scope_wait() returns -ECANCELED then, but the waiting
 * task itself is not cancelled: its later waits work as usual. Branches that are started later in
 * this round are born cancelled.
 *
 * A caller that is a branch of the scope, or a task below one, is cancelled as well.
 *
 * The scope must still exist, which only its parent can ensure.
 *
 * @return
 *   - 0: delivered
 *   - -EEXIST: the scope was cancelled before, by a branch, from outside, or with an enclosing
 *     scope; the result of its wait does not change. But a branch that had cancelled its siblings
 *     gets the signal now
 *   - -ESRCH: all branches have ended, and the wait for them has begun or ended
 *   - -EINVAL: s is NULL
 *   - -EPERM: on the wrong thread, see leat_reactor_call(); or the scope was set up outside of
 *     tasks
 */
LEAT_API int leat_scope_cancel(struct leat_scope *s);

/**
 * Cancel a task, from anywhere on the thread of its reactor. Never waits. The signal is that of
 * leat_scope_cancel(): it reaches the task exactly once, from whatever sender, and then all
 * branches below the task. The signal follows scopes only: it does not reach tasks that this task
 * has spawned or joins.
 *
 * A task that has not begun still runs, cancelled from its beginning. The calling task may cancel
 * itself: its waits are refused from then on. A masked task notices the signal when its mask ends.
 *
 * @param task
 *   A task that was not joined, and has not ended detached; if unsure, see leat_task_ref_make().
 * @return
 *   - 0: delivered
 *   - -EEXIST: it was cancelled before, by any sender
 *   - -ESRCH: it has ended
 *   - -EINVAL: task is NULL
 *   - -EPERM: on the wrong thread, see leat_reactor_call()
 */
LEAT_API int leat_task_cancel(struct leat_task *task);

/** Tell whether the calling task has been cancelled, masked or not. False outside of tasks. */
LEAT_API bool leat_task_cancelled(void);

/** What leat_task_unmask() restores. Private. */
struct leat_task_mask_state {
	uint64_t deadline; /**< deadline of the task, cycles of leat_now() */
	bool masked;	   /**< the task was masked already */
};

/**
 * Mask the signal and the deadline, so that the calling task can wait while it cleans up. Until
 * leat_task_unmask() its operations are neither refused nor ended early; it may set a new deadline.
 * Masks nest, and each must be undone on every way out; leat_task_masked() undoes its own mask.
 * Does nothing outside of tasks.
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

/** Undo a leat_task_mask(). A signal that came meanwhile takes effect from here on. */
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
 *   The value of the expression, of any type; no value if the expression has none.
 */
#define leat_task_masked(...) LEAT_TASK_MASKED(LEAT_SCOPE_NAME(leat_mask_), __VA_ARGS__)

/** Private: expand leat_task_masked(); name: name of the variable that the expansion declares. */
#define LEAT_TASK_MASKED(name, ...)                                                                \
	__extension__({                                                                            \
		const struct leat_task_mask_state name LEAT_SCOPE_AT_END(leat_task_unmask) =       \
			leat_task_mask_begin();                                                    \
		__VA_ARGS__;                                                                       \
	})

/** Private: form a variable name that differs in each expansion, so that these macros can nest. */
#define LEAT_SCOPE_NAME(prefix) LEAT_SCOPE_PASTE(prefix, __COUNTER__)
/** @cond */
#define LEAT_SCOPE_PASTE(a, b) LEAT_SCOPE_PASTE_(a, b)
#define LEAT_SCOPE_PASTE_(a, b) a##b
/** @endcond */

/** Private: call fn with a variable's address when the block of the variable is left. */
#define LEAT_SCOPE_AT_END(fn) __attribute__((unused, cleanup(fn)))

/** Private: call leat_task_mask(), and return the state, for an initializer. */
static inline struct leat_task_mask_state
leat_task_mask_begin(void)
{
	struct leat_task_mask_state mask;

	leat_task_mask(&mask);
	return mask;
}

/**
 * Evaluate an expression with a time limit. When the time is up, the operation it waits for is
 * cancelled.
 *
 * @code
 *	ret = leat_task_within(1000, leat_task_event_wait(&ev));
 *	ret = leat_task_within(5000, exchange(conn, req));
 * @endcode
 *
 * An operation that ends in time, or can't be recalled any more, keeps its own result; so a message
 * that arrived is never lost. Limits nest, the earliest counts. The limit ends with the expression,
 * however it is left: a statement expression, ({ ... }), may contain return, break and goto.
 *
 * @param us
 *   Microseconds. 0: each wait is refused.
 * @param ...
 *   An expression, evaluated once. Its value is 0 or more, or a negative errno.
 * @return
 *   The value of the expression; -ETIMEDOUT: the time was up.
 */
#define leat_task_within(us, ...)                                                                  \
	LEAT_TASK_WITHIN(LEAT_SCOPE_NAME(leat_task_within_), us, __VA_ARGS__)

/** Private: expand leat_task_within(); name: name of the variable that the expansion declares. */
#define LEAT_TASK_WITHIN(name, us, ...)                                                            \
	__extension__({                                                                            \
		const struct leat_task_within name LEAT_SCOPE_AT_END(leat_task_within_end) =       \
			leat_task_within_begin(us);                                                \
		leat_task_within_result(&name, __VA_ARGS__);                                       \
	})

/** State of a leat_task_within(), cycles of leat_now(). Private. */
struct leat_task_within {
	uint64_t outer; /**< deadline to restore */
	uint64_t when;	/**< deadline of this limit */
};

/** Private: begin a leat_task_within(). */
LEAT_API struct leat_task_within leat_task_within_begin(uint64_t us);
/** Private: end a leat_task_within(). */
LEAT_API void leat_task_within_end(const struct leat_task_within *w);
/** Private: convert the value of the expression to that of leat_task_within(). */
LEAT_API int leat_task_within_result(const struct leat_task_within *w, int ret);

/**
 * Run a block with a scope of its own, and wait for its branches at the end of the block. No way
 * out of the block leaves branches behind.
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
 * The end of the block waits as leat_scope_wait(). Leaving the block early, by return, break, goto
 * or a C++ exception, cancels its branches and waits for them. "break" leaves the block and not a
 * loop around it, "continue" goes to its end. Inside, the scope is a scope like others: it may have
 * a policy, be cancelled, and be waited for.
 *
 * @param s
 *   Name of the struct leat_scope, which the block declares.
 * @param result
 *   Address of an int. It is 0 while the block runs. At the end of the block it gets the return
 *   value of leat_scope_wait(): -ECANCELED if the block was left early while branches ran. The int
 *   must outlive the block. May be NULL.
 */
#define leat_scope_block(s, result) LEAT_SCOPE_BLOCK(LEAT_SCOPE_NAME(leat_block_), s, result)

/** Private: expand leat_scope_block(); name: name of the second variable that it declares. */
#define LEAT_SCOPE_BLOCK(name, s, result)                                                          \
	for (struct leat_scope s LEAT_SCOPE_AT_END(leat_scope_block_leave),                        \
	     *name = leat_scope_block_begin(&s, result);                                           \
	     name != NULL; name = leat_scope_block_end(name))

/** Private: begin a leat_scope_block(). */
LEAT_API struct leat_scope *leat_scope_block_begin(struct leat_scope *s, int *result);
/** Private: reach the end of a leat_scope_block(), and wait. Returns NULL. */
LEAT_API struct leat_scope *leat_scope_block_end(struct leat_scope *s);
/** Private: leave a leat_scope_block(), in whatever way. */
LEAT_API void leat_scope_block_leave(struct leat_scope *s);

/**
 * Run a block with a time limit, as leat_task_within(): when the time is up, waits in the block
 * return -ETIMEDOUT. The limit ends with the block, however it is left.
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

/** Run a block with the signal and the deadline masked, as leat_task_masked(). */
#define leat_task_masked_block()                                                                   \
	LEAT_TASK_BLOCK(struct leat_task_mask_state, leat_task_unmask, leat_task_mask_begin(),     \
			LEAT_SCOPE_NAME(leat_block_), LEAT_SCOPE_NAME(leat_once_))

/** Private: run a block with a variable that begin initializes, and whose address end gets. */
#define LEAT_TASK_BLOCK(type, end, begin, name, once)                                              \
	for (const type name LEAT_SCOPE_AT_END(end) = begin, *once = &name; once != NULL;          \
	     once = NULL)

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SCOPE_H */
