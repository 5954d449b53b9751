/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef SCOPE_PVT_H
#define SCOPE_PVT_H

#include "leat_scope.h"
#include "task_pvt.h"

/* leat_scope.flags. The usual scope has none, so that one test finds out all that is unusual. */
#define SCOPE_POLICY 0x03U    /* enum leat_scope_policy */
#define SCOPE_CANCELLED 0x04U /* the signal was sent: here, or from above */
#define SCOPE_OUTER 0x08U     /* by leat_scope_cancel() or from above: the wait says -ECANCELED */
#define SCOPE_ENDED 0x10U     /* it was waited for: the next branch makes it anew */
#define SCOPE_REFUSED 0x20U   /* not all branches were started: leat_scope.refused says why */
#define SCOPE_WON 0x40U	      /* there is a winner */
#define SCOPE_FAILED 0x80U    /* a branch failed */
#define SCOPE_RUN 0x100U      /* it is part of a struct scope_run */
/* The wait's result is not simply 0. */
#define SCOPE_UNUSUAL (SCOPE_POLICY | SCOPE_OUTER | SCOPE_REFUSED | SCOPE_RUN)

/* leat_task.branch_mark: the end of this branch may decide. The other bits are its number. */
#define BRANCH_DECIDES 0x80000000U

/* leat_scope_wait(), as a wait of the task that calls it. */
struct scope_wait {
	struct task_wait w;
	struct leat_scope *scope;
};

extern const struct task_wait_type scope_wait_type;

/* Give the signal to all branches, and to what is below them, that don't have it. */
void scope_walk(struct leat_scope *top, const struct leat_task *spared);

/* Start a branch: spawned on ts, by the calling task or outside of tasks. @return 0 or -errno */
int scope_branch_start(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg,
		       int *ret);
/* The calling task waits until the last branch, or a cancel while there is none, wakes it. */
int scope_park(struct leat_scope *s);

/* run.c: are there branches that are not due yet, and may still be started? */
bool scope_run_pending(const struct leat_scope *s);
/* A branch failed, and the others go on. */
void scope_run_failed(struct leat_scope *s);

static inline enum leat_scope_policy
scope_policy(const struct leat_scope *s)
{
	return (enum leat_scope_policy)(s->flags & SCOPE_POLICY);
}

/* scope_policy.c: a branch failed, or may decide: it has ended with that, and is still linked. */
void scope_branch_ended(struct leat_scope *s, struct leat_task *t, int ret);
/* What the wait for an unusual scope returns. */
int scope_result_unusual(const struct leat_scope *s);
/* The same where no branch runs when the wait begins. */
int scope_result_idle(const struct leat_scope *s);

static inline int
scope_result(const struct leat_scope *s)
{
	return likely((s->flags & SCOPE_UNUSUAL) == 0) ? 0 : scope_result_unusual(s);
}

/* No branch runs any more, and the scope is waited for. */
static inline void
scope_done(const struct leat_scope *s)
{
	int result = 0;

	if (unlikely((s->flags & SCOPE_UNUSUAL) != 0)) {
		if ((s->flags & SCOPE_RUN) != 0 && scope_run_pending(s))
			return;
		result = scope_result_unusual(s);
	}
	(void)task_wake(s->wait, result);
}

/* The signal came from above. @return false: the scope had been cancelled before */
static inline bool
scope_cancel_outer(struct leat_scope *s)
{
	if ((s->flags & SCOPE_CANCELLED) != 0)
		return false;
	s->flags |= SCOPE_CANCELLED | SCOPE_OUTER;
	/* No branch that ends would end the wait: all of them are still to be started. */
	if (unlikely(s->first == NULL))
		(void)task_wake(s->wait, scope_result(s));
	return true;
}

#endif /* SCOPE_PVT_H */
