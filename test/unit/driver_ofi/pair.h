/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_OFI_PAIR_H
#define TEST_OFI_PAIR_H

/* Two connected endpoints in one process, driven by one thread, and helpers of the tests. */

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_time.h>

#include "leat_cmocka.h"

/*
 * Time limit of each wait. It is long for the sake of loaded machines: normally no wait takes a
 * second.
 */
#define TIMEOUT_US (30 * 1000 * 1000)

struct node {
	struct leat_ep *ep;
	uint16_t peer;
	bool up;
	int down; /* status of DISCONNECTED or CONNECT_FAILED; 1: neither has come */
	uint32_t nb_done;
	uint16_t requests, connects;
};

static inline void
node_turn(struct node *n)
{
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t got;

	got = leat_ep_poll(n->ep, ops, 32);
	n->nb_done += got;
	if (got == 0)
		sched_yield();
	while (leat_ep_events(n->ep, &ev, 1) == 1) {
		switch (ev.type) {
		case LEAT_EV_CONNECT_REQ:
			n->requests++;
			assert_int_equal(leat_ep_accept(n->ep, ev.peer, NULL), 0);
			break;
		case LEAT_EV_CONNECTED:
			n->peer = ev.peer;
			n->connects++;
			n->up = true;
			break;
		case LEAT_EV_DISCONNECTED:
		case LEAT_EV_CONNECT_FAILED:
			n->up = false;
			n->down = ev.status;
			break;
		default:
			break;
		}
	}
}

struct pair {
	struct node a, b;
};

static inline void
pair_turn(struct pair *p)
{
	node_turn(&p->a);
	if (p->b.ep != NULL)
		node_turn(&p->b);
}

/* Repeat turn until cond is true; fail the test after us microseconds. */
#define UNTIL(us, turn, cond)                                                                      \
	do {                                                                                       \
		uint64_t end_ = leat_now() + leat_us_to_cycles(us);                                \
		while (!(cond)) {                                                                  \
			turn;                                                                      \
			if (leat_now() > end_)                                                     \
				fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__, #cond);     \
		}                                                                                  \
	} while (0)

#define PAIR_UNTIL(p, cond) UNTIL(TIMEOUT_US, pair_turn(p), cond)

static inline bool
op_done(const struct leat_op *op)
{
	return op->state == LEAT_OP_IDLE;
}

static inline struct leat_ep *
ep_open(struct leat_dev *dev, uint32_t ops)
{
	struct leat_ep_conf conf = { .ops = ops, .max_peers = 8 };
	struct leat_ep *ep = leat_ep_create(dev, &conf);

	if (ep == NULL)
		fail_msg("endpoint: %s", leat_err_msg());
	return ep;
}

static inline void
pair_connect(struct pair *p)
{
	char addr[LEAT_ADDR_MAX];

	if (leat_ep_listen_addr(p->b.ep, addr, sizeof(addr)) != 0) {
		assert_int_equal(leat_ep_listen(p->b.ep, "127.0.0.1:0"), 0);
		assert_int_equal(leat_ep_listen_addr(p->b.ep, addr, sizeof(addr)), 0);
	}
	p->a.down = p->b.down = 1;
	assert_true(leat_ep_connect(p->a.ep, addr, NULL) >= 0);
	PAIR_UNTIL(p, p->a.up && p->b.up);
}

static inline void
pair_open(struct pair *p, struct leat_dev *dev)
{
	struct leat_dev_info info;

	memset(p, 0, sizeof(*p));
	assert_int_equal(leat_dev_info_get(dev, &info), 0);
	p->a.ep = ep_open(dev, info.ops);
	p->b.ep = ep_open(dev, info.ops);
	pair_connect(p);
}

static inline void
pair_close(struct pair *p)
{
	(void)leat_ep_close(p->a.ep, 100000, NULL, NULL);
	if (p->b.ep != NULL)
		(void)leat_ep_close(p->b.ep, 100000, NULL, NULL);
}

/* Post one op; turn until post accepts it. */
static inline void
pair_post(struct pair *p, struct node *n, struct leat_op *op)
{
	uint64_t end = leat_now() + leat_us_to_cycles(TIMEOUT_US);

	while (leat_ep_post(n->ep, &op, 1) == 0) {
		assert_int_equal(rte_errno, EAGAIN);
		pair_turn(p);
		if (leat_now() > end)
			fail_msg("%s: no room in time", leat_op_type_name(op->type));
	}
}

/* Register a region. Unless key is NULL, set it to the remote key that the peer needs. */
static inline struct leat_mr *
reg(struct leat_ep *ep, void *buf, size_t len, struct leat_rkey *key)
{
	struct leat_dev_info info;
	uint32_t access = 0;
	struct leat_mr *mr;

	assert_int_equal(leat_dev_info_get(leat_ep_dev(ep), &info), 0);
	if ((info.ops & LEAT_OP_BIT(LEAT_OP_WRITE)) != 0)
		access |= LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE;
	if ((info.ops & LEAT_OP_BIT(LEAT_OP_FETCH_ADD)) != 0)
		access |= LEAT_MR_REMOTE_ATOMIC;
	mr = leat_mr_register(ep, buf, len, access);
	if (mr == NULL)
		fail_msg("register: %s", leat_err_msg());
	if (key != NULL)
		assert_int_equal(leat_mr_rkey(mr, buf, len, key), 0);
	return mr;
}

static inline void
fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *b = buf;
	size_t i;

	for (i = 0; i < len; i++)
		b[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

#endif /* TEST_OFI_PAIR_H */
