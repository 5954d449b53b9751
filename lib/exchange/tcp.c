/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange over TCP. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_error.h"
#include "leat_log.h"

#define BACKLOG 1024

static void
tcp_sockopt(struct exchange_conn *c, int level, int name, int value, const char *what)
{
	if (setsockopt(c->fd, level, name, &value, sizeof(value)) != 0)
		LEAT_LOG(DEBUG, exchange, "%s: setting %s of the connection with %s failed: %s",
			 c->x->name, what, c->addr, strerror(errno));
}

static int
tcp_check(const struct leat_exchange *x, const char *addr)
{
	char host[LEAT_EXCHANGE_ADDR_MAX], port[8];

	(void)x;
	return leat_addr_split(addr, false, host, sizeof(host), port, sizeof(port));
}

static bool
tcp_connected(struct exchange_conn *c)
{
	struct sockaddr_storage us, them;
	socklen_t us_len = sizeof(us), them_len = sizeof(them);

	/*
	 * TCP can connect a socket to itself: when it connects to a free port of this host and the
	 * kernel chose the same number for its local port.
	 */
	if (getsockname(c->fd, (struct sockaddr *)&us, &us_len) != 0 ||
	    getpeername(c->fd, (struct sockaddr *)&them, &them_len) != 0) {
		exchange_dial_failed(c, errno == ENOTCONN ? ECONNRESET : errno);
		return false;
	}
	if (us_len == them_len && memcmp(&us, &them, us_len) == 0) {
		exchange_dial_failed(c, ECONNREFUSED);
		return false;
	}
	tcp_sockopt(c, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	return true;
}

static void
source_key(uint8_t *key, const struct sockaddr *sa)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	memset(key, 0, EXCHANGE_SOURCE_KEY);
	if (sa->sa_family == AF_INET) {
		memcpy(key, mapped, sizeof(mapped));
		memcpy(key + sizeof(mapped), &in->sin_addr, sizeof(in->sin_addr));
	} else if (sa->sa_family == AF_INET6) {
		bool whole = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) ||
			     IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);

		memcpy(key, &in6->sin6_addr, whole ? EXCHANGE_SOURCE_KEY : EXCHANGE_SOURCE_KEY / 2);
	}
}

static bool
tcp_accepted(struct exchange_conn *c, const struct sockaddr *sa, socklen_t len)
{
	uint8_t key[EXCHANGE_SOURCE_KEY];

	leat_addr_str(c->addr, sizeof(c->addr), sa, len);
	source_key(key, sa);
	exchange_source_hold(c, key);
	tcp_sockopt(c, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	return true;
}

/* Nothing to do: when the peer dies, its kernel or keep-alive (tcp_up()) ends the connection. */
static void
tcp_watch(struct exchange_conn *c)
{
	(void)c;
}

static void
tcp_up(struct exchange_conn *c)
{
	uint32_t dead = c->x->dead_after_ms;

	/*
	 * After a second of silence this host's kernel probes the peer's kernel, every second. It
	 * gives up at the first probe after TCP_USER_TIMEOUT, which is therefore set a second
	 * shorter than dead_after_ms.
	 */
	tcp_sockopt(c, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
	tcp_sockopt(c, IPPROTO_TCP, TCP_KEEPIDLE, 1, "TCP_KEEPIDLE");
	tcp_sockopt(c, IPPROTO_TCP, TCP_KEEPINTVL, 1, "TCP_KEEPINTVL");
	tcp_sockopt(c, IPPROTO_TCP, TCP_KEEPCNT, (int)(dead / 1000), "TCP_KEEPCNT");
	tcp_sockopt(c, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(dead - 1000), "TCP_USER_TIMEOUT");
}

static ssize_t
tcp_send(struct exchange_conn *c)
{
	return send(c->fd, c->tx + c->tx_off, (size_t)(c->tx_len - c->tx_off),
		    MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t
tcp_recv(struct exchange_conn *c, const char **why)
{
	(void)why;
	return recv(c->fd, c->rx + c->rx_len, sizeof(c->rx) - c->rx_len, MSG_DONTWAIT);
}

/* Open a listening socket. @return the socket, or a negative errno. */
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

static int
tcp_listen(struct leat_exchange *x, const char *addr)
{
	char host[LEAT_EXCHANGE_ADDR_MAX], port[8];
	struct addrinfo *list = NULL, *ai;
	int ret, fd = -EADDRNOTAVAIL, pass;

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
	 * If the address names a host, use the first of its addresses that works. For all
	 * interfaces, open an IPv6 socket, which serves IPv4, too, and an IPv4 socket only if that
	 * fails.
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
	return fd;
}

static int
tcp_listen_addr(const struct leat_exchange *x, char *addr, size_t len)
{
	struct sockaddr_storage ss;
	socklen_t ss_len = sizeof(ss);

	if (getsockname(x->listen_fd, (struct sockaddr *)&ss, &ss_len) != 0)
		return leat_err(errno, "%s: getsockname: %s", x->name, strerror(errno));
	leat_addr_str(addr, len, (struct sockaddr *)&ss, ss_len);
	return 0;
}

/* Nothing to do: a closed TCP socket leaves no name behind. */
static void
tcp_leaves_no_name(struct leat_exchange *x)
{
	(void)x;
}

const struct exchange_transport exchange_tcp = {
	.local = false,
	.check = tcp_check,
	.dial = exchange_tcp_dial,
	.dial_next = exchange_tcp_dial_next,
	.connected = tcp_connected,
	.accepted = tcp_accepted,
	.watch = tcp_watch,
	.up = tcp_up,
	.send = tcp_send,
	.recv = tcp_recv,
	.listen = tcp_listen,
	.listen_addr = tcp_listen_addr,
	.unlisten = tcp_leaves_no_name,
	.peer_died = tcp_leaves_no_name,
};
