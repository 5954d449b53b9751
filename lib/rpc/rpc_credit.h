/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_CREDIT_H
#define RPC_CREDIT_H

/*
 * Credits bound the packets on the way, so that each finds a receive. Only this file computes them.
 *
 *     sender                                      receiver
 *        tx_sent ----------- packets ------------> rx_got
 *        tx_credit <--- in each packet back ------ rx_granted: receives for packets before it
 *                                                  rx_told: the part the sender was told of
 *
 * Packets with messages never use the last credit: it is reserved for a packet that carries nothing
 * but credits, which is sent when no other packet has carried them in time. A credit packet grants
 * at least two credits, so the two sides can't both run out: the side that received the last credit
 * packet has two credits more than before.
 */

#include "rpc_pvt.h"

static inline void
rpc_credit_start(struct leat_rpc_session *s, const struct rpc_hello *h)
{
	s->tx_credit = s->tx_sent + h->credits;
	s->peer_credits = h->credits;
}

/* Return how many packets with messages may be sent; the last credit is for a credit packet. */
static inline uint32_t
rpc_credit_left(const struct leat_rpc_session *s)
{
	uint32_t left = s->tx_credit - s->tx_sent;

	return left > 0 ? left - 1 : 0;
}

/* Check and store the credit in a packet that arrived. @return 0 or a violation */
static inline int
rpc_credit_take(struct leat_rpc_session *s, uint32_t credit)
{
	/* Packets arrive in the order of sending, so credits never decrease. */
	if (unlikely(credit - s->tx_sent > s->peer_credits || (int32_t)(credit - s->tx_credit) < 0))
		return LEAT_RPC_BAD_CREDIT;
	s->tx_credit = credit;
	return 0;
}

/* Grant a credit: a receive that had a packet of this session was posted again. */
static inline void
rpc_credit_give(struct leat_rpc_session *s)
{
	s->rx_granted++;
}

/* Write the head of a packet that is about to be posted. */
static inline void
rpc_credit_head(struct leat_rpc_session *s, struct rpc_packet *p)
{
	const struct rpc_head h = {
		.token = s->peer_token,
		.credit = s->rx_granted,
		.epoch = s->peer_epoch,
		.version = RPC_VERSION,
	};

	rpc_head_put(p->op.buf, &h);
	s->rx_told = s->rx_granted;
	s->tx_sent++;
}

/* Must a credit packet be sent, because no other packet has carried the credits? */
static inline bool
rpc_credit_due(const struct leat_rpc_session *s)
{
	const uint32_t half = s->rpc->credits / 2;

	return s->rx_granted - s->rx_told >= RTE_MAX(half, 2u);
}

#endif /* RPC_CREDIT_H */
