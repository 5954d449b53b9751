/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_RAW_H
#define RPC_RAW_H

/*
 * A peer of b that the test plays packet by packet, over an endpoint of its own.
 */

#include "rpc_pair.h"
#include "rpc_wire.h"

#define RAW_RECVS 64
#define RAW_PACKET 4096
#define RAW_FIRST UINT32_C(1000) /* hello.first of the peer: its numbers begin here */
#define RAW_SLOTS 4u
#define RAW_TOKEN 77
#define RAW_EPOCH 5

struct raw {
	struct leat_ep *ep;
	uint16_t peer;
	bool datagram;
	struct rpc_hello hello; /* b's hello */
	bool up, down;
	bool accepted; /* b has connected to the peer, not the peer to b */
	struct leat_op recv[RAW_RECVS], send;
	uint8_t in[RAW_RECVS][RAW_PACKET], out[2 * RAW_PACKET];
	uint8_t last[RAW_PACKET]; /* the last packet received */
	uint64_t last_len;
	unsigned int packets;
	uint32_t len;
	struct leat_rpc_session *at_b;
	/* head of the packet that is being written */
	struct rpc_head head;
	struct rpc_numbers numbers; /* numbers of the packet that is being written, for datagrams */
};

extern struct raw raw;

/* Open the peer's endpoint, and connect it to b. */
void raw_open(const char *dev);
void raw_close(void);
void raw_drive(void);
struct rpc_hello raw_hello(void);
void raw_connect(const uint8_t *hello, uint16_t len);
/* Listen, and write the address to `at`. Each accepted connection replaces the previous one. */
void raw_listen(char *at, size_t len);

/* Write the next packet: begin with a correct head, add items, then send it. */
void raw_begin(void);
void raw_item(struct rpc_item m);
void raw_send(void);
/* @return the first item of the last packet received */
struct rpc_item raw_last_item(void);

#define raw_until(cond)                                                                            \
	do {                                                                                       \
		struct patience wait_ = { 0 };                                                     \
		while (!(cond)) {                                                                  \
			raw_drive();                                                               \
			end_drive(&a);                                                             \
			end_drive(&b);                                                             \
			if (!patience_left(&wait_))                                                \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

#endif /* RPC_RAW_H */
