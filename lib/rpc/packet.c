/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Packets to send: filled by their session, posted in bursts. Receives: posted again after use.
 *
 *     free --rpc_place()--> open --full--> ready --credit--> burst --post--> device --> free
 *                             `---- rpc_packets_send() ------>
 *
 * Each session has one packet for itself, so that no session can keep another from answering; all
 * further packets are shared. nb_idle sessions hold no packet: nb_idle free packets are reserved
 * for them.
 */

#include "rpc_credit.h"
#include "rpc_dgram.h"
#include "rpc_fast.h"

/* ---- filling ---- */

/*
 * A session may take a shared packet while it holds no more packets than there are free shared
 * packets. So the share of each session shrinks as more sessions want packets, and a session whose
 * peer accepts nothing gets at most half of the shared packets.
 */
bool
rpc_packet_available(const struct leat_rpc_session *s)
{
	const struct leat_rpc *rpc = s->rpc;

	return s->held == 0 ||
	       (rpc->nb_free > rpc->nb_idle && s->held <= rpc->nb_free - rpc->nb_idle);
}

struct rpc_packet *
rpc_packet_take(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;
	struct rpc_packet *p = rpc->free_packets;

	if (unlikely(!rpc_packet_available(s)))
		return NULL;
	rpc->free_packets = p->next;
	rpc->nb_free--;
	if (s->held++ == 0)
		rpc->nb_idle--;
	p->s = s;
	p->next = NULL;
	p->kept = false;
	p->op.size = rpc->head_len;
	return p;
}

void
rpc_packet_free(struct leat_rpc *rpc, struct rpc_packet *p)
{
	struct leat_rpc_session *s = p->s;

	p->next = rpc->free_packets;
	rpc->free_packets = p;
	rpc->nb_free++;
	if (--s->held == 0)
		rpc->nb_idle++;
}

/* Close the open packet. @return the packet; NULL: none was open */
static struct rpc_packet *
packet_close(struct leat_rpc_session *s)
{
	struct rpc_packet *p = s->open;

	if (p == NULL)
		return NULL;
	p->op.size = (uint64_t)(s->at - (uint8_t *)p->op.buf);
	s->open = NULL;
	s->at = s->end = NULL;
	return p;
}

static void
ready_add(struct leat_rpc_session *s, struct rpc_packet *p)
{
	if (s->ready == NULL)
		s->ready = p;
	else
		s->ready_tail->next = p;
	s->ready_tail = p;
}

static bool
open_empty(const struct leat_rpc_session *s)
{
	return s->at == (uint8_t *)s->open->op.buf + s->rpc->head_len;
}

uint32_t
rpc_open_room(const struct leat_rpc_session *s)
{
	return rpc_open_fits(s, RPC_ITEM_LEN) ? (uint32_t)(s->end - s->at) - RPC_ITEM_LEN : 0;
}

uint8_t *
rpc_place(struct leat_rpc_session *s, uint32_t need, bool may_wait)
{
	struct rpc_packet *p, *full;

	if (likely(rpc_open_fits(s, need)))
		return s->at;
	if (!may_wait && rpc_credit_left(s) <= s->queued)
		return NULL;
	p = rpc_packet_take(s);
	if (unlikely(p == NULL)) {
		/* Try again in the next rpc_run(): other sessions may free packets until then. */
		rpc_work_add(s);
		return NULL;
	}
	full = packet_close(s);
	if (full != NULL)
		ready_add(s, full);
	s->open = p;
	s->at = (uint8_t *)p->op.buf + s->rpc->head_len;
	s->end = (uint8_t *)p->op.buf + s->packet;
	s->queued++;
	return s->at;
}

/* ---- sending ---- */

void
rpc_packet_post(struct leat_rpc_session *s, struct rpc_packet *p)
{
	rpc_burst_add(s, p);
}

static void
packet_send(struct leat_rpc_session *s, struct rpc_packet *p)
{
	if (s->dg != NULL)
		rpc_dgram_number(s, p);
	else
		rpc_credit_head(s, p);
	rpc_burst_add(s, p);
}

/* Send a packet that carries only credits. */
static void
credits_send(struct leat_rpc_session *s)
{
	struct rpc_packet *p = rpc_packet_take(s);

	if (p == NULL) {
		rpc_work_add(s);
		return;
	}
	s->rpc->stats.credit_packets++;
	packet_send(s, p);
}

void
rpc_packets_send(struct leat_rpc_session *s)
{
	struct rpc_packet *p;

	while ((p = s->ready) != NULL && rpc_credit_left(s) > 0) {
		s->ready = p->next;
		s->queued--;
		packet_send(s, p);
	}
	if (s->open != NULL && s->ready == NULL && (open_empty(s) || rpc_credit_left(s) > 0)) {
		p = packet_close(s);
		s->queued--;
		/* An empty packet was opened for a response that was not sent. */
		if (unlikely(p->op.size == s->rpc->head_len))
			rpc_packet_free(s->rpc, p);
		else
			packet_send(s, p);
	}
	if (unlikely(rpc_credit_due(s)) && s->tx_credit != s->tx_sent)
		credits_send(s);
}

void
rpc_packet_end(struct leat_rpc_session *s, int err)
{
	const struct rpc_item m = { .kind = RPC_END, .aux = (uint32_t)err };
	struct rpc_packet *p;

	if (s->dg != NULL) {
		(void)rpc_dgram_control(s, 0, 0, err);
		rpc_packets_post(s->rpc);
		return;
	}
	if (s->tx_credit == s->tx_sent)
		return;
	p = rpc_packet_take(s);
	if (p == NULL)
		return;
	rpc_item_put((uint8_t *)p->op.buf + RPC_HEAD_LEN, &m);
	p->op.size += RPC_ITEM_LEN;
	packet_send(s, p);
	rpc_packets_post(s->rpc);
}

/* Queue a packet that the endpoint had no room for; the order is kept. */
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
 * Drop all packets that a session has not posted, when it ends. They must not wait: when the
 * endpoint has room again, the session's peer id may belong to another peer.
 */
void
rpc_packets_drop(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;
	struct rpc_packet *p, *next, *kept = NULL;

	rpc_packets_post(rpc);
	p = packet_close(s);
	if (p != NULL)
		rpc_packet_free(rpc, p);
	for (p = s->ready; p != NULL; p = next) {
		next = p->next;
		rpc_packet_free(rpc, p);
	}
	s->ready = NULL;
	s->queued = 0;
	p = rpc->unposted;
	rpc->unposted = NULL;
	for (; p != NULL; p = next) {
		next = p->next;
		if (p->s == s) {
			p->busy = false;
			if (!p->kept)
				rpc_packet_free(rpc, p);
		} else {
			unposted_add(rpc, p);
			kept = p;
		}
	}
	rpc->unposted_tail = kept;
}

void
rpc_packet_completed(struct leat_rpc *rpc, struct rpc_packet *p)
{
	struct leat_rpc_session *s = p->s;

	p->busy = false;
	/* A datagram whose send failed is treated as lost. */
	if (unlikely(p->op.status != 0 && s->dg == NULL))
		rpc_op_failed(s, &p->op);
	if (!p->kept)
		rpc_packet_free(rpc, p);
	if (unlikely(s->closing || s->state == RPC_ENDING))
		rpc_work_add(s);
}

/* ---- receives ---- */

/* Grant a credit to the session whose packet the receive had. */
static void
credit(struct rpc_recv *r)
{
	struct leat_rpc_session *s = r->s;

	if (unlikely(s == NULL))
		return;
	r->s = NULL;
	if (likely(s->token == r->token && s->state == RPC_OPEN)) {
		rpc_credit_give(s);
		if (unlikely(rpc_credit_due(s)))
			rpc_work_add(s);
	}
}

static void
recv_refused(struct leat_rpc *rpc, struct rpc_recv *r)
{
	r->next = rpc->refused_recvs;
	rpc->refused_recvs = r;
	rpc->recvs_refused = true;
}

/*
 * Queue a receive. It is posted again when leat_rpc_poll() has nothing else to do, or when many
 * receives are queued, so that no answer waits for the post. The credit is sent with the next
 * packet after the post.
 */
void
rpc_recv_repost(struct leat_rpc *rpc, struct rpc_recv *r)
{
	if (unlikely(rpc->nb_reposts == RPC_BURST))
		rpc_recvs_post(rpc);
	if (unlikely(rpc->recvs_refused))
		recv_refused(rpc, r);
	else
		rpc->reposts[rpc->nb_reposts++] = &r->op;
}

/* Post the receives that the endpoint had no room for. */
static void
refused_post(struct leat_rpc *rpc)
{
	struct rpc_recv *r;
	struct leat_op *op;

	while ((r = rpc->refused_recvs) != NULL) {
		op = &r->op;
		if (leat_ep_post(rpc->ep, &op, 1) == 0)
			return;
		rpc->refused_recvs = r->next;
		credit(r);
	}
	rpc->recvs_refused = false;
}

void
rpc_recvs_post(struct leat_rpc *rpc)
{
	const uint32_t n = rpc->nb_reposts;
	uint32_t i, got = 0;

	rpc->nb_reposts = 0;
	if (unlikely(rpc->destroying)) {
		rpc->refused_recvs = NULL;
		rpc->recvs_refused = false;
		return;
	}
	if (likely(n > 0))
		got = leat_ep_post(rpc->ep, rpc->reposts, (uint16_t)n);
	for (i = 0; i < got; i++)
		credit(container_of(rpc->reposts[i], struct rpc_recv, op));
	for (; unlikely(i < n); i++)
		recv_refused(rpc, container_of(rpc->reposts[i], struct rpc_recv, op));
	if (unlikely(rpc->recvs_refused))
		refused_post(rpc);
}
