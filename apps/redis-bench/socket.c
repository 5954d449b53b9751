/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections over TCP and UNIX sockets. */

#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <leat_error.h>

#include "transport.h"

#define BACKLOG 511

static uint32_t
to_epoll(uint32_t ready)
{
	return ((ready & REDB_READABLE) != 0 ? EPOLLIN : 0u) |
	       ((ready & REDB_WRITABLE) != 0 ? EPOLLOUT : 0u);
}

static void
on_events(struct leat_fd *f, uint32_t events, void *arg)
{
	struct redb_conn *c = arg;
	uint32_t ready = 0;

	(void)f;
	if ((events & EPOLLIN) != 0)
		ready |= REDB_READABLE;
	if ((events & EPOLLOUT) != 0)
		ready |= REDB_WRITABLE;
	/* on_ready() reads what arrived before the end. */
	if ((events & (EPOLLERR | EPOLLHUP)) != 0)
		ready |= REDB_ENDED;
	c->on_ready(c, ready);
}

static int
attach(struct redb_conn *c, int fd, uint32_t want)
{
	int ret = leat_fd_add(c->port->reactor, &c->lfd, fd, to_epoll(want), on_events, c);

	if (ret < 0)
		return ret;
	c->t = &redb_socket;
	c->fd = fd;
	c->want = want;
	return 0;
}

static bool
is_tcp(const struct redb_addr *a)
{
	return a->addr[0].sa.sa_family != AF_UNIX;
}

/* ---- connect ---- */

static int
connect_to(struct redb_conn *c, const struct redb_addr *a, uint32_t nth)
{
	const int one = 1;
	int fd, ret;

	fd = socket(a->addr[nth].sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (is_tcp(a) && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0) {
		ret = -errno;
		(void)close(fd);
		return ret;
	}
	/* -EAGAIN: a UNIX socket's backlog is full */
	ret = connect(fd, &a->addr[nth].sa, a->len[nth]) < 0 && errno != EINPROGRESS ? -errno : 0;
	if (ret == 0)
		ret = attach(c, fd, REDB_WRITABLE);
	if (ret < 0)
		(void)close(fd);
	return ret;
}

static int
sock_connect(struct redb_conn *c, const struct redb_addr *a, uint32_t nth, uint64_t timeout_us)
{
	/* redb_client_look() checks the time-out. */
	(void)timeout_us;
	return nth < a->nb_addrs ? connect_to(c, a, nth) : -EADDRNOTAVAIL;
}

static int
sock_connected(struct redb_conn *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return -errno;
	return -err;
}

/* ---- bytes ---- */

static ssize_t
sock_writev(struct redb_conn *c, const struct iovec *iov, int n)
{
	/* sendmsg() instead of writev(): it can suppress SIGPIPE */
	const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				    .msg_iovlen = (size_t)n };
	ssize_t ret;

	do {
		ret = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : ret;
}

static ssize_t
sock_borrow(struct redb_conn *c, const void **data)
{
	ssize_t ret;

	do {
		ret = recv(c->fd, c->port->buf, REDB_READ_MAX, 0);
	} while (ret < 0 && errno == EINTR);
	*data = c->port->buf;
	return ret < 0 ? -errno : ret;
}

static void
sock_give_back(struct redb_conn *c, size_t n)
{
	(void)c;
	(void)n;
}

static void
sock_want(struct redb_conn *c, uint32_t ready)
{
	(void)leat_fd_events_set(&c->lfd, to_epoll(ready));
}

static void
sock_close(struct redb_conn *c, bool drain)
{
	/* `drain` makes no difference: the kernel always sends what was written. */
	(void)drain;
	leat_fd_del(&c->lfd);
	(void)close(c->fd);
	c->fd = -1;
	c->t = NULL;
}

static const char *
sock_why(const struct redb_conn *c, int err)
{
	(void)c;
	return strerror(-err);
}

/* ---- listen ---- */

static void
on_listener(struct leat_fd *f, uint32_t events, void *arg)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	struct redb_port *p = arg;
	const int one = 1;
	struct redb_conn *c;
	int fd;

	(void)f;
	(void)events;
	fd = accept4(p->listening, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	/* A failure is ignored: without TCP_NODELAY the connection is only slower. */
	if (sa.ss_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c = p->room(p);
	if (c == NULL || attach(c, fd, 0) < 0) {
		(void)close(fd);
		return;
	}
	p->accept(p, c);
}

static int
bind_to(int fd, const struct redb_addr *a)
{
	const int one = 1;

	if (is_tcp(a) && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, &a->addr[0].sa, a->len[0]) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

/* Write the actual address of the listener to text: the kernel has chosen a port for port 0. */
static void
text_of(int fd, const struct redb_addr *a, char *text, size_t len)
{
	char host[64], port[8];
	struct sockaddr_storage sa;
	socklen_t sa_len = sizeof(sa);

	snprintf(text, len, "%s", a->text);
	if (!is_tcp(a) || getsockname(fd, (struct sockaddr *)&sa, &sa_len) < 0)
		return;
	if (getnameinfo((struct sockaddr *)&sa, sa_len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, len, strchr(host, ':') != NULL ? "tcp:[%s]:%s" : "tcp:%s:%s", host,
			 port);
}

static int
sock_listen(struct redb_port *p, const struct redb_addr *a, char *text, size_t len)
{
	int fd, ret;

	fd = socket(a->addr[0].sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return leat_err(errno, "listen at %s: %s", a->text, strerror(errno));
	ret = bind_to(fd, a);
	if (ret == 0)
		ret = leat_fd_add(p->reactor, &p->fd, fd, EPOLLIN, on_listener, p);
	if (ret < 0) {
		(void)close(fd);
		return leat_err(-ret, "listen at %s: %s", a->text, strerror(-ret));
	}
	p->listening = fd;
	text_of(fd, a, text, len);
	return 0;
}

const struct redb_transport redb_socket = {
	.connect = sock_connect,
	.connected = sock_connected,
	.writev = sock_writev,
	.borrow = sock_borrow,
	.give_back = sock_give_back,
	.want = sock_want,
	.close = sock_close,
	.why = sock_why,
	.listen = sock_listen,
};
