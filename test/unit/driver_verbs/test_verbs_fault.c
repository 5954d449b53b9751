/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The fault device over the verbs driver, on a device that exists in this process only, which
 * requires registered memory and completes each peer's ops in order.
 */

#include <sched.h>
#include <string.h>

#include <rte_common.h>
#include <rte_errno.h>

#include <leat_cmocka.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_time.h>

#include "stub_ibv.h"

#define OPS 400
#define PEERS 2

static struct leat_op ops[OPS];
static struct leat_op *back[OPS];
static char mem[4096], outside[8];
static struct leat_ep *ep;
static struct leat_mr *mr;
static uint16_t peer[PEERS];

static int
start(void **state)
{
	static char args[][80] = {
		"test_verbs",
		"--no-telemetry",
		"--no-pci",
		"--log-level=leat.*:error",
		"--vdev=fabric_verbs0,dev=sim0",
		"--vdev=fabric_fault0,lower=fabric_verbs0,reorder=8,refuse=0.2,seed=5",
	};
	char *argv[RTE_DIM(args) + 1] = { NULL };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(args); i++)
		argv[i] = args[i];
	if (leat_init((int)RTE_DIM(args), argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

static void
open_all(void)
{
	const uint64_t end = leat_now() + leat_us_to_cycles(10000000);
	unsigned int i, up = 0;
	struct leat_event ev;

	stub_reset();
	ep = leat_ep_create(leat_dev_by_name("fabric_fault0"), NULL);
	if (ep == NULL)
		fail_msg("leat_ep_create: %s", leat_err_msg());
	mr = leat_mr_register(ep, mem, sizeof(mem), LEAT_MR_LOCAL);
	assert_non_null(mr);
	for (i = 0; i < PEERS; i++) {
		int id = leat_ep_connect(ep, "192.0.2.2:7000", NULL);

		assert_true(id >= 0);
		peer[i] = (uint16_t)id;
	}
	while (up < PEERS) {
		assert_true(leat_now() < end);
		if (leat_ep_events(ep, &ev, 1) == 0) {
			sched_yield();
			continue;
		}
		assert_int_equal(ev.type, LEAT_EV_CONNECTED);
		up++;
	}
}

static void
close_all(void)
{
	assert_int_equal(leat_mr_deregister(mr), 0);
	assert_int_equal(leat_ep_close(ep, 1000000, NULL, NULL), 0);
	assert_int_equal(sim.overruns, 0);
	assert_int_equal(sim.qps + sim.cqs + sim.srqs + sim.pds + sim.mrs + sim.ids, 0);
}

/*
 * Send OPS messages to the peers in turn.
 * @return how often post refused
 */
static uint32_t
send_all(struct leat_queue *queue)
{
	uint32_t i, refused = 0, posted = 0, n = 0, idle;

	for (i = 0; i < OPS; i++)
		ops[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					   .peer = peer[i % PEERS],
					   .buf = mem + 8 * (i % 500),
					   .size = 8,
					   .mr = mr,
					   .queue = queue };
	for (idle = 0; n < OPS; idle++) {
		struct leat_op *op = &ops[posted];
		uint16_t got;

		if (posted < OPS) {
			if (leat_ep_post(ep, &op, 1) == 1) {
				posted++;
			} else {
				assert_int_equal(rte_errno, EAGAIN);
				refused++;
			}
		}
		got = leat_ep_poll(ep, &back[n], (uint16_t)RTE_MIN(8u, OPS - n));
		n += got;
		if (got > 0)
			idle = 0;
		assert_in_range(idle, 0, 1000);
	}
	for (i = 0; i < OPS; i++) {
		assert_int_equal(ops[i].status, 0);
		assert_int_equal(ops[i].len, 8);
	}
	return refused;
}

/* All sends complete in the order of their queue, though post refuses some at first. */
static void
in_order(void **state)
{
	uint32_t i, last[PEERS] = { 0 };

	(void)state;
	open_all();
	assert_in_range(send_all(NULL), OPS / 10, OPS / 2);
	assert_int_equal(sim.sends, OPS);
	for (i = 0; i < OPS; i++) {
		uint32_t op = (uint32_t)(back[i] - ops);

		assert_true(op < PEERS || op == last[op % PEERS] + PEERS);
		last[op % PEERS] = op;
	}
	close_all();
}

/* Sends on no queue come back in the order in which the fault device completes them. */
static void
reordered(void **state)
{
	uint32_t i, k, passed = 0;

	(void)state;
	open_all();
	(void)send_all(LEAT_QUEUE_NONE);
	for (i = 0; i < OPS; i++) {
		uint32_t younger = 0;

		for (k = 0; k < i; k++)
			younger += back[k] > back[i];
		assert_in_range(younger, 0, 8);
		passed += younger > 0;
	}
	assert_true(passed > OPS / 4);
	close_all();
}

/*
 * An op whose region does not hold its buffer, or that has no region, ends with -EINVAL: the fault
 * device uses a region of the lower device in its place only if the region holds the buffer.
 */
static void
memory(void **state)
{
	struct leat_op *op = &ops[0];

	(void)state;
	open_all();
	ops[0] = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = peer[0], .buf = outside, .size = 8, .mr = mr
	};
	while (leat_ep_post(ep, &op, 1) == 0)
		assert_int_equal(rte_errno, EAGAIN);
	assert_int_equal(leat_ep_poll(ep, &op, 1), 1);
	assert_int_equal(ops[0].status, -EINVAL);
	ops[0].mr = NULL;
	while (leat_ep_post(ep, &op, 1) == 0)
		assert_int_equal(rte_errno, EAGAIN);
	assert_int_equal(leat_ep_poll(ep, &op, 1), 1);
	assert_int_equal(ops[0].status, -EINVAL);
	assert_int_equal(sim.sends, 0);
	close_all();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(reordered),
		cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
