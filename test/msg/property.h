/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROPERTY_H
#define PROPERTY_H

/* Sizes and objects of leat-msg-property. */

#include <leat_fabric.h>
#include <leat_msg.h>

#define MIB (1u << 20)
#define MAX_SIZE (16 * MIB)
#define OFFSETS 4096
#define WINDOW 24 /* requests per stream and side at a time */
#define PIECES 5  /* entries of a request's iovec */
/* Longest message in several pieces, bytes; in plain mode it is the default of eager_max. */
#define PIECES_MAX (256u << 10)
#define PIECES_MAX_PLAIN 2032u
#define BIG_BUFFERS 12 /* of MAX_SIZE bytes */
#define SMALL 65536
#define MAX_CONNS 256
#define STALL_US 60000000
#define DEADLINE_MAX_US 20000

struct stream;

struct request {
	struct leat_msg_req req;
	struct stream *stream;
	uint64_t k; /* number of the request's message */
	uint8_t *small;
	struct iovec iov[PIECES];
};

/* Messages from one side of a connection to the other. */
struct stream {
	struct leat_msg_conn *from, *to;
	struct leat_mr *from_mr, *to_mr; /* regions of all buffers, at the two endpoints */
	uint64_t id;
	uint64_t total, sends, recvs; /* requests posted */
	uint64_t sent, rback;	      /* requests that have completed */
	uint64_t received;	      /* messages received or dropped */
	uint32_t window;
	bool dead; /* one of the connection's two ends has ended */
	bool rx_failed;
	bool shut, ended; /* half-closed by the sender; seen by the receiver */
	/* the newest receive is being cancelled; post no other until it has completed */
	bool cancelling;
	struct request tx[WINDOW], rx[WINDOW];
};

struct side {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct leat_mr *mr; /* region of all buffers; NULL: the device needs none */
	uint64_t memory;
	uint32_t credits;
};

/*
 * Buffers in one piece of memory, so that a device that wants them registered has one region. The
 * small buffers are in it only for such a device; otherwise each is allocated on its own, so that
 * sanitizers watch it.
 */
void memory_make(size_t nb_small);
void memory_free(void);
struct leat_mr *memory_register(struct leat_ep *ep);
/* @return the random bytes that all messages are pieces of; offset < OFFSETS */
uint8_t *memory_bytes(uint64_t offset);
/* @return buffer i of SMALL bytes; NULL: out of memory */
uint8_t *memory_small(size_t i);
void memory_small_put(uint8_t *buf);
/* leat_msg_alloc_fn; arg: struct side. */
void *memory_alloc(void *arg, uint64_t len, struct leat_mr **mr);
/* Free a buffer that memory_alloc() has returned. */
void memory_put(uint8_t *buf);
unsigned int memory_nb_big(void);

/* splitmix64, S. Vigna */
static inline uint64_t
hash(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#endif /* PROPERTY_H */
