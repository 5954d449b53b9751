/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef BLOCK_TEST_H
#define BLOCK_TEST_H

/*
 * A reactor that blocks, over a driver that does what the test says, with a table of functions in
 * place of the operating system's: a sleep looks at the real epoll set, and advances the mock clock
 * if nothing is readable there.
 */

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_common.h>

#include <leat_fabric.h>

#include "mock_driver.h"
#include "reactor_pvt.h"
#include "reactor_test.h"

static struct {
	unsigned int blocks, sleeps, pokes;
	uint64_t ns;	 /* timeout of the last sleep */
	int poke_fd;	 /* eventfd of a wake-up that is still to be written */
	bool poke_later; /* the test itself writes wake-ups */
	void (*meanwhile)(void);
} os;

static inline void
poke(int fd)
{
	static const uint64_t one = 1;

	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static inline void
os_poke(int fd)
{
	os.pokes++;
	if (os.poke_later)
		os.poke_fd = fd;
	else
		poke(fd);
}

static inline int
os_block(int epfd, struct epoll_event *ev, int n, uint64_t ns)
{
	int got;

	os.blocks++;
	os.ns = ns;
	if (os.meanwhile != NULL)
		os.meanwhile();
	got = epoll_wait(epfd, ev, n, 0);
	assert_true(got >= 0);
	if (got == 0) {
		assert_true(ns != REACTOR_WAIT_FOREVER);
		test_clock += ns;
	}
	return got;
}

static inline void
os_wait(uint32_t *word, uint32_t val, uint64_t ns)
{
	assert_int_equal(*word, val);
	os.sleeps++;
	test_clock += ns;
}

static inline void
os_wake(uint32_t *word)
{
	(void)word;
}

static inline void
os_yield(void)
{
}

static inline uint64_t
os_preemptions(void)
{
	return 0;
}

static const struct reactor_sys os_table = {
	.wait = os_wait,
	.wake = os_wake,
	.block = os_block,
	.poke = os_poke,
	.yield = os_yield,
	.preemptions = os_preemptions,
};

static const struct reactor_sys *real;

static struct {
	struct leat_reactor *r;
	struct leat_ep *ep;
	struct leat_poller *p;
	unsigned int ops, messages, shutdowns;
	bool remove_on_event;
} app;

#define OPS 100

static struct leat_op ops[OPS];

static inline void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **done, uint16_t n, uint64_t now)
{
	(void)arg;
	(void)ep;
	(void)done;
	(void)now;
	app.ops += n;
}

static inline void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	(void)arg;
	(void)ep;
	if (ev->type == LEAT_EV_SHUTDOWN)
		app.shutdowns++;
}

static inline void
on_message(void *arg)
{
	(void)arg;
	app.messages++;
}

static inline void
post_recvs(unsigned int n)
{
	unsigned int i;

	memset(ops, 0, sizeof(ops));
	for (i = 0; i < n; i++) {
		struct leat_op *op = &ops[i];

		op->type = LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		assert_int_equal(leat_ep_post(app.ep, &op, 1), 1);
	}
}

static inline struct leat_ep *
ep_new(bool wait)
{
	struct leat_ep_conf conf = {
		.name = "the-ep", .rx_depth = OPS, .max_peers = 2, .wait = wait
	};
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);

	assert_non_null(ep);
	mock.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_true(mock.fd >= 0);
	return ep;
}

static inline struct leat_reactor *
reactor_new(void)
{
	struct leat_reactor_conf conf = {
		.name = "r",
		.events_us = 1000,
		.idle = { .policy = LEAT_IDLE_BLOCK, .spin_us = 1, .sleep_max_us = 100 },
	};
	struct leat_reactor *r = leat_reactor_create(&conf);

	assert_non_null(r);
	return r;
}

static inline int
setup(void **state)
{
	int ret = test_clock_setup(state);

	memset(&os, 0, sizeof(os));
	memset(&app, 0, sizeof(app));
	real = reactor_sys;
	reactor_sys = &os_table;
	mock_wait = true;
	app.r = reactor_new();
	app.ep = ep_new(true);
	app.p = leat_reactor_ep_add(app.r, app.ep, on_ops, on_event, NULL);
	assert_non_null(app.p);
	return ret;
}

static inline int
teardown(void **state)
{
	int fd = mock.fd;

	(void)state;
	mock.step = NULL;
	os.meanwhile = NULL;
	os.poke_later = false;
	assert_int_equal(mock.nb_arm, mock.nb_disarm);
	if (app.r != NULL)
		assert_int_equal(leat_reactor_destroy(app.r), 0);
	if (app.ep != NULL)
		assert_int_equal(leat_ep_close(app.ep, 0, NULL, NULL), 0);
	assert_int_equal(close(fd), 0);
	reactor_sys = real;
	return 0;
}

static inline void
turns(unsigned int n)
{
	while (n-- > 0) {
		assert_true(leat_reactor_turn(app.r) >= 0);
		test_clock += 2 * US;
	}
}

/* Run turns until the reactor blocks in each of them. */
static inline void
turn_until_blocked(void)
{
	turns(3);
	assert_true(os.blocks > 0);
}

static inline struct leat_reactor_stats
stats(void)
{
	struct leat_reactor_stats s;

	leat_reactor_stats_get(app.r, &s);
	assert_int_equal(s.blocks, s.wake_events + s.wake_messages + s.wake_timeouts);
	return s;
}

#endif /* BLOCK_TEST_H */
