/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef EXCHANGE_SOURCE_H
#define EXCHANGE_SOURCE_H

/* Raw clients from several sources; sources_end() is a teardown of groups over UNIX sockets. */

#include <sys/wait.h>

#include "exchange_side.h"

/*
 * Over TCP a source is an address, 127.0.0.<host>. Over UNIX sockets a source is a process: this
 * process is host 1; for other hosts, helper processes connect on demand and pass their sockets to
 * this process.
 */
static struct {
	pid_t pid;
	int fd;
} source[4];

static inline void
source_main(int fd)
{
	union {
		struct cmsghdr hdr;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf };
	struct cmsghdr *cmsg;
	int port, client;

	/* The helper process keeps none of the test's descriptors. */
	for (client = 3; client < 1024; client++)
		if (client != fd)
			(void)close(client);
	while (read(fd, &port, sizeof(port)) == sizeof(port)) {
		struct sockaddr_storage ss;
		socklen_t len = raw_sockaddr(port, &ss);

		client = socket(AF_UNIX, SOCK_STREAM, 0);
		if (client < 0 || connect(client, (struct sockaddr *)&ss, len) != 0)
			_exit(1);
		memset(&control, 0, sizeof(control));
		msg.msg_controllen = sizeof(control.buf);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &client, sizeof(client));
		if (sendmsg(fd, &msg, 0) != 1)
			_exit(1);
		(void)close(client);
	}
	_exit(0);
}

static inline int
connect_by(unsigned int host, int port)
{
	union {
		struct cmsghdr hdr;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	int pair[2], fd;

	assert_true(host < RTE_DIM(source));
	if (source[host].pid == 0) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		source[host].pid = fork();
		assert_true(source[host].pid >= 0);
		if (source[host].pid == 0)
			source_main(pair[1]);
		close(pair[1]);
		source[host].fd = pair[0];
	}
	assert_int_equal(write(source[host].fd, &port, sizeof(port)), sizeof(port));
	assert_int_equal(recvmsg(source[host].fd, &msg, MSG_CMSG_CLOEXEC), 1);
	assert_true(msg.msg_controllen >= CMSG_LEN(sizeof(fd)));
	memcpy(&fd, control.buf + CMSG_LEN(0), sizeof(fd));
	return fd;
}

static inline int
sources_end(void **state)
{
	unsigned int host;
	int status;

	for (host = 0; host < RTE_DIM(source); host++) {
		if (source[host].pid == 0)
			continue;
		close(source[host].fd);
		if (waitpid(source[host].pid, &status, 0) != source[host].pid || status != 0)
			return -1;
	}
	return side_unix_end(state);
}

static inline int
raw_connect_from(const struct side *s, unsigned int host)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd, on = 1;

	if (side_is_unix())
		return host == 1 ? raw_connect(s) : connect_by(host, raw_port(s));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	/*
	 * Let connect() choose the port. bind() would need a port that is free for every
	 * destination, and other programs may have left none.
	 */
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)), 0);
	sin.sin_addr.s_addr = htonl(0x7f000000 | host);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin.sin_port = htons((uint16_t)raw_port(s));
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

#endif /* EXCHANGE_SOURCE_H */
