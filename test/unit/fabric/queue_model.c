/* SPDX-License-Identifier: BSD-3-Clause */

/* See queue_model.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../leat_cmocka.h"
#include "queue_model.h"

void
qm_fail(const struct qm *m, const char *what, const char *file, int line)
{
	print_error("%s:%d: \"%s\" does not hold\n", file, line, what);
	print_error("seed 0x%" PRIx64 ", step %" PRIu64 ": ops %u, depth %u/%u, burst %u, order %u, "
		    "bad %u%%, at once %u%%, fail %u%%, none %u%%, own %u%%\n",
		    m->conf.seed, m->steps, m->conf.nb_ops, m->conf.tx_depth, m->conf.rx_depth,
		    m->conf.burst_max, m->conf.order, m->conf.bad, m->conf.at_once, m->conf.fail,
		    m->conf.none, m->conf.own);
	_fail(file, line);
	abort(); /* _fail() does not return, but is not declared so */
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

static uint32_t
fifo_count(const struct qm_fifo *f)
{
	return f->tail - f->head;
}

static void
fifo_push(struct qm_fifo *f, uint32_t i)
{
	f->v[f->tail++ & f->mask] = i;
}

static uint32_t
fifo_front(const struct qm_fifo *f)
{
	return f->head == f->tail ? QM_NONE : f->v[f->head & f->mask];
}

static uint32_t
fifo_pop(struct qm_fifo *f)
{
	return f->v[f->head++ & f->mask];
}

static uint32_t
op_index(const struct qm *m, const struct leat_op *op)
{
	const struct qm_op *o = (const struct qm_op *)(const void *)op;

	QM_CHECK(m, o >= m->ops && o < m->ops + m->conf.nb_ops);
	return (uint32_t)(o - m->ops);
}

/* What leat_op_cancel() and an expired deadline leave in an op. */
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
		fifo_push(&m->free, i);
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
	fake->peers[QM_PEERS_UP].state = LEAT_PEER_CLOSING;
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
		fifo_push(&m->queue[o->queue].fifo, i);
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
	if (status != 0)
		m->stats.errors++;
	else if (o->recv || o->in.type >= LEAT_OP_READ)
		m->stats.rx_bytes += len;
	else
		m->stats.tx_bytes += len;

	o->done = true;
	if (o->queue == QM_NONE) {
		fifo_push(&m->out, i);
		return;
	}
	mq = &m->queue[o->queue];
	if (fifo_front(&mq->fifo) != i) {
		o->since = now(m);
		mq->held++;
		mq->held_now++;
		return;
	}
	fifo_push(&m->out, fifo_pop(&mq->fifo));
	mq->returned++;
	while ((j = fifo_front(&mq->fifo)) != QM_NONE && m->ops[j].done) {
		dt = (uint32_t)((now(m) >> LEAT_HOLD_SHIFT) - (m->ops[j].since >> LEAT_HOLD_SHIFT));
		mq->held_time += dt;
		mq->held_max = RTE_MAX(mq->held_max, dt);
		mq->held_now--;
		mq->returned++;
		fifo_push(&m->out, fifo_pop(&mq->fifo));
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

/* As the device pleases. */
static void
finish_any(struct qm *m, uint32_t i)
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
			i = fifo_front(&m->queue[(first + k) % QM_QUEUES].fifo);
			if (i != QM_NONE)
				return i;
		}
		return m->flight[0]; /* without a queue */
	case QM_NEWEST:
		return m->flight[m->nb_flight - 1];
	case QM_BLOCKED:
		for (tries = 0; tries < 4; tries++) {
			i = m->flight[qm_below(m, m->nb_flight)];
			if (m->ops[i].queue == QM_NONE ||
			    fifo_front(&m->queue[m->ops[i].queue].fifo) != i)
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
		struct qm_op *o = &m->ops[op_index(m, ops[k])];
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
		qm_started(m, op_index(m, ops[k]));
		if (ret < 0) {
			qm_finished(m, op_index(m, ops[k]), ret, 0);
			leat_op_fail(ep, ops[k], ret);
			continue;
		}
		leat_op_start(ep, ops[k]);
		if (qm_chance(m, m->conf.at_once))
			finish_any(m, op_index(m, ops[k]));
	}
	m->refused_now = n - k;
	return leat_post_end(ep, k, n);
}

void
qm_poll_fn(struct leat_ep *ep)
{
	struct qm *m = ep->drv;
	uint32_t i, k;

	m->in_poll = true;
	m->poll_now = 0;
	for (k = 0; k < m->plan; k++) {
		/* To be seen only by those who look at the clock twice. */
		if (qm_chance(m, 10))
			m->clock += qm_below(m, 5000);
		if (m->plan_heed_room && leat_ep_room(ep) == 0)
			break;
		i = qm_pick(m);
		if (i == QM_NONE)
			break;
		finish_any(m, i);
	}
	m->in_poll = false;
}

/* ---- the test ---- */

/* Makes an op wrong in one way, and says what leat_op_check() has to find. */
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
	case 2: /* closing, free, out of the table, none */
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

/* The queue that an op goes to. */
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
		LEAT_OP_SEND, LEAT_OP_SEND, LEAT_OP_RECV, LEAT_OP_RECV,	    LEAT_OP_TSEND,     LEAT_OP_TRECV,
		LEAT_OP_READ, LEAT_OP_WRITE, LEAT_OP_WRITE_IMM, LEAT_OP_FETCH_ADD,
	};
	struct leat_op *op = &o->op;

	/* A new op, or the one that came back posted again with other values. */
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
	uint32_t k, avail = fifo_count(&m->free);
	uint16_t got;

	n = RTE_MIN(n, RTE_MIN(avail, m->conf.burst_max));
	for (k = 0; k < n; k++) {
		struct qm_op *o = &m->ops[fifo_pop(&m->free)];

		prepare(m, o);
		m->burst[k] = &o->op;
	}
	/* The same op twice: the second one is refused. So is one in flight, held or ready. */
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
	/* What was refused is the caller's and untouched. */
	for (k = got; k < n; k++) {
		QM_CHECK(m, m->burst[k]->state == LEAT_OP_IDLE);
		fifo_push(&m->free, op_index(m, m->burst[k]));
	}
}

/* An op came back: is it the one that has to, and as it was posted? */
static void
returned(struct qm *m, struct leat_op *op)
{
	uint32_t i = fifo_pop(&m->out);
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
	fifo_push(&m->free, i);
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

	/* All that there is, no more than there is room for, nothing behind that room. */
	want = RTE_MIN(n, fifo_count(&m->out));
	QM_CHECK(m, got == want);
	QM_CHECK(m, m->burst[n] == NULL);
	for (k = 0; k < got; k++)
		returned(m, m->burst[k]);
	QM_CHECK(m, m->ep->nb_ready == fifo_count(&m->out));
	QM_CHECK(m, (m->ep->ready_head == NULL) == (fifo_count(&m->out) == 0));
	QM_CHECK(m, m->ep->out == NULL && leat_ep_room(m->ep) == 0);
}

void
qm_do_finish_outside(struct qm *m, uint32_t n)
{
	uint32_t i;

	while (n-- > 0 && (i = qm_pick(m)) != QM_NONE)
		finish_any(m, i);
	QM_CHECK(m, m->ep->nb_ready == fifo_count(&m->out));
}

void
qm_do_tick(struct qm *m)
{
	/* Up to 4, 64, 1 Ki, 16 Ki, 256 Ki, 4 Mi ns; seldom 256 s, near the wrap of held_since. */
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
	QM_CHECK(m, ep->stats.tx_bytes == m->stats.tx_bytes);
	QM_CHECK(m, ep->stats.rx_bytes == m->stats.rx_bytes);
	for (i = 0; i < QM_QUEUES; i++) {
		const struct qm_queue *mq = &m->queue[i];
		uint32_t front = fifo_front(&mq->fifo);

		QM_CHECK(m, mq->q->nb_posted == mq->posted0 + mq->posted);
		QM_CHECK(m, mq->q->nb_returned == mq->returned0 + mq->returned);
		QM_CHECK(m, leat_queue_count(mq->q) == fifo_count(&mq->fifo));
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

	while (m->nb_flight > 0 || fifo_count(&m->out) > 0) {
		qm_do_poll(m, m->conf.burst_max, m->conf.burst_max, false);
		QM_CHECK(m, guard++ <= 2 * (uint64_t)m->conf.nb_ops);
	}
	qm_check(m);
	QM_CHECK(m, fifo_count(&m->free) == m->conf.nb_ops);
	QM_CHECK(m, m->stats.posted == m->stats.returned);
	QM_CHECK(m, leat_ep_inflight(m->ep) == 0 && m->ep->nb_ready == 0 && m->ep->ready_head == NULL);
}
