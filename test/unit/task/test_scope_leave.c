/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * In whichever way a time limit, a mask or a scope's block is left, the task then has the deadline
 * and the mask that it had before.
 */

#include "leave_cases.h"
#include "scope_test.h"
#include "task_pvt.h"

static void
leave(const struct leave_case *c)
{
	const struct leat_task *self = leat_task_current();
	const uint64_t outer = leat_now() + (uint64_t)3600 * 1000000 * US;
	struct leat_task_mask_state mask;

	/* The function is called without a limit, mask or scope around it. */
	print_message("%s\n", c->name);
	assert_int_equal(c->fn(), c->ret);
	assert_int_equal(leat_task_deadline(), LEAT_TASK_NO_DEADLINE);
	assert_int_equal(self->masked, 0);
	/* The function is called in a mask, with a deadline. */
	leat_task_mask(&mask);
	leat_task_deadline_set(outer);
	assert_int_equal(c->fn(), c->ret);
	assert_int_equal(self->masked, 1);
	assert_int_equal(leat_task_deadline(), outer);
	leat_task_unmask(&mask);
	assert_int_equal(leat_task_deadline(), LEAT_TASK_NO_DEADLINE);
	assert_int_equal(self->masked, 0);
}

static int
leave_all(void *arg)
{
	const struct leave_case *c;

	for (c = arg; c->fn != NULL; c++)
		leave(c);
	return 0;
}

static void
test_leave(void **state)
{
	(void)state;
	assert_int_equal(task_test_run(leave_all, (void *)(uintptr_t)leave_cases_c), 0);
	assert_int_equal(task_test_run(leave_all, (void *)(uintptr_t)block_cases_c), 0);
}

static void
test_leave_cxx(void **state)
{
	(void)state;
	if (leave_cases_cxx == NULL) {
		print_message("skipped: no C++ compiler\n");
		skip();
	}
	assert_int_equal(task_test_run(leave_all, (void *)(uintptr_t)leave_cases_cxx), 0);
	assert_int_equal(task_test_run(leave_all, (void *)(uintptr_t)block_cases_cxx), 0);
}

/* A cancelled task leaves a mask by return: afterwards its waits are refused again. */
static int
polite(struct leat_scope *s)
{
	leat_task_masked(({
		assert_true(leat_task_cancelled());
		assert_int_equal(leat_task_sleep(10), 0);
		if (s != NULL)
			return -EIO;
	}));
	return 0;
}

static int
polite_branch(void *arg)
{
	assert_int_equal(leat_task_sleep(1000000), -ECANCELED);
	assert_int_equal(polite(arg), -EIO);
	assert_int_equal(leat_task_sleep(10), -ECANCELED);
	return 0;
}

static int
cancel_polite(void *arg)
{
	struct leat_scope s;
	struct canceller c;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "polite", polite_branch, &s, NULL), 0);
	canceller_start(&s, &c, NULL);
	return leat_scope_wait(&s);
}

RULE(test_mask_left_by_return, cancel_polite)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_leave),
		TEST(test_leave_cxx),
		TEST(test_mask_left_by_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
