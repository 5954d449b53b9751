/* SPDX-License-Identifier: BSD-3-Clause */

/* Reactors on real lcores. If there is only one CPU, two lcores share it. */

#include <sched.h>

#include <rte_common.h>
#include <rte_lcore.h>

#include <leat_fabric.h>

#include "reactor_test.h"

/* Not more, since each round may cost a time slice where other programs keep the CPUs busy. */
#define ROUNDS 4000

static unsigned int workers[2];

struct pong {
	struct leat_reactor *r[2];
	unsigned int at, left;
	unsigned int wrong;
};

/*
 * *p is plain memory, which both reactors change in turn: a message must make the changes visible
 * to its receiver.
 */
static void
bounce(void *arg)
{
	struct pong *p = arg;

	p->wrong += leat_reactor_self() != p->r[p->at];
	if (p->left == 0) {
		leat_reactor_stop(p->r[0], 1000000);
		leat_reactor_stop(p->r[1], 1000000);
		return;
	}
	p->left--;
	p->at = 1 - p->at;
	/*
	 * After this call *p belongs to the other reactor. If the call fails, the test hangs, and
	 * is killed.
	 */
	if (leat_reactor_call(p->r[p->at], bounce, p) != 0)
		p->wrong++;
}

static void
ping_pong(enum leat_idle_policy policy, unsigned int rounds)
{
	struct leat_reactor_conf conf = { .idle = { .policy = policy, .spin_us = 1 } };
	struct leat_reactor_stats s;
	struct pong p = { .left = rounds };
	int i;

	for (i = 0; i < 2; i++) {
		p.r[i] = leat_reactor_create(&conf);
		assert_non_null(p.r[i]);
	}
	assert_int_equal(leat_reactor_launch(p.r[0], workers[0]), 0);
	assert_int_equal(leat_reactor_launch(p.r[0], workers[1]), -EBUSY);
	assert_int_equal(leat_reactor_launch(p.r[1], workers[1]), 0);
	assert_int_equal(leat_reactor_call(p.r[0], bounce, &p), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(leat_reactor_wait(p.r[i]), 0);
	assert_int_equal(p.left, 0);
	assert_int_equal(p.wrong, 0);
	leat_reactor_stats_get(p.r[1], &s);
	assert_in_range(s.messages, rounds / 2, rounds / 2 + 1);
	for (i = 0; i < 2; i++)
		assert_int_equal(leat_reactor_destroy(p.r[i]), 0);
}

static void
test_ping_pong(void **state)
{
	(void)state;
	ping_pong(LEAT_IDLE_AUTO, ROUNDS);
	ping_pong(LEAT_IDLE_YIELD, ROUNDS);
}

/* Each hop wakes a sleeper: each lost wake-up would cost 250 us, or hang the test. */
static void
test_ping_pong_asleep(void **state)
{
	(void)state;
	ping_pong(LEAT_IDLE_SLEEP, 2000);
	ping_pong(LEAT_IDLE_BLOCK, 2000);
}

static void
test_launch_refuses(void **state)
{
	struct leat_reactor *r[2] = { test_reactor("a"), test_reactor("b") };

	(void)state;
	assert_int_equal(leat_reactor_launch(r[0], rte_get_main_lcore()), -EINVAL);
	assert_int_equal(leat_reactor_launch(r[0], RTE_MAX_LCORE), -EINVAL);
	assert_int_equal(leat_reactor_launch(r[0], RTE_MAX_LCORE - 1), -EINVAL);
	assert_int_equal(leat_reactor_state(r[0]), LEAT_REACTOR_READY);
	assert_int_equal(leat_reactor_launch(r[0], workers[0]), 0);
	assert_int_equal(leat_reactor_launch(r[1], workers[0]), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), "busy"));
	assert_int_equal(leat_reactor_state(r[1]), LEAT_REACTOR_READY);

	/* Only its lcore may drive r[0] now, and nothing can destroy it. */
	assert_int_equal(leat_reactor_run(r[0]), -EBUSY);
	assert_int_equal(leat_reactor_turn(r[0]), -EBUSY);
	assert_int_equal(leat_reactor_destroy(r[0]), -EBUSY);
	assert_null(leat_reactor_poller_add(r[0], "p", test_poller_fn, NULL, 0));
	assert_int_equal(rte_errno, EPERM);

	leat_reactor_stop(r[0], 1000000);
	assert_int_equal(leat_reactor_wait(r[0]), 0);
	/* The lcore can run r[1] at once, and r[1] can then be launched on the other lcore. */
	assert_int_equal(leat_reactor_launch(r[1], workers[0]), 0);
	leat_reactor_stop(r[1], 1000000);
	assert_int_equal(leat_reactor_wait(r[1]), 0);
	assert_int_equal(leat_reactor_launch(r[1], workers[1]), 0);
	leat_reactor_stop(r[1], 1000000);
	assert_int_equal(leat_reactor_wait(r[1]), 0);
	assert_int_equal(leat_reactor_destroy(r[0]), 0);
	assert_int_equal(leat_reactor_destroy(r[1]), 0);
}

static int
busy_quiesce(void *arg, char *what, size_t len)
{
	(void)arg;
	snprintf(what, len, "something");
	return 1;
}

static void
never_runs(void *arg)
{
	(void)arg;
	fail_msg("a message to a stopped reactor was run");
}

/* A launch that is refused leaves a stopped reactor stopped. */
static void
test_launch_refuses_stopped(void **state)
{
	struct leat_reactor *r[2] = { test_reactor("a"), test_reactor("b") };
	struct test_poller p = { 0 };

	(void)state;
	test_poller_add(r[0], &p, "p", 0);
	assert_int_equal(leat_poller_quiesce_set(p.p, busy_quiesce), 0);
	assert_int_equal(leat_reactor_launch(r[0], workers[0]), 0);
	leat_reactor_stop(r[0], 1000);
	assert_int_equal(leat_reactor_wait(r[0]), -ETIMEDOUT);
	assert_int_equal(leat_reactor_launch(r[1], workers[1]), 0);
	assert_int_equal(leat_reactor_launch(r[0], workers[1]), -EBUSY);
	assert_int_equal(leat_reactor_state(r[0]), LEAT_REACTOR_STOPPED);
	assert_int_equal(leat_reactor_call(r[0], never_runs, NULL), -ESHUTDOWN);
	assert_int_equal(leat_reactor_wait(r[0]), -ETIMEDOUT);
	leat_reactor_stop(r[1], 1000000);
	assert_int_equal(leat_reactor_wait(r[1]), 0);
	assert_int_equal(leat_reactor_destroy(r[0]), 0);
	assert_int_equal(leat_reactor_destroy(r[1]), 0);
}

struct guest {
	struct leat_reactor *r;
	struct leat_poller *p;
	unsigned int calls;
	uint32_t done;
};

static int
guest_poll(void *arg, uint64_t now)
{
	struct guest *g = arg;

	(void)now;
	if (++g->calls == 1000) {
		if (leat_poller_remove(g->p) != 0)
			return -EIO;
		__atomic_store_n(&g->done, 1, __ATOMIC_RELEASE);
	}
	return 1;
}

static void
guest_add(void *arg)
{
	struct guest *g = arg;

	g->p = leat_reactor_poller_add(g->r, "guest", guest_poll, g, 0);
}

/*
 * Pollers are added and removed by message, while other threads read counters and change the
 * policy.
 */
static void
test_watched(void **state)
{
	struct leat_idle_conf idle = { .policy = LEAT_IDLE_YIELD };
	struct leat_reactor *r = leat_reactor_create(NULL);
	struct leat_reactor_stats s;
	struct guest g[20];
	unsigned int i;

	(void)state;
	assert_non_null(r);
	memset(g, 0, sizeof(g));
	assert_int_equal(leat_reactor_launch(r, workers[0]), 0);
	for (i = 0; i < RTE_DIM(g); i++) {
		g[i].r = r;
		assert_int_equal(leat_reactor_call(r, guest_add, &g[i]), 0);
		idle.policy = LEAT_IDLE_PAUSE + i % 3;
		assert_int_equal(leat_reactor_idle_set(r, &idle), 0);
		leat_reactor_idle_get(r, &idle);
		while (__atomic_load_n(&g[i].done, __ATOMIC_ACQUIRE) == 0) {
			leat_reactor_stats_get(r, &s);
			leat_reactor_turn_max_reset(r);
			(void)leat_reactor_idle_effective(r);
			assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_RUNNING);
			(void)sched_yield();
		}
	}
	leat_reactor_stop(r, 1000000);
	assert_int_equal(leat_reactor_wait(r), 0);
	for (i = 0; i < RTE_DIM(g); i++)
		assert_int_equal(g[i].calls, 1000);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.messages, RTE_DIM(g));
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static int
group_setup(void **state)
{
	static char prog[] = "test_lcores", nopci[] = "--no-pci", notel[] = "--no-telemetry";
	static char lcores[] = "--lcores", map[64];
	char *argv[] = { prog, nopci, notel, lcores, map, NULL };
	cpu_set_t set;
	int cpu, first = -1, last = -1;
	unsigned int id, n = 0;

	(void)state;
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -1;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		first = first < 0 ? cpu : first;
		last = cpu;
	}
	/* The main lcore only waits. */
	snprintf(map, sizeof(map), "0@%d,1@%d,2@%d", first, first, last);
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	RTE_LCORE_FOREACH_WORKER(id)
		if (n < 2)
			workers[n++] = id;
	return n == 2 ? 0 : -1;
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
		cmocka_unit_test(test_launch_refuses),
		cmocka_unit_test(test_launch_refuses_stopped),
		cmocka_unit_test(test_ping_pong),
		cmocka_unit_test(test_ping_pong_asleep),
		cmocka_unit_test(test_watched),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
