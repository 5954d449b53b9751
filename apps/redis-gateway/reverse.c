/* SPDX-License-Identifier: BSD-3-Clause */

/* Reverse legs: accept TCP and UNIX connections, and connect a stream for each. */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rte_errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gw_pvt.h"

#define BACKLOG 511
/* Maximum number of connections accepted in one turn. */
#define ACCEPTS 32
/* Pause in accepting connections when descriptors or memory are used up. */
#define ACCEPT_PAUSE_US 100000

/* ---- the stream ---- */

static void
failed(struct gw_client *c, int error)
{
	GW_COUNT(c->gw->stats.refused_backend, 1);
	gw_client_why(c, "no connection to the other side", error);
	gw_client_end(c);
}

void
gw_reverse_connect(struct gw_client *c)
{
	const uint64_t now = leat_now();
	uint64_t left = c->give_up_at - RTE_MIN(now, c->give_up_at);

	/* If no peer listens at the address, the device keeps trying until the time-out. */
	c->stream = leat_stream_connect(c->gw->net, c->gw->conf.to,
					RTE_MAX(leat_cycles_to_ns(left) / 1000, UINT64_C(1000)));
	if (c->stream != NULL) {
		c->state = GW_CONNECTING;
		gw_client_update(c);
		return;
	}
	/* No room now: streams that are being closed will make room. */
	if ((rte_errno == ENOSPC || rte_errno == ENOBUFS) && gw_client_retry(c))
		return;
	failed(c, rte_errno);
}

void
gw_reverse_connected(struct gw_client *c)
{
	const int error = leat_stream_error(c->stream);

	if (error == 0 && (leat_stream_ready(c->stream) & LEAT_STREAM_CLOSED) == 0)
		gw_client_open(c);
	else
		failed(c, error != 0 ? -error : ECONNRESET);
}

/* ---- the clients ---- */

/* May a client with this address connect? @return why not; NULL: it may */
static const char *
refused(struct gw *gw, const struct sockaddr *sa)
{
	if (sa->sa_family != AF_UNIX && gw->conf.nb_allow > 0 &&
	    !gw_cidr_has(gw->conf.allow, gw->conf.nb_allow, sa)) {
		GW_COUNT(gw->stats.refused_allow, 1);
		return "--allow does not name it";
	}
	if (gw->nb_clients >= gw->conf.clients) {
		GW_COUNT(gw->stats.refused_clients, 1);
		return "there are as many clients as --clients allows";
	}
	return NULL;
}

static void
client_accept(struct gw *gw, int sock, const struct sockaddr *sa, socklen_t len)
{
	static const int one = 1;
	char peer[GW_ADDR_MAX];
	struct gw_client *c;
	const char *why = refused(gw, sa);

	gw_where_str(peer, sizeof(peer), sa, len);
	c = why == NULL ? gw_client_new(gw, peer) : NULL;
	if (c == NULL) {
		gw_refuse(gw, peer, why != NULL ? why : "no memory");
		(void)close(sock);
		return;
	}
	if (sa->sa_family != AF_UNIX) {
		(void)setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		(void)setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	}
	c->sock = sock;
	gw_reverse_connect(c);
}

static void
accept_again(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct gw *gw = arg;

	(void)timer;
	(void)now;
	if (leat_fd_events_set(&gw->listen_fd, EPOLLIN) < 0)
		leat_timer_start(gw->r, &gw->accept_timer, ACCEPT_PAUSE_US);
}

static void
on_listen(struct leat_fd *f, uint32_t events, void *arg)
{
	struct gw *gw = arg;
	unsigned int i;

	(void)f;
	(void)events;
	for (i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage sa = { .ss_family = AF_UNIX };
		socklen_t len = sizeof(sa);
		int sock = accept4(gw->listen_sock, (struct sockaddr *)&sa, &len,
				   SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (sock >= 0) {
			client_accept(gw, sock, (struct sockaddr *)&sa, len);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
			return;
		/* The listener stays readable: without a pause each turn would try. */
		gw_refuse(gw, "those that connect", strerror(errno));
		(void)leat_fd_events_set(&gw->listen_fd, 0);
		leat_timer_start(gw->r, &gw->accept_timer, ACCEPT_PAUSE_US);
		return;
	}
}

/* Remove the file of a UNIX socket at which no program listens: the listener was killed. */
static void
unlink_stale(const struct sockaddr_un *un)
{
	struct stat st;
	int sock;

	if (lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return;
	if (connect(sock, (const struct sockaddr *)un, sizeof(*un)) < 0 && errno == ECONNREFUSED)
		(void)unlink(un->sun_path);
	(void)close(sock);
}

static int
sock_listen(struct gw *gw, const struct sockaddr *sa, socklen_t len)
{
	static const int one = 1;
	int sock = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (sock < 0)
		return -errno;
	if (sa->sa_family == AF_UNIX)
		unlink_stale((const struct sockaddr_un *)sa);
	else
		(void)setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(sock, sa, len) == 0 && listen(sock, BACKLOG) == 0) {
		gw->listen_sock = sock;
		return 0;
	}
	error = errno;
	(void)close(sock);
	return -error;
}

int
gw_reverse_listen(struct gw *gw)
{
	const struct gw_where *w = &gw->where;
	int ret = -EINVAL;
	unsigned int i;

	leat_timer_init(&gw->accept_timer, accept_again, gw);
	/* A host name may have addresses of other machines: listen at the first that works. */
	for (i = 0; i < w->n && ret < 0; i++)
		ret = sock_listen(gw, &w->addr[i].sa, w->len[i]);
	if (ret < 0)
		return leat_err(-ret, "listen at %s: %s", gw->conf.listen, strerror(-ret));
	return leat_fd_add(gw->r, &gw->listen_fd, gw->listen_sock, EPOLLIN, on_listen, gw);
}

void
gw_reverse_unlisten(struct gw *gw)
{
	const struct sockaddr_un *un = &gw->where.addr[0].un;

	if (gw->listen_sock < 0)
		return;
	leat_timer_stop(&gw->accept_timer);
	leat_fd_del(&gw->listen_fd);
	(void)close(gw->listen_sock);
	gw->listen_sock = -1;
	if (un->sun_family == AF_UNIX)
		(void)unlink(un->sun_path);
}
