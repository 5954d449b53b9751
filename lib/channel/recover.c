/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The dead: what they had is found by their slot's number in the marks, and changes hands by the same
 * compare-and-swap as among the living. So any number of participants may do this at once, and each may die
 * doing it: the slot is free only when somebody has gone through to the end.
 *
 * Who sleeps half way through, and wakes when the slot is somebody else's, must not take that one's frames.
 * So it looks at the slot after it has read a mark and before it changes it. And the mark can't have come
 * back since: a position is reserved once, and each time that it is read has another number of deliveries.
 */

#include "channel_pvt.h"

/*
 * Moves read beyond pos. Frames are claimed in their order, so up to a claimed one there is none to be taken.
 * @return false: the block is corrupt
 */
bool
chan_pass_beyond(struct leat_channel *ch, uint64_t pos)
{
	uint32_t turn;
	uint64_t r, m;

	for (turn = 0; turn <= ch->granules; turn++) {
		r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
		if ((int64_t)(r - pos) > 0)
			return true;
		m = atomic_load_explicit(chan_mark(ch, r), memory_order_acquire);
		if (mark_is_at(ch, m, r) && mark_fits(ch, m, r))
			chan_pass(ch, r, m);
	}
	(void)chan_corrupt(ch, "read position", pos);
	return false;
}

/*
 * What is returned must lie behind the read position before it is so: readers look for it there when the count
 * has changed, and at the read position they go over whatever is not COMMITTED.
 */
bool
chan_put_back(struct leat_channel *ch, uint64_t pos, uint64_t m, bool drop)
{
	_Atomic uint64_t *mark = chan_mark(ch, pos);
	bool lost = drop || mark_tries(m) == LEAT_CHANNEL_DELIVERIES - 1;
	uint64_t to = lost ? mark_to(m, CHAN_DONE)
			   : mark_to(m + (UINT64_C(1) << MARK_TRIES_SHIFT), CHAN_RETURNED);

	if (!chan_pass_beyond(ch, pos))
		return false;
	/* release: pairs with the next reader's claim(), or with chan_reclaim() */
	if (!atomic_compare_exchange_strong_explicit(mark, &m, to, memory_order_acq_rel,
						     memory_order_relaxed))
		return false;
	atomic_fetch_add_explicit(
		&ch->block->count[lost ? LEAT_CHANNEL_LOST : LEAT_CHANNEL_RETURNED], 1,
		memory_order_relaxed);
	/* After the mark. Who dies before it has a slot to be recovered, and there it is done again. */
	if (!lost)
		atomic_fetch_add_explicit(&ch->block->returned, 1, memory_order_release);
	chan_notify(ch, lost);
	return true;
}

/*
 * What a dead reader claimed may be several frames, with the marks of the others inside of the first one's. They
 * come out as its owner would have done it: each READING, by the dead one, and the first, whose length ends where
 * the second begins, last. Whoever else does the same, and comes late, finds none COMMITTED in there any more.
 * @return whether there was one
 */
static bool
split_dead(struct leat_channel *ch, uint64_t pos, uint64_t m)
{
	uint32_t i, first = 0, len = mark_len(ch, m);
	uint64_t p, in, to;

	for (i = 1; i < len; i++) {
		p = pos + ((uint64_t)i << CHAN_SHIFT);
		in = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, in, p))
			continue;
		if (first == 0)
			first = i;
		to = (in & ~(UINT64_C(63) << MARK_OWNER_SHIFT | MARK_STATE)) |
		     (uint64_t)mark_owner(m) << MARK_OWNER_SHIFT | CHAN_READING;
		if (mark_state(in) == CHAN_COMMITTED)
			atomic_compare_exchange_strong_explicit(chan_mark(ch, p), &in, to,
								memory_order_relaxed,
								memory_order_relaxed);
	}
	if (first == 0)
		return false;
	/* release: the others */
	atomic_compare_exchange_strong_explicit(chan_mark(ch, pos), &m, mark_resize(ch, m, first),
						memory_order_acq_rel, memory_order_relaxed);
	return true;
}

/*
 * The frame at pos, which is the dead one's. @return false: look again; it was several, or somebody was faster: what
 * was reserved may have been set aside
 */
static bool
take_over(struct leat_channel *ch, uint64_t pos, uint64_t m)
{
	if (mark_state(m) == CHAN_READING)
		return !split_dead(ch, pos, m) &&
		       chan_put_back(ch, pos, m, ch->on_death == LEAT_CHANNEL_DROP);
	if (!atomic_compare_exchange_strong_explicit(chan_mark(ch, pos), &m, mark_to(m, CHAN_EMPTY),
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	atomic_fetch_add_explicit(&ch->block->count[LEAT_CHANNEL_ABORTED], 1, memory_order_relaxed);
	chan_notify(ch, false);
	chan_notify(ch, true);
	return true;
}

/* Is it of the dead one's hands, as long as the slot is its? */
static bool
is_held(uint64_t m, uint32_t slot)
{
	return mark_owner(m) == slot &&
	       (mark_state(m) == CHAN_RESERVED || mark_state(m) == CHAN_ASIDE ||
		mark_state(m) == CHAN_READING);
}

int
chan_recover_slot(struct leat_channel *ch, uint32_t slot)
{
	_Atomic uint64_t *owner = &ch->block->slots[slot].who;
	uint64_t who = atomic_load_explicit(owner, memory_order_acquire);
	uint64_t p, last, f, m;
	uint32_t turn;

	if (who == 0 || slot == ch->slot || chan_alive(who))
		return 0;
	p = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	/* It has nothing beyond: what it took last is at write, if write was not moved over it. */
	last = atomic_load_explicit(&ch->block->write, memory_order_acquire);
	for (turn = 0; (int64_t)(last - p) >= 0; turn++) {
		if (turn == 2 * ch->granules)
			return 0;
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, m, p)) {
			if (p == last)
				break;
			f = atomic_load_explicit(&ch->block->free, memory_order_acquire);
			if ((int64_t)(f - p) <= 0)
				return chan_corrupt(ch, "chain of frames", p);
			p = f;
			continue;
		}
		if (mark_state(m) == CHAN_END)
			break;
		if (!mark_fits(ch, m, p))
			return chan_corrupt(ch, "length of a frame", p);
		if (is_held(m, slot)) {
			/* As long as this is so, m is of the dead one. */
			if (atomic_load_explicit(owner, memory_order_acquire) != who)
				return 0;
			if (!take_over(ch, p, m)) {
				if (ch->broken)
					return -EPROTO;
				continue;
			}
		}
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	/* It, or who recovered it before us, may have died between a mark and this. */
	atomic_fetch_add_explicit(&ch->block->returned, 1, memory_order_release);
	chan_notify(ch, false);
	/* release: pairs with chan_slot_take() */
	return atomic_compare_exchange_strong_explicit(owner, &who, 0, memory_order_acq_rel,
						       memory_order_relaxed);
}

int
leat_channel_recover(struct leat_channel *ch)
{
	int ret, found = 0;
	uint32_t i;

	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt, as was said before");
	for (i = 0; i < ch->participants; i++) {
		ret = chan_recover_slot(ch, i);
		if (ret < 0)
			return ret;
		found += ret;
	}
	return found;
}

void
chan_stuck(struct leat_channel *ch, uint64_t pos, uint64_t m)
{
	if (ch->stuck_at != pos || ch->stuck_looks == 0) {
		ch->stuck_at = pos;
		ch->stuck_looks = 1;
		return;
	}
	/* To ask costs system calls: after 64 looks, 128, 256 ... and then at every 4096th. */
	ch->stuck_looks++;
	if (ch->stuck_looks < CHAN_LOOKS || (ch->stuck_looks & (ch->stuck_looks - 1)) != 0)
		return;
	if (ch->stuck_looks == 8192)
		ch->stuck_looks = 4096;
	if (mark_owner(m) < ch->participants)
		(void)chan_recover_slot(ch, mark_owner(m));
}

int
chan_slot_take(struct leat_channel *ch)
{
	uint64_t who = chan_who_self(), none;
	uint32_t i, turn = 0;
	bool again;
	int ret;

	ch->slot = LEAT_CHANNEL_PARTICIPANTS_MAX;
	do {
		for (i = 0; i < ch->participants; i++) {
			none = 0;
			if (!atomic_compare_exchange_strong_explicit(
				    &ch->block->slots[i].who, &none, who, memory_order_acq_rel,
				    memory_order_relaxed))
				continue;
			atomic_fetch_add_explicit(&ch->block->slots[i].generation, 1,
						  memory_order_relaxed);
			ch->slot = i;
			ch->who = who;
			return 0;
		}
		again = false;
		for (i = 0; i < ch->participants && !again; i++) {
			ret = chan_recover_slot(ch, i);
			if (ret < 0)
				return ret;
			/* Or somebody else did it. */
			again = ret > 0 || atomic_load_explicit(&ch->block->slots[i].who,
								memory_order_relaxed) == 0;
		}
	} while (again && ++turn < CHAN_TURNS);
	return chan_err(EUSERS,
			"channel: all %u participants' places are taken by processes that live",
			ch->participants);
}
