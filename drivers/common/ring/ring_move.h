/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MOVE_H
#define RING_MOVE_H

/*
 * Large messages between processes (RING_FOREIGN): neither side reaches the other's buffers, so the
 * bytes go through chunks. The chunks are a ring of their own beside the ring of slots. The sender
 * fills chunks while the receiver empties them.
 *
 *     SEND, WRITE   producer                           consumer
 *                   slot, without the bytes  ------->  finds the receive, or the region
 *                                            <-------  ack RING_GO
 *                   chunks put, by its polls ------->  chunks taken, by its polls
 *                   SEND: done with the last chunk     WRITE: ack with the last chunk
 *     READ          slot                     ------->  checks the region
 *                                            <-------  chunks put; an ack only on failure
 *
 * The consumer takes chunks as they arrive; unexpected messages do not hold chunks up. While a
 * WRITE's bytes come in, the consumer scans no message after the WRITE, so that a peer's ops take
 * effect in the order in which the peer posted them.
 *
 * A move is the transfer of one message's bytes. A chunk names its message by the message's number
 * modulo the number of slots. After a message was given up, a later message may have the same
 * number. So before a move begins, or ends early, the consumer takes all chunks that were put
 * before.
 */

#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>

#include "leat_op.h"

#include "ring_shared.h"

struct ring_link;
struct ring_ep;
struct ring_slot;
struct leat_ep;

#define RING_CHUNK 16384 /* bytes of a message in a chunk, at most */
/* A poll puts at most this many chunks on one link, and takes at most this many from it. */
#define RING_CHUNKS_BUDGET 16

/* Status of an ack that does not end the op: it asks the producer for the op's bytes. */
#define RING_GO 1

enum ring_chunk_kind {
	RING_CHUNK_DATA = 1, /* bytes of a SEND or WRITE, posted by the side that puts the chunk */
	RING_CHUNK_ANSWER,   /* bytes for a READ, posted by the side that takes the chunk */
};

struct ring_chunk {
	uint32_t len;  /* bytes in data */
	uint16_t id;   /* number of the message, modulo slots */
	uint16_t kind; /* enum ring_chunk_kind */
	char data[RING_CHUNK] __attribute__((aligned(LEAT_CACHE_LINE)));
};

enum ring_move_kind {
	RING_MOVE_NONE = 0,
	RING_MOVE_RECV,	 /* bytes of a SEND come in */
	RING_MOVE_WRITE, /* bytes of a WRITE come in */
	RING_MOVE_READ,	 /* a READ is answered */
};

/*
 * A large message or request that the peer posted and that is in progress. A field whose comment
 * begins with RECV, WRITE or READ is used by moves of this kind only.
 */
struct ring_move {
	struct leat_op *op;	/* RECV: the receive */
	struct ring_move *next; /* READ: next in ring_moves.answers */
	uint64_t addr, key;	/* WRITE, READ: address and key of the region */
	uint64_t len, done;	/* bytes in total, and bytes moved so far */
	uint64_t nr;		/* number of the message */
	uint8_t kind;		/* enum ring_move_kind */
	bool ready;		/* WRITE: all bytes have arrived, or it has failed */
	int status;		/* WRITE, if ready: 0 or -errno */
};

/* A link's large messages that are in progress. */
struct ring_moves {
	uint32_t nb; /* messages of both sides in progress; while > 0 polls look at chunks */
	uint32_t tx_mask, rx_mask; /* number of chunks of each direction - 1 */
	uint32_t rx_bytes_len;
	const char *rx_bytes;  /* the peer's buffer, from which this side consumes */
	const char *violation; /* how the peer broke the protocol; NULL: it did not */
	struct ring_chunk *tx, *rx;
	uint64_t put, seen; /* chunks of tx: number put; number that the peer took, as last read */
	uint64_t taken;	    /* chunks of rx: number taken */
	/* Sources of the chunks to put: this side's ops, and answers to the peer's READs. */
	struct leat_op *out_head, *out_tail;
	struct ring_move *answers, *answers_tail;
	bool answer_next;	/* toggled for each chunk: ops and answers take turns */
	struct ring_move *in;	/* incoming moves, by the message's number modulo slots */
	uint32_t in_mask;	/* number of slots that the peer fills - 1 */
	struct ring_move write; /* the WRITE that comes in; there is one at most */
};

/* Find bytes at an offset in the peer's buffer. @return NULL: they are not all inside it */
static inline const void *
ring_moves_bytes(const struct ring_moves *m, uint64_t at, uint64_t len)
{
	return at > m->rx_bytes_len || len > m->rx_bytes_len - at ? NULL : m->rx_bytes + at;
}

/*
 * Record that the peer broke the protocol. Nothing more is received from it, and the next progress
 * ends the connection.
 * @param what what the peer did, for the text of the event; a static string
 */
#if RING_FOREIGN
void ring_violation(struct ring_ep *rep, struct ring_link *link, const char *what);
#else
static inline void
ring_violation(struct ring_ep *rep, struct ring_link *link, const char *what)
{
	/* Both sides are in this process, and trusted. */
	RTE_SET_USED(rep);
	RTE_SET_USED(link);
	RTE_SET_USED(what);
}
#endif

/*
 * Begin to receive a large SEND: ask the sender for its bytes. The caller has claimed the SEND and
 * removed the receive op from its list.
 */
void ring_move_recv(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t len,
		    struct leat_op *op);
/*
 * Begin or continue to receive a large WRITE. No later message of the link is scanned until the
 * WRITE has ended.
 * @param[out] status of the WRITE, when it has ended
 * @return false: the link waits for the WRITE's bytes
 */
bool ring_move_write(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key,
		     uint64_t addr, uint64_t len, int *status);
/* Begin to answer a READ; the caller has checked its region. */
void ring_move_read(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key,
		    uint64_t addr, uint64_t len);
/* Begin to put the bytes of an op that the peer acked with RING_GO. @return false: a violation */
bool ring_move_start(struct ring_link *link, struct leat_op *op);
/* End the move of this side's op, which the peer acked with status. The caller finishes the op. */
void ring_move_acked(struct leat_ep *ep, struct ring_link *link, struct leat_op *op, int status);
/* Take chunks that arrived and put chunks while there is room, up to RING_CHUNKS_BUDGET of each. */
void ring_moves_run(struct leat_ep *ep, struct ring_link *link);
/* Take all chunks that arrived. */
void ring_moves_take(struct leat_ep *ep, struct ring_link *link);
/* Would ring_moves_run() do something? */
bool ring_moves_ready(const struct ring_link *link);
/* Finish with status the receives whose bytes are coming in. Their later chunks are dropped. */
void ring_moves_end_recvs(struct leat_ep *ep, struct ring_link *link, int status);
/* End all moves of a link that closes. The caller finishes this side's own ops. */
void ring_moves_end(struct leat_ep *ep, struct ring_link *link, int status);
/* Are bytes of a message coming in for this receive? */
bool ring_moves_has(const struct ring_link *link, const struct leat_op *op);

#endif /* RING_MOVE_H */
