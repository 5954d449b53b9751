/* SPDX-License-Identifier: BSD-3-Clause */

/* See queue_model.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat_cmocka.h"
#include "queue_model.h"

void
qm_fail(const struct qm *m, const char *what, const char *file, int line)
{
	print_error("%s:%d: \"%s\" does not hold\n", file, line, what);
	print_error("seed 0x%" PRIx64 ", step %" PRIu64
		    ": ops %u, depth %u/%u, burst %u, order %u, "
		    "bad %u%%, at once %u%%, fail %u%%, none %u%%, own %u%%\n",
		    m->conf.seed, m->steps, m->conf.nb_ops, m->conf.tx_depth, m->conf.rx_depth,
		    m->conf.burst_max, m->conf.order, m->conf.bad, m->conf.at_once, m->conf.fail,
		    m->conf.none, m->conf.own);
	_fail(file, line);
	abort(); /* _fail() does not return, but is not declared noreturn */
}

uint64_t
qm_rand(struct qm *m)
{
	return test_random(&m->rng);
}

uint32_t
qm_below(struct qm *m, uint32_t n)
{
	return (uint32_t)(((qm_rand(m) >> 32) * n) >> 32);
}

bool
qm_chance(struct qm *m, uint32_t pct)
{
	return qm_below(m, 100) < pct;
}

static void *
alloc(size_t n, size_t size)
{
	size_t len = RTE_ALIGN_CEIL(n * size, (size_t)LEAT_CACHE_LINE);
	void *p = aligned_alloc(LEAT_CACHE_LINE, len);

	assert_non_null(p);
	memset(p, 0, len);
	return p;
}

static void
fifo_init(struct qm_fifo *f, uint32_t n)
{
	uint32_t size = rte_align32pow2(n + 1);

	f->v = alloc(size, sizeof(*f->v));
	f->mask = size - 1;
	f->head = 0;
	f->tail = 0;
}

uint32_t
qm_index(const struct qm *m, const struct leat_op *op)
{
	const struct qm_op *o = (const struct qm_op *)(const void *)op;

	QM_CHECK(m, o >= m->ops && o < m->ops + m->conf.nb_ops);
	return (uint32_t)(o - m->ops);
}

/* Mark an op as leat_op_cancel() or an expired deadline does. */
static void
fake_ask(struct qm *m)
{
	struct qm_op *o;

	if (m->nb_flight == 0)
		return;
	o = &m->ops[m->flight[qm_below(m, m->nb_flight)]];
	if (o->cancel)
		return;
	o->cancel = true;
	o->expired = qm_chance(m, 50);
	o->op.state = o->expired ? LEAT_OP_EXPIRED : LEAT_OP_CANCEL;
}

void
qm_init(struct qm *m, const struct qm_conf *conf, struct leat_ep *ep)
{
	uint32_t i;

	memset(m, 0, sizeof(*m));
	m->conf = *conf;
	m->rng = conf->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	m->ep = ep;
	m->ask = fake_ask;
	m->clock = conf->clock;
	leat_clock_mock_set(&m->clock);

	m->ops = alloc(conf->nb_ops, sizeof(*m->ops));
	m->flight = alloc(conf->nb_ops, sizeof(*m->flight));
	m->burst = alloc(conf->burst_max + 1, sizeof(*m->burst));
	fifo_init(&m->free, conf->nb_ops);
	fifo_init(&m->out, conf->nb_ops);
	for (i = 0; i < conf->nb_ops; i++)
		qm_fifo_push(&m->free, i);
	for (i = 0; i < QM_QUEUES; i++) {
		struct qm_queue *mq = &m->queue[i];

		fifo_init(&mq->fifo, conf->nb_ops);
		if (i < QM_PEERS) {
			mq->q = &ep->peers[i].sendq;
		} else if (i == QM_RECVQ) {
			mq->q = &ep->recvq;
		} else {
			mq->q = &m->own[i - QM_RECVQ - 1];
			leat_queue_init(mq->q);
		}
		mq->q->nb_posted += conf->counters;
		mq->q->nb_returned += conf->counters;
		mq->posted0 = mq->q->nb_posted;
		mq->returned0 = mq->q->nb_returned;
		mq->held = mq->q->held_total;
		mq->held_time = mq->q->held_time;
		mq->held_max = mq->q->held_max;
	}
	m->stats = ep->stats;
}

void
qm_fini(struct qm *m)
{
	uint32_t i;

	for (i = 0; i < QM_QUEUES; i++)
		free(m->queue[i].fifo.v);
	free(m->free.v);
	free(m->out.v);
	free(m->burst);
	free(m->flight);
	free(m->ops);
}

void
qm_fake_ep_init(struct qm_fake_ep *fake, const struct qm_conf *conf, struct qm *m)
{
	struct leat_ep *ep = &fake->ep;
	uint16_t i;

	memset(fake, 0, sizeof(*fake));
	ep->post = qm_post_fn;
	ep->poll = qm_poll_fn;
	ep->drv = m;
	ep->peers = fake->peers;
	ep->nb_peers = QM_PEERS;
	ep->max_msg = QM_MAX_MSG;
	ep->op_mask = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP);
	ep->directed_recv = 1;
	ep->tx_room = conf->tx_depth;
	ep->rx_room = conf->rx_depth;
	ep->depth = conf->tx_depth + conf->rx_depth;
	for (i = 0; i < QM_PEERS; i++) {
		fake->peers[i].id = i;
		fake->peers[i].state = i < QM_PEERS_UP ? LEAT_PEER_UP : LEAT_PEER_FREE;
	}
	/* The state is not CLOSING, since the code that ends a closing peer is missing here. */
	fake->peers[QM_PEERS_UP].state = LEAT_PEER_ACCEPTED;
}

/* ---- the model ---- */

/* A poll takes one timestamp, when it is first needed; outside of poll each use takes its own. */
static uint64_t
now(struct qm *m)
{
	if (!m->in_poll)
		return m->clock;
	if (m->poll_now == 0)
		m->poll_now = m->clock;
	return m->poll_now;
}

static void
qm_started(struct qm *m, uint32_t i)
{
	struct qm_op *o = &m->ops[i];

	o->in_flight = true;
	o->done = false;
	o->cancel = false;
	o->expired = false;
	o->fl_pos = m->nb_flight;
	m->flight[m->nb_flight++] = i;
	m->flight_recv += o->recv;
	if (o->in.peer < QM_PEERS)
		m->peer_flight[o->in.peer]++;
	m->stats.posted++;
	if (o->queue != QM_NONE) {
		m->queue[o->queue].posted++;
		qm_fifo_push(&m->queue[o->queue].fifo, i);
	}
}

static void
qm_finished(struct qm *m, uint32_t i, int status, uint64_t len)
{
	struct qm_op *o = &m->ops[i];
	struct qm_queue *mq;
	uint32_t dt, j;

	QM_CHECK(m, o->in_flight);
	o->in_flight = false;
	m->flight[o->fl_pos] = m->flight[--m->nb_flight];
	m->ops[m->flight[o->fl_pos]].fl_pos = o->fl_pos;
	m->flight_recv -= o->recv;
	if (o->in.peer < QM_PEERS)
		m->peer_flight[o->in.peer]--;
	o->status = status;
	o->len = len;
	/* No connection ends cleanly here, so only ops that were cancelled count as flushed. */
	if (status == -ECANCELED)
		m->stats.flushed++;
	else if (status != 0)
		m->stats.errors++;
	else if (o->recv || o->in.type >= LEAT_OP_READ)
		m->stats.rx_bytes += len;
	else
		m->stats.tx_bytes += len;

	o->done = true;
	if (o->queue == QM_NONE) {
		qm_fifo_push(&m->out, i);
		return;
	}
	mq = &m->queue[o->queue];
	if (qm_fifo_front(&mq->fifo) != i) {
		o->since = now(m);
		mq->held++;
		mq->held_now++;
		return;
	}
	qm_fifo_push(&m->out, qm_fifo_pop(&mq->fifo));
	mq->returned++;
	while ((j = qm_fifo_front(&mq->fifo)) != QM_NONE && m->ops[j].done) {
		dt = (uint32_t)((now(m) >> LEAT_QUEUE_HOLD_SHIFT) -
				(m->ops[j].since >> LEAT_QUEUE_HOLD_SHIFT));
		mq->held_time += dt;
		mq->held_max = RTE_MAX(mq->held_max, dt);
		mq->held_now--;
		mq->returned++;
		qm_fifo_push(&m->out, qm_fifo_pop(&mq->fifo));
	}
}

/* ---- the driver ---- */

void
qm_finish(struct qm *m, uint32_t i, int status, uint64_t len)
{
	struct qm_op *o = &m->ops[i];

	/* The device's last writes to the op. */
	if (o->recv && status == 0) {
		o->op.src = 1;
		o->op.oflags = LEAT_OP_F_IMM;
	}
	qm_finished(m, i, o->expired && status != 0 ? -ETIMEDOUT : status, len);
	leat_op_finish(m->ep, &o->op, status, len);
}

/* Finish an op with a random status and length. */
void
qm_finish_any(struct qm *m, uint32_t i)
{
	struct qm_op *o = &m->ops[i];

	if (o->cancel && qm_chance(m, 80))
		qm_finish(m, i, -ECANCELED, 0);
	else if (qm_chance(m, m->conf.fail))
		qm_finish(m, i, -EIO, 0);
	else
		qm_finish(m, i, 0, o->in.size);
}

uint32_t
qm_pick(struct qm *m)
{
	uint32_t i, k, first, tries;

	if (m->nb_flight == 0)
		return QM_NONE;
	switch (m->conf.order) {
	case QM_IN_ORDER:
		first = qm_below(m, QM_QUEUES);
		for (k = 0; k < QM_QUEUES; k++) {
			i = qm_fifo_front(&m->queue[(first + k) % QM_QUEUES].fifo);
			if (i != QM_NONE)
				return i;
		}
		return m->flight[0]; /* only ops without a queue are in flight: the first of them */
	case QM_NEWEST:
		return m->flight[m->nb_flight - 1];
	case QM_BLOCKED:
		for (tries = 0; tries < 4; tries++) {
			i = m->flight[qm_below(m, m->nb_flight)];
			if (m->ops[i].queue == QM_NONE ||
			    qm_fifo_front(&m->queue[m->ops[i].queue].fifo) != i)
				return i;
		}
		return i;
	default:
		return m->flight[qm_below(m, m->nb_flight)];
	}
}

uint16_t
qm_post_fn(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct qm *m = ep->drv;
	uint16_t k;
	int ret;

	for (k = 0; k < n; k++) {
		struct qm_op *o = &m->ops[qm_index(m, ops[k])];
		uint32_t room = o->recv ? m->conf.rx_depth - m->flight_recv
					: m->conf.tx_depth - (m->nb_flight - m->flight_recv);

		rte_errno = 0;
		if (!leat_op_admit(ep, ops[k])) {
			QM_CHECK(m, rte_errno == (o->in_flight || o->done ? EALREADY : EAGAIN));
			QM_CHECK(m, o->in_flight || o->done || room == 0);
			break;
		}
		QM_CHECK(m, !o->in_flight && !o->done && room > 0);

		ret = leat_op_check(ep, ops[k]);
		QM_CHECK(m, ret == o->want);
		qm_started(m, qm_index(m, ops[k]));
		if (ret < 0) {
			qm_finished(m, qm_index(m, ops[k]), ret, 0);
			leat_op_fail(ep, ops[k], ret);
			continue;
		}
		leat_op_start(ep, ops[k]);
		if (qm_chance(m, m->conf.at_once))
			qm_finish_any(m, qm_index(m, ops[k]));
	}
	m->refused_now = n - k;
	return leat_ep_post_end(ep, k, n);
}

void
qm_poll_fn(struct leat_ep *ep)
{
	struct qm *m = ep->drv;
	uint32_t i, k;

	m->in_poll = true;
	m->poll_now = 0;
	for (k = 0; k < m->plan; k++) {
		/* Let time pass within the poll, in which the layer must read the clock once. */
		if (qm_chance(m, 10))
			m->clock += qm_below(m, 5000);
		if (m->plan_heed_room && leat_ep_room(ep) == 0)
			break;
		i = qm_pick(m);
		if (i == QM_NONE)
			break;
		qm_finish_any(m, i);
	}
	m->in_poll = false;
}
