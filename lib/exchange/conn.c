/* SPDX-License-Identifier: BSD-3-Clause */

/* One connection of the address exchange: its states, see exchange_pvt.h. */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_log.h"
#include "leat_time.h"

/* Least time that a connector has for the proofs after ACCEPT, even beyond its timeout. */
#define PROVE_US 1000000
/* Longest time in CLOSING: to send the last message, and to see the other side close. */
#define CLOSING_US 1000000
/* Maximum number of reads of a closing connection per event; the data is discarded. */
#define CLOSING_READS 4

/* Send as much as possible. @return 0, or a positive errno. */
static int
conn_flush(struct exchange_conn *c)
{
	uint32_t mask = EPOLLIN;
	int err = 0;

	while (c->tx_off < c->tx_len) {
		ssize_t n = c->x->transport->send(c);

		if (n >= 0) {
			c->tx_off = (uint16_t)(c->tx_off + n);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			mask |= EPOLLOUT;
			break;
		} else if (errno != EINTR) {
			err = errno;
			break;
		}
	}
	if (c->tx_off == c->tx_len && c->state == CONN_CLOSING)
		/* If this fails the connection has ended already. */
		(void)shutdown(c->fd, SHUT_WR);
	if (exchange_epoll_set(c, mask) != 0 && c->state != CONN_CLOSING)
		LEAT_LOG(ERR, exchange, "%s: epoll_ctl failed for %s: %s", c->x->name, c->addr,
			 strerror(errno));
	return err;
}

int
exchange_conn_send(struct exchange_conn *c, const uint8_t *msg, size_t len)
{
	if (c->tx_off == c->tx_len) {
		c->tx_off = c->hello_len;
		c->tx_len = c->hello_len;
	}
	if (len <= sizeof(c->tx) - c->tx_len) {
		memcpy(c->tx + c->tx_len, msg, len);
		c->tx_len = (uint16_t)(c->tx_len + len);
	}
	return conn_flush(c);
}

void
exchange_conn_bye(struct exchange_conn *c, enum exchange_type type, enum exchange_reason reason,
		  const char *why)
{
	uint8_t msg[EXCHANGE_MSG_MAX];
	size_t len;

	if (c->state < CONN_HELLO_SENT || c->state > CONN_UP) {
		exchange_slot_put(c);
		return;
	}
	/* The id that the owner knows is dead from here on. */
	exchange_id_count(c, false);
	if (c->events != 0) {
		TAILQ_REMOVE(&c->x->events, c, ev_link);
		c->events = 0;
	}
	len = exchange_wire_bye(msg, type, reason, why);
	exchange_fds_close(&c->tx_fds);
	exchange_fds_close(&c->rx_fds);
	c->state = CONN_CLOSING;
	exchange_list_move(c, &c->x->closing);
	exchange_timer_set(c, c->x->now + leat_us_to_cycles(CLOSING_US));
	/* Ignore a failure: the connection has ended, and its epoll event frees the slot. */
	(void)exchange_conn_send(c, msg, len);
}

void
exchange_conn_busy(struct exchange_conn *c, const char *why)
{
	c->x->stats.busy++;
	exchange_source_set_waiter(c->x, c->source);
	exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_BUSY, why);
}

/* ---- HELLO of a connector ------------------------------------------------------------------- */

void
exchange_conn_hello(struct exchange_conn *c)
{
	int err;

	c->x->transport->watch(c);
	c->state = CONN_HELLO_SENT;
	c->rx_len = 0;
	c->tx_off = 0;
	c->tx_len = c->hello_len;
	exchange_timer_set(c, c->deadline);
	err = conn_flush(c);
	if (err != 0)
		exchange_dial_failed(c, err == EPIPE ? ECONNRESET : err);
}

/* ---- received messages ---------------------------------------------------------------------- */

static void
conn_keep_msg(struct exchange_conn *c, const struct exchange_msg *msg)
{
	memcpy(c->kind, msg->kind, sizeof(c->kind));
	c->blob_len = msg->blob_len;
	c->priv_len = msg->priv_len;
	c->proof_len = msg->proof_len;
	/* The three parts are adjacent in the message. */
	memcpy(c->msg, msg->blob, (size_t)msg->blob_len + msg->priv_len + msg->proof_len);
}

static void
conn_up(struct exchange_conn *c)
{
	c->state = CONN_UP;
	exchange_list_move(c, NULL);
	leat_wheel_del(&c->x->wheel, &c->timer);
	if (c->ai != NULL) {
		freeaddrinfo(c->ai);
		c->ai = NULL;
		c->ai_next = NULL;
	}
	exchange_fds_close(&c->tx_fds);
	c->x->transport->up(c);
	c->x->stats.connected++;
	exchange_source_up(c);
	exchange_event_add(c, CONN_EV_CONNECTED);
}

static void
conn_rejected(struct exchange_conn *c, const struct exchange_msg *msg)
{
	char why[EXCHANGE_TEXT_MAX + 1];

	exchange_wire_text(why, sizeof(why), msg->text, msg->text_len);
	if (msg->reason == EXCHANGE_REASON_BUSY) {
		snprintf(c->text, sizeof(c->text), "%s", why);
		/* Cancel a PROVE event that was not fetched. */
		if (c->events != 0)
			TAILQ_REMOVE(&c->x->events, c, ev_link);
		c->events = 0;
		exchange_dial_failed(c, EBUSY);
	} else if (msg->reason == EXCHANGE_REASON_USER)
		exchange_end(c, -EACCES, "connect %s: rejected%s%s", c->addr,
			     why[0] != '\0' ? ": " : "", why);
	else if (msg->reason == EXCHANGE_REASON_VERSION)
		exchange_end(c, -EPROTONOSUPPORT,
			     "connect %s: it speaks version %u of the address exchange, this is "
			     "version %u",
			     c->addr, (unsigned int)msg->spoken,
			     (unsigned int)LEAT_EXCHANGE_VERSION);
	else
		exchange_end(c, -ECONNREFUSED, "connect %s: rejected%s%s", c->addr,
			     why[0] != '\0' ? ": " : "", why);
}

static void
conn_hello(struct exchange_conn *c, const struct exchange_msg *msg)
{
	struct leat_exchange *x = c->x;
	const char *busy = exchange_source_admit(x, c->source);

	if (busy != NULL) {
		exchange_conn_busy(c, busy);
		return;
	}
	exchange_source_clear_waiter(x, c->source);
	conn_keep_msg(c, msg);
	exchange_list_move(c, &x->half);
	exchange_id_count(c, true);
	leat_wheel_del(&x->wheel, &c->timer);
	x->transport->watch(c);
	c->state = CONN_REQUESTED;
	exchange_event_add(c, CONN_EV_REQUEST);
}

static void
conn_bye(struct exchange_conn *c, const struct exchange_msg *msg)
{
	char why[EXCHANGE_TEXT_MAX + 1];
	int status = c->state == CONN_UP ? 0 : -ECONNRESET;

	if (c->connector && status != 0) {
		exchange_wire_text(why, sizeof(why), msg->text, msg->text_len);
		exchange_end(c, -ECONNREFUSED, "connect %s: accepted, then closed%s%s", c->addr,
			     why[0] != '\0' ? ": " : "", why);
		return;
	}
	exchange_wire_text(why, sizeof(why), msg->text, msg->text_len);
	if (status == 0 && c->x->linger) {
		exchange_part(c, "%s closed the connection%s%s", c->addr,
			      why[0] != '\0' ? ": " : "", why);
		return;
	}
	exchange_end(c, status, "%s %s%s%s", c->addr,
		     status == 0 ? "closed the connection" : "withdrew its request",
		     why[0] != '\0' ? ": " : "", why);
}

/* End a connection that sent a message, or bytes, that are invalid in this state. */
static void
conn_unexpected(struct exchange_conn *c, const char *why)
{
	c->x->stats.malformed++;
	if (c->state == CONN_HELLO_SENT)
		exchange_end(c, -EPROTO, "connect %s: bad answer: %s; is a leat listener there?",
			     c->addr, why);
	else if (c->state == CONN_HELLO_WAIT)
		exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_MALFORMED, why);
	else
		exchange_end(c, -EPROTO, "%s broke the address exchange: %s", c->addr, why);
}

static void
conn_prove(struct exchange_conn *c)
{
	uint64_t now = c->x->now;

	c->state = CONN_PROVING;
	/* The time-out counts from now: this side may have been polled late. */
	exchange_timer_set(c, c->connector ? RTE_MAX(c->deadline, now + leat_us_to_cycles(PROVE_US))
					   : leat_time_add(now, c->x->handshake_cycles));
	if (c->x->prove)
		exchange_event_add(c, CONN_EV_PROVE);
	else
		exchange_conn_proven(c);
}

void
exchange_conn_proven(struct exchange_conn *c)
{
	uint8_t msg[EXCHANGE_HDR_LEN];

	c->state = CONN_PROOF_SENT;
	(void)exchange_conn_send(c, msg, exchange_wire_empty(msg, EXCHANGE_PROOF));
}

static void
conn_message(struct exchange_conn *c, const struct exchange_msg *msg)
{
	uint8_t ready[EXCHANGE_HDR_LEN];
	bool first = c->state == CONN_HELLO_WAIT || c->state == CONN_HELLO_SENT;

	if (first && c->rx_fds.nb > 0 && msg->type != EXCHANGE_HELLO &&
	    msg->type != EXCHANGE_ACCEPT) {
		conn_unexpected(c, EXCHANGE_STRAY_FDS);
	} else if (c->state == CONN_HELLO_WAIT && msg->type == EXCHANGE_HELLO) {
		conn_hello(c, msg);
	} else if (c->state == CONN_HELLO_SENT && msg->type == EXCHANGE_ACCEPT) {
		conn_keep_msg(c, msg);
		conn_prove(c);
	} else if (c->connector && c->state < CONN_UP && msg->type == EXCHANGE_REJECT) {
		conn_rejected(c, msg);
	} else if (c->state == CONN_ACCEPT_SENT && msg->type == EXCHANGE_PROOF) {
		conn_prove(c);
	} else if (c->state == CONN_PROOF_SENT && c->connector && msg->type == EXCHANGE_PROOF) {
		conn_up(c);
		(void)exchange_conn_send(c, ready, exchange_wire_empty(ready, EXCHANGE_READY));
	} else if (c->state == CONN_PROOF_SENT && !c->connector && msg->type == EXCHANGE_READY) {
		conn_up(c);
	} else if (msg->type == EXCHANGE_BYE && c->state >= CONN_REQUESTED && c->state <= CONN_UP) {
		conn_bye(c, msg);
	} else if (msg->type == EXCHANGE_NOTE && c->state == CONN_UP && c->x->transport->local) {
		exchange_event_add(c, CONN_EV_NOTE);
	} else {
		conn_unexpected(c, "a message out of turn");
	}
}

static void
conn_other_version(struct exchange_conn *c, const struct exchange_msg *msg)
{
	char why[EXCHANGE_TEXT_MAX];

	if (c->state != CONN_HELLO_WAIT) {
		conn_unexpected(c, "another version");
		return;
	}
	c->x->stats.malformed++;
	snprintf(why, sizeof(why), "version %u is not spoken here, only version %u",
		 (unsigned int)msg->version, (unsigned int)LEAT_EXCHANGE_VERSION);
	exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_VERSION, why);
}

/* Handle the end of the connection. err: 0 if the other side closed it, else a positive errno. */
static void
conn_broken(struct exchange_conn *c, int err)
{
	switch (c->state) {
	case CONN_HELLO_SENT:
		exchange_dial_failed(c, ECONNRESET);
		break;
	case CONN_REQUESTED:
		exchange_end(c, -ECONNRESET, "%s withdrew its request", c->addr);
		break;
	case CONN_ACCEPT_SENT:
	case CONN_PROVING:
	case CONN_PROOF_SENT:
	case CONN_UP:
		if (err == 0 || err == ECONNRESET || err == EPIPE)
			exchange_end(c, -ECONNRESET, "%s is gone: its program ended without a BYE",
				     c->addr);
		else
			/* After TCP_USER_TIMEOUT, err is the last error of the network. */
			exchange_end(c, -ETIMEDOUT,
				     "%s is gone: no sign of its host within %u.%u s (%s)", c->addr,
				     c->x->dead_after_ms / 1000, c->x->dead_after_ms / 100 % 10,
				     strerror(err));
		break;
	default:
		exchange_slot_put(c);
		break;
	}
}

static void
conn_read_closing(struct exchange_conn *c)
{
	unsigned int i;

	for (i = 0; i < CLOSING_READS; i++) {
		ssize_t n = recv(c->fd, c->rx, sizeof(c->rx), MSG_DONTWAIT);

		if (n > 0 || (n < 0 && errno == EINTR))
			continue;
		if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
			exchange_slot_put(c);
		return;
	}
}

/* Handle descriptors that this process could not receive because of its limit of open files. */
static void
conn_no_fd(struct exchange_conn *c)
{
	c->x->stats.no_fd++;
	if (c->connector)
		exchange_dial_failed(c, EMFILE);
	else
		exchange_conn_busy(c, "no descriptor is free here for those of the HELLO");
}

/* Read once, and handle the complete messages. Returns the number of bytes received. */
static ssize_t
conn_read(struct exchange_conn *c)
{
	struct exchange_msg msg;
	const char *why = "";
	uint16_t gen = c->gen;
	ssize_t n;
	int len;

	do
		n = c->x->transport->recv(c, &why);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EMFILE) {
		conn_no_fd(c);
		return 0;
	}
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
			conn_broken(c, n == 0 ? 0 : errno);
		return 0;
	}
	if (why[0] != '\0') {
		conn_unexpected(c, why);
		return n;
	}
	c->rx_len = (uint16_t)(c->rx_len + n);

	while (c->rx_len > 0) {
		len = exchange_wire_parse(c->rx, c->rx_len, &msg, &why);
		if (len == 0)
			return n;
		if (len == -EPROTONOSUPPORT)
			conn_other_version(c, &msg);
		else if (len < 0)
			conn_unexpected(c, why);
		else
			conn_message(c, &msg);
		/* Stop if the connection has ended, or if its connector begins a new attempt. */
		if (len < 0 || c->gen != gen || c->fd < 0 || c->state < CONN_HELLO_SENT ||
		    c->state == CONN_CLOSING || c->state == CONN_PARTING)
			return n;
		c->rx_len = (uint16_t)(c->rx_len - len);
		memmove(c->rx, c->rx + len, c->rx_len);
	}
	return n;
}

/* Read the bytes that the process sent before it ended: those that the socket holds now. */
void
exchange_conn_process_ended(struct exchange_conn *c)
{
	uint16_t gen = c->gen;
	int left = 0;

	if (ioctl(c->fd, FIONREAD, &left) != 0)
		left = 0;
	while (left > 0) {
		ssize_t n = c->state == CONN_CLOSING ? 0 : conn_read(c);

		if (c->gen != gen || c->process_fd < 0)
			return;
		if (n <= 0)
			break;
		left -= (int)n;
	}
	conn_broken(c, 0);
}

void
exchange_conn_event(struct exchange_conn *c, uint32_t events)
{
	uint16_t gen = c->gen;
	int err = 0;
	socklen_t len = sizeof(err);

	if (c->state == CONN_CONNECTING) {
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
			err = errno;
		if (err != 0)
			exchange_dial_failed(c, err);
		else if ((events & EPOLLOUT) != 0)
			exchange_dial_connected(c);
		return;
	}
	if (c->state == CONN_CLOSING) {
		if ((events & EPOLLOUT) != 0)
			(void)conn_flush(c);
		if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
			conn_read_closing(c);
		return;
	}
	if ((events & EPOLLOUT) != 0)
		(void)conn_flush(c);
	/* recv() also reports errors, after the bytes that came before them. */
	if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && c->gen == gen && c->fd >= 0)
		(void)conn_read(c);
}

void
exchange_conn_accepted(struct leat_exchange *x, int fd, const struct sockaddr *sa, socklen_t len)
{
	struct exchange_conn *c = exchange_slot_get(x);
	bool allowed;

	if (c == NULL) {
		x->stats.dropped++;
		(void)close(fd);
		return;
	}
	c->fd = fd;
	allowed = x->transport->accepted(c, sa, len);
	c->state = CONN_HELLO_WAIT;
	exchange_list_move(c, &x->pending);
	exchange_timer_set(c, leat_time_add(x->now, x->handshake_cycles));
	if (exchange_epoll_set(c, EPOLLIN) != 0) {
		exchange_slot_put(c);
	} else if (!allowed) {
		x->stats.other_user++;
		LEAT_LOG(DEBUG, exchange, "%s: %s", x->name, c->text);
		exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_USER, c->text);
	}
}
