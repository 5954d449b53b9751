/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HONEST_H
#define HONEST_H

/*
 * Two endpoints of one process that exchange ops over some connections, and check every byte: a
 * victim, which listens, and a bystander, which connects to it. A third peer, the intruder, may
 * connect to the victim or be connected to by it, and break every rule. The victim posts ops to the
 * intruder, and accepts any data from it.
 *
 *     intruder ~~~ connection ~~~ victim === connections === bystander
 *
 * An op with the intruder may end with any status. Any other op must succeed with the right bytes,
 * and no connection but the intruder's may end.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_fabric.h>

#include "../lives/traffic.h" /* CHECK, UNTIL */

#define HONEST_CONNS 18 /* more than RING_FEW (ring_pvt.h): polls check marked connections only */
#define HONEST_PEERS 24
#define HONEST_WINDOW 3
#define HONEST_RECVS 24
#define HONEST_TRECVS 8
#define HONEST_SLICE 80000 /* bytes: the longest op */
/* The most messages that are sent and not yet received. */
#define HONEST_AHEAD 60

/* The private data with which the endpoints connect. */
struct honest_id {
	uint64_t magic;
	struct leat_rkey key; /* gives access to this connection's slice of memory */
	uint16_t peer;	      /* the sender's id of this connection */
};

struct honest_conn {
	bool used, up;
	struct honest_id other;
	uint64_t sent, next, seen; /* seen: bit i: message next + i was received */
	uint64_t done;		   /* number of received messages and completed one-sided ops */
	uint64_t counter;	   /* the value that the next FETCH_ADD must find */
	unsigned int step;	   /* counts the one-sided ops: WRITE, READ, FETCH_ADD */
	uint64_t pattern, written; /* seed and length of the pattern that is in the other side's
				    * slice */
	struct leat_op op[HONEST_WINDOW];
	uint8_t *buf[HONEST_WINDOW];
};

/* One endpoint. */
struct honest {
	struct leat_ep *ep;
	bool datagram;
	bool queued; /* receives are posted on the receive queue, and complete in order */
	bool closing, shut;
	uint64_t random;
	uint8_t *slices;
	struct leat_mr *mr;
	struct honest_conn conn[HONEST_PEERS];
	struct leat_op recv[HONEST_RECVS + HONEST_TRECVS];
	uint8_t *recv_buf[HONEST_RECVS + HONEST_TRECVS];
	struct honest *other;
	/* Used by the victim only: */
	uint16_t intruder; /* LEAT_PEER_ANY: none */
	bool intruder_up;
	/* intruders that connected; those that broke the rules */
	uint32_t intruders, intruders_violated;
	uint64_t intruder_messages; /* messages of intruders that were received */
	bool silent;		    /* post no ops to the intruder */
	struct leat_op out[8]; /* ops to the intruder, and receives for messages of the intruder
			        * only */
	uint8_t *out_buf[8];
	uint8_t *exposed; /* memory that the intruder may read and write */
	struct leat_mr *exposed_mr;
	struct leat_rkey exposed_key;
	char addr[LEAT_ADDR_MAX];
};

/* Open both endpoints, and wait until conns connections between them are up. */
void honest_open(struct honest *victim, struct honest *bystander, struct leat_dev *dev,
		 bool datagram, unsigned int conns, uint64_t seed);
/* Poll both endpoints, check completed ops, and post them again. */
void honest_turn(struct honest *victim, struct honest *bystander);
/*
 * Check that each connection makes progress, and that the intruder left no peer and no op behind.
 */
void honest_check(struct honest *victim, struct honest *bystander);
void honest_close(struct honest *victim, struct honest *bystander);
/* Connect the victim to the intruder. */
void honest_connect(struct honest *victim, const char *addr);
/* End the victim's connection to the intruder, if there is one. */
void honest_disconnect(struct honest *victim);

#endif /* HONEST_H */
