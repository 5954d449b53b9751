/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Requests of this side.
 *
 *     IDLE --post--> QUEUED --begin--> STARTED: has a slot --response--> DONE --poll--> IDLE
 *                      |                  |                              ^
 *                      `------ cancel, time-out, end of the session -----'
 *
 * When a request is given back before its response has arrived, its slot becomes an ORPHAN. The
 * slot then waits for the response before it is given to another request, so a late response finds
 * the slot and the number that it answers.
 */

#include "rpc_fast.h"

static void
slot_free(struct leat_rpc_session *s, struct rpc_tx_slot *ts)
{
	const uint16_t slot = (uint16_t)(ts - s->tx);

	ts->state = RPC_TX_FREE;
	ts->req = NULL;
	ts->deadline = UINT64_MAX;
	if (likely(slot < s->nb_slots)) {
		ts->next_free = s->free_slot;
		s->free_slot = slot;
	} else {
		ts->next_free = s->free_internal;
		s->free_internal = slot;
	}
	if (unlikely(rpc_any_pending(s)))
		rpc_work_add(s);
}

void
rpc_req_done(struct leat_rpc *rpc, struct leat_rpc_req *req, int status)
{
	if (leat_wheel_queued(&req->timer))
		leat_wheel_del(&rpc->wheel, &req->timer);
	req->status = status;
	req->state = RPC_REQ_DONE;
	req->held = 0;
	rpc->stats.done++;
	if (req->done != NULL) {
		req->state = RPC_REQ_IDLE;
		req->done(req);
		return;
	}
	rpc_done_add(rpc, req);
}

/* ---- post ---- */

/* Count a request, and set its out fields as for a request that no handler has seen. */
static void
req_accept(struct leat_rpc *rpc, struct leat_rpc_req *req)
{
	req->status = 0;
	req->resp_len = 0;
	req->busy_us = 0;
	req->refused = 1;
	req->slot = RPC_NO_SLOT;
	rpc->stats.posted++;
	req->held = 0;
}

static void
req_take(struct leat_rpc *rpc, struct leat_rpc_session *s, struct leat_rpc_req *req)
{
	uint64_t when = req->deadline;

	req_accept(rpc, req);
	if (unlikely((req->len > 0 && req->buf == NULL) || (req->room > 0 && req->resp == NULL) ||
		     !rpc_bulk_valid(req))) {
		rpc_req_done(rpc, req, -EINVAL);
		return;
	}
	if (unlikely(s->state >= RPC_ENDING && !s->will_reconnect)) {
		rpc_req_done(rpc, req, s->status != 0 ? s->status : -ENOTCONN);
		return;
	}
	req->state = RPC_REQ_QUEUED;
	if (when == 0)
		when = leat_time_add(rpc_now(rpc), s->default_cycles);
	if (when != LEAT_RPC_NO_DEADLINE)
		rpc_deadline_start(rpc, req, when);
	if (s->open == NULL && !rpc_any_pending(s) && s->state == RPC_OPEN)
		leat_ep_post_soon(rpc->ep, s->peer);
	s->nb_reqs++;
	rpc_list_add(rpc_pending(s, req), req);
	rpc_work_add(s);
}

/* Begin requests from the front of reqs on the fast path. @return number of requests begun */
static uint16_t
post_fast(struct leat_rpc *rpc, struct leat_rpc_session *s, struct leat_rpc_req **reqs, uint16_t n)
{
	uint16_t k;

	if (unlikely(s->pending.head != NULL || s->out != NULL))
		return 0;
	if (s->open == NULL)
		leat_ep_post_soon(rpc->ep, s->peer);
	k = (uint16_t)(rpc_fast_post(s, reqs, reqs + n) - reqs);
	s->nb_reqs += k;
	rpc->stats.posted += k;
	rpc->stats.items_sent += k;
	rpc_work_add(s);
	return k;
}

uint16_t
leat_rpc_post(struct leat_rpc_req **reqs, uint16_t n)
{
	struct leat_rpc *rpc = NULL;
	uint16_t i = 0, k;

	while (i < n) {
		struct leat_rpc_req *req = reqs[i];
		struct leat_rpc_session *s = req->session;

		if (rpc == NULL) {
			rpc = s->rpc;
			if (!rpc->in_process)
				rpc->now = 0;
		}
		/* Not while a handler runs: it may be writing its response to the open packet. */
		if (likely(s->fast && !rpc->in_process)) {
			k = post_fast(rpc, s, &reqs[i], (uint16_t)(n - i));
			i = (uint16_t)(i + k);
			if (k > 0)
				continue;
		}
		if (unlikely(req->state != RPC_REQ_IDLE)) {
			rte_errno = EALREADY;
			break;
		}
		if (unlikely(s->closing || s->state == RPC_FREE)) {
			rte_errno = ESHUTDOWN;
			break;
		}
		if (unlikely((req->flags & ~(LEAT_RPC_ONEWAY | LEAT_RPC_BULK)) != 0)) {
			req_accept(rpc, req);
			rpc_req_done(rpc, req, -EINVAL);
		} else {
			req_take(rpc, s, req);
		}
		i++;
	}
	if (rpc != NULL && !rpc->in_process)
		rpc_run(rpc);
	return i;
}

void
rpc_req_post(struct leat_rpc_req *req)
{
	struct leat_rpc *rpc = req->session->rpc;

	if (!rpc->in_process)
		rpc->now = 0;
	req_take(rpc, req->session, req);
	if (!rpc->in_process)
		rpc_run(rpc);
}

/* ---- begin ---- */

static void
req_started(struct leat_rpc_session *s, struct leat_rpc_req *req)
{
	rpc_list_del(rpc_pending(s, req), req);
	req->state = RPC_REQ_STARTED;
	req->refused = 0;
}

static void
req_refuse(struct leat_rpc_session *s, struct leat_rpc_req *req, int status)
{
	rpc_list_del(rpc_pending(s, req), req);
	s->nb_reqs--;
	rpc_req_done(s->rpc, req, status);
}

/* Take a slot for a request, with the slot's next number. */
static struct rpc_tx_slot *
slot_take(struct leat_rpc_session *s, struct leat_rpc_req *req)
{
	uint16_t *free_slot = unlikely((req->flags & RPC_REQ_INTERNAL) != 0) ? &s->free_internal
									     : &s->free_slot;
	struct rpc_tx_slot *ts = &s->tx[*free_slot];

	req->slot = *free_slot;
	*free_slot = ts->next_free;
	ts->req = req;
	ts->num++;
	ts->deadline = UINT64_MAX; /* the request's own timer has its deadline, if any */
	ts->slow = true;
	ts->got = ts->resp_size = 0;
	s->tx_more[req->slot].out.size = s->tx_more[req->slot].out.sent = 0;
	ts->state = RPC_TX_WAIT;
	return ts;
}

uint32_t
rpc_us_for_wire(struct leat_rpc *rpc, uint64_t when)
{
	uint64_t now, us;

	if (when == LEAT_RPC_NO_DEADLINE)
		return 0;
	now = rpc_now(rpc);
	if (when <= now)
		return 1;
	us = leat_cycles_to_ns(when - now) / 1000;
	/* A time too long for the field is sent as no limit: only this side ends the request. */
	return us >= UINT32_MAX - 1 ? 0 : (uint32_t)us + 1;
}

uint32_t
rpc_req_us_left(struct leat_rpc *rpc, const struct leat_rpc_req *req)
{
	if (!leat_wheel_queued(&req->timer))
		return 0;
	return rpc_us_for_wire(rpc, req->timer.expiry);
}

static uint16_t
wire_flags(const struct leat_rpc_req *req)
{
	uint16_t flags = 0;

	if (unlikely(req->flags != 0)) {
		flags |= (req->flags & LEAT_RPC_ONEWAY) != 0 ? RPC_F_ONEWAY : 0;
		flags |= (req->flags & LEAT_RPC_BULK) != 0 ? RPC_F_BULK : 0;
		flags |= (req->flags & RPC_REQ_INTERNAL) != 0 ? RPC_F_INTERNAL : 0;
	}
	return flags;
}

static bool
small_begin(struct leat_rpc_session *s, struct leat_rpc_req *req, bool slotless)
{
	const uint32_t descs = rpc_bulk_req_len(req), len = descs + req->len;
	uint8_t *at = rpc_place(s, rpc_item_len(len), false);
	struct rpc_item m = {
		.kind = RPC_REQUEST,
		.type = req->type,
		.slot = RPC_NO_SLOT,
		.size = len,
		.len = (uint16_t)len,
		.flags = wire_flags(req),
	};
	int err;

	if (at == NULL)
		return false;
	if (unlikely(descs > 0)) {
		err = rpc_bulk_describe(s, req, at + RPC_ITEM_LEN);
		if (err < 0) {
			req_refuse(s, req, err);
			return true;
		}
	}
	m.aux = rpc_req_us_left(s->rpc, req);
	req_started(s, req);
	if (!slotless) {
		m.num = slot_take(s, req)->num;
		m.slot = req->slot;
	}
	rpc_item_put(at, &m);
	if (req->len > 0)
		memcpy(at + RPC_ITEM_LEN + descs, req->buf, req->len);
	rpc_commit(s, rpc_item_len(len));
	if (slotless) {
		s->nb_reqs--;
		rpc_req_done(s->rpc, req, 0);
	}
	return true;
}

/* Begin internal requests: they have slots of their own, and each fits a packet. */
static bool
internal_begin(struct leat_rpc_session *s)
{
	bool any = false;

	while (s->internal.head != NULL && s->free_internal != RPC_NONE &&
	       small_begin(s, s->internal.head, false))
		any = true;
	return any;
}

/* Begin requests until a packet is full. */
bool
rpc_reqs_begin(struct leat_rpc_session *s)
{
	const struct rpc_packet *packet = NULL;
	struct leat_rpc_req *req;
	bool any = false;

	if (unlikely(s->internal.head != NULL))
		any = internal_begin(s);
	while ((req = s->pending.head) != NULL) {
		const uint64_t len = (uint64_t)req->len + rpc_bulk_req_len(req);
		const bool large = len > s->small_max, bulk = len > req->len;
		const bool slotless = !large && (req->flags & LEAT_RPC_ONEWAY) != 0;

		if (unlikely(len > s->peer_max_msg ||
			     (large && (bulk || (s->features & RPC_FEATURE_LARGE) == 0)))) {
			req_refuse(s, req, -EMSGSIZE);
			continue;
		}
		if (unlikely(bulk && (s->features & RPC_FEATURE_BULK) == 0)) {
			req_refuse(s, req, -EOPNOTSUPP);
			continue;
		}
		if (!slotless && s->free_slot == RPC_NONE)
			break;
		if (unlikely(large)) {
			req_started(s, req);
			(void)slot_take(s, req);
			rpc_out_add(s, &s->tx_more[req->slot].out, req->buf, req->len);
			any = true;
			continue;
		}
		if (!small_begin(s, req, slotless))
			break;
		any = true;
		if (packet == NULL)
			packet = s->open;
		else if (packet != s->open)
			break;
	}
	return any;
}

/* ---- response ---- */

/*
 * Move a request that rpc_fast_post() began to the slow path: set the fields that
 * rpc_fast_responses() would have set at the end.
 */
static void
slot_slow(struct leat_rpc_session *s, struct rpc_tx_slot *ts)
{
	struct rpc_tx_more *more = &s->tx_more[ts - s->tx];

	if (ts->slow)
		return;
	ts->slow = true;
	ts->got = ts->resp_size = 0;
	more->out.size = more->out.sent = 0;
	ts->req->resp_len = 0;
	ts->req->busy_us = 0;
}

static void
response_done(struct leat_rpc_session *s, struct rpc_tx_slot *ts, int status)
{
	struct leat_rpc_req *req = ts->req;

	if (likely(ts->state == RPC_TX_WAIT)) {
		s->nb_reqs--;
		/* The request had ended before, and waited for its memory to be released. */
		if (unlikely(req->held == RPC_HELD_ENDING))
			status = req->status;
		rpc_req_done(s->rpc, req, status);
	} else {
		s->rpc->stats.late++;
	}
	slot_free(s, ts);
}

/* Give a request back, and make its slot an orphan: the rest of the response is dropped. */
static void
orphan(struct leat_rpc_session *s, struct rpc_tx_slot *ts, int status)
{
	struct leat_rpc_req *req = ts->req;

	ts->state = RPC_TX_ORPHAN;
	ts->req = NULL;
	ts->deadline = UINT64_MAX;
	s->nb_reqs--;
	rpc_req_done(s->rpc, req, status);
}

/* Handle a response with an error status: it is one piece, and replaces earlier pieces. */
static void
failure_arrived(struct leat_rpc_session *s, struct rpc_tx_slot *ts, const struct rpc_item *m,
		const uint8_t *data)
{
	struct rpc_out *out = &s->tx_more[m->slot].out;
	struct leat_rpc_req *req = ts->req;

	if (out->queued)
		rpc_out_del(s, out);
	if (ts->state == RPC_TX_WAIT) {
		req->refused = (m->flags & RPC_F_REFUSED) != 0;
		if (req->refused != 0) {
			if (m->aux == EBUSY && m->len == 4)
				req->busy_us = leat_get_le32(data);
		} else if (m->len <= req->room) {
			req->resp_len = m->len;
			if (m->len > 0)
				memcpy(req->resp, data, m->len);
		}
	}
	response_done(s, ts, -(int)m->aux);
}

static int
slot_check(const struct rpc_tx_slot *ts, const struct rpc_item *m)
{
	const int32_t ahead = (int32_t)(m->num - ts->num);

	if (ahead == 0)
		return ts->state == RPC_TX_FREE ? LEAT_RPC_UNASKED : 0;
	return ahead < 0 ? LEAT_RPC_NUM_PAST : LEAT_RPC_NUM_FUTURE;
}

int
rpc_response_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data)
{
	const struct rpc_out *out;
	struct rpc_tx_slot *ts;
	struct leat_rpc_req *req;
	int bad;

	if (unlikely(m->slot >= rpc_slots(s)))
		return LEAT_RPC_BAD_SLOT;
	ts = &s->tx[m->slot];
	/* Drop pieces of a response that the other side gave up: the error status overtook them. */
	if (unlikely(s->dg != NULL && m->len != m->size &&
		     ((int32_t)(m->num - ts->num) < 0 ||
		      (m->num == ts->num && ts->state == RPC_TX_FREE))))
		return 0;
	bad = slot_check(ts, m);
	if (unlikely(bad != 0))
		return bad;
	slot_slow(s, ts);
	if (unlikely(m->aux != 0)) {
		failure_arrived(s, ts, m, data);
		return 0;
	}
	/* Only an error status may arrive before the whole request was sent. */
	out = &s->tx_more[m->slot].out;
	if (unlikely(out->queued || out->size > out->sent))
		return LEAT_RPC_UNASKED;
	if (s->dg != NULL ? ts->got == 0 : m->off == 0)
		ts->resp_size = m->size;
	if (unlikely(m->size != ts->resp_size || m->len > m->size - ts->got))
		return LEAT_RPC_BAD_PIECE;
	/*
	 * The pieces of a response are copied to the caller's buffer. Over datagram endpoints they
	 * arrive in any order, and only their bytes are counted: a piece that the other side sends
	 * twice, in two packets, is not detected.
	 */
	if (unlikely(s->dg != NULL ? m->len != m->size && !rpc_piece_fits(s, m)
				   : m->off != ts->got))
		return LEAT_RPC_BAD_PIECE;
	if (unlikely(m->size > s->rpc->max_msg))
		return LEAT_RPC_OVERSIZE;
	if (likely(ts->state == RPC_TX_WAIT)) {
		req = ts->req;
		req->resp_len = m->size;
		if (unlikely(m->size > req->room))
			orphan(s, ts, -EMSGSIZE);
		else if (m->len > 0)
			memcpy((uint8_t *)req->resp + m->off, data, m->len);
	}
	ts->got += m->len;
	if (likely(ts->got == m->size))
		response_done(s, ts, 0);
	return 0;
}

/* ---- cancel, time-out, end of the session ---- */

void
rpc_req_abandon(struct leat_rpc_req *req, int status)
{
	struct leat_rpc_session *s = req->session;
	struct rpc_tx_more *more;
	struct rpc_tx_slot *ts;
	bool unsent;

	if (req->state == RPC_REQ_QUEUED) {
		req_refuse(s, req, status);
		return;
	}
	ts = &s->tx[req->slot];
	more = &s->tx_more[req->slot];
	if (unlikely(req->held == RPC_HELD_ENDING)) {
		/* The grace time of the request's memory has passed. */
		rpc_fail(s, -ETIMEDOUT, "peer %u does not release a request's memory", s->peer);
		return;
	}
	slot_slow(s, ts);
	unsent = more->out.queued;
	if (unsent && more->out.sent == 0) {
		/* No piece was sent: the other side never sees the request, so its number is used
		 * again. */
		rpc_out_del(s, &more->out);
		ts->num--;
		req->refused = 1;
		response_done(s, ts, status);
		return;
	}
	/* The other side knows the deadline itself. It needs a CANCEL for everything else: a cancel
	 * by the caller, pieces that will not follow, and memory that it must release. */
	if ((status == -ECANCELED || unsent || req->held != 0) && !more->cancel) {
		more->cancel = true;
		more->next_cancel = RPC_NONE;
		if (s->cancel_head == RPC_NONE)
			s->cancel_head = req->slot;
		else
			s->tx_more[s->cancel_tail].next_cancel = req->slot;
		s->cancel_tail = req->slot;
		rpc_work_add(s);
	}
	if (unsent)
		rpc_out_del(s, &more->out);
	if (unlikely(req->held != 0)) {
		req->held = RPC_HELD_ENDING;
		req->status = status;
		ts->deadline = UINT64_MAX;
		rpc_deadline_start(s->rpc, req, leat_time_add(rpc_now(s->rpc), s->rpc->grace));
		return;
	}
	orphan(s, ts, status);
}

int
leat_rpc_cancel(struct leat_rpc_req *req)
{
	if (req->state != RPC_REQ_QUEUED && req->state != RPC_REQ_STARTED)
		return -ENOENT;
	if (req->held == RPC_HELD_ENDING)
		return -EALREADY;
	req->session->rpc->stats.cancelled++;
	rpc_req_abandon(req, -ECANCELED);
	return req->held == RPC_HELD_ENDING;
}

bool
rpc_cancels_send(struct leat_rpc_session *s)
{
	while (s->cancel_head != RPC_NONE) {
		const struct rpc_tx_slot *ts = &s->tx[s->cancel_head];
		struct rpc_tx_more *more = &s->tx_more[s->cancel_head];
		struct rpc_item m = { .kind = RPC_CANCEL, .slot = s->cancel_head, .num = ts->num };
		uint8_t *at;

		/* A request that was answered in the meantime needs no CANCEL. */
		if (ts->state == RPC_TX_ORPHAN ||
		    (ts->state == RPC_TX_WAIT && ts->req->held == RPC_HELD_ENDING)) {
			at = rpc_place(s, RPC_ITEM_LEN, true);
			if (at == NULL)
				return false;
			rpc_item_put(at, &m);
			rpc_commit(s, RPC_ITEM_LEN);
		}
		more->cancel = false;
		s->cancel_head = more->next_cancel;
	}
	return true;
}

/*
 * Mark as ended a request whose memory the other side can reach. rpc_reqs_free() gives it back to
 * the caller when the connection no longer exists.
 */
static void
held_end(struct leat_rpc_session *s, struct leat_rpc_req *req, int status)
{
	if (leat_wheel_queued(&req->timer))
		leat_wheel_del(&s->rpc->wheel, &req->timer);
	if (req->held != RPC_HELD_ENDING)
		req->status = status;
	req->held = RPC_HELD_ENDING;
}

/*
 * A long request of which no piece was sent counts as not begun: return such requests to the
 * pending list, to its front, since they were posted before the requests in it.
 */
static void
unsent_withdraw(struct leat_rpc_session *s)
{
	struct rpc_req_list first = { 0 };
	struct rpc_out *out, *next;

	for (out = s->out; out != NULL; out = next) {
		struct rpc_tx_slot *ts = &s->tx[out->slot];
		struct leat_rpc_req *req = ts->req;

		next = out->next;
		if (out->response || out->sent > 0)
			continue;
		rpc_out_del(s, out);
		ts->state = RPC_TX_FREE;
		ts->req = NULL;
		req->state = RPC_REQ_QUEUED;
		req->refused = 1;
		req->held = 0;
		req->slot = RPC_NO_SLOT;
		rpc_list_add(&first, req);
	}
	if (first.head == NULL)
		return;
	first.tail->next = s->pending.head;
	if (s->pending.head != NULL)
		s->pending.head->prev = first.tail;
	else
		s->pending.tail = first.tail;
	s->pending.head = first.head;
}

/*
 * End the requests of a session that ends. Those that wait for the next connection stay.
 */
void
rpc_reqs_end(struct leat_rpc_session *s, int status)
{
	struct leat_rpc_req *req;
	uint16_t i;

	unsent_withdraw(s);
	while ((req = s->internal.head) != NULL)
		req_refuse(s, req, status);
	while (!s->will_reconnect && (req = s->pending.head) != NULL)
		req_refuse(s, req, status);
	for (i = 0; i < rpc_slots(s) && s->nb_reqs > 0; i++) {
		if (s->tx[i].state != RPC_TX_WAIT)
			continue;
		slot_slow(s, &s->tx[i]);
		if (unlikely(s->tx[i].req->held != 0))
			held_end(s, s->tx[i].req, status);
		else
			orphan(s, &s->tx[i], status);
	}
	s->cancel_head = RPC_NONE;
}

void
rpc_reqs_free(struct leat_rpc_session *s)
{
	uint16_t i;

	for (i = 0; i < rpc_slots(s) && s->nb_reqs > 0; i++) {
		if (s->tx[i].state == RPC_TX_WAIT)
			orphan(s, &s->tx[i], s->tx[i].req->status);
	}
}

uint16_t
rpc_reqs_give(struct leat_rpc *rpc, struct leat_rpc_req **reqs, uint16_t n)
{
	struct leat_rpc_req *req = rpc->done.head;
	uint16_t i = 0;

	while (req != NULL && i < n) {
		req->state = RPC_REQ_IDLE;
		reqs[i++] = req;
		req = req->next;
	}
	rpc->done.head = req;
	return i;
}
