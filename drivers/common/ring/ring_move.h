/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MOVE_H
#define RING_MOVE_H

/*
 * Large messages between processes (RING_FOREIGN): neither side reaches the other's buffers, so the
 * bytes go through chunks, a ring of its own beside that of the slots. The sender fills chunks
 * while the receiver empties them.
 *
 *     SEND, WRITE   producer                           consumer
 *                   slot, without the bytes  ------->  finds its receive, or its region
 *                                            <-------  ack GO
 *                   chunks put, in its polls ------->  chunks taken, in its polls
 *                   SEND: done with the last           WRITE: ack with the last
 *     READ          slot                     ------->  checks the region
 *                                            <-------  chunks put; an ack only if that fails
 *
 * Chunks are taken at once, whatever the messages around them wait for: nothing that is unexpected
 * holds them up. While a WRITE comes in nothing behind it is looked at, so that what a peer posts
 * takes effect in its order.
 *
 * A chunk names its message by the number of the slot (modulo slots). That of a message that was
 * given up may be used again; so before a move begins, or ends early, what was put before is taken.
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
/* Chunks that a poll puts, and takes, of one link. */
#define RING_CHUNKS_BUDGET 16

/* Status of an ack that is none yet: go on with the bytes. */
#define RING_GO 1

enum ring_chunk_kind {
	RING_CHUNK_DATA = 1, /* of a message of the side that puts it */
	RING_CHUNK_ANSWER,   /* to a READ of the side that takes it */
};

struct ring_chunk {
	uint32_t len;
	uint16_t id;   /* number of the slot */
	uint16_t kind; /* enum ring_chunk_kind */
	char data[RING_CHUNK] __attribute__((aligned(LEAT_CACHE_LINE)));
};

enum ring_move_kind {
	RING_MOVE_NONE = 0,
	RING_MOVE_RECV,	 /* a SEND comes in */
	RING_MOVE_WRITE, /* a WRITE comes in */
	RING_MOVE_READ,	 /* a READ is answered */
};

/* A large message of the other side. */
struct ring_move {
	struct leat_op *op;	/* RECV */
	struct ring_move *next; /* READ: in ring_moves.answers */
	uint64_t addr, key;	/* WRITE, READ: where in which region */
	uint64_t len, done;	/* bytes */
	uint64_t nr;		/* of the message */
	uint8_t kind;		/* enum ring_move_kind */
	bool ready;		/* WRITE: all is there, or it has failed */
	int status;		/* WRITE: then */
};

/* Of a link. */
struct ring_moves {
	uint32_t nb; /* of both sides' messages: chunks are to be looked at */
	uint32_t tx_mask, rx_mask;
	uint32_t rx_bytes_len;
	const char *rx_bytes;  /* the buffer of what comes in */
	const char *violation; /* what the other side did; NULL: nothing */
	struct ring_chunk *tx, *rx;
	uint64_t put, seen; /* of tx: filled; taken by the other side, as last seen */
	uint64_t taken;	    /* of rx */
	/* Whose bytes are to be put: this side's ops, and answers to the other's. */
	struct leat_op *out_head, *out_tail;
	struct ring_move *answers, *answers_tail;
	bool answer_next;
	struct ring_move *in; /* by number of the message (modulo slots) */
	uint32_t in_mask;     /* as rx_mask of a link that is up */
	struct ring_move write;
};

/* The bytes at an offset of the buffer of what comes in; NULL: it is not all in there. */
static inline const void *
ring_moves_bytes(const struct ring_moves *m, uint64_t at, uint64_t len)
{
	return at > m->rx_bytes_len || len > m->rx_bytes_len - at ? NULL : m->rx_bytes + at;
}

/* The other side broke the rules: nothing more of it is looked at; progress ends the connection. */
#if RING_FOREIGN
void ring_violation(struct ring_ep *rep, struct ring_link *link, const char *what);
#else
static inline void
ring_violation(struct ring_ep *rep, struct ring_link *link, const char *what)
{
	/* In one process both sides are this program. */
	RTE_SET_USED(rep);
	RTE_SET_USED(link);
	RTE_SET_USED(what);
}
#endif

/* A SEND that is claimed and has its receive, which is on no list any more. */
void ring_move_recv(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t len,
		    struct leat_op *op);
/*
 * A WRITE that is looked at, for the first time or again.
 * @param[out] status of it, when it is through
 * @return false: the link waits for its bytes
 */
bool ring_move_write(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key,
		     uint64_t addr, uint64_t len, int *status);
/* A READ whose region was checked. */
void ring_move_read(struct leat_ep *ep, struct ring_link *link, uint64_t nr, uint64_t key,
		    uint64_t addr, uint64_t len);
/* GO for an op of this side's. @return false: it can't be */
bool ring_move_go(struct ring_link *link, struct leat_op *op);
/* An op of this side's is acknowledged; before it is finished. */
void ring_move_acked(struct leat_ep *ep, struct ring_link *link, struct leat_op *op, int status);
/* Takes what is there, and puts what there is room for. */
void ring_moves_run(struct leat_ep *ep, struct ring_link *link);
/* Takes all that is there. */
void ring_moves_take(struct leat_ep *ep, struct ring_link *link);
/* Would ring_moves_run() do something? */
bool ring_moves_ready(const struct ring_link *link);
/* Ends the receives that messages come in for, with status; what comes for them is dropped. */
void ring_moves_end_recvs(struct leat_ep *ep, struct ring_link *link, int status);
/* The link closes: all ends. Ops of this side's are finished by the caller. */
void ring_moves_end(struct leat_ep *ep, struct ring_link *link, int status);
/* Is a receive one of them? */
bool ring_moves_has(const struct ring_link *link, const struct leat_op *op);

#endif /* RING_MOVE_H */
