/* SPDX-License-Identifier: BSD-3-Clause */

/* Ways out of leat_task_within() and leat_task_masked(). leave_cases_cxx.cc includes this file. */

#include <errno.h>

#include <leat_scope.h>
#include <leat_task.h>

#include "leave_cases.h"

#define LONG_US 1000000

static int
by_value(void)
{
	return leat_task_within(LONG_US, 5 + leat_task_sleep(0));
}

static int
by_timeout(void)
{
	return leat_task_within(10, leat_task_sleep(LONG_US));
}

static int
by_return(void)
{
	int ret = leat_task_within(LONG_US, ({
					   if (leat_task_sleep(0) == 0)
						   return 7;
					   0;
				   }));

	return ret + 100;
}

static int
by_return_of_the_inner(void)
{
	return leat_task_within(LONG_US, 1 + leat_task_within(100, ({
								      if (leat_task_sleep(0) == 0)
									      return 8;
								      0;
							      })));
}

static int
by_break(void)
{
	uint64_t outer = leat_task_deadline();
	int i;

	for (i = 0; i < 5; i++) {
		(void)leat_task_within(LONG_US, ({
					       if (i == 3)
						       break;
					       0;
				       }));
		if (leat_task_deadline() != outer)
			return -1;
	}
	return i;
}

static int
by_continue(void)
{
	uint64_t outer = leat_task_deadline();
	int i, n = 0;

	for (i = 0; i < 5; i++) {
		if (leat_task_deadline() != outer)
			return -1;
		(void)leat_task_within(LONG_US, ({
					       if (i & 1)
						       continue;
					       0;
				       }));
		n++;
	}
	return n;
}

static int
by_goto(void)
{
	(void)leat_task_within(LONG_US, ({
				       if (leat_task_sleep(0) == 0)
					       goto out;
				       0;
			       }));
	return -1;
out:
	return 9;
}

/*
 * leat_scope_break() returns from this function, and cancels nothing: the calling task is no
 * branch.
 */
static int
by_scope_break(void)
{
	(void)leat_task_within(LONG_US, ({
				       leat_scope_break(11);
				       0;
			       }));
	return -1;
}

/* leat_task_within() evaluates each argument once, the time limit too. */
static int
once(void)
{
	uint64_t us = 10;
	int calls = 0;

	(void)leat_task_within(us++, ({
				       calls++;
				       0;
			       }));
	return calls * 100 + (int)us;
}

static int
mask_by_value(void)
{
	const char *word;

	/* The expression may have any type, also void. */
	word = leat_task_masked("masked");
	leat_task_masked((void)leat_task_sleep(0));
	return word[0];
}

static int
mask_by_return(void)
{
	leat_task_masked(({
		if (leat_task_sleep(0) == 0)
			return 12;
	}));
	return -1;
}

/*
 * The outer limit of 0 has no effect inside the mask; the inner limit of 10 us ends the long sleep.
 */
static int
mask_around_limit(void)
{
	int ret = leat_task_within(0,
				   leat_task_masked(leat_task_within(10, leat_task_sleep(LONG_US)) +
						    leat_task_sleep(1)));

	return ret;
}

static int
mask_by_return_from_limit(void)
{
	leat_task_masked(leat_task_within(LONG_US, ({
						  if (leat_task_sleep(0) == 0)
							  return 13;
						  0;
					  })));
	return -1;
}

static int
mask_by_break(void)
{
	int i;

	for (i = 0; i < 5; i++)
		leat_task_masked(({
			if (i == 2)
				break;
		}));
	return i;
}

#ifdef __cplusplus
/* The exception leaves the expression; it does not pass through the library. */
static int
throws(void)
{
	throw 14;
	return 0;
}

static int
by_exception(void)
{
	try {
		return leat_task_within(LONG_US, throws());
	} catch (int thrown) {
		return thrown;
	}
}

static int
mask_by_exception(void)
{
	try {
		return leat_task_masked(throws());
	} catch (int thrown) {
		return thrown;
	}
}
#define CASES leave_cases_cxx
#else
#define CASES leave_cases_c
#endif

const struct leave_case CASES[] = {
	{ "value", by_value, 5 },
	{ "timeout", by_timeout, -ETIMEDOUT },
	{ "return", by_return, 7 },
	{ "return of the inner", by_return_of_the_inner, 8 },
	{ "break", by_break, 3 },
	{ "continue", by_continue, 3 },
	{ "goto", by_goto, 9 },
	{ "scope_break", by_scope_break, 11 },
	{ "once", once, 111 },
	{ "mask: value", mask_by_value, 'm' },
	{ "mask: return", mask_by_return, 12 },
	{ "mask: around limit", mask_around_limit, -ETIMEDOUT },
	{ "mask: return from limit", mask_by_return_from_limit, 13 },
	{ "mask: break", mask_by_break, 2 },
#ifdef __cplusplus
	{ "exception", by_exception, 14 },
	{ "mask: exception", mask_by_exception, 14 },
#endif
	{ NULL, NULL, 0 },
};
