/* SPDX-License-Identifier: BSD-3-Clause */

/* The public interface for waits: an operation of a resource is a wait of a task. */

#include <errno.h>

#include <leat_error.h>

#include "leat_resource.h"
#include "debug.h"

/* The private part of an operation, on the stack of leat_resource_run(). */
struct resource_wait {
	struct task_wait w;
	struct task_wait_type type; /* with the resource's name */
	struct leat_resource_op *op;
	bool asked;    /* the resource's cancel was called */
	bool promised; /* that function returned FREED or WILL: the result is -ECANCELED */
};

static enum leat_cancel
ask(struct resource_wait *rw)
{
	const struct leat_resource *res = rw->op->resource;
	enum leat_cancel said = LEAT_CANCEL_LATE;

	rw->asked = true;
	if (res->cancel != NULL)
		said = res->cancel(rw->op);
	rw->promised = said == LEAT_CANCEL_FREED || said == LEAT_CANCEL_WILL;
	if (said == LEAT_CANCEL_FREED)
		(void)leat_resource_end(rw->op, -ECANCELED);
	return said;
}

static int
resource_cancel(struct task_wait *w)
{
	struct resource_wait *rw = container_of(w, struct resource_wait, w);

	if (rw->asked)
		return -EALREADY;
	return ask(rw) == LEAT_CANCEL_LATE ? -EALREADY : 0;
}

static void
resource_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct leat_resource_op *op = container_of(w, const struct resource_wait, w)->op;

	op->resource->describe(op, text, len);
}

int
leat_resource_run(struct leat_resource_op *op, const struct leat_resource *resource)
{
	struct resource_wait rw;
	int ret;

	ret = task_may_wait(resource->name);
	if (unlikely(ret < 0))
		return ret;
	rw.type.name = resource->name;
	rw.type.cancel = resource_cancel;
	rw.type.describe = resource->describe != NULL ? resource_describe : NULL;
	task_wait_init(&rw.w, &rw.type);
	rw.op = op;
	rw.asked = false;
	rw.promised = false;
	op->resource = resource;
	op->wait = &rw;
	ret = resource->post(op);
	if (likely(ret >= 0))
		ret = task_park(&rw.w);
	op->wait = NULL;
	return ret;
}

int
leat_resource_end(struct leat_resource_op *op, int result)
{
	struct resource_wait *rw = op->wait;

	if (unlikely(rw == NULL))
		return -EALREADY;
	task_debug_thread(rw->w.task->ts, op->resource->name, TASK_PLACE());
	op->wait = NULL;
	(void)task_wake(&rw->w, rw->promised ? -ECANCELED : result);
	return 0;
}

int
leat_resource_cancel(struct leat_resource_op *op)
{
	struct resource_wait *rw = op->wait;

	if (rw == NULL)
		return -ENOENT;
	if (rw->asked)
		return -EALREADY;
	switch (ask(rw)) {
	case LEAT_CANCEL_FREED:
	case LEAT_CANCEL_WILL:
		return 1;
	case LEAT_CANCEL_ASKED:
		return -EINPROGRESS;
	case LEAT_CANCEL_LATE:
		break;
	}
	return 0;
}
