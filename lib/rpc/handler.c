/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Requests of the other side: handlers and answers.
 *
 *     IDLE --request--> handler --response, in the open packet--> IDLE
 *       |                  |`--deferred--> DEFERRED --leat_rpc_answer()--> ANSWER
 *       |                   `--longer than a packet--> SENDING --last piece--> IDLE
 *       |--first piece--> ASSEMBLING --last piece--> handler
 *       `--refused------> ANSWER --place in a packet--> IDLE; or DROPPING, if pieces may follow
 *
 * A handler is called only when its response has a place: in the open packet, in another free
 * packet, or in memory for long messages. Without a place the request is refused, so no executed
 * request is left unanswered for lack of room.
 */

#include <leat_le.h>

#include "rpc_pvt.h"

void
rpc_slot_idle(struct leat_rpc_session *s, struct rpc_rx_slot *rs)
{
	if (rs->state != RPC_RX_IDLE && rs->state != RPC_RX_DROPPING)
		s->nb_handling--;
	rs->state = RPC_RX_IDLE;
}

static void
slot_use(struct leat_rpc_session *s, struct rpc_rx_slot *rs, enum rpc_rx_state state)
{
	if (rs->state == RPC_RX_IDLE || rs->state == RPC_RX_DROPPING)
		s->nb_handling++;
	rs->state = (uint8_t)state;
}

void
rpc_answer_queue(struct leat_rpc_session *s, uint16_t slot)
{
	struct rpc_rx_slot *rs = &s->rx[slot];

	slot_use(s, rs, RPC_RX_ANSWER);
	rs->next_answer = RPC_NONE;
	if (s->answer_head == RPC_NONE)
		s->answer_head = slot;
	else
		s->rx[s->answer_tail].next_answer = slot;
	s->answer_tail = slot;
	rpc_work_add(s);
}

static void
answer_status(struct leat_rpc_session *s, uint16_t slot, int err, uint16_t flags, bool rest)
{
	struct rpc_rx_more *more = &s->rx_more[slot];

	more->ticket = NULL;
	more->status = (uint16_t)err;
	more->flags = flags;
	more->rest = rest;
	more->busy_us = err == EBUSY ? s->rpc->busy_us : 0;
	rpc_answer_queue(s, slot);
}

void
rpc_refuse_slot(struct leat_rpc_session *s, uint16_t slot, int err, bool rest)
{
	s->rpc->stats.refused++;
	s->rpc->stats.busy += err == EBUSY;
	if (slot != RPC_NO_SLOT)
		answer_status(s, slot, err, RPC_F_REFUSED, rest);
}

/* ---- queued answers ---- */

static bool
answer_send(struct leat_rpc_session *s, uint16_t slot)
{
	const struct rpc_rx_slot *rs = &s->rx[slot];
	const struct rpc_rx_more *more = &s->rx_more[slot];
	const struct rpc_ticket *t = more->ticket;
	struct rpc_item m = {
		.kind = RPC_RESPONSE,
		.type = rs->type,
		.slot = slot,
		.num = rs->num,
		.flags = more->flags,
		.aux = more->status,
	};
	const void *data = NULL;
	uint8_t busy[4], *at;

	if (t != NULL) {
		m.len = (uint16_t)t->call.resp_len;
		data = t->call.resp;
	} else if (more->busy_us != 0) {
		leat_put_le32(busy, more->busy_us);
		m.len = sizeof(busy);
		data = busy;
	}
	m.size = m.len;
	at = rpc_place(s, rpc_item_len(m.len), true);
	if (at == NULL)
		return false;
	rpc_item_put(at, &m);
	if (m.len > 0)
		memcpy(at + RPC_ITEM_LEN, data, m.len);
	rpc_commit(s, rpc_item_len(m.len));
	return true;
}

bool
rpc_answers_send(struct leat_rpc_session *s)
{
	while (s->answer_head != RPC_NONE) {
		const uint16_t slot = s->answer_head;
		struct rpc_rx_slot *rs = &s->rx[slot];
		struct rpc_rx_more *more = &s->rx_more[slot];

		if (!answer_send(s, slot))
			return false;
		s->answer_head = rs->next_answer;
		if (more->ticket != NULL)
			rpc_ticket_free(s->rpc, more->ticket);
		more->ticket = NULL;
		rpc_slot_idle(s, rs);
		if (more->rest)
			rs->state = RPC_RX_DROPPING;
	}
	return true;
}

/* ---- handling ---- */

uint8_t *
rpc_response_room(struct leat_rpc_session *s, uint32_t room)
{
	if (s->open == NULL && rpc_place(s, rpc_item_len(room), true) == NULL)
		return NULL;
	if (likely(rpc_open_room(s) >= room))
		return s->at;
	/* The response is written to scratch memory, and copied to another packet afterwards. */
	return rpc_packet_available(s) ? s->rpc->scratch : NULL;
}

/*
 * Find a place for a response of up to resp_max bytes.
 * @return false: no place
 */
static bool
response_place(struct rpc_handling *h, uint32_t resp_max)
{
	struct leat_rpc_session *s = h->s;
	uint8_t *at;

	if (h->slot == RPC_NO_SLOT || h->call.oneway)
		return true;
	if (resp_max == 0)
		resp_max = s->small_max;
	/* The other side accepts no response longer than peer_max_msg. */
	resp_max = RTE_MIN(resp_max, s->peer_max_msg);
	h->call.room = resp_max;
	if (unlikely(resp_max > s->small_max)) {
		h->resp_large = rpc_large_take(s->rpc);
		if (h->resp_large == NULL)
			return false;
		h->call.resp = h->resp_large->buf;
		return true;
	}
	at = rpc_response_room(s, resp_max);
	if (at == NULL)
		return false;
	h->call.resp = at + RPC_ITEM_LEN;
	return true;
}

/* Send a small response that a handler has written. */
static void
respond_small(struct rpc_handling *h, uint8_t type, int err)
{
	struct leat_rpc_session *s = h->s;
	const uint32_t len = h->call.resp_len;
	const struct rpc_item m = {
		.kind = RPC_RESPONSE,
		.type = type,
		.slot = h->slot,
		.num = s->rx[h->slot].num,
		.size = len,
		.len = (uint16_t)len,
		.aux = (uint32_t)err,
	};
	uint8_t *at = rpc_place(s, rpc_item_len(len), true);

	if (unlikely(at == NULL)) {
		/* Cannot happen: the place was checked before the handler was called. */
		LEAT_LOG(ERR, rpc, "the place that was reserved for a response is missing");
		answer_status(s, h->slot, EIO, 0, false);
		return;
	}
	if (unlikely(at + RPC_ITEM_LEN != h->call.resp) && len > 0)
		memcpy(at + RPC_ITEM_LEN, h->call.resp, len);
	rpc_item_put(at, &m);
	rpc_commit(s, rpc_item_len(len));
	rpc_work_add(s);
}

static void
respond(struct rpc_handling *h, int ret)
{
	const uint8_t type = h->call.type;
	struct leat_rpc_session *s = h->s;
	int err = ret < 0 ? -ret : 0;

	if (unlikely(h->call.resp_len > h->call.room)) {
		LEAT_LOG(ERR, rpc, "handler of type %u responds with %u B, has room for %u", type,
			 h->call.resp_len, h->call.room);
		h->call.resp_len = 0;
		err = EMSGSIZE;
	}
	if (unlikely(err > (int)RPC_ERRNO_MAX))
		err = EIO;
	if (h->slot == RPC_NO_SLOT)
		return;
	if (unlikely(h->resp_large != NULL && err == 0)) {
		struct rpc_rx_more *more = &s->rx_more[h->slot];

		slot_use(s, &s->rx[h->slot], RPC_RX_SENDING);
		more->large = h->resp_large;
		h->resp_large = NULL;
		rpc_out_add(s, &more->out, more->large->buf, h->call.resp_len);
	} else if (unlikely(h->resp_large != NULL || h->call.oneway)) {
		answer_status(s, h->slot, err, 0, false);
	} else {
		respond_small(h, type, err);
	}
}

void
rpc_handled(struct rpc_handling *h, int ret)
{
	struct leat_rpc_session *s = h->s;
	struct rpc_ticket *t = h->ticket;

	h->ticket = NULL;
	if (unlikely(t != NULL)) {
		if (ret != LEAT_RPC_DEFERRED)
			LEAT_LOG(ERR, rpc, "handler of type %u deferred, and returned %d",
				 h->call.type, ret);
		if (h->slot == RPC_NO_SLOT) {
			s->nb_handling++;
		} else {
			slot_use(s, &s->rx[h->slot], RPC_RX_DEFERRED);
			s->rx_more[h->slot].ticket = t;
		}
		return;
	}
	if (unlikely(ret == LEAT_RPC_DEFERRED)) {
		LEAT_LOG(ERR, rpc, "handler of type %u has no ticket, and will not answer",
			 h->call.type);
		ret = -EIO;
	}
	respond(h, ret);
}

/* Decide whether to refuse a request. @return 0, or the errno of the refusal */
static int
refusal(struct leat_rpc_session *s, const struct rpc_handler *handler, bool late)
{
	if (unlikely(s->closing))
		return ESHUTDOWN;
	if (unlikely(handler->fn == NULL))
		return ENOSYS;
	if (unlikely(late)) {
		s->rpc->stats.unwaited++;
		return ETIMEDOUT;
	}
	return 0;
}

int
rpc_handle(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data,
	   struct rpc_large *large, uint32_t us_left)
{
	const struct rpc_handler *handler = &s->rpc->handlers[m->type];
	struct rpc_handling h = {
		.call = {
			.req = data,
			.len = m->size,
			.type = m->type,
			.oneway = (m->flags & RPC_F_ONEWAY) != 0,
			.session = s,
			.us_left = us_left == RPC_US_LATE ? 0 : us_left,
		},
		.s = s,
		.slot = m->slot,
		.req_large = large,
	};
	int err;

	if (unlikely((m->flags & RPC_F_INTERNAL) != 0))
		return rpc_bulk_msg_arrived(s, m, data);
	if (unlikely((m->flags & RPC_F_BULK) != 0) && !rpc_bulk_arrived(&h))
		return LEAT_RPC_BAD_BULK;
	/* A response will be sent: the device may prefetch what posting needs. */
	if (likely(m->slot != RPC_NO_SLOT && s->open == NULL))
		leat_ep_post_soon(s->rpc->ep, s->peer);
	err = refusal(s, handler, us_left == RPC_US_LATE);

	if (likely(err == 0) && unlikely(!response_place(&h, handler->resp_max)))
		err = EBUSY;
	if (unlikely(err != 0)) {
		rpc_refuse_slot(s, m->slot, err, false);
	} else {
		s->rpc->stats.handled++;
		rpc_handled(&h, handler->fn(&h.call, handler->arg));
	}
	if (unlikely(h.req_large != NULL))
		rpc_large_free(s->rpc, h.req_large);
	if (unlikely(h.resp_large != NULL))
		rpc_large_free(s->rpc, h.resp_large);
	return 0;
}

/* ---- arrival ---- */

static uint64_t
deadline_of(struct leat_rpc *rpc, const struct rpc_item *m)
{
	if (m->aux == 0)
		return LEAT_RPC_NO_DEADLINE;
	if (m->aux == RPC_US_LATE)
		return rpc_now(rpc);
	return leat_time_add(rpc_now(rpc), leat_us_to_cycles(m->aux));
}

/*
 * Return the time left for a request whose last piece has arrived, in the form of rpc_item.aux: us;
 * 0: no limit; RPC_US_LATE: none is left.
 */
uint32_t
rpc_us_left(struct leat_rpc *rpc, uint64_t deadline)
{
	const uint64_t now = rpc_now(rpc);
	uint64_t us;

	if (deadline == LEAT_RPC_NO_DEADLINE)
		return 0;
	if (deadline <= now)
		return RPC_US_LATE;
	us = leat_cycles_to_ns(deadline - now) / 1000 + 1;
	return (uint32_t)RTE_MIN(us, (uint64_t)RPC_US_LATE - 1);
}

/* Check that a request is the next of its slot. @return 0, or a violation */
static int
num_check(const struct rpc_rx_slot *rs, uint32_t num)
{
	const int32_t ahead = (int32_t)(num - rs->num);

	if (unlikely(ahead != 1)) {
		if (ahead == 0)
			return LEAT_RPC_NUM_DUPLICATE;
		return ahead < 0 ? LEAT_RPC_NUM_PAST : LEAT_RPC_NUM_FUTURE;
	}
	if (unlikely(rs->state != RPC_RX_IDLE && rs->state != RPC_RX_DROPPING))
		return LEAT_RPC_SLOT_BUSY;
	return 0;
}

/* Start a request of several pieces, or refuse it. */
static void
assemble(struct leat_rpc_session *s, const struct rpc_item *m)
{
	struct rpc_rx_more *more = &s->rx_more[m->slot];
	int err;

	more->deadline = deadline_of(s->rpc, m);
	more->size = m->size;
	more->got = 0;
	more->flags = m->flags;
	err = refusal(s, &s->rpc->handlers[m->type], false);
	if (err == 0) {
		more->large = rpc_large_take(s->rpc);
		if (more->large == NULL)
			err = EBUSY;
		else
			rpc_pieces_start(s, more->large, m->size);
	}
	if (err != 0)
		rpc_refuse_slot(s, m->slot, err, true);
	else
		slot_use(s, &s->rx[m->slot], RPC_RX_ASSEMBLING);
}

/*
 * Match a piece with its message; the first piece that arrives starts the message. With datagrams
 * any piece may be the first, and a piece may belong to a message that was answered already.
 * @return as num_check(); -1: drop the piece
 */
static int
piece_begin(struct leat_rpc_session *s, struct rpc_rx_slot *rs, const struct rpc_item *m)
{
	const int32_t ahead = (int32_t)(m->num - rs->num);
	int bad;

	if (s->dg != NULL ? ahead == 0 : m->off != 0) {
		if (unlikely(ahead != 0))
			return ahead < 0 ? LEAT_RPC_NUM_PAST : LEAT_RPC_NUM_FUTURE;
		return 0;
	}
	if (s->dg != NULL && ahead < 0)
		return -1;
	bad = num_check(rs, m->num);
	if (unlikely(bad != 0))
		return bad;
	if (unlikely(m->size > s->rpc->max_msg))
		return LEAT_RPC_OVERSIZE;
	if (unlikely((s->features & RPC_FEATURE_LARGE) == 0))
		return LEAT_RPC_BAD_PIECE;
	rs->num = m->num;
	rs->type = m->type;
	assemble(s, m);
	return 0;
}

int
rpc_request_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data)
{
	struct rpc_rx_slot *rs;
	int bad;

	if (unlikely(m->slot == RPC_NO_SLOT))
		return rpc_handle(s, m, data, NULL, m->aux);
	if (unlikely((m->flags & RPC_F_INTERNAL) != 0
			     ? m->slot < s->nb_slots || m->slot >= rpc_slots(s)
			     : m->slot >= s->nb_slots))
		return LEAT_RPC_BAD_SLOT;
	rs = &s->rx[m->slot];
	if (unlikely(m->len != m->size)) {
		bad = piece_begin(s, rs, m);
		if (bad == 0)
			bad = rpc_piece_arrived(s, m, data);
		return bad < 0 ? 0 : bad;
	}
	bad = num_check(rs, m->num);
	if (unlikely(bad != 0))
		return bad;
	if (unlikely(m->size > s->rpc->max_msg))
		return LEAT_RPC_OVERSIZE;
	rs->num = m->num;
	rs->type = m->type;
	rs->state = RPC_RX_IDLE;
	return rpc_handle(s, m, data, NULL, m->aux);
}

int
rpc_cancel_arrived(struct leat_rpc_session *s, const struct rpc_item *m)
{
	struct rpc_rx_more *more;
	struct rpc_rx_slot *rs;

	if (m->slot >= rpc_slots(s))
		return LEAT_RPC_BAD_SLOT;
	rs = &s->rx[m->slot];
	more = &s->rx_more[m->slot];
	if (m->num != rs->num) {
		/*
		 * With datagrams a CANCEL may arrive before its request, or after the next request
		 * in its slot.
		 */
		if (s->dg != NULL)
			return 0;
		return (int32_t)(m->num - rs->num) < 0 ? LEAT_RPC_NUM_PAST : LEAT_RPC_NUM_FUTURE;
	}
	switch (rs->state) {
	case RPC_RX_ASSEMBLING:
		rpc_large_free(s->rpc, more->large);
		more->large = NULL;
		rpc_refuse_slot(s, m->slot, ECANCELED, s->dg != NULL);
		break;
	case RPC_RX_SENDING:
		rpc_out_del(s, &more->out);
		rpc_large_free(s->rpc, more->large);
		more->large = NULL;
		answer_status(s, m->slot, ECANCELED, 0, false);
		break;
	case RPC_RX_DEFERRED:
		more->ticket->call.cancelled = true;
		rpc_transfers_end(more->ticket, -ECANCELED);
		break;
	default:
		/*
		 * The answer is on the way already. On a reliable connection no further piece of
		 * the request arrives after its CANCEL.
		 */
		if (s->dg == NULL)
			more->rest = false;
		break;
	}
	return 0;
}

/* End the requests of the other side when the session ends: drop those that are not handled yet. */
void
rpc_handlers_end(struct leat_rpc_session *s)
{
	uint32_t i;

	for (i = 0; i < rpc_slots(s) && s->nb_handling > 0; i++) {
		struct rpc_rx_more *more = &s->rx_more[i];
		struct rpc_rx_slot *rs = &s->rx[i];

		if (more->out.queued)
			rpc_out_del(s, &more->out);
		if (more->large != NULL && rs->state != RPC_RX_IDLE)
			rpc_large_free(s->rpc, more->large);
		more->large = NULL;
		if (rs->state == RPC_RX_ANSWER && more->ticket != NULL)
			rpc_ticket_free(s->rpc, more->ticket);
		more->ticket = NULL;
		rpc_slot_idle(s, rs);
	}
	s->answer_head = RPC_NONE;
	rpc_tickets_end(s);
	s->nb_handling = 0;
}

int
leat_rpc_handler_set(struct leat_rpc *rpc, uint8_t type, leat_rpc_handler_fn fn, void *arg,
		     uint32_t resp_max)
{
	if (resp_max > rpc->max_msg)
		return leat_err(EINVAL, "rpc on %s: type %u may respond with %u B, max_msg is %u",
				leat_ep_name(rpc->ep), type, resp_max, rpc->max_msg);
	rpc->handlers[type] = (struct rpc_handler){ fn, arg, resp_max };
	return 0;
}
