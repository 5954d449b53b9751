/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * File descriptors of a reactor: one epoll set, which a poller checks.
 *
 *     epoll set                          table                      owner's object
 *       socket: {slot 5, generation 2}     5: generation 2, f --->    struct leat_fd
 *
 * An event taken from the kernel may be about a descriptor that a callback has deleted since, and
 * another descriptor may by now have the same slot, number and memory. So an event names a slot and
 * its generation, and each use of a slot begins a new generation.
 *
 * A check is one system call. While descriptors are active the poller checks in each turn; after
 * ACTIVE_US without events it checks every LOOK_US, so that silent sockets hardly slow a reactor
 * that spins for its endpoints. A reactor that blocks has this set in its own epoll set (block.c).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_errno.h>

#include <leat_error.h>
#include <leat_log.h>

#include "leat_fd.h"
#include "reactor_pvt.h"

/* Maximum number of events taken per check; the others wait for the next turn's check. */
#define EVENTS 64
/* Check in each turn for this long after the last event, then once every LOOK_US. */
#define ACTIVE_US 50
#define LOOK_US 10

#define SLOTS_MIN 16
#define NO_SLOT UINT32_MAX
#define EVENTS_ASKED ((uint32_t)(EPOLLIN | EPOLLOUT | EPOLLRDHUP))
/* epoll reports these whether they were asked for or not. */
#define EVENTS_ALWAYS ((uint32_t)(EPOLLERR | EPOLLHUP))

struct fd_slot {
	struct leat_fd *f; /* NULL: the slot is free */
	uint32_t generation;
	uint32_t next; /* next free slot */
};

struct reactor_fds {
	int epfd;
	uint32_t nb_added;
	uint64_t active_until; /* cycles */
	uint64_t look_at;      /* time of the next check, cycles */
	struct fd_slot *slots;
	uint32_t nb_slots;
	uint32_t free; /* first free slot, or NO_SLOT */
	struct leat_poller *poller;
};

static uint64_t
key_of(uint32_t slot, uint32_t generation)
{
	return (uint64_t)generation << 32 | slot;
}

/* Return the descriptor that an event is about; NULL if it was deleted since. */
static struct leat_fd *
fd_of(const struct reactor_fds *fds, uint64_t key)
{
	const struct fd_slot *s = &fds->slots[(uint32_t)key];

	return s->generation == (uint32_t)(key >> 32) ? s->f : NULL;
}

/* Check once for events, and call the callbacks. */
static int
fds_poll(void *arg, uint64_t now)
{
	struct reactor_fds *fds = arg;
	struct epoll_event ev[EVENTS];
	int i, n, told = 0;

	if (fds->nb_added == 0 || (now >= fds->active_until && now < fds->look_at))
		return 0;
	n = epoll_wait(fds->epfd, ev, EVENTS, 0);
	if (n <= 0) {
		fds->look_at = leat_time_add(now, leat_us_to_cycles(LOOK_US));
		/*
		 * A signal is no failure. Any other error would recur in each turn: fail the
		 * poller.
		 */
		return n == 0 || errno == EINTR ? 0 : -errno;
	}
	fds->active_until = leat_time_add(now, leat_us_to_cycles(ACTIVE_US));
	for (i = 0; i < n; i++) {
		struct leat_fd *f = fd_of(fds, ev[i].data.u64);
		uint32_t events;

		if (f == NULL)
			continue;
		/* A callback of this round may have changed the events asked for. */
		events = ev[i].events & (f->events | EVENTS_ALWAYS);
		if (events == 0)
			continue;
		told++;
		f->fn(f, events, f->arg);
	}
	return told;
}

static int
fds_open(struct leat_reactor *r)
{
	struct reactor_fds *fds = calloc(1, sizeof(*fds));
	int ret;

	if (fds == NULL)
		return leat_err(ENOMEM, "%s: descriptors: no memory", r->name);
	fds->free = NO_SLOT;
	fds->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (fds->epfd < 0) {
		ret = leat_err(errno, "%s: epoll set: %s", r->name, strerror(errno));
		free(fds);
		return ret;
	}
	fds->poller = leat_reactor_poller_add(r, "descriptors", fds_poll, fds, 0);
	if (fds->poller == NULL) {
		ret = -rte_errno;
		(void)close(fds->epfd);
		free(fds);
		return ret;
	}
	r->fds = fds;
	/* The epoll set itself wakes a reactor that blocks. */
	return leat_poller_local_set(fds->poller);
}

/* Make room for one more descriptor. */
static int
slots_grow(struct leat_reactor *r)
{
	struct reactor_fds *fds = r->fds;
	uint32_t i, n = RTE_MAX(fds->nb_slots * 2, (uint32_t)SLOTS_MIN);
	struct fd_slot *slots;

	if (fds->free != NO_SLOT)
		return 0;
	/* The kernel's limit on descriptors is far below INT32_MAX. */
	if (n > INT32_MAX)
		return leat_err(ENOSPC, "%s: descriptors: %u are added", r->name, fds->nb_added);
	slots = realloc(fds->slots, n * sizeof(*slots));
	if (slots == NULL)
		return leat_err(ENOMEM, "%s: descriptors: no memory for %u", r->name, n);
	for (i = fds->nb_slots; i < n; i++)
		slots[i] = (struct fd_slot){ .next = i + 1 < n ? i + 1 : NO_SLOT };
	fds->slots = slots;
	fds->free = fds->nb_slots;
	fds->nb_slots = n;
	return 0;
}

static int
set_ctl(const struct leat_reactor *r, const struct leat_fd *f, int op, uint32_t events)
{
	const struct reactor_fds *fds = r->fds;
	struct epoll_event ev = {
		.events = events,
		.data.u64 = key_of(f->slot, fds->slots[f->slot].generation),
	};

	return epoll_ctl(fds->epfd, op, f->fd, &ev) == 0 ? 0 : -errno;
}

int
leat_fd_add(struct leat_reactor *r, struct leat_fd *f, int fd, uint32_t events, leat_fd_fn fn,
	    void *arg)
{
	struct reactor_fds *fds;
	struct fd_slot *s;
	int ret;

	if (fn == NULL || (events & ~EVENTS_ASKED) != 0)
		return leat_err(EINVAL, "%s: add descriptor %d: events 0x%x, function %s", r->name,
				fd, events, fn == NULL ? "missing" : "given");
	ret = reactor_owned(r, "add a descriptor");
	if (ret < 0)
		return ret;
	if (f->reactor != NULL)
		return leat_err(EALREADY, "%s: add descriptor %d: descriptor %d is added", r->name,
				fd, f->fd);
	if (r->fds == NULL && (ret = fds_open(r)) < 0)
		return ret;
	ret = slots_grow(r);
	if (ret < 0)
		return ret;

	fds = r->fds;
	*f = (struct leat_fd){
		.fn = fn,
		.arg = arg,
		.events = events,
		.slot = fds->free,
		.fd = fd,
	};
	ret = set_ctl(r, f, EPOLL_CTL_ADD, events);
	if (ret < 0)
		return leat_err(-ret, "%s: add descriptor %d: %s", r->name, fd, strerror(-ret));
	s = &fds->slots[f->slot];
	fds->free = s->next;
	s->f = f;
	f->reactor = r;
	fds->nb_added++;
	/* Check in the next turn, whenever the last check was. */
	fds->look_at = 0;
	return 0;
}

int
leat_fd_events_set(struct leat_fd *f, uint32_t events)
{
	struct leat_reactor *r = f->reactor;
	int ret;

	if (r == NULL)
		return leat_err(ENOENT, "descriptor %d: events: it is not added", f->fd);
	if ((events & ~EVENTS_ASKED) != 0)
		return leat_err(EINVAL, "%s: descriptor %d: events 0x%x", r->name, f->fd, events);
	ret = reactor_owned(r, "change a descriptor");
	if (ret < 0 || events == f->events)
		return ret;
	ret = set_ctl(r, f, EPOLL_CTL_MOD, events);
	if (ret < 0)
		return leat_err(-ret, "%s: descriptor %d: events: %s", r->name, f->fd,
				strerror(-ret));
	f->events = events;
	r->fds->look_at = 0;
	return 0;
}

void
leat_fd_del(struct leat_fd *f)
{
	struct leat_reactor *r = f->reactor;
	struct reactor_fds *fds;
	struct fd_slot *s;

	if (r == NULL)
		return;
	fds = r->fds;
	/*
	 * If a descriptor was closed before, but a duplicate of it is open, it stays in the epoll
	 * set and keeps waking the reactor.
	 */
	if (epoll_ctl(fds->epfd, EPOLL_CTL_DEL, f->fd, NULL) < 0)
		LEAT_LOG(WARNING, reactor, "%s: descriptor %d was closed before it was deleted: %s",
			 r->name, f->fd, strerror(errno));
	s = &fds->slots[f->slot];
	s->f = NULL;
	s->generation++;
	s->next = fds->free;
	fds->free = f->slot;
	fds->nb_added--;
	f->reactor = NULL;
}

int
reactor_fds_epfd(const struct leat_reactor *r)
{
	return r->fds->epfd;
}

void
reactor_fds_look(struct leat_reactor *r)
{
	r->fds->look_at = 0;
}

void
reactor_fds_fini(struct leat_reactor *r)
{
	struct reactor_fds *fds = r->fds;
	uint32_t i;

	if (fds == NULL)
		return;
	if (fds->nb_added > 0)
		LEAT_LOG(WARNING, reactor,
			 "%s: destroyed with %u descriptors that were not deleted", r->name,
			 fds->nb_added);
	for (i = 0; i < fds->nb_slots; i++)
		if (fds->slots[i].f != NULL)
			fds->slots[i].f->reactor = NULL;
	(void)close(fds->epfd);
	free(fds->slots);
	free(fds);
	r->fds = NULL;
}
