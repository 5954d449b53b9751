/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_CALL_H
#define LEAT_TASK_CALL_H

/**
 * @file
 * Calls from a task to another lcore.
 */

#include "leat_task.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Have another reactor call fn(arg), and wait until fn has returned. All memory writes of the
 * caller before the call are visible to fn, and all writes of fn are visible to the caller after
 * it.
 *
 * fn runs as a message (leat_reactor_call()): between two turns of that reactor, not in a task. It
 * may spawn tasks there.
 *
 * When the calling task is cancelled, or its deadline passes, before fn has begun, fn is never
 * called, and the wait ends at once, whatever that reactor does. When fn has begun the wait ends
 * with fn. So arg may point to a variable of the task.
 *
 * A reactor that does not run yet calls fn when it runs. A reactor that stops refuses new calls,
 * but makes all calls that it has accepted before it leaves its loop.
 *
 * @param r
 *   Any reactor of this process, the caller's own included. No other thread may destroy
 *   it while the message is sent. If it is destroyed later and has not called fn, the call ends
 *   with -ESHUTDOWN.
 * @param fn
 *   Function to call.
 * @param arg
 *   Its argument.
 * @param[out] ret
 *   Return value of fn; may be NULL.
 * @return
 *   - 0: fn was called
 *   - -EAGAIN: the other reactor's message queue is full (leat_reactor_conf.messages); fn is not
 *     called
 *   - -ECANCELED: the task was cancelled; fn is never called
 *   - -ETIMEDOUT: the task's deadline has passed; fn is never called
 *   - -ESHUTDOWN: the other reactor has stopped, or was destroyed; fn is never called
 *   - -ENOMEM: no memory for the call
 *   - -EINVAL: r or fn is NULL
 *   - -EPERM: not in a task
 */
LEAT_API int leat_task_call(struct leat_reactor *r, int (*fn)(void *arg), void *arg, int *ret);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_CALL_H */
