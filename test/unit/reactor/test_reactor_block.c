/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocking: what wakes a reactor, how sleep is counted, pollers that can't wake it, endpoints that
 * come and go.
 */

#include <sys/resource.h>

#include "../task/log_test.h"
#include "block_test.h"

/* ---- timeouts, and how the time asleep is counted ---- */

static unsigned int fired;

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	assert_int_equal(now, test_clock);
	fired++;
}

static void
test_timeouts(void **state)
{
	struct leat_reactor_stats before, after;
	struct leat_timer timer;
	uint64_t asleep, expiry;

	(void)state;
	turn_until_blocked();
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_BLOCK);
	assert_int_equal(os.sleeps, 0);

	/*
	 * The reactor sleeps until the next look at events, and the whole time is counted as sleep.
	 */
	before = stats();
	asleep = test_clock;
	assert_int_equal(leat_reactor_turn(app.r), 0);
	asleep = test_clock - asleep;
	assert_in_range(asleep, 900 * US, 1000 * US);
	after = stats();
	assert_int_equal(after.blocks, before.blocks + 1);
	assert_int_equal(after.wake_timeouts, before.wake_timeouts + 1);
	assert_int_equal(after.sleep_cycles, before.sleep_cycles + asleep);
	assert_int_equal(after.idle_cycles, before.idle_cycles);

	/* The reactor sleeps until a timer expires. */
	turns(1);
	leat_timer_init(&timer, on_timer, NULL);
	leat_timer_start(app.r, &timer, 300);
	expiry = timer.node.expiry;
	fired = 0;
	while (fired == 0)
		assert_true(leat_reactor_turn(app.r) >= 0);
	assert_int_equal(test_clock, expiry);

	/* A stopping reactor does not block: it asks pollers in each turn whether they are done. */
	post_recvs(1);
	leat_reactor_stop(app.r, 1000000);
	before = stats();
	assert_int_equal(test_turns_until_stopped(app.r), -ESHUTDOWN);
	assert_int_equal(stats().blocks, before.blocks);
}

/* After the timer `near`, the reactor blocks at most twice until `far` expires 100 s later. */
static void
test_far_timer_wakes_rarely(void **state)
{
	struct leat_timer far, near;
	unsigned int blocks;
	uint64_t expiry;

	(void)state;
	assert_int_equal(leat_poller_remove(app.p), 0);
	app.p = NULL;
	leat_timer_init(&near, on_timer, NULL);
	leat_timer_init(&far, on_timer, NULL);
	leat_timer_start(app.r, &far, 100 * 1000 * 1000);
	expiry = far.node.expiry;
	leat_timer_start(app.r, &near, 1000);
	fired = 0;
	while (fired == 0)
		turns(1);
	blocks = os.blocks;
	while (fired == 1)
		turns(1);
	assert_in_range(test_clock, expiry, expiry + 4 * US);
	assert_in_range(os.blocks - blocks, 1, 2);
}

/* ---- requests of other threads wake the reactor ---- */

static void
ask_message(void)
{
	os.meanwhile = NULL;
	assert_int_equal(leat_reactor_call(app.r, on_message, NULL), 0);
}

static void
ask_spin(void)
{
	const struct leat_idle_conf spin = { .policy = LEAT_IDLE_SPIN };

	os.meanwhile = NULL;
	assert_int_equal(leat_reactor_idle_set(app.r, &spin), 0);
}

static void
ask_stop(void)
{
	os.meanwhile = NULL;
	leat_reactor_stop(app.r, 1000);
}

static void
test_woken(void **state)
{
	const struct leat_idle_conf block = { .policy = LEAT_IDLE_BLOCK, .spin_us = 1 };
	struct leat_reactor_stats s;
	uint64_t now;

	(void)state;
	turn_until_blocked();
	s = stats();
	os.meanwhile = ask_message;
	now = test_clock;
	/* The turn returns 1, since the message that woke the reactor waits for the next turn. */
	assert_int_equal(leat_reactor_turn(app.r), 1);
	assert_int_equal(test_clock, now);
	assert_int_equal(os.pokes, 1);
	assert_int_equal(stats().wake_messages, s.wake_messages + 1);
	assert_int_equal(leat_reactor_turn(app.r), 1);
	assert_int_equal(app.messages, 1);

	/* The reactor is awake: a message needs no system call to wake it. */
	assert_int_equal(leat_reactor_call(app.r, on_message, NULL), 0);
	assert_int_equal(os.pokes, 1);
	turns(4);

	os.meanwhile = ask_spin;
	turns(2);
	assert_int_equal(os.pokes, 2);
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_SPIN);
	assert_int_equal(leat_reactor_idle_set(app.r, &block), 0);
	turns(4);

	os.meanwhile = ask_stop;
	turns(1);
	assert_int_equal(os.pokes, 3);
	assert_int_equal(test_turns_until_stopped(app.r), -ESHUTDOWN);
	assert_int_equal(app.shutdowns, 1);
}

/* ---- pollers that can't wake the reactor ---- */

static void
test_fallback(void **state)
{
	struct test_poller t = { .ret = 0 };
	struct leat_poller *p2;
	struct leat_ep *plain;
	unsigned int blocks, sleeps;

	(void)state;
	turn_until_blocked();
	blocks = os.blocks;
	test_poller_add(app.r, &t, "busybody", 0);
	turns(3);
	assert_int_equal(os.blocks, blocks);
	assert_true(os.sleeps > 0);
	turns(64);
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_SLEEP);
	assert_true(t.p->told_wait);
	assert_false(app.p->told_wait);

	/* A periodic poller is called by a timer, so it does not keep the reactor from blocking. */
	assert_int_equal(leat_poller_remove(t.p), 0);
	test_poller_add(app.r, &t, "now and then", 10000);
	sleeps = os.sleeps;
	turns(64);
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_BLOCK);
	assert_true(os.blocks > blocks);
	/* The reactor sleeps until the next housekeeping, and blocks from then on. */
	assert_in_range(os.sleeps, sleeps, sleeps + 64);

	/* `plain` is opened without leat_ep_conf.wait, so the reactor can't block with it. */
	assert_int_equal(close(mock.fd), 0);
	assert_int_equal(leat_poller_remove(app.p), 0);
	assert_int_equal(leat_ep_close(app.ep, 0, NULL, NULL), 0);
	app.ep = NULL;
	plain = ep_new(false);
	assert_int_equal(leat_ep_fd(plain), -ENOENT);
	assert_non_null(strstr(leat_err_msg(), "leat_ep_conf.wait"));
	assert_int_equal(leat_ep_arm(plain), -ENOENT);
	leat_ep_disarm(plain);
	mock_wait = false;
	assert_int_equal(leat_ep_fd(plain), -EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "fabric_mock"));
	p2 = leat_reactor_ep_add(app.r, plain, on_ops, on_event, NULL);
	assert_non_null(p2);
	blocks = os.blocks;
	turns(70);
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_SLEEP);
	assert_int_equal(os.blocks, blocks);
	assert_true(p2->told_wait);
	assert_int_equal(leat_poller_pause(p2), 0);
	turns(70);
	assert_true(os.blocks > blocks);
	assert_int_equal(leat_poller_remove(p2), 0);
	app.ep = plain;
}

/* Without an epoll set of its own the reactor can't block, which is logged once, with the cause. */
static void
test_no_set(void **state)
{
	static struct leat_timer timer;
	struct test_poller t = { .ret = 0 };
	struct rlimit old, none;
	const char *at;

	(void)state;
	leat_timer_init(&timer, on_timer, NULL);
	leat_timer_start_periodic(app.r, &timer, 5000);
	assert_int_equal(leat_poller_remove(app.p), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	log_begin();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turns(5);
	/* After a change of the pollers the reactor tries again. */
	test_poller_add(app.r, &t, "now and then", 10000);
	turns(5);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	log_end();
	assert_int_equal(os.blocks, 0);
	assert_true(os.sleeps > 0);
	at = strstr(logged, "idle policy block: no epoll set (Too many open files)");
	assert_non_null(at);
	assert_null(strstr(at + 1, "idle policy block"));
	log_free();

	assert_int_equal(leat_poller_remove(t.p), 0);
	turns(5);
	assert_true(os.blocks > 0);
}

static void
test_refused(void **state)
{
	struct leat_ep_conf conf = { .wait = true };
	struct leat_dev_info info;

	(void)state;
	mock_wait = false;
	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &info), 0);
	assert_false(info.wait);
	assert_null(leat_ep_create(leat_dev_get(0), &conf));
	assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "no wait object"));
}

/* ---- endpoints that come and go ---- */

static void
remove_it(void *arg)
{
	(void)arg;
	assert_false(mock.armed);
	assert_int_equal(leat_poller_remove(app.p), 0);
}

static void
ask_remove(void)
{
	os.meanwhile = NULL;
	assert_true(mock.armed);
	assert_int_equal(leat_reactor_call(app.r, remove_it, NULL), 0);
}

/*
 * Remove the endpoint while the reactor sleeps and the endpoint is armed, with a completion ready.
 */
static void
ask_remove_busy(void)
{
	ask_remove();
	mock_arrive();
}

static void
removed(void (*how)(void))
{
	struct leat_reactor_stats s;
	unsigned int arms;

	turn_until_blocked();
	post_recvs(1);
	os.meanwhile = how;
	turns(2);
	assert_int_equal(mock.nb_arm, mock.nb_disarm);
	arms = mock.nb_arm;
	turns(3);
	/* The endpoint's descriptor does not wake the reactor any more. */
	poke(mock.fd);
	s = stats();
	turns(1);
	test_poller_add(app.r, &(struct test_poller){ .ret = 0 }, "tick", 1000);
	assert_int_equal(mock.nb_arm, arms);
	assert_int_equal(stats().wake_events, s.wake_events);
	assert_int_equal(leat_reactor_destroy(app.r), 0);
	app.r = NULL;
}

static void
keep_a_timer(struct leat_timer *timer)
{
	leat_timer_init(timer, on_timer, NULL);
	leat_timer_start_periodic(app.r, timer, 5000);
}

static void
test_removed(void **state)
{
	static struct leat_timer timer;

	(void)state;
	keep_a_timer(&timer);
	removed(ask_remove);
}

static void
test_removed_busy(void **state)
{
	static struct leat_timer timer;

	(void)state;
	keep_a_timer(&timer);
	removed(ask_remove_busy);
}

static void
test_paused(void **state)
{
	static struct leat_timer timer;
	struct leat_reactor_stats s;
	unsigned int arms;

	(void)state;
	keep_a_timer(&timer);
	turn_until_blocked();
	assert_int_equal(leat_poller_pause(app.p), 0);
	turns(2);
	arms = mock.nb_arm;
	poke(mock.fd);
	s = stats();
	turns(5);
	assert_int_equal(mock.nb_arm, arms);
	assert_int_equal(stats().wake_events, s.wake_events);
	assert_int_equal(leat_poller_resume(app.p), 0);
	turns(3);
	assert_int_equal(stats().wake_events, s.wake_events + 1);
	assert_true(mock.nb_arm > arms);
}

/* An endpoint that is shut down has no more events, whatever its descriptor does. */
static void
test_shut(void **state)
{
	static struct leat_timer timer;
	struct leat_reactor_stats s;

	(void)state;
	keep_a_timer(&timer);
	turn_until_blocked();
	assert_int_equal(leat_ep_shutdown(app.ep, 1000), 0);
	turns(5);
	assert_int_equal(app.shutdowns, 1);
	poke(mock.fd);
	s = stats();
	turns(5);
	assert_int_equal(stats().wake_events, s.wake_events);
	assert_true(stats().blocks > s.blocks);
	assert_int_equal(leat_poller_remove(app.p), 0);
	assert_int_equal(leat_ep_destroy(app.ep), 0);
	app.ep = NULL;
}

/* If leat_ep_arm() returns -EBUSY, the reactor sleeps for 100 us at most. */
static void
test_busy(void **state)
{
	unsigned int i;

	(void)state;
	turn_until_blocked();
	mock.arm_ret = -EBUSY;
	for (i = 0; i < 10; i++) {
		turns(1);
		assert_in_range(os.ns, 1, 100 * US);
	}
	mock.arm_ret = 0;
	turns(2);
	assert_in_range(os.ns, 101 * US, 1000 * US);
}

/*
 * The endpoint's descriptor is readable although no op is complete: the next turn reads the
 * endpoint's events, and returns 0.
 */
static unsigned int progress;

static void
poke_it(void)
{
	os.meanwhile = NULL;
	progress = mock.nb_progress;
	poke(mock.fd);
}

static void
test_events_follow(void **state)
{
	(void)state;
	turn_until_blocked();
	os.meanwhile = poke_it;
	turns(1);
	assert_int_equal(mock.nb_progress, progress);
	assert_int_equal(leat_reactor_turn(app.r), 0);
	assert_int_equal(mock.nb_progress, progress + 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_far_timer_wakes_rarely),
		CASE(test_timeouts),
		CASE(test_woken),
		CASE(test_fallback),
		CASE(test_no_set),
		CASE(test_refused),
		CASE(test_removed),
		CASE(test_removed_busy),
		CASE(test_paused),
		CASE(test_shut),
		CASE(test_busy),
		CASE(test_events_follow),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
