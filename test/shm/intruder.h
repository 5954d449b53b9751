/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef INTRUDER_H
#define INTRUDER_H

/*
 * A peer of a shm endpoint that speaks the exchange and passes memory as endpoints do, and then
 * writes to all of the memory that it shares: at random, or what gets far in the other side.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shm_pvt.h"

/* What the hello, or what goes with it, is like. */
enum intruder_hello {
	INTRUDER_WELL_FORMED = 0,
	INTRUDER_SHORT_HELLO,
	INTRUDER_OTHER_VERSION,
	INTRUDER_RANDOM_HELLO,
	INTRUDER_SLOTS_NO_POWER,
	INTRUDER_SLOTS_MANY,
	INTRUDER_BYTES_MANY,
	INTRUDER_CHUNKS_NONE,
	INTRUDER_MTU,
	INTRUDER_LANE_SHORT,
	INTRUDER_LANE_EMPTY,
	INTRUDER_LANE_UNSEALED,
	INTRUDER_LANE_READ_ONLY, /* sealed against writing */
	INTRUDER_LANE_PIPE,
	INTRUDER_LANE_FILE,
	INTRUDER_LANE_NULL, /* /dev/null */
	INTRUDER_LANE_HUGE, /* of huge pages, of which there may be none */
	INTRUDER_BOARD_SHORT,
	INTRUDER_BOARD_READ_ONLY,
	INTRUDER_WORD_EMPTY,
	INTRUDER_WORD_SOCKET,
	INTRUDER_FDS_NONE,
	INTRUDER_FDS_FEW,
	INTRUDER_FDS_MANY,
	INTRUDER_HELLOS,
};

#define INTRUDER_ACKED 1024

/* What it shares, and the name of it: region 5. */
#define INTRUDER_AT UINT64_C(0x200000000)
#define INTRUDER_SHARED UINT64_C(65536)
#define INTRUDER_KEY (UINT64_C(0x1234567) << 24 | 5)

struct intruder {
	struct leat_exchange *x;
	uint64_t random;
	bool datagram;
	bool listens;
	int conn; /* 0: none */
	bool up, ended;
	enum intruder_hello hello;
	struct leat_exchange_event *ev;
	struct ring_shape shape; /* of its own lane */
	struct shm_memory lane, own, word, board, table, piece;
	int fds[SHM_FDS + 2]; /* with those of table and piece */
	bool shares;
	struct ring_lane tx;
	/* The victim's. */
	struct shm_hello theirs;
	struct shm_memory their_lane, their_own, their_word, their_board;
	struct ring_lane rx;
	struct leat_rkey prey;
	/* Where an honest one would be. */
	uint64_t nr, put, ack;
	uint32_t place;
	uint64_t acked[INTRUDER_ACKED], going; /* heads of the victim's */
	uint32_t tame;			       /* one of so many of its writes is wild */
	char addr[LEAT_EXCHANGE_ADDR_MAX];     /* where it listens */
	char why[LEAT_EXCHANGE_TEXT_MAX];      /* its last connection ended */
};

void intruder_open(struct intruder *in, const char *dir, bool datagram, uint64_t seed);
/* Begins to connect, or listens for the victim, as such a peer. */
void intruder_begin(struct intruder *in, const char *addr, bool listens, enum intruder_hello hello);
/* Drives the exchange. */
void intruder_turn(struct intruder *in);
/* Writes something, if it is up. Any thread, but one at a time. */
void intruder_attack(struct intruder *in);
/* Ends what there is, in order or not. */
void intruder_end(struct intruder *in);
void intruder_close(struct intruder *in);

#endif /* INTRUDER_H */
