/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A bounded queue between tasks.
 *
 *     putters wait -> | count items, oldest at head | -> getters wait
 *        only when it is full                   only when it is empty
 *
 * A getter that makes room appends the item of the first waiting putter, so items stay in the order
 * of the calls of put.
 */

#include <errno.h>

#include "waiters.h"

static const struct task_wait_type put_type = {
	.name = "put into queue",
	.cancel = task_waiters_cancel,
	.describe = task_waiters_describe,
};

static const struct task_wait_type get_type = {
	.name = "get from queue",
	.cancel = task_waiters_cancel,
	.describe = task_waiters_describe,
};

void
leat_task_queue_init(struct leat_task_queue *q, void **slots, uint32_t size, const char *name)
{
	q->slots = slots;
	q->size = size;
	q->head = 0;
	q->count = 0;
	q->closed = false;
	q->name = name;
	task_waiters_init(&q->putters);
	task_waiters_init(&q->getters);
}

static void
append(struct leat_task_queue *q, void *item)
{
	uint64_t i = (uint64_t)q->head + q->count;

	q->slots[i < q->size ? i : i - q->size] = item;
	q->count++;
}

int
leat_task_queue_tryput(struct leat_task_queue *q, void *item)
{
	struct task_waiter *e;

	if (unlikely(q->closed))
		return -EPIPE;
	e = task_waiters_take(&q->getters);
	if (e != NULL) {
		e->item = item;
		task_wake(&e->w, 0);
		return 0;
	}
	if (q->count == q->size)
		return -EAGAIN;
	append(q, item);
	return 0;
}

int
leat_task_queue_put(struct leat_task_queue *q, void *item)
{
	struct task_waiter e = { .item = item };
	int ret = task_may_wait("put into a queue");

	if (unlikely(ret < 0))
		return ret;
	ret = leat_task_queue_tryput(q, item);
	if (likely(ret != -EAGAIN))
		return ret;
	return task_waiters_wait(&q->putters, &e, &put_type, q->name);
}

int
leat_task_queue_tryget(struct leat_task_queue *q, void **item)
{
	struct task_waiter *e;

	if (q->count == 0)
		return q->closed ? -EPIPE : -EAGAIN;
	*item = q->slots[q->head];
	q->head = q->head + 1 < q->size ? q->head + 1 : 0;
	q->count--;
	e = task_waiters_take(&q->putters);
	if (e != NULL) {
		append(q, e->item);
		task_wake(&e->w, 0);
	}
	return 0;
}

int
leat_task_queue_get(struct leat_task_queue *q, void **item)
{
	struct task_waiter e;
	int ret = task_may_wait("get from a queue");

	if (unlikely(ret < 0))
		return ret;
	ret = leat_task_queue_tryget(q, item);
	if (likely(ret != -EAGAIN))
		return ret;
	ret = task_waiters_wait(&q->getters, &e, &get_type, q->name);
	if (ret == 0)
		*item = e.item;
	return ret;
}

void
leat_task_queue_close(struct leat_task_queue *q)
{
	struct task_waiter *e;

	q->closed = true;
	while ((e = task_waiters_take(&q->putters)) != NULL)
		task_wake(&e->w, -EPIPE);
	while ((e = task_waiters_take(&q->getters)) != NULL)
		task_wake(&e->w, -EPIPE);
}
