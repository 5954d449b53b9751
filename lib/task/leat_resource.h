/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_RESOURCE_H
#define LEAT_RESOURCE_H

/**
 * @file
 * Resources: whatever a task can wait for, and be cancelled in.
 *
 * leat's own are timers, device ops, events and calls to other lcores. A protocol or a program adds
 * one with two functions, post and cancel. An operation of it is part of the caller's object,
 * usually on the stack of the task that waits:
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
 *       post ------------> the resource's ---------------------+--> ended, once: the task is ready
 *                               |                              |
 *                               | cancel                       |
 *                               +-- LATE: as if it had not been asked
 *                               +-- FREED: ended, -ECANCELED --+
 *                               +-- WILL: -ECANCELED, when leat_resource_end() is called
 *                               `-- ASKED: leat_resource_end() says which came first
 *
 * From post until it has ended, the operation and its buffers are the resource's, cancelled or not.
 * The task does not run before that.
 *
 * Rules for a cancel function. It is called at most once for an operation, on the thread of the
 * task's reactor, and not after leat_resource_end().
 * - It is asynchronous: it waits for nothing, and takes no lock that is held where operations end.
 * - It runs no completion: no callback of a user, no task.
 * - Exactly one of completion and cancel wins. FREED and WILL are promises; the result of an
 *   operation is -ECANCELED then, whatever leat_resource_end() is given.
 *
 * Thread rules: as for tasks. An operation that is done on another lcore comes back by
 * leat_reactor_call(), and ends there.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_resource;

/** An operation. Set up by leat_resource_run(); it must not move until that returns. */
struct leat_resource_op {
	const struct leat_resource *resource; /**< whose it is */
	void *wait;			      /**< private; NULL: not under way */
};

/** What a resource's cancel has come to. */
enum leat_cancel {
	/** No: it ends as if it had not been asked. It is done already, or can't be recalled. */
	LEAT_CANCEL_LATE = 0,
	/** Yes, and the resource has let go of it: it ends now, with -ECANCELED, without
	 * leat_resource_end(). */
	LEAT_CANCEL_FREED,
	/** Yes: it ends with -ECANCELED, as soon as the resource calls leat_resource_end(). */
	LEAT_CANCEL_WILL,
	/** The worker was told, and decides: leat_resource_end() brings -ECANCELED or the
	 * operation's own result. */
	LEAT_CANCEL_ASKED,
};

/** A kind of thing to wait for. Usually a constant. */
struct leat_resource {
	const char *name; /**< for people: "lookup" */
	/**
	 * Start an operation. Called by the task that is going to wait, never when it is cancelled.
	 * It may end at once: leat_resource_end() may be called in here.
	 * @return 0: started; a negative errno: nothing was, leat_resource_run() returns it
	 */
	int (*post)(struct leat_resource_op *op);
	/** End an operation early, see above. NULL: it can't be. */
	enum leat_cancel (*cancel)(struct leat_resource_op *op);
	/** Say in words what it waits for, e.g. "key 7"; NULL: nothing. */
	void (*describe)(const struct leat_resource_op *op, char *text, size_t len);
};

/**
 * Start an operation, and wait until it has ended.
 *
 * @return
 *   - what leat_resource_end() was given, or post returned
 *   - -ECANCELED: it was cancelled; or the task had been before: nothing was started
 *   - -ETIMEDOUT: the same, for the task's deadline
 *   - -EPERM: not in a task
 */
LEAT_API int leat_resource_run(struct leat_resource_op *op, const struct leat_resource *resource);

/**
 * The resource is done with an operation. The task that waits will run; nothing runs in here.
 *
 * @param result
 *   For leat_resource_run() to return. 0 or a negative errno by custom.
 * @return
 *   0; -EALREADY: it had ended (of an operation that still exists).
 */
LEAT_API int leat_resource_end(struct leat_resource_op *op, int result);

/**
 * Ask for an operation to end early, as the cancel of its task does.
 *
 * @return
 *   - 1: it will now end with -ECANCELED
 *   - 0: it will not: it ends as if it had not been asked
 *   - -EINPROGRESS: asked; the result tells
 *   - -EALREADY: asked before
 *   - -ENOENT: not under way
 */
LEAT_API int leat_resource_cancel(struct leat_resource_op *op);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RESOURCE_H */
