/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A call to another reactor.
 *
 *     caller's reactor                          called reactor
 *     state = POSTED, message   --------(A)-->  state: POSTED -> TAKEN: call fn
 *     task parks                                       (ABANDONED: free the call)
 *     inbox: take all           <-------(B)---  push on the inbox, wake the reactor
 *     task wakes
 *
 * A cancel is the step POSTED -> ABANDONED. If it comes before TAKEN, the task continues at once
 * and the message owns the call. So struct task_call is not on the task's stack: the called reactor
 * frees it, and must touch no other memory of the caller. If TAKEN comes first, the task waits for
 * the answer, since fn uses the memory that arg points to.
 *
 * A reactor that has stopped refuses the message. A reactor that is stopping runs all messages that
 * it has accepted before it leaves its loop. Only a reactor that is destroyed without a stop drops
 * the message; the state is then REFUSED.
 *
 * The answer goes on a list (inbox), not into the caller's ring of messages: there it could be lost
 * when the ring is full or closed.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_string_fns.h>

#include <leat_error.h>

#include "leat_task_call.h"
#include "task_pvt.h"

enum { CALL_POSTED, CALL_TAKEN, CALL_ABANDONED, CALL_REFUSED };

/* The wait of the calling task, on that task's stack. */
struct call_wait {
	struct task_wait w;
	struct task_call *call; /* NULL: abandoned */
	/* name of the called reactor, which may be destroyed before this task continues */
	char to[LEAT_REACTOR_NAME_MAX];
};

/* A call, from malloc(3), since the side that uses it last frees it. */
struct task_call {
	struct task_call *next; /* next in the inbox, or in the list of free calls */
	struct leat_tasks *ts;	/* tasks of the caller's reactor; invalid once ABANDONED */
	struct call_wait *wait; /* the caller's wait; invalid once ABANDONED */
	int (*fn)(void *arg);
	void *arg;
	int ret;
	uint32_t state;
};

static struct task_call *
call_new(struct leat_tasks *ts)
{
	struct task_call *c = ts->calls;

	if (unlikely(c == NULL))
		return malloc(sizeof(*c));
	ts->calls = c->next;
	return c;
}

static void
call_put(struct leat_tasks *ts, struct task_call *c)
{
	c->next = ts->calls;
	ts->calls = c;
}

void
task_calls_free(struct leat_tasks *ts)
{
	struct task_call *c;

	while ((c = ts->calls) != NULL) {
		ts->calls = c->next;
		free(c);
	}
}

/*
 * Change the state from POSTED to TAKEN, ABANDONED or REFUSED. @return false: the other side was
 * first. Release and acquire: all uses of the call by one side happen before the other side frees
 * it.
 */
static bool
call_leave_posted(struct task_call *c, uint32_t to)
{
	uint32_t state = CALL_POSTED;

	return __atomic_compare_exchange_n(&c->state, &state, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Send the answer. Runs on the called reactor, or on the thread that destroys that reactor. */
static void
answer(struct task_call *c)
{
	struct leat_tasks *ts = c->ts;
	struct task_call *head = RLX_LOAD(ts->inbox);

	/*
	 * Once c is pushed, the calling task may end, and ts and its reactor may be destroyed.
	 * But leat_tasks_destroy() waits until nb_answering is 0, so ts exists up to the decrement.
	 */
	__atomic_fetch_add(&ts->nb_answering, 1, __ATOMIC_RELAXED);
	do {
		c->next = head;
		/* Release, (B) in the drawing: publishes all writes of fn. */
	} while (!__atomic_compare_exchange_n(&ts->inbox, &head, c, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	leat_reactor_wake(ts->reactor);
	/* Release: leat_tasks_destroy() frees ts only after these accesses. */
	__atomic_fetch_sub(&ts->nb_answering, 1, __ATOMIC_RELEASE);
}

static void
on_call(void *arg)
{
	struct task_call *c = arg;

	if (!call_leave_posted(c, CALL_TAKEN)) {
		free(c);
		return;
	}
	c->ret = c->fn(c->arg);
	answer(c);
}

/* Refuse a call whose reactor is being destroyed. Runs on any thread. */
static void
on_drop(void *arg)
{
	struct task_call *c = arg;

	if (call_leave_posted(c, CALL_REFUSED))
		answer(c);
	else
		free(c);
}

void
task_inbox_run(struct leat_tasks *ts)
{
	/* Acquire, (B) in the drawing: the tasks see all writes of fn. */
	struct task_call *c = __atomic_exchange_n(&ts->inbox, NULL, __ATOMIC_ACQUIRE);
	struct task_call *next, *first = NULL;

	/* The newest call is first: reverse the list. */
	for (; c != NULL; c = next) {
		next = c->next;
		c->next = first;
		first = c;
	}
	for (c = first; c != NULL; c = next) {
		next = c->next;
		task_wake(&c->wait->w, RLX_LOAD(c->state) == CALL_TAKEN ? 0 : -ESHUTDOWN);
	}
}

static int
call_cancel(struct task_wait *w)
{
	struct call_wait *cw = container_of(w, struct call_wait, w);

	if (!call_leave_posted(cw->call, CALL_ABANDONED))
		return -EALREADY;
	cw->call = NULL;
	task_wake(w, -ECANCELED);
	return 0;
}

static void
call_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct call_wait *cw = container_of(w, const struct call_wait, w);

	/* A cancel has abandoned the call, and the task has not run since then. */
	if (cw->call == NULL)
		return;
	snprintf(text, len, "to %s%s", cw->to,
		 RLX_LOAD(cw->call->state) == CALL_TAKEN ? ", it has begun" : "");
}

static const struct task_wait_type call_type = {
	.name = "call",
	.cancel = call_cancel,
	.describe = call_describe,
};

int
leat_task_call(struct leat_reactor *r, int (*fn)(void *arg), void *arg, int *ret)
{
	struct leat_tasks *ts = task_running;
	struct call_wait cw;
	struct task_call *c;
	int err = task_may_wait("call another reactor");

	if (unlikely(err < 0))
		return err;
	if (unlikely(r == NULL || fn == NULL))
		return leat_err(EINVAL, "call another reactor: no reactor or no function");
	c = call_new(ts);
	if (unlikely(c == NULL))
		return leat_err(ENOMEM, "call %s: no memory", leat_reactor_name(r));
	*c = (struct task_call){ .ts = ts, .wait = &cw, .fn = fn, .arg = arg };
	c->state = CALL_POSTED;
	task_wait_init(&cw.w, &call_type);
	cw.call = c;
	(void)rte_strscpy(cw.to, leat_reactor_name(r), sizeof(cw.to));
	err = leat_reactor_call_drop(r, on_call, on_drop, c);
	if (likely(err == 0))
		err = task_park(&cw.w);
	/* The call was abandoned: its message, which may still be queued, will free it. */
	if (unlikely(cw.call == NULL))
		return err;
	if (err == 0 && ret != NULL)
		*ret = c->ret;
	call_put(ts, c);
	return err;
}
