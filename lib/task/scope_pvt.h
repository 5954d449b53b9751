/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef SCOPE_PVT_H
#define SCOPE_PVT_H

#include "leat_scope.h"
#include "task_pvt.h"

/*
 * Bits of leat_scope.flags. All are 0 while a scope without policy, cancel or failure runs, so one
 * test covers all special cases.
 */
#define SCOPE_POLICY 0x03U    /* enum leat_scope_policy */
#define SCOPE_CANCELLED 0x04U /* the signal was sent: to this scope, or to an enclosing one */
#define SCOPE_OUTER 0x08U     /* signal from outside or above: the wait returns -ECANCELED */
#define SCOPE_ENDED 0x10U     /* the scope was waited for: the next branch begins a new round */
#define SCOPE_REFUSED 0x20U   /* a branch could not be started: leat_scope.refused says why */
#define SCOPE_WON 0x40U	      /* a branch has decided, see leat_scope_winner() */
#define SCOPE_FAILED 0x80U    /* a branch failed */
#define SCOPE_RUN 0x100U      /* the scope is part of a struct scope_run */
/* With one of these flags leat_scope_wait() may return a value other than 0. */
#define SCOPE_UNUSUAL (SCOPE_POLICY | SCOPE_OUTER | SCOPE_REFUSED | SCOPE_RUN)

/*
 * Bit of leat_task.branch_mark: the end of this branch may decide (leat_scope_winner()). The other
 * bits are the branch's number, modulo 2^31.
 */
#define BRANCH_DECIDES 0x80000000U

/* The wait of the parent in leat_scope_wait(). */
struct scope_wait {
	struct task_wait w;
	struct leat_scope *scope;
};

extern const struct task_wait_type scope_wait_type;

/*
 * Send the signal of a cancel to all branches of top except spared, and to all branches below them.
 * Branches that have it already do not get it again.
 */
void scope_walk(struct leat_scope *top, const struct leat_task *spared);

/* Start a branch on the parent's reactor. May be called outside of tasks. @return 0 or -errno */
int scope_branch_start(struct leat_scope *s, const char *name, leat_task_fn fn, void *arg,
		       int *ret);
/*
 * Park the calling task until the last branch of s has ended and no delayed branch is to start, or
 * until s is cancelled while no branch runs.
 */
int scope_park(struct leat_scope *s);

/* run.c: tell whether delayed branches may still be started */
bool scope_run_pending(const struct leat_scope *s);
/* Start the next delayed branch, after a failure that does not end the race. */
void scope_run_failed(struct leat_scope *s);

static inline enum leat_scope_policy
scope_policy(const struct leat_scope *s)
{
	return (enum leat_scope_policy)(s->flags & SCOPE_POLICY);
}

/* scope_policy.c: record the end of a branch that failed or may decide, before it is unlinked */
void scope_branch_ended(struct leat_scope *s, struct leat_task *t, int ret);
/* Get the result of the wait for a scope with a flag of SCOPE_UNUSUAL. */
int scope_result_unusual(const struct leat_scope *s);
/* Get the result of a wait that begins when no branch runs. */
int scope_result_idle(const struct leat_scope *s);

static inline int
scope_result(const struct leat_scope *s)
{
	return likely((s->flags & SCOPE_UNUSUAL) == 0) ? 0 : scope_result_unusual(s);
}

/* The last running branch has ended: wake the waiting parent if no delayed branch is to start. */
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

/* Mark a scope whose parent waits as cancelled from above. @return false: it already was */
static inline bool
scope_cancel_outer(struct leat_scope *s)
{
	if ((s->flags & SCOPE_CANCELLED) != 0)
		return false;
	s->flags |= SCOPE_CANCELLED | SCOPE_OUTER;
	/* No branch runs that could end the wait, and no delayed branch starts any more. */
	if (unlikely(s->first == NULL))
		(void)task_wake(s->wait, scope_result(s));
	return true;
}

#endif /* SCOPE_PVT_H */
