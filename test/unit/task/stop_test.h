/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef STOP_TEST_H
#define STOP_TEST_H

/*
 * Tasks that sleep and reactors that stop.
 *
 * The clock advances 10 us in each turn, and the deadlines here are far away: a stop that returns
 * -ESHUTDOWN did not wait for its deadline.
 */

#include <leat_scope.h>

#include "task_pvt.h"
#include "task_test.h"

#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define FOREVER_US 1000000000
#define DEADLINE_US 20000

static inline int
sleep_forever(void *arg)
{
	int ret = leat_task_sleep(FOREVER_US);

	if (arg != NULL)
		*(int *)arg = ret;
	return ret;
}

/*
 * Stop the reactor, and check that it stops before its deadline.
 * @return the number of turns until the reactor has stopped
 */
static inline unsigned int
stop_quietly(struct task_test *t)
{
	unsigned int turns = 0;
	int ret = 0;

	leat_reactor_stop(t->r, DEADLINE_US);
	for (; turns < 1000000 && ret >= 0; turns++) {
		ret = leat_reactor_turn(t->r);
		test_clock += 10 * US;
	}
	if (ret != -ESHUTDOWN)
		fail_msg("%s", leat_err_msg());
	return turns;
}

/*
 * Stop the reactor while tasks do not end: check that the stop times out at its deadline, and that
 * its error text contains `why`.
 */
static inline void
stop_at_deadline(struct task_test *t, uint64_t deadline_us, const char *why)
{
	leat_reactor_stop(t->r, deadline_us);
	assert_int_equal(test_turns_until_stopped(t->r), -ETIMEDOUT);
	if (strstr(leat_err_msg(), why) == NULL)
		fail_msg("%s", leat_err_msg());
}

/* A task that masks cancels and sleeps longer than a stop may take. */
static inline int
stubborn(void *arg)
{
	struct leat_task_mask_state mask;

	leat_task_mask(&mask);
	*(int *)arg = leat_task_sleep(2 * DEADLINE_US);
	leat_task_unmask(&mask);
	return 0;
}

#endif /* STOP_TEST_H */
