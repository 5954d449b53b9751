/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Room: free is moved over frames that are read. It stops at a frame that a participant holds:
 * reserved, set aside or being read.
 */

#include "channel_pvt.h"

/*
 * Tell whether the block is corrupt if no frame lies at f, the value of free. It is not if read was
 * at f, too, or if free was moved or a frame was stored at f meanwhile.
 */
static bool
is_wrong(const struct leat_channel *ch, uint64_t f)
{
	uint64_t r = atomic_load_explicit(&ch->block->read, memory_order_acquire), m;

	if (r == f)
		return f % CHAN_GRANULE != 0;
	/* read was loaded after free, so it can't be smaller. */
	if ((int64_t)(r - f) < 0)
		return true;
	m = atomic_load_explicit(chan_mark(ch, f), memory_order_acquire);
	return !mark_is_at(ch, m, f) &&
	       atomic_load_explicit(&ch->block->free, memory_order_acquire) == f;
}

int
chan_reclaim(struct leat_channel *ch)
{
	uint64_t from, f, m;
	uint32_t turn;

	/* acquire: pairs with chan_advance() */
	from = f = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	for (turn = 0; turn < ch->granules; turn++) {
		/* acquire: the frame's reader has finished before the frame is overwritten */
		m = atomic_load_explicit(chan_mark(ch, f), memory_order_acquire);
		if (!mark_is_at(ch, m, f)) {
			if (f == from && is_wrong(ch, f))
				return chan_corrupt(ch, "free position", f);
			break;
		}
		if (mark_state(m) > CHAN_END)
			return chan_corrupt(ch, "state of a frame", f);
		if (mark_state(m) != CHAN_DONE && mark_state(m) != CHAN_EMPTY)
			break;
		if (!mark_fits(ch, m, f))
			return chan_corrupt(ch, "length of a frame", f);
		if ((int64_t)(f - ch->read_seen) >= 0) {
			/* acquire: pairs with chan_advance() */
			ch->read_seen =
				atomic_load_explicit(&ch->block->read, memory_order_acquire);
			/* The frame's reader has not moved read yet: free must not overtake it. */
			if (ch->read_seen == f) {
				chan_pass(ch, f, m);
				ch->read_seen = atomic_load_explicit(&ch->block->read,
								     memory_order_acquire);
			}
			if ((int64_t)(f - ch->read_seen) >= 0)
				break;
		}
		f += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	/*
	 * If another participant moved free, the marks that were seen may be reused: then this step
	 * fails, as it must.
	 */
	if (f != from)
		chan_advance(ch, &ch->block->free, from, (uint32_t)((f - from) >> CHAN_SHIFT));
	ch->free_seen = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	return f != from || ch->free_seen != from;
}

int
chan_room(struct leat_channel *ch, uint32_t granules)
{
	uint64_t w = atomic_load_explicit(&ch->block->write, memory_order_acquire), m;
	uint32_t left = ch->granules - chan_index(ch, w);

	if (w % CHAN_GRANULE != 0)
		return chan_corrupt(ch, "write position", w);
	m = atomic_load_explicit(chan_mark(ch, w), memory_order_acquire);
	if (mark_is_at(ch, m, w) && mark_state(m) == CHAN_END)
		return chan_err(ESHUTDOWN, "channel: terminated");
	return chan_room_at(ch, w, left < granules ? left : granules);
}

/*
 * Drop the oldest frame. @return 1: dropped, or another participant was faster; 0: a participant
 * holds the oldest frame, so dropping later ones would make no room, or there is no frame; -EPROTO
 */
int
chan_drop_oldest(struct leat_channel *ch)
{
	uint64_t f = atomic_load_explicit(&ch->block->free, memory_order_acquire), r, m;
	uint32_t turn;

	m = atomic_load_explicit(chan_mark(ch, f), memory_order_acquire);
	if (mark_is_at(ch, m, f) && (mark_state(m) == CHAN_READING || mark_state(m) == CHAN_ASIDE))
		return 0;
	if (mark_is_at(ch, m, f) && mark_state(m) == CHAN_RETURNED) {
		if (atomic_compare_exchange_strong_explicit(
			    chan_mark(ch, f), &m, mark_to(m, CHAN_DONE), memory_order_acq_rel,
			    memory_order_relaxed)) {
			chan_count(ch, LEAT_CHANNEL_OVERWRITTEN, 1);
			/* Wake other writers that wait for room: some may need less. */
			chan_notify(ch, true);
		}
		return 1;
	}
	for (turn = 0; turn < CHAN_TURNS; turn++) {
		r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
		m = atomic_load_explicit(chan_mark(ch, r), memory_order_acquire);
		if (!mark_is_at(ch, m, r) || mark_state(m) == CHAN_END)
			return 0;
		if (mark_state(m) == CHAN_RESERVED) {
			chan_stuck(ch, CHAN_AT_READ, r, m);
			return 0;
		}
		if (!mark_fits(ch, m, r))
			return chan_corrupt(ch, "length of a frame", r);
		if (mark_state(m) != CHAN_COMMITTED) {
			chan_pass(ch, r, m);
			continue;
		}
		if (atomic_compare_exchange_strong_explicit(
			    chan_mark(ch, r), &m, mark_to(m, CHAN_DONE), memory_order_acq_rel,
			    memory_order_relaxed)) {
			chan_advance(ch, &ch->block->read, r, mark_len(ch, m));
			chan_count(ch, LEAT_CHANNEL_OVERWRITTEN, 1);
			chan_notify(ch, true);
			return 1;
		}
	}
	return 0;
}

void
chan_look_at_oldest(struct leat_channel *ch)
{
	uint64_t f = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	uint64_t m = atomic_load_explicit(chan_mark(ch, f), memory_order_acquire);

	if (!mark_is_at(ch, m, f))
		return;
	switch (mark_state(m)) {
	case CHAN_RESERVED:
	case CHAN_ASIDE:
	case CHAN_READING:
	/* The participant that returned the frame may have died before it incremented the count. */
	case CHAN_RETURNED:
		chan_stuck(ch, CHAN_AT_FREE, f, m);
		break;
	default:
		break;
	}
}
