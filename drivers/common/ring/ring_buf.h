/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_BUF_H
#define RING_BUF_H

/*
 * The buffer for messages that do not fit into their slots: a ring of bytes beside the ring of
 * slots, one per direction of a connection. The producer copies a message into the buffer in one
 * piece and writes its address into the slot. The consumer copies the message out. When it frees
 * the slot, it frees the message's bytes in the buffer as well.
 *
 *     tail: where the oldest message, 7, begins   head: where the next message will begin
 *     bytes  |  free  |--7--|--9--|----12----|   free   |
 *            0                                         size
 *
 * Messages are consumed in the order of their numbers, so the bytes in use are one stretch. The
 * stretch may wrap around: a message that does not fit in one piece before the end of the buffer
 * begins at 0, and leaves a gap at the end.
 *
 * When no message is left in the buffer the producer starts at 0 again. It learns what was consumed
 * from the credits that come with messages of the opposite direction; and each time it has sent
 * RING_BUF_LAP bytes, it reads dir.consumed (ring_shared.h) itself. So a connection with few bytes
 * in flight stays in the first few pages of the buffer, however much it sends; the other pages are
 * never touched and take no memory.
 *
 * Only the producer reads and writes struct ring_buf; the consumer reads the bytes of published
 * messages.
 */

#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "leat_common.h"

/* Largest buffer, bytes. With few slots a smaller one is enough: the slots run out first. */
#define RING_BUF_MAX (512u << 10)
/* Number of bytes sent after which the producer reads dir.consumed itself. */
#define RING_BUF_LAP (32u << 10)

struct ring_buf_msg {
	uint64_t nr; /* number of the message */
	uint32_t at; /* offset of its bytes */
};

struct ring_buf {
	char *mem;
	/* FIFO of the messages in the buffer, oldest first; as many entries as there are slots */
	struct ring_buf_msg *msgs;
	uint32_t mask; /* entries of msgs - 1 */
	/* counters of the oldest entry and of the next free one; counter & mask: index in msgs */
	uint32_t first, next;
	uint32_t head; /* offset where the next message begins */
	uint32_t size; /* bytes of mem */
	uint32_t lap;  /* bytes sent since dir.consumed was last read because of RING_BUF_LAP */
	size_t mapped; /* bytes mapped for msgs and mem together */
};

/*
 * Allocate the buffer for nb slots, a power of two, and messages of up to max bytes.
 * @return 0 or -ENOMEM with leat_err()
 */
int ring_buf_init(struct ring_buf *b, uint32_t nb, uint32_t max);
/* Free what ring_buf_init() allocated; does nothing for a zeroed buffer. */
void ring_buf_free(struct ring_buf *b);

/*
 * Allocate room for the len > 0 bytes of message nr, for which a slot is free. seen: all messages
 * with lower numbers have been consumed.
 * @return NULL: there is no room
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
