/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HONEST_H
#define HONEST_H

/*
 * Two endpoints of one process that talk with each other over some connections, and check every
 * byte: a victim, which listens, and a bystander, which connects to it. Another peer may connect to
 * the victim, or be connected to by it, and do what it likes: the intruder. The victim posts ops to
 * it, and takes whatever comes from it.
 *
 *     intruder ~~~ connection ~~~ victim === connections === bystander
 *
 * An op with the intruder may end with any status. Any other op must succeed, and its bytes be
 * right. No connection but the intruder's may end.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_fabric.h>

#include "../lives/traffic.h" /* CHECK, UNTIL */

#define HONEST_CONNS 18 /* with the intruder's: more than a poll looks at one by one */
#define HONEST_PEERS 24
#define HONEST_WINDOW 3
#define HONEST_RECVS 24
#define HONEST_TRECVS 8
#define HONEST_SLICE 80000 /* bytes: the longest op */
/* Messages that were sent and not received, at most. */
#define HONEST_AHEAD 60

/* The private data with which endpoints connect. */
struct honest_id {
	uint64_t magic;
	struct leat_rkey key; /* of the slice of this connection */
	uint16_t peer;	      /* number of the connection at that side */
};

struct honest_conn {
	bool used, up;
	struct honest_id other;
	uint64_t sent, next, seen; /* seen: a bit for each of those from next on */
	uint64_t done;		   /* messages that came, and one-sided ops */
	uint64_t counter;	   /* what FETCH_ADD must find */
	unsigned int step;	   /* of the one-sided ops */
	uint64_t pattern, written; /* what the slice of the other side holds, and how much */
	struct leat_op op[HONEST_WINDOW];
	uint8_t *buf[HONEST_WINDOW];
};

/* One endpoint. */
struct honest {
	struct leat_ep *ep;
	bool datagram;
	bool queued; /* receives are posted on the endpoint's queue */
	bool closing, shut;
	uint64_t random;
	uint8_t *slices;
	struct leat_mr *mr;
	struct honest_conn conn[HONEST_PEERS];
	struct leat_op recv[HONEST_RECVS + HONEST_TRECVS];
	uint8_t *recv_buf[HONEST_RECVS + HONEST_TRECVS];
	struct honest *other;
	/* Of the victim: */
	uint16_t intruder; /* LEAT_PEER_ANY: none */
	bool intruder_up;
	uint32_t intruders, intruders_broke; /* that were up; that broke the rules */
	struct leat_op out[8];		     /* ops to it, and receives that name it */
	uint8_t *out_buf[8];
	uint8_t *prey; /* memory that it may read and write */
	struct leat_mr *prey_mr;
	struct leat_rkey prey_key;
	char addr[LEAT_ADDR_MAX];
};

/* Both, and their connections, which are up. */
void honest_open(struct honest *victim, struct honest *bystander, struct leat_dev *dev,
		 bool datagram, unsigned int conns, uint64_t seed);
/* Polls both, checks what comes, posts what is not in flight. */
void honest_turn(struct honest *victim, struct honest *bystander);
/* Each connection does something more, and nothing of the intruder is left. */
void honest_check(struct honest *victim, struct honest *bystander);
void honest_close(struct honest *victim, struct honest *bystander);
/* The victim connects to the intruder. */
void honest_connect(struct honest *victim, const char *addr);
/* The victim ends the intruder's connection, if there is one. */
void honest_disconnect(struct honest *victim);

#endif /* HONEST_H */
