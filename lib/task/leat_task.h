/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TASK_H
#define LEAT_TASK_H

/**
 * @file
 * Tasks: coroutines with a stack of their own, run by a reactor.
 *
 * @code
 *	static int
 *	session(void *arg)
 *	{
 *		...
 *		ret = leat_task_sleep(1000);
 *		...
 *		return ret;
 *	}
 *
 *	ts = leat_tasks_create(r, NULL);
 *	ret = leat_task_detach(leat_task_spawn(ts, "session", session, arg));
 *	if (ret < 0)
 *		fprintf(stderr, "%s\n", leat_err_msg());
 *	ret = leat_reactor_run(r);
 *	...
 *	leat_tasks_destroy(ts);
 *	leat_reactor_destroy(r);
 * @endcode
 *
 * A task runs until it waits, yields or ends; nothing takes the CPU away from it, and its reactor's
 * pollers wait meanwhile. So tasks of one reactor need no locks for what belongs to that reactor,
 * and what one does between two waits the others see as one step.
 *
 *     spawn --> READY ---------> RUNNING ---- fn returned ----> DONE --- join ---> gone
 *                 ^                 |                            (detached: gone at once)
 *                 |                 | waits
 *                 +---- woken ---- WAITING
 *
 * Ready tasks run in the order in which they became ready, one after another, in the reactor's
 * turn; one that yields runs again in the next turn, after all pollers. At most 256 switches are
 * made in a turn.
 *
 * When the reactor stops, each task is cancelled, and one that is spawned from then on is born
 * cancelled: it runs, and what it would wait for is refused with -ECANCELED, unless it masks that
 * to clean up (leat_task_mask() in leat_scope.h). Tasks that have not ended at the deadline of the
 * stop are named in the log, and go on when the reactor is run again.
 *
 * Where a constructor failed there is no task, or no tasks, and the functions here take the NULL:
 * those that return an errno say -EINVAL, and the others nothing, 0 or "".
 *
 * In C++ a task must not wait or yield in a catch block, nor in a destructor that an exception
 * runs: the exceptions being handled are a stack of the thread, which all its tasks share. And no
 * exception may leave a task's function. See doc/guide/tasks.md.
 *
 * Thread rules: tasks belong to the thread that runs their reactor. All calls are made there, in a
 * task or in a poller, timer or message of that reactor, or before the reactor runs; those that may
 * wait only in a task. Elsewhere use leat_reactor_call(). A reactor that has stopped with tasks
 * left runs them again only when the same thread runs it.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_tasks;
struct leat_task;

/** Longest name of a task, with its terminator. Longer ones are cut. */
#define LEAT_TASK_NAME_MAX 24

/** Most tasks of a reactor. */
#define LEAT_TASKS_LIMIT (1u << 20)

/** Smallest and largest stack, bytes. */
#define LEAT_TASK_STACK_MIN 8192u
#define LEAT_TASK_STACK_MAX (1u << 30)

/** leat_tasks_conf.hog_us: report nothing. */
#define LEAT_TASK_HOG_NEVER UINT32_MAX

/** A time limit in microseconds: there is none. */
#define LEAT_TASK_FOREVER UINT64_MAX

/** leat_task_deadline_set(): none. */
#define LEAT_TASK_NO_DEADLINE UINT64_MAX

/** What stands below each stack, so that an overflow is noticed. See doc/guide/tasks.md. */
enum leat_task_guard {
	LEAT_TASK_GUARD_AUTO = 0, /**< the best there is, see leat_tasks_guard() for which */
	LEAT_TASK_GUARD_MARKER,	  /**< a page guarded by madvise(2); Linux 6.13 */
	LEAT_TASK_GUARD_PAGE,	  /**< a page of mprotect(2); each takes two of vm.max_map_count */
	LEAT_TASK_GUARD_CANARY,	  /**< bytes that are looked at when the task waits or ends */
};

/** What the tasks of a reactor are to be like. Zeroed means all defaults. */
struct leat_tasks_conf {
	uint32_t max_tasks; /**< 0: 1024, at most LEAT_TASKS_LIMIT */
	/** Bytes of stack of each task, rounded up to pages; 0: 64 KiB. It is address space: memory
	 * is taken page by page when it is first used. LEAT_TASK_STACK_MIN to LEAT_TASK_STACK_MAX. */
	uint32_t stack_size;
	/** A task that runs longer without waiting or yielding is logged by name, once; so is a
	 * poller, a timer's function or a message of the reactor that does not return for longer.
	 * 0: 100 ms; LEAT_TASK_HOG_NEVER: never. */
	uint32_t hog_us;
	enum leat_task_guard guard;
};

/** States of a task. */
enum leat_task_state {
	LEAT_TASK_FREE = 0, /**< not a task */
	LEAT_TASK_READY,    /**< will run */
	LEAT_TASK_RUNNING,  /**< it is running */
	LEAT_TASK_WAITING,  /**< waits for something, see leat_task_info.waits */
	LEAT_TASK_DONE,	    /**< ended, not yet joined */
};

/** Counters of the tasks of a reactor. */
struct leat_tasks_stats {
	uint64_t spawned;  /**< tasks ever spawned */
	uint64_t refused;  /**< spawns that failed: no room, no memory */
	uint64_t switches; /**< times a task was given the CPU */
	uint64_t hogs;	   /**< reports of what ran too long: tasks, pollers, timers, messages */
	uint32_t tasks;	   /**< tasks now, with those that ended and were not joined */
	uint32_t ready;	   /**< of these: ready, or running */
	uint32_t stacks;   /**< stacks ever used: the most tasks there were at a time */
};

/** What is known of a task. */
struct leat_task_info {
	uint64_t id;	 /**< unique in its reactor, from 1 on */
	uint64_t parent; /**< id of the task that spawned it; 0: spawned outside of tasks */
	char name[LEAT_TASK_NAME_MAX]; /**< as leat_task_name() */
	enum leat_task_state state;
	char waits[64]; /**< WAITING: what for, in words */
	uint64_t since; /**< in this state since, cycles of leat_now() at the begin of that turn */
	uint32_t stack_used; /**< bytes of its stack in use now, as of its last switch */
	/** Bytes of its stack that were ever in use, in whole pages, by it and those that had the
	 * stack before it. 0: can't be told. */
	uint32_t stack_peak;
};

/**
 * A task's function. What it returns is for the task that joins it: 0 or a negative errno by
 * custom.
 */
typedef int (*leat_task_fn)(void *arg);

/**
 * Give a reactor tasks. It gets a poller, "tasks", that runs them.
 *
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The tasks, or NULL with rte_errno:
 *   - EINVAL: a value out of its range
 *   - EEXIST: the reactor has tasks already
 *   - EPERM: called on a wrong thread
 *   - ENOSPC: the reactor has no room for a poller
 *   - ENOMEM: no address space for so many stacks
 *   - EOPNOTSUPP: the kernel can't do that kind of guard
 */
LEAT_API struct leat_tasks *leat_tasks_create(struct leat_reactor *r,
					      const struct leat_tasks_conf *conf);

/**
 * Free the tasks of a reactor, before the reactor itself.
 *
 * @return
 *   0 (also for NULL); -EBUSY: there are tasks that have not ended, leat_err_msg() names the first;
 *   -EPERM: called on a wrong thread, or in a task.
 */
LEAT_API int leat_tasks_destroy(struct leat_tasks *ts);

/** Tasks of the task or reactor this is called in; NULL elsewhere, or if it has none. */
LEAT_API struct leat_tasks *leat_tasks_self(void);

/** The reactor that runs them. */
LEAT_API struct leat_reactor *leat_tasks_reactor(const struct leat_tasks *ts);

/** The kind of guard in use, never LEAT_TASK_GUARD_AUTO. */
LEAT_API enum leat_task_guard leat_tasks_guard(const struct leat_tasks *ts);

/**
 * Read the counters. Any thread; each value is a recent one. The cost does not depend on the number
 * of tasks.
 */
LEAT_API void leat_tasks_stats_get(const struct leat_tasks *ts, struct leat_tasks_stats *stats);

/**
 * Give memory of stacks that are not in use back to the system, but for their first pages.
 * It makes a system call per stack.
 */
LEAT_API void leat_tasks_trim(struct leat_tasks *ts);

/**
 * Make a task. It runs when the caller waits or ends, or in the reactor's next turn. It must be
 * joined or detached. While the reactor stops it is born cancelled, see above.
 *
 * @param ts
 *   Where it runs: leat_tasks_self() in a task, poller, timer or message.
 * @param name
 *   For logs and telemetry; copied; what is not printable in it is replaced by '_'. NULL: none,
 *   see leat_task_name().
 * @return
 *   The task, or NULL with rte_errno:
 *   - EINVAL: no function, or ts is NULL
 *   - ENOMEM: there are max_tasks, or no memory for another stack's guard
 */
LEAT_API struct leat_task *leat_task_spawn(struct leat_tasks *ts, const char *name, leat_task_fn fn,
					   void *arg);

/**
 * Leave a task to itself: it is gone when it ends, and the pointer must not be used from here on,
 * unless by the task.
 *
 * @param task
 *   May be what leat_task_spawn() returned, unseen.
 * @return
 *   - 0
 *   - -EBUSY: a task is waiting for it in leat_task_join()
 *   - -EINVAL: NULL; rte_errno and leat_err_msg() still say why leat_task_spawn() failed
 */
LEAT_API int leat_task_detach(struct leat_task *task);

/**
 * Start a task that is not joined: it is spawned on the calling task's or reactor's tasks, and left
 * to itself from the start. No branch of a scope can cancel it, and it can cancel no branch. (It
 * may have scopes of its own, and the stop of the reactor cancels it as any task.)
 *
 * @param name
 *   As for leat_task_spawn(); may be NULL.
 * @return
 *   0; -ENOMEM, -EINVAL as for leat_task_spawn(); -EPERM: not on the thread of a running reactor
 *   with tasks (before it runs, give leat_task_detach() what leat_task_spawn() returned).
 */
LEAT_API int leat_task_start(const char *name, leat_task_fn fn, void *arg);

/**
 * Wait until a task has ended, and take what it returned. It is gone then. Of an ended task it may
 * be called outside of tasks, too.
 *
 * @param[out] ret
 *   What its function returned; may be NULL.
 * @return
 *   - 0: joined
 *   - -ECANCELED, -ETIMEDOUT: the calling task was cancelled, its deadline has passed; the other
 *     one is still to be joined
 *   - -EDEADLK: it is the caller
 *   - -EBUSY: another task is waiting for it
 *   - -EINVAL: it is detached; or NULL, and rte_errno and leat_err_msg() are left alone
 *   - -EPERM: called outside of its reactor's tasks, and it has not ended
 */
LEAT_API int leat_task_join(struct leat_task *task, int *ret);

/**
 * Let pollers and all other ready tasks run once, then go on. That is not refused to a task that
 * was cancelled: it is told afterwards, so that a loop which computes and never waits ends, too.
 *
 * @return
 *   0; -ECANCELED: the task is cancelled, -ETIMEDOUT: its deadline has passed, before or while the
 *   others ran (never while leat_task_mask() keeps that off); -EPERM: not in a task.
 */
LEAT_API int leat_task_yield(void);

/**
 * Sleep.
 *
 * @param us
 *   Microseconds from now, on the clock of leat_now(). It is never shorter; longer by at most the
 *   longest turn.
 * @return
 *   0; -ECANCELED: cancelled, -ETIMEDOUT: the task's deadline has passed (both may come before the
 *   time is up); -EPERM: not in a task.
 */
LEAT_API int leat_task_sleep(uint64_t us);

/** As leat_task_sleep(), until an absolute time in cycles of leat_now(). */
LEAT_API int leat_task_sleep_until(uint64_t when);

/** The task this is called in; NULL elsewhere. */
LEAT_API struct leat_task *leat_task_current(void);

/**
 * Name of a task. When it was given none: the symbol of its function, where the program exports
 * that (a function that is not static, linked with -rdynamic), else "task". It is looked up when it
 * is asked for; a task without a name costs less than one with a name.
 */
LEAT_API const char *leat_task_name(const struct leat_task *task) __attribute__((cold));

/**
 * Name the calling task; as in leat_task_spawn(), NULL takes its name away. Nothing happens outside
 * of tasks.
 */
LEAT_API void leat_task_name_set(const char *name);

/** Number of a task, unique in its reactor, from 1 on. */
LEAT_API uint64_t leat_task_id(const struct leat_task *task);

/**
 * A reference to a task that may have ended, been joined, and its place been taken by another. For
 * what finds a task later than it knew it: a message, a timer, a table. It may be copied, to other
 * threads too. Valid until leat_tasks_destroy(). The fields are private.
 *
 * @code
 *	static void on_message(void *arg)       { leat_task_cancel(leat_task_ref_get(arg)); }
 *
 *	session->ref = leat_task_ref_make(task);
 *	...
 *	leat_reactor_call(r, on_message, &session->ref);
 * @endcode
 */
struct leat_task_ref {
	struct leat_task *task;
	uint64_t id;
};

/** Make a reference to a task. One to NULL refers to none. */
LEAT_API struct leat_task_ref leat_task_ref_make(struct leat_task *task);

/**
 * The task that a reference is to: as long as it has not ended, or was not joined after that; NULL
 * afterwards. On the thread of its reactor.
 */
LEAT_API struct leat_task *leat_task_ref_get(const struct leat_task_ref *ref);

/** State of a task. */
LEAT_API enum leat_task_state leat_task_state(const struct leat_task *task);

/** Name of a state in capitals, as in the enum: "READY", ...; "?" for any other value. */
LEAT_API const char *leat_task_state_name(unsigned int state);

/**
 * Set the calling task's deadline: from then on its waits end with -ETIMEDOUT, and what
 * they wait for is cancelled. leat_task_mask() keeps that
 * off. Nothing happens outside of tasks.
 *
 * @param when
 *   Absolute, cycles of leat_now(); LEAT_TASK_NO_DEADLINE.
 * @return
 *   The deadline it had.
 */
LEAT_API uint64_t leat_task_deadline_set(uint64_t when);

/** The calling task's deadline; LEAT_TASK_NO_DEADLINE outside of tasks. */
LEAT_API uint64_t leat_task_deadline(void);

/** What is known of a task. It makes a system call (for stack_peak). */
LEAT_API void leat_task_info_get(const struct leat_task *task, struct leat_task_info *info);

/**
 * Call fn with each task, in no order, those that have ended but were not joined included. It may
 * not spawn, wait or join.
 */
LEAT_API void leat_tasks_each(struct leat_tasks *ts,
			      void (*fn)(void *arg, const struct leat_task *task), void *arg);

/** A line of leat_task_backtrace() or leat_tasks_show(), without a newline. */
typedef void (*leat_task_line_fn)(void *arg, const char *line);

/**
 * Tell in which functions a task is, innermost first: one line for each.
 *
 * It runs the unwinder of libgcc on that task's stack, which needs some 8 KiB of it.
 *
 * @param fn
 *   Gets each line: "#0 0x7f... function+0x1b (object)". NULL is -EINVAL.
 * @return
 *   Number of lines, or
 *   - -EINVAL: no function, no task
 *   - -ENOSPC: too little room on its stack
 *   - -ESRCH: it has not begun, or ended: it is in no function
 */
LEAT_API int leat_task_backtrace(struct leat_task *task, leat_task_line_fn fn, void *arg);

/**
 * Tell what tasks there are, as a tree: one line for each, tasks below the one that spawned them.
 *
 *     main (1) WAITING in join session (2) since 12.040 ms, stack 408 B, peak 4 KiB of 68
 *       session (2) WAITING in sleep (88 us left) since 12.040 ms, stack 392 B, peak 4 KiB of 68
 *
 * @param max
 *   Lines at most; how many were left out is said in one more. 0: no limit.
 * @return
 *   Number of tasks; -EINVAL: no function, no tasks; -ENOMEM.
 */
LEAT_API int leat_tasks_show(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn,
			     void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_H */
