/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_PVT_H
#define CHANNEL_PVT_H

/*
 * The block:
 *
 *     | head | write | read | free | frames wanted | room wanted | slots | marks | data |
 *
 * The data is a ring of granules of 64 bytes. A frame is a run of granules: a header of 16 bytes
 * and the payload. Each granule has a mark, a word in an array apart from the data, so that no
 * payload can look like a mark. The mark of a frame's first granule holds the frame's state and
 * owner, and every change of these is one atomic operation on the mark:
 *
 *     lap (52 - s bits) | length in granules (s) | owner (6) | deliveries (2) | state (4)
 *
 *     s = log2(granules)
 *
 * A position counts bytes and only grows. Its lap is the number of rounds through the ring. A
 * granule whose mark has an older lap is free. Marks are changed first, and then the positions
 * are moved; any participant that finds a position which was not moved yet moves it.
 * doc/guide/channel.md has the states, the transitions and the proof.
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
#define CHAN_LINE 128 /* two cache lines: CPUs fetch them in pairs */
#define CHAN_SHIFT 6
#define CHAN_GRANULE (1u << CHAN_SHIFT)
#define CHAN_BURST 64
/*
 * Maximum number of turns of a loop that other participants' progress may prolong: the loop ends
 * even if the block is corrupt.
 */
#define CHAN_TURNS 4096
/* After this many looks at a frame that blocks it, a handle checks whether its owner lives. */
#define CHAN_LOOKS 64

enum chan_state {
	CHAN_FREE = 0,	/* free, or inside of a frame */
	CHAN_RESERVED,	/* the owner fills the frame */
	CHAN_ASIDE,	/* the owner still fills it; readers have passed it */
	CHAN_COMMITTED, /* ready to be read */
	CHAN_READING,	/* the owner reads the frame */
	/* given back or committed late: to be read, though the position read has passed it */
	CHAN_RETURNED,
	CHAN_DONE,  /* read */
	CHAN_EMPTY, /* type 0: filler up to the end of the buffer, or an aborted reservation */
	CHAN_END,   /* no frame follows */
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
 * one compare-and-swap. owner.c describes the two kinds of this word.
 */
struct chan_slot {
	_Alignas(CHAN_LINE) _Atomic uint64_t owner; /* 0: free */
	_Atomic uint32_t generation;
	_Atomic uint64_t count[LEAT_CHANNEL_COUNTERS]; /* totals of all owners so far */
	/* The owner's description of its process: valid if described equals owner. */
	_Atomic uint64_t described;
	_Atomic uint64_t start;
	_Atomic uint64_t pid_ns;
	_Atomic uint64_t time_ns;
	_Atomic uint64_t before[LEAT_CHANNEL_COUNTERS]; /* value of count when the owner attached */
};

#define OWNER_PID_BITS 22 /* a pid of Linux has 22 bits at most */
#define OWNER_PID_MASK ((UINT64_C(1) << OWNER_PID_BITS) - 1)

/* Namespaces of a pid and a start time: inode numbers from /proc. pid 0: unknown */
struct chan_ns {
	uint64_t pid;
	uint64_t time; /* 0: the kernel has no time namespaces */
};

/*
 * The process that attached. pid and nb_forks together distinguish it from a forked child, even
 * from a child with the same pid (both may have pid 1, each in its pid namespace).
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
	/* Namespaces of the creator, as in struct chan_ns. */
	uint64_t pid_ns;
	uint64_t time_ns;

	_Alignas(CHAN_LINE) _Atomic uint64_t write;
	_Alignas(CHAN_LINE) _Atomic uint64_t read;
	_Atomic uint64_t returned; /* grows after a frame became RETURNED: readers search for it */
	_Alignas(CHAN_LINE) _Atomic uint64_t free;
	struct chan_wait data;
	struct chan_wait room;
	/* ABORTED, RETURNED and LOST; the other counters are in the slots, one set for each. */
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

/* A mapping, shared by the handles of a process that were joined. */
struct chan_map {
	atomic_uint refs;
	void *mem; /* NULL: the caller's memory */
	uint64_t bytes;
	int fd;	    /* the file, or -1; never locked, as processes may share the description */
	char *name; /* name of shared memory, or NULL */
	struct entry *guard;	/* guard.c; NULL: the file can't shrink */
	_Atomic bool truncated; /* the file was truncated: the block is lost */
	/* Eventfds of NOTIFY_EVENTFD, by slot. */
	_Atomic uint32_t nb_efd; /* number of eventfds: one per participant; 0: none */
	int efd[LEAT_CHANNEL_PARTICIPANTS_MAX];
};

/* A frame that the reader holds. */
struct chan_held {
	uint64_t pos;
	uint64_t value; /* value of the frame's mark: CHAN_READING, owned by this handle */
};

/*
 * Which frame blocks a handle: the frame at read; the frame at free; a frame that another
 * participant holds when all other frames are read.
 */
enum chan_cause { CHAN_AT_READ = 0, CHAN_AT_FREE, CHAN_AT_END, CHAN_CAUSES };

/* The frame that blocks the handle, and how often the handle has looked at it. */
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
	uint32_t max;	   /* largest payload of a frame, bytes */
	uint64_t lap_mask; /* bits of a mark that hold the lap */
	uint32_t participants;
	enum leat_channel_notify notify;
	enum leat_channel_on_death on_death;
	struct leat_channel_opts opts;
	uint32_t slot;
	uint64_t owner; /* value of the slot's word `owner` while this handle owns the slot */
	void *lock;	/* mapping that keeps the slot's lock; NULL: identified by pid */
	struct chan_process process;
	bool broken; /* the block is corrupt */
	bool ended;  /* read has reached the END, where it stays */

	/* Writer. */
	uint64_t free_seen; /* copy of free, maybe out of date; used while it shows room */
	uint64_t read_seen; /* copy of read, which free must not pass; read changes often */
	uint64_t res_pos;
	uint64_t res_value; /* 0: nothing is reserved */

	/* Reader. */
	uint64_t returned_seen;
	/* Search of claim_returned(): value of `returned` at its begin; position it has reached. */
	uint64_t search_count;
	uint64_t search_at;
	/* Mark of the first held frame while it covers all held frames; 0: each has its own. */
	uint64_t joint_mark;
	unsigned int nb_held;
	struct chan_held held[CHAN_BURST];

	uint64_t looked; /* marks that recovery has looked at, to measure its cost */

	/* One for each cause: a handle may be blocked by all of them in turn. */
	struct chan_stuck stuck[CHAN_CAUSES];
	/* Checks for dead participants, see chan_tick(). */
	uint64_t check_at;   /* time of the next check, ns */
	uint64_t ticked_at;  /* time at which chan_tick() last read the clock, ns */
	uint32_t tick_in;    /* calls until chan_tick() reads the clock again */
	uint32_t tick_every; /* calls from one reading of the clock to the next */

	struct chan_map *map;
};

/* ---- marks ---- */

static inline uint64_t
chan_lap(const struct leat_channel *ch, uint64_t pos)
{
	/* The lap is pos / size; a mark has room for some of the lap's low bits. */
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

/*
 * Does the mark belong to this position's lap, and to a frame? If not, the granule is free or the
 * position is out of date.
 */
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

/* Change the state in a mark; owner and deliveries stay. */
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

/* Can a frame of this length begin here? If not, the block is corrupt. */
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
	/* This address is aligned and in range, even if the position is corrupt. */
	return (struct chan_header *)(ch->data + (pos & (ch->size - CHAN_GRANULE)));
}

/*
 * Fetch a cache line for writing, exclusively. (The compiler's prefetch would fetch it for reading
 * only.)
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
/* Debug builds: after each step, free <= read <= write < free + size, or the handle is broken. */
void chan_check_positions(struct leat_channel *ch);
#endif

/*
 * Move a position over the frame that lies at it. If the compare-and-swap fails another participant
 * has moved the position already: a position never goes back, so it never has an old value again.
 * Release: a participant that reads the position sees the mark that allowed this step.
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
 * Move read over a frame that a reader must not claim any more: it is claimed already, set aside,
 * done or empty. An empty frame may lie at write if its writer died; then write is moved first,
 * because read must not overtake it.
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

	/* This slot has one writer: no locked instruction is needed. */
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline uint32_t
chan_full_max(const struct leat_channel *ch)
{
	return ch->granules / 2;
}

/* ---- error.c ---- */
/* Set errno, and the words for leat_channel_error(). */
void chan_set_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* As chan_set_error(); the value is -err, so that compilers see that it is not 0. */
#define chan_err(err, ...) (chan_set_error((err), __VA_ARGS__), -(err))
/* Mark the handle broken, and set errno to EPROTO. */
void chan_set_corrupt(struct leat_channel *ch, const char *what, uint64_t pos)
	__attribute__((cold));
#define chan_corrupt(ch, what, pos) (chan_set_corrupt((ch), (what), (pos)), -EPROTO)

/* ---- block.c ---- */
/* Check the head of a block, and set the handle's sizes and pointers. @return 0, -errno */
int chan_view(struct leat_channel *ch, void *mem, uint64_t bytes);
/* Load the positions. @return 0; -EPROTO: not free <= read <= write < free + size */
int chan_positions(const struct leat_channel *ch, uint64_t *write, uint64_t *read, uint64_t *free);
/*
 * Check the block's invariants, as far as a few loads can. @return 0; -EPROTO: the handle is broken
 */
int chan_check(struct leat_channel *ch);
struct leat_channel *chan_attach(struct chan_map *map, void *mem, uint64_t bytes,
				 const struct leat_channel_opts *opts);

/* ---- lock.c ---- */
void chan_process_self(struct chan_process *p);
/* @return false: this process is a forked child of the one that attached */
bool chan_process_is_self(const struct chan_process *p);

/* ---- owner.c ---- */
struct chan_ns chan_ns_self(void);
/* Are the namespaces of a and b known, and the same? */
bool chan_ns_same(struct chan_ns a, struct chan_ns b);
/* Get the start time of this process. @return 0, -errno */
int chan_start_self(uint64_t *start);
/* Compose the word `owner` of a participant that is identified by its lock. */
uint64_t chan_owner_locked(struct leat_channel *ch, uint32_t slot);
/* Compose the word `owner` of a participant that is identified by its pid and start time. */
uint64_t chan_owner_by_pid(struct leat_channel *ch, uint32_t slot, uint64_t start);
void chan_owner_describe(struct leat_channel *ch);
/* Return the start time of the owner's process, in ticks since boot; 0: unknown */
uint64_t chan_owner_start(const struct leat_channel *ch, uint32_t slot, uint64_t owner);
/*
 * May the participant with this identity in its slot still run? Only a participant that is
 * certainly dead counts as dead.
 */
bool chan_alive(const struct leat_channel *ch, uint32_t slot, uint64_t owner);

/* ---- slot.c ---- */
int chan_slot_take(struct leat_channel *ch);
bool chan_slot_claim(struct leat_channel *ch, uint32_t slot, uint64_t owner);
void chan_slot_leave(struct leat_channel *ch);

/* ---- recover.c ---- */
/* Recover a slot whose owner is dead. @return 1; 0: the owner lives or the slot is free; -errno */
int chan_recover_slot(struct leat_channel *ch, uint32_t slot);
/* Note that the frame at pos blocks the handle. @return whether to check now if its owner lives */
bool chan_held_up(struct leat_channel *ch, enum chan_cause cause, uint64_t pos);
/* As chan_held_up(), and check if the participant that mark m names as the owner lives. */
void chan_stuck(struct leat_channel *ch, enum chan_cause cause, uint64_t pos, uint64_t m);
/* Do the slow part of chan_tick(). @return 1: dead participants found; 0: none; -EPROTO: corrupt */
int chan_tick_clock(struct leat_channel *ch) __attribute__((cold));

/*
 * Check for dead participants when it is time. Each function that does not wait calls this, since a
 * caller that only polls, or always finds something, must check, too. The clock is not read in each
 * call if calls are frequent.
 */
static inline int
chan_tick(struct leat_channel *ch)
{
	return __builtin_expect(--ch->tick_in == 0, 0) ? chan_tick_clock(ch) : 0;
}

/*
 * Move read beyond pos. The caller knows that no frame up to pos needs a claim.
 * @return false: the block is corrupt
 */
bool chan_pass_beyond(struct leat_channel *ch, uint64_t pos);
/*
 * Turn a READING frame into a RETURNED one, or drop it: if drop is set, or after too many
 * deliveries. @return whether this call did it
 */
bool chan_put_back(struct leat_channel *ch, uint64_t pos, uint64_t m, bool drop);

/* ---- arm.c ---- */
/* Write to the eventfds of the participants in bits, a bit for each slot. */
void chan_wake_loops(struct leat_channel *ch, uint64_t bits);

/* ---- wait.c ---- */
uint64_t chan_now_ns(void);
/* Deadline of a timeout that starts now. */
static inline uint64_t
chan_end_ns(uint64_t now, uint64_t timeout_ns)
{
	return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

void chan_wake(struct leat_channel *ch, bool room, bool always);

/*
 * Wake waiting participants. Call this right after the read-modify-write that committed frames or
 * made room. A full fence between this write and the load of sleepers pairs with the fence in
 * wait.c; on x86 the locked instruction is a full fence.
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
/* Move free over frames that are read. @return 1: free has moved; 0: it has not; -errno */
int chan_reclaim(struct leat_channel *ch);
/* Is there room for this many granules, at the moment? @return 1, 0, -errno */
int chan_room(struct leat_channel *ch, uint32_t granules);
/* Check the owner of the frame at which free stops: it may be dead. */
void chan_look_at_oldest(struct leat_channel *ch);
/* Drop the oldest frame. @return 1; 0: there is none, or dropping makes no room; -errno */
int chan_drop_oldest(struct leat_channel *ch);

/* Is there room at w? One granule stays free: write < free + size. @return 1, 0, -errno */
static inline int
chan_room_at(struct leat_channel *ch, uint64_t w, uint32_t granules)
{
	uint64_t need = (uint64_t)granules << CHAN_SHIFT;
	int ret;

	/*
	 * If w is older than free_seen, either answer will do: the caller finds w out of date, and
	 * tries again.
	 */
	if (__builtin_expect(w - ch->free_seen + need < ch->size, 1))
		return 1;
	ret = chan_reclaim(ch);
	if (ret < 0)
		return ret;
	return w - ch->free_seen + need < ch->size;
}

/* ---- read.c ---- */
/*
 * Is there a frame to read? sleepy: the caller is about to sleep. @return 1; 0; -ESHUTDOWN, -EPROTO
 * as leat_channel_wait()
 */
int chan_ready(struct leat_channel *ch, bool sleepy);

#endif /* CHANNEL_PVT_H */
