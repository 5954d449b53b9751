/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages that are gathered from several pieces of memory.
 *
 * A device takes one buffer per op, and a message's payload is one op. So the pieces are copied: a
 * small message into its slot, as always; a large one in leat mode into several slots. The part in
 * one slot is a fragment: a send with an id and a credit of its own. The number of slots bounds the
 * memory, and the pieces need not be registered. The receiver copies each fragment to its place in
 * the request's buffer:
 *
 *     | head: fragment, 5000 left | 2032 B |   head: fragment, 2968 left | 2032 B |   ...
 *
 * No other message comes between the fragments of one. A fragment without bytes says that the
 * sender has given the message up.
 */

#include <errno.h>

#include <rte_mbuf.h>

#include "msg_pvt.h"

/* ---- pieces ---- */

/* @return bytes of all pieces, or UINT64_MAX if a piece is malformed */
static uint64_t
iov_size(const struct leat_msg_req *req)
{
	uint64_t size = 0;
	uint32_t i;

	for (i = 0; i < req->nb_iov; i++) {
		const struct iovec *v = &req->iov[i];

		if ((v->iov_len > 0 && v->iov_base == NULL) || v->iov_len > UINT64_MAX / 2 - size)
			return UINT64_MAX;
		size += v->iov_len;
	}
	return size;
}

void
msg_gather_take(struct leat_msg_req *req)
{
	if ((req->flags & LEAT_MSG_F_MBUF) != 0)
		req->size = req->mbuf != NULL ? rte_pktmbuf_pkt_len(req->mbuf) : UINT64_MAX;
	else
		req->size = req->iov != NULL || req->nb_iov == 0 ? iov_size(req) : UINT64_MAX;
}

/*
 * Copy at most *n bytes of one piece (data, len), from offset *off on. Advance *dst and *n; *off
 * becomes the offset in the next piece. @return true: bytes are left to be copied
 */
static bool
copy_piece(uint8_t **dst, uint64_t *off, uint64_t *n, const void *data, uint64_t len)
{
	uint64_t k;

	if (*off >= len) {
		*off -= len;
		return *n > 0;
	}
	k = RTE_MIN(len - *off, *n);
	msg_copy_any(*dst, (const uint8_t *)data + *off, k);
	*off = 0;
	*dst += k;
	*n -= k;
	return *n > 0;
}

void
msg_gather_copy(const struct leat_msg_req *req, uint64_t off, uint8_t *dst, uint64_t n)
{
	const struct rte_mbuf *b;
	uint32_t i;

	if ((req->flags & LEAT_MSG_F_MBUF) != 0) {
		for (b = req->mbuf; b != NULL && n > 0; b = b->next)
			(void)copy_piece(&dst, &off, &n, rte_pktmbuf_mtod(b, const void *),
					 b->data_len);
		return;
	}
	for (i = 0; i < req->nb_iov && n > 0; i++)
		(void)copy_piece(&dst, &off, &n, req->iov[i].iov_base, req->iov[i].iov_len);
}

/* ---- sending fragments ---- */

/*
 * Send the next fragment of a message of which `left` bytes are not sent yet. If req is NULL, send
 * the empty fragment that gives the message up. @return false: the fragment has to wait
 */
static bool
fragment(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t left)
{
	const uint64_t n = req == NULL ? 0 : RTE_MIN(left, c->eager_max);
	struct msg_slot *s = msg_tx_begin_eager(c, left | MSG_LEN_FRAGMENT);

	if (s == NULL)
		return false;
	c->tx_frag = req;
	c->tx_frag_left = 0;
	if (req == NULL) {
		c->no_fast_send = c->no_sends;
		return true;
	}
	msg_gather_copy(req, req->size - left, s->buf + MSG_HEAD_LEN, n);
	s->op.size += n;
	c->tx_frag_left = left - n;
	/* Part of the message is under way, so it can't be cancelled any more. */
	req->state = MSG_REQ_STARTED;
	if (c->tx_frag_left > 0)
		return true;
	c->tx_frag = NULL;
	msg_list_begun(&c->sendq, req);
	s->req = req;
	s->count = 1;
	if ((req->flags & LEAT_MSG_F_DELIVERED) != 0)
		msg_answer_ask(req, s);
	return true;
}

bool
msg_tx_fragments(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	/* The message before this one was given up in the middle. */
	if (c->tx_frag_left > 0 && c->tx_frag == NULL && !fragment(c, NULL, c->tx_frag_left))
		return false;
	if (req == NULL)
		return true;
	do {
		if (!fragment(c, req, c->tx_frag_left > 0 ? c->tx_frag_left : req->size))
			return false;
	} while (c->tx_frag_left > 0);
	return true;
}

bool
msg_tx_fragments_expire(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	if (c->tx_frag != req || c->tx_frag_left == 0)
		return false;
	c->tx_frag = NULL;
	c->no_fast_send = true;
	msg_list_begun(&c->sendq, req);
	msg_req_finish(req, msg_late_status(req), 0);
	return true;
}

/* ---- receiving fragments ---- */

bool
msg_fragment_bind(struct leat_msg_conn *c, struct msg_slot *s)
{
	const uint64_t left = s->len, n = s->op.len - MSG_HEAD_LEN;
	struct leat_msg_req *req;
	bool fits;

	if (c->rx_frag_left == 0 && n > 0) {
		req = msg_request_take(c, left, &fits);
		if (req == NULL)
			return false;
		c->rx_frag = fits ? req : NULL;
		c->rx_frag_lost = fits ? 0 : MSG_REASON_SIZE;
		c->rx_frag_total = c->rx_frag_left = left;
		if (!fits) {
			c->stats.dropped++;
			msg_req_finish(req, -EMSGSIZE, left);
		}
	} else if (left != c->rx_frag_left || left == 0) {
		msg_fail(c, -EPROTO,
			 "message %#x: a fragment with %" PRIu64 " B left, instead of %" PRIu64,
			 s->id, left, c->rx_frag_left);
		return false;
	}
	req = c->rx_frag;
	c->rx_frag_left -= n == 0 ? left : n;
	if (req != NULL && n > 0) {
		msg_copy_any((uint8_t *)req->buf + (c->rx_frag_total - left), s->buf + MSG_HEAD_LEN,
			     n);
		if (c->rx_frag_left == 0)
			msg_received(c, req, c->rx_frag_total);
	} else if (req != NULL) {
		msg_req_finish(req, -ETIMEDOUT, c->rx_frag_total);
		c->stats.dropped++;
	}
	if (c->rx_frag_left == 0)
		c->rx_frag = NULL;
	s->flags |= MSG_DONE;
	if (c->rx_frag_lost != 0 && (s->flags & MSG_ANSWER) != 0)
		msg_drop_asked(c, s, c->rx_frag_lost);
	c->rx_bind++;
	c->rx_arrived--;
	return true;
}

bool
msg_fragment_expire(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	if (c->rx_frag != req)
		return false;
	c->rx_frag = NULL;
	c->rx_frag_lost = MSG_REASON_TIME;
	c->stats.dropped++;
	msg_req_finish(req, msg_late_status(req), c->rx_frag_total);
	return true;
}
