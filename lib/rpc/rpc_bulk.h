/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_BULK_H
#define RPC_BULK_H

/*
 * Transfers between memory of this side and memory that a request describes.
 *
 *     task: leat_rpc_pull() --> transfer: |segment|segment|......|    a few under way at a time
 *                                  |          |
 *                                  |          +- READ or WRITE: an op of the endpoint
 *                                  |          `- GET or PUT: an internal request to the caller
 *                                  `- waits in rpc->waiting while all segments are in use
 *
 * A transfer is on the stack of its task. It ends when all its bytes are done, or, after a failure
 * or a cancel, when none of its segments is under way any more.
 */

#include <leat_resource.h>

#include "rpc_pvt.h"

struct rpc_transfer {
	struct leat_resource_op op;
	struct leat_rpc *rpc;
	struct rpc_ticket *ticket;
	struct rpc_transfer *next, *prev; /* neighbours in the ticket's list */
	struct rpc_transfer *next_waiting;
	uint8_t *buf;
	struct leat_mr *mr;
	struct rpc_desc desc;
	uint64_t off; /* offset of buf[0] in the described memory, bytes */
	uint64_t len, issued, done;
	uint32_t nb_out; /* segments under way */
	int status;
	uint8_t index;
	bool push;
	bool keyed; /* uses READ and WRITE; else messages */
	bool waits; /* the transfer is in rpc->waiting */
	/* segments are being posted or cancelled: until that is done the transfer does not end */
	bool calling;
	struct rpc_timer timer;
};

struct rpc_segment {
	struct leat_op op;
	struct leat_rpc_req req;
	struct rpc_segment *next;
	struct rpc_transfer *t; /* NULL: free */
	uint8_t *buf;		/* one packet long: the request of a GET or PUT */
	uint64_t at;		/* offset in the transfer, bytes */
	uint32_t len;
};

/* bulk.c: complete a segment. */
void rpc_segment_done(struct rpc_segment *seg, int status);

/* bulk_msg.c */
/* Maximum number of bytes that one GET or PUT transfers. */
uint32_t rpc_bulk_msg_max(const struct rpc_transfer *t);
/* Post the GET or PUT of a segment. */
void rpc_bulk_msg_post(struct rpc_segment *seg);

#endif /* RPC_BULK_H */
