/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_PVT_H
#define TASK_PVT_H

/*
 * The control block of a task, and how tasks wait.
 *
 * Every wait is made of two calls on one struct task_wait, w, on the stack of the task that waits:
 *
 *     task                                         poller, timer, message, another task
 *     ret = task_may_wait();  (cancelled? past the deadline?)
 *     link w into a list or a timer
 *     ret = task_park(&w);    ... others run ...   task_wake(&w, 0);
 *
 * task_wake() makes the task ready and runs nothing. Only the first task_wake() of a wait has an
 * effect, later ones return false. The first may come before task_park(), which then returns at
 * once. When the task is cancelled or its deadline passes, the cancel function of the wait is
 * called: it unlinks w and wakes it, or has the holder of w wake it soon. task_park() returns in no
 * other way, so no pointer to w is left behind.
 */

#include <assert.h>

#include <leat_common.h>
#include <leat_cursor.h>
#include <leat_reactor.h>
#include <leat_time.h>
#include <leat_tune.h>

#include "activity.h"
#include "leat_task.h"
#include "task_stack.h"
#include "task_switch.h"
#include "task_tools.h"
#include "task_tune.h"

struct leat_scope;
struct task_call;
struct task_held;
struct task_wait;

/* A kind of wait. */
struct task_wait_type {
	const char *name; /* name for people: "sleep" */
	/*
	 * Ask the wait to end early. Called on the reactor's thread, at most once per wait for a
	 * cancel and once for the deadline, between task_park() and task_wake(). Runs no task.
	 * Returns 0: task_wake() was called, or will be; -EALREADY: the wait is about to end in
	 * any case; -EOPNOTSUPP: this wait can't be cancelled. NULL: no wait of this type can be
	 * cancelled.
	 */
	int (*cancel)(struct task_wait *w);
	/* Describe what the wait is for, in words that follow the name; may be NULL. */
	void (*describe)(const struct task_wait *w, char *text, size_t len);
};

struct task_wait {
	const struct task_wait_type *type;
	struct leat_task *task; /* the waiting task */
	int32_t result;
	bool parked;
	bool woken;
	bool late; /* the deadline ended the wait */
};

/* Bit of leat_task.cancel: the signal of a cancel has reached the task. Never cleared. */
#define TASK_CANCELLED 0x01

/*
 * A control block. Block i of a reactor always has stack i: see stack.c. Blocks stay mapped until
 * leat_tasks_destroy(), so that telemetry, the overflow handler and the watchdog may read any.
 */
struct leat_task {
	/* cache line 0: switching */
	void *sp;		/* context while the task does not run; NULL: not begun */
	struct leat_task *next; /* next in the list of ready, yielded or free tasks */
	struct leat_tasks *ts;
	struct task_wait *wait; /* the wait, in state WAITING */
	uint8_t state;		/* enum leat_task_state */
	uint8_t cancel;		/* TASK_CANCELLED */
	uint8_t masked;		/* > 0: cancellation is ignored */
	uint8_t detached;
	int32_t ret;	/* return value of fn */
	uint64_t since; /* start of the turn in which it entered its state, cycles */
	leat_task_fn fn;
	void *arg;

	/* line 1 */
	struct task_wait *joiner; /* wait of the joining task */
	uint64_t id;
	uint64_t parent; /* id of the spawning task; 0: none */
	uint64_t deadline;
	char name[LEAT_TASK_NAME_MAX]; /* "": no name, see leat_task_name() */
	uint32_t index;

	/* line 2: structured concurrency, see scope.c */
	struct leat_scope *scope; /* scope of this branch; NULL: not a branch */
	struct leat_task *branch_next;
	struct leat_task **branch_prev;
	leat_task_fn branch_fn;
	int *branch_ret;	/* gets the return value of branch_fn; may be NULL */
	uint32_t branch_mark;	/* number of the branch in the scope, and BRANCH_DECIDES */
	uint32_t scope_room[5]; /* unused: fills the cache line */

	/* line 3 */
	struct task_tools tools;
	void *stack_top;	/* address of the first frame */
	struct task_held *held; /* debug builds: see debug.h */
	const void *joined_at;	/* debug builds: code address of the last join */
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct leat_task) <= 256, "size of a task's control block");
static_assert(offsetof(struct leat_task, joiner) == LEAT_CACHE_LINE, "first line of a task");
static_assert(offsetof(struct leat_task, scope) == 2 * LEAT_CACHE_LINE, "second line of a task");

/* A first-in first-out list of tasks. */
struct task_list {
	struct leat_task *head;
	struct leat_task **tail;
};

/* Number of freed blocks that debug builds set aside: a second join then finds its block free. */
#define TASK_DEBUG_REST 16

/* The tasks of a reactor. */
struct leat_tasks {
	/* cache line 0: switching */
	struct leat_task *current; /* running task; NULL: none */
	void *sp;		   /* context of the reactor while a task runs */
	struct task_list ready;
	uint32_t budget;  /* switches left in this turn */
	uint32_t readied; /* times a task became ready; see task_nb_ready() */
	uint64_t switches;
	uint64_t now;  /* start of this turn, cycles of leat_now() */
	bool canaries; /* at least one stack has a canary */

	/* line 1: spawning, yielding */
	struct leat_task *free __attribute__((aligned(LEAT_CACHE_LINE)));
	struct leat_task *blocks;
	struct task_list yielded; /* tasks to run in the next turn */
	uint32_t nb_tasks;
	uint32_t nb_done;   /* tasks that have ended, and were not joined yet */
	uint32_t nb_stacks; /* blocks ever used, each with a prepared stack */
	bool stopping;	    /* new tasks are born cancelled, see stop.c */
	uint64_t next_id;

	/* the rest */
	uint64_t refused;
	uint64_t hogs;
	uint32_t max_tasks;
	uint32_t hog_us; /* changed under the lock of watch.c, read by the watchdog */
	bool watched;	 /* counted among the users of the watchdog; the same lock */
	struct task_tune_settings set;
	struct leat_tune_object *tune;
	struct task_watch {
		uint64_t switches; /* leat_tasks.switches at the watchdog's last look */
		uint64_t since_ns; /* time of the first look that found this number */
		bool reported;	   /* the running task was reported */
		/* The same for a poller, timer or message: what ran at the last look. */
		struct reactor_activity activity;
		uint64_t activity_since_ns;
		bool activity_reported;
	} watch; /* private to the watchdog */
	struct task_stacks stacks;
	struct leat_reactor *reactor;
	struct leat_poller *poller;
	struct task_tools tools;   /* state of analysis tools for the reactor's context */
	struct task_frame control; /* the reactor's floating-point control, given to new tasks */

	/* stop.c, while stopping */
	uint32_t stop_next; /* first block that was not looked at yet */
	uint32_t stop_end;  /* end of the blocks to look at */
	uint32_t stop_runs; /* stop_ask() calls in a row that ran each remaining task to its end */
	uint64_t stop_id;   /* highest id when the stop began: later tasks have higher ones */

	struct task_call *calls; /* free calls, for reuse by the reactor's thread */

	/* debug builds: see debug.h */
	struct leat_task *resting[TASK_DEBUG_REST];
	uint32_t nb_rested; /* blocks ever put into resting */

	/* written by other threads */
	struct task_call *inbox __attribute__((aligned(LEAT_CACHE_LINE))); /* answered calls */
	uint32_t nb_answering; /* threads that are pushing an answer on the inbox */
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(offsetof(struct leat_tasks, free) == LEAT_CACHE_LINE, "first line of tasks");

/* Name of a task that was given none, and whose function has no exported symbol. */
#define TASK_UNNAMED "task"

/* Initial value of leat_tasks.readied. */
#define TASK_READIED_START LEAT_CURSOR_START

#define RLX_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define RLX_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
/* Add to a value that only one thread writes: an atomic addition is not needed. */
#define RLX_ADD(x, n) RLX_STORE(x, (x) + (n))

/* Replace a character that could break a log line or JSON by '_'. */
static inline char
task_printable(char c)
{
	return c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
}

static inline void
task_list_init(struct task_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

static inline void
task_list_add(struct task_list *l, struct leat_task *t)
{
	t->next = NULL;
	*l->tail = t;
	l->tail = &t->next;
}

/* Take the first task off a list that is not empty. */
static inline struct leat_task *
task_list_take(struct task_list *l)
{
	struct leat_task *t = l->head;

	l->head = t->next;
	if (l->head == NULL)
		l->tail = &l->head;
	return t;
}

/* sched.c: the struct leat_tasks of the task that this thread is running; NULL: none */
extern __thread struct leat_tasks *task_running __attribute__((tls_model("initial-exec")));

/* Get the calling task; NULL outside of tasks. */
static inline struct leat_task *
task_self(void)
{
	struct leat_tasks *ts = task_running;

	return ts != NULL ? ts->current : NULL;
}

int task_may_wait_slow(const char *what);

/* debug.c: report the held scopes on the stack below frame: their functions have returned */
void task_debug_frame(struct leat_task *t, const void *frame);

/*
 * Check that the calling task may wait. Each waiting function calls this first, before it starts
 * anything.
 *
 * @return 0; -EPERM with leat_err(): not in a task; -ECANCELED: the task is cancelled and not
 * masked; -ETIMEDOUT: its deadline has passed
 */
static inline int
task_may_wait(const char *what)
{
	const struct leat_task *t = task_self();

#ifdef LEAT_TASK_DEBUG
	if (unlikely(t != NULL && t->held != NULL))
		task_debug_frame(task_self(), __builtin_frame_address(0));
#endif
	if (likely(t != NULL && t->cancel == 0 && t->deadline == LEAT_TASK_NO_DEADLINE))
		return 0;
	return task_may_wait_slow(what);
}

/* Make a task ready: it runs in this turn if the budget allows, else in the next. */
static inline void
task_ready(struct leat_tasks *ts, struct leat_task *t)
{
	RLX_STORE(t->state, LEAT_TASK_READY);
	t->since = ts->now;
	RLX_ADD(ts->readied, 1);
	task_list_add(&ts->ready, t);
}

/* Count the tasks that have not ended. */
static inline uint32_t
task_nb_left(const struct leat_tasks *ts)
{
	return ts->nb_tasks - ts->nb_done;
}

/*
 * Count the ready and yielded tasks: how often tasks became ready, less how often one got the CPU.
 * Exact on the reactor's thread only: another thread reads the two counters at different moments.
 */
static inline uint32_t
task_nb_ready(const struct leat_tasks *ts)
{
	return ts->readied - TASK_READIED_START - (uint32_t)ts->switches;
}

/* Give up the CPU. The calling task is in a list already, or linked where a waker finds it. */
void task_switch_away(struct leat_tasks *ts, struct leat_task *self);
/*
 * Leave the calling task, which has ended. @return the context to resume; does not return if it has
 * resumed the next context itself
 */
void *task_switch_last(struct leat_tasks *ts, struct leat_task *self);
/* Poller of the tasks. */
int task_poll(void *arg, uint64_t now);
/* Tell whether task_poll() would find a task to run, or an answer to a call. */
bool task_poll_ready(void *arg);

/* life.c: the first function on each stack; arg is the task */
void *task_main(void *arg);
void task_release(struct leat_tasks *ts, struct leat_task *t);
/* Get the name of an unnamed task from its function. Takes microseconds. */
const char *task_function_name(leat_task_fn fn);

/* overflow.c; call add and del with task_lock held */
void task_overflow_add(void);
void task_overflow_del(void);
/* Give the calling thread, which is about to run tasks, a signal stack if it has none. */
void task_overflow_thread(void);
/* End the process, as a guard page would, if the canary below the task's stack was overwritten. */
void task_canary_check(struct leat_tasks *ts, const struct leat_task *t);

/*
 * watch.c; don't hold task_lock in these three: they may wait for the watchdog, which takes it.
 * add: have the watchdog watch ts, unless hog_us is LEAT_TASK_HOG_NEVER. del: not any more. A
 * repeated add or del has no effect. set: change hog_us, and add or del accordingly.
 */
void task_watch_add(struct leat_tasks *ts);
void task_watch_del(struct leat_tasks *ts);
void task_watch_set(struct leat_tasks *ts, uint32_t hog_us);
/* Does the watchdog run? For tests. */
bool task_watch_runs(void);
/*
 * tune.c: add the tasks as an object of lib/tune, which sets hog_us if the settings file has a
 * value for it. @return 0, or -errno with leat_err()
 */
int task_tune_add(struct leat_tasks *ts);
/* Look at all reactors with tasks once, at ns of CLOCK_MONOTONIC, and report what runs too long. */
void task_watch_scan(uint64_t ns);

/* show.c: a task's place in the tree */
struct task_node {
	uint64_t parent; /* 0: at the root */
	uint64_t id;
	uint32_t index;
	uint32_t depth;
};

/* List all tasks in the order of the tree; the caller frees *nodes. @return number, or -ENOMEM */
int task_tree(const struct leat_tasks *ts, struct task_node **nodes);

/* telemetry.c */
void task_telemetry_init(void);

/* call.c */
void task_inbox_run(struct leat_tasks *ts);
void task_calls_free(struct leat_tasks *ts);

/*
 * tasks.c: tasks of the process, by number of their reactor. A thread other than the reactor's
 * holds the lock while it reads an entry, so that the tasks are not destroyed meanwhile.
 */
extern struct leat_tasks *task_registry[LEAT_REACTOR_MAX];
void task_lock(void);
void task_unlock(void);

/* tasks.c: the first task that has not ended, in the order of the blocks; NULL: none */
const struct leat_task *task_first_left(const struct leat_tasks *ts);

/* show.c: list the first max tasks that have not ended, when there are too many for a tree */
void task_show_first(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn, void *arg);

/* stop.c: the quiesce function of the tasks' poller, see leat_poller_quiesce_set() */
int task_quiesce(void *arg, char *what, size_t len);

/*
 * Suspend the calling task until task_wake(w) is called.
 * @return the result given to task_wake(); -ETIMEDOUT in place of -ECANCELED when the deadline
 * cancelled the wait
 */
int task_park(struct task_wait *w);

/* End a wait. @return false: it had ended before, nothing happened */
bool task_wake(struct task_wait *w, int result);

/*
 * Cancel a task: set its flag and cancel its wait, unless it is masked (then the flag takes effect
 * after the unmask). Runs nothing.
 * @return 0; -EEXIST: it was cancelled before
 */
int task_cancel(struct leat_task *t);

/* Set up a wait for the calling task. */
static inline void
task_wait_init(struct task_wait *w, const struct task_wait_type *type)
{
	w->type = type;
	w->task = task_self();
	w->result = 0;
	w->parked = false;
	w->woken = false;
	w->late = false;
}

#endif /* TASK_PVT_H */
