/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_DGRAM_H
#define RPC_DGRAM_H

/*
 * Sessions over datagram endpoints. Each packet has a number, is kept until the other side has
 * acknowledged it, and is sent again if it was lost; the receiver drops duplicates. So every packet
 * that a living session sent is handled once, in any order, and the other files need not know more
 * about datagrams: requests are executed at most once, and a response that is sent again is the
 * packet that was kept.
 *
 *     sender             acked      tx_sent                  receiver        next
 *       ... arrived |  out[]: x x . x | not sent yet           ... arrived |  . x x . x
 *                           `- x: acknowledged out of order                   map: x: arrived
 *
 * A packet counts as lost when one that was sent later has arrived (RACK, RFC 8985). When
 * acknowledgements stop, the sender sends a probe, which has no items, and then sends again the
 * packets that are missing according to the answer. So a peer that was pre-empted or stopped finds
 * a few probes when it runs again, and not the same packets many times. A peer that is silent for
 * too long is dead.
 *
 *     dgram.c        numbers, acknowledgements, losses
 *     dgram_time.c   round trips, probes, silence, acknowledgements that wait
 */

#include "leat_rpc_cc.h"
#include "rpc_pvt.h"

struct rpc_dgram {
	struct leat_rpc_session *s;

	/* sent */
	uint32_t acked;	 /* packets before this number have arrived at the other side */
	uint32_t nb_out; /* packets in out[] */
	uint32_t window; /* maximum number of packets that may be on the way, from acked on */
	struct rpc_packet *out[RPC_WINDOW_MAX]; /* packets not acknowledged, by number */
	uint64_t latest; /* time at which the newest acknowledged packet was sent, cycles */

	/* received */
	uint32_t next; /* packets before this number have arrived here */
	uint64_t map;  /* bit i: packet next + 1 + i has arrived */
	uint32_t echo; /* number of the packet that arrived last, duplicates aside */
	uint64_t echo_at;
	uint32_t unacked; /* packets that arrived since the last acknowledgement */
	bool ack_now;	  /* acknowledge without waiting for a packet that can carry it */
	uint32_t nb_early;

	/* times in cycles */
	uint64_t heard; /* when the last packet of the peer arrived */
	uint64_t since; /* when this side began to wait for a packet */
	uint64_t probe_at;
	uint64_t probed_at; /* when the last probe was sent */
	uint32_t probe;	    /* number of the last probe */
	bool probing;	    /* a probe was sent, and no packet has arrived since */
	uint8_t backoff;
	uint64_t srtt, rttvar, rto;
	struct rpc_timer timer, ack_timer;

	/* congestion control, NULL: none */
	const struct leat_rpc_cc *cc;
	struct leat_rpc_cc_state cc_state;
	uint64_t cc_start;
	uint64_t not_before; /* if paced: time before which no packet is sent, cycles */
	bool paced;

	bool end_sent;
};

/* When this many packets have arrived without an acknowledgement, one is sent at once. */
#define RPC_DGRAM_ACK_EVERY 8u

/* ---- dgram.c ---- */

/* Allocate the state of all sessions. @return 0; -ENOMEM */
int rpc_dgram_alloc(struct leat_rpc *rpc);
/* Initialize the state of a session that comes up. */
void rpc_dgram_start(struct leat_rpc_session *s);
/* Free the packets that are kept for a session that ends. */
void rpc_dgram_stop(struct leat_rpc_session *s);
/* Give a packet that is about to be posted the next number, and write its head. */
void rpc_dgram_number(struct leat_rpc_session *s, struct rpc_packet *p);
/* Handle a packet: its numbers, and its items if it is new. @return 0, or a violation */
int rpc_dgram_arrived(struct leat_rpc_session *s, const struct rpc_recv *r,
		      const struct rpc_head *h);
/*
 * Send a packet without a number.
 * @param end < 0: no items; else an END with that errno
 * @return false: no packet is free
 */
bool rpc_dgram_control(struct leat_rpc_session *s, uint8_t flags, uint32_t seq, int end);
/* Set tx_credit so that it allows the packets that may be sent now. */
void rpc_dgram_window_set(struct leat_rpc_session *s);

/* ---- dgram_time.c ---- */

void rpc_dgram_time_start(struct leat_rpc_session *s);
void rpc_dgram_time_stop(struct leat_rpc_session *s);
/* Send no packet before the time `until`, cycles. */
void rpc_dgram_pace(struct leat_rpc_session *s, uint64_t until);
/* Start to wait for acknowledgements: a packet was sent while no other was on the way. */
void rpc_dgram_wait_start(struct leat_rpc_session *s, uint64_t now);
/* Put off the next probe: a packet was acknowledged. */
void rpc_dgram_progress(struct leat_rpc_session *s, uint64_t now);
void rpc_dgram_rtt(struct rpc_dgram *dg, uint64_t rtt);
/* Acknowledge packets that arrived, now or soon; rpc_run() calls this after it has sent packets. */
void rpc_dgram_ack_run(struct leat_rpc_session *s);

#endif /* RPC_DGRAM_H */
