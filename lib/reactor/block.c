/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocking: the owner (the thread that runs the reactor) sleeps until an endpoint, a descriptor,
 * another thread or a timer has work for it.
 *
 *     owner                                      others
 *     word: compare NONE, exchange for BLOCKED   word = WORK, it was BLOCKED:
 *     arm each endpoint: work there?               write to the eventfd
 *     epoll_wait: endpoints, eventfd, timeout
 *     word: back to NONE; disarm
 *
 * The owner first announces the sleep, and then looks for work: it finds work that came before the
 * announcement, and work that comes later makes a descriptor readable. For messages the
 * exchange of the word does both (call.c); for endpoints leat_ep_arm() does; for descriptors (fd.c)
 * the wait itself does, as it ends at once when one is ready.
 *
 * The epoll set holds, each with the data given in parentheses: the eventfd (BLOCK_ATTN), the
 * descriptor of each endpoint that is polled (number of its poller), and the epoll set of the
 * descriptors (BLOCK_FDS). When an endpoint's descriptor was readable, leat_ep_events() is called
 * at once, since an event may be the reason: until the event is taken, it keeps the descriptor
 * readable, which would wake the owner again and again.
 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

/* Maximum number of events taken per wake-up; the others wait for the next one. */
#define EVENTS 32

static int
set_add(struct leat_reactor *r, int fd, uint32_t what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(r->block_epfd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

static int
set_open(struct leat_reactor *r)
{
	int ret, fd;

	if (RLX_LOAD(r->attn->event) == 0) {
		fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (fd < 0)
			return -errno;
		RLX_STORE(r->attn->event, fd + 1);
	}
	r->block_epfd = epoll_create1(EPOLL_CLOEXEC);
	if (r->block_epfd < 0)
		return -errno;
	ret = set_add(r, r->attn->event - 1, BLOCK_ATTN);
	if (ret < 0)
		reactor_block_fini(r);
	return ret;
}

void
reactor_block_fini(struct leat_reactor *r)
{
	if (r->block_epfd >= 0)
		(void)close(r->block_epfd);
	r->block_epfd = -1;
}

/* Add an endpoint's descriptor to the epoll set. @return 0, or a negative errno with leat_err() */
static int
watch(struct leat_reactor *r, struct leat_poller *p)
{
	int ret;

	if (p->ep.watched || p->ep.shut)
		return 0;
	ret = leat_ep_fd(p->ep.ep);
	if (ret < 0)
		return ret;
	p->ep.fd = ret;
	if (r->block_epfd < 0 && (ret = set_open(r)) < 0)
		return leat_err(-ret, "epoll set: %s", strerror(-ret));
	ret = set_add(r, p->ep.fd, (uint32_t)(p - r->pollers));
	if (ret < 0)
		return leat_err(-ret, "epoll_ctl: %s", strerror(-ret));
	p->ep.watched = true;
	return 0;
}

/* Put the descriptors' epoll set, readable while one of them is ready, into the reactor's set. */
static int
watch_fds(struct leat_reactor *r)
{
	int ret = r->block_fds ? 0 : set_add(r, reactor_fds_epfd(r), BLOCK_FDS);

	r->block_fds = ret == 0;
	return ret;
}

void
reactor_block_forget(struct leat_poller *p)
{
	struct leat_reactor *r = p->reactor;

	r->block_stale = true;
	if (!p->ep.watched)
		return;
	p->ep.watched = false;
	/* If the endpoint was closed first, the kernel has removed its descriptor already. */
	if (epoll_ctl(r->block_epfd, EPOLL_CTL_DEL, p->ep.fd, NULL) < 0 && errno != EBADF &&
	    errno != ENOENT)
		LEAT_LOG(DEBUG, reactor, "%s: %s: epoll_ctl: %s", r->name, p->name,
			 strerror(errno));
}

static void
report_unwakeable(struct leat_reactor *r, struct leat_poller *p, const char *why)
{
	if (p->told_wait)
		return;
	p->told_wait = true;
	LEAT_LOG(
		NOTICE, reactor,
		"%s: idle policy block: poller %s can't wake it (%s): it sleeps at most %u us at a "
		"time instead",
		r->name, p->name, why, RLX_LOAD(r->sleep_max_us));
}

static void
report_no_set(struct leat_reactor *r, int err)
{
	if (r->block_reported)
		return;
	r->block_reported = true;
	LEAT_LOG(NOTICE, reactor,
		 "%s: idle policy block: no epoll set (%s): it sleeps at most %u us at a time "
		 "instead",
		 r->name, strerror(err), RLX_LOAD(r->sleep_max_us));
}

/* Check whether everything that is polled can wake the reactor; cached until pollers change. */
bool
reactor_block_possible(struct leat_reactor *r)
{
	int ret = 0;
	uint32_t i;

	if (likely(!r->block_stale))
		return r->block_ok;
	r->block_stale = false;
	r->block_ok = true;
	for (i = 0; i < r->nb_active; i++) {
		struct leat_poller *p = r->active[i];

		if (p->state != LEAT_POLLER_WAITING || p->local)
			continue;
		if (!reactor_poller_is_ep(p)) {
			report_unwakeable(r, p, "it is called each turn");
			r->block_ok = false;
		} else if (watch(r, p) < 0) {
			report_unwakeable(r, p, leat_err_msg());
			r->block_ok = false;
		}
	}
	/* Open the set even if there are no endpoints: messages and descriptors need it. */
	if (r->block_ok && r->block_epfd < 0)
		ret = set_open(r);
	if (r->block_ok && r->fds != NULL && ret == 0)
		ret = watch_fds(r);
	if (ret < 0) {
		report_no_set(r, -ret);
		r->block_ok = false;
	}
	return r->block_ok;
}

/*
 * Arm the endpoints. *n: number of active pollers that disarm() must look at. @return 0; -EAGAIN:
 * an endpoint has work; -EBUSY: sleep for a short while only
 */
static int
arm(struct leat_reactor *r, uint32_t *n)
{
	int ret, sum = 0;
	uint32_t i;

	for (i = 0; i < r->nb_active; i++) {
		struct leat_poller *p = r->active[i];

		if (!p->ep.watched)
			continue;
		ret = leat_ep_arm(p->ep.ep);
		if (ret == -EAGAIN) {
			*n = i + 1;
			reactor_ep_events_start(p);
			return ret;
		}
		if (ret == -ESHUTDOWN)
			reactor_block_forget(p);
		else if (ret < 0)
			sum = -EBUSY;
	}
	*n = i;
	return sum;
}

/* Withdraw the announcement of a sleep. @return whether another thread has stored ATTN_WORK */
static bool
disarm(struct leat_reactor *r, uint32_t n)
{
	uint32_t i, blocked = ATTN_BLOCKED;

	for (i = 0; i < n; i++)
		if (r->active[i]->ep.watched)
			leat_ep_disarm(r->active[i]->ep.ep);
	/* On failure a sender has stored ATTN_WORK: leave it for the next turn's housekeeping. */
	return !__atomic_compare_exchange_n(&r->attn->word, &blocked, ATTN_NONE, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void
woken(struct leat_reactor *r, const struct epoll_event *ev, int n, bool attn)
{
	bool event = false;
	uint64_t count;
	int i;

	for (i = 0; i < n; i++) {
		struct leat_poller *p;

		if (ev[i].data.u32 == BLOCK_ATTN) {
			attn = true;
			/*
			 * A sender may have changed the word but not yet written to the eventfd:
			 * then the next wait ends at once.
			 */
			if (read(r->attn->event - 1, &count, sizeof(count)) < 0 && errno != EAGAIN)
				LEAT_LOG(DEBUG, reactor, "%s: eventfd: %s", r->name,
					 strerror(errno));
			continue;
		}
		event = true;
		if (ev[i].data.u32 == BLOCK_FDS) {
			reactor_fds_look(r);
			continue;
		}
		p = &r->pollers[ev[i].data.u32];
		if (p->ep.watched)
			reactor_ep_events_start(p);
	}
	RLX_ADD(r->blocks, 1);
	if (event)
		RLX_ADD(r->wake_events, 1);
	else if (attn)
		RLX_ADD(r->wake_messages, 1);
	else
		RLX_ADD(r->wake_timeouts, 1);
}

/* Block after a turn without work. Returns the time at which it ended. */
uint64_t
reactor_block(struct leat_reactor *r, uint64_t now)
{
	uint32_t armed = 0, none = ATTN_NONE;
	struct epoll_event ev[EVENTS];
	uint64_t until, end;
	int ret, n;

	if (!reactor_idle_spun(r, now))
		return now;
	until = RTE_MIN(leat_wheel_next(&r->wheel), r->stop_deadline);
	if (until <= now)
		return now;
	if (!__atomic_compare_exchange_n(&r->attn->word, &none, ATTN_BLOCKED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return now;
	ret = arm(r, &armed);
	if (ret == -EAGAIN) {
		(void)disarm(r, armed);
		return now;
	}
	if (ret < 0) {
		until = RTE_MIN(until, reactor_idle_step(r, now));
		r->step_us *= 2;
	}
	end = leat_now();
	n = reactor_sys->block(r->block_epfd, ev, EVENTS,
			       until == UINT64_MAX
				       ? REACTOR_WAIT_FOREVER
				       : leat_cycles_to_ns(until - RTE_MIN(end, until)));
	woken(r, ev, n, disarm(r, armed));
	end = leat_now();
	leat_wheel_advance(&r->wheel, end);
	RLX_ADD(r->sleep_cycles, end - now);
	return end;
}
