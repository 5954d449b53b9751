/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_TALK_H
#define FOREIGN_TALK_H

/*
 * A talk with an echo server: a stream of bytes is written in pieces, and must come back. Call
 * talk_turn() to drive several talks at once, or talk() to run one to its end.
 */

#include "conn.h"

/* A piece that ends d bytes after the end of the peer's window, for small d; d < 0: before it. */
#define AT_END(d) (INT64_MIN / 2 + (d))

struct talk {
	struct conn *c;
	uint64_t seed;
	uint64_t total;	       /* bytes there and back */
	const int64_t *pieces; /* lengths of the writes, repeated; NULL: as much as fits */
	unsigned int n;
	unsigned int writes; /* WRITEs of each piece; 0: one */
	uint32_t read_max;   /* maximum number of bytes of one read; 0: all */
	bool hold;	     /* don't read */
	bool in_turn;	     /* write a piece only when the previous piece has come back */

	unsigned int next;
	uint64_t left; /* bytes of a piece that did not fit */
};

/*
 * Read and write what is possible without waiting. Returns whether anything was done; -1 with
 * c->why.
 */
int talk_turn(struct talk *t);

static inline bool
talk_done(const struct talk *t)
{
	return t->c->rx_total == t->total && t->c->tx_total == t->total;
}

/*
 * Run the talk to its end. It is an error when nothing happens for patience_ms. Returns 0, or -1
 * with c->why.
 */
int talk(struct talk *t, uint64_t patience_ms);

#endif /* FOREIGN_TALK_H */
