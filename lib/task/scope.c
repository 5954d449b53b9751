/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scopes: start and end of branches, and the wait for them.
 *
 *     struct leat_scope            tasks
 *     first -------------------->  branch_next -->  branch_next --> NULL
 *     last ----------------------------------------------^
 *     parent, wait                 scope              scope
 *
 * A branch takes itself off the list when it ends; the last one ends the parent's wait. No branch
 * uses the scope after that, so the parent may return. A scope that was waited for has ended: the
 * next branch that the parent starts in it begins a new round, without the cancel or failure of the
 * round before; only the policy stays.
 */

#include <errno.h>
#include <stdio.h>

#include <leat_error.h>

#include "debug.h"
#include "scope_pvt.h"

void
leat_scope_init(struct leat_scope *s)
{
	task_debug_scope_init(s, TASK_PLACE());
	s->parent = task_self();
	s->first = NULL;
	s->last = &s->first;
	s->wait = NULL;
	s->nb_started = 0;
	s->nb_ended = 0;
	s->flags = 0;
	s->refused = 0;
}

static __rte_noinline void
scope_new_round(struct leat_scope *s)
{
	uint32_t policy = s->flags & SCOPE_POLICY;

	leat_scope_init(s);
	s->flags = policy;
}

static void
branch_link(struct leat_scope *s, struct leat_task *t)
{
	t->scope = s;
	t->branch_next = NULL;
	t->branch_prev = s->last;
	*s->last = t;
	s->last = &t->branch_next;
	t->branch_mark = s->nb_started++ & ~BRANCH_DECIDES;
}

static void
branch_unlink(struct leat_scope *s, struct leat_task *t)
{
	*t->branch_prev = t->branch_next;
	if (t->branch_next != NULL)
		t->branch_next->branch_prev = t->branch_prev;
	else
		s->last = t->branch_prev;
	t->scope = NULL;
	s->nb_ended++;
}

/*
 * Tell whether a branch of a run (run.c) or of a scope with SCOPE_REFUSED may begin. It may not if
 * the scope was cancelled, or a branch could not be started. (In other scopes each branch runs;
 * after a cancel its waits are refused.)
 */
static __rte_noinline bool
branch_begins(const struct leat_scope *s)
{
	return (s->flags & (SCOPE_REFUSED | SCOPE_CANCELLED)) == 0;
}

/* Run a branch from its start to its end, as the function of its task. */
static int
branch_main(void *arg)
{
	struct leat_task *t = task_running->current;
	struct leat_scope *s = t->scope;
	int ret = -ECANCELED;

	if (likely((s->flags & (SCOPE_REFUSED | SCOPE_RUN)) == 0 || branch_begins(s)))
		ret = t->branch_fn(arg);
	/* Test bit 31 of both: ret is a failure, or branch_mark has BRANCH_DECIDES. */
	if (unlikely(((uint32_t)ret | t->branch_mark) >> 31 != 0))
		scope_branch_ended(s, t, ret);
	if (t->branch_ret != NULL)
		*t->branch_ret = ret;
	branch_unlink(s, t);
	if (s->first == NULL && s->wait != NULL)
		scope_done(s);
	return 0;
}

/*
 * Cancel the scope after a branch could not be started: branches that have begun are cancelled,
 * except for the calling one; others never begin. This happens once per round at most, as no branch
 * is added afterwards.
 */
static __rte_noinline int
scope_refuse(struct leat_scope *s, int err)
{
	s->refused = err;
	s->flags |= SCOPE_REFUSED | SCOPE_CANCELLED;
	scope_walk(s, task_self());
	return err;
}

/*
 * Tell whether the calling task may add branches. The parent's task is read only while a branch
 * runs: else the parent may have been freed.
 */
static inline bool
may_branch(const struct leat_scope *s, const struct leat_task *self)
{
	if (self == NULL || s->parent == NULL)
		return false;
	return self == s->parent || (s->first != NULL && self->ts == s->parent->ts);
}

/* Spawn a branch and link it. @return NULL with rte_errno: it could not be spawned */
static __rte_always_inline struct leat_task *
branch_start(struct leat_scope *s, struct leat_tasks *ts, const char *name, leat_task_fn fn,
	     void *arg, int *ret)
{
	struct leat_task *t = leat_task_spawn(ts, name, branch_main, arg);

	if (unlikely(t == NULL))
		return NULL;
	t->detached = 1;
	t->branch_fn = fn;
	t->branch_ret = ret;
	branch_link(s, t);
	if (unlikely(s->flags != 0)) {
		if ((s->flags & SCOPE_CANCELLED) != 0)
			t->cancel |= TASK_CANCELLED;
		if ((s->flags & SCOPE_POLICY) != 0)
			t->branch_mark |= BRANCH_DECIDES;
	}
	return t;
}

int
scope_branch_start(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg, int *ret)
{
	struct leat_task *t = branch_start(s, s->parent->ts, name, fn, arg, ret);

	if (unlikely(t == NULL))
		return -rte_errno;
	/* Show the branch below the scope's parent, whichever task or timer has started it. */
	t->parent = s->parent->id;
	return 0;
}

int
leat_scope_branch(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg, int *ret)
{
	struct leat_task *self = task_self();
	int err;

	if (unlikely(!may_branch(s, self)))
		return leat_err(EPERM,
				"start branch %s: called by neither the scope's task nor a branch",
				name != NULL ? name : "");
	if (ret != NULL)
		*ret = -ECANCELED;
	if (unlikely((s->flags & (SCOPE_ENDED | SCOPE_REFUSED)) != 0)) {
		if ((s->flags & SCOPE_ENDED) == 0)
			return s->refused;
		scope_new_round(s);
	}
	err = self == s->parent ? task_may_wait("start a branch") : 0;
	if (unlikely(err < 0))
		return scope_refuse(s, err);
	if (unlikely(fn == NULL))
		return scope_refuse(s, leat_err(EINVAL, "start a branch: no function"));
	if (unlikely(branch_start(s, self->ts, name, fn, arg, ret) == NULL))
		return scope_refuse(s, -rte_errno);
	task_debug_hold(s->parent, TASK_DEBUG_SCOPE, s, NULL, TASK_PLACE());
	return 0;
}

static int
wait_cancel(struct task_wait *w)
{
	struct leat_scope *s = container_of(w, struct scope_wait, w)->scope;
	bool first = scope_cancel_outer(s);

	scope_walk(s, NULL);
	return first ? 0 : -EALREADY;
}

static void
wait_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct leat_scope *s = container_of(w, const struct scope_wait, w)->scope;

	snprintf(text, len, "%u branches%s", s->nb_started - s->nb_ended,
		 (s->flags & SCOPE_CANCELLED) != 0 ? ", cancelled" : "");
}

const struct task_wait_type scope_wait_type = {
	.name = "scope",
	.cancel = wait_cancel,
	.describe = wait_describe,
};

int
scope_park(struct leat_scope *s)
{
	struct scope_wait p = { .scope = s };
	int ret;

	task_wait_init(&p.w, &scope_wait_type);
	s->wait = &p.w;
	ret = task_park(&p.w);
	s->wait = NULL;
	return ret;
}

struct leat_scope *
leat_scope_block_begin(struct leat_scope *s, int *result)
{
	leat_scope_init(s);
	s->block_result = result;
	if (result != NULL)
		*result = 0;
	return s;
}

struct leat_scope *
leat_scope_block_end(struct leat_scope *s)
{
	int ret;

	/* Code in the block may already have waited for the scope. */
	if ((s->flags & SCOPE_ENDED) == 0 && s->parent != NULL) {
		ret = leat_scope_wait(s);
		if (s->block_result != NULL)
			*s->block_result = ret;
	}
	return NULL;
}

void
leat_scope_block_leave(struct leat_scope *s)
{
	/* Branches remain only if the block was left early: its regular end waits for them. */
	if (s->first != NULL)
		(void)leat_scope_cancel(s);
	(void)leat_scope_block_end(s);
}

int
leat_scope_wait(struct leat_scope *s)
{
	int ret = 0;

	if (unlikely(s->parent == NULL || s->parent != task_self()))
		return leat_err(EPERM, "wait for a scope: not in the task that made it");
	if (likely(s->first != NULL)) {
		ret = task_may_wait("wait for a scope");
		/* Still wait for the running branches; keep the error of an earlier refusal. */
		if (unlikely(ret < 0))
			(void)scope_refuse(s, (s->flags & SCOPE_REFUSED) != 0 ? s->refused : ret);
		ret = scope_park(s);
	} else if (s->flags != 0) {
		ret = scope_result_idle(s);
	}
	(void)task_debug_drop(s->parent, s);
	s->flags |= SCOPE_ENDED;
	return ret;
}
