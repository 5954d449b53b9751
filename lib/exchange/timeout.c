/* SPDX-License-Identifier: BSD-3-Clause */

/* Time-out of a connection of the address exchange, by its state. */

#include <errno.h>

#include "exchange_pvt.h"

void
exchange_conn_timeout(struct exchange_conn *c)
{
	switch (c->state) {
	case CONN_RESOLVING:
		exchange_end(c, -ETIMEDOUT,
			     "connect %s: no answer of the name service in time; check it",
			     c->addr);
		break;
	case CONN_CONNECTING:
		exchange_dial_failed(c, ETIMEDOUT);
		break;
	case CONN_BACKOFF:
		if (c->x->now >= c->deadline)
			exchange_dial_give_up(c);
		else
			exchange_dial_again(c);
		break;
	case CONN_HELLO_SENT:
		if (c->cause == -EBUSY) {
			exchange_dial_give_up(c);
			break;
		}
		exchange_end(c, -ETIMEDOUT,
			     "connect %s: connected, but no answer came; is a leat listener there, "
			     "polled?",
			     c->addr);
		break;
	case CONN_ACCEPT_SENT:
	case CONN_PROVING:
	case CONN_PROOF_SENT:
		c->x->stats.timeouts++;
		if (c->connector)
			exchange_end(
				c, -ETIMEDOUT,
				"connect %s: accepted, but the addresses were not proven in time; "
				"is the fabric open between the two?",
				c->addr);
		else
			exchange_end(c, -ETIMEDOUT, "%s made no progress after it was accepted",
				     c->addr);
		break;
	case CONN_HELLO_WAIT:
		c->x->stats.timeouts++;
		exchange_slot_put(c);
		break;
	default:
		exchange_slot_put(c);
		break;
	}
}
