/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_ECHO_H
#define STREAM_ECHO_H

/* Shared by the two sides of leat-stream-echo. */

#include <stdbool.h>
#include <stdint.h>

#include <leat_stream.h>

#define PIECES_MAX 32

struct options {
	const char *listen, *connect;
	struct leat_stream_net_conf net;
	/* Options of the server. */
	uint32_t once; /* number of ended streams after which the server ends; 0: never */
	bool copy;     /* read into a buffer instead of borrowing */
	/* Options of the client. */
	uint32_t streams;	     /* streams at the same time */
	uint32_t again;		     /* streams, one after the other, in place of each of these */
	uint32_t failing;	     /* number of all these streams that must fail */
	bool beside;		     /* the first stream goes on until the others have ended */
	uint64_t send;		     /* bytes there and back on each stream */
	uint32_t pieces[PIECES_MAX]; /* lengths of the writes, repeated */
	uint32_t pieces_n;	     /* 0: write as much as there is room for */
	uint32_t read_max;	     /* maximum number of bytes of one read */
	bool in_turn;		     /* write a piece only when the previous piece has come back */
	bool zero_copy;		     /* use leat_stream_send() */
	bool half_close;	     /* end this side's direction, then read to the end */
	uint64_t pause_after;	     /* once, after this many bytes, read nothing ... */
	uint32_t pause_ms;	     /* ... for this long, ms */
};

extern struct options opt;

/* Open a net on the calling lcore. Return 0, or a negative errno with leat_err_msg(). */
int server_start(void);
int client_start(void);
/* @return the address at which the server of this process listens */
const char *server_addr(void);
/* Check the outcome, after all reactors have ended; print errors. @return whether there are none */
bool server_end(void);
bool client_end(void);

/* Print the counters of a net. */
void report(const char *who, const struct leat_stream_net *net);

#endif /* STREAM_ECHO_H */
