/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sends on a device that works, and on one that fails: lists, signals, refusals, failures in the
 * middle, counters that wrap. Each test runs on a device with ibv_wr_* and on one without.
 */

#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

#include "stub_test.h"

/*
 * Each run of up to 32 ops to one peer is one list with one doorbell, and has one completion unless
 * every 4th send is signaled.
 */
static void
lists(void **state)
{
	uint32_t at = 0, i;
	unsigned int dev;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 2, 0);
		bool signal4 = dev == STUB_SIGNAL;

		at = 0;
		stub_make(s, 0, 40, 0);
		assert_int_equal(stub_post(s, 0, 40), 40);
		assert_int_equal(sim.doorbells, 2); /* 32, 8 */
		stub_collect(s);
		assert_int_equal(sim.polled, signal4 ? 10 : 2);
		stub_expect(s, &at, 0, 40, 0);

		/* A burst to the peers A A B B A makes three lists. */
		stub_reset();
		stub_make(s, 100, 5, 0);
		s->ops[102].peer = s->ops[103].peer = s->peer[1];
		assert_int_equal(stub_post(s, 100, 5), 5);
		assert_int_equal(sim.doorbells, 3);
		assert_int_equal(sim.inlined, 5);
		stub_collect(s);
		assert_int_equal(s->nb_back, 45);
		for (i = 0; i < 5; i++)
			assert_int_equal(s->ops[100 + i].status, 0);
		stub_close(s);
	}
}

/* A burst of all op types, with sizes inline, beyond inline and 0, succeeds with one doorbell. */
static void
kinds(void **state)
{
	static const uint8_t types[] = { LEAT_OP_SEND,	    LEAT_OP_SEND, LEAT_OP_WRITE,
					 LEAT_OP_WRITE_IMM, LEAT_OP_READ, LEAT_OP_FETCH_ADD,
					 LEAT_OP_CMP_SWAP,  LEAT_OP_SEND };
	static const uint32_t sizes[] = { 8, 4096, 8, 0, 8, 8, 8, 0 };
	uint32_t at = 0, i;
	unsigned int dev;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		at = 0;
		stub_make(s, 0, RTE_DIM(types), 0);
		for (i = 0; i < RTE_DIM(types); i++) {
			s->ops[i].type = types[i];
			s->ops[i].size = sizes[i];
			s->ops[i].raddr = 64;
		}
		s->ops[7].flags = LEAT_OP_F_IMM;
		assert_int_equal(stub_post(s, 0, RTE_DIM(types)), RTE_DIM(types));
		assert_int_equal(sim.doorbells, 1);
		stub_collect(s);
		stub_expect(s, &at, 0, RTE_DIM(types), 0);
		assert_int_equal(s->ep->stats.tx_bytes, 8 + 4096 + 8);
		assert_int_equal(s->ep->stats.rx_bytes, 24);
		stub_close(s);
	}
}

/* Invalid ops are accepted and come back failed; the valid ops around them are sent. */
static void
wrong_ops(void **state)
{
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		at = 0;
		stub_make(s, 0, 9, 0);
		s->ops[1].peer = 7;		/* no such peer */
		s->ops[2].type = 99;		/* no such type */
		s->ops[3].type = LEAT_OP_TSEND; /* not offered */
		s->ops[4].size = 4097;		/* longer than its region */
		s->ops[5].type = LEAT_OP_WRITE;
		s->ops[5].rkey = UINT64_C(1) << 32; /* not a key of verbs: more than 32 bits */
		s->ops[6].type = LEAT_OP_FETCH_ADD;
		s->ops[6].size = 4;
		s->ops[7].peer = LEAT_PEER_ANY;
		assert_int_equal(stub_post(s, 0, 9), 9);
		assert_int_equal(sim.sends, 2);
		stub_collect(s);
		assert_int_equal(s->nb_back, 9);
		assert_int_equal(s->ops[0].status, 0);
		assert_int_equal(s->ops[1].status, -ENOTCONN);
		assert_int_equal(s->ops[2].status, -EINVAL);
		assert_int_equal(s->ops[3].status, -EOPNOTSUPP);
		assert_int_equal(s->ops[4].status, -EINVAL);
		assert_int_equal(s->ops[5].status, -EACCES);
		assert_int_equal(s->ops[6].status, -EINVAL);
		assert_int_equal(s->ops[7].status, -ENOTCONN);
		assert_int_equal(s->ops[8].status, 0);

		/*
		 * The second op of this burst, ops[21], is in flight already: post accepts only the
		 * op before it.
		 */
		sim.hold = true;
		s->nb_back = 0;
		stub_make(s, 20, 3, 0);
		assert_int_equal(stub_post(s, 21, 1), 1);
		assert_int_equal(stub_post(s, 20, 3), 1);
		assert_int_equal(rte_errno, EALREADY);
		assert_int_equal(stub_complete(stub_qp(s, 0), 2, IBV_WC_SUCCESS), 2);
		stub_collect(s);
		stub_expect(s, &at, 21, 1, 0);
		stub_expect(s, &at, 20, 1, 0);
		assert_int_equal(s->nb_back, at);
		stub_close(s);
	}
}

/* A completion also completes the requests before its own, not those after it. */
static void
signals(void **state)
{
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);
		struct ibv_qp *qp = stub_qp(s, 0);

		at = 0;
		sim.hold = true;
		stub_make(s, 0, 20, 0);
		assert_int_equal(stub_post(s, 0, 10), 10);
		assert_int_equal(stub_post(s, 10, 3), 3);
		/* With signal=4, sends 4, 8 and 10 (the last) of the first list are signaled. */
		assert_int_equal(stub_complete(qp, 5, IBV_WC_SUCCESS), 5);
		stub_collect(s);
		if (dev == STUB_SIGNAL)
			stub_expect(s, &at, 0, 4, 0);
		assert_int_equal(s->nb_back, at);
		assert_int_equal(stub_complete(qp, 5, IBV_WC_SUCCESS), 5);
		stub_collect(s);
		stub_expect(s, &at, at, 10 - at, 0);
		assert_int_equal(s->nb_back, 10);
		/*
		 * Two sends of the second list are done, but they are unsignaled: no op comes back.
		 */
		assert_int_equal(stub_complete(qp, 2, IBV_WC_SUCCESS), 2);
		stub_collect(s);
		assert_int_equal(s->nb_back, 10);
		assert_int_equal(leat_ep_inflight(s->ep), 3);
		assert_int_equal(stub_complete(qp, 1, IBV_WC_SUCCESS), 1);
		stub_collect(s);
		stub_expect(s, &at, 10, 3, 0);
		stub_close(s);
	}
}

/*
 * One completion completes 32 ops, but poll has room for only 3: the next polls return the others,
 * in order.
 */
static void
little_room(void **state)
{
	struct leat_op *done[3];
	unsigned int dev, i, k;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		stub_make(s, 0, 32, 0);
		assert_int_equal(stub_post(s, 0, 32), 32);
		assert_int_equal(leat_ep_poll(s->ep, NULL, 0), 0);
		for (i = 0; i < 32; i += k) {
			unsigned int j;

			k = leat_ep_poll(s->ep, done, 3);
			assert_true(k > 0);
			for (j = 0; j < k; j++)
				assert_ptr_equal(done[j], &s->ops[i + j]);
		}
		assert_int_equal(leat_ep_inflight(s->ep), 0);
		stub_close(s);
	}
}

/*
 * The number of a request has 32 bits, and wraps here. Bursts of 1 to 16 requests, 16 being the
 * depth of the queue pair, begin at various places of its ring.
 */
static void
counters_wrap(void **state)
{
	uint32_t at, i, n;
	unsigned int dev;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 16);
		struct vb_conn *c = stub_conn(s, 0);

		sim.hold = true;
		c->head = c->tail = UINT32_MAX - 20;
		for (i = 0; i < 60; i++) {
			n = 1 + i % 16;
			at = s->nb_back = 0;
			stub_make(s, 0, n, 0);
			assert_int_equal(stub_post(s, 0, n), n);
			assert_int_equal(stub_complete(c->qp, n, IBV_WC_SUCCESS), n);
			stub_collect(s);
			stub_expect(s, &at, 0, n, 0);
		}
		assert_true(c->tail < 1000);
		/* The queue pair has room for 16 of 20 sends. */
		stub_make(s, 0, 20, 0);
		assert_int_equal(stub_post(s, 0, 20), 16);
		assert_int_equal(rte_errno, EAGAIN);
		assert_int_equal(stub_complete(c->qp, 16, IBV_WC_SUCCESS), 16);
		stub_collect(s);
		stub_close(s);
	}
}

/*
 * The numbers of a queue pair's requests wrap just before or within a burst of 9 sends. The sixth
 * send fails: those before it succeed, those after it fail too.
 */
static void
failure_at_wrap(void **state)
{
	unsigned int dev, before;
	uint32_t at, i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		for (before = 0; before < 9; before++) {
			struct stub_ep *s = stub_open(dev, 1, 16);
			struct vb_conn *c = stub_conn(s, 0);

			assert_int_equal(c->head, LEAT_CURSOR_START);
			assert_int_equal(c->tail, LEAT_CURSOR_START);
			sim.hold = true;
			c->head = c->tail = 0u - before;
			stub_make(s, 0, 9, 0);
			assert_int_equal(stub_post(s, 0, 9), 9);
			assert_int_equal(stub_complete(c->qp, 5, IBV_WC_SUCCESS), 5);
			assert_int_equal(stub_complete(c->qp, 1, IBV_WC_RETRY_EXC_ERR), 1);
			stub_collect(s);
			at = 0;
			stub_expect(s, &at, 0, 5, 0);
			assert_int_equal(s->nb_back, 9);
			for (i = 5; i < 9; i++)
				assert_true(s->ops[i].status < 0);
			stub_close(s);
		}
	}
}

/*
 * A burst of plain sends also has an op on the caller's own queue, an op on no queue, and an op
 * with a deadline: all complete. Afterwards no deadline timer runs, and the send queue is empty.
 */
static void
other_queues(void **state)
{
	static struct leat_queue own;
	unsigned int dev;
	uint32_t i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		memset(&own, 0, sizeof(own));
		sim.hold = true;
		stub_make(s, 0, 12, 0);
		s->ops[3].queue = &own;
		s->ops[4].queue = LEAT_QUEUE_NONE;
		s->ops[6].flags = LEAT_OP_F_DEADLINE;
		s->ops[6].deadline = leat_now() + leat_us_to_cycles(60000000);
		s->ops[11].q_next =
			&s->ops[0]; /* as left by an earlier post: ignored in the newest op */
		assert_int_equal(stub_post(s, 0, 12), 12);
		assert_true(leat_wheel_queued(&s->ops[6].dl));
		assert_int_equal(stub_complete(stub_qp(s, 0), 12, IBV_WC_SUCCESS), 12);
		stub_collect(s);
		assert_int_equal(s->nb_back, 12);
		for (i = 0; i < 12; i++) {
			assert_ptr_equal(s->back[i], &s->ops[i]);
			assert_int_equal(s->ops[i].status, 0);
		}
		assert_int_equal(own.nb_posted, 1);
		assert_int_equal(own.nb_returned, 1);
		assert_int_equal(leat_ep_queue(s->ep, s->peer[0])->nb_returned, 10);
		assert_null(leat_ep_queue(s->ep, s->peer[0])->head);
		assert_false(leat_wheel_queued(&s->ops[6].dl));
		assert_int_equal(leat_peer_inflight(&s->ep->peers[s->peer[0]]), 0);

		/* Here the op with a deadline is the only special op among plain sends. */
		stub_make(s, 20, 4, 0);
		s->ops[21].flags = LEAT_OP_F_DEADLINE;
		s->ops[21].deadline = leat_now() + leat_us_to_cycles(60000000);
		assert_int_equal(stub_post(s, 20, 4), 4);
		assert_int_equal(stub_complete(stub_qp(s, 0), 4, IBV_WC_SUCCESS), 4);
		stub_collect(s);
		assert_int_equal(s->nb_back, 16);
		assert_int_equal(s->ops[21].status, 0);
		assert_false(leat_wheel_queued(&s->ops[21].dl));
		stub_close(s);
	}
}

/* The device's arguments, not rdma_cm, set the timeouts and retries of a queue pair. */
static void
patience(void **state)
{
	static const struct {
		unsigned int dev, timeout, retry, rnr_retry;
	} rows[] = { { STUB_WR, 14, 6, 7 }, { STUB_POST, 14, 6, 7 }, { STUB_PATIENT, 18, 5, 3 } };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(rows); i++) {
		struct stub_ep *s = stub_open(rows[i].dev, 1, 0);

		assert_int_equal(sim.rts.timeout, rows[i].timeout);
		assert_int_equal(sim.rts.retry_cnt, rows[i].retry);
		assert_int_equal(sim.rts.rnr_retry, rows[i].rnr_retry);
		stub_close(s);
	}
}

/* Access flags of regions. Relaxed ordering is used only where peers may not write. */
static void
regions(void **state)
{
	static const uint32_t access[] = { LEAT_MR_LOCAL, LEAT_MR_REMOTE_READ, LEAT_MR_REMOTE_WRITE,
					   LEAT_MR_REMOTE_ATOMIC, LEAT_MR_REMOTE_ALL };
	static char mem[4096];
	unsigned int dev, i;

	(void)state;
	for (dev = 0; dev <= STUB_ODP; dev++) {
		struct stub_ep *s = stub_open(dev, 0, 0);

		for (i = 0; i < RTE_DIM(access); i++) {
			bool peers_write =
				(access[i] & (LEAT_MR_REMOTE_WRITE | LEAT_MR_REMOTE_ATOMIC)) != 0;
			struct leat_mr *mr;

			mr = leat_mr_register(s->ep, mem, sizeof(mem), access[i]);
			assert_non_null(mr);
			assert_true((sim.mr_access & IBV_ACCESS_LOCAL_WRITE) != 0);
			assert_int_equal((sim.mr_access & IBV_ACCESS_RELAXED_ORDERING) != 0,
					 dev == STUB_RELAXED && !peers_write);
			assert_int_equal((sim.mr_access & IBV_ACCESS_ON_DEMAND) != 0,
					 dev == STUB_ODP);
			/* The memory is not DPDK's, so the driver assumes no huge pages. */
			assert_int_equal(sim.mr_access & IBV_ACCESS_HUGETLB, 0);
			assert_int_equal(leat_mr_deregister(mr), 0);
		}
		stub_close(s);
	}
}

/*
 * On-demand paging is refused on devices that lack it, or lack it for an operation that needs it.
 */
static void
no_odp(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct vb_dev d = { .name = "fabric_verbs9", .args = { .odp = true }, .srq = true };

	(void)state;
	d.ibdev = list[0];
	d.ctx = ibv_open_device(list[0]);
	assert_non_null(d.ctx);
	sim.odp = 0;
	assert_int_equal(vb_mr_options(&d), -EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "sim0 has no on-demand paging"));
	sim.odp = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	assert_int_equal(vb_mr_options(&d), -EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "lacks, for reliable connections: SRQ;"));
	d.srq = false;
	assert_int_equal(vb_mr_options(&d), 0);
	assert_int_equal(ibv_close_device(d.ctx), 0);
}

/*
 * Of a device's GIDs, the driver uses the one whose address or interface the arguments name. If
 * they name neither, the driver chooses.
 */
static void
gids(void **state)
{
	/* Arguments of the device; index and source address of the GID that is used. */
	static const struct {
		const char *dev, *addr, *netdev;
		int gid;
		const char *src;
	} rows[] = {
		{ "sim0", "", "", 1, "192.0.2.1:0" },
		{ "", "192.0.2.1", "", 1, "192.0.2.1:0" },
		{ "", "192.0.2.9", "", 2, "192.0.2.9:0" },
		{ "", "", "lo", 2, "192.0.2.9:0" },
	};
	char src[LEAT_ADDR_MAX];
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(rows); i++) {
		struct vb_dev d = { .name = "fabric_verbs9", .args = { .gid = -1 } };

		snprintf(d.args.dev, sizeof(d.args.dev), "%s", rows[i].dev);
		snprintf(d.args.addr, sizeof(d.args.addr), "%s", rows[i].addr);
		snprintf(d.args.netdev, sizeof(d.args.netdev), "%s", rows[i].netdev);
		if (vb_find(&d) < 0)
			fail_msg("%s", leat_err_msg());
		assert_int_equal(d.gid, rows[i].gid);
		assert_non_null(vb_src_for(&d, AF_INET));
		vb_addr_str(vb_src_for(&d, AF_INET), src, sizeof(src));
		assert_string_equal(src, rows[i].src);
		vb_find_undo(&d);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(kinds),
		cmocka_unit_test(wrong_ops),
		cmocka_unit_test(signals),
		cmocka_unit_test(little_room),
		cmocka_unit_test(counters_wrap),
		cmocka_unit_test(failure_at_wrap),
		cmocka_unit_test(other_queues),
		cmocka_unit_test(regions),
		cmocka_unit_test(no_odp),
		cmocka_unit_test(gids),
		cmocka_unit_test(patience),
	};

	return cmocka_run_group_tests(tests, stub_start, stub_stop);
}
