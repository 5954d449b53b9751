/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_BELOW_H
#define MSG_BELOW_H

/* A context below a reactor; for reactor.c, and what stands on it. */

#include <leat_reactor.h>

#include "leat_msg_reactor.h"
#include "msg_pvt.h"

/* Longest text of what a stop gave up. */
#define MSG_LEFT_MAX 96

struct msg_below {
	struct leat_msg *m;
	struct leat_reactor *r; /* NULL: it was destroyed */
	struct leat_poller *ep_poller, *poller, *ticker;
	struct leat_msg_reactor_conf conf;
	/* The reactor is gone; may free the context, and all of this. NULL: nothing */
	void (*release)(void *arg);
	bool calling; /* in a callback */
	bool soon;    /* take events as soon as there are no requests to give out */
	/* stop */
	uint64_t stop_at; /* when it was noticed, cycles; 0: it was not */
	bool cut;	  /* the time for sends is up */
	char left[MSG_LEFT_MAX];
};

/* As leat_msg_destroy() begins. 0, or a negative errno with leat_err() */
int msg_below_destroy(struct leat_msg *m);

/* Address of a connection's peer; "?" when that is gone. */
const char *msg_conn_addr(const struct leat_msg_conn *c);

#endif /* MSG_BELOW_H */
