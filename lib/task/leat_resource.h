/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_RESOURCE_H
#define LEAT_RESOURCE_H

/**
 * @file
 * Resources: things a task can wait for, with a way to cancel the wait.
 *
 * leat itself has resources for timers, device ops, events and calls to other lcores. A protocol or
 * a program adds a resource with two functions, post and cancel. An operation is part of the
 * caller's object, usually on the stack of the task that waits:
 *
 * @code
 *	struct lookup {
 *		struct leat_resource_op op;
 *		uint64_t key;
 *	};
 *
 *	static int lookup_post(struct leat_resource_op *op)      { queue it }
 *	static enum leat_cancel lookup_cancel(struct leat_resource_op *op)
 *	{
 *		if (it is still in the queue) {
 *			take it out;
 *			return LEAT_CANCEL_FREED;
 *		}
 *		return LEAT_CANCEL_LATE;
 *	}
 *	static const struct leat_resource lookup = { "lookup", lookup_post, lookup_cancel };
 *
 *	in a task:                            where it is done, e.g. in a poller:
 *	ret = leat_resource_run(&l.op, &lookup);      leat_resource_end(&l->op, 0);
 * @endcode
 *
 * The life of an operation:
 *
 *     leat_resource_run()                         leat_resource_end(own result)
 *       cancelled? deadline? -- yes: nothing is started        |
 *       post ------------> with the resource ------------------+--> ended, once: the task is ready
 *                               |                              |
 *                               | cancel                       |
 *                               +-- LATE: the cancel has no effect
 *                               +-- FREED: ended, -ECANCELED --+
 *                               +-- WILL: -ECANCELED, when leat_resource_end() is called
 *                               `-- ASKED: leat_resource_end() says if the cancel came in time
 *
 * From post until it has ended, the operation and its buffers belong to the resource, cancelled or
 * not. The task does not run before the operation has ended.
 *
 * Rules for a cancel function. It is called at most once for an operation, on the thread of the
 * task's reactor, and not after leat_resource_end().
 * - It must not block: it waits for nothing, and takes no lock that is held while operations end.
 * - It runs no completion: no callback of a user, no task.
 * - Exactly one of completion and cancel wins. FREED and WILL are promises: the result of the
 *   operation is then -ECANCELED, whatever result leat_resource_end() gets.
 *
 * Thread rules: as for tasks. When another lcore completes an operation, it sends the completion
 * back by leat_reactor_call(), and leat_resource_end() is called on the task's lcore.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_resource;

/** An operation. Set up by leat_resource_run(); it must not move until that call
 * returns. */
struct leat_resource_op {
	const struct leat_resource *resource; /**< kind of the operation */
	void *wait;			      /**< private; NULL: not started, or ended */
};

/** Outcome of a resource's cancel function. */
enum leat_cancel {
	/** Not cancelled: the operation has completed, or can't be recalled. It ends with its own
	 * result. */
	LEAT_CANCEL_LATE = 0,
	/** Cancelled: the operation ends now with -ECANCELED, and the resource has released it. The
	 * resource must not call leat_resource_end(). */
	LEAT_CANCEL_FREED,
	/** Cancelled: the operation ends with -ECANCELED, when the resource calls
	 * leat_resource_end(). */
	LEAT_CANCEL_WILL,
	/** Not yet known: the resource has passed the cancel on. It calls leat_resource_end()
	 * later, with -ECANCELED or with the operation's own result. */
	LEAT_CANCEL_ASKED,
};

/** A kind of operation that tasks can wait for. Usually a constant. */
struct leat_resource {
	const char *name; /**< name for people: "lookup" */
	/**
	 * Start an operation. Called in the task that is going to wait, never when that task is
	 * cancelled. May call leat_resource_end(): the operation then ends at once.
	 * @return 0: started; a negative errno: not started, leat_resource_run() returns it
	 */
	int (*post)(struct leat_resource_op *op);
	/**
	 * End an operation early, by the rules at the top of this file. NULL: operations can't be
	 * cancelled.
	 */
	enum leat_cancel (*cancel)(struct leat_resource_op *op);
	/** Describe in words what the operation waits for, e.g. "key 7". NULL: no description. */
	void (*describe)(const struct leat_resource_op *op, char *text, size_t len);
};

/**
 * Start an operation, and wait until it has ended.
 *
 * @return
 *   - the result that leat_resource_end() got, or the error of post
 *   - -ECANCELED: the operation was cancelled; or the task was cancelled before, and nothing was
 *     started
 *   - -ETIMEDOUT: the task's deadline cancelled the operation; or it had passed before, and nothing
 *     was started
 *   - -EPERM: not in a task
 */
LEAT_API int leat_resource_run(struct leat_resource_op *op, const struct leat_resource *resource);

/**
 * End an operation: called by the resource when it is done. The waiting task becomes ready; it does
 * not run inside this call.
 *
 * @param op
 *   The operation.
 * @param result
 *   Return value of leat_resource_run(): by custom 0 or a negative errno.
 * @return
 *   0; -EALREADY: the operation had ended already. Do not call this once op no longer exists.
 */
LEAT_API int leat_resource_end(struct leat_resource_op *op, int result);

/**
 * Ask for an operation to end early, as the cancel of its task does.
 *
 * @return
 *   - 1: it will end with -ECANCELED
 *   - 0: not cancelled: it will end with its own result
 *   - -EINPROGRESS: asked; the operation's result will say whether it was cancelled
 *   - -EALREADY: asked before
 *   - -ENOENT: not started, or ended
 */
LEAT_API int leat_resource_cancel(struct leat_resource_op *op);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RESOURCE_H */
