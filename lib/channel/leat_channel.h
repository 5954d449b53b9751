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
 * Promises, whichever participant is killed and when: a committed frame is delivered whole and
 * once; a frame that was not committed is never delivered. A frame that a reader held when it died
 * is delivered to another reader or dropped, as the channel's on_death says, and counted. The
 * frames that one writer commits are delivered in the order of their commits, except those that are
 * delivered again.
 *
 * The layout of the block, the states of a frame and why these promises hold: doc/guide/channel.md.
 * The idea of the ring of frames is that of the shared channel of MLOS (Microsoft).
 *
 * Thread rules: a handle is one participant of the channel and is used by one thread at a time;
 * each further thread attaches a handle of its own. A handle does not work in the child of a fork.
 * Functions return 0 or a count, or a negative errno; constructors return NULL and set errno;
 * leat_channel_error() returns the error in words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks a symbol that libleat-channel exports; all other symbols are hidden. */
#define LEAT_CHANNEL_API __attribute__((visibility("default")))

/** Largest number of participants of a channel. */
#define LEAT_CHANNEL_PARTICIPANTS_MAX 64
/** Smallest buffer, bytes. */
#define LEAT_CHANNEL_SIZE_MIN 4096
/** Largest buffer, bytes. */
#define LEAT_CHANNEL_SIZE_MAX (UINT64_C(1) << 30)
/** Bytes of a frame's header. Header and payload together are rounded up to 64 bytes. */
#define LEAT_CHANNEL_HEADER 16
/** Maximum number of deliveries of a frame whose readers die or give it back. */
#define LEAT_CHANNEL_DELIVERIES 4
/** Value of a timeout: wait for ever. */
#define LEAT_CHANNEL_FOREVER UINT64_MAX

struct leat_channel;

/** How participants are notified of a frame or of room. The same for all participants. */
enum leat_channel_notify {
	LEAT_CHANNEL_NOTIFY_FUTEX = 0, /**< a system call only if a participant sleeps */
	LEAT_CHANNEL_NOTIFY_NONE,      /**< no notification: waiting participants poll */
	/**
	 * By the futex, and by an eventfd for each participant, for programs with an event loop:
	 * see leat_channel_fd(). Not for shared memory by name. Each process holds as many
	 * descriptors as the channel may have participants.
	 */
	LEAT_CHANNEL_NOTIFY_EVENTFD,
};

/** What happens to a frame that a reader held when it died. */
enum leat_channel_on_death {
	LEAT_CHANNEL_REDELIVER = 0, /**< the frame is delivered to another reader */
	LEAT_CHANNEL_DROP,	    /**< the frame is dropped */
};

/** Properties of a channel. Zeroed means all defaults. */
struct leat_channel_conf {
	uint64_t size;			 /**< size of the buffer, bytes, a power of two; 0: 1 MiB */
	uint32_t participants;		 /**< largest number of participants, 1 to 64; 0: 64 */
	enum leat_channel_notify notify; /**< how participants are notified */
	enum leat_channel_on_death on_death; /**< what happens to a dead reader's frame */
	uint64_t start; /**< first position, a multiple of 64; lets tests begin near 2^64 */
};

/** What a writer does when there is no room. */
enum leat_channel_full {
	LEAT_CHANNEL_FULL_FAIL = 0,    /**< return -EAGAIN */
	LEAT_CHANNEL_FULL_WAIT,	       /**< wait as .wait says, full_ns at most, then -EAGAIN */
	LEAT_CHANNEL_FULL_DROP_NEWEST, /**< drop and count the new frame: LEAT_CHANNEL_DROPPED */
	LEAT_CHANNEL_FULL_DROP_OLDEST, /**< drop the oldest frame that no reader holds, count it;
					    -EAGAIN if readers hold all frames */
};

/** How a participant waits. */
enum leat_channel_wait_how {
	LEAT_CHANNEL_WAIT_NOTIFY = 0, /**< sleep until notified; with NOTIFY_NONE as WAIT_SLEEP */
	LEAT_CHANNEL_WAIT_SPIN,	      /**< poll without a pause */
	LEAT_CHANNEL_WAIT_PAUSE,      /**< spin with the CPU's pause instruction */
	LEAT_CHANNEL_WAIT_YIELD,      /**< yield the CPU between polls */
	LEAT_CHANNEL_WAIT_SLEEP,      /**< sleep between polls, in growing steps, 1 ms at most */
};

/** What a reader does with a frame whose header is wrong. */
enum leat_channel_invalid {
	LEAT_CHANNEL_INVALID_END = 0, /**< this handle returns -EPROTO from now on */
	LEAT_CHANNEL_INVALID_SKIP,    /**< the frame is dropped and counted */
};

/** How one participant behaves. Zeroed means all defaults. */
struct leat_channel_opts {
	enum leat_channel_full full; /**< what send does when there is no room */
	/** with LEAT_CHANNEL_FULL_WAIT: longest wait of a call, in sum, even for a burst; ns */
	uint64_t full_ns;
	enum leat_channel_wait_how wait;   /**< how receive and send wait */
	enum leat_channel_invalid invalid; /**< what receive does with a wrong frame */
	/**
	 * Interval, in ms, at which the handle checks for dead participants. It is the longest time
	 * for which a dead participant delays a handle that makes one call after another. The
	 * interval runs across calls, so short waits add up. 0: 10; at most 60,000.
	 */
	uint32_t check_ms;
};

/** A frame of a burst. */
struct leat_channel_frame {
	void *data;    /**< payload; only read when sending */
	uint32_t len;  /**< bytes of the payload, from 1 */
	uint32_t type; /**< not 0 */
	uint64_t hash; /**< hash of the type's definition: both sides can check that they agree */
	/**
	 * How many readers held the frame before and died or gave it back; 0: a new frame. If not
	 * 0, a former reader's processing of it may have taken effect. Ignored when sending.
	 */
	uint32_t redelivered;
};

/** Value of leat_channel_send(): the frame was dropped, as the writer's policy says. */
#define LEAT_CHANNEL_DROPPED 1

/**
 * The calling thread's last error in words: operation, cause and what to check; never NULL. Two
 * errors are frequent in loops that poll, and leave the words as they were: -ETIMEDOUT, and -EAGAIN
 * of a call that finds no frame or no room.
 */
LEAT_CHANNEL_API const char *leat_channel_error(void);

/** @name Blocks and handles */
/**@{*/

/** Get the bytes of memory that a channel needs; 0: invalid conf. conf NULL: the defaults. */
LEAT_CHANNEL_API uint64_t leat_channel_bytes(const struct leat_channel_conf *conf);

/**
 * Create a channel in the caller's memory. The memory must be aligned to 128 bytes, be shared by
 * the participants, and not be in use. The magic is stored last: an attach that comes earlier fails
 * with EAGAIN.
 *
 * @return 0; -EINVAL: conf is invalid, or mem is not aligned; -ENOSPC: bytes is less than
 * leat_channel_bytes()
 */
LEAT_CHANNEL_API int leat_channel_format(void *mem, uint64_t bytes,
					 const struct leat_channel_conf *conf);

/**
 * Attach to a channel in the caller's memory, which must stay mapped until leat_channel_close().
 * Safe at any time. Everything in the block is checked, and its sizes are copied: later calls trust
 * none of it.
 *
 * @param mem
 *   Start of the block, aligned to 128 bytes.
 * @param bytes
 *   Size of the memory, bytes, at least that of the block.
 * @param opts
 *   NULL for the defaults.
 * @param fds
 *   Ignored; pass NULL. leat_channel_set_eventfds() gives a participant its eventfds.
 * @return
 *   The handle, or NULL with errno:
 *   - EAGAIN: no channel is there yet
 *   - EPROTO: not a channel, another version, or impossible sizes or positions
 *   - EUSERS: the channel has its largest number of participants, and all live
 *   - EXDEV: dead participants could not be told from living ones: the channel was created in
 *     another pid or time namespace, or /proc is not that of the process's pid namespace
 *   - EINVAL: an option is out of its range, or mem is not aligned
 *   - ENOMEM: no memory for the handle
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_attach(void *mem, uint64_t bytes,
							  const struct leat_channel_opts *opts,
							  const int *fds);

/**
 * Attach to a channel at the start of the caller's file, such as a memfd. The file is mapped and
 * must not shrink; fd is duplicated.
 *
 * Where the block is in a file, each participant holds a lock on that file, which the kernel drops
 * with the process's memory. So dead participants are detected across namespaces, and exec() counts
 * as death. In memory of leat_channel_attach() there is no lock: the participants must share a time
 * namespace and a pid namespace, and see the /proc of that pid namespace. The frames of a process
 * that called exec() are recovered only when that process has ended.
 *
 * @param fd
 *   Open for reading and writing.
 * @param opts
 *   NULL for the defaults.
 * @param fds
 *   As for leat_channel_attach().
 * @return As leat_channel_attach(); EXDEV only if the file can't be opened again or can't be
 * locked.
 */
LEAT_CHANNEL_API struct leat_channel *
leat_channel_attach_fd(int fd, const struct leat_channel_opts *opts, const int *fds);

/**
 * Create a channel in POSIX shared memory, and attach. name as for shm_open(3): "/watch".
 *
 * @return The handle, or NULL with errno: as leat_channel_attach(), and EEXIST, EACCES, ... of
 * shm_open(3)
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_create(const char *name,
							  const struct leat_channel_conf *conf,
							  const struct leat_channel_opts *opts);

/**
 * Allow or forbid the library to catch SIGBUS.
 *
 * Another process can truncate shared memory by name, and files of leat_channel_attach_fd() that
 * are not sealed, while they are mapped. So a call that creates or opens such a channel installs a
 * handler for SIGBUS unless the library's handler is in place. On a fault in a channel's mapping
 * the handler replaces that mapping with private memory, and calls return -EPROTO. Payload that was
 * read in place meanwhile may be zeros; leat_channel_consume() reports this. Any other SIGBUS goes
 * to the handler that was installed before, or has the default effect.
 *
 * A handler that is installed later, and does not call its predecessor, disables the protection
 * until the next such channel is opened. In a thread that blocks SIGBUS there is no protection: the
 * fault kills the process.
 *
 * @param on
 *   False, before the first such channel: the library leaves SIGBUS alone. The default is true.
 * @return 0; -EBUSY: the handler is installed already
 */
LEAT_CHANNEL_API int leat_channel_guard(bool on);

/**
 * Attach to an existing channel by name. NULL with errno: ENOENT if there is none, or as
 * leat_channel_attach().
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_open(const char *name,
							const struct leat_channel_opts *opts);

/**
 * Remove the name of a channel. Attached participants stay attached.
 * @return 0; -ENOENT, -EACCES, ... of shm_unlink(3)
 */
LEAT_CHANNEL_API int leat_channel_unlink(const char *name);

/**
 * Create a channel in a memfd, which can't shrink, and attach. With NOTIFY_EVENTFD its eventfds are
 * created, too.
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_memfd(const struct leat_channel_conf *conf,
							 const struct leat_channel_opts *opts);

/**
 * Pass a channel of leat_channel_memfd() over a connected UNIX socket.
 * @return 0; -EINVAL: the channel has no file; -EPIPE, ... of sendmsg(2)
 */
LEAT_CHANNEL_API int leat_channel_pass(struct leat_channel *ch, int sock);

/**
 * Receive a channel that leat_channel_pass() sent, and attach. Blocks as the socket does.
 * @return The handle, or NULL with errno: as leat_channel_attach_fd(), and those of recvmsg(2);
 * ECONNRESET: the socket is closed; EPROTO also for a message without a channel's descriptors;
 * EMFILE: the process has reached its limit of open files, and the message is lost
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_accept(int sock,
							  const struct leat_channel_opts *opts);

/**
 * Attach another participant to the same memory, for another thread. NULL with errno as
 * leat_channel_attach().
 */
LEAT_CHANNEL_API struct leat_channel *leat_channel_join(struct leat_channel *ch,
							const struct leat_channel_opts *opts);

/**
 * Detach. A reserved frame becomes empty; peeked frames go to other readers. NULL is allowed.
 */
LEAT_CHANNEL_API void leat_channel_close(struct leat_channel *ch);

/**@}*/
/** @name Writing */
/**@{*/

/** Get the largest payload of a frame, in bytes: half of the buffer less the header. */
LEAT_CHANNEL_API uint32_t leat_channel_max(const struct leat_channel *ch);

/**
 * Send a frame.
 *
 * @return
 *   - 0, or LEAT_CHANNEL_DROPPED
 *   - -EAGAIN: no room
 *   - -EINVAL: length 0 or type 0
 *   - -EMSGSIZE: longer than leat_channel_max()
 *   - -ESHUTDOWN: terminated
 *   - -EPROTO: the block is corrupt
 *   - -EBUSY: this handle has a reservation
 */
LEAT_CHANNEL_API int leat_channel_send(struct leat_channel *ch, uint32_t type, uint64_t hash,
				       const void *data, uint32_t len);

/**
 * Send frames, in one reservation if they fit.
 * @return Number of frames sent, or dropped as the policy says; if 0, the error of
 * leat_channel_send().
 */
LEAT_CHANNEL_API int leat_channel_send_burst(struct leat_channel *ch,
					     const struct leat_channel_frame *frames,
					     unsigned int n);

/** What leat_channel_send_frames() did with its frames. */
struct leat_channel_sent {
	unsigned int sent;    /**< frames sent */
	unsigned int dropped; /**< frames dropped: LEAT_CHANNEL_FULL_DROP_NEWEST */
};

/**
 * Send frames as leat_channel_send_burst() does, and report how many were sent and dropped. The
 * call goes through the array in order, so if it stops early, all later frames were not sent.
 *
 * @return 0: all frames were sent or dropped; else the error of leat_channel_send() at which the
 * call stopped, with the counts so far in *done
 */
LEAT_CHANNEL_API int leat_channel_send_frames(struct leat_channel *ch,
					      const struct leat_channel_frame *frames,
					      unsigned int n, struct leat_channel_sent *done);

/**
 * Reserve a frame, to be filled in place. A handle has one reservation at a time. If the writer
 * takes long, readers pass over the reservation: the frame is then delivered after later ones, and
 * keeps its room until it is committed and read.
 * @return As leat_channel_send(); if 0, *data points to room for len bytes, aligned to 16 bytes
 */
LEAT_CHANNEL_API int leat_channel_reserve(struct leat_channel *ch, uint32_t type, uint64_t hash,
					  uint32_t len, void **data);
/** Tell whether the handle has a reservation. */
LEAT_CHANNEL_API bool leat_channel_reserved(const struct leat_channel *ch);
/** Publish the reserved frame. @return 0; -EINVAL: no reservation; -EPROTO: the block is corrupt */
LEAT_CHANNEL_API int leat_channel_commit(struct leat_channel *ch);
/**
 * Turn the reservation into an empty frame, which no reader sees.
 * @return 0; -EINVAL: no reservation; -EPROTO: the block is corrupt
 */
LEAT_CHANNEL_API int leat_channel_abort(struct leat_channel *ch);

/**
 * End the channel. Nothing can be sent any more, but frames that were sent can still be read; when
 * all are read, a reader gets -ESHUTDOWN.
 * @return 0, also if the channel has ended already; -EPROTO: the block is corrupt; -EAGAIN: other
 * writers were faster each time, try again
 */
LEAT_CHANNEL_API int leat_channel_terminate(struct leat_channel *ch);

/**@}*/
/** @name Reading */
/**@{*/

/**
 * Receive up to n frames in place. They stay in shared memory and belong to this reader until
 * leat_channel_consume() or leat_channel_give_back(). data, len, type and hash are checked copies.
 * The payload is not copied: any process that shares the memory can still change it.
 *
 * @param ch
 *   The handle.
 * @param[out] frames
 *   Room for n frames.
 * @param n
 *   1 to 64.
 * @return
 *   - number of frames
 *   - -EAGAIN: no frame is there
 *   - -EBUSY: the frames of an earlier call are still held
 *   - -ESHUTDOWN: terminated, and all frames are read; while another reader holds a frame, which it
 *     may give back, the call returns -EAGAIN
 *   - -EPROTO: the block is corrupt; or a frame's header is wrong, and the policy is INVALID_END
 *   - -EINVAL: n is out of range
 */
LEAT_CHANNEL_API int leat_channel_peek(struct leat_channel *ch, struct leat_channel_frame *frames,
				       unsigned int n);
/**
 * Finish all peeked frames.
 * @return 0; -EINVAL: no frame is held; -EPROTO: the block is corrupt, and the payload that was
 * read may be, too
 */
LEAT_CHANNEL_API int leat_channel_consume(struct leat_channel *ch);
/**
 * Finish the first n held frames; later ones stay held. @return as leat_channel_consume()
 */
LEAT_CHANNEL_API int leat_channel_consume_some(struct leat_channel *ch, unsigned int n);
/**
 * Get the held frames again.
 * @param ch
 *   The handle.
 * @param frames
 *   Filled with the first n held frames; with n 0 it may be NULL.
 * @param n
 *   Number of elements of the array frames.
 * @return Number of held frames, even if more than n; -EPROTO: a header has changed
 */
LEAT_CHANNEL_API int leat_channel_held(const struct leat_channel *ch,
				       struct leat_channel_frame *frames, unsigned int n);
/**
 * Give the held frames back. Other readers, or this one, receive them again, possibly after frames
 * that were sent later. A frame that was delivered LEAT_CHANNEL_DELIVERIES times is dropped.
 * @return 0; -EINVAL: no frame is held
 */
LEAT_CHANNEL_API int leat_channel_give_back(struct leat_channel *ch);

/**
 * Receive a frame, with a copy of its payload.
 *
 * @return
 *   Its length, or as leat_channel_peek(), or -EMSGSIZE: size is too small; the frame was given
 *   back, which counts as one of its deliveries. leat_channel_recv_frame() returns the size needed.
 */
LEAT_CHANNEL_API int leat_channel_recv(struct leat_channel *ch, void *buf, uint32_t size,
				       uint32_t *type, uint64_t *hash);

/**
 * Receive a frame, with a copy of its payload and all its properties.
 *
 * @param ch
 *   The handle.
 * @param[out] buf
 *   Buffer for the payload.
 * @param size
 *   Its size, bytes.
 * @param frame
 *   The received frame; its data is buf. Filled with -EMSGSIZE, too: then len is the size needed,
 *   and data is NULL.
 * @return As leat_channel_recv()
 */
LEAT_CHANNEL_API int leat_channel_recv_frame(struct leat_channel *ch, void *buf, uint32_t size,
					     struct leat_channel_frame *frame);

/**
 * Consume or give back the held frames, or commit or abort the reservation, depending on whether
 * two pointers are equal. This is for languages in which an exception may occur between any two
 * steps of a caller (Python's KeyboardInterrupt): one call both decides and acts.
 *
 * @param ch
 *   The handle.
 * @param reservation
 *   True: act on the reservation; false: on the held frames.
 * @param good
 *   If equal to outcome, the frames are consumed or the reservation is committed; else the frames
 *   are given back or the reservation is aborted. Neither pointer is followed, and arguments after
 *   them are ignored.
 * @param outcome
 *   The pointer that is compared with good.
 * @return As the function that is called: leat_channel_consume(), leat_channel_give_back(),
 * leat_channel_commit() or leat_channel_abort(); -EINVAL also if ch is NULL, so a caller may clear
 * its pointer once it has settled
 */
LEAT_CHANNEL_API int leat_channel_settle(struct leat_channel *ch, bool reservation,
					 const void *good, const void *outcome, ...);

/**
 * Callback of leat_channel_dispatch(). @return 0; any other value gives back this frame and all
 * later ones
 */
typedef int (*leat_channel_fn)(void *arg, const struct leat_channel_frame *frame);

/**
 * Receive up to n frames, call fn with each, and consume those for which fn returned 0.
 * @return Number of consumed frames; if none, the value that fn returned, or as
 * leat_channel_peek().
 */
LEAT_CHANNEL_API int leat_channel_dispatch(struct leat_channel *ch, unsigned int n,
					   leat_channel_fn fn, void *arg);

/**@}*/
/** @name Waiting, dead participants, inspection */
/**@{*/

/**
 * Wait, as the options say, until there may be a frame to read. A signal does not end the wait.
 * @return 0; -ETIMEDOUT: timeout_ns has passed; -ESHUTDOWN: terminated, and all frames are read,
 * including those that other readers held; -EPROTO: the block is corrupt
 */
LEAT_CHANNEL_API int leat_channel_wait(struct leat_channel *ch, uint64_t timeout_ns);
/**
 * Wait until there may be room for a frame of len bytes. @return as leat_channel_wait(), and
 * -EMSGSIZE: len is more than leat_channel_max()
 */
LEAT_CHANNEL_API int leat_channel_wait_room(struct leat_channel *ch, uint32_t len,
					    uint64_t timeout_ns);

/** What leat_channel_arm() watches. */
enum leat_channel_arm_for {
	LEAT_CHANNEL_ARM_FRAMES = 1, /**< a frame to read */
	LEAT_CHANNEL_ARM_ROOM = 2,   /**< room for a frame of a given length */
};

/**
 * Get the participant's eventfd, with NOTIFY_EVENTFD. Poll it for reading, by poll(2), epoll(7) or
 * the like, after leat_channel_arm(). The handle owns the eventfd: the caller must not read, write
 * or close it.
 * @return The descriptor, or -EOPNOTSUPP: the channel does not notify by eventfds, or
 * leat_channel_set_eventfds() was not called
 */
LEAT_CHANNEL_API int leat_channel_fd(const struct leat_channel *ch);

/**
 * Arm the descriptor: from now on it becomes readable when there may be a frame or room, and stays
 * readable until it is armed again. The call checks once more after it has armed the descriptor, so
 * no event before the poll is missed:
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
 * Each armed participant is notified of each frame, though only one gets it, and of the end. A
 * participant that dies between committing and notifying notifies none: therefore call
 * leat_channel_recover() every check_ms or so. A call that waits disarms the descriptor.
 *
 * @param ch
 *   The handle.
 * @param what
 *   An OR of LEAT_CHANNEL_ARM_*; it replaces what was armed before.
 * @param len
 *   With LEAT_CHANNEL_ARM_ROOM: payload length of the frame that needs room, in bytes.
 * @return
 *   - 0: armed
 *   - an OR of LEAT_CHANNEL_ARM_*: a frame or room is there already; not armed
 *   - -ESHUTDOWN: as leat_channel_wait(), or for room alone as leat_channel_wait_room(); not armed
 *   - -EPROTO: the block is corrupt
 *   - -EMSGSIZE: len is more than leat_channel_max()
 *   - -EINVAL: what is 0, or has unknown bits
 *   - -EOPNOTSUPP: as leat_channel_fd()
 */
LEAT_CHANNEL_API int leat_channel_arm(struct leat_channel *ch, unsigned int what, uint32_t len);

/**
 * Set the eventfds of a NOTIFY_EVENTFD channel in the caller's memory or file: one for each
 * participant that the channel may have, the same in each process and in the same order. They are
 * duplicated, and made O_NONBLOCK. Handles of leat_channel_join() share those of the first handle;
 * leat_channel_memfd() and leat_channel_accept() set them. Without eventfds a participant has no
 * descriptor and can't wake participants that poll theirs; calls that wait need no eventfds. Do not
 * call this while another thread uses a handle of the same memory.
 *
 * @param ch
 *   The handle.
 * @param fds
 *   The eventfds, n of them; the caller keeps its own.
 * @param n
 *   The largest number of participants.
 * @return 0; -EINVAL: n is not that number, or the channel does not notify by eventfds; -EBUSY:
 * eventfds are set already; -EBADF, -EMFILE, ... of fcntl(2)
 */
LEAT_CHANNEL_API int leat_channel_set_eventfds(struct leat_channel *ch, const int *fds,
					       unsigned int n);

/**
 * Look for dead participants, and recover their frames and slots. Each handle does so when it
 * attaches, and then every check_ms, within its calls that wait, send or peek. A participant that
 * makes no such call for longer than check_ms must call this function instead.
 * @return Number of dead participants that this call recovered; -EPROTO: the block is corrupt
 */
LEAT_CHANNEL_API int leat_channel_recover(struct leat_channel *ch);

/** Counters. ABORTED, RETURNED and LOST are counted for the channel only, not per participant. */
enum leat_channel_counter {
	LEAT_CHANNEL_SENT = 0,	  /**< frames committed */
	LEAT_CHANNEL_RECEIVED,	  /**< frames consumed */
	LEAT_CHANNEL_FULL,	  /**< frames for which there was no room: refused or dropped */
	LEAT_CHANNEL_OVERWRITTEN, /**< oldest frames dropped for newer ones */
	LEAT_CHANNEL_INVALID,	  /**< frames with a wrong header */
	LEAT_CHANNEL_ABORTED,	  /**< reservations of dead writers, made empty */
	/** frames to be delivered again: a reader gave them back, or died while it held them */
	LEAT_CHANNEL_RETURNED,
	/** frames dropped: their reader died holding them, or they were given back too often */
	LEAT_CHANNEL_LOST,
	LEAT_CHANNEL_COUNTERS,
};

/** A participant. */
struct leat_channel_who {
	uint32_t slot;	     /**< its number, 0 to participants_max - 1 */
	int32_t pid;	     /**< process id */
	uint64_t start;	     /**< start time of the process, clock ticks since boot; 0: unknown */
	uint32_t generation; /**< number of participants that have used the slot */
	bool alive;	     /**< false: its process or thread is known to be dead */
	bool waiting;	     /**< it sleeps until a frame or room is there */
	uint64_t count[LEAT_CHANNEL_COUNTERS]; /**< its counters since it attached */
};

/**
 * State of a channel. The fields are read one after the other while the channel is in use, so they
 * are not all of the same moment.
 */
struct leat_channel_info {
	uint64_t size,	/**< size of the buffer, bytes */
		bytes;	/**< size of the whole block, bytes, its buffer included */
	uint64_t write, /**< position at which the next frame is reserved, bytes */
		read,	/**< position up to which readers have claimed the frames, bytes */
		free;	/**< position up to which frames are done and their room is free, bytes */
	enum leat_channel_notify notify;     /**< as in leat_channel_conf */
	enum leat_channel_on_death on_death; /**< as in leat_channel_conf */
	bool ended;		  /**< leat_channel_terminate() was called: no frame follows */
	uint32_t reserved,	  /**< frames that writers are filling */
		committed,	  /**< frames ready to be read */
		reading,	  /**< frames that readers hold */
		returned,	  /**< frames to be delivered again */
		done,		  /**< frames read, whose bytes are not free yet */
		empty;		  /**< fillers at the end of the buffer, and aborted reservations */
	uint32_t participants,	  /**< number of participants now */
		participants_max; /**< largest number of participants */
	uint64_t count[LEAT_CHANNEL_COUNTERS]; /**< counters of the channel since its creation */
	/** the participants, in the first elements; the others are zeroed */
	struct leat_channel_who who[LEAT_CHANNEL_PARTICIPANTS_MAX];
};

/** Inspect a channel without changing it. @return 0; -EPROTO: impossible positions */
LEAT_CHANNEL_API int leat_channel_inspect(const struct leat_channel *ch,
					  struct leat_channel_info *info);

/**
 * Inspect a channel by name, without attaching; read access is enough.
 * @return 0; -ENOENT: no such channel; -EAGAIN: it is not ready yet; -EPROTO: as
 * leat_channel_attach(); -EACCES, ... of shm_open(3) and mmap(2)
 */
LEAT_CHANNEL_API int leat_channel_inspect_name(const char *name, struct leat_channel_info *info);

/**@}*/

#ifdef __cplusplus
}
#endif

#endif /* LEAT_CHANNEL_H */
