/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Ops on shared memory (share=1), with both sides in this thread. The target is polled only where a
 * test says so. The tests thus see which ops the initiator executes itself, which it leaves to the
 * target, and how telemetry counts both.
 */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "telemetry_client.h"

#define SHARE "fabric_shm0"
#define NOT_SHARED "fabric_shm1" /* without share=1 */
#define ALL (LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE | LEAT_MR_REMOTE_ATOMIC)
#define SIZE 65536
#define PATIENCE 1000000 /* polls */

static int sock;

struct end {
	struct leat_ep *ep;
	uint16_t peer;
	char *mem; /* SIZE bytes of EAL's memory */
	struct leat_mr *mr;
	struct leat_rkey key;
};

static struct end a, b;

static void
end_open(struct end *e, const char *dev)
{
	const struct leat_ep_conf conf = { .ops = LEAT_OP_MASK_ALL };

	e->ep = leat_ep_create(leat_dev_by_name(dev), &conf);
	e->mem = rte_zmalloc(NULL, SIZE, LEAT_CACHE_LINE);
	assert_non_null(e->ep);
	assert_non_null(e->mem);
	e->mr = leat_mr_register(e->ep, e->mem, SIZE, ALL);
	assert_non_null(e->mr);
	assert_int_equal(leat_mr_rkey(e->mr, e->mem, SIZE, &e->key), 0);
}

static void
expect(struct end *e, struct end *other, enum leat_event_type type)
{
	struct leat_event ev;
	int i;

	for (i = 0; i < PATIENCE; i++) {
		(void)leat_ep_events(other->ep, NULL, 0);
		if (leat_ep_events(e->ep, &ev, 1) == 1) {
			assert_int_equal(ev.type, type);
			e->peer = ev.peer;
			return;
		}
		sched_yield();
	}
	fail_msg("event %d did not come", (int)type);
}

static void
open_both(const char *dev_a, const char *dev_b)
{
	int peer;

	end_open(&a, dev_a);
	end_open(&b, dev_b);
	assert_int_equal(leat_ep_listen(b.ep, "shm:direct"), 0);
	peer = leat_ep_connect(a.ep, "shm:direct", NULL);
	assert_true(peer >= 0);
	expect(&b, &a, LEAT_EV_CONNECT_REQ);
	assert_int_equal(leat_ep_accept(b.ep, b.peer, NULL), 0);
	expect(&a, &b, LEAT_EV_CONNECTED);
	expect(&b, &a, LEAT_EV_CONNECTED);
}

static int
setup(void **state)
{
	(void)state;
	open_both(SHARE, SHARE);
	return 0;
}

static void
end_close(struct end *e)
{
	if (e->mr != NULL)
		assert_int_equal(leat_mr_deregister(e->mr), 0);
	assert_int_equal(leat_ep_close(e->ep, 0, NULL, NULL), 0);
	rte_free(e->mem);
	memset(e, 0, sizeof(*e));
}

static int
teardown(void **state)
{
	(void)state;
	end_close(&a);
	end_close(&b);
	return 0;
}

static void
post(struct leat_op *op)
{
	op->peer = a.peer;
	assert_int_equal(leat_ep_post(a.ep, &op, 1), 1);
}

/* Poll the initiator once, and not the target. @return whether the op has completed */
static bool
back(const struct leat_op *op)
{
	struct leat_op *done;

	return leat_ep_poll(a.ep, &done, 1) == 1 && done == op;
}

/* Poll both endpoints until the op has completed. */
static void
wait_back(const struct leat_op *op)
{
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (back(op))
			return;
		(void)leat_ep_poll(b.ep, NULL, 0);
	}
	fail_msg("a %s does not come back", leat_op_type_name(op->type));
}

/* @return a counter of an endpoint, from telemetry */
static uint64_t
counter(const struct end *e, const char *what)
{
	return telemetry_counter(sock, "/leat/shm", leat_ep_id(e->ep), what);
}

static struct leat_op
one_sided(uint8_t type, uint64_t at, void *buf, uint64_t size)
{
	return (struct leat_op){
		.type = type, .buf = buf, .size = size, .raddr = b.key.addr + at, .rkey = b.key.key
	};
}

/* ---- ops that need no target ---- */

static void
test_without_the_target(void **state)
{
	uint64_t *words = (uint64_t *)b.mem, old = 0;
	struct leat_op op;

	(void)state;
	memset(a.mem, 'x', SIZE);
	op = one_sided(LEAT_OP_WRITE, 0, a.mem, SIZE);
	post(&op);
	assert_memory_equal(a.mem, b.mem, SIZE);
	assert_true(back(&op));
	assert_int_equal(op.status, 0);
	words[1] = 40;
	op = one_sided(LEAT_OP_FETCH_ADD, 8, &old, 8);
	op.operand = 2;
	post(&op);
	assert_true(back(&op));
	assert_int_equal(old, 40);
	assert_int_equal(words[1], 42);
	op = one_sided(LEAT_OP_CMP_SWAP, 8, &old, 8);
	op.compare = 41;
	op.operand = 1;
	post(&op);
	assert_true(back(&op));
	assert_int_equal(old, 42);
	assert_int_equal(words[1], 42);
	op.compare = 42;
	post(&op);
	assert_true(back(&op));
	assert_int_equal(words[1], 1);
	/* A READ of the region's last bytes; its local buffer need not be shared. */
	op = one_sided(LEAT_OP_READ, SIZE - 8, &old, 8);
	post(&op);
	assert_true(back(&op));
	assert_memory_equal(&old, "xxxxxxxx", 8);
	assert_int_equal(counter(&a, "shared_ops"), 5);
	assert_int_equal(counter(&b, "shared_ops"), 0);
	assert_int_equal(counter(&a, "share_ended"), 0);
}

static void
test_writes_keep_their_order(void **state)
{
	uint64_t first = 1, second = 2;
	struct leat_op with_imm, op;

	(void)state;
	/*
	 * The target generates the notice, so the op goes to the target; later ops must not
	 * overtake it.
	 */
	with_imm = one_sided(LEAT_OP_WRITE_IMM, 0, &first, 8);
	post(&with_imm);
	op = one_sided(LEAT_OP_WRITE, 0, &second, 8);
	post(&op);
	assert_int_equal(*(uint64_t *)b.mem, 0);
	assert_false(back(&op));
	wait_back(&with_imm);
	wait_back(&op);
	assert_int_equal(*(uint64_t *)b.mem, 2);
}

/* A WRITE changes nothing when the target has disconnected, even before the initiator knows. */
static void
test_disconnected_there(void **state)
{
	uint64_t value = 1;
	struct leat_op op = one_sided(LEAT_OP_WRITE, 0, &value, 8);
	struct leat_event ev;

	(void)state;
	assert_int_equal(leat_ep_disconnect(b.ep, b.peer), 0);
	post(&op);
	assert_int_equal(*(uint64_t *)b.mem, 0);
	assert_false(back(&op));
	assert_int_equal(leat_ep_events(b.ep, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
	while (leat_ep_events(a.ep, &ev, 1) == 0)
		sched_yield();
	assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
	assert_true(back(&op));
	assert_int_equal(op.status, -ECONNRESET);
}

/* ---- ops that the initiator leaves to the target ---- */

static void
expect_status(struct leat_op op, int status)
{
	post(&op);
	assert_false(back(&op));
	wait_back(&op);
	assert_int_equal(op.status, status);
}

static void
test_rights_and_bounds(void **state)
{
	uint64_t word = 7;
	struct leat_op op = one_sided(LEAT_OP_WRITE, SIZE - 7, &word, 8);
	struct leat_mr *mr;
	struct leat_rkey key;

	(void)state;
	expect_status(op, -ERANGE);
	op.raddr = b.key.addr - 1;
	expect_status(op, -ERANGE);
	op.raddr = b.key.addr;
	op.rkey ^= UINT64_C(1) << 40;
	expect_status(op, -EACCES);
	op.rkey = b.key.key + 1000;
	expect_status(op, -EACCES);
	/* A region that is registered for reading only refuses the write, and permits the read. */
	mr = leat_mr_register(b.ep, b.mem + 4096, 4096, LEAT_MR_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(leat_mr_rkey(mr, b.mem + 4096, 4096, &key), 0);
	op.raddr = key.addr;
	op.rkey = key.key;
	expect_status(op, -EACCES);
	op.type = LEAT_OP_READ;
	post(&op);
	assert_true(back(&op));
	assert_int_equal(op.status, 0);
	assert_int_equal(word, 0);
	/* When the region is deregistered, the target refuses the READ, too. */
	assert_int_equal(leat_mr_deregister(mr), 0);
	expect_status(op, -EACCES);
	assert_int_equal(counter(&a, "shared_ops"), 1);
}

/* Ops on a region outside of EAL's memory are executed by the target, as without share=1. */
static void
test_other_memory(void **state)
{
	uint64_t *words = calloc(1024, sizeof(*words)), value = 9;
	struct leat_mr *mr = leat_mr_register(b.ep, words, 8192, ALL);
	struct leat_rkey key;
	struct leat_op op;

	(void)state;
	assert_non_null(mr);
	assert_int_equal(leat_mr_rkey(mr, words, 8192, &key), 0);
	op = one_sided(LEAT_OP_WRITE, 0, &value, 8);
	op.raddr = key.addr;
	op.rkey = key.key;
	post(&op);
	assert_int_equal(words[0], 0);
	wait_back(&op);
	assert_int_equal(op.status, 0);
	assert_int_equal(words[0], 9);
	/* A long WRITE from shared memory: the target copies from the initiator's memory itself. */
	memset(a.mem, 'y', 8192);
	op.buf = a.mem;
	op.size = 8192;
	post(&op);
	wait_back(&op);
	assert_int_equal(op.status, 0);
	assert_memory_equal(words, a.mem, 8192);
	assert_int_equal(counter(&b, "shared_copies"), 1);
	assert_int_equal(counter(&a, "shared_ops"), 0);
	assert_int_equal(leat_mr_deregister(mr), 0);
	free(words);
}

/*
 * With more regions than the table has room for, ops on the regions beyond it are executed by the
 * target.
 */
static void
test_many_regions(void **state)
{
	struct leat_mr *mrs[1100];
	struct leat_rkey key;
	struct leat_op op;
	uint64_t value = 3;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(mrs); i++) {
		mrs[i] = leat_mr_register(b.ep, b.mem + 8 * i, 8, ALL);
		assert_non_null(mrs[i]);
	}
	for (i = 0; i < RTE_DIM(mrs); i++) {
		assert_int_equal(leat_mr_rkey(mrs[i], b.mem + 8 * i, 8, &key), 0);
		op = one_sided(LEAT_OP_WRITE, 0, &value, 8);
		op.raddr = key.addr;
		op.rkey = key.key;
		post(&op);
		wait_back(&op);
		assert_int_equal(op.status, 0);
		assert_int_equal(((uint64_t *)b.mem)[i], 3);
	}
	/* The table has room for 1,024 regions, one of which is b's own. */
	assert_int_equal(counter(&a, "shared_ops"), 1023);
	for (i = 0; i < RTE_DIM(mrs); i++)
		assert_int_equal(leat_mr_deregister(mrs[i]), 0);
}

/* ---- messages ---- */

static void
test_message(void **state)
{
	struct leat_op send = { .type = LEAT_OP_SEND, .buf = a.mem, .size = SIZE };
	struct leat_op recv = {
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = b.mem, .size = SIZE
	};
	struct leat_op *p = &recv;

	(void)state;
	memset(a.mem, 'z', SIZE);
	post(&send);
	assert_false(back(&send));
	assert_int_equal(leat_ep_post(b.ep, &p, 1), 1);
	while (leat_ep_poll(b.ep, &p, 1) == 0)
		;
	assert_int_equal(recv.status, 0);
	assert_int_equal(recv.len, SIZE);
	assert_memory_equal(a.mem, b.mem, SIZE);
	wait_back(&send);
	assert_int_equal(counter(&b, "shared_copies"), 1);
}

/* One side shares its memory, and the other does not: the target executes the ops. */
static void
test_one_side_only(void **state)
{
	uint64_t value = 5;
	struct leat_op op;
	int turn;

	(void)state;
	for (turn = 0; turn < 2; turn++) {
		open_both(turn == 0 ? SHARE : NOT_SHARED, turn == 0 ? NOT_SHARED : SHARE);
		op = one_sided(LEAT_OP_WRITE, 0, &value, 8);
		post(&op);
		assert_int_equal(*(uint64_t *)b.mem, 0);
		wait_back(&op);
		assert_int_equal(op.status, 0);
		assert_int_equal(*(uint64_t *)b.mem, 5);
		assert_int_equal(counter(turn == 0 ? &a : &b, "shared_ops"), 0);
		end_close(&a);
		end_close(&b);
	}
}

int
main(int argc, char **argv)
{
	static char pci[] = "--no-pci", log[] = "--log-level=leat.*:error", huge[] = "--no-huge",
		    m[] = "-m", mib[] = "64", d0[] = "--vdev=" SHARE ",share=1,dir=@leat-direct",
		    d1[] = "--vdev=" NOT_SHARED ",dir=@leat-direct";
	const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		TEST(test_without_the_target), TEST(test_writes_keep_their_order),
		TEST(test_rights_and_bounds),  TEST(test_other_memory),
		TEST(test_many_regions),       TEST(test_message),
		TEST(test_disconnected_there), cmocka_unit_test(test_one_side_only),
	};
	char *eal[64];
	int i, ret, n = 0;

	for (i = 0; i < argc && n < 50; i++)
		eal[n++] = argv[i];
	eal[n++] = pci;
	eal[n++] = log;
	eal[n++] = huge;
	eal[n++] = m;
	eal[n++] = mib;
	eal[n++] = d0;
	eal[n++] = d1;
	eal[n] = NULL;
	if (leat_init(n, eal) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return 1;
	}
	sock = telemetry_dial();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	(void)close(sock);
	return leat_cleanup() < 0 ? 1 : ret;
}
