/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_ECHO_H
#define STREAM_ECHO_H

/* What the two sides of leat-stream-echo share. */

#include <stdbool.h>
#include <stdint.h>

#include <leat_stream.h>

#define PIECES_MAX 32

struct options {
	const char *listen, *connect;
	struct leat_stream_net_conf net;
	/* The server. */
	uint32_t once; /* ends when so many streams have ended; 0: never */
	bool copy;     /* reads into a buffer instead of borrowing */
	/* The client. */
	uint32_t streams;	     /* at the same time */
	uint32_t again;		     /* so many, one after the other, in the place of each */
	uint32_t failing;	     /* of all that many must fail */
	bool beside;		     /* the first one goes on until the others have ended */
	uint64_t send;		     /* bytes of each, there and back */
	uint32_t pieces[PIECES_MAX]; /* length of each write, again and again */
	uint32_t pieces_n;	     /* 0: as much as there is room */
	uint32_t read_max;	     /* read at most so many bytes at once */
	bool in_turn;		     /* a piece when the one before has come back */
	bool zero_copy;		     /* leat_stream_send() */
	bool half_close;	     /* end this side's direction, then read to the end */
	uint64_t pause_after;	     /* bytes after which a stream reads nothing ... */
	uint32_t pause_ms;	     /* ... for so long */
};

extern struct options opt;

/* Each opens its net on the calling lcore. 0, or a negative errno with leat_err_msg(). */
int server_start(void);
int client_start(void);
/* Where the server of this process listens. */
const char *server_addr(void);
/* Behind the end of all reactors. Returns whether all was as it should be, having said why not. */
bool server_end(void);
bool client_end(void);

/* Say what a net has seen. */
void report(const char *who, const struct leat_stream_net *net);

#endif /* STREAM_ECHO_H */
