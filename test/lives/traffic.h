/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAFFIC_H
#define TRAFFIC_H

/*
 * An endpoint that keeps ops of all kinds in flight with every peer that is up. A peer may end at
 * any moment: its ops then complete with -ECONNRESET, -ECONNABORTED or -ENOTCONN, and other peers
 * are not disturbed. Any other outcome ends the program.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_fabric.h>
#include <leat_time.h>

#define TRAFFIC_PEERS 16
#define TRAFFIC_WINDOW 6
#define TRAFFIC_RECVS 64
#define TRAFFIC_MEMORY (256u << 10) /* bytes: the largest op, and what peers read and write */
/* Time allowed beyond the documented limits, us, for a loaded machine. */
#define TRAFFIC_PATIENCE_US UINT64_C(20000000)

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                            \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * Run turn until cond is true, for at most us microseconds, and then for some more turns: the
 * machine may have stood still for all of the time, which is no failure.
 */
#define TRAFFIC_MORE_TURNS 10000
#define UNTIL(us, turn, cond, ...)                                                                 \
	do {                                                                                       \
		uint64_t end_ = leat_now() + leat_us_to_cycles(us);                                \
		unsigned int more_ = TRAFFIC_MORE_TURNS;                                           \
		while (!(cond)) {                                                                  \
			turn;                                                                      \
			CHECK(leat_now() < end_ || more_-- > 0, __VA_ARGS__);                      \
		}                                                                                  \
	} while (0)

enum traffic_state { TRAFFIC_NONE, TRAFFIC_CONNECTING, TRAFFIC_UP };

struct traffic_peer {
	enum traffic_state state;
	struct leat_rkey key; /* key of the peer's memory */
	uint64_t done;	      /* ops that succeeded since the peer is up */
	struct leat_op op[TRAFFIC_WINDOW];
};

struct traffic {
	struct leat_ep *ep;
	uint32_t ops; /* op types that the device has */
	uint64_t random;
	uint64_t received, turns;
	uint32_t ups, ends; /* connections that came up, and those that ended or failed */
	struct leat_rkey key;
	struct leat_mr *mr;
	struct traffic_peer peer[TRAFFIC_PEERS];
	struct leat_op recv[TRAFFIC_RECVS];
	char addr[LEAT_ADDR_MAX]; /* where it listens, or empty */
	bool talks;		  /* keeps ops in flight */
	/* peer with only one op in flight; LEAT_PEER_ANY: there is none */
	uint16_t light;
	uint64_t light_max; /* largest size of that op, bytes */
	bool closing, shut;
	uint8_t *memory;
};

/* ops: a mask of LEAT_OP_BIT(). */
void traffic_open(struct traffic *t, struct leat_dev *dev, uint32_t ops, uint64_t seed);
void traffic_listen(struct traffic *t);
/* Connect. @return the peer's id */
uint16_t traffic_connect(struct traffic *t, const char *addr);
/* Poll, read events, and post every op that is not in flight. */
void traffic_turn(struct traffic *t);
/* @return whether the peer has ended, and all its ops have completed */
bool traffic_gone(const struct traffic *t, uint16_t peer);
/* End all connections cleanly, and destroy the endpoint. */
void traffic_close(struct traffic *t);

#endif /* TRAFFIC_H */
