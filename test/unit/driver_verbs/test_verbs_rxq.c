/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints without an SRQ, against a model: each queue pair is a FIFO of buffers, and a message
 * arrives only if its peer's FIFO holds one. Also the credits of iWARP connections.
 *
 *     - each message completes one receive, and the messages of a peer come in order;
 *     - a peer never has more than its buffers: in its queue pair, holding a message that waits for
 *       a receive, or about to be posted again;
 *     - a peer that has used up its buffers keeps no other peer from sending.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_malloc.h>

#include <leat_cmocka.h>

#include "iwarp/verbs_iwarp.h"
#include "rc/verbs_rc.h"

#define DEPTH 16
#define PEERS 3
#define BUFS 8
#define SIZE 64
#define OPS 20000
#define QPN 100

static struct leat_ep ep;
static struct leat_dev *no_dev;
static struct vb_dev dev;
static struct vb_ep e;
static struct leat_op ops[OPS], *out[DEPTH];
static uint64_t bufs[OPS];
static struct leat_mr *mr;
static struct vb_conn conns[PEERS], *table[PEERS];
static struct ibv_qp qps[PEERS];
static struct ibv_context ctx;

/* The buffers in each queue pair, oldest first; refused counts the sends that found none. */
static struct {
	uint64_t wr_id[BUFS];
	void *addr[BUFS];
	uint32_t n;
	uint64_t next;
	uint32_t refused;
} hw[PEERS];

static uint32_t nb_posted, nb_done, regions;
static uint64_t seen[PEERS];
static uint64_t told, wr_credit; /* value and wr_id of the last WRITE of credits */
static bool long_ok;

void
vb_conn_end(struct vb_conn *c, int status, const char *text)
{
	(void)text;
	(void)status;
	c->state = VB_ENDING;
}

void
vb_conn_failed(struct vb_conn *c, const struct ibv_wc *wc, bool recv)
{
	(void)recv;
	vb_conn_end(c, vb_wc_end_status(wc->status, true), "");
}

int
vb_loop_open(struct vb_ep *ve)
{
	(void)ve;
	fail_msg("there is no SRQ to take receives back from");
	return -EOPNOTSUPP;
}

void
vb_loop_send(struct vb_ep *ve, uint32_t n)
{
	(void)n;
	(void)vb_loop_open(ve);
}

uint16_t
vb_qpn_find(const struct vb_ep *ve, uint32_t qpn)
{
	(void)ve;
	return (uint16_t)(qpn - QPN);
}

#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	static struct ibv_mr reg[2 * PEERS + 1];

	(void)pd;
	(void)access;
	assert_true(regions < RTE_DIM(reg));
	reg[regions] = (struct ibv_mr){ .addr = addr, .length = len, .rkey = 7 + regions };
	return &reg[regions++];
}

int
ibv_dereg_mr(struct ibv_mr *m)
{
	(void)m;
	regions--;
	return 0;
}

/* Replaces DPDK's allocator: EAL does not run here. */
void *
rte_malloc_socket(const char *type, size_t size, unsigned int align, int socket)
{
	(void)type;
	(void)socket;
	return aligned_alloc(align, RTE_ALIGN_CEIL(size, align));
}

void
rte_free(void *p)
{
	free(p);
}

static int
post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t p = (uint32_t)(qp - qps);

	(void)bad;
	for (; wr != NULL; wr = wr->next) {
		assert_true(hw[p].n < BUFS);
		assert_int_equal(wr->sg_list->length, SIZE);
		hw[p].wr_id[hw[p].n] = wr->wr_id;
		hw[p].addr[hw[p].n++] = (void *)(uintptr_t)wr->sg_list->addr;
	}
	return 0;
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE);
	told = *(uint32_t *)(uintptr_t)wr->sg_list->addr;
	wr_credit = wr->wr_id;
	return 0;
}

static void
setup_model(bool iwarp)
{
	uint32_t i;

	memset(&ep, 0, sizeof(ep));
	memset(&e, 0, sizeof(e));
	memset(&dev, 0, sizeof(dev));
	memset(conns, 0, sizeof(conns));
	memset(hw, 0, sizeof(hw));
	memset(ops, 0, sizeof(ops));
	memset(seen, 0, sizeof(seen));
	nb_posted = nb_done = regions = 0;
	ctx.ops.post_recv = post_recv;
	ctx.ops.post_send = post_send;
	if (iwarp)
		dev.rules = vb_iwarp_rules;
	dev.args.rxbuf = SIZE;
	dev.args.rxbufs = BUFS;
	ep.drv = &e;
	ep.dev = no_dev;
	ep.rx_room = DEPTH;
	ep.max_msg = SIZE;
	ep.op_mask = LEAT_OP_BIT(LEAT_OP_RECV);
	ep.out = out;
	ep.out_end = &out[RTE_DIM(out)];
	e.ep = &ep;
	e.dev = &dev;
	e.rx_depth = DEPTH;
	e.sw_mask = DEPTH - 1;
	e.conns = table;
	e.nb_peers = PEERS;
	e.slots = calloc(DEPTH, sizeof(*e.slots));
	e.free = calloc(DEPTH, sizeof(*e.free));
	e.sw_queue = calloc(DEPTH, sizeof(*e.sw_queue));
	mr = calloc(1, sizeof(*mr) + sizeof(mr->piece[0]));
	assert_true(e.slots != NULL && e.free != NULL && e.sw_queue != NULL && mr != NULL);
	for (i = 0; i < DEPTH; i++)
		e.free[e.nb_free++] = i;
	mr->nb_pieces = 1;
	mr->piece[0].addr = bufs;
	mr->piece[0].len = sizeof(bufs);
	assert_int_equal(vb_rxqs_open(&e), 0);
	for (i = 0; i < PEERS; i++) {
		struct vb_conn *c = &conns[i];

		table[i] = c;
		c->e = &e;
		c->index = (uint16_t)i;
		c->state = VB_UP;
		c->qp = &qps[i];
		c->qp->context = &ctx;
		c->qpn = QPN + i;
		c->tag = 5 << 16 | i;
		assert_int_equal(vb_rxq_open(&e, c), 0);
		assert_int_equal(vb_rxq_start(&e, c), 0);
		assert_int_equal(hw[i].n, BUFS);
	}
}

/*
 * Count the ops that came back, and check that each peer's messages come in the order of arrival.
 */
static void
collect(void)
{
	struct leat_op **p;

	for (p = out; p < ep.out; p++) {
		const struct leat_op *op = *p;

		nb_done++;
		if (op->status == -ECANCELED || (long_ok && op->status == -EMSGSIZE))
			continue;
		assert_int_equal(op->status, 0);
		assert_in_range(op->src, 0, PEERS - 1);
		assert_int_equal(bufs[op - ops], seen[op->src]);
		seen[op->src]++;
	}
	ep.out = out;
}

static void
drop_model(void)
{
	uint32_t i;

	for (i = 0; i < PEERS; i++)
		vb_rxq_close(&e, &conns[i]);
	assert_int_equal(e.rx_posted, 0);
	assert_true(TAILQ_EMPTY(&e.rxqs->arrived));
	vb_rx_drop(&e, -ECANCELED);
	collect();
	assert_int_equal(nb_done, nb_posted);
	vb_rxqs_close(&e);
	assert_int_equal(regions, 0);
	free(e.slots);
	free(e.free);
	free(e.sw_queue);
	free(mr);
}

static void
post(uint32_t n)
{
	for (; n > 0 && ep.rx_room > 0 && nb_posted < OPS; n--) {
		struct leat_op *op = &ops[nb_posted];

		*op = (struct leat_op){ .type = LEAT_OP_RECV,
					.peer = LEAT_PEER_ANY,
					.buf = &bufs[nb_posted++],
					.size = sizeof(bufs[0]),
					.mr = mr };
		assert_int_equal(vb_rx_post(&e, &op, 1), 1);
		collect();
	}
}

static void
arrive(uint32_t p, uint32_t len)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = len, .qp_num = QPN + p };

	if (hw[p].n == 0) {
		hw[p].refused++;
		return;
	}
	wc.wr_id = hw[p].wr_id[0];
	memcpy(hw[p].addr[0], &hw[p].next, sizeof(hw[p].next));
	hw[p].next++;
	hw[p].n--;
	memmove(&hw[p].wr_id[0], &hw[p].wr_id[1], hw[p].n * sizeof(hw[p].wr_id[0]));
	memmove(&hw[p].addr[0], &hw[p].addr[1], hw[p].n * sizeof(hw[p].addr[0]));
	vb_rx_done(&e, &wc, 1);
	collect();
}

static uint32_t
below(uint64_t *rnd, uint32_t n)
{
	return (uint32_t)(test_random(rnd) >> 32) % n;
}

static void
any_order(void **state)
{
	uint64_t rnd = 1, sent = 0, got = 0;
	unsigned int i;

	(void)state;
	setup_model(false);
	for (i = 0; i < 30000; i++) {
		uint32_t r = below(&rnd, 100);

		/*
		 * By turns, for 1,000 steps each: more messages than receives, then more receives.
		 */
		if (r < (i / 1000 % 2 == 0 ? 10 : 45))
			post(1 + below(&rnd, 4));
		else if (r < 95)
			arrive(below(&rnd, PEERS), 8);
		else if (nb_posted > 0 && ops[nb_posted - 1].state == LEAT_OP_INFLIGHT)
			assert_int_equal(vb_rx_cancel(&e, &ops[nb_posted - 1]), 0);
		collect();
	}
	while (nb_posted < OPS && !TAILQ_EMPTY(&e.rxqs->arrived))
		post(1);
	for (i = 0; i < PEERS; i++) {
		sent += hw[i].next;
		got += seen[i];
		assert_true(hw[i].refused > 0);
	}
	assert_int_equal(got, sent);
	assert_true(sent > 1000);
	drop_model();
}

static void
bounded(void **state)
{
	uint32_t i;

	(void)state;
	setup_model(false);
	for (i = 0; i < 100; i++)
		arrive(0, 8);
	assert_int_equal(hw[0].next, BUFS);
	assert_int_equal(hw[0].refused, 100 - BUFS);
	arrive(1, 8);
	assert_int_equal(hw[1].next, 1);
	assert_int_equal(e.rx_posted, 2 * BUFS - 1);
	/* When a peer ends, its waiting messages are dropped, and no other peer's. */
	vb_rxq_close(&e, &conns[0]);
	post(2);
	assert_int_equal(seen[0], 0);
	assert_int_equal(seen[1], 1);
	assert_int_equal(vb_rxq_open(&e, &conns[0]), 0);
	drop_model();
}

static void
too_long(void **state)
{
	(void)state;
	setup_model(false);
	post(1);
	long_ok = true;
	arrive(0, SIZE);
	long_ok = false;
	assert_int_equal(ops[0].status, -EMSGSIZE);
	assert_int_equal(conns[0].state, VB_UP);
	assert_int_equal(hw[0].n, BUFS - 1);
	drop_model();
}

/* A completion is ignored if its tag is not that of a connection, or it names no buffer. */
static void
foreign(void **state)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8 };

	(void)state;
	setup_model(false);
	post(1);
	wc.qp_num = QPN;
	vb_rx_done(&e, &wc, 1); /* a completion of another queue pair of peer 0 */
	wc.wr_id = UINT64_C(77) << 32;
	vb_rx_done(&e, &wc, 1);
	wc.wr_id = (uint64_t)conns[0].tag << 32 | BUFS;
	vb_rx_done(&e, &wc, 1);
	assert_int_equal(e.rx_posted, PEERS * BUFS);
	assert_int_equal(ops[0].state, LEAT_OP_INFLIGHT);
	drop_model();
}

static void
credits(void **state)
{
	struct vb_hello h = { .there = true, .buffers = 3, .addr = 0x1000, .rkey = 5 };
	struct ibv_wc wc = { .qp_num = QPN };
	uint32_t i;

	(void)state;
	setup_model(true);
	/* Credits are not used with a peer that is not leat: sends to it are not limited. */
	assert_true(vb_credit_take(&conns[1]));
	vb_credit_start(&conns[0], &h);
	for (i = 0; i < 3; i++)
		assert_true(vb_credit_take(&conns[0]));
	assert_false(vb_credit_take(&conns[0]));
	assert_true(e.starved);

	/* Credits are granted for a quarter of the buffers at a time, one WRITE after the other. */
	told = 0;
	post(DEPTH);
	arrive(0, 8);
	assert_int_equal(told, 0);
	arrive(0, 8);
	assert_int_equal(told, BUFS + 2);
	assert_int_equal(e.grants, 1);
	arrive(0, 8);
	arrive(0, 8);
	assert_int_equal(told, BUFS + 2);
	vb_credit_done(&e, &wc); /* the completion of another WRITE */
	assert_int_equal(told, BUFS + 2);
	wc.wr_id = wr_credit;
	vb_credit_done(&e, &wc);
	assert_int_equal(told, BUFS + 4);
	vb_credit_done(&e, &wc);
	assert_int_equal(e.grants, 0);
	vb_credit_done(&e, &wc); /* no WRITE is in flight */
	assert_int_equal(e.grants, 0);
	drop_model();
}

static void
hello(void **state)
{
	static const uint8_t want[16] = { 'l', 'e', 'a', 't', 0, 1, 0, BUFS };
	uint8_t buf[VB_HELLO + 1] = { 0 };
	struct vb_hello h;

	(void)state;
	setup_model(true);
	vb_hello_write(&conns[0], buf);
	assert_memory_equal(buf, want, 8);
	assert_int_equal(vb_hello_read(&h, buf, sizeof(buf)), VB_HELLO);
	assert_true(h.there);
	assert_int_equal(h.buffers, BUFS);
	assert_true(h.addr != 0 && h.rkey != 0);
	/* Data that are too short, or have a different magic or version, are not a hello. */
	assert_int_equal(vb_hello_read(&h, buf, VB_HELLO - 1), 0);
	assert_false(h.there);
	assert_int_equal(vb_hello_read(&h, buf, 0), 0);
	buf[0] ^= 1;
	assert_int_equal(vb_hello_read(&h, buf, VB_HELLO), 0);
	buf[0] ^= 1;
	buf[5] = 2;
	assert_int_equal(vb_hello_read(&h, buf, VB_HELLO), 0);
	vb_hello_no(buf);
	assert_int_equal(vb_hello_read(&h, buf, VB_HELLO), VB_HELLO);
	assert_int_equal(h.buffers, 0);
	drop_model();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order), cmocka_unit_test(bounded), cmocka_unit_test(too_long),
		cmocka_unit_test(foreign),   cmocka_unit_test(credits), cmocka_unit_test(hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
