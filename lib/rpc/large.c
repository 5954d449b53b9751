/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages of several packets. A session sends one piece of each long message in turn, and waiting
 * small messages between the pieces, so that neither kind delays the other for long.
 *
 *     out:  A B C      packet: [small small][A......] [small][B........] [C........] [A......] ...
 */

#include "rpc_credit.h"
#include "rpc_pvt.h"

/* A piece goes into the open packet only if that has room for 1 / PIECE_PART of a full piece. */
#define PIECE_PART 4

/* Bytes of a piece in the shortest packet that two sides can agree on. */
#define PIECE_MIN (LEAT_RPC_PACKET_MIN - RPC_HEAD_LEN - RPC_NUMBERS_LEN - RPC_PIECE_LEN)

size_t
rpc_large_map_len(const struct leat_rpc *rpc)
{
	return ((size_t)rpc->max_msg / PIECE_MIN / 64 + 1) * sizeof(uint64_t);
}

struct rpc_large *
rpc_large_take(struct leat_rpc *rpc)
{
	struct rpc_large *l = rpc->free_large;

	if (l != NULL) {
		rpc->free_large = l->next;
		rpc->stats.large++;
	}
	return l;
}

void
rpc_large_free(struct leat_rpc *rpc, struct rpc_large *l)
{
	l->next = rpc->free_large;
	rpc->free_large = l;
	rpc->stats.large--;
}

static void
out_queue(struct leat_rpc_session *s, struct rpc_out *out)
{
	out->next = NULL;
	if (s->out == NULL)
		s->out = out;
	else
		s->out_tail->next = out;
	s->out_tail = out;
}

void
rpc_out_add(struct leat_rpc_session *s, struct rpc_out *out, const void *data, uint32_t size)
{
	out->data = data;
	out->size = size;
	out->sent = 0;
	out->queued = true;
	out_queue(s, out);
	rpc_work_add(s);
}

void
rpc_out_del(struct leat_rpc_session *s, struct rpc_out *out)
{
	struct rpc_out *prev = NULL, *o;

	for (o = s->out; o != out; o = o->next)
		prev = o;
	if (prev == NULL)
		s->out = out->next;
	else
		prev->next = out->next;
	if (s->out_tail == out)
		s->out_tail = prev;
	out->queued = false;
}

/* Build the item of a message's next piece, except for its length. */
static struct rpc_item
piece_item(struct leat_rpc_session *s, struct rpc_out *out)
{
	struct rpc_item m = { .size = out->size, .off = out->sent };

	m.slot = out->slot;
	if (out->response) {
		m.kind = RPC_RESPONSE;
		m.num = s->rx[out->slot].num;
		m.type = s->rx[out->slot].type;
	} else {
		const struct rpc_tx_slot *ts = &s->tx[out->slot];

		m.kind = RPC_REQUEST;
		m.num = ts->num;
		m.type = ts->req->type;
		m.flags = ts->req->flags & LEAT_RPC_ONEWAY;
		m.aux = out->sent == 0 || s->dg != NULL ? rpc_req_us_left(s->rpc, ts->req) : 0;
	}
	return m;
}

static void
out_sent(struct leat_rpc_session *s, struct rpc_out *out)
{
	struct rpc_rx_more *more;

	out->queued = false;
	if (!out->response)
		return;
	more = &s->rx_more[out->slot];
	rpc_large_free(s->rpc, more->large);
	more->large = NULL;
	rpc_slot_idle(s, &s->rx[out->slot]);
}

/*
 * Return the length of the next piece, bytes. A short response, whose handler wrote it to memory
 * for long messages, is sent whole.
 */
static uint32_t
piece_len(const struct leat_rpc_session *s, const struct rpc_out *out)
{
	const uint32_t more = RPC_PIECE_LEN - RPC_ITEM_LEN, max = rpc_piece_max(s);
	uint32_t room = rpc_open_room(s);

	if (out->size <= s->small_max)
		return out->size;
	/* Datagrams arrive in any order: all pieces but the last are full, so the offset of a piece
	 * tells its index. */
	if (s->dg != NULL)
		return RTE_MIN(out->size - out->sent, max);
	if (room < max / PIECE_PART + more)
		return RTE_MIN(out->size - out->sent, max);
	return RTE_MIN(out->size - out->sent, room - more);
}

bool
rpc_piece_send(struct leat_rpc_session *s)
{
	struct rpc_out *out = s->out;
	struct rpc_item m;
	uint8_t *at;

	/* The piece may need a new packet, and so a credit for that packet. */
	if (rpc_credit_left(s) < s->queued)
		return false;
	m = piece_item(s, out);
	m.len = (uint16_t)piece_len(s, out);
	at = rpc_place(s, rpc_item_full_len(&m), false);
	if (at == NULL)
		return false;
	rpc_item_put(at, &m);
	if (m.len > 0)
		memcpy(at + rpc_item_head_len(&m), out->data + out->sent, m.len);
	rpc_commit(s, rpc_item_full_len(&m));
	out->sent += m.len;
	s->out = out->next;
	if (out->sent < out->size)
		out_queue(s, out);
	else
		out_sent(s, out);
	return true;
}

/* Check offset and length of a piece that may arrive in any order. */
bool
rpc_piece_fits(const struct leat_rpc_session *s, const struct rpc_item *m)
{
	const uint32_t max = rpc_piece_max(s);

	return m->off % max == 0 && m->len == RTE_MIN(max, m->size - m->off);
}

void
rpc_pieces_start(const struct leat_rpc_session *s, struct rpc_large *large, uint32_t size)
{
	if (large->map != NULL)
		memset(large->map, 0, (size / rpc_piece_max(s) / 64 + 1) * sizeof(*large->map));
}

/* Check that a piece is the next one; with datagrams, that it has not arrived before. */
static bool
piece_new(const struct leat_rpc_session *s, const struct rpc_item *m, struct rpc_rx_more *more)
{
	uint32_t i;
	uint64_t bit;

	if (s->dg == NULL)
		return m->off == more->got;
	if (!rpc_piece_fits(s, m))
		return false;
	i = m->off / rpc_piece_max(s);
	bit = UINT64_C(1) << i % 64;
	if ((more->large->map[i / 64] & bit) != 0)
		return false;
	more->large->map[i / 64] |= bit;
	return true;
}

int
rpc_piece_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data)
{
	struct rpc_rx_more *more = &s->rx_more[m->slot];
	struct rpc_rx_slot *rs = &s->rx[m->slot];
	struct rpc_large *large = more->large;
	struct rpc_item whole;

	/* The request was refused already; its sender may not know it yet. */
	if (rs->state == RPC_RX_DROPPING || (rs->state == RPC_RX_ANSWER && more->rest))
		return 0;
	if (rs->state != RPC_RX_ASSEMBLING || m->size != more->size || m->type != rs->type ||
	    m->flags != more->flags || !piece_new(s, m, more))
		return LEAT_RPC_BAD_PIECE;
	memcpy(large->buf + m->off, data, m->len);
	more->got += m->len;
	if (more->got < more->size)
		return 0;
	whole = *m;
	more->large = NULL;
	rpc_slot_idle(s, rs);
	return rpc_handle(s, &whole, large->buf, large, rpc_us_left(s->rpc, more->deadline));
}
