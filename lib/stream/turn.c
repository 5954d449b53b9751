/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a net does in a turn of its reactor.
 *
 *     endpoint's poller   stream_on_ops(): receives are posted again, then looked at; writes that
 *                         are done make room
 *     "stream"            stream_turn(): callbacks, then all that was written in this turn is posted
 *
 * The second comes behind the first in each turn: what has just arrived is told in that turn, and
 * an answer goes out in it, with all others for the same peer. No callback is called in the first.
 */

#include "stream_pvt.h"

/* What a receive brought. */
struct arrival {
	uint64_t imm;
	int status;
	uint16_t src;
	uint16_t len;
	bool notice;
	uint8_t msg[STREAM_CTRL_LEN];
};

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
 * Try those again that found no room. A device may refuse a post with nothing of the net's under
 * way, so nothing need come back before there is room.
 */
static void
feed(struct leat_stream_net *net)
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

/* Takes what it brought; the receive is to be posted again. */
static void
take_receive(struct leat_stream_net *net, struct leat_op *op, struct arrival *a)
{
	struct stream_rx_op *r = container_of(op, struct stream_rx_op, op);

	a->status = op->status;
	a->src = op->src;
	a->notice = (op->oflags & LEAT_OP_F_WRITTEN) != 0;
	a->imm = op->imm;
	a->len = (uint16_t)RTE_MIN(op->len, (uint64_t)STREAM_RECV_LEN);
	memcpy(a->msg, op->buf, STREAM_CTRL_LEN);
	r->next = net->rx_idle;
	net->rx_idle = r;
	net->nb_rx_idle++;
}

/* The stream of a notice: of its token where the device can't tell connections apart. */
static struct leat_stream *
stream_of(const struct leat_stream_net *net, const struct arrival *a)
{
	struct leat_stream *s;
	uint32_t index;

	if (a->notice && net->tokens) {
		index = stream_notice_token(a->imm) & UINT16_MAX;
		if (index >= net->conf.max_streams)
			return NULL;
		s = &net->streams[index];
		return s->token == stream_notice_token(a->imm) ? s : NULL;
	}
	return a->src < net->nb_peers ? net->by_peer[a->src] : NULL;
}

static void
arrived(struct leat_stream_net *net, const struct arrival *a)
{
	struct leat_stream *s = stream_of(net, a);

	if (s == NULL || s->state == STREAM_FREE || s->state > STREAM_UP)
		return; /* late, of a stream that has ended */
	if (a->status == -EMSGSIZE)
		stream_fail(s, -EPROTO, "a control message longer than %u B", STREAM_RECV_LEN);
	else if (a->status == 0 && a->notice)
		stream_rx_notice(s, a->imm);
	else if (a->status == 0)
		stream_ctrl_arrived(s, a->msg, a->len);
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
	struct arrival arrivals[LEAT_EP_BURST];
	struct leat_stream_net *net = arg;
	uint16_t i, nb = 0;

	(void)ep;
	net->now = now;
	for (i = 0; i < n; i++) {
		if (ops[i]->type == LEAT_OP_RECV)
			take_receive(net, ops[i], &arrivals[nb++]);
	}
	/* The peer may count on them before it gets an answer. */
	if (nb > 0 && !net->closing)
		stream_rx_post(net);
	for (i = 0; i < nb; i++)
		arrived(net, &arrivals[i]);
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

	/* Those that come meanwhile are for the next turn. */
	net->work = NULL;
	net->work_end = &net->work;
	for (; s != NULL; s = next, n++) {
		next = s->next_work;
		s->in_work = false;
		stream_ctrl_run(s);
		stream_tx_run(s);
		/* The end of the direction goes behind the last byte. */
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
	/* Not at the end: what found no room must not keep the reactor from idling. */
	if (unlikely(net->starved != NULL))
		feed(net);
	net->calling = true;
	if (net->outs_done != NULL)
		n += stream_outs_run(net);
	if (net->nb_ready > 0)
		n += stream_ready_run(net);
	net->calling = false;
	if (unlikely(net->nb_rx_idle > 0) && !net->closing)
		stream_rx_post(net);
	if (net->work != NULL)
		n += work_run(net);
	return n;
}

bool
stream_turn_ready(void *arg)
{
	const struct leat_stream_net *net = arg;

	return net->outs_done != NULL || net->nb_ready > 0 || net->work != NULL;
}
