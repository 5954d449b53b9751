/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reading.
 *
 *     claim     mark at read: COMMITTED -> READING, owned by this reader
 *               read: moved over it. Any participant may do this step, also for a dead reader
 *     process
 *     consume   READING -> DONE; writers move free over it
 *
 * Several frames are claimed as one, and stay one until they are consumed. Before a reader handles
 * one of them alone, it gives each frame its own mark again: split().
 *
 * A reader looks at the marks alone: one word says whether there is a frame, its owner and its
 * length. The header is read once, after the mark that publishes it, and checked against the
 * mark.
 */

#include "channel_pvt.h"

/*
 * Find committed frames that follow each other in one lap, n at most, and fill held with them.
 * Their data is prefetched meanwhile.
 * @return granules of all n frames
 */
static uint32_t
look_ahead(struct leat_channel *ch, uint64_t r, uint64_t m, unsigned int *n)
{
	uint64_t p = r, end = (r | (ch->size - 1)) + 1;
	unsigned int k, max = *n;

	/* A mark tells where the next mark is; the marks lie close together: prefetch all lines. */
	for (k = 8; k < max; k += 8)
		__builtin_prefetch((const void *)chan_mark(ch, r + k * CHAN_GRANULE));
	k = 0;
	do {
		__builtin_prefetch(chan_frame(ch, p));
		ch->held[k].pos = p;
		/* The mark that the frame has on its own once this reader owns it. */
		ch->held[k].value = (m & ~(UINT64_C(63) << MARK_OWNER_SHIFT | MARK_STATE)) |
				    (uint64_t)ch->slot << MARK_OWNER_SHIFT | CHAN_READING;
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
		if (++k == max || p == end)
			break;
		/* acquire: pairs with publish(); the frame's header is read after this load */
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
	} while (mark_is_at(ch, m, p) && mark_state(m) == CHAN_COMMITTED && mark_fits(ch, m, p));
	*n = k;
	return (uint32_t)((p - r) >> CHAN_SHIFT);
}

/*
 * Claim the frames that look_ahead() found with one compare-and-swap of the first mark, which was
 * m. That mark then covers all of them; the marks of the others lie inside, where no participant
 * looks.
 */
static bool
claim(struct leat_channel *ch, uint64_t m, unsigned int n, uint32_t granules)
{
	uint64_t value = mark_resize(ch, ch->held[0].value, granules);

	/* acquire: the frame is read after this; release: pairs with participants that move read */
	if (!atomic_compare_exchange_strong_explicit(chan_mark(ch, ch->held[0].pos), &m, value,
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	ch->nb_held = n;
	ch->joint_mark = value;
	return true;
}

/*
 * Give each held frame its own mark. The first mark is stored last: it covers the others till then.
 */
static void
split(struct leat_channel *ch)
{
	unsigned int i;

	if (ch->joint_mark == 0)
		return;
	ch->joint_mark = 0;
	/* A single frame has its own mark. */
	if (ch->nb_held == 1)
		return;
	for (i = 1; i < ch->nb_held; i++)
		atomic_store_explicit(chan_mark(ch, ch->held[i].pos), ch->held[i].value,
				      memory_order_relaxed);
	/* release: publishes the other marks */
	atomic_store_explicit(chan_mark(ch, ch->held[0].pos), ch->held[0].value,
			      memory_order_release);
}

static void
release(struct leat_channel *ch, uint64_t pos, uint64_t value, bool notify)
{
	/* release: the frame is not touched after this; pairs with chan_reclaim() */
	if (!notify)
		atomic_store_explicit(chan_mark(ch, pos), mark_to(value, CHAN_DONE),
				      memory_order_release);
	else
		/* chan_notify() must follow a read-modify-write. */
		(void)atomic_exchange_explicit(chan_mark(ch, pos), mark_to(value, CHAN_DONE),
					       memory_order_acq_rel);
}

static void
give_back(struct leat_channel *ch, unsigned int from)
{
	unsigned int i;

	split(ch);
	for (i = from; i < ch->nb_held; i++)
		(void)chan_put_back(ch, ch->held[i].pos, ch->held[i].value, false);
	ch->nb_held = from;
}

/*
 * Drop held frame number i, whose header is invalid. @return 0; -EPROTO: the policy is INVALID_END,
 * and the held frames after number i were given back
 */
static int __attribute__((cold, noinline)) drop_invalid(struct leat_channel *ch, unsigned int i)
{
	uint64_t pos = ch->held[i].pos;

	split(ch);
	chan_count(ch, LEAT_CHANNEL_INVALID, 1);
	release(ch, pos, ch->held[i].value, true);
	chan_notify(ch, true);
	ch->nb_held--;
	memmove(&ch->held[i], &ch->held[i + 1], (ch->nb_held - i) * sizeof(ch->held[0]));
	if (ch->opts.invalid == LEAT_CHANNEL_INVALID_SKIP)
		return 0;
	give_back(ch, i);
	return chan_corrupt(ch, "header of a frame", pos);
}

/* Read a held frame's header, once, since it may change meanwhile. @return whether it is valid */
static bool
open_frame(const struct leat_channel *ch, const struct chan_held *held,
	   struct leat_channel_frame *f)
{
	volatile struct chan_header *h = chan_frame(ch, held->pos);

	f->data = (uint8_t *)chan_frame(ch, held->pos) + LEAT_CHANNEL_HEADER;
	f->len = h->len;
	f->type = h->type;
	f->hash = h->hash;
	f->redelivered = mark_tries(held->value);
	return f->len != 0 && f->type != 0 &&
	       (uint64_t)f->len + LEAT_CHANNEL_HEADER <= (uint64_t)mark_len(ch, held->value)
								 << CHAN_SHIFT;
}

/* Open the held frames from i on, of which one is invalid. @return as open_all() */
static int __attribute__((cold, noinline))
open_rest(struct leat_channel *ch, struct leat_channel_frame *frames, unsigned int i)
{
	while (i < ch->nb_held) {
		if (open_frame(ch, &ch->held[i], &frames[i]))
			i++;
		else if (drop_invalid(ch, i) < 0)
			return i > 0 ? (int)i : -EPROTO;
	}
	return (int)i;
}

/*
 * Pass the claimed frames to the caller. @return number of frames; 0: all were invalid and skipped;
 * -EPROTO: one was invalid, and none before it was valid
 */
static inline int
open_all(struct leat_channel *ch, struct leat_channel_frame *frames)
{
	unsigned int i, n = ch->nb_held;

	for (i = 0; i < n; i++) {
		if (__builtin_expect(!open_frame(ch, &ch->held[i], &frames[i]), 0))
			return open_rest(ch, frames, i);
	}
	return (int)n;
}

static bool
something_returned(const struct leat_channel *ch)
{
	/* acquire: pairs with the increment of the count, which follows the store of the mark */
	return atomic_load_explicit(&ch->block->returned, memory_order_acquire) !=
	       ch->returned_seen;
}

/*
 * Get the range of a search for RETURNED frames. *p: its begin, the position free, or the place at
 * which the last search for this count stopped. *r: its end, the position read.
 */
static int
search_begin(struct leat_channel *ch, uint64_t count, uint64_t *p, uint64_t *r)
{
	uint64_t f = atomic_load_explicit(&ch->block->free, memory_order_acquire);

	*r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
	/* read was loaded after free, so it can't be smaller. */
	if ((int64_t)(*r - f) < 0 || ((*r | f) & (CHAN_GRANULE - 1)) != 0)
		return chan_corrupt(ch, "free or read position", f);
	if (count != ch->search_count || (int64_t)(ch->search_at - f) < 0 ||
	    (int64_t)(*r - ch->search_at) < 0) {
		ch->search_count = count;
		ch->search_at = f;
	}
	*p = ch->search_at;
	return 0;
}

/*
 * Claim a RETURNED frame, which the position read has passed: a frame to be delivered again, or one
 * that was set aside and then committed. Such frames are rare. A participant that makes a frame
 * RETURNED increments the count `returned`. A reader that has found no such frame does not search
 * again until the count changes; a reader that has found one continues behind that frame, so one
 * walk finds all.
 * @return 1; 0: none; -EPROTO: the block is corrupt
 */
static int
claim_returned(struct leat_channel *ch, struct leat_channel_frame *f)
{
	uint64_t count = atomic_load_explicit(&ch->block->returned, memory_order_acquire);
	uint64_t p, r, m, now;
	uint32_t turn, granules;
	unsigned int n;
	int ret;

	ret = search_begin(ch, count, &p, &r);
	if (ret != 0)
		return ret;
	for (turn = 0; turn < ch->granules && (int64_t)(r - p) > 0; turn++) {
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		ch->looked++;
		if (!mark_is_at(ch, m, p)) {
			/*
			 * The granule was reused, so free is beyond it: all frames before
			 * free are read.
			 */
			now = atomic_load_explicit(&ch->block->free, memory_order_acquire);
			if ((int64_t)(now - p) <= 0)
				return chan_corrupt(ch, "no frame behind read", p);
			p = now;
			r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
			continue;
		}
		if (!mark_fits(ch, m, p))
			return chan_corrupt(ch, "length of a frame", p);
		if (mark_state(m) == CHAN_RETURNED) {
			/*
			 * The frame's writer may meanwhile have committed an earlier frame, which
			 * this search has passed: that earlier frame comes first.
			 */
			now = atomic_load_explicit(&ch->block->returned, memory_order_acquire);
			if (now != count) {
				count = now;
				ret = search_begin(ch, count, &p, &r);
				if (ret != 0)
					return ret;
				continue;
			}
			n = 1;
			granules = look_ahead(ch, p, m, &n);
			if (claim(ch, m, n, granules)) {
				ch->search_at = p;
				ret = open_all(ch, f);
				if (ret != 0)
					return ret;
			}
		}
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	ch->search_at = p;
	if ((int64_t)(r - p) <= 0)
		ch->returned_seen = count;
	return 0;
}

/*
 * Set the frame at read aside: it is RESERVED, and its writer is slow. This happens only when a
 * frame follows: then write is beyond this one, and read may move over it. The mark names no
 * reader, so this reader may die at any point. at_once: do not wait for the writer any longer,
 * since the reader is about to sleep and perhaps no writer wakes it for the frames that follow.
 * @return whether to look again
 */
static bool __attribute__((noinline))
set_aside(struct leat_channel *ch, uint64_t r, uint64_t m, bool at_once)
{
	uint64_t next = r + ((uint64_t)mark_len(ch, m) << CHAN_SHIFT), n;

	chan_stuck(ch, CHAN_AT_READ, r, m);
	if (!at_once && ch->stuck[CHAN_AT_READ].looks < CHAN_LOOKS)
		return false;
	/* acquire: pairs with take(), after write was moved there */
	n = atomic_load_explicit(chan_mark(ch, next), memory_order_acquire);
	if (!mark_is_at(ch, n, next) || mark_state(n) == CHAN_END)
		return false;
	/* acq_rel: pairs with chan_reclaim(), and publish_aside() */
	if (atomic_compare_exchange_strong_explicit(chan_mark(ch, r), &m, mark_to(m, CHAN_ASIDE),
						    memory_order_acq_rel, memory_order_relaxed))
		chan_pass(ch, r, m);
	return true;
}

/*
 * Claim frames at the read position. @return number of frames; 0: claim_returned() may find some;
 * -EAGAIN, -ESHUTDOWN, -EPROTO as leat_channel_peek()
 */
static int
claim_next(struct leat_channel *ch, struct leat_channel_frame *frames, unsigned int n)
{
	uint32_t turn, granules;
	unsigned int k;
	uint64_t r, m;
	int ret;

	for (turn = 0; turn < CHAN_TURNS; turn++) {
		/* acquire: pairs with chan_advance() */
		r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
		/* acquire: pairs with publish() */
		m = atomic_load_explicit(chan_mark(ch, r), memory_order_acquire);
		if (!mark_is_at(ch, m, r)) {
			if (r != atomic_load_explicit(&ch->block->read, memory_order_acquire))
				continue;
			if (__builtin_expect(r % CHAN_GRANULE != 0, 0))
				return chan_corrupt(ch, "read position", r);
			break;
		}
		if (mark_state(m) == CHAN_END)
			return -ESHUTDOWN;
		if (__builtin_expect(!mark_fits(ch, m, r) || r % CHAN_GRANULE != 0, 0))
			return chan_corrupt(ch, "length of a frame", r);
		if (mark_state(m) == CHAN_RESERVED) {
			if (!set_aside(ch, r, m, false))
				break;
			continue;
		}
		if (mark_state(m) != CHAN_COMMITTED) {
			if (mark_state(m) > CHAN_END)
				return chan_corrupt(ch, "state of a frame", r);
			chan_pass(ch, r, m);
			continue;
		}
		k = n;
		granules = look_ahead(ch, r, m, &k);
		/*
		 * Look for returned frames only after the marks were loaded. If a writer's earlier
		 * frame was set aside, it was counted before the writer committed these frames.
		 */
		if (__builtin_expect(something_returned(ch), 0))
			return 0;
		if (!claim(ch, m, k, granules))
			continue;
		chan_advance(ch, &ch->block->read, r, granules);
		ret = open_all(ch, frames);
		if (__builtin_expect(ret != 0, 1))
			return ret;
	}
	return something_returned(ch) ? 0 : -EAGAIN;
}

enum behind {
	BEHIND_NOTHING = 0, /* all frames are read */
	BEHIND_RETURNED,    /* a frame that is to be read */
	BEHIND_HELD,	    /* a frame of another participant, which may be returned */
};

/*
 * Look for unfinished frames that read has passed, when read has reached the END: no writer can
 * reserve a frame any more, so no granule is reused meanwhile. *held: for BEHIND_HELD, the position
 * of the held frame.
 * @return enum behind; -EPROTO: the block is corrupt
 */
static int
look_behind(struct leat_channel *ch, uint64_t *held)
{
	uint64_t p = atomic_load_explicit(&ch->block->free, memory_order_acquire), r, m;
	int found = BEHIND_NOTHING;
	uint32_t turn;

	r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
	for (turn = 0; turn < ch->granules && (int64_t)(r - p) > 0; turn++) {
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, m, p) || !mark_fits(ch, m, p))
			return chan_corrupt(ch, "length of a frame", p);
		/*
		 * The participant that returned the frame may have died before it incremented the
		 * count: let the search go back to this frame.
		 */
		if (mark_state(m) == CHAN_RETURNED) {
			ch->search_at = p;
			return BEHIND_RETURNED;
		}
		/* Do not wait for frames that this handle holds: that would last for ever. */
		if (found == BEHIND_NOTHING &&
		    (mark_state(m) == CHAN_ASIDE ||
		     (mark_state(m) == CHAN_READING && mark_owner(m) != ch->slot))) {
			*held = p;
			found = BEHIND_HELD;
		}
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	/* A frame that was held when this walk passed it may have been returned since. */
	return something_returned(ch) ? BEHIND_RETURNED : found;
}

/*
 * The position `read` has reached the END, so no new frame follows. But frames that it has passed
 * may still have to be read: frames set aside because their writers were slow, and frames of
 * readers that may die. @return 1: claim_returned() may find such a frame; 0: wait for one;
 * -ESHUTDOWN: all frames are read; -EPROTO: the block is corrupt
 */
static int
at_end(struct leat_channel *ch)
{
	uint64_t held = 0;
	int ret;

	ch->ended = true;
	ret = look_behind(ch, &held);
	if (ret == BEHIND_HELD && chan_held_up(ch, CHAN_AT_END, held)) {
		ret = leat_channel_recover(ch);
		if (ret >= 0)
			ret = look_behind(ch, &held);
	}
	if (ret < 0)
		return ret;
	if (ret == BEHIND_NOTHING)
		return chan_err(ESHUTDOWN, "channel: terminated");
	return ret == BEHIND_RETURNED;
}

int
chan_ready(struct leat_channel *ch, bool sleepy)
{
	uint32_t turn;
	uint64_t r, m;

	for (turn = 0; turn < CHAN_TURNS; turn++) {
		if (something_returned(ch))
			return 1;
		r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
		m = atomic_load_explicit(chan_mark(ch, r), memory_order_acquire);
		if (!mark_is_at(ch, m, r)) {
			if (r != atomic_load_explicit(&ch->block->read, memory_order_acquire))
				continue;
			return r % CHAN_GRANULE == 0 ? 0 : chan_corrupt(ch, "read position", r);
		}
		if (mark_state(m) == CHAN_END)
			return at_end(ch);
		if (!mark_fits(ch, m, r))
			return chan_corrupt(ch, "length of a frame", r);
		if (mark_state(m) == CHAN_COMMITTED)
			return 1;
		if (mark_state(m) > CHAN_END)
			return chan_corrupt(ch, "state of a frame", r);
		if (mark_state(m) != CHAN_RESERVED)
			chan_pass(ch, r, m);
		else if (!set_aside(ch, r, m, sleepy))
			return 0;
	}
	return 0;
}

int
leat_channel_peek(struct leat_channel *ch, struct leat_channel_frame *frames, unsigned int n)
{
	uint32_t turn;
	int ret;

	if (__builtin_expect(ch->broken, 0))
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	if (__builtin_expect(ch->nb_held != 0, 0))
		return chan_err(EBUSY, "channel: %u frames are held already", ch->nb_held);
	if (__builtin_expect(n == 0 || n > CHAN_BURST, 0))
		return chan_err(EINVAL, "channel: %u frames at once, 1 to %d", n, CHAN_BURST);
	if (__builtin_expect(chan_tick(ch) < 0, 0))
		return -EPROTO;
	for (turn = 0; turn < CHAN_LOOKS; turn++) {
		ret = claim_next(ch, frames, n);
		if (ret == -ESHUTDOWN) {
			ret = at_end(ch);
			if (ret == 0)
				return -EAGAIN;
			ret = ret > 0 ? 0 : ret;
		}
		if (__builtin_expect(ret == 0, 0))
			ret = claim_returned(ch, frames);
		if (__builtin_expect(ret != 0, 1))
			return ret;
	}
	return -EAGAIN;
}

/* Was the file truncated? Then payload that was read may be zeros, from the replacement mapping. */
static inline bool
is_truncated(const struct leat_channel *ch)
{
	return atomic_load_explicit(&ch->map->truncated, memory_order_relaxed);
}

int
leat_channel_consume(struct leat_channel *ch)
{
	unsigned int i, n = ch->nb_held;
	bool notify = ch->notify != LEAT_CHANNEL_NOTIFY_NONE;

	if (n == 0)
		return chan_err(EINVAL, "channel: consume without a frame");
	if (__builtin_expect(ch->joint_mark != 0, 1)) {
		release(ch, ch->held[0].pos, ch->joint_mark, notify);
		ch->joint_mark = 0;
	} else {
		for (i = 0; i < n; i++)
			release(ch, ch->held[i].pos, ch->held[i].value, notify && i == n - 1);
	}
	ch->nb_held = 0;
	if (__builtin_expect(is_truncated(ch), 0))
		return chan_corrupt(ch, "its memory", 0);
	chan_count(ch, LEAT_CHANNEL_RECEIVED, n);
	chan_notify(ch, true);
	return 0;
}

int
leat_channel_consume_some(struct leat_channel *ch, unsigned int n)
{
	unsigned int i;

	if (n >= ch->nb_held)
		return leat_channel_consume(ch);
	if (n == 0)
		return chan_err(EINVAL, "channel: consume no frame");
	split(ch);
	for (i = 0; i < n; i++)
		release(ch, ch->held[i].pos, ch->held[i].value, i == n - 1);
	ch->nb_held -= n;
	memmove(&ch->held[0], &ch->held[n], ch->nb_held * sizeof(ch->held[0]));
	if (is_truncated(ch))
		return chan_corrupt(ch, "its memory", 0);
	chan_count(ch, LEAT_CHANNEL_RECEIVED, n);
	chan_notify(ch, true);
	return 0;
}

int
leat_channel_held(const struct leat_channel *ch, struct leat_channel_frame *frames, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n && i < ch->nb_held; i++) {
		if (!open_frame(ch, &ch->held[i], &frames[i]))
			return chan_err(EPROTO, "channel: the header of a frame in hand changed");
	}
	return (int)ch->nb_held;
}

int
leat_channel_give_back(struct leat_channel *ch)
{
	if (ch->nb_held == 0)
		return chan_err(EINVAL, "channel: give back without a frame");
	give_back(ch, 0);
	return 0;
}

int
leat_channel_recv_frame(struct leat_channel *ch, void *buf, uint32_t size,
			struct leat_channel_frame *frame)
{
	int ret = leat_channel_peek(ch, frame, 1);

	if (ret < 0)
		return ret;
	if (frame->len > size) {
		frame->data = NULL;
		give_back(ch, 0);
		return chan_err(EMSGSIZE, "channel: a frame of %u bytes, room for %u", frame->len,
				size);
	}
	memcpy(buf, frame->data, frame->len);
	frame->data = buf;
	ret = leat_channel_consume(ch);
	return ret < 0 ? ret : (int)frame->len;
}

int
leat_channel_recv(struct leat_channel *ch, void *buf, uint32_t size, uint32_t *type, uint64_t *hash)
{
	struct leat_channel_frame f;
	int ret = leat_channel_recv_frame(ch, buf, size, &f);

	if (ret < 0)
		return ret;
	if (type != NULL)
		*type = f.type;
	if (hash != NULL)
		*hash = f.hash;
	return ret;
}

int
leat_channel_settle(struct leat_channel *ch, bool reservation, const void *good,
		    const void *outcome, ...)
{
	if (ch == NULL)
		return chan_err(EINVAL, "channel: settle: no frames or reservation are held");
	if (reservation)
		return outcome == good ? leat_channel_commit(ch) : leat_channel_abort(ch);
	return outcome == good ? leat_channel_consume(ch) : leat_channel_give_back(ch);
}

int
leat_channel_dispatch(struct leat_channel *ch, unsigned int n, leat_channel_fn fn, void *arg)
{
	struct leat_channel_frame frames[CHAN_BURST];
	int i, got, ret = 0;

	got = leat_channel_peek(ch, frames, n);
	for (i = 0; i < got; i++) {
		ret = fn(arg, &frames[i]);
		if (ret != 0)
			break;
	}
	if (got <= 0)
		return got;
	if (i < got)
		give_back(ch, (unsigned int)i);
	if (i > 0 && leat_channel_consume(ch) < 0)
		return -EPROTO;
	return i > 0 ? i : ret;
}
