/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Before a reactor idles it looks for ready tasks, whatever its pollers returned: under each idle
 * policy, and for each way in which a task becomes ready.
 */

#include "reactor_pvt.h"
#include "reactor_test.h"

#include <sys/epoll.h>

static unsigned int idled; /* system calls that give up the CPU */

static void
os_wait(uint32_t *word, uint32_t val, uint64_t ns)
{
	(void)word;
	(void)val;
	idled++;
	test_clock += ns;
}

static int
os_block(int epfd, struct epoll_event *ev, int n, uint64_t ns)
{
	(void)epfd;
	(void)ev;
	(void)n;
	idled++;
	test_clock += ns == REACTOR_WAIT_FOREVER ? MS : ns;
	return 0;
}

static void
os_wake(uint32_t *word)
{
	(void)word;
}

static void
os_poke(int fd)
{
	(void)fd;
}

static void
os_yield(void)
{
	idled++;
}

static uint64_t
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

/*
 * The worker is called first in a turn. Later in the turn one of these gives work to the worker, or
 * to a poller whose function is once(). All pollers return 0, as if they had done nothing.
 */
enum giver { POLLER, TICK, MESSAGE, TIMER, WAKE, NEW_POLLER, RESUMED, GIVERS };

static struct {
	struct leat_reactor *r;
	struct leat_poller *worker, *paused;
	struct leat_timer timer;
	enum giver giver;
	bool give; /* give work in this turn */
	bool work;
	bool found; /* work that once() is to find */
	unsigned int done;
} app;

static int
worker(void *arg, uint64_t now)
{
	int ret = app.work;

	(void)arg;
	(void)now;
	app.done += app.work;
	app.work = false;
	return ret;
}

static bool
worker_ready(void *arg)
{
	(void)arg;
	return app.work;
}

static int
once(void *arg, uint64_t now)
{
	int ret = app.found;

	(void)arg;
	(void)now;
	app.done += app.found;
	app.found = false;
	return ret;
}

static void
on_message(void *arg)
{
	(void)arg;
	app.work = true;
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	(void)now;
	app.work = true;
}

static void
give(void)
{
	app.give = false;
	switch (app.giver) {
	case POLLER:
	case TICK:
		app.work = true;
		break;
	case MESSAGE:
		assert_int_equal(leat_reactor_call(app.r, on_message, NULL), 0);
		break;
	case TIMER:
		leat_timer_start(app.r, &app.timer, 0);
		break;
	case WAKE:
		app.found = true;
		leat_reactor_wake(app.r);
		break;
	case NEW_POLLER:
		app.found = true;
		assert_non_null(leat_reactor_poller_add(app.r, "new", once, NULL, 0));
		break;
	case RESUMED:
		app.found = true;
		assert_int_equal(leat_poller_resume(app.paused), 0);
		break;
	case GIVERS:
		break;
	}
}

static int
giver(void *arg, uint64_t now)
{
	(void)now;
	if (app.give && (arg != NULL) == (app.giver == TICK))
		give();
	return 0;
}

static void
round_of(enum leat_idle_policy policy, enum giver what)
{
	struct leat_reactor_conf conf = {
		.name = "r",
		.idle = {
			.policy = policy,
			.spin_us = 1,
			.sleep_min_us = 500,
			.sleep_max_us = 500,
		},
	};
	struct leat_poller *p;
	unsigned int i;

	memset(&app, 0, sizeof(app));
	app.giver = what;
	app.r = leat_reactor_create(&conf);
	assert_non_null(app.r);
	leat_timer_init(&app.timer, on_timer, NULL);
	app.worker = leat_reactor_poller_add(app.r, "worker", worker, NULL, 0);
	assert_non_null(app.worker);
	assert_int_equal(leat_poller_local_set(app.worker), 0);
	assert_int_equal(leat_poller_ready_set(app.worker, worker_ready), 0);
	if (what == WAKE) {
		p = leat_reactor_poller_add(app.r, "finder", once, NULL, 0);
		assert_non_null(p);
		assert_int_equal(leat_poller_local_set(p), 0);
	}
	if (what == RESUMED) {
		app.paused = leat_reactor_poller_add(app.r, "paused", once, NULL, 0);
		assert_non_null(app.paused);
		assert_int_equal(leat_poller_local_set(app.paused), 0);
		assert_int_equal(leat_poller_pause(app.paused), 0);
	}
	p = leat_reactor_poller_add(app.r, "giver", giver, NULL, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_local_set(p), 0);
	assert_non_null(leat_reactor_poller_add(app.r, "tick", giver, &app, 10));

	/* Run turns until the reactor idles in each of them. */
	for (i = 0; i < 20; i++) {
		test_turns(app.r, 1);
		test_clock += 2 * US;
	}
	idled = 0;
	test_turns(app.r, 1);
	assert_int_equal(idled, policy > LEAT_IDLE_PAUSE);
	assert_int_equal(leat_reactor_idle_effective(app.r), policy);

	test_clock += 20 * US;
	idled = 0;
	app.give = true;
	for (i = 0; i < 3 && app.done == 0; i++) {
		int ret = leat_reactor_turn(app.r);

		assert_true(ret >= 0);
		/* A turn that leaves work returns 1: after 0, a program's own loop may sleep. */
		if (app.work || app.found)
			assert_int_equal(ret, 1);
	}
	assert_int_equal(app.done, 1);
	assert_int_equal(idled, 0);
	/* The turn that found the work returned 1; after it there is no more. */
	assert_int_equal(leat_reactor_turn(app.r), 0);
	assert_int_equal(leat_reactor_destroy(app.r), 0);
}

static void
test_ready_before_idle(void **state)
{
	static const enum leat_idle_policy policies[] = { LEAT_IDLE_SPIN, LEAT_IDLE_PAUSE,
							  LEAT_IDLE_YIELD, LEAT_IDLE_SLEEP,
							  LEAT_IDLE_BLOCK };
	unsigned int i;
	int what;

	(void)state;
	real = reactor_sys;
	reactor_sys = &os_table;
	for (i = 0; i < RTE_DIM(policies); i++)
		for (what = 0; what < GIVERS; what++) {
			test_clock_setup(NULL);
			round_of(policies[i], (enum giver)what);
		}
	reactor_sys = real;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ready_before_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
