/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef REACTOR_TEST_H
#define REACTOR_TEST_H

/*
 * Several reactors driven from one thread, with a clock that stands still unless the test advances
 * it.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_dev.h>
#include <leat_error.h>
#include <leat_reactor.h>
#include <leat_time.h>

#include "leat_cmocka.h"

/* A microsecond, in cycles of the mock clock. */
#define US 1000
#define MS (1000 * US)

static volatile uint64_t test_clock;

static inline int
test_clock_setup(void **state)
{
	(void)state;
	test_clock = 1000000;
	leat_clock_mock_set(&test_clock);
	return 0;
}

/* Start leat with the mock device; for groups of tests that have an endpoint. */
static inline int
test_mock_start(void **state)
{
	static char prog[] = "test", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char dev[] = "--vdev=fabric_mock0", notel[] = "--no-telemetry";
	static char notune[] = "--no-tune";
	char *argv[] = { prog, nopci, l, zero, notel, notune, dev, NULL };

	(void)state;
	if (leat_init(7, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static inline int
test_mock_stop(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return leat_cleanup();
}

/* Create a reactor that spins when idle, so that a turn does only what the test looks at. */
static inline struct leat_reactor *
test_reactor(const char *name)
{
	struct leat_reactor_conf conf = { .name = name, .idle.policy = LEAT_IDLE_SPIN };
	struct leat_reactor *r = leat_reactor_create(&conf);

	assert_non_null(r);
	return r;
}

/* A poller that returns a given value, and counts its calls. */
struct test_poller {
	int ret;
	uint64_t cost; /* cycles by which a call advances the clock */
	unsigned int calls;
	uint64_t now; /* timestamp of the last call */
	struct leat_poller *p;
};

static inline int
test_poller_fn(void *arg, uint64_t now)
{
	struct test_poller *t = arg;

	t->calls++;
	t->now = now;
	test_clock += t->cost;
	return t->ret;
}

static inline void
test_poller_add(struct leat_reactor *r, struct test_poller *t, const char *name, uint64_t period_us)
{
	t->p = leat_reactor_poller_add(r, name, test_poller_fn, t, period_us);
	assert_non_null(t->p);
}

static inline void
test_turns(struct leat_reactor *r, unsigned int n)
{
	while (n-- > 0)
		assert_true(leat_reactor_turn(r) >= 0);
}

/*
 * Turn until the reactor has stopped; 10 us pass in each turn.
 * @return the last result of leat_reactor_turn()
 */
static inline int
test_turns_until_stopped(struct leat_reactor *r)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < 100000 && ret >= 0; i++) {
		ret = leat_reactor_turn(r);
		test_clock += 10 * US;
	}
	return ret;
}

#endif /* REACTOR_TEST_H */
