/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_SHARED_H
#define RING_SHARED_H

/*
 * The memory of a connection: all that the lcores at its two ends share. They are lcores of one
 * process (drivers/ring) or of two (drivers/shm).
 *
 *     lcore A                      connection                        lcore B
 *     link (A's own)   dir[0]: slots A -> B, acks B -> A     link (B's own)
 *                      dir[1]: slots B -> A, acks A -> B
 *
 * A connection between datagram endpoints has no acks, and a buffer per direction (ring_buf.h).
 *
 * Words that both sides touch are atomics, and make these edges (each store-release pairs with the
 * load-acquire of the same name):
 *
 *     PUBLISH  slot.head      producer -> consumer
 *              The slot is filled: the consumer may read the payload and the op's buffer.
 *     FREE     dir.consumed   consumer -> producer
 *              All messages before this number are consumed: the producer may fill their slots and
 *              their bytes of the buffer again. Each message of the opposite direction carries the
 *              same number in slot.credit, published by that message's PUBLISH.
 *     ACK      ack.head       consumer -> producer
 *              The op that the ack names is done: the consumer no longer touches the op's buffer.
 *     CLAIM    slot.state     both, by CAS
 *              An op that is not done yet belongs to the side that swaps first: the consumer, which
 *              is about to execute it, or the producer, which takes it back.
 *     CLOSED   dir.closed     closing side -> peer
 *              The closing side claims no more ops and has published all its slots. Buffers that
 *              it sent from shared memory may change from now on.
 *     MARK     board          producer -> consumer
 *              Look at the slots and acks of this connection. Used only while the consumer asks for
 *              marks, see ring_mark.h; for the order of its parts see ring_board.h.
 *     MARKS    dir.marks      producer -> consumer
 *              From now on the producer marks every message and ack that it publishes.
 *     BELL     of the device  side -> peer
 *              Look at your connections (control path): ring_link_bell().
 *     ASLEEP   of the device  owner -> any thread
 *              The owner sleeps: wake it after publishing something for it, ring_link_wake().
 */

#include <sys/queue.h>

#include "leat_cursor.h"
#include "leat_ep.h"

#include "ring_board.h"
#include "ring_buf.h"

/*
 * RING_FOREIGN: the peer of a connection is in another process. Its buffers are out of reach, and
 * nothing that it writes is trusted.
 */
#ifndef RING_FOREIGN
#define RING_FOREIGN 0
#endif

/* Maximum number of acks per op. */
#define RING_ACKS (RING_FOREIGN ? 2 : 1)

struct ring_link;

#define RING_DEPTH_MIN 16
#define RING_DEPTH_MAX 32768 /* a new message's 16-bit number must differ from its slot's last */

#define RING_INLINE_MAX 96

#define RING_F_IMM 0x01	   /* w[] begins with the immediate */
#define RING_F_INLINE 0x02 /* w[] holds the payload; without this flag, the payload's address */
#define RING_F_ACK 0x04	   /* the producer waits for an ack; the consumer claims the op first */
#define RING_F_BUF 0x08	   /* RING_FOREIGN: the payload is in the buffer, w[] holds its offset */
#define RING_F_SHARED 0x10 /* RING_FOREIGN: the payload is in memory that both share, see w[] */

/* Bits above the flags: how many messages after this one were published before it; a hint. */
#define RING_MORE_SHIFT 29
#define RING_MORE_MAX 7

#define RING_WORDS 13
#define RING_FIRST_LINE 40 /* bytes of w[] in the slot's first line */

/*
 * Number of a connection's first message. A number has 64 bits; heads carry the low 16 of them and
 * credits the low 32. The first number is chosen so that both wrap soon, in every test.
 */
#define RING_FIRST ((uint64_t)LEAT_CURSOR_START)

/*
 * A slot: a message, or a one-sided request. An 8-byte message lies in the first line alone.
 *
 *     0        8                    16          24                         64               128
 *     | head   | credit next state  | tag/raddr | w[0] ...   40 B of payload |   64 more       |
 *
 *     SEND, TSEND  [imm] payload | [imm] address of the op's buffer, or in lane.buf (datagrams)
 *     WRITE        rkey payload | rkey address
 *     WRITE_IMM    rkey imm payload | rkey imm address
 *     READ         rkey address                          FETCH_ADD, CMP_SWAP  rkey operand compare
 *
 * RING_FOREIGN: in place of the address the slot has an offset in the producer's lane.buf, or
 * nothing if the bytes come in chunks (ring_move.h). It has an address only if both processes have
 * mapped the buffer (ring_share.h).
 */
struct ring_slot {
	/* PUBLISH: len << 32 | more << 29 | flags << 24 | type << 16 | (number of message + 1) */
	uint64_t head;
	uint32_t credit; /* FREE: the opposite direction's consumed, low 32 bits */
	uint16_t next;	 /* place (index) of the next message's slot */
	uint16_t state;	 /* CLAIM: enum ring_slot_state; valid with RING_F_ACK only */
	uint64_t addr;	 /* tag of a TSEND, or remote address of a one-sided op */
	uint64_t w[RING_WORDS];
} __attribute__((aligned(128)));

enum ring_slot_state {
	RING_POSTED = 0,
	RING_CLAIMED,  /* the consumer executes the op, then acks it */
	RING_RECALLED, /* the producer took the op back; the consumer skips the slot */
};

static_assert(sizeof(struct ring_slot) == 2 * LEAT_CACHE_LINE, "a slot is two lines");
static_assert(offsetof(struct ring_slot, w) == 24, "a slot's payload begins in the first line");
static_assert(RING_INLINE_MAX <= (RING_WORDS - 1) * 8,
	      "an inline payload behind an immediate or a key");

static inline uint64_t
ring_head(uint64_t nr, uint32_t type, uint32_t flags, uint64_t len)
{
	return len << 32 | flags << 24 | type << 16 | (uint16_t)(nr + 1);
}

static inline uint64_t
ring_head_more(uint32_t more)
{
	return (uint64_t)more << RING_MORE_SHIFT;
}

#define RING_HEAD_IS(head, nr) ((uint16_t)(head) == (uint16_t)((nr) + 1))
#define RING_HEAD_TYPE(head) ((uint8_t)((head) >> 16))
#define RING_HEAD_FLAGS(head) ((uint8_t)((head) >> 24) & 0x1f)
#define RING_HEAD_MORE(head) ((uint32_t)(head) >> RING_MORE_SHIFT)
#define RING_HEAD_KIND(head) ((uint32_t)((head) >> 16) & 0x1fff) /* flags and type */
#define RING_HEAD_LEN(head) ((uint32_t)((head) >> 32))

static inline bool
ring_head_inline(uint64_t head)
{
	return (RING_HEAD_FLAGS(head) & RING_F_INLINE) != 0;
}

/*
 * An ack: an op is done, or with status RING_GO the consumer asks for the op's bytes. Outstanding
 * acks never exceed the number of slots (times RING_ACKS), see ring_tx.c. The field "slot" is the
 * message's number modulo the number of slots.
 */
struct ring_ack {
	uint64_t head;	/* ACK: status << 32 | slot << 16 | (number of the ack + 1) */
	uint64_t value; /* bytes moved, or an atomic's old value */
};

/*
 * The consumer's note about a message that it scanned and did not consume in order. Its index is
 * the message's number modulo slots.
 */
struct ring_note {
	/*
	 * Entries in the endpoint's and in the link's list of unexpected messages of one kind; both
	 * lists begin with the oldest message.
	 */
	TAILQ_ENTRY(ring_note) by_ep;
	TAILQ_ENTRY(ring_note) by_link;
	struct ring_link *link;
	uint64_t tag;
	uint32_t place; /* place of the slot */
	uint32_t done;	/* 1: consumed, while an older message is not */
};
TAILQ_HEAD(ring_notes, ring_note);

enum ring_closed {
	RING_OPEN = 0,
	RING_BYE,  /* closed by its owner, in a regular way */
	RING_DEAD, /* the endpoint was aborted, or its process died */
	RING_UP,   /* RING_FOREIGN: this side is up, the peer may touch its regions */
};

/* The control words of one direction, in addition to its slots and acks. */
struct ring_dir {
	/*
	 * FREE: number of the first message not consumed. On a line of its own: every poll that
	 * consumed a message writes it.
	 */
	uint64_t consumed __attribute__((aligned(128)));
	uint64_t chunks_taken; /* RING_FOREIGN: number of chunks taken, see ring_move.h */
	/* Number of ops recalled so far; a hint for the consumer, relaxed. */
	uint32_t recalls __attribute__((aligned(128)));
	uint64_t chunks_put; /* RING_FOREIGN: number of chunks put */
	uint64_t touching;   /* RING_FOREIGN, see ring_share.h: number of the region + 1, or 0 */
	/* Written by the producer's side, seldom. */
	uint32_t closed __attribute__((aligned(128))); /* CLOSED: enum ring_closed */
	uint32_t want;	/* odd: the producer's side wants its peer to mark; see ring_mark.h */
	uint32_t marks; /* MARKS: the peer's want that the producer's side obeys */
	uint16_t peer;	/* the bit of this connection on the board of the producer's side */
} __attribute__((aligned(128)));

/* The parts of a direction, as one side sees them. */
struct ring_lane {
	struct ring_dir *dir;
	struct ring_slot *slots;
	struct ring_ack *acks;
	/* producer's own: ops that wait for an ack, by the message's number modulo slots */
	struct leat_op **ops;
	uint64_t *nr;		 /* producer's own: number of the message that each slot holds */
	struct ring_note *notes; /* consumer's own */
	struct ring_buf buf;	 /* producer's own, except the bytes in it */
	uint32_t mask;		 /* number of slots - 1 */
	/* with RING_FOREIGN only */
	char *bytes; /* bytes of the buffer, where the consumer has mapped them */
	uint32_t nb_bytes;
	uint32_t chunk_mask; /* number of chunks - 1 */
	char *chunks;
	struct ring_move *moves; /* consumer's own, by the message's number modulo slots */
};

#endif /* RING_SHARED_H */
