/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An endpoint to which nothing ever connects: the smallest part of the promises, which a driver
 * without a network must keep as well (drivers/skeleton). The node of each side checks that each op
 * completes once, and in order.
 */

#include "ct.h"

static struct ct_spec
receives(uint32_t count)
{
	return (struct ct_spec){
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .count = count, .size = 64
	};
}

/* Receives that are cancelled, newest first, complete in the order in which they were posted. */
static void
cancelled(void)
{
	const uint32_t n = RTE_MIN(50u, ct.info.rx_depth);
	struct ct_spec r = receives(n);
	struct ct_side a = ct_near(0);
	struct ct_result res;
	uint32_t i;
	int rx;

	ct_open(&a, NULL);
	rx = ct_stream(&a, &r);
	ct_wait_posted(&a, rx, n);
	for (i = n; i > 1; i--)
		CT_EQ(ct_cancel(&a, rx, i - 1, i, NULL), 1, "cancel");
	ct_pump_us(1000);
	ct_result(&a, rx, &res);
	CT_EQ(res.done, 0, "receives that came back before an older one");
	CT_EQ(ct_cancel(&a, rx, 0, 1, NULL), 1, "cancel of the oldest");
	ct_wait(&a, rx, n, &res);
	CT_EQ(ct_status_count(&res, -ECANCELED), n, "cancelled");
	ct_finish(&a);
}

static void
deadline(void)
{
	struct ct_spec r = receives(20);
	struct ct_side a = ct_near(0);
	struct ct_result res;
	int rx;

	r.timeout_us = 20000;
	ct_open(&a, NULL);
	rx = ct_stream(&a, &r);
	ct_wait(&a, rx, r.count, &res);
	CT_EQ(ct_status_count(&res, -ETIMEDOUT), r.count, "expired");
	ct_finish(&a);
}

/*
 * Poll until n ops have completed. Meanwhile the node must not poll: it does not know these ops.
 */
static void
poll_all(struct ct_node *node, struct leat_op **done, unsigned int n)
{
	uint64_t limit = leat_now() + leat_us_to_cycles(UINT64_C(20000000) * ct.slow);
	unsigned int back = 0;

	while (back < n) {
		back += leat_ep_poll(node->ep, &done[back], (uint16_t)(n - back));
		CT_CHECK(leat_now() < limit, "%u of %u ops came back", back, n);
	}
}

/* A full endpoint refuses a post at once, and has room again when an op has completed. */
static void
full(void)
{
	static struct leat_op ops[17];
	const unsigned int depth = 16;
	struct ct_conf conf = { .rx_depth = (uint16_t)depth };
	struct leat_op *list[17], *done[17];
	struct ct_side a = ct_near(0);
	struct ct_node *node;
	unsigned int i, n;

	ct_open(&a, &conf);
	node = ct_node(&a);
	memset(ops, 0, sizeof(ops));
	for (i = 0; i <= depth; i++) {
		ops[i].type = LEAT_OP_RECV;
		ops[i].peer = LEAT_PEER_ANY;
		list[i] = &ops[i];
	}
	n = leat_ep_post(node->ep, list, (uint16_t)(depth + 1));
	CT_EQ(n, depth, "receives accepted of one more than there is room for");
	CT_EQ(rte_errno, EAGAIN, "rte_errno");
	CT_EQ(ops[depth].state, 0, "state of the op that was not accepted");
	rte_errno = 0;
	CT_EQ(leat_ep_post(node->ep, list, 1), 0, "an op accepted that is in flight");
	CT_EQ(rte_errno, EALREADY, "rte_errno");
	for (i = 0; i < depth; i++)
		CT_EQ(leat_op_cancel(node->ep, &ops[i]), 0, "cancel");
	poll_all(node, done, depth);
	for (i = 0; i < depth; i++)
		CT_CHECK(done[i] == &ops[i] && ops[i].status == -ECANCELED,
			 "receive %u is not the one that was posted then, or has status %d", i,
			 ops[i].status);
	CT_EQ(leat_ep_post(node->ep, &list[depth], 1), 1, "accepted when there is room");
	CT_EQ(leat_op_cancel(node->ep, &ops[depth]), 0, "cancel");
	poll_all(node, done, 1);
	ct_finish(&a);
}

/* A wrong op completes with a status that names the mistake. */
static void
wrong_ops(void)
{
	static const struct {
		uint8_t type;
		uint16_t peer;
		uint64_t size;
		int status;
	} wrong[] = {
		{ LEAT_OP_SEND, 0, 0, -ENOTCONN },
		{ LEAT_OP_SEND, LEAT_PEER_ANY, 0, -ENOTCONN },
		{ LEAT_OP_RECV, LEAT_PEER_ANY, 8, -EINVAL }, /* no buffer */
		{ LEAT_OP_TYPES, 0, 0, -EINVAL },
		{ UINT8_MAX, 0, 0, -EINVAL },
	};
	static struct leat_op ops[RTE_DIM(wrong)];
	struct leat_op *list[RTE_DIM(wrong)], *done[RTE_DIM(wrong)];
	struct ct_side a = ct_near(0);
	struct ct_node *node;
	unsigned int i;

	ct_open(&a, NULL);
	node = ct_node(&a);
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < RTE_DIM(wrong); i++) {
		ops[i].type = wrong[i].type;
		ops[i].peer = wrong[i].peer;
		ops[i].size = wrong[i].size;
		list[i] = &ops[i];
	}
	CT_EQ(leat_ep_post(node->ep, list, RTE_DIM(wrong)), RTE_DIM(wrong), "accepted");
	poll_all(node, done, RTE_DIM(wrong));
	for (i = 0; i < RTE_DIM(wrong); i++)
		CT_EQ(ops[i].status, wrong[i].status, "status");
	ct_finish(&a);
}

const struct ct_test ct_tests_alone[] = {
	{ .name = "alone.cancelled", .fn = cancelled, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "alone.deadline", .fn = deadline, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "alone.full", .fn = full, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "alone.wrong_ops", .fn = wrong_ops, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = NULL },
};
