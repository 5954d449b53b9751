/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One op, posted and waited for in one call.
 *
 *     call                              when                      time
 *     | deadline = begin + timeout      | task's deadline:        |
 *     |  room? yield ... post ... wait  |  leat_op_cancel()       |
 *     |                                 | op's deadline: ends an op that can't be recalled
 *
 * The deadline is computed once, at the start, and holds for all waits of the call. The op is on no
 * queue: ops posted before it, by other tasks with a later deadline or none, must not hold it back.
 */

#include <errno.h>

#include <leat_error.h>

#include "leat_task_op.h"
#include "task_pvt.h"

static int
run_one(struct leat_ep *ep, struct leat_op *op, uint64_t timeout_us)
{
	struct leat_op *ops[] = { op };
	uint64_t outer, when;
	int ret;

	op->queue = LEAT_QUEUE_NONE;
	if (timeout_us == LEAT_TASK_FOREVER)
		return leat_task_op_run(ep, ops, 1);
	when = leat_time_add(leat_now(), leat_us_to_cycles(timeout_us));
	op->flags |= LEAT_OP_F_DEADLINE;
	op->deadline = when;
	outer = leat_task_deadline();
	leat_task_deadline_set(RTE_MIN(when, outer));
	ret = leat_task_op_run(ep, ops, 1);
	leat_task_deadline_set(outer);
	return ret;
}

int
leat_task_send(struct leat_ep *ep, uint16_t peer, const void *buf, uint64_t len, struct leat_mr *mr,
	       uint64_t timeout_us)
{
	struct leat_op op = {
		.type = LEAT_OP_SEND,
		.peer = peer,
		.buf = (void *)(uintptr_t)buf,
		.size = len,
		.mr = mr,
	};

	return run_one(ep, &op, timeout_us);
}

int64_t
leat_task_recv(struct leat_ep *ep, uint16_t peer, void *buf, uint64_t size, struct leat_mr *mr,
	       uint16_t *sender, uint64_t timeout_us)
{
	struct leat_op op = {
		.type = LEAT_OP_RECV,
		.peer = peer,
		.src = LEAT_PEER_ANY,
		.buf = buf,
		.size = size,
		.mr = mr,
	};
	int ret = run_one(ep, &op, timeout_us);

	if (unlikely(ret < 0))
		return ret;
	if (sender != NULL)
		*sender = op.src;
	/* op.len is the length of the write; buf holds no data. */
	if (unlikely((op.oflags & LEAT_OP_F_WRITTEN) != 0))
		return -EBADMSG;
	return (int64_t)op.len;
}

static int
run_one_sided(struct leat_ep *ep, struct leat_op *op, const struct leat_rkey *rkey, uint64_t offset,
	      uint64_t timeout_us)
{
	if (unlikely(offset > rkey->len || op->size > rkey->len - offset))
		return leat_err(ERANGE,
				"%s: %" PRIu64 " B at offset %" PRIu64
				" are not inside the peer's %" PRIu64 " B",
				leat_op_type_name(op->type), op->size, offset, rkey->len);
	op->raddr = rkey->addr + offset;
	op->rkey = rkey->key;
	return run_one(ep, op, timeout_us);
}

int
leat_task_write(struct leat_ep *ep, uint16_t peer, const void *buf, uint64_t len,
		struct leat_mr *mr, const struct leat_rkey *rkey, uint64_t offset,
		uint64_t timeout_us)
{
	struct leat_op op = {
		.type = LEAT_OP_WRITE,
		.peer = peer,
		.buf = (void *)(uintptr_t)buf,
		.size = len,
		.mr = mr,
	};

	return run_one_sided(ep, &op, rkey, offset, timeout_us);
}

int
leat_task_read(struct leat_ep *ep, uint16_t peer, void *buf, uint64_t len, struct leat_mr *mr,
	       const struct leat_rkey *rkey, uint64_t offset, uint64_t timeout_us)
{
	struct leat_op op = {
		.type = LEAT_OP_READ,
		.peer = peer,
		.buf = buf,
		.size = len,
		.mr = mr,
	};

	return run_one_sided(ep, &op, rkey, offset, timeout_us);
}
