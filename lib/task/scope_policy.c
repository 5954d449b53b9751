/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Policies: what the end of a branch decides, and the result of the wait.
 *
 *     policy         decided by                   the others  winner      the wait returns
 *     BRANCHES       leat_scope_cancel_siblings() cancelled   its caller  0
 *     ALL            -                            go on       none        0, or the first failure
 *     FIRST_SUCCESS  a branch that returns >= 0   cancelled   that branch its number
 *     FIRST_FAILURE  a branch that fails          cancelled   that branch its return value
 *
 * A scope of BRANCHES pays nothing for policies: its branches call scope_branch_ended() only when
 * they have failed, or have cancelled the others.
 */

#include <errno.h>
#include <string.h>

#include <leat_error.h>

#include "scope_pvt.h"

static void
failed(struct leat_scope *s, const struct leat_task *t, int ret)
{
	if ((s->flags & SCOPE_FAILED) != 0)
		return;
	s->flags |= SCOPE_FAILED;
	s->failure = ret;
	s->failed_fn = t->branch_fn;
	memcpy(s->failed, t->name, sizeof(s->failed));
}

static void
won(struct leat_scope *s, const struct leat_task *t, int ret)
{
	s->flags |= SCOPE_WON;
	s->winner = t->branch_mark & ~BRANCH_DECIDES;
	s->won_ret = ret;
	s->won_fn = t->branch_fn;
	/*
	 * No copy of the name here: it would slow down each cancel, as the load waits for the
	 * single-byte stores of a recent spawn.
	 */
	s->won[0] = '\0';
}

/* Record the end of a branch in a scope with a policy: the branch may decide. */
static __rte_noinline void
end_decides(struct leat_scope *s, struct leat_task *t, int ret)
{
	/* -ECANCELED is a failure, unless the branch was cancelled together with its scope. */
	bool fails = ret < 0 && (ret != -ECANCELED || (t->cancel & TASK_CANCELLED) == 0 ||
				 (s->flags & SCOPE_CANCELLED) == 0);
	enum leat_scope_policy policy = scope_policy(s);

	if (fails)
		failed(s, t, ret);
	if ((s->flags & SCOPE_WON) != 0)
		return;
	/* After a cancel a success still decides, a failure does not. */
	if (!(policy == LEAT_SCOPE_FIRST_SUCCESS && ret >= 0) &&
	    !(policy == LEAT_SCOPE_FIRST_FAILURE && fails && (s->flags & SCOPE_CANCELLED) == 0)) {
		if (fails && policy == LEAT_SCOPE_FIRST_SUCCESS && (s->flags & SCOPE_RUN) != 0)
			scope_run_failed(s);
		return;
	}
	won(s, t, ret);
	/* In a run (leat_task_race.h) no call returns the winner's name. */
	if ((s->flags & SCOPE_RUN) == 0)
		memcpy(s->won, t->name, sizeof(s->won));
	if ((s->flags & SCOPE_CANCELLED) == 0) {
		s->flags |= SCOPE_CANCELLED;
		scope_walk(s, t);
	}
}

void
scope_branch_ended(struct leat_scope *s, struct leat_task *t, int ret)
{
	if (unlikely((s->flags & SCOPE_POLICY) != 0)) {
		end_decides(s, t, ret);
		return;
	}
	/* -ECANCELED of a branch that was cancelled is no failure. */
	if (ret < 0 && (ret != -ECANCELED || (t->cancel & TASK_CANCELLED) == 0))
		failed(s, t, ret);
	if ((t->branch_mark & BRANCH_DECIDES) != 0)
		won(s, t, ret);
}

int
scope_result_unusual(const struct leat_scope *s)
{
	bool success = scope_policy(s) == LEAT_SCOPE_FIRST_SUCCESS;

	/* A success counts, also when a cancel came after it or did not stop it. */
	if (success && (s->flags & SCOPE_WON) != 0)
		return (int)s->winner;
	if ((s->flags & SCOPE_REFUSED) != 0)
		return s->refused;
	if ((s->flags & SCOPE_OUTER) != 0)
		return -ECANCELED;
	if (scope_policy(s) != LEAT_SCOPE_BRANCHES && (s->flags & SCOPE_FAILED) != 0)
		return s->failure;
	if (!success)
		return 0;
	return s->nb_started == 0 ? -ENOENT : -ECANCELED;
}

int
scope_result_idle(const struct leat_scope *s)
{
	if ((s->flags & SCOPE_ENDED) == 0)
		return scope_result(s);
	return scope_policy(s) == LEAT_SCOPE_FIRST_SUCCESS ? -ENOENT : 0;
}

int
leat_scope_policy_set(struct leat_scope *s, enum leat_scope_policy policy)
{
	if ((unsigned int)policy > LEAT_SCOPE_FIRST_FAILURE)
		return leat_err(EINVAL, "policy of a scope: there is no policy %u",
				(unsigned int)policy);
	if ((s->flags & SCOPE_ENDED) == 0 && s->nb_started != 0)
		return leat_err(EBUSY, "policy of a scope: it has branches");
	s->flags = (s->flags & ~SCOPE_POLICY) | (uint32_t)policy;
	return 0;
}

/* Get a branch's name; without one, the symbol of its function, which is looked up only now. */
static const char *
branch_name(const char *name, leat_task_fn fn)
{
	return name[0] != '\0' ? name : task_function_name(fn);
}

int
leat_scope_failure(const struct leat_scope *s, const char **name)
{
	bool failed = (s->flags & SCOPE_FAILED) != 0;

	if (name != NULL)
		*name = failed ? branch_name(s->failed, s->failed_fn) : "";
	return failed ? s->failure : 0;
}

int
leat_scope_winner(const struct leat_scope *s, const char **name, int *ret)
{
	bool won = (s->flags & SCOPE_WON) != 0;

	if (name != NULL)
		*name = won ? branch_name(s->won, s->won_fn) : "";
	if (!won)
		return -ENOENT;
	if (ret != NULL)
		*ret = s->won_ret;
	return (int)s->winner;
}
