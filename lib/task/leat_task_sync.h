/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_SYNC_H
#define LEAT_TASK_SYNC_H

/**
 * @file
 * Mutex, condition, semaphore and bounded queue between tasks of one reactor.
 *
 * None of them is atomic, none is needed to keep steps of one task together that do not wait. They
 * are for what spans a wait, and for waiting for one another. The task that waits longest is served
 * first, and what it waited for is given to it: no task that comes later can snatch it away.
 *
 * All are set up in memory of the caller's, which must outlive the waits; nothing is allocated.
 * Calls that may wait return
 *
 * - -ECANCELED: the task was cancelled, before or while it waited; nothing was taken
 * - -ETIMEDOUT: the same, by its deadline
 * - -EPERM: not in a task
 *
 * Thread rules: on the thread of one reactor; calls that don't wait from its pollers, timers and
 * messages, too.
 */

#include <leat_common.h>

#include "leat_task.h"

#ifdef __cplusplus
extern "C" {
#endif

struct task_waiter;

/** Tasks that wait, the first first. Private. */
struct leat_task_waiters {
	struct task_waiter *head;
	struct task_waiter **tail;
};

/** @name Mutex */
/**@{*/

/** Set up with leat_task_mutex_init(); the fields are private. */
struct leat_task_mutex {
	struct leat_task *owner;
	struct leat_task_waiters waiters;
	const char *name;
};

/** @param name for people; not copied */
LEAT_API void leat_task_mutex_init(struct leat_task_mutex *m, const char *name);

/** Lock. @return 0; -EDEADLK: the caller has it; or see above */
LEAT_API int leat_task_mutex_lock(struct leat_task_mutex *m);

/** Lock if that needs no waiting. @return 0; -EBUSY: another task has it; -EPERM: not in a task */
LEAT_API int leat_task_mutex_trylock(struct leat_task_mutex *m);

/** Unlock; the first that waits has it now. @return 0; -EPERM: the caller does not have it */
LEAT_API int leat_task_mutex_unlock(struct leat_task_mutex *m);
/**@}*/

/** @name Condition */
/**@{*/

/** Set up with leat_task_cond_init(); the fields are private. */
struct leat_task_cond {
	struct leat_task_waiters waiters;
	const char *name;
};

/** @param name for people; not copied */
LEAT_API void leat_task_cond_init(struct leat_task_cond *c, const char *name);

/**
 * Unlock the mutex, wait for a signal, and lock the mutex again. It is locked whatever is returned
 * but -EPERM; that lock can't be cancelled.
 *
 * @return
 *   0: a signal came, to this task; -EPERM: the caller does not have the mutex; or see above.
 */
LEAT_API int leat_task_cond_wait(struct leat_task_cond *c, struct leat_task_mutex *m);

/** Wake the task that waits longest. Nothing is kept for tasks that come later. */
LEAT_API void leat_task_cond_signal(struct leat_task_cond *c);

/** Wake all that wait. */
LEAT_API void leat_task_cond_broadcast(struct leat_task_cond *c);
/**@}*/

/** @name Semaphore */
/**@{*/

/** Set up with leat_task_sem_init(); the fields are private. */
struct leat_task_sem {
	uint32_t value;
	struct leat_task_waiters waiters;
	const char *name;
};

/** @param name for people; not copied */
LEAT_API void leat_task_sem_init(struct leat_task_sem *s, uint32_t value, const char *name);

/** Take one, when there is one. @return 0, or see above */
LEAT_API int leat_task_sem_wait(struct leat_task_sem *s);

/** Take one if there is one. @return 0; -EAGAIN: there is none */
LEAT_API int leat_task_sem_trywait(struct leat_task_sem *s);

/** Give one. @return 0; -EOVERFLOW: there are UINT32_MAX */
LEAT_API int leat_task_sem_post(struct leat_task_sem *s);

/** How many there are. */
static inline uint32_t
leat_task_sem_value(const struct leat_task_sem *s)
{
	return s->value;
}
/**@}*/

/** @name Queue of pointers */
/**@{*/

/** Set up with leat_task_queue_init(); the fields are private. */
struct leat_task_queue {
	void **slots;
	uint32_t size;
	uint32_t head; /* next to take */
	uint32_t count;
	bool closed;
	struct leat_task_waiters putters; /* it is full */
	struct leat_task_waiters getters; /* it is empty */
	const char *name;
};

/**
 * @param slots, size
 *   Room of the caller's for so many pointers, > 0.
 * @param name
 *   For people; not copied.
 */
LEAT_API void leat_task_queue_init(struct leat_task_queue *q, void **slots, uint32_t size,
				   const char *name);

/** Append, when there is room. @return 0; -EPIPE: it is closed; or see above */
LEAT_API int leat_task_queue_put(struct leat_task_queue *q, void *item);

/** Append if there is room. @return 0; -EAGAIN: it is full; -EPIPE: it is closed */
LEAT_API int leat_task_queue_tryput(struct leat_task_queue *q, void *item);

/** Take the first, when there is one. @return 0; -EPIPE: it is closed, and empty; or see above */
LEAT_API int leat_task_queue_get(struct leat_task_queue *q, void **item);

/** Take the first if there is one. @return 0; -EAGAIN: it is empty; -EPIPE: and closed */
LEAT_API int leat_task_queue_tryget(struct leat_task_queue *q, void **item);

/** Take no more. What is in it can still be taken; those that wait for room get -EPIPE. */
LEAT_API void leat_task_queue_close(struct leat_task_queue *q);

/** How many are in it. */
static inline uint32_t
leat_task_queue_count(const struct leat_task_queue *q)
{
	return q->count;
}
/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_SYNC_H */
