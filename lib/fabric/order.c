/* SPDX-License-Identifier: BSD-3-Clause */

/* The ordering layer off its fast path. The fast path is inline, in leat_order.h. */

#include "fabric_pvt.h"

#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

void
leat_ep_drain_ready(struct leat_ep *ep)
{
	struct leat_op *op = ep->ready_head;
	uint32_t n = 0;

	while (op != NULL && ep->out < ep->out_end) {
		struct leat_op *next = op->q_next;

		op->state = LEAT_OP_IDLE;
		*ep->out++ = op;
		op = next;
		n++;
	}
	ep->ready_head = op;
	ep->nb_ready -= n;
}

void
leat_queue_stats_get(const struct leat_queue *q, struct leat_queue_stats *stats)
{
	uint64_t time = GET(q->held_time), mean = 0, done;

	stats->posted = GET(q->nb_posted);
	stats->returned = GET(q->nb_returned);
	stats->held = GET(q->held_total);
	stats->held_now = GET(q->held_now);
	done = stats->held > stats->held_now ? stats->held - stats->held_now : 0;
	/* The mean in cycles, without a product that could overflow. */
	if (done > 0)
		mean = ((time / done) << LEAT_QUEUE_HOLD_SHIFT) +
		       ((time % done) << LEAT_QUEUE_HOLD_SHIFT) / done;
	stats->held_avg_ns = leat_cycles_to_ns(mean);
	stats->held_max_ns = leat_cycles_to_ns((uint64_t)GET(q->held_max) << LEAT_QUEUE_HOLD_SHIFT);
}
