/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Counters. Each connection has its own. Those of a context are computed when asked for: the sum
 * over its connections, plus the counters of closed connections in leat_msg.stats.
 */

#include "msg_pvt.h"

static void
list_count(const struct msg_list *list, uint32_t *all, uint32_t *not_begun)
{
	const struct leat_msg_req *req;
	bool begun = true;

	for (req = list->head; req != NULL; req = req->next) {
		begun &= req != list->begin;
		++*all;
		if (!begun)
			++*not_begun;
	}
}

void
leat_msg_conn_stats_get(const struct leat_msg_conn *c, struct leat_msg_conn_stats *stats)
{
	uint32_t waiting = 0;

	*stats = c->stats;
	list_count(&c->sendq, &stats->sends, &stats->queued);
	list_count(&c->recvq, &stats->recvs, &waiting);
	stats->held = c->rx_arrived;
	if (c->mode == LEAT_MSG_LEAT && (int32_t)(c->tx_credit - c->tx_next) > 0)
		stats->credits = c->tx_credit - c->tx_next;
}

void
msg_stats_add(struct leat_msg_stats *sum, const struct leat_msg_conn *c)
{
	const struct leat_msg_conn_stats *s = &c->stats;

	sum->sent += s->sent;
	sum->received += s->received;
	sum->sent_bytes += s->sent_bytes;
	sum->recv_bytes += s->recv_bytes;
	sum->eager += s->eager;
	sum->control += s->control;
	sum->stalled += s->stalled;
	sum->refused += s->refused;
	sum->held_max = RTE_MAX(sum->held_max, s->held_max);
}

void
leat_msg_stats_get(const struct leat_msg *m, struct leat_msg_stats *stats)
{
	uint16_t i;

	*stats = m->stats;
	for (i = 0; i < m->max_conns; i++) {
		if (m->conns[i].state == MSG_FREE)
			continue;
		msg_stats_add(stats, &m->conns[i]);
		stats->held += m->conns[i].rx_arrived;
	}
	stats->conns = m->nb_open;
	stats->credits = m->credits;
}
