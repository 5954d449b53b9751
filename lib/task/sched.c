/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The order in which tasks run, and waiting.
 *
 *     reactor's turn                 tasks
 *     task_poll()  ----- switch ----> A ... waits
 *                                     |-- switch --> B ... ends
 *                                                    |-- switch --> A (woken by B) ... waits
 *       <------------------------- switch ------------------------- |
 *     next poller
 *
 * A task that waits switches straight to the next ready task. It switches back to the reactor when
 * no task is ready, or when the turn's budget is used up.
 */

#include <errno.h>

#include <leat_error.h>

#include "task_pvt.h"

/*
 * Maximum number of switches between tasks in a turn, so that ready tasks do not hold up the
 * pollers.
 */
#define TASK_BUDGET 256

__thread struct leat_tasks *task_running;

static inline void
set_running(struct leat_tasks *ts, struct leat_task *t)
{
	RLX_STORE(ts->current, t);
	RLX_STORE(t->state, LEAT_TASK_RUNNING);
	RLX_ADD(ts->switches, 1);
}

/* Take the next task to run; NULL: return to the reactor. */
static inline struct leat_task *
pick(struct leat_tasks *ts)
{
	struct leat_task *next;

	if (unlikely(ts->ready.head == NULL || ts->budget == 0)) {
		RLX_STORE(ts->current, NULL);
		return NULL;
	}
	ts->budget--;
	next = task_list_take(&ts->ready);
	set_running(ts, next);
	return next;
}

/* Switch to a task; *save gets the suspended context. */
static __rte_always_inline void
enter(struct leat_tasks *ts, void **save, struct leat_task *next)
{
	if (likely(next->sp != NULL))
		task_switch(save, next->sp);
	else
		task_begin(save, next->stack_top, task_main, next, &ts->control);
}

void
task_switch_away(struct leat_tasks *ts, struct leat_task *self)
{
	struct leat_task *next;

	if (unlikely(ts->canaries))
		task_canary_check(ts, self);
	next = pick(ts);
	task_tools_leave(&self->tools, next != NULL ? &next->tools : &ts->tools, false);
	if (likely(next != NULL))
		enter(ts, &self->sp, next);
	else
		task_switch(&self->sp, ts->sp);
	task_tools_enter(&self->tools);
}

void *
task_switch_last(struct leat_tasks *ts, struct leat_task *self)
{
	struct leat_task *next;

	if (unlikely(ts->canaries))
		task_canary_check(ts, self);
	next = pick(ts);
	task_tools_leave(&self->tools, next != NULL ? &next->tools : &ts->tools, true);
	/*
	 * Switch here, and never come back, in two cases. The next task has not begun: it has no
	 * context that this function could return. Or task_tools_leave() has told a sanitizer that
	 * this stack is left: then no more code may run on it.
	 */
	if (next != NULL && (next->sp == NULL || TASK_TOOLS))
		enter(ts, &self->sp, next);
	else if (TASK_TOOLS)
		task_switch(&self->sp, ts->sp);
	return next != NULL ? next->sp : ts->sp;
}

static __rte_noinline int
run(struct leat_tasks *ts)
{
	struct leat_tasks *outer = task_running;
	uint64_t before = ts->switches;
	struct leat_task *first;

	task_overflow_thread();
	task_running = ts;
	task_tools_thread(&ts->tools);
	ts->budget = TASK_BUDGET;
	task_control_get(&ts->control);
	first = pick(ts);
	task_tools_leave(&ts->tools, &first->tools, false);
	enter(ts, &ts->sp, first);
	task_tools_enter(&ts->tools);
	task_running = outer;
	return (int)(ts->switches - before);
}

int
task_poll(void *arg, uint64_t now)
{
	struct leat_tasks *ts = arg;

	ts->now = now;
	if (unlikely(RLX_LOAD(ts->inbox) != NULL))
		task_inbox_run(ts);
	if (ts->yielded.head != NULL) {
		*ts->ready.tail = ts->yielded.head;
		ts->ready.tail = ts->yielded.tail;
		task_list_init(&ts->yielded);
	}
	return ts->ready.head != NULL ? run(ts) : 0;
}

bool
task_poll_ready(void *arg)
{
	const struct leat_tasks *ts = arg;

	return ts->ready.head != NULL || ts->yielded.head != NULL || RLX_LOAD(ts->inbox) != NULL;
}

int
task_may_wait_slow(const char *what)
{
	const struct leat_task *t = task_self();

	if (unlikely(t == NULL))
		return leat_err(EPERM, "%s: not in a task", what);
	if (unlikely(t->cancel != 0 && t->masked == 0))
		return -ECANCELED;
	if (unlikely(t->deadline != LEAT_TASK_NO_DEADLINE && leat_now() >= t->deadline))
		return -ETIMEDOUT;
	return 0;
}

static int
wait_here(struct leat_tasks *ts, struct leat_task *t, struct task_wait *w)
{
	w->parked = true;
	t->since = ts->now;
	RLX_STORE(t->wait, w);
	RLX_STORE(t->state, LEAT_TASK_WAITING);
	task_switch_away(ts, t);
	RLX_STORE(t->wait, NULL);
	return w->result;
}

static void
on_deadline(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct task_wait *w = arg;

	(void)timer;
	(void)now;
	/* If woken: the wait has ended, and the task has not run since then. */
	if (w->woken || w->type->cancel == NULL)
		return;
	w->late = true;
	if (w->type->cancel(w) < 0)
		w->late = false;
}

static __rte_noinline int
wait_with_deadline(struct leat_tasks *ts, struct leat_task *t, struct task_wait *w)
{
	struct leat_timer timer;
	int ret;

	leat_timer_init(&timer, on_deadline, w);
	leat_timer_start_at(ts->reactor, &timer, t->deadline);
	ret = wait_here(ts, t, w);
	leat_timer_stop(&timer);
	return ret == -ECANCELED && w->late ? -ETIMEDOUT : ret;
}

int
task_park(struct task_wait *w)
{
	struct leat_task *t = w->task;

	if (w->woken)
		return w->result;
	if (unlikely(t->deadline != LEAT_TASK_NO_DEADLINE))
		return wait_with_deadline(t->ts, t, w);
	return wait_here(t->ts, t, w);
}

bool
task_wake(struct task_wait *w, int result)
{
	if (w->woken)
		return false;
	w->woken = true;
	w->result = result;
	if (likely(w->parked))
		task_ready(w->task->ts, w->task);
	return true;
}

int
task_cancel(struct leat_task *t)
{
	struct task_wait *w = t->wait;

	if (t->cancel & TASK_CANCELLED)
		return -EEXIST;
	t->cancel |= TASK_CANCELLED;
	if (t->masked == 0 && w != NULL && !w->woken && w->type->cancel != NULL)
		(void)w->type->cancel(w);
	return 0;
}

int
leat_task_yield(void)
{
	struct leat_tasks *ts = task_running;
	struct leat_task *t = task_self();

	if (unlikely(t == NULL))
		return leat_err(EPERM, "yield: not in a task");
	t->since = ts->now;
	RLX_STORE(t->state, LEAT_TASK_READY);
	RLX_ADD(ts->readied, 1);
	task_list_add(&ts->yielded, t);
	task_switch_away(ts, t);
	/* Report a cancel or deadline that came during the yield. */
	return task_may_wait("yield");
}

struct leat_task *
leat_task_current(void)
{
	return task_self();
}

uint64_t
leat_task_deadline_set(uint64_t when)
{
	struct leat_task *t = task_self();
	uint64_t old;

	if (t == NULL)
		return LEAT_TASK_NO_DEADLINE;
	old = t->deadline;
	t->deadline = when;
	return old;
}

uint64_t
leat_task_deadline(void)
{
	const struct leat_task *t = task_self();

	return t != NULL ? t->deadline : LEAT_TASK_NO_DEADLINE;
}
