/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange's instance: polling, events, and calls of its owner. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "exchange_names.h"
#include "exchange_pvt.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"

#define TIMEOUT_US 5000000
/* Maximum number of socket events, and of timers, that one poll handles. */
#define POLL_EVENTS 64
#define POLL_TIMERS 256

/* ---- create, destroy ------------------------------------------------------------------------ */

static int
conf_check(const struct leat_exchange_conf *conf)
{
	const char *p;

	if (conf->kind == NULL || conf->kind[0] == '\0' ||
	    strlen(conf->kind) >= LEAT_EXCHANGE_KIND_MAX)
		return leat_err(EINVAL, "address exchange: kind must have 1 to %d characters",
				LEAT_EXCHANGE_KIND_MAX - 1);
	for (p = conf->kind; *p != '\0'; p++)
		if (*p < 0x21 || *p > 0x7e)
			return leat_err(EINVAL,
					"address exchange: kind has a character that is not "
					"printable ASCII");
	if (conf->max_conns > 32768 || conf->max_pending > 8192 || conf->source_half > 32768 ||
	    conf->source_max > 32768)
		return leat_err(EINVAL, "address exchange: max_conns, source_half and source_max "
					"are at most 32768, max_pending at most 8192");
	if (conf->max_fds > LEAT_EXCHANGE_FDS_MAX)
		return leat_err(EINVAL, "address exchange: max_fds is at most %d",
				LEAT_EXCHANGE_FDS_MAX);
	if ((conf->dead_after_us != 0 && conf->dead_after_us < 2000000) ||
	    conf->dead_after_us > UINT64_C(3600000000))
		return leat_err(EINVAL, "address exchange: dead_after_us must be 2 s to 1 h");
	return conf->dir == NULL ? 0 : exchange_dir_check(conf);
}

static void
exchange_free(struct leat_exchange *x)
{
	free(x->conns);
	free(x->sources);
	free(x);
}

struct leat_exchange *
leat_exchange_create(const struct leat_exchange_conf *conf)
{
	struct leat_exchange *x;
	uint64_t us;
	unsigned int i;

	if (conf_check(conf) != 0)
		return NULL;
	x = calloc(1, sizeof(*x));
	if (x == NULL) {
		leat_err(ENOMEM, "address exchange: no memory");
		return NULL;
	}
	x->listen_fd = -1;
	x->max_conns = conf->max_conns == 0 ? 64 : conf->max_conns;
	x->max_pending = conf->max_pending == 0 ? 64 : conf->max_pending;
	x->nb_slots = (uint16_t)(x->max_conns + x->max_pending);
	us = conf->handshake_timeout_us == 0 ? TIMEOUT_US : conf->handshake_timeout_us;
	x->handshake_cycles = leat_us_to_cycles(us);
	x->transport = conf->dir == NULL ? &exchange_tcp : &exchange_unix;
	if (conf->dir != NULL)
		exchange_names_init(&x->names, conf);
	x->max_fds = conf->max_fds == 0 ? LEAT_EXCHANGE_FDS_TAKEN : conf->max_fds;
	x->linger = conf->linger;
	x->prove = conf->prove;
	x->source_half = conf->source_half;
	if (x->source_half == 0)
		x->source_half = RTE_MAX((uint16_t)(x->max_conns / 4), 8);
	x->source_max = conf->source_max == 0 ? x->max_conns : conf->source_max;
	x->random = (leat_now() * UINT64_C(0x9e3779b97f4a7c15)) ^ (uintptr_t)x;
	if (x->random == 0)
		x->random = 1;
	us = conf->dead_after_us == 0 ? TIMEOUT_US : conf->dead_after_us;
	x->dead_after_ms = (uint32_t)(us / 1000);
	x->now = leat_now();
	snprintf(x->name, sizeof(x->name), "%s", conf->name == NULL ? "exchange" : conf->name);
	snprintf(x->kind, sizeof(x->kind), "%s", conf->kind);
	TAILQ_INIT(&x->free);
	TAILQ_INIT(&x->pending);
	TAILQ_INIT(&x->half);
	TAILQ_INIT(&x->closing);
	TAILQ_INIT(&x->resolving);
	TAILQ_INIT(&x->events);
	leat_wheel_init(&x->wheel, leat_us_to_cycles(1000), x->now);

	x->conns = calloc(x->nb_slots, sizeof(*x->conns));
	x->sources = calloc(x->nb_slots, sizeof(*x->sources));
	if (x->conns == NULL || x->sources == NULL) {
		leat_err(ENOMEM, "address exchange: no memory for %u connections", x->nb_slots);
		exchange_free(x);
		return NULL;
	}
	exchange_source_init(x);
	x->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (x->epfd < 0) {
		leat_err(errno, "address exchange: epoll_create: %s%s", strerror(errno),
			 errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
		exchange_free(x);
		return NULL;
	}
	for (i = x->nb_slots; i-- > 0;) {
		x->conns[i].x = x;
		x->conns[i].fd = -1;
		x->conns[i].process_fd = -1;
		x->conns[i].index = (uint16_t)i;
		/* Start close to the wrap, so that each program passes it; see leat_cursor.h. */
		x->conns[i].gen = EXCHANGE_GEN_MAX - 1;
		exchange_list_move(&x->conns[i], &x->free);
	}
	return x;
}

void
leat_exchange_destroy(struct leat_exchange *x)
{
	unsigned int i;

	if (x == NULL)
		return;
	for (i = 0; i < x->nb_slots; i++) {
		struct exchange_conn *c = &x->conns[i];

		if (c->state == CONN_HELLO_WAIT || c->state == CONN_REQUESTED)
			exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_REJECTED,
					  "the listener closes");
		else if (c->state != CONN_FREE && c->state != CONN_CLOSING)
			exchange_conn_bye(c, EXCHANGE_BYE, EXCHANGE_REASON_NONE, NULL);
		/* Unread bytes would make close() send a reset, which could overtake the BYE. */
		if (c->state == CONN_CLOSING)
			(void)recv(c->fd, c->rx, sizeof(c->rx), MSG_DONTWAIT);
		if (c->state != CONN_FREE)
			exchange_slot_put(c);
	}
	exchange_listener_close(x);
	(void)close(x->epfd);
	exchange_free(x);
}

/* ---- calls of the owner --------------------------------------------------------------------- */

static int
data_check(const struct leat_exchange *x, const struct leat_exchange_data *data)
{
	if (data->blob_len > LEAT_EXCHANGE_BLOB_MAX || data->priv_len > LEAT_EXCHANGE_PRIV_MAX ||
	    data->proof_len > LEAT_EXCHANGE_PROOF_MAX)
		return leat_err(EINVAL,
				"%s: an address of %u bytes (at most %d) or private data of "
				"%u (at most %d) or a proof of %u (at most %d)",
				x->name, data->blob_len, LEAT_EXCHANGE_BLOB_MAX, data->priv_len,
				LEAT_EXCHANGE_PRIV_MAX, data->proof_len, LEAT_EXCHANGE_PROOF_MAX);
	if ((data->blob_len > 0 && data->blob == NULL) ||
	    (data->priv_len > 0 && data->priv == NULL) ||
	    (data->proof_len > 0 && data->proof == NULL))
		return leat_err(EINVAL, "%s: a length without data", x->name);
	if (data->nb_fds > 0 && !x->transport->local)
		return leat_err(EINVAL, "%s: descriptors don't go over TCP", x->name);
	if (data->nb_fds > LEAT_EXCHANGE_FDS_MAX || (data->nb_fds > 0 && data->fds == NULL))
		return leat_err(EINVAL, "%s: %u descriptors, at most %d can be given", x->name,
				data->nb_fds, LEAT_EXCHANGE_FDS_MAX);
	return 0;
}

int
leat_exchange_connect(struct leat_exchange *x, const char *addr, uint64_t timeout_us,
		      const struct leat_exchange_data *data, void *user)
{
	struct exchange_fds fds;
	struct exchange_conn *c;
	int ret;

	ret = x->transport->check(x, addr);
	if (ret != 0)
		return ret;
	if (strlen(addr) >= LEAT_EXCHANGE_ADDR_MAX)
		return leat_err(EINVAL, "address '%.80s...' is too long", addr);
	ret = data_check(x, data);
	if (ret != 0)
		return ret;
	ret = exchange_fds_dup(&fds, data, x->name);
	if (ret != 0)
		return ret;
	c = x->nb_ids >= x->max_conns ? NULL : exchange_slot_get(x);
	if (c == NULL) {
		exchange_fds_close(&fds);
		return leat_err(ENOSPC, "%s: connect %s: all %u connections are in use", x->name,
				addr, x->max_conns);
	}

	x->now = leat_now();
	c->connector = true;
	c->user = user;
	c->began = x->now;
	c->deadline =
		leat_time_add(x->now, leat_us_to_cycles(timeout_us == 0 ? TIMEOUT_US : timeout_us));
	snprintf(c->addr, sizeof(c->addr), "%s", addr);
	c->hello_len = (uint16_t)exchange_wire_hello(c->tx, EXCHANGE_HELLO, x->kind, data);
	c->tx_fds = fds;
	exchange_id_count(c, true);
	exchange_dial(c);
	return exchange_id(c);
}

static struct exchange_conn *
request_find(struct leat_exchange *x, int id)
{
	struct exchange_conn *c = exchange_conn_find(x, id);

	return c == NULL || c->connector || (c->state != CONN_REQUESTED && c->state != CONN_DEAD)
		       ? NULL
		       : c;
}

int
leat_exchange_accept(struct leat_exchange *x, int conn, const struct leat_exchange_data *data,
		     void *user)
{
	struct exchange_conn *c = request_find(x, conn);
	uint8_t msg[EXCHANGE_MSG_MAX];
	int ret;

	if (c == NULL || c->state == CONN_DEAD)
		return leat_err(ENOTCONN, "%s: accept: connection %d is no open request", x->name,
				conn);
	ret = data_check(x, data);
	if (ret != 0)
		return ret;
	ret = exchange_fds_dup(&c->tx_fds, data, x->name);
	if (ret != 0)
		return ret;
	x->now = leat_now();
	ret = exchange_conn_send(c, msg, exchange_wire_hello(msg, EXCHANGE_ACCEPT, x->kind, data));
	if (ret != 0 && c->tx_fds.nb > 0 && ret != EPIPE && ret != ECONNRESET) {
		/* Nothing of the ACCEPT was sent: the request stays open. */
		c->tx_len = 0;
		exchange_fds_close(&c->tx_fds);
		return leat_err(ret, "%s: accept: descriptors can't be sent: %s", x->name,
				strerror(ret));
	}
	c->user = user;
	c->state = CONN_ACCEPT_SENT;
	c->accepted_at = x->awake;
	exchange_timer_set(c, leat_time_add(x->now, x->handshake_cycles));
	return 0;
}

int
leat_exchange_proven(struct leat_exchange *x, int conn)
{
	struct exchange_conn *c = exchange_conn_find(x, conn);

	if (c == NULL || c->state != CONN_PROVING)
		return leat_err(ENOTCONN, "%s: proven: connection %d waits for no proof", x->name,
				conn);
	x->now = leat_now();
	exchange_conn_proven(c);
	return 0;
}

int
leat_exchange_reject(struct leat_exchange *x, int conn, const char *why)
{
	struct exchange_conn *c = request_find(x, conn);

	if (c == NULL)
		return leat_err(ENOTCONN, "%s: reject: connection %d is no open request", x->name,
				conn);
	x->now = leat_now();
	exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_REJECTED, why);
	return 0;
}

int
leat_exchange_busy(struct leat_exchange *x, int conn, const char *why)
{
	struct exchange_conn *c = request_find(x, conn);

	if (c == NULL)
		return leat_err(ENOTCONN, "%s: busy: connection %d is no open request", x->name,
				conn);
	x->now = leat_now();
	exchange_source_make_room(x, NULL);
	exchange_conn_busy(c, why);
	return 0;
}

int
leat_exchange_close(struct leat_exchange *x, int conn, const char *why)
{
	struct exchange_conn *c = exchange_conn_find(x, conn);

	if (c == NULL)
		return leat_err(ENOTCONN, "%s: close: no such connection", x->name);
	x->now = leat_now();
	if (c->state == CONN_REQUESTED)
		exchange_conn_bye(c, EXCHANGE_REJECT, EXCHANGE_REASON_REJECTED, why);
	else
		exchange_conn_bye(c, EXCHANGE_BYE, EXCHANGE_REASON_NONE, why);
	return 0;
}

int
leat_exchange_note(struct leat_exchange *x, int conn)
{
	const struct exchange_conn *c = exchange_conn_find(x, conn);
	uint8_t msg[EXCHANGE_HDR_LEN];
	size_t len = exchange_wire_empty(msg, EXCHANGE_NOTE);

	if (!x->transport->local)
		return leat_err(EOPNOTSUPP, "%s: note: notes don't go over TCP", x->name);
	if (c == NULL || c->state != CONN_UP)
		return leat_err(ENOTCONN, "%s: note: connection %d is not up", x->name, conn);
	/*
	 * A UNIX socket accepts these few bytes in whole or not at all. If it refuses them it is
	 * full of notes, or the connection has ended and DOWN reports that: a failure needs no
	 * handling. If a part of READY is still unsent, it must be sent first; it wakes the other
	 * side as well.
	 */
	if (c->tx_off == c->tx_len)
		(void)send(c->fd, msg, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return 0;
}

bool
leat_exchange_lingers(const struct leat_exchange *x, int conn)
{
	unsigned int index = (unsigned int)conn & 0xffff;

	return conn > 0 && index < x->nb_slots && x->conns[index].gen == (unsigned int)conn >> 16 &&
	       x->conns[index].state == CONN_CLOSING;
}

/* ---- polling -------------------------------------------------------------------------------- */

static void
timer_fired(struct leat_wheel_node *node, void *arg)
{
	struct leat_exchange *x = arg;

	if (node == &x->listen_timer)
		exchange_listener_resume(x);
	else if (node == &x->names.sweep_timer)
		exchange_names_sweep(x);
	else
		exchange_conn_timeout(container_of(node, struct exchange_conn, timer));
}

static void
event_fill(struct exchange_conn *c, unsigned int bit, struct leat_exchange_event *ev)
{
	ev->conn = exchange_id(c);
	ev->user = c->user;
	ev->status = 0;
	ev->blob_len = 0;
	ev->priv_len = 0;
	ev->proof_len = 0;
	ev->nb_fds = 0;
	ev->kind[0] = '\0';
	ev->text[0] = '\0';
	memcpy(ev->addr, c->addr, sizeof(ev->addr));
	if (bit == CONN_EV_END) {
		ev->type = c->connector && !c->was_up ? LEAT_EXCHANGE_FAILED : LEAT_EXCHANGE_DOWN;
		ev->status = c->status;
		memcpy(ev->text, c->text, sizeof(ev->text));
		return;
	}
	if (bit == CONN_EV_NOTE) {
		ev->type = LEAT_EXCHANGE_NOTE;
		return;
	}
	ev->type = bit == CONN_EV_REQUEST ? LEAT_EXCHANGE_REQUEST
		   : bit == CONN_EV_PROVE ? LEAT_EXCHANGE_PROVE
					  : LEAT_EXCHANGE_CONNECTED;
	if (bit != CONN_EV_PROVE) {
		memcpy(ev->fds, c->rx_fds.fd, c->rx_fds.nb * sizeof(c->rx_fds.fd[0]));
		ev->nb_fds = c->rx_fds.nb;
		c->rx_fds.nb = 0;
	}
	if (bit == CONN_EV_REQUEST || c->connector) {
		ev->blob_len = c->blob_len;
		ev->priv_len = c->priv_len;
		memcpy(ev->blob, c->msg, c->blob_len);
		memcpy(ev->priv, c->msg + c->blob_len, c->priv_len);
		ev->proof_len = c->proof_len;
		memcpy(ev->proof, c->msg + c->blob_len + c->priv_len, c->proof_len);
		memcpy(ev->kind, c->kind, sizeof(ev->kind));
	}
}

static unsigned int
events_fetch(struct leat_exchange *x, struct leat_exchange_event *ev, unsigned int n)
{
	unsigned int i = 0;
	struct exchange_conn *c;

	while (i < n && (c = TAILQ_FIRST(&x->events)) != NULL) {
		unsigned int bit = c->events & -c->events;

		event_fill(c, bit, &ev[i++]);
		c->event_fetched = true;
		c->was_up |= bit == CONN_EV_CONNECTED;
		c->events &= (uint8_t)~bit;
		if (c->events == 0)
			TAILQ_REMOVE(&x->events, c, ev_link);
		if (bit == CONN_EV_END && c->state != CONN_PARTING)
			exchange_slot_put(c);
	}
	return i;
}

unsigned int
leat_exchange_poll(struct leat_exchange *x, uint64_t now, struct leat_exchange_event *ev,
		   unsigned int n)
{
	struct epoll_event ready[POLL_EVENTS];
	struct exchange_conn *c, *next;
	int i, nb;

	exchange_source_clock(x, now);
	x->now = now;
	for (c = TAILQ_FIRST(&x->resolving); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		exchange_tcp_resolve(c);
	}

	/* Without a listener and connections no system call is needed. */
	nb = 0;
	if (x->listen_fd >= 0 || x->nb_ids > 0 || !TAILQ_EMPTY(&x->closing))
		nb = epoll_wait(x->epfd, ready, POLL_EVENTS, 0);
	for (i = 0; i < nb; i++) {
		uint64_t id = ready[i].data.u64;

		if (id == EXCHANGE_EPOLL_LISTENER) {
			exchange_listener_event(x);
			continue;
		}
		/* An earlier event of this poll may have ended the connection. */
		c = &x->conns[id & 0xffff];
		if (c->gen != (uint32_t)id >> 16 || c->fd < 0)
			continue;
		if ((id & EXCHANGE_EPOLL_PROCESS) == 0)
			exchange_conn_event(c, ready[i].events);
		else if (c->process_fd >= 0)
			exchange_conn_process_ended(c);
	}
	/*
	 * Run timers last: if the owner polls late, messages that came in time prevent a time-out.
	 */
	(void)leat_wheel_run(&x->wheel, now, timer_fired, x, POLL_TIMERS);
	return events_fetch(x, ev, n);
}

int
leat_exchange_fd(const struct leat_exchange *x)
{
	return x->epfd;
}

const char *
leat_exchange_state(const struct leat_exchange *x, int conn)
{
	static const char *const names[] = {
		[CONN_FREE] = "dead",
		[CONN_RESOLVING] = "resolving the name",
		[CONN_CONNECTING] = "connecting",
		[CONN_BACKOFF] = "waiting to try again",
		[CONN_HELLO_SENT] = "waiting for the answer",
		[CONN_HELLO_WAIT] = "waiting for HELLO",
		[CONN_REQUESTED] = "asking",
		[CONN_ACCEPT_SENT] = "accepted",
		[CONN_PROVING] = "proving the address",
		[CONN_PROOF_SENT] = "waiting for the other side's proof",
		[CONN_UP] = "up",
		[CONN_PARTING] = "parting",
		[CONN_DEAD] = "ended",
		[CONN_CLOSING] = "closing",
	};
	const struct exchange_conn *c = exchange_conn_find(x, conn);

	return names[c == NULL ? CONN_FREE : c->state];
}

void
leat_exchange_stats_get(const struct leat_exchange *x, struct leat_exchange_stats *stats)
{
	*stats = x->stats;
	stats->pending = x->nb_pending;
	stats->conns = x->nb_ids;
}
