/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_MOCK_H
#define MSG_MOCK_H

/*
 * A context on an endpoint of the mock driver. The test plays the device and the other side: it
 * checks posted ops byte by byte, and lets messages arrive in any order.
 */

#include <rte_byteorder.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg.h>

#include "mock_driver.h"
#include "leat_cmocka.h"

#define CREDITS 4
#define LEN_TAG(id) (UINT64_C(1) << 32 | (id))
#define DATA_TAG(id) (UINT64_C(1) << 33 | (id))

struct mm {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct leat_msg_req *back[64]; /* requests that leat_msg_poll() has given back */
	unsigned int nb_back;
	struct leat_op *rest[8]; /* polled ops that were not the context's */
	unsigned int nb_rest;
	struct leat_msg_event ev; /* the last event */
	unsigned int nb_ev[LEAT_MSG_CLOSED + 1];
};

int mm_start(void **state);
int mm_stop(void **state);
void mm_open(struct mm *mm);
/* Open a context for `conns` connections, with `credits` credits each. */
void mm_open_with(struct mm *mm, uint16_t credits, uint16_t conns);
/*
 * Close n connections without draining, and free the context and the endpoint. Fails the test if
 * the device still has an op.
 */
void mm_close(struct mm *mm, struct leat_msg_conn **conns, unsigned int n);

/* Connect with conf; the other side's private data come with CONNECTED. */
struct leat_msg_conn *mm_connect(struct mm *mm, const struct leat_msg_conn_conf *conf,
				 const void *priv, uint16_t len);
/* As mm_connect(), but check that the connection ends before it is up, and posts no op. */
struct leat_msg_conn *mm_refused(struct mm *mm, const struct leat_msg_conn_conf *conf,
				 const void *priv, uint16_t len);
/* Let a peer end with the status; the device returns all ops of the peer. */
void mm_peer_ends(struct mm *mm, uint16_t id, int status);
/*
 * Poll the endpoint once, let the context process ops and events, and collect its requests and
 * events in *mm.
 */
void mm_drive(struct mm *mm);

/* @return the posted op of that type and tag, for this peer; NULL: none */
struct leat_op *mm_posted(uint16_t peer, enum leat_op_type type, uint64_t tag);
/* @return the oldest posted receive that a message with that tag matches; NULL: none */
struct leat_op *mm_meets(uint16_t peer, uint64_t tag);
unsigned int mm_count(enum leat_op_type type);
/* Complete an op, as the device. */
void mm_finish(struct mm *mm, struct leat_op *op, int status, uint64_t len);
/* Let a message arrive. A receive must match it. */
void mm_arrive(struct mm *mm, uint16_t peer, uint64_t tag, const void *data, uint64_t len);
void mm_arrive64(struct mm *mm, uint16_t peer, uint64_t tag, uint64_t value);
/* Check that a send with that tag and these bytes was posted, and complete it. */
void mm_sent(struct mm *mm, uint16_t peer, uint64_t tag, const void *data, uint64_t len);

/* Send a message now and alone, by ending the turn after it: so no other message joins it. */
void mm_send(struct leat_msg_conn *c, struct leat_msg_req *req, const void *buf, uint64_t size);
void mm_recv(struct leat_msg_conn *c, struct leat_msg_req *req, void *buf, uint64_t size);

/* msg_mock_leat.c: the other side of connections in leat mode */

/*
 * The other side's hello: connection number 0x2123456789ab, 2 credits, eager_max 64 B, max_size
 * 2^32 B, private data "hi".
 */
#define MM_HELLO_LEN 34
extern const uint8_t mm_hello[MM_HELLO_LEN];
/* Tags of messages to the other side. kind: 1 message (head), 2 payload, 3 control message. */
#define MM_THERE (UINT64_C(0x2123456789ab) << 16)
#define MM_TAG(kind, base, id) ((uint64_t)(kind) << 62 | (base) | (uint16_t)(id))

/* The bytes of a message that is to arrive, written by mm_head() or a test. */
extern uint8_t mm_in[128];

/*
 * Write a head, and a message after it, to mm_in.
 * @return number of bytes
 */
uint64_t mm_head(uint64_t len, uint32_t credit, uint32_t granted, const char *data);
/*
 * Read the number that this side chose for its connection to the peer from a posted receive.
 * @return the number, shifted to its bits in a tag
 */
uint64_t mm_base(uint16_t peer);
struct leat_msg_conn *mm_open_leat(struct mm *mm, uint32_t first_id);

#endif /* MSG_MOCK_H */
