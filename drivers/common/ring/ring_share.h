/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_SHARE_H
#define RING_SHARE_H

/*
 * Memory that two processes have both mapped (RING_FOREIGN, and only with the device argument
 * share=1): one side's buffers, which the other side reaches at addresses of its own.
 *
 *     SEND        the receiver copies straight from the sender's buffer
 *     WRITE       the initiator copies straight into the target's region, when it posts; if the
 *                 region is not shared, but the initiator's buffer is, the target copies
 *     READ        the initiator copies straight from the target's region
 *     atomics     the initiator executes them
 *
 * The regions that initiators may touch stand in a table, which the target alone writes. After a
 * region is deregistered no initiator may touch it any more:
 *
 *     initiator                               owner of the region
 *     touching = number of the region + 1     entry.key = 0; or closed = BYE or DEAD, was UP
 *     (fence)                                 fence
 *     entry.key as expected, and closed       does a live peer touch the region? then -EBUSY,
 *       still UP? then execute the op         or the connection stays until the op has ended
 *     touching = 0
 *
 * The owner makes both sides execute their fence, by membarrier(2). An op whose region is not in
 * the table, or whose link has older ops in flight, goes through the target's loop as without
 * shared memory; so the target reports what is wrong with a key.
 *
 * If a connection ends while the receiver copies, the sender sets CLOSED before it finishes its
 * ops, and the receiver reads CLOSED after the copy. So the receiver delivers no message whose
 * buffer the sender may have used again.
 */

#include <stdbool.h>
#include <stdint.h>

struct leat_ep;
struct leat_op;
struct ring_ep;
struct ring_link;

#define RING_ENTRIES 1024 /* entries of a table: the regions with the lowest numbers */
#define RING_ARENAS 64

/* A region in a table. */
struct ring_entry {
	uint64_t key; /* 0: no region, or a withdrawn one */
	uint64_t addr;
	uint64_t len;
	uint64_t access; /* LEAT_MR_* */
};

/* A stretch of memory that one side shares. */
struct ring_arena {
	uint64_t addr; /* address in the process that owns the memory */
	uint64_t len;
	char *here; /* address at which this process has mapped it */
};

struct ring_arenas {
	uint32_t nb;
	struct ring_arena arena[RING_ARENAS];
};

/* The memory that an endpoint shares with its peers. */
struct ring_share {
	struct ring_arenas arenas; /* arenas of this process: here == addr */
	struct ring_entry *entries;
	bool stale; /* some of the memory was freed after it was shared; written by any thread */
	/* Written by the owner with relaxed stores, read by telemetry. */
	uint64_t nb_ops;    /* one-sided ops that this side executed on peers' memory */
	uint64_t nb_copies; /* messages that this side copied straight from a peer's buffer */
};

/* The peer's memory that a link reaches. */
struct ring_reach {
	struct ring_arenas arenas;
	const struct ring_entry *entries;
};

/* Translate an owner's address. @return NULL: the len bytes are not mapped here as a whole */
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

/* Can the peer of a link reach this side's buffer buf? */
bool ring_share_has(const struct ring_ep *rep, const struct ring_link *link, const void *buf,
		    uint64_t len);
/* Find bytes at a peer's address. @return NULL: the peer does not share them, a violation */
const void *ring_share_bytes(struct ring_ep *rep, struct ring_link *link, uint64_t addr,
			     uint64_t len);
/*
 * Call after a copy from a peer's buffer: did the bytes still belong to the message?
 * @return false: the peer has closed, and may have used its buffer again
 */
bool ring_share_still(const struct ring_link *link);
/* Put a region into the table, if peers can reach all of it. */
void ring_share_publish(struct ring_ep *rep, uint32_t region);
/*
 * Take a region out of the table. @return 0; -EBUSY with leat_err(): a peer is touching it, or the
 * fence failed
 */
int ring_share_withdraw(struct ring_ep *rep, uint32_t region);
/* Find this side's region that a link's peer is touching. @return its number + 1; 0: none */
uint64_t ring_share_touched(const struct ring_link *link);
/* Execute a one-sided op at once. @return false: it must go through the target's loop */
bool ring_share_execute(struct leat_ep *ep, struct ring_link *link, struct leat_op *op);
/* Post and execute a plain one-sided op. @return false: the caller must post it in another way */
bool ring_share_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op);

#endif /* RING_SHARE_H */
