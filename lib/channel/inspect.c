/* SPDX-License-Identifier: BSD-3-Clause */

/* Inspection of a channel from outside, which changes nothing. */

#include "channel_pvt.h"

/* Count the frames at p: a reader may have claimed several as one, with the other marks inside. */
static uint32_t
frames_in(const struct leat_channel *ch, uint64_t p, uint64_t m)
{
	uint32_t i, n = 1, len = mark_fits(ch, m, p) ? mark_len(ch, m) : 0;
	uint64_t in;

	for (i = 1; i < len; i++) {
		p += CHAN_GRANULE;
		in = atomic_load_explicit(chan_mark(ch, p), memory_order_relaxed);
		n += mark_is_at(ch, in, p);
	}
	return n;
}

static void
count_frames(const struct leat_channel *ch, struct leat_channel_info *info)
{
	uint64_t p = info->free, m;
	uint32_t turn;

	for (turn = 0; turn <= ch->granules; turn++) {
		m = atomic_load_explicit(chan_mark(ch, p), memory_order_acquire);
		/* p is beyond the last frame, or the granule was reused meanwhile. */
		if (!mark_is_at(ch, m, p))
			return;
		switch (mark_state(m)) {
		case CHAN_RESERVED:
		case CHAN_ASIDE:
			info->reserved++;
			break;
		case CHAN_COMMITTED:
			info->committed++;
			break;
		case CHAN_READING:
			info->reading += frames_in(ch, p, m);
			break;
		case CHAN_RETURNED:
			info->returned++;
			break;
		case CHAN_DONE:
			info->done += frames_in(ch, p, m);
			break;
		case CHAN_EMPTY:
			info->empty++;
			break;
		case CHAN_END:
			info->ended = true;
			return;
		default:
			return;
		}
		if (!mark_fits(ch, m, p))
			return;
		p += (uint64_t)mark_len(ch, m) << CHAN_SHIFT;
	}
}

static void
look_at_slot(const struct leat_channel *ch, struct leat_channel_info *info, uint32_t i)
{
	const struct chan_slot *s = &ch->block->slots[i];
	uint64_t owner = atomic_load_explicit(&s->owner, memory_order_acquire), n;
	struct leat_channel_who *w = &info->who[info->participants];
	unsigned int k;

	*w = (struct leat_channel_who){
		.slot = i,
		.pid = (int32_t)(owner & OWNER_PID_MASK),
		.start = chan_owner_start(ch, i, owner),
		.generation = atomic_load_explicit(&s->generation, memory_order_relaxed),
		.alive = owner != 0 && chan_alive(ch, i, owner),
		.waiting =
			((atomic_load_explicit(&ch->block->data.sleepers, memory_order_relaxed) |
			  atomic_load_explicit(&ch->block->room.sleepers, memory_order_relaxed)) >>
				 i &
			 1) != 0,
	};
	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++) {
		n = atomic_load_explicit(&s->count[k], memory_order_relaxed);
		w->count[k] = n - atomic_load_explicit(&s->before[k], memory_order_relaxed);
		info->count[k] += n;
	}
	if (owner != 0)
		info->participants++;
}

int
leat_channel_inspect(const struct leat_channel *ch, struct leat_channel_info *info)
{
	unsigned int k;
	uint32_t i;
	int ret;

	memset(info, 0, sizeof(*info));
	info->size = ch->size;
	info->bytes = (uint64_t)(ch->data - (uint8_t *)ch->block) + ch->size;
	info->notify = ch->notify;
	info->on_death = ch->on_death;
	info->participants_max = ch->participants;
	ret = chan_positions(ch, &info->write, &info->read, &info->free);
	if (ret != 0)
		return ret;
	count_frames(ch, info);
	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++)
		info->count[k] = atomic_load_explicit(&ch->block->count[k], memory_order_relaxed);
	for (i = 0; i < ch->participants; i++)
		look_at_slot(ch, info, i);
	/*
	 * look_at_slot() fills an entry before it knows whether the slot is taken: clear the rest.
	 */
	for (i = info->participants; i < LEAT_CHANNEL_PARTICIPANTS_MAX; i++)
		memset(&info->who[i], 0, sizeof(info->who[i]));
	return 0;
}
