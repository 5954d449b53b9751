/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_WAITERS_H
#define TASK_WAITERS_H

/* Lists of tasks that wait for the same object, in the order of their waits. */

#include "leat_task_sync.h"
#include "debug.h"

/* One wait, on the stack of the waiting task. */
struct task_waiter {
	struct task_wait w;
	struct leat_task_waiters *list;
	struct task_waiter *next;
	struct task_waiter **pprev;
	void *item;	  /* item to put into a queue, or taken from it */
	const char *name; /* name of the object */
};

static inline void
task_waiters_init(struct leat_task_waiters *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

static inline void
task_waiters_remove(struct task_waiter *e)
{
	*e->pprev = e->next;
	if (e->next != NULL)
		e->next->pprev = e->pprev;
	else
		e->list->tail = e->pprev;
}

/* Remove the oldest wait from a list. @return NULL: no task waits */
static inline struct task_waiter *
task_waiters_take(struct leat_task_waiters *l)
{
	struct task_waiter *e = l->head;

	if (e != NULL) {
		task_debug_thread(e->w.task->ts, e->w.type->name, TASK_PLACE());
		task_waiters_remove(e);
	}
	return e;
}

/* Append the calling task to a list, and wait until it is taken off and woken, or cancelled. */
int task_waiters_wait(struct leat_task_waiters *l, struct task_waiter *e,
		      const struct task_wait_type *type, const char *name);

/* The cancel and describe functions of these waits' types. */
int task_waiters_cancel(struct task_wait *w);
void task_waiters_describe(const struct task_wait *w, char *text, size_t len);

#endif /* TASK_WAITERS_H */
