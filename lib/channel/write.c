/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Writing.
 *
 *     reserve   mark at write: (that of an older lap) -> RESERVED by this writer, with the length
 *               write: moved over it. Any participant may do this step, also for a dead writer
 *     fill
 *     commit    RESERVED -> COMMITTED; or, if readers have passed it, ASIDE -> RETURNED
 *
 * The compare-and-swap of the first step takes the region and stores its length at once, so a
 * region never has an owner without a known length.
 */

#include "channel_pvt.h"

/*
 * How far ahead marks and data are prefetched for writing, in bytes of the position: BURST_AHEAD
 * counts from the start of each frame of a burst, the others from the end of a reserved frame.
 * Lines farther ahead are in use by readers.
 */
#define MARKS_AHEAD (8 * CHAN_GRANULE)
#define DATA_AHEAD CHAN_GRANULE
#define BURST_AHEAD (16 * CHAN_GRANULE)

/*
 * Store the current lap in the marks inside of a frame: no mark stays more than a lap behind, so
 * the lap number may have fewer bits than a position.
 */
static void
stamp(struct leat_channel *ch, uint64_t pos, uint32_t granules)
{
	_Atomic uint64_t *mark = chan_mark(ch, pos);
	uint64_t value = chan_lap(ch, pos);
	uint32_t i;

	for (i = 1; i < granules; i++)
		atomic_store_explicit(&mark[i], value, memory_order_relaxed);
}

/*
 * Reserve the region at w, whose mark was loaded as seen.
 * @return false: another participant was faster
 */
static bool
take(struct leat_channel *ch, uint64_t w, uint64_t seen, uint32_t granules)
{
	uint64_t value = mark_make(ch, w, granules, ch->slot, CHAN_RESERVED);

	/*
	 * release: pairs with participants that move write over it. A mark of an older lap never
	 * comes again, so a writer that slept meanwhile, for however many laps, fails.
	 */
	if (!atomic_compare_exchange_strong_explicit(chan_mark(ch, w), &seen, value,
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	chan_advance(ch, &ch->block->write, w, granules);
	return true;
}

/*
 * Mark the frames of a burst RETURNED, except the first. Readers see these marks only after the
 * first one is stored.
 */
static void
return_inner(struct leat_channel *ch, uint64_t pos, const struct leat_channel_frame *frames,
	     unsigned int n)
{
	uint32_t g = chan_frame_granules(frames[0].len);
	unsigned int i;

	for (i = 1; i < n; i++) {
		pos += (uint64_t)g << CHAN_SHIFT;
		g = chan_frame_granules(frames[i].len);
		/* relaxed: published with the first mark */
		atomic_store_explicit(chan_mark(ch, pos),
				      mark_make(ch, pos, g, ch->slot, CHAN_RETURNED),
				      memory_order_relaxed);
	}
}

/*
 * Publish a reservation that readers have passed; seen is its mark now. When the count `returned`
 * has changed, readers search the frames before the position read. So read must be beyond this
 * frame by then: the reader that set the frame aside may have died before it moved read.
 */
static int __attribute__((cold, noinline))
publish_aside(struct leat_channel *ch, uint64_t pos, uint64_t seen, uint64_t reserved, uint64_t to,
	      const struct leat_channel_frame *frames, unsigned int n)
{
	if (seen != mark_to(reserved, CHAN_ASIDE))
		return chan_corrupt(ch, "mark of a reservation", pos);
	if (mark_state(to) == CHAN_COMMITTED) {
		if (!chan_pass_beyond(ch, pos))
			return -EPROTO;
		if (n > 1)
			return_inner(ch, pos, frames, n);
		to = mark_to(to, CHAN_RETURNED);
	}
	/*
	 * Only the owner changes the mark now. release: as in publish(). A read-modify-write, since
	 * chan_notify() must follow one.
	 */
	(void)atomic_exchange_explicit(chan_mark(ch, pos), to, memory_order_acq_rel);
	/* Count after the mark was stored: a reader that has seen the count finds the frame. */
	if (mark_state(to) == CHAN_RETURNED)
		atomic_fetch_add_explicit(&ch->block->returned, 1, memory_order_release);
	return 0;
}

/*
 * Change the RESERVED mark at pos to `to`. n: number of frames in the reservation; 0: it becomes
 * EMPTY. frames: these frames, if n > 1.
 * @return 0; -EPROTO: the block is corrupt
 */
static int
publish(struct leat_channel *ch, uint64_t pos, uint64_t reserved, uint64_t to,
	const struct leat_channel_frame *frames, unsigned int n)
{
	uint64_t seen = reserved;
	int ret;

	/* release: publishes header, payload, inner marks; pairs with the loads in read.c */
	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(chan_mark(ch, pos), &seen, to,
								      memory_order_acq_rel,
								      memory_order_acquire),
			     0)) {
		ret = publish_aside(ch, pos, seen, reserved, to, frames, n);
		if (ret != 0)
			return ret;
	}
	if (n > 0)
		chan_count(ch, LEAT_CHANNEL_SENT, n);
	else
		chan_notify(ch, true);
	chan_notify(ch, false);
	return 0;
}

/* Reserve this many granules. @return 0; -EAGAIN, -ESHUTDOWN, -EPROTO as leat_channel_send() */
static int
reserve(struct leat_channel *ch, uint32_t granules, uint64_t *pos)
{
	uint32_t turn, left;
	uint64_t w, m;
	int ret;

	for (turn = 0; turn < CHAN_TURNS; turn++) {
		/*
		 * acquire: pairs with chan_advance(). Loads the mark at w, which may be a free one
		 * or the END, after write.
		 */
		w = atomic_load_explicit(&ch->block->write, memory_order_acquire);
		chan_prefetch_write(chan_mark(ch, w));
		chan_prefetch_write(chan_frame(ch, w));
		m = atomic_load_explicit(chan_mark(ch, w), memory_order_acquire);
		if (mark_is_at(ch, m, w)) {
			if (mark_state(m) == CHAN_END)
				return chan_err(ESHUTDOWN, "channel: terminated");
			if (!mark_fits(ch, m, w))
				return chan_corrupt(ch, "length of a frame", w);
			chan_advance(ch, &ch->block->write, w, mark_len(ch, m));
			continue;
		}
		/*
		 * Was write still w when m was loaded? If not, w is out of date and m perhaps of a
		 * later lap, and take() would replace it by a mark of an old lap. acquire: loads
		 * write after m.
		 */
		if (w != atomic_load_explicit(&ch->block->write, memory_order_acquire))
			continue;
		if (w % CHAN_GRANULE != 0)
			return chan_corrupt(ch, "write position", w);
		left = ch->granules - chan_index(ch, w);
		ret = chan_room_at(ch, w, left < granules ? left : granules);
		if (ret < 0)
			return ret;
		if (ret == 0) {
			if (w != atomic_load_explicit(&ch->block->write, memory_order_relaxed))
				continue;
			return -EAGAIN;
		}
		if (left < granules) {
			/*
			 * Fill up to the buffer's end with an empty frame; the next turn begins a
			 * lap. The frame becomes EMPTY only after its inner marks are stamped.
			 * Otherwise other participants could free it, and reserve its granules
			 * again, before the marks are stamped.
			 */
			if (take(ch, w, m, left)) {
				stamp(ch, w, left);
				m = mark_make(ch, w, left, ch->slot, CHAN_RESERVED);
				ret = publish(ch, w, m, mark_to(m, CHAN_EMPTY), NULL, 0);
				if (ret != 0)
					return ret;
			}
			continue;
		}
		if (take(ch, w, m, granules)) {
			stamp(ch, w, granules);
			*pos = w;
			w += (uint64_t)granules << CHAN_SHIFT;
			chan_prefetch_write(chan_mark(ch, w + MARKS_AHEAD));
			chan_prefetch_write(chan_frame(ch, w + DATA_AHEAD));
			return 0;
		}
	}
	return -EAGAIN;
}

/*
 * Act on a full channel, as the policy says. end: time at which the whole call stops waiting; 0:
 * the call has not waited yet. @return 0: try again; other values are final
 */
static int
handle_full(struct leat_channel *ch, uint32_t granules, uint32_t len, uint64_t *end)
{
	uint64_t now;
	int ret;

	chan_look_at_oldest(ch);
	switch (ch->opts.full) {
	case LEAT_CHANNEL_FULL_WAIT:
		now = chan_now_ns();
		if (*end == 0)
			*end = chan_end_ns(now, ch->opts.full_ns);
		else if (now >= *end)
			break;
		ret = leat_channel_wait_room(ch, len, *end - now);
		if (ret != -ETIMEDOUT)
			return ret;
		break;
	case LEAT_CHANNEL_FULL_DROP_OLDEST:
		ret = chan_drop_oldest(ch);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		/* Readers may have made room meanwhile. */
		ret = chan_room(ch, granules);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		break;
	case LEAT_CHANNEL_FULL_DROP_NEWEST:
		chan_count(ch, LEAT_CHANNEL_FULL, 1);
		return LEAT_CHANNEL_DROPPED;
	case LEAT_CHANNEL_FULL_FAIL:
		break;
	}
	chan_count(ch, LEAT_CHANNEL_FULL, 1);
	return -EAGAIN; /* no message: pollers get this often */
}

/*
 * Reserve when there was no room: act as the policy says, then try again. Out of line, so that the
 * path of a frame that finds room saves no registers for it.
 */
static int __attribute__((cold, noinline))
reserve_policy(struct leat_channel *ch, uint32_t granules, uint32_t len, uint64_t *pos,
	       uint64_t *end)
{
	uint32_t turn;
	int ret;

	for (turn = 0; turn < CHAN_TURNS; turn++) {
		ret = handle_full(ch, granules, len, end);
		if (ret != 0)
			return ret;
		ret = reserve(ch, granules, pos);
		if (ret != -EAGAIN)
			return ret;
	}
	return chan_err(EAGAIN, "channel: other writers won every race; try again");
}

static int __attribute__((cold, noinline))
refuse(const struct leat_channel *ch, uint32_t type, uint32_t len)
{
	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	if (ch->res_value != 0)
		return chan_err(EBUSY, "channel: a frame is reserved already");
	if (len == 0)
		return chan_err(EINVAL, "channel: a frame of no length");
	if (type == 0)
		return chan_err(EINVAL, "channel: type 0 is that of the empty frame");
	return chan_err(EMSGSIZE, "channel: a frame of %u bytes, at most %u", len, ch->max);
}

static inline int
check(const struct leat_channel *ch, uint32_t type, uint32_t len)
{
	if (__builtin_expect(
		    ch->broken || ch->res_value != 0 || type == 0 || len == 0 || len > ch->max, 0))
		return refuse(ch, type, len);
	return 0;
}

uint32_t
leat_channel_max(const struct leat_channel *ch)
{
	return ch->max;
}

/*
 * Reserve a frame and write its header. end: see handle_full(). @return 0, with its position, mark
 * and payload; or as leat_channel_send()
 */
static inline int
reserve_frame(struct leat_channel *ch, uint32_t type, uint64_t hash, uint32_t len, uint64_t *end,
	      uint64_t *pos, uint64_t *value, void **data)
{
	uint32_t granules = chan_frame_granules(len);
	struct chan_header *h;
	int ret;

	ret = check(ch, type, len);
	if (ret != 0)
		return ret;
	if (__builtin_expect(chan_tick(ch) < 0, 0))
		return -EPROTO;
	ret = reserve(ch, granules, pos);
	if (__builtin_expect(ret == -EAGAIN, 0))
		ret = reserve_policy(ch, granules, len, pos, end);
	if (__builtin_expect(ret != 0, 0))
		return ret;
	h = chan_frame(ch, *pos);
	*h = (struct chan_header){ .len = len, .type = type, .hash = hash };
	*value = mark_make(ch, *pos, granules, ch->slot, CHAN_RESERVED);
	*data = h + 1;
	return 0;
}

int
leat_channel_reserve(struct leat_channel *ch, uint32_t type, uint64_t hash, uint32_t len,
		     void **data)
{
	uint64_t pos, value, end = 0;
	int ret = reserve_frame(ch, type, hash, len, &end, &pos, &value, data);

	if (ret != 0)
		return ret;
	ch->res_pos = pos;
	ch->res_value = value;
	return 0;
}

bool
leat_channel_reserved(const struct leat_channel *ch)
{
	return ch->res_value != 0;
}

int
leat_channel_commit(struct leat_channel *ch)
{
	uint64_t value = ch->res_value;

	if (value == 0)
		return chan_err(EINVAL, "channel: commit without a reservation");
	ch->res_value = 0;
	return publish(ch, ch->res_pos, value, mark_to(value, CHAN_COMMITTED), NULL, 1);
}

int
leat_channel_abort(struct leat_channel *ch)
{
	uint64_t value = ch->res_value;

	if (value == 0)
		return chan_err(EINVAL, "channel: abort without a reservation");
	ch->res_value = 0;
	return publish(ch, ch->res_pos, value, mark_to(value, CHAN_EMPTY), NULL, 0);
}

/* Send one frame. end: see handle_full() */
static inline int
send_one(struct leat_channel *ch, uint32_t type, uint64_t hash, const void *data, uint32_t len,
	 uint64_t *end)
{
	uint64_t pos, value;
	void *to;
	int ret = reserve_frame(ch, type, hash, len, end, &pos, &value, &to);

	if (ret != 0)
		return ret;
	memcpy(to, data, len);
	return publish(ch, pos, value, mark_to(value, CHAN_COMMITTED), NULL, 1);
}

int
leat_channel_send(struct leat_channel *ch, uint32_t type, uint64_t hash, const void *data,
		  uint32_t len)
{
	uint64_t end = 0;

	return send_one(ch, type, hash, data, len, &end);
}

/*
 * Send several frames in one reservation. It is RESERVED as a whole, the marks of the inner frames
 * are written, and the first frame's mark, stored last, publishes all. The position write must be
 * beyond the whole reservation by then, or it could be moved over the first frame alone; take() has
 * moved it.
 */
static int
send_some(struct leat_channel *ch, const struct leat_channel_frame *frames, unsigned int n,
	  uint32_t granules)
{
	struct chan_header *h;
	uint64_t pos, p, m;
	unsigned int i;
	uint32_t g;
	int ret;

	if (__builtin_expect(chan_tick(ch) < 0, 0))
		return -EPROTO;
	ret = reserve(ch, granules, &pos);
	if (ret != 0)
		return ret;
	/* All these frames lie in one lap: their marks differ in the length only. */
	m = mark_make(ch, pos, 0, ch->slot, CHAN_COMMITTED);
	for (i = 0, p = pos; i < n; i++, p += (uint64_t)g << CHAN_SHIFT) {
		h = chan_frame(ch, p);
		chan_prefetch_write(chan_frame(ch, p + BURST_AHEAD));
		g = chan_frame_granules(frames[i].len);
		*h = (struct chan_header){ .len = frames[i].len,
					   .type = frames[i].type,
					   .hash = frames[i].hash };
		memcpy(h + 1, frames[i].data, frames[i].len);
		/* relaxed: published with the first mark */
		if (i > 0)
			atomic_store_explicit(chan_mark(ch, p), m | (uint64_t)g << MARK_LEN_SHIFT,
					      memory_order_relaxed);
	}
	return publish(ch, pos, mark_make(ch, pos, granules, ch->slot, CHAN_RESERVED),
		       m | (uint64_t)chan_frame_granules(frames[0].len) << MARK_LEN_SHIFT, frames,
		       n);
}

int
leat_channel_send_frames(struct leat_channel *ch, const struct leat_channel_frame *frames,
			 unsigned int n, struct leat_channel_sent *done)
{
	uint32_t granules, left;
	unsigned int sent, k;
	uint64_t end = 0;
	int ret = 0;

	*done = (struct leat_channel_sent){ 0 };
	for (sent = 0; sent < n; sent += k) {
		/*
		 * Count the frames that fit before the end of the buffer, and whose total length is
		 * allowed for one frame.
		 */
		left = ch->granules - chan_index(ch, atomic_load_explicit(&ch->block->write,
									  memory_order_relaxed));
		for (granules = 0, k = 0; sent + k < n; k++) {
			uint32_t g = chan_frame_granules(frames[sent + k].len);

			ret = check(ch, frames[sent + k].type, frames[sent + k].len);
			if (ret != 0 || granules + g > chan_full_max(ch) ||
			    (granules != 0 && granules + g > left))
				break;
			granules += g;
		}
		if (k > 1 && send_some(ch, &frames[sent], k, granules) == 0) {
			done->sent += k;
			continue;
		}
		if (k == 0)
			return ret;
		/* A single frame, or no room for all: send one by one, as the policy says. */
		k = 1;
		ret = send_one(ch, frames[sent].type, frames[sent].hash, frames[sent].data,
			       frames[sent].len, &end);
		if (ret < 0)
			return ret;
		if (ret == LEAT_CHANNEL_DROPPED)
			done->dropped++;
		else
			done->sent++;
	}
	return 0;
}

int
leat_channel_send_burst(struct leat_channel *ch, const struct leat_channel_frame *frames,
			unsigned int n)
{
	struct leat_channel_sent done;
	int ret = leat_channel_send_frames(ch, frames, n, &done);

	return done.sent + done.dropped > 0 ? (int)(done.sent + done.dropped) : ret;
}

int
leat_channel_terminate(struct leat_channel *ch)
{
	uint32_t turn;
	uint64_t w, m;

	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	for (turn = 0;; turn++) {
		if (turn == CHAN_TURNS)
			return chan_err(EAGAIN, "channel: other writers won every race; try again");
		w = atomic_load_explicit(&ch->block->write, memory_order_acquire);
		m = atomic_load_explicit(chan_mark(ch, w), memory_order_acquire);
		if (mark_is_at(ch, m, w)) {
			if (mark_state(m) == CHAN_END)
				break;
			if (!mark_fits(ch, m, w))
				return chan_corrupt(ch, "length of a frame", w);
			chan_advance(ch, &ch->block->write, w, mark_len(ch, m));
			continue;
		}
		/* As in reserve(): was m there while write was w? */
		if (w != atomic_load_explicit(&ch->block->write, memory_order_acquire))
			continue;
		if (atomic_compare_exchange_strong_explicit(
			    chan_mark(ch, w), &m, mark_make(ch, w, 0, ch->slot, CHAN_END),
			    memory_order_acq_rel, memory_order_relaxed))
			break;
	}
	/* Wake readers even if the END was there: its writer may have died before it woke them. */
	atomic_thread_fence(memory_order_seq_cst);
	chan_wake(ch, false, true);
	chan_wake(ch, true, true);
	return 0;
}
