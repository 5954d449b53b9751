/* SPDX-License-Identifier: BSD-3-Clause */

/* Peers that stall for a while, and peers that die. */

#include <string.h>

#include "fault_test.h"

#define N 60
#define SIZE 200

static struct leat_op ops[N], others[N];
static char out[N][256], in[N][256];
static struct fault_pair p;

static void
fill(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		memset(out[i], (int)i, SIZE);
		ops[i] = fault_test_send(p.pa, out[i], SIZE);
		others[i] = fault_test_recv(in[i], 256);
		fault_test_post(p.b, &others[i]);
	}
}

static uint16_t
turns(uint32_t n)
{
	struct leat_op *got[N];
	uint16_t seen = 0;

	while (n-- > 0)
		seen = (uint16_t)(seen + fault_pair_turn(&p, got, N));
	return seen;
}

/* While a peer is stalled no message goes to it or comes from it; afterwards all do, in order. */
static void
stall(void **state)
{
	struct leat_op recv, send;
	uint32_t i;

	(void)state;
	fault_pair_open(&p, F_STALL, "s");
	fill();
	fault_test_post(p.a, &ops[0]);
	assert_int_equal(fault_test_stats(p.a)->stalls, 1);
	for (i = 1; i < N; i++)
		fault_test_post(p.a, &ops[i]);
	recv = fault_test_recv(in[0], 256);
	fault_test_post(p.a, &recv);
	send = fault_test_send(p.pb, out[0], 8);
	fault_test_post(p.b, &send);
	assert_int_equal(turns(98), 0);
	assert_int_equal(leat_ep_inflight(p.b), N);
	assert_int_equal(fault_test_stats(p.a)->stalls, 1);
	assert_int_equal(fault_test_stats(p.a)->stalled_ops, N + 1);
	(void)turns(10);
	for (i = 0; i < N; i++) {
		assert_int_equal(ops[i].status, 0);
		assert_int_equal(others[i].state, LEAT_OP_IDLE);
		assert_memory_equal(in[i], out[i], SIZE);
	}
	assert_int_equal(recv.state, LEAT_OP_IDLE);
	assert_int_equal(recv.status, 0);
	assert_int_equal(recv.src, p.pa);
	assert_int_equal(leat_ep_inflight(p.a), 0);
	fault_pair_close(&p);
}

/* An op that waits for a stalled peer can be cancelled, and then never arrives. */
static void
cancel_stalled(void **state)
{
	uint32_t i, arrived = 0;

	(void)state;
	fault_pair_open(&p, F_STALL, "c");
	fill();
	for (i = 0; i < N; i++)
		fault_test_post(p.a, &ops[i]);
	for (i = 0; i < N; i += 2)
		assert_int_equal(leat_op_cancel(p.a, &ops[i]), 0);
	assert_int_equal(turns(1), N / 2);
	for (i = 0; i < N; i += 2)
		assert_int_equal(ops[i].status, -ECANCELED);
	assert_int_equal(turns(120), N / 2);
	for (i = 0; i < N; i++)
		arrived += others[i].state == LEAT_OP_IDLE;
	assert_int_equal(arrived, N / 2);
	for (i = 0; i < N / 2; i++)
		assert_memory_equal(in[i], out[2 * i + 1], SIZE);
	fault_pair_close(&p);
}

/* A stalled peer is disconnected: the ops that waited for it come back. */
static void
disconnect_stalled(void **state)
{
	struct leat_event ev;
	uint32_t i;

	(void)state;
	fault_pair_open(&p, F_STALL, "d");
	fill();
	for (i = 0; i < N; i++)
		fault_test_post(p.a, &ops[i]);
	assert_int_equal(leat_ep_disconnect(p.a, p.pa), 0);
	fault_test_event(&p, p.a, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, -ECONNABORTED);
	assert_int_equal(turns(1), N);
	for (i = 0; i < N; i++)
		assert_int_equal(ops[i].status, -ECONNABORTED);
	fault_test_event(&p, p.b, LEAT_EV_DISCONNECTED, &ev);
	/* The next connection with the same id is not stalled. */
	fault_pair_connect(&p);
	assert_int_equal(leat_ep_peer_state(p.a, p.pa), LEAT_PEER_UP);
	assert_false(fault_of(p.a)->peers[p.pa].stalled);
	fault_pair_close(&p);
}

/*
 * With die=10 the peer is dead after its tenth op, like a killed process; so is the peer of each
 * new connection after its tenth op.
 */
static void
dies(void **state)
{
	struct leat_event ev;
	uint32_t round, i, ok;

	(void)state;
	fault_pair_open(&p, F_DIE, "x");
	for (round = 1; round <= 3; round++) {
		fill();
		for (i = 0; i < N; i++)
			fault_test_post(p.a, &ops[i]);
		assert_int_equal(fault_test_stats(p.a)->deaths, round);
		assert_int_not_equal(leat_ep_peer_state(p.a, p.pa), LEAT_PEER_UP);
		fault_test_event(&p, p.a, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(ev.status, -ECONNRESET);
		assert_non_null(strstr(ev.text, "dead after 10 ops"));
		assert_non_null(strstr(ev.text, F_DIE ",seed=99"));
		assert_int_equal(turns(1), N);
		for (i = 0, ok = 0; i < N; i++) {
			ok += ops[i].status == 0;
			if (i < 10)
				assert_true(ops[i].status == 0 || ops[i].status == -ECONNRESET);
			else
				assert_int_equal(ops[i].status, -ENOTCONN);
		}
		assert_in_range(ok, 0, 10);
		fault_test_event(&p, p.b, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(leat_ep_shutdown(p.b, 0), 0);
		while (leat_ep_poll(p.b, (struct leat_op *[32]){ NULL }, 32) > 0)
			;
		(void)leat_ep_close(p.b, 0, NULL, NULL);
		p.b = leat_ep_create(leat_dev_by_name("fabric_ring0"), NULL);
		assert_non_null(p.b);
		assert_int_equal(leat_ep_listen(p.b, p.addr), 0);
		fault_pair_connect(&p);
	}
	fault_pair_close(&p);
}

/*
 * The peer dies with the 40th op, when 39 messages have arrived and their completions are delayed.
 * About half of these 39 sends fail, as if their acks were lost.
 */
static void
lost_acknowledgements(void **state)
{
	struct leat_event ev;
	uint32_t i, arrived = 0, ok = 0;

	(void)state;
	fault_pair_open(&p, F_DIE_LATE, "y");
	fill();
	for (i = 0; i < 39; i++)
		fault_test_post(p.a, &ops[i]);
	/* ops[0 .. 38] have arrived, and their completions are delayed */
	assert_int_equal(turns(20), 0);
	fault_test_post(p.a, &ops[39]);
	fault_test_event(&p, p.a, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, -ECONNRESET);
	assert_int_equal(turns(1), 40);
	for (i = 0; i < 40; i++) {
		arrived += others[i].state == LEAT_OP_IDLE;
		ok += ops[i].status == 0;
		assert_true(ops[i].status == 0 || ops[i].status == -ECONNRESET);
	}
	assert_true(arrived >= 39);
	assert_in_range(ok, 8, 31);
	assert_int_equal(fault_test_stats(p.a)->lost_acks, 39 - ok);
	assert_int_equal(fault_test_stats(p.a)->deaths, 1);
	fault_pair_close(&p);
}

#define CASE(f) cmocka_unit_test_setup(f, fault_test_clock)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(stall), CASE(cancel_stalled),	  CASE(disconnect_stalled),
		CASE(dies),  CASE(lost_acknowledgements),
	};

	return cmocka_run_group_tests(tests, fault_test_start, fault_test_stop);
}
