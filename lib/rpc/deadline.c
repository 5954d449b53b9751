/* SPDX-License-Identifier: BSD-3-Clause */

/* Deadlines of requests: a timer each, wherever the request is. */

#include "rpc_pvt.h"

/* Requests that end in one call. The rest follows in the next. */
#define AT_ONCE 256
/* Polls of which one looks at the clock. */
#define DEADLINE_POLLS 8

void
rpc_deadline_start(struct leat_rpc *rpc, struct leat_rpc_req *req, uint64_t when)
{
	leat_wheel_add(&rpc->wheel, &req->timer, when);
}

static void
req_late(struct leat_wheel_node *node, void *arg)
{
	struct leat_rpc_req *req = container_of(node, struct leat_rpc_req, timer);
	struct leat_rpc *rpc = arg;

	rpc->stats.expired++;
	rpc_req_abandon(req, -ETIMEDOUT);
}

static void
close_late(struct leat_wheel_node *node, void *arg)
{
	(void)arg;
	rpc_close_late(container_of(node, struct leat_rpc_session, timer));
}

void
rpc_deadlines_run(struct leat_rpc *rpc)
{
	const uint64_t due = leat_wheel_due(&rpc->wheel), close = leat_wheel_due(&rpc->closing);
	uint64_t now;

	if (likely(++rpc->polls % DEADLINE_POLLS != 0 || (due & close) == UINT64_MAX))
		return;
	now = rpc_now(rpc);
	if (now >= due)
		(void)leat_wheel_run(&rpc->wheel, now, req_late, rpc, AT_ONCE);
	if (unlikely(now >= close))
		(void)leat_wheel_run(&rpc->closing, now, close_late, rpc, AT_ONCE);
}
