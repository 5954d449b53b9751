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
 * A task runs until it waits, yields or ends. Nothing preempts it, and the pollers of its reactor
 * do not run meanwhile. So data that only one reactor's thread uses needs no locks: what a task
 * does between two waits is atomic for all other tasks of its reactor.
 *
 *     spawn --> READY ---------> RUNNING ---- fn returned ----> DONE --- join ---> freed
 *                 ^                 |                            (detached: freed at once)
 *                 |                 | waits
 *                 +---- woken ---- WAITING
 *
 * In each turn of the reactor (one round over its pollers) the ready tasks run one after another,
 * in the order in which they became ready. A task that yields runs again in the next turn, after
 * all pollers. A turn makes at most 256 switches.
 *
 * When the reactor stops, each task is cancelled, and a task that is spawned from then on is born
 * cancelled: it runs, but each of its waits is refused with -ECANCELED, unless the task masks the
 * cancellation to clean up (leat_task_mask() in leat_scope.h). Tasks that have not ended at the
 * deadline of the stop are named in the log, and continue when the reactor is run again.
 *
 * All functions here accept the NULL of a constructor that failed: functions that return an errno
 * return -EINVAL, the others do nothing and return NULL, 0 or "".
 *
 * In C++ a task must not wait or yield in a catch block, nor in a destructor that an exception
 * runs: the C++ runtime keeps the exceptions being handled in one stack per thread, which all tasks
 * of the thread share. And no exception may leave a task's function. See doc/guide/tasks.md.
 *
 * Thread rules: tasks belong to the thread that runs their reactor. Make all calls on that thread:
 * in a task, poller, timer or message of that reactor, or before the reactor runs. Functions that
 * may wait are for tasks only. Other threads use leat_reactor_call(). When a reactor has
 * stopped with tasks left, they continue only if the same thread runs the reactor again.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_reactor;
struct leat_tasks;
struct leat_task;

/** Size of a task's name, bytes, terminator included. Longer names are cut. */
#define LEAT_TASK_NAME_MAX 24

/** Maximum number of tasks of a reactor. */
#define LEAT_TASKS_LIMIT (1u << 20)

/** Smallest size of a stack, bytes. */
#define LEAT_TASK_STACK_MIN 8192u
/** Largest size of a stack, bytes. */
#define LEAT_TASK_STACK_MAX (1u << 30)

/** Value of leat_tasks_conf.hog_us: never report a task that runs too long. */
#define LEAT_TASK_HOG_NEVER UINT32_MAX

/** Value of a time limit in microseconds: no limit. */
#define LEAT_TASK_FOREVER UINT64_MAX

/** Deadline of a task that has none, see leat_task_deadline_set(). */
#define LEAT_TASK_NO_DEADLINE UINT64_MAX

/** Guard below each stack, which detects an overflow. See doc/guide/tasks.md. */
enum leat_task_guard {
	LEAT_TASK_GUARD_AUTO = 0, /**< the best kind available; see leat_tasks_guard() */
	LEAT_TASK_GUARD_MARKER,	  /**< a page guarded by madvise(2); Linux 6.13 or later */
	/** a page of mprotect(2); uses two of the mappings that vm.max_map_count limits */
	LEAT_TASK_GUARD_PAGE,
	LEAT_TASK_GUARD_CANARY, /**< bytes that are checked when the task waits or ends */
};

/** Configuration of the tasks of a reactor. Zeroed means all defaults. */
struct leat_tasks_conf {
	uint32_t max_tasks; /**< maximum tasks at a time, up to LEAT_TASKS_LIMIT; 0: 1024 */
	/** Stack size of each task, bytes, LEAT_TASK_STACK_MIN to LEAT_TASK_STACK_MAX, rounded up
	 * to pages; 0: 64 KiB. This reserves address space only: the kernel provides each page when
	 * it is first used. */
	uint32_t stack_size;
	/** Time limit, microseconds: a task that runs for longer without waiting or yielding is
	 * logged by name, once; so is a poller, a timer's function or a message of the reactor that
	 * takes longer to return. 0: 100 ms; LEAT_TASK_HOG_NEVER: never. */
	uint32_t hog_us;
	enum leat_task_guard guard; /**< guard below each stack */
};

/** States of a task. */
enum leat_task_state {
	LEAT_TASK_FREE = 0, /**< no task: an unused control block */
	LEAT_TASK_READY,    /**< will run */
	LEAT_TASK_RUNNING,  /**< running */
	LEAT_TASK_WAITING,  /**< waiting; leat_task_info.waits says for what */
	LEAT_TASK_DONE,	    /**< ended, not yet joined */
};

/** Counters of the tasks of a reactor. */
struct leat_tasks_stats {
	uint64_t spawned;  /**< tasks ever spawned */
	uint64_t refused;  /**< spawns that failed: no room, no memory */
	uint64_t switches; /**< times a task was given the CPU */
	uint64_t hogs;	   /**< tasks, pollers, timers and messages reported for running too long */
	uint32_t tasks;	   /**< tasks now, including those that ended and were not joined */
	uint32_t ready;	   /**< tasks now that are ready or running */
	uint32_t stacks;   /**< stacks ever used: the most tasks that existed at a time */
};

/** A task's state, as leat_task_info_get() reads it. */
struct leat_task_info {
	uint64_t id;	 /**< unique in its reactor, from 1 on */
	uint64_t parent; /**< id of the task that spawned it; 0: spawned outside of tasks */
	char name[LEAT_TASK_NAME_MAX]; /**< as leat_task_name() */
	enum leat_task_state state;    /**< state now */
	char waits[64];		       /**< state WAITING: what the task waits for, in words */
	/** Start of the turn in which the task entered this state, cycles of leat_now(). */
	uint64_t since;
	uint32_t stack_used; /**< bytes of its stack in use at its last switch */
	/** Maximum number of bytes of its stack ever in use, in whole pages, by this task and by
	 * earlier tasks on the same stack. 0: unknown. */
	uint32_t stack_peak;
};

/**
 * A task's function. The joining task gets its return value: by custom 0 or a negative errno.
 */
typedef int (*leat_task_fn)(void *arg);

/**
 * Create the tasks of a reactor. A new poller of the reactor, "tasks", runs them.
 *
 * @param r
 *   The reactor.
 * @param conf
 *   NULL for the defaults.
 * @return
 *   The tasks, or NULL with rte_errno:
 *   - EINVAL: a value is out of its range
 *   - EEXIST: the reactor has tasks already
 *   - EPERM: called on the wrong thread
 *   - ENOSPC: the reactor has no room for a poller
 *   - ENOMEM: no address space for max_tasks stacks
 *   - EOPNOTSUPP: the kernel does not support the guard that conf asks for
 */
LEAT_API struct leat_tasks *leat_tasks_create(struct leat_reactor *r,
					      const struct leat_tasks_conf *conf);

/**
 * Free the tasks of a reactor, before the reactor itself.
 *
 * @return
 *   0 (also for NULL); -EBUSY: some tasks have not ended, leat_err_msg() names the first; -EPERM:
 *   called on the wrong thread, or in a task.
 */
LEAT_API int leat_tasks_destroy(struct leat_tasks *ts);

/**
 * Get the tasks of the reactor that runs on the calling thread. NULL: none runs there, or it has no
 * tasks.
 */
LEAT_API struct leat_tasks *leat_tasks_self(void);

/** Get the reactor that runs these tasks. */
LEAT_API struct leat_reactor *leat_tasks_reactor(const struct leat_tasks *ts);

/** Get the kind of guard in use; LEAT_TASK_GUARD_AUTO if ts is NULL. */
LEAT_API enum leat_task_guard leat_tasks_guard(const struct leat_tasks *ts);

/**
 * Read the counters, on any thread. Each value is recent, but not all are of the same moment. The
 * cost does not depend on the number of tasks.
 */
LEAT_API void leat_tasks_stats_get(const struct leat_tasks *ts, struct leat_tasks_stats *stats);

/**
 * Return the memory of unused stacks to the system, except for the first page of each. Makes one
 * system call per unused stack.
 */
LEAT_API void leat_tasks_trim(struct leat_tasks *ts);

/**
 * Create a task. It runs when the caller waits or ends, or in the reactor's next turn. The caller
 * must join or detach it. While the reactor stops, new tasks are born cancelled, see above.
 *
 * @param ts
 *   The tasks of the reactor that is to run it: leat_tasks_self() in a task, poller, timer or
 *   message.
 * @param name
 *   For logs and telemetry; copied; unprintable characters, '"' and '\' become '_'. NULL: no name,
 *   see leat_task_name().
 * @param fn
 *   Function of the task.
 * @param arg
 *   Its argument.
 * @return
 *   The task, or NULL with rte_errno:
 *   - EINVAL: fn or ts is NULL
 *   - ENOMEM: max_tasks tasks exist, or no memory for another stack's guard
 */
LEAT_API struct leat_task *leat_task_spawn(struct leat_tasks *ts, const char *name, leat_task_fn fn,
					   void *arg);

/**
 * Detach a task: it is freed when it ends, without a join. From this call on only the task itself
 * may use the pointer.
 *
 * @param task
 *   The return value of leat_task_spawn(); no check for NULL is needed before the call.
 * @return
 *   - 0
 *   - -EBUSY: a task waits for this one in leat_task_join()
 *   - -EINVAL: task is NULL; rte_errno and leat_err_msg() still say why leat_task_spawn() failed
 */
LEAT_API int leat_task_detach(struct leat_task *task);

/**
 * Start a detached task on the calling reactor. No branch of a scope can cancel it, and it can
 * cancel no branch. (It may have scopes of its own, and the stop of the reactor cancels it like any
 * other task.)
 *
 * @param name
 *   As for leat_task_spawn(); may be NULL.
 * @param fn
 *   Function of the task.
 * @param arg
 *   Its argument.
 * @return
 *   0; -ENOMEM, -EINVAL as for leat_task_spawn(); -EPERM: not on the thread of a running reactor
 *   with tasks (before the reactor runs use leat_task_detach(leat_task_spawn(...))).
 */
LEAT_API int leat_task_start(const char *name, leat_task_fn fn, void *arg);

/**
 * Wait until a task has ended, get its return value, and free it. A task that has ended may also be
 * joined outside of tasks.
 *
 * @param task
 *   The task; the pointer is no longer valid when 0 is returned.
 * @param[out] ret
 *   Return value of the task's function; may be NULL.
 * @return
 *   - 0: joined, and freed
 *   - -ECANCELED: the calling task was cancelled; the target must still be joined
 *   - -ETIMEDOUT: the deadline of the calling task has passed; the target must still be joined
 *   - -EDEADLK: the target is the calling task
 *   - -EBUSY: another task joins the target
 *   - -EINVAL: the target is detached; or task is NULL, then rte_errno and leat_err_msg() stay
 *     unchanged
 *   - -EPERM: the target has not ended, and the caller is not a task of the same reactor
 */
LEAT_API int leat_task_join(struct leat_task *task, int *ret);

/**
 * Let pollers and all other ready tasks run once, then continue. A cancelled task yields as well,
 * and gets -ECANCELED afterwards: so a loop that computes and never waits can end, too.
 *
 * @return
 *   0; -ECANCELED: the task was cancelled, -ETIMEDOUT: its deadline has passed, before or during
 *   the yield (neither while leat_task_mask() masks them); -EPERM: not in a task.
 */
LEAT_API int leat_task_yield(void);

/**
 * Sleep.
 *
 * @param us
 *   Microseconds from now, on the clock of leat_now(). The sleep is never shorter, and longer by at
 *   most the longest turn.
 * @return
 *   0; -ECANCELED: cancelled, -ETIMEDOUT: the task's deadline has passed (both may come before the
 *   time is up); -EPERM: not in a task.
 */
LEAT_API int leat_task_sleep(uint64_t us);

/** Sleep, as leat_task_sleep(), until an absolute time in cycles of leat_now(). */
LEAT_API int leat_task_sleep_until(uint64_t when);

/** Get the calling task; NULL outside of tasks. */
LEAT_API struct leat_task *leat_task_current(void);

/**
 * Get the name of a task. If it has none, get the symbol of its function, or "task" if the program
 * does not export that symbol (a static function, or a program linked without -rdynamic). The
 * symbol is looked up in this call, so spawning a task without a name is cheaper.
 */
LEAT_API const char *leat_task_name(const struct leat_task *task) __attribute__((cold));

/**
 * Name the calling task, as in leat_task_spawn(). NULL removes its name. Does nothing outside of
 * tasks.
 */
LEAT_API void leat_task_name_set(const char *name);

/** Get the number of a task, unique in its reactor, from 1 on. */
LEAT_API uint64_t leat_task_id(const struct leat_task *task);

/**
 * A reference to a task that stays safe to use after the task has ended, was joined, and another
 * task uses its control block. For messages, timers and tables that may outlive the task. It
 * may be copied, also to other threads. Valid until leat_tasks_destroy(). The fields are private.
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
	struct leat_task *task; /**< control block of the task */
	uint64_t id;		/**< id of the task; a later task in this block has another id */
};

/** Create a reference to a task. A reference to NULL refers to no task. */
LEAT_API struct leat_task_ref leat_task_ref_make(struct leat_task *task);

/**
 * Get the task of a reference, on the thread of its reactor. NULL: the task was joined, or has
 * ended detached.
 */
LEAT_API struct leat_task *leat_task_ref_get(const struct leat_task_ref *ref);

/** Get the state of a task. */
LEAT_API enum leat_task_state leat_task_state(const struct leat_task *task);

/** Get the name of a state in capitals, as in the enum: "READY", ...; "?" for any other value. */
LEAT_API const char *leat_task_state_name(unsigned int state);

/**
 * Set the calling task's deadline. When it has passed, waits of the task end with -ETIMEDOUT, and
 * the operations they wait for are cancelled. leat_task_mask() masks the deadline. Does nothing
 * outside of tasks.
 *
 * @param when
 *   Absolute, cycles of leat_now(); or LEAT_TASK_NO_DEADLINE.
 * @return
 *   The previous deadline.
 */
LEAT_API uint64_t leat_task_deadline_set(uint64_t when);

/** Get the calling task's deadline; LEAT_TASK_NO_DEADLINE outside of tasks. */
LEAT_API uint64_t leat_task_deadline(void);

/** Get the state of a task in detail. Makes at least one system call, for stack_peak. */
LEAT_API void leat_task_info_get(const struct leat_task *task, struct leat_task_info *info);

/**
 * Call fn with each task, in any order, including tasks that have ended and were not joined. fn
 * must not spawn, wait or join.
 */
LEAT_API void leat_tasks_each(struct leat_tasks *ts,
			      void (*fn)(void *arg, const struct leat_task *task), void *arg);

/** Receive one line of leat_task_backtrace() or leat_tasks_show(), without a newline. */
typedef void (*leat_task_line_fn)(void *arg, const char *line);

/**
 * Print the call stack of a task, innermost function first, one line per function.
 *
 * Runs the unwinder of libgcc on that task's stack, where it needs some 8 KiB.
 *
 * @param task
 *   The task, which may be the calling one.
 * @param fn
 *   Gets each line: "#0 0x7f... function+0x1b (object)".
 * @param arg
 *   First argument of fn.
 * @return
 *   Number of lines, or
 *   - -EINVAL: fn or task is NULL
 *   - -ENOSPC: too little room on the task's stack
 *   - -ESRCH: the task is in no function: it has not begun, or has ended
 */
LEAT_API int leat_task_backtrace(struct leat_task *task, leat_task_line_fn fn, void *arg);

/**
 * Print the tasks as a tree, one line per task, each below the task that spawned it.
 *
 *     main (1) WAITING in join session (2) since 12.040 ms, stack 408 B, peak 4 KiB of 68
 *       session (2) WAITING in sleep (88 us left) since 12.040 ms, stack 392 B, peak 4 KiB of 68
 *
 * @param ts
 *   The tasks.
 * @param max
 *   Maximum number of lines; one more line says how many tasks were left out. 0: no limit.
 * @param fn
 *   Gets each line.
 * @param arg
 *   First argument of fn.
 * @return
 *   Number of tasks; -EINVAL: fn or ts is NULL; -ENOMEM: no memory to sort the tasks.
 */
LEAT_API int leat_tasks_show(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn,
			     void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TASK_H */
