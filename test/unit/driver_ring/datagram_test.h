/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATAGRAM_TEST_H
#define DATAGRAM_TEST_H

/*
 * Shared by the tests of datagram endpoints. leat runs with telemetry and three ring devices of
 * datagrams: DATAGRAM, SHORT and TINY.
 */

#include "ring_test.h"

#define SHORT "fabric_ring4" /* mtu=1000,inline=0,depth=16 */
#define TINY "fabric_ring5"  /* mtu=8 */
/* Limits of DATAGRAM: */
#define MTU 4096
#define SLOTS 512
#define BUFFER (512 * 1024)

/* Group setup and teardown, for cmocka. */
int datagram_test_start(void **state);
int datagram_test_stop(void **state);

extern const struct leat_ep_conf datagrams;

/* Fill a buffer with the bytes that a seed yields, or check that it holds them. */
void datagram_fill(uint8_t *buf, size_t len, uint64_t seed);
void datagram_check(const uint8_t *buf, size_t len, uint64_t seed);

/*
 * Ways to send a message, as bits: with an immediate (WITH_IMM), on no queue (OFF_QUEUE), to a
 * receive that names the peer (DIRECTED).
 */
#define WITH_IMM 1
#define OFF_QUEUE 2
#define DIRECTED 4
#define WAYS 8

/*
 * Send one message, and check that it arrives. The way decides whether both sides use their fast
 * path for plain ops or the general path.
 */
void datagram_one(const struct ring_pair *p, size_t size, unsigned int way);

/* Receives and their buffers, for tests that need many. */
#define NB 256
extern struct leat_op datagram_recvs[NB];
extern uint8_t datagram_in[NB][MTU];

/* Post the first n of datagram_recvs at b. */
void datagram_expect(const struct ring_pair *p, unsigned int n);

/*
 * Send n messages of a size >= 4 from a, each beginning with its number, in bursts of up to 64. All
 * their ops succeed.
 */
void datagram_flood(const struct ring_pair *p, size_t size, uint32_t n, uint16_t burst);
/* @return the number of a received message */
uint32_t datagram_nr(const struct leat_op *op);

/* @return the counter lost_WHAT of an endpoint in /leat/ring; what: full, too_long or unreceived */
uint64_t datagram_lost(const struct leat_ep *ep, const char *what);

#endif /* DATAGRAM_TEST_H */
