/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_SYNC_H
#define LEAT_TASK_SYNC_H

/**
 * @file
 * Mutex, condition, semaphore and bounded queue between tasks of one reactor.
 *
 * They use no atomic instructions. A critical section that contains no wait needs none of these
 * objects, since no other task runs meanwhile. They are for critical sections that contain a wait,
 * and for waiting for another task. The lock, unit or item is handed over to the task that has
 * waited longest: no task that comes later can take it first.
 *
 * All objects are in memory of the caller, which must outlive the waits; nothing is allocated.
 * Calls that may wait return
 *
 * - -ECANCELED: the task was cancelled, before or during the wait; nothing was taken or put
 * - -ETIMEDOUT: the task's deadline passed, before or during the wait; nothing was taken or put
 * - -EPERM: not in a task
 *
 * Thread rules: on the thread of one reactor. Pollers, timers and messages of that reactor may make
 * the calls that don't wait.
 */

#include <leat_common.h>

#include "leat_task.h"

#ifdef __cplusplus
extern "C" {
#endif

struct task_waiter;

/** List of waiting tasks, in the order of their waits. Private. */
struct leat_task_waiters {
	struct task_waiter *head;  /**< oldest wait; NULL: none */
	struct task_waiter **tail; /**< link at which the next wait is added */
};

/** @name Mutex */
/**@{*/

/** A mutex. Set up with leat_task_mutex_init(); the fields are private. */
struct leat_task_mutex {
	struct leat_task *owner;	  /**< task that holds it; NULL: none */
	struct leat_task_waiters waiters; /**< waits for the lock */
	const char *name;		  /**< name for people */
};

/**
 * Set up a mutex.
 *
 * @param[out] m the mutex
 * @param name for people; not copied
 */
LEAT_API void leat_task_mutex_init(struct leat_task_mutex *m, const char *name);

/** Lock a mutex. @return 0; -EDEADLK: the caller holds it; or see above */
LEAT_API int leat_task_mutex_lock(struct leat_task_mutex *m);

/** Lock a mutex without a wait. @return 0; -EBUSY: a task holds it; -EPERM: not in a task */
LEAT_API int leat_task_mutex_trylock(struct leat_task_mutex *m);

/**
 * Unlock a mutex. The task that has waited longest becomes its owner in this call.
 *
 * @return
 *   0; -EPERM: the caller does not hold it.
 */
LEAT_API int leat_task_mutex_unlock(struct leat_task_mutex *m);
/**@}*/

/** @name Condition */
/**@{*/

/** A condition. Set up with leat_task_cond_init(); the fields are private. */
struct leat_task_cond {
	struct leat_task_waiters waiters; /**< waits for a signal */
	const char *name;		  /**< name for people */
};

/**
 * Set up a condition.
 *
 * @param[out] c the condition
 * @param name for people; not copied
 */
LEAT_API void leat_task_cond_init(struct leat_task_cond *c, const char *name);

/**
 * Unlock the mutex, wait for a signal, and lock the mutex again. The caller holds the mutex after
 * any result but -EPERM; the wait for the second lock can't be cancelled.
 *
 * @return
 *   0: this task got a signal; -EPERM: the caller does not hold the mutex; or see above.
 */
LEAT_API int leat_task_cond_wait(struct leat_task_cond *c, struct leat_task_mutex *m);

/** Wake the task that has waited longest. A signal without a waiting task is lost. */
LEAT_API void leat_task_cond_signal(struct leat_task_cond *c);

/** Wake all waiting tasks. */
LEAT_API void leat_task_cond_broadcast(struct leat_task_cond *c);
/**@}*/

/** @name Semaphore */
/**@{*/

/** A semaphore. Set up with leat_task_sem_init(); the fields are private. */
struct leat_task_sem {
	uint32_t value;			  /**< number of units */
	struct leat_task_waiters waiters; /**< waits for a unit */
	const char *name;		  /**< name for people */
};

/**
 * Set up a semaphore of value units.
 *
 * @param[out] s the semaphore
 * @param value number of units at first
 * @param name for people; not copied
 */
LEAT_API void leat_task_sem_init(struct leat_task_sem *s, uint32_t value, const char *name);

/** Take one unit, after a wait if there is none. @return 0, or see above */
LEAT_API int leat_task_sem_wait(struct leat_task_sem *s);

/** Take one unit without a wait. @return 0; -EAGAIN: there is none */
LEAT_API int leat_task_sem_trywait(struct leat_task_sem *s);

/** Add one unit. @return 0; -EOVERFLOW: there are UINT32_MAX units */
LEAT_API int leat_task_sem_post(struct leat_task_sem *s);

/** Get the number of units. */
static inline uint32_t
leat_task_sem_value(const struct leat_task_sem *s)
{
	return s->value;
}
/**@}*/

/** @name Queue of pointers */
/**@{*/

/** A bounded queue. Set up with leat_task_queue_init(); the fields are private. */
struct leat_task_queue {
	void **slots;			  /**< ring of items; the caller's memory */
	uint32_t size;			  /**< number of slots */
	uint32_t head;			  /**< slot of the oldest item */
	uint32_t count;			  /**< number of items */
	bool closed;			  /**< leat_task_queue_close() was called */
	struct leat_task_waiters putters; /**< waits for room */
	struct leat_task_waiters getters; /**< waits for an item */
	const char *name;		  /**< name for people */
};

/**
 * Set up an empty queue.
 *
 * @param[out] q
 *   The queue.
 * @param slots, size
 *   Memory of the caller for size pointers, > 0.
 * @param name
 *   For people; not copied.
 */
LEAT_API void leat_task_queue_init(struct leat_task_queue *q, void **slots, uint32_t size,
				   const char *name);

/** Append an item, after a wait if the queue is full. @return 0; -EPIPE: closed; or see above */
LEAT_API int leat_task_queue_put(struct leat_task_queue *q, void *item);

/** Append an item without a wait. @return 0; -EAGAIN: the queue is full; -EPIPE: closed */
LEAT_API int leat_task_queue_tryput(struct leat_task_queue *q, void *item);

/**
 * Take the oldest item, after a wait if the queue is empty.
 *
 * @return
 *   0; -EPIPE: the queue is closed and empty; or see above.
 */
LEAT_API int leat_task_queue_get(struct leat_task_queue *q, void **item);

/** Take the oldest item without a wait. @return 0; -EAGAIN: empty; -EPIPE: closed and empty */
LEAT_API int leat_task_queue_tryget(struct leat_task_queue *q, void **item);

/** Close a queue. Its items can still be taken; tasks that wait for room or an item get -EPIPE. */
LEAT_API void leat_task_queue_close(struct leat_task_queue *q);

/** Get the number of items. */
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
