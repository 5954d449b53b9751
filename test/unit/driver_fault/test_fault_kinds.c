/* SPDX-License-Identifier: BSD-3-Clause */

/* Each kind of fault by itself: that it happens, is counted, and breaks no guarantee of the API. */

#include <string.h>
#include <unistd.h>

#include "../telemetry_client.h"
#include "fault_test.h"

#define N 100
#define SIZE 200 /* too large to complete inside leat_ep_post() */

static struct leat_op ops[N], others[N];
static char out[N][256], in[N][256];
static struct fault_pair p;

/* Prepare N sends of endpoint a in ops[], with different data; post receives for them at b. */
static void
fill(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		memset(out[i], (int)i, SIZE);
		memset(in[i], 0xff, sizeof(in[i]));
		ops[i] = fault_test_send(p.pa, out[i], SIZE);
		others[i] = fault_test_recv(in[i], 256);
		fault_test_post(p.b, &others[i]);
	}
}

/* Prepare N receives of endpoint a in ops[], and in others[] the sends of endpoint b to them. */
static void
fill_recv(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		memset(out[i], (int)i, SIZE);
		memset(in[i], 0xff, sizeof(in[i]));
		ops[i] = fault_test_recv(in[i], 256);
		others[i] = fault_test_send(p.pb, out[i], SIZE);
	}
}

/*
 * Wait for n ops posted together.
 * @return number of turns + 1
 */
static uint32_t
collect(uint32_t *order, uint32_t n)
{
	struct leat_op *got[8];
	uint32_t turn, seen = 0;
	uint16_t i, c;

	for (turn = 1; seen < n && turn < 10000; turn++) {
		c = fault_pair_turn(&p, got, RTE_DIM(got));
		for (i = 0; i < c; i++)
			order[seen++] = (uint32_t)(got[i] - ops);
	}
	assert_int_equal(seen, n);
	return turn;
}

static void
post_all(void)
{
	uint32_t i;

	for (i = 0; i < N; i++)
		fault_test_post(p.a, &ops[i]);
}

/* With reorder=4 no op is overtaken by more than 4 others; each queue keeps its order. */
static void
reorder(void **state)
{
	uint32_t order[N], i, k, passed = 0;

	(void)state;
	fault_pair_open(&p, F_REORDER, "r");
	fill_recv();
	post_all();
	for (i = 0; i < N; i++)
		fault_test_post(p.b, &others[i]);
	collect(order, N);
	for (i = 0; i < N; i++) {
		uint32_t younger = 0;

		for (k = 0; k < i; k++)
			younger += order[k] > order[i];
		assert_in_range(younger, 0, 4);
		passed += younger > 0;
		/* Each op has its own message. */
		assert_int_equal(ops[i].status, 0);
		assert_int_equal(ops[i].len, SIZE);
		assert_memory_equal(in[i], out[i], SIZE);
		assert_int_equal(ops[i].src, p.pa);
	}
	assert_true(passed > N / 4);
	assert_int_equal(fault_test_stats(p.a)->reordered, passed);

	/* When the ops are posted to a queue instead, the ordering layer restores their order. */
	while (leat_ep_poll(p.b, (struct leat_op *[32]){ NULL }, 32) > 0)
		;
	fill();
	for (i = 0; i < N; i++)
		ops[i].queue = NULL;
	post_all();
	collect(order, N);
	for (i = 0; i < N; i++)
		assert_int_equal(order[i], i);
	fault_pair_close(&p);
}

/* A single op is not held back until another one passes it. */
static void
reorder_alone(void **state)
{
	uint32_t order[1], i;

	(void)state;
	fault_pair_open(&p, F_REORDER, "alone");
	for (i = 0; i < 30; i++) {
		fill_recv();
		fault_test_post(p.a, &ops[0]);
		fault_test_post(p.b, &others[0]);
		assert_in_range(collect(order, 1), 1, 10);
		while (leat_ep_poll(p.b, (struct leat_op *[32]){ NULL }, 32) > 0)
			;
	}
	fault_pair_close(&p);
}

/*
 * A delayed op completes when its delay is over, not earlier and not later, and never while the
 * clock stands still.
 */
static void
delay(void **state)
{
	struct leat_op *got[1];
	uint32_t i, late[21] = { 0 };
	uint64_t since;

	(void)state;
	fault_pair_open(&p, F_DELAY, "d");
	fill();
	for (i = 0; i < N; i++) {
		uint32_t turn;

		fault_test_post(p.a, &ops[i]);
		(void)leat_ep_poll(p.b, got, 1);
		since = test_clock;
		for (turn = 0; turn < 100; turn++)
			assert_int_equal(leat_ep_poll(p.a, got, 1), 0);
		assert_int_equal(fault_test_stats(p.a)->delayed, i + 1);
		while (leat_ep_poll(p.a, got, 1) == 0)
			test_clock += US / 10;
		since = (test_clock - since + US / 2) / US;
		assert_in_range(since, 10, 20);
		late[since]++;
		assert_int_equal(ops[i].status, 0);
	}
	for (i = 10; i <= 20; i++)
		assert_true(late[i] > 0);
	fault_pair_close(&p);
}

/*
 * Of two fault devices, one over the other, both take effect: the lower one delays, the upper one
 * reorders.
 */
static void
twice(void **state)
{
	uint32_t order[N], i, moved = 0;

	(void)state;
	fault_pair_open(&p, F_TWICE, "t");
	fill();
	post_all();
	assert_true(collect(order, N) >= 10);
	for (i = 0; i < N; i++)
		moved += order[i] != i;
	assert_true(moved > 0);
	assert_int_equal(fault_test_stats(p.a)->delayed, 0);
	assert_int_equal(fault_test_stats(fault_of(p.a)->low)->delayed, N);
	fault_pair_close(&p);
}

static uint32_t
post_until_taken(void)
{
	uint32_t i, refused = 0;

	for (i = 0; i < N; i++) {
		struct leat_op *op = &ops[i], before = *op;

		while (leat_ep_post(p.a, &op, 1) == 0) {
			assert_int_equal(rte_errno, EAGAIN);
			assert_memory_equal(op, &before, sizeof(before));
			refused++;
		}
	}
	return refused;
}

static void
refuse(void **state)
{
	struct leat_op recv = fault_test_recv(in[0], 1);
	uint32_t order[N], n, i;

	(void)state;
	fault_pair_open(&p, F_REFUSE, "r");
	fill();
	n = post_until_taken();
	assert_in_range(n, N / 2, 2 * N);
	assert_int_equal(fault_test_stats(p.a)->refused, n);
	collect(order, N);
	for (i = 0; i < N; i++)
		assert_int_equal(ops[i].status, 0);
	/* Receives are never refused. */
	for (i = 0; i < N; i++) {
		fault_test_post(p.a, &recv);
		assert_int_equal(leat_op_cancel(p.a, &recv), 0);
		while (leat_ep_poll(p.a, (struct leat_op *[1]){ NULL }, 1) == 0)
			;
	}
	assert_int_equal(fault_test_stats(p.a)->refused_recv, 0);
	fault_pair_close(&p);
}

static void
refuse_recv(void **state)
{
	uint32_t order[N], n, i;

	(void)state;
	fault_pair_open(&p, F_REFUSE_RECV, "r");
	fill_recv();
	n = post_until_taken();
	assert_in_range(n, N / 2, 2 * N);
	assert_int_equal(fault_test_stats(p.a)->refused_recv, n);
	assert_int_equal(fault_test_stats(p.a)->refused, 0);
	for (i = 0; i < N; i++)
		fault_test_post(p.b, &others[i]);
	collect(order, N);
	fault_pair_close(&p);
}

/* A failed send has not arrived; a receive fails as well; the connection stays. */
static void
error(void **state)
{
	struct leat_op recv;
	uint32_t order[N], i;

	(void)state;
	fault_pair_open(&p, F_ERROR, "e");
	fill();
	post_all();
	collect(order, N);
	for (i = 0; i < N; i++)
		assert_int_equal(ops[i].status, -EIO);
	assert_int_equal(fault_test_stats(p.a)->failed, N);
	assert_int_equal(leat_ep_inflight(p.b), N);
	recv = fault_test_recv(in[0], 256);
	fault_test_post(p.a, &recv);
	while (leat_ep_poll(p.a, (struct leat_op *[1]){ NULL }, 1) == 0)
		;
	assert_int_equal(recv.status, -EIO);
	assert_int_equal(leat_ep_peer_state(p.a, p.pa), LEAT_PEER_UP);
	fault_pair_close(&p);
}

/* With errno=EACCES only ops that use a key fail. A failed WRITE has written nothing. */
static void
error_of_keys(void **state)
{
	static char mem[N][8];
	struct leat_mr *mr;
	struct leat_rkey rk;
	uint32_t order[N], i, failed = 0;

	(void)state;
	fault_pair_open(&p, F_ERROR_KEY, "k");
	fill();
	post_all();
	collect(order, N);
	for (i = 0; i < N; i++)
		assert_int_equal(ops[i].status, 0);
	assert_int_equal(fault_test_stats(p.a)->failed, 0);

	mr = leat_mr_register(p.b, mem, sizeof(mem), LEAT_MR_REMOTE_WRITE);
	assert_non_null(mr);
	assert_int_equal(leat_mr_rkey(mr, mem, sizeof(mem), &rk), 0);
	memset(mem, 0, sizeof(mem));
	for (i = 0; i < N; i++) {
		ops[i] = (struct leat_op){ .type = LEAT_OP_WRITE,
					   .peer = p.pa,
					   .buf = out[1],
					   .size = 8,
					   .raddr = rk.addr + 8 * i,
					   .rkey = rk.key,
					   .queue = LEAT_QUEUE_NONE };
		fault_test_post(p.a, &ops[i]);
	}
	collect(order, N);
	for (i = 0; i < N; i++) {
		assert_true(ops[i].status == 0 || ops[i].status == -EACCES);
		assert_int_equal(mem[i][0], ops[i].status == 0 ? 1 : 0);
		failed += ops[i].status != 0;
	}
	assert_in_range(failed, N / 4, 3 * N / 4);
	assert_int_equal(fault_test_stats(p.a)->failed, failed);
	assert_int_equal(leat_mr_deregister(mr), 0);
	fault_pair_close(&p);
}

/*
 * The device below can use memory that was registered with the fault device. An op whose buffer is
 * outside its region does not reach that device.
 */
static void
regions(void **state)
{
	static char mem[64];
	struct leat_op read, *op;
	struct leat_mr *mr;
	struct leat_rkey rk;

	(void)state;
	fault_pair_open(&p, F_OFF, "m");
	mr = leat_mr_register(p.a, mem, sizeof(mem), LEAT_MR_REMOTE_ALL);
	assert_non_null(mr);
	assert_int_equal(leat_mr_rkey(mr, mem + 8, 16, &rk), 0);
	memset(mem, 7, sizeof(mem));
	memset(in[0], 0, sizeof(in[0]));
	read = (struct leat_op){ .type = LEAT_OP_READ,
				 .peer = p.pb,
				 .buf = in[0],
				 .size = 16,
				 .raddr = rk.addr,
				 .rkey = rk.key };
	fault_test_post(p.b, &read);
	while (leat_ep_poll(p.b, &op, 1) == 0)
		(void)leat_ep_poll(p.a, NULL, 0);
	assert_int_equal(read.status, 0);
	assert_memory_equal(in[0], mem + 8, 16);
	/* An op whose buffer is outside its region fails. */
	ops[0] = fault_test_send(p.pa, out[0], SIZE);
	ops[0].mr = mr;
	fault_test_post(p.a, &ops[0]);
	assert_int_equal(leat_ep_poll(p.a, &op, 1), 1);
	assert_int_equal(ops[0].status, -EINVAL);
	assert_int_equal(leat_mr_deregister(mr), 0);
	fault_pair_close(&p);
}

/*
 * The result of arm, on which a loop relies before it sleeps: -EAGAIN: there is work; -EBUSY: an
 * op's delay will end without a wake-up; 0: nothing to do.
 */
static void
arm(void **state)
{
	struct leat_ep_conf conf = { .wait = true };
	struct leat_dev_info info;
	struct leat_op *got[1];

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_DELAY), &info), 0);
	if (!info.wait)
		skip();
	fault_pair_open_conf(&p, F_DELAY, &conf);
	assert_true(leat_ep_fd(p.a) >= 0);
	while (leat_ep_arm(p.a) != 0) {
		leat_ep_disarm(p.a);
		(void)leat_ep_poll(p.a, NULL, 0);
		(void)leat_ep_events(p.a, NULL, 0);
	}
	leat_ep_disarm(p.a);
	fill();
	fault_test_post(p.a, &ops[0]);
	(void)leat_ep_poll(p.b, got, 1);
	assert_int_equal(leat_ep_arm(p.a), -EAGAIN); /* completed by the device below */
	leat_ep_disarm(p.a);
	assert_int_equal(leat_ep_poll(p.a, got, 1), 0);
	/* the end of the op's delay makes no descriptor readable */
	assert_int_equal(leat_ep_arm(p.a), -EBUSY);
	leat_ep_disarm(p.a);
	test_clock += 20 * US;
	assert_int_equal(leat_ep_poll(p.a, got, 1), 1);
	assert_int_equal(leat_ep_arm(p.a), 0);
	leat_ep_disarm(p.a);
	fault_pair_close(&p);
}

/* When close times out, all ops have come back, however long their delays. */
static void
close_with_delayed(void **state)
{
	uint32_t i;

	(void)state;
	fault_pair_open(&p, F_LONG, "l");
	fill();
	post_all();
	while (leat_ep_poll(p.b, (struct leat_op *[32]){ NULL }, 32) > 0)
		;
	for (i = 0; i < 100; i++)
		assert_int_equal(leat_ep_poll(p.a, (struct leat_op *[1]){ NULL }, 1), 0);
	assert_int_equal(leat_ep_close(p.a, 1000, NULL, NULL), -ETIMEDOUT);
	for (i = 0; i < N; i++) {
		assert_int_equal(ops[i].state, LEAT_OP_IDLE);
		assert_true(ops[i].status == 0 || ops[i].status == -ESHUTDOWN);
	}
	assert_int_equal(leat_ep_close(p.b, 0, NULL, NULL), 0);
}

/* A cancel ends the delay of a completed op at once; the op keeps its own result. */
static void
cancel_delayed(void **state)
{
	struct leat_op *got[1];

	(void)state;
	fault_pair_open(&p, F_LONG, "c");
	fill();
	fault_test_post(p.a, &ops[0]);
	(void)leat_ep_poll(p.b, got, 1);
	assert_int_equal(leat_ep_poll(p.a, got, 1), 0);
	assert_int_equal(leat_op_cancel(p.a, &ops[0]), 0);
	assert_int_equal(leat_ep_poll(p.a, got, 1), 1);
	assert_int_equal(ops[0].status, 0);
	assert_int_equal(leat_op_cancel(p.a, &ops[0]), -ENOENT);
	assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
	(void)leat_ep_close(p.b, 0, NULL, NULL);
}

static void
told_by_telemetry(void **state)
{
	char id[16], n[24];
	const char *ep;
	int fd;

	(void)state;
	fault_pair_open(&p, F_REFUSE, "t");
	fill();
	(void)post_until_taken();
	fd = telemetry_dial();
	assert_true(fd >= 0);
	ep = telemetry_ask(fd, "/leat/fault");
	snprintf(id, sizeof(id), "{");
	snprintf(n, sizeof(n), "%u", leat_ep_id(p.a));
	ep = telemetry_find(ep, n, id);
	assert_non_null(ep);
	assert_non_null(telemetry_find(ep, "device", "\"" F_REFUSE "\""));
	assert_non_null(telemetry_find(ep, "seed", "1"));
	snprintf(n, sizeof(n), "%" PRIu64, fault_test_stats(p.a)->refused);
	assert_non_null(telemetry_find(ep, "refused", n));
	(void)close(fd);
	fault_pair_close(&p);
}

/*
 * A fault device has the capabilities of the device below, except those that its faults rule out.
 */
static void
info(void **state)
{
	struct leat_dev_info low, off, on;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name("fabric_ring0"), &low), 0);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_OFF), &off), 0);
	assert_string_equal(off.name, F_OFF);
	assert_string_equal(off.driver, "fabric_fault");
	assert_string_equal(off.interface, "fabric_ring0, seed 1");
	memcpy(off.name, low.name, sizeof(off.name));
	memcpy(off.driver, low.driver, sizeof(off.driver));
	memcpy(off.interface, low.interface, sizeof(off.interface));
	assert_memory_equal(&off, &low, sizeof(off));
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_STALL), &on), 0);
	assert_int_equal(on.inline_max, 0);
	assert_false(on.in_order);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_MIX8), &on), 0);
	assert_string_equal(on.interface, "fabric_ring0, seed 8");
}

#define CASE(f) cmocka_unit_test_setup(f, fault_test_clock)
#define REAL(f) cmocka_unit_test_setup(f, fault_test_real_clock)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(reorder),
		CASE(reorder_alone),
		CASE(delay),
		CASE(twice),
		CASE(refuse),
		CASE(refuse_recv),
		CASE(error),
		CASE(error_of_keys),
		CASE(regions),
		CASE(arm),
		REAL(close_with_delayed),
		REAL(cancel_delayed),
		CASE(told_by_telemetry),
		CASE(info),
	};

	return cmocka_run_group_tests(tests, fault_test_start, fault_test_stop);
}
