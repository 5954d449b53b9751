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
#include <sys/types.h>

#include "leat_channel.h"

#define CHAN_MAGIC UINT64_C(0x316c6e6843746c65)
#define CHAN_VERSION 2
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

/*
 * A participant. The word `owner` is the participant's whole identity, so that taking a slot is
 * one compare-and-swap: who.c has the two kinds.
 */
struct chan_slot {
	_Alignas(CHAN_LINE) _Atomic uint64_t owner; /* 0: free */
	_Atomic uint32_t generation;
	_Atomic uint64_t count[LEAT_CHANNEL_COUNTERS]; /* the owner's to write; all owners' */
	/* What the owner says of its process: valid if described equals the word owner. */
	_Atomic uint64_t described;
	_Atomic uint64_t start;
	_Atomic uint64_t pid_ns;
	_Atomic uint64_t time_ns;
	_Atomic uint64_t before[LEAT_CHANNEL_COUNTERS]; /* what count was when the owner came */
};

#define WHO_PID_BITS 22 /* Linux has no more */
#define WHO_PID_MASK ((UINT64_C(1) << WHO_PID_BITS) - 1)

/* The namespaces that a pid and a start time are of: inodes, as /proc has them. pid 0: not known */
struct chan_ns {
	uint64_t pid;
	uint64_t time; /* 0: the kernel has none */
};

/*
 * What attached, so that the child of a fork is told from it, also one that is number 1 of a pid
 * namespace again.
 */
struct chan_process {
	pid_t pid;
	unsigned int nb_forks;
};

struct chan_wait {
	_Alignas(CHAN_LINE) _Atomic uint64_t sleepers; /* bit n: slot n sleeps, or is about to */
	_Atomic uint32_t seq;			       /* the futex */
};

struct chan_block {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t participants;
	uint64_t size;
	uint64_t bytes;
	uint32_t notify;
	uint32_t on_death;
	/* The creator's, as struct chan_ns. */
	uint64_t pid_ns;
	uint64_t time_ns;

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
_Static_assert(offsetof(struct chan_slot, before) <= CHAN_LINE,
	       "a slot's counters are on its first lines");
_Static_assert(sizeof(struct chan_slot) == 2 * CHAN_LINE, "a slot is two pairs of lines");
_Static_assert(sizeof(struct chan_header) == LEAT_CHANNEL_HEADER, "as the public header says");

/* What is mapped: shared by the handles of a process that came from one another. */
struct chan_map {
	atomic_uint refs;
	void *mem; /* NULL: the caller's */
	uint64_t bytes;
	int fd; /* the file, or -1; another process may have a copy, so nothing is locked by it */
	char *name;		/* of shared memory, or NULL */
	struct entry *guard;	/* guard.c; NULL: it can't shrink */
	_Atomic bool truncated; /* its file was cut off: nothing of the block is there */
	/* Of NOTIFY_EVENTFD: each participant's, by slot. */
	_Atomic uint32_t nb_efd; /* as many as there may be participants; 0: none */
	int efd[LEAT_CHANNEL_PARTICIPANTS_MAX];
};

/* A reader's frame. */
struct chan_held {
	uint64_t pos;
	uint64_t value; /* CHAN_READING, ours, as its own mark */
};

/*
 * What holds a handle up: the frame at read, the one at free, one that is held when all else is
 * read.
 */
enum chan_cause { CHAN_AT_READ = 0, CHAN_AT_FREE, CHAN_AT_END, CHAN_CAUSES };

struct chan_stuck {
	uint64_t at;
	uint32_t looks;
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
	uint64_t owner; /* what is in it */
	void *lock;	/* the mapping that keeps its lock, or NULL: it is known by its pid */
	struct chan_process process;
	bool broken; /* the block is corrupt */
	bool ended;  /* the END was seen at read, where it stays */

	/* Writer. */
	uint64_t free_seen; /* an older value of free, good enough while there is room */
	uint64_t read_seen; /* of read: free may go up to it; readers write it all the time */
	uint64_t res_pos;
	uint64_t res_value; /* 0: nothing is reserved */

	/* Reader. */
	uint64_t returned_seen;
	/* claim_returned(): of this count, it has been looked up to search_at */
	uint64_t search_count;
	uint64_t search_at;
	/* The first one's mark, if it is that of all, also of one alone; 0: each has its own. */
	uint64_t joined;
	unsigned int nb_held;
	struct chan_held held[CHAN_BURST];

	uint64_t looked; /* recovery: at marks, to tell what it costs */

	/*
	 * The frame that holds this handle up, and how often it looked: one for each cause, since
	 * one handle may have all in turn.
	 */
	struct chan_stuck stuck[CHAN_CAUSES];
	/* When to look for the dead; the clock is looked at in every so many calls. */
	uint64_t check_at;
	uint64_t ticked_at;
	uint32_t tick_in;
	uint32_t tick_every;

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

/*
 * A line that is to be written comes, and no other CPU has it any more. (The compiler's own would
 * only have it read.)
 */
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
 * Help a position over the frame that lies at it. The loser found it moved on: it never goes back,
 * so an old value never comes again. Release: a reader of the position sees the mark that let it go
 * on.
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
/* The same, and its value is -err: readers and checkers of the caller see that it is not 0. */
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
/* What must hold at any moment, as far as a few looks say it. 0, -EPROTO: the handle is broken */
int chan_check(struct leat_channel *ch);
struct leat_channel *chan_attach(struct chan_map *map, void *mem, uint64_t bytes,
				 const struct leat_channel_opts *opts);

/* ---- lock.c ---- */
void chan_process_self(struct chan_process *p);
/* Not: we are in the child of a fork. */
bool chan_process_is_self(const struct chan_process *p);

/* ---- who.c ---- */
struct chan_ns chan_ns_self(void);
/* Are both known, and the same? */
bool chan_ns_same(struct chan_ns a, struct chan_ns b);
/* The start time of this process. 0, -errno */
int chan_start_self(uint64_t *start);
/* The words for a slot that is to be taken; for the lock's holder, or by the pid. */
uint64_t chan_who_locked(struct leat_channel *ch, uint32_t slot);
uint64_t chan_who_by_pid(struct leat_channel *ch, uint32_t slot, uint64_t start);
void chan_who_describe(struct leat_channel *ch);
/* When its process was started, in ticks after boot; 0: not known */
uint64_t chan_who_start(const struct leat_channel *ch, uint32_t slot, uint64_t owner);
/*
 * May the participant with this identity in its slot still run? Only what is certainly dead is
 * dead.
 */
bool chan_alive(const struct leat_channel *ch, uint32_t slot, uint64_t owner);

/* ---- slot.c ---- */
int chan_slot_take(struct leat_channel *ch);
bool chan_slot_claim(struct leat_channel *ch, uint32_t slot, uint64_t owner);
void chan_slot_leave(struct leat_channel *ch);

/* ---- recover.c ---- */
/* Puts in order what slot left, if its owner is dead. @return 1, 0: it lives, is free, -errno */
int chan_recover_slot(struct leat_channel *ch, uint32_t slot);
/* The frame at pos keeps us from going on. @return whether to ask now if its owner lives */
bool chan_held_up(struct leat_channel *ch, enum chan_cause cause, uint64_t pos);
/* Likewise, and asks: it is in the hands of m's owner. */
void chan_stuck(struct leat_channel *ch, enum chan_cause cause, uint64_t pos, uint64_t m);
/* What chan_tick() does once in a while. 1: it found dead ones, 0, -EPROTO */
int chan_tick_clock(struct leat_channel *ch) __attribute__((cold));

/*
 * In each call that does not wait: a caller that polls, and one that always finds something, looks
 * for the dead by time, too. The clock is not looked at in each call, if there are many.
 */
static inline int
chan_tick(struct leat_channel *ch)
{
	return __builtin_expect(--ch->tick_in == 0, 0) ? chan_tick_clock(ch) : 0;
}

/* Moves read beyond pos, up to which nothing is to be taken. @return false: the block is corrupt */
bool chan_pass_beyond(struct leat_channel *ch, uint64_t pos);
/* A frame that is READING goes to others, or is dropped: drop, or too often. @return whether we did it */
bool chan_put_back(struct leat_channel *ch, uint64_t pos, uint64_t m, bool drop);

/* ---- arm.c ---- */
/* Participants in event loops are told. bits: of their slots */
void chan_wake_loops(struct leat_channel *ch, uint64_t bits);

/* ---- wait.c ---- */
uint64_t chan_now_ns(void);
/* When a time ends that begins now. */
static inline uint64_t
chan_end_ns(uint64_t now, uint64_t timeout_ns)
{
	return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

void chan_wake(struct leat_channel *ch, bool room, bool always);

/*
 * Frames were committed, or room was made, by a read-modify-write just before. A full fence between that and the
 * look at the waiters pairs with the one in wait.c; on x86 the locked instruction is one.
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
	if (__builtin_expect(atomic_load_explicit(&w->sleepers, memory_order_relaxed) != 0, 0))
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
/* Is there something to take? sleepy: the caller is about to sleep. 1, 0, -ESHUTDOWN, -EPROTO */
int chan_ready(struct leat_channel *ch, bool sleepy);

#endif /* CHANNEL_PVT_H */
