/* SPDX-License-Identifier: BSD-3-Clause */

/* Events, as a resource: made with the public interface only. */

#include <leat_resource.h>
#include <leat_task_event.h>

struct leat_task_event_waiter {
	struct leat_resource_op op;
	struct leat_task_event *ev;
	struct leat_task_event_waiter *next;
	struct leat_task_event_waiter *prev;
};

static void
unlink_wait(struct leat_task_event_waiter *w)
{
	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		w->ev->first = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	else
		w->ev->last = w->prev;
}

static int
event_post(struct leat_resource_op *op)
{
	struct leat_task_event_waiter *w = container_of(op, struct leat_task_event_waiter, op);
	struct leat_task_event *ev = w->ev;

	if (ev->is_set)
		return leat_resource_end(op, 0);
	w->next = NULL;
	w->prev = ev->last;
	if (ev->last != NULL)
		ev->last->next = w;
	else
		ev->first = w;
	ev->last = w;
	return 0;
}

static enum leat_cancel
event_cancel(struct leat_resource_op *op)
{
	unlink_wait(container_of(op, struct leat_task_event_waiter, op));
	return LEAT_CANCEL_FREED;
}

static const struct leat_resource event_resource = {
	.name = "event",
	.post = event_post,
	.cancel = event_cancel,
};

void
leat_task_event_set(struct leat_task_event *ev)
{
	ev->is_set = true;
	while (ev->first != NULL) {
		struct leat_task_event_waiter *w = ev->first;

		unlink_wait(w);
		(void)leat_resource_end(&w->op, 0);
	}
}

int
leat_task_event_wait(struct leat_task_event *ev)
{
	struct leat_task_event_waiter w = { .ev = ev };

	return leat_resource_run(&w.op, &event_resource);
}
