/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A transfer of 64 MiB that a time limit cancels: the receiver's, before the transfer begins or in
 * the middle, or the sender's. Whatever the result, the buffer belongs to the task when the task's
 * wait ended, and not before: the test then writes to the buffer, and checks that nothing else
 * does.
 *
 * The device is the program's argument. Without one it is ofi with TCP if the name of the program
 * contains "ofi", else ring.
 */

#include <stdlib.h>

#include <leat_fabric.h>
#include <leat_scope.h>
#include <leat_task_event.h>
#include <leat_task_op.h>

#include "../reactor/reactor_test.h"

#define SIZE ((size_t)64 << 20)
#define STRIDE 4096 /* distance of the checked bytes of a buffer, bytes */
#define LIMITS 9

static const char *vdev;
static struct leat_dev_info info;

struct side {
	struct leat_ep *ep;
	struct leat_task_event connected;
	uint16_t peer;
};

struct transfer {
	struct side tx, rx;
	char *out, *in[2];
	struct leat_mr *out_mr, *in_mr[2];
	uint64_t limit_us;
	bool by_scope; /* the limit is a timer in a branch of its own */
	unsigned int in_time, too_late;
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
	case LEAT_EV_SHUTDOWN:
		break;
	}
}

static void
fill(char *buf, char what)
{
	size_t i;

	for (i = 0; i < SIZE; i += STRIDE)
		buf[i] = what;
	buf[SIZE - 1] = what;
}

static void
assert_filled(const char *buf, char what)
{
	size_t i;

	for (i = 0; i < SIZE; i += STRIDE)
		assert_int_equal(buf[i], what);
	assert_int_equal(buf[SIZE - 1], what);
}

static int
receive(struct transfer *t, int i)
{
	struct leat_op op = { .type = LEAT_OP_RECV,
			      .peer = LEAT_PEER_ANY,
			      .buf = t->in[i],
			      .size = SIZE,
			      .mr = t->in_mr[i] };
	struct leat_op *ops[] = { &op };
	int ret = leat_task_op_run(t->rx.ep, ops, 1);

	if (ret == 0)
		assert_int_equal(op.len, SIZE);
	return ret;
}

static int
transmit(struct transfer *t)
{
	struct leat_op op = { .type = LEAT_OP_SEND,
			      .peer = t->tx.peer,
			      .buf = t->out,
			      .size = SIZE,
			      .mr = t->out_mr };
	struct leat_op *ops[] = { &op };

	return leat_task_op_run(t->tx.ep, ops, 1);
}

/* ---- the two kinds of time limits ---- */

static int
timer_branch(void *arg)
{
	int ret = leat_task_sleep(*(uint64_t *)arg);

	leat_scope_break(ret);
}

static int
receive_branch(void *arg)
{
	int ret = receive(arg, 0);

	leat_scope_break(ret);
}

static int
receive_limited(struct transfer *t)
{
	struct leat_scope s;
	int ret = 1;

	if (!t->by_scope)
		return leat_task_within(t->limit_us, receive(t, 0));
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "receive", receive_branch, t, &ret), 0);
	assert_int_equal(leat_scope_branch(&s, "timer", timer_branch, &t->limit_us, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	return ret == -ECANCELED ? -ETIMEDOUT : ret;
}

/* ---- the receiver's limit ---- */

static int
sender_branch(void *arg)
{
	return transmit(arg);
}

static int
receiver_branch(void *arg)
{
	struct transfer *t = arg;
	int ret;

	fill(t->in[0], 'a');
	fill(t->in[1], 'a');
	ret = receive_limited(t);
	if (ret == 0) {
		t->in_time++;
		assert_filled(t->in[0], 'x');
		return 0;
	}
	assert_int_equal(ret, -ETIMEDOUT);
	t->too_late++;
	/* in[0] belongs to this task again: the message must go to in[1] alone. */
	fill(t->in[0], 'm');
	assert_int_equal(receive(t, 1), 0);
	assert_filled(t->in[1], 'x');
	assert_filled(t->in[0], 'm');
	return 0;
}

static void
limit_of_receiver(struct transfer *t)
{
	static const uint64_t limits[LIMITS] = { 0,	1,     300,    1000,	3000,
						 10000, 30000, 100000, 60000000 };
	unsigned int i;

	for (i = 0; i < 2 * LIMITS; i++) {
		int sent = 1, received = 1;
		struct leat_scope s;

		t->limit_us = limits[i / 2];
		t->by_scope = i % 2;
		leat_scope_init(&s);
		assert_int_equal(leat_scope_branch(&s, "sender", sender_branch, t, &sent), 0);
		assert_int_equal(leat_scope_branch(&s, "receiver", receiver_branch, t, &received),
				 0);
		assert_int_equal(leat_scope_wait(&s), 0);
		assert_int_equal(sent, 0);
		assert_int_equal(received, 0);
	}
	print_message("%s: %u in time, %u too late\n", info.name, t->in_time, t->too_late);
	assert_true(t->in_time > 0 && t->too_late > 0);
}

/* ---- no sender ---- */

static void
nobody_sends(struct transfer *t)
{
	uint64_t begin = leat_now();

	t->limit_us = 20000;
	t->by_scope = false;
	assert_int_equal(receive_limited(t), -ETIMEDOUT);
	t->by_scope = true;
	assert_int_equal(receive_limited(t), -ETIMEDOUT);
	assert_true(leat_now() - begin >= leat_us_to_cycles(40000));
}

/* ---- the sender's limit ---- */

static int
limited_sender_branch(void *arg)
{
	return leat_task_within(5000, transmit(arg));
}

static int
late_receiver_branch(void *arg)
{
	assert_int_equal(leat_task_sleep(30000), 0);
	return leat_task_within(info.cancel_send ? 30000 : 60000000, receive(arg, 0));
}

static void
limit_of_sender(struct transfer *t)
{
	int sent = 1, received = 1, what = info.cancel_send ? -ETIMEDOUT : 0;
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "sender", limited_sender_branch, t, &sent), 0);
	assert_int_equal(leat_scope_branch(&s, "receiver", late_receiver_branch, t, &received), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	/* If the device can't recall the send, both the send and the receive succeed. */
	assert_int_equal(sent, what);
	assert_int_equal(received, what);
}

static int
main_task(void *arg)
{
	struct transfer *t = arg;
	char addr[LEAT_ADDR_MAX];

	assert_int_equal(leat_ep_listen(t->rx.ep, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(t->rx.ep, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(t->tx.ep, addr, NULL) >= 0);
	assert_int_equal(leat_task_within(30000000, leat_task_event_wait(&t->tx.connected)), 0);
	assert_int_equal(leat_task_within(30000000, leat_task_event_wait(&t->rx.connected)), 0);
	nobody_sends(t);
	limit_of_receiver(t);
	limit_of_sender(t);
	leat_reactor_stop(leat_reactor_self(), 10000000);
	return 0;
}

static char *
buffer(struct leat_ep *ep, struct leat_mr **mr)
{
	char *buf = malloc(SIZE);

	assert_non_null(buf);
	fill(buf, 'x');
	*mr = leat_mr_register(ep, buf, SIZE, LEAT_MR_LOCAL);
	if (*mr == NULL)
		fail_msg("%s", leat_err_msg());
	return buf;
}

static void
side_open(struct side *s, struct leat_tasks *ts, const char *name)
{
	struct leat_ep_conf conf = { .name = name, .max_peers = 4 };

	s->ep = leat_ep_create(leat_dev_get(0), &conf);
	if (s->ep == NULL || leat_tasks_ep_add(ts, s->ep, on_event, s) == NULL)
		fail_msg("%s", leat_err_msg());
}

static void
test_transfer_of_64_mib(void **state)
{
	struct leat_reactor *r = leat_reactor_create(NULL);
	struct leat_tasks *ts = leat_tasks_create(r, NULL);
	struct transfer t = { .in_time = 0 };
	struct leat_task *task;
	int i, ret = 1;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &info), 0);
	assert_true(info.max_msg >= SIZE);
	side_open(&t.tx, ts, "tx");
	side_open(&t.rx, ts, "rx");
	t.out = buffer(t.tx.ep, &t.out_mr);
	for (i = 0; i < 2; i++)
		t.in[i] = buffer(t.rx.ep, &t.in_mr[i]);
	task = leat_task_spawn(ts, "main", main_task, &t);
	assert_non_null(task);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_int_equal(leat_mr_deregister(t.out_mr), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(leat_mr_deregister(t.in_mr[i]), 0);
	assert_int_equal(leat_ep_destroy(t.tx.ep), 0);
	assert_int_equal(leat_ep_destroy(t.rx.ep), 0);
	free(t.out);
	free(t.in[0]);
	free(t.in[1]);
}

static int
group_setup(void **state)
{
	static char prog[] = "test_transfer", nopci[] = "--no-pci", notel[] = "--no-telemetry";
	static char dev[128];
	char *argv[] = { prog, nopci, notel, dev, NULL };

	(void)state;
	snprintf(dev, sizeof(dev), "--vdev=fabric_%s", vdev);
	if (leat_init(4, argv) < 0) {
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
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfer_of_64_mib),
	};

	if (argc > 1 && argv[1][0] != '-')
		vdev = argv[1];
	else
		vdev = strstr(argv[0], "ofi") != NULL ? "ofi0,provider=tcp,iface=lo" : "ring0";
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
