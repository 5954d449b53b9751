/* SPDX-License-Identifier: BSD-3-Clause */

/* A connector's attempts over TCP: look up the name, then try its addresses in turn. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "exchange_pvt.h"
#include "leat_time.h"

/* Least time to try one address of a name, however many addresses there are. */
#define ADDR_MIN_US 200000

bool
exchange_tcp_dial_next(struct exchange_conn *c)
{
	uint64_t now = c->x->now, slice;
	const struct addrinfo *ai;
	unsigned int left = 0;
	int err;

	if (c->ai_next == NULL)
		return false;
	for (ai = c->ai_next; ai != NULL; ai = ai->ai_next)
		left++;
	slice = RTE_MAX((c->deadline - now) / left, leat_us_to_cycles(ADDR_MIN_US));

	ai = c->ai_next;
	c->ai_next = ai->ai_next;
	err = exchange_dial_open(c, IPPROTO_TCP, ai->ai_addr, ai->ai_addrlen,
				 RTE_MIN(now + slice, c->deadline));
	if (err != 0)
		exchange_dial_failed(c, err);
	return true;
}

static void
dial_round(struct exchange_conn *c)
{
	c->ai_next = c->ai;
	c->retryable = false;
	if (c->x->now >= c->deadline || !exchange_tcp_dial_next(c))
		exchange_dial_give_up(c);
}

static void
dial_lookup(struct exchange_conn *c, const char *host, const char *port)
{
	c->lookup = leat_lookup_start(host, port);
	if (c->lookup == NULL) {
		/* Too many lookups are under way: try again after a pause. */
		exchange_dial_backoff(c);
		return;
	}
	c->state = CONN_RESOLVING;
	exchange_list_move(c, &c->x->resolving);
	exchange_timer_set(c, c->deadline);
}

void
exchange_tcp_dial(struct exchange_conn *c)
{
	char host[LEAT_EXCHANGE_ADDR_MAX], port[8];

	if (c->ai != NULL) {
		dial_round(c);
		return;
	}
	/* Can't fail: tcp_check() has split the address before. */
	if (leat_addr_split(c->addr, false, host, sizeof(host), port, sizeof(port)) != 0)
		exchange_dial_give_up(c);
	else if (leat_addr_numeric(host, port, false, &c->ai) == 0)
		dial_round(c);
	else
		dial_lookup(c, host, port);
}

void
exchange_tcp_resolve(struct exchange_conn *c)
{
	int ret = leat_lookup_done(c->lookup, &c->ai);

	if (ret == -EINPROGRESS)
		return;
	c->lookup = NULL;
	exchange_list_move(c, NULL);
	if (ret == 0 && c->ai != NULL) {
		dial_round(c);
	} else if (ret == EAI_AGAIN || ret == EAI_MEMORY) {
		/* The name service may work again later. */
		c->cause = -EHOSTUNREACH;
		exchange_dial_backoff(c);
	} else {
		exchange_end(c, -EHOSTUNREACH, "connect %s: the host's name can't be resolved: %s",
			     c->addr, gai_strerror(ret));
	}
}
