/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_FAST_H
#define RPC_FAST_H

/*
 * The short way of what nearly all is: small requests, their handlers, and small responses.
 *
 *     post        rpc_fast_post()        nothing waits before it; a slot, and a place in a packet
 *     requests    rpc_fast_requests()    the next ones of their slots, and a place for a response
 *     responses   rpc_fast_responses()   of requests that wait for them, and have room
 *     send        rpc_fast_send()        the open packet is all that there is, and has credit
 *
 * What any of these finds otherwise goes the long way, with the same outcome. s->fast holds where
 * they may be used; test_rpc_calls.c and test_rpc_late.c run the same cases with and without.
 */

#include <leat_le.h>

#include "rpc_credit.h"
#include "rpc_pvt.h"

/*
 * Begins requests of one session, from the front of reqs. Nothing is pending in it.
 * @return where it ended
 */
struct leat_rpc_req **rpc_fast_post(struct leat_rpc_session *s, struct leat_rpc_req **reqs,
				    struct leat_rpc_req **end);
/*
 * Responses to small requests that wait, from the front of what is left of a packet.
 * @return where they end
 */
const uint8_t *rpc_fast_responses(struct leat_rpc_session *s, const uint8_t *at,
				  const uint8_t *end);
/*
 * Requests that are handled at once, or deferred, from the front of what is left of a packet.
 * @return where they end
 */
const uint8_t *rpc_fast_requests(struct leat_rpc_session *s, const uint8_t *at, const uint8_t *end);

/*
 * Asks for the lines of what is about to be written, by writing to them: see ring_tx_touch_slot()
 * for why. The other side had them last, when it read what was there before. Less is copied by the
 * device when it is posted, and nobody else has those lines.
 */
#define RPC_TOUCH_MIN 128u

static __rte_always_inline void
rpc_touch(uint8_t *at, const uint8_t *end, uint32_t len)
{
	uint32_t i;

	len = RTE_MIN(len, (uint32_t)(end - at));
	for (i = 0; i + 8 <= len; i += LEAT_CACHE_LINE)
		*(volatile uint64_t *)(at + i) = 0;
}

/* The next packet of a burst: its head is there. */
static __rte_always_inline void
rpc_burst_add(struct leat_rpc_session *s, struct rpc_packet *p)
{
	struct leat_rpc *rpc = s->rpc;

	p->op.peer = s->peer;
	rpc->stats.packets_sent++;
	if (unlikely(rpc->nb_burst == RPC_BURST))
		rpc_packets_post(rpc);
	rpc->burst[rpc->nb_burst++] = &p->op;
}

/* @return false: nothing was done */
static __rte_always_inline bool
rpc_fast_send(struct leat_rpc_session *s)
{
	struct rpc_packet *p = s->open;
	uint8_t *buf;

	if (unlikely(p == NULL || s->ready != NULL || s->dg != NULL || rpc_credit_left(s) == 0))
		return false;
	buf = p->op.buf;
	if (unlikely(s->at == buf + RPC_HEAD_LEN))
		return false;
	p->op.size = (uint64_t)(s->at - buf);
	s->open = NULL;
	s->at = s->end = NULL;
	s->queued--;
	rpc_credit_head(s, p);
	rpc_burst_add(s, p);
	return true;
}

#endif /* RPC_FAST_H */
