/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPING_H
#define RPING_H

/*
 * rping.c: options, the endpoint, connections. talk.c: the talk with a peer.
 */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <leat_error.h>
#include <leat_fabric.h>

#define SIZE_LEAST 27 /* of a ping, as with rping: the longest head of one */
#define SIZE_MOST 65536
#define PEERS 8

/* The message. */
struct info {
	uint64_t addr;
	uint32_t key;
	uint32_t size;
};
static_assert(sizeof(struct info) == 16, "as rping has it");

/* What a session waits for. */
enum step {
	NOBODY = 0,  /* free */
	WAIT_SOURCE, /* server: for a message that names the source */
	READING,     /* server: for the READ */
	WAIT_SINK,   /* server: for a message that names the sink */
	WRITING,     /* server: for the WRITE */
	WAIT_READ,   /* client: to be told that the source was read */
	WAIT_WRITE,  /* client: to be told that the sink was written */
	LEAVING,     /* to be gone */
};

/* The talk with one peer. */
struct session {
	enum step step;
	bool up;	 /* LEAT_EV_CONNECTED came; the first message may be faster */
	bool told;	 /* a message is there, in `in` */
	uint16_t flying; /* ops that have not come back */
	uint32_t len;	 /* server: bytes of this ping */
	uint64_t pings;
	struct leat_op op; /* all that is sent: there is never more than one */
	struct info in;
	char why[128]; /* LEAVING: the reason, if it is ours */
};

struct options {
	bool client, server, persistent, verbose, validate;
	uint64_t count; /* 0: without end */
	uint32_t size;
	const char *host, *port;
};

/* Buffers, and the regions in which they are registered. */
struct memory {
	struct {
		struct info in[PEERS], out[PEERS];
	} msg;
	char ping[PEERS][SIZE_MOST]; /* server: what was read; client: [0] is the source */
	char sink[SIZE_MOST];	     /* client */
	struct leat_mr *msg_mr, *ping_mr, *sink_mr;
};

extern struct options opt;
extern struct memory mem;
extern struct leat_ep *ep;
extern struct session sessions[PEERS]; /* by peer */
extern uint64_t pings;		       /* of all sessions */

/* Says what went wrong; the exit code will tell, too. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- talk.c ---- */

/* The first word is the client's. */
void talk_begin(struct session *s);
/* A message came, or something that was sent came back: on with the session, if that was all. */
void talk_go_on(struct session *s);
/* A RECV came back with a message. */
void talk_message(const struct leat_op *op);
/* A session is over, because of us. What is in flight comes back, then comes the event. */
void talk_leave(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif /* RPING_H */
