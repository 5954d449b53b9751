/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How a connector gets a TCP connection: it looks the name up and tries the addresses in turn,
 * again after a pause, until one answers or its time is up.
 *
 *     dial --> lookup --> round: address, address, ... --> exchange_conn_hello()
 *                ^          ^            |
 *                |          |            v
 *                `----------`-------- backoff            or give up
 */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>

#include "exchange_pvt.h"
#include "leat_time.h"

/* Pauses between rounds over a connector's addresses. */
#define BACKOFF_MIN_US 1000
#define BACKOFF_MAX_US 100000
/* An address gets at least this long, however many there are. */
#define ADDR_MIN_US 200000

static void dial_next_addr(struct exchange_conn *c);

static const char *
cause_hint(int err)
{
	switch (err) {
	case ECONNREFUSED:
		return "is the listener running there?";
	case ECONNRESET:
		return "is a leat listener there, and is it not overloaded?";
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "check address and routes";
	case ETIMEDOUT:
		return "check address and firewalls";
	case EMFILE:
	case ENFILE:
		return "raise the limit of open files (ulimit -n)";
	default:
		return "check address and permissions";
	}
}

/* All attempts failed. */
void
exchange_dial_give_up(struct exchange_conn *c)
{
	uint64_t ns = leat_cycles_to_ns(c->x->now - c->began);
	int err = c->cause == 0 ? ETIMEDOUT : -c->cause;

	if (err == EBUSY) {
		char why[EXCHANGE_TEXT_MAX + 1];

		snprintf(why, sizeof(why), "%.120s", c->text);
		exchange_end(c, -ECONNREFUSED, "connect %s: busy for %u.%u s: %.100s", c->addr,
			     (unsigned int)(ns / 1000000000), (unsigned int)(ns / 100000000 % 10),
			     why);
		return;
	}
	exchange_end(c, err == ENETUNREACH ? -EHOSTUNREACH : -err, "connect %s: %s for %u.%u s: %s",
		     c->addr, strerror(err), (unsigned int)(ns / 1000000000),
		     (unsigned int)(ns / 100000000 % 10), cause_hint(err));
}

static bool
cause_passes(int err)
{
	return err != EACCES && err != EPERM && err != EAFNOSUPPORT && err != EINVAL &&
	       err != EPROTONOSUPPORT;
}

/* This attempt failed; err is a positive errno. */
void
exchange_dial_failed(struct exchange_conn *c, int err)
{
	/* A refusal says more than other causes, and BUSY more than that. */
	if (c->cause == 0 || err == EBUSY ||
	    (c->cause != -EBUSY && (c->cause != -ECONNREFUSED || err == ECONNREFUSED)))
		c->cause = -err;
	if (cause_passes(err))
		c->hope = true;
	exchange_fd_close(c);
	dial_next_addr(c);
}

/* xorshift64, G. Marsaglia: connectors that were turned away together don't come back together. */
static uint32_t
pause_us(struct leat_exchange *x, uint32_t max)
{
	x->random ^= x->random << 13;
	x->random ^= x->random >> 7;
	x->random ^= x->random << 17;
	return max / 2 + (uint32_t)(x->random >> 33) % (max / 2 + 1);
}

static void
dial_backoff(struct exchange_conn *c)
{
	uint64_t next = c->x->now + leat_us_to_cycles(pause_us(c->x, c->backoff_us));

	c->backoff_us = RTE_MIN(2 * c->backoff_us, (uint32_t)BACKOFF_MAX_US);
	c->state = CONN_BACKOFF;
	exchange_timer_set(c, RTE_MIN(next, c->deadline));
}

/* The TCP connection is there. */
void
exchange_dial_connected(struct exchange_conn *c)
{
	struct sockaddr_storage us, them;
	socklen_t us_len = sizeof(us), them_len = sizeof(them);

	/*
	 * Connecting to a free port of this host, TCP may connect a socket with itself, when the
	 * port it was given is the one that it wants to reach.
	 */
	if (getsockname(c->fd, (struct sockaddr *)&us, &us_len) != 0 ||
	    getpeername(c->fd, (struct sockaddr *)&them, &them_len) != 0) {
		exchange_dial_failed(c, errno == ENOTCONN ? ECONNRESET : errno);
		return;
	}
	if (us_len == them_len && memcmp(&us, &them, us_len) == 0) {
		exchange_dial_failed(c, ECONNREFUSED);
		return;
	}
	exchange_conn_hello(c);
}

/* Begins to connect to c->ai_next, or the first one after it that can be tried. */
static void
dial_next_addr(struct exchange_conn *c)
{
	uint64_t now = c->x->now, slice;
	const struct addrinfo *ai;
	unsigned int left = 0;

	if (now >= c->deadline) {
		exchange_dial_give_up(c);
		return;
	}
	if (c->ai_next == NULL) {
		if (c->hope)
			dial_backoff(c);
		else
			exchange_dial_give_up(c);
		return;
	}
	for (ai = c->ai_next; ai != NULL; ai = ai->ai_next)
		left++;
	slice = RTE_MAX((c->deadline - now) / left, leat_us_to_cycles(ADDR_MIN_US));

	ai = c->ai_next;
	c->ai_next = ai->ai_next;
	c->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (c->fd < 0) {
		exchange_dial_failed(c, errno);
		return;
	}
	c->state = CONN_CONNECTING;
	exchange_timer_set(c, RTE_MIN(now + slice, c->deadline));
	if ((connect(c->fd, ai->ai_addr, ai->ai_addrlen) != 0 && errno != EINPROGRESS &&
	     errno != EINTR) ||
	    exchange_epoll_set(c, EPOLLOUT) != 0)
		exchange_dial_failed(c, errno);
}

static void
dial_round(struct exchange_conn *c)
{
	c->ai_next = c->ai;
	c->hope = false;
	dial_next_addr(c);
}

static void
dial_lookup(struct exchange_conn *c)
{
	char host[LEAT_EXCHANGE_ADDR_MAX], port[8];

	/* It was split before, when it came. */
	if (leat_addr_split(c->addr, false, host, sizeof(host), port, sizeof(port)) == 0)
		c->lookup = leat_lookup_start(host, port);
	if (c->lookup == NULL) {
		/* Too many lookups at a time. */
		dial_backoff(c);
		return;
	}
	c->state = CONN_RESOLVING;
	exchange_list_move(c, &c->x->resolving);
	exchange_timer_set(c, c->deadline);
}

void
exchange_dial_again(struct exchange_conn *c)
{
	if (c->ai != NULL)
		dial_round(c);
	else
		dial_lookup(c);
}

void
exchange_dial(struct exchange_conn *c, const char *host, const char *port)
{
	c->backoff_us = BACKOFF_MIN_US;
	if (leat_addr_numeric(host, port, false, &c->ai) == 0)
		dial_round(c);
	else
		dial_lookup(c);
}

void
exchange_dial_resolve(struct exchange_conn *c)
{
	int ret = leat_lookup_done(c->lookup, &c->ai);

	if (ret == -EINPROGRESS)
		return;
	c->lookup = NULL;
	exchange_list_move(c, NULL);
	if (ret == 0 && c->ai != NULL) {
		dial_round(c);
	} else if (ret == EAI_AGAIN || ret == EAI_MEMORY) {
		/* The name server may come back. */
		c->cause = -EHOSTUNREACH;
		dial_backoff(c);
	} else {
		exchange_end(c, -EHOSTUNREACH, "connect %s: the host's name can't be resolved: %s",
			     c->addr, gai_strerror(ret));
	}
}
