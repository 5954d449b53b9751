/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_BUF_H
#define RING_BUF_H

/*
 * Where datagrams lie that do not fit into their slots: a ring of bytes beside the ring of slots,
 * one per direction of a connection. Its producer copies a message into it in one piece, and writes
 * the address into the slot; the consumer, who copies it out, gives it back together with the slot.
 *
 *     tail: where the oldest begins, 7            head: where the next one will begin
 *     bytes  |  free  |--7--|--9--|----12----|   free   |
 *            0                                         size
 *
 * Messages are consumed in the order of their numbers, so what is in use is one stretch. It may go
 * around the end, where a message that does not fit in one piece leaves a gap.
 *
 * When none is left the producer begins at 0 again. What was consumed it hears with the messages
 * of the other direction, and asks for itself every RING_BUF_LAP bytes: so a connection with little
 * on the way stays in few pages, however much it sends. The pages behind are never touched, and
 * take no memory.
 *
 * All of it is the producer's own, but for the bytes of messages that are published.
 */

#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "leat_common.h"

/* Bytes of a buffer; for few slots less, so that they are what fills up first. */
#define RING_BUF_MAX (512u << 10)
#define RING_BUF_LAP (32u << 10)

struct ring_buf_msg {
	uint64_t nr;
	uint32_t at;
};

struct ring_buf {
	char *mem;
	struct ring_buf_msg *msgs; /* those with bytes, oldest first; as many places as slots */
	uint32_t mask;
	uint32_t first, next; /* in msgs, modulo their number */
	uint32_t head;
	uint32_t size;
	uint32_t lap; /* bytes since consumed was last asked for */
	size_t mapped;
};

/*
 * For nb slots, a power of two, and messages of up to max bytes.
 * @return 0 or -ENOMEM with leat_err()
 */
int ring_buf_init(struct ring_buf *b, uint32_t nb, uint32_t max);
/* Also of one that is zeroed. */
void ring_buf_free(struct ring_buf *b);

/*
 * Room for message nr, of len > 0 bytes, for which a slot is free. Messages before number seen have
 * been consumed.
 * @return NULL: there is none
 */
static __rte_always_inline void *
ring_buf_take(struct ring_buf *b, uint64_t seen, uint64_t nr, uint32_t len)
{
	uint32_t at = b->head, end = b->size, tail;
	struct ring_buf_msg *m;

	len = RTE_ALIGN_CEIL(len, (uint32_t)LEAT_CACHE_LINE);
	while (b->first != b->next && b->msgs[b->first & b->mask].nr < seen)
		b->first++;
	if (b->first == b->next) {
		at = 0;
	} else {
		tail = b->msgs[b->first & b->mask].at;
		if (unlikely(at <= tail)) {
			end = tail;
		} else if (unlikely(len > end - at)) {
			at = 0;
			end = tail;
		}
	}
	if (unlikely(len > end - at))
		return NULL;
	m = &b->msgs[b->next++ & b->mask];
	m->nr = nr;
	m->at = at;
	b->head = at + len;
	b->lap += len;
	return &b->mem[at];
}

#endif /* RING_BUF_H */
