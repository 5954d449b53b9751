/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_FD_H
#define LEAT_FD_H

/**
 * @file
 * File descriptors of a reactor: sockets and pipes beside its endpoints.
 *
 * @code
 *	struct client {
 *		...
 *		struct leat_fd fd;
 *	};
 *
 *	ret = leat_fd_add(r, &c->fd, sock, EPOLLIN, on_socket, c);
 *	...
 *	leat_fd_del(&c->fd);
 *	close(sock);
 * @endcode
 *
 * Descriptors are level-triggered: the reactor calls the callback again as long as one of the
 * events asked for is present. A reactor that polls checks all descriptors with one system call: in
 * each turn until none has had an event for 50 us, then every 10 us. A reactor that blocks
 * (LEAT_IDLE_BLOCK) is woken by them.
 *
 * All descriptors together use one of the reactor's pollers, "descriptors". A stopping reactor
 * calls the callbacks until it has come to rest. The descriptors stay added, and their callbacks
 * are called again when the reactor is run again.
 *
 * Thread rules: as for timers: a descriptor belongs to the reactor to which it was added.
 */

#include <stdint.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_fd;
struct leat_reactor;

/**
 * Called when a descriptor is ready. It may add, change, delete and free this descriptor and any
 * other; the callback of a deleted descriptor is not called any more.
 *
 * @param f
 *   The descriptor.
 * @param events
 *   EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP or-ed, of epoll_ctl(2).
 * @param arg
 *   Argument of leat_fd_add().
 */
typedef void (*leat_fd_fn)(struct leat_fd *f, uint32_t events, void *arg);

/** A descriptor; part of its owner's object. Zeroed means not added; the fields are private. */
struct leat_fd {
	struct leat_reactor *reactor; /**< NULL: not added */
	leat_fd_fn fn;		      /**< callback */
	void *arg;		      /**< argument of fn */
	uint32_t events;	      /**< events asked for, EPOLL* or-ed */
	uint32_t slot;		      /**< index in the reactor's table */
	int fd;			      /**< the descriptor */
};

/**
 * Add a descriptor. The caller still owns it, and calls leat_fd_del() before closing it.
 *
 * @param r
 *   The reactor.
 * @param f
 *   The caller's object, zeroed; it belongs to the reactor until leat_fd_del().
 * @param fd
 *   The descriptor.
 * @param events
 *   EPOLLIN, EPOLLOUT, EPOLLRDHUP or-ed; 0: only errors and hang-ups, which are always reported.
 * @param fn
 *   Callback.
 * @param arg
 *   Last argument of fn.
 * @return
 *   0; -EALREADY: f is added already; -EPERM: wrong thread, or a descriptor that can't be polled;
 *   -EINVAL: unknown events, no function; -ENOMEM, -ENOSPC, and others as epoll_ctl(2)
 */
LEAT_API int leat_fd_add(struct leat_reactor *r, struct leat_fd *f, int fd, uint32_t events,
			 leat_fd_fn fn, void *arg);

/**
 * Change the events asked for. Makes no system call when nothing changes.
 * @return 0; -ENOENT: it is not added; others as leat_fd_add()
 */
LEAT_API int leat_fd_events_set(struct leat_fd *f, uint32_t events);

/** Delete a descriptor. Does nothing if it is not added. */
LEAT_API void leat_fd_del(struct leat_fd *f);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_FD_H */
