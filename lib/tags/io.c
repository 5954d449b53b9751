/* SPDX-License-Identifier: BSD-3-Clause */

/* Post, poll and cancel of an endpoint with the tag layer. */

#include "tags_pvt.h"

void
tags_repost(struct tags_ep *e)
{
	struct leat_op *ops[TAGS_BURST];
	struct tags_rbuf *b;
	uint16_t i, n, took;

	while (!TAILQ_EMPTY(&e->repost)) {
		n = 0;
		TAILQ_FOREACH(b, &e->repost, link) {
			ops[n++] = &b->op;
			if (n == TAGS_BURST)
				break;
		}
		took = leat_ep_post(e->inner, ops, n);
		for (i = 0; i < took; i++)
			TAILQ_REMOVE(&e->repost, TAILQ_FIRST(&e->repost), link);
		if (unlikely(took < n))
			/* Only a closing endpoint refuses: it has room for all bounce buffers. */
			return;
	}
}

void
tags_push(struct tags_ep *e)
{
	if (!TAILQ_EMPTY(&e->repost))
		tags_repost(e);
	if (!TAILQ_EMPTY(&e->todo) || !TAILQ_EMPTY(&e->refused))
		tags_todo_run(e);
}

uint16_t
tags_inner_poll(struct tags_ep *e)
{
	struct leat_op *ops[TAGS_BURST];
	uint16_t i, n = leat_ep_poll(e->inner, ops, TAGS_BURST);

	for (i = 0; i < n; i++) {
		if (ops[i]->type == LEAT_OP_RECV)
			tags_rx_arrived(e, ops[i]->user);
		else
			tags_tx_done(e, ops[i]->user);
	}
	return n;
}

void
tags_poll(struct leat_ep *ep)
{
	struct tags_ep *e = tags_of(ep);

	(void)tags_inner_poll(e);
	tags_push(e);
}

/* Post a receive. @return false if there is no room */
static bool
post_recv(struct tags_ep *e, struct leat_op *op)
{
	struct tags_rx *rx = TAILQ_FIRST(&e->free_rx);
	struct tags_rbuf *b;

	if (unlikely(rx == NULL))
		return false;
	TAILQ_REMOVE(&e->free_rx, rx, link);
	leat_op_start(e->outer, op);
	op->drv_ctx = rx;
	rx->op = op;
	b = tags_match_message(e, op);
	if (b != NULL)
		tags_rx_deliver(e, rx, b);
	else
		tags_match_wait(e, rx);
	return true;
}

static bool
post_send(struct tags_ep *e, struct leat_op *op)
{
	struct tags_tx *tx = TAILQ_FIRST(&e->free_tx);

	if (unlikely(tx == NULL))
		return false;
	TAILQ_REMOVE(&e->free_tx, tx, link);
	leat_op_start(e->outer, op);
	tags_tx_add(e, tags_peer_of(&e->outer->peers[op->peer]), tx, op);
	return true;
}

uint16_t
tags_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct tags_ep *e = tags_of(ep);
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];
		int status;

		if (unlikely(!leat_op_admit(ep, op)))
			break;
		status = leat_op_check(ep, op);
		if (unlikely(status < 0)) {
			leat_op_fail(ep, op, status);
			continue;
		}
		/*
		 * There may be no free tags_rx or tags_tx for a while, since ops of an ended
		 * connection keep theirs until the device has given the ops back.
		 */
		if (unlikely(!(leat_op_is_recv(op) ? post_recv(e, op) : post_send(e, op)))) {
			rte_errno = EAGAIN;
			break;
		}
	}
	tags_push(e);
	return leat_ep_post_end(ep, i, n);
}

int
tags_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct tags_ep *e = tags_of(ep);
	char text[LEAT_EVENT_TEXT];
	struct tags_rx *rx;

	if (!leat_op_is_recv(op))
		return tags_tx_cancel(e, op->drv_ctx);
	rx = op->drv_ctx;
	if (rx->state == TAGS_RX_POSTED) {
		tags_match_cancel(e, rx);
		tags_rx_finish(e, rx, -ECANCELED, 0);
		return 0;
	}
	/*
	 * A receive whose message is coming is not cancelled, because the message would be lost. It
	 * comes back with its message; if its deadline passes before that, the connection ends.
	 */
	if (op->state == LEAT_OP_EXPIRED) {
		snprintf(text, sizeof(text),
			 "%s: a message stopped in the middle, and its receive passed its deadline",
			 leat_peer_addr(ep, rx->sender->outer));
		tags_peer_end(e, rx->sender, -ETIMEDOUT, text);
	}
	return 0;
}
