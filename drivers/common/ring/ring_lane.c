/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The memory of a lane, that is of one direction of a connection:
 *
 *     shared    slots | acks              the producer's side allocates it
 *     own       notes | ops | nr          notes: the consumer's; ops, nr: the producer's
 *
 * RING_FOREIGN: each side allocates an own part. The producer uses ops, nr and messages of its
 * part, the consumer notes and moves.
 *
 *     shared    dir | slots | acks | bytes of the buffer | chunks
 *     own       notes | ops | nr | moves | messages in the buffer (ring_buf.msgs)
 *
 * Between datagram endpoints there are no acks, so no ops wait for them, and no notes.
 */

#include "ring_pvt.h"

/* Allot the next part, aligned so that different writers do not share a line. @return its offset */
static size_t
part(size_t *at, size_t nb, size_t size)
{
	const size_t here = *at;

	*at += RTE_ALIGN_CEIL(nb * size, (size_t)128);
	return here;
}

struct layout {
	size_t dir, slots, acks, bytes, chunks, shared;
	size_t notes, ops, nr, moves, msgs, own;
};

static struct layout
layout_of(const struct ring_shape *shape)
{
	const size_t acked = shape->datagram ? 0 : shape->nb;
	struct layout l = { 0 };

	l.dir = part(&l.shared, RING_FOREIGN ? 1 : 0, sizeof(struct ring_dir));
	l.slots = part(&l.shared, shape->nb, sizeof(struct ring_slot));
	l.acks = part(&l.shared, acked * RING_ACKS, sizeof(struct ring_ack));
	l.bytes = part(&l.shared, shape->nb_bytes, 1);
	l.chunks = part(&l.shared, shape->nb_chunks, sizeof(struct ring_chunk));
	l.notes = part(&l.own, acked, sizeof(struct ring_note));
	l.ops = part(&l.own, acked, sizeof(struct leat_op *));
	l.nr = part(&l.own, shape->nb, sizeof(uint64_t));
	l.moves = part(&l.own, RING_FOREIGN ? acked : 0, sizeof(struct ring_move));
	l.msgs = part(&l.own, RING_FOREIGN ? shape->nb : 0, sizeof(struct ring_buf_msg));
	return l;
}

struct ring_lane_size
ring_lane_size(const struct ring_shape *shape)
{
	const struct layout l = layout_of(shape);

	return (struct ring_lane_size){ .shared = l.shared, .own = l.own };
}

static void
init_shared(struct ring_lane *lane, uint32_t nb_acks)
{
	/*
	 * A head of 0 looks like ack 65535, whose entry is the last one. Write 1 there: it looks
	 * like ack 0, which has another entry.
	 */
	if (nb_acks > 0)
		lane->acks[nb_acks - 1].head = 1;
	lane->dir->consumed = RING_FIRST;
	lane->dir->recalls = LEAT_CURSOR_START;
	lane->dir->chunks_put = lane->dir->chunks_taken = LEAT_CURSOR_START;
}

void
ring_lane_place(struct ring_lane *lane, const struct ring_shape *shape, void *shared, void *own,
		bool producer)
{
	const struct layout l = layout_of(shape);
	char *s = shared, *o = own;

	lane->slots = (struct ring_slot *)(s + l.slots);
	lane->acks = (struct ring_ack *)(s + l.acks);
	lane->notes = (struct ring_note *)(o + l.notes);
	lane->ops = (struct leat_op **)(o + l.ops);
	lane->nr = (uint64_t *)(o + l.nr);
	lane->mask = shape->nb - 1;
	/*
	 * Number -1: the place has held no message yet. It counts as consumed long ago (the
	 * comparison is signed), and it is the number that a head of 0 holds: see ring_head() and
	 * ring_tx_advance().
	 */
	memset(lane->nr, 0xff, shape->nb * sizeof(*lane->nr));
	if (RING_FOREIGN) {
		lane->dir = (struct ring_dir *)(s + l.dir);
		lane->bytes = s + l.bytes;
		lane->nb_bytes = shape->nb_bytes;
		lane->chunks = s + l.chunks;
		lane->chunk_mask = shape->nb_chunks - 1;
		lane->moves = (struct ring_move *)(o + l.moves);
		lane->buf = (struct ring_buf){
			.mem = lane->bytes,
			.msgs = (struct ring_buf_msg *)(o + l.msgs),
			.mask = shape->nb - 1,
			.size = shape->nb_bytes,
		};
	}
	if (producer)
		init_shared(lane, shape->datagram ? 0 : shape->nb * RING_ACKS);
}
