/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef INTRUDER_H
#define INTRUDER_H

/*
 * A peer of a shm endpoint that speaks the address exchange and passes memory as endpoints do, and
 * then writes anywhere in the memory that it shares with the victim: random bytes, or bytes chosen
 * to pass most of the victim's checks.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shm_pvt.h"

/* How the intruder's hello, or the memory passed with it, differs from a right one. */
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
	INTRUDER_LANE_HUGE, /* of huge pages, if the machine has any */
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

/* Memory that the intruder shares (share=1): its address, bytes, and key, which is region 5. */
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
	struct ring_shape shape; /* shape of the intruder's own lane */
	struct shm_memory lane, own, word, board, table, piece;
	int fds[SHM_FDS + 2]; /* if it shares, also those of table and piece */
	bool shares;
	struct ring_lane tx;
	/* What the victim's hello says, and the memory that came with it. */
	struct shm_hello theirs;
	struct shm_memory their_lane, their_own, their_word, their_board;
	struct ring_lane rx;
	struct leat_rkey exposed;
	/* Positions at which an honest peer would write next. */
	uint64_t nr, put, ack;
	uint32_t place;
	/* heads of slots that were acked; head of the slot last acked with RING_GO */
	uint64_t acked[INTRUDER_ACKED], going;
	uint32_t wild_period;		   /* one in this many writes is wild: see wild() */
	char addr[LEAT_EXCHANGE_ADDR_MAX]; /* where the intruder listens */
	char why[LEAT_EXCHANGE_TEXT_MAX];  /* why its last connection ended */
};

void intruder_open(struct intruder *in, const char *dir, bool datagram, uint64_t seed);
/* Begin to connect, or listen for the victim, with this hello. */
void intruder_begin(struct intruder *in, const char *addr, bool listens, enum intruder_hello hello);
/* Drive the exchange. */
void intruder_turn(struct intruder *in);
/* Write once, if the connection is up. Any thread may call this, but one at a time. */
void intruder_attack(struct intruder *in);
/*
 * Send a message: kind is RING_F_* << 8 | type of the op, and all words of the slot, which hold the
 * payload or its offset, are `word`. The caller waits until the slot is free.
 */
void intruder_send(struct intruder *in, uint32_t kind, uint32_t len, uint64_t word);
/* End the connection, if there is one, and free its memory. */
void intruder_end(struct intruder *in);
void intruder_close(struct intruder *in);

#endif /* INTRUDER_H */
