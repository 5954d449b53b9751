/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cancel: the signal goes down a tree of scopes and branches.
 *
 *     scope --+-- A (waits for a scope) --+-- x
 *             |                           `-- y
 *             +-- B (in an operation)
 *             `-- C (between two operations)
 *
 * The walk visits A, x, y, B, C. It is a loop, not a recursion, since branches nest to any depth
 * and the stack of the caller is small. It finds the branches of a scope by leat_scope.first and
 * leat_task.branch_next, the scope below a branch by leat_task.wait, and the way back up by
 * leat_scope.parent.
 *
 * Each task has a flag that is set once, by the first signal from any sender: the cancel of its
 * scope, of an enclosing scope, of the task alone, or the stop of the reactor. So the signal
 * arrives exactly once: the flag is checked before the signal is given, and nothing resets it. Nor
 * can the signal come too early or too late for an operation, since the task is on this thread and
 * does not run now. Either it is in an operation, whose cancel is called, or it will check the flag
 * before it starts the next one.
 *
 * test/model/cancel.pml is a model of this file.
 */

#include <errno.h>

#include <leat_error.h>

#include "reactor_pvt.h"
#include "scope_pvt.h"

/* Get the scope that a task waits for and whose branches the signal must reach, else NULL. */
static inline struct leat_scope *
scope_below(const struct leat_task *t)
{
	const struct task_wait *w = t->wait;

	if (w == NULL || w->type != &scope_wait_type || w->woken || t->masked)
		return NULL;
	return container_of(w, const struct scope_wait, w)->scope;
}

/* Give the signal to a branch, if it does not have it. @return a scope to descend into, or NULL */
static struct leat_scope *
scope_signal(struct leat_task *t)
{
	struct leat_scope *below;

	if (t->cancel & TASK_CANCELLED)
		return NULL;
	below = scope_below(t);
	if (below == NULL) {
		(void)task_cancel(t);
		return NULL;
	}
	t->cancel |= TASK_CANCELLED;
	/*
	 * A scope that was cancelled before keeps its flags. The walk still descends: the branch
	 * that sent the earlier cancel has not got the signal yet.
	 */
	(void)scope_cancel_outer(below);
	return below;
}

void
scope_walk(struct leat_scope *top, const struct leat_task *spared)
{
	struct leat_scope *s = top;
	struct leat_task *t = top->first;

	for (;;) {
		struct leat_scope *below = NULL;

		/* After the last branch of s: continue with the sibling of the task that waits. */
		while (t == NULL) {
			if (s == top)
				return;
			t = s->parent->branch_next;
			s = s->parent->scope;
		}
		if (t != spared)
			below = scope_signal(t);
		if (below != NULL) {
			s = below;
			t = below->first;
		} else {
			t = t->branch_next;
		}
	}
}

int
leat_scope_cancel_siblings(void)
{
	struct leat_task *self = task_self();
	struct leat_scope *s = self != NULL ? self->scope : NULL;

	if (unlikely(s == NULL))
		return leat_err(EINVAL, "cancel: %s is not a branch that a task waits for",
				self != NULL ? leat_task_name(self) : "the caller");
	if ((s->flags & SCOPE_CANCELLED) != 0)
		return -EEXIST;
	s->flags |= SCOPE_CANCELLED;
	self->branch_mark |= BRANCH_DECIDES;
	scope_walk(s, self);
	return 0;
}

int
leat_scope_cancel(struct leat_scope *s)
{
	int ret;

	if (unlikely(s == NULL))
		return -EINVAL;
	/* Check this first: in an ended scope s->parent may have been freed. */
	if ((s->flags & SCOPE_ENDED) != 0)
		return -ESRCH;
	if (unlikely(s->parent == NULL))
		return leat_err(EPERM, "cancel a scope: no task made it");
	ret = reactor_owned(s->parent->ts->reactor, "cancel a scope");
	if (unlikely(ret < 0))
		return ret;
	/* The wait has its result already; the parent has not run since. */
	if (s->first == NULL && s->wait != NULL)
		return -ESRCH;
	if ((s->flags & SCOPE_CANCELLED) != 0)
		ret = -EEXIST;
	else
		s->flags |= SCOPE_CANCELLED | SCOPE_OUTER;
	/* Walk even if a branch has cancelled the scope: that branch has not got the signal yet. */
	scope_walk(s, NULL);
	return ret;
}

int
leat_task_cancel(struct leat_task *task)
{
	int ret;

	if (unlikely(task == NULL))
		return -EINVAL;
	ret = reactor_owned(task->ts->reactor, "cancel a task");
	if (unlikely(ret < 0))
		return ret;
	if (task->state == LEAT_TASK_FREE || task->state == LEAT_TASK_DONE)
		return -ESRCH;
	return task_cancel(task);
}

bool
leat_task_cancelled(void)
{
	const struct leat_task *self = task_self();

	return self != NULL && (self->cancel & TASK_CANCELLED) != 0;
}

void
leat_task_mask(struct leat_task_mask_state *mask)
{
	struct leat_task *self = task_self();

	mask->deadline = LEAT_TASK_NO_DEADLINE;
	mask->masked = false;
	if (self == NULL)
		return;
	mask->deadline = self->deadline;
	mask->masked = self->masked != 0;
	self->deadline = LEAT_TASK_NO_DEADLINE;
	self->masked = 1;
}

void
leat_task_unmask(const struct leat_task_mask_state *mask)
{
	struct leat_task *self = task_self();

	if (self == NULL)
		return;
	self->deadline = mask->deadline;
	self->masked = mask->masked;
}

struct leat_task_within
leat_task_within_begin(uint64_t us)
{
	struct leat_task_within w = { .outer = leat_task_deadline() };

	w.when = RTE_MIN(leat_time_add(leat_now(), leat_us_to_cycles(us)), w.outer);
	leat_task_deadline_set(w.when);
	return w;
}

void
leat_task_within_end(const struct leat_task_within *w)
{
	leat_task_deadline_set(w->outer);
}

int
leat_task_within_result(const struct leat_task_within *w, int ret)
{
	/*
	 * The deadline has cancelled a branch, and the expression passes on the branch's
	 * -ECANCELED: the calling task itself was not cancelled.
	 */
	if (ret == -ECANCELED && !leat_task_cancelled() && leat_now() >= w->when)
		return -ETIMEDOUT;
	return ret;
}
