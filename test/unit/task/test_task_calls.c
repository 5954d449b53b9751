/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_task_send() and the other calls that post one op, over a ring device and two fault devices.
 * The first fault device refuses posts and reorders completions; peers of the second stall for
 * longer than the time limit of a call.
 */

#include <leat_fabric.h>
#include <leat_scope.h>
#include <leat_task_event.h>
#include <leat_task_op.h>

#include "../reactor/reactor_test.h"

#define MESSAGES 2000
#define WORDS 8192 /* of 8 B: more than a device copies when a send is posted */
#define LIMIT_US 20000
#define LONG_US 60000000

struct side {
	struct leat_ep *ep;
	struct leat_task_event connected;
	uint16_t peer;
	uint64_t mem[WORDS];
	struct leat_mr *mr;
};

struct calls {
	const char *dev;
	bool stalls; /* the peer stalls for longer than a call's time limit */
	struct side tx, rx;
	unsigned int seen[MESSAGES];
	unsigned int received;
};

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct side *s = arg;

	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		assert_int_equal(leat_ep_accept(ep, ev->peer, NULL), 0);
		break;
	case LEAT_EV_CONNECTED:
		s->peer = ev->peer;
		leat_task_event_set(&s->connected);
		break;
	case LEAT_EV_CONNECT_FAILED:
		fail_msg("%s", ev->text);
		break;
	case LEAT_EV_DISCONNECTED:
		/* A call's time limit ends no connection if the device can recall ops. */
		if (ev->status != 0 && ev->status != -ECONNABORTED)
			fail_msg("%s", ev->text);
		break;
	case LEAT_EV_SHUTDOWN:
		break;
	}
}

static int
sender(void *arg)
{
	struct calls *c = arg;
	uint64_t i;

	for (i = 0; i < MESSAGES; i++) {
		c->tx.mem[0] = i;
		/* The message's number decides its length as well as its content. */
		assert_int_equal(leat_task_send(c->tx.ep, c->tx.peer, c->tx.mem, 8 + i % 100,
						c->tx.mr, LONG_US),
				 0);
	}
	return 0;
}

static int
receiver(void *arg)
{
	uint64_t buf[64];
	struct calls *c = arg;
	struct leat_mr *mr;
	uint16_t from;
	int64_t ret;

	mr = leat_mr_register(c->rx.ep, buf, sizeof(buf), LEAT_MR_LOCAL);
	assert_non_null(mr);
	while (c->received < MESSAGES) {
		from = LEAT_PEER_ANY;
		ret = leat_task_recv(c->rx.ep, LEAT_PEER_ANY, buf, sizeof(buf), mr, &from, 1000);
		/* The other receiver may have received the last message. */
		if (ret == -ETIMEDOUT)
			continue;
		assert_true(ret >= 8);
		assert_int_equal(from, c->rx.peer);
		assert_true(buf[0] < MESSAGES);
		assert_int_equal(ret, 8 + buf[0] % 100);
		c->seen[buf[0]]++;
		c->received++;
	}
	assert_int_equal(leat_mr_deregister(mr), 0);
	return 0;
}

/* One sender, two receivers: each message arrives once. */
static void
stream(struct calls *c)
{
	int sent = 1, got[2] = { 1, 1 };
	struct leat_scope s;
	unsigned int i;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "sender", sender, c, &sent), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(leat_scope_branch(&s, "receiver", receiver, c, &got[i]), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(sent, 0);
	assert_int_equal(got[0] + got[1], 0);
	for (i = 0; i < MESSAGES; i++)
		assert_int_equal(c->seen[i], 1);
}

static void
one_sided(struct calls *c)
{
	struct leat_rkey rkey;

	assert_int_equal(leat_mr_rkey(c->rx.mr, c->rx.mem, sizeof(c->rx.mem), &rkey), 0);
	c->tx.mem[0] = 0x1234;
	c->rx.mem[WORDS - 1] = 0;
	assert_int_equal(leat_task_write(c->tx.ep, c->tx.peer, c->tx.mem, 8, c->tx.mr, &rkey,
					 (WORDS - 1) * 8, LONG_US),
			 0);
	c->tx.mem[0] = 0;
	assert_int_equal(leat_task_read(c->tx.ep, c->tx.peer, c->tx.mem, 8, c->tx.mr, &rkey,
					(WORDS - 1) * 8, LONG_US),
			 0);
	assert_int_equal(c->tx.mem[0], 0x1234);
	assert_int_equal(c->rx.mem[WORDS - 1], 0x1234);
	assert_int_equal(leat_task_read(c->tx.ep, c->tx.peer, c->tx.mem, 9, c->tx.mr, &rkey,
					(WORDS - 1) * 8, LONG_US),
			 -ERANGE);
}

/*
 * The peer posts nothing: each call lasts its whole time limit, and then the caller may use its
 * buffer again.
 */
static void
too_late(struct calls *c)
{
	uint64_t begin = leat_now();
	struct leat_rkey rkey;

	assert_int_equal(leat_task_recv(c->rx.ep, LEAT_PEER_ANY, c->rx.mem, sizeof(c->rx.mem),
					c->rx.mr, NULL, LIMIT_US),
			 -ETIMEDOUT);
	assert_int_equal(leat_task_send(c->tx.ep, c->tx.peer, c->tx.mem, sizeof(c->tx.mem),
					c->tx.mr, LIMIT_US),
			 -ETIMEDOUT);
	assert_true(leat_now() - begin >= leat_us_to_cycles(2 * LIMIT_US));
	assert_int_equal(leat_task_send(c->tx.ep, c->tx.peer, c->tx.mem, 8, c->tx.mr, 0),
			 -ETIMEDOUT);
	assert_int_equal(leat_mr_rkey(c->rx.mr, c->rx.mem, sizeof(c->rx.mem), &rkey), 0);
	if (c->stalls) {
		assert_int_equal(leat_task_write(c->tx.ep, c->tx.peer, c->tx.mem, 8, c->tx.mr,
						 &rkey, 0, LIMIT_US),
				 -ETIMEDOUT);
		assert_int_equal(leat_task_read(c->tx.ep, c->tx.peer, c->tx.mem, 8, c->tx.mr, &rkey,
						0, LIMIT_US),
				 -ETIMEDOUT);
	}
	/* A recalled message does not arrive afterwards. */
	assert_int_equal(leat_task_recv(c->rx.ep, LEAT_PEER_ANY, c->rx.mem, sizeof(c->rx.mem),
					c->rx.mr, NULL, LIMIT_US),
			 -ETIMEDOUT);
}

static int
waits_for_ever(void *arg)
{
	struct calls *c = arg;

	return (int)leat_task_recv(c->rx.ep, c->rx.peer, c->rx.mem, 8, c->rx.mr, NULL,
				   LEAT_TASK_FOREVER);
}

static int
breaks(void *arg)
{
	int ret = leat_task_sleep(*(uint64_t *)arg);

	leat_scope_break(ret);
}

static void
cancelled(struct calls *c)
{
	uint64_t us = 1000;
	struct leat_scope s;
	int ret = 1;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, NULL, waits_for_ever, c, &ret), 0);
	assert_int_equal(leat_scope_branch(&s, NULL, breaks, &us, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(ret, -ECANCELED);
}

static int
main_task(void *arg)
{
	struct calls *c = arg;
	char addr[LEAT_ADDR_MAX];

	assert_int_equal(leat_ep_listen(c->rx.ep, "ring:0"), 0);
	assert_int_equal(leat_ep_listen_addr(c->rx.ep, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(c->tx.ep, addr, NULL) >= 0);
	assert_int_equal(leat_task_within(LONG_US, leat_task_event_wait(&c->tx.connected)), 0);
	assert_int_equal(leat_task_within(LONG_US, leat_task_event_wait(&c->rx.connected)), 0);
	if (!c->stalls) {
		stream(c);
		one_sided(c);
	}
	too_late(c);
	cancelled(c);
	leat_reactor_stop(leat_reactor_self(), LONG_US);
	return 0;
}

static void
side_open(struct side *s, struct leat_tasks *ts, const char *dev, const char *name)
{
	/* A small depth: calls have to wait for room. */
	struct leat_ep_conf conf = { .name = name,
				     .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
					    LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_READ),
				     .max_peers = 4,
				     .tx_depth = 4,
				     .rx_depth = 4 };

	s->ep = leat_ep_create(leat_dev_by_name(dev), &conf);
	if (s->ep == NULL || leat_tasks_ep_add(ts, s->ep, on_event, s) == NULL)
		fail_msg("%s", leat_err_msg());
	s->mr = leat_mr_register(s->ep, s->mem, sizeof(s->mem), LEAT_MR_REMOTE_ALL);
	assert_non_null(s->mr);
}

static void
run(const char *dev, bool stalls)
{
	struct leat_reactor *r = leat_reactor_create(NULL);
	struct leat_tasks *ts = leat_tasks_create(r, NULL);
	static struct calls c;
	struct leat_task *task;
	int ret = 1;

	memset(&c, 0, sizeof(c));
	c.stalls = stalls;
	side_open(&c.tx, ts, dev, "tx");
	side_open(&c.rx, ts, dev, "rx");
	task = leat_task_spawn(ts, "main", main_task, &c);
	assert_non_null(task);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_int_equal(leat_mr_deregister(c.tx.mr), 0);
	assert_int_equal(leat_mr_deregister(c.rx.mr), 0);
	assert_int_equal(leat_ep_destroy(c.tx.ep), 0);
	assert_int_equal(leat_ep_destroy(c.rx.ep), 0);
}

static void
test_ring(void **state)
{
	(void)state;
	run("fabric_ring0", false);
}

static void
test_faults(void **state)
{
	(void)state;
	run("fabric_fault0", false);
}

static void
test_stalls(void **state)
{
	(void)state;
	run("fabric_fault1", true);
}

static int
group_setup(void **state)
{
	static char prog[] = "test_calls", nopci[] = "--no-pci", notel[] = "--no-telemetry";
	static char ring[] = "--vdev=fabric_ring0";
	static char faults[] = "--vdev=fabric_fault0,lower=fabric_ring0,reorder=8,delay=1..20,"
			       "refuse=0.3,refuse_recv=0.3";
	static char stalls[] = "--vdev=fabric_fault1,lower=fabric_ring0,stall=1,"
			       "stall_time=50000000";
	char *argv[] = { prog, nopci, notel, ring, faults, stalls, NULL };

	(void)state;
	if (leat_init(6, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
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
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_stalls),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
