/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receives that are cancelled on an SRQ, against a model: the SRQ is a FIFO. Messages of several
 * peers take their receive when they begin, and complete later. Messages of the loop queue pair
 * (verbs_rc_rx.c) take a receive out, or find the SRQ empty. Whatever happens in between,
 *
 *     - each receive comes back once, and each message with one receive, whole;
 *     - of two messages of a peer the earlier one has the receive that was posted earlier.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include <leat_cmocka.h>

#include "rc/verbs_rc.h"

#define DEPTH 24
#define PEERS 3
#define OPS 4000
#define LOOP_QPN 99
#define QPN 100

static struct leat_ep ep;
static struct leat_dev *no_dev;
static struct vb_dev dev;
static struct vb_ep e;
static struct leat_op ops[OPS];
static uint64_t bufs[OPS];
static struct leat_mr *mr;

/* The model: the SRQ as a FIFO, and the number of sends of the loop queue pair. */
static uint32_t fifo[DEPTH + 1], nb_fifo;
static uint32_t loop_sends;

/* The message that each peer has in flight. */
static struct {
	bool busy;
	uint32_t slot;
	uint64_t next; /* number of the message */
} from[PEERS];

/* Results of the receives that completed. */
static struct {
	bool done;
	int status;
	uint16_t src;
	uint64_t msg;
} seen[OPS];
static uint32_t nb_posted, nb_seen;
static struct leat_op *out[2 * DEPTH];

int
vb_loop_open(struct vb_ep *ve)
{
	if (ve->loop.state == VB_LOOP_NONE) {
		ve->loop.state = VB_LOOP_READY;
		ve->loop.rx = (struct ibv_qp *)(uintptr_t)1; /* only compared with NULL */
		ve->loop.rx_qpn = LOOP_QPN;
	}
	return 0;
}

void
vb_loop_send(struct vb_ep *ve, uint32_t n)
{
	ve->loop.untaken += n;
	ve->loop.mark = ve->posts;
	loop_sends += n;
}

uint16_t
vb_qpn_find(const struct vb_ep *ve, uint32_t qpn)
{
	(void)ve;
	return (uint16_t)(qpn - QPN);
}

void
vb_conn_failed(struct vb_conn *c, const struct ibv_wc *wc, bool recv)
{
	(void)c;
	(void)wc;
	(void)recv;
}

/* Functions of endpoints without an SRQ: the driver must not call them here. */
void
vb_rxq_done(struct vb_ep *ve, const struct ibv_wc *wc)
{
	(void)ve;
	(void)wc;
	fail_msg("this endpoint has an SRQ");
}

void
vb_rxq_match(struct vb_ep *ve)
{
	(void)ve;
	fail_msg("this endpoint has an SRQ");
}

static int
post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)bad;
	for (; wr != NULL; wr = wr->next) {
		assert_true(nb_fifo < DEPTH);
		fifo[nb_fifo++] = (uint32_t)wr->wr_id;
	}
	return 0;
}

static uint32_t
fifo_pop(void)
{
	uint32_t s = fifo[0];

	nb_fifo--;
	memmove(&fifo[0], &fifo[1], nb_fifo * sizeof(fifo[0]));
	return s;
}

static void
collect(void)
{
	struct leat_op **p;

	vb_rx_step(&e);
	for (p = out; p < ep.out; p++) {
		uint32_t i = (uint32_t)(*p - ops);

		assert_false(seen[i].done);
		seen[i].done = true;
		seen[i].status = (*p)->status;
		seen[i].src = (*p)->src;
		seen[i].msg = bufs[i];
		nb_seen++;
	}
	ep.out = out;
}

static void
post(uint32_t n)
{
	struct leat_op *list[DEPTH];
	uint32_t k = 0;

	for (; n > 0 && k < ep.rx_room && nb_posted < OPS; n--) {
		struct leat_op *op = &ops[nb_posted];

		*op = (struct leat_op){ .type = LEAT_OP_RECV,
					.peer = LEAT_PEER_ANY,
					.queue = LEAT_QUEUE_NONE,
					.buf = &bufs[nb_posted],
					.size = sizeof(bufs[0]),
					.mr = mr };
		nb_posted++;
		list[k++] = op;
	}
	if (k > 0)
		assert_int_equal(vb_rx_post(&e, list, k), k);
}

static void
begin(uint32_t p)
{
	if (from[p].busy || nb_fifo == 0)
		return;
	from[p].busy = true;
	from[p].slot = fifo_pop();
}

static void
complete(uint32_t p)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8, .qp_num = QPN + p };

	if (!from[p].busy)
		return;
	from[p].busy = false;
	wc.wr_id = from[p].slot;
	*(uint64_t *)e.slots[from[p].slot].op->buf = from[p].next++;
	vb_rx_done(&e, &wc, 1);
}

static void
loop(void)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .qp_num = LOOP_QPN };

	if (loop_sends == 0)
		return;
	if (nb_fifo > 0) {
		loop_sends--;
		wc.wr_id = fifo_pop();
		vb_rx_done(&e, &wc, 1);
		return;
	}
	/* The loop queue pair fails, and is created again. */
	e.loop.untaken -= loop_sends;
	loop_sends = 0;
	if (e.posts == e.loop.mark)
		vb_rx_refill(&e);
}

static void
cancel(uint32_t i)
{
	if (ops[i].state != LEAT_OP_INFLIGHT)
		return;
	ops[i].state = LEAT_OP_CANCEL;
	assert_int_equal(vb_rx_cancel(&e, &ops[i]), 0);
}

static void
setup_model(void)
{
	static struct ibv_context ctx;
	static struct ibv_srq srq;
	uint32_t i;

	memset(&ep, 0, sizeof(ep));
	memset(&e, 0, sizeof(e));
	memset(seen, 0, sizeof(seen));
	memset(from, 0, sizeof(from));
	memset(ops, 0, sizeof(ops));
	nb_posted = nb_seen = nb_fifo = loop_sends = 0;
	ctx.ops.post_srq_recv = post_srq_recv;
	srq.context = &ctx;
	ep.drv = &e;
	ep.dev = no_dev;
	ep.rx_room = DEPTH;
	ep.max_msg = 1 << 20;
	ep.op_mask = LEAT_OP_BIT(LEAT_OP_RECV);
	ep.out = out;
	ep.out_end = &out[RTE_DIM(out)];
	e.ep = &ep;
	e.dev = &dev;
	e.srq = &srq;
	e.rx_depth = DEPTH;
	e.sw_mask = 31;
	e.nb_qps = PEERS;
	e.slots = calloc(DEPTH, sizeof(*e.slots));
	e.free = calloc(DEPTH, sizeof(*e.free));
	e.sw_queue = calloc(32, sizeof(*e.sw_queue));
	mr = calloc(1, sizeof(*mr) + sizeof(mr->piece[0]));
	assert_true(e.slots != NULL && e.free != NULL && e.sw_queue != NULL && mr != NULL);
	for (i = 0; i < DEPTH; i++)
		e.free[e.nb_free++] = i;
	mr->nb_pieces = 1;
	mr->piece[0].addr = bufs;
	mr->piece[0].len = sizeof(bufs);
}

static void
drop_model(void)
{
	free(e.slots);
	free(e.free);
	free(e.sw_queue);
	free(mr);
}

static void
check(void)
{
	uint64_t next[PEERS] = { 0 };
	uint32_t i;

	for (i = 0; i < nb_posted; i++) {
		assert_true(seen[i].done);
		if (seen[i].status == -ECANCELED)
			continue;
		assert_int_equal(seen[i].status, 0);
		assert_in_range(seen[i].src, 0, PEERS - 1);
		assert_int_equal(seen[i].msg, next[seen[i].src]);
		next[seen[i].src]++;
	}
	for (i = 0; i < PEERS; i++)
		assert_int_equal(next[i], from[i].next);
}

/* Cancel the receives one by one, or as a quiesce does. */
static void
end_all(void)
{
	uint32_t i, k;

	for (i = 0; i < PEERS; i++)
		complete(i);
	collect();
	if (nb_posted % 2 != 0)
		vb_rx_cancel_all(&e);
	for (i = 0; i < nb_posted && nb_posted % 2 == 0; i++)
		cancel(i);
	for (k = 0; k < 1000 && nb_seen < nb_posted; k++) {
		loop();
		collect();
	}
	assert_int_equal(nb_seen, nb_posted);
	assert_int_equal(ep.rx_room, DEPTH);
	assert_int_equal(e.nb_cancel, 0);
	assert_int_equal(e.rx_posted, 0);
	check();
}

static uint32_t
below(uint64_t *rnd, uint32_t n)
{
	return (uint32_t)(test_random(rnd) >> 32) % n;
}

static void
random_walk(unsigned int seed, unsigned int steps, unsigned int cancels)
{
	uint64_t rnd = seed + 1;
	unsigned int i;

	setup_model();
	for (i = 0; i < steps; i++) {
		unsigned int r = below(&rnd, 100);
		uint32_t p = below(&rnd, PEERS);

		if (r < 20)
			post(1 + below(&rnd, 6));
		else if (r < 20 + cancels && nb_posted > 0)
			cancel(nb_posted - 1 - below(&rnd, RTE_MIN(nb_posted, 30u)));
		else if (r < 60)
			begin(p);
		else if (r < 80)
			complete(p);
		else
			loop();
		collect();
	}
	end_all();
	drop_model();
}

static void
walks(void **state)
{
	unsigned int seed;

	(void)state;
	for (seed = 0; seed < 300; seed++)
		random_walk(seed, 1500, seed % 20);
}

/* The example drawn in verbs_rc_rx.c: receive 1, posted after receive 0, is cancelled. */
static void
picture(void **state)
{
	(void)state;
	setup_model();
	post(4);
	cancel(1);
	collect();
	loop(); /* takes receive 0 */
	loop(); /* takes receive 1, which is cancelled */
	collect();
	assert_true(seen[1].done);
	assert_int_equal(seen[1].status, -ECANCELED);
	begin(0); /* takes receive 2 of the SRQ, but the message is delivered to receive 0 */
	complete(0);
	collect();
	assert_true(seen[0].done);
	assert_int_equal(seen[0].status, 0);
	assert_false(seen[2].done);
	while (loop_sends > 0) {
		loop();
		collect();
	}
	assert_false(e.drain);
	begin(0);
	complete(0);
	collect();
	assert_true(seen[2].done);
	assert_false(seen[3].done);
	end_all();
	drop_model();
}

/*
 * The message of peer 0 still uses a receive when the loop queue pair finds the SRQ empty. The
 * receive that was not cancelled then takes the message of peer 1.
 */
static void
in_use(void **state)
{
	(void)state;
	setup_model();
	post(3);
	begin(0); /* takes receive 0, and completes late */
	cancel(1);
	collect();
	while (loop_sends > 0) {
		loop();
		collect();
	}
	assert_true(seen[1].done);
	post(1);
	collect();
	assert_true(nb_fifo > 0);
	begin(1);
	complete(1);
	collect();
	assert_true(seen[2].done);
	assert_int_equal(seen[2].src, 1);
	end_all();
	drop_model();
}

/* A receive that a destroyed queue pair had taken can still be cancelled, and comes back. */
static void
lost(void **state)
{
	(void)state;
	setup_model();
	post(3);
	begin(0);
	from[0].busy = false; /* the queue pair is destroyed without a completion of receive 0 */
	e.nb_qps = 0;
	cancel(0);
	collect();
	while (loop_sends > 0 || !seen[0].done) {
		loop();
		collect();
	}
	assert_int_equal(seen[0].status, -ECANCELED);
	e.nb_qps = 1;
	begin(1);
	complete(1);
	collect();
	assert_true(seen[1].done);
	assert_int_equal(seen[1].status, 0);
	end_all();
	drop_model();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(picture),
		cmocka_unit_test(in_use),
		cmocka_unit_test(lost),
		cmocka_unit_test(walks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
