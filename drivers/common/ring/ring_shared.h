/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_SHARED_H
#define RING_SHARED_H

/*
 * The memory of a connection: what the lcores at its two ends share, of one process (drivers/ring)
 * or of two (drivers/shm).
 *
 *     lcore A                      connection                        lcore B
 *     link (A's own)   dir[0]: slots A -> B, acks B -> A     link (B's own)
 *                      dir[1]: slots B -> A, acks A -> B
 *
 * Between datagram endpoints there are no acks, but a buffer per direction (ring_buf.h).
 *
 * Words that both touch are atomics, and make these edges (each store-release pairs with the
 * load-acquire):
 *
 *     PUBLISH  slot.head      producer -> consumer
 *              The slot is filled; payload and buffers may be read.
 *     FREE     dir.consumed   consumer -> producer
 *              Messages before it are done with, their slots, and what they take of the buffer,
 *              may be filled again. Also goes along with each message of the other direction, as
 *              slot.credit, by that one's PUBLISH.
 *     ACK      ack.head       consumer -> producer
 *              The op of that message is done, its buffer is not touched any more.
 *     CLAIM    slot.state     both, by CAS
 *              An op that is not done yet belongs to the side that swaps first: the consumer that
 *              is about to do it, or the producer that takes it back.
 *     CLOSED   dir.closed     one -> other
 *              That side claims nothing any more, all its slots are published. What it has
 *              sent from shared memory may change.
 *     MARK     board          producer -> consumer
 *              Look at the slots and acks of that connection. Only where the consumer asked for
 *              it, see ring_mark.h; for the order of its parts see ring_board.h.
 *     MARKS    dir.marks      producer -> consumer
 *              From now on that side marks what it publishes.
 *     BELL     the device's   one -> other
 *              Look at your connections (control path): ring_link_bell().
 *     ASLEEP   the device's   owner -> any thread
 *              Wake it after what you do: ring_link_wake().
 */

#include <sys/queue.h>

#include "leat_cursor.h"
#include "leat_ep.h"

#include "ring_board.h"
#include "ring_buf.h"

/*
 * The other side of a connection is another process: its buffers are out of reach, and what it
 * writes is not trusted.
 */
#ifndef RING_FOREIGN
#define RING_FOREIGN 0
#endif

/* Acks that an op may bring, at most. */
#define RING_ACKS (RING_FOREIGN ? 2 : 1)

struct ring_link;

#define RING_DEPTH_MIN 16
#define RING_DEPTH_MAX 32768 /* a number in a head has 16 bits, and must tell two laps apart */

#define RING_INLINE_MAX 96

#define RING_F_IMM 0x01	   /* w[] begins with the immediate */
#define RING_F_INLINE 0x02 /* the payload is in the slot, else its address is */
#define RING_F_ACK 0x04	   /* the producer waits for an ack; claimed before anything is done */
#define RING_F_BUF 0x08	   /* RING_FOREIGN: the payload is in the buffer; w[] has the offset */
#define RING_F_SHARED 0x10 /* RING_FOREIGN: it is in shared memory, w[] has its address there */

/* Above the flags: messages behind this one that were published before it; a hint. */
#define RING_MORE_SHIFT 29
#define RING_MORE_MAX 7

#define RING_WORDS 13
#define RING_FIRST_LINE 40 /* bytes of w[] in the slot's first line */

/*
 * Number of a connection's first message. Numbers have 64 bits, of which heads carry 16 and credits
 * 32: so both wrap soon.
 */
#define RING_FIRST ((uint64_t)LEAT_CURSOR_START)

/*
 * A slot: a message, or a request. What an 8-byte message needs is in the first line.
 *
 *     0        8                    16          24                         64               128
 *     | head   | credit next state  | tag/raddr | w[0] ...   40 B of payload |   64 more       |
 *
 *     SEND, TSEND  [imm] payload | [imm] address: of the op's buffer, a datagram's in lane.buf
 *     WRITE        rkey payload | rkey address
 *     WRITE_IMM    rkey imm payload | rkey imm address
 *     READ         rkey address                          FETCH_ADD, CMP_SWAP  rkey operand compare
 *
 * RING_FOREIGN: no address, but an offset in the producer's lane.buf, or nothing where the bytes
 * come in chunks (ring_move.h); an address only of memory that both have mapped (ring_share.h).
 */
struct ring_slot {
	/* PUBLISH: len << 32 | more << 29 | flags << 24 | type << 16 | (number of message + 1) */
	uint64_t head;
	uint32_t credit; /* FREE: what this side has consumed of the other direction, low bits */
	uint16_t next;	 /* place of the slot that the next message will be in */
	uint16_t state;	 /* CLAIM: enum ring_slot_state; only with RING_F_ACK */
	uint64_t addr;
	uint64_t w[RING_WORDS];
} __attribute__((aligned(128)));

enum ring_slot_state {
	RING_POSTED = 0,
	RING_CLAIMED,  /* the consumer does it, and acks */
	RING_RECALLED, /* the producer took it back; the consumer passes over it */
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
 * An op is done. There are never more of them than slots, see ring_tx.c. The slot is the message's
 * number modulo their count.
 */
struct ring_ack {
	uint64_t head;	/* ACK: status << 32 | slot << 16 | (number of the ack + 1) */
	uint64_t value; /* bytes moved, or an atomic's old value */
};

/*
 * Consumer's note about a message that was looked at and not consumed in turn; at its number
 * modulo slots.
 */
struct ring_note {
	TAILQ_ENTRY(ring_note) by_ep;	/* unexpected: all peers' of that kind, oldest first */
	TAILQ_ENTRY(ring_note) by_link; /* and this peer's */
	struct ring_link *link;
	uint64_t tag;
	uint32_t place; /* of the slot */
	uint32_t done;	/* consumed, while an older one is not */
};
TAILQ_HEAD(ring_notes, ring_note);

enum ring_closed {
	RING_OPEN = 0,
	RING_BYE,  /* in order */
	RING_DEAD, /* its endpoint was aborted, or its process is gone */
	RING_UP,   /* RING_FOREIGN: it is up, the other side may touch its regions */
};

/* Of one direction: the words beside its slots and acks. */
struct ring_dir {
	/*
	 * FREE: number of the first message not consumed. Its own line: written by each poll that
	 * consumed.
	 */
	uint64_t consumed __attribute__((aligned(128)));
	uint64_t chunks_taken; /* RING_FOREIGN, see ring_move.h */
	/* Ops recalled ever; a hint for the consumer, relaxed. */
	uint32_t recalls __attribute__((aligned(128)));
	uint64_t chunks_put; /* RING_FOREIGN */
	uint64_t touching;   /* RING_FOREIGN, see ring_share.h: number of the region + 1, or 0 */
	/* Written by the producer's side, and seldom. */
	uint32_t closed __attribute__((aligned(128))); /* CLOSED: enum ring_closed */
	uint32_t want;	/* odd: this side wants marks of the other; see ring_mark.h */
	uint32_t marks; /* MARKS: the other side's want that this one goes by */
	uint16_t peer;	/* number of the connection at this side, at which it is marked */
} __attribute__((aligned(128)));

/* Where the parts of a direction are. */
struct ring_lane {
	struct ring_dir *dir;
	struct ring_slot *slots;
	struct ring_ack *acks;
	/* producer's own: op that waits for the ack of the message of that number (modulo slots) */
	struct leat_op **ops;
	uint64_t *nr;		 /* producer's own: number of the message that each slot holds */
	struct ring_note *notes; /* consumer's own */
	struct ring_buf buf;	 /* producer's own, but for its bytes */
	uint32_t mask;
	/* RING_FOREIGN */
	char *bytes; /* of the buffer, as the consumer finds them */
	uint32_t nb_bytes;
	uint32_t chunk_mask;
	char *chunks;
	struct ring_move *moves; /* consumer's own, by the message's number (modulo slots) */
};

#endif /* RING_SHARED_H */
