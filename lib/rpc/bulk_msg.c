/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Transfers without READ or WRITE: internal requests to the caller's library, which reads or writes
 * the memory itself. Each internal request fits a packet, so its bytes are copied at once, and
 * nothing refers to the caller's memory afterwards.
 */

#include "rpc_bulk.h"

/* ---- the side that pulls and pushes ---- */

uint32_t
rpc_bulk_msg_max(const struct rpc_transfer *t)
{
	const struct leat_rpc_session *s = t->ticket->s;

	if (s == NULL)
		return 1;
	if (!t->push)
		return RTE_MIN(s->small_max, t->rpc->max_msg);
	return s->small_out > RPC_BULK_MSG_LEN ? s->small_out - RPC_BULK_MSG_LEN : 1;
}

static void
msg_done(struct leat_rpc_req *req)
{
	struct rpc_segment *seg = req->waiter;
	int status = req->status;

	req->done = NULL;
	/*
	 * The caller's library had no packet for the answer: try again. An ending session gives its
	 * requests back with its own status, which can be -EBUSY, too: a request posted again then
	 * would come back at once, forever.
	 */
	if (status == -EBUSY && req->refused != 0 && seg->t->status == 0 &&
	    req->session->state == RPC_OPEN) {
		rpc_bulk_msg_post(seg);
		return;
	}
	if (status == 0 && !seg->t->push && req->resp_len != seg->len)
		status = -EPROTO;
	rpc_segment_done(seg, status);
}

void
rpc_bulk_msg_post(struct rpc_segment *seg)
{
	struct rpc_transfer *t = seg->t;
	const struct rpc_ticket *ticket = t->ticket;
	struct leat_rpc_session *s = ticket->s;
	const struct rpc_bulk_msg m = {
		.slot = ticket->slot,
		.index = t->index,
		.num = s->rx[ticket->slot].num,
		.off = t->off + seg->at,
		.len = seg->len,
	};

	rpc_bulk_msg_put(seg->buf, &m);
	if (t->push)
		memcpy(seg->buf + RPC_BULK_MSG_LEN, t->buf + seg->at, seg->len);
	seg->req = (struct leat_rpc_req){
		.session = s,
		.buf = seg->buf,
		.len = RPC_BULK_MSG_LEN + (t->push ? seg->len : 0),
		.resp = t->push ? NULL : t->buf + seg->at,
		.room = t->push ? 0 : seg->len,
		.deadline = ticket->call.deadline,
		.type = t->push ? RPC_BULK_PUT : RPC_BULK_GET,
		.flags = RPC_REQ_INTERNAL,
		.done = msg_done,
		.waiter = seg,
	};
	rpc_req_post(&seg->req);
}

/* ---- the caller's side ---- */

/*
 * Find the memory that an internal request names.
 * @return 0; > 0: an errno for the answer: the request has ended, which the other side may not know
 * yet; < 0: a violation, negated
 */
static int
memory_find(struct leat_rpc_session *s, const struct rpc_bulk_msg *m, uint32_t access,
	    uint8_t **memory)
{
	const struct leat_rpc_bulk *b;
	const struct rpc_tx_slot *ts;

	if (m->slot >= s->nb_slots)
		return -LEAT_RPC_BAD_BULK;
	ts = &s->tx[m->slot];
	if ((int32_t)(m->num - ts->num) > 0)
		return -LEAT_RPC_BAD_BULK;
	/* The request was given back, or is ending. */
	if (m->num != ts->num || ts->state != RPC_TX_WAIT || ts->req->held == RPC_HELD_ENDING)
		return ECANCELED;
	if ((ts->req->flags & LEAT_RPC_BULK) == 0 || m->index >= ts->req->nb_bulk)
		return -LEAT_RPC_BAD_BULK;
	b = &ts->req->bulk[m->index];
	if ((b->access & access) == 0 || m->off > b->len || m->len > b->len - m->off)
		return -LEAT_RPC_BAD_BULK;
	*memory = (uint8_t *)b->addr + m->off;
	return 0;
}

int
rpc_bulk_msg_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data)
{
	const bool put = m->type == RPC_BULK_PUT;
	struct rpc_handling h = { .call = { .session = s, .type = m->type },
				  .s = s,
				  .slot = m->slot };
	struct rpc_bulk_msg msg;
	uint8_t *memory, *at;
	int bad;

	if (!put && m->type != RPC_BULK_GET)
		return LEAT_RPC_BAD_BULK;
	bad = rpc_bulk_msg_get(data, m->len, &msg);
	if (bad != 0)
		return bad;
	if (m->len != RPC_BULK_MSG_LEN + (put ? msg.len : 0) || (!put && msg.len > s->small_out))
		return LEAT_RPC_BAD_BULK;
	bad = memory_find(s, &msg, put ? LEAT_RPC_BULK_PUSH : LEAT_RPC_BULK_PULL, &memory);
	if (bad < 0)
		return -bad;
	at = bad == 0 ? rpc_response_room(s, put ? 0 : msg.len) : NULL;
	if (at == NULL) {
		rpc_refuse_slot(s, m->slot, bad != 0 ? bad : EBUSY, false);
		return 0;
	}
	if (put) {
		memcpy(memory, data + RPC_BULK_MSG_LEN, msg.len);
	} else {
		memcpy(at + RPC_ITEM_LEN, memory, msg.len);
		h.call.resp_len = h.call.room = msg.len;
	}
	h.call.resp = at + RPC_ITEM_LEN;
	rpc_handled(&h, 0);
	return 0;
}
