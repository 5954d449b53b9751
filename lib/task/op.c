/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting for ops.
 *
 *     task                                   the endpoint's poller
 *     leat_ep_post()          op in flight
 *     leat_task_op_wait(): user = the wait, odd
 *     parks                                  op comes back, its user is odd:
 *                                              user = NULL, count down left
 *     runs again        <------------------    left is 0: wake
 *
 * An op that comes back before a task waits for it wakes nothing. Its state is LEAT_OP_IDLE then,
 * so a later wait ends at once. While no task waits, the application may keep a pointer in user:
 * the lowest bit, set for waits only, tells the two apart.
 */

#include <errno.h>
#include <stdio.h>

#include <leat_error.h>

#include "leat_task_op.h"
#include "task_pvt.h"

struct op_wait {
	struct task_wait w;
	struct leat_ep *ep;
	struct leat_op **ops;
	uint16_t n;
	int left; /* ops that must still come back before the task continues */
};

static inline void *
wait_to_user(struct op_wait *o)
{
	return (void *)((uintptr_t)o | 1);
}

static inline struct op_wait *
user_to_wait(const struct leat_op *op)
{
	uintptr_t user = (uintptr_t)op->user;

	return user & 1 ? (struct op_wait *)(user - 1) : NULL;
}

static inline bool
in_flight(const struct leat_op *op)
{
	return op->state != LEAT_OP_IDLE;
}

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	uint16_t i;

	(void)arg;
	(void)ep;
	(void)now;
	for (i = 0; i < n; i++) {
		struct op_wait *o = user_to_wait(ops[i]);

		if (o == NULL)
			continue;
		ops[i]->user = NULL;
		if (--o->left == 0)
			task_wake(&o->w, 0);
	}
}

struct leat_poller *
leat_tasks_ep_add(struct leat_tasks *ts, struct leat_ep *ep, leat_ep_event_fn event_fn, void *arg)
{
	if (ts == NULL || ep == NULL) {
		leat_err(EINVAL, "poll an endpoint for tasks: no %s",
			 ts == NULL ? "tasks" : "endpoint");
		return NULL;
	}
	return leat_reactor_ep_add(ts->reactor, ep, on_ops, event_fn, arg);
}

static int
op_cancel(struct task_wait *w)
{
	const struct op_wait *o = container_of(w, struct op_wait, w);
	int ret = -EOPNOTSUPP;
	uint16_t i;

	for (i = 0; i < o->n; i++)
		if (in_flight(o->ops[i]) && leat_op_cancel(o->ep, o->ops[i]) == 0)
			ret = 0;
	return ret;
}

static void
op_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct op_wait *o = container_of(w, const struct op_wait, w);

	snprintf(text, len, "%s of %s, %d of %u to come", leat_op_type_name(o->ops[0]->type),
		 leat_ep_name(o->ep), o->left, o->n);
}

static const struct task_wait_type op_type = {
	.name = "op",
	.cancel = op_cancel,
	.describe = op_describe,
};

/* Wait until o->left of the ops in flight have come back. @return 0, -ETIMEDOUT, -EPERM, -EBUSY */
static int
wait_for(struct op_wait *o)
{
	int may = task_may_wait("wait for ops");
	uint16_t i;

	if (may == -EPERM)
		return may;
	for (i = 0; i < o->n; i++)
		if (in_flight(o->ops[i]) && user_to_wait(o->ops[i]) != NULL)
			return leat_err(EBUSY, "wait for ops: task %s waits for one of them",
					leat_task_name(user_to_wait(o->ops[i])->w.task));
	task_wait_init(&o->w, &op_type);
	for (i = 0; i < o->n; i++)
		if (in_flight(o->ops[i]))
			o->ops[i]->user = wait_to_user(o);
	/* A cancelled task must wait as well, since its ops are in flight: recall them first. */
	if (may < 0)
		(void)op_cancel(&o->w);
	(void)task_park(&o->w);
	for (i = 0; i < o->n; i++)
		if (user_to_wait(o->ops[i]) == o)
			o->ops[i]->user = NULL;
	return may == -ETIMEDOUT || o->w.late ? -ETIMEDOUT : 0;
}

/* Get the status of the first failed op; why < 0 replaces -ECANCELED. */
static int
first_failure(struct leat_op **ops, uint16_t n, int why)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		if (ops[i]->status < 0)
			return ops[i]->status == -ECANCELED && why < 0 ? why : ops[i]->status;
	return 0;
}

int
leat_task_op_wait_all(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct op_wait o = { .ep = ep, .ops = ops, .n = n };
	int ret = 0;
	uint16_t i;

	for (i = 0; i < n; i++)
		o.left += in_flight(ops[i]);
	if (o.left > 0)
		ret = wait_for(&o);
	if (ret < 0 && ret != -ETIMEDOUT)
		return ret;
	return first_failure(ops, n, ret);
}

int
leat_task_op_wait(struct leat_ep *ep, struct leat_op *op)
{
	return leat_task_op_wait_all(ep, &op, 1);
}

static int
first_idle(struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		if (!in_flight(ops[i]))
			return i;
	return -EAGAIN;
}

int
leat_task_op_wait_any(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct op_wait o = { .ep = ep, .ops = ops, .n = n, .left = 1 };
	int ret, i;

	if (n == 0)
		return leat_err(EINVAL, "wait for any of no ops");
	i = first_idle(ops, n);
	if (i >= 0)
		return i;
	ret = wait_for(&o);
	return ret < 0 && ret != -ETIMEDOUT ? ret : first_idle(ops, n);
}

/*
 * Post ops, yielding while the endpoint is full. @return number of ops posted; *why: the reason, if
 * they are fewer than n
 */
static uint16_t
post(struct leat_ep *ep, struct leat_op **ops, uint16_t n, int *why)
{
	uint16_t done = 0;

	for (*why = task_may_wait("run ops"); *why == 0; *why = leat_task_yield()) {
		done += leat_ep_post(ep, ops + done, (uint16_t)(n - done));
		if (done == n)
			return done;
		*why = -rte_errno;
		if (*why != -EAGAIN)
			return done;
	}
	return done;
}

int
leat_task_op_run(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t i, posted;
	int why, ret;

	posted = post(ep, ops, n, &why);
	ret = leat_task_op_wait_all(ep, ops, posted);
	if (posted == n)
		return ret;
	if (why == -EPERM)
		return why;
	/* Do not touch an op that was in flight before this call: it belongs to the device. */
	for (i = posted; i < n; i++)
		if (!in_flight(ops[i]))
			ops[i]->status = why;
	return ret < 0 ? ret : why;
}
