/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange over UNIX sockets. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exchange_names.h"
#include "leat_error.h"
#include "leat_log.h"

/* Linux has SO_PEERPIDFD from 6.5 on, with this number on the processors that leat builds for. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* ---- the other side's process --------------------------------------------------------------- */

/* Get the peer's credentials. pid 0: the peer is not in this process's pid namespace. */
static struct ucred
peer_cred(const struct exchange_conn *c)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		cred = (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	return cred;
}

static bool
user_allowed(const struct exchange_conn *c, const struct ucred *cred)
{
	return c->x->names.any_user || cred->uid == geteuid();
}

/* Open a pidfd of the peer's process, readable when the process ends. @return -1: none */
static int
process_open(const struct exchange_conn *c)
{
	socklen_t len = sizeof(int);
	int fd = -1;
	pid_t pid;

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	pid = peer_cred(c).pid;
#ifdef SYS_pidfd_open
	if (pid > 0)
		return (int)syscall(SYS_pidfd_open, pid, 0);
#endif
	return -1;
}

/*
 * Watch the peer's process by a pidfd. When the process ends without a BYE its socket closes, which
 * the epoll instance reports. But if a forked child still holds the socket, only the pidfd tells.
 */
static void
unix_watch(struct exchange_conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN,
				  .data.u64 = EXCHANGE_EPOLL_PROCESS | (uint32_t)exchange_id(c) };
	int fd = process_open(c);

	if (fd < 0)
		return;
	if (epoll_ctl(c->x->epfd, EPOLL_CTL_ADD, fd, &ev) == 0) {
		c->process_fd = fd;
		return;
	}
	LEAT_LOG(DEBUG, exchange, "%s: the process of %s can't be watched: %s", c->x->name, c->addr,
		 strerror(errno));
	(void)close(fd);
}

/* ---- connectors ----------------------------------------------------------------------------- */

static int
unix_check(const struct leat_exchange *x, const char *addr)
{
	struct exchange_unix_addr un;
	struct sockaddr_un sun;
	int ret = exchange_unix_parse(x, addr, false, &un);

	if (ret == 0)
		ret = exchange_unix_here(x, &un);
	if (ret == 0)
		ret = exchange_unix_sockaddr(x, un.name, &sun);
	return ret < 0 ? ret : 0;
}

static void
unix_dial(struct exchange_conn *c)
{
	struct exchange_unix_addr un;
	struct sockaddr_un sun;
	int len, err;

	c->retryable = false;
	/* The address is well-formed: unix_check() has checked it. */
	len = exchange_unix_parse(c->x, c->addr, false, &un);
	if (len == 0)
		len = exchange_unix_sockaddr(c->x, un.name, &sun);
	if (len < 0) {
		exchange_dial_failed(c, -len);
		return;
	}
	err = exchange_dial_open(c, 0, (struct sockaddr *)&sun, (socklen_t)len, c->deadline);
	if (err == EAGAIN) {
		/* The listener's backlog is full. */
		snprintf(c->text, sizeof(c->text), "its backlog of connections is full");
		err = EBUSY;
	}
	if (err != 0)
		exchange_dial_failed(c, err == ENOENT ? ECONNREFUSED : err);
}

/* Nothing to try: an address names one socket. */
static bool
unix_dial_next(struct exchange_conn *c)
{
	(void)c;
	return false;
}

static bool
unix_connected(struct exchange_conn *c)
{
	struct ucred cred = peer_cred(c);

	if (user_allowed(c, &cred))
		return true;
	exchange_end(c, -EACCES,
		     "connect %s: the listener is a process of uid %u, this one is of uid %u; see "
		     "any_user",
		     c->addr, cred.uid, geteuid());
	return false;
}

/* ---- listeners ------------------------------------------------------------------------------ */

static bool
unix_accepted(struct exchange_conn *c, const struct sockaddr *sa, socklen_t len)
{
	struct ucred cred = peer_cred(c);
	uint8_t key[EXCHANGE_SOURCE_KEY] = { 0 };

	(void)sa;
	(void)len;
	/* A connector has no name. Its pid is 0 if it is not in this process's pid namespace. */
	snprintf(c->addr, sizeof(c->addr), "uid-%u:pid-%d", cred.uid, cred.pid);
	memcpy(key, &cred.uid, sizeof(cred.uid));
	memcpy(key + sizeof(cred.uid), &cred.pid, sizeof(cred.pid));
	exchange_source_hold(c, key);
	if (user_allowed(c, &cred))
		return true;
	snprintf(c->text, sizeof(c->text),
		 "the connector is a process of uid %u, the listener of uid %u; see any_user",
		 cred.uid, geteuid());
	return false;
}

static int
unix_listen(struct leat_exchange *x, const char *addr)
{
	struct exchange_names *names = &x->names;
	struct exchange_unix_addr un;
	int fd, ret;

	ret = exchange_unix_parse(x, addr, true, &un);
	if (ret == 0)
		ret = exchange_unix_here(x, &un);
	if (ret != 0)
		return ret;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return leat_err(errno, "%s: listen %s: socket: %s", x->name, addr, strerror(errno));
	/* bind() gives the name the socket's mode, less the umask. */
	if (fchmod(fd, S_IRUSR | S_IWUSR) != 0)
		ret = leat_err(errno, "%s: listen %s: chmod: %s", x->name, addr, strerror(errno));
	else
		ret = exchange_names_listen(x, fd, &un, addr);
	if (ret != 0) {
		(void)close(fd);
		return ret;
	}
	if (un.has_port)
		snprintf(names->listen_addr, sizeof(names->listen_addr), "%.*s:%.5s",
			 (int)(strrchr(addr, ':') - addr), addr, un.name + strlen("port-"));
	else
		snprintf(names->listen_addr, sizeof(names->listen_addr), "%s", addr);
	return fd;
}

static int
unix_listen_addr(const struct leat_exchange *x, char *addr, size_t len)
{
	snprintf(addr, len, "%s", x->names.listen_addr);
	return 0;
}

/* Nothing to do: on one machine a closed socket is noticed at once. */
static void
unix_up(struct exchange_conn *c)
{
	(void)c;
}

const struct exchange_transport exchange_unix = {
	.local = true,
	.check = unix_check,
	.dial = unix_dial,
	.dial_next = unix_dial_next,
	.connected = unix_connected,
	.accepted = unix_accepted,
	.watch = unix_watch,
	.up = unix_up,
	.send = exchange_fds_send,
	.recv = exchange_fds_recv,
	.listen = unix_listen,
	.listen_addr = unix_listen_addr,
	.unlisten = exchange_names_unlisten,
	.peer_died = exchange_names_peer_died,
};
