/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_CHANNEL_H
#define LEAT_CHANNEL_H

/**
 * @file
 * A one-directional channel of frames through shared memory: many writers, many readers, in one
 * process or several, any of which may be killed at any instruction. It needs nothing but libc.
 *
 * @code
 *	writer                                          reader
 *	ch = leat_channel_create("/watch", NULL, NULL); ch = leat_channel_open("/watch", NULL);
 *	leat_channel_send(ch, TYPE, HASH, &x, sizeof(x));
 *	                                                n = leat_channel_peek(ch, f, 32);
 *	                                                ... f[i].data, f[i].len, f[i].type
 *	                                                leat_channel_consume(ch);
 *	leat_channel_terminate(ch);                     -ESHUTDOWN, when all has been read
 *	leat_channel_close(ch);                         leat_channel_close(ch);
 * @endcode
 *
 * What is promised, whoever is killed and when: a committed frame is delivered, whole, once; what
 * was not committed never is. A frame that was in the hands of a reader that died is delivered to
 * another one or dropped, as the channel says, and counted. The frames that one writer commits come
 * in their order, but for those that are delivered again.
 *
 * The layout of the block, the states of a frame and why all this holds: doc/guide/channel.md. The
 * idea of the ring of frames is that of the shared channel of MLOS (Microsoft).
 *
 * Thread rules: a handle is a participant of the channel and is used by one thread at a time; other
 * threads attach for themselves. It is of no use in the child of a fork. Functions return 0 or a
 * count, or a negative errno; constructors return NULL and set errno; leat_channel_error() has the
 * words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what libleat-channel exports; everything else in it is hidden. */
#define LEAT_CHANNEL_API __attribute__((visibility("default")))

/** Participants of a channel at most. */
#define LEAT_CHANNEL_PARTICIPANTS_MAX 64
/** Smallest and largest buffer, bytes. */
#define LEAT_CHANNEL_SIZE_MIN 4096
#define LEAT_CHANNEL_SIZE_MAX (UINT64_C(1) << 30)
/** Bytes that a frame takes besides its payload; both together are rounded up to 64. */
#define LEAT_CHANNEL_HEADER 16
/** Times a frame is delivered at most, if those who have it die or give it back. */
#define LEAT_CHANNEL_DELIVERIES 4
/** A timeout that never comes. */
#define LEAT_CHANNEL_FOREVER UINT64_MAX

struct leat_channel;

/** How a participant tells others that there is a frame, or room. All of a channel do the same. */
enum leat_channel_notify {
	LEAT_CHANNEL_NOTIFY_FUTEX = 0, /**< a system call only if somebody sleeps */
	LEAT_CHANNEL_NOTIFY_NONE,      /**< those who wait look again and again */
	LEAT_CHANNEL_NOTIFY_EVENTFD,   /**< for programs with an event loop; not for shm by name */
};

/** What becomes of a frame whose reader died with it in its hands. */
enum leat_channel_on_death {
	LEAT_CHANNEL_REDELIVER = 0,
	LEAT_CHANNEL_DROP,
};

/** What a channel is like. Zeroed means all defaults. */
struct leat_channel_conf {
	uint64_t size;	       /**< of the buffer, a power of two; 0: 1 MiB */
	uint32_t participants; /**< 1 to 64; 0: 64 */
	enum leat_channel_notify notify;
	enum leat_channel_on_death on_death;
	uint64_t start; /**< first position, a multiple of 64; for tests of what happens near 2^64 */
};

/** What a writer does when there is no room. */
enum leat_channel_full {
	LEAT_CHANNEL_FULL_FAIL = 0,    /**< -EAGAIN */
	LEAT_CHANNEL_FULL_WAIT,	       /**< wait as .wait says, full_ns at most, then -EAGAIN */
	LEAT_CHANNEL_FULL_DROP_NEWEST, /**< not sent, counted: LEAT_CHANNEL_DROPPED */
	LEAT_CHANNEL_FULL_DROP_OLDEST, /**< the oldest frame that nobody reads is thrown away, counted;
					    -EAGAIN if readers have all there is */
};

/** How a participant waits. */
enum leat_channel_wait_how {
	LEAT_CHANNEL_WAIT_NOTIFY = 0, /**< asleep until notified; like SLEEP if nobody notifies */
	LEAT_CHANNEL_WAIT_SPIN,
	LEAT_CHANNEL_WAIT_PAUSE, /**< spin with the CPU's pause instruction */
	LEAT_CHANNEL_WAIT_YIELD, /**< let others run between looks */
	LEAT_CHANNEL_WAIT_SLEEP, /**< sleep between looks, longer and longer, 1 ms at most */
};

/** What a reader does with a frame whose header is wrong. */
enum leat_channel_invalid {
	LEAT_CHANNEL_INVALID_END = 0, /**< this handle gives -EPROTO from now on */
	LEAT_CHANNEL_INVALID_SKIP,    /**< it is dropped and counted */
};

/** How one participant behaves. Zeroed means all defaults. */
struct leat_channel_opts {
	enum leat_channel_full full;
	uint64_t full_ns; /**< of LEAT_CHANNEL_FULL_WAIT */
	enum leat_channel_wait_how wait;
	enum leat_channel_invalid invalid;
	/**
	 * Who waits looks after so many ms whether somebody died: the longest time for which the dead
	 * delay it. 0: 10; at most 60,000.
	 */
	uint32_t check_ms;
};

/** A frame, for bursts. */
struct leat_channel_frame {
	void *data;    /**< payload; of a writer's frame it is only read */
	uint32_t len;  /**< bytes of it, from 1 */
	uint32_t type; /**< not 0 */
	uint64_t hash; /**< of the type's definition, so that both sides know they mean the same */
};

/** leat_channel_send(): the frame was not sent, as the policy wants it. */
#define LEAT_CHANNEL_DROPPED 1

/** The last error of the calling thread in words: operation, cause and what to check; never NULL. */
LEAT_CHANNEL_API const char *leat_channel_error(void);

/** @name Blocks and handles */
/**@{*/

/** Bytes of memory that a channel needs; 0 if conf is wrong (NULL: the defaults). */
LEAT_CHANNEL_API uint64_t leat_channel_bytes(const struct leat_channel_conf *conf);

/**
 * Make a channel in memory of the caller, which must be aligned to 128 bytes, be shared by those who are to
 * use it, and not be in use. The magic is stored last: who attaches meanwhile is told -EAGAIN.
 *
 * @return 0; -EINVAL: conf, alignment; -ENOSPC: bytes are fewer than leat_channel_bytes()
 */
LEAT_CHANNEL_API int leat_channel_format(void *mem, uint64_t bytes,
					 const struct leat_channel_conf *conf);

/**
 * Attach to a channel in the caller's memory, which stays mapped until leat_channel_close(). Safe at any time.
 * Everything in the block is checked and what it says of sizes is copied: nothing of it is trusted later.
 *
 * @param fds
 *   Of NOTIFY_EVENTFD: two eventfds (EFD_SEMAPHORE | EFD_NONBLOCK), for frames and for room; they are
 *   duplicated. NULL: none.
 * @return
 *   The handle, or NULL with errno:
 *   - EAGAIN: nothing is there yet
 *   - EPROTO: not a channel, another version, sizes or positions that can't be
 *   - EUSERS: there are as many participants as there may be, and all live
 *   - EXDEV: it belongs to another pid namespace, where the dead can't be told from the living
 *   - EINVAL: options; no eventfds where they are needed
 *   - ENOMEM
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_attach(void *mem, uint64_t bytes,
							  const struct leat_channel_opts *opts,
							  const int *fds);

/**
 * Make a channel in POSIX shared memory, and attach. name as for shm_open(3): "/watch".
 *
 * @return The handle, or NULL with errno: as leat_channel_attach(), and EEXIST, EACCES, ...
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_create(const char *name,
							  const struct leat_channel_conf *conf,
							  const struct leat_channel_opts *opts);

/** Attach to one that is there: ENOENT if it is not, else as leat_channel_attach(). */
LEAT_CHANNEL_API struct leat_channel *leat_channel_open(const char *name,
							const struct leat_channel_opts *opts);

/** Remove the name. Those who are attached stay so. @return 0 or -ENOENT, -EACCES, ... */
LEAT_CHANNEL_API int leat_channel_unlink(const char *name);

/** Make a channel in a memfd, which can't shrink, and attach; for NOTIFY_EVENTFD with its eventfds. */
LEAT_CHANNEL_API struct leat_channel *leat_channel_memfd(const struct leat_channel_conf *conf,
							 const struct leat_channel_opts *opts);

/**
 * Pass a channel of leat_channel_memfd() over a connected UNIX socket.
 * @return 0; -EINVAL: it has no file; -EPIPE, ... of sendmsg(2)
 */
LEAT_CHANNEL_API int leat_channel_pass(struct leat_channel *ch, int sock);

/**
 * Receive what leat_channel_pass() sent, and attach. Blocks as the socket does.
 * @return The handle, or NULL with errno: as leat_channel_attach(), and of recvmsg(2)
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_accept(int sock,
							  const struct leat_channel_opts *opts);

/** Another participant on the same memory, for another thread. NULL with errno as leat_channel_attach(). */
LEAT_CHANNEL_API struct leat_channel *leat_channel_join(struct leat_channel *ch,
							const struct leat_channel_opts *opts);

/** Leave: what is reserved becomes empty, what is peeked goes to others. NULL is allowed. */
LEAT_CHANNEL_API void leat_channel_close(struct leat_channel *ch);

/**@}*/
/** @name Writing */
/**@{*/

/** Largest payload of a frame, bytes: half of the buffer without the header. */
LEAT_CHANNEL_API uint32_t leat_channel_max(const struct leat_channel *ch);

/**
 * Send a frame.
 *
 * @return
 *   - 0, or LEAT_CHANNEL_DROPPED
 *   - -EAGAIN: no room
 *   - -EINVAL: no length, type 0
 *   - -EMSGSIZE: longer than leat_channel_max()
 *   - -ESHUTDOWN: terminated
 *   - -EPROTO: the block is corrupt
 *   - -EBUSY: there is a reservation
 */
LEAT_CHANNEL_API int leat_channel_send(struct leat_channel *ch, uint32_t type, uint64_t hash,
				       const void *data, uint32_t len);

/**
 * Send frames, in one reservation if they fit.
 * @return How many were sent, or dropped as the policy says, or if none the error of leat_channel_send().
 */
LEAT_CHANNEL_API int leat_channel_send_burst(struct leat_channel *ch,
					     const struct leat_channel_frame *frames,
					     unsigned int n);

/**
 * Reserve a frame, to be filled in place. One at a time. Others go past it if it takes long; then it comes
 * later than theirs, and keeps its room until it is committed and read.
 * @return As leat_channel_send(); with 0 *data is where len bytes of payload go, aligned to 16.
 */
LEAT_CHANNEL_API int leat_channel_reserve(struct leat_channel *ch, uint32_t type, uint64_t hash,
					  uint32_t len, void **data);
/** Publish what was reserved. @return 0; -EINVAL: nothing was */
LEAT_CHANNEL_API int leat_channel_commit(struct leat_channel *ch);
/** Make an empty frame of it, which no reader sees. @return 0; -EINVAL: nothing was reserved */
LEAT_CHANNEL_API int leat_channel_abort(struct leat_channel *ch);

/** The orderly end: nothing can be sent after it, and who has read what was sent is told -ESHUTDOWN. */
LEAT_CHANNEL_API int leat_channel_terminate(struct leat_channel *ch);

/**@}*/
/** @name Reading */
/**@{*/

/**
 * Take up to n frames. They lie in shared memory, and are this reader's until leat_channel_consume() or
 * leat_channel_give_back(); data, len, type and hash are checked copies, the payload is as safe as
 * those who share the memory.
 *
 * @param n
 *   1 to 64.
 * @return
 *   - how many
 *   - -EAGAIN: none there
 *   - -EBUSY: those of the call before are still held
 *   - -ESHUTDOWN: terminated, and all is read
 *   - -EPROTO: the block is corrupt, or a frame, and the policy is INVALID_END
 *   - -EINVAL: n
 */
LEAT_CHANNEL_API int leat_channel_peek(struct leat_channel *ch, struct leat_channel_frame *frames,
				       unsigned int n);
/** Done with all that was peeked. @return 0; -EINVAL: nothing was */
LEAT_CHANNEL_API int leat_channel_consume(struct leat_channel *ch);
/**
 * To other readers, or to this one again, out of order; after LEAT_CHANNEL_DELIVERIES times they are dropped.
 * @return 0; -EINVAL: nothing was peeked
 */
LEAT_CHANNEL_API int leat_channel_give_back(struct leat_channel *ch);

/**
 * Take a frame out, with a copy of its payload.
 *
 * @return Its length, or as leat_channel_peek(), or -EMSGSIZE: size is too small; the frame was given back.
 */
LEAT_CHANNEL_API int leat_channel_recv(struct leat_channel *ch, void *buf, uint32_t size,
				       uint32_t *type, uint64_t *hash);

/** Of leat_channel_dispatch(). @return 0; other values: the frame, and those behind it, are given back */
typedef int (*leat_channel_fn)(void *arg, const struct leat_channel_frame *frame);

/**
 * Take up to n frames, call fn with each, consume those for which it returned 0.
 * @return How many these are, or if none what fn returned, or as leat_channel_peek().
 */
LEAT_CHANNEL_API int leat_channel_dispatch(struct leat_channel *ch, unsigned int n,
					   leat_channel_fn fn, void *arg);

/**@}*/
/** @name Waiting, the dead, looking on */
/**@{*/

/**
 * Wait, as the options say, until there may be a frame to take.
 *
 * Signals do not end it.
 * @return 0; -ETIMEDOUT; -ESHUTDOWN: terminated, and all is read; -EPROTO
 */
LEAT_CHANNEL_API int leat_channel_wait(struct leat_channel *ch, uint64_t timeout_ns);
/** Likewise, until a frame of len bytes may have room. @return as above, and -EMSGSIZE */
LEAT_CHANNEL_API int leat_channel_wait_room(struct leat_channel *ch, uint32_t len,
					    uint64_t timeout_ns);

/**
 * Look for participants that died, and put in order what they left. Who waits does so every check_ms, and
 * who polls when it is held up; a loop that does neither calls it now and then.
 * @return How many were found; -EPROTO
 */
LEAT_CHANNEL_API int leat_channel_recover(struct leat_channel *ch);

/** What is counted, by participant and in all. */
enum leat_channel_counter {
	LEAT_CHANNEL_SENT = 0,
	LEAT_CHANNEL_RECEIVED,
	LEAT_CHANNEL_FULL,	  /**< frames for which there was no room: refused or dropped */
	LEAT_CHANNEL_OVERWRITTEN, /**< oldest frames thrown away for newer ones */
	LEAT_CHANNEL_INVALID,	  /**< frames with a wrong header */
	LEAT_CHANNEL_ABORTED,	  /**< reservations of dead writers made empty */
	LEAT_CHANNEL_RETURNED, /**< frames of dead readers, or given back, to be delivered again */
	LEAT_CHANNEL_LOST,     /**< frames of dead readers dropped, or given back too often */
	LEAT_CHANNEL_COUNTERS,
};

/** A participant. */
struct leat_channel_who {
	uint32_t slot;
	int32_t pid;
	uint64_t start;	     /**< of the process, in clock ticks after boot */
	uint32_t generation; /**< how many have had the slot */
	bool alive;
	bool waiting;
	uint64_t count[LEAT_CHANNEL_COUNTERS]; /**< of all that had the slot */
};

/** A channel, at about one moment. */
struct leat_channel_info {
	uint64_t size, bytes;
	uint64_t write, read, free; /**< positions, bytes */
	enum leat_channel_notify notify;
	enum leat_channel_on_death on_death;
	bool ended;
	uint32_t reserved, committed, reading, returned, done, empty; /**< frames in these states */
	uint32_t participants, participants_max;
	uint64_t count[LEAT_CHANNEL_COUNTERS];
	struct leat_channel_who who[LEAT_CHANNEL_PARTICIPANTS_MAX];
};

/** Look at a channel; changes nothing. @return 0; -EPROTO: positions that can't be */
LEAT_CHANNEL_API int leat_channel_inspect(const struct leat_channel *ch,
					  struct leat_channel_info *info);

/** The same by name, without becoming a participant; read access is enough. @return as leat_channel_open() */
LEAT_CHANNEL_API int leat_channel_inspect_name(const char *name, struct leat_channel_info *info);

/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_CHANNEL_H */
