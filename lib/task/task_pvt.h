/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_PVT_H
#define TASK_PVT_H

/*
 * The control block of a task, and how tasks wait.
 *
 * All waiting is made of two calls on one object, which lies on the stack of the task that waits:
 *
 *     task                                         poller, timer, message, another task
 *     ret = task_may_wait();  (cancelled? late?)
 *     hang w where it will be found
 *     ret = task_park(&w);    ... others run ...   task_wake(&w, 0);
 *
 * task_wake() makes the task ready and runs nothing; the first one wins, a later one returns false.
 * It may come before task_park(), which then returns at once. When the task is cancelled or its
 * deadline passes, the wait's cancel function is called: it takes w from where it hangs and wakes
 * it, or sees to it that its holder does so soon. task_park() returns in no other way, so w
 * and what belongs to it are never left behind.
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
	const char *name; /* for people: "sleep" */
	/*
	 * Ask it to end early. Called on the reactor's thread, once per wait at most for a cancel
	 * and once for the deadline, between task_park() and task_wake(). It runs no task.
	 * Returns 0: task_wake() was called, or will be; -EALREADY: it ends by itself right now;
	 * -EOPNOTSUPP: it can't be recalled. NULL: it never can.
	 */
	int (*cancel)(struct task_wait *w);
	/* In words what it waits for, behind the name; may be NULL. */
	void (*describe)(const struct task_wait *w, char *text, size_t len);
};

struct task_wait {
	const struct task_wait_type *type;
	struct leat_task *task; /* that waits */
	int32_t result;
	bool parked;
	bool woken;
	bool late; /* the deadline ended it */
};

/* leat_task.cancel */
#define TASK_CANCELLED 0x01 /* the signal was delivered; stays */

/*
 * A control block. Block i of a reactor has stack i, for ever: see stack.c. Blocks stay mapped
 * until leat_tasks_destroy(), and telemetry, the overflow handler and the watchdog may look at
 * any.
 */
struct leat_task {
	/* line 0: switching */
	void *sp;		/* context while it does not run; NULL: it has not begun */
	struct leat_task *next; /* in the list of ready or free ones */
	struct leat_tasks *ts;
	struct task_wait *wait; /* WAITING: for what */
	uint8_t state;		/* enum leat_task_state */
	uint8_t cancel;		/* TASK_CANCELLED */
	uint8_t masked;		/* > 0: cancellation is not looked at */
	uint8_t detached;
	int32_t ret; /* what fn returned */
	uint64_t since;
	leat_task_fn fn;
	void *arg;

	/* line 1 */
	struct task_wait *joiner; /* the wait of the task that joins it */
	uint64_t id;
	uint64_t parent; /* id; 0: none */
	uint64_t deadline;
	char name[LEAT_TASK_NAME_MAX]; /* "": none was given, see leat_task_name() */
	uint32_t index;

	/* line 2: structured concurrency, see scope.c */
	struct leat_scope *scope; /* it is a branch of; NULL: of none */
	struct leat_task *branch_next;
	struct leat_task **branch_prev;
	leat_task_fn branch_fn;
	int *branch_ret;      /* gets what branch_fn returned; may be NULL */
	uint32_t branch_mark; /* its number in the scope, and BRANCH_DECIDES */
	uint32_t scope_room[5];

	/* line 3 */
	struct task_tools tools;
	void *stack_top;	/* where its first frame goes */
	struct task_held *held; /* debug builds: see debug.h */
	const void *joined_at;	/* the same */
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct leat_task) <= 256, "size of a task's control block");
static_assert(offsetof(struct leat_task, joiner) == LEAT_CACHE_LINE, "first line of a task");
static_assert(offsetof(struct leat_task, scope) == 2 * LEAT_CACHE_LINE, "second line of a task");

/* A first-in first-out list of tasks. */
struct task_list {
	struct leat_task *head;
	struct leat_task **tail;
};

/* Debug builds: so many blocks rest, so that a task that is joined twice is none yet. */
#define TASK_DEBUG_REST 16

/* The tasks of a reactor. */
struct leat_tasks {
	/* line 0: switching */
	struct leat_task *current; /* NULL: none runs */
	void *sp;		   /* context of the reactor while a task runs */
	struct task_list ready;
	uint32_t budget;  /* switches left in this turn */
	uint32_t readied; /* tasks that became ready, ever; see task_nb_ready() */
	uint64_t switches;
	uint64_t now;  /* of this turn */
	bool canaries; /* some stack has one */

	/* line 1: spawning, yielding */
	struct leat_task *free __attribute__((aligned(LEAT_CACHE_LINE)));
	struct leat_task *blocks;
	struct task_list yielded; /* become ready in the next turn */
	uint32_t nb_tasks;
	uint32_t nb_done;   /* of these have ended, and were not joined yet */
	uint32_t nb_stacks; /* blocks ever used: those from this one on have no stack yet */
	bool stopping;	    /* new ones are born cancelled, see stop.c */
	uint64_t next_id;

	/* the rest */
	uint64_t refused;
	uint64_t hogs;
	uint32_t max_tasks;
	uint32_t hog_us; /* changed by the control thread of lib/tune, read by the watchdog */
	struct task_tune_settings set;
	struct leat_tune_object *tune;
	struct task_watch {
		uint64_t switches; /* when it last looked */
		uint64_t since_ns; /* it has not changed */
		bool told;
		/* The same of what else the reactor does. */
		struct reactor_activity activity;
		uint64_t activity_since_ns;
		bool activity_told;
	} watch; /* of the watchdog */
	struct task_stacks stacks;
	struct leat_reactor *reactor;
	struct leat_poller *poller;
	struct task_tools tools;   /* of the reactor's context */
	struct task_frame control; /* its floating-point control, which tasks begin with */

	/* stop.c, while stopping */
	uint32_t stop_next; /* blocks from this one on ... */
	uint32_t stop_end;  /* ... to this one have not been looked at */
	uint32_t stop_runs; /* times in a row that all that were left ended when they were run */
	uint64_t stop_id;   /* tasks with a higher id were spawned since */

	struct task_call *calls; /* to be used again; the owner's */

	/* debug builds: see debug.h */
	struct leat_task *resting[TASK_DEBUG_REST];
	uint32_t nb_rested; /* ever */

	/* written by other threads */
	struct task_call *inbox __attribute__((aligned(LEAT_CACHE_LINE))); /* answers */
	uint32_t answering; /* threads that are in the middle of one */
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(offsetof(struct leat_tasks, free) == LEAT_CACHE_LINE, "first line of tasks");

/* A task without a name, where its function has none that could be told either. */
#define TASK_UNNAMED "task"

/* leat_tasks.readied of no tasks. */
#define TASK_READIED_START LEAT_CURSOR_START

#define RLX_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define RLX_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
/* The owner is the only writer: no read-modify-write needed. */
#define RLX_ADD(x, n) RLX_STORE(x, (x) + (n))

/* What could break a log line or JSON becomes '_'. */
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

/* The first one; the list is not empty. */
static inline struct leat_task *
task_list_take(struct task_list *l)
{
	struct leat_task *t = l->head;

	l->head = t->next;
	if (l->head == NULL)
		l->tail = &l->head;
	return t;
}

/* sched.c: the tasks that run on this thread */
extern __thread struct leat_tasks *task_running __attribute__((tls_model("initial-exec")));

/* The calling task; NULL outside of tasks. */
static inline struct leat_task *
task_self(void)
{
	struct leat_tasks *ts = task_running;

	return ts != NULL ? ts->current : NULL;
}

int task_may_wait_slow(const char *what);

/* debug.c: functions of frames below this one have returned. */
void task_debug_frame(struct leat_task *t, const void *frame);

/*
 * May the calling task begin to wait? Called first by everything that waits, before it starts
 * anything.
 *
 * @return 0; -EPERM with leat_err(): not in a task; -ECANCELED: it is cancelled and that is not
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

/* It will run: in this turn if that has room, else in the next. */
static inline void
task_ready(struct leat_tasks *ts, struct leat_task *t)
{
	RLX_STORE(t->state, LEAT_TASK_READY);
	t->since = ts->now;
	RLX_ADD(ts->readied, 1);
	task_list_add(&ts->ready, t);
}

/* Tasks that have not ended. */
static inline uint32_t
task_nb_left(const struct leat_tasks *ts)
{
	return ts->nb_tasks - ts->nb_done;
}

/*
 * Tasks in the lists of ready ones: each task that became ready is given the CPU once for that.
 * For the reactor's thread; two counters that others read one after the other may not fit.
 */
static inline uint32_t
task_nb_ready(const struct leat_tasks *ts)
{
	return ts->readied - TASK_READIED_START - (uint32_t)ts->switches;
}

/* The calling task gives up the CPU; it is in a list, or a waker knows it. */
void task_switch_away(struct leat_tasks *ts, struct leat_task *self);
/* The calling task has ended. @return the context that comes next, if this returns */
void *task_switch_last(struct leat_tasks *ts, struct leat_task *self);
/* Poller of the tasks. */
int task_poll(void *arg, uint64_t now);
/* Would it find one to run, or an answer to a call? */
bool task_poll_ready(void *arg);

/* life.c: the first function on each stack; arg is the task */
void *task_main(void *arg);
void task_release(struct leat_tasks *ts, struct leat_task *t);
/* What an unnamed task is called that runs it. It takes microseconds. */
const char *task_function_name(leat_task_fn fn);

/* overflow.c; add and del with task_lock held */
void task_overflow_add(void);
void task_overflow_del(void);
/* The calling thread is about to run tasks. */
void task_overflow_thread(void);
/* Ends the process as a guard would, if the canary below the task's stack is gone. */
void task_canary_check(struct leat_tasks *ts, const struct leat_task *t);

/* watch.c; add and del without task_lock, which the watchdog takes */
void task_watch_add(struct leat_tasks *ts);
/* tune.c: hog_us becomes what a settings file wants. @return 0, or negative with leat_err() */
int task_tune_add(struct leat_tasks *ts);
/* hog_us has changed, and may be shorter. */
void task_watch_hasten(const struct leat_tasks *ts);
void task_watch_del(struct leat_tasks *ts);
/* One look at all tasks: has one been running for too long? ns: of CLOCK_MONOTONIC. */
void task_watch_scan(uint64_t ns);

/* show.c: a task's place in the tree */
struct task_node {
	uint64_t parent; /* 0: at the root */
	uint64_t id;
	uint32_t index;
	uint32_t depth;
};

/* All tasks in the order of the tree, for free(3). @return number of them, or -ENOMEM */
int task_tree(const struct leat_tasks *ts, struct task_node **nodes);

/* telemetry.c */
void task_telemetry_init(void);

/* call.c */
void task_inbox_run(struct leat_tasks *ts);
void task_calls_free(struct leat_tasks *ts);

/*
 * tasks.c: all tasks of the process, by number of their reactor. Another thread than the reactor's
 * holds the lock while it looks at them, so that they don't go away.
 */
extern struct leat_tasks *task_registry[LEAT_REACTOR_MAX];
void task_lock(void);
void task_unlock(void);

/* tasks.c: the first one that has not ended, in the order of the blocks; NULL: none */
const struct leat_task *task_first_left(const struct leat_tasks *ts);

/* show.c: lines of the first ones that have not ended, when there are too many for a tree */
void task_show_first(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn, void *arg);

/* stop.c: what the reactor asks when it stops */
int task_quiesce(void *arg, char *what, size_t len);

/*
 * The calling task waits until task_wake(w) is called.
 * @return the result given to task_wake(); -ETIMEDOUT when that was -ECANCELED and it was the
 * deadline that cancelled it
 */
int task_park(struct task_wait *w);

/* End a wait. @return false: it was ended already, nothing happened */
bool task_wake(struct task_wait *w, int result);

/*
 * Cancel the task: raise its flag, and have what it waits for cancelled, unless it is masked (then
 * the flag counts after the unmask). Runs nothing.
 * @return 0; -EEXIST: it was cancelled before
 */
int task_cancel(struct leat_task *t);

/* Make a wait for the calling task. */
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
