/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The wait object of fabric_shm: what arm returns, and what wakes an armed endpoint. Both endpoints
 * are in this process, which also polls the one that is awake. test/shm/steps.c tests that the
 * death of a process wakes an endpoint, test_reactor_wake.c tests many wake-ups.
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_errno.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"

/* Time within which a wake-up arrives; long enough for a loaded machine. */
#define PATIENCE_MS 10000
#define DEPTH 16 /* depth of the device's rings, below */
#define MANY (4 * DEPTH)

/* Two endpoints: the sleeper is armed, its peer is awake. */
static struct {
	struct leat_ep *sleeper, *other;
	/* the awake peer's id at the sleeper, and the sleeper's id at the peer */
	uint16_t other_id, sleeper_id;
	struct leat_mr *mr; /* the awake peer's region */
	struct leat_rkey key;
	uint64_t word[MANY], target;
	struct leat_op op[MANY], recv;
	unsigned int ended;
} t;

static void
events(struct leat_ep *ep)
{
	struct leat_event ev;

	while (leat_ep_events(ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ)
			assert_int_equal(leat_ep_accept(ep, ev.peer, NULL), 0);
		else if (ev.type == LEAT_EV_CONNECTED && ep == t.sleeper)
			t.other_id = ev.peer;
		else if (ev.type == LEAT_EV_CONNECTED)
			t.sleeper_id = ev.peer;
		else if (ev.type == LEAT_EV_DISCONNECTED && ep == t.sleeper)
			t.ended++;
	}
}

static unsigned int
turn(struct leat_ep *ep)
{
	struct leat_op *done[8];
	unsigned int i, n = leat_ep_poll(ep, done, RTE_DIM(done));

	for (i = 0; i < n; i++)
		assert_int_equal(done[i]->status, 0);
	events(ep);
	return n;
}

static bool
woken(int ms)
{
	struct pollfd p = { .fd = leat_ep_fd(t.sleeper), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* Arm the sleeper. First poll both endpoints until no earlier event or message is left. */
static void
sleep_now(void)
{
	int ret = -EAGAIN;

	while (ret != 0) {
		(void)turn(t.other);
		(void)turn(t.sleeper);
		ret = leat_ep_arm(t.sleeper);
		assert_true(ret == 0 || ret == -EAGAIN);
		if (ret == 0 && woken(0))
			ret = -EAGAIN;
		if (ret != 0)
			leat_ep_disarm(t.sleeper);
	}
}

static void
wakes(void)
{
	assert_true(woken(PATIENCE_MS));
	leat_ep_disarm(t.sleeper);
}

static void
post(struct leat_ep *ep, struct leat_op *op)
{
	assert_int_equal(leat_ep_post(ep, &op, 1), 1);
}

static void
post_recv(struct leat_ep *ep)
{
	t.recv = (struct leat_op){
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = &t.target, .size = 8
	};
	post(ep, &t.recv);
}

static int
setup(void **state)
{
	const struct leat_ep_conf conf = { .wait = true, .max_peers = 4, .ops = LEAT_OP_MASK_ALL };
	char addr[LEAT_ADDR_MAX];

	(void)state;
	memset(&t, 0, sizeof(t));
	t.other_id = t.sleeper_id = LEAT_PEER_ANY;
	t.sleeper = leat_ep_create(leat_dev_get(0), &conf);
	t.other = leat_ep_create(leat_dev_get(0), &conf);
	assert_true(t.sleeper != NULL && t.other != NULL);
	t.mr = leat_mr_register(t.other, &t.target, 8, LEAT_MR_REMOTE_ALL);
	assert_non_null(t.mr);
	assert_int_equal(leat_mr_rkey(t.mr, &t.target, 8, &t.key), 0);
	assert_int_equal(leat_ep_listen(t.other, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(t.other, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(t.sleeper, addr, NULL) >= 0);
	while (t.other_id == LEAT_PEER_ANY || t.sleeper_id == LEAT_PEER_ANY) {
		(void)turn(t.sleeper);
		(void)turn(t.other);
	}
	return 0;
}

static void
close_other(void)
{
	assert_int_equal(leat_mr_deregister(t.mr), 0);
	assert_int_equal(leat_ep_close(t.other, 0, NULL, NULL), 0);
	t.other = NULL;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(leat_ep_close(t.sleeper, 0, NULL, NULL), 0);
	if (t.other != NULL)
		close_other();
	return 0;
}

static void
send_to_sleeper(void)
{
	t.op[0] = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = t.sleeper_id, .buf = &t.word[0], .size = 8
	};
	post(t.other, &t.op[0]);
}

static void
test_message(void **state)
{
	(void)state;
	post_recv(t.sleeper);
	sleep_now();
	send_to_sleeper();
	wakes();
	while (turn(t.sleeper) == 0)
		;
}

/*
 * A message arrived before the endpoint was armed: arm returns -EAGAIN, since no wake-up will come.
 */
static void
test_message_before(void **state)
{
	(void)state;
	post_recv(t.sleeper);
	sleep_now();
	leat_ep_disarm(t.sleeper);
	send_to_sleeper();
	assert_int_equal(leat_ep_arm(t.sleeper), -EAGAIN);
	leat_ep_disarm(t.sleeper);
	while (turn(t.sleeper) == 0)
		;
}

/* The ack of a WRITE wakes its initiator. */
static void
test_ack(void **state)
{
	(void)state;
	sleep_now();
	leat_ep_disarm(t.sleeper);
	t.word[0] = 42;
	t.op[0] = (struct leat_op){ .type = LEAT_OP_WRITE,
				    .peer = t.other_id,
				    .buf = &t.word[0],
				    .size = 8,
				    .raddr = t.key.addr,
				    .rkey = t.key.key };
	post(t.sleeper, &t.op[0]);
	assert_int_equal(leat_ep_arm(t.sleeper), 0);
	assert_false(woken(0));
	while (t.target != 42)
		(void)turn(t.other);
	wakes();
	while (turn(t.sleeper) == 0)
		;
}

/* A refused post: freed slots don't wake the sender, so arm returns -EBUSY until there is room. */
static void
test_refused(void **state)
{
	struct leat_op *op;
	unsigned int n;

	(void)state;
	sleep_now();
	leat_ep_disarm(t.sleeper);
	for (n = 0; n < MANY; n++) {
		t.op[n] = (struct leat_op){
			.type = LEAT_OP_SEND, .peer = t.other_id, .buf = &t.word[n], .size = 8
		};
		op = &t.op[n];
		if (leat_ep_post(t.sleeper, &op, 1) == 0)
			break;
	}
	assert_in_range(n, 1, MANY - 1);
	assert_int_equal(rte_errno, EAGAIN);
	while (leat_ep_poll(t.sleeper, &op, 1) == 1)
		;
	assert_int_equal(leat_ep_arm(t.sleeper), -EBUSY);
	leat_ep_disarm(t.sleeper);
	for (; n > 0; n--) {
		post_recv(t.other);
		while (t.recv.state != LEAT_OP_IDLE)
			(void)turn(t.other);
	}
	/* The ring has room again: -EAGAIN tells the sleeper to post. */
	assert_int_equal(leat_ep_arm(t.sleeper), -EAGAIN);
	leat_ep_disarm(t.sleeper);
	sleep_now();
	leat_ep_disarm(t.sleeper);
}

static void
test_end(void **state)
{
	(void)state;
	sleep_now();
	close_other();
	wakes();
	while (t.ended == 0)
		(void)turn(t.sleeper);
}

static int
group_setup(void **state)
{
	static char prog[] = "test_shm_wait", nopci[] = "--no-pci", notel[] = "--no-telemetry";
	static char dev[] = "--vdev=fabric_shm0,dir=@leat-wait,depth=16";
	char *argv[] = { prog, nopci, notel, dev, NULL };
	struct leat_dev_info info;

	(void)state;
	if (leat_init(4, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	if (leat_dev_info_get(leat_dev_get(0), &info) < 0)
		return -1;
	if (!info.wait)
		/* meson: skipped; the kernel has no membarrier(2), or does not permit it */
		exit(77);
	return 0;
}

static int
group_teardown(void **state)
{
	(void)state;
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_message, setup, teardown),
		cmocka_unit_test_setup_teardown(test_message_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
