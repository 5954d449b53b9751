/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TAGS_PEER_H
#define TAGS_PEER_H

/*
 * An endpoint with the tag layer over the mock driver, and the other side of its connections: what it
 * sends is taken out of the mock, what it receives is put there, segment by segment.
 */

#include <leat_error.h>
#include <leat_fabric.h>

#include "mock_driver.h"
#include "tags_wire.h"

#define TP_SEGMENT 4096
/* Most peers of an endpoint. */
#define TP_PEERS 16
/* That of the other sides. */
#define TP_TOKEN UINT64_C(0x1020304050607080)
#define TP_OPS (LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

extern struct leat_ep *tp_ep;

/* For cmocka: leat with a mock device without tagged ops; an endpoint of four peers, two of them up. */
int tp_group_setup(void **state);
int tp_group_teardown(void **state);
int tp_setup(void **state);
int tp_teardown(void **state);
/* An endpoint without connections; tp_teardown() closes it. */
void tp_open(uint16_t peers, uint32_t depth);

/* A peer that takes so many segments of the classes. @return its id, the same inside and outside */
uint16_t tp_connect(uint8_t msg, uint8_t data, uint8_t reply);

/*
 * Its next segment: seq and token are filled in, done counts from 0. The layer sees it in the next
 * poll.
 */
void tp_arrive(uint16_t peer, struct tags_hdr *h, const void *bytes, uint32_t n);
/* The same with any token; with another one than the connection's it is not counted in seq. */
void tp_arrive_as(uint16_t peer, uint64_t as, struct tags_hdr *h, const void *bytes, uint32_t n);
/* For a connection that was not made by tp_connect(): what the layer said in its hello. */
void tp_known(uint16_t peer, const uint8_t *hello);
/* What the layer chose for a connection. */
uint64_t tp_token(uint16_t peer);
/* The same with these bytes. */
void tp_arrive_raw(uint16_t peer, const void *bytes, uint32_t n);
/* A message of one segment, tagged. */
void tp_message(uint16_t peer, uint64_t tag, const char *text);
/* A WRITE_IMM of it. */
void tp_notice(uint16_t peer, uint64_t imm);

/*
 * The next segment that was sent, if it is to this peer; the device completes it. seq and done
 * count from 0.
 * @return false if there is none
 */
bool tp_sent(uint16_t peer, struct tags_hdr *h, uint8_t *bytes, uint32_t *n);
/* Sends with the device. */
unsigned int tp_sends(void);

/* Disconnects; the device completes all that was sent, our BYE last, and the peer answers it. */
void tp_leave(uint16_t peer);
/* The peer's BYE. */
void tp_bye(uint16_t peer);

void tp_post(struct leat_op *op);
/* The one op that comes back; NULL: none */
struct leat_op *tp_poll(void);
/* Events until the one of this type; fails if another comes. */
struct leat_event tp_event(enum leat_event_type type, uint16_t peer);

#endif /* TAGS_PEER_H */
