/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENDS_H
#define ENDS_H

/*
 * Shared by the tests with hostile and with many peers: endpoints that one thread drives, and a
 * conversation between two of them that goes on, and is checked, whatever happens to other peers.
 *
 *     bystander <---- conversation ----> listener <---- guest: misbehaves, or comes and goes
 *
 * The private data of a connect, one byte, tell whether the bystander or the guest connects.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg.h>
#include <leat_time.h>

#define TALK_MAX 100000 /* bytes of the longest message */
#define PATIENCE_US 60000000

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum who { BYSTANDER, GUEST };

/* One side of a conversation: message k goes there and back, then k + 1. */
struct talk {
	struct leat_msg_conn *c;
	bool begins;  /* sends the first message */
	bool quiet;   /* no conversation: the test itself posts the requests */
	bool may_end; /* its end, and failed requests, are no error */
	bool stop;    /* begin no new message */
	bool due;     /* the next message is to be sent */
	bool up, ended, closed;
	int status; /* of the ENDED event */
	char text[LEAT_EVENT_TEXT];
	uint64_t received; /* messages */
	struct leat_msg_req tx, rx;
	uint8_t out[TALK_MAX], in[TALK_MAX];
};

struct end {
	const char *name;
	struct leat_ep *ep;
	struct leat_msg *m; /* NULL: the test drives the endpoint itself */
	struct leat_msg_conn_conf conf;
	struct talk *talks[2]; /* listener: conversations of the accepted peers */
};

/* Open an end on the last device, which is the one under test. msg_conf NULL: without lib/msg. */
void end_open(struct end *e, const char *name, const struct leat_msg_conf *msg_conf);
/* @return the address, valid until the next call */
const char *end_listen(struct end *e);
void end_close(struct end *e);
/* Poll, and go on with the conversations. */
void end_turn(struct end *e);

void talk_connect(struct end *e, struct talk *t, enum who who, const char *addr);
/* Wait until the current message has come back, close t, and wait until both sides are closed. */
void talk_close(struct talk *t, struct talk *other, void (*turn)(void));

/* Drive all ends with turn() until the condition holds. */
#define wait_until(turn, cond)                                                                     \
	do {                                                                                       \
		uint64_t until_ = leat_now() + leat_us_to_cycles(PATIENCE_US);                     \
		while (!(cond)) {                                                                  \
			turn();                                                                    \
			check(leat_now() < until_, "%s:%d: waited in vain: %s", __FILE__,          \
			      __LINE__, #cond);                                                    \
		}                                                                                  \
	} while (0)

#endif /* ENDS_H */
