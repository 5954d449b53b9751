/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rare behaviour of devices: they refuse a request in the middle of a list, fail one request of
 * many, report nothing at all, report completions of destroyed queue pairs, or break. In every case
 * each op comes back once, in order, and not before the device has released its buffer.
 */

#include <stdlib.h>

#include <rte_common.h>

#include "stub_test.h"

/*
 * A list is refused in the middle (ibv_post_send), or as a whole (ibv_wr_complete): the connection
 * ends, and all its ops come back.
 */
static void
refused(void **state)
{
	struct leat_event *ev;
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 2, 0);

		at = 0;
		sim.hold = true;
		stub_make(s, 0, 14, 0);
		assert_int_equal(stub_post(s, 0, 4), 4);
		sim.room = 5;
		assert_int_equal(stub_post(s, 4, 10), 10);
		sim.room = STUB_NO_LIMIT;
		assert_int_equal(sim.sends, dev == STUB_WR ? 4 : 9);
		ev = stub_event(s, LEAT_EV_DISCONNECTED);
		assert_int_equal(ev->peer, s->peer[0]);
		assert_int_equal(ev->status, -EIO);
		stub_collect(s);
		stub_expect(s, &at, 0, 14, -EIO);
		/* The other peer is not affected. */
		sim.hold = false;
		stub_make(s, 20, 3, 1);
		assert_int_equal(stub_post(s, 20, 3), 3);
		stub_collect(s);
		stub_expect(s, &at, 20, 3, 0);
		/* A send to the peer whose connection has ended fails. */
		stub_make(s, 30, 1, 0);
		assert_int_equal(stub_post(s, 30, 1), 1);
		stub_collect(s);
		stub_expect(s, &at, 30, 1, -ENOTCONN);
		stub_close(s);
	}
}

/* One of many sends fails. Those before it succeeded, though none of them was signaled. */
static void
fails_midway(void **state)
{
	struct leat_event *ev;
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 2, 0);

		at = 0;
		sim.hold = true;
		stub_make(s, 0, 8, 0);
		assert_int_equal(stub_post(s, 0, 8), 8);
		assert_int_equal(stub_complete(stub_qp(s, 0), 2, IBV_WC_SUCCESS), 2);
		assert_int_equal(stub_complete(stub_qp(s, 0), 1, IBV_WC_REM_ACCESS_ERR), 1);
		ev = stub_event(s, LEAT_EV_DISCONNECTED);
		assert_int_equal(ev->status, -ECONNRESET);
		assert_non_null(strstr(ev->text, "IBV_WC_REM_ACCESS_ERR"));
		stub_collect(s);
		stub_expect(s, &at, 0, 2, 0);
		stub_expect(s, &at, 2, 1, -EACCES);
		stub_expect(s, &at, 3, 5, -ECONNRESET);
		assert_int_equal(s->nb_back, 8);
		stub_close(s);
	}
}

/*
 * Completions of two peers, one of which fails, are mixed in one CQ: only ops of that peer fail,
 * and each peer's ops come back in order.
 */
static void
two_peers(void **state)
{
	unsigned int dev, i;
	uint32_t of[2];

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 2, 0);

		sim.hold = true;
		stub_make(s, 0, 20, 0);
		stub_make(s, 100, 20, 1);
		for (i = 0; i < 20; i += 5) {
			assert_int_equal(stub_post(s, i, 5), 5);
			assert_int_equal(stub_post(s, 100 + i, 5), 5);
		}
		for (i = 0; i < 3; i++) {
			assert_int_equal(stub_complete(stub_qp(s, 1), 5, IBV_WC_SUCCESS), 5);
			assert_int_equal(stub_complete(stub_qp(s, 0), 5, IBV_WC_SUCCESS), 5);
		}
		assert_int_equal(stub_complete(stub_qp(s, 0), 2, IBV_WC_RETRY_EXC_ERR), 2);
		assert_int_equal(stub_complete(stub_qp(s, 1), 5, IBV_WC_SUCCESS), 5);
		(void)stub_event(s, LEAT_EV_DISCONNECTED);
		stub_collect(s);
		assert_int_equal(s->nb_back, 40);
		of[0] = of[1] = 0;
		for (i = 0; i < 40; i++) {
			uint32_t nr = (uint32_t)(s->back[i] - s->ops), peer = nr / 100;

			assert_int_equal(nr % 100, of[peer]++);
			assert_int_equal(s->back[i]->status,
					 peer == 0 && nr >= 15 ? -ECONNRESET : 0);
		}
		stub_close(s);
	}
}

/* Completions of a destroyed queue pair, and impossible ones, are ignored. */
static void
lies(void **state)
{
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);
		uint64_t tag = (uint64_t)stub_conn(s, 0)->tag << 32;
		uint32_t qpn = stub_qp(s, 0)->qp_num;
		int id;

		at = 0;
		assert_int_equal(leat_ep_disconnect(s->ep, s->peer[0]), 0);
		(void)stub_event(s, LEAT_EV_DISCONNECTED);
		stub_collect(s); /* the peer's id is free */
		/* Connect until the id comes round and is given out again. */
		do {
			s->nb_ev = 0;
			id = leat_ep_connect(
				s->ep, dev == STUB_WR ? "192.0.2.2:7000" : "192.0.2.2:7001", NULL);
			assert_true(id >= 0);
			(void)stub_event(s, LEAT_EV_CONNECTED);
		} while (id != s->peer[0]);
		sim.hold = true;
		stub_make(s, 0, 4, 0);
		assert_int_equal(stub_post(s, 0, 4), 4);
		/* Completions of the old queue pair's request number 3. */
		stub_completion(s->e->scq, tag | 3, qpn, IBV_WC_SUCCESS);
		stub_completion(s->e->scq, tag | 3, qpn, IBV_WC_RETRY_EXC_ERR);
		/*
		 * Completions of a request that was never posted, of a tag without a connection,
		 * and of the loop queue pair, which does not exist.
		 */
		tag = (uint64_t)stub_conn(s, 0)->tag << 32;
		stub_completion(s->e->scq, tag | 4, stub_qp(s, 0)->qp_num, IBV_WC_SUCCESS);
		stub_completion(s->e->scq, tag | UINT32_MAX, stub_qp(s, 0)->qp_num, IBV_WC_SUCCESS);
		stub_completion(s->e->scq, UINT64_C(0x7ffe) << 32, 1, IBV_WC_SUCCESS);
		stub_completion(s->e->scq, UINT64_MAX, 1, IBV_WC_SUCCESS);
		stub_collect(s);
		assert_int_equal(s->nb_back, 0);
		assert_int_equal(stub_complete(stub_qp(s, 0), 4, IBV_WC_SUCCESS), 4);
		stub_collect(s);
		stub_expect(s, &at, 0, 4, 0);
		stub_close(s);
	}
}

/* The device breaks, or one of its queue pairs: all ops of that device or queue pair come back. */
static void
breaks(void **state)
{
	unsigned int dev;
	uint32_t i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 2, 0);

		sim.hold = true;
		stub_make(s, 0, 3, 0);
		stub_make(s, 10, 3, 1);
		assert_int_equal(stub_post(s, 0, 3), 3);
		assert_int_equal(stub_post(s, 10, 3), 3);
		stub_async(s->e->ctx, IBV_EVENT_QP_FATAL, stub_qp(s, 1));
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->peer, s->peer[1]);
		stub_collect(s);
		assert_int_equal(s->nb_back, 3);
		stub_async(s->e->ctx, IBV_EVENT_DEVICE_FATAL, NULL);
		s->nb_ev = 0;
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->status, -EIO);
		stub_collect(s);
		assert_int_equal(s->nb_back, 6);
		for (i = 0; i < 6; i++)
			assert_int_equal(s->back[i]->status, -EIO);
		stub_close(s);
	}
}

/*
 * A peer's end and its ops in flight have the same status. When the peer disconnects, it is
 * -ECONNRESET if ops are in flight, and 0 if none are. When the device is removed, it is -EIO.
 */
static void
leaves(void **state)
{
	unsigned int dev;
	uint32_t at;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 3, 0);

		at = 0;
		sim.hold = true;
		stub_cm_event(stub_conn(s, 0)->id, RDMA_CM_EVENT_DISCONNECTED, 0);
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->status, 0);
		s->nb_ev = 0;
		stub_make(s, 0, 2, 1);
		assert_int_equal(stub_post(s, 0, 2), 2);
		stub_cm_event(stub_conn(s, 1)->id, RDMA_CM_EVENT_DISCONNECTED, 0);
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->status, -ECONNRESET);
		s->nb_ev = 0;
		stub_make(s, 2, 2, 2);
		assert_int_equal(stub_post(s, 2, 2), 2);
		stub_cm_event(stub_conn(s, 2)->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->status, -EIO);
		stub_collect(s);
		stub_expect(s, &at, 0, 2, -ECONNRESET);
		stub_expect(s, &at, 2, 2, -EIO);
		stub_close(s);
	}
}

static struct stub_ep *closing;

/* Called with each op that comes back while an endpoint closes. */
static void
given_back(struct leat_op *op, void *arg)
{
	uint32_t *n = arg;

	assert_int_equal(op->status, -ESHUTDOWN);
	/* No queue pair is left that could access the op's buffer. */
	assert_int_equal(sim.qps, 0);
	assert_int_equal(sim.srqs, 0);
	assert_ptr_equal(op, &closing->ops[*n]);
	(*n)++;
}

/*
 * The device reports nothing any more: an op comes back when its queue pair is destroyed, not
 * before.
 */
static void
silence(void **state)
{
	unsigned int dev;
	uint32_t n;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		n = 0;
		sim.hold = sim.silent = true;
		stub_make(s, 0, 40, 0);
		assert_int_equal(stub_post(s, 0, 40), 40);
		assert_int_equal(leat_mr_deregister(s->mr), 0);
		closing = s;
		assert_int_equal(leat_ep_close(s->ep, 1000, given_back, &n), -ETIMEDOUT);
		assert_int_equal(n, 40);
		assert_int_equal(sim.cqs + sim.pds + sim.ids, 0);
		free(s);
	}
}

/* The CQs have room for all possible completions, in the worst case: every request fails. */
static void
cqs_full(void **state)
{
	unsigned int dev, i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 4, 64);

		sim.hold = true;
		for (i = 0; i < 4; i++)
			stub_make(s, i * 20, 20, i);
		assert_int_equal(stub_post(s, 0, 80), 64);
		assert_int_equal(rte_errno, EAGAIN);
		for (i = 0; i < 4; i++)
			assert_true(stub_complete(stub_qp(s, i), UINT32_MAX, IBV_WC_RETRY_EXC_ERR) >
				    0);
		assert_int_equal(sim.overruns, 0);
		(void)stub_event(s, LEAT_EV_DISCONNECTED);
		stub_collect(s);
		assert_int_equal(s->nb_back, 64);
		assert_int_equal(leat_ep_inflight(s->ep), 0);
		stub_close(s);
	}
}

/*
 * When the device refuses a list of receives in the middle, the refused receives fail with -EIO. A
 * message that is too long for its receive ends the connection, and all receives come back.
 */
static void
receives(void **state)
{
	unsigned int dev;
	uint32_t i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		stub_make(s, 0, 10, 0);
		for (i = 0; i < 10; i++) {
			s->ops[i].type = LEAT_OP_RECV;
			s->ops[i].peer = LEAT_PEER_ANY;
		}
		sim.rroom = 6;
		assert_int_equal(stub_post(s, 0, 10), 10);
		assert_int_equal(leat_ep_inflight(s->ep), 6);
		/* Five messages of 3 bytes take the first five receives, in order. */
		assert_int_equal(stub_messages(stub_qp(s, 0), 5, 3), 5);
		stub_collect(s);
		assert_int_equal(s->nb_back, 5);
		for (i = 0; i < 5; i++) {
			assert_ptr_equal(s->back[i], &s->ops[i]);
			assert_int_equal(s->ops[i].status, 0);
			assert_int_equal(s->ops[i].len, 3);
			assert_int_equal(s->ops[i].src, s->peer[0]);
		}
		assert_true(stub_message_failed(stub_qp(s, 0), IBV_WC_LOC_LEN_ERR));
		assert_int_equal(stub_event(s, LEAT_EV_DISCONNECTED)->status, -EPROTO);
		stub_collect(s);
		assert_int_equal(s->nb_back, 10);
		assert_int_equal(s->ops[5].status, -EMSGSIZE);
		for (i = 6; i < 10; i++)
			assert_int_equal(s->ops[i].status, -EIO);
		stub_close(s);
	}
}

/* A device that refuses receives and does not say which: none of them was accepted. */
static void
receives_no_bad(void **state)
{
	unsigned int dev;
	uint32_t i;

	(void)state;
	for (dev = 0; dev < STUB_DEVS; dev++) {
		struct stub_ep *s = stub_open(dev, 1, 0);

		stub_make(s, 0, 10, 0);
		for (i = 0; i < 10; i++) {
			s->ops[i].type = LEAT_OP_RECV;
			s->ops[i].peer = LEAT_PEER_ANY;
		}
		sim.rroom = 0;
		sim.no_bad = true;
		assert_int_equal(stub_post(s, 0, 10), 10);
		assert_int_equal(leat_ep_inflight(s->ep), 0);
		stub_collect(s);
		assert_int_equal(s->nb_back, 10);
		for (i = 0; i < 10; i++)
			assert_int_equal(s->ops[i].status, -EIO);
		stub_close(s);
	}
}

/* If the queue pair for an accepted request can't be set up, the event says why. */
static void
accept_fails(void **state)
{
	struct stub_ep *s = stub_open(STUB_WR, 1, 0);
	struct leat_event *ev;
	uint16_t peer;

	(void)state;
	stub_request(s->e->channel);
	peer = stub_event(s, LEAT_EV_CONNECT_REQ)->peer;
	sim.modify_err = ENOSPC;
	assert_int_equal(leat_ep_accept(s->ep, peer, NULL), 0);
	sim.modify_err = 0;
	ev = stub_event(s, LEAT_EV_DISCONNECTED);
	assert_int_equal(ev->peer, peer);
	assert_int_equal(ev->status, -ECONNRESET);
	assert_non_null(strstr(ev->text, "queue pair to INIT: No space left on device"));
	stub_close(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),	cmocka_unit_test(fails_midway),
		cmocka_unit_test(two_peers),	cmocka_unit_test(lies),
		cmocka_unit_test(breaks),	cmocka_unit_test(leaves),
		cmocka_unit_test(silence),	cmocka_unit_test(cqs_full),
		cmocka_unit_test(receives),	cmocka_unit_test(receives_no_bad),
		cmocka_unit_test(accept_fails),
	};

	return cmocka_run_group_tests(tests, stub_start, stub_stop);
}
