/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TAGS_PEER_H
#define TAGS_PEER_H

/*
 * An endpoint with the tag layer over the mock driver, and the other sides of its connections: the
 * functions below take each segment that the layer has sent from the mock driver, and give the mock
 * driver each segment that the layer is to receive.
 */

#include <leat_error.h>
#include <leat_fabric.h>

#include "mock_driver.h"
#include "tags_wire.h"

#define TP_SEGMENT 4096
/* Limit of peers of an endpoint. */
#define TP_PEERS 16
/* The token that the other sides choose. */
#define TP_TOKEN UINT64_C(0x1020304050607080)
#define TP_OPS (LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

extern struct leat_ep *tp_ep;

/*
 * Group setup for cmocka: leat with a mock device that has no tagged ops. Setup: an endpoint of
 * four peers, two of them up.
 */
int tp_group_setup(void **state);
int tp_group_teardown(void **state);
int tp_setup(void **state);
int tp_teardown(void **state);
/* Open an endpoint without connections; tp_teardown() closes it. */
void tp_open(uint16_t peers, uint32_t depth);

/*
 * Connect a peer whose hello gives the layer these windows, in segments, for the three classes.
 * @return its id, which the inner endpoint and the layer's share
 */
uint16_t tp_connect(uint8_t msg, uint8_t data, uint8_t reply);

/*
 * Let the peer's next segment arrive. This call fills in seq and token; h->done counts from 0. The
 * layer sees the segment in the next poll.
 */
void tp_arrive(uint16_t peer, struct tags_hdr *h, const void *bytes, uint32_t n);
/* As tp_arrive(), with the token `as`. The peer's seq advances only if the token is its own. */
void tp_arrive_as(uint16_t peer, uint64_t as, struct tags_hdr *h, const void *bytes, uint32_t n);
/* Read the layer's hello for a connection that was not made by tp_connect(). */
void tp_known(uint16_t peer, const uint8_t *hello);
/* @return the token that the layer chose for a connection */
uint64_t tp_token(uint16_t peer);
/* Let a segment of exactly these bytes arrive. */
void tp_arrive_raw(uint16_t peer, const void *bytes, uint32_t n);
/* Let a tagged message of one segment arrive. */
void tp_message(uint16_t peer, uint64_t tag, const char *text);
/* Let a WRITE_IMM of the peer arrive. */
void tp_notice(uint16_t peer, uint64_t imm);

/*
 * Complete, as the device, the oldest segment that was sent to this peer, and get its contents. seq
 * and done count from 0.
 * @return false if there is none
 */
bool tp_sent(uint16_t peer, struct tags_hdr *h, uint8_t *bytes, uint32_t *n);
/* @return number of sends in flight in the device */
unsigned int tp_sends(void);

/* Disconnect, complete all sends including the layer's BYE, and let the peer answer the BYE. */
void tp_leave(uint16_t peer);
/* Let the peer's BYE arrive. */
void tp_bye(uint16_t peer);

void tp_post(struct leat_op *op);
/* @return the op that comes back first in three polls; NULL: none */
struct leat_op *tp_poll(void);
/* Get an event, which must be of this type, from at most three calls of leat_ep_events(). */
struct leat_event tp_event(enum leat_event_type type, uint16_t peer);

#endif /* TAGS_PEER_H */
