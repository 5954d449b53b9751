/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A net's work in a turn of its reactor.
 *
 *     endpoint's poller   stream_on_ops(): arrived notices and messages are processed; completed
 *                         writes free room in the send buffer
 *     "stream"            stream_turn(): callbacks, then the bytes written in this turn are posted,
 *                         then used receives are posted again
 *
 * The second poller runs after the first in each turn: the application is told of bytes in the turn
 * in which they arrived, and its answer is posted in that turn, together with all others for the
 * same peer. The first poller calls no callback.
 */

#include "stream_pvt.h"

/* Receives are posted before the answers if more than 1/RX_PART of them are used. */
#define RX_PART 4

void
stream_work(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;

	if (s->in_work)
		return;
	s->in_work = true;
	s->next_work = NULL;
	*net->work_end = s;
	net->work_end = &s->next_work;
}

void
stream_starve(struct leat_stream *s)
{
	if (s->in_starved)
		return;
	s->in_starved = true;
	s->next_starved = s->net->starved;
	s->net->starved = s;
}

/*
 * Retry the streams whose posts found no room in the device. A device may refuse a post while the
 * net has nothing in flight, so a retry must not wait for a completion.
 */
static void
retry_starved(struct leat_stream_net *net)
{
	struct leat_stream *s;

	while ((s = net->starved) != NULL) {
		net->starved = s->next_starved;
		s->in_starved = false;
		stream_work(s);
	}
}

/* ---- receives ---- */

void
stream_rx_post(struct leat_stream_net *net)
{
	struct leat_op *ops[STREAM_BURST];
	struct stream_rx_op *r;
	uint16_t i, n, done;

	do {
		n = 0;
		for (r = net->rx_idle; r != NULL && n < STREAM_BURST; r = r->next)
			ops[n++] = &r->op;
		done = n > 0 ? leat_ep_post(net->ep, ops, n) : 0;
		for (i = 0; i < done; i++)
			net->rx_idle = net->rx_idle->next;
		net->nb_rx_idle -= done;
	} while (n > 0 && done == n);
}

/*
 * Find the stream for which a receive completed: by the token in the notice if the net uses tokens,
 * since its device may confuse two connections; else by the peer that the receive names.
 * @return NULL: there is no such stream
 */
static struct leat_stream *
stream_of(const struct leat_stream_net *net, const struct leat_op *op, bool notice)
{
	struct leat_stream *s;
	uint32_t index;

	if (unlikely(net->tokens) && notice) {
		index = stream_notice_token(op->imm) & UINT16_MAX;
		if (index >= net->conf.max_streams)
			return NULL;
		s = &net->streams[index];
		return s->token == stream_notice_token(op->imm) ? s : NULL;
	}
	return op->src < net->nb_peers ? net->by_peer[op->src] : NULL;
}

static void
arrived(struct leat_stream_net *net, const struct leat_op *op)
{
	const bool notice = (op->oflags & LEAT_OP_F_WRITTEN) != 0;
	struct leat_stream *s = stream_of(net, op, notice);

	if (s == NULL || s->state == STREAM_FREE || s->state > STREAM_UP)
		return; /* the message is late: its stream has ended */
	if (unlikely(op->status == -EMSGSIZE))
		stream_fail(s, -EPROTO, "a control message longer than %u B", STREAM_RECV_LEN);
	else if (likely(op->status == 0 && notice))
		stream_rx_notice(s, op->imm);
	else if (op->status == 0)
		stream_ctrl_arrived(s, op->buf, op->len);
}

/* Put a receive on the list of those to be posted again. */
static void
idle(struct leat_stream_net *net, struct leat_op *op)
{
	struct stream_rx_op *r = container_of(op, struct stream_rx_op, op);

	r->next = net->rx_idle;
	net->rx_idle = r;
	net->nb_rx_idle++;
}

static void
done(struct leat_op *op)
{
	struct leat_stream *s;

	if (op->type == LEAT_OP_SEND) {
		struct stream_ctrl_op *c = container_of(op, struct stream_ctrl_op, op);

		s = c->s;
		stream_ctrl_done(c);
	} else {
		struct stream_tx_op *t = container_of(op, struct stream_tx_op, op);

		s = t->s;
		stream_tx_done(t);
	}
	stream_slot_put(s);
}

void
stream_on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	struct leat_stream_net *net = arg;
	uint16_t i;

	(void)ep;
	net->now = now;
	for (i = 0; i < n; i++) {
		if (ops[i]->type != LEAT_OP_RECV)
			continue;
		arrived(net, ops[i]);
		idle(net, ops[i]);
	}
	/* Few used receives are posted after the answers, so that no answer waits for them. */
	if (unlikely(net->nb_rx_idle > net->nb_rx / RX_PART) && !net->closing)
		stream_rx_post(net);
	for (i = 0; i < n; i++) {
		if (ops[i]->type != LEAT_OP_RECV)
			done(ops[i]);
	}
}

/* ---- the turn ---- */

static int
work_run(struct leat_stream_net *net)
{
	struct leat_stream *s = net->work, *next;
	int n = 0;

	/* Streams queued from here on are for the next turn. */
	net->work = NULL;
	net->work_end = &net->work;
	for (; s != NULL; s = next, n++) {
		next = s->next_work;
		s->in_work = false;
		stream_ctrl_run(s);
		stream_tx_run(s);
		/* The end of the direction is sent after the last byte. */
		if ((s->pending & PENDING_END) != 0)
			stream_ctrl_run(s);
		stream_drain_check(s);
		stream_slot_put(s);
	}
	return n;
}

int
stream_turn(void *arg, uint64_t now)
{
	struct leat_stream_net *net = arg;
	int n = 0;

	net->now = now;
	if (leat_ask_pending(&net->asked))
		stream_telemetry_answer(net);
	if (likely(net->tune != NULL))
		leat_tune_serve(net->tune);
	/* Retry here, not at the end: a retry that finds no room must not keep the reactor busy. */
	if (unlikely(net->starved != NULL))
		retry_starved(net);
	net->calling = true;
	if (net->outs_done != NULL)
		n += stream_outs_run(net);
	if (net->nb_ready > 0)
		n += stream_ready_run(net);
	net->calling = false;
	if (net->work != NULL)
		n += work_run(net);
	if (net->nb_rx_idle > 0 && !net->closing)
		stream_rx_post(net);
	return n;
}

bool
stream_turn_ready(void *arg)
{
	const struct leat_stream_net *net = arg;

	return net->outs_done != NULL || net->nb_ready > 0 || net->work != NULL;
}
