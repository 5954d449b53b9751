/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_SHARE_H
#define RING_SHARE_H

/*
 * Memory that two processes have both mapped (RING_FOREIGN, and only if the device was asked for
 * it): the buffers of one side, which the other side reaches at addresses of its own.
 *
 *     SEND        the receiver copies straight from the sender's buffer
 *     WRITE       the initiator copies straight into the target's region, when it posts; if that
 *                 region is not shared, but the initiator's buffer is, the target copies
 *     READ        the initiator copies straight from the target's region
 *     atomics     the initiator executes them
 *
 * What the initiator may touch stands in a table of the target's regions, which the target alone
 * writes. A region that is deregistered must not be touched any more:
 *
 *     initiator                               owner of the region
 *     touching = number of the region         entry.key = 0; or CLOSED, which was UP
 *     (fence)                                 fence
 *     entry.key as expected, and it is UP?    touching of a peer that lives? then -EBUSY,
 *     then the op                             or the connection stays a while
 *     touching = 0
 *
 * The owner executes both fences, by membarrier(2). An op that does not find its region in the
 * table, or whose link has older ops on the way, goes through the target's loop as without shared
 * memory; it is the target that says what is wrong with a key.
 *
 * A connection that ends while the receiver copies: the sender sets CLOSED before it gives its ops
 * back, and the receiver looks at CLOSED after the copy, so that no message is delivered whose
 * buffer may have been used again.
 */

#include <stdbool.h>
#include <stdint.h>

struct leat_ep;
struct leat_op;
struct ring_ep;
struct ring_link;

#define RING_ENTRIES 1024 /* regions that can be in a table: those with the lowest numbers */
#define RING_ARENAS 64

/* A region in a table. */
struct ring_entry {
	uint64_t key; /* 0: none, or not any more */
	uint64_t addr;
	uint64_t len;
	uint64_t access; /* LEAT_MR_* */
};

/* A stretch of memory: at which address its owner has it, and where it is mapped here. */
struct ring_arena {
	uint64_t addr;
	uint64_t len;
	char *here;
};

struct ring_arenas {
	uint32_t nb;
	struct ring_arena arena[RING_ARENAS];
};

/* What an endpoint shares. */
struct ring_share {
	struct ring_arenas arenas; /* mapped here at the same addresses */
	struct ring_entry *entries;
	bool stale; /* some of it was freed meanwhile; written by any thread */
	/* Written by the owner with relaxed stores, read by telemetry. */
	uint64_t nb_ops;    /* executed by this side */
	uint64_t nb_copies; /* messages that this side copied straight from the other's buffer */
};

/* What of the other side's a link reaches. */
struct ring_reach {
	struct ring_arenas arenas;
	const struct ring_entry *entries;
};

/* Where that is mapped here; NULL: it is not, or not as a whole. */
static inline void *
ring_arenas_at(const struct ring_arenas *a, uint64_t addr, uint64_t len)
{
	uint32_t i;

	for (i = 0; i < a->nb; i++) {
		const struct ring_arena *r = &a->arena[i];
		const uint64_t at = addr - r->addr;

		if (addr >= r->addr && at <= r->len && len <= r->len - at)
			return r->here + at;
	}
	return NULL;
}

/* Can the other side reach that buffer of this one? */
bool ring_share_has(const struct ring_ep *rep, const struct ring_link *link, const void *buf,
		    uint64_t len);
/* Bytes of the other side's; NULL, and a violation: it does not share them. */
const void *ring_share_bytes(struct ring_ep *rep, struct ring_link *link, uint64_t addr,
			     uint64_t len);
/* After bytes of the other side's were copied: are they what it has sent? */
bool ring_share_still(const struct ring_link *link);
/* Puts a region into the table, if it can be reached. */
void ring_share_publish(struct ring_ep *rep, uint32_t region);
/* Takes it out. @return false: a peer is just touching it */
bool ring_share_withdraw(struct ring_ep *rep, uint32_t region);
/* Number + 1 of the region that the other side of a link is just touching; 0: none. */
uint64_t ring_share_touched(const struct ring_link *link);
/* Executes a one-sided op at once. @return false: it has to go through the target's loop */
bool ring_share_execute(struct leat_ep *ep, struct ring_link *link, struct leat_op *op);
/* Posts one that has nothing out of the ordinary. @return false: the general way */
bool ring_share_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op);

#endif /* RING_SHARE_H */
