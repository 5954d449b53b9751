/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_CREDIT_H
#define RPC_CREDIT_H

/*
 * Credits: how many packets may be on the way, so that each meets a receive. The one
 * place for them.
 *
 *     sender                                      receiver
 *        tx_sent ----------- packets ------------> rx_got
 *        tx_credit <--- in each packet back ------ rx_granted: receives for packets before it
 *                                                  rx_told: of which the sender knows
 *
 * A packet with messages leaves the last credit to one that has nothing but credits, which is sent
 * when no other packet told of them in time. Such a packet tells of two at least, so two sides
 * can't both be without: the one that got the last of these packets has two credits more than
 * before.
 */

#include "rpc_pvt.h"

static inline void
rpc_credit_start(struct leat_rpc_session *s, const struct rpc_hello *h)
{
	s->tx_credit = s->tx_sent + h->credits;
	s->peer_credits = h->credits;
}

/* Packets of messages that may be sent now: the last place is kept for one with credits. */
static inline uint32_t
rpc_credit_left(const struct leat_rpc_session *s)
{
	uint32_t left = s->tx_credit - s->tx_sent;

	return left > 0 ? left - 1 : 0;
}

/* The head of a packet that came. @return 0 or a violation */
static inline int
rpc_credit_take(struct leat_rpc_session *s, uint32_t credit)
{
	/* Packets come in their order, so what they say never goes back. */
	if (unlikely(credit - s->tx_sent > s->peer_credits || (int32_t)(credit - s->tx_credit) < 0))
		return LEAT_RPC_BAD_CREDIT;
	s->tx_credit = credit;
	return 0;
}

/* A receive was posted in the place of one that had a packet of this session. */
static inline void
rpc_credit_give(struct leat_rpc_session *s)
{
	s->rx_granted++;
}

/* The head of a packet that is about to be posted. */
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

/* Is the other side to be told, without a packet that says it along the way? */
static inline bool
rpc_credit_due(const struct leat_rpc_session *s)
{
	const uint32_t half = s->rpc->credits / 2;

	return s->rx_granted - s->rx_told >= RTE_MAX(half, 2u);
}

#endif /* RPC_CREDIT_H */
