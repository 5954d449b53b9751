/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_DGRAM_H
#define RPC_DGRAM_H

/*
 * Sessions over datagram endpoints: each packet has a number, is kept until the other side has
 * acknowledged it, and is sent again if it was lost; what arrives twice is dropped. So every packet
 * that a living session sent arrives once, in any order, and what is above needs to know of datagrams
 * only that: requests are executed at most once, and the response that is sent again is the packet
 * that was kept.
 *
 *     sender             acked      tx_sent                  receiver        next
 *       ... arrived |  out[]: x x . x | not sent yet           ... arrived |  . x x . x
 *                           `- acknowledged by themselves                     map
 *
 * A packet is taken for lost when one that was sent later has arrived (RACK, RFC 8985). Where
 * nothing arrives any more the sender asks with a probe, which has no items, and sends again what is
 * missing by the answer: so a peer that was pre-empted, or stopped, finds a few probes when it comes
 * back, and not everything again and again. A peer that is silent for too long is dead.
 *
 *     dgram.c        numbers, acknowledgements, losses
 *     dgram_time.c   round trips, probes, silence, acknowledgements that wait
 */

#include "leat_rpc_cc.h"
#include "rpc_pvt.h"

struct rpc_dgram {
	struct leat_rpc_session *s;

	/* sent */
	uint32_t acked; /* packets before it have arrived there */
	uint32_t nb_out;
	uint32_t window;			/* most that may be out, from acked on */
	struct rpc_packet *out[RPC_WINDOW_MAX]; /* by number: those that have not arrived */
	uint64_t latest; /* when the youngest of those that have arrived there was sent */

	/* received */
	uint32_t next; /* packets before it have arrived here */
	uint64_t map;  /* bit i: next + 1 + i has */
	uint32_t echo; /* the one that arrived last */
	uint64_t echo_at;
	uint32_t unacked; /* packets that arrived, and were not acknowledged since */
	bool ack_now;	  /* without waiting for a packet to go along with */
	uint32_t nb_early;

	/* time: cycles */
	uint64_t heard; /* when anything came */
	uint64_t since; /* when this side began to wait for something to come */
	uint64_t probe_at;
	uint64_t probed_at; /* the last one was sent */
	uint32_t probe;	    /* its number */
	bool probing;	    /* and nothing has come since */
	uint8_t backoff;
	uint64_t srtt, rttvar, rto;
	struct rpc_timer timer, ack_timer;

	/* congestion control, NULL: none */
	const struct leat_rpc_cc *cc;
	struct leat_rpc_cc_state cc_state;
	uint64_t cc_start;
	uint64_t not_before; /* paced: nothing goes until then */
	bool paced;

	bool end_sent;
};

/* Packets that arrived, and are not acknowledged: as many are told at once. */
#define RPC_DGRAM_ACK_EVERY 8u

/* ---- dgram.c ---- */

/* Bytes of address space and memory for as many sessions. */
int rpc_dgram_alloc(struct leat_rpc *rpc);
/* The session comes up. */
void rpc_dgram_start(struct leat_rpc_session *s);
/* It ends: nothing is kept for it any more. */
void rpc_dgram_stop(struct leat_rpc_session *s);
/* The next number for a packet that is about to be posted, and its head. */
void rpc_dgram_number(struct leat_rpc_session *s, struct rpc_packet *p);
/* A packet came: numbers, and items if they are new. @return 0, or a violation */
int rpc_dgram_arrived(struct leat_rpc_session *s, const struct rpc_recv *r,
		      const struct rpc_head *h);
/*
 * A packet without a number.
 * @param end < 0: nothing in it; else an END with that errno
 * @return false: there is no packet for it
 */
bool rpc_dgram_control(struct leat_rpc_session *s, uint8_t flags, uint32_t seq, int end);
/* How many packets may go now. */
void rpc_dgram_window_set(struct leat_rpc_session *s);

/* ---- dgram_time.c ---- */

void rpc_dgram_time_start(struct leat_rpc_session *s);
void rpc_dgram_time_stop(struct leat_rpc_session *s);
/* Nothing goes before that. */
void rpc_dgram_pace(struct leat_rpc_session *s, uint64_t until);
/* A packet was sent, and before it nothing was out. */
void rpc_dgram_waits(struct leat_rpc_session *s, uint64_t now);
/* Something that was sent has arrived there. */
void rpc_dgram_progress(struct leat_rpc_session *s, uint64_t now);
void rpc_dgram_rtt(struct rpc_dgram *dg, uint64_t rtt);
/* All was sent that there is to send: what arrived is acknowledged, now or soon. */
void rpc_dgram_ack_run(struct leat_rpc_session *s);

#endif /* RPC_DGRAM_H */
