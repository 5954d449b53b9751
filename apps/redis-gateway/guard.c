/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * May a leg listen at its address?
 *
 * The server behind the leg sees only connections from this machine: its protected mode and its
 * rules for addresses do not protect it any more. So a leg that other machines can reach needs a
 * list of the addresses that may connect (--allow), or a server that asks for a password. To find
 * out whether the server does, the gateway sends PING, the only command that it ever sends.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gw_pvt.h"

#define PING "PING\r\n"
#define NO_AUTH "-NOAUTH"

static int
wait_for(int sock, short events, uint64_t until)
{
	struct pollfd p = { .fd = sock, .events = events };
	uint64_t now = leat_now();
	uint64_t ms = now < until ? leat_cycles_to_ns(until - now) / 1000000 + 1 : 0;
	int n = poll(&p, 1, (int)ms);

	if (n < 0)
		return -errno;
	return n > 0 ? 0 : -ETIMEDOUT;
}

static int
connect_to(int sock, const struct sockaddr *sa, socklen_t len, uint64_t until)
{
	socklen_t error_len = sizeof(int);
	int ret, error = 0;

	if (connect(sock, sa, len) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EINTR)
		return -errno;
	ret = wait_for(sock, POLLOUT, until);
	if (ret == 0 && getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
		error = errno;
	return ret < 0 ? ret : -error;
}

/*
 * Send PING to a server.
 * @return 1: the server asks for a password; 0: it does not; negative: it can't be reached
 */
static int
ask(int sock, uint64_t until)
{
	char line[64] = "";
	size_t got = 0;
	ssize_t n = send(sock, PING, strlen(PING), MSG_NOSIGNAL);

	if (n != (ssize_t)strlen(PING))
		return n < 0 ? -errno : -EIO;
	while (got < strlen(NO_AUTH)) {
		int ret = wait_for(sock, POLLIN, until);

		if (ret < 0)
			return ret;
		n = recv(sock, line + got, sizeof(line) - 1 - got, 0);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		got += (size_t)n;
	}
	return strncmp(line, NO_AUTH, strlen(NO_AUTH)) == 0;
}

static int
probe(const struct gw_conf *conf)
{
	const uint64_t us = conf->backend_us != 0 ? conf->backend_us : GW_BACKEND_US_DEFAULT;
	const uint64_t until = leat_time_add(leat_now(), leat_us_to_cycles(us));
	struct gw_where where;
	int ret = gw_where_parse(conf->to, false, &where);
	unsigned int i;

	if (ret < 0)
		return ret;
	ret = -EINVAL;
	for (i = 0; i < where.n && ret < 0; i++) {
		const struct sockaddr *sa = &where.addr[i].sa;
		int sock = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (sock < 0)
			return leat_err(errno, "socket: %s", strerror(errno));
		ret = connect_to(sock, sa, where.len[i], until);
		if (ret == 0)
			ret = ask(sock, until);
		(void)close(sock);
	}
	return ret < 0 ? leat_err(-ret, "%s", strerror(-ret)) : ret;
}

/* Can other machines connect? If the address can't be parsed, assume that they can. */
static bool
exposed(const struct gw_conf *conf)
{
	struct leat_dev_info info;
	struct gw_where where;

	/* Without a device gw_open() fails. */
	if (!conf->reverse && (gw_device(conf, &info) < 0 || info.one_host))
		return false;
	return gw_where_parse(conf->listen, true, &where) < 0 || !gw_where_local(&where);
}

int
gw_guard(struct gw_conf *conf)
{
	int ret;

	conf->guarded = conf->nb_allow > 0 || !exposed(conf);
	if (conf->guarded)
		return 0;
	if (conf->reverse)
		return leat_err(
			EPERM,
			"%s can be reached from other machines, and what is behind it sees "
			"clients of the gateway only: say who may connect (--allow CIDR), or "
			"listen at 127.0.0.1 or unix:",
			conf->listen);
	ret = probe(conf);
	if (ret > 0) {
		conf->guarded = true;
		return 0;
	}
	if (ret < 0)
		return leat_err(EPERM,
				"%s can be reached from other machines, and whether the backend %s "
				"asks for a password is not known (%s): start it first, or say who "
				"may connect (--allow CIDR)",
				conf->listen, conf->to, leat_err_msg());
	return leat_err(EPERM,
			"%s can be reached from other machines, and the backend %s asks for no "
			"password: all its clients come from here, its protected mode does not "
			"guard it any more. Say who may connect (--allow CIDR), or give it a "
			"password (requirepass)",
			conf->listen, conf->to);
}
