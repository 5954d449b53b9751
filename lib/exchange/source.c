/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sources of accepted connections, and how many of the listener's slots one source may take.
 *
 *     before HELLO      max_pending slots. When all are in use, the source with the most of them
 *                       loses its oldest connection.
 *     HELLO to READY    at most source_half of one source. A connection that was accepted and is
 *                       not proven is ended for a new one as soon as it is ripe. Once this side has
 *                       sent its PROOF the connection stays: its connector may be up already, and
 *                       an eviction would not stop a hostile client, which can send READY as well.
 *     established       at most source_max of one source. When all slots are in use a new connector
 *                       is told BUSY and tries again. Of the sources told BUSY, the waiter is the
 *                       one with the fewest connections: for a while, sources with more connections
 *                       do not get the next free slot.
 *
 * A connection is ripe after twice the time that the last one took from ACCEPT to READY; this time
 * is at least RIPE_US and at most RIPE_MAX_US. Each eviction doubles it, up to RIPE_MAX_US: on a
 * machine with more work than processors all connections are slow, and would otherwise only evict
 * one another in turn. Only the time in which this side polled counts.
 *
 * A source is an IPv4 address, also when mapped to IPv6, or a /64 of IPv6, since one host can use
 * all addresses of a /64. Over UNIX sockets it is a process, by its user and pid.
 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "exchange_pvt.h"
#include "leat_time.h"

/* Least time before an eviction: a connector answers ACCEPT within a round trip or two. */
#define RIPE_US 500000
#define RIPE_MAX_US 2000000
/* Maximum of the time between two polls that counts as time in which this side polled. */
#define AWAKE_US 1000
/* How long a free slot is kept for the waiter, whose connector tries again within this time. */
#define RETURN_US 300000
/* exchange_source_pending_victim() compares at most this many connections, the oldest ones. */
#define PENDING_LOOK 64

static struct exchange_source_list *
bucket_of(struct leat_exchange *x, const uint8_t *key)
{
	uint64_t a, b;

	memcpy(&a, key, sizeof(a));
	memcpy(&b, key + sizeof(a), sizeof(b));
	/* Hash with a random key: the remote side chooses its addresses. */
	a = (a ^ b ^ x->random) * UINT64_C(0x9e3779b97f4a7c15);
	return &x->source_bucket[a >> 56];
}

void
exchange_source_init(struct leat_exchange *x)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(x->source_bucket); i++)
		LIST_INIT(&x->source_bucket[i]);
	LIST_INIT(&x->free_sources);
	for (i = 0; i < x->nb_slots; i++)
		LIST_INSERT_HEAD(&x->free_sources, &x->sources[i], link);
	x->polled = x->now;
	x->ripe = leat_us_to_cycles(RIPE_US);
}

void
exchange_source_hold(struct exchange_conn *c, const uint8_t key[EXCHANGE_SOURCE_KEY])
{
	struct leat_exchange *x = c->x;
	struct exchange_source_list *bucket;
	struct exchange_source *s;

	bucket = bucket_of(x, key);
	LIST_FOREACH(s, bucket, link) {
		if (memcmp(s->key, key, sizeof(s->key)) == 0)
			break;
	}
	if (s == NULL) {
		/* A source is free: there are as many sources as slots. */
		s = LIST_FIRST(&x->free_sources);
		LIST_REMOVE(s, link);
		memset(s, 0, sizeof(*s));
		memcpy(s->key, key, sizeof(s->key));
		LIST_INSERT_HEAD(bucket, s, link);
	}
	s->refs++;
	c->source = s;
}

void
exchange_source_drop(struct exchange_conn *c)
{
	struct exchange_source *s = c->source;

	if (s == NULL)
		return;
	c->source = NULL;
	if (--s->refs > 0)
		return;
	LIST_REMOVE(s, link);
	LIST_INSERT_HEAD(&c->x->free_sources, s, link);
}

struct exchange_conn *
exchange_source_pending_victim(struct leat_exchange *x)
{
	struct exchange_conn *c, *victim = TAILQ_FIRST(&x->pending);
	unsigned int i = 0;

	TAILQ_FOREACH(c, &x->pending, link) {
		if (i++ == PENDING_LOOK)
			break;
		if (c->source->pending > victim->source->pending)
			victim = c;
	}
	return victim;
}

/*
 * Check whether the connection may be evicted: in these states its connector can still be told
 * BUSY, and tries again.
 */
static bool
can_evict(const struct exchange_conn *c)
{
	return c->state == CONN_ACCEPT_SENT || c->state == CONN_PROVING;
}

/*
 * Move c's socket to a free slot, where the REJECT waits until the other side closes. If this side
 * closed first, bytes that the connector has sent meanwhile would make close() send a reset, which
 * would discard the REJECT.
 */
static void
send_busy(struct exchange_conn *c)
{
	struct leat_exchange *x = c->x;
	struct exchange_conn *last = exchange_slot_get(x);

	if (last == NULL)
		return;
	if (c->epoll_mask != 0)
		(void)epoll_ctl(x->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	c->epoll_mask = 0;
	last->fd = c->fd;
	c->fd = -1;
	memcpy(last->addr, c->addr, sizeof(last->addr));
	memcpy(last->tx, c->tx, c->tx_len);
	last->tx_len = c->tx_len;
	last->tx_off = c->tx_off;
	last->state = c->state;
	exchange_conn_bye(last, EXCHANGE_REJECT, EXCHANGE_REASON_BUSY, "other sources wait");
}

void
exchange_source_clock(struct leat_exchange *x, uint64_t now)
{
	if (now > x->polled)
		x->awake += RTE_MIN(now - x->polled, leat_us_to_cycles(AWAKE_US));
	x->polled = now;
}

void
exchange_source_up(const struct exchange_conn *c)
{
	struct leat_exchange *x = c->x;
	uint64_t took = x->awake - c->accepted_at;

	if (c->connector)
		return;
	x->ripe = RTE_MAX(2 * took, leat_us_to_cycles(RIPE_US));
	x->ripe = RTE_MIN(x->ripe, leat_us_to_cycles(RIPE_MAX_US));
	x->evict_next = 0;
}

void
exchange_source_make_room(struct leat_exchange *x, const struct exchange_source *of)
{
	struct exchange_conn *c, *victim = NULL;
	uint16_t gen;
	uint8_t state;

	if (x->awake < x->evict_next)
		return;
	TAILQ_FOREACH(c, &x->half, link) {
		if (!can_evict(c) || x->awake - c->accepted_at < x->ripe ||
		    (of != NULL && c->source != of))
			continue;
		if (victim == NULL || c->source->half > victim->source->half)
			victim = c;
	}
	if (victim == NULL)
		return;
	/* Read before evicting: the victim's PROOF may have arrived but not been read yet. */
	state = victim->state;
	gen = victim->gen;
	exchange_conn_event(victim, EPOLLIN);
	if (victim->gen != gen || victim->state != state)
		return;
	x->stats.evicted++;
	x->ripe = RTE_MIN(2 * x->ripe, leat_us_to_cycles(RIPE_MAX_US));
	x->evict_next = x->awake + x->ripe / 4;
	/*
	 * Send BUSY only if a slot is free: otherwise exchange_slot_get() would drop a connection
	 * for the REJECT, perhaps the very one that room is made for.
	 */
	if (!TAILQ_EMPTY(&x->free))
		send_busy(victim);
	exchange_end(victim, -ETIMEDOUT,
		     "%s made no progress after it was accepted, and other connectors wait",
		     victim->addr);
}

static bool
others_wait(const struct leat_exchange *x, const struct exchange_source *s)
{
	return x->waiter_until != 0 && x->now < x->waiter_until &&
	       memcmp(x->waiter, s->key, sizeof(x->waiter)) != 0 && s->conns > x->waiter_conns;
}

const char *
exchange_source_admit(struct leat_exchange *x, const struct exchange_source *s)
{
	if (x->nb_ids >= x->max_conns) {
		exchange_source_make_room(x, NULL);
		return "too many connections here";
	}
	if (s->half >= x->source_half) {
		exchange_source_make_room(x, s);
		return "too many connections of this source are half open here";
	}
	if (s->conns >= x->source_max)
		return "too many connections of this source here";
	return others_wait(x, s) ? "other sources wait for room here" : NULL;
}

void
exchange_source_set_waiter(struct leat_exchange *x, const struct exchange_source *s)
{
	bool valid = x->waiter_until != 0 && x->now < x->waiter_until;

	if (valid && memcmp(x->waiter, s->key, sizeof(x->waiter)) != 0 &&
	    x->waiter_conns <= s->conns)
		return;
	memcpy(x->waiter, s->key, sizeof(x->waiter));
	x->waiter_conns = s->conns;
	x->waiter_until = x->now + leat_us_to_cycles(RETURN_US);
}

void
exchange_source_clear_waiter(struct leat_exchange *x, const struct exchange_source *s)
{
	if (memcmp(x->waiter, s->key, sizeof(x->waiter)) == 0)
		x->waiter_until = 0;
}
