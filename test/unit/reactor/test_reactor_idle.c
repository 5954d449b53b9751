/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Idle policies, with a table of functions in place of the operating system's: a sleep advances the
 * mock clock, and runs what another thread would do meanwhile.
 */

#include <pthread.h>
#include <sched.h>

#include "reactor_pvt.h"
#include "reactor_test.h"

static struct {
	unsigned int waits, wakes, yields;
	uint64_t slept[64]; /* requested times, ns */
	uint64_t preemptions;
	void (*meanwhile)(void *arg); /* called in the next wait */
	void *arg;
	bool woken;
} os;

static void
os_wait(uint32_t *word, uint32_t val, uint64_t ns)
{
	assert_int_equal(*word, val);
	if (os.waits < RTE_DIM(os.slept))
		os.slept[os.waits] = ns;
	os.waits++;
	os.woken = false;
	if (os.meanwhile != NULL) {
		void (*f)(void *arg) = os.meanwhile;

		os.meanwhile = NULL;
		test_clock += 100;
		f(os.arg);
	}
	/* One cycle of the mock clock is a nanosecond. */
	if (!os.woken)
		test_clock += ns;
}

static void
os_wake(uint32_t *word)
{
	(void)word;
	os.wakes++;
	os.woken = true;
}

static void
os_yield(void)
{
	os.yields++;
	test_clock += 500;
}

static uint64_t
os_preemptions(void)
{
	return os.preemptions;
}

static const struct reactor_sys os_table = {
	.wait = os_wait,
	.wake = os_wake,
	.yield = os_yield,
	.preemptions = os_preemptions,
};

static const struct reactor_sys *real;

static int
setup(void **state)
{
	memset(&os, 0, sizeof(os));
	real = reactor_sys;
	reactor_sys = &os_table;
	return test_clock_setup(state);
}

static int
teardown(void **state)
{
	(void)state;
	reactor_sys = real;
	return 0;
}

static struct leat_reactor *
reactor(const struct leat_idle_conf *idle)
{
	struct leat_reactor_conf conf = { .name = "r", .idle = *idle };
	struct leat_reactor *r = leat_reactor_create(&conf);

	assert_non_null(r);
	return r;
}

static void
test_names(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < LEAT_IDLE_POLICIES; i++)
		assert_int_equal(leat_idle_policy_parse(leat_idle_policy_name(i)), i);
	assert_string_equal(leat_idle_policy_name(LEAT_IDLE_POLICIES), "?");
	assert_int_equal(leat_idle_policy_parse("doze"), -EINVAL);
	assert_non_null(strstr(leat_err_msg(), "sleep"));
}

static void
test_spin_and_pause(void **state)
{
	struct leat_idle_conf conf = { .policy = LEAT_IDLE_SPIN };
	struct leat_reactor *r = reactor(&conf);
	struct leat_reactor_stats s;

	(void)state;
	test_turns(r, 500);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_SPIN);
	conf.policy = LEAT_IDLE_PAUSE;
	assert_int_equal(leat_reactor_idle_set(r, &conf), 0);
	test_turns(r, 1);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_PAUSE);
	test_turns(r, 500);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(os.waits + os.yields, 0);
	assert_int_equal(s.sleep_cycles, 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_yield(void **state)
{
	struct leat_idle_conf conf = { .policy = LEAT_IDLE_YIELD };
	struct leat_reactor *r = reactor(&conf);
	struct test_poller p = { .ret = 0, .cost = 100 };
	struct leat_reactor_stats s;

	(void)state;
	test_poller_add(r, &p, "p", 0);
	test_turns(r, 10);
	assert_int_equal(os.yields, 10);
	p.ret = 1;
	test_turns(r, 10);
	assert_int_equal(os.yields, 10);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.yields, 10);
	/* The 500 cycles of each yield are counted as sleep, not as idle. */
	assert_int_equal(s.sleep_cycles, 10 * 500);
	assert_int_equal(s.idle_cycles, 10 * 100);
	assert_int_equal(s.busy_cycles, 10 * 100);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static const struct leat_idle_conf sleepy = {
	.policy = LEAT_IDLE_SLEEP,
	.spin_us = 20,
	.sleep_min_us = 10,
	.sleep_max_us = 100,
};

static void
test_sleep_grows(void **state)
{
	static const uint64_t want[] = { 10, 20, 40, 80, 100, 100 };
	struct leat_reactor *r = reactor(&sleepy);
	struct test_poller p = { .ret = 0, .cost = US };
	struct leat_reactor_stats s;
	unsigned int i;

	(void)state;
	test_poller_add(r, &p, "p", 0);
	/* The reactor spins at first. */
	test_turns(r, 20);
	assert_int_equal(os.waits, 0);
	test_turns(r, 6);
	assert_int_equal(os.waits, 6);
	for (i = 0; i < 6; i++)
		assert_int_equal(os.slept[i], want[i] * US);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.sleeps, 6);
	assert_int_equal(s.sleep_cycles, 350 * US);
	assert_int_equal(s.idle_cycles, 26 * US);
	assert_int_equal(s.turn_max_cycles, US);

	/* After work, the policy starts again from the beginning. */
	p.ret = 1;
	test_turns(r, 3);
	p.ret = 0;
	test_turns(r, 20);
	assert_int_equal(os.waits, 6);
	test_turns(r, 1);
	assert_int_equal(os.waits, 7);
	assert_int_equal(os.slept[6], 10 * US);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static unsigned int fired;

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	assert_int_equal(now, test_clock);
	fired++;
}

/* Sleeps end when a timer is due, to the nanosecond; periodic pollers are timers. */
static void
test_sleep_until_timer(void **state)
{
	struct leat_reactor *r = reactor(&sleepy);
	struct leat_timer timer;
	uint64_t expiry;

	(void)state;
	fired = 0;
	test_turns(r, 1);
	test_clock += 20 * US;
	test_turns(r, 6);
	assert_int_equal(os.waits, 6);
	leat_timer_init(&timer, on_timer, NULL);
	leat_timer_start(r, &timer, 33);
	expiry = timer.node.expiry;
	/* The timer wheel may wake the reactor before the expiry, too. */
	while (fired == 0)
		test_turns(r, 1);
	assert_int_equal(test_clock, expiry);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static struct leat_reactor *target;
static unsigned int ran;
static uint64_t ran_at;

static void
message(void *arg)
{
	(void)arg;
	ran++;
	ran_at = test_clock;
}

static void
send_message(void *arg)
{
	(void)arg;
	assert_int_equal(leat_reactor_call(target, message, NULL), 0);
}

static void
to_spin(void *arg)
{
	const struct leat_idle_conf spin = { .policy = LEAT_IDLE_SPIN };

	(void)arg;
	assert_int_equal(leat_reactor_idle_set(target, &spin), 0);
}

static void
stop_it(void *arg)
{
	(void)arg;
	leat_reactor_stop(target, 0);
}

/* Every request to a sleeping reactor wakes it, and is served in the turn that follows. */
static void
test_woken(void **state)
{
	const struct leat_idle_conf deep = { .policy = LEAT_IDLE_SLEEP,
					     .spin_us = 1,
					     .sleep_min_us = 1000000,
					     .sleep_max_us = 1000000 };
	struct leat_reactor *r = reactor(&deep);
	uint64_t asleep;

	(void)state;
	ran = 0;
	target = r;
	test_turns(r, 1);
	asleep = test_clock + 1 * US;
	test_clock = asleep;
	os.meanwhile = send_message;
	test_turns(r, 1);
	assert_int_equal(os.waits, 1);
	assert_int_equal(os.wakes, 1);
	assert_int_equal(ran, 0);
	assert_int_equal(test_clock, asleep + 100);
	test_turns(r, 1);
	assert_int_equal(ran, 1);
	assert_int_equal(ran_at, asleep + 100);

	/* The reactor is not asleep: a message needs no system call to wake it. */
	send_message(NULL);
	assert_int_equal(os.wakes, 1);
	test_turns(r, 1);
	assert_int_equal(ran, 2);

	test_turns(r, 1);
	test_clock += 1 * US;
	os.meanwhile = stop_it;
	test_turns(r, 1);
	assert_int_equal(os.wakes, 2);
	assert_int_equal(leat_reactor_turn(r), 0);
	assert_int_equal(leat_reactor_turn(r), -ESHUTDOWN);
	assert_int_equal(leat_reactor_destroy(r), 0);

	target = r = reactor(&deep);
	test_turns(r, 1);
	test_clock += 1 * US;
	os.meanwhile = to_spin;
	test_turns(r, 1);
	test_turns(r, 1);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_SPIN);
	assert_int_equal(os.waits, 3);
	test_turns(r, 10);
	assert_int_equal(os.waits, 3);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static int
send_to_self(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	if (ran == 0)
		send_message(NULL);
	return 0;
}

/* A message that arrives in the turn itself keeps the reactor from sleeping. */
static void
test_no_sleep_with_work(void **state)
{
	struct leat_reactor *r = reactor(&sleepy);

	(void)state;
	ran = 0;
	target = r;
	test_turns(r, 1);
	test_clock += 1000 * US;
	assert_non_null(leat_reactor_poller_add(r, "p", send_to_self, NULL, 0));
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(ran, 1);
	assert_int_equal(os.waits, 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_set_and_get(void **state)
{
	struct leat_idle_conf conf = { .policy = LEAT_IDLE_SLEEP };
	struct leat_reactor *r = reactor(&conf);

	(void)state;
	leat_reactor_idle_get(r, &conf);
	assert_int_equal(conf.policy, LEAT_IDLE_SLEEP);
	assert_int_equal(conf.spin_us, 50);
	assert_int_equal(conf.sleep_min_us, 10);
	assert_int_equal(conf.sleep_max_us, 250);

	/* If one bound of the sleep is given, the default of the second bound is adjusted to it. */
	conf = (struct leat_idle_conf){ .policy = LEAT_IDLE_SLEEP, .sleep_max_us = 3 };
	assert_int_equal(leat_reactor_idle_set(r, &conf), 0);
	leat_reactor_idle_get(r, &conf);
	assert_int_equal(conf.sleep_min_us, 3);
	conf = (struct leat_idle_conf){ .policy = LEAT_IDLE_SLEEP, .sleep_min_us = 1000 };
	assert_int_equal(leat_reactor_idle_set(r, &conf), 0);
	leat_reactor_idle_get(r, &conf);
	assert_int_equal(conf.sleep_max_us, 1000);

	conf = (struct leat_idle_conf){ .sleep_min_us = 2, .sleep_max_us = 1 };
	assert_int_equal(leat_reactor_idle_set(r, &conf), -EINVAL);
	conf = (struct leat_idle_conf){ .policy = (enum leat_idle_policy)77 };
	assert_int_equal(leat_reactor_idle_set(r, &conf), -EINVAL);
	leat_reactor_idle_get(r, &conf);
	assert_int_equal(conf.sleep_max_us, 1000);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static cpu_set_t all_cpus;

static int
pin(int cpus)
{
	cpu_set_t set;
	int cpu;

	CPU_ZERO(&set);
	for (cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&set) < cpus; cpu++)
		if (CPU_ISSET(cpu, &all_cpus))
			CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* On one CPU the loop a spins. When b shares the CPU, both yield; when b ends, a spins again. */
static void
test_auto_crowded(void **state)
{
	const struct leat_idle_conf automatic = { .policy = LEAT_IDLE_AUTO };
	struct leat_reactor *a = reactor(&automatic), *b = reactor(&automatic);

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all_cpus), &all_cpus), 0);
	assert_int_equal(pin(1), 0);
	assert_int_equal(leat_reactor_idle_effective(a), LEAT_IDLE_YIELD);
	test_turns(a, 1);
	assert_int_equal(leat_reactor_idle_effective(a), LEAT_IDLE_SPIN);
	assert_int_equal(os.yields, 0);
	test_turns(b, 1);
	assert_int_equal(leat_reactor_idle_effective(b), LEAT_IDLE_YIELD);
	test_turns(a, 64);
	assert_int_equal(leat_reactor_idle_effective(a), LEAT_IDLE_YIELD);
	assert_true(os.yields > 0);
	assert_int_equal(leat_reactor_destroy(b), 0);
	test_turns(a, 64);
	assert_int_equal(leat_reactor_idle_effective(a), LEAT_IDLE_SPIN);
	assert_int_equal(leat_reactor_destroy(a), 0);

	/* Two loops that float over two CPUs spin. */
	if (CPU_COUNT(&all_cpus) >= 2) {
		assert_int_equal(pin(2), 0);
		a = reactor(&automatic);
		b = reactor(&automatic);
		test_turns(a, 1);
		test_turns(b, 1);
		test_turns(a, 64);
		assert_int_equal(leat_reactor_idle_effective(a), LEAT_IDLE_SPIN);
		assert_int_equal(leat_reactor_idle_effective(b), LEAT_IDLE_SPIN);
		assert_int_equal(leat_reactor_destroy(a), 0);
		assert_int_equal(leat_reactor_destroy(b), 0);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all_cpus), &all_cpus), 0);
}

static void
window(struct leat_reactor *r, unsigned int preemptions)
{
	os.preemptions += preemptions;
	test_clock += 50000 * US;
	test_turns(r, 64);
}

/*
 * At least 4 preemptions in one window show that another process spins on the CPU: the loop yields,
 * until 20 windows in a row had at most one preemption each.
 */
static void
test_auto_preempted(void **state)
{
	const struct leat_idle_conf automatic = { .policy = LEAT_IDLE_AUTO };
	struct leat_reactor *r = reactor(&automatic);
	unsigned int i;

	(void)state;
	os.preemptions = 1000; /* preemptions before the test */
	test_turns(r, 64);
	for (i = 0; i < 10; i++)
		window(r, 3);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_SPIN);
	window(r, 7);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_YIELD);
	for (i = 0; i < 100; i++)
		window(r, i % 15 == 0 ? 2 : 0);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_YIELD);
	for (i = 0; i < 20; i++)
		window(r, 1);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_SPIN);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_names),
		CASE(test_spin_and_pause),
		CASE(test_yield),
		CASE(test_sleep_grows),
		CASE(test_sleep_until_timer),
		CASE(test_woken),
		CASE(test_no_sleep_with_work),
		CASE(test_set_and_get),
		CASE(test_auto_crowded),
		CASE(test_auto_preempted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
