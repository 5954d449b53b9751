/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A call to another reactor.
 *
 *     caller's reactor                          the other one
 *     state = POSTED, message   --------(A)-->  state: POSTED -> TAKEN: calls fn
 *     task parks                                       (it is DROPPED: does not)
 *     inbox: take all           <-------(B)---  push on the inbox, message
 *     task wakes
 *
 * A cancel is the step POSTED -> DROPPED. Either that or TAKEN is first, and the answer comes in
 * both cases: what the message points to lies on the caller's stack.
 *
 * The answer must not depend on room in the caller's ring of messages, or it could be lost: it goes
 * on a list (inbox). The message is only there to wake a reactor that sleeps; when the ring is full
 * that is awake anyway, and looks at the list in its next turn.
 */

#include <errno.h>
#include <stdio.h>

#include <leat_error.h>

#include "leat_task_call.h"
#include "task_pvt.h"

enum { CALL_POSTED, CALL_TAKEN, CALL_DROPPED };

struct task_call {
	struct task_wait w;
	struct task_call *next; /* in the inbox */
	struct leat_reactor *to;
	int (*fn)(void *arg);
	void *arg;
	int ret;
	uint32_t state;
};

static void
wake_up(void *arg)
{
	/* The inbox is looked at in the turn that follows. */
	(void)arg;
}

/* On the other reactor. */
static void
answer(struct task_call *c)
{
	struct leat_tasks *ts = c->w.task->ts;
	struct task_call *head = RLX_LOAD(ts->inbox);

	/* From the push on the task, its reactor and its tasks may be gone, but for this. */
	__atomic_fetch_add(&ts->answering, 1, __ATOMIC_RELAXED);
	do {
		c->next = head;
		/* Release (B): what fn did. */
	} while (!__atomic_compare_exchange_n(&ts->inbox, &head, c, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	(void)leat_reactor_call(ts->reactor, wake_up, NULL);
	/* Release: leat_tasks_destroy() comes after all of this. */
	__atomic_fetch_sub(&ts->answering, 1, __ATOMIC_RELEASE);
}

static void
on_call(void *arg)
{
	struct task_call *c = arg;
	uint32_t state = CALL_POSTED;

	/* Relaxed: leat_reactor_call() has ordered what is before it (A). */
	if (__atomic_compare_exchange_n(&c->state, &state, CALL_TAKEN, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		c->ret = c->fn(c->arg);
	answer(c);
}

void
task_inbox_run(struct leat_tasks *ts)
{
	/* Acquire (B). */
	struct task_call *c = __atomic_exchange_n(&ts->inbox, NULL, __ATOMIC_ACQUIRE);
	struct task_call *next, *first = NULL;

	/* The newest is on top. */
	for (; c != NULL; c = next) {
		next = c->next;
		c->next = first;
		first = c;
	}
	for (c = first; c != NULL; c = next) {
		next = c->next;
		task_wake(&c->w, RLX_LOAD(c->state) == CALL_TAKEN ? 0 : -ECANCELED);
	}
}

static int
call_cancel(struct task_wait *w)
{
	struct task_call *c = container_of(w, struct task_call, w);
	uint32_t state = CALL_POSTED;

	if (__atomic_compare_exchange_n(&c->state, &state, CALL_DROPPED, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return 0;
	return -EALREADY;
}

static void
call_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct task_call *c = container_of(w, const struct task_call, w);

	snprintf(text, len, "to %s%s", leat_reactor_name(c->to),
		 RLX_LOAD(c->state) == CALL_TAKEN ? ", it has begun" : "");
}

static const struct task_wait_type call_type = {
	.name = "call",
	.cancel = call_cancel,
	.describe = call_describe,
};

int
leat_task_call(struct leat_reactor *r, int (*fn)(void *arg), void *arg, int *ret)
{
	struct task_call c = { .to = r, .fn = fn, .arg = arg, .state = CALL_POSTED };
	int err = task_may_wait("call another reactor");

	if (unlikely(err < 0))
		return err;
	if (unlikely(r == NULL || fn == NULL))
		return leat_err(EINVAL, "call another reactor: no reactor or no function");
	task_wait_init(&c.w, &call_type);
	err = leat_reactor_call(r, on_call, &c);
	if (unlikely(err < 0))
		return err;
	err = task_park(&c.w);
	if (err == 0 && ret != NULL)
		*ret = c.ret;
	return err;
}
