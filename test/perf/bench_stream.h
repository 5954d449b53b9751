/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

/*
 * What bench-stream measures streams beside: the bare device and messages. Each has two sides, and
 * each side is driven by its step until that says that its work is done.
 */

#include <leat_ep.h>
#include <leat_msg.h>
#include <leat_reactor.h>
#include <leat_stream.h>

#define SIZE_MAX_B (1u << 20)
/* Writes or messages under way. */
#define WINDOW 8
#define RECVS 8

/* What is done. The first two are of lat, and COPY to MEMCPY of bw. */
enum what { STREAM, BARE, COPY, SEND, MSG, MEMCPY, WHATS };

/* A stream's end, one of a pair. */
struct end {
	struct leat_reactor *r;
	struct leat_stream_net *net;
	struct leat_stream *s;
	struct leat_mr *mr;
	struct leat_stream_out outs[WINDOW];
	uint32_t under_way; /* of them */
};

/* A side's work. */
struct side {
	enum what what;
	unsigned int index; /* 0: asks, writes */
	uint32_t size;
	uint64_t left; /* round trips or writes; of the one that reads, bytes */
	uint32_t at;   /* bytes of the one under way */
	bool sent;     /* bare: the last send is back */
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
	bool recvs; /* are posted */
};

/* The one that asks does so now; it got its answer. */
void asked(void);
void answered(struct side *d);

void bare_start(struct side *d);
bool bare_step(struct side *d);

/* Both sides of a connection. */
void msgs_open(struct side *sides);
void msgs_close(struct side *sides);
void msg_start(struct side *d);
bool msg_step(struct side *d);

#endif /* BENCH_STREAM_H */
