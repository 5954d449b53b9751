/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

/*
 * The references of bench-stream: the bare device, and messages of lib/msg. Each has two sides; the
 * step function of a side is called until it returns true, when its work is done.
 */

#include <leat_ep.h>
#include <leat_msg.h>
#include <leat_reactor.h>
#include <leat_stream.h>

#define SIZE_MAX_B (1u << 20)
/* Writes or messages in flight. */
#define WINDOW 8
#define RECVS 8

/* What is measured. STREAM and BARE belong to lat, COPY to MEMCPY to bw. */
enum what { STREAM, BARE, COPY, SEND, MSG, MEMCPY, WHATS };

/* One end of a stream. */
struct end {
	struct leat_reactor *r;
	struct leat_stream_net *net;
	struct leat_stream *s;
	struct leat_mr *mr;
	struct leat_stream_out outs[WINDOW];
	uint32_t in_flight; /* writes in flight */
};

/* The work of one side. */
struct side {
	enum what what;
	unsigned int index; /* 0: the side that asks, or writes */
	uint32_t size;
	uint64_t left; /* round trips or writes left; on the reading side: bytes left */
	uint32_t at;   /* bytes done of the current request or answer */
	bool sent;     /* bare: the last send has completed */
	uint8_t *out, *in;
	struct end *end;

	/* bare */
	struct leat_ep *ep;
	uint16_t peer;
	struct leat_op send __attribute__((aligned(128)));
	struct leat_op recv[RECVS];

	/* messages */
	struct leat_ep *msg_ep;
	struct leat_msg *m;
	struct leat_msg_conn *c;
	struct leat_msg_req tx[WINDOW], rx[WINDOW], *free[WINDOW];
	unsigned int nb_free;
	bool recvs; /* the receives are posted */
};

/* Called when the asking side sends a request, and when it has the answer. */
void asked(void);
void answered(struct side *d);

void bare_start(struct side *d);
bool bare_step(struct side *d);

/* Open or close both sides of a connection. */
void msgs_open(struct side *sides);
void msgs_close(struct side *sides);
void msg_start(struct side *d);
bool msg_step(struct side *d);

#endif /* BENCH_STREAM_H */
