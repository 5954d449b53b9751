/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The fast path of small requests and responses: see rpc_fast.h. An item's head is read and written
 * as two words (rpc_wire.h has its picture):
 *
 *     w0   kind 8 | type 8 | slot 16 | num 32       w1   len 16 | flags 16 | aux 32
 */

#include "rpc_fast.h"

#define W0_KIND(w0) ((uint8_t)(w0))
#define W0_TYPE(w0) ((uint8_t)((w0) >> 8))
#define W0_SLOT(w0) ((uint16_t)((w0) >> 16))
#define W0_NUM(w0) ((uint32_t)((w0) >> 32))
#define W1_LEN(w1) ((uint16_t)(w1))
#define W1_FLAGS(w1) ((uint16_t)((w1) >> 16))
#define W1_AUX(w1) ((uint32_t)((w1) >> 32))

static __rte_always_inline void
words_put(uint8_t *at, uint64_t w0, uint64_t w1)
{
	leat_put_le64(at, w0);
	leat_put_le64(at + 8, w1);
}

static __rte_always_inline void
copy(void *dst, const void *src, uint32_t n)
{
	const uint8_t *from = src;
	uint8_t *to = dst;
	uint32_t i;

	if (likely(n >= 16)) {
		if (unlikely(n > 128)) {
			memcpy(to, from, n);
			return;
		}
		for (i = 0; i + 16 < n; i += 16)
			__builtin_memcpy(to + i, from + i, 16);
		__builtin_memcpy(to + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		__builtin_memcpy(to, from, 8);
		__builtin_memcpy(to + n - 8, from + n - 8, 8);
	} else if (n >= 4) {
		__builtin_memcpy(to, from, 4);
		__builtin_memcpy(to + n - 4, from + n - 4, 4);
	} else if (n > 0) {
		to[0] = from[0];
		to[n / 2] = from[n / 2];
		to[n - 1] = from[n - 1];
	}
}

/* Write zeros behind the len bytes at data, up to the next multiple of 8. */
static __rte_always_inline void
pad(uint8_t *data, uint32_t len)
{
	uint8_t *last = data + (len & ~UINT32_C(7));

	if ((len & 7) != 0)
		leat_put_le64(last, leat_get_le64(last) & ((UINT64_C(1) << 8 * (len & 7)) - 1));
}

static __rte_always_inline bool
padded(const uint8_t *data, uint32_t len)
{
	return (len & 7) == 0 || leat_get_le64(data + (len & ~UINT32_C(7))) >> (8 * (len & 7)) == 0;
}

/* ---- the caller's side ---- */

/* type, flags, refused and state of a request as one word; flags and state are 0 on this path. */
#define REQ_WORD offsetof(struct leat_rpc_req, type)
#define REQ_NOT_PLAIN UINT32_C(0xff00ff00)
static_assert(offsetof(struct leat_rpc_req, flags) == REQ_WORD + 1 &&
		      offsetof(struct leat_rpc_req, refused) == REQ_WORD + 2 &&
		      offsetof(struct leat_rpc_req, state) == REQ_WORD + 3,
	      "bytes of a word");

static __rte_always_inline bool
req_plain(const struct leat_rpc_req *req, uint32_t word, uint32_t small_out)
{
	return (word & REQ_NOT_PLAIN) == 0 && req->len <= small_out &&
	       (req->buf != NULL || req->len == 0) && (req->resp != NULL || req->room == 0);
}

/*
 * Fields that are needed only when a request ends are not set here, but by rpc_fast_responses() or
 * slot_slow(). The loop keeps few variables, as there are few registers.
 */
struct leat_rpc_req **
rpc_fast_post(struct leat_rpc_session *s, struct leat_rpc_req **reqs, struct leat_rpc_req **end)
{
	const uint64_t usual = leat_time_add(rpc_now(s->rpc), s->default_cycles);
	uint8_t *at = s->at;
	uint16_t slot = s->free_slot;

	for (; reqs < end; reqs++) {
		struct leat_rpc_req *req = *reqs;
		uint8_t *word = (uint8_t *)req + REQ_WORD;
		uint32_t what = leat_get_le32(word);
		const uint32_t len = req->len, need = rpc_item_len(len);
		uint64_t when = usual;
		struct rpc_tx_slot *ts;
		uint32_t us = s->default_us;

		if (unlikely(req->session != s || slot == RPC_NONE ||
			     !req_plain(req, what, s->small_out)))
			break;
		if (unlikely((size_t)(s->end - at) < need)) {
			s->at = at;
			at = rpc_place(s, need, false);
			if (at == NULL) {
				at = s->at;
				break;
			}
			if (need * (uint32_t)(end - reqs) >= RPC_TOUCH_MIN)
				rpc_touch(at, s->end, need * (uint32_t)(end - reqs));
		}
		if (unlikely(req->deadline != 0)) {
			when = req->deadline;
			us = rpc_us_for_wire(s->rpc, when);
		}
		if (unlikely(when < s->expires))
			rpc_expiry_set(s, when);

		ts = &s->tx[slot];
		ts->req = req;
		ts->deadline = when;
		ts->state_slow = RPC_TX_WAIT;
		req->slot = slot;
		what &= 0xff;
		leat_put_le32(word, what | (uint32_t)RPC_REQ_STARTED << 24);
		words_put(at,
			  RPC_REQUEST | what << 8 | (uint32_t)slot << 16 |
				  (uint64_t)++ts->num << 32,
			  len | (uint64_t)us << 32);
		if (unlikely((len & 7) != 0))
			leat_put_le64(at + need - 8, 0);
		copy(at + RPC_ITEM_LEN, req->buf, len);
		slot = ts->next_free;
		at += need;
	}
	s->at = at;
	s->free_slot = slot;
	return reqs;
}

/* Complete a request: call its done(), or queue it for leat_rpc_poll(). */
static __rte_always_inline void
done(struct leat_rpc *rpc, struct leat_rpc_req *req)
{
	if (req->done != NULL) {
		req->state = RPC_REQ_IDLE;
		req->done(req);
		return;
	}
	req->state = RPC_REQ_DONE;
	rpc_done_add(rpc, req);
}

const uint8_t *
rpc_fast_responses(struct leat_rpc_session *s, const uint8_t *at, const uint8_t *end)
{
	struct leat_rpc *rpc = s->rpc;
	uint32_t n = 0;

	while ((size_t)(end - at) >= RPC_ITEM_LEN) {
		const uint64_t w0 = leat_get_le64(at), w1 = leat_get_le64(at + 8);
		const uint32_t len = W1_LEN(w1);
		struct leat_rpc_req *req;
		struct rpc_tx_slot *ts;

		/* A whole small response: no status or flags, a valid slot, zeros as padding. */
		if (unlikely(W0_KIND(w0) != RPC_RESPONSE || w1 >> 16 != 0 ||
			     W0_SLOT(w0) >= s->nb_slots || (size_t)(end - at) < rpc_item_len(len) ||
			     !padded(at + RPC_ITEM_LEN, len)))
			break;
		ts = &s->tx[W0_SLOT(w0)];
		req = ts->req;
		if (unlikely(ts->num != W0_NUM(w0) || ts->state_slow != RPC_TX_WAIT ||
			     len > req->room))
			break;
		copy(req->resp, at + RPC_ITEM_LEN, len);
		req->resp_len = len;
		req->status = 0;
		req->busy_us = 0;
		ts->state_slow = RPC_TX_FREE;
		ts->next_free = s->free_slot;
		s->free_slot = W0_SLOT(w0);
		at += rpc_item_len(len);
		n++;
		done(rpc, req);
	}
	s->nb_reqs -= n;
	rpc->stats.done += n;
	return at;
}

/* ---- the other side ---- */

const uint8_t *
rpc_fast_requests(struct leat_rpc_session *s, const uint8_t *at, const uint8_t *end)
{
	struct rpc_handling *const h = &s->rpc->handling;

	while (likely((size_t)(end - at) >= RPC_ITEM_LEN && s->fast)) {
		const uint64_t w0 = leat_get_le64(at), w1 = leat_get_le64(at + 8);
		const struct rpc_handler *handler = &s->rpc->handlers[W0_TYPE(w0)];
		struct rpc_rx_slot *rs = &s->rx[W0_SLOT(w0)];
		uint8_t *to = s->at;
		int ret;

		if (unlikely(W0_KIND(w0) != RPC_REQUEST || W1_FLAGS(w1) != 0 ||
			     W1_AUX(w1) == RPC_US_LATE || W0_SLOT(w0) >= s->nb_slots ||
			     handler->fn == NULL || (size_t)(end - at) < rpc_item_len(W1_LEN(w1)) ||
			     !padded(at + RPC_ITEM_LEN, W1_LEN(w1)) || rs->num + 1 != W0_NUM(w0) ||
			     rs->state != RPC_RX_IDLE))
			break;
		h->call.room = handler->resp_max != 0 ? handler->resp_max : s->small_out;
		if (unlikely(h->call.room > s->small_out))
			break;
		if (unlikely((size_t)(s->end - to) < rpc_item_len(h->call.room))) {
			to = rpc_response_room(s, h->call.room);
			if (to == NULL)
				break;
		}

		rs->num++;
		rs->type = W0_TYPE(w0);
		h->slot = W0_SLOT(w0);
		h->call.req = at + RPC_ITEM_LEN;
		h->call.resp = to + RPC_ITEM_LEN;
		h->call.len = W1_LEN(w1);
		h->call.resp_len = 0;
		h->call.type = W0_TYPE(w0);
		h->call.us_left = W1_AUX(w1);
		h->call.user = NULL;
		s->rpc->stats.handled++;
		at += rpc_item_len(W1_LEN(w1));
		ret = handler->fn(&h->call, handler->arg);
		if (unlikely(ret != 0 || h->ticket != NULL || h->call.resp_len > h->call.room ||
			     to != s->at)) {
			rpc_handled(h, ret);
			continue;
		}
		pad(to + RPC_ITEM_LEN, h->call.resp_len);
		words_put(to, (w0 & ~UINT64_C(0xff)) | RPC_RESPONSE, h->call.resp_len);
		rpc_commit(s, rpc_item_len(h->call.resp_len));
	}
	return at;
}
