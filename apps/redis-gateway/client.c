/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One client, from its first connected side to its end.
 *
 * Every event pumps bytes, then calls gw_client_update(), which passes ends on to the other side,
 * selects the events to wait for, and frees a client that has ended. So this call is always last.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gw_pvt.h"

/* Pauses between attempts to connect: short ones first. */
#define RETRY_FIRST_US 5000
#define RETRY_US 100000
/*
 * Pauses between attempts to half-close a stream, until the peer has said whether it knows
 * half-closed streams. It does so soon after it has connected.
 */
#define SHUTDOWN_FIRST_US 1000
#define SHUTDOWN_US 50000
#define SHUTDOWNS_FIRST 20
/* How long a closed stream may take to send what was written. */
#define CLOSE_US 60000000
/* A client that was silent for this long is taken to wait for no reply. */
#define QUIET_US 20000
/*
 * Upper bound of linger_us for a client that has ended its direction and has received its replies,
 * if the stream's peer does not know half-closed streams: most such clients have closed, and wait
 * for nothing.
 */
#define ANSWERED_US 1000000

static void on_timer(struct leat_timer *timer, void *arg, uint64_t now);

struct gw_client *
gw_client_new(struct gw *gw, const char *peer)
{
	struct gw_client *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->gw = gw;
	c->sock = -1;
	c->id = ++gw->next_id;
	c->begun = c->last = leat_now();
	c->give_up_at = leat_time_add(c->begun, leat_us_to_cycles(gw->conf.backend_us));
	snprintf(c->peer, sizeof(c->peer), "%s", peer);
	leat_timer_init(&c->timer, on_timer, c);
	c->next = gw->clients;
	c->prev = &gw->clients;
	if (c->next != NULL)
		c->next->prev = &c->next;
	gw->clients = c;
	gw->nb_clients++;
	GW_COUNT(gw->stats.clients, 1);
	GW_COUNT(gw->stats.accepted, 1);
	return c;
}

void
gw_client_why(struct gw_client *c, const char *why, int error)
{
	if (c->why != NULL)
		return;
	c->why = why;
	c->why_errno = error;
}

/*
 * Log the client's address and the server's name for it. The server itself can't tell the clients
 * apart: all of them connect from this process.
 */
void
gw_client_log_up(const struct gw_client *c)
{
	char text[GW_ADDR_MAX] = "unix";
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getsockname(c->sock, (struct sockaddr *)&sa, &len) == 0)
		gw_where_str(text, sizeof(text), (struct sockaddr *)&sa, len);
	if (c->gw->conf.reverse)
		LEAT_LOG(INFO, app,
			 "gateway: %s: client %" PRIu64 ": %s (fd %d) is stream %" PRIu64,
			 c->gw->stats.name, c->id, c->peer, c->sock, leat_stream_id(c->stream));
	else
		LEAT_LOG(INFO, app,
			 "gateway: %s: client %" PRIu64 ": %s is the backend's client %s (fd %d)",
			 c->gw->stats.name, c->id, c->peer, text, c->sock);
}

static void
log_end(const struct gw_client *c)
{
	const uint64_t ms = leat_cycles_to_ns(leat_now() - c->begun) / 1000000;

	LEAT_LOG(INFO, app,
		 "gateway: %s: client %" PRIu64 ": %s ended: %s%s%s; %" PRIu64
		 " B from its stream, "
		 "%" PRIu64 " B to it, %" PRIu64 ".%03" PRIu64 " s",
		 c->gw->stats.name, c->id, c->peer, c->why != NULL ? c->why : "the gateway stops",
		 c->why_errno != 0 ? ": " : "", c->why_errno != 0 ? strerror(c->why_errno) : "",
		 c->rx_bytes, c->tx_bytes, ms / 1000, ms % 1000);
}

void
gw_client_end(struct gw_client *c)
{
	struct gw *gw = c->gw;

	log_end(c);
	leat_timer_stop(&c->timer);
	leat_fd_del(&c->fd);
	if (c->sock >= 0)
		(void)close(c->sock);
	/* The stream still sends what was written; until then its memory is in use. */
	if (c->stream != NULL)
		leat_stream_close(c->stream, CLOSE_US);
	*c->prev = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	gw->nb_clients--;
	GW_COUNT(gw->stats.clients, -1);
	GW_COUNT(gw->stats.ended, 1);
	free(c);
}

static uint64_t
linger_us(const struct gw_client *c)
{
	const uint64_t us = c->gw->conf.linger_us;

	return c->no_half_close && c->asked_at == 0 ? RTE_MIN(us, (uint64_t)ANSWERED_US) : us;
}

/* ---- pass ends on, wait for events ---- */

static void
rx_pass_end(struct gw_client *c)
{
	if (!c->rx.ended || c->rx.done)
		return;
	/* shutdown() fails only if the socket has ended already. */
	if (!c->rx.dead)
		(void)shutdown(c->sock, SHUT_WR);
	c->rx.done = true;
	c->last = leat_now();
}

static void
tx_pass_end(struct gw_client *c)
{
	int ret = -EPIPE;

	if (!c->tx.ended || c->tx.done)
		return;
	if (!c->tx.dead)
		ret = leat_stream_shutdown(c->stream);
	if (ret == -EAGAIN && leat_now() - c->last < leat_us_to_cycles(c->gw->conf.linger_us)) {
		leat_timer_start(c->gw->r, &c->timer,
				 c->tries++ < SHUTDOWNS_FIRST ? SHUTDOWN_FIRST_US : SHUTDOWN_US);
		return;
	}
	/* The peer has not said in time that it knows half-closed streams: it does not. */
	if (ret == -EAGAIN)
		ret = -EOPNOTSUPP;
	/*
	 * In a forward leg, close a client whose stream can't be half-closed. Otherwise the client
	 * would wait for a backend that has ended.
	 */
	if (ret == -EOPNOTSUPP && !c->gw->conf.reverse)
		c->rx.dead = true;
	c->no_half_close = ret == -EOPNOTSUPP;
	c->tx.done = true;
	c->last = leat_now();
}

static bool
is_over(const struct gw_client *c)
{
	return c->tx.done && (c->rx.done || c->rx.dead);
}

static bool
half_ended(const struct gw_client *c)
{
	return c->rx.done || c->rx.dead || c->tx.done || c->tx.dead;
}

static void
on_stream(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct gw_client *c = arg;
	const void *data;

	(void)s;
	if (c->state != GW_OPEN) {
		if (c->gw->conf.reverse) {
			gw_reverse_connected(c);
			return;
		}
		/* The client has closed. If it sent bytes, keep it until the backend has them. */
		if (leat_stream_borrow(c->stream, &data) > 0)
			return;
		gw_client_why(c, "the client left before the backend was reached", 0);
		gw_client_end(c);
		return;
	}
	if ((ready & LEAT_STREAM_CLOSED) != 0)
		c->tx.dead = true;
	if ((ready & (LEAT_STREAM_READABLE | LEAT_STREAM_CLOSED)) != 0)
		gw_pump_rx(c);
	if (c->tx.full && (ready & (LEAT_STREAM_WRITABLE | LEAT_STREAM_CLOSED)) != 0) {
		c->tx.full = false;
		gw_pump_tx(c);
	}
	gw_client_update(c);
}

static void
watch(struct gw_client *c)
{
	uint32_t want = 0;

	if (c->stream == NULL)
		return;
	if (c->state != GW_OPEN)
		want = c->gw->conf.reverse ? LEAT_STREAM_WRITABLE : 0;
	else if (!c->rx.ended && !c->rx.full)
		want = LEAT_STREAM_READABLE;
	if (c->state == GW_OPEN && !c->tx.ended && c->tx.full)
		want |= LEAT_STREAM_WRITABLE;
	/* Watch the stream even without a condition: its end is always reported. */
	if (c->watched && want == c->want)
		return;
	c->watched = true;
	c->want = want;
	leat_stream_watch(c->stream, want, on_stream, c);
}

static void
on_sock(struct leat_fd *f, uint32_t events, void *arg)
{
	struct gw_client *c = arg;

	(void)f;
	if (c->state == GW_CONNECTING && !c->gw->conf.reverse) {
		gw_forward_connected(c);
		return;
	}
	/* epoll reports these two in each turn, even unasked: remove the socket. */
	if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
		c->hung = true;
		leat_fd_del(&c->fd);
	}
	if (c->state != GW_OPEN)
		return;
	if (c->rx.full && (c->hung || (events & EPOLLOUT) != 0)) {
		c->rx.full = false;
		gw_pump_rx(c);
	}
	if (!c->tx.full && (c->hung || (events & EPOLLIN) != 0))
		gw_pump_tx(c);
	gw_client_update(c);
}

int
gw_client_sock_add(struct gw_client *c, uint32_t events)
{
	return leat_fd_add(c->gw->r, &c->fd, c->sock, events, on_sock, c);
}

/* Wait for the events that the socket needs. @return false: no memory */
static bool
poll_sock(struct gw_client *c)
{
	uint32_t events = 0;
	int ret;

	if (c->hung || c->state != GW_OPEN)
		return true;
	if (!c->tx.ended && !c->tx.full)
		events |= EPOLLIN;
	if (c->rx.full)
		events |= EPOLLOUT;
	if (c->fd.reactor == NULL)
		ret = gw_client_sock_add(c, events);
	else
		ret = leat_fd_events_set(&c->fd, events);
	if (ret < 0)
		gw_client_why(c, "no memory for its descriptor", -ret);
	return ret == 0;
}

void
gw_client_update(struct gw_client *c)
{
	if (c->state == GW_OPEN) {
		/* Both directions of the socket have ended. */
		if (c->hung && c->tx.ended)
			c->rx.dead = true;
		rx_pass_end(c);
		tx_pass_end(c);
		if (is_over(c)) {
			gw_client_end(c);
			return;
		}
		if (half_ended(c) && !leat_timer_active(&c->timer))
			leat_timer_start(c->gw->r, &c->timer, linger_us(c));
	}
	if (!poll_sock(c)) {
		gw_client_end(c);
		return;
	}
	watch(c);
}

void
gw_client_open(struct gw_client *c)
{
	leat_timer_stop(&c->timer);
	c->state = GW_OPEN;
	c->tries = 0;
	c->last = leat_now();
	gw_client_log_up(c);
	/* Carry the bytes that arrived while the other side connected. */
	gw_pump_rx(c);
	gw_pump_tx(c);
	gw_client_update(c);
}

bool
gw_client_retry(struct gw_client *c)
{
	const uint64_t now = leat_now();
	uint64_t pause = c->tries++ < 4 ? RETRY_FIRST_US : RETRY_US;

	if (now >= c->give_up_at)
		return false;
	GW_COUNT(c->gw->stats.retries, 1);
	c->state = GW_RETRYING;
	leat_timer_start_at(c->gw->r, &c->timer,
			    RTE_MIN(leat_time_add(now, leat_us_to_cycles(pause)), c->give_up_at));
	return true;
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct gw_client *c = arg;
	const uint64_t linger = leat_us_to_cycles(linger_us(c));

	(void)timer;
	if (c->state != GW_OPEN) {
		if (c->gw->conf.reverse)
			gw_reverse_connect(c);
		else
			gw_forward_connect(c);
	} else if (c->tx.ended && !c->tx.done) {
		gw_client_update(c);
	} else if (leat_time_add(c->last, linger) <= now) {
		GW_COUNT(c->gw->stats.lingered, 1);
		gw_client_end(c);
	} else {
		leat_timer_start_at(c->gw->r, &c->timer, leat_time_add(c->last, linger));
	}
}

bool
gw_client_quiet(const struct gw_client *c, uint64_t now)
{
	uint32_t ready;

	if (c->state != GW_OPEN || c->asked_at != 0 || now - c->last < leat_us_to_cycles(QUIET_US))
		return false;
	ready = leat_stream_ready(c->stream);
	/* A direction that has ended carries no more bytes. */
	return (c->rx.done || (ready & LEAT_STREAM_READABLE) == 0) &&
	       (c->tx.dead || (ready & LEAT_STREAM_DRAINED) != 0);
}
