/* SPDX-License-Identifier: BSD-3-Clause */

/* The block: its layout, the checks before anything in it is used, and attach and close. */

#include <stdlib.h>

#include "channel_pvt.h"
#include "map.h"

#define SIZE_DEFAULT (UINT64_C(1) << 20)
#define CHECK_MS_DEFAULT 10
#define CHECK_MS_MAX 60000

struct layout {
	uint64_t size;
	uint32_t participants;
	uint64_t marks, data, bytes; /* offsets */
};

static bool
layout(struct layout *l, uint64_t size, uint32_t participants)
{
	if (size < LEAT_CHANNEL_SIZE_MIN || size > LEAT_CHANNEL_SIZE_MAX ||
	    (size & (size - 1)) != 0 || participants == 0 ||
	    participants > LEAT_CHANNEL_PARTICIPANTS_MAX)
		return false;
	l->size = size;
	l->participants = participants;
	l->marks = sizeof(struct chan_block) + participants * sizeof(struct chan_slot);
	l->data = l->marks + (size >> CHAN_SHIFT) * sizeof(uint64_t);
	l->bytes = l->data + size;
	return true;
}

static bool
layout_of_conf(struct layout *l, const struct leat_channel_conf *conf)
{
	static const struct leat_channel_conf none;

	if (conf == NULL)
		conf = &none;
	return conf->start % CHAN_GRANULE == 0 && conf->notify <= LEAT_CHANNEL_NOTIFY_EVENTFD &&
	       conf->on_death <= LEAT_CHANNEL_DROP &&
	       layout(l, conf->size != 0 ? conf->size : SIZE_DEFAULT,
		      conf->participants != 0 ? conf->participants : LEAT_CHANNEL_PARTICIPANTS_MAX);
}

uint64_t
leat_channel_bytes(const struct leat_channel_conf *conf)
{
	struct layout l;

	return layout_of_conf(&l, conf) ? l.bytes : 0;
}

static void
point(struct leat_channel *ch, void *mem, const struct layout *l)
{
	ch->block = mem;
	ch->marks = (_Atomic uint64_t *)((uint8_t *)mem + l->marks);
	ch->data = (uint8_t *)mem + l->data;
	ch->size = l->size;
	ch->granules = (uint32_t)(l->size >> CHAN_SHIFT);
	ch->max = (uint32_t)(l->size / 2 - LEAT_CHANNEL_HEADER);
	ch->lap_mask = -l->size << (MARK_LEN_SHIFT - CHAN_SHIFT);
	ch->participants = l->participants;
}

int
leat_channel_format(void *mem, uint64_t bytes, const struct leat_channel_conf *conf)
{
	struct leat_channel ch = { 0 };
	struct chan_ns ns = chan_ns_self();
	struct chan_block *b = mem;
	struct layout l;
	uint32_t i;

	if (!layout_of_conf(&l, conf))
		return chan_err(
			EINVAL,
			"channel format: size, participants, policies or start are out of range");
	if ((uintptr_t)mem % CHAN_LINE != 0)
		return chan_err(EINVAL, "channel format: memory is not aligned to %d bytes",
				CHAN_LINE);
	if (bytes < l.bytes)
		return chan_err(ENOSPC, "channel format: %llu bytes, %llu are needed",
				(unsigned long long)bytes, (unsigned long long)l.bytes);
	point(&ch, mem, &l);
	memset(mem, 0, l.marks);
	b->version = CHAN_VERSION;
	b->participants = l.participants;
	b->size = l.size;
	b->bytes = l.bytes;
	b->pid_ns = ns.pid;
	b->time_ns = ns.time;
	if (conf != NULL) {
		b->notify = conf->notify;
		b->on_death = conf->on_death;
		b->write = b->read = b->free = conf->start;
	}
	/* All granules are free: their marks have the lap before the first lap. */
	for (i = 0; i < ch.granules; i++)
		atomic_store_explicit(&ch.marks[i], chan_lap(&ch, b->write - l.size),
				      memory_order_relaxed);
	/* release: publishes the whole head; pairs with chan_view() */
	atomic_store_explicit(&b->magic, CHAN_MAGIC, memory_order_release);
	return 0;
}

int
chan_view(struct leat_channel *ch, void *mem, uint64_t bytes)
{
	const volatile struct chan_block *b = mem;
	struct layout l;
	uint64_t magic;

	if ((uintptr_t)mem % CHAN_LINE != 0)
		return chan_err(EINVAL, "channel: memory is not aligned to %d bytes", CHAN_LINE);
	if (bytes < sizeof(struct chan_block))
		return chan_err(bytes == 0 ? EAGAIN : EPROTO,
				"channel: %llu bytes, not even its head; is it being made?",
				(unsigned long long)bytes);
	/* acquire: pairs with leat_channel_format() */
	magic = atomic_load_explicit(&((struct chan_block *)mem)->magic, memory_order_acquire);
	if (magic == 0)
		return chan_err(EAGAIN, "channel: not ready; it is being made, or its maker died");
	if (magic != CHAN_MAGIC)
		return chan_err(EPROTO, "channel: not a channel: magic %#llx",
				(unsigned long long)magic);
	if (b->version != CHAN_VERSION)
		return chan_err(EPROTO, "channel: version %u, this library has %u", b->version,
				CHAN_VERSION);
	if (!layout(&l, b->size, b->participants) || b->bytes != l.bytes || bytes < l.bytes)
		return chan_err(
			EPROTO,
			"channel: sizes are wrong: buffer %llu, participants %u, %llu bytes",
			(unsigned long long)b->size, b->participants, (unsigned long long)bytes);
	ch->notify = b->notify;
	ch->on_death = b->on_death;
	if (ch->notify > LEAT_CHANNEL_NOTIFY_EVENTFD || ch->on_death > LEAT_CHANNEL_DROP)
		return chan_err(EPROTO, "channel: policies %u, %u that this library does not know",
				ch->notify, ch->on_death);
	point(ch, mem, &l);
	return 0;
}

int
chan_positions(const struct leat_channel *ch, uint64_t *write, uint64_t *read, uint64_t *free)
{
	/* Positions only grow, so with this order of loads each comparison below must hold. */
	uint64_t w = atomic_load_explicit(&ch->block->write, memory_order_acquire);

	*free = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	*read = atomic_load_explicit(&ch->block->read, memory_order_acquire);
	*write = atomic_load_explicit(&ch->block->write, memory_order_acquire);
	if (((w | *free | *read | *write) & (CHAN_GRANULE - 1)) != 0 ||
	    (int64_t)(*read - *free) < 0 || (int64_t)(*write - *read) < 0 ||
	    (int64_t)(w - *free) >= (int64_t)ch->size)
		return chan_err(EPROTO,
				"channel: positions that can't be: write %llu read %llu free %llu",
				(unsigned long long)*write, (unsigned long long)*read,
				(unsigned long long)*free);
	return 0;
}

/*
 * Tell whether no frame lies at a position, although frames lie beyond it: then the block is
 * corrupt. It is no gap if the position was moved meanwhile.
 */
static bool
is_gap(const struct leat_channel *ch, uint64_t pos, const _Atomic uint64_t *position)
{
	uint64_t m = atomic_load_explicit(chan_mark(ch, pos), memory_order_acquire);

	return !mark_is_at(ch, m, pos) &&
	       atomic_load_explicit(position, memory_order_acquire) == pos;
}

int
chan_check(struct leat_channel *ch)
{
	uint64_t w, r, f;

	/* A file that was truncated and grew again is all zeros. */
	if (atomic_load_explicit(&ch->block->magic, memory_order_relaxed) != CHAN_MAGIC)
		return chan_corrupt(ch, "head of the block", 0);
	if (chan_positions(ch, &w, &r, &f) != 0) {
		ch->broken = true;
		return -EPROTO;
	}
	if (f != r && is_gap(ch, f, &ch->block->free))
		return chan_corrupt(ch, "no frame at free", f);
	if (r != w && is_gap(ch, r, &ch->block->read))
		return chan_corrupt(ch, "no frame at read", r);
	return 0;
}

#ifdef CHAN_DEBUG
void
chan_check_positions(struct leat_channel *ch)
{
	uint64_t w, r, f;

	if (chan_positions(ch, &w, &r, &f) != 0)
		ch->broken = true;
}
#endif

static bool
opts_ok(const struct leat_channel_opts *opts)
{
	return opts->full <= LEAT_CHANNEL_FULL_DROP_OLDEST &&
	       opts->wait <= LEAT_CHANNEL_WAIT_SLEEP &&
	       opts->invalid <= LEAT_CHANNEL_INVALID_SKIP && opts->check_ms <= CHECK_MS_MAX;
}

/* Let the participant's counters begin at 0: the slot's totals have its earlier owners' counts. */
static void
count_from_here(struct leat_channel *ch)
{
	struct chan_slot *s = &ch->block->slots[ch->slot];
	unsigned int k;

	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++)
		atomic_store_explicit(&s->before[k],
				      atomic_load_explicit(&s->count[k], memory_order_relaxed),
				      memory_order_relaxed);
}

/* On success the handle takes over one of the caller's references to the map. */
struct leat_channel *
chan_attach(struct chan_map *map, void *mem, uint64_t bytes, const struct leat_channel_opts *opts)
{
	static const struct leat_channel_opts none;
	struct leat_channel *ch;
	uint64_t w, r, f;

	if (opts == NULL)
		opts = &none;
	if (!opts_ok(opts)) {
		(void)chan_err(EINVAL, "channel: options out of range");
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (ch == NULL) {
		(void)chan_err(ENOMEM, "channel: can't allocate %zu bytes", sizeof(*ch));
		return NULL;
	}
	ch->opts = *opts;
	if (ch->opts.check_ms == 0)
		ch->opts.check_ms = CHECK_MS_DEFAULT;
	if (chan_view(ch, mem, bytes) != 0 || chan_positions(ch, &w, &r, &f) != 0)
		goto fail;
	ch->map = map;
	if (chan_slot_take(ch) != 0)
		goto fail;
	count_from_here(ch);
	ch->tick_in = ch->tick_every = 1;
	ch->free_seen = atomic_load_explicit(&ch->block->free, memory_order_acquire);
	ch->read_seen = ch->free_seen;
	ch->search_at = ch->free_seen;
	/* This handle must also find frames that were returned before it attached. */
	ch->returned_seen = atomic_load_explicit(&ch->block->returned, memory_order_acquire);
	if (ch->returned_seen > 0)
		ch->returned_seen--;
	/* Frames of dead participants may have waited for the next participant that attaches. */
	if (leat_channel_recover(ch) < 0) {
		chan_slot_leave(ch);
		goto fail;
	}
	return ch;
fail:
	free(ch);
	return NULL;
}

void
leat_channel_close(struct leat_channel *ch)
{
	if (ch == NULL)
		return;
	/* In the child of a fork the participant belongs to the parent: do not touch it. */
	if (chan_process_is_self(&ch->process)) {
		if (ch->res_value != 0)
			(void)leat_channel_abort(ch);
		if (ch->nb_held > 0)
			(void)leat_channel_give_back(ch);
		chan_slot_leave(ch);
	}
	chan_map_put(ch->map);
	free(ch);
}
