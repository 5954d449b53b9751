/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPING_H
#define RPING_H

/*
 * rping.c has the options, the endpoint and the connections; talk.c has the protocol.
 */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <leat_error.h>
#include <leat_fabric.h>

#define SIZE_LEAST 27 /* bytes of a ping: room for the longest text in front, as in rping */
#define SIZE_MOST 65536
#define PEERS 8 /* clients at a time */

/* A message: where a buffer of the sender is. In network byte order. */
struct info {
	uint64_t addr;
	uint32_t key;
	uint32_t size;
};
static_assert(sizeof(struct info) == 16, "as rping has it");

/* What a session waits for. */
enum step {
	FREE = 0,      /* nothing: this slot is free */
	WAIT_SOURCE,   /* server: for a message that names the source */
	READING,       /* server: for the READ */
	WAIT_SINK,     /* server: for a message that names the sink */
	WRITING,       /* server: for the WRITE */
	WAIT_READ,     /* client: for the "go on" after the READ */
	WAIT_WRITE,    /* client: for the "go on" after the WRITE */
	DISCONNECTING, /* for the end of its disconnect */
};

/* The conversation with one peer. */
struct session {
	enum step step;
	bool up;	    /* LEAT_EV_CONNECTED came; the first message may come before it */
	bool has_message;   /* `in` holds a message that was not handled yet */
	uint16_t in_flight; /* ops in flight */
	uint32_t len;	    /* server: bytes of this ping */
	uint64_t pings;
	struct leat_op op; /* SEND, READ or WRITE: at most one is in flight */
	struct info in;	   /* the peer's last message */
	char why[128];	   /* DISCONNECTING: why this program disconnects */
};

struct options {
	bool client, server, persistent, verbose, validate;
	uint64_t count; /* pings; 0: no limit */
	uint32_t size;
	const char *host, *port;
};

/* The buffers, and their memory regions. */
struct memory {
	struct {
		struct info in[PEERS], out[PEERS];
	} msg;
	char ping[PEERS][SIZE_MOST]; /* server: what it read, per peer; client: [0] is the source */
	char sink[SIZE_MOST];	     /* client: what the server writes */
	struct leat_mr *msg_mr, *ping_mr, *sink_mr;
};

extern struct options opt;
extern struct memory mem;
extern struct leat_ep *ep;
extern struct session sessions[PEERS]; /* by peer */
extern uint64_t pings;		       /* pings of all sessions */

/* Report an error on stderr, and make the program's exit code 1. */
void report_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- talk.c ---- */

/* Begin a ping: send the source. Clients only. */
void talk_begin(struct session *s);
/* Take the next step, once the op in flight has completed and the message due has come. */
void talk_resume(struct session *s);
/* Handle a message: a RECV that completed. */
void talk_message(const struct leat_op *op);
/* Disconnect a session for this reason. Its ops complete, then LEAT_EV_DISCONNECTED comes. */
void talk_disconnect(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif /* RPING_H */
