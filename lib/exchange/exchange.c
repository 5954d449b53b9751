/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"
#include "exchange_pvt.h"

#define OOB_TIMEOUT_US 5000000
/* Work per poll. */
#define OOB_POLL_EVENTS 64
#define OOB_POLL_TIMERS 256
#define OOB_GEN_MAX 0x7fff

/* ---- slots, lists, timers ------------------------------------------------------------------- */

void
oob_list_move(struct oob_conn *c, struct oob_list *list)
{
	struct leat_oob *oob = c->oob;

	if (c->list != NULL) {
		TAILQ_REMOVE(c->list, c, link);
		oob->nb_pending -= c->list == &oob->pending;
	}
	c->list = list;
	if (list == &oob->free) {
		/* The one used last is warm. */
		TAILQ_INSERT_HEAD(list, c, link);
	} else if (list != NULL) {
		TAILQ_INSERT_TAIL(list, c, link);
		oob->nb_pending += list == &oob->pending;
	}
}

void
oob_timer_set(struct oob_conn *c, uint64_t expiry)
{
	leat_wheel_add(&c->oob->wheel, &c->timer, expiry);
}

void
oob_event_add(struct oob_conn *c, unsigned int event)
{
	if (c->events == 0)
		TAILQ_INSERT_TAIL(&c->oob->events, c, ev_link);
	c->events |= (uint8_t)event;
}

void
oob_id_count(struct oob_conn *c, bool on)
{
	if (c->counted != on) {
		c->counted = on;
		if (on)
			c->oob->nb_ids++;
		else
			c->oob->nb_ids--;
	}
}

int
oob_epoll_set(struct oob_conn *c, uint32_t mask)
{
	struct epoll_event ev = { .events = mask, .data.u64 = (uint32_t)oob_id(c) };

	if (mask == c->epoll_mask)
		return 0;
	if (epoll_ctl(c->oob->epfd, c->epoll_mask == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd,
		      &ev) != 0)
		return -errno;
	c->epoll_mask = mask;
	return 0;
}

/* Closing takes it out of the epoll set: no descriptor is ever duplicated, except by fork. */
void
oob_fd_close(struct oob_conn *c)
{
	if (c->fd < 0)
		return;
	if (c->epoll_mask != 0)
		(void)epoll_ctl(c->oob->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	(void)close(c->fd);
	c->fd = -1;
	c->epoll_mask = 0;
}

/* Frees what a connection holds besides its slot. */
static void
conn_release(struct oob_conn *c)
{
	oob_fd_close(c);
	leat_wheel_del(&c->oob->wheel, &c->timer);
	if (c->lookup != NULL) {
		leat_lookup_drop(c->lookup);
		c->lookup = NULL;
	}
	if (c->ai != NULL) {
		freeaddrinfo(c->ai);
		c->ai = NULL;
	}
}

void
oob_slot_put(struct oob_conn *c)
{
	conn_release(c);
	oob_id_count(c, false);
	if (c->events != 0)
		TAILQ_REMOVE(&c->oob->events, c, ev_link);
	c->events = 0;
	c->state = OOB_FREE;
	c->gen = c->gen == OOB_GEN_MAX ? 1 : (uint16_t)(c->gen + 1);
	oob_list_move(c, &c->oob->free);
}

struct oob_conn *
oob_slot_get(struct leat_oob *oob)
{
	struct oob_conn *c;

	if (TAILQ_EMPTY(&oob->free) && (c = TAILQ_FIRST(&oob->closing)) != NULL)
		oob_slot_put(c);
	if (TAILQ_EMPTY(&oob->free) && (c = TAILQ_FIRST(&oob->pending)) != NULL) {
		oob->stats.dropped++;
		oob_slot_put(c);
	}
	c = TAILQ_FIRST(&oob->free);
	if (c == NULL)
		return NULL;

	oob_list_move(c, NULL);
	c->user = NULL;
	c->connector = false;
	c->told = false;
	c->hope = false;
	c->status = 0;
	c->cause = 0;
	c->ai_next = NULL;
	c->blob_len = 0;
	c->priv_len = 0;
	c->rx_len = 0;
	c->tx_off = 0;
	c->tx_len = 0;
	c->kind[0] = '\0';
	c->text[0] = '\0';
	return c;
}

static void
end_text(struct oob_conn *c, const char *fmt, va_list ap)
{
	(void)vsnprintf(c->text, sizeof(c->text), fmt, ap);
	LEAT_LOG(DEBUG, fabric, "%s: %s", c->oob->name, c->text);
}

void
oob_end(struct oob_conn *c, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	end_text(c, fmt, ap);
	va_end(ap);

	if (!c->connector && !c->told) {
		oob_slot_put(c);
		return;
	}
	conn_release(c);
	oob_list_move(c, NULL);
	c->state = OOB_DEAD;
	c->status = status;
	oob_event_add(c, OOB_EV_END);
}

void
oob_part(struct oob_conn *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	end_text(c, fmt, ap);
	va_end(ap);
	/* There is nothing more to hear of it. */
	if (c->epoll_mask != 0)
		(void)epoll_ctl(c->oob->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	c->epoll_mask = 0;
	c->state = OOB_PARTING;
	c->status = 0;
	oob_event_add(c, OOB_EV_END);
}

struct oob_conn *
oob_conn_find(const struct leat_oob *oob, int id)
{
	unsigned int index = (unsigned int)id & 0xffff;
	struct oob_conn *c;

	if (id <= 0 || index >= oob->nb_slots)
		return NULL;
	c = &oob->conns[index];
	if (c->gen != (unsigned int)id >> 16 || c->state == OOB_FREE || c->state == OOB_CLOSING)
		return NULL;
	/* What was never shown to the owner is not his. */
	return c->connector || c->told ? c : NULL;
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static int
conf_check(const struct leat_oob_conf *conf)
{
	const char *p;

	if (conf->kind == NULL || conf->kind[0] == '\0' || strlen(conf->kind) >= LEAT_OOB_KIND_MAX)
		return leat_err(EINVAL, "address exchange: kind must have 1 to %d characters",
				LEAT_OOB_KIND_MAX - 1);
	for (p = conf->kind; *p != '\0'; p++)
		if (*p < 0x21 || *p > 0x7e)
			return leat_err(EINVAL,
					"address exchange: kind has a character that is not "
					"printable ASCII");
	if (conf->max_conns > 32768 || conf->max_pending > 8192)
		return leat_err(EINVAL, "address exchange: max_conns is at most 32768, max_pending "
					"at most 8192");
	if ((conf->dead_after_us != 0 && conf->dead_after_us < 2000000) ||
	    conf->dead_after_us > UINT64_C(3600000000))
		return leat_err(EINVAL, "address exchange: dead_after_us must be 2 s to 1 h");
	return 0;
}

struct leat_oob *
leat_oob_create(const struct leat_oob_conf *conf)
{
	struct leat_oob *oob;
	uint64_t us;
	unsigned int i;

	if (conf_check(conf) != 0)
		return NULL;
	oob = calloc(1, sizeof(*oob));
	if (oob == NULL) {
		leat_err(ENOMEM, "address exchange: no memory");
		return NULL;
	}
	oob->listen_fd = -1;
	oob->max_conns = conf->max_conns == 0 ? 64 : conf->max_conns;
	oob->max_pending = conf->max_pending == 0 ? 64 : conf->max_pending;
	oob->nb_slots = (uint16_t)(oob->max_conns + oob->max_pending);
	us = conf->handshake_timeout_us == 0 ? OOB_TIMEOUT_US : conf->handshake_timeout_us;
	oob->handshake_cycles = leat_us_to_cycles(us);
	oob->linger = conf->linger;
	us = conf->dead_after_us == 0 ? OOB_TIMEOUT_US : conf->dead_after_us;
	oob->dead_after_ms = (uint32_t)(us / 1000);
	oob->now = leat_now();
	snprintf(oob->name, sizeof(oob->name), "%s", conf->name == NULL ? "oob" : conf->name);
	snprintf(oob->kind, sizeof(oob->kind), "%s", conf->kind);
	TAILQ_INIT(&oob->free);
	TAILQ_INIT(&oob->pending);
	TAILQ_INIT(&oob->closing);
	TAILQ_INIT(&oob->resolving);
	TAILQ_INIT(&oob->events);
	leat_wheel_init(&oob->wheel, leat_us_to_cycles(1000), oob->now);

	oob->conns = calloc(oob->nb_slots, sizeof(*oob->conns));
	if (oob->conns == NULL) {
		leat_err(ENOMEM, "address exchange: no memory for %u connections", oob->nb_slots);
		free(oob);
		return NULL;
	}
	oob->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (oob->epfd < 0) {
		leat_err(errno, "address exchange: epoll_create: %s%s", strerror(errno),
			 errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
		free(oob->conns);
		free(oob);
		return NULL;
	}
	for (i = oob->nb_slots; i-- > 0;) {
		oob->conns[i].oob = oob;
		oob->conns[i].fd = -1;
		oob->conns[i].index = (uint16_t)i;
		oob->conns[i].gen = 1;
		oob_list_move(&oob->conns[i], &oob->free);
	}
	return oob;
}

void
leat_oob_destroy(struct leat_oob *oob)
{
	unsigned int i;

	if (oob == NULL)
		return;
	for (i = 0; i < oob->nb_slots; i++) {
		struct oob_conn *c = &oob->conns[i];

		if (c->state == OOB_HELLO_WAIT || c->state == OOB_REQUESTED)
			oob_conn_bye(c, OOB_REJECT, OOB_REASON_REJECTED, "the listener closes");
		else if (c->state != OOB_FREE && c->state != OOB_CLOSING)
			oob_conn_bye(c, OOB_BYE, OOB_REASON_NONE, NULL);
		/* Unread bytes would make the close a reset, and that could overtake the BYE. */
		if (c->state == OOB_CLOSING)
			(void)recv(c->fd, c->rx, sizeof(c->rx), MSG_DONTWAIT);
		if (c->state != OOB_FREE)
			oob_slot_put(c);
	}
	if (oob->listen_fd >= 0)
		(void)close(oob->listen_fd);
	(void)close(oob->epfd);
	free(oob->conns);
	free(oob);
}

/* ---- the owner's calls ---------------------------------------------------------------------- */

static int
data_check(const struct leat_oob *oob, const struct leat_oob_data *data)
{
	if (data->blob_len > LEAT_OOB_BLOB_MAX || data->priv_len > LEAT_OOB_PRIV_MAX)
		return leat_err(EINVAL,
				"%s: an address of %u bytes (at most %d) or private data of "
				"%u (at most %d)",
				oob->name, data->blob_len, LEAT_OOB_BLOB_MAX, data->priv_len,
				LEAT_OOB_PRIV_MAX);
	if ((data->blob_len > 0 && data->blob == NULL) ||
	    (data->priv_len > 0 && data->priv == NULL))
		return leat_err(EINVAL, "%s: a length without data", oob->name);
	return 0;
}

int
leat_oob_connect(struct leat_oob *oob, const char *addr, uint64_t timeout_us,
		 const struct leat_oob_data *data, void *user)
{
	char host[LEAT_OOB_ADDR_MAX], port[8];
	struct oob_conn *c;
	int ret;

	ret = leat_addr_split(addr, false, host, sizeof(host), port, sizeof(port));
	if (ret != 0)
		return ret;
	if (strlen(addr) >= LEAT_OOB_ADDR_MAX)
		return leat_err(EINVAL, "address '%.80s...' is too long", addr);
	ret = data_check(oob, data);
	if (ret != 0)
		return ret;
	c = oob->nb_ids >= oob->max_conns ? NULL : oob_slot_get(oob);
	if (c == NULL)
		return leat_err(ENOSPC, "%s: connect %s: all %u connections are in use", oob->name,
				addr, oob->max_conns);

	oob->now = leat_now();
	c->connector = true;
	c->user = user;
	c->began = oob->now;
	c->deadline = leat_time_add(oob->now, leat_us_to_cycles(timeout_us == 0 ? OOB_TIMEOUT_US
										: timeout_us));
	snprintf(c->addr, sizeof(c->addr), "%s", addr);
	c->tx_len = (uint16_t)oob_wire_hello(c->tx, OOB_HELLO, oob->kind, data);
	oob_id_count(c, true);
	oob_conn_start(c, host, port);
	return oob_id(c);
}

static struct oob_conn *
conn_asking(struct leat_oob *oob, int id)
{
	struct oob_conn *c = oob_conn_find(oob, id);

	return c == NULL || c->connector || (c->state != OOB_REQUESTED && c->state != OOB_DEAD)
		       ? NULL
		       : c;
}

int
leat_oob_accept(struct leat_oob *oob, int conn, const struct leat_oob_data *data, void *user)
{
	struct oob_conn *c = conn_asking(oob, conn);
	uint8_t msg[OOB_MSG_MAX];
	int ret;

	if (c == NULL || c->state == OOB_DEAD)
		return leat_err(ENOTCONN, "%s: accept: nobody is asking", oob->name);
	ret = data_check(oob, data);
	if (ret != 0)
		return ret;
	oob->now = leat_now();
	c->user = user;
	c->state = OOB_ACCEPT_SENT;
	oob_timer_set(c, leat_time_add(oob->now, oob->handshake_cycles));
	oob_conn_send(c, msg, oob_wire_hello(msg, OOB_ACCEPT, oob->kind, data));
	return 0;
}

int
leat_oob_reject(struct leat_oob *oob, int conn, const char *why)
{
	struct oob_conn *c = conn_asking(oob, conn);

	if (c == NULL)
		return leat_err(ENOTCONN, "%s: reject: nobody is asking", oob->name);
	oob->now = leat_now();
	oob_conn_bye(c, OOB_REJECT, OOB_REASON_REJECTED, why);
	return 0;
}

int
leat_oob_close(struct leat_oob *oob, int conn, const char *why)
{
	struct oob_conn *c = oob_conn_find(oob, conn);

	if (c == NULL)
		return leat_err(ENOTCONN, "%s: close: no such connection", oob->name);
	oob->now = leat_now();
	if (c->state == OOB_REQUESTED)
		oob_conn_bye(c, OOB_REJECT, OOB_REASON_REJECTED, why);
	else
		oob_conn_bye(c, OOB_BYE, OOB_REASON_NONE, why);
	return 0;
}

bool
leat_oob_lingers(const struct leat_oob *oob, int conn)
{
	unsigned int index = (unsigned int)conn & 0xffff;

	return conn > 0 && index < oob->nb_slots &&
	       oob->conns[index].gen == (unsigned int)conn >> 16 &&
	       oob->conns[index].state == OOB_CLOSING;
}

/* ---- polling -------------------------------------------------------------------------------- */

static void
timer_fired(struct leat_wheel_node *node, void *arg)
{
	struct leat_oob *oob = arg;

	if (node == &oob->listen_timer)
		oob_listener_resume(oob);
	else
		oob_conn_timeout(container_of(node, struct oob_conn, timer));
}

static void
event_fill(const struct oob_conn *c, unsigned int bit, struct leat_oob_event *ev)
{
	ev->conn = oob_id(c);
	ev->user = c->user;
	ev->status = 0;
	ev->blob_len = 0;
	ev->priv_len = 0;
	ev->kind[0] = '\0';
	ev->text[0] = '\0';
	memcpy(ev->addr, c->addr, sizeof(ev->addr));
	if (bit == OOB_EV_END) {
		ev->type = c->connector && !c->told ? LEAT_OOB_FAILED : LEAT_OOB_DOWN;
		ev->status = c->status;
		memcpy(ev->text, c->text, sizeof(ev->text));
		return;
	}
	ev->type = bit == OOB_EV_REQUEST ? LEAT_OOB_REQUEST : LEAT_OOB_CONNECTED;
	if (bit == OOB_EV_REQUEST || c->connector) {
		ev->blob_len = c->blob_len;
		ev->priv_len = c->priv_len;
		memcpy(ev->blob, c->msg, c->blob_len);
		memcpy(ev->priv, c->msg + c->blob_len, c->priv_len);
		memcpy(ev->kind, c->kind, sizeof(ev->kind));
	}
}

static unsigned int
events_fetch(struct leat_oob *oob, struct leat_oob_event *ev, unsigned int n)
{
	unsigned int i = 0;
	struct oob_conn *c;

	while (i < n && (c = TAILQ_FIRST(&oob->events)) != NULL) {
		unsigned int bit = c->events & -c->events;

		event_fill(c, bit, &ev[i++]);
		c->told = true;
		c->events &= (uint8_t)~bit;
		if (c->events == 0)
			TAILQ_REMOVE(&oob->events, c, ev_link);
		if (bit == OOB_EV_END && c->state != OOB_PARTING)
			oob_slot_put(c);
	}
	return i;
}

unsigned int
leat_oob_poll(struct leat_oob *oob, uint64_t now, struct leat_oob_event *ev, unsigned int n)
{
	struct epoll_event ready[OOB_POLL_EVENTS];
	struct oob_conn *c, *next;
	int i, nb;

	oob->now = now;
	for (c = TAILQ_FIRST(&oob->resolving); c != NULL; c = next) {
		next = TAILQ_NEXT(c, link);
		oob_conn_resolve(c);
	}

	/* Nobody listens, nobody is connected: nothing to ask the kernel for. */
	nb = 0;
	if (oob->listen_fd >= 0 || oob->nb_ids > 0 || !TAILQ_EMPTY(&oob->closing))
		nb = epoll_wait(oob->epfd, ready, OOB_POLL_EVENTS, 0);
	for (i = 0; i < nb; i++) {
		uint64_t id = ready[i].data.u64;

		if (id == OOB_EPOLL_LISTENER) {
			oob_listener_event(oob);
			continue;
		}
		/* An earlier event of this turn may have ended it. */
		c = &oob->conns[id & 0xffff];
		if (c->gen == id >> 16 && c->fd >= 0)
			oob_conn_event(c, ready[i].events);
	}
	/* Last: who comes late himself finds what came in time, and not that its time is up. */
	(void)leat_wheel_run(&oob->wheel, now, timer_fired, oob, OOB_POLL_TIMERS);
	return events_fetch(oob, ev, n);
}

int
leat_oob_fd(const struct leat_oob *oob)
{
	return oob->epfd;
}

const char *
leat_oob_state(const struct leat_oob *oob, int conn)
{
	static const char *const names[] = {
		[OOB_FREE] = "dead",
		[OOB_RESOLVING] = "resolving the name",
		[OOB_CONNECTING] = "connecting",
		[OOB_BACKOFF] = "waiting to try again",
		[OOB_HELLO_SENT] = "waiting for the answer",
		[OOB_HELLO_WAIT] = "waiting for HELLO",
		[OOB_REQUESTED] = "asking",
		[OOB_ACCEPT_SENT] = "waiting for READY",
		[OOB_UP] = "up",
		[OOB_PARTING] = "parting",
		[OOB_DEAD] = "ended",
		[OOB_CLOSING] = "closing",
	};
	const struct oob_conn *c = oob_conn_find(oob, conn);

	return names[c == NULL ? OOB_FREE : c->state];
}

void
leat_oob_stats_get(const struct leat_oob *oob, struct leat_oob_stats *stats)
{
	*stats = oob->stats;
	stats->pending = oob->nb_pending;
	stats->conns = oob->nb_ids;
}
