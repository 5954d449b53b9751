/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_CALL_H
#define LEAT_TASK_CALL_H

/**
 * @file
 * A call to another lcore that a task waits for.
 */

#include "leat_task.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Have another reactor call fn(arg), and wait for what it returns. Everything done before the call
 * is visible to fn, and what fn did to the caller afterwards.
 *
 * fn runs as a message does (leat_reactor_call()): between two turns of that reactor, not in a
 * task. It may spawn one there.
 *
 * When the task is cancelled, or its deadline passes, before fn has begun, fn is not called, and
 * the wait ends at once, whatever that reactor does. When fn has begun the wait ends with fn. So
 * arg may be a variable of the task.
 *
 * A reactor that has not been run yet calls fn when it is. One that stops calls what it has
 * accepted before it leaves, and refuses the rest.
 *
 * @param r
 *   Any reactor of this process, the caller's own included; it must not be destroyed meanwhile.
 * @param[out] ret
 *   What fn returned; may be NULL.
 * @return
 *   - 0: fn was called
 *   - -EAGAIN: the other reactor's messages are full (leat_reactor_conf.messages); fn is not called
 *   - -ECANCELED, -ETIMEDOUT: cancelled, by the task's deadline; fn was not called, nor will it be
 *   - -ESHUTDOWN: the other reactor has stopped, or was destroyed; fn was not called, nor will it
 *   be
 *   - -ENOMEM: no memory for the call
 *   - -EINVAL: no reactor or function
 *   - -EPERM: not in a task
 */
LEAT_API int leat_task_call(struct leat_reactor *r, int (*fn)(void *arg), void *arg, int *ret);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_CALL_H */
