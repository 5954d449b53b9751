/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_RAW_H
#define STREAM_RAW_H

/*
 * A peer without lib/stream: an endpoint on which the test sends every message itself. For the ring
 * device only: it sends and expects memory messages with keys of 64 bits.
 */

#include <stream_wire.h>

#include <leat_ep.h>

#define RAW_WINDOW (64u << 10)
#define RAW_MESSAGES 64

struct raw {
	struct leat_ep *ep;
	int peer;
	bool up, down;
	bool back;  /* the op for which run() waits has come back */
	int status; /* status of the connection's end */
	uint8_t *window;
	struct leat_mr *mr;
	struct leat_rkey key;
	struct stream_ctrl got[RAW_MESSAGES]; /* received control messages, in order */
	unsigned int nb_got;
	uint64_t notices, announced;
	uint8_t bufs[RAW_MESSAGES][64];
	struct leat_op recvs[RAW_MESSAGES];
	bool repost; /* post each used receive again */
};

/* Connect to pair.addr, and wait until the connection is up. */
void raw_open(struct raw *raw);
void raw_close(struct raw *raw);
void raw_turn(struct raw *raw);

/* Turn and drive this peer until a condition holds. */
#define raw_until(raw, cond)                                                                       \
	do {                                                                                       \
		uint64_t patience_ = 0;                                                            \
		while (!(cond)) {                                                                  \
			raw_turn(raw);                                                             \
			pair_turn();                                                               \
			assert_true(pair_patience(&patience_));                                    \
		}                                                                                  \
	} while (0)

/* Send bytes as they are. */
void raw_bytes(struct raw *raw, const void *bytes, size_t len);
void raw_ctrl(struct raw *raw, const struct stream_ctrl *m);
/* Register this peer's own window. */
void raw_register(struct raw *raw, uint64_t offset, uint32_t len);
/*
 * Write into the n-th window that the other side has registered.
 * @return status of the op
 */
int raw_write(struct raw *raw, unsigned int nth, uint64_t offset, const void *buf, size_t len,
	      uint64_t imm);
/* @return the n-th memory message received; NULL: not yet */
const struct stream_ctrl *raw_memory(const struct raw *raw, unsigned int nth);

#endif /* STREAM_RAW_H */
