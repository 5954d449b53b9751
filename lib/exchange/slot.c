/* SPDX-License-Identifier: BSD-3-Clause */

/* Slots of connections: get and put, lists, timer, events, descriptors, and the end. */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_log.h"

void
exchange_list_move(struct exchange_conn *c, struct exchange_list *list)
{
	struct leat_exchange *x = c->x;

	if (c->list != NULL) {
		TAILQ_REMOVE(c->list, c, link);
		if (c->list == &x->pending) {
			x->nb_pending--;
			c->source->pending--;
		} else if (c->list == &x->half) {
			c->source->half--;
		}
	}
	c->list = list;
	if (list == &x->free) {
		/* At the head, to be reused first: this slot is still in the CPU's cache. */
		TAILQ_INSERT_HEAD(list, c, link);
	} else if (list != NULL) {
		TAILQ_INSERT_TAIL(list, c, link);
		if (list == &x->pending) {
			x->nb_pending++;
			c->source->pending++;
		} else if (list == &x->half) {
			c->source->half++;
		}
	}
}

void
exchange_timer_set(struct exchange_conn *c, uint64_t expiry)
{
	leat_wheel_add(&c->x->wheel, &c->timer, expiry);
}

void
exchange_event_add(struct exchange_conn *c, unsigned int event)
{
	if (c->events == 0)
		TAILQ_INSERT_TAIL(&c->x->events, c, ev_link);
	c->events |= (uint8_t)event;
}

void
exchange_id_count(struct exchange_conn *c, bool on)
{
	if (c->counted != on) {
		c->counted = on;
		if (on)
			c->x->nb_ids++;
		else
			c->x->nb_ids--;
		if (c->source != NULL)
			c->source->conns =
				(uint16_t)(on ? c->source->conns + 1 : c->source->conns - 1);
	}
}

int
exchange_epoll_set(struct exchange_conn *c, uint32_t mask)
{
	struct epoll_event ev = { .events = mask, .data.u64 = (uint32_t)exchange_id(c) };
	int op = c->epoll_mask == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (mask == c->epoll_mask)
		return 0;
	if (epoll_ctl(c->x->epfd, op, c->fd, &ev) != 0)
		return -errno;
	c->epoll_mask = mask;
	return 0;
}

void
exchange_process_close(struct exchange_conn *c)
{
	if (c->process_fd < 0)
		return;
	(void)epoll_ctl(c->x->epfd, EPOLL_CTL_DEL, c->process_fd, NULL);
	(void)close(c->process_fd);
	c->process_fd = -1;
}

/* Remove descriptors from epoll before closing them: a forked child may keep the file open. */
void
exchange_fd_close(struct exchange_conn *c)
{
	exchange_process_close(c);
	if (c->fd < 0)
		return;
	if (c->epoll_mask != 0)
		(void)epoll_ctl(c->x->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	(void)close(c->fd);
	c->fd = -1;
	c->epoll_mask = 0;
}

/* Free everything that a connection holds except its slot. */
static void
conn_release(struct exchange_conn *c)
{
	exchange_fd_close(c);
	exchange_fds_close(&c->tx_fds);
	leat_wheel_del(&c->x->wheel, &c->timer);
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
exchange_slot_put(struct exchange_conn *c)
{
	conn_release(c);
	/* conn_release() keeps rx_fds: until the slot is freed, an event may deliver them. */
	exchange_fds_close(&c->rx_fds);
	exchange_id_count(c, false);
	if (c->events != 0)
		TAILQ_REMOVE(&c->x->events, c, ev_link);
	c->events = 0;
	c->state = CONN_FREE;
	c->gen = c->gen == EXCHANGE_GEN_MAX ? 1 : (uint16_t)(c->gen + 1);
	exchange_list_move(c, &c->x->free);
	exchange_source_drop(c);
}

struct exchange_conn *
exchange_slot_get(struct leat_exchange *x)
{
	struct exchange_conn *c;

	if (TAILQ_EMPTY(&x->free) && (c = TAILQ_FIRST(&x->closing)) != NULL)
		exchange_slot_put(c);
	if (TAILQ_EMPTY(&x->free) && !TAILQ_EMPTY(&x->pending)) {
		x->stats.dropped++;
		exchange_slot_put(exchange_source_pending_victim(x));
	}
	c = TAILQ_FIRST(&x->free);
	if (c == NULL)
		return NULL;

	exchange_list_move(c, NULL);
	c->user = NULL;
	c->connector = false;
	c->event_fetched = false;
	c->was_up = false;
	c->proof_len = 0;
	c->retryable = false;
	c->status = 0;
	c->cause = 0;
	c->ai_next = NULL;
	c->blob_len = 0;
	c->priv_len = 0;
	c->rx_len = 0;
	c->tx_off = 0;
	c->tx_len = 0;
	c->hello_len = 0;
	c->kind[0] = '\0';
	c->text[0] = '\0';
	return c;
}

static void
end_text(struct exchange_conn *c, const char *fmt, va_list ap)
{
	(void)vsnprintf(c->text, sizeof(c->text), fmt, ap);
	LEAT_LOG(DEBUG, exchange, "%s: %s", c->x->name, c->text);
}

void
exchange_end(struct exchange_conn *c, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	end_text(c, fmt, ap);
	va_end(ap);

	if (status == -ECONNRESET)
		c->x->transport->peer_died(c->x);
	if (!c->connector && !c->event_fetched) {
		exchange_slot_put(c);
		return;
	}
	conn_release(c);
	exchange_list_move(c, NULL);
	c->state = CONN_DEAD;
	c->status = status;
	exchange_event_add(c, CONN_EV_END);
}

void
exchange_part(struct exchange_conn *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	end_text(c, fmt, ap);
	va_end(ap);
	/* Stop watching the socket: the other side sends nothing more. */
	if (c->epoll_mask != 0)
		(void)epoll_ctl(c->x->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	c->epoll_mask = 0;
	exchange_process_close(c);
	c->state = CONN_PARTING;
	c->status = 0;
	exchange_event_add(c, CONN_EV_END);
}

struct exchange_conn *
exchange_conn_find(const struct leat_exchange *x, int id)
{
	unsigned int index = (unsigned int)id & 0xffff;
	struct exchange_conn *c;

	if (id <= 0 || index >= x->nb_slots)
		return NULL;
	c = &x->conns[index];
	if (c->gen != (unsigned int)id >> 16 || c->state == CONN_FREE || c->state == CONN_CLOSING)
		return NULL;
	/* Until its first event is fetched, an accepted connection is unknown to the owner. */
	return c->connector || c->event_fetched ? c : NULL;
}
