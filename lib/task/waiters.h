/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_WAITERS_H
#define TASK_WAITERS_H

/* Tasks that wait for the same thing, in the order in which they came. */

#include "leat_task_sync.h"
#include "debug.h"

/* On the stack of the task that waits. */
struct task_waiter {
	struct task_wait w;
	struct leat_task_waiters *list;
	struct task_waiter *next;
	struct task_waiter **pprev;
	void *item;	  /* what it brings, or gets */
	const char *name; /* of what it waits for */
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

/* Takes out the first one. @return it, NULL: no task waits */
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

/* The calling task waits as the last one, until it is taken out and woken, or cancelled. */
int task_waiters_wait(struct leat_task_waiters *l, struct task_waiter *e,
		      const struct task_wait_type *type, const char *name);

/* For task_wait_type.cancel and describe of these waits. */
int task_waiters_cancel(struct task_wait *w);
void task_waiters_describe(const struct task_wait *w, char *text, size_t len);

#endif /* TASK_WAITERS_H */
