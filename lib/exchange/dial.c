/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * From a connector to a connected socket: rounds of attempts (tcp_dial.c, unix.c) with pauses
 * between them, until one attempt succeeds or the connector's time has passed.
 *
 *     dial --> round: attempt, attempt, ... --> exchange_conn_hello()
 *                ^            |
 *                |            v
 *                `-------- backoff            or give up
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "exchange_pvt.h"
#include "leat_time.h"

/* Shortest and longest pause between two rounds of attempts. */
#define BACKOFF_MIN_US 1000
#define BACKOFF_MAX_US 100000

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

/* End the connector: all attempts failed. */
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

static void
dial_next(struct exchange_conn *c)
{
	bool late = c->x->now >= c->deadline;

	if (!late && c->x->transport->dial_next(c))
		return;
	if (!late && c->retryable)
		exchange_dial_backoff(c);
	else
		exchange_dial_give_up(c);
}

/* End this attempt; err is a positive errno. */
void
exchange_dial_failed(struct exchange_conn *c, int err)
{
	/* Keep the most telling cause of all attempts: BUSY, else a refusal, else the last. */
	if (c->cause == 0 || err == EBUSY ||
	    (c->cause != -EBUSY && (c->cause != -ECONNREFUSED || err == ECONNREFUSED)))
		c->cause = -err;
	if (cause_passes(err))
		c->retryable = true;
	exchange_fd_close(c);
	exchange_fds_close(&c->rx_fds);
	dial_next(c);
}

/* Random pauses (xorshift64 by G. Marsaglia): connectors must not all try again at one time. */
static uint32_t
pause_us(struct leat_exchange *x, uint32_t max)
{
	x->random ^= x->random << 13;
	x->random ^= x->random >> 7;
	x->random ^= x->random << 17;
	return max / 2 + (uint32_t)(x->random >> 33) % (max / 2 + 1);
}

void
exchange_dial_backoff(struct exchange_conn *c)
{
	uint64_t next = c->x->now + leat_us_to_cycles(pause_us(c->x, c->backoff_us));

	c->backoff_us = RTE_MIN(2 * c->backoff_us, (uint32_t)BACKOFF_MAX_US);
	c->state = CONN_BACKOFF;
	exchange_timer_set(c, RTE_MIN(next, c->deadline));
}

int
exchange_dial_open(struct exchange_conn *c, int protocol, const struct sockaddr *sa, socklen_t len,
		   uint64_t expiry)
{
	c->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	if (c->fd < 0)
		return errno;
	c->state = CONN_CONNECTING;
	exchange_timer_set(c, expiry);
	if ((connect(c->fd, sa, len) != 0 && errno != EINPROGRESS && errno != EINTR) ||
	    exchange_epoll_set(c, EPOLLOUT) != 0)
		return errno;
	return 0;
}

void
exchange_dial_connected(struct exchange_conn *c)
{
	if (c->x->transport->connected(c))
		exchange_conn_hello(c);
}

void
exchange_dial_again(struct exchange_conn *c)
{
	c->x->transport->dial(c);
}

void
exchange_dial(struct exchange_conn *c)
{
	c->backoff_us = BACKOFF_MIN_US;
	c->x->transport->dial(c);
}
