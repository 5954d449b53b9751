/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Contexts: their memory, their requests, and the running of their connections.
 *
 * Every op is part of a slot, and all slots are in one allocation, so an op belongs to this context
 * if its address lies in that allocation. C is the number of credits, ctrl are control messages:
 *
 *     conns    [0]                          [1] ...
 *     slots    C tx | C rx | ctrl tx | 2 ctrl rx | C tx ...
 *     buffers  one per slot, registered
 */

#include <errno.h>
#include <stdlib.h>

#include "msg_below.h"
#include "msg_pvt.h"

static void
slot_init(struct leat_msg *m, struct msg_slot *s, enum msg_slot_kind kind, struct leat_msg_conn *c,
	  uint8_t *buf)
{
	s->kind = (uint8_t)kind;
	s->conn = c;
	s->buf = buf;
	s->op.type = kind == MSG_SLOT_TX || kind == MSG_SLOT_CTRL_TX ? LEAT_OP_TSEND
								     : LEAT_OP_TRECV;
	s->op.queue = LEAT_QUEUE_NONE;
	s->op.buf = buf;
	s->op.mr = m->mr;
	s->op.user = s;
	s->data.type = s->op.type;
	s->data.queue = LEAT_QUEUE_NONE;
	s->data.user = s;
}

static void
conn_init(struct leat_msg *m, uint32_t i, struct msg_slot *s, uint8_t *buf, size_t buf_len)
{
	struct leat_msg_conn *c = &m->conns[i];
	uint32_t k;

	c->m = m;
	c->ep = m->ep;
	c->mask = m->credits - 1u;
	c->tx = s;
	c->rx = s + m->credits;
	c->ctrl_tx = c->rx + m->credits;
	c->ctrl_rx = c->ctrl_tx + 1;
	for (k = 0; k < 2u * m->credits; k++)
		slot_init(m, &s[k], k < m->credits ? MSG_SLOT_TX : MSG_SLOT_RX, c,
			  buf + k * buf_len);
	buf += 2u * m->credits * buf_len;
	slot_init(m, c->ctrl_tx, MSG_SLOT_CTRL_TX, c, buf);
	for (k = 0; k < MSG_CTRL; k++)
		slot_init(m, &c->ctrl_rx[k], MSG_SLOT_CTRL_RX, c, buf + (k + 1) * MSG_CTRL_LEN);
}

static void *
zeroed(struct leat_msg *m, size_t len)
{
	void *p;

	len = RTE_ALIGN_CEIL(len, (size_t)LEAT_CACHE_LINE);
	p = aligned_alloc(LEAT_CACHE_LINE, len);
	if (p != NULL) {
		memset(p, 0, len);
		m->stats.memory += len;
	}
	return p;
}

static void
msg_free(struct leat_msg *m)
{
	free(m->conns);
	free(m->by_peer);
	free(m->rejected);
	free((void *)m->slots_base);
	free(m->buffers);
	free(m);
}

static int
msg_alloc(struct leat_msg *m)
{
	const uint32_t per_conn = 2u * m->credits + 1 + MSG_CTRL;
	/*
	 * Use an odd number of cache lines per buffer; otherwise the first lines of all buffers
	 * would compete for a few sets of the caches.
	 */
	const size_t buf_len =
		RTE_ALIGN_CEIL(m->eager_max + (size_t)MSG_HEAD_LEN, (size_t)LEAT_CACHE_LINE) |
		LEAT_CACHE_LINE;
	const size_t conn_len = RTE_ALIGN_CEIL(
		2u * m->credits * buf_len + (1 + MSG_CTRL) * MSG_CTRL_LEN, (size_t)LEAT_CACHE_LINE);
	struct msg_slot *slots;
	uint32_t i;

	m->slots_len = (uintptr_t)m->max_conns * per_conn * sizeof(*slots);
	slots = zeroed(m, m->slots_len);
	m->slots_base = (uintptr_t)slots;
	m->buffers = zeroed(m, m->max_conns * conn_len);
	m->conns = zeroed(m, m->max_conns * sizeof(*m->conns));
	m->by_peer = zeroed(m, m->ep->nb_peers * sizeof(*m->by_peer));
	m->rejected = zeroed(m, m->ep->nb_peers * sizeof(*m->rejected));
	if (slots == NULL || m->buffers == NULL || m->conns == NULL || m->by_peer == NULL ||
	    m->rejected == NULL)
		return leat_err(ENOMEM,
				"messages on %s: no memory for %u connections with %u credits",
				leat_ep_name(m->ep), m->max_conns, m->credits);
	if (m->ep->mr_local) {
		m->mr = leat_mr_register(m->ep, m->buffers, m->max_conns * conn_len, LEAT_MR_LOCAL);
		if (m->mr == NULL)
			return -rte_errno;
	}
	for (i = 0; i < m->max_conns; i++)
		conn_init(m, i, slots + i * per_conn, m->buffers + i * conn_len, buf_len);
	return 0;
}

struct leat_msg *
leat_msg_create(struct leat_ep *ep, const struct leat_msg_conf *conf)
{
	struct leat_dev_info info;
	struct leat_msg *m;

	if (leat_dev_info_for(ep->dev, ep->op_mask, &info) < 0)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (m == NULL) {
		leat_err(ENOMEM, "messages on %s: no memory", leat_ep_name(ep));
		return NULL;
	}
	m->ep = ep;
	m->dev_max = ep->max_msg;
	m->priv_max[0] = info.priv_connect;
	m->priv_max[1] = info.priv_accept;
	m->stats.memory = sizeof(*m);
	msg_timeouts_init(m);
	if (msg_conf_take(m, conf) < 0 || msg_numbers_start() < 0 || msg_tune_add(m) < 0 ||
	    msg_alloc(m) < 0) {
		int err = rte_errno;

		leat_tune_del(m->tune);
		msg_free(m);
		rte_errno = err;
		return NULL;
	}
	msg_telemetry_add(m);
	return m;
}

int
leat_msg_destroy(struct leat_msg *m)
{
	int ret;

	if (m == NULL)
		return 0;
	ret = msg_below_destroy(m);
	if (ret < 0)
		return ret;
	if (m->nb_open > 0)
		return leat_err(EBUSY,
				"messages on %s: %u connections are open: leat_msg_close() each",
				leat_ep_name(m->ep), m->nb_open);
	if (m->mr != NULL) {
		ret = leat_mr_deregister(m->mr);
		if (ret < 0)
			return ret;
	}
	msg_telemetry_del(m);
	leat_tune_del(m->tune);
	msg_free(m);
	return 0;
}

/* ---- requests ---- */

/*
 * Forget the buffer that a request got when it was posted before, unless the caller has set a
 * different buffer since.
 */
static void __rte_noinline
given_take(struct leat_msg_req *req)
{
	if (req->buf == req->given_buf) {
		req->buf = NULL;
		req->mr = NULL;
	}
	req->given = 0;
}

void __rte_noinline
msg_take_flags(struct leat_msg_req *req)
{
	req->answer_waits = 0;
	if ((req->flags & LEAT_MSG_F_DEADLINE) != 0)
		msg_deadline_start(req);
	if ((req->flags & MSG_F_GATHER) != 0 && req->recv == 0)
		msg_gather_take(req);
}

static uint16_t
req_take(struct leat_msg_conn *c, struct msg_list *list, struct leat_msg_req **reqs, uint16_t n,
	 bool recv)
{
	uint16_t i;

	if (unlikely((recv ? c->closing : c->no_sends) || c->state == MSG_FREE)) {
		rte_errno = ESHUTDOWN;
		return 0;
	}
	for (i = 0; i < n; i++) {
		struct leat_msg_req *req = reqs[i];

		if (unlikely(req->state != MSG_REQ_IDLE)) {
			rte_errno = EALREADY;
			break;
		}
		if (recv && unlikely(req->given != 0))
			given_take(req);
		req->state = MSG_REQ_QUEUED;
		req->conn = c;
		req->recv = recv;
		msg_list_add(list, req);
		if (unlikely(req->flags != 0))
			msg_take_flags(req);
	}
	return i;
}

uint16_t
msg_tx_queue(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	n = req_take(c, &c->sendq, reqs, n, false);
	if (likely(c->state == MSG_OPEN))
		msg_tx_run(c);
	else if (c->state >= MSG_ENDING)
		msg_work(c);
	return n;
}

uint16_t
leat_msg_recv(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n)
{
	n = req_take(c, &c->recvq, reqs, n, true);
	/*
	 * A message that waits gets its receive in the next leat_msg_process() or leat_msg_poll(),
	 * never in this call.
	 */
	if (c->rx_arrived > 0 || c->state >= MSG_ENDING || c->peer_ended)
		msg_work(c);
	else if (c->early)
		msg_later(c);
	return n;
}

int
leat_msg_cancel(struct leat_msg_req *req)
{
	struct leat_msg_conn *c = req->conn;

	switch (req->state) {
	case MSG_REQ_QUEUED:
		break;
	case MSG_REQ_STARTED:
		return req->recv != 0 ? msg_early_cancel(c, req) : -EOPNOTSUPP;
	default:
		return -ENOENT;
	}
	msg_req_finish(req, -ECANCELED, 0);
	req->state = MSG_REQ_CANCELLED;
	msg_list_give(c->m, req->recv != 0 ? &c->recvq : &c->sendq);
	return 0;
}

/* ---- running connections ---- */

static void
conn_run(struct leat_msg_conn *c)
{
	if (likely(c->state == MSG_OPEN)) {
		msg_rx_run(c);
		if (likely(c->state == MSG_OPEN))
			msg_tx_run(c);
		if (unlikely(c->end_due))
			msg_end_run(c);
		msg_ctrl_run(c);
		if (unlikely(c->draining))
			msg_drain(c);
	}
	if (unlikely(c->state == MSG_ENDING))
		msg_ending(c);
	else if (unlikely(c->state == MSG_OVER))
		msg_over(c);
	if (unlikely(c->abandoned))
		msg_abandoned_run(c);
}

/* A queue of connections, linked by next_work. */
struct line {
	struct leat_msg_conn *head, **end;
};

static void
line_add(struct line *line, struct leat_msg_conn *c)
{
	c->next_work = NULL;
	*line->end = c;
	line->end = &c->next_work;
}

/*
 * Run connections fairly while some wait for buffers, or for room in the endpoint, of which there
 * may be less than all need. Connections that waited before come first, in the order in which they
 * began to wait. A connection that got a buffer or room is queued behind those that got none. So
 * every connection is served in its turn, even if other connections ask more often.
 */
static void __rte_cold
run_in_turn(struct leat_msg *m, struct leat_msg_conn *c)
{
	struct line waiting = { NULL, &waiting.head }, others = { NULL, &others.head };
	struct line again = { NULL, &again.head }, served = { NULL, &served.head };
	struct leat_msg_conn *next;

	m->starved = false;
	for (; c != NULL; c = next) {
		next = c->next_work;
		line_add(c->waits ? &waiting : &others, c);
	}
	*waiting.end = others.head;
	for (c = waiting.head; c != NULL; c = next) {
		const uint32_t out = c->tx_out + c->rx_out;

		next = c->next_work;
		c->in_work = c->waits = c->got_buffer = false;
		conn_run(c);
		if (!c->in_work)
			continue;
		/* The connection is first in m->work again: move it to `served` or `again`. */
		m->work = c->next_work;
		line_add(c->got_buffer || c->tx_out + c->rx_out > out ? &served : &again, c);
	}
	*served.end = m->work;
	*again.end = served.head;
	m->work = again.head;
}

void
msg_run(struct leat_msg *m)
{
	struct leat_msg_conn *c = m->work, *next;

	m->work = NULL;
	if (unlikely(m->starved)) {
		run_in_turn(m, c);
		return;
	}
	for (; c != NULL; c = next) {
		next = c->next_work;
		c->in_work = false;
		conn_run(c);
	}
}

/* Do the work that was put off until the application has nothing to do. */
static void
run_later(struct leat_msg *m)
{
	struct leat_msg_conn *c = m->later, *next;

	m->later = NULL;
	m->held = false;
	for (; c != NULL; c = next) {
		next = c->next_later;
		c->in_later = false;
		if (c->state != MSG_OPEN)
			continue;
		if (c->tx_held > 0)
			msg_tx_run(c);
		if (c->state != MSG_OPEN)
			continue;
		msg_rx_later(c);
		msg_ctrl_run(c);
	}
}

static __rte_always_inline void
taken(struct leat_msg *m, struct leat_msg_req *req)
{
	req->state = MSG_REQ_IDLE;
	if (unlikely(req->flags != 0))
		leat_wheel_del(&m->wheel, &req->timer);
}

/* Count a message that the application gets in this turn, since it may answer each. */
static inline void
note_given(const struct leat_msg *m, const struct leat_msg_req *req)
{
	struct leat_msg_conn *c = req->conn;

	if (req->recv == 0)
		return;
	if (c->given_turn != m->turn) {
		c->given_turn = m->turn;
		c->given = 0;
	}
	c->given += c->given < UINT16_MAX;
	c->want = RTE_MAX(c->given, c->stream);
}

/*
 * Return leat_msg.cut after one more poll that left requests behind. It must not wrap to 0, which
 * means that none were left. So UINT8_MAX is followed by MSG_CUT_MAX, which ends a turn, as 256
 * would.
 */
static inline uint8_t
cut_next(uint8_t cut)
{
	static_assert((UINT8_MAX + 1) % MSG_CUT_MAX == 0, "256 polls are a number of turns");

	return cut == UINT8_MAX ? MSG_CUT_MAX : (uint8_t)(cut + 1);
}

static __rte_noinline uint16_t
give_many(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n)
{
	struct leat_msg_req *req = m->done.head;
	uint16_t i;

	for (i = 0; i < n && req != NULL; i++) {
		taken(m, req);
		note_given(m, req);
		reqs[i] = req;
		req = req->next;
	}
	m->done.head = req;
	if (req == NULL)
		m->cut = 0;
	else if (n > 0)
		m->cut = cut_next(m->cut);
	return i;
}

/* Give out done requests, of which there is at least one. */
static __rte_always_inline uint16_t
give_out(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n)
{
	struct leat_msg_req *req = m->done.head;

	if (unlikely(req->next != NULL || n == 0 || m->cut != 0))
		return give_many(m, reqs, n);
	taken(m, req);
	reqs[0] = req;
	m->done.head = NULL;
	return 1;
}

static __rte_noinline uint16_t
resume(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n)
{
	if (m->work != NULL)
		msg_run(m);
	if (m->later != NULL)
		run_later(m);
	return m->done.head != NULL ? give_out(m, reqs, n) : 0;
}

void
leat_msg_flush(struct leat_msg *m)
{
	if (m->work != NULL)
		msg_run(m);
	if (m->held)
		run_later(m);
}

uint16_t
leat_msg_poll(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n)
{
	m->turn += m->cut % MSG_CUT_MAX == 0;
	/* Give out done requests first; other work can wait until the application is idle. */
	if (m->done.head != NULL) {
		if (unlikely(m->held && m->turn - m->held_turn >= MSG_HOLD_TURNS))
			leat_msg_flush(m);
		return give_out(m, reqs, n);
	}
	if (unlikely(m->work != NULL || m->later != NULL))
		return resume(m, reqs, n);
	return 0;
}
