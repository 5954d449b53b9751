/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reading.
 *
 *     claim     mark at read: COMMITTED -> READING by me
 *               read: over it. Anyone may do this step, also for a dead reader
 *     process
 *     consume   READING -> DONE; writers move free over it
 *
 * Several are claimed as one, and are one until they are consumed; if it comes to something else, each gets back
 * its own mark.
 *
 * A reader looks at the marks alone: those say in one word whether there is a frame, whose it is and how long.
 * The header is read after the mark that publishes it, once, and checked against it.
 */

#include "channel_pvt.h"

/*
 * Frames that lie one behind the other, in one lap. Their data comes while the marks are looked at.
 * @return granules of all n of them
 */
static uint32_t
look_ahead(struct leat_channel *ch, uint64_t r, uint64_t m, unsigned int *n)
{
	uint64_t p = r, end = (r | (ch->size - 1)) + 1;
	unsigned int k, max = *n;

	/* Each mark says where the next one is, but they lie close together. */
	for (k = 8; k < max; k += 8)
		__builtin_prefetch((const void *)chan_mark(ch, r + k * CHAN_GRANULE));
	k = 0;
	do {
		__builtin_prefetch(chan_frame(ch, p));
		ch->held[k].pos = p;
		/* As it is when we have it alone. */
		ch->held[k].value = (m & ~(UINT64_C(63) << MARK_OWNER_SHIFT | MARK_STATE)) |
				    (uint64_t)ch->slot << MARK_OWNER_SHIFT | CHAN_READING;
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
		if (++k == max || p == end)
			break;
		/* acquire: pairs with publish(); its header is read after this load */
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
	} while (mark_is_at(ch, m, p) && mark_state(m) == CHAN_COMMITTED && mark_fits(ch, m, p));
	*n = k;
	return (uint32_t)((p - r) >> CHAN_SHIFT);
}

/*
 * Takes what look_ahead() found with one compare-and-swap, of the first one's mark: it becomes that of all of them,
 * and the other ones' are inside of it, where nobody looks. m: what it was
 */
static bool
claim(struct leat_channel *ch, uint64_t m, unsigned int n, uint32_t granules)
{
	uint64_t value = mark_resize(ch, ch->held[0].value, granules);

	/* acquire: the frame; release: pairs with those who help read over it */
	if (!atomic_compare_exchange_strong_explicit(chan_mark(ch, ch->held[0].pos), &m, value,
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	ch->nb_held = n;
	ch->joined = n > 1 ? value : 0;
	return true;
}

/* Each of them has its own mark again. The first one's comes last: until then, they are inside of it. */
static void
split(struct leat_channel *ch)
{
	unsigned int i;

	if (ch->joined == 0)
		return;
	for (i = 1; i < ch->nb_held; i++)
		atomic_store_explicit(chan_mark(ch, ch->held[i].pos), ch->held[i].value,
				      memory_order_relaxed);
	/* release: the others */
	atomic_store_explicit(chan_mark(ch, ch->held[0].pos), ch->held[0].value,
			      memory_order_release);
	ch->joined = 0;
}

static void
release(struct leat_channel *ch, uint64_t pos, uint64_t value, bool notify)
{
	/* release: nothing of the frame is touched after it; pairs with chan_reclaim() */
	if (!notify)
		atomic_store_explicit(chan_mark(ch, pos), mark_to(value, CHAN_DONE),
				      memory_order_release);
	else
		/* A read-modify-write for chan_notify(). */
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

/* The header of what we hold as ith can't be. 0: it was dropped; -EPROTO, and those behind it were given back */
static int __attribute__((cold, noinline)) drop_invalid(struct leat_channel *ch, unsigned int i)
{
	uint64_t pos = ch->held[i].pos;

	split(ch);
	chan_count(ch, LEAT_CHANNEL_INVALID, 1);
	release(ch, pos, ch->held[i].value, false);
	ch->nb_held--;
	memmove(&ch->held[i], &ch->held[i + 1], (ch->nb_held - i) * sizeof(ch->held[0]));
	if (ch->opts.invalid == LEAT_CHANNEL_INVALID_SKIP)
		return 0;
	give_back(ch, i);
	return chan_corrupt(ch, "header of a frame", pos);
}

/* Is what lies there, and is ours, a frame? Its header may change under us: it is read once. */
static bool
open_frame(struct leat_channel *ch, const struct chan_held *held, struct leat_channel_frame *f)
{
	volatile struct chan_header *h = chan_frame(ch, held->pos);

	f->data = (uint8_t *)chan_frame(ch, held->pos) + LEAT_CHANNEL_HEADER;
	f->len = h->len;
	f->type = h->type;
	f->hash = h->hash;
	return f->len != 0 && f->type != 0 &&
	       (uint64_t)f->len + LEAT_CHANNEL_HEADER <= (uint64_t)mark_len(ch, held->value)
								 << CHAN_SHIFT;
}

/* What was claimed, to the caller. Count, 0: all were invalid, -EPROTO: so was one, and none before it was not */
static int
open_all(struct leat_channel *ch, struct leat_channel_frame *frames)
{
	unsigned int i = 0;

	while (i < ch->nb_held) {
		if (__builtin_expect(open_frame(ch, &ch->held[i], &frames[i]), 1))
			i++;
		else if (drop_invalid(ch, i) < 0)
			return i > 0 ? (int)i : -EPROTO;
	}
	return (int)i;
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
	uint32_t turn, granules;
	unsigned int n;
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
			n = 1;
			granules = look_ahead(ch, p, m, &n);
			if (claim(ch, m, n, granules)) {
				ret = open_all(ch, f);
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
		k = n;
		granules = look_ahead(ch, r, m, &k);
		/*
		 * After the marks: an earlier frame of the same writer, which was set aside, was counted before
		 * these were committed.
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
	unsigned int i, n = ch->nb_held;
	bool notify = ch->notify != LEAT_CHANNEL_NOTIFY_NONE;

	if (n == 0)
		return chan_err(EINVAL, "channel: consume without a frame");
	if (ch->joined != 0) {
		release(ch, ch->held[0].pos, ch->joined, notify);
		ch->joined = 0;
	} else {
		for (i = 0; i < n; i++)
			release(ch, ch->held[i].pos, ch->held[i].value, notify && i == n - 1);
	}
	ch->nb_held = 0;
	chan_count(ch, LEAT_CHANNEL_RECEIVED, n);
	chan_notify(ch, true);
	return 0;
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
