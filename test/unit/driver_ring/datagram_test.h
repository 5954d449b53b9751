/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAGRAM_TEST_H
#define DATAGRAM_TEST_H

/* What the tests of datagram endpoints share: leat on three devices of them, with telemetry. */

#include "ring_test.h"

#define SHORT "fabric_ring4" /* mtu=1000,inline=0,depth=16 */
#define TINY "fabric_ring5"  /* mtu=8 */
/* Of DATAGRAM: */
#define MTU 4096
#define SLOTS 512
#define BUFFER (512 * 1024)

/* For cmocka's group setup, and teardown. */
int datagram_test_start(void **state);
int datagram_test_stop(void **state);

extern const struct leat_ep_conf datagrams;

/* Bytes that tell which message they are of. */
void datagram_fill(uint8_t *buf, size_t len, uint64_t seed);
void datagram_check(const uint8_t *buf, size_t len, uint64_t seed);

/* How one message is sent: with an immediate, on no queue, for a receive that names the peer. */
#define WITH_IMM 1
#define OFF_QUEUE 2
#define DIRECTED 4
#define WAYS 8

/*
 * One message, which arrives: so through the run of plain ops and the general way, on both sides.
 */
void datagram_one(const struct ring_pair *p, size_t size, unsigned int way);

/* Receives, for those who need many. */
#define NB 256
extern struct leat_op datagram_recvs[NB];
extern uint8_t datagram_in[NB][MTU];

/* Posts the first n of them to b. */
void datagram_expect(const struct ring_pair *p, unsigned int n);

/*
 * Sends n messages of a size >= 4 from a, each with its number in front, in bursts of up to 64.
 * Their ops succeed.
 */
void datagram_flood(const struct ring_pair *p, size_t size, uint32_t n, uint16_t burst);
/* The number of a message that came. */
uint32_t datagram_nr(const struct leat_op *op);

/* A counter of /leat/ring of an endpoint: full, too_long, unreceived. */
uint64_t datagram_lost(const struct leat_ep *ep, const char *what);

#endif /* DATAGRAM_TEST_H */
