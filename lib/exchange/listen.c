/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange's listener. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"
#include "exchange_pvt.h"

#define OOB_BACKLOG 1024
/* Work per poll. */
#define OOB_POLL_ACCEPTS 64
/* Without a descriptor for it, a connection waits this long in the listener's queue. */
#define OOB_NO_FD_PAUSE_US 100000
#define OOB_WARN_INTERVAL_US 10000000

static int
listener_arm(struct leat_oob *oob, int op)
{
	struct epoll_event ev = { .events = oob->listen_paused ? 0 : EPOLLIN,
				  .data.u64 = OOB_EPOLL_LISTENER };

	return epoll_ctl(oob->epfd, op, oob->listen_fd, &ev);
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
	    bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, OOB_BACKLOG) == 0)
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
leat_oob_listen(struct leat_oob *oob, const char *addr)
{
	char host[LEAT_OOB_ADDR_MAX], port[8];
	struct addrinfo *list = NULL, *ai;
	int ret, fd = -EADDRNOTAVAIL, pass;

	if (oob->listen_fd >= 0)
		return leat_err(EALREADY, "%s: listen %.80s: it listens already", oob->name,
				addr == NULL ? "" : addr);
	ret = leat_addr_split(addr, true, host, sizeof(host), port, sizeof(port));
	if (ret != 0)
		return ret;
	if (leat_addr_numeric(host, port, true, &list) != 0) {
		ret = leat_addr_blocking(host, port, &list);
		if (ret != 0)
			return leat_err(EHOSTUNREACH,
					"%s: listen %s: the host's name can't be resolved: %s",
					oob->name, addr, gai_strerror(ret));
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
		return leat_err(-fd, "%s: listen %s: %s: %s", oob->name, addr, strerror(-fd),
				listen_hint(-fd));

	oob->listen_fd = fd;
	oob->listen_paused = false;
	if (listener_arm(oob, EPOLL_CTL_ADD) != 0) {
		ret = leat_err(errno, "%s: listen %s: epoll_ctl: %s", oob->name, addr,
			       strerror(errno));
		(void)close(fd);
		oob->listen_fd = -1;
		return ret;
	}
	return 0;
}

int
leat_oob_listen_addr(const struct leat_oob *oob, char *addr, size_t len)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = sizeof(ss);
	char str[LEAT_OOB_ADDR_MAX];

	if (oob->listen_fd < 0)
		return leat_err(ENOENT, "%s: it does not listen", oob->name);
	if (getsockname(oob->listen_fd, (struct sockaddr *)&ss, &ss_len) != 0)
		return leat_err(errno, "%s: getsockname: %s", oob->name, strerror(errno));
	leat_addr_str(str, sizeof(str), (struct sockaddr *)&ss, ss_len);
	if (strlen(str) >= len)
		return leat_err(ENOSPC, "%s: the address has %zu bytes", oob->name,
				strlen(str) + 1);
	memcpy(addr, str, strlen(str) + 1);
	return 0;
}

static void
listener_pause(struct leat_oob *oob, int err)
{
	oob->stats.no_fd++;
	oob->listen_paused = true;
	if (listener_arm(oob, EPOLL_CTL_MOD) != 0)
		oob->listen_paused = false;
	else
		leat_wheel_add(&oob->wheel, &oob->listen_timer,
			       oob->now + leat_us_to_cycles(OOB_NO_FD_PAUSE_US));
	if (oob->warned == 0 || oob->now - oob->warned > leat_us_to_cycles(OOB_WARN_INTERVAL_US)) {
		oob->warned = oob->now;
		LEAT_LOG(WARNING, fabric, "%s: can't accept a connection: %s%s; will try again",
			 oob->name, strerror(err),
			 err == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	}
}

void
oob_listener_event(struct leat_oob *oob)
{
	struct sockaddr_storage ss;
	unsigned int i;

	for (i = 0; i < OOB_POLL_ACCEPTS; i++) {
		socklen_t len = sizeof(ss);
		int fd = accept4(oob->listen_fd, (struct sockaddr *)&ss, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				return;
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM) {
				listener_pause(oob, errno);
				return;
			}
			/* Of the connection, not of the listener: it is gone already. */
			continue;
		}
		oob->stats.accepted++;
		if (oob->nb_pending >= oob->max_pending) {
			oob->stats.dropped++;
			oob_slot_put(TAILQ_FIRST(&oob->pending));
		}
		oob_conn_accepted(oob, fd, (struct sockaddr *)&ss, len);
	}
}

void
oob_listener_resume(struct leat_oob *oob)
{
	oob->listen_paused = false;
	if (listener_arm(oob, EPOLL_CTL_MOD) != 0)
		listener_pause(oob, errno);
}
