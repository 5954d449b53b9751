/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_FAST_H
#define RPC_FAST_H

/*
 * The short way of what nearly all is: small requests, their handlers, and small responses.
 *
 *     post        rpc_fast_post()        nothing waits before it; a slot, and a place in a packet
 *     requests    rpc_fast_requests()    the next ones of their slots, and a place for a response
 *     responses   rpc_fast_responses()   of requests that wait for them, and have room
 *
 * What any of these finds otherwise goes the long way, with the same outcome. s->fast holds where
 * they may be used; test_rpc_calls.c and test_rpc_late.c run the same cases with and without.
 */

#include <leat_le.h>

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

#endif /* RPC_FAST_H */
