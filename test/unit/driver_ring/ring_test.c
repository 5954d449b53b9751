/* SPDX-License-Identifier: BSD-3-Clause */

#include "ring_test.h"

#include <sched.h>

#include <rte_common.h>

#include <leat_error.h>

#define PATIENCE 2000000 /* polls; no test needs more than a few */

int
ring_test_start(void **state)
{
	static char prog[] = "test_ring", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char d0[] = "--vdev=" PLAIN, d1[] = "--vdev=" SHALLOW ",depth=16";
	static char d2[] = "--vdev=" LARGE ",inline=0", log[] = "--log-level=leat.*:warning";
	static char d3[] = "--vdev=" DATAGRAM ",type=datagram";
	char *argv[] = { prog, tel, pci, log, d0, d1, d2, d3, NULL };

	(void)state;
	if (leat_init(RTE_DIM(argv) - 1, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
ring_test_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

struct leat_ep *
ring_test_ep(const char *dev, const struct leat_ep_conf *conf)
{
	struct leat_ep_conf c = { .ops = LEAT_OP_MASK_ALL };
	struct leat_ep *ep;

	if (conf != NULL)
		c = *conf;
	if (c.ops == 0)
		c.ops = LEAT_OP_MASK_ALL;
	ep = leat_ep_create(leat_dev_by_name(dev), &c);
	if (ep == NULL)
		fail_msg("leat_ep_create: %s", leat_err_msg());
	return ep;
}

void
ring_test_event(struct leat_ep *ep, struct leat_ep *other, enum leat_event_type type,
		struct leat_event *ev)
{
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (leat_ep_events(ep, ev, 1) == 1) {
			assert_int_equal(ev->type, type);
			return;
		}
		if (other != NULL)
			(void)leat_ep_events(other, NULL, 0);
		else
			sched_yield();
	}
	fail_msg("event %d did not come", (int)type);
}

void
ring_test_connect(struct leat_ep *a, struct leat_ep *b, const char *addr, uint16_t *pa,
		  uint16_t *pb)
{
	struct leat_event ev;
	int id = leat_ep_connect(a, addr, NULL);

	assert_true(id >= 0);
	ring_test_event(b, a, LEAT_EV_CONNECT_REQ, &ev);
	*pb = ev.peer;
	assert_int_equal(leat_ep_accept(b, ev.peer, NULL), 0);
	ring_test_event(b, a, LEAT_EV_CONNECTED, &ev);
	assert_int_equal(ev.peer, *pb);
	ring_test_event(a, b, LEAT_EV_CONNECTED, &ev);
	assert_int_equal(ev.peer, id);
	*pa = ev.peer;
}

void
ring_pair_open(struct ring_pair *p, const char *dev, const struct leat_ep_conf *conf)
{
	char addr[LEAT_ADDR_MAX];

	p->a = ring_test_ep(dev, conf);
	p->b = ring_test_ep(dev, conf);
	assert_int_equal(leat_ep_listen(p->b, "pair:0"), 0);
	assert_int_equal(leat_ep_listen_addr(p->b, addr, sizeof(addr)), 0);
	ring_test_connect(p->a, p->b, addr, &p->pa, &p->pb);
}

void
ring_pair_close(struct ring_pair *p)
{
	assert_int_equal(leat_ep_close(p->a, 1000000, NULL, NULL), 0);
	assert_int_equal(leat_ep_close(p->b, 1000000, NULL, NULL), 0);
}

struct leat_op *
ring_test_wait2(struct leat_ep *ep, struct leat_ep *other)
{
	struct leat_op *op;
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (leat_ep_poll(ep, &op, 1) == 1)
			return op;
		if (other != NULL)
			(void)leat_ep_poll(other, NULL, 0);
	}
	fail_msg("no op came back");
	return NULL;
}

struct leat_op *
ring_test_wait(struct leat_ep *ep)
{
	return ring_test_wait2(ep, NULL);
}

void
ring_test_post(struct leat_ep *ep, struct leat_op *op)
{
	assert_int_equal(leat_ep_post(ep, &op, 1), 1);
}

struct leat_op
ring_test_send(uint16_t peer, const void *buf, size_t size)
{
	return (struct leat_op){
		.type = LEAT_OP_SEND, .peer = peer, .buf = (void *)(uintptr_t)buf, .size = size
	};
}

struct leat_op
ring_test_recv(void *buf, size_t size)
{
	return (struct leat_op){
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = buf, .size = size
	};
}
