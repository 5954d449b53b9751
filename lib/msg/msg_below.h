/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_BELOW_H
#define MSG_BELOW_H

/* State of a context that is attached to a reactor: used by reactor.c, and by nets (net.c). */

#include <leat_reactor.h>

#include "leat_msg_reactor.h"
#include "msg_pvt.h"

/* Size of msg_below.left, bytes. */
#define MSG_LEFT_MAX 96

struct msg_below {
	struct leat_msg *m;
	struct leat_reactor *r; /* NULL: the reactor was destroyed */
	struct leat_poller *ep_poller, *poller, *ticker;
	struct leat_msg_reactor_conf conf;
	/* Called when the reactor is destroyed; may free the context and this struct. NULL: none */
	void (*release)(void *arg);
	bool calling; /* a callback of the application runs */
	bool soon;    /* the next turn without requests to give out calls leat_msg_events() */
	/* stop */
	uint64_t stop_at; /* time at which the stop was noticed, cycles; 0: no stop */
	bool cut;	  /* the time for sends is up */
	/* description of the sends that had not completed when that time was up; "": none */
	char left[MSG_LEFT_MAX];
};

/*
 * Detach a context from its reactor for leat_msg_destroy(). @return 0, or a negative errno with
 * leat_err()
 */
int msg_below_destroy(struct leat_msg *m);

/* Return the address of a connection's peer; "?" when the peer is closed. */
const char *msg_conn_addr(const struct leat_msg_conn *c);

#endif /* MSG_BELOW_H */
