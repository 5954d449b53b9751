/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Contexts: all memory, and the calls of the application's loop. The packets to send are one array,
 * the receives another, the segments of transfers a third: an op is this context's if its address
 * lies in one of them.
 */

#include <stdlib.h>
#include <sys/mman.h>

#include "rpc_dgram.h"
#include "rpc_fast.h"

#define PACKET_DEFAULT 4096
#define CREDITS_DEFAULT 64
#define SLOTS_DEFAULT 32
#define TX_PACKETS_DEFAULT 256
#define TICKETS_DEFAULT 256
#define MAX_MSG_DEFAULT (8u << 20)
#define MAX_MSG_MAX (1u << 30)
#define LARGE_DEFAULT 16
#define BUSY_US_DEFAULT 100
#define SEGMENTS_DEFAULT 64
#define SEGMENT_DEFAULT 65536
#define GRACE_DEFAULT_US 1000000
#define SILENCE_DEFAULT_US 500000
#define SILENCE_MIN_US 1000
#define IDLE_DEFAULT_US 5000000
/* Upper limit of the counts in leat_rpc_conf that no other constant limits. */
#define COUNT_MAX (1u << 20)
/* Maximum number of receives that wait to be posted again in one burst. */
#define REPOSTS_MAX 16
/* Resolution of deadlines, us. */
#define TICK_US 10

/* ---- create ---- */

static uint32_t
or_default(uint32_t value, uint32_t def)
{
	return value != 0 ? value : def;
}

static int
limits_check(struct leat_rpc *rpc, const struct leat_rpc_conf *conf)
{
	const struct leat_ep *ep = rpc->ep;
	const uint32_t room = ep->rx_room;

	if (rpc->max_sessions == 0 || rpc->max_sessions > ep->nb_peers)
		return leat_err(EINVAL, "rpc on %s: %u sessions, the endpoint has %u peers",
				leat_ep_name(ep), rpc->max_sessions, ep->nb_peers);
	if (rpc->credits < LEAT_RPC_CREDITS_MIN || rpc->credits > LEAT_RPC_CREDITS_MAX ||
	    (uint64_t)rpc->credits * rpc->max_sessions > room)
		return leat_err(
			EINVAL,
			"rpc on %s: %u sessions with %u credits (%u to %u), the endpoint has "
			"room for %u receives: larger rx_depth, or smaller max_sessions",
			leat_ep_name(ep), rpc->max_sessions, rpc->credits, LEAT_RPC_CREDITS_MIN,
			LEAT_RPC_CREDITS_MAX, room);
	if (rpc->packet < LEAT_RPC_PACKET_MIN || rpc->packet > LEAT_RPC_PACKET_MAX ||
	    rpc->packet % 8 != 0 || rpc->packet > ep->max_msg)
		return leat_err(
			EINVAL,
			"rpc on %s: packet of %u B, need a multiple of 8, %u to %u, and the "
			"device sends up to %" PRIu64,
			leat_ep_name(ep), rpc->packet, LEAT_RPC_PACKET_MIN, LEAT_RPC_PACKET_MAX,
			ep->max_msg);
	if (rpc->datagram && conf->silence_us != 0 && conf->silence_us < SILENCE_MIN_US)
		return leat_err(EINVAL, "rpc on %s: silence of %u us, need at least %u",
				leat_ep_name(ep), conf->silence_us, SILENCE_MIN_US);
	if (rpc->slots > LEAT_RPC_SLOTS_MAX || rpc->max_msg > MAX_MSG_MAX ||
	    conf->tx_packets > COUNT_MAX || conf->tickets > COUNT_MAX || conf->large > COUNT_MAX ||
	    conf->segments > COUNT_MAX)
		return leat_err(EINVAL,
				"rpc on %s: %u slots (at most %u), max_msg %u (at most %u), %u "
				"packets, %u tickets, %u long messages, %u segments (of each at "
				"most %u)",
				leat_ep_name(ep), rpc->slots, LEAT_RPC_SLOTS_MAX, rpc->max_msg,
				MAX_MSG_MAX, conf->tx_packets, conf->tickets, conf->large,
				conf->segments, COUNT_MAX);
	return 0;
}

void
rpc_conf_times(struct leat_rpc *rpc, const struct leat_rpc_conf *conf)
{
	rpc->silence = leat_us_to_cycles(or_default(conf->silence_us, SILENCE_DEFAULT_US));
	rpc->idle = leat_us_to_cycles(or_default(conf->idle_us, IDLE_DEFAULT_US));
	rpc->segment = (uint32_t)RTE_MIN((uint64_t)or_default(conf->segment, SEGMENT_DEFAULT),
					 rpc->ep->max_msg);
	rpc->grace = leat_us_to_cycles(or_default(conf->bulk_grace_us, GRACE_DEFAULT_US));
	rpc->busy_us = or_default(conf->busy_us, BUSY_US_DEFAULT);
}

static int
conf_take(struct leat_rpc *rpc, const struct leat_rpc_conf *conf)
{
	const uint32_t need = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	const struct leat_ep *ep = rpc->ep;

	if ((ep->op_mask & need) != need)
		return leat_err(EOPNOTSUPP,
				"rpc on %s: the endpoint was not created with SEND and RECV "
				"(leat_ep_conf.ops)",
				leat_ep_name(ep));
	rpc->datagram = leat_ep_is_datagram(ep);
	rpc->head_len = RPC_HEAD_LEN + (rpc->datagram ? RPC_NUMBERS_LEN : 0);
	rpc->max_sessions =
		or_default(conf->max_sessions, ep->nb_peers > 1 ? ep->nb_peers - 1u : 1);
	rpc->credits = conf->credits;
	if (rpc->credits == 0 && rpc->max_sessions > 0)
		rpc->credits = RTE_MIN(ep->rx_room / rpc->max_sessions, (uint32_t)CREDITS_DEFAULT);
	rpc->packet = or_default(conf->packet, (uint32_t)RTE_MIN(ep->max_msg & ~UINT64_C(7),
								 (uint64_t)PACKET_DEFAULT));
	rpc->slots = or_default(conf->slots, SLOTS_DEFAULT);
	rpc->max_msg = or_default(conf->max_msg, MAX_MSG_DEFAULT);
	/*
	 * With few credits the other side soon waits for receives: post them again in smaller
	 * bursts.
	 */
	rpc->reposts_max = RTE_MAX(RTE_MIN(rpc->credits / 4, (uint32_t)REPOSTS_MAX), 1u);
	rpc_conf_times(rpc, conf);
	return limits_check(rpc, conf);
}

static void *
zeroed(struct leat_rpc *rpc, uint64_t n, size_t size)
{
	const size_t len = RTE_ALIGN_CEIL((size_t)n * size, (size_t)LEAT_CACHE_LINE);
	void *p = aligned_alloc(LEAT_CACHE_LINE, len);

	if (p != NULL) {
		memset(p, 0, len);
		rpc->stats.memory += len;
	}
	return p;
}

/* Allocate the memory of long messages: address space, which uses memory page by page. */
static int
large_alloc(struct leat_rpc *rpc, uint32_t n)
{
	const size_t each = RTE_ALIGN_CEIL((size_t)rpc->max_msg, (size_t)4096);
	struct rpc_large *l;
	uint64_t *maps = NULL;
	void *map;
	uint32_t i;

	l = zeroed(rpc, n, sizeof(*l));
	rpc->mem_large = l;
	map = mmap(NULL, n * each, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	rpc->large_map = map;
	rpc->large_map_len = n * each;
	rpc->stats.memory += n * each;
	if (l == NULL)
		return -ENOMEM;
	if (rpc->datagram) {
		maps = rpc->mem_maps = zeroed(rpc, n, rpc_large_map_len(rpc));
		if (maps == NULL)
			return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		l[i].buf = rpc->large_map + i * each;
		l[i].map = rpc->datagram ? maps + i * (rpc_large_map_len(rpc) / sizeof(*maps))
					 : NULL;
		l[i].next = rpc->free_large;
		rpc->free_large = &l[i];
	}
	return 0;
}

static int
tickets_alloc(struct leat_rpc *rpc, uint32_t n)
{
	struct rpc_ticket *t = zeroed(rpc, n, sizeof(*t));
	uint8_t *buf = zeroed(rpc, n, 2 * (size_t)rpc->packet);
	uint32_t i;

	rpc->mem_tickets = t;
	rpc->mem_ticket_bufs = buf;
	if (t == NULL || buf == NULL)
		return -ENOMEM;
	for (i = 0; i < n; i++, t++) {
		t->rpc = rpc;
		t->req_buf = buf + i * 2 * (size_t)rpc->packet;
		t->resp_buf = t->req_buf + rpc->packet;
		t->next = rpc->free_tickets;
		rpc->free_tickets = t;
	}
	return 0;
}

static int
sessions_alloc(struct leat_rpc *rpc)
{
	const uint32_t n = rpc->max_sessions;
	const uint32_t each = rpc->slots + RPC_INTERNAL_SLOTS;
	const uint64_t slots = (uint64_t)n * each;
	struct rpc_tx_slot *tx = rpc->mem_tx = zeroed(rpc, slots, sizeof(*tx));
	struct rpc_rx_slot *rx = rpc->mem_rx = zeroed(rpc, slots, sizeof(*rx));
	struct rpc_tx_more *tx_more = rpc->mem_tx_more = zeroed(rpc, slots, sizeof(*tx_more));
	struct rpc_rx_more *rx_more = rpc->mem_rx_more = zeroed(rpc, slots, sizeof(*rx_more));
	struct leat_rpc_session *s = rpc->sessions = zeroed(rpc, n, sizeof(*s));
	size_t at;
	uint32_t i;

	rpc->by_peer = zeroed(rpc, rpc->ep->nb_peers, sizeof(*rpc->by_peer));
	if (tx == NULL || rx == NULL || tx_more == NULL || rx_more == NULL || s == NULL ||
	    rpc->by_peer == NULL)
		return -ENOMEM;
	for (i = n; i-- > 0;) {
		at = (size_t)i * each;
		s[i].rpc = rpc;
		s[i].tx = tx + at;
		s[i].rx = rx + at;
		s[i].tx_more = tx_more + at;
		s[i].rx_more = rx_more + at;
		s[i].next_free = rpc->free_sessions;
		rpc->free_sessions = &s[i];
	}
	return 0;
}

static int
packets_alloc(struct leat_rpc *rpc, uint32_t nb_tx)
{
	/* An odd number of cache lines: else the first lines of all packets would map to a few sets
	 * of the caches. */
	const size_t stride = RTE_ALIGN_CEIL((size_t)rpc->packet, (size_t)LEAT_CACHE_LINE) |
			      LEAT_CACHE_LINE;
	struct rpc_packet *p = zeroed(rpc, nb_tx, sizeof(*p));
	struct rpc_recv *r = zeroed(rpc, rpc->nb_recvs, sizeof(*r));
	uint8_t *buf;
	uint32_t i;

	rpc->packets_base = (uintptr_t)p;
	rpc->packets_len = nb_tx * sizeof(*p);
	rpc->recvs_base = (uintptr_t)r;
	rpc->recvs_len = rpc->nb_recvs * sizeof(*r);
	rpc->buffers_len = ((size_t)nb_tx + rpc->nb_recvs) * stride;
	buf = rpc->buffers = zeroed(rpc, 1, rpc->buffers_len);
	rpc->scratch = zeroed(rpc, 1, rpc->packet);
	if (p == NULL || r == NULL || buf == NULL || rpc->scratch == NULL)
		return -ENOMEM;
	if (rpc->ep->mr_local) {
		rpc->mr = leat_mr_register(rpc->ep, buf, rpc->buffers_len, LEAT_MR_LOCAL);
		if (rpc->mr == NULL)
			return -rte_errno;
	}
	for (i = 0; i < rpc->nb_recvs; i++, buf += stride) {
		r[i].op.type = LEAT_OP_RECV;
		r[i].op.peer = LEAT_PEER_ANY;
		r[i].op.buf = buf;
		r[i].op.size = rpc->packet;
		r[i].op.mr = rpc->mr;
		rpc_recv_repost(rpc, &r[i]);
	}
	for (i = 0; i < nb_tx; i++, buf += stride) {
		p[i].op.type = LEAT_OP_SEND;
		p[i].op.buf = buf;
		p[i].op.mr = rpc->mr;
		p[i].next = rpc->free_packets;
		rpc->free_packets = &p[i];
	}
	rpc->nb_free = nb_tx;
	return 0;
}

static int
memory_alloc(struct leat_rpc *rpc, const struct leat_rpc_conf *conf)
{
	const uint32_t nb_tx = rpc->max_sessions + or_default(conf->tx_packets, TX_PACKETS_DEFAULT);
	int ret;

	rpc->stats.memory = sizeof(*rpc);
	rpc->nb_recvs = rpc->max_sessions * rpc->credits;
	ret = sessions_alloc(rpc);
	if (ret == 0)
		ret = tickets_alloc(rpc, or_default(conf->tickets, TICKETS_DEFAULT));
	if (ret == 0)
		ret = large_alloc(rpc, or_default(conf->large, LARGE_DEFAULT));
	if (ret == 0)
		ret = rpc_segments_alloc(rpc, or_default(conf->segments, SEGMENTS_DEFAULT));
	if (ret == 0 && rpc->datagram)
		ret = rpc_dgram_alloc(rpc);
	if (ret == 0)
		ret = packets_alloc(rpc, nb_tx);
	if (ret == -ENOMEM)
		return leat_err(
			ENOMEM,
			"rpc on %s: no memory for %u sessions with %u credits of %u B and %u "
			"slots",
			leat_ep_name(rpc->ep), rpc->max_sessions, rpc->credits, rpc->packet,
			rpc->slots);
	return ret;
}

static void
rpc_free(struct leat_rpc *rpc)
{
	if (rpc->large_map != NULL)
		(void)munmap(rpc->large_map, rpc->large_map_len);
	free(rpc->mem_tx);
	free(rpc->mem_rx);
	free((void *)rpc->segments_base);
	free(rpc->mem_segment_bufs);
	free(rpc->mem_dgrams);
	free(rpc->mem_maps);
	free(rpc->mem_tx_more);
	free(rpc->mem_rx_more);
	free(rpc->sessions);
	free(rpc->by_peer);
	free(rpc->mem_tickets);
	free(rpc->mem_ticket_bufs);
	free(rpc->mem_large);
	free((void *)rpc->packets_base);
	free((void *)rpc->recvs_base);
	free(rpc->buffers);
	free(rpc->scratch);
	free(rpc);
}

static int
rpc_start(struct leat_rpc *rpc, const struct leat_rpc_conf *conf)
{
	struct leat_dev_info info;
	uint64_t tick = leat_us_to_cycles(TICK_US), now = leat_now();
	int ret;

	ret = leat_dev_info_for(rpc->ep->dev, rpc->ep->op_mask, &info);
	if (ret < 0)
		return ret;
	rpc->priv_max[0] = info.priv_connect;
	rpc->priv_max[1] = info.priv_accept;
	rpc->refused_head = RPC_NONE;
	leat_wheel_init(&rpc->wheel, tick, now);
	leat_wheel_init(&rpc->timers, tick, now);
	ret = conf_take(rpc, conf);
	if (ret == 0)
		ret = memory_alloc(rpc, conf);
	if (ret < 0)
		return ret;
	rpc_recvs_post(rpc);
	LEAT_LOG(INFO, rpc,
		 "rpc on %s: %u sessions with %u credits, %u slots and packets of %u B, %s; up to "
		 "%u packets wait or are retained; %" PRIu64 " KiB",
		 leat_ep_name(rpc->ep), rpc->max_sessions, rpc->credits, rpc->slots, rpc->packet,
		 rpc->datagram ? "datagrams" : "reliable", rpc->nb_free, rpc->stats.memory >> 10);
	return 0;
}

struct leat_rpc *
leat_rpc_create(struct leat_ep *ep, const struct leat_rpc_conf *conf)
{
	struct leat_rpc *rpc = calloc(1, sizeof(*rpc));
	struct leat_rpc_conf decided = { 0 };
	int err;

	if (rpc == NULL) {
		leat_err(ENOMEM, "rpc on %s: no memory", leat_ep_name(ep));
		return NULL;
	}
	rpc->ep = ep;
	if (conf != NULL)
		decided = *conf;
	err = rpc_tune_add(rpc, &decided);
	if (err == 0)
		err = rpc_start(rpc, &decided);
	if (err < 0) {
		leat_tune_del(rpc->tune);
		rpc_free(rpc);
		rte_errno = -err;
		return NULL;
	}
	rpc_telemetry_add(rpc);
	return rpc;
}

struct leat_ep *
leat_rpc_ep(const struct leat_rpc *rpc)
{
	return rpc->ep;
}

/* ---- destroy ---- */

static uint32_t
recvs_recall(struct leat_rpc *rpc)
{
	struct rpc_recv *r = (struct rpc_recv *)rpc->recvs_base;
	uint32_t i, n = 0;

	for (i = 0; i < rpc->nb_recvs; i++) {
		if (r[i].op.state == LEAT_OP_IDLE)
			continue;
		n++;
		if (!rpc->destroying)
			(void)leat_op_cancel(rpc->ep, &r[i].op);
	}
	return n;
}

int
leat_rpc_destroy(struct leat_rpc *rpc)
{
	char text[LEAT_EVENT_TEXT];
	uint32_t n;
	int ret;

	if (rpc == NULL)
		return 0;
	if (rpc->nb_open > 0)
		return leat_err(EBUSY, "rpc on %s: %u sessions are open: leat_rpc_close() each",
				leat_ep_name(rpc->ep), rpc->nb_open);
	if (rpc_tickets_name(rpc, NULL, text, sizeof(text)) > 0)
		return leat_err(EBUSY, "rpc on %s: %s", leat_ep_name(rpc->ep), text);
	n = recvs_recall(rpc);
	rpc->destroying = true;
	if (n > 0)
		return leat_err(EBUSY, "rpc on %s: %u receives are with the device: poll",
				leat_ep_name(rpc->ep), n);
	if (rpc->done.head != NULL)
		return leat_err(EBUSY,
				"rpc on %s: requests that are done were not returned yet: "
				"leat_rpc_poll()",
				leat_ep_name(rpc->ep));
	if (rpc->mr != NULL) {
		ret = leat_mr_deregister(rpc->mr);
		if (ret < 0)
			return ret;
	}
	rpc_telemetry_del(rpc);
	leat_tune_del(rpc->tune);
	rpc_free(rpc);
	return 0;
}

void
leat_rpc_stats_get(const struct leat_rpc *rpc, struct leat_rpc_stats *stats)
{
	*stats = rpc->stats;
	stats->sessions = rpc->nb_open;
	stats->max_sessions = rpc->max_sessions;
	stats->credits = rpc->credits;
	stats->slots = rpc->slots;
	stats->tx_packets = (uint32_t)(rpc->packets_len / sizeof(struct rpc_packet)) - rpc->nb_free;
}

/* ---- run, process, poll ---- */

/*
 * Fill packets with the messages of a session. Answers and cancels come first: their packets may
 * wait for credit. Small requests and pieces of long messages take turns in using credit.
 */
static void
session_fill(struct leat_rpc_session *s)
{
	if (unlikely(s->answer_head != RPC_NONE) && !rpc_answers_send(s))
		return;
	if (unlikely(s->cancel_head != RPC_NONE) && !rpc_cancels_send(s))
		return;
	while (rpc_any_pending(s) || s->out != NULL) {
		bool any = false;

		if (unlikely(s->out != NULL && (s->out_turn || !rpc_any_pending(s)))) {
			any = rpc_piece_send(s);
			s->out_turn = !any;
		} else if (rpc_reqs_begin(s)) {
			any = true;
			s->out_turn = true;
		} else if (s->out != NULL) {
			any = rpc_piece_send(s);
		}
		if (!any)
			return;
	}
}

static __rte_always_inline void
session_run(struct leat_rpc_session *s)
{
	/* The usual case: an open packet, and nothing else to send. */
	if (likely(s->fast && !rpc_any_pending(s) && s->out == NULL &&
		   (s->answer_head & s->cancel_head) == RPC_NONE)) {
		if (unlikely(!rpc_fast_send(s))) {
			rpc_packets_send(s);
			if (unlikely(s->dg != NULL))
				rpc_dgram_ack_run(s);
		}
		return;
	}
	if (likely(s->state == RPC_OPEN)) {
		session_fill(s);
		rpc_packets_send(s);
		if (s->dg != NULL)
			rpc_dgram_ack_run(s);
	}
	if (unlikely(s->closing || s->state >= RPC_ENDING))
		rpc_end_run(s);
}

void
rpc_run(struct leat_rpc *rpc)
{
	struct leat_rpc_session *s, *next;

	if (unlikely(rpc->recvs_refused))
		rpc_recvs_post(rpc);
	s = rpc->work;
	rpc->work = NULL;
	for (; s != NULL; s = next) {
		next = s->next_work;
		s->in_work = false;
		session_run(s);
	}
	if (unlikely(rpc->waiting != NULL))
		rpc_transfers_run(rpc);
	if ((rpc->nb_burst | (rpc->unposted != NULL)) != 0)
		rpc_packets_post(rpc);
	if (unlikely(rpc->nb_reposts >= rpc->reposts_max))
		rpc_recvs_post(rpc);
}

uint16_t
leat_rpc_process(struct leat_rpc *rpc, struct leat_op **ops, uint16_t n)
{
	uint16_t i, left = 0;

	rpc->now = 0;
	rpc->in_process = true;
	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if ((uintptr_t)op - rpc->recvs_base < rpc->recvs_len)
			rpc_recv_completed(rpc, container_of(op, struct rpc_recv, op));
		else if ((uintptr_t)op - rpc->packets_base < rpc->packets_len)
			rpc_packet_completed(rpc, container_of(op, struct rpc_packet, op));
		else if ((uintptr_t)op - rpc->segments_base < rpc->segments_len)
			rpc_segment_completed(rpc, op);
		else
			ops[left++] = op;
	}
	rpc->in_process = false;
	rpc_run(rpc);
	return left;
}

uint16_t
leat_rpc_poll(struct leat_rpc *rpc, struct leat_rpc_req **reqs, uint16_t n)
{
	rpc->now = 0;
	rpc_deadlines_run(rpc);
	if (unlikely(rpc->work != NULL || rpc->unposted != NULL || rpc->recvs_refused ||
		     rpc->nb_burst > 0 || rpc->waiting != NULL))
		rpc_run(rpc);
	if (unlikely(rpc->refused_head != RPC_NONE))
		rpc_refused_sweep(rpc);
	if (rpc->done.head != NULL)
		return rpc_reqs_give(rpc, reqs, n);
	if (rpc->nb_reposts > 0)
		rpc_recvs_post(rpc);
	return 0;
}
