/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets: filled by what a session has to say, sent in bursts; and the receives for those that
 * come.
 *
 *     free --rpc_place()--> open --full--> ready --credit--> burst --post--> device --> free
 *                             `-------- end of a run -------->
 *
 * Each session has one packet for itself, so that none can keep another from answering; those
 * beyond it are shared. nb_idle sessions hold none: so many of the free ones are kept for them.
 */

#include "rpc_pvt.h"

/* ---- filling ---- */

bool
rpc_packet_there(const struct leat_rpc_session *s)
{
	const struct leat_rpc *rpc = s->rpc;

	return s->held == 0 || rpc->nb_free > rpc->nb_idle;
}

static struct rpc_packet *
packet_take(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;
	struct rpc_packet *p = rpc->free_packets;

	if (unlikely(!rpc_packet_there(s)))
		return NULL;
	rpc->free_packets = p->next;
	rpc->nb_free--;
	if (s->held++ == 0)
		rpc->nb_idle--;
	p->s = s;
	p->next = NULL;
	p->len = RPC_HEAD_LEN;
	p->count = 0;
	return p;
}

static void
packet_free(struct leat_rpc *rpc, struct rpc_packet *p)
{
	struct leat_rpc_session *s = p->s;

	p->next = rpc->free_packets;
	rpc->free_packets = p;
	rpc->nb_free++;
	if (--s->held == 0)
		rpc->nb_idle++;
}

/* Nothing more goes into the open one. */
static void
packet_close(struct leat_rpc_session *s)
{
	struct rpc_packet *p = s->open;

	if (p == NULL)
		return;
	s->open = NULL;
	if (s->ready == NULL)
		s->ready = p;
	else
		s->ready_tail->next = p;
	s->ready_tail = p;
}

uint32_t
rpc_open_room(const struct leat_rpc_session *s)
{
	const struct rpc_packet *p = s->open;

	if (p == NULL || p->count == RPC_ITEMS_MAX || s->packet - p->len <= RPC_ITEM_LEN)
		return 0;
	return s->packet - p->len - RPC_ITEM_LEN;
}

uint8_t *
rpc_place(struct leat_rpc_session *s, uint32_t len, bool may_wait)
{
	const uint32_t need = rpc_item_len(len);
	struct rpc_packet *p = s->open;

	if (likely(p != NULL && p->len + need <= s->packet && p->count < RPC_ITEMS_MAX))
		return p->buf + p->len;
	if (!may_wait && rpc_credit_left(s) <= s->queued)
		return NULL;
	p = packet_take(s);
	if (unlikely(p == NULL)) {
		/* Tried again until other sessions have given some back. */
		rpc_work(s);
		return NULL;
	}
	packet_close(s);
	s->open = p;
	s->queued++;
	return p->buf + p->len;
}

void
rpc_commit(struct leat_rpc_session *s, uint32_t len)
{
	s->open->len += rpc_item_len(len);
	s->open->count++;
}

/* ---- sending ---- */

static void
burst_add(struct leat_rpc_session *s, struct rpc_packet *p)
{
	const struct rpc_head h = {
		.token = s->peer_token,
		.credit = s->rx_granted,
		.epoch = s->peer_epoch,
		.version = RPC_VERSION,
		.count = (uint8_t)p->count,
	};
	struct leat_rpc *rpc = s->rpc;

	rpc_head_put(p->buf, &h);
	s->rx_told = s->rx_granted;
	s->tx_sent++;
	p->op.peer = s->peer;
	p->op.size = p->len;
	rpc->stats.packets_sent++;
	rpc->stats.items_sent += p->count;
	if (unlikely(rpc->nb_burst == RPC_BURST))
		rpc_packets_post(rpc);
	rpc->burst[rpc->nb_burst++] = &p->op;
}

void
rpc_packets_send(struct leat_rpc_session *s)
{
	struct rpc_packet *p;

	while ((p = s->ready) != NULL && rpc_credit_left(s) > 0) {
		s->ready = p->next;
		s->queued--;
		burst_add(s, p);
	}
	p = s->open;
	if (s->ready == NULL && p != NULL && (p->count == 0 || rpc_credit_left(s) > 0)) {
		s->open = NULL;
		s->queued--;
		/* Opened for a response that was not given. */
		if (unlikely(p->count == 0))
			packet_free(s->rpc, p);
		else
			burst_add(s, p);
	}
	if (unlikely(rpc_credit_due(s)) && s->tx_credit != s->tx_sent) {
		p = packet_take(s);
		if (p == NULL) {
			rpc_work(s);
			return;
		}
		s->rpc->stats.credit_packets++;
		burst_add(s, p);
	}
}

void
rpc_packet_end(struct leat_rpc_session *s, int err)
{
	const struct rpc_item m = { .kind = RPC_END, .aux = (uint32_t)err };
	struct rpc_packet *p;

	if (s->tx_credit == s->tx_sent)
		return;
	p = packet_take(s);
	if (p == NULL)
		return;
	rpc_item_put(p->buf + p->len, &m);
	p->len += rpc_item_len(0);
	p->count = 1;
	burst_add(s, p);
	rpc_packets_post(s->rpc);
}

/* What the endpoint has no room for waits, in its order. */
static void
unposted_add(struct leat_rpc *rpc, struct rpc_packet *p)
{
	p->next = NULL;
	if (rpc->unposted == NULL)
		rpc->unposted = p;
	else
		rpc->unposted_tail->next = p;
	rpc->unposted_tail = p;
}

static bool
unposted_post(struct leat_rpc *rpc)
{
	struct rpc_packet *p;

	while ((p = rpc->unposted) != NULL) {
		struct rpc_packet *next = p->next;
		struct leat_op *op = &p->op;

		if (leat_ep_post(rpc->ep, &op, 1) == 0)
			return false;
		rpc->unposted = next;
	}
	return true;
}

void
rpc_packets_post(struct leat_rpc *rpc)
{
	uint32_t i = 0, n = rpc->nb_burst;

	if (likely(rpc->unposted == NULL) || unposted_post(rpc))
		i = n > 0 ? leat_ep_post(rpc->ep, rpc->burst, (uint16_t)n) : 0;
	for (; i < n; i++)
		unposted_add(rpc, container_of(rpc->burst[i], struct rpc_packet, op));
	rpc->nb_burst = 0;
}

/*
 * The session ends: what it has not posted is dropped. The id of its peer may be another one's
 * before the endpoint has room again.
 */
void
rpc_packets_drop(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;
	struct rpc_packet *p, *next, *kept = NULL;

	rpc_packets_post(rpc);
	packet_close(s);
	for (p = s->ready; p != NULL; p = next) {
		next = p->next;
		packet_free(rpc, p);
	}
	s->ready = NULL;
	s->queued = 0;
	p = rpc->unposted;
	rpc->unposted = NULL;
	for (; p != NULL; p = next) {
		next = p->next;
		if (p->s == s) {
			packet_free(rpc, p);
		} else {
			unposted_add(rpc, p);
			kept = p;
		}
	}
	rpc->unposted_tail = kept;
}

void
rpc_packet_back(struct leat_rpc *rpc, struct rpc_packet *p)
{
	struct leat_rpc_session *s = p->s;

	if (unlikely(p->op.status != 0))
		rpc_op_failed(s, &p->op);
	packet_free(rpc, p);
	if (unlikely(s->closing || s->state == RPC_ENDING))
		rpc_work(s);
}

/* ---- receives ---- */

/* The session that it had a packet of may send another one. */
static void
credit(struct rpc_recv *r)
{
	struct leat_rpc_session *s = r->s;

	if (s == NULL)
		return;
	r->s = NULL;
	if (s->token == r->token && s->state == RPC_OPEN) {
		rpc_credit_give(s);
		rpc_work(s);
	}
}

/*
 * Posted at the end of this run, behind what is sent: so an answer does not wait for it, and the
 * credit goes along. When the endpoint refuses, credits wait until it takes them.
 */
void
rpc_recv_repost(struct leat_rpc *rpc, struct rpc_recv *r)
{
	r->next = NULL;
	if (rpc->to_post == NULL)
		rpc->to_post = r;
	else
		rpc->to_post_tail->next = r;
	rpc->to_post_tail = r;
	if (likely(!rpc->recvs_refused))
		credit(r);
}

void
rpc_recvs_post(struct leat_rpc *rpc)
{
	struct leat_op *ops[RPC_BURST];
	struct rpc_recv *r;
	uint16_t i, n, got;

	if (unlikely(rpc->destroying)) {
		rpc->to_post = NULL;
		return;
	}
	while (rpc->to_post != NULL) {
		for (n = 0, r = rpc->to_post; r != NULL && n < RPC_BURST; r = r->next)
			ops[n++] = &r->op;
		got = leat_ep_post(rpc->ep, ops, n);
		for (i = 0; i < got; i++) {
			r = rpc->to_post;
			rpc->to_post = r->next;
			credit(r);
		}
		rpc->recvs_refused = got < n;
		if (unlikely(got < n))
			return;
	}
}
