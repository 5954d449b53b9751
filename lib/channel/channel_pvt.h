/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_PVT_H
#define CHANNEL_PVT_H

/*
 * The block:
 *
 *     | head | write | read | free | frames wanted | room wanted | slots | marks | data |
 *
 * The data is a ring of granules of 64 bytes. A frame is a run of them: a header of 16 bytes and the payload.
 * Each granule has a mark, a word in an array of its own, so that no payload can ever look like one. The
 * mark of a frame's first granule is the frame's state, and every change of hands is one compare-and-swap
 * of it:
 *
 *     lap (52 - s bits) | length in granules (s) | owner (6) | deliveries (2) | state (4)      s = log2(granules)
 *
 * What was before the lap at hand is free. The positions follow the marks; whoever comes by helps them on.
 * doc/guide/channel.md has the states, the edges and the proof.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "leat_channel.h"

#define CHAN_MAGIC UINT64_C(0x316c6e6843746c65)
#define CHAN_VERSION 1
#define CHAN_LINE 128 /* two cache lines: they are fetched in pairs */
#define CHAN_SHIFT 6
#define CHAN_GRANULE (1u << CHAN_SHIFT)
#define CHAN_BURST 64
/* A loop that others' progress may prolong ends after so many turns, also when the block lies. */
#define CHAN_TURNS 4096
/* Looks in vain at a frame that holds us up, before something is done about it. */
#define CHAN_LOOKS 64

enum chan_state {
	CHAN_FREE = 0,	/* nothing, or inside of a frame */
	CHAN_RESERVED,	/* the owner writes it */
	CHAN_ASIDE,	/* likewise, and readers have gone past it */
	CHAN_COMMITTED, /* to be read */
	CHAN_READING,	/* the owner reads it */
	CHAN_RETURNED,	/* to be read again, behind the read position */
	CHAN_DONE,	/* read */
	CHAN_EMPTY, /* type 0: a link to the buffer's begin, or a reservation that came to nothing */
	CHAN_END,   /* nothing comes after it */
};

#define MARK_STATE UINT64_C(15)
#define MARK_TRIES_SHIFT 4
#define MARK_OWNER_SHIFT 6
#define MARK_LEN_SHIFT 12

struct chan_header {
	uint32_t len;
	uint32_t type;
	uint64_t hash;
};

/* A participant. who is its whole identity, so that taking a slot is one compare-and-swap. */
struct chan_slot {
	_Alignas(CHAN_LINE) _Atomic uint64_t who; /* start time << 24 | pid; 0: free */
	_Atomic uint32_t generation;
	_Atomic uint64_t count[LEAT_CHANNEL_COUNTERS]; /* the owner's to write */
};

#define WHO_PID_BITS 24

struct chan_wait {
	_Alignas(CHAN_LINE) _Atomic uint64_t who; /* bit n: slot n sleeps, or is about to */
	_Atomic uint32_t seq;			  /* the futex */
};

struct chan_block {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t participants;
	uint64_t size;
	uint64_t bytes;
	uint32_t notify;
	uint32_t on_death;
	uint64_t pid_ns; /* inode of the creator's pid namespace; 0: not known */

	_Alignas(CHAN_LINE) _Atomic uint64_t write;
	_Alignas(CHAN_LINE) _Atomic uint64_t read;
	_Atomic uint64_t returned; /* counts: there may be frames to read behind the read position */
	_Alignas(CHAN_LINE) _Atomic uint64_t free;
	struct chan_wait data;
	struct chan_wait room;
	/* What is done for others, the dead, is counted here; what a participant does, in its slot. */
	_Alignas(CHAN_LINE) _Atomic uint64_t count[LEAT_CHANNEL_COUNTERS];
	struct chan_slot slots[];
};

_Static_assert(offsetof(struct chan_block, write) == CHAN_LINE, "write has its own lines");
_Static_assert(offsetof(struct chan_block, read) == 2 * CHAN_LINE, "read has its own lines");
_Static_assert(offsetof(struct chan_block, free) == 3 * CHAN_LINE, "free has its own lines");
_Static_assert(offsetof(struct chan_block, data) == 4 * CHAN_LINE, "data has its own lines");
_Static_assert(offsetof(struct chan_block, room) == 5 * CHAN_LINE, "room has its own lines");
_Static_assert(offsetof(struct chan_block, count) == 6 * CHAN_LINE, "count has its own lines");
_Static_assert(offsetof(struct chan_block, slots) == 7 * CHAN_LINE, "slots follow");
_Static_assert(sizeof(struct chan_slot) == CHAN_LINE, "a slot is a pair of lines");
_Static_assert(sizeof(struct chan_header) == LEAT_CHANNEL_HEADER, "as the public header says");

/* What is mapped: shared by the handles of a process that came from one another. */
struct chan_map {
	atomic_uint refs;
	void *mem; /* NULL: the caller's */
	uint64_t bytes;
	int fd;	    /* memfd, or -1 */
	int efd[2]; /* data, room, or -1 */
};

/* A reader's frame. */
struct chan_held {
	uint64_t pos;
	uint64_t value; /* CHAN_READING, ours, as its own mark */
};

struct leat_channel {
	struct chan_block *block;
	_Atomic uint64_t *marks;
	uint8_t *data;
	uint64_t size;
	uint32_t granules; /* size in granules, a power of two */
	uint32_t max;	   /* payload of a frame at most */
	uint64_t lap_mask; /* of a mark: the lap */
	uint32_t participants;
	enum leat_channel_notify notify;
	enum leat_channel_on_death on_death;
	struct leat_channel_opts opts;
	uint32_t slot;
	uint64_t who; /* what is in it */
	bool broken;  /* the block is corrupt */

	/* Writer. */
	uint64_t free_seen; /* an older value of free, good enough while there is room */
	uint64_t read_seen; /* of read: free may go up to it; readers write it all the time */
	uint64_t res_pos;
	uint64_t res_value; /* 0: nothing is reserved */

	/* Reader. */
	uint64_t returned_seen;
	uint64_t joined; /* the first one's mark, if it is that of all; 0: each has its own */
	unsigned int nb_held;
	struct chan_held held[CHAN_BURST];

	/* Who holds us up, and how often we looked. */
	uint64_t stuck_at;
	uint32_t stuck_looks;

	struct chan_map *map;
};

/* ---- marks ---- */

static inline uint64_t
chan_lap(const struct leat_channel *ch, uint64_t pos)
{
	/* Modulo the bits there are: of the position, what is above the size. */
	return pos << (MARK_LEN_SHIFT - CHAN_SHIFT) & ch->lap_mask;
}

static inline uint32_t
chan_index(const struct leat_channel *ch, uint64_t pos)
{
	return (uint32_t)(pos >> CHAN_SHIFT) & (ch->granules - 1);
}

static inline _Atomic uint64_t *
chan_mark(const struct leat_channel *ch, uint64_t pos)
{
	return &ch->marks[chan_index(ch, pos)];
}

static inline uint64_t
mark_make(const struct leat_channel *ch, uint64_t pos, uint32_t len, uint32_t owner,
	  enum chan_state state)
{
	return chan_lap(ch, pos) | (uint64_t)len << MARK_LEN_SHIFT |
	       (uint64_t)owner << MARK_OWNER_SHIFT | state;
}

/* Is it of this position's lap, and of a frame? Else the granule is free, or the position is out of date. */
static inline bool
mark_is_at(const struct leat_channel *ch, uint64_t m, uint64_t pos)
{
	return (m & ch->lap_mask) == chan_lap(ch, pos) && (m & MARK_STATE) != CHAN_FREE;
}

static inline enum chan_state
mark_state(uint64_t m)
{
	return (enum chan_state)(m & MARK_STATE);
}

static inline uint32_t
mark_owner(uint64_t m)
{
	return (uint32_t)(m >> MARK_OWNER_SHIFT) & 63;
}

static inline uint32_t
mark_tries(uint64_t m)
{
	return (uint32_t)(m >> MARK_TRIES_SHIFT) & 3;
}

static inline uint32_t
mark_len(const struct leat_channel *ch, uint64_t m)
{
	return (uint32_t)(m >> MARK_LEN_SHIFT) & (ch->granules - 1);
}

/* The same frame in another state: owner and, unless it is said, deliveries stay. */
static inline uint64_t
mark_to(uint64_t m, enum chan_state state)
{
	return (m & ~MARK_STATE) | state;
}

static inline uint64_t
mark_resize(const struct leat_channel *ch, uint64_t m, uint32_t len)
{
	return (m & ~((uint64_t)(ch->granules - 1) << MARK_LEN_SHIFT)) | (uint64_t)len
										 << MARK_LEN_SHIFT;
}

/* Can a frame of this length begin here? Everything else is corruption. */
static inline bool
mark_fits(const struct leat_channel *ch, uint64_t m, uint64_t pos)
{
	uint32_t len = mark_len(ch, m);

	return len != 0 && len <= ch->granules - chan_index(ch, pos);
}

static inline uint32_t
chan_frame_granules(uint32_t len)
{
	return (uint32_t)(((uint64_t)len + LEAT_CHANNEL_HEADER + CHAN_GRANULE - 1) >> CHAN_SHIFT);
}

static inline struct chan_header *
chan_frame(const struct leat_channel *ch, uint64_t pos)
{
	/* Aligned, also if a position lies. */
	return (struct chan_header *)(ch->data + (pos & (ch->size - CHAN_GRANULE)));
}

/* A line that is to be written comes, and nobody else has it any more. (The compiler's own would only have it read.) */
static inline void
chan_prefetch_write(const volatile void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const volatile char *)line));
#else
	__builtin_prefetch((const void *)line, 1);
#endif
}

#ifdef CHAN_DEBUG
/* Debug builds: free <= read <= write < free + size after each step of one of them, or the handle ends. */
void chan_check_positions(struct leat_channel *ch);
#endif

/*
 * Help a position over the frame that lies at it. Who loses found it moved on: it never goes back, so an old
 * value never comes again. Release: who sees the position sees the mark that let it go on.
 */
static inline void
chan_advance(struct leat_channel *ch, _Atomic uint64_t *position, uint64_t from, uint32_t granules)
{
	atomic_compare_exchange_strong_explicit(position, &from,
						from + ((uint64_t)granules << CHAN_SHIFT),
						memory_order_release, memory_order_relaxed);
#ifdef CHAN_DEBUG
	chan_check_positions(ch);
#else
	(void)ch;
#endif
}

/*
 * Help read over a frame that is not to be taken there: claimed, set aside, done, empty. An empty one may lie at write, if
 * its writer died, and read must not overtake write.
 */
static inline void
chan_pass(struct leat_channel *ch, uint64_t r, uint64_t m)
{
	if (mark_state(m) == CHAN_EMPTY)
		chan_advance(ch, &ch->block->write, r, mark_len(ch, m));
	chan_advance(ch, &ch->block->read, r, mark_len(ch, m));
}

static inline void
chan_count(struct leat_channel *ch, enum leat_channel_counter what, uint64_t n)
{
	_Atomic uint64_t *c = &ch->block->slots[ch->slot].count[what];

	/* One writer: no need for a locked instruction. */
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline uint32_t
chan_full_max(const struct leat_channel *ch)
{
	return ch->granules / 2;
}

/* ---- error.c ---- */
/* Sets the words and errno. */
void chan_set_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* The same, and its value is -err: who reads the caller, or checks it, sees that it is not 0. */
#define chan_err(err, ...) (chan_set_error((err), __VA_ARGS__), -(err))
/* The handle is at its end. -EPROTO */
void chan_set_corrupt(struct leat_channel *ch, const char *what, uint64_t pos)
	__attribute__((cold));
#define chan_corrupt(ch, what, pos) (chan_set_corrupt((ch), (what), (pos)), -EPROTO)

/* ---- block.c ---- */
/* Sizes and pointers of a block whose head was checked. */
int chan_view(struct leat_channel *ch, void *mem, uint64_t bytes);
/* free <= read <= write < free + size? */
int chan_positions(const struct leat_channel *ch, uint64_t *write, uint64_t *read, uint64_t *free);
struct leat_channel *chan_attach(struct chan_map *map, void *mem, uint64_t bytes,
				 const struct leat_channel_opts *opts);

/* ---- who.c ---- */
uint64_t chan_who_self(void);
uint64_t chan_pid_ns(void);
/* May this participant still run? Only what is certainly dead is dead. */
bool chan_alive(uint64_t who);

/* ---- recover.c ---- */
int chan_slot_take(struct leat_channel *ch);
/* Puts in order what slot left, if its owner is dead. @return 1, 0: it lives, is free, -errno */
int chan_recover_slot(struct leat_channel *ch, uint32_t slot);
/* The frame at pos, in the hands of m's owner, keeps us from going on. */
void chan_stuck(struct leat_channel *ch, uint64_t pos, uint64_t m);
/* Moves read beyond pos, up to which nothing is to be taken. @return false: the block is corrupt */
bool chan_pass_beyond(struct leat_channel *ch, uint64_t pos);
/* A frame that is READING goes to others, or is dropped: drop, or too often. @return whether we did it */
bool chan_put_back(struct leat_channel *ch, uint64_t pos, uint64_t m, bool drop);

/* ---- wait.c ---- */
void chan_wake(struct leat_channel *ch, bool room, bool always);

/*
 * Frames were committed, or room was made, by a read-modify-write just before. A full fence between that and the
 * look at who waits pairs with the one in wait.c; on x86 the locked instruction is one.
 */
static inline void
chan_notify(struct leat_channel *ch, bool room)
{
	struct chan_wait *w = room ? &ch->block->room : &ch->block->data;

	if (ch->notify == LEAT_CHANNEL_NOTIFY_NONE)
		return;
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
	if (__builtin_expect(atomic_load_explicit(&w->who, memory_order_relaxed) != 0, 0))
		chan_wake(ch, room, false);
}

/* ---- room.c ---- */
/* Move free over what has been read. 1: it moved, 0, -errno */
int chan_reclaim(struct leat_channel *ch);
/* Is there room for so many granules, as things stand? 1, 0, -errno */
int chan_room(struct leat_channel *ch, uint32_t granules);
/* The frame that keeps free where it is may be in dead hands. */
void chan_look_at_oldest(struct leat_channel *ch);
/* Throws the oldest frame away. 1; 0: nothing that makes room; -errno */
int chan_drop_oldest(struct leat_channel *ch);

/* Is there room at w? One granule stays free: write < free + size. 1, 0, -errno */
static inline int
chan_room_at(struct leat_channel *ch, uint64_t w, uint32_t granules)
{
	uint64_t need = (uint64_t)granules << CHAN_SHIFT;
	int ret;

	/* Beyond the size: free_seen is newer than w, which is then out of date and fails later. */
	if (__builtin_expect(w - ch->free_seen + need < ch->size, 1))
		return 1;
	ret = chan_reclaim(ch);
	if (ret < 0)
		return ret;
	return w - ch->free_seen + need < ch->size;
}

/* ---- read.c ---- */
/* Is there something to take? sleepy: who asks is about to sleep. 1, 0, -ESHUTDOWN, -EPROTO */
int chan_ready(struct leat_channel *ch, bool sleepy);

#endif /* CHANNEL_PVT_H */
