/* SPDX-License-Identifier: BSD-3-Clause */

/* The steps of a test on an endpoint, compared with the model: see queue_model.h. */

#include <string.h>

#include "leat_cmocka.h"
#include "queue_model.h"

/* ---- steps ---- */

/* Make an op invalid in one way, and set o->want to the errno that leat_op_check() must return. */
static void
make_bad(struct qm *m, struct qm_op *o)
{
	struct leat_op *op = &o->op;

	switch (qm_below(m, 6)) {
	case 0:
		op->type = (uint8_t)(LEAT_OP_TYPES + qm_below(m, 256 - LEAT_OP_TYPES));
		op->peer = 0;
		o->want = -EINVAL;
		break;
	case 1:
		op->type = LEAT_OP_CMP_SWAP; /* not configured */
		op->peer = 1;
		op->size = 8;
		o->want = -EOPNOTSUPP;
		break;
	case 2: /* a peer that is not up, is free or is outside the table; or LEAT_PEER_ANY */
		op->type = LEAT_OP_SEND;
		op->peer = (uint16_t)(QM_PEERS_UP + qm_below(m, 3));
		if (qm_chance(m, 25))
			op->peer = LEAT_PEER_ANY;
		o->want = -ENOTCONN;
		break;
	case 3:
		op->type = LEAT_OP_TSEND;
		op->peer = 2;
		op->size = QM_MAX_MSG + 1 + qm_below(m, 3);
		o->want = -EMSGSIZE;
		break;
	case 4:
		op->type = qm_chance(m, 50) ? LEAT_OP_RECV : LEAT_OP_WRITE;
		op->peer = 1;
		op->size = 1;
		op->buf = NULL;
		o->want = -EINVAL;
		break;
	default:
		op->type = LEAT_OP_FETCH_ADD;
		op->peer = 0;
		op->size = qm_chance(m, 50) ? 4 : 8;
		op->raddr = op->size == 8 ? 0x1001 : 0x1000;
		o->want = -EINVAL;
		break;
	}
}

/* Choose the queue of an op. */
static void
choose_queue(struct qm *m, struct qm_op *o)
{
	struct leat_op *op = &o->op;

	o->recv = op->type == LEAT_OP_RECV || op->type == LEAT_OP_TRECV;
	if (qm_chance(m, m->conf.none)) {
		op->queue = LEAT_QUEUE_NONE;
		o->queue = QM_NONE;
	} else if (qm_chance(m, m->conf.own)) {
		o->queue = QM_RECVQ + 1 + qm_below(m, QM_OWN_QUEUES);
		op->queue = m->queue[o->queue].q;
	} else {
		op->queue = NULL;
		if (o->recv)
			o->queue = QM_RECVQ;
		else
			o->queue = op->peer < QM_PEERS ? op->peer : QM_NONE;
	}
}

static void
prepare(struct qm *m, struct qm_op *o)
{
	static const uint8_t types[] = {
		LEAT_OP_SEND,  LEAT_OP_SEND, LEAT_OP_RECV,  LEAT_OP_RECV,      LEAT_OP_TSEND,
		LEAT_OP_TRECV, LEAT_OP_READ, LEAT_OP_WRITE, LEAT_OP_WRITE_IMM, LEAT_OP_FETCH_ADD,
	};
	struct leat_op *op = &o->op;

	/* A new op, or one that came back, posted again with other values. */
	if (qm_chance(m, 30))
		memset(op, 0, sizeof(*op));
	op->type = m->conf.one_queue ? LEAT_OP_SEND : types[qm_below(m, RTE_DIM(types))];
	op->flags = 0;
	op->peer = m->conf.one_queue ? 0 : (uint16_t)qm_below(m, QM_PEERS_UP);
	if ((op->type == LEAT_OP_RECV || op->type == LEAT_OP_TRECV) && qm_chance(m, 70))
		op->peer = LEAT_PEER_ANY;
	op->size = qm_chance(m, 10) ? 0 : qm_below(m, QM_MAX_MSG + 1);
	op->buf = op->size == 0 && qm_chance(m, 50) ? NULL : m->mem;
	op->raddr = 0x1000;
	if (op->type == LEAT_OP_FETCH_ADD) {
		op->size = 8;
		op->buf = m->mem;
	}
	op->user = m;
	o->want = 0;
	if (qm_chance(m, m->conf.bad))
		make_bad(m, o);
	o->recallable = qm_chance(m, 70);
	if (qm_chance(m, m->conf.deadline)) {
		op->flags = LEAT_OP_F_DEADLINE;
		op->deadline = m->clock + qm_below(m, 3000000);
	}
	choose_queue(m, o);
	o->in = *op;
}

void
qm_do_post(struct qm *m, uint32_t n)
{
	uint64_t refused = m->ep->stats.refused;
	uint32_t k, avail = qm_fifo_count(&m->free);
	uint16_t got;

	n = RTE_MIN(n, RTE_MIN(avail, m->conf.burst_max));
	for (k = 0; k < n; k++) {
		struct qm_op *o = &m->ops[qm_fifo_pop(&m->free)];

		prepare(m, o);
		m->burst[k] = &o->op;
	}
	/*
	 * The same op twice in a burst: the second one is refused. So is an op that is in flight,
	 * held back or ready.
	 */
	if (n > 0 && qm_chance(m, 5)) {
		m->burst[n] = m->burst[qm_below(m, n)];
		got = leat_ep_post(m->ep, m->burst, (uint16_t)(n + 1));
		QM_CHECK(m, got <= n);
		m->stats.refused += m->refused_now;
	} else if (qm_chance(m, 10)) {
		struct qm_op *o = &m->ops[qm_below(m, m->conf.nb_ops)];
		struct leat_op *op = &o->op;

		if (o->in_flight || o->done) {
			QM_CHECK(m, leat_ep_post(m->ep, &op, 1) == 0);
			m->stats.refused++;
		}
		got = leat_ep_post(m->ep, m->burst, (uint16_t)n);
		m->stats.refused += m->refused_now;
	} else {
		got = leat_ep_post(m->ep, m->burst, (uint16_t)n);
		m->stats.refused += m->refused_now;
	}
	QM_CHECK(m, m->ep->stats.refused == m->stats.refused && refused <= m->stats.refused);
	/* Refused ops belong to the caller and are unchanged. */
	for (k = got; k < n; k++) {
		QM_CHECK(m, m->burst[k]->state == LEAT_OP_IDLE);
		qm_fifo_push(&m->free, qm_index(m, m->burst[k]));
	}
}

/* Check that an op came back in order, with its results set and its other fields unchanged. */
static void
returned(struct qm *m, struct leat_op *op)
{
	uint32_t i = qm_fifo_pop(&m->out);
	struct qm_op *o = &m->ops[i];
	const struct leat_op *in = &o->in;

	QM_CHECK(m, op == &o->op);
	QM_CHECK(m, op->state == LEAT_OP_IDLE);
	QM_CHECK(m, op->status == o->status);
	QM_CHECK(m, op->len == o->len);
	if (o->recv)
		QM_CHECK(m, op->src == (o->status == 0 ? 1 : LEAT_PEER_ANY));
	QM_CHECK(m, op->oflags == (o->recv && o->status == 0 ? LEAT_OP_F_IMM : 0));
	QM_CHECK(m, op->type == in->type && op->flags == in->flags && op->peer == in->peer);
	QM_CHECK(m, op->buf == in->buf && op->size == in->size && op->queue == in->queue);
	QM_CHECK(m, op->tag == in->tag && op->ignore == in->ignore && op->imm == in->imm);
	QM_CHECK(m, op->mr == in->mr && op->user == in->user && op->deadline == in->deadline);
	QM_CHECK(m, !leat_wheel_queued(&op->dl));
	o->done = false;
	qm_fifo_push(&m->free, i);
	m->stats.returned++;
}

void
qm_do_poll(struct qm *m, uint32_t n, uint32_t finish, bool heed_room)
{
	uint16_t got, k;
	uint32_t want;

	n = RTE_MIN(n, m->conf.burst_max);
	memset(m->burst, 0, (n + 1) * sizeof(*m->burst));
	m->plan = finish;
	m->plan_heed_room = heed_room;
	got = leat_ep_poll(m->ep, m->burst, (uint16_t)n);
	m->plan = 0;

	/*
	 * Poll returns all ready ops, but at most n, and writes nothing after the first n entries.
	 */
	want = RTE_MIN(n, qm_fifo_count(&m->out));
	QM_CHECK(m, got == want);
	QM_CHECK(m, m->burst[n] == NULL);
	for (k = 0; k < got; k++)
		returned(m, m->burst[k]);
	QM_CHECK(m, m->ep->nb_ready == qm_fifo_count(&m->out));
	QM_CHECK(m, (m->ep->ready_head == NULL) == (qm_fifo_count(&m->out) == 0));
	QM_CHECK(m, m->ep->out == NULL && leat_ep_room(m->ep) == 0);
}

void
qm_do_finish_outside(struct qm *m, uint32_t n)
{
	uint32_t i;

	while (n-- > 0 && (i = qm_pick(m)) != QM_NONE)
		qm_finish_any(m, i);
	QM_CHECK(m, m->ep->nb_ready == qm_fifo_count(&m->out));
}

void
qm_do_tick(struct qm *m)
{
	/*
	 * Advance the clock by up to 4, 64, 1 Ki, 16 Ki, 256 Ki or 4 Mi ns; rarely by 256 s, near
	 * the wrap of held_since.
	 */
	if (qm_chance(m, 2))
		m->clock += UINT64_C(256000000000);
	else
		m->clock += qm_below(m, 4u << (4 * qm_below(m, 6)));
}

void
qm_check(struct qm *m)
{
	const struct leat_ep *ep = m->ep;
	uint32_t i;

	QM_CHECK(m, leat_ep_inflight(ep) == m->nb_flight);
	QM_CHECK(m, ep->rx_room == m->conf.rx_depth - m->flight_recv);
	QM_CHECK(m, ep->tx_room == m->conf.tx_depth - (m->nb_flight - m->flight_recv));
	for (i = 0; i < QM_PEERS; i++)
		QM_CHECK(m, leat_peer_inflight(&ep->peers[i]) == m->peer_flight[i]);
	QM_CHECK(m, ep->stats.posted == m->stats.posted);
	QM_CHECK(m, ep->stats.returned == m->stats.returned);
	QM_CHECK(m, ep->stats.refused == m->stats.refused);
	QM_CHECK(m, ep->stats.errors == m->stats.errors);
	QM_CHECK(m, ep->stats.flushed == m->stats.flushed);
	QM_CHECK(m, ep->stats.tx_bytes == m->stats.tx_bytes);
	QM_CHECK(m, ep->stats.rx_bytes == m->stats.rx_bytes);
	for (i = 0; i < QM_QUEUES; i++) {
		const struct qm_queue *mq = &m->queue[i];
		uint32_t front = qm_fifo_front(&mq->fifo);

		QM_CHECK(m, mq->q->nb_posted == mq->posted0 + mq->posted);
		QM_CHECK(m, mq->q->nb_returned == mq->returned0 + mq->returned);
		QM_CHECK(m, leat_queue_count(mq->q) == qm_fifo_count(&mq->fifo));
		QM_CHECK(m, mq->q->held_total == mq->held);
		QM_CHECK(m, mq->q->held_now == mq->held_now);
		QM_CHECK(m, mq->q->held_time == mq->held_time);
		QM_CHECK(m, mq->q->held_max == mq->held_max);
		QM_CHECK(m, mq->q->head == (front == QM_NONE ? NULL : &m->ops[front].op));
	}
}

void
qm_step(struct qm *m)
{
	uint32_t burst = 1 + qm_below(m, m->conf.burst_max);

	m->steps++;
	switch (qm_below(m, 11)) {
	case 0:
	case 1:
	case 2:
	case 3:
		qm_do_post(m, burst);
		break;
	case 4:
	case 5:
	case 6: {
		uint32_t finish = qm_below(m, 2 * burst + 1);
		uint32_t room = qm_chance(m, 15) ? 0 : 1 + qm_below(m, m->conf.burst_max);

		qm_do_poll(m, room, finish, qm_chance(m, 50));
		break;
	}
	case 7:
		qm_do_finish_outside(m, qm_below(m, burst + 1));
		break;
	case 8:
		m->ask(m);
		break;
	default:
		qm_do_tick(m);
		break;
	}
}

void
qm_drain(struct qm *m)
{
	uint64_t guard = 0;

	while (m->nb_flight > 0 || qm_fifo_count(&m->out) > 0) {
		qm_do_poll(m, m->conf.burst_max, m->conf.burst_max, false);
		QM_CHECK(m, guard++ <= 2 * (uint64_t)m->conf.nb_ops);
	}
	qm_check(m);
	QM_CHECK(m, qm_fifo_count(&m->free) == m->conf.nb_ops);
	QM_CHECK(m, m->stats.posted == m->stats.returned);
	QM_CHECK(m,
		 leat_ep_inflight(m->ep) == 0 && m->ep->nb_ready == 0 && m->ep->ready_head == NULL);
}
