/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cancels and deadlines: ending an op early.
 *
 *     leat_op_cancel(), a deadline that passed --> the driver's cancel() --> leat_op_finish()
 *
 * The op comes back from poll as every op does, in its place in its queue (leat_order.h), with
 * -ECANCELED or -ETIMEDOUT, or with its own result if the device completed it first.
 */

#include <rte_common.h>

#include "fabric_pvt.h"

/* Maximum number of deadlines that one leat_ep_events() ends; the others wait for the next call. */
#define DEADLINES_PER_RUN 256

int
leat_op_cancel(struct leat_ep *ep, struct leat_op *op)
{
	int ret;

	switch (op->state) {
	case LEAT_OP_INFLIGHT:
		break;
	case LEAT_OP_CANCEL:
	case LEAT_OP_EXPIRED:
		return -EALREADY;
	default:
		return -ENOENT;
	}
	/* Set the state before the call: the driver may finish the op inside it. */
	op->state = LEAT_OP_CANCEL;
	ret = ep->ctrl->driver->cancel(ep, op);
	if (ret < 0) {
		op->state = LEAT_OP_INFLIGHT;
		return ret;
	}
	LEAT_STAT_ADD(ep->stats.cancelled, 1);
	return 0;
}

void
leat_op_deadline_start(struct leat_ep *ep, struct leat_op *op)
{
	leat_wheel_add(&ep->ctrl->wheel, &op->dl, op->deadline);
}

void
leat_op_deadline_stop(struct leat_ep *ep, struct leat_op *op)
{
	leat_wheel_del(&ep->ctrl->wheel, &op->dl);
}

/*
 * End an op whose deadline passed: recall it from the device. If the device can't recall it, end
 * the connection to the op's peer, as a NIC does when a queue pair's retries are exhausted.
 */
static void
expire(struct leat_wheel_node *node, void *arg)
{
	struct leat_op *op = container_of(node, struct leat_op, dl);
	char text[LEAT_EVENT_TEXT];
	struct leat_ep *ep = arg;
	struct leat_peer *peer;
	bool asked = op->state == LEAT_OP_CANCEL;

	op->state = LEAT_OP_EXPIRED;
	LEAT_STAT_ADD(ep->stats.expired, 1);
	if (asked || ep->ctrl->driver->cancel(ep, op) == 0)
		return;
	if (op->peer >= ep->nb_peers)
		return;
	peer = &ep->peers[op->peer];
	if (peer->state != LEAT_PEER_UP)
		return; /* the peer's ops are coming back already */
	snprintf(text, sizeof(text),
		 "%s: a %s of %" PRIu64
		 " B passed its deadline and the device can't recall it: does "
		 "the other side receive?",
		 leat_peer_addr(ep, peer), leat_op_type_name(op->type), op->size);
	ep->ctrl->driver->disconnect(ep, peer, -ETIMEDOUT, text);
}

void
leat_op_deadlines_run(struct leat_ep *ep, uint64_t now)
{
	struct leat_wheel *w = &ep->ctrl->wheel;
	unsigned int n = 0;

	/*
	 * A run of the wheel that has many nodes to sort ends early: it can find fewer deadlines
	 * than have expired, or none. So run it again now, not at the next call a millisecond
	 * later. The number of runs is bounded: an op in flight is sorted at most once per level,
	 * and no op is added here.
	 */
	do
		n += leat_wheel_run(w, now, expire, ep, DEADLINES_PER_RUN - n);
	while (n < DEADLINES_PER_RUN && leat_wheel_late(w, now));
}
