/* SPDX-License-Identifier: BSD-3-Clause */

/* Forward legs: accept streams, and connect a socket to the backend for each. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include <leat_addr.h>

#include "gw_pvt.h"

/* ---- the backend ---- */

static void
sock_close(struct gw_client *c)
{
	leat_fd_del(&c->fd);
	(void)close(c->sock);
	c->sock = -1;
}

/* @return 0: connected; -EINPROGRESS; another negative errno: failed */
static int
connect_to(struct gw_client *c, const struct sockaddr *sa, socklen_t len)
{
	static const int one = 1;

	c->sock = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->sock < 0)
		return -errno;
	if (sa->sa_family != AF_UNIX)
		(void)setsockopt(c->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->sock, sa, len) == 0)
		return 0;
	/* A signal does not end the attempt. */
	return errno == EINTR ? -EINPROGRESS : -errno;
}

static void
failed(struct gw_client *c, int error)
{
	if (gw_client_retry(c))
		return;
	GW_COUNT(c->gw->stats.refused_backend, 1);
	gw_client_why(c, "no connection to the backend", error);
	gw_client_end(c);
}

/* The timer ends an attempt that gets no answer, so that the other addresses have their time. */
static void
share_time(struct gw_client *c)
{
	const uint64_t now = leat_now();
	const uint64_t left = c->give_up_at - RTE_MIN(now, c->give_up_at);

	leat_timer_start_at(c->gw->r, &c->timer, now + left / (c->gw->where.n - c->nth_addr));
}

/*
 * Connect to the backend's address nth_addr or, if that fails at once, to one of the next ones.
 * error: why the attempt before failed
 */
static void
try_addresses(struct gw_client *c, int error)
{
	const struct gw_where *w = &c->gw->where;
	int ret;

	for (; c->nth_addr < w->n; c->nth_addr++) {
		ret = connect_to(c, &w->addr[c->nth_addr].sa, w->len[c->nth_addr]);
		if (ret == 0) {
			gw_client_open(c);
			return;
		}
		if (ret == -EINPROGRESS)
			ret = gw_client_sock_add(c, EPOLLOUT);
		if (ret == 0) {
			c->state = GW_CONNECTING;
			share_time(c);
			return;
		}
		if (c->sock >= 0)
			sock_close(c);
		error = -ret;
	}
	c->nth_addr = 0;
	failed(c, error);
}

static void
try_next(struct gw_client *c, int error)
{
	sock_close(c);
	c->nth_addr++;
	try_addresses(c, error);
}

void
gw_forward_connected(struct gw_client *c)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->sock, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
		try_next(c, error);
	else
		gw_client_open(c);
}

void
gw_forward_connect(struct gw_client *c)
{
	/* The timer has expired while the socket was connecting. */
	if (c->sock >= 0)
		try_next(c, ETIMEDOUT);
	else
		try_addresses(c, ETIMEDOUT);
}

/* ---- the clients ---- */

/* Tell whether this address may connect. With --allow only IP addresses may. */
static bool
allowed(const struct gw *gw, const char *addr)
{
	char host[LEAT_ADDR_MAX], port[16];
	struct addrinfo *ai;
	bool ok;

	if (gw->conf.nb_allow == 0)
		return true;
	if (leat_addr_split(addr, false, host, sizeof(host), port, sizeof(port)) < 0 ||
	    leat_addr_numeric(host, port, false, &ai) < 0)
		return false;
	ok = gw_cidr_has(gw->conf.allow, gw->conf.nb_allow, ai->ai_addr);
	freeaddrinfo(ai);
	return ok;
}

static int
admit(const char *addr, void *arg)
{
	struct gw *gw = arg;

	if (gw->draining)
		return leat_err(ESHUTDOWN, "the gateway stops");
	if (!allowed(gw, addr)) {
		GW_COUNT(gw->stats.refused_allow, 1);
		gw_refuse(gw, addr, "--allow does not name it");
		return leat_err(EACCES, "%s: --allow does not name it", addr);
	}
	if (gw->nb_clients >= gw->conf.clients) {
		GW_COUNT(gw->stats.refused_clients, 1);
		gw_refuse(gw, addr, "there are as many clients as --clients allows");
		return leat_err(EBUSY, "there are %u clients", gw->nb_clients);
	}
	return 0;
}

static void
accepted(struct leat_stream *s, void *arg)
{
	struct gw *gw = arg;
	struct gw_client *c;

	/* admit() may have let in several peers before the first of them became a client. */
	if (gw->draining || gw->nb_clients >= gw->conf.clients) {
		GW_COUNT(gw->stats.refused_clients, 1);
		gw_refuse(gw, leat_stream_peer(s),
			  gw->draining ? "the gateway is stopping"
				       : "there are as many clients as --clients allows");
		leat_stream_abort(s);
		return;
	}
	c = gw_client_new(gw, leat_stream_peer(s));
	if (c == NULL) {
		gw_refuse(gw, leat_stream_peer(s), "no memory");
		leat_stream_abort(s);
		return;
	}
	c->stream = s;
	/*
	 * Watch for the stream's end. Received bytes stay in its receive window until the backend
	 * is connected.
	 */
	gw_client_update(c);
	gw_forward_connect(c);
}

int
gw_forward_listen(struct gw *gw)
{
	const struct leat_stream_listener listener = { .accept = accepted,
						       .admit = admit,
						       .arg = gw };

	return leat_stream_listen(gw->net, gw->conf.listen, &listener);
}
