/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange's listener. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"

#define BACKLOG 1024
/* Work per poll. */
#define POLL_ACCEPTS 64
/* Without a descriptor for it, a connection waits this long in the listener's queue. */
#define NO_FD_PAUSE_US 100000
#define WARN_INTERVAL_US 10000000

static int
listener_arm(struct leat_exchange *x, int op)
{
	struct epoll_event ev = { .events = x->listen_paused ? 0 : EPOLLIN,
				  .data.u64 = EXCHANGE_EPOLL_LISTENER };

	return epoll_ctl(x->epfd, op, x->listen_fd, &ev);
}

/* Opens a listening socket, or returns a negative errno. */
static int
listener_open(const struct addrinfo *ai)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int on = 1, off = 0, err;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (ai->ai_family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) &&
	    bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	err = errno;
	(void)close(fd);
	return -err;
}

static const char *
listen_hint(int err)
{
	switch (err) {
	case EADDRINUSE:
		return "another program listens there; choose another port, or 0 for a free one";
	case EADDRNOTAVAIL:
		return "no interface of this host has that address";
	case EACCES:
		return "ports below 1024 need privileges";
	case EMFILE:
	case ENFILE:
		return "raise the limit of open files (ulimit -n)";
	default:
		return "check address and interfaces";
	}
}

int
leat_exchange_listen(struct leat_exchange *x, const char *addr)
{
	char host[LEAT_EXCHANGE_ADDR_MAX], port[8];
	struct addrinfo *list = NULL, *ai;
	int ret, fd = -EADDRNOTAVAIL, pass;

	if (x->listen_fd >= 0)
		return leat_err(EALREADY, "%s: listen %.80s: it listens already", x->name,
				addr == NULL ? "" : addr);
	ret = leat_addr_split(addr, true, host, sizeof(host), port, sizeof(port));
	if (ret != 0)
		return ret;
	if (leat_addr_numeric(host, port, true, &list) != 0) {
		ret = leat_addr_blocking(host, port, &list);
		if (ret != 0)
			return leat_err(EHOSTUNREACH,
					"%s: listen %s: the host's name can't be resolved: %s",
					x->name, addr, gai_strerror(ret));
	}
	/*
	 * Of a host the first address that works. For all interfaces a socket of IPv6, which serves
	 * IPv4 too, and only if there is no IPv6 one of IPv4.
	 */
	for (pass = 0; pass < 2 && fd < 0; pass++) {
		for (ai = list; ai != NULL && fd < 0; ai = ai->ai_next) {
			bool first = host[0] != '\0' || ai->ai_family == AF_INET6;

			if (first == (pass == 0))
				fd = listener_open(ai);
		}
	}
	freeaddrinfo(list);
	if (fd < 0)
		return leat_err(-fd, "%s: listen %s: %s: %s", x->name, addr, strerror(-fd),
				listen_hint(-fd));

	x->listen_fd = fd;
	x->listen_paused = false;
	if (listener_arm(x, EPOLL_CTL_ADD) != 0) {
		ret = leat_err(errno, "%s: listen %s: epoll_ctl: %s", x->name, addr,
			       strerror(errno));
		(void)close(fd);
		x->listen_fd = -1;
		return ret;
	}
	return 0;
}

int
leat_exchange_listen_addr(const struct leat_exchange *x, char *addr, size_t len)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = sizeof(ss);
	char str[LEAT_EXCHANGE_ADDR_MAX];

	if (x->listen_fd < 0)
		return leat_err(ENOENT, "%s: it does not listen", x->name);
	if (getsockname(x->listen_fd, (struct sockaddr *)&ss, &ss_len) != 0)
		return leat_err(errno, "%s: getsockname: %s", x->name, strerror(errno));
	leat_addr_str(str, sizeof(str), (struct sockaddr *)&ss, ss_len);
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

/* One without HELLO goes, unless its HELLO is there and only was not read yet. */
static void
pending_give_way(struct leat_exchange *x)
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
			/* Of the connection, not of the listener: it is gone already. */
			continue;
		}
		x->stats.accepted++;
		if (x->nb_pending >= x->max_pending)
			pending_give_way(x);
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
