/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The bytes of a client. Each call moves a bounded number, so that all clients of a turn get their
 * share; the next turn's events report what is left.
 */

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gw_pvt.h"

/* Maximum number of bytes that a call moves in one direction. */
#define BUDGET (128u << 10)

static void
moved(struct gw_client *c, size_t n, bool request)
{
	struct gw *gw = c->gw;

	c->last = leat_now();
	if (request) {
		GW_COUNT(gw->stats.request_bytes, n);
		if (c->asked_at == 0)
			c->asked_at = c->last;
		return;
	}
	GW_COUNT(gw->stats.reply_bytes, n);
	if (c->asked_at != 0) {
		leat_histogram_record(gw->latency, leat_cycles_to_ns(c->last - c->asked_at));
		c->asked_at = 0;
	}
}

/* ---- from the stream to the socket ---- */

/* Send bytes to the socket. @return bytes sent or dropped; 0: the socket has no room */
static size_t
rx_bytes(struct gw_client *c, const void *data, size_t len)
{
	ssize_t n = -1;

	while (!c->rx.dead && n < 0) {
		n = send(c->sock, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0 || errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return 0;
		c->rx.dead = true;
		gw_client_why(c,
			      c->gw->conf.reverse ? "write to the client" : "write to the backend",
			      errno);
	}
	if (c->rx.dead) {
		GW_COUNT(c->gw->stats.dropped_bytes, len);
		return len;
	}
	c->rx_bytes += (size_t)n;
	moved(c, (size_t)n, !c->gw->conf.reverse);
	return (size_t)n;
}

void
gw_pump_rx(struct gw_client *c)
{
	size_t sum = 0, n;

	while (!c->rx.ended && !c->rx.full && sum < BUDGET) {
		const void *data;
		ssize_t len = leat_stream_borrow(c->stream, &data);

		if (len == -EAGAIN)
			return;
		if (len <= 0) {
			c->rx.ended = true;
			if (len < 0)
				gw_client_why(c, leat_stream_why(c->stream), 0);
			else
				gw_client_why(c, "the stream was closed by its peer", 0);
			return;
		}
		n = rx_bytes(c, data, (size_t)len);
		if (n == 0) {
			c->rx.full = true;
			GW_COUNT(c->gw->stats.stalls, 1);
			return;
		}
		sum += n;
		/* n is at most what was borrowed, so leat_stream_give_back() can't fail. */
		(void)leat_stream_give_back(c->stream, n);
	}
}

/* ---- from the socket to the stream ---- */

/* Reserve room for the next bytes. @return number of pieces; 0: there is no room */
static int
tx_room(struct gw_client *c, struct iovec iov[2])
{
	/* Receives the bytes that are dropped. All clients share it, since it is never read. */
	static __thread char sink[16 << 10];
	int n = -EPIPE;

	if (!c->tx.dead)
		n = leat_stream_reserve(c->stream, iov);
	if (n == -EAGAIN)
		return 0;
	if (n < 0) {
		c->tx.dead = true;
		iov[0] = (struct iovec){ .iov_base = sink, .iov_len = sizeof(sink) };
		return 1;
	}
	/* Cut the pieces to what this call may move. */
	iov[0].iov_len = RTE_MIN(iov[0].iov_len, (size_t)BUDGET);
	if (n > 1)
		iov[1].iov_len = RTE_MIN(iov[1].iov_len, BUDGET - iov[0].iov_len);
	return n;
}

static void
tx_bytes(struct gw_client *c, size_t n)
{
	if (c->tx.dead || leat_stream_commit(c->stream, n) < 0) {
		GW_COUNT(c->gw->stats.dropped_bytes, n);
		return;
	}
	c->tx_bytes += n;
	moved(c, n, c->gw->conf.reverse);
}

static void
tx_end(struct gw_client *c, int error)
{
	const bool reverse = c->gw->conf.reverse;

	c->tx.ended = true;
	if (error != 0) {
		/* After an error on the socket neither direction works. */
		c->rx.dead = true;
		c->rx.full = false;
		gw_client_why(c, reverse ? "read from the client" : "read from the backend", error);
	} else {
		gw_client_why(c, reverse ? "closed by the client" : "closed by the backend", 0);
	}
}

void
gw_pump_tx(struct gw_client *c)
{
	size_t sum = 0;

	/* A socket that has hung up has no more events: read all its bytes now. */
	while (!c->tx.ended && (sum < BUDGET || c->hung)) {
		struct iovec iov[2];
		int pieces = tx_room(c, iov);
		size_t room = pieces == 0 ? 0 : iov[0].iov_len + (pieces > 1 ? iov[1].iov_len : 0);
		ssize_t n;

		if (room == 0) {
			c->tx.full = true;
			GW_COUNT(c->gw->stats.stalls, 1);
			return;
		}
		n = readv(c->sock, iov, pieces);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			/* The socket has not hung up, whatever the event meant. */
			c->hung = false;
			return;
		}
		if (n <= 0) {
			tx_end(c, n < 0 ? errno : 0);
			return;
		}
		tx_bytes(c, (size_t)n);
		sum += (size_t)n;
		/* A short read: nothing is left. If more comes, the next turn has an event. */
		if ((size_t)n < room && !c->hung)
			return;
	}
}
