/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_FAST_H
#define RPC_FAST_H

/*
 * The fast path of nearly all traffic: small requests, their handlers, and small responses. Each
 * function requires:
 *
 *     rpc_fast_post()        no earlier request waits; a slot is free, and a packet has room
 *     rpc_fast_requests()    the request has the next number of its slot; its response has room
 *     rpc_fast_responses()   a request waits for the response, and has room for it
 *     rpc_fast_send()        the open packet is the only one, and has credit
 *
 * Anything else takes the slow path, with the same outcome. s->fast is set while the fast path may
 * be used; test_rpc_calls.c and test_rpc_late.c run the same cases with and without it.
 */

#include <leat_le.h>

#include "rpc_credit.h"
#include "rpc_pvt.h"

/*
 * Begin requests of one session, from the front of reqs; requires that no request of the session is
 * pending. @return the first request that was not begun
 */
struct leat_rpc_req **rpc_fast_post(struct leat_rpc_session *s, struct leat_rpc_req **reqs,
				    struct leat_rpc_req **end);
/*
 * Handle the items of a packet from at on, until one is not a small response to a waiting request.
 * @return the first item that was not handled
 */
const uint8_t *rpc_fast_responses(struct leat_rpc_session *s, const uint8_t *at,
				  const uint8_t *end);
/*
 * Handle the items of a packet from at on, until one is not a small request that can be handled
 * now. @return the first item that was not handled
 */
const uint8_t *rpc_fast_requests(struct leat_rpc_session *s, const uint8_t *at, const uint8_t *end);

/*
 * Fetch the cache lines of a packet that is about to be filled, by writing to them;
 * ring_tx_touch_slot() says why. The other side's core had these lines last, since it has read the
 * previous packet in the same buffer. Packets of fewer than RPC_TOUCH_MIN bytes are copied by the
 * device when they are posted, so no other core has their lines.
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

/* Add a packet to the burst. Its head is written already. */
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

/* Send the open packet, if it is the only one. @return false: nothing was done */
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
