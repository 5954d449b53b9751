/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange's listener. */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"

/* Maximum number of connections accepted in one poll. */
#define POLL_ACCEPTS 64
/* Pause of accepting when no descriptor is free. Connections wait in the listener's queue. */
#define NO_FD_PAUSE_US 100000
#define WARN_INTERVAL_US 10000000

static int
listener_arm(struct leat_exchange *x, int op)
{
	struct epoll_event ev = { .events = x->listen_paused ? 0 : EPOLLIN,
				  .data.u64 = EXCHANGE_EPOLL_LISTENER };

	return epoll_ctl(x->epfd, op, x->listen_fd, &ev);
}

int
leat_exchange_listen(struct leat_exchange *x, const char *addr)
{
	int ret;

	if (x->listen_fd >= 0)
		return leat_err(EALREADY, "%s: listen %.80s: it listens already", x->name,
				addr == NULL ? "" : addr);
	ret = x->transport->listen(x, addr);
	if (ret < 0)
		return ret;
	x->listen_fd = ret;
	x->listen_paused = false;
	if (listener_arm(x, EPOLL_CTL_ADD) != 0) {
		ret = leat_err(errno, "%s: listen %s: epoll_ctl: %s", x->name, addr,
			       strerror(errno));
		exchange_listener_close(x);
		return ret;
	}
	return 0;
}

void
exchange_listener_close(struct leat_exchange *x)
{
	if (x->listen_fd < 0)
		return;
	x->transport->unlisten(x);
	(void)close(x->listen_fd);
	x->listen_fd = -1;
}

int
leat_exchange_listen_addr(const struct leat_exchange *x, char *addr, size_t len)
{
	char str[LEAT_EXCHANGE_ADDR_MAX];
	int ret;

	if (x->listen_fd < 0)
		return leat_err(ENOENT, "%s: asked for its address, but it does not listen",
				x->name);
	ret = x->transport->listen_addr(x, str, sizeof(str));
	if (ret != 0)
		return ret;
	if (strlen(str) >= len)
		return leat_err(ENOSPC, "%s: the address has %zu bytes", x->name, strlen(str) + 1);
	memcpy(addr, str, strlen(str) + 1);
	return 0;
}

static void
listener_pause(struct leat_exchange *x, int err)
{
	x->stats.no_fd++;
	x->listen_paused = true;
	if (listener_arm(x, EPOLL_CTL_MOD) != 0)
		x->listen_paused = false;
	else
		leat_wheel_add(&x->wheel, &x->listen_timer,
			       x->now + leat_us_to_cycles(NO_FD_PAUSE_US));
	if (x->warned == 0 || x->now - x->warned > leat_us_to_cycles(WARN_INTERVAL_US)) {
		x->warned = x->now;
		LEAT_LOG(WARNING, exchange, "%s: can't accept a connection: %s%s; will try again",
			 x->name, strerror(err),
			 err == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	}
}

/* Drop a connection without HELLO, unless its HELLO has arrived but was not read yet. */
static void
pending_evict(struct leat_exchange *x)
{
	struct exchange_conn *c = exchange_source_pending_victim(x);
	uint16_t gen = c->gen;

	exchange_conn_event(c, EPOLLIN);
	if (c->gen != gen || c->state != CONN_HELLO_WAIT)
		return;
	x->stats.dropped++;
	exchange_slot_put(c);
}

void
exchange_listener_event(struct leat_exchange *x)
{
	struct sockaddr_storage ss;
	unsigned int i;

	for (i = 0; i < POLL_ACCEPTS; i++) {
		socklen_t len = sizeof(ss);
		int fd = accept4(x->listen_fd, (struct sockaddr *)&ss, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				return;
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM) {
				listener_pause(x, errno);
				return;
			}
			/* The error is about a connection that ended before it was accepted. */
			continue;
		}
		x->stats.accepted++;
		if (x->nb_pending >= x->max_pending)
			pending_evict(x);
		exchange_conn_accepted(x, fd, (struct sockaddr *)&ss, len);
	}
}

void
exchange_listener_resume(struct leat_exchange *x)
{
	x->listen_paused = false;
	if (listener_arm(x, EPOLL_CTL_MOD) != 0)
		listener_pause(x, errno);
}
