/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reading.
 *
 *     claim     mark at read: COMMITTED -> READING by me
 *               read: over it. Anyone may do this step, also for a dead reader
 *     process
 *     consume   READING -> DONE; writers move free over it
 *
 * A reader looks at the marks alone: those say in one word whether there is a frame, whose it is and how long.
 * The header is read after the mark that publishes it, once, and checked against it.
 */

#include "channel_pvt.h"

/* Marks that lie one behind the other are looked at before the first is claimed: their data comes meanwhile. */
static unsigned int
look_ahead(struct leat_channel *ch, uint64_t r, uint64_t m, unsigned int n, uint64_t *pos,
	   uint64_t *marks)
{
	unsigned int k = 0;
	uint64_t p = r;

	for (;;) {
		/* Only a hint: an m out of date fails when it is claimed. */
		if (!mark_fits(ch, m, p))
			break;
		__builtin_prefetch(chan_frame(ch, p));
		pos[k] = p;
		marks[k] = m;
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
		if (++k == n)
			break;
		/* acquire: pairs with publish(); this load is the one its header is read after */
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, m, p) || mark_state(m) != CHAN_COMMITTED)
			break;
	}
	return k;
}

static bool
claim(struct leat_channel *ch, uint64_t pos, uint64_t m)
{
	uint64_t value = (m & ~(UINT64_C(63) << MARK_OWNER_SHIFT | MARK_STATE)) |
			 (uint64_t)ch->slot << MARK_OWNER_SHIFT | CHAN_READING;
	struct chan_held *h = &ch->held[ch->nb_held];

	/* acquire: the frame; release: pairs with those who help read over it */
	if (!atomic_compare_exchange_strong_explicit(chan_mark(ch, pos), &m, value,
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	h->pos = pos;
	h->value = value;
	ch->nb_held++;
	return true;
}

static void
release(struct leat_channel *ch, unsigned int i)
{
	/* release: nothing of the frame is touched after it; pairs with chan_reclaim() */
	atomic_store_explicit(chan_mark(ch, ch->held[i].pos), mark_to(ch->held[i].value, CHAN_DONE),
			      memory_order_release);
}

/* The same with a read-modify-write, for chan_notify(). */
static void
release_last(struct leat_channel *ch, unsigned int i)
{
	if (ch->notify == LEAT_CHANNEL_NOTIFY_NONE)
		release(ch, i);
	else
		(void)atomic_exchange_explicit(chan_mark(ch, ch->held[i].pos),
					       mark_to(ch->held[i].value, CHAN_DONE),
					       memory_order_acq_rel);
}

/* Takes what was claimed last to the caller. 1; 0: it was skipped; -EPROTO */
static int
open_frame(struct leat_channel *ch, uint64_t pos, struct leat_channel_frame *f)
{
	struct chan_held *held = &ch->held[ch->nb_held - 1];
	volatile struct chan_header *h = chan_frame(ch, pos);
	uint32_t len, type;
	uint64_t hash;

	/* Once: they may change under us. */
	len = h->len;
	type = h->type;
	hash = h->hash;
	if (__builtin_expect(len == 0 || type == 0 ||
				     (uint64_t)len + LEAT_CHANNEL_HEADER >
					     (uint64_t)mark_len(ch, held->value) << CHAN_SHIFT,
			     0)) {
		chan_count(ch, LEAT_CHANNEL_INVALID, 1);
		release(ch, --ch->nb_held);
		if (ch->opts.invalid == LEAT_CHANNEL_INVALID_SKIP)
			return 0;
		return chan_corrupt(ch, "header of a frame", pos);
	}
	*f = (struct leat_channel_frame){
		.data = ch->data + (pos & (ch->size - 1)) + LEAT_CHANNEL_HEADER,
		.len = len,
		.type = type,
		.hash = hash,
	};
	return 1;
}

static bool
something_returned(const struct leat_channel *ch)
{
	/* acquire: pairs with the count's increment, which follows the mark */
	return atomic_load_explicit(&ch->block->returned, memory_order_acquire) !=
	       ch->returned_seen;
}

/*
 * A frame behind the read position: to be delivered again, or set aside and then committed. 1, 0: none, -EPROTO.
 * They are rare: whoever makes one counts up, and who has seen the count and found none need not look again.
 */
static int
claim_returned(struct leat_channel *ch, struct leat_channel_frame *f)
{
	uint64_t count = atomic_load_explicit(&ch->block->returned, memory_order_acquire);
	uint64_t p = atomic_load_explicit(&ch->block->free, memory_order_acquire), r, m, now;
	uint32_t turn;
	int ret;

	r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
	for (turn = 0; turn < ch->granules && p != r; turn++) {
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, m, p)) {
			/* Reused meanwhile: everything up to free is read. */
			p = atomic_load_explicit(&ch->block->free, memory_order_acquire);
			r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
			continue;
		}
		if (!mark_fits(ch, m, p))
			return chan_corrupt(ch, "length of a frame", p);
		if (mark_state(m) == CHAN_RETURNED) {
			/* Its writer may have committed one meanwhile that we have gone past: that one comes first. */
			now = atomic_load_explicit(&ch->block->returned, memory_order_acquire);
			if (now != count) {
				count = now;
				p = atomic_load_explicit(&ch->block->free, memory_order_acquire);
				r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
				continue;
			}
			if (claim(ch, p, m)) {
				ret = open_frame(ch, p, f);
				if (ret != 0)
					return ret;
			}
		}
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	if (p == r)
		ch->returned_seen = count;
	return 0;
}

/*
 * The frame at read is RESERVED, by a writer that is slow. When something lies behind it, it is set aside: then
 * write is beyond it, and read may go. Nothing of ours is in the mark, so we may die at any point of this. at_once:
 * we are about to sleep, and nobody may wake us for what is behind. @return whether to look again
 */
static bool __attribute__((noinline))
set_aside(struct leat_channel *ch, uint64_t r, uint64_t m, bool at_once)
{
	uint64_t next = r + ((uint64_t)mark_len(ch, m) << CHAN_SHIFT), n;

	chan_stuck(ch, r, m);
	if (!at_once && ch->stuck_looks < CHAN_LOOKS)
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

/* The frames at the read position. Count; 0: look for one that was returned; -EAGAIN, -ESHUTDOWN, -EPROTO */
static int
claim_next(struct leat_channel *ch, struct leat_channel_frame *frames, unsigned int n)
{
	uint64_t pos[CHAN_BURST], marks[CHAN_BURST], r, m;
	unsigned int i, k, got = 0;
	uint32_t turn;
	int ret = 0;

	for (turn = 0; turn < CHAN_TURNS; turn++) {
		/* acquire: pairs with chan_advance() */
		r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
		/* acquire: pairs with publish() */
		m = atomic_load_explicit(chan_mark(ch, r), memory_order_acquire);
		if (!mark_is_at(ch, m, r)) {
			if (r != atomic_load_explicit(&ch->block->read, memory_order_acquire))
				continue;
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
			chan_pass(ch, r, m);
			continue;
		}
		k = look_ahead(ch, r, m, n, pos, marks);
		/*
		 * After the marks: an earlier frame of the same writer, which was set aside, was counted before
		 * these were committed.
		 */
		if (__builtin_expect(something_returned(ch), 0))
			return 0;
		for (i = 0; i < k && ret >= 0 && claim(ch, pos[i], marks[i]); i++) {
			ret = open_frame(ch, pos[i], &frames[got]);
			if (ret > 0)
				got++;
		}
		/*
		 * Over all that was claimed, in one step. If somebody else helped it over the first of them, it
		 * is helped over the others, too.
		 */
		if (i > 0)
			chan_advance(ch, &ch->block->read, r,
				     (uint32_t)((pos[i - 1] - r) >> CHAN_SHIFT) +
					     mark_len(ch, marks[i - 1]));
		if (got > 0)
			return (int)got;
		if (ret < 0)
			return ret;
	}
	return something_returned(ch) ? 0 : -EAGAIN;
}

/*
 * Nothing comes at read any more, but what lies behind it may: of dead hands, or set aside. Nothing is reserved
 * after the END, so these marks stay. 1: look for one that was returned, 0: wait, -ESHUTDOWN, -EPROTO
 */
static int
at_end(struct leat_channel *ch)
{
	bool aside = false;
	uint64_t p, r, m;
	uint32_t turn;
	int ret;

	ret = leat_channel_recover(ch);
	if (ret < 0)
		return ret;
	p = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	r = atomic_load_explicit(&ch->block->read, memory_order_acquire);
	for (turn = 0; turn < ch->granules && p != r; turn++) {
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		if (!mark_is_at(ch, m, p) || !mark_fits(ch, m, p))
			return chan_corrupt(ch, "length of a frame", p);
		/* Its writer may not have come to count. */
		if (mark_state(m) == CHAN_RETURNED)
			return 1;
		aside |= mark_state(m) == CHAN_ASIDE;
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
	/* What was set aside when we came by it may have been committed since. */
	if (something_returned(ch))
		return 1;
	return aside ? 0 : chan_err(ESHUTDOWN, "channel: terminated");
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
			if (r == atomic_load_explicit(&ch->block->read, memory_order_acquire))
				return 0;
			continue;
		}
		if (mark_state(m) == CHAN_END)
			return at_end(ch);
		if (!mark_fits(ch, m, r))
			return chan_corrupt(ch, "length of a frame", r);
		if (mark_state(m) == CHAN_COMMITTED)
			return 1;
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
		return chan_err(EPROTO, "channel: corrupt, as was said before");
	if (__builtin_expect(ch->nb_held != 0, 0))
		return chan_err(EBUSY, "channel: %u frames are held already", ch->nb_held);
	if (__builtin_expect(n == 0 || n > CHAN_BURST, 0))
		return chan_err(EINVAL, "channel: %u frames at once, 1 to %d", n, CHAN_BURST);
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

int
leat_channel_consume(struct leat_channel *ch)
{
	unsigned int i;

	if (ch->nb_held == 0)
		return chan_err(EINVAL, "channel: consume without a frame");
	for (i = 0; i + 1 < ch->nb_held; i++)
		release(ch, i);
	release_last(ch, i);
	chan_count(ch, LEAT_CHANNEL_RECEIVED, ch->nb_held);
	ch->nb_held = 0;
	chan_notify(ch, true);
	return 0;
}

static void
give_back(struct leat_channel *ch, unsigned int from)
{
	unsigned int i;

	for (i = from; i < ch->nb_held; i++)
		(void)chan_put_back(ch, ch->held[i].pos, ch->held[i].value, false);
	ch->nb_held = from;
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
leat_channel_recv(struct leat_channel *ch, void *buf, uint32_t size, uint32_t *type, uint64_t *hash)
{
	struct leat_channel_frame f;
	int ret;

	ret = leat_channel_peek(ch, &f, 1);
	if (ret < 0)
		return ret;
	if (f.len > size) {
		give_back(ch, 0);
		return chan_err(EMSGSIZE, "channel: a frame of %u bytes, room for %u", f.len, size);
	}
	memcpy(buf, f.data, f.len);
	if (type != NULL)
		*type = f.type;
	if (hash != NULL)
		*hash = f.hash;
	ret = leat_channel_consume(ch);
	return ret < 0 ? ret : (int)f.len;
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
	if (i > 0)
		(void)leat_channel_consume(ch);
	return i > 0 ? i : ret;
}
