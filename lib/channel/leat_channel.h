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
/** Times a frame is delivered at most, if its readers die or give it back. */
#define LEAT_CHANNEL_DELIVERIES 4
/** A timeout that never comes. */
#define LEAT_CHANNEL_FOREVER UINT64_MAX

struct leat_channel;

/** How a participant tells others that there is a frame, or room. All of a channel do the same. */
enum leat_channel_notify {
	LEAT_CHANNEL_NOTIFY_FUTEX = 0, /**< a system call only if a participant sleeps */
	LEAT_CHANNEL_NOTIFY_NONE,      /**< waiting participants look again and again */
	/**
	 * Likewise, and by an eventfd for each participant, for programs with an event loop:
	 * leat_channel_fd(). Not for shm by name. A process has as many descriptors for it as there
	 * may be participants.
	 */
	LEAT_CHANNEL_NOTIFY_EVENTFD,
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
	LEAT_CHANNEL_FULL_DROP_OLDEST, /**< the oldest frame that no reader has is dropped, counted;
					    -EAGAIN if readers have all there is */
};

/** How a participant waits. */
enum leat_channel_wait_how {
	LEAT_CHANNEL_WAIT_NOTIFY = 0, /**< asleep until notified; without, like SLEEP */
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
	/** of LEAT_CHANNEL_FULL_WAIT: of a whole call, a burst's frames share it */
	uint64_t full_ns;
	enum leat_channel_wait_how wait;
	enum leat_channel_invalid invalid;
	/**
	 * The handle looks after so many ms whether a participant died: the longest time for which
	 * the dead delay it, in calls that follow one another. The time is the handle's: short
	 * waits add up. 0: 10; at most 60,000.
	 */
	uint32_t check_ms;
};

/** A frame, for bursts. */
struct leat_channel_frame {
	void *data;    /**< payload; of a writer's frame it is only read */
	uint32_t len;  /**< bytes of it, from 1 */
	uint32_t type; /**< not 0 */
	uint64_t hash; /**< of the type's definition, so that both sides know they mean the same */
	/**
	 * How many readers had it before: they died with it, or gave it back. 0: it is new. Else
	 * what one of them did with it may have had its effect. Not looked at when frames are sent.
	 */
	uint32_t redelivered;
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
 * Make a channel in memory of the caller, which must be aligned to 128 bytes, be shared by the
 * participants, and not be in use. The magic is stored last: attaching meanwhile fails with
 * -EAGAIN.
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
 *   Not looked at; NULL. leat_channel_set_eventfds() gives a participant its eventfds.
 * @return
 *   The handle, or NULL with errno:
 *   - EAGAIN: nothing is there yet
 *   - EPROTO: not a channel, another version, sizes or positions that can't be
 *   - EUSERS: there are as many participants as there may be, and all live
 *   - EXDEV: the dead could not be told from the living: it was made in another pid or time
 *     namespace, or /proc is not that of the process's pid namespace
 *   - EINVAL: options
 *   - ENOMEM
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_attach(void *mem, uint64_t bytes,
							  const struct leat_channel_opts *opts,
							  const int *fds);

/**
 * Attach to a channel in a file of the caller, from its begin on, such as a memfd. The file is
 * mapped, and must not shrink; fd is duplicated.
 *
 * Where there is a file, a participant has a lock in it that the kernel drops with the process's
 * memory. So the dead are told from the living across namespaces, and exec() counts as death. In
 * memory of leat_channel_attach() it takes the same pid and time namespace and its /proc, and what
 * a process held that called exec() comes back when it has ended.
 *
 * @param fd
 *   Open for reading and writing.
 * @param fds
 *   As for leat_channel_attach().
 * @return As leat_channel_attach(). EXDEV: likewise, if the file can't be opened again or can't be
 * locked.
 */
LEAT_CHANNEL_API struct leat_channel *
leat_channel_attach_fd(int fd, const struct leat_channel_opts *opts, const int *fds);

/**
 * Make a channel in POSIX shared memory, and attach. name as for shm_open(3): "/watch".
 *
 * @return The handle, or NULL with errno: as leat_channel_attach(), and EEXIST, EACCES, ...
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_create(const char *name,
							  const struct leat_channel_conf *conf,
							  const struct leat_channel_opts *opts);

/**
 * May the library catch SIGBUS? Shared memory by name, and files of leat_channel_attach_fd() that
 * are not sealed, can be cut off by other processes while they are mapped. So what makes or opens
 * such a channel installs a handler for SIGBUS, if the library's is not there. A fault in a
 * channel's mapping has that replaced by memory of its own, and calls give -EPROTO; what was read
 * in place meanwhile may be zeros, and leat_channel_consume() says so. Any other SIGBUS goes to the
 * handler that was there before, or has the default effect. A handler that is installed later, and
 * does not call the one before it, takes this away until the next such channel is opened, and in a
 * thread that blocks SIGBUS it does not hold: then it is death.
 *
 * @param on
 *   False, before the first such channel: the library leaves SIGBUS alone. It is on by default.
 * @return 0; -EBUSY: the handler is installed already
 */
LEAT_CHANNEL_API int leat_channel_guard(bool on);

/** Attach to one that is there: ENOENT if it is not, else as leat_channel_attach(). */
LEAT_CHANNEL_API struct leat_channel *leat_channel_open(const char *name,
							const struct leat_channel_opts *opts);

/** Remove the name. Participants that are attached stay so. @return 0 or -ENOENT, -EACCES, ... */
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

/** What leat_channel_send_frames() did with its frames. */
struct leat_channel_sent {
	unsigned int sent;
	unsigned int dropped; /**< by the policy, LEAT_CHANNEL_FULL_DROP_NEWEST */
};

/**
 * Send frames as leat_channel_send_burst(), and say what became of them: the first sent + dropped
 * ones are done with, the others were not looked at.
 *
 * @return 0: all are done with; or the error of leat_channel_send() that ended it, with *done as
 * far as it came
 */
LEAT_CHANNEL_API int leat_channel_send_frames(struct leat_channel *ch,
					      const struct leat_channel_frame *frames,
					      unsigned int n, struct leat_channel_sent *done);

/**
 * Reserve a frame, to be filled in place. One at a time. Others go past it if it takes long; then it comes
 * later than theirs, and keeps its room until it is committed and read.
 * @return As leat_channel_send(); with 0 *data is where len bytes of payload go, aligned to 16.
 */
LEAT_CHANNEL_API int leat_channel_reserve(struct leat_channel *ch, uint32_t type, uint64_t hash,
					  uint32_t len, void **data);
/** Is there a reservation? */
LEAT_CHANNEL_API bool leat_channel_reserved(const struct leat_channel *ch);
/** Publish what was reserved. @return 0; -EINVAL: nothing was */
LEAT_CHANNEL_API int leat_channel_commit(struct leat_channel *ch);
/** Make an empty frame of it, which no reader sees. @return 0; -EINVAL: nothing was reserved */
LEAT_CHANNEL_API int leat_channel_abort(struct leat_channel *ch);

/** The orderly end: nothing can be sent after it; a reader that has all gets -ESHUTDOWN. */
LEAT_CHANNEL_API int leat_channel_terminate(struct leat_channel *ch);

/**@}*/
/** @name Reading */
/**@{*/

/**
 * Take up to n frames. They lie in shared memory, and are this reader's until leat_channel_consume() or
 * leat_channel_give_back(); data, len, type and hash are checked copies, the payload is as safe as
 * the processes that share the memory.
 *
 * @param n
 *   1 to 64.
 * @return
 *   - how many
 *   - -EAGAIN: none there
 *   - -EBUSY: those of the call before are still held
 *   - -ESHUTDOWN: terminated, and all is read; as long as another reader has a frame, which may
 *     come back, it is -EAGAIN
 *   - -EPROTO: the block is corrupt, or a frame, and the policy is INVALID_END
 *   - -EINVAL: n
 */
LEAT_CHANNEL_API int leat_channel_peek(struct leat_channel *ch, struct leat_channel_frame *frames,
				       unsigned int n);
/**
 * Done with all that was peeked.
 * @return 0; -EINVAL: nothing was; -EPROTO: the block is corrupt, and what was read of the frames
 * may be
 */
LEAT_CHANNEL_API int leat_channel_consume(struct leat_channel *ch);
/**
 * Done with the first n that are held; those behind them still are. @return as
 * leat_channel_consume()
 */
LEAT_CHANNEL_API int leat_channel_consume_some(struct leat_channel *ch, unsigned int n);
/**
 * Look again at what is held.
 * @param frames
 *   Of the first n that are held; with n 0 it may be NULL.
 * @return How many are held, also if that is more than n; -EPROTO: a header is not what it was
 */
LEAT_CHANNEL_API int leat_channel_held(const struct leat_channel *ch,
				       struct leat_channel_frame *frames, unsigned int n);
/**
 * To other readers, or to this one again, out of order; after LEAT_CHANNEL_DELIVERIES times they are dropped.
 * @return 0; -EINVAL: nothing was peeked
 */
LEAT_CHANNEL_API int leat_channel_give_back(struct leat_channel *ch);

/**
 * Take a frame out, with a copy of its payload.
 *
 * @return
 *   Its length, or as leat_channel_peek(), or -EMSGSIZE: size is too small; the frame was given
 *   back, which counts as one of its deliveries. leat_channel_recv_frame() says how much it takes.
 */
LEAT_CHANNEL_API int leat_channel_recv(struct leat_channel *ch, void *buf, uint32_t size,
				       uint32_t *type, uint64_t *hash);

/**
 * Take a frame out, with a copy of its payload, and learn all there is to know of it.
 *
 * @param frame
 *   What was received; data is buf. Also with -EMSGSIZE: then len is the size that it takes, and
 *   data is NULL.
 * @return As leat_channel_recv()
 */
LEAT_CHANNEL_API int leat_channel_recv_frame(struct leat_channel *ch, void *buf, uint32_t size,
					     struct leat_channel_frame *frame);

/**
 * End what is in hand, well or not, by a comparison: for languages in which an exception may come
 * between any two steps of a caller (Python's KeyboardInterrupt), so that the step that ends it is
 * this call alone.
 *
 * @param reservation
 *   The reservation; else the frames that are held.
 * @param good
 *   If it is the same as outcome the frames are consumed, or the reservation is committed; else
 *   they are given back, or it is aborted. Neither pointer is followed, and what comes behind them
 *   is not looked at.
 * @return As leat_channel_consume() and so on; -EINVAL also if ch is NULL: it was ended before
 */
LEAT_CHANNEL_API int leat_channel_settle(struct leat_channel *ch, bool reservation,
					 const void *good, const void *outcome, ...);

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
 * @return 0; -ETIMEDOUT; -ESHUTDOWN: terminated, and all is read, also what other readers had;
 * -EPROTO
 */
LEAT_CHANNEL_API int leat_channel_wait(struct leat_channel *ch, uint64_t timeout_ns);
/** Likewise, until a frame of len bytes may have room. @return as above, and -EMSGSIZE */
LEAT_CHANNEL_API int leat_channel_wait_room(struct leat_channel *ch, uint32_t len,
					    uint64_t timeout_ns);

/** What leat_channel_arm() is for. */
enum leat_channel_arm_for {
	LEAT_CHANNEL_ARM_FRAMES = 1,
	LEAT_CHANNEL_ARM_ROOM = 2,
};

/**
 * The participant's descriptor, of NOTIFY_EVENTFD: to be polled, by poll(2), epoll(7) or the like,
 * for reading, when it was armed. It is closed with the handle, and neither read nor written by the
 * caller.
 * @return It, or -EOPNOTSUPP: the channel does not notify so, or leat_channel_set_eventfds() was
 * not called
 */
LEAT_CHANNEL_API int leat_channel_fd(const struct leat_channel *ch);

/**
 * Arm the descriptor: from now on it becomes readable when there may be something, and stays so
 * until it is armed again. This looks once more after it has armed, so nothing that comes before
 * the poll is missed:
 *
 * @code
 *	for (;;) {
 *		while (leat_channel_recv(ch, ...) > 0)
 *			...
 *		ret = leat_channel_arm(ch, LEAT_CHANNEL_ARM_FRAMES, 0);
 *		if (ret == -ESHUTDOWN)
 *			break;
 *		if (ret == 0)
 *			... poll(leat_channel_fd(ch), POLLIN), check_ms at most;
 *			... then leat_channel_recover(ch)
 *	}
 * @endcode
 *
 * Each participant that is armed is told of each frame, though one of them takes it, and of the
 * end. A participant that dies between committing and telling tells none: therefore the recovery,
 * every check_ms or so. A wait disarms.
 *
 * @param what
 *   An OR of LEAT_CHANNEL_ARM_*; it replaces what was armed before.
 * @param len
 *   Of LEAT_CHANNEL_ARM_ROOM: of the frame that is to have room.
 * @return
 *   - 0: armed
 *   - an OR of those of what that are there by now; it is not armed
 *   - -ESHUTDOWN: as leat_channel_wait(), or of room alone as leat_channel_wait_room(); not armed
 *   - -EPROTO, -EMSGSIZE, -EINVAL: what
 *   - -EOPNOTSUPP: as leat_channel_fd()
 */
LEAT_CHANNEL_API int leat_channel_arm(struct leat_channel *ch, unsigned int what, uint32_t len);

/**
 * Give a participant of a NOTIFY_EVENTFD channel in the caller's memory, or file, the eventfds of
 * all: one for each that there may be, the same in each process and in the same order. They are
 * duplicated, and made O_NONBLOCK. Handles of leat_channel_join() have those of the first one;
 * those of leat_channel_memfd() and leat_channel_accept() have them. Without it a participant can't
 * have one, nor wake those that poll; waits need none. Not while another thread uses a handle of
 * the same memory.
 *
 * @param n
 *   As many as there may be participants.
 * @return 0; -EINVAL: n, or the channel notifies in another way; -EBUSY: it has some; -EBADF,
 * -EMFILE, ...
 */
LEAT_CHANNEL_API int leat_channel_set_eventfds(struct leat_channel *ch, const int *fds,
					       unsigned int n);

/**
 * Look for participants that died, and put in order what they left. Each handle does so when it
 * attaches, and then by itself every check_ms, in whatever call it is by then: one that waits,
 * sends or peeks. A participant that makes no call for longer calls this one.
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
	uint64_t count[LEAT_CHANNEL_COUNTERS]; /**< since it attached */
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
	uint64_t count[LEAT_CHANNEL_COUNTERS]; /**< by all, since it was made */
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
