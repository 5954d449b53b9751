/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENDS_H
#define ENDS_H

/*
 * What the tests of hostile and of many peers share: endpoints that one thread drives, and a conversation between two
 * of them that goes on, and is checked, whatever happens to others.
 *
 *     bystander <---- conversation ----> listener <---- guest: misbehaves, or comes and goes
 *
 * Who connects says with its private data, one byte, which of the two it is.
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

/* One side of a connection: message k goes there, comes back, and then k + 1 goes. */
struct talk {
	struct leat_msg_conn *c;
	bool begins; /* sends the first one */
	bool quiet;  /* the test posts requests, not the conversation */
	bool may_end;
	bool stop; /* no new message */
	bool due;  /* the next one is to be sent */
	bool up, ended, closed;
	int status; /* ENDED's */
	char text[LEAT_EVENT_TEXT];
	uint64_t received; /* messages */
	struct leat_msg_req tx, rx;
	uint8_t out[TALK_MAX], in[TALK_MAX];
};

struct end {
	const char *name;
	struct leat_ep *ep;
	struct leat_msg *m; /* NULL: the test drives the endpoint */
	struct leat_msg_conn_conf conf;
	struct talk *talks[2]; /* listener: who is accepted */
};

/* The device that is tested is the last one. msg_conf NULL: no messages. */
void end_open(struct end *e, const char *name, const struct leat_msg_conf *msg_conf);
/* @return the address, valid until the next call */
const char *end_listen(struct end *e);
void end_close(struct end *e);
/* Polls, and goes on with conversations. */
void end_turn(struct end *e);

void talk_connect(struct end *e, struct talk *t, enum who who, const char *addr);
/* Goes on until its turn is through, then closes both sides. */
void talk_close(struct talk *t, struct talk *other, void (*turn)(void));

/* Until the condition holds; turn() drives all ends. */
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
