/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Recovery of dead participants. Their frames are found by the slot number in the marks, and change
 * owner by the same compare-and-swap as those of living participants. So any number of participants
 * may recover at once, and each may die meanwhile: the slot is freed only when one of them has
 * recovered all frames.
 *
 * A participant that sleeps in the middle of a recovery, and wakes when the slot has a new owner,
 * must not recover that owner's frames. So it checks the slot's owner after it has read a mark and
 * before it changes the mark. In between the mark can't have changed and then got the same value
 * again: a position is reserved once, and each claim of the same frame has a different number of
 * deliveries.
 */

#include "channel_pvt.h"

#define NS_PER_MS UINT64_C(1000000)
#define TICKS_MAX 32

/*
 * Move read beyond pos, where a frame lies that a reader has claimed or set aside. Readers do both
 * in the order of the frames, so no frame before pos is left to claim.
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
		ch->looked++;
		if (mark_is_at(ch, m, r) && mark_fits(ch, m, r))
			chan_pass(ch, r, m);
		else if (r == atomic_load_explicit(&ch->block->read, memory_order_acquire))
			break;
	}
	(void)chan_corrupt(ch, "read position", pos);
	return false;
}

/*
 * Move read beyond the frame before the frame becomes RETURNED: readers search for RETURNED frames
 * only before the read position, when the count `returned` has changed. At the read position they
 * pass over frames that are not COMMITTED.
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
	/*
	 * Increment the count after the mark was stored. If this participant dies in between, the
	 * recovery of its slot increments the count.
	 */
	if (!lost)
		atomic_fetch_add_explicit(&ch->block->returned, 1, memory_order_release);
	chan_notify(ch, lost);
	return true;
}

/*
 * If a dead reader claimed several frames as one, split them: the marks of the others lie inside of
 * the first frame. The result is the same as if the reader had called split(): each mark becomes
 * READING, owned by the dead reader. The mark of the first frame is changed last: its length then
 * ends at the second frame. A participant that does the same later finds no COMMITTED mark inside.
 *
 * The inner frames follow each other up to the end. Marks inside of an inner frame are
 * skipped, so a whole recovery costs a few looks at each granule.
 * @return whether there were several; if the block is corrupt, the handle is broken
 */
static bool
split_dead(struct leat_channel *ch, uint64_t pos, uint64_t m)
{
	uint32_t i, first, len = mark_len(ch, m);
	uint64_t p, in = 0, to;

	for (first = 1; first < len; first++) {
		p = pos + ((uint64_t)first << CHAN_SHIFT);
		in = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		ch->looked++;
		if (mark_is_at(ch, in, p))
			break;
	}
	if (first >= len)
		return false;
	for (i = first; i < len; i += mark_len(ch, in)) {
		p = pos + ((uint64_t)i << CHAN_SHIFT);
		in = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		ch->looked++;
		to = (in & ~(UINT64_C(63) << MARK_OWNER_SHIFT | MARK_STATE)) |
		     (uint64_t)mark_owner(m) << MARK_OWNER_SHIFT | CHAN_READING;
		if (!mark_is_at(ch, in, p) || mark_len(ch, in) == 0 || mark_len(ch, in) > len - i ||
		    (mark_state(in) != CHAN_COMMITTED && in != to)) {
			/* Corrupt, unless the mark has changed: another participant was faster. */
			if (atomic_load_explicit(chan_mark(ch, pos), memory_order_acquire) == m)
				(void)chan_corrupt(ch, "frames claimed together", p);
			return true;
		}
		if (mark_state(in) == CHAN_COMMITTED)
			atomic_compare_exchange_strong_explicit(chan_mark(ch, p), &in, to,
								memory_order_relaxed,
								memory_order_relaxed);
	}
	/* release: publishes the inner marks */
	atomic_compare_exchange_strong_explicit(chan_mark(ch, pos), &m, mark_resize(ch, m, first),
						memory_order_acq_rel, memory_order_relaxed);
	return true;
}

/*
 * Recover the frame at pos, which a dead participant holds. @return false: look at it again; it was
 * split, another participant was faster, or readers have set the reservation aside
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

/* Does the owner that the mark names hold the frame? */
static bool
is_held(uint64_t m)
{
	return mark_state(m) == CHAN_RESERVED || mark_state(m) == CHAN_ASIDE ||
	       mark_state(m) == CHAN_READING;
}

/* Dead participants, by slot. */
struct dead {
	uint64_t slots;
	uint64_t owner[LEAT_CHANNEL_PARTICIPANTS_MAX];
};

static void
look_at_owner(const struct leat_channel *ch, uint32_t slot, struct dead *dead)
{
	uint64_t owner = atomic_load_explicit(&ch->block->slots[slot].owner, memory_order_acquire);

	if (owner == 0 || slot == ch->slot || chan_alive(ch, slot, owner))
		return;
	dead->owner[slot] = owner;
	dead->slots |= UINT64_C(1) << slot;
}

/*
 * Does a dead participant hold the frame with mark m? It does as long as the slot's owner is the
 * dead one; else another participant has recovered the slot.
 */
static bool
is_dead(const struct leat_channel *ch, uint64_t m, struct dead *dead)
{
	uint32_t slot = mark_owner(m);
	uint64_t bit = UINT64_C(1) << slot;

	if (!is_held(m) || (dead->slots & bit) == 0)
		return false;
	if (atomic_load_explicit(&ch->block->slots[slot].owner, memory_order_acquire) ==
	    dead->owner[slot])
		return true;
	dead->slots &= ~bit;
	return false;
}

/*
 * Walk once over the frames, and recover those of all dead participants. @return 1: all were
 * recovered; 0: not all, since frames came and went; -EPROTO: the block is corrupt
 */
static int
take_over_all(struct leat_channel *ch, struct dead *dead)
{
	uint64_t p, last, f, m;
	uint32_t turn;

	p = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	/*
	 * Dead participants hold no frame beyond write: the last frame that they reserved is at
	 * write if write was not moved over it.
	 */
	last = atomic_load_explicit(&ch->block->write, memory_order_acquire);
	for (turn = 0; (int64_t)(last - p) >= 0 && dead->slots != 0; turn++) {
		if (turn == 4 * ch->granules)
			return 0;
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		ch->looked++;
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
		if (is_dead(ch, m, dead) && !take_over(ch, p, m)) {
			if (ch->broken)
				return -EPROTO;
			continue;
		}
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	return 1;
}

/*
 * Recover the frames of dead participants, and free their slots. @return number of slots freed;
 * -EPROTO: the channel is corrupt
 */
static int
recover_dead(struct leat_channel *ch, struct dead *dead)
{
	int ret, found = 0;
	uint64_t owner;
	uint32_t i;

	if (dead->slots == 0)
		return 0;
	ret = take_over_all(ch, dead);
	if (ret <= 0)
		return ret;
	/*
	 * Increment the count for the dead participants. Each may have died after it made a frame
	 * RETURNED (its own, or that of a participant it recovered) and before it incremented the
	 * count.
	 */
	atomic_fetch_add_explicit(&ch->block->returned, 1, memory_order_release);
	chan_notify(ch, false);
	for (i = 0; i < ch->participants; i++) {
		if ((dead->slots >> i & 1) == 0)
			continue;
		owner = dead->owner[i];
		/* release: pairs with chan_slot_claim() */
		found += atomic_compare_exchange_strong_explicit(&ch->block->slots[i].owner, &owner,
								 0, memory_order_acq_rel,
								 memory_order_relaxed);
	}
	return found;
}

int
chan_recover_slot(struct leat_channel *ch, uint32_t slot)
{
	struct dead dead;

	dead.slots = 0;
	look_at_owner(ch, slot, &dead);
	return recover_dead(ch, &dead);
}

int
leat_channel_recover(struct leat_channel *ch)
{
	struct dead dead;
	uint32_t i;
	int ret;

	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	ret = chan_check(ch);
	if (ret != 0)
		return ret;
	dead.slots = 0;
	for (i = 0; i < ch->participants; i++)
		look_at_owner(ch, i, &dead);
	ret = recover_dead(ch, &dead);
	ch->check_at = chan_end_ns(chan_now_ns(), ch->opts.check_ms * NS_PER_MS);
	return ret;
}

/*
 * Read the clock, and check for dead participants when it is time. tick_every adapts so that the
 * clock is read about once in an eighth to a quarter of check_ms, or once in TICKS_MAX calls. So a
 * participant that calls seldom reads the clock in each call; for a participant that calls often
 * the cost of the clock is negligible.
 */
int
chan_tick_clock(struct leat_channel *ch)
{
	uint64_t now = chan_now_ns(), since = now - ch->ticked_at;
	uint64_t eighth = ch->opts.check_ms * NS_PER_MS / 8;

	ch->ticked_at = now;
	if (since > 2 * eighth)
		ch->tick_every = 1;
	else if (since < eighth && ch->tick_every < TICKS_MAX)
		ch->tick_every *= 2;
	ch->tick_in = ch->tick_every;
	return now >= ch->check_at ? leat_channel_recover(ch) : 0;
}

bool
chan_held_up(struct leat_channel *ch, enum chan_cause cause, uint64_t pos)
{
	struct chan_stuck *s = &ch->stuck[cause];

	if (s->at != pos || s->looks == 0) {
		s->at = pos;
		s->looks = 1;
		/* At the END check at once: a caller that gets -EAGAIN may never ask again. */
		return cause == CHAN_AT_END;
	}
	/* Checking costs system calls: do it at look 64, 128, 256, ..., then at each 4096th. */
	s->looks++;
	if (s->looks < CHAN_LOOKS || (s->looks & (s->looks - 1)) != 0)
		return false;
	if (s->looks == 8192)
		s->looks = 4096;
	return true;
}

void
chan_stuck(struct leat_channel *ch, enum chan_cause cause, uint64_t pos, uint64_t m)
{
	if (chan_held_up(ch, cause, pos) && mark_owner(m) < ch->participants)
		(void)chan_recover_slot(ch, mark_owner(m));
}
