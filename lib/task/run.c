/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An array of functions, run as the branches of a scope of its own.
 *
 *     branch      b[0]     b[1]     b[2]     b[3]
 *                 started  started  |        later
 *                                   next: the timer waits for its time
 *
 * Branches start in the order of the array, so that a branch's number in the scope is its index. A
 * delayed branch becomes a task only at its time: one timer waits for the next of them. While
 * branches are pending (not yet started), the end of the last running branch does not end the wait.
 * After a cancel or a decision no branch is pending.
 */

#include <errno.h>

#include <leat_error.h>
#include <leat_timer.h>

#include "leat_task_race.h"
#include "scope_pvt.h"

/* State of a run, on the stack of the calling task. */
struct scope_run {
	struct leat_scope s;
	struct leat_timer timer;
	struct leat_task_branch *b;
	unsigned int n;
	unsigned int next; /* first branch that was not started */
	uint64_t begin;	   /* time of the call, cycles of leat_now(); 0: all start at once */
};

bool
scope_run_pending(const struct leat_scope *s)
{
	const struct scope_run *run = container_of(s, const struct scope_run, s);

	return run->next < run->n && (s->flags & SCOPE_CANCELLED) == 0;
}

/*
 * Record a branch that could not be started. A race goes on, as if the branch had failed; under
 * each other policy all branches are cancelled.
 */
static __rte_noinline void
run_refused(struct scope_run *run, struct leat_task_branch *b, int err)
{
	struct leat_scope *s = &run->s;

	b->ret = err;
	s->nb_started++;
	s->nb_ended++;
	if (scope_policy(s) != LEAT_SCOPE_FIRST_SUCCESS) {
		s->refused = err;
		s->flags |= SCOPE_REFUSED | SCOPE_CANCELLED;
		scope_walk(s, NULL);
	} else if ((s->flags & SCOPE_FAILED) == 0) {
		s->failure = err;
		s->flags |= SCOPE_FAILED;
	}
}

/* Start the branches that are due; hurry: start the next one before its time. */
static void
run_start(struct scope_run *run, uint64_t now, bool hurry)
{
	while (scope_run_pending(&run->s)) {
		struct leat_task_branch *b = &run->b[run->next];
		uint64_t when = 0;
		int err;

		if (unlikely(b->after_us != 0))
			when = leat_time_add(run->begin, leat_us_to_cycles(b->after_us));
		if (now < when && !hurry) {
			leat_timer_start_at(run->s.parent->ts->reactor, &run->timer, when);
			return;
		}
		run->next++;
		err = scope_branch_start(&run->s, b->name, b->fn, b->arg, &b->ret);
		if (unlikely(err < 0))
			run_refused(run, b, err);
		hurry = err < 0;
	}
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct scope_run *run = arg;

	(void)timer;
	run_start(run, now, false);
	if (run->s.first == NULL)
		scope_done(&run->s);
}

void
scope_run_failed(struct leat_scope *s)
{
	struct scope_run *run = container_of(s, struct scope_run, s);

	if (scope_run_pending(s))
		run_start(run, leat_now(), true);
}

static int
run_check(const struct leat_task_branch *b, unsigned int n)
{
	uint64_t after_us = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (unlikely(b[i].fn == NULL))
			return leat_err(EINVAL, "run branches: branch %u has no function", i);
		if (unlikely(b[i].after_us < after_us))
			return leat_err(EINVAL,
					"run branches: branch %u starts after %" PRIu64
					" us, the one before it after %" PRIu64,
					i, b[i].after_us, after_us);
		after_us = b[i].after_us;
	}
	return task_may_wait("run branches");
}

int
leat_task_run(enum leat_scope_policy policy, struct leat_task_branch *b, unsigned int n)
{
	struct scope_run run;
	unsigned int i;
	int ret;

	for (i = 0; i < n; i++)
		b[i].ret = -ECANCELED;
	ret = run_check(b, n);
	if (unlikely(ret < 0))
		return ret;
	leat_scope_init(&run.s);
	ret = leat_scope_policy_set(&run.s, policy);
	if (unlikely(ret < 0))
		return ret;
	run.s.flags |= SCOPE_RUN;
	run.b = b;
	run.n = n;
	run.next = 0;
	run.begin = n > 0 && b[n - 1].after_us != 0 ? leat_now() : 0;
	leat_timer_init(&run.timer, on_timer, &run);
	run_start(&run, run.begin, false);
	if (likely(run.s.first != NULL) || scope_run_pending(&run.s))
		ret = scope_park(&run.s);
	else
		ret = scope_result(&run.s);
	leat_timer_stop(&run.timer);
	return ret;
}

int
leat_task_race(struct leat_task_branch *b, unsigned int n)
{
	return leat_task_run(LEAT_SCOPE_FIRST_SUCCESS, b, n);
}

int
leat_task_all(struct leat_task_branch *b, unsigned int n)
{
	return leat_task_run(LEAT_SCOPE_ALL, b, n);
}
