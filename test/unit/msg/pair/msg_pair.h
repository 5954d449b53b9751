/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_PAIR_H
#define MSG_PAIR_H

/*
 * Two endpoints, each with a context, driven by one thread: a connects, and b listens at addr and
 * accepts with b.conf.
 */

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg.h>

#include "leat_cmocka.h"

#define MAX_CONNS 8

/* Devices. */
#define PAIR_RING "fabric_ring0"
#define PAIR_FAULT "fabric_fault0" /* over PAIR_RING: completions out of order, posts refused */

struct end {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct leat_msg_conn *accepted; /* the connection accepted last */
	struct leat_msg_conn_conf conf; /* for connections that are accepted */
	const char *reject;		/* not NULL: reject connection requests, for this reason */
	struct leat_msg_req *back[256];
	unsigned int nb_back, nb_ev[LEAT_MSG_CLOSED + 1];
	struct leat_msg_event ev;
};

extern struct end a, b;
extern char addr[LEAT_ADDR_MAX];

/* Start leat with the ring device; pair_start_fault(): also with a fault device over it. */
int pair_start(void **state);
int pair_start_fault(void **state);
int pair_stop(void **state);

/*
 * Open both ends on the ring device, or on the fault device. Every connection must be closed before
 * the teardown.
 */
int pair_setup(void **state);
int pair_setup_fault(void **state);
int pair_teardown(void **state);

void end_open(struct end *e, const char *dev, uint16_t conns);
void end_close(struct end *e);
/* Poll at most max ops, and collect finished requests; handle no events. */
void end_poll(struct end *e, uint16_t max);
/* Handle messages, connections and events. */
void end_drive(struct end *e);

#define PAIR_TURNS 1000000

/* Drive both ends until the condition holds. */
#define drive_until(cond)                                                                          \
	do {                                                                                       \
		unsigned int turns_ = 0;                                                           \
		while (!(cond)) {                                                                  \
			end_drive(&a);                                                             \
			end_drive(&b);                                                             \
			if (++turns_ > PAIR_TURNS)                                                 \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

/* Send a message now and alone, by ending the turn after it: so no other message joins it. */
void send1(struct leat_msg_conn *c, struct leat_msg_req *req, const void *buf, uint64_t size);
void recv1(struct leat_msg_conn *c, struct leat_msg_req *req, void *buf, uint64_t size);
/* Connect with conf, with which b accepts as well, and wait until both sides are up. */
struct leat_msg_conn *connected(const struct leat_msg_conn_conf *conf);
/* Close a connection on both sides. */
void close_both(struct leat_msg_conn *c);

#endif /* MSG_PAIR_H */
