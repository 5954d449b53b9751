/* SPDX-License-Identifier: BSD-3-Clause */

/* Mutex, condition, semaphore. See leat_task_sync.h. */

#include <errno.h>
#include <stdio.h>

#include <leat_error.h>

#include "waiters.h"

int
task_waiters_wait(struct leat_task_waiters *l, struct task_waiter *e,
		  const struct task_wait_type *type, const char *name)
{
	/* Debug builds report a list that would hold tasks of two reactors. */
	if (l->head != NULL)
		task_debug_thread(l->head->w.task->ts, type->name, TASK_PLACE());
	task_wait_init(&e->w, type);
	e->list = l;
	e->name = name;
	e->next = NULL;
	e->pprev = l->tail;
	*l->tail = e;
	l->tail = &e->next;
	return task_park(&e->w);
}

int
task_waiters_cancel(struct task_wait *w)
{
	task_waiters_remove(container_of(w, struct task_waiter, w));
	task_wake(w, -ECANCELED);
	return 0;
}

void
task_waiters_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct task_waiter *e = container_of(w, const struct task_waiter, w);

	snprintf(text, len, "%s", e->name != NULL ? e->name : "");
}

static const struct task_wait_type mutex_type = {
	.name = "mutex",
	.cancel = task_waiters_cancel,
	.describe = task_waiters_describe,
};

/* The wait for the lock at the end of leat_task_cond_wait(), which can't be cancelled. */
static const struct task_wait_type mutex_again_type = {
	.name = "mutex",
	.describe = task_waiters_describe,
};

static const struct task_wait_type cond_type = {
	.name = "condition",
	.cancel = task_waiters_cancel,
	.describe = task_waiters_describe,
};

static const struct task_wait_type sem_type = {
	.name = "semaphore",
	.cancel = task_waiters_cancel,
	.describe = task_waiters_describe,
};

void
leat_task_mutex_init(struct leat_task_mutex *m, const char *name)
{
	m->owner = NULL;
	m->name = name;
	task_waiters_init(&m->waiters);
}

/* Lock a mutex, waiting if needed: leat_task_mutex_unlock() makes the woken task the owner. */
static inline int
mutex_take(struct leat_task_mutex *m, const struct task_wait_type *type, const void *place)
{
	struct task_waiter e;
	int ret = 0;

	if (m->owner == NULL) {
		m->owner = task_self();
	} else {
		task_debug_thread(m->owner->ts, "lock of a mutex", place);
		ret = task_waiters_wait(&m->waiters, &e, type, m->name);
	}
	if (ret == 0)
		task_debug_hold(task_self(), TASK_DEBUG_MUTEX, m, m->name, place);
	return ret;
}

int
leat_task_mutex_lock(struct leat_task_mutex *m)
{
	int ret = task_may_wait("lock a mutex");

	if (unlikely(ret < 0))
		return ret;
	if (unlikely(m->owner == task_self()))
		return leat_err(EDEADLK, "mutex %s: task %s has it already", m->name,
				leat_task_name(m->owner));
	return mutex_take(m, &mutex_type, TASK_PLACE());
}

int
leat_task_mutex_trylock(struct leat_task_mutex *m)
{
	if (task_self() == NULL)
		return leat_err(EPERM, "lock a mutex: not in a task");
	if (m->owner != NULL)
		return -EBUSY;
	m->owner = task_self();
	task_debug_hold(m->owner, TASK_DEBUG_MUTEX, m, m->name, TASK_PLACE());
	return 0;
}

int
leat_task_mutex_unlock(struct leat_task_mutex *m)
{
	struct task_waiter *e;

	if (unlikely(m->owner == NULL || m->owner != task_self()))
		return leat_err(EPERM, "unlock mutex %s: the caller does not have it", m->name);
	(void)task_debug_drop(m->owner, m);
	e = task_waiters_take(&m->waiters);
	m->owner = e != NULL ? e->w.task : NULL;
	if (e != NULL)
		task_wake(&e->w, 0);
	return 0;
}

void
leat_task_cond_init(struct leat_task_cond *c, const char *name)
{
	c->name = name;
	task_waiters_init(&c->waiters);
}

int
leat_task_cond_wait(struct leat_task_cond *c, struct leat_task_mutex *m)
{
	struct task_waiter e;
	int ret = task_may_wait("wait for a condition");

	if (unlikely(ret < 0))
		return ret;
	/* No other task runs between unlock and wait, so no signal is lost. */
	ret = leat_task_mutex_unlock(m);
	if (unlikely(ret < 0))
		return ret;
	ret = task_waiters_wait(&c->waiters, &e, &cond_type, c->name);
	(void)mutex_take(m, &mutex_again_type, TASK_PLACE());
	return ret;
}

void
leat_task_cond_signal(struct leat_task_cond *c)
{
	struct task_waiter *e = task_waiters_take(&c->waiters);

	if (e != NULL)
		task_wake(&e->w, 0);
}

void
leat_task_cond_broadcast(struct leat_task_cond *c)
{
	struct task_waiter *e;

	while ((e = task_waiters_take(&c->waiters)) != NULL)
		task_wake(&e->w, 0);
}

void
leat_task_sem_init(struct leat_task_sem *s, uint32_t value, const char *name)
{
	s->value = value;
	s->name = name;
	task_waiters_init(&s->waiters);
}

int
leat_task_sem_trywait(struct leat_task_sem *s)
{
	if (s->value == 0)
		return -EAGAIN;
	s->value--;
	return 0;
}

int
leat_task_sem_wait(struct leat_task_sem *s)
{
	struct task_waiter e;
	int ret = task_may_wait("wait for a semaphore");

	if (unlikely(ret < 0))
		return ret;
	if (leat_task_sem_trywait(s) == 0)
		return 0;
	return task_waiters_wait(&s->waiters, &e, &sem_type, s->name);
}

int
leat_task_sem_post(struct leat_task_sem *s)
{
	struct task_waiter *e = task_waiters_take(&s->waiters);

	if (e != NULL) {
		task_wake(&e->w, 0);
		return 0;
	}
	if (s->value == UINT32_MAX)
		return leat_err(EOVERFLOW, "semaphore %s: posted too often", s->name);
	s->value++;
	return 0;
}
