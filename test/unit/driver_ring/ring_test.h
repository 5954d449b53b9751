/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_TEST_H
#define RING_TEST_H

/*
 * Shared by the tests of the ring driver: leat on four devices, and pairs of endpoints driven by
 * one thread.
 */

#include <leat_fabric.h>

#include <leat_cmocka.h>

#define PLAIN "fabric_ring0"
#define SHALLOW "fabric_ring1"	/* depth=16 */
#define LARGE "fabric_ring2"	/* inline=0: every message is copied from the sender's buffer */
#define DATAGRAM "fabric_ring3" /* type=datagram */

/* Start leat with the devices above: group setup and teardown, for cmocka. */
int ring_test_start(void **state);
int ring_test_stop(void **state);

/* Two connected endpoints of a device. pa is the id of b at a; pb is the id of a at b. */
struct ring_pair {
	struct leat_ep *a, *b;
	uint16_t pa, pb;
};

struct leat_ep *ring_test_ep(const char *dev, const struct leat_ep_conf *conf);
/* Connect a to b, which must listen at addr. Drives both. */
void ring_test_connect(struct leat_ep *a, struct leat_ep *b, const char *addr, uint16_t *pa,
		       uint16_t *pb);
/*
 * Open and connect two endpoints. conf NULL: they offer every op type, with defaults for the rest.
 */
void ring_pair_open(struct ring_pair *p, const char *dev, const struct leat_ep_conf *conf);
void ring_pair_close(struct ring_pair *p);

/* Poll until an op comes back. @return the op */
struct leat_op *ring_test_wait(struct leat_ep *ep);
/* As ring_test_wait(), driving the other endpoint as well. */
struct leat_op *ring_test_wait2(struct leat_ep *ep, struct leat_ep *other);
/*
 * Wait for an event of the given type on ep, and drive other too unless it is NULL. An event of a
 * different type is an error.
 */
void ring_test_event(struct leat_ep *ep, struct leat_ep *other, enum leat_event_type type,
		     struct leat_event *ev);
void ring_test_post(struct leat_ep *ep, struct leat_op *op);

/* Ops, ready to post. */
struct leat_op ring_test_send(uint16_t peer, const void *buf, size_t size);
struct leat_op ring_test_recv(void *buf, size_t size);

#endif /* RING_TEST_H */
